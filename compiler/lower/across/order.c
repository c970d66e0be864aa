/* Sorting, and the greatest few.
 *
 * A sort is Batcher's bitonic network on the bits of the axis, whichever of them are registers, lanes or warps:
 *
 *     for s = 1 .. n                 runs of 2^s elements, every other one falling
 *         for j = s - 1 .. 0         elements whose positions differ in bit j are put in order
 *
 * Elements are compared as (key, index), so no two are equal and the result is the stable one; keys are integers in the
 * elements' order, inverted to sort falling.  For elements of up to 32 bits both are one word, of 32 bits if they fit.
 * Where no op uses the indices, the key suffices for integers and for floats none of which is -0.  Floats come back from
 * their keys, -0 by a bit below the index, a NaN as one of other bits; those of 64 bits go along.
 *
 * The greatest k = 2^m: runs of k are sorted, then of each two runs, one rising and one falling, the better of each two
 * elements stay, which are a bitonic run of k again.
 *
 * Threads with very many elements would take very much code: they sort in shared memory, in loops (order_loops.c), what it
 * has no room for by parts (order_parts.c). */
#include "lower/across/across.h"

#include <string.h>

static void
sort_open(Sort *s, Lower *l, const Op *op)
{
	*s = (Sort){.l = l};
	plan_sort(op, l->t, &s->p);
	s->layout = s->p.entered;
	axis_bits(&s->layout, s->p.dim, &s->axis);
	s->repeats = s->p.repeats;
	s->falls = op->kind == OP_TOPK || attr_descending(op);
	s->type[0] = s->p.bytes[0] == 4 ? REG_I32 : REG_I64;
	if (s->p.is_wide)
		s->type[1] = REG_I32;
	if (s->p.keeps_value)
		s->type[s->p.n - 1] = lower_type(op->in[0]->type);
}

/* ---- keys ---- */

/* An integer as a signed one in the same order, and back: in 32 bits or 64. */
static Reg
flip_sign(const Sort *s, Reg x)
{
	Lower *l = s->l;
	if (dtype_is_signed(s->p.t) || dtype_info[s->p.t].bits < 32)
		return x;
	return lower_op2(l, THREAD_XOR, x,
	    dtype_info[s->p.t].bits == 64 ? lower_i64(l, INT64_MIN) : lower_i32(l, INT32_MIN));
}

/* In 32 bits, or 64 if the element has them. */
static Reg
key_of(const Sort *s, Reg x)
{
	Lower *l = s->l;
	Reg key;
	if (dtype_is_float(s->p.t))
		key = lower_float_key(l, s->p.is_wide ? REG_F64 : REG_F32, lower_widen(l, s->p.t, x), true);
	else if (dtype_info[s->p.t].bits < 32)
		key = lower_as(l, dtype_is_signed(s->p.t) ? CAST_SEXT : CAST_ZEXT, REG_I32, x);
	else
		key = flip_sign(s, x);
	if (s->p.dropped)
		key = lower_op2(l, THREAD_ASHR, key, lower_i32(l, s->p.dropped));
	return s->falls ? lower_op1(l, THREAD_NOT, key) : key;
}

/* One word of key, index and mark. */
static Reg
word_of(const Sort *s, Reg x, Reg index)
{
	Lower *l = s->l;
	Reg word = key_of(s, x), low = index;
	if (s->p.has_zero) {
		Reg bits = lower_as(l, CAST_BITS, REG_I32, lower_widen(l, s->p.t, x));
		Reg is = lower_op2(l, THREAD_EQ, bits, lower_i32(l, INT32_MIN));
		low = lower_op2(l, THREAD_SHL, low, lower_i32(l, 1));
		low = lower_op2(l, THREAD_OR, low, lower_as(l, CAST_ZEXT, REG_I32, is));
	}
	if (s->type[0] == REG_I64 && dtype_info[s->p.t].bits < 64) {
		word = lower_op2(l, THREAD_SHL, lower_as(l, CAST_SEXT, REG_I64, word), lower_i64(l, s->p.shift));
		low = lower_as(l, CAST_ZEXT, REG_I64, low);
	} else if (s->p.has_index) {
		word = lower_op2(l, THREAD_SHL, word, lower_i32(l, s->p.shift));
	}
	return s->p.has_index ? lower_op2(l, THREAD_OR, word, low) : word;
}

