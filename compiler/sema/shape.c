/* Shapes: written ones, and the limits that every tile is held to, whether its extents are written, come of
 * broadcasting or of tensors: a kernel's tile has at most 2^31 elements, a reference's 2^40. */
#include "sema/elab.h"

const char *
shape_text(Elab *e, int rank, const int64_t *extent)
{
	return extents_text(rank, extent, e->cx->mem);
}

const char *
type_shape_text(Elab *e, const Type *t)
{
	return shape_text(e, t->rank, t->extent);
}

bool
type_broadcasts(const Type *t, int rank, const int64_t *extent)
{
	return t->rank <= rank && ALL_OF(d, t->rank, t->extent[d] == 1 || t->extent[d] == extent[rank - t->rank + d]);
}

bool
rank_check(Elab *e, Place at, int rank)
{
	int limit = rank_limit(e);
	if (rank > limit)
		diag_error(e->cx, at, DIAG_RANK_LIMIT, limit, rank);
	return rank <= limit;
}

bool
shape_check(Elab *e, Place at, int rank, const int64_t *extent)
{
	int power = e->whole ? 40 : 31;
	int64_t count = 1, limit = INT64_C(1) << power;
	if (!rank_check(e, at, rank))
		return false;
	for (int d = 0; d < rank; d++) {
		if (extent[d] < 0)
			return diag_error(e->cx, at, DIAG_EXTENT_RANGE, (long long)extent[d]);
		if (extent[d] > 0 && count > limit / extent[d])
			return diag_error(e->cx, at, DIAG_TILE_LIMIT, shape_text(e, rank, extent), power);
		count *= MAX(extent[d], 1);
	}
	return true;
}

bool
val_shape(Elab *e, const Val *v, int *rank, int64_t *extent)
{
	bool nested = v->kind == VAL_LIST || v->kind == VAL_TUPLE;
	int n = nested ? v->n : 1;
	if (!nested && v->kind != VAL_INT)
		return val_wanted(e, v, "a shape", "a list of extents such as [64, 32]");
	for (int d = 0; d < n && d < MAX_RANK; d++) {
		const Val *item = nested ? &v->items[d] : v;
		if (!val_const_int(e, item, "an extent", &extent[d]) || !shape_check(e, item->place, 1, &extent[d]))
			return false;
	}
	*rank = n;
	return shape_check(e, v->place, n, extent);
}
