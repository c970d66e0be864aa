/* Tensor maps: which accesses one can serve, and the boxes that fill a slot of shared memory.
 *
 *     %t = copy %b, %k, %n, %s, %full, %i {index = "pp", extents = [64, 256], kind = "bulk"}     %s: bf16, 128-byte boxes
 *  =>
 *     tensor map of %b: dimensions 1, 0; box 64 x 64; swizzle 128                                4 boxes side by side
 *     of 224 columns: 3 boxes of 64 and, by a map of its own, one of 32
 *
 * A map's dimensions are the tensor's, the contiguous one first, then those of the tile in the order of the slot, then
 * those that the access takes one element of (box extent 1).  The slot's layout decides boxes and swizzle: it is of
 * swizzled boxes (layout_boxed), or plain rows, which are not swizzled.  Each box is dense in shared memory.
 *
 * What the driver asks for is known when compiling: the address and all strides but the first are multiples of 16 bytes.
 * Source: CUDA driver API, cuTensorMapEncodeTiled. */
#include "ir/derive.h"
#include "model/digits/digits.h"

#include <string.h>

enum {
	MAP_ALIGN = 16,                                 /* bytes, of the address and of strides; the least row of a box */
	MAP_BOX = 256,                                  /* elements of a box along a dimension */
	MAP_PLACES = 1024,                              /* of a box of windows */
	MAP_BOXES = 64,                                 /* of a tile: each is instructions of its own */
	MAP_SLOT_ALIGN = 128,                           /* bytes, of a box in shared memory */
};

static const Type *
moved_type(const Op *op)
{
	const Value *v = op->kind == OP_READ ? &op->out[0]
	               : op->kind == OP_WRITE ? op->in[access_data(op)] : op->in[1 + op->in[0]->type->rank];
	return v->type;
}

/* What extent d of the tensor is known to be a multiple of. */
static int64_t
extent_multiple(const Func *f, const FuncParam *p, const Type *t, int d)
{
	int64_t multiple = p->dim[d] >= 0 ? f->param[p->dim[d]].multiple : p->dim_multiple[d];
	return t->extent[d] >= 0 ? t->extent[d] : MAX(multiple, 1);
}

/* Strides of all dimensions but the last: multiples of 16 bytes.  Bits above those never matter.  Rows that lie apart end
 * at such multiples too: of rows of 602 bytes, 608 apart, a store by a map wrote all 608 (H200). */
static bool
strides_fit(const Func *f, const FuncParam *p, const Type *t)
{
	int64_t stride = dtype_tile_size(t->elem);
	if (p->strided)
		return p->apart * stride % MAP_ALIGN == 0 &&
		    extent_multiple(f, p, t, t->rank - 1) * stride % MAP_ALIGN == 0;
	for (int d = t->rank - 1; d > 0; d--) {
		stride = stride * (extent_multiple(f, p, t, d) % MAP_ALIGN) % MAP_ALIGN;
		if (stride % MAP_ALIGN)
			return false;
	}
	return true;
}

/* Of a gather: may a map of windows serve it? */
static const char *
windows_reason(const Op *op)
{
	Window w;
	LaunchSum reach, falls;
	const char *why = window_find(op, &w);
	if (!why && op->home->func->no_windows)
		return "a map of windows has other limits than these arguments (a gather)";
	return why ? why : window_reach(op, 0, &reach, &falls);
}

static const char *
letters_reason(const Op *op)
{
	const char *index = attr_index(op);
	int rank = op->in[0]->type->rank;
	if (strchr(index, 'g'))
		return windows_reason(op);
	if (!strchr(index, 'p'))
		return "it moves one element";
	return index[rank - 1] == 'p' ? NULL : "it is one element wide along the tensor's contiguous dimension";
}

bool
map_rows_fit(const Value *tensor)
{
	if (tensor->type->kind != TYPE_TENSOR || tensor->def || tensor->block->parent)
		return true;
	const Func *f = tensor->block->func;
	const FuncParam *p = &f->param[tensor->index];
	bool is_aligned = p->multiple > 0 && p->multiple % MAP_ALIGN == 0;
	return is_aligned && param_has_rows(p) && strides_fit(f, p, tensor->type);
}

