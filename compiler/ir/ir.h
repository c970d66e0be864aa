/* The tile IR: what one program of a grid computes, in structured SSA over whole tiles.
 *
 *     file 0 "softmax.tgl"
 *     kernel @softmax(%x: in f32[R, C], %y: out f32[R, C], %R: dim, %C: dim) grid(row) {
 *         %row = program_id {axis = 0} : i64 @2:10
 *         %0 = const {value = 0} : i64 @5:18
 *         %1 = const {value = -inf} : f32 @5:34
 *         %v = read %x, %row, %0, %1 {index = "ip", extents = [1024]} : f32[1024] @5:13
 *         %2 = reduce %v {fn = "max", axis = 0} : f32 @6:21
 *         %3 = for %lo, %hi, %step, %2 : f32 @7:5 do (%i: i64, %m: f32) {
 *             %4 = add %m, %m : f32
 *             yield %4
 *         }
 *         ... }
 *
 * One table (ops.def) says what each op is called, takes, gives and means.  Control flow is regions: an op owns blocks,
 * each ends in `yield`, and a value is visible in its block after its op and in every region inside.  Types are interned
 * (== compares them).  A tile of rank 0 is a scalar.  Pointers to IR live as long as the module; all is in Compile.mem. */
#ifndef TEGULA_IR_H
#define TEGULA_IR_H

#include "base/base.h"
#include "layout/layout.h"

enum { MAX_RANK = 8, KERNEL_RANK = 5 };                 /* of tiles in references; of tensors and tiles in kernels */
#define MAX_ELEMENTS (INT64_C(1) << 40)                 /* of any tile; a larger result does not infer */

/* type.c */
typedef enum DType {
#define DTYPE(name, text, bits, class, ctype) TY_##name,
#include "ir/dtypes.def"
#undef DTYPE
	DTYPE_COUNT
} DType;

typedef struct DTypeInfo {
	const char *text;
	int bits;
	char class;                                     /* 'B' 'S' 'U' 'F' */
} DTypeInfo;

extern const DTypeInfo dtype_info[DTYPE_COUNT];

static inline bool dtype_is_float(DType t) { return dtype_info[t].class == 'F'; }
static inline bool dtype_is_signed(DType t) { return dtype_info[t].class == 'S'; }
static inline bool dtype_is_unsigned(DType t) { return dtype_info[t].class == 'U'; }
static inline bool dtype_is_int(DType t) { return dtype_is_signed(t) || dtype_is_unsigned(t); }
static inline bool dtype_is_f8(DType t) { return dtype_info[t].class == 'F' && dtype_info[t].bits == 8; }
static inline bool dtype_is_packed(DType t) { return dtype_info[t].bits < 8; }
int dtype_tile_size(DType t);                           /* bytes of one element in an interpreter tile */
int64_t dtype_bytes(DType t, int64_t n);                /* bytes of n elements in memory; packed: rounded up */
bool dtype_named(const char *text, DType *out);
bool int_fits(DType t, int64_t v);                      /* v is a value of the type; of u64 by its bits */
int64_t int_wrap(DType t, int64_t v);                   /* v modulo the type's width, sign- or zero-extended; bool: v & 1 */

typedef enum TypeKind { TYPE_TILE, TYPE_TENSOR, TYPE_BUFFER, TYPE_TOKEN, TYPE_MBARRIER } TypeKind;
typedef enum PtrKind { PTR_NONE, PTR_CONST, PTR_MUT } PtrKind;

/* f32[64, 32], f32 (rank 0), *f32[128] (tile of pointers), tensor<f32[?, 1000]>, and of shared memory
 * buffer<3 x f16[128, 32]>, token, mbarrier<3>.
 * Tile extents are >= 0 (0 only in references of zero-sized examples); a tensor's unknown extent is -1. */
typedef struct Type {
	TypeKind kind;
	DType elem;
	PtrKind ptr;                                    /* tile elements are pointers to elem */
	int rank;
	int64_t extent[MAX_RANK];
	int slots;                                      /* of a buffer, or mbarriers of a ring */
} Type;

