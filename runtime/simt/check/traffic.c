/* Global memory's shadow: of every element that a kernel may write, who wrote it last and two that touched it since.
 *
 * Two are enough for races between blocks: they are kept of different blocks where there are such, and whoever writes
 * then is not one of them.  Of one block they are the first and the last under a clock.  Blocks are unordered but for
 * their cluster's barriers (clocks.c) and atomics: a release leaves at its address who was known then, an acquire takes
 * all that stands there, if each of the two is of a scope that reaches the other's block.  What is so learned is a graph
 * of sources that grows by a node each time and is only read (flattened, once) when two blocks did meet in one place, and
 * only if the other one has released since: else nobody can know.
 *
 * Threads of one store may collide in an element, as the language allows ("one of the values, whole"), so writes of the
 * same instruction are no race within a block.  Tensors that a kernel only reads have no shadow. */
#include "runtime/simt/check/check.h"

#include "runtime/device.h"

#include <stdlib.h>
#include <string.h>
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

enum { WHO_BITS = 10, STRIPES = 64, PLACES = 1 << 12 };
static const uint32_t UNDER_WAY = UINT32_MAX;           /* the clock of a bulk copy's write until it is waited for */

struct Traffic {
	GlobalCell *cell;                               /* NULL: there is none */
	size_t size;
	int shift;                                      /* log2 of an element's bytes */
	bool is_view;                                   /* of a part of its allocation, so that bounds do not say all */
	bool starts_undefined;
	uint8_t lock[STRIPES];
};

/* ---- what is learned from other blocks ---- */

typedef struct Release {
	uint32_t block, clock;
	int agent;
	unsigned scope;
	const Seen *seen;                               /* of the others of its cluster */
	const Known *known;
} Release;

typedef struct Location {
	uint64_t address;
	VEC(Release) release;
	bool is_narrow;                                 /* some of them do not reach every block */
	int walked;                                     /* by the flattening under way: so many, for every block */
	struct Location *next;
} Location;

/* Of a cluster: the latest clocks of its threads that a release of it has told of. */
typedef struct Told {
	uint32_t *at;
	const Seen *last;
} Told;

struct Releases {
	Location *at[PLACES];
	VEC(Told) told;                                 /* by cluster */
};

/* By cluster: clocks of its threads. */
typedef struct Flat {
	uint32_t cluster;
	uint32_t *at;
	const Seen *last;                               /* added */
	struct Flat *next;
} Flat;

struct Known {
	const Known *a, *b;                             /* and what `block` learned at `from`, of its first n releases */
	const Location *from;
	int n;
	uint32_t block;
	unsigned scope;
	bool is_flat, is_visited;
	Flat *flat;
};

static uint32_t
cluster_of(const CheckLaunch *l, uint32_t block)
{
	return block / (uint32_t)MAX(l->launch->cluster, 1);
}

static int
threads_of(const CheckLaunch *l)
{
	return MAX(l->launch->cluster, 1) * l->launch->threads;
}

/* Does an operation of that scope by a thread of block `by` count for one of `other`? */
static bool
reaches(const CheckLaunch *l, unsigned scope, uint32_t by, uint32_t other)
{
	if (scope & SIMT_SCOPE_CTA)
		return by == other;
	return !(scope & SIMT_SCOPE_CLUSTER) || cluster_of(l, by) == cluster_of(l, other);
}

const Known *
known_join(CheckLaunch *l, const Known *a, const Known *b)
{
	if (a == b || !b)
		return a;
	if (!a)
		return b;
	pthread_mutex_lock(&l->lock);
	Known *k = NEW(l->mem, Known);
	k->a = a;
	k->b = b;
	pthread_mutex_unlock(&l->lock);
	return k;
}

static Flat *
flat_of(CheckLaunch *l, Known *k, uint32_t cluster)
{
	for (Flat *f = k->flat; f; f = f->next)
		if (f->cluster == cluster)
			return f;
	Flat *f = NEW(l->mem, Flat);
	f->cluster = cluster;
	f->at = NEW_ARRAY(l->mem, uint32_t, threads_of(l));
	f->next = k->flat;
	k->flat = f;
	return f;
}

