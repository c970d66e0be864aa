/* Rules of simplify for memory: fills and masks that are known.  No access is moved or removed but a
 * store, atomic or assert that cannot act. */
#include "pass/shape/simplify.h"

/* The same op with its first n operands. */
static Value *
with_operands(Simplify *s, Op *op, Value *const *in, int n)
{
	return simplify_emit(s, op, op->kind, in, n, op->attr, op->nattr, NULL);
}

/* A fill of zero is what there is without one; a fill of one value is given as a scalar. */
static Value *
rule_read(Simplify *s, Op *op)
{
	int base = 1 + op->in[0]->type->rank;
	Value *fill = op->nin > base ? op->in[base] : NULL;

	if (!fill)
		return NULL;
	if (const_is_zero(fill))
		return with_operands(s, op, op->in, base);
	Value *one = fill->type->rank ? simplify_splat(s, op, fill) : NULL;
	if (!one)
		return NULL;
	op_set_in(op, base, one);
	s->changed = true;
	return NULL;
}

static Value *
rule_load(Simplify *s, Op *op)
{
	const Attr *mask = op->nin > 1 ? value_const(op->in[1]) : NULL;

	if (mask && mask->i)
		return with_operands(s, op, op->in, 1);
	if (mask)
		return op->nin > 2 ? op->in[2] : simplify_int(s, op, op->out[0].type, 0);
	if (op->nin > 2 && const_is_zero(op->in[2]))
		return with_operands(s, op, op->in, 2);
	return NULL;
}

Value *
simplify_access(Simplify *s, Op *op)
{
	switch (op->kind) {
	case OP_READ:
		return rule_read(s, op);
	case OP_LOAD:
		return rule_load(s, op);
	default:
		return NULL;
	}
}

bool
simplify_effect(Simplify *s, Op *op)
{
	const Attr *known = NULL;

	switch (op->kind) {
	case OP_ASSERT:
		known = value_const(op->in[0]);
		if (!known || !known->i)
			return false;
		break;
	case OP_STORE:
		known = op->nin > 2 ? value_const(op->in[2]) : NULL;
		if (!known)
			return false;
		if (known->i)
			with_operands(s, op, op->in, 2);
		s->epoch++;
		break;
	default:
		return false;
	}
	op_erase(op);
	return true;
}
