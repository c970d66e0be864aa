/* Sorting, the greatest few, and counting.
 *
 * A sort is Batcher's bitonic network on the bits of the axis, whichever of them are registers, lanes or warps:
 *
 *     for s = 1 .. n                 runs of 2^s elements, every other one falling
 *         for j = s - 1 .. 0         elements whose positions differ in bit j are put in order
 *
 * Elements are compared as (key, index), so no two are equal and the result is the stable one; keys are integers in the
 * elements' order, inverted to sort falling.  For elements of up to 32 bits both are one word of 64 bits.  What cannot be
 * had back from the key (floats: -0 and the bits of a NaN) goes along.
 *
 * The greatest k = 2^m: runs of k are sorted, then of each two runs, one rising and one falling, the better of each two
 * elements stay, which are a bitonic run of k again.
 *
 * Threads with very many elements would take very much code: they sort in shared memory, in loops (order_loops.c), and
 * what it has no room for by parts (order_parts.c).
 *
 * Counting is by atomic additions in shared memory. */
#include "lower/across/order.h"

#include <string.h>

static void
sort_shape(Sort *s, const Op *op, const Target *t)
{
	int axis = (int)op_int(op, "axis", 0);
	const Value *v = op->in[0];
	*s = (Sort){.op = op, .t = v->type->elem, .layout = axis_layout(v->layout, axis)};
	axis_bits(&s->layout, axis, &s->axis);
	s->falls = op->kind == OP_TOPK || op_bool(op, "descending");
	s->is_wide = dtype_info[s->t].bits == 64;
	s->keeps_value = dtype_is_float(s->t) && op->out[0].nuses > 0;
	s->type[s->n++] = REG_I64;
	if (s->is_wide)
		s->type[s->n++] = REG_I32;
	if (s->keeps_value)
		s->type[s->n++] = lower_type(v->type);
	s->repeats = layout_free_bits(&s->layout, IN_REGISTER);
	s->threads = 1 << (s->layout.in[IN_LANE] + s->layout.in[IN_WARP]);
	s->room = lower_scratch_room(op, t);
}

static int64_t
state_bytes(const Sort *s)
{
	int64_t n = 0;
	for (int k = 0; k < s->n; k++)
		n += lower_type_bytes(s->type[k]);
	return n;
}

/* ---- keys ---- */

/* An integer as a signed one in the same order, and back: in 32 bits or 64. */
static Reg
turn_sign(const Sort *s, Reg x)
{
	Lower *l = s->l;
	if (dtype_is_signed(s->t) || dtype_info[s->t].bits < 32)
		return x;
	return lower_op2(l, EMIT_XOR, x, s->is_wide ? lower_i64(l, INT64_MIN) : lower_i32(l, INT32_MIN));
}

static Reg
key_of(const Sort *s, Reg x)
{
	Lower *l = s->l;
	Reg key;
	if (dtype_is_float(s->t))
		key = lower_float_key(l, s->is_wide ? REG_F64 : REG_F32, lower_widen(l, s->t, x), true);
	else if (dtype_info[s->t].bits < 32)
		key = lower_as(l, dtype_is_signed(s->t) ? CAST_SEXT : CAST_ZEXT, REG_I32, x);
	else
		key = turn_sign(s, x);
	return s->falls ? lower_op1(l, EMIT_NOT, key) : key;
}

static void
enter(Sort *s, const Reg *in)
{
	Lower *l = s->l;
	int axis = (int)op_int(s->op, "axis", 0), count = 1 << s->layout.in[IN_REGISTER];
	Reg thread = lower_thread_coordinate(l, &s->layout, axis);
	s->at = arena_alloc(l->mem, sizeof *s->at * (size_t)count);
	for (int r = 0; r < count; r++) {
		if ((uint64_t)r & s->repeats)
			continue;
		Reg *state = s->at[r], key = key_of(s, in[r]), index = thread;
		uint32_t own = lower_register_coordinate(&s->layout, r, axis);
		if (own)
			index = lower_op2(l, EMIT_XOR, thread, lower_i32(l, own));
		if (s->is_wide) {
			state[0] = key;
			state[1] = index;
		} else {
			Reg high = lower_op2(l, EMIT_SHL, lower_as(l, CAST_SEXT, REG_I64, key), lower_i64(l, 32));
			state[0] = lower_op2(l, EMIT_OR, high, lower_as(l, CAST_ZEXT, REG_I64, index));
		}
		if (s->keeps_value)
			state[s->n - 1] = in[r];
	}
}

