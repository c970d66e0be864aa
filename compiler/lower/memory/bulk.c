/* Bulk copies: one thread has the hardware move the boxes of a tile between a tensor and a slot of shared memory, by a
 * tensor map that the launch passes (model/plan_map.c).
 *
 *     %t = copy %b, %k, %n, %s, %full, %i {index = "pp", extents = [64, 256], kind = "bulk"}     bf16, 128-byte boxes
 *  =>
 *     if thread == 0 {
 *         tensor_load_2 slot,         map, bar, n,       k          fastest dimension first
 *         tensor_load_2 slot + 8192,  map, bar, n + 64,  k
 *         tensor_load_2 slot + 16384, map, bar, n + 128, k
 *         tensor_load_2 slot + 24576, map, bar, n + 192, k
 *     }
 *
 * Of a multicast copy, which each block of a cluster issues, a block takes the boxes of its rank, and each goes to all:
 *
 *     tensor_multi_2 slot + 16384 * rank,        map, bar, 3, n + 128 * rank,      k
 *     tensor_multi_2 slot + 16384 * rank + 8192, map, bar, 3, n + 128 * rank + 64, k
 *
 * {mask} is of rank 0: where it is not the whole cluster, that of another rank begins as many bits further up.
 *
 * Of a copy of windows (letters w) the hardware goes on from the first window itself, at an offset that loops move:
 *
 *     window_load_4 slot, map, bar, c, w, h, n, s, r
 *
 * Of a send by warp, a lane of each takes the boxes of its warp's part in the same way.
 *
 * The hardware counts whole boxes at the mbarrier, also what is outside of the tensor: the slot's bytes in all.  A send is
 * the same with tensor_store, or tensor_add where it has an {fn}, and a group of its own, for which the thread waits by a
 * sent. */
#include "ir/derive.h"
#include "lower/lower.h"

#include "pass/layout/axis.h"

#include <string.h>

/* A launch refuses longer tensors; see abi_map.  A start beyond it stays outside with what the boxes add. */
enum { COORDINATE_MOST = INT32_MAX - 0xffff };

/* Of an index: as REG_I32, on the same side of the tensor; of what is sent outside of it, but behind where it was before:
 * of a send that begins before the tensor an H200 says that the instruction is illegal. */
static Reg
coordinate(Lower *l, const Value *index, bool is_sent)
{
	const AxisInfo *a = axis_of(index);
	Reg r = lower_regs(l, index)[0];
	if (is_sent && a->lo < 0) {
		Reg outside = lower_i64(l, COORDINATE_MOST), is_before = lower_op2(l, THREAD_SLT, r, lower_i64(l, 0));
		r = lower_op3(l, THREAD_SELECT, is_before, outside, r);
	}
	if (a->hi > COORDINATE_MOST)
		r = lower_op2(l, THREAD_SMIN, r, lower_i64(l, COORDINATE_MOST));
	if (a->lo < -COORDINATE_MOST)
		r = lower_op2(l, THREAD_SMAX, r, lower_i64(l, -COORDINATE_MOST));
	return lower_as(l, CAST_TRUNC, REG_I32, r);
}

typedef struct Boxes {
	const Op *op;
	TensorMap map;
	Layout slot;
	F2 offset;                                      /* in the slot, elements, of packed coordinates of the tile */
	int at[KERNEL_RANK];                            /* the tile's dimension of each of the tensor's */
	Reg base, bar, start[KERNEL_RANK];              /* start: by the map's dimensions */
	Reg param, last;                                /* the map; that of the last box along a row, if it is narrower */
	Reg ranks;                                      /* of a multicast copy: blocks that it goes to … */
	Reg first;                                      /* … and the row at which uneven shares begin */
	Reg moved[WINDOW_RANK];                         /* of a copy of windows, by the map's dimensions from 1 on */
} Boxes;

/* Where the box at the packed coordinates begins in the slot: with a row, of which a swizzle moves chunks. */
static int64_t
box_offset(const Boxes *x, uint64_t at)
{
	int64_t bytes = (int64_t)f2_apply(&x->offset, at) * x->map.elem_bytes, row = MAX(x->map.swizzle, 1);
	return bytes / row * row;
}

/* A box outside of the tensor may bring what the first along the dimension does, where that may be anything: which is
 * faster. */
static Reg
or_first(Lower *l, const Boxes *x, int i, Reg start)
{
	int d = x->map.dim[i];
	if (attr_index(x->op)[d] != 'p' || !map_moves_outside(x->op, x->at[d]))
		return start;
	Reg end = lower_as(l, CAST_TRUNC, REG_I32, lower_extent(l, x->op, d));
	return lower_op3(l, THREAD_SELECT, lower_op2(l, THREAD_SLT, start, end), start, lower_i32(l, 0));
}

