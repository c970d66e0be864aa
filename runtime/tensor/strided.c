/* Indices of strided dimensions whose sum of d[i] * stride[i] is given.
 *
 * The search goes from the greatest stride down and keeps only what the smaller strides can still make up, which leaves two
 * or three values a dimension for tensors as people make them.  Unusual strides may have many: past a limit of steps the
 * answer is yes. */
#include "runtime/tensor/strided.h"

#include "base/base.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_STEPS = 20000 };

typedef struct Walk {
	StridedSearch *s;
	int order[TGL_MAX_RANK];                        /* dimensions by falling strides */
	int steps;
} Walk;

static int64_t
floor_div(int64_t a, int64_t b)
{
	return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

/* From the k-th dimension on, within `width` of `rest`. */
static bool
walk(Walk *w, int k, int64_t rest, bool is_zero)
{
	StridedSearch *s = w->s;
	if (++w->steps > MAX_STEPS)
		return true;
	if (k == s->rank)
		return llabs(rest) < s->width && !(s->nonzero && is_zero);
	int i = w->order[k];
	int64_t least = 0, most = 0, from = s->low[i], to = s->high[i]; /* least, most: of what smaller strides give */
	for (int j = k + 1; j < s->rank; j++) {
		least += s->low[w->order[j]] * s->stride[w->order[j]];
		most += s->high[w->order[j]] * s->stride[w->order[j]];
	}
	if (s->stride[i] > 0) {
		from = MAX(from, -floor_div(most + s->width - 1 - rest, s->stride[i]));
		to = MIN(to, floor_div(rest - least + s->width - 1, s->stride[i]));
	} else {
		to = MIN(from, to);                     /* one is as good as all */
	}
	for (s->at[i] = from; s->at[i] <= to; s->at[i]++)
		if (walk(w, k + 1, rest - s->at[i] * s->stride[i], is_zero && s->at[i] == 0))
			return true;
	return false;
}

bool
strided_search(StridedSearch *s, int64_t offset)
{
	Walk w = {.s = s};
	for (int i = 0; i < s->rank; i++) {
		int k = i;
		for (; k > 0 && s->stride[w.order[k - 1]] < s->stride[i]; k--)
			w.order[k] = w.order[k - 1];
		w.order[k] = i;
	}
	return walk(&w, 0, offset, true);
}

bool
strided_find(int rank, const int64_t *dim, const int64_t *stride, int64_t offset, int64_t *at)
{
	StridedSearch s = {.rank = rank, .width = 1};
	for (int d = 0; d < rank; d++) {
		s.stride[d] = stride[d];
		s.high[d] = dim[d] - 1;
	}
	bool found = strided_search(&s, offset);
	if (found)
		memcpy(at, s.at, sizeof *at * (size_t)rank);
	return found;
}

bool
strided_overlaps(int rank, const int64_t *dim, const int64_t *stride, int64_t width)
{
	StridedSearch s = {.rank = rank, .width = width, .nonzero = true};
	for (int d = 0; d < rank; d++) {
		if (dim[d] == 0)
			return false;
		s.stride[d] = stride[d];
		s.low[d] = 1 - dim[d];
		s.high[d] = dim[d] - 1;
	}
	return strided_search(&s, 0);
}
