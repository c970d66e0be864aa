/* Shared buffers, asynchronous copies, and mbarriers.
 *
 * A buffer is a register, the address of its first slot, and a slot one too.  A tile is read from a slot by ldmatrix
 * where the fragments of its layout are rows of 16 bytes there (matrix.c), else by the widest loads that its layout
 * allows; it is written like the scratch of a conversion.
 *
 * A copy's token carries the layout that says which thread moves which elements, as a read's result would:
 *
 *     %t = copy %x, %i, %k, %s {index = "pp", extents = [128, 32], kind = "cp_async", vector = 8} : token #2
 *  =>
 *     cp_async_16 r20, r21, r22        16 bytes from r21 to r20, or (r22 is 0) 16 zeros; once for every 8 registers
 *
 * Bulk copies are in bulk.c.
 *
 * One thread of a thread block initialises mbarriers.  One thread of a role arrives, or a lane of each warp; barriers that
 * pass barrier puts order what the others did before it. */
#include "lower/lower.h"
#include "pass/async/ring.h"

#include <string.h>

enum { LINE_BYTES = 128 };

static Reg
address(Lower *l, Reg base, int64_t bytes)
{
	return bytes ? thread_pointer(l->b, base, lower_i32(l, bytes)) : base;
}

/* Where number `index` of a ring stands; in_range: it is below the number of slots. */
static Reg
slot_at(Lower *l, const Value *ring, const Value *index, bool in_range)
{
	const Type *t = ring->type;
	int64_t n = t->slots, each = buffer_slot_bytes(buffer_owner(ring)), at;
	Reg base = lower_regs(l, ring)[0];

	if (value_constant(index, &at))
		return address(l, base, ((at % n + n) % n) * each);
	if (n == 1)
		return base;
	Reg i = lower_as(l, CAST_TRUNC, REG_I32, lower_regs(l, index)[0]);
	if (!in_range && is_power_of_two(n)) {
		i = lower_op2(l, THREAD_AND, i, lower_i32(l, n - 1));
	} else if (!in_range) {
		Reg rest = lower_op2(l, THREAD_SREM, lower_regs(l, index)[0], lower_i64(l, n));
		i = lower_as(l, CAST_TRUNC, REG_I32, rest);
		Reg below = lower_op2(l, THREAD_SLT, i, lower_i32(l, 0));
		i = lower_op3(l, THREAD_SELECT, below, lower_op2(l, THREAD_ADD, i, lower_i32(l, n)), i);
	}
	return thread_pointer(l->b, base, lower_op2(l, THREAD_MUL, i, lower_i32(l, each)));
}

static void
lower_own(Lower *l, Op *op)
{
	lower_new(l, &op->out[0])[0] = address(l, l->shared, attr_smem(op));
}

/* Of a copy, its token's; without one, rows along the last dimension, 16 bytes a thread. */
static Layout
copy_layout(const Lower *l, const Op *op, const Type *slot)
{
	int shape[LAYOUT_RANK] = {0};

	if (op->out[0].layout)
		return *op->out[0].layout;
	layout_shape(slot->rank, slot->extent, shape);
	return layout_coalesced(slot->rank, shape, layout_last_first(slot->rank), log2_ceil(attr_vector(op)),
	    log2_ceil(l->t->lanes), log2_ceil(l->warps));
}

/* Elements from device memory through registers. */
static void
copy_plain(Lower *l, RegType type, int n, ThreadAccess *from, ThreadAccess *to)
{
	Reg v[16];

	from->type = to->type = type == REG_PRED ? REG_I8 : type;
	from->n = to->n = n;
	thread_load(l->b, from, v);
	thread_store(l->b, to, v);
}

/* Of the threads that hold the same elements only the first copies: `first` is true in it. */
static void
copy_async(Lower *l, int bytes, PrimKind by, const ThreadAccess *from, const ThreadAccess *to, Reg first)
{
	Reg whole = lower_i32(l, bytes);
	Reg size = from->mask ? lower_op3(l, THREAD_SELECT, from->mask, whole, lower_i32(l, 0)) : whole;
	Reg src = from->constant ? thread_pointer(l->b, from->base, lower_i64(l, from->constant)) : from->base;
	Reg dst = to->offset ? thread_pointer(l->b, to->base, to->offset) : to->base;
	Reg in[] = {address(l, dst, to->constant), src, size};

	if (first)
		lower_when(l, first);
	if (bytes < 16 || by == PRIM_CP_ASYNC)
		thread_prim(l->b, PRIM_CP_ASYNC, in, 3, (int64_t[]){bytes}, 1, NULL, 0);
	else
		thread_prim(l->b, by, in, 3, NULL, 0, NULL, 0);
	if (first)
		lower_end_when(l);
}