/* Has the last block rows at this distance from its first, of shares that are uneven?  Else a condition: whether this one
 * has; 0: all have. */
static Reg
has_rows(Lower *l, const Boxes *x, int64_t moved)
{
	const TensorMap *m = &x->map;
	int64_t last = (int64_t)(m->ranks - 1) * m->boxes[1] * m->box[1];
	if (!m->uneven || last + moved < m->uneven)
		return 0;
	Reg row = moved ? lower_op2(l, THREAD_ADD, x->first, lower_i32(l, moved)) : x->first;
	return lower_op2(l, THREAD_SLT, row, lower_i32(l, m->uneven));
}

/* Box `number` of the tile, the slot's fastest dimension first; false past the last. */
static bool
issue(Lower *l, const Boxes *x, int number)
{
	const TensorMap *m = &x->map;
	bool is_shared = m->ranks > 1 && !m->is_stored;
	int first = m->is_stored ? 2 : is_shared ? 4 : 3;
	Reg in[4 + KERNEL_RANK + WINDOW_RANK] = {0, x->param, x->bar};
	uint64_t at = 0;
	int64_t row = 0;
	if (m->last && number % m->boxes[0] == m->boxes[0] - 1)
		in[1] = x->last;
	for (int i = 0; i < m->rank; i++) {
		int64_t moved = 0;
		if (attr_index(x->op)[m->dim[i]] == 'p') {
			int d = x->at[m->dim[i]], n = m->boxes[i];
			moved = (int64_t)(number % n) * m->box[i];
			row = i == 1 ? moved : row;
			number /= n;
			at |= (uint64_t)moved << layout_out_at(&x->slot, d);
		}
		in[first + i] = moved ? lower_op2(l, THREAD_ADD, x->start[i], lower_i32(l, moved)) : x->start[i];
		in[first + i] = or_first(l, x, i, in[first + i]);
	}
	if (number)
		return false;
	int64_t bytes = box_offset(x, at);
	if (is_shared)
		in[3] = x->ranks;
	in[0] = bytes ? thread_pointer(l->b, x->base, lower_i32(l, bytes)) : x->base;
	PrimKind load = is_shared ? PRIM_TENSOR_MULTI_1 : PRIM_TENSOR_LOAD_1;
	PrimKind one = m->is_added ? PRIM_TENSOR_ADD_1 : m->is_stored ? PRIM_TENSOR_STORE_1 : load;
	PrimKind prim = m->windows ? (PrimKind)(PRIM_WINDOW_LOAD_3 + m->rank - 3) : (PrimKind)(one + m->rank - 1);
	memcpy(in + first + m->rank, x->moved, sizeof *in * (size_t)m->windows);
	Reg some = has_rows(l, x, row);
	if (some)
		lower_when(l, some);
	thread_prim(l->b, prim, in, first + m->rank + m->windows, NULL, 0, NULL, 0);
	if (some)
		lower_end_when(l);
	return true;
}

static int
map_number(const Lower *l, const TensorMap *m)
{
	int i = 0;
	while (!map_equal(m, &l->map[i]))
		i++;
	return i;
}

/* By one thread, or one of each warp, where the code is not one thread's already. */
static Reg
begin_alone(Lower *l, const Op *op)
{
	bool is_by_warp = *attr_by(op);
	Reg one = l->is_lone || is_by_warp ? 0 : lower_is_first_holder(l, NULL);
	if (is_by_warp)                                 /* takes no register, where accumulators leave few */
		thread_prim(l->b, PRIM_ELECT, NULL, 0, NULL, 0, &one, 1);
	if (one)
		lower_when(l, one);
	return one;
}

static void
end_alone(Lower *l, Reg one)
{
	if (one)
		lower_end_when(l);
}

/* Of a copy or send; false: it is refused. */
static bool
boxes_make(Lower *l, const Op *op, Boxes *x)
{
	int rank = op->in[0]->type->rank;
	*x = (Boxes){.op = op, .slot = slot_layout(op->in[1 + rank])};
	const char *why = plan_map(op, l->t, &x->map);
	if (why) {
		lower_refuse(l, op, arena_printf(l->mem, "a bulk copy by tensor map (%s)", why));
		return false;
	}
	access_dims(op, x->at);
	if (!f2_invert(&x->slot.map, &x->offset))
		die("a layout of shared memory that is not one to one");
	x->param = lower_param(l, ABI_TENSOR_MAP, x->map.param, map_number(l, &x->map));
	TensorMap last = map_of_last(&x->map);
	x->last = x->map.last ? lower_param(l, ABI_TENSOR_MAP, last.param, map_number(l, &last)) : 0;
	x->base = lower_regs(l, op->in[1 + rank])[0];
	return true;
}

