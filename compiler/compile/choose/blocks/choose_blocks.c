/* Chooses the blocks of a kernel without products of warpgroups: how many warps, and whether blocks stay.
 *
 *     kernel reverse<B = 128>(a: in i16[N], b: out i16[N]) grid(p: cdiv(N, B)) { … }
 *
 * A program of 256 bytes is less than what a multiprocessor moves while it starts a block: the time goes into starting.
 * Blocks that stay, and take one program after another, start once; and such that read for several programs at once wait
 * less often (pass coarsen).  A tile that only cuts the grid may be larger (choose_tile.c).  A row for which registers do
 * not suffice is read in parts (pass strip).  Each candidate goes through the passes, and the model (model/bill.c) says
 * what it takes.  What pass coalesce would choose by the tiles' sizes alone stands unless another is clearly better: the
 * model is off by more than the last percents that those rules were tuned for.  It is further off where registers spill,
 * in loops, and for launches shorter than their overhead.  Of what tune(...) lists, values of that list are compared. */
#include "compile/choose/blocks/choose_form.h"

#include "pass/async/pipeline.h"

#include <math.h>
#include <string.h>

enum { WARPS_MOST = 16, PROGRAMS_MOST = 4, PROGRAMS_MERGED = 16, UNROLL_MOST = 32, SPLIT_MOST_TRIED = 32 };
/* Warps, and elements of a thread, where a row is read in parts.  An H200, cross entropy of 1024 rows of 32768 in bf16:
 * 56.0 us with 16 warps and 16 elements, 56.9 with 8 and 32, 64.0 with 8 and 16, whose rows the L2 cache does not hold. */
enum { STRIP_WARPS = 16, STRIP_ELEMENTS = 16, STRIP_FEWEST = 4 };
static const double CLEARLY = 0.92, CLEARLY_PRODUCTS = 0.97, CLEARLY_LOOPS = 0.95, SMALL_TILE = 1.06, SPILLS = 1.15,
	LEAST_CYCLES = 8000;
/* CLEARLY, without loops, of which the model knows the order of forms that are 5 % apart in nine of ten cases. */
static const double CLEARLY_WARPS = 0.99;
/* Products of warps in loops, before what other warps than the rule's cost. */
static const double ROUGHLY = 0.95;
/* What parts of a row must be of the estimate where only waiting bounds it, which is estimated too high: on an H200 parts
 * of 0.74 of it took 220 us for 151 (kl_div in bench/warps), of 0.91 108 for 84 (quant_token); of 0.64 and 0.40 they were
 * faster. */
static const double WAITS = 0.7;

static const TuneName *
list_of(const TuneName *all, int n, ScheduleName which)
{
	for (int i = 0; i < n; i++)
		if (all[i].nvalue > 0 && schedule_named(all[i].name) == (int)which)
			return &all[i];
	return NULL;
}

/* Nothing is faster than memory, but what the L2 cache may have kept.  In loops what waits adds to it, and may be less: the
 * mean of 49 rows, of which memory is 0.68, took 72 us with one trip at a time, 55 with 16; a cross entropy, 0.80, 66 and
 * 70 with two; drawdowns of 4096 x 10000, a scan each trip, 0.76, 119 and 97 with two. */
static bool
can_gain(const Blocks *s)
{
	static const double IN_TURN = 0.78;
	double memory = (1 - s->bill.reread) * s->bill.part[BILL_MEMORY];
	double most = s->bill.part[bill_most(&s->bill)];
	return memory < CLEARLY * most || (s->loops && memory * s->bill.programs < IN_TURN * s->bill.cycles);
}

/* Memory bounds it, but what else there is adds to that; by other warps it may be less.  Not where that is little: softmax
 * of 32768 x 4096 takes 258 us in 16 warps, 263 in 8, estimated at 262 and 247. */
static bool
can_gain_by_warps(const Blocks *s)
{
	return !s->loops && s->bill.part[BILL_MEMORY] * s->bill.programs < CLEARLY * s->bill.cycles;
}

static bool
starts_long(const Bill *b)
{
	return b->part[BILL_START] > CLEARLY * b->part[bill_most(b)];
}

/* Do blocks, the header's own or the best so far, take longest to start? */
static bool
is_starting(const Blocks *s)
{
	return starts_long(&s->bill) || (s->any && starts_long(&s->least)) || s->tallies;
}

