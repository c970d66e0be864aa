/* Where every access of the emulator's threads passes: bounds and alignment always, and if the launch has checks the
 * shadow memories, which this file leads to.
 *
 * A stray access is reported and sent to a sink, so that one run finds all there is; only a launch without checks, or
 * one that keeps no findings, ends with the first. */
#include "runtime/simt/check/check.h"
#include "runtime/simt/prims.h"

#include <stdlib.h>
#include <string.h>

static Check *
check_of(const SimtThread *t)
{
	return simt_launch(t)->checks ? *simt_check_slot(t->block) : NULL;
}

/* ---- a launch and its blocks ---- */

void *
simt_check_open(const SimtLaunch *launch)
{
	if (!launch->checks)
		return NULL;
	CheckLaunch *l = memory_new(1, sizeof *l);
	pthread_mutex_init(&l->lock, NULL);
	l->launch = launch;
	l->mem = arena_open();
	acquire_open(l);
	global_open(l);
	return l;
}

static void
check_close(Check *c)
{
	clocks_close(c);
	shared_close(c);
	costs_close(c->costs);
	free(c->writer);
	free(c);
}

void
simt_check_close(void *state)
{
	CheckLaunch *l = state;
	if (!l)
		return;
	for (Check *c = l->unused, *next; c; c = next) {
		next = c->next_check;
		check_close(c);
	}
	if (l->launch->findings && l->unwatched)
		l->launch->findings->unwatched = l->unwatched;
	global_close(l);
	acquire_close(l);
	arena_close(l->mem);
	pthread_mutex_destroy(&l->lock);
	free(l);
}

static Check *
check_open(CheckLaunch *l)
{
	Check *c = memory_new(1, sizeof *c);
	c->launch = l;
	c->blocks = MAX(l->launch->cluster, 1);
	c->per_block = l->launch->threads;
	c->threads = c->blocks * c->per_block;
	c->shared_bytes = (uint32_t)MAX(l->launch->shared_bytes, 0);
	c->step = (c->shared_bytes + 64) / 64 * 64;
	clocks_open(c);
	shared_open(c);
	writers_open(c);
	bool counts = l->launch->findings && l->launch->findings->counts;
	c->costs = counts && c->blocks == 1 ? costs_open(l->launch->findings->log_gathered) : NULL;
	return c;
}

void
simt_check_begin(SimtBlock *b)
{
	SimtThread *t = simt_thread_of(b, 0);
	CheckLaunch *l = simt_check_state(t);
	if (t->cluster_rank > 0) {
		*simt_check_slot(b) = *simt_check_slot(simt_cluster_peer(t, 0)->block);
		return;
	}
	pthread_mutex_lock(&l->lock);
	Check *c = l->unused;
	if (c)
		l->unused = c->next_check;
	pthread_mutex_unlock(&l->lock);
	if (!c)
		c = check_open(l);
	c->block = b;
	c->range = NULL;
	clocks_begin(c);
	shared_begin(c);
	costs_begin(c);
	writers_begin(c);
	c->is_ended = false;
	*simt_check_slot(b) = c;
}

void
simt_check_end(SimtBlock *b)
{
	Check *c = *simt_check_slot(b);
	*simt_check_slot(b) = NULL;
	if (!c || simt_thread_of(b, 0)->cluster_rank < c->blocks - 1)
		return;
	c->is_ended = true;
	shared_settle(c);
	clocks_end(c);
	costs_end(c);
	pthread_mutex_lock(&c->launch->lock);
	c->next_check = c->launch->unused;
	c->launch->unused = c;
	pthread_mutex_unlock(&c->launch->lock);
}

/* ---- what orders accesses ---- */

void
simt_check_barrier(SimtThread *const *who, int n)
{
	Check *c = n ? check_of(who[0]) : NULL;
	if (!c)
		return;
	shared_settle(c);
	clocks_barrier(c, who, n);
}

void
simt_check_arrive(SimtThread *t, uint64_t object)
{
	Check *c = check_of(t);
	if (!c)
		return;
	shared_settle(c);
	HappensBefore o = clocks_publish(c, agent_of(c, t));
	hb_join(c, &clocks_object(c, object)->open, &o);
}

void
simt_check_wait(SimtThread *t, uint64_t object)
{
	Check *c = check_of(t);
	if (!c)
		return;
	CheckObject *o = clocks_object(c, object);
	hb_join(c, &c->thread[agent_of(c, t)].before, o->has_phases ? &o->done : &o->open);
}

void
simt_check_phase(SimtThread *t, uint64_t object)
{
	Check *c = check_of(t);
	if (!c)
		return;
	CheckObject *o = clocks_object(c, object);
	hb_drop(c, &o->done);
	o->done = o->open;
	o->open = (HappensBefore){0};
	o->has_phases = true;
	o->phase++;
}

void
simt_landed(SimtThread *t, const SimtThread *of, uint32_t offset, int bytes, unsigned access, int64_t mbarrier)
{
	Check *c = check_of(t);
	if (!c || (uint64_t)offset + (uint64_t)bytes > c->shared_bytes)
		return;
	shared_settle(c);
	shared_land(c, t, of, offset, bytes, access, mbarrier);
}

void
simt_global_landed(SimtThread *t, uint64_t address, int bytes, int64_t mbarrier)
{
	Check *c = check_of(t);
	if (c)
		global_land(c, t, address, bytes, mbarrier);
}

