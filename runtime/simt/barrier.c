/* Barriers of a block and of a cluster.
 *
 * The lanes of a warp must reach a barrier at one place of the source together, as the instruction's `.aligned` demands;
 * warps may reach a named one at different places.  All that a thread did before happens before what the others do after
 * (check/). */
#include "runtime/simt/prims.h"
#include "runtime/simt/scheduler.h"

static const char whole_name[] = "a barrier", part_name[] = "a barrier of some warps";
static const char warp_name[] = "a barrier of the warp";

void
barrier_report(BlockScheduler *w, Fiber *f, int *other, char *text, size_t size)
{
	SimtBlock *b = f->t.block;
	const Barrier *r = &b->barrier[f->barrier];
	const Fiber *missing = NULL;
	for (int i = b->first; i < b->first + w->per_block && !missing; i++) {
		const Fiber *g = &w->fiber[i];
		if (g->state != FIBER_BARRIER || g->barrier != f->barrier)
			missing = g;
	}
	int n = snprintf(text, size, "%s is reached by %d of %d threads", f->what, r->arrived, r->expected);
	if (missing && missing->state == FIBER_ENDED)
		snprintf(text + n, size - (size_t)n, ": thread %d has ended", missing->t.thread);
	else if (missing)
		snprintf(text + n, size - (size_t)n, ": thread %d waits at %s", missing->t.thread, missing->what);
	*other = missing && missing->state != FIBER_ENDED ? missing->t.site : 0;
}

/* All threads have arrived, `last` as the last one: those that wait go on. */
static void
release(BlockScheduler *w, SimtBlock *b, int id, Fiber *last)
{
	int n = 0;
	w->released[n++] = &last->t;
	for (int i = b->first / SIMT_LANES; i < (b->first + w->per_block) / SIMT_LANES; i++) {
		Warp *p = &w->warp[i];
		uint32_t lanes = 0;
		for (uint32_t left = p->held; left; left &= left - 1) {
			Fiber *f = &w->fiber[i * SIMT_LANES + __builtin_ctz(left)];
			if (f->barrier != id)
				continue;
			lanes |= left & -left;
			w->released[n++] = &f->t;
		}
		p->held &= ~lanes;
		scheduler_wake(w, i, lanes);
	}
	b->barrier[id] = (Barrier){0};
	if (w->launch->checks)
		simt_check_barrier(w->released, n);
}

static void
check_arrival(BlockScheduler *w, Fiber *f, const Barrier *r, int id, int count)
{
	SimtThread *t = &f->t;
	Warp *p = &w->warp[f->index / SIMT_LANES];
	if (r->arrived && r->expected != count)
		simt_fail_at(t, r->site, "barrier %d is of %d threads here and of %d there", id, count, r->expected);
	if (p->held && p->barrier_site != t->site)
		simt_fail_at(t, p->barrier_site, "lanes of warp %d part: thread %d is at another barrier than the others",
		    t->warp, t->thread);
	if (r->arrived && r->is_whole && r->site != t->site)
		simt_fail_at(t, r->site, "threads %d and %d wait for each other at different barriers", t->thread,
		    w->fiber[r->first].t.thread);
}

static void
arrive(SimtThread *t, int64_t which, int64_t count)
{
	Fiber *f = fiber_of(t);
	BlockScheduler *w = scheduler_of(t);
	SimtBlock *b = t->block;
	Warp *p = &w->warp[f->index / SIMT_LANES];
	int id = (int)which;
	if (which < 0 || which >= SIMT_BARRIERS || count <= 0 || count > w->per_block || count % SIMT_LANES)
		simt_fail(t, "there is no barrier %lld of %lld threads", (long long)which, (long long)count);
	Barrier *r = &b->barrier[id];
	check_arrival(w, f, r, id, (int)count);
	if (r->arrived++ == 0) {
		r->expected = (int)count;
		r->site = t->site;
		r->first = f->index;
		r->is_whole = id == 0 && count == w->per_block;
	}
	if (r->arrived == r->expected) {
		release(w, b, id, f);
		return;
	}
	p->held |= UINT32_C(1) << t->lane;
	p->barrier_site = t->site;
	f->state = FIBER_BARRIER;
	f->barrier = id;
	f->what = id ? part_name : whole_name;
	scheduler_switch(w, f);
}

PRIMITIVE(simt_barrier)
{
	arrive(t, 0, scheduler_of(t)->per_block);
}

PRIMITIVE(simt_barrier_part)
{
	arrive(t, imm[0], imm[1]);
}

PRIMITIVE(simt_barrier_at)
{
	arrive(t, (int64_t)in[0], imm[0]);
}

static void
warp_met(const SimtLanes *lanes, const void *info)
{
	if (simt_launch(lanes->thread[0])->checks)
		simt_check_barrier(lanes->thread, lanes->n);
}

PRIMITIVE(simt_warp_barrier)
{
	simt_warp_collective(t, warp_name, warp_met, NULL, NULL, NULL);
}

/* A fence for the compiler alone: no thread waits, and no memory is ordered. */
PRIMITIVE(simt_hold)
{
}

/* ---- of a cluster ---- */

static uint64_t
cluster_key(uint32_t phase)
{
	return UINT64_C(3) << 61 | phase;
}

PRIMITIVE(simt_cluster_arrive)
{
	Fiber *f = fiber_of(t);
	BlockScheduler *w = scheduler_of(t);
	if (f->cluster_arrived)
		simt_fail(t, "thread %d arrives at the cluster's barrier twice without waiting", t->thread);
	f->cluster_arrived = true;
	f->cluster_phase = w->cluster_phase;
	if (w->launch->checks)
		simt_check_arrive(t, cluster_key(f->cluster_phase));
	if (++w->cluster_arrived == w->nfibers) {
		w->cluster_arrived = 0;
		w->cluster_phase++;
	}
}

static bool
phase_is_over(const void *user)
{
	const Fiber *f = user;
	return f->t.block->scheduler->cluster_phase != f->cluster_phase;
}

PRIMITIVE(simt_cluster_wait)
{
	Fiber *f = fiber_of(t);
	if (!f->cluster_arrived)
		simt_fail(t, "thread %d waits at the cluster's barrier without having arrived", t->thread);
	simt_wait(t, "the cluster's barrier", phase_is_over, f);
	f->cluster_arrived = false;
	if (scheduler_of(t)->launch->checks)
		simt_check_wait(t, cluster_key(f->cluster_phase));
}
