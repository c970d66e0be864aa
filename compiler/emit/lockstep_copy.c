/* Asynchronous copies into shared memory on the lockstep machine.
 *
 * A real machine may finish one at any moment from its issue to the wait.  So both ends count as writes where races are
 * looked for, and in between the destination holds rubbish: whoever reads without waiting gets it, and whoever waits
 * for too few groups too. */
#include "emit/lockstep.h"

#include <stdlib.h>
#include <string.h>

enum { RUBBISH = 0xc9 };

typedef struct Pending {
	int thread, bytes;
	uint32_t group;                                 /* of its thread's commits */
	uint64_t to, given;
	const char *from;
} Pending;

struct Copies {
	Pending *at;
	int n, cap;
	uint32_t *group;                                /* commits so far, by thread */
};

struct Copies *
lockstep_copies_open(int threads)
{
	struct Copies *c = calloc(1, sizeof *c);
	if (!c || !(c->group = calloc((size_t)threads, sizeof *c->group)))
		die("no memory");
	return c;
}

void
lockstep_copies_close(struct Copies *c)
{
	free(c->at);
	free(c->group);
	free(c);
}

static bool
issue(Machine *m, const Ins *i, int t, int bytes)
{
	struct Copies *c = m->copies;
	Pending p = {.thread = t, .bytes = bytes, .group = c->group[t], .to = lockstep_at(m, i->in[0])[t],
		.from = (const char *)(uintptr_t)lockstep_at(m, i->in[1])[t], .given = lockstep_at(m, i->in[2])[t]};
	char *to = lockstep_shared(m, t, p.to, bytes, true);
	if (!to || (p.given && !lockstep_global(m, t, (uint64_t)(uintptr_t)p.from, (int)MIN(p.given, (uint64_t)bytes))))
		return false;
	if (p.to % (uint64_t)bytes || (p.given && (uintptr_t)p.from % (uintptr_t)bytes))
		return lockstep_fail(m, "thread %d: an address of a copy is not a multiple of %d", t, bytes);
	memset(to, RUBBISH, (size_t)bytes);
	if (c->n == c->cap) {
		c->cap = c->cap ? 2 * c->cap : 256;
		c->at = realloc(c->at, sizeof *c->at * (size_t)c->cap);
		if (!c->at)
			die("no memory");
	}
	c->at[c->n++] = p;
	return true;
}

static bool
finish(Machine *m, const Pending *p)
{
	char *to = lockstep_shared(m, p->thread, p->to, p->bytes, true);
	size_t given = (size_t)MIN(p->given, (uint64_t)p->bytes);
	if (!to)
		return false;
	memset(to, 0, (size_t)p->bytes);
	if (given)
		memcpy(to, p->from, given);
	return true;
}

/* All but the `left` latest groups of the active threads. */
static bool
wait(Machine *m, int64_t left)
{
	struct Copies *c = m->copies;
	int n = 0;
	for (int i = 0; i < c->n; i++) {
		const Pending *p = &c->at[i];
		bool done = m->active[p->thread] && (int64_t)p->group < (int64_t)c->group[p->thread] - left;
		if (done && !finish(m, p))
			return false;
		if (!done)
			c->at[n++] = *p;
	}
	c->n = n;
	return true;
}

bool
lockstep_copy(Machine *m, const Ins *i)
{
	if (i->sub == PRIM_CP_WAIT)
		return wait(m, i->imm[0]);
	for (int t = 0; t < m->s->threads; t++) {
		if (!m->active[t])
			continue;
		if (i->sub == PRIM_CP_COMMIT)
			m->copies->group[t]++;
		else if (!issue(m, i, t, i->sub == PRIM_CP_ASYNC_16 ? 16 : (int)i->imm[0]))
			return false;
	}
	return true;
}
