/* Building layouts and taking them apart.
 *
 * A map's output packs the tile's coordinates with the fastest dimension lowest, so for a tile of
 * 4 x 8 an image is yyxxx in binary.  The builders below only decide which tile bit each hardware
 * bit moves; everything is said in powers of two (log2 figures), because nothing else is linear
 * over F2.  Tiles of other extents are padded before they get a layout. */
#include "layout/layout.h"

#include <assert.h>
#include <string.h>

int
layout_in_at(const Layout *l, InDim d)
{
	return SUM_OF(int, i, (int)d, l->in[i]);
}

int
layout_in_bits(const Layout *l)
{
	return layout_in_at(l, IN_DIMS);
}

int
layout_out_at(const Layout *l, int dim)
{
	int at = 0;
	for (int i = l->rank - 1; i > dim; i--)
		at += l->out[i];
	return at;
}

int
layout_out_bits(const Layout *l)
{
	return layout_out_at(l, -1);
}

/* Coordinate `dim` of a packed tile position. */
static uint32_t
coordinate(const Layout *l, uint64_t packed, int dim)
{
	return (uint32_t)(packed >> layout_out_at(l, dim) & ((UINT64_C(1) << l->out[dim]) - 1));
}

bool
layout_equal(const Layout *a, const Layout *b)
{
	if (a->rank != b->rank || memcmp(a->in, b->in, sizeof a->in) != 0)
		return false;
	return ALL_OF(d, a->rank, a->out[d] == b->out[d]) && f2_equal(&a->map, &b->map);
}

bool
layout_valid(const Layout *l)
{
	return l->map.nin == layout_in_bits(l) && l->map.nout == layout_out_bits(l) &&
	    f2_is_surjective(&l->map);
}

static Layout
layout_empty(int rank, const int shape[LAYOUT_RANK])
{
	Layout l = {.rank = rank};
	for (int d = 0; d < rank; d++)
		l.out[d] = shape[d];
	l.map = f2_zero(0, layout_out_bits(&l));
	return l;
}

/* Appends input bits to the last input that was begun: the next unused bit of dimension dim, or 0 (a
 * broadcast) where the dimension is used up and `keep` is set. */
static void
take_bits(Layout *l, InDim in, int dim, int n, int used[LAYOUT_RANK], bool keep)
{
	for (int i = 0; i < n; i++) {
		bool more = used[dim] < l->out[dim];
		if (!more && !keep)
			return;
		l->map.col[l->map.nin++] =
		    more ? UINT64_C(1) << (layout_out_at(l, dim) + used[dim]++) : 0;
		l->in[in]++;
	}
}

/* Registers that hold what no thread holds yet go between the registers and the lanes. */
static void
add_register(Layout *l, uint64_t image)
{
	int at = l->in[IN_REGISTER]++;
	memmove(&l->map.col[at + 1], &l->map.col[at], sizeof l->map.col[0] * (size_t)(l->map.nin - at));
	l->map.col[at] = image;
	l->map.nin++;
}

static void
wrap_registers(Layout *l, const int order[LAYOUT_RANK], int used[LAYOUT_RANK])
{
	for (int i = 0; i < l->rank; i++)
		for (int d = order[i]; used[d] < l->out[d]; used[d]++)
			add_register(l, UINT64_C(1) << (layout_out_at(l, d) + used[d]));
}

Layout
layout_blocked(const Blocked *b, const int shape[LAYOUT_RANK])
{
	Layout l = layout_empty(b->rank, shape);
	int used[LAYOUT_RANK] = {0};
	for (int i = 0; i < b->rank; i++)
		take_bits(&l, IN_REGISTER, b->order[i], b->per_thread[b->order[i]], used, false);
	for (int i = 0; i < b->rank; i++)
		take_bits(&l, IN_LANE, b->order[i], b->lanes[b->order[i]], used, true);
	for (int i = 0; i < b->rank; i++)
		take_bits(&l, IN_WARP, b->order[i], b->warps[b->order[i]], used, true);
	wrap_registers(&l, b->order, used);
	return l;
}

/* Spreads `bits` over the dimensions in order, as far as each has room. */
static void
spread(int rank, const int order[LAYOUT_RANK], int room[LAYOUT_RANK], int bits, int out[LAYOUT_RANK])
{
	for (int i = 0; i < rank && bits > 0; i++) {
		int d = order[i];
		int take = MIN(room[d], bits);
		if (i == rank - 1)
			take = bits;
		out[d] += take;
		room[d] -= MIN(take, room[d]);
		bits -= take;
	}
}

