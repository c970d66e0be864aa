/* Inclusive scans along an axis.
 *
 * Each step takes a run of the axis's bits, from the lowest, and makes of 2^n neighbouring blocks of elements one.  The
 * state is
 *
 *     scan     by register: the result so far, within the registers that one thread holds together
 *     before   by group of registers: all elements of the block before the group's, combined
 *     total    by group: the whole block combined, in all of its threads
 *
 *     lanes:  other = total of the lane across;  total = lower with higher;
 *             higher half: before = other's total, then before
 *
 * and at the end each group's `before` is put before its registers.  Warps exchange totals through scratch.  A reversed
 * scan is the same with the halves exchanged; a region never gets its operands in another order than the
 * scan's. */
#include "lower/across/across.h"

#include <string.h>

typedef struct Group {
	Reg *total, *before;
	bool has_before;                                /* in every thread … */
	Reg valid;                                      /* … or, if it is not 0, in those where it is true */
} Group;

typedef struct Scan {
	Combine f;
	ReducePlan plan;
	bool reverse;
	uint64_t live, lanes;                           /* register and lane bits that number the groups */
	Reg **scan;                                     /* by register */
	Group *group;                                   /* by register, of its group's first */
} Scan;

static Reg *
state_new(const Scan *s)
{
	return NEW_ARRAY(s->f.l->mem, Reg, STATE_MAX);
}

static void
copy(const Scan *s, Reg *to, const Reg *from)
{
	memcpy(to, from, sizeof *to * (size_t)s->f.p->n);
}

static void
enter(Scan *s, Lower *l, const Op *op)
{
	int n = 1 << s->plan.layout.in[IN_REGISTER];
	const Reg *in[STATE_MAX] = {0};
	Reg element[STATE_MAX];
	s->scan = NEW_ARRAY(l->mem, Reg *, n);
	s->group = NEW_ARRAY(l->mem, Group, n);
	for (int k = 0; k < op->nin; k++)
		in[k] = lower_operand(l, op, k, &s->plan.layout);
	for (int r = 0; r < n; r++) {
		for (int k = 0; k < op->nin; k++)
			element[k] = in[k][r];
		s->scan[r] = state_new(s);
		combine_enter(&s->f, element, 0, s->scan[r]);
		s->group[r] = (Group){.total = state_new(s), .before = state_new(s)};
		copy(s, s->group[r].total, s->scan[r]);
	}
}

/* Puts `state` before all that is before group g already, in the threads where `where` is true (0: all). */
static void
put_before(Scan *s, Group *g, const Reg *state, Reg where)
{
	Lower *l = s->f.l;
	Reg both[STATE_MAX], next[STATE_MAX], none[STATE_MAX];
	if (where && combine_identity(&s->f, none)) {
		combine_select(&s->f, where, state, none, next);
		if (g->has_before)
			combine_states(&s->f, next, g->before, next);
		copy(s, g->before, next);
		g->has_before = true;
		return;
	}
	if (!g->has_before && !g->valid) {
		copy(s, g->before, state);
		g->has_before = !where;
		g->valid = where;
		return;
	}
	combine_states(&s->f, state, g->before, both);
	copy(s, next, both);
	if (g->valid)
		combine_select(&s->f, g->valid, both, state, next);
	if (where)
		combine_select(&s->f, where, next, g->before, next);
	copy(s, g->before, next);
	if (!where) {
		g->has_before = true;
		g->valid = 0;
	} else if (g->valid) {
		g->valid = lower_op2(l, THREAD_OR, g->valid, where);
	}
}

/* All registers whose group's first is r: r itself and those that runs of registers joined to it. */
static void
put_before_all(Scan *s, uint64_t r, const Reg *state, Reg where, uint64_t joined)
{
	uint64_t at = 0;
	do {
		put_before(s, &s->group[r | at], state, where);
		at = subset_next(at, joined);
	} while (at);
}

/* Number i of a run's 2^n blocks, in the order of the scan, as bits of registers. */
static uint64_t
run_at(const Scan *s, const AxisRun *run, int i)
{
	uint64_t at = 0;
	if (s->reverse)
		i = (1 << run->n) - 1 - i;
	for (int b = 0; b < run->n; b++)
		at |= (uint64_t)(i >> b & 1) << run->bit[b];
	return at;
}

/* Registers: groups are joined in order.  The first run of all makes the scan of a thread's neighbours itself. */
static void
over_registers(Scan *s, const AxisRun *run, bool first, uint64_t joined)
{
	uint64_t base = 0;
	for (int b = 0; b < run->n; b++)
		s->live &= ~(UINT64_C(1) << run->bit[b]);
	do {
		Reg carry[STATE_MAX];
		for (int i = 0; i < 1 << run->n; i++) {
			uint64_t r = base | run_at(s, run, i);
			Group *g = &s->group[r];
			if (i == 0) {
				copy(s, carry, g->total);
				continue;
			}
			if (first)
				combine_states(&s->f, carry, s->scan[r], s->scan[r]);
			else
				put_before_all(s, r, carry, 0, joined);
			if (first)
				copy(s, carry, s->scan[r]);
			else
				combine_states(&s->f, carry, g->total, carry);
		}
		copy(s, s->group[base].total, carry);
		base = subset_next(base, s->live);
	} while (base);
}

/* True in the lanes (or warps) whose bit says that they come later. */
static Reg
is_later(const Scan *s, Reg number, int bit)
{
	Lower *l = s->f.l;
	Reg set = lower_op2(l, THREAD_AND, number, lower_i32(l, INT64_C(1) << bit));
	return lower_op2(l, s->reverse ? THREAD_EQ : THREAD_NE, set, lower_i32(l, 0));
}

