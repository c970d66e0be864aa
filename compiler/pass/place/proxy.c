/* Puts a proxy fence between what threads write to shared memory and bulk copies into the same bytes.
 *
 *     %b = convert %a {smem = 0}                              %b = convert %a {smem = 0}
 *     %ring = alloc {smem = 0} : buffer<4 x …>                %ring = alloc {smem = 0} : buffer<4 x …>
 *                                                   =>        proxy_fence
 *     if %more {                                              if %more {sync = true} {
 *         copy %x, %k, (slot %0 of %ring), … "bulk"               copy %x, %k, (slot %0 of %ring), … "bulk"
 *
 * Threads write through the generic proxy, bulk copies through the async proxy: a barrier alone does not order the two
 * (PTX ISA, Memory Consistency Model, Proxies).  Each thread fences its writes, then the barrier of pass barrier lets the
 * copy begin.  Pass smem gives the bytes of a scratch to a later ring, so this follows it.
 *
 *     %v = get %slot                                          %v = get %slot
 *     arrive %empty, %now {by = "warp"}             =>        proxy_fence
 *                                                             arrive %empty, %now {by = "warp"}
 *
 * Nor does an arrival order a thread's reads before the copy that fills the slot again: ptxas has the arrival follow the
 * loads at once, and on an H100 rows that a warp read last had the next trip's values (an additive mask, heads of 256). */
#include "pass/place/hazard.h"

#include <string.h>

typedef struct Fences {
	Module *m;
	Arena *tmp;
	const Target *t;
	Buffers filled;
	Effects written;                                /* by threads, since the last fence */
} Fences;

static bool
is_overwritten(const Fences *k, const Op *copy)
{
	Effects effects = effects_of(copy, &k->filled, k->tmp);

	for (int i = 0; i < effects.n; i++)
		for (int j = 0; j < k->written.n && !effects.at[i].global; j++)
			if (effect_hazard(&k->written.at[j], &effects.at[i]) != SYNC_NONE)
				return true;
	return false;
}

static bool
copies_over_written(const Fences *k, const Op *op)
{
	if (op_is_bulk_copy(op))
		return is_overwritten(k, op);
	for (int r = 0; r < op->nregion; r++)
		for (const Op *in = op->region[r]->first; in; in = op_after(in, op->region[r]))
			if (op_is_bulk_copy(in) && is_overwritten(k, in))
				return true;
	return false;
}

static void
fence_before(Fences *k, Op *op)
{
	Builder b = build_before(op);

	op_make(&b, OP_PROXY_FENCE, NULL, 0, NULL, 0, NULL, 0);
	attr_set_sync(k->m, op, true);
	k->written.n = 0;
}

/* Ordinary writes; what bulk copies write needs no fence, and an mbarrier is no data. */
static void
add_written(Fences *k, const Op *op)
{
	OpPlan plan = plan_op(op, k->t);
	Effects effects = effects_of(op, &k->filled, k->tmp);

	if (plan.scratch)
		effects_add(&k->written, scratch_write(op, k->t, &plan, k->tmp), k->tmp);
	for (int i = 0; i < effects.n; i++) {
		const Effect *e = &effects.at[i];
		if (e->write && !e->global && !op_is_bulk_copy(op) && (!e->of || e->of->kind == OP_ALLOC))
			effects_add(&k->written, *e, k->tmp);
	}
}

static void walk(Fences *k, Block *b);

/* Regions from what was written before; what any of them leaves, or none of them ran. */
static void
walk_regions(Fences *k, Op *op)
{
	Effects before = effects_copy(&k->written, k->tmp), left = effects_copy(&k->written, k->tmp);

	for (int r = 0; r < op->nregion; r++) {
		k->written = effects_copy(&before, k->tmp);
		for (int i = 0; i < (op_is_loop(op) ? 2 : 1); i++)
			walk(k, op->region[r]);
		effects_join(&left, &k->written, k->tmp);
	}
	k->written = left;
}

static void
walk(Fences *k, Block *b)
{
	for (Op *op = b->first; op; op = op->next) {
		if (op->kind == OP_PROXY_FENCE)
			k->written.n = 0;
		else if (!op_is_loop(op) && copies_over_written(k, op))
			fence_before(k, op);
		if (op->nregion)
			walk_regions(k, op);
		else
			add_written(k, op);
	}
}

/* Have threads read a slot since the last fence?  What loops before the op read counts, too. */
static bool
follows_reads(const Op *arrive)
{
	for (const Op *op = arrive->prev; op && op->kind != OP_PROXY_FENCE; op = op->prev) {
		if (op->kind == OP_GET)
			return true;
		for (int r = 0; r < op->nregion; r++)
			if (block_find(op->region[r], OP_GET))
				return true;
	}
	return false;
}

void
place_proxy_fences(Func *f, const Target *t)
{
	Fences k = {.m = f->module, .tmp = f->module->cx->tmp, .t = t};
	bool copies = false;

	for (const Op *op = f->body->first; op; op = op_after(op, f->body))
		copies |= op_is_bulk_copy(op);
	if (!copies)
		return;
	k.filled = find_filled(f->body, k.tmp);
	walk(&k, f->body);
}

void
place_release_fences(Func *f)
{
	for (Op *op = f->body->first; op; op = op_after(op, f->body)) {
		Builder b = build_before(op);
		if (op->kind == OP_ARRIVE && attr_sync_warp(op) && follows_reads(op))
			op_make(&b, OP_PROXY_FENCE, NULL, 0, NULL, 0, NULL, 0);
	}
}
