/* The thread IR: what one thread of a block does.
 *
 * Lowering records it through the builder below, from tile ops with layouts; then it is simplified once, and writers walk
 * it: LLVM IR for PTX, LLVM IR for this machine, Metal text.  It has a text of its own (print.c, parse.c) and a verifier.
 *
 * A module is one kernel and the functions that it calls.  Values are registers of one thread, each with one type and one
 * defining node (SSA).  Control is structured: a node of kind LOOP, WHILE or IF owns regions, and what these carry is
 * given and yielded at their ends, so that writers of text never rebuild it.  A node is in one region; constants are in
 * none. */
#ifndef TEGULA_THREAD_H
#define TEGULA_THREAD_H

#include "target/target.h"

typedef int Reg;                                        /* a value of one thread; 0 is none */

/* Types of registers.  A pointer is 64 bits wide, or 32 into shared memory. */
typedef enum RegType {
	REG_PRED, REG_I8, REG_I16, REG_I32, REG_I64, REG_F16, REG_BF16, REG_F32, REG_F64, REG_GLOBAL, REG_SHARED,
	REG_TYPES,
} RegType;

typedef enum Space { SPACE_GLOBAL, SPACE_SHARED } Space;

/* Arithmetic: name, word of the text, operands.  Lowering sees to it that no divisor is 0 or overflows and that no
 * shift reaches the width.  FMIN and FMAX: a NaN loses to a number, and -0 is less than 0.  FNE and FUNO are true of
 * a NaN, the other comparisons false.  FRCP_FAST, FRSQRT_FAST and EXP2_FAST of REG_F32 may take and give 0 for what
 * is denormal.  FMA_SAT, held to 0 .. 1 (a NaN is 0), and what is _FAST are not of REG_F64.  Integers are of any
 * width; ADD, SUB, AND … of REG_PRED: only AND, OR, XOR, NOT and SELECT. */
#define THREAD_OPS(X)                                                                                      \
	X(ADD, "add", 2) X(SUB, "sub", 2) X(MUL, "mul", 2) X(SDIV, "sdiv", 2) X(UDIV, "udiv", 2)           \
	X(SREM, "srem", 2) X(UREM, "urem", 2) X(AND, "and", 2) X(OR, "or", 2) X(XOR, "xor", 2)             \
	X(NOT, "not", 1) X(SHL, "shl", 2) X(LSHR, "lshr", 2) X(ASHR, "ashr", 2)                            \
	X(MULHI_U, "mulhi_u", 2) X(MULHI_S, "mulhi_s", 2) X(SMIN, "smin", 2) X(SMAX, "smax", 2)            \
	X(UMIN, "umin", 2) X(UMAX, "umax", 2) X(POPCOUNT, "popcount", 1) X(CLZ, "clz", 1)                  \
	X(FNEG, "fneg", 1) X(FABS, "fabs", 1) X(FADD, "fadd", 2) X(FSUB, "fsub", 2)                        \
	X(FMUL, "fmul", 2) X(FDIV, "fdiv", 2) X(FDIV_FAST, "fdiv_fast", 2) X(FMA, "fma", 3)                \
	X(FMIN, "fmin", 2) X(FMAX, "fmax", 2) X(FSQRT, "fsqrt", 1) X(FSQRT_FAST, "fsqrt_fast", 1)          \
	X(FRSQRT_FAST, "frsqrt_fast", 1) X(FRCP_FAST, "frcp_fast", 1) X(EXP2_FAST, "exp2_fast", 1)         \
	X(LOG2_FAST, "log2_fast", 1) X(SIN_FAST, "sin_fast", 1) X(COS_FAST, "cos_fast", 1)                 \
	X(FMA_SAT, "fma_sat", 3) X(TANH_FAST, "tanh_fast", 1) X(FFLOOR, "ffloor", 1)                       \
	X(FCEIL, "fceil", 1) X(FROUND, "fround", 1) X(FTRUNC, "ftrunc", 1) X(EQ, "eq", 2)                  \
	X(NE, "ne", 2) X(SLT, "slt", 2) X(SLE, "sle", 2) X(ULT, "ult", 2) X(ULE, "ule", 2)                 \
	X(FEQ, "feq", 2) X(FNE, "fne", 2) X(FLT, "flt", 2) X(FLE, "fle", 2) X(FUNO, "funo", 2)             \
	X(SELECT, "select", 3)