const char *
map_reason(const Op *op, const Target *t)
{
	const Value *tensor = op->in[0];
	if (!(t->has & HAS_TMA))
		return "the target has no tensor maps";
	if (tensor->type->kind != TYPE_TENSOR || tensor->def || tensor->block->parent)
		return "it goes through pointers";
	const Func *f = tensor->block->func;
	const FuncParam *p = &f->param[tensor->index];
	const Type *tile = moved_type(op);
	int size = dtype_tile_size(tile->elem);
	if (dtype_is_packed(tile->elem))
		return "its elements are not whole bytes";
	if (!param_has_rows(p))
		return "the tensor's strides are not known (strided)";
	if (p->multiple % MAP_ALIGN || p->multiple == 0)
		return "the tensor's address is not known to be a multiple of 16";
	if (!strides_fit(f, p, tensor->type))
		return "the tensor's rows are not known to be multiples of 16 bytes";
	bool is_stored = op->kind == OP_WRITE || op->kind == OP_ATOMIC || op->kind == OP_SEND;
	if (attr_valid(op) && !attr_undef(op) && !is_stored)            /* a write leaves in pieces: pass drain */
		return "its extents are not powers of two";
	if (op->kind == OP_READ && !access_fill_is_zero(op))
		return "elements outside of the tensor are not 0";
	const char *why = letters_reason(op);
	if (!why && tile->extent[tile->rank - 1] * size < MAP_ALIGN)
		why = "its rows are shorter than 16 bytes";
	return why;
}

/* ---- boxes ---- */

/* The order of a slot's dimensions and the elements of a box along the first; false: no map fills slots that lie so. */
static bool
slot_order(const Layout *slot, int size, int order[LAYOUT_RANK], TensorMap *out)
{
	memcpy(order, layout_last_first(slot->rank), LAYOUT_RANK * sizeof *order);
	Layout rows = layout_row_major(slot->rank, slot->out, order);
	int row = 0;
	if (layout_equal(slot, &rows)) {
		out->swizzle = 0;
		out->box[0] = (int)MIN(INT64_C(1) << slot->out[order[0]], MAP_BOX);
		return true;
	}
	if (!layout_match_boxed(slot, size, order, &row))
		return false;
	out->swizzle = row > MAP_ALIGN ? row : 0;
	out->box[0] = row / size;
	return true;
}

/* What boxes have to move along a dimension: all, or of what was added nothing. */
static int64_t
brought(const Op *op, int d, int64_t extent)
{
	bool is_less = (op->kind == OP_COPY && attr_undef(op)) || (op->kind == OP_SEND && attr_valid(op));
	return is_less ? attr_valid(op)->at[d] : extent;
}

int64_t
map_row_brought(const Op *op, int64_t need, int64_t box)
{
	int64_t whole = (need + box - 1) / box * box, size = dtype_tile_size(moved_type(op)->elem);
	bool is_in_part = op->kind != OP_SEND && attr_undef(op) && size == 2 && need * size % MAP_ALIGN == 0;
	return is_in_part && !strpbrk(attr_index(op), "gw") ? need : whole;
}

TensorMap
map_of_last(const TensorMap *m)
{
	TensorMap last = *m;
	last.box[0] = m->last;
	last.last = 0;
	return last;
}

/* Of 96 columns the last box has 32: each of its rows fills half of a row of the slot's, as the swizzle has it. */
static void
narrow_last(const Op *op, int64_t need, TensorMap *out)
{
	int last = (int)(map_row_brought(op, need, out->box[0]) % out->box[0]);
	if (!out->swizzle || last == 0)
		return;
	out->last = out->boxes[0] > 1 ? last : 0;
	out->box[0] = out->boxes[0] > 1 ? out->box[0] : last;
}

/* Rows of a box that may move: as many as divide what is brought, in whole periods of the swizzle; 0: too few. */
static int
moved_rows(int64_t need)
{
	enum { PERIOD = 8, LEAST = 16 };
	if (need <= MAP_ROWS)
		return (int)need;
	for (int rows = MAP_ROWS; rows >= LEAST; rows -= PERIOD)
		if (need % rows == 0)
			return rows;
	return 0;
}

bool
map_moves_outside(const Op *op, int dim)
{
	const IntList *undef = op->kind == OP_COPY ? attr_outside_undef(op) : NULL, *inside = attr_inside(op);
	int at[KERNEL_RANK];
	if (!undef || !undef->at[dim] || !moved_rows(brought(op, dim, moved_type(op)->extent[dim])))
		return false;
	access_dims(op, at);
	return !inside || !ANY_OF(d, op->in[0]->type->rank,
			      attr_index(op)[d] == 'p' && at[d] == dim && inside->at[d]);
}

/* Along the other dimensions a box goes as far as it stays dense.  Returns how many boxes there are. */
static int64_t
set_boxes(const Op *op, const Layout *slot, const int order[LAYOUT_RANK], TensorMap *out)
{
	bool is_whole = out->swizzle || (INT64_C(1) << slot->out[order[0]]) <= MAP_BOX || slot->rank == 1;
	int64_t boxes = 1;
	for (int i = 0; i < slot->rank; i++) {
		int64_t extent = INT64_C(1) << slot->out[order[i]], need = brought(op, order[i], extent);
		if (i > 0) {
			int most = map_moves_outside(op, order[i]) ? moved_rows(need) : MAP_BOX;
			out->box[i] = is_whole ? (int)MIN(need, most) : 1;
			is_whole = is_whole && out->box[i] == extent;
		}
		out->boxes[i] = (int)((need + out->box[i] - 1) / out->box[i]);
		boxes *= out->boxes[i];
	}
	if (op->kind == OP_COPY)
		narrow_last(op, brought(op, order[0], INT64_C(1) << slot->out[order[0]]), out);
	return boxes;
}

