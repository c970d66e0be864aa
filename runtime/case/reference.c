/* Runs a kernel's reference: whole-tensor arithmetic in f64, once as it is, and three times more
 * with each operation disturbed at random by up to one unit of roundoff of the coarsest type that
 * the kernel calculates in (Monte Carlo arithmetic, Parker 1997).  What such disturbances do to an
 * element is what rounding in that type may do to it, cancellation and long sums included; check.c
 * makes bounds of it.
 *
 * The unit of roundoff comes from the kernel's own tile IR.  Reads do not count, as they are exact,
 * nor does the conversion that a final store does, as check.c adds that rounding by itself. */
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/case/case.h"

static void
drop_images(Reference *r)
{
	for (int i = 0; i < r->nimages; i++)
		free(r->image[i].memory);
	free(r->image);
	r->image = NULL;
	r->nimages = 0;
}

void
reference_unref(Reference *r)
{
	if (--r->refs > 0)
		return;
	drop_images(r);
	for (int i = 0; i < r->n; i++) {
		for (int j = 0; j < REFERENCE_RUNS; j++)
			free(r->out[i].buffer[j]);
		free(r->out[i].deviation);
	}
	free(r->out);
	free(r);
}

/* ---- the kernel's arithmetic ---- */

/* Unit roundoff, and the least number above 0. */
static const struct {
	double roundoff, least;
} floats[DTYPE_COUNT] = {
    [TY_F16] = {0x1p-11, 0x1p-24},
    [TY_BF16] = {0x1p-8, 0x1p-133},
    [TY_F32] = {0x1p-24, 0x1p-149},
    [TY_F64] = {0x1p-53, 0x1p-1074},
    [TY_F8E4M3] = {0x1p-4, 0x1p-9},
    [TY_F8E5M2] = {0x1p-3, 0x1p-16},
    [TY_F4E2M1] = {0x1p-2, 0.5},
};

double
reference_roundoff(DType t)
{
	return floats[t].roundoff;
}

double
reference_least(DType t)
{
	return floats[t].least > 0 ? floats[t].least : 0x1p-1074;
}

/* Whether an op's results are elements of its operands, or without rounding error. */
static bool
is_exact(const Op *op)
{
	const char *fn = attr_fn(op);
	double from = op->nin ? reference_roundoff(op->in[0]->type->elem) : 0;

	switch (op_info[op->kind].rounding) {
	case ROUNDING_EXACT:
		return true;
	case ROUNDING_BY_FN:
		return strcmp(fn, "sum") != 0 && strcmp(fn, "prod") != 0 && strcmp(fn, "add") != 0;
	case ROUNDING_BY_TYPE:
		return from > 0 && from >= reference_roundoff(op->out[0].type->elem);
	case ROUNDING_NEAREST: case ROUNDING_ULP: case ROUNDING_SUM: case ROUNDING_ANY:
		return false;
	}
	unreachable();
}

static bool
moves_only(const Op *op)
{
	return op->kind == OP_RESHAPE || op->kind == OP_PERMUTE || op->kind == OP_BROADCAST;
}

/* Marks, from the end to the start, values that something other than a store takes. */
static void
mark_used(const Block *b, bool *used)
{
	for (const Op *op = b->last; op; op = op->prev) {
		for (int i = op->nregion - 1; i >= 0; i--)
			mark_used(op->region[i], used);
		bool is_store = op->kind == OP_WRITE || op->kind == OP_STORE;
		bool passes_on = moves_only(op) && !used[op->out[0].id];
		for (int i = 0; i < op->nin && !is_store && !passes_on; i++)
			used[op->in[i]->id] = true;
	}
}

enum { NARROW = 128 };                                  /* docs/math.md */

static void
coarsest(const Block *b, const bool *used, Reference *r)
{
	for (const Op *op = b->first; op; op = op->next) {
		for (int i = 0; i < op->nregion; i++)
			coarsest(op->region[i], used, r);
		if (is_exact(op))
			continue;
		for (int i = 0; i < op->nout; i++) {
			const Type *t = op->out[i].type;
			if (t->ptr || !dtype_is_float(t->elem) ||
			    (op->kind == OP_CAST && !used[op->out[i].id]))
				continue;
			r->roundoff = MAX(r->roundoff, reference_roundoff(t->elem));
			r->least = MAX(r->least, reference_least(t->elem));
		}
		bool is_dot = op->kind == OP_DOT || op->kind == OP_DOT_START;
		if (is_dot && strncmp(attr_precision(op), "tf32", 4) == 0)
			r->roundoff =
			    MAX(r->roundoff, attr_precision(op)[4] ? 0x1p-22 : 0x1p-11);
		if (is_dot && dtype_is_f8(op->in[0]->type->elem))
			r->narrow = MAX(r->narrow, strcmp(attr_precision(op), "fast") == 0 ? INT64_MAX : NARROW);
		if (attr_fast(op))
			r->roundoff = MAX(r->roundoff, 0x1p-21);
	}
}

