/* Checks PARTED: roles hand slots over by mbarriers as the ring's protocol asks, so that a broken pass is an error and not
 * a hang.
 *
 *     for %k do (%slot, %phase) {                      the producer waits for the phase before, which is over at first
 *         await %empty, %slot, 1 - %phase
 *         expect %full, %slot {bytes = 49152}          the phase of %full is over when so many bytes have come
 *         copy … slot %slot of %a, %full, %slot        fills the slot: what read it before has arrived at %empty
 *     }
 *     for %k do (%slot, %phase) {
 *         await %full, %slot, %phase
 *         %d = dot_start (slot %slot of %a) …          reads the slot: what filled it was waited for
 *         %e = dot_wait %d                             and reads on until here
 *         arrive %empty, %slot {by = "warp"}           the phase of %empty is over when all have arrived
 *     }
 *
 * The roles are run (trace.c) with trip counts around none, one and as many as a ring has slots, through several programs,
 * and what they do is played with mbarriers as the hardware has them, in two orders: each role as far ahead as it can go.
 * A clock of each role says what happened before what: it travels with the phases that are waited for.  So it does not
 * matter where in a role its waits, reads and arrivals stand: in one loop, or cut apart and moved to the next iteration
 * (skew.c), before a loop or behind it.  What belongs to a ring is found by its mbarriers.
 *
 * In a cluster all its blocks are played: a copy with {mask} brings its part to each of those, and an arrival counts at
 * each.  A barrier of the cluster must stand before and behind the roles, and loops must run as often in each block. */
#include "ir/derive.h"
#include "pass/async/pipeline.h"
#include "pass/async/protocol/trace.h"

#include <string.h>

enum { GROUPS_MOST = 4, ROLES_MOST = 1 + GROUPS_MOST, RANKS_MOST = 16, AGENTS_MOST = ROLES_MOST * RANKS_MOST };
static const int RUNS_ON = INT32_MAX;                   /* when a product ends that is not waited for yet */

/* One mbarrier of a ring, in one block. */
typedef struct Barrier {
	const Op *ring;
	int rank, number;
	int phase;                                      /* so many are over */
	int64_t pending, bytes;                         /* of this phase, to come */
	int open[AGENTS_MOST], over[AGENTS_MOST];       /* clocks of what has come in this phase, and before */
	int seen[AGENTS_MOST], when[AGENTS_MOST];       /* phases that each agent knows to be over; its clock since */
} Barrier;

typedef struct Reader {
	int agent, fill, product;                       /* which product of the agent's; 0: none */
	int end;                                        /* the agent's clock, or RUNS_ON */
} Reader;

/* One slot of a buffer, in one block. */
typedef struct Cell {
	const Op *buffer;
	int rank, slot;
	const Barrier *by;                              /* that counts the copies which fill it, in this phase; or NULL */
	int phase, fill;
	VEC(Reader) readers;                            /* of this filling and the one before */
} Cell;

typedef struct Agent {
	const Trace *trace;
	int rank, at, clock[AGENTS_MOST], products;
} Agent;

typedef struct Protocol {
	Arena *tmp;
	const Op *roles;
	const Op *at;                                   /* the op to blame */
	const char *why;
	int ranks, nagent;
	Agent agent[AGENTS_MOST];
	VEC(Barrier) barriers;
	VEC(Cell) cells;
} Protocol;

static bool
fails(Protocol *p, const Op *at, const char *why)
{
	p->at = at;
	p->why = why;
	return false;
}

/* ---- state ---- */

static Barrier *
barrier_of(const Protocol *p, const Event *e, int rank)
{
	for (int i = 0; i < p->barriers.n; i++) {
		Barrier *b = &p->barriers.at[i];
		if (b->ring == e->ring && b->number == e->number && b->rank == rank)
			return b;
	}
	return NULL;
}

/* NULL: no copy that an mbarrier counts fills it. */
static Cell *
cell_of(const Protocol *p, const Event *e, int rank)
{
	for (int i = 0; i < p->cells.n; i++) {
		Cell *c = &p->cells.at[i];
		if (c->buffer == e->buffer && c->slot == e->slot && c->rank == rank)
			return c;
	}
	return NULL;
}

