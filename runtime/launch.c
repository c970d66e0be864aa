/* Launching: finds or makes the compiled form of a kernel, fills what is to be filled, and runs the
 * grid.
 *
 * A kernel is compiled once for a set of compile-time values, dtypes and schedule on a device; the
 * values of dimensions are arguments.  Compiled forms are kept with the kernel, newest first. */
#include <stdlib.h>
#include <string.h>

#include "runtime/runtime.h"

/* ---- compiled forms ---- */

enum { MAX_INSTANCES = 64 }; /* of a kernel; the one not used for longest goes */

static void
instance_key(const Kernel *k, const Bound *b, Text *key)
{
	for (int i = 0; i < b->nct; i++)
		key_const(key, &b->ct[i].value);
	for (int i = 0; i < k->params.n; i++)
		text_putn(key, (const char *)&b->param[i].dtype, sizeof b->param[i].dtype);
	text_putn(key, (const char *)&b->schedule, sizeof b->schedule);
}

/* Compiles with the context's options and hands dumps and times over. */
static Module *
compile(TglKernel *k, const Bound *b, const char *target)
{
	const TglCompileOptions *o = &k->program->cx->compile;
	Text dump = {0}, times = {0};
	PassOptions opt = {.only = o->only,
	    .skip = o->skip,
	    .stop_after = o->stop_after,
	    .dump = o->dump,
	    .verify = o->verify,
	    .dump_to = &dump,
	    .times = o->times ? &times : NULL};
	Module *m = compile_kernel(k->k, b, target, NULL, &opt);
	text_put(&dump, times.at ? times.at : "");
	if (o->write && dump.n)
		o->write(o->user, dump.at);
	text_close(&dump);
	text_close(&times);
	return m;
}

static void
instance_close(Instance *in, int nparams)
{
	for (int i = 0; in->scratch && i < nparams; i++)
		if (in->scratch[i])
			tensor_unref(in->scratch[i]);
	if (in->loaded) {
		in->dev->dev.unload(&in->dev->dev, in->loaded);
		device_unref(in->dev);
	}
	if (in->mem)
		arena_close(in->mem);
	free(in->scratch);
	free(in->key);
	free(in);
}

void
instance_close_all(TglKernel *k)
{
	while (k->instances) {
		Instance *in = k->instances;
		k->instances = in->next;
		instance_close(in, k->k->params.n);
	}
}

/* Fills a new form; on failure the reports lie in its memory. */
static TglStatus
fill_instance(Instance *in, TglKernel *k, const Bound *b, TglDevice *dev)
{
	Compile *cx = k->program->compile;
	const char *why = "";
	Module *m = compile(k, b, dev->dev.target);
	if (!m)
		return TGL_ERROR_SOURCE;
	in->func = m->funcs.at[0];
	in->loaded = dev->dev.load(&dev->dev, in->func, &why);
	if (!in->loaded) {
		diag_error(
		    cx, k->k->item->name_place, DIAG_DEVICE_LOAD, k->k->name, dev->dev.name, why);
		return TGL_ERROR_DEVICE;
	}
	in->dev = dev;
	dev->refs++;
	return TGL_OK;
}

static Instance *
make_instance(TglKernel *k, const Bound *b, TglDevice *dev, TglStatus *status)
{
	Compile *cx = k->program->compile;
	Instance *in = calloc(1, sizeof *in);
	TglTensor **scratch = calloc((size_t)MAX(k->k->params.n, 1), sizeof *scratch);
	if (!in || !scratch)
		die("no memory");
	in->scratch = scratch;
	in->mem = arena_open();
	Arena *keep = compile_into(cx, in->mem);
	*status = fill_instance(in, k, b, dev);
	compile_into(cx, keep);
	if (*status == TGL_OK)
		return in;
	context_fail(k->program->cx, *status, cx);
	instance_close(in, k->k->params.n);
	return NULL;
}

/* The forms beyond the limit, at the list's end, are closed. */
static void
drop_old(TglKernel *k)
{
	Instance **at = &k->instances;
	for (int i = 0; *at && i < MAX_INSTANCES; i++)
		at = &(*at)->next;
	while (*at) {
		Instance *in = *at;
		*at = in->next;
		instance_close(in, k->k->params.n);
	}
}

Instance *
instance_find(TglKernel *k, const Bound *b, TglDevice *dev, TglStatus *status)
{
	Text key = {0};
	Instance *in = NULL;
	instance_key(k->k, b, &key);
	for (Instance **at = &k->instances; *at; at = &(*at)->next)
		if ((*at)->dev == dev && (*at)->nkey == key.n &&
		    memcmp((*at)->key, key.at, key.n) == 0) {
			in = *at;
			*at = in->next;
			text_close(&key);
			break;
		}
	if (!in) {
		in = make_instance(k, b, dev, status);
		if (!in) {
			text_close(&key);
			return NULL;
		}
		in->key = key.at;
		in->nkey = key.n;
	}
	in->next = k->instances;
	k->instances = in;
	drop_old(k);
	return in;
}

