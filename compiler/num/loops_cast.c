/* Casts.  Among bool, integers, f32 and f64 there is a loop for each pair: integers wrap into narrower ones,
 * floats truncate and saturate into integers with NaN as 0, floats round to nearest even.
 *
 * Narrow floats (f16, bf16, f8e4m3, f8e5m2, f4e2m1) come from and go to f32; widening is exact.  Narrowing
 * rounds the magnitude's bits as an integer, since the formats are alike but for the widths of their fields;
 * below the least normal number an addition of a suitable power of two rounds instead.  f16 and bf16 overflow
 * to infinity; f8 and f4 saturate, infinity too; NaN stays NaN, which in f4 has none and becomes its greatest.
 *
 * f64 and wide integers must not round twice on the way: they round to the target's precision within f64
 * (round_to), after which f32 holds them exactly; 64-bit integers first round to odd, which keeps what a second
 * rounding has to know. */
#include <math.h>

#include "num/loops.h"

#if defined(__F16C__)
#include <immintrin.h>
#endif

/* ---- narrow floats to f32 ---- */

/* The fields moved to where f32 has them, then scaled to make up for the bias; subnormals come out right. */
ALWAYS_INLINE float
widen_bits(uint32_t magnitude, uint32_t sign, int mantissa, int bias, uint32_t special)
{
	float x = f32_of_bits(magnitude << (23 - mantissa)) * f32_of_bits((uint32_t)(254 - bias) << 23);
	uint32_t u = f32_bits(x);
	u = magnitude >= special ? u | 0x7f800000 : u;
	return f32_of_bits(u | sign);
}

#define WIDEN(name, T, expr)                                                                       \
	static void name(const void *in, float *out, int64_t n)                                    \
	{                                                                                          \
		const T *x = in;                                                                   \
		LOOP for (int64_t i = 0; i < n; i++) {                                             \
			uint32_t h = x[i];                                                         \
			out[i] = (expr);                                                           \
		}                                                                                  \
	}

ALWAYS_INLINE float
widen_e4m3(uint32_t h)
{
	float x = widen_bits(h & 0x7f, (h & 0x80) << 24, 3, 7, 0xff);
	return (h & 0x7f) == 0x7f ? NAN : x;
}

WIDEN(widen_f16, uint16_t, widen_bits(h & 0x7fff, (h & 0x8000) << 16, 10, 15, 0x7c00))
WIDEN(widen_bf16, uint16_t, f32_of_bits(h << 16))
WIDEN(widen_f8e4m3, uint8_t, widen_e4m3(h))
WIDEN(widen_f8e5m2, uint8_t, widen_bits(h & 0x7f, (h & 0x80) << 24, 2, 15, 0x7c))
WIDEN(widen_f4e2m1, uint8_t, widen_bits(h & 7, (h & 8) << 28, 1, 1, 0xff))

/* ---- f32 to narrow floats ---- */

/* The magnitude of x, of f32's bits u, in a format of `mantissa` bits and `bias`, at most `most`. */
ALWAYS_INLINE uint32_t
narrow_bits(uint32_t u, int mantissa, int bias, uint32_t most, uint32_t nan)
{
	int cut = 23 - mantissa;
	uint32_t normal = u + ((1u << (cut - 1)) - 1) + ((u >> cut) & 1);
	normal = (normal >> cut) - ((uint32_t)(127 - bias) << mantissa);
	/* a unit in the last place of this power of two is the format's least number */
	uint32_t power = (uint32_t)(127 + (1 - bias - mantissa) + 23) << 23;
	uint32_t small = f32_bits(f32_of_bits(u) + f32_of_bits(power)) - power;
	/* choices by masks: compilers would make branches of ?: here, and no vectors */
	uint32_t is_small = 0 - (uint32_t)(u < (uint32_t)(128 - bias) << 23);
	uint32_t is_nan = 0 - (uint32_t)(u > 0x7f800000);
	uint32_t r = (small & is_small) | (normal & ~is_small);
	r = r > most ? most : r;
	return (nan & is_nan) | (r & ~is_nan);
}

#define NARROW(name, T, expr)                                                                      \
	static void name(const float *in, void *out, int64_t n)                                    \
	{                                                                                          \
		T *o = out;                                                                        \
		LOOP for (int64_t i = 0; i < n; i++) {                                             \
			uint32_t v = f32_bits(in[i]), u = v & 0x7fffffff;                           \
			o[i] = (T)(expr);                                                          \
		}                                                                                  \
	}

/* bf16 has f32's exponents: no subnormals of its own. */
ALWAYS_INLINE uint32_t
narrow_bf16_bits(uint32_t v, uint32_t u)
{
	uint32_t r = (v + 0x7fff + ((v >> 16) & 1)) >> 16;
	return u > 0x7f800000 ? (v >> 16) | 0x40 : r;
}

