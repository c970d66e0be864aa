/* Remainders of floats, exactly: a - b trunc(a / b), of a's sign.
 *
 * With a = A 2^i and b = B 2^j in whole numbers, A 2^(i - j) mod B is found a few bits at a time, as many as fit into 64
 * bits above B.  Small quotients take one turn of the loop. */
#include "lower/math/math.h"

#include <math.h>

/* |x| as whole * 2^exponent (REG_I64 both); whole is 0 only of 0. */
static void
take_apart(Math m, Reg x, Reg *whole, Reg *exponent)
{
	Lower *l = m.l;
	int mantissa = math_mantissa(m);
	Reg bits = math_to_bits(m, math_abs(m, x));
	if (!m.wide)
		bits = lower_as(l, CAST_ZEXT, REG_I64, bits);
	Reg field = lower_op2(l, THREAD_LSHR, bits, lower_i64(l, mantissa));
	Reg part = lower_op2(l, THREAD_AND, bits, lower_i64(l, (INT64_C(1) << mantissa) - 1));
	Reg normal = lower_op2(l, THREAD_NE, field, lower_i64(l, 0));
	Reg full = lower_op2(l, THREAD_OR, part, lower_i64(l, INT64_C(1) << mantissa));
	*whole = lower_op3(l, THREAD_SELECT, normal, full, part);
	*exponent = lower_op2(l, THREAD_UMAX, field, lower_i64(l, 1));
}

/* whole * 2^(exponent - bias - mantissa), exact. */
static Reg
put_together(Math m, Reg whole, Reg exponent)
{
	Lower *l = m.l;
	Reg one = lower_as(l, CAST_S2F, m.t, whole);
	/* a power of two in two steps: the exponent's field may be 1, of denormals */
	Reg down = lower_op2(l, THREAD_SUB, exponent, lower_i64(l, math_mantissa(m) + math_bias(m)));
	Reg half = lower_op2(l, THREAD_ASHR, down, lower_i64(l, 1)), rest = lower_op2(l, THREAD_SUB, down, half);
	if (!m.wide) {
		half = lower_as(l, CAST_TRUNC, REG_I32, half);
		rest = lower_as(l, CAST_TRUNC, REG_I32, rest);
	}
	/* the smaller step is exact as long as the sum of both is */
	return math_mul(m, math_mul(m, one, math_power_of_two(m, half)), math_power_of_two(m, rest));
}

Reg
math_rem(Math m, Reg a, Reg b)
{
	Lower *l = m.l;
	Reg whole, above, divisor, below, in[2], after[2], zero = lower_i64(l, 0), one = lower_i64(l, 1);
	take_apart(m, a, &whole, &above);
	take_apart(m, b, &divisor, &below);
	divisor = lower_op2(l, THREAD_UMAX, divisor, one);
	Reg apart = lower_op2(l, THREAD_SUB, above, below);
	int step = 63 - math_mantissa(m) - 1;
	Reg least = lower_op2(l, THREAD_SMAX, apart, zero);
	Reg init[2] = {lower_op2(l, THREAD_UREM, whole, divisor), least};
	thread_while(l->b, init, in, 2);
	thread_while_test(l->b, lower_op2(l, THREAD_SLT, zero, in[1]));
	Reg by = lower_op2(l, THREAD_SMIN, in[1], lower_i64(l, step));
	Reg next[2] = {lower_op2(l, THREAD_UREM, lower_op2(l, THREAD_SHL, in[0], by), divisor),
		lower_op2(l, THREAD_SUB, in[1], by)};
	thread_while_end(l->b, next, after, 2);
	Reg r = math_copysign(m, put_together(m, after[0], below), a);
	Reg size_a = math_abs(m, a), size_b = math_abs(m, b), inf = math_const(m, INFINITY);
	r = math_select(m, math_less(m, size_a, size_b), a, r);
	Reg fine = math_op2(m, THREAD_AND, math_less(m, size_a, inf), math_less(m, math_const(m, 0), size_b));
	return math_select(m, fine, math_select(m, math_is_nan(m, b), b, r), math_const(m, NAN));
}
