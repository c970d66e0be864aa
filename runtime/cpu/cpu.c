/* The cpu device: tile IR run by ir/interp, the programs of a grid spread over a pool of threads.
 *
 * The pool lives as long as the device.  A launch hands out the grid in chunks of consecutive
 * programs, in order; the calling thread works too, so that a device of one thread has no pool.
 * Each thread keeps its own scratch (a Worker) in the loaded kernel, made when it first takes a
 * chunk, so that repeated launches allocate nothing.
 *
 * A fault stops the handing out.  Chunks before the faulty one are already under way and run to
 * their end; of several faults that of the first chunk in the grid's order is reported.  So the
 * fault does not depend on the number of threads, unless programs race.  A sanitizing device runs
 * on one thread: a race is found by the last writer of an element, and is then reported the same way each time. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/cpu/follow.h"
#include "runtime/device.h"

enum {
	MAX_THREADS = 1024,
	CHUNKS_PER_THREAD = 16, /* enough that a slow program does not leave others idle */
	MAX_CHUNK = 256,        /* programs, so that a fault stops the rest soon */
};

typedef struct Job {
	Loaded *loaded;
	Shadow *shadow;
	const PlanArg *args;
	int64_t grid[MAX_AXES];
	int64_t total, chunk;
	int nthreads;         /* that may work: memory for scratch sets a limit */
	_Atomic int64_t next; /* first program not handed out */
	_Atomic bool stop;
	pthread_mutex_t lock; /* of the fault */
	int64_t fault_at;     /* the faulty chunk's first program; -1: none */
	Fault fault;
} Job;

typedef struct Pool Pool;

typedef struct PoolThread {
	Pool *pool;
	int id; /* 1 and up; 0 is the thread that launches */
	pthread_t thread;
} PoolThread;

struct Pool {
	pid_t process; /* whose threads they are */
	int nthreads; /* the launching one counts */
	PoolThread *thread;
	pthread_mutex_t lock;
	pthread_cond_t start, done;
	Job *job;
	unsigned turn; /* grows with each job */
	int busy;      /* pool threads still on this job */
	bool quit;
};

typedef struct CpuState {
	Pool pool;
	bool sanitize;
	uint64_t memory; /* bytes that this process may use; 0: not known */
	const DeviceHooks *hooks;
	Follow *follow; /* NULL: all programs run */
	pthread_mutex_t print_lock;
	char text[64];
} CpuState;

struct Loaded {
	Plan *plan;
	int nthreads;
	Worker **worker; /* per thread, NULL until needed */
};

/* ---- the pool ---- */

static void
job_fault(Job *job, int64_t first, const Fault *fault)
{
	pthread_mutex_lock(&job->lock);
	if (job->fault_at < 0 || first < job->fault_at) {
		job->fault_at = first;
		job->fault = *fault;
	}
	pthread_mutex_unlock(&job->lock);
	atomic_store(&job->stop, true);
}

static void
job_work(Job *job, int id)
{
	Worker **w = &job->loaded->worker[id];
	if (id >= job->nthreads)
		return;
	while (!atomic_load(&job->stop)) {
		int64_t first = atomic_fetch_add(&job->next, job->chunk);
		if (first >= job->total)
			return;
		Fault fault = {.place = NOWHERE, .other = NOWHERE};
		if (!*w && !(*w = worker_open(job->loaded->plan))) {
			fault.kind = FAULT_MEMORY;
			snprintf(fault.text, sizeof fault.text,
			    "no memory for a thread's tiles: one program needs %zu bytes",
			    plan_scratch_bytes(job->loaded->plan));
			job_fault(job, first, &fault);
			return;
		}
		int64_t count = MIN(job->chunk, job->total - first);
		if (!plan_run(job->loaded->plan, *w, job->shadow, job->args, job->grid, first,
			count, &fault))
			job_fault(job, first, &fault);
	}
}

static void *
thread_main(void *arg)
{
	PoolThread *t = arg;
	Pool *p = t->pool;
	unsigned seen = 0;
	pthread_mutex_lock(&p->lock);
	for (;;) {
		while (!p->quit && p->turn == seen)
			pthread_cond_wait(&p->start, &p->lock);
		if (p->quit)
			break;
		seen = p->turn;
		Job *job = p->job;
		pthread_mutex_unlock(&p->lock);
		job_work(job, t->id);
		pthread_mutex_lock(&p->lock);
		if (--p->busy == 0)
			pthread_cond_signal(&p->done);
	}
	pthread_mutex_unlock(&p->lock);
	return NULL;
}

static void pool_open(Pool *p, int nthreads);

/* A child of fork has none of its parent's threads, and locks as they were: it makes its own. */
static void
pool_follow_fork(Pool *p)
{
	PoolThread *parents = p->thread;
	if (p->process == getpid())
		return;
	p->turn = 0;
	p->busy = 0;
	pool_open(p, p->nthreads);
	free(parents);
}

