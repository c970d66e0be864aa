/* Code for this machine, ready to be called: LLVM writes an object file in memory and LLJIT links it.
 *
 * Whatever the code calls comes from the caller's array of names and addresses, but for the few functions of libm and
 * libc that LLVM calls by itself (fma where the machine has none, memcpy …), which the process has. */
#include "emit/llvm/llvm.h"

#include <stdlib.h>
#include <string.h>

struct EmitCode {
	LLVMOrcLLJITRef jit;
	void (*entry)(void);
	Place *site;
	int nsite;
};

static bool
is_symbol(const char *name, const EmitSymbol *symbol, int n)
{
	return VALUE_OF(i, n, strcmp(symbol[i].name, name) == 0, symbol[i].address != NULL, false);
}

/* Every undefined function of the module must be among the symbols. */
static bool
all_resolved(EmitLlvm *l, const EmitSymbol *symbol, int n, const char **why)
{
	for (LLVMValueRef f = LLVMGetFirstFunction(l->m); f; f = LLVMGetNextFunction(f)) {
		size_t length;
		const char *name = LLVMGetValueName2(f, &length);
		if (!LLVMIsDeclaration(f) || LLVMGetIntrinsicID(f) || !LLVMGetFirstUse(f) || is_symbol(name, symbol, n))
			continue;
		*why = arena_printf(l->mem, "'%s' is not in the emulator yet", name);
		return false;
	}
	return true;
}

static bool
went_well(EmitLlvm *l, LLVMErrorRef error, const char **why)
{
	if (!error)
		return true;
	char *text = LLVMGetErrorMessage(error);
	*why = arena_strdup(l->mem, text);
	LLVMDisposeErrorMessage(text);
	return false;
}

static bool
define(EmitLlvm *l, LLVMOrcLLJITRef jit, const EmitSymbol *symbol, int n, const char **why)
{
	LLVMOrcCSymbolMapPair *pair = NEW_ARRAY(l->mem, LLVMOrcCSymbolMapPair, n);
	int count = 0;
	for (int i = 0; i < n; i++) {
		LLVMValueRef f = symbol[i].address ? LLVMGetNamedFunction(l->m, symbol[i].name) : NULL;
		if (!f)
			continue;
		pair[count].Name = LLVMOrcLLJITMangleAndIntern(jit, symbol[i].name);
		pair[count].Sym.Address = (LLVMOrcExecutorAddress)(uintptr_t)symbol[i].address;
		pair[count++].Sym.Flags.GenericFlags =
		    LLVMJITSymbolGenericFlagsExported | LLVMJITSymbolGenericFlagsCallable;
	}
	LLVMOrcJITDylibRef lib = LLVMOrcLLJITGetMainJITDylib(jit);
	return count == 0 ||
	    went_well(l, LLVMOrcJITDylibDefine(lib, LLVMOrcAbsoluteSymbols(pair, (size_t)count)), why);
}

static LLVMOrcLLJITRef
open_jit(EmitLlvm *l, const char **why)
{
	LLVMOrcLLJITRef jit = NULL;
	return went_well(l, LLVMOrcCreateLLJIT(&jit, NULL), why) ? jit : NULL;
}

static bool
link_code(EmitLlvm *l, EmitCode *c, const EmitSymbol *symbol, int n, const char **why)
{
	LLVMMemoryBufferRef object;
	LLVMOrcExecutorAddress at;
	if (!define(l, c->jit, symbol, n, why) || !llvm_finish(l, LLVMObjectFile, &object, why))
		return false;
	LLVMOrcJITDylibRef lib = LLVMOrcLLJITGetMainJITDylib(c->jit);
	if (!went_well(l, LLVMOrcLLJITAddObjectFile(c->jit, lib, object), why) ||
	    !went_well(l, LLVMOrcLLJITLookup(c->jit, &at, "kernel"), why))
		return false;
	c->entry = (void (*)(void))(uintptr_t)at;
	return true;
}

EmitCode *
emit_llvm_code(EmitLlvm *l, const EmitSymbol *symbol, int nsymbol, const char **why)
{
	EmitCode *c = calloc(1, sizeof *c);
	*why = "no memory";
	if (!c)
		return NULL;
	c->nsite = l->host.site.n;
	c->site = malloc(sizeof *c->site * (size_t)c->nsite);
	if (c->site)
		memcpy(c->site, l->host.site.at, sizeof *c->site * (size_t)c->nsite);
	if (!c->site || !all_resolved(l, symbol, nsymbol, why) || !(c->jit = open_jit(l, why)) ||
	    !link_code(l, c, symbol, nsymbol, why)) {
		emit_code_close(c);
		return NULL;
	}
	return c;
}

void (*emit_code_entry(const EmitCode *c))(void)
{
	return c->entry;
}

const Place *
emit_code_sites(const EmitCode *c, int *n)
{
	*n = c->nsite;
	return c->site;
}

void
emit_code_close(EmitCode *c)
{
	if (!c)
		return;
	if (c->jit)
		LLVMConsumeError(LLVMOrcDisposeLLJIT(c->jit));
	free(c->site);
	free(c);
}