/* Rows of which the last blocks copy fewer, or none: 88 by four as 24, 24, 24 and 16, in boxes of as many rows as leave the
 * first block no more to copy than boxes of 8 do. */
static bool
share_unevenly(int64_t rows, int ranks, int64_t unit, int i, TensorMap *out)
{
	int64_t units = rows / unit, each = (units + ranks - 1) / ranks;
	if (i != 1 || rows % unit || units < ranks)
		return false;
	int64_t n = each;
	while (n > 1 && (units % n || (units / n + ranks - 1) / ranks * n > each || n * unit > out->box[i]))
		n--;
	out->shares[i] = ranks;
	out->box[i] = (int)(n * unit);
	out->boxes[i] = (int)((units / n + ranks - 1) / ranks);
	out->uneven = (int)rows;
	return true;
}

/* A multicast copy is shared out among the blocks that it goes to: each copies some of the boxes along one dimension, or if
 * they are too few, smaller ones, of rows in whole periods of the swizzle. */
static const char *
share_boxes(const Op *op, const Layout *slot, const int order[LAYOUT_RANK], TensorMap *out)
{
	enum { PERIOD = 8 };
	int64_t ranks = op->kind == OP_COPY ? __builtin_popcountll((uint64_t)attr_mask(op)) : 0;
	out->ranks = (int)MAX(ranks, 1);
	if (op->kind == OP_COPY && !mask_apart(attr_mask(op)))
		return "the blocks that it goes to are not all ranks up to one, or each second or fourth of these";
	for (int i = slot->rank - 1; i >= 0 && ranks > 1; i--)
		if (out->boxes[i] % ranks == 0 && (i > 0 || !out->last)) {
			out->shares[i] = (int)ranks;
			out->boxes[i] /= (int)ranks;
			return NULL;
		}
	for (int i = slot->rank - 1; i >= 1 && ranks > 1; i--) {
		int64_t rows = brought(op, order[i], INT64_C(1) << slot->out[order[i]]), unit = i > 1 ? 1 : PERIOD;
		int64_t each = rows / ranks, n = (each + out->box[i] - 1) / out->box[i];
		if (rows % (unit * ranks) && rows % out->box[i] == 0 && share_unevenly(rows, (int)ranks, unit, i, out))
			return NULL;
		if (rows % (unit * ranks) || rows % out->box[i])
			continue;
		while (each % (n * unit))
			n++;
		out->shares[i] = (int)ranks;
		out->box[i] = (int)(each / n);
		out->boxes[i] = (int)n;
		return NULL;
	}
	return ranks > 1 ? "its tile is not as many parts as the cluster has blocks" : NULL;
}

/* A send by warp is shared out among the warps: each has as many rows, in whole periods of the swizzle, and whole boxes
 * beside each other. */
static const char *
share_warps(const Op *op, const Layout *slot, const int order[LAYOUT_RANK], TensorMap *out)
{
	const IntList *shares = attr_shares(op);
	int rows = slot->rank - 1;
	out->ranks = 1;
	for (int i = 0; i < slot->rank; i++) {
		int n = shares ? (int)shares->at[order[i]] : i == rows ? op_warps(op) : 1;
		int each = out->box[i] * out->boxes[i] / n;
		bool fits = i == 0 ? out->boxes[0] % n == 0 : each > 0 && each % 8 == 0 && each <= MAP_BOX;
		if (n > 1 && (slot->rank < 2 || !fits))
			return "its rows are not shared out among warps";
		out->ranks *= n;
		out->shares[i] = n;
		out->boxes[i] = i == 0 ? out->boxes[0] / n : n > 1 ? 1 : out->boxes[i];
		out->box[i] = i > 0 && n > 1 ? each : out->box[i];
	}
	return out->ranks == op_warps(op) ? NULL : "its shares are not as many as there are warps";
}

