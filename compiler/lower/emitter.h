/* What one thread can be told to do: the interface between lowering, which knows tiles and layouts, and
 * the emitters, which know LLVM IR, Metal text or nothing at all (trace).
 *
 * Values are registers of one thread: small numbers that the emitter gives out.  Control is structured, so that
 * emitters of text never have to rebuild it; a loop's or branch's carried values are given and taken at its
 * ends.  Lowering never asks which emitter it has: it asks the target's bits. */
#ifndef TEGULA_EMITTER_H
#define TEGULA_EMITTER_H

#include "target/target.h"

typedef int Reg;                                        /* a value of one thread; 0 is none */

/* Types of registers.  A pointer is 64 bits wide, or 32 into shared memory. */
typedef enum RegType {
	REG_PRED, REG_I8, REG_I16, REG_I32, REG_I64, REG_F16, REG_BF16, REG_F32, REG_F64, REG_GLOBAL, REG_SHARED,
	REG_TYPES,
} RegType;

typedef enum Space { SPACE_GLOBAL, SPACE_SHARED, SPACE_PARAM } Space;

/* Arithmetic: name, operands.  Lowering sees to it that no divisor is 0 or overflows and that no shift reaches the
 * width.  FMIN and FMAX: a NaN loses to a number, and -0 is less than 0.  FNE and FUNO are true of a NaN, the other
 * comparisons false.  FRCP_FAST, FRSQRT_FAST and EXP2_FAST of REG_F32 may take and give 0 for what is denormal.
 * FMA_SAT, held to 0 .. 1 (a NaN is 0), and those after EXP2_FAST are not of REG_F64.  Integers are of any width; ADD,
 * SUB, AND … of REG_PRED: only AND, OR, XOR, NOT and SELECT. */
#define EMIT_OPS(X)                                                                                \
	X(ADD, 2) X(SUB, 2) X(MUL, 2) X(SDIV, 2) X(UDIV, 2) X(SREM, 2) X(UREM, 2)                  \
	X(AND, 2) X(OR, 2) X(XOR, 2) X(NOT, 1) X(SHL, 2) X(LSHR, 2) X(ASHR, 2)                     \
	X(MULHI_U, 2) X(MULHI_S, 2) X(SMIN, 2) X(SMAX, 2) X(UMIN, 2) X(UMAX, 2)                    \
	X(POPCOUNT, 1) X(CLZ, 1) X(FNEG, 1) X(FABS, 1) X(FADD, 2) X(FSUB, 2) X(FMUL, 2)            \
	X(FDIV, 2) X(FDIV_FAST, 2) X(FMA, 3) X(FMIN, 2) X(FMAX, 2) X(FSQRT, 1) X(FSQRT_FAST, 1)    \
	X(FRSQRT_FAST, 1) X(FRCP_FAST, 1) X(EXP2_FAST, 1) X(LOG2_FAST, 1) X(SIN_FAST, 1)           \
	X(COS_FAST, 1) X(FMA_SAT, 3) X(TANH_FAST, 1) X(FFLOOR, 1) X(FCEIL, 1) X(FROUND, 1) X(FTRUNC, 1)          \
	X(EQ, 2) X(NE, 2) X(SLT, 2) X(SLE, 2) X(ULT, 2) X(ULE, 2) X(FEQ, 2) X(FNE, 2) X(FLT, 2)    \
	X(FLE, 2) X(FUNO, 2) X(SELECT, 3)

typedef enum EmitOp {
#define X(name, n) EMIT_##name,
	EMIT_OPS(X)
#undef X
	EMIT_OPS_COUNT
} EmitOp;

/* How a value becomes another type. */
typedef enum EmitCast {
	CAST_SEXT, CAST_ZEXT, CAST_TRUNC,               /* integers */
	CAST_S2F, CAST_U2F, CAST_F2S, CAST_F2U,         /* to integers: towards zero, saturating, NaN gives 0 */
	CAST_FEXT, CAST_FTRUNC,                         /* floats; to nearest even */
	CAST_BITS,                                      /* same width */
} EmitCast;

typedef enum CacheHint {
	CACHE_NONE, CACHE_STREAM, CACHE_KEEP,
	CACHE_READ_ONLY,                                /* nobody writes it from GRID_WAIT on, or from the start */
	CACHE_VOLATILE,                                 /* from memory each time, and never left out */
} CacheHint;
/* Emitters know these on REG_I32 and REG_I64, ADD also on REG_F16, REG_BF16, REG_F32 and REG_F64, CAS also on REG_I16;
 * lowering makes everything else of CAS.  MIN and MAX are signed. */
