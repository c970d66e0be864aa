/* A launch like an earlier one: the same kernel, names, dtypes, shapes, strides and values, other pointers.  Then nothing
 * needs to be bound, validated at length or looked up: the arguments are compared with the earlier ones, the pointers are
 * replaced, and the device launches.
 *
 * What a launch validates holds here too.  Two things depend on addresses alone: alignment, which must be what the compiled
 * form was made for, and overlap, of which the quick answer "the ranges are disjoint" is enough; anything else takes the
 * long way. */
#include <stdlib.h>
#include <string.h>

#include "runtime/launch/launch.h"

enum { MAX_LAUNCHES = 32, ALIGN_MASK = 15 };

typedef struct CachedArg {
	char *name;                     /* NULL: by position */
	TglArgKind kind;
	bool is_written;
	TglDType dtype;
	int rank;
	int slot;                       /* its index among the device's arguments; -1: the kernel does not take it */
	unsigned align;                 /* the address's lowest bits */
	int64_t dim[TGL_MAX_RANK], stride[TGL_MAX_RANK];
	int64_t span;                   /* bytes from its first element to its end */
	bool is_free;                   /* a scalar that no compiled form depends on beyond `divides` */
	int64_t divides;                /* the power of two that its value is a multiple of */
	int64_t i;
	double f;
} CachedArg;

typedef struct CachedFill {
	TglTensor *scratch;             /* or */
	int arg;
	Const value;
} CachedFill;

typedef struct CachedLaunch CachedLaunch;
struct CachedLaunch {
	CachedLaunch *next;
	Instance *in;
	TglDevice *dev;
	int nargs;
	CachedArg *arg;
	CachedFill *fill;
	int nfills;
	TglTensor **held;               /* scratch tensors */
	int nheld;
	void *stream;                   /* whose scratch tensors they are */
	PlanArg *value;
	int64_t grid[MAX_AXES];
	bool is_empty;                  /* the grid: the outputs are filled, and nothing runs */
};

static unsigned
alignment(const void *p)
{
	uintptr_t bits = (uintptr_t)p | (ALIGN_MASK + 1);
	return (unsigned)(bits & (~bits + 1));
}

static void
cached_close(CachedLaunch *a)
{
	for (int i = 0; i < a->nheld; i++)
		tensor_unref(a->held[i]);
	for (int i = 0; i < a->nargs; i++)
		free(a->arg[i].name);
	free(a->arg);
	free(a->fill);
	free(a->held);
	free(a->value);
	free(a);
}

void
launch_cache_drop(TglKernel *k, const Instance *in)
{
	for (CachedLaunch **at = &k->launches; *at;) {
		CachedLaunch *a = *at;
		if (in && a->in != in) {
			at = &a->next;
			continue;
		}
		*at = a->next;
		cached_close(a);
	}
}

/* ---- comparing ---- */

static bool
same_name(const char *a, const char *b)
{
	return a && b ? strcmp(a, b) == 0 : a == b;
}

static bool
same_tensor(const CachedLaunch *a, const CachedArg *want, const TglTensor *t)
{
	if (!t || t->dev != a->dev || t->rank != want->rank || t->dtype != want->dtype ||
	    alignment(t->data) != want->align)
		return false;
	return ALL_OF(d, t->rank, t->dim[d] == want->dim[d] && t->stride[d] == want->stride[d]) &&
	    t->high - t->data >= want->span;
}

/* Another value of a scalar will do where it needs neither another header nor another compiled form. */
static bool
same_value(const CachedArg *want, const TglArg *arg)
{
	DType t = (DType)want->dtype;
	if (want->kind == TGL_ARG_FLOAT)
		return want->is_free || memcmp(&arg->f, &want->f, sizeof want->f) == 0;
	if (want->kind != TGL_ARG_INT || !want->is_free)
		return arg->i == want->i;
	return !dtype_is_int(t) || (assumption_of((uint64_t)arg->i) == want->divides && int_fits(t, arg->i));
}

static bool
same_args(const CachedLaunch *a, const TglArg *args, int nargs)
{
	if (a->nargs != nargs)
		return false;
	for (int i = 0; i < nargs; i++) {
		const CachedArg *want = &a->arg[i];
		if (args[i].kind != want->kind || !same_name(args[i].name, want->name))
			return false;
		if (want->kind == TGL_ARG_TENSOR ? !same_tensor(a, want, args[i].tensor)
						 : !same_value(want, &args[i]))
			return false;
	}
	return true;
}

