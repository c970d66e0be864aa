/* Shared buffers, asynchronous copies and mbarriers.
 *
 * A buffer's value is a pointer to its slots in the worker's block; a slot's is a pointer to the slot.  Copies of kind
 * cp_async take their elements when they begin and put them into the slot at the wait, as late as a device may, so that
 * a program without the wait finds the slot's old elements.  A new slot holds NaN or other undefined bits.  Bulk copies
 * complete at once and count their bytes down at their mbarrier.
 *
 * A phase of an mbarrier is over after `count` arrivals and all bytes expected.  An await of it lets the other roles run
 * (roles.c); outside of roles nothing could end the phase, which is a fault. */
#include "tests/interp/gpu.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* One of a ring, in the worker's block. */
typedef struct Mbarrier {
	int64_t count, pending, bytes, phase;           /* arrivals and bytes that this phase still waits for */
} Mbarrier;

/* An asynchronous copy before its wait. */
struct Flight {
	Flight *next;
	int64_t group;                                  /* -1: not committed yet */
	char *to;
	size_t size;
	char data[];
};

static int64_t
slot_bytes(const Type *t)
{
	return (type_count(t) * dtype_tile_size(t->elem) + 63) / 64 * 64;
}

static char *
pointer(const Worker *w, const Value *v)
{
	return *(char **)value_at(w, v);
}

int64_t
shared_bytes(const Op *op)
{
	const Type *t = op->nout > 0 ? op->out[0].type : NULL;

	return op->kind == OP_ALLOC ? slot_bytes(t) * t->slots :
	    op->kind == OP_MBARRIER ? (int64_t)sizeof(Mbarrier) * t->slots : 0;
}

static bool
set_pointer(Worker *w, const Op *op, char *p)
{
	memcpy(value_at(w, &op->out[0]), &p, sizeof p);
	return true;
}

/* What a buffer or ring of mbarriers allocates. */
static char *
allocated(const Worker *w, const Op *op)
{
	return w->shared + w->plan->shared_offset[op->out[0].id];
}

DEFINE(ALLOC)
{
	memset(allocated(w, op), 0xff, (size_t)shared_bytes(op));
	return set_pointer(w, op, allocated(w, op));
}

DEFINE(MBARRIER)
{
	Mbarrier *b = (Mbarrier *)allocated(w, op);
	int64_t count = attr_count(op);

	for (int i = 0; i < op->out[0].type->slots; i++)
		b[i] = (Mbarrier){.count = count, .pending = count};
	return set_pointer(w, op, (char *)b);
}

/* Slot of a ring by an index that wraps. */
static int64_t
slot_number(const Worker *w, const Value *ring, const Value *index)
{
	int64_t slots = ring->type->slots, i = value_i64(w, index) % slots;

	return i < 0 ? i + slots : i;
}

static Mbarrier *
mbarrier_at(const Worker *w, const Value *ring, const Value *index)
{
	return (Mbarrier *)pointer(w, ring) + slot_number(w, ring, index);
}

DEFINE(SLOT)
{
	const Value *ring = op->in[0];

	return set_pointer(w, op, pointer(w, ring) + slot_number(w, ring, op->in[1]) * slot_bytes(ring->type));
}

DEFINE(GET)
{
	memcpy(value_at(w, &op->out[0]), pointer(w, op->in[0]), (size_t)value_bytes(&op->out[0]));
	return true;
}

DEFINE(PUT)
{
	memcpy(pointer(w, op->in[0]), value_at(w, op->in[1]), (size_t)value_bytes(op->in[1]));
	return true;
}

DEFINE(TALLY)
{
	const Type *slot = op->in[0]->type;
	const Value *v = op->in[1 + slot->rank];
	for (int64_t i = 0, n = type_count(v->type); i < n; i++) {
		int64_t at = 0;
		bool inside = true;
		for (int d = 0; d < slot->rank; d++) {
			const Value *index = op->in[1 + d];
			int64_t c = dtype_load_i64(index->type->elem, value_at(w, index), i);
			inside &= c >= 0 && c < slot->extent[d];
			at = at * slot->extent[d] + c;
		}
		if (!inside)
			continue;
		if (dtype_is_float(slot->elem))
			dtype_store_f64(slot->elem, pointer(w, op->in[0]), at, dtype_load_f64(slot->elem, pointer(w, op->in[0]), at) +
			    dtype_load_f64(slot->elem, value_at(w, v), i));
		else
			dtype_store_i64(slot->elem, pointer(w, op->in[0]), at, (int64_t)((uint64_t)dtype_load_i64(slot->elem, pointer(w, op->in[0]), at) +
			    (uint64_t)dtype_load_i64(slot->elem, value_at(w, v), i)));
	}
	return true;
}

DEFINE(GET_ONE)
{
	memcpy(value_at(w, &op->out[0]), pointer(w, op->in[0]), (size_t)value_bytes(&op->out[0]));
	return true;
}

DEFINE(PUT_ONE)
{
	memcpy(pointer(w, op->in[0]), value_at(w, op->in[1]), (size_t)value_bytes(op->in[1]));
	return true;
}

