/* Elementwise loops of f32 and f64 that are not mathematical functions: arithmetic, comparison, rounding to
 * whole numbers, fma.  Every result is rounded once, so all levels agree to the bit. */
#include <math.h>

#include "num/loops.h"

/* The lesser of equals is -0; a NaN gives way to a number.  min(a, b) == min(b, a) to the bit but for NaNs. */
#define ORDER(s, T, U)                                                                             \
	ALWAYS_INLINE T                                                                            \
	both_##s(T a, T b, bool min)                                                               \
	{                                                                                          \
		U x = s##_bits(a), y = s##_bits(b);                                                \
		return s##_of_bits(min ? x | y : x & y);                                           \
	}                                                                                          \
	ALWAYS_INLINE T                                                                            \
	least_##s(T a, T b)                                                                        \
	{                                                                                          \
		T r = a < b ? a : b;                                                               \
		r = a == b ? both_##s(a, b, true) : r;                                             \
		return b != b ? a : r;                                                             \
	}                                                                                          \
	ALWAYS_INLINE T                                                                            \
	greatest_##s(T a, T b)                                                                     \
	{                                                                                          \
		T r = a > b ? a : b;                                                               \
		r = a == b ? both_##s(a, b, false) : r;                                            \
		return b != b ? a : r;                                                             \
	}

ORDER(f32, float, uint32_t)
ORDER(f64, double, uint64_t)

#define BOTH(s, T, f)                                                                              \
	UNARY(neg_##s, T, T, -a)                                                                      \
	UNARY(abs_##s, T, T, fabs##f(a))                                                              \
	UNARY(floor_##s, T, T, floor##f(a))                                                           \
	UNARY(ceil_##s, T, T, ceil##f(a))                                                             \
	UNARY(round_##s, T, T, rint##f(a))                                                            \
	UNARY(trunc_##s, T, T, trunc##f(a))                                                           \
	UNARY(sqrt_##s, T, T, sqrt##f(a))                                                             \
	BINARY(add_##s, T, T, a + b)                                                               \
	BINARY(sub_##s, T, T, a - b)                                                               \
	BINARY(mul_##s, T, T, a *b)                                                                \
	BINARY(div_##s, T, T, a / b)                                                               \
	BINARY(rem_##s, T, T, fmod##f(a, b))                                                       \
	BINARY(min_##s, T, T, least_##s(a, b))                                                     \
	BINARY(max_##s, T, T, greatest_##s(a, b))                                                  \
	BINARY(min_nan_##s, T, T, a != a ? a : b != b ? b : least_##s(a, b))                       \
	BINARY(max_nan_##s, T, T, a != a ? a : b != b ? b : greatest_##s(a, b))                    \
	BINARY(eq_##s, T, uint8_t, a == b)                                                         \
	BINARY(ne_##s, T, uint8_t, a != b)                                                         \
	BINARY(lt_##s, T, uint8_t, a < b)                                                          \
	BINARY(le_##s, T, uint8_t, a <= b)                                                         \
	BINARY(gt_##s, T, uint8_t, a > b)                                                          \
	BINARY(ge_##s, T, uint8_t, a >= b)                                                         \
	static void fma_##s(void *out, const void *const *in, int64_t n)                           \
	{                                                                                          \
		T *o = out;                                                                        \
		const T *x = in[0], *y = in[1], *z = in[2];                                        \
		LOOP for (int64_t i = 0; i < n; i++)                                               \
			o[i] = fma##f(x[i], y[i], z[i]);                                           \
	}

BOTH(f32, float, f)
BOTH(f64, double, )

#define ROW(OPK, f) [OPK] = {f##_f32, f##_f64}

static const LoopFn table[OP_COUNT][2] = {
	ROW(OP_NEG, neg), ROW(OP_ABS, abs), ROW(OP_FLOOR, floor), ROW(OP_CEIL, ceil),
	ROW(OP_ROUND, round), ROW(OP_TRUNC, trunc), ROW(OP_SQRT, sqrt), ROW(OP_ADD, add),
	ROW(OP_SUB, sub), ROW(OP_MUL, mul), ROW(OP_DIV, div), ROW(OP_REM, rem), ROW(OP_MIN, min),
	ROW(OP_MAX, max), ROW(OP_EQ, eq), ROW(OP_NE, ne), ROW(OP_LT, lt), ROW(OP_LE, le),
	ROW(OP_GT, gt), ROW(OP_GE, ge), ROW(OP_FMA, fma),
};

LoopFn
LEVEL(loop_real)(OpKind kind, DType t, bool nan)
{
	bool wide = t == TY_F64;
	if (nan && kind == OP_MIN)
		return wide ? min_nan_f64 : min_nan_f32;
	if (nan && kind == OP_MAX)
		return wide ? max_nan_f64 : max_nan_f32;
	return table[kind][wide];
}

/* Steele, Lea and Flood, "Fast Splittable Pseudorandom Number Generators", 2014: the counter times an odd number, mixed
 * (variant 13 of Stafford's mixers).  Each number is made of its count alone, so that vectors of them are. */
void
LEVEL(loop_perturb)(double *x, int64_t n, double u, uint64_t from)
{
	LOOP for (int64_t i = 0; i < n; i++) {
		uint64_t z = (from + (uint64_t)i) * 0xDA942042E4DD58B5u;
		z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
		z = (z ^ z >> 27) * 0x94D049BB133111EBu;
		z ^= z >> 31;
		x[i] *= 1 + u * ((double)((int64_t)z >> 11) * 0x1p-52);
	}
}
