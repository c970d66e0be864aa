/* Rows of numbers are read before the products start that run beside what they are for.
 *
 *     await %full, %now, %phase                              await %full, %now, %phase
 *     %s = dot_start %k, (slot %now of %q), %0               %m = get (slot %now of %lse)
 *     %p = dot_start %v, (slot %now of %y), %0      =>       %s = dot_start %k, (slot %now of %q), %0
 *     %t = dot_wait %s {left = 1}                            %p = dot_start %v, (slot %now of %y), %0
 *     %m = get (slot %now of %lse)                           %t = dot_wait %s {left = 1}
 *     … %t, %m …                                             … %t, %m …
 *
 * A product whose operands both lie in shared memory takes nearly all that it gives, and a get waits for it: 16 % of
 * ncu's samples of dk and dv with heads of 128.  What is computed of the row alone goes along.
 *
 * What is read stands in registers meanwhile, so that only few words go, of roles, whose registers are the same
 * whatever is read.  Blocks without roles stay as they are, as others run beside them: dk and dv of heads of 64 took an
 * H200 903 us, and 1018 so.  Reads of device memory stay, too: moved with their addresses, a bias with odd rows took 305
 * to 338 us where 333 to 347, one from a table 257 where 234. */
#include "pass/async/skew/skew.h"

enum { ROW_WORDS = 16 };                                /* of a thread, before one product */

static bool
is_in_loop(const Op *op)
{
	const Op *up = op->home->parent;
	return up && up->kind == OP_FOR && !op_is_over_programs(up);
}

/* Does it leave buffers that are read as they are?  Copies go to other slots. */
static bool
keeps_slots(const Op *op)
{
	if (op->kind == OP_IF)
		return ALL_OF(r, op->nregion, !ANY_OP(in, op->region[r], in->kind != OP_COPY && in->kind != OP_EXPECT &&
		    in->kind != OP_YIELD && !op_has(in, PURE)));
	return op->kind == OP_DOT_START || op->kind == OP_DOT_WAIT || op->kind == OP_GET || op_has(op, PURE);
}

/* The first of the products before the get, behind the slot that it takes, that it may pass. */
static Op *
find_start(const Op *get)
{
	Op *start = NULL;
	for (Op *op = get->prev; op && op != get->in[0]->def && keeps_slots(op); op = op->prev)
		start = op->kind == OP_DOT_START ? op : start;
	return start;
}

static bool
is_before(const Op *op, const Op *other)
{
	while (op && op != other)
		op = op->next;
	return op == other;
}

/* What is computed of the row alone, but for its broadcasts to a tile. */
static bool
is_of_row(const Op *op, const Op *start)
{
	bool is_plain = op_has(op, PURE) && op->nregion == 0 && op->nout == 1 && op->kind != OP_BROADCAST;
	return is_plain && skew_held_words(&op->out[0]) <= ROW_WORDS &&
	    ALL_OF(i, op->nin, !op->in[i]->def || op->in[i]->def->home != op->home || is_before(op->in[i]->def, start));
}

void
skew_read_early(Func *f)
{
	const Op *last = NULL;
	int words = 0, region;
	for (Op *op = f->body->first, *next; op; op = next) {
		next = op_after(op, f->body);
		Op *start = op->kind == OP_GET && is_in_loop(op) && op_roles(op, &region) ? find_start(op) : NULL;
		int own = start ? skew_held_words(&op->out[0]) : 0;
		words = start && start != last ? 0 : words;
		last = start ? start : last;
		if (!start || words + own > ROW_WORDS)
			continue;
		words += own;
		op_move(op, op->home, start);
		for (Op *of = next, *then; of->kind != OP_DOT_START && is_of_row(of, start); of = then) {
			then = next = of->next;
			op_move(of, of->home, start);
		}
	}
}
