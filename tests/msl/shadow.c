/* Memory as the checker sees it: for each grain of it (an element, for buffers; a byte, in threadgroup memory) who wrote
 * it last and who read it lately.  Every access of a kernel comes by, through the calls that ThreadSanitizer's
 * instrumentation puts before each one, or from the library's own (matrix loads, atomics).
 *
 * Who: the thread, and how many barriers had passed.  Two accesses, one of them a write, are a race if they are of
 * different threads with no barrier between them that orders such memory: threadgroup_barrier for all, simdgroup_barrier
 * for one simdgroup; nothing orders threadgroups among each other. */
#include <stdlib.h>
#include <string.h>

#include "tests/msl/msl.h"

typedef struct Grain {
	uint64_t writer, reader[2];
	uint32_t wrote, read[2];                        /* where in the text */
} Grain;

enum { WHO_ATOMIC_BIT = 31, WHO_EPOCH_BIT = 10, WHO_EPOCHS = 1 << 21 };

typedef struct Region {
	uint64_t at, size;
	int shift;                                      /* log2 of the bytes of a grain */
	Grain *grain;                                   /* NULL: memory that is only read */
	bool shared, unset, read_only;
	char name[72];
} Region;

typedef struct Shadow {
	Region region[MSL_BUFFERS + 2 * MSL_MAX_ARRAYS + 2];
	int n, last;
} Shadow;

/* ---- regions ---- */

static void
add_region(Shadow *s, uint64_t at, uint64_t size, int grain, const char *name)
{
	Region *g = &s->region[s->n++];
	g->at = at;
	g->size = size;
	for (g->shift = 0; 1 << (g->shift + 1) <= grain; g->shift++)
		;
	if (grain)
		g->grain = calloc((size >> g->shift) + 1, sizeof *g->grain);
	g->read_only = !grain;
	strncpy(g->name, name, sizeof g->name - 1);
}

Shadow *
msl_shadow_open(MslRun *r)
{
	Shadow *s = calloc(1, sizeof *s);
	const MslKernel *k = r->launch->kernel;
	for (int i = 0; i < k->nparam; i++) {
		const MslParam *p = &k->param[i];
		if (p->kind != MSL_POINTER && p->kind != MSL_REFERENCE)
			continue;
		const MslBuffer *b = &r->launch->buffer[p->index];
		if (!b->at)
			continue;
		add_region(s, (uint64_t)(uintptr_t)b->at, b->size, b->constant ? 0 : b->grain ? b->grain : 1, p->name);
		s->region[s->n - 1].unset = b->unset;
	}
	for (int i = 0; i < k->narray; i++) {
		add_region(s, (uint64_t)(uintptr_t)r->program->base + k->array[i].offset, k->array[i].size, 1,
		    k->array[i].name);
		s->region[s->n - 1].shared = true;
	}
	for (int i = 0; i < r->program->ntable; i++)
		add_region(s, (uint64_t)(uintptr_t)r->program->base + r->program->table[i].offset,
		    r->program->table[i].size, 0, r->program->table[i].name);
	if (r->program->constants_end)
		add_region(s, (uint64_t)(uintptr_t)r->program->base + r->program->constants,
		    r->program->constants_end - r->program->constants, 0, "constants");
	return s;
}


void
msl_shadow_add(Shadow *s, void *at, size_t size)
{
	add_region(s, (uint64_t)(uintptr_t)at, size, 1, "threadgroup(0)");
	s->region[s->n - 1].shared = true;
}

void
msl_shadow_close(Shadow *s)
{
	for (int i = 0; s && i < s->n; i++)
		free(s->region[i].grain);
	free(s);
}

static Region *
region_of(Shadow *s, uint64_t at)
{
	Region *g = &s->region[s->last];
	if (at - g->at < g->size)
		return g;
	for (int i = 0; i < s->n; i++)
		if (at - s->region[i].at < s->region[i].size) {
			s->last = i;
			return &s->region[i];
		}
	return NULL;
}

/* ---- lines ---- */

uint32_t
site_address(const MslRun *r, const void *pc)
{
	return (uint32_t)((const uint8_t *)pc - r->program->base) & 0x7fffffff;
}

uint32_t
site_line(int line)
{
	return (uint32_t)line | 0x80000000u;
}

static int
line_of(const MslRun *r, uint32_t site)
{
	return site & 0x80000000u ? (int)(site & 0x7fffffff) : msl_line(r->program, site);
}

/* ---- order ---- */

