/* Emitters: implementations of lower/emitter.h. */
#ifndef TEGULA_EMIT_H
#define TEGULA_EMIT_H

#include "lower/emitter.h"

/* trace.c: every call as a line of text; needs nothing */
Emitter *emit_trace_open(Arena *mem, const Target *t, Text *out);

/* llvm.c, llvm_nvptx.c: LLVM IR through LLVM-C, then PTX */
typedef struct EmitLlvm EmitLlvm;

typedef struct EmitLlvmOptions {
	bool lines;                                     /* .loc lines with the places of the source */
	bool verify;                                    /* have LLVM check the module first */
	const Compile *cx;                              /* whose files places speak of */
} EmitLlvmOptions;

/* False, *why (in mem): LLVM has no such target. */
EmitLlvm *emit_llvm_open(Arena *mem, const Target *t, const EmitLlvmOptions *opt, const char **why);
Emitter *emit_llvm_emitter(EmitLlvm *l);
void emit_llvm_text(EmitLlvm *l, Text *out);            /* LLVM IR as emitted, or as optimised after emit_llvm_ptx */
bool emit_llvm_ptx(EmitLlvm *l, Text *out, const char **why);   /* optimises and writes PTX */
void emit_llvm_close(EmitLlvm *l);

#endif
