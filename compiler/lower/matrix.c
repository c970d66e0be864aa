/* Tiles from shared memory by ldmatrix: a warp loads 8 x 8 matrices whose rows are 16 bytes, each row's address from
 * one lane, and each lane gets a word of each matrix.
 *
 * With `to` the map from (register, lane, warp) to the offset in shared memory, and w the log2 of a word's elements, a
 * layout fits when (elements of 16 bits: w = 1)
 *
 *     plain         register bit 0 -> 1     lane bits 0 1 -> 2 4          lane bits 2 3 4: the row
 *     transposed    lane bits 2 3 4 -> 1 2 4                              register bit 0, lane bits 0 1: the row
 *
 * and every other image is a multiple of 16 bytes.  The row's address is then to(row) plus what warps and the other
 * registers add; the next two register bits number up to four matrices, which lanes 8 .. 31 give the addresses of:
 *
 *     lane bits 0 1 2 -> to(row bits)     lane bits 3 4 -> to(matrix bits) */
#include "lower/lower.h"

#include <string.h>

typedef struct Matrices {
	F2 to;                                          /* elements */
	bool transposed;
	int word;                                       /* log2 of the elements of a word */
	int many;                                       /* log2 of the matrices of one load */
	int lanes_at, warps;                            /* first lane bit of `to`; warp bits */
} Matrices;

/* Does each of `want` bits from `at` on move by 1 << (from + i) elements? */
static bool
counts_up(const F2 *to, int at, int want, int from)
{
	for (int i = 0; i < want; i++)
		if (to->col[at + i] != UINT64_C(1) << (from + i))
			return false;
	return true;
}

static bool
is_column_bit(const Matrices *m, int i)
{
	int lane = i - m->lanes_at;

	if (m->transposed)
		return lane >= 2 && lane < 5;
	return i < m->word || (lane >= 0 && lane < 2);
}

static bool
rows_aligned(const Matrices *m)
{
	for (int i = 0; i < m->to.nin; i++)
		if (!is_column_bit(m, i) && (m->to.col[i] & ((UINT64_C(4) << m->word) - 1)))
			return false;
	return true;
}

static bool
fits(Matrices *m, int registers)
{
	if (registers < m->word)
		return false;
	m->transposed = false;
	if (counts_up(&m->to, 0, m->word, 0) && counts_up(&m->to, m->lanes_at, 2, m->word) && rows_aligned(m))
		return true;
	m->transposed = true;
	return m->word == 1 && counts_up(&m->to, m->lanes_at + 2, 3, 0) && rows_aligned(m);
}

static bool
plan(const Lower *l, Matrices *m, const Layout *layout, const Layout *shared, RegType type)
{
	int bytes = lower_type_bytes(type), registers = layout->in[IN_REGISTER];
	F2 inverse;

	if (!(l->t->has & HAS_LDMATRIX) || type == REG_PRED || bytes > 4 || layout->in[IN_LANE] != 5 ||
	    layout_free_bits(layout, IN_REGISTER) || !f2_invert(&shared->map, &inverse))
		return false;
	*m = (Matrices){.to = f2_compose(&inverse, &layout->map), .lanes_at = registers, .warps = layout->in[IN_WARP]};
	while (bytes << m->word < 4)
		m->word++;
	m->many = MIN(2, registers - m->word);
	return registers >= m->word && fits(m, registers);
}

/* Bytes by which each bit of the thread's number moves the row that it gives. */
static int
row_images(const Matrices *m, int bytes, uint64_t *image)
{
	const uint64_t *lane = &m->to.col[m->lanes_at];
	uint64_t row[3] = {lane[2], lane[3], lane[4]};

	if (m->transposed)
		memcpy(row, (uint64_t[]){m->to.col[0], lane[0], lane[1]}, sizeof row);
	for (int i = 0; i < 3; i++)
		image[i] = row[i] * (uint64_t)bytes;
	for (int i = 0; i < 2; i++)
		image[3 + i] = i < m->many ? m->to.col[m->word + i] * (uint64_t)bytes : 0;
	for (int i = 0; i < m->warps; i++)
		image[5 + i] = m->to.col[m->lanes_at + 5 + i] * (uint64_t)bytes;
	return 5 + m->warps;
}

bool
lower_matrix_load(Lower *l, Reg base, Reg *out, const Layout *layout, const Layout *shared, RegType type)
{
	static const PrimKind prim[2][3] = {
	    {PRIM_LDMATRIX_1, PRIM_LDMATRIX_2, PRIM_LDMATRIX}, {PRIM_LDMATRIX_T_1, PRIM_LDMATRIX_T_2, PRIM_LDMATRIX_T},
	};
	int bytes = lower_type_bytes(type);
	uint64_t image[F2_MAX];
	Matrices m;

	if (!layout || !plan(l, &m, layout, shared, type))
		return false;
	int n = row_images(&m, bytes, image), each = 1 << m.word;
	for (int r = 0; r < 1 << layout->in[IN_REGISTER]; r += each << m.many) {
		int64_t constant;
		Reg word[4];
		Reg offset = lower_thread_offset(l, image, n, f2_apply(&m.to, (uint64_t)r) * (uint64_t)bytes, &constant);
		Reg at = l->e->pointer(l->e, base, offset);
		if (constant)
			at = l->e->pointer(l->e, at, lower_i32(l, constant));
		l->e->prim(l->e, prim[m.transposed][m.many], &at, 1, NULL, 0, word, 1 << m.many);
		for (int i = 0; i < 1 << m.many; i++) {
			if (each > 1)
				l->e->unpack(l->e, word[i], type, &out[r + i * each], each);
			else
				out[r + i] = type == REG_I32 ? word[i] : lower_as(l, CAST_BITS, type, word[i]);
		}
	}
	return true;
}
