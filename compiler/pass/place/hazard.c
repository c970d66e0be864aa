/* Hazards: two accesses to one address by different threads of a block, of which one writes at least.
 *
 * A tile's element is read or written by the threads whose layout holds it.  So an access with the same tensor, the same
 * indices and the same layout touches each element in the same thread, and the thread's own order is enough, unless
 * the layout repeats elements: then any of the holders may read, but only the first writes.  The same holds of indices that
 * differ, where tiles begin at multiples of their extents: both are then the same tile or have nothing in common.  Places
 * that are gathered may be the same for two threads.
 *
 *     %a = read %x, %i … #0            %c = add %a, %b            write %x, %i, %c …         no barrier
 *
 * Elements of 4 bits that threads write one by one share their bytes with other threads', and reads are of bytes: the
 * element's own thread is not enough there.
 *
 * Iterations of a loop have no hazard where the iteration distance (distance.c) is the extent at least.  A tensor that is
 * `out` or `inout` overlaps no other: it aliases itself only.  Pointers alias everything that may be written. */
#include "pass/async/ring.h"
#include "pass/layout/axis.h"
#include "pass/place/hazard.h"

#include <string.h>

enum { PROGRAM_DEPTH = 12 };                            /* of an index's computation */

/* Written by halves of bytes: each of two threads changes its own four bits. */
static bool
writes_nibbles(const Op *op)
{
	return op->kind == OP_WRITE && dtype_is_packed(op->in[0]->type->elem) && attr_vector(op) < 2;
}

/* Does each element belong to one thread, the same for both?  A half of a byte is read together with the other half. */
static bool
same_threads(const Op *a, const Op *b)
{
	const Value *x = access_tile(a), *y = access_tile(b);

	if ((writes_nibbles(a) && b->kind != OP_WRITE) || (writes_nibbles(b) && a->kind != OP_WRITE))
		return false;
	if (!x || !y || x->layout != y->layout || x->type->rank == 0 || !x->layout)
		return false;
	return !layout_free_bits(x->layout, IN_LANE) && !layout_free_bits(x->layout, IN_WARP) &&
	    x->layout->in[IN_BLOCK] == 0;
}

/* Does a part start at multiples of its extent?  Two such parts are one, or have no element in common. */
static bool
is_aligned(const Value *start, int64_t extent)
{
	return extent > 0 && (extent & (extent - 1)) == 0 && axis_div(axis_of(start), 0) >= log2_floor(extent);
}

/* Does an element that both touch, a in this iteration or an earlier one, stand at the same place of both tiles?  It does
 * where the tiles coincide along each dimension or have nothing in common there, as at two scalar indices. */
static bool
same_places(const Effect *before, const Op *b)
{
	const Op *a = before->op;
	const Block *loop = before->is_carried ? before->loop : NULL;
	const char *index = attr_index(a);
	bool tensor = access_is_tensor(a);
	int n = tensor ? a->in[0]->type->rank : 0, e = 0;

	if (tensor != access_is_tensor(b) || strcmp(index, attr_index(b)) != 0 ||
	    !ints_same(attr_extents(a), attr_extents(b)))
		return false;
	if (a->in[0] != b->in[0] || (loop && value_inside(a->in[0], loop)))
		return false;
	for (int i = 0; i < n; i++) {
		const Value *x = a->in[1 + i], *y = b->in[1 + i];
		int64_t extent = index[i] == 'p' ? attr_extents(a)->at[e++] : 1;
		bool same = x == y && !(loop && value_inside(x, loop));
		if (!same && (index[i] == 'g' || !is_aligned(x, extent) || !is_aligned(y, extent)))
			return false;
	}
	return true;
}

/* The same elements in one iteration. */
static bool
same_operands(const Op *a, const Op *b)
{
	int n = access_is_tensor(a) ? 1 + a->in[0]->type->rank : 1;
	return access_is_tensor(a) == access_is_tensor(b) && strcmp(attr_index(a), attr_index(b)) == 0 &&
	    ints_same(attr_extents(a), attr_extents(b)) && ALL_OF(i, n, a->in[i] == b->in[i]);
}

static bool
may_alias(const Op *a, const Op *b)
{
	bool ta = access_is_tensor(a), tb = access_is_tensor(b);

	if (ta && tb)
		return a->in[0] == b->in[0];
	if (!ta && !tb)
		return true;
	const Op *tensor = ta ? a : b;
	return tensor->home->func->param[tensor->in[0]->index].access == ACCESS_IN;
}

static bool
both_commute(const Effect *a, const Effect *b)
{
	return a->atomic && b->atomic && strcmp(attr_fn(a->op), attr_fn(b->op)) == 0 &&
	    a->op->out[0].nuses == 0 && b->op->out[0].nuses == 0;
}

/* The number of the program that v is computed from, where a block runs several together (pass coarsen).  False: of more
 * than one. */
static bool
find_program(const Value *v, int depth, const Value **number)
{
	const Op *op = v->def;
	if (!op || depth == 0)
		return true;
	if (op->kind == OP_PROGRAM_AT) {
		bool is_same = !*number || *number == op->in[0];
		*number = op->in[0];
		return is_same;
	}
	return ALL_OF(i, op->nin, find_program(op->in[i], depth - 1, number));
}

static const Value *
program_of(const Op *access)
{
	int n = access_is_tensor(access) ? 1 + access->in[0]->type->rank : 1;
	const Value *number = NULL;
	return ALL_OF(i, n, find_program(access->in[i], PROGRAM_DEPTH, &number)) ? number : NULL;
}

