/* Logarithms, powers, and one over the square root.
 *
 *     x = m 2^e, m from 2/3 to 4/3;  log x = e ln2 + log m
 *
 * In f32, log(1 + f) is a polynomial in f = m - 1, which is exact.  In f64 it is that of s = f / (2 + f), an odd series
 * of half as many terms.  Powers need log2 to more bits than a float has: it is kept as a sum of two. */
#include "lower/math/math.h"
#include "lower/math/math_fit.h"

#include <math.h>

#define LOG2_E 0x1.71547652b82fep0
#define LOG2_E_LOW 0x1.777d0ffda0d24p-56                /* the rest of log2 e in f64 */

/* y, but what a logarithm of x has no finite value for: 0, less than 0, infinity, NaN. */
static Reg
log_edges(Math m, Reg x, Reg y)
{
	Reg inf = math_const(m, INFINITY), zero = math_const(m, 0);
	Reg inside = math_op2(m, THREAD_AND, math_less(m, zero, x), math_less(m, x, inf));
	Reg odd = math_fma(m, x, inf, inf);             /* inf of inf; NaN of a NaN and of less than 0 */
	odd = math_select(m, math_op2(m, THREAD_FEQ, x, zero), math_const(m, -INFINITY), odd);
	return math_select(m, inside, y, odd);
}

/* f64: log(1 + f), f from -1/3 to 1/3. */
static Reg
log1p_f64(Math m, Reg f)
{
	Reg s = math_op2(m, THREAD_FDIV, f, math_add(m, f, math_const(m, 2)));
	Reg z = math_mul(m, s, s), q = math_mul(m, z, math_poly(m, atanh_fit_64, LEN(atanh_fit_64), z));
	/* 2 s = f - s f, so that f's rounding error stays out */
	Reg r = math_fma(m, s, math_sub(m, q, f), f);
	return r;
}

static Reg
log1p_part(Math m, Reg f)
{
	if (m.wide)
		return log1p_f64(m, f);
	Reg q = math_poly(m, log1p_fit_32, LEN(log1p_fit_32), f);
	return math_fma(m, math_mul(m, f, f), q, f);
}

static Reg
add_exponent(Math m, Reg e, Reg y)
{
	if (!m.wide)
		return math_fma(m, e, math_const(m, 0x1.62e430p-1), y);
	y = math_fma(m, e, math_const(m, 0x1.abc9e3b39803fp-56), y);
	return math_fma(m, e, math_const(m, 0x1.62e42fefa39efp-1), y);
}

Reg
math_log(Math m, Reg x)
{
	Reg e, f = math_sub(m, math_split(m, x, false, &e), math_const(m, 1));
	return log_edges(m, x, add_exponent(m, e, log1p_part(m, f)));
}

Reg
math_log2(Math m, Reg x)
{
	Reg e, y, f = math_sub(m, math_split(m, x, false, &e), math_const(m, 1));
	if (m.wide) {
		y = log1p_f64(m, f);
		y = math_fma(m, y, math_const(m, LOG2_E), math_scale(m, y, LOG2_E_LOW));
	} else {
		y = math_mul(m, math_mul(m, f, f), math_poly(m, log2_fit_32, LEN(log2_fit_32), f));
		y = math_fma(m, f, math_const(m, 0x1.4ae0c0p-26), y);
		y = math_fma(m, f, math_const(m, 0x1.715476p0), y);
	}
	return log_edges(m, x, math_add(m, y, e));
}

