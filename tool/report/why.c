/* Why the compiler chose what it did, for `inspect --explain`: all that was compared, with its bill, and what was refused.
 *
 *     compared: 96 combinations, 18 of them refused
 *       1.00  45.2 us: products 40, then waiting 28.3, L2 cache 12        BM = 128, BN = 256, warps = 8  (chosen)
 *       1.02  46.1 us: products 41, …
 *     refused 12: a thread has fewer registers, as BM = 256, BN = 256, warps = 4 */
#include "tool/report/report.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SHOWN = 6 };

/* A value that a choice leaves out: a switch that is off, a loop that is whole. */
static bool
says_nothing(const NamedConst *v)
{
	return v->value.kind == CONST_BOOL ? !v->value.i : schedule_named(v->name) == SCHEDULE_SPLIT && v->value.i <= 1;
}

/* A name of which nothing was chosen has the header's value. */
static bool
is_chosen(const Tried *c, const NamedConst *chosen, int n, const Bound *header)
{
	for (int i = 0; i < n; i++)
		if (!choose_has(c->value, c->n, &chosen[i]))
			return false;
	for (int i = 0; i < c->n; i++) {
		bool stays = !named_const(chosen, n, c->value[i].name) && choose_has(header->ct, header->nct, &c->value[i]);
		if (!stays && !says_nothing(&c->value[i]) && !choose_has(chosen, n, &c->value[i]))
			return false;
	}
	return c->cycles >= 0;
}

static int
by_cycles(const void *a, const void *b)
{
	const Tried *x = a, *y = b;
	if ((x->cycles < 0) != (y->cycles < 0))
		return x->cycles < 0 ? 1 : -1;
	if (x->cycles >= 0 && x->is_chosen != y->is_chosen && x->cycles == y->cycles)
		return x->is_chosen ? -1 : 1;
	return x->cycles < y->cycles ? -1 : x->cycles > y->cycles;
}

/* Was the choice made by comparing this?  What a choice drops, since passes have it anyway, and what it adds behind the
 * comparison, is not in both. */
static bool
is_origin(const Tried *c, const NamedConst *chosen, int n, const Bound *header)
{
	int shared = 0;
	for (int i = 0; i < c->n; i++) {
		const char *name = c->value[i].name;
		bool is_open = n > 0 && schedule_named(name) >= 0 && !named_const(header->ct, header->nct, name);
		if (named_const(chosen, n, name) ? !choose_has(chosen, n, &c->value[i])
						 : !is_open && !choose_has(header->ct, header->nct, &c->value[i]))
			return false;
		shared += named_const(chosen, n, name) != NULL;
	}
	return c->cycles >= 0 && (n == 0 || shared > 0);
}

/* The least of those; NULL: none is. */
static Tried *
find_origin(ChooseWhy *why, const Bound *header, const NamedConst *chosen, int n)
{
	Tried *of = NULL;
	for (int i = 0; i < why->tried.n; i++) {
		Tried *c = &why->tried.at[i];
		if (c->n > 0 && is_origin(c, chosen, n, header) && (!of || c->cycles < of->cycles))
			of = c;
	}
	return of;
}

/* Which values "the header's own" has: its own, and the warps that follow from the tiles' sizes. */
static void
put_own(const ChooseWhy *why, const Bound *header, Text *out)
{
	for (int i = 0; i < header->nct; i++) {
		text_printf(out, "%s%s = ", out->n ? ", " : "", header->ct[i].name);
		const_text(&header->ct[i].value, out);
	}
	int warps = header->schedule.warps > 0 ? header->schedule.warps : why->warps;
	if (warps > 0 && !named_const(header->ct, header->nct, schedule_info[SCHEDULE_WARPS].text))
		text_printf(out, "%swarps = %d", out->n ? ", " : "", warps);
}

/* Has it the header's own values, though they were said one by one? */
static bool
is_own(const Tried *c, const Tried *own, const ChooseWhy *why, const Bound *header)
{
	if (c->n == 0 || c->cycles < 0 || memcmp(c->bill.part, own->bill.part, sizeof c->bill.part) != 0)
		return false;
	for (int i = 0; i < c->n; i++) {
		bool is_warps = schedule_named(c->value[i].name) == SCHEDULE_WARPS && header->schedule.warps <= 0 &&
		    (!why->warps || c->value[i].value.i == why->warps);
		if (!is_warps && !says_nothing(&c->value[i]) && !choose_has(header->ct, header->nct, &c->value[i]))
			return false;
	}
	return true;
}

