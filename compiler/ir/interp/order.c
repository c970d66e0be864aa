/* Sorting, the k greatest, histograms and gathers within a tile.
 *
 * To sort, every element becomes an unsigned 64-bit key that orders as the element does: signed integers
 * have their top bit flipped, floats go through f64 (which holds all their values) with negative ones
 * inverted, both zeros and all NaNs are made one, NaN the greatest.  Pairs of key and index are merge-sorted,
 * which is stable; falling order sorts inverted keys, so that equals still keep their order. */
#include "ir/interp/run.h"

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

/* Gives the first `keep` of each sorted row, and their indices to a second result. */
static bool
sort(Worker *w, const Op *op, int64_t keep, bool falling)
{
	const Type *type = op->in[0]->type;
	const Axis x = axis_of(type, (int)attr_axis(op));
	int size = type_elem_size(type);
	const char *in = value_at(w, op->in[0]);
	char *out = value_at(w, &op->out[0]);
	int32_t *index = op->nout > 1 ? (int32_t *)value_at(w, &op->out[1]) : NULL;
	Keyed *temp = (Keyed *)temp_take(w, op, x.n * 2 * (int64_t)sizeof(Keyed));

	for (int64_t row = 0; temp && row < x.outer * x.inner; row++) {
		int64_t o = row / x.inner, i = row % x.inner;
		int64_t first = o * x.n * x.inner + i, put = o * keep * x.inner + i;
		Keyed *a = temp;
		for (int64_t k = 0; k < x.n; k++) {
			uint64_t key = key_of(type->elem, in, first + k * x.inner);
			a[k] = (Keyed){falling ? ~key : key, k};
		}
		a = merge_sort(a, a + x.n, x.n);
		for (int64_t k = 0; k < keep; k++) {
			memcpy(out + (put + k * x.inner) * size, in + (first + a[k].from * x.inner) * size, (size_t)size);
			if (index)
				index[put + k * x.inner] = (int32_t)a[k].from;
		}
	}
	return temp != NULL;
}

DEFINE_AS(SORT, sort(w, op, op->in[0]->type->extent[attr_axis(op)], attr_descending(op)))
DEFINE_AS(TOPK, sort(w, op, attr_k(op), true))

DEFINE(HISTOGRAM)
{
	const char *in = value_at(w, op->in[0]);
	int32_t *out = (int32_t *)value_at(w, &op->out[0]);
	uint64_t bins = (uint64_t)attr_bins(op);

	memset(out, 0, sizeof *out * bins);
	for (int64_t i = 0, n = type_count(op->in[0]->type); i < n; i++) {
		uint64_t bin = (uint64_t)dtype_load_i64(op->in[0]->type->elem, in, i);
		if (bin < bins)
			out[bin]++;
	}
	return true;
}

DEFINE(GATHER)
{
	const char *in = value_at(w, op->in[0]), *index = value_at(w, op->in[1]);
	char *out = value_at(w, &op->out[0]);
	int axis = (int)attr_axis(op);
	const Axis x = axis_of(op->out[0].type, axis);
	int64_t extent = op->in[0]->type->extent[axis];
	size_t size = (size_t)type_elem_size(op->in[0]->type);

	for (int64_t at = 0, n = x.outer * x.n * x.inner; at < n; at++, out += size) {
		int64_t o = at / (x.n * x.inner), i = at % x.inner;
		int64_t from = dtype_load_i64(op->in[1]->type->elem, index, at);
		if (from >= 0 && from < extent)
			memcpy(out, in + (size_t)((o * extent + from) * x.inner + i) * size, size);
		else
			memset(out, 0, size);
	}
	return true;
}