typedef enum ThreadOp {
#define X(name, text, n) THREAD_##name,
	THREAD_OPS(X)
#undef X
	THREAD_OPS_COUNT
} ThreadOp;

/* How a value becomes another type. */
typedef enum ThreadCast {
	CAST_SEXT, CAST_ZEXT, CAST_TRUNC,               /* integers */
	CAST_S2F, CAST_U2F, CAST_F2S, CAST_F2U,         /* to integers: towards zero, saturating, NaN gives 0 */
	CAST_FEXT, CAST_FTRUNC,                         /* floats; to nearest even */
	CAST_BITS,                                      /* same width */
} ThreadCast;

typedef enum CacheHint {
	CACHE_NONE, CACHE_STREAM, CACHE_KEEP,
	CACHE_READ_ONLY,                                /* no thread writes it from GRID_WAIT on, or from the start */
	CACHE_VOLATILE,                                 /* from memory each time, and never left out */
} CacheHint;
/* Writers have these on REG_I32 and REG_I64, ADD also on REG_F16, REG_BF16, REG_F32 and REG_F64, CAS also on REG_I16;
 * lowering makes everything else of CAS.  MIN and MAX are signed. */
typedef enum AtomicKind {
	ATOMIC_ADD, ATOMIC_MIN, ATOMIC_MAX, ATOMIC_UMIN, ATOMIC_UMAX, ATOMIC_AND, ATOMIC_OR, ATOMIC_XOR,
	ATOMIC_EXCHANGE, ATOMIC_CAS,
} AtomicKind;
typedef enum AtomicOrder { ORDER_RELAXED, ORDER_ACQUIRE, ORDER_RELEASE, ORDER_ACQ_REL } AtomicOrder;
typedef enum AtomicScope { SCOPE_GPU, SCOPE_CTA, SCOPE_CLUSTER, SCOPE_SYS } AtomicScope;

typedef enum PrimKind {
#define PRIM(id, text, nin, nout, needs, flags, ptx, msl, simt) PRIM_##id,
#include "thread/prims.def"
#undef PRIM
	PRIM_COUNT
} PrimKind;

enum { CONV = 1 << 0, MEM = 1 << 1 };                   /* flags of prims.def */
/* Of wgmma: operands of 16 bits that do not lie along K; A in registers; to the emulator also: the sum begins at 0. */
enum { TRANSPOSE_A = 1 << 0, TRANSPOSE_B = 1 << 1, WGMMA_REGISTERS = 1 << 2, WGMMA_FRESH = 1 << 3 };
enum { WGMMA_WORDS = 4 };                               /* of A in registers, by each thread: 32 bytes of K of 64 rows */

typedef struct PrimInfo {
	const char *text;
	int nin, nout;
	unsigned needs, flags;
	const char *ptx, *msl, *simt;
} PrimInfo;

extern const PrimInfo prim_info[PRIM_COUNT];
RegType prim_result(PrimKind k);                         /* what its results are: REG_I32 or REG_PRED */
extern const int thread_op_operands[THREAD_OPS_COUNT];
extern const char *const thread_op_text[THREAD_OPS_COUNT];
extern const char *const reg_type_text[REG_TYPES];

/* Registers of one thread that a matrix instruction takes and gives. */
typedef struct MmaWords {
	int a, b, c;                                    /* words of operands, or their f64; elements of the accumulator */
	RegType word, acc;                              /* of which types they are */
} MmaWords;

MmaWords mma_words(const MmaInfo *i);

/* Operands of a warpgroup's instruction. */
typedef struct Wgmma {
	const WgmmaInfo *info;
	unsigned flags;                                 /* TRANSPOSE_A, TRANSPOSE_B, WGMMA_REGISTERS */
	const Reg *a;                                   /* a descriptor of shared memory (REG_I64), or REG_I32 words */
	Reg b;                                          /* a descriptor */
	const Reg *c;                                   /* n / 2 elements */
	Reg scale;                                      /* REG_PRED: false, c counts as zeros; 0: it counts */
} Wgmma;