typedef struct Module Module;
typedef struct Func Func;
typedef struct Block Block;
typedef struct Op Op;
typedef struct Value Value;
typedef struct AxisInfo AxisInfo;                       /* pass/layout/axis.h */

const Type *type_tile(Module *m, DType elem, int rank, const int64_t *extent);
const Type *type_scalar(Module *m, DType elem);
const Type *type_ptr(Module *m, DType elem, bool mut, int rank, const int64_t *extent);
const Type *type_tensor(Module *m, DType elem, int rank, const int64_t *extent);
const Type *type_buffer(Module *m, DType elem, int slots, int rank, const int64_t *extent);
const Type *type_token(Module *m);
const Type *type_mbarrier(Module *m, int slots);
const Type *type_with_elem(Module *m, const Type *t, DType elem);      /* same shape, plain elements */
const Type *type_with_shape(Module *m, const Type *t, int rank, const int64_t *extent);
int64_t type_count(const Type *t);                      /* elements of a tile; 1 for rank 0; saturates */
bool type_same_shape(const Type *a, const Type *b);
void type_print(const Type *t, Text *out);
const char *type_text(const Type *t, Arena *mem);
const char *extents_text(int rank, const int64_t *extent, Arena *mem);          /* "[32, 64]" */

/* Attributes: small named constants on an op. */
typedef enum AttrName {
#define ATTR(id, name, kind, absent, on, meaning) ATTR_##id,
#include "ir/attrs.def"
	NATTRS
} AttrName;

typedef enum AttrKind { KIND_INT, KIND_FLOAT, KIND_BOOL, KIND_INTS, KIND_TEXT, KIND_ANY } AttrKind;

typedef struct IntList {
	const int64_t *at;
	int n;
} IntList;

typedef struct Attr {
	AttrName name;
	AttrKind kind;                                  /* never KIND_ANY */
	int64_t i;                                      /* INT, BOOL */
	double f;                                       /* FLOAT; reads back to the bit, nan and inf too */
	const char *text;                               /* TEXT, interned */
	IntList ints;                                      /* INTS */
} Attr;

struct Value {
	const Type *type;
	Op *def;                                        /* NULL: a block argument */
	Block *block;                                   /* of a block argument: its block; else the op's home */
	int index;                                      /* which result or argument */
	int nuses;                                      /* operands that name it; kept by build.c */
	const char *name;                               /* the source's name as a hint for printing, or NULL */
	int id;                                         /* dense within a Func after func_number; scratch for passes */
	AxisInfo *axis;                                 /* what is known of it, while Func.has_axes; NULL: not asked yet */
	const Layout *layout;                           /* where it lives (layout_intern); NULL: a scalar, or not known */
};

typedef enum OpKind {
#define OP(name, text, in, out, infer, traits, cost, family, rounding, meaning) OP_##name,
#include "ir/ops.def"
#undef OP
	OP_COUNT
} OpKind;

/* Traits are words; a row of ops.def ORs them. */
enum {
	PURE = 1 << 0,                                  /* no effect, cannot trap: may be moved, merged, dropped */
	ELEM = 1 << 1,                                  /* elementwise: operands and results have one shape */
	COMM = 1 << 2,                                  /* the first two operands may be swapped */
	READS = 1 << 3,                                 /* reads device memory */
	WRITES = 1 << 4,                                /* writes device memory */
	EFFECT = 1 << 5,                                /* must stay (assert, print); ordered with other effects */
	REGION = 1 << 6,                                /* owns regions */
	TERM = 1 << 7,                                  /* ends a block */
	ANYF = 1 << 8,                                  /* elementwise operands must be floats */
	ANYI = 1 << 9,                                  /* elementwise operands must be integers */
	BOOLS = 1 << 10,                                /* elementwise operands may be bools, too */
};

/* The legend of ops.def says what these mean. */
typedef enum OpCost {
	COST_FREE, COST_ALU, COST_SFU, COST_DIVIDE, COST_LONG, COST_ACCESS, COST_WHOLE, COST_NONE, COST_OPAQUE,
} OpCost;

