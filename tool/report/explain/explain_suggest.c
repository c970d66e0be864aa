/* What can be changed so that a kernel is faster, by what the model says the launch would take
 * then: the largest gain first, then what it has no figure for; or that it has nothing. */
#include "tool/report/explain/explain.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>


static void
add(const Explain *s, Suggestions *all, double us, int part, const char *text, const ChangeError *error)
{
	bool memory;
	double outside, least = explain_least(
			    s, &memory, &outside); /* which other tiles' estimates may be below */
	us = us > 0 ? MAX(us, least) : us;
	if (us > SAID_WORTH * s->us)
		return;
	vec_push(s->mem, all, ((Suggestion){us, text, error, error != NULL, part, false}));
	for (int k = all->n - 1;
	     k > 0 && us > 0 && (all->at[k - 1].us <= 0 || all->at[k - 1].us > us); k--) {
		Suggestion more = all->at[k - 1];
		all->at[k - 1] = all->at[k];
		all->at[k] = more;
	}
}

void
explain_suggest(const Explain *s, Suggestions *all, double us, int part, const char *text)
{
	add(s, all, us, part, text, NULL);
}

/* Does a part take so much of the longest one that less of it may be worth something? */
static bool
is_near(const Explain *s, BillPart p)
{
	return explain_part(s, p) >
	       (p == BILL_WAITING ? .8 : .5) * explain_part(s, explain_longest(s, -1));
}

/* ---- tiles and blocks ---- */

const char *
explain_said_of(const Explain *s, const json_t *v)
{
	bool wgmma =
	    json_is_true(json_object_get(v, "wgmma")) && !s->x->all_wgmma && s->x->bill.part[BILL_PRODUCTS] > 0;
	const char *gains = json_string_value(json_object_get(v, "gains"));
	const char *values = json_string_value(json_object_get(v, "values"));
	if (json_is_true(json_object_get(v, "fast"))) /* "…, BN = 64": with what else */
		values = arena_printf(s->mem, "%s, where that precision suffices%s", explain_slow(s),
		    values + strcspn(values, ","));
	return arena_printf(s->mem, "%s%s%s%s%s%s", values,
	    wgmma ? ", its products by wgmma" : "", gains && *gains ? " (" : "", gains && *gains ? gains : "",
	    gains && *gains ? ")" : "", explain_more_barriers(s, v));
}

bool
explain_is_schedule(const Explain *s, const json_t *v)
{
	const char *at = json_string_value(json_object_get(v, "values"));
	bool all = !json_is_true(json_object_get(v, "fast"));
	for (; *at && all; at += strcspn(at, ","), at += strspn(at, ", "))
		all = schedule_named(arena_strndup(s->mem, at, strcspn(at, " "))) >= 0;
	return all;
}

/* What is faster as it is built, also if it takes as much longer than that as such changes did at most; where the trips
 * are guessed, other tiles would have other ones. */
static void
add_variants(const Explain *s, Suggestions *all)
{
	const json_t *v;
	size_t i;
	json_array_foreach(s->variants, i, v)
	{
		double us = explain_built_us(s, v);
		const ChangeError *e = explain_change_error(s, v);
		if (us > 0 && e->most * us <= explain_even(s) && (explain_is_schedule(s, v) || !*explain_guessed(s)))
			add(s, all, us, -1, explain_said_of(s, v), e);
	}
}

static void
add_spills(const Explain *s, Suggestions *all)
{
	const json_t *w;
	size_t i;
	if (!explain_spills(s))
		return;
	Text t = {0};
	text_printf(&t, "without the %d bytes that a thread spills", s->x->spills);
	json_array_foreach(s->warnings, i, w)
	{
		const char *help = json_string_value(json_object_get(w, "help"));
		if (help && strstr(json_string_value(json_object_get(w, "message")), "spill"))
			text_printf(&t, ": %s", help);
	}
	explain_suggest(s, all, 0, -1, text_take(&t, s->mem));
}

/* ---- lines ---- */

