/* What a part of the bill is, and what to change so that it is less: what was found for it, with the most that it
 * saves by the model; else what makes such a part less at all, or that nothing does. */
#include "tool/report/explain/explain.h"

#include <stdlib.h>
#include <string.h>

static const double FLOOR = 1.1, EVEN = 1.01; /* times the bytes that are different: little is left; nothing */

/* ---- what it is ---- */

/* " (ALU pipe)": what of a multiprocessor instructions take; "": they were not counted. */
const char *
explain_pipe(const Explain *s)
{
	const char *pipe = json_string_value(json_object_get(s->counted, "pipe"));
	return pipe                         ? arena_printf(s->mem, " (%s pipe)", pipe)
	       : json_is_object(s->counted) ? " (issue slots)"
					    : "";
}

/* Instructions go through pipes, of which some begin one each second cycle, by slots of the schedulers. */
static const char *
gloss_of_instructions(const Explain *s)
{
	const char *pipe = json_string_value(json_object_get(s->counted, "pipe"));
	if (!json_is_object(s->counted))
		return " (turns that they take to begin)";
	if (!pipe)
		return " (issue slots: no pipe is busy longer)";
	return arena_printf(s->mem, " (the %s pipe, of %s, which takes two cycles or more for each; issue slots alone %s)",
	    pipe, json_string_value(json_object_get(s->counted, "pipe_takes")),
	    explain_micro(s, json_number_value(json_object_get(s->counted, "slots_us"))));
}

/* What a part of the bill is, where its name does not say it. */
const char *
explain_gloss(const Explain *s, int part)
{
	static const char *const of[BILL_PARTS] = {
	    [BILL_SECTORS] = " (sectors of 32 bytes that come through it)",
	    [BILL_REQUESTS] = " (turns that warps' loads and stores take at their multiprocessor)",
	    [BILL_SPECIAL] = " (the unit for exp, sin, 1 / x and conversions)",
	    [BILL_SHUFFLES] = " (values from thread to thread of a warp)",
	    [BILL_SHARED] = " (passes over its banks)",
	    [BILL_PRODUCTS] = " (tensor cores)",
	    [BILL_WAITING] = " (latencies that no other warp hides)"};
	return part == BILL_ISSUE ? gloss_of_instructions(s) : part >= 0 && of[part] ? of[part] : "";
}

/* ---- functions ---- */

/* Of sines and such, what reduces large angles is left out of the estimate: 8 sin of 8 M numbers of
 * up to 4 M take an H200 204 us, of up to 800 64. */
void
explain_angle_suggestions(const Explain *s, Suggestions *all)
{
	static const double MUCH = .2;
	double whole = json_number_value(json_object_get(s->counted, "instructions"));
	const json_t *n;
	const char *line;
	json_object_foreach((json_t *)json_object_get(s->counted, "left"), line, n)
	{
		const char *of = explain_functions(s, atoi(line));
		bool angles = strstr(of, "sin") || strstr(of, "cos") || strstr(of, "tan");
		if (angles && json_number_value(n) > MUCH * whole)
			explain_suggest(s, all, 0, BILL_ISSUE,
			    arena_printf(s->mem,
				"where data has angles beyond 105,615, of which the estimate has "
				"none, a warp takes up to "
				"%s instructions more in line %s, of %s in all: a - 6.2831853 * "
				"round(a / 6.2831853) before "
				"it, or fast::, has no such branch",
				explain_round(s, json_number_value(n)), line,
				explain_round(s, whole)));
	}
}

/* ---- parts ---- */

static bool
is_gathered(const Explain *s, int line)
{
	double least;
	return ANY_OF(i, s->lines.n,
	    s->lines.at[i].line == line && s->lines.at[i].x->accesses > 0 &&
		explain_sectors(&s->lines.at[i], &least) < 0);
}

/* Does one of the lines that wait most wait for much of that for a function or division? */
static bool
waits_for_functions(const Explain *s)
{
	enum { FIRST = 3 };
	static const double MUCH = .2;
	SpentLines lines = explain_lines_by(s, BILL_WAITING);
	return ANY_OF(i, MIN(lines.n, FIRST),
	    lines.at[i]->waits[PATH_ARITHMETIC] >= MUCH && explain_is_slow(s, lines.at[i]->line));
}

static const char *
way_of_waiting(const Explain *s)
{
	const LineBill *l = explain_most(s, BILL_WAITING);
	const char *held = explain_behind(s, "warps on a multiprocessor, ");
	const char *more =
	    *held ? arena_printf(s->mem, "more warps at once, which are %s", held) : "";
	const char *of = l && l->wait && strcmp(l->wait, "memory's latency") == 0
			     ? "reads that begin earlier, or more of them before the first is used"
			 : l && l->wait && strcmp(l->wait, "other warps, at a barrier") == 0
			     ? "fewer barriers, or fewer warps at each"
			     : "results that do not follow from one another";
	const char *slow = waits_for_functions(s)
			       ? arena_printf(s->mem, "%s, where that precision suffices, or ", explain_slow(s))
			       : "";
	return arena_printf(s->mem, "%s%s%s%s", slow, of, *more ? ", or " : "", more);
}

