/* Mbarriers: 8 bytes of shared memory that count arrivals and bytes of copies, phase after phase.
 *
 * A phase ends when the arrivals it was set up for have come and the bytes expected have been written; the next one begins
 * at once.  A wait names the parity of the phase whose end it waits for, so it goes on when the phase under way has the
 * other parity.  Copies that count for a phase land when all arrivals have come and a thread waits.
 *
 * A wait sees no more than the parity: one that comes when the phase that it is for and the next are over waits for a
 * third.  That is taken to be a mistake: each thread's waits at an mbarrier are for phases in order, the first one, of
 * parity 1, for the phase before the first.
 *
 * The state is kept here, by address; the 8 bytes hold a mark, so that code that writes over them is found out. */
#include <string.h>

#include "runtime/simt/prims.h"

enum { MOST = (1 << 20) - 1 };                          /* arrivals, and bytes, of a phase */

/* An arrival that comes when copies of its thread have landed. */
typedef struct Later {
	struct Later *next;
	SimtThread *thread;
	uint32_t begun;
} Later;

/* What those that arrived know of another mbarrier: so many of its phases are over, in the phases of this one that are over
 * and in the one under way. */
typedef struct Told {
	struct Told *next;
	Mbarrier *of;
	uint32_t over, open;
} Told;

struct Mbarrier {
	Mbarrier *next;
	uint32_t at;
	bool is_fenced;                                 /* the asynchronous proxy sees that it was set up */
	SimtThread *block;                              /* the thread of its block that set it up */
	uint8_t *mark;
	int64_t count, pending, bytes;                  /* arrivals of a phase; still to come; bytes to come */
	int64_t nlater;
	uint32_t phase;
	uint32_t *seen;                                 /* by thread: phases up to the last one that it waited for */
	uint32_t *known;                                /* or that others had waited for, whose arrivals it waited for */
	Told *told;
	Later *later;
	BulkCopy *copies, **last;
};

static uint64_t
mark_of(uint32_t at)
{
	return 0x6d62617272696572u ^ (uint64_t)at << 17;
}

static uint64_t
mark_at(const Mbarrier *m)
{
	uint64_t v;
	memcpy(&v, m->mark, sizeof v);
	return v;
}

static Mbarrier *
find(const Async *a, uint32_t at)
{
	return FIND_NEXT(is, a->mbarrier, is->next, is->at == at);
}

/* Its key for the checks. */
static uint64_t
key_of(const Mbarrier *m)
{
	return (uint64_t)m->block->cluster_rank << 32 | m->at;
}

static Mbarrier *
mbarrier_at(SimtThread *t, uint32_t at, const char *what)
{
	return simt_mbarrier_of(t, t, at, what);
}

Mbarrier *
simt_mbarrier_of(SimtThread *t, SimtThread *of, uint32_t at, const char *what)
{
	simt_shared_of(t, of, at, 8, SIMT_READ | SIMT_WRITE | SIMT_ATOMIC);
	Mbarrier *m = find(simt_async(of), at);
	if (!m)
		simt_fail(t, "%s: no mbarrier was set up at %u of shared memory", what, at);
	if (mark_at(m) != mark_of(at))
		simt_fail(t, "%s: something wrote over the mbarrier at %u of shared memory", what, at);
	return m;
}

/* ---- phases ---- */

static void
end_phase(Mbarrier *m)
{
	if (m->pending != 0 || m->bytes != 0)
		return;
	m->phase++;
	m->pending = m->count;
	for (Told *told = m->told; told; told = told->next)
		told->over = told->open;
	if (simt_launch(m->block)->checks)
		simt_check_phase(m->block, key_of(m));
}

static void
expect(SimtThread *t, Mbarrier *m, int64_t bytes)
{
	m->bytes += bytes;
	if (m->bytes > MOST || m->bytes < -MOST)
		simt_fail(t, "an mbarrier that expects %lld bytes; it counts up to %d", (long long)m->bytes, MOST);
}

static void
arrive(SimtThread *t, Mbarrier *m)
{
	if (m->pending == 0)
		simt_fail(t, "the mbarrier at %u was set up for %lld arrivals a phase, and one more comes", m->at,
		    (long long)m->count);
	m->pending--;
	end_phase(m);
}

