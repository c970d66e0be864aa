/* What takes a kernel's time, by lines: parts of the bill, those together that add up, and what follows the products. */
#include "tool/report/explain/explain.h"

#include <string.h>

static const char BEHIND[] = "what follows the products";

/* Of arithmetic behind products, that overlaps with nothing. */
static double
behind_us(const Explain *s)
{
	return s->us > 0 ? bill_us(&s->x->bill, s->x->t, s->x->bill.behind) : 0;
}

/* "waiting, L2 cache and shared memory" */
const char *
explain_names(const Explain *s, const TextList *l)
{
	TextList head = *l;
	head.n--;
	return l->n < 2 ? l->at[0]
			: arena_printf(
			      s->mem, "%s and %s", explain_join(s, &head, ", "), l->at[l->n - 1]);
}

/* "other threads' values (61 %) and results of arithmetic of division (37 %)": all that is much of it. */
const char *
explain_wait(const Explain *s, const LineBill *l)
{
	static const double MUCH = .2;
	TextList all = {0};
	for (double below = 2, share = 0; share >= 0; below = share) {
		int next = -1;
		for (int i = 0; i < PATH_PARTS; i++)
			if (l->waits[i] >= MUCH && l->waits[i] < below && (next < 0 || l->waits[i] > l->waits[next]))
				next = i;
		share = next < 0 ? -1 : l->waits[next];
		const char *functions = next == PATH_ARITHMETIC ? explain_functions(s, l->line) : "";
		const char *part = share < 1 - MUCH ? arena_printf(s->mem, " (%.0f %%)", 100 * share) : "";
		if (next >= 0)
			explain_add(s, &all, arena_printf(s->mem, "%s%s%s%s", bill_wait_names[next],
						 *functions ? " of " : "", functions, part));
	}
	return all.n ? explain_names(s, &all) : l->wait ? l->wait : "";
}

/* Does nothing but a loop begin there whose copies have mbarriers? */
static bool
has_ring(const Explain *s, int line)
{
	bool has = false;
	for (int i = 0; i < s->lines.n; i++) {
		const ExplainLine *l = &s->lines.at[i];
		has |= l->line == line && strcmp(l->what, "mbarriers") == 0;
		if (l->line == line && strncmp(l->what, "dot", 3) == 0)
			return false;
	}
	return has;
}

/* Is it a line below the last product, whose results the bill has apart? */
static bool
is_behind(const Explain *s, const LineBill *l)
{
	int last = 0;
	for (int i = 0; i < s->lines.n; i++)
		last = strncmp(s->lines.at[i].what, "dot", 3) == 0 ? MAX(last, s->lines.at[i].line)
								   : last;
	return s->x->bill.behind > 0 && last > 0 && l->file == s->x->f->place.file &&
	       l->line > last;
}

/* "181 instructions of a warp for a program, 40 % shifts and logic …", where SASS was counted. */
static const char *
with_count(const Explain *s, int line, const char *mix)
{
	double n = json_number_value(json_object_get(
	    json_object_get(s->counted, "lines"), arena_printf(s->mem, "%d", line)));
	if (n <= 0)
		return mix;
	return arena_printf(s->mem, "%s instructions of a warp for a program%s%s", explain_round(s, n), *mix ? ", " : "",
	    mix);
}

const char *
explain_doing(const Explain *s, int line)
{
	static const double LITTLE = .15;
	const char *functions = explain_functions(s, line);
	int all = explain_count_code(s, line, NULL, 0, NULL), own = 0, most = 0, col = 0;
	uint64_t seen = 0;
	TextList names = {0};
	for (const Op *op = s->x->f->body->first; op; op = op_after(op, s->x->f->body)) {
		uint64_t bit = UINT64_C(1) << (op->place.col & 63);
		bool is_here = op->place.line == line && op->place.file == s->x->f->place.file;
		if (!is_here || !explain_is_function(op) || seen & bit)
			continue;
		seen |= bit;
		own += explain_count_at(s, line, op->place.col);
	}
	for (int i = 0; i < s->lines.n; i++) {
		int n = s->lines.at[i].line == line ? explain_count_at(s, line, s->lines.at[i].col) : 0;
		col = n > most ? s->lines.at[i].col : col;
		most = MAX(most, n);
	}
	if (!*functions || own >= LITTLE * all || most < all / 2)
		return functions;
	for (int i = 0; i < s->lines.n; i++)
		if (s->lines.at[i].line == line && s->lines.at[i].col == col && s->lines.at[i].x->kind != INSPECT_BARRIER)
			explain_add(s, &names, s->lines.at[i].what);
	return names.n ? explain_names(s, &names) : functions;
}

