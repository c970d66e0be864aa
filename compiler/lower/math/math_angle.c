/* Sines, cosines, tangents and their inverses.
 *
 *     x = k pi/2 + r, |r| <= pi/4;  sin x is the sine or cosine of r, its sign by k's two low bits
 *
 * pi/2 is a sum of three floats, whose products with k fma subtracts without loss while k has few bits.  Greater angles
 * are multiplied by the bits of 2/pi that matter to them, in integers (Payne and Hanek, 1983): for x = M 2^E a window of
 * 2/pi from bit E - 1 on, times M, modulo the window's width, is x 2/pi modulo 4. */
#include "lower/math/math.h"
#include "lower/math/math_fit.h"

#include <math.h>
#include <string.h>

static const double half_pi_32[] = {0x1.921fb6p0, -0x1.777a5cp-25, -0x1.ee59dap-50};
static const double half_pi_64[] = {0x1.921fb54442d18p+0, 0x1.1a62633145c07p-54, -0x1.f1976b7ed8fbcp-110};

/* 2/pi, a word of zeros before it. */
static const uint64_t two_over_pi[] = {
	0, UINT64_C(0xa2f9836e4e441529), UINT64_C(0xfc2757d1f534ddc0), UINT64_C(0xdb6295993c439041),
	UINT64_C(0xfe5163abdebbc561), UINT64_C(0xb7246e3a424dd2e0), UINT64_C(0x06492eea09d1921c),
	UINT64_C(0xfe1deb1cb129a73e), UINT64_C(0xe88235f52ebb4484), UINT64_C(0xe99c7026b45f7e41),
	UINT64_C(0x3991d639835339f4), UINT64_C(0x9c845f8bbdf9283b), UINT64_C(0x1ff897ffde05980f),
	UINT64_C(0xef2f118b5a0a6d1f), UINT64_C(0x6d367ecf27cb09b7), UINT64_C(0x4f463f669e5fea2d),
	UINT64_C(0x7527bac7ebe5f17b), UINT64_C(0x3d0739f78a5292ea), UINT64_C(0x6bfb5fb11f8d5d08),
	UINT64_C(0x56033046fc7b6bab), UINT64_C(0xf0cfbc209af4361d),
};

enum { PI_WORDS = LEN(two_over_pi), WINDOW = 3 };

/* Word i of 2/pi with a word of zeros before it, words being of the float's width. */
static uint64_t
pi_word(Math m, int i)
{
	if (m.wide)
		return i < PI_WORDS ? two_over_pi[i] : 0;
	return i == 0 ? 0 : two_over_pi[1 + (i - 1) / 2] >> (i % 2 ? 32 : 0) & UINT32_MAX;
}

/* Three words of 2/pi from bit `at` on: the words are moved down by each bit of at's word number, then shifted. */
static void
pi_window(Math m, Reg at, Reg window[WINDOW])
{
	Lower *l = m.l;
	int log_width = m.wide ? 6 : 5, steps = m.wide ? 5 : 3, width = 1 << log_width;
	int n = m.wide ? PI_WORDS : 8;
	Reg v[PI_WORDS], number = math_op2(m, THREAD_LSHR, at, math_int(m, log_width));
	for (int i = 0; i < n; i++)
		v[i] = math_int(m, (int64_t)(m.wide ? pi_word(m, i) : (uint64_t)(int32_t)pi_word(m, i)));
	for (int s = steps - 1; s >= 0; s--) {
		int by = 1 << s, wanted = MIN(by + WINDOW, n - by);
		Reg bit = math_op2(m, THREAD_AND, number, math_int(m, by));
		bit = math_op2(m, THREAD_NE, bit, math_int(m, 0));
		for (int i = 0; i < wanted; i++)
			v[i] = math_select(m, bit, v[i + by], v[i]);
	}
	Reg shift = math_op2(m, THREAD_AND, at, math_int(m, width - 1));
	for (int i = 0; i < WINDOW; i++) {
		Reg up = math_op2(m, THREAD_SHL, v[i], shift), half = math_op2(m, THREAD_LSHR, v[i + 1], math_int(m, 1));
		Reg down = math_op2(m, THREAD_LSHR, half, math_op2(m, THREAD_XOR, shift, math_int(m, width - 1)));
		window[i] = lower_op2(l, THREAD_OR, up, down);
	}
}

