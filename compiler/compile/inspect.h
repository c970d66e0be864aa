/* What the compiler made of each line that touches memory or multiplies matrices, as figures that people read and
 * `expect` blocks check. */
#ifndef TEGULA_INSPECT_H
#define TEGULA_INSPECT_H

#include "compile/compile.h"
#include "model/model.h"

enum { INSPECT_BLOCKS = 32 };                           /* the most of a multiprocessor, on every target of NVIDIA's */

typedef enum InspectKind {
	INSPECT_ACCESS,
	INSPECT_COPY,
	INSPECT_CONVERT,
	INSPECT_SHARED,
	INSPECT_REDUCE,
	INSPECT_MOVE,                                   /* elements that go from thread to thread */
	INSPECT_BARRIER,
	INSPECT_DOT,
	INSPECT_ROLES
} InspectKind;

/* Sectors that accesses of whole warps took in a run. */
typedef struct InspectCount {
	int64_t n, total, least;                        /* accesses; sectors of all; the fewest for their bytes */
	int64_t programs, of;                           /* that ran, of the grid's */
} InspectCount;

/* Of a tile's elements those that are outside of the tensor, over all programs and trips: edges and padding. */
typedef struct InspectOutside {
	double share;                                   /* 0: none, or not known */
	int dim;                                        /* of the tensor, along which most are */
	double inside, of;                              /* elements of the tile along it: in the tensor, in the mean; all */
} InspectOutside;

typedef struct InspectLine {
	InspectKind kind;
	const Op *op;
	const char *what;                               /* "read x", "convert", "dot m16n8k16.bf16" */
	const Type *tile;                               /* NULL: a barrier's */
	const Layout *layout;                           /* of the threads; NULL: a scalar */
	int bytes, accesses;                            /* of one access of a thread; how many it makes for the tile */
	bool sectors_known;                             /* else its indices are data */
	int touched, least;                             /* 32-byte sectors of a warp's worst access; fewest for its bytes */
	double mean;                                    /* times the fewest, of eight programs; 0: all are alike */
	int again;                                      /* accesses that reads before it have made; -1: parts of all */
	const char *cause;                              /* why it touches more sectors, or is narrow; NULL: neither */
	const InspectCount *counted;                    /* where they are not known: by a run; NULL: there was none */
	const char *tested;                             /* dimensions whose bounds are tested, "0, 1"; "" none */
	BankPlan in, out;                           /* to shared memory, and from it */
	const char *not_ahead;                          /* reads of a loop with copies: why it is none; NULL */
	const char *no_map;                             /* copies by threads: why no tensor map serves them; NULL */
	const char *way;                                /* conversions: "registers", "shuffles", "shared memory" … */
	int64_t smem, smem_bytes;                       /* scratch or buffer: where, and how large; 0 bytes: none */
	SyncScope sync;                                 /* of the barrier between writing scratch and reading it */
	int live_from, live_to;                         /* source lines between which that is needed, whole loops */
	const char *reason;                             /* dots without a matrix instruction: why; else NULL */
	const BarrierPair *pair;                        /* barriers: the accesses that need it; NULL: not known */
	const BarrierPairs *pairs;                      /* with those of the other accesses that need it */
	InspectOutside outside;
	int wider;                                      /* bytes that a thread's access could have; 0: no more */
	double runs, runs_most;                         /* times a program, in the mean and at most; -1: not known */
	int across;                                     /* reductions: warps that hold a row of it together */
	const char *of;                                 /* whose elements it moves, by the source's name; NULL: not known */
} InspectLine;

typedef struct Inspection {
	const Func *f;
	const Target *t;
	VEC(InspectLine) lines;                         /* in order of the text of the tile IR */
	int conversions;                                /* through shared memory */
	int bank_conflicts;                             /* passes beyond the fewest, over all lines */
	bool all_mma, all_wgmma;                        /* every dot by a matrix instruction; of warpgroups */
	int registers, spills, stack;                   /* bytes of the last two; -1: not known */
	Pressure pressure;                              /* an estimate where registers are not known; held 0: none */
	int blocks;                                     /* that a multiprocessor holds at once; 0: not known */
	const char *held_by;                            /* what it has no more of for another block */
	double grid;                                    /* blocks of the launch; 0: not known */
	int asked;                                      /* that it is asked to hold; 0: not said */
	Bill bill;                                      /* by the cost model; cycles 0: none */
	double other;                                   /* cycles, of those, of another kernel of it; 0 */
	double compared;                                /* its cycles as schedules are compared, before there is code */
	LineBills spent;                                /* of it, by each line of the source; none where there is no bill */
	const char *guessed;                            /* lines that say which trips the bill guesses; or NULL */
	const char *chosen;                             /* lines that say what was chosen, and why; or NULL */
} Inspection;

