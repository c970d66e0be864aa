/* An approximated exponential of a difference becomes one of base 2, whose factor log2 e is part of the difference.
 *
 *     %b = broadcast %m : f32[64, 128]                 %n = mul %m, log2 e : f32[64, 1]
 *     %d = sub %x, %b : f32[64, 128]                   %b = broadcast (neg %n) : f32[64, 128]
 *     %e = exp %d {fast = true} : f32[64, 128]    =>   %d = fma %x, log2 e, %b : f32[64, 128]
 *                                                      %e = exp2 %d {fast = true} : f32[64, 128]
 *     %f = exp (sub %o, %m) : f32[64]                  %f = exp2 (sub (mul %o, log2 e), %n) : f32[64]
 *
 * One operation an element takes the place of two.  The product %n is rounded, by 2^-24 of itself, which is an error of
 * the result as great as one of %x's own rounding: so both terms must be rounded ones, sums or products or the greatest of
 * such, where the difference of what memory holds may be exact.  The second form keeps the same %n: what a running maximum
 * scales is scaled back by the same number.  Terms beyond 2^127, which the factor makes infinite, are met only in
 * constants, and those prevent it. */
#include "pass/shape/relax.h"

#include <math.h>
#include <string.h>

#define LOG2_E 0x1.71547652b82fep0

bool
is_assumed(const Assumed *all, const Value *v)
{
	for (; all; all = all->next)
		if (all->v == v)
			return true;
	return false;
}

bool
carried_from(const Value *v, Value *from[2])
{
	const Op *loop = v->def ? NULL : v->block->parent;
	if (!loop || loop->kind != OP_FOR || v->index == 0)
		return false;
	from[0] = loop->in[2 + v->index];
	from[1] = v->block->last->in[v->index - 1];
	return true;
}

static bool is_rounded(const Value *v, int depth, const Assumed *all);

static bool
is_carried_rounded(const Value *v, int depth, const Assumed *all)
{
	const Assumed now = {v, all};
	Value *from[2];
	if (is_assumed(all, v))
		return true;
	return carried_from(v, from) && is_rounded(from[0], depth + 1, &now) && is_rounded(from[1], depth + 1, &now);
}

/* Is each element a constant or rounded by arithmetic? */
static bool
is_rounded(const Value *v, int depth, const Assumed *all)
{
	const Op *op = v->def;
	if (depth > 8)
		return false;
	if (!op)
		return is_carried_rounded(v, depth, all);
	switch (op->kind) {
	case OP_MUL: case OP_DIV: case OP_FMA: case OP_DOT: case OP_ADD: case OP_SUB:
		return true;
	case OP_CONST: {
		const Attr *a = attr_value(op);
		return a->kind == KIND_FLOAT && (isinf(a->f) || fabs(a->f) < 0x1p126);
	}
	case OP_REDUCE:
		if (strcmp(attr_fn(op), "max") != 0 && strcmp(attr_fn(op), "min") != 0)
			return true;
		break;
	case OP_SELECT: case OP_MAX: case OP_MIN: case OP_RESHAPE: case OP_BROADCAST: case OP_PERMUTE: case OP_FOR:
		break;
	default:
		return false;
	}
	if (op->kind == OP_FOR)
		return is_rounded(op->in[3 + v->index], depth + 1, all) &&
		    is_carried_rounded(&op->region[0]->arg[1 + v->index], depth + 1, all);
	for (int i = op->kind == OP_SELECT; i < op->nin; i++)
		if (!is_rounded(op->in[i], depth + 1, all))
			return false;
	return true;
}

/* What a tile is made of by repeating, a quarter of it or less; NULL: no such tile. */
static Value *
repeated(const Value *v)
{
	const Op *op = v->def;
	bool few = op && op->kind == OP_BROADCAST && type_count(op->in[0]->type) * 4 <= type_count(v->type);
	return few ? op->in[0] : NULL;
}

/* v log2 e: where v is a row's number in another shape, of that number, so that it is computed once. */
static Value *
in_base_2(Builder *b, Value *v)
{
	Op *op = v->def;
	if (op && op->kind == OP_RESHAPE)
		return build1(b, OP_RESHAPE, in_base_2(b, op->in[0]), v->type);
	return build2(b, OP_MUL, v, build_float(b, v->type, LOG2_E));
}

void
relax_exponent(Op *op)
{
	Op *sub = op->kind == OP_EXP && op->out->type->elem == TY_F32 ? op->in[0]->def : NULL;
	if (!sub || sub->kind != OP_SUB || sub->out->nuses != 1 || !is_rounded(sub->in[0], 0, NULL) ||
	    !is_rounded(sub->in[1], 0, NULL))
		return;
	Builder b = build_before(op);
	Value *row = repeated(sub->in[1]), *d;
	if (row) {
		Value *less = build1(&b, OP_NEG, in_base_2(&b, row), NULL);
		Value *factor = build_float(&b, op->out->type, LOG2_E);
		d = build3(&b, OP_FMA, sub->in[0], factor, build1(&b, OP_BROADCAST, less, op->out->type));
	} else {
		d = build2(&b, OP_SUB, in_base_2(&b, sub->in[0]), in_base_2(&b, sub->in[1]));
	}
	Value *e = build1(&b, OP_EXP2, d, NULL);
	attr_set_fast(b.m, e->def, true);
	value_replace(op->out, e);
}
