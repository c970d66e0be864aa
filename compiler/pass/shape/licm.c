/* Moves pure ops whose operands come from outside a loop to just before it.
 *
 *     for %lo, %hi, %step do (%i: i64) {       %p = mul %a, %b : i64
 *         %p = mul %a, %b : i64           =>   for %lo, %hi, %step do (%i: i64) {
 *         store %q, %p                             store %q, %p
 *     }                                        }
 *
 * Inner loops go first, so one walk lifts an op through as many loops as it can leave; an op that
 * leaves an inner loop stands in the outer loop's block and is looked at there again.  PURE
 * ops move, with their regions if they have any (reduce_fn), and reads of short rows of tensors that
 * nothing writes, as a slope for each head: in the loop they would have a ring of their own.  Another
 * load could pass the store that feeds it, and the pipeliner wants tiles where they are.  A lifted op
 * runs even if the loop does not, so an op that could trap must not be PURE.  Ops inside an `if` stay
 * there: they may be the dear ones that the condition spares. */
#include "pass/pass.h"

enum { ROW_MOST = 1024 };

static bool
is_fixed_row(const Op *op)
{
	return op->kind == OP_READ && op->out[0].type->rank <= 1 && type_count(op->out[0].type) <= ROW_MOST &&
	    !tensor_may_be_written(op->home->func, op->in[0], op->home->func->body);
}

/* A value that the op's own region defines is no obstacle, so regions are asked for what they
 * take from the loop itself. */
static bool
region_invariant(const Block *region, const Block *loop)
{
	return !ANY_OP(in, region,
	    ANY_OF(i, in->nin, value_inside(in->in[i], loop) && !value_inside(in->in[i], region)));
}

static bool
invariant(const Op *op, const Block *loop)
{
	if ((!op_has(op, PURE) && !is_fixed_row(op)) || ANY_OF(i, op->nin, value_inside(op->in[i], loop)))
		return false;
	return ALL_OF(r, op->nregion, region_invariant(op->region[r], loop));
}

static void
lift(Op *loop, Block *region)
{
	for (EACH_OP_HERE(op, region))
		if (invariant(op, region))
			op_move(op, loop->home, loop);
}

static void
walk(Block *b)
{
	for (Op *op = b->first; op; op = op->next) {
		for (int r = 0; r < op->nregion; r++)
			walk(op->region[r]);
		if (!op_is_loop(op))
			continue;
		for (int r = 0; r < op->nregion; r++)
			lift(op, op->region[r]);
	}
}

void
pass_licm(Func *f, const Target *t)
{
	walk(f->body);
}
