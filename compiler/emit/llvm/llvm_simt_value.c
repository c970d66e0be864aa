/* Arithmetic of a GPU's thread on this machine: the same numbers as the GPU's instructions give, or, where those are
 * approximations, the exact ones rounded.
 *
 * Floats of 16 bits are kept as their bits.  One operation on two of them is done in f32 and rounded again, which for
 * sums, products, quotients and roots gives what one rounding would; a product and sum in one are done in f64.  What
 * this machine has no instruction for is a call of runtime/simt/arithmetic.c. */
#include "emit/llvm/llvm.h"

#include <string.h>

static bool
is_narrow(RegType type)
{
	return type == REG_F16 || type == REG_BF16;
}

static LLVMValueRef
intrinsic(EmitLlvm *l, const char *name, LLVMValueRef *arg, int n)
{
	LLVMTypeRef type = LLVMTypeOf(arg[0]);
	return llvm_call(l, name, &type, 1, arg, n);
}

static LLVMValueRef
help(EmitLlvm *l, const char *name, RegType result, LLVMValueRef v)
{
	return llvm_host_call(l, name, l->type[result], &v, 1, HOST_PURE);
}

static LLVMValueRef
bits(EmitLlvm *l, LLVMValueRef v, RegType as)
{
	return LLVMBuildBitCast(l->b, v, l->type[as], "");
}

/* ---- between widths ---- */

/* bf16 are the upper half of f32. */
static LLVMValueRef
widen(EmitLlvm *l, LLVMValueRef v, RegType from)
{
	LLVMValueRef word;
	if (from == REG_F16 && l->host.has_half)
		return LLVMBuildFPExt(
		    l->b, LLVMBuildBitCast(l->b, v, LLVMHalfTypeInContext(l->cx), ""), l->type[REG_F32], "");
	if (from == REG_F16)
		return help(l, "simt_from_f16", REG_F32, v);
	word = LLVMBuildZExt(l->b, v, l->type[REG_I32], "");
	return bits(l, LLVMBuildShl(l->b, word, llvm_i32(l, 16), ""), REG_F32);
}

/* To nearest, ties to even: half of what is cut off, less one where the last bit kept is 0, may carry into it. */
static LLVMValueRef
round_bf16(EmitLlvm *l, LLVMValueRef v)
{
	LLVMBuilderRef b = l->b;
	LLVMValueRef word = bits(l, v, REG_I32), top = LLVMBuildLShr(b, word, llvm_i32(l, 16), "");
	LLVMValueRef more = LLVMBuildAdd(b, LLVMBuildAnd(b, top, llvm_i32(l, 1), ""), llvm_i32(l, 0x7fff), "");
	LLVMValueRef rounded = LLVMBuildLShr(b, LLVMBuildAdd(b, word, more, ""), llvm_i32(l, 16), "");
	LLVMValueRef nan = LLVMBuildOr(b, top, llvm_i32(l, 0x40), "");
	LLVMValueRef is_nan = LLVMBuildFCmp(b, LLVMRealUNO, v, v, "");
	return LLVMBuildTrunc(b, LLVMBuildSelect(b, is_nan, nan, rounded, ""), l->type[REG_I16], "");
}

/* An f32 or f64 as `to`. */
static LLVMValueRef
narrow(EmitLlvm *l, LLVMValueRef v, RegType from, RegType to)
{
	if (to == from)
		return v;
	if (to == REG_F32)
		return LLVMBuildFPTrunc(l->b, v, l->type[REG_F32], "");
	if (to == REG_F64)
		return LLVMBuildFPExt(l->b, v, l->type[REG_F64], "");
	if (from == REG_F64)
		return help(l, to == REG_F16 ? "simt_to_f16_of_f64" : "simt_to_bf16_of_f64", REG_I16, v);
	if (to == REG_BF16)
		return round_bf16(l, v);
	if (!l->host.has_half)
		return help(l, "simt_to_f16", REG_I16, v);
	return bits(l, LLVMBuildFPTrunc(l->b, v, LLVMHalfTypeInContext(l->cx), ""), REG_I16);
}

/* Any float as f32 or f64. */
static LLVMValueRef
as_wide(EmitLlvm *l, LLVMValueRef v, RegType from, RegType to)
{
	if (is_narrow(from)) {
		v = widen(l, v, from);
		from = REG_F32;
	}
	return narrow(l, v, from, to);
}

/* ---- operations ---- */

static LLVMValueRef
between_0_and_1(EmitLlvm *l, LLVMValueRef v)
{
	LLVMValueRef zero = LLVMConstNull(LLVMTypeOf(v)), one = LLVMConstReal(LLVMTypeOf(v), 1);
	v = LLVMBuildSelect(l->b, LLVMBuildFCmp(l->b, LLVMRealOGT, v, zero, ""), v, zero, "");
	return LLVMBuildSelect(l->b, LLVMBuildFCmp(l->b, LLVMRealOLT, v, one, ""), v, one, "");
}

