/* Sums of exponentials that are 0 only where nothing was added: whether one is 0 needs none of their bits.
 *
 *     for … (%m = -1e30, %l = 0) {                                            %l = for …
 *         %n = max %m, (reduce %x {fn = "max"})                               %ok = gt %l, 0
 *         %p = exp (sub %x, (broadcast %n))                                   %o = select %ok, (div %acc, %l), 0
 *         %s = add (mul %l, (exp (sub %m, %n))), (reduce %p {fn = "sum"})
 *     }
 *
 * The greatest of a row has an exponential of 1, so that a sum with it is no less, and stays no less: another greatest
 * brings its own, and none scales by exp 0.  Without any, all are what lies at or below what %m began with, which is minus
 * infinity or so far out that differences are 0 or below -104, whose exponentials are 0 by any arithmetic.  An
 * approximation that takes what would be denormal for 0 thus changes no sum to 0.  Elements that a mask leaves out of the
 * sum must be out of the maximum, by the same mask.  Attention guards its quotient so, for rows of which all keys are
 * masked: with exponentials that are exact for the guard's sake, a trip of 64 x 128 has 1,430 instructions a warp, 950
 * without; of an H200 221 us and 157 (8 x 16 heads, 1024 queries on 1500 keys, an additive bias and a mask).
 */
#include "pass/relax/relax.h"

#include <math.h>
#include <string.h>

enum { DEPTH = 8 };                                     /* of what is computed from a sum */

/* From here on floats lie 64 apart. */
static const double FAR_OUT = -0x1p29;

static bool
is_number(const Value *v, double least, double most)
{
	const Attr *a = value_const(v);
	return a && a->kind == KIND_FLOAT && a->f >= least && a->f <= most;
}

static bool
is_reduction(const Value *v, const char *fn)
{
	return v->def && v->def->kind == OP_REDUCE && strcmp(attr_fn(v->def), fn) == 0;
}

/* Of exp(x - m): the difference; else NULL. */
static const Op *
difference(const Value *v)
{
	const Op *op = v->def, *sub = op && (op->kind == OP_EXP || op->kind == OP_EXP2) ? op->in[0]->def : NULL;
	return sub && sub->kind == OP_SUB ? sub : NULL;
}

/* What the exponentials of a sum take off, if that is no less than any element of theirs: the greatest of them, or the
 * greater of that and of `before`, as both are called where it is not NULL. */
static const Value *
greatest_of(const Value *sum, const Value **before)
{
	const Value *e = is_reduction(sum, "sum") ? sum->def->in[0] : NULL;
	const Op *mask = e && e->def && e->def->kind == OP_SELECT && value_is_zero(e->def->in[2]) ? e->def : NULL;
	const Op *sub = e ? difference(mask ? mask->in[1] : e) : NULL;
	const Value *m = sub ? relax_repeated(sub->in[1]) : NULL, *top = m;
	*before = NULL;
	if (m && m->def && m->def->kind == OP_MAX) {
		int i = is_reduction(relax_repeated(m->def->in[0]), "max") ? 0 : 1;
		top = relax_repeated(m->def->in[i]);
		*before = m->def->in[1 - i];
	}
	if (!m || !is_reduction(top, "max") || top->def->in[0] != sub->in[0] ||
	    attr_axis(top->def) != attr_axis(sum->def))
		return NULL;
	const Op *left_out = sub->in[0]->def;
	bool by_mask = mask && left_out && left_out->kind == OP_SELECT && left_out->in[0] == mask->in[0] &&
	    is_number(left_out->in[2], -INFINITY, FAR_OUT);
	return !mask || by_mask ? m : NULL;
}

/* Column `c` of the loop: a sum that each trip scales by how much the greatest so far has grown, and adds such
 * exponentials to. */
