/* The factor of what an exponential takes, and its greatest, goes into the exponential's own factor.
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

#include <string.h>

enum { LEAST_ELEMENTS = 4096 };

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
is_infinite(const Value *v)
{
	const Attr *a = value_const(v);
	return a && a->kind == KIND_FLOAT && a->f != 0 && a->f == a->f * 2;
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

	s->max = only_use(s->body, score, s->fma);
	if (!s->max || s->max->kind != OP_REDUCE || strcmp(attr_fn(s->max), "max") != 0)
		return false;
	for (; op && op->kind == OP_SELECT && is_infinite(op->in[2]); op = op->in[1]->def)
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
	Value *rows = build1(&b, OP_BROADCAST, goes, s.max->out->type);
	stays = build1(&b, OP_BROADCAST, stays, tile);
	for (int i = 0; i < 2; i++)
		if (spread_factor(s.mul->in[i], s.body) == s.factor) {
			op_set_in(s.mul, i, stays);
			break;
		}
	b = build_before(s.max->next);
	Value *max = build2(&b, OP_MUL, rows, rows);
	value_replace(s.max->out, max);
	op_set_in(max->def, 0, s.max->out);
	op_set_in(fma, 1, all);
}