static Reg
index_of(const Sort *s, const Reg *state)
{
	return s->is_wide ? state[1] : lower_as(s->l, CAST_TRUNC, REG_I32, state[0]);
}

static Reg
element_of(const Sort *s, const Reg *state)
{
	Lower *l = s->l;
	if (s->keeps_value)
		return state[s->n - 1];
	Reg key = state[0];
	if (!s->is_wide)
		key = lower_as(l, CAST_TRUNC, REG_I32, lower_op2(l, EMIT_ASHR, key, lower_i64(l, 32)));
	key = turn_sign(s, s->falls ? lower_op1(l, EMIT_NOT, key) : key);
	if (s->t == TY_BOOL)
		return lower_op2(l, EMIT_NE, key, lower_i32(l, 0));
	int bits = dtype_info[s->t].bits;
	return bits < 32 ? lower_as(l, CAST_TRUNC, bits == 16 ? REG_I16 : REG_I8, key) : key;
}

/* ---- comparing and exchanging ---- */

Reg
sort_less(const Sort *s, const Reg *a, const Reg *b)
{
	Lower *l = s->l;
	Reg is = lower_op2(l, EMIT_SLT, a[0], b[0]);
	if (!s->is_wide)
		return is;
	Reg same = lower_op2(l, EMIT_EQ, a[0], b[0]), before = lower_op2(l, EMIT_ULT, a[1], b[1]);
	return lower_op2(l, EMIT_OR, is, lower_op2(l, EMIT_AND, same, before));
}

void
sort_select(const Sort *s, Reg pred, const Reg *a, const Reg *b, Reg *out)
{
	for (int k = 0; k < s->n; k++)
		out[k] = lower_op3(s->l, EMIT_SELECT, pred, a[k], b[k]);
}

/* Bit `bit` of register r's position on the axis: known (*set), or a predicate of the thread. */
static Reg
position_bit(const Sort *s, int bit, int r, bool *set)
{
	Lower *l = s->l;
	int i = s->axis.bit[bit];
	*set = false;
	if (s->axis.in[bit] == IN_REGISTER) {
		*set = r >> i & 1;
		return 0;
	}
	Reg number = s->axis.in[bit] == IN_LANE ? l->lane : l->warp;
	Reg is = lower_op2(l, EMIT_AND, number, lower_i32(l, INT64_C(1) << i));
	return lower_op2(l, EMIT_NE, is, lower_i32(l, 0));
}

/* Whether the run of register r falls: bit `by` of its position; by < 0: no run does. */
static Reg
run_falls(const Sort *s, int by, int r, bool *known)
{
	*known = false;
	return by < 0 || by >= s->axis.n ? 0 : position_bit(s, by, r, known);
}

static void
exchange_registers(Sort *s, int j, int by)
{
	int bit = 1 << s->axis.bit[j];
	for (int r = 0; r < 1 << s->layout.in[IN_REGISTER]; r++) {
		bool falls;
		Reg a[MOST_STATE], b[MOST_STATE], where;
		if (((uint64_t)r & s->repeats) || (r & bit))
			continue;
		where = run_falls(s, by, r, &falls);
		memcpy(a, s->at[r], sizeof a);
		memcpy(b, s->at[r | bit], sizeof b);
		Reg first = falls ? sort_less(s, b, a) : sort_less(s, a, b);
		if (where)
			first = lower_op2(s->l, EMIT_XOR, first, where);
		sort_select(s, first, a, b, s->at[r]);
		sort_select(s, first, b, a, s->at[r | bit]);
	}
}

/* How many states of each thread there is room for at once. */
static int
trip_states(const Sort *s)
{
	return (int)MAX(MIN(s->room / (state_bytes(s) * s->threads), INT32_MAX), 1);
}

int64_t
sort_trip_bytes(const Sort *s)
{
	int64_t all = INT64_C(1) << (s->layout.in[IN_REGISTER] - __builtin_popcountll(s->repeats));
	return state_bytes(s) * s->threads * MIN(trip_states(s), all);
}