NARROW(narrow_f16, uint16_t, narrow_bits(u, 10, 15, 0x7c00, 0x7e00) | (v >> 16 & 0x8000))
NARROW(narrow_bf16, uint16_t, narrow_bf16_bits(v, u))
NARROW(narrow_f8e4m3, uint8_t, narrow_bits(u, 3, 7, 0x7e, 0x7f) | (v >> 24 & 0x80))
NARROW(narrow_f8e5m2, uint8_t, narrow_bits(u, 2, 15, 0x7b, 0x7f) | (v >> 24 & 0x80))
/* Of what the type has: infinity is no overflow. */
NARROW(keep_f8e5m2, uint8_t, (u == 0x7f800000 ? 0x7c : narrow_bits(u, 2, 15, 0x7b, 0x7f)) | (v >> 24 & 0x80))
NARROW(narrow_f4e2m1, uint8_t, narrow_bits(u, 1, 1, 7, 7) | (u > 0x7f800000 ? 0 : v >> 28 & 8))

#if defined(__F16C__)
static void
widen_f16_fast(const void *in, float *out, int64_t n)
{
	const uint16_t *x = in;
	int64_t i = 0;
	for (; i + 8 <= n; i += 8)
		_mm256_storeu_ps(out + i, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(x + i))));
	widen_f16(x + i, out + i, n - i);
}

static void
narrow_f16_fast(const float *in, void *out, int64_t n)
{
	uint16_t *o = out;
	int64_t i = 0;
	for (; i + 8 <= n; i += 8)
		_mm_storeu_si128((__m128i *)(o + i), _mm256_cvtps_ph(_mm256_loadu_ps(in + i), 0));
	narrow_f16(in + i, o + i, n - i);
}
#else
#define widen_f16_fast widen_f16
#define narrow_f16_fast narrow_f16
#endif

/* ---- f64 to f32 that a narrow type holds ---- */

/* x to `bits` bits of precision, or to a multiple of 2^(least - bits + 1) where x is below 2^least.  Adding
 * and taking away 1.5 * 2^52 units rounds to the unit. */
ALWAYS_INLINE double
round_f64(double x, int bits, int least)
{
	uint64_t e = f64_bits(x) >> 52 & 2047, low = (uint64_t)(1023 + least), high = 1023 + 300;
	e = e < low ? low : e > high ? high : e;
	double magic = f64_of_bits((e - (uint64_t)(bits - 1) + 52) << 52 | 1ull << 51);
	return copysign((x + magic) - magic, x);
}

#define ROUND_TO(name, bits, least) UNARY(name, double, float, round_f64(a, bits, least))

ROUND_TO(round_f16, 11, -14)
ROUND_TO(round_bf16, 8, -126)
ROUND_TO(round_f8e4m3, 4, -6)
ROUND_TO(round_f8e5m2, 3, -14)
ROUND_TO(round_f4e2m1, 2, 0)

static const struct {
	ToF32Fn widen;
	FromF32Fn narrow, keep;
	LoopFn round;
} narrow_floats[DTYPE_COUNT] = {
	[TY_F16] = {widen_f16_fast, narrow_f16_fast, narrow_f16_fast, round_f16},
	[TY_BF16] = {widen_bf16, narrow_bf16, narrow_bf16, round_bf16},
	[TY_F8E4M3] = {widen_f8e4m3, narrow_f8e4m3, narrow_f8e4m3, round_f8e4m3},
	[TY_F8E5M2] = {widen_f8e5m2, narrow_f8e5m2, keep_f8e5m2, round_f8e5m2},
	[TY_F4E2M1] = {widen_f4e2m1, narrow_f4e2m1, narrow_f4e2m1, round_f4e2m1},
};

ToF32Fn
LEVEL(loop_widen)(DType t)
{
	return narrow_floats[t].widen;
}

FromF32Fn
LEVEL(loop_narrow)(DType t, bool keeps_inf)
{
	return keeps_inf ? narrow_floats[t].keep : narrow_floats[t].narrow;
}

LoopFn
LEVEL(loop_round_to)(DType to)
{
	return narrow_floats[to].round;
}

/* ---- among bool, integers, f32, f64 ---- */

