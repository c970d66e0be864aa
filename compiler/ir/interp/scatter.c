/* A tile with elements of another put in at indices along an axis.
 *
 * Elements go in by their order along the axis of the values, so of several for one element the last is set.  Floats
 * below f32 are added in f32 and rounded once, when all are in.  In a reference, whose sums a device adds in any order,
 * perturb disturbs each term and then what the partial sums lose (disturb.c). */
#include "ir/interp/plan.h"

#include <string.h>

typedef enum ScatterFn { SCATTER_SET, SCATTER_ADD, SCATTER_MAX, SCATTER_MIN } ScatterFn;

typedef struct ScatterStep {
	Step step;
	Home in, index, values, out;
	ScatterFn fn;
	bool perturbs;
	int64_t outer, n, inner, extent;                /* n: of the values along the axis; extent: of the tile */
} ScatterStep;

static int64_t
count_of(const ScatterStep *s)
{
	return s->outer * s->extent * s->inner;
}

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
combine(const ScatterStep *s, char *out, int64_t at, const char *values, int64_t from)
{
	DType t = s->in.type->elem;
	size_t size = (size_t)type_elem_size(s->in.type);
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
add_term(Worker *w, const ScatterStep *s, const Sums *sums, int64_t at, double v)
{
	DType t = s->in.type->elem;

	if (s->perturbs) {
		perturb_f64(&v, 1, w->plan->opt.perturb, &w->rng);
		sums->squares[at] += v * v;
		sums->terms[at] += 1;
	}
	sums->sum[at] = t == TY_F64 ? sums->sum[at] + v : (double)((float)sums->sum[at] + (float)v);
}

static Sums
sums_open(Worker *w, const ScatterStep *s, const char *in)
{
	int64_t n = count_of(s);
	Sums sums = {.sum = (double *)w->temp};

	for (int64_t i = 0; i < n; i++)
		sums.sum[i] = dtype_load_f64(s->in.type->elem, in, i);
	if (s->perturbs) {
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
sums_close(Worker *w, const ScatterStep *s, const Sums *sums, char *out)
{
	DType t = s->in.type->elem;

	for (int64_t i = 0, n = count_of(s); i < n; i++) {
		if (s->perturbs && sums->terms[i] > 1)
			disturb_sums(w, &sums->sum[i], &sums->squares[i], 1, (int64_t)sums->terms[i]);
		if (sums->sum[i] != dtype_load_f64(t, out, i))  /* an infinity stays, which a conversion saturates */
			dtype_convert_f64(t, out, i, sums->sum[i]);
	}
}

static bool
run_scatter(Worker *w, const Step *step)
{
	const ScatterStep *s = (const ScatterStep *)step;
	const char *in = home_at(w, &s->in), *index = home_at(w, &s->index), *values = home_at(w, &s->values);
	char *out = w->reg[s->out.reg];
	DType t = s->index.type->elem;
	bool sums_floats = s->fn == SCATTER_ADD && dtype_is_float(s->in.type->elem);
	Sums sums = {0};
	int64_t from = 0;

	memcpy(out, in, (size_t)(count_of(s) * type_elem_size(s->in.type)));
	if (sums_floats)
		sums = sums_open(w, s, in);
	for (int64_t o = 0; o < s->outer; o++)
		for (int64_t k = 0; k < s->n; k++)
			for (int64_t i = 0; i < s->inner; i++, from++) {
				uint64_t to = (uint64_t)dtype_load_i64(t, index, from);
				int64_t at = (o * s->extent + (int64_t)to) * s->inner + i;
				if (to >= (uint64_t)s->extent)
					continue;
				if (sums_floats)
					add_term(w, s, &sums, at, dtype_load_f64(s->in.type->elem, values, from));
				else
					combine(s, out, at, values, from);
			}
	if (sums_floats)
		sums_close(w, s, &sums, out);
	return true;
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

Step *
scatter_emit(Plan *p, const Op *op)
{
	ScatterStep *s = STEP(p, op, ScatterStep, run_scatter);
	const Type *t = op->in[1]->type;
	int axis = (int)attr_axis(op);

	s->in = value_home(p, op->in[0]);
	s->index = value_home(p, op->in[1]);
	s->values = value_home(p, op->in[2]);
	s->out = value_home(p, &op->out[0]);
	s->fn = fn_named(attr_fn(op));
	s->outer = s->inner = 1;
	for (int d = 0; d < axis; d++)
		s->outer *= t->extent[d];
	for (int d = axis + 1; d < t->rank; d++)
		s->inner *= t->extent[d];
	s->n = t->extent[axis];
	s->extent = op->in[0]->type->extent[axis];
	bool sums = s->fn == SCATTER_ADD && dtype_is_float(s->in.type->elem);
	s->perturbs = sums && p->opt.perturb > 0 && s->in.type->elem == TY_F64;
	if (sums)
		plan_temp(p, count_of(s) * (s->perturbs ? 3 : 1) * (int64_t)sizeof(double));
	return &s->step;
}