typedef enum OpFamily {
	FAMILY_INDEX, FAMILY_SHAPE, FAMILY_CONVERT, FAMILY_MOVE, FAMILY_ARITH, FAMILY_COMPARE, FAMILY_MATH, FAMILY_CAST,
	FAMILY_LOOKUP, FAMILY_PHILOX, FAMILY_DOT, FAMILY_REDUCE, FAMILY_SCAN, FAMILY_ORDER, FAMILY_GATHER, FAMILY_SCATTER,
	FAMILY_MEMORY, FAMILY_ATOMIC, FAMILY_BUFFER, FAMILY_DOT_ASYNC, FAMILY_ROLES, FAMILY_CONTROL, FAMILY_REPORT,
	FAMILY_PTX,
} OpFamily;

typedef enum Rounding {
	ROUNDING_EXACT, ROUNDING_NEAREST, ROUNDING_ULP, ROUNDING_BY_FN, ROUNDING_BY_TYPE, ROUNDING_SUM, ROUNDING_ANY,
} Rounding;

enum { VAR = -1, STREAM_JOIN_TILES = 3 };               /* ops.def: any number of operands; where its tiles begin */

typedef struct OpInfo {
	const char *name, *text;
	int nin, nout;                                  /* VAR: any number */
	unsigned traits;
	OpCost cost;
	OpFamily family;
	Rounding rounding;
	double ulp[2];                                  /* of ROUNDING_ULP: f32, f64 */
	const char *meaning;
} OpInfo;

extern const OpInfo op_info[OP_COUNT];
bool op_named(const char *text, OpKind *out);
int op_regions(OpKind kind);                            /* how many an op of the kind has */
const char *region_word(OpKind kind, int i);            /* "do", "then" …: what introduces region i; NULL: none */

struct Op {
	OpKind kind;
	Place place;
	Block *home;
	Op *prev, *next;
	int nin, nout, nattr, nregion;
	Value **in;
	Value *out;                                     /* array of nout values */
	Attr *attr;
	Block **region;                                 /* each region is one block that ends in yield */
};

static inline OpFamily op_family(const Op *op) { return op_info[op->kind].family; }
static inline bool op_has(const Op *op, unsigned traits) { return (op_info[op->kind].traits & traits) != 0; }
static inline bool op_is_loop(const Op *op) { return op->kind == OP_FOR || op->kind == OP_WHILE; }
static inline bool op_is_control(const Op *op) { return op_family(op) == FAMILY_CONTROL && op_has(op, REGION); }
static inline bool op_has_fn(const Op *op) { return op_has(op, PURE) && op_has(op, REGION); }      /* reduce_fn, scan_fn */
static inline bool op_is_access(const Op *op) { return op_has(op, READS | WRITES) && !op_has(op, EFFECT); }

struct Block {
	Op *parent;                                     /* NULL: a function's body */
	Func *func;
	Op *first, *last;
	Value *arg;                                     /* array of narg values */
	int narg;
};

typedef enum ParamKind { PARAM_TENSOR, PARAM_POINTER, PARAM_SCALAR, PARAM_DIM } ParamKind;
typedef enum Access { ACCESS_IN, ACCESS_OUT, ACCESS_INOUT, ACCESS_SCRATCH } Access;

/* A parameter is the body block's argument of the same index.  PARAM_DIM is a shape symbol (i64). */
typedef struct FuncParam {
	const char *name;
	ParamKind kind;
	Access access;                                  /* tensor */
	bool is_constant;                               /* tensor `in fixed`: nothing that may still run writes it */
	bool strided, unit;                             /* tensor: strides are free; but that of the last dimension, 1 */
	int64_t apart;                                  /* what the others are multiples of, in elements; 0: not known */
	int last;                                       /* the argument's dimension that stands last, from 1; or 0 */
	int dim[KERNEL_RANK];                           /* tensor: the PARAM_DIM that names this dimension, or -1 */
	int64_t multiple, least, most;                  /* of the address (bytes), the integer; of a dimension; or 0 */
	bool is_fixed;                                  /* dim: compiled as the number that it was, no longer read */
	int64_t dim_multiple[KERNEL_RANK];              /* tensor: the same of a dimension that no symbol names */
	int64_t part_of[KERNEL_RANK], part[KERNEL_RANK];        /* of cdiv(K, 128): K's PARAM_DIM, and 128; 0: other ones */
} FuncParam;

