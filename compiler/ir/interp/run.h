/* What the files of the interpreter share: the plan, a worker, and the definitions of the ops.
 *
 *     for (op = body->first; op; op = op->next)           control.c
 *         definition[op->kind](w, op);                    elementwise.c, shape.c, memory.c, fold.c …
 *
 * Every value has a slot: memory of the worker with all its elements, row-major, in the tile format of its dtype.  A
 * definition reads its operands' slots and fills its results'.  Buffers and mbarriers are pointers into shared memory.
 *
 * The fast layer (fast/) gives several values one slot and runs most ops by steps of its own; for the others it calls
 * the definitions. */
#ifndef TEGULA_INTERP_RUN_H
#define TEGULA_INTERP_RUN_H

#include "ir/interp/interp.h"
#include "num/num.h"
#include "ir/ir.h"

typedef struct Fast Fast;
typedef struct View View;
typedef struct Flight Flight;
typedef struct Roles Roles;

struct Plan {
	Arena *mem;
	Func *func;
	PlanOptions opt;
	CpuLevel cpu;                                   /* of num's loops */
	int *slot;                                      /* by Value.id: index into Worker.at; -1: tensors */
	VEC(int64_t) slot_bytes;
	int64_t *slot_offset;                           /* in the worker's block */
	int64_t bytes;                                  /* of all slots */
	int64_t *shared_offset;                         /* by Value.id: of buffers and mbarriers in shared memory */
	int64_t shared_bytes;
	uint64_t *origin;                               /* by Value.id, of pointers: parameters they may come from */
	Fast *fast;                                     /* NULL: every op by its definition */
	const char *why;                                /* an op that cannot run here */
};

struct Worker {
	const Plan *plan;
	char *block;
	size_t mapped;
	char **at;                                      /* by slot: the elements */
	struct Temp *temp;                              /* of the ops that run; see temp_take */
	int ntemps, depth;
	int untraced;                                   /* > 0: in a region whose ops are not traced */
	char *shared;                                   /* buffers and mbarriers; of a role, its parent's */
	Flight *flight;                                 /* of GpuOps: asynchronous copies before their waits, in order */
	int64_t groups;                                 /* … committed */
	Roles *roles;                                   /* … that it is one of, or NULL */
	const PlanArg *args;
	Shadow *shadow;
	Fault *fault;
	int64_t grid[MAX_AXES], program[MAX_AXES], linear;
	uint64_t rng;
	View *view;                                     /* the fast layer's: strided views, strips of groups … */
	char *strip;
	bool has_constants;                             /* … and whether what no launch changes is computed */
};

static inline int
type_elem_size(const Type *t)
{
	return t->ptr != PTR_NONE || t->kind == TYPE_BUFFER ? 8 : dtype_tile_size(t->elem);
}

static inline int64_t
value_bytes(const Value *v)
{
	return type_count(v->type) * type_elem_size(v->type);
}

static inline char *
value_at(const Worker *w, const Value *v)
{
	return w->at[w->plan->slot[v->id]];
}

static inline int64_t
value_i64(const Worker *w, const Value *v)
{
	return *(const int64_t *)value_at(w, v);
}

/* A tile as [outer, n, inner] around an axis. */
typedef struct Axis {
	int64_t outer, n, inner;
} Axis;

static inline Axis
axis_of(const Type *t, int axis)
{
	Axis a = {1, t->extent[axis], 1};

	for (int d = 0; d < axis; d++)
		a.outer *= t->extent[d];
	for (int d = axis + 1; d < t->rank; d++)
		a.inner *= t->extent[d];
	return a;
}

/* control.c: the definitions by op, blocks of ops, control flow */

typedef bool DefineFn(Worker *w, const Op *op);         /* false: w->fault is filled */
#define DEFINE(NAME) bool define_##NAME(Worker *w, const Op *op)
#define DEFINE_AS(NAME, result) DEFINE(NAME) { return result; }
#define OP(NAME, ...) DEFINE(NAME);                     /* elementwise ops have define_elementwise instead */
#include "ir/ops.def"
#undef OP
/* What only the passes of GPUs make: shared memory, copies, mbarriers, roles.  The cpu device has none of it; tests that
 * run a module after these passes bring the definitions (tests/interp/). */
