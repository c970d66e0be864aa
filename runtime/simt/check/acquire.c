/* Happens-before between blocks: a release leaves at its address what happened before it, an acquire takes all that stands
 * there, if each of the two is of a scope that reaches the other's block.
 *
 * Clusters run beside each other on threads of this machine, so a release is noted before its operation changes memory
 * and an acquire after it: what an operation has read is then among the releases that it finds.
 *
 * What is so acquired is a graph that grows by a node each time and is only read (flattened, once) when accesses of two
 * blocks conflict, and only if the other one has released since: else nothing of it can have been acquired. */
#include "runtime/simt/check/check.h"

#include <stdlib.h>

enum { LOCATIONS = 1 << 12 };

typedef struct Release {
	uint32_t block, clock;
	int agent;
	unsigned scope;
	const VectorClock *vector;                      /* of the others of its cluster */
	const Acquired *acquired;
} Release;

typedef struct Location {
	uint64_t address;
	VEC(Release) release;
	bool is_narrow;                                 /* some of them do not reach every block */
	int walked;                                     /* by the flattening in progress: so many, for every block */
	struct Location *next;
} Location;

/* Of a cluster: the latest clocks of its threads that a release has published. */
typedef struct ReleasedClock {
	uint32_t *at;
	const VectorClock *last;
} ReleasedClock;

struct Releases {
	Location *at[LOCATIONS];
	VEC(ReleasedClock) latest;                                 /* by cluster */
};

/* By cluster: clocks of its threads. */
typedef struct Flat {
	uint32_t cluster;
	uint32_t *at;
	const VectorClock *last;                               /* added */
	struct Flat *next;
} Flat;

