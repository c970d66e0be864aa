/* What the parts of pass dot share. */
#ifndef TEGULA_DOT_H
#define TEGULA_DOT_H

#include "pass/place.h"

/* dot_fit.c: repeats operands that are smaller than the instruction to its size; the result's part is taken out again.  The
 * dot that there is then, or NULL: it has too many dimensions. */
Op *dot_fit(Op *dot, const MmaInfo *mma);
/* Three products of rounded parts in place of one of f32. */
void dot_split_tf32(Op *dot);

/* expand.c: dot_scaled as multiplications by its scales and a dot. */
void expand_dot_scaled(Op *op);

#endif
