/* Chooses how many blocks share a program's loop, where the caller left `split` open: for launches of few programs, each
 * with a long loop, which leave most multiprocessors idle.
 *
 * A loop with `merge` says that it is meant to be shared, and one of products by warps whose updates say how its states
 * join takes a block as long: attention of a token over 4096 keys, 8 groups of heads, 43.6 us on an H200, 7.1 by 16 blocks
 * each.  Others that can be (sums, greatest and least elements) need fewer programs.  As many blocks as fill the
 * multiprocessors once, as long as each has some iterations: what is left to join grows with them.  Kernels with products
 * are choose.c's, whose estimate knows what a join takes. */
#include "compile/choose/choose.h"
#include "compile/compile.h"
#include "compile/choose/estimate.h"
#include "pass/pass.h"
#include "pass/share/split_k.h"

#include <math.h>

enum {
	SPLIT_LARGEST = 32,
	TRIPS_LEAST = 4,
	TRIPS_LEAST_MERGED = 4,                         /* decode of 64 trips on an H200: 8 parts 10.0 us, 16 parts 9.1 */
	FEWER = 4,
	SETS_SPLIT = 2,                                 /* of blocks, where several share a loop */
};
/* Of what blocks alone take by the estimate.  On an H200 3072^3 went from 100 to 85 us (0.84 by the estimate), 3000^3 from
 * 106 to 94 (0.84), 1031 x 4104 x 4104 from 94 to 86 (0.71); but 4096^3 from 182 to 192 (1.03), and 5000 x 1000 x 1000 from
 * 28 to 31 (1.01).  Each program takes at least so many cycles, those of two joins: of 4 and 8 trips a transposed
 * convolution went from 59 to 88 us (0.90), four products of pixels from 51 to 61 (0.90), Winograd's 16 from 31 to 37
 * (0.93). */
static const double STREAM_SHARE = 0.95, STREAM_PROGRAM = 18000;
static const double PLACED = 0.9, EVENLY = 0.8;         /* of the multiprocessors, by clusters of four and more */

static bool
has_loop(const Op *from)
{
	const Block *body = from ? from->home : NULL;
	return FIND_NEXT(op, from, op_after(op, body), op_is_loop(op)) != NULL;
}

/* Products of up to so many rows, as of the queries of a group. */
static bool
has_few_rows(const Func *f, int most, bool transposed)
{
	return !ANY_OP(op, f->body, op->kind == OP_DOT && op->out[0].type->extent[op->out[0].type->rank - 2] > most &&
	    !(transposed && op->out[0].type->extent[op->out[0].type->rank - 1] <= most));
}

bool
choose_merges(const Func *f)
{
	return func_find(f, OP_MERGE) != NULL;
}

/* What joins of products by warpgroups cost the estimate knows. */
bool
choose_joins_by_warps(const Func *f)
{
	enum { WARPGROUP_ROWS = 64 };
	return choose_count_dots(f) > 1 && has_few_rows(f, WARPGROUP_ROWS - 1, false) && split_joins(f);
}

bool
choose_merges_few(const Func *f)
{
	enum { ROWS = 16 };
	return has_few_rows(f, ROWS, true) && (choose_merges(f) || (choose_count_dots(f) > 1 && split_joins(f)));
}

bool
choose_shares_last(const Schedule *s)
{
	return s->split > 1 && (s->specialize == 1 || s->persistent == 1);
}

/* Where programs are fewer than multiprocessors, and stay no longer than it.  As many as leave some idle otherwise: of
 * more, blocks that stay share the last ones (choose_stream).  Of few programs as many blocks have each, `split` at most:
 * 20 have six by split = 8, not by 16. */
bool
choose_may_split(const Bound *b, const Target *t, bool by_itself, bool joins)
{
	double programs = choose_programs(b), split = b->schedule.split, most = t->rates->multiprocessors;
	double each = fmin(split, floor(most / programs));
	if (split <= 1 || (choose_shares_last(&b->schedule) && !joins))
		return split <= 1 || !by_itself || (split < 2 * each && 4 * programs * each >= 3 * most);
	return b->schedule.ctas <= 1 && split * programs <= SETS_SPLIT * most;
}

/* Of clusters of four and more as many blocks as nine tenths of the multiprocessors hold run at once (H200: 30 clusters of
 * four, 62 where two blocks share one); the rest would take as long again. */
bool
choose_places_all(const Bound *b, const Target *t)
{
	return b->schedule.split <= 2 ||
	    b->schedule.split * choose_programs(b) <= SETS_SPLIT * floor(PLACED * t->rates->multiprocessors);
}

/* Blocks that share a loop with merge are no clusters, and join through memory, where clusters would take turns or crowd
 * on some multiprocessors.  Decode on an H200 in clusters and without: 128 blocks by fours 21.2 and 14.1 us, by eights
 * 37.5 and 28.0, 64 rows by fours 54.3 and 41.3; 112 by fours 14.2 and 12.2; but 96 18.2 and 19.8. */
bool
choose_takes_turns(const Bound *b, const Target *t, int64_t split)
{
	return split > 2 && split <= SPLIT_CLUSTER && (t->has & HAS_CLUSTER) && (t->has & HAS_ATOMIC_ORDER) &&
	    (double)split * choose_programs(b) > EVENLY * t->rates->multiprocessors;
}

