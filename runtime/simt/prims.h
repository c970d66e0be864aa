/* What the primitives' files share: arithmetic of matrices, and what a block has under way by itself. */
#ifndef TEGULA_SIMT_PRIMS_H
#define TEGULA_SIMT_PRIMS_H

#include "runtime/simt/simt.h"

#define PRIMITIVE(symbol) void symbol(SimtThread *t, const uint64_t *in, const int64_t *imm, uint64_t *out)

/* ---- mma.c ---- */

/* n elements (a multiple of 8) of a type that a matrix instruction takes, as they lie in registers and in memory. */
void simt_floats(DType type, const void *packed, int n, float *out);
/* out[m, 8] = a[m, k] b[k, 8]; m is a multiple of 4. */
void simt_product(int m, int k, const float *a, const float *b, float *out);
/* narrow.c: to eight sums the k products of a row and of each of 8 columns side by side, with the bits of the unit for
 * 8-bit floats */
void simt_narrow_sums(int k, const float *row, const float *cols, float *sums);

/* ---- async.c: what a block's threads have begun and not waited for ---- */

typedef struct RowCopy RowCopy;                         /* cp.async */
typedef struct BulkCopy BulkCopy;
typedef struct Mbarrier Mbarrier;
typedef struct Warpgroup Warpgroup;

typedef struct ThreadAsync {
	RowCopy *first, **last;
	uint32_t commits, begun;                        /* groups of cp.async; copies begun so far */
	BulkCopy *stores, **last_store;
	uint32_t store_commits;
} ThreadAsync;

typedef struct Async {
	Arena *mem;
	bool checks;
	uint64_t random;                                /* 0: copies land as late as they may */
	ThreadAsync *thread;
	int nthread;
	RowCopy *spare;
	BulkCopy *spare_bulk;
	Mbarrier *mbarrier;
	Warpgroup **group;
} Async;

Async *simt_async(SimtThread *t);
ThreadAsync *simt_async_of(Async *a, const SimtThread *t);
/* Whether something that goes on by itself happens now: never in the plain schedule. */
bool simt_chance(Async *a);

enum { SIMT_RUBBISH = 0xc9 };                           /* in bytes that a copy may or may not have written yet */

/* ---- copy.c ---- */

/* Lands those of t's copies that are among the first `begun`; they count for an mbarrier (its key), or
 * (-1) t waited for them. */
void simt_copies_land(SimtThread *t, uint32_t begun, int64_t mbarrier);

/* ---- mbarrier.c ---- */

Mbarrier *simt_mbarrier_of(SimtThread *t, SimtThread *of, uint32_t at, const char *what);       /* in of's block */
/* Fails where a write of t would go over a valid mbarrier of of's block: what is there then is not defined. */
void simt_mbarriers_spared(SimtThread *t, SimtThread *of, uint32_t offset, int bytes);
void simt_mbarrier_arrive(SimtThread *t, Mbarrier *m, int64_t expects);
/* A copy that lands when the mbarrier's waiters cannot do without it any more. */
void simt_mbarrier_copy(Mbarrier *m, BulkCopy *c);
/* The key of the mbarrier at which t has said to arrive when its copy of that number has landed; -1: of none. */
int64_t simt_mbarrier_counting(SimtThread *t, uint32_t number);
void simt_mbarrier_fence(SimtThread *t);                /* what the thread has set up, towards such copies */

/* ---- bulk.c ---- */

/* A box of a tensor on its way between shared memory and global memory. */
struct BulkCopy {
	BulkCopy *next;
	SimtThread *by;                                 /* of the block whose shared memory `shared` is in */
	SimtThread *begun_by;                           /* the thread that began a load */
	uint32_t shared;
	int bytes;                                      /* of shared memory */
	const SimtTensorMap *map;                       /* the tensor, and the box's first element, */
	int32_t first[SIMT_TENSOR_RANK], offset[SIMT_WINDOWS];
	uint32_t group;                                 /* of a store */
	uint8_t *read;                                  /* what a store has read; NULL: nothing yet */
	bool is_read;                                   /* and that was waited for */
	bool is_added;                                  /* of a store: to the floats there */
};

/* begun_by begins a load into the shared memory of by's block, which counts for an mbarrier there. */
void simt_bulk_load(const BulkCopy *c, uint32_t mbarrier, const char *what);
/* The same for each block of a mask of ranks. */
void simt_bulk_load_multi(const BulkCopy *c, uint32_t mbarrier, uint64_t ranks, const char *what);
void simt_bulk_land(BulkCopy *c, int64_t mbarrier);
void simt_bulk_store_begin(const BulkCopy *c);
/* Ends the stores that are under way when the block ends: they read rubbish, as its memory is gone. */
void simt_stores_end(Async *a);

/* ---- bulk_tensor.c ---- */

int simt_box_rows(const SimtTensorMap *m);
int simt_box_pitch(const SimtTensorMap *m);             /* bytes from one to the next in shared memory: the swizzle's */
void simt_box_load(const BulkCopy *c, uint8_t *box);
void simt_box_store(const BulkCopy *c, const uint8_t *box);     /* as it lay in shared memory */
void simt_box_landed(const BulkCopy *c, int64_t mbarrier);      /* as simt_global_landed */

/* ---- cluster.c ---- */

/* The thread that stands for a rank's block, whose memory is accessed, t itself for its own; fails if there is none. */
SimtThread *simt_rank_alive(SimtThread *t, uint32_t rank, const char *what);
#endif
