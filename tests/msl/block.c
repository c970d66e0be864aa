/* Threadgroups: one after another, the threads of each as fibers that run until they have to wait.
 *
 * Threads wait for each other at barriers (all of the group) and at simd functions and matrix operations (all lanes of
 * the simdgroup).  The last to arrive makes the others ready.  All must wait at the same line of the text; if no thread is
 * ready, one has returned or taken another branch, which Metal leaves undefined, and the group ends with a report. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/msl/msl.h"

enum { MEM_DEVICE = 1, MEM_THREADGROUP = 2 };

_Thread_local MslRun *msl_run;


_Noreturn void
msl_abort(void)
{
	MslRun *r = msl_run;
	r->aborted = true;
	fiber_switch(&r->stacks, &r->current->context, r->scheduler, -1, true);
	abort();
}

static void
wait_here(MslThread *t, MslState state)
{
	t->state = state;
	fiber_switch(&msl_run->stacks, &t->context, msl_run->scheduler, -1, false);
}

/* ---- convergence ---- */

static MslSimd *
simd_of(const MslThread *t)
{
	return &msl_run->simd[t->index / MSL_LANES];
}

static _Noreturn void
differ(const MslThread *t, const MslThread *other, const char *what, int line)
{
	msl_report(msl_run->reports, "divergence", line,
	    "thread %d is at %s here, while thread %d is at %s (line %d)", t->index,
	    what, other->index, other->what, other->line);
	msl_abort();
}

static bool
is_same_point(const MslThread *t, const char *what, uint32_t flags, int line)
{
	return t->line == line && t->flags == flags && (t->what == what || strcmp(t->what, what) == 0);
}

/* Arrives with the simdgroup's other lanes; true for the last one, which makes them ready. */
static bool
arrive_simd(const char *what, uint32_t flags, int line)
{
	MslThread *t = msl_run->current;
	MslSimd *s = simd_of(t);
	MslThread *lane = &msl_run->thread[t->index / MSL_LANES * MSL_LANES];
	t->what = what;
	t->line = line;
	t->flags = flags;
	for (int i = 0; i < s->lanes; i++)
		if (lane[i].state == AT_SIMD && !is_same_point(&lane[i], what, flags, line))
			differ(t, &lane[i], what, line);
	if (++s->arrived < s->lanes) {
		wait_here(t, AT_SIMD);
		return false;
	}
	s->arrived = 0;
	for (int i = 0; i < s->lanes; i++)
		lane[i].state = READY;
	return true;
}

const void *msl_converge(const char *what, const void *in, int bytes, uint32_t *lanes, int line);
void msl_shuffle(const char *what, const void *in, void *out, int bytes, int from, int line);
void msl_multiply(const char *what, const float *in, float *out, int line);
void msl_simdgroup_barrier(uint32_t flags, int line);
void msl_threadgroup_barrier(uint32_t flags, int line);

/* The lanes' values are in one of two slots in turn: no lane arrives at the operation after the next before all lanes have
 * read them. */
const void *
msl_converge(const char *what, const void *in, int bytes, uint32_t *lanes, int line)
{
	MslThread *t = msl_run->current;
	MslSimd *s = simd_of(t);
	int turn = s->turn;
	memcpy(s->held[turn][t->index % MSL_LANES], in, (size_t)bytes);
	if (arrive_simd(what, 0, line))
		s->turn ^= 1;
	*lanes = s->active;
	return s->held[turn];
}

void
msl_shuffle(const char *what, const void *in, void *out, int bytes, int from, int line)
{
	uint32_t lanes;
	const uint8_t *all = msl_converge(what, in, bytes, &lanes, line);
	if (from < 0 || from >= MSL_LANES || !(lanes >> from & 1)) {
		msl_report(msl_run->reports, "lane", line, "thread %d takes a value by %s from lane %d, which there is not",
		    msl_run->current->index, what, from);
		memset(out, 0xff, (size_t)bytes);
		return;
	}
	memcpy(out, all + MSL_MAX_BYTES * from, (size_t)bytes);
}

