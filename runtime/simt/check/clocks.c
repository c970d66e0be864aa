/* Who knows of whose accesses: vector clocks of a block's agents (see check.h), as in FastTrack (Flanagan and Freund,
 * 2009), with two turns that fit a GPU.
 *
 * Threads that met at a barrier know the same, so what they know is one array, shared until one of them learns more; a
 * thread's own entry stands apart (CheckThread.clock) and is written into a copy when others are to learn of it.  And
 * after a barrier of the whole block all threads have one clock, `met`: whatever a thread did under a smaller one is
 * over for everyone, which is seen without looking at any array.  (Of blocks in clusters nothing is over for everyone.)
 *
 * The async proxy (bulk copies, matrix instructions of warpgroups) sees what threads wrote only behind a fence: `fenced`
 * is what was known when someone on the way here went through one.  It travels along with the rest. */
#include "runtime/simt/check/check.h"

#include <stdlib.h>
#include <string.h>

static size_t
seen_bytes(const Check *c)
{
	return sizeof(Seen) + sizeof(uint32_t) * (size_t)c->agents;
}

static Seen *
seen_take(Check *c)
{
	Seen *s = c->unused;
	if (s)
		c->unused = s->next;
	else if (!(s = malloc(seen_bytes(c))))
		die("no memory for the checks of a block");
	s->refs = 1;
	s->is_kept = false;
	s->next = NULL;
	return s;
}

Seen *
seen_new(Check *c)
{
	Seen *s = seen_take(c);
	memset(s->at, 0, sizeof *s->at * (size_t)c->agents);
	return s;
}

void
seen_drop(Check *c, Seen *s)
{
	if (!s || s->is_kept || --s->refs > 0)
		return;
	s->next = c->unused;
	c->unused = s;
}

static Seen *
seen_share(Seen *s)
{
	if (s)
		s->refs++;
	return s;
}

/* Makes *s the caller's alone. */
static Seen *
seen_own(Check *c, Seen **s)
{
	if ((*s)->refs == 1 && !(*s)->is_kept)
		return *s;
	Seen *copy = seen_take(c);
	memcpy(copy->at, (*s)->at, sizeof *copy->at * (size_t)c->agents);
	seen_drop(c, *s);
	return *s = copy;
}

static void
seen_join(Check *c, Seen **to, Seen *from)
{
	if (!from || from == *to)
		return;
	if (!*to) {
		*to = seen_share(from);
		return;
	}
	uint32_t *at = seen_own(c, to)->at;
	for (int i = 0; i < c->agents; i++)
		at[i] = MAX(at[i], from->at[i]);
}

void
order_join(Check *c, Order *to, const Order *from)
{
	seen_join(c, &to->seen, from->seen);
	seen_join(c, &to->fenced, from->fenced);
	to->known = known_join(c->launch, to->known, from->known);
}

void
order_drop(Check *c, Order *o)
{
	seen_drop(c, o->seen);
	seen_drop(c, o->fenced);
	*o = (Order){0};
}

/* ---- a block ---- */

void
clocks_open(Check *c)
{
	c->agents = c->threads + COPY_AGENTS * c->blocks;
	c->thread = calloc((size_t)c->threads, sizeof *c->thread);
	if (!c->thread)
		die("no memory for the checks of a block");
}

void
clocks_begin(Check *c)
{
	Seen *s = seen_new(c);
	for (int i = 0; i < c->threads; i++)
		c->thread[i] = (CheckThread){.order.seen = seen_share(s), .clock = 1};
	seen_drop(c, s);
	c->met = 1;
	c->nobject = 0;
	c->copy_agents = 0;
}

void
clocks_end(Check *c)
{
	for (int i = 0; i < c->threads; i++)
		order_drop(c, &c->thread[i].order);
	for (int i = 0; i < c->nobject; i++) {
		order_drop(c, &c->object[i].open);
		order_drop(c, &c->object[i].done);
	}
	c->nobject = 0;
}

void
clocks_close(Check *c)
{
	for (Seen *s = c->unused, *next; s; s = next) {
		next = s->next;
		free(s);
	}
	free(c->thread);
	free(c->object);
}

/* ---- meeting ---- */

static CheckThread *
thread_of(Check *c, const SimtThread *t)
{
	return &c->thread[agent_of(c, t)];
}

/* All that these know, in an order of its own. */
static Order
join_all(Check *c, SimtThread *const *who, int n, uint32_t *latest)
{
	Order all = {0};
	const Order *last = NULL;
	for (int i = 0; i < n; i++) {
		const CheckThread *t = thread_of(c, who[i]);
		const Order *o = &t->order;
		if (!last || o->seen != last->seen || o->fenced != last->fenced || o->known != last->known)
			order_join(c, &all, o);
		last = o;
		*latest = MAX(*latest, t->clock);
	}
	uint32_t *at = seen_own(c, &all.seen)->at;
	for (int i = 0; i < n; i++)
		at[agent_of(c, who[i])] = thread_of(c, who[i])->clock;
	return all;
}

void
clocks_met(Check *c, SimtThread *const *who, int n)
{
	uint32_t latest = 0;
	Order all = join_all(c, who, n, &latest);
	for (int i = 0; i < n; i++) {
		CheckThread *t = thread_of(c, who[i]);
		Order o = {seen_share(all.seen), seen_share(all.fenced), all.known};
		order_drop(c, &t->order);
		t->order = o;
		t->clock = latest + 1;
	}
	if (n == c->threads)
		c->met = latest + 1;
	order_drop(c, &all);
}

Order
clocks_publish(Check *c, int agent)
{
	CheckThread *t = &c->thread[agent];
	seen_own(c, &t->order.seen)->at[agent] = t->clock++;
	return t->order;
}

CheckObject *
clocks_object(Check *c, uint64_t key)
{
	for (int i = 0; i < c->nobject; i++)
		if (c->object[i].key == key)
			return &c->object[i];
	if (c->nobject == c->object_room) {
		c->object_room = MAX(16, 2 * c->object_room);
		c->object = realloc(c->object, sizeof *c->object * (size_t)c->object_room);
		if (!c->object)
			die("no memory for the checks of a block");
	}
	c->object[c->nobject] = (CheckObject){.key = key, .phase = 1};
	return &c->object[c->nobject++];
}

/* Past the last agent mbarriers share one: what one of them counts is then known with the other's. */
int
clocks_copy_agent(Check *c, CheckObject *o, uint32_t *clock)
{
	if (!o->agent)
		o->agent = c->threads + MIN(c->copy_agents++, COPY_AGENTS * c->blocks - 1);
	if (!o->open.seen)
		o->open.seen = seen_new(c);
	seen_own(c, &o->open.seen)->at[o->agent] = o->phase;
	*clock = o->phase;
	return o->agent;
}
