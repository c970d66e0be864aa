/* Constants for simplify: what a value is known to be, and ops on known values computed here.
 *
 * A constant is a splat: one value for every element of its tile, so one element is computed (num/fold.c).  Functions that
 * devices may round differently (exp, sin, pow …) and approximations ({fast}) are left to the device. */
#include "pass/shape/simplify.h"

#include "num/num.h"

#include <string.h>

bool
const_is_int(const Value *v, int64_t i)
{
	const Attr *a = value_const(v);

	return a && a->kind != KIND_FLOAT && a->i == int_wrap(v->type->elem, i);
}

bool
const_is_float(const Value *v, double f)
{
	const Attr *a = value_const(v);

	return a && a->kind == KIND_FLOAT && memcmp(&a->f, &f, sizeof f) == 0;
}

bool
const_is_zero(const Value *v)
{
	return const_is_int(v, 0) || const_is_float(v, 0.0);
}

Value *
simplify_const(Simplify *s, Op *at, const Type *t, const Attr *value)
{
	return simplify_emit(s, at, OP_CONST, NULL, 0, value, 1, t);
}

Value *
simplify_int(Simplify *s, Op *at, const Type *t, int64_t v)
{
	Attr value = t->elem == TY_BOOL ? attr_bool_value(v != 0)
	    : dtype_is_float(t->elem)   ? attr_float_value((double)v)
					: attr_int_value(int_wrap(t->elem, v));

	return simplify_const(s, at, t, &value);
}

/* Every device gives the same bits. */
static bool
is_exact(const Op *op)
{
	bool approximate = op_info[op->kind].rounding == ROUNDING_ULP || attr_fast(op);

	return !dtype_is_float(op->in[0]->type->elem) || !approximate;
}

static Value *
fold_elementwise(Simplify *s, Op *op)
{
	Attr in[3], value;

	if (op->nin > LEN(in) || !is_exact(op))
		return NULL;
	for (int i = 0; i < op->nin; i++) {
		if (!value_const(op->in[i]))
			return NULL;
		in[i] = *value_const(op->in[i]);
	}
	return elem_fold(op, in, &value) ? simplify_const(s, op, op->out[0].type, &value) : NULL;
}

/* Ops that only move elements about give the same splat in another shape. */
static Value *
fold_move(Simplify *s, Op *op)
{
	const Attr *value = value_const(op->in[0]);

	if (!value)
		return NULL;
	for (int i = 1; i < op->nin && op->kind == OP_CAT; i++)
		if (op->in[i] != op->in[0])
			return NULL;
	return simplify_const(s, op, op->out[0].type, value);
}

/* A constant of a narrow float is the value that its type holds. */
static Value *
fold_const(Simplify *s, Op *op)
{
	const Type *t = op->out[0].type;
	Attr value;

	if (!dtype_is_float(t->elem) || !elem_fold_const(op, &value) || const_is_float(&op->out[0], value.f) ||
	    value.f != value.f)
		return NULL;
	return simplify_const(s, op, t, &value);
}

Value *
simplify_fold(Simplify *s, Op *op)
{
	switch (op->kind) {
	case OP_CONST:
		return fold_const(s, op);
	case OP_RESHAPE:
	case OP_PERMUTE:
	case OP_BROADCAST:
	case OP_CONVERT:
	case OP_FLIP:
	case OP_EXTRACT:
	case OP_CAT:
		return fold_move(s, op);
	case OP_SORT:
		return op->nout == 1 ? fold_move(s, op) : NULL;
	default:
		return (op_info[op->kind].traits & ELEM) ? fold_elementwise(s, op) : NULL;
	}
}
