/* Products by matrix instructions: whether the layouts are made of the instruction's fragments, and which fragment of an
 * operand each tile of the accumulator takes at each step.
 *
 * The accumulator's layout is the instruction's fragment repeated over registers (and warps); each repetition is a tile
 * of the instruction's size, at rows and columns that the registers' high bits move by.  An operand's fragment is found by
 * its coordinates: of a [M, K] at the tile's rows and the step along K, of b [K, N] likewise.  All of it is linear, so it
 * is found for each bit of tile and step. */
#include "model/model.h"

uint64_t
fragment_image(const Layout *fragment, int i, const Layout *to)
{
	uint64_t image = fragment->map.col[i];
	return (image & ((UINT64_C(1) << fragment->out[1]) - 1)) |
	    image >> fragment->out[1] << layout_out_at(to, to->rank - 2);
}

/* Are the low registers and the lanes of l the fragment's? */
static bool
begins_with(const Layout *l, const Layout *fragment)
{
	int regs = fragment->in[IN_REGISTER], lanes = fragment->in[IN_LANE];
	if (l->in[IN_REGISTER] < regs || l->in[IN_LANE] != lanes)
		return false;
	for (int i = 0; i < regs + lanes; i++) {
		int at = i < regs ? i : layout_in_at(l, IN_LANE) + i - regs;
		if (l->map.col[at] != fragment_image(fragment, i, l))
			return false;
	}
	return true;
}

uint64_t
dot_share(const Layout *from, uint64_t image, int lost, const Layout *to)
{
	uint64_t out = 0;
	for (int d = 0; d < from->rank; d++)
		if (d != lost) {
			uint64_t part = image >> layout_out_at(from, d) & ((UINT64_C(1) << from->out[d]) - 1);
			out |= part << layout_out_at(to, d);
		}
	return out;
}

/* Do warps do in the operand what they do in the accumulator, but for the dimension that it has not? */
static bool
warps_agree(const Layout *acc, const Layout *l, int lost)
{
	if (acc->in[IN_WARP] != l->in[IN_WARP])
		return false;
	for (int i = 0; i < acc->in[IN_WARP]; i++) {
		uint64_t want = dot_share(acc, acc->map.col[layout_in_at(acc, IN_WARP) + i], lost, l);
		if (l->map.col[layout_in_at(l, IN_WARP) + i] != want)
			return false;
	}
	return true;
}

bool
plan_fragments(const FragmentWalk *p, const Layout *acc, const Layout *l, const Layout *fragment, int which, MmaSide *s)
{
	int lost = which == 0 ? acc->rank - 1 : acc->rank - 2, k_dim = lost, k_at = layout_out_at(l, k_dim);
	*s = (MmaSide){.fragment = fragment->in[IN_REGISTER]};
	if (!begins_with(l, fragment) || !warps_agree(acc, l, lost))
		return false;
	F2 high = f2_columns(&l->map, s->fragment, l->in[IN_REGISTER] - s->fragment);
	for (int i = 0; i < p->tiles; i++)
		if (!f2_solve(&high, dot_share(acc, acc->map.col[p->fragment + i], lost, l), &s->tile[i]))
			return false;
	return ALL_OF(i, p->steps, f2_solve(&high, (uint64_t)p->k << (k_at + i), &s->step[i]));
}

static void
move_bits(Layout *l, int dim, const IntList *bits, bool back)
{
	int64_t to[F2_MAX] = {0};
	if (!bits || bits->n != l->out[dim])
		return;
	for (int i = 0; i < bits->n; i++)
		to[back ? bits->at[i] : i] = back ? i : bits->at[i];
	*l = layout_move_bits(l, dim, to);
}

Layout
dot_in_order(const Op *op, const Layout *given, int which, bool back)
{
	Layout l = *given;
	int rows = l.rank - 2, columns = l.rank - 1;
	if (which != 2)
		move_bits(&l, which == 0 ? columns : rows, attr_k_bits(op), back);
	if (which != 1)
		move_bits(&l, rows, attr_m_bits(op), back);
	if (which != 0)
		move_bits(&l, columns, attr_n_bits(op), back);
	return l;
}

bool
plan_mma(const Op *op, MmaPlan *p)
{
	const Layout *made = op->out[0].layout, *given = op->in[2]->layout;
	*p = (MmaPlan){.mma = mma_named(attr_mma(op))};
	if (!p->mma || !made || !given || !op->in[0]->layout || !op->in[1]->layout || !layout_equal(made, given))
		return false;
	const Layout in[3] = {dot_in_order(op, op->in[0]->layout, 0, true), dot_in_order(op, op->in[1]->layout, 1, true),
	    dot_in_order(op, made, 2, true)};
	const Layout *a = &in[0], *b = &in[1], *acc = &in[2];
	int rank = acc->rank;
	Layout of_a = mma_layout_a(p->mma), of_b = mma_layout_b(p->mma), of_c = mma_layout_c(p->mma);
	p->fragment = of_c.in[IN_REGISTER];
	if (p->mma->a != op->in[0]->type->elem || p->mma->b != op->in[1]->type->elem ||
	    p->mma->acc != op->out[0].type->elem || !begins_with(acc, &of_c) || 1 << a->out[rank - 1] < p->mma->k)
		return false;
	p->tiles = acc->in[IN_REGISTER] - p->fragment;
	p->steps = a->out[rank - 1] - log2_ceil(p->mma->k);
	FragmentWalk walk = {p->fragment, p->tiles, p->steps, p->mma->k};
	return plan_fragments(&walk, acc, a, &of_a, 0, &p->side[0]) && plan_fragments(&walk, acc, b, &of_b, 1, &p->side[1]);
}

uint64_t
mma_fragment(const MmaSide *s, int step, int tile)
{
	uint64_t at = 0;
	for (int i = 0; tile >> i; i++)
		at ^= tile >> i & 1 ? s->tile[i] : 0;
	for (int i = 0; step >> i; i++)
		at ^= step >> i & 1 ? s->step[i] : 0;
	return at;
}
