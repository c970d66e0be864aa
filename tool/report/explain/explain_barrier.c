/* Where each barrier of the code comes from, how often it is executed, and without what it would
 * not be there. */
#include "tool/report/explain/explain.h"

#include "compile/choose/choose.h"

#include <limits.h>
#include <math.h>
#include <string.h>

/* Has an op barriers inside, "2 barriers in between", or around it? */
static bool
has_inside(const char *details, bool between)
{
	static const char *const where[] = {"in between", "around"};
	for (int i = 0; i < (between ? 1 : LEN(where)); i++)
		for (int many = 0; many < 2; many++) {
			char text[32];
			number_format(text, sizeof text, "barrier%s %s", many ? "s" : "", where[i]);
			if (strstr(details, text))
				return true;
		}
	return false;
}

static bool
is_one(const ExplainLine *l)
{
	return l->x->pair || strcmp(l->what, "cluster barrier") == 0 ||
	       has_inside(l->details, false);
}

static int
least_of(const ExplainLine *l)
{
	static const char *const two[] = {
	    ", 2 barriers in between", ", 2 warp barriers in between", "barriers around"};
	return VALUE_OF(i, LEN(two), strstr(l->details, two[i]), 2, 1);
}

/* Is it a barrier of a warp alone, or an op with only such a one inside? */
static bool
is_warps_own(const ExplainLine *l)
{
	return strcmp(l->what, "warp barrier") == 0 || strstr(l->details, "a warp's barrier in between");
}

/* A sort or topk whose exchanges between warps have barriers each. */
static bool
is_order(const ExplainLine *l)
{
	return (l->x->op->kind == OP_SORT || l->x->op->kind == OP_TOPK) && has_inside(l->details, true);
}

/* Barriers of one line of inspect in the code, of a block or of a warp as it is: an op that has some inside, of several a
 * sort, has all that its line has beyond the others', where no copies of a loop's body count as well. */
static int
count_of(const Explain *s, const ExplainLine *l)
{
	ExplainLines all = explain_merged(s, l->line);
	bool own = is_warps_own(l);
	int more = l->line <= s->nsource ? (own ? s->warp_barriers : s->barriers)[l->line] : 0, inside = 0, orders = 0;
	for (int i = 0; i < all.n; i++) {
		if (is_warps_own(&all.at[i]) != own)
			continue;
		more -= is_one(&all.at[i]) ? least_of(&all.at[i]) : 0;
		inside += is_one(&all.at[i]) && has_inside(all.at[i].details, true);
		orders += is_order(&all.at[i]);
	}
	bool only = orders ? orders == 1 && is_order(l) : inside == 1;
	bool takes = has_inside(l->details, true) && only && more > 0 && !*explain_unrolled(s);
	return least_of(l) + (takes ? more : 0);
}

/* Around the loop over programs of a block that stays, or where all blocks begin or end? */
static bool
is_once(const ExplainLine *l)
{
	const Op *op = l->x->op;
	if (strncmp(l->details, "before roles", 12) == 0 || op->kind == OP_CLUSTER_BARRIER)
		return true;
	if (op->home->func->schedule.persistent <= 0 || !ANY_OP(o, op->home->func->body, op_is_over_programs(o)))
		return false;
	while (op && !op_is_over_programs(op))
		op = op->home->parent;
	return !op || op == l->x->op;
}

const char *
explain_often(const Explain *s, const ExplainLine *l)
{
	if (l->most < 0)
		return "";
	if (is_once(l))
		return ", once a block";
	if (l->most == 0)
		return ", 0 times at these sizes";
	if (l->most == 1 && l->runs < .98)
		return arena_printf(
		    s->mem, ", once in %.0f %% of the programs", MAX(100 * l->runs, 1));
	if (fabs(l->runs - l->most) > .02 * l->most)
		return arena_printf(s->mem, ", %s times a program in the mean, %s at most",
		    explain_round(s, l->runs), explain_round(s, l->most));
	return l->most == 1
		   ? ", once a program"
		   : arena_printf(s->mem, ", %s times a program", explain_round(s, l->most));
}

