/* Ops that move elements without computing: how the layouts of operands and results belong together, and what stands in
 * scratch where elements cannot be renamed.
 *
 *     reshape, permute, broadcast  the result's layout seen as one of the operand
 *     split, cat of equal parts    the operand with the pair, or without the bits that number the parts
 *     flip                         a fixed exclusive or of registers and lanes
 *     gather                       the operand in scratch, whole or piece by piece; or whole rows in registers
 *     scatter, atomics, print      slots, old values, the elements that are shown
 *     get, put                     a tile in a slot of shared memory: bytes of an access, passes over the banks */
#include "model/model.h"
#include "model/turn.h"

#include "ir/derive.h"

#include <string.h>

Layout
view_layout(const Op *op, const Layout *out)
{
	const Type *in = op->in[0]->type;
	Layout l = *out;
	int shape[LAYOUT_RANK] = {0};
	layout_shape(in->rank, in->extent, shape);
	if (op->kind == OP_RESHAPE)
		return layout_reshape(out, in->rank, shape);
	if (op->kind == OP_PERMUTE) {
		const IntList *dims = attr_dims(op);
		int back[LAYOUT_RANK] = {0};
		for (int d = 0; d < dims->n; d++)
			back[dims->at[d]] = d;
		return layout_permute(out, back);
	}
	/* A broadcast: where the operand has one element along a dimension, coordinates there do not count. */
	for (int d = 0; d < in->rank; d++) {
		if (shape[d] == l.out[d])
			continue;
		l = layout_slice(&l, d);
		l = layout_expand(&l, d);
	}
	return l;
}

/* The layout in which every thread has both elements of a pair: for results that are scalars. */
static Layout
pair_everywhere(const Layout *like)
{
	Layout r = {.rank = 1, .out = {1}};
	memcpy(r.in, like->in, sizeof r.in);
	r.in[IN_REGISTER] = 1;
	r.map = f2_zero(layout_in_bits(&r), 1);
	r.map.col[0] = 1;
	return r;
}

Layout
split_layout(const Op *op)
{
	return op->out[0].layout ? layout_pair(op->out[0].layout) : pair_everywhere(op->in[0]->layout);
}

bool
cat_is_even(const Op *op)
{
	return ALL_FROM(i, 1, op->nin, op->in[i]->type == op->in[0]->type) &&
	    (op->nin & (op->nin - 1)) == 0 && op->nin <= 8;
}

Layout
cat_layout(const Op *op)
{
	int axis = (int)attr_axis(op);
	return layout_shorten(op->out[0].layout, axis, log2_ceil(op->in[0]->type->extent[axis]));
}

bool
flip_exchange(const Op *op, uint64_t *exchange)
{
	const Layout *l = op->out[0].layout;
	int axis = (int)attr_axis(op);
	F2 near = f2_columns(&l->map, 0, l->in[IN_REGISTER] + l->in[IN_LANE]);
	uint64_t all = ((UINT64_C(1) << l->out[axis]) - 1) << layout_out_at(l, axis);
	if (f2_solve(&near, all, exchange))
		return true;
	f2_solve(&l->map, all, exchange);
	return false;
}

int64_t
gather_piece(const Op *op, const Target *t)
{
	enum { NEIGHBOURS = 4096, PIECES_MAX = 64 };   /* small scratch that may stand beside it (pass smem) */
	int64_t all = tile_bytes(op->in[0]->type), room = scratch_limit(op, t), piece = all;
	if (all <= room)
		return all;
	while (piece > room - NEIGHBOURS && all / piece <= PIECES_MAX && piece > 64)
		piece /= 2;
	return all / piece <= PIECES_MAX ? piece : all;
}

/* A row is what lies along the axis.  Elements of one are of one warp where no bit of its offsets in scratch is
 * another's. */
bool
gather_stays_in_warps(const Op *op, const Target *t)
{
	const Layout *from = op->in[0]->layout, *to = op->out[0].layout;
	int axis = (int)attr_axis(op);
	F2 holder;
	Layout rows;
	bool same = from && to && to->in[IN_WARP] > 0 && from->in[IN_WARP] == to->in[IN_WARP];
	if (!same || gather_row_layout(op, to, &rows) || from->in[IN_BLOCK] || to->in[IN_BLOCK] ||
	    gather_piece(op, t) != tile_bytes(op->in[0]->type) || operand_scratch(op->in[1], to) ||
	    !f2_right_inverse(&from->map, &holder))
		return false;
	uint64_t warps = ~UINT64_C(0) << layout_in_at(from, IN_WARP);
	for (int i = 0; i < from->out[axis]; i++)
		if (holder.col[layout_out_at(from, axis) + i] & warps)
			return false;
	for (int i = 0, at = layout_in_at(to, IN_WARP); i < to->map.nin; i++) {
		uint64_t of = 0;
		for (int d = 0; d < to->rank; d++) {
			uint64_t c = to->map.col[i] >> layout_out_at(to, d) & ((UINT64_C(1) << to->out[d]) - 1);
			of ^= d == axis ? 0 : f2_apply(&holder, c << layout_out_at(from, d));
		}
		if ((of & warps) >> layout_in_at(from, IN_WARP) != (i < at ? 0 : UINT64_C(1) << (i - at)))
			return false;
	}
	return true;
}

