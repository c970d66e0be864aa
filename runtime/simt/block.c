/* The threads of a block, each a fiber: who runs next, and how they wait for each other.
 *
 * A fiber runs until it has to wait: at a meeting of its warp, at a barrier, for an mbarrier.  Then the next that can
 * run goes on, straight from the one stack to the other: first the other lanes of its warp, then another warp, in
 * order or, with a seed, at random.  The last that comes to a meeting does its work and goes on.
 *
 * When nobody can run, those who wait for something are asked whether it has come; if for none of them it has, nothing
 * ever will, and the report says who waits for what. */
#include "runtime/simt/block.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

/* ---- who runs next ---- */

static uint64_t
random_next(Crew *w)
{
	w->random ^= w->random << 13;
	w->random ^= w->random >> 7;
	w->random ^= w->random << 17;
	return w->random;
}

void
crew_let_run(Crew *w, int warp, uint32_t lanes)
{
	if (!lanes)
		return;
	w->warp[warp].ready |= lanes;
	w->ready[warp / 64] |= UINT64_C(1) << (warp % 64);
}

/* The first warp from `from` on with a lane that can run; -1: there is none. */
static int
warp_from(const Crew *w, int from)
{
	int words = (w->nwarps + 63) / 64;
	for (int i = 0; i <= words; i++) {
		int at = (from / 64 + i) % words;
		uint64_t bits = w->ready[at];
		if (i == 0)
			bits &= ~UINT64_C(0) << (from % 64);
		if (bits)
			return 64 * at + __builtin_ctzll(bits);
	}
	return -1;
}

static bool
wake_later(Crew *w)
{
	bool any = false;
	for (int i = 0; i < w->nwarps; i++) {
		any |= w->warp[i].later != 0;
		crew_let_run(w, i, w->warp[i].later);
		w->warp[i].later = 0;
	}
	return any;
}

/* With a seed one warp goes on only when nobody else can: what it waits for may be gone by then. */
static bool
is_asleep(const Crew *w, int warp)
{
	uint64_t h = w->launch->seed * 0x9E3779B97F4A7C15u;
	return w->launch->seed && (h >> 33) % (uint64_t)w->nwarps == (uint64_t)warp;
}

static bool
wake_lanes(Crew *w, int warp)
{
	uint32_t woken = 0;
	for (uint32_t left = w->warp[warp].waiting; left; left &= left - 1) {
		int lane = __builtin_ctz(left);
		const Fiber *f = &w->fiber[warp * SIMT_LANES + lane];
		woken |= (uint32_t)f->ready(f->user) << lane;
	}
	w->warp[warp].waiting &= ~woken;
	crew_let_run(w, warp, woken);
	return woken != 0;
}

/* Asks those who wait for something. */
static bool
wake_waiting(Crew *w)
{
	bool any = false;
	for (int asleep = 0; asleep < 2 && !any; asleep++)
		for (int i = 0; i < w->nwarps; i++)
			if (w->warp[i].waiting && is_asleep(w, i) == asleep)
				any |= wake_lanes(w, i);
	return any;
}

static int
warp_at_random(Crew *w)
{
	return warp_from(w, (int)(random_next(w) % (uint64_t)w->nwarps));
}

/* NULL: nobody ever will. */
static Fiber *
choose(Crew *w)
{
	int warp = w->current;
	if (w->random || !w->warp[warp].ready)
		while ((warp = w->random ? warp_at_random(w) : warp_from(w, warp)) < 0) {
			bool any = wake_waiting(w), later = wake_later(w);
			if (!any && !later)
				return NULL;
			if (!any)
				sched_yield();          /* to the blocks of other OS threads */
			warp = w->current;
		}
	Warp *p = &w->warp[warp];
	uint32_t lanes = p->ready;
	if (w->random) {
		uint32_t some = lanes & (uint32_t)(~UINT64_C(0) << (random_next(w) & 31));
		lanes = some ? some : lanes;
	}
	int lane = __builtin_ctz(lanes);
	p->ready &= ~(UINT32_C(1) << lane);
	if (!p->ready)
		w->ready[warp / 64] &= ~(UINT64_C(1) << (warp % 64));
	w->current = warp;
	return &w->fiber[warp * SIMT_LANES + lane];
}

_Noreturn void
crew_abandon(Crew *w)
{
	void *gone;
	w->running = NULL;
	fiber_switch(&w->stacks, &gone, w->own, -1, true);
	abort();
}

