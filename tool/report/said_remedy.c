/* What can be changed so that a kernel is faster, by what the model says the launch would take
 * then: the largest gain first, then what it has no figure for; or that it has nothing. */
#include "tool/report/said.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double ANOTHER = 1.5; /* times the least: another text may do better (depthwise, 99 us on an H200, cuDNN 65) */
static const double FEW = 1.1;     /* times the least: nothing is left */
static const double MORE = 1.3;    /* times the least: what the code has is worth a look */
static const double KEYS = 0.6;   /* of a line that compares keys: its instructions that go without them */

static void
add(const Said *s, Remedies *all, double us, const char *text, bool tiles)
{
	bool memory;
	double outside, least = said_least(s, &memory, &outside); /* which other tiles' estimates may be below */
	us = us > 0 ? MAX(us, least) : us;
	if (us > SAID_WORTH * s->us)
		return;
	vec_push(s->mem, all, ((Remedy){us, text, tiles}));
	for (int k = all->n - 1;
	     k > 0 && us > 0 && (all->at[k - 1].us <= 0 || all->at[k - 1].us > us); k--) {
		Remedy more = all->at[k - 1];
		all->at[k - 1] = all->at[k];
		all->at[k] = more;
	}
}

void
said_remedy(const Said *s, Remedies *all, double us, const char *text)
{
	add(s, all, us, text, false);
}

/* Does a part take so much of the longest one that less of it may be worth something? */
static bool
is_near(const Said *s, BillPart p)
{
	return said_part(s, p) > (p == BILL_WAITING ? .8 : .5) * said_part(s, said_longest(s, -1));
}

/* The line with the most of a part; NULL: none has any. */
static const LineBill *
top(const Said *s, BillPart p)
{
	SpentLines all = said_lines_by(s, p);
	return all.n ? all.at[0] : NULL;
}

/* ---- what was compared ---- */

static const double SAME = 0.005;              /* of a time: two schedules take as long */

int
said_fit(const Said *s)
{
	int fit = 0;
	for (int i = 0; i < s->why->tried.n; i++)
		fit += s->why->tried.at[i].cycles >= 0;
	return fit;
}

const char *
said_compared(const Said *s)
{
	const ChooseWhy *why = s->why;
	const Tried *taken = NULL, *next = NULL;
	for (int i = 0; i < why->tried.n; i++)
		taken = why->tried.at[i].is_chosen ? &why->tried.at[i] : taken;
	int fit = said_fit(s);
	if (fit < 2 || !taken)
		return arena_printf(s->mem, "No other schedule was compared%s%s.",
		    why->none ? ": " : "", why->none ? why->none : "");
	for (int i = 0; i < why->tried.n; i++) {
		const Tried *c = &why->tried.at[i];
		bool is_other =
		    c->cycles >= 0 && !c->is_chosen && c->bill.cycles != taken->bill.cycles;
		next = is_other && (!next || c->bill.cycles < next->bill.cycles) ? c : next;
	}
	Text t = {0};
	text_printf(&t, "Of %d schedules that the model compared ", fit);
	why_values(taken, &t);
	text_put(&t, " was taken");
	double times = next ? next->bill.cycles / taken->bill.cycles : 1;
	if (next) {
		text_put(&t, times < 1 - SAME ? "; less by the estimate is " : "; the next, ");
		why_values(next, &t);
		if (fabs(times - 1) < SAME)
			text_put(&t, ", would take as long");
		else
			text_printf(&t, times < 1 ? ", %s times" : ", would take %s times as long by it",
			    said_round(s, times));
	}
	if (times < 1 - SAME && next->cycles > taken->cycles)
		text_printf(&t,
		    ", but it was not taken: the model knows such forms less, which have to be "
		    "%.0f %% better",
		    100 * (1 - next->bill.cycles / next->cycles * taken->cycles /
				   taken->bill.cycles));
	else if (times < 1 - SAME)
		text_printf(&t, ", but it was not taken: %s", why_not_least(why, taken));
	text_put(&t, " (all of them: what bounds it).");
	return text_take(&t, s->mem);
}

