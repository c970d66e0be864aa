/* A launch: blocks are dealt to OS threads, each with fibers of its own.
 *
 * Blocks begin in order.  When one fails, those before it go on to their end, so that the report is that of the first
 * block in whose order the fault lies, however many OS threads there are; later ones stop.  An assert that does not hold
 * ends nothing: each OS thread has a FaultRecord of its own, and that of the first block is the launch's. */
#include "runtime/simt/scheduler.h"

#include "ir/interp/interp.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

_Static_assert(offsetof(SimtThread, shared) == SIMT_FIELD_SHARED && offsetof(SimtThread, thread) == SIMT_FIELD_THREAD &&
    offsetof(SimtThread, lane) == SIMT_FIELD_LANE && offsetof(SimtThread, block_index) == SIMT_FIELD_BLOCK &&
    offsetof(SimtThread, nblocks) == SIMT_FIELD_NBLOCKS && offsetof(SimtThread, cluster_rank) == SIMT_FIELD_CLUSTER_RANK &&
    offsetof(SimtThread, site) == SIMT_FIELD_SITE && offsetof(SimtThread, steps) == SIMT_FIELD_STEPS,
    "as compiled code has it");

enum { SHARED_UNIT = 4096 };

struct SimtMachine {
	BlockScheduler worker[SIMT_WORKERS];
};

/* ---- of a thread while it runs ---- */

const SimtLaunch *
simt_launch(const SimtThread *t)
{
	return scheduler_of(t)->launch;
}

void *
simt_check_state(const SimtThread *t)
{
	return scheduler_of(t)->run->check;
}

SimtThread *
simt_thread_of(SimtBlock *b, int thread)
{
	return &b->scheduler->fiber[b->first + thread].t;
}

void **
simt_check_slot(SimtBlock *b)
{
	return &b->check;
}

/* ---- reports ---- */

static _Noreturn void
fail(SimtThread *t, FaultKind kind, int other, const char *fmt, va_list ap)
{
	BlockScheduler *w = scheduler_of(t);
	Run *run = w->run;
	long long block = t->block->index;
	pthread_mutex_lock(&run->lock);
	if (block < atomic_load(&run->failed)) {
		atomic_store(&run->failed, block);
		*run->report = (SimtReport){.failed = true, .kind = kind, .place = simt_site_place(w->launch, t->site),
		    .other = simt_site_place(w->launch, other), .block = block, .thread = t->thread};
		number_vformat(run->report->text, sizeof run->report->text, fmt, ap);
	}
	pthread_mutex_unlock(&run->lock);
	w->failed = true;
	scheduler_abort(w);
}

void
simt_fail(SimtThread *t, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	fail(t, FAULT_KERNEL, 0, fmt, ap);
}

void
simt_fail_at(SimtThread *t, int other, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	fail(t, FAULT_KERNEL, other, fmt, ap);
}

void
simt_fail_as(SimtThread *t, FaultKind kind, int other, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	fail(t, kind, other, fmt, ap);
}

/* ---- workers ---- */

static int
cluster_of(const SimtLaunch *l)
{
	return MAX(l->cluster, 1);
}

static bool
room_for(BlockScheduler *w, int n)
{
	if (n <= w->room)
		return true;
	stacks_close(&w->stacks);
	free(w->fiber);
	free(w->warp);
	free(w->group);
	free(w->released);
	w->fiber = calloc((size_t)n, sizeof *w->fiber);
	w->warp = calloc((size_t)n / SIMT_LANES + 1, sizeof *w->warp);
	w->group = calloc((size_t)n / SIMT_LANES / 4 + 1, sizeof *w->group);
	w->released = calloc((size_t)n, sizeof *w->released);
	w->room = w->fiber && w->warp && w->group && w->released && stacks_open(&w->stacks, n) ? n : 0;
	return w->room != 0;
}

static void
own_faults(BlockScheduler *w)
{
	const SimtLaunch *l = w->launch;
	free(w->param);
	w->param = NULL;
	w->asserted = INT64_MAX;
	if (!w->faults)
		return;
	w->param = memory_new((size_t)l->nabi, sizeof *w->param);
	for (int i = 0; i < l->nabi; i++)
		w->param[i] = l->abi[i].kind == ABI_FAULTS ? (uint64_t)(uintptr_t)w->faults : l->param[i];
}

