/* The program family: the grid, assertions, printing and inline PTX; and x.shape(d), x.stride(d). */
#include "sema/builtin/builtin.h"

#include <string.h>

Val
misc_program(Call *c)
{
	Elab *e = c->e;
	int64_t axis;
	if (!call_int(c, 0, &axis))
		return val_poison(c->place);
	if (axis < 0 || axis >= MAX_AXES)
		return call_wrong(c, 0, "a grid axis: 0, 1 or 2");
	if (axis >= e->func->naxis)
		return val_tile(c->place, ir_const_int(e, TY_I64, c->def->op == OP_NUM_PROGRAMS));
	Attr a = attr_new_axis(e->m, axis);
	return val_tile(c->place, op_make(&e->b, (OpKind)c->def->op, NULL, 0, &a, 1, NULL, 0)->out);
}

/* The rest arguments as IR values from in[n] on; the count, or -1 after an error. */
static int
rest_values(Call *c, Value **in, int n)
{
	Elab *e = c->e;
	for (int i = 0; i < c->nrest; i++) {
		Val *v = &c->rest[i].val;
		if (v->kind != VAL_TILE && !val_is_const(v)) {
			diag_error(e->cx, c->rest[i].place, DIAG_ARG_KIND, c->def->name,
			    arena_printf(e->cx->mem, "value %d", i + 1), "a number or a tile", val_describe(e, v));
			return -1;
		}
		in[n] = val_ir(e, v);
		if (!in[n++])
			return -1;
	}
	return n;
}

static const char *
text_of(Call *c, int i)
{
	if (!call_has(c, i))
		return "";
	if (c->arg[i].val.kind == VAL_TEXT)
		return c->arg[i].val.text;
	call_wrong(c, i, "text in quotes");
	return NULL;
}

Val
misc_assert(Call *c)
{
	Elab *e = c->e;
	const char *text = text_of(c, 1);
	Value **in = NEW_ARRAY(e->cx->mem, Value *, 1 + c->nrest);
	in[0] = text ? call_tile(c, 0, IS_BOOL | IS_INT) : NULL;
	if (!in[0])
		return val_poison(c->place);
	if (in[0]->type->elem != TY_BOOL)
		in[0] = build2(&e->b, OP_NE, in[0], build_int(&e->b, in[0]->type, 0));
	int n = rest_values(c, in, 1);
	if (n < 0)
		return val_poison(c->place);
	Attr a = attr_new_text(e->m, text);
	if (c->arg[0].val.kind != VAL_BOOL || !c->arg[0].val.i)
		op_make(&e->b, OP_ASSERT, in, n, &a, 1, NULL, 0);
	return (Val){.kind = VAL_VOID};
}

Val
misc_static_assert(Call *c)
{
	bool holds;
	const char *text = text_of(c, 1);
	if (!text || !call_bool(c, 0, &holds))
		return val_poison(c->place);
	if (!holds)
		diag_error(c->e->cx, c->arg[0].place, DIAG_STATIC_ASSERT, *text ? ": " : "", text);
	return (Val){.kind = VAL_VOID};
}

Val
misc_print(Call *c)
{
	Elab *e = c->e;
	const char *text = text_of(c, 0);
	Value **in = NEW_ARRAY(e->cx->mem, Value *, c->nrest);
	int n = text ? rest_values(c, in, 0) : -1;
	if (n < 0)
		return val_poison(c->place);
	Attr a = attr_new_text(e->m, text);
	op_make(&e->b, OP_PRINT, in, n, &a, 1, NULL, 0);
	return (Val){.kind = VAL_VOID};
}

/* The dtypes of inline_ptx's results: none, one or a list; -1 after an error. */
static int
ptx_results(Call *c, DType *out, int max)
{
	const Val *v = &c->arg[1].val;
	bool several = v->kind == VAL_LIST || v->kind == VAL_TUPLE;
	int n = several ? v->n : call_has(c, 1);
	for (int i = 0; i < n; i++) {
		const Val *item = several ? &v->items[i] : v;
		if (item->kind != VAL_DTYPE || n > max) {
			diag_error(c->e->cx, c->arg[1].place, DIAG_PTX_OUT, val_describe(c->e, item));
			return -1;
		}
		out[i] = item->dtype;
	}
	return n;
}

Val
misc_inline_ptx(Call *c)
{
	enum { MAX_RESULTS = 16 };
	Elab *e = c->e;
	DType dtype[MAX_RESULTS];
	const Type *want[MAX_RESULTS];
	Val out[MAX_RESULTS];
	const char *text = text_of(c, 0);
	int nout = text ? ptx_results(c, dtype, MAX_RESULTS) : -1;
	if (strcmp(e->target, "ptx") != 0) {
		diag_error(e->cx, c->place, DIAG_PTX_GUARD);
		diag_help(e->cx, "what stands in the else runs on every other device");
		return val_poison(c->place);
	}
	Value **in = NEW_ARRAY(e->cx->mem, Value *, c->nrest);
	int n = nout < 0 ? -1 : rest_values(c, in, 0);
	if (n < 0)
		return val_poison(c->place);
	const Type *shape = type_scalar(e->m, TY_I32);
	for (int i = 0; i < n; i++)
		if (in[i]->type->rank > shape->rank)
			shape = in[i]->type;
	for (int i = 0; i < n; i++) {
		in[i] = ir_broadcast(e, in[i], shape->rank, shape->extent, c->rest[i].place);
		if (!in[i])
			return val_poison(c->place);
	}
	for (int i = 0; i < nout; i++)
		want[i] = type_with_elem(e->m, shape, dtype[i]);
	Attr a = attr_new_text(e->m, text);
	Op *op = op_make(&e->b, OP_INLINE_PTX, in, n, &a, 1, want, nout);
	for (int i = 0; i < nout; i++)
		out[i] = val_tile(c->place, &op->out[i]);
	if (nout == 0)
		return (Val){.kind = VAL_VOID};
	return nout == 1 ? out[0] : val_tuple(e, c->place, out, nout);
}

