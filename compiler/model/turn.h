/* Gathers that stay in warps: whose index is the element's own and a constant (plan_turn.c), or whose operand each warp
 * stages for itself (plan_move.c). */
#ifndef TEGULA_TURN_H
#define TEGULA_TURN_H

#include "ir/ir.h"
#include "layout/layout.h"
#include "target/target.h"

typedef struct Turn {
	int axis;
	int64_t by, flips;                              /* places further along the axis, or bits that differ */
	bool wraps;                                     /* round the end; else what comes from outside is 0 */
	int owner[F2_MAX];                              /* of the axis's bits: the layout's input bit */
	int low, lanes, first;                          /* bits below those of lanes, of lanes, the first of these */
	int shuffles;
} Turn;
/* What a register takes: register `near` of the lane whose part is `lanes` further on, or `far` where that goes round. */
typedef struct TurnFrom {
	int near, far, lanes;
} TurnFrom;
bool gather_turns(const Op *op, Turn *t);               /* whatever the layouts */
bool plan_turn(const Op *op, Turn *t);                  /* and no element goes to another warp */
TurnFrom turn_from(const Layout *l, const Turn *t, int r);

enum { LOOKUP_ENTRIES = 16 };                           /* of a table that fields of four bits index */

/* Are the rows of so few elements, and the indices known to be inside, that threads may have whole rows in registers? */
bool gather_looks_up(const Op *op);
/* Does a read take elements of few bits' numbers from rows that are the same along the tile's?  *n: of so many elements. */
bool read_looks_up(const Op *op, int64_t *n);
/* The layout of the operand for that, by the result's; false: that would be too many registers. */
bool gather_row_layout(const Op *op, const Layout *to, Layout *rows);
/* Does every thread read only of rows, along the gather's axis, that its own warp staged? */
bool gather_stays_in_warps(const Op *op, const Target *t);

#endif
