/* An approximated exponential of a difference becomes one of base 2, whose factor log2 e is part of the difference.
 *
 *     %b = broadcast %m : f32[64, 128]                 %n = mul %m, log2 e : f32[64, 1]
 *     %d = sub %x, %b : f32[64, 128]                   %b = broadcast (neg %n) : f32[64, 128]
 *     %e = exp %d {fast = true} : f32[64, 128]    =>   %d = fma %x, log2 e, %b : f32[64, 128]
 *                                                      %e = exp2 %d {fast = true} : f32[64, 128]
 *     %f = exp (sub %o, %m) : f32[64]                  %f = exp2 (sub (mul %o, log2 e), %n) : f32[64]
 *
 * One operation an element takes the place of two.  The product %n is rounded, by 2^-24 of itself, which is an error of
 * the result as great as one of %x's own rounding where both are about as great.  Where they are not, their difference is
 * as great as the greater, and a result that is neither 0 nor infinite has one of 104 at most: 2^-17.  So one of the terms
 * must be a rounded one, a sum or product or the greatest of such, where the difference of what memory holds may be
 * exact; the other may come from memory, as a row's log-sum-exp does.  The second form keeps the same %n, and both terms
 * must be rounded: what a running maximum scales is scaled back by the same number.  Terms beyond 2^127, which the factor
 * makes infinite, prevent it in constants.
 *
 * The factor of what an exponential takes, and at most its greatest beside, goes into the exponential's own factor.
 *
 *     for … {                                              %ok = 2^-100 <= %c <= 2^100
 *                                                          %g, %f = select %ok, (1, %c), (%c, 1)
 *         %s = mul %x, (broadcast %c)                      for … {
 *         %t = select %mask, %s, -inf               =>         %s = mul %x, (broadcast %g)
 *         %m = reduce %t {fn = "max"}                          %t = select %mask, %s, -inf
 *         %d = fma %t, log2 e, …                               %m = mul (reduce %t {fn = "max"}), %f
 *         %e = exp2 %d {fast = true}                           %d = fma %t, (broadcast %f log2 e), …
 *     }                                                        %e = exp2 %d {fast = true}
 *
 * A factor above 0 keeps the order of what it scales, rounding included, so the greatest is the same number to the bit, and
 * infinities stay what they are.  Factors for which this is not so, or with which log2 e might leave the range of f32, stay
 * where they were, by a number that is 1 otherwise; pass guard has a product by 1 pass by.  The exponential's operand takes
 * the rounding of %f log2 e where it had that of %s. */
#include "pass/shape/relax.h"

#include <math.h>
#include <string.h>

#define LOG2_E 0x1.71547652b82fep0

enum { LEAST_ELEMENTS = 4096 };

bool
carried_has(Property *holds, const Value *v, int depth, const Assumed *all)
{
	const Assumed now = {v, all};
	const Op *loop = v->def ? NULL : v->block->parent;
	for (const Assumed *a = all; a; a = a->next)
		if (a->v == v)
			return true;
	return loop && loop->kind == OP_FOR && v->index > 0 && holds(loop->in[2 + v->index], depth + 1, &now) &&
	    holds(v->block->last->in[v->index - 1], depth + 1, &now);
}

