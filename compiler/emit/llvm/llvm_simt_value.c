/* Arithmetic of a GPU's thread on this machine: the same numbers as the GPU's instructions give, or, where those are
 * approximations, the exact ones rounded.  What this machine has no instruction for is a call of
 * runtime/simt/arithmetic.c. */
#include "emit/llvm/llvm.h"

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
		return llvm_call(l, "llvm.convert.from.fp16", &l->type[REG_F32], 1, &v, 1);
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

LLVMValueRef
llvm_simt_real(EmitLlvm *l, LLVMValueRef v, RegType from, RegType to)
{
	if (llvm_is_narrow(from))
		return llvm_real(l, widen(l, v, from), REG_F32, to);
	if (from == REG_F64)
		return help(l, to == REG_F16 ? "simt_to_f16_of_f64" : "simt_to_bf16_of_f64", REG_I16, v);
	if (to == REG_BF16)
		return round_bf16(l, v);
	if (!l->host.has_half)
		return help(l, "simt_to_f16", REG_I16, v);
	return llvm_call1(l, "llvm.convert.to.fp16", &v, 1);
}

/* Towards zero, held to the range, NaN is 0: LLVM says it so. */
LLVMValueRef
llvm_simt_to_int(EmitLlvm *l, LLVMValueRef v, RegType to, bool is_signed)
{
	LLVMTypeRef over[2] = {l->type[to], LLVMTypeOf(v)};
	return llvm_call(l, is_signed ? "llvm.fptosi.sat" : "llvm.fptoui.sat", over, 2, &v, 1);
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
	return llvm_real(l, help(l, name, REG_F64, llvm_real(l, v, type, REG_F64)), REG_F64, type);
}

static LLVMValueRef
inverse_root(EmitLlvm *l, LLVMValueRef v, RegType type)
{
	LLVMValueRef wide = llvm_real(l, v, type, REG_F64);
	wide = LLVMBuildFDiv(l->b, LLVMConstReal(l->type[REG_F64], 1), llvm_call1(l, "llvm.sqrt", &wide, 1), "");
	return llvm_real(l, wide, REG_F64, type);
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

/* The sign is the upper bit. */
LLVMValueRef
llvm_simt_sign(EmitLlvm *l, ThreadOp op, LLVMValueRef v)
{
	if (op == THREAD_FNEG)
		return LLVMBuildXor(l->b, v, LLVMConstInt(l->type[REG_I16], 0x8000, false), "");
	return LLVMBuildAnd(l->b, v, LLVMConstInt(l->type[REG_I16], 0x7fff, false), "");
}

/* Of f32 or f64. */
LLVMValueRef
llvm_simt_float(EmitLlvm *l, ThreadOp op, LLVMValueRef *v, RegType type)
{
	switch (op) {
	case THREAD_FMIN: return lesser(l, v, type, false);
	case THREAD_FMAX: return lesser(l, v, type, true);
	case THREAD_FMA_SAT: return between_0_and_1(l, llvm_call1(l, "llvm.fma", v, 3));
	case THREAD_FDIV_FAST: return LLVMBuildFDiv(l->b, v[0], v[1], "");
	case THREAD_FSQRT_FAST: return llvm_call1(l, "llvm.sqrt", v, 1);
	case THREAD_FRSQRT_FAST: return inverse_root(l, v[0], type);
	case THREAD_FRCP_FAST: return LLVMBuildFDiv(l->b, LLVMConstReal(l->type[type], 1), v[0], "");
	case THREAD_EXP2_FAST: return through_f64(l, "simt_exp2", v[0], type);
	case THREAD_LOG2_FAST: return through_f64(l, "simt_log2", v[0], type);
	case THREAD_SIN_FAST: return through_f64(l, "simt_sin", v[0], type);
	case THREAD_COS_FAST: return through_f64(l, "simt_cos", v[0], type);
	case THREAD_TANH_FAST: return through_f64(l, "simt_tanh", v[0], type);
	default: die("%s of floats", thread_op_text[op]);
	}
}
