/* What lowering makes of each op on a target, as data: which bytes of shared scratch the op takes, the scope of the
 * barrier inside it, and how elements reach the threads that need them.
 *
 *     %b = convert %a : f32[64, 64] #1          CONVERT_SHARED, 16384 bytes, a barrier of the block in between
 *     %s = reduce %x {axis = 1, fn = "sum"}     steps over registers, lanes and warps; 256 bytes
 *     %p = extract %x, %0 {index = "i"}         SLICE_REGISTERS, no bytes
 *
 * A plan is a function of the op, its layouts and the target.  The passes that run before lowering (smem, barrier,
 * pipeline), inspect and lowering itself read the same plan.  Nothing here emits code. */
#ifndef TEGULA_MODEL_H
#define TEGULA_MODEL_H

#include "model/product.h"
#include "target/target.h"

/* The scope of the barrier that two accesses need between them. */
typedef enum SyncScope { SYNC_NONE, SYNC_WARP, SYNC_BLOCK } SyncScope;

/* Bytes of one element of a tile in a register and in shared memory: bool and packed types 1, pointers 8. */
static inline int
element_bytes(const Type *t)
{
	return t->ptr != PTR_NONE || t->kind == TYPE_TENSOR ? 8 : dtype_tile_size(t->elem);
}

static inline int64_t tile_bytes(const Type *t) { return type_count(t) * element_bytes(t); }

/* plan.c: an op that has scratch fills it, waits at a barrier, and reads it; then the bytes are free. */
typedef struct OpPlan {
	int64_t scratch;                                /* bytes, 0: none; attribute `smem` is their offset */
	SyncScope sync;                                 /* of the barrier between filling scratch and reading it */
	int64_t read_from, read_to;                     /* the bytes that are read after it */
} OpPlan;

OpPlan plan_op(const Op *op, const Target *t);
bool split_put_has(const Op *put, int r);              /* does it put register r? */
/* Where its bytes begin in what a block leaves in memory, and how many those are together. */
int64_t split_put_offset(const Op *put);
/* Does a split_get read its block's shared memory, as a cluster's first does?  Do blocks walk over all programs? */
bool split_gets_own(const Op *get), func_stays(const Func *f);
/* Also what a stream_give leaves, of which a block has one.  Flags of a block: one for each of its warps. */
int64_t split_part_bytes(const Func *f);
enum { STREAM_FLAGS = 32 };
enum { COUNTER_WORDS = 4 };     /* of the counter from which blocks fetch programs: two of 64 bits (lower/across/fetch.c) */
enum { SCRATCH_ROW = 128 };     /* bytes of the banks; each of the groups that run an op (op_groups) has whole rows */
int64_t scratch_of_groups(const Op *op, const Target *t, int groups), scratch_limit(const Op *op, const Target *t);
int64_t scratch_beside(const Op *op, const Target *t, int groups, int64_t others);      /* with ops that need `others` */
/* The constant that a value is (also every element of a tile), seen through broadcasts, reshapes and conversions. */
bool value_constant(const Value *v, int64_t *out);

/* plan_convert.c: a tile's registers from one layout to another */

/* The receiving lane t takes, for its register r,
 *
 *     register  A r + B t + F w     of lane     C r + D t + E w          (w: the warp; + is exclusive or)
 *
 * See plan_shuffle.c. */
typedef struct ShufflePlan {
	F2 from;                                        /* as Convert's, rotated by `rotate` */
	F2 sender;                                      /* G: of the sender's lane bits to its register bits */
	uint64_t rotate[F2_MAX];                        /* P: of the receiver's lane bits to its register bits */
	int nkernel;                                    /* directions that the sender does not know … */
	int bit[F2_MAX];                                /* … the receiver's lane bit for each … */
	uint64_t by[F2_MAX];                            /* … and the registers that it moves by */
} ShufflePlan;

typedef struct ConvertPlan {
	ConvertKind kind;
	F2 from;                                        /* CONVERT_NONE, CONVERT_REGISTERS: see struct Convert */
	ShufflePlan shuffle;                            /* CONVERT_SHUFFLE */
	int64_t scratch;                                /* CONVERT_SHARED */
} ConvertPlan;