/* What the lanes hold becomes three matrices, and the result goes back to them. */
static void
multiply(const MslRun *r, uint8_t (*held)[MSL_MAX_BYTES], float (*made)[2])
{
	float a[64], b[64], c[64], in[6];
	for (int i = 0; i < MSL_LANES; i++) {
		memcpy(in, held[i], sizeof in);
		for (int e = 0; e < 2; e++) {
			a[r->fragment[i][e]] = in[e];
			b[r->fragment[i][e]] = in[2 + e];
			c[r->fragment[i][e]] = in[4 + e];
		}
	}
	for (int row = 0; row < 8; row++)
		for (int k = 0; k < 8; k++)
			for (int column = 0; column < 8; column++)
				c[8 * row + column] += a[8 * row + k] * b[8 * k + column];
	for (int i = 0; i < MSL_LANES; i++)
		for (int e = 0; e < 2; e++)
			made[i][e] = c[r->fragment[i][e]];
}

void
msl_multiply(const char *what, const float *in, float *out, int line)
{
	MslThread *t = msl_run->current;
	MslSimd *s = simd_of(t);
	int turn = s->turn;
	memcpy(s->held[turn][t->index % MSL_LANES], in, 6 * sizeof *in);
	if (s->lanes < MSL_LANES)
		msl_report(msl_run->reports, "lane", line, "%s in a simdgroup of %d threads", what, s->lanes);
	if (arrive_simd(what, 0, line)) {
		s->turn ^= 1;
		multiply(msl_run, s->held[turn], s->made[turn]);
	}
	memcpy(out, s->made[turn][t->index % MSL_LANES], 2 * sizeof *out);
}

void
msl_simdgroup_barrier(uint32_t flags, int line)
{
	MslSimd *s = simd_of(msl_run->current);
	if (!arrive_simd("simdgroup_barrier", flags, line))
		return;
	s->shared_epoch += (flags & MEM_THREADGROUP) != 0;
	s->device_epoch += (flags & MEM_DEVICE) != 0;
}

void
msl_threadgroup_barrier(uint32_t flags, int line)
{
	MslRun *r = msl_run;
	MslThread *t = r->current;
	t->what = "threadgroup_barrier";
	t->line = line;
	t->flags = flags;
	for (int i = 0; i < r->nthreads; i++)
		if (r->thread[i].state == AT_BARRIER && (r->thread[i].line != line || r->thread[i].flags != flags))
			differ(t, &r->thread[i], "threadgroup_barrier", line);
	if (++r->arrived < r->nthreads) {
		wait_here(t, AT_BARRIER);
		return;
	}
	r->arrived = 0;
	for (int i = 0; i < r->nthreads; i++)
		r->thread[i].state = READY;
	r->shared_serial += (flags & MEM_THREADGROUP) != 0;
	r->device_serial += (flags & MEM_DEVICE) != 0;
}

/* ---- queries ---- */

uint32_t msl_lane(void);
uint32_t msl_fragment_at(uint32_t lane, uint32_t e);
void msl_fail(const char *what, int line);

uint32_t msl_lane(void) { return (uint32_t)msl_run->current->index % MSL_LANES; }
uint32_t msl_fragment_at(uint32_t lane, uint32_t e) { return msl_run->fragment[lane & 31][e & 1]; }

void
msl_fail(const char *what, int line)
{
	msl_report(msl_run->reports, "library", line, "%s", what);
}

/* Apple's fragment, as its GPUs have had it so far; other layouts are its positions in a random order. */
static void
make_fragment(MslRun *r, int layout)
{
	uint8_t at[64];
	for (int i = 0; i < 64; i++) {
		int lane = i / 2, row = (lane / 4 & 4) + lane / 2 % 4, column = (lane / 4 & 2) * 2 + lane % 2 * 2 + i % 2;
		at[i] = (uint8_t)(row * 8 + column);
	}
	uint32_t seed = (uint32_t)layout * 2654435761u;
	for (int i = 63; layout && i > 0; i--) {
		seed = seed * 1664525u + 1013904223u;
		int j = (int)(seed >> 8) % (i + 1);
		uint8_t a = at[i];
		at[i] = at[j];
		at[j] = a;
	}
	memcpy(r->fragment, at, sizeof r->fragment);
}

