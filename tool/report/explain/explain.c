/* Figures as they are read, lists of sentences, and all of it as JSON. */
#include "tool/report/explain/explain.h"

#include "compile/choose/choose.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

void
explain_add(const Explain *s, TextList *l, const char *text)
{
	for (int i = 0; i < l->n; i++)
		if (strcmp(l->at[i], text) == 0)
			return;
	if (*text)
		vec_push(s->mem, l, text);
}

const char *
explain_join(const Explain *s, const TextList *l, const char *between)
{
	Text t = {0};
	text_put(&t, "");
	for (int i = 0; i < l->n; i++)
		text_printf(&t, "%s%s", i ? between : "", l->at[i]);
	return text_take(&t, s->mem);
}

/* Decimals that leave a number `digits` digits. */
static int
decimals(double v, int digits)
{
	char text[32];
	number_format(text, sizeof text, "%.*e", digits - 1, v);
	int n = digits - 1 - atoi(strchr(text, 'e') + 1);
	return MAX(n, 0);
}

const char *
explain_round(const Explain *s, double v)
{
	if (v == floor(v) && fabs(v) < 1e6)
		return arena_printf(s->mem, "%.0f", v);
	double unit = pow(10, floor(log10(fabs(v))) - 2);
	return arena_printf(s->mem, "%.12g", round(v / unit) * unit);
}

const char *
explain_micro(const Explain *s, double us)
{
	if (us < 0.01)
		return arena_printf(s->mem, "%.1e µs", us);
	return arena_printf(s->mem, "%.*f µs", us < 100 ? decimals(us, 3) : 0, us);
}

const char *
explain_mega(const Explain *s, double us)
{
	double mb = us * s->bytes_us / 1e6;
	return mb < 1 ? "less than 1 MB" : arena_printf(s->mem, "%s MB", explain_round(s, mb));
}

const char *
explain_units(const Explain *s, const char *text)
{
	Text t = {0};
	for (const char *at; (at = strstr(text, " us")); text = at + 3) {
		bool is_unit = at > text && char_is_digit(at[-1]) && !char_is_letter(at[3]);
		text_printf(&t, "%.*s%s", (int)(at - text), text, is_unit ? " µs" : " us");
	}
	text_put(&t, text);
	return text_take(&t, s->mem);
}

const char *
explain_sentence(const Explain *s, const char *text)
{
	char *out = arena_strdup(s->mem, text);
	*out = *out >= 'a' && *out <= 'z' ? (char)(*out - 'a' + 'A') : *out;
	return out;
}

bool
explain_begins(const char *text, const char *const *with, int n)
{
	return ANY_OF(i, n, strncmp(text, with[i], strlen(with[i])) == 0);
}

double
explain_part(const Explain *s, BillPart p)
{
	return s->us > 0 ? bill_us(&s->x->bill, s->x->t, s->x->bill.part[p]) : 0;
}

const LineBill *
explain_spent(const Explain *s, int line)
{
	for (int i = 0; i < s->x->spent.n; i++) {
		const LineBill *l = &s->x->spent.at[i];
		if (l->file == s->x->f->place.file && l->line == line)
			return l;
	}
	return NULL;
}

double
explain_spent_us(const Explain *s, const LineBill *l, BillPart p)
{
	return l && s->us > 0 ? bill_us(&s->x->bill, s->x->t, l->part[p]) : 0;
}

bool
explain_matters(const Explain *s, double us)
{
	return us >= s->us / 100;
}

bool
explain_is_rare(const ExplainLine *l)
{
	return l->most > 0 && l->runs >= 0 && l->runs < .3 * l->most;
}

bool
explain_weighs(const Explain *s, int line)
{
	const LineBill *l = explain_spent(s, line);
	for (int p = 0; l && p < BILL_PARTS; p++)
		if (explain_matters(s, explain_spent_us(s, l, (BillPart)p)))
			return true;
	return false;
}

BillPart
explain_longest(const Explain *s, int but)
{
	int most = but == 0;
	for (int p = 0; p < BILL_PARTS; p++)
		if (p != but && s->x->bill.part[p] > s->x->bill.part[most])
			most = p;
	return (BillPart)most;
}

