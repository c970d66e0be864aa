/* What the files that write LLVM IR share; private to them.
 *
 *     ThreadModule ─ llvm_walk.c ─┬─ llvm_value.c, llvm_word.c, llvm_control.c         a node alike on both machines
 *                                 ├─ llvm_nvptx*.c, llvm_matrix.c, llvm_asm.c          a GPU's own: PTX
 *                                 └─ llvm_simt*.c                                      this machine's own: the emulator
 *     LLVM IR ─ llvm_hold.c, llvm_defined.c, llvm_sums.c, llvm_cut.c ─ llvm.c (passes, PTX) or llvm_jit.c (code that runs)
 *
 * llvm_api.c opens libLLVM when it is first needed: nothing links against it. */
#ifndef TEGULA_EMIT_LLVM_H
#define TEGULA_EMIT_LLVM_H

#include "emit/emit.h"
#include "emit/llvm/llvm_api.h"

/* A table that code brings along. */
typedef struct LlvmTable {
	const int64_t *bits;
	int n;
	LLVMTypeRef elem;
	LLVMValueRef global;
} LlvmTable;

/* What only code for this machine needs. */
typedef struct LlvmHost {
	LLVMValueRef thread, shared;                    /* of the function; the block's shared memory */
	LLVMValueRef room[2];                           /* operands and results of calls: words of 64 bits */
	int words[2];
	VEC(Place) site;                                /* 0: nowhere */
	Place at;                                       /* that of what comes next */
	int here;                                       /* its site, or -1: not made yet */
	int stored;                                     /* the site that was stored last, */
	LLVMBasicBlockRef stored_in;                    /* in this basic block */
	int waits;                                      /* for other threads, written so far */
	bool has_half;                                  /* the machine converts f16 by itself */
	bool quick;                                     /* code that is made sooner: see llvm_simt.c */
} LlvmHost;

/* Of the innermost while that is open: where its test goes on, and where to when it is false. */
typedef struct LlvmTest {
	LLVMBasicBlockRef body, after;
} LlvmTest;

/* A block whose values stay where they are computed, and the nodes of its region. */
typedef struct LlvmHeld {
	LLVMBasicBlockRef block;
	int nodes;
} LlvmHeld;

struct EmitLlvm {
	Arena *mem;
	const Target *target;
	EmitLlvmOptions opt;
	LLVMContextRef cx;
	LLVMModuleRef m;
	LLVMBuilderRef b;
	LLVMTargetMachineRef machine;
	LLVMTypeRef type[REG_TYPES];                    /* REG_SHARED is the 32-bit address */
	LLVMTypeRef none, generic;
	const ThreadModule *thread;                     /* what is written */
	LLVMValueRef *value;                            /* by Reg; a constant from its first use on */
	LLVMValueRef fn;
	Place at;                                       /* of the node at hand */
	bool in_function;                               /* beside the kernel; stands at no line */
	LlvmTest test;
	bool keeps_order;                               /* the region that is open (thread_keeps_order) */
	VEC(LlvmHeld) held;
	VEC(LlvmTable) table;
	VEC(LLVMValueRef) functions;                    /* of the module's, in its order */
	/* lines */
	LLVMDIBuilderRef di;
	LLVMMetadataRef program, *scope;                /* the kernel; by file */
	const char *kernel;                             /* by the name that the device knows */
	LlvmHost host;
	/* what LLVM complained of first */
	int nerrors;
	const char *error;
};

/* llvm.c */

/* The module as a file of code, optimised; false: *why. */
bool llvm_finish(EmitLlvm *l, LLVMCodeGenFileType type, LLVMMemoryBufferRef *out, const char **why);
void llvm_line(EmitLlvm *l, Place at);                  /* of what comes next, for .loc */

/* llvm_hold.c: leaves computations of tiles where they stand */
void llvm_hold(EmitLlvm *l);

/* llvm_sums.c: leaves LLVM no sums to compare in pairs */
void llvm_sums(EmitLlvm *l);

/* llvm_cut.c: leaves no block long */

void llvm_cut(EmitLlvm *l);

/* llvm_walk.c: nodes in order.  A function of a node takes the values of its operands, but those of its access, and gives
 * those of its results. */

void llvm_set(EmitLlvm *l, const Reg *r, const LLVMValueRef *v, int n);
LLVMValueRef *llvm_values(EmitLlvm *l, const Reg *r, int n);
void llvm_region(EmitLlvm *l, const ThreadRegion *r);

