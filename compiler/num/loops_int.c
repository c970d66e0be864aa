/* Integer and bool elementwise loops.  Arithmetic wraps: it is done in an unsigned type of 32 or 64 bits and
 * cut back.  Division by zero gives 0 and the remainder gives the dividend; the least integer over -1 wraps.
 * Quotients of 32 bits and fewer go through f64, which is exact there and, unlike integer division, is a
 * vector operation: a/b comes no nearer to an integer that it is not than 1/b. */
#include "num/loops.h"

__extension__ typedef unsigned __int128 uint128;

/* What does not depend on the sign.  W is unsigned and at least as wide as an int. */
#define ANY_SIGN(s, U, W, bits)                                                                    \
	UNARY(neg_##s, U, U, (W)0 - (W)a)                                                             \
	UNARY(not_##s, U, U, ~(W)a)                                                                   \
	UNARY(popcount_##s, U, U, __builtin_popcountll(a))                                            \
	UNARY(clz_##s, U, U, a ? __builtin_clzll(a) - (64 - (bits)) : (bits))                         \
	BINARY(add_##s, U, U, (W)a + (W)b)                                                         \
	BINARY(sub_##s, U, U, (W)a - (W)b)                                                         \
	BINARY(mul_##s, U, U, (W)a *(W)b)                                                          \
	BINARY(and_##s, U, U, a & b)                                                               \
	BINARY(or_##s, U, U, a | b)                                                                \
	BINARY(xor_##s, U, U, a ^ b)                                                               \
	BINARY(shl_##s, U, U, b < (bits) ? (W)a << (b & ((bits) - 1)) : 0)                         \
	BINARY(eq_##s, U, uint8_t, a == b)                                                         \
	BINARY(ne_##s, U, uint8_t, a != b)

UNSIGNED(ANY_SIGN)
BINARY(umulhi_u8, uint8_t, uint8_t, ((uint32_t)a * b) >> 8)
BINARY(umulhi_u16, uint16_t, uint16_t, ((uint32_t)a * b) >> 16)
BINARY(umulhi_u32, uint32_t, uint32_t, ((uint64_t)a * b) >> 32)
BINARY(umulhi_u64, uint64_t, uint64_t, ((uint128)a * b) >> 64)

/* Quotients towards zero. */
#define SMALL_SIGNED_DIV(s, T)                                                                     \
	ALWAYS_INLINE T                                                                            \
	quotient_##s(T a, T b)                                                                     \
	{                                                                                          \
		bool plain = b != 0 && b != -1;                                                    \
		int32_t q = (int32_t)((double)a / (double)(plain ? b : 1));                        \
		return (T)(plain ? (uint32_t)q : b ? 0u - (uint32_t)a : 0u);                       \
	}
#define SMALL_UNSIGNED_DIV(s, T)                                                                   \
	ALWAYS_INLINE T                                                                            \
	quotient_##s(T a, T b)                                                                     \
	{                                                                                          \
		T q = (T)((double)a / (double)(b ? b : 1));                                        \
		return b ? q : 0;                                                                  \
	}

SMALL_SIGNED_DIV(i8, int8_t)
SMALL_SIGNED_DIV(i16, int16_t)
SMALL_SIGNED_DIV(i32, int32_t)
SMALL_UNSIGNED_DIV(u8, uint8_t)
SMALL_UNSIGNED_DIV(u16, uint16_t)
SMALL_UNSIGNED_DIV(u32, uint32_t)

/* Most quotients of 64 bits are of small numbers, which a narrow division does several times faster. */
ALWAYS_INLINE uint64_t
quotient_u64(uint64_t a, uint64_t b)
{
	if (((a | b) >> 32) == 0)
		return b ? (uint32_t)a / (uint32_t)b : 0;
	return b ? a / b : 0;
}

ALWAYS_INLINE int64_t
quotient_i64(int64_t a, int64_t b)
{
	if ((((uint64_t)a | (uint64_t)b) >> 32) == 0)
		return b ? (uint32_t)a / (uint32_t)b : 0;
	if (b == -1)
		return (int64_t)(0 - (uint64_t)a);
	return b ? a / b : 0;
}

/* A remainder of a sign other than the divisor's means that the true quotient is below q. */
#define SIGNED_ROUNDED(s, T, W)                                                                    \
	ALWAYS_INLINE T                                                                            \
	floor_##s(T a, T b)                                                                        \
	{                                                                                          \
		T q = quotient_##s(a, b), r = (T)((W)a - (W)q * (W)b);                             \
		return (T)((W)q - (W)(b != 0 && r != 0 && (r < 0) != (b < 0)));                    \
	}                                                                                          \
	ALWAYS_INLINE T                                                                            \
	ceil_##s(T a, T b)                                                                         \
	{                                                                                          \
		T q = quotient_##s(a, b), r = (T)((W)a - (W)q * (W)b);                             \
		return (T)((W)q + (W)(b != 0 && r != 0 && (r < 0) == (b < 0)));                    \
	}
#define UNSIGNED_ROUNDED(s, T, W)                                                                  \
	ALWAYS_INLINE T                                                                            \
	floor_##s(T a, T b)                                                                        \
	{                                                                                          \
		return quotient_##s(a, b);                                                         \
	}                                                                                          \
	ALWAYS_INLINE T                                                                            \
	ceil_##s(T a, T b)                                                                         \
	{                                                                                          \
		T q = quotient_##s(a, b);                                                          \
		return (T)((W)q + (W)(b != 0 && (W)q * (W)b != (W)a));                             \
	}
#define DIVISIONS(s, T, W)                                                                         \
	BINARY(div_##s, T, T, quotient_##s(a, b))                                                  \
	BINARY(rem_##s, T, T, (W)a - (W)quotient_##s(a, b) * (W)b)                                 \
	BINARY(floordiv_##s, T, T, floor_##s(a, b))                                                \
	BINARY(cdiv_##s, T, T, ceil_##s(a, b))

#define ORDERED(s, T)                                                                              \
	BINARY(min_##s, T, T, a < b ? a : b)                                                       \
	BINARY(max_##s, T, T, a > b ? a : b)                                                       \
	BINARY(lt_##s, T, uint8_t, a < b)                                                          \
	BINARY(le_##s, T, uint8_t, a <= b)                                                         \
	BINARY(gt_##s, T, uint8_t, a > b)                                                          \
	BINARY(ge_##s, T, uint8_t, a >= b)

#define EACH_SIGN(s, u, S, U, W, bits)                                                               \
	SIGNED_ROUNDED(s, S, W)                                                                    \
	UNSIGNED_ROUNDED(u, U, W)                                                                  \
	DIVISIONS(s, S, W)                                                                         \
	DIVISIONS(u, U, W)                                                                         \
	ORDERED(s, S)                                                                              \
	ORDERED(u, U)                                                                              \
	UNARY(abs_##s, S, S, a < 0 ? (W)0 - (W)a : (W)a)                                              \
	BINARY(shr_##s, S, S, a >> ((U)b < (bits) ? b : (bits) - 1))                               \
	BINARY(shr_##u, U, U, b < (bits) ? a >> (b & ((bits) - 1)) : 0)

EACH_SIGN(i8, u8, int8_t, uint8_t, uint32_t, 8)
EACH_SIGN(i16, u16, int16_t, uint16_t, uint32_t, 16)
EACH_SIGN(i32, u32, int32_t, uint32_t, uint32_t, 32)
EACH_SIGN(i64, u64, int64_t, uint64_t, uint64_t, 64)

/* The magnitude of an unsigned number; bool: 0 or 1 in a byte; sums are "or", products "and", the rest as for u8 */
UNARY(not_bool, uint8_t, uint8_t, !a)
#define SAME(s, T, ...) UNARY(same_##s, T, T, a)
UNSIGNED(SAME)

#define SAME_ROW(OPK, f) [OPK] = {BY_WIDTH(SELF, f)}
#define SIGN_ROW(OPK, f) [OPK] = {BY_SIGN(SELF, f)}

static const LoopFn table[OP_COUNT][DTYPE_COUNT] = {
	SAME_ROW(OP_NEG, neg), SAME_ROW(OP_NOT, not), SAME_ROW(OP_POPCOUNT, popcount),
	SAME_ROW(OP_CLZ, clz), SAME_ROW(OP_ADD, add), SAME_ROW(OP_SUB, sub), SAME_ROW(OP_MUL, mul),
	SAME_ROW(OP_AND, and), SAME_ROW(OP_OR, or), SAME_ROW(OP_XOR, xor), SAME_ROW(OP_SHL, shl),
	SAME_ROW(OP_UMULHI, umulhi), SAME_ROW(OP_EQ, eq), SAME_ROW(OP_NE, ne), SIGN_ROW(OP_DIV, div),
	SIGN_ROW(OP_REM, rem), SIGN_ROW(OP_FLOORDIV, floordiv), SIGN_ROW(OP_CDIV, cdiv),
	SIGN_ROW(OP_SHR, shr), SIGN_ROW(OP_MIN, min), SIGN_ROW(OP_MAX, max), SIGN_ROW(OP_LT, lt),
	SIGN_ROW(OP_LE, le), SIGN_ROW(OP_GT, gt), SIGN_ROW(OP_GE, ge),
	[OP_ABS] = {[TY_BOOL] = same_u8, [TY_I8] = abs_i8, [TY_I16] = abs_i16, [TY_I32] = abs_i32,
	    [TY_I64] = abs_i64, [TY_U8] = same_u8, [TY_U16] = same_u16, [TY_U32] = same_u32,
	    [TY_U64] = same_u64},
};

LoopFn
LEVEL(loop_integer)(OpKind kind, DType t)
{
	if (t == TY_BOOL) {
		if (kind == OP_NOT)
			return not_bool;
		if (kind == OP_NEG)
			return same_u8;
		kind = kind == OP_ADD ? OP_OR : kind == OP_MUL ? OP_AND : kind == OP_SUB ? OP_XOR : kind;
	}
	return table[kind][t];
}

#define PICK(name, T)                                                                              \
	static void name(void *out, const void *const *in, int64_t n)                              \
	{                                                                                          \
		T *o = out;                                                                        \
		const uint8_t *c = in[0];                                                          \
		const T *x = in[1], *y = in[2];                                                    \
		LOOP for (int64_t i = 0; i < n; i++) {                                             \
			T a = x[i], b = y[i];                                                      \
			o[i] = c[i] ? a : b;                                                       \
		}                                                                                  \
	}
PICK(select_8, uint8_t)
PICK(select_16, uint16_t)
PICK(select_32, uint32_t)
PICK(select_64, uint64_t)

LoopFn
LEVEL(loop_select)(int size)
{
	return size == 1 ? select_8 : size == 2 ? select_16 : size == 4 ? select_32 : select_64;
}