/* ---- one group ---- */

static void
thread_main(void *arg)
{
	MslRun *r = arg;
	fiber_arrived(&r->stacks);
	r->entry(r->buffers, r->current->ids);
	r->current->state = DONE;
	fiber_switch(&r->stacks, &r->current->context, r->scheduler, -1, true);
	abort();
}

static void
put3(uint32_t *to, const int v[3])
{
	for (int i = 0; i < 3; i++)
		to[i] = (uint32_t)v[i];
}

static void
set_ids(MslThread *t, const MslLaunch *l, const int group[3])
{
	const int *n = l->threads;
	int at[3] = {t->index % n[0], t->index / n[0] % n[1], t->index / n[0] / n[1]}, grid[3], all[3];
	for (int i = 0; i < 3; i++) {
		grid[i] = group[i] * n[i] + at[i];
		all[i] = l->groups[i] * n[i];
	}
	put3(t->ids, grid);
	put3(t->ids + 3, group);
	put3(t->ids + 6, at);
	put3(t->ids + 9, n);
	put3(t->ids + 12, l->groups);
	put3(t->ids + 15, all);
	t->ids[18] = (uint32_t)t->index;
	t->ids[19] = (uint32_t)t->index % MSL_LANES;
	t->ids[20] = (uint32_t)t->index / MSL_LANES;
	t->ids[21] = (uint32_t)((n[0] * n[1] * n[2] + MSL_LANES - 1) / MSL_LANES);
	t->ids[22] = MSL_LANES;
}

static void
report_stuck(MslRun *r)
{
	const MslThread *waits = NULL, *other = NULL;
	int n = 0, done = 0;
	for (int i = 0; i < r->nthreads; i++) {
		const MslThread *t = &r->thread[i];
		if (t->state == DONE) {
			done++;
			continue;
		}
		if (!waits)
			waits = t;
		if (t->line == waits->line && strcmp(t->what, waits->what) == 0)
			n++;
		else if (!other)
			other = t;
	}
	if (other)
		msl_report(r->reports, "divergence", waits->line,
		    "%d of %d threads wait at %s for ever: thread %d is at %s (line %d)", n,
		    r->nthreads, waits->what, other->index, other->what, other->line);
	else
		msl_report(r->reports, "divergence", waits->line,
		    "%d of %d threads wait at %s for ever: %d have returned", n, r->nthreads,
		    waits->what, done);
}

static void
run_group(MslRun *r, const int group[3])
{
	const MslLaunch *l = r->launch;
	memset(r->simd, 0, sizeof r->simd);
	for (int i = 0; i < r->nthreads; i++) {
		MslThread *t = &r->thread[i];
		MslSimd *s = &r->simd[i / MSL_LANES];
		s->active |= 1u << i % MSL_LANES;
		s->lanes++;
		t->index = i;
		t->state = READY;
		set_ids(t, l, group);
		t->context = fiber_start(&r->stacks, i, thread_main, r);
	}
	r->arrived = 0;
	r->group_shared_serial = ++r->shared_serial;
	r->group_device_serial = ++r->device_serial;
	for (int left = 1; left && !r->aborted;) {
		bool moved = false;
		left = 0;
		for (int i = 0; i < r->nthreads && !r->aborted; i++) {
			MslThread *t = &r->thread[l->order ? r->nthreads - 1 - i : i];
			if (t->state == READY) {
				r->current = t;
				fiber_switch(&r->stacks, &r->scheduler, t->context, t->index, false);
				r->current = NULL;
				moved = true;
			}
			left += t->state != DONE;
		}
		if (left && !moved && !r->aborted) {
			report_stuck(r);
			r->aborted = true;
		}
	}
}

/* ---- the launch ---- */

