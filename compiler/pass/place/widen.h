/* What the parts of pass widen share. */
#ifndef TEGULA_WIDEN_H
#define TEGULA_WIDEN_H

#include "ir/ir.h"
#include "target/target.h"

/* widen_pieces.c: the write goes in pieces through shared memory, whose accesses have `vector` elements, and is erased;
 * false: it stays. */
bool widen_pieces(Func *f, Op *write, const Target *t, int vector);

#endif
