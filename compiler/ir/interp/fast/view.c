/* Views: elements that lie somewhere, strided, repeated, clipped at a tensor's edge or packed two in a byte,
 * and how to copy them to a row-major tile and back.
 *
 * A Walk is a view made ready once: dimensions of extent 1 go, and neighbours that continue each other
 * merge, so that a contiguous tile becomes one run and a tile of a wide matrix a rank-2 walk.  Parts of a
 * walk are addressed by linear index, as the strips of a group are. */
#include "ir/interp/fast/fast.h"

#include <string.h>

static const char zeros[16];

static void
row_major(const Type *t, int64_t *stride)
{
	int64_t step = 1;

	for (int d = t->rank - 1; d >= 0; d--) {
		stride[d] = step;
		step *= t->extent[d];
	}
}

void
view_dense(View *v, char *at, const Type *t)
{
	*v = (View){.at = at, .dense = true, .whole = true, .fill = zeros};
	row_major(t, v->stride);
	for (int d = 0; d < t->rank; d++)
		v->hi[d] = t->extent[d];
}

void
view_finish(View *v, const Type *t)
{
	int64_t stride[MAX_RANK];

	row_major(t, stride);
	v->whole = !v->outside;
	v->dense = !v->packed && !v->outside;
	for (int d = 0; d < t->rank; d++) {
		if (v->lo[d] > 0 || v->hi[d] < t->extent[d])
			v->whole = v->dense = false;
		if (v->stride[d] != stride[d] && t->extent[d] != 1)
			v->dense = false;
	}
	if (!v->fill)
		v->fill = zeros;
}

const View *
storage_view(const Worker *w, const Storage *h, View *tmp)
{
	if (h->kind == STORE_VIEW && !h->dense)
		return &w->view[h->view];
	view_dense(tmp, storage_at(w, h), h->type);
	if (h->kind == STORE_ONE) {
		memset(tmp->stride, 0, sizeof tmp->stride);
		tmp->dense = type_count(h->type) == 1;
	}
	return tmp;
}

static void
add_dimension(Walk *k, int64_t extent, int64_t stride, int64_t lo, int64_t hi)
{
	int d = k->rank - 1;

	if (hi <= lo)
		k->empty = true;
	if (extent == 1)
		return;
	if (d >= 0 && lo == 0 && hi == extent && k->stride[d] == stride * extent) {
		k->extent[d] *= extent;
		k->lo[d] *= extent;
		k->hi[d] *= extent;
		k->stride[d] = stride;
		return;
	}
	k->extent[++d] = extent;
	k->stride[d] = stride;
	k->lo[d] = lo;
	k->hi[d] = hi;
	k->rank++;
}

void
walk_make(Walk *k, const View *v, const Type *t)
{
	k->at = v->at;
	k->first = v->first;
	k->rank = 0;
	k->size = type_elem_size(t);
	k->elem = t->elem;
	k->packed = v->packed;
	k->whole = v->whole;
	k->fill = v->fill;
	k->empty = v->outside;
	if (v->dense) {
		k->rank = 1;
		k->extent[0] = k->hi[0] = type_count(t);
		k->lo[0] = 0;
		k->stride[0] = 1;
		k->flat = true;
		return;
	}
	for (int d = 0; d < t->rank; d++)
		add_dimension(k, t->extent[d], v->stride[d], v->lo[d], v->hi[d]);
	if (k->rank == 0) {
		k->rank = 1;
		k->extent[0] = k->stride[0] = k->hi[0] = 1;
		k->lo[0] = 0;
	}
	k->flat = k->rank == 1 && k->stride[0] == 1 && k->whole && !k->packed;
}

#define GATHER_RUN(T)                                                                              \
	do {                                                                                       \
		T *o = out;                                                                        \
		const T *x = (const T *)in;                                                        \
		for (int64_t i = 0; i < n; i++)                                                    \
			o[i] = x[i * stride];                                                      \
	} while (0)

static void
load_run(const Walk *k, int64_t at, int64_t stride, int64_t n, void *out)
{
	if (k->packed) {
		if (stride == 1) {
			tile_unpack(k->elem, k->at, k->first + at, out, n);
			return;
		}
		for (int64_t i = 0; i < n; i++)
			tile_unpack(k->elem, k->at, k->first + at + i * stride, (char *)out + i, 1);
		return;
	}
	const char *in = k->at + at * k->size;
	if (stride == 1) {
		memcpy(out, in, (size_t)(n * k->size));
		return;
	}
	BY_SIZE(k->size, GATHER_RUN)
}

#define SCATTER_RUN(T)                                                                             \
	do {                                                                                       \
		T *o = (T *)out;                                                                   \
		const T *x = in;                                                                   \
		for (int64_t i = 0; i < n; i++)                                                    \
			o[i * stride] = x[i];                                                      \
	} while (0)

static void
store_run(const Walk *k, int64_t at, int64_t stride, int64_t n, const void *in)
{
	if (k->packed) {
		if (stride == 1) {
			tile_pack(in, k->at, k->first + at, n);
			return;
		}
		for (int64_t i = 0; i < n; i++)
			tile_pack((const char *)in + i, k->at, k->first + at + i * stride, 1);
		return;
	}
	char *out = k->at + at * k->size;
	if (stride == 1) {
		memcpy(out, in, (size_t)(n * k->size));
		return;
	}
	BY_SIZE(k->size, SCATTER_RUN)
}

/* A position in a walk: the index in each dimension but the last, their offset and whether they are inside. */
typedef struct Row {
	int64_t index[MAX_RANK];
	int64_t column, offset;
	bool inside;
} Row;

