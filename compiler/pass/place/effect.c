/* What an op does to memory that other threads of the block may touch.
 *
 *     put (slot %i of %b), %t        writes the bytes of a slot of %b, of all of %b where %i is not constant
 *     wait {left = 0}                writes all that cp_async copies fill; in a pipelined loop the slot that is complete
 *     sent {left = 0}                reads the slots that sends read, until then
 *     %v = read %x, …                reads the tensor
 *     %c = convert %a {smem = 0}     writes its scratch, has a barrier of its own, reads its scratch */
#include "pass/async/ring.h"
#include "pass/place/hazard.h"

#include <string.h>

/* ---- sets of effects ---- */

static bool
same_effect(const Effect *a, const Effect *b)
{
	return a->op == b->op && a->global == b->global && a->write == b->write && a->lo == b->lo && a->hi == b->hi &&
	    a->is_carried == b->is_carried && a->loop == b->loop && a->distance == b->distance &&
	    a->is_warp_synced == b->is_warp_synced && a->slots == b->slots && a->is_past == b->is_past;
}

void
effects_add(Effects *all, Effect e, Arena *tmp)
{
	for (int i = 0; i < all->n; i++)
		if (same_effect(&all->at[i], &e))
			return;
	vec_push(tmp, all, e);
}

/* Chains of equal hashes: nests of loops leave thousands of effects, too many to compare each with each. */
enum { CHAINS = 1024 };

typedef struct Chains {
	int first[CHAINS]; /* an index and 1; 0: none */
} Chains;

static int *
chain_of(Chains *chains, const Effect *e)
{
	uint64_t h = (uint64_t)(uintptr_t)e->op;

	h = h * 31 + (uint64_t)e->lo;
	h = h * 31 + (uint64_t)e->distance;
	h = h * 31 + e->slots;
	h = h * 31 + (unsigned)(e->write | e->is_carried << 1 | e->is_past << 2 | e->is_warp_synced << 3);
	return &chains->first[h * UINT64_C(0x9e3779b97f4a7c15) >> 54];
}

static void
chain(Chains *chains, Effects *all, int i)
{
	int *first = chain_of(chains, &all->at[i]);

	all->at[i].next = *first;
	*first = i + 1;
}

static bool
chains_have(Chains *chains, const Effects *all, const Effect *e, bool (*same)(const Effect *, const Effect *))
{
	int i = *chain_of(chains, e);

	while (i && !same(&all->at[i - 1], e))
		i = all->at[i - 1].next;
	return i != 0;
}

void
effects_join(Effects *all, const Effects *other, Arena *tmp)
{
	Chains chains = {0};

	for (int i = 0; i < all->n; i++)
		chain(&chains, all, i);
	for (int i = 0; i < other->n; i++)
		if (!chains_have(&chains, all, &other->at[i], same_effect)) {
			vec_push(tmp, all, other->at[i]);
			chain(&chains, all, all->n - 1);
		}
}

Effects
effects_copy(const Effects *of, Arena *tmp)
{
	return (Effects){.at = NEW_COPY(tmp, of->at, of->n), .n = of->n, .cap = of->n};
}

/* The ring of a slot that loops have closed is no longer known. */
static bool
same_slot(const Effect *a, const Effect *b)
{
	return same_effect(a, b) && a->ring == b->ring && a->slot == b->slot;
}

static bool
includes_all(const Effects *all, const Effects *some)
{
	return ALL_OF(i, some->n, ANY_OF(k, all->n, same_slot(&all->at[k], &some->at[i])));
}

bool
effects_equal(const Effects *a, const Effects *b)
{
	return includes_all(a, b) && includes_all(b, a);
}

void
effects_drop_duplicates(Effects *all)
{
	Effects kept = {all->at, 0, all->n};
	Chains chains = {0};

	for (int i = 0; i < all->n; i++)
		if (!chains_have(&chains, &kept, &all->at[i], same_slot)) {
			kept.at[kept.n] = all->at[i];
			chain(&chains, &kept, kept.n++);
		}
	all->n = kept.n;
}

/* ---- shared memory ---- */

