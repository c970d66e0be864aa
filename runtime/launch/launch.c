/* Launching: fills what is to be filled, gives the compiled form its arguments, and runs the grid. */
#include <string.h>

#include "runtime/launch/launch.h"

/* ---- arguments and the grid ---- */

static PlanArg
scalar_arg(const Const *c, DType t)
{
	return (PlanArg){.i = c->i, .f = c->kind == CONST_FLOAT ? c->f : (double)c->i, .dtype = t};
}

static int64_t
symbol_value(const Bound *b, const char *name)
{
	Const c;
	if (!bound_value(b, name, &c))
		die("no dimension '%s'", name);
	return c.i;
}

PlanArg *
func_args(Arena *mem, const Func *f, const Kernel *k, const Bound *b, TglTensor *const *tensor,
    const ArgInfo *info)
{
	PlanArg *arg = NEW_ARRAY(mem, PlanArg, f->nparam);
	for (int i = 0; i < f->nparam; i++) {
		const FuncParam *p = &f->param[i];
		int j = param_of_kernel(k, p->name);
		if (p->kind == PARAM_DIM)
			arg[i].i = symbol_value(b, p->name);
		else if (i >= f->nparam - f->nmade)
			continue;                       /* instance_args */
		else if (j < 0)
			die("the function has a parameter '%s' that the kernel has not", p->name);
		else if (p->kind == PARAM_SCALAR)
			arg[i] = scalar_arg(&info[j].scalar, b->param[j].dtype);
		else if (tensor[j]) {
			arg[i] = tensor_arg(tensor[j]);
			arg[i].filled = b->param[j].has_fill;
		}
	}
	return arg;
}