/* Bytes of a row that one warp copies: other warps have the rest of it, or other iterations. */
static int64_t
row_bytes_of_warp(const Type *tile, const Layout *elements)
{
	int last = tile->rank - 1, bits = elements->out[last] - layout_bits_along(elements, IN_WARP, last);

	return (INT64_C(1) << bits) * dtype_info[tile->elem].bits / 8;
}

/* Whole lines at a time, of which other threads, or the next iterations, most likely want the rest: an H200's memory gives
 * 3.3 TB/s where each sector is asked for by itself, and 4.3 by lines.  Attention of one token over 16 x 4096 keys took
 * 81 us without and 63 with it, a product of few rows by 4-bit weights, 64 bytes of a row at a time, 13.8 and 12.3.  Not of
 * gathered rows of less than a line, the rest of which may be of no use: those come by way of the L1 cache, where rows
 * that many ask for stay.  PTX has lines from version 7.4 on, which older targets do not ask for. */
static PrimKind
copies_by(const Op *op, const Type *tile, const Layout *elements, const Target *t)
{
	if (strchr(attr_index(op), 'g') && row_bytes_of_warp(tile, elements) < LINE_BYTES)
		return PRIM_CP_ASYNC;
	return (t->has & prim_info[PRIM_CP_ASYNC_LINE].needs) && tile->rank > 1 ? PRIM_CP_ASYNC_LINE : PRIM_CP_ASYNC_16;
}

/* Each thread arrives when all that it has copied so far is there. */
static void
arrive_later(Lower *l, const Op *op)
{
	int bar = 2 + op->in[0]->type->rank;
	Reg at = lower_mbarrier_at(l, op->in[bar], op->in[bar + 1]);

	thread_prim(l->b, PRIM_CP_ARRIVE, &at, 1, NULL, 0, NULL, 0);
}

/* Rows of a number of chunks that is no power of two; what the tile has behind them is not there. */
static void
copy_rows(Lower *l, const Op *op, const Type *tile, int64_t pitch)
{
	const Layout *layout = op->out[0].layout;
	LowerMap row = lower_coordinate_map(l, layout, 0), column = lower_coordinate_map(l, layout, 1);
	Reg holder = lower_is_first_holder(l, layout), slot = lower_regs(l, op->in[access_data(op)])[0];
	int64_t valid = attr_valid(op)->at[1], down, right;
	uint64_t repeats = lower_repeats(layout);
	PrimKind by = copies_by(op, tile, layout, l->t);
	LowerAccess a;

	lower_access_make(l, &a, op, tile, layout);
	for (int r = 0; r < 1 << layout->in[IN_REGISTER]; r += a.vector) {
		ThreadAccess from = {.align = a.vector, .cache = lower_cache(op, CACHE_NONE)};
		ThreadAccess to = {.space = SPACE_SHARED, .align = a.vector, .base = slot};
		Reg x = lower_map_at(l, &column, lower_register_coordinate(layout, r, 1), &right);
		Reg y = lower_map_at(l, &row, lower_register_coordinate(layout, r, 0), &down);
		if ((uint64_t)r & repeats || right >= valid)
			continue;
		bool all = right + (int64_t)column.moves + a.vector <= valid;
		Reg is_there = all ? 0 : lower_op2(l, THREAD_SLT, x, lower_i32(l, valid - right));
		lower_access_at(l, &a, r, &from);
		to.offset = lower_op2(l, THREAD_ADD, lower_op2(l, THREAD_MUL, y, lower_i32(l, pitch)), x);
		to.constant = down * pitch + right;
		copy_async(l, a.vector, by, &from, &to, lower_both(l, holder, is_there));
	}
}

