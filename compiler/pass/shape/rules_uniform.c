/* Rules of simplify for tiles in which an operand has the same element everywhere: what such elements make of one
 * another is computed once, and not for each element.  Every bit of every result stays.
 *
 *     (select %c, (broadcast %a), (broadcast %b)) + (broadcast %k)
 *                                             is select %c, (broadcast %a + %k), (broadcast %b + %k)
 *     iota + (broadcast %u) == (broadcast %s)                         is iota == (broadcast %s - %u), since integers wrap
 *     iota : i64[n] == (broadcast %s)                                 is iota : i32[n] == (broadcast %s held to -1 .. n) */
#include "pass/shape/simplify.h"

static bool
is_uniform(const Value *v)
{
	const Value *of = def_operand(v, OP_BROADCAST);
	return v->type->rank > 0 && (value_const(v) || (of && of->type->rank == 0));
}

static bool
is_iota(const Value *v)
{
	return v->def && v->def->kind == OP_IOTA;
}

static Value *
spread(Simplify *s, Op *op, Value *scalar)
{
	const Type *t = type_with_elem(s->m, op->in[0]->type, scalar->type->elem);
	return simplify_emit1(s, op, OP_BROADCAST, scalar, t);
}

/* An arm of the select in the place of operand i. */
static Value *
through_arm(Simplify *s, Op *op, int i, Value *arm)
{
	Value *in[] = {simplify_splat(s, op, op->in[0]), simplify_splat(s, op, op->in[1])};
	in[i] = simplify_splat(s, op, arm);
	return spread(s, op, simplify_emit(s, op, op->kind, in, 2, op->attr, op->nattr, NULL));
}

static Value *
into_select(Simplify *s, Op *op)
{
	for (int i = 0; i < 2; i++) {
		const Op *select = op->in[i]->def;
		if (!select || select->kind != OP_SELECT || op->in[i]->nuses != 1 || !is_uniform(op->in[1 - i]) ||
		    !is_uniform(select->in[1]) || !is_uniform(select->in[2]))
			continue;
		Value *in[] = {select->in[0], through_arm(s, op, i, select->in[1]), through_arm(s, op, i, select->in[2])};
		return simplify_emit(s, op, OP_SELECT, in, 3, NULL, 0, NULL);
	}
	return NULL;
}

static Value *
compare_index(Simplify *s, Op *op, Value *x, Value *y)
{
	Value *scalar = simplify_splat(s, op, y);
	if (x->def && x->def->kind == OP_ADD)
		for (int i = 0; i < 2; i++) {
			Value *u = x->def->in[1 - i];
			if (!def_operand(u, OP_BROADCAST) || !is_uniform(u) || !is_iota(x->def->in[i]))
				continue;
			Value *rest = simplify_emit2(s, op, OP_SUB, scalar, simplify_splat(s, op, u));
			return simplify_emit2(s, op, op->kind, x->def->in[i], spread(s, op, rest));
		}
	if (!is_iota(x) || x->type->elem != TY_I64 || value_const(y))
		return NULL;
	int64_t n = x->type->extent[attr_axis(x->def)];
	if (n >= INT32_MAX)
		return NULL;
	Value *held = simplify_emit2(s, op, OP_MAX, scalar, simplify_int(s, op, scalar->type, -1));
	held = simplify_emit2(s, op, OP_MIN, held, simplify_int(s, op, scalar->type, n));
	held = simplify_emit1(s, op, OP_CAST, held, type_scalar(s->m, TY_I32));
	const Type *narrow = type_with_elem(s->m, x->type, TY_I32);
	Value *index = simplify_emit(s, op, OP_IOTA, NULL, 0, x->def->attr, x->def->nattr, narrow);
	return simplify_emit2(s, op, op->kind, index, spread(s, op, held));
}

Value *
simplify_uniform(Simplify *s, Op *op)
{
	if (op->nin != 2 || op->out->type->rank == 0 || op->in[0]->type->ptr != PTR_NONE)
		return NULL;
	if (op_family(op) == FAMILY_ARITH && op_info[op->kind].cost == COST_ALU)
		return into_select(s, op);
	if ((op->kind != OP_EQ && op->kind != OP_NE) || !dtype_is_int(op->in[0]->type->elem))
		return NULL;
	for (int i = 0; i < 2; i++)
		if (is_uniform(op->in[1 - i]))
			return compare_index(s, op, op->in[i], op->in[1 - i]);
	return NULL;
}
