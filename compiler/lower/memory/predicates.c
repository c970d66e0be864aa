/* Which masks a write shares with what is read.
 *
 * A thread has seven predicates.  Masks that a read and a write have in common live from the one to the other; of more than
 * six ptxas begins only the first six reads together, and the others one by one, as predicates get free:
 *
 *     read:  c < hi - 128      write:  c + 128 < hi       in place of c < hi - 128 again
 *
 * Compared otherwise, the write's masks are its own, and those of the read end with it.  hex of bench/warps, 16 bytes a
 * thread, took an H200 150 us with shared masks and 63 so, peaks 284 and 229.  Where indices are data, whose reads wait for
 * one another anyway, masks are shared (take_along: 35.3 us, 37.2 apart). */
#include "lower/lower.h"

#include <string.h>

enum { PREDICATES = 6 };                                /* beside one that the loops and branches take */

/* Has a thread more masks of the access than predicates, as far as ranges leave them open? */
static bool
has_many_masks(const Op *op, const Layout *l, int64_t open, int64_t extent)
{
	return l && (MIN(open, extent) << l->in[IN_REGISTER]) / extent > PREDICATES * MAX(attr_vector(op), 1);
}

bool
lower_has_own_masks(Lower *l, const LowerAccess *a, int d)
{
	bool gathers = ANY_OP(op, l->f->body, op->kind == OP_READ && strchr(attr_index(op), 'g'));
	if (a->op->kind != OP_WRITE || !a->layout || gathers)
		return false;
	ThreadRange hi = thread_range(thread_module_of(l->b), a->dim[d].hi);
	int64_t open = hi.hi - hi.lo, extent = INT64_C(1) << a->layout->out[a->dim[d].at];
	if (!has_many_masks(a->op, a->layout, open, extent))
		return false;
	return ANY_OP(op, l->f->body, op->kind == OP_READ && has_many_masks(op, op->out[0].layout, open, extent) &&
	    ANY_OF(i, op->nin - 1, op->in[1 + i] == a->dim[d].index));
}