/* What a launch gives for a parameter of a function. */
typedef struct InspectArg {
	bool known;
	int64_t value;                                  /* of a dimension or an integer */
	int64_t dim[KERNEL_RANK], stride[KERNEL_RANK];  /* of a tensor, in elements */
} InspectArg;

/* sectors.c */

/* Those of a kernel's function for the sizes `b`, with tensors of its own. */
InspectArg *inspect_args(const Bound *b, const Func *f, Arena *mem);
/* Sectors of the accesses of `op`, whose threads hold the line's tile as its layout says: fills sectors_known, touched,
 * least and mean. */
void inspect_sectors(const InspectArg *arg, const Op *op, int vector, InspectLine *x);
/* Whole records of a thread (access_records): what of the line follows; false: the access moves none. */
bool inspect_records(InspectLine *x, const Op *op, int bits, const Target *t);
/* Why these are more than the fewest, and why the access is narrow, in words; NULL: neither, or not known. */
const char *inspect_cause(const InspectArg *arg, const Op *op, const Type *tile, const Layout *l, int vector, Arena *mem);
/* Those of its first access in the first program, for a guess: where addresses are not known as many as lanes. */
/* Do elements lie where data says, another for each? */
bool inspect_is_scattered(const InspectArg *arg, const Op *op, const Type *tile, const Layout *l);
double inspect_sectors_first(const InspectArg *arg, const Op *op, const Type *tile, const Layout *l, int vector);

/* inspect.c; inspect_resources: spill.c */

/* Of a function after the whole pipeline of `t`, launched with `arg`, one for each of its parameters; everything lives in
 * mem. */
void inspect_func(const Func *f, const Target *t, const InspectArg *arg, Arena *mem, Inspection *out);
/* What an assembler said: fills registers, spills, stack and blocks. */
/* Warps that a multiprocessor holds at once, which a small grid leaves fewer of, and by what, in words; NULL: all. */
int inspect_warps(const Inspection *x, Text *by);
/* Blocks that the grid has for the fullest multiprocessor; 0: not known. */
int inspect_grid(const Inspection *x);
void inspect_resources(Inspection *x, int registers, int spills, int stack);
/* Has a tile that extent, or the power of two that it is padded to? */
bool inspect_is_tile(const Func *f, int64_t v);
/* Of two kernels of a launch the one before, which makes what the other reads (pass parts, materialize)? */
bool inspect_is_first(const Func *f);
void inspect_print(const Inspection *x, Text *out);
void inspect_details(const InspectLine *x, Text *out);          /* a line's figures in words */
const char *inspect_tensor(const Op *access);                   /* the name of the parameter that it is of */
/* inspect_barrier.c */

/* What one access of a barrier's pair does: "writes", "waits at"; and to what: "bytes 0 to 4095 of shared memory". */
const char *inspect_deed(const Op *op, bool writes);
void inspect_memory(const BarrierPair *p, Text *out);
void inspect_pair(const BarrierPair *p, Text *out);     /* "put of 11:15 writes slots of a, which it reads" */
/* Of all that need a barrier the next ones that are alike, in words, from pair *nth on; false: there are no more. */
bool inspect_conflict(const InspectLine *x, int *nth, Text *out);

/* Barriers of a cluster: around its programs, and around what its blocks share of one; false: it is none. */
bool inspect_cluster(InspectLine *x, const Op *op);

/* outside.c: fills outside and wider of an access or a copy, and runs. */
/* Why a read of `bytes` at once, in a loop whose other tiles are copied some trips ahead, is none of them
 * (pass/async/candidate.c); NULL: it is in no such loop, or it is for another reason. */
const char *inspect_not_ahead(const Op *op, int bytes, Arena *mem);
void inspect_outside(InspectLine *x, const Target *t, const InspectArg *arg);
void inspect_runs(InspectLine *x, const InspectLine *before, const InspectArg *arg);
/* inspect_held.c: appends the tensors whose tiles a buffer or a ring of mbarriers is for, "a, b", to an empty text; none:
 * they are not known.  True: copies go there, or from there; else the mbarriers are for slots that may be filled again. */
bool inspect_held(const Func *f, const Op *owner, Text *out);
const char *inspect_held_by(const Op *owner, Arena *mem);       /* the same; NULL: none */
/* Of mbarriers: does each group of a role wait there at its own number, for its turn? */
bool inspect_orders_groups(const Op *mbarrier);
/* The let, or else the tensor, that a value is made of; "" if several are. */
const char *inspect_name(const Value *v);

#endif