static uint64_t
who(const MslRun *r, bool shared, bool atomic)
{
	const MslThread *t = r->current;
	const MslSimd *s = &r->simd[t->index / MSL_LANES];
	uint64_t serial = shared ? r->shared_serial : r->device_serial;
	uint64_t epoch = (shared ? s->shared_epoch : s->device_epoch) & (WHO_EPOCHS - 1);
	return serial << 32 | (uint64_t)atomic << WHO_ATOMIC_BIT | epoch << WHO_EPOCH_BIT | (uint64_t)t->index;
}

#define SERIAL(w) ((uint32_t)((w) >> 32))
#define THREAD(w) ((int)((w) & 1023))
#define EPOCH(w) ((uint32_t)((w) >> WHO_EPOCH_BIT) & (WHO_EPOCHS - 1))
#define ATOMIC(w) ((w) >> WHO_ATOMIC_BIT & 1)

static bool
is_other_group(const MslRun *r, uint64_t w)
{
	return SERIAL(w) < r->group_device_serial;
}

/* Whether the earlier access and mine may come in either order. */
static bool
is_unordered(const MslRun *r, const Region *g, uint64_t then, uint64_t now)
{
	if (!then || (ATOMIC(then) && ATOMIC(now)))
		return false;
	if (!g->shared && is_other_group(r, then))
		return true;
	if (SERIAL(then) != SERIAL(now) || THREAD(then) == THREAD(now))
		return false;
	return THREAD(then) / MSL_LANES != THREAD(now) / MSL_LANES || EPOCH(then) == EPOCH(now);
}

static void
report_race(const MslRun *r, const Region *g, uint64_t offset, uint64_t then, uint32_t where, uint32_t site, bool wrote,
    bool writes)
{
	int line = line_of(r, site), other = line_of(r, where);
	const char *did = wrote ? "wrote" : "read";
	if (!g->shared && is_other_group(r, then))
		msl_report(r->reports, "race", line,
		    "threadgroup %d %s byte %llu of '%s', which another threadgroup %s (line %d): they may run in any order",
		    r->group, writes ? "writes" : "reads", (unsigned long long)offset, g->name, did, other);
	else
		msl_report(r->reports, "race", line,
		    "thread %d %s byte %llu of '%s', which thread %d %s (line %d) with no barrier between",
		    r->current->index,
		    writes ? "writes" : "reads", (unsigned long long)offset, g->name, THREAD(then), did, other);
}

/* ---- one access ---- */

static void
remember_read(const MslRun *r, const Region *g, Grain *n, uint64_t now, uint32_t site)
{
	if (n->reader[0] == now)
		return;
	bool same = THREAD(n->reader[0]) == THREAD(now) && SERIAL(n->reader[0]) == SERIAL(now);
	bool keep = !g->shared && n->reader[1] && is_other_group(r, n->reader[1]) && !is_other_group(r, n->reader[0]);
	if (!same && !keep) {
		n->reader[1] = n->reader[0];
		n->read[1] = n->read[0];
	}
	n->reader[0] = now;
	n->read[0] = site;
}

static void
visit(const MslRun *r, const Region *g, Grain *n, uint64_t offset, unsigned how, uint64_t now, uint32_t site)
{
	if (is_unordered(r, g, n->writer, now))
		report_race(r, g, offset, n->writer, n->wrote, site, true, how & ACCESS_WRITE);
	if (how & ACCESS_READ) {
		bool stale = g->shared ? SERIAL(n->writer) < r->group_shared_serial : g->unset && !n->writer;
		if (stale)
			msl_report(r->reports, "uninitialised", line_of(r, site),
			    "thread %d reads byte %llu of '%s', which nothing wrote", r->current->index,
			    (unsigned long long)offset, g->name);
	}
	if (how & ACCESS_WRITE) {
		for (int i = 0; i < 2; i++)
			if (is_unordered(r, g, n->reader[i], now))
				report_race(r, g, offset, n->reader[i], n->read[i], site, false, true);
		n->writer = now;
		n->wrote = site;
	} else
		remember_read(r, g, n, now, site);
}

