/* Bulk copies of a box of a tensor (cp.async.bulk.tensor, tiles), and sums (cp.reduce.async.bulk.tensor).
 *
 * In shared memory a box is dense, its fastest dimension first.  A swizzle exchanges the 16-byte chunks of each row: the
 * chunk's number (bits 4 … of its address) is exclusive-ored with bits 7 … of it; 1, 2 or 3 bits for rows of 32, 64 or 128
 * bytes, of which narrower rows fill a part (measured on an H200).  Elements outside of the tensor are the fill when loaded
 * and are not stored.  A box that begins at another than a multiple of 16 bytes along a row is an illegal instruction
 * (measured on an H200, with swizzle and without), and so is one that is stored or added and begins before the tensor.
 *
 * A box of windows (im2col) has rows at places: from the first on along dimension 1, by its step, up to the bounding box's
 * end, then on along dimension 2 and so on; each lies an offset further.
 * Source: PTX ISA 9.0, 5.5; CUDA driver API, cuTensorMapEncodeTiled and cuTensorMapEncodeIm2col. */
#include <string.h>

#include "runtime/simt/prims.h"

enum { CHUNK = 16 };
static const uint64_t mark = 0x74656e736f726d61u;

static int
map_element_bytes(const SimtTensorMap *m)
{
	return dtype_info[m->dtype].bits / 8;
}

/* Corners have 16 bits along one dimension, 8 along each of two, 5 along each of three. */
static int
corner_most(int windows)
{
	return windows == 1 ? INT16_MAX : windows == 2 ? INT8_MAX : 15;
}

static const char *
set_windows(SimtTensorMap *map, const SimtTensor *t)
{
	int most = corner_most(t->windows);
	if (t->windows && t->windows != t->rank - 2)
		return "a tensor map of windows has two dimensions more than windows have";
	map->windows = (uint8_t)t->windows;
	for (int i = 0; i < t->windows; i++) {
		if (t->lower[i] < -most - 1 || t->lower[i] > most || t->upper[i] < -most - 1 || t->upper[i] > most)
			return "a corner of the bounding box is too far from the tensor's";
		if (t->lower[i] >= t->extent[1 + i] + t->upper[i])
			return "the bounding box is empty";
		if (t->step[i] < 1 || t->step[i] > 8)
			return "a step of windows is not in 1 … 8";
		map->lower[i] = (int16_t)t->lower[i];
		map->upper[i] = (int16_t)t->upper[i];
		map->step[i] = (uint8_t)t->step[i];
	}
	return NULL;
}

const char *
simt_tensor_encode(SimtTensorMap *map, const SimtTensor *t)
{
	int size = dtype_info[t->dtype].bits / 8;
	if (size < 1 || t->rank < 1 || t->rank > SIMT_TENSOR_RANK)
		return "a tensor map has 1 to 5 dimensions of elements of whole bytes";
	if (t->address % 16)
		return "the tensor's address is not a multiple of 16";
	if (t->fills_nan && !dtype_is_float(t->dtype))
		return "only floats are filled with NaN";
	int64_t row = (int64_t)t->box[0] * size;
	if (row % CHUNK)
		return "a row of the box is not a multiple of 16 bytes";
	if (t->swizzle != SIMT_SWIZZLE_NONE && row > 16 << t->swizzle)
		return "a row of the box is longer than the swizzle's";
	*map = (SimtTensorMap){.mark = mark, .address = t->address, .rank = (uint8_t)t->rank, .dtype = (uint8_t)t->dtype,
		.swizzle = (uint8_t)t->swizzle, .fills_nan = t->fills_nan};
	for (int d = 0; d < t->rank; d++) {
		int64_t stride = d ? t->stride[d] : size;
		if (t->extent[d] < 1 || t->extent[d] > UINT32_MAX)
			return "an extent of the tensor is not in 1 … 2^32 - 1";
		if (t->box[d] < 1 || t->box[d] > (t->windows && d == 1 ? 1024 : 256))
			return "an extent of the box is not in 1 … 256";
		if (d && (stride % 16 || stride < 0 || stride >= INT64_C(1) << 40))
			return "a stride of the tensor is not a multiple of 16 bytes below 2^40";
		map->extent[d] = (uint32_t)t->extent[d];
		map->stride[d] = (uint64_t)stride;
		map->box[d] = (uint16_t)t->box[d];
	}
	return set_windows(map, t);
}

/* ---- the rows of a box ---- */

/* A row of a box, of which elements [from, to) are in the tensor. */
typedef struct Row {
	int from, to;
	uint64_t at;                                    /* of element `from` in the tensor */
	int bytes;                                      /* from there */
} Row;

int
simt_box_pitch(const SimtTensorMap *m)
{
	return m->swizzle ? 16 << m->swizzle : m->box[0] * map_element_bytes(m);
}

int
simt_box_rows(const SimtTensorMap *m)
{
	int n = 1;
	for (int d = 1; d < m->rank; d++)
		n *= m->box[d];
	return n;
}

