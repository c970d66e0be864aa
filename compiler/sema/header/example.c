/* The lines of an example: `x = normal(0, 1);` fills parameter x.  A line is any expression over whole tensors; the
 * tensors that lines above it filled are read as tiles, and its value is converted to the parameter's type.
 *
 * A line that computes each element by itself (distributions, constants, elementwise math) becomes loops over chunks
 * of the tensor, so that the memory it takes does not grow with the tensor; a random number depends on the element's
 * index alone, so chunks change nothing. */
#include "sema/builtin/builtin.h"
#include "sema/header.h"
#include "ir/derive.h"

#include <string.h>

enum { CHUNK = 1 << 15 };                               /* elements at a time: 256 KiB of f64 */

/* The line that fills the parameter, and its index among the example's lines; NULL if there is none. */
static const Stmt *
find_line(const Item *example, const char *name, int *index)
{
	for (int i = 0; i < example->body.n; i++) {
		const Stmt *s = example->body.at[i];
		if (s->kind != ST_ASSIGN || s->target->kind != EX_NAME || strcmp(s->target->name, name) != 0)
			continue;
		*index = i;
		return s;
	}
	return NULL;
}

/* A bare `zeros` or `normal` is the call without arguments. */
static const Expr *
as_call(Elab *e, const Expr *x)
{
	if (x->kind != EX_NAME || scope_find(e, x->name) || !builtin_exists(x->name, x->scope))
		return x;
	Expr *call = NEW(e->cx->mem, Expr);
	*call = (Expr){.kind = EX_CALL, .place = x->place, .a = (Expr *)x};
	return call;
}

/* Parameters that a line may name: those filled above it (or, from the command line, those declared before). */
typedef struct Line {
	Kernel *k;
	const Item *example;                            /* NULL: from the command line */
	int index;                                      /* of the line */
	const Expr *e;
	const Bound *b;
	int param;
	uint64_t seed;
} Line;

static bool
is_above(const Line *l, int p)
{
	int index;
	if (!l->example)
		return p < l->param;
	return find_line(l->example, l->k->params.at[p].name, &index) && index < l->index;
}

/* A scalar that an earlier line or the header's binding gave: a constant here. */
static void
bind_scalar(Elab *e, const Line *l, int p)
{
	const KernelParam *k = &l->k->params.at[p];
	const Const *known = &l->b->param[p].scalar;
	Place at = k->ast->name_place;
	int index;
	if (known->kind != CONST_NONE) {
		scope_add(e, k->name, at, val_of_const(at, known), false);
		return;
	}
	const Stmt *s = l->example && is_above(l, p) ? find_line(l->example, k->name, &index) : NULL;
	if (s)
		scope_add(e, k->name, at, elab_expr(e, s->e), false);
}

/* Opens the function: a parameter for each tensor used, then the result; binds the names. */
static bool
open_function(Elab *e, const Line *l, const ExampleNames *names, ExampleInput *out)
{
	Kernel *k = l->k;
	int n = k->params.n;
	FuncParam *param = NEW_ARRAY(e->cx->mem, FuncParam, n + 1);
	const KernelParam *of = k->params.at;
	const Type **type = NEW_ARRAY(e->cx->mem, const Type *, n + 1);
	out->uses = NEW_ARRAY(e->cx->mem, int, n);
	for (int i = 0; i < n && i < LEN(names->used); i++) {
		if (!names->used[i] || k->params.at[i].kind == PARAM_SCALAR)
			continue;
		if (i == l->param || !is_above(l, i))
			return diag_error(e->cx, names->place[i], DIAG_EXAMPLE_LATER, k->params.at[i].name);
		type[out->nuses] = whole_type(e, i, false);
		param[out->nuses] = (FuncParam){.name = of[i].name, .kind = PARAM_TENSOR, .access = ACCESS_IN,
		    .strided = of[i].strided};
		out->uses[out->nuses++] = i;
	}
	type[out->nuses] = whole_type(e, l->param, false);
	of = &k->params.at[l->param];
	param[out->nuses] = (FuncParam){.name = of->name, .kind = PARAM_TENSOR, .access = ACCESS_OUT,
	    .strided = of->strided};
	for (int i = 0; i <= out->nuses; i++)
		for (int d = 0; d < KERNEL_RANK; d++)
			param[i].dim[d] = -1;
	e->func = func_make(e->m, "example", param, type, out->nuses + 1);
	e->func->is_reference = true;
	e->func->place = e->b.place = l->e->place;
	e->b.block = e->func->body;
	return true;
}