void plan_convert(const Layout *src, const Layout *dst, int bytes, ConvertPlan *out);
/* Only its scratch, for elements of `bytes`. */
int64_t convert_scratch(const Layout *src, const Layout *dst, int bytes);
/* The same for a value that an op needs in layout `want`; NULL, or a scalar: any will do. */
int64_t operand_scratch(const Value *v, const Layout *want);
int64_t operands_scratch(const Op *op, const Layout *want);     /* the most that any takes */
/* How the tile lies in scratch. */
Layout convert_shared_layout(const Target *t, const Layout *src, const Layout *dst, int bytes);
/* Does every thread read only what its own warp wrote? */
bool convert_stays_in_warps(const Layout *src, const Layout *dst);

/* Which thread touches which byte: the image of an offset's bit i in the thread's number. */
typedef struct ScratchOwners {
	int n, lanes;                                   /* bits of an offset, of a lane's number */
	bool is_exact;                                  /* else only the warp is known */
	uint32_t thread[F2_MAX];
} ScratchOwners;

/* As an op's scratch is written, or read.  False: not known, or bytes that more than one warp touches. */
bool scratch_owners(const Op *op, const Target *t, bool reads, ScratchOwners *out);
bool buffer_owners(const Layout *held, const Layout *shared, DType elem, bool reads, ScratchOwners *out);
bool plan_shuffle(const Convert *c, const Layout *src, const Layout *dst, ShufflePlan *out);     /* or memory is cheaper */
double plan_shuffles(const ShufflePlan *p, const Layout *src, const Layout *dst);       /* a register: lanes have some */

/* Parts of a column of its `from`: the source's register bits and its lane bits. */
static inline uint64_t
shuffle_register(uint64_t column, const Layout *src)
{
	return column & ((UINT64_C(1) << src->in[IN_REGISTER]) - 1);
}

static inline uint64_t
shuffle_lane(uint64_t column, const Layout *src)
{
	return column >> src->in[IN_REGISTER] & ((UINT64_C(1) << src->in[IN_LANE]) - 1);
}

/* plan_slice.c: extracts */

typedef enum SliceWay {
	SLICE_REGISTERS,                                /* each thread has its elements */
	SLICE_SHUFFLES,                                 /* each warp has them */
	SLICE_SHARED,                                   /* the part goes through scratch */
	SLICE_WHOLE,                                    /* the whole tile does: the part begins anywhere */
} SliceWay;

/* One equation, solved for input bit `bit`: it is `value` and the sum of the input bits in `of`. */
typedef struct Solved {
	int bit;
	uint64_t of, value;
} Solved;

typedef struct SlicePlan {
	SliceWay way;
	const Layout *from;
	uint64_t fixed, at;                             /* the bits of coordinates that are shared, and what they are */
	Solved solved[F2_MAX];
	int n;
	Layout made;                                    /* SLICE_REGISTERS, SLICE_SHUFFLES: of what is picked out */
	int reg[F2_MAX];                                /* the operand's register bit of each of its register bits */
	int64_t scratch;
	int shuffles;                                   /* of a thread */
} SlicePlan;

void plan_slice(const Op *op, SlicePlan *out);
bool slice_is_solved(const SlicePlan *s, int bit);
/* Coordinates of the operand as those of the result. */
uint64_t slice_coordinates(const SlicePlan *s, uint64_t at);

/* plan_move.c */

/* How a thread's tile goes to or from shared memory: passes over the banks of its worst access, and the fewest possible. */
typedef struct BankPlan {
	int bytes;                                      /* of one access of a thread; 0: it does not */
	int passes, least;
} BankPlan;

