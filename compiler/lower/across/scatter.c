/* Scatters: elements of a tile replaced by, or combined with, values at indices along an axis, through shared memory.
 *
 * Setting: of several values for one element the last along the axis stays, on every device.  Scratch holds the
 * number of the last value for each element of the tile, and the values:
 *
 *     owner[…] = -1;  values as they are       barrier
 *     owner[index] = max(owner[index], k)      for value k along the axis; barrier
 *     result = owner < 0 ? element : values[owner]
 *
 * Where there is no room for both, the values replace the numbers, which are in registers by then.
 *
 * Adding, the greatest and the least: the tile stands in scratch in slots that the machine has atomics for, values go in by
 * them, and after a barrier each element is read back.  Integers below 32 bits take 32, of which the sum keeps the low
 * ones.  Floats are added in f32 or f64, in the order in which the threads come.  The greatest and least of floats are
 * those of integer keys in the floats' order, in which a NaN loses to everything; where a key is what it was, the
 * element stays as it was, to the bit. */
#include "lower/across/across.h"

#include <string.h>

typedef struct Scatter {
	Lower *l;
	const Op *op;
	DType t;
	RegType type, slot;
	AtomicKind kind;
	bool is_set, by_key, nan_is_greatest;
	int axis;
} Scatter;

static void
scatter_shape(Scatter *s, const Op *op)
{
	const char *fn = attr_fn(op);
	DType t = op->in[0]->type->elem;
	bool adds = strcmp(fn, "add") == 0, most = strcmp(fn, "max") == 0, is_signed = dtype_is_signed(t);
	*s = (Scatter){.op = op, .t = t, .type = lower_type(op->in[0]->type), .axis = (int)attr_axis(op)};
	s->is_set = strcmp(fn, "set") == 0;
	s->slot = lower_type(&(Type){.kind = TYPE_TILE, .elem = scatter_slot(op)});
	s->by_key = !s->is_set && !adds && dtype_is_float(t);
	s->nan_is_greatest = !most;
	if (adds)
		s->kind = ATOMIC_ADD;
	else if (s->is_set || is_signed || s->by_key)
		s->kind = s->is_set || most ? ATOMIC_MAX : ATOMIC_MIN;
	else
		s->kind = most ? ATOMIC_UMAX : ATOMIC_UMIN;
}

/* ---- slots ---- */

/* The magnitude of infinity, or of the greatest number where there is none: NaNs lie above. */
static int64_t
greatest_bits(DType t)
{
	switch (t) {
	case TY_F64: return INT64_C(0x7ff0000000000000);
	case TY_F32: return 0x7f800000;
	case TY_BF16: return 0x7f80;
	case TY_F16: return 0x7c00;
	case TY_F8E5M2: return 0x7c;
	default: return 0x7e;
	}
}

static int64_t
sign_bit(DType t)
{
	return (int64_t)(UINT64_C(1) << (dtype_info[t].bits - 1));
}

static Reg
slot_const(const Scatter *s, int64_t v)
{
	return thread_int_const(s->l->b, s->slot, v);
}

/* A float's sign and magnitude as an integer in the same order; -0.0 is -1. */
static Reg
key_of(const Scatter *s, Reg x)
{
	Lower *l = s->l;
	int64_t sign = sign_bit(s->t), most = s->slot == REG_I64 ? INT64_MAX : INT32_MAX;
	if (s->type != REG_I8)
		x = lower_as(l, CAST_BITS, dtype_info[s->t].bits == 16 ? REG_I16 : s->slot, x);
	if (dtype_info[s->t].bits < 32)
		x = lower_as(l, CAST_ZEXT, s->slot, x);
	Reg magnitude = lower_op2(l, THREAD_AND, x, slot_const(s, ~sign & most));
	Reg is_negative = lower_op2(l, THREAD_NE, lower_op2(l, THREAD_AND, x, slot_const(s, sign)), slot_const(s, 0));
	Reg key = lower_op3(l, THREAD_SELECT, is_negative, lower_op2(l, THREAD_XOR, magnitude, slot_const(s, -1)),
	    magnitude);
	Reg is_nan = lower_op2(l, THREAD_SLT, slot_const(s, greatest_bits(s->t)), magnitude);
	return lower_op3(l, THREAD_SELECT, is_nan, slot_const(s, s->nan_is_greatest ? most : -most - 1), key);
}