/* The whole of a tensor as a tile. */
static Value *
read_all(Elab *e, Value *tensor)
{
	Value *in[1 + MAX_RANK] = {tensor};
	const Type *t = tensor->type;
	char letters[MAX_RANK + 1] = {0};
	for (int d = 0; d < t->rank; d++) {
		letters[d] = 'p';
		in[1 + d] = ir_const_int(e, TY_I64, 0);
	}
	Attr attr[] = {attr_new_index(e->m, letters), attr_new_extents(e->m, t->extent, t->rank)};
	Value *v = op_make(&e->b, OP_READ, in, 1 + t->rank, attr, t->rank ? 2 : 1, NULL, 0)->out;
	return ir_convert(e, v, elab_dtype(e, v->type->elem));
}

static bool
bind_tensors(Elab *e, const Line *l, const ExampleInput *out)
{
	for (int i = 0; i < out->nuses; i++) {
		Value *v = &e->func->body->arg[i];
		const KernelParam *k = &l->k->params.at[out->uses[i]];
		if (ANY_OF(d, v->type->rank, v->type->extent[d] < 0))
			return false;
		scope_add(e, k->name, k->ast->name_place, val_tile(k->ast->name_place, read_all(e, v)), false);
	}
	return true;
}

/* The line's value in the parameter's type, broadcast to `rank` and `extent`; NULL after an error. */
static Value *
converted(Elab *e, const Line *l, const Val *v, int rank, const int64_t *extent)
{
	const char *name = l->k->params.at[l->param].name;
	DType t = l->b->param[l->param].dtype;
	if (v->kind == VAL_TILE && !type_broadcasts(v->v->type, rank, extent)) {
		diag_error(e->cx, l->e->place, DIAG_EXAMPLE_SHAPE, type_shape_text(e, v->v->type), name,
		    shape_text(e, rank, extent));
		return NULL;
	}
	if (t == TY_BOOL && val_is_const(v)) {
		Val b = elab_cast(e, v, TY_BOOL, l->e->place);
		return stored_value(e, name, &b, t, rank, extent, l->e->place);
	}
	return stored_value(e, name, v, t, rank, extent, l->e->place);
}

static void
write_part(Elab *e, Value *tensor, Value *const *start, const char *letters, const int64_t *extents, int n, Value *v)
{
	Value *in[2 + MAX_RANK] = {tensor};
	int rank = tensor->type->rank;
	memcpy(in + 1, start, sizeof *in * (size_t)rank);
	in[1 + rank] = v;
	Attr attr[] = {attr_new_index(e->m, letters), attr_new_extents(e->m, extents, n)};
	op_make(&e->b, OP_WRITE, in, 2 + rank, attr, n ? 2 : 1, NULL, 0);
}

/* A pointer's buffer is as long as its line's value. */
static bool
pointer_type(Elab *e, const Line *l, Value *tensor, const Val *v)
{
	if (v->kind != VAL_TILE || v->v->type->rank == 0)
		return diag_error(e->cx, l->e->place, DIAG_EXAMPLE_POINTER,
		    l->k->params.at[l->param].name, "normal(0, 1, shape = [n])");
	int64_t n = type_count(v->v->type);
	tensor->type = type_tensor(e->m, tensor->type->elem, 1, &n);
	return true;
}

static bool
fill_whole(Elab *e, const Line *l, const ExampleInput *out)
{
	Value *tensor = &e->func->body->arg[out->nuses], *start[MAX_RANK];
	char letters[MAX_RANK + 1] = {0};
	Val v = elab_expr(e, as_call(e, l->e));
	if (v.kind == VAL_LIST && v.n > 0)
		v = val_tile(l->e->place, whole_list(e, &v, l->e->place));
	if (val_is_poison(&v))
		return false;
	if (l->k->params.at[l->param].kind == PARAM_POINTER) {
		if (!pointer_type(e, l, tensor, &v))
			return false;
		v.v = ir_reshape(e, v.v, 1, tensor->type->extent);
	}
	const Type *t = tensor->type;
	Value *x = converted(e, l, &v, t->rank, t->extent);
	if (!x)
		return false;
	for (int d = 0; d < t->rank; d++) {
		letters[d] = 'p';
		start[d] = ir_const_int(e, TY_I64, 0);
	}
	write_part(e, tensor, start, letters, t->extent, t->rank, x);
	return true;
}