/* Has a schedule that was compared a smaller tile than this, and none that is larger? */
static bool
is_smaller(const Said *s, const Tried *c)
{
	bool smaller = false;
	for (int i = 0; i < c->n; i++) {
		const NamedConst *now = named_const(s->b->ct, s->b->nct, c->value[i].name);
		if (!now || schedule_named(c->value[i].name) >= 0)
			continue;
		if (c->value[i].value.i > now->value.i)
			return false;
		smaller |= c->value[i].value.i < now->value.i;
	}
	return smaller && c->cycles >= 0;
}

bool
said_is_smaller(const Said *s, const json_t *variant)
{
	const char *at = json_string_value(json_object_get(variant, "values"));
	bool smaller = true;
	for (; *at && smaller; at += strcspn(at, ","), at += strspn(at, ", ")) {
		const NamedConst *c = named_const(s->b->ct, s->b->nct, arena_strndup(s->mem, at, strcspn(at, " ")));
		const char *is = strstr(at, " = ");
		smaller = c && is && strtol(is + 3, NULL, 10) < c->value.i;
	}
	return smaller;
}

bool
said_smaller_are_slower(const Said *s, bool *compared)
{
	const json_t *v;
	size_t i;
	int n = 0, slower = 0;
	for (int k = 0; k < s->why->tried.n; k++) {
		const Tried *c = &s->why->tried.at[k];
		bool smaller = is_smaller(s, c);
		n += smaller;
		slower += smaller && c->bill.cycles / target_rates(s->x->t)->clock >= s->compared;
	}
	json_array_foreach(s->variants, i, v) {
		bool smaller = said_is_smaller(s, v);
		n += smaller;
		slower += smaller && json_number_value(json_object_get(v, "us")) >= s->compared;
	}
	*compared = n > 0;
	return n > 0 && slower == n;
}

/* ---- tiles and blocks ---- */

/* The two that are the fastest, by so much that an H200 mostly agrees
 * (bench/results/h200-estimates.md); not where the trips are guessed, of which each value would
 * have others. */
static void
add_variants(const Said *s, Remedies *all)
{
	enum { SHOWN = 2 };
	static const double CLEARLY = .9;
	Remedies own = {0};
	const json_t *v;
	size_t i;
	if (*said_guessed(s))
		return;
	json_array_foreach(s->variants, i, v) {
		double us = said_scaled(s, json_number_value(json_object_get(v, "us")));
		bool wgmma = json_is_true(json_object_get(v, "wgmma")) && !s->x->all_wgmma &&
			     s->x->bill.part[BILL_PRODUCTS] > 0;
		bool alone = said_resident(s) < s->x->blocks && s->x->spills == 0;      /* registers keep no block out */
		if (us > CLEARLY * s->us ||
		    (said_is_full(s) && !alone &&
			!said_is_smaller(s, v))) /* whose code has no fewer registers */
			continue;
		said_remedy(s, &own, us,
		    arena_printf(s->mem, "with %s%s",
			json_string_value(json_object_get(v, "values")),
			wgmma ? ", its products by wgmma" : ""));
	}
	for (int k = 0; k < MIN(own.n, SHOWN); k++)
		add(s, all, own.at[k].us, own.at[k].text, true);
}

static void
add_spills(const Said *s, Remedies *all)
{
	const json_t *w;
	size_t i;
	if (!said_spills(s))
		return;
	Text t = {0};
	text_printf(&t, "without the %d bytes that a thread spills", s->x->spills);
	json_array_foreach(s->warnings, i, w) {
		const char *help = json_string_value(json_object_get(w, "help"));
		if (help && strstr(json_string_value(json_object_get(w, "message")), "spill"))
			text_printf(&t, ": %s", help);
	}
	said_remedy(s, all, 0, text_take(&t, s->mem));
}

/* ---- lines ---- */

static void
add_own_reads(const Said *s, Remedies *all)
{
	const json_t *own = said_own_reads(s);
	const char *name = own ? json_string_value(json_object_get(own, "read")) : "";
	if (own)
		said_remedy(s, all, 0,
		    arena_printf(s->mem,
			"%s read a trip before its use (a var that the next trip takes), or at once for several trips, so "
			"that products do not wait for it",
			name));
}

