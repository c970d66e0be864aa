/* What the checks of the emulator share: happens-before by vector clocks (clocks.c) and, between blocks, by releases and
 * acquires (acquire.c); shadow memory of shared (shared.c) and global memory (global.c); what accesses cost (costs.c); and
 * the findings (report.c, describe.c).  access.c is the door.
 *
 * Everything of a cluster's blocks (most often of one block) belongs to the OS thread that runs them and takes no lock.
 * What clusters share (memory, releases, findings) belongs to the launch. */
#ifndef TEGULA_SIMT_CHECK_H
#define TEGULA_SIMT_CHECK_H

#include <pthread.h>

#include "runtime/simt/simt.h"

enum {
	COPY_AGENTS = 64,                               /* mbarriers that count copies, of one block */
	SINK_BYTES = 1 << 16,                           /* where strays are sent; longer ones end the launch */
};

/* ---- clocks.c ----
 *
 * Agents are the threads of a cluster's blocks (block r's from r * T on) and mbarriers with the copies that they count.
 * An agent's accesses carry its clock, which advances when its accesses are published.  A vector clock says of every agent
 * up to which clock its accesses happen before what is done now.  What is in flight and not waited for happens before
 * nothing (shared.c). */
typedef struct VectorClock {
	int refs;
	bool is_kept;                                   /* by a release: it lives as long as the launch */
	struct VectorClock *next;                       /* among the unused or the kept ones */
	uint32_t at[];
} VectorClock;

/* A shared vector, which nothing changes, joined to another: lanes that wait for the same have one result. */
typedef struct JoinedClock {
	VectorClock *to, *from, *both;
} JoinedClock;

/* What a thread acquired from other blocks through atomics: a graph, read when accesses of two blocks conflict. */
typedef struct Acquired Acquired;

/* What happens before a thread's next access. */
typedef struct HappensBefore {
	VectorClock *vector;
	VectorClock *fenced;                            /* the part that the async proxy sees; NULL: nothing */
	const Acquired *acquired;
} HappensBefore;

typedef struct CheckThread {
	HappensBefore before;                           /* its own entries are not kept up: see clock */
	uint32_t clock;                                 /* of what it does now */
	uint32_t record;                                /* its last write: most often the next one's too */
} CheckThread;

/* Something that threads arrive at and others wait for: an mbarrier, a named barrier. */
typedef struct CheckObject {
	uint64_t key;
	HappensBefore open, done;                               /* of the phase under way; of the one before */
	int agent;                                      /* of the copies that it counts; 0: none */
	uint32_t phase;
	bool has_phases;
} CheckObject;

typedef struct Record Record;
typedef struct Cell Cell;
typedef struct CheckLaunch CheckLaunch;
typedef struct Costs Costs;

/* A write over one of the same instruction: a race unless it writes the same value. */
typedef struct SameValue {
	const uint8_t *at;                              /* NULL: there is none */
	uint8_t before[16];
	int n;
	int agent, other, site;
	uint32_t offset;                                /* among the cells */
} SameValue;

typedef struct Check {
	CheckLaunch *launch;
	SimtBlock *block;                               /* the cluster's first */
	int blocks, per_block;                          /* of the cluster; threads of a block */
	int threads, agents;                            /* of all its blocks */
	uint32_t epoch;                                 /* clocks below it happen before everything that threads do now */
	CheckThread *thread;
	VectorClock *unused;
	JoinedClock joined[8];                          /* by their operands, where one was lately */
	CheckObject *object;
	int nobject, object_room;
	int copy_agents;                                /* given out */
	/* shared.c */
	Cell *cell;                                     /* of each byte, or of a word that is not split (cell_at) */
	uint8_t *split;                                 /* of each word: 1 if its bytes' cells differ */
	uint8_t *defined;                               /* of each byte: 1 once it was written */
	uint32_t shared_bytes, step;                    /* of a block; cells from one block's to the next one's */
	Record *record;                                 /* number `floor` and on; `next` is free */
	uint32_t floor, next, record_room;
	bool has_bulk;                                  /* something of the async proxy's was there */
	uint32_t *hint;                                 /* records by their contents, where one was lately */
	struct KnownList *known;                        /* lists by what made them of which, the same */
	SameValue same_value;
	const SimtRange *range;                         /* of global memory, where the last access was */
	Costs *costs;                                   /* NULL: they are not asked for */
	struct Writer *writer;                          /* of each cell; the same */
	bool is_ended;                                  /* there is no thread any more that could fail */
	struct Check *next_check;
	_Alignas(16) uint8_t sink[SINK_BYTES];
} Check;

/* t's agent. */
static inline int agent_of(const Check *c, const SimtThread *t) { return t->cluster_rank * c->per_block + t->thread; }

void clocks_open(Check *c);
void clocks_begin(Check *c);                            /* a block */
void clocks_end(Check *c);
void clocks_close(Check *c);
void clocks_barrier(Check *c, SimtThread *const *who, int n);
/* What happens before what follows after all of them, with their latest clock; hb_drop. */
HappensBefore clocks_join(Check *c, SimtThread *const *who, int n, uint32_t *latest);
/* What t did until now, for others to acquire; whatever it does from here on is later. */
HappensBefore clocks_publish(Check *c, int agent);
/* The agent's latest clock that whoever waits for the mbarrier's present phase acquires; 0: there is none. */
uint32_t clocks_arrived(Check *c, int agent, uint64_t mbarrier);
/* Adds `from`, which stays its owner's. */
void hb_join(Check *c, HappensBefore *to, const HappensBefore *from);
void hb_drop(Check *c, HappensBefore *o);
CheckObject *clocks_object(Check *c, uint64_t key);
/* The agent of the copies that `o` counts, with its clock. */
int clocks_copy_agent(Check *c, CheckObject *o, uint32_t *clock);