typedef enum BankUse { BANKS_COPY, BANKS_WRITE, BANKS_READ } BankUse;  /* from memory; from and to registers */
BankPlan plan_banks(const Layout *threads, const Layout *shared, DType elem, BankUse use, const Target *t);
/* The layout for writing where two registers change places by a bit of the lane, if that takes fewer passes. */
Layout plan_spread(const Layout *threads, const Layout *shared, DType elem, const Target *t);
/* Of a get or put, both of whose layouts are known; *matrix: the instruction that moves four matrices, or NULL. */
BankPlan plan_slot(const Op *op, const Target *t, const char **matrix);

/* plan_move.c: shapes, tiles put together and taken apart, scatters, prints */

/* A layout of the result seen as one of the operand, through a reshape, permutation or broadcast. */
Layout view_layout(const Op *op, const Layout *out);
/* The operand's layout from which both results of a split are renamed. */
Layout split_layout(const Op *op);
/* Are all parts of a cat alike, and a power of two of them?  Then each is wanted in cat_layout. */
bool cat_is_even(const Op *op);
Layout cat_layout(const Op *op);
/* What to exchange so that coordinate `axis` is inverted: bits of registers, of lanes, and of warps: false. */
bool flip_exchange(const Op *op, uint64_t *exchange);
/* Bytes of a gather's operand that stand in scratch at once: all of them, or a power of two. */
int64_t gather_piece(const Op *op, const Target *t);

/* An element of a scatter stands in a slot that the machine has atomics for: of u32, u64, f32 or f64. */
DType scatter_slot(const Op *op);
/* Setting: bytes of the owners, after which the values stand if there is room for both. */
int64_t scatter_owner_bytes(const Op *op);
bool scatter_is_apart(const Op *op, const Target *t);

/* An old value that threads besides the first holder need. */
bool atomic_is_shared(const Op *op);

enum { PRINT_EDGE = 3, PRINT_SHORT = 16 };              /* of a longer dimension so many at each end; as in ir/interp */

/* Of operand i of a print: its extents in the source, how many elements of a dimension and of all are shown, and the
 * bytes that those take in scratch. */
const int64_t *print_extents(const Op *op, int i);
int64_t print_shown_along(int64_t extent);
int64_t print_shown(const Op *op, int i);
int64_t print_bytes(const Op *op, int i);

/* plan_access.c: tensors */

/* Which dimension of the tile {index} letter d moves along: of g, the first one. */
void access_dims(const Op *op, int at[KERNEL_RANK]);
/* The layout of a gather's indices, which stand at dimensions at .. at + rank - 1 of the tile. */
Layout access_gather_layout(const Layout *layout, int at, int rank);
int64_t access_scratch(const Op *op, const Layout *layout);
bool access_fill_is_zero(const Op *op);                 /* elements outside of the tensor (masked ones) are 0 */

/* plan_map.c: bulk copies of boxes by tensor maps */

/* Of a launch's arguments: a number and multiples of scalars, symbols and extents. */
enum { LAUNCH_TERMS = 6, WINDOW_RANK = 3 };
typedef struct LaunchSum {
	int64_t number;
	int n;
	struct { int64_t factor; int param, dim; } term[LAUNCH_TERMS];  /* dim -1: the parameter's value */
} LaunchSum;
bool launch_sum_equal(const LaunchSum *a, const LaunchSum *b);

/* One dimension of the images of which a map takes windows (im2col): `count` places, `step` apart, from `lower` on; an
 * access adds up to `reach`. */
typedef struct MapWindow {
	int step;
	LaunchSum lower, count, reach;
} MapWindow;

/* A tensor map without what a launch adds: address, extents, strides.  Fastest dimension first. */
typedef struct TensorMap {
	int param;                                      /* the tensor */
	int elem_bytes, rank;
	int dim[KERNEL_RANK];                           /* of the tensor … */
	int merged[KERNEL_RANK];                        /* … and so many before it, which are one with it */
	int box[KERNEL_RANK];                           /* elements */
	int swizzle;                                    /* 32, 64 or 128 bytes, 0: none */
	bool is_stored, is_added;                       /* boxes go to the tensor, as floats of 32 bits that are added */
	int windows;                                    /* dimensions from 1 on along which a box's box[1] rows go on */
	MapWindow window[WINDOW_RANK];
	/* of the copy, not the map: boxes of a share; blocks or warps that share them out along a dimension; in all; box[0]
	 * of the last box of a row, by a map of its own, 0: as of all; rows of a tile whose last shares have fewer, 0 */
	int boxes[KERNEL_RANK], shares[KERNEL_RANK], ranks, last, uneven;
} TensorMap;

