/* Between flatten.c and outer.c: indices that count up. */
#ifndef TEGULA_OUTER_H
#define TEGULA_OUTER_H

#include "pass/pass.h"

/* flatten.c: is the tile of one dimension a scalar and what counts up from 0?  *counts grows by what counts up. */
bool flatten_counts(const Value *v, int *counts);
/* Its scalar, i64. */
Value *flatten_start(Builder *b, const Value *v);

/* Are its numbers as they would be in 64 bits? */
bool flatten_fits(const Value *v);

/* outer.c: the line of numbers that an index is along dimension d of its tile, and the same along others; NULL. */
const Value *flatten_line(const Value *v, int d);
/* Such an access becomes one of parts; false: it stays. */
bool flatten_outer(Op *op);
/* Writes what a word is shifted by so that its repetition shows. */
void flatten_shift(Op *shift);

#endif