static Reg
float_of_key(const Scatter *s, Reg key)
{
	Lower *l = s->l;
	Reg negative = lower_op2(l, THREAD_OR, lower_op2(l, THREAD_XOR, key, slot_const(s, -1)),
	    slot_const(s, sign_bit(s->t)));
	Reg bits = lower_op3(l, THREAD_SELECT, lower_op2(l, THREAD_SLT, key, slot_const(s, 0)), negative, key);
	if (dtype_info[s->t].bits < 32)
		bits = lower_as(l, CAST_TRUNC, dtype_info[s->t].bits == 16 ? REG_I16 : REG_I8, bits);
	return s->type == REG_I8 ? bits : lower_as(l, CAST_BITS, s->type, bits);
}

static Reg
enter(const Scatter *s, Reg x)
{
	Lower *l = s->l;
	if (s->by_key)
		return key_of(s, x);
	if (dtype_is_float(s->t))
		return lower_widen(l, s->t, x);
	if (dtype_info[s->t].bits >= 32)
		return x;
	return lower_as(l, dtype_is_signed(s->t) ? CAST_SEXT : CAST_ZEXT, REG_I32, x);
}

/* What a slot holds as an element; `was` is what the element was. */
static Reg
leave(const Scatter *s, Reg held, Reg was)
{
	Lower *l = s->l;
	int bits = dtype_info[s->t].bits;
	if (s->by_key)
		return lower_op3(l, THREAD_SELECT, lower_op2(l, THREAD_EQ, held, key_of(s, was)), was,
		    float_of_key(s, held));
	if (dtype_is_float(s->t) && bits == 8)          /* an infinity stays, which a conversion saturates */
		return lower_op3(l, THREAD_SELECT, lower_op2(l, THREAD_FEQ, held, enter(s, was)), was,
		    lower_narrow(l, s->t, held));
	if (dtype_is_float(s->t))
		return lower_narrow(l, s->t, held);
	if (s->t == TY_BOOL)
		return lower_op2(l, THREAD_NE, held, lower_i32(l, 0));
	return bits < 32 ? lower_as(l, CAST_TRUNC, bits == 16 ? REG_I16 : REG_I8, held) : held;
}

/* ---- values to their slots ---- */

/* In layout `from`, whose register bits `repeats` hold nothing else: slot[index] = fn(slot[index], value). */
static void
put_values(const Scatter *s, Reg base, const Layout *from, const Reg *index, const Reg *value)
{
	Lower *l = s->l;
	const Type *t = s->op->in[0]->type;
	LowerStrides by = lower_row_strides(t);
	int shift = by.shift[s->axis];
	uint64_t repeats = lower_repeats(from);
	Reg first = lower_is_first_holder(l, from);
	by.shift[s->axis] = -1;
	by.bytes = thread_type_bytes(s->slot);
	for (int r = 0; r < 1 << from->in[IN_REGISTER]; r++) {
		ThreadAccess a = lower_shared_access(base, s->slot);
		Reg inside, at, i;
		if ((uint64_t)r & repeats)
			continue;
		at = lower_element_offset(l, &by, from, r, &a.constant);
		i = lower_bounded_index(l, s->op->in[1]->type->elem, index[r], t->extent[s->axis], &inside);
		i = lower_op2(l, THREAD_MUL, i, lower_i32(l, (int64_t)by.bytes << shift));
		a.offset = lower_op2(l, THREAD_ADD, at, i);
		a.scope = SCOPE_CTA;
		a.mask = lower_both(l, inside, first);
		thread_atomic(l->b, s->kind, &a, value[r], 0);
	}
}

/* The position of each value along the axis. */
static Reg *
positions(const Scatter *s, const Layout *from)
{
	Lower *l = s->l;
	int n = 1 << from->in[IN_REGISTER];
	Reg *out = NEW_ARRAY(l->mem, Reg, n);
	for (int r = 0; r < n; r++) {
		int64_t constant;
		Reg c = lower_coordinate(l, from, r, s->axis, &constant);
		out[r] = constant ? lower_op2(l, THREAD_ADD, c, lower_i32(l, constant)) : c;
	}
	return out;
}

