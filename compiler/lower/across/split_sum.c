/* The sum of what the blocks of a cluster have, through their shared memory.
 *
 *     %s = split_sum %p : f32[16, 64] #0
 *
 *     store.shared register r of thread t at scratch + 4 (threads r + t)
 *     cluster_arrive, cluster_wait                    each block's scratch is filled
 *     s = load from the block of rank 0 + load from that of rank 1 + …
 *     cluster_arrive, cluster_wait                    and has been read: it may be used again, and its block may end
 *
 * All blocks run the same code, so a thread's registers hold the same elements in each of them: no layout changes, accesses
 * are of neighbouring words, and the sum is in one order everywhere, the same on every run. */
#include "lower/lower.h"

static void
meet(Lower *l)
{
	thread_prim(l->b, PRIM_CLUSTER_ARRIVE, NULL, 0, NULL, 0, NULL, 0);
	thread_prim(l->b, PRIM_CLUSTER_WAIT, NULL, 0, NULL, 0, NULL, 0);
}

static void
store_own(Lower *l, Reg base, Reg mine, const Reg *v, int n, int threads, uint64_t repeats)
{
	for (int r = 0; r < n; r++) {
		ThreadAccess a = lower_shared_access(base, REG_I32);
		Reg word = lower_as(l, CAST_BITS, REG_I32, v[r]);
		a.offset = mine;
		a.constant = (int64_t)4 * threads * r;
		if (!((uint64_t)r & repeats))
			thread_store(l->b, &a, &word);
	}
}

/* Register r of the block whose scratch, this thread's part, is at `there`. */
static Reg
load_peer(Lower *l, Reg there, int64_t offset, RegType t)
{
	Reg word, at = lower_op2(l, THREAD_ADD, there, lower_i32(l, offset));
	thread_prim(l->b, PRIM_CLUSTER_LOAD, &at, 1, NULL, 0, &word, 1);
	return lower_as(l, CAST_BITS, t, word);
}

void
lower_split_sum(Lower *l, Op *op)
{
	const Layout *layout = op->out[0].layout;
	const Reg *v = lower_operand(l, op, 0, layout);
	int n = lower_count(&op->out[0]), threads = l->warps * l->t->lanes, blocks = l->f->schedule.split;
	bool is_float = dtype_is_float(op->out[0].type->elem);
	uint64_t repeats = lower_repeats(layout);
	RegType t = thread_type_of(l->b, v[0]);
	Reg *out = lower_new(l, &op->out[0]), base, mine;
	if (blocks <= 1 || !(l->t->has & HAS_CLUSTER)) {
		for (int r = 0; r < n; r++)
			out[r] = v[r];
		return;
	}
	base = lower_scratch(l, op);
	mine = lower_op2(l, THREAD_SHL, l->thread, lower_i32(l, 2));
	store_own(l, base, mine, v, n, threads, repeats);
	meet(l);
	for (int b = 0; b < blocks; b++) {
		Reg in[] = {thread_pointer(l->b, base, mine), lower_i32(l, b)}, there;
		thread_prim(l->b, PRIM_CLUSTER_ADDRESS, in, 2, NULL, 0, &there, 1);
		for (int r = 0; r < n; r++) {
			if ((uint64_t)r & repeats)
				continue;
			Reg x = load_peer(l, there, (int64_t)4 * threads * r, t);
			out[r] = b == 0 ? x : lower_op2(l, is_float ? THREAD_FADD : THREAD_ADD, out[r], x);
		}
	}
	for (int r = 0; r < n; r++)
		out[r] = out[(uint64_t)r & ~repeats];
	meet(l);
}
