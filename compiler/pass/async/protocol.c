/* Checks PARTED: roles hand slots over by mbarriers as the ring's protocol asks, so that a broken pass is an error and not
 * a hang.
 *
 *     for %k do (%slot, %phase) {                      each role steps through slots and phases alike: the slot counts up
 *         await %empty, %slot, 1 - %phase              to its ring's length, and the parity flips where it wraps, both from
 *         expect %full, %slot {bytes = 49152}          0 and through all programs; the producer waits for the phase before
 *         copy … slot %slot of %a, %full, %slot        bytes expected are bytes copied; copies stand behind the wait for a
 *     }                                                free slot
 *     for %k do (%slot, %phase) {                      as many iterations: equal bounds, up to cloning
 *         await %full, %slot, %phase
 *         %d = dot_start (slot %slot of %a) …          each read of a slot stands between the wait for it and the arrival,
 *         %e = dot_wait %d                             and so does the wait for a product that reads it
 *         arrive %empty, %slot {by = "warp"}           arrivals of an iteration are the mbarrier's count
 *     }
 *
 * In a cluster, where a copy goes to several blocks ({mask}), a slot is given back to them all, a barrier of the cluster
 * stands before and behind the roles, and loops run as often in each block.
 *
 * All of it is looked up in one block of each role, the body of the loop that the slot is carried through; reads may stand
 * in loops of that block.  Rings are checked one by one: two that a loop fills may be waited for and freed apart. */
#include "pass/async/pipeline.h"
#include "pass/async/ring.h"

#include <string.h>

typedef struct Protocol {
	const Op *roles;
	const Op *at;                                   /* the op to blame */
	const char *why;
} Protocol;

static bool
fails(Protocol *p, const Op *at, const char *why)
{
	p->at = at;
	p->why = why;
	return false;
}

/* ---- equal up to cloning ---- */

static bool same_value(const Value *a, const Value *b, int depth);

static bool
same_bounds(const Op *a, const Op *b, int depth)
{
	for (int i = 0; i < 3; i++)
		if (!same_value(a->in[i], b->in[i], depth))
			return false;
	return true;
}

static bool
same_value(const Value *a, const Value *b, int depth)
{
	if (a == b)
		return true;
	if (depth == 0 || !a->def != !b->def || a->index != b->index)
		return false;
	if (!a->def) {
		const Op *x = a->block->parent, *y = b->block->parent;
		return x && y && x->kind == OP_FOR && y->kind == OP_FOR && a->index == 0 && same_bounds(x, y, depth - 1);
	}
	const Op *x = a->def, *y = b->def;
	if (x->kind != y->kind || x->nin != y->nin || !op_has(x, PURE) || !attrs_same(x, y))
		return false;
	for (int i = 0; i < x->nin; i++)
		if (!same_value(x->in[i], y->in[i], depth - 1))
			return false;
	return true;
}

/* Loops around two blocks, from the inside out, run as often. */
static bool
same_loops(const Block *a, const Block *b)
{
	enum { DEPTH = 24 };
	const Op *x = a->parent, *y = b->parent;

	for (; x->kind == OP_FOR && y->kind == OP_FOR; x = x->home->parent, y = y->home->parent)
		if (!same_bounds(x, y, DEPTH))
			return false;
	return x->kind == OP_ROLES && x == y;
}

/* ---- slots and phases ---- */

/* What the carried value is before the first iteration of all, through the loops around. */
static const Value *
first_value(const Value *v)
{
	while (!v->def && v->block->parent && v->block->parent->kind == OP_FOR && v->index > 0)
		v = v->block->parent->in[2 + v->index];
	return v;
}

/* An outer loop carries on what the inner one came to. */
static bool
is_carried_on(const Value *v)
{
	const Op *loop = v->block->parent;
	const Value *from = loop->in[2 + v->index];

	if (from->def)
		return true;
	const Op *outer = from->block->parent;
	return outer && outer->kind == OP_FOR && from->index > 0 &&
	    from->block->last->in[from->index - 1] == &loop->out[v->index - 1] && is_carried_on(from);
}

static bool
is_counter(const Value *v, int64_t n)
{
	return !v->def && v->block->parent->kind == OP_FOR && v->index > 0 && ring_counts(v, n) && is_carried_on(v) &&
	    value_is_int(first_value(v), 0);
}

/* 1 - v */
static bool
is_other_phase(const Value *x, const Value *v)
{
	return x->def && x->def->kind == OP_SUB && value_is_int(x->def->in[0], 1) && x->def->in[1] == v;
}