/* llvm_control.c */

void llvm_loop(EmitLlvm *l, const ThreadNode *n, const LLVMValueRef *in, LLVMValueRef *out);
void llvm_while(EmitLlvm *l, const ThreadNode *n, const LLVMValueRef *in, LLVMValueRef *out);
void llvm_while_test(EmitLlvm *l, LLVMValueRef pred);
void llvm_if(EmitLlvm *l, const ThreadNode *n, LLVMValueRef pred, LLVMValueRef *out);
LLVMBasicBlockRef llvm_block(EmitLlvm *l, const char *name);
/* One of two values, by the block that came before. */
LLVMValueRef llvm_phi(EmitLlvm *l, LLVMValueRef v, LLVMBasicBlockRef from, LLVMValueRef other,
    LLVMBasicBlockRef other_from);

/* llvm_value.c */

LLVMValueRef llvm_const(EmitLlvm *l, Reg r);            /* of a register that is one */
static inline LLVMValueRef llvm_value(EmitLlvm *l, Reg r) { return l->value[r] ? l->value[r] : llvm_const(l, r); }
static inline RegType llvm_reg_type(const EmitLlvm *l, Reg r) { return thread_type(l->thread, r); }
static inline LLVMValueRef llvm_i32(EmitLlvm *l, int64_t v) { return LLVMConstInt(l->type[REG_I32], (uint64_t)v, true); }
static inline bool llvm_is_narrow(RegType t) { return t == REG_F16 || t == REG_BF16; }
/* An intrinsic by its name, with the types it is made for; of the first argument's type alone. */
LLVMValueRef llvm_call(EmitLlvm *l, const char *name, LLVMTypeRef *over, int nover, LLVMValueRef *arg, int n);
LLVMValueRef llvm_call1(EmitLlvm *l, const char *name, LLVMValueRef *arg, int n);
LLVMValueRef llvm_op(EmitLlvm *l, const ThreadNode *n, const LLVMValueRef *in);
LLVMValueRef llvm_cast(EmitLlvm *l, const ThreadNode *n, LLVMValueRef v);
LLVMValueRef llvm_real(EmitLlvm *l, LLVMValueRef v, RegType from, RegType to);  /* a float as another */
LLVMValueRef llvm_same_bits(EmitLlvm *l, LLVMValueRef v, RegType from, RegType to);

/* Of an access, but for the constant: a pointer to global, a 32-bit address of shared memory. */
LLVMValueRef llvm_address(EmitLlvm *l, const ThreadAccess *at);
LLVMValueRef llvm_pointer(EmitLlvm *l, const ThreadNode *n);
int llvm_constant_mask(EmitLlvm *l, const ThreadAccess *at);       /* 1: always, 0: never, -1: as the mask says */
int llvm_align(const ThreadAccess *at);

/* llvm_word.c */

/* n values of 32 / n bits as words of 32 bits, the first lowest; pairs of floats just narrowed become one instruction */
LLVMValueRef llvm_word(EmitLlvm *l, const LLVMValueRef *v, RegType type, int n);
void llvm_split(EmitLlvm *l, LLVMValueRef word, RegType type, LLVMValueRef *out, int n);
/* The two bytes of a REG_I16. */
void llvm_split_half(EmitLlvm *l, LLVMValueRef half, LLVMValueRef *out);
/* A constant array that lives as long as the code, in the space of a kernel's tensors. */
LLVMValueRef llvm_constant(EmitLlvm *l, LLVMValueRef value, const char *name);
LLVMValueRef llvm_lookup(EmitLlvm *l, const ThreadNode *n, LLVMValueRef index);

/* llvm_defined.c */

/* Does everything in the module have a value where it is used?  False: *why, with the place in the source. */
bool llvm_is_defined(EmitLlvm *l, const char **why);

/* PTX: llvm_nvptx.c, llvm_nvptx_value.c, llvm_nvptx_memory.c, llvm_matrix.c */