/* Loads that the code makes in many steps, as ptxas has no registers for what all of them bring. */
static void
add_steps(const Said *s, Remedies *all)
{
	enum { FEW_STEPS = 2 };
	int waits = (int)json_integer_value(json_object_get(s->counted, "waits"));
	int loads = (int)json_integer_value(json_object_get(s->counted, "loads"));
	if (waits > 2 * FEW_STEPS && is_near(s, BILL_WAITING))
		said_remedy(s, all, 0,
		    arena_printf(s->mem,
			"loads that are under way at once: a warp waits for its %d in %d steps, "
			"one after the other, as registers "
			"do not hold more; fewer elements a thread or wider accesses leave some",
			loads, waits));
}

/* Blocks take turns to start.  Where the kernel has a branch or a loop the model compares none that stay, and has too
 * long an estimate of those: norm_rope_kv of 65536 blocks of a warp takes 41.7 us on an H200, with persistent = true 24.6,
 * estimated at 46.4. */
static void
add_starts(const Said *s, Remedies *all)
{
	const Schedule *own = &s->x->f->schedule;
	static const double CLEARLY = 1.25; /* q6k_dequant, 0.9 of the next part: 55 us, 79 so */
	double us = said_part(s, BILL_START), next = said_part(s, said_longest(s, BILL_START));
	if (us < CLEARLY * next || us <= 0 || own->persistent > 0)
		return;
	bool tried = false;
	for (int i = 0; i < s->why->tried.n; i++) {
		const Tried *c = &s->why->tried.at[i];
		const NamedConst *v = named_const(c->value, c->n, schedule_info[SCHEDULE_PERSISTENT].text);
		tried |= c->cycles >= 0 && v && v->value.i > 0;
	}
	const char *why = said_behind(s, "which takes long to start: ");
	said_remedy(s, all, said_with(s, BILL_START, us - next),
	    arena_printf(s->mem, "at best, with fewer blocks: %.0f take turns to start, %s%s",
		s->x->bill.launched, said_micro(s, us),
		tried
		    ? "; a larger tile has fewer"
		    : arena_printf(s->mem,
			  "; with persistent = true, which was not compared%s%s%s, as many stay as "
			  "there is room for",
			  *why ? " (" : "", why, *why ? ")" : "")));
}

static void
add_products(const Said *s, Remedies *all)
{
	double products = said_part(s, BILL_PRODUCTS);
	if (s->wgmma_us > 0 && s->wgmma_us < .99 * products)
		said_remedy(s, all, said_with(s, BILL_PRODUCTS, products - s->wgmma_us),
		    "with products by wgmma (what that takes: below, which "
		    "matrix instruction)");
}

/* The launch, if all that is computed were less by that share; the bytes of device memory and of
 * the L2 cache stay. */
static double
with_less(const Said *s, double share)
{
	double most = 0;
	for (int p = 0; p < BILL_PARTS; p++) {
		bool moves =
		    p == BILL_MEMORY || p == BILL_SECTORS || p == BILL_ATOMICS || p == BILL_START;
		most = MAX(most, said_part(s, (BillPart)p) * (moves ? 1 : 1 - share));
	}
	return s->us - said_part(s, said_longest(s, -1)) + most;
}

static void
add_padding(const Said *s, Remedies *all)
{
	double share, whole;
	bool compared, slower = said_smaller_are_slower(s, &compared);
	const char *text = said_padding(s, &share, &whole);
	if (slower || (compared && share > 0))  /* other tiles have a time of their own */
		return;
	if (*text && share > 0)
		said_remedy(s, all, with_less(s, share),
		    arena_printf(s->mem, "at best, with %s", text));
	else if (*text && !share && with_less(s, whole) <= SAID_WORTH * s->us)
		said_remedy(s, all, 0, text);
}

