/* Programs of one warp share a block, each warp with a program of its own.
 *
 *     kernel @spmv … warps(1) share(8)        =>      blocks of 8 warps, of programs 8 b … 8 b + 7
 *
 * A multiprocessor holds at most 32 blocks, of one warp each half of the warps that it has room for, and it takes as long
 * to start a block of one warp as one of eight.  Programs of one warp have no barrier with other warps: lowering makes a
 * warp's number part of its block's, and its shared memory a part of the block's (lower/kernel.c).  Nothing else of the
 * kernel changes. */
#include "pass/pass.h"
#include "target/target.h"

static const char *
reason(Func *f, const Target *t)
{
	enum { ALIGN = 128 };                           /* of each program's shared memory (lower/share.c) */
	int64_t bytes = f->schedule.share * ((f->shared_bytes + ALIGN - 1) / ALIGN * ALIGN);


	if (t->kind != TARGET_PTX)
		return "the target has no blocks that start slowly";
	if (f->naxis == 0)
		return "it has one program";
	if (f->schedule.warps != 1)
		return "a program has several warps";
	if (f->schedule.split > 1 || f->schedule.ctas > 1 || f->stream)
		return "blocks share its programs, or make clusters";
	for (const Op *op = f->body->first; op; op = op_after(op, f->body))
		switch (op_family(op)) {
		case FAMILY_REPORT: return "it prints or asserts";
		case FAMILY_PTX: return "it has PTX of its own";
		case FAMILY_BUFFER: return "it has buffers";
		case FAMILY_DOT: case FAMILY_DOT_ASYNC: return "it multiplies matrices";
		default: break;
		}
	if (block_find(f->body, OP_ROLES))
		return "it is parted into roles";
	return bytes <= t->shared_bytes ? NULL : arena_printf(f->module->cx->mem,
	    "%d programs need %lld bytes of shared memory; %s has %lld", f->schedule.share, (long long)bytes, t->name,
	    (long long)t->shared_bytes);
}

void
pass_share(Func *f, const Target *t)
{
	f->share_reason = f->schedule.share > 1 ? reason(f, t) : NULL;
	if (f->share_reason)
		f->schedule.share = 0;
}
