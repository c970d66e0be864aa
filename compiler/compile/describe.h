/* What a launcher must know of compiled code: what the descriptions share, that of PTX and cubins, that of Metal text. */
#ifndef TEGULA_DESCRIBE_H
#define TEGULA_DESCRIBE_H

#include "emit/emit.h"
#include "lower/artefact.h"
#include "sema/sema.h"

/* describe.c */

void describe_const(const Const *c, Text *out);         /* a value as JSON has it */
const Expr *described_dim(const KernelParam *p, int d); /* what the source says of a dimension; NULL: it has none */
/* Formula number i of the header, the grid's first, then those of the dimensions; NULL: there are no more. */
const Expr *described_formula(const Bound *b, int i);
const FuncParam *described_symbol(const Func *f, const Bound *b, int symbol);
/* Of a parameter of compiled code. */
const char *described_kind(const AbiParam *a);
const char *described_name(const Func *f, const AbiParam *a);
DType described_dtype(const Func *f, const AbiParam *a);

/* describe_text.c: appends lines that say how to launch `f` as it became `a`, and what it takes for granted (see
 * docs/cuda.md).  b: what it was made for; NULL: not known, as of tile IR. */
void describe_launch(const Func *f, const Bound *b, const Artefact *a, Text *out);

/* metal.c: appends one JSON object; `made` is the text of `f`. */
void metal_describe(const Func *f, const Bound *b, const EmitMsl *made, Text *out);

#endif
