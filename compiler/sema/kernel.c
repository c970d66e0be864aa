/* A kernel's body as one function of tile IR, for one set of compile-time values.
 *
 * Parameters come in the order of the source, then one i64 for each shape symbol.  A dimension that is known at
 * compile time is part of the tensor's type; the others are `?`, tied to their symbol where they have one.  The
 * grid's indices are `program_id` ops at the top. */
#include "sema/header.h"

static int
symbol_of(const Kernel *k, const KernelParam *p, int d, const BoundParam *b)
{
	const Expr *dim = p->ast->type->dims.at[d];

	if (b->dim_const[d] || dim->kind != EX_NAME)
		return -1;
	int s = symbol_named(k, dim->name);
	return s < 0 ? -1 : k->params.n + s;
}

static const Type *
param_type(Elab *e, const KernelParam *p, const BoundParam *b)
{
	int64_t extent[KERNEL_RANK];

	if (p->kind == PARAM_SCALAR)
		return type_scalar(e->m, b->dtype);
	if (p->kind == PARAM_POINTER)
		return type_ptr(e->m, b->dtype, p->ptr == PTR_MUT, 0, NULL);
	for (int d = 0; d < b->rank; d++)
		extent[d] = b->dim_const[d] ? b->dim[d] : -1;
	return type_tensor(e->m, b->dtype, b->rank, extent);
}

static void
make_func(Elab *e)
{
	const Kernel *k = e->kernel;
	int n = k->params.n + k->symbols.n;
	FuncParam *param = NEW_ARRAY(e->cx->mem, FuncParam, n);
	const Type **type = NEW_ARRAY(e->cx->mem, const Type *, n);

	for (int i = 0; i < k->params.n; i++) {
		const KernelParam *p = &k->params.at[i];
		const BoundParam *b = &e->bound->param[i];
		param[i] = (FuncParam){.name = p->name, .kind = p->kind, .access = p->access, .is_constant = p->fixed,
		    .strided = p->strided};
		for (int d = 0; d < KERNEL_RANK; d++)
			param[i].dim[d] = p->kind == PARAM_TENSOR && d < p->rank ? symbol_of(k, p, d, b) : -1;
		type[i] = param_type(e, p, b);
	}
	for (int i = 0; i < k->symbols.n; i++) {
		param[k->params.n + i] = (FuncParam){.name = k->symbols.at[i], .kind = PARAM_DIM};
		type[k->params.n + i] = type_scalar(e->m, TY_I64);
	}
	e->func = func_make(e->m, k->name, param, type, n);
	e->func->place = k->item->place;
	e->b.block = e->func->body;
}

static void
bind_params(Elab *e)
{
	const Kernel *k = e->kernel;
	Value *arg = e->func->body->arg;

	for (int i = 0; i < k->params.n; i++) {
		const KernelParam *p = &k->params.at[i];
		Val v = {.kind = VAL_TILE, .place = p->ast->name_place, .v = &arg[i]};
		if (p->kind == PARAM_TENSOR) {
			v = (Val){.kind = VAL_TENSOR, .place = p->ast->name_place, .param = i, .rank = p->rank};
			for (int d = 0; d < p->rank; d++)
				v.perm[d] = d;
		}
		scope_add(e, p->name, p->ast->name_place, v, false)->what =
		    p->kind == PARAM_TENSOR ? "a tensor" : "a parameter";
	}
	for (int i = 0; i < k->symbols.n; i++)
		scope_add(e, k->symbols.at[i], k->item->name_place,
		    val_tile(k->item->name_place, &arg[k->params.n + i]), false)->what = "a dimension";
}

static void
bind_axes(Elab *e)
{
	const Item *it = e->kernel->item;

	e->func->naxis = it->grid.n;
	for (int i = 0; i < it->grid.n; i++) {
		const Axis *a = &it->grid.at[i];
		Attr axis = attr_new_axis(e->m, i);
		e->func->axis[i] = a->name;
		e->b.place = a->name_place;
		Value *v = &op_make(&e->b, OP_PROGRAM_ID, NULL, 0, &axis, 1, NULL, 0)->out[0];
		v->name = a->name;
		scope_add(e, a->name, a->name_place, val_tile(a->name_place, v), false)->what = "a grid index";
	}
}

Module *
kernel_module(Kernel *k, const Bound *b, const char *target)
{
	Compile *cx = k->program->cx;
	const int *count = cx->muted ? &cx->nmuted : &cx->nerrors;
	int errors = *count;

	if (k->broken)
		return NULL;
	Elab *e = elab_open(k->program, k, b, target, false);
	make_func(e);
	bind_params(e);
	bind_axes(e);
	elab_stmts(e, &k->item->body);
	trace_end(e);
	return *count == errors ? e->m : NULL;
}