/* 1 + x is split and then the split done to x itself: f = x 2^-e + (2^-e - 1), with one rounding. */
Reg
math_log1p(Math m, Reg x)
{
	Reg one = math_const(m, 1), u = math_add(m, x, one), zero = math_const(m, 0);
	int mantissa = math_mantissa(m);
	int64_t two_thirds = m.wide ? INT64_C(0x3fe5555555555555) : 0x3f2aaaab;
	Reg above = math_op2(m, THREAD_SUB, math_to_bits(m, u), math_int(m, two_thirds));
	Reg whole = math_op2(m, THREAD_ASHR, above, math_int(m, mantissa));
	Reg down = math_op2(m, THREAD_SUB, math_int(m, math_bias(m) + 2), whole);
	Reg four = math_of_bits(m, math_op2(m, THREAD_SHL, down, math_int(m, mantissa)));       /* 4 * 2^-e */
	Reg quarter = math_const(m, 0.25);
	Reg f = math_fma(m, math_mul(m, x, quarter), four, math_fma(m, quarter, four, math_const(m, -1)));
	Reg y = add_exponent(m, lower_as(m.l, CAST_S2F, m.t, whole), log1p_part(m, f));
	y = log_edges(m, u, y);
	Reg near = math_less(m, math_abs(m, x), math_const(m, m.wide ? 0x1p-54 : 0x1p-25));
	return math_select(m, math_op2(m, THREAD_OR, near, math_op2(m, THREAD_FEQ, x, zero)), x, y);
}

Reg
math_rsqrt(Math m, Reg x)
{
	if (m.wide)
		return math_op2(m, THREAD_FDIV, math_const(m, 1), math_op1(m, THREAD_FSQRT, x));
	Reg tiny = math_less(m, math_abs(m, x), math_const(m, 0x1p-126));
	Reg r = math_op1(m, THREAD_FRSQRT_FAST, math_select(m, tiny, math_scale(m, x, 0x1p24), x));
	return math_select(m, tiny, math_scale(m, r, 0x1p12), r);
}

/* 2/3 s^3 as a sum of two, s as well. */
static void
two_thirds_cube(Math m, Reg s, Reg s_low, Reg *high, Reg *low)
{
	double third = m.wide ? 0x1.5555555555555p-1 : 0x1.555556p-1;
	double rest = m.wide ? 0x1.5555555555555p-55 : -0x1.555556p-26;
	Reg z = math_mul(m, s, s), z_low = math_fma(m, s, s, math_neg(m, z));
	z_low = math_fma(m, math_add(m, s, s), s_low, z_low);
	Reg p = math_mul(m, z, s), p_low = math_fma(m, z, s, math_neg(m, p));
	p_low = math_fma(m, z, s_low, math_fma(m, z_low, s, p_low));
	Reg c = math_const(m, third);
	*high = math_mul(m, p, c);
	*low = math_fma(m, p, c, math_neg(m, *high));
	*low = math_fma(m, p_low, c, math_fma(m, p, math_const(m, rest), *low));
}

/* log2 of x > 0 as high + low.  With m about 1 in both directions, |log2 m| <= 1/2 and e - sum is exact. */
static void
log2_sum(Math m, Reg x, Reg *high, Reg *low)
{
	Reg e, one = math_const(m, 1), part = math_split(m, x, true, &e), f = math_sub(m, part, one);
	double l_high = m.wide ? LOG2_E : 0x1.715476p0, l_low = m.wide ? LOG2_E_LOW : 0x1.4ae0c0p-26;
	/* s = f / (m + 1) as a sum; m + 1 = t + t_low exactly */
	Reg t = math_add(m, part, one), t_low = math_sub(m, part, math_sub(m, t, one));
	Reg r = math_reciprocal(m, t), s = math_mul(m, f, r);
	Reg rest = math_fma(m, math_neg(m, s), t, f);
	rest = math_fma(m, math_neg(m, s), t_low, rest);
	Reg s_low = math_mul(m, rest, r), cube, cube_low;
	two_thirds_cube(m, s, s_low, &cube, &cube_low);
	Reg z = math_mul(m, s, s), fifth = math_mul(m, math_mul(m, math_mul(m, z, z), s), POLY(m, atanh_rest_fit, z));
	Reg factor = math_const(m, 2 * l_high), log2_e = math_const(m, l_high);
	Reg first = math_fma(m, s, factor, e), sum = math_fma(m, cube, log2_e, first);
	Reg err = math_fma(m, math_add(m, cube_low, fifth), log2_e, math_scale(m, cube, l_low));
	err = math_fma(m, s, math_const(m, 2 * l_low), err);
	err = math_fma(m, s_low, factor, err);
	err = math_add(m, err, math_fma(m, cube, log2_e, math_sub(m, first, sum)));
	err = math_add(m, err, math_fma(m, s, factor, math_sub(m, e, first)));
	*high = math_add(m, sum, err);
	*low = math_add(m, math_sub(m, sum, *high), err);
}