/* ---- why nobody runs ---- */

static const char *
place_text(const Fiber *f, char *text, size_t size)
{
	if (f->state == FIBER_ENDED)
		snprintf(text, size, "thread %d has ended", f->t.thread);
	else
		snprintf(text, size, "thread %d waits at %s", f->t.thread, f->what);
	return text;
}

/* One of f's warp or group that stands elsewhere. */
static Fiber *
missing_from(Crew *w, const Fiber *f, int n)
{
	int first = f->index / n * n;
	for (int i = first; i < first + n && i < w->nfibers; i++)
		if (w->fiber[i].state != f->state || w->fiber[i].what != f->what)
			return &w->fiber[i];
	return NULL;
}

static int
count_at(const Crew *w, const Fiber *f, int n)
{
	int first = f->index / n * n, count = 0;
	for (int i = first; i < first + n && i < w->nfibers; i++)
		count += w->fiber[i].state == f->state && w->fiber[i].what == f->what;
	return count;
}

/* Another that waits, for something else or at another place. */
static Fiber *
elsewhere(Crew *w, const Fiber *f)
{
	for (int i = 0; i < w->nfibers; i++) {
		Fiber *g = &w->fiber[i];
		if (g->state != FIBER_ENDED && (g->what != f->what || g->t.site != f->t.site))
			return g;
	}
	return NULL;
}

static _Noreturn void
report_stuck(Crew *w)
{
	Fiber *f = NULL;
	char text[96];
	for (int i = 0; i < w->nfibers; i++) {          /* whoever waits for lanes says most */
		Fiber *g = &w->fiber[i];
		if (g->state != FIBER_ENDED && (!f || g->state < f->state))
			f = g;
	}
	w->running = f;
	if (f->state == FIBER_MEETS) {
		Fiber *other = missing_from(w, f, SIMT_LANES);
		if (other)
			simt_fail_at(&f->t, other->state == FIBER_ENDED ? 0 : other->t.site,
			    "%s is reached by %d of the %d lanes of warp %d: %s", f->what, count_at(w, f, SIMT_LANES),
			    SIMT_LANES, f->t.warp, place_text(other, text, sizeof text));
		other = missing_from(w, f, 4 * SIMT_LANES);
		simt_fail_at(&f->t, other && other->state != FIBER_ENDED ? other->t.site : 0,
		    "%s is not reached by all warps of the warpgroup: %s", f->what,
		    other ? place_text(other, text, sizeof text) : "some are not there");
	}
	if (f->state == FIBER_BARRIER) {
		int other = 0;
		char all[256];
		barrier_report(w, f, &other, all, sizeof all);
		simt_fail_at(&f->t, other, "%s", all);
	}
	Fiber *other = elsewhere(w, f);
	if (!other)
		simt_fail(&f->t, "deadlock: thread %d waits at %s for what never comes", f->t.thread, f->what);
	simt_fail_at(&f->t, other->t.site, "deadlock: thread %d waits at %s for what never comes, and thread %d at %s",
	    f->t.thread, f->what, other->t.thread, other->what);
}

/* ---- waiting ----
 *
 * Processors foresee where a function returns to by who called last, which another stack's calls make wrong.  So the way
 * from a primitive to the switch has as few functions to come back through as may be: each ends in a call of the next. */

void
crew_leave(Crew *w, Fiber *f)
{
	Fiber *next = choose(w);
	if (!next)
		report_stuck(w);
	next->state = FIBER_RUNS;
	if (next == f)
		return;
	w->running = next;
	fiber_switch(&w->stacks, &f->sp, next->sp, next->index, false);
}

static void
fiber_main(void *arg)
{
	Fiber *f = arg;
	Crew *w = f->t.block->worker;
	fiber_arrived(&w->stacks);
	f->state = FIBER_RUNS;
	w->launch->kernel(&f->t, w->launch->param);
	f->state = FIBER_ENDED;
	f->what = NULL;
	if (++w->ended == w->nfibers)
		crew_abandon(w);
	Fiber *next = choose(w);
	if (!next)
		report_stuck(w);
	next->state = FIBER_RUNS;
	w->running = next;
	fiber_switch(&w->stacks, &f->sp, next->sp, next->index, true);
	abort();
}