int
explain_blocks_with(const Explain *s, double more)
{
	const json_t *l;
	size_t i;
	double least = INT_MAX, share = MAX(s->x->f->schedule.share, 1);
	json_array_foreach(s->limits, i, l)
	{
		const char *of = json_string_value(json_object_get(l, "of"));
		double has = json_number_value(json_object_get(l, "has")),
		       needs = json_number_value(json_object_get(l, "needs"));
		needs += strcmp(of, "shared memory") == 0 ? share * more : 0;
		if (strcmp(of, "grid") != 0 && needs > 0)
			least = MIN(least, floor(has / needs));
	}
	return (int)MIN(share * least, INT_MAX);
}

const char *
explain_inside(const Explain *s, const ExplainLine *l)
{
	static const char one[] = "a barrier in between";
	const char *at = strstr(l->details, one);
	int n = at ? count_of(s, l) : 1;
	return n > 1 ? arena_printf(s->mem, "%.*s%d barriers in between%s", (int)(at - l->details),
			   l->details, n, at + sizeof one - 1)
		     : l->details;
}

/* ---- what it is ---- */

/* An op that has barriers inside: what its threads exchange. */
static const char *
say_inside(const Explain *s, const ExplainLine *l)
{
	Text t = {0};
	int n = count_of(s, l);
	text_put(&t, l->what);
	if (strcmp(l->what, "convert") == 0) {
		const char *of = strncmp(l->details, "of ", 3) == 0 ? l->details + 3 : "",
			   *end = strstr(of, ", through");
		bool has = end && strcspn(of, ",") == (size_t)(end - of);
		text_printf(&t, " of %.*s%s%s", has ? (int)(end - of) : 0, of,
		    has && *l->tile ? " " : "", l->tile);
	}
	text_put(&t, strstr(l->details, ", behind the loop") ? " behind the loop, " : ", ");
	if (n > 1)
		text_printf(&t, "with %d barriers, ", n);
	text_printf(&t, "whose threads exchange values in %lld bytes at %lld of shared memory%s%s%s",
	    (long long)l->x->smem_bytes, (long long)l->x->smem,
	    n > 1 && is_order(l) ? ": behind each of its writes one, before others read what a thread wrote, and before "
				   "the next write one, until they have read"
				 : "",
	    explain_often(s, l), explain_barrier_fix(s, l));
	return text_take(&t, s->mem);
}

const char *
explain_barrier(const Explain *s, const ExplainLine *l)
{
	enum { SHOWN = 6 };
	if (has_inside(l->details, false))
		return say_inside(s, l);
	if (!l->x->pair && strcmp(l->what, "cluster barrier") != 0)
		return "";
	if (!l->x->pair)
		return arena_printf(s->mem, "%s, %s%s%s", l->what, l->details, explain_often(s, l),
		    explain_barrier_fix(s, l));
	if (l->x->pair->before->kind == OP_MBARRIER)
		return arena_printf(s->mem, "%s for all to see the mbarriers as they begin%s%s",
		    l->what, explain_often(s, l), explain_barrier_fix(s, l));
	TextList parts = {0}, all = {0};
	const char *rest = strstr(l->details, ": ");
	for (int i = 0; i < l->conflicts.n && all.n < SHOWN; i++)
		explain_add(s, &all, l->conflicts.at[i]);
	explain_add(s, &parts,
	    arena_strndup(
		s->mem, l->details, rest ? (size_t)(rest - l->details) : strlen(l->details)));
	explain_add(s, &parts, all.n ? explain_join(s, &all, ", and ") : rest ? rest + 2 : "");
	return arena_printf(s->mem, "%s %s%s%s", l->what, explain_join(s, &parts, ": "),
	    explain_often(s, l), explain_barrier_fix(s, l));
}

/* ---- all of the kernel ---- */