static inline int wgmma_words(unsigned flags) { return flags & WGMMA_REGISTERS ? WGMMA_WORDS : 1; }

/* One memory access of a thread: `n` neighbouring elements of `type` at base + offset bytes. */
typedef struct ThreadAccess {
	Space space;
	RegType type;
	int n;                                          /* 1, 2, 4 …: at most vector_bytes together */
	Reg base;                                       /* REG_GLOBAL or REG_SHARED */
	Reg offset;                                     /* REG_I32 or REG_I64 bytes, signed, or 0 */
	int64_t constant;                               /* bytes more */
	int align;                                      /* bytes that the address is known to be a multiple of */
	Reg mask;                                       /* REG_PRED: only where it is true; 0: always */
	Reg fill;                                       /* of a load: each register where it is false; 0: zero */
	CacheHint cache;
	AtomicOrder order;                              /* of atomics */
	AtomicScope scope;
	Reg changes;                                    /* REG_GLOBAL: the one byte that an atomic may change; 0: any */
} ThreadAccess;

typedef struct ThreadParam {
	const char *name;
	RegType type;
	bool is_read_only, is_aliased;                  /* of a pointer's memory, for the whole launch */
	bool is_map;                                    /* a tensor map; its address (REG_GLOBAL) is for primitives alone */
	int align;
	DType elem;                                     /* what a pointer points to */
	int64_t least, most;                            /* of an integer, where most is greater */
} ThreadParam;

typedef struct ThreadKernel {
	const char *name;
	const ThreadParam *param;
	int nparam;
	int threads, min_blocks;                        /* of a block; resident blocks asked for, or 0 */
	int shared_bytes, shared_align;
	int cluster;                                    /* blocks of a cluster; 0: there are none */
} ThreadKernel;

typedef struct ThreadSignature {
	const char *name;
	const RegType *result, *param;
	int nresult, nparam;
} ThreadSignature;

/* Kinds of nodes, with the word of the text. */
#define THREAD_KINDS(X)                                                                                                  \
	X(PARAM, "param")                               /* of the kernel or a function; op: which */                    \
	X(SHARED, "shared")                             /* where the thread block's shared memory begins */            \
	X(CONST, "const")                                                                                               \
	X(INDEX, "index")                               /* of a loop */                                                 \
	X(CARRIED, "carried")                           /* by a loop, inside of it; op: which */                        \
	X(OP, "op") X(CAST, "cast") X(PACK, "pack") X(UNPACK, "unpack") X(LOOKUP, "lookup") X(POINTER, "pointer")       \
	X(CALL, "call") X(PRIM, "prim") X(LOAD, "load") X(STORE, "store") X(ATOMIC, "atomic") X(MMA, "mma")             \
	X(WGMMA, "wgmma") X(SETTLE, "settle") X(PTX, "ptx") X(PRINT, "print") X(TRACE, "trace")         \
	X(LOOP, "loop") X(WHILE, "while") X(TEST, "test") X(IF, "if")

typedef enum ThreadKind {
#define X(name, text) NODE_##name,
	THREAD_KINDS(X)
#undef X
	NODE_KINDS
} ThreadKind;

/* What is known of an integer: between lo and hi.  `geometry`: made of positions on the grid, extents and numbers that
 * could be such. */
typedef struct ThreadRange {
	int64_t lo, hi;
	bool geometry;
} ThreadRange;

typedef struct ThreadNode ThreadNode;

typedef struct ThreadRegion {
	ThreadNode *owner;                              /* the loop or branch; NULL: the kernel or a function */
	struct ThreadRegion *outer;
	VEC(ThreadNode *) body;
	Reg *arg, *yield;                               /* of a loop the index and what is carried; what comes next */
	int narg, nyield, numbers;                      /* numbers: of values that were available before it */
	Place end;                                      /* in the source */
} ThreadRegion;

/* Of a function without effects, called by its name. */
typedef struct ThreadFunc {
	const char *name;
	const RegType *result, *param;
	int nresult, nparam;
	ThreadRegion *body;                             /* arg: parameters, yield: results */
} ThreadFunc;

