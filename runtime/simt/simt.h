/* The emulator: a GPU's threads as fibers of this machine, and what they call.
 *
 * emit/llvm/llvm_simt.c compiles the per-thread code that lowering makes to a function of this machine, with every row of
 * thread/prims.def as a call to the row's simt symbol.  A block's threads are fibers that share one OS thread; one runs
 * until it has to wait for others (a barrier, a shuffle, a matrix instruction, an mbarrier's phase).  Blocks are spread
 * over OS threads.
 *
 * Pointers into shared memory are offsets of 32 bits, pointers into global memory are addresses of this machine. */
#ifndef TEGULA_SIMT_H
#define TEGULA_SIMT_H

#include <stdint.h>

#include "emit/emit.h"
#include "ir/interp/interp.h"
#include "lower/artefact.h"

enum { SIMT_LANES = 32 };

typedef struct SimtBlock SimtBlock;                     /* block.c */
typedef struct SimtLaunch SimtLaunch;

/* What one thread is, for compiled code and primitives.  Compiled code knows the offsets of the fields up to `steps`. */
typedef struct SimtThread {
	uint8_t *shared;                                /* of the block; offset 0 */
	int32_t thread, lane, block_index, nblocks;     /* within the block, within the warp; of the grid */
	int32_t cluster_rank;
	int32_t site;                                   /* index of the place in the source that is being executed */
	int64_t steps;                                  /* iterations of loops left until simt_steps is called */
	SimtBlock *block;
	int warp;
	uint64_t in[4];                                 /* room for a collective's operands */
	bool has_waited;                                /* for the grid before */
} SimtThread;

/* The lanes of a warp (or the threads of a warpgroup) at a collective: operands and results of each, by lane. */
typedef struct SimtLanes {
	SimtThread *thread[4 * SIMT_LANES];
	const uint64_t *in[4 * SIMT_LANES];
	uint64_t *out[4 * SIMT_LANES];
	int n;                                          /* 32, or 128 */
} SimtLanes;

/* Called once, when all have arrived; fills all out[]. */
typedef void SimtCompute(const SimtLanes *lanes, const void *info);

/* ---- scheduler.c, block.c ---- */

/* Waits until all lanes of t's warp are at this call; the last of them runs `compute`.  `what` names the instruction in
 * reports: lanes at another `what` or at another site are reported as divergent. */
void simt_warp_collective(SimtThread *t, const char *what, SimtCompute *compute, const void *info, const uint64_t *in,
    uint64_t *out);
/* The same of the 128 threads of t's warpgroup. */
void simt_group_collective(SimtThread *t, const char *what, SimtCompute *compute, const void *info, const uint64_t *in,
    uint64_t *out);
/* Runs other threads until ready(user) is true; reports a deadlock if it never will be. */
void simt_wait(SimtThread *t, const char *what, bool (*ready)(const void *user), const void *user);
/* Memory that lives as long as the block: one pointer a key (a static variable's address), NULL at first. */
void **simt_block_local(SimtThread *t, const void *key);
/* Has done(user) run when the block ends, however it ends. */
void simt_at_end(SimtThread *t, void (*done)(void *user), void *user);

/* A thread of the block of that rank in t's cluster, NULL: there is none.  Blocks of a cluster share an OS thread. */
SimtThread *simt_cluster_peer(SimtThread *t, int rank);
/* All threads of t's block have ended, so that its shared memory is gone. */
bool simt_block_ended(const SimtThread *t);

/* ---- access.c: every access goes through these; they return where the bytes are on this machine ---- */

typedef enum SimtAccess {
	SIMT_READ = 1 << 0, SIMT_WRITE = 1 << 1,
	SIMT_ATOMIC = 1 << 2,
	SIMT_ASYNC = 1 << 3,                            /* by an asynchronous copy: at any time until it is waited for */
	SIMT_TENSOR = 1 << 4,                           /* by the async proxy (bulk copies, wgmma) */
	SIMT_ACQUIRE = 1 << 5, SIMT_RELEASE = 1 << 6,   /* with SIMT_ATOMIC: what it orders */
	SIMT_VOLATILE = 1 << 7,
	SIMT_SCOPE_CTA = 1 << 8, SIMT_SCOPE_CLUSTER = 1 << 9,   /* with SIMT_ATOMIC: its scope; neither: gpu */
} SimtAccess;