/* The clocks that a release tells of.  Those that the cluster's last one told of too, all but its own, are there. */
static void
add_clocks(const CheckLaunch *l, uint32_t *at, const Seen **last, const Release *r)
{
	for (int i = 0; i < threads_of(l) && *last != r->seen; i++)
		at[i] = MAX(at[i], i == r->agent ? 0 : r->seen->at[i]);
	at[r->agent] = MAX(at[r->agent], r->clock);
	*last = r->seen;
}

static void
add_release(CheckLaunch *l, Known *out, const Release *r)
{
	Flat *f = flat_of(l, out, cluster_of(l, r->block));
	add_clocks(l, f->at, &f->last, r);
}

static void
tell(CheckLaunch *l, const Release *r)
{
	uint32_t cluster = cluster_of(l, r->block);
	struct Releases *all = l->releases;
	while ((uint32_t)all->told.n <= cluster)
		vec_push(l->mem, &all->told, ((Told){0}));
	Told *t = &all->told.at[cluster];
	if (!t->at)
		t->at = NEW_ARRAY(l->mem, uint32_t, threads_of(l));
	add_clocks(l, t->at, &t->last, r);
}

static bool
is_told(const CheckLaunch *l, uint32_t cluster, int agent, uint32_t clock)
{
	const struct Releases *all = l->releases;
	return cluster < (uint32_t)all->told.n && all->told.at[cluster].at && all->told.at[cluster].at[agent] >= clock;
}

typedef VEC(Known *) KnownList;

/* Adds the releases that a node has taken, and what was known to those who made them to the list.  What reaches every
 * block is taken once, however many nodes lead to it. */
static void
flatten_one(CheckLaunch *l, Known *out, const Known *k, Arena *tmp, KnownList *todo)
{
	Location *from = (Location *)k->from;
	bool reaches_all = from && !from->is_narrow && !(k->scope & (SIMT_SCOPE_CTA | SIMT_SCOPE_CLUSTER));
	for (int i = reaches_all ? from->walked : 0; i < k->n; i++) {
		const Release *r = &from->release.at[i];
		if (!reaches(l, r->scope, r->block, k->block) || !reaches(l, k->scope, k->block, r->block))
			continue;
		add_release(l, out, r);
		if (r->known)
			vec_push(tmp, todo, (Known *)r->known);
	}
	if (reaches_all)
		from->walked = MAX(from->walked, k->n);
}

/* Adds all that `k` leads to.  The graph has no cycles, and visits of one flattening are undone by `seen`. */
static void
flatten(CheckLaunch *l, Known *out, const Known *first)
{
	KnownList todo = {0}, seen = {0};
	Arena *tmp = arena_open();
	vec_push(tmp, &todo, (Known *)first);
	while (todo.n) {
		Known *k = vec_pop(&todo);
		if (!k || k->is_visited)
			continue;
		k->is_visited = true;
		vec_push(tmp, &seen, k);
		vec_push(tmp, &todo, (Known *)k->a);
		vec_push(tmp, &todo, (Known *)k->b);
		flatten_one(l, out, k, tmp, &todo);
	}
	for (int i = 0; i < seen.n; i++) {
		seen.at[i]->is_visited = false;
		if (seen.at[i]->from)
			((Location *)seen.at[i]->from)->walked = 0;
	}
	arena_close(tmp);
}

bool
known_has(CheckLaunch *l, const Known *known, uint32_t block, int thread, uint32_t clock)
{
	Known *k = (Known *)known;
	int agent = (int)block % MAX(l->launch->cluster, 1) * l->launch->threads + thread;
	uint32_t cluster = cluster_of(l, block);
	bool has = false;
	if (!k)
		return false;
	pthread_mutex_lock(&l->lock);
	bool told = is_told(l, cluster, agent, clock);
	if (told && !k->is_flat) {
		flatten(l, k, k);
		k->is_flat = true;
	}
	for (Flat *f = told ? k->flat : NULL; f && !has; f = f->next)
		has = f->cluster == cluster && f->at[agent] >= clock;
	pthread_mutex_unlock(&l->lock);
	return has;
}