/* Those of a line that are executed, each reason once. */
static ExplainLines
unlike(const Explain *s, int line)
{
	ExplainLines own = explain_merged(s, line), all = {0};
	for (int i = 0; i < own.n; i++) {
		ExplainLine l = own.at[i], never = l;
		int k = 0;
		never.most = -1;
		const char *key = l.most != 0 ? explain_barrier(s, &never) : "";
		if (!*key)
			continue;
		for (; k < all.n; k++) {
			never = all.at[k];
			never.most = -1;
			if (strcmp(explain_barrier(s, &never), key) == 0)
				break;
		}
		if (k == all.n) {
			vec_push(s->mem, &all, l);
		} else if (l.most >= 0 && all.at[k].most >= 0) {
			all.at[k].runs += l.runs;
			all.at[k].most += l.most;
		}
	}
	return all;
}

static const char *
say_line(const Explain *s, int line)
{
	ExplainLines all = unlike(s, line);
	TextList parts = {0};
	int of = 0, warp = 0, of_warp = s->warp_barriers[line], n = s->barriers[line] + of_warp;
	bool loops = false;
	for (int i = 0; i < all.n; i++) {
		of += count_of(s, &all.at[i]);
		warp += is_warps_own(&all.at[i]);
		loops |= all.at[i].most > 1;
		explain_add(s, &parts, explain_barrier(s, &all.at[i]));
	}
	const char *copies = of > 0 && n > of && loops && *explain_unrolled(s)
				 ? arena_printf(s->mem, ", in the code %d as copies of %s%s", n,
				       of == 1 ? "it" : "them", explain_unrolled(s))
				 : "";
	if (!parts.n)
		explain_add(
		    s, &parts, "in roles or waits of the pipeline, or not executed at these sizes");
	const char *kinds = *copies || n <= of ? ""
			    : parts.n > 1      ? arena_printf(s->mem, " of %d kinds", parts.n)
					       : " for the same reason";
	const char *of_warps = of_warp == 0 ? ""
			       : of_warp == n
				   ? " of a warp alone"
				   : arena_printf(s->mem, " (%d of a warp alone)", *copies ? warp : of_warp);
	n = *copies ? of : n;
	return arena_printf(s->mem, "line %d has %d%s%s%s: %s", line, n, of_warps, kinds, copies,
	    explain_join(s, &parts, "; "));
}

/* Has a line barriers in the code that are of no op, and no copies of a loop's body?  Or does a loop of the code, that the
 * source does not have, run a sort's? */
static bool
is_uncounted(const Explain *s, int line)
{
	ExplainLines all = unlike(s, line);
	int of = 0;
	for (int i = 0; i < all.n; i++) {
		SortPlan p = {.way = SORT_REGISTERS};
		if (is_order(&all.at[i]))
			plan_sort(all.at[i].x->op, s->x->t, &p);
		if (p.way != SORT_REGISTERS)
			return true;
		of += is_warps_own(&all.at[i]) ? 0 : count_of(s, &all.at[i]);
	}
	return all.n && s->barriers[line] > of && !*explain_unrolled(s);
}

/* How many a block executes for a program; below 0: not known.  Those around a loop over programs
 * are none of a program. */
static double
executed(const Explain *s)
{
	bool stays = s->x->f->schedule.persistent > 0;
	double sum = 0;
	if (ANY_OF(line, s->nsource + 1, is_uncounted(s, line)))
		return -1;
	for (int i = 0; i < s->lines.n; i++) {
		const ExplainLine *l = &s->lines.at[i];
		if (is_warps_own(l) || l->line > s->nsource || !(s->barriers[l->line] || s->holds[l->line]) ||
		    !*explain_barrier(s, l))
			continue;
		if (l->runs < 0)
			return -1;
		sum += is_once(l) ? !stays : l->runs * count_of(s, l);
	}
	return sum;
}

/* A trip waits once at each mbarrier of its ring. */
static const char *
waits_often(const Explain *s)
{
	double trips = json_number_value(json_object_get(s->timeline, "of"));
	return trips > 0 ? arena_printf(s->mem, "; those of a loop once a trip, %s times a program",
			       explain_round(s, trips))
			 : "";
}