int
explain_joined(const Explain *s, BillPart p, BillPart out[BILL_PARTS])
{
	static const double LITTLE = .01, MUCH = .45; /* of the sum; of the longer one, to which that adds a tenth */
	const Bill *b = &s->x->bill;
	double all = bill_term(b, p), memory = b->part[BILL_MEMORY], atomics = b->part[BILL_ATOMICS];
	BillPart order[BILL_PARTS];
	int n = 0;
	out[n++] = p;
	if (p == BILL_MEMORY || p == BILL_ATOMICS) {
		out[n] = p == BILL_MEMORY ? BILL_ATOMICS : BILL_MEMORY;
		return n + (b->each > 0 && MIN(memory, atomics) >= MUCH * MAX(memory, atomics));
	}
	explain_ranked(b->part, order);
	for (int i = 0; i < BILL_PARTS && all > b->part[p]; i++)
		if (order[i] != p && bill_term(b, order[i]) == all && b->part[order[i]] >= LITTLE * all)
			out[n++] = order[i];
	return n;
}

double
explain_term(const Explain *s, BillPart p)
{
	BillPart with[BILL_PARTS];
	const Bill *b = &s->x->bill;
	bool joined = explain_joined(s, p, with) > 1;
	double cycles = !joined           ? b->part[p]
			: p == BILL_MEMORY || p == BILL_ATOMICS ? hypot(b->part[BILL_MEMORY], b->part[BILL_ATOMICS])
								: bill_term(b, p);
	return s->us > 0 ? bill_us(b, s->x->t, cycles) : 0;
}

void
explain_terms(const Explain *s, double out[BILL_PARTS])
{
	BillPart order[BILL_PARTS], with[BILL_PARTS];
	for (int p = 0; p < BILL_PARTS; p++)
		out[p] = explain_term(s, (BillPart)p);
	explain_ranked(s->x->bill.part, order);
	for (int i = 0; i < BILL_PARTS; i++) {
		int n = out[order[i]] > 0 ? explain_joined(s, order[i], with) : 0;
		for (int k = i + 1; k < BILL_PARTS && n > 1; k++) {
			bool little = with[1] != BILL_ATOMICS && with[1] != BILL_MEMORY && out[order[k]] == out[order[i]];
			out[order[k]] = little || ANY_OF(m, n, with[m] == order[k]) ? 0 : out[order[k]];
		}
	}
}

BillPart
explain_bounding(const Explain *s)
{
	double term[BILL_PARTS];
	BillPart order[BILL_PARTS];
	explain_terms(s, term);
	explain_ranked(term, order);
	return order[0];
}

static double
longest_term(const Bill *b)
{
	double most = 0;
	for (int p = 0; p < BILL_PARTS; p++)
		most = MAX(most, bill_term(b, (BillPart)p));
	return most;
}

double
explain_shorter(const Explain *s, const double less[BILL_PARTS])
{
	if (s->us <= 0)
		return 0;
	Bill b = s->x->bill;
	const double scale = bill_us(&b, s->x->t, 1), now = longest_term(&b);
	for (int p = 0; p < BILL_PARTS; p++)
		b.part[p] = MAX(b.part[p] - less[p] / scale, 0);
	if (b.each <= 0)
		return s->us - scale * (now - longest_term(&b));
	Bill before = s->x->bill;
	bill_again(&before);
	bill_again(&b);
	return s->us * (1 - (before.cycles - b.cycles) / s->x->bill.cycles);
}

double
explain_with(const Explain *s, BillPart p, double less)
{
	double all[BILL_PARTS] = {0};
	all[p] = less;
	return explain_shorter(s, all);
}

double
explain_other(const Explain *s)
{
	return s->us > 0 ? s->x->other / s->x->t->rates->clock : 0;
}

double
explain_tried(const Explain *s, double cycles)
{
	return cycles / target_rates(s->x->t)->clock + explain_other(s);
}

double
explain_alone(const Explain *s)
{
	static const double MUCH = .15;
	double own = s->us - explain_other(s), alone = own - explain_part(s, explain_longest(s, -1));
	return s->us > 0 && s->x->bill.each <= 0 && s->x->bill.part[BILL_PRODUCTS] > 0 && alone > MUCH * own
		   ? alone
		   : 0;
}