/* The threads that touch each byte of a slot as `op` copies a tile there, gets it, or, where that is asked for, puts it. */
static bool
find_owners(const Op *op, const Op *buffer, bool puts, ScratchOwners *out)
{
	bool known = (op->kind == OP_GET && !attr_steps(op)) || (op->kind == OP_PUT && puts) || op_is_grouped_copy(op);
	const Layout *held = !known ? NULL : op->kind == OP_PUT ? op->in[1]->layout : op->out[0].layout;

	return held && buffer->out[0].layout && buffer_owners(held, buffer->out[0].layout, buffer->out[0].type->elem,
	    op->kind == OP_GET, out);
}

static bool
same_warps(const ScratchOwners *a, const ScratchOwners *b)
{
	return a->n == b->n && a->lanes == b->lanes &&
	    ALL_OF(i, a->n, a->thread[i] >> a->lanes == b->thread[i] >> b->lanes);
}

static bool
touches_buffer(const Op *op, const Op *buffer)
{
	return op->kind != OP_SLOT && op_takes_buffer(op, buffer);
}

static bool
is_sent_by_warp(const Op *buffer)
{
	const Block *body = buffer->home->func->body;
	return ANY_OP(op, body, op->kind == OP_SEND && *attr_by(op) && touches_buffer(op, buffer));
}

/* Does each thread get just what it has put itself?  Puts and gets are in one layout, in which an element has one thread,
 * and no instruction of a warp moves matrices. */
static bool
is_own(const Op *buffer)
{
	const Block *body = buffer->home->func->body;
	const Layout *shared = buffer->out[0].layout, *held = NULL;
	bool transposed;
	F2 to;

	for (const Op *op = body->first; op; op = op_after(op, body)) {
		if (!touches_buffer(op, buffer))
			continue;
		const Layout *l = op->kind == OP_GET ? op->out[0].layout : op->kind == OP_PUT ? op->in[1]->layout : NULL;
		if (!l || (held && held != l))
			return false;
		held = l;
	}
	return held && shared && !layout_free_bits(held, IN_LANE) && !layout_free_bits(held, IN_WARP) &&
	    held->in[IN_BLOCK] == 0 &&
	    !layout_fits_matrix(held, shared, dtype_tile_size(buffer->out[0].type->elem), &to, &transposed);
}

/* Do threads of one role exchange through it what they have?  Puts and gets, in whatever layouts. */
static bool
is_exchanged(const Op *buffer)
{
	const Block *body = buffer->home->func->body;
	const Op *roles = NULL;
	int region = -1, other;

	for (const Op *op = body->first; op; op = op_after(op, body)) {
		if (!touches_buffer(op, buffer))
			continue;
		const Op *of = op_roles(op, &other);
		if ((op->kind != OP_PUT && op->kind != OP_GET) || !of || (roles && (of != roles || other != region)))
			return false;
		roles = of;
		region = other;
	}
	return roles != NULL;
}

/* The threads that touch each byte of the buffer's slots, where only one warp ever does, by copies and gets, by puts and
 * gets in one layout or of one role, or puts and sends of what the warp has put; NULL: it is otherwise.  One of several
 * warps' needs a barrier of the block, and that one serves all.  Roles have warps of their own: one of them sends. */
static const ScratchOwners *
slot_owners(const Op *buffer, Arena *tmp)
{
	const Block *body = buffer->home->func->body;
	bool is_sent = is_sent_by_warp(buffer) || is_exchanged(buffer), own = is_own(buffer);
	ScratchOwners *all = NULL, o;

	for (const Op *op = body->first; op; op = op_after(op, body)) {
		bool reads_slots = op->kind == OP_DOT && !*attr_mma(op);        /* of other threads, where they are */
		if ((op->kind == OP_ROLES || reads_slots) && !is_sent)
			return NULL;
		if (!touches_buffer(op, buffer) || (op->kind == OP_SEND && *attr_by(op)))
			continue;
		if (!find_owners(op, buffer, is_sent || own, &o) || (all && !same_warps(all, &o)))
			return NULL;
		if (!all)
			all = NEW(tmp, ScratchOwners);
		*all = o;
		all->is_exact = own;
	}
	return all;
}

