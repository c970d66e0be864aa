// Mathematical functions: half, float and their vectors, concrete overloads, so that exp(1) and max(half, float) are
// ambiguous as they are in Metal.  A half's function is the float's, rounded.
namespace metal {

enum { MSL_EXP, MSL_EXP2, MSL_EXP10, MSL_LOG, MSL_LOG2, MSL_LOG10, MSL_SIN, MSL_COS, MSL_TAN, MSL_ASIN, MSL_ACOS, MSL_ATAN,
	MSL_SINH, MSL_COSH, MSL_TANH, MSL_ASINH, MSL_ACOSH, MSL_ATANH, MSL_POW, MSL_ATAN2, MSL_FMOD };

#define MSL_VECTOR1(T, name)                                                                                           \
	MSL_PURE T##2 name(T##2 a) { T##2 r; for (int i = 0; i < 2; i++) r[i] = name(a[i]); return r; }                 \
	MSL_PURE T##3 name(T##3 a) { T##3 r; for (int i = 0; i < 3; i++) r[i] = name(a[i]); return r; }                 \
	MSL_PURE T##4 name(T##4 a) { T##4 r; for (int i = 0; i < 4; i++) r[i] = name(a[i]); return r; }
#define MSL_VECTOR2(T, name)                                                                                           \
	MSL_PURE T##2 name(T##2 a, T##2 b) { T##2 r; for (int i = 0; i < 2; i++) r[i] = name(a[i], b[i]); return r; }   \
	MSL_PURE T##3 name(T##3 a, T##3 b) { T##3 r; for (int i = 0; i < 3; i++) r[i] = name(a[i], b[i]); return r; }   \
	MSL_PURE T##4 name(T##4 a, T##4 b) { T##4 r; for (int i = 0; i < 4; i++) r[i] = name(a[i], b[i]); return r; }
#define MSL_VECTOR3(T, name)                                                                                           \
	MSL_PURE T##2 name(T##2 a, T##2 b, T##2 c) { T##2 r; for (int i = 0; i < 2; i++) r[i] = name(a[i], b[i], c[i]); return r; } \
	MSL_PURE T##3 name(T##3 a, T##3 b, T##3 c) { T##3 r; for (int i = 0; i < 3; i++) r[i] = name(a[i], b[i], c[i]); return r; } \
	MSL_PURE T##4 name(T##4 a, T##4 b, T##4 c) { T##4 r; for (int i = 0; i < 4; i++) r[i] = name(a[i], b[i], c[i]); return r; }

// a function of floats by an expression of x, y and z, and the half's by way of it
#define MSL_FLOAT1(name, e)                                                                                            \
	MSL_PURE float name(float x) { return e; }                                                                      \
	MSL_PURE half name(half x) { return half(name(float(x))); }                                                     \
	MSL_VECTOR1(float, name) MSL_VECTOR1(half, name)
#define MSL_FLOAT2(name, e)                                                                                            \
	MSL_PURE float name(float x, float y) { return e; }                                                             \
	MSL_PURE half name(half x, half y) { return half(name(float(x), float(y))); }                                   \
	MSL_VECTOR2(float, name) MSL_VECTOR2(half, name)

#define MSL_LIBRARY(X)                                                                                                 \
	X(exp, msl_math(MSL_EXP, x, 0)) X(exp2, msl_math(MSL_EXP2, x, 0)) X(exp10, msl_math(MSL_EXP10, x, 0))           \
	X(log, msl_math(MSL_LOG, x, 0)) X(log2, msl_math(MSL_LOG2, x, 0)) X(log10, msl_math(MSL_LOG10, x, 0))           \
	X(sin, msl_math(MSL_SIN, x, 0)) X(cos, msl_math(MSL_COS, x, 0)) X(tan, msl_math(MSL_TAN, x, 0))                 \
	X(asin, msl_math(MSL_ASIN, x, 0)) X(acos, msl_math(MSL_ACOS, x, 0)) X(atan, msl_math(MSL_ATAN, x, 0))           \
	X(sinh, msl_math(MSL_SINH, x, 0)) X(cosh, msl_math(MSL_COSH, x, 0)) X(tanh, msl_math(MSL_TANH, x, 0))           \
	X(asinh, msl_math(MSL_ASINH, x, 0)) X(acosh, msl_math(MSL_ACOSH, x, 0)) X(atanh, msl_math(MSL_ATANH, x, 0))     \
	X(sqrt, __builtin_sqrtf(x)) X(rsqrt, 1 / __builtin_sqrtf(x)) X(floor, __builtin_floorf(x))                      \
	X(ceil, __builtin_ceilf(x)) X(trunc, __builtin_truncf(x)) X(rint, __builtin_rintf(x))                           \
	X(round, __builtin_roundf(x)) X(fract, __builtin_fminf(x - __builtin_floorf(x), 0x1.fffffep-1f))                \
	X(sinpi, msl_math(MSL_SIN, 3.14159265358979323846f * x, 0)) X(cospi, msl_math(MSL_COS, 3.14159265358979323846f * x, 0))
#define MSL_LIBRARY2(X)                                                                                                \
	X(pow, msl_math(MSL_POW, x, y)) X(powr, msl_math(MSL_POW, x, y)) X(atan2, msl_math(MSL_ATAN2, x, y))            \
	X(fmod, msl_math(MSL_FMOD, x, y))                                                                               \
	X(fmin, x != x ? y : y != y ? x : y < x ? y : x) X(fmax, x != x ? y : y != y ? x : x < y ? y : x)

MSL_LIBRARY(MSL_FLOAT1)
MSL_LIBRARY2(MSL_FLOAT2)
MSL_FLOAT1(fabs, __builtin_fabsf(x))
MSL_FLOAT2(copysign, __builtin_copysignf(x, y))
MSL_FLOAT2(step, y < x ? 0.0f : 1.0f)
MSL_FLOAT1(sign, x > 0 ? 1.0f : x < 0 ? -1.0f : x == x ? x : 0.0f)
MSL_FLOAT1(saturate, x != x ? 0.0f : x < 0 ? 0.0f : x > 1 ? 1.0f : x)

namespace fast {
#define MSL_ONLY1(name, e) MSL_PURE float name(float x) { return e; } MSL_VECTOR1(float, name)
#define MSL_ONLY2(name, e) MSL_PURE float name(float x, float y) { return e; } MSL_VECTOR2(float, name)
MSL_LIBRARY(MSL_ONLY1)
MSL_LIBRARY2(MSL_ONLY2)
MSL_ONLY2(divide, x / y)
} // namespace fast
namespace precise {
MSL_LIBRARY(MSL_ONLY1)
MSL_LIBRARY2(MSL_ONLY2)
MSL_ONLY2(divide, x / y)
} // namespace precise

MSL_PURE float fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
MSL_PURE half fma(half a, half b, half c) { return half(__builtin_fmaf(float(a), float(b), float(c))); }
MSL_VECTOR3(float, fma) MSL_VECTOR3(half, fma)
MSL_PURE float mix(float x, float y, float a) { return x + (y - x) * a; }
MSL_PURE half mix(half x, half y, half a) { return x + (y - x) * a; }
MSL_VECTOR3(float, mix) MSL_VECTOR3(half, mix)
MSL_PURE float ldexp(float x, int n) { return __builtin_ldexpf(x, n); }
MSL_PURE half ldexp(half x, int n) { return half(__builtin_ldexpf(float(x), n)); }

#define MSL_TEST(T, bits, magnitude, most)                                                                             \
	MSL_PURE bool isnan(T x) { return (as_type<bits>(x) & magnitude) > most; }                                      \
	MSL_PURE bool isinf(T x) { return (as_type<bits>(x) & magnitude) == most; }                                     \
	MSL_PURE bool isfinite(T x) { return (as_type<bits>(x) & magnitude) < most; }                                   \
	MSL_PURE bool signbit(T x) { return (as_type<bits>(x) & ~magnitude) != 0; }
#define MSL_UNORDERED(T)                                                                                               \
	MSL_PURE bool isunordered(T a, T b) { return isnan(a) || isnan(b); }                                            \
	MSL_PURE bool isordered(T a, T b) { return !isunordered(a, b); }
MSL_TEST(float, uint, 0x7fffffffu, 0x7f800000u)
MSL_TEST(half, ushort, ushort(0x7fff), ushort(0x7c00))
MSL_UNORDERED(float) MSL_UNORDERED(half)

// of every type: min, max, clamp and abs; a NaN loses to a number
#define MSL_ORDER(T)                                                                                                   \
	MSL_PURE T min(T a, T b) { return b < a || a != a ? b : a; }                                                    \
	MSL_PURE T max(T a, T b) { return a < b || a != a ? b : a; }                                                    \
	MSL_PURE T clamp(T x, T lo, T hi) { return min(max(x, lo), hi); }                                               \
	MSL_VECTOR2(T, min) MSL_VECTOR2(T, max) MSL_VECTOR3(T, clamp)
MSL_ORDER(char) MSL_ORDER(uchar) MSL_ORDER(short) MSL_ORDER(ushort) MSL_ORDER(int) MSL_ORDER(uint) MSL_ORDER(long)
MSL_ORDER(ulong) MSL_ORDER(half) MSL_ORDER(float)

// vectors beside a scalar
#define MSL_SCALAR(T, N)                                                                                               \
	MSL_PURE T##N min(T##N a, T b) { return min(a, msl_make<T, N>(b)); }                                            \
	MSL_PURE T##N max(T##N a, T b) { return max(a, msl_make<T, N>(b)); }                                            \
	MSL_PURE T##N clamp(T##N x, T lo, T hi) { return clamp(x, msl_make<T, N>(lo), msl_make<T, N>(hi)); }
MSL_SCALAR(float, 2) MSL_SCALAR(float, 3) MSL_SCALAR(float, 4) MSL_SCALAR(half, 2) MSL_SCALAR(half, 3) MSL_SCALAR(half, 4)

#define MSL_ABS(T, U) MSL_PURE T abs(T x) { return x < 0 ? T(-U(x)) : x; }
MSL_ABS(char, uchar) MSL_ABS(short, ushort) MSL_ABS(int, uint) MSL_ABS(long, ulong)
MSL_PURE float abs(float x) { return __builtin_fabsf(x); }
MSL_PURE half abs(half x) { return half(__builtin_fabsf(float(x))); }
MSL_VECTOR1(float, abs) MSL_VECTOR1(half, abs) MSL_VECTOR1(int, abs)

// integers
typedef __int128 msl_wide;
typedef unsigned __int128 msl_uwide;
#define MSL_INTEGER(T, U, WIDE, bits)                                                                                  \
	MSL_PURE T mulhi(T a, T b) { return T(WIDE(a) * WIDE(b) >> bits); }                                             \
	MSL_PURE T popcount(T x) { return T(__builtin_popcountl(ulong(U(x)))); }                                        \
	MSL_PURE T clz(T x) { return x ? T(__builtin_clzl(ulong(U(x))) - (64 - bits)) : T(bits); }                      \
	MSL_PURE T ctz(T x) { return x ? T(__builtin_ctzl(ulong(U(x)))) : T(bits); }                                    \
	MSL_PURE T rotate(T x, T n) { U s = U(n) & (bits - 1); return s ? T(U(U(x) << s) | U(x) >> (bits - s)) : x; }   \
	MSL_PURE T madhi(T a, T b, T c) { return T(U(mulhi(a, b)) + U(c)); }                                            \
	MSL_PURE T reverse_bits(T x) { U r = 0; for (int i = 0; i < bits; i++) r |= U(U(x) >> i & 1) << (bits - 1 - i); return T(r); } \
	MSL_PURE U absdiff(T a, T b) { return a < b ? U(U(b) - U(a)) : U(U(a) - U(b)); }                                \
	MSL_PURE T extract_bits(T x, uint at, uint n) { return n ? T(T(U(x) << (bits - at - n)) >> (bits - n)) : T(0); }
MSL_INTEGER(char, uchar, int, 8) MSL_INTEGER(uchar, uchar, uint, 8) MSL_INTEGER(short, ushort, int, 16)
MSL_INTEGER(ushort, ushort, uint, 16) MSL_INTEGER(int, uint, long, 32) MSL_INTEGER(uint, uint, ulong, 32)
MSL_INTEGER(long, ulong, msl_wide, 64) MSL_INTEGER(ulong, ulong, msl_uwide, 64)
MSL_VECTOR1(uint, popcount) MSL_VECTOR1(int, popcount) MSL_VECTOR1(uint, clz) MSL_VECTOR1(int, clz)
MSL_VECTOR2(uint, mulhi) MSL_VECTOR2(int, mulhi)

#define MSL_SATURATE(T, WIDE, least, most)                                                                             \
	MSL_PURE T addsat(T a, T b) { WIDE r = WIDE(a) + WIDE(b); return r < least ? T(least) : r > most ? T(most) : T(r); } \
	MSL_PURE T subsat(T a, T b) { WIDE r = WIDE(a) - WIDE(b); return r < least ? T(least) : r > most ? T(most) : T(r); }
MSL_SATURATE(char, int, -128, 127) MSL_SATURATE(uchar, int, 0, 255) MSL_SATURATE(short, int, -32768, 32767)
MSL_SATURATE(ushort, int, 0, 65535) MSL_SATURATE(int, long, INT_MIN, INT_MAX) MSL_SATURATE(uint, long, 0, 4294967295l)

template <class T>
MSL_PURE T
select(T a, T b, bool c)
{
	return c ? b : a;
}

// geometry
#define MSL_DOT(T, N) MSL_PURE T dot(T##N a, T##N b) { T r = a[0] * b[0]; for (int i = 1; i < N; i++) r += a[i] * b[i]; return r; }
MSL_DOT(float, 2) MSL_DOT(float, 3) MSL_DOT(float, 4) MSL_DOT(half, 2) MSL_DOT(half, 3) MSL_DOT(half, 4)
MSL_PURE float length(float2 v) { return sqrt(dot(v, v)); }
MSL_PURE float length(float3 v) { return sqrt(dot(v, v)); }
MSL_PURE float length(float4 v) { return sqrt(dot(v, v)); }

} // namespace metal
