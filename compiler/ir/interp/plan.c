/* Opens a plan: which slot each value has, and what the parts of the interpreter must know beforehand.  A plain plan
 * gives every value a slot of its own; the others are left to the fast layer (fast/fast.h).  Everything is in the plan's
 * arena. */
#include "ir/interp/fast/fast.h"

#include <string.h>

int
param_index(const Value *v)
{
	return !v->def && !v->block->parent ? v->index : -1;
}

int
slot_add(Plan *p, int64_t bytes)
{
	vec_push(p->mem, &p->slot_bytes, bytes);
	return p->slot_bytes.n - 1;
}

static const char *
why_refused(Plan *p, const Op *op)
{
	Arena *tmp = p->func->module->cx->tmp;
	Elementwise e;

	if (op->kind == OP_INLINE_PTX)
		return "inline_ptx runs on PTX devices only; this device takes the `else` of a static if";
	if (!definition[op->kind] && !p->opt.gpu)
		return arena_printf(tmp, "%s is of code for GPUs", op_info[op->kind].text);
	if (op_has_fn(op) && op->nin > MAX_FOLD)
		return arena_printf(tmp, "%s of %d tiles; this device takes at most %d", op_info[op->kind].text, op->nin,
		    MAX_FOLD);
	if ((op_info[op->kind].traits & ELEM) && !elementwise_make(p, &e, op))
		return arena_printf(tmp, "%s cannot be computed on this device", op_info[op->kind].text);
	return NULL;
}

static void
share_memory(Plan *p, const Op *op)
{
	int64_t bytes = p->opt.gpu ? p->opt.gpu->shared_bytes(op) : 0;

	if (bytes == 0)
		return;
	p->shared_offset[op->out[0].id] = p->shared_bytes;
	p->shared_bytes += (bytes + 63) / 64 * 64;
}

static void
assign_slots(Plan *p)
{
	ValueList all = func_values(p->func, p->mem);

	for (int i = 0; i < all.n; i++)
		if (all.at[i]->type->kind != TYPE_TENSOR)
			p->slot[i] = slot_add(p, value_bytes(all.at[i]));
}

/* Scalars are contiguous; other slots begin at cache lines. */
static void
lay_out_slots(Plan *p)
{
	p->slot_offset = NEW_ARRAY(p->mem, int64_t, p->slot_bytes.n);
	for (int pass = 0; pass < 2; pass++) {
		p->bytes = (p->bytes + 63) / 64 * 64;
		for (int s = 0; s < p->slot_bytes.n; s++) {
			int64_t bytes = p->slot_bytes.at[s];
			if ((bytes > 8) != (pass == 1))
				continue;
			p->slot_offset[s] = p->bytes;
			if (__builtin_add_overflow(p->bytes, bytes > 8 ? (bytes + 63) / 64 * 64 : 8, &p->bytes))
				p->bytes = INT64_MAX / 4;
		}
	}
}

Plan *
plan_open(Func *f, const PlanOptions *opt, const char **why)
{
	Arena *mem = arena_open();
	Plan *p = NEW(mem, Plan);

	func_number(f);
	p->mem = mem;
	p->func = f;
	if (opt)
		p->opt = *opt;
	p->cpu = p->opt.base ? CPU_BASE : cpu_level();
	p->slot = NEW_ARRAY(mem, int, f->nvalues);
	memset(p->slot, -1, sizeof *p->slot * (size_t)f->nvalues);
	p->shared_offset = NEW_ARRAY(mem, int64_t, f->nvalues);
	for (Op *op = f->body->first; op && !p->why; op = op_after(op, f->body)) {
		p->why = why_refused(p, op);
		share_memory(p, op);
	}
	if (p->why) {
		*why = p->why;
		plan_close(p);
		return NULL;
	}
	provenance_find(p);
	if (p->opt.plain || p->opt.sanitize || p->opt.trace)
		assign_slots(p);
	else
		fast_open(p);
	lay_out_slots(p);
	return p;
}

void
plan_close(Plan *p)
{
	if (p)
		arena_close(p->mem);
}