struct ThreadNode {
	ThreadKind kind;
	int op;                                         /* ThreadOp, ThreadCast, PrimKind, AtomicKind; or see above; of a
	                                                 * wgmma its flags; of a trace its number */
	int id;                                         /* in order of making, from 0 */
	RegType type;                                   /* of the first result */
	int nin, nout;
	Reg *in, *out;                                  /* of a loop: first, limit, step, then what is carried in */
	ThreadRegion *home, *region[2];
	Place place;
	int64_t i;                                      /* of a constant, integer or pred; of an access or pointer the
	                                                 * bytes that its offset counts, where a target chooses them */
	double f;                                       /* and a float */
	const int64_t *imm;                             /* of a primitive; a lookup's elements as bits */
	int nimm;
	ThreadAccess *at;                               /* of a load, store or atomic: its registers are operands too */
	union {
		const MmaInfo *mma;
		const WgmmaInfo *wgmma;
		const ThreadFunc *function;             /* of a call; NULL: one of the target's own, by `text` */
	};
	const char *text;                               /* of a call; inline PTX; a print's format */
	ThreadRange range;                              /* of an integer result */
};

typedef struct ThreadValue {
	ThreadNode *def;
	int at;                                         /* which result */
	RegType type;
	const char *hint;                               /* a name for readers of text, or NULL */
} ThreadValue;

typedef struct ThreadModule {
	Arena *mem;
	const Target *target;
	ThreadKernel kernel;
	Place place;                                    /* of what the source says first */
	ThreadRegion *body;                             /* arg: the kernel's parameters */
	Reg shared;
	VEC(ThreadFunc *) functions;                    /* each before its callers */
	VEC(ThreadValue) reg;                           /* by Reg - 1 */
	int nnode;
	unsigned kinds;                                 /* 1 << ThreadKind of each node that was made */
} ThreadModule;

static inline ThreadNode *thread_def(const ThreadModule *m, Reg r) { return m->reg.at[r - 1].def; }
static inline RegType thread_type(const ThreadModule *m, Reg r) { return m->reg.at[r - 1].type; }
/* An integer or pred that is known. */
bool thread_const(const ThreadModule *m, Reg r, int64_t *out);
int thread_type_bytes(RegType t);                       /* in memory; REG_PRED 1 */
static inline bool thread_is_float(RegType t) { return t >= REG_F16 && t <= REG_F64; }
static inline bool thread_is_comparison(ThreadOp op) { return op >= THREAD_EQ && op <= THREAD_FUNO; }
/* The first node of a kind, in order of the text; NULL: there is none. */
const ThreadNode *thread_find(const ThreadRegion *r, ThreadKind kind);
/* A wgmma's operands among those of its node, or (in) what stands for these. */
Wgmma thread_wgmma_of(const ThreadNode *n, const Reg *in);
/* Operand i of a node, those of its access first; NULL past the last. */
Reg *thread_operand(ThreadNode *n, int i);
void thread_count_uses(const ThreadRegion *r, int *uses);        /* by register, of a region and those below it */

/* print.c, parse.c, verify.c: the text (docs/thread.md).  A module's text names the files that places are in. */
void thread_module_print(const ThreadModule *m, const Compile *cx, Text *out);
/* Modules of a file, one a kernel; false after errors in cx. */
typedef VEC(ThreadModule *) ThreadModules;
bool thread_modules_parse(Compile *cx, int file, ThreadModules *out);
bool thread_is_text(const char *text, size_t size);     /* rather than tile IR or source */
/* What is wrong with it, in mem; NULL: nothing.  *at: in the text that it was read from, or NOWHERE. */
const char *thread_module_verify(const ThreadModule *m, Arena *mem, const ThreadNode **at);

/* range.c */
ThreadRange thread_range_any(RegType t);
ThreadRange thread_range(const ThreadModule *m, Reg r);

/* trip.c: r (REG_I64) as the sum of what stays in all trips of the innermost loop that is open, and of what does not;
 * false: none is open, or one of them is missing. */
typedef struct ThreadBuilder ThreadBuilder;
bool thread_trip_parts(ThreadBuilder *b, Reg r, Reg *still, Reg *moved);
/* Trips of a loop that lowering makes, as sorts have them; 1: not known. */
double thread_trips(const ThreadModule *m, const ThreadNode *n);

