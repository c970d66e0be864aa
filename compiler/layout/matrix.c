/* Which layouts ldmatrix can fill: a warp loads 8 x 8 matrices whose rows are 16 bytes of shared memory, each row's
 * address from one lane, and each lane gets a word of 32 bits of each matrix.
 *
 * With `to` the map from (register, lane, warp) to the element's offset in shared memory and w the log2 of a word's
 * elements (16 bits: 1), a layout fits when
 *
 *     plain         register bits below w -> 1 2 ..     lane bits 0 1 -> the next two     lane bits 2 3 4: the row
 *     transposed    register bits below w - 1 -> 1,
 *                   lane bits 2 3 4 -> the next three                                     register bit w - 1, lane bits 0 1
 *
 * and every other bit moves by multiples of 16 bytes.  Transposed matrices are of halves of words: one element of 16 bits,
 * two of 8. */
#include "layout/layout.h"

#include <string.h>

/* Does each of `n` bits from `at` on move by 1 << (from + i) elements? */
static bool
counts_up(const F2 *to, int at, int n, int from)
{
	return ALL_OF(i, n, to->col[at + i] == UINT64_C(1) << (from + i));
}

static bool
rows_aligned(const F2 *to, int registers, int word, bool transposed)
{
	for (int i = 0; i < to->nin; i++) {
		int lane = i - registers;
		bool column = transposed ? i < word - 1 || (lane >= 2 && lane < 5) : i < word || (lane >= 0 && lane < 2);
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
	return word > 0 && counts_up(to, 0, word - 1, 0) && counts_up(to, registers + 2, 3, word - 1) &&
	    rows_aligned(to, registers, word, true);
}

bool
layout_stores_matrix(const Layout *l, const Layout *shared, int bytes, F2 *to, bool *transposed)
{
	if (layout_free_bits(l, IN_LANE) || layout_free_bits(l, IN_WARP) ||
	    !layout_fits_matrix(l, shared, bytes, to, transposed))
		return false;
	int matrices = l->in[IN_REGISTER] - (bytes == 1 ? 2 : bytes == 2 ? 1 : 0);
	return matrices >= (*transposed ? 2 : 1);
}

/* Rows lie where three bits of the map send them; those in the same of a line's eight chunks are in the same banks. */
int
layout_matrix_passes(const F2 *to, int registers, int bytes, bool transposed)
{
	enum { ROWS = 8, CHUNK = 16 };
	const int along[] = {registers + 2, registers + 3, registers + 4};
	const int across[] = {bytes == 1, registers, registers + 1};
	const int *bit = transposed ? across : along;
	uint64_t at[ROWS];
	int rows[ROWS] = {0}, most = 0;
	for (int r = 0; r < ROWS; r++) {
		bool is_new = true;                     /* equal rows are read once */
		at[r] = 0;
		for (int i = 0; i < 3; i++)
			at[r] ^= r >> i & 1 ? to->col[bit[i]] : 0;
		is_new = is_new && ALL_OF(i, r, at[i] != at[r]);
		int *n = &rows[at[r] * (uint64_t)bytes / CHUNK % ROWS];
		*n += is_new;
		most = MAX(most, *n);
	}
	return most;
}

/* Lane bits 0 3 and 1 2 4 are columns 2 4 and rows 1 2 4: target.c's S_8x8. */
bool
layout_fits_8x8(const Layout *l, const Layout *shared, F2 *to, int *stride, bool *transposed)
{
	static const int column_lane[] = {0, 3}, row_lane[] = {1, 2, 4};
	F2 inverse;
	int lanes = l->in[IN_REGISTER];
	uint64_t column[3], row[3], inside = 0;

	if (l->in[IN_LANE] != 5 || l->in[IN_BLOCK] || lanes < 1 || layout_free_bits(l, IN_REGISTER) ||
	    !f2_invert(&shared->map, &inverse))
		return false;
	*to = f2_compose(&inverse, &l->map);
	column[0] = to->col[0];
	for (int i = 0; i < 2; i++)
		column[1 + i] = to->col[lanes + column_lane[i]];
	for (int i = 0; i < 3; i++)
		row[i] = to->col[lanes + row_lane[i]];
	*transposed = column[0] != 1;
	const uint64_t *near = *transposed ? row : column, *far = *transposed ? column : row;
	for (int i = 0; i < 3; i++) {
		if (near[i] != UINT64_C(1) << i || far[i] != far[0] << i || (far[0] & (far[0] - 1)) || far[0] < 8)
			return false;
		inside |= near[i] | far[i];
	}
	*stride = (int)far[0];
	for (int i = 1; i < to->nin; i++)               /* whatever else moves, moves matrices whole */
		if ((i < lanes || i >= lanes + 5) && (to->col[i] & inside))
			return false;
	return true;
}

/* ---- tiles that are turned on their way ---- */

/* Registers, lanes and warps move as `bit` says, log2 of the tile's elements one by one; the bits that are left go to
 * registers, the last to warps. */
static bool
spread_bits(Layout *l, const uint64_t *bit, int registers, int warps)
{
	enum { LANES = 5 };
	int n = layout_out_bits(l), rest = n - registers - LANES;
	uint64_t seen = 0, left[F2_MAX];
	if (rest < warps)
		return false;
	for (int i = 0; i < registers + LANES; i++)
		seen |= UINT64_C(1) << log2_floor((int64_t)bit[i]);
	for (int b = 0, i = 0; b < n; b++)
		if (!(seen >> b & 1))
			left[i++] = UINT64_C(1) << b;
	l->in[IN_REGISTER] = registers + rest - warps;
	l->in[IN_LANE] = LANES;
	l->in[IN_WARP] = warps;
	l->map = f2_zero(n, n);
	memcpy(l->map.col, bit, sizeof *bit * (size_t)registers);
	memcpy(l->map.col + registers, left, sizeof *left * (size_t)(rest - warps));
	memcpy(l->map.col + l->in[IN_REGISTER], bit + registers, sizeof *bit * LANES);
	memcpy(l->map.col + l->in[IN_REGISTER] + LANES, left + rest - warps, sizeof *left * (size_t)warps);
	return true;
}

/* As ldmatrix, transposed, brings bytes that a thread has four of along k and two along n in `put`: in which lane bit 1
 * chooses the second pair along k, so that a matrix's rows are in different banks. */
bool
layout_across(const Layout *put, int fast, Layout *got)
{
	int lane = layout_in_at(put, IN_LANE), n = layout_out_at(put, fast), k = layout_out_at(put, 1 - fast);
	const uint64_t *col = put->map.col;
	*got = *put;
	if (put->rank != 2 || put->in[IN_REGISTER] < 3 || put->in[IN_LANE] != 5 || col[0] != UINT64_C(1) << k ||
	    col[1] != UINT64_C(2) << k || col[2] != UINT64_C(1) << n)
		return false;
	got->map.col[0] = col[2];
	got->map.col[1] = col[0];
	got->map.col[2] = col[1];
	got->map.col[lane + 1] ^= col[1];
	got->map.col[lane + 4] &= ~col[2];
	return ALL_OF(i, 2, col[lane + i] == UINT64_C(4) << (k + i)) &&
	    ALL_OF(i, 3, got->map.col[lane + 2 + i] == UINT64_C(2) << (n + i));
}

/* A word, read by lanes along n and put in fours along k; of bytes four along k of two along n.  Lanes of eight rows that
 * stmatrix writes have each of both, so that they are in different banks. */
bool
layout_turns(const int shape[LAYOUT_RANK], int bytes, int fast, int warps, Layout *got, Layout *put)
{
	enum { K = 4, N = 5 };
	uint64_t k[K], n[N];
	*got = *put = (Layout){.rank = 2, .out = {shape[0], shape[1]}};
	if (shape[1 - fast] < (bytes == 1 ? 4 : 2) || shape[fast] < (bytes == 1 ? 4 : 5))
		return false;
	for (int i = 0; i < N; i++)
		n[i] = UINT64_C(1) << (layout_out_at(got, fast) + i);
	for (int i = 0; i < K; i++)
		k[i] = UINT64_C(1) << (layout_out_at(got, 1 - fast) + i);
	const uint64_t word[] = {k[0], k[1], n[0], n[1], n[2], n[3], n[4]};
	const uint64_t four[] = {k[0], k[1], n[0], k[2], k[3], n[1], n[2], n[3] ^ n[0]};
	if (bytes == 1)
		return spread_bits(put, four, 3, warps) && layout_across(put, fast, got);
	return bytes == 4 && spread_bits(got, word, 2, warps) && spread_bits(put, word, 2, warps);
}
