/* Which fiber of a block runs, and how its threads wait for each other.
 *
 * A fiber runs until it has to wait: at a collective of its warp, at a barrier, for an mbarrier.  Then the next ready one
 * runs, by a switch straight from the one stack to the other: first the other lanes of its warp, then another warp, in
 * order or, with a seed, at random.  The last lane of a collective does its work and goes on.
 *
 * When no fiber is ready, the conditions of those that wait are evaluated; if none of them holds, none ever will, and the
 * report says which thread waits for what. */
#include "runtime/simt/scheduler.h"

#include <sched.h>
#include <stdlib.h>

/* ---- the next fiber ---- */

static uint64_t
random_next(BlockScheduler *w)
{
	w->random ^= w->random << 13;
	w->random ^= w->random >> 7;
	w->random ^= w->random << 17;
	return w->random;
}

void
scheduler_wake(BlockScheduler *w, int warp, uint32_t lanes)
{
	if (!lanes)
		return;
	w->warp[warp].ready |= lanes;
	w->ready[warp / 64] |= UINT64_C(1) << (warp % 64);
}

/* The first warp from `from` on with a lane that can run; -1: there is none. */
static int
warp_from(const BlockScheduler *w, int from)
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
wake_yielded(BlockScheduler *w)
{
	bool any = false;
	for (int i = 0; i < w->nwarps; i++) {
		any |= w->warp[i].yielded != 0;
		scheduler_wake(w, i, w->warp[i].yielded);
		w->warp[i].yielded = 0;
	}
	return any;
}

/* With a seed one warp goes on only when no other can: what it waits for may be gone by then. */
static bool
is_asleep(const BlockScheduler *w, int warp)
{
	uint64_t h = w->launch->seed * 0x9E3779B97F4A7C15u;
	return w->launch->seed && (h >> 33) % (uint64_t)w->nwarps == (uint64_t)warp;
}

static bool
wake_lanes(BlockScheduler *w, int warp)
{
	uint32_t woken = 0;
	for (uint32_t left = w->warp[warp].waiting; left; left &= left - 1) {
		int lane = __builtin_ctz(left);
		const Fiber *f = &w->fiber[warp * SIMT_LANES + lane];
		woken |= (uint32_t)f->ready(f->user) << lane;
	}
	w->warp[warp].waiting &= ~woken;
	scheduler_wake(w, warp, woken);
	return woken != 0;
}

/* Evaluates the conditions of those that wait. */
static bool
wake_waiting(BlockScheduler *w)
{
	bool any = false;
	for (int asleep = 0; asleep < 2 && !any; asleep++)
		for (int i = 0; i < w->nwarps; i++)
			if (w->warp[i].waiting && is_asleep(w, i) == asleep)
				any |= wake_lanes(w, i);
	return any;
}

static int
warp_at_random(BlockScheduler *w)
{
	return warp_from(w, (int)(random_next(w) % (uint64_t)w->nwarps));
}