static void
enter(Sort *s, const Reg *in)
{
	Lower *l = s->l;
	int axis = s->p.dim, count = 1 << s->layout.in[IN_REGISTER];
	Reg thread = lower_thread_coordinate(l, &s->layout, axis);
	s->at = arena_alloc(l->mem, sizeof *s->at * (size_t)count);
	for (int r = 0; r < count; r++) {
		if ((uint64_t)r & s->repeats)
			continue;
		Reg *state = s->at[r], index = thread;
		uint32_t own = lower_register_coordinate(&s->layout, r, axis);
		if (own)
			index = lower_op2(l, THREAD_XOR, thread, lower_i32(l, own));
		state[0] = s->p.is_wide ? key_of(s, in[r]) : word_of(s, in[r], index);
		if (s->p.is_wide)
			state[1] = index;
		if (s->p.keeps_value)
			state[s->p.n - 1] = in[r];
	}
}

static Reg
index_of(const Sort *s, const Reg *state)
{
	Lower *l = s->l;
	if (s->p.is_wide)
		return state[1];
	Reg low = s->type[0] == REG_I64 ? lower_as(l, CAST_TRUNC, REG_I32, state[0]) : state[0];
	if (s->p.has_zero)
		low = lower_op2(l, THREAD_LSHR, low, lower_i32(l, 1));
	int bits = s->p.shift - s->p.has_zero;
	return bits < 31 ? lower_op2(l, THREAD_AND, low, lower_i32(l, (INT64_C(1) << bits) - 1)) : low;
}

/* Of a float's key, of 32 bits. */
static Reg
float_of(const Sort *s, Reg key, Reg word)
{
	Lower *l = s->l;
	if (s->p.dropped)
		key = lower_op2(l, THREAD_SHL, key, lower_i32(l, s->p.dropped));
	Reg zero = lower_i32(l, 0), sign = lower_i32(l, INT32_MIN), below = lower_op2(l, THREAD_SLT, key, zero);
	Reg low = s->type[0] == REG_I64 ? lower_as(l, CAST_TRUNC, REG_I32, word) : word;
	Reg negative = lower_op2(l, THREAD_OR, lower_op2(l, THREAD_SUB, zero, key), sign);
	Reg bits = lower_op3(l, THREAD_SELECT, below, negative, key);
	if (s->p.has_zero)
		bits = lower_op2(l, THREAD_OR, bits, lower_op2(l, THREAD_SHL, low, lower_i32(l, 31)));
	return lower_narrow_exact(l, s->p.t, lower_as(l, CAST_BITS, REG_F32, bits));
}

static Reg
element_of(const Sort *s, const Reg *state)
{
	Lower *l = s->l;
	int bits = dtype_info[s->p.t].bits;
	if (s->p.keeps_value)
		return state[s->p.n - 1];
	Reg key = state[0];
	if (bits < 64 && s->type[0] == REG_I64)
		key = lower_as(l, CAST_TRUNC, REG_I32, lower_op2(l, THREAD_ASHR, key, lower_i64(l, s->p.shift)));
	else if (s->p.shift)
		key = lower_op2(l, THREAD_ASHR, key, lower_i32(l, s->p.shift));
	key = s->falls ? lower_op1(l, THREAD_NOT, key) : key;
	if (dtype_is_float(s->p.t))
		return float_of(s, key, state[0]);
	key = flip_sign(s, key);
	if (s->p.t == TY_BOOL)
		return lower_op2(l, THREAD_NE, key, lower_i32(l, 0));
	return bits < 32 ? lower_as(l, CAST_TRUNC, bits == 16 ? REG_I16 : REG_I8, key) : key;
}

/* ---- comparing and exchanging ---- */

