/* Reads, writes and atomics on a tensor, row by row.
 *
 * A row is the last dimension of the accessed tile if it is a part-select, else a single element.  For
 *
 *     read %x, %ids, %r, %c {index = "gip", extents = [8]}       ids: i64[4, 2]  =>  f32[4, 2, 8]
 *
 * there are 8 rows of 8 elements, one for each element of ids.  Starts come from the program and may be anything, so
 * nothing is added to them that could overflow; addresses of elements outside are computed modulo 2^64 and never used. */
#include "ir/interp/run.h"

#include <string.h>

void
access_make(TensorAccess *a, const Op *op, const Type *tile)
{
	const char *index = attr_index(op);
	const IntList *extents = attr_extents(op), *valid = attr_valid(op);
	int e = 0;

	*a = (TensorAccess){.param = param_index(op->in[0]), .nd = op->in[0]->type->rank, .tile = tile,
	    .rank = tile->rank, .valid = valid ? valid->at : NULL};
	for (int d = 0; d < a->nd; d++) {
		a->letter[d] = index[d];
		a->merged[d] = access_merged(op, d);
		a->index[d] = op->in[1 + d];
		if (index[d] == 'p') {
			a->extent[d] = extents->at[e++];
		} else if (index[d] == 'g' && !a->gathers) {
			a->gathers = true;
			a->gather_at = e;
			a->gather_rank = op->in[1 + d]->type->rank;
		}
	}
}

/* The part of 0 .. extent-1 that start + i keeps inside 0 .. size-1. */
void
access_clip(int64_t start, int64_t extent, int64_t size, int64_t *lo, int64_t *hi)
{
	*lo = *hi = 0;
	if (start >= size || start <= -extent)
		return;
	*lo = start < 0 ? -start : 0;
	*hi = MAX(*lo, MIN(extent, size - start));
}

int64_t
access_extent(const TensorAccess *a, const PlanArg *t, int d)
{
	int64_t n = t->dim[d];

	for (int i = 1; i <= a->merged[d]; i++)
		n *= t->dim[d - i];
	return n;
}

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

static uint64_t
scaled(int64_t i, int64_t stride)
{
	return (uint64_t)i * (uint64_t)stride;
}

/* The rows of an access, in the order of the tile. */
typedef struct TensorRows {
	const TensorAccess *a;
	const PlanArg *t;
	int rank;                                       /* result dimensions but for the row itself */
	int dimension[MAX_RANK];                        /* of the tensor, or -1 */
	int64_t start[MAX_RANK], index[MAX_RANK];
	uint64_t base;
	bool inside;
	int64_t count, length;                          /* rows; elements of each … */
	int64_t lo, hi, stride;                         /* … of which lo .. hi-1 are inside */
} TensorRows;

static void
rows_open(const Worker *w, const TensorAccess *a, TensorRows *r)
{
	int inner = a->rank > 0 ? tensor_dimension(a, a->rank - 1) : -1;

	*r = (TensorRows){.a = a, .t = &w->args[a->param], .rank = inner < 0 ? a->rank : a->rank - 1, .inside = true,
	    .count = 1, .length = 1, .hi = 1};
	if (inner >= 0) {
		r->length = a->extent[inner];
		access_clip(value_i64(w, a->index[inner]), r->length, access_extent(a, r->t, inner), &r->lo, &r->hi);
		r->stride = r->t->stride[inner];
		if (a->valid)
			r->hi = MAX(r->lo, MIN(r->hi, a->valid[a->rank - 1]));
	}
	for (int d = 0; d < a->nd; d++) {
		if (a->letter[d] == 'g')
			continue;
		int64_t start = value_i64(w, a->index[d]);
		r->base += scaled(start, r->t->stride[d]);
		if (a->letter[d] == 'i')
			r->inside = r->inside && start >= 0 && start < access_extent(a, r->t, d);
	}
	for (int k = 0; k < r->rank; k++) {
		r->count *= a->tile->extent[k];
		r->dimension[k] = tensor_dimension(a, k);
		r->start[k] = r->dimension[k] < 0 ? 0 : value_i64(w, a->index[r->dimension[k]]);
	}
}

/* Adds the gathered dimensions of element g of the index tiles; false if one is out of range. */
static bool
add_gathers(const Worker *w, const TensorRows *r, int64_t g, uint64_t *at)
{
	const TensorAccess *a = r->a;

	for (int d = 0; d < a->nd; d++) {
		if (a->letter[d] != 'g')
			continue;
		/* A u64 beyond i64 turns negative: outside either way. */
		int64_t i = dtype_load_i64(a->index[d]->type->elem, value_at(w, a->index[d]), g);
		if (i < 0 || i >= access_extent(a, r->t, d))
			return false;
		*at += scaled(i, r->t->stride[d]);
	}
	return true;
}

/* Whether the row has elements inside; *at is the offset of its element 0 in the tensor. */
static bool
row_is_inside(const Worker *w, const TensorRows *r, int64_t *at)
{
	uint64_t offset = r->base;
	int64_t g = 0, sum;

	if (!r->inside || r->hi <= r->lo)
		return false;
	for (int k = 0; k < r->rank; k++) {
		int d = r->dimension[k];
		if (r->a->valid && r->index[k] >= r->a->valid[k])
			return false;
		if (d < 0) {
			g = g * r->a->tile->extent[k] + r->index[k];
			continue;
		}
		if (__builtin_add_overflow(r->start[k], r->index[k], &sum) || sum < 0 ||
		    sum >= access_extent(r->a, r->t, d))
			return false;
		offset += scaled(r->index[k], r->t->stride[d]);
	}
	if (r->a->gathers && !add_gathers(w, r, g, &offset))
		return false;
	*at = (int64_t)offset;
	return true;
}

