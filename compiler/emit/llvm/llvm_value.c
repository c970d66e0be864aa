/* Values: constants, arithmetic, conversions.
 *
 * What PTX does by itself is not spelled out: a conversion of a float to 32 bits saturates and
 * takes NaN to 0, as the language wants; from f64 or to 64 bits NaN gives the sign bit alone, so a
 * select puts the 0 (PTX ISA, cvt).  Floats of 16 bits add and multiply in LLVM's own types (it
 * knows what a target has) and do everything else in f32. */
#include "emit/llvm/llvm.h"

#include <string.h>

Reg
llvm_add(EmitLlvm *l, RegType type, LLVMValueRef v)
{
	vec_push(l->e.mem, &l->reg, ((LlvmReg){v, type, l->at}));
	return l->reg.n;
}

LLVMValueRef
llvm_call(EmitLlvm *l, const char *name, LLVMTypeRef *over, int nover, LLVMValueRef *arg, int n)
{
	unsigned id = LLVMLookupIntrinsicID(name, strlen(name));
	if (id == 0)
		die("LLVM has no intrinsic '%s'", name);
	LLVMValueRef f = LLVMGetIntrinsicDeclaration(l->m, id, over, (size_t)nover);
	return LLVMBuildCall2(l->b, LLVMGlobalGetValueType(f), f, arg, (unsigned)n, "");
}

/* An intrinsic of one type. */
static LLVMValueRef
call1(EmitLlvm *l, const char *name, LLVMValueRef *arg, int n)
{
	LLVMTypeRef type = LLVMTypeOf(arg[0]);
	return llvm_call(l, name, &type, 1, arg, n);
}

static Reg
int_const(Emitter *e, RegType type, int64_t v)
{
	EmitLlvm *l = llvm_state(e);
	if (type == REG_GLOBAL)
		return llvm_add(l, type,
		    LLVMConstIntToPtr(
			LLVMConstInt(l->type[REG_I64], (uint64_t)v, true), l->type[type]));
	return llvm_add(l, type, LLVMConstInt(l->type[type], (uint64_t)v, true));
}

static Reg
float_const(Emitter *e, RegType type, double v)
{
	EmitLlvm *l = llvm_state(e);
	return llvm_add(l, type, LLVMConstReal(l->type[type], v));
}

static bool
is_narrow(RegType type)
{
	return type == REG_F16 || type == REG_BF16;
}

static LLVMValueRef
contract(LLVMValueRef v, RegType type)
{
	if (type == REG_F32 && LLVMIsAInstruction(v))
		LLVMSetFastMathFlags(v, LLVMFastMathAllowContract);
	return v;
}

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
count_bits(EmitLlvm *l, EmitOp op, LLVMValueRef v)
{
	LLVMValueRef arg[2] = {v, LLVMConstInt(l->type[REG_PRED], 0, false)};
	return op == EMIT_CLZ ? call1(l, "llvm.ctlz", arg, 2) : call1(l, "llvm.ctpop", arg, 1);
}

LLVMValueRef
llvm_integer(EmitLlvm *l, EmitOp op, LLVMValueRef *v)
{
	LLVMBuilderRef b = l->b;
	switch (op) {
	case EMIT_ADD: return LLVMBuildAdd(b, v[0], v[1], "");
	case EMIT_SUB: return LLVMBuildSub(b, v[0], v[1], "");
	case EMIT_MUL: return LLVMBuildMul(b, v[0], v[1], "");
	case EMIT_SDIV: return LLVMBuildSDiv(b, v[0], v[1], "");
	case EMIT_UDIV: return LLVMBuildUDiv(b, v[0], v[1], "");
	case EMIT_SREM: return LLVMBuildSRem(b, v[0], v[1], "");
	case EMIT_UREM: return LLVMBuildURem(b, v[0], v[1], "");
	case EMIT_AND: return LLVMBuildAnd(b, v[0], v[1], "");
	case EMIT_OR: return LLVMBuildOr(b, v[0], v[1], "");
	case EMIT_XOR: return LLVMBuildXor(b, v[0], v[1], "");
	case EMIT_NOT: return LLVMBuildNot(b, v[0], "");
	case EMIT_SHL: return LLVMBuildShl(b, v[0], v[1], "");
	case EMIT_LSHR: return LLVMBuildLShr(b, v[0], v[1], "");
	case EMIT_ASHR: return LLVMBuildAShr(b, v[0], v[1], "");
	case EMIT_MULHI_U: return upper_half(l, v, false);
	case EMIT_MULHI_S: return upper_half(l, v, true);
	case EMIT_SMIN: return call1(l, "llvm.smin", v, 2);
	case EMIT_SMAX: return call1(l, "llvm.smax", v, 2);
	case EMIT_UMIN: return call1(l, "llvm.umin", v, 2);
	case EMIT_UMAX: return call1(l, "llvm.umax", v, 2);
	case EMIT_POPCOUNT:
	case EMIT_CLZ: return count_bits(l, op, v[0]);
	default: return NULL;
	}
}

