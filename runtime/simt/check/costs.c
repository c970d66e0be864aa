/* What warps' accesses cost, counted: passes over the 32 banks of shared memory, sectors of 32 bytes of global memory.
 *
 * Threads run one after the other, so the lanes of one access come at different times.  They are gathered by the call
 * that compiled code makes, the turn of loops it is in, and the warp; an access of all 32 lanes is counted, as the cost
 * model counts it (layout/cost.c), and one that some lanes are masked out of is not. */
#include "runtime/simt/check/check.h"

#include <stdlib.h>
#include <string.h>

enum { LOG_GATHERED = 12, LONGEST = 16 };

typedef struct Gathered {
	const void *from;
	int64_t steps;
	int site, warp, bytes;
	bool is_shared;                                 /* a copy makes both from one call */
	uint32_t lanes;
	int64_t at[SIMT_LANES];
} Gathered;

struct Costs {
	Gathered *slot;
	SimtCost *cost;
	int n, room, log;
};

Costs *
costs_open(int log_gathered)
{
	Costs *n = memory_new(1, sizeof *n);
	n->log = log_gathered ? log_gathered : LOG_GATHERED;
	n->slot = memory_new((size_t)1 << n->log, sizeof *n->slot);
	return n;
}

void
costs_close(Costs *n)
{
	if (!n)
		return;
	free(n->slot);
	free(n->cost);
	free(n);
}

void
costs_begin(Check *c)
{
	if (c->costs)
		memset(c->costs->slot, 0, sizeof *c->costs->slot << c->costs->log);
}

/* The worst access of a place in the source is the one furthest from its least. */
static void
add_cost(SimtCost **all, int *n, int *room, const SimtCost *x)
{
	SimtCost *c = NULL;
	for (int i = 0; i < *n && !c; i++) {
		SimtCost *o = &(*all)[i];
		bool same_kind = o->is_shared == x->is_shared && o->is_write == x->is_write;
		if (o->site == x->site && same_kind && o->bytes == x->bytes)
			c = o;
	}
	if (c) {
		c->n += x->n;
		c->total += x->total;
		c->least_total += x->least_total;
		if (x->worst - x->least > c->worst - c->least) {
			c->worst = x->worst;
			c->least = x->least;
		}
		return;
	}
	if (*n == *room) {
		*room = MAX(16, 2 * *room);
		*all = realloc(*all, sizeof **all * (size_t)*room);
		if (!*all)
			die("no memory for counting what accesses cost");
	}
	(*all)[(*n)++] = *x;
}

void
costs_touch(Costs *c, const SimtThread *t, uint64_t at, int bytes, bool is_shared, bool is_write, const void *from)
{
	uint64_t where = (uint64_t)t->warp << 24 ^ (uint64_t)t->site << 44 ^ is_shared;
	uint64_t h = ((uint64_t)(uintptr_t)from ^ (uint64_t)t->steps << 32 ^ where) * UINT64_C(0x9e3779b97f4a7c15);
	Gathered *g = &c->slot[h >> (64 - c->log)];
	if (bytes > LONGEST)
		return;
	uint32_t lane = UINT32_C(1) << t->lane;
	if (g->from != from || g->steps != t->steps || g->site != t->site || g->warp != t->warp || g->bytes != bytes ||
	    g->is_shared != is_shared || (g->lanes & lane))
		*g = (Gathered){.from = from, .steps = t->steps, .site = t->site, .warp = t->warp, .bytes = bytes,
			.is_shared = is_shared};
	g->lanes |= lane;
	g->at[t->lane] = (int64_t)at;
	if (g->lanes != UINT32_MAX)
		return;
	SimtCost x = {.site = t->site, .is_shared = is_shared, .is_write = is_write, .bytes = bytes, .n = 1};
	(is_shared ? access_passes : access_sectors)(g->at, SIMT_LANES, bytes, &x.worst, &x.least);
	x.total = x.worst;
	x.least_total = x.least;
	add_cost(&c->cost, &c->n, &c->room, &x);
	g->lanes = 0;
}

void
costs_end(Check *c)
{
	SimtFindings *f = c->launch->launch->findings;
	Costs *own = c->costs;
	if (!own)
		return;
	pthread_mutex_lock(&c->launch->lock);
	for (int i = 0; i < own->n; i++)
		add_cost(&f->cost, &f->ncosts, &f->cost_room, &own->cost[i]);
	pthread_mutex_unlock(&c->launch->lock);
	own->n = 0;
}
