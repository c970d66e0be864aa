/* Values: constants, arithmetic, conversions.
 *
 * PTX and this machine do most of it alike.  What the GPU does in an instruction of its own, and floats of 16 bits, are in
 * llvm_nvptx_value.c and llvm_simt_value.c: PTX has types for these and adds and multiplies in them, this machine keeps
 * their bits.  All else of them is done in f32 and rounded again, which for quotients and roots gives what one rounding
 * would; this machine does a product and sum in one in f64. */
#include "emit/llvm/llvm.h"

#include <string.h>

LLVMValueRef
llvm_call(EmitLlvm *l, const char *name, LLVMTypeRef *over, int nover, LLVMValueRef *arg, int n)
{
	unsigned id = LLVMLookupIntrinsicID(name, strlen(name));
	if (id == 0)
		die("LLVM has no intrinsic '%s'", name);
	LLVMValueRef f = LLVMGetIntrinsicDeclaration(l->m, id, over, (size_t)nover);
	return LLVMBuildCall2(l->b, LLVMGlobalGetValueType(f), f, arg, (unsigned)n, "");
}

LLVMValueRef
llvm_call1(EmitLlvm *l, const char *name, LLVMValueRef *arg, int n)
{
	LLVMTypeRef type = LLVMTypeOf(arg[0]);
	return llvm_call(l, name, &type, 1, arg, n);
}

static LLVMValueRef
real_const(EmitLlvm *l, RegType type, double v)
{
	if (!l->opt.host || !llvm_is_narrow(type))
		return LLVMConstReal(l->type[type], v);
	LLVMTypeRef real = type == REG_F16 ? LLVMHalfTypeInContext(l->cx) : LLVMBFloatTypeInContext(l->cx);
	return LLVMConstBitCast(LLVMConstReal(real, v), l->type[type]);
}

LLVMValueRef
llvm_const(EmitLlvm *l, Reg r)
{
	const ThreadNode *n = thread_def(l->thread, r);
	if (n->kind != NODE_CONST)
		die("register %d has no value yet", r);
	if (thread_is_float(n->type))
		return l->value[r] = real_const(l, n->type, n->f);
	LLVMTypeRef type = l->type[n->type == REG_GLOBAL ? REG_I64 : n->type];
	LLVMValueRef v = LLVMConstInt(type, (uint64_t)n->i, true);
	return l->value[r] = n->type == REG_GLOBAL ? LLVMConstIntToPtr(v, l->type[REG_GLOBAL]) : v;
}

/* ---- operations ---- */

static LLVMValueRef
upper_half(EmitLlvm *l, LLVMValueRef *v, bool is_signed)
{
	unsigned bits = LLVMGetIntTypeWidth(LLVMTypeOf(v[0]));
	LLVMTypeRef wide = LLVMIntTypeInContext(l->cx, 2 * bits);
	LLVMValueRef w[2];
	for (int i = 0; i < 2; i++)
		w[i] = is_signed ? LLVMBuildSExt(l->b, v[i], wide, "")
				 : LLVMBuildZExt(l->b, v[i], wide, "");
	LLVMValueRef product = LLVMBuildMul(l->b, w[0], w[1], "");
	return LLVMBuildTrunc(l->b,
	    LLVMBuildLShr(l->b, product, LLVMConstInt(wide, bits, false), ""), LLVMTypeOf(v[0]),
	    "");
}

static LLVMValueRef
count_bits(EmitLlvm *l, ThreadOp op, LLVMValueRef v)
{
	LLVMValueRef arg[2] = {v, LLVMConstInt(l->type[REG_PRED], 0, false)};
	return op == THREAD_CLZ ? llvm_call1(l, "llvm.ctlz", arg, 2) : llvm_call1(l, "llvm.ctpop", arg, 1);
}

/* Operations that are one instruction of LLVM's, a comparison or a call; 0: not so. */
static const LLVMOpcode binary[THREAD_OPS_COUNT] = {
    [THREAD_ADD] = LLVMAdd, [THREAD_SUB] = LLVMSub, [THREAD_MUL] = LLVMMul, [THREAD_SDIV] = LLVMSDiv,
    [THREAD_UDIV] = LLVMUDiv, [THREAD_SREM] = LLVMSRem, [THREAD_UREM] = LLVMURem, [THREAD_AND] = LLVMAnd,
    [THREAD_OR] = LLVMOr, [THREAD_XOR] = LLVMXor, [THREAD_SHL] = LLVMShl, [THREAD_LSHR] = LLVMLShr,
    [THREAD_ASHR] = LLVMAShr,
};
static const LLVMIntPredicate int_predicate[THREAD_OPS_COUNT] = {
    [THREAD_EQ] = LLVMIntEQ, [THREAD_NE] = LLVMIntNE, [THREAD_SLT] = LLVMIntSLT, [THREAD_SLE] = LLVMIntSLE,
    [THREAD_ULT] = LLVMIntULT, [THREAD_ULE] = LLVMIntULE,
};
static const LLVMRealPredicate real_predicate[THREAD_OPS_COUNT] = {
    [THREAD_FEQ] = LLVMRealOEQ, [THREAD_FNE] = LLVMRealUNE, [THREAD_FLT] = LLVMRealOLT, [THREAD_FLE] = LLVMRealOLE,
    [THREAD_FUNO] = LLVMRealUNO,
};
static const char *const call[THREAD_OPS_COUNT] = {
    [THREAD_SMIN] = "llvm.smin", [THREAD_SMAX] = "llvm.smax", [THREAD_UMIN] = "llvm.umin", [THREAD_UMAX] = "llvm.umax",
    [THREAD_FABS] = "llvm.fabs", [THREAD_FMA] = "llvm.fma", [THREAD_FSQRT] = "llvm.sqrt", [THREAD_FFLOOR] = "llvm.floor",
    [THREAD_FCEIL] = "llvm.ceil", [THREAD_FROUND] = "llvm.roundeven", [THREAD_FTRUNC] = "llvm.trunc",
};