/* Is the number, as a loop's end, made of what the kernel reads? */
static bool
is_data(const Value *v, int depth)
{
	const Op *op = v->def;
	if (!op || depth == 0)
		return false;
	if (op->kind == OP_READ || op->kind == OP_LOAD)
		return true;
	return ANY_OF(i, op->nin, is_data(op->in[i], depth - 1));
}

/* Rounds of blocks on all multiprocessors for one of work, where so many share each program. */
static double
rounds_of(double programs, int split, double most)
{
	static const double JOIN = 0.03;                /* for each doubling */
	double blocks = programs * split;
	return ceil(blocks / most) * most / blocks * (1 + JOIN * log2(split));
}

/* What a trip reads of tensors. */
static double
trip_bytes(const Op *loop)
{
	double n = 0;
	for (const Op *op = loop->region[0]->first; op; op = op->next)
		if (op->kind == OP_READ && op->out[0].type->rank > 1)
			n += (double)dtype_bytes(op->out[0].type->elem, type_count(op->out[0].type));
	return n;
}

/* More blocks than fill the multiprocessors once, of a loop with merge whose parts stay long: where programs leave many of
 * them idle otherwise, and, of parts that are longer still, where each program has a length of its own, which those of few
 * programs do not even out.  Decode on an H200, heads of 128 in bf16, us by blocks of a program: 9 batches of 8 groups,
 * 2600 keys 36.2 by one, 29.5 by two, 27.8 by four; 24 of up to 4096 59.1, 55.1, 50.0; 5 of 8, 5000 36.8 by two, 32.8 by
 * eight; 6 of 6, 7000, heads of 64 26.2 and 22.6; 4 of 8, 100 to 16384 31.4 by four, 29.0 by eight; 2 of 8, up to 30000
 * 36.5 by eight, 32.2 by sixteen; but all of 8192 35.2 by four and 36.2 by eight, of 12000 28.5 by eight and 29.6 by
 * sixteen, and of 14 to 27 iterations of 8 KB each 1.07 to 1.19 of half as many blocks. */
static int
more_parts(const Op *loop, double programs, int n, double trips, double most)
{
	enum { LONG = 192 * 1024, LONGER = 768 * 1024, ALL = 8, FEW = 4, LARGEST = 16, DEEP = 8 };
	double bytes = trips * trip_bytes(loop);
	int best = n;
	for (int s = 2 * n; s <= ALL && bytes >= LONG * s; s *= 2)
		if (rounds_of(programs, s, most) < rounds_of(programs, best, most))
			best = s;
	bool is_uneven = n >= FEW && 2 * n <= LARGEST && bytes >= LONGER * 2 * n && is_data(loop->in[1], DEEP);
	return is_uneven ? 2 * n : best;
}

int
choose_split_of(const Func *f, const Bound *b, const Target *t)
{
	bool merges;
	const Op *end, *loop = split_divided(f, t, &merges, &end);
	merges |= loop && (choose_merges_few(f) || choose_joins_by_warps(f));
	double programs = choose_programs(b);
	int most = t->rates ? t->rates->multiprocessors : 0;
	if (!loop || has_loop(end->next) || (!merges && programs * FEWER > most) || most == 0)
		return 1;
	double trips = estimate_trips(f, b, loop);
	int n = 1, least = merges ? TRIPS_LEAST_MERGED : TRIPS_LEAST;
	while (2 * n <= SPLIT_LARGEST && 2 * n * programs <= most && trips >= least * 2 * n)
		n *= 2;
	return merges ? more_parts(loop, programs, n, trips, most) : n;
}

/* 3072^3 with a residual took 110 us, 117 shared. */
bool
choose_reads_beside(const Func *f)
{
	return ANY_OP_HERE(op, f->body, op->kind == OP_READ && op->out[0].type->rank > 1);
}

static double
cycles_of(Kernel *k, const Target *t, const ChooseBinding *how, const NamedConst *chosen, int n, Bound *b)
{
	Func *f = choose_with(k, t, how, chosen, n, true, b);
	return f && !choose_reads_beside(f) ? choose_cycles(f, b, t, NULL) : -1;
}

void
choose_stream(Kernel *k, const Target *t, const ChooseBinding *how, NamedConst *chosen, int n)
{
	int at = VALUE_OF(i, n, schedule_named(chosen[i].name) == SCHEDULE_SPLIT, i, n);
	if (at == n || chosen[at].value.i != 1)
		return;
	Bound b;
	double alone = cycles_of(k, t, how, chosen, n, &b), programs = alone >= 0 ? choose_programs(&b) : 1;
	if (alone < STREAM_PROGRAM * ceil(programs / t->rates->multiprocessors))
		return;
	chosen[at].value.i = 2;
	double shared = cycles_of(k, t, how, chosen, n, &b);
	bool pays = shared >= 0 && shared <= STREAM_SHARE * alone;
	const Func *f = pays ? choose_with(k, t, how, chosen, n, false, &b) : NULL;
	if (!f || !f->stream)
		chosen[at].value.i = 1;
}
