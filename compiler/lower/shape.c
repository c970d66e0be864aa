/* Constants, indices, and tiles seen in another shape.
 *
 * A reshape, a permutation or a broadcast moves nothing by itself: the operand's layout, seen through it, is a layout
 * of the result, and the registers go on under other names.  Where passes chose another layout for the result, the
 * registers are converted to it. */
#include "num/num.h"
#include "lower/lower.h"

#include <string.h>

static void
lower_const(Lower *l, Op *op)
{
	const Attr *a = attr_value(op);
	const Type *type = op->out[0].type;
	RegType t = lower_type(type);
	Reg *out = lower_new(l, &op->out[0]), v;
	double f = a->kind == KIND_FLOAT ? a->f : (double)a->i;
	uint8_t byte = 0;
	if (type->ptr != PTR_NONE) {
		v = lower_as(l, CAST_BITS, REG_GLOBAL, lower_i64(l, a->i));
	} else if (dtype_is_float(type->elem) && t == REG_I8) {
		dtype_store_f64(type->elem, &byte, 0, f);
		v = thread_int_const(l->b, t, byte);
	} else if (dtype_is_float(type->elem)) {
		v = thread_float_const(l->b, t, f);
	} else {
		v = thread_int_const(l->b, t, int_wrap(type->elem, a->kind == KIND_FLOAT ? (int64_t)a->f : a->i));
	}
	for (int r = 0; r < lower_count(&op->out[0]); r++)
		out[r] = v;
}

static void
lower_iota(Lower *l, Op *op)
{
	const Value *v = &op->out[0];
	int axis = (int)attr_axis(op);
	RegType t = lower_type(v->type);
	Reg *out = lower_new(l, &op->out[0]);
	for (int r = 0; r < lower_count(v); r++) {
		int64_t add;
		Reg c = lower_coordinate(l, v->layout, r, axis, &add);
		if (t != REG_I32)
			c = lower_as(l, t == REG_I64 ? CAST_ZEXT : CAST_TRUNC, t, c);
		if (add)
			c = lower_op2(l, THREAD_ADD, c, thread_int_const(l->b, t, add));
		out[r] = lower_wrap(l, v->type->elem, c);
	}
}

static void
lower_view(Lower *l, Op *op)
{
	int n = lower_count(&op->out[0]);
	Reg *out = lower_new(l, &op->out[0]);
	if (op->in[0]->layout && op->out[0].layout) {
		Layout want = view_layout(op, op->out[0].layout);
		const Reg *in = lower_operand(l, op, 0, &want);
		memcpy(out, in, sizeof *out * (size_t)n);
		return;
	}
	/* from a scalar: everywhere; to a scalar: everyone holds the one element, in all its registers */
	for (int r = 0; r < n; r++)
		out[r] = lower_regs(l, op->in[0])[0];
}

void
lower_shape(Lower *l, Op *op)
{
	if (op->kind == OP_CONST)
		lower_const(l, op);
	else if (op->kind == OP_IOTA)
		lower_iota(l, op);
	else
		lower_view(l, op);
}