static bool
scheduler_prepare(BlockScheduler *w, Run *run)
{
	const SimtLaunch *l = run->launch;
	w->run = run;
	w->launch = l;
	w->failed = false;
	w->running = NULL;
	w->per_block = l->threads;
	w->nblocks = cluster_of(l);
	w->nfibers = l->threads * w->nblocks;
	w->nwarps = w->nfibers / SIMT_LANES;
	w->shared_step = ((size_t)l->shared_bytes + SHARED_UNIT) / SHARED_UNIT * SHARED_UNIT;
	size_t need = w->shared_step * (size_t)w->nblocks;
	if (need > w->shared_room) {
		free(w->shared);
		w->shared = aligned_alloc(SHARED_UNIT, need);
		w->shared_room = w->shared ? need : 0;
	}
	for (int i = 0; i < w->nblocks; i++)
		if (!w->block[i].mem)
			w->block[i].mem = arena_open();
	own_faults(w);
	return w->shared && room_for(w, w->nfibers) && guard_enter(w);
}

static void
scheduler_close(BlockScheduler *w)
{
	stacks_close(&w->stacks);
	free(w->fiber);
	free(w->warp);
	free(w->group);
	free(w->released);
	free(w->shared);
	free(w->signal_stack);
	free(w->param);
	for (int i = 0; i < SIMT_CLUSTER; i++)
		if (w->block[i].mem)
			arena_close(w->block[i].mem);
}

static void
no_memory(Run *run)
{
	pthread_mutex_lock(&run->lock);
	if (!run->report->failed)
		*run->report = (SimtReport){.failed = true, .kind = FAULT_MEMORY, .place = NOWHERE, .other = NOWHERE,
		    .text = "no memory for the threads of a block"};
	atomic_store(&run->failed, -1);
	pthread_mutex_unlock(&run->lock);
}

/* Blocks that are run, whole clusters. */
static int64_t
blocks_run(const SimtLaunch *l)
{
	int64_t cluster = cluster_of(l), some = (l->sample + cluster - 1) / cluster * cluster;
	return some > 0 && some < l->nblocks ? some : l->nblocks;
}

/* The first block of the cluster that stands at place n among those that are run. */
static long long
block_at(const SimtLaunch *l, long long n)
{
	int64_t cluster = cluster_of(l), clusters = l->nblocks / cluster, some = blocks_run(l) / cluster;
	return n / cluster * (clusters / some) * cluster + n / cluster * (clusters % some) / some * cluster;
}

static void *
work(void *arg)
{
	BlockScheduler *w = arg;
	Run *run = w->run;
	if (!scheduler_prepare(w, run)) {
		no_memory(run);
		return NULL;
	}
	while (!w->failed) {
		long long next = atomic_fetch_add(&run->next, w->nblocks), first = block_at(run->launch, next);
		if (next >= blocks_run(run->launch) || first >= atomic_load(&run->failed))
			break;
		scheduler_run(w, first);
		if (w->faults && w->faults->number && w->asserted == INT64_MAX)
			w->asserted = first;
	}
	guard_leave(w);
	return NULL;
}

/* ---- launches ---- */

static bool
refuse(SimtReport *r, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	*r = (SimtReport){.failed = true, .kind = FAULT_KERNEL, .place = NOWHERE, .other = NOWHERE};
	number_vformat(r->text, sizeof r->text, fmt, ap);
	va_end(ap);
	return false;
}

static bool
fits(const SimtLaunch *l, SimtReport *r)
{
	const Target *t = l->target;
	if (l->threads > MIN(t->max_threads, SIMT_WARPS * SIMT_LANES))
		return refuse(
		    r, "the kernel has %d threads a block; %s has %d at most", l->threads, t->name, t->max_threads);
	if (l->threads <= 0 || l->threads % SIMT_LANES)
		return refuse(
		    r, "the kernel has %d threads a block; the emulator runs whole warps of %d", l->threads, SIMT_LANES);
	if (l->shared_bytes > t->shared_bytes)
		return refuse(r, "the kernel needs %d bytes of shared memory a block; %s has %d", l->shared_bytes, t->name,
		    t->shared_bytes);
	if (cluster_of(l) > SIMT_CLUSTER || l->nblocks % cluster_of(l))
		return refuse(r, "%lld blocks can't be run in clusters of %d", (long long)l->nblocks, l->cluster);
	return true;
}

