/* When two accesses to device memory by one program may meet in one place from different threads.
 *
 * A tile's element is read or written by the threads whose layout holds it.  So an access with the same tensor, the same
 * indices and the same layout touches each element in the same thread, and the thread's own order is enough, unless
 * the layout repeats elements: then any of the holders may read, but only the first writes.
 *
 *     %a = read %x, %i … #0            %c = add %a, %b            write %x, %i, %c …         no barrier
 *
 * Elements of 4 bits that threads write one by one share their bytes with other threads', and reads are of bytes: the
 * element's own thread is not enough there.
 *
 * In a loop the same access comes again, elsewhere: `for %lo, %hi, %step` moves what depends on the index by a known
 * distance each trip, and if that is the extent at least, trips do not meet.  Tensors that a launch keeps apart
 * (`out` and `inout` overlap no other) meet only themselves; pointers meet everything that may be written. */
#include "pass/place/barrier.h"

#include <string.h>

bool
defined_in(const Value *v, const Block *b)
{
	for (const Block *at = v->block; at; at = at->parent ? at->parent->home : NULL)
		if (at == b)
			return true;
	return false;
}

static bool
is_tensor_access(const Op *op)
{
	return op->nin > 0 && op->in[0]->type->kind == TYPE_TENSOR;
}

/* The tile that moves, whose layout says which thread moves what. */
static const Value *
moved(const Op *op)
{
	if (op->kind == OP_READ || op->kind == OP_LOAD)
		return &op->out[0];
	if (op->kind == OP_WRITE)
		return op->in[op->nin - 1];
	if (op->kind == OP_STORE)
		return op->in[1];
	if (op->kind == OP_ATOMIC)
		return op->in[1 + op->in[0]->type->rank];
	return op->kind == OP_ATOMIC_PTR ? op->in[1] : NULL;
}

/* Written by halves of bytes: each of two threads changes its own four bits. */
static bool
writes_halves(const Op *op)
{
	return op->kind == OP_WRITE && dtype_is_packed(op->in[0]->type->elem) && attr_vector(op) < 2;
}

/* Does each element belong to one thread, the same for both?  Halves of a byte that are read meet the other half. */
static bool
same_threads(const Op *a, const Op *b)
{
	const Value *x = moved(a), *y = moved(b);

	if ((writes_halves(a) && b->kind != OP_WRITE) || (writes_halves(b) && a->kind != OP_WRITE))
		return false;
	if (!x || !y || x->layout != y->layout || x->type->rank == 0 || !x->layout)
		return false;
	return !layout_free_bits(x->layout, IN_LANE) && !layout_free_bits(x->layout, IN_WARP) &&
	    x->layout->in[IN_BLOCK] == 0;
}

/* Do both name the same places, element by element, in one trip? */
static bool
same_places(const Op *a, const Op *b)
{
	int n = is_tensor_access(a) ? 1 + a->in[0]->type->rank : 1;

	if (is_tensor_access(a) != is_tensor_access(b) || strcmp(attr_index(a), attr_index(b)) != 0 ||
	    !ints_same(attr_extents(a), attr_extents(b)))
		return false;
	for (int i = 0; i < n; i++)
		if (a->in[i] != b->in[i])
			return false;
	return true;
}

/* How far v moves with each trip of the loop whose body is b; false if that is not known. */
static bool
trip_distance(const Value *v, const Block *b, int64_t *d)
{
	const Op *def = v->def, *loop = b->parent;
	int64_t x, y;

	*d = 0;
	if (!defined_in(v, b))
		return true;
	if (v == &b->arg[0] && loop->kind == OP_FOR) {
		const Op *step = loop->in[2]->def;
		*d = step && step->kind == OP_CONST ? const_int(step) : 0;
		return *d != 0;
	}
	if (!def || def->home->func != b->func)
		return false;
	switch (def->kind) {
	case OP_BROADCAST:
	case OP_CONVERT:
	case OP_RESHAPE:
		return trip_distance(def->in[0], b, d);
	case OP_ADD:
	case OP_SUB:
	case OP_PTR_ADD:
		if (!trip_distance(def->in[0], b, &x) || !trip_distance(def->in[1], b, &y))
			return false;
		return !__builtin_add_overflow(x, def->kind == OP_SUB ? -y : y, d);
	case OP_MUL:
		for (int i = 0; i < 2; i++) {
			const Op *c = def->in[i]->def;
			if (c && c->kind == OP_CONST && !dtype_is_float(def->out[0].type->elem) &&
			    trip_distance(def->in[1 - i], b, &x))
				return !__builtin_mul_overflow(x, const_int(c), d);
		}
		return false;
	default:
		return false;
	}
}