/* The device's limits, before anything runs. */
static bool
check_limits(const MslLaunch *l, MslReports *out)
{
	const MslKernel *k = l->kernel;
	int threads = l->threads[0] * l->threads[1] * l->threads[2];
	uint64_t shared = (uint64_t)l->threadgroup_bytes;
	bool missing = false;
	for (int i = 0; i < k->narray; i++)
		shared = ((shared + 15) & ~15ull) + k->array[i].size;
	if (shared > MSL_MAX_SHARED)
		msl_report(out, "limit", k->line, "%llu bytes of threadgroup memory; there are %d",
		    (unsigned long long)shared, MSL_MAX_SHARED);
	bool many = threads < 1 || threads > MSL_MAX_THREADS, more = k->threads >= 0 && threads > k->threads;
	if (many)
		msl_report(out, "limit", k->line, "%d threads a threadgroup; there are at most %d", threads,
		    MSL_MAX_THREADS);
	else if (more)
		msl_report(out, "limit", k->line, "launched with %d threads, the kernel's attribute allows %d",
		    threads, k->threads);
	if (l->threadgroup_bytes % 16)
		msl_report(out, "limit", k->line, "%d bytes of threadgroup memory: not a multiple of 16",
		    l->threadgroup_bytes);
	for (int i = 0; i < k->nparam; i++) {
		const MslParam *p = &k->param[i];
		bool memory = p->kind == MSL_POINTER || p->kind == MSL_REFERENCE;
		if (memory && !l->buffer[p->index].at) {
			msl_report(out, "bounds", k->line, "nothing is bound to buffer %d, '%s'", p->index, p->name);
			missing = true;
		}
	}
	return shared <= MSL_MAX_SHARED && !many && !more && !missing && l->threadgroup_bytes % 16 == 0;
}

static void
poison_shared(const MslRun *r, void *dynamic)
{
	const MslKernel *k = r->launch->kernel;
	for (int i = 0; i < k->narray; i++)
		memset(r->program->base + k->array[i].offset, 0xff, k->array[i].size);
	if (dynamic)
		memset(dynamic, 0xff, (size_t)r->launch->threadgroup_bytes);
}

static void
run_groups(MslRun *r, void *dynamic)
{
	const MslLaunch *l = r->launch;
	int n = l->groups[0] * l->groups[1] * l->groups[2];
	for (int i = 0; i < n && !r->aborted; i++) {
		r->group = l->order ? n - 1 - i : i;
		int group[3] = {r->group % l->groups[0], r->group / l->groups[0] % l->groups[1],
		    r->group / l->groups[0] / l->groups[1]};
		poison_shared(r, dynamic);
		run_group(r, group);
	}
}

void
msl_launch(const MslProgram *p, const MslLaunch *l, MslReports *out)
{
	char symbol[160];
	if (!check_limits(l, out))
		return;
	MslRun *r = calloc(1, sizeof *r);
	void *dynamic = l->threadgroup_bytes ? aligned_alloc(64, ((size_t)l->threadgroup_bytes + 63) & ~(size_t)63) : NULL;
	snprintf(symbol, sizeof symbol, "msl_entry_%s", l->kernel->name);
	*(void **)&r->entry = dlsym(p->handle, symbol);
	r->program = p;
	r->launch = l;
	r->reports = out;
	r->nthreads = l->threads[0] * l->threads[1] * l->threads[2];
	for (int i = 0; i < MSL_BUFFERS; i++)
		r->buffers[i] = (uint64_t)(uintptr_t)l->buffer[i].at;
	r->buffers[MSL_BUFFERS] = (uint64_t)(uintptr_t)dynamic;
	make_fragment(r, l->layout);
	r->shadow = msl_shadow_open(r);
	if (dynamic)
		msl_shadow_add(r->shadow, dynamic, (size_t)l->threadgroup_bytes);
	msl_run = r;
	if (stacks_open(&r->stacks, r->nthreads))
		run_groups(r, dynamic);
	else
		msl_report(out, "machine", 0, "no memory for %d stacks", r->nthreads);
	msl_run = NULL;
	stacks_close(&r->stacks);
	msl_shadow_close(r->shadow);
	free(dynamic);
	free(r);
}