/* What the kernel writes lies apart from everything else. */
static bool
apart(const CachedLaunch *a, const TglArg *args)
{
	for (int i = 0; i < a->nargs; i++) {
		if (!a->arg[i].is_written)
			continue;
		const char *low = args[i].tensor->data, *high = low + a->arg[i].span;
		for (int j = 0; j < a->nargs; j++) {
			if (j == i || a->arg[j].kind != TGL_ARG_TENSOR)
				continue;
			const char *other = args[j].tensor->data;
			if (low < other + a->arg[j].span && other < high)
				return false;
		}
	}
	return true;
}

/* ---- launching ---- */

static bool
fill_all(const CachedLaunch *a, const TglArg *args)
{
	for (int i = 0; i < a->nfills; i++) {
		const CachedFill *f = &a->fill[i];
		TglTensor *t = f->scratch ? f->scratch : args[f->arg].tensor;
		if (!tensor_set(t, f->value.kind != CONST_FLOAT, f->value.i, f->value.f))
			return false;
	}
	return true;
}

static void
set_value(PlanArg *to, const CachedArg *want, const TglArg *arg)
{
	if (want->kind == TGL_ARG_TENSOR) {
		to->data = arg->tensor->data;
		to->low = arg->tensor->low;
		to->high = arg->tensor->high;
		return;
	}
	to->i = arg->i;
	to->f = arg->kind == TGL_ARG_FLOAT ? arg->f : (double)arg->i;
}

/* Someone records the stream: the graph has scratch tensors of its own. */
static bool
is_recorded(TglDevice *dev)
{
	return dev->dev.queue && dev->dev.queue->recording(&dev->dev, dev->dev.stream) != 0;
}

bool
launch_cache_run(TglDevice *dev, TglKernel *k, const TglArg *args, int nargs, TglStatus *status)
{
	CachedLaunch *a = NULL;
	if (nargs && !args)
		return false;
	for (CachedLaunch **at = &k->launches; *at; at = &(*at)->next) {
		if ((*at)->dev != dev || ((*at)->nheld && (*at)->stream != dev->dev.stream) || !same_args(*at, args, nargs))
			continue;
		a = *at;
		*at = a->next;
		a->next = k->launches;
		k->launches = a;
		break;
	}
	if (!a || dev->recording || !apart(a, args))
		return false;
	if (a->nheld && is_recorded(dev))
		return false;
	TglContext *cx = k->program->cx;
	Fault fault = {.place = NOWHERE, .other = NOWHERE};
	if (cx->error.status != TGL_OK || cx->text.n)
		context_begin(cx);
	for (int i = 0; i < nargs; i++)
		if (a->arg[i].slot >= 0)
			set_value(&a->value[a->arg[i].slot], &a->arg[i], &args[i]);
	launch_hooks(dev);
	bool ok = fill_all(a, args) &&
		  (a->is_empty || instance_start(a->in, a->value, a->grid, &fault));
	instance_keep_recorded(a->in);
	*status = ok ? TGL_OK : device_report(dev, k->program->compile, &fault, k->k);
	if (!ok || !dev->dev.queue)     /* a launch that is over may have warned */
		context_end(cx, *status, k->program->compile);
	return true;
}

/* ---- keeping ---- */

static int
param_of(const TglKernel *k, const Binding *b, const TglArg *arg)
{
	return FIRST_OF(i, k->k->params.n, b->arg[i] == arg);
}

/* Where a parameter stands among the device's arguments: kernel_args or func_args. */
static int
slot_of(const TglKernel *k, const Instance *in, int param)
{
	if (in->dev->dev.load_artefact)
		return param;
	return FIRST_OF(i, in->func->nparam, strcmp(in->func->param[i].name, k->k->params.at[param].name) == 0);
}

/* Whether their maps fit depends on scalars, and how much a kernel before computes. */
static bool
needs_scalars(const Instance *in)
{
	int nmade;
	instance_made(in, &nmade);
	return nmade > 0 || ANY_OF(i, in->artefact.nmaps, in->artefact.map[i].windows);
}

