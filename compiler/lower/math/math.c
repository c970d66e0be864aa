/* Mathematical functions, out of what a thread can do: no library is linked.
 *
 * f16, bf16 and fp8 are widened, computed in f32 and rounded once.  f32 stands on the machine's approximations of 2^x,
 * 1/x and 1/sqrt(x), each within about one unit in the last place, and on polynomials; f64 on polynomials alone.  There
 * are no branches but for the reduction of great angles and for remainders.  {fast} ops on f32 and below are the
 * approximations themselves.  docs/math.md lists the greatest errors, which tests/unit/test_math.c measures.
 *
 * Writers may contract a product and a sum into one fma, so nothing here relies on the rounding of a product: what must
 * be exact is written with fma. */
#include "lower/math/math.h"
#include "lower/op_sets.h"

Reg
math_poly(Math m, const double *c, int n, Reg x)
{
	Reg r = math_const(m, c[n - 1]);
	for (int i = n - 2; i >= 0; i--)
		r = math_fma(m, r, x, math_const(m, c[i]));
	return r;
}

/* By an exclusive or: LLVM finds a copysign in an or, which it moves behind a cast to 16 bits, and there it takes eight
 * instructions and the cast of two elements at once. */
Reg
math_copysign(Math m, Reg magnitude, Reg sign)
{
	Reg top = math_op2(m, THREAD_AND, math_to_bits(m, sign), math_int(m, m.wide ? INT64_MIN : INT32_MIN));
	return math_of_bits(m, math_op2(m, THREAD_XOR, math_to_bits(m, magnitude), top));
}

Reg
math_reciprocal(Math m, Reg a)
{
	return m.wide ? math_op2(m, THREAD_FDIV, math_const(m, 1), a) : math_op1(m, THREAD_FRCP_FAST, a);
}

Reg
math_power_of_two(Math m, Reg k)
{
	Reg biased = math_op2(m, THREAD_ADD, k, math_int(m, math_bias(m)));
	return math_of_bits(m, math_op2(m, THREAD_SHL, biased, math_int(m, math_mantissa(m))));
}

Reg
math_round(Math m, Reg x, Reg *k)
{
	double magic = m.wide ? 0x1.8p52 : 0x1.8p23;
	Reg t = math_add(m, x, math_const(m, magic));
	int64_t bits = m.wide ? INT64_C(0x4338000000000000) : 0x4b400000;
	*k = math_op2(m, THREAD_SUB, math_to_bits(m, t), math_int(m, bits));
	return math_sub(m, t, math_const(m, magic));
}

Reg
math_split(Math m, Reg x, bool even, Reg *e)
{
	Lower *l = m.l;
	int mantissa = math_mantissa(m);
	double up = m.wide ? 0x1p54 : 0x1p25;
	Reg tiny = math_less(m, x, math_const(m, m.wide ? 0x1p-1022 : 0x1p-126));
	x = math_select(m, tiny, math_scale(m, x, up), x);
	Reg bits = math_to_bits(m, x);
	int64_t two_thirds = m.wide ? INT64_C(0x3fe5555555555555) : 0x3f2aaaab;
	int64_t half_root = m.wide ? INT64_C(0x3fe6a09e667f3bcd) : 0x3f3504f3;
	Reg above = math_op2(m, THREAD_SUB, bits, math_int(m, even ? half_root : two_thirds));
	Reg whole = math_op2(m, THREAD_ASHR, above, math_int(m, mantissa));
	Reg part = math_op2(m, THREAD_SUB, bits, math_op2(m, THREAD_SHL, whole, math_int(m, mantissa)));
	Reg adjust = math_select(m, tiny, math_int(m, m.wide ? -54 : -25), math_int(m, 0));
	whole = math_op2(m, THREAD_ADD, whole, adjust);
	*e = lower_as(l, CAST_S2F, m.t, whole);
	return math_of_bits(m, part);
}

/* The hardware's own, where it has one. */
static Reg
approximate(Math m, OpKind op, Reg a, Reg b)
{
	switch (op) {
	case OP_EXP: return math_op1(m, THREAD_EXP2_FAST, math_scale(m, a, 0x1.715476p0));
	case OP_EXP2: return math_op1(m, THREAD_EXP2_FAST, a);
	case OP_LOG: return math_scale(m, math_op1(m, THREAD_LOG2_FAST, a), 0x1.62e430p-1);
	case OP_LOG2: return math_op1(m, THREAD_LOG2_FAST, a);
	case OP_SQRT: return math_op1(m, THREAD_FSQRT_FAST, a);
	case OP_SIN: return math_op1(m, THREAD_SIN_FAST, a);
	case OP_COS: return math_op1(m, THREAD_COS_FAST, a);
	case OP_TAN: {
		Reg inverse = math_op1(m, THREAD_FRCP_FAST, math_op1(m, THREAD_COS_FAST, a));
		return math_mul(m, math_op1(m, THREAD_SIN_FAST, a), inverse);
	}
	case OP_TANH: return math_op1(m, THREAD_TANH_FAST, a);
	case OP_SIGMOID: {
		Reg e = math_op1(m, THREAD_EXP2_FAST, math_scale(m, a, -0x1.715476p0));
		return math_op1(m, THREAD_FRCP_FAST, math_add(m, e, math_const(m, 1)));
	}
	case OP_POW:
		return math_op1(m, THREAD_EXP2_FAST, math_mul(m, math_op1(m, THREAD_LOG2_FAST, a), b));
	default: return 0;
	}
}