static int
workers_for(const SimtLaunch *l)
{
	int64_t clusters = blocks_run(l) / cluster_of(l), n = l->workers ? l->workers : sysconf(_SC_NPROCESSORS_ONLN);
	return (int)MAX(MIN(MIN(n, SIMT_WORKERS), clusters), 1);
}

/* To faults[0]: what the first block found. */
static void
first_faults(const SimtMachine *m, int n, FaultRecord *faults)
{
	int least = 0;
	for (int i = 1; faults && i < n; i++)
		if (m->worker[i].asserted < m->worker[least].asserted)
			least = i;
	if (least)
		faults[0] = faults[least];
}

bool
simt_run(SimtMachine *m, const SimtLaunch *l, SimtReport *report)
{
	*report = (SimtReport){.place = NOWHERE, .other = NOWHERE};
	if (!fits(l, report))
		return false;
	Run run = {.launch = l, .failed = INT64_MAX, .report = report};
	int n = workers_for(l), started = 1;
	pthread_mutex_init(&run.lock, NULL);
	if (l->checks)
		run.check = simt_check_open(l);
	shown_begin(&run);
	for (int i = 0; i < n; i++) {
		m->worker[i].run = &run;
		m->worker[i].faults = l->faults ? &l->faults[i] : NULL;
	}
	while (started < n && thread_start(&m->worker[started].os, work, &m->worker[started]))
		started++;
	work(&m->worker[0]);
	for (int i = 1; i < started; i++)
		pthread_join(m->worker[i].os, NULL);
	first_faults(m, started, l->faults);
	if (l->checks)
		simt_check_close(run.check);
	shown_end(&run);
	pthread_mutex_destroy(&run.lock);
	return !report->failed;
}

SimtMachine *
simt_open(void)
{
	return calloc(1, sizeof(SimtMachine));
}

void
simt_close(SimtMachine *m)
{
	if (!m)
		return;
	for (int i = 0; i < SIMT_WORKERS; i++)
		scheduler_close(&m->worker[i]);
	free(m);
}

/* ---- printing ---- */

/* One value as "%…d" and the like want it; returns past the letter. */
static const char *
print_value(Text *line, const char *p, uint64_t v, int type)
{
	double d;
	const char *from = p;
	while (!strchr("gduxs", *++p))
		;
	if (*p == 'g') { /* "%.17g": as many digits as the type has, of which the cpu device shows those that matter */
		int digits = from[1] == '.' ? atoi(from + 2) : 9;
		memcpy(&d, &v, sizeof d);
		float_format(digits == 17 ? TY_F64 : digits == 9 ? TY_F32 : TY_F16, d, line);
	} else if (*p == 's') {
		text_put(line, v & 1 ? "true" : "false");
	} else if (*p == 'd') {
		text_printf(line, "%lld", type == REG_I32 ? (long long)(int32_t)v : (long long)v);
	} else {
		text_printf(line, *p == 'x' ? "%llx" : "%llu", (unsigned long long)v);
	}
	return p;
}

void
simt_print(SimtThread *t, const char *format, const uint64_t *value, const int *type, int n)
{
	const SimtLaunch *l = simt_launch(t);
	Run *run = scheduler_of(t)->run;
	Text line = {0};
	int next = 0;
	for (const char *p = format; *p; p++) {
		if (*p == '%' && p[1] != '%' && next < n) {
			p = print_value(&line, p, value[next], type[next]);
			next++;
			continue;
		}
		text_putn(&line, p, 1);
		p += *p == '%';
	}
	if (line.n && line.at[line.n - 1] == '\n')
		line.at[--line.n] = 0;
	pthread_mutex_lock(&run->lock);
	if (l->print)
		l->print(l->print_user, line.at ? line.at : "");
	pthread_mutex_unlock(&run->lock);
	text_close(&line);
}
