/* Of the elements that a thread has of a tile: how many differ, which numbers the compiler knows, which lie inside of
 * tensors (elements.c).  By a value's id, `varies` has bits of dimensions along which it varies, `inside` such shares. */
#ifndef TEGULA_MODEL_ELEMENTS_H
#define TEGULA_MODEL_ELEMENTS_H

#include "ir/ir.h"

double cost_distinct(const uint32_t *varies, const Value *v);
uint32_t cost_varying(const uint32_t *varies, const Op *op, const Value *v);
bool cost_known(const Value *v, int depth);
/* Is it made of indices alone, and so the same in each trip? */
bool cost_is_index(const Value *v, int depth);
double cost_inside_tensor(const Op *access, const Value *v);
double cost_inside(const uint32_t *varies, const double *inside, const Op *op, const Value *v);

const Op *cost_main_loop(const Op *loop);
/* What makes an access slower for the shortness of its pieces of memory (bill.c). */
double cost_halvings(const Op *op, double sectors);
/* Does the loop op begin behind the one before, `*loop`, which becomes op?  Where that has written: no read goes in front
 * of a write.  The bill was fitted to other loops, and to the trips that unrolling leaves of one, side by side. */
bool cost_is_next_loop(const Op *op, const Op **loop);
/* How often loops around the one that a read's index goes along have the same elements read; *apart: trips between. */
typedef double (*CostTrips)(void *user, const Op *loop);
double cost_passes(const Op *read, CostTrips trips, void *user, double *apart);
double cost_box_bytes(const Op *op);

#endif
