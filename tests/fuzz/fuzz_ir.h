/* What the files of fuzz_ir share. */
#ifndef TEGULA_FUZZ_IR_H
#define TEGULA_FUZZ_IR_H

#include "ir_run.h"
#include "lower/lower.h"
#include "runtime/simt/simt.h"

Module *reread(Compile *cx, const Text *text);
void show_reports(Compile *cx);
void drop_prints(Module *m);

/* ir_lowered.c; target NULL: one by the seed */
/* Bytes changed, spans dropped, doubled, or swapped for others of the text's own. */
void damage(Rng *r, Text *text);
bool check_simt(Compile *cx, const Text *text, const char *target, SimtMachine *machine, uint64_t seed);

#endif
