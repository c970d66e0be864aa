/* Weights of few bits as a kernel decodes them, as halves beside which rows may have a scale and an addend. */
#ifndef TEGULA_DECODED_H
#define TEGULA_DECODED_H

#include "ir/ir.h"

/* decoded.c */

/* scale * halves + plus, both without the axis; NULL: 1, 0. */
typedef struct Decoded {
	Value *halves, *scale, *plus;
} Decoded;

/* Are f32 elements such weights?  decoded_build is for those of which this holds. */
bool decoded_is(const Value *v, int axis, DType half);
Decoded decoded_build(Builder *b, Value *v, int axis, DType half);
/* Is there one value along the axis, by constants, broadcasts and elementwise ops alone? */
bool decoded_is_even(const Value *v, int axis);

/* ungroup.c: a loop whose trips add up sums of several groups of decoded weights goes by one group; true: it did. */
bool ungroup(Func *f, Op *loop);

#endif