static void
lower_copy(Lower *l, Op *op)
{
	const Value *slot = op->in[1 + op->in[0]->type->rank];
	const Type *tile = type_tile(l->f->module, slot->type->elem, slot->type->rank, slot->type->extent);
	Layout elements = copy_layout(l, op, slot->type), layout = elements, shared = slot_layout(slot);
	bool counts = strcmp(attr_kind(op), "counted") == 0, is_async = counts || strcmp(attr_kind(op), "cp_async") == 0;
	int size = dtype_tile_size(tile->elem);
	LowerAccess a;

	lower_new(l, &op->out[0])[0] = lower_i32(l, 0);
	if (op_is_bulk_copy(op)) {
		lower_copy_bulk(l, op);
		return;
	}
	if (attr_slot_bytes(buffer_owner(slot))) {
		copy_rows(l, op, tile, attr_slot_bytes(buffer_owner(slot)) / tile->extent[0]);
		return;
	}
	lower_access_make(l, &a, op, tile, &elements);
	int vector = MIN(a.vector, 1 << layout_shared_vector(&layout, &shared, size, l->t->vector_bytes));
	bool packed = dtype_is_packed(tile->elem);
	if (packed && !lower_packed_bytes(l, &a, &layout, &shared, &vector)) {
		lower_refuse(l, op, "a copy of packed elements that are not whole bytes of a thread");
		return;
	}
	if (is_async && (!(l->t->has & HAS_CP_ASYNC) || vector * size < 4)) {
		lower_refuse(l, op, "an asynchronous copy of fewer than 4 bytes a thread");
		return;
	}
	uint64_t repeats = lower_repeats(&layout);
	Reg first = lower_is_first_holder(l, &layout);
	LowerShared at = lower_shared(l, &layout, &shared, size);
	PrimKind by = copies_by(op, tile, &elements, l->t);
	if (counts || (l->role == 1 && is_async))
		lower_vote(l, &a);
	for (int r = 0; r < 1 << layout.in[IN_REGISTER]; r += vector) {
		ThreadAccess from = {.align = size * vector, .cache = lower_cache(op, CACHE_NONE)};
		ThreadAccess to = {.space = SPACE_SHARED, .align = size * vector, .base = lower_regs(l, slot)[0]};
		if ((uint64_t)r & repeats)
			continue;
		if (packed)
			lower_packed_at(l, &a, 2 * r, &from);
		else
			lower_access_at(l, &a, r, &from);
		to.offset = lower_shared_offset(l, &at, r, &to.constant);
		if (is_async)
			copy_async(l, size * vector, by, &from, &to, first);
		else
			copy_plain(l, lower_type(tile), vector, &from, &to);
	}
	if (counts)
		arrive_later(l, op);
}

/* Bytes c .. c + n - 1 of what a thread may read at, into registers r on.  Where all threads' places are words apart but
 * the first byte begins none, whole words hold them; else accesses are as wide as places are aligned. */
static void
get_bytes(Lower *l, ThreadAccess at, int64_t c, int n, int64_t apart, Reg *out)
{
	enum { WORD = 4, MOST = 16 };
	Reg byte[MOST];
	bool words = apart % WORD == 0 && c % WORD && n >= WORD;
	int64_t align = words ? WORD : MIN(apart ? apart & -apart : MOST, c ? c & -c : MOST), skip = words ? c % WORD : 0;

	at.n = at.align = (int)MIN(MIN(align, MOST), skip + n);
	for (int64_t k = -skip; k < n; k += at.n) {
		at.constant = c + k;
		thread_load(l->b, &at, byte);
		for (int i = 0; i < at.n; i++)
			if (k + i >= 0 && k + i < n)
				out[k + i] = byte[i];
	}
}

/* A part of each row. */
static void
get_part(Lower *l, Op *op)
{
	const Value *v = &op->out[0];
	const int64_t *step = attr_steps(op)->at;
	int rank = v->type->rank, last = rank - 1;
	uint64_t repeats = lower_repeats(v->layout);
	LowerMap map[KERNEL_RANK];
	Reg *out = lower_new(l, &op->out[0]), base = lower_regs(l, op->in[0])[0];
	int64_t apart = 0;

	for (int d = 0; d < rank; d++) {
		map[d] = lower_coordinate_map(l, v->layout, d);
		apart |= (int64_t)(map[d].moves & -map[d].moves) * step[1 + d];
	}
	int n = step[1 + last] == 1 ? 1 << layout_contiguous(v->layout, last) : 1;
	while ((uint64_t)(n - 1) & repeats)
		n /= 2;
	for (int r = 0; r < 1 << v->layout->in[IN_REGISTER]; r += n) {
		ThreadAccess at = {.space = SPACE_SHARED, .type = lower_type(v->type), .base = base};
		int64_t c = step[0], add;
		if ((uint64_t)r & repeats)
			continue;
		for (int d = 0; d < rank; d++) {
			Reg x = lower_map_at(l, &map[d], lower_register_coordinate(v->layout, r, d), &add);
			c += add * step[1 + d];
			if (map[d].moves == 0)
				continue;
			x = lower_op2(l, THREAD_MUL, x, lower_i32(l, step[1 + d]));
			at.offset = at.offset ? lower_op2(l, THREAD_ADD, at.offset, x) : x;
		}
		get_bytes(l, at, c, n, apart, out + r);
	}
	for (int r = 0; r < 1 << v->layout->in[IN_REGISTER]; r++)
		out[r] = out[(uint64_t)r & ~repeats];
}

