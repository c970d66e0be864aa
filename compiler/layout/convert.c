/* The cheapest way from one layout to another.
 *
 * Both maps say which element a place holds.  A conversion needs, for each place of the destination, a
 * place of the source that holds the same element: a linear map `from` with src(from(x)) = dst(x).  If
 * lane, warp and block can be kept, only registers are renamed; if warp and block can, lanes exchange by
 * shuffles; otherwise the tile goes through shared memory.  Each case is one system of equations, solved
 * bit by bit: the image of a destination bit, less that of the source bit which must be kept, has to lie in
 * the span of the source's free bits. */
#include "layout/layout.h"

/* Solves for `from` when the inputs from `kept` on must stay as they are. */
static bool
solve_keeping(const Layout *src, const Layout *dst, InDim kept, F2 *from)
{
	int nfree = layout_in_at(src, kept);
	F2 free = f2_columns(&src->map, 0, nfree);
	*from = f2_zero(dst->map.nin, src->map.nin);
	for (int i = 0; i < dst->map.nin; i++) {
		uint64_t want = dst->map.col[i], fixed = 0, x;
		for (int d = (int)kept; d < IN_DIMS; d++) {
			int bit = i - layout_in_at(dst, (InDim)d);
			if (bit < 0 || bit >= dst->in[d])
				continue;
			if (bit >= src->in[d])
				return false;
			fixed = UINT64_C(1) << (layout_in_at(src, (InDim)d) + bit);
			want ^= f2_apply(&src->map, fixed);
		}
		if (!f2_solve(&free, want, &x))
			return false;
		from->col[i] = x | fixed;
	}
	return true;
}

bool
layout_convert(const Layout *src, const Layout *dst, Convert *out)
{
	if (src->rank != dst->rank)
		return false;
	if (ANY_OF(d, src->rank, src->out[d] != dst->out[d]))
		return false;
	if (layout_equal(src, dst)) {
		*out = (Convert){CONVERT_NONE, f2_identity(src->map.nin)};
		return true;
	}
	out->kind = CONVERT_REGISTERS;
	if (solve_keeping(src, dst, IN_LANE, &out->from))
		return true;
	out->kind = CONVERT_SHUFFLE;
	if (solve_keeping(src, dst, IN_WARP, &out->from))
		return true;
	out->kind = CONVERT_SHARED;
	return solve_keeping(src, dst, IN_BLOCK, &out->from) || solve_keeping(src, dst, IN_DIMS, &out->from);
}

bool
layout_warp_shares(const Layout *l, int warps, int least, int64_t shares[2])
{
	int bits = log2_ceil(warps), n = l->in[IN_REGISTER] + l->in[IN_LANE], done = 0;
	if (l->rank != 2 || l->in[IN_WARP] != bits || (INT64_C(1) << bits) != warps)
		return false;
	for (int d = 0; d < 2; d++) {
		int at = layout_out_at(l, d), end = at + l->out[d], first = done;
		while (done < bits && l->map.col[n + done] >> at && !(l->map.col[n + done] >> end))
			done++;
		int low = end - (done - first);
		for (int i = first; i < done; i++)
			if (l->map.col[n + i] != UINT64_C(1) << (low + i - first))
				return false;
		if (ANY_OF(i, n, l->map.col[i] >> low << low & ((UINT64_C(1) << end) - 1)))
			return false;
		if (d == 0 && low - at < log2_ceil(least))
			return false;
		shares[d] = INT64_C(1) << (done - first);
	}
	return done == bits;
}