/* Loads that the code makes in many steps, as ptxas has no registers for what all of them bring. */
static void
add_steps(const Explain *s, Suggestions *all)
{
	enum { FEW_STEPS = 2 };
	int waits = (int)json_integer_value(json_object_get(s->counted, "waits"));
	int loads = (int)json_integer_value(json_object_get(s->counted, "loads"));
	if (waits > 2 * FEW_STEPS && is_near(s, BILL_WAITING))
		explain_suggest(s, all, 0, BILL_WAITING,
		    arena_printf(s->mem,
			"loads that are under way at once: a warp waits for its %d in %d steps, "
			"one after the other, as registers "
			"do not hold more; fewer elements a thread or wider accesses leave some",
			loads, waits));
}

/* Blocks take turns to start.  Where the kernel has a branch or a loop the model compares none that
 * stay, and has too long an estimate of those: norm_rope_kv of 65536 blocks of a warp takes 41.7 us
 * on an H200, with persistent = true 24.6, estimated at 46.4. */
static void
add_starts(const Explain *s, Suggestions *all)
{
	const Schedule *own = &s->x->f->schedule;
	static const double CLEARLY = 1.25; /* q6k_dequant, 0.9 of the next part: 55 us, 79 so */
	double us = explain_part(s, BILL_START),
	       next = explain_part(s, explain_longest(s, BILL_START));
	if (us < CLEARLY * next || us <= 0 || own->persistent > 0)
		return;
	bool tried = false;
	for (int i = 0; i < s->why->tried.n; i++) {
		const Tried *c = &s->why->tried.at[i];
		const NamedConst *v =
		    named_const(c->value, c->n, schedule_info[SCHEDULE_PERSISTENT].text);
		tried |= c->cycles >= 0 && v && v->value.i > 0;
	}
	const char *why = explain_behind(s, "which takes long to start: ");
	explain_suggest(s, all, explain_with(s, BILL_START, us - next), BILL_START,
	    arena_printf(s->mem, "with fewer blocks: %.0f take turns to start, %s%s",
		s->x->bill.launched, explain_micro(s, us),
		tried
		    ? "; a larger tile has fewer"
		    : arena_printf(s->mem,
			  "; with persistent = true, which was not compared%s%s%s, as many stay as "
			  "there is room for",
			  *why ? " (" : "", why, *why ? ")" : "")));
}

static void
add_products(const Explain *s, Suggestions *all)
{
	double products = explain_part(s, BILL_PRODUCTS);
	if (s->wgmma_us > 0 && s->wgmma_us < .99 * products)
		explain_suggest(s, all, explain_with(s, BILL_PRODUCTS, products - s->wgmma_us), BILL_PRODUCTS,
		    "with products by wgmma (what that takes: below, which "
		    "matrix instruction)");
}

/* The launch, if all that is computed were less by that share; the bytes of device memory and of
 * the L2 cache stay. */
static double
with_less(const Explain *s, double share)
{
	double most = 0;
	for (int p = 0; p < BILL_PARTS; p++) {
		bool moves =
		    p == BILL_MEMORY || p == BILL_SECTORS || p == BILL_ATOMICS || p == BILL_START;
		most = MAX(most, explain_part(s, (BillPart)p) * (moves ? 1 : 1 - share));
	}
	return s->us - explain_part(s, explain_longest(s, -1)) + most;
}

static void
add_padding(const Explain *s, Suggestions *all)
{
	double share, whole;
	bool compared, slower = explain_smaller_are_slower(s, &compared);
	const char *text = explain_padding(s, &share, &whole);
	if (slower || (compared && share > 0)) /* other tiles have a time of their own */
		return;
	if (*text && share > 0)
		explain_suggest(s, all, explain_without_padding(s, false), -1, arena_printf(s->mem, "with %s", text));
	else if (*text && !share && explain_without_padding(s, true) <= SAID_WORTH * s->us)
		explain_suggest(s, all, 0, -1, text);
}