/* NULL: a tensor map can serve what `op` reads, writes or copies, if its slot lies right; else why not ("because"). */
const char *map_reason(const Op *op, const Target *t);
/* The map of a copy or send, by its slot's layout; NULL, or why there is none. */
const char *plan_map(const Op *op, const Target *t, TensorMap *out);
int64_t map_row_brought(const Op *op, int64_t need, int64_t box);       /* of `need` elements, by boxes of so many */
TensorMap map_of_last(const TensorMap *m);              /* that of the last box, which is narrower */
enum { MAP_ROWS = 32 };         /* of a box, where a copy brings other boxes for those outside along the tile's `dim` */
bool map_moves_outside(const Op *op, int dim);
bool map_equal(const TensorMap *a, const TensorMap *b);
Layout slot_layout(const Value *slot);                  /* row by row if it has none */

/* plan_reduce.c: reductions and scans */

/* Hardware bits that move along an axis, the lowest of the axis first. */
typedef struct AxisBits {
	int n;
	InDim in[F2_MAX];
	int bit[F2_MAX];                                /* of that input */
} AxisBits;

/* False if some bit moves along the axis by other than a power of two, or along another dimension as well. */
bool axis_bits(const Layout *l, int axis, AxisBits *out);
/* `l`, or if axis_bits is false of it another layout of the same threads of which it is true. */
Layout axis_layout(const Layout *l, int axis);

/* Consecutive bits of one kind: a step of a reduction. */
typedef struct AxisRun {
	InDim in;
	int n;
	uint8_t bit[F2_MAX];
} AxisRun;

/* An exchange of states between warps through scratch.  A slot is numbered by the lane's bits in `lanes`, then the bits
 * of `group` (warps), then other warps' bits, then the registers in `live`. */
typedef struct WarpExchange {
	uint64_t lanes;                                 /* lane bits that hold different states */
	const AxisRun *group;
	int nlanes, nwarps;
	int slots;                                      /* of one register (log2) */
} WarpExchange;

enum { STATE_MAX = 20 };                                /* registers of a state: tiles of a tuple, flags among them */

typedef enum CombineKind {
	COMBINE_SUM, COMBINE_PROD, COMBINE_MAX, COMBINE_MIN, COMBINE_AND, COMBINE_OR, COMBINE_XOR,
	COMBINE_KEY,                                    /* the greatest i64 */
	COMBINE_PAIR,                                   /* the greatest i64, and with it the least i32 */
	COMBINE_REGION,
} CombineKind;

typedef struct ReducePlan {
	const Op *op;
	CombineKind kind;
	int n;                                          /* registers of a state */
	DType work;                                     /* SUM to XOR: the type that is computed in */
	int bytes[STATE_MAX];                           /* of each */
	bool commutes;                                  /* states may be combined in any order */
	Layout layout;                                  /* of the operands */
	uint64_t live, lanes;                           /* register and lane bits that number the states at first */
	AxisRun run[F2_MAX];
	int nruns;
	int64_t scratch;
} ReducePlan;

void plan_reduce(const Op *op, ReducePlan *out);
WarpExchange warp_exchange(const Layout *l, uint64_t lanes, const AxisRun *group);
/* Where the i'th registers of all states begin in scratch, for nregs states a thread; i = p->n: the bytes in all. */
int64_t warp_exchange_at(const ReducePlan *p, const WarpExchange *x, int i, int nregs);

/* plan_sort.c: sort, topk */
typedef enum SortWay { SORT_REGISTERS, SORT_PARTS } SortWay;
enum { SORT_STATE = 3 };                                /* registers of a state at most */

