/* Rings of which each iteration fills, reads and frees one slot, with nothing ahead: what pass roles parts.
 *
 *     for … do (%k, %acc) {                          for … do (%k, %acc, %now, %phase, %now.1, %phase.1) {
 *         %a = read %x, %k …                             await %empty, %now, 1 - %phase
 *         %s = dot %q, %a, %0                            expect %full, %now {bytes = 32768}
 *         …                                              copy %x, %k, (slot %now of %ring), %full, %now
 *         %b = read %y, %k …                    =>       await %empty.1, …; expect …; copy %y, …
 *         %e = dot %p, %b, %acc                          await %full, %now, %phase
 *         yield %e                                       %s = dot %q, (slot %now), %0
 *     }                                                  arrive %empty, %now {by = "warp"}
 *                                                        …
 *                                                        await %full.1, %now.1, %phase.1
 *                                                        %e = dot %p, (slot %now.1), %acc
 *                                                        arrive %empty.1, %now.1 {by = "warp"}
 *                                                        yield %e, (next of the slots and phases)
 *                                                    }
 *
 * Reads that the same products use, or products of which none waits for another, share a ring of mbarriers; others have
 * their own, so that a slot is waited for no earlier than its product begins, and is free as soon as that is over.  A
 * slot's first turn waits for the phase before the first, which is over from the beginning.  In a loop over programs slots
 * and phases are carried on from program to program.
 *
 * In a cluster the blocks share copies of what their programs have in common: each copies a part of the tile to the slots
 * of all, a slot's bytes come from all, and a slot is free when the warps of all blocks have arrived:
 *
 *         copy %b, …, %full, %now {kind = "multicast", mask = 3}
 *         …
 *         arrive %empty, %now {by = "warp", mask = 3}
 *
 * A tile that threads read in such a loop, as a bias of scores, comes by a tensor map too, into a ring of its own (into one
 * of all such tiles, where there are many): it is waited for where its tile is first used, and its slot is free as soon as
 * it is in registers:
 *
 *         await %full.2, %now.2, %phase.2
 *         %m = get (slot %now.2)
 *         arrive %empty.2, %now.2 {by = "warp"}
 *
 * In a loop over programs the tiles that are read before the loop, for products of warpgroups in it alone, come in the same
 * way, into rings of which each program fills and frees one slot: two, where there is room, so that the next program's are
 * there when it begins. */
#include "model/model.h"
#include "pass/async/pipeline.h"
#include "pass/layout/dot.h"

enum { MOST_RINGS = 4, APART = 8192, MBARRIERS = 2048 };

/* Reads with the same first and last product, or gets of what threads take from their slots. */
typedef struct Ring {
	Pipeline part;                                  /* with these reads alone */
	Op *first, *last;                               /* NULL: something else uses them too */
	bool is_beside;                                 /* tiles that threads read: first and last are gets */
	int slots;
	Value *now, *phase;
	Value **slot;                                   /* of each read */
} Ring;

typedef struct Rings {
	Pipeline *p;
	Ring at[MOST_RINGS];
	int n;
	bool is_chained;                                /* one product waits for another */
} Rings;

/* ---- which reads ---- */

/* The products that read v, or what holds them, with those of the same sum; where none waits for another they run together,
 * and all count as such that do. */
static void
find_products(const Rings *r, const Value *v, Op **first, Op **last)
{
	*first = *last = NULL;
	for (Op *op = r->p->body->first; op; op = op->next)
		if (warpgroup_multiplies(r->p->body, op, r->is_chained ? v : NULL)) {
			*first = *first ? *first : op;
			*last = op;
		}
}

static Ring *
new_ring(Rings *r)
{
	if (r->n == MOST_RINGS)
		return NULL;
	Ring *ring = &r->at[r->n++];
	*ring = (Ring){.part = *r->p};
	ring->part.reads.n = ring->part.reads.cap = 0;
	ring->part.reads.at = NULL;
	ring->part.bulk_bytes = 0;
	ring->part.ranks = 0;
	return ring;
}