/* Rows of few elements, as of weights that index a table of 16 that each row has: threads hold those whose elements they
 * ask for, so that nothing goes through shared memory.
 *
 *     %t = read %tables : bf16[64, 16]           a thread has the whole rows that it has elements of in %v, in registers
 *     %i = cast %w : i32[64, 128]                from u4: no index is outside
 *     %v = gather %t, %i {axis = 1} : bf16[64, 128]          lower/lookup_bytes.c */
bool
gather_looks_up(const Op *op)
{
	enum { BITS_MOST = 16 };
	const Type *x = op->in[0]->type, *i = op->in[1]->type;
	int axis = (int)attr_axis(op);
	int64_t n = x->extent[axis], lo, hi;
	Turn turn;
	bool narrow = !x->ptr && x->elem != TY_BOOL && !dtype_is_packed(x->elem) && dtype_info[x->elem].bits <= BITS_MOST;
	if (!narrow || x->rank != i->rank || n > LOOKUP_ENTRIES || n <= 1 || !is_power_of_two(n) ||
	    type_count(i) <= type_count(x) || gather_turns(op, &turn))
		return false;
	return !ANY_OF(d, x->rank, d != axis && x->extent[d] != i->extent[d]) && value_range(op->in[1], &lo, &hi) &&
	    lo >= 0 && hi < n;
}

bool
read_looks_up(const Op *op, int64_t *n)
{
	enum { BITS_MOST = 16 };
	const Type *t = op->out[0].type;
	int64_t lo, hi;
	if (op->kind != OP_READ || op->nin != 3 || strcmp(attr_index(op), "gg") != 0 || t->rank != 2 ||
	    dtype_is_packed(t->elem) || t->elem == TY_BOOL || dtype_info[t->elem].bits > BITS_MOST)
		return false;
	const Op *rows = op->in[1]->def;
	bool spread = rows && rows->kind == OP_BROADCAST && rows->in[0]->type->rank == 2 &&
	    rows->in[0]->type->extent[1] == 1;
	if (!spread || op->in[2]->type != type_with_elem(op->home->func->module, t, op->in[2]->type->elem) ||
	    !value_range(op->in[2], &lo, &hi) || lo < 0 || hi >= LOOKUP_ENTRIES)
		return false;
	*n = INT64_C(1) << log2_ceil(MAX(hi + 1, 2));
	return t->extent[1] >= 4 * *n;
}

bool
gather_row_layout(const Op *op, const Layout *to, Layout *rows)
{
	enum { REGISTERS_MOST = 7 };                    /* log2 of what a thread holds of the rows */
	int axis = (int)attr_axis(op);
	if (!to || !gather_looks_up(op))
		return false;
	Layout l = layout_slice(to, axis);
	l = layout_expand(&l, axis);
	l = layout_drop_broadcast(&l);
	*rows = layout_stack(&l, axis, log2_ceil(op->in[0]->type->extent[axis]));
	return rows->in[IN_REGISTER] <= REGISTERS_MOST;
}

/* ---- scatter, atomics ---- */

DType
scatter_slot(const Op *op)
{
	const char *fn = attr_fn(op);
	DType t = op->in[0]->type->elem;
	bool is_wide = dtype_info[t].bits == 64;
	if (strcmp(fn, "set") == 0)
		return TY_U32;
	if (strcmp(fn, "add") == 0 && dtype_is_float(t))
		return is_wide ? TY_F64 : TY_F32;
	return is_wide ? TY_U64 : TY_U32;
}

int64_t
scatter_owner_bytes(const Op *op)
{
	bool is_set = strcmp(attr_fn(op), "set") == 0;
	return is_set ? (type_count(op->in[0]->type) * 4 + 15) / 16 * 16 : 0;
}

bool
scatter_is_apart(const Op *op, const Target *t)
{
	return scatter_owner_bytes(op) + tile_bytes(op->in[2]->type) <= scratch_limit(op, t);
}

bool
atomic_is_shared(const Op *op)
{
	const Layout *layout = op->out[0].layout;
	if (op->out[0].nuses == 0)
		return false;
	return !layout || layout_free_bits(layout, IN_LANE) || layout_free_bits(layout, IN_WARP);
}

/* ---- print ---- */

