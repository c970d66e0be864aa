/* Where the elements of a tensor access lie, row by row: for gathers, atomics and the sanitizer.
 *
 * A row is the last dimension of the accessed tile if it is a part-select, else a single element.  For
 *
 *     read %x, %ids, %r, %c {index = "gip", extents = [8]}       ids: i64[4, 2]  =>  f32[4, 2, 8]
 *
 * there are 8 rows of 8 elements, one for each element of ids. */
#include "ir/interp/plan.h"

/* Tensor dimension of result dimension `at`, or -1 if it belongs to the gather shape. */
static int
tensor_dimension(const TensorAccess *a, int at)
{
	int k = 0;

	for (int d = 0; d < a->nd; d++) {
		if (a->gathers && k == a->gather_at && a->letter[d] == 'g') {
			if (at >= k && at < k + a->gather_rank)
				return -1;
			k += a->gather_rank;
			while (d + 1 < a->nd && a->letter[d + 1] != 'p')
				d++;
			continue;
		}
		if (a->letter[d] == 'p' && k++ == at)
			return d;
	}
	return -1;
}

static int
inner_dimension(const TensorAccess *a)
{
	return a->rank > 0 ? tensor_dimension(a, a->rank - 1) : -1;
}

int64_t
access_inner(const TensorAccess *a)
{
	int d = inner_dimension(a);

	return d < 0 ? 1 : a->extent[d];
}

static int64_t
index_at(DType t, const void *at, int64_t i)
{
	switch (t) {
	case TY_I8: return ((const int8_t *)at)[i];
	case TY_I16: return ((const int16_t *)at)[i];
	case TY_I32: return ((const int32_t *)at)[i];
	case TY_U8: return ((const uint8_t *)at)[i];
	case TY_U16: return ((const uint16_t *)at)[i];
	case TY_U32: return ((const uint32_t *)at)[i];
	default: return ((const int64_t *)at)[i];       /* a u64 beyond i64 turns negative: outside either way */
	}
}

static uint64_t
scaled(int64_t i, int64_t stride)
{
	return (uint64_t)i * (uint64_t)stride;
}

/* Adds the gathered dimensions of element g of the index tiles; false if one is out of range. */
static bool
add_gathers(const Worker *w, const TensorAccess *a, int64_t g, uint64_t *at)
{
	const PlanArg *t = &w->args[a->param];

	for (int d = 0; d < a->nd; d++) {
		if (a->letter[d] != 'g')
			continue;
		int64_t i = index_at(a->index[d].type->elem, home_at(w, &a->index[d]), g);
		if (i < 0 || i >= t->dim[d])
			return false;
		*at += scaled(i, t->stride[d]);
	}
	return true;
}

typedef struct Rows {
	int rank;                                       /* result dimensions but for the row itself */
	int dimension[MAX_RANK];                        /* of the tensor, or -1 */
	int64_t start[MAX_RANK], index[MAX_RANK];
	uint64_t base;
	bool inside;
} Rows;

/* What all rows share: the single indices and the starts. */
static void
find_base(const Worker *w, const TensorAccess *a, Rows *r)
{
	const PlanArg *t = &w->args[a->param];

	r->base = 0;
	r->inside = true;
	for (int d = 0; d < a->nd; d++) {
		if (a->letter[d] == 'g')
			continue;
		int64_t start = home_i64(w, &a->index[d]);
		r->base += scaled(start, t->stride[d]);
		if (a->letter[d] == 'i')
			r->inside = r->inside && start >= 0 && start < t->dim[d];
	}
	for (int k = 0; k < r->rank; k++) {
		r->dimension[k] = tensor_dimension(a, k);
		r->start[k] = r->dimension[k] < 0 ? 0 : home_i64(w, &a->index[r->dimension[k]]);
		r->index[k] = 0;
	}
}

static int64_t
row_at(const Worker *w, const TensorAccess *a, const Rows *r)
{
	const PlanArg *t = &w->args[a->param];
	uint64_t at = r->base;
	int64_t g = 0, sum;

	if (!r->inside)
		return INT64_MIN;
	for (int k = 0; k < r->rank; k++) {
		int d = r->dimension[k];
		if (a->valid && r->index[k] >= a->valid[k])
			return INT64_MIN;
		if (d < 0) {
			g = g * a->tile->extent[k] + r->index[k];
			continue;
		}
		if (__builtin_add_overflow(r->start[k], r->index[k], &sum) || sum < 0 || sum >= t->dim[d])
			return INT64_MIN;
		at += scaled(r->index[k], t->stride[d]);
	}
	if (a->gathers && !add_gathers(w, a, g, &at))
		return INT64_MIN;
	return (int64_t)at;
}

static void
next_row(const TensorAccess *a, Rows *r)
{
	for (int k = r->rank - 1; k >= 0; k--) {
		if (++r->index[k] < a->tile->extent[k])
			return;
		r->index[k] = 0;
	}
}

/* Fills row[] with the element offset of each row's element 0, INT64_MIN if the row is outside; lo .. hi-1
 * are the elements of every row that are inside.  Gives the number of rows. */
int64_t
access_rows(const Worker *w, const TensorAccess *a, int64_t *row, int64_t *lo, int64_t *hi, int64_t *stride)
{
	const PlanArg *t = &w->args[a->param];
	int inner = inner_dimension(a);
	int64_t n = 1;
	Rows r = {.rank = inner < 0 ? a->rank : a->rank - 1};

	*lo = 0;
	*hi = 1;
	*stride = 0;
	if (inner >= 0) {
		access_clip(home_i64(w, &a->index[inner]), a->extent[inner], t->dim[inner], lo, hi);
		*stride = t->stride[inner];
		if (a->valid)
			*hi = MAX(*lo, MIN(*hi, a->valid[a->rank - 1]));
	}
	for (int k = 0; k < r.rank; k++)
		n *= a->tile->extent[k];
	find_base(w, a, &r);
	for (int64_t i = 0; i < n; i++) {
		row[i] = row_at(w, a, &r);
		next_row(a, &r);
	}
	return n;
}