static void
measure_arithmetic(Func *f, Reference *r)
{
	func_number(f);
	bool *used = memory_new((size_t)f->nvalues, sizeof *used);
	mark_used(f->body, used);
	coarsest(f->body, used, r);
	free(used);
}

/* ---- running the reference ---- */

typedef struct Run {
	pthread_t thread;
	Plan *plan;
	PlanArg *args;
	Fault fault;
	bool ok;
} Run;

static void *
run_main(void *arg)
{
	Run *r = arg;
	const int64_t one[MAX_AXES] = {1, 1, 1};
	r->ok = whole_run(r->plan, r->args, one, &r->fault);
	return NULL;
}

static int
func_param_named(const Func *f, const char *name)
{
	return FIRST_OF(i, f->nparam, strcmp(f->param[i].name, name) == 0);
}

/* The value that an output has before the reference runs: its first one, its fill, or poison. */
static void
set_first(const TglCase *c, const Output *o, char *to)
{
	const BoundParam *p = &c->b.bound.param[o->param];
	DType t = (DType)c->b.tensor[o->param]->dtype;
	const char *first = c->first[o->param];
	int64_t width = c->b.tensor[o->param]->rank
			    ? c->b.tensor[o->param]->dim[c->b.tensor[o->param]->rank - 1]
			    : 1;
	/* the tensor's rows may be packed where the output, in f64, has none that are padded */
	int64_t row = dtype_is_packed(t) ? width + (width & 1) : width, row_to = dtype_is_packed(o->elem) ? row : width;
	if (!first && !p->has_fill) {
		memset(to, o->elem == TY_F64 ? 0xff : 0xa5, (size_t)o->bytes);
		return;
	}
	for (int64_t i = 0; i < o->count; i++) {
		int64_t from = i / width * row + i % width, at = i / width * row_to + i % width;
		if (dtype_is_float(o->elem))
			dtype_store_f64(o->elem, to, at, first ? dtype_load_f64(t, first, from)
			    : p->fill.kind == CONST_FLOAT ? p->fill.f : (double)p->fill.i);
		else
			dtype_store_i64(o->elem, to, at, first ? dtype_load_i64(t, first, from) : p->fill.i);
	}
}

static void
list_outputs(const TglCase *c, const Func *f, Reference *r)
{
	const Kernel *k = c->k->k;
	r->out = memory_new((size_t)k->params.n, sizeof *r->out);
	for (int i = 0; i < k->params.n; i++) {
		bool is_out = param_is_output(&k->params.at[i]);
		int at = is_out ? func_param_named(f, k->params.at[i].name) : -1;
		if (at < 0)
			continue;
		const TglTensor *t = c->b.tensor[i];
		Output *o = &r->out[r->n++];
		o->param = i;
		o->func_param = at;
		o->elem = f->body->arg[at].type->elem;
		tensor_size((TglDType)o->elem, t->rank, t->dim, &o->count, &o->bytes);
	}
}

/* Refused with both figures if the machine could not hold what checking needs beside the tensors: outputs of each run, and
 * what one run has of values between them. */
static bool
enough_memory(const TglCase *c, const Reference *r, size_t scratch)
{
	uint64_t all = device_host_memory();
	double need = (double)c->dev->allocated + (double)scratch;
	for (int i = 0; i < r->n; i++)
		need += (double)r->out[i].bytes * r->nruns + 8.0 * (double)r->out[i].count;
	if (all == 0 || need <= (double)all)
		return true;
	Fault fault = {.kind = FAULT_MEMORY, .place = NOWHERE, .other = NOWHERE};
	number_format(fault.text, sizeof fault.text,
	    "checking needs %.1f GiB for tensors and the reference's whole values, in f64, and this machine has %.1f; "
	    "make the dimensions smaller, as with -D NAME=VALUE, choose another example by --example, or mark it 'bench'",
	    need / (1 << 30), (double)all / (1 << 30));
	fault_report(c->k->program->compile, &fault, c->k->k);
	return false;
}

