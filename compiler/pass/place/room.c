/* How much of a block's shared memory a part of a kernel leaves, before pass smem places what there is: beside buffers that
 * are used from there on, mbarriers, and the scratch of the part's ops. */
#include "pass/async/pipeline.h"

#include "model/model.h"

enum { SLOT_ALIGN = 1024, MBARRIER_BYTES = 8 };

static bool
is_used_from(const Func *f, const Op *alloc, const Op *from)
{
	for (const Op *op = from; op; op = op_after(op, f->body))
		if (op_takes_buffer(op, alloc))
			return true;
	return false;
}

/* With what aligns it; slots of one element take no more than they hold. */
static int64_t
buffer_bytes(const Op *alloc)
{
	int64_t slot = buffer_slot_bytes(alloc), bytes = slot * alloc->out[0].type->slots;
	return slot <= MBARRIER_BYTES ? bytes : (bytes + SLOT_ALIGN - 1) / SLOT_ALIGN * SLOT_ALIGN;
}

int64_t
room_between(const Func *f, const Target *t, const Op *write, const Op *first, const Op *end)
{
	int64_t room = t->shared_bytes, scratch = 0;
	for (const Op *op = f->body->first; op; op = op_after(op, f->body)) {
		if (op->kind == OP_ALLOC && is_used_from(f, op, first))
			room -= buffer_bytes(op);
		else if (op->kind == OP_MBARRIER)
			room -= MBARRIER_BYTES * op->out[0].type->slots;
	}
	for (const Op *op = first; op && op != end; op = op_after(op, f->body))
		if (op->kind != OP_ALLOC && op != write->in[access_data(write)]->def)
			scratch = MAX(scratch, plan_op(op, t).scratch);
	return room - scratch;
}