/* (high + low 2^-width) 2^(2 - width) pi/2, where high is signed and low is not. */
static Reg
times_half_pi(Math m, Reg high, Reg low)
{
	Lower *l = m.l;
	const double *part = m.wide ? half_pi_64 : half_pi_32;
	double unit = m.wide ? 0x1p-62 : 0x1p-30, low_unit = m.wide ? 0x1p-64 : 0x1p-32;
	/* as a sum of two floats */
	Reg a = lower_as(l, CAST_S2F, m.t, high);
	Reg lost = math_op2(m, THREAD_SUB, high, lower_as(l, CAST_F2S, m.bits, a));
	Reg b = math_fma(m, lower_as(l, CAST_U2F, m.t, low), math_const(m, low_unit), lower_as(l, CAST_S2F, m.t, lost));
	Reg r = math_fma(m, a, math_const(m, part[1] * unit), math_scale(m, b, part[0] * unit));
	return math_fma(m, a, math_const(m, part[0] * unit), r);
}

/* r and k of a great x. */
static Reg
reduce_great(Math m, Reg x, Reg *k)
{
	int mantissa = math_mantissa(m), width = m.wide ? 64 : 32;
	Reg bits = math_to_bits(m, math_abs(m, x)), w[WINDOW];
	Reg exponent = math_op2(m, THREAD_LSHR, bits, math_int(m, mantissa));
	Reg whole = math_op2(m, THREAD_AND, bits, math_int(m, (INT64_C(1) << mantissa) - 1));
	whole = math_op2(m, THREAD_OR, whole, math_int(m, INT64_C(1) << mantissa));
	/* E = exponent - bias - mantissa; bit 1 of 2/pi stands at `width` */
	Reg at = math_op2(m, THREAD_ADD, exponent, math_int(m, width - 2 - math_bias(m) - mantissa));
	pi_window(m, at, w);
	Reg high = math_op2(m, THREAD_MUL, whole, w[0]), low = math_op2(m, THREAD_MUL, whole, w[1]);
	high = math_op2(m, THREAD_ADD, high, math_op2(m, THREAD_MULHI_U, whole, w[1]));
	Reg sum = math_op2(m, THREAD_ADD, low, math_op2(m, THREAD_MULHI_U, whole, w[2]));
	Reg carry = math_op2(m, THREAD_ULT, sum, low);
	high = math_op2(m, THREAD_ADD, high, math_select(m, carry, math_int(m, 1), math_int(m, 0)));
	/* quarter turns to the nearest, and the rest, which may be less than 0 */
	Reg turned = math_op2(m, THREAD_ADD, high, math_int(m, INT64_C(1) << (width - 3)));
	Reg turns = math_op2(m, THREAD_LSHR, turned, math_int(m, width - 2));
	high = math_op2(m, THREAD_SUB, high, math_op2(m, THREAD_SHL, turns, math_int(m, width - 2)));
	Reg r = times_half_pi(m, high, sum);
	Reg below = math_less(m, x, math_const(m, 0));
	*k = math_select(m, below, math_op2(m, THREAD_SUB, math_int(m, 0), turns), turns);
	r = math_select(m, below, math_neg(m, r), r);
	Reg finite = math_less(m, math_abs(m, x), math_const(m, INFINITY));
	return math_select(m, finite, r, math_const(m, NAN));
}

/* Loads stay before it, see find_angles in lower/kernel.c. */
static void
hold(Lower *l)
{
	thread_prim(l->b, PRIM_HOLD, NULL, 0, NULL, 0, NULL, 0);
}

/* x = k pi/2 + r for all of a thread's angles at once: they are looked at together, so that there is one branch, around
 * arithmetic that few programs need. */