typedef enum AtomicKind {
	ATOMIC_ADD, ATOMIC_MIN, ATOMIC_MAX, ATOMIC_UMIN, ATOMIC_UMAX, ATOMIC_AND, ATOMIC_OR, ATOMIC_XOR,
	ATOMIC_EXCHANGE, ATOMIC_CAS,
} AtomicKind;
typedef enum AtomicOrder { ORDER_RELAXED, ORDER_ACQUIRE, ORDER_RELEASE, ORDER_ACQ_REL } AtomicOrder;
typedef enum AtomicScope { SCOPE_GPU, SCOPE_CTA, SCOPE_CLUSTER, SCOPE_SYS } AtomicScope;

typedef enum PrimKind {
#define PRIM(id, text, nin, nout, needs, flags, ptx, msl, simt) PRIM_##id,
#include "lower/prims.def"
#undef PRIM
	PRIM_COUNT
} PrimKind;

enum { CONV = 1 << 0, MEM = 1 << 1 };                   /* flags of prims.def */
enum { TURN_A = 1 << 0, TURN_B = 1 << 1 };              /* of wgmma */

typedef struct PrimInfo {
	const char *text;
	int nin, nout;
	unsigned needs, flags;
	const char *ptx, *msl, *simt;
} PrimInfo;

extern const PrimInfo prim_info[PRIM_COUNT];
RegType prim_result(PrimKind k);                         /* what its results are: REG_I32 or REG_PRED */
extern const int emit_op_operands[EMIT_OPS_COUNT];
extern const char *const emit_op_text[EMIT_OPS_COUNT];
extern const char *const reg_type_text[REG_TYPES];

/* Registers of one thread that a matrix instruction takes and gives. */
typedef struct MmaWords {
	int a, b, c;                                    /* words of operands; elements of the accumulator */
} MmaWords;

MmaWords mma_words(const MmaInfo *i);

/* One memory access of a thread: `n` neighbouring elements of `type` at base + offset bytes. */
typedef struct EmitAccess {
	Space space;
	RegType type;
	int n;                                          /* 1, 2, 4 …: at most vector_bytes together */
	Reg base;                                       /* REG_GLOBAL or REG_SHARED */
	Reg offset;                                     /* REG_I32 or REG_I64 bytes, signed, or 0 */
	int64_t constant;                               /* bytes more */
	int align;                                      /* bytes that the address is known to be a multiple of */
	Reg mask;                                       /* REG_PRED: only where it is true; 0: always */
	CacheHint cache;
	AtomicOrder order;                              /* of atomics */
	AtomicScope scope;
	Reg changes;                                    /* REG_GLOBAL: the one byte that an atomic may change; 0: any */
} EmitAccess;

typedef struct EmitParam {
	const char *name;
	RegType type;
	bool is_read_only, is_aliased;                  /* of a pointer's memory, for the whole launch */
	int align;
	DType elem;                                     /* what a pointer points to */
	int64_t least, most;                            /* of an integer, where most is greater */
} EmitParam;

typedef struct EmitKernel {
	const char *name;
	const EmitParam *param;
	int nparam;
	int threads, min_blocks;                        /* of a block; resident blocks asked for, or 0 */
	int shared_bytes, shared_align;
} EmitKernel;

typedef struct EmitFunction {
	const char *name;
	const RegType *result, *param;
	int nresult, nparam;
} EmitFunction;

typedef struct Emitter Emitter;

struct Emitter {
	const Target *target;
	Arena *mem;
	void *state;
	EmitKernel kernel;                              /* the one begun last, by the name that the device knows */

	/* kernels */
	void (*kernel_begin)(Emitter *e, const EmitKernel *k, Reg *param, Reg *shared);
	void (*kernel_end)(Emitter *e);
	void (*place)(Emitter *e, Place at);            /* of everything until the next one */
	void (*name)(Emitter *e, Reg r, const char *name);      /* a hint for text */

