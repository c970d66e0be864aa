/* When the roles of a pipelined loop copy, wait and compute over its first trips, by the cost model's figures.
 *
 *     producer                                consumer
 *     await %empty, expect %full              await %full              until the copies of that phase have landed
 *     copy … %full                            dot_start, dot_wait
 *                                             arrive %empty            the slot may be filled again
 *
 * The ops of each role are listed in the order in which it executes them (clock_list.c), and a clock of each role runs
 * over its list.  An op takes the longest of its instructions' issue and the means of the multiprocessor that
 * it shares, and begins when its operands are ready.  Copies land a latency after their bytes have passed, one
 * after another; products of warpgroups run one after another beside what follows them.  What waits at an mbarrier goes on
 * when the other role's clock has passed what it waits for.  Phases are counted, not computed: the k-th wait of a consumer
 * is for the k-th phase, that of a producer for the phase that frees its slot.  Loops without roles have one list.
 *
 * Blocks that share a multiprocessor share its means; what a block does besides the loop is left out behind the trips that
 * are shown. */
#include "tool/report/timeline/timeline.h"

#include <string.h>

enum { SHOWN = 8, RINGS = 16, ROLES = 2 };

typedef VEC(double) Times;

/* A ring of mbarriers; or the groups of cp_async, which have no value. */
typedef struct Ring {
	const Value *v;
	const struct Ring *freed;                       /* where its slots are given back; NULL: as the next trip waits */
	Times done;                                     /* of each phase */
	int awaited[ROLES];
	int row, slots;                                 /* of what copies fill: its slots' first row; -1: none */
} Ring;

typedef struct Clock {
	StepList list;
	int at, trip;
	double warps, turn;                             /* cycles from one instruction of a warp to its next */
	double now, from;                               /* from: where the span began that is open */
	double end;                                     /* of its loop; 0: not all of its trips are shown */
	bool is_behind;                                 /* it is past that */
} Clock;

typedef struct Sim {
	const Func *f;
	const CostFacts *facts;
	const TargetRates *r;
	LineCosts spent;                                /* by op */
	int last;                                       /* where the last one was found */
	Clock role[ROLES];
	int nroles, groups;
	Ring ring[RINGS];
	int nrings;
	double *ready;
	const char **read;                              /* by value: the tensor that threads read it from; NULL: none */
	double copied, multiplied;                      /* until when memory, and the matrix unit, are taken */
	Times product;                                  /* ends of those begun */
	double group;                                   /* when the group of cp_async that is open lands */
	double blocks, memory;                          /* memory: cycles a byte */
	double trips;
	Timeline *out;
	Arena *mem;
} Sim;

/* ---- what an op takes ---- */

static const LineCost *
spent_on(Sim *s, const Op *op)
{
	for (int i = 0; i < s->spent.n; i++) {
		int k = (s->last + i) % s->spent.n;
		if (s->spent.at[k].op == op) {
			s->last = k;
			return &s->spent.at[k];
		}
	}
	return NULL;
}

/* Cycles of the multiprocessor's means that executing an op once needs the most of, all blocks doing the same. */
static double
busy(const Sim *s, const Clock *c, const LineCost *x)
{
	const ProgramCost *u = &x->used;
	double most = u->issue * c->warps / 4 / s->r->issue_rate, of = c->warps / u->warps;
	most = MAX(most, u->special * c->warps * 32 / s->r->special_rate);
	most = MAX(most, of * MAX(u->shuffles, MAX(u->requests, u->shared)));
	return MAX(most, u->products) / x->times * s->blocks * s->groups;
}

/* ---- spans ---- */

static void
span(Sim *s, int row, SpanKind kind, int trip, int slot, double from, double to)
{
	if (to - from >= 1)
		vec_push(s->mem, &s->out->spans, ((TimeSpan){row, kind, trip, slot, NULL, from, to}));
}

/* Of phase k in its slot of the ring; NULL: there is none. */
static TimeSpan *
span_of(const Sim *s, const Ring *r, SpanKind kind, int k)
{
	for (int i = s->out->spans.n - 1; i >= 0 && r->row >= 0; i--) {
		TimeSpan *x = &s->out->spans.at[i];
		if (x->kind == kind && x->row == r->row + k % r->slots && x->trip == k)
			return x;
	}
	return NULL;
}

/* The slot that phase k filled is read no more. */
static void
release(Sim *s, const Ring *r, int k, double now)
{
	TimeSpan *x = span_of(s, r, SPAN_READ, k);
	if (x && x->to < 0)
		x->to = now;
}

