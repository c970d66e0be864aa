/* What machines are like: data, no code that decides.  Passes and lowering ask a row's bits and figures,
 * never its name. */
#ifndef TEGULA_TARGET_H
#define TEGULA_TARGET_H

#include "ir/ir.h"
#include "layout/layout.h"

typedef enum TargetKind { TARGET_PTX, TARGET_METAL } TargetKind;

/* Capabilities. */
enum {
	HAS_CP_ASYNC = 1 << 0,                          /* asynchronous copies of 4, 8, 16 bytes to shared memory */
	HAS_LDMATRIX = 1 << 1,
	HAS_STMATRIX = 1 << 2,
	HAS_BF16 = 1 << 3,                              /* bf16 arithmetic and conversion in hardware */
	HAS_FP8 = 1 << 4,                               /* packed conversions between fp8 and f16 */
	HAS_MBARRIER = 1 << 5,
	HAS_TMA = 1 << 6,                               /* bulk tensor copies */
	HAS_WGMMA = 1 << 7,
	HAS_SETMAXNREG = 1 << 8,
	HAS_CLUSTER = 1 << 9,
	HAS_REDUX = 1 << 10,                            /* integer reductions over a warp */
	HAS_ATOMIC_PAIRS = 1 << 11,                     /* atomic sums of two neighbouring floats at once */
	HAS_TCGEN05 = 1 << 12,
	HAS_SIMDGROUP_MATRIX = 1 << 13,                 /* 8 x 8 matrices held by a simdgroup */
	HAS_F64 = 1 << 14,
	HAS_MMA_SYNC = 1 << 15,                         /* matrix instructions of a warp on packed words */
	HAS_SIMD_REDUCE = 1 << 16,                      /* sums, least and greatest of floats over a simdgroup */
	HAS_ATOMIC_NARROW = 1 << 17,                    /* atomic sums of f16, compare-and-swap of 16 bits */
	HAS_ATOMIC_64 = 1 << 18,
	HAS_PIPELINES = 1 << 20,                        /* loops are worth a software pipeline; else other blocks fill in */
	HAS_ATOMIC_ORDER = 1 << 22,                     /* atomics that acquire and release memory between programs */
	HAS_GRID_WAIT = 1 << 21,                        /* a grid may start early, and waits in its code */
	HAS_FP8_SYNC = 1 << 24,                         /* products of a warp take fp8; else ptxas converts to f16 */
	HAS_PRINTF = 1 << 23,                           /* code prints to the device's output */
	HAS_LANE_LOOKUPS = 1 << 25,                     /* lanes that hold a table answer sooner than memory does */
	HAS_LONG_DIVIDE = 1 << 19,                      /* a division is so many instructions that an inverse pays */
};

enum { MMA_REG_BITS = 6, MMA_LANE_BITS = 5 };

/* Where the threads of a warp hold a matrix: images of register bits and lane bits, packed as layout.h packs them. */
typedef struct Fragment {
	int reg_bits;
	uint64_t reg[MMA_REG_BITS], lane[MMA_LANE_BITS];
} Fragment;

/* One matrix instruction: D[m, n] = A[m, k] B[k, n] + C, held by `warps` warps together. */
typedef struct MmaInfo {
	const char *name;                               /* "m16n8k16.f16" */
	int m, n, k, warps;
	DType a, b, acc;                                /* element types of operands and accumulator */
	unsigned needs;                                 /* capability bits */
	int least;                                      /* least compute capability (75, 80 …), or Apple family */
	const Fragment *fragment_a, *fragment_b, *fragment_c;
} MmaInfo;

/* One instruction of a warpgroup: rows are 64, warps 4. */
typedef struct WgmmaInfo {
	const char *name;                               /* "wgmma.n128k16.bf16" */
	int n, k;
	DType a, b, acc;
	unsigned needs;
	int least;
	const Fragment *fragment_a;                     /* of a warp's 16 rows, where A is in registers */
} WgmmaInfo;

extern const WgmmaInfo wgmma_info[];
extern const int wgmma_count;
extern const MmaInfo mma_info[];
extern const int mma_count;

/* How fast one is, in cycles of a multiprocessor: what the cost model (model/cost.c, bill.c) counts with. */
typedef struct TargetRates {
	bool is_public;                                 /* by published figures, none measured here */
	const char *card;                               /* "H200": the one that these are of */
	int multiprocessors;
	int clustered;                                  /* that clusters of four or eight can fill; 0: not known */
	double clock;                                   /* cycles a microsecond */
	double memory_rate;                             /* bytes a cycle, all multiprocessors together */
	double l2_bytes;                                /* of the L2 cache */
	double l2_rate;                                 /* bytes of sectors a cycle, each multiprocessor */
	double atomic_line, atomic_rate;                /* cycles of a line for one request; requests a cycle, all lines */
	double shared_rate;                             /* bytes of shared memory a cycle: of products of simdgroups */
	double products_warp, products_warpgroup;       /* multiplications of 16 bits a cycle */
	double products_double;                         /* of f64 */
	double special_rate;                            /* threads' special functions a cycle */
	double integer_rate;                            /* the same of the pipe for integers, comparisons and selections */
	double issue_rate;                              /* instructions that a scheduler begins a cycle, of many warps */
	double issue_alone;                             /* cycles from one instruction of a warp to its next */
	double latency;                                 /* of device memory under load */
	double shared_latency, shuffle_latency, barrier;
	double start_latency;                           /* of a block: until its first instruction, and its end */
	double start_block;                             /* cycles from one block's start to the next one's */
} TargetRates;

