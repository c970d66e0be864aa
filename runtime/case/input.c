/* Where a case's arguments come from: the caller first, then the example's lines.
 *
 * The right side of a line is a function of the tile IR over whole tensors, run on this machine as
 * one program; it may use tensors of earlier lines, which are made first. */
#include <stdlib.h>
#include <string.h>

#include "runtime/tune/tune.h"

static bool
is_tensor(const KernelParam *p)
{
	return p->kind != PARAM_SCALAR && !(p->kind == PARAM_TENSOR && p->access == ACCESS_SCRATCH);
}

TglArg
case_arg(const char *name, const Const *v)
{
	switch (v->kind) {
	case CONST_FLOAT: return tgl_arg_float(name, v->f);
	case CONST_BOOL: return tgl_arg_bool(name, v->i != 0);
	case CONST_DTYPE: return tgl_arg_dtype(name, (TglDType)v->dtype);
	case CONST_BIG: return tgl_arg_uint(name, (uint64_t)v->i);
	default: return tgl_arg_int(name, v->i);
	}
}

static void
free_images(Image *image, int n)
{
	for (int i = 0; i < n; i++)
		free(image[i].memory);
}

/* Copies between host and device failed. */
static bool
fetched(TglCase *c, Image *image, int n)
{
	free_images(image, n);
	device_report(c->dev, c->k->program->compile, NULL, c->k->k);
	return false;
}

/* Runs a whole-tensor function on the host; its parameters are `uses`, then the result. */
static bool
evaluate(TglCase *c, const ExampleInput *in, TglTensor *result)
{
	Compile *cx = c->k->program->compile;
	Func *f = in->module->funcs.at[0];
	PlanOptions opt = {0};
	const char *why = "";
	PlanArg *args = func_args(c->b.mem, f, c->k->k, &c->b.bound, c->b.tensor, c->b.info);
	Image *image = NEW_ARRAY(c->b.mem, Image, in->nuses + 1);
	for (int i = 0; i <= in->nuses; i++) {
		const TglTensor *t = i < in->nuses ? c->b.tensor[in->uses[i]] : result;
		args[i] = tensor_arg(t);
		if (c->dev->dev.host)
			continue;
		if (i < in->nuses ? !tensor_image(t, &image[i]) : !image_room(t, &image[i]))
			return fetched(c, image, i + 1);
		image_arg(&image[i], &args[i]);
	}
	Plan *plan = plan_open(f, &opt, &why);
	if (!plan) {
		diag_error(cx, f->place, DIAG_DEVICE_LOAD, c->k->k->name, "cpu", why);
		free_images(image, in->nuses + 1);
		return false;
	}
	Fault fault = {.place = NOWHERE, .other = NOWHERE};
	const int64_t one[MAX_AXES] = {1, 1, 1};
	bool ok = whole_run(plan, args, one, &fault);
	if (!ok)
		fault_report(cx, &fault, c->k->k);
	plan_close(plan);
	if (ok && !c->dev->dev.host)
		ok = image_back(&image[in->nuses], result) || fetched(c, image, 0);
	free_images(image, in->nuses + 1);
	return ok;
}

bool
whole_run(const Plan *plan, const PlanArg *args, const int64_t grid[MAX_AXES], Fault *fault)
{
	uint64_t all = device_host_memory();
	size_t need = plan_scratch_bytes(plan);
	Worker *w = all && need > all ? NULL : worker_open(plan);
	if (!w) {
		fault->kind = FAULT_MEMORY;
		snprintf(fault->text, sizeof fault->text,
		    "no memory for whole tensors: they take %zu bytes, and this machine has %llu",
		    need, (unsigned long long)all);
		return false;
	}
	bool ok = plan_run(plan, w, NULL, args, grid, 0, 1, fault);
	worker_close(w);
	return ok;
}