/* How many programs a block may run at once; 0: not even one after another.  That is for programs whose blocks take longest
 * to start, or add to the same places.  An H200 was slower with more than 4 (reverse in bench/warps/fit.tgl, 2^26
 * elements: 71.4 us with 4, 77.1 with 8), and where lanes exchange elements (fft: 128 us apart, 138 with 2). */
static int
programs_most(const Blocks *s, const Bound *first, const Func *f, const TuneName *all, int n, const char **reason)
{
	bool listed = list_of(all, n, SCHEDULE_PERSISTENT) || list_of(all, n, SCHEDULE_COARSEN);
	if (listed || !blocks_is_open(s, SCHEDULE_PERSISTENT) || !blocks_is_open(s, SCHEDULE_COARSEN) ||
	    first->schedule.persistent >= 0 || first->schedule.coarsen > 0)
		return 0;
	*reason = coarsen_reason(f);
	if (coarsen_stays(f) || *reason)
		return coarsen_stays(f);
	return s->merges ? PROGRAMS_MERGED : s->tallies || !blocks_merge(f) ? PROGRAMS_MOST : 0;
}

/* With what a row's first loop reads kept for the others, which leaves room for fewer blocks: of more warps. */
void
try_kept(Blocks *s, const Bound *first, Form form, int least, int most)
{
	static const int reads[] = {0, 4, 8, 16};
	Bound b;
	if (!blocks_is_open(s, SCHEDULE_KEEP) || first->schedule.keep > 0)
		return;
	const Func *f = compile_form(s, first, form, &b);
	form.keep = f ? blocks_repeated_trips(f, &b) : 0;
	for (int i = 0; i < LEN(reads) && form.keep > 1; i++)
		for (int warps = least; warps <= most; warps *= 2) {
			form.warps = warps == s->rule && !form.strip ? 0 : warps;
			form.unroll = reads[i];
			try_form(s, first, form);
		}
}

/* A row of which the greatest few are taken: the smaller its parts, the less there is to sort. */
static void
try_few(Blocks *s, const Bound *first, int most, int least)
{
	for (int warps = most; warps >= least; warps /= 2)
		for (int each = STRIP_FEWEST; each <= STRIP_ELEMENTS; each *= 2)
			for (int unroll = 0; unroll <= (blocks_is_open(s, SCHEDULE_UNROLL) ? 4 : 0); unroll += 4)
				try_form(s, first, (Form){.warps = least < most ? warps : 0,
				    .strip = warps * s->t->lanes * each, .unroll = unroll});
}

/* A row in parts, for which registers do not suffice, or, where threads wait longer than for anything else, by which it
 * is read while others compute. */
static void
try_strips(Blocks *s, const Bound *first, bool warps_open)
{
	int most = warps_open ? 2 * STRIP_WARPS : s->rule, least = warps_open ? STRIP_WARPS / 2 : s->rule;
	if (s->bill.spilled > 0)
		s->best = s->any ? s->best : MAX(s->best, SPILLS * s->bill.cycles);
	double before = s->best, enough = s->bill.spilled > 0 ? before : MIN(before, WAITS * s->bill.cycles);
	s->best = enough;
	for (int warps = most; warps >= least; warps /= 2) {
		int strip = (warps_open ? MIN(warps, STRIP_WARPS) : warps) * s->t->lanes * STRIP_ELEMENTS;
		Form parts = {.warps = warps_open ? warps : 0, .strip = strip};
		for (int twice = 0; twice <= (warps_open && warps < STRIP_WARPS); twice++) {
			parts.strip = strip << twice;
			parts.unroll = 0;
			try_form(s, first, parts);
			try_kept(s, first, parts, warps, warps);
			for (parts.unroll = 4; parts.unroll <= 8 && blocks_is_open(s, SCHEDULE_UNROLL); parts.unroll *= 2)
				try_form(s, first, parts);
		}
	}
	if (s->best == enough)
		s->best = before;
}