Layout
layout_scanned(int rank, const int shape[LAYOUT_RANK], const int order[LAYOUT_RANK], int vector, int along,
    int lanes, int warps)
{
	Blocked b = {.rank = rank};
	int room[LAYOUT_RANK], left = -vector - lanes - warps;
	for (int d = 0; d < rank; d++) {
		b.order[d] = order[d];
		room[d] = shape[d];
		left += shape[d];
	}
	if (rank > 0) {
		for (int i = 0; i < rank; i++) {
			int take = MIN(vector, room[order[i]]);
			b.per_thread[order[i]] = take;
			room[order[i]] -= take;
			vector -= take;
		}
		if (along >= 0) {
			int held = MIN(MAX(left, 0), room[along]);
			b.per_thread[along] += held;
			room[along] -= held;
		}
		spread(rank, order, room, lanes, b.lanes);
		spread(rank, order, room, warps, b.warps);
		return layout_blocked(&b, shape);
	}
	Layout l = layout_empty(0, shape);          /* a scalar: everybody holds it */
	l.in[IN_LANE] = lanes;
	l.in[IN_WARP] = warps;
	l.map.nin = lanes + warps;
	return l;
}

Layout
layout_coalesced(int rank, const int shape[LAYOUT_RANK], const int order[LAYOUT_RANK], int vector,
    int lanes, int warps)
{
	return layout_scanned(rank, shape, order, vector, -1, lanes, warps);
}

/* The same map seen in another shape: out dimension d of the result is dimension from[d] of l (-1: extent 1). */
static Layout
regroup(const Layout *l, int rank, const int from[LAYOUT_RANK])
{
	Layout r = {.rank = rank};
	memcpy(r.in, l->in, sizeof r.in);
	for (int d = 0; d < rank; d++)
		r.out[d] = from[d] < 0 ? 0 : l->out[from[d]];
	r.map = f2_zero(l->map.nin, layout_out_bits(&r));
	for (int i = 0; i < l->map.nin; i++)
		for (int d = 0; d < rank; d++)
			if (from[d] >= 0)
				r.map.col[i] |= (uint64_t)coordinate(l, l->map.col[i], from[d])
				                << layout_out_at(&r, d);
	return r;
}

Layout
layout_slice(const Layout *l, int dim)
{
	int from[LAYOUT_RANK], n = 0;
	for (int d = 0; d < l->rank; d++)
		if (d != dim)
			from[n++] = d;
	return regroup(l, n, from);
}

Layout
layout_permute(const Layout *l, const int dims[LAYOUT_RANK])
{
	return regroup(l, l->rank, dims);
}

Layout
layout_move_bits(const Layout *l, int dim, const int64_t *to)
{
	Layout r = *l;
	int at = layout_out_at(l, dim);
	uint64_t mask = ((UINT64_C(1) << l->out[dim]) - 1) << at;
	for (int i = 0; i < l->map.nin; i++) {
		uint64_t from = l->map.col[i];
		r.map.col[i] = from & ~mask;
		for (int b = 0; b < l->out[dim]; b++)
			r.map.col[i] |= (from >> (at + b) & 1) << (at + to[b]);
	}
	return r;
}

Layout
layout_expand(const Layout *l, int dim)
{
	int from[LAYOUT_RANK], n = 0;
	assert(l->rank < LAYOUT_RANK);
	for (int d = 0; d <= l->rank; d++)
		from[d] = d == dim ? -1 : n++;
	return regroup(l, l->rank + 1, from);
}

Layout
layout_reshape(const Layout *l, int rank, const int shape[LAYOUT_RANK])
{
	Layout r = *l;
	r.rank = rank;
	memset(r.out, 0, sizeof r.out);
	for (int d = 0; d < rank; d++)
		r.out[d] = shape[d];
	assert(layout_out_bits(&r) == layout_out_bits(l));
	return r;                                   /* packed row-major: the images stay */
}

Layout
layout_shorten(const Layout *l, int dim, int bits)
{
	Layout r = {.rank = l->rank};
	memcpy(r.in, l->in, sizeof r.in);
	memcpy(r.out, l->out, sizeof r.out);
	r.out[dim] = bits;
	r.map = f2_zero(l->map.nin, layout_out_bits(&r));
	for (int i = 0; i < l->map.nin; i++)
		for (int d = 0; d < l->rank; d++) {
			uint64_t c = l->map.col[i] >> layout_out_at(l, d) & ((UINT64_C(1) << l->out[d]) - 1);
			r.map.col[i] |= (c & ((UINT64_C(1) << r.out[d]) - 1)) << layout_out_at(&r, d);
		}
	return r;
}