static _Noreturn void
stray(const MslRun *r, const Shadow *s, uint64_t at, int bytes, unsigned how, uint32_t site)
{
	const Region *near = NULL;
	uint64_t least = 1 << 20;
	for (int i = 0; i < s->n; i++) {
		const Region *g = &s->region[i];
		uint64_t d = at < g->at ? g->at - at : at - g->at < g->size ? 0 : at - g->at - g->size;
		if (d < least) {
			least = d;
			near = g;
		}
	}
	const char *does = how & ACCESS_WRITE ? "writes" : "reads";
	if (near)
		msl_report(r->reports, "bounds", line_of(r, site),
		    "thread %d of threadgroup %d %s %d bytes at %lld of '%s', which has %llu",
		    r->current->index, r->group, does, bytes, (long long)(at - near->at), near->name,
		    (unsigned long long)near->size);
	else
		msl_report(r->reports, "bounds", line_of(r, site), "thread %d of threadgroup %d %s %d bytes of no buffer",
		    r->current->index, r->group, does, bytes);
	msl_abort();
}

void
msl_access(const void *pointer, int bytes, int align, unsigned how, uint32_t site)
{
	MslRun *r = msl_run;
	uint64_t at = (uint64_t)(uintptr_t)pointer;
	if (!r || !r->current)
		return;
	uint64_t stack = (uint64_t)(uintptr_t)r->stacks.base + (uint64_t)r->current->index * FIBER_STACK;
	if (at - stack < FIBER_STACK ||
	    at - (uint64_t)(uintptr_t)r < sizeof *r)
		return;
	if (at % (unsigned)align) {
		msl_report(r->reports, "alignment", line_of(r, site),
		    "thread %d %s %d bytes at an address that is a multiple of %d",
		    r->current->index, how & ACCESS_WRITE ? "writes" : "reads", bytes, (int)(at & -at));
		msl_abort();
	}
	Region *g = region_of(r->shadow, at);
	if (!g || at + (unsigned)bytes > g->at + g->size)
		stray(r, r->shadow, at, bytes, how, site);
	if (g->read_only) {
		if (how & ACCESS_WRITE)
			stray(r, r->shadow, at, bytes, how, site);
		return;
	}
	uint64_t now = who(r, g->shared, how & ACCESS_ATOMIC), from = at - g->at;
	for (uint64_t i = from >> g->shift, end = (from + (unsigned)bytes - 1) >> g->shift; i <= end; i++)
		visit(r, g, &g->grain[i], i << g->shift, how, now, site);
}

/* ---- what instrumentation calls ---- */

#define HOOK(name, bytes, align, how)                                                                                  \
	void name(void *at);                                                                                      \
	void name(void *at)                                                                                       \
	{                                                                                                               \
		msl_access(at, bytes, align, how, site_address(msl_run, (char *)__builtin_return_address(0) - 1));   \
	}
#define HOOKS(n)                                                                                                       \
	HOOK(__tsan_read##n, n, n, ACCESS_READ) HOOK(__tsan_write##n, n, n, ACCESS_WRITE)                               \
	HOOK(__tsan_unaligned_read##n, n, 1, ACCESS_READ) HOOK(__tsan_unaligned_write##n, n, 1, ACCESS_WRITE)
HOOKS(1) HOOKS(2) HOOKS(4) HOOKS(8) HOOKS(16)

void __tsan_init(void);
void __tsan_init(void) {}

#define RANGE(at, n, how)                                                                                              \
	if (n)                                                                                                          \
	msl_access(at, (int)(n), 1, how, site_address(msl_run, (char *)__builtin_return_address(0) - 1))

void *__tsan_memcpy(void *to, const void *from, size_t n);
void *__tsan_memmove(void *to, const void *from, size_t n);
void *__tsan_memset(void *to, int byte, size_t n);

void *
__tsan_memcpy(void *to, const void *from, size_t n)
{
	RANGE(from, n, ACCESS_READ);
	RANGE(to, n, ACCESS_WRITE);
	return memcpy(to, from, n);
}

void *
__tsan_memmove(void *to, const void *from, size_t n)
{
	RANGE(from, n, ACCESS_READ);
	RANGE(to, n, ACCESS_WRITE);
	return memmove(to, from, n);
}

void *
__tsan_memset(void *to, int byte, size_t n)
{
	RANGE(to, n, ACCESS_WRITE);
	return memset(to, byte, n);
}

void msl_read(void *to, const void *from, int bytes, int line);
void msl_write(void *to, const void *from, int bytes, int line);

void
msl_read(void *to, const void *from, int bytes, int line)
{
	msl_access(from, bytes, bytes, ACCESS_READ, site_line(line));
	memcpy(to, from, (size_t)bytes);
}

void
msl_write(void *to, const void *from, int bytes, int line)
{
	msl_access(to, bytes, bytes, ACCESS_WRITE, site_line(line));
	memcpy(to, from, (size_t)bytes);
}
