/* Sorting, the k greatest, histograms and gathers within a tile.
 *
 * To sort, every element becomes an unsigned 64-bit key that orders as the element does: signed integers
 * have their top bit flipped, floats go through f64 (which holds all their values) with negative ones
 * inverted, both zeros and all NaNs are made one, NaN the greatest.  Pairs of key and place are merge-sorted,
 * which is stable; falling order sorts inverted keys, so that equals still keep their order. */
#include "ir/interp/plan.h"

#include <string.h>

typedef struct Keyed {
	uint64_t key;
	int64_t from;
} Keyed;

static uint64_t
float_key(double x)
{
	uint64_t bits;

	if (x != x)
		return UINT64_MAX;
	x += 0.0;                                       /* -0 + 0 is 0 */
	memcpy(&bits, &x, sizeof bits);
	return bits >> 63 ? ~bits : bits | UINT64_C(1) << 63;
}

static uint64_t
key_of(DType t, const void *base, int64_t i)
{
	if (dtype_is_float(t))
		return float_key(dtype_load_f64(t, base, i));
	uint64_t x = (uint64_t)dtype_load_i64(t, base, i);
	return dtype_is_signed(t) ? x ^ UINT64_C(1) << 63 : x;
}

/* Sorts runs of 8 by insertion, then merges ever longer runs between `a` and `b`; gives where the result is. */
static Keyed *
merge_sort(Keyed *a, Keyed *b, int64_t n)
{
	enum { RUN = 8 };

	for (int64_t from = 0; from < n; from += RUN)
		for (int64_t i = from + 1; i < MIN(from + RUN, n); i++) {
			Keyed x = a[i];
			int64_t j = i;
			for (; j > from && a[j - 1].key > x.key; j--)
				a[j] = a[j - 1];
			a[j] = x;
		}
	for (int64_t width = RUN; width < n; width *= 2) {
		for (int64_t from = 0; from < n; from += 2 * width) {
			int64_t i = from, mid = MIN(from + width, n), j = mid, end = MIN(mid + width, n);
			for (int64_t k = from; k < end; k++)
				b[k] = i < mid && (j >= end || a[i].key <= a[j].key) ? a[i++] : a[j++];
		}
		Keyed *swap = a;
		a = b;
		b = swap;
	}
	return a;
}

typedef struct SortStep {
	Step step;
	Home in, out, place;                            /* place: topk's indices */
	int64_t outer, n, inner, keep;
	bool falling;
} SortStep;

static void
sort_row(Worker *w, const SortStep *s, int64_t o, int64_t i)
{
	DType t = s->in.type->elem;
	int size = type_elem_size(s->in.type);
	const char *in = home_at(w, &s->in);
	char *out = w->reg[s->out.reg];
	Keyed *a = (Keyed *)w->temp, *b = a + s->n;
	int64_t first = o * s->n * s->inner + i, put = o * s->keep * s->inner + i;

	for (int64_t k = 0; k < s->n; k++) {
		uint64_t key = key_of(t, in, first + k * s->inner);
		a[k] = (Keyed){s->falling ? ~key : key, k};
	}
	a = merge_sort(a, b, s->n);
	for (int64_t k = 0; k < s->keep; k++) {
		memcpy(out + (put + k * s->inner) * size, in + (first + a[k].from * s->inner) * size, (size_t)size);
		if (s->place.kind != HOME_NONE)
			((int32_t *)w->reg[s->place.reg])[put + k * s->inner] = (int32_t)a[k].from;
	}
}

static bool
run_sort(Worker *w, const Step *step)
{
	const SortStep *s = (const SortStep *)step;

	for (int64_t o = 0; o < s->outer; o++)
		for (int64_t i = 0; i < s->inner; i++)
			sort_row(w, s, o, i);
	return true;
}

