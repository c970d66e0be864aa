/* A launch like an earlier one: the same kernel, names, dtypes, shapes, strides and values, other
 * pointers.  Then nothing needs to be bound, checked at length or looked up: the arguments are
 * compared with the earlier ones, the pointers put in their places, and the device launches.
 *
 * What a launch checks is checked here too.  All that depends on addresses alone is alignment, which
 * must be what the compiled form was made for, and overlap, of which the quick answer "their memory
 * does not even touch" is enough; anything else takes the long way. */
#include <stdlib.h>
#include <string.h>

#include "runtime/runtime.h"

enum { MAX_AGAIN = 16, ALIGN_MASK = 15 };

typedef struct AgainArg {
	char *name;                     /* NULL: by position */
	TglArgKind kind;
	bool writes;                    /* the kernel does */
	TglDType dtype;
	int rank;
	int slot;                       /* of its pointer; -1: the kernel does not take it */
	unsigned align;                 /* the address's lowest bits */
	int64_t dim[TGL_MAX_RANK], stride[TGL_MAX_RANK];
	int64_t span;                   /* bytes from its first element to its end */
	bool is_free;                   /* a scalar that no compiled form depends on beyond `divides` */
	int64_t divides;                /* the power of two that its value is a multiple of */
	int64_t i;
	double f;
} AgainArg;

typedef struct AgainFill {
	TglTensor *scratch;             /* or */
	int arg;
	const Const *value;
} AgainFill;

typedef struct Again Again;
struct Again {
	Again *next;
	Instance *in;
	TglDevice *dev;
	int nargs;
	AgainArg *arg;
	AgainFill *fill;
	int nfills;
	Const *constants;
	TglTensor **held;               /* scratch tensors */
	int nheld;
	Packed packed;
};

static unsigned
alignment(const void *p)
{
	uintptr_t bits = (uintptr_t)p | (ALIGN_MASK + 1);
	return (unsigned)(bits & (~bits + 1));
}

static void
again_close(Again *a)
{
	for (int i = 0; i < a->nheld; i++)
		tensor_unref(a->held[i]);
	for (int i = 0; i < a->nargs; i++)
		free(a->arg[i].name);
	free(a->arg);
	free(a->fill);
	free(a->constants);
	free(a->held);
	free(a->packed.value);
	free(a->packed.at);
	free(a);
}

void
again_forget(TglKernel *k, const Instance *in)
{
	for (Again **at = &k->again; *at;) {
		Again *a = *at;
		if (in && a->in != in) {
			at = &a->next;
			continue;
		}
		*at = a->next;
		again_close(a);
	}
}

/* ---- comparing ---- */

static bool
same_name(const char *a, const char *b)
{
	return a && b ? strcmp(a, b) == 0 : a == b;
}

static bool
same_tensor(const Again *a, const AgainArg *want, const TglTensor *t)
{
	if (!t || t->dev != a->dev || t->rank != want->rank || t->dtype != want->dtype ||
	    alignment(t->data) != want->align)
		return false;
	for (int d = 0; d < t->rank; d++)
		if (t->dim[d] != want->dim[d] || t->stride[d] != want->stride[d])
			return false;
	return t->high - t->data >= want->span;
}

/* Other values of a scalar are welcome where they need neither another header nor another compiled
 * form. */
static bool
same_value(const AgainArg *want, const TglArg *arg)
{
	DType t = (DType)want->dtype;
	if (want->kind == TGL_ARG_FLOAT)
		return want->is_free || memcmp(&arg->f, &want->f, sizeof want->f) == 0;
	if (want->kind != TGL_ARG_INT || !want->is_free)
		return arg->i == want->i;
	return !dtype_is_int(t) || (promise_of((uint64_t)arg->i) == want->divides && dtype_holds(t, arg->i));
}