/* How far apart elements of one tile of integers or pointers may be; false if that is not known. */
static bool
tile_span(const Value *v, int64_t *n)
{
	const Op *def = v->def;
	int64_t x, y;

	*n = 0;
	if (v->type->rank == 0)
		return true;
	if (!def)
		return false;
	switch (def->kind) {
	case OP_CONST:
		return true;
	case OP_IOTA:
		*n = def->out[0].type->extent[attr_axis(def)] - 1;
		return true;
	case OP_BROADCAST:
	case OP_CONVERT:
	case OP_RESHAPE:
		return tile_span(def->in[0], n);
	case OP_ADD:
	case OP_PTR_ADD:
		return tile_span(def->in[0], &x) && tile_span(def->in[1], &y) && !__builtin_add_overflow(x, y, n);
	case OP_MUL:
		for (int i = 0; i < 2; i++) {
			const Op *c = def->in[i]->def;
			int64_t by = c && c->kind == OP_CONST ? const_int(c) : -1;
			if (by >= 0 && tile_span(def->in[1 - i], &x))
				return !__builtin_mul_overflow(x, by, n);
		}
		return false;
	default:
		return false;
	}
}

static bool
passes_by(int64_t distance, int64_t extent)
{
	return distance >= extent || distance <= -extent;
}

/* Both name the same places as functions of the trip, and each trip's lie beyond the last one's. */
static bool
trips_apart(const Op *a, const Block *b)
{
	const char *index = attr_index(a);
	const IntList *extents = attr_extents(a);
	int64_t d, span;
	int e = 0;

	if (!is_tensor_access(a))
		return trip_distance(a->in[0], b, &d) && tile_span(a->in[0], &span) && d != 0 && passes_by(d, span + 1);
	for (int i = 0; i < a->in[0]->type->rank; i++) {
		int64_t extent = index[i] == 'p' ? extents->at[e++] : 1;
		if (index[i] != 'g' && trip_distance(a->in[1 + i], b, &d) && d != 0 && passes_by(d, extent))
			return true;
	}
	return false;
}

/* v is `base` (NULL: none) and a constant. */
static const Value *
base_of(const Value *v, int64_t *constant)
{
	int64_t more;

	*constant = 0;
	while (v->def && v->type->rank == 0) {
		const Op *def = v->def, *c = def->nin == 2 ? def->in[1]->def : NULL;
		if (def->kind == OP_CONST)
			return __builtin_add_overflow(*constant, const_int(def), constant) ? v : NULL;
		if ((def->kind != OP_ADD && def->kind != OP_SUB) || v->type->elem != TY_I64)
			return v;
		int k = def->kind == OP_ADD && !(c && c->kind == OP_CONST) ? 1 : 0;
		c = def->in[1 - k]->def;
		if (!c || c->kind != OP_CONST)
			return v;
		more = const_int(c);
		if (def->kind == OP_SUB ? __builtin_sub_overflow(*constant, more, &more)
		                        : __builtin_add_overflow(*constant, more, &more))
			return v;
		*constant = more;
		v = def->in[k];
	}
	return v;
}

/* Elements along the e-th range that really move; behind gathers, {valid} counts dimensions otherwise. */
static int64_t
moved_extent(const Op *op, int e)
{
	const IntList *valid = strchr(attr_index(op), 'g') ? NULL : attr_valid(op);

	return (valid ? valid : attr_extents(op))->at[e];
}

/* Starts a constant apart that do not meet, in one trip. */
static bool
starts_apart(const Use *before, const Use *after)
{
	const Op *a = before->op, *b = after->op;
	int ea = 0, eb = 0;

	if (!is_tensor_access(a) || !is_tensor_access(b))
		return false;
	for (int i = 0; i < a->in[0]->type->rank; i++) {
		char p = attr_index(a)[i], q = attr_index(b)[i];
		int64_t na = p == 'p' ? moved_extent(a, ea++) : 1, nb = q == 'p' ? moved_extent(b, eb++) : 1, sa, sb;
		if (p == 'g' || q == 'g')
			continue;
		const Value *x = base_of(a->in[1 + i], &sa), *y = base_of(b->in[1 + i], &sb);
		if (x != y || (x && before->is_old && defined_in(x, before->loop)))
			continue;
		uint64_t apart = sa >= sb ? (uint64_t)sa - (uint64_t)sb : (uint64_t)sb - (uint64_t)sa;
		if (apart >= (uint64_t)(sa >= sb ? nb : na))
			return true;
	}
	return false;
}

