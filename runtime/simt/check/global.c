/* Global memory's shadow: of every element that a kernel may write, the last write and two accesses since.
 *
 * Two are enough for races between blocks: they are kept of different blocks where there are such, and a write that follows
 * is not of one of them.  Of one block they are the first and the last under a clock.  Blocks are unordered but for their
 * cluster's barriers (clocks.c) and atomics (acquire.c).
 *
 * Threads of one store may collide in an element, as the language allows ("one of the values, whole"), so writes of the
 * same instruction are no race within a block.  Tensors that a kernel only reads have no shadow. */
#include "runtime/simt/check/check.h"

#include "runtime/device.h"
#include "runtime/tensor/strided.h"

#include <stdlib.h>
#include <sys/mman.h>

typedef struct Touch {
	uint32_t block;                                 /* plus 1; 0: none */
	uint32_t clock, turn;
	uint16_t who;                                   /* thread, and above it what it did: access_of */
	uint16_t site;
} Touch;

typedef struct GlobalCell {
	Touch write, touch[2];
} GlobalCell;

enum { WHO_BITS = 10, STRIPES = 64 };
static const uint32_t IN_FLIGHT = UINT32_MAX;           /* the clock of a bulk copy's access until it is waited for */

struct GlobalShadow {
	GlobalCell *cell;                               /* NULL: there is none */
	size_t size;
	int shift;                                      /* log2 of an element's bytes */
	bool is_view;                                   /* of a part of its allocation, so that bounds do not say all */
	bool starts_undefined;
	uint8_t lock[STRIPES];
};

static int
compare_ranges(const void *a, const void *b)
{
	const SimtRange *x = *(const SimtRange *const *)a, *y = *(const SimtRange *const *)b;
	return (x->low > y->low) - (x->low < y->low);
}

static bool
is_view(const SimtRange *r)
{
	int64_t count = 1;
	for (int d = 0; d < r->rank; d++)
		count *= r->dim[d];
	return r->rank && (count * dtype_info[r->dtype].bits / 8 + 8 <= (int64_t)(r->high - r->low) ||
			      strided_overlaps(r->rank, r->dim, r->stride, 1));
}