static const char *
way_of_requests(const Explain *s)
{
	const LineBill *l = explain_most(s, BILL_REQUESTS);
	return l && is_gathered(s, l->line)
		   ? arena_printf(s->mem,
			 "fewer gathers for each result, or indices in order: each lane of line "
			 "%d's reads a place of its own, "
			 "so that an access takes a turn for four sectors, up to eight, where "
			 "adjacent lanes take one",
			 l->line)
		   : "fewer, wider accesses";
}

/* A part of a tile that was read whole, in the line that exchanges most, is another thread's: read by
 * itself it is in place. */
static const char *
way_of_shuffles(const Explain *s)
{
	const LineBill *l = explain_most(s, BILL_SHUFFLES);
	const Func *f = s->x->f;
	for (const Op *op = f->body->first; l && op; op = op_after(op, f->body)) {
		const Op *from = op->kind == OP_EXTRACT && op->place.line == l->line ? op->in[0]->def : NULL;
		while (from && (from->kind == OP_CONVERT || from->kind == OP_CAST))
			from = from->in[0]->def;
		if (from && from->kind == OP_READ && from->in[0]->name)
			return arena_printf(s->mem,
			    "line %d's parts of %s each read by themselves: line %d reads them as one tile, "
			    "whose parts lie in other threads than use them",
			    l->line, from->in[0]->name, from->place.line);
	}
	return "threads that exchange less: more elements of a row in each";
}

static const char *
way_of_shared(const Explain *s)
{
	const LineBill *l = explain_most(s, BILL_SHARED);
	const Func *f = s->x->f;
	bool tallies = l && ANY_OP(op, f->body, op->kind == OP_TALLY && op->place.line == l->line);
	return tallies ? arena_printf(s->mem,
			     "fewer of line %d's atomics on the block's table: values of one place joined in a thread "
			     "before",
			     l->line)
	       : explain_part(s, BILL_PRODUCTS) > 0
		   ? "larger tiles, or more columns of an instruction, whose operands are read for more products each"
	       : l ? arena_printf(s->mem, "less of line %d through shared memory", l->line)
		   : "less through shared memory";
}

/* Where nothing was found. */
static const char *
way_of(const Explain *s, BillPart p)
{
	const LineBill *l = explain_most(s, p);
	switch (p) {
	case BILL_MEMORY:
		return explain_part(s, p) > FLOOR * explain_least_memory(s) ? "fewer bytes, or each once"
		       : explain_part(s, p) > EVEN * explain_least_memory(s)
			   ? arena_printf(s->mem,
				 "nearly nothing, it is %.2f times the floor, by which each byte goes once: beyond that "
				 "only smaller dtypes or fewer passes take less",
				 explain_part(s, p) / explain_least_memory(s))
			   : "nothing, it is at the floor: each byte goes once, and only smaller "
			     "dtypes or fewer passes take less";
	case BILL_SECTORS:
		return "programs that have more of their reads in common, as of larger tiles, or "
		       "each of which reads nothing several times";
	case BILL_ATOMICS:
		return "what goes to one place joined before an atomic operation takes it there (the estimate has "
		    "places hit "
		       "evenly: where one had 3 % of all an H200 took twice as long)";
	case BILL_REQUESTS: return way_of_requests(s);
	case BILL_ISSUE:
		if (l && ANY_OP(op, s->x->f->body, op->kind == OP_SORT && op->place.line == l->line))
			return arena_printf(s->mem,
			    "a shorter sort in line %d: topk, where only the first are used; keys of 16 bits, which have "
			    "an index in the same 32; or fewer elements", l->line);
		return l ? arena_printf(
			       s->mem, "fewer instructions for each result of line %d", l->line)
			 : "fewer instructions for each result";
	case BILL_SPECIAL: return "fewer special functions and conversions";
	case BILL_SHUFFLES: return way_of_shuffles(s);
	case BILL_SHARED: return way_of_shared(s);
	case BILL_PRODUCTS: return "fewer products, or narrower dtypes";
	case BILL_START: return "fewer, larger programs";
	default: return way_of_waiting(s);
	}
}

const char *
explain_change(const Explain *s, BillPart p, Suggestions *all)
{
	enum { SHOWN = 3 };
	Text t = {0};
	int n = 0;
	for (int i = 0; i < all->n && n < SHOWN; i++) {
		Suggestion *r = &all->at[i];
		if (r->part != (int)p || r->built || r->said)
			continue;
		text_printf(&t, "%s%s%s", n++ ? "; " : "", r->text,
		    r->us > 0 ? arena_printf(s->mem, " (saves %s at most, by the model)",
				    explain_micro(s, s->us - r->us))
			      : "");
		r->said = true;
	}
	text_put(&t, n ? "" : way_of(s, p));
	text_put(&t, p == BILL_SECTORS ? explain_read_again(s) : "");
	return text_take(&t, s->mem);
}
