/* Programs that leave early, as those behind the last row of a group or a sequence do, in kernels that are to be parted.
 *
 *     %out = ge %s, %end                                  %out = ge %s, %end
 *     if %out then {                                      %q = read %x, %s …
 *         yield                                           %last = select %out, %lo, %hi
 *     } else {                                            %a = for %lo, %last, %step … { … dot … }
 *         %q = read %x, %s …                         =>   if %out then { } else { write %y, %s, %a }
 *         %a = for %lo, %hi, %step … { … dot … }
 *         write %y, %s, %a
 *     }
 *
 * A branch that nothing follows, and that multiplies, goes before its condition: its loops have no iteration where it is
 * not taken, and what it does to memory stays under the condition.  Then the loop stands in the loop over programs itself,
 * where rings go on from program to program and roles part it.  What is computed for a program that leaves is not used:
 * reads of tensors stay inside of them whatever their indices are.  What the kernel writes is read under the condition,
 * for another program may be writing it.  Left alone: branches that access memory through
 * pointers, that loop under a further condition, or use what an atomic operation gives. */
#include "pass/async/pipeline.h"

/* The branch's code that multiplies, if the other has none: 0 or 1; else -1. */
static int
region_of_products(const Op *branch)
{
	bool then = has_warpgroup_product(branch->region[0]), otherwise = has_warpgroup_product(branch->region[1]);
	return then == otherwise ? -1 : otherwise;
}

/* May it run, but for its effects, and with loops of no iteration? */
static bool
may_run_always(const Block *b)
{
	for (const Op *op = b->first; op; op = op->next) {
		if (op->kind == OP_FOR)
			continue;
		if (op_is_loop(op) || (op_is_access(op) && !access_is_tensor(op)) ||
		    (op_has(op, WRITES | EFFECT) && ANY_OF(i, op->nout, op->out[i].nuses)))
			return false;
		for (int r = 0; r < op->nregion && op->kind == OP_IF; r++)
			if (ANY_OP(in, op->region[r], op_is_loop(in) || (op_is_access(in) && !access_is_tensor(in)) ||
			    (op->nout && op_has(in, WRITES | EFFECT))))
				return false;
	}
	return true;
}

bool
exit_needs_guard(const Func *f, const Op *op)
{
	return op_has(op, WRITES | EFFECT) ||
	    (op->kind == OP_READ && access_is_tensor(op) && f->param[op->in[0]->index].access != ACCESS_IN);
}

static void
bound_loop(Op *loop, Value *condition, int taken)
{
	Builder b = build_before(loop);
	Value *end = taken ? loop->in[0] : loop->in[1], *otherwise = taken ? loop->in[1] : loop->in[0];
	op_set_in(loop, 1, build3(&b, OP_SELECT, condition, end, otherwise));
}

/* What the region has goes behind the branch, its effects under a condition of their own. */
static void
move_out(Op *branch, int taken)
{
	Block *region = branch->region[taken], *home = branch->home;
	Op *end = home->last->kind == OP_YIELD ? home->last : NULL;
	for (Op *op = region->first, *next; op != region->last; op = next) {
		next = op->next;
		op_move(op, home, end);
		if (op->kind == OP_FOR)
			bound_loop(op, branch->in[0], taken);
		else if ((op->kind == OP_IF && op->nout == 0) || exit_needs_guard(home->func, op))
			exit_guard(op, branch->in[0], taken);
	}
	if (branch->region[!taken]->first->kind == OP_YIELD)
		op_erase(branch);
}

void
exit_guard(Op *op, Value *condition, int taken)
{
	Value *like[] = {&op->out[0]}, *given[2] = {0};
	int n = op->kind == OP_READ ? 1 : 0;
	Builder b = build_before(op);
	Op *branch = build_if(&b, condition, like, n);
	if (n)
		value_replace(like[0], &branch->out[0]);
	for (int r = 0; r < 2; r++) {
		Builder in = {.m = b.m, .block = branch->region[r], .place = op->place};
		if (n && r != taken)
			(given[r] = build_int(&in, like[0]->type, 0))->layout = like[0]->layout;
		else
			given[r] = like[0];
		build_yield(&in, &given[r], n);
	}
	op_move(op, branch->region[taken], branch->region[taken]->last);
}

void
exit_flatten(Block *b)
{
	Op *branch = b->last && b->last->kind == OP_YIELD ? b->last->prev : b->last;
	int taken = branch && branch->kind == OP_IF && branch->nout == 0 ? region_of_products(branch) : -1;
	if (taken < 0)
		return;
	exit_flatten(branch->region[taken]);
	if (may_run_always(branch->region[taken]))
		move_out(branch, taken);
}
