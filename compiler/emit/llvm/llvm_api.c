/* Opens libLLVM: the file that $TEGULA_LLVM names; else by the name that the program was built with, wherever the system
 * finds that; else where it was then. */
#define TEGULA_LLVM_PLAIN_NAMES
#include "emit/llvm/llvm_api.h"

#ifdef TEGULA_LLVM_LIBRARY
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TEXT_OF(x) #x
#define NAME_OF(x) TEXT_OF(x)

LlvmApi llvm_api;

static void *
open_library(char *why, size_t room)
{
	const char *own = getenv("TEGULA_LLVM"), *base = strrchr(TEGULA_LLVM_LIBRARY, '/') + 1;
	const char *const path[] = {own && *own ? own : base, TEGULA_LLVM_LIBRARY};
	void *lib = NULL;
	for (int i = 0; i < (own && *own ? 1 : 2) && !lib; i++) {
		lib = dlopen(path[i], RTLD_LAZY | RTLD_LOCAL);
		if (!lib && i == 0)
			snprintf(why, room, "%s", dlerror());
	}
	return lib;
}

static bool
find(void *lib, const char *name, void *out, char *why, size_t room)
{
	void *p = dlsym(lib, name);
	memcpy(out, &p, sizeof p);
	if (!p)
		snprintf(why, room, "the library has no %s: another version than this program was built for", name);
	return p != NULL;
}

static bool
call(void *lib, const char *name, char *why, size_t room)
{
	void (*f)(void);
	if (!find(lib, name, &f, why, room))
		return false;
	f();
	return true;
}

bool
llvm_api_open(char *why, size_t room)
{
	LlvmApi api = {0};
	void *lib = open_library(why, room);
	bool ok = lib != NULL;
#define LLVM(name) ok = ok && find(lib, #name, &api.name, why, room);
#include "emit/llvm/llvm_api.def"
#undef LLVM
	ok = ok && call(lib, NAME_OF(LLVM_NATIVE_TARGETINFO), why, room) &&
	     call(lib, NAME_OF(LLVM_NATIVE_TARGET), why, room) && call(lib, NAME_OF(LLVM_NATIVE_TARGETMC), why, room) &&
	     call(lib, NAME_OF(LLVM_NATIVE_ASMPRINTER), why, room);
	if (ok)
		llvm_api = api;
	return ok;
}

#else

bool
llvm_api_open(char *why, size_t room)
{
	LLVMInitializeNativeTarget();
	LLVMInitializeNativeAsmPrinter();
	return true;
}

#endif
