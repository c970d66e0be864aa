/* Values that PTX has instructions of its own for.
 *
 * What they do by themselves is not spelled out: a conversion of a float to 32 bits saturates and takes NaN to 0, as the
 * language wants; from f64 or to 64 bits NaN gives the sign bit alone, so a select puts the 0 (PTX ISA, cvt). */
#include "emit/llvm/llvm.h"

/* Most are of the special function unit. */
LLVMValueRef
llvm_nvptx_float(EmitLlvm *l, ThreadOp op, LLVMValueRef *v, RegType type)
{
	const char *text;
	switch (op) {
	case THREAD_FMIN: return llvm_call1(l, "llvm.minimumnum", v, 2);
	case THREAD_FMAX: return llvm_call1(l, "llvm.maximumnum", v, 2);
	case THREAD_FDIV_FAST: text = "div.full.f32 $0, $1, $2;"; break;
	case THREAD_FSQRT_FAST: text = "sqrt.approx.f32 $0, $1;"; break;
	case THREAD_FRSQRT_FAST: text = "rsqrt.approx.ftz.f32 $0, $1;"; break;
	case THREAD_FRCP_FAST: text = "rcp.approx.ftz.f32 $0, $1;"; break;
	case THREAD_EXP2_FAST: text = "ex2.approx.ftz.f32 $0, $1;"; break;
	case THREAD_LOG2_FAST: text = "lg2.approx.f32 $0, $1;"; break;
	case THREAD_SIN_FAST: text = "sin.approx.f32 $0, $1;"; break;
	case THREAD_COS_FAST: text = "cos.approx.f32 $0, $1;"; break;
	case THREAD_FMA_SAT: text = "fma.rn.sat.f32 $0, $1, $2, $3;"; break;
	case THREAD_TANH_FAST: text = "tanh.approx.f32 $0, $1;"; break;
	default: die("%s of floats", thread_op_text[op]);
	}
	return llvm_asm_op(l, text, REG_F32, v, thread_op_operands[op]);
}

/* 32 or 64 bits; the names of cvt's intrinsics. */
static LLVMValueRef
float_to_word(EmitLlvm *l, LLVMValueRef v, bool is_f64, bool is_64, bool is_signed)
{
	const char *name = arena_printf(l->mem, "llvm.nvvm.%c2%s%s.rz", is_f64 ? 'd' : 'f',
	    is_signed ? "" : "u", is_64 ? "ll" : "i");
	LLVMValueRef r = llvm_call(l, name, NULL, 0, &v, 1);
	if (!is_f64 && !is_64)
		return r;
	return LLVMBuildSelect(
	    l->b, LLVMBuildFCmp(l->b, LLVMRealUNO, v, v, ""), LLVMConstNull(LLVMTypeOf(r)), r, "");
}

LLVMValueRef
llvm_nvptx_to_int(EmitLlvm *l, LLVMValueRef v, RegType from, RegType to, bool is_signed)
{
	v = float_to_word(l, v, from == REG_F64, to == REG_I64, is_signed);
	if (to == REG_I32 || to == REG_I64)
		return v;
	int bits = to == REG_I8 ? 8 : 16;
	int64_t most = is_signed ? (1 << (bits - 1)) - 1 : (1 << bits) - 1;
	LLVMValueRef arg[2] = {v, llvm_i32(l, most)};
	arg[0] = llvm_call1(l, is_signed ? "llvm.smin" : "llvm.umin", arg, 2);
	arg[1] = llvm_i32(l, -most - 1);
	if (is_signed)
		arg[0] = llvm_call1(l, "llvm.smax", arg, 2);
	return LLVMBuildTrunc(l->b, arg[0], l->type[to], "");
}