/* What a meeting was reached by. */
static void
check_same(Crew *w, Fiber *f, const Meeting *m, const char *what)
{
	if (m->what == what && m->site == f->t.site)
		return;
	Fiber *other = &w->fiber[m->first];
	simt_fail_at(&f->t, m->site, "lanes of warp %d part: thread %d is at %s, thread %d at %s", f->t.warp, f->t.thread,
	    what, other->t.thread, m->what);
}

static void
come(Meeting *m, Fiber *f, const char *what)
{
	if (m->n++ == 0) {
		m->what = what;
		m->site = f->t.site;
		m->first = f->index;
	}
}

static void
gather(Crew *w, int first, int n, SimtLanes *all)
{
	all->n = n;
	for (int i = 0; i < n; i++) {
		Fiber *f = &w->fiber[first + i];
		all->thread[i] = &f->t;
		all->in[i] = f->in;
		all->out[i] = f->out;
	}
}

static inline void
wait_there(Crew *w, Fiber *f, const char *what)
{
	f->state = FIBER_MEETS;
	f->what = what;
	crew_leave(w, f);
}

/* The last lane of a warp has come. */
static __attribute__((noinline)) void
warp_met(Crew *w, int warp, int lane, SimtCompute *compute, const void *info)
{
	Warp *p = &w->warp[warp];
	uint32_t others = p->met & ~(UINT32_C(1) << lane);
	SimtLanes all;
	gather(w, warp * SIMT_LANES, SIMT_LANES, &all);
	if (compute)
		compute(&all, info);
	p->meeting.n = 0;
	p->met = 0;
	crew_let_run(w, warp, others);
}

void
simt_warp_meet(SimtThread *t, const char *what, SimtCompute *compute, const void *info, const uint64_t *in, uint64_t *out)
{
	Fiber *f = fiber_of(t);
	Crew *w = crew_of(t);
	int warp = f->index / SIMT_LANES;
	Warp *p = &w->warp[warp];
	f->in = in;
	f->out = out;
	come(&p->meeting, f, what);
	check_same(w, f, &p->meeting, what);
	p->met |= UINT32_C(1) << t->lane;
	if (p->meeting.n < SIMT_LANES)
		wait_there(w, f, what);
	else
		warp_met(w, warp, t->lane, compute, info);
}

void
simt_group_meet(SimtThread *t, const char *what, SimtCompute *compute, const void *info, const uint64_t *in, uint64_t *out)
{
	Fiber *f = fiber_of(t);
	Crew *w = crew_of(t);
	int group = f->index / (4 * SIMT_LANES);
	Meeting *m = &w->group[group];
	SimtLanes all;
	f->in = in;
	f->out = out;
	if (4 * SIMT_LANES > w->per_block || t->thread / (4 * SIMT_LANES) * 4 * SIMT_LANES + 4 * SIMT_LANES > w->per_block)
		simt_fail(t, "%s needs the four warps of a warpgroup; the block has %d threads", what, w->per_block);
	come(m, f, what);
	check_same(w, f, m, what);
	w->warp[f->index / SIMT_LANES].met |= UINT32_C(1) << t->lane;
	if (m->n < 4 * SIMT_LANES) {
		wait_there(w, f, what);
		return;
	}
	w->warp[f->index / SIMT_LANES].met &= ~(UINT32_C(1) << t->lane);
	gather(w, group * 4 * SIMT_LANES, 4 * SIMT_LANES, &all);
	if (compute)
		compute(&all, info);
	m->n = 0;
	for (int i = 4 * group; i < 4 * group + 4; i++) {
		crew_let_run(w, i, w->warp[i].met);
		w->warp[i].met = 0;
	}
}

void
simt_wait(SimtThread *t, const char *what, bool (*ready)(const void *user), const void *user)
{
	Fiber *f = fiber_of(t);
	Crew *w = crew_of(t);
	if (ready(user))
		return;
	f->ready = ready;
	f->user = user;
	f->what = what;
	f->state = FIBER_WAITS;
	w->warp[f->index / SIMT_LANES].waiting |= UINT32_C(1) << t->lane;
	crew_leave(w, f);
}

/* ---- loops ---- */

static void
yield(Crew *w, Fiber *f)
{
	w->warp[f->index / SIMT_LANES].later |= UINT32_C(1) << f->t.lane;
	f->what = "a loop";
	crew_leave(w, f);
}