static void
reduce(Math m, const Reg *x, int n, bool holds, Reg *r, Reg *k)
{
	Lower *l = m.l;
	const double *part = m.wide ? half_pi_64 : half_pi_32;
	Reg *quick = NEW_ARRAY(l->mem, Reg, 2 * n), *great = NEW_ARRAY(l->mem, Reg, 2 * n);
	Reg *after = NEW_ARRAY(l->mem, Reg, 2 * n), *far = NEW_ARRAY(l->mem, Reg, n), any = 0;
	Reg limit = math_const(m, m.wide ? 0x1p30 : 105615);
	for (int i = 0; i < n; i++) {
		Reg t = math_round(m, math_scale(m, x[i], m.wide ? 0x1.45f306dc9c883p-1 : 0x1.45f306p-1), &quick[n + i]);
		quick[i] = x[i];
		for (int j = 0; j < 3; j++)
			quick[i] = math_fma(m, t, math_const(m, -part[j]), quick[i]);
		far[i] = math_op2(m, THREAD_FLE, limit, math_abs(m, x[i]));
		any = i == 0 ? far[0] : math_op2(m, THREAD_OR, any, far[i]);
	}
	if (holds)
		hold(l);
	thread_if(l->b, any);
	for (int i = 0; i < n; i++) {
		Reg turns, rest = reduce_great(m, x[i], &turns);
		great[i] = math_select(m, far[i], rest, quick[i]);
		great[n + i] = math_select(m, far[i], turns, quick[n + i]);
	}
	thread_else(l->b, great, 2 * n);
	thread_if_end(l->b, quick, after, 2 * n);
	memcpy(r, after, sizeof *r * (size_t)n);
	memcpy(k, after + n, sizeof *k * (size_t)n);
}

/* Sine and cosine of r. */
static void
both(Math m, Reg r, Reg *sine, Reg *cosine)
{
	Reg z = math_mul(m, r, r);
	*sine = math_fma(m, math_mul(m, z, r), POLY(m, sin_fit, z), r);
	Reg c = math_fma(m, z, math_const(m, -0.5), math_const(m, 1));
	*cosine = math_fma(m, math_mul(m, z, z), POLY(m, cos_fit, z), c);
}

static Reg
has_bit(Math m, Reg k, int bit)
{
	return math_op2(m, THREAD_NE, math_op2(m, THREAD_AND, k, math_int(m, bit)), math_int(m, 0));
}

/* -0 stays so. */
static Reg
odd_at_zero(Math m, Reg x, Reg y)
{
	return math_select(m, math_op2(m, THREAD_FEQ, x, math_const(m, 0)), x, y);
}

static Reg
turned_sine(Math m, Reg k, Reg s, Reg c, int by)
{
	if (by)
		k = math_op2(m, THREAD_ADD, k, math_int(m, by));
	Reg y = math_select(m, has_bit(m, k, 1), c, s);
	return math_select(m, has_bit(m, k, 2), math_neg(m, y), y);
}

static Reg
turned_tangent(Math m, Reg k, Reg s, Reg c)
{
	Reg odd = has_bit(m, k, 1), top = math_select(m, odd, math_neg(m, c), s);
	return math_op2(m, THREAD_FDIV, top, math_select(m, odd, s, c));
}

static void
find_parts(Math m, const Reg *x, int n, bool holds, Reg *const part[ANGLE_PARTS])
{
	Reg *r = NEW_ARRAY(m.l->mem, Reg, n);
	reduce(m, x, n, holds, r, part[ANGLE_TURNS]);
	for (int i = 0; i < n; i++)
		both(m, r[i], &part[ANGLE_SINE][i], &part[ANGLE_COSINE][i]);
}

static Reg
function_of_parts(Math m, OpKind op, Reg x, Reg k, Reg s, Reg c)
{
	if (op == OP_TAN)
		return odd_at_zero(m, x, turned_tangent(m, k, s, c));
	return op == OP_SIN ? odd_at_zero(m, x, turned_sine(m, k, s, c, 0)) : turned_sine(m, k, s, c, 1);
}