/* late.c: the wait for the grids before goes behind what touches no memory */
void thread_wait_late(ThreadModule *m);
/* and lines of the first group of copies come into the second cache before it, in grids of so many blocks at most */
void thread_fetch_early(ThreadModule *m, int blocks);

/* order.c: an element after the other, where products and what follows hold more registers than there are */
void thread_order(ThreadModule *m);
/* Not where products are under way, in the order of a pipeline, nor around calls, which spill all that is held. */
bool thread_keeps_order(const ThreadRegion *r);

/* live.c: registers of 32 bits that a thread holds at once, estimated; *sums: the most of what matrix instructions give */
int thread_live(const ThreadModule *m, int *sums);
const int *thread_live_at(const ThreadModule *m);        /* by node */
void thread_fit_blocks(ThreadModule *m);                /* as few resident blocks that what is live need not spill */
int *thread_levels(const ThreadModule *m);              /* in how many loops each register's value varies */

/* count.c: instructions of a warp, estimated; `take` is called with those of each node, and how often that is executed.
 * trips: of a loop; of a branch how often it is taken. */
typedef struct ThreadCounter {
	double (*trips)(void *user, const ThreadNode *loop);
	void (*take)(void *user, const ThreadNode *n, double times, double issue);
	void *user;
	double once;                                    /* how often what is in no loop is executed; trips are of that */
} ThreadCounter;
/* Of a warp: all instructions; those of the pipe for integers, comparisons and selections, which begins one every second
 * cycle; exchanges between lanes; and cycles of shared memory, 128 bytes each, without bank conflicts. */
typedef struct ThreadWork { double issue, integer, shuffles, shared; } ThreadWork;
ThreadWork thread_count(const ThreadModule *m, const ThreadCounter *to);

/* sweep.c: leaves out what has no effect and is not used */
void thread_sweep(ThreadModule *m);
bool thread_has_effect(const ThreadNode *n);            /* beside its results */
bool thread_is_pure(const ThreadNode *n);               /* its results are those of its operands alone */

/* build.c: one function for each kind of node, which appends it to the region that is open. */

/* `simplifies`: operations on constants, those that change nothing, those that ranges decide and those whose value is
 * available already (value numbering over the regions that are open) make no node. */
ThreadBuilder *thread_open(Arena *mem, const Target *t, bool simplifies);
ThreadModule *thread_module(ThreadBuilder *b);
/* Registers of the parameters, in the module's region, and of the block's shared memory. */
void thread_kernel(ThreadBuilder *b, const ThreadKernel *k, Reg *param, Reg *shared);
void thread_place(ThreadBuilder *b, Place at);          /* of all nodes until the next one */
void thread_name(ThreadBuilder *b, Reg r, const char *name);
RegType thread_type_of(const ThreadBuilder *b, Reg r);
/* The node that gives it, as which of its results. */
const ThreadNode *thread_node_of(const ThreadBuilder *b, Reg r, int *at);
/* Does its definition dominate the next node? */
bool thread_is_available(const ThreadBuilder *b, Reg r);

Reg thread_int_const(ThreadBuilder *b, RegType t, int64_t v);
Reg thread_float_const(ThreadBuilder *b, RegType t, double v);
Reg thread_op(ThreadBuilder *b, ThreadOp op, Reg x, Reg y, Reg z);
Reg thread_cast(ThreadBuilder *b, ThreadCast c, RegType to, Reg a);
Reg thread_pack(ThreadBuilder *b, const Reg *v, int n); /* one REG_I32 of n elements of 32 / n bits, the first lowest */
void thread_unpack(ThreadBuilder *b, Reg word, RegType t, Reg *out, int n);     /* and back */
/* the index-th (REG_I32, 0 .. n - 1) of constants with these bits, which the code brings along; not of REG_PRED */
Reg thread_lookup(ThreadBuilder *b, RegType t, const int64_t *bits, int n, Reg index);
/* A function without effects, by its name: the target's own (target_has_function) or one made before.  False: neither; it
 * must be made first, between thread_function, which gives its parameters, and thread_function_end. */
bool thread_call(ThreadBuilder *b, const char *name, const Reg *in, int nin, const RegType *type, Reg *out, int nout);
void thread_function(ThreadBuilder *b, const ThreadSignature *f, Reg *inside);
void thread_function_end(ThreadBuilder *b, const Reg *result, int n);