/* Where row `number` of a box lies, along dimensions from 1 on. */
static void
place_of(const BulkCopy *c, int number, int64_t at[SIMT_TENSOR_RANK])
{
	const SimtTensorMap *m = c->map;
	int64_t left = number;
	for (int d = 1; d < m->rank; d++) {
		bool goes_on = m->windows && d <= m->windows;
		int64_t n = goes_on ? 0 : m->box[d], i = left;
		if (goes_on) {
			int w = d - 1;
			n = ((int64_t)m->extent[d] + m->upper[w] - m->lower[w] + m->step[w] - 1) / m->step[w];
			i += (c->first[d] - m->lower[w]) / m->step[w];
			at[d] = i % n * m->step[w] + m->lower[w] + c->offset[w];
			left = i / n;
		} else {
			at[d] = c->first[d] + (m->windows ? left : left % n);
			left /= n;
		}
	}
}

static Row
row_of(const BulkCopy *c, int number)
{
	const SimtTensorMap *m = c->map;
	int64_t at[SIMT_TENSOR_RANK];
	int64_t first = c->first[0], low = first < 0 ? -first : 0, high = (int64_t)m->extent[0] - first;
	bool is_inside = true;
	Row r = {.at = m->address};
	place_of(c, number, at);
	for (int d = 1; d < m->rank; d++) {
		is_inside = is_inside && at[d] >= 0 && at[d] < m->extent[d];
		r.at += is_inside ? (uint64_t)at[d] * m->stride[d] : 0;
	}
	r.from = (int)MIN(low, m->box[0]);
	r.to = is_inside ? (int)MAX(r.from, MIN(high, m->box[0])) : r.from;
	r.at += (uint64_t)((first + r.from) * map_element_bytes(m));
	r.bytes = (r.to - r.from) * map_element_bytes(m);
	return r;
}

/* Where a byte of the dense box lies, from the box's begin. */
static uint32_t
swizzled(const BulkCopy *c, uint32_t byte)
{
	uint32_t at = c->shared + byte, bits = (1u << c->map->swizzle) - 1;
	return (at ^ (at >> 3 & bits << 4)) - c->shared;
}

/* Between a row as the tensor has it and the box. */
static void
move_row(const BulkCopy *c, int number, uint8_t *box, uint8_t *row, bool into_box)
{
	int bytes = c->map->box[0] * map_element_bytes(c->map), pitch = simt_box_pitch(c->map);
	for (int i = 0; i < bytes; i += CHUNK) {
		uint8_t *there = box + swizzled(c, (uint32_t)(number * pitch + i));
		memcpy(into_box ? there : row + i, into_box ? row + i : there, CHUNK);
	}
}

void
simt_box_load(const BulkCopy *c, uint8_t *box)
{
	const SimtTensorMap *m = c->map;
	uint8_t line[256 * 8];
	for (int i = 0; i < simt_box_rows(m); i++) {
		Row r = row_of(c, i);
		memset(line, m->fills_nan ? 0xff : 0, (size_t)(m->box[0] * map_element_bytes(m)));
		if (r.bytes)
			memcpy(line + r.from * map_element_bytes(m), (const uint8_t *)(uintptr_t)r.at, (size_t)r.bytes);
		move_row(c, i, box, line, true);
	}
}