static bool
range_open(const SimtRange *r, bool is_read_only, GlobalShadow *t, uint64_t *left)
{
	int bytes = MAX(dtype_info[r->dtype].bits / 8, 1);
	t->shift = log2_ceil(bytes);
	t->size = (size_t)((r->high - r->low) >> t->shift) * sizeof *t->cell;
	if (!r->name || is_read_only || t->size == 0 || t->size > *left)
		return !r->name || is_read_only || t->size == 0;
	t->cell = mmap(NULL, t->size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (t->cell == MAP_FAILED) {
		t->cell = NULL;
		return false;
	}
	*left -= t->size;
	t->starts_undefined = r->undefined && !dtype_is_packed(r->dtype);
	return true;
}

void
global_open(CheckLaunch *l)
{
	int n = l->launch->nrange;
	uint64_t left = device_host_memory() / 4;
	l->shadow = NEW_ARRAY(l->mem, GlobalShadow, n);
	l->by_address = NEW_ARRAY(l->mem, const SimtRange *, n);
	for (int i = 0; i < n; i++)
		l->by_address[i] = &l->launch->range[i];
	if (n)
		qsort(l->by_address, (size_t)n, sizeof *l->by_address, compare_ranges);
	for (int i = 0; i < n; i++) {
		const SimtRange *r = l->by_address[i];
		bool is_read_only = r->is_read_only, is_alone = (i == 0 || l->by_address[i - 1]->low != r->low);
		/* arguments of one allocation: what is found by address is the last of them */
		for (int k = i - 1; k >= 0 && l->by_address[k]->low == r->low; k--)
			is_read_only &= l->by_address[k]->is_read_only;
		if (i + 1 < n && l->by_address[i + 1]->low == r->low)
			continue;
		GlobalShadow *t = &l->shadow[r - l->launch->range];
		if (!range_open(r, is_read_only, t, &left))
			l->unwatched = r->name;
		t->is_view = is_alone && is_view(r);
		t->starts_undefined &= is_alone;
	}
}

void
global_close(CheckLaunch *l)
{
	for (int i = 0; i < l->launch->nrange; i++)
		if (l->shadow[i].cell)
			munmap(l->shadow[i].cell, l->shadow[i].size);
}

/* The last range that begins at or before the address. */
static const SimtRange *
range_of(Check *c, uint64_t address)
{
	const CheckLaunch *l = c->launch;
	int low = 0, high = l->launch->nrange;
	if (c->range && address >= c->range->low && address < c->range->high)
		return c->range;
	while (low < high) {
		int mid = (low + high) / 2;
		if (l->by_address[mid]->low <= address)
			low = mid + 1;
		else
			high = mid;
	}
	return low ? l->by_address[low - 1] : NULL;
}

static int
thread_of(const Touch *t)
{
	return t->who & ((1 << WHO_BITS) - 1);
}

/* SimtAccess, of which READ, WRITE, ATOMIC and the scopes are kept, and whether it is a bulk copy's write. */
static unsigned
access_of(const Touch *t)
{
	unsigned bits = t->who >> WHO_BITS;
	return (bits & 7) | (bits >> 3 & 3) * SIMT_SCOPE_CTA | (bits >> 5 ? SIMT_ASYNC | SIMT_TENSOR : 0);
}

/* Is it begun, and over when it was waited for? */
static bool
is_begun(unsigned access)
{
	return (access & SIMT_ASYNC) && (access & (SIMT_WRITE | SIMT_TENSOR));
}

static uint16_t
who_of(const SimtThread *t, unsigned access)
{
	unsigned bits = (access & 7) | (access / SIMT_SCOPE_CTA & 3) << 3 | (unsigned)is_begun(access) << 5;
	return (uint16_t)((unsigned)t->thread | bits << WHO_BITS);
}

enum { SCOPES = SIMT_SCOPE_CTA | SIMT_SCOPE_CLUSTER };
_Static_assert((SIMT_READ | SIMT_WRITE | SIMT_ATOMIC) == 7 && SIMT_SCOPE_CLUSTER == 2 * SIMT_SCOPE_CTA, "as packed");

/* Bulk copies see what a thread wrote to global memory behind a proxy fence alone, of which no primitive is for it. */
static bool
is_unseen(const Touch *now, const Touch *r)
{
	return (access_of(now) & SIMT_TENSOR) && (access_of(r) & SIMT_WRITE) && !(access_of(r) & SIMT_TENSOR);
}

static bool
happens_before(Check *c, const SimtThread *t, const Touch *r)
{
	if (r->clock == IN_FLIGHT)
		return false;
	const CheckThread *ct = &c->thread[agent_of(c, t)];
	int64_t rank = (int64_t)r->block - 1 - (t->block_index - t->cluster_rank);
	if (rank >= 0 && rank < c->blocks) {
		int agent = (int)rank * c->per_block + thread_of(r);
		if (agent == agent_of(c, t) || r->clock < c->epoch || ct->before.vector->at[agent] >= r->clock)
			return true;
	}
	return acquired_has(c->launch, ct->before.acquired, r->block - 1, thread_of(r), r->clock);
}

/* Two reads do not conflict, nor atomic operations if each reaches the other's block. */
static bool
no_conflict(const CheckLaunch *l, const Touch *a, const Touch *b)
{
	unsigned x = access_of(a), y = access_of(b);
	bool one = a->block == b->block && a->site == b->site && a->turn == b->turn;
	if (x & y & SIMT_ATOMIC)
		return scope_reaches(l, x, a->block - 1, b->block - 1) && scope_reaches(l, y, b->block - 1, a->block - 1);
	return !((x | y) & SIMT_WRITE) || (one && (x & y & SIMT_WRITE));
}

/* True: *race is an access that it conflicts with, neither happening before the other. */
static bool
look(Check *c, const SimtThread *t, const GlobalCell *cell, const Touch *now, Touch *race)
{
	const Touch *all[] = {&cell->write, &cell->touch[0], &cell->touch[1]};
	for (int i = 0; i < LEN(all); i++)
		if (all[i]->block && !no_conflict(c->launch, now, all[i]) &&
		    (is_unseen(now, all[i]) || !happens_before(c, t, all[i]))) {
			*race = *all[i];
			return true;
		}
	return false;
}

static void
note(GlobalCell *cell, const Touch *now)
{
	unsigned access = access_of(now);
	if ((access & SIMT_WRITE) && !(access & SIMT_ATOMIC)) {
		*cell = (GlobalCell){.write = *now};
		return;
	}
	const Touch *first = &cell->touch[0], *second = &cell->touch[1];
	bool is_other = first->block && first->block != now->block;
	/* of one block two threads under one clock, or one that reaches fewer, while there is no other block */
	bool is_alone = !second->block || second->block == now->block;
	bool is_twin = first->block == now->block && thread_of(first) != thread_of(now) && first->clock == now->clock;
	bool is_narrow = first->block == now->block && (access_of(first) & SCOPES) && !(access & SCOPES);
	cell->touch[is_other || (is_alone && (is_twin || is_narrow))] = *now;
}

static void
touch_element(Check *c, SimtThread *t, const SimtRange *range, uint64_t address, const Touch *now)
{
	GlobalShadow *shadow = &c->launch->shadow[range - c->launch->launch->range];
	uint64_t i = (address - range->low) >> shadow->shift;
	GlobalCell *cell = &shadow->cell[i];
	uint8_t *lock = &shadow->lock[i % STRIPES];
	Touch race;
	while (__atomic_exchange_n(lock, 1, __ATOMIC_ACQUIRE))
		;
	bool fresh = !cell->write.block && !(access_of(&cell->touch[0]) & SIMT_WRITE);
	bool undefined = shadow->starts_undefined && fresh && (access_of(now) & SIMT_READ);
	bool races = look(c, t, cell, now, &race);
	note(cell, now);
	__atomic_store_n(lock, 0, __ATOMIC_RELEASE);
	if (undefined)
		report_global_undefined(c, t, range, address);
	if (races) {
		CheckAccess mine = {t->block_index, t->thread, t->site, access_of(now)};
		CheckAccess other = {(int64_t)race.block - 1, thread_of(&race), race.site, access_of(&race)};
		report_global_race(c, &mine, &other, range, address);
	}
}

/* Are all elements there elements of the view? */
static bool
is_inside(const SimtRange *r, uint64_t address, int bytes)
{
	int size = MAX(dtype_info[r->dtype].bits / 8, 1);
	int64_t at[KERNEL_RANK], first = (int64_t)(address - r->first) / size;
	bool inside = address >= r->first;
	for (int i = 0; i * size < bytes && inside; i++)
		inside = strided_find(r->rank, r->dim, r->stride, first + i, at);
	return inside;
}

bool
global_touch(Check *c, SimtThread *t, uint64_t address, int bytes, unsigned access)
{
	const SimtRange *r = range_of(c, address);
	if (!r || address + (uint64_t)bytes > r->high) {
		if (c->launch->launch->nrange == 0)
			return true;
		report_global_bounds(c, t, r, address, bytes, access);
		return false;
	}
	c->range = r;
	GlobalShadow *shadow = &c->launch->shadow[r - c->launch->launch->range];
	if (shadow->is_view && !is_inside(r, address, bytes)) {
		report_global_bounds(c, t, r, address, bytes, access);
		return false;
	}
	if (!shadow->cell)
		return true;
	Touch now = {.block = (uint32_t)t->block_index + 1,
		.clock = is_begun(access) ? IN_FLIGHT : c->thread[agent_of(c, t)].clock,
		.turn = (uint32_t)t->steps, .who = who_of(t, access | (access & SIMT_VOLATILE ? SIMT_ATOMIC : 0)),
		.site = (uint16_t)t->site};
	for (int i = 0; i < bytes; i += 1 << shadow->shift)
		touch_element(c, t, r, address + (uint64_t)i, &now);
	return true;
}

static bool
is_in_flight(const Touch *w, const SimtThread *t)
{
	return w->block == (uint32_t)t->block_index + 1 && thread_of(w) == t->thread && w->clock == IN_FLIGHT;
}

/* Sets the clock of what t has in flight there: of reads, or of writes and sums.  A clock of 0 forgets a read. */
static void
land(GlobalCell *cell, const SimtThread *t, bool is_read, uint32_t clock)
{
	if (!is_read && is_in_flight(&cell->write, t))
		cell->write.clock = clock;
	for (int i = 0; i < LEN(cell->touch); i++) {
		Touch *x = &cell->touch[i];
		if (!is_in_flight(x, t) || is_read != !(access_of(x) & SIMT_WRITE))
			continue;
		x->clock = clock;
		if (clock == 0)
			*x = (Touch){0};
	}
}

void
global_land(Check *c, SimtThread *t, uint64_t address, int bytes, int64_t mbarrier)
{
	bool is_read = mbarrier >= 0;
	uint32_t clock = is_read ? clocks_arrived(c, agent_of(c, t), (uint64_t)mbarrier) : c->thread[agent_of(c, t)].clock;
	const SimtRange *r = range_of(c, address);
	GlobalShadow *shadow = r ? &c->launch->shadow[r - c->launch->launch->range] : NULL;
	if (!shadow || !shadow->cell || address + (uint64_t)bytes > r->high)
		return;
	for (int k = 0; k < bytes; k += 1 << shadow->shift) {
		uint64_t i = (address + (uint64_t)k - r->low) >> shadow->shift;
		uint8_t *lock = &shadow->lock[i % STRIPES];
		while (__atomic_exchange_n(lock, 1, __ATOMIC_ACQUIRE))
			;
		land(&shadow->cell[i], t, is_read, clock);
		__atomic_store_n(lock, 0, __ATOMIC_RELEASE);
	}
}