const int64_t *
print_extents(const Op *op, int i)
{
	const IntList *valid = attr_valid(op);
	int first = SUM_OF(int, k, i, op->in[k]->type->rank);
	return valid ? valid->at + first : op->in[i]->type->extent;
}

int64_t
print_shown_along(int64_t extent)
{
	return extent > PRINT_SHORT ? 2 * PRINT_EDGE : extent;
}

int64_t
print_shown(const Op *op, int i)
{
	const int64_t *extent = print_extents(op, i);
	int64_t n = 1;
	for (int d = 0; d < op->in[i]->type->rank; d++)
		n *= print_shown_along(extent[d]);
	return n;
}

int64_t
print_bytes(const Op *op, int i)
{
	const Type *t = op->in[i]->type;
	return t->rank > 0 ? (print_shown(op, i) * element_bytes(t) + 7) / 8 * 8 : 0;
}

/* ---- between threads and a slot of shared memory ---- */

/* Of elements of 4 bits: bytes are written, chunks of words read. */
static BankPlan
packed_banks(const Layout *threads, const Layout *shared, bool reads, const Target *t)
{
	BankPlan b = {0};
	LayoutChunks c;
	Layout bytes, slot;
	int vector;
	if (reads && layout_chunks(threads, shared, &c)) {
		b.bytes = 1 << (c.log - 1);
		layout_bank_passes(&c.chunks, &c.shared, 1, c.log - 1, &b.passes, &b.least);
	} else if (!reads && layout_bytes(threads, &bytes) && layout_bytes(shared, &slot)) {
		vector = layout_shared_vector(&bytes, &slot, 1, t->vector_bytes);
		b.bytes = 1 << vector;
		layout_bank_passes(&bytes, &slot, 1, vector, &b.passes, &b.least);
	}
	return b;
}

BankPlan
plan_banks(const Layout *threads, const Layout *shared, DType elem, BankUse use, const Target *t)
{
	BankPlan b = {0};
	if (dtype_is_packed(elem))
		return packed_banks(threads, shared, use == BANKS_READ, t);
	int order[F2_MAX], bytes = dtype_tile_size(elem);
	Layout held = use == BANKS_COPY ? *threads : layout_by_offset(threads, shared, order);
	int vector = layout_shared_vector(&held, shared, bytes, t->vector_bytes);
	b.bytes = bytes << vector;
	layout_bank_passes(&held, shared, bytes, vector, &b.passes, &b.least);
	return b;
}

Layout
plan_spread(const Layout *threads, const Layout *shared, DType elem, const Target *t)
{
	BankPlan least = plan_banks(threads, shared, elem, BANKS_WRITE, t);
	Layout best = *threads;
	int n = best.in[IN_REGISTER];
	for (int lane = 0; lane < best.in[IN_LANE]; lane++)
		for (int r = 0; r < n; r++) {
			Layout l = *threads;
			l.map.col[n + lane] ^= l.map.col[r];
			BankPlan now = plan_banks(&l, shared, elem, BANKS_WRITE, t);
			if (now.bytes != least.bytes || now.passes >= least.passes)
				continue;
			best = l;
			least = now;
		}
	return best;
}

/* Of ldmatrix and stmatrix of four matrices; said only where rows of one are in the same banks. */
static BankPlan
matrix_banks(const F2 *to, const Layout *l, int bytes, bool transposed)
{
	enum { MATRICES = 4 };
	int passes = layout_matrix_passes(to, l->in[IN_REGISTER], bytes, transposed);
	return passes > 1 ? (BankPlan){16, MATRICES * passes, MATRICES} : (BankPlan){0};
}

BankPlan
plan_slot(const Op *op, const Target *t, const char **matrix)
{
	F2 to;
	bool transposed, reads = op->kind == OP_GET;
	BankUse use = reads ? BANKS_READ : BANKS_WRITE;
	const Value *slot = op->in[0], *tile = reads ? &op->out[0] : op->in[1];
	int bytes = element_bytes(tile->type);
	*matrix = NULL;
	if (reads && attr_steps(op))                    /* parts of records begin at even bytes */
		return (BankPlan){2, 1, 1};
	if (dtype_is_packed(tile->type->elem))
		return plan_banks(tile->layout, slot->layout, tile->type->elem, use, t);
	if (!reads && (t->has & HAS_STMATRIX) && layout_stores_matrix(tile->layout, slot->layout, bytes, &to, &transposed))
		*matrix = transposed ? "stmatrix.trans" : "stmatrix";
	else if (reads && (t->has & HAS_LDMATRIX) &&
		 layout_fits_matrix(tile->layout, slot->layout, bytes, &to, &transposed))
		*matrix = transposed ? "ldmatrix.trans" : "ldmatrix";
	return *matrix ? matrix_banks(&to, tile->layout, bytes, transposed)
	               : plan_banks(tile->layout, slot->layout, tile->type->elem, use, t);
}