static void
keep_arg(CachedArg *to, const TglKernel *k, const Instance *in, const TglArg *arg, int param,
    const Binding *b)
{
	const TglTensor *t = arg->tensor;
	const char *low, *high;
	*to = (CachedArg){.kind = arg->kind, .i = arg->i, .f = arg->f, .slot = -1};
	to->name = arg->name ? strdup(arg->name) : NULL;
	if (arg->name && !to->name)
		die("no memory");
	if (arg->kind != TGL_ARG_TENSOR) {
		if (param < 0 || k->in_header[param])
			return;
		to->is_free = !needs_scalars(in);
		to->dtype = (TglDType)b->bound.param[param].dtype;
		to->divides = assumption_of((uint64_t)arg->i);
		to->slot = slot_of(k, in, param);
		return;
	}
	tensor_span(t, &low, &high);
	to->is_written = param_is_output(&k->k->params.at[param]);
	to->dtype = t->dtype;
	to->rank = t->rank;
	to->slot = slot_of(k, in, param);
	to->align = alignment(t->data);
	to->span = high - low;
	if (k->k->params.at[param].kind == PARAM_POINTER)
		to->span = t->high - t->data;
	memcpy(to->dim, t->dim, sizeof to->dim);
	memcpy(to->stride, t->stride, sizeof to->stride);
}

/* Fills and scratch tensors, which may point into what is bound only for this launch. */
static void
keep_fills(CachedLaunch *a, const TglKernel *k, const TglArg *args, const Binding *b, TglTensor *const *tensor)
{
	int nmade;
	instance_made(a->in, &nmade);
	for (int i = 0; i < k->k->params.n + nmade; i++) {
		bool scratch = i >= k->k->params.n || param_is_scratch(&k->k->params.at[i]);
		if (scratch && tensor[i]) {
			tensor[i]->refs++;
			a->held[a->nheld++] = tensor[i];
		}
		if (i >= k->k->params.n)
			continue;
		if (!b->bound.param[i].has_fill || !tensor[i])
			continue;
		a->fill[a->nfills++] = (CachedFill){.scratch = scratch ? tensor[i] : NULL,
		    .arg = scratch ? -1 : (int)(b->arg[i] - args),
		    .value = b->bound.param[i].fill};
	}
}

static void
drop_old(TglKernel *k)
{
	CachedLaunch **at = &k->launches;
	for (int i = 0; *at && i < MAX_LAUNCHES; i++)
		at = &(*at)->next;
	while (*at) {
		CachedLaunch *a = *at;
		*at = a->next;
		cached_close(a);
	}
}

/* Arrays all of their room at once. */
static CachedLaunch *
cached_open(int nargs, int nparams, int nvalues)
{
	CachedLaunch *a = memory_new(1, sizeof *a);
	a->nargs = nargs;
	a->arg = memory_new((size_t)nargs, sizeof *a->arg);
	a->fill = memory_new((size_t)nparams, sizeof *a->fill);
	a->held = memory_new((size_t)(nparams + MADE_MOST), sizeof(TglTensor *));
	a->value = memory_new((size_t)nvalues, sizeof *a->value);
	return a;
}

void
launch_cache_add(TglKernel *k, Instance *in, const TglArg *args, int nargs, const Binding *b,
    TglTensor *const *tensor)
{
	int nvalues, nmade;
	instance_made(in, &nmade);
	if ((nmade || ANY_OF(i, k->k->params.n, param_is_scratch(&k->k->params.at[i]))) && is_recorded(in->dev))
		return;
	const PlanArg *value = instance_args(k, in, b, tensor, &nvalues);
	CachedLaunch *a = cached_open(nargs, k->k->params.n, nvalues);
	a->in = in;
	a->dev = in->dev;
	a->stream = in->dev->dev.stream;
	memcpy(a->value, value, sizeof *value * (size_t)nvalues);
	a->is_empty = grid_count(&b->bound, a->grid) == 0;
	for (int i = 0; i < nargs; i++)
		keep_arg(&a->arg[i], k, in, &args[i], param_of(k, b, &args[i]), b);
	keep_fills(a, k, args, b, tensor);
	a->next = k->launches;
	k->launches = a;
	drop_old(k);
}
