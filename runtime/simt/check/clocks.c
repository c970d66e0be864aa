/* Happens-before by vector clocks of a block's agents (see check.h), as in FastTrack (Flanagan and Freund, 2009), with two
 * variations that fit a GPU.
 *
 * Threads behind one barrier have one vector clock, shared until one of them acquires more; a thread's own entry stands
 * apart (CheckThread.clock) and is written into a copy when it is published.  And after a barrier of the whole block all
 * threads have one clock, `epoch`: whatever a thread did under a smaller one happens before everything, which is seen
 * without looking at any vector.  (In clusters of blocks nothing does.)
 *
 * The async proxy (bulk copies, matrix instructions of warpgroups) sees what threads wrote only behind a proxy fence, and
 * what it writes comes after their reads only behind one: `fenced` is the vector clock at the last fence on the way here.
 * A barrier orders no reads before it: on an H200 half of the words that threads read with conflicts between banks, and
 * use behind the barrier, were the next bulk copy's. */
#include "runtime/simt/check/check.h"

#include <stdlib.h>
#include <string.h>

/* Clocks compared at once: vectors are multiples of it. */
typedef uint32_t ClockStep __attribute__((vector_size(16), may_alias));

static int
vector_steps(const Check *c)
{
	return (c->agents + 3) / 4;
}

static size_t
clocks_bytes(const Check *c)
{
	return sizeof(ClockStep) * (size_t)vector_steps(c);
}

static VectorClock *
vector_take(Check *c)
{
	VectorClock *s = c->unused;
	if (s)
		c->unused = s->next;
	else if (!(s = malloc(sizeof *s + clocks_bytes(c))))
		die("no memory for the checks of a block");
	s->refs = 1;
	s->is_kept = false;
	s->next = NULL;
	return s;
}

/* Zeroed. */
static VectorClock *
vector_new(Check *c)
{
	VectorClock *s = vector_take(c);
	memset(s->at, 0, clocks_bytes(c));
	return s;
}

static void
vector_drop(Check *c, VectorClock *s)
{
	if (!s || s->is_kept || --s->refs > 0)
		return;
	s->next = c->unused;
	c->unused = s;
}

static VectorClock *
vector_share(VectorClock *s)
{
	if (s)
		s->refs++;
	return s;
}

/* Makes *s the caller's alone. */
static VectorClock *
vector_own(Check *c, VectorClock **s)
{
	if ((*s)->refs == 1 && !(*s)->is_kept)
		return *s;
	VectorClock *copy = vector_take(c);
	memcpy(copy->at, (*s)->at, clocks_bytes(c));
	vector_drop(c, *s);
	return *s = copy;
}

static void
joined_drop(Check *c, JoinedClock *j)
{
	vector_drop(c, j->to);
	vector_drop(c, j->from);
	vector_drop(c, j->both);
	*j = (JoinedClock){0};
}

static void
join_steps(Check *c, VectorClock *to, const VectorClock *from)
{
	ClockStep *at = (ClockStep *)to->at;
	const ClockStep *other = (const ClockStep *)from->at;
	for (int i = 0; i < vector_steps(c); i++) {
		ClockStep later = (ClockStep)(other[i] > at[i]);
		at[i] = (other[i] & later) | (at[i] & ~later);
	}
}

static void
vector_join(Check *c, VectorClock **to, VectorClock *from)
{
	if (!from || from == *to)
		return;
	if (!*to) {
		*to = vector_share(from);
		return;
	}
	JoinedClock *j = &c->joined[((uintptr_t)*to >> 4 ^ (uintptr_t)from >> 7) % LEN(c->joined)];
	if (j->to == *to && j->from == from) {
		*to = vector_share(j->both);
		vector_drop(c, j->to);                  /* which *to was */
		return;
	}
	bool kept = (*to)->refs > 1 && !(*to)->is_kept && !from->is_kept;
	if (kept) {
		joined_drop(c, j);
		*j = (JoinedClock){vector_share(*to), vector_share(from), NULL};
	}
	join_steps(c, vector_own(c, to), from);
	if (kept)
		j->both = vector_share(*to);
}