static void
try_blocks(Blocks *s, const Bound *first, int most)
{
	bool any_warps = s->warps_open && !s->warps;
	bool starts = false;                            /* though what is best by now may stay */
	for (int programs = 0; programs <= ((starts |= is_starting(s)) ? most : 0); programs = MAX(2 * programs, 1))
		for (int warps = blocks_fewest_warps(s, 4); warps <= MIN(4 * s->rule, WARPS_MOST); warps *= 2)
			if (blocks_may_have(s, warps) || warps == s->rule)
				try_form(s, first, (Form){.warps = warps == s->rule ? 0 : warps, .programs = programs});
	if ((most > 0 && starts) || s->joins)
		try_batches(s, first);
	if (!blocks_is_open(s, SCHEDULE_STRIP) || first->schedule.strip)
		return;
	if (s->picks)
		try_few(s, first, any_warps ? 2 * STRIP_WARPS : s->rule, any_warps ? 1 : s->rule);
	else if (s->bill.spilled > 0 || bill_most(&s->bill) == BILL_WAITING)
		try_strips(s, first, any_warps);
}

/* Fewer warps than the fewest so far, as long as they are better: with the reads ahead that are best, and with none. */
static void
try_fewer(Blocks *s, const Bound *first, int least)
{
	for (double before = INFINITY; least > 1 && s->best < before;) {
		Form fewer = s->with == s->now ? s->form : (Form){0};
		before = s->best;
		fewer.warps = least /= 2;
		try_form(s, first, fewer);
		if (fewer.unroll)
			try_form(s, first, (Form){.warps = least});
	}
}

/* Loops read trips ahead, and blocks share them.  First the reads, with some warps about the rule; then, with the best of
 * these, blocks. */
static void
try_loops(Blocks *s, const Bound *first, const TuneName *all, int n)
{
	bool any_warps = s->warps_open && !s->warps;
	bool unroll_open = blocks_is_open(s, SCHEDULE_UNROLL) && first->schedule.unroll == 0;
	int least = s->warps ? 1 : blocks_fewest_warps(s, 2);
	for (int unroll = 1; unroll <= (unroll_open ? UNROLL_MOST : 1); unroll *= 2)
		for (int warps = least; warps <= schedule_info[SCHEDULE_WARPS].most; warps *= 2)
			if (!(s->full & warps) &&
			    (warps == s->rule || (blocks_may_have(s, warps) && (s->warps || warps <= WARPS_MOST))))
				try_form(s, first, (Form){.warps = warps == s->rule ? 0 : warps,
				    .unroll = unroll > 1 ? unroll : 0});
	if (any_warps)
		try_fewer(s, first, least);
	if (s->joins)
		try_batches(s, first);
	if (unroll_open)
		try_kept(s, first, (Form){0}, any_warps ? MAX(s->rule, 2) : s->rule, any_warps ? WARPS_MOST : s->rule);
	Form best = s->form;
	if (list_of(all, n, SCHEDULE_SPLIT) || !blocks_is_open(s, SCHEDULE_SPLIT) || first->schedule.split > 0)
		return;
	for (best.split = 2; best.split <= SPLIT_MOST_TRIED; best.split *= 2)
		try_form(s, first, best);
	best = s->form;
	for (int warps = s->rule; best.split > 1 && any_warps && warps < (best.warps ? best.warps : s->rule); warps *= 2) {
		Form fewer = best;                      /* which alone had waited */
		fewer.warps = warps == s->rule ? 0 : warps;
		try_form(s, first, fewer);
	}
}

/* The tile's own rule, some warps about it, and blocks that stay, or run several programs, where they take longest to
 * start.  One warp reverses a tile by shuffles, several through shared memory. */
static void
try_tile(Blocks *s, int most, Arena *apart)
{
	const ChooseTile *tile = &s->tile[s->now - 1];
	Bound with, b;
	Bill bill;
	s->k->program->cx->mem = apart;                 /* what is bound outlives candidates */
	if (!s->how->bind(s->how->user, tile->value, tile->n, &with))
		return;
	Func *f = compile_form(s, &with, (Form){0}, &b);
	if (!f || !estimate_bill(f, &b, s->t, s->apart.mem, NULL, &bill))
		return;
	int rule = s->rule = f->schedule.warps;
	bool starts = starts_long(&bill), flips = block_find(f->body, OP_FLIP);
	int times = s->loops && bill.part[BILL_SHARED] + bill.part[BILL_SHUFFLES] == 0 ? 4 : 2;
	for (int programs = 0; programs <= (starts ? most : 0); programs = MAX(2 * programs, 1))
		for (int warps = flips ? 1 : MAX(rule / 2, 1); warps <= MIN(times * rule, WARPS_MOST); warps *= 2) {
			Form x = {.warps = warps == rule ? 0 : warps, .programs = programs};
			if (!blocks_may_have(s, warps) && warps != rule)
				continue;
			try_form(s, &with, x);
			for (x.unroll = 4; s->loops && x.unroll <= 16 && blocks_is_open(s, SCHEDULE_UNROLL); x.unroll *= 2)
				try_form(s, &with, x);
		}
	if (s->loops && s->warps_open && !s->warps)
		try_fewer(s, &with, MAX(rule / 2, 1));
	else if (!s->loops && starts && most > 0 && !tile->is_twice && !tile->is_half)
		try_batches(s, &with);
	if (s->form.split > 1)
		try_form(s, &with, s->form);
}