/* The index of every element of a chunk that begins at `base`, i64 of the chunk's shape. */
static Value *
chunk_offsets(Elab *e, Value *base, int rank, const int64_t *extent)
{
	Value *i = ir_counted(e, TY_I64, extents_count(rank, extent));
	i = build2(&e->b, OP_ADD, i, build1(&e->b, OP_BROADCAST, base, i->type));
	return ir_reshape(e, i, rank, extent);
}

/* A loop from 0 below `count` by `step`; e->b is left inside it. */
static Value *
open_loop(Elab *e, int64_t count, int64_t step)
{
	Value *in[3] = {ir_const_int(e, TY_I64, 0), ir_const_int(e, TY_I64, count), ir_const_int(e, TY_I64, step)};
	e->b.block = build_for(&e->b, in, NULL, 0, NULL)->region[0];
	return &e->b.block->arg[0];
}

static void
close_loops(Elab *e)
{
	while (e->b.block->parent) {
		Op *loop = e->b.block->parent;
		build_yield(&e->b, NULL, 0);
		e->b.block = loop->home;
	}
}

/* Scalar loops over the dimensions before `split`, a loop by `step` over that one, the rest whole. */
static bool
fill_chunks(Elab *e, const Line *l, const ExampleInput *out, int split, int64_t step)
{
	Value *tensor = &e->func->body->arg[out->nuses], *start[MAX_RANK];
	const Type *t = tensor->type;
	char letters[MAX_RANK + 1] = {0};
	int64_t chunk[MAX_RANK];
	Value *base = ir_const_int(e, TY_I64, 0);
	for (int d = 0; d < t->rank; d++) {
		letters[d] = d < split ? 'i' : 'p';
		if (d >= split)
			chunk[d - split] = d == split ? step : t->extent[d];
		start[d] = d <= split ? open_loop(e, t->extent[d], d < split ? 1 : step) : ir_const_int(e, TY_I64, 0);
		base = build2(&e->b, OP_MUL, base, ir_const_int(e, TY_I64, t->extent[d]));
		base = build2(&e->b, OP_ADD, base, start[d]);
	}
	e->example->implied = type_tile(e->m, TY_F64, t->rank - split, chunk);
	e->example->offset = chunk_offsets(e, base, t->rank - split, chunk);
	Val v = elab_expr(e, as_call(e, l->e));
	Value *x = val_is_poison(&v) ? NULL : converted(e, l, &v, t->rank - split, chunk);
	if (x)
		write_part(e, tensor, start, letters, chunk, t->rank - split, x);
	close_loops(e);
	return x != NULL;
}

static bool
fill(Elab *e, const Line *l, const ExampleInput *out, bool elementwise)
{
	const Type *t = e->func->body->arg[out->nuses].type;
	int split = t->rank - 1;
	int64_t rest = 1;
	while (split > 0 && rest * t->extent[split] <= CHUNK)
		rest *= t->extent[split--];
	bool large = elementwise && t->rank > 0 && l->k->params.at[l->param].kind == PARAM_TENSOR && type_count(t) > CHUNK;
	if (!large)
		return fill_whole(e, l, out);
	int64_t step = MIN(MAX(CHUNK / rest, 1), t->extent[split]);
	return fill_chunks(e, l, out, split, step + (step > 1 && step % 2));
}

/* A scalar's value; the header has checked that it is a number of the right kind. */
static bool
scalar_value(Elab *e, const Line *l, Const *out)
{
	Val v = elab_expr(e, l->e);
	if (val_is_poison(&v) || !const_of_val(&v, out))
		return false;
	if (dtype_is_float(l->b->param[l->param].dtype))
		const_to_float(out);
	return true;
}

/* file("x.npy") as a whole line. */
static bool
is_file(const Expr *x)
{
	return x->kind == EX_CALL && x->a->kind == EX_NAME && strcmp(x->a->name, "file") == 0;
}

static bool
file_path(Compile *cx, const Expr *x, const char **path)
{
	if (x->args.n == 1 && x->args.at[0].e->kind == EX_STRING) {
		*path = x->args.at[0].e->name;
		return true;
	}
	diag_error(cx, x->place, DIAG_ARG_MISSING, "file", "path");
	return diag_help(cx, "write the path in quotes: file(\"x.npy\")");
}