/* n states through scratch, from the warp whose number differs in bit i. */
static void
trip(const Sort *s, int i, Reg (*v)[MOST_STATE], int n, Reg (*out)[MOST_STATE])
{
	Lower *l = s->l;
	Reg base = lower_scratch(l, s->op);
	Reg other = lower_op2(l, EMIT_XOR, l->thread, lower_i32(l, (int64_t)l->t->lanes << i));
	for (int pass = 0; pass < 2; pass++) {
		int64_t at = 0;
		for (int k = 0; k < s->n; k++) {
			int bytes = lower_type_bytes(s->type[k]);
			EmitAccess a = {.space = SPACE_SHARED, .type = s->type[k], .n = 1, .base = base, .align = bytes};
			a.offset = lower_op2(l, EMIT_MUL, pass ? other : l->thread, lower_i32(l, bytes));
			for (int r = 0; r < n; r++) {
				a.constant = at;
				at += (int64_t)bytes * s->threads;
				if (pass)
					thread_load(l->b, &a, &out[r][k]);
				else
					thread_store(l->b, &a, &v[r][k]);
			}
		}
		if (pass == 0)
			lower_barrier(l);
	}
}

void
sort_across(const Sort *s, InDim in, int i, Reg (*v)[MOST_STATE], int n, Reg (*out)[MOST_STATE])
{
	Lower *l = s->l;
	if (in == IN_LANE) {
		for (int r = 0; r < n; r++)
			for (int k = 0; k < s->n; k++)
				out[r][k] = lower_lane_xor(l, s->type[k], v[r][k], 1 << i);
		return;
	}
	for (int from = 0, most = trip_states(s); from < n; from += most)
		trip(s, i, v + from, MIN(most, n - from), out + from);
}

/* The states of the threads across bit j, for all registers. */
static void
states_across(Sort *s, int j, Reg (*out)[MOST_STATE])
{
	int count = 1 << s->layout.in[IN_REGISTER], n = 0;
	Reg (*v)[MOST_STATE] = arena_alloc(s->l->mem, sizeof *v * (size_t)count);
	Reg (*got)[MOST_STATE] = arena_alloc(s->l->mem, sizeof *got * (size_t)count);
	for (int r = 0; r < count; r++)
		if (!((uint64_t)r & s->repeats))
			memcpy(v[n++], s->at[r], sizeof *v);
	sort_across(s, s->axis.in[j], s->axis.bit[j], v, n, got);
	n = 0;
	for (int r = 0; r < count; r++)
		if (!((uint64_t)r & s->repeats))
			memcpy(out[r], got[n++], sizeof *out);
}

static void
exchange_threads(Sort *s, int j, int by)
{
	Lower *l = s->l;
	int count = 1 << s->layout.in[IN_REGISTER];
	Reg (*other)[MOST_STATE] = arena_alloc(l->mem, sizeof *other * (size_t)count);
	bool unused;
	Reg upper = position_bit(s, j, 0, &unused);
	states_across(s, j, other);
	for (int r = 0; r < count; r++) {
		bool falls;
		if ((uint64_t)r & s->repeats)
			continue;
		Reg where = run_falls(s, by, r, &falls), mine = sort_less(s, s->at[r], other[r]);
		mine = lower_op2(l, EMIT_XOR, mine, upper);
		if (where)
			mine = lower_op2(l, EMIT_XOR, mine, where);
		if (falls)
			mine = lower_op1(l, EMIT_NOT, mine);
		sort_select(s, mine, s->at[r], other[r], s->at[r]);
	}
}

void
sort_exchange(Sort *s, int j, int by)
{
	if (s->axis.in[j] == IN_REGISTER)
		exchange_registers(s, j, by);
	else
		exchange_threads(s, j, by);
}

void
sort_keep_lesser(Sort *s, int j)
{
	Lower *l = s->l;
	int count = 1 << s->layout.in[IN_REGISTER], bit = 1 << s->axis.bit[j];
	if (s->axis.in[j] != IN_REGISTER) {
		Reg (*other)[MOST_STATE] = arena_alloc(l->mem, sizeof *other * (size_t)count);
		states_across(s, j, other);
		for (int r = 0; r < count; r++)
			if (!((uint64_t)r & s->repeats))
				sort_select(s, sort_less(s, s->at[r], other[r]), s->at[r], other[r], s->at[r]);
		return;
	}
	for (int r = 0; r < count; r++)
		if (!((uint64_t)r & s->repeats) && !(r & bit))
			sort_select(s, sort_less(s, s->at[r], s->at[r | bit]), s->at[r], s->at[r | bit], s->at[r]);
	s->repeats |= (uint64_t)bit;
}