static Ring *
ring_of(Rings *r, Op *first, Op *last)
{
	for (int i = 0; i < r->n; i++)
		if (!r->at[i].is_beside && r->at[i].first == first && r->at[i].last == last)
			return &r->at[i];
	Ring *ring = new_ring(r);
	if (ring)
		ring->first = first, ring->last = last;
	return ring;
}

/* Of tiles that threads read: one each, as long as there are rings for all reads, or one for them all. */
static Ring *
ring_beside(Rings *r, bool share)
{
	for (int i = 0; i < r->n && share; i++)
		if (r->at[i].is_beside)
			return &r->at[i];
	return new_ring(r);
}

/* A row beside chained products, as a number for each key, has a ring too, where no two of these read the same tile. */
static bool
group_reads(Rings *r, bool share)
{
	bool rows = false;
	r->n = 0;
	for (int i = 0; i < r->p->reads.n; i++) {
		const Staged *s = &r->p->reads.at[i];
		const Value *v = &s->read->out[0];
		Op *first, *last;
		find_products(r, v, &first, &last);
		bool is_row = !first && r->is_chained && s->is_bulk && v->type->rank == 1;
		bool is_beside = s->is_beside || is_row;
		Ring *ring = is_beside ? ring_beside(r, share || is_row) : first ? ring_of(r, first, last) : NULL;
		if (!ring)
			return false;
		rows |= is_row, ring->is_beside = is_beside;
		vec_push(r->p->tmp, &ring->part.reads, *s);
		ring->part.bulk_bytes += s->is_bulk ? pipeline_bulk_bytes(s->read) : 0;
		ring->part.ranks = s->shared ? r->p->ranks : ring->part.ranks;
	}
	return !rows || ALL_OF(i, r->n, r->at[i].first == r->at[i].last);
}

/* One ring of all reads where they cannot be told apart. */
static void
find_rings(Rings *r)
{
	r->is_chained = dots_are_chained(r->p->f, r->p->body);
	if ((group_reads(r, false) || group_reads(r, true)) && r->n > 1)
		return;
	r->n = 1;
	r->at[0] = (Ring){.part = *r->p};
}

/* ---- slots ---- */

/* The write that a convert is for alone, if pass drain has the tile leave another way. */
static bool
is_drained(const Pipeline *p, const Op *convert)
{
	const Op *op = convert->kind == OP_CONVERT && convert->out[0].nuses == 1 ? convert : NULL;

	while (op && (op->kind != OP_WRITE || op->in[access_data(op)] != &convert->out[0]))
		op = op_after(op, p->f->body);
	return op && drain_bytes(p->f, p->t, op) > 0;
}

/* The rings are there for all programs, beside the buffers of writes, `tiles` bytes of the program's own and the scratch of
 * what else a program does; small scratch stands apart.  One slot will do for a tile that threads read: it is in registers
 * soon.  How many slots there is room for of the program's tiles: 1 or 2. */
static int
fit_slots(Rings *r, int slots, int64_t tiles)
{
	const Pipeline *p = r->p;
	const Block *body = p->f->body;
	int64_t once = pipeline_beside_bytes(p), each = pipeline_stage_bytes(p, false) - once, scratch = 0;
	int64_t beside = tiles + MBARRIERS;
	int others = slots, groups = pingpong_groups(p->f);

	for (const Op *op = body->first; op; op = op_after(op, body)) {
		beside += drain_bytes(p->f, p->t, op) * groups;
		bool is_read = op->kind == OP_READ && !warpgroup_turns(p->body, &op->out[0]);
		for (int i = 0; i < op->nout && !is_read; i++)          /* operands that threads put */
			beside += warpgroup_reads(p->body, &op->out[i]) ? tile_bytes(op->out[i].type) : 0;
		if (!op_inside(op, p->body) && !is_drained(p, op))
			scratch = scratch_beside(op, p->t, groups, scratch);
	}
	beside += scratch > APART ? scratch + APART : scratch;
	while ((slots > 2 || others > 1) && slots * each + others * once + beside > p->t->shared_bytes) {
		others -= slots == 2;
		slots = MAX(slots - 1, 2);
		others = MIN(others, slots);
	}
	for (int i = 0; i < r->n; i++)
		r->at[i].slots = r->at[i].is_beside ? others : slots;
	return slots * each + others * once + beside + tiles > p->t->shared_bytes ? 1 : 2;
}