/* The bytes of a buffer or a slot of it; all of it where the slot's number is not constant. */
static void
add_shared(Effects *out, const Op *op, const Value *v, bool write, Arena *tmp)
{
	const Op *of = buffer_owner(v);
	Effect e = {.op = op, .write = write};
	int64_t i;

	if (!of)
		return;
	const Type *t = of->out[0].type;
	e.of = of;
	e.slot_bytes = buffer_slot_bytes(of);
	e.lo = attr_smem(of);
	e.hi = e.lo + e.slot_bytes * t->slots;
	if (v->def->kind == OP_SLOT) {
		e.ring = v->def->in[0];
		e.slot = v->def->in[1];
	}
	e.owners = slot_owners(of, tmp);
	if (e.slot && value_int(e.slot, &i)) {
		i %= t->slots;
		e.lo += e.slot_bytes * (i < 0 ? i + t->slots : i);
		e.hi = e.lo + e.slot_bytes;
	}
	vec_push(tmp, out, e);
}

bool
effect_is_asynchronous(const Effect *e)
{
	return !e->global && e->op->kind == OP_COPY && strcmp(attr_kind(e->op), "plain") != 0;
}

Buffers
find_filled(const Block *body, Arena *tmp)
{
	Buffers filled = {0};

	for (const Op *op = body->first; op; op = op_after(op, body)) {
		const Op *of = op_is_grouped_copy(op) ? buffer_owner(op->in[access_data(op)]) : NULL;
		bool known = !of || ANY_OF(i, filled.n, filled.at[i] == of);
		if (!known)
			vec_push(tmp, &filled, of);
	}
	return filled;
}

/* The copy in groups into that buffer, a slot of a ring an iteration, that the loop with the wait makes itself. */
static const Op *
ring_copy(const Op *wait, const Op *buffer)
{
	const Op *found = NULL;
	int behind;

	for (const Op *op = wait->home->first; op; op = op_after(op, wait->home)) {
		if (!op_is_grouped_copy(op) || buffer_owner(op->in[access_data(op)]) != buffer)
			continue;
		const Op *slot = op->in[access_data(op)]->def;
		if (found || slot->kind != OP_SLOT || !ring_counter(slot->in[1], buffer->out[0].type->slots, &behind))
			return NULL;
		found = op;
	}
	return found;
}

/* Every iteration commits one group, so behind a wait that leaves `left` groups the newest complete slot is the one that a
 * copy filled `left` iterations before the last commit.  Where that is this iteration's, what reads it follows, and one
 * barrier before the iteration's copies serves both: all of the buffer is named, which brings it there. */
static void
add_landed(Effects *out, const Op *wait, const Op *buffer, Arena *tmp)
{
	const Op *copy = ring_copy(wait, buffer);
	int back = (int)attr_left(wait) + 1;

	for (const Op *op = wait->prev; op; op = op->prev)
		back -= op->kind == OP_COMMIT;
	if (!copy || back == buffer->out[0].type->slots - 1) {
		add_shared(out, wait, &buffer->out[0], true, tmp);
		return;
	}
	add_shared(out, wait, copy->in[access_data(copy)], true, tmp);
	out->at[out->n - 1].distance = back;
}

/* The slots that sends read until they are waited for. */
static void
add_sends(Effects *out, const Op *sent, Arena *tmp)
{
	const Block *body = sent->home->func->body;

	for (const Op *op = body->first; op; op = op_after(op, body))
		if (op->kind == OP_SEND)
			add_shared(out, sent, op->in[access_data(op)], false, tmp);
}

/* The slots that a product reads. */
static void
add_product(Effects *out, const Op *op, const Op *product, Arena *tmp)
{
	for (int i = 0; i < 2; i++)
		add_shared(out, op, product->in[i], false, tmp);
}

/* The product that a loop's iteration hands to the next one, as v; NULL: there is none. */
static const Op *
product_before(const Value *v)
{
	const Op *loop = v->def ? NULL : v->block->parent;
	const Op *op = loop && loop->kind == OP_FOR && v->index > 0 ? v->block->last->in[v->index - 1]->def : NULL;
	return op && op->kind == OP_DOT_START ? op : NULL;
}

/* The product of the iteration before that is over behind a wait which leaves this iteration's one; NULL. */
static const Op *
product_left_behind(const Op *wait)
{
	const Op *loop = wait->home->parent, *start = NULL;
	int n = 0;
	for (const Op *op = wait->prev; op; op = op->prev)
		if (op->kind == OP_DOT_START && ++n)
			start = op;
	return wait->nin == 0 && n == 1 && attr_left(wait) == 1 && loop && loop->kind == OP_FOR ? start : NULL;
}