/* Whether b is a whole number, and an odd one. */
static Reg
is_whole(Math m, Reg b, Reg *odd)
{
	Reg whole = math_op2(m, THREAD_FEQ, math_op1(m, THREAD_FTRUNC, b), b), half = math_scale(m, b, 0.5);
	Reg even = math_op2(m, THREAD_FEQ, math_op1(m, THREAD_FTRUNC, half), half);
	*odd = math_op2(m, THREAD_AND, whole, math_op1(m, THREAD_NOT, even));
	return whole;
}

/* 2^(b log2 |a|) for finite a other than 0: b is held so that products stay finite. */
static Reg
pow_magnitude(Math m, Reg a, Reg b)
{
	Reg high, low, k;
	double limit = m.wide ? 0x1p66 : 0x1p35, least = m.wide ? -1200 : -170, most = m.wide ? 1100 : 140;
	log2_sum(m, a, &high, &low);
	b = math_op2(m, THREAD_FMAX, math_op2(m, THREAD_FMIN, b, math_const(m, limit)), math_const(m, -limit));
	Reg product = math_mul(m, b, high), under = math_const(m, least), over = math_const(m, most);
	Reg is_over = math_less(m, over, product), is_under = math_less(m, product, under);
	Reg held = math_select(m, is_under, under, math_select(m, is_over, over, product));
	Reg t = math_round(m, held, &k);
	Reg f = math_fma(m, b, high, math_neg(m, t));
	f = math_fma(m, b, low, f);
	Reg r = math_exp2_sum(m, t, f);
	r = math_select(m, is_over, math_const(m, INFINITY), r);
	return math_select(m, is_under, math_const(m, 0), r);
}

Reg
math_pow(Math m, Reg a, Reg b)
{
	Reg zero = math_const(m, 0), one = math_const(m, 1), inf = math_const(m, INFINITY), odd;
	Reg size = math_abs(m, a), whole = is_whole(m, b, &odd), b_below = math_less(m, b, zero);
	Reg r = pow_magnitude(m, size, b);
	/* 0 and infinity, to powers above and below 0 */
	Reg is_zero = math_op2(m, THREAD_FEQ, size, zero), is_inf = math_op2(m, THREAD_FEQ, size, inf);
	r = math_select(m, is_zero, math_select(m, b_below, inf, zero), r);
	r = math_select(m, is_inf, math_select(m, b_below, zero, inf), r);
	/* infinite powers: of 1 and -1, 1 */
	Reg b_inf = math_op2(m, THREAD_FEQ, math_abs(m, b), inf), is_one = math_op2(m, THREAD_FEQ, size, one);
	r = math_select(m, math_op2(m, THREAD_AND, b_inf, is_one), one, r);
	Reg negative = math_op2(m, THREAD_SLT, math_to_bits(m, a), math_int(m, 0));
	r = math_select(m, math_op2(m, THREAD_AND, odd, negative), math_neg(m, r), r);
	Reg finite = math_op2(m, THREAD_AND, math_less(m, a, zero), math_less(m, size, inf));
	Reg broken = math_op2(m, THREAD_AND, finite, math_op1(m, THREAD_NOT, whole));
	r = math_select(m, broken, math_const(m, NAN), r);
	r = math_select(m, math_op2(m, THREAD_FUNO, a, b), math_const(m, NAN), r);
	Reg trivial = math_op2(m, THREAD_OR, math_op2(m, THREAD_FEQ, b, zero), math_op2(m, THREAD_FEQ, a, one));
	return math_select(m, trivial, one, r);
}