/* A bit of registers and one of lanes or warps that are exchanged. */
typedef struct SortSwap {
	int reg;
	InDim in;
	int bit;
} SortSwap;

typedef struct LineBit {
	int dim, bit;
} LineBit;

/* Elements whose registers' numbers agree in n bits are a part. */
typedef struct SortParts {
	uint64_t registers;
	int n, low;                                     /* low: bits of the axis that a part has, its lowest */
	LineBit line[F2_MAX];                           /* what else they move: bits of other dimensions */
	int nline, nswap;
	SortSwap swap[F2_MAX];
} SortParts;

typedef struct SortPlan {
	const Op *op;
	DType t;
	int dim;                                        /* along which is sorted */
	Layout entered, layout;                         /* of the operand; parts: `layout` is as after the swaps */
	AxisBits axis;                                  /* in `layout` */
	bool is_wide, keeps_value;                      /* 64-bit keys, the index apart; the element stands in the state */
	bool has_index, has_zero;                       /* below the key: the index; below that whether a zero is -0 */
	int dropped, shift;                             /* low bits of an f32's key that are all 0; of a key in its word */
	int n;                                          /* registers of a state: word or key, index, element */
	int bytes[SORT_STATE];
	int threads;                                    /* of the block */
	uint64_t repeats;                               /* register bits that hold nothing else */
	int kept;                                       /* log2 of the results along the axis */
	Layout result;                                  /* of what is left in registers */
	SortWay way;
	SortParts parts;
	int64_t limit;                                  /* bytes of scratch that there may be */
	int64_t scratch;
} SortPlan;

void plan_sort(const Op *op, const Target *t, SortPlan *out);
/* Bits of the axis above the lowest `kept`, registers first: the order in which runs are halved.  Returns how many. */
int sort_halvings(const SortPlan *p, int *bit);
/* States of each thread that there is room for at once in an exchange between warps. */
int sort_exchange_states(const SortPlan *p);
/* Where register k of `count` states begins in scratch; k = p->n: the bytes in all. */
int64_t sort_state_at(const SortPlan *p, int k, int64_t count);

/* work.c: instructions of a warp for an element of an elementwise op, and those of the slow unit */
double cost_work(const Op *op, double *special);
double cost_joining(const Op *op);                      /* instructions by which a reduction or scan joins two elements */
/* The same file: adds what a product, done so often, uses; returns its latency */
struct ProgramCost;
double cost_product(const Op *op, const Target *target, int warps, double times, struct ProgramCost *out);
/* Is it of a warp and of 8-bit floats, which the assembler converts to f16 on this target? */
bool cost_converts_fp8(const Op *dot, const Target *t);
/* Adds what sorting, the greatest k, or moving elements to where indices say takes a thread of so many; its latency. */
double cost_order(const Op *op, const Target *t, int warps, double elements, double times, struct ProgramCost *out);
double cost_sort(const Op *op, const Target *t, int warps, double times, struct ProgramCost *out);      /* plan_sort.c */
/* Cycles of shared memory that one of warpgroups takes for its operands. */
double cost_product_shared(const Op *op);
/* work.c: adds what an asynchronous copy takes; trips of the loop (or NULL) among which its latency is divided, as it fills
 * a ring's slot while those before it are worked on. */
double cost_copy(const Op *op, const Op *loop, const Target *t, int warps, double times, struct ProgramCost *out);
/* work.c: are copies for trips behind the next one under way while the loop works?  With two slots only the next one's. */
bool cost_copies_ahead(const Op *loop);

/* cost.c: what one program uses, after the whole pipeline; CostFacts: what a launch's sizes say of a function */
typedef struct CostFacts {
	double (*trips)(void *user, const Op *loop);
	double (*taken)(void *user, const Op *branch);  /* the share that its first region has; below 0, NULL: both run */
	double (*sectors)(void *user, const Op *access); /* of a warp's access, on average */
	double (*missed)(void *user, const Op *access); /* the share of them that the first cache does not have */
	double (*vector)(void *user, const Op *access); /* registers of a thread that an instruction moves, on average */
	bool (*windows)(void *user, const Op *read);    /* of interleaved records, whose words channels share */
	void *user;
	struct LineCosts *lines;                        /* gets a row for each line of the source; or NULL */
	bool by_op;                                     /* a row for each op instead */
	double (*atomic_lines)(void *user, const Op *op);  /* of 128 bytes of the tensor that it goes to; 0: not known */
	double once;                                    /* of what is built: a program's share of what blocks do once; 0 */
} CostFacts;