static void
spend(Crew *w, Fiber *f, int64_t turns)
{
	int64_t most = w->launch->turns_most ? w->launch->turns_most : SIMT_TURNS;
	w->turns += turns;
	if (w->turns > most)
		simt_fail(&f->t, "a loop does not end: the block has gone through %lld turns", (long long)w->turns);
	if (atomic_load_explicit(&w->run->failed, memory_order_relaxed) < f->t.block->index)
		crew_abandon(w);
}

void
simt_steps(SimtThread *t)
{
	spend(crew_of(t), fiber_of(t), SIMT_SLICE);
	t->steps = SIMT_SLICE;
	yield(crew_of(t), fiber_of(t));
}

void
simt_spin(SimtThread *t)
{
	spend(crew_of(t), fiber_of(t), SIMT_SPIN);
	yield(crew_of(t), fiber_of(t));
}

/* ---- a block's own things ---- */

void **
simt_block_local(SimtThread *t, const void *key)
{
	SimtBlock *b = t->block;
	for (int i = 0; i < b->local.n; i++)
		if (b->local.at[i].key == key)
			return &b->local.at[i].value;
	vec_push(b->mem, &b->local, ((Local){key, NULL}));
	return &vec_last(&b->local).value;
}

void
simt_at_end(SimtThread *t, void (*done)(void *user), void *user)
{
	SimtBlock *b = t->block;
	vec_push(b->mem, &b->at_end, ((AtEnd){done, user}));
}

/* ---- one cluster ---- */

SimtThread *
simt_cluster_peer(SimtThread *t, int rank)
{
	Crew *w = crew_of(t);
	return rank >= 0 && rank < w->nblocks ? &w->fiber[w->block[rank].first].t : NULL;
}

bool
simt_block_ended(const SimtThread *t)
{
	const Crew *w = crew_of(t);
	for (int i = 0; i < w->per_block; i++)
		if (w->fiber[t->block->first + i].state != FIBER_ENDED)
			return false;
	return true;
}

static void
begin_thread(Crew *w, SimtBlock *b, int thread)
{
	const SimtLaunch *l = w->launch;
	Fiber *f = &w->fiber[b->first + thread];
	*f = (Fiber){.index = b->first + thread};
	f->t = (SimtThread){.shared = b->shared, .thread = thread, .lane = thread % SIMT_LANES,
	    .block_index = (int32_t)b->index, .nblocks = (int32_t)l->nblocks, .cluster_rank = (int32_t)(b - w->block),
	    .steps = SIMT_SLICE, .block = b, .warp = thread / SIMT_LANES};
	f->sp = fiber_start(&w->stacks, f->index, fiber_main, f);
}

static void
begin_block(Crew *w, int i, int64_t index)
{
	SimtBlock *b = &w->block[i];
	b->worker = w;
	b->index = index;
	b->first = i * w->per_block;
	b->shared = w->shared + (size_t)i * w->shared_step;
	memset(b->barrier, 0, sizeof b->barrier);
	for (int k = 0; k < w->per_block; k++)
		begin_thread(w, b, k);
	if (w->launch->checks)
		simt_check_begin(b);
}

static void
end_block(Crew *w, SimtBlock *b)
{
	for (int i = 0; i < b->at_end.n; i++)
		b->at_end.at[i].done(b->at_end.at[i].user);
	b->at_end.n = b->local.n = 0;
	if (w->launch->checks)
		simt_check_end(b);
}

void
crew_run(Crew *w, int64_t first)
{
	const SimtLaunch *l = w->launch;
	memset(w->ready, 0, sizeof w->ready);
	memset(w->warp, 0, sizeof *w->warp * (size_t)w->nwarps);
	memset(w->group, 0, sizeof *w->group * (size_t)(w->nwarps / 4 + 1));
	w->ended = w->current = w->cluster_arrived = 0;
	w->cluster_phase = 0;
	w->turns = 0;
	w->random = l->seed ? (l->seed * UINT64_C(0x9e3779b97f4a7c15) ^ (uint64_t)(first + 1) << 20) | 1 : 0;
	for (int i = 0; i < w->nblocks; i++)
		begin_block(w, i, first + i);
	for (int i = 0; i < w->nwarps; i++)
		crew_let_run(w, i, UINT32_MAX);
	w->running = choose(w);
	fiber_switch(&w->stacks, &w->own, w->running->sp, w->running->index, false);
	for (int i = 0; i < w->nblocks; i++)
		end_block(w, &w->block[i]);
}