/* select(the next slot is 0, 1 - phase, phase), 0 at first */
static bool
is_phase(const Value *v, const Value *slot)
{
	if (v->def || v->block != slot->block || v->index == 0)
		return false;
	const Op *yield = v->block->last, *next = yield->in[v->index - 1]->def;
	const Op *wraps = next && next->kind == OP_SELECT ? next->in[0]->def : NULL;
	if (!wraps || wraps->kind != OP_EQ || wraps->in[0] != yield->in[slot->index - 1] || !value_is_int(wraps->in[1], 0))
		return false;
	return is_other_phase(next->in[1], v) && next->in[2] == v && is_carried_on(v) && value_is_int(first_value(v), 0);
}

/* `before`: the phase before the slot's is waited for, so that its first one is over from the beginning. */
static bool
check_await(Protocol *p, const Op *await, bool before)
{
	const Value *slot = await->in[1], *phase = await->in[2];

	if (!is_counter(slot, await->in[0]->type->slots) || slot->block != await->home)
		return fails(p, await, "a slot that does not count through its ring");
	if (before && phase->def && is_other_phase(phase, phase->def->in[phase->def->nin - 1]))
		phase = phase->def->in[1];
	else if (before)
		return fails(p, await, "a wait for the phase that is to begin");
	return is_phase(phase, slot) ||
	    fails(p, await, "a parity that does not flip where its slot wraps");
}

/* ---- one iteration of each role ---- */

/* The op of that kind on the ring in the block, from `op` on. */
static const Op *
find_on(const Op *op, OpKind kind, const Value *ring)
{
	while (op && (op->kind != kind || op->in[0] != ring))
		op = op->next;
	return op;
}

static bool
comes_before(const Op *a, const Op *b)
{
	while (a && a != b)
		a = a->next;
	return a == b;
}

static bool
counts_for(const Op *op, const Value *full)
{
	int at = op->kind == OP_COPY ? access_data(op) : 0;

	return op->kind == OP_COPY && at + 2 < op->nin && op->in[at + 1] == full;
}

/* The slot of a buffer: which it is of, and its number. */
static bool
is_slot_of(const Value *v, const Op *alloc, const Value *number)
{
	return v->def && v->def->kind == OP_SLOT && buffer_owner(v) == alloc && v->def->in[1] == number;
}

static bool
check_bytes(Protocol *p, const Op *expect)
{
	int64_t bytes = 0;

	for (const Op *op = expect->home->first; op; op = op->next) {
		if (!counts_for(op, expect->in[0]))
			continue;
		const Value *slot = op->in[access_data(op)];
		if (op->in[access_data(op) + 2] != expect->in[1] || !is_slot_of(slot, buffer_owner(slot), expect->in[1]))
			return fails(p, op, "a copy into another slot than it counts for");
		bytes += dtype_bytes(slot->type->elem, type_count(slot->type));
	}
	return bytes == attr_bytes(expect) ||
	    fails(p, expect, "bytes expected are not those copied");
}

/* Does the wait leave the product to run on? */
static bool
waits_for(const Op *wait, const Op *start)
{
	if (attr_left(wait) == 0)
		return true;
	for (int i = 0; i < wait->nin; i++)
		if (wait->in[i] == &start->out[0])
			return true;
	return false;
}

/* A product that reads the slot is over before the arrival, or the end of its block. */
static bool
is_waited_for(const Op *start, const Op *arrive)
{
	for (const Op *op = start; op && op != arrive; op = op->next)
		if (op->kind == OP_DOT_WAIT && waits_for(op, start))
			return true;
	return false;
}

/* The op of the block that it is or stands in. */
static const Op *
ancestor_in(const Op *op, const Block *b)
{
	while (op && op->home != b)
		op = op->home->parent;
	return op;
}

static bool
check_read(Protocol *p, const Op *op, const Op *await, const Op *arrive)
{
	const Op *at = ancestor_in(op, await->home);
	if (!at || !comes_before(await, at) || !comes_before(at, arrive))
		return fails(p, op, "a slot is read outside of its phase");
	return op->kind != OP_DOT_START || is_waited_for(op, arrive) ||
	    fails(p, op, "a slot is given back while a product reads it");
}

/* Every op of the consumers that reads what copies for this ring of mbarriers fill. */
static bool
check_reads(Protocol *p, const Op *copy, const Op *await, const Op *arrive)
{
	const Block *b = p->roles->region[1];
	const Op *alloc = buffer_owner(copy->in[access_data(copy)]);

	for (const Op *op = b->first; op; op = op_after(op, b))
		for (int i = 0; i < op->nin; i++) {
			const Value *v = op->in[i];
			if (op->kind == OP_SLOT || v->type->kind != TYPE_BUFFER || buffer_owner(v) != alloc)
				continue;
			if (!is_slot_of(v, alloc, await->in[1]))
				return fails(p, op, "another slot than was waited for");
			if (!check_read(p, op, await, arrive))
				return false;
		}
	return true;
}