static void
lower_get(Lower *l, Op *op)
{
	const Value *slot = op->in[0];
	Value *v = &op->out[0];
	Layout shared = slot_layout(slot);
	Reg *out = lower_new(l, v), base = lower_regs(l, slot)[0];

	if (simdgroup_reader(op, l->t))
		return;
	if (attr_steps(op)) {
		get_part(l, op);
		return;
	}
	if (dtype_is_packed(v->type->elem)) {
		if (!lower_packed_get(l, v, base, &shared, out))
			lower_refuse(l, op, "a tile of packed elements in shared memory that is not whole words");
	} else if (!lower_matrix_load(l, base, out, v->layout, &shared, lower_type(v->type))) {
		lower_from_shared(l, base, out, v->layout, &shared, lower_type(v->type));
	}
}

static void
lower_put(Lower *l, Op *op)
{
	const Value *v = op->in[1];
	Layout shared = slot_layout(op->in[0]);
	Reg base = lower_regs(l, op->in[0])[0];
	const Reg *in = lower_regs(l, v);

	if (dtype_is_packed(v->type->elem)) {
		if (!lower_packed_put(l, base, in, v->layout, &shared))
			lower_refuse(l, op, "packed elements into shared memory that are not whole bytes of a thread");
	} else if (!lower_matrix_store(l, base, in, v->layout, &shared, lower_type(v->type))) {
		lower_to_shared(l, base, in, v->layout, &shared, lower_type(v->type));
	}
}

static void
lower_tokens(Lower *l, Op *op)
{
	int64_t left = attr_left(op);

	lower_new(l, &op->out[0])[0] = lower_i32(l, 0);
	if (!(l->t->has & HAS_CP_ASYNC))
		return;
	if (op->kind == OP_COMMIT)
		thread_prim(l->b, PRIM_CP_COMMIT, NULL, 0, NULL, 0, NULL, 0);
	else
		thread_prim(l->b, PRIM_CP_WAIT, NULL, 0, &left, 1, NULL, 0);
}

/* ---- mbarriers ---- */

Reg
lower_mbarrier_at(Lower *l, const Value *ring, const Value *number)
{
	return slot_at(l, ring, number, ring_holds(number, ring->type->slots));
}

static void
lower_mbarrier(Lower *l, Op *op)
{
	lower_own(l, op);
	lower_when(l, lower_is_first_holder(l, NULL));
	for (int i = 0; i < op->out[0].type->slots; i++) {
		Reg in[] = {address(l, lower_regs(l, &op->out[0])[0], 8 * i), lower_i32(l, attr_count(op))};
		thread_prim(l->b, PRIM_MBAR_INIT, in, 2, NULL, 0, NULL, 0);
	}
	if (l->t->has & HAS_CLUSTER)
		thread_prim(l->b, PRIM_FENCE_MBAR, NULL, 0, NULL, 0, NULL, 0);
	lower_end_when(l);
}

static void
lower_arrive(Lower *l, Op *op)
{
	Reg in[] = {lower_mbarrier_at(l, op->in[0], op->in[1]), lower_i32(l, attr_bytes(op))};

	Reg who = l->is_lone ? 0 : *attr_by(op) ? l->lane : l->thread;
	if (who)
		lower_when(l, lower_op2(l, THREAD_EQ, who, lower_i32(l, 0)));
	if (op->kind == OP_EXPECT)
		thread_prim(l->b, PRIM_MBAR_EXPECT, in, 2, NULL, 0, NULL, 0);
	else
		thread_prim(l->b, PRIM_MBAR_ARRIVE, in, 1, NULL, 0, NULL, 0);
	if (who)
		lower_end_when(l);
}

/* One lane of each warp for each block of the cluster.  A plain arrival there: with .release.cluster the hardware waits for
 * all of the thread's accesses of memory, which made products on an H200 24 % slower. */
static void
arrive_at_peers(Lower *l, Op *op)
{
	int64_t mask = attr_mask(op), blocks = __builtin_popcountll((uint64_t)mask);
	if (!*attr_by(op) || mask != (INT64_C(1) << blocks) - 1 || blocks > l->t->lanes || !(l->t->has & HAS_CLUSTER)) {
		lower_refuse(l, op, "arrivals at several blocks that are not by warp, or not at all ranks up to one");
		return;
	}
	lower_when(l, lower_op2(l, THREAD_ULT, l->lane, lower_i32(l, blocks)));
	Reg in[] = {lower_mbarrier_at(l, op->in[0], op->in[1]), l->lane}, at;
	thread_prim(l->b, PRIM_CLUSTER_ADDRESS, in, 2, NULL, 0, &at, 1);
	thread_prim(l->b, PRIM_CLUSTER_SIGNAL, &at, 1, NULL, 0, NULL, 0);
	lower_end_when(l);
}

