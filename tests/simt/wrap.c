/* The tegula command with a fault in the code of the simt device, for tests/simt/mutate:
 *
 *     PLANT="barrier 2" PLANT_SEEN=FILE planted_tegula check --device=simt FILE.tgl
 *
 * The second barrier of every kernel is left out; FILE gets a line for each kernel with the barriers that it had. */
#include "plant.h"

#include <stdio.h>
#include <stdlib.h>

#include "emit/emit.h"

Emitter *__real_emit_llvm_emitter(EmitLlvm *l);
Emitter *__wrap_emit_llvm_emitter(EmitLlvm *l);
EmitCode *__real_emit_llvm_code(EmitLlvm *l, const EmitSymbol *symbol, int nsymbol, const char **why);
EmitCode *__wrap_emit_llvm_code(EmitLlvm *l, const EmitSymbol *symbol, int nsymbol, const char **why);

static Plant plant;

Emitter *
__wrap_emit_llvm_emitter(EmitLlvm *l)
{
	Emitter *e = __real_emit_llvm_emitter(l);
	const char *what = getenv("PLANT");
	if (what && e->kernel.name == NULL && sscanf(what, "%15s %d", plant.kind, &plant.number) == 2)
		plant_into(&plant, e);
	return e;
}

EmitCode *
__wrap_emit_llvm_code(EmitLlvm *l, const EmitSymbol *symbol, int nsymbol, const char **why)
{
	const char *path = getenv("PLANT_SEEN");
	FILE *f = path ? fopen(path, "a") : NULL;
	if (f) {
		fprintf(f, "%d\n", plant.seen);
		fclose(f);
	}
	return __real_emit_llvm_code(l, symbol, nsymbol, why);
}
