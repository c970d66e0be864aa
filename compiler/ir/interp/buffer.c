/* Shared buffers, asynchronous copies and mbarriers.
 *
 * A buffer's value is a pointer to its slots, which stand in the worker's block; a slot's is a pointer to the slot.
 * Copies of kind cp_async take their elements when they begin and put them into the slot only when they are waited
 * for, as late as a device may, so that a program that does not wait finds what stood there before.  Until
 * something is put there a slot holds NaN or other nonsense.  Bulk copies arrive at once and count their bytes down
 * at their mbarrier.
 *
 * An mbarrier's phase is over when as many have arrived as it counts and all bytes announced have come.  Who waits
 * for a phase gives way to the other roles (roles.c); outside of roles nobody could end it, which is a fault. */
#include "ir/interp/plan.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* One of a ring, in the worker's block. */
typedef struct Mbarrier {
	int64_t count, pending, bytes, phase;           /* arrivals and bytes that this phase still waits for */
} Mbarrier;

/* A copy under way. */
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
pointer(const Worker *w, const Home *h)
{
	return *(char **)w->reg[h->reg];
}

typedef struct OwnStep {
	Step step;
	Home out;
	int64_t at, bytes, count;
	int slots;
} OwnStep;

static bool
run_alloc(Worker *w, const Step *step)
{
	const OwnStep *s = (const OwnStep *)step;

	memset(w->shared + s->at, 0xff, (size_t)s->bytes);
	*(char **)w->reg[s->out.reg] = w->shared + s->at;
	return true;
}

static bool
run_mbarrier(Worker *w, const Step *step)
{
	const OwnStep *s = (const OwnStep *)step;
	Mbarrier *b = (Mbarrier *)(w->shared + s->at);

	for (int i = 0; i < s->slots; i++)
		b[i] = (Mbarrier){.count = s->count, .pending = s->count};
	*(char **)w->reg[s->out.reg] = (char *)b;
	return true;
}

static Step *
emit_own(Plan *p, const Op *op)
{
	OwnStep *s = STEP(p, op, OwnStep, op->kind == OP_ALLOC ? run_alloc : run_mbarrier);
	const Type *t = op->out[0].type;

	s->out = value_home(p, &op->out[0]);
	s->slots = t->slots;
	s->count = attr_count(op);
	s->bytes = op->kind == OP_ALLOC ? slot_bytes(t) * t->slots : (int64_t)sizeof(Mbarrier) * t->slots;
	s->at = p->shared;
	p->shared += (s->bytes + 63) / 64 * 64;
	return &s->step;
}

typedef struct SlotStep {
	Step step;
	Home ring, index, phase, out;
	int64_t slots, bytes;
} SlotStep;

static int64_t
slot_number(const Worker *w, const SlotStep *s)
{
	int64_t i = home_i64(w, &s->index) % s->slots;

	return i < 0 ? i + s->slots : i;
}

static bool
run_slot(Worker *w, const Step *step)
{
	const SlotStep *s = (const SlotStep *)step;

	*(char **)w->reg[s->out.reg] = pointer(w, &s->ring) + slot_number(w, s) * s->bytes;
	return true;
}

typedef struct MoveStep {
	Step step;
	Home slot, tile;
	size_t bytes;
} MoveStep;

static bool
run_get(Worker *w, const Step *step)
{
	const MoveStep *s = (const MoveStep *)step;

	memcpy(w->reg[s->tile.reg], pointer(w, &s->slot), s->bytes);
	return true;
}

static bool
run_put(Worker *w, const Step *step)
{
	const MoveStep *s = (const MoveStep *)step;

	home_copy(w, &s->tile, pointer(w, &s->slot));
	return true;
}

static Step *
emit_move(Plan *p, const Op *op)
{
	MoveStep *s = STEP(p, op, MoveStep, op->kind == OP_GET ? run_get : run_put);

	s->slot = value_home(p, op->in[0]);
	s->tile = value_home(p, op->kind == OP_GET ? &op->out[0] : op->in[1]);
	s->bytes = (size_t)(type_count(s->tile.type) * dtype_tile_size(s->tile.type->elem));
	return &s->step;
}

typedef struct CopyStep {
	Step step;
	Step *read;                                     /* into the register of the token */
	Home token, slot;
	SlotStep barrier;                               /* bulk: which mbarrier */
	size_t bytes;
	int64_t counted;                                /* bytes as they stand in device memory */
	bool is_plain, is_bulk;
} CopyStep;

/* The elements of a copy go to `to`: the read's step writes to a register, which is made to point there. */
static bool
read_to(Worker *w, const CopyStep *s, char *to)
{
	char *kept = w->reg[s->token.reg];

	w->reg[s->token.reg] = to;
	bool well = s->read->run(w, s->read);
	w->reg[s->token.reg] = kept;
	return well;
}

static void
turn_phase(Worker *w, Mbarrier *b)
{
	if (b->pending > 0 || b->bytes > 0)
		return;
	b->pending = b->count;
	b->phase++;
	roles_progress(w);
}

static Mbarrier *
mbarrier_at(const Worker *w, const SlotStep *s)
{
	return (Mbarrier *)pointer(w, &s->ring) + slot_number(w, s);
}

