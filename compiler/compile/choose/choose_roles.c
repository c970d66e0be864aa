/* Which kernels are parted into roles where the schedule leaves that open: loops with two chained products of warpgroups,
 * as attention's.  Their products and what is computed between them run at once only there (pass skew), and two groups of
 * warps at least hide what one alone would show.
 *
 *     for … { %s = dot %q, %k, %0;  …;  %o = dot (cast %p), %v, %acc }        8 warps or more
 *
 * What a launch of products takes knows it too; the choice (choose.c) and the tuner's order compare schedules by that. */
#include "compile/choose/choose.h"
#include "compile/compile.h"
#include "compile/choose/estimate.h"

#include <math.h>
#include <string.h>

#include "model/digits/digits.h"
#include "pass/layout/dot.h"
#include "pass/share/slice_k.h"
#include "pass/share/split_k.h"

#include <limits.h>

/* 870 us of 1090 on an H200 (attention, d 128, s 4096, 128 keys a trip), where 64 keys a trip take an eighth more. */
static const double CHAINED_SHARE = 0.7;
enum { TRIP_COLUMNS = 16, SLICED_TRIPS = 16 };
enum { LEAST_WARPS = 8, WARP_ROWS = 16, WARPGROUP = 2 };        /* the last one: log2 of its warps */

/* In a loop, with rows for all warps. */
static bool
may_chain(const Op *op, int warps)
{
	const Type *t = op->out[0].type;
	return op->kind == OP_DOT && op->home->parent && op->home->parent->kind == OP_FOR && t->rank == 2 &&
	    t->extent[0] >= warps * WARP_ROWS;
}

int
choose_roles_of(const Func *f, const Schedule *s, const Target *t, int least_warps)
{
	bool open = s->at[SCHEDULE_SPECIALIZE] < 0 && s->at[SCHEDULE_PERSISTENT] <= 0 && s->ctas <= 1 && s->split <= 1;
	if (!t || !(t->has & HAS_WGMMA) || !(t->has & HAS_SETMAXNREG) || !open || s->warps < least_warps || s->stages == 1)
		return 0;
	for (const Op *op = f->body->first; op; op = op_after(op, f->body)) {
		const Op *next = may_chain(op, s->warps) ? dot_next(f, &op->out[0]) : NULL;
		if (next && next->home == op->home)
			return (int)op->out[0].type->extent[1];
	}
	return 0;
}

int
choose_roles(const Func *f, const Schedule *s, const Target *t)
{
	return choose_roles_of(f, s, t, LEAST_WARPS);
}

bool
choose_slices_badly(const Func *f, const Bound *b, const Target *t)
{
	for (const Op *op = f->body->first; op; op = op_after(op, f->body)) {
		const Op *loop = op->kind == OP_DOT ? op->home->parent : NULL;
		if (op->kind == OP_DOT)
			return slice_takes(op->out[0].type, t) && loop && loop->kind == OP_FOR &&
			    estimate_trips(f, b, loop) < SLICED_TRIPS;
	}
	return false;
}

bool
choose_says_nothing(const Kernel *k, const NamedConst *v)
{
	if (ANY_OF(i, k->item->tune.n, strcmp(k->item->tune.at[i].name, v->name) == 0))
		return false;
	bool splits = schedule_named(v->name) == SCHEDULE_SPLIT;
	return splits ? v->value.i <= 1 : v->value.kind == CONST_BOOL && !v->value.i;
}

int
choose_count_dots(const Func *f)
{
	return COUNT_OPS(op, f->body, op->kind == OP_DOT);
}

bool
choose_written_out(const Func *f)
{
	return choose_count_dots(f) > 1 &&
	    !ANY_OP(op, f->body, op_is_loop(op) && ANY_OF(r, op->nregion, block_find(op->region[r], OP_DOT)));
}

int
choose_warps(Func *f, const Target *t, const int *warps, int n)
{
	bool chained = choose_count_dots(f) > 1;
	int64_t most = chained ? INT_MAX : 2 << WARPGROUP;
	int fits = 0;
	DotWgmma w;
	for (Op *op = f->body->first; op; op = op_after(op, f->body)) {
		if (op->kind == OP_DOT && dot_mma(op, t) && dot_wgmma_reason(op, t, WARPGROUP, false, &w))
			return 0;
		if (op->kind == OP_DOT && chained)
			most = MIN(most, op->out[0].type->extent[0] / WARP_ROWS);
	}
	while (fits < n && warps[fits] <= most)
		fits++;
	return fits;
}

/* More than two products, chained, which the estimate of parted kernels does not know, take a share of what they take
 * flat. */
double
choose_cycles(Func *f, const Bound *bound, const Target *t, Bill *bill)
{
	Bound b = *bound;
	double cycles = estimate_cycles(f, &b, t, bill);
	if (cycles >= 0 || b.schedule.specialize != 1 || choose_count_dots(f) <= 2)
		return cycles;
	b.schedule.specialize = -1;
	int columns = choose_roles(f, &b.schedule, t);
	double share = CHAINED_SHARE * (columns + TRIP_COLUMNS) / MAX(columns, 1);
	return columns ? share * estimate_cycles(f, &b, t, bill) : -1;
}

static bool
bill_of(const Bound *b, Func *f, const Target *t, Arena *mem, Bill *out)
{
	Kernel *k = (Kernel *)b->kernel;
	Compile *cx = k->program->cx;
	if (!ANY_OP(op, f->body, op_family(op) == FAMILY_DOT_ASYNC))
		return estimate_bill(f, b, t, mem, NULL, out);
	cx->muted++;
	Func *simplified = choose_simplified(k, b, t);
	cx->muted--;
	return simplified && estimate_cycles(simplified, b, t, out) > 0;
}

/* Cycles from one kernel's end to the next one's first products, which starts early.  What adds up parts begins while the
 * last of them are made, and a kernel before that makes these keeps all multiprocessors busy: of 60 launches of 22 products
 * on an H200, 512 x 512 x 8192 to 967 x 984 x 48952 in 2 to 64 parts, estimates are 7 % off so, 10 as a sum, which is 1.13
 * of what short launches take and .92 of long ones; of 27 of 8 products kept aside 6 % and 10. */
double
choose_both_cycles(const Bound *b, double first, double second)
{
	static const double NEXT = 3500, BUSY = 1.075, JOIN = 0.3;
	double next = NEXT + second;
	return b->schedule.parts > 1 ? BUSY * first + JOIN * next : first + next;
}

/* With the kernel before, if it has one. */
bool
choose_bill(const Bound *b, Func *f, const Target *t, Arena *mem, Bill *out)
{
	if (!t->rates || !bill_of(b, f, t, mem, out))
		return false;
	if (!f->nmade || b->schedule.materialize >= MATERIALIZE_FIRST)
		return true;
	double first = choose_first_cycles(b, t, mem);
	out->cycles = choose_both_cycles(b, first, out->cycles);
	return first >= 0;
}

bool
choose_gathers(const Func *f)
{
	return ANY_OP(op, f->body,
	    op->kind == OP_READ && op->home->parent && op->out[0].type->rank == 2 &&
		strchr(attr_index(op), 'g'));
}

bool
choose_sums(const Func *f)
{
	for (const Op *op = f->body->first; op; op = op_after(op, f->body)) {
		const Op *loop = op->kind == OP_DOT && !dot_decodes(op) ? op->home->parent : NULL;
		if (loop && loop->kind == OP_FOR &&
		    ANY_OF(i, loop->nout,
			type_same_shape(loop->out[i].type, op->out[0].type) &&
			    split_fold(loop, i) == OP_ADD))
			return true;
	}
	return false;
}
