/* Arithmetic of one thread of the lockstep machine, on words. */
#include "emit/lockstep.h"
#include "ir/interp/interp.h"

#include <math.h>
#include <string.h>

int
lockstep_width(RegType t)
{
	static const int width[REG_TYPES] = {
		[REG_PRED] = 1, [REG_I8] = 8, [REG_I16] = 16, [REG_I32] = 32, [REG_I64] = 64, [REG_F16] = 16,
		[REG_BF16] = 16, [REG_F32] = 32, [REG_F64] = 64, [REG_GLOBAL] = 64, [REG_SHARED] = 32,
	};
	return width[t];
}

static DType
float_dtype(RegType t)
{
	return t == REG_F16 ? TY_F16 : t == REG_BF16 ? TY_BF16 : t == REG_F64 ? TY_F64 : TY_F32;
}

double
lockstep_real(RegType t, uint64_t bits)
{
	return dtype_load_f64(float_dtype(t), &bits, 0);
}

uint64_t
lockstep_bits(RegType t, double v)
{
	uint64_t bits = 0;
	dtype_store_f64(float_dtype(t), &bits, 0, v);
	return bits;
}

static uint64_t
cut(int width, uint64_t v)
{
	return width == 64 ? v : v & ((UINT64_C(1) << width) - 1);
}

static int64_t
extend(int width, uint64_t v)
{
	return width == 64 ? (int64_t)v : (int64_t)(v << (64 - width)) >> (64 - width);
}

__extension__ typedef unsigned __int128 Wide;
__extension__ typedef __int128 SignedWide;

static uint64_t
integer(EmitOp op, int w, uint64_t a, uint64_t b)
{
	int64_t x = extend(w, a), y = extend(w, b);
	switch (op) {
	case EMIT_ADD: return a + b;
	case EMIT_SUB: return a - b;
	case EMIT_MUL: return a * b;
	case EMIT_SDIV: return y == 0 ? 0xdead : y == -1 ? 0 - a : (uint64_t)(x / y);
	case EMIT_UDIV: return b == 0 ? 0xdead : a / b;
	case EMIT_SREM: return y == 0 ? 0xdead : y == -1 ? 0 : (uint64_t)(x % y);
	case EMIT_UREM: return b == 0 ? 0xdead : a % b;
	case EMIT_AND: return a & b;
	case EMIT_OR: return a | b;
	case EMIT_XOR: return a ^ b;
	case EMIT_NOT: return ~a;
	case EMIT_SHL: return b < (uint64_t)w ? a << b : 0xdead;
	case EMIT_LSHR: return b < (uint64_t)w ? a >> b : 0xdead;
	case EMIT_ASHR: return b < (uint64_t)w ? (uint64_t)(x >> b) : 0xdead;
	case EMIT_MULHI_U: return (uint64_t)((Wide)a * b >> w);
	case EMIT_MULHI_S: return (uint64_t)((SignedWide)x * y >> w);
	case EMIT_SMIN: return x < y ? a : b;
	case EMIT_SMAX: return x > y ? a : b;
	case EMIT_UMIN: return a < b ? a : b;
	case EMIT_UMAX: return a > b ? a : b;
	case EMIT_POPCOUNT: return (uint64_t)__builtin_popcountll(a);
	case EMIT_CLZ: return a ? (uint64_t)(__builtin_clzll(a) - (64 - w)) : (uint64_t)w;
	case EMIT_EQ: return a == b;
	case EMIT_NE: return a != b;
	case EMIT_SLT: return x < y;
	case EMIT_SLE: return x <= y;
	case EMIT_ULT: return a < b;
	case EMIT_ULE: return a <= b;
	default: die("%s of integers", emit_op_text[op]);
	}
}

static bool
compare(EmitOp op, double a, double b)
{
	switch (op) {
	case EMIT_FEQ: return a == b;
	case EMIT_FNE: return !(a == b);
	case EMIT_FLT: return a < b;
	case EMIT_FLE: return a <= b;
	default: return isnan(a) || isnan(b);
	}
}

static double
least(double a, double b, bool greatest)
{
	if (isnan(a))
		return b;
	if (isnan(b))
		return a;
	if (a == b)
		return (signbit(a) != 0) != greatest ? a : b;
	return (a < b) != greatest ? a : b;
}

/* Results of f64 and, rounded once more by the caller, of what is narrower: the sum, product and quotient of two f32 in
 * f64 rounds to what f32 arithmetic gives. */
