/* How a tile comes from one layout to another: by other names where each thread has what it needs, by shuffles within
 * warps where few do, else through shared memory, which is laid out so that both sides use wide accesses and have few
 * bank conflicts (layout_best_shared). */
#include "model/model.h"
#include "model/turn.h"

#include <string.h>

/* Is it made of fragments that a simdgroup loads as 8 x 8 matrices?  No other target has such layouts. */
static bool
is_8x8(const Layout *l)
{
	int r = l->rank, stride;
	bool transposed;
	F2 to;
	if (r < 2 || l->in[IN_LANE] != 5 || l->out[r - 1] < 3 || l->out[r - 2] < 3)
		return false;
	Layout matrices = layout_8x8(r, l->out);
	return layout_fits_8x8(l, &matrices, &to, &stride, &transposed);
}

void
plan_convert(const Layout *src, const Layout *dst, int bytes, ConvertPlan *out)
{
	Convert c;
	if (!layout_convert(src, dst, &c))
		die("a conversion between layouts of different tiles");
	out->kind = c.kind;
	out->from = c.from;
	out->scratch = 0;
	if (c.kind == CONVERT_SHUFFLE && (is_8x8(dst) || !plan_shuffle(&c, src, dst, &out->shuffle)))
		out->kind = CONVERT_SHARED;
	if (out->kind == CONVERT_SHARED)
		out->scratch = (int64_t)bytes << layout_out_bits(src);
}

int64_t
convert_scratch(const Layout *src, const Layout *dst, int bytes)
{
	ConvertPlan c;
	plan_convert(src, dst, bytes, &c);
	return c.scratch;
}

/* Matrices, where a simdgroup loads them as matrices. */
Layout
convert_shared_layout(const Target *t, const Layout *src, const Layout *dst, int bytes)
{
	if (t->has & HAS_SIMDGROUP_MATRIX && is_8x8(dst))
		return layout_8x8(src->rank, src->out);
	return layout_best_shared(src, dst, bytes);
}

bool
convert_stays_in_warps(const Layout *src, const Layout *dst)
{
	F2 holder, to;
	if (src->in[IN_WARP] != dst->in[IN_WARP] || src->in[IN_BLOCK] || dst->in[IN_BLOCK] ||
	    !f2_right_inverse(&src->map, &holder))
		return false;
	to = f2_compose(&holder, &dst->map);
	int from = layout_in_at(src, IN_WARP), at = layout_in_at(dst, IN_WARP);
	return ALL_OF(i, dst->map.nin, to.col[i] >> from == (i < at ? 0 : UINT64_C(1) << (i - at)));
}

/* Of a tile in layout `held` that goes to memory (only its first holders write) or comes from there. */
static bool
owners(const Layout *held, const Layout *shared, int bytes, bool reads, ScratchOwners *out)
{
	F2 holder;
	if (held->in[IN_BLOCK] || (reads && layout_free_bits(held, IN_WARP)) || !f2_right_inverse(&held->map, &holder))
		return false;
	*out = (ScratchOwners){.lanes = held->in[IN_LANE], .is_exact = !reads || !layout_free_bits(held, IN_LANE)};
	out->n = log2_ceil(bytes);
	for (int i = 0; i < shared->map.nin; i++)
		out->thread[out->n++] = (uint32_t)(f2_apply(&holder, shared->map.col[i]) >> held->in[IN_REGISTER]);
	return true;
}

bool
scratch_owners(const Op *op, const Target *t, bool reads, ScratchOwners *out)
{
	if (op->kind == OP_GATHER && gather_stays_in_warps(op, t)) {
		const Layout *l = op->in[0]->layout;
		Layout rows = layout_row_major(l->rank, l->out, layout_last_first(l->rank));
		if (!owners(op->in[0]->layout, &rows, element_bytes(op->in[0]->type), false, out))
			return false;
		out->is_exact = false;
		return true;
	}
	if (op->kind != OP_CONVERT || t->has & HAS_SIMDGROUP_MATRIX)
		return false;
	const Layout *src = op->in[0]->layout, *dst = op->out[0].layout;
	int bytes = element_bytes(op->out[0].type);
	Layout shared = convert_shared_layout(t, src, dst, bytes);
	return owners(reads ? dst : src, &shared, bytes, reads, out);
}

/* As slots in layout `shared` are, by threads that hold a tile as `held`: only the warp is known.  False also where 16
 * bytes are of several warps. */
bool
buffer_owners(const Layout *held, const Layout *shared, DType elem, bool reads, ScratchOwners *out)
{
	enum { WIDEST = 4 };                            /* log2 of an access's bytes */
	Layout bytes;
	int size = dtype_tile_size(elem);
	if (layout_free_bits(held, IN_WARP) || !owners(held, shared, size, reads, out))
		return false;
	out->is_exact = false;
	if (dtype_is_packed(elem)) {                    /* two offsets a byte */
		if (!layout_bytes(shared, &bytes) || out->thread[0] >> out->lanes)
			return false;
		memmove(out->thread, out->thread + 1, sizeof *out->thread * (size_t)--out->n);
	}
	for (int i = 0; i < MIN(out->n, WIDEST); i++)   /* an access may reach that far around what is asked for */
		if (out->thread[i] >> out->lanes)
			return false;
	return true;
}