static void
over_lanes(Scan *s, const AxisRun *run, uint64_t joined)
{
	Lower *l = s->f.l;
	for (int b = 0; b < run->n; b++) {
		int bit = run->bit[b];
		Reg later = is_later(s, l->lane, bit), other[STATE_MAX], a[STATE_MAX], z[STATE_MAX];
		uint64_t r = 0;
		do {
			Group *g = &s->group[r];
			combine_lane_xor(&s->f, g->total, 1 << bit, other);
			put_before_all(s, r, other, later, joined);
			if (s->f.p->commutes) {
				combine_states(&s->f, g->total, other, g->total);
			} else {
				combine_select(&s->f, later, other, g->total, a);
				combine_select(&s->f, later, g->total, other, z);
				combine_states(&s->f, a, z, g->total);
			}
			r = subset_next(r, s->live);
		} while (r);
		s->lanes &= ~(UINT64_C(1) << bit);
	}
}

/* The warp's position in its group, in the order of the scan, and the totals before it. */
static void
over_group(Scan *s, const AxisRun *run, uint64_t r, Reg **total, uint64_t joined)
{
	Lower *l = s->f.l;
	int n = 1 << run->n;
	Reg position = 0, sum[STATE_MAX], mine[STATE_MAX];
	for (int b = 0; b < run->n; b++) {
		Reg bit = lower_op2(l, THREAD_LSHR, l->warp, lower_i32(l, run->bit[b]));
		bit = lower_op2(l, THREAD_AND, bit, lower_i32(l, 1));
		bit = b ? lower_op2(l, THREAD_SHL, bit, lower_i32(l, b)) : bit;
		position = position ? lower_op2(l, THREAD_OR, position, bit) : bit;
	}
	if (s->reverse)
		position = lower_op2(l, THREAD_XOR, position, lower_i32(l, n - 1));
	for (int i = 0; i < n; i++) {
		Reg *t = total[s->reverse ? n - 1 - i : i];
		if (i == 0) {
			copy(s, sum, t);
			copy(s, mine, t);
			continue;
		}
		if (i > 1)
			combine_select(&s->f, lower_op2(l, THREAD_EQ, position, lower_i32(l, i)), sum, mine, mine);
		combine_states(&s->f, sum, t, sum);
	}
	put_before_all(s, r, mine, lower_op2(l, THREAD_NE, position, lower_i32(l, 0)), joined);
	copy(s, s->group[r].total, sum);
}

static void
over_warps(Scan *s, const AxisRun *run, uint64_t joined)
{
	Lower *l = s->f.l;
	int nregs = 1 << __builtin_popcountll(s->live), n = 1 << run->n, i = 0;
	Reg **all = NEW_ARRAY(l->mem, Reg *, nregs), **v = NEW_ARRAY(l->mem, Reg *, n);
	uint64_t r = 0;
	do {
		all[i++] = s->group[r].total;
		r = subset_next(r, s->live);
	} while (r);
	WarpExchange t = warp_exchange(&s->plan.layout, s->lanes, run);
	Reg base = lower_scratch(l, s->f.p->op);
	exchange_write(&s->f, &t, base, all, nregs);
	lower_barrier(l);
	for (i = 0; i < n; i++)
		v[i] = state_new(s);
	i = 0;
	do {
		exchange_read(&s->f, &t, base, i++, nregs, v);
		over_group(s, run, r, v, joined);
		r = subset_next(r, s->live);
	} while (r);
}

/* Elements within a thread's neighbours, and what was before them all. */
static void
leave(Scan *s, Lower *l, Op *op, uint64_t inner)
{
	int n = 1 << s->plan.layout.in[IN_REGISTER];
	Reg *out[STATE_MAX], *regs[STATE_MAX];
	for (int k = 0; k < op->nout; k++) {
		out[k] = lower_new(l, &op->out[k]);
		regs[k] = NEW_ARRAY(l->mem, Reg, n);
	}
	for (int r = 0; r < n; r++) {
		const Group *g = &s->group[(uint64_t)r & ~inner];
		Reg both[STATE_MAX], result[STATE_MAX];
		if (g->has_before || g->valid) {
			combine_states(&s->f, g->before, s->scan[r], both);
			if (g->valid)
				combine_select(&s->f, g->valid, both, s->scan[r], both);
			copy(s, s->scan[r], both);
		}
		combine_leave(&s->f, s->scan[r], result);
		for (int k = 0; k < op->nout; k++)
			regs[k][r] = result[k];
	}
	for (int k = 0; k < op->nout; k++)
		lower_to_layout(l, op, regs[k], &s->plan.layout, op->out[k].layout, lower_type(op->out[k].type), out[k]);
}

void
lower_scan(Lower *l, Op *op)
{
	Scan s;
	uint64_t inner = 0, joined = 0;                 /* register bits of the first run, if it has any; of later ones */
	plan_reduce(op, &s.plan);
	combine_open(&s.f, l, &s.plan);
	s.reverse = attr_reverse(op);
	s.live = s.plan.live;
	s.lanes = s.plan.lanes;
	enter(&s, l, op);
	for (int i = 0; i < s.plan.nruns; i++) {
		const AxisRun *run = &s.plan.run[i];
		if (run->in == IN_LANE) {
			over_lanes(&s, run, joined);
		} else if (run->in == IN_WARP) {
			over_warps(&s, run, joined);
		} else {
			over_registers(&s, run, i == 0, joined);
			for (int b = 0; b < run->n; b++)
				*(i == 0 ? &inner : &joined) |= UINT64_C(1) << run->bit[b];
		}
	}
	leave(&s, l, op, inner);
}