static void
close_span(Sim *s, int role)
{
	Clock *c = &s->role[role];
	bool copies = s->nroles > 1 && role == 0;
	SpanKind kind = c->is_behind ? SPAN_BEHIND : copies ? SPAN_COPY : SPAN_COMPUTE;
	span(s, role, kind, c->trip, -1, c->from, c->now);
	c->from = c->now;
}

/* No slot is read behind the loop. */
static void
end_loop(Sim *s, int role)
{
	Clock *c = &s->role[role];
	close_span(s, role);
	for (int i = 0; i < s->out->spans.n && role == s->nroles - 1; i++)
		if (s->out->spans.at[i].to < 0)
			s->out->spans.at[i].to = MAX(c->now, s->out->spans.at[i].from);
	c->end = c->now;
	c->is_behind = true;
}

/* Until a value has come that threads read. */
static void
wait_for_read(Sim *s, int role, const Value *v)
{
	static const double SHORT = 32;                 /* cycles that arithmetic waits for, too */
	Clock *c = &s->role[role];
	if (!s->read[v->id] || s->ready[v->id] < c->now + SHORT || s->trips <= 0)
		return;
	close_span(s, role);
	span(s, role, SPAN_WAIT, c->trip, -1, c->now, s->ready[v->id]);
	s->out->spans.at[s->out->spans.n - 1].read = s->read[v->id];
	c->now = c->from = s->ready[v->id];
}

static Ring *
ring_of(Sim *s, const Value *v)
{
	for (int i = 0; i < s->nrings; i++)
		if (s->ring[i].v == v)
			return &s->ring[i];
	if (s->nrings == RINGS)
		return NULL;
	s->ring[s->nrings] = (Ring){.v = v, .row = -1, .slots = v ? v->type->slots : 1};
	return &s->ring[s->nrings++];
}

static const Value *
mbarrier_of(const Op *copy)
{
	return VALUE_OF(i, copy->nin, copy->in[i]->type->kind == TYPE_MBARRIER, copy->in[i], NULL);
}

/* A ring gets rows when a tensor is first copied into it; those copied together share them. */
static void
name_rows(Sim *s, Ring *r, const Op *copy)
{
	const Value *tensor = copy->in[0];
	const char *name = tensor->def ? "" : s->f->param[tensor->index].name;
	if (r->row < 0) {
		const Op *slot = copy->in[access_data(copy)]->def;
		if (!r->v)
			r->slots = slot && slot->kind == OP_SLOT ? MAX(slot->in[0]->type->slots, 1) : 1;
		r->row = s->out->rows.n;
		for (int i = 0; i < r->slots; i++)
			vec_push(s->mem, &s->out->rows, ((TimeRow){.name = name, .slot = i}));
		return;
	}
	const char *had = s->out->rows.at[r->row].name, *found = strstr(had, name);
	if (found || !*name)
		return;
	for (int i = 0; i < r->slots; i++)
		s->out->rows.at[r->row + i].name = arena_printf(s->mem, "%s, %s", had, name);
}

/* ---- the clocks ---- */

static void
do_copy(Sim *s, Clock *c, const Op *op)
{
	const Value *v = mbarrier_of(op);
	Ring *r = ring_of(s, v);
	double bytes = (double)tile_bytes(op->in[access_data(op)]->type), from = c->now;
	if (!r)
		return;
	int k = v ? r->done.n - 1 : r->done.n, blocks = __builtin_popcountll((uint64_t)attr_mask(op));
	if (k < 0 || k >= s->trips)              /* a branch that copies is followed where there is no trip for it */
		return;
	name_rows(s, r, op);
	s->copied = MAX(s->copied, from) + bytes * s->memory * s->blocks / MAX(blocks, 1);
	double lands = s->copied + s->r->latency;
	if (v)
		r->done.at[k] = MAX(r->done.at[k], lands);
	if (!v)
		s->group = MAX(s->group, lands);
	TimeSpan *had = span_of(s, r, SPAN_FILL, k);
	if (had)
		had->to = lands;
	else
		span(s, r->row + k % r->slots, SPAN_FILL, k, k % r->slots, from, lands);
}

/* Waits until `until`, for phase k of a ring. */
static void
wait_until(Sim *s, int role, Ring *r, int k, double until)
{
	Clock *c = &s->role[role];
	bool reads = s->nroles == 1 || role == 1;
	close_span(s, role);
	c->is_behind = false;
	if (until > c->now)
		span(s, role, SPAN_WAIT, k, k % MAX(r->slots, 1), c->now, until);
	c->now = c->from = MAX(c->now, until);
	if (reads && r->row >= 0) {
		c->trip = k;
		if (s->nroles == 1 && k > 0)
			release(s, r, k - 1, c->now);
		int slot = k % r->slots;
		vec_push(s->mem, &s->out->spans, ((TimeSpan){r->row + slot, SPAN_READ, k, slot, NULL, c->now, -1}));
	} else if (!reads) {
		c->trip = k;
	}
}

