/* How products are computed, as data: model.h's plans of dots. */
#ifndef TEGULA_PRODUCT_H
#define TEGULA_PRODUCT_H

#include "target/target.h"

/* plan_dot.c: products by matrix instructions */

typedef struct MmaSide {
	int fragment;                                   /* log2 of a fragment's registers */
	uint64_t tile[F2_MAX], step[F2_MAX];            /* fragments that each bit of their numbers moves by */
} MmaSide;

typedef struct MmaPlan {
	const MmaInfo *mma;
	int fragment;                                   /* log2 of the accumulator's registers a tile */
	MmaSide side[2];
	int tiles, steps;                               /* log2; of the accumulator; along K */
} MmaPlan;

/* The accumulator's registers in tiles of 2^fragment, and steps of k along K; tiles and steps are log2. */
typedef struct FragmentWalk {
	int fragment, tiles, steps, k;
} FragmentWalk;

/* Which fragments of operand `which`, whose layout is l, each step and tile take; false: it is not made of fragments. */
bool plan_fragments(const FragmentWalk *p, const Layout *acc, const Layout *l, const Layout *fragment, int which,
    MmaSide *s);
/* False: there is no instruction, or the layouts are not those of its fragments. */
bool plan_mma(const Op *op, MmaPlan *out);
/* The operand's fragment that step and tile take. */
uint64_t mma_fragment(const MmaSide *s, int step, int tile);
/* The image of a fragment's bit i in the last two dimensions of a tile. */
uint64_t fragment_image(const Layout *fragment, int i, const Layout *to);
/* Coordinates in one tile as those in another that shares all of its dimensions but `lost`. */
/* The layout of an operand (0, 1), or of what it adds to (2), with positions as the operands count them instead of the
 * instruction (k_bits, m_bits, n_bits); back: the reverse. */
Layout dot_in_order(const Op *op, const Layout *given, int which, bool back);
uint64_t dot_share(const Layout *from, uint64_t image, int lost, const Layout *to);

/* plan_simdgroup.c: products of simdgroups that read slots */

typedef struct SimdgroupSide {
	const Value *slot;                              /* NULL: the operand is in registers */
	Layout shared;
	F2 to;                                          /* of the operand's register, lane and warp: elements in the slot */
	int stride;                                     /* elements from a row (transposed: a column) to the next */
	bool transposed;
	int64_t step;                                   /* bytes from one step along K to the next; 0: not one number */
} SimdgroupSide;

typedef struct SimdgroupPlan {
	SimdgroupSide side[2];
	bool loops;                                     /* the steps along K are a loop */
	bool waits;                                     /* a barrier since the first get: another one after the reads */
} SimdgroupPlan;

/* The product that loads what the get would; NULL: the get does. */
const Op *simdgroup_reader(const Op *get, const Target *t);
/* False: both operands are in registers. */
bool plan_simdgroup(const Op *dot, const Target *t, const MmaPlan *p, SimdgroupPlan *out);

/* plan_wgmma.c: products of warpgroups */

typedef struct WgmmaSide {
	bool is_transposed;
	uint64_t descriptor;                            /* all but the start address */
	/* bytes that each bit moves the start address by */
	uint64_t tile[F2_MAX], step[F2_MAX], group[F2_MAX];
} WgmmaSide;

typedef struct WgmmaPlan {
	const WgmmaInfo *info;
	int fragment;                                   /* log2 of the accumulator's registers a tile */
	int tiles, steps, groups;                       /* log2; of the accumulator; along K; warpgroups */
	WgmmaSide side[2];
	int taken;                                      /* steps along K that are not all padding */
	int apart;                                      /* log2 of the steps summed apart, then added; -1: none */
	bool in_registers;                              /* operand a: */
	MmaSide left;                                   /* its fragments */
} WgmmaPlan;

/* Of a dot or dot_start by an instruction of warpgroups: are its products summed apart, 128 along K, and then added? */
bool wgmma_adds_apart(const Op *op);

/* Of a dot_start.  False: its accumulator is not of the instruction's tiles, or an operand lies as no descriptor says. */
bool plan_wgmma(const Op *op, WgmmaPlan *out);
/* Bytes from the start of the operand's slot to what step and tile take, for warpgroup 0. */
uint64_t wgmma_start(const WgmmaSide *s, int step, int tile);

/* plan_dot_fma.c: products by multiplications and additions */

typedef struct FmaSide {
	DType from;
	Layout given;                                   /* of the operand */
	Layout want;                                    /* registers: those of the accumulator that move it, and k */
	Layout shared;
	const Value *slot;                              /* where it is read; NULL: in scratch */
	int nregs;                                      /* log2 of the former */
	int reg_bit[F2_MAX];                            /* which of the accumulator's */
	int k_dim;
	bool k_first;                                   /* in `want`: k's bits are the lower ones */
	int vector;                                     /* log2 of the elements of a load */
	int64_t at;                                     /* in scratch */
} FmaSide;

typedef struct FmaPlan {
	const Op *op;
	Layout acc;
	DType compute;
	int bytes;                                      /* of an element of `compute` */
	FmaSide side[2];
	int k_bits, unrolled;                           /* log2 of K, and of what is unrolled */
	int depth;                                      /* of K, what may be other than 0 */
	int chunk;                                      /* log2 of the k that are loaded together */
	bool waits;                                     /* a barrier since the slots' gets: another one after the reads */
	int64_t scratch;
} FmaPlan;

void plan_fma(const Op *op, const Target *t, FmaPlan *out);
/* The register of `want` for value r at step k. */
int fma_register(const FmaPlan *p, const FmaSide *s, int r, int k);

/* plan_dot_together.c: of these, what is computed together */

enum { FMA_TOGETHER_MOST = 4 };

typedef struct FmaTogether {
	struct {
		FmaPlan p;
		int sum;                                /* number of the product whose sum it adds to, or its own */
	} at[FMA_TOGETHER_MOST];
	int n;
} FmaTogether;

/* The first and those behind it that can be computed as early. */
void plan_fma_together(const Op *first, const Target *t, FmaTogether *out);
/* Do both read the same elements into the same registers? */
bool fma_reads_alike(const FmaSide *a, const FmaSide *b);
/* Does another product follow before a barrier? */
bool fma_reads_again(const Op *last);
/* Loads of a thread from shared memory, and their words of 4 bytes, that others computed with the dot have not made. */
void fma_loads(const Op *dot, const Target *t, double *loads, double *words);

#endif