/* The map's dimensions are the tensor's, the last one first; a box is so many places of windows. */
static const char *
set_windows(const Op *op, const Layout *slot, const int order[LAYOUT_RANK], TensorMap *out)
{
	int rank = op->in[0]->type->rank, n = copy_windows(op), data = access_data(op);
	int64_t places = brought(op, 0, INT64_C(1) << slot->out[0]);
	if (slot->rank != 2 || order[0] != 1 || places > MAP_PLACES)
		return "the slot does not hold rows of windows, 1024 at most";
	out->boxes[1] = 1;
	for (int i = 0; i < rank; i++) {
		out->dim[i] = rank - 1 - i;
		out->box[i] = i == 0 ? out->box[0] : i == 1 ? (int)places : 1;
	}
	for (int i = 0; i < n; i++) {
		int d = n - 1 - i;
		MapWindow *w = &out->window[i];
		LaunchSum falls;
		w->step = (int)attr_steps(op)->at[d];
		if (!launch_sum_of(op->in[data + 3 + 3 * d + 1], &w->lower) ||
		    !launch_sum_of(op->in[data + 3 + 3 * d + 2], &w->count) || window_reach(op, d, &w->reach, &falls))
			return "the bounds of its windows do not follow from a launch's arguments";
	}
	out->rank = rank;
	out->windows = n;
	return NULL;
}

/* The tensor's dimensions: the tile's in the slot's order, then those of one element, but for those that are one with
 * others. */
static void
set_dims(const Op *op, const int order[LAYOUT_RANK], int rank, TensorMap *out)
{
	int at[KERNEL_RANK];
	access_dims(op, at);
	int n = rank;
	for (int d = 0; d < op->in[0]->type->rank; d++) {
		if (access_merges_away(op, d))
			continue;
		int i = VALUE_OF(k, rank, attr_index(op)[d] == 'p' && order[k] == at[d], k, rank);
		if (i == rank) {
			out->boxes[n] = 1;
			out->box[n] = 1;
			i = n++;
		}
		out->dim[i] = d;
		out->merged[i] = access_merged(op, d);
	}
	out->rank = n;
}

/* Slots of a ring, and boxes of a slot, stand where the hardware takes them. */
static bool
is_aligned(const Value *slot, const TensorMap *m, int64_t boxes)
{
	const Op *owner = buffer_owner(slot);
	int64_t bytes = owner ? buffer_slot_bytes(owner) : type_count(slot->type) * m->elem_bytes;
	int64_t period = m->swizzle ? 8 * m->swizzle : MAP_SLOT_ALIGN;
	int64_t box = m->swizzle ? m->swizzle : m->box[0] * m->elem_bytes;
	for (int i = 1; i < m->rank; i++)
		box *= m->box[i];
	int64_t slots = owner ? owner->out[0].type->slots : slot->type->slots;
	return (slots == 1 || bytes % period == 0) && (boxes == 1 || box % MAP_SLOT_ALIGN == 0);
}

const char *
plan_map(const Op *op, const Target *t, TensorMap *out)
{
	const Value *slot = op->in[1 + op->in[0]->type->rank];
	const char *why = map_reason(op, t);
	int order[LAYOUT_RANK];
	*out = (TensorMap){.param = op->in[0]->index, .elem_bytes = dtype_tile_size(slot->type->elem),
		.is_stored = op->kind == OP_SEND, .is_added = op->kind == OP_SEND && *attr_fn(op)};
	if (why)
		return why;
	Layout layout = slot_layout(slot);
	if (!slot_order(&layout, out->elem_bytes, order, out))
		return "the slot's layout is not of boxes that a tensor map fills";
	int64_t boxes = set_boxes(op, &layout, order, out);
	if (copy_windows(op) && (why = set_windows(op, &layout, order, out)))
		return why;
	if (!copy_windows(op))
		set_dims(op, order, layout.rank, out);
	if (out->dim[0] != op->in[0]->type->rank - 1)
		return "the slot's rows do not run along the tensor's contiguous dimension";
	if (out->box[0] * out->elem_bytes < MAP_ALIGN)
		return "a row of the slot's boxes is shorter than 16 bytes";
	if (boxes > MAP_BOXES)
		return "the tile is of more than 64 boxes";
	bool is_by_warp = op->kind == OP_SEND && *attr_by(op);
	if ((why = is_by_warp ? share_warps(op, &layout, order, out) : share_boxes(op, &layout, order, out)))
		return why;
	return is_aligned(slot, out, boxes) ? NULL : "slots or boxes are too small for their swizzle";
}

bool
map_equal(const TensorMap *a, const TensorMap *b)
{
	bool same = a->param == b->param && a->elem_bytes == b->elem_bytes && a->rank == b->rank &&
	    a->swizzle == b->swizzle && a->is_stored == b->is_stored && a->is_added == b->is_added;
	same = same && ALL_OF(d, a->rank,
			   a->dim[d] == b->dim[d] && a->box[d] == b->box[d] &&
			       a->merged[d] == b->merged[d]);
	same = same && a->windows == b->windows;
	for (int i = 0; i < a->windows && same; i++)
		same = a->window[i].step == b->window[i].step &&
		    launch_sum_equal(&a->window[i].lower, &b->window[i].lower) &&
		    launch_sum_equal(&a->window[i].count, &b->window[i].count) &&
		    launch_sum_equal(&a->window[i].reach, &b->window[i].reach);
	return same;
}