static void
pool_run(Pool *p, Job *job)
{
	pool_follow_fork(p);
	bool alone = p->nthreads == 1 || job->total <= job->chunk;
	if (!alone) {
		pthread_mutex_lock(&p->lock);
		p->job = job;
		p->busy = p->nthreads - 1;
		p->turn++;
		pthread_cond_broadcast(&p->start);
		pthread_mutex_unlock(&p->lock);
	}
	job_work(job, 0);
	if (!alone) {
		pthread_mutex_lock(&p->lock);
		while (p->busy > 0)
			pthread_cond_wait(&p->done, &p->lock);
		pthread_mutex_unlock(&p->lock);
	}
}

static void
pool_close(Pool *p)
{
	if (p->process != getpid()) {
		free(p->thread);
		return;
	}
	pthread_mutex_lock(&p->lock);
	p->quit = true;
	pthread_cond_broadcast(&p->start);
	pthread_mutex_unlock(&p->lock);
	for (int i = 1; i < p->nthreads; i++)
		pthread_join(p->thread[i].thread, NULL);
	pthread_mutex_destroy(&p->lock);
	pthread_cond_destroy(&p->start);
	pthread_cond_destroy(&p->done);
	free(p->thread);
}

/* A machine that grants fewer threads than asked for still runs, with those. */
static void
pool_open(Pool *p, int nthreads)
{
	p->thread = memory_new((size_t)nthreads, sizeof *p->thread);
	p->process = getpid();
	pthread_mutex_init(&p->lock, NULL);
	pthread_cond_init(&p->start, NULL);
	pthread_cond_init(&p->done, NULL);
	for (p->nthreads = 1; p->nthreads < nthreads; p->nthreads++) {
		PoolThread *t = &p->thread[p->nthreads];
		t->pool = p;
		t->id = p->nthreads;
		if (!thread_start(&t->thread, thread_main, t))
			break;
	}
}

/* ---- the device ---- */

static int
processors(void)
{
	long n = sysconf(_SC_NPROCESSORS_ONLN);
	return n < 1 ? 1 : n > MAX_THREADS ? MAX_THREADS : (int)n;
}

static bool
cpu_probe(int index, DeviceProbe *out)
{
	*out = (DeviceProbe){0};
	out->info = (TglDeviceInfo){
	    .name = "cpu",
	    .text = "this machine's processors; the tile IR is interpreted",
	    .target = "cpu",
	    .threads = processors(),
	    .memory = device_host_memory(),
	    .available = true,
	};
	return index == 0;
}

static void
cpu_info(const Device *d, TglDeviceInfo *out)
{
	const CpuState *s = d->state;
	out->name = "cpu";
	out->target = "cpu";
	out->memory = s->memory;
	out->text = s->text;
	out->threads = s->pool.nthreads;
}

static bool
cpu_open(Device *d, int index, const TglDeviceOptions *opt, const DeviceHooks *hooks)
{
	if (index > 0)
		return device_fail(d, DEVICE_FAILED, "", "there is one, numbered 0");
	if (opt->threads < 0 || opt->threads > MAX_THREADS)
		return device_fail(d, DEVICE_FAILED, "", "it runs on 1 to 1024 threads");
	CpuState *s = memory_new(1, sizeof *s);
	pool_open(&s->pool, opt->threads ? opt->threads : processors());
	s->sanitize = opt->sanitize;
	d->watches = opt->break_nan;
	s->memory = device_host_memory();
	s->hooks = hooks;
	pthread_mutex_init(&s->print_lock, NULL);
	snprintf(s->text, sizeof s->text, "%d thread%s%s; the tile IR is interpreted",
	    s->pool.nthreads, s->pool.nthreads == 1 ? "" : "s", s->sanitize ? ", sanitizing" : "");
	d->state = s;
	return true;
}

static void
cpu_close(Device *d)
{
	CpuState *s = d->state;
	follow_close(s->follow);
	pool_close(&s->pool);
	pthread_mutex_destroy(&s->print_lock);
	free(s);
}

static void *
cpu_alloc(Device *d, size_t size)
{
	/* calloc leaves large blocks untouched until they are used; 64 more bytes make room to
	 * align, and the pointer to give back stands just before the block. */
	if (size > SIZE_MAX - 128)
		return NULL;
	char *p = calloc(1, size + 64 + sizeof(void *));
	if (!p)
		return NULL;
	uintptr_t at = ((uintptr_t)p + sizeof(void *) + 63) & ~(uintptr_t)63;
	((void **)at)[-1] = p;
	return (void *)at;
}

static void
cpu_free(Device *d, void *p, size_t size)
{
	if (p)
		free(((void **)p)[-1]);
}