/* Has machine code no instruction for a warp's barriers? */
static bool
is_dropped(const Explain *s)
{
	static const char *const between[] = {"MEMBAR", "ERRBAR", "CGAERRBAR"};
	bool any = false, stands = false;
	for (int i = 0; i < s->sass.n && !any; i++) {
		const char *op = report_instruction(s->sass.line[i]);
		if (!op || explain_begins(op, between, LEN(between)))
			continue;
		any = stands && strncmp(op, "UCGABAR", 7) != 0;
		stands = strncmp(op, "WARPSYNC", 8) == 0;
	}
	return s->sass.n > 0 && !any;
}

/* " (convert, before this put)": which ops of a line have barriers. */
static const char *
causes_of(const Explain *s, const ExplainLines *all)
{
	TextList causes = {0};
	for (int i = 0; i < all->n; i++) {
		const ExplainLine *l = &all->at[i];
		if (strcmp(l->what, "warp barrier") == 0)
			continue;
		size_t head = strcspn(l->details, ":,");
		explain_add(
		    s, &causes, l->x->pair ? arena_strndup(s->mem, l->details, head) : l->what);
	}
	return causes.n ? arena_printf(s->mem, " (%s)", explain_join(s, &causes, ", ")) : "";
}

/* Of a line in this machine code. */
static int
waits_now(const Explain *s, int line)
{
	return COUNT_OF(i, s->sass.n, s->sass.source[i] == line && report_is_barrier(s->sass.line[i]));
}

/* A block of one warp waits at its barriers for no other; ptxas leaves them out. */
static const char *
said_alone(const Explain *s)
{
	bool meets = ANY_OF(i, s->lines.n, strcmp(s->lines.at[i].what, "cluster barrier") == 0);
	bool stays = ANY_OF(line, s->nsource + 1, waits_now(s, line) > 0);
	return func_warps(s->x->f) > 1 || meets || stays ? ""
	       : s->sass.n ? "a block has one warp, and SASS has no instruction for its barriers"
			   : "a block has one warp, which waits for no other at its barriers";
}

/* "4 in the code, 129 executed by a block for a program: lines 64, 65 and 68; mbarriers of line
 * 52's copies." */
static const char *
brief_of(const Explain *s, int rings)
{
	int n = 0, warp = 0;
	TextList lines = {0};
	for (int line = 0; line <= s->nsource; line++) {
		ExplainLines all = unlike(s, line);
		warp += s->warp_barriers[line];
		n += s->barriers[line];
		if (s->barriers[line] > 0)
			explain_add(
			    s, &lines, arena_printf(s->mem, "%d%s", line, causes_of(s, &all)));
	}
	Text t = {0};
	double all = executed(s);
	const char *alone = said_alone(s);
	if (n && *alone)
		text_printf(&t, "None that a block waits at: %s (%d in PTX, of %s)", alone, n,
		    explain_line_list(s, &lines));
	else if (n)
		text_printf(&t, "%d in the code, of %s", n, explain_line_list(s, &lines));
	else
		text_printf(&t, "None that a block waits at");
	if (n && all > 1 && !*alone)
		text_printf(&t, "; a block executes %s for a program", explain_round(s, all));
	if (warp)
		text_printf(&t, "; %d of a warp alone", warp);
	if (rings)
		text_printf(&t, "; mbarriers for copies and roles");
	text_put(&t, ".");
	return text_take(&t, s->mem);
}

const char *
explain_more_barriers(const Explain *s, const json_t *change)
{
	const json_t *of;
	const char *line;
	TextList all = {0};
	json_object_foreach((json_t *)json_object_get(change, "barrier_lines"), line, of)
	{
		int more = (int)json_integer_value(json_array_get(of, 0)) - waits_now(s, atoi(line));
		if (more > 0 && s->sass.n)
			explain_add(s, &all, arena_printf(s->mem, "%d in line %s, %s", more, line,
						 json_string_value(json_array_get(of, 1))));
	}
	return all.n ? arena_printf(s->mem, " (more barriers: %s)", explain_join(s, &all, "; ")) : "";
}