/* Of integers, and comparisons; NULL: it is no such operation. */
static LLVMValueRef
integer(EmitLlvm *l, ThreadOp op, LLVMValueRef *v)
{
	if (binary[op])
		return LLVMBuildBinOp(l->b, binary[op], v[0], v[1], "");
	if (int_predicate[op])
		return LLVMBuildICmp(l->b, int_predicate[op], v[0], v[1], "");
	if (real_predicate[op])
		return LLVMBuildFCmp(l->b, real_predicate[op], v[0], v[1], "");
	switch (op) {
	case THREAD_NOT: return LLVMBuildNot(l->b, v[0], "");
	case THREAD_MULHI_U: return upper_half(l, v, false);
	case THREAD_MULHI_S: return upper_half(l, v, true);
	case THREAD_SMIN: case THREAD_SMAX: case THREAD_UMIN: case THREAD_UMAX: return llvm_call1(l, call[op], v, 2);
	case THREAD_POPCOUNT: case THREAD_CLZ: return count_bits(l, op, v[0]);
	default: return NULL;
	}
}

/* A product and a sum, of f32 or f64, may become one instruction of the GPU's. */
static LLVMValueRef
contract(EmitLlvm *l, LLVMValueRef v, RegType type)
{
	if (!l->opt.host && (type == REG_F32 || type == REG_F64) && LLVMIsAInstruction(v))
		LLVMSetFastMathFlags(v, LLVMFastMathAllowContract);
	return v;
}

/* Of f32 and f64; but for the last, what PTX does in 16 bits too. */
static LLVMValueRef
floating(EmitLlvm *l, ThreadOp op, LLVMValueRef *v, RegType type)
{
	if (call[op])
		return llvm_call1(l, call[op], v, thread_op_operands[op]);
	switch (op) {
	case THREAD_FNEG: return LLVMBuildFNeg(l->b, v[0], "");
	case THREAD_FADD: return contract(l, LLVMBuildFAdd(l->b, v[0], v[1], ""), type);
	case THREAD_FSUB: return contract(l, LLVMBuildFSub(l->b, v[0], v[1], ""), type);
	case THREAD_FMUL: return contract(l, LLVMBuildFMul(l->b, v[0], v[1], ""), type);
	case THREAD_FDIV: return LLVMBuildFDiv(l->b, v[0], v[1], "");
	default: return (l->opt.host ? llvm_simt_float : llvm_nvptx_float)(l, op, v, type);
	}
}

static LLVMValueRef
narrow_floating(EmitLlvm *l, ThreadOp op, LLVMValueRef *v, RegType type)
{
	bool signs = op == THREAD_FNEG || op == THREAD_FABS, fuses = op == THREAD_FMA || op == THREAD_FMA_SAT;
	bool sums = op == THREAD_FADD || op == THREAD_FSUB || op == THREAD_FMUL || op == THREAD_FMA;
	RegType through = l->opt.host && fuses ? REG_F64 : REG_F32;
	if (!l->opt.host && (signs || sums))
		return floating(l, op, v, type);
	if (signs)
		return llvm_simt_sign(l, op, v[0]);
	for (int i = 0; i < thread_op_operands[op]; i++)
		v[i] = llvm_real(l, v[i], type, through);
	return llvm_real(l, floating(l, op, v, through), through, type);
}

LLVMValueRef
llvm_op(EmitLlvm *l, const ThreadNode *n, const LLVMValueRef *in)
{
	const ThreadOp op = (ThreadOp)n->op;
	RegType type = llvm_reg_type(l, n->in[0]);
	LLVMValueRef v[3] = {0}, r;
	if (op == THREAD_SELECT)
		return LLVMBuildSelect(l->b, in[0], in[1], in[2], "");
	for (int i = 0; i < n->nin; i++)
		v[i] = thread_is_comparison(op) && l->opt.host && llvm_is_narrow(type) ? llvm_real(l, in[i], type, REG_F32)
		                                                                       : in[i];
	if ((r = integer(l, op, v)))
		return r;
	return llvm_is_narrow(type) ? narrow_floating(l, op, v, type) : floating(l, op, v, type);
}

