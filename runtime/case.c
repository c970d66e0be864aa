/* Cases: a kernel with everything that it needs to run.  An example of the source gives sizes and
 * inputs, the caller's arguments go before it, and what the kernel writes is made here.
 *
 * The right side of an example's line is a function of the tile IR over whole tensors, run on this
 * machine as one program; it may use tensors of earlier lines, which are made first.
 *
 * Outputs are poisoned before each run, so that an element that the kernel forgets shows; tensors that a kernel
 * reads and writes get their first values back. */
#include <stdlib.h>
#include <string.h>

#include "runtime/runtime.h"

static bool
is_tensor(const KernelParam *p)
{
	return p->kind != PARAM_SCALAR && !(p->kind == PARAM_TENSOR && p->access == ACCESS_SCRATCH);
}

static bool
is_changed(const KernelParam *p)
{
	return (p->kind == PARAM_TENSOR && p->access == ACCESS_INOUT) || (p->kind == PARAM_POINTER && p->ptr == PTR_MUT);
}

/* ---- choosing the example ---- */

static const ExampleItem *
example_labelled(const Kernel *k, const char *label)
{
	for (int i = 0; i < k->examples.n; i++) {
		const char *l = k->examples.at[i].label;
		if (strcmp(l ? l : "", label) == 0)
			return &k->examples.at[i];
	}
	return NULL;
}

static const ExampleItem *
example_first(const Kernel *k)
{
	for (int i = 0; i < k->examples.n; i++)
		if (!k->examples.at[i].is_bench)
			return &k->examples.at[i];
	return k->examples.n ? &k->examples.at[0] : NULL;
}

static void
report_no_example(Compile *cx, const Kernel *k, const TglCaseOptions *o)
{
	Text name = {0};
	if (o->by_index)
		text_printf(&name, "%d", o->index);
	else
		text_json(&name, o->example);
	diag_error(cx, k->item->name_place, DIAG_NO_EXAMPLE, k->name, name.at);
	const char **labels = NEW_ARRAY(cx->tmp, const char *, k->examples.n);
	for (int i = 0; i < k->examples.n; i++)
		labels[i] = k->examples.at[i].label ? k->examples.at[i].label : "";
	const char *near = o->by_index ? NULL : nearest_name(o->example, labels, k->examples.n);
	if (near)
		diag_help(cx, "did you mean \"%s\"?", near);
	else if (k->examples.n)
		diag_help(cx, "it has %d, the first is \"%s\"", k->examples.n, labels[0]);
	text_close(&name);
}

static bool
choose_example(TglCase *c, const TglCaseOptions *o)
{
	const Kernel *k = c->k->k;
	if (o->no_example)
		return true;
	if (o->by_index)
		c->example = o->index >= 0 && o->index < k->examples.n ? &k->examples.at[o->index] : NULL;
	else
		c->example = o->example ? example_labelled(k, o->example) : example_first(k);
	if (c->example || (!o->by_index && !o->example))
		return true;
	report_no_example(c->k->program->compile, k, o);
	return false;
}

/* ---- inputs ---- */

/* Runs a whole-tensor function; its parameters are `uses`, then the result. */
static bool
evaluate(TglCase *c, const ExampleInput *in, TglTensor *result)
{
	Compile *cx = c->k->program->compile;
	Func *f = in->module->funcs.at[0];
	PlanOptions opt = {0};
	const char *why = "";
	PlanArg *args = func_args(c->b.mem, f, c->k->k, &c->b.bound, c->b.tensor, c->b.info);
	for (int i = 0; i < in->nuses; i++)
		args[i] = tensor_arg(c->b.tensor[in->uses[i]]);
	args[in->nuses] = tensor_arg(result);
	Plan *plan = plan_open(f, &opt, &why);
	if (!plan) {
		diag_error(cx, f->place, DIAG_DEVICE_LOAD, c->k->k->name, "cpu", why);
		return false;
	}
	Fault fault = {.place = NOWHERE, .other = NOWHERE};
	const int64_t one[MAX_AXES] = {1, 1, 1};
	bool ok = whole_run(plan, args, one, &fault);
	if (!ok)
		fault_report(cx, &fault, c->k->k);
	plan_close(plan);
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
		    "no memory for whole tensors: they take %zu bytes, and this machine has %llu", need,
		    (unsigned long long)all);
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
	return tensor_open(c->dev, c->k->program->compile, (TglDType)p->dtype, p->rank, p->dim, NULL);
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