/* To integers of low .. high (high + 1 is exact in T).  I is a wide enough integer to pass through. */
#define SATURATE(name, T, R, I, low, high, end)                                                    \
	ALWAYS_INLINE R name##_one(T a)                                                            \
	{                                                                                          \
		bool over = a >= (end), under = a < (low);                                         \
		I r = (I)(over || under || a != a ? 0 : a);                                        \
		r = over ? (high) : r;                                                             \
		return (R)(under ? (low) : r);                                                     \
	}                                                                                          \
	UNARY(name, T, R, name##_one(a))

#define FROM_FLOAT(s, T, ...)                                                                      \
	UNARY(s##_bool, T, uint8_t, a != 0)                                                      \
	SATURATE(s##_i8, T, int8_t, int32_t, INT8_MIN, INT8_MAX, 128)                              \
	SATURATE(s##_i16, T, int16_t, int32_t, INT16_MIN, INT16_MAX, 32768)                        \
	SATURATE(s##_i32, T, int32_t, int32_t, INT32_MIN, INT32_MAX, 0x1p31f)                      \
	SATURATE(s##_i64, T, int64_t, int64_t, INT64_MIN, INT64_MAX, 0x1p63f)                      \
	SATURATE(s##_u8, T, uint8_t, int32_t, 0, UINT8_MAX, 256)                                   \
	SATURATE(s##_u16, T, uint16_t, int32_t, 0, UINT16_MAX, 65536)                              \
	SATURATE(s##_u32, T, uint32_t, int64_t, 0, UINT32_MAX, 0x1p32f)                            \
	SATURATE(s##_u64, T, uint64_t, uint64_t, 0, UINT64_MAX, 0x1p64f)                           \
	SATURATE(s##_i4, T, int8_t, int32_t, -8, 7, 8)                                             \
	SATURATE(s##_u4, T, uint8_t, int32_t, 0, 15, 16)

/* Between integers the width and the target's sign decide; the source's sign only when it widens. */
#define FROM_INT(s, T, ...)                                                                        \
	UNARY(s##_bool, T, uint8_t, a != 0)                                                      \
	UNARY(s##_8, T, uint8_t, a)                                                              \
	UNARY(s##_16, T, uint16_t, a)                                                            \
	UNARY(s##_32, T, uint32_t, a)                                                            \
	UNARY(s##_64, T, uint64_t, a)                                                            \
	UNARY(s##_u4, T, uint8_t, a & 15)                                                        \
	UNARY(s##_i4, T, int8_t, (int)((a & 15) ^ 8) - 8)                                        \
	UNARY(s##_f32, T, float, a)                                                              \
	UNARY(s##_f64, T, double, a)

FLOATS(FROM_FLOAT)
UNARY(f32_f32, float, float, a)
UNARY(f32_f64, float, double, a)
UNARY(f64_f32, double, float, a)
UNARY(f64_f64, double, double, a)
INTEGERS(FROM_INT)

#define FLOAT_ROW(s)                                                                               \
	{                                                                                          \
		[TY_BOOL] = s##_bool, [TY_I8] = s##_i8, [TY_I16] = s##_i16, [TY_I32] = s##_i32,    \
		[TY_I64] = s##_i64, [TY_U8] = s##_u8, [TY_U16] = s##_u16, [TY_U32] = s##_u32,      \
		[TY_U64] = s##_u64, [TY_F32] = s##_f32, [TY_F64] = s##_f64, [TY_I4] = s##_i4,      \
		[TY_U4] = s##_u4                                                                   \
	}
#define INT_ROW(s)                                                                                 \
	{                                                                                          \
		[TY_BOOL] = s##_bool, [TY_I8] = s##_8, [TY_I16] = s##_16, [TY_I32] = s##_32,       \
		[TY_I64] = s##_64, [TY_U8] = s##_8, [TY_U16] = s##_16, [TY_U32] = s##_32,          \
		[TY_U64] = s##_64, [TY_F32] = s##_f32, [TY_F64] = s##_f64, [TY_I4] = s##_i4,       \
		[TY_U4] = s##_u4                                                                   \
	}

static const LoopFn table[DTYPE_COUNT][DTYPE_COUNT] = {
	[TY_BOOL] = INT_ROW(u8), [TY_I8] = INT_ROW(i8), [TY_I16] = INT_ROW(i16), [TY_I32] = INT_ROW(i32),
	[TY_I64] = INT_ROW(i64), [TY_U8] = INT_ROW(u8), [TY_U16] = INT_ROW(u16), [TY_U32] = INT_ROW(u32),
	[TY_U64] = INT_ROW(u64), [TY_F32] = FLOAT_ROW(f32), [TY_F64] = FLOAT_ROW(f64),
	[TY_I4] = INT_ROW(i8), [TY_U4] = INT_ROW(u8),
};

LoopFn
LEVEL(loop_cast)(DType from, DType to)
{
	return table[from][to];
}

/* Magnitudes of more than 53 bits lose eleven, of which the last kept bit remembers whether any was set. */
ALWAYS_INLINE uint64_t
to_odd(uint64_t a)
{
	return a >> 53 ? (a & ~(uint64_t)2047) | (uint64_t)((a & 2047) != 0) << 11 : a;
}

UNARY(sticky_u64, uint64_t, double, to_odd(a))
UNARY(sticky_i64, int64_t, double, a < 0 ? -(double)to_odd(0 - (uint64_t)a) : (double)to_odd((uint64_t)a))

LoopFn
LEVEL(loop_sticky)(DType from)
{
	return from == TY_I64 ? sticky_i64 : from == TY_U64 ? sticky_u64 : table[from][TY_F64];
}

/* Ten bits of mantissa, halves away from zero, as the hardware's conversion rounds. */
void
LEVEL(loop_tf32)(float *x, int64_t n)
{
	for (int64_t i = 0; i < n; i++) {
		uint32_t u = f32_bits(x[i]);
		x[i] = (u & 0x7f800000) == 0x7f800000 ? x[i] : f32_of_bits((u + 0x1000) & ~0x1fffu);
	}
}