int
explain_resident(const Explain *s)
{
	const TargetRates *r = s->x->t->rates;
	double each = r && s->x->grid > 0 ? ceil(s->x->grid / r->multiprocessors) : s->x->blocks;
	return MIN(s->x->blocks, (int)MIN(each, (double)INT_MAX));
}

const char *
explain_behind(const Explain *s, const char *head)
{
	const char *at = strstr(s->summary, head);
	at = at ? at + strlen(head) : "";
	return arena_strndup(s->mem, at, strcspn(at, "\n"));
}

/* What a barrier stands between, "write of 8:9 writes y, which write of 8:9 writes": of trips that
 * are unrolled the one before is no other than an earlier iteration. */
static const char *
needs(const Explain *s, const ExplainLine *l)
{
	static const char earlier[] = " in an earlier iteration";
	TextList all = {0};
	for (int i = 0; i < l->conflicts.n; i++) {
		const char *c = l->conflicts.at[i],
			   *at = *explain_unrolled(s) ? strstr(c, earlier) : NULL;
		explain_add(s, &all,
		    at ? arena_printf(s->mem, "%.*s%s", (int)(at - c), c, at + sizeof earlier - 1)
		       : c);
	}
	return explain_join(s, &all, ",");
}

static bool
is_same(const Explain *s, const ExplainLine *a, const ExplainLine *b)
{
	size_t head = strcspn(a->details, ":");
	return a->x->pair && b->x->pair && a->most >= 0 && b->most >= 0 &&
	       strcmp(a->what, b->what) == 0 && head == strcspn(b->details, ":") &&
	       strncmp(a->details, b->details, head) == 0 && strcmp(needs(s, a), needs(s, b)) == 0;
}

static void
merge(const Explain *s, ExplainLines *all, const ExplainLine *l)
{
	int had = 0;
	while (had < all->n && !is_same(s, &all->at[had], l))
		had++;
	if (had == all->n) {
		vec_push(s->mem, all, *l);
		return;
	}
	double runs = all->at[had].runs + l->runs, most = all->at[had].most + l->most;
	if (l->conflicts.n <= all->at[had].conflicts.n &&
	    strstr(l->details, " in an earlier iteration"))
		all->at[had] = *l;
	all->at[had].runs = runs;
	all->at[had].most = most;
}

ExplainLines
explain_merged(const Explain *s, int line)
{
	ExplainLines all = {0};
	for (int i = 0; i < s->lines.n; i++)
		if (s->lines.at[i].line == line)
			merge(s, &all, &s->lines.at[i]);
	return all;
}

void
explain_ranked(const double part[BILL_PARTS], BillPart out[BILL_PARTS])
{
	for (int p = 0; p < BILL_PARTS; p++) {
		int at = p;
		for (; at > 0 && part[out[at - 1]] < part[p]; at--)
			out[at] = out[at - 1];
		out[at] = (BillPart)p;
	}
}

SpentLines
explain_lines_by(const Explain *s, BillPart p)
{
	SpentLines all = {0};
	for (int i = 0; i < s->x->spent.n; i++) {
		const LineBill *l = &s->x->spent.at[i];
		if (l->file != s->x->f->place.file || l->part[p] <= 0)
			continue;
		vec_push(s->mem, &all, l);
		for (int at = all.n - 1; at > 0 && all.at[at - 1]->part[p] < l->part[p]; at--) {
			all.at[at] = all.at[at - 1];
			all.at[at - 1] = l;
		}
	}
	return all;
}

const LineBill *
explain_most(const Explain *s, BillPart p)
{
	SpentLines all = explain_lines_by(s, p);
	return all.n ? all.at[0] : NULL;
}

/* ---- as JSON ---- */

