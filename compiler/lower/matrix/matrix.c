/* Tiles from shared memory by ldmatrix, and to it by stmatrix: a warp loads 8 x 8 matrices whose rows are 16 bytes, each
 * row's address from one lane, and each lane gets a word of each matrix.
 *
 * Which layouts fit is said in layout/matrix.c.  The row's address is to(row bits) plus what warps and the other
 * registers add; the two register bits above a word's number up to four matrices, which lanes 8 .. 31 give the
 * addresses of:
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

/* Of a layout that fits, whose `to` and `transposed` are known. */
static void
count(Matrices *m, const Layout *layout, int bytes)
{
	m->lanes_at = layout->in[IN_REGISTER];
	m->warps = layout->in[IN_WARP];
	m->word = log2_ceil(4 / bytes);
	m->many = MIN(2, m->lanes_at - m->word);
}

/* Bytes by which each bit of the thread's number moves the row that it gives. */
static int
row_images(const Matrices *m, int bytes, uint64_t *image)
{
	const uint64_t *lane = &m->to.col[m->lanes_at];
	uint64_t row[3] = {lane[2], lane[3], lane[4]};

	if (m->transposed)
		memcpy(row, (uint64_t[]){m->to.col[m->word - 1], lane[0], lane[1]}, sizeof row);
	for (int i = 0; i < 3; i++)
		image[i] = row[i] * (uint64_t)bytes;
	for (int i = 0; i < 2; i++)
		image[3 + i] = i < m->many ? m->to.col[m->word + i] * (uint64_t)bytes : 0;
	for (int i = 0; i < m->warps; i++)
		image[5 + i] = m->to.col[m->lanes_at + 5 + i] * (uint64_t)bytes;
	return 5 + m->warps;
}

/* Where the matrices of register r lie; the constant part is added last, as instructions have room for it. */
static Reg
address(Lower *l, Reg base, const LowerMap *map, const F2 *to, int r, int bytes)
{
	int64_t constant;
	Reg at = thread_pointer(l->b, base, lower_map_at(l, map, f2_apply(to, (uint64_t)r) * (uint64_t)bytes, &constant));
	return constant ? thread_pointer(l->b, at, lower_i32(l, constant)) : at;
}

bool
lower_matrix_load(Lower *l, Reg base, Reg *out, const Layout *layout, const Layout *shared, RegType type)
{
	static const PrimKind prim[2][3] = {
	    {PRIM_LDMATRIX_1, PRIM_LDMATRIX_2, PRIM_LDMATRIX}, {PRIM_LDMATRIX_T_1, PRIM_LDMATRIX_T_2, PRIM_LDMATRIX_T},
	};
	int bytes = thread_type_bytes(type);
	uint64_t image[F2_MAX];
	Matrices m;

	if (layout && l->t->has & HAS_SIMDGROUP_MATRIX)
		return lower_simdgroup_load(l, base, out, layout, shared, type);
	if (!layout || !(l->t->has & HAS_LDMATRIX) || type == REG_PRED ||
	    !layout_fits_matrix(layout, shared, bytes, &m.to, &m.transposed))
		return false;
	count(&m, layout, bytes);
	int each = 1 << m.word;
	LowerMap map = lower_map(l, image, row_images(&m, bytes, image));
	for (int r = 0; r < 1 << layout->in[IN_REGISTER]; r += each << m.many) {
		Reg word[4], at = address(l, base, &map, &m.to, r, bytes);
		thread_prim(l->b, prim[m.transposed][m.many], &at, 1, NULL, 0, word, 1 << m.many);
		for (int i = 0; i < 1 << m.many; i++) {
			if (each > 1)
				thread_unpack(l->b, word[i], type, &out[r + i * each], each);
			else
				out[r + i] = type == REG_I32 ? word[i] : lower_as(l, CAST_BITS, type, word[i]);
		}
	}
	return true;
}

bool
lower_matrix_store(Lower *l, Reg base, const Reg *from, const Layout *layout, const Layout *shared, RegType type)
{
	int bytes = thread_type_bytes(type);
	uint64_t image[F2_MAX];
	Matrices m;

	if (!layout || !(l->t->has & HAS_STMATRIX) || type == REG_PRED ||
	    !layout_stores_matrix(layout, shared, bytes, &m.to, &m.transposed))
		return false;
	count(&m, layout, bytes);
	int each = 1 << m.word;
	LowerMap map = lower_map(l, image, row_images(&m, bytes, image));
	for (int r = 0; r < 1 << layout->in[IN_REGISTER]; r += each << m.many) {
		Reg in[5] = {address(l, base, &map, &m.to, r, bytes)};
		for (int i = 0; i < 1 << m.many; i++) {
			const Reg *v = &from[r + i * each];
			in[1 + i] = each > 1 ? thread_pack(l->b, v, each) : lower_as(l, CAST_BITS, REG_I32, *v);
		}
		thread_prim(l->b, m.transposed ? PRIM_STMATRIX_T : m.many == 2 ? PRIM_STMATRIX : PRIM_STMATRIX_2, in,
		    1 + (1 << m.many), NULL, 0, NULL, 0);
	}
	return true;
}