static Step *
emit_sort(Plan *p, const Op *op)
{
	SortStep *s = STEP(p, op, SortStep, run_sort);
	const Type *t = op->in[0]->type;
	int axis = (int)attr_axis(op);

	s->in = value_home(p, op->in[0]);
	s->out = value_home(p, &op->out[0]);
	s->outer = s->inner = 1;
	for (int d = 0; d < axis; d++)
		s->outer *= t->extent[d];
	for (int d = axis + 1; d < t->rank; d++)
		s->inner *= t->extent[d];
	s->n = s->keep = t->extent[axis];
	s->falling = attr_descending(op);
	if (op->nout > 1)
		s->place = value_home(p, &op->out[1]);
	if (op->kind == OP_TOPK) {
		s->keep = attr_k(op);
		s->falling = true;
	}
	plan_temp(p, s->n * 2 * (int64_t)sizeof(Keyed));
	return &s->step;
}

typedef struct CountStep {
	Step step;
	Home in, out;
	int64_t count, bins;
} CountStep;

static bool
run_histogram(Worker *w, const Step *step)
{
	const CountStep *s = (const CountStep *)step;
	const char *in = home_at(w, &s->in);
	int32_t *out = (int32_t *)w->reg[s->out.reg];
	DType t = s->in.type->elem;

	memset(out, 0, sizeof *out * (size_t)s->bins);
	for (int64_t i = 0; i < s->count; i++) {
		uint64_t bin = (uint64_t)dtype_load_i64(t, in, i);
		if (bin < (uint64_t)s->bins)
			out[bin]++;
	}
	return true;
}

static Step *
emit_histogram(Plan *p, const Op *op)
{
	CountStep *s = STEP(p, op, CountStep, run_histogram);

	s->in = value_home(p, op->in[0]);
	s->out = value_home(p, &op->out[0]);
	s->count = type_count(op->in[0]->type);
	s->bins = attr_bins(op);
	return &s->step;
}

typedef struct GatherStep {
	Step step;
	Home in, index, out;
	int64_t outer, n, inner, extent;                /* n: of the result along the axis; extent: of the operand */
} GatherStep;

static bool
run_gather(Worker *w, const Step *step)
{
	const GatherStep *s = (const GatherStep *)step;
	const char *in = home_at(w, &s->in), *index = home_at(w, &s->index);
	char *out = w->reg[s->out.reg];
	size_t size = (size_t)type_elem_size(s->in.type);
	DType t = s->index.type->elem;
	int64_t at = 0;

	for (int64_t o = 0; o < s->outer; o++)
		for (int64_t k = 0; k < s->n; k++)
			for (int64_t i = 0; i < s->inner; i++, at++) {
				int64_t from = dtype_load_i64(t, index, at);
				if (from >= 0 && from < s->extent)
					memcpy(out + (size_t)at * size,
					    in + (size_t)((o * s->extent + from) * s->inner + i) * size, size);
				else
					memset(out + (size_t)at * size, 0, size);
			}
	return true;
}

static Step *
emit_gather(Plan *p, const Op *op)
{
	GatherStep *s = STEP(p, op, GatherStep, run_gather);
	const Type *t = op->out[0].type;
	int axis = (int)attr_axis(op);

	s->in = value_home(p, op->in[0]);
	s->index = value_home(p, op->in[1]);
	s->out = value_home(p, &op->out[0]);
	s->outer = s->inner = 1;
	for (int d = 0; d < axis; d++)
		s->outer *= t->extent[d];
	for (int d = axis + 1; d < t->rank; d++)
		s->inner *= t->extent[d];
	s->n = t->extent[axis];
	s->extent = op->in[0]->type->extent[axis];
	return &s->step;
}

Step *
order_emit(Plan *p, const Op *op)
{
	switch (op->kind) {
	case OP_HISTOGRAM:
		return emit_histogram(p, op);
	case OP_GATHER:
		return emit_gather(p, op);
	default:
		return emit_sort(p, op);
	}
}