LLVMValueRef
llvm_compare(EmitLlvm *l, EmitOp op, LLVMValueRef *v)
{
	LLVMBuilderRef b = l->b;
	switch (op) {
	case EMIT_EQ: return LLVMBuildICmp(b, LLVMIntEQ, v[0], v[1], "");
	case EMIT_NE: return LLVMBuildICmp(b, LLVMIntNE, v[0], v[1], "");
	case EMIT_SLT: return LLVMBuildICmp(b, LLVMIntSLT, v[0], v[1], "");
	case EMIT_SLE: return LLVMBuildICmp(b, LLVMIntSLE, v[0], v[1], "");
	case EMIT_ULT: return LLVMBuildICmp(b, LLVMIntULT, v[0], v[1], "");
	case EMIT_ULE: return LLVMBuildICmp(b, LLVMIntULE, v[0], v[1], "");
	case EMIT_FEQ: return LLVMBuildFCmp(b, LLVMRealOEQ, v[0], v[1], "");
	case EMIT_FNE: return LLVMBuildFCmp(b, LLVMRealUNE, v[0], v[1], "");
	case EMIT_FLT: return LLVMBuildFCmp(b, LLVMRealOLT, v[0], v[1], "");
	case EMIT_FLE: return LLVMBuildFCmp(b, LLVMRealOLE, v[0], v[1], "");
	case EMIT_FUNO: return LLVMBuildFCmp(b, LLVMRealUNO, v[0], v[1], "");
	default: return NULL;
	}
}

/* What LLVM does in any float type. */
static LLVMValueRef
floating(EmitLlvm *l, EmitOp op, LLVMValueRef *v, RegType type)
{
	switch (op) {
	case EMIT_FNEG: return LLVMBuildFNeg(l->b, v[0], "");
	case EMIT_FABS: return call1(l, "llvm.fabs", v, 1);
	case EMIT_FADD: return contract(LLVMBuildFAdd(l->b, v[0], v[1], ""), type);
	case EMIT_FSUB: return contract(LLVMBuildFSub(l->b, v[0], v[1], ""), type);
	case EMIT_FMUL: return contract(LLVMBuildFMul(l->b, v[0], v[1], ""), type);
	case EMIT_FMA: return call1(l, "llvm.fma", v, 3);
	default: return NULL;
	}
}

/* What is done in f32 or f64. */
static LLVMValueRef
floating_wide(EmitLlvm *l, EmitOp op, LLVMValueRef *v)
{
	switch (op) {
	case EMIT_FMIN: return call1(l, "llvm.minimumnum", v, 2);
	case EMIT_FMAX: return call1(l, "llvm.maximumnum", v, 2);
	case EMIT_FDIV: return LLVMBuildFDiv(l->b, v[0], v[1], "");
	case EMIT_FSQRT: return call1(l, "llvm.sqrt", v, 1);
	case EMIT_FFLOOR: return call1(l, "llvm.floor", v, 1);
	case EMIT_FCEIL: return call1(l, "llvm.ceil", v, 1);
	case EMIT_FROUND: return call1(l, "llvm.roundeven", v, 1);
	case EMIT_FTRUNC: return call1(l, "llvm.trunc", v, 1);
	default: return NULL;
	}
}

