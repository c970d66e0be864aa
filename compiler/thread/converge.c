/* Convergence, where it can be known: a condition that is made of the thread's number and constants alone is computed for
 * each thread of the block, and what a whole warp or block must reach together may not stand where some come for certain
 * not.
 *
 *     r2: pred = ult.i32 r1, 16           r1 = thread
 *     if r2 { r3: i32 = shuffle_xor.1 r0 }         half of a warp: wrong
 *
 * Any other condition may be the same for all threads, and is taken to be. */
#include "thread/builder.h"
#include "thread/verify.h"

enum { DEEP = 32 };                                     /* nodes of a condition, one within the other */

/* A register's value in a thread; false: it depends on more. */
static bool
value_in(const ThreadVerify *v, Reg r, int thread, int depth, int64_t *out)
{
	const ThreadNode *n = thread_def(v->m, r);
	int64_t x, y;
	if (n->kind == NODE_PRIM && (n->op == PRIM_THREAD || n->op == PRIM_LANE)) {
		*out = n->op == PRIM_THREAD ? thread : thread % v->m->target->lanes;
		return true;
	}
	if (thread_const(v->m, r, out))
		return true;
	if (n->kind == NODE_PRIM && n->op == PRIM_SHUFFLE && depth < DEEP) {
		int lanes = v->m->target->lanes;
		return value_in(v, n->in[1], thread, depth + 1, &y) &&
		    value_in(v, n->in[0], thread / lanes * lanes + (int)(y & (lanes - 1)), depth + 1, out);
	}
	if (n->kind == NODE_CAST && (n->op == CAST_ZEXT || n->op == CAST_SEXT) && depth < DEEP)
		return value_in(v, n->in[0], thread, depth + 1, out) && *out >= 0;
	if (n->kind != NODE_OP || thread_op_operands[n->op] != 2 || depth == DEEP ||
	    thread_is_float(thread_type(v->m, n->in[0])))
		return false;
	return value_in(v, n->in[0], thread, depth + 1, &x) && value_in(v, n->in[1], thread, depth + 1, &y) &&
	    thread_fold((ThreadOp)n->op, thread_type(v->m, n->in[0]), x, y, out);
}

static int
threads(const ThreadVerify *v)
{
	return MIN(v->m->kernel.threads, THREAD_MOST);
}

void
thread_verify_all(ThreadVerify *v)
{
	for (int i = 0; i < threads(v); i++)
		v->active.set[i / 64] |= UINT64_C(1) << i % 64;
}

void
thread_verify_branch(ThreadVerify *v, Reg pred, bool is_then)
{
	int64_t taken;
	for (int i = 0; i < threads(v); i++) {
		if (!value_in(v, pred, i, 0, &taken))
			return;
		if ((taken != 0) != is_then)
			v->active.set[i / 64] &= ~(UINT64_C(1) << i % 64);
	}
}

static bool
is_of_block(const ThreadNode *n)
{
	return n->kind == NODE_PRIM &&
	    (n->op == PRIM_BARRIER || n->op == PRIM_CLUSTER_ARRIVE || n->op == PRIM_CLUSTER_WAIT);
}

static bool
is_of_warp(const ThreadNode *n)
{
	return n->kind == NODE_MMA || n->kind == NODE_WGMMA ||
	    (n->kind == NODE_PRIM && prim_info[n->op].flags & CONV && n->op != PRIM_HOLD);
}

/* Do all `group` threads come, or none, of each group? */
static bool
is_whole(const ThreadVerify *v, int group)
{
	for (int first = 0; first < threads(v); first += group) {
		int n = 0, of = MIN(group, threads(v) - first);
		for (int i = first; i < first + of; i++)
			n += v->active.set[i / 64] >> i % 64 & 1;
		if (n != 0 && n != of)
			return false;
	}
	return true;
}

bool
thread_verify_converges(ThreadVerify *v, const ThreadNode *n)
{
	if (is_of_block(n) && !is_whole(v, threads(v)))
		return thread_verify_fail(v, n, "not all threads of the block reach this barrier");
	if (is_of_warp(n) && !is_whole(v, v->m->target->lanes))
		return thread_verify_fail(v, n, "not all lanes of a warp reach this together");
	return true;
}