Layout
layout_stack(const Layout *l, int dim, int bits)
{
	Layout r = *l;
	r.out[dim] += bits;
	r.map.nout += bits;
	r.in[IN_REGISTER] += bits;
	r.map.nin += bits;
	int above = layout_out_at(l, dim) + l->out[dim], at = l->in[IN_REGISTER];
	uint64_t low = (UINT64_C(1) << above) - 1;
	for (int i = 0; i < l->map.nin; i++) {
		uint64_t v = l->map.col[i];
		r.map.col[i < at ? i : i + bits] = (v & low) | (v & ~low) << bits;
	}
	for (int i = 0; i < bits; i++)
		r.map.col[at + i] = UINT64_C(1) << (above + i);
	return r;
}

Layout
layout_pair(const Layout *l)
{
	Layout r = layout_expand(l, l->rank);
	r.out[l->rank] = 1;
	for (int i = 0; i < r.map.nin; i++)
		r.map.col[i] <<= 1;
	memmove(&r.map.col[1], &r.map.col[0], sizeof r.map.col[0] * (size_t)r.map.nin);
	r.map.col[0] = 1;
	r.map.nin++;
	r.map.nout++;
	r.in[IN_REGISTER]++;
	return r;
}

/* Which of the first n inputs have a column that is a sum of those before: a vector of f2_kernel ends with each. */
static uint64_t
repeating(const F2 *m, int n)
{
	const F2 first = f2_columns(m, 0, n);
	uint64_t kernel[F2_MAX], all = 0;
	int k = f2_kernel(&first, kernel);
	for (int i = 0; i < k; i++)
		all |= UINT64_C(1) << (63 - __builtin_clzll(kernel[i]));
	return all;
}

uint64_t
layout_free_bits(const Layout *l, InDim d)
{
	int at = layout_in_at(l, d);
	return repeating(&l->map, at + l->in[d]) >> at;
}

Layout
layout_drop_broadcast(const Layout *l)
{
	Layout r = *l;
	uint64_t repeat = repeating(&l->map, l->in[IN_REGISTER]);
	r.map = f2_zero(0, l->map.nout);
	for (int i = 0; i < l->map.nin; i++)
		if (!(repeat >> i & 1))
			r.map.col[r.map.nin++] = l->map.col[i];
	r.in[IN_REGISTER] -= __builtin_popcountll(repeat);
	return r;
}

Layout
layout_fill_lanes(const Layout *l)
{
	Layout r = *l;
	int n = l->in[IN_REGISTER], lanes = layout_in_at(l, IN_LANE);
	for (int i = 0; i < l->in[IN_LANE] && n > 0; i++)
		if (!r.map.col[lanes + i])
			r.map.col[lanes + i] = l->map.col[--n];
	memmove(&r.map.col[n], &r.map.col[l->in[IN_REGISTER]],
	    sizeof r.map.col[0] * (size_t)(l->map.nin - l->in[IN_REGISTER]));
	r.in[IN_REGISTER] = n;
	r.map.nin = layout_in_bits(&r);
	return r;
}

static void
add_columns(Layout *r, const Layout *l, int from, int to)
{
	while (from < to)
		r->map.col[r->map.nin++] = l->map.col[from++];
}

Layout
layout_fold_warps(const Layout *l, int warps)
{
	Layout r = *l;
	int registers = l->in[IN_REGISTER], end = layout_in_at(l, IN_WARP) + l->in[IN_WARP];
	r.in[IN_WARP] = MIN(l->in[IN_WARP], warps);
	int from = end - l->in[IN_WARP] + r.in[IN_WARP];
	r.map.nin = 0;
	add_columns(&r, l, 0, registers);
	for (int i = from; i < end; i++)
		if (l->map.col[i])                      /* else the warps hold the same */
			add_columns(&r, l, i, i + 1);
	r.in[IN_REGISTER] = r.map.nin;
	add_columns(&r, l, registers, from);
	add_columns(&r, l, end, l->map.nin);
	return r;
}

Layout
layout_fragment(int rank, const int shape[LAYOUT_RANK], const int in[IN_DIMS], const uint64_t *col)
{
	Layout l = layout_empty(rank, shape);
	memcpy(l.in, in, sizeof l.in);
	l.map.nin = layout_in_bits(&l);
	memcpy(l.map.col, col, sizeof *col * (size_t)l.map.nin);
	return l;
}

Layout
layout_tile(const Layout *l, const int shape[LAYOUT_RANK], const int warps[LAYOUT_RANK])
{
	int from[LAYOUT_RANK], used[LAYOUT_RANK];
	Layout r = *l;
	for (int d = 0; d < l->rank; d++) {
		from[d] = d;
		used[d] = l->out[d];
		r.out[d] = MAX(shape[d], l->out[d]);
	}
	r.map = f2_zero(l->map.nin, layout_out_bits(&r));
	for (int i = 0; i < l->map.nin; i++)
		for (int d = 0; d < l->rank; d++)
			r.map.col[i] |= (uint64_t)coordinate(l, l->map.col[i], from[d]) << layout_out_at(&r, d);
	assert(l->in[IN_BLOCK] == 0);
	for (int d = 0; d < l->rank; d++)
		take_bits(&r, IN_WARP, d, warps[d], used, true);
	wrap_registers(&r, layout_last_first(l->rank), used);
	return r;
}

