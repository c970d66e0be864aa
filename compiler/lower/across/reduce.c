/* Reductions along an axis.
 *
 *     f32[4, 256] over dimension 1:  registers that differ along it        a tree in each thread (decoded products: chains)
 *                                    lanes that differ along it            butterflies of shuffles
 *                                    warps that differ along it            one trip through scratch
 *
 * Every thread that held some element of a row ends with the row's result, so the result's layout is the operand's with
 * the dimension summed away, and a whole tile's reduction leaves a scalar in all threads.  The order is fixed, so the
 * same bits come out of every run.  A region need not commute: its steps are taken in the order of
 * the axis's bits, the lowest first, each time the lower block of elements before the higher one. */
#include "lower/across/across.h"

#include <string.h>

typedef struct State {
	Combine f;
	ReducePlan plan;
	uint64_t live, lanes;                           /* register and lane bits that number the states */
	Reg **at;                                       /* by register */
} State;

/* Elements become states; some take the index along the axis. */
static void
enter(State *s, Lower *l, const Op *op)
{
	int axis = (int)attr_axis(op), n = 1 << s->plan.layout.in[IN_REGISTER];
	const Reg *in[STATE_MAX] = {0};
	Reg element[STATE_MAX], thread = 0;
	for (int k = 0; k < op->nin; k++)
		in[k] = lower_operand(l, op, k, &s->plan.layout);
	if (combine_has_index(&s->f))
		thread = lower_thread_coordinate(l, &s->plan.layout, axis);
	s->at = NEW_ARRAY(l->mem, Reg *, n);
	for (int r = 0; r < n; r++) {
		if ((uint64_t)r & ~s->live)
			continue;
		Reg index = thread;
		uint32_t own = lower_register_coordinate(&s->plan.layout, r, axis);
		if (thread && own)
			index = lower_op2(l, THREAD_XOR, thread, lower_i32(l, own));
		for (int k = 0; k < op->nin; k++)
			element[k] = in[k][r];
		s->at[r] = NEW_ARRAY(l->mem, Reg, STATE_MAX);
		combine_enter(&s->f, element, index, s->at[r]);
	}
}

enum { FEW_CHAINS = 2 };                                /* log2: of sums in a thread, none of which waits for another */

/* Is it made of elements of up to 8 bits, as of weights, or looked up? */
static bool
is_decoded(const Value *v, int depth)
{
	enum { NARROW_BITS = 8, DEEP = 8 };
	const Op *op = v->def;
	if (!op || depth > DEEP)
		return false;
	if (op->kind == OP_CAST && dtype_info[op->in[0]->type->elem].bits <= NARROW_BITS)
		return true;
	bool passes = op_has(op, ELEM) || op->kind == OP_RESHAPE;
	return op->kind == OP_LOOKUP || (passes && ANY_OF(i, op->nin, is_decoded(op->in[i], depth + 1)));
}

/* How many of the run's bits a tree takes: all, but of decoded products few, since a sum in sequence takes the next
 * product in one instruction (fma), and a tree of n products takes n / 2 more.  Products of wider elements wait for memory,
 * and a sequence longer than a tree. */
static int
tree_bits(const State *s, const AxisRun *run)
{
	const Op *from = FIND_NEXT(o, s->f.p->op->in[0]->def, o->in[0]->def, o->kind != OP_RESHAPE);
	bool adds_products = s->f.p->kind == COMBINE_SUM && dtype_is_float(s->f.from) && from && from->kind == OP_MUL &&
	    is_decoded(from->out, 0);
	int others = __builtin_popcountll(s->live) - run->n;
	return adds_products ? MIN(run->n, MAX(FEW_CHAINS - others, 0)) : run->n;
}

static void
over_registers(State *s, const AxisRun *run)
{
	int ntree = tree_bits(s, run);
	uint64_t chained = 0;
	for (int i = ntree; i < run->n; i++)
		chained |= UINT64_C(1) << run->bit[i];
	s->live &= ~chained;
	for (uint64_t k = subset_next(0, chained), r = 0; k; k = subset_next(k, chained))
		do {
			combine_states(&s->f, s->at[r], s->at[r | k], s->at[r]);
			r = subset_next(r, s->live);
		} while (r);
	for (int i = 0; i < ntree; i++) {
		uint64_t bit = UINT64_C(1) << run->bit[i], r = 0;
		s->live &= ~bit;
		do {
			combine_states(&s->f, s->at[r], s->at[r | bit], s->at[r]);
			r = subset_next(r, s->live);
		} while (r);
	}
}

/* ---- where the greatest is ---- */

/* Do the places of a thread's own elements and of other threads' differ in bits apart?  Then those of one thread are in the
 * order of its registers' places. */
static bool
has_own_places(const Layout *l, int axis)
{
	uint64_t mask = ((UINT64_C(1) << l->out[axis]) - 1) << layout_out_at(l, axis), own = 0, others = 0;
	for (int i = 0; i < layout_in_bits(l); i++)
		*(i < l->in[IN_REGISTER] ? &own : &others) |= l->map.col[i] & mask;
	return !(own & others);
}