Reg
sort_less(const Sort *s, const Reg *a, const Reg *b)
{
	Lower *l = s->l;
	Reg is = lower_op2(l, THREAD_SLT, a[0], b[0]);
	if (!s->p.is_wide)
		return is;
	Reg same = lower_op2(l, THREAD_EQ, a[0], b[0]), before = lower_op2(l, THREAD_ULT, a[1], b[1]);
	return lower_op2(l, THREAD_OR, is, lower_op2(l, THREAD_AND, same, before));
}

void
sort_select(const Sort *s, Reg pred, const Reg *a, const Reg *b, Reg *out)
{
	for (int k = 0; k < s->p.n; k++)
		out[k] = lower_op3(s->l, THREAD_SELECT, pred, a[k], b[k]);
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
	return lower_bit(l, s->axis.in[bit] == IN_LANE ? l->lane : l->warp, i);
}

/* Whether the run of register r falls: bit `by` of its position; by < 0: no run does. */
static Reg
run_falls(const Sort *s, int by, int r, bool *known)
{
	*known = false;
	return by < 0 || by >= s->axis.n ? 0 : position_bit(s, by, r, known);
}

/* States that a minimum puts in order. */
static bool
is_one_word(const Sort *s)
{
	return s->p.n == 1 && s->type[0] == REG_I32;
}

static void
keep_lesser(const Sort *s, Reg *kept, const Reg *b)
{
	if (is_one_word(s))
		kept[0] = lower_op2(s->l, THREAD_SMIN, kept[0], b[0]);
	else
		sort_select(s, sort_less(s, kept, b), kept, b, kept);
}

static void
exchange_registers(Sort *s, int j, int by)
{
	int bit = 1 << s->axis.bit[j];
	for (int r = 0; r < 1 << s->layout.in[IN_REGISTER]; r++) {
		bool falls;
		Reg a[SORT_STATE], b[SORT_STATE], where;
		if (((uint64_t)r & s->repeats) || (r & bit))
			continue;
		where = run_falls(s, by, r, &falls);
		memcpy(a, s->at[r], sizeof a);
		memcpy(b, s->at[r | bit], sizeof b);
		if (!where && is_one_word(s)) {
			s->at[r][0] = lower_op2(s->l, falls ? THREAD_SMAX : THREAD_SMIN, a[0], b[0]);
			s->at[r | bit][0] = lower_op2(s->l, falls ? THREAD_SMIN : THREAD_SMAX, a[0], b[0]);
			continue;
		}
		Reg first = falls ? sort_less(s, b, a) : sort_less(s, a, b);
		if (where)
			first = lower_op2(s->l, THREAD_XOR, first, where);
		sort_select(s, first, a, b, s->at[r]);
		sort_select(s, first, b, a, s->at[r | bit]);
	}
}

