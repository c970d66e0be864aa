/* From source to something that runs: what the command and the runtime call. */
#ifndef TEGULA_COMPILE_H
#define TEGULA_COMPILE_H

#include "pass/pass.h"
#include "sema/sema.h"

/* Elaborates a kernel for `b` and runs the pipeline for a target name ("cpu" for now).  NULL after errors, which are
 * in the program's cx. */
Module *compile_kernel(Kernel *k, const Bound *b, const char *target, const PassOptions *opt);

#endif