static void
read_lines(Explain *s)
{
	double stays = 0; /* the share of programs that do not leave early */
	for (int i = 0; i < s->x->lines.n && choose_leaves(s->x->f); i++)
		if (s->x->lines.at[i].runs_most > 0)
			stays = MAX(stays, s->x->lines.at[i].runs / s->x->lines.at[i].runs_most);
	for (int i = 0; i < s->x->lines.n; i++) {
		const InspectLine *x = &s->x->lines.at[i];
		ExplainLine l = {.x = x,
		    .what = x->what,
		    .line = x->op->place.line,
		    .col = x->op->place.col,
		    .runs = stays > 0 && x->runs > 0 ? MIN(x->runs / stays, x->runs_most) : x->runs,
		    .most = x->runs_most};
		Text details = {0}, tile = {0}, conflict = {0};
		text_put(&details, "");
		text_put(&tile, "");
		inspect_details(x, &details);
		if (x->tile)
			type_print(x->tile, &tile);
		for (int nth = 0; inspect_conflict(x, &nth, &conflict); conflict.n = 0)
			vec_push(s->mem, &l.conflicts, arena_strdup(s->mem, conflict.at));
		text_close(&conflict);
		l.details = text_take(&details, s->mem);
		l.tile = text_take(&tile, s->mem);
		vec_push(s->mem, &s->lines, l);
	}
}

static void
read_source(Explain *s, const char *at)
{
	for (; *at; at += strcspn(at, "\n"), at += *at == '\n')
		vec_push(s->mem, &s->source, arena_strndup(s->mem, at, strcspn(at, "\n")));
	s->nsource = s->source.n;
}

static json_t *
answer(const char *question, void (*say)(const Explain *, Answer *), const Explain *s)
{
	Answer a = {.brief = ""};
	json_t *all = json_array();
	say(s, &a);
	for (int i = 0; i < a.says.n; i++)
		json_array_append_new(all, json_string(a.says.at[i]));
	return json_pack("{s:s, s:s, s:o}", "question", question, "brief", a.brief, "says", all);
}

static json_t *
answers(const Explain *s)
{
	return json_pack("[o, o, o, o]", answer("Are accesses coalesced?", explain_coalesced, s),
	    answer("Why is it not faster?", explain_bound, s),
	    answer("Where do barriers come from?", explain_barriers, s),
	    answer("Which matrix instruction?", explain_products, s));
}

static json_t *
lines(const Explain *s)
{
	json_t *all = json_array();
	for (int line = 1; line <= s->nsource; line++) {
		json_t *below = explain_below(s, line), *chosen = explain_chosen(s, line);
		bool any = json_array_size(below) || json_array_size(chosen);
		json_t *j =
		    json_pack("{s:i, s:o, s:o}", "line", line, "below", below, "chosen", chosen);
		if (any)
			json_array_append(all, j);
		json_decref(j);
	}
	return all;
}

void
report_say(json_t *kernel, const char *source, const Inspection *x, const Bound *b,
    const ChooseWhy *why, Arena *mem)
{
	double clock = x->t->rates ? x->t->rates->clock : 1;
	const json_t *bill = json_object_get(kernel, "bill");
	Explain s = {.mem = mem,
	    .x = x,
	    .b = b,
	    .why = why,
	    .limits = json_object_get(kernel, "limits"),
	    .variants = json_object_get(kernel, "variants"),
	    .profile = json_object_get(kernel, "profile"),
	    .warnings = json_object_get(kernel, "warnings"),
	    .timeline = json_object_get(kernel, "timeline"),
	    .counted = json_object_get(kernel, "code"),
	    .time = json_object_get(kernel, "time"),
	    .is_beside = json_object_get(kernel, "role") != NULL,
	    .summary = json_string_value(json_object_get(kernel, "summary")),
	    .sizes_of = json_string_value(json_object_get(kernel, "sizes_of")),
	    .us = x->bill.cycles > 0 ? x->bill.cycles / clock : 0,
	    .measured = json_number_value(json_object_get(kernel, "measured_us")),
	    .compared = x->compared / clock,
	    .wgmma_us = json_number_value(json_object_get(bill, "wgmma_products_us")),
	    .bytes_us = json_number_value(json_object_get(bill, "memory_bytes_us"))};
	read_source(&s, source);
	read_lines(&s);
	explain_read_code(&s, json_object_get(kernel, "stages"));
	json_object_set_new(kernel, "answers", answers(&s));
	json_object_set_new(kernel, "notes", lines(&s));
	json_object_set_new(kernel, "words", explain_words());
	json_object_set_new(kernel, "rounds", json_string(explain_rounds(&s)));
}