static void
add_state(Protocol *p, const Event *e, int rank)
{
	if (e->ring && !barrier_of(p, e, rank))
		vec_push(p->tmp, &p->barriers,
		    ((Barrier){.ring = e->ring, .number = e->number, .rank = rank, .pending = attr_count(e->ring)}));
	if (e->kind == EVENT_COPY && !cell_of(p, e, rank))
		vec_push(p->tmp, &p->cells, ((Cell){.buffer = e->buffer, .slot = e->slot, .rank = rank}));
}

static void
join(int *to, const int *from)
{
	for (int i = 0; i < AGENTS_MOST; i++)
		to[i] = MAX(to[i], from[i]);
}

static void
end_phase(Barrier *b)
{
	if (b->pending > 0 || b->bytes != 0)
		return;
	b->phase++;
	b->pending = attr_count(b->ring);
	join(b->over, b->open);
}

/* The ranks that an event of an agent reaches. */
static uint64_t
reached(const Agent *a, const Event *e)
{
	int64_t mask = attr_mask(e->op);
	return mask ? (uint64_t)mask_of_rank(mask, a->rank) : UINT64_C(1) << a->rank;
}

/* ---- what an agent does ---- */

static bool
do_await(Agent *a, int me, const Event *e, Barrier *b)
{
	if ((b->phase & 1) == e->n)
		return false;
	b->seen[me] = b->phase;
	b->when[me] = a->clock[me];
	join(a->clock, b->over);
	return true;
}

/* Does the agent know that someone has waited for what the slot holds? */
static bool
is_used(const Protocol *p, const Agent *a, const Cell *c)
{
	if (c->by && ANY_OF(k, p->nagent,
			 p->agent[k].rank == c->rank && c->by->seen[k] > c->phase &&
			     c->by->when[k] <= a->clock[k]))
		return true;
	return !c->by;
}

static bool
may_fill(Protocol *p, const Agent *a, const Cell *c, const Op *copy)
{
	for (int i = 0; i < c->readers.n; i++) {
		const Reader *r = &c->readers.at[i];
		if (r->fill < c->fill && r->end > a->clock[r->agent])
			return fails(p, copy, r->end == RUNS_ON ? "a slot is filled again while a product reads it" :
			    "a slot is filled again before what reads it gave it back");
	}
	return true;
}

/* Readers of the filling before the last are no more looked at. */
static void
begin_filling(Cell *c, const Barrier *by)
{
	int n = 0;
	c->by = by;
	c->phase = by->phase;
	c->fill++;
	for (int i = 0; i < c->readers.n; i++)
		if (c->readers.at[i].fill >= c->fill - 1)
			c->readers.at[n++] = c->readers.at[i];
	c->readers.n = n;
}

static bool
do_copy(Protocol *p, const Agent *a, const Event *e)
{
	uint64_t mask = reached(a, e);
	int parts = __builtin_popcountll(mask);
	for (int rank = 0; rank < p->ranks; rank++) {
		if (!(mask >> rank & 1))
			continue;
		Barrier *b = barrier_of(p, e, rank);
		Cell *c = cell_of(p, e, rank);
		bool again = c->by != b || c->phase != b->phase;
		if (again && !is_used(p, a, c))
			return fails(p, e->op, "a slot is filled again before it was waited for");
		if (again)
			begin_filling(c, b);
		if (!may_fill(p, a, c, e->op))
			return false;
		b->bytes -= e->n / parts;
		join(b->open, a->clock);
		end_phase(b);
	}
	return true;
}

static bool
do_read(Protocol *p, Agent *a, int me, const Event *e)
{
	Cell *c = cell_of(p, e, a->rank);
	if (!c)
		return true;
	if (!c->by || c->by->seen[me] <= c->phase)
		return fails(p, e->op, "a slot is read outside of its phase");
	vec_push(p->tmp, &c->readers, ((Reader){me, c->fill, e->n ? a->products + 1 : 0, e->n ? RUNS_ON : a->clock[me]}));
	return true;
}