PlanArg *
kernel_args(Arena *mem, const Kernel *k, const Bound *b, TglTensor *const *tensor, const ArgInfo *info)
{
	PlanArg *arg = NEW_ARRAY(mem, PlanArg, k->params.n + k->symbols.n + MADE_MOST);
	for (int i = 0; i < k->params.n; i++)
		if (k->params.at[i].kind == PARAM_SCALAR)
			arg[i] = scalar_arg(&info[i].scalar, b->param[i].dtype);
		else if (tensor[i])
			arg[i] = tensor_arg(tensor[i]);
	for (int i = 0; i < k->symbols.n; i++)
		arg[k->params.n + i].i = symbol_value(b, k->symbols.at[i]);
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

static uint64_t
recording_of(const TglDevice *dev)
{
	Device *d = (Device *)&dev->dev;
	return d->queue ? d->queue->recording(d, d->stream) : 0;
}

static Scratch *
add_scratch(TglKernel *k, Instance *in, uint64_t recording)
{
	Scratch *s = memory_new(1, sizeof *s + sizeof *s->tensor * (size_t)(k->k->params.n + MADE_MOST));
	s->stream = in->dev->dev.stream;
	s->recording = recording;
	s->next = in->scratch;
	return in->scratch = s;
}

/* The scratch tensors of the device's stream, as it is recorded or not. */
static Scratch *
find_scratch(TglKernel *k, Instance *in)
{
	uint64_t recording = recording_of(in->dev);
	for (Scratch *s = in->scratch; s; s = s->next)
		if (s->stream == in->dev->dev.stream && s->recording == recording)
			return s;
	return add_scratch(k, in, recording);
}

/* Operands of products grow and shrink with each launch: what has room for them is kept. */
static void
refit(TglTensor *t, int rank, const int64_t *dim)
{
	int64_t count, bytes;
	if (!tensor_size(t->dtype, rank, dim, &count, &bytes) || bytes > t->high - t->low)
		return;
	memcpy(t->dim, dim, sizeof *dim * (size_t)rank);
	tensor_contiguous(t->dtype, rank, dim, t->stride);
}

/* A scratch tensor of the right shape; kept for the next launch on the stream, those that a graph names for good. */
static bool
take_scratch(TglKernel *k, Instance *in, int i, DType dtype, int rank, const int64_t *dim, TglTensor **out)
{
	Scratch *kept = find_scratch(k, in);
	TglTensor *t = kept->tensor[i];
	if (t && i >= k->k->params.n)
		refit(t, rank, dim);
	if (t && memcmp(t->dim, dim, sizeof *dim * (size_t)rank) != 0) {
		if (kept->recording)
			kept = add_scratch(k, in, kept->recording);
		else
			tensor_unref(t);
		t = NULL;
	}
	if (!t)
		t = tensor_open(in->dev, k->program->compile, (TglDType)dtype, rank, dim, NULL);
	return (kept->tensor[i] = *out = t) != NULL;
}

const MadeTensor *
instance_made(const Instance *in, int *n)
{
	bool is_artefact = in->dev->dev.load_artefact;
	*n = is_artefact ? in->artefact.nmade : in->func->nmade;
	return is_artefact ? in->artefact.made : in->func->made;
}

TglTensor **
instance_tensors(TglKernel *k)
{
	return NEW_ARRAY(k->program->compile->tmp, TglTensor *, k->k->params.n + MADE_MOST);
}

static bool
make_scratch(TglKernel *k, Instance *in, const Binding *b, TglTensor **tensor)
{
	for (int i = 0; i < k->k->params.n; i++) {
		const KernelParam *p = &k->k->params.at[i];
		const BoundParam *want = &b->bound.param[i];
		tensor[i] = b->tensor[i];
		if (!param_is_scratch(p))
			continue;
		if (!take_scratch(k, in, i, want->dtype, want->rank, want->dim, &tensor[i]))
			return false;
	}
	int nmade, n = k->k->params.n;
	const MadeTensor *made = instance_made(in, &nmade);
	const PlanArg *args = nmade ? kernel_args(k->program->compile->tmp, k->k, &b->bound, tensor, b->info) : NULL;
	for (int i = 0; i < nmade; i++) {
		int64_t dim[2], grid[MAX_AXES];
		if (grid_count(&b->bound, grid) == 0)
			return true;
		abi_made(&made[i], args, grid, dim);
		if (!take_scratch(k, in, n + i, made[i].elem, 2, dim, &tensor[n + i]))
			return false;
	}
	return true;
}

bool
fill_outputs(TglKernel *k, const Bound *b, TglTensor *const *tensor)
{
	bool ok = true;
	for (int i = 0; i < k->k->params.n; i++) {
		const BoundParam *p = &b->param[i];
		if (p->has_fill && tensor[i])
			ok &= tensor_set(tensor[i], p->fill.kind != CONST_FLOAT, p->fill.i, p->fill.f);
	}
	return ok;
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
	    [FAULT_KERNEL] = DIAG_FAULT_KERNEL,
	    [FAULT_NAN] = DIAG_FAULT_NAN,
	};
	Place at = fault->place;
	for (int i = 0; i < cx->files.n && fault->path; i++)
		if (strlen(cx->files.at[i].path) == (size_t)fault->path_size &&
		    memcmp(cx->files.at[i].path, fault->path, (size_t)fault->path_size) == 0)
			at.file = i;
	bool known = at.file >= 0 && at.file < cx->files.n;
	if (!known)
		at = k ? k->item->name_place : NOWHERE;
	diag_error(cx, at, code[fault->kind], fault->text);
	diag_calls(cx, at);
	if (!known && fault->path)
		diag_note(cx, NOWHERE, "the assert is at %.*s:%d:%d", fault->path_size, fault->path,
		    fault->place.line, fault->place.col);
	if (fault->other.file < 0 || fault->other.file >= cx->files.n)
		return;
	diag_note(cx, fault->other, fault->kind == FAULT_RACE ? "the other access is here" : "the other is here");
	diag_calls(cx, fault->other);
}

/* If --trace names a program that the grid does not have, nothing is printed: the warning says why. */
static void
warn_untraced(TglKernel *k, Instance *in, const int64_t grid[MAX_AXES])
{
	Compile *cx = k->program->compile;
	const char *text = k->program->cx->compile.trace;
	TraceRequest request;
	Text program = {0}, whole = {0};
	bool is_outside = false;

	if (!text || in->warned || !trace_parse(cx->names, text, &request))
		return;
	for (int i = 0; i < request.naxis; i++) {
		is_outside |= request.program[i] >= grid[i];
		text_printf(&program, "%s%lld", i ? ", " : "(", (long long)request.program[i]);
	}
	for (int i = 0; i < MAX_AXES; i++)
		text_printf(&whole, "%s%lld", i ? " x " : "", (long long)grid[i]);
	if (is_outside) {
		text_put(&program, ")");
		diag_warning(cx, k->k->item->name_place, DIAG_TRACE_NO_PROGRAM, program.at, whole.at);
		in->warned = true;
	}
	text_close(&program);
	text_close(&whole);
}