enum { MAX_AXES = 3 };

typedef enum ScheduleName {
#define SCHEDULE(id, name, kind, most, range, meaning) SCHEDULE_##id,
#include "ir/schedule.def"
#undef SCHEDULE
	SCHEDULE_COUNT
} ScheduleName;

enum {
	SPLIT_MOST = 64,                                /* blocks that share a program's loop */
	SPLIT_CLUSTER = 8,                              /* of them in a cluster: as many as any GPU with clusters runs */
};

typedef enum ScheduleKind { SCHEDULE_POWER, SCHEDULE_RANGE, SCHEDULE_SWITCH } ScheduleKind;

/* The compiler's own choice is 0; in a header's schedule (Bound) that of a switch is -1.  Printed after the grid where
 * it is not 0, `warps(4) stages(3)`. */
typedef union Schedule {
	struct {
#define SCHEDULE(id, name, kind, most, range, meaning) int name;
#include "ir/schedule.def"
#undef SCHEDULE
	};
	int at[SCHEDULE_COUNT];
} Schedule;

typedef struct ScheduleInfo {
	const char *text;
	ScheduleKind kind;
	int most;
	const char *range, *meaning;
} ScheduleInfo;
extern const ScheduleInfo schedule_info[SCHEDULE_COUNT];
int schedule_named(const char *name);                   /* -1: there is none */

struct Func {
	const char *name;
	Module *module;
	Place place;
	FuncParam *param;
	int nparam;
	const char *axis[MAX_AXES];                     /* the grid's axes, first fastest */
	int naxis, added, short_axes;                   /* programs of an axis that a pass added; assumption_short_axes */
	Block *body;
	Schedule schedule;
	int64_t shared_bytes;                           /* of a block, set by smem: `shared(12288)` after the schedule */
	int stream;                                     /* blocks of a persistent kernel that share a program, at most; 0 */
	bool is_reference;                              /* whole tensors, f64: no limit on tile sizes, one program */
	int nvalues, nmade;                             /* after func_number; tensors that a kernel before this one makes */
	bool has_axes, no_windows, few_programs, few_joined;    /* axes hold; no windows; 31-bit numbers; if joined */
	double cluster_common;                          /* clusters share this part of what a loop's trip copies */
	const char *split_reason, *parts_reason, *cluster_reason;       /* why no parts of a loop, no clusters; or NULL */
	const char *coarsen_reason, *batch_reason, *slices_reason, *share_reason; /* why one program a time, a whole loop */
	const char *strip_reason, *unroll_reason, *keep_reason, *materialize_reason;    /* why these words change nothing */
	const char *whole_reason, *pingpong_reason, *dynamic_reason, *chain_reason;  /* no roles, groups, counter, skew */
	struct MadeTensor *made;                        /* of the last nmade parameters: model/digits/digits.h */
};

/* What a pass may rely on (facts.def): bits, then their numbers. */
enum {
#define FACT(name, meaning) FACT_##name,
#include "ir/facts.def"
#undef FACT
	FACT_COUNT
};
enum {
#define FACT(name, meaning) name = 1 << FACT_##name,
#include "ir/facts.def"
#undef FACT
};

struct Module {
	Compile *cx;
	VEC(Func *) funcs;
	unsigned facts;
	HashTable types;                                /* interned */
	const Layout **layouts;                         /* likewise; numbered #0, #1 … in text */
	int nlayouts, caplayouts;
	VEC(struct PaddedTile) padded;                  /* tiles, if pass pad has made some larger; for messages */
};

/* type.c: one object for equal layouts, so that == compares them; lives as long as the module. */
const Layout *layout_intern(Module *m, const Layout *l);
Module *module_open(Compile *cx);                       /* freed with cx->mem */

/* build.c: make, insert, replace, erase; uses are counted */