void
simt_fenced(SimtThread *t, SimtFence kind)
{
	Check *c = check_of(t);
	if (!c || kind != SIMT_FENCE_ASYNC)
		return;
	HappensBefore o = clocks_publish(c, agent_of(c, t));
	hb_join(c, &c->thread[agent_of(c, t)].before, &(HappensBefore){.fenced = o.vector});
}

/* ---- accesses ---- */

/* Room for an access that has nowhere to go. */
static uint8_t *
sink(Check *c, SimtThread *t, int bytes)
{
	if (bytes > SINK_BYTES)
		simt_fail(t, "an access of %d bytes has nowhere to go", bytes);
	memset(c->sink, 0, (size_t)bytes);
	return c->sink;
}

static int
shared_align(int bytes)
{
	return bytes <= 16 && !(bytes & (bytes - 1)) ? bytes : 16;
}

/* A launch that keeps no findings. */
static uint8_t *
plain_shared(SimtThread *t, const SimtThread *of, const SimtLaunch *l, uint32_t offset, int bytes)
{
	if ((uint64_t)offset + (uint64_t)bytes > (uint64_t)l->shared_bytes)
		simt_fail(t, "thread %d touches shared memory at %u, of %d bytes", t->thread, offset, l->shared_bytes);
	if (offset % (uint32_t)shared_align(bytes))
		simt_fail(t, "thread %d: the address %u in shared memory is not a multiple of %d", t->thread, offset,
		    shared_align(bytes));
	return of->shared + offset;
}

/* from: where the emulator was called. */
static inline uint8_t *
touch_shared(SimtThread *t, SimtThread *of, uint32_t offset, int bytes, unsigned access, const void *from)
{
	const SimtLaunch *l = simt_launch(t);
	if (!l->checks)
		return plain_shared(t, of, l, offset, bytes);
	Check *c = *simt_check_slot(t->block);
	if ((uint64_t)offset + (uint64_t)bytes > c->shared_bytes) {
		report_shared_bounds(c, t, offset, bytes, access);
		return sink(c, t, bytes);
	}
	if (offset % (uint32_t)shared_align(bytes))
		report_align(c, t, offset, shared_align(bytes), access, true);
	if (c->costs)
		costs_touch(c->costs, t, offset, bytes, true, access & SIMT_WRITE, from);
	if ((access & (SIMT_WRITE | SIMT_ATOMIC)) == SIMT_WRITE)
		simt_mbarriers_spared(t, of, offset, bytes);
	if (c->writer && (access & SIMT_WRITE))
		writers_touch(c, t, (uint32_t)of->cluster_rank * c->step + offset, bytes, access);
	shared_touch(c, t, of, offset, bytes, access);
	return of->shared + offset;
}

uint8_t *
simt_shared_of(SimtThread *t, SimtThread *of, uint32_t offset, int bytes, unsigned access)
{
	return touch_shared(t, of, offset, bytes, access, __builtin_return_address(0));
}

uint8_t *
simt_shared_at(SimtThread *t, uint32_t offset, int bytes, unsigned access)
{
	return touch_shared(t, t, offset, bytes, access, __builtin_return_address(0));
}

uint8_t *
simt_shared_from(SimtThread *t, uint32_t offset, int bytes, unsigned access, const void *from)
{
	return touch_shared(t, t, offset, bytes, access, from);
}

static uint8_t *
plain_global(SimtThread *t, const SimtLaunch *l, uint64_t address, int bytes, int align)
{
	if (align > 1 && address % (uint64_t)align)
		simt_fail(t, "thread %d: an address is not a multiple of %d", t->thread, align);
	for (int i = 0; i < l->nrange; i++)
		if (address >= l->range[i].low && address + (uint64_t)bytes <= l->range[i].high)
			return (uint8_t *)(uintptr_t)address;
	if (l->nrange)
		simt_fail(t, "thread %d touches memory that is no argument's", t->thread);
	return (uint8_t *)(uintptr_t)address;
}

static bool
is_constant(const SimtLaunch *l, uint64_t address, int bytes, unsigned access)
{
	bool constant = false;
	for (int i = 0; i < l->nrange; i++) {
		const SimtRange *r = &l->range[i];
		bool in = address < r->high && r->low < address + (uint64_t)bytes;
		if (in && !r->is_constant)
			return false;
		constant |= in;
	}
	return constant && !(access & SIMT_WRITE);
}

uint8_t *
simt_global_at(SimtThread *t, uint64_t address, int bytes, int align, unsigned access)
{
	return simt_global_from(t, address, bytes, align, access, __builtin_return_address(0));
}

uint8_t *
simt_global_from(SimtThread *t, uint64_t address, int bytes, int align, unsigned access, const void *from)
{
	const SimtLaunch *l = simt_launch(t);
	if (l->starts_early && !t->has_waited && !is_constant(l, address, bytes, access))
		simt_fail(t, "thread %d touches memory before it waited for the grid before", t->thread);
	if (!l->checks)
		return plain_global(t, l, address, bytes, align);
	Check *c = *simt_check_slot(t->block);
	if (c->same_value.at)
		shared_settle(c);
	if (align > 1 && address % (uint64_t)align)
		report_align(c, t, address, align, access, false);
	if (!global_touch(c, t, address, bytes, access))
		return sink(c, t, bytes);
	if (c->costs)
		costs_touch(c->costs, t, address, bytes, false, access & SIMT_WRITE, from);
	if (access & SIMT_ATOMIC)
		release_touch(c, t, address, access);
	return (uint8_t *)(uintptr_t)address;
}

void
simt_acquired(SimtThread *t, uint64_t address, unsigned access)
{
	if (simt_launch(t)->checks)
		acquire_touch(*simt_check_slot(t->block), t, address, access);
}