/* ---- arguments and the grid ---- */

static PlanArg
scalar_arg(const Const *c)
{
	return (PlanArg){.i = c->i, .f = c->kind == CONST_FLOAT ? c->f : (double)c->i};
}

static int64_t
symbol_value(const Bound *b, const char *name)
{
	for (int i = 0; i < b->nsymbol; i++)
		if (strcmp(b->symbol[i].name, name) == 0)
			return b->symbol[i].value.i;
	for (int i = 0; i < b->nct; i++)
		if (strcmp(b->ct[i].name, name) == 0)
			return b->ct[i].value.i;
	die("no dimension '%s'", name);
}

PlanArg *
func_args(Arena *mem, const Func *f, const Kernel *k, const Bound *b, TglTensor *const *tensor,
    const ArgInfo *info)
{
	PlanArg *arg = NEW_ARRAY(mem, PlanArg, f->nparam);
	for (int i = 0; i < f->nparam; i++) {
		const FuncParam *p = &f->param[i];
		int j = 0;
		while (j < k->params.n && strcmp(k->params.at[j].name, p->name) != 0)
			j++;
		if (p->kind == PARAM_DIM)
			arg[i].i = symbol_value(b, p->name);
		else if (j == k->params.n)
			die("the function has a parameter '%s' that the kernel has not", p->name);
		else if (p->kind == PARAM_SCALAR)
			arg[i] = scalar_arg(&info[j].scalar);
		else if (tensor[j]) {
			arg[i] = tensor_arg(tensor[j]);
			arg[i].filled = b->param[j].has_fill;
		}
	}
	return arg;
}

int64_t
grid_count(const Bound *b, int64_t grid[MAX_AXES])
{
	int64_t count = 1;
	bool empty = false;
	for (int i = 0; i < MAX_AXES; i++) {
		grid[i] = i < b->naxis ? b->grid[i] : 1;
		empty |= grid[i] <= 0;
	}
	for (int i = 0; i < MAX_AXES && !empty; i++)
		count *= grid[i];
	return empty ? 0 : count;
}

/* ---- running ---- */

/* Scratch tensors of the right shape; kept for the next launch. */
static bool
make_scratch(TglKernel *k, Instance *in, const Binding *b, TglTensor **tensor)
{
	for (int i = 0; i < k->k->params.n; i++) {
		const KernelParam *p = &k->k->params.at[i];
		const BoundParam *want = &b->bound.param[i];
		tensor[i] = b->tensor[i];
		if (p->kind != PARAM_TENSOR || p->access != ACCESS_SCRATCH)
			continue;
		TglTensor *t = in->scratch[i];
		if (t && memcmp(t->dim, want->dim, sizeof *t->dim * (size_t)want->rank) != 0) {
			tensor_unref(t);
			t = NULL;
		}
		if (!t)
			t = tensor_open(in->dev, k->program->compile, (TglDType)want->dtype,
			    want->rank, want->dim, NULL);
		in->scratch[i] = tensor[i] = t;
		if (!t)
			return false;
	}
	return true;
}

static double
fill_outputs(TglKernel *k, const Bound *b, TglTensor *const *tensor)
{
	double start = device_clock();
	for (int i = 0; i < k->k->params.n; i++) {
		const BoundParam *p = &b->param[i];
		if (p->has_fill && tensor[i])
			tensor_set(tensor[i], p->fill.kind != CONST_FLOAT, p->fill.i, p->fill.f);
	}
	return device_clock() - start;
}

void
fault_report(Compile *cx, const Fault *fault, const Kernel *k)
{
	const DiagCode code[] = {
	    [FAULT_NONE] = DIAG_FAULT_ASSERT,
	    [FAULT_ASSERT] = DIAG_FAULT_ASSERT,
	    [FAULT_BOUNDS] = DIAG_FAULT_BOUNDS,
	    [FAULT_RACE] = DIAG_FAULT_RACE,
	    [FAULT_UNINIT] = DIAG_FAULT_UNINIT,
	    [FAULT_MEMORY] = DIAG_FAULT_MEMORY,
	    [FAULT_CANCELLED] = DIAG_FAULT_ASSERT,
	};
	Place at = fault->place;
	if (at.file < 0 || at.file >= cx->files.n)
		at = k ? k->item->name_place : NOWHERE;
	diag_error(cx, at, code[fault->kind], fault->text);
	if (fault->kind == FAULT_RACE && fault->other.file >= 0 && fault->other.file < cx->files.n)
		diag_note(cx, fault->other, "the other access is here");
}