static Told *
told_of(Async *a, Mbarrier *m, Mbarrier *of)
{
	Told *told = m->told;
	while (told && told->of != of)
		told = told->next;
	if (told)
		return told;
	told = NEW(a->mem, Told);
	*told = (Told){.next = m->told, .of = of};
	return m->told = told;
}

/* Who arrives tells those of its block who wait for that what it knows of the block's mbarriers. */
static void
tell(SimtThread *t, Mbarrier *m)
{
	Async *a = simt_async(t);
	for (Mbarrier *of = a == simt_async(m->block) ? a->mbarrier : NULL; of; of = of->next) {
		uint32_t known = MAX(of->seen[t->thread], of->known[t->thread]);
		if (known && of != m) {
			Told *told = told_of(a, m, of);
			told->open = MAX(told->open, known);
		}
	}
}

void
simt_mbarrier_arrive(SimtThread *t, Mbarrier *m, int64_t expects)
{
	tell(t, m);
	if (simt_launch(t)->checks)
		simt_check_arrive(t, key_of(m));
	expect(t, m, expects);
	arrive(t, m);
}

static void
land_first(Mbarrier *m)
{
	BulkCopy *c = m->copies;
	m->copies = c->next;
	if (!m->copies)
		m->last = &m->copies;
	simt_bulk_land(c, (int64_t)key_of(m));
	expect(c->by, m, -c->bytes);
	end_phase(m);
	Async *a = simt_async(m->block);
	c->next = a->spare_bulk;
	a->spare_bulk = c;
}

int64_t
simt_mbarrier_counting(SimtThread *t, uint32_t number)
{
	for (const Mbarrier *m = simt_async(t)->mbarrier; m; m = m->next)
		for (const Later *l = m->later; l; l = l->next)
			if (l->thread == t && number <= l->begun)
				return (int64_t)key_of(m);
	return -1;
}

/* What the thread has set up is seen by copies that begin from here on. */
void
simt_mbarrier_fence(SimtThread *t)
{
	for (Mbarrier *m = simt_async(t)->mbarrier; m; m = m->next)
		m->is_fenced = m->is_fenced || m->block == t;
}

void
simt_mbarrier_copy(Mbarrier *m, BulkCopy *c)
{
	if (simt_launch(m->block)->checks && !m->is_fenced)
		simt_fail(c->begun_by, "a bulk copy counts for the mbarrier at %u, which no fence follows", m->at);
	c->next = NULL;
	*m->last = c;
	m->last = &c->next;
	while (m->copies && simt_chance(simt_async(m->block)))
		land_first(m);
}

/* What goes on by itself happens, if nothing else is missing for the phase to end. */
static void
happen(Mbarrier *m)
{
	uint32_t phase = m->phase;
	while (m->phase == phase && m->later && m->pending <= m->nlater) {
		Later *first = m->later;
		m->later = first->next;
		m->nlater--;
		simt_copies_land(first->thread, first->begun, (int64_t)key_of(m));
		arrive(first->thread, m);
	}
	while (m->phase == phase && m->pending == 0 && m->copies)
		land_first(m);
}

/* ---- primitives ---- */

void
simt_mbarriers_spared(SimtThread *t, SimtThread *of, uint32_t offset, int bytes)
{
	for (const Mbarrier *m = simt_async(of)->mbarrier; m; m = m->next)
		if (offset < m->at + 8 && m->at < offset + (uint32_t)bytes)
			simt_fail(t, "thread %d writes over the mbarrier at %u", t->thread, m->at);
}

PRIMITIVE(simt_mbar_init)
{
	uint32_t at = (uint32_t)in[0], count = (uint32_t)in[1];
	Async *a = simt_async(t);
	Mbarrier *m = find(a, at);
	uint64_t mark = mark_of(at);
	if (at % 8)
		simt_fail(t, "mbar_init: the address %u is not a multiple of 8", at);
	if (count < 1 || count > MOST)
		simt_fail(t, "mbar_init for %u arrivals; it takes 1 to %d", count, MOST);
	uint8_t *bytes = simt_shared_at(t, at, 8, SIMT_WRITE);
	if (m && mark_at(m) == mark)
		simt_fail(t, "mbar_init: there is an mbarrier at %u already", at);
	if (!m) {
		m = NEW(a->mem, Mbarrier);
		m->next = a->mbarrier;
		a->mbarrier = m;
	}
	int n = simt_launch(t)->threads;
	*m = (Mbarrier){.next = m->next, .at = at, .block = t, .mark = bytes, .count = count,
		.pending = count, .last = &m->copies,
		.seen = NEW_ARRAY(a->mem, uint32_t, n), .known = NEW_ARRAY(a->mem, uint32_t, n)};
	memcpy(bytes, &mark, sizeof mark);
}

