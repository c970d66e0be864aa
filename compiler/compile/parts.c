/* Which kernels are parted into roles where the schedule leaves that open: loops with two chained products of warpgroups,
 * as attention's.  Their products and what is computed between them run at once only there (pass skew), and two groups of
 * warps at least hide what one alone would show.
 *
 *     for … { %s = dot %q, %k, %0;  …;  %o = dot (cast %p), %v, %acc }        8 warps or more */
#include "compile/compile.h"

#include "pass/layout/dot.h"

enum { LEAST_WARPS = 8, WARP_ROWS = 16 };

/* In a loop, with rows for all warps. */
static bool
may_chain(const Op *op, int warps)
{
	const Type *t = op->out[0].type;
	return op->kind == OP_DOT && op->home->parent && op->home->parent->kind == OP_FOR && t->rank == 2 &&
	    t->extent[0] >= warps * WARP_ROWS;
}

int
parts_by_itself(const Func *f, const Schedule *s, const Target *t)
{
	bool open = s->at[SCHEDULE_SPECIALIZE] < 0 && s->at[SCHEDULE_PERSISTENT] <= 0 && s->ctas <= 1 && s->split <= 1;
	if (!t || !(t->has & HAS_WGMMA) || !(t->has & HAS_SETMAXNREG) || !open || s->warps < LEAST_WARPS || s->stages == 1)
		return 0;
	for (const Op *op = f->body->first; op; op = op_after(op, f->body)) {
		const Op *next = may_chain(op, s->warps) ? dot_next(f, &op->out[0]) : NULL;
		if (next && next->home == op->home)
			return (int)op->out[0].type->extent[1];
	}
	return 0;
}