/* Is each element a constant or rounded by arithmetic? */
static bool
is_rounded(const Value *v, int depth, const Assumed *all)
{
	const Op *op = v->def;
	if (depth > 8)
		return false;
	if (!op)
		return carried_has(is_rounded, v, depth, all);
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
		    carried_has(is_rounded, &op->region[0]->arg[1 + v->index], depth + 1, all);
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
	if (!sub || sub->kind != OP_SUB || sub->out->nuses != 1 || !is_rounded(sub->in[0], 0, NULL))
		return;
	Builder b = build_before(op);
	Value *row = repeated(sub->in[1]), *d;
	if (!row && !is_rounded(sub->in[1], 0, NULL))
		return;
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

/* ---- the factor of what it takes ---- */

typedef struct Scale {
	Block *body;
	Op *fma, *mul, *max;
	Value *factor;                                  /* a scalar from outside the loop */
} Scale;

static bool
is_unused(const Op *op)
{
	return op_has(op, PURE) && op->nout == 1 && op->out->nuses == 0;
}

/* What uses v, all of it in the block, beside `but` and ops that nothing uses; NULL: nothing, or more than one. */
static Op *
only_use(const Block *body, const Value *v, const Op *but)
{
	Op *user = NULL;
	int uses = 0, users = 0;

	for (Op *op = body->first; op; op = op->next)
		for (int i = 0; i < op->nin; i++) {
			if (op->in[i] != v)
				continue;
			uses++;
			if (op == but || is_unused(op))
				continue;
			users++;
			user = op;
		}
	return uses == v->nuses && users == 1 ? user : NULL;
}

static bool
is_infinity(const Value *v)
{
	const Attr *a = value_const(v);
	return a && a->kind == KIND_FLOAT && isinf(a->f);
}

/* A scalar that is spread over the tile and made outside the loop. */
static Value *
spread_factor(const Value *v, const Block *body)
{
	const Op *op = v->def;
	Value *from = op && op->kind == OP_BROADCAST ? op->in[0] : NULL;
	return from && from->type->rank == 0 && !value_inside(from, body) && !value_const(from) ? from : NULL;
}

static bool
find_scale(Scale *s)
{
	Value *score = s->fma->in[0];
	Op *op = score->def;

	s->max = score->nuses > 1 ? only_use(s->body, score, s->fma) : NULL;
	if (score->nuses > 1 && (!s->max || s->max->kind != OP_REDUCE || strcmp(attr_fn(s->max), "max") != 0))
		return false;
	for (; op && op->kind == OP_SELECT && is_infinity(op->in[2]); op = op->in[1]->def)
		if (op->home != s->body || op->in[1]->nuses != 1)
			return false;
	if (!op || op->kind != OP_MUL || op->home != s->body)
		return false;
	s->mul = op;
	for (int i = 0; i < 2 && !s->factor; i++)
		s->factor = spread_factor(op->in[1 - i], s->body);
	return s->factor != NULL;
}

static Value *
is_moderate(Builder *b, Value *v)
{
	Value *low = build2(b, OP_LE, build_float(b, v->type, 0x1p-100), v);
	return build2(b, OP_AND, low, build2(b, OP_LE, v, build_float(b, v->type, 0x1p100)));
}

void
relax_scale(Op *exp2)
{
	const Type *tile = exp2->out->type;
	Op *loop = exp2->home->parent, *fma = exp2->in[0]->def;
	Scale s = {.body = exp2->home, .fma = fma};

	if (!loop || loop->kind != OP_FOR || type_count(tile) < LEAST_ELEMENTS || !fma || fma->kind != OP_FMA ||
	    fma->out->nuses != 1)
		return;
	const Attr *c = value_const(fma->in[1]);
	if (!c || !find_scale(&s))
		return;
	Builder b = build_before(loop);
	const Type *scalar = s.factor->type;
	Value *one = build_float(&b, scalar, 1), *ok = is_moderate(&b, s.factor);
	Value *stays = build3(&b, OP_SELECT, ok, one, s.factor), *goes = build3(&b, OP_SELECT, ok, s.factor, one);
	Value *all = build2(&b, OP_MUL, goes, build_float(&b, scalar, c->f));
	all = build1(&b, OP_BROADCAST, all, tile);
	Value *rows = s.max ? build1(&b, OP_BROADCAST, goes, s.max->out->type) : NULL;
	stays = build1(&b, OP_BROADCAST, stays, tile);
	for (int i = 0; i < 2; i++)
		if (spread_factor(s.mul->in[i], s.body) == s.factor) {
			op_set_in(s.mul, i, stays);
			break;
		}
	op_set_in(fma, 1, all);
	if (!s.max)
		return;
	b = build_before(s.max->next);
	Value *max = build2(&b, OP_MUL, rows, rows);
	value_replace(s.max->out, max);
	op_set_in(max->def, 0, s.max->out);
}
