/* Constant integers of a reference: the launch's scalars, and arithmetic on them.
 *
 * A reference is elaborated for one launch, whose scalars stand in it as constants of their types, so that arithmetic on
 * them wraps and promotes as in the kernel.  Where an extent is wanted, the constant ops that made a scalar are computed
 * here, by the same functions as anywhere else. */
#include "sema/elab.h"

#include "num/num.h"

enum { DEPTH_MOST = 64 };

/* The value of a scalar that only constants made. */
static bool
compute(const Value *v, int depth, Attr *out)
{
	const Op *op = v->def;
	Attr in[3];
	if (!op || v->type->rank > 0 || depth > DEPTH_MOST)
		return false;
	if (op->kind == OP_CONST)
		return elem_fold_const(op, out);
	if (!op_has(op, ELEM) || op->kind == OP_LOOKUP || op->nin > LEN(in))
		return false;
	return ALL_OF(i, op->nin, compute(op->in[i], depth + 1, &in[i])) && elem_fold(op, in, out);
}

Val
val_folded(Elab *e, const Val *v)
{
	Attr value;
	if (!e->whole || v->kind != VAL_TILE || !dtype_is_int(v->v->type->elem) || !compute(v->v, 0, &value))
		return *v;
	return val_int(v->place, value.i);
}