	/* values */
	Reg (*int_const)(Emitter *e, RegType t, int64_t v);
	Reg (*float_const)(Emitter *e, RegType t, double v);
	Reg (*op)(Emitter *e, EmitOp op, Reg a, Reg b, Reg c);
	Reg (*cast)(Emitter *e, EmitCast c, RegType to, Reg a);
	RegType (*type)(Emitter *e, Reg r);
	/* A function without effects, by its name.  False: it must be given first, between function_begin, which gives
	 * its parameters, and function_end; then it can be called.  NULL: all is spelled out where it is wanted. */
	bool (*call)(Emitter *e, const char *name, const Reg *in, int nin, const RegType *type, Reg *out, int nout);
	void (*function_begin)(Emitter *e, const EmitFunction *f, Reg *inside);
	void (*function_end)(Emitter *e, const Reg *result, int n);
	bool calls_math;                                /* functions of f32, by the name of lowering's op; one result */
	Reg (*pack)(Emitter *e, const Reg *v, int n);   /* one REG_I32 of n elements of 32 / n bits, the first lowest */
	void (*unpack)(Emitter *e, Reg word, RegType t, Reg *out, int n);       /* and back */
	/* the index-th (REG_I32, 0 .. n - 1) of constants with these bits, which the code brings along; not of REG_PRED */
	Reg (*lookup)(Emitter *e, RegType t, const int64_t *bits, int n, Reg index);

	/* memory */
	void (*load)(Emitter *e, const EmitAccess *at, Reg *out);       /* where the mask is false: 0 */
	void (*store)(Emitter *e, const EmitAccess *at, const Reg *v);
	/* the old value, where the mask is false 0; ADD of two F16 or BF16 (n is 2): v and the result are packed REG_I32 */
	Reg (*atomic)(Emitter *e, AtomicKind k, const EmitAccess *at, Reg v, Reg compare);
	Reg (*pointer)(Emitter *e, Reg base, Reg offset);       /* base moved by bytes */

	/* control: carried values go in at begin, come out as registers inside, and out of end.  A loop's index goes
	 * from lo up to hi by a positive step, down by a negative one, and not at all by 0.  A while's registers of its
	 * test are good in its body and after it; `after` is what was carried into the test that ended it. */
	/* the index */
	Reg (*loop_begin)(Emitter *e, Reg lo, Reg hi, Reg step, const Reg *init, Reg *inside, int n);
	void (*loop_end)(Emitter *e, const Reg *next, Reg *after, int n);
	void (*while_begin)(Emitter *e, const Reg *init, Reg *inside, int n);
	void (*while_test)(Emitter *e, Reg pred);
	void (*while_end)(Emitter *e, const Reg *next, Reg *after, int n);
	void (*if_begin)(Emitter *e, Reg pred);
	void (*if_else)(Emitter *e, const Reg *then, int n);
	void (*if_end)(Emitter *e, const Reg *otherwise, Reg *after, int n);
	void (*trap)(Emitter *e);

	/* warps and blocks */
	void (*prim)(Emitter *e, PrimKind k, const Reg *in, int nin, const int64_t *imm, int nimm, Reg *out, int nout);
	/* a line of PTX as the source gives it: $0 $1 … are results, then operands; has effects; NULL: the target takes
	 * none */
	void (*inline_ptx)(Emitter *e, const char *text, const Reg *in, int nin, const RegType *type, Reg *out, int nout);
	/* printf's format and values (REG_I32, REG_I64, REG_F64; %s: REG_PRED, as true or false) to the device's output;
	 * NULL: there is none */
	void (*print)(Emitter *e, const char *format, const Reg *v, int n);
	/* an element of a tile that a print with {trace} shows, the print being of that number among its function's,
	 * from 1: v[0] is the element's number in the tile (REG_I32), v[1] its bits (REG_I64), then the program; of one
	 * with {watch}: how many threads come here, the program, and of each tile the count of the thread's elements and
	 * each one's number (-1: padding) and bits; NULL: there is none */
	void (*trace)(Emitter *e, int number, const Reg *v, int n);
	/* operands as the PTX instruction takes them: a and b packed in REG_I32 words (f32 bits for tf32), c and out one
	 * REG_F32 or REG_I32 an element, all in the order of the fragment's registers */
	void (*mma)(Emitter *e, const MmaInfo *i, const Reg *a, const Reg *b, const Reg *c, Reg *out);
	/* begins a warpgroup's instruction: descriptors (REG_I64) of A and B in shared memory, which of them (16-bit
	 * elements) do not lie along K, n / 2 elements of c and out; NULL: not on this target */
	void (*wgmma)(Emitter *e, const WgmmaInfo *i, Reg a, Reg b, unsigned turned, const Reg *c, Reg *out);
	/* after their wait: the values of registers that such instructions were writing; NULL: v itself */
	void (*settle)(Emitter *e, const Reg *v, Reg *out, int n);
};

#endif
