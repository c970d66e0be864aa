/* Whether a candidate computes what it should.
 *
 * Where the kernel has a reference that is quick to evaluate, that decides, as for `check`.  Elsewhere the outputs are
 * compared with those of the first candidate that ran, which is the default.  Both may be off the exact result by what the
 * roundings of their arithmetic make (tune_error.c), so that floats may differ by the sum, and by 8 roundings of the
 * output's type, relative to the larger of the element and the root mean square of all.  Integers must be equal.  Where
 * rounding chooses an element (a float that became an integer), it may be off by one, and one in 256 and more, by how large
 * the error is, may be anything.  Several threads look, a part each: the host should not take longer than what is
 * measured. */
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/tune/tune.h"

static const double ROUNDINGS = 8;
/* The greatest of 10^7 normal deviates is 5.3 sigma, and that of a rounding is less than 0.6 of the greatest rounding. */
static const double TAIL = 4, SHARE_MOST = 0.25;
static const double NEAR_A_STEP = 32, JUMPS_MOST = 0.125;       /* values of 32 steps each, as of 8-bit integers */
enum { PARTS = 64, PART_LEAST = 1 << 16, MAX_LOOKERS = 16, JUMPS = 256 };

/* A copy in memory that is used again; NULL: there is none, or the device failed. */
static const char *
fetch(Tuner *t, const TglTensor *x)
{
	size_t size = tgl_tensor_bytes(x);
	if (size > t->got_bytes || !t->got) {
		free(t->got);
		t->got = malloc(size ? size : 1);
		t->got_bytes = t->got ? size : 0;
	}
	return t->got && tensor_copy_out(x, t->got) ? t->got : NULL;
}

void
tune_free_first(Tuner *t)
{
	for (int i = 0; t->first && i < t->k->k->params.n; i++)
		free(t->first[i]);
	free(t->first);
	free(t->got);
	t->first = NULL;
	t->got = NULL;
	t->got_bytes = 0;
}

bool
tune_keep_first(Tuner *t)
{
	t->first = memory_new((size_t)t->k->k->params.n, sizeof *t->first);
	t->mean = NEW_ARRAY(t->mem, double, t->k->k->params.n);
	for (int i = 0; i < t->k->k->params.n; i++)
		t->mean[i] = -1;
	for (int i = 0; i < t->k->k->params.n; i++) {
		TglTensor *x = t->c->b.tensor[i];
		if (!x || !param_is_output(&t->k->k->params.at[i]))
			continue;
		if (!fetch(t, x)) {
			tune_free_first(t);
			return false;
		}
		t->first[i] = t->got;
		t->got = NULL;
	}
	return true;
}

/* ---- comparing ---- */

/* Elements in PARTS that do not depend on how many threads there are, so that sums do not either. */
typedef struct Look {
	DType type;
	const char *got, *want;
	int64_t n;
	double rms;                     /* below 0: it is what is sought */
	RoundError error;
	double sum[PARTS];
	int64_t count[PARTS], at[PARTS]; /* finite ones, or those that differ; at: the first that differs, -1: none */
	_Atomic int next;
} Look;

static bool
same_float(double got, double want, double bound)
{
	if (isnan(want) || isnan(got))
		return isnan(want) && isnan(got);
	return got == want || fabs(got - want) <= bound;
}

static void
sum_part(Look *l, int part, int64_t from, int64_t to)
{
	for (int64_t i = from; i < to; i++) {
		double v = dtype_load_f64(l->type, l->want, i);
		if (isfinite(v)) {
			l->sum[part] += v * v;
			l->count[part]++;
		}
	}
}

static bool
is_same(const Look *l, int64_t i)
{
	if (!dtype_is_float(l->type))
		return llabs(dtype_load_i64(l->type, l->got, i) - dtype_load_i64(l->type, l->want, i)) <= l->error.jumps;
	double w = dtype_load_f64(l->type, l->want, i);
	double share = ROUNDINGS * reference_roundoff(l->type) + MIN(TAIL * l->error.share, SHARE_MOST);
	double bound = share * MAX(fabs(w), l->rms) + reference_least(l->type);
	return same_float(dtype_load_f64(l->type, l->got, i), w, bound);
}

