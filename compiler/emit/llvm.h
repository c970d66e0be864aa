/* What the files that write LLVM IR share.  Nothing outside emit/llvm*.c includes this. */
#ifndef TEGULA_EMIT_LLVM_H
#define TEGULA_EMIT_LLVM_H

#include "emit/emit.h"

#include <llvm-c/Core.h>
#include <llvm-c/DebugInfo.h>
#include <llvm-c/TargetMachine.h>

typedef struct LlvmReg {
	LLVMValueRef v;
	RegType type;
} LlvmReg;

/* An open loop, while or if. */
typedef struct LlvmRegion {
	LLVMBasicBlockRef before, body, other, after;   /* other: a while's body, an if's else */
	LLVMBasicBlockRef then_end;
	LLVMValueRef index, hi, step;
	LLVMValueRef *phi, *value;                      /* carried: at the head; what came from before or from `then` */
	int n;
	bool has_else;
} LlvmRegion;

struct EmitLlvm {
	Emitter e;
	EmitLlvmOptions opt;
	LLVMContextRef cx;
	LLVMModuleRef m;
	LLVMBuilderRef b;
	LLVMTargetMachineRef machine;
	LLVMTypeRef type[REG_TYPES];                    /* REG_SHARED is the 32-bit address */
	LLVMTypeRef none, generic;
	LLVMValueRef fn, shared;
	VEC(LlvmReg) reg;
	VEC(LlvmRegion) region;
	/* lines */
	LLVMDIBuilderRef di;
	LLVMMetadataRef program, *scope;                /* the kernel; by file */
	const char *kernel;
	/* what LLVM complained of first */
	int nerrors;
	const char *error;
};

static inline EmitLlvm *llvm_state(Emitter *e) { return e->state; }
static inline LLVMValueRef llvm_value(EmitLlvm *l, Reg r) { return l->reg.at[r - 1].v; }
static inline RegType llvm_reg_type(EmitLlvm *l, Reg r) { return l->reg.at[r - 1].type; }
static inline LLVMValueRef llvm_i32(EmitLlvm *l, int64_t v) { return LLVMConstInt(l->type[REG_I32], (uint64_t)v, true); }

/* llvm_value.c */

Reg llvm_add(EmitLlvm *l, RegType type, LLVMValueRef v);
/* An intrinsic by its name, with the types it is made for. */
LLVMValueRef llvm_call(EmitLlvm *l, const char *name, LLVMTypeRef *over, int nover, LLVMValueRef *arg, int n);
/* n values of 32 / n bits as words of 32 bits, the first lowest; pairs of floats just narrowed become one instruction */
LLVMValueRef llvm_word(EmitLlvm *l, const Reg *v, int n);
void llvm_split(EmitLlvm *l, LLVMValueRef word, RegType type, LLVMValueRef *out, int n);
void llvm_value_open(EmitLlvm *l);

/* llvm_asm.c: PTX text among LLVM's instructions */

enum { ASM_EFFECT = 1 << 0, ASM_MEMORY = 1 << 1, ASM_CONVERGENT = 1 << 2 };

/* A line of PTX under construction: $N are results, then operands, in the order in which they are added. */
typedef struct LlvmAsm {
	EmitLlvm *l;
	Text constraints;
	VEC(LLVMTypeRef) result;
	VEC(LLVMValueRef) in;
} LlvmAsm;

void llvm_asm_result(LlvmAsm *a, RegType type);
void llvm_asm_in(LlvmAsm *a, LLVMValueRef v, RegType type);
void llvm_asm_tie(LlvmAsm *a, LLVMValueRef v, int result);      /* what stands in a result's register before */
/* Makes the call; results in out as values of the types they were added with. */
void llvm_asm_make(LlvmAsm *a, const char *text, unsigned flags, const RegType *type, LLVMValueRef *out);
/* One result, up to three operands of one type. */
LLVMValueRef llvm_asm_op(EmitLlvm *l, const char *text, RegType type, const LLVMValueRef *in, int n);

/* llvm_memory.c, llvm_control.c, llvm_nvptx.c, llvm_matrix.c: their part of the emitter */

void llvm_memory_open(EmitLlvm *l);
void llvm_control_open(EmitLlvm *l);
void llvm_nvptx_open(EmitLlvm *l);
void llvm_matrix_open(EmitLlvm *l);

#endif
