/* Whether two tensors share memory, exactly where that is cheap.
 *
 * Both are boxes of bytes: a base, and for each dimension an extent and a stride.  With equal strides they overlap if some
 * difference of indices d, each |d[i]| below the extents, gives the difference of the bases: sum of d[i] * stride[i].
 * Past a limit of steps the answer is that of the ranges of addresses, which may say yes where no is true, never the
 * reverse. */
#include "runtime/tensor/strided.h"
#include "runtime/tensor/tensor.h"

typedef struct Box {
	int rank;
	int64_t dim[TGL_MAX_RANK], stride[TGL_MAX_RANK]; /* in bytes */
	int64_t width;
} Box;

/* Dimensions of extent 1 say nothing and are left out. */
static Box
box_of(const TglTensor *t)
{
	Box b = {.width = MAX(dtype_info[t->dtype].bits / 8, 1)};
	bool packed = dtype_is_packed((DType)t->dtype);
	for (int d = 0; d < t->rank; d++) {
		bool is_last = d == t->rank - 1;
		int64_t n = packed && is_last ? t->dim[d] / 2 + t->dim[d] % 2 : t->dim[d];
		if (n == 1)
			continue;
		b.dim[b.rank] = n;
		b.stride[b.rank++] =
		    packed ? is_last ? 1 : t->stride[d] / 2 : t->stride[d] * b.width;
	}
	for (int i = 1; i < b.rank; i++)
		for (int j = i; j > 0 && b.stride[j] > b.stride[j - 1]; j--) {
			int64_t n = b.dim[j], s = b.stride[j];
			b.dim[j] = b.dim[j - 1];
			b.stride[j] = b.stride[j - 1];
			b.dim[j - 1] = n;
			b.stride[j - 1] = s;
		}
	return b;
}

static bool
same_strides(const Box *a, const Box *b)
{
	if (a->rank != b->rank || a->width != b->width)
		return false;
	return ALL_OF(d, a->rank, a->stride[d] == b->stride[d]);
}

bool
tensor_overlaps(const TglTensor *a, const TglTensor *b)
{
	const char *alow, *ahigh, *blow, *bhigh;
	tensor_span(a, &alow, &ahigh);
	tensor_span(b, &blow, &bhigh);
	if (alow == ahigh || blow == bhigh || ahigh <= blow || bhigh <= alow)
		return false;
	Box p = box_of(a), q = box_of(b);
	if (!same_strides(&p, &q))
		return true;
	StridedSearch s = {.rank = p.rank, .width = p.width};
	for (int d = 0; d < p.rank; d++) {
		s.stride[d] = p.stride[d];
		s.low[d] = 1 - q.dim[d];
		s.high[d] = p.dim[d] - 1;
	}
	return strided_search(&s, blow - alow);
}

bool
tensor_overlaps_itself(const TglTensor *t)
{
	Box b = box_of(t);
	return strided_overlaps(b.rank, b.dim, b.stride, b.width);
}