static bool
line_input(const Line *l, ExampleInput *out)
{
	Compile *cx = l->k->program->cx;
	const KernelParam *k = &l->k->params.at[l->param];
	int before = cx->nerrors;
	if (k->kind == PARAM_TENSOR && (k->access == ACCESS_OUT || k->access == ACCESS_SCRATCH))
		return diag_error(cx, l->e->place, DIAG_EXAMPLE_OUT, k->name);
	if (is_file(l->e) && k->kind != PARAM_SCALAR) {
		out->npy_place = l->e->place;
		return file_path(cx, l->e, &out->npy);
	}
	Example example = {.param = l->param};
	ExampleNames names = {.k = l->k, .elementwise = true};
	example_names(l->e, &names);
	Elab *e = elab_open(l->k->program, l->k, l->b, "cpu", true);
	e->seed = l->seed;
	e->example = &example;
	for (int i = 0; i < l->k->params.n; i++)
		if (l->k->params.at[i].kind == PARAM_SCALAR && i != l->param)
			bind_scalar(e, l, i);
	if (k->kind == PARAM_SCALAR)
		return scalar_value(e, l, &out->scalar);
	if (k->kind == PARAM_TENSOR)
		example.implied = type_tile(e->m, TY_F64, l->b->param[l->param].rank, l->b->param[l->param].dim);
	if (!open_function(e, l, &names, out) || !bind_tensors(e, l, out) || !fill(e, l, out, names.elementwise))
		return false;
	out->module = e->m;
	return cx->nerrors == before;
}

bool
example_input(Kernel *k, const ExampleItem *ex, const Bound *b, int param, uint64_t seed, ExampleInput *out)
{
	Line l = {.k = k, .example = ex->item, .b = b, .param = param, .seed = seed};
	*out = (ExampleInput){0};
	const Stmt *s = find_line(ex->item, k->params.at[param].name, &l.index);
	out->absent = s == NULL;
	if (!s)
		return true;
	l.e = s->e;
	return line_input(&l, out);
}

bool
expr_input(Kernel *k, const Expr *e, const Bound *b, int param, uint64_t seed, ExampleInput *out)
{
	Line l = {.k = k, .e = e, .b = b, .param = param, .seed = seed};
	*out = (ExampleInput){0};
	return line_input(&l, out);
}

void
example_pointers(Kernel *k, const ExampleItem *ex, Bound *b)
{
	Compile *cx = k->program->cx;
	for (int i = 0; i < k->params.n; i++) {
		ExampleInput in;
		if (k->params.at[i].kind != PARAM_POINTER)
			continue;
		b->param[i].rank = 1;
		b->param[i].dim[0] = -1;
		cx->muted++;
		bool ok = example_input(k, ex, b, i, 0, &in);
		cx->muted--;
		if (ok && in.module)
			b->param[i].dim[0] = in.module->funcs.at[0]->body->arg[in.nuses].type->extent[0];
	}
}

/* A number as tolerance takes it; false if it is something else. */
static bool
plain_number(const Expr *x, double *out)
{
	if (x->kind == EX_FLOAT)
		*out = x->f;
	else if (x->kind == EX_INT)
		*out = (double)x->u;
	else
		return false;
	return true;
}

bool
example_tolerance(Kernel *k, const ExampleItem *ex, double *abs, double *rel)
{
	for (int i = 0; i < ex->item->body.n; i++) {
		const Stmt *s = ex->item->body.at[i];
		if (s->kind != ST_EXPR || s->e->kind != EX_CALL || s->e->a->kind != EX_NAME ||
		    strcmp(s->e->a->name, "tolerance") != 0)
			continue;
		double v[2];
		bool ok = s->e->args.n == 2;
		for (int j = 0; j < s->e->args.n && ok; j++) {
			const char *name = s->e->args.at[j].name;
			bool is_rel = name ? strcmp(name, "rel") == 0 : j == 1;
			ok = (!name || is_rel || strcmp(name, "abs") == 0) && plain_number(s->e->args.at[j].e, &v[is_rel]);
		}
		if (!ok)
			return diag_error(k->program->cx, s->e->place, DIAG_TOLERANCE_ARGS);
		*abs = v[0];
		*rel = v[1];
		return true;
	}
	return false;
}