struct Target {
	const char *name;                               /* "sm_90a" */
	TargetKind kind;
	int capability;                                 /* 75, 80, 86, 89, 90, 100, 120; Apple family 7, 8, 9 */
	const char *cpu, *features;                     /* for LLVM: "sm_90a", "+ptx80" */
	unsigned has;
	int lanes;                                      /* of a warp or simdgroup */
	int max_threads;                                /* of a block */
	int shared_bytes;                               /* that one block may have */
	int shared_bytes_unit;                          /* of one multiprocessor */
	int registers;                                  /* 32-bit registers of one multiprocessor */
	int max_registers;                              /* of one thread */
	int most_sums;                                  /* of products that a thread should hold; 0: as the tiles say */
	int max_warps;                                  /* resident on one multiprocessor */
	int vector_bytes;                               /* widest access of a thread */
	int tile_bytes;                                 /* the largest tile that is tried where only the grid is cut */
	const TargetRates *rates;                       /* NULL: not known */
	const TargetRates *figures;                     /* published by others, and of products alone; NULL: none */
	const char *unused;                             /* matrix instructions of its own that nothing here uses; or NULL */
	const char *functions;                          /* of f32 that its language has, by names of ops with a blank before
	                                                 * and behind each; NULL: it has none */
};

typedef struct Target Target;

/* What a bill is made with. */
static inline const TargetRates *target_rates(const Target *t) { return t->rates ? t->rates : t->figures; }

/* What the cpu device runs on, for choosing tiles: the same on every machine. */
typedef struct CpuRow {
	Target target;                                  /* its name, and tile_bytes */
	int cores;                                      /* where the device's threads are not known */
	int vector_bytes;
	int64_t l1_bytes, l2_bytes;                     /* of a core */
	/* nanoseconds of a core: of a program and of a step of the interpreter beside its elements; of 16 bytes in vector
	 * arithmetic, of one exponential or the like, of moving a byte from the L1, the L2 cache and beyond; of a
	 * multiplication of a dot */
	double program, step, vector, special, l1_byte, l2_byte, memory_byte, product;
} CpuRow;

extern const CpuRow cpu_row;

/* NULL if there is none of that name; target_at gives them all, NULL past the last. */
const Target *target_named(const char *name);
const Target *target_at(int i);
/* The matrix instruction for operand types on a target, largest k first; NULL if there is none (then the dot is made
 * of multiplications and additions, and `inspect` says so). */
bool target_has_function(const Target *t, const char *name);
bool target_has_mma(const Target *t, const MmaInfo *i);
/* Multiplications a cycle by instructions of a warp, of operands of so many bits. */
static inline double
target_products_warp(const TargetRates *r, double bits)
{
	return bits > 32 ? r->products_double : r->products_warp * 16 / (bits > 16 ? bits : 16);
}
const MmaInfo *mma_named(const char *name);             /* NULL: there is none */
const WgmmaInfo *wgmma_named(const char *name);
/* Is there a matrix instruction of that name, of a warp or a warpgroup, and has the target it?  NULL: any target. */
bool target_has_product(const Target *t, const char *name);
/* Does it multiply f32 as they are?  Others round them to tf32. */
static inline bool mma_is_exact(const MmaInfo *i) { return (i->needs & HAS_SIMDGROUP_MATRIX) != 0; }
Layout mma_layout_a(const MmaInfo *i);                  /* the fragment of one instruction, rank 2 */
Layout mma_layout_b(const MmaInfo *i);
Layout mma_layout_c(const MmaInfo *i);
bool target_has_wgmma(const Target *t, const WgmmaInfo *i);
/* The instruction of a warpgroup with the most columns, at most n; NULL if there is none for these types. */
const WgmmaInfo *target_wgmma(const Target *t, DType a, DType b, DType acc, int64_t n);
/* Registers of a thread of the producer and of so many warpgroups that consume (setmaxnreg); NULL: no such split. */
const int *target_role_registers(const Target *t, int warpgroups);
const int *target_gather_registers(const Target *t, int warpgroups);    /* where all of the producer's threads copy */
/* Registers of a thread in a block of so many warps, as ptxas limits them: with roles too, whose consumers have more by
 * setmaxnreg; what one instruction needs. */
int target_registers(const Target *t, int warps);
int wgmma_registers(int n, bool register_a);
/* How a warpgroup holds the 64 rows and n columns of D. */
Layout wgmma_layout_c(const WgmmaInfo *i);
/* How each of its warps holds its 16 rows of A, if that is in registers. */
Layout wgmma_layout_a(const WgmmaInfo *i);

#endif
