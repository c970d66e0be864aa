/* Exponentials and what is made of them.
 *
 *     e^x = 2^k 2^f,  k = x log2 e rounded, f the rest, |f| <= 1/2
 *
 * In f32 the machine's 2^f does it.  k is found in fixed point: x / 253 log2 e + 126 / 253, held to 0 .. 1, times 253,
 * and 1, is the exponent's field itself, so that one shift makes 2^k; beyond either end f grows instead, which gives
 * infinity, 0 and the denormals between as they should be.  In f64, e^r is a polynomial and 2^k goes in two steps. */
#include "lower/math/math.h"
#include "lower/math/math_fit.h"

/* f32: 2^(a (log2 + low)) times a power of two. */
static Reg
exp2_f32(Math m, Reg a, double log2, double low, double by)
{
	Reg held = lower_op3(m.l, THREAD_FMA_SAT, a, math_const(m, log2 / 253), math_const(m, 126.0 / 253));
	Reg t = math_fma(m, held, math_const(m, 253), math_const(m, 0x1.8p23 + 1));
	Reg k = math_sub(m, t, math_const(m, 0x1.8p23 + 127));
	Reg f = math_fma(m, a, math_const(m, log2), math_neg(m, k));
	if (low != 0)
		f = math_fma(m, a, math_const(m, low), f);
	Reg e = math_op1(m, THREAD_EXP2_FAST, f);
	if (by != 1)
		e = math_scale(m, e, by);
	Reg scale = math_op2(m, THREAD_SHL, math_to_bits(m, t), math_int(m, 23));
	return math_mul(m, e, math_of_bits(m, scale));
}

/* e^r - 1 for |r| <= ln2 / 2 */
static Reg
expm1_poly(Math m, Reg r)
{
	Reg q = POLY(m, expm1_fit, r);
	return math_fma(m, math_mul(m, r, r), q, r);
}

static const double ln2_high[2] = {0x1.62e42fefa39efp-1, 0x1.62e430p-1};
static const double ln2_low[2] = {0x1.abc9e3b39803fp-56, -0x1.05c610p-29};

/* x = k ln2 + r; k as a float and an integer. */
static Reg
reduce_ln2(Math m, Reg x, Reg *k)
{
	Reg t = math_round(m, math_scale(m, x, m.wide ? 0x1.71547652b82fep0 : 0x1.715476p0), k);
	Reg r = math_fma(m, math_neg(m, t), math_const(m, ln2_high[!m.wide]), x);
	return math_fma(m, math_neg(m, t), math_const(m, ln2_low[!m.wide]), r);
}

/* x kept within lo .. hi; a NaN comes through. */
static Reg
clamp(Math m, Reg x, double lo, double hi)
{
	Reg low = math_const(m, lo), high = math_const(m, hi);
	x = math_select(m, math_less(m, high, x), high, x);
	return math_select(m, math_less(m, x, low), low, x);
}

/* y 2^k, k as far as twice the exponents' range. */
static Reg
scale_twice(Math m, Reg y, Reg k, double by)
{
	Reg half = math_op2(m, THREAD_ASHR, k, math_int(m, 1));
	Reg rest = math_op2(m, THREAD_SUB, k, half);
	y = math_mul(m, by != 1 ? math_scale(m, y, by) : y, math_power_of_two(m, half));
	return math_mul(m, y, math_power_of_two(m, rest));
}

Reg
math_exp(Math m, Reg x, double by)
{
	Reg k, own = by == 1 ? math_call(m, OP_EXP, x, 0) : 0;
	if (own)
		return own;
	if (!m.wide)
		return exp2_f32(m, x, 0x1.715476p0, 0x1.4ae0c0p-26, by);
	x = clamp(m, x, -760, 720);
	Reg r = reduce_ln2(m, x, &k);
	return scale_twice(m, math_add(m, expm1_poly(m, r), math_const(m, 1)), k, by);
}

Reg
math_exp2(Math m, Reg x)
{
	if (!m.wide)
		return exp2_f32(m, x, 1, 0, 1);
	return math_exp2_sum(m, x, math_const(m, 0));
}

Reg
math_exp2_sum(Math m, Reg a, Reg b)
{
	Reg k, held = clamp(m, a, m.wide ? -1100 : -160, m.wide ? 1030 : 130);
	Reg t = math_round(m, held, &k);
	Reg f = math_add(m, math_sub(m, held, t), b);
	if (!m.wide)
		return scale_twice(m, math_op1(m, THREAD_EXP2_FAST, f), k, 1);
	Reg r = math_fma(m, f, math_const(m, 0x1.abc9e3b39803fp-56), math_scale(m, f, ln2_high[0]));
	return scale_twice(m, math_add(m, expm1_poly(m, r), math_const(m, 1)), k, 1);
}