static void
do_finish(Protocol *p, const Agent *a, int me, int64_t left)
{
	for (int i = 0; i < p->cells.n; i++)
		for (int k = 0; k < p->cells.at[i].readers.n; k++) {
			Reader *r = &p->cells.at[i].readers.at[k];
			if (r->agent == me && r->end == RUNS_ON && r->product <= a->products - left)
				r->end = a->clock[me];
		}
}

static bool
do_arrive(Protocol *p, const Agent *a, const Event *e)
{
	uint64_t mask = reached(a, e);
	for (int rank = 0; rank < p->ranks; rank++) {
		if (!(mask >> rank & 1))
			continue;
		Barrier *b = barrier_of(p, e, rank);
		b->pending -= e->kind == EVENT_EXPECT ? 1 : e->n;
		b->bytes += e->kind == EVENT_EXPECT ? e->n : 0;
		if (b->pending < 0)
			return fails(p, e->op, "arrivals of an iteration are not the mbarrier's count");
		join(b->open, a->clock);
		end_phase(b);
	}
	return true;
}

/* The agent's next event; false: it waits, or fails. */
static bool
step(Protocol *p, int me)
{
	Agent *a = &p->agent[me];
	const Event *e = &a->trace->at[a->at];
	bool good = true;
	a->clock[me]++;
	switch (e->kind) {
	case EVENT_AWAIT: good = do_await(a, me, e, barrier_of(p, e, a->rank)); break;
	case EVENT_COPY: good = do_copy(p, a, e); break;
	case EVENT_READ: good = do_read(p, a, me, e); break;
	case EVENT_START: a->products++; break;
	case EVENT_FINISH: do_finish(p, a, me, e->n); break;
	case EVENT_EXPECT: case EVENT_ARRIVE: good = do_arrive(p, a, e); break;
	}
	a->at += good;
	return good;
}

/* ---- all of them ---- */

static bool
is_begun(const Barrier *b)
{
	return b->bytes || b->pending != attr_count(b->ring);
}

/* Why its phase does not end. */
static const char *
stuck(const Barrier *b)
{
	if (b->bytes)
		return "bytes expected are not those copied";
	return is_begun(b) ? "arrivals of an iteration are not the mbarrier's count" : "a wait for a phase that never ends";
}

/* Of agents that wait for ever one is to blame whose phase has begun. */
static bool
check_over(Protocol *p)
{
	const Barrier *found = NULL;
	for (int i = p->nagent; i-- > 0;) {
		const Agent *a = &p->agent[i];
		if (a->at == a->trace->n)
			continue;
		const Event *e = &a->trace->at[a->at];
		const Barrier *b = barrier_of(p, e, a->rank);
		if (!found || (!is_begun(found) && is_begun(b)))
			fails(p, e->op, stuck(found = b));
	}
	return !found;
}

/* Each agent as far as it can go, then the next one. */
static bool
play(Protocol *p, bool backward)
{
	for (bool moved = true; moved;) {
		moved = false;
		for (int i = 0; i < p->nagent; i++) {
			int me = backward ? p->nagent - 1 - i : i;
			while (p->agent[me].at < p->agent[me].trace->n && step(p, me))
				moved = true;
			if (p->why)
				return false;
		}
	}
	return check_over(p);
}

/* What is left when all is over: nothing under way, and nothing that no one has waited for. */
static bool
check_end(Protocol *p)
{
	for (int i = 0; i < p->barriers.n; i++)
		if (is_begun(&p->barriers.at[i]))
			return fails(p, p->barriers.at[i].ring, stuck(&p->barriers.at[i]));
	for (int i = 0; i < p->cells.n; i++) {
		const Cell *c = &p->cells.at[i];
		int seen = 0;
		for (int k = 0; k < p->nagent && c->by; k++)
			seen = MAX(seen, p->agent[k].rank == c->rank ? c->by->seen[k] : 0);
		if (c->by && seen <= c->phase)
			return fails(p, c->buffer, "no consumer waits for the copies");
		if (ANY_OF(k, c->readers.n, c->readers.at[k].end == RUNS_ON))
			return fails(p, c->buffer, "a product that reads a slot is not waited for");
	}
	return true;
}

