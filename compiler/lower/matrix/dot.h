/* What the files of matrix products share. */
#ifndef TEGULA_LOWER_DOT_H
#define TEGULA_LOWER_DOT_H

#include "lower/lower.h"

/* A place in one tile as a place in another that shares all of its dimensions but `lost`. */
uint64_t dot_share(const Layout *from, uint64_t image, int lost, const Layout *to);

/* dot_fma.c: by multiplications and additions, any types and layouts */
void dot_fma(Lower *l, Op *op, Reg *out);
int64_t dot_fma_scratch(const Op *op, const Target *t);

#endif