/* Tiles of integers of 64 bits that could have 32, of all lines that compute with them. */
static void
add_casts(const Explain *s, Suggestions *all)
{
	TextList lines = {0};
	double less = 0, of = 0, wide = 0;
	SpentLines spent = explain_lines_by(s, BILL_ISSUE);
	for (int i = 0; i < spent.n; i++) {
		int line = spent.at[i]->line;
		double us = explain_spent_us(s, spent.at[i], BILL_ISSUE),
		       part = explain_wide(s, line);
		if (spent.at[i]->file != s->x->f->place.file || part < .2 ||
		    us < .02 * explain_part(s, BILL_ISSUE) || !explain_casts(s, line))
			continue;
		less += us * part / (1 + part);
		of += us;
		wide += us * part;
		explain_add(s, &lines, arena_printf(s->mem, "%d", line));
	}
	if (lines.n)
		explain_suggest(s, all, explain_with(s, BILL_ISSUE, less), BILL_ISSUE,
		    arena_printf(s->mem,
			"if the tiles of i64 of %s had 32 bits: about %.0f %% of the instructions "
			"there in PTX compute in 64, each of which takes two; i32 from the start, or "
			"(...) as i32 of a tile of indices, where the numbers fit",
			explain_line_list(s, &lines), 100 * wide / of));
}

/* What instructions of a line there are that others could stand for. */
static void
add_instructions(const Explain *s, Suggestions *all)
{
	const LineBill *l = explain_most(s, BILL_ISSUE);
	double all_us = explain_part(s, BILL_ISSUE), own = explain_spent_us(s, l, BILL_ISSUE);
	if (!l || !is_near(s, BILL_ISSUE))
		return;
	for (int i = 0; i < s->x->spent.n; i++) {
		const LineBill *d = &s->x->spent.at[i];
		if (d->file == s->x->f->place.file &&
		    explain_spent_us(s, d, BILL_ISSUE) > .1 * all_us &&
		    explain_divides(s, d->line)) {
			explain_suggest(s, all, 0, BILL_ISSUE,
			    arena_printf(s->mem,
				"line %d divides: of a warp that has a numerator or divisor of 0, "
				"or one close to the "
				"least or greatest numbers or beyond, all wait for a routine of "
				"about 60 instructions "
				"more, which the estimate leaves out as data decides it; "
				"fast::div, or a product with "
				"an inverse, has no such branch",
				d->line));
			break;
		}
	}
	int quotients;
	double routines = explain_quotients(s, l->line, &quotients);
	if (routines > .1)
		explain_suggest(s, all, with_less(s, routines * own / all_us), BILL_ISSUE,
		    arena_printf(s->mem,
			"without line %d's %d divisions and remainders of integers by "
			"what is no constant: about "
			"%.0f %% of its instructions; where a value goes at most once around, a "
			"comparison and a "
			"subtraction do (x >= n ? x - n : x), and 32 bits take half of 64",
			l->line, quotients, 100 * routines));
	if (*explain_keys(s, l->line))
		explain_suggest(s, all, 0, BILL_ISSUE,
		    arena_printf(s->mem,
			"line %d's %s compares keys of 64 bits, an element and its index in one, by about ten "
			"instructions an element: where the index is not needed, a max or min takes one",
			l->line, explain_keys(s, l->line)));
	else
		add_casts(s, all);
	explain_angle_suggestions(s, all);
}

static void
add_functions(const Explain *s, Suggestions *all)
{
	const LineBill *l = explain_most(s, BILL_SPECIAL);
	if (l && *explain_specials(s, l->line) && is_near(s, BILL_SPECIAL))
		explain_suggest(s, all, 0, BILL_SPECIAL,
		    arena_printf(s->mem, "fewer special functions or conversions in line %d", l->line));
}

/* ---- all of it ---- */

Suggestions
explain_collect(const Explain *s)
{
	Suggestions all = {0};
	double waits = explain_part(s, BILL_WAITING);
	const char *late =
	    waits > .3 * explain_part(s, explain_longest(s, -1)) ? explain_late_reads(s) : "";
	if (explain_idle(s))
		explain_suggest(s, &all, 0, -1,
		    arena_printf(s->mem,
			"%.0f of %d multiprocessors have a program: more of them, each with less "
			"of the work, use the rest",
			s->x->bill.launched, s->x->t->rates->multiprocessors));
	add_starts(s, &all);
	add_spills(s, &all);
	explain_access_suggestions(s, &all);
	add_steps(s, &all);
	add_variants(s, &all);
	add_products(s, &all);
	add_padding(s, &all);
	if (*late)
		explain_suggest(s, &all, 0, BILL_WAITING,
		    arena_printf(s->mem,
			"%s: loads stay behind stores, so that nothing hides their latency; read "
			"into a let before the "
			"first write",
			late));
	add_instructions(s, &all);
	add_functions(s, &all);
	return all;
}