/* In f64, from and to `type`. */
static LLVMValueRef
through_f64(EmitLlvm *l, const char *name, LLVMValueRef v, RegType type)
{
	return narrow(l, help(l, name, REG_F64, as_wide(l, v, type, REG_F64)), REG_F64, type);
}

static LLVMValueRef
inverse_root(EmitLlvm *l, LLVMValueRef v, RegType type)
{
	LLVMValueRef wide = as_wide(l, v, type, REG_F64);
	wide = LLVMBuildFDiv(l->b, LLVMConstReal(l->type[REG_F64], 1), intrinsic(l, "llvm.sqrt", &wide, 1), "");
	return narrow(l, wide, REG_F64, type);
}

/* The lesser or greater: a NaN loses, and -0 is less than 0.  (LLVM 22's own minimumnum gives a NaN on an x86 with AVX-512
 * where it sees that the other operand is none.)  Equal ones differ in a zero's sign at most: of bits, or and and. */
static LLVMValueRef
lesser(EmitLlvm *l, LLVMValueRef *v, RegType type, bool greater)
{
	LLVMBuilderRef b = l->b;
	RegType word = type == REG_F64 ? REG_I64 : REG_I32;
	LLVMValueRef x = bits(l, v[0], word), y = bits(l, v[1], word);
	LLVMValueRef same = bits(l, greater ? LLVMBuildAnd(b, x, y, "") : LLVMBuildOr(b, x, y, ""), type);
	LLVMValueRef first = LLVMBuildFCmp(b, greater ? LLVMRealOGT : LLVMRealOLT, v[0], v[1], "");
	LLVMValueRef lost = LLVMBuildFCmp(b, LLVMRealUNO, v[1], v[1], "");
	LLVMValueRef equal = LLVMBuildFCmp(b, LLVMRealOEQ, v[0], v[1], "");
	LLVMValueRef one = LLVMBuildSelect(b, LLVMBuildOr(b, first, lost, ""), v[0], v[1], "");
	return LLVMBuildSelect(b, equal, same, one, "");
}

/* Of f32 or f64. */
static LLVMValueRef
wide_op(EmitLlvm *l, EmitOp op, LLVMValueRef *v, RegType type)
{
	LLVMBuilderRef b = l->b;
	LLVMValueRef one = LLVMConstReal(l->type[type], 1);
	switch (op) {
	case EMIT_FNEG: return LLVMBuildFNeg(b, v[0], "");
	case EMIT_FABS: return intrinsic(l, "llvm.fabs", v, 1);
	case EMIT_FADD: return LLVMBuildFAdd(b, v[0], v[1], "");
	case EMIT_FSUB: return LLVMBuildFSub(b, v[0], v[1], "");
	case EMIT_FMUL: return LLVMBuildFMul(b, v[0], v[1], "");
	case EMIT_FDIV:
	case EMIT_FDIV_FAST: return LLVMBuildFDiv(b, v[0], v[1], "");
	case EMIT_FMA: return intrinsic(l, "llvm.fma", v, 3);
	case EMIT_FMA_SAT: return between_0_and_1(l, intrinsic(l, "llvm.fma", v, 3));
	case EMIT_FMIN: return lesser(l, v, type, false);
	case EMIT_FMAX: return lesser(l, v, type, true);
	case EMIT_FSQRT:
	case EMIT_FSQRT_FAST: return intrinsic(l, "llvm.sqrt", v, 1);
	case EMIT_FRSQRT_FAST: return inverse_root(l, v[0], type);
	case EMIT_FRCP_FAST: return LLVMBuildFDiv(b, one, v[0], "");
	case EMIT_EXP2_FAST: return through_f64(l, "simt_exp2", v[0], type);
	case EMIT_LOG2_FAST: return through_f64(l, "simt_log2", v[0], type);
	case EMIT_SIN_FAST: return through_f64(l, "simt_sin", v[0], type);
	case EMIT_COS_FAST: return through_f64(l, "simt_cos", v[0], type);
	case EMIT_TANH_FAST: return through_f64(l, "simt_tanh", v[0], type);
	case EMIT_FFLOOR: return intrinsic(l, "llvm.floor", v, 1);
	case EMIT_FCEIL: return intrinsic(l, "llvm.ceil", v, 1);
	case EMIT_FROUND: return intrinsic(l, "llvm.roundeven", v, 1);
	case EMIT_FTRUNC: return intrinsic(l, "llvm.trunc", v, 1);
	default: die("%s of floats", emit_op_text[op]);
	}
}

