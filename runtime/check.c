/* Compares what a kernel left in its outputs with its reference.
 *
 * The reference is whole-tensor arithmetic in f64, run once as it is.  How far a right kernel may
 * be off follows from the arithmetic that it does, by Monte Carlo arithmetic (Parker 1997): the
 * reference runs three times more with each of its operations disturbed at random by up to one unit
 * of roundoff u of the coarsest type that the kernel calculates in.  What such disturbances do to
 * an element is what rounding in that type may do to it, cancellation and long sums included.  With
 * d the greatest of the three deviations there, and r the root mean square of all deviations in the
 * tensor, an element may be off by
 *
 *     16 * max(d, r)  +  one rounding of the output's type  +  its least number
 *
 * The factor covers that three samples are few, and that a kernel's order of operations is another.
 * Reads do not count for u, as they are exact, nor does the conversion that a final store does, as
 * it is the rounding in the sum.  Integers must be equal. */
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/runtime.h"

enum { RUNS = 4, SLACK = 16 }; /* the exact run first */

typedef struct Output {
	int param;      /* of the kernel */
	int func_param; /* of the reference */
	DType elem;     /* in the reference: f64, or the integer type */
	int64_t count, bytes;
	char *buffer[RUNS];
	double *deviation; /* NULL: integers */
	double rms;
} Output;

typedef struct Reference {
	Output *out;
	int n;
	double roundoff, least; /* of the kernel's arithmetic */
} Reference;

void
reference_close(Reference *r)
{
	for (int i = 0; i < r->n; i++) {
		for (int j = 0; j < RUNS; j++)
			free(r->out[i].buffer[j]);
		free(r->out[i].deviation);
	}
	free(r->out);
	free(r);
}

/* ---- the kernel's arithmetic ---- */

static double
type_roundoff(DType t)
{
	switch (t) {
	case TY_F16: return 0x1p-11;
	case TY_BF16: return 0x1p-8;
	case TY_F32: return 0x1p-24;
	case TY_F64: return 0x1p-53;
	case TY_F8E4M3: return 0x1p-4;
	case TY_F8E5M2: return 0x1p-3;
	case TY_F4E2M1: return 0x1p-2;
	default: return 0;
	}
}

/* The least number above 0. */
static double
type_least(DType t)
{
	switch (t) {
	case TY_F16: return 0x1p-24;
	case TY_BF16: return 0x1p-133;
	case TY_F32: return 0x1p-149;
	case TY_F8E4M3: return 0x1p-9;
	case TY_F8E5M2: return 0x1p-16;
	case TY_F4E2M1: return 0.5;
	default: return 0x1p-1074;
	}
}

/* Ops whose results are elements of their operands, or exact: no rounding. */
static bool
is_exact(const Op *op)
{
	switch (op->kind) {
	case OP_CONST:
	case OP_IOTA:
	case OP_READ:
	case OP_LOAD:
	case OP_NEG:
	case OP_ABS:
	case OP_MIN:
	case OP_MAX:
	case OP_SELECT:
	case OP_BITCAST:
	case OP_RESHAPE:
	case OP_PERMUTE:
	case OP_BROADCAST:
	case OP_CAT:
	case OP_JOIN:
	case OP_SPLIT:
	case OP_FLIP:
	case OP_EXTRACT:
	case OP_SORT:
	case OP_TOPK:
	case OP_GATHER:
	case OP_FOR:
	case OP_WHILE:
	case OP_IF:
	case OP_REDUCE_FN:
	case OP_SCAN_FN:
	case OP_FLOOR:
	case OP_CEIL:
	case OP_ROUND:
	case OP_TRUNC:
	case OP_PTR_ADD: return true;
	case OP_REDUCE:
	case OP_SCAN:
		return strcmp(op_text(op, "fn"), "sum") != 0 &&
		       strcmp(op_text(op, "fn"), "prod") != 0;
	case OP_CAST:
		return type_roundoff(op->in[0]->type->elem) > 0 &&
		       type_roundoff(op->in[0]->type->elem) >= type_roundoff(op->out[0].type->elem);
	default: return false;
	}
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
			r->roundoff = MAX(r->roundoff, type_roundoff(t->elem));
			r->least = MAX(r->least, type_least(t->elem));
		}
		if (op->kind == OP_DOT && strncmp(op_text(op, "precision"), "tf32", 4) == 0)
			r->roundoff =
			    MAX(r->roundoff, op_text(op, "precision")[4] ? 0x1p-22 : 0x1p-11);
		if (op_bool(op, "fast"))
			r->roundoff = MAX(r->roundoff, 0x1p-21);
	}
}

