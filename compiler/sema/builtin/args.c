/* What the functions behind builtins.def share: arguments as values of the kinds they want, with one message for
 * "must be … not …", and the small shape and conversion helpers that emit IR. */
#include "ir/derive.h"
#include "sema/builtin/builtin.h"

bool
call_has(const Call *c, int i)
{
	return c->arg[i].val.kind != VAL_VOID;
}

bool
call_is_const(const Call *c)
{
	for (int i = 0; i < c->nparam; i++) {
		ValKind k = c->arg[i].val.kind;
		if (k == VAL_TILE || k == VAL_TENSOR || k == VAL_FN || k == VAL_PART || k == VAL_TUPLE || k == VAL_LIST)
			return false;
	}
	return c->nrest == 0;
}

Val
call_wrong(Call *c, int i, const char *what)
{
	CallArg *a = &c->arg[i];
	return val_error(c->e, a->place, DIAG_ARG_KIND, c->def->name, a->name, what,
	    val_describe(c->e, &a->val));
}

bool
call_kind_ok(DType t, bool pointer, unsigned kinds)
{
	if (pointer)
		return kinds & IS_POINTER;
	if (dtype_is_packed(t))
		return kinds & IS_PACKED;
	if (t == TY_BOOL)
		return kinds & IS_BOOL;
	return kinds & (dtype_is_float(t) ? IS_FLOAT : IS_INT);
}

static const char *
kinds_text(unsigned kinds)
{
	switch (kinds & ~(unsigned)IS_PACKED) {
	case IS_FLOAT: return "a float or a tile of floats";
	case IS_INT: return "an integer or a tile of integers";
	case IS_BOOL: return "a bool or a tile of bools";
	case IS_NUMBER: return "a number or a tile of numbers";
	case IS_INT | IS_BOOL: return "an integer, a bool or a tile of them";
	case IS_POINTER: return "a pointer or a tile of pointers";
	default: return "a number, a bool or a tile of them";
	}
}

Value *
call_tile(Call *c, int i, unsigned kinds)
{
	Val *a = &c->arg[i].val;
	bool is_value = a->kind == VAL_TILE || val_is_const(a);
	if (is_value && call_kind_ok(val_dtype(c->e, a), a->kind == VAL_TILE && a->v->type->ptr, kinds))
		return val_ir(c->e, a);
	if (is_value && val_is_int(a) && (kinds & IS_FLOAT))
		return val_ir_as(c->e, a, elab_dtype(c->e, TY_F32));
	call_wrong(c, i, kinds_text(kinds));
	if (a->kind == VAL_TILE && !a->v->type->ptr && (dtype_is_packed(a->v->type->elem) || (kinds & IS_ANY) == IS_FLOAT))
		diag_help(c->e->cx, "convert it first, as in `x as f32`");
	else if (a->kind == VAL_TENSOR)
		diag_help(c->e->cx,
		    a->rank ? "read a tile of it first, as in `x[start +: extent]`" : "read it first, as in `x[]`");
	return NULL;
}

bool
call_int(Call *c, int i, int64_t *out)
{
	return val_const_int(c->e, &c->arg[i].val, c->arg[i].name, out);
}

bool
call_bool(Call *c, int i, bool *out)
{
	return val_const_bool(c->e, &c->arg[i].val, c->arg[i].name, out);
}

bool
call_dtype(Call *c, int i, DType *out)
{
	if (val_const_dtype(c->e, &c->arg[i].val, c->arg[i].name, out))
		return true;
	if (c->arg[i].val.kind == VAL_INT && i > 0 && c->arg[i - 1].val.kind == VAL_INT)
		diag_help(c->e->cx, "several extents stand in brackets: %s([%lld, %lld])", c->def->name,
		    (long long)c->arg[i - 1].val.i, (long long)c->arg[i].val.i);
	return false;
}

const char *
call_word(Call *c, int i)
{
	return c->arg[i].val.text;
}

bool
call_shape(Call *c, int i, int *rank, int64_t *extent)
{
	return val_shape(c->e, &c->arg[i].val, rank, extent);
}

bool
call_axis(Call *c, int i, int rank, int *axis)
{
	int64_t a;
	if (!call_int(c, i, &a))
		return false;
	if (rank == 0)
		return diag_error(c->e->cx, c->place, DIAG_AXIS_SCALAR, c->def->name);
	if (a < -rank || a >= rank) {
		diag_error(c->e->cx, c->arg[i].place, DIAG_AXIS_RANGE, c->def->name, (long long)a, rank);
		return rank == 1 ? diag_help(c->e->cx, "the axis is 0, or -1 from the end")
		    : diag_help(c->e->cx, "axes are 0 to %d, or -1 to -%d from the end", rank - 1, rank);
	}
	*axis = (int)(a < 0 ? a + rank : a);
	return true;
}

DType
elab_dtype(Elab *e, DType t)
{
	return e->whole && dtype_is_float(t) ? TY_F64 : t;
}

DType
elab_accumulator(Elab *e, DType t)
{
	if (dtype_is_float(t))
		return elab_dtype(e, dtype_info[t].bits < 32 ? TY_F32 : t);
	return dtype_info[t].bits < 32 ? TY_I32 : t;
}

Value *
ir_convert(Elab *e, Value *v, DType to)
{
	if (v->type->elem == to)
		return v;
	return build1(&e->b, OP_CAST, v, type_with_elem(e->m, v->type, to));
}

Value *
ir_reshape(Elab *e, Value *v, int rank, const int64_t *extent)
{
	const Type *t = type_with_shape(e->m, v->type, rank, extent);
	return t == v->type ? v : build1(&e->b, OP_RESHAPE, v, t);
}

Value *
ir_permute(Elab *e, Value *v, const int *dims)
{
	int64_t d[MAX_RANK];
	if (ALL_OF(i, v->type->rank, dims[i] == i))
		return v;
	for (int i = 0; i < v->type->rank; i++)
		d[i] = dims[i];
	return build_permute(&e->b, v, d);
}

Value *
ir_const_int(Elab *e, DType t, int64_t i)
{
	const Type *type = type_scalar(e->m, t);
	return dtype_is_float(t) ? build_float(&e->b, type, (double)i) : build_int(&e->b, type, i);
}

Value *
ir_counted(Elab *e, DType t, int64_t n)
{
	return build_iota(&e->b, type_tile(e->m, t, 1, &n), 0);
}

int64_t
extents_count(int rank, const int64_t *extent)
{
	int64_t n = 1;
	for (int d = 0; d < rank; d++)
		n *= extent[d];
	return n;
}

bool
val_is_integer(const Val *v)
{
	if (v->kind != VAL_TILE)
		return val_is_int(v);
	return !v->v->type->ptr && dtype_is_int(v->v->type->elem) && !dtype_is_packed(v->v->type->elem);
}
