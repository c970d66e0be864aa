/* A tile divided by few numbers is multiplied by their inverses, each computed once.
 *
 *     %d = div %x, (broadcast %s) : f32[64, 128]   =>   %r = div 1, %s : f32[64, 1]
 *                                                       %d = mul %x, (broadcast %r) : f32[64, 128]
 *
 * The inverse of what lies below 2^-128 is infinite, though, and 0 times it none, and that of what lies above 2^126 is
 * denormal.  Unless the divisor is known to be far from 0, its inverse is that of k s, and the product is multiplied by k,
 * a number of each divisor's own, 1 as a rule:
 *
 *     %k = select |%s| < 2^-100, 2^32, (select |%s| > 2^100, 2^-32, 1) : f32[64, 1]
 *     %d = mul (mul %x, (broadcast (div 1, (mul %s, %k)))), (broadcast %k) : f32[64, 128]
 *
 * What stands between overflows, or becomes denormal, only where the quotient does too. */
#include "pass/relax/relax.h"

#include <math.h>
#include <string.h>

/* Is v the sum of exp(x - max x), the greatest of whose terms is 1?  Pass pad may have masked both reductions. */
static bool
is_softmax_sum(const Op *sum)
{
	const Op *e = sum->in[0]->def, *mask = e && e->kind == OP_SELECT ? e : NULL;
	e = mask ? mask->in[1]->def : e;
	const Op *sub = e && e->kind == OP_EXP ? e->in[0]->def : NULL;
	const Op *max = sub && sub->kind == OP_SUB ? relax_repeated(sub->in[1])->def : NULL;
	if (!max || max->kind != OP_REDUCE || strcmp(attr_fn(max), "max") != 0 || attr_axis(max) != attr_axis(sum))
		return false;
	const Op *of = max->in[0]->def;
	bool masked = mask && of && of->kind == OP_SELECT && of->in[0] == mask->in[0] && of->in[1] == sub->in[0];
	return masked || (!mask && max->in[0] == sub->in[0]);
}

/* Surely not so near to 0 that its inverse is infinite, or 0. */
static bool
is_invertible(const Value *v, int depth)
{
	const Op *op = relax_repeated(v)->def;
	const Attr *c = value_const(v);
	if (c)
		return c->kind == KIND_FLOAT && fabs(c->f) >= 0x1p-100;
	if (!op || depth > 4)
		return false;
	bool is_sum = op->kind == OP_ADD && relax_is_positive(op->in[0], 0, NULL) && relax_is_positive(op->in[1], 0, NULL);
	if ((is_sum || op->kind == OP_MAX) &&
	    ANY_OF(
		i, 2, relax_is_positive(op->in[i], 0, NULL) && is_invertible(op->in[i], depth + 1)))
		return true;
	return (op->kind == OP_CAST && depth == 0 && !dtype_is_float(op->in[0]->type->elem)) ||
	    (op->kind == OP_SQRT && is_invertible(op->in[0], depth + 1)) ||
	    (op->kind == OP_REDUCE && strcmp(attr_fn(op), "sum") == 0 && is_softmax_sum(op));
}

/* Where both are nearly equal either answer will do. */
static Value *
is_about_less(Builder *b, Value *x, Value *y)
{
	Value *v = build2(b, OP_LT, x, y);
	attr_set_fast(b->m, v->def, true);
	return v;
}

/* 2^32, 2^-32 or 1: a factor with which the inverse of v is neither infinite nor denormal. */
static Value *
inverse_scale(Builder *b, Value *v)
{
	const Type *t = v->type;
	Value *size = build1(b, OP_ABS, v, NULL), *one = build_float(b, t, 1);
	Value *is_large = is_about_less(b, build_float(b, t, 0x1p100), size);
	Value *is_small = is_about_less(b, size, build_float(b, t, 0x1p-100));
	Value *scale = build3(b, OP_SELECT, is_large, build_float(b, t, 0x1p-32), one);
	return build3(b, OP_SELECT, is_small, build_float(b, t, 0x1p32), scale);
}

/* Is it 0 at many places: what is masked, cut off below 0, or a product with such? */
static bool
is_often_zero(const Value *v, int depth)
{
	const Op *op = v->def;
	if (!op || depth > 4)
		return false;
	switch (op->kind) {
	case OP_RESHAPE: case OP_PERMUTE: case OP_BROADCAST:
		return is_often_zero(op->in[0], depth + 1);
	case OP_SELECT:
		return value_is_zero(op->in[1]) || value_is_zero(op->in[2]);
	case OP_MAX:
		return value_is_zero(op->in[0]) || value_is_zero(op->in[1]);
	case OP_MUL:
		return is_often_zero(op->in[0], depth + 1) || is_often_zero(op->in[1], depth + 1);
	default:
		return false;
	}
}

/* ptxas divides 0 by its longer branch, as all lanes of a warp then do (H200: 16,384 overlaps of boxes in 859 us, 264 by
 * approximations, which have none).  Another number takes the place of 0, and the quotient is multiplied by it: neither
 * infinite nor denormal for any divisor but those of which 0 / b is no number, or the sign is all that is left.
 *
 *     %d = div %a, %b   =>   %z = eq %a, 0
 *                            %q = div (select %z, 2^-30, %a), %b
 *                            %d = select %z, (mul %a, %q), %q */
void
relax_zeros(Op *op)
{
	Builder b = build_before(op);
	Value *a = op->in[0];
	if (op->out->type->rank == 0 || attr_fast(op) || !is_often_zero(a, 0))
		return;
	Value *is_zero = build2(&b, OP_EQ, a, build_float(&b, a->type, 0));
	Value *other = build3(&b, OP_SELECT, is_zero, build_float(&b, a->type, 0x1p-30), a);
	Value *quotient = build2(&b, OP_DIV, other, op->in[1]);
	Value *all = build3(&b, OP_SELECT, is_zero, build2(&b, OP_MUL, a, quotient), quotient);
	quotient->id = all->id = other->id = op->out->id;
	value_replace(op->out, all);
}

void
relax_divisor(Op *op, bool is_term)
{
	Op *spread = op->kind == OP_DIV && op->out->type->rank > 0 ? op->in[1]->def : NULL;
	if (!spread || spread->kind != OP_BROADCAST || type_count(spread->in[0]->type) * 4 > type_count(op->out->type))
		return;
	Builder b = build_before(op);
	const Type *t = op->out->type;
	Value *divisor = spread->in[0], *one = build_float(&b, divisor->type, 1.0);
	bool as_is = is_term || is_invertible(divisor, 0);
	Value *scale = as_is ? NULL : inverse_scale(&b, divisor);
	Value *inverse = build2(&b, OP_DIV, one, scale ? build2(&b, OP_MUL, divisor, scale) : divisor);
	Value *product = build2(&b, OP_MUL, op->in[0], build1(&b, OP_BROADCAST, inverse, t));
	product->id = op->out->id;
	if (scale) {
		product = build2(&b, OP_MUL, product, build1(&b, OP_BROADCAST, scale, t));
		product->id = op->out->id;
	}
	value_replace(op->out, product);
}
