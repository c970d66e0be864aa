/* Writers of the thread IR. */
#ifndef TEGULA_EMIT_H
#define TEGULA_EMIT_H

#include "thread/thread.h"

/* llvm.c, llvm_nvptx.c: LLVM IR through LLVM-C, then PTX */
typedef struct EmitLlvm EmitLlvm;

/* A function or table that compiled code may name. */
typedef struct EmitSymbol {
	const char *name;
	void (*address)(void);
} EmitSymbol;

typedef struct EmitLlvmOptions {
	bool lines;                                     /* .loc lines with the places of the source */
	bool verify;                                    /* have LLVM check the module first */
	const Compile *cx;                              /* whose files places speak of */
	bool host;                                      /* for this machine: see llvm_simt.c */
	bool checks;                                    /* of the host's code: each access by a call */
	bool quick;                                     /* of the host's code: made sooner, and slower */
} EmitLlvmOptions;

/* Opens LLVM if that has not been done; false: it is not there, and *why, which stays, says why. */
bool emit_llvm_there(const char **why);
/* NULL, *why (in mem): LLVM has no such target, or is not there. */
EmitLlvm *emit_llvm_open(Arena *mem, const Target *t, const EmitLlvmOptions *opt, const char **why);
void emit_llvm_module(EmitLlvm *l, const ThreadModule *m);       /* once; m lives as long */
const char *emit_llvm_kernel(const EmitLlvm *l);         /* by the name that the device knows */
void emit_llvm_text(EmitLlvm *l, Text *out);            /* LLVM IR as emitted, or as optimised after emit_llvm_ptx */
bool emit_llvm_ptx(EmitLlvm *l, Text *out, const char **why);   /* optimises and writes PTX */
void emit_llvm_close(EmitLlvm *l);

/* llvm_simt.c, llvm_jit.c: the per-thread code of a GPU for this machine (opened with `host`), by the contract in
 * runtime/simt/simt.h.  Code outlives what wrote it. */
typedef struct EmitCode EmitCode;

/* Where the host's code finds what it reads of its thread, in bytes. */
enum {
	SIMT_FIELD_SHARED = 0, SIMT_FIELD_THREAD = 8, SIMT_FIELD_LANE = 12, SIMT_FIELD_BLOCK = 16, SIMT_FIELD_NBLOCKS = 20,
	SIMT_FIELD_CLUSTER_RANK = 24, SIMT_FIELD_SITE = 28, SIMT_FIELD_STEPS = 32,
};

/* NULL, *why (in its mem): a name that is not among the symbols, or LLVM's complaint. */
EmitCode *emit_llvm_code(EmitLlvm *l, const EmitSymbol *symbol, int nsymbol, const char **why);
void (*emit_code_entry(const EmitCode *c))(void);
const Place *emit_code_sites(const EmitCode *c, int *n);        /* by the thread's site number */
void emit_code_close(EmitCode *c);

/* Where a parameter of the kernel is passed. */
typedef struct EmitMslParam {
	int buffer;                                     /* index; -1: it is never read */
	int offset;                                     /* of a number in the buffer of all numbers; -1: it is a pointer */
	bool is_padded;                                 /* words are touched that reach past the last element */
} EmitMslParam;

typedef struct EmitMsl {
	const Target *target;
	ThreadKernel kernel;                            /* by the name that the text gives it */
	EmitMslParam *param;                            /* of its parameters, in the module's memory */
	int values_bytes;                               /* of all numbers together; 0: there are none */
} EmitMsl;

/* msl.c: Metal Shading Language, appended to `out`; simplifies the module.  What Metal cannot do is reported to cx. */
void emit_msl(ThreadModule *t, Compile *cx, Text *out, EmitMsl *made);

#endif