void llvm_nvptx_kernel(EmitLlvm *l, const ThreadKernel *k);
void llvm_nvptx_node(EmitLlvm *l, const ThreadNode *n, const LLVMValueRef *in, LLVMValueRef *out);
void llvm_nvptx_load(EmitLlvm *l, const ThreadAccess *at, LLVMValueRef *out);
void llvm_nvptx_store(EmitLlvm *l, const ThreadAccess *at, const LLVMValueRef *v);
LLVMValueRef llvm_nvptx_atomic(EmitLlvm *l, AtomicKind k, const ThreadAccess *at, LLVMValueRef v, LLVMValueRef compare);
LLVMValueRef llvm_nvptx_float(EmitLlvm *l, ThreadOp op, LLVMValueRef *v, RegType type);
LLVMValueRef llvm_nvptx_to_int(EmitLlvm *l, LLVMValueRef v, RegType from, RegType to, bool is_signed);
void llvm_nvptx_mma(EmitLlvm *l, const MmaInfo *i, const LLVMValueRef *in, LLVMValueRef *out);
void llvm_nvptx_stays_loop(EmitLlvm *l, LLVMValueRef back);        /* ptxas does not unroll what this branch closes */
/* Products of one accumulator, each of what the one before leaves, as one text. */
void llvm_nvptx_wgmma(EmitLlvm *l, const ThreadNode *const *chain, int count, LLVMValueRef *out);
void llvm_nvptx_settle(EmitLlvm *l, const ThreadNode *n, const LLVMValueRef *in, LLVMValueRef *out);

/* llvm_asm.c: PTX text among LLVM's instructions */

enum { ASM_EFFECT = 1 << 0, ASM_MEMORY = 1 << 1, ASM_CONVERGENT = 1 << 2 };

/* A line of PTX under construction: $N are results, then operands, in the order in which they are added. */
typedef struct LlvmAsm {
	EmitLlvm *l;
	Text text, constraints;
	VEC(RegType) result;
	VEC(LLVMValueRef) in;
} LlvmAsm;

void llvm_asm_result(LlvmAsm *a, RegType type);
void llvm_asm_in(LlvmAsm *a, LLVMValueRef v, RegType type);
void llvm_asm_tie(LlvmAsm *a, LLVMValueRef v, int result);      /* what stands in a result's register before */
void llvm_attribute(EmitLlvm *l, LLVMValueRef call, const char *name);  /* of a call: "convergent" */
void llvm_function_attribute(EmitLlvm *l, LLVMValueRef fn, const char *name);
/* Makes the call of a's text; results in out as values of the types they were added with. */
void llvm_asm_make(LlvmAsm *a, unsigned flags, LLVMValueRef *out);
/* One result, up to three operands of one type. */
LLVMValueRef llvm_asm_op(EmitLlvm *l, const char *text, RegType type, const LLVMValueRef *in, int n);

/* Code for this machine: llvm_simt.c, llvm_simt_value.c, llvm_simt_memory.c */

enum { HOST_PURE = 1 << 0, HOST_CONVERGENT = 1 << 1 };

void llvm_simt_kernel(EmitLlvm *l, const ThreadKernel *k);
void llvm_simt_kernel_end(EmitLlvm *l);
void llvm_simt_node(EmitLlvm *l, const ThreadNode *n, const LLVMValueRef *in, LLVMValueRef *out);
void llvm_simt_place(EmitLlvm *l, Place at);            /* of what comes next */
void llvm_simt_load(EmitLlvm *l, const ThreadAccess *at, LLVMValueRef *out);
void llvm_simt_store(EmitLlvm *l, const ThreadAccess *at, const LLVMValueRef *v);
LLVMValueRef llvm_simt_atomic(EmitLlvm *l, AtomicKind k, const ThreadAccess *at, LLVMValueRef v, LLVMValueRef compare);
LLVMValueRef llvm_simt_float(EmitLlvm *l, ThreadOp op, LLVMValueRef *v, RegType type);
LLVMValueRef llvm_simt_sign(EmitLlvm *l, ThreadOp op, LLVMValueRef v);  /* FNEG, FABS of 16 bits */
LLVMValueRef llvm_simt_real(EmitLlvm *l, LLVMValueRef v, RegType from, RegType to);
LLVMValueRef llvm_simt_to_int(EmitLlvm *l, LLVMValueRef v, RegType to, bool is_signed);
/* A function of the emulator's; `result` may be l->none. */
LLVMValueRef llvm_host_call(EmitLlvm *l, const char *name, LLVMTypeRef result, LLVMValueRef *arg, int n, unsigned flags);
void llvm_host_site(EmitLlvm *l, bool own);             /* tells the thread where it is; own: a number of its own */
void llvm_host_iteration(EmitLlvm *l, bool waits);           /* of a loop */

#endif
