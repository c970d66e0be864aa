/* A tile with elements of another put in at indices along an axis.
 *
 * Elements go in by their order along the axis of the values, so of several for one element the last is set.  Floats
 * below f32 are added in f32 and rounded once, when all are in.  In a reference, whose sums a device adds in any order,
 * perturb disturbs each term and then what the partial sums lose (disturb.c). */
#include "ir/interp/run.h"

#include <string.h>

typedef enum ScatterFn { SCATTER_SET, SCATTER_ADD, SCATTER_MAX, SCATTER_MIN } ScatterFn;

typedef struct Scatter {
	const Op *op;
	DType elem;
	ScatterFn fn;
	bool perturbs;
	int64_t count;                                  /* elements of the tile */
} Scatter;

/* Which of two is kept; a NaN loses. */
static bool
float_wins(ScatterFn fn, double v, double old)
{
	return old != old || (fn == SCATTER_MAX ? v > old : v < old);
}

static bool
int_wins(DType t, ScatterFn fn, int64_t v, int64_t old)
{
	int64_t turn = dtype_is_signed(t) ? 0 : INT64_MIN;
	return fn == SCATTER_MAX ? (v ^ turn) > (old ^ turn) : (v ^ turn) < (old ^ turn);
}

static void
combine(const Scatter *s, char *out, int64_t at, const char *values, int64_t from)
{
	DType t = s->elem;
	size_t size = (size_t)dtype_tile_size(s->elem);
	bool wins = s->fn == SCATTER_SET;

	if (s->fn == SCATTER_ADD) {
		dtype_store_i64(t, out, at,
		    (int64_t)((uint64_t)dtype_load_i64(t, out, at) + (uint64_t)dtype_load_i64(t, values, from)));
		return;
	}
	if (!wins && dtype_is_float(t))
		wins = float_wins(s->fn, dtype_load_f64(t, values, from), dtype_load_f64(t, out, at));
	else if (!wins)
		wins = int_wins(t, s->fn, dtype_load_i64(t, values, from), dtype_load_i64(t, out, at));
	if (wins)
		memcpy(out + (size_t)at * size, values + (size_t)from * size, size);
}

/* Sums of floats, in f64 or f32, and what disturbing them needs. */
typedef struct Sums {
	double *sum, *squares, *terms;
} Sums;

static void
add_term(Worker *w, const Scatter *s, const Sums *sums, int64_t at, double v)
{
	DType t = s->elem;

	if (s->perturbs) {
		perturb_f64(w->plan->cpu, &v, 1, w->plan->opt.perturb, &w->rng);
		sums->squares[at] += v * v;
		sums->terms[at] += 1;
	}
	sums->sum[at] = t == TY_F64 ? sums->sum[at] + v : (double)((float)sums->sum[at] + (float)v);
}

static Sums
sums_open(Worker *w, const Scatter *s, const char *in)
{
	int64_t n = s->count;
	Sums sums = {.sum = (double *)temp_take(w, s->op, n * (s->perturbs ? 3 : 1) * (int64_t)sizeof(double))};

	for (int64_t i = 0; sums.sum && i < n; i++)
		sums.sum[i] = dtype_load_f64(s->elem, in, i);
	if (sums.sum && s->perturbs) {
		sums.squares = sums.sum + n;
		sums.terms = sums.squares + n;
		for (int64_t i = 0; i < n; i++) {
			sums.squares[i] = sums.sum[i] * sums.sum[i];
			sums.terms[i] = 1;
		}
	}
	return sums;
}

static void
sums_close(Worker *w, const Scatter *s, const Sums *sums, char *out)
{
	DType t = s->elem;

	for (int64_t i = 0, n = s->count; i < n; i++) {
		if (s->perturbs && sums->terms[i] > 1)
			disturb_sums(w, &sums->sum[i], &sums->squares[i], 1, (int64_t)sums->terms[i]);
		if (sums->sum[i] != dtype_load_f64(t, out, i))  /* an infinity stays, which a conversion saturates */
			dtype_convert_f64(t, out, i, sums->sum[i]);
	}
}

static ScatterFn
fn_named(const char *text)
{
	switch (text[0]) {
	case 's': return SCATTER_SET;
	case 'a': return SCATTER_ADD;
	default: return strcmp(text, "max") == 0 ? SCATTER_MAX : SCATTER_MIN;
	}
}

DEFINE(SCATTER)
{
	const Type *in = op->in[0]->type;
	const char *index = value_at(w, op->in[1]), *values = value_at(w, op->in[2]);
	char *out = value_at(w, &op->out[0]);
	int axis = (int)attr_axis(op);
	const Axis x = axis_of(op->in[1]->type, axis);
	int64_t extent = in->extent[axis];
	Scatter s = {.op = op, .elem = in->elem, .fn = fn_named(attr_fn(op)), .count = type_count(in)};
	bool sums_floats = s.fn == SCATTER_ADD && dtype_is_float(s.elem);
	Sums sums = {0};

	s.perturbs = sums_floats && w->plan->opt.perturb > 0 && s.elem == TY_F64;
	memcpy(out, value_at(w, op->in[0]), (size_t)value_bytes(op->in[0]));
	if (sums_floats && !(sums = sums_open(w, &s, value_at(w, op->in[0]))).sum)
		return false;
	for (int64_t from = 0, n = x.outer * x.n * x.inner; from < n; from++) {
		int64_t o = from / (x.n * x.inner), i = from % x.inner;
		uint64_t to = (uint64_t)dtype_load_i64(op->in[1]->type->elem, index, from);
		int64_t at = (o * extent + (int64_t)to) * x.inner + i;
		if (to >= (uint64_t)extent)
			continue;
		if (sums_floats)
			add_term(w, &s, &sums, at, dtype_load_f64(s.elem, values, from));
		else
			combine(&s, out, at, values, from);
	}
	if (sums_floats)
		sums_close(w, &s, &sums, out);
	return true;
}