/* One instruction that LLVM has no name for, most of the special function unit. */
static LLVMValueRef
approximate(EmitLlvm *l, EmitOp op, LLVMValueRef *v)
{
	switch (op) {
	case EMIT_FDIV_FAST: return llvm_asm_op(l, "div.full.f32 $0, $1, $2;", REG_F32, v, 2);
	case EMIT_FSQRT_FAST: return llvm_asm_op(l, "sqrt.approx.f32 $0, $1;", REG_F32, v, 1);
	case EMIT_FRSQRT_FAST: return llvm_asm_op(l, "rsqrt.approx.ftz.f32 $0, $1;", REG_F32, v, 1);
	case EMIT_FRCP_FAST: return llvm_asm_op(l, "rcp.approx.ftz.f32 $0, $1;", REG_F32, v, 1);
	case EMIT_EXP2_FAST: return llvm_asm_op(l, "ex2.approx.ftz.f32 $0, $1;", REG_F32, v, 1);
	case EMIT_LOG2_FAST: return llvm_asm_op(l, "lg2.approx.f32 $0, $1;", REG_F32, v, 1);
	case EMIT_SIN_FAST: return llvm_asm_op(l, "sin.approx.f32 $0, $1;", REG_F32, v, 1);
	case EMIT_COS_FAST: return llvm_asm_op(l, "cos.approx.f32 $0, $1;", REG_F32, v, 1);
	case EMIT_FMA_SAT: return llvm_asm_op(l, "fma.rn.sat.f32 $0, $1, $2, $3;", REG_F32, v, 3);
	case EMIT_TANH_FAST: return llvm_asm_op(l, "tanh.approx.f32 $0, $1;", REG_F32, v, 1);
	default: return NULL;
	}
}

/* The approximations of f64 are its exact operations; it has no others. */
static LLVMValueRef
approximate_f64(EmitLlvm *l, EmitOp op, LLVMValueRef *v)
{
	LLVMValueRef one = LLVMConstReal(l->type[REG_F64], 1);
	switch (op) {
	case EMIT_FDIV_FAST: return LLVMBuildFDiv(l->b, v[0], v[1], "");
	case EMIT_FSQRT_FAST: return call1(l, "llvm.sqrt", v, 1);
	case EMIT_FRSQRT_FAST: return LLVMBuildFDiv(l->b, one, call1(l, "llvm.sqrt", v, 1), "");
	case EMIT_FRCP_FAST: return LLVMBuildFDiv(l->b, one, v[0], "");
	default: die("%s of f64: there is no such instruction", emit_op_text[op]);
	}
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
		return llvm_add(
		    l, llvm_reg_type(l, b), LLVMBuildSelect(l->b, v[0], v[1], v[2], ""));
	if ((r = llvm_compare(l, op, v)))
		return llvm_add(l, REG_PRED, r);
	if ((r = llvm_integer(l, op, v)) || (r = floating(l, op, v, type)))
		return llvm_add(l, type, r);
	for (int i = 0; i < n && is_narrow(type); i++)
		v[i] = LLVMBuildFPExt(l->b, v[i], l->type[REG_F32], "");
	if (!(r = floating_wide(l, op, v)))
		r = type == REG_F64 ? approximate_f64(l, op, v) : approximate(l, op, v);
	if (is_narrow(type))
		r = LLVMBuildFPTrunc(l->b, r, l->type[type], "");
	return llvm_add(l, type, r);
}

/* conversions */

/* 32 or 64 bits; the names of cvt's intrinsics. */
static LLVMValueRef
float_to_word(EmitLlvm *l, LLVMValueRef v, bool is_f64, bool is_64, bool is_signed)
{
	const char *name = arena_printf(l->e.mem, "llvm.nvvm.%c2%s%s.rz", is_f64 ? 'd' : 'f',
	    is_signed ? "" : "u", is_64 ? "ll" : "i");
	LLVMValueRef r = llvm_call(l, name, NULL, 0, &v, 1);
	if (!is_f64 && !is_64)
		return r;
	return LLVMBuildSelect(
	    l->b, LLVMBuildFCmp(l->b, LLVMRealUNO, v, v, ""), LLVMConstNull(LLVMTypeOf(r)), r, "");
}