void
explain_barriers(const Explain *s, Answer *answer)
{
	TextList held = {0}, rings = {0}, out = {0};
	bool real = false;
	bool warp = false, meets = false;
	for (int line = 0; line <= s->nsource; line++) {
		if (s->barriers[line] + s->warp_barriers[line] > 0) {
			explain_add(s, &out,
			    arena_printf(s->mem, "%s.", explain_sentence(s, say_line(s, line))));
			real = true;
		}
		if (s->holds[line])
			explain_add(
			    s, &held, arena_printf(s->mem, "line %d has %d", line, s->holds[line]));
	}
	for (int i = 0; i < s->lines.n; i++) {
		const ExplainLine *l = &s->lines.at[i];
		warp |= strcmp(l->what, "warp barrier") == 0;
		meets |= strcmp(l->what, "cluster barrier") == 0;
		if (strcmp(l->what, "mbarriers") == 0)
			explain_add(s, &rings,
			    arena_printf(s->mem, "line %d %s", l->line,
				l->x->way ? l->x->way : "of the kernel's roles"));
	}
	double all = executed(s);
	answer->brief = brief_of(s, rings.n);
	const char *alone = real ? said_alone(s) : "";
	if (real && all > 1 && !*alone)
		explain_add(s, &out,
		    arena_printf(s->mem, "A block executes %s in all for a program%s%s.",
			explain_round(s, all),
			choose_leaves(s->x->f) ? " that does not leave early" : "",
			all != floor(all) ? ", in the mean" : ""));
	if (real)
		explain_all_barriers(s, &out);
	if (*alone)
		explain_add(s, &out, arena_printf(s->mem, "%s.", explain_sentence(s, alone)));
	else if (real && meets && func_warps(s->x->f) == 1)
		explain_add(s, &out,
		    "A block has one warp, so that it waits at its own barriers for no other; at a cluster barrier it "
		    "waits for the other blocks of the cluster.");
	if (held.n)
		explain_add(s, &out,
		    arena_printf(s->mem,
			"In PTX also %s that make no thread wait: a bar.warp.sync before a "
			"function's branch for large angles, so that the loads before it stay "
			"there; SASS has no instruction for it.",
			explain_join(s, &held, "; ")));
	if (warp)
		explain_add(s, &out,
		    arena_printf(s->mem,
			"A warp barrier is enough where the threads that access the same bytes are "
			"of "
			"one warp, or where "
			"each warp arrives at an mbarrier for its own%s.",
			is_dropped(s) ? "; in SASS none of them is an instruction that waits"
				      : ""));
	if (rings.n)
		explain_add(s, &out,
		    arena_printf(s->mem,
			"Mbarriers, at which warps wait for copies or other warps and no whole "
			"block "
			"does: %s%s.",
			explain_join(s, &rings, "; "), waits_often(s)));
	const char *names = explain_ops_named(s, explain_join(s, &out, " "));
	if (*names)
		explain_add(s, &out,
		    arena_printf(s->mem, "In this 7:3 is line 7, column 3; ops of the tile IR: %s.", names));
	answer->says = out;
}

/* Behind the branch for large angles whose barrier stands at i, which few values take; i where there
 * is none. */
int
explain_past_seldom(const Explain *s, int i, int line)
{
	const char *at = s->code.line[i] + strspn(s->code.line[i], " \t"), *to = NULL;
	if (s->code.source[i] != line || !s->holds[line] || strncmp(at, "bar.warp.sync", 13) != 0)
		return i;
	for (int k = i + 1; k < s->code.n; k++) {
		const char *t = s->code.line[k] + strspn(s->code.line[k], " \t");
		size_t n = to ? strcspn(to, "; \n") : 0;
		if (to && strncmp(t, to, n) == 0 && t[n] == ':')
			return k;
		if (!to && *t == '@')
			to = strstr(t, "$L_");
		else if (!to && strncmp(t, "bra", 3) == 0)
			break;
	}
	return i;
}