/* ---- shared.c: shared memory ---- */

void shared_open(Check *c);
void shared_begin(Check *c);
void shared_close(Check *c);
/* t touches the memory of `of`'s block. */
void shared_touch(Check *c, SimtThread *t, const SimtThread *of, uint32_t offset, int bytes, unsigned access);
/* What t began and left under way there is over: waited for by t (mbarrier -1), or counted. */
void shared_land(Check *c, SimtThread *t, const SimtThread *of, uint32_t offset, int bytes, unsigned access,
    int64_t mbarrier);
void shared_settle(Check *c);                           /* looks whether the last write over a twin changed anything */

/* ---- global.c: global memory ---- */

typedef struct GlobalShadow GlobalShadow;               /* of one range */

void global_open(CheckLaunch *l);
void global_close(CheckLaunch *l);
/* False, and reported: it lies in no range. */
bool global_touch(Check *c, SimtThread *t, uint64_t address, int bytes, unsigned access);
/* A write that t had in flight there is over, and t waited for it; or a read, which counts for the mbarrier, 0 or more. */
void global_land(Check *c, SimtThread *t, uint64_t address, int bytes, int64_t mbarrier);

/* ---- acquire.c: releases and acquires, which order blocks ---- */

void acquire_open(CheckLaunch *l);
void acquire_close(CheckLaunch *l);
/* t's atomic operation at an address is about to be done, and releases if `access` says so. */
void release_touch(Check *c, SimtThread *t, uint64_t address, unsigned access);
/* It is done, and acquires. */
void acquire_touch(Check *c, SimtThread *t, uint64_t address, unsigned access);
/* Does what that thread of a block did at `clock` happen before what has acquired `k`? */
bool acquired_has(CheckLaunch *l, const Acquired *k, uint32_t block, int thread, uint32_t clock);
const Acquired *acquired_join(CheckLaunch *l, const Acquired *a, const Acquired *b);
/* Does an operation of that scope by a thread of block `by` count for one of `other`? */
bool scope_reaches(const CheckLaunch *l, unsigned scope, uint32_t by, uint32_t other);

/* ---- writers.c: who wrote each byte of shared memory, where a print asks for it ---- */

void writers_open(Check *c);
void writers_begin(Check *c);
void writers_touch(Check *c, const SimtThread *t, uint32_t cell, int bytes, unsigned access);

/* ---- costs.c: what warps' accesses cost ---- */

Costs *costs_open(int log_gathered);                   /* 0: as many accesses as it takes for most */
void costs_close(Costs *n);
void costs_begin(Check *c);
void costs_touch(Costs *n, const SimtThread *t, uint64_t at, int bytes, bool is_shared, bool is_write, const void *from);
void costs_end(Check *c);                               /* of a block: to the launch's findings */

/* ---- report.c ---- */

struct CheckLaunch {
	const SimtLaunch *launch;
	pthread_mutex_t lock;
	Check *unused;
	GlobalShadow *shadow;                           /* one a range */
	const SimtRange **by_address;                   /* ranges */
	const char *unwatched;                          /* a tensor that was too large for a shadow */
	struct Releases *releases;
	Arena *mem;                                     /* under the lock */
	VectorClock *kept;                              /* by releases */
};

/* An access as reports describe it. */
typedef struct CheckAccess {
	int64_t block;
	int thread;                                     /* of it; -1: a copy */
	int site;
	unsigned access;
} CheckAccess;

CheckAccess access_by(const Check *c, int agent, int site, unsigned access);
bool same_place(Place a, Place b);

/* offset: among the cells */
void report_shared_race(Check *c, const CheckAccess *now, const CheckAccess *before, uint32_t offset, bool by_proxy);
void report_shared_undefined(Check *c, SimtThread *t, uint32_t offset);
void report_shared_bounds(Check *c, SimtThread *t, uint32_t offset, int bytes, unsigned access);
void report_align(Check *c, SimtThread *t, uint64_t at, int align, unsigned access, bool is_shared);
void report_global_race(Check *c, const CheckAccess *now, const CheckAccess *before, const SimtRange *range,
    uint64_t address);
void report_global_undefined(Check *c, SimtThread *t, const SimtRange *range, uint64_t address);
void report_global_bounds(Check *c, SimtThread *t, const SimtRange *nearest, uint64_t address, int bytes, unsigned access);

/* ---- describe.c: places and accesses in the words of the source ---- */

enum { WORDS = 160 };

/* "program (1, 0), warp 2, lane 3 writes it here" */
void describe_access(const SimtLaunch *l, const CheckAccess *a, bool past, char *out, size_t size);
const char *access_noun(unsigned access);               /* "a write" */
/* An element of a tile that shared memory holds at `offset`, for accesses at one or two places. */
void describe_shared(const SimtLaunch *l, uint32_t offset, Place a, Place b, char *out, size_t size);
int64_t element_of(const SimtRange *r, uint64_t address);       /* before the first they count down from -1 */
void describe_global(const SimtRange *r, uint64_t address, char *out, size_t size);
int describe_index(const int64_t *at, int rank, char *out, size_t size);        /* "[2, 0]"; its length */

#endif