/* The header's own values stand there once. */
static void
join_own(ChooseWhy *why, const Bound *header)
{
	Tried *own = NULL;
	int n = 0;
	for (int i = 0; i < why->tried.n; i++)
		own = why->tried.at[i].n == 0 && why->tried.at[i].cycles >= 0 ? &why->tried.at[i] : own;
	if (!own)
		return;
	Tried kept = *own;
	Text text = {0};
	put_own(why, header, &text);
	kept.own = text_take(&text, why->mem);
	for (int i = 0; i < why->tried.n; i++)
		kept.is_chosen |= is_own(&why->tried.at[i], own, why, header) && why->tried.at[i].is_chosen;
	const Tried before = *own;
	for (int i = 0; i < why->tried.n; i++)
		if (!is_own(&why->tried.at[i], &before, why, header))
			why->tried.at[n++] = why->tried.at[i].n == 0 ? kept : why->tried.at[i];
	why->tried.n = n;
}

void
why_chosen(ChooseWhy *why, const Bound *header, const NamedConst *chosen, int n)
{
	bool any = false;
	for (int i = 0; i < why->tried.n; i++) {
		Tried *c = &why->tried.at[i];
		c->is_chosen = !any && (n == 0 ? c->n == 0 : c->n > 0) && is_chosen(c, chosen, n, header);
		any |= c->is_chosen;
	}
	Tried *of = any ? NULL : find_origin(why, header, chosen, n);
	if (of)
		of->is_chosen = true;
	if (why->mem)
		join_own(why, header);
	if (why->tried.n > 0)
		qsort(why->tried.at, (size_t)why->tried.n, sizeof *why->tried.at, by_cycles);
}

double
why_compared(const ChooseWhy *why)
{
	return VALUE_OF(i, why->tried.n, why->tried.at[i].is_chosen, why->tried.at[i].bill.cycles, 0);
}

void
why_values(const Tried *c, Text *out)
{
	if (c->n == 0)
		text_put(out, "the header's own");
	if (c->own && *c->own)
		text_printf(out, " (%s)", c->own);
	for (int i = 0; i < c->n; i++) {
		text_printf(out, "%s%s = ", i ? ", " : "", c->value[i].name);
		const_text(&c->value[i].value, out);
	}
}

/* A choice is ranked by its time and what it has to gain: a distance from the header's warps, for one. */
static bool
is_ranked(const Tried *c)
{
	static const double SAME = 0.005;
	return fabs(c->cycles / c->bill.cycles - 1) >= SAME;
}

/* ", ranked as 151 us", where that is not its time. */
static void
put_rank(const Tried *c, const Target *t, Text *out)
{
	if (!is_ranked(c))
		return;
	text_put(out, ", ranked as ");
	bill_put_time(c->cycles / target_rates(t)->clock, out);
	text_put(out, " us");
}

static void
print_one(const Tried *c, double least, const Target *t, Text *out)
{
	text_printf(out, "    %.2f  ", least > 0 ? c->bill.cycles / least : 1.0);
	bill_print(&c->bill, t, out);
	text_put(out, "; ");
	why_values(c, out);
	put_rank(c, t, out);
	text_put(out, c->is_chosen ? "  (chosen)\n" : "\n");
}

/* For each reason how many, and the first of them.  Some of 26,000 combinations are refused for one of few reasons. */
static void
print_refused(const ChooseWhy *why, Text *out)
{
	enum { REASONS = 32 };
	const Tried *first[REASONS];
	int count[REASONS], n = 0;
	for (int i = 0; i < why->tried.n; i++) {
		const Tried *c = &why->tried.at[i];
		int k = 0;
		while (c->cycles < 0 && k < n && strcmp(first[k]->refused, c->refused))
			k++;
		if (c->cycles >= 0 || k == REASONS)
			continue;
		if (k == n) {
			first[n] = c;
			count[n++] = 0;
		}
		count[k]++;
	}
	for (int k = 0; k < n; k++) {
		text_printf(out, "    refused %d: %s, as ", count[k], first[k]->refused);
		why_values(first[k], out);
		text_put(out, "\n");
	}
}

const char *
why_not_least(const ChooseWhy *why, const Tried *c)
{
	if (c->n == 0)
		return "the header's own stand unless another is clearly better";
	return why->because ? why->because
	                    : "what is less by the estimate is not what passes make of it, or not clearly better";
}

