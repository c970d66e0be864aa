/* Rules of simplify by what is known of elements.  In tiles where an operand has the same everywhere, what such make of one
 * another is computed once, and not for each element.  Every bit of every result stays.
 *
 *     (select %c, (broadcast %a), (broadcast %b)) + (broadcast %k)
 *                                             is select %c, (broadcast %a + %k), (broadcast %b + %k)
 *     iota + (broadcast %u) == (broadcast %s)                         is iota == (broadcast %s - %u), since integers wrap
 *     iota : i64[n] == (broadcast %s)                                 is iota : i32[n] == (broadcast %s held to -1 .. n) */
#include "ir/derive.h"
#include "pass/shape/simplify.h"

#include <math.h>

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
	return VALUE_OF(i, 2, is_uniform(op->in[1 - i]), compare_index(s, op, op->in[i], op->in[1 - i]), NULL);
}

/* ---- integers of few bits ---- */

enum { DEPTH = 6 };                                     /* ops from a cast to what it takes */

/* Does a table give it, or some of it?  Pass table makes one of floats then. */
static bool
is_looked_up(const Value *v, int depth)
{
	const Op *op = v->def;

	if (!op || depth == 0)
		return false;
	if (op->kind != OP_RESHAPE && op->kind != OP_BROADCAST && op->kind != OP_PERMUTE && op->kind != OP_JOIN)
		return op->kind == OP_LOOKUP;
	return ANY_OF(i, op->nin, is_looked_up(op->in[i], depth - 1));
}

/* Integers that a byte holds become floats as bytes do, which takes no conversion (lower/math/cast.c). */
Value *
simplify_small(Simplify *s, Op *op, Value *x)
{
	const Type *to = op->out[0].type;
	int64_t least, most;

	if (to->rank == 0 || !dtype_is_float(to->elem) || !dtype_is_int(x->type->elem) ||
	    dtype_info[x->type->elem].bits <= 16 ||
	    is_looked_up(x, DEPTH) || !value_range(x, &least, &most))
		return NULL;
	if (least < 0 ? least < INT8_MIN || most > INT8_MAX : most > UINT8_MAX)
		return NULL;
	const Type *byte = type_with_elem(s->m, x->type, least < 0 ? TY_I8 : TY_U8);
	return simplify_emit1(s, op, OP_CAST, simplify_emit1(s, op, OP_CAST, x, byte), to);
}

/* x less what is added to it, a whole number. */
static Value *
strip_whole(Value *x, int64_t *sum)
{
	for (const Op *op = x->def; op && (op->kind == OP_ADD || op->kind == OP_SUB); op = x->def) {
		const Attr *c = value_const(op->in[1]);
		if (!c || c->kind != KIND_FLOAT || !(fabs(c->f) <= 1024) || c->f != trunc(c->f))
			break;
		*sum += (int64_t)(op->kind == OP_ADD ? c->f : -c->f);
		x = op->in[0];
	}
	return x;
}

/* A power of two by its bits, as exponents of blocks (e8m0) are less 127: the sum goes where an exponent stands, and 0 of
 * those is the subnormal 2^-127.
 *
 *     exp2 (sub (cast %e : f32), 127), %e of u8    =>    bitcast (max (shl (cast %e : i32), 23), 0x400000) : f32 */
Value *
simplify_power(Simplify *s, Op *op, Value *x)
{
	enum { BIAS = 127, BITS = 23, INFINITE = 255 };
	const Type *to = op->out[0].type;
	int64_t sum = BIAS;
	int64_t least, most;

	if (to->elem != TY_F32)
		return NULL;
	Value *i = def_operand(strip_whole(x, &sum), OP_CAST);
	if (!i || !dtype_is_int(i->type->elem) || !value_range(i, &least, &most) || least + sum < 0 ||
	    most + sum > INFINITE)
		return NULL;
	const Type *bits = type_with_elem(s->m, to, TY_I32);
	if (i->type != bits)
		i = simplify_emit1(s, op, OP_CAST, i, bits);
	if (sum != 0)
		i = simplify_emit2(s, op, OP_ADD, i, simplify_int(s, op, bits, sum));
	i = simplify_emit2(s, op, OP_SHL, i, simplify_int(s, op, bits, BITS));
	if (least + sum == 0)
		i = simplify_emit2(s, op, OP_MAX, i, simplify_int(s, op, bits, INT64_C(1) << (BITS - 1)));
	return simplify_emit1(s, op, OP_BITCAST, i, to);
}
