/* The pass driver: runs rows of passes.def in order over a module, asserting needed facts, verifying, dumping and
 * timing.  A pass runs on one function for a target; it prints nothing and decides nothing about whether it runs. */
#ifndef TEGULA_PASS_H
#define TEGULA_PASS_H

#include "ir/ir.h"

typedef struct Target Target;                           /* target/target.h; NULL: the cpu device */

typedef enum PassKind {
#define PASS(name, needs, adds, drops, when, meaning) PASS_##name,
#include "pass/passes.def"
#undef PASS
	PASS_COUNT
} PassKind;

/* passes.def: for which targets a row runs by itself; PASS_ASKED: for none, but PassOptions may ask for it */
enum { PASS_ALL = 1, PASS_GPU = 2, PASS_ASKED = 4 };

typedef struct PassInfo {
	const char *name;
	unsigned needs, adds, drops, when;
	void (*run)(Func *f, const Target *t);
	const char *meaning;
} PassInfo;

extern const PassInfo pass_info[PASS_COUNT];

typedef struct PassOptions {
	const char *only;                               /* comma list: just these, in the order given; NULL: the pipeline */
	const char *skip;                               /* comma list */
	const char *stop_after;                         /* pass name */
	const char *dump;                               /* comma list or "all": the module after each, to dump_to */
	bool verify;                                    /* before and after every pass */
	bool watch;                                     /* pass nan_check runs too */
	bool own_file;                                  /* what stands in another file gets the place of its call */
	const char *source;                             /* what `target` is in the kernel's text; NULL: the target's word */
	Text *dump_to;
	Text *times;                                    /* if not NULL, one line a pass: name, ms, ops before and after */
} PassOptions;

/* False after errors: an unknown pass name in the options (E1001), a target that can't, or (verify) a broken
 * module, which is our mistake and says which pass broke it. */
bool passes_run(Module *m, const Target *t, const PassOptions *opt);
bool pass_is_lowerable(Module *m, const Target *t); /* of tile IR that was read; reports why not */
double now_ms(void);                                    /* of a clock that only goes on */

/* shape/dce.c: dead code goes, and what loops carry for themselves alone. */
void sweep(Func *f);

/* What pass pad made of a tile. */
typedef struct PaddedTile {
	Place place;                                    /* of its op */
	const Type *was, *is;
} PaddedTile;

/* shape/pad.c: of a tile of the op at that place " (160 x 160, padded to 256 x 256)"; "": it is as the source has it. */
const char *pad_text(const Module *m, Place at, const Type *t);

#define PASS(name, needs, adds, drops, when, meaning) void pass_##name(Func *f, const Target *t);
#include "pass/passes.def"
#undef PASS

/* What a fact claims of a function, derived anew, in the file of the pass that adds it (TYPED and LAYOUTS: ir/verify.c).
 * NULL, or what is wrong; *at is the op to blame, or NULL. */
const char *check_padded(Func *f, const Target *t, const Op **at);
const char *check_axes(Func *f, const Target *t, const Op **at);
const char *check_programs(Func *f, const Target *t, const Op **at);
const char *check_staged(Func *f, const Target *t, const Op **at);
const char *check_parted(Func *f, const Target *t, const Op **at);
const char *check_smem(Func *f, const Target *t, const Op **at);
/* coalesce.c: a tile of which a thread would hold so much that passes refuse it; NULL: none. */
const Value *coalesce_too_large(const Func *f, const Target *t);
/* coalesce_warps.c: of a block, by the tiles' sizes; elements of a line that a thread sorts alone. */
int coalesce_warps(const Func *f, const Target *t);
enum { LINE_SHORT = 16 };
/* smem.c: bytes of shared memory that the function takes as it is. */
int64_t smem_bytes(Func *f, const Target *t);
/* What the ops from `first` on, before `end` (NULL: all that come), leave of a block's shared memory before pass
 * smem: beside buffers that are used from there on, mbarriers, and the scratch of these ops. */
int64_t smem_room(const Func *f, const Target *t, const Op *write, const Op *first, const Op *end);
const char *check_synced(Func *f, const Target *t, const Op **at);

/* place/barrier.c: why there is a barrier before an op: the first two accesses found that need it. */
typedef struct BarrierPair {
	const Op *at;                                   /* the op with the barrier */
	const Op *before, *after;                       /* after: of `at`, or in it */
	bool before_writes, after_writes;
	bool is_earlier;                                /* `before` is of an earlier iteration */
	bool is_global;                                 /* else bytes lo .. hi - 1 of shared memory */
	int64_t lo, hi;
} BarrierPair;

typedef struct BarrierPairs {
	BarrierPair *at;
	int n, cap;
} BarrierPairs;

/* Of a function that went through pass barrier. */
BarrierPairs barrier_pairs(const Func *f, const Target *t, Arena *mem);

/* place/distance.c: does each iteration of the loop of that body touch other elements than all before it? */
bool iterations_disjoint(const Op *access, const Block *loop);

/* share/split_find.c: the loop of the function that several blocks can share, whether the source says how its states join,
 * and the op that ends it; NULL: there is none. */
const Op *split_divided(const Func *f, const Target *t, bool *merges, const Op **end);

#endif
