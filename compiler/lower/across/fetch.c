/* Numbers of programs, which blocks of a persistent kernel fetch from a counter as they get free.
 *
 *     %n = fetch %least            counter = max(counter, %least), where that is more than 0
 *                                 n = counter++
 *     fetch_end                    if ends++ is the last of the blocks': counter = ends = 0
 *
 * A block begins with the program of its own number, and adds the number of blocks to what it fetches, as late as it needs
 * the sum: ptxas waits for an atomic's result where the next instruction with it stands.  One thread of a role fetches.
 * All blocks come to their end once, and the last leaves zeros for the next launch (ABI_ARRIVALS). */
#include "lower/lower.h"

enum { ENDS_AT = 8 };                                   /* bytes behind the counter: blocks that came to their end */

static Reg
add_to(Lower *l, const ThreadAccess *at, AtomicKind kind, Reg v)
{
	return thread_atomic(l->b, kind, at, v, 0);
}

static Reg
blocks_of(Lower *l)
{
	Reg blocks;

	thread_prim(l->b, PRIM_NBLOCKS, NULL, 0, NULL, 0, &blocks, 1);
	return lower_as(l, CAST_ZEXT, REG_I64, blocks);
}

static ThreadAccess
counter_of(Lower *l)
{
	return (ThreadAccess){.space = SPACE_GLOBAL, .type = REG_I64, .n = 1, .align = 8, .order = ORDER_RELAXED,
		.scope = SCOPE_GPU, .base = lower_param(l, ABI_ARRIVALS, 0, 0)};
}

static Reg
is_first(Lower *l)
{
	return lower_op2(l, THREAD_EQ, l->thread, lower_i32(l, 0));
}

/* By one thread. */
static Reg
fetch(Lower *l, const Op *op)
{
	Reg least = lower_regs(l, op->in[0])[0];
	ThreadAccess counter = counter_of(l);

	if (!value_constant(op->in[0], &(int64_t){0})) {
		lower_when(l, lower_op2(l, THREAD_SLT, lower_i64(l, 0), least));
		add_to(l, &counter, ATOMIC_UMAX, least);
		lower_end_when(l);
	}
	return add_to(l, &counter, ATOMIC_ADD, lower_i64(l, 1));
}

void
lower_fetch(Lower *l, Op *op)
{
	Reg *out = lower_new(l, &op->out[0]);

	if (l->is_lone) {
		out[0] = fetch(l, op);
		return;
	}
	thread_if(l->b, is_first(l));
	Reg n = fetch(l, op), none = lower_i64(l, 0);
	thread_else(l->b, &n, 1);
	thread_if_end(l->b, &none, out, 1);
}

void
lower_fetch_end(Lower *l, Op *op)
{
	ThreadAccess counter = counter_of(l), ends = counter;
	Reg zero = lower_i64(l, 0), one = lower_i64(l, 1), last = lower_op2(l, THREAD_SUB, blocks_of(l), one);

	(void)op;
	ends.constant = ENDS_AT;
	ends.order = ORDER_ACQ_REL;
	if (!l->is_lone)
		lower_when(l, is_first(l));
	lower_when(l, lower_op2(l, THREAD_EQ, add_to(l, &ends, ATOMIC_ADD, one), last));
	add_to(l, &counter, ATOMIC_EXCHANGE, zero);
	ends.order = ORDER_RELAXED;
	add_to(l, &ends, ATOMIC_EXCHANGE, zero);
	lower_end_when(l);
	if (!l->is_lone)
		lower_end_when(l);
}

/* ---- one element of shared memory ---- */

void
lower_from_first(Lower *l, Op *op)
{
	RegType type = lower_type(op->out[0].type);
	ThreadAccess word = lower_shared_access(lower_scratch(l, op), type);

	lower_when(l, is_first(l));
	thread_store(l->b, &word, lower_regs(l, op->in[0]));
	lower_end_when(l);
	lower_barrier(l);
	thread_load(l->b, &word, lower_new(l, &op->out[0]));
}

void
lower_get_one(Lower *l, Op *op)
{
	ThreadAccess at = lower_shared_access(lower_regs(l, op->in[0])[0], lower_type(op->out[0].type));
	thread_load(l->b, &at, lower_new(l, &op->out[0]));
}

void
lower_put_one(Lower *l, Op *op)
{
	ThreadAccess at = lower_shared_access(lower_regs(l, op->in[0])[0], lower_type(op->in[1]->type));
	if (!l->is_lone)
		lower_when(l, lower_op2(l, THREAD_EQ, l->thread, lower_i32(l, 0)));
	thread_store(l->b, &at, lower_regs(l, op->in[1]));
	if (!l->is_lone)
		lower_end_when(l);
}
