/* A crew: one OS thread with the blocks that it runs together (one, or those of a cluster) and their fibers.  For
 * block.c, barrier.c, machine.c and guard.c alone. */
#ifndef TEGULA_SIMT_BLOCK_H
#define TEGULA_SIMT_BLOCK_H

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>

#include "runtime/simt/fiber.h"
#include "runtime/simt/simt.h"

enum {
	SIMT_WARPS = 32,                                /* of a block at most */
	SIMT_CLUSTER = 16,                              /* blocks of a cluster at most */
	SIMT_BARRIERS = 16,
	SIMT_SLICE = 4096,                              /* turns of loops until others get theirs */
	SIMT_SPIN = 400,                                /* what a turn counts that lets others run at once */
};
#define SIMT_TURNS INT64_C(500000000)                   /* of loops, if the launch says nothing */

typedef enum FiberState { FIBER_RUNS, FIBER_MEETS, FIBER_BARRIER, FIBER_WAITS, FIBER_ENDED } FiberState;

typedef struct Fiber {
	SimtThread t;                                   /* first: the one is found from the other */
	void *sp;
	int index;                                      /* of the worker's */
	FiberState state;
	const char *what;                               /* that it is held up by */
	int barrier;
	bool (*ready)(const void *user);
	const void *user;
	const uint64_t *in;                             /* at a meeting */
	uint64_t *out;
	uint32_t cluster_phase;                         /* which it arrived in */
	bool cluster_arrived;
} Fiber;

/* A call that the lanes of a warp, or a warpgroup, reach together. */
typedef struct Meeting {
	const char *what;                               /* NULL: nobody is there */
	int site, n, first;                             /* first: the fiber that came first */
} Meeting;

typedef struct Warp {
	uint32_t ready, later;                          /* lanes that can run; that let others run first */
	uint32_t waiting;                               /* lanes in simt_wait */
	uint32_t met;                                   /* lanes at the meeting */
	uint32_t held;                                  /* lanes at the barrier */
	Meeting meeting;
	int barrier_site;                               /* of the lanes that are held */
} Warp;

typedef struct Barrier {
	int expected, arrived, waiting;
	int site, first;                                /* of the first that came */
	uint64_t round;
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

typedef struct Crew Crew;

struct SimtBlock {
	Crew *worker;
	int64_t index;
	int first;                                      /* its first fiber */
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
	struct Gathered *gathered;                      /* tiles on their way to a print (print_tile.c), oldest first */
} Run;

struct Crew {
	Run *run;
	const SimtLaunch *launch;
	Stacks stacks;
	Fiber *fiber;
	Warp *warp;
	Meeting *group;                                 /* of warpgroups */
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
	int64_t turns;                                  /* of loops, of all fibers */
	SimtThread **met;                               /* room for one list of fibers */
	uintptr_t fault;                                /* guard.c: what was touched */
	char *signal_stack;
	stack_t signal_before;
	pthread_t os;
};

static inline Fiber *fiber_of(SimtThread *t) { return (Fiber *)t; }
static inline Crew *crew_of(const SimtThread *t) { return t->block->worker; }

/* print_tile.c */

/* One element's bits, as the emitted code has them, into a tile as the interpreter holds it. */
void trace_put(const Type *t, char *data, int64_t at, uint64_t bits);
void traces_open(Run *run);
void traces_close(Run *run);                            /* tiles that were never whole are forgotten */

/* break_nan.c: what t holds of what an op with a print with {watch} was given and made */
void watch_take(SimtThread *t, const Op *print, const uint64_t *value);

/* block.c */

void crew_run(Crew *w, int64_t first);              /* the blocks of one cluster, until they end or fail */
void crew_let_run(Crew *w, int warp, uint32_t lanes);
void crew_leave(Crew *w, Fiber *f);                 /* runs others; returns when f is let run */
_Noreturn void crew_abandon(Crew *w);               /* goes back to the OS thread's own stack */

/* barrier.c */

const char *barrier_report(Crew *w, Fiber *f, int *other, char *text, size_t size);

/* machine.c */

void report_fill(Crew *w, const SimtThread *t, int other, const char *fmt, va_list ap);

/* guard.c: the ends of stacks */

bool guard_enter(Crew *w);                            /* on this OS thread, until guard_leave */
void guard_leave(Crew *w);

#endif