static bool
measure_arithmetic(Func *f, Reference *r)
{
	func_number(f);
	bool *used = calloc((size_t)MAX(f->nvalues, 1), sizeof *used);
	if (!used)
		return false;
	mark_used(f->body, used);
	coarsest(f->body, used, r);
	free(used);
	return true;
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

static bool
is_output(const KernelParam *p)
{
	return p->kind == PARAM_TENSOR ? p->access == ACCESS_OUT || p->access == ACCESS_INOUT
				       : p->kind == PARAM_POINTER && p->ptr == PTR_MUT;
}

static int
func_param_named(const Func *f, const char *name)
{
	for (int i = 0; i < f->nparam; i++)
		if (strcmp(f->param[i].name, name) == 0)
			return i;
	return -1;
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
	int64_t row = dtype_is_packed(t) ? width + (width & 1) : width;
	if (!first && !p->has_fill) {
		memset(to, o->elem == TY_F64 ? 0xff : 0xa5, (size_t)o->bytes);
		return;
	}
	for (int64_t i = 0; i < o->count; i++) {
		int64_t at = i / width * row + i % width;
		if (dtype_is_float(o->elem))
			dtype_store_f64(o->elem, to, at,
			    first                         ? dtype_load_f64(t, first, at)
			    : p->fill.kind == CONST_FLOAT ? p->fill.f
							  : (double)p->fill.i);
		else
			dtype_store_i64(
			    o->elem, to, at, first ? dtype_load_i64(t, first, at) : p->fill.i);
	}
}

static bool
make_outputs(const TglCase *c, const Func *f, Reference *r)
{
	const Kernel *k = c->k->k;
	r->out = calloc((size_t)MAX(k->params.n, 1), sizeof *r->out);
	for (int i = 0; r->out && i < k->params.n; i++) {
		int at =
		    is_output(&k->params.at[i]) ? func_param_named(f, k->params.at[i].name) : -1;
		if (at < 0)
			continue;
		const TglTensor *t = c->b.tensor[i];
		Output *o = &r->out[r->n++];
		o->param = i;
		o->func_param = at;
		o->elem = f->body->arg[at].type->elem;
		tensor_size((TglDType)o->elem, t->rank, t->dim, &o->count, &o->bytes);
		for (int j = 0; j < (r->roundoff > 0 ? RUNS : 1); j++) {
			o->buffer[j] = malloc((size_t)MAX(o->bytes, 1));
			if (!o->buffer[j])
				return false;
			set_first(c, o, o->buffer[j]);
		}
	}
	return r->out != NULL;
}

static PlanArg *
run_args(const TglCase *c, Arena *mem, const Func *f, const Reference *r, int run)
{
	PlanArg *args = func_args(mem, f, c->k->k, &c->b.bound, c->b.tensor, c->b.info);
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

/* The exact run and the disturbed ones, each on a thread of its own if the device has them. */
static bool
run_all(const TglCase *c, Compile *cx, Func *f, const Reference *r)
{
	Run run[RUNS] = {0};
	int n = r->roundoff > 0 ? RUNS : 1;
	const char *why = "";
	bool ok = true;
	for (int i = 0; i < n && ok; i++) {
		PlanOptions opt = {.perturb = i ? r->roundoff : 0, .seed = (uint64_t)i};
		run[i].fault.place = run[i].fault.other = NOWHERE;
		run[i].args = run_args(c, cx->tmp, f, r, i);
		run[i].plan = plan_open(f, &opt, &why);
		if (!run[i].plan) {
			diag_error(cx, f->place, DIAG_DEVICE_LOAD, f->name, "cpu", why);
			ok = false;
		}
	}
	TglDeviceInfo info = {0};
	c->dev->dev.info(&c->dev->dev, &info);
	int step = !ok ? n : MIN(MAX(info.threads, 1), n);
	for (int from = 0; ok && from < n; from += step) {
		int to = MIN(from + step, n), started = from + 1;
		while (started < to &&
		       pthread_create(&run[started].thread, NULL, run_main, &run[started]) == 0)
			started++;
		run_main(&run[from]);
		for (int i = started; i < to; i++)
			run_main(&run[i]);
		for (int i = from + 1; i < started; i++)
			pthread_join(run[i].thread, NULL);
	}
	for (int i = 0; i < n; i++) {
		if (ok && !run[i].ok) {
			fault_report(cx, &run[i].fault, c->k->k);
			ok = false;
		}
		if (run[i].plan)
			plan_close(run[i].plan);
	}
	return ok;
}

/* Elements of a packed output stand in rows that begin on a byte. */
static int64_t
element_at(const TglTensor *t, int64_t i)
{
	if (!dtype_is_packed((DType)t->dtype) || t->rank == 0)
		return i;
	int64_t width = t->dim[t->rank - 1];
	return i / width * (width + (width & 1)) + i % width;
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
			for (int j = 1; j < RUNS; j++) {
				double d = fabs(((const double *)o->buffer[j])[e] - exact[e]);
				if (isfinite(d))
					o->deviation[e] = MAX(o->deviation[e], d);
			}
			sum += o->deviation[e] * o->deviation[e];
		}
		o->rms = sqrt(sum / (double)MAX(o->count, 1));
		for (int j = 1; j < RUNS; j++) {
			free(o->buffer[j]);
			o->buffer[j] = NULL;
		}
	}
	return true;
}