/* The producer's part. */
static void
fill(Ring *r, Builder *b, Value *index)
{
	pipeline_await(b, r->part.empty, r->now, build2(b, OP_SUB, build_index(b, 1), r->phase));
	pipeline_copies(&r->part, b, index, r->now);
}

/* The consumers': products wait for the slot, or all that follows. */
static void
find_slots(Ring *r, Builder *b)
{
	Pipeline *p = &r->part;

	r->slot = NEW_ARRAY(p->tmp, Value *, p->reads.n);
	if (!r->first && !r->is_beside)
		pipeline_await(b, p->full, r->now, r->phase);
	for (int i = 0; i < p->reads.n; i++)
		r->slot[i] = pipeline_slot(p, b, &p->reads.at[i], r->now);
}

/* The reads give way to what the slots hold. */
static void
use(Ring *r)
{
	for (int i = 0; i < r->part.reads.n; i++)
		pipeline_gets(&r->part, &r->part.reads.at[i], r->slot[i]);
}

static bool
gets_slot(const Ring *r, const Op *op)
{
	return op->kind == OP_GET && ANY_OF(i, r->part.reads.n, op->in[0] == r->slot[i]);
}

/* A product of warpgroups, or what holds one, that reads the slot itself in place of a tile that was taken from it. */
static bool
multiplies_slot(const Ring *r, const Op *op)
{
	return ANY_OP_HERE(get, r->part.body,
	    gets_slot(r, get) && warpgroup_multiplies(r->part.body, op, &get->out[0]));
}

/* The ring's first use to its last: what threads take from a slot to turn it, or where products of warpgroups read it as
 * well, too (norms of keys are made of them), and products that read a slot of which threads take the tile. */
static void
find_gets(Ring *r)
{
	Block *body = r->part.body;
	bool begun = false, is_over = !r->last;

	for (Op *op = body->last, *prev; op && r->is_beside; op = prev) {        /* none is met again further down */
		prev = op->prev;
		if (gets_slot(r, op))
			pipeline_sink_get(op);
	}
	for (Op *op = body->first; op && (r->first || r->is_beside); op = op->next) {
		bool takes = gets_slot(r, op) &&
		    (r->is_beside || warpgroup_shares(body, &op->out[0]) || warpgroup_turns(body, &op->out[0]));
		r->first = takes && !begun ? op : r->first;
		begun |= op == r->first;
		r->last = (takes || (r->is_beside && multiplies_slot(r, op))) && is_over ? op : r->last;
		is_over |= op == r->last;
	}
}

void
pipeline_release(const Pipeline *p, Builder *b, Value *now)
{
	Attr attr[] = {attr_new_by(p->m, "warp"), attr_new_mask(p->m, (INT64_C(1) << p->ranks) - 1)};
	op_make(b, OP_ARRIVE, (Value *[]){p->empty, now}, 2, attr, p->ranks ? 2 : 1, NULL, 0);
}

/* What the slot's number and its phase become, behind each other in `out`. */
static void
step(Ring *r, Builder *b, int slots, Value **out)
{
	out[0] = pipeline_next(b, r->now, slots);
	out[1] = pipeline_next_phase(b, r->phase, out[0]);
}

/* ---- programs ---- */

/* Buffers and mbarriers that the block has before the loop are the thread block's, one for all programs. */
static void
hoist_buffers(const Op *loop, Op *programs)
{
	for (Op *op = loop->home->first, *next; op != loop; op = next) {
		next = op->next;
		if (op->kind == OP_ALLOC || op->kind == OP_MBARRIER)
			op_move(op, programs->home, programs);
	}
}

/* n values that begin as 0 before all programs, and what each program makes of them. */
static Value *
carry_through(Pipeline *p, int n, Pipeline *outer)
{
	Op *programs = pipeline_programs(p->loop);
	Builder b = build_before(programs);
	Value **zero = MAP_OF(p->tmp, Value *, i, n, build_index(&b, 0));
	*outer = (Pipeline){.m = p->m, .tmp = p->tmp, .f = p->f, .loop = programs, .body = programs->region[0]};
	return pipeline_carry(outer, zero, n);
}

