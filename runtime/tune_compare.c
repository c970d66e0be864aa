/* Whether a candidate computes what it should.
 *
 * Where the kernel has a reference that is quick to evaluate, that decides, as for `check`.  Elsewhere the
 * outputs are compared with those of the first candidate that ran, which is the default: integers must be
 * equal; floats may differ by what another order of summation makes of them, 8 roundings of the output's type
 * and 2^-11 of the larger of the element and the root mean square of all, which is much less than what a
 * forgotten element or a race does. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/tune.h"

static const double SUMMATION = 1.0 / 2048, ROUNDINGS = 8;

static bool
is_output(const KernelParam *p)
{
	return p->kind == PARAM_TENSOR ? p->access == ACCESS_OUT || p->access == ACCESS_INOUT
				       : p->kind == PARAM_POINTER && p->ptr == PTR_MUT;
}

static char *
copy_of(const TglTensor *t)
{
	size_t size = tgl_tensor_bytes(t);
	char *p = malloc(size ? size : 1);
	if (p && tensor_copy_out(t, p))
		return p;
	free(p);
	return NULL;
}

void
tune_forget_first(Tuner *t)
{
	for (int i = 0; t->first && i < t->k->k->params.n; i++)
		free(t->first[i]);
	free(t->first);
	t->first = NULL;
}

bool
tune_keep_first(Tuner *t)
{
	t->first = calloc((size_t)MAX(t->k->k->params.n, 1), sizeof *t->first);
	for (int i = 0; t->first && i < t->k->k->params.n; i++) {
		TglTensor *x = t->c->b.tensor[i];
		if (!x || !is_output(&t->k->k->params.at[i]))
			continue;
		if (!(t->first[i] = copy_of(x))) {
			tune_forget_first(t);
			return false;
		}
	}
	return t->first;
}

/* ---- comparing ---- */

static double
mean_square(DType type, const char *p, int64_t n)
{
	double sum = 0;
	int64_t count = 0;
	for (int64_t i = 0; i < n; i++) {
		double v = dtype_load_f64(type, p, i);
		if (isfinite(v)) {
			sum += v * v;
			count++;
		}
	}
	return count ? sqrt(sum / (double)count) : 0;
}

static bool
same_float(double got, double want, double bound)
{
	if (isnan(want) || isnan(got))
		return isnan(want) && isnan(got);
	return got == want || fabs(got - want) <= bound;
}

/* The first element that differs; -1: none.  Packed rows are padded to whole bytes, alike in both. */
static int64_t
first_difference(DType type, const char *got, const char *want, int64_t n, size_t bytes)
{
	if (memcmp(got, want, bytes) == 0)
		return -1;
	if (!dtype_is_float(type)) {
		for (int64_t i = 0; i < n; i++)
			if (dtype_load_i64(type, got, i) != dtype_load_i64(type, want, i))
				return i;
		return -1;
	}
	double rms = mean_square(type, want, n);
	double share = ROUNDINGS * reference_roundoff(type) + SUMMATION;
	for (int64_t i = 0; i < n; i++) {
		double w = dtype_load_f64(type, want, i);
		if (!same_float(dtype_load_f64(type, got, i), w, share * MAX(fabs(w), rms) + reference_least(type)))
			return i;
	}
	return -1;
}

static bool
compare_one(Tuner *t, int param, const char **why, bool *failed)
{
	TglTensor *x = t->c->b.tensor[param];
	DType type = (DType)x->dtype;
	char *got = copy_of(x);
	if (!got) {
		*failed = true;
		return false;
	}
	int64_t n = (int64_t)tgl_tensor_bytes(x) * 8 / dtype_info[type].bits;
	int64_t at = first_difference(type, got, t->first[param], n, tgl_tensor_bytes(x));
	if (at >= 0)
		*why = arena_printf(t->mem, "element %lld of '%s' is %.9g, and %.9g by the first that ran", (long long)at,
		    t->k->k->params.at[param].name, dtype_load_f64(type, got, at),
		    dtype_load_f64(type, t->first[param], at));
	else if (!tensor_guard_whole(x))
		*why = arena_printf(t->mem, "it wrote just outside of '%s'", t->k->k->params.at[param].name);
	free(got);
	return !*why;
}

static bool
by_reference(Tuner *t, const char **why, bool *failed)
{
	bool more = true;
	for (int i = 0; more; i++) {
		TglCheck r;
		TglStatus s = tgl_case_check(t->c, i, &r, &more);
		*failed = s != TGL_OK;
		if (*failed)
			return false;
		if (!more || r.passed)
			continue;
		*why = r.guard_broken
			   ? arena_printf(t->mem, "it wrote just outside of '%s'", r.param)
			   : arena_printf(t->mem, "%lld of %lld elements of '%s' are wrong by the reference",
				 (long long)r.nwrong, (long long)r.count, r.param);
		return false;
	}
	return true;
}

bool
tune_compare(Tuner *t, const char **why, bool *failed)
{
	*why = NULL;
	*failed = false;
	if (t->by_reference)
		return by_reference(t, why, failed);
	for (int i = 0; i < t->k->k->params.n; i++)
		if (t->first && t->first[i] && !compare_one(t, i, why, failed))
			return false;
	return true;
}