/* As atomics do; blocks run beside each other. */
static void
add_floats(uint32_t *to, const float *from, int n)
{
	for (int i = 0; i < n; i++) {
		uint32_t old = __atomic_load_n(&to[i], __ATOMIC_RELAXED), new;
		do {
			float sum;
			memcpy(&sum, &old, sizeof sum);
			sum += from[i];
			memcpy(&new, &sum, sizeof new);
		} while (!__atomic_compare_exchange_n(&to[i], &old, new, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
	}
}

void
simt_box_store(const BulkCopy *c, const uint8_t *box)
{
	_Alignas(CHUNK) uint8_t line[256 * 8];
	for (int i = 0; i < simt_box_rows(c->map); i++) {
		Row r = row_of(c, i);
		uint8_t *to = (uint8_t *)(uintptr_t)r.at, *from = line + r.from * map_element_bytes(c->map);
		move_row(c, i, (uint8_t *)(uintptr_t)box, line, false);
		if (r.bytes && c->is_added)
			add_floats((uint32_t *)(void *)to, (const float *)(void *)from, r.bytes / (int)sizeof(float));
		else if (r.bytes)
			memcpy(to, from, (size_t)r.bytes);
	}
}

void
simt_box_landed(const BulkCopy *c, int64_t mbarrier)
{
	for (int i = 0; i < simt_box_rows(c->map); i++) {
		Row r = row_of(c, i);
		if (r.bytes)
			simt_global_landed(c->begun_by, r.at, r.bytes, mbarrier);
	}
}

/* ---- primitives ---- */

/* A box at the coordinates in[at …]; its part of the tensor is touched. */
static void
check_windows(SimtThread *t, BulkCopy *c, const uint64_t *offset, const char *what)
{
	const SimtTensorMap *m = c->map;
	uint64_t most = 2 * (uint64_t)corner_most(m->windows) + 1;
	for (int i = 0; i < m->windows; i++) {
		int64_t from = (int64_t)c->first[1 + i] - m->lower[i], end = (int64_t)m->extent[1 + i] + m->upper[i];
		if (!offset || offset[i] > most)
			simt_fail(t, "%s: the offset of windows is not in 0 … %d", what, (int)most);
		if (from < 0 || c->first[1 + i] >= end || from % m->step[i])
			simt_fail(t, "%s: the first place, %d, is none of the bounding box", what, c->first[1 + i]);
		c->offset[i] = (int32_t)offset[i];
	}
}

static BulkCopy
box_of(SimtThread *t, int rank, const uint64_t *in, int at, unsigned access, const char *what)
{
	const SimtTensorMap *m = (const SimtTensorMap *)(uintptr_t)in[1];
	BulkCopy c = {.by = t, .begun_by = t, .shared = (uint32_t)in[0], .map = m};
	if (in[1] % 64 || m->mark != mark)
		simt_fail(t, "%s: there is no tensor map at its address", what);
	if (m->rank != rank)
		simt_fail(t, "%s: the tensor map has %d dimensions, not %d", what, m->rank, rank);
	if (c.shared % 128)
		simt_fail(t, "%s: the address %u in shared memory is not a multiple of 128", what, c.shared);
	c.bytes = m->box[0] * map_element_bytes(m) * simt_box_rows(m);
	for (int d = 0; d < rank; d++)
		c.first[d] = (int32_t)(uint32_t)in[at + d];
	if ((int64_t)c.first[0] * map_element_bytes(m) % CHUNK)
		simt_fail(t, "%s: the box begins %d elements into a row, not at a multiple of 16 bytes", what,
		    c.first[0]);
	for (int d = 0; d < rank && (access & SIMT_WRITE); d++)
		if (c.first[d] < 0)
			simt_fail(t, "%s: the box begins %lld elements before the tensor: only loads may", what,
			    -(long long)c.first[d]);
	check_windows(t, &c, access == SIMT_READ && m->windows ? in + at + rank : NULL, what);
	for (int i = 0; i < simt_box_rows(m); i++) {
		Row r = row_of(&c, i);
		if (r.bytes)
			simt_global_at(t, r.at, r.bytes, map_element_bytes(m), access | SIMT_ASYNC | SIMT_TENSOR);
	}
	return c;
}

static void
load(SimtThread *t, int rank, const uint64_t *in, const char *what)
{
	BulkCopy c = box_of(t, rank, in, 3, SIMT_READ, what);
	simt_bulk_load(&c, (uint32_t)in[2], what);
}

static void
window_load(SimtThread *t, int rank, const uint64_t *in, const char *what)
{
	const SimtTensorMap *m = (const SimtTensorMap *)(uintptr_t)in[1];
	if (in[1] % 64 == 0 && m->mark == mark && !m->windows)
		simt_fail(t, "%s: the tensor map has no windows", what);
	load(t, rank, in, what);
}

static void
multi(SimtThread *t, int rank, const uint64_t *in, const char *what)
{
	BulkCopy c = box_of(t, rank, in, 4, SIMT_READ, what);
	simt_bulk_load_multi(&c, (uint32_t)in[2], in[3], what);
}

static void
store(SimtThread *t, int rank, const uint64_t *in, const char *what)
{
	BulkCopy c = box_of(t, rank, in, 2, SIMT_WRITE, what);
	simt_bulk_store_begin(&c);
}

static void
add(SimtThread *t, int rank, const uint64_t *in, const char *what)
{
	BulkCopy c = box_of(t, rank, in, 2, SIMT_READ | SIMT_WRITE | SIMT_ATOMIC, what);
	if (c.map->dtype != TY_F32)
		simt_fail(t, "%s: the tensor map's elements are not f32", what);
	c.is_added = true;
	simt_bulk_store_begin(&c);
}

#define BOX(kind, rank)                                                                            \
	PRIMITIVE(simt_tensor_##kind##_##rank)                                                     \
	{                                                                                          \
		kind(t, rank, in, "tensor_" #kind "_" #rank);                                      \
	}
#define BOXES(kind) BOX(kind, 1) BOX(kind, 2) BOX(kind, 3) BOX(kind, 4) BOX(kind, 5)
BOXES(load)
BOXES(multi)
BOXES(store)
BOXES(add)
#undef BOXES
#undef BOX

PRIMITIVE(simt_window_load_3)
{
	window_load(t, 3, in, "window_load_3");
}

PRIMITIVE(simt_window_load_4)
{
	window_load(t, 4, in, "window_load_4");
}

PRIMITIVE(simt_window_load_5)
{
	window_load(t, 5, in, "window_load_5");
}

PRIMITIVE(simt_tensor_map_fetch)
{
}