static LLVMValueRef
float_to_int(EmitLlvm *l, LLVMValueRef v, RegType from, RegType to, bool is_signed)
{
	if (is_narrow(from))
		v = LLVMBuildFPExt(l->b, v, l->type[REG_F32], "");
	v = float_to_word(l, v, from == REG_F64, to == REG_I64, is_signed);
	if (to == REG_I32 || to == REG_I64)
		return v;
	int bits = to == REG_I8 ? 8 : 16;
	int64_t most = is_signed ? (1 << (bits - 1)) - 1 : (1 << bits) - 1;
	LLVMValueRef arg[2] = {v, llvm_i32(l, most)};
	arg[0] = call1(l, is_signed ? "llvm.smin" : "llvm.umin", arg, 2);
	arg[1] = llvm_i32(l, -most - 1);
	if (is_signed)
		arg[0] = call1(l, "llvm.smax", arg, 2);
	return LLVMBuildTrunc(l->b, arg[0], l->type[to], "");
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

static Reg
cast(Emitter *e, EmitCast c, RegType to, Reg a)
{
	EmitLlvm *l = llvm_state(e);
	LLVMValueRef v = llvm_value(l, a);
	LLVMTypeRef type = l->type[to];
	RegType from = llvm_reg_type(l, a);
	switch (c) {
	case CAST_SEXT: v = LLVMBuildSExt(l->b, v, type, ""); break;
	case CAST_ZEXT: v = LLVMBuildZExt(l->b, v, type, ""); break;
	case CAST_TRUNC: v = LLVMBuildTrunc(l->b, v, type, ""); break;
	case CAST_S2F: v = LLVMBuildSIToFP(l->b, v, type, ""); break;
	case CAST_U2F: v = LLVMBuildUIToFP(l->b, v, type, ""); break;
	case CAST_F2S: v = float_to_int(l, v, from, to, true); break;
	case CAST_F2U: v = float_to_int(l, v, from, to, false); break;
	case CAST_FEXT: v = LLVMBuildFPExt(l->b, v, type, ""); break;
	case CAST_FTRUNC: v = LLVMBuildFPTrunc(l->b, v, type, ""); break;
	case CAST_BITS: v = llvm_same_bits(l, v, from, to); break;
	}
	return llvm_add(l, to, v);
}

static RegType
type_of(Emitter *e, Reg r)
{
	return llvm_reg_type(llvm_state(e), r);
}

/* words */

/* What a narrow float was made of, if that was an f32. */
static LLVMValueRef
narrowed_from(EmitLlvm *l, Reg r)
{
	LLVMValueRef v = llvm_value(l, r);
	if (!is_narrow(llvm_reg_type(l, r)) || !LLVMIsAFPTruncInst(v))
		return NULL;
	LLVMValueRef wide = LLVMGetOperand(v, 0);
	return LLVMTypeOf(wide) == l->type[REG_F32] ? wide : NULL;
}

static LLVMValueRef
vector(EmitLlvm *l, LLVMTypeRef type, const LLVMValueRef *v, int n)
{
	LLVMValueRef r = LLVMGetPoison(LLVMVectorType(type, (unsigned)n));
	for (int i = 0; i < n; i++)
		r = LLVMBuildInsertElement(l->b, r, v[i], llvm_i32(l, i), "");
	return r;
}

/* The word that parts were taken out of, all of it and in order; or NULL. */
static LLVMValueRef
whole_word(EmitLlvm *l, const LLVMValueRef *part, int n)
{
	LLVMValueRef whole = NULL;
	for (int i = 0; i < n; i++) {
		LLVMValueRef from = LLVMIsAExtractElementInst(part[i]) ? LLVMGetOperand(part[i], 0) : NULL;
		if (!from || (whole && from != whole))
			return NULL;
		whole = from;
		LLVMValueRef at = LLVMGetOperand(part[i], 1);
		if (!LLVMIsAConstantInt(at) || LLVMConstIntGetZExtValue(at) != (unsigned)i)
			return NULL;
	}
	if (!LLVMIsABitCastInst(whole) || LLVMGetVectorSize(LLVMTypeOf(whole)) != (unsigned)n)
		return NULL;
	LLVMValueRef word = LLVMGetOperand(whole, 0);
	return LLVMTypeOf(word) == l->type[REG_I32] ? word : NULL;
}

LLVMValueRef
llvm_word(EmitLlvm *l, const Reg *v, int n)
{
	RegType type = llvm_reg_type(l, v[0]);
	LLVMTypeRef word = l->type[REG_I32];
	LLVMValueRef part[8], wide[2];
	if (n == 1)
		return LLVMBuildBitCast(l->b, llvm_value(l, v[0]), word, "");
	if (n == 2 && (wide[0] = narrowed_from(l, v[0])) && (wide[1] = narrowed_from(l, v[1]))) {
		LLVMValueRef pair = vector(l, l->type[REG_F32], wide, 2);
		pair = LLVMBuildFPTrunc(l->b, pair, LLVMVectorType(l->type[type], 2), "");
		return LLVMBuildBitCast(l->b, pair, word, "");
	}
	for (int i = 0; i < n; i++)
		part[i] = llvm_value(l, v[i]);
	LLVMValueRef whole = n <= 4 ? whole_word(l, part, n) : NULL;
	if (whole)
		return whole;
	if (n <= 4)
		return LLVMBuildBitCast(l->b, vector(l, l->type[type], part, n), word, "");
	LLVMValueRef sum = LLVMConstNull(word);
	for (int i = 0; i < n; i++) { /* 4-bit values in registers of 8 */
		LLVMValueRef nibble =
		    LLVMBuildAnd(l->b, LLVMBuildZExt(l->b, part[i], word, ""), llvm_i32(l, 15), "");
		sum =
		    LLVMBuildOr(l->b, sum, LLVMBuildShl(l->b, nibble, llvm_i32(l, 4 * i), ""), "");
	}
	return sum;
}

void
llvm_split(EmitLlvm *l, LLVMValueRef word, RegType type, LLVMValueRef *out, int n)
{
	if (n == 1) {
		out[0] = LLVMBuildBitCast(l->b, word, l->type[type], "");
		return;
	}
	if (n <= 4)
		word = LLVMBuildBitCast(l->b, word, LLVMVectorType(l->type[type], (unsigned)n), "");
	for (int i = 0; i < n; i++) {
		if (n <= 4) {
			out[i] = LLVMBuildExtractElement(l->b, word, llvm_i32(l, i), "");
			continue;
		}
		LLVMValueRef nibble = LLVMBuildAnd(
		    l->b, LLVMBuildLShr(l->b, word, llvm_i32(l, 4 * i), ""), llvm_i32(l, 15), "");
		out[i] = LLVMBuildTrunc(l->b, nibble, l->type[REG_I8], "");
	}
}

static Reg
pack(Emitter *e, const Reg *v, int n)
{
	EmitLlvm *l = llvm_state(e);
	return llvm_add(l, REG_I32, llvm_word(l, v, n));
}

static void
unpack(Emitter *e, Reg word, RegType type, Reg *out, int n)
{
	EmitLlvm *l = llvm_state(e);
	LLVMValueRef v[8];
	llvm_split(l, llvm_value(l, word), type, v, n);
	for (int i = 0; i < n; i++)
		out[i] = llvm_add(l, type, v[i]);
}

void
llvm_value_open(EmitLlvm *l)
{
	Emitter *e = &l->e;
	e->int_const = int_const;
	e->float_const = float_const;
	e->op = emit_op;
	e->cast = cast;
	e->type = type_of;
	e->pack = pack;
	e->unpack = unpack;
}