static bool
may_alias(const Op *a, const Op *b)
{
	bool ta = is_tensor_access(a), tb = is_tensor_access(b);

	if (ta && tb)
		return a->in[0] == b->in[0];
	if (!ta && !tb)
		return true;
	const Op *tensor = ta ? a : b;
	return tensor->home->func->param[tensor->in[0]->index].access == ACCESS_IN;
}

/* Does the loop leave all of a's operands alone? */
static bool
stays(const Op *a, const Block *b)
{
	int n = is_tensor_access(a) ? 1 + a->in[0]->type->rank : 1;

	for (int i = 0; i < n; i++)
		if (defined_in(a->in[i], b))
			return false;
	return true;
}

static bool
both_count(const Use *a, const Use *b)
{
	return a->atomic && b->atomic && strcmp(attr_fn(a->op), attr_fn(b->op)) == 0 &&
	    a->op->out[0].nuses == 0 && b->op->out[0].nuses == 0;
}

static bool
global_conflict(const Use *a, const Use *b)
{
	if (a->acquires && !b->atomic)
		return true;
	if ((!a->write && !b->write) || !may_alias(a->op, b->op) || both_count(a, b) || starts_apart(a, b))
		return false;
	if (!same_places(a->op, b->op))
		return true;
	if (a->is_old && trips_apart(a->op, a->loop))
		return false;
	if (a->is_old && !stays(a->op, a->loop))
		return true;
	return !same_threads(a->op, b->op);
}

bool
number_turns(const Value *v, int64_t n)
{
	const Op *loop = v->def ? NULL : v->block->parent;

	if (!loop || loop->kind != OP_FOR || v->index == 0)
		return false;
	const Op *wrap = v->block->last->in[v->index - 1]->def;
	const Op *test = wrap && wrap->kind == OP_SELECT ? wrap->in[0]->def : NULL;
	const Op *up = wrap && wrap->kind == OP_SELECT ? wrap->in[2]->def : NULL;
	if (!test || !up || test->kind != OP_EQ || up->kind != OP_ADD || up->in[0] != v || test->in[0] != &up->out[0])
		return false;
	const Op *one = up->in[1]->def, *end = test->in[1]->def, *zero = wrap->in[1]->def;
	return one && end && zero && one->kind == OP_CONST && end->kind == OP_CONST && zero->kind == OP_CONST &&
	    const_int(one) == 1 && const_int(end) == n && const_int(zero) == 0;
}

/* The slot of a trip not so long ago, of a ring that turns: another one. */
static bool
slots_apart(const Use *a, const Use *b)
{
	if (!a->ring || a->ring != b->ring || a->slot != b->slot || a->age == 0)
		return false;
	return a->age % a->ring->type->slots != 0 && number_turns(a->slot, a->ring->type->slots);
}

static bool
bytes_meet(const Use *a, const Use *b)
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

/* Both touch the same bytes: from which threads? */
static SyncScope
owners_meet(const Use *a, const Use *b)
{
	const ScratchOwners *x = a->owners, *y = b->owners;
	bool known = x && y && a->lo == b->lo && x->lanes == y->lanes;
	SyncScope meet = known && x->is_exact && y->is_exact ? SYNC_NONE : SYNC_WARP;

	if (!known)
		return SYNC_BLOCK;
	for (int i = 0; i < MIN(x->n, y->n); i++) {
		if (x->thread[i] >> x->lanes != y->thread[i] >> y->lanes)
			return SYNC_BLOCK;
		if (x->thread[i] != y->thread[i])
			meet = SYNC_WARP;
	}
	return meet == SYNC_WARP && a->met ? SYNC_NONE : meet;
}

SyncScope
uses_conflict(const Use *a, const Use *b)
{
	if (a->global != b->global)
		return SYNC_NONE;
	if (a->global)
		return global_conflict(a, b) ? SYNC_BLOCK : SYNC_NONE;
	if ((!a->write && !b->write) || !bytes_meet(a, b) || slots_apart(a, b))
		return SYNC_NONE;
	return owners_meet(a, b);
}