#define IS_OF_GPUS(family) ((family) == FAMILY_BUFFER || (family) == FAMILY_DOT_ASYNC || (family) == FAMILY_ROLES)
struct GpuOps {
	DefineFn *define[OP_COUNT];
	int64_t (*shared_bytes)(const Op *op);          /* of what an op allocates, or 0 */
	void (*end_program)(Worker *w);
};
extern DefineFn *const definition[OP_COUNT];            /* NULL: of GPUs */
static inline bool
op_run(Worker *w, const Op *op)
{
	DefineFn *define = definition[op->kind];

	return (define ? define : w->plan->opt.gpu->define[op->kind])(w, op);
}
bool block_run(Worker *w, const Block *b);
bool fault_at(Worker *w, const Op *op, FaultKind kind, const char *fmt, ...) PRINTF(4, 5);
/* Says it to PlanOptions.ran. */
static inline bool
went_on(Worker *w, const Op *op, int64_t went)
{
	const PlanOptions *opt = &w->plan->opt;
	return !opt->ran || opt->ran(opt->user, op, went) || fault_at(w, op, FAULT_CANCELLED, "it was cancelled");
}

/* plan.c */
int param_index(const Value *v);                        /* of a parameter of the function, or -1 */
int slot_add(Plan *p, int64_t bytes);                   /* 0: only a pointer */

/* worker.c */
/* Memory until the op that runs is done, not initialised; NULL: a fault.  The caller of an op restores w->depth. */
char *temp_take(Worker *w, const Op *op, int64_t bytes);

/* elementwise.c: one elementwise op on rows of elements */
typedef struct Elementwise {
	Elem elem;
	int nin, ptr_size;                              /* ptr_add, ptr_diff: bytes that the pointers step by, else 0 */
	DType index;                                    /* ptr_add: type of the distance */
	bool is_diff, perturbs;
} Elementwise;
bool elementwise_make(const Plan *p, Elementwise *e, const Op *op);     /* false: not on this device */
void elementwise_run(Worker *w, const Elementwise *e, void *out, const void *const *in, unsigned scalar, int64_t n);
bool define_elementwise(Worker *w, const Op *op);

/* shape.c: an op that rearranges.  Index i[] of the result shows index start[d] + step[k] i[k] of the operand, where
 * d = from[k]; from[k] is -1 if no dimension of the operand moves with i[k]. */
typedef struct Rearrangement {
	int from[MAX_RANK], step[MAX_RANK];
	int64_t start[MAX_RANK];
} Rearrangement;
void rearrangement_make(const Worker *w, const Op *op, int result, Rearrangement *r);
bool op_rearranges(OpKind k);
static inline bool op_is_reshape(OpKind k) { return k == OP_RESHAPE || k == OP_CONVERT; }  /* the same elements in order */
void const_element(const Op *op, char one[8]);

/* memory.c: reads, writes and atomics on a tensor */
typedef struct TensorAccess {
	int param, nd, rank;
	char letter[MAX_RANK];
	const Value *index[MAX_RANK];
	const Type *tile;                               /* that it moves */
	int64_t extent[MAX_RANK];                       /* p: its extent, by tensor dimension */
	int merged[MAX_RANK];                           /* dimensions before it that are one with it */
	const int64_t *valid;                           /* by dimension of the tile: its extent before padding; or NULL */
	bool gathers;
	int gather_at, gather_rank;                     /* result dimensions that the gather shape takes */
} TensorAccess;
void access_make(TensorAccess *a, const Op *op, const Type *tile);
int64_t access_extent(const TensorAccess *a, const PlanArg *t, int d);  /* of the tensor, with what is merged with d */
void access_clip(int64_t start, int64_t extent, int64_t size, int64_t *lo, int64_t *hi);
/* What a read or copy takes from its tensor, as a tile of that type; fill: NULL, a scalar or a tile. */
bool tensor_read(Worker *w, const Op *op, const Type *tile, const Value *fill, char *out);
bool tensor_write(Worker *w, const Op *op, const Type *tile, char *x);
bool tensor_atomic(Worker *w, const Op *op, const Type *tile, const char *x, const char *y, char *old);   /* old: or NULL */