static bool
grows(const Op *loop, int c)
{
	const Block *body = loop->region[0];
	const Op *sum = body->last->in[c]->def;
	const Value *arg = &body->arg[1 + c], *old, *m = NULL;
	const Op *scaled = NULL;
	if (!sum || sum->kind != OP_ADD || !is_number(loop->in[3 + c], 0, INFINITY))
		return false;
	for (int i = 0; i < 2 && !m; i++) {
		scaled = sum->in[1 - i]->def;
		m = scaled && scaled->kind == OP_MUL ? greatest_of(relax_repeated(sum->in[i]), &old) : NULL;
	}
	if (!m || !old || old->def || old->block != body || old->index == 0)
		return false;
	int by = scaled->in[0] == arg ? 1 : 0, column = old->index - 1;
	const Op *fix = scaled->in[1 - by] == arg ? difference(scaled->in[by]) : NULL;
	return fix && fix->in[0] == old && fix->in[1] == m && body->last->in[column] == m &&
	    is_number(loop->in[3 + column], -INFINITY, FAR_OUT);
}

bool
relax_asks_for_zero(const Op *compare, int i)
{
	const Value *v = relax_repeated(compare->in[i]), *before;
	if (!value_is_zero(compare->in[1 - i]) || !v->def)
		return false;
	if (v->def->kind == OP_FOR)
		return grows(v->def, v->index);
	return greatest_of(v, &before) && (!before || is_number(before, -INFINITY, FAR_OUT));
}

/* Is it the sum, what a loop adds up of it, or 0 if the sum is? */
static bool
vanishes_with(const Value *v, const Op *sum, int depth)
{
	v = relax_repeated(v);
	const Op *op = v->def;
	double c;
	if (v == sum->out || !op || depth > DEPTH)
		return v == sum->out;
	if (op->kind == OP_FOR)
		return vanishes_with(op->region[0]->last->in[v->index], sum, depth + 1);
	if (op->kind == OP_ADD && ANY_OF(i, 2, relax_constant(relax_repeated(op->in[i]), &c)))
		return false;
	return (op->kind == OP_ADD || op->kind == OP_MUL) && ANY_OF(i, 2, vanishes_with(op->in[i], sum, depth + 1));
}

/* The exponential that is summed, but for its mask and a constant factor. */
static const Op *
summed(const Op *sum)
{
	const Op *e = relax_repeated(sum->in[0])->def;
	double c;
	if (e && e->kind == OP_SELECT && value_is_zero(e->in[2]))
		e = relax_repeated(e->in[1])->def;
	if (e && e->kind == OP_MUL)
		e = relax_repeated(e->in[relax_constant(relax_repeated(e->in[0]), &c) ? 1 : 0])->def;
	return e && (e->kind == OP_EXP || e->kind == OP_EXP2) ? e : NULL;
}

/* Is something taken off that is one number for all of a sum's terms, and none that the source says?  That is what the
 * greatest of them is, wherever it was found. */
static bool
takes_off(const Op *e, int axis)
{
	const Op *op = e->in[0]->def;
	if (op && op->kind == OP_MUL)           /* by a temperature */
		op = op->in[op->in[0]->def && op->in[0]->def->kind == OP_SUB ? 0 : 1]->def;
	if (!op || op->kind != OP_SUB)
		return op && op->kind == OP_FMA;
	const Op *spread = op->in[1]->def;
	const Type *t = spread && spread->kind == OP_BROADCAST ? spread->in[0]->type : NULL;
	return t && (t->rank != op->out->type->rank || t->extent[axis] == 1) && !value_const(relax_repeated(op->in[1]));
}

/* Of exponentials that may all be denormal, of rows below -87. */
static bool
is_plain(const Op *op)
{
	const Op *e = op->kind == OP_REDUCE && strcmp(attr_fn(op), "sum") == 0 ? summed(op) : NULL;
	return e && !takes_off(e, (int)attr_axis(op));
}

bool
relax_may_vanish(const Op *sum)
{
	return is_plain(sum) && ANY_OP(op, sum->home->func->body,
	    (op->kind == OP_DIV && vanishes_with(op->in[1], sum, 0)) ||
	    ((op->kind == OP_LOG || op->kind == OP_LOG2) && vanishes_with(op->in[0], sum, 0)));
}

bool
relax_by_vanishing(const Op *op, int i)
{
	const Op *div = op->kind == OP_MUL ? relax_repeated(op->in[1 - i])->def : i == 0 ? op : NULL;   /* divide.c */
	return div && div->kind == OP_DIV &&
	    ANY_OP(sum, op->home->func->body, is_plain(sum) && vanishes_with(div->in[1], sum, 0));
}