/* Programs run in any order, also two of one block. */
static bool
different_programs(const Op *a, const Op *b)
{
	if (a->home->func->schedule.coarsen <= 1)
		return false;
	const Value *x = program_of(a), *y = program_of(b);
	return x && y && x != y;
}

/* May elements of one access be the same, as data says which, so that other threads have them, too? */
static bool
may_repeat(const Op *op)
{
	if (access_is_tensor(op))
		return strchr(attr_index(op), 'g');
	const Type *t = op->in[0]->type;
	return t->rank != 1 || axis_of(op->in[0])->contig[0] < log2_ceil(t->extent[0]);
}

static bool
global_hazard(const Effect *a, const Effect *b)
{
	if (a->acquires && !b->atomic)
		return true;
	if ((!a->write && !b->write) || !may_alias(a->op, b->op) || both_commute(a, b) || starts_disjoint(a, b) ||
	    different_programs(a->op, b->op))
		return false;
	if (a->is_carried && same_operands(a->op, b->op) && iterations_disjoint(a->op, a->loop))
		return false;
	return !same_places(a, b->op) || !same_threads(a->op, b->op) || may_repeat(a->op);
}

/* Slots of one ring, of which each iteration takes the next: different ones unless as many iterations lie between as the
 * ring has slots. */
static bool
slots_differ(const Effect *a, const Effect *b)
{
	return a->ring && a->ring == b->ring && effect_has_other_number(a, b->slot);
}

bool
effect_has_other_number(const Effect *e, const Value *number)
{
	int behind_e, behind;

	if (!e->ring || !e->slot)
		return false;
	int n = e->ring->type->slots;
	const Op *loop = number && !number->def ? number->block->parent : NULL;
	bool is_before = loop && loop->kind == OP_FOR && number->index > 0 && !op_inside(e->op, number->block);
	if (is_before && !e->is_past && e->distance == 0 && n > 1 && ring_follows(loop->in[2 + number->index], e->slot, n))
		return true;                            /* the loop's first iteration, which begins with the next slot */
	const Value *counter = ring_counter(e->slot, n, &behind_e);
	return counter && counter == ring_counter(number, n, &behind) && (e->distance + behind_e - behind) % n != 0;
}

static bool
bytes_overlap(const Effect *a, const Effect *b)
{
	if (a->lo >= b->hi || b->lo >= a->hi)
		return false;
	for (int i = 0; i < 64 && a->slots >> i; i++) {
		int64_t at = a->lo + i * a->slot_bytes;
		if ((a->slots >> i & 1) && at < b->hi && b->lo < at + a->slot_bytes)
			return true;
	}
	return a->slots == 0;
}

/* The scope by the threads that touch the bytes. */
static SyncScope
owners_hazard(const Effect *a, const Effect *b)
{
	const ScratchOwners *x = a->owners, *y = b->owners;
	bool known = x && y && a->lo == b->lo && x->lanes == y->lanes;
	SyncScope scope = known && x->is_exact && y->is_exact ? SYNC_NONE : SYNC_WARP;

	if (!known)
		return SYNC_BLOCK;
	for (int i = 0; i < MIN(x->n, y->n); i++) {
		if (x->thread[i] >> x->lanes != y->thread[i] >> y->lanes)
			return SYNC_BLOCK;
		if (x->thread[i] != y->thread[i])
			scope = SYNC_WARP;
	}
	return scope == SYNC_WARP && a->is_warp_synced ? SYNC_NONE : scope;
}

SyncScope
effect_hazard(const Effect *a, const Effect *b)
{
	if (a->global != b->global || (!a->write && !b->write && !a->acquires))
		return SYNC_NONE;
	if (a->global)
		return global_hazard(a, b) ? SYNC_BLOCK : SYNC_NONE;
	bool both_add = a->op->kind == OP_TALLY && b->op->kind == OP_TALLY && a->of == b->of;
	if ((!a->write && !b->write) || both_add || !bytes_overlap(a, b) || slots_differ(a, b))
		return SYNC_NONE;
	return owners_hazard(a, b);
}

/* ---- arrivals ---- */

static bool
takes_bytes(const Op *op, int64_t lo, int64_t hi)
{
	for (int i = 0; i < op->nin; i++) {
		const Op *owner = buffer_owner(op->in[i]);
		if (owner && attr_smem(owner) < hi &&
		    attr_smem(owner) + buffer_slot_bytes(owner) * owner->out[0].type->slots > lo)
			return true;
	}
	return false;
}

/* Do other threads than those of the arrival's role, or other groups of it, access the bytes?  Each group has slots of its
 * own, by its number.  Where they do not, no mbarrier orders accesses of them, and the role's own barriers do. */
static bool
is_shared(const Effect *e, const Op *arrival)
{
	const Block *role = arrival->home, *body = role->func->body;
	while (role->parent && role->parent->kind != OP_ROLES)
		role = role->parent->home;
	if (!role->parent)
		return true;
	if (op_groups(arrival) > 1 && e->slot != &role->arg[0])
		return true;
	return ANY_OP(op, body, !op_inside(op, role) && takes_bytes(op, e->lo, e->hi));
}

bool
effect_is_arrived(const Effect *e, const Op *arrival)
{
	return e->of && (e->op->kind == OP_AWAIT || (e->of->kind == OP_ALLOC && is_shared(e, arrival)));
}