static TglStatus
make_reference(TglCase *c)
{
	Compile *cx = c->k->program->compile;
	Kernel *k = c->k->k;
	if (!k->reference) {
		diag_error(cx, k->item->name_place, DIAG_NO_REFERENCE, k->name);
		return TGL_ERROR_NAME;
	}
	TglStatus s;
	Instance *in = instance_find(c->k, &c->b.bound, c->dev, &s);
	if (!in)
		return s;
	Arena *keep = compile_into(cx, c->b.mem);
	Module *m = reference_module(k, &c->b.bound);
	compile_into(cx, keep);
	if (!m)
		return TGL_ERROR_SOURCE;
	c->reference = calloc(1, sizeof *c->reference);
	if (!c->reference || !measure_arithmetic(in->func, c->reference) ||
	    !make_outputs(c, m->funcs.at[0], c->reference))
		return TGL_ERROR_MEMORY;
	if (!run_all(c, cx, m->funcs.at[0], c->reference))
		return TGL_ERROR_FAULT;
	return measure_deviation(c->reference) ? TGL_OK : TGL_ERROR_MEMORY;
}

/* ---- comparing ---- */

typedef struct Bounds {
	bool fixed; /* tolerance(abs, rel) */
	double abs, rel;
	double roundoff, least;
} Bounds;

static double
bound_of(const Bounds *b, const Output *o, int64_t e, double got, double want)
{
	if (b->fixed)
		return b->abs + b->rel * fabs(want);
	double d = o->deviation ? MAX(o->deviation[e], o->rms) : 0;
	return SLACK * d + b->roundoff * MAX(fabs(want), fabs(got)) + b->least;
}

/* What the reference's value is once it stands in the output's type. */
static double
rounded(DType t, double v)
{
	char one[16] = {0};
	dtype_store_f64(t, one, 0, v);
	return dtype_load_f64(t, one, 0);
}

static bool
is_same(DType t, double got, double want)
{
	double r = rounded(t, want);
	return got == want || got == r || (isnan(got) && (isnan(want) || isnan(r)));
}

static void
take_worst(
    TglCheck *out, double ratio, double error, double bound, double got, double want, int64_t e)
{
	if (out->element >= 0 && !(ratio > out->ratio))
		return;
	out->ratio = ratio;
	out->error = error;
	out->bound = bound;
	out->got = got;
	out->want = want;
	out->element = e;
}