/* A pointer's buffer is as long as the value of its line. */
static TglTensor *
new_tensor(TglCase *c, int i, const ExampleInput *in)
{
	BoundParam *p = &c->b.bound.param[i];
	if (c->k->k->params.at[i].kind == PARAM_POINTER && in->module) {
		p->rank = 1;
		p->dim[0] = in->module->funcs.at[0]->body->arg[in->nuses].type->extent[0];
	}
	Compile *cx = c->k->program->compile;
	TglTensor *t = tensor_open(c->dev, cx, (TglDType)p->dtype, p->rank, p->dim,
	    p->is_spread ? p->stride : NULL);
	const KernelParam *k = &c->k->k->params.at[i];
	if (!t)
		diag_note(cx, k->ast->place, "it is argument '%s'", k->name);
	return t;
}

/* The path as it is, or from the folder of the file that holds the example. */
static char *
path_beside(const Compile *cx, const Item *item, const char *path)
{
	const char *base = cx->files.at[item->place.file].path;
	const char *slash = strrchr(base, '/');
	Text t = {0};
	if (path[0] != '/' && slash)
		text_putn(&t, base, (size_t)(slash - base) + 1);
	text_put(&t, path);
	return t.at;
}

/* A file of packed elements has bytes: whether the last one of a row has two elements or one, the sizes say. */
static void
odd_row(TglTensor *t, int64_t width)
{
	if (t->of_bytes && width > 0 && width % 2 && width == t->dim[t->rank - 1] - 1)
		t->dim[t->rank - 1]--;
}

/* A copy of a file's tensor, which is row-major, with the strides that its parameter was given, if it was. */
static bool
spread_file(TglCase *c, int i)
{
	TglTensor *from = c->b.tensor[i];
	if (!c->b.bound.param[i].is_spread || !tensor_is_contiguous(from))
		return true;
	size_t bytes = tgl_tensor_bytes(from);
	void *host = malloc(bytes ? bytes : 1);
	const BoundParam *p = &c->b.bound.param[i];
	c->b.tensor[i] = host ? tensor_open(c->dev, c->k->program->compile, from->dtype, from->rank, from->dim, p->stride)
			      : NULL;
	bool ok = c->b.tensor[i] && tensor_copy_out(from, host) && tensor_copy_in(c->b.tensor[i], host);
	free(host);
	tensor_unref(from);
	return ok;
}

static bool
load_file(TglCase *c, int i, const ExampleInput *in)
{
	Compile *cx = c->k->program->compile;
	char *path = path_beside(cx, c->example ? c->example->item : c->k->k->item, in->npy);
	c->b.tensor[i] = npy_open(c->dev, cx, path, (int)c->b.bound.param[i].dtype);
	free(path);
	if (!c->b.tensor[i])
		return diag_note(cx, in->npy_place, "it is the input '%s'", c->k->k->params.at[i].name);
	const BoundParam *p = &c->b.bound.param[i];
	if (p->rank > 0 && p->rank == c->b.tensor[i]->rank)
		odd_row(c->b.tensor[i], p->dim[p->rank - 1]);
	if (!binding_fits(c->k, &c->b, i, c->b.tensor[i]) || !spread_file(c, i))
		return false;
	if (c->k->k->params.at[i].kind == PARAM_POINTER) {
		c->b.bound.param[i].rank = 1;
		c->b.bound.param[i].dim[0] = tgl_tensor_count(c->b.tensor[i]);
	}
	return true;
}

bool
case_missing(TglCase *c, int i)
{
	Compile *cx = c->k->program->compile;
	const KernelParam *p = &c->k->k->params.at[i];
	diag_error(cx, p->ast->place, DIAG_CASE_MISSING, p->name, c->k->k->name);
	if (c->example)
		diag_note(cx, c->example->item->name_place, "this example does not mention it");
	return diag_help(cx, "give it, as in `--arg %s=...`, or add `%s = ...;` to an example",
	    p->name, p->name);
}

static bool
parse_argument(TglCase *c, int i, Expr **out)
{
	Compile *cx = c->k->program->compile;
	const char *text = c->b.arg[i]->text ? c->b.arg[i]->text : "";
	char *name = arena_printf(cx->mem, "<argument %s>", c->k->k->params.at[i].name);
	int file = source_text(cx, name, text, strlen(text));
	*out = file < 0 ? NULL : ast_parse_expr(cx, file);
	return *out;
}