PRIMITIVE(simt_mbar_arrive)
{
	simt_mbarrier_arrive(t, mbarrier_at(t, (uint32_t)in[0], "mbar_arrive"), 0);
}

PRIMITIVE(simt_mbar_expect)
{
	simt_mbarrier_arrive(t, mbarrier_at(t, (uint32_t)in[0], "mbar_expect"), (uint32_t)in[1]);
}

PRIMITIVE(simt_cp_arrive)
{
	Async *a = simt_async(t);
	Mbarrier *m = mbarrier_at(t, (uint32_t)in[0], "cp_arrive");
	Later *later = NEW(a->mem, Later);
	Later **link = &m->later;
	if (simt_launch(t)->checks)
		simt_check_arrive(t, key_of(m));
	while (*link)
		link = &(*link)->next;
	*later = (Later){.thread = t, .begun = simt_async_of(a, t)->begun};
	*link = later;
	m->nlater++;
	if (m->nlater > m->pending)
		simt_fail(t, "the mbarrier at %u was set up for %lld arrivals a phase, and one more comes", m->at,
		    (long long)m->count);
}

/* The phase that a wait of that parity is for, as far as the thread's own waits say, and those of others that are known to
 * it by arrivals; -1: that before the first.  Groups that take turns wait for some of the phases alone. */
static int64_t
phase_meant(const Mbarrier *m, const SimtThread *t, uint32_t parity)
{
	int64_t seen = m->seen[t->thread], known = m->known[t->thread];
	int64_t own = seen == 0 && parity == 1 ? -1 : seen + ((seen & 1) != parity);
	return known ? MAX(own, known - ((known & 1) != parity)) : own;
}

typedef struct Wait {
	SimtThread *thread;
	Mbarrier *m;
	uint32_t parity;
	const char *what;
	int64_t meant;
	int *asked;
} Wait;

static bool
is_lapped(const Wait *w)
{
	return (w->m->phase & 1) == w->parity && w->m->phase > w->meant + 1;
}

static bool
is_over(const void *user)
{
	const Wait *w = user;
	if ((w->m->phase & 1) == w->parity)
		happen(w->m);
	return (w->m->phase & 1) != w->parity;
}

static Wait
wait_of(SimtThread *t, const uint64_t *in, const char *what)
{
	if (in[1] > 1)
		simt_fail(t, "%s: a phase's parity is 0 or 1, not %u", what, (uint32_t)in[1]);
	Mbarrier *m = mbarrier_at(t, (uint32_t)in[0], what);
	return (Wait){t, m, (uint32_t)in[1], what, phase_meant(m, t, (uint32_t)in[1]), NULL};
}

static void
see(const Wait *w)
{
	w->m->seen[w->thread->thread] = (uint32_t)(w->meant + 1);
	for (const Told *told = w->m->told; told; told = told->next) {
		uint32_t *known = &told->of->known[w->thread->thread];
		*known = MAX(*known, told->over);
	}
	if (simt_launch(w->thread)->checks)
		simt_check_wait(w->thread, key_of(w->m));
}

static bool
is_over_or_lapped(const void *user)
{
	return is_lapped(user) || is_over(user);
}

PRIMITIVE(simt_mbar_wait)
{
	Wait w = wait_of(t, in, "mbar_wait");
	simt_wait(t, w.what, is_over_or_lapped, &w);
	if (is_lapped(&w))
		simt_fail(t, "mbar_wait: thread %d is for phase %lld of the mbarrier at %u, and phase %u of the same "
			     "parity is under way", t->thread, (long long)w.meant, w.m->at, w.m->phase);
	see(&w);
}

/* Has the others run once before the answer is no. */
static bool
asked_twice(const void *user)
{
	const Wait *w = user;
	return is_over(w) || (*w->asked)++ > 0;
}

PRIMITIVE(simt_mbar_poll)
{
	Wait w = wait_of(t, in, "mbar_poll");
	int asked = 0;
	w.asked = &asked;
	simt_wait(t, w.what, asked_twice, &w);
	out[0] = is_over(&w);
	if (out[0])
		see(&w);
}