/* The same through loop `up` and those around it, from the one over programs in.  What up's body begins with. */
static Value *
carry_down(Pipeline *p, Op *up, int n)
{
	Pipeline outer = {.m = p->m, .tmp = p->tmp, .f = p->f};
	if (op_is_over_programs(up))
		return carry_through(p, n, &outer);
	Value *arg = carry_down(p, up->home->parent, n);
	Value **init = MAP_OF(p->tmp, Value *, i, n, &arg[i]);
	outer.loop = up;
	outer.body = up->region[0];
	return pipeline_carry(&outer, init, n);
}

/* The slots and phases that the loop ends with, its last carried values, or what is read behind it, are those that it
 * begins with when it is next run, by the next program or the next iteration of the loop that it stands in:
 *
 *     for %b, … do (%p, %s, %t) {                    over programs
 *         for … %s, %t do (%i, %s1, %t1) {
 *             for … %s1, %t1 do (%k, %now, %phase) { … }
 *             yield %now, %phase
 *         }
 *         yield %s1, %t1
 *     } */
static void
carry_on(Rings *r)
{
	Pipeline *p = r->p;
	int n = 2 * r->n, at = p->loop->nout - n;
	hoist_buffers(p->loop, pipeline_programs(p->loop));
	Value *arg = carry_down(p, p->loop->home->parent, n), *out[2 * MOST_RINGS];
	for (int i = 0; i < n; i++) {
		arg[i].name = p->body->arg[1 + at + i].name;
		op_set_in(p->loop, 3 + at + i, &arg[i]);
		out[i] = &p->loop->out[at + i];
	}
	Value **all = NEW_COPY(p->tmp, out, n);
	for (Op *up = p->loop->home->parent; up; up = op_is_over_programs(up) ? NULL : up->home->parent) {
		Pipeline outer = {.m = p->m, .tmp = p->tmp, .f = p->f, .loop = up, .body = up->region[0]};
		pipeline_yield(&outer, all, n);
		for (int i = 0; i < n; i++)
			all[i] = &up->out[up->nout - n + i];
	}
	for (int i = 0; i < r->n; i++)                  /* of whole loops: reads ask what indices are */
		pipeline_epilogue_loads(p, &r->at[i].part, out + 2 * i);
	for (int i = 0, nin = p->loop->home->last->nin; i < n; i++)
		op_set_in(p->loop->home->last, nin - n + i, out[i]);
}

/* ---- tiles of the program ---- */

/* A read of the program that products of warpgroups in the loop take from shared memory, and nothing else does. */
static bool
is_programs(const Pipeline *p, Op *read)
{
	if (read->kind != OP_READ || access_map_reason(read, p->t) || tensor_may_be_written(p->f, read->in[0], p->f->body))
		return false;
	return warpgroup_reads(p->body, &read->out[0]) && !warpgroup_shares(p->body, &read->out[0]);
}

typedef VEC(Op *) Tiles;

static int64_t
find_tiles(const Pipeline *p, Tiles *tiles)
{
	const Op *programs = pipeline_programs(p->loop);
	int64_t bytes = 0;

	const Op *end = programs ? pipeline_in_program(p->loop) : NULL;
	for (Op *op = programs ? programs->region[0]->first : NULL; op && op != end; op = op->next)
		if (is_programs(p, op)) {
			vec_push(p->tmp, tiles, op);
			bytes += tile_bytes(op->out[0].type);
		}
	return bytes;
}

static void
bring_tiles(Pipeline *p, const Tiles *tiles, int slots)
{
	Pipeline outer;
	Ring r = {.part = *p};
	Value *arg = carry_through(p, 2, &outer), *next[2];
	Builder b = build_before(tiles->at[tiles->n - 1]), before = build_before(outer.loop);

	r.part.loop = outer.loop;
	r.part.reads.n = r.part.reads.cap = 0;
	r.part.reads.at = NULL;
	r.part.bulk_bytes = r.part.ranks = 0;
	for (int i = 0; i < tiles->n; i++) {
		Staged s = {.read = tiles->at[i], .is_boxed = true, .is_bulk = true};
		vec_push(p->tmp, &r.part.reads, s);
		r.part.bulk_bytes += pipeline_bulk_bytes(s.read);
	}
	pipeline_rings(&r.part, &before, slots);
	r.part.full = pipeline_mbarrier(p, &before, slots, 1, "loaded");
	r.part.empty = pipeline_mbarrier(p, &before, slots, p->f->schedule.warps, "taken");
	r.now = &arg[0];
	r.phase = &arg[1];
	r.now->name = "tile";
	r.phase->name = "turn";
	fill(&r, &b, NULL);
	r.part.body = outer.body;
	find_slots(&r, &b);
	use(&r);
	b = build_before(pipeline_in_program(p->loop)->next);
	pipeline_release(&r.part, &b, r.now);
	b.before = outer.body->last;
	step(&r, &b, slots, next);
	pipeline_yield(&outer, next, 2);
}