/* Where new ops go: before `before`, or at the end of `block` if NULL. */
typedef struct Builder {
	Module *m;
	Block *block;
	Op *before;
	Place place;                                    /* given to each op made */
	const CallSite *call;                           /* the same, unless NULL */
} Builder;

Func *func_make(Module *m, const char *name, const FuncParam *param, const Type *const *type, int nparam);
Block *block_make(Func *f, Op *parent, const Type *const *arg, int narg);

/* Makes and inserts an op; result types come from infer_types with `want` as the types asked for (needed where operands
 * don't tell: const, cast, reshape, broadcast, read …; else NULL).  An op that does not infer is our mistake: dies. */
Op *op_make(Builder *b, OpKind kind, Value *const *in, int nin, const Attr *attr, int nattr,
    const Type *const *want, int nwant);
/* The same for ops with regions: the caller then fills op->region[i] (blocks made by block_make). */
Op *op_make_regions(Builder *b, OpKind kind, Value *const *in, int nin, const Attr *attr, int nattr,
    const Type *const *want, int nwant, int nregion);
/* Short forms that return the first result. */
Value *build1(Builder *b, OpKind kind, Value *x, const Type *want);
Value *build2(Builder *b, OpKind kind, Value *x, Value *y);
Value *build3(Builder *b, OpKind kind, Value *x, Value *y, Value *z);
Value *build_int(Builder *b, const Type *t, int64_t v);         /* const, of any tile type, of floats too */
Value *build_index(Builder *b, int64_t v);                      /* const, a scalar i64 */
Value *build_float(Builder *b, const Type *t, double v);
Builder build_before(Op *op);                                   /* new ops go before it, from its place in the source */
Op *build_yield(Builder *b, Value *const *in, int nin);

