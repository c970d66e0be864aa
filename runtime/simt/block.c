/* Blocks and clusters: their threads begin and end, and what a block owns. */
#include "runtime/simt/scheduler.h"

#include <string.h>

/* ---- what a block owns ---- */

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
	BlockScheduler *w = scheduler_of(t);
	return rank >= 0 && rank < w->nblocks ? &w->fiber[w->block[rank].first].t : NULL;
}

bool
simt_block_ended(const SimtThread *t)
{
	const BlockScheduler *w = scheduler_of(t);
	return ALL_OF(i, w->per_block, w->fiber[t->block->first + i].state == FIBER_ENDED);
}

static void
check_exit(BlockScheduler *w, Fiber *last)
{
	for (int i = 0; i < w->per_block; i++)
		w->released[i] = &w->fiber[last->t.block->first + i].t;
	simt_check_exit(&last->t, w->released, w->per_block);
}

static void
fiber_main(void *arg)
{
	Fiber *f = arg;
	BlockScheduler *w = f->t.block->scheduler;
	fiber_arrived(&w->stacks);
	f->state = FIBER_RUNS;
	w->launch->kernel(&f->t, w->param ? w->param : w->launch->param);
	if (w->launch->checks && ++f->t.block->ended == w->per_block)
		check_exit(w, f);
	scheduler_end(w, f);
}

static void
begin_thread(BlockScheduler *w, SimtBlock *b, int thread)
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
begin_block(BlockScheduler *w, int i, int64_t index)
{
	SimtBlock *b = &w->block[i];
	b->scheduler = w;
	b->index = index;
	b->first = i * w->per_block;
	b->shared = w->shared + (size_t)i * w->shared_step;
	b->ended = 0;
	memset(b->barrier, 0, sizeof b->barrier);
	for (int k = 0; k < w->per_block; k++)
		begin_thread(w, b, k);
	if (w->launch->checks)
		simt_check_begin(b);
}

static void
end_block(BlockScheduler *w, SimtBlock *b)
{
	for (int i = 0; i < b->at_end.n; i++)
		b->at_end.at[i].done(b->at_end.at[i].user);
	b->at_end.n = b->local.n = 0;
	if (w->launch->checks)
		simt_check_end(b);
}

void
scheduler_run(BlockScheduler *w, int64_t first)
{
	const SimtLaunch *l = w->launch;
	memset(w->ready, 0, sizeof w->ready);
	memset(w->warp, 0, sizeof *w->warp * (size_t)w->nwarps);
	memset(w->group, 0, sizeof *w->group * (size_t)(w->nwarps / 4 + 1));
	w->ended = w->current = w->cluster_arrived = 0;
	w->cluster_phase = 0;
	w->iterations = 0;
	w->random = l->seed ? (l->seed * UINT64_C(0x9e3779b97f4a7c15) ^ (uint64_t)(first + 1) << 20) | 1 : 0;
	for (int i = 0; i < w->nblocks; i++)
		begin_block(w, i, first + i);
	scheduler_start(w);
	for (int i = 0; i < w->nblocks; i++)
		end_block(w, &w->block[i]);
}