/* Products read until they are waited for: those that the wait names, of this iteration or the one before, or all. */
static void
add_products(Effects *out, const Op *wait, Arena *tmp)
{
	const Block *body = wait->home->func->body;
	bool named = wait->nin > 0;
	const Op *before = wait->nin == 1 ? product_before(wait->in[0]) : product_left_behind(wait);

	for (const Op *p = before; p && p->kind == OP_DOT_START; p = p->in[2]->def)
		add_product(out, wait, p, tmp);
	for (int i = 0; i < out->n && before; i++)
		out->at[i].distance = 1;
	if (before)
		return;
	for (int i = 0; i < wait->nin; i++)
		named = named && wait->in[i]->def && wait->in[i]->def->kind == OP_DOT_START;
	for (int i = 0; i < wait->nin && named; i++)
		for (const Op *p = wait->in[i]->def; p && p->kind == OP_DOT_START; p = p->in[2]->def)
			add_product(out, wait, p, tmp);
	for (const Op *op = named ? NULL : body->first; op; op = op_after(op, body))
		if (op->kind == OP_DOT_START)
			add_product(out, wait, op, tmp);
}

static void
shared_effects(Effects *out, const Op *op, const Buffers *filled, Arena *tmp)
{
	switch (op->kind) {
	case OP_GET: case OP_GET_ONE:
		add_shared(out, op, op->in[0], false, tmp);
		break;
	case OP_EXPECT: case OP_ARRIVE: case OP_AWAIT:
		add_shared(out, op, op->in[0], false, tmp);
		if (out->n) {
			out->at[out->n - 1].ring = op->in[0];
			out->at[out->n - 1].slot = op->in[1];
		}
		break;
	case OP_PUT: case OP_PUT_ONE: case OP_TALLY:
		add_shared(out, op, op->in[0], true, tmp);
		break;
	case OP_MBARRIER:
		add_shared(out, op, &op->out[0], true, tmp);
		break;
	case OP_COPY:
		add_shared(out, op, op->in[access_data(op)], true, tmp);
		break;
	case OP_SEND:
		add_shared(out, op, op->in[access_data(op)], false, tmp);
		break;
	case OP_SENT:
		add_sends(out, op, tmp);
		break;
	case OP_WAIT:
		for (int i = 0; i < filled->n; i++)
			add_landed(out, op, filled->at[i], tmp);
		break;
	case OP_DOT_START:
		add_product(out, op, op, tmp);
		break;
	case OP_DOT_WAIT:
		add_products(out, op, tmp);
		break;
	default:
		break;
	}
}

/* ---- device memory ---- */

static void
global_effects(Effects *out, const Op *op, Arena *tmp)
{
	unsigned traits = op_info[op->kind].traits;
	bool adds = op->kind == OP_SEND && *attr_fn(op), atomic = op_family(op) == FAMILY_ATOMIC || adds;
	Effect e = {.op = op, .global = true, .atomic = atomic, .write = traits & WRITES};

	if (!(traits & (READS | WRITES)) || op->nregion > 0)
		return;
	e.acquires = atomic && !adds && op->out[0].nuses > 0 && strcmp(attr_order(op), "relaxed") != 0 &&
	    strcmp(attr_order(op), "release") != 0;
	vec_push(tmp, out, e);
}

Effects
effects_of(const Op *op, const Buffers *filled, Arena *tmp)
{
	Effects out = {0};

	shared_effects(&out, op, filled, tmp);
	global_effects(&out, op, tmp);
	return out;
}

/* ---- scratch ---- */

static const ScratchOwners *
owners_of(const Op *op, const Target *t, bool reads, Arena *tmp)
{
	ScratchOwners *o = NEW(tmp, ScratchOwners);

	return scratch_owners(op, t, reads, o) ? o : NULL;
}

Effect
scratch_write(const Op *op, const Target *t, const OpPlan *plan, Arena *tmp)
{
	int64_t at = attr_smem(op);

	return (Effect){.op = op, .write = true, .lo = at, .hi = at + plan->scratch,
		.owners = owners_of(op, t, false, tmp)};
}

Effect
scratch_read(const Op *op, const Target *t, const OpPlan *plan, Arena *tmp)
{
	int64_t at = attr_smem(op);

	return (Effect){.op = op, .lo = at + plan->read_from, .hi = at + plan->read_to,
		.owners = owners_of(op, t, true, tmp)};
}