/* The place, among the registers at[…] by place, of the first element that is v; of none, as v is NaN, the first. */
static Reg
first_place(Lower *l, const Reg *in, const int *at, int n, Reg v)
{
	int first = 0;
	while (at[first] < 0)
		first++;
	Reg place = lower_i32(l, first);
	for (int c = n - 1; c >= first; c--)
		if (at[c] >= 0)
			place = lower_op3(l, THREAD_SELECT, lower_op2(l, THREAD_FEQ, in[at[c]], v), lower_i32(l, c), place);
	return place;
}

/* Of a thread's own elements of f32 the greatest comes first, then the first place of such: three instructions an element,
 * where a key takes ten.  False: elements enter one by one. */
static bool
enter_found(State *s, Lower *l, const Op *op)
{
	const AxisRun *run = &s->plan.run[0];
	const Layout *layout = &s->plan.layout;
	int axis = (int)attr_axis(op), n = 1 << layout->in[IN_REGISTER], extent = 1 << layout->out[axis];
	if (s->f.p->kind != COMBINE_KEY || s->f.from != TY_F32 || s->f.propagates_nan || !s->plan.nruns ||
	    run->in != IN_REGISTER || run->n < 2 || !has_own_places(layout, axis))
		return false;
	ReducePlan plan = s->plan;
	State v = *s;
	plan.kind = s->f.is_least ? COMBINE_MIN : COMBINE_MAX;
	v.f.p = &plan;
	v.f.to = TY_F32;
	const Reg *in = lower_operand(l, op, 0, layout);
	Reg thread = lower_thread_coordinate(l, layout, axis);
	v.at = NEW_ARRAY(l->mem, Reg *, n);
	s->at = NEW_ARRAY(l->mem, Reg *, n);
	for (int r = 0; r < n; r++)
		v.at[r] = arena_copy(l->mem, &in[r], sizeof in[r]);
	over_registers(&v, run);
	int *at = NEW_ARRAY(l->mem, int, extent);
	uint64_t r = 0, along = s->live & ~v.live;
	s->live = v.live;
	do {
		uint64_t k = 0;
		for (int c = 0; c < extent; c++)
			at[c] = -1;
		do {
			at[lower_register_coordinate(layout, (int)(r | k), axis)] = (int)(r | k);
			k = subset_next(k, along);
		} while (k);
		Reg place = first_place(l, in, at, extent, v.at[r][0]);
		s->at[r] = NEW_ARRAY(l->mem, Reg, STATE_MAX);
		combine_enter(&s->f, v.at[r], thread ? lower_op2(l, THREAD_XOR, thread, place) : place, s->at[r]);
		r = subset_next(r, s->live);
	} while (r);
	return true;
}

static bool
is_whole_warp(const AxisRun *run, const Target *t)
{
	return 1 << run->n == t->lanes;
}

/* The warp's own reduction of words, where the machine has one; PRIM_COUNT: none. */
static PrimKind
redux_of(const Combine *f)
{
	if (f->p->n == 1 && f->type[0] == REG_F32 && !f->propagates_nan)
		return f->p->kind == COMBINE_SUM     ? PRIM_REDUX_FADD
		    : f->p->kind == COMBINE_MAX  ? PRIM_REDUX_FMAX
		    : f->p->kind == COMBINE_MIN ? PRIM_REDUX_FMIN
		                            : PRIM_COUNT;
	if (f->p->n != 1 || f->type[0] != REG_I32)
		return PRIM_COUNT;
	switch (f->p->kind) {
	case COMBINE_SUM: return PRIM_REDUX_ADD;
	case COMBINE_MAX: return f->is_signed ? PRIM_REDUX_MAX : PRIM_REDUX_UMAX;
	case COMBINE_MIN: return f->is_signed ? PRIM_REDUX_MIN : PRIM_REDUX_UMIN;
	case COMBINE_AND: return PRIM_REDUX_AND;
	case COMBINE_OR: return PRIM_REDUX_OR;
	case COMBINE_XOR: return PRIM_REDUX_XOR;
	default: return PRIM_COUNT;
	}
}

static bool
redux(State *s, const AxisRun *run)
{
	Lower *l = s->f.l;
	PrimKind prim = redux_of(&s->f);
	if (prim == PRIM_COUNT || !is_whole_warp(run, l->t) || (l->t->has & prim_info[prim].needs) != prim_info[prim].needs)
		return false;
	uint64_t r = 0;
	do {
		thread_prim(l->b, prim, s->at[r], 1, NULL, 0, s->at[r], 1);
		r = subset_next(r, s->live);
	} while (r);
	return true;
}