/* Begins the next phase if this one is over. */
static void
advance_phase(Worker *w, Mbarrier *b)
{
	if (b->pending > 0 || b->bytes > 0)
		return;
	b->pending = b->count;
	b->phase++;
	roles_progress(w);
}

static Flight *
flight_start(Worker *w, char *to, size_t size)
{
	Flight *f = malloc(sizeof *f + size), **end = &w->flight;

	if (!f)
		return NULL;
	*f = (Flight){.group = -1, .to = to, .size = size};
	while (*end)
		end = &(*end)->next;
	return *end = f;
}

/* More than a phase still waits for: on a device what comes next counts for the next one. */
static bool
arrive(Worker *w, const Op *op, Mbarrier *b, int n)
{
	if (n > b->pending)
		return fault_at(w, op, FAULT_ASSERT, "%s: %d arrivals, and the phase waits for %" PRId64,
		    op_info[op->kind].text, n, b->pending);
	b->pending -= n;
	advance_phase(w, b);
	return true;
}

DEFINE(COPY)
{
	int at = 1 + op->in[0]->type->rank;
	const Type *slot = op->in[at]->type;
	Type tile = {.kind = TYPE_TILE, .elem = slot->elem, .rank = slot->rank};
	const char *kind = attr_kind(op);
	char *to = pointer(w, op->in[at]);

	memcpy(tile.extent, slot->extent, sizeof tile.extent);
	if (strcmp(kind, "plain") == 0)
		return tensor_read(w, op, &tile, NULL, to);
	if (op_is_bulk_copy(op)) {
		Mbarrier *b = mbarrier_at(w, op->in[at + 1], op->in[at + 2]);
		if (copy_windows(op))
			window_read(w, op, &tile, to);
		else if (!tensor_read(w, op, &tile, NULL, to))
			return false;
		b->bytes -= dtype_bytes(tile.elem, type_count(&tile));  /* as they stand in device memory */
		advance_phase(w, b);
		return true;
	}
	if (op_is_counted_copy(op))
		return tensor_read(w, op, &tile, NULL, to) &&
		    arrive(w, op, mbarrier_at(w, op->in[at + 1], op->in[at + 2]), copy_threads(op));
	size_t size = (size_t)(type_count(&tile) * dtype_tile_size(tile.elem));
	Flight *f = flight_start(w, to, size);
	if (!f)
		return fault_at(w, op, FAULT_MEMORY, "no memory for a copy of %zu bytes", size);
	return tensor_read(w, op, &tile, NULL, f->data);
}

DEFINE(SEND)
{
	const Value *slot = op->in[access_data(op)];
	Type tile = {.kind = TYPE_TILE, .elem = slot->type->elem, .rank = slot->type->rank};

	memcpy(tile.extent, slot->type->extent, sizeof tile.extent);
	char *x = pointer(w, slot);
	return *attr_fn(op) ? tensor_atomic(w, op, &tile, x, x, NULL) : tensor_write(w, op, &tile, x);
}

DEFINE(SENT)
{
	return true;                                    /* a send is done at once */
}

DEFINE(COMMIT)
{
	for (Flight *f = w->flight; f; f = f->next)
		if (f->group < 0)
			f->group = w->groups;
	w->groups++;
	return true;
}

/* Puts into their slots the copies of groups before `end`; those not committed stay. */
static void
land(Worker *w, int64_t end)
{
	Flight **at = &w->flight;

	while (*at) {
		Flight *f = *at;
		if (f->group < 0 || f->group >= end) {
			at = &f->next;
			continue;
		}
		memcpy(f->to, f->data, f->size);
		*at = f->next;
		free(f);
	}
}

DEFINE(WAIT)
{
	land(w, w->groups - attr_left(op));
	return true;
}

void
flights_drop(Worker *w)
{
	while (w->flight) {
		Flight *f = w->flight;
		w->flight = f->next;
		free(f);
	}
	w->groups = 0;
}

DEFINE(EXPECT)
{
	Mbarrier *b = mbarrier_at(w, op->in[0], op->in[1]);

	b->bytes += attr_bytes(op);
	if (--b->pending < 0)
		return fault_at(w, op, FAULT_ASSERT, "expect: an arrival more than the phase waits for");
	advance_phase(w, b);
	return true;
}

/* In a cluster the other blocks' too, which run the same. */
DEFINE(ARRIVE)
{
	Mbarrier *b = mbarrier_at(w, op->in[0], op->in[1]);
	int n = (*attr_by(op) ? MAX(op_warps(op), 1) : 1) * MAX(__builtin_popcountll((uint64_t)attr_mask(op)), 1);

	return arrive(w, op, b, n);
}

DEFINE(CLUSTER_BARRIER)
{
	return true;                                    /* each program is a block of its own */
}

DEFINE(AWAIT)
{
	const Mbarrier *b = mbarrier_at(w, op->in[0], op->in[1]);

	while ((b->phase & 1) == (value_i64(w, op->in[2]) & 1))
		if (!roles_yield(w, op))
			return false;
	return true;
}

DEFINE(GRID_WAIT)
{
	return true;                                    /* launches run one after the other */
}

DEFINE(PROXY_FENCE)
{
	return true;                                    /* what is written is seen at once */
}
