/* Compares what a kernel left in its outputs with its reference.
 *
 * reference.c runs it exactly and disturbed by rounding errors of the type that the kernel
 * calculates in.  With d the greatest of the three deviations of an element, and r the root mean
 * square of all deviations in the tensor, the element may be off by
 *
 *     16 * max(d, r)  +  one rounding of the output's type  +  its least number
 *
 * The factor covers that three samples are few, and that a kernel's order of operations is another.
 * Integers must be equal.  `tolerance(abs, rel)` in an example replaces all this. */
#include <math.h>
#include <stdlib.h>

#include "runtime/case/case.h"

enum { SLACK = 16 };

/* Elements of a packed output stand in rows that begin on a byte. */
static int64_t
element_at(const TglTensor *t, int64_t i)
{
	if (!dtype_is_packed((DType)t->dtype) || t->rank == 0)
		return i;
	int64_t width = t->dim[t->rank - 1];
	return i / width * (width + (width & 1)) + i % width;
}

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

/* What the reference's value is once it was converted to the output's type: fp8 saturates. */
static double
rounded(DType t, double v)
{
	char one[16] = {0};
	dtype_convert_f64(t, one, 0, v);
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
	Bounds b = {.roundoff = reference_roundoff(type),
	    .least = MAX(reference_least(type), c->reference->least)};
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
	TglStatus s = reference_make(c);
	if (s != TGL_OK)
		return s;
	*more = i >= 0 && i < c->reference->n;
	return *more ? compare(c, &c->reference->out[i], out) : TGL_OK;
}

TglStatus
tgl_case_check(TglCase *c, int i, TglCheck *out, bool *more)
{
	bool ignored;
	if (!c || !context_call(c->dev->cx, "tgl_case_check", "out", out))
		return TGL_ERROR_USAGE;
	TglContext *cx = c->dev->cx;
	return context_end(cx, check(c, i, out, more ? more : &ignored), c->k->program->compile);
}
