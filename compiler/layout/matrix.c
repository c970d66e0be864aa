/* Which layouts ldmatrix can fill: a warp loads 8 x 8 matrices whose rows are 16 bytes of shared memory, each row's
 * address from one lane, and each lane gets a word of 32 bits of each matrix.
 *
 * With `to` the map from (register, lane, warp) to the element's offset in shared memory and w the log2 of a word's
 * elements (16 bits: 1), a layout fits when
 *
 *     plain         register bits below w -> 1 2 ..     lane bits 0 1 -> the next two     lane bits 2 3 4: the row
 *     transposed    lane bits 2 3 4 -> 1 2 4 (w = 1)                                      register bit 0, lane bits 0 1
 *
 * and every other bit moves by multiples of 16 bytes. */
#include "layout/layout.h"

/* Does each of `n` bits from `at` on move by 1 << (from + i) elements? */
static bool
counts_up(const F2 *to, int at, int n, int from)
{
	for (int i = 0; i < n; i++)
		if (to->col[at + i] != UINT64_C(1) << (from + i))
			return false;
	return true;
}

static bool
rows_aligned(const F2 *to, int registers, int word, bool transposed)
{
	for (int i = 0; i < to->nin; i++) {
		int lane = i - registers;
		bool column = transposed ? lane >= 2 && lane < 5 : i < word || (lane >= 0 && lane < 2);
		if (!column && (to->col[i] & ((UINT64_C(4) << word) - 1)))
			return false;
	}
	return true;
}

bool
layout_fits_matrix(const Layout *l, const Layout *shared, int bytes, F2 *to, bool *transposed)
{
	F2 inverse;
	int registers = l->in[IN_REGISTER], word = bytes == 1 ? 2 : bytes == 2 ? 1 : 0;

	if (bytes > 4 || l->in[IN_LANE] != 5 || l->in[IN_BLOCK] || registers < word ||
	    layout_free_bits(l, IN_REGISTER) || !f2_invert(&shared->map, &inverse))
		return false;
	*to = f2_compose(&inverse, &l->map);
	*transposed = false;
	if (counts_up(to, 0, word, 0) && counts_up(to, registers, 2, word) && rows_aligned(to, registers, word, false))
		return true;
	*transposed = true;
	return word == 1 && counts_up(to, registers + 2, 3, 0) && rows_aligned(to, registers, word, true);
}