/* Runs of 2^to are sorted, the last merge's direction by bit `by` of the position. */
static void
sort_runs(Sort *s, int to, int by)
{
	for (int run = 1; run <= to; run++)
		for (int j = run - 1; j >= 0; j--)
			sort_exchange(s, j, run < to ? run : by);
}

/* A result that no op uses and that did not go along. */
static void
leave_nothing(Lower *l, Value *v)
{
	RegType t = lower_type(v->type);
	Reg zero = t == REG_I8 ? thread_int_const(l->b, t, 0) : thread_float_const(l->b, t, 0);
	Reg *out = lower_new(l, v);
	for (int r = 0; r < lower_count(v); r++)
		out[r] = zero;
}

/* Result k of registers in layout `from`. */
static void
leave(Sort *s, Value *v, const Layout *from, bool index)
{
	Lower *l = s->l;
	int count = 1 << s->layout.in[IN_REGISTER];
	Reg *regs = NEW_ARRAY(l->mem, Reg, count);
	if (!index && dtype_is_float(s->t) && !s->keeps_value) {
		leave_nothing(l, v);
		return;
	}
	for (int r = 0; r < count; r++) {
		const Reg *state = s->at[(uint64_t)r & ~s->repeats];
		if ((uint64_t)r & s->repeats)
			regs[r] = regs[(uint64_t)r & ~s->repeats];
		else
			regs[r] = index ? index_of(s, state) : element_of(s, state);
	}
	lower_to_layout(l, s->op, regs, from, v->layout, lower_type(v->type), lower_new(l, v));
}

static int
kept_bits(const Op *op)
{
	return log2_ceil(op->out[0].type->extent[op_int(op, "axis", 0)]);
}

int
sort_halvings(const Sort *s, int kept, int *bit)
{
	int n = 0;
	for (int in = IN_REGISTER; in < IN_DIMS; in++)
		for (int b = kept; b < s->axis.n; b++)
			if ((int)s->axis.in[b] == in)
				bit[n++] = b;
	return n;
}

/* Runs of 2^bits, of which each two become the better one. */
static void
keep_best(Sort *s, int bits)
{
	int bit[F2_MAX], n = sort_halvings(s, bits, bit);
	bit[n] = s->axis.n;
	sort_runs(s, bits, bit[0]);
	for (int i = 0; i < n; i++) {
		sort_keep_lesser(s, bit[i]);
		for (int j = bits - 1; j >= 0; j--)
			sort_exchange(s, j, bit[i + 1]);
	}
}

static Layout
result_layout(const Sort *s)
{
	if (s->op->kind == OP_SORT)
		return s->layout;
	return layout_shorten(&s->layout, (int)op_int(s->op, "axis", 0), kept_bits(s->op));
}

typedef enum SortWay { SORT_REGISTERS, SORT_LOOPS, SORT_PARTS } SortWay;

/* How it is done; s->layout is then as the parts want it. */
static SortWay
sort_way(Sort *s, int kept, SortParts *p)
{
	if (!sort_is_long(s, kept))
		return SORT_REGISTERS;
	bool fits = sort_part_bytes(s, INT64_C(1) << layout_out_bits(&s->layout)) <= s->room;
	return fits || !sort_plan_parts(s, p) ? SORT_LOOPS : SORT_PARTS;
}

static void
lower_sort(Lower *l, Op *op)
{
	Sort s;
	SortParts parts;
	sort_shape(&s, op, l->t);
	s.l = l;
	Layout result = result_layout(&s);
	int kept = result.out[op_int(op, "axis", 0)];
	enter(&s, lower_operand(l, op, 0, &s.layout));
	SortWay way = sort_way(&s, kept, &parts);
	if (way == SORT_PARTS)
		result = sort_by_parts(&s, &parts, kept);
	else if (way == SORT_LOOPS)
		sort_by_loops(&s, &result);
	else if (op->kind == OP_SORT)
		sort_runs(&s, s.axis.n, s.axis.n);
	else
		keep_best(&s, kept);
	for (int k = 0; k < op->nout; k++)
		leave(&s, &op->out[k], &result, k == 1);
}