/* Every combination of the compile-time numbers that tune(...) lists and that have no default, as far as they are few. */
static int
listed_tiles(const Blocks *s, const TuneName *all, int n, ChooseTile *out)
{
	int forms = 1, found = 0;
	const TuneName *name[TILE_SIZES];
	for (int i = 0; i < n && found < TILE_SIZES; i++) {
		int p = ctparam_named(s->k, all[i].name);
		bool is_open = p >= 0 && !s->k->item->ctparams.at[p].value && !s->how->is_fixed(s->how->user, all[i].name);
		if (is_open && all[i].nvalue > 1 && forms * all[i].nvalue <= LISTS_MOST) {
			name[found++] = &all[i];
			forms *= all[i].nvalue;
		}
	}
	for (int i = 0; i < forms && found > 0; i++) {
		out[i] = (ChooseTile){.n = found};
		for (int j = 0, rest = i; j < found; rest /= name[j]->nvalue, j++)
			out[i].value[j] = (NamedConst){name[j]->name, name[j]->value[rest % name[j]->nvalue], NOWHERE};
	}
	return found > 0 ? forms : 0;
}

/* Larger tiles, smaller ones of short rows, and half of the rows in straight code.  Those of few bytes, or of no power of
 * two, give way to what is as good by the model, which does not see all that they cost. */
static void
try_tiles(Blocks *s, const Bound *first, int most, const TuneName *all, int listed)
{
	int rule = s->rule, n = 0;
	Arena *keep = s->k->program->cx->mem, *apart = arena_open();
	s->k->program->cx->mem = apart;
	n = choose_tiles(s->k, first, s->t, s->how, apart, s->tile);
	n -= n > 0 && s->tile[n - 1].is_half && s->is_fitted;
	double before = s->any ? s->best : 0;
	if (n > 0 && s->tile[0].is_small && !s->loops)
		s->best = (s->any ? s->best : s->own) * SMALL_TILE;
	else if (s->is_fitted)
		s->best = s->any ? CLEARLY_LOOPS * s->best : MIN(s->best, CLEARLY * s->own);
	for (s->now = 1; s->now <= n; s->now++)
		try_tile(s, most, apart);
	s->best = before > 0 && !s->with ? before : s->best;
	if (s->loops)
		n += choose_steps(s->k, first, s->t, s->how, apart, s->tile + n);
	s->best = s->now <= n ? CLEARLY * (s->any ? MIN(s->best, s->own) : s->own) : s->best;
	for (; s->now <= n; s->now++)
		try_tile(s, most, apart);
	for (n += listed_tiles(s, all, listed, s->tile + n); s->now <= n; s->now++)
		try_tile(s, most, apart);
	try_batches_smaller(s, first, apart, all, listed);
	s->now = 0;
	s->rule = rule;
	s->k->program->cx->mem = keep;
	arena_close(apart);
}

/* Of what the estimate may be off by twice: the 4 greatest of 256 took 83 us in blocks that stay, 77 without. */
static bool
starts_longest(const Blocks *s)
{
	Bill others = s->bill;
	others.part[BILL_START] = 0;
	return s->bill.part[BILL_START] > 2 * others.part[bill_most(&others)];
}

/* Programs of one warp compute in shared blocks what they do alone, and start less often: that starting takes the most is
 * enough, or would with fewer trips than are guessed.  Ranks of rows of 50 by a sort and a scatter take an H200 81 us, 43
 * in blocks of four; roots by Newton's steps until they settle 94, 83; drafts accepted along a tree 41.8, 16.8. */
static bool
starts_alone(const Blocks *s, const Func *f)
{
	return f->schedule.warps == 1 &&
	       (bill_most(&s->bill) == BILL_START || ANY_OP(op, f->body, op->kind == OP_WHILE));
}

