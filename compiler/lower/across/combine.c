/* What a reduction or a scan does with two values, for every type of elements.
 *
 * Narrow elements are widened once, where they enter: sums and products to the type that infer.c gives them, floats to
 * f32, integers and bools to 32 bits.  The index of the greatest is found by keys, integers in the order of the elements:
 *
 *     f32 x      bits of x, all but the sign inverted if x < 0        (-0 as 0; NaN below or above all)
 *     u32 x      x with its top bit inverted
 *
 * so that for elements of up to 32 bits one comparison of (key, inverted index) in 64 bits does it all, the first of
 * equals winning.  Wider elements are a pair of key and index.  For the least, keys are inverted. */
#include "lower/across/across.h"

#include <string.h>

void
combine_open(Combine *f, Lower *l, const ReducePlan *p)
{
	const Op *op = p->op;
	*f = (Combine){.l = l, .p = p, .from = op->in[0]->type->elem, .to = op->out[0].type->elem};
	f->is_signed = dtype_is_signed(f->from);
	f->is_least = strcmp(attr_fn(op), "argmin") == 0;
	f->propagates_nan = attr_propagate_nan(op) && dtype_is_float(f->from);
	f->type[0] = lower_type(&(Type){.kind = TYPE_TILE, .elem = p->work});
	if (combine_has_index(f)) {
		f->type[0] = REG_I64;
		f->type[1] = REG_I32;
	}
	for (int i = 0; i < op->nin && p->kind == COMBINE_REGION; i++)
		f->type[i] = lower_type(op->in[i]->type);
}

bool
combine_has_index(const Combine *f)
{
	return f->p->kind == COMBINE_KEY || f->p->kind == COMBINE_PAIR;
}

static Reg
int_of(const Combine *f, RegType t, int64_t v)
{
	return thread_int_const(f->l->b, t, v);
}

Reg
lower_float_key(Lower *l, RegType t, Reg x, bool nan_is_greatest)
{
	RegType as = t == REG_F64 ? REG_I64 : REG_I32;
	int64_t most = t == REG_F64 ? INT64_MAX : INT32_MAX;
	Reg zero = thread_int_const(l->b, as, 0), bits = lower_as(l, CAST_BITS, as, x);
	Reg magnitude = lower_op2(l, THREAD_AND, bits, thread_int_const(l->b, as, most));
	Reg negative = lower_op2(l, THREAD_SUB, zero, magnitude);
	Reg below = lower_op2(l, THREAD_FLT, x, thread_float_const(l->b, t, 0));
	Reg key = lower_op3(l, THREAD_SELECT, below, negative, magnitude);
	Reg nan = thread_int_const(l->b, as, nan_is_greatest ? most : -most - 1);
	return lower_op3(l, THREAD_SELECT, lower_op2(l, THREAD_FUNO, x, x), nan, key);
}

/* The element in 32 bits, or 64 if it has them. */
static Reg
as_word(const Combine *f, Reg x)
{
	Lower *l = f->l;
	if (dtype_info[f->from].bits >= 32)
		return x;
	return lower_as(l, f->is_signed ? CAST_SEXT : CAST_ZEXT, REG_I32, x);
}

static Reg
key_of(const Combine *f, Reg x)
{
	Lower *l = f->l;
	Reg key;
	RegType as = f->p->kind == COMBINE_PAIR ? REG_I64 : REG_I32;
	if (dtype_is_float(f->from)) {
		key = lower_float_key(l, f->from == TY_F64 ? REG_F64 : REG_F32, lower_widen(l, f->from, x),
		    f->propagates_nan != f->is_least);
	} else {
		key = as_word(f, x);
		int bits = as == REG_I64 ? 64 : 32;
		if (!f->is_signed && dtype_info[f->from].bits == bits)
			key = lower_op2(l, THREAD_XOR, key, int_of(f, as, bits == 64 ? INT64_MIN : INT32_MIN));
	}
	return f->is_least ? lower_op1(l, THREAD_NOT, key) : key;
}

void
combine_enter(const Combine *f, const Reg *element, Reg index, Reg *state)
{
	Lower *l = f->l;
	switch (f->p->kind) {
	case COMBINE_REGION:
		memcpy(state, element, sizeof *state * (size_t)f->p->n);
		return;
	case COMBINE_SUM:
	case COMBINE_PROD:
		state[0] = lower_cast_one(l, f->from, f->to, element[0]);
		return;
	case COMBINE_PAIR:
		state[0] = key_of(f, element[0]);
		state[1] = index;
		return;
	case COMBINE_KEY: {
		Reg key = lower_as(l, CAST_SEXT, REG_I64, key_of(f, element[0]));
		Reg low = lower_as(l, CAST_ZEXT, REG_I64, lower_op1(l, THREAD_NOT, index));
		state[0] = lower_op2(l, THREAD_OR, lower_op2(l, THREAD_SHL, key, lower_i64(l, 32)), low);
		return;
	}
	default:
		state[0] = dtype_is_float(f->from) ? lower_widen(l, f->from, element[0]) : as_word(f, element[0]);
	}
}