/* What the caller's text or the example's line says for parameter i. */
static bool
input_of(TglCase *c, int i, ExampleInput *in)
{
	Compile *cx = c->k->program->compile;
	Arena *keep = cx->mem;
	*in = (ExampleInput){.absent = true};
	if (c->b.arg[i] && c->b.arg[i]->kind == TGL_ARG_TEXT) {
		Expr *e;
		in->absent = false;
		if (!parse_argument(c, i, &e))
			return false;
		compile_into(cx, c->b.mem);
		bool ok = expr_input(c->k->k, e, &c->b.bound, i, c->seed, in);
		compile_into(cx, keep);
		return ok;
	}
	if (!c->example)
		return true;
	compile_into(cx, c->b.mem);
	bool ok = example_input(c->k->k, c->example, &c->b.bound, i, c->seed, in);
	compile_into(cx, keep);
	if (ok) {
		tune_apply(c->k, &c->b, c->example, c->b.mem);
		binding_pointers(c->k, &c->b);          /* it may have bound the header anew */
	}
	return ok;
}

/* Makes tensor i, after those that its line uses.  The checker lets a line use only earlier ones.
 */
bool
case_materialise(TglCase *c, int i)
{
	const KernelParam *p = &c->k->k->params.at[i];
	ExampleInput in;
	if (c->b.tensor[i] || !is_tensor(p))
		return !c->b.tensor[i] || spread_file(c, i);
	if (!input_of(c, i, &in))
		return false;
	if (in.npy)
		return load_file(c, i, &in);
	bool is_out = p->kind == PARAM_TENSOR && p->access == ACCESS_OUT;
	if (in.absent && !is_out && !(p->has_fill && p->kind == PARAM_TENSOR))
		return case_missing(c, i);
	if (!ALL_OF(j, in.nuses, case_materialise(c, in.uses[j])))
		return false;
	c->b.tensor[i] = new_tensor(c, i, &in);
	return c->b.tensor[i] && (in.absent || evaluate(c, &in, c->b.tensor[i]));
}

/* ---- the header ---- */

/* A number or truth written as text: what the header may need before anything else is known. */
static bool
plain_value(const Expr *e, Const *out)
{
	if (e->kind == EX_UNARY && e->un == UN_NEG && plain_value(e->a, out)) {
		out->i = -out->i;
		out->f = -out->f;
		return out->kind != CONST_BOOL;
	}
	*out = (Const){.kind = CONST_NONE};
	if (e->kind == EX_INT)
		*out = (Const){.kind = e->u > INT64_MAX ? CONST_BIG : CONST_INT, .i = (int64_t)e->u};
	else if (e->kind == EX_FLOAT)
		*out = (Const){.kind = CONST_FLOAT, .f = e->f};
	else if (e->kind == EX_NAME && !e->scope &&
		 (strcmp(e->name, "true") == 0 || strcmp(e->name, "false") == 0))
		*out = (Const){.kind = CONST_BOOL, .i = e->name[0] == 't'};
	return out->kind != CONST_NONE;
}

/* Scalars written as text become arguments like others. */
static bool
read_scalars(TglCase *c)
{
	for (int i = 0; i < c->k->k->params.n; i++) {
		const KernelParam *p = &c->k->k->params.at[i];
		const TglArg *a = c->b.arg[i];
		Expr *e;
		Const v;
		if (p->kind != PARAM_SCALAR || !a || a->kind != TGL_ARG_TEXT)
			continue;
		if (!parse_argument(c, i, &e))
			return false;
		if (!plain_value(e, &v))
			return diag_error(c->k->program->compile, e->place, DIAG_LAUNCH_KIND,
			    p->name, "a number", "an expression");
		TglArg number = case_arg(p->name, &v);
		if (!binding_scalar(c->k, i, &number, &c->b))
			return false;
	}
	return true;
}

static void
add_value(TglCase *c, NamedConst *given, int *n, const char *name, Const value)
{
	if (named_const(given, *n, name))
		return;
	given[(*n)++] = (NamedConst){
	    .name = intern(c->k->program->compile->names, name), .value = value, .place = NOWHERE};
}

