/* Whether two tensors share memory, exactly where that is cheap.
 *
 * Both are boxes of bytes: a base, and for each dimension an extent and a stride.  With equal
 * strides they meet if some difference of indices d, each |d[i]| below the extents, gives the
 * difference of the bases: sum of d[i] * stride[i].  The search goes from the greatest stride down
 * and keeps only what the smaller strides can still make up, which leaves two or three values a
 * dimension for tensors as people make them.  Strange strides may have many; past a limit of steps
 * the answer is that of the ranges of addresses, which may say yes where no is true, never the
 * reverse. */
#include <stdlib.h>

#include "runtime/tensor/tensor.h"

enum { MAX_STEPS = 20000 };

typedef struct Search {
	int rank;
	int64_t low[TGL_MAX_RANK], high[TGL_MAX_RANK]; /* of d[i] */
	int64_t stride[TGL_MAX_RANK];                  /* falling */
	int64_t width;                                 /* bytes of an element */
	bool nonzero;                                  /* d = 0 does not count */
	int steps;
} Search;

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

static int64_t
floor_div(int64_t a, int64_t b)
{
	return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

/* Can dimensions i and up make a sum within `width` of `rest`?  1 yes, 0 no, -1 too many steps. */
static int
search(Search *s, int i, int64_t rest, bool is_zero)
{
	if (++s->steps > MAX_STEPS)
		return -1;
	if (i == s->rank)
		return llabs(rest) < s->width && !(s->nonzero && is_zero);
	int64_t least = 0, most = 0; /* of what smaller strides give */
	for (int j = i + 1; j < s->rank; j++) {
		least += s->low[j] * s->stride[j];
		most += s->high[j] * s->stride[j];
	}
	int64_t from = s->low[i], to = s->high[i];
	if (s->stride[i] > 0) {
		from = MAX(from, -floor_div(most + s->width - 1 - rest, s->stride[i]));
		to = MIN(to, floor_div(rest - least + s->width - 1, s->stride[i]));
	}
	for (int64_t d = from; d <= to; d++) {
		int r = search(s, i + 1, rest - d * s->stride[i], is_zero && d == 0);
		if (r)
			return r;
	}
	return 0;
}

static bool
same_strides(const Box *a, const Box *b)
{
	if (a->rank != b->rank || a->width != b->width)
		return false;
	for (int d = 0; d < a->rank; d++)
		if (a->stride[d] != b->stride[d])
			return false;
	return true;
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
	Search s = {.rank = p.rank, .width = p.width};
	for (int d = 0; d < p.rank; d++) {
		s.stride[d] = p.stride[d];
		s.low[d] = 1 - q.dim[d];
		s.high[d] = p.dim[d] - 1;
	}
	return search(&s, 0, blow - alow, true) != 0;
}

bool
tensor_overlaps_itself(const TglTensor *t)
{
	Box p = box_of(t);
	Search s = {.rank = p.rank, .width = p.width, .nonzero = true};
	for (int d = 0; d < p.rank; d++) {
		if (p.dim[d] == 0)
			return false;
		s.stride[d] = p.stride[d];
		s.low[d] = 1 - p.dim[d];
		s.high[d] = p.dim[d] - 1;
	}
	return search(&s, 0, 0, true) != 0;
}