static int64_t
network_bytes(const Sort *s)
{
	bool trips = false;
	for (int i = 0; i < s->axis.n; i++)
		trips |= s->axis.in[i] == IN_WARP;
	return trips ? sort_trip_bytes(s) : 0;
}

static int64_t
sort_scratch(const Op *op, const Target *t)
{
	Sort s;
	SortParts parts;
	sort_shape(&s, op, t);
	Layout result = result_layout(&s);
	int64_t most = lower_operand_bytes(op->in[0], &s.layout), own;
	SortWay way = sort_way(&s, result.out[op_int(op, "axis", 0)], &parts);
	if (way == SORT_PARTS)
		own = sort_parts_bytes(&s, &parts);
	else if (way == SORT_LOOPS)
		own = sort_part_bytes(&s, INT64_C(1) << layout_out_bits(&s.layout));
	else
		own = network_bytes(&s);
	if (op->kind == OP_TOPK)
		result = result_layout(&s);             /* parts leave it in another */
	for (int k = 0; k < op->nout; k++)
		most = MAX(most, lower_to_layout_bytes(&result, op->out[k].layout, lower_type(op->out[k].type)));
	return MAX(most, own);
}

/* ---- counting ---- */

static void
zero_bins(Lower *l, Reg base, int64_t bins)
{
	int threads = l->warps * l->t->lanes;
	EmitAccess a = {.space = SPACE_SHARED, .type = REG_I32, .n = 1, .base = base, .align = 4};
	Reg zero = lower_i32(l, 0);
	a.offset = lower_op2(l, EMIT_MUL, l->thread, lower_i32(l, 4));
	for (int64_t at = 0; at < bins; at += threads, a.constant += 4 * threads) {
		if (bins - at < threads)
			a.mask = lower_op2(l, EMIT_ULT, l->thread, lower_i32(l, bins - at));
		thread_store(l->b, &a, &zero);
	}
}

static void
lower_histogram(Lower *l, Op *op)
{
	const Value *v = op->in[0];
	Value *to = &op->out[0];
	const Reg *in = lower_regs(l, v);
	int64_t bins = to->type->extent[0];
	uint64_t repeats = v->layout ? layout_free_bits(v->layout, IN_REGISTER) : 0;
	Reg base = lower_scratch(l, op), one = lower_i32(l, 1), *out = lower_new(l, to), first;
	first = v->layout ? lower_is_first_holder(l, v->layout) : lower_op2(l, EMIT_EQ, l->thread, lower_i32(l, 0));
	zero_bins(l, base, bins);
	lower_barrier(l);
	for (int r = 0; r < lower_count(v); r++) {
		if ((uint64_t)r & repeats)
			continue;
		Reg inside, i = lower_bounded_index(l, v->type->elem, in[r], bins, &inside);
		EmitAccess a = {.space = SPACE_SHARED, .type = REG_I32, .n = 1, .base = base, .align = 4,
			.order = ORDER_RELAXED, .scope = SCOPE_CTA};
		a.offset = lower_op2(l, EMIT_MUL, i, lower_i32(l, 4));
		a.mask = lower_both(l, inside, first);
		thread_atomic(l->b, ATOMIC_ADD, &a, one, 0);
	}
	lower_barrier(l);
	for (int r = 0; r < lower_count(to); r++) {
		uint32_t own = lower_register_coordinate(to->layout, r, 0);
		EmitAccess a = {.space = SPACE_SHARED, .type = REG_I32, .n = 1, .base = base, .align = 4};
		Reg c = lower_thread_coordinate(l, to->layout, 0);
		if (own)
			c = lower_op2(l, EMIT_XOR, c, lower_i32(l, own));
		a.offset = lower_op2(l, EMIT_MUL, c, lower_i32(l, 4));
		thread_load(l->b, &a, &out[r]);
	}
}

void
lower_order(Lower *l, Op *op)
{
	if (op->kind == OP_HISTOGRAM)
		lower_histogram(l, op);
	else
		lower_sort(l, op);
}

int64_t
lower_order_scratch(const Op *op, const Target *t)
{
	return op->kind == OP_HISTOGRAM ? op->out[0].type->extent[0] * 4 : sort_scratch(op, t);
}