void value_replace(Value *from, Value *to);                     /* every use of from, in the whole function */
void op_replace(Op *op, Op *by);        /* each use of a result is of `by`'s; so are names; op goes */
void op_set_in(Op *op, int i, Value *v), op_move(Op *op, Block *to, Op *before);
void op_erase(Op *op);                                          /* results must be unused */
bool op_inside(const Op *op, const Block *b);                   /* in b or in a region below it */
Op *op_after(const Op *op, const Block *within);        /* next in text order, regions entered; NULL at the end */
/* The first op of block b for which `test` holds, or NULL; is there one?  Regions are entered, or not (HERE). */
#define FIND_OP(op, b, test) FIND_NEXT(op, (b)->first, op_after(op, b), test)
#define FIND_OP_HERE(op, b, test) FIND_NEXT(op, (b)->first, op->next, test)
#define ANY_OP(op, b, test) (FIND_OP(op, b, test) != NULL)
#define ANY_OP_HERE(op, b, test) (FIND_OP_HERE(op, b, test) != NULL)
/* For how many it holds. */
#define COUNT_OPS(op, b, test) COUNT_NEXT(op, (b)->first, op_after(op, b), test)
#define COUNT_OPS_HERE(op, b, test) COUNT_NEXT(op, (b)->first, op->next, test)
/* for (EACH_OP(op, b)): in each turn that op may be erased or moved. */
#define EACH_OP(op, b) EACH_OP_BY(op, b, op_after(op, b))
#define EACH_OP_HERE(op, b) EACH_OP_BY(op, b, op->next)
#define EACH_OP_BY(op, b, then) Op *op = (b)->first, *next_##op; op && (next_##op = (then), true); op = next_##op
void func_number(Func *f);                                      /* dense ids in text order */
typedef VEC(Value *) ValueList;
ValueList func_values(const Func *f, Arena *mem);               /* all, in that order */
/* query.c: what passes and lowering ask of values and ops */
bool value_int(const Value *v, int64_t *n);                     /* a constant integer or bool */
bool value_is_zero(const Value *v);                             /* a constant, of floats too */
bool value_inside(const Value *v, const Block *b);              /* defined in b or in a region below it */
int64_t buffer_slot_bytes(const Op *owner);             /* of an alloc or mbarrier: from a slot to the next */
const Op *buffer_owner(const Value *v);                         /* the alloc or mbarrier of a buffer or a slot; or NULL */
bool op_takes_buffer(const Op *op, const Op *owner);            /* is an operand its buffer, or a slot of it? */
bool access_is_tensor(const Op *op);                            /* else its operand is pointers */
int access_data(const Op *op);                                  /* of a tensor's access: the operand behind the indices */
int access_merged(const Op *op, int d);         /* {merged}: dimensions before d of the tensor that are one with it */
bool access_merges_away(const Op *op, int d);   /* is d one with a dimension behind it? */
Value *access_tile(const Op *op);                               /* what moves, by its layout; or NULL */
Value *access_mask(const Op *op);                               /* of an access through pointers; or NULL */
const Op *block_find(const Block *b, OpKind kind);              /* the first of that kind, regions entered; or NULL */
const Op *func_find(const Func *f, OpKind kind);                /* the same, outside of regions */
const Op *op_roles(const Op *op, int *region);                  /* the roles in whose region it stands; or NULL */
bool op_is_over_programs(const Op *op);                         /* the loop over programs that pass persist makes */
bool loop_steps_up(const Op *loop);                             /* a `for` by a constant above 0 */
Op *func_programs(const Func *f);                               /* that loop; or NULL */
const Op *cluster_program(const Block *b);                      /* the index of a program that clusters run; or NULL */
int op_warps(const Op *op), op_groups(const Op *op);            /* of the role that runs it, or the schedule; 0: open */
bool op_is_grouped_copy(const Op *op);                          /* by threads, which commit groups and wait for them */
bool op_is_bulk_copy(const Op *op);                             /* by one thread: an mbarrier counts its bytes */
bool op_is_counted_copy(const Op *op);                          /* those, and by threads that arrive at an mbarrier then */
int copy_threads(const Op *op), copy_windows(const Op *op);     /* that arrive then; w's of its index but the first */
int func_cluster(const Func *f), func_cluster_axis(const Func *f);      /* its blocks, 1; the grid's axis of them, or -1 */
int func_role_registers(const Func *f);                         /* a thread's, of which roles take shares; 0: none do */
bool tensor_may_be_written(const Func *f, const Value *tensor, const Block *b);         /* by ops of b, or a pointer */
/* Blocks fetch programs from a counter; grid_wait says where grids before are waited for; programs may see the order. */
bool func_is_dynamic(const Func *f), func_waits_late(const Func *f), func_observes_order(const Func *f);
int func_warps(const Func *f);                                  /* of a block: all roles', or the schedule's; 0: open */

/* attr.c: attributes, by attrs.def */

typedef enum AttrOn { ON_ROWS, ON_FLOATS, ON_ANY_OP } AttrOn;

typedef struct AttrInfo {
	const char *text;
	AttrKind kind;
	AttrOn on;                                      /* which ops take it */
	const char *meaning;
} AttrInfo;
extern const AttrInfo attr_info[NATTRS];

typedef struct AttrUse {
	OpKind op;
	AttrName name;
	bool required;
	const char *choices;                            /* of a TEXT: the words allowed, between spaces; NULL: any text */
} AttrUse;
extern const AttrUse attr_use[];
extern const int nattr_use;

bool attr_named(const char *text, AttrName *out);
const Attr *op_attr(const Op *op, AttrName name);               /* NULL if absent */
void op_set_attr(Module *m, Op *op, Attr a);                    /* adds or replaces */
bool ints_same(const IntList *a, const IntList *b);       /* both NULL, too */
bool attr_same(const Attr *a, const Attr *b);
bool attrs_same(const Op *a, const Op *b);                     /* in any order */
IntList ints_copy(Module *m, const int64_t *v, int n);
/* Every attribute taken by the op, of a fitting kind, and all required ones there; else false with a reason. */
bool attrs_check(Module *m, const Op *op, const char **why);
/* "attribute 'axes' is unknown; expected axis, reverse" */
const char *attr_unknown(Module *m, OpKind kind, const char *text);

/* attr_<name>(op): its value, or what stands for one that is absent.  attr_new_<name>(m, v): one to make an op
 * with.  attr_set_<name>(m, op, v) adds or replaces it. */
