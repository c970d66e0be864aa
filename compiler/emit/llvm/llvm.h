/* What the files that write LLVM IR share.  Nothing outside emit/llvm*.c includes this. */
#ifndef TEGULA_EMIT_LLVM_H
#define TEGULA_EMIT_LLVM_H

#include "emit/emit.h"
#include "emit/llvm/llvm_api.h"

typedef struct LlvmReg {
	LLVMValueRef v;
	RegType type;
	Place at;                                       /* in the source */
} LlvmReg;

/* A table that code brings along. */
typedef struct LlvmTable {
	const int64_t *bits;
	int n;
	LLVMTypeRef elem;
	LLVMValueRef global;
} LlvmTable;

/* An open loop, while or if. */
typedef struct LlvmRegion {
	LLVMBasicBlockRef before, body, other, after;   /* other: a while's body, an if's else */
	LLVMBasicBlockRef then_end;
	LLVMValueRef index, hi, step;
	LLVMValueRef *phi, *value;                      /* carried: at the head; what came from before or from `then` */
	int n;
	bool has_else;
	bool spins;                                     /* a while that looks at what others write */
} LlvmRegion;

/* What only code for this machine needs. */
typedef struct LlvmHost {
	LLVMValueRef thread, param, shared;             /* of the function; the block's shared memory */
	LLVMValueRef room[2];                           /* operands and results of calls: words of 64 bits */
	int words[2];
	VEC(Place) site;                                /* 0: nowhere */
	Place at;                                       /* that of what comes next */
	int here;                                       /* its site, or -1: not made yet */
	bool has_half;                                  /* the machine converts f16 by itself */
} LlvmHost;

typedef struct LlvmFunction {
	const char *name;
	LLVMValueRef fn;
} LlvmFunction;

/* Where the kernel goes on once a function is done. */
typedef struct LlvmOutside {
	LLVMValueRef fn;
	LLVMBasicBlockRef block;
	LLVMMetadataRef line;
} LlvmOutside;

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
	Place at;                                       /* of what comes next */
	VEC(LlvmRegion) region;
	VEC(LlvmTable) table;
	VEC(LlvmFunction) functions;                    /* beside the kernel */
	LlvmOutside outside;
	/* lines */
	LLVMDIBuilderRef di;
	LLVMMetadataRef program, *scope;                /* the kernel; by file */
	const char *kernel;
	LlvmHost host;
	/* what LLVM complained of first */
	int nerrors;
	const char *error;
};

static inline EmitLlvm *llvm_state(Emitter *e) { return e->state; }
static inline LLVMValueRef llvm_value(EmitLlvm *l, Reg r) { return l->reg.at[r - 1].v; }
static inline RegType llvm_reg_type(EmitLlvm *l, Reg r) { return l->reg.at[r - 1].type; }
static inline LLVMValueRef llvm_i32(EmitLlvm *l, int64_t v) { return LLVMConstInt(l->type[REG_I32], (uint64_t)v, true); }

/* llvm.c */

/* The module as a file of code, optimised; false: *why. */
bool llvm_finish(EmitLlvm *l, LLVMCodeGenFileType type, LLVMMemoryBufferRef *out, const char **why);

/* llvm_cut.c: leaves no block long */

void llvm_cut(EmitLlvm *l);

/* llvm_value.c */

Reg llvm_add(EmitLlvm *l, RegType type, LLVMValueRef v);
/* An intrinsic by its name, with the types it is made for. */
LLVMValueRef llvm_call(EmitLlvm *l, const char *name, LLVMTypeRef *over, int nover, LLVMValueRef *arg, int n);
/* n values of 32 / n bits as words of 32 bits, the first lowest; pairs of floats just narrowed become one instruction */
LLVMValueRef llvm_word(EmitLlvm *l, const Reg *v, int n);
void llvm_split(EmitLlvm *l, LLVMValueRef word, RegType type, LLVMValueRef *out, int n);
/* Of integers; NULL: it is no such operation. */
LLVMValueRef llvm_integer(EmitLlvm *l, EmitOp op, LLVMValueRef *v);
LLVMValueRef llvm_compare(EmitLlvm *l, EmitOp op, LLVMValueRef *v);
/* The same bits as another type. */
LLVMValueRef llvm_same_bits(EmitLlvm *l, LLVMValueRef v, RegType from, RegType to);
void llvm_value_open(EmitLlvm *l);

/* llvm_defined.c */

/* Does everything in the module have a value where it is used?  False: *why, with the place in the source. */
bool llvm_is_defined(EmitLlvm *l, const char **why);

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
/* Of a call: "convergent". */
void llvm_attribute(EmitLlvm *l, LLVMValueRef call, const char *name);
void llvm_asm_make(LlvmAsm *a, const char *text, unsigned flags, const RegType *type, LLVMValueRef *out);
/* One result, up to three operands of one type. */
LLVMValueRef llvm_asm_op(EmitLlvm *l, const char *text, RegType type, const LLVMValueRef *in, int n);

/* llvm_memory.c */

int llvm_type_bytes(RegType type);
/* Of an access, but for the constant: a pointer to global, a 32-bit address of shared memory. */
LLVMValueRef llvm_address(EmitLlvm *l, const EmitAccess *at);
int llvm_known_mask(EmitLlvm *l, const EmitAccess *at);         /* 1: always, 0: never, -1: as the mask says */

/* llvm_table.c */

/* A constant array that lives as long as the code, in the space of a kernel's tensors. */
LLVMValueRef llvm_constant(EmitLlvm *l, LLVMValueRef value, const char *name);
void llvm_table_open(EmitLlvm *l);

/* llvm_simt.c, llvm_simt_value.c, llvm_simt_memory.c: code for this machine */

enum { HOST_PURE = 1 << 0, HOST_CONVERGENT = 1 << 1 };

void llvm_simt_open(EmitLlvm *l);
void llvm_simt_value_open(EmitLlvm *l);
void llvm_simt_memory_open(EmitLlvm *l);
/* A function of the emulator's; `result` may be l->none. */
LLVMValueRef llvm_host_call(EmitLlvm *l, const char *name, LLVMTypeRef result, LLVMValueRef *arg, int n, unsigned flags);
void llvm_host_site(EmitLlvm *l, bool own);             /* tells the thread where it is; own: a number of its own */
void llvm_host_turn(EmitLlvm *l, bool spins);           /* of a loop */
void llvm_host_spins(EmitLlvm *l);                      /* what is open is waiting for others, maybe */

/* llvm_function.c, llvm_memory.c, llvm_control.c, llvm_nvptx.c, llvm_matrix.c: their part of the emitter */

void llvm_function_open(EmitLlvm *l);
void llvm_memory_open(EmitLlvm *l);
void llvm_control_open(EmitLlvm *l);
void llvm_nvptx_open(EmitLlvm *l);
void llvm_matrix_open(EmitLlvm *l);

#endif