/* What instructions of a line there are that others could stand for. */
static void
add_instructions(const Said *s, Remedies *all)
{
	const LineBill *l = top(s, BILL_ISSUE);
	double all_us = said_part(s, BILL_ISSUE), own = said_spent_us(s, l, BILL_ISSUE),
	       wide = l ? said_wide(s, l->line) : 0;
	if (!l || !is_near(s, BILL_ISSUE))
		return;
	for (int i = 0; i < s->x->spent.n; i++) {
		const LineBill *d = &s->x->spent.at[i];
		if (d->file == s->x->f->place.file &&
		    said_spent_us(s, d, BILL_ISSUE) > .1 * all_us && said_divides(s, d->line)) {
			said_remedy(s, all, 0,
			    arena_printf(s->mem,
				"line %d divides: of a warp that has a numerator or divisor of 0, or one close to the "
				"least or greatest numbers or beyond, all wait for a routine of about 60 instructions "
				"more, which the estimate leaves out as data decides it; fast::div, or a product with "
				"an inverse, has no such branch",
				d->line));
			break;
		}
	}
	int quotients;
	double routines = said_quotients(s, l->line, &quotients);
	if (routines > .1)
		said_remedy(s, all, with_less(s, routines * own / all_us),
		    arena_printf(s->mem,
			"at best, without line %d's %d divisions and remainders of integers by "
			"what is no constant: about "
			"%.0f %% of its instructions; where a value goes at most once around, a "
			"comparison and a "
			"subtraction do (x >= n ? x - n : x), and 32 bits take half of 64",
			l->line, quotients, 100 * routines));
	if (*said_keys(s, l->line))
		said_remedy(s, all, said_with(s, BILL_ISSUE, own * KEYS),
		    arena_printf(s->mem,
			"at best, if line %d had no %s, which compares keys of 64 bits, an element and its "
			"index in one, by about ten instructions an element: a max or min alone takes one, "
			"and the least index at which the element equals it three",
			l->line, said_keys(s, l->line)));
	else if (wide >= .2 && said_casts(s, l->line))
		said_remedy(s, all, said_with(s, BILL_ISSUE, own * wide / (1 + wide)),
		    arena_printf(s->mem,
			"at best, if line %d's indices were of "
			"32 bits: %.0f %% of its instructions in PTX compute in 64, each of which "
			"takes two; cast its tile of indices, as in (...) as i32, where the numbers fit",
			l->line, 100 * wide));
	bool memory;
	double outside;
	if (s->us > MORE * said_least(s, &memory, &outside) &&
	    all_us >= REPORT_NEAR * said_part(s, said_longest(s, -1)))
		said_remedy(s, all, 0,
		    arena_printf(s->mem,
			"fewer instructions for each result: line %d has the most, %s%s%s", l->line,
			said_micro(s, own), *said_mix(s, l->line) ? ", " : "",
			said_mix(s, l->line)));
}

static void
add_functions(const Said *s, Remedies *all)
{
	const LineBill *l = top(s, BILL_SPECIAL);
	const char *of = l ? said_specials(s, l->line) : "";
	bool converts = strncmp(of, "conversions", 11) == 0;
	bool is_fast = l && l->line > 0 && l->line <= s->source.n && strstr(s->source.at[l->line - 1], "fast::");
	if (*of && is_near(s, BILL_SPECIAL))
		said_remedy(s, all, 0,
		    arena_printf(s->mem,
			"fewer %s: line %d has %s of them, %s%s", converts ? "conversions" : "special functions", l->line,
			said_micro(s, said_spent_us(s, l, BILL_SPECIAL)), of,
			converts || is_fast ? ""
				 : "; where a fast:: form has the precision that is needed, it takes fewer instructions"));
}

/* ---- all of it ---- */