static bool
make_outputs(const TglCase *c, const Func *f, Reference *r)
{
	list_outputs(c, f, r);
	if (!enough_memory(c, r, 0))
		return false;
	for (int i = 0; i < r->n; i++)
		for (int j = 0; j < r->nruns; j++) {
			r->out[i].buffer[j] = malloc((size_t)MAX(r->out[i].bytes, 1));
			if (!r->out[i].buffer[j])
				return false;
			set_first(c, &r->out[i], r->out[i].buffer[j]);
		}
	return true;
}

/* On a device whose memory the host can't reach, what the reference reads is brought over. */
static bool
fetch_inputs(const TglCase *c, Reference *r)
{
	const Kernel *k = c->k->k;
	if (c->dev->dev.host)
		return true;
	r->image = memory_new((size_t)k->params.n, sizeof *r->image);
	for (int i = 0; i < k->params.n; i++) {
		r->nimages = i + 1;
		if (c->b.tensor[i] && !tensor_image(c->b.tensor[i], &r->image[i]))
			return false;
	}
	return true;
}

static PlanArg *
run_args(const TglCase *c, Arena *mem, const Func *f, const Reference *r, int run)
{
	PlanArg *args = func_args(mem, f, c->k->k, &c->b.bound, c->b.tensor, c->b.info);
	for (int i = 0; i < f->nparam && i < r->nimages; i++)
		if (r->image[i].memory)
			image_arg(&r->image[i], &args[i]);
	for (int i = 0; i < r->n; i++) {
		const Output *o = &r->out[i];
		const TglTensor *t = c->b.tensor[o->param];
		PlanArg *a = &args[o->func_param];
		a->data = a->low = o->buffer[run];
		a->high = a->low + o->bytes;
		tensor_contiguous((TglDType)o->elem, t->rank, t->dim, a->stride);
	}
	return args;
}

/* Runs from .. to - 1, each on a thread of its own as far as the system gives them. */
static void
run_together(Run *run, int from, int to)
{
	int started = from + 1;
	while (started < to &&
	       thread_start(&run[started].thread, run_main, &run[started]))
		started++;
	run_main(&run[from]);
	for (int i = started; i < to; i++)
		run_main(&run[i]);
	for (int i = from + 1; i < started; i++)
		pthread_join(run[i].thread, NULL);
}

/* As many at once as the device has threads and the machine memory for whole tensors. */
static int
runs_at_once(const TglCase *c, const Plan *plan)
{
	TglDeviceInfo info = {0};
	c->dev->dev.info(&c->dev->dev, &info);
	uint64_t need = plan_scratch_bytes(plan), all = device_host_memory() / 2;
	int n = MAX(info.threads, 1);
	return all && need && all / need < (uint64_t)n ? (int)MAX(all / need, 1) : n;
}

static bool
open_runs(const TglCase *c, Compile *cx, Func *f, const Reference *r, Run *run)
{
	for (int i = 0; i < r->nruns; i++) {
		PlanOptions opt = {.perturb = i ? r->roundoff : 0, .narrow = r->narrow, .seed = (uint64_t)i};
		const char *why = "";
		run[i].fault.place = run[i].fault.other = NOWHERE;
		run[i].args = run_args(c, cx->tmp, f, r, i);
		run[i].plan = plan_open(f, &opt, &why);
		if (!run[i].plan)
			return diag_error(cx, f->place, DIAG_DEVICE_LOAD, f->name, "cpu", why);
	}
	return true;
}

/* The exact run and the disturbed ones. */
static TglStatus
run_all(const TglCase *c, Compile *cx, Func *f, const Reference *r)
{
	Run run[REFERENCE_RUNS] = {0};
	TglStatus s = open_runs(c, cx, f, r, run) ? TGL_OK : TGL_ERROR_DEVICE;
	if (s == TGL_OK && !enough_memory(c, r, plan_scratch_bytes(run[0].plan)))
		s = TGL_ERROR_MEMORY;
	int step = s == TGL_OK ? runs_at_once(c, run[0].plan) : 1;
	for (int from = 0; s == TGL_OK && from < r->nruns; from += step)
		run_together(run, from, MIN(from + step, r->nruns));
	for (int i = 0; i < r->nruns; i++) {
		if (s == TGL_OK && !run[i].ok) {
			fault_report(cx, &run[i].fault, c->k->k);
			s = run[i].fault.kind == FAULT_MEMORY ? TGL_ERROR_MEMORY : TGL_ERROR_FAULT;
		}
		if (run[i].plan)
			plan_close(run[i].plan);
	}
	return s;
}