static void
row_offset(const Walk *k, Row *r)
{
	r->offset = 0;
	r->inside = !k->empty;
	for (int d = 0; d < k->rank - 1; d++) {
		r->offset = (int64_t)((uint64_t)r->offset + (uint64_t)r->index[d] * (uint64_t)k->stride[d]);
		r->inside = r->inside && r->index[d] >= k->lo[d] && r->index[d] < k->hi[d];
	}
}

static void
row_start(const Walk *k, int64_t at, Row *r)
{
	int last = k->rank - 1;

	if (last == 0) {
		r->column = at;
		r->offset = 0;
		r->inside = !k->empty;
		return;
	}
	for (int d = last; d > 0; d--) {
		int64_t rest = at / k->extent[d], part = at - rest * k->extent[d];
		if (d == last)
			r->column = part;
		else
			r->index[d] = part;
		at = rest;
	}
	r->index[0] = at;
	row_offset(k, r);
}

static void
row_next(const Walk *k, Row *r)
{
	r->column = 0;
	for (int d = k->rank - 2; d >= 0; d--) {
		if (++r->index[d] < k->extent[d])
			break;
		r->index[d] = 0;
	}
	row_offset(k, r);
}

static void
load_row(const Walk *k, const Row *r, int64_t n, char *out)
{
	int last = k->rank - 1;
	int64_t stride = k->stride[last], from = r->column, to = from + n;

	if (stride == 0 && k->whole && !k->packed) {
		tile_fill(k->size, out, k->at + r->offset * k->size, n);
		return;
	}
	int64_t lo = MAX(from, k->lo[last]), hi = MIN(to, k->hi[last]);
	if (!r->inside || hi <= lo) {
		tile_fill(k->size, out, k->fill, n);
		return;
	}
	if (lo > from)
		tile_fill(k->size, out, k->fill, lo - from);
	load_run(k, r->offset + lo * stride, stride, hi - lo, out + (lo - from) * k->size);
	if (hi < to)
		tile_fill(k->size, out + (hi - from) * k->size, k->fill, to - hi);
}

void
walk_copy(const Walk *k, int64_t at, int64_t n, void *buf)
{
	Row r;
	char *out = buf;

	if (k->flat) {
		memcpy(buf, k->at + at * k->size, (size_t)(n * k->size));
		return;
	}
	row_start(k, at, &r);
	for (;;) {
		int64_t part = MIN(n, k->extent[k->rank - 1] - r.column);
		load_row(k, &r, part, out);
		n -= part;
		if (n == 0)
			return;
		out += part * k->size;
		row_next(k, &r);
	}
}

const void *
walk_load(const Walk *k, int64_t at, int64_t n, void *buf)
{
	if (k->flat)
		return k->at + at * k->size;
	walk_copy(k, at, n, buf);
	return buf;
}

void
walk_store(const Walk *k, int64_t at, int64_t n, const void *src)
{
	Row r;
	const char *in = src;
	int last = k->rank - 1;

	if (k->empty)
		return;
	row_start(k, at, &r);
	while (n > 0) {
		int64_t part = MIN(n, k->extent[last] - r.column);
		int64_t lo = MAX(r.column, k->lo[last]), hi = MIN(r.column + part, k->hi[last]);
		if (r.inside && hi > lo)
			store_run(k, r.offset + lo * k->stride[last], k->stride[last], hi - lo,
			    in + (lo - r.column) * k->size);
		in += part * k->size;
		n -= part;
		row_next(k, &r);
	}
}

#define TRANSPOSE(T)                                                                               \
	do {                                                                                       \
		const T *x = (const T *)in;                                                        \
		T *o = (T *)out;                                                                   \
		for (int64_t i = 0; i < m; i++)                                                    \
			for (int64_t j = 0; j < n; j++)                                            \
				o[i * to + j] = x[i + j * from];                                   \
	} while (0)

/* out[i * to + j] = in[i + j * from] for a block small enough for the nearest cache. */
static void
transpose_block(int size, const char *in, int64_t from, char *out, int64_t to, int64_t m, int64_t n)
{
	BY_SIZE(size, TRANSPOSE)
}

static void
transpose(const Walk *k, char *out)
{
	enum { BLOCK = 32 };
	int64_t rows = k->extent[0], columns = k->extent[1];

	for (int64_t i = 0; i < rows; i += BLOCK)
		for (int64_t j = 0; j < columns; j += BLOCK)
			transpose_block(k->size, k->at + (i + j * k->stride[1]) * k->size, k->stride[1],
			    out + (i * columns + j) * k->size, columns, MIN(BLOCK, rows - i),
			    MIN(BLOCK, columns - j));
}

void
view_copy(const View *v, const Type *t, void *out)
{
	Walk k;
	int64_t n = type_count(t);

	if (n == 0)
		return;
	walk_make(&k, v, t);
	if (k.rank == 2 && k.whole && !k.packed && k.stride[0] == 1 && k.stride[1] != 1)
		transpose(&k, out);
	else
		walk_copy(&k, 0, n, out);
}

void
storage_copy(const Worker *w, const Storage *h, void *out)
{
	View tmp;
	int64_t n = type_count(h->type);
	int size = type_elem_size(h->type);

	if (h->kind == STORE_ONE)
		tile_fill(size, out, w->at[h->slot], n);
	else if (h->kind == STORE_SLOT || h->dense)
		memmove(out, storage_at(w, h), (size_t)(n * size)); /* a view of what `out` holds may move along in it */
	else
		view_copy(storage_view(w, h, &tmp), h->type, out);
}
