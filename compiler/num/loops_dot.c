/* The innermost block of a dot: a few rows times a few vectors of columns, held in registers while k runs.
 *
 *     c[0..mr, 0..nv*lanes] = cin + a[0..mr, 0..k] @ b[0..k, 0..nv*lanes]
 *
 * An element of a is broadcast from memory and multiplies vectors of b; b was packed so that they follow one
 * another.  Sizes are picked so that mr * nv accumulators, nv vectors of b and one of a fill the registers:
 * 6 x 4 of 32 with AVX-512, 6 x 2 of 16 with AVX2, 4 x 2 elsewhere.  This file alone is compiled with
 * contraction, so that a product and its sum become a fused multiply-add where there is one. */
#include <string.h>

#include "num/loops.h"

#if defined(__AVX512F__)
enum { WIDTH = 64, ROWS = 6, VECTORS = 4 };
#elif defined(__AVX2__)
enum { WIDTH = 32, ROWS = 6, VECTORS = 2 };
#elif defined(__aarch64__)
enum { WIDTH = 16, ROWS = 6, VECTORS = 4 };
#else
enum { WIDTH = 16, ROWS = 4, VECTORS = 2 };
#endif

#define BLOCK_FN(s, T)                                                                             \
	typedef T V_##s __attribute__((vector_size(WIDTH), aligned(__alignof__(T)), may_alias));   \
	ALWAYS_INLINE void                                                                         \
	block_##s(const DotArgs *d, int mr, int nv)                                                \
	{                                                                                          \
		enum { L = WIDTH / sizeof(T) };                                                    \
		const T *a = d->a, *b = d->b;                                                      \
		T *c = d->c;                                                                       \
		const int64_t a_row = d->a_row, a_col = d->a_col, b_row = d->b_row;                \
		V_##s acc[ROWS][VECTORS];                                                          \
		for (int i = 0; i < mr; i++)                                                       \
			for (int v = 0; v < nv; v++)                                               \
				acc[i][v] = d->cin ? *(const V_##s *)((const T *)d->cin +          \
						i * d->cin_row + v * L) : (V_##s){0};              \
		for (int64_t p = 0; p < d->k; p++) {                                               \
			V_##s x[VECTORS];                                                          \
			for (int v = 0; v < nv; v++)                                               \
				x[v] = *(const V_##s *)(b + v * L);                                \
			for (int i = 0; i < mr; i++)                                               \
				for (int v = 0; v < nv; v++)                                       \
					acc[i][v] += a[i * a_row] * x[v];                          \
			a += a_col;                                                                \
			b += b_row;                                                                \
		}                                                                                  \
		for (int i = 0; i < mr; i++)                                                       \
			for (int v = 0; v < nv; v++)                                               \
				*(V_##s *)(c + i * d->c_row + v * L) = acc[i][v];                  \
	}                                                                                          \
	static void                                                                                \
	pack_##s(const void *from, int64_t b_row, int64_t b_col, int64_t k, int64_t n, void *out)  \
	{                                                                                          \
		enum { L = WIDTH / sizeof(T), W = L * VECTORS };                                   \
		const T *b = from;                                                                 \
		T *o = out;                                                                        \
		for (int64_t j = 0; j < n; j += W) {                                               \
			int64_t w = MIN(n - j, W), full = (w + L - 1) / L * L;                     \
			for (int64_t p = 0; p < k; p++) {                                          \
				const T *row = b + p * b_row + j * b_col;                          \
				if (b_col == 1 && w == W)                                          \
					memcpy(o, row, W * sizeof(T));                             \
				else if (b_col == 1)                                               \
					memcpy(o, row, (size_t)w * sizeof(T));                     \
				else                                                               \
					for (int64_t q = 0; q < w; q++)                            \
						o[q] = row[q * b_col];                             \
				for (int64_t q = w; q < full; q++)                                 \
					o[q] = 0;                                                  \
				o += full;                                                         \
			}                                                                          \
		}                                                                                  \
	}

/* One function for each number of rows and vectors. */
#define ONE(s, r, v)                                                                               \
	static void block_##s##_##r##v(const DotArgs *d)                                           \
	{                                                                                          \
		block_##s(d, r, v);                                                                \
	}
#if defined(__AVX512F__) || defined(__aarch64__)
#define COLS(s, r) ONE(s, r, 1) ONE(s, r, 2) ONE(s, r, 3) ONE(s, r, 4)
#define NAMES(s, r) {NULL, block_##s##_##r##1, block_##s##_##r##2, block_##s##_##r##3, block_##s##_##r##4}
#else
#define COLS(s, r) ONE(s, r, 1) ONE(s, r, 2)
#define NAMES(s, r) {NULL, block_##s##_##r##1, block_##s##_##r##2}
#endif
#if defined(__AVX2__) || defined(__aarch64__)
#define ALL(s) COLS(s, 1) COLS(s, 2) COLS(s, 3) COLS(s, 4) COLS(s, 5) COLS(s, 6)
#define TABLE(s) {{NULL}, NAMES(s, 1), NAMES(s, 2), NAMES(s, 3), NAMES(s, 4), NAMES(s, 5), NAMES(s, 6)}
#else
#define ALL(s) COLS(s, 1) COLS(s, 2) COLS(s, 3) COLS(s, 4)
#define TABLE(s) {{NULL}, NAMES(s, 1), NAMES(s, 2), NAMES(s, 3), NAMES(s, 4)}
#endif

#define KERNELS(s, T)                                                                              \
	BLOCK_FN(s, T)                                                                             \
	ALL(s)                                                                                     \
	static const DotKernels kernels_##s = {sizeof(T), WIDTH / sizeof(T), ROWS, VECTORS,        \
		TABLE(s), pack_##s};

KERNELS(f32, float)
KERNELS(f64, double)
KERNELS(u32, uint32_t)
KERNELS(u64, uint64_t)

const DotKernels *
LEVEL(loop_dot)(DType t)
{
	switch (t) {
	case TY_F32: return &kernels_f32;
	case TY_F64: return &kernels_f64;
	case TY_U32: return &kernels_u32;
	default: return &kernels_u64;
	}
}