static bool
check_arrivals(Protocol *p, const Op *arrive)
{
	int64_t n = 0;

	for (const Op *op = arrive->home->first; op; op = op->next)
		if (op->kind == OP_ARRIVE && op->in[0] == arrive->in[0])
			n += (*attr_by(op) ? op_warps(op) : 1) * attr_copies(p->roles)->at[1] *
			    MAX(__builtin_popcountll((uint64_t)attr_mask(op)), 1);
	const Op *of = buffer_owner(arrive->in[0]);
	return (of && attr_count(of) == n) ||
	    fails(p, arrive, "arrivals of an iteration are not the mbarrier's count");
}

static const Op *
find_in(const Block *b, OpKind kind, const Value *ring)
{
	for (const Op *op = b->first; op; op = op_after(op, b))
		if (op->kind == kind && op->in[0] == ring)
			return op;
	return NULL;
}

/* The wait for a free slot before an expectation: of the ring that the consumers arrive at. */
static const Op *
free_before(const Protocol *p, const Op *expect)
{
	for (const Op *op = expect->prev; op; op = op->prev)
		if (op->kind == OP_AWAIT && op->in[1] == expect->in[1] &&
		    find_in(p->roles->region[1], OP_ARRIVE, op->in[0]))
			return op;
	return NULL;
}

/* ---- across the blocks of a cluster ---- */

static bool
has_cluster_barriers(const Protocol *p)
{
	const Op *before = p->roles->prev, *after = p->roles->next;
	while (before && before->kind != OP_CLUSTER_BARRIER && before->kind != OP_MBARRIER)
		before = before->prev;
	while (after && after->kind != OP_CLUSTER_BARRIER)
		after = after->next;
	return before && before->kind == OP_CLUSTER_BARRIER && after;
}

/* Loops around the copies but the one over programs, of which all blocks have as many. */
static bool
steps_alike(const Protocol *p, const Op *expect)
{
	Func *f = expect->home->func;
	for (const Op *loop = expect->home->parent; loop && loop != p->roles; loop = loop->home->parent) {
		const Op *programs = loop->home->parent;
		const Op *at = programs && programs->kind == OP_FOR ? cluster_program(programs) : NULL;
		if (at && !cluster_steps_alike(f, (int)attr_along(at), loop))
			return false;
	}
	return true;
}

/* Blocks that copy into each other's slots wait for each other's warps. */
static bool
check_peers(Protocol *p, const Op *expect, const Op *arrive)
{
	int64_t mask = 0;
	for (const Op *op = expect->home->first; op; op = op->next)
		if (counts_for(op, expect->in[0]))
			mask |= attr_mask(op);
	if (mask != attr_mask(arrive))
		return fails(p, arrive, "a slot is not given back to the blocks that copy into it");
	if (!mask)
		return true;
	if (!has_cluster_barriers(p))
		return fails(p, arrive, "no barrier of the cluster before and after what its blocks share");
	return steps_alike(p, expect) || fails(p, expect, "blocks of a cluster that may not run as many iterations");
}

static bool
check_ring(Protocol *p, const Op *expect)
{
	const Value *full = expect->in[0];
	const Op *empty = free_before(p, expect), *await = find_in(p->roles->region[1], OP_AWAIT, full);

	if (!empty)
		return fails(p, expect, "copies that wait for no free slot");
	if (!await)
		return fails(p, expect, "no consumer waits for the copies");
	const Op *arrive = find_on(await, OP_ARRIVE, empty->in[0]);
	if (!arrive || arrive->in[1] != await->in[1])
		return fails(p, await, "a slot is not given back");
	if (attr_count(buffer_owner(full)) != 1)
		return fails(p, expect, "the producer's arrival is not the mbarrier's count");
	if (!same_loops(expect->home, await->home))
		return fails(p, await, "roles that run their loops as often are not known to");
	if (!check_await(p, empty, true) || !check_await(p, await, false) || !check_bytes(p, expect) ||
	    !check_arrivals(p, arrive) || !check_peers(p, expect, arrive))
		return false;
	for (const Op *op = expect->home->first; op; op = op->next) {
		if (!counts_for(op, full))
			continue;
		if (!comes_before(empty, op))
			return fails(p, op, "a copy before the wait for a free slot");
		if (!check_reads(p, op, await, arrive))
			return false;
	}
	return true;
}

const char *
check_parted(Func *f, const Target *t, const Op **at)
{
	Protocol p = {0};

	for (const Op *op = f->body->first; op && !p.roles; op = op->next)
		p.roles = op->kind == OP_ROLES ? op : NULL;
	const Block *b = p.roles ? p.roles->region[0] : NULL;
	for (const Op *op = b ? b->first : NULL; op; op = op_after(op, b))
		if (op->kind == OP_EXPECT && !check_ring(&p, op))
			break;
	*at = p.at;
	return p.why ? arena_printf(f->module->cx->tmp, "%s, though the module claims PARTED", p.why) : NULL;
}