/* False: it is not known yet when what it waits for is over. */
static bool
do_await(Sim *s, int role, const Op *op)
{
	Ring *r = ring_of(s, op->in[0]);
	if (!r)
		return false;
	bool fills = s->nroles > 1 && role == 0;
	int k = r->awaited[role], phase = fills ? k - r->slots : k;
	if (phase >= r->done.n)
		return false;
	r->awaited[role]++;
	wait_until(s, role, r, k, phase >= 0 ? r->done.at[phase] : 0);
	return true;
}

static void
do_wait(Sim *s, int role, const Op *op)
{
	Ring *r = ring_of(s, NULL);
	int k = r ? r->done.n - 1 - (int)attr_left(op) : -1;
	if (k >= 0)
		wait_until(s, role, r, k, r->done.at[k]);
}

/* What the producer awaited last is given back by those who read what it copies next. */
static const Ring *
freed_by(Sim *s, const Clock *c)
{
	for (int i = c->at - 1; i >= 0; i--)
		if (c->list.step.at[i].op && c->list.step.at[i].op->kind == OP_AWAIT)
			return ring_of(s, c->list.step.at[i].op->in[0]);
	return NULL;
}

static void
do_product(Sim *s, Clock *c, const Op *op, double cycles)
{
	double begun = MAX(c->now, s->multiplied);
	s->multiplied = begun + cycles;
	vec_push(s->mem, &s->product, s->multiplied);
	s->ready[op->out[0].id] = c->now;
}

static void
do_work(Sim *s, int role, const Step *step)
{
	Clock *c = &s->role[role];
	const Op *op = step->op;
	const LineCost *x = spent_on(s, op);
	for (int i = 0; i < op->nin; i++) {
		wait_for_read(s, role, op->in[i]);
		c->now = MAX(c->now, s->ready[op->in[i]->id]);
	}
	double issue = x ? x->used.issue / x->times * c->turn : 0, takes = x ? MAX(issue, busy(s, c, x)) * step->times : 0;
	double latency = x ? x->latency * step->times : 0;
	if (op->kind == OP_DOT_START) {
		do_product(s, c, op, takes);
		return;
	}
	if (op->kind == OP_DOT_WAIT) {
		int k = s->product.n - 1 - (int)attr_left(op);
		c->now = k >= 0 ? MAX(c->now, s->product.at[k]) : c->now;
	}
	if (op->kind == OP_DOT)
		latency = 0;
	c->now += takes;
	bool reads = op->kind == OP_READ && !op->in[0]->def;
	for (int i = 0; i < op->nout; i++) {
		s->ready[op->out[i].id] = c->now + MAX(latency - takes, 0);
		s->read[op->out[i].id] = reads ? s->f->param[op->in[0]->index].name : NULL;
	}
}

static bool
do_step(Sim *s, int role)
{
	Clock *c = &s->role[role];
	const Step *step = &c->list.step.at[c->at];
	const Op *op = step->op;
	bool reads = role == s->nroles - 1;
	const LineCost *x;
	Ring *r;
	if (!op && !step->to) {
		end_loop(s, role);
		return true;
	}
	if (!op) {
		s->ready[step->to->id] = s->ready[step->from->id];
		s->read[step->to->id] = s->read[step->from->id];
		return true;
	}
	switch (op->kind) {
	case OP_AWAIT:
		return do_await(s, role, op);
	case OP_WAIT:
		do_wait(s, role, op);
		break;
	case OP_COMMIT:
		r = ring_of(s, NULL);
		if (r)
			vec_push(s->mem, &r->done, MAX(s->group, c->now));
		s->group = 0;
		break;
	case OP_EXPECT:
		r = ring_of(s, op->in[0]);
		if (r) {
			vec_push(s->mem, &r->done, c->now);
			r->freed = s->nroles > 1 ? freed_by(s, c) : NULL;
		}
		break;
	case OP_ARRIVE:
		r = ring_of(s, op->in[0]);
		for (int i = 0; i < s->nrings && r && reads; i++)
			if (s->ring[i].freed == r)
				release(s, &s->ring[i], r->done.n, c->now);
		if (r && (reads || r->row < 0))
			vec_push(s->mem, &r->done, c->now);
		break;
	case OP_COPY:
		do_copy(s, c, op);
		x = spent_on(s, op);
		c->now += x ? x->used.issue / x->times * c->turn : 0;
		break;
	default:
		do_work(s, role, step);
	}
	return true;
}