void
combine_leave(const Combine *f, const Reg *state, Reg *result)
{
	Lower *l = f->l;
	switch (f->p->kind) {
	case COMBINE_REGION:
		memcpy(result, state, sizeof *state * (size_t)f->p->n);
		return;
	case COMBINE_SUM:
	case COMBINE_PROD:
		result[0] = state[0];
		return;
	case COMBINE_PAIR:
		result[0] = state[1];
		return;
	case COMBINE_KEY:
		result[0] = lower_op1(l, THREAD_NOT, lower_as(l, CAST_TRUNC, REG_I32, state[0]));
		return;
	default:
		break;
	}
	if (dtype_is_float(f->to))
		result[0] = lower_narrow_exact(l, f->to, state[0]);
	else if (f->to == TY_BOOL)
		result[0] = lower_op2(l, THREAD_NE, state[0], lower_i32(l, 0));
	else if (dtype_info[f->to].bits < 32)
		result[0] = lower_as(l, CAST_TRUNC, dtype_info[f->to].bits == 16 ? REG_I16 : REG_I8, state[0]);
	else
		result[0] = state[0];
}

static Reg
extreme(const Combine *f, Reg a, Reg b)
{
	Lower *l = f->l;
	bool most = f->p->kind == COMBINE_MAX;
	if (!dtype_is_float(f->from)) {
		ThreadOp with_sign = most ? THREAD_SMAX : THREAD_SMIN, without = most ? THREAD_UMAX : THREAD_UMIN;
		return lower_op2(l, f->is_signed ? with_sign : without, a, b);
	}
	Reg r = lower_op2(l, most ? THREAD_FMAX : THREAD_FMIN, a, b);
	if (!f->propagates_nan)
		return r;
	return lower_op3(l, THREAD_SELECT, lower_op2(l, THREAD_FUNO, a, b), lower_op2(l, THREAD_FADD, a, b), r);
}

static void
combine_pairs(const Combine *f, const Reg *a, const Reg *b, Reg *out)
{
	Lower *l = f->l;
	Reg greater = lower_op2(l, THREAD_SLT, a[0], b[0]), equal = lower_op2(l, THREAD_EQ, a[0], b[0]);
	Reg before = lower_op2(l, THREAD_ULT, b[1], a[1]);
	Reg take = lower_op2(l, THREAD_OR, greater, lower_op2(l, THREAD_AND, equal, before));
	combine_select(f, take, b, a, out);
}

void
combine_states(const Combine *f, const Reg *a, const Reg *b, Reg *out)
{
	static const ThreadOp plain[] = {[COMBINE_AND] = THREAD_AND, [COMBINE_OR] = THREAD_OR, [COMBINE_XOR] = THREAD_XOR,
		[COMBINE_KEY] = THREAD_SMAX};
	Lower *l = f->l;
	bool is_float = dtype_is_float(f->to);
	Reg in[2 * STATE_MAX];
	switch (f->p->kind) {
	case COMBINE_SUM:
		out[0] = lower_op2(l, is_float ? THREAD_FADD : THREAD_ADD, a[0], b[0]);
		return;
	case COMBINE_PROD:
		out[0] = lower_op2(l, is_float ? THREAD_FMUL : THREAD_MUL, a[0], b[0]);
		return;
	case COMBINE_MAX:
	case COMBINE_MIN:
		out[0] = extreme(f, a[0], b[0]);
		return;
	case COMBINE_PAIR:
		combine_pairs(f, a, b, out);
		return;
	case COMBINE_REGION:
		memcpy(in, a, sizeof *a * (size_t)f->p->n);
		memcpy(in + f->p->n, b, sizeof *b * (size_t)f->p->n);
		lower_region(l, f->p->op->region[0], in, out);
		return;
	default:
		out[0] = lower_op2(l, plain[f->p->kind], a[0], b[0]);
	}
}

bool
combine_identity(const Combine *f, Reg *state)
{
	bool is_float = dtype_is_float(f->to);
	int64_t v = f->p->kind == COMBINE_PROD;
	if (f->p->kind != COMBINE_SUM && f->p->kind != COMBINE_PROD)
		return false;
	state[0] = is_float ? thread_float_const(f->l->b, f->type[0], (double)v) : thread_int_const(f->l->b, f->type[0], v);
	return true;
}

void
combine_select(const Combine *f, Reg pred, const Reg *a, const Reg *b, Reg *out)
{
	for (int i = 0; i < f->p->n; i++)
		out[i] = a[i] == b[i] ? a[i] : lower_op3(f->l, THREAD_SELECT, pred, a[i], b[i]);
}

void
combine_lane_xor(const Combine *f, const Reg *state, int mask, Reg *out)
{
	for (int i = 0; i < f->p->n; i++)
		out[i] = lower_lane_xor(f->l, f->type[i], state[i], mask);
}