static void
lower_cluster_barrier(Lower *l, Op *op)
{
	if (!(l->t->has & HAS_CLUSTER)) {
		lower_refuse(l, op, "a barrier of a cluster's blocks");
		return;
	}
	thread_prim(l->b, PRIM_CLUSTER_ARRIVE, NULL, 0, NULL, 0, NULL, 0);
	thread_prim(l->b, PRIM_CLUSTER_WAIT, NULL, 0, NULL, 0, NULL, 0);
}

static void
lower_await(Lower *l, Op *op)
{
	Reg phase = lower_as(l, CAST_TRUNC, REG_I32, lower_regs(l, op->in[2])[0]);
	Reg in[] = {lower_mbarrier_at(l, op->in[0], op->in[1]), lower_op2(l, THREAD_AND, phase, lower_i32(l, 1))};

	thread_prim(l->b, PRIM_MBAR_WAIT, in, 2, NULL, 0, NULL, 0);
}

static bool
needs_tma(OpKind k)
{
	return k == OP_EXPECT || k == OP_AWAIT || k == OP_PROXY_FENCE || k == OP_SEND || k == OP_SENT ||
	    k == OP_ROLES || k == OP_DOT_START || k == OP_DOT_WAIT;
}

static void
lower_slot(Lower *l, Op *op)
{
	lower_new(l, &op->out[0])[0] = slot_at(l, op->in[0], op->in[1], attr_wrapped(op));
}

static void
lower_grid_wait(Lower *l, Op *op)
{
	(void)op;
	if (l->t->has & HAS_GRID_WAIT)
		thread_prim(l->b, PRIM_GRID_WAIT, NULL, 0, NULL, 0, NULL, 0);
}

static void
lower_proxy_fence(Lower *l, Op *op)
{
	(void)op;
	thread_prim(l->b, PRIM_FENCE_ASYNC, NULL, 0, NULL, 0, NULL, 0);
}

static void (*const by_kind[OP_COUNT])(Lower *l, Op *op) = {
	[OP_ALLOC] = lower_own, [OP_SLOT] = lower_slot, [OP_GET] = lower_get, [OP_PUT] = lower_put, [OP_COPY] = lower_copy,
	[OP_SEND] = lower_send, [OP_SENT] = lower_sent, [OP_COMMIT] = lower_tokens, [OP_WAIT] = lower_tokens,
	[OP_MBARRIER] = lower_mbarrier, [OP_EXPECT] = lower_arrive, [OP_ARRIVE] = lower_arrive, [OP_AWAIT] = lower_await,
	[OP_SPLIT_PUT] = lower_split_put, [OP_SPLIT_MEET] = lower_split_meet, [OP_SPLIT_GET] = lower_split_get,
	[OP_SPLIT_SUM] = lower_split_sum, [OP_SPLIT_DONE] = lower_split_done, [OP_STREAM_GIVE] = lower_stream_give,
	[OP_FETCH] = lower_fetch, [OP_FETCH_END] = lower_fetch_end, [OP_FROM_FIRST] = lower_from_first,
	[OP_TALLY] = lower_tally, [OP_GET_ONE] = lower_get_one, [OP_PUT_ONE] = lower_put_one,
	[OP_STREAM_JOIN] = lower_stream_join, [OP_CLUSTER_BARRIER] = lower_cluster_barrier,
	[OP_GRID_WAIT] = lower_grid_wait, [OP_PROXY_FENCE] = lower_proxy_fence, [OP_ROLES] = lower_roles,
	[OP_DOT_START] = lower_dot_start, [OP_DOT_WAIT] = lower_dot_wait,
};

void
lower_buffer(Lower *l, Op *op)
{
	bool lacks = (needs_tma(op->kind) && !(l->t->has & HAS_TMA)) ||
	    ((op->kind == OP_MBARRIER || op->kind == OP_ARRIVE) && !(l->t->has & HAS_MBARRIER));
	if (lacks || !by_kind[op->kind])
		lower_refuse(l, op, op_info[op->kind].text);
	else if (op->kind == OP_ARRIVE && attr_mask(op))
		arrive_at_peers(l, op);
	else
		by_kind[op->kind](l, op);
}