static Location *
location(CheckLaunch *l, uint64_t address)
{
	Location **at = &l->releases->at[address * UINT64_C(0x9e3779b97f4a7c15) >> 52];
	for (Location *p = *at; p; p = p->next)
		if (p->address == address)
			return p;
	Location *p = NEW(l->mem, Location);
	p->address = address;
	p->next = *at;
	return *at = p;
}

/* The seen array stays as it is from now on, as long as the launch. */
static void
keep(CheckLaunch *l, Seen *s)
{
	if (s->is_kept)
		return;
	s->is_kept = true;
	s->next = l->kept;
	l->kept = s;
}

void
traffic_order(Check *c, SimtThread *t, uint64_t address, unsigned access)
{
	CheckLaunch *l = c->launch;
	CheckThread *ct = &c->thread[agent_of(c, t)];
	unsigned scope = access & (SIMT_SCOPE_CTA | SIMT_SCOPE_CLUSTER);
	if (!(access & (SIMT_ACQUIRE | SIMT_RELEASE)))
		return;
	pthread_mutex_lock(&l->lock);
	Location *p = location(l, address);
	if ((access & SIMT_ACQUIRE) && p->release.n) {
		Known *k = NEW(l->mem, Known);
		k->a = ct->order.known;
		k->from = p;
		k->n = p->release.n;
		k->block = (uint32_t)t->block_index;
		k->scope = scope;
		ct->order.known = k;
	}
	if (access & SIMT_RELEASE) {
		Release r = {(uint32_t)t->block_index, ct->clock++, agent_of(c, t), scope, ct->order.seen, ct->order.known};
		keep(l, ct->order.seen);
		vec_push(l->mem, &p->release, r);
		p->is_narrow |= scope != 0;
		tell(l, &r);
	}
	pthread_mutex_unlock(&l->lock);
}

/* ---- the shadow ---- */

static int
by_address(const void *a, const void *b)
{
	const SimtRange *x = *(const SimtRange *const *)a, *y = *(const SimtRange *const *)b;
	return (x->low > y->low) - (x->low < y->low);
}

/* A search for the indices of an element, dimensions in the order of falling strides. */
typedef struct Search {
	const SimtRange *r;
	int order[KERNEL_RANK];
	int64_t rest[KERNEL_RANK + 1];                     /* the farthest that dimensions from this one on reach */
	int tries;                                      /* left: then what is not known to be outside counts as inside */
} Search;

/* From the k-th dimension on.  Where strides do not overlap, the first index tried is the only one. */
static bool
search(Search *s, int k, int64_t element, int64_t at[KERNEL_RANK])
{
	if (k == s->r->rank)
		return element == 0;
	int d = s->order[k];
	int64_t stride = s->r->stride[d], dim = s->r->dim[d];
	at[d] = 0;
	if (dim < 1 || element < 0 || element > s->rest[k])
		return false;
	int64_t beyond = element - s->rest[k + 1];
	if (dim == 1 || stride == 0)
		return search(s, k + 1, element, at);
	int64_t least = beyond > 0 ? (beyond + stride - 1) / stride : 0;
	for (at[d] = MIN(element / stride, dim - 1); at[d] >= least; at[d]--)
		if (s->tries-- <= 0 || search(s, k + 1, element - at[d] * stride, at))
			return true;
	return false;
}

bool
range_index(const SimtRange *r, int64_t element, int64_t at[KERNEL_RANK])
{
	Search s = {.r = r, .tries = 1000};
	for (int i = 0; i < r->rank; i++) {
		int k = i;
		for (; k > 0 && r->stride[s.order[k - 1]] < r->stride[i]; k--)
			s.order[k] = s.order[k - 1];
		s.order[k] = i;
	}
	for (int k = r->rank - 1; k >= 0; k--) {
		int d = s.order[k];
		s.rest[k] = s.rest[k + 1] + MAX(r->dim[d] - 1, 0) * r->stride[d];
	}
	return search(&s, 0, element, at);
}

/* Do several indices name one element?  (Some strides that interleave without that count too.) */
static bool
overlaps(const SimtRange *r)
{
	for (int d = 0; d < r->rank; d++)
		for (int k = 0; k < r->rank; k++)
			if (k != d && r->dim[d] > 1 && r->dim[k] > 1 && r->stride[d] >= r->stride[k] &&
			    (d < k || r->stride[d] > r->stride[k]) && r->stride[d] < r->dim[k] * r->stride[k])
				return true;
	return false;
}