static bool
load_file(TglCase *c, int i, const char *npy)
{
	Compile *cx = c->k->program->compile;
	char *path = path_beside(cx, c->example ? c->example->item : c->k->k->item, npy);
	c->b.tensor[i] = npy_open(c->dev, cx, path, (int)c->b.bound.param[i].dtype);
	free(path);
	if (!c->b.tensor[i] || !binding_fits(c->k, &c->b, i, c->b.tensor[i]))
		return false;
	if (c->k->k->params.at[i].kind == PARAM_POINTER) {
		c->b.bound.param[i].rank = 1;
		c->b.bound.param[i].dim[0] = tgl_tensor_count(c->b.tensor[i]);
	}
	return true;
}

static bool
report_missing(TglCase *c, int i)
{
	Compile *cx = c->k->program->compile;
	const KernelParam *p = &c->k->k->params.at[i];
	diag_error(cx, p->ast->place, DIAG_CASE_MISSING, p->name, c->k->k->name);
	if (c->example)
		diag_note(cx, c->example->item->name_place, "this example does not mention it");
	diag_help(cx, "give it, as in `--arg %s=...`, or add `%s = ...;` to an example", p->name, p->name);
	return false;
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
	*in = (ExampleInput){.absent = true};
	if (c->b.arg[i] && c->b.arg[i]->kind == TGL_ARG_TEXT) {
		Expr *e;
		in->absent = false;
		return parse_argument(c, i, &e) && expr_input(c->k->k, e, &c->b.bound, i, c->seed, in);
	}
	return !c->example || example_input(c->k->k, c->example, &c->b.bound, i, c->seed, in);
}

/* Makes tensor i, after those that its line uses.  The checker lets a line use only earlier ones. */
static bool
materialise(TglCase *c, int i)
{
	const KernelParam *p = &c->k->k->params.at[i];
	ExampleInput in;
	if (c->b.tensor[i] || !is_tensor(p))
		return true;
	if (!input_of(c, i, &in))
		return false;
	if (in.npy)
		return load_file(c, i, in.npy);
	bool is_out = p->kind == PARAM_TENSOR && p->access == ACCESS_OUT;
	if (in.absent && !is_out && !(p->has_fill && p->kind == PARAM_TENSOR))
		return report_missing(c, i);
	for (int j = 0; j < in.nuses; j++)
		if (!materialise(c, in.uses[j]))
			return false;
	c->b.tensor[i] = new_tensor(c, i, &in);
	if (!c->b.tensor[i])
		return false;
	return in.absent || evaluate(c, &in, c->b.tensor[i]);
}

/* ---- first values ---- */

static bool
keep_first(TglCase *c)
{
	int n = c->k->k->params.n;
	c->first = calloc((size_t)MAX(n, 1), sizeof *c->first);
	for (int i = 0; c->first && i < n; i++) {
		if (!is_changed(&c->k->k->params.at[i]))
			continue;
		size_t size = tgl_tensor_bytes(c->b.tensor[i]);
		c->first[i] = malloc(size ? size : 1);
		if (!c->first[i] || !tensor_copy_out(c->b.tensor[i], c->first[i]))
			return false;
	}
	return c->first;
}

static void
restore(TglCase *c)
{
	for (int i = 0; i < c->k->k->params.n; i++) {
		const KernelParam *p = &c->k->k->params.at[i];
		if (c->first[i])
			tensor_copy_in(c->b.tensor[i], c->first[i]);
		else if (p->kind == PARAM_TENSOR && p->access == ACCESS_OUT)
			tensor_poison(c->b.tensor[i]);
	}
}

/* ---- arguments and values to show ---- */

static TglArg
arg_of_const(const char *name, const Const *v)
{
	switch (v->kind) {
	case CONST_FLOAT:
		return tgl_arg_float(name, v->f);
	case CONST_BOOL:
		return tgl_arg_bool(name, v->i != 0);
	case CONST_DTYPE:
		return tgl_arg_dtype(name, (TglDType)v->dtype);
	default:
		return tgl_arg_int(name, v->i);
	}
}

static void
add_value(TglCase *c, const char *name, const Const *v)
{
	Text t = {0};
	switch (v->kind) {
	case CONST_FLOAT:
		text_printf(&t, "%.9g", v->f);
		break;
	case CONST_BOOL:
		text_put(&t, v->i ? "true" : "false");
		break;
	case CONST_DTYPE:
		text_put(&t, dtype_info[v->dtype].text);
		break;
	default:
		text_printf(&t, "%lld", (long long)v->i);
	}
	c->value_name[c->nvalues] = name;
	c->value_text[c->nvalues++] = arena_strdup(c->b.mem, t.at);
	text_close(&t);
}