static bool
run_copy(Worker *w, const Step *step)
{
	const CopyStep *s = (const CopyStep *)step;

	if (s->is_plain)
		return read_to(w, s, pointer(w, &s->slot));
	if (s->is_bulk) {
		Mbarrier *b = mbarrier_at(w, &s->barrier);
		if (!read_to(w, s, pointer(w, &s->slot)))
			return false;
		b->bytes -= s->counted;
		turn_phase(w, b);
		return true;
	}
	Flight *f = malloc(sizeof *f + s->bytes);
	if (!f)
		return fault_at(w, step->op, FAULT_MEMORY, "no memory for a copy of %zu bytes", s->bytes);
	f->next = NULL;
	f->group = -1;
	f->to = pointer(w, &s->slot);
	f->size = s->bytes;
	Flight **end = &w->flight;
	while (*end)
		end = &(*end)->next;
	*end = f;
	return read_to(w, s, f->data);
}

static SlotStep
slot_operands(Plan *p, const Op *op, int at)
{
	return (SlotStep){.ring = value_home(p, op->in[at]), .index = value_home(p, op->in[at + 1]),
	    .slots = op->in[at]->type->slots};
}

static Step *
emit_copy(Plan *p, const Op *op)
{
	int at = 1 + op->in[0]->type->rank;
	const Type *slot = op->in[at]->type;
	const Type *tile = type_tile(p->func->module, slot->elem, slot->rank, slot->extent);
	Home out = value_home(p, &op->out[0]);
	const char *kind = attr_kind(op);

	out.type = tile;
	Step *read = memory_read_into(p, op, tile, out);
	CopyStep *s = STEP(p, op, CopyStep, run_copy);
	s->read = read;
	s->token = value_home(p, &op->out[0]);
	s->slot = value_home(p, op->in[at]);
	s->bytes = (size_t)(type_count(tile) * dtype_tile_size(tile->elem));
	s->counted = dtype_bytes(tile->elem, type_count(tile));
	s->is_plain = strcmp(kind, "plain") == 0;
	s->is_bulk = strcmp(kind, "bulk") == 0 || strcmp(kind, "multicast") == 0;
	if (s->is_bulk)
		s->barrier = slot_operands(p, op, at + 1);
	return &s->step;
}

typedef struct WaitStep {
	Step step;
	int64_t left;
} WaitStep;

static bool
run_commit(Worker *w, const Step *step)
{
	(void)step;
	for (Flight *f = w->flight; f; f = f->next)
		if (f->group < 0)
			f->group = w->groups;
	w->groups++;
	return true;
}

/* Lands what belongs to groups before `end`; those not committed stay, unless all land. */
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

static bool
run_wait(Worker *w, const Step *step)
{
	land(w, w->groups - ((const WaitStep *)step)->left);
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

typedef struct ArriveStep {
	SlotStep slot;
	int64_t bytes;
} ArriveStep;

static bool
run_arrive(Worker *w, const Step *step)
{
	const ArriveStep *s = (const ArriveStep *)step;
	Mbarrier *b = mbarrier_at(w, &s->slot);

	b->bytes += s->bytes;
	b->pending--;
	turn_phase(w, b);
	return true;
}

static bool
run_await(Worker *w, const Step *step)
{
	const SlotStep *s = (const SlotStep *)step;
	const Mbarrier *b = mbarrier_at(w, s);

	while ((b->phase & 1) == (home_i64(w, &s->phase) & 1))
		if (!roles_give_way(w, step->op))
			return false;
	return true;
}

Step *
buffer_emit(Plan *p, const Op *op)
{
	switch (op->kind) {
	case OP_ALLOC:
	case OP_MBARRIER:
		return emit_own(p, op);
	case OP_SLOT: {
		SlotStep *s = STEP(p, op, SlotStep, run_slot), found = slot_operands(p, op, 0);
		s->ring = found.ring;
		s->index = found.index;
		s->slots = found.slots;
		s->out = value_home(p, &op->out[0]);
		s->bytes = slot_bytes(op->in[0]->type);
		return &s->step;
	}
	case OP_GET:
	case OP_PUT:
		return emit_move(p, op);
	case OP_COPY:
		return emit_copy(p, op);
	case OP_COMMIT:
		return step_make(p, op, sizeof(Step), run_commit);
	case OP_WAIT: {
		WaitStep *s = STEP(p, op, WaitStep, run_wait);
		s->left = attr_left(op);
		return &s->step;
	}
	case OP_EXPECT:
	case OP_ARRIVE: {
		ArriveStep *s = STEP(p, op, ArriveStep, run_arrive);
		SlotStep found = slot_operands(p, op, 0);
		s->slot.ring = found.ring;
		s->slot.index = found.index;
		s->slot.slots = found.slots;
		s->bytes = attr_bytes(op);
		return &s->slot.step;
	}
	case OP_AWAIT: {
		SlotStep *s = STEP(p, op, SlotStep, run_await), found = slot_operands(p, op, 0);
		s->ring = found.ring;
		s->index = found.index;
		s->slots = found.slots;
		s->phase = value_home(p, op->in[2]);
		return &s->step;
	}
	default:                                        /* proxy_fence: what is written is seen at once */
		return NULL;
	}
}