/* "line 8 34.1 µs, line 10 9.58 µs" of a part, the most first. */
static const char *
lines_of(const Explain *s, BillPart p)
{
	enum { SHOWN = 3 };
	TextList all = {0};
	double part = explain_part(s, p);
	SpentLines lines = explain_lines_by(s, p);
	for (int i = 0; i < lines.n && all.n < SHOWN; i++) {
		const LineBill *l = lines.at[i];
		if (p == BILL_ISSUE && is_behind(s, l))
			continue;
		if (explain_spent_us(s, l, p) < part / 10)
			break;
		const char *mix = p == BILL_ISSUE && all.n == 0 ? explain_mix(s, l->line) : "";
		if (p == BILL_ISSUE && all.n == 0)
			mix = with_count(s, l->line, mix);
		bool ring = p == BILL_ISSUE && has_ring(s, l->line);
		const char *functions = p == BILL_SPECIAL ? explain_specials(s, l->line)
					: p == BILL_ISSUE ? explain_doing(s, l->line)
							  : "";
		TextList of = {0};
		if (p == BILL_WAITING && l->wait)
			explain_add(s, &of, arena_printf(s->mem, "for %s", explain_wait(s, l)));
		explain_add(s, &of, *functions ? arena_printf(s->mem, "of %s", functions) : "");
		explain_add(s, &of, mix);
		explain_add(s, &of, ring && !*mix ? "for the ring's slots and mbarriers" : "");
		explain_add(s, &all,
		    arena_printf(s->mem, "line %d %s%s%s", l->line,
			explain_micro(s, explain_spent_us(s, l, p)), of.n ? " " : "",
			explain_join(s, &of, ", ")));
	}
	double rest = part;
	for (int i = 0; i < s->x->spent.n; i++)
		rest -= s->x->spent.at[i].file == s->x->f->place.file
			    ? explain_spent_us(s, &s->x->spent.at[i], p)
			    : 0;
	if (rest > part / 10 && p != BILL_START)
		explain_add(s, &all,
		    arena_printf(s->mem, "%s of %s", explain_micro(s, rest),
			s->x->bill.spilled > 0 ? "spills" : "no line"));
	return all.n ? arena_printf(s->mem, " (%s)", explain_join(s, &all, ", ")) : "";
}

/* "line 9 14.3 µs and line 10 3 µs of instructions": of lines below the last product. */
static const char *
behind_products(const Explain *s)
{
	TextList all = {0};
	for (int i = 0; i < s->x->spent.n; i++) {
		const LineBill *l = &s->x->spent.at[i];
		if (is_behind(s, l) && explain_spent_us(s, l, BILL_ISSUE) > s->us / 100)
			explain_add(s, &all,
			    arena_printf(s->mem, "line %d %s", l->line,
				explain_micro(s, explain_spent_us(s, l, BILL_ISSUE))));
	}
	return all.n ? arena_printf(s->mem, "%s of instructions", explain_names(s, &all)) : "";
}

/* "shared memory, shuffles and requests of warps", "device memory with atomics". */
const char *
explain_term_name(const Explain *s, BillPart p)
{
	BillPart with[BILL_PARTS];
	TextList all = {0};
	int n = explain_joined(s, p, with);
	if (n == 1)
		return bill_part_names[p];
	if (p == BILL_MEMORY || p == BILL_ATOMICS)
		return arena_printf(s->mem, "%s with %s", bill_part_names[p], bill_part_names[with[1]]);
	for (int i = 0; i < n; i++)
		explain_add(s, &all, bill_part_names[with[i]]);
	return explain_names(s, &all);
}

/* " (shared memory 7.94 µs (line 7 7.94 µs), shuffles …)" of a term of several parts. */
static const char *
lines_of_term(const Explain *s, BillPart p)
{
	BillPart with[BILL_PARTS];
	TextList all = {0};
	int n = explain_joined(s, p, with);
	if (n == 1)
		return lines_of(s, p);
	for (int i = 0; i < n; i++)
		explain_add(s, &all,
		    arena_printf(s->mem, "%s%s %s%s", bill_part_names[with[i]], explain_gloss(s, (int)with[i]),
			explain_micro(s, explain_part(s, with[i])), lines_of(s, with[i])));
	return arena_printf(s->mem, ": %s", explain_join(s, &all, ", "));
}

int
explain_taken(const Explain *s, Taken out[TAKEN_MOST])
{
	enum { SHOWN = TAKEN_MOST - 1 };
	BillPart part[BILL_PARTS];
	int n = 0, at = 0;
	double behind = behind_us(s);
	double term[BILL_PARTS];
	explain_terms(s, term);
	explain_ranked(term, part);
	for (; n < SHOWN && (n == 0 || term[part[n]] >= .1 * term[part[0]]); n++)
		out[n] = (Taken){term[part[n]], explain_term_name(s, part[n]), lines_of_term(s, part[n]), (int)part[n]};
	if (behind < .1 * term[part[0]])
		return n;
	while (at < n && out[at].us >= behind)
		at++;
	for (int i = n; i > at; i--)
		out[i] = out[i - 1];
	const char *lines = behind_products(s);
	out[at] = (Taken){behind, BEHIND, *lines ? arena_printf(s->mem, " (%s)", lines) : "", -1};
	return n + 1;
}