/* Each role as far as it gets, in turn.  False: both wait for each other, which only says that the model is wrong. */
static bool
run(Sim *s)
{
	for (bool moved = true, ended = false; !ended; moved = false) {
		ended = true;
		for (int i = 0; i < s->nroles; i++) {
			Clock *c = &s->role[i];
			while (c->at < c->list.step.n && do_step(s, i)) {
				c->at++;
				moved = true;
			}
			ended = ended && c->at == c->list.step.n;
		}
		if (!moved && !ended)
			break;
		if (ended)
			return true;
	}
	return s->role[s->nroles - 1].list.is_cut;           /* it waits for a trip that is not shown */
}

/* ---- the function ---- */

static void
list_roles(Sim *s, double warps)
{
	const Op *roles = func_find(s->f, OP_ROLES);
	s->nroles = roles ? ROLES : 1;
	s->groups = roles ? (int)attr_copies(roles)->at[1] : 1;
	for (int i = 0; i < s->nroles; i++) {
		const char *name = roles ? i ? "computes" : "copies" : "all warps";
		vec_push(s->mem, &s->out->rows, ((TimeRow){.name = name, .slot = -1, .is_role = true}));
		s->role[i].warps = !roles ? warps : i == 0 && attr_lone(roles) ? 1 : (double)attr_warps(roles)->at[i];
		s->role[i].turn = MAX(s->r->issue_alone, s->role[i].warps / 4 / s->r->issue_rate);
		s->role[i].list = (StepList){.facts = s->facts, .shown = s->out->trips, .mem = s->mem};
		list_block(&s->role[i].list, roles ? roles->region[i] : s->f->body, 1);
		s->trips = MAX(s->trips, s->role[i].list.trips);
	}
}

/* Cycles between the last two phases of the ring with most of them that are read. */
static double
find_period(const Sim *s)
{
	double period = 0;
	int most = 1;
	for (int i = 0; i < s->nrings; i++) {
		const Ring *r = &s->ring[i];
		int k = r->row >= 0 ? r->done.n - 1 : 0;
		const TimeSpan *last = NULL, *before = NULL;
		for (; k > 0 && !(last && before); k--) {
			last = span_of(s, r, SPAN_READ, k);
			before = span_of(s, r, SPAN_READ, k - 1);
		}
		if (last && before && k + 1 >= most) {
			most = k + 2;
			period = last->from - before->from;
		}
	}
	return period;
}

/* Of its last trip that is shown, and of all that are, how much a role waits. */
static void
add_wait(const Sim *s, TimeRow *row, const TimeSpan *x)
{
	const Clock *c = &s->role[x->row];
	double to = c->end > 0 ? c->end : c->now;
	double last = MAX(MIN(x->to, to) - MAX(x->from, to - s->out->period), 0) / s->out->period;
	*(x->read ? &row->reads : &row->waits) += last;
	row->begins += x->read ? 0 : MAX(MIN(x->to, to) - x->from, 0) / to;
	row->read = x->read && last > 0 ? x->read : row->read;
}

/* What it all comes to. */
static void
summarise(Sim *s)
{
	Timeline *t = s->out;
	double end = 0;
	t->period = find_period(s);
	for (int i = 0; i < t->spans.n; i++) {
		TimeSpan *x = &t->spans.at[i];
		x->to = x->to < 0 ? MAX(s->role[s->nroles - 1].now, x->from) : x->to;
		end = MAX(end, x->to);
	}
	t->cycles = end;
	t->behind = s->role[s->nroles - 1].end > 0 ? end - s->role[s->nroles - 1].end : 0;
	for (int i = 0; i < t->spans.n; i++)
		if (t->spans.at[i].row < s->nroles && t->spans.at[i].kind == SPAN_WAIT && t->period > 0)
			add_wait(s, &t->rows.at[t->spans.at[i].row], &t->spans.at[i]);
}

bool
timeline_make(Func *f, const Target *t, const CostFacts *facts, double blocks, double memory, Arena *mem, Timeline *out)
{
	CostFacts counted = *facts;
	ProgramCost c;
	Sim s = {.f = f, .facts = facts, .r = t->rates, .blocks = blocks, .memory = memory, .out = out, .mem = mem};
	*out = (Timeline){.trips = SHOWN, .blocks = blocks};
	counted.lines = &s.spent;
	counted.by_op = true;
	cost_program(f, t, &counted, mem, &c);
	s.ready = NEW_ARRAY(mem, double, MAX(f->nvalues, 1));
	s.read = NEW_ARRAY(mem, const char *, MAX(f->nvalues, 1));
	list_roles(&s, c.warps);
	bool ok = s.trips > 0 && run(&s) && out->rows.n > s.nroles;
	for (int i = 0; i < s.nroles; i++)
		close_span(&s, i);
	out->of = s.trips;
	if (ok)
		summarise(&s);
	return ok;
}