/* An access of 2, 4, 8 or 16 bytes must be aligned to its size in shared memory, to `align` in global memory. */
uint8_t *simt_shared_at(SimtThread *t, uint32_t offset, int bytes, unsigned access);
/* The same of the memory of another block of its cluster: that of the thread `of`. */
uint8_t *simt_shared_of(SimtThread *t, SimtThread *of, uint32_t offset, int bytes, unsigned access);
uint8_t *simt_global_at(SimtThread *t, uint64_t address, int bytes, int align, unsigned access);
/* The same for a primitive: `from` is where compiled code called it, which tells apart what a source line accesses. */
uint8_t *simt_shared_from(SimtThread *t, uint32_t offset, int bytes, unsigned access, const void *from);
uint8_t *simt_global_from(SimtThread *t, uint64_t address, int bytes, int align, unsigned access, const void *from);
/* After an atomic operation in global memory with SIMT_ACQUIRE among `access`: what it read has been read. */
void simt_acquired(SimtThread *t, uint64_t address, unsigned access);

/* Called by block.c, if the launch has checks: a block begins (its shared memory is undefined) and ends, the launch
 * begins and ends (state: what simt_check_state gives to all its OS threads). */
void *simt_check_open(const SimtLaunch *launch);
void simt_check_close(void *state);
void simt_check_begin(SimtBlock *b);
void simt_check_end(SimtBlock *b);
/* All n threads of t's block have ended, of which t is the last. */
void simt_check_exit(SimtThread *t, SimtThread *const *who, int n);
/* A barrier of these threads: what each did before it happens before what each does after.  (A shuffle is none: it orders
 * no memory.) */
void simt_check_barrier(SimtThread *const *who, int n);
/* What t did so far happens before whatever a thread of its cluster does once it has waited for the object (an mbarrier, a
 * barrier that is not waited for, the cluster's barrier: a number, one for the whole cluster). */
void simt_check_arrive(SimtThread *t, uint64_t object);
void simt_check_wait(SimtThread *t, uint64_t object);

/* writers.c: who wrote a byte of the shared memory of t's block last, in words. */
void simt_writer(const SimtThread *t, int64_t byte, char *out, size_t size);

/* Only if the launch has checks, as the calls above: an access that t began with SIMT_ASYNC, in the memory of `of`'s block,
 * is over.  t itself waited for it (mbarrier is -1), or it counts for an mbarrier, by its object: then it happens before
 * what threads do that have waited for the mbarrier. */
void simt_landed(SimtThread *t, const SimtThread *of, uint32_t offset, int bytes, unsigned access, int64_t mbarrier);

/* The same of global memory: a write, which t waited for (mbarrier: -1), or a read that counts for an mbarrier. */
void simt_global_landed(SimtThread *t, uint64_t address, int bytes, int64_t mbarrier);

typedef enum SimtFence {
	SIMT_FENCE_MBAR,                                /* of mbarriers just set up, towards the cluster */
	SIMT_FENCE_ASYNC,                               /* t's accesses to shared memory, towards the async proxy */
} SimtFence;
void simt_fenced(SimtThread *t, SimtFence kind);

/* The phase of an object is over: a wait from here on covers what arrived until now, not what arrives next. */
void simt_check_phase(SimtThread *t, uint64_t object);

/* report.c: what was found, each pair of places once. */
typedef struct SimtFinding {
	DiagCode code;
	char part[3][160];                              /* what the message's text takes */
	Place place, other;
	char label[128], note[160], help[240];          /* note: of the other place, or "" */
	int site, other_site;
	int64_t block, times;
} SimtFinding;

/* costs.c: of one place, what the accesses of full warps took: passes over the banks, or sectors. */
typedef struct SimtCost {
	int site;
	bool is_shared, is_write;
	int bytes;                                      /* of a thread */
	int worst, least;                               /* of the one furthest from its least: the fewest for its bytes */
	int64_t n;
	int64_t total, least_total;                     /* of all n */
} SimtCost;

enum { SIMT_FINDINGS = 20 };

typedef struct SimtFindings {
	SimtFinding at[SIMT_FINDINGS];
	int n;
	int64_t others;                                 /* at other places, once there is no room */
	bool counts;                                    /* asked for: costs */
	int log_gathered;                               /* of accesses that are gathered at once; 0: of 4,096 */
	const char *unwatched;                          /* a tensor that is too large to be watched for races; NULL: none */
	SimtCost *cost;                                 /* malloc'ed */
	int ncosts, cost_room;
} SimtFindings;

/* compare_costs.c: warns in cx of what was not watched, and where accesses cost more than the compiler predicted; the
 * launch is over and has a func. */