/* What a dimension is by its number or by a value that is given; 0: they do not say. */
static int64_t
said_of_dim(const NamedConst *given, int n, const Expr *dim)
{
	DimForm f = dim_form(dim);
	const NamedConst *said = f.name ? named_const(given, n, f.name->name) : NULL;
	if (dim->kind == EX_INT)
		return (int64_t)MIN(dim->u, INT64_MAX);
	bool is_known = said && said->value.kind == CONST_INT && llabs(said->value.i) <= INT32_MAX;
	return is_known ? f.times * said->value.i + f.more : 0;
}

static void
odd_row_by(TglCase *c, int i, const NamedConst *given, int n)
{
	const KernelParam *p = &c->k->k->params.at[i];
	TglTensor *t = c->b.tensor[i];
	if (p->kind != PARAM_TENSOR || p->rank == 0 || t->rank != p->rank)
		return;
	odd_row(t, said_of_dim(given, n, p->ast->type->dims.at[p->rank - 1]));
	c->b.info[i].dim[p->rank - 1] = t->dim[p->rank - 1];
}

/* What the caller's tensors say of dimensions and types goes before the example, as if given by
 * name. */
static void
values_of_tensor(TglCase *c, int i, NamedConst *given, int *n)
{
	const Kernel *k = c->k->k;
	const KernelParam *p = &k->params.at[i];
	const TglTensor *t = c->b.tensor[i];
	if (!p->dtype_known && p->dtype_param >= 0)
		add_value(c, given, n, k->item->ctparams.at[p->dtype_param].name,
		    (Const){.kind = CONST_DTYPE, .dtype = (DType)t->dtype});
	if (p->kind != PARAM_TENSOR || t->rank != p->rank)
		return;
	odd_row_by(c, i, given, *n);
	for (int d = 0; d < p->rank; d++) {
		const Expr *dim = p->ast->type->dims.at[d];
		DimForm f = dim_form(dim);
		if (f.name && (f.name == dim || symbol_named(k, f.name->name) >= 0))
			add_value(c, given, n, f.name->name, (Const){.kind = CONST_INT, .i = dim_solve(f, t->dim[d])});
	}
}

/* Scalars go by name too: the example's would contradict them as arguments. */
static bool
bind_example(TglCase *c)
{
	Kernel *k = c->k->k;
	int n = c->b.nvalue;
	NamedConst *given = NEW_ARRAY(c->b.mem, NamedConst, n + k->params.n * (KERNEL_RANK + 2));
	memcpy(given, c->b.value, sizeof *given * (size_t)n);
	for (int i = 0; i < k->params.n; i++)
		if (c->b.tensor[i] && !c->b.tensor[i]->of_bytes)
			values_of_tensor(c, i, given, &n);
	for (int i = 0; i < k->params.n; i++) {
		if (c->b.tensor[i] && c->b.tensor[i]->of_bytes)
			values_of_tensor(c, i, given, &n);
		if (k->params.at[i].kind == PARAM_SCALAR && c->b.info[i].given) {
			add_value(c, given, &n, k->params.at[i].name, c->b.info[i].scalar);
			c->b.info[i].given = false;
		}
	}
	return example_bind(k, c->example, given, n, c->b.info, &c->b.bound);
}

bool
case_bind(TglCase *c)
{
	Compile *cx = c->k->program->compile;
	if (!read_scalars(c))
		return false;
	for (int i = 0; i < c->k->k->params.n; i++)
		if (c->b.tensor[i])
			odd_row_by(c, i, c->b.value, c->b.nvalue);
	Arena *keep = compile_into(cx, c->b.mem);
	bool ok = c->example
		      ? bind_example(c)
		      : kernel_bind(c->k->k, c->b.info, c->b.value, c->b.nvalue, &c->b.bound);
	compile_into(cx, keep);
	for (int i = 0; ok && i < c->k->k->params.n; i++) {     /* numbers from here on: others bind these again */
		ArgInfo *a = &c->b.info[i];
		a->strides = NULL;
		a->is_spread = c->b.bound.param[i].is_spread;
		memcpy(a->stride, c->b.bound.param[i].stride, sizeof a->stride);
	}
	return ok;
}