Layout
layout_row_major(int rank, const int shape[LAYOUT_RANK], const int order[LAYOUT_RANK])
{
	return layout_swizzled(rank, shape, order, 0, 0, 0);
}

Layout
layout_8x8(int rank, const int shape[LAYOUT_RANK])
{
	Layout l = {.rank = rank};
	int n = 0, row = rank - 2, col = rank - 1;
	memcpy(l.out, shape, sizeof *shape * (size_t)rank);
	for (int b = 0; b < 3; b++)
		l.map.col[n++] = UINT64_C(1) << (layout_out_at(&l, col) + b);
	for (int b = 0; b < 3; b++)
		l.map.col[n++] = UINT64_C(1) << (layout_out_at(&l, row) + b);
	for (int d = col; d >= 0; d--)
		for (int b = d >= row ? 3 : 0; b < shape[d]; b++)
			l.map.col[n++] = UINT64_C(1) << (layout_out_at(&l, d) + b);
	l.map.nin = l.map.nout = l.in[IN_REGISTER] = n;
	return l;
}

Layout
layout_swizzled(int rank, const int shape[LAYOUT_RANK], const int order[LAYOUT_RANK], int vector, int per_phase,
    int phases)
{
	Layout l = layout_empty(rank, shape);
	int used[LAYOUT_RANK] = {0};
	for (int i = 0; i < rank; i++)
		take_bits(&l, IN_REGISTER, order[i], shape[order[i]], used, false);
	if (rank < 2)
		return l;
	int row = shape[order[0]];
	for (int p = 0; p < phases && vector + p < row; p++) {
		int i = row + per_phase + p;
		if (i < l.map.nin)
			l.map.col[i] ^= l.map.col[vector + p];
	}
	return l;
}

/* In bits of the byte offset: bits 4 to 6 (5, 4) are exclusive-ored with bits 7 to 9 (8, 7), whatever they count. */
Layout
layout_boxed(int rank, const int shape[LAYOUT_RANK], const int order[LAYOUT_RANK], int row_bytes, int elem_bytes)
{
	Layout l = layout_empty(rank, shape);
	int used[LAYOUT_RANK] = {0}, e = log2_ceil(elem_bytes), row = log2_ceil(row_bytes);

	if (rank == 0)
		return l;
	row = MIN(row, shape[order[0]] + e);
	take_bits(&l, IN_REGISTER, order[0], row - e, used, false);
	for (int i = 1; i < rank; i++)
		take_bits(&l, IN_REGISTER, order[i], shape[order[i]], used, false);
	take_bits(&l, IN_REGISTER, order[0], shape[order[0]], used, false);
	for (int p = 0; p < row - 4; p++)
		if (7 + p - e < l.map.nin)
			l.map.col[7 + p - e] ^= l.map.col[4 + p - e];
	return l;
}

/* Dimensions in the order in which offsets reach them, the first without the boxes that follow; extents of 1 last. */
static void
order_of_offsets(const Layout *l, int order[LAYOUT_RANK])
{
	uint64_t seen = 0;
	int n = 0;

	for (int i = 0; i < l->map.nin; i++)
		for (int d = 0; d < l->rank; d++)
			if (coordinate(l, l->map.col[i], d) && !(seen >> d & 1)) {
				order[n++] = d;
				seen |= UINT64_C(1) << d;
			}
	for (int d = l->rank - 1; d >= 0; d--)
		if (!(seen >> d & 1))
			order[n++] = d;
}

bool
layout_match_boxed(const Layout *l, int elem_bytes, int order[LAYOUT_RANK], int *row_bytes)
{
	if (l->rank == 0 || l->in[IN_REGISTER] != l->map.nin)
		return false;
	order_of_offsets(l, order);
	for (int row = 128; row >= 16; row /= 2) {
		Layout boxed = layout_boxed(l->rank, l->out, order, row, elem_bytes);
		if (layout_equal(l, &boxed)) {
			*row_bytes = MIN(row, (1 << l->out[order[0]]) * elem_bytes);
			return *row_bytes >= 16;
		}
	}
	return false;
}

int
layout_bits_along(const Layout *l, InDim in, int dim)
{
	uint64_t along = ((UINT64_C(1) << l->out[dim]) - 1) << layout_out_at(l, dim);
	return COUNT_OF(i, l->in[in], (l->map.col[layout_in_at(l, in) + i] & along) != 0);
}
