/* Powers with exponents that are known, on GPUs: what takes pow some 120 instructions an element is a product or a root.
 *
 *     pow %x, 3.0 : f32                           =>      mul (mul %x, %x), %x
 *     pow %x, 1.5 : f32                           =>      mul %x, (sqrt %x), but inf where %x is -inf
 *
 * All are within pow's 2 units in the last place (docs/math.md): each step is rounded by half a unit, a root halves the
 * error of what it is taken of, and a square doubles it (x^4 and x^-2 err by 1.92).  x^0.75 of f32 would err by 2.33: only
 * narrower types have it.  Of f64 only squares, which are rounded once.  Zeros keep the signs that pow gives, and no step
 * of a normal result is denormal. */
#include "pass/shape/simplify.h"

#include <math.h>

static Value *
times(Simplify *s, Op *op, Value *x, Value *y)
{
	return simplify_emit2(s, op, OP_MUL, x, y);
}

static Value *
number(Simplify *s, Op *op, const Type *t, double v)
{
	Attr value = attr_float_value(v);
	return simplify_const(s, op, t, &value);
}

/* pow gives +0 of -0, and a number of -inf; a root gives -0 and NaN. */
static Value *
mend(Simplify *s, Op *op, Value *x, Value *v, double of_infinity)
{
	Value *is = simplify_emit2(s, op, OP_EQ, x, number(s, op, x->type, -INFINITY));
	return simplify_emit(s, op, OP_SELECT, (Value *[]){is, number(s, op, x->type, of_infinity), v}, 3, NULL, 0, NULL);
}

static Value *
root(Simplify *s, Op *op, Value *x)
{
	return simplify_emit1(s, op, OP_SQRT, x, NULL);
}

static Value *
whole(Simplify *s, Op *op, Value *x, int exponent)
{
	const Type *t = x->type;
	switch (exponent) {
	case 0: return number(s, op, t, 1);
	case 1: return x;
	case 2: return times(s, op, x, x);
	case 3: return times(s, op, times(s, op, x, x), x);
	case 4: x = times(s, op, x, x); return times(s, op, x, x);
	case -1: return simplify_emit2(s, op, OP_DIV, number(s, op, t, 1), x);
	case -2: x = simplify_emit2(s, op, OP_DIV, number(s, op, t, 1), x); return times(s, op, x, x);
	default: return NULL;
	}
}

static Value *
broken(Simplify *s, Op *op, Value *x, int quarters)
{
	Value *zero = number(s, op, x->type, 0), *r;
	switch (quarters) {
	case 1: return mend(s, op, x, root(s, op, root(s, op, simplify_emit2(s, op, OP_ADD, x, zero))), INFINITY);
	case 2: return mend(s, op, x, root(s, op, simplify_emit2(s, op, OP_ADD, x, zero)), INFINITY);
	case 3: r = root(s, op, x); return mend(s, op, x, times(s, op, r, root(s, op, r)), INFINITY);
	case 6: return mend(s, op, x, times(s, op, x, root(s, op, x)), INFINITY);
	case -2:
		r = simplify_emit1(s, op, OP_RSQRT, simplify_emit2(s, op, OP_ADD, x, zero), NULL);
		return mend(s, op, x, r, 0);
	default: return NULL;
	}
}

Value *
simplify_pow(Simplify *s, Op *op, Value *x, Value *y)
{
	const Attr *c = value_const(y);
	const Type *t = op->out[0].type;
	if (!s->is_gpu || !c || c->kind != KIND_FLOAT || !(fabs(c->f) <= 4) || c->f * 4 != trunc(c->f * 4))
		return NULL;
	int quarters = (int)(c->f * 4);
	bool is_whole = quarters % 4 == 0, is_once = is_whole && quarters >= 0 && quarters <= 8;
	int bits = dtype_info[t->elem].bits;
	bool is_root = quarters == 1 || quarters == 2 || (quarters == 3 && bits < 32) || quarters == 6 || quarters == -2;
	if ((is_whole ? quarters < -8 : !is_root) || (bits > 32 && !is_once))
		return NULL;
	bool narrow = bits < 32 && !is_once;            /* computed in f32, and rounded once */
	Value *v = narrow ? simplify_emit1(s, op, OP_CAST, x, type_with_elem(s->m, t, TY_F32)) : x;
	v = is_whole ? whole(s, op, v, quarters / 4) : broken(s, op, v, quarters);
	return narrow ? simplify_emit1(s, op, OP_CAST, v, t) : v;
}