/* ---- conversions ---- */

LLVMValueRef
llvm_real(EmitLlvm *l, LLVMValueRef v, RegType from, RegType to)
{
	if (from == to)
		return v;
	if (l->opt.host && (llvm_is_narrow(from) || llvm_is_narrow(to)))
		return llvm_simt_real(l, v, from, to);
	return thread_type_bytes(from) < thread_type_bytes(to) ? LLVMBuildFPExt(l->b, v, l->type[to], "")
	                                                       : LLVMBuildFPTrunc(l->b, v, l->type[to], "");
}

static LLVMValueRef
int_to_float(EmitLlvm *l, LLVMValueRef v, RegType to, bool is_signed)
{
	RegType through = l->opt.host && llvm_is_narrow(to) ? REG_F64 : to;
	LLVMTypeRef type = l->type[through];
	v = is_signed ? LLVMBuildSIToFP(l->b, v, type, "") : LLVMBuildUIToFP(l->b, v, type, "");
	return llvm_real(l, v, through, to);
}

static LLVMValueRef
float_to_int(EmitLlvm *l, LLVMValueRef v, RegType from, RegType to, bool is_signed)
{
	RegType wide = llvm_is_narrow(from) ? REG_F32 : from;
	v = llvm_real(l, v, from, wide);
	return l->opt.host ? llvm_simt_to_int(l, v, to, is_signed) : llvm_nvptx_to_int(l, v, wide, to, is_signed);
}

LLVMValueRef
llvm_same_bits(EmitLlvm *l, LLVMValueRef v, RegType from, RegType to)
{
	if (from == REG_GLOBAL && to != REG_GLOBAL)
		return LLVMBuildBitCast(
		    l->b, LLVMBuildPtrToInt(l->b, v, l->type[REG_I64], ""), l->type[to], "");
	if (to == REG_GLOBAL && from != REG_GLOBAL)
		return LLVMBuildIntToPtr(
		    l->b, LLVMBuildBitCast(l->b, v, l->type[REG_I64], ""), l->type[to], "");
	return LLVMBuildBitCast(l->b, v, l->type[to], "");
}

LLVMValueRef
llvm_cast(EmitLlvm *l, const ThreadNode *n, LLVMValueRef v)
{
	RegType from = llvm_reg_type(l, n->in[0]), to = n->type;
	switch ((ThreadCast)n->op) {
	case CAST_SEXT: return LLVMBuildSExt(l->b, v, l->type[to], "");
	case CAST_ZEXT: return LLVMBuildZExt(l->b, v, l->type[to], "");
	case CAST_TRUNC: return LLVMBuildTrunc(l->b, v, l->type[to], "");
	case CAST_S2F: return int_to_float(l, v, to, true);
	case CAST_U2F: return int_to_float(l, v, to, false);
	case CAST_F2S: return float_to_int(l, v, from, to, true);
	case CAST_F2U: return float_to_int(l, v, from, to, false);
	case CAST_FEXT: case CAST_FTRUNC: return llvm_real(l, v, from, to);
	case CAST_BITS: return llvm_same_bits(l, v, from, to);
	}
	unreachable();
}

/* ---- addresses ---- */

LLVMValueRef
llvm_address(EmitLlvm *l, const ThreadAccess *at)
{
	LLVMValueRef p = llvm_value(l, at->base), offset;
	if (!at->offset)
		return p;
	offset = llvm_value(l, at->offset);
	if (at->space == SPACE_SHARED) {
		if (llvm_reg_type(l, at->offset) == REG_I64)
			offset = LLVMBuildTrunc(l->b, offset, l->type[REG_I32], "");
		return LLVMBuildAdd(l->b, p, offset, "");
	}
	if (llvm_reg_type(l, at->offset) == REG_I32)
		offset = LLVMBuildSExt(l->b, offset, l->type[REG_I64], "");
	return LLVMBuildGEP2(l->b, l->type[REG_I8], p, &offset, 1, "");
}

LLVMValueRef
llvm_pointer(EmitLlvm *l, const ThreadNode *n)
{
	Space space = n->type == REG_SHARED ? SPACE_SHARED : SPACE_GLOBAL;
	return llvm_address(l, &(ThreadAccess){.space = space, .base = n->in[0], .offset = n->in[1]});
}

int
llvm_constant_mask(EmitLlvm *l, const ThreadAccess *at)
{
	LLVMValueRef m = at->mask ? llvm_value(l, at->mask) : NULL;
	if (!m)
		return 1;
	return LLVMIsAConstantInt(m) ? (int)LLVMConstIntGetZExtValue(m) : -1;
}

int
llvm_align(const ThreadAccess *at)
{
	return at->align ? at->align : thread_type_bytes(at->type);
}
