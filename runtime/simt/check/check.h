/* What the checks of the emulator share: who knows of whose accesses (clocks.c), who touched which byte of shared
 * memory (cells.c) and of global memory (traffic.c), and how it is told (report.c).  access.c is the door.
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
 * An agent's accesses carry its clock, which goes up when others may learn of what it did.  A Seen says of every agent up
 * to which clock its accesses come before what is done now.  What is under way and not waited for comes before nothing
 * (cells.c). */
typedef struct Seen {
	int refs;
	bool is_kept;                                   /* by a release: it lives as long as the launch */
	struct Seen *next;                              /* among the unused or the kept ones */
	uint32_t at[];
} Seen;

/* What a thread learned from other blocks through atomics: a graph, read when two blocks meet in one place. */
typedef struct Known Known;

typedef struct Order {
	Seen *seen;
	Seen *fenced;                                   /* what the async proxy sees of it; NULL: nothing */
	const Known *known;
} Order;

typedef struct CheckThread {
	Order order;                                    /* its own entries are not kept up: see clock */
	uint32_t clock;                                 /* of what it does now */
	uint32_t record;                                /* its last write: most often the next one's too */
} CheckThread;

/* Something that threads arrive at and others see: an mbarrier, a named barrier. */
typedef struct CheckObject {
	uint64_t key;
	Order open, done;                               /* of the phase under way; of the one before */
	int agent;                                      /* of the copies that it counts; 0: none */
	uint32_t phase;
	bool has_phases;
} CheckObject;

typedef struct Record Record;
typedef struct Cell Cell;
typedef struct CheckLaunch CheckLaunch;
typedef struct Costs Costs;

/* A write over one of the same instruction: no harm if it writes the same. */
typedef struct Doubt {
	const uint8_t *at;                              /* NULL: there is none */
	uint8_t before[16];
	int n;
	int agent, other, site;
	uint32_t offset;                                /* among the cells */
} Doubt;

typedef struct Check {
	CheckLaunch *launch;
	SimtBlock *block;                               /* the cluster's first */
	int blocks, per_block;                          /* of the cluster; threads of a block */
	int threads, agents;                            /* of all its blocks */
	uint32_t met;                                   /* clocks below it come before everything that threads do now */
	CheckThread *thread;
	Seen *unused;
	CheckObject *object;
	int nobject, object_room;
	int copy_agents;                                /* given out */
	/* cells.c */
	Cell *cell;
	uint8_t *defined;                               /* a bit a byte */
	uint32_t shared_bytes, step;                    /* of a block; cells from one block's to the next one's */
	Record *record;                                 /* number `floor` and on; `next` is free */
	uint32_t floor, next, record_room;
	uint32_t *hint;                                 /* records by their contents, where one was lately */
	Doubt doubt;
	const SimtRange *range;                         /* of global memory, where the last access was */
	Costs *costs;                                   /* NULL: they are not asked for */
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
Seen *seen_new(Check *c);                               /* zeroed */
void seen_drop(Check *c, Seen *s);
void clocks_met(Check *c, SimtThread *const *who, int n);
/* What t did until now, to be shown to others; whatever it does from here on is later. */
Order clocks_publish(Check *c, int agent);
/* *to learns what `from` knows; `from` stays its owner's. */
void order_join(Check *c, Order *to, const Order *from);
void order_drop(Check *c, Order *o);
CheckObject *clocks_object(Check *c, uint64_t key);
/* The agent of the copies that `o` counts, with its clock. */
int clocks_copy_agent(Check *c, CheckObject *o, uint32_t *clock);

/* ---- cells.c: shared memory ---- */

void cells_open(Check *c);
void cells_begin(Check *c);
void cells_close(Check *c);
/* t touches the memory of `of`'s block. */
void cells_touch(Check *c, SimtThread *t, const SimtThread *of, uint32_t offset, int bytes, unsigned access);
/* What t began and left under way there is over: waited for by t (mbarrier -1), or counted. */
void cells_land(Check *c, SimtThread *t, const SimtThread *of, uint32_t offset, int bytes, unsigned access,
    int64_t mbarrier);
void cells_settle(Check *c);                           /* looks whether the write in doubt changed anything */

/* ---- traffic.c: global memory ---- */

typedef struct Traffic Traffic;                         /* of one range */

void traffic_open(CheckLaunch *l);
void traffic_close(CheckLaunch *l);
/* Indices of an element, so many from the first, by a tensor's strides; false: it is none. */
bool range_index(const SimtRange *r, int64_t element, int64_t at[KERNEL_RANK]);
/* False, and reported: it lies in no range. */
bool traffic_touch(Check *c, SimtThread *t, uint64_t address, int bytes, unsigned access);
/* A write that t had under way there is over, and t knows. */
void traffic_land(Check *c, SimtThread *t, uint64_t address, int bytes);
void traffic_order(Check *c, SimtThread *t, uint64_t address, unsigned access);
bool known_has(CheckLaunch *l, const Known *k, uint32_t block, int thread, uint32_t clock);
const Known *known_join(CheckLaunch *l, const Known *a, const Known *b);

/* ---- costs.c: what warps' accesses cost ---- */

Costs *costs_open(void);
void costs_close(Costs *n);
void costs_begin(Check *c);
void costs_touch(Costs *n, const SimtThread *t, uint64_t at, int bytes, bool is_shared, bool is_write, const void *from);
void costs_end(Check *c);                               /* of a block: to the launch's findings */

/* ---- report.c ---- */

struct CheckLaunch {
	const SimtLaunch *launch;
	pthread_mutex_t lock;
	Check *unused;
	Traffic *traffic;                               /* one a range */
	const SimtRange **order;                        /* ranges by address */
	const char *unwatched;                          /* a tensor that was too large for a shadow */
	struct Releases *releases;
	Arena *mem;                                     /* under the lock */
	Seen *kept;
};

/* Who did what, for a report: from here on the words are made. */
typedef struct CheckParty {
	int64_t block;
	int thread;                                     /* of it; -1: a copy */
	int site;
	unsigned access;
} CheckParty;

CheckParty party_of(const Check *c, int agent, int site, unsigned access);

/* offset: among the cells */
void report_shared_race(Check *c, const CheckParty *now, const CheckParty *before, uint32_t offset, bool by_proxy);
void report_shared_undefined(Check *c, SimtThread *t, uint32_t offset, int bytes);
void report_shared_bounds(Check *c, SimtThread *t, uint32_t offset, int bytes, unsigned access);
void report_align(Check *c, SimtThread *t, uint64_t at, int align, unsigned access, bool is_shared);
void report_global_race(Check *c, const CheckParty *now, const CheckParty *before, const SimtRange *range,
    uint64_t address);
void report_global_undefined(Check *c, SimtThread *t, const SimtRange *range, uint64_t address);
void report_global_bounds(Check *c, SimtThread *t, const SimtRange *nearest, uint64_t address, int bytes, unsigned access);

#endif