/* n states through scratch, from the warp whose number differs in bit i. */
static void
trip(const Sort *s, int i, Reg (*v)[SORT_STATE], int n, Reg (*out)[SORT_STATE])
{
	Lower *l = s->l;
	Reg base = lower_scratch(l, s->p.op);
	Reg other = lower_op2(l, THREAD_XOR, l->thread, lower_i32(l, (int64_t)l->t->lanes << i));
	for (int pass = 0; pass < 2; pass++) {
		int64_t at = 0;
		for (int k = 0; k < s->p.n; k++) {
			ThreadAccess a = lower_shared_access(base, s->type[k]);
			int bytes = a.align;
			a.offset = lower_op2(l, THREAD_MUL, pass ? other : l->thread, lower_i32(l, bytes));
			for (int r = 0; r < n; r++) {
				a.constant = at;
				at += (int64_t)bytes * s->p.threads;
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
sort_across(const Sort *s, InDim in, int i, Reg (*v)[SORT_STATE], int n, Reg (*out)[SORT_STATE])
{
	Lower *l = s->l;
	if (in == IN_LANE) {
		for (int r = 0; r < n; r++)
			for (int k = 0; k < s->p.n; k++)
				out[r][k] = lower_lane_xor(l, s->type[k], v[r][k], 1 << i);
		return;
	}
	for (int from = 0, most = sort_exchange_states(&s->p); from < n; from += most)
		trip(s, i, v + from, MIN(most, n - from), out + from);
}

/* The states of the threads across bit j, for all registers. */
static void
states_across(Sort *s, int j, Reg (*out)[SORT_STATE])
{
	int count = 1 << s->layout.in[IN_REGISTER], n = 0;
	Reg (*v)[SORT_STATE] = arena_alloc(s->l->mem, sizeof *v * (size_t)count);
	Reg (*got)[SORT_STATE] = arena_alloc(s->l->mem, sizeof *got * (size_t)count);
	for (int r = 0; r < count; r++)
		if (!((uint64_t)r & s->repeats))
			memcpy(v[n++], s->at[r], sizeof *v);
	sort_across(s, s->axis.in[j], s->axis.bit[j], v, n, got);
	n = 0;
	for (int r = 0; r < count; r++)
		if (!((uint64_t)r & s->repeats))
			memcpy(out[r], got[n++], sizeof *out);
}

/* Each state with the other thread's in its place; upper: this one is the upper of both. */
static void
keep_ordered(Sort *s, Reg (*other)[SORT_STATE], Reg upper, int by)
{
	Lower *l = s->l;
	for (int r = 0; r < 1 << s->layout.in[IN_REGISTER]; r++) {
		bool falls;
		if ((uint64_t)r & s->repeats)
			continue;
		Reg where = run_falls(s, by, r, &falls), mine = sort_less(s, s->at[r], other[r]);
		mine = lower_op2(l, THREAD_XOR, mine, upper);
		if (where)
			mine = lower_op2(l, THREAD_XOR, mine, where);
		if (falls)
			mine = lower_op1(l, THREAD_NOT, mine);
		sort_select(s, mine, s->at[r], other[r], s->at[r]);
	}
}

static void
exchange_threads(Sort *s, int j, int by)
{
	Reg (*other)[SORT_STATE] = arena_alloc(s->l->mem, sizeof *other << s->layout.in[IN_REGISTER]);
	bool unused;
	Reg upper = position_bit(s, j, 0, &unused);
	states_across(s, j, other);
	keep_ordered(s, other, upper, by);
}

/* Code of its own for each exchange is what ptxas takes long for: bits j, j - 1, … of the axis that are neighbouring bits
 * of the lane are a loop where a thread has so many words.  Returns how many these are. */
static int
lanes_in_turn(const Sort *s, int j)
{
	enum { WORDS_LEAST = 16 };
	const AxisBits *a = &s->axis;
	int n = 1, states = 1 << (s->layout.in[IN_REGISTER] - __builtin_popcountll(s->repeats));
	if (a->in[j] != IN_LANE || states * s->p.n < WORDS_LEAST)
		return 1;
	while (n <= j && a->in[j - n] == IN_LANE && a->bit[j - n] == a->bit[j] - n)
		n++;
	return n;
}

/* All that the registers hold, in order: to `at`, or back.  Returns how many. */
static int
move_states(Sort *s, Reg *at, bool back)
{
	int n = 0;
	for (int r = 0; r < 1 << s->layout.in[IN_REGISTER]; r++)
		for (int k = 0; k < s->p.n && !((uint64_t)r & s->repeats); k++, n++)
			*(back ? &s->at[r][k] : &at[n]) = back ? at[n] : s->at[r][k];
	return n;
}

static void
exchange_lanes(Sort *s, int j, int lanes, int by)
{
	Lower *l = s->l;
	int count = 1 << s->layout.in[IN_REGISTER];
	Reg *state = NEW_ARRAY(l->mem, Reg, 3 * count * SORT_STATE), *inside = state + count * SORT_STATE;
	Reg (*other)[SORT_STATE] = arena_alloc(l->mem, sizeof *other * (size_t)count);
	Reg *after = inside + count * SORT_STATE;
	int n = move_states(s, state, false);
	Reg one = lower_i32(l, 1), i = thread_loop(l->b, lower_i32(l, 0), lower_i32(l, lanes), one, state, inside, n);
	Reg bit = lower_op2(l, THREAD_LSHR, lower_i32(l, INT64_C(1) << s->axis.bit[j]), i);
	Reg peer = lower_op2(l, THREAD_XOR, l->lane, bit);
	move_states(s, inside, true);
	for (int r = 0; r < count; r++)
		for (int k = 0; k < s->p.n && !((uint64_t)r & s->repeats); k++)
			other[r][k] = lower_lane_from(l, s->type[k], s->at[r][k], peer);
	keep_ordered(s, other, lower_op2(l, THREAD_ULT, peer, l->lane), by);
	move_states(s, state, false);
	thread_loop_end(l->b, state, after, n);
	move_states(s, after, true);
}

/* Elements whose positions differ in bits j, j - 1 … 0. */
static void
merge(Sort *s, int j, int by)
{
	for (int n; j >= 0; j -= n) {
		n = lanes_in_turn(s, j);
		if (n > 1)
			exchange_lanes(s, j, n, by);
		else
			sort_exchange(s, j, by);
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
		Reg (*other)[SORT_STATE] = arena_alloc(l->mem, sizeof *other * (size_t)count);
		states_across(s, j, other);
		for (int r = 0; r < count; r++)
			if (!((uint64_t)r & s->repeats))
				keep_lesser(s, s->at[r], other[r]);
		return;
	}
	for (int r = 0; r < count; r++)
		if (!((uint64_t)r & s->repeats) && !(r & bit))
			keep_lesser(s, s->at[r], s->at[r | bit]);
	s->repeats |= (uint64_t)bit;
}

/* Runs of 2^to are sorted, the last merge's direction by bit `by` of the position. */
static void
sort_runs(Sort *s, int to, int by)
{
	for (int run = 1; run <= to; run++)
		merge(s, run - 1, run < to ? run : by);
}

/* Result k of registers in layout `from`. */
static void
leave(Sort *s, Value *v, const Layout *from, bool index)
{
	Lower *l = s->l;
	int count = 1 << s->layout.in[IN_REGISTER];
	Reg *regs = NEW_ARRAY(l->mem, Reg, count);
	if (v->nuses == 0) {
		lower_zeros(l, v);                      /* the states may not have them */
		return;
	}
	for (int r = 0; r < count; r++) {
		const Reg *state = s->at[(uint64_t)r & ~s->repeats];
		if ((uint64_t)r & s->repeats)
			regs[r] = regs[(uint64_t)r & ~s->repeats];
		else
			regs[r] = index ? index_of(s, state) : element_of(s, state);
	}
	lower_to_layout(l, s->p.op, regs, from, v->layout, lower_type(v->type), lower_new(l, v));
}

/* Runs of 2^bits, of which each two become the better one. */
static void
keep_best(Sort *s, int bits)
{
	int bit[F2_MAX], n = sort_halvings(&s->p, bit);
	bit[n] = s->axis.n;
	sort_runs(s, bits, bit[0]);
	for (int i = 0; i < n; i++) {
		sort_keep_lesser(s, bit[i]);
		merge(s, bits - 1, bit[i + 1]);
	}
}

static void
lower_sort(Lower *l, Op *op)
{
	Sort s;
	sort_open(&s, l, op);
	enter(&s, lower_operand(l, op, 0, &s.layout));
	if (s.p.way == SORT_PARTS)
		sort_by_parts(&s);
	else if (op->kind == OP_SORT)
		sort_runs(&s, s.axis.n, s.axis.n);
	else
		keep_best(&s, s.p.kept);
	for (int k = 0; k < op->nout; k++)
		leave(&s, &op->out[k], &s.p.result, k == 1);
}

void
lower_order(Lower *l, Op *op)
{
	if (op->kind == OP_HISTOGRAM)
		lower_histogram(l, op);
	else
		lower_sort(l, op);
}