static void
compare_floats(
    const TglTensor *t, const Output *o, const Bounds *b, const char *got_data, TglCheck *out)
{
	DType type = (DType)t->dtype;
	const double *exact = (const double *)o->buffer[0];
	for (int64_t e = 0; e < o->count; e++) {
		double got = dtype_load_f64(type, got_data, element_at(t, e)), want = exact[e];
		double error = fabs(got - want), bound, ratio;
		if (isfinite(got) && isfinite(want)) {
			bound = bound_of(b, o, e, got, want);
			ratio = error <= bound && error == 0 ? 0 : error / bound;
			out->max_error = MAX(out->max_error, error);
			if (ratio > 1 && is_same(type, got, want))
				ratio = 1;
		} else {
			bound = 0;
			ratio = is_same(type, got, want) ? 0 : INFINITY;
		}
		out->nwrong += ratio > 1;
		take_worst(out, ratio, ratio > 0 ? error : 0, bound, got, want, e);
	}
}

static void
compare_integers(
    const TglTensor *t, const Output *o, const Bounds *b, const char *got_data, TglCheck *out)
{
	DType type = (DType)t->dtype;
	for (int64_t e = 0; e < o->count; e++) {
		int64_t at = element_at(t, e);
		int64_t got = dtype_load_i64(type, got_data, at),
			want = dtype_load_i64(o->elem, o->buffer[0], at);
		double error = fabs((double)got - (double)want), bound = 0,
		       ratio = got == want ? 0 : INFINITY;
		if (b->fixed && got != want) {
			bound = b->abs + b->rel * fabs((double)want);
			ratio = bound > 0 ? error / bound : INFINITY;
		}
		out->max_error = MAX(out->max_error, error);
		out->nwrong += ratio > 1;
		take_worst(out, ratio, error, bound, (double)got, (double)want, e);
	}
}

static TglStatus
compare(TglCase *c, const Output *o, TglCheck *out)
{
	const TglTensor *t = c->b.tensor[o->param];
	DType type = (DType)t->dtype;
	Bounds b = {
	    .roundoff = type_roundoff(type), .least = MAX(type_least(type), c->reference->least)};
	b.fixed = c->example && example_tolerance(c->k->k, c->example, &b.abs, &b.rel);
	*out = (TglCheck){.param = c->k->k->params.at[o->param].name,
	    .element = -1,
	    .rank = t->rank,
	    .count = o->count};
	size_t bytes = tgl_tensor_bytes(t);
	char *got = malloc(bytes ? bytes : 1);
	if (!got || !tensor_copy_out(t, got)) {
		free(got);
		return TGL_ERROR_MEMORY;
	}
	if (dtype_is_float(type))
		compare_floats(t, o, &b, got, out);
	else
		compare_integers(t, o, &b, got, out);
	free(got);
	int64_t left = out->element;
	for (int d = t->rank - 1; left >= 0 && d >= 0; d--) {
		out->index[d] = left % t->dim[d];
		left /= t->dim[d];
	}
	out->guard_broken = !tensor_guard_whole(t);
	out->passed = out->nwrong == 0 && !out->guard_broken;
	return TGL_OK;
}

static TglStatus
check(TglCase *c, int i, TglCheck *out, bool *more)
{
	Compile *cx = c->k->program->compile;
	if (!c->has_run) {
		diag_error(cx, NOWHERE, DIAG_NOT_RUN);
		return TGL_ERROR_USAGE;
	}
	TglStatus s = c->reference ? TGL_OK : make_reference(c);
	if (s != TGL_OK) {
		if (c->reference)
			reference_close(c->reference);
		c->reference = NULL;
		return s;
	}
	*more = i >= 0 && i < c->reference->n;
	return *more ? compare(c, &c->reference->out[i], out) : TGL_OK;
}

TglStatus
tgl_case_check(TglCase *c, int i, TglCheck *out, bool *more)
{
	bool ignored;
	if (!c)
		return TGL_ERROR_USAGE;
	TglContext *cx = c->dev->cx;
	context_begin(cx);
	if (context_null(cx, out, "tgl_case_check", "out"))
		return TGL_ERROR_USAGE;
	return context_end(cx, check(c, i, out, more ? more : &ignored), c->k->program->compile);
}