static void
next_row(TensorRows *r)
{
	for (int k = r->rank - 1; k >= 0; k--) {
		if (++r->index[k] < r->a->tile->extent[k])
			return;
		r->index[k] = 0;
	}
}

static bool
check_row(Worker *w, const Op *op, const TensorRows *r, int64_t at, ShadowUse use)
{
	for (int64_t i = r->lo; w->shadow && i < r->hi; i++)
		if (!shadow_tensor(w, op, r->a->param, at + i * r->stride, use))
			return false;
	return true;
}

/* Element `at` of the tensor; not of packed ones. */
static char *
element(const TensorRows *r, int64_t at)
{
	return (char *)r->t->data + at * dtype_tile_size(r->a->tile->elem);
}

/* Loads the elements inside of a row whose element 0 is `at`, or stores them. */
static void
move_row(const TensorRows *r, int64_t at, char *tile, bool stores)
{
	DType t = r->a->tile->elem;
	int size = dtype_tile_size(t);

	if (r->stride == 1 && !dtype_is_packed(t)) {
		char *m = element(r, at + r->lo), *x = tile + r->lo * size;
		memcpy(stores ? m : x, stores ? x : m, (size_t)((r->hi - r->lo) * size));
		return;
	}
	for (int64_t i = r->lo; i < r->hi; i++) {
		char *x = tile + i * size;
		if (!dtype_is_packed(t)) {
			char *m = element(r, at + i * r->stride);
			memcpy(stores ? m : x, stores ? x : m, (size_t)size);
		} else if (stores) {
			tile_pack(x, r->t->data, at + i * r->stride, 1);
		} else {
			tile_unpack(t, r->t->data, at + i * r->stride, x, 1);
		}
	}
}

bool
tensor_read(Worker *w, const Op *op, const Type *tile, const Value *fill, char *out)
{
	int size = dtype_tile_size(tile->elem);
	char zero[8] = {0};
	TensorAccess a;
	TensorRows r;
	int64_t at;

	access_make(&a, op, tile);
	rows_open(w, &a, &r);
	if (fill && fill->type->rank > 0)
		memcpy(out, value_at(w, fill), (size_t)value_bytes(fill));
	else
		tile_fill(size, out, fill ? value_at(w, fill) : zero, r.count * r.length);
	for (int64_t i = 0; i < r.count; i++, next_row(&r), out += r.length * size) {
		if (!row_is_inside(w, &r, &at))
			continue;
		if (!check_row(w, op, &r, at, SHADOW_READ))
			return false;
		move_row(&r, at, out, false);
	}
	return true;
}

DEFINE(READ)
{
	int base = 1 + op->in[0]->type->rank;

	return tensor_read(w, op, op->out[0].type, op->nin > base ? op->in[base] : NULL, value_at(w, &op->out[0]));
}

bool
tensor_write(Worker *w, const Op *op, const Type *tile, char *x)
{
	TensorAccess a;
	TensorRows r;
	int64_t at;

	access_make(&a, op, tile);
	rows_open(w, &a, &r);
	for (int64_t i = 0; i < r.count; i++, next_row(&r), x += r.length * dtype_tile_size(tile->elem)) {
		if (!row_is_inside(w, &r, &at))
			continue;
		if (!check_row(w, op, &r, at, SHADOW_WRITE))
			return false;
		move_row(&r, at, x, true);
	}
	return true;
}

DEFINE(WRITE)
{
	const Value *tile = op->in[op->nin - 1];

	return tensor_write(w, op, tile->type, value_at(w, tile));
}

bool
tensor_atomic(Worker *w, const Op *op, const Type *tile, const char *x, const char *y, char *old)
{
	int64_t size = dtype_tile_size(tile->elem), at;
	Atomic atomic;
	TensorAccess a;
	TensorRows r;
	char none[8];

	access_make(&a, op, tile);
	rows_open(w, &a, &r);
	atomic_make(&atomic, w->plan, op, tile->elem);
	for (int64_t i = 0; i < r.count; i++, next_row(&r)) {
		if (!row_is_inside(w, &r, &at))
			continue;
		for (int64_t k = r.lo; k < r.hi; k++) {
			int64_t e = at + k * r.stride, part = (i * r.length + k) * size;
			if (w->shadow && !shadow_tensor(w, op, a.param, e, SHADOW_ATOMIC))
				return false;
			atomic_run(&atomic, element(&r, e), x + part, y + part, old ? old + part : none);
		}
	}
	return true;
}

DEFINE(ATOMIC)
{
	const Value *x = op->in[1 + op->in[0]->type->rank], *y = op->in[op->nin - 1];
	char *old = value_at(w, &op->out[0]);

	memset(old, 0, (size_t)value_bytes(&op->out[0]));
	return tensor_atomic(w, op, op->out[0].type, value_at(w, x), value_at(w, y), old);
}
