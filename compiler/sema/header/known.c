/* Constant integers of a reference: the launch's scalars, and arithmetic on them.
 *
 * A reference is elaborated for one launch, whose scalars stand in it as constants of their types, so that arithmetic on
 * them wraps and promotes as in the kernel.  Where an extent is wanted, the constant ops that made a scalar are computed
 * here, by the same functions as anywhere else. */
#include "sema/elab.h"

#include "ir/interp/interp.h"
#include "num/num.h"

enum { DEPTH_MOST = 64 };

static bool
is_plain(const Value *v)
{
	const Type *t = v->type;
	return t->kind == TYPE_TILE && t->rank == 0 && t->ptr == PTR_NONE && !dtype_is_packed(t->elem);
}

/* The element of a scalar that only constants made. */
static bool
compute(const Value *v, int depth, void *out)
{
	_Alignas(16) char element[3][16] = {{0}};
	const void *in[3] = {element[0], element[1], element[2]};
	const Op *op = v->def;
	DType type[3];
	Elem e;
	if (!op || !is_plain(v) || depth > DEPTH_MOST)
		return false;
	if (op->kind == OP_CONST) {
		const Attr *a = attr_value(op);
		if (a->kind == KIND_FLOAT)
			dtype_store_f64(v->type->elem, out, 0, a->f);
		else
			dtype_store_i64(v->type->elem, out, 0, a->i);
		return true;
	}
	if (!(op_info[op->kind].traits & ELEM) || op->kind == OP_LOOKUP || op->nin > 3)
		return false;
	for (int i = 0; i < op->nin; i++) {
		if (!is_plain(op->in[i]) || !compute(op->in[i], depth + 1, element[i]))
			return false;
		type[i] = op->in[i]->type->elem;
	}
	if (!elem_make(&e, CPU_BASE, op->kind, type, op->nin, v->type->elem, attr_propagate_nan(op) ? ELEM_NAN : 0))
		return false;
	elem_run(&e, out, in, 0, 1);
	return true;
}

Val
val_known(Elab *e, const Val *v)
{
	_Alignas(16) char element[16] = {0};
	if (!e->whole || v->kind != VAL_TILE || !is_plain(v->v) || !dtype_is_int(v->v->type->elem) ||
	    !compute(v->v, 0, element))
		return *v;
	return val_int(v->place, dtype_load_i64(v->v->type->elem, element, 0));
}
