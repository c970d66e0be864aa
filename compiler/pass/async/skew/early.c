/* Rows of numbers, and tiles of device memory, are read before the products start that run beside what they are for.
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
 * H200 903 us, and 1018 so.  Of device memory a tile at plain indices goes where all products of the loop leave room (a
 * bias with odd rows 303 us where 330); a table's, by indices that are computed, stays (257 us so where 234). */
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

/* A tile of memory that nothing of the kernel writes, at indices that are no tiles?  Of rows there are gains and losses. */
static bool
is_plain_read(const Func *f, const Op *op)
{
	return op->kind == OP_READ && op->out[0].type->rank > 1 && !tensor_may_be_written(f, op->in[0], f->body) &&
	    ALL_OF(i, op->nin, op->in[i]->type->rank == 0 || op->in[i]->type->kind != TYPE_TILE);
}

/* The first of the products before the get, behind what it takes, that it may pass. */
static Op *
find_start(const Op *get)
{
	Op *start = NULL;
	for (Op *op = get->prev; op && !ANY_OF(i, get->nin, get->in[i]->def == op); op = op->prev) {
		bool hands_over = op->kind == OP_AWAIT || op->kind == OP_ARRIVE;
		if (!keeps_slots(op) && !(hands_over && get->kind == OP_READ))
			break;
		start = op->kind == OP_DOT_START ? op : start;
	}
	return start;
}

/* Words that may be read before a product: of a tile as many as all products of the loop, and what they take, leave. */
static int
most_words(const Op *get, int region)
{
	enum { OTHERS = 24, TILE_WORDS = 32 };          /* addresses, rows' maxima and sums */
	int words = attr_regs(op_roles(get, &region))->at[region] - OTHERS;
	for (const Op *op = get->home->first; op && get->kind == OP_READ; op = op->next) {
		words -= op->kind == OP_DOT_WAIT ? skew_held_words(&op->out[0]) : 0;
		words -= op->kind == OP_DOT_START && op->in[0]->type->kind == TYPE_TILE ? skew_held_words(op->in[0]) : 0;
	}
	return get->kind == OP_READ && words >= TILE_WORDS ? TILE_WORDS : ROW_WORDS;
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
		bool is_read = op->kind == OP_GET || is_plain_read(f, op);
		Op *start = is_read && is_in_loop(op) && op_roles(op, &region) ? find_start(op) : NULL;
		int own = start ? skew_held_words(&op->out[0]) : 0;
		words = start && start != last ? 0 : words;
		last = start ? start : last;
		if (!start || words + own > most_words(op, region))
			continue;
		words += own;
		op_move(op, op->home, start);
		for (Op *of = next, *then; of->kind != OP_DOT_START && is_of_row(of, start); of = then) {
			then = next = of->next;
			op_move(of, of->home, start);
		}
	}
}