void
hb_join(Check *c, HappensBefore *to, const HappensBefore *from)
{
	vector_join(c, &to->vector, from->vector);
	vector_join(c, &to->fenced, from->fenced);
	to->acquired = acquired_join(c->launch, to->acquired, from->acquired);
}

void
hb_drop(Check *c, HappensBefore *o)
{
	vector_drop(c, o->vector);
	vector_drop(c, o->fenced);
	*o = (HappensBefore){0};
}

/* ---- a block ---- */

void
clocks_open(Check *c)
{
	c->agents = c->threads + COPY_AGENTS * c->blocks;
	c->thread = memory_new((size_t)c->threads, sizeof *c->thread);
}

void
clocks_begin(Check *c)
{
	VectorClock *s = vector_new(c);
	for (int i = 0; i < c->threads; i++)
		c->thread[i] = (CheckThread){.before.vector = vector_share(s), .clock = 1};
	vector_drop(c, s);
	c->epoch = 1;
	c->nobject = 0;
	c->copy_agents = 0;
}

void
clocks_end(Check *c)
{
	for (int i = 0; i < LEN(c->joined); i++)
		joined_drop(c, &c->joined[i]);
	for (int i = 0; i < c->threads; i++)
		hb_drop(c, &c->thread[i].before);
	for (int i = 0; i < c->nobject; i++) {
		hb_drop(c, &c->object[i].open);
		hb_drop(c, &c->object[i].done);
	}
	c->nobject = 0;
}

void
clocks_close(Check *c)
{
	for (VectorClock *s = c->unused, *next; s; s = next) {
		next = s->next;
		free(s);
	}
	free(c->thread);
	free(c->object);
}

/* ---- collective ---- */

static CheckThread *
thread_of(Check *c, const SimtThread *t)
{
	return &c->thread[agent_of(c, t)];
}

HappensBefore
clocks_join(Check *c, SimtThread *const *who, int n, uint32_t *latest)
{
	HappensBefore all = {0};
	const HappensBefore *last = NULL;
	for (int i = 0; i < n; i++) {
		const CheckThread *t = thread_of(c, who[i]);
		const HappensBefore *o = &t->before;
		if (!last || o->vector != last->vector || o->fenced != last->fenced || o->acquired != last->acquired)
			hb_join(c, &all, o);
		last = o;
		*latest = MAX(*latest, t->clock);
	}
	uint32_t *at = vector_own(c, &all.vector)->at;
	for (int i = 0; i < n; i++)
		at[agent_of(c, who[i])] = thread_of(c, who[i])->clock;
	return all;
}

void
clocks_barrier(Check *c, SimtThread *const *who, int n)
{
	uint32_t latest = 0;
	HappensBefore all = clocks_join(c, who, n, &latest);
	for (int i = 0; i < n; i++) {
		CheckThread *t = thread_of(c, who[i]);
		HappensBefore o = {vector_share(all.vector), vector_share(all.fenced), all.acquired};
		hb_drop(c, &t->before);
		t->before = o;
		t->clock = latest + 1;
	}
	if (n == c->threads)
		c->epoch = latest + 1;
	hb_drop(c, &all);
}

HappensBefore
clocks_publish(Check *c, int agent)
{
	CheckThread *t = &c->thread[agent];
	vector_own(c, &t->before.vector)->at[agent] = t->clock++;
	return t->before;
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

uint32_t
clocks_arrived(Check *c, int agent, uint64_t mbarrier)
{
	const VectorClock *v = clocks_object(c, mbarrier)->open.vector;
	return v ? v->at[agent] : 0;
}

/* Past the last agent mbarriers share one: a wait for either then orders what both count. */
int
clocks_copy_agent(Check *c, CheckObject *o, uint32_t *clock)
{
	if (!o->agent)
		o->agent = c->threads + MIN(c->copy_agents++, COPY_AGENTS * c->blocks - 1);
	if (!o->open.vector)
		o->open.vector = vector_new(c);
	vector_own(c, &o->open.vector)->at[o->agent] = o->phase;
	*clock = o->phase;
	return o->agent;
}
