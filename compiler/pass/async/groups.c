/* Checks STAGED: what pass pipeline made, and the passes behind it rely on.
 *
 *     copy %x, %m, %k, (slot %free of %ring)       each asynchronous copy is committed before the next wait
 *     commit
 *     wait {left = 1}                              and waited for before its ring is read
 *     get (slot %now of %ring)                     {wrapped} slots are numbers of the ring
 *
 * Rings that mbarriers count are protocol.c's; where roles share them, by the fact PARTED. */
#include "pass/async/pipeline.h"
#include "pass/async/ring.h"
#include "pass/pass.h"

#include <string.h>

static bool
is_async(const Op *op)
{
	return op->kind == OP_COPY && strcmp(attr_kind(op), "cp_async") == 0;
}

/* The next op of that kind behind `op`, in its block or those around it within one loop, before any of kind `end`. */
static bool
is_followed(const Op *op, OpKind kind, OpKind end)
{
	for (; op; op = op->home->parent && op->home->parent->kind == OP_IF ? op->home->parent : NULL)
		for (const Op *next = op->next; next; next = next->next)
			if (next->kind == kind || next->kind == end)
				return next->kind == kind;
	return false;
}

static bool
is_preceded(const Op *op, OpKind kind)
{
	for (; op; op = op->home->parent)
		for (const Op *prev = op->prev; prev; prev = prev->prev)
			if (prev->kind == kind)
				return true;
	return false;
}

/* Do asynchronous copies fill the buffer? */
static bool
is_filled(const Func *f, const Op *alloc)
{
	for (const Op *op = f->body->first; op; op = op_after(op, f->body))
		if (is_async(op) && buffer_owner(op->in[access_data(op)]) == alloc)
			return true;
	return false;
}

const char *
check_staged(Func *f, const Target *t, const Op **at)
{
	for (const Op *op = f->body->first; op; op = op_after(op, f->body)) {
		*at = op;
		if (op->kind == OP_SLOT && attr_wrapped(op) && !ring_holds(op->in[1], op->in[0]->type->slots))
			return "{wrapped} of a number that may not be one of the ring's slots";
		if (is_async(op) && !is_followed(op, OP_COMMIT, OP_WAIT))
			return "an asynchronous copy that is not committed before the next wait";
		if (op->kind == OP_GET && is_filled(f, buffer_owner(op->in[0])) && !is_preceded(op, OP_WAIT))
			return "a get of what asynchronous copies fill, without a wait before it";
	}
	return f->module->facts & PARTED ? NULL : check_rings(f, at);
}