/* Dimension d of a tensor, as a constant, the symbol that names it, or a question to the tensor. */
static Val
tensor_shape(Elab *e, const Val *t, int d, Place at)
{
	int dim = t->perm[d];
	Value *tensor = tensor_value(e, t);
	int64_t extent = tensor->type->extent[dim];
	if (extent >= 0)
		return val_int(at, extent);
	if (tensor->index < e->func->nparam && e->func->param[tensor->index].dim[dim] >= 0)
		return val_tile(at, &e->func->body->arg[e->func->param[tensor->index].dim[dim]]);
	Attr a = attr_new_axis(e->m, dim);
	return val_tile(at, op_make(&e->b, OP_DIM, (Value *[]){tensor}, 1, &a, 1, NULL, 0)->out);
}

/* The one argument of x.shape(d), from 0 or from the end. */
static bool
method_axis(Elab *e, const Expr *x, int rank, int *axis)
{
	const char *name = x->a->name;
	int64_t d;
	if (x->args.n > 1)
		diag_error(e->cx, x->place, DIAG_ARG_TOO_MANY, name, 1, x->args.n);
	else if (x->args.n == 0)
		diag_error(e->cx, x->place, DIAG_ARG_MISSING, name, "d");
	if (x->args.n != 1)
		return false;
	Val v = elab_expr(e, x->args.at[0].e);
	if (val_is_poison(&v) || !val_const_int(e, &v, "the dimension", &d))
		return false;
	if (d < -rank || d >= rank)
		return diag_error(e->cx, x->args.at[0].e->place, DIAG_AXIS_RANGE, name, (long long)d, rank);
	*axis = (int)(d < 0 ? d + rank : d);
	return true;
}

int
header_tensor(const Elab *e, const char *name)
{
	for (int i = 0; e->kernel && !e->func && i < e->kernel->params.n; i++)
		if (e->kernel->params.at[i].name == name && e->kernel->params.at[i].kind == PARAM_TENSOR)
			return i;
	return -1;
}

/* x.shape(d) in a header: the extent that was bound. */
static Val
header_shape(Elab *e, const Expr *x, int param)
{
	int d;
	if (!method_axis(e, x, e->header->param[param].rank, &d))
		return val_poison(x->place);
	return val_int(x->place, e->header->param[param].dim[d]);
}

/* The dimensions that all lists within v have: those of [[1, 2], [3, 4]] are 2 and 2, of [[1, 2], [3]] 2. */
static int
list_extents(const Val *v, int64_t extent[MAX_RANK], int room)
{
	int rank = v->kind == VAL_LIST && room > 0, common = room;
	if (rank)
		extent[0] = v->n;
	for (int i = 0; rank && i < v->n; i++) {
		int64_t inner[MAX_RANK];
		int n = MIN(list_extents(&v->items[i], inner, room - 1), common - 1), same = 0;
		while (same < n && (i == 0 || inner[same] == extent[1 + same]))
			same++;
		memcpy(&extent[1], inner, sizeof *inner * (size_t)same);
		common = 1 + same;
	}
	return rank && v->n ? common : rank;
}

static Val
list_shape(Elab *e, const Expr *x, const Val *list)
{
	int64_t extent[MAX_RANK];
	int d;
	if (!method_axis(e, x, list_extents(list, extent, MAX_RANK), &d))
		return val_poison(x->place);
	return val_int(x->place, extent[d]);
}

Val
elab_method(Elab *e, const Expr *x)
{
	const Expr *member = x->a;
	int param = e->header && member->a->kind == EX_NAME ? header_tensor(e, member->a->name) : -1;
	if (param >= 0 && strcmp(member->name, "shape") == 0)
		return header_shape(e, x, param);
	Val base = elab_expr(e, member->a);
	if (val_is_poison(&base))
		return base;
	bool shape = strcmp(member->name, "shape") == 0, stride = strcmp(member->name, "stride") == 0;
	if (base.kind == VAL_LIST && shape)
		return list_shape(e, x, &base);
	bool tensor = base.kind == VAL_TENSOR, tile = base.kind == VAL_TILE && base.v->type->rank > 0;
	if (!(shape && (tensor || tile)) && !(stride && tensor)) {
		diag_error(e->cx, member->place, DIAG_MEMBER_UNKNOWN, val_describe(e, &base), member->name);
		const char *hint = name_hint(member->name);
		if (builtin_exists(member->name, NULL))
			diag_help(e->cx, "operations are called with the tile: %s(x)", member->name);
		else if (hint)
			diag_help(e->cx, "%s", hint);
		else
			diag_help(e->cx, "there are x.shape(d), x.stride(d) of tensors, x.T and x.dtype");
		return val_poison(x->place);
	}
	int d;
	if (!method_axis(e, x, tensor ? base.rank : base.v->type->rank, &d))
		return val_poison(x->place);
	if (tile)
		return val_int(x->place, base.v->type->extent[d]);
	if (shape)
		return tensor_shape(e, &base, d, x->place);
	Attr a = attr_new_axis(e->m, base.perm[d]);
	return val_tile(x->place, op_make(&e->b, OP_STRIDE, (Value *[]){tensor_value(e, &base)}, 1, &a, 1, NULL, 0)->out);
}
