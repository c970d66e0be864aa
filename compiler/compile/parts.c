/* Which kernels are parted into roles where the schedule leaves that open: loops with two chained products of warpgroups,
 * as attention's.  Their products and what is computed between them run at once only there (pass skew), and two groups of
 * warps at least hide what one alone would show.
 *
 *     for … { %s = dot %q, %k, %0;  …;  %o = dot (cast %p), %v, %acc }        8 warps or more */
#include "compile/compile.h"

#include "pass/layout/dot.h"

enum { LEAST_WARPS = 8 };

static bool
is_in_loop(const Op *op)
{
	return op->home->parent && op->home->parent->kind == OP_FOR;
}

bool
parts_by_itself(const Func *f, const Schedule *s, const Target *t)
{
	bool open = s->at[SCHEDULE_SPECIALIZE] < 0 && s->at[SCHEDULE_PERSISTENT] <= 0 && s->ctas <= 1 && s->split <= 1;
	if (!t || !(t->has & HAS_WGMMA) || !(t->has & HAS_SETMAXNREG) || !open || s->warps < LEAST_WARPS || s->stages == 1)
		return false;
	for (const Op *op = f->body->first; op; op = op_after(op, f->body)) {
		const Op *next = op->kind == OP_DOT && is_in_loop(op) ? dot_next(f, &op->out[0]) : NULL;
		if (next && next->home == op->home)
			return true;
	}
	return false;
}
