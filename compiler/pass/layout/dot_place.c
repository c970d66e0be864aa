/* Where the operands of a matrix instruction must lie, given the accumulator.
 *
 *     acc [M, N]   lanes and low registers: the instruction's fragment C;  warps: along M and N
 *     a   [M, K]   the fragment A;  warps: what they do along M; those along N hold the same
 *     b   [K, N]   the fragment B;  warps: what they do along N; those along M hold the same
 *
 * Whatever fragment and warps do not cover goes over registers: along K first, then along the other dimension, then over
 * leading (batch) dimensions. */
#include "model/model.h"
#include "pass/layout/anchor.h"

#include <string.h>

static void
add_column(Layout *l, InDim in, uint64_t image)
{
	l->map.col[l->map.nin++] = image;
	l->in[in]++;
}

/* The registers that are missing: bits of the tile that nothing covers, dimension by dimension. */
static void
add_missing(Layout *l, uint64_t covered, const int *order, int n)
{
	for (int i = 0; i < n; i++)
		for (int b = 0; b < l->out[order[i]]; b++) {
			uint64_t image = UINT64_C(1) << (layout_out_at(l, order[i]) + b);
			if (!(covered & image))
				add_column(l, IN_REGISTER, image);
		}
}

/* What warp bit i of the accumulator does in a tile that shares all of its dimensions but `lost`. */
static uint64_t
warp_image(const Layout *acc, int i, const Layout *to, int lost)
{
	return dot_share(acc, acc->map.col[layout_in_at(acc, IN_WARP) + i], lost, to);
}

Layout
fragment_spread(const Layout *fragment, const Type *type, const Layout *acc, int lost)
{
	int rank = type->rank, order[LAYOUT_RANK], n = 0;
	int lanes = layout_in_at(fragment, IN_LANE), regs = fragment->in[IN_REGISTER];
	uint64_t covered = 0;
	Layout l = {.rank = rank};
	for (int d = 0; d < rank; d++)
		l.out[d] = log2_ceil(type->extent[d]);
	l.map.nout = layout_out_bits(&l);
	for (int i = 0; i < fragment->map.nin; i++)
		covered |= fragment_image(fragment, i, &l);
	for (int i = 0; i < acc->in[IN_WARP]; i++)
		covered |= warp_image(acc, i, &l, lost);
	for (int i = 0; i < regs; i++)
		add_column(&l, IN_REGISTER, fragment_image(fragment, i, &l));
	order[n++] = lost;
	for (int d = rank - 1; d >= 0; d--)
		if (d != lost)
			order[n++] = d;
	add_missing(&l, covered, order, n);
	for (int i = 0; i < fragment->in[IN_LANE]; i++)
		add_column(&l, IN_LANE, fragment_image(fragment, lanes + i, &l));
	for (int i = 0; i < acc->in[IN_WARP]; i++)
		add_column(&l, IN_WARP, warp_image(acc, i, &l, lost));
	return l;
}

const Layout *
dot_operand(const Op *op, const Layout *acc, int which)
{
	const MmaInfo *mma = mma_named(attr_mma(op));
	const WgmmaInfo *wgmma = mma ? NULL : wgmma_named(attr_mma(op));
	const Type *t = op->in[which]->type;
	if (!mma && !(wgmma && which == 0 && attr_register_a(op)))
		return NULL;
	Layout fragment = wgmma ? wgmma_layout_a(wgmma) : which == 0 ? mma_layout_a(mma) : mma_layout_b(mma);
	int k = which == 0 ? t->rank - 1 : t->rank - 2;
	Layout l = fragment_spread(&fragment, t, acc, k);
	if (attr_k_bits(op))
		l = layout_move_bits(&l, k, attr_k_bits(op)->at);
	return layout_intern(op->home->func->module, &l);
}
