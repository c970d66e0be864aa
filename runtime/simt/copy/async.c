/* What goes on by itself in a block: copies that have begun, mbarriers, matrix instructions of warpgroups.
 *
 * A GPU may finish them at any moment up to where they are waited for.  In the plain schedule they happen there, as late
 * as they may, and what they write holds rubbish until then; with a seed each may also happen earlier, by chance. */
#include "runtime/simt/prims.h"

static const int async_key = 0;

static void
close(void *user)
{
	Async *a = user;
	simt_stores_end(a);
	arena_close(a->mem);
}

/* Of the block's own, so that a launch with the same seed is the same again. */
static uint64_t
random_from(uint64_t seed, int block)
{
	uint64_t x = seed + 0x9E3779B97F4A7C15u * (uint64_t)(block + 1);
	x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9u;
	x = (x ^ x >> 27) * 0x94D049BB133111EBu;
	x ^= x >> 31;
	return seed ? x | 1 : 0;
}

Async *
simt_async(SimtThread *t)
{
	void **slot = simt_block_local(t, &async_key);
	if (!*slot) {
		const SimtLaunch *launch = simt_launch(t);
		Arena *mem = arena_open();
		Async *a = NEW(mem, Async);
		a->mem = mem;
		a->checks = launch->checks;
		a->random = random_from(launch->seed, t->block_index);
		a->nthread = launch->threads;
		a->thread = NEW_ARRAY(mem, ThreadAsync, a->nthread);
		a->group = NEW_ARRAY(mem, Warpgroup *, (a->nthread + 127) / 128);
		for (int i = 0; i < a->nthread; i++) {
			a->thread[i].last = &a->thread[i].first;
			a->thread[i].last_store = &a->thread[i].stores;
		}
		*slot = a;
		simt_at_end(t, close, a);
	}
	return *slot;
}

ThreadAsync *
simt_async_of(Async *a, const SimtThread *t)
{
	return &a->thread[t->thread];
}

bool
simt_chance(Async *a)
{
	if (!a->random)
		return false;
	a->random ^= a->random >> 12;
	a->random ^= a->random << 25;
	a->random ^= a->random >> 27;
	return (a->random * 0x2545F4914F6CDD1Du) >> 62 == 0;
}