static bool
is_view(const SimtRange *r)
{
	int64_t count = 1;
	for (int d = 0; d < r->rank; d++)
		count *= r->dim[d];
	return r->rank && (overlaps(r) || count * dtype_info[r->dtype].bits / 8 + 8 <= (int64_t)(r->high - r->low));
}

static bool
range_open(const SimtRange *r, bool is_read_only, Traffic *t, uint64_t *left)
{
	int bytes = MAX(dtype_info[r->dtype].bits / 8, 1);
	t->shift = log2_ceil(bytes);
	t->size = (size_t)((r->high - r->low) >> t->shift) * sizeof *t->cell;
	if (!r->name || is_read_only || t->size == 0 || t->size > *left)
		return !r->name || is_read_only;
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
traffic_open(CheckLaunch *l)
{
	int n = l->launch->nrange;
	uint64_t left = device_host_memory() / 4;
	l->traffic = NEW_ARRAY(l->mem, Traffic, n);
	l->order = NEW_ARRAY(l->mem, const SimtRange *, n);
	l->releases = NEW(l->mem, struct Releases);
	for (int i = 0; i < n; i++)
		l->order[i] = &l->launch->range[i];
	if (n)
		qsort(l->order, (size_t)n, sizeof *l->order, by_address);
	for (int i = 0; i < n; i++) {
		const SimtRange *r = l->order[i];
		bool is_read_only = r->is_read_only, is_alone = (i == 0 || l->order[i - 1]->low != r->low);
		/* arguments of one allocation: what is found by address is the last of them */
		for (int k = i - 1; k >= 0 && l->order[k]->low == r->low; k--)
			is_read_only &= l->order[k]->is_read_only;
		if (i + 1 < n && l->order[i + 1]->low == r->low)
			continue;
		Traffic *t = &l->traffic[r - l->launch->range];
		if (!range_open(r, is_read_only, t, &left))
			l->unwatched = r->name;
		t->is_view = is_alone && is_view(r);
		t->starts_undefined &= is_alone;
	}
}

void
traffic_close(CheckLaunch *l)
{
	for (int i = 0; i < l->launch->nrange; i++)
		if (l->traffic[i].cell)
			munmap(l->traffic[i].cell, l->traffic[i].size);
	for (Seen *s = l->kept, *next; s; s = next) {
		next = s->next;
		free(s);
	}
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
		if (l->order[mid]->low <= address)
			low = mid + 1;
		else
			high = mid;
	}
	return low ? l->order[low - 1] : NULL;
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
	return (access & SIMT_ASYNC) && (access & SIMT_WRITE);
}

static uint16_t
who_of(const SimtThread *t, unsigned access)
{
	unsigned bits = (access & 7) | (access / SIMT_SCOPE_CTA & 3) << 3 | (unsigned)is_begun(access) << 5;
	return (uint16_t)((unsigned)t->thread | bits << WHO_BITS);
}

enum { SCOPES = SIMT_SCOPE_CTA | SIMT_SCOPE_CLUSTER };
_Static_assert((SIMT_READ | SIMT_WRITE | SIMT_ATOMIC) == 7 && SIMT_SCOPE_CLUSTER == 2 * SIMT_SCOPE_CTA, "as packed");

static bool
comes_before(Check *c, const SimtThread *t, const Touch *r)
{
	if (r->clock == UNDER_WAY)
		return false;
	const CheckThread *ct = &c->thread[agent_of(c, t)];
	int64_t rank = (int64_t)r->block - 1 - (t->block_index - t->cluster_rank);
	if (rank >= 0 && rank < c->blocks) {
		int agent = (int)rank * c->per_block + thread_of(r);
		if (agent == agent_of(c, t) || r->clock < c->met || ct->order.seen->at[agent] >= r->clock)
			return true;
	}
	return known_has(c->launch, ct->order.known, r->block - 1, thread_of(r), r->clock);
}

