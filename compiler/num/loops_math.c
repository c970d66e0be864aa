/* Mathematical functions.  Those of f64 are libm's.  Those of f32 are computed in f64 by short branch-free
 * polynomials with relative errors of 2^-31 and less, which compilers turn into vector code, and rounded
 * once: the result is the nearest f32 but for rare cases near the middle of two (exp and exp2 apart).  No fused
 * multiply-add is used, so each level of CPU gives the same bits.
 *
 * The polynomials were fitted for least relative error by tests/data/fit.py. */
#include <math.h>
#include <string.h>

#include "num/loops.h"

#define MAGIC 0x1.8p52                                  /* x + MAGIC rounds x to a whole number */

/* e^r - 1 for |r| <= ln2 / 2 */
ALWAYS_INLINE double
exp_poly(double r)
{
	double q = 0x1.a04a429a3a2adp-13;
	q = q * r + 0x1.6d729f59453c6p-10;
	q = q * r + 0x1.111178751ba2fp-7;
	q = q * r + 0x1.5554b040c39eap-5;
	q = q * r + 0x1.555554faef944p-3;
	q = q * r + 0x1.00000026888d5p-1;
	return r + r * r * q;
}

/* 2^k for k = t - MAGIC */
ALWAYS_INLINE double
power_of_two(double t)
{
	return f64_of_bits((f64_bits(t) << 52) + 0x3ff0000000000000u);
}

/* Beyond this, e^x and 2^x are 0 or infinite in f32.  A NaN comes through. */
ALWAYS_INLINE double
clamp_200(double x)
{
	x = x > 200 ? 200 : x;
	return x < -200 ? -200 : x;
}

/* Splits x = k ln2 + r with |r| <= ln2 / 2; gives 2^k and e^r - 1. */
ALWAYS_INLINE double
exp_parts(double x, double *scale)
{
	x = clamp_200(x);
	double t = x * 0x1.71547652b82fep+0 + MAGIC;
	*scale = power_of_two(t);
	return exp_poly(x - (t - MAGIC) * 0x1.62e42fefa39efp-1);
}

ALWAYS_INLINE double
exp_of(double x)
{
	double scale, p = exp_parts(x, &scale);
	return scale + scale * p;
}

ALWAYS_INLINE double
expm1_of(double x)
{
	double scale, p = exp_parts(x, &scale);
	return (scale - 1) + scale * p;
}

/* The two most used in kernels are computed in f32, twice as fast, to within one unit in the last place:
 * e^r 2^k for |r| <= ln2 / 2, where t = k + 1.5 * 2^23.  2^k goes in two steps, as either end of f32 needs. */
ALWAYS_INLINE float
exp_f32_parts(float r, float t)
{
	float q = 0x1.6a22cep-10f;
	q = q * r + 0x1.123a76p-7f;
	q = q * r + 0x1.5558f6p-5f;
	q = q * r + 0x1.555490p-3f;
	q = q * r + 0x1.fffffcp-2f;
	float p = 1 + (r + r * r * q);
	int32_t k = (int32_t)(f32_bits(t) - 0x4b400000), half = k >> 1;
	return p * f32_of_bits((uint32_t)(half + 127) << 23) * f32_of_bits((uint32_t)(k - half + 127) << 23);
}

ALWAYS_INLINE float
exp_f(float x)
{
	x = x > 89 ? 89 : x;
	x = x < -104 ? -104 : x;
	float t = x * 0x1.715476p+0f + 0x1.8p23f, k = t - 0x1.8p23f;
	/* the first part of ln2 has few bits: its product with k is exact */
	return exp_f32_parts((x - k * 0x1.62e4p-1f) - k * 0x1.7f7d1cp-20f, t);
}

ALWAYS_INLINE float
exp2_f(float x)
{
	x = x > 129 ? 129 : x;
	x = x < -151 ? -151 : x;
	float t = x + 0x1.8p23f;
	return exp_f32_parts((x - (t - 0x1.8p23f)) * 0x1.62e430p-1f, t);
}

ALWAYS_INLINE float
sigmoid_f(float x)
{
	return (float)(1 / (1 + exp_of(-(double)x)));
}

ALWAYS_INLINE float
tanh_f(float x)
{
	double e = expm1_of(2 * (double)x);
	return (float)(e / (e + 2));
}

ALWAYS_INLINE float
sinh_f(float x)
{
	double e = expm1_of(fabs((double)x));
	return (float)copysign((e + e / (e + 1)) * 0.5, x);
}

ALWAYS_INLINE float
cosh_f(float x)
{
	double e = exp_of(x);
	return (float)((e + 1 / e) * 0.5);
}