/* Value number `own` along the axis, at the other coordinates of register r. */
static Reg
owned(const Scatter *s, Reg values, int r, Reg own)
{
	Lower *l = s->l;
	int64_t constant;
	LowerStrides by = lower_row_strides(s->op->in[2]->type);
	int shift = by.shift[s->axis];
	by.shift[s->axis] = -1;
	Reg at = lower_element_offset(l, &by, s->op->out[0].layout, r, &constant);
	Reg k = lower_op2(l, THREAD_SMAX, own, lower_i32(l, 0));
	k = lower_op2(l, THREAD_MUL, k, lower_i32(l, (int64_t)by.bytes << shift));
	return lower_read_element(l, values, s->type, lower_op2(l, THREAD_ADD, at, k), constant);
}

static void
set_values(const Scatter *s, Reg base, const Layout *from, const Reg *index, const Reg *value, const Reg *was,
    Value *to)
{
	Lower *l = s->l;
	int n = lower_count(to);
	Layout rows = lower_row_major(to->layout), value_rows = lower_row_major(from);
	bool apart = scatter_is_apart(s->op, l->t);
	Reg none = lower_i32(l, -1), *own = NEW_ARRAY(l->mem, Reg, n), *out = lower_new(l, to);
	Reg values = apart ? thread_pointer(l->b, base, lower_i32(l, scatter_owner_bytes(s->op))) : base;
	for (int r = 0; r < n; r++)
		own[r] = none;
	lower_to_shared(l, base, own, to->layout, &rows, s->slot);
	if (apart)
		lower_to_shared(l, values, value, from, &value_rows, s->type);
	lower_barrier(l);
	put_values(s, base, from, index, positions(s, from));
	lower_barrier(l);
	lower_from_shared(l, base, own, to->layout, &rows, s->slot);
	if (!apart) {
		lower_barrier(l);
		lower_to_shared(l, values, value, from, &value_rows, s->type);
		lower_barrier(l);
	}
	for (int r = 0; r < n; r++) {
		Reg is_own = lower_op2(l, THREAD_SLE, lower_i32(l, 0), own[r]);
		out[r] = lower_op3(l, THREAD_SELECT, is_own, owned(s, values, r, own[r]), was[r]);
	}
}

static void
combine_values(const Scatter *s, Reg base, const Layout *from, const Reg *index, const Reg *value, const Reg *was,
    Value *to)
{
	Lower *l = s->l;
	int n = lower_count(to), nvalue = 1 << from->in[IN_REGISTER];
	Layout rows = lower_row_major(to->layout);
	Reg *held = NEW_ARRAY(l->mem, Reg, n), *entered = NEW_ARRAY(l->mem, Reg, nvalue), *out = lower_new(l, to);
	for (int r = 0; r < n; r++)
		held[r] = enter(s, was[r]);
	lower_to_shared(l, base, held, to->layout, &rows, s->slot);
	for (int r = 0; r < nvalue; r++)
		entered[r] = enter(s, value[r]);
	lower_barrier(l);
	put_values(s, base, from, index, entered);
	lower_barrier(l);
	lower_from_shared(l, base, held, to->layout, &rows, s->slot);
	for (int r = 0; r < n; r++)
		out[r] = leave(s, held[r], was[r]);
}

void
lower_scatter(Lower *l, Op *op)
{
	Scatter s;
	Value *to = &op->out[0];
	const Layout *from = op->in[2]->layout;
	scatter_shape(&s, op);
	s.l = l;
	if ((s.slot == REG_I64 || s.slot == REG_F64) && !(l->t->has & HAS_ATOMIC_64)) {
		lower_refuse(l, op, arena_printf(l->mem, "scatter by %s of %s, which takes atomic operations on 64 bits,",
		    attr_fn(op), dtype_info[s.t].text));
		return;
	}
	const Reg *was = lower_operand(l, op, 0, to->layout), *index = lower_operand(l, op, 1, from);
	const Reg *value = lower_regs(l, op->in[2]);
	Reg base = lower_scratch(l, op);
	if (s.is_set)
		set_values(&s, base, from, index, value, was, to);
	else
		combine_values(&s, base, from, index, value, was, to);
}