/* Atomic operations may, if each reaches the other's block. */
static bool
may_meet(const CheckLaunch *l, const Touch *a, const Touch *b)
{
	unsigned x = access_of(a), y = access_of(b);
	bool one = a->block == b->block && a->site == b->site && a->turn == b->turn;
	if (x & y & SIMT_ATOMIC)
		return reaches(l, x, a->block - 1, b->block - 1) && reaches(l, y, b->block - 1, a->block - 1);
	return !((x | y) & SIMT_WRITE) || (one && (x & y & SIMT_WRITE));
}

/* True: *race is what it meets without an order. */
static bool
look(Check *c, const SimtThread *t, const GlobalCell *cell, const Touch *now, Touch *race)
{
	const Touch *all[] = {&cell->write, &cell->touch[0], &cell->touch[1]};
	for (int i = 0; i < LEN(all); i++)
		if (all[i]->block && !may_meet(c->launch, now, all[i]) && !comes_before(c, t, all[i])) {
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
	Traffic *traffic = &c->launch->traffic[range - c->launch->launch->range];
	uint64_t i = (address - range->low) >> traffic->shift;
	GlobalCell *cell = &traffic->cell[i];
	uint8_t *lock = &traffic->lock[i % STRIPES];
	Touch race;
	while (__atomic_exchange_n(lock, 1, __ATOMIC_ACQUIRE))
		;
	bool fresh = !cell->write.block && !(access_of(&cell->touch[0]) & SIMT_WRITE);
	bool undefined = traffic->starts_undefined && fresh && (access_of(now) & SIMT_READ);
	bool races = look(c, t, cell, now, &race);
	note(cell, now);
	__atomic_store_n(lock, 0, __ATOMIC_RELEASE);
	if (undefined)
		report_global_undefined(c, t, range, address);
	if (races) {
		CheckParty mine = {t->block_index, t->thread, t->site, access_of(now)};
		CheckParty other = {(int64_t)race.block - 1, thread_of(&race), race.site, access_of(&race)};
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
		inside = range_index(r, first + i, at);
	return inside;
}

bool
traffic_touch(Check *c, SimtThread *t, uint64_t address, int bytes, unsigned access)
{
	const SimtRange *r = range_of(c, address);
	if (!r || address + (uint64_t)bytes > r->high) {
		if (c->launch->launch->nrange == 0)
			return true;
		report_global_bounds(c, t, r, address, bytes, access);
		return false;
	}
	c->range = r;
	Traffic *traffic = &c->launch->traffic[r - c->launch->launch->range];
	if (traffic->is_view && !is_inside(r, address, bytes)) {
		report_global_bounds(c, t, r, address, bytes, access);
		return false;
	}
	if (!traffic->cell)
		return true;
	Touch now = {.block = (uint32_t)t->block_index + 1,
		.clock = is_begun(access) ? UNDER_WAY : c->thread[agent_of(c, t)].clock,
		.turn = (uint32_t)t->steps, .who = who_of(t, access | (access & SIMT_VOLATILE ? SIMT_ATOMIC : 0)),
		.site = (uint16_t)t->site};
	for (int i = 0; i < bytes; i += 1 << traffic->shift)
		touch_element(c, t, r, address + (uint64_t)i, &now);
	return true;
}

void
traffic_land(Check *c, SimtThread *t, uint64_t address, int bytes)
{
	const SimtRange *r = range_of(c, address);
	Traffic *traffic = r ? &c->launch->traffic[r - c->launch->launch->range] : NULL;
	if (!traffic || !traffic->cell || address + (uint64_t)bytes > r->high)
		return;
	for (int k = 0; k < bytes; k += 1 << traffic->shift) {
		uint64_t i = (address + (uint64_t)k - r->low) >> traffic->shift;
		Touch *w = &traffic->cell[i].write;
		uint8_t *lock = &traffic->lock[i % STRIPES];
		while (__atomic_exchange_n(lock, 1, __ATOMIC_ACQUIRE))
			;
		if (w->block == (uint32_t)t->block_index + 1 && thread_of(w) == t->thread && w->clock == UNDER_WAY)
			w->clock = c->thread[agent_of(c, t)].clock;
		__atomic_store_n(lock, 0, __ATOMIC_RELEASE);
	}
}