/* Products of warps in loops: of forms that are near each other the bill is as likely wrong as right, not of others.  What
 * it expects to take .86 (twice the warps) or .79 (four times) takes an H200, us: linear attention by 32 rows 241 for 277,
 * the eight nearest of a base 793 for 1005; of twelve kernels kept aside three move: 120 for 161, 836 for 1005, 86 for 95.
 * What it has at .87 and .88 took 1.09 and 1.19 of the time (attention with 8-bit keys, across lengths). */
static void
try_products(Blocks *s, const Bound *first)
{
	s->best = ROUGHLY * s->own;
	for (int warps = MAX(s->rule / 2, 1); warps <= MIN(4 * s->rule, WARPS_MOST); warps *= 2)
		if (warps != s->rule)
			try_form(s, first, (Form){.warps = warps});
}

/* The best so far with another value of one name, by the tile's own warps and by half and twice as many.  Is it better? */
static bool
try_side(Blocks *s, const TuneName *name, int64_t value, Arena *apart)
{
	static const double BETTER = 0.97;
	ChooseTile *tile = &s->tile[s->now];
	Bound with, b;
	int at = 0;
	if (s->now == LEN(s->tile))
		return false;
	*tile = s->with ? s->tile[s->with - 1] : (ChooseTile){0};
	while (at < tile->n && strcmp(tile->value[at].name, name->name) != 0)
		at++;
	if (at == TILE_SIZES)
		return false;
	tile->value[at] = choose_number(name->name, value);
	tile->n = MAX(tile->n, at + 1);
	s->now++;
	s->k->program->cx->mem = apart;                 /* what is bound outlives candidates */
	Func *f = s->how->bind(s->how->user, tile->value, tile->n, &with) ? compile_form(s, &with, (Form){0}, &b) : NULL;
	s->rule = f ? f->schedule.warps : s->rule;
	double before = s->best;
	s->best *= BETTER;
	for (int warps = MAX(s->rule / 2, 1); f && warps <= MIN(2 * s->rule, WARPS_MOST); warps *= 2)
		try_form(s, &with, (Form){.warps = warps == s->rule ? 0 : warps});
	if (s->with != s->now)
		s->best = before;
	return s->with == s->now;
}

/* In the best so far; the first value is the header's. */
static int64_t
value_of(const Blocks *s, const TuneName *name)
{
	const ChooseTile *best = s->with ? &s->tile[s->with - 1] : NULL;
	for (int i = 0; best && i < best->n; i++)
		if (strcmp(best->value[i].name, name->name) == 0)
			return best->value[i].value.i;
	return name->value[0].i;
}

/* Twice the present value, as long as that is better, up to the greatest of its list; or half of it. */
static void
try_values(Blocks *s, const TuneName *name, Arena *apart)
{
	enum { LEAST = 16 };
	int64_t most = 0, from = value_of(s, name), value = from;
	for (int v = 0; v < name->nvalue; v++)
		most = MAX(most, name->value[v].i);
	while (2 * value <= most && try_side(s, name, 2 * value, apart))
		value *= 2;
	while (value <= from && value / 2 >= LEAST && try_side(s, name, value / 2, apart))
		value /= 2;
}

/* Rows and columns of products of warps, and what a step sums over: twice or half of what is best so far, one name at a
 * time.  In tf32x3 the operands' parts fill the registers, which decide: 64 x 64 for 32 x 32 takes an H200 421 us for 630
 * (1024 x 1024 x 8192), steps of 16 for 32, which spilled, 601 for 969 (a filter bank of 80). */
static void
try_sides(Blocks *s, const Bound *first)
{
	enum { ROUNDS = 2 };
	int rule = s->rule, n, listed;
	Arena *keep = s->k->program->cx->mem, *apart = arena_open();
	TuneName *all;
	s->k->program->cx->mem = apart;
	const Func *f = choose_simplified(s->k, first, s->t);
	bool ok = f && kernel_tune(s->k, first, &all, &n);
	listed = ok ? n : 0;
	if (ok)
		choose_add_sides(s->k, first, s->t, s->how, f, apart, &all, &n);
	for (int round = 0; ok && round < ROUNDS; round++)
		for (int i = n - 1; i >= listed; i--)   /* steps, which stand last, before sides */
			try_values(s, &all[i], apart);
	s->now = 0;
	s->rule = rule;
	s->k->program->cx->mem = keep;
	arena_close(apart);
}

