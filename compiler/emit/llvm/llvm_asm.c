/* PTX text among LLVM's instructions, for what LLVM has no instruction for: predicated accesses,
 * cache hints, atomics with order and scope, approximations, matrix instructions.
 *
 *     call { i32, i32 } asm sideeffect "@$3 ld.global.v2.b32 {$0, $1}, [$2+16];", "=&r,=&r,l,b"(ptr
 * %p, i1 %m)
 *
 * Text without effects is declared to touch no memory, so that equal ones merge and unused ones go;
 * text that reads memory that may change has an effect, so that nothing moves it across barriers
 * and stores. */
#include "emit/llvm/llvm.h"

#include <string.h>

/* The type that a register has as an operand of PTX text, and its letter. */
static LLVMTypeRef
asm_type(EmitLlvm *l, RegType type)
{
	if (type == REG_I8 || type == REG_F16 || type == REG_BF16)
		return l->type[REG_I16];
	return l->type[type];
}

static const char *
letter(RegType type)
{
	switch (type) {
	case REG_PRED: return "b";
	case REG_I8:
	case REG_I16:
	case REG_F16:
	case REG_BF16: return "h";
	case REG_I32:
	case REG_SHARED: return "r";
	case REG_F32: return "f";
	case REG_F64: return "d";
	default: return "l";
	}
}

static void
constrain(LlvmAsm *a, const char *before, RegType type)
{
	text_printf(&a->constraints, "%s%s%s", a->constraints.n ? "," : "", before, letter(type));
}

void
llvm_asm_result(LlvmAsm *a, RegType type)
{
	constrain(a, "=&", type);
	vec_push(a->l->mem, &a->result, type);
}

void
llvm_asm_in(LlvmAsm *a, LLVMValueRef v, RegType type)
{
	LLVMBuilderRef b = a->l->b;
	LLVMTypeRef want = asm_type(a->l, type);
	if (type == REG_I8)
		v = LLVMBuildZExt(b, v, want, "");
	else if (want != a->l->type[type])
		v = LLVMBuildBitCast(b, v, want, "");
	constrain(a, "", type);
	vec_push(a->l->mem, &a->in, v);
}

void
llvm_asm_tie(LlvmAsm *a, LLVMValueRef v, int result)
{
	text_printf(&a->constraints, ",%d", result);
	vec_push(a->l->mem, &a->in, v);
}

void
llvm_attribute(EmitLlvm *l, LLVMValueRef call, const char *name)
{
	unsigned kind = LLVMGetEnumAttributeKindForName(name, strlen(name));
	LLVMAddCallSiteAttribute(call, (LLVMAttributeIndex)LLVMAttributeFunctionIndex,
	    LLVMCreateEnumAttribute(l->cx, kind, 0));
}

static LLVMTypeRef
results_type(LlvmAsm *a)
{
	if (a->result.n == 0)
		return a->l->none;
	if (a->result.n == 1)
		return asm_type(a->l, a->result.at[0]);
	LLVMTypeRef *each = MAP_OF(a->l->mem, LLVMTypeRef, i, a->result.n, asm_type(a->l, a->result.at[i]));
	return LLVMStructTypeInContext(a->l->cx, each, (unsigned)a->result.n, false);
}

void
llvm_asm_make(LlvmAsm *a, unsigned flags, LLVMValueRef *out)
{
	EmitLlvm *l = a->l;
	LLVMTypeRef *types = MAP_OF(l->mem, LLVMTypeRef, i, a->in.n, LLVMTypeOf(a->in.at[i]));
	if (flags & ASM_MEMORY)
		text_printf(&a->constraints, "%s~{memory}", a->constraints.n ? "," : "");
	LLVMTypeRef fn = LLVMFunctionType(results_type(a), types, (unsigned)a->in.n, false);
	LLVMValueRef code = LLVMGetInlineAsm(fn, a->text.at ? a->text.at : "", a->text.n,
	    a->constraints.at ? a->constraints.at : "", a->constraints.n,
	    (flags & (ASM_EFFECT | ASM_MEMORY)) != 0, false, LLVMInlineAsmDialectATT, false);
	LLVMValueRef call = LLVMBuildCall2(l->b, fn, code, a->in.at, (unsigned)a->in.n, "");
	llvm_attribute(l, call, "nounwind");
	if (flags & ASM_CONVERGENT)
		llvm_attribute(l, call, "convergent");
	if (!(flags & (ASM_EFFECT | ASM_MEMORY)))
		llvm_attribute(l, call, "memory"); /* value 0: none */
	for (int i = 0; i < a->result.n; i++) {
		LLVMValueRef v =
		    a->result.n == 1 ? call : LLVMBuildExtractValue(l->b, call, (unsigned)i, "");
		RegType type = a->result.at[i];
		if (type == REG_I8)
			v = LLVMBuildTrunc(l->b, v, l->type[REG_I8], "");
		else if (LLVMTypeOf(v) != l->type[type])
			v = LLVMBuildBitCast(l->b, v, l->type[type], "");
		out[i] = v;
	}
	text_close(&a->text);
	text_close(&a->constraints);
}

LLVMValueRef
llvm_asm_op(EmitLlvm *l, const char *text, RegType type, const LLVMValueRef *in, int n)
{
	LlvmAsm a = {.l = l};
	LLVMValueRef out;
	llvm_asm_result(&a, type);
	for (int i = 0; i < n; i++)
		llvm_asm_in(&a, in[i], type);
	text_put(&a.text, text);
	llvm_asm_make(&a, 0, &out);
	return out;
}