static bool
run(Protocol *p, const Trace *trace, int ntrace, bool backward)
{
	p->barriers.n = p->cells.n = p->nagent = 0;
	for (int rank = 0; rank < p->ranks; rank++)
		for (int i = 0; i < ntrace; i++) {
			p->agent[p->nagent++] = (Agent){.trace = &trace[i], .rank = rank};
			for (int k = 0; k < trace[i].n; k++)
				add_state(p, &trace[i].at[k], rank);
		}
	return play(p, backward) && check_end(p);
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
steps_alike(const Protocol *p, const Op *copy)
{
	Func *f = copy->home->func;
	for (const Op *loop = copy->home->parent; loop && loop != p->roles; loop = loop->home->parent) {
		const Op *programs = loop->home->parent;
		const Op *at = programs && programs->kind == OP_FOR ? cluster_program(programs->region[0]) : NULL;
		if (at && !cluster_steps_alike(f, program_cluster(at), loop))
			return false;
	}
	return true;
}

/* Blocks that copy into each other's slots wait for each other's warps. */
static bool
check_peers(Protocol *p, const Func *f)
{
	p->ranks = 1;
	for (const Op *op = f->body->first; op; op = op_after(op, f->body)) {
		if ((op->kind != OP_COPY && op->kind != OP_ARRIVE) || !attr_mask(op))
			continue;
		p->ranks = MAX(p->ranks, 64 - __builtin_clzll((uint64_t)attr_mask(op)));
		if (p->ranks > RANKS_MOST)
			return fails(p, op, "more blocks than a cluster has");
		if (op->kind != OP_COPY)
			continue;
		if (p->roles && !has_cluster_barriers(p))
			return fails(p, op, "no barrier of the cluster before and after what its blocks share");
		if (p->roles && !steps_alike(p, op))
			return fails(p, op, "blocks of a cluster that may not run as many iterations");
	}
	return true;
}

/* ---- trip counts ---- */

/* Slots of the longest ring; 0: there are none. */
static int
longest_ring(const Func *f)
{
	int n = 0;
	for (const Op *op = f->body->first; op; op = op_after(op, f->body))
		if (op->kind == OP_MBARRIER)
			n = MAX(n, op->out[0].type->slots);
	return n;
}

static bool
check_trips(Protocol *p, Tracer *t, int first)
{
	Trace trace[ROLES_MOST] = {0};
	int n = p->roles ? 1 + (int)MIN(attr_copies(p->roles)->at[1], GROUPS_MOST) : 1;
	trace_restart(t, first);
	if (!ALL_OF(r, n, r ? trace_group(t, p->roles->region[1], r - 1, &trace[r])
			    : trace_block(t, p->roles ? p->roles->region[0] : t->f->body, &trace[r])))
		return fails(p, t->at, t->why);
	return run(p, trace, n, false) && run(p, trace, n, true);
}

const char *
check_rings(Func *f, const Op **at)
{
	Protocol p = {.tmp = f->module->cx->tmp, .roles = func_find(f, OP_ROLES)};
	int slots = longest_ring(f);
	Tracer tracer;

	if (!slots)
		return NULL;
	trace_open(&tracer, f, p.tmp);
	memcpy(tracer.trips, (int[TRIP_COUNTS]){0, 1, -1, 2, slots - 1, slots, slots + 1}, sizeof tracer.trips);
	for (int i = 0; check_peers(&p, f) && i < TRIP_COUNTS && check_trips(&p, &tracer, i); i++)
		;
	*at = p.at;
	return p.why;
}

const char *
check_parted(Func *f, const Target *t, const Op **at)
{
	const char *why = check_rings(f, at);
	return why ? arena_printf(f->module->cx->tmp, "%s, though the module claims PARTED", why) : NULL;
}