/* Of `shares` along the map's dimension i that of this number: as far apart in the slot as along the tensor. */
static void
take_share(Lower *l, Boxes *x, int i, Reg number)
{
	int d = x->at[x->map.dim[i]];
	int64_t each = (int64_t)x->map.boxes[i] * x->map.box[i];
	int64_t bytes = box_offset(x, (uint64_t)each << layout_out_at(&x->slot, d));
	for (int r = 0; r < x->map.shares[i]; r++)
		if (box_offset(x, (uint64_t)(r * each) << layout_out_at(&x->slot, d)) != r * bytes)
			die("shares of a copy that are not equally far apart");
	x->base = thread_pointer(l->b, x->base, lower_op2(l, THREAD_MUL, number, lower_i32(l, bytes)));
	x->first = lower_op2(l, THREAD_MUL, number, lower_i32(l, each));
	x->start[i] = lower_op2(l, THREAD_ADD, x->start[i], x->first);
}

/* Of the blocks that a multicast copy goes to, the number of this one; x->ranks becomes their mask. */
static Reg
number_in_mask(Lower *l, Boxes *x)
{
	int64_t mask = attr_mask(x->op);
	int apart = mask_apart(mask), n = x->map.ranks;
	Reg rank, number, first;
	thread_prim(l->b, PRIM_CLUSTER_RANK, NULL, 0, NULL, 0, &rank, 1);
	x->ranks = lower_i32(l, mask);
	if (apart == 1 && n >= func_cluster(l->f))
		return rank;
	number = apart > 1 ? lower_op2(l, THREAD_LSHR, rank, lower_i32(l, log2_floor(apart))) : rank;
	number = lower_op2(l, THREAD_AND, number, lower_i32(l, n - 1));
	first = lower_op2(l, THREAD_SUB, rank, lower_op2(l, THREAD_MUL, number, lower_i32(l, apart)));
	x->ranks = lower_op2(l, THREAD_SHL, x->ranks, first);
	return number;
}

/* The boxes of the block's rank, or of the warp, which are numbered along the tile's first dimension first. */
static void
take_shares(Lower *l, Boxes *x)
{
	int left = x->map.ranks;
	Reg rest = x->map.is_stored ? l->warp : number_in_mask(l, x);
	for (int i = x->map.rank - 1; i >= 0; i--) {
		int n = x->map.shares[i];
		if (n <= 1)
			continue;
		left /= n;
		take_share(l, x, i, left > 1 ? lower_op2(l, THREAD_AND, rest, lower_i32(l, n - 1)) : rest);
		rest = left > 1 ? lower_op2(l, THREAD_LSHR, rest, lower_i32(l, log2_floor(n))) : rest;
	}
}

static void
issue_all(Lower *l, Boxes *x)
{
	for (int i = 0; i < x->map.rank; i++)
		x->start[i] = coordinate(l, x->op->in[1 + x->map.dim[i]], x->map.is_stored);
	for (int i = 0; i < x->map.windows; i++) {
		int d = x->map.windows - 1 - i;
		Reg r = lower_regs(l, x->op->in[access_data(x->op) + 3 + 3 * d])[0];
		x->moved[i] = lower_as(l, CAST_TRUNC, REG_I32, r);
	}
	if (x->map.ranks > 1)
		take_shares(l, x);
	for (int number = 0; issue(l, x, number);)
		number++;
}

void
lower_copy_bulk(Lower *l, Op *op)
{
	int bar = 2 + op->in[0]->type->rank;
	Boxes x;
	if (!boxes_make(l, op, &x))
		return;
	Reg one = begin_alone(l, op);
	if (attr_fenced(op))
		thread_prim(l->b, PRIM_FENCE_ASYNC, NULL, 0, NULL, 0, NULL, 0);
	x.bar = lower_mbarrier_at(l, op->in[bar], op->in[bar + 1]);
	issue_all(l, &x);
	end_alone(l, one);
}

void
lower_send(Lower *l, Op *op)
{
	Boxes x;
	if (!boxes_make(l, op, &x))
		return;
	Reg one = begin_alone(l, op);
	issue_all(l, &x);
	thread_prim(l->b, PRIM_BULK_COMMIT, NULL, 0, NULL, 0, NULL, 0);
	end_alone(l, one);
}

void
lower_sent(Lower *l, Op *op)
{
	int64_t left = attr_left(op);
	Reg one = begin_alone(l, op);
	thread_prim(l->b, attr_read(op) ? PRIM_BULK_WAIT_READ : PRIM_BULK_WAIT, NULL, 0, &left, 1, NULL, 0);
	end_alone(l, one);
}