/* 2 (h p + (h - 1/2)) with h = 2^(k - 1), which no step overflows before its time. */
Reg
math_expm1(Math m, Reg x)
{
	Reg k, held = clamp(m, x, m.wide ? -60 : -30, m.wide ? 720 : 90);
	Reg r = reduce_ln2(m, held, &k), p = expm1_poly(m, r);
	Reg h = math_power_of_two(m, math_op2(m, THREAD_SUB, k, math_int(m, 1)));
	Reg y = math_fma(m, h, p, math_sub(m, h, math_const(m, 0.5)));
	y = math_add(m, y, y);
	Reg most = math_const(m, m.wide ? 709.79 : 88.73);
	y = math_select(m, math_less(m, most, x), math_mul(m, x, math_const(m, m.wide ? 0x1p1023 : 0x1p127)), y);
	Reg tiny = math_less(m, math_abs(m, x), math_const(m, m.wide ? 0x1p-60 : 0x1p-30));
	return math_select(m, tiny, x, y);
}

/* e^min(x, 0) / (1 + e^-|x|): no step overflows, and denormals come out right. */
Reg
math_sigmoid(Math m, Reg x)
{
	Reg one = math_const(m, 1), e = math_exp(m, math_neg(m, math_abs(m, x)), 1);
	Reg top = math_select(m, math_less(m, x, math_const(m, 0)), e, one);
	Reg below = math_add(m, e, one);
	return m.wide ? math_op2(m, THREAD_FDIV, top, below) : math_mul(m, top, math_reciprocal(m, below));
}

Reg
math_tanh(Math m, Reg x)
{
	Reg a = math_abs(m, x), one = math_const(m, 1), two = math_const(m, 2);
	if (m.wide) {
		Reg e = math_expm1(m, math_add(m, a, a));
		Reg r = math_op2(m, THREAD_FDIV, e, math_add(m, e, two));
		Reg far = math_less(m, math_const(m, 22), a);
		return math_copysign(m, math_select(m, far, one, r), x);
	}
	Reg z = math_mul(m, a, a), za = math_mul(m, z, a);
	Reg near = math_fma(m, za, math_poly(m, tanh_fit_32, LEN(tanh_fit_32), z), a);
	Reg e = math_op1(m, THREAD_EXP2_FAST, math_scale(m, a, 0x1.715476p1));
	Reg inverse = math_reciprocal(m, math_add(m, e, one));
	Reg far = math_fma(m, inverse, math_const(m, -2), one);
	Reg r = math_select(m, math_op2(m, THREAD_FLE, math_const(m, 0.55), a), far, near);
	return math_copysign(m, r, x);
}

Reg
math_sinh(Math m, Reg x)
{
	Reg a = math_abs(m, x), z = math_mul(m, x, x), zx = math_mul(m, z, x);
	Reg near = math_fma(m, zx, POLY(m, sinh_fit, z), x);
	Reg half = math_exp(m, a, 0.5);
	Reg far = math_copysign(m, math_fma(m, math_reciprocal(m, half), math_const(m, -0.25), half), x);
	return math_select(m, math_op2(m, THREAD_FLE, math_const(m, 1), a), far, near);
}

Reg
math_cosh(Math m, Reg x)
{
	Reg half = math_exp(m, math_abs(m, x), 0.5);
	return math_fma(m, math_reciprocal(m, half), math_const(m, 0.25), half);
}

/* Up to 1, x + x p(x^2).  Above, 1 - erfc: in f32 2^(a q(a)), in f64 e^(-a^2) q(1/a). */
Reg
math_erf(Math m, Reg x)
{
	Reg one = math_const(m, 1), a = math_abs(m, x), z = math_mul(m, x, x);
	Reg near = math_fma(m, x, POLY(m, erf_fit, z), x), rest;
	Reg held = math_op2(m, THREAD_FMIN, a, math_const(m, m.wide ? 6 : 4));
	if (m.wide) {
		held = math_op2(m, THREAD_FMAX, held, one);
		Reg t = math_sub(m, math_reciprocal(m, held), math_const(m, 0.58));
		rest = math_mul(m, math_exp(m, math_neg(m, math_mul(m, held, held)), 1), POLY(m, erfc_fit, t));
	} else {
		rest = math_op1(m, THREAD_EXP2_FAST, math_mul(m, held, POLY(m, erfc_fit, held)));
	}
	Reg far = math_copysign(m, math_sub(m, one, rest), x);
	return math_select(m, math_op2(m, THREAD_FLE, one, a), far, near);
}