/* log of num / den times 2^e, num / den within 1/sqrt2 .. sqrt2: 2 atanh(s), s = (num - den) / (num + den) */
ALWAYS_INLINE double
log_sum(double less, double more, double e)
{
	double s = less / more, z = s * s;
	double q = 0x1.e2f6bc293259dp-3;
	q = q * z + 0x1.2438d4e1f313ep-2;
	q = q * z + 0x1.999a7a9815be7p-2;
	q = q * z + 0x1.555554fd92fe7p-1;
	return e * 0x1.62e42fefa39efp-1 + (s * 2 + s * z * q);
}

/* x = m 2^e, m in 1/sqrt2 .. sqrt2, for normal x > 0. */
ALWAYS_INLINE double
log_split(double x, double *m)
{
	uint64_t u = f64_bits(x);
	uint64_t biased = (u - 0x3fe6a09e667f3bcdu + (1024ull << 52)) >> 52;
	*m = f64_of_bits(u - ((biased - 1024) << 52));
	return f64_of_bits(biased | 0x4330000000000000u) - (0x1p52 + 1024);
}

/* What log gives where there is no logarithm, else y. */
ALWAYS_INLINE double
log_edges(double x, double y)
{
	y = x == 0 ? -INFINITY : y;
	y = x == INFINITY ? x : y;
	return x >= 0 ? y : NAN;
}

ALWAYS_INLINE double
log_of(double x)
{
	double m, e = log_split(x, &m);
	return log_edges(x, log_sum(m - 1, m + 1, e));
}

ALWAYS_INLINE float
log1p_f(float x)
{
	double y = x, m, e = log_split(1 + y, &m);
	bool near = y > -0.25 && y < 0.25;
	double less = near ? y : m - 1, more = near ? y + 2 : m + 1;
	double r = log_edges(1 + y, log_sum(less, more, near ? 0 : e));
	return x == 0 ? x : (float)r;
}

/* Sine and cosine of x, |x| <= 2^20: x = k pi/2 + r. */
ALWAYS_INLINE void
sin_cos(double x, double *sine, double *cosine)
{
	double t = x * 0x1.45f306dc9c883p-1 + MAGIC, k = t - MAGIC;
	double r = (x - k * 0x1.921fb544p+0) - k * 0x1.0b4611a626331p-34;
	double z = r * r;
	double s = 0x1.6cd720d257746p-19;
	s = s * z - 0x1.a00f988982b0ep-13;
	s = s * z + 0x1.1111088fe6a04p-7;
	s = s * z - 0x1.5555554cb0f18p-3;
	s = r + r * z * s;
	double c = -0x1.2429e257c91b0p-22;
	c = c * z + 0x1.a0111b872a8bcp-16;
	c = c * z - 0x1.6c16b891bb29ep-10;
	c = c * z + 0x1.5555554f47a08p-5;
	c = 1 - 0.5 * z + z * z * c;
	uint64_t q = f64_bits(t);
	bool odd = q & 1;
	double a = odd ? c : s, b = odd ? s : c;
	*sine = f64_of_bits(f64_bits(a) ^ (q & 2) << 62);
	*cosine = f64_of_bits(f64_bits(b) ^ ((q + 1) & 2) << 62);
}

ALWAYS_INLINE float
sin_f(float x)
{
	double s, c;
	sin_cos(x, &s, &c);
	return x == 0 ? x : (float)s;
}

ALWAYS_INLINE float
cos_f(float x)
{
	double s, c;
	sin_cos(x, &s, &c);
	return (float)c;
}

ALWAYS_INLINE float
tan_f(float x)
{
	double s, c;
	sin_cos(x, &s, &c);
	return x == 0 ? x : (float)(s / c);
}

/* Up to 1 a polynomial in x^2; above, 1 - e^-p(x). */
ALWAYS_INLINE float
erf_f(float x)
{
	double a = fabs((double)x), z = a * a;
	a = a > 4 ? 4 : a;
	double p = -0x1.44cf0d04ec123p-17;
	p = p * z + 0x1.d8b83fee801aep-14;
	p = p * z - 0x1.bcd7d15e882c1p-11;
	p = p * z + 0x1.562b18bb0d275p-8;
	p = p * z - 0x1.b829d8b37bc0ep-6;
	p = p * z + 0x1.ce2f09aaddd18p-4;
	p = p * z - 0x1.812746682739ep-2;
	p = p * z + 0x1.20dd750406214p+0;
	p = p * a;
	double q = 0x1.6c15601630eaep-16;
	q = q * a - 0x1.cef626f52de5ep-12;
	q = q * a + 0x1.139c8836a0f39p-8;
	q = q * a - 0x1.9d0e46d6fd436p-6;
	q = q * a + 0x1.bc19cc21656b7p-4;
	q = q * a + 0x1.4434d2ba5f11ep-1;
	q = q * a + 0x1.212c3485959f9p+0;
	q = q * a - 0x1.8b738ff61ed12p-13;
	double r = a > 1 ? -expm1_of(-q) : p;
	r = x != x ? x : r;
	return (float)copysign(r, x);
}

