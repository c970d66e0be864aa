/* One OS thread with the blocks that it runs together (one, or those of a cluster) and their fibers.  For scheduler.c,
 * block.c, barrier.c, machine.c, shown_tile.c and guard.c alone. */
#ifndef TEGULA_SIMT_SCHEDULER_H
#define TEGULA_SIMT_SCHEDULER_H

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>

#include "runtime/simt/fiber.h"
#include "runtime/simt/simt.h"

enum {
	SIMT_WARPS = 32,                                /* of a block at most */
	SIMT_CLUSTER = 16,                              /* blocks of a cluster at most */
	SIMT_BARRIERS = 16,
	SIMT_SLICE = 4096,                              /* iterations of loops until other fibers run */
	SIMT_SPIN = 400,                                /* what an iteration counts that lets others run at once */
};
#define SIMT_ITERATIONS INT64_C(500000000)                   /* of loops, if the launch says nothing */

typedef enum FiberState { FIBER_RUNS, FIBER_COLLECTIVE, FIBER_BARRIER, FIBER_WAITS, FIBER_ENDED } FiberState;

typedef struct Fiber {
	SimtThread t;                                   /* first: the one is found from the other */
	void *sp;
	int index;                                      /* among the scheduler's */
	FiberState state;
	const char *what;                               /* it waits at */
	int barrier;
	bool (*ready)(const void *user);
	const void *user;
	const uint64_t *in;                             /* of a collective */
	uint64_t *out;
	uint32_t cluster_phase;                         /* which it arrived in */
	bool cluster_arrived;
} Fiber;

/* A call that the lanes of a warp, or of a warpgroup, execute together. */
typedef struct Collective {
	const char *what;
	int site, n, first;                             /* of the first fiber; n: fibers that arrived */
} Collective;

typedef struct Warp {
	uint32_t ready, yielded;                        /* lanes that can run; that let others run first */
	uint32_t waiting;                               /* lanes in simt_wait */
	uint32_t arrived;                               /* lanes at the collective */
	uint32_t held;                                  /* lanes at the barrier */
	Collective collective;
	int barrier_site;                               /* of the lanes that are held */
} Warp;

typedef struct Barrier {
	int expected, arrived, waiting;
	int site, first;                                /* of the first that came */
	bool is_whole;
} Barrier;

typedef struct AtEnd {
	void (*done)(void *user);
	void *user;
} AtEnd;

typedef struct Local {
	const void *key;
	void *value;
} Local;

typedef struct BlockScheduler BlockScheduler;

struct SimtBlock {
	BlockScheduler *scheduler;
	int64_t index;
	int first, ended;                               /* its first fiber; threads whose kernel has ended */
	uint8_t *shared;
	Barrier barrier[SIMT_BARRIERS];
	VEC(Local) local;
	VEC(AtEnd) at_end;
	void *check;                                    /* see simt_check_slot */
	Arena *mem;                                     /* of the two lists */
};

/* A launch, over all workers. */
typedef struct Run {
	const SimtLaunch *launch;
	void *check;
	atomic_llong next, failed;                      /* the next cluster; the least block that failed */
	pthread_mutex_t lock;
	SimtReport *report;
	const Op **print;                               /* of the launch's func, from 1 on */
	struct Series **shown;                          /* tiles not yet whole, by a hash (shown_tile.c) */
} Run;

struct BlockScheduler {
	Run *run;
	const SimtLaunch *launch;
	uint64_t *param;                                /* launch->param with a FaultRecord of its own */
	FaultRecord *faults;                            /* NULL: the launch has none */
	int64_t asserted;                               /* the first block that wrote to it */
	Stacks stacks;
	Fiber *fiber;
	Warp *warp;
	Collective *group;                                 /* of warpgroups */
	int nfibers, nwarps, per_block, room;           /* room: fibers that there are stacks for */
	int ended;
	uint64_t ready[SIMT_CLUSTER * SIMT_WARPS / 64]; /* warps with lanes that can run */
	int current;                                    /* warp */
	Fiber *running;
	void *own;                                      /* where the OS thread goes on */
	uint64_t random;                                /* 0: in order */
	bool failed;
	SimtBlock block[SIMT_CLUSTER];
	int nblocks;
	uint8_t *shared;
	size_t shared_room, shared_step;
	int cluster_arrived;
	uint32_t cluster_phase;
	int64_t iterations;                                  /* of loops, of all fibers */
	SimtThread **released;                          /* room for the threads of one barrier */
	uintptr_t fault;                                /* guard.c: what was touched */
	char *signal_stack;
	stack_t signal_before;
	pthread_t os;
};

static inline Fiber *fiber_of(SimtThread *t) { return (Fiber *)t; }
static inline BlockScheduler *scheduler_of(const SimtThread *t) { return t->block->scheduler; }

/* shown_tile.c */

void shown_begin(Run *run);
void shown_end(Run *run);                               /* tiles that were never whole are dropped */

/* scheduler.c */

void scheduler_wake(BlockScheduler *w, int warp, uint32_t lanes);
void scheduler_start(BlockScheduler *w);                /* runs fibers until all have ended or the launch failed */
void scheduler_end(BlockScheduler *w, Fiber *f);        /* f has ended: runs others, does not return */
void scheduler_switch(BlockScheduler *w, Fiber *f);     /* runs others; returns when f runs again */
_Noreturn void scheduler_abort(BlockScheduler *w);      /* goes back to the OS thread's own stack */

/* block.c */

void scheduler_run(BlockScheduler *w, int64_t first);   /* the blocks of one cluster, until they end or fail */

/* barrier.c */

void barrier_report(BlockScheduler *w, Fiber *f, int *other, char *text, size_t size);

/* guard.c: the ends of stacks */

bool guard_enter(BlockScheduler *w);                    /* on this OS thread, until guard_leave */
void guard_leave(BlockScheduler *w);

#endif