#define ATTR_MAKE(id, name_, kind_, type, absent, found, given, ...)                                               \
	static inline type attr_##name_(const Op *op)                                                              \
	{                                                                                                          \
		const Attr *a = op_attr(op, ATTR_##id);                                                            \
		return a ? found : absent;                                                                         \
	}                                                                                                          \
	static inline Attr attr_new_##name_(Module *m, __VA_ARGS__)                                                \
	{                                                                                                          \
		return (Attr){.name = ATTR_##id, .kind = kind_, given};                                            \
	}                                                                                                          \
	static inline void attr_set_##name_(Module *m, Op *op, __VA_ARGS__)                                        \
	{                                                                                                          \
		op_set_attr(m, op, (Attr){.name = ATTR_##id, .kind = kind_, given});                               \
	}
#define MAKE_INT(id, name, absent) ATTR_MAKE(id, name, KIND_INT, int64_t, absent, a->i, .i = v, int64_t v)
#define MAKE_BOOL(id, name, absent) ATTR_MAKE(id, name, KIND_BOOL, bool, false, a->i != 0, .i = v, bool v)
#define MAKE_TEXT(id, name, absent) \
	ATTR_MAKE(id, name, KIND_TEXT, const char *, "", a->text, .text = intern(m->cx->names, v), const char *v)
#define MAKE_INTS(id, name, absent) \
	ATTR_MAKE(id, name, KIND_INTS, const IntList *, NULL, &a->ints, .ints = ints_copy(m, v, n), const int64_t *v, int n)
#define MAKE_ANY(id, name, absent)
#define ATTR(id, name, kind, absent, on, meaning) MAKE_##kind(id, name, absent)
#include "ir/attrs.def"
#undef ATTR_MAKE
#undef MAKE_INT
#undef MAKE_BOOL
#undef MAKE_TEXT
#undef MAKE_INTS
#undef MAKE_ANY

/* {value} of a constant */
static inline Attr attr_int_value(int64_t v) { return (Attr){.name = ATTR_VALUE, .kind = KIND_INT, .i = v}; }
static inline Attr attr_bool_value(bool v) { return (Attr){.name = ATTR_VALUE, .kind = KIND_BOOL, .i = v}; }
static inline Attr attr_float_value(double v) { return (Attr){.name = ATTR_VALUE, .kind = KIND_FLOAT, .f = v}; }
static inline const Attr *attr_value(const Op *op) { return op_attr(op, ATTR_VALUE); }
const Attr *value_const(const Value *v);                /* of the constant that v is, or NULL */
int64_t const_int(const Op *op);                        /* of a constant of integers or bools; of floats 0 */

/* infer.c: the rules named in ops.def, used by build, parse and verify alike.  Fills out[0 .. nout), which has room for
 * max(4, nin, nwant) types, or returns false with a reason (in cx->tmp) that names expected and found. */
bool infer_types(Module *m, const Op *op, const Type *const *want, int nwant, const Type **out, int *nout,
    const char **why);

/* print.c, parse.c: the text form; parse(print(m)) prints the same */
void module_print(const Module *m, Text *out);
void op_print(const Op *op, Text *out);                         /* one line, regions left out */
bool name_is_valid(const char *s);                              /* a letter or _, then letters, digits and _ */
extern const char *const access_text[4];                        /* "in" … by Access */

typedef struct FactInfo {
	const char *text, *meaning;
} FactInfo;
extern const FactInfo fact_info[FACT_COUNT];
void facts_print(unsigned facts, const char *between, Text *out);
Module *module_parse(Compile *cx, int file);                    /* NULL after errors (E09xx) */

/* verify.c: structure, types and layouts; pass.c checks the other facts that a module claims.  NULL, or what is wrong and
 * where. */
const char *module_verify(Module *m);
const char *verify_message(Module *m, const char *why, const Op *at);   /* the same text of what another check found */
/* The same; *at is the op to blame, or NULL. */
const char *module_check(Module *m, const Op **at);
/* verify_layout.c: layouts fit their values, and under LAYOUTS each tile has one. */
const char *layouts_check(Func *f, const Op **at);

#endif