/* NULL: deadlock. */
static Fiber *
choose(BlockScheduler *w)
{
	int warp = w->current;
	if (w->random || !w->warp[warp].ready)
		while ((warp = w->random ? warp_at_random(w) : warp_from(w, warp)) < 0) {
			bool any = wake_waiting(w), later = wake_yielded(w);
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
scheduler_abort(BlockScheduler *w)
{
	void *gone;
	w->running = NULL;
	fiber_switch(&w->stacks, &gone, w->own, -1, true);
	abort();
}

/* ---- deadlocks ---- */

static const char *
state_text(const Fiber *f, char *text, size_t size)
{
	if (f->state == FIBER_ENDED)
		snprintf(text, size, "thread %d has ended", f->t.thread);
	else
		snprintf(text, size, "thread %d waits at %s", f->t.thread, f->what);
	return text;
}

/* One of f's warp or group that stands elsewhere. */
static Fiber *
missing_from(BlockScheduler *w, const Fiber *f, int n)
{
	int first = f->index / n * n;
	for (int i = first; i < first + n && i < w->nfibers; i++)
		if (w->fiber[i].state != f->state || w->fiber[i].what != f->what)
			return &w->fiber[i];
	return NULL;
}

static int
count_at(const BlockScheduler *w, const Fiber *f, int n)
{
	int first = f->index / n * n, count = 0;
	for (int i = first; i < first + n && i < w->nfibers; i++)
		count += w->fiber[i].state == f->state && w->fiber[i].what == f->what;
	return count;
}

/* Another that waits, for something else or elsewhere. */
static Fiber *
elsewhere(BlockScheduler *w, const Fiber *f)
{
	for (int i = 0; i < w->nfibers; i++) {
		Fiber *g = &w->fiber[i];
		if (g->state != FIBER_ENDED && (g->what != f->what || g->t.site != f->t.site))
			return g;
	}
	return NULL;
}

static _Noreturn void
report_stuck(BlockScheduler *w)
{
	Fiber *f = NULL;
	char text[96];
	for (int i = 0; i < w->nfibers; i++) {          /* one that waits for lanes says most */
		Fiber *g = &w->fiber[i];
		if (g->state != FIBER_ENDED && (!f || g->state < f->state))
			f = g;
	}
	w->running = f;
	if (f->state == FIBER_COLLECTIVE) {
		Fiber *other = missing_from(w, f, SIMT_LANES);
		if (other)
			simt_fail_at(&f->t, other->state == FIBER_ENDED ? 0 : other->t.site,
			    "%s is reached by %d of the %d lanes of warp %d: %s", f->what, count_at(w, f, SIMT_LANES),
			    SIMT_LANES, f->t.warp, state_text(other, text, sizeof text));
		other = missing_from(w, f, 4 * SIMT_LANES);
		simt_fail_at(&f->t, other && other->state != FIBER_ENDED ? other->t.site : 0,
		    "%s is not reached by all warps of the warpgroup: %s", f->what,
		    other ? state_text(other, text, sizeof text) : "some are not there");
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
 * Processors predict returns by the last calls, which a switch of stacks makes wrong.  So few functions lie between a
 * primitive and the switch: each ends in a call of the next. */

void
scheduler_switch(BlockScheduler *w, Fiber *f)
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

void
scheduler_end(BlockScheduler *w, Fiber *f)
{
	f->state = FIBER_ENDED;
	f->what = NULL;
	if (++w->ended == w->nfibers)
		scheduler_abort(w);
	Fiber *next = choose(w);
	if (!next)
		report_stuck(w);
	next->state = FIBER_RUNS;
	w->running = next;
	fiber_switch(&w->stacks, &f->sp, next->sp, next->index, true);
	abort();
}

void
scheduler_start(BlockScheduler *w)
{
	for (int i = 0; i < w->nwarps; i++)
		scheduler_wake(w, i, UINT32_MAX);
	w->running = choose(w);
	fiber_switch(&w->stacks, &w->own, w->running->sp, w->running->index, false);
}

/* All lanes must be at one collective. */
static void
check_same(BlockScheduler *w, Fiber *f, const Collective *m, const char *what)
{
	if (m->what == what && m->site == f->t.site)
		return;
	Fiber *other = &w->fiber[m->first];
	simt_fail_at(&f->t, m->site, "lanes of warp %d part: thread %d is at %s, thread %d at %s", f->t.warp, f->t.thread,
	    what, other->t.thread, m->what);
}

static void
arrive(Collective *m, Fiber *f, const char *what)
{
	if (m->n++ == 0) {
		m->what = what;
		m->site = f->t.site;
		m->first = f->index;
	}
}

static void
gather(BlockScheduler *w, int first, int n, SimtLanes *all)
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
wait_at(BlockScheduler *w, Fiber *f, const char *what)
{
	f->state = FIBER_COLLECTIVE;
	f->what = what;
	scheduler_switch(w, f);
}

/* The last lane of a warp has arrived. */
static __attribute__((noinline)) void
warp_complete(BlockScheduler *w, int warp, int lane, SimtCompute *compute, const void *info)
{
	Warp *p = &w->warp[warp];
	uint32_t others = p->arrived & ~(UINT32_C(1) << lane);
	SimtLanes all;
	gather(w, warp * SIMT_LANES, SIMT_LANES, &all);
	if (compute)
		compute(&all, info);
	p->collective.n = 0;
	p->arrived = 0;
	scheduler_wake(w, warp, others);
}

void
simt_warp_collective(SimtThread *t, const char *what, SimtCompute *compute, const void *info, const uint64_t *in,
    uint64_t *out)
{
	Fiber *f = fiber_of(t);
	BlockScheduler *w = scheduler_of(t);
	int warp = f->index / SIMT_LANES;
	Warp *p = &w->warp[warp];
	f->in = in;
	f->out = out;
	arrive(&p->collective, f, what);
	check_same(w, f, &p->collective, what);
	p->arrived |= UINT32_C(1) << t->lane;
	if (p->collective.n < SIMT_LANES)
		wait_at(w, f, what);
	else
		warp_complete(w, warp, t->lane, compute, info);
}

void
simt_group_collective(SimtThread *t, const char *what, SimtCompute *compute, const void *info, const uint64_t *in,
    uint64_t *out)
{
	Fiber *f = fiber_of(t);
	BlockScheduler *w = scheduler_of(t);
	int group = f->index / (4 * SIMT_LANES);
	Collective *m = &w->group[group];
	SimtLanes all;
	f->in = in;
	f->out = out;
	if (4 * SIMT_LANES > w->per_block || t->thread / (4 * SIMT_LANES) * 4 * SIMT_LANES + 4 * SIMT_LANES > w->per_block)
		simt_fail(t, "%s needs the four warps of a warpgroup; the block has %d threads", what, w->per_block);
	arrive(m, f, what);
	check_same(w, f, m, what);
	w->warp[f->index / SIMT_LANES].arrived |= UINT32_C(1) << t->lane;
	if (m->n < 4 * SIMT_LANES) {
		wait_at(w, f, what);
		return;
	}
	w->warp[f->index / SIMT_LANES].arrived &= ~(UINT32_C(1) << t->lane);
	gather(w, group * 4 * SIMT_LANES, 4 * SIMT_LANES, &all);
	if (compute)
		compute(&all, info);
	m->n = 0;
	for (int i = 4 * group; i < 4 * group + 4; i++) {
		scheduler_wake(w, i, w->warp[i].arrived);
		w->warp[i].arrived = 0;
	}
}

void
simt_wait(SimtThread *t, const char *what, bool (*ready)(const void *user), const void *user)
{
	Fiber *f = fiber_of(t);
	BlockScheduler *w = scheduler_of(t);
	if (ready(user))
		return;
	f->ready = ready;
	f->user = user;
	f->what = what;
	f->state = FIBER_WAITS;
	w->warp[f->index / SIMT_LANES].waiting |= UINT32_C(1) << t->lane;
	scheduler_switch(w, f);
}

/* ---- loops ---- */

static void
yield(BlockScheduler *w, Fiber *f)
{
	w->warp[f->index / SIMT_LANES].yielded |= UINT32_C(1) << f->t.lane;
	f->what = "a loop";
	scheduler_switch(w, f);
}

static void
spend(BlockScheduler *w, Fiber *f, int64_t iterations)
{
	int64_t most = w->launch->iterations_most ? w->launch->iterations_most : SIMT_ITERATIONS;
	w->iterations += iterations;
	if (w->iterations > most)
		simt_fail(&f->t, "a loop does not end: the block has gone through %lld iterations",
		    (long long)w->iterations);
	if (atomic_load_explicit(&w->run->failed, memory_order_relaxed) < f->t.block->index)
		scheduler_abort(w);
}

void
simt_steps(SimtThread *t)
{
	spend(scheduler_of(t), fiber_of(t), SIMT_SLICE);
	t->steps = SIMT_SLICE;
	yield(scheduler_of(t), fiber_of(t));
}

void
simt_spin(SimtThread *t)
{
	spend(scheduler_of(t), fiber_of(t), SIMT_SPIN);
	yield(scheduler_of(t), fiber_of(t));
}