/* Of what the model is too rough for, as scatters, it still knows that blocks take longest to start. */
static void
try_rough(Blocks *s, const Bound *first, int most)
{
	if (s->tallies && most > 0)
		try_blocks(s, first, 1);
	for (int programs = 1; programs <= most && !s->tallies; programs *= 2)
		try_form(s, first, (Form){.programs = programs});
}

static void
search(Blocks *s, const Bound *first, const TuneName *all, int n)
{
	Bound b;
	s->warps = list_of(all, n, SCHEDULE_WARPS);
	s->warps_open = blocks_is_open(s, SCHEDULE_WARPS) && first->schedule.warps == 0;
	Func *f = compile_form(s, first, (Form){0}, &b);
	bool is_rough = f && !blocks_modelled(f), multiplies = is_rough && s->warps_open && blocks_multiply(f);
	s->tallies = f && blocks_privatize(f);
	s->merges = f && !s->tallies && blocks_merge(f);
	const char *none = !f      ? "it does not compile"
	    : !estimate_bill(f, &b, s->t, s->apart.mem, NULL, &s->bill) ? CHOOSE_NO_BLOCK
	    : s->bill.cycles <= LEAST_CYCLES ? "the launch takes no longer than what it costs to begin one"
	    : is_rough && !multiplies && !s->tallies && !starts_longest(s) && !starts_alone(s, f)
	    ? "the model knows its operations, or loops with products, too little: warps follow from the tiles' sizes"
	                                     : NULL;
	if (none) {
		why_none(s->how->why, none);
		return;
	}
	if (multiplies)
		why_anew(s->how->why);
	why_tried(s->how->why, NULL, 0, s->bill.cycles, &s->bill, NULL);
	s->rule = f->schedule.warps;
	s->tallies |= s->merges &= bill_most(&s->bill) == BILL_ATOMICS;
	if (s->how->why)
		s->how->why->warps = s->rule;
	const char *reason = NULL;
	int most = programs_most(s, first, f, all, n, &reason);
	s->several = most > 1;
	s->loops = blocks_loop(f);
	s->joins = batches_join(f, &s->bill);
	s->picks = ANY_OP(op, f->body, op->kind == OP_TOPK);
	s->multiplies = choose_count_dots(f) > 0;
	s->is_fitted = s->loops || s->multiplies;
	s->own = s->bill.cycles * blocks_overfull(s, &s->bill, f);
	s->best = s->own * (s->multiplies ? CLEARLY_PRODUCTS : s->loops ? CLEARLY_LOOPS : CLEARLY_WARPS);
	s->shares = !list_of(all, n, SCHEDULE_SHARE) && blocks_is_open(s, SCHEDULE_SHARE) && first->schedule.share <= 0;
	bool alone = is_rough || (!can_gain(s) && !can_gain_by_warps(s));       /* else its own form is among the others */
	if (alone && may_share(s, f, &s->bill, (Form){0}))
		try_shares(s, first, (Form){0});
	if (is_rough) {
		if (multiplies && !s->warps && !s->tallies && !starts_longest(s)) {
			try_products(s, first);
			try_sides(s, first);
		} else if (multiplies || s->tallies || starts_longest(s))
			try_rough(s, first, most);
		return;
	}
	if (can_gain(s) && s->loops)
		try_loops(s, first, all, n);
	else if (can_gain(s) || can_gain_by_warps(s))
		try_blocks(s, first, can_gain(s) || s->tallies ? most : 0);
	else
		why_none(s->how->why, "device memory bounds the header's own: other blocks take as long");
	try_tiles(s, first, most, all, n);
	if (reason && most == 0 && is_starting(s) && s->how->why)
		text_printf(&s->how->why->chosen, "  a block for each program, which takes long to start: %s\n", reason);
}

bool
choose_blocks(Kernel *k, const Bound *b, const Target *t, const ChooseBinding *how, Arena *mem, NamedConst **values, int *n)
{
	Blocks s = {.k = k, .t = t, .how = how, .apart = candidates_open(k)};
	TuneName *all;
	int nall;
	*n = 0;
	if (kernel_tune(k, b, &all, &nall))
		search(&s, b, all, nall);
	candidates_close(&s.apart);
	if (!s.any)
		return false;
	*values = NEW_ARRAY(mem, NamedConst, VALUES_MOST);
	*n = form_values(&s, s.with, s.form, *values);
	if (*n > 0 && how->why)
		choose_explain(*values, *n, b, &s.bill, t, &how->why->chosen);
	return *n > 0;
}
