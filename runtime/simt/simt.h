/* The emulator: a GPU's threads as fibers of this machine, and what they call.
 *
 * emit/llvm_simt.c compiles the per-thread code that lowering makes to a function of this machine, with every row of
 * lower/prims.def as a call to the row's simt symbol.  A block's threads are fibers that share one OS thread; one runs
 * until it has to wait for others (a barrier, a shuffle, a matrix instruction, an mbarrier's phase).  Blocks are spread
 * over OS threads.
 *
 * Pointers into shared memory are offsets of 32 bits, pointers into global memory are addresses of this machine. */
#ifndef TEGULA_SIMT_H
#define TEGULA_SIMT_H

#include <stdint.h>

#include "lower/emitter.h"

enum { SIMT_LANES = 32 };

typedef struct SimtBlock SimtBlock;                     /* block.c */

/* What one thread is, for compiled code and primitives.  Compiled code knows the offsets of the fields up to `steps`. */
typedef struct SimtThread {
	uint8_t *shared;                                /* of the block; offset 0 */
	int32_t thread, lane, block_index, nblocks;     /* within the block, within the warp; of the grid */
	int32_t cluster_rank;
	int32_t site;                                   /* index of the place in the source that is being executed */
	int64_t steps;                                  /* turns of loops left until simt_steps is called */
	SimtBlock *block;
	int warp;
} SimtThread;

/* The lanes of a warp (or the threads of a warpgroup) that met: each one's operands and results, by lane. */
typedef struct SimtLanes {
	SimtThread *thread[4 * SIMT_LANES];
	const uint64_t *in[4 * SIMT_LANES];
	uint64_t *out[4 * SIMT_LANES];
	int n;                                          /* 32, or 128 */
} SimtLanes;

/* Done once, when all have met; fills all out[]. */
typedef void SimtCompute(const SimtLanes *lanes, const void *info);

/* ---- block.c: waiting for each other ---- */

/* Waits until all lanes of t's warp are at this call, whoever of them is last runs `compute`.  `what` names the
 * instruction in reports: lanes that meet with another `what` or at another site are reported as divergent. */
void simt_warp_meet(SimtThread *t, const char *what, SimtCompute *compute, const void *info, const uint64_t *in,
    uint64_t *out);
/* The same of the 128 threads of t's warpgroup. */
void simt_group_meet(SimtThread *t, const char *what, SimtCompute *compute, const void *info, const uint64_t *in,
    uint64_t *out);
/* Lets others run until ready(user) is true; reports a deadlock if it never will be. */
void simt_wait(SimtThread *t, const char *what, bool (*ready)(const void *user), const void *user);
/* Memory that lives as long as the block: one pointer a key (a static variable's address), NULL at first. */
void **simt_block_local(SimtThread *t, const void *key);
/* Has done(user) run when the block ends, however it ends. */
void simt_at_end(SimtThread *t, void (*done)(void *user), void *user);

/* ---- check.c: every access goes through these; they return where the bytes are on this machine ---- */

typedef enum SimtAccess {
	SIMT_READ = 1 << 0, SIMT_WRITE = 1 << 1,
	SIMT_ATOMIC = 1 << 2,
	SIMT_ASYNC = 1 << 3,                            /* by an asynchronous copy: at any time until it is waited for */
	SIMT_TENSOR = 1 << 4,                           /* by the async proxy (bulk copies, wgmma) */
} SimtAccess;

uint8_t *simt_shared_at(SimtThread *t, uint32_t offset, int bytes, unsigned access);
uint8_t *simt_global_at(SimtThread *t, uint64_t address, int bytes, int align, unsigned access);

/* Ends the launch with a report; does not return. */
_Noreturn void simt_fail(SimtThread *t, const char *fmt, ...) PRINTF(2, 3);

/* ---- warp.c, matrix.c, copy.c, mbarrier.c, bulk.c, wgmma.c: the primitives ---- */

/* Every row of prims.def: operands and results as words of 64 bits (a register's bits, zeros above its width; truth 0
 * or 1), immediates as the row says.  `site` is in t. */
#define PRIM(id, text, nin, nout, needs, flags, ptx, msl, simt)                                                         \
	void simt(SimtThread *t, const uint64_t *in, const int64_t *imm, uint64_t *out);
/* (rows that share a symbol declare it twice, which C allows) */
#include "lower/prims.def"
#undef PRIM

/* Emitter's mma, wgmma, settle, atomic, print and trap. */
void simt_mma(SimtThread *t, const MmaInfo *i, const uint32_t *a, const uint32_t *b, const uint32_t *c, uint32_t *out);
void simt_wgmma(SimtThread *t, const WgmmaInfo *i, uint64_t a, uint64_t b, unsigned turned, const uint32_t *c,
    uint32_t *out);

#endif
