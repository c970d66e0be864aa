/* The inner loops of the numerics and the table by which num's callers reach them.
 *
 * Each loops_*.c is compiled once for every CpuLevel, with NUM_LEVEL naming the level; a function that leaves
 * such a file is named LEVEL(f), which is f_base, f_avx2 or f_avx512.  level.c collects them in loops_at.
 * A loop takes n elements of every operand (broadcast was undone by elem.c) and may work in place. */
#ifndef TEGULA_LOOPS_H
#define TEGULA_LOOPS_H

#include <string.h>

#include "num/num.h"

#define LEVEL_JOIN_(a, b) a##_##b
#define LEVEL_JOIN(a, b) LEVEL_JOIN_(a, b)
#define LEVEL(name) LEVEL_JOIN(name, NUM_LEVEL)

/* The next loop carries nothing from one trip to the next, though out may be an operand. */
#if defined(__clang__)
#define LOOP _Pragma("clang loop vectorize(assume_safety)")
#else
#define LOOP _Pragma("GCC ivdep")
#endif

#define ALWAYS_INLINE static inline __attribute__((always_inline))

/* A loop of one operand a, or two, a and b, of type T with results of type R. */
#define UNARY(name, T, R, expr)                                                                    \
	static void name(void *out, const void *const *in, int64_t n)                              \
	{                                                                                          \
		R *o = out;                                                                        \
		const T *x = in[0];                                                                \
		LOOP for (int64_t i = 0; i < n; i++) {                                             \
			T a = x[i];                                                                \
			o[i] = (R)(expr);                                                          \
		}                                                                                  \
	}
#define BINARY(name, T, R, expr)                                                                   \
	static void name(void *out, const void *const *in, int64_t n)                              \
	{                                                                                          \
		R *o = out;                                                                        \
		const T *x = in[0], *y = in[1];                                                    \
		LOOP for (int64_t i = 0; i < n; i++) {                                             \
			T a = x[i], b = y[i];                                                      \
			o[i] = (R)(expr);                                                          \
		}                                                                                  \
	}

/* X(suffix, type, what sums are computed in, bits), and of integers X(suffix, type, least, greatest). */
#define UNSIGNED(X)                                                                                \
	X(u8, uint8_t, uint32_t, 8) X(u16, uint16_t, uint32_t, 16) X(u32, uint32_t, uint32_t, 32)  \
	X(u64, uint64_t, uint64_t, 64)
#define FLOATS(X) X(f32, float, float, 32) X(f64, double, double, 64)
#define INTEGERS(X)                                                                                \
	X(i8, int8_t, INT8_MIN, INT8_MAX) X(i16, int16_t, INT16_MIN, INT16_MAX)                    \
	X(i32, int32_t, INT32_MIN, INT32_MAX) X(i64, int64_t, INT64_MIN, INT64_MAX)                \
	X(u8, uint8_t, 0, UINT8_MAX) X(u16, uint16_t, 0, UINT16_MAX)                               \
	X(u32, uint32_t, 0, UINT32_MAX) X(u64, uint64_t, 0, UINT64_MAX)