static Remedies
collect(const Said *s)
{
	Remedies all = {0};
	double waits = said_part(s, BILL_WAITING);
	const char *late = waits > .3 * said_part(s, said_longest(s, -1)) ? said_late_reads(s) : "";
	if (s->x->t->rates && s->x->bill.launched > 0 &&
	    s->x->bill.launched < .8 * s->x->t->rates->multiprocessors)
		said_remedy(s, &all, 0,
		    arena_printf(s->mem,
			"%.0f of %d multiprocessors have a program: more of them, each with less "
			"of the work, use the rest",
			s->x->bill.launched, s->x->t->rates->multiprocessors));
	add_starts(s, &all);
	add_spills(s, &all);
	said_access_remedies(s, &all);
	add_own_reads(s, &all);
	add_steps(s, &all);
	add_variants(s, &all);
	add_products(s, &all);
	add_padding(s, &all);
	if (*late)
		said_remedy(s, &all, 0,
		    arena_printf(s->mem,
			"%s: loads stay behind stores, so that nothing hides their latency; read into a let before the "
			"first write",
			late));
	add_instructions(s, &all);
	add_functions(s, &all);
	return all;
}

/* What a schedule does not change, and the kernel's text may: by what is far above the floor. */
static const char *
another_text(const Said *s, double least)
{
	static const char *const way[BILL_PARTS] = {
	    [BILL_MEMORY] = "that moves fewer bytes, or each once",
	    [BILL_SECTORS] =
		"in which programs have more of their reads in common, or read less of it twice",
	    [BILL_ATOMICS] =
		"that joins what goes to one place before an atomic operation takes it there",
	    [BILL_REQUESTS] = "with fewer, wider accesses",
	    [BILL_SPECIAL] = "with fewer special functions",
	    [BILL_SHUFFLES] = "in which threads exchange less",
	    [BILL_SHARED] = "in which less goes through shared memory",
	    [BILL_PRODUCTS] = "with fewer products",
	    [BILL_WAITING] = "that begins more reads before it waits",
	};
	static const double MUCH = .15;
	const LineBill *waits = top(s, BILL_WAITING);
	BillPart p = said_longest(s, -1);
	bool results = p == BILL_WAITING && waits && waits->wait &&
		       strcmp(waits->wait, "memory's latency") != 0;
	const char *of = said_behind_us(s) > MUCH * s->us
			     ? "with fewer instructions behind the products"
			 : results ? "with results that do not follow from one another"
			 : said_alone(s) > 0 && said_part(s, p) < FEW * least
			     ? "in which less waits for what comes before it"
			     : way[p];
	return of ? arena_printf(s->mem, " Not tried: another text, %s.", of) : "";
}

void
said_remedies(const Said *s, SaidList *out)
{
	enum { SHOWN = 8 };
	bool memory, few;
	double outside, least = said_least(s, &memory, &outside);
	few = s->us < FEW * least;
	Remedies all = collect(s), wide = {0};
	Text t = {0};
	said_wider_remedies(s, &wide);
	if (few && !wide.n) {
		text_printf(&t,
		    "What to change: nothing in the schedule, as the estimate is within %.0f %% of "
		    "the least; %s",
		    MAX(100 * (s->us / least - 1), 1),
		    memory
			? "only fewer bytes take less: smaller dtypes, or fewer passes over them."
			: "only fewer or smaller products take less.");
		said_add(s, out, text_take(&t, s->mem));
		return;
	}
	for (int i = 0; i < all.n && i < SHOWN; i++) {
		const Remedy *r = &all.at[i];
		const char *about =
		    r->us > 0 ? arena_printf(s->mem, "to about %s ", said_micro(s, r->us)) : "";
		text_printf(&t, "%s%d. %s%s", i ? "; " : "", i + 1, about, r->text);
	}
	bool any = all.n > 0 && all.at[0].us > 0, tiles = any && all.at[0].tiles;
	if (!any)
		text_printf(&t, "%s no other tiles or warps are clearly better by the model",
		    t.n ? ". That has no figure;" : "nothing in the schedule:");
	/* bench/results/h200-estimates.md */
	const char *held = tiles ? " Of 39 kernels with the tiles that stood first here an H200 took less for 30, 0.37 to "
				   "0.96 of the time."
				 : "";
	said_add(s, out,
	    arena_printf(s->mem, "What to change%s: %s.%s%s", any ? ", and the launch's time by the model then" : "",
		t.at, held, s->us > ANOTHER * least ? another_text(s, least) : ""));
	text_close(&t);
}