/* atomic.c */
typedef struct Atomic {
	int kind, size;
	bool native;                                    /* integers: add, and, or, xor have instructions */
	Elem elem;                                      /* the new value from the old and the operand */
} Atomic;
void atomic_make(Atomic *a, const Plan *p, const Op *op, DType t);
void atomic_run(const Atomic *a, void *at, const void *x, const void *y, void *old);

/* pointer.c */
typedef struct PointerAccess {
	const Value *at, *value, *mask;                 /* value: stored, or what masked elements of a load give */
	int size;                                       /* of an element */
} PointerAccess;
PointerAccess pointer_access(const Op *op);
/* May parameter i hold what pointers from these parameters point at? */
bool pointer_may_be_of(const Func *f, uint64_t from, int i);

/* fold.c */
typedef struct Reduction {                              /* by one of num's functions */
	Reduce how;
	Axis axis;
	bool perturbs;                                  /* what enters the sum, and partial sums */
} Reduction;
void reduction_make(const Plan *p, Reduction *r, const Op *op);
bool reduction_run(Worker *w, const Reduction *r, const Op *op);

enum { MAX_FOLD = 16 };                                 /* tiles; sema's tuples are shorter */
typedef struct Rows {                                   /* a row of each tile */
	char *at[MAX_FOLD];
} Rows;
typedef struct Fold Fold;
/* out[i] = region(a[i], b[i]) of each tile for n elements; out may be a or b. */
typedef bool CombineFn(Worker *w, const Fold *f, const Rows *a, const Rows *b, const Rows *out, int64_t n);
struct Fold {                                           /* by a region */
	const Op *op;
	Axis axis;
	int count, size[MAX_FOLD];                      /* tiles, and bytes of their elements */
	bool reverse, is_flat, in_order;
	CombineFn *combine;
	const void *flat;                               /* of the fast layer's combine */
};
void fold_make(Fold *f, const Op *op);
bool fold_run(Worker *w, const Fold *f);
bool region_is_flat(const Block *b);                    /* only elementwise ops, constants and branches of them */

/* product.c */
typedef struct Product {
	Dot dot;
	bool perturbs;
} Product;
typedef struct Operand {                                /* elements and their strides, by batch, row and column */
	const void *at;
	int64_t stride[3];
} Operand;
void product_make(const Plan *p, Product *d, const Op *op);
/* acc: NULL for zeros. */
bool product_run(Worker *w, const Product *d, const Op *op, Operand a, Operand b, const void *acc, void *out);
Operand operand_dense(const Type *t, const void *at);

/* disturb.c */
double accumulation_unit(const Plan *p);
void disturb_sums(Worker *w, double *y, const double *squares, int64_t count, int64_t n);
void disturb_narrow(Worker *w, double *y, const double *squares, int64_t count, int64_t chunk);
void disturb_dot(Worker *w, const Dot *d, const double *a, const double *b, double *out, double *temp);

/* provenance.c: which pointer parameters a tile of pointers may come from; a bit each, all: unknown */
void provenance_find(Plan *p);

/* sanitize.c */
typedef enum ShadowUse { SHADOW_READ, SHADOW_WRITE, SHADOW_ATOMIC } ShadowUse;
/* The op is about to use the element of tensor parameter `param` that lies `at` elements from its first. */
bool shadow_tensor(Worker *w, const Op *op, int param, int64_t at, ShadowUse use);
/* … or bytes through its operand 0, a pointer; they are held to the buffers that it may come from, without shadow memory
 * too.  False: it leaves them. */
bool shadow_pointer(Worker *w, const Op *op, const void *at, int size, ShadowUse use);

#endif
