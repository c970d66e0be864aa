/* The description of a launch of Metal text. */
#ifndef TEGULA_METAL_H
#define TEGULA_METAL_H

#include "emit/emit.h"
#include "sema/sema.h"

/* metal.c: appends one JSON object; `made` is the text of `f`. */
void metal_describe(const Func *f, const Bound *b, const EmitMsl *made, Text *out);

#endif
