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
 * Nor does a barrier or an arrival order threads' reads before a copy into the same bytes: on an H200 half of what threads
 * read with conflicts between banks, and use behind the barrier, was the next copy's (bench/results/h200-order.md).  A role
 * fences what it has read before it gives slots back; elsewhere the thread that begins the copy does, alone:
 *
 *     %v = get %slot                                          %v = get %slot
 *     arrive %empty, %now {by = "warp"}             =>        proxy_fence
 *                                                             arrive %empty, %now {by = "warp"}
 *
 *     %v = get (slot %now of %ring)                           %v = get (slot %now of %ring)
 *     copy %x, %k, (slot %now of %ring), … {sync}   =>        copy %x, %k, (slot %now of %ring), … {sync, fenced} */
#include "pass/place/hazard.h"

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
	return ANY_OF(r, op->nregion, ANY_OP(in, op->region[r], op_is_bulk_copy(in) && is_overwritten(k, in)));
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
		if (op->nregion && !op_has_fn(op))
			walk_regions(k, op);
		else
			add_written(k, op);
	}
}

static bool
gets(const Op *op)
{
	return op->kind == OP_GET || op->kind == OP_GET_ONE;
}

static bool
fills(const Fences *k, const Op *copy, const Op *get)
{
	Effects filled = effects_of(copy, &k->filled, k->tmp), read = effects_of(get, &k->filled, k->tmp);

	return ANY_OF(i, filled.n,
	    !filled.at[i].global && filled.at[i].lo < read.at[0].hi && read.at[0].lo < filled.at[i].hi);
}

/* May the get come before the copy of its role, which it stands before in the code or not?  In the next turn of a loop. */
static bool
may_precede(const Op *get, const Op *copy, bool stands_before)
{
	int mine = 0, other = 0;
	const Op *loop = copy->home->parent;

	if (op_roles(get, &other) && op_roles(copy, &mine) && other != mine)
		return false;
	while (loop && !(op_is_loop(loop) && op_inside(get, loop->region[loop->nregion - 1])))
		loop = loop->home->parent;
	return stands_before || loop;
}

static bool
fills_what_was_read(const Fences *k, const Block *body, const Op *copy)
{
	bool stands_before = true;

	for (const Op *op = body->first; op; op = op_after(op, body)) {
		stands_before = stands_before && op != copy;
		if (gets(op) && may_precede(op, copy, stands_before) && fills(k, copy, op))
			return true;
	}
	return false;
}

/* Has its thread fenced for a copy just before it, behind the same barrier? */
static bool
is_fenced(const Op *copy)
{
	for (const Op *op = copy->prev; op && !attr_sync(copy) && !attr_sync_warp(copy); op = op->prev) {
		if (op->kind == OP_AWAIT || op->nregion || gets(op) || attr_sync(op))
			return false;
		if (op->kind == OP_COPY && attr_fenced(op))
			return true;
	}
	return false;
}

void
place_proxy_fences(Func *f, const Target *t)
{
	Fences k = {.m = f->module, .tmp = f->module->cx->tmp, .t = t};
	bool copies = ANY_OP(op, f->body, op_is_bulk_copy(op));
	if (!copies)
		return;
	k.filled = find_filled(f->body, k.tmp);
	walk(&k, f->body);
}

static bool
is_filled_by_copies(const Fences *k, const Op *get)
{
	const Block *body = get->home->func->body;

	return ANY_OP(op, body, op_is_bulk_copy(op) && fills(k, op, get));
}

/* `reads`: threads have read slots since the last fence.  Whether they have at the end. */
static bool
fence_arrivals(const Fences *k, Block *b, bool reads)
{
	for (Op *op = b->first; op; op = op->next) {
		Builder before = build_before(op);
		if (op->kind == OP_ARRIVE && reads) {
			op_make(&before, OP_PROXY_FENCE, NULL, 0, NULL, 0, NULL, 0);
			reads = false;
		}
		reads = op->kind != OP_PROXY_FENCE && (reads || (gets(op) && is_filled_by_copies(k, op)));
		bool left = reads && (op_is_loop(op) || !op->nregion);
		for (int r = 0; r < op->nregion; r++)
			for (int i = 0; i < (op_is_loop(op) ? 2 : 1); i++)
				left |= fence_arrivals(k, op->region[r], reads || left);
		reads = left;
	}
	return reads;
}

void
place_read_fences(Func *f)
{
	Fences k = {.m = f->module, .tmp = f->module->cx->tmp};
	const Op *roles = func_find(f, OP_ROLES);

	k.filled = find_filled(f->body, k.tmp);
	for (int r = 1; roles && r < roles->nregion; r++)
		fence_arrivals(&k, roles->region[r], false);
	for (Op *op = f->body->first; op; op = op_after(op, f->body))
		if (op_is_bulk_copy(op) && fills_what_was_read(&k, f->body, op) && !is_fenced(op))
			attr_set_fenced(f->module, op, true);
}