/* ---- the loop ---- */

static void
make_rings(Rings *r, Builder *b)
{
	static const char *const names[MOST_RINGS][2] = {
		{"full", "empty"}, {"full2", "empty2"}, {"full3", "empty3"}, {"full4", "empty4"}
	};

	for (int i = 0; i < r->n; i++) {
		Pipeline *p = &r->at[i].part;
		int slots = r->at[i].slots, given_back = p->f->schedule.warps * MAX(p->ranks, 1);
		pipeline_rings(p, b, slots);
		p->full = pipeline_mbarrier(p, b, slots, pipeline_arrivals(p), names[i][0]);
		p->empty = pipeline_mbarrier(p, b, slots, given_back, names[i][1]);
	}
}

static void
carry_slots(Rings *r, Builder *b)
{
	Value *zero[2 * MOST_RINGS];

	for (int i = 0; i < 2 * r->n; i++)
		zero[i] = build_index(b, 0);
	Value *arg = pipeline_carry(r->p, zero, 2 * r->n);
	for (int i = 0; i < r->n; i++) {
		r->at[i].now = &arg[2 * i];
		r->at[i].phase = &arg[2 * i + 1];
		r->at[i].now->name = "now";
		r->at[i].phase->name = "phase";
		r->at[i].part.loop = r->p->loop;
		r->at[i].part.body = r->p->body;
	}
}

static void
build_body(Rings *r)
{
	Pipeline *p = r->p;
	Builder b = {.m = p->m, .block = p->body, .before = p->body->first, .place = p->loop->place};
	Value *next[2 * MOST_RINGS];

	for (Op *op = b.before; op; op = op->next)      /* a search says where copies are from */
		b.before = pipeline_is_search(p->f, op, p->body) ? op->next : b.before;
	for (int i = 0; i < r->n; i++) {
		fill(&r->at[i], &b, &p->body->arg[0]);
		b.place = p->loop->place;
	}
	for (int i = 0; i < r->n; i++)
		find_slots(&r->at[i], &b);
	for (int i = 0; i < r->n; i++) {
		use(&r->at[i]);
		find_gets(&r->at[i]);
	}
	for (int i = 0; i < r->n; i++) {
		Ring *ring = &r->at[i];
		b.before = ring->first;
		if (ring->first)
			pipeline_await(&b, ring->part.full, ring->now, ring->phase);
		b.before = ring->last ? ring->last->next : p->body->last;
		pipeline_release(&ring->part, &b, ring->now);
	}
	b.before = p->body->last;
	for (int i = 0; i < r->n; i++)
		step(&r->at[i], &b, r->at[i].slots, next + 2 * i);
	pipeline_yield(p, next, 2 * r->n);
}

void
pipeline_symmetric(Pipeline *p, int slots)
{
	Rings r = {.p = p};
	Tiles tiles = {0};
	int64_t bytes = find_tiles(p, &tiles);
	Builder b = {.m = p->m, .block = p->loop->home, .before = p->loop, .place = p->loop->place};

	cluster_find_shared(p);
	find_rings(&r);
	int tile_slots = fit_slots(&r, slots, bytes);
	make_rings(&r, &b);
	carry_slots(&r, &b);
	build_body(&r);
	if (pipeline_programs(p->loop))
		carry_on(&r);
	if (tiles.n)
		bring_tiles(p, &tiles, tile_slots);
	if (p->ranks)
		cluster_barriers(p->m, pipeline_programs(p->loop));
}