static void
cpu_print(void *user, const char *line)
{
	CpuState *s = user;
	if (!s->hooks->print)
		return;
	pthread_mutex_lock(&s->print_lock);
	s->hooks->print(s->hooks->print_user, line);
	pthread_mutex_unlock(&s->print_lock);
}

static void
cpu_trace(void *user, const Op *op, const int64_t program[MAX_AXES], int out, const void *data)
{
	CpuState *s = user;
	const Value *v = &op->out[out];
	const Type *t = v->type;
	const Compile *cx = op->home->func->module->cx;
	TglTrace r = {.op = op_info[op->kind].text,
	    .name = v->name ? v->name : "",
	    .dtype = (int)t->elem,
	    .rank = t->rank,
	    .data = data};
	if (op->place.file >= 0) {
		r.file = cx->files.at[op->place.file].path;
		r.line = op->place.line;
		r.col = op->place.col;
	}
	memcpy(r.program, program, sizeof r.program);
	memcpy(r.dim, t->extent, sizeof r.dim);
	s->hooks->trace(s->hooks->trace_user, &r);
}

static void
cpu_unload(Device *d, Loaded *l)
{
	for (int i = 0; i < l->nthreads; i++)
		if (l->worker[i])
			worker_close(l->worker[i]);
	free(l->worker);
	plan_close(l->plan);
	free(l);
}

static Loaded *
cpu_load(Device *d, Func *f, const char **why)
{
	CpuState *s = d->state;
	PlanOptions opt = {.sanitize = s->sanitize, .print = cpu_print, .user = s};
	if (s->hooks->trace)
		opt.trace = cpu_trace;
	if (s->follow)
		opt = (PlanOptions){.ran = follow_step, .user = s->follow};
	Plan *plan = plan_open(f, &opt, why);
	if (!plan)
		return NULL;
	Loaded *l = memory_new(1, sizeof *l);
	*l = (Loaded){plan, s->pool.nthreads, memory_new((size_t)s->pool.nthreads, sizeof *l->worker)};
	return l;
}

/* How many threads the machine has memory for; 0, with a fault, if not even one. */
static int
threads_that_fit(const CpuState *s, const Plan *plan, Fault *fault)
{
	uint64_t all = s->memory, need = plan_scratch_bytes(plan);
	if (all == 0 || need <= all / (uint64_t)s->pool.nthreads)
		return s->pool.nthreads;
	if (need <= all)
		return (int)(all / need);
	fault->kind = FAULT_MEMORY;
	snprintf(fault->text, sizeof fault->text,
	    "one program's tiles take %llu bytes, and this machine has %llu",
	    (unsigned long long)need, (unsigned long long)all);
	return 0;
}

static bool
cpu_launch(
    Device *d, Loaded *l, const PlanArg *args, const int64_t grid[MAX_AXES], Fault *fault)
{
	CpuState *s = d->state;
	Job job = {.loaded = l, .args = args, .total = 1, .fault_at = -1};
	for (int i = 0; i < MAX_AXES; i++) {
		job.grid[i] = grid[i];
		job.total *= grid[i];
	}
	int64_t share = job.total / ((int64_t)s->pool.nthreads * CHUNKS_PER_THREAD);
	job.chunk = share < 1 ? 1 : share > MAX_CHUNK ? MAX_CHUNK : share;
	job.nthreads = threads_that_fit(s, l->plan, fault);
	if (job.nthreads == 0)
		return false;
	if (s->follow) {
		Worker *w = worker_open(l->plan);
		bool ok = w && follow_run(s->follow, l->plan, w, args, grid, job.total, fault);
		worker_close(w);
		return ok;
	}
	if (s->sanitize)
		job.nthreads = 1;
	pthread_mutex_init(&job.lock, NULL);
	if (s->sanitize)
		job.shadow = shadow_open(l->plan, args);
	if (job.total > 0)
		pool_run(&s->pool, &job);
	if (job.shadow)
		shadow_close(job.shadow);
	pthread_mutex_destroy(&job.lock);
	if (job.fault_at >= 0)
		*fault = job.fault;
	return job.fault_at < 0;
}

static void
cpu_follow(Device *d, int64_t programs, double seconds)
{
	((CpuState *)d->state)->follow = follow_open(programs, seconds);
}

static const Followed *
cpu_followed(const Device *d)
{
	return follow_result(((CpuState *)d->state)->follow);
}

const Device device_cpu = {
    .name = "cpu",
    .target = "cpu",
    .host = true,
    .probe = cpu_probe,
    .open = cpu_open,
    .close = cpu_close,
    .info = cpu_info,
    .alloc = cpu_alloc,
    .free = cpu_free,
    .copy_in = device_host_copy,
    .copy_out = device_host_copy,
    .load = cpu_load,
    .unload = cpu_unload,
    .launch = cpu_launch,
    .follow = cpu_follow,
    .followed = cpu_followed,
    .time_begin = device_host_time_begin,
    .time_end = device_host_time_end,
    .sync = device_host_sync,
};
