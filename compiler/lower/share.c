/* A block's shared memory, and blocks of several programs of one warp (pass share): each is to itself a block of its own,
 * its warp's number part of the block's, and its shared memory a part of the block's. */
#include "lower/lower.h"

static int64_t
program_bytes(const Func *f, const Target *t)
{
	enum { ALIGN = 128 };
	int64_t n = f->shared_bytes;                    /* buffers too, if pass smem gave them offsets */
	for (Op *op = f->body->first; op; op = op_after(op, f->body)) {
		int64_t bytes = plan_op(op, t).scratch;
		n = bytes ? MAX(n, attr_smem(op) + bytes) : n;
	}
	return f->schedule.share > 1 ? (n + ALIGN - 1) / ALIGN * ALIGN : n;
}

int64_t
lower_block_bytes(const Func *f, const Target *t)
{
	return MAX(f->schedule.share, 1) * program_bytes(f, t);
}

void
lower_share_block(Lower *l)
{
	int share = l->f->schedule.share;
	int64_t bytes = program_bytes(l->f, l->t);
	if (share <= 1)
		return;
	l->block = lower_op2(l, THREAD_ADD, lower_op2(l, THREAD_MUL, l->block, lower_i32(l, share)), l->warp);
	if (bytes)
		l->shared = thread_pointer(l->b, l->shared, lower_op2(l, THREAD_MUL, l->warp, lower_i32(l, bytes)));
	l->thread = l->lane;
	l->warp = lower_i32(l, 0);
}

void
lower_when_program(Lower *l, const Reg grid[MAX_AXES])
{
	Reg all = grid[0];
	for (int d = 1; d < l->f->naxis; d++)
		all = lower_op2(l, THREAD_MUL, all, grid[d]);
	lower_when(l, lower_op2(l, THREAD_ULT, l->block, all));
}