void
why_print(const ChooseWhy *why, const Target *t, Text *out)
{
	int refused = 0, n = why->tried.n, shown = 0;
	for (int i = 0; i < n; i++)
		refused += why->tried.at[i].cycles < 0;
	if (why->none)
		text_printf(out, "  %s compared: %s\n", n > 0 ? "no other warps were" : "nothing was", why->none);
	if (n > 0)
		text_printf(out, "  compared: %d combination%s, %d of them refused\n", n, n == 1 ? "" : "s", refused);
	for (int i = 0; i < n && why->tried.at[i].cycles >= 0; i++) {
		const Tried *c = &why->tried.at[i];
		if (shown < SHOWN || c->is_chosen || c->n == 0)
			print_one(c, why->tried.at[0].bill.cycles, t, out);
		if (c->is_chosen && i > 0)
			text_printf(out, "          not the least: %s\n", why_not_least(why, c));
		shown++;
	}
	print_refused(why, out);
}

/* ---- in sentences ---- */

static void
say_none(const ChooseWhy *why, Text *out)
{
	const Tried *first = NULL;
	int refused = 0;
	for (int i = why->tried.n - 1; i >= 0; i--) {
		first = why->tried.at[i].cycles < 0 ? &why->tried.at[i] : first;
		refused += why->tried.at[i].cycles < 0;
	}
	const char *none = why->none ? why->none : refused ? "none other can be" : "nothing is left open";
	text_printf(out, "No other schedule was compared: %s. ", none);
	if (refused)
		text_printf(out, "Of %d that were tried %d %s refused, the first since %s. ", why->tried.n, refused,
		    refused == 1 ? "was" : "were", first->refused);
}

/* The least of those that were not chosen; what was chosen may stand there twice, once as the header's own. */
static const Tried *
next_best(const ChooseWhy *why, const Tried *taken)
{
	for (int i = 0; i < why->tried.n && why->tried.at[i].cycles >= 0; i++) {
		const Tried *c = &why->tried.at[i];
		bool is_same = taken && (c->n == 0 || taken->n == 0) && c->bill.cycles == taken->bill.cycles;
		if (!c->is_chosen && !is_same)
			return c;
	}
	return NULL;
}

static void
say_time(const Tried *c, const Target *t, Text *out)
{
	text_put(out, " would take ");
	bill_print(&c->bill, t, out);
	text_put(out, ". ");
}

/* The estimate that schedules are compared by, where it is not that of what was built. */
static void
put_compared(const Tried *taken, const Target *t, double cycles, Text *out)
{
	static const double SAME = 0.005;
	if (!taken || taken->cycles < 0 || fabs(taken->bill.cycles - cycles) <= SAME * cycles)
		return;
	text_put(out, "Schedules are compared before there is code, by registers that are guessed, and products before "
		      "there are layouts: by that estimate this takes ");
	bill_put_time(taken->bill.cycles / target_rates(t)->clock, out);
	text_put(out, " us, to compare others with; as it is built, ");
	bill_put_time(cycles / target_rates(t)->clock, out);
	text_put(out, " us. ");
}

void
why_say(const ChooseWhy *why, const Target *t, double cycles, Text *out)
{
	int fit = 0, n = why->tried.n, own = -1, best = -1;
	for (int i = 0; i < n; i++) {
		fit += why->tried.at[i].cycles >= 0;
		own = why->tried.at[i].n == 0 && why->tried.at[i].cycles >= 0 ? i : own;
		best = why->tried.at[i].is_chosen ? i : best;
	}
	if (fit < 2) {
		say_none(why, out);
		put_compared(best >= 0 ? &why->tried.at[best] : NULL, t, cycles, out);
		return;
	}
	text_printf(out, "%d schedules were compared by the model, and %d refused. ", fit, n - fit);
	const Tried *taken = best >= 0 ? &why->tried.at[best] : NULL, *next = next_best(why, taken);
	bool is_less = taken && next && next->bill.cycles < taken->bill.cycles;
	if (taken) {
		text_put(out, is_less ? "This is " : "This is the fastest of them: ");
		why_values(taken, out);
		text_put(out, ". ");
	}
	put_compared(taken, t, cycles, out);
	if (next) {
		text_put(out, is_less ? "By the estimate " : taken ? "The next best, " : "The least of them, ");
		why_values(next, out);
		text_put(out, is_less ? "" : ",");
		text_put(out, " would take ");
		bill_print(&next->bill, t, out);
		put_rank(next, t, out);
		text_put(out, ". ");
	}
	if (taken && (is_ranked(taken) || (next && is_ranked(next))))
		text_put(out, "They are ranked by the time with a margin that another has to be better by: for values away "
			      "from the header's, more work at once, and forms that the model knows less of. ");
	if (is_less)
		text_printf(out, "It was not taken: %s. ", why_not_least(why, taken));
	bool is_own = own >= 0 && taken && taken->bill.cycles == why->tried.at[own].bill.cycles;
	if (own >= 0 && own != best && !is_own && next != &why->tried.at[own]) {
		text_put(out, "The header's own");
		say_time(&why->tried.at[own], t, out);
	}
}