struct Acquired {
	const Acquired *a, *b;                             /* and what `block` acquired at `from`: its first n releases */
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

bool
scope_reaches(const CheckLaunch *l, unsigned scope, uint32_t by, uint32_t other)
{
	if (scope & SIMT_SCOPE_CTA)
		return by == other;
	return !(scope & SIMT_SCOPE_CLUSTER) || cluster_of(l, by) == cluster_of(l, other);
}

const Acquired *
acquired_join(CheckLaunch *l, const Acquired *a, const Acquired *b)
{
	if (a == b || !b)
		return a;
	if (!a)
		return b;
	pthread_mutex_lock(&l->lock);
	Acquired *k = NEW(l->mem, Acquired);
	k->a = a;
	k->b = b;
	pthread_mutex_unlock(&l->lock);
	return k;
}

static Flat *
flat_of(CheckLaunch *l, Acquired *k, uint32_t cluster)
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

/* Adds the clocks that a release publishes; of a vector that the cluster's last one published too, only its own. */
static void
add_clocks(const CheckLaunch *l, uint32_t *at, const VectorClock **last, const Release *r)
{
	for (int i = 0; i < threads_of(l) && *last != r->vector; i++)
		at[i] = MAX(at[i], i == r->agent ? 0 : r->vector->at[i]);
	at[r->agent] = MAX(at[r->agent], r->clock);
	*last = r->vector;
}

static void
add_release(CheckLaunch *l, Acquired *out, const Release *r)
{
	Flat *f = flat_of(l, out, cluster_of(l, r->block));
	add_clocks(l, f->at, &f->last, r);
}

static void
publish(CheckLaunch *l, const Release *r)
{
	uint32_t cluster = cluster_of(l, r->block);
	struct Releases *all = l->releases;
	while ((uint32_t)all->latest.n <= cluster)
		vec_push(l->mem, &all->latest, ((ReleasedClock){0}));
	ReleasedClock *t = &all->latest.at[cluster];
	if (!t->at)
		t->at = NEW_ARRAY(l->mem, uint32_t, threads_of(l));
	add_clocks(l, t->at, &t->last, r);
}

static bool
is_released(const CheckLaunch *l, uint32_t cluster, int agent, uint32_t clock)
{
	const struct Releases *all = l->releases;
	const uint32_t *at = cluster < (uint32_t)all->latest.n ? all->latest.at[cluster].at : NULL;
	return at && at[agent] >= clock;
}

typedef VEC(Acquired *) AcquiredList;

/* Adds the releases that a node has taken, and to the list what had been acquired before each.  What reaches every block
 * is taken once, however many nodes lead to it. */
static void
flatten_one(CheckLaunch *l, Acquired *out, const Acquired *k, Arena *tmp, AcquiredList *todo)
{
	Location *from = (Location *)k->from;
	bool reaches_all = from && !from->is_narrow && !(k->scope & (SIMT_SCOPE_CTA | SIMT_SCOPE_CLUSTER));
	for (int i = reaches_all ? from->walked : 0; i < k->n; i++) {
		const Release *r = &from->release.at[i];
		if (!scope_reaches(l, r->scope, r->block, k->block) || !scope_reaches(l, k->scope, k->block, r->block))
			continue;
		add_release(l, out, r);
		if (r->acquired)
			vec_push(tmp, todo, (Acquired *)r->acquired);
	}
	if (reaches_all)
		from->walked = MAX(from->walked, k->n);
}

/* Adds all that `k` leads to.  The graph has no cycles, and visits of one flattening are undone by `seen`. */
static void
flatten(CheckLaunch *l, Acquired *out, const Acquired *first)
{
	AcquiredList todo = {0}, seen = {0};
	Arena *tmp = arena_open();
	vec_push(tmp, &todo, (Acquired *)first);
	while (todo.n) {
		Acquired *k = vec_pop(&todo);
		if (!k || k->is_visited)
			continue;
		k->is_visited = true;
		vec_push(tmp, &seen, k);
		vec_push(tmp, &todo, (Acquired *)k->a);
		vec_push(tmp, &todo, (Acquired *)k->b);
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
acquired_has(CheckLaunch *l, const Acquired *known, uint32_t block, int thread, uint32_t clock)
{
	Acquired *k = (Acquired *)known;
	int agent = (int)block % MAX(l->launch->cluster, 1) * l->launch->threads + thread;
	uint32_t cluster = cluster_of(l, block);
	bool has = false;
	if (!k)
		return false;
	pthread_mutex_lock(&l->lock);
	bool released = is_released(l, cluster, agent, clock);
	if (released && !k->is_flat) {
		flatten(l, k, k);
		k->is_flat = true;
	}
	for (Flat *f = released ? k->flat : NULL; f && !has; f = f->next)
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

/* The vector stays as it is from now on, as long as the launch. */
static void
keep(CheckLaunch *l, VectorClock *s)
{
	if (s->is_kept)
		return;
	s->is_kept = true;
	s->next = l->kept;
	l->kept = s;
}

void
release_touch(Check *c, SimtThread *t, uint64_t address, unsigned access)
{
	CheckLaunch *l = c->launch;
	CheckThread *ct = &c->thread[agent_of(c, t)];
	unsigned scope = access & (SIMT_SCOPE_CTA | SIMT_SCOPE_CLUSTER);
	if (!(access & SIMT_RELEASE))
		return;
	pthread_mutex_lock(&l->lock);
	Location *p = location(l, address);
	Release r = {(uint32_t)t->block_index, ct->clock++, agent_of(c, t), scope, ct->before.vector, ct->before.acquired};
	keep(l, ct->before.vector);
	vec_push(l->mem, &p->release, r);
	p->is_narrow |= scope != 0;
	publish(l, &r);
	pthread_mutex_unlock(&l->lock);
}

void
acquire_touch(Check *c, SimtThread *t, uint64_t address, unsigned access)
{
	CheckLaunch *l = c->launch;
	CheckThread *ct = &c->thread[agent_of(c, t)];
	pthread_mutex_lock(&l->lock);
	Location *p = location(l, address);
	if (p->release.n) {
		Acquired *k = NEW(l->mem, Acquired);
		k->a = ct->before.acquired;
		k->from = p;
		k->n = p->release.n;
		k->block = (uint32_t)t->block_index;
		k->scope = access & (SIMT_SCOPE_CTA | SIMT_SCOPE_CLUSTER);
		ct->before.acquired = k;
	}
	pthread_mutex_unlock(&l->lock);
}

void
acquire_open(CheckLaunch *l)
{
	l->releases = NEW(l->mem, struct Releases);
}

void
acquire_close(CheckLaunch *l)
{
	for (VectorClock *s = l->kept, *next; s; s = next) {
		next = s->next;
		free(s);
	}
}