PlanArg *
instance_args(TglKernel *k, Instance *in, const Binding *b, TglTensor *const *tensor, int *n)
{
	Arena *mem = k->program->compile->tmp;
	bool is_artefact = in->dev->dev.load_artefact;
	int nmade;
	instance_made(in, &nmade);
	*n = is_artefact ? k->k->params.n + k->k->symbols.n + nmade : in->func->nparam;
	PlanArg *args = is_artefact ? kernel_args(mem, k->k, &b->bound, tensor, b->info)
				    : func_args(mem, in->func, k->k, &b->bound, tensor, b->info);
	for (int i = 0; i < nmade; i++)
		if (tensor[k->k->params.n + i])
			args[*n - nmade + i] = tensor_arg(tensor[k->k->params.n + i]);
	return args;
}

/* The grid, with the axis that a pass has added. */
static bool
start(const Instance *in, const PlanArg *args, const int64_t grid[MAX_AXES], Fault *fault)
{
	Device *d = &in->dev->dev;
	bool is_artefact = d->load_artefact;
	int naxis = is_artefact ? in->artefact.naxis : in->func->naxis;
	int added = is_artefact ? in->artefact.added : in->func->added;
	int64_t all[MAX_AXES];
	memcpy(all, grid, sizeof all);
	if (added)
		all[naxis - 1] = added;
	return d->launch(d, in->loaded, args, all, fault);
}

bool
instance_start(Instance *in, const PlanArg *args, const int64_t grid[MAX_AXES], Fault *fault)
{
	return (!in->first || start(in->first, args, grid, fault)) && start(in, args, grid, fault) &&
	    (!in->last || start(in->last, args, grid, fault));
}

static bool
run(TglKernel *k, Instance *in, const Binding *b, TglTensor *const *tensor, Fault *fault)
{
	int64_t grid[MAX_AXES];
	int nargs;
	if (!fill_outputs(k, &b->bound, tensor))
		return false;
	int64_t count = grid_count(&b->bound, grid);
	warn_untraced(k, in, grid);
	if (count == 0)
		return true;
	return instance_start(in, instance_args(k, in, b, tensor, &nargs), grid, fault);
}

void
launch_hooks(TglDevice *dev)
{
	dev->hooks.print = dev->cx->hooks.print;
	dev->hooks.print_user = dev->cx->hooks.print_user;
}

void
instance_keep_recorded(Instance *in)
{
	TglDevice *dev = in->dev;
	if (in->is_recorded || dev->recording || !dev->dev.queue || !dev->dev.queue->recording(&dev->dev, dev->dev.stream))
		return;
	in->is_recorded = true;
	in->pins++;
}

TglStatus
instance_launch(TglKernel *k, Instance *in, const Binding *b, TglTensor **tensor, double *seconds)
{
	Compile *cx = k->program->compile;
	Device *d = &in->dev->dev;
	Fault fault = {.place = NOWHERE, .other = NOWHERE};
	if (!make_scratch(k, in, b, tensor))
		return TGL_ERROR_MEMORY;
	launch_hooks(in->dev);
	bool ok = (!seconds || d->time_begin(d)) && run(k, in, b, tensor, &fault) &&
		  (!seconds || (d->time_end(d, seconds) && d->sync(d, &fault)));
	instance_keep_recorded(in);
	if (in->dev->recording)
		graph_keep(in->dev->recording, k, in, tensor);
	return ok ? TGL_OK : device_report(in->dev, cx, &fault, k->k);
}

bool
launch_handles(TglDevice *dev, TglKernel *k, const TglArg *args, int nargs, const char *f)
{
	TglContext *cx = k->program->cx;
	if (nargs && context_null(cx, args, f, "args"))
		return false;
	bool foreign =
	    (dev && dev->cx != cx) ||
	    ANY_OF(i, nargs,
		args[i].kind == TGL_ARG_TENSOR && args[i].tensor && args[i].tensor->dev->cx != cx);
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
	bool sorted = binding_collect(k, args, nargs, false, b);
	b->dev = dev;
	if (!sorted || !binding_complete(k, b) ||
	    !binding_bind(k, b) || !binding_check(k, dev, b))
		return s;
	Instance *in = instance_find(k, b, dev, &s);
	TglTensor **tensor = instance_tensors(k);
	s = in ? instance_launch(k, in, b, tensor, seconds) : s;
	if (s == TGL_OK)
		launch_cache_add(k, in, args, nargs, b, tensor);
	return s;
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
	TglStatus s;
	if (dev && !seconds && k->launches && launch_cache_run(dev, k, args, nargs, &s))
		return s;
	context_begin(cx);
	if (context_null(cx, dev, "tgl_launch", "the device") ||
	    !launch_handles(dev, k, args, nargs, "tgl_launch"))
		return TGL_ERROR_USAGE;
	Binding b;
	s = launch(dev, k, args, nargs, &b, seconds);
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
