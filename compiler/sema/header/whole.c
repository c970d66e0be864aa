/* References: the same walk as a kernel's body, over whole tensors.  Every extent is known, floats are f64, symbols
 * are integers known at compile time, and there is one program.  A tensor that the kernel writes is f64 in the
 * reference's parameters if it holds floats, so that what it must be is not rounded; a pointer is a tensor of rank 1
 * over its buffer. */
#include "sema/builtin/builtin.h"

const Type *
whole_type(Elab *e, int p, bool written)
{
	const BoundParam *b = &e->bound->param[p];
	const KernelParam *k = &e->kernel->params.at[p];
	if (k->kind == PARAM_SCALAR)
		return type_scalar(e->m, b->dtype);
	DType t = written && dtype_is_float(b->dtype) ? TY_F64 : b->dtype;
	return type_tensor(e->m, t, k->kind == PARAM_POINTER ? 1 : b->rank, b->dim);
}

/* Whether the kernel may write the parameter. */
static bool
is_written(const KernelParam *k)
{
	return k->kind == PARAM_POINTER ? k->ptr == PTR_MUT : k->kind == PARAM_TENSOR && k->access != ACCESS_IN;
}

static Val
whole_tensor(Elab *e, int p, Value *v)
{
	Val t = {.kind = VAL_TENSOR, .place = e->kernel->params.at[p].ast->name_place, .param = p, .v = v};
	t.rank = v->type->rank;
	for (int i = 0; i < t.rank; i++)
		t.perm[i] = i;
	return t;
}

static FuncParam
reference_param(const KernelParam *k)
{
	FuncParam f = {.name = k->name, .kind = k->kind == PARAM_SCALAR ? PARAM_SCALAR : PARAM_TENSOR};
	f.access = k->kind == PARAM_POINTER ? (k->ptr == PTR_MUT ? ACCESS_INOUT : ACCESS_IN) : k->access;
	f.strided = k->strided;
	for (int d = 0; d < KERNEL_RANK; d++)
		f.dim[d] = -1;
	return f;
}

static void
open_function(Elab *e, const Kernel *k)
{
	int n = k->params.n;
	FuncParam *param = NEW_ARRAY(e->cx->mem, FuncParam, n);
	const Type **type = NEW_ARRAY(e->cx->mem, const Type *, n);
	for (int i = 0; i < n; i++) {
		param[i] = reference_param(&k->params.at[i]);
		type[i] = whole_type(e, i, is_written(&k->params.at[i]));
	}
	e->func = func_make(e->m, k->name, param, type, n);
	e->func->place = k->reference->place;
	e->func->is_reference = true;
	e->b.block = e->func->body;
	e->b.place = k->reference->place;
	for (int i = 0; i < n; i++) {
		Value *v = &e->func->body->arg[i];
		Place at = k->params.at[i].ast->name_place;
		const Const *known = &e->bound->param[i].scalar;
		Val val;
		if (v->type->kind == TYPE_TENSOR)
			val = whole_tensor(e, i, v);
		else if (known->kind == CONST_INT && dtype_is_int(v->type->elem))
			val = val_tile(at, build_int(&e->b, v->type, known->i));
		else
			val = val_tile(at, ir_convert(e, v, elab_dtype(e, v->type->elem)));
		scope_add(e, k->params.at[i].name, at, val, false);
	}
}

static bool
writes(const Block *b, const Value *tensor)
{
	return ANY_OP(op, b, (op_info[op->kind].traits & WRITES) && op->nin > 0 && op->in[0] == tensor);
}

static void
check_outputs(Elab *e, const Bound *b)
{
	const Kernel *k = e->kernel;
	for (int i = 0; i < k->params.n && !e->program->partial; i++) {
		const KernelParam *p = &k->params.at[i];
		bool is_empty = ANY_OF(d, b->param[i].rank, b->param[i].dim[d] == 0);
		if (p->kind != PARAM_TENSOR || p->access != ACCESS_OUT || is_empty ||
		    writes(e->func->body, &e->func->body->arg[i]))
			continue;
		diag_error(e->cx, k->reference->name_place, DIAG_REF_UNWRITTEN, k->name, p->name);
		diag_note(e->cx, p->ast->name_place, "'%s' is declared `out` here", p->name);
	}
}

Module *
reference_module(Kernel *k, const Bound *b)
{
	Compile *cx = k->program->cx;
	int before = cx->nerrors;
	if (!k->reference)
		return NULL;
	Elab *e = elab_open(k->program, k, b, "cpu", true);
	open_function(e, k);
	elab_stmts(e, &k->reference->body);
	if (cx->nerrors == before)
		check_outputs(e, b);
	return cx->nerrors == before ? e->m : NULL;
}

Value *
whole_list(Elab *e, const Val *v, Place at)
{
	List l;
	if (!list_open(e, v, at, &l))
		return NULL;
	ValKind kind = list_weak(&l, at).kind;
	return list_tile(e, &l, kind == VAL_FLOAT ? TY_F64 : kind == VAL_BIG ? TY_U64 : TY_I64);
}