static bool
measure_deviation(Reference *r)
{
	for (int i = 0; i < r->n; i++) {
		Output *o = &r->out[i];
		if (!dtype_is_float(o->elem) || r->roundoff == 0)
			continue;
		const double *exact = (const double *)o->buffer[0];
		double sum = 0;
		o->deviation = calloc((size_t)MAX(o->count, 1), sizeof *o->deviation);
		if (!o->deviation)
			return false;
		for (int64_t e = 0; e < o->count; e++) {
			for (int j = 1; j < REFERENCE_RUNS; j++) {
				double d = fabs(((const double *)o->buffer[j])[e] - exact[e]);
				if (isfinite(d))
					o->deviation[e] = MAX(o->deviation[e], d);
			}
			sum += o->deviation[e] * o->deviation[e];
		}
		o->rms = sqrt(sum / (double)MAX(o->count, 1));
		for (int j = 1; j < REFERENCE_RUNS; j++) {
			free(o->buffer[j]);
			o->buffer[j] = NULL;
		}
	}
	return true;
}

/* Its module, the kernel's arithmetic, its key; or one that is kept. */
static TglStatus
begin(TglCase *c)
{
	Compile *cx = c->k->program->compile;
	Kernel *k = c->k->k;
	if (!k->reference) {
		diag_error(cx, k->item->name_place, DIAG_NO_REFERENCE, k->name);
		return TGL_ERROR_NAME;
	}
	TglStatus s;
	Func *f = case_func(c, &s), *source = case_source(c, &s);
	if (!f || !source)
		return s;
	Arena *keep = compile_into(cx, c->b.mem);
	c->whole = reference_module(k, &c->b.bound);
	compile_into(cx, keep);
	if (!c->whole)
		return TGL_ERROR_SOURCE;
	Reference *r = c->reference = memory_new(1, sizeof *r);
	r->refs = 1;
	measure_arithmetic(f, r);
	measure_arithmetic(source, r);
	r->nruns = r->roundoff > 0 ? REFERENCE_RUNS : 1;
	r->keeps = reference_key(c, c->whole, r);
	Reference *kept = r->keeps ? reference_find(c->dev->cx, &r->key) : NULL;
	if (kept) {
		c->reference = kept;
		reference_unref(r);
	}
	return TGL_OK;
}

static TglStatus
make(TglCase *c)
{
	Reference *r = c->reference;
	Func *f = c->whole->funcs.at[0];
	if (!fetch_inputs(c, r) || !make_outputs(c, f, r))
		return TGL_ERROR_MEMORY;
	TglStatus s = run_all(c, c->k->program->compile, f, r);
	drop_images(r);
	if (s != TGL_OK)
		return s;
	if (!measure_deviation(r))
		return TGL_ERROR_MEMORY;
	r->made = true;
	if (r->keeps)
		reference_keep(c->dev->cx, r);
	return TGL_OK;
}

static TglStatus
dropped(TglCase *c, TglStatus s)
{
	if (s != TGL_OK && c->reference) {
		reference_unref(c->reference);
		c->reference = NULL;
	}
	return s;
}

TglStatus
reference_make(TglCase *c)
{
	TglStatus s = c->reference ? TGL_OK : begin(c);
	return dropped(c, s == TGL_OK && !c->reference->made ? make(c) : s);
}

static double
elements(const TglCase *c, Func *f, const int64_t grid[MAX_AXES])
{
	Arena *tmp = c->k->program->compile->tmp;
	return MAX(0, work_elements(f, func_args(tmp, f, c->k->k, &c->b.bound, c->b.tensor, c->b.info), grid));
}

/* An element of a whole tensor in f64, disturbed and in no cache, takes 10 ns, one of a kernel's tile one. */
double
case_seconds(TglCase *c)
{
	int64_t grid[MAX_AXES] = {1, 1, 1};
	TglDeviceInfo info = {0};
	TglStatus s = TGL_OK;
	double seconds = 0;
	context_begin(c->dev->cx);
	c->dev->dev.info(&c->dev->dev, &info);
	int threads = c->dev->dev.host ? MAX(info.threads, 1) : REFERENCE_RUNS;
	if (c->k->k->reference && !c->reference)
		s = dropped(c, begin(c));
	const Reference *r = c->reference;
	if (r && !r->made)
		seconds = 10e-9 * elements(c, c->whole->funcs.at[0], grid) * r->nruns / MIN(threads, r->nruns);
	Func *f = s == TGL_OK && strcmp(c->dev->dev.target, "cpu") == 0 ? case_func(c, &s) : NULL;
	grid_count(&c->b.bound, grid);
	seconds += f ? 1e-9 * elements(c, f, grid) / threads : 0;
	context_end(c->dev->cx, s, c->k->program->compile);
	return seconds;
}