#define F32(name, expr) UNARY(name##_f32, float, float, expr)
#define F64(name, expr) UNARY(name##_f64, double, double, expr)
/* -0 stays -0 where the function passes through the origin. */
#define ODD(y) (a == 0 ? a : (y))

F32(exp, exp_f(a))
F32(exp2, exp2_f(a))
F32(expm1, ODD((float)expm1_of(a)))
F32(log, (float)log_of(a))
F32(log2, (float)(log_of(a) * 0x1.71547652b82fep+0))
F32(log1p, log1p_f(a))
F32(rsqrt, (float)(1 / sqrt((double)a)))
F32(tanh, ODD(tanh_f(a)))
F32(sinh, ODD(sinh_f(a)))
F32(cosh, cosh_f(a))
F32(erf, erf_f(a))
F32(sigmoid, sigmoid_f(a))
F32(asin, (float)asin((double)a))
F32(acos, (float)acos((double)a))
F32(atan, (float)atan((double)a))

/* Reduction by two parts of pi/2 serves to 2^20; what lies beyond is redone by libm. */
#define TURNS(name)                                                                                \
	static void name##_f32(void *out, const void *const *in, int64_t n)                        \
	{                                                                                          \
		float *o = out;                                                                    \
		const float *x = in[0];                                                            \
		while (n > 0) {                                                                    \
			int64_t m = MIN(n, BLOCK);                                                 \
			float r[BLOCK], most = 0;                                                  \
			for (int64_t i = 0; i < m; i++)                                            \
				r[i] = name##_f(x[i]);                                             \
			for (int64_t i = 0; i < m; i++) {                                          \
				float a = fabsf(x[i]);                                             \
				most = a > most ? a : most;                                        \
			}                                                                          \
			for (int64_t i = 0; most > 0x1p20f && i < m; i++)                          \
				if (fabsf(x[i]) > 0x1p20f)                                         \
					r[i] = (float)name((double)x[i]);                          \
			memcpy(o, r, (size_t)m * sizeof *o);                                       \
			o += m;                                                                    \
			x += m;                                                                    \
			n -= m;                                                                    \
		}                                                                                  \
	}

TURNS(sin)
TURNS(cos)
TURNS(tan)

F64(exp, exp(a))
F64(exp2, exp2(a))
F64(expm1, expm1(a))
F64(log, log(a))
F64(log2, log2(a))
F64(log1p, log1p(a))
F64(rsqrt, 1 / sqrt(a))
F64(sin, sin(a))
F64(cos, cos(a))
F64(tan, tan(a))
F64(sinh, sinh(a))
F64(cosh, cosh(a))
F64(tanh, tanh(a))
F64(asin, asin(a))
F64(acos, acos(a))
F64(atan, atan(a))
F64(erf, erf(a))
F64(sigmoid, a < 0 ? exp(a) / (1 + exp(a)) : 1 / (1 + exp(-a)))

BINARY(pow_f32, float, float, powf(a, b))
BINARY(atan2_f32, float, float, (float)atan2((double)a, (double)b))
BINARY(pow_f64, double, double, pow(a, b))
BINARY(atan2_f64, double, double, atan2(a, b))

#define ROW(OPK, f) [OPK] = {f##_f32, f##_f64}

static const LoopFn table[OP_COUNT][2] = {
	ROW(OP_EXP, exp), ROW(OP_EXP2, exp2), ROW(OP_EXPM1, expm1), ROW(OP_LOG, log),
	ROW(OP_LOG2, log2), ROW(OP_LOG1P, log1p), ROW(OP_RSQRT, rsqrt), ROW(OP_SIN, sin),
	ROW(OP_COS, cos), ROW(OP_TAN, tan), ROW(OP_SINH, sinh), ROW(OP_COSH, cosh),
	ROW(OP_TANH, tanh), ROW(OP_ASIN, asin), ROW(OP_ACOS, acos), ROW(OP_ATAN, atan),
	ROW(OP_ERF, erf), ROW(OP_SIGMOID, sigmoid), ROW(OP_POW, pow), ROW(OP_ATAN2, atan2),
};

LoopFn
LEVEL(loop_math)(OpKind kind, DType t)
{
	return table[kind][t == TY_F64];
}
