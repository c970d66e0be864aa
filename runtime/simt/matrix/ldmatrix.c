/* 8 x 8 matrices of 16-bit elements between shared memory and a warp's registers.
 *
 * Lanes 8 k … 8 k + 7 give the addresses of the rows of matrix k.  Lane l holds two adjacent elements of each matrix in one
 * word: row l / 4, columns 2 (l % 4) and the next; the transposed forms exchange row and column.  Source: PTX ISA 9.0,
 * 9.7.14.5.15 (ldmatrix) and 9.7.14.5.16 (stmatrix). */
#include <string.h>

#include "runtime/simt/prims.h"

typedef struct Form {
	const char *name;
	int n;                                          /* matrices */
	bool transposed;
} Form;

typedef uint16_t Matrix[8][8];

static uint8_t *
row_at(const SimtLanes *l, const Form *f, int lane, unsigned access)
{
	SimtThread *t = l->thread[lane];
	uint32_t at = (uint32_t)l->in[lane][0];
	if (at % 16)
		simt_fail(t, "%s: the address of lane %d, %u, is not a multiple of 16", f->name, lane, at);
	return simt_shared_at(t, at, 16, access);
}

static uint16_t *
element(Matrix m, const Form *f, int lane, int which)
{
	int row = lane / 4, col = 2 * (lane % 4) + which;
	return f->transposed ? &m[col][row] : &m[row][col];
}

static void
load(const SimtLanes *l, const void *info)
{
	const Form *f = info;
	Matrix m[4];
	for (int lane = 0; lane < 8 * f->n; lane++)
		memcpy(m[lane / 8][lane % 8], row_at(l, f, lane, SIMT_READ), 16);
	for (int lane = 0; lane < SIMT_LANES; lane++)
		for (int k = 0; k < f->n; k++)
			l->out[lane][k] = (uint64_t)*element(m[k], f, lane, 0) |
			    (uint64_t)*element(m[k], f, lane, 1) << 16;
}

static void
store(const SimtLanes *l, const void *info)
{
	const Form *f = info;
	Matrix m[4];
	for (int lane = 0; lane < SIMT_LANES; lane++)
		for (int k = 0; k < f->n; k++)
			for (int which = 0; which < 2; which++)
				*element(m[k], f, lane, which) = (uint16_t)(l->in[lane][1 + k] >> (16 * which));
	for (int lane = 0; lane < 8 * f->n; lane++)
		memcpy(row_at(l, f, lane, SIMT_WRITE), m[lane / 8][lane % 8], 16);
}

#define FORM(symbol, compute, text, n_, transposed_)                                                   \
	PRIMITIVE(symbol)                                                                          \
	{                                                                                          \
		const Form f = {text, n_, transposed_};                                                \
		simt_warp_collective(t, text, compute, &f, in, out);                                     \
	}
FORM(simt_ldmatrix_1, load, "ldmatrix_1", 1, false)
FORM(simt_ldmatrix_2, load, "ldmatrix_2", 2, false)
FORM(simt_ldmatrix, load, "ldmatrix", 4, false)
FORM(simt_ldmatrix_t_1, load, "ldmatrix_t_1", 1, true)
FORM(simt_ldmatrix_t_2, load, "ldmatrix_t_2", 2, true)
FORM(simt_ldmatrix_t, load, "ldmatrix_t", 4, true)
FORM(simt_stmatrix_2, store, "stmatrix_2", 2, false)
FORM(simt_stmatrix, store, "stmatrix", 4, false)
FORM(simt_stmatrix_t, store, "stmatrix_t", 4, true)
#undef FORM