typedef struct ProgramCost {
	int warps, share, joined;                       /* of a program; programs of a block; of a tile (pass batch) */
	bool stays;                                     /* a block runs one program after another */
	double issue, integer;                          /* instructions of a warp; of these the integers' pipe's, if … */
	bool is_counted, is_straight;                   /* … by the thread IR; which has neither loops nor products */
	double special;                                 /* special functions of a thread */
	double shuffles, requests, shared, products;    /* cycles of the multiprocessor, of all warps */
	double atomics;                                 /* the same, of the L2 cache's lines */
	double atomics_once;                            /* of a block that stays, for all its programs */
	double sectors;                                 /* of 32 bytes, between the multiprocessor and the L2 cache */
	double bytes;                                   /* of tiles that memory takes or gives */
	double again, kept, narrow;                     /* of these what loops read again; first; by pieces */
	bool loops, in_step;                            /* trips wait for memory in turn; a block's warps meet in trips */
	double barriers;
	double path, longest;                           /* cycles of latencies, in turn; instructions of the longest trip */
	int registers;                                  /* of a thread, by live ranges of ops: more than there are spill */
	double likely, held;                            /* that ptxas gives it; live in the thread IR; 0: not counted */
	int blocks, given;                              /* of built code: that are resident, registers of a thread; or 0 */
	int64_t shared_bytes;
} ProgramCost;

/* What a line of the source adds to a program's path waits for one of these. */
typedef enum PathPart { PATH_MEMORY, PATH_BARRIER, PATH_EXCHANGE, PATH_PRODUCT, PATH_ARITHMETIC, PATH_PARTS } PathPart;
/* What lies in a slot otherwise than threads have it goes in small pieces: instructions of a thread beyond those of 8 bytes
 * each, of which one joins bytes to words, and passes over the banks of a warp; `bytes` of a thread. */
void cost_pieces(const Op *op, const Target *t, double bytes, double *issue, double *shared);
double cost_narrow(const Op *convert, const Target *t, double *shared);        /* of a conversion's sides: instructions */
double cost_atomics(const TargetRates *r, double sectors, double lines, int lanes);   /* cycles of a warp's access */
double cost_missed(const Op *op, bool placed);         /* the share of sectors that no read near has left in the L1 cache */
double cost_fresh(const Op *op, double vector);         /* overlap/read_overlap.c: the share not made before */
PathPart cost_path_part(const Op *op);                  /* work.c: of what its latency is */
double cost_elements(const Value *v);                     /* elements of v that a thread holds: 1 without a layout */
/* Does the assembler behind make four trips of one? */
bool cost_overlaps(const Op *loop);

typedef struct LineCost {
	int file, line;
	ProgramCost used;                               /* but for what is of the whole program */
	double path[PATH_PARTS];                        /* cycles by which the line's ops move the path's end */
	const Op *op;                                   /* the last of them, … */
	double times, latency;                          /* … how often it is executed, and its own latency */
	double *moved;                                  /* bytes of each parameter's tensor; NULL: of none */
	double memory;                                  /* of device memory, for the whole launch (share_memory) */
	double marks, products;                         /* accesses and shuffles of a warp; products (estimate_issued) */
} LineCost;

typedef struct LineCosts { LineCost *at; int n, cap; } LineCosts;

