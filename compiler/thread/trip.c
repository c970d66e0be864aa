/* What trips of a loop leave as it is; how many there are.
 *
 * An integer of 64 bits that sums and differences make of both kinds is parted, so that what is computed from the part that
 * stays goes out of the loop:
 *
 *     loop 0 .. r9 … (r5: i64 is carried)                        still: sub r2, r3
 *         r6: i64 = add r2, r5                                   moved: r5
 *         r7: i64 = sub r6, r3
 *
 * Sums are modulo 2^64, hence the same in any order. */
#include "thread/builder.h"

enum { DEPTH = 8 };                                     /* of sums that are looked into */

typedef struct Parts {
	ThreadBuilder *b;
	const ThreadRegion *loop;
	Reg sum[2];                                     /* what stays and what moves; 0: nothing */
} Parts;

static const ThreadRegion *
innermost_loop(const ThreadBuilder *b)
{
	return FIND_NEXT(at, b->region, at->outer, at->owner && at->owner->kind != NODE_IF);
}

static bool
moves(const Parts *p, Reg r)
{
	return FIND_NEXT(h, thread_def(p->b->m, r)->home, h->outer, h == p->loop) != NULL;
}

static void
add_part(Parts *p, Reg r, bool minus)
{
	Reg *sum = &p->sum[moves(p, r)], before = *sum;
	if (!before && minus)
		before = thread_int_const(p->b, REG_I64, 0);
	*sum = before ? thread_op(p->b, minus ? THREAD_SUB : THREAD_ADD, before, r, 0) : r;
}

static void
part(Parts *p, Reg r, bool minus, int depth)
{
	const ThreadNode *n = thread_def(p->b->m, r);
	bool is_sum = n->kind == NODE_OP && (n->op == THREAD_ADD || n->op == THREAD_SUB);
	if (!is_sum || depth == DEPTH || !moves(p, r)) {
		add_part(p, r, minus);
		return;
	}
	part(p, n->in[0], minus, depth + 1);
	part(p, n->in[1], minus != (n->op == THREAD_SUB), depth + 1);
}

bool
thread_trip_parts(ThreadBuilder *b, Reg r, Reg *still, Reg *moved)
{
	Parts p = {.b = b, .loop = innermost_loop(b)};
	if (!p.loop || thread_type_of(b, r) != REG_I64)
		return false;
	part(&p, r, false, 0);
	*still = p.sum[0];
	*moved = p.sum[1];
	return *still && *moved;
}

/* A constant, or of the index of a loop around `inner` its mean; 0: not known, as a thread's number. */
static double
mean_of(const ThreadModule *m, const ThreadNode *inner, Reg r)
{
	int64_t n, step;
	if (thread_const(m, r, &n))
		return (double)n;
	for (const ThreadRegion *at = inner->region[0]->outer; at && at->owner; at = at->outer) {
		const ThreadNode *loop = at->owner;
		if (loop->kind == NODE_LOOP && at->arg[0] == r && thread_const(m, loop->in[2], &step))
			return (mean_of(m, loop, loop->in[0]) + mean_of(m, loop, loop->in[1]) - (double)step) / 2;
	}
	return 0;
}

double
thread_trips(const ThreadModule *m, const ThreadNode *n)
{
	int64_t step;
	if (n->kind != NODE_LOOP || !thread_const(m, n->in[2], &step) || step <= 0)
		return 1;
	return MAX((mean_of(m, n, n->in[1]) - mean_of(m, n, n->in[0])) / (double)step, 1);
}
