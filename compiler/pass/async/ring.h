/* The numbers of a ring's slots, as pass pipeline makes them and later passes recognise them. */
#ifndef TEGULA_RING_H
#define TEGULA_RING_H

#include "ir/ir.h"

/* Does the number go up by one each iteration of its loop, back to 0 at n?  (pipeline_next makes it) */
bool ring_counts(const Value *v, int64_t n);
/* The number of the same loop that counts so and that v is, *behind iterations ago (0 or 1); NULL: there is none. */
const Value *ring_counter(const Value *v, int64_t n, int *behind);
/* Is v the number behind the other one? */
bool ring_follows(const Value *v, const Value *of, int64_t n);
/* Is it between 0 and n - 1: a constant, a number that counts so, or such a one of the iteration before? */
bool ring_holds(const Value *v, int64_t n);
bool ring_is_small(const Value *v);                     /* a slot's number or a phase, by how it is counted */

#endif