/* Only on targets that have rates. */
void cost_program(Func *f, const Target *t, const CostFacts *facts, Arena *mem, ProgramCost *out);
/* cost_cpu.c: nanoseconds of a launch on the cpu device, of its module after its passes; of the facts only trips */
double cpu_cost(const Func *f, const CpuRow *row, const CostFacts *facts, double programs);
int live_registers(const Func *f, Arena *mem);          /* live.c: of a thread */
/* The most that tiles take across a reduction; late: of the largest that is read after the first one. */
int live_over_reductions(const Func *f, Arena *mem, int *late);
int live_words(const Value *v);                         /* of a thread, 4 bytes each; 0: made again at each use */

/* bill.c: how long a launch takes */

typedef enum BillPart {
	BILL_MEMORY, BILL_SECTORS, BILL_ATOMICS, BILL_REQUESTS, BILL_ISSUE, BILL_SPECIAL, BILL_SHUFFLES, BILL_SHARED,
	BILL_PRODUCTS, BILL_START, BILL_WAITING,
	BILL_PARTS
} BillPart;

typedef struct Bill {
	double part[BILL_PARTS];                        /* cycles of a multiprocessor for one program */
	double programs;                                /* that the fullest multiprocessor runs */
	double cycles;                                  /* of the launch */
	double launched, path;                          /* programs of the launch, 0: not known; cycles of one alone */
	double each, fill, fewer;                       /* of `cycles`: a program's, the ends; for few warps */
	bool is_straight, in_turn, stays, loops;        /* no loops; memory and waiting in turn; of blocks; in loops */
	int blocks, registers, live, likely, held;      /* that fit; a thread's: given, live, by thread IR beside, alone */
	double spilled, after, behind;                  /* registers that it lacks; arithmetic behind products, its time */
	double reread;                                  /* of device memory: the share of what a loop reads once more */
	double issued;                                  /* instructions of a warp for one program */
	double least, once;                             /* bytes that all schedules move; share of what is once */
	const char *refused;                            /* why there is none, where cycles are below 0; or NULL */
} Bill;

typedef struct LineBill {
	int file, line;
	double part[BILL_PARTS];                        /* as a bill's: over all lines at most what is there */
	const char *wait; double waits[PATH_PARTS];     /* what its ops wait for, mostly; the part of each, 0: not known */
	double marks, products;                         /* the same: SASS has one instruction for each */
} LineBill;

typedef VEC(LineBill) LineBills;

/* cost_simdgroups.c: cycles of a launch whose products are what takes time, on a target with figures, of its module after
 * pass coalesce; below 0: it has no product, or its operands do not fit.  Of the facts only trips; bytes: of tensors. */
double simdgroups_cost(const Func *f, const Target *t, const CostFacts *facts, double programs, double bytes, Bill *out);
void bill_again(Bill *b);                               /* the launch by other parts, but those that products decide */
double cost_bytes(const ProgramCost *c);                /* of device memory, with sectors that are used in part */
/* A row for each line, as shares of the launch's bill. */
void bill_lines(const LineCosts *lines, const Target *t, const Bill *launch, Arena *mem, LineBills *out);
/* False: a block has no room.  `bytes`: of device memory, for the whole launch. */
bool bill_make(const ProgramCost *c, const Target *t, double programs, double bytes, Bill *out);
extern const char *const bill_part_names[BILL_PARTS], *const bill_wait_names[PATH_PARTS];
/* "45.2 us: device memory 30.1, then waiting 28.3, L2 cache 12" */
void bill_print(const Bill *b, const Target *t, Text *out);
void bill_total(const Bill *b, const Target *t, Text *out);     /* how it comes about, in sentences */
/* Of a launch, 0.1 to 99.9 or more: "12.3", "123". */
void bill_put_time(double us, Text *out);
double bill_us(const Bill *b, const Target *t, double cycles);   /* of a part of one program: microseconds of the launch */
double bill_term(const Bill *b, BillPart p);            /* cycles of a part with those that it adds up with */
BillPart bill_most(const Bill *b), bill_bound(const Bill *b);   /* the longest part; by what these add up to */

int min_blocks_per_sm(Func *f, const Target *t, Arena *mem);    /* occupancy.c: on a multiprocessor; 0: not said */
int blocks_by_shared(const Func *f, const Target *t);    /* that a multiprocessor has shared memory for */

#endif