static void
over_lane(State *s, int bit)
{
	Combine *f = &s->f;
	Lower *l = f->l;
	bool ordered = !f->p->commutes;
	Reg other[STATE_MAX], first[STATE_MAX], second[STATE_MAX], high = 0;
	if (ordered)
		high = lower_bit(l, l->lane, bit);
	uint64_t r = 0;
	do {
		Reg *mine = s->at[r];
		combine_lane_xor(f, mine, 1 << bit, other);
		if (ordered) {
			combine_select(f, high, other, mine, first);
			combine_select(f, high, mine, other, second);
			combine_states(f, first, second, mine);
		} else {
			combine_states(f, mine, other, mine);
		}
		r = subset_next(r, s->live);
	} while (r);
}

static void
over_lanes(State *s, const AxisRun *run)
{
	for (int i = 0; i < run->n; i++)
		s->lanes &= ~(UINT64_C(1) << run->bit[i]);
	if (redux(s, run))
		return;
	for (int i = 0; i < run->n; i++)
		over_lane(s, run->bit[i]);
}

/* Neighbours pairwise, again and again: the order is kept. */
static void
tree(const Combine *f, Reg **v, int n)
{
	for (; n > 1; n /= 2)
		for (int i = 0; i < n / 2; i++) {
			Reg out[STATE_MAX];
			combine_states(f, v[2 * i], v[2 * i + 1], out);
			memcpy(v[i], out, sizeof *out * (size_t)f->p->n);
		}
}

enum { FEW_WARPS = 3 };                                 /* log2: from more on lanes share the reading */

static void
over_warps(State *s, const AxisRun *run)
{
	Combine *f = &s->f;
	Lower *l = f->l;
	int nregs = 1 << __builtin_popcountll(s->live), n = 1 << run->n, i = 0;
	Reg **all = NEW_ARRAY(l->mem, Reg *, nregs), **v = NEW_ARRAY(l->mem, Reg *, n);
	uint64_t r = 0;
	do {
		all[i++] = s->at[r];
		r = subset_next(r, s->live);
	} while (r);
	WarpExchange t = warp_exchange(&s->plan.layout, s->lanes, run);
	Reg base = lower_scratch(l, f->p->op);
	exchange_write(f, &t, base, all, nregs);
	lower_barrier(l);
	if (nregs == 1 && s->lanes == 0 && run->n > FEW_WARPS && n <= l->t->lanes) {
		exchange_read_by_lane(f, &t, base, all[0]);
		for (int b = 0; b < run->n; b++)
			over_lane(s, b);
		return;
	}
	for (i = 0; i < n; i++)
		v[i] = NEW_ARRAY(l->mem, Reg, STATE_MAX);
	for (i = 0; i < nregs; i++) {
		exchange_read(f, &t, base, i, nregs, v);
		tree(f, v, n);
		memcpy(all[i], v[0], sizeof(Reg) * (size_t)f->p->n);
	}
}

/* A name for text. */
static const char *
result_name(const Combine *f)
{
	switch (f->p->kind) {
	case COMBINE_SUM: return "total";
	case COMBINE_PROD: return "product";
	case COMBINE_MAX: return "most";
	case COMBINE_MIN: return "least";
	default: return "result";
	}
}

/* Result k, of registers in the operand's layout without the axis, in the layout that it must have. */
static void
leave(State *s, Lower *l, Op *op)
{
	int axis = (int)attr_axis(op), n = 1 << s->plan.layout.in[IN_REGISTER];
	Layout slice = layout_slice(&s->plan.layout, axis);
	Reg **result = NEW_ARRAY(l->mem, Reg *, n);
	for (int r = 0; r < n; r++) {
		if ((uint64_t)r & ~s->live)
			continue;
		result[r] = NEW_ARRAY(l->mem, Reg, STATE_MAX);
		combine_leave(&s->f, s->at[r], result[r]);
	}
	for (int k = 0; k < op->nout; k++) {
		Value *v = &op->out[k];
		Reg *regs = MAP_OF(l->mem, Reg, r, n, result[(uint64_t)r & s->live][k]), *out = lower_new(l, v);
		for (int r = 0; !v->name && r < n; r++)
			thread_name(l->b, regs[r], result_name(&s->f));
		if (!v->layout)
			out[0] = regs[0];
		else
			lower_to_layout(l, op, regs, &slice, v->layout, lower_type(v->type), out);
	}
}

void
lower_reduce(Lower *l, Op *op)
{
	State s;
	plan_reduce(op, &s.plan);
	combine_open(&s.f, l, &s.plan);
	s.live = s.plan.live;
	s.lanes = s.plan.lanes;
	bool found = enter_found(&s, l, op);
	if (!found)
		enter(&s, l, op);
	for (int i = found; i < s.plan.nruns; i++)
		switch (s.plan.run[i].in) {
		case IN_REGISTER:
			over_registers(&s, &s.plan.run[i]);
			break;
		case IN_LANE:
			over_lanes(&s, &s.plan.run[i]);
			break;
		default:
			over_warps(&s, &s.plan.run[i]);
		}
	leave(&s, l, op);
}
