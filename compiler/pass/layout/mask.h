/* Masks of a loop's index, for the passes that leave them out where they are all true. */
#ifndef TEGULA_MASK_H
#define TEGULA_MASK_H

#include "ir/ir.h"

/* by * index + plus - minus + something from lo to hi, element by element. */
typedef struct Affine {
	int64_t by, lo, hi;
	Value *plus, *minus;                            /* NULL: 0 */
} Affine;

/* A comparison, as what is below 0 where it is true; false: it is no mask of the index of the loop with that body.  `own`:
 * scalars of the body are terms too. */
bool mask_affine(const Block *body, const Value *v, bool own, Affine *out);
/* `ok` and: v lies within 2^61 of 0, where sums do not wrap.  NULL: known. */
Value *mask_within(Builder *b, Value *v, Value *ok);
/* Where the first trips of a loop end: the least of all and n of `step` each (OP_MIN), or whole groups of n (OP_DIV).  The
 * whole loop's start, where its bounds may be too far apart to count. */
Value *mask_end(Builder *b, const Op *loop, OpKind kind, int64_t n, Value *step);
/* Pure ops of the block without uses: what made masks that are left out. */
void mask_erase_unused(Block *b);

#endif
