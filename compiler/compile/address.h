/* Where in memory the elements of an access lie: address.c finds it, sectors.c counts. */
#ifndef TEGULA_ADDRESS_H
#define TEGULA_ADDRESS_H

#include "compile/inspect.h"

typedef enum Where { AT_KNOWN, AT_OUTSIDE, AT_UNKNOWN } Where;

/* v, or v and a multiple of unit more or less. */
typedef struct Num {
	int64_t v, unit;                                /* unit: a power of two; 0: just v */
	double f;                                       /* of a float, in place of v where unit is 0 */
	bool is_guess;                                  /* all lanes have the same v, whatever that is */
} Num;

enum { SCALARS = 16 };                                  /* what an access's indices have, mostly */

/* A scalar that was evaluated, and in how many steps. */
typedef struct Scalar {
	const Value *v;
	int steps;
	Num n;
} Scalar;

typedef struct Walk {
	const InspectArg *arg;
	int64_t nth;                                    /* program along each axis, and trip of each loop: 0 or 1 */
	bool all_inside;                                /* nothing is outside of its tensor, or masked */
	bool later;                                     /* of a loop not the first trip, though nth is 0 */
	bool wraps;                                     /* behind its last program or trip nth begins again */
	bool takes_data;                                /* an index so far was data, another for each element */
	bool takes_guess;                               /* and one was data, the same for all lanes */
	int steps;                                      /* ops that one element has taken */
	Scalar *scalar;                                 /* SCALARS by their addresses, of this program and trip; or NULL */
} Walk;

const InspectArg *walk_arg(const Walk *w, const Value *v);      /* of a parameter's value; NULL: not known */
/* The element of `tile` that the first warp holds in this register of this lane: bits from its tensor's start, or from
 * address 0 of a pointer.  Of an address that depends on data they are right in the bits within a sector alone, and
 * different data lie apart. */
Where address_at(Walk *w, const Op *op, const Type *tile, const Layout *l, int lane, int reg, int64_t *bits);

/* A scalar, in that program and trip.  False: data says what it is. */
bool address_scalar(Walk *w, const Value *v, int64_t *n);
/* Of the tensor, with what the access merges with dimension d. */
int64_t address_extent(const InspectArg *x, const Op *access, int d);

#endif