static double
real(EmitOp op, double a, double b, double c)
{
	switch (op) {
	case EMIT_FNEG: return -a;
	case EMIT_FABS: return fabs(a);
	case EMIT_FADD: return a + b;
	case EMIT_FSUB: return a - b;
	case EMIT_FMUL: return a * b;
	case EMIT_FDIV: case EMIT_FDIV_FAST: return a / b;
	case EMIT_FMA: return fma(a, b, c);
	case EMIT_FMIN: return least(a, b, false);
	case EMIT_FMAX: return least(a, b, true);
	case EMIT_FSQRT: case EMIT_FSQRT_FAST: return sqrt(a);
	case EMIT_FRSQRT_FAST: return 1 / sqrt(a);
	case EMIT_FRCP_FAST: return 1 / a;
	case EMIT_EXP2_FAST: return exp2(a);
	case EMIT_LOG2_FAST: return log2(a);
	case EMIT_SIN_FAST: return sin(a);
	case EMIT_COS_FAST: return cos(a);
	case EMIT_FMA_SAT: return fmin(fmax(fma(a, b, c), 0), 1);
	case EMIT_TANH_FAST: return tanh(a);
	case EMIT_FFLOOR: return floor(a);
	case EMIT_FCEIL: return ceil(a);
	case EMIT_FROUND: return rint(a);
	case EMIT_FTRUNC: return trunc(a);
	default: die("%s of floats", emit_op_text[op]);
	}
}

static bool
is_float_op(EmitOp op)
{
	return (op >= EMIT_FNEG && op <= EMIT_FTRUNC) || (op >= EMIT_FEQ && op <= EMIT_FUNO);
}

uint64_t
lockstep_op(EmitOp op, RegType t, uint64_t a, uint64_t b, uint64_t c)
{
	int w = lockstep_width(t);
	if (op == EMIT_SELECT)
		return a ? b : c;
	if (!is_float_op(op))
		return cut(op >= EMIT_EQ && op <= EMIT_ULE ? 1 : w, integer(op, w, a, b));
	if (op == EMIT_FNEG)
		return a ^ UINT64_C(1) << (w - 1);
	if (op == EMIT_FABS)
		return a & ~(UINT64_C(1) << (w - 1));
	if (t == REG_F32 && op == EMIT_FMA) {           /* once, in f32 */
		float x = fmaf((float)lockstep_real(t, a), (float)lockstep_real(t, b), (float)lockstep_real(t, c));
		return lockstep_bits(t, x);
	}
	double x = lockstep_real(t, a), y = lockstep_real(t, b);
	if (op >= EMIT_FEQ)
		return compare(op, x, y);
	return lockstep_bits(t, real(op, x, y, op == EMIT_FMA || op == EMIT_FMA_SAT ? lockstep_real(t, c) : 0));
}

static uint64_t
to_integer(RegType to, double v, bool is_signed)
{
	int w = lockstep_width(to);
	double low = is_signed ? -ldexp(1, w - 1) : 0, high = ldexp(1, is_signed ? w - 1 : w);
	v = trunc(v);
	if (isnan(v))
		return 0;
	if (v >= high)
		return is_signed ? cut(w, (UINT64_C(1) << (w - 1)) - 1) : cut(w, UINT64_MAX);
	if (v <= low)
		return is_signed ? UINT64_C(1) << (w - 1) : 0;
	return is_signed ? cut(w, (uint64_t)(int64_t)v) : (uint64_t)v;
}

static uint64_t
from_integer(RegType to, uint64_t a, int64_t s, bool is_signed)
{
	if (to == REG_F32) {
		float f = is_signed ? (float)s : (float)a;
		uint32_t bits;
		memcpy(&bits, &f, sizeof bits);
		return bits;
	}
	return lockstep_bits(to, is_signed ? (double)s : (double)a);
}

uint64_t
lockstep_cast(EmitCast c, RegType from, RegType to, uint64_t a)
{
	int w = lockstep_width(to);
	switch (c) {
	case CAST_SEXT: return cut(w, (uint64_t)extend(lockstep_width(from), a));
	case CAST_ZEXT: return a;
	case CAST_TRUNC: return cut(w, a);
	case CAST_S2F: return from_integer(to, a, extend(lockstep_width(from), a), true);
	case CAST_U2F: return from_integer(to, a, 0, false);
	case CAST_F2S: return to_integer(to, lockstep_real(from, a), true);
	case CAST_F2U: return to_integer(to, lockstep_real(from, a), false);
	case CAST_FEXT:
	case CAST_FTRUNC: return lockstep_bits(to, lockstep_real(from, a));
	default: return a;
	}
}
