/* Tiles of indices: what each register of the tile has, and what of it all trips of a loop add alike. */
#include "lower/lower.h"

#include "pass/layout/axis.h"

static void
find_gather(Lower *l, LowerAccess *a, int d)
{
	const Value *v = a->dim[d].index;
	const Reg *given = lower_regs(l, v);
	a->dim[d].gather = given;
	if (a->layout && v->type->rank > 0) {
		Layout want = access_gather_layout(a->layout, a->dim[d].at, v->type->rank);
		a->dim[d].gather = lower_operand(l, a->op, 1 + d, &want);
	} else if (a->layout) {
		Reg *all = NEW_ARRAY(l->mem, Reg, 1 << a->layout->in[IN_REGISTER]);
		for (int r = 0; r < 1 << a->layout->in[IN_REGISTER]; r++)
			all[r] = given[0];
		a->dim[d].gather = all;
	}
}

/* Is the innermost loop around it one that no loop is in? */
static bool
in_inner_loop(const Op *op)
{
	while (op && op->kind != OP_FOR && op->kind != OP_WHILE)
		op = op->home->parent;
	const Block *body = op ? op->region[op->kind == OP_WHILE] : NULL;
	for (Op *inside = body ? body->first : NULL; inside; inside = op_after(inside, body))
		if (inside->kind == OP_FOR || inside->kind == OP_WHILE)
			return false;
	return body != NULL;
}

/* x[i + r - pad]: each trip adds the same to all indices.  That is part of the base, once for all registers; what is
 * computed from the rest goes out of the loop.  Nothing is gained where indices of several registers move apart or there
 * is but one, and where the trips hold a loop the registers cost more than the sums (sm_80 spilled). */
static void
part_gather(Lower *l, LowerAccess *a, int d)
{
	const Value *v = a->dim[d].index;
	const Reg *gather = a->dim[d].gather;
	int n = a->layout && dtype_info[v->type->elem].bits == 64 ? 1 << a->layout->in[IN_REGISTER] : 0, rows = 0;
	Reg *still = NEW_ARRAY(l->mem, Reg, n + 1), moved = 0;
	for (int r = 0; r < n; r++)
		rows += gather[r] != gather[0];
	if (rows == 0 || !in_inner_loop(a->op))
		return;
	for (int r = 0; r < n; r++) {
		if (!thread_trip_parts(l->b, gather[r], &still[r], &moved) || (r > 0 && moved != a->dim[d].moved))
			return;
		a->dim[d].moved = moved;
	}
	a->dim[d].still = still;
}

void
lower_access_gather(Lower *l, LowerAccess *a, int d)
{
	find_gather(l, a, d);
	part_gather(l, a, d);
}
