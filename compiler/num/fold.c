/* The one folder of scalars: an elementwise op on constants, by the loops of the interpreter, so that what folds is what
 * runs, to the bit.  Simplify, references and the count of sectors fold by it; each decides which ops may fold. */
#include "num/num.h"

static bool
is_plain(const Type *t)
{
	return t->kind == TYPE_TILE && t->ptr == PTR_NONE && !dtype_is_packed(t->elem);
}

static void
put(DType t, const Attr *a, void *element)
{
	if (a->kind == KIND_FLOAT)
		dtype_store_f64(t, element, 0, a->f);
	else
		dtype_store_i64(t, element, 0, a->i);
}

static Attr
get(DType t, const void *element)
{
	if (dtype_is_float(t))
		return attr_float_value(dtype_load_f64(t, element, 0));
	if (t == TY_BOOL)
		return attr_bool_value(dtype_load_i64(t, element, 0) != 0);
	return attr_int_value(dtype_load_i64(t, element, 0));
}

bool
elem_fold(const Op *op, const Attr *in, Attr *out)
{
	_Alignas(16) char element[3][16] = {{0}}, result[16] = {0};
	const void *operand[3] = {element[0], element[1], element[2]};
	const IntList *bits = attr_bits(op);
	DType type[3], to = op->out[0].type->elem;
	Elem e;

	if (op->nin > LEN(type) || op->nout != 1 || !is_plain(op->out[0].type))
		return false;
	for (int i = 0; i < op->nin; i++) {
		if (!is_plain(op->in[i]->type))
			return false;
		type[i] = op->in[i]->type->elem;
		put(type[i], &in[i], element[i]);
	}
	if (bits)
		elem_make_lookup(&e, type[0], to, bits->at, bits->n);
	else if (!elem_make(&e, CPU_BASE, op->kind, type, op->nin, to, attr_propagate_nan(op) ? ELEM_NAN : 0))
		return false;
	elem_run(&e, result, operand, 0, 1);
	*out = get(to, result);
	return true;
}

bool
elem_fold_const(const Op *op, Attr *out)
{
	_Alignas(16) char element[16] = {0};
	const Type *t = op->out[0].type;

	if (!is_plain(t))
		return false;
	put(t->elem, attr_value(op), element);
	*out = get(t->elem, element);
	return true;
}