void thread_load(ThreadBuilder *b, const ThreadAccess *at, Reg *out);   /* where the mask is false: 0 */
void thread_store(ThreadBuilder *b, const ThreadAccess *at, const Reg *v);
/* the old value, where the mask is false 0; ADD of two F16 or BF16 (n is 2): v and the result are packed REG_I32 */
/* Of what an atomic operation takes and gives: two elements are one word, or two of f32 (then what it gives is 0). */
RegType thread_atomic_type(const ThreadAccess *at);
Reg thread_atomic(ThreadBuilder *b, AtomicKind k, const ThreadAccess *at, Reg v, Reg compare);
Reg thread_pointer(ThreadBuilder *b, Reg base, Reg offset);     /* base moved by bytes */

/* Control: carried values go in at begin, come out as registers inside, and out of end.  A loop's index goes from lo up to
 * hi by a positive step, down by a negative one, and not at all by 0.  A while's registers of its test are good in its body
 * and after it; `after` is what was carried into the test that ended it. */
Reg thread_loop(ThreadBuilder *b, Reg lo, Reg hi, Reg step, const Reg *init, Reg *inside, int n);       /* the index */
void thread_loop_end(ThreadBuilder *b, const Reg *next, Reg *after, int n);
void thread_while(ThreadBuilder *b, const Reg *init, Reg *inside, int n);
void thread_while_test(ThreadBuilder *b, Reg pred);
void thread_while_end(ThreadBuilder *b, const Reg *next, Reg *after, int n);
void thread_if(ThreadBuilder *b, Reg pred);
void thread_else(ThreadBuilder *b, const Reg *then, int n);
void thread_if_end(ThreadBuilder *b, const Reg *otherwise, Reg *after, int n);

void thread_prim(ThreadBuilder *b, PrimKind k, const Reg *in, int nin, const int64_t *imm, int nimm, Reg *out, int nout);
/* a line of PTX as the source gives it: $0 $1 … are results, then operands; has effects */
void thread_ptx(ThreadBuilder *b, const char *text, const Reg *in, int nin, const RegType *type, Reg *out, int nout);
/* printf's format and values (REG_I32, REG_I64, REG_F64; %s: REG_PRED, as true or false) to the device's output */
void thread_print(ThreadBuilder *b, const char *format, const Reg *v, int n);
/* an element of a tile that a print with {trace} shows, the print being of that number among its function's, from 1: v[0]
 * is the element's number in the tile (REG_I32), v[1] its bits (REG_I64), then the program; of one with {watch}: how many
 * threads come here, the program, and of each tile the count of the thread's elements and each one's number (-1: padding)
 * and bits */
void thread_trace(ThreadBuilder *b, int number, const Reg *v, int n);
/* operands as the PTX instruction takes them: a and b packed in REG_I32 words (f32 bits for tf32), c and out one REG_F32
 * or REG_I32 an element, all in the order of the fragment's registers */
void thread_mma(ThreadBuilder *b, const MmaInfo *i, const Reg *x, const Reg *y, const Reg *c, Reg *out);
/* begins a warpgroup's instruction: descriptors (REG_I64) of A and B in shared memory, which of them (16-bit elements) do
 * not lie along K, n / 2 elements of c and out */
void thread_wgmma(ThreadBuilder *b, const Wgmma *w, Reg *out);
/* after their wait: the values of registers that such instructions were writing */
void thread_settle(ThreadBuilder *b, const Reg *v, Reg *out, int n);

/* rewrite.c: each node in order, its operands being what those before it became.  `choose` may change the node and record
 * others in front of it; the result is a register that holds the node's only one already, or 0: the node stays.  NULL: what
 * stays is simplified as if it were recorded now, and nothing else. */
typedef Reg (*ThreadChoice)(ThreadBuilder *b, ThreadNode *n, void *state);
void thread_rewrite(ThreadModule *m, ThreadChoice choose, void *state);
/* For it: the module that is being rewritten. */
ThreadModule *thread_module_of(ThreadBuilder *b);
/* The offset counts units of so many bytes. */
Reg thread_pointer_by(ThreadBuilder *b, Reg base, Reg offset, int unit);

#endif
