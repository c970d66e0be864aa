/* What the ops behind a loop of products of warpgroups read is read before it, if a thread holds little of it: the loop
 * hides how long memory takes.
 *
 *     for … do (…) { … dot … }                     %b = read %bias, %n {…} : bf16[256] #1
 *     %b = read %bias, %n {…} : bf16[256] #1  =>   for … do (…) { … dot … }
 *
 * That is a tensor of which the kernel writes nothing, and a tile of two registers a thread at most: a bias or scales of
 * rows or columns.  What its indices are computed from goes with it. */
#include "pass/async/pipeline.h"

#include <string.h>

enum { BYTES_MOST = 8, DEPTH = 8 };                     /* of a thread */

/* A value that is there before the loop, or could be computed there. */
static bool
may_be_early(const Op *loop, const Value *v, int depth)
{
	const Op *op = v->def;
	if (!op || op->home != loop->home)
		return !value_inside(v, loop->home) || !op;
	if (op == loop || depth == 0)
		return false;
	bool is_before = false;
	for (const Op *at = loop->prev; at && !is_before; at = at->prev)
		is_before = at == op;
	for (int i = 0; i < op->nin && !is_before; i++)
		if (!may_be_early(loop, op->in[i], depth - 1))
			return false;
	return is_before || (op_has(op, PURE) && op->nregion == 0);
}

static bool
is_small_read(const Func *f, const Op *op)
{
	if (op->kind != OP_READ || !access_is_tensor(op) || op->out[0].type->rank == 0 || !op->out[0].layout ||
	    f->param[op->in[0]->index].access != ACCESS_IN || strchr(attr_index(op), 'g'))
		return false;
	return dtype_tile_size(op->out[0].type->elem) << op->out[0].layout->in[IN_REGISTER] <= BYTES_MOST;
}

/* Before the loop, behind what it needs. */
static void
move_early(Op *loop, Op *op)
{
	for (int i = 0; i < op->nin; i++) {
		Op *def = op->in[i]->def;
		bool is_late = false;
		for (const Op *at = loop->next; at && def && !is_late; at = at->next)
			is_late = at == def;
		if (is_late)
			move_early(loop, def);
	}
	op_move(op, loop->home, loop);
}

static void
read_early(Func *f, Op *loop)
{
	for (Op *op = loop->next, *next; op; op = next) {
		bool moves = is_small_read(f, op);
		next = op->next;
		for (int i = 1; i < op->nin && moves; i++)
			moves = may_be_early(loop, op->in[i], DEPTH);
		if (moves)
			move_early(loop, op);
	}
}

void
pipeline_early(Func *f)
{
	if (block_find(f->body, OP_INLINE_PTX))
		return;
	for (Op *op = f->body->first; op; op = op_after(op, f->body))
		if (op->kind == OP_FOR && loop_multiplies(op))
			read_early(f, op);
}