void simt_findings_warn(const SimtLaunch *launch, Compile *cx);
/* As diagnostics of cx, by place; true if there were any. */
bool simt_findings_report(const SimtFindings *f, Compile *cx);
void simt_findings_close(SimtFindings *f);              /* empties it */

/* ---- machine.c: a launch ---- */

typedef void SimtKernel(SimtThread *t, const uint64_t *param);

/* Memory that a launch may touch. */
typedef struct SimtRange {
	const char *name;                               /* as the source has it; NULL: the machinery's own, not checked */
	uint64_t low, high, first;                      /* addresses; where its element 0 lies */
	DType dtype;
	bool undefined;                                 /* nothing has been written there yet */
	bool is_read_only, is_constant;                 /* is_constant: may be read before the grids before are over */
	int rank;                                       /* 0: elements one after the other */
	int64_t dim[KERNEL_RANK], stride[KERNEL_RANK];        /* in elements */
} SimtRange;

enum { SIMT_WORKERS = 64 };                             /* OS threads, at most */

struct SimtLaunch {
	SimtKernel *kernel;
	const uint64_t *param;
	FaultRecord *faults;                            /* SIMT_WORKERS, empty: param[]'s ABI_FAULTS; NULL: none */
	const AbiParam *abi;                            /* what each of param[] is; NULL: not said */
	int nabi;
	const Target *target;
	int threads, shared_bytes, cluster;             /* of a block; blocks of a cluster (0: 1) */
	int64_t nblocks;
	int64_t sample;                                 /* run as many of them alone, spread evenly; 0: all */
	const Place *site;                              /* of t->site */
	int nsite;
	bool checks;
	bool starts_early;                              /* threads wait before they touch global memory */
	uint64_t seed;                                  /* 0: warps in order; else they run in an order of its own */
	int64_t iterations_most;                             /* of loops, of a cluster; 0: SIMT_ITERATIONS */
	int workers;                                    /* OS threads; 0: as many as there are processors */
	const SimtRange *range;
	int nrange;                                     /* 0: any memory */
	const Func *func;                               /* for the words of reports; may be NULL */
	int64_t grid[MAX_AXES];
	SimtFindings *findings;                         /* what checks find goes there; NULL: the first ends the launch */
	void (*print)(void *user, const char *line);
	void *print_user;
};

static inline Place
simt_site_place(const SimtLaunch *l, int site)
{
	return site > 0 && site < l->nsite ? l->site[site] : NOWHERE;
}

/* How it ended. */
typedef struct SimtReport {
	bool failed;
	FaultKind kind;
	char text[500];                                 /* a sentence without its full stop */
	Place place, other;
	int64_t block;
	int thread;
} SimtReport;

/* ---- code.c: a lowered function as code of this machine ---- */

typedef struct SimtCode SimtCode;

/* NULL, *why (in mem): LLVM's complaint, or a primitive that the emulator has not; "": it can't be lowered, and the
 * module's cx says why. */
typedef struct SimtCodeOptions {
	bool checks, quick;                             /* each access by a call; compiled sooner, to slower code */
	const ThreadModule *thread;                     /* in place of what lowering makes; or NULL */
} SimtCodeOptions;

SimtCode *simt_code_open(Func *f, const Target *t, const SimtCodeOptions *o, Arena *mem, const char **why);
void simt_code_close(SimtCode *c);
void simt_code_launch(const SimtCode *c, SimtLaunch *out);      /* its fields up to `cluster`, sites and checks */

/* ---- machine.c again ---- */

typedef struct SimtMachine SimtMachine;                 /* stacks and shared memory, kept from launch to launch */

SimtMachine *simt_open(void);
void simt_close(SimtMachine *m);
/* False: report->text. */
bool simt_run(SimtMachine *m, const SimtLaunch *launch, SimtReport *report);
/* What compiled code calls. */
const EmitSymbol *simt_symbols(int *n);

/* Of a thread while it runs. */
const SimtLaunch *simt_launch(const SimtThread *t);
void *simt_check_state(const SimtThread *t);            /* what simt_check_open gave */
SimtThread *simt_thread_of(SimtBlock *b, int thread);
void **simt_check_slot(SimtBlock *b);                   /* a pointer of access.c's, a block */