static void
collect_arguments(TglCase *c)
{
	const Kernel *k = c->k->k;
	const Bound *b = &c->b.bound;
	int room = b->nsymbol + b->nct + k->params.n;
	c->args = NEW_ARRAY(c->b.mem, TglArg, room + c->b.nvalue);
	c->value_name = NEW_ARRAY(c->b.mem, const char *, room);
	c->value_text = NEW_ARRAY(c->b.mem, const char *, room);
	for (int i = 0; i < k->params.n; i++) {
		const KernelParam *p = &k->params.at[i];
		if (c->b.tensor[i])
			c->args[c->nargs++] = tgl_arg_tensor(p->name, c->b.tensor[i]);
		else if (p->kind == PARAM_SCALAR)
			c->args[c->nargs++] = arg_of_const(p->name, &c->b.info[i].scalar);
	}
	for (int i = 0; i < b->nsymbol; i++)
		add_value(c, b->symbol[i].name, &b->symbol[i].value);
	for (int i = 0; i < b->nct; i++) {
		add_value(c, b->ct[i].name, &b->ct[i].value);
		c->args[c->nargs++] = arg_of_const(b->ct[i].name, &b->ct[i].value);
	}
	for (int i = 0; i < k->params.n; i++)
		if (k->params.at[i].kind == PARAM_SCALAR)
			add_value(c, k->params.at[i].name, &c->b.info[i].scalar);
}

/* ---- opening ---- */

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
	if (e->kind == EX_INT && e->u <= INT64_MAX)
		*out = (Const){.kind = CONST_INT, .i = (int64_t)e->u};
	else if (e->kind == EX_FLOAT)
		*out = (Const){.kind = CONST_FLOAT, .f = e->f};
	else if (e->kind == EX_NAME && !e->scope && (strcmp(e->name, "true") == 0 || strcmp(e->name, "false") == 0))
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
		if (!plain_value(e, &v)) {
			diag_error(c->k->program->compile, e->place, DIAG_LAUNCH_KIND, p->name, "a number", "an expression");
			return false;
		}
		TglArg number = arg_of_const(p->name, &v);
		if (!binding_scalar(c->k, i, &number, &c->b))
			return false;
	}
	return true;
}

static void
add_given(TglCase *c, NamedConst *given, int *n, const char *name, Const value)
{
	for (int i = 0; i < *n; i++)
		if (strcmp(given[i].name, name) == 0)
			return;
	given[(*n)++] = (NamedConst){.name = intern(c->k->program->compile->names, name), .value = value,
	    .place = NOWHERE};
}

/* What the caller's tensors say of dimensions and types goes before the example, as if given by name. */
static void
given_by_tensor(TglCase *c, int i, NamedConst *given, int *n)
{
	const Kernel *k = c->k->k;
	const KernelParam *p = &k->params.at[i];
	const TglTensor *t = c->b.tensor[i];
	if (!p->dtype_known && p->dtype_param >= 0)
		add_given(c, given, n, k->item->ctparams.at[p->dtype_param].name,
		    (Const){.kind = CONST_DTYPE, .dtype = (DType)t->dtype});
	if (p->kind != PARAM_TENSOR || t->rank != p->rank)
		return;
	for (int d = 0; d < p->rank; d++)
		if (p->ast->type->dims.at[d]->kind == EX_NAME)
			add_given(c, given, n, p->ast->type->dims.at[d]->name, (Const){.kind = CONST_INT, .i = t->dim[d]});
}

/* Scalars go by name too: the example's would contradict them as arguments. */
static bool
bind_example(TglCase *c)
{
	Kernel *k = c->k->k;
	int n = c->b.nvalue;
	NamedConst *given = NEW_ARRAY(c->b.mem, NamedConst, n + k->params.n * (MAX_RANK + 2));
	memcpy(given, c->b.value, sizeof *given * (size_t)n);
	for (int i = 0; i < k->params.n; i++) {
		if (c->b.tensor[i])
			given_by_tensor(c, i, given, &n);
		if (k->params.at[i].kind == PARAM_SCALAR && c->b.info[i].given) {
			add_given(c, given, &n, k->params.at[i].name, c->b.info[i].scalar);
			c->b.info[i].given = false;
		}
	}
	return example_bind(k, c->example, given, n, c->b.info, &c->b.bound);
}

static bool
bind(TglCase *c)
{
	if (!read_scalars(c))
		return false;
	return c->example ? bind_example(c) : kernel_bind(c->k->k, c->b.info, c->b.value, c->b.nvalue, &c->b.bound);
}

static bool
check_scalars(TglCase *c)
{
	for (int i = 0; i < c->k->k->params.n; i++)
		if (c->k->k->params.at[i].kind == PARAM_SCALAR && c->b.info[i].scalar.kind == CONST_NONE)
			return report_missing(c, i);
	return true;
}