static void
compare_part(Look *l, int part, int64_t from, int64_t to)
{
	size_t size = (size_t)dtype_info[l->type].bits / 8;
	l->at[part] = -1;
	l->count[part] = 0;
	for (int64_t i = from; i < to && (l->at[part] < 0 || l->error.jumps); i++) {
		if (size && memcmp(l->got + (size_t)i * size, l->want + (size_t)i * size, size) == 0)
			continue;
		if (is_same(l, i))
			continue;
		l->count[part]++;
		if (l->at[part] < 0)
			l->at[part] = i;
	}
}

static void *
look_main(void *arg)
{
	Look *l = arg;
	for (int p; (p = atomic_fetch_add(&l->next, 1)) < PARTS;) {
		int64_t from = l->n / PARTS * p, to = p + 1 < PARTS ? l->n / PARTS * (p + 1) : l->n;
		if (l->rms < 0)
			sum_part(l, p, from, to);
		else
			compare_part(l, p, from, to);
	}
	return NULL;
}

static void
look(Look *l)
{
	pthread_t thread[MAX_LOOKERS];
	int n = 0, cpus = (int)sysconf(_SC_NPROCESSORS_ONLN);
	int want = (int)MIN((int64_t)MIN(cpus, MAX_LOOKERS), l->n / PART_LEAST) - 1;
	atomic_store(&l->next, 0);
	while (n < want && thread_start(&thread[n], look_main, l))
		n++;
	look_main(l);
	for (int i = 0; i < n; i++)
		pthread_join(thread[i], NULL);
}

static double
mean_square(Look *l)
{
	double sum = 0;
	int64_t count = 0;
	l->rms = -1;
	look(l);
	for (int p = 0; p < PARTS; p++) {
		sum += l->sum[p];
		count += l->count[p];
	}
	return count ? sqrt(sum / (double)count) : 0;
}

/* The first element that differs, if there are too many; -1.  *mean: of `want`, kept for the next. */
static int64_t
first_difference(Look *l, double *mean)
{
	int64_t differ = 0, first = -1;
	if (*mean < 0)
		*mean = dtype_is_float(l->type) ? mean_square(l) : 0;
	l->rms = *mean;
	look(l);
	for (int p = 0; p < PARTS; p++) {
		differ += l->count[p];
		first = first < 0 ? l->at[p] : first;
	}
	double some = MIN(1.0 / JUMPS + NEAR_A_STEP * l->error.share, JUMPS_MOST);
	return (double)differ > (l->error.jumps ? some * (double)l->n : 0) ? first : -1;
}

/* Of the first and of the candidate together; that is what may lie between them. */
static RoundError
error_between(Tuner *t, int param)
{
	const char *target = t->target ? t->target->name : "cpu";
	int n = t->k->k->params.n;
	if (!t->error) {
		t->error = NEW_ARRAY(t->mem, RoundError, n);
		tune_errors(t->k, &t->at.at[t->first_one].bound, target, t->error);
	}
	if (!t->own) {
		t->own = NEW_ARRAY(t->mem, RoundError, n);
		tune_errors(t->k, &t->c->b.bound, target, t->own);
	}
	return (RoundError){t->error[param].share + t->own[param].share, t->error[param].jumps || t->own[param].jumps};
}

static bool
compare_one(Tuner *t, int param, const char **why, bool *failed)
{
	TglTensor *x = t->c->b.tensor[param];
	DType type = (DType)x->dtype;
	const char *got = fetch(t, x);
	if (!got) {
		*failed = true;
		return false;
	}
	size_t bytes = tgl_tensor_bytes(x);             /* packed rows are padded to whole bytes, alike in both */
	Look l = {.type = type, .got = got, .want = t->first[param], .n = (int64_t)bytes * 8 / dtype_info[type].bits};
	int64_t at = -1;
	if (memcmp(got, l.want, bytes) != 0) {
		l.error = error_between(t, param);
		at = first_difference(&l, &t->mean[param]);
	}
	if (at >= 0)
		*why = arena_printf(t->mem, "element %lld of '%s' is %.9g, and %.9g by the first that ran", (long long)at,
		    t->k->k->params.at[param].name, dtype_load_f64(type, got, at),
		    dtype_load_f64(type, t->first[param], at));
	else if (!tensor_guard_whole(x))
		*why = arena_printf(t->mem, "it wrote just outside of '%s'", t->k->k->params.at[param].name);
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
	t->own = NULL;
	if (t->by_reference)
		return by_reference(t, why, failed);
	return !ANY_OF(i, t->k->k->params.n, t->first && t->first[i] && !compare_one(t, i, why, failed));
}