/* ---- called ---- */

/* A function of the thread IR for so many angles: one op's results, or all of its parts if op is COUNT. */
enum { CALLED_ANGLES = 8 };

static void
spell_out(Math m, OpKind op, const Reg *x, int n, Reg *out)
{
	Reg *part[ANGLE_PARTS];
	for (int p = 0; p < ANGLE_PARTS; p++)
		part[p] = op == OP_COUNT ? out + p * n : NEW_ARRAY(m.l->mem, Reg, n);
	find_parts(m, x, n, false, part);
	for (int i = 0; i < n && op != OP_COUNT; i++)
		out[i] = function_of_parts(m, op, x[i], part[ANGLE_TURNS][i], part[ANGLE_SINE][i], part[ANGLE_COSINE][i]);
}

static void
call_few(Math m, OpKind op, const Reg *x, int n, Reg *out)
{
	RegType param[CALLED_ANGLES], result[ANGLE_PARTS * CALLED_ANGLES];
	Reg inside[CALLED_ANGLES], from[ANGLE_PARTS * CALLED_ANGLES];
	int nresult = op == OP_COUNT ? ANGLE_PARTS * n : n;
	const char *name = arena_printf(m.l->mem, "%s_f%dx%d", op == OP_COUNT ? "angle" : op_info[op].text,
	    m.wide ? 64 : 32, n);
	for (int i = 0; i < nresult; i++)
		result[i] = op == OP_COUNT && i / n == ANGLE_TURNS ? m.bits : m.t;
	for (int i = 0; i < n; i++)
		param[i] = m.t;
	hold(m.l);
	if (thread_call(m.l->b, name, x, n, result, out, nresult))
		return;
	thread_function(m.l->b, &(ThreadSignature){name, result, param, nresult, n}, inside);
	spell_out(m, op, inside, n, from);
	thread_function_end(m.l->b, from, nresult);
	thread_call(m.l->b, name, x, n, result, out, nresult);
}

static void
call_functions(Math m, OpKind op, const Reg *x, int n, Reg *out)
{
	for (int i = 0; i < n; i += CALLED_ANGLES)
		call_few(m, op, x + i, MIN(n - i, CALLED_ANGLES), out + i);
}

static void
call_parts(Math m, const Reg *x, int n, Reg *const part[ANGLE_PARTS])
{
	Reg out[ANGLE_PARTS * CALLED_ANGLES];
	for (int i = 0; i < n; i += CALLED_ANGLES) {
		int some = MIN(n - i, CALLED_ANGLES);
		call_few(m, OP_COUNT, x + i, some, out);
		for (int p = 0; p < ANGLE_PARTS; p++)
			memcpy(part[p] + i, out + p * some, sizeof *out * (size_t)some);
	}
}

/* The parts of an angle that dominate the open region; NULL: there are none. */
static const LowerAngle *
find_angle(const Lower *l, Reg x)
{
	for (int i = l->angles.n - 1; i >= 0; i--)
		if (l->angles.at[i].of == x && thread_is_available(l->b, l->angles.at[i].part[ANGLE_SINE]))
			return &l->angles.at[i];
	return NULL;
}

/* The parts of all angles: computed, unless all of them were. */
static void
make_angles(Math m, const Reg *x, int n, Reg *part[ANGLE_PARTS])
{
	bool found = true;
	for (int p = 0; p < ANGLE_PARTS; p++)
		part[p] = NEW_ARRAY(m.l->mem, Reg, n);
	for (int i = 0; i < n && found; i++) {
		const LowerAngle *a = find_angle(m.l, x[i]);
		found = a != NULL;
		for (int p = 0; p < ANGLE_PARTS && a; p++)
			part[p][i] = a->part[p];
	}
	if (found)
		return;
	if (m.l->calls_angles)
		call_parts(m, x, n, part);
	else
		find_parts(m, x, n, true, part);
	for (int i = 0; i < n; i++) {
		LowerAngle a = {x[i], {part[ANGLE_TURNS][i], part[ANGLE_SINE][i], part[ANGLE_COSINE][i]}};
		vec_push(m.l->mem, &m.l->angles, a);
	}
}

