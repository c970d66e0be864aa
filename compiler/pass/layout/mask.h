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
/* Is a comparison of integers by a dimension's extent one value in all elements, whatever the extent?  -1: no; 0 or 1. */
int mask_by_extent(const Op *op);
/* Are start .. start + extent - 1 below the dimension `symbol`, or below as many parts of it, where `start` goes with the
 * index of a loop that runs to that dimension in whole steps?  `access`: they are of a tensor's dimension. */
bool below_by_loop(const Value *start, const Value *symbol, int64_t part, int64_t extent, bool access);
/* The same for a program's own part of the dimension that is parameter `dim`, divisible by 2^div, of records of so many
 * elements. */
bool below_by_program(const Value *start, int dim, int div, int64_t record, int64_t extent);

#endif