/* Entries by dtype of a table: X of the functions f_u8 and so on, by width or by sign too, and of the two for floats. */
#define BY_WIDTH(X, f)                                                                             \
	[TY_BOOL] = X(f##_u8), [TY_I8] = X(f##_u8), [TY_U8] = X(f##_u8), [TY_I16] = X(f##_u16),    \
	[TY_U16] = X(f##_u16), [TY_I32] = X(f##_u32), [TY_U32] = X(f##_u32), [TY_I64] = X(f##_u64), \
	[TY_U64] = X(f##_u64)
#define BY_SIGN(X, f)                                                                              \
	[TY_BOOL] = X(f##_u8), [TY_I8] = X(f##_i8), [TY_U8] = X(f##_u8), [TY_I16] = X(f##_i16),    \
	[TY_U16] = X(f##_u16), [TY_I32] = X(f##_i32), [TY_U32] = X(f##_u32), [TY_I64] = X(f##_i64), \
	[TY_U64] = X(f##_u64), [TY_I4] = X(f##_i8), [TY_U4] = X(f##_u8)
#define OF_FLOATS(X, f) [TY_F32] = X(f##_f32), [TY_F64] = X(f##_f64)
#define SELF(f) f

#define BITS_OF(s, T, U)                                                                           \
	ALWAYS_INLINE U s##_bits(T x)                                                              \
	{                                                                                          \
		U u;                                                                               \
		memcpy(&u, &x, sizeof u);                                                          \
		return u;                                                                          \
	}                                                                                          \
	ALWAYS_INLINE T s##_of_bits(U u)                                                           \
	{                                                                                          \
		T x;                                                                               \
		memcpy(&x, &u, sizeof x);                                                          \
		return x;                                                                          \
	}

BITS_OF(f32, float, uint32_t)
BITS_OF(f64, double, uint64_t)

/* One block of a tile while it is f32 between narrow formats; fits the first cache with its neighbours. */
enum { BLOCK = 512 };

typedef void (*RowsFn)(const void *a, int64_t rows, int64_t n, void *out);
typedef void (*ColumnsFn)(const void *a, int64_t n, int64_t inner, void *out);

/* What one block of a dot's micro-kernel does: c[mr, nv vectors] = cin + a[mr, k] @ b[k, nv vectors];
 * strides in elements.  cin NULL: zeros. */
typedef struct DotArgs {
	int64_t k;
	const void *a;
	int64_t a_row, a_col;
	const void *b;
	int64_t b_row;
	const void *cin;
	int64_t cin_row;
	void *c;
	int64_t c_row;
} DotArgs;

typedef void (*DotFn)(const DotArgs *d);

enum { DOT_MR = 8, DOT_NV = 4 };                        /* the most rows and vectors of any kernel */

typedef struct DotKernels {
	int size;                                       /* bytes of an element */
	int lanes, mr, nv;                              /* elements of a vector; the full block */
	DotFn fn[DOT_MR + 1][DOT_NV + 1];               /* by rows and vectors; [0] unused */
	/* b[k, n] by strides into panels of nv * lanes columns, each [k][columns], zeros past n */
	void (*pack)(const void *b, int64_t b_row, int64_t b_col, int64_t k, int64_t n, void *out);
} DotKernels;

/* What the loops_*.c give, at each level: X(name, result, arguments). */
#define LOOP_LIST(X)                                                                               \
	/* NULL: not there */                                                                      \
	X(integer, LoopFn, (OpKind kind, DType t))                                                 \
	/* f32 and f64, nan: propagate */                                                          \
	X(real, LoopFn, (OpKind kind, DType t, bool nan))                                          \
	X(math, LoopFn, (OpKind kind, DType t))                                                    \
	X(select, LoopFn, (int size))                                                              \
	/* among bool, integers, f32, f64 */                                                       \
	X(cast, LoopFn, (DType from, DType to))                                                    \
	/* to f64; 64-bit integers round to odd */                                                 \
	X(sticky, LoopFn, (DType from))                                                            \
	/* f64 to f32 with the precision and range of a narrow type */                             \
	X(round_to, LoopFn, (DType to))                                                            \
	X(widen, ToF32Fn, (DType t))                                                               \
	/* keeps_inf: f8e5m2 does not saturate infinity */                                         \
	X(narrow, FromF32Fn, (DType t, bool keeps_inf))                                            \
	/* arg: i64 out */                                                                         \
	X(rows, RowsFn, (ReduceFn fn, DType t, bool nan))                                          \
	X(columns, ColumnsFn, (ReduceFn fn, DType t, bool nan))                                    \
	/* f32, f64, u32, u64 */                                                                   \
	X(dot, const DotKernels *, (DType t))                                                      \
	X(philox, void, (uint64_t seed, const uint64_t *offset, int64_t n, uint32_t *const out[4])) \
	X(tf32, void, (float *x, int64_t n))                                                       \
	/* x * (1 + u * r), r a random number of (-1, 1) for each count from `from` on */                  \
	X(perturb, void, (double *x, int64_t n, double u, uint64_t from))                          \
	X(fill, void, (int size, void *out, uint64_t word, int64_t n))                             \
	/* past the caches, if the CPU can */                                                      \
	X(stream, void, (void *to, const void *from, size_t bytes))                                \
	/* an op whose results go there; NULL: none */                                             \
	X(streaming, LoopFn, (OpKind kind, DType t))                                               \
	X(point, void, (uint64_t *out, const uint64_t *at, const void *index, DType t, unsigned scalar, \
	    uint64_t size, int64_t n))                                                             \
	X(neighbours, bool, (const uint64_t *at, uint64_t step, int64_t n))                        \
	X(range, void, (const uint64_t *at, const uint8_t *mask, int64_t n, uint64_t *least, uint64_t *most))

typedef struct Loops {
#define X(name, result, arguments) result (*name) arguments;
	LOOP_LIST(X)
#undef X
} Loops;

#if defined(NUM_LEVEL)
#define X(name, result, arguments) result LEVEL(loop_##name) arguments;
LOOP_LIST(X)
#undef X
#endif

extern const Loops loops_at[CPU_LEVELS];

/* reduce.c: what is accumulated: the result's type for sums and their like, the elements' own for orders. */
DType work_type(const Reduce *r);

/* Copies n elements of a line, `step` apart, one behind the other. */
static inline void
line_gather(const char *x, int64_t step, int size, char *out, int64_t n)
{
	for (int64_t i = 0; i < n; i++)
		memcpy(out + i * size, x + i * step * size, (size_t)size);
}

#endif
