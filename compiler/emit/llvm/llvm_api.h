/* LLVM's C interface, opened when it is first needed: what finds its code in the cache, or runs tile IR, never loads it
 * (that takes longer than all the rest of a short command).
 *
 * With TEGULA_LLVM_LIBRARY defined, the library's file, calls go through a table; else LLVM is linked and they are what
 * they look like.  Only llvm_api_open may be called before it has said that LLVM is there. */
#ifndef TEGULA_EMIT_LLVM_API_H
#define TEGULA_EMIT_LLVM_API_H

#include <stdbool.h>
#include <stddef.h>

#include <llvm-c/Analysis.h>
#include <llvm-c/Core.h>
#include <llvm-c/DebugInfo.h>
#include <llvm-c/ErrorHandling.h>
#include <llvm-c/LLJIT.h>
#include <llvm-c/Orc.h>
#include <llvm-c/Target.h>
#include <llvm-c/TargetMachine.h>
#include <llvm-c/Transforms/PassBuilder.h>

#ifdef TEGULA_LLVM_LIBRARY
typedef struct LlvmApi {
#define LLVM(name) __typeof__(name) *name;
#include "emit/llvm/llvm_api.def"
#undef LLVM
} LlvmApi;

extern LlvmApi llvm_api;
#endif

/* Also readies LLVM for code of this machine.  False: it is not there, and `why` says why.  Once, from one thread. */
bool llvm_api_open(char *why, size_t room);

#if defined TEGULA_LLVM_LIBRARY && !defined TEGULA_LLVM_PLAIN_NAMES
#include "llvm_api_names.h"
#endif

#endif