/* Ends the launch with a report of t's place; does not return. */
_Noreturn void simt_fail(SimtThread *t, const char *fmt, ...) PRINTF(2, 3);
/* The same of two places: `other` is a site, or 0. */
_Noreturn void simt_fail_at(SimtThread *t, int other, const char *fmt, ...) PRINTF(3, 4);
_Noreturn void simt_fail_as(SimtThread *t, FaultKind kind, int other, const char *fmt, ...) PRINTF(4, 5);

/* ---- warp.c, ldmatrix.c, copy.c, mbarrier.c, bulk.c, wgmma.c: the primitives ---- */

/* Every row of prims.def: operands and results as words of 64 bits (a register's bits, zeros above its width; truth 0
 * or 1), immediates as the row says.  `site` is in t. */
#define PRIM(id, text, nin, nout, needs, flags, ptx, msl, simt)                                                         \
	void simt(SimtThread *t, const uint64_t *in, const int64_t *imm, uint64_t *out);
/* (rows that share a symbol declare it twice, which C allows) */
#include "thread/prims.def"
#undef PRIM

/* mma, wgmma and settle of the thread IR. */
void simt_mma(SimtThread *t, const MmaInfo *i, const void *a, const void *b, const void *c, void *out);
/* Hands out what stands for the result until it is waited for; simt_settle, after the wait, makes that the result.  a is a
 * descriptor or, by flag, the address of WGMMA_WORDS words. */
void simt_wgmma(SimtThread *t, const WgmmaInfo *i, uint64_t a, uint64_t b, unsigned flags, const uint32_t *c,
    uint32_t *out);
void simt_settle(SimtThread *t, const uint32_t *v, uint32_t *out, int n);

/* bulk_tensor.c: a tensor in global memory as a bulk tensor copy takes it, and as the driver's cuTensorMapEncodeTiled gives
 * it to a GPU: extents, strides and boxes with the fastest dimension first. */
enum { SIMT_TENSOR_RANK = 5, SIMT_WINDOWS = 3 };
typedef enum SimtSwizzle { SIMT_SWIZZLE_NONE, SIMT_SWIZZLE_32, SIMT_SWIZZLE_64, SIMT_SWIZZLE_128 } SimtSwizzle;

typedef struct SimtTensorMap {
	uint64_t mark, address;
	uint64_t stride[SIMT_TENSOR_RANK];              /* bytes */
	uint32_t extent[SIMT_TENSOR_RANK];
	uint16_t box[SIMT_TENSOR_RANK];
	int16_t lower[SIMT_WINDOWS], upper[SIMT_WINDOWS];
	uint8_t rank, dtype, swizzle, fills_nan, windows, step[SIMT_WINDOWS];
} SimtTensorMap;                                        /* at most 128 bytes, aligned to 64 where it is used */

typedef struct SimtTensor {
	DType dtype;
	int rank;
	uint64_t address;
	int64_t extent[SIMT_TENSOR_RANK], stride[SIMT_TENSOR_RANK];     /* strides in bytes; the first is an element */
	int box[SIMT_TENSOR_RANK];
	SimtSwizzle swizzle;
	bool fills_nan;                                 /* what is outside: NaN instead of 0 */
	/* of windows (cuTensorMapEncodeIm2col): dimensions from 1 on that have them, corners of the bounding box from the
	 * tensor's, steps; a box is box[0] channels of box[1] places */
	int windows, lower[SIMT_WINDOWS], upper[SIMT_WINDOWS], step[SIMT_WINDOWS];
} SimtTensor;

/* NULL, or why there is no such map: what the driver refuses too. */
const char *simt_tensor_encode(SimtTensorMap *map, const SimtTensor *tensor);

struct DeviceError;
/* maps.c: the tensor maps of a launch, in `room` (aligned to 64), which has MAP_BYTES of zeros for tensors without elements
 * before them; value[i] of a parameter that is a map becomes its address.  False: *e says what no map can have. */
bool simt_maps(const AbiParam *abi, int nabi, const TensorMap *map, const PlanArg *args, void *room, uint64_t *value,
    struct DeviceError *e);

/* What compiled code calls besides: arithmetic.c, scheduler.c.  simt_steps: t->steps is used up; simt_spin: one more turn
 * of a loop that may be waiting for another thread. */
void simt_steps(SimtThread *t);
void simt_spin(SimtThread *t);
/* One element of a tile that a print with {trace} shows: value[0] its number, then its bits, then the program's index. */
void simt_trace(SimtThread *t, int number, const uint64_t *value, int n);
void simt_print(SimtThread *t, const char *format, const uint64_t *value, const int *type, int n);

#endif