/* Of 16 bits. */
static LLVMValueRef
narrow_op(EmitLlvm *l, EmitOp op, LLVMValueRef *v, int n, RegType type)
{
	RegType through = op == EMIT_FMA || op == EMIT_FMA_SAT ? REG_F64 : REG_F32;
	if (op == EMIT_FNEG)
		return LLVMBuildXor(l->b, v[0], LLVMConstInt(l->type[REG_I16], 0x8000, false), "");
	if (op == EMIT_FABS)
		return LLVMBuildAnd(l->b, v[0], LLVMConstInt(l->type[REG_I16], 0x7fff, false), "");
	for (int i = 0; i < n; i++)
		v[i] = as_wide(l, v[i], type, through);
	return narrow(l, wide_op(l, op, v, through), through, type);
}

static Reg
emit_op(Emitter *e, EmitOp op, Reg a, Reg b, Reg c)
{
	EmitLlvm *l = llvm_state(e);
	const Reg in[3] = {a, b, c};
	LLVMValueRef v[3] = {0}, r;
	RegType type = llvm_reg_type(l, a);
	int n = emit_op_operands[op];
	for (int i = 0; i < n; i++)
		v[i] = llvm_value(l, in[i]);
	if (op == EMIT_SELECT)
		return llvm_add(l, llvm_reg_type(l, b), LLVMBuildSelect(l->b, v[0], v[1], v[2], ""));
	for (int i = 0; i < n && is_narrow(type) && op >= EMIT_FEQ; i++)
		v[i] = widen(l, v[i], type);
	if ((r = llvm_compare(l, op, v)))
		return llvm_add(l, REG_PRED, r);
	if ((r = llvm_integer(l, op, v)))
		return llvm_add(l, type, r);
	r = is_narrow(type) ? narrow_op(l, op, v, n, type) : wide_op(l, op, v, type);
	return llvm_add(l, type, r);
}

/* ---- constants and conversions ---- */

static Reg
float_const(Emitter *e, RegType type, double v)
{
	EmitLlvm *l = llvm_state(e);
	if (!is_narrow(type))
		return llvm_add(l, type, LLVMConstReal(l->type[type], v));
	LLVMTypeRef real = type == REG_F16 ? LLVMHalfTypeInContext(l->cx) : LLVMBFloatTypeInContext(l->cx);
	return llvm_add(l, type, LLVMConstBitCast(LLVMConstReal(real, v), l->type[REG_I16]));
}

/* Towards zero, held to the range, NaN is 0: LLVM says it so. */
static LLVMValueRef
to_integer(EmitLlvm *l, LLVMValueRef v, RegType from, RegType to, bool is_signed)
{
	v = is_narrow(from) ? widen(l, v, from) : v;
	LLVMTypeRef over[2] = {l->type[to], LLVMTypeOf(v)};
	return llvm_call(l, is_signed ? "llvm.fptosi.sat" : "llvm.fptoui.sat", over, 2, &v, 1);
}

static LLVMValueRef
from_integer(EmitLlvm *l, LLVMValueRef v, RegType to, bool is_signed)
{
	RegType through = is_narrow(to) ? REG_F64 : to;
	v = is_signed ? LLVMBuildSIToFP(l->b, v, l->type[through], "") : LLVMBuildUIToFP(l->b, v, l->type[through], "");
	return narrow(l, v, through, to);
}

static LLVMValueRef
between_floats(EmitLlvm *l, LLVMValueRef v, RegType from, RegType to)
{
	RegType through = is_narrow(from) ? REG_F32 : from;
	if (from == to)
		return v;
	return narrow(l, as_wide(l, v, from, through), through, to);
}

static Reg
cast(Emitter *e, EmitCast c, RegType to, Reg a)
{
	EmitLlvm *l = llvm_state(e);
	LLVMValueRef v = llvm_value(l, a);
	RegType from = llvm_reg_type(l, a);
	switch (c) {
	case CAST_SEXT: v = LLVMBuildSExt(l->b, v, l->type[to], ""); break;
	case CAST_ZEXT: v = LLVMBuildZExt(l->b, v, l->type[to], ""); break;
	case CAST_TRUNC: v = LLVMBuildTrunc(l->b, v, l->type[to], ""); break;
	case CAST_S2F: v = from_integer(l, v, to, true); break;
	case CAST_U2F: v = from_integer(l, v, to, false); break;
	case CAST_F2S: v = to_integer(l, v, from, to, true); break;
	case CAST_F2U: v = to_integer(l, v, from, to, false); break;
	case CAST_FEXT:
	case CAST_FTRUNC: v = between_floats(l, v, from, to); break;
	case CAST_BITS: v = llvm_same_bits(l, v, from, to); break;
	}
	return llvm_add(l, to, v);
}

void
llvm_simt_value_open(EmitLlvm *l)
{
	Emitter *e = &l->e;
	e->float_const = float_const;
	e->op = emit_op;
	e->cast = cast;
}