static bool
same_args(const Again *a, const TglArg *args, int nargs)
{
	if (a->nargs != nargs)
		return false;
	for (int i = 0; i < nargs; i++) {
		const AgainArg *want = &a->arg[i];
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
apart(const Again *a, const TglArg *args)
{
	for (int i = 0; i < a->nargs; i++) {
		if (!a->arg[i].writes)
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
fill_all(const Again *a, const TglArg *args)
{
	for (int i = 0; i < a->nfills; i++) {
		const AgainFill *f = &a->fill[i];
		TglTensor *t = f->scratch ? f->scratch : args[f->arg].tensor;
		if (!tensor_set(t, f->value->kind != CONST_FLOAT, f->value->i, f->value->f))
			return false;
	}
	return true;
}

static uint64_t
value_of(const AgainArg *want, const TglArg *arg)
{
	if (want->kind == TGL_ARG_TENSOR)
		return (uint64_t)(uintptr_t)arg->tensor->data;
	const PlanArg v = {.i = arg->i, .f = arg->kind == TGL_ARG_FLOAT ? arg->f : (double)arg->i};
	return scalar_bits((DType)want->dtype, &v);
}

bool
again_launch(TglDevice *dev, TglKernel *k, const TglArg *args, int nargs, TglStatus *status)
{
	Again *a = NULL;
	if (nargs && !args)
		return false;
	for (Again **at = &k->again; *at; at = &(*at)->next) {
		if ((*at)->dev != dev || !same_args(*at, args, nargs))
			continue;
		a = *at;
		*at = a->next;
		a->next = k->again;
		k->again = a;
		break;
	}
	if (!a || dev->recording || !apart(a, args))
		return false;
	TglContext *cx = k->program->cx;
	if (cx->error.status != TGL_OK || cx->text.n)
		context_begin(cx);
	for (int i = 0; i < nargs; i++)
		if (a->arg[i].slot >= 0)
			a->packed.value[a->arg[i].slot] = value_of(&a->arg[i], &args[i]);
	*status = TGL_OK;
	if (fill_all(a, args) && dev->dev.launch_packed(&dev->dev, &a->packed))
		return true;
	*status = device_report(dev, k->program->compile, NULL, k->k);
	context_fail(cx, *status, k->program->compile);
	return true;
}

/* ---- remembering ---- */

static int
param_of(const TglKernel *k, const Binding *b, const TglArg *arg)
{
	for (int i = 0; i < k->k->params.n; i++)
		if (b->arg[i] == arg)
			return i;
	return -1;
}

static bool
is_written(const KernelParam *p)
{
	return p->kind == PARAM_TENSOR ? p->access == ACCESS_OUT || p->access == ACCESS_INOUT
				       : p->kind == PARAM_POINTER && p->ptr == PTR_MUT;
}

static int
slot_of(const Instance *in, AbiKind kind, int param)
{
	for (int i = 0; param >= 0 && i < in->artefact.nabi; i++)
		if (in->artefact.abi[i].kind == kind && in->artefact.abi[i].param == param)
			return i;
	return -1;
}

static void
keep_arg(AgainArg *to, const TglKernel *k, const Instance *in, const TglArg *arg, int param,
    const Binding *b)
{
	const TglTensor *t = arg->tensor;
	const char *low, *high;
	*to = (AgainArg){.kind = arg->kind, .i = arg->i, .f = arg->f, .slot = -1};
	to->name = arg->name ? strdup(arg->name) : NULL;
	if (arg->name && !to->name)
		die("no memory");
	if (arg->kind != TGL_ARG_TENSOR) {
		if (param < 0 || k->in_header[param])
			return;
		to->is_free = true;
		to->dtype = (TglDType)b->bound.param[param].dtype;
		to->divides = promise_of((uint64_t)arg->i);
		to->slot = slot_of(in, ABI_SCALAR, param);
		return;
	}
	tensor_span(t, &low, &high);
	to->writes = is_written(&k->k->params.at[param]);
	to->dtype = t->dtype;
	to->rank = t->rank;
	to->slot = slot_of(in, ABI_POINTER, param);
	to->align = alignment(t->data);
	to->span = high - low;
	if (k->k->params.at[param].kind == PARAM_POINTER)
		to->span = t->high - t->data;
	memcpy(to->dim, t->dim, sizeof to->dim);
	memcpy(to->stride, t->stride, sizeof to->stride);
}

/* Fills and scratch tensors, which may point into what is bound only for this launch. */
static void
keep_fills(Again *a, const TglKernel *k, const TglArg *args, const Binding *b, TglTensor *const *tensor)
{
	for (int i = 0; i < k->k->params.n; i++) {
		const KernelParam *p = &k->k->params.at[i];
		bool scratch = p->kind == PARAM_TENSOR && p->access == ACCESS_SCRATCH;
		if (scratch && tensor[i]) {
			tensor[i]->refs++;
			a->held[a->nheld++] = tensor[i];
		}
		if (!b->bound.param[i].has_fill || !tensor[i])
			continue;
		a->constants[a->nfills] = b->bound.param[i].fill;
		a->fill[a->nfills] = (AgainFill){.scratch = scratch ? tensor[i] : NULL,
		    .arg = scratch ? -1 : (int)(b->arg[i] - args),
		    .value = &a->constants[a->nfills]};
		a->nfills++;
	}
}

static void
drop_old(TglKernel *k)
{
	Again **at = &k->again;
	for (int i = 0; *at && i < MAX_AGAIN; i++)
		at = &(*at)->next;
	while (*at) {
		Again *a = *at;
		*at = a->next;
		again_close(a);
	}
}

/* Arrays all of their room at once. */
static Again *
again_open(int nargs, int nparams, int nabi)
{
	Again *a = calloc(1, sizeof *a);
	if (!a)
		die("no memory");
	a->nargs = nargs;
	a->arg = calloc((size_t)MAX(nargs, 1), sizeof *a->arg);
	a->fill = calloc((size_t)MAX(nparams, 1), sizeof *a->fill);
	a->constants = calloc((size_t)MAX(nparams, 1), sizeof *a->constants);
	a->held = calloc((size_t)MAX(nparams, 1), sizeof(TglTensor *));
	a->packed.value = calloc((size_t)MAX(nabi, 1), sizeof *a->packed.value);
	a->packed.at = calloc((size_t)MAX(nabi, 1), sizeof(void *));
	if (!a->arg || !a->fill || !a->constants || !a->held || !a->packed.value || !a->packed.at)
		die("no memory");
	return a;
}

void
again_keep(TglKernel *k, Instance *in, const TglArg *args, int nargs, const Binding *b,
    TglTensor *const *tensor)
{
	Again *a = again_open(nargs, k->k->params.n, in->artefact.nabi);
	a->in = in;
	a->dev = in->dev;
	for (int i = 0; i < nargs; i++)
		keep_arg(&a->arg[i], k, in, &args[i], param_of(k, b, &args[i]), b);
	keep_fills(a, k, args, b, tensor);
	if (!instance_pack(k, in, b, tensor, &a->packed)) {
		again_close(a);
		return;
	}
	a->next = k->again;
	k->again = a;
	drop_old(k);
}