static TglStatus
open_case(TglCase *c, const TglCaseOptions *o)
{
	if (!choose_example(c, o))
		return TGL_ERROR_NAME;
	if (!binding_collect(c->k, o->args, o->nargs, true, &c->b) || !bind(c) || !check_scalars(c))
		return TGL_ERROR_LAUNCH;
	for (int i = 0; i < c->k->k->params.n; i++) {
		if (c->b.tensor[i])
			c->b.tensor[i]->refs++;
	}
	c->holds = true;
	binding_pointers(c->k, &c->b);
	for (int i = 0; i < c->k->k->params.n; i++)
		if (!materialise(c, i)) {
			const Diag *last = c->k->program->compile->last;
			bool memory = last && (last->code == DIAG_TENSOR_MEMORY || last->code == DIAG_FAULT_MEMORY);
			return memory ? TGL_ERROR_MEMORY : TGL_ERROR_LAUNCH;
		}
	for (int i = 0; i < c->k->k->params.n; i++)
		c->b.info[i].given = true;
	if (!binding_check(c->k, c->dev, &c->b))
		return TGL_ERROR_LAUNCH;
	if (!keep_first(c))
		return TGL_ERROR_MEMORY;
	collect_arguments(c);
	return TGL_OK;
}

static void
close_case(TglCase *c)
{
	int n = c->k->k->params.n;
	for (int i = 0; c->holds && i < n; i++)
		if (c->b.tensor[i])
			tensor_unref(c->b.tensor[i]);
	for (int i = 0; c->first && i < n; i++)
		free(c->first[i]);
	free(c->first);
	if (c->reference)
		reference_close(c->reference);
	binding_close(&c->b);
	free(c);
}

TglCase *
tgl_case_open(TglDevice *dev, TglKernel *k, const TglCaseOptions *options)
{
	TglCaseOptions plain = {0};
	if (!k) {
		if (dev) {
			context_begin(dev->cx);
			context_null(dev->cx, NULL, "tgl_case_open", "the kernel");
		}
		return NULL;
	}
	TglContext *cx = k->program->cx;
	if (!options)
		options = &plain;
	context_begin(cx);
	if (context_null(cx, dev, "tgl_case_open", "the device") ||
	    !launch_handles(dev, k, options->args, options->nargs, "tgl_case_open"))
		return NULL;
	TglCase *c = calloc(1, sizeof *c);
	if (!c)
		return NULL;
	c->dev = dev;
	c->k = k;
	c->seed = options->seed;
	TglStatus s = open_case(c, options);
	arena_reset(k->program->compile->tmp);
	if (s != TGL_OK) {
		context_fail(cx, s, k->program->compile);
		close_case(c);
		return NULL;
	}
	dev->refs++;
	k->program->refs++;
	context_done(cx, k->program->compile);
	return c;
}

void
tgl_case_close(TglCase **c)
{
	if (!c || !*c)
		return;
	TglDevice *dev = (*c)->dev;
	TglProgram *p = (*c)->k->program;
	close_case(*c);
	program_unref(p);
	device_unref(dev);
	*c = NULL;
}

/* ---- asking and running ---- */

const char *
tgl_case_label(TglCase *c)
{
	return c && c->example && c->example->label ? c->example->label : "";
}

TglTensor *
tgl_case_tensor(TglCase *c, const char *param)
{
	int i = c ? tgl_kernel_param_named(c->k, param) : -1;
	return i < 0 ? NULL : c->b.tensor[i];
}

const TglArg *
tgl_case_args(TglCase *c, int *n)
{
	if (n)
		*n = c ? c->nargs : 0;
	return c ? c->args : NULL;
}

bool
tgl_case_value(TglCase *c, int i, const char **name, const char **text)
{
	if (!c || i < 0 || i >= c->nvalues)
		return false;
	if (name)
		*name = c->value_name[i];
	if (text)
		*text = c->value_text[i];
	return true;
}

bool
tgl_case_grid(TglCase *c, int64_t grid[TGL_MAX_AXES])
{
	if (c && grid)
		grid_count(&c->b.bound, grid);
	return c && grid;
}

TglStatus
case_run(TglCase *c, double *seconds)
{
	TglStatus s = TGL_ERROR_LAUNCH;
	Instance *in = instance_find(c->k, &c->b.bound, c->dev, &s);
	if (!in)
		return s;
	restore(c);
	s = instance_launch(c->k, in, &c->b, seconds);
	c->has_run = s == TGL_OK;
	return s;
}

TglStatus
tgl_case_run(TglCase *c, double *seconds)
{
	if (!c)
		return TGL_ERROR_USAGE;
	TglContext *cx = c->dev->cx;
	Compile *compile = c->k->program->compile;
	context_begin(cx);
	TglStatus s = case_run(c, seconds);
	arena_reset(compile->tmp);
	if (s != TGL_OK)
		return context_fail(cx, s, compile);
	context_done(cx, compile);
	return TGL_OK;
}