void
math_angles(Math m, OpKind op, const Reg *x, int n, bool once, Reg *out)
{
	Reg *part[ANGLE_PARTS];
	if (once && m.l->calls_angles) {
		call_functions(m, op, x, n, out);
		return;
	}
	make_angles(m, x, n, part);
	for (int i = 0; i < n; i++)
		out[i] = function_of_parts(m, op, x[i], part[ANGLE_TURNS][i], part[ANGLE_SINE][i], part[ANGLE_COSINE][i]);
}

/* ---- inverses ---- */

/* z + z^3 p(z^2) */
static Reg
odd_poly(Math m, Reg z, Reg square, Reg p)
{
	return math_fma(m, math_mul(m, z, square), p, z);
}

/* pi/2 times `halves` less y, in two parts. */
static Reg
turn_less(Math m, double halves, Reg y)
{
	const double *part = m.wide ? half_pi_64 : half_pi_32;
	Reg low = math_sub(m, math_const(m, halves * part[1]), y);
	return math_add(m, math_const(m, halves * part[0]), low);
}

Reg
math_atan(Math m, Reg x)
{
	Reg a = math_abs(m, x), far = math_less(m, math_const(m, 1), a);
	Reg z = math_select(m, far, math_reciprocal(m, a), a), square = math_mul(m, z, z);
	Reg y = odd_poly(m, z, square, POLY(m, atan_fit, square));
	return math_copysign(m, math_select(m, far, turn_less(m, 1, y), y), x);
}

Reg
math_atan2(Math m, Reg y, Reg x)
{
	Reg ay = math_abs(m, y), ax = math_abs(m, x), zero = math_const(m, 0), one = math_const(m, 1);
	Reg steep = math_less(m, ax, ay);
	Reg less = math_select(m, steep, ax, ay), more = math_select(m, steep, ay, ax);
	Reg z = math_op2(m, THREAD_FDIV, less, more), square;
	z = math_select(m, math_op2(m, THREAD_FEQ, more, zero), zero, z);
	z = math_select(m, math_op2(m, THREAD_FEQ, less, math_const(m, INFINITY)), one, z);
	square = math_mul(m, z, z);
	Reg r = odd_poly(m, z, square, POLY(m, atan_fit, square));
	r = math_select(m, steep, turn_less(m, 1, r), r);
	Reg back = math_op2(m, THREAD_SLT, math_to_bits(m, x), math_int(m, 0));
	r = math_copysign(m, math_select(m, back, turn_less(m, 2, r), r), y);
	return math_select(m, math_op2(m, THREAD_FUNO, x, y), math_add(m, x, y), r);
}

/* asin of z up to 1/2, or of sqrt((1 - a) / 2) for a above: then the angle is pi/2 less twice that. */
static Reg
asin_part(Math m, Reg a, Reg far)
{
	Reg rest = math_fma(m, a, math_const(m, -0.5), math_const(m, 0.5));
	Reg square = math_select(m, far, rest, math_mul(m, a, a));
	Reg z = math_select(m, far, math_op1(m, THREAD_FSQRT, rest), a);
	return odd_poly(m, z, square, POLY(m, asin_fit, square));
}

Reg
math_asin(Math m, Reg x)
{
	Reg a = math_abs(m, x), far = math_less(m, math_const(m, 0.5), a);
	Reg y = asin_part(m, a, far);
	return math_copysign(m, math_select(m, far, turn_less(m, 1, math_add(m, y, y)), y), x);
}

Reg
math_acos(Math m, Reg x)
{
	Reg a = math_abs(m, x), far = math_less(m, math_const(m, 0.5), a);
	Reg below = math_less(m, x, math_const(m, 0)), y = asin_part(m, a, far), twice = math_add(m, y, y);
	Reg near = turn_less(m, 1, math_select(m, below, math_neg(m, y), y));
	return math_select(m, far, math_select(m, below, turn_less(m, 2, twice), twice), near);
}