TglStatus
instance_launch(TglKernel *k, Instance *in, const Binding *b, double *seconds)
{
	Compile *cx = k->program->compile;
	int64_t grid[MAX_AXES];
	TglTensor **tensor = NEW_ARRAY(cx->tmp, TglTensor *, k->k->params.n);
	if (!make_scratch(k, in, b, tensor))
		return TGL_ERROR_MEMORY;
	double fills = fill_outputs(k, &b->bound, tensor), time = 0;
	Fault fault = {.place = NOWHERE, .other = NOWHERE};
	in->dev->hooks.print = k->program->cx->hooks.print;
	in->dev->hooks.print_user = k->program->cx->hooks.print_user;
	const PlanArg *args = func_args(cx->tmp, in->func, k->k, &b->bound, tensor, b->info);
	if (grid_count(&b->bound, grid) > 0 && !in->dev->dev.launch(&in->dev->dev, in->loaded, args,
						   grid, seconds ? &time : NULL, &fault)) {
		fault_report(cx, &fault, k->k);
		return fault.kind == FAULT_MEMORY ? TGL_ERROR_MEMORY : TGL_ERROR_FAULT;
	}
	if (seconds)
		*seconds = time + fills;
	return TGL_OK;
}

bool
launch_handles(TglDevice *dev, TglKernel *k, const TglArg *args, int nargs, const char *f)
{
	TglContext *cx = k->program->cx;
	if (nargs && context_null(cx, args, f, "args"))
		return false;
	bool foreign = dev && dev->cx != cx;
	for (int i = 0; i < nargs && !foreign; i++)
		foreign = args[i].kind == TGL_ARG_TENSOR && args[i].tensor &&
			  args[i].tensor->dev->cx != cx;
	if (!foreign)
		return true;
	diag_error(cx->own, NOWHERE, DIAG_API_FOREIGN, f,
	    dev && dev->cx != cx ? "the device" : "a tensor");
	context_fail(cx, TGL_ERROR_USAGE, NULL);
	return false;
}

static TglStatus
launch(TglDevice *dev, TglKernel *k, const TglArg *args, int nargs, Binding *b, double *seconds)
{
	TglStatus s = TGL_ERROR_LAUNCH;
	if (!binding_collect(k, args, nargs, false, b) || !binding_complete(k, b) ||
	    !binding_bind(k, b) || !binding_check(k, dev, b))
		return s;
	Instance *in = instance_find(k, &b->bound, dev, &s);
	return in ? instance_launch(k, in, b, seconds) : s;
}

TglStatus
tgl_launch(TglDevice *dev, TglKernel *k, const TglArg *args, int nargs, double *seconds)
{
	if (!k) {
		if (dev) {
			context_begin(dev->cx);
			context_null(dev->cx, NULL, "tgl_launch", "the kernel");
		}
		return TGL_ERROR_USAGE;
	}
	TglContext *cx = k->program->cx;
	context_begin(cx);
	if (context_null(cx, dev, "tgl_launch", "the device") ||
	    !launch_handles(dev, k, args, nargs, "tgl_launch"))
		return TGL_ERROR_USAGE;
	Binding b;
	TglStatus s = launch(dev, k, args, nargs, &b, seconds);
	context_end(cx, s, k->program->compile);
	binding_close(&b);
	return s;
}

TglStatus
tgl_shapes(
    TglKernel *k, const TglArg *args, int nargs, TglShape *params, int64_t grid[TGL_MAX_AXES])
{
	if (!k)
		return TGL_ERROR_USAGE;
	TglContext *cx = k->program->cx;
	Binding b;
	context_begin(cx);
	if (!launch_handles(NULL, k, args, nargs, "tgl_shapes"))
		return TGL_ERROR_USAGE;
	bool ok = binding_collect(k, args, nargs, false, &b) && binding_bind(k, &b);
	for (int i = 0; ok && params && i < k->k->params.n; i++) {
		const BoundParam *p = &b.bound.param[i];
		params[i] = (TglShape){.dtype = (int)p->dtype, .rank = p->rank};
		memcpy(params[i].dim, p->dim, sizeof params[i].dim);
	}
	if (ok && grid)
		grid_count(&b.bound, grid);
	TglStatus status = ok ? TGL_OK : TGL_ERROR_LAUNCH;
	context_end(cx, status, k->program->compile);
	binding_close(&b);
	return status;
}
