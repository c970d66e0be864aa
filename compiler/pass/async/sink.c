/* What is computed before a loop of products of warpgroups and used only behind it is computed behind it: accumulators
 * leave no registers to hold it meanwhile.
 *
 *     %i = div %p, %w : i64[128] #1            for … do (…) { … dot … }
 *     for … do (…) { … dot … }           =>    %i = div %p, %w : i64[128] #1
 *     write %y, %i, …                          write %y, %i, …
 *
 * Tiles move, with what only they are computed from; scalars stay. */
#include "pass/async/pipeline.h"

/* Uses of each value, by Value.id, in the block up to the loop's end. */
static int *
early_uses(const Func *f, const Op *loop)
{
	int *uses = NEW_ARRAY(f->module->cx->tmp, int, f->nvalues);
	const Block *home = loop->home;
	for (const Op *op = home->first; op != loop->next; op = op_after(op, home))
		for (int i = 0; i < op->nin; i++)
			uses[op->in[i]->id]++;
	return uses;
}

static bool
is_sunk(const Op *op, const int *uses)
{
	if (!op_has(op, PURE) || op->nregion || op->nout != 1 || op->out[0].nuses == 0)
		return false;
	return op->out[0].type->kind == TYPE_TILE && op->out[0].type->rank > 0 && uses[op->out[0].id] == 0;
}

/* The first op behind the loop in its block that has the value, or holds one that has. */
static Op *
first_user(const Value *v, Op *loop)
{
	const Block *home = loop->home;
	for (Op *op = loop->next; op; op = op->next)
		for (const Op *in = op; in != op->next; in = op_after(in, home))
			for (int i = 0; i < in->nin; i++)
				if (in->in[i] == v)
					return op;
	return loop->next;
}

static void
sink_behind(Func *f, Op *loop)
{
	func_number(f);
	int *uses = early_uses(f, loop);
	for (Op *op = loop->prev, *prev; op; op = prev) {
		prev = op->prev;
		if (!is_sunk(op, uses))
			continue;
		for (int i = 0; i < op->nin; i++)
			uses[op->in[i]->id]--;
		op_move(op, loop->home, first_user(&op->out[0], loop));
	}
}

void
pipeline_sink(Func *f)
{
	for (Op *op = f->body->first; op; op = op_after(op, f->body))
		if (op->kind == OP_FOR && loop_multiplies(op))
			sink_behind(f, op);
}