static Reg
spelled_out(Math m, OpKind op, Reg a, Reg b)
{
	Reg r;
	switch ((MathOp)op) {
	case MATH_EXP: return math_exp(m, a, 1);
	case MATH_EXP2: return math_exp2(m, a);
	case MATH_EXPM1: return math_expm1(m, a);
	case MATH_LOG: return math_log(m, a);
	case MATH_LOG2: return math_log2(m, a);
	case MATH_LOG1P: return math_log1p(m, a);
	case MATH_SQRT: return math_op1(m, THREAD_FSQRT, a);
	case MATH_RSQRT: return math_rsqrt(m, a);
	case MATH_SIN:
	case MATH_COS:
	case MATH_TAN: math_angles(m, op, &a, 1, true, &r); return r;
	case MATH_SINH: return math_sinh(m, a);
	case MATH_COSH: return math_cosh(m, a);
	case MATH_TANH: return math_tanh(m, a);
	case MATH_ASIN: return math_asin(m, a);
	case MATH_ACOS: return math_acos(m, a);
	case MATH_ATAN: return math_atan(m, a);
	case MATH_ERF: return math_erf(m, a);
	case MATH_SIGMOID: return math_sigmoid(m, a);
	case MATH_POW: return math_pow(m, a, b);
	case MATH_ATAN2: return math_atan2(m, a, b);
	case MATH_REM: return math_rem(m, a, b);
	case MATH_NONE: break;
	}
	die("%s is no function", op_info[op].text);
}

static void
angles(Math m, const Op *op, DType t, const Reg *a, int n, Reg *out)
{
	Reg *x = MAP_OF(m.l->mem, Reg, i, n, lower_widen(m.l, t, a[i]));
	math_angles(m, op->kind, x, n, op->in[0]->nuses == 1, out);
	for (int i = 0; i < n; i++)
		out[i] = lower_narrow(m.l, t, out[i]);
}

Reg
math_call(Math m, OpKind op, Reg a, Reg b)
{
	const Reg in[] = {a, b};
	Reg r;
	return m.l->t->functions && !m.wide && thread_call(m.l->b, op_info[op].text, in, b ? 2 : 1, &m.t, &r, 1) ? r : 0;
}

/* A function of its own, where the target's language has the others too. */
static Reg
called(Math m, OpKind op, Reg a, Reg b)
{
	Reg r = math_call(m, op, a, b), inside[2] = {0};
	if (r || !m.l->t->functions || m.wide)
		return r;
	const RegType type[] = {m.t, m.t};
	thread_function(m.l->b, &(ThreadSignature){op_info[op].text, type, type, 1, b ? 2 : 1}, inside);
	Reg result = spelled_out(m, op, inside[0], inside[1]);
	thread_function_end(m.l->b, &result, 1);
	return math_call(m, op, a, b);
}

Reg
math_one(Math m, OpKind op, bool fast, Reg a, Reg b)
{
	Reg r = fast && !m.wide ? approximate(m, op, a, b) : 0;
	if (!r && op != OP_SQRT)
		r = called(m, op, a, b);
	return r ? r : spelled_out(m, op, a, b);
}

void
lower_math(Lower *l, Op *op)
{
	DType t = op->out[0].type->elem;
	bool wide = t == TY_F64, fast = attr_fast(op);
	Math m = {l, wide ? REG_F64 : REG_F32, wide ? REG_I64 : REG_I32, wide};
	const Reg *a = lower_regs(l, op->in[0]), *b = op->nin > 1 ? lower_regs(l, op->in[1]) : NULL;
	int n = lower_count(&op->out[0]);
	Reg *out = lower_new(l, &op->out[0]);
	bool turns = op->kind == OP_SIN || op->kind == OP_COS || op->kind == OP_TAN;
	if (turns && (wide || !fast) && !(l->t->functions && !wide)) {
		angles(m, op, t, a, n, out);
		return;
	}
	for (int i = 0; i < n; i++) {
		Reg x = lower_widen(l, t, a[i]), y = b ? lower_widen(l, t, b[i]) : 0;
		out[i] = lower_narrow(l, t, math_one(m, op->kind, fast, x, y));
	}
}
