/* What makes the cpu device fast; the results are those of the definitions (run.h), to the bit.
 *
 *     Func ─ storage.c, schedule.c ─► nodes ─ liveness.c, regalloc.c ─► slots ─ fast.c ─► steps
 *
 * A value is stored in one of four ways:
 *   SLOT   all elements, row-major, in a slot that values with disjoint live ranges share; loops and branches exchange
 *          the pointers of slots instead of copying
 *   ONE    a single element in a slot stands for all (constants, broadcast scalars)
 *   VIEW   elements that lie elsewhere, perhaps strided, clipped or repeated (reads, permute, broadcast …)
 *   STRIP  elementwise values used by elementwise ops only: they exist strip by strip inside a group
 * What does not depend on the program is computed once a worker or once a launch.  A step holds all that is known
 * beforehand; an op without a step of its own is run by its definition. */
#ifndef TEGULA_INTERP_FAST_H
#define TEGULA_INTERP_FAST_H

#include "ir/interp/run.h"

enum { GROUP_MAX = 48 };                                /* most ops in a group */

typedef struct Step Step;
typedef bool StepFn(Worker *w, const Step *s);          /* false: w->fault is filled */

struct Step {
	StepFn *run;
	const Op *op;
};

typedef struct Code {
	Step **at;
	int n;
} Code;

typedef enum StorageKind { STORE_NONE, STORE_STRIP, STORE_SLOT, STORE_ONE, STORE_VIEW } StorageKind;

typedef struct Storage {
	StorageKind kind;
	bool dense;                                     /* VIEW: always whole and row-major when it is used */
	int slot;                                       /* SLOT, ONE; dense VIEW: a pointer to the elements; else -1 */
	int copy;                                       /* VIEW: slot of the elements where they must be copied, or -1 */
	int view;                                       /* VIEW that is not dense: index into Worker.view */
	const Type *type;
} Storage;

/* Elements of a tile that lie somewhere: index [i, j …] at at + (first + i * stride[0] + …). */
struct View {
	char *at;
	int64_t first;                                  /* in elements; 0 unless packed */
	int64_t stride[MAX_RANK];                       /* in elements */
	int64_t lo[MAX_RANK], hi[MAX_RANK];             /* indices within the tensor; outside is `fill` */
	bool dense;                                     /* whole, row-major, not packed: `at` holds them all */
	bool whole;                                     /* nothing is outside */
	bool packed;                                    /* two elements a byte */
	bool outside;                                   /* every element is */
	const char *fill;                               /* one element */
};

/* A view made ready for walking in row-major order: neighbouring dimensions are merged. */
typedef struct Walk {
	char *at;
	int64_t first;
	int rank, size;
	DType elem;
	bool packed, whole, empty, flat;                /* flat: one run without gaps */
	int64_t extent[MAX_RANK], stride[MAX_RANK], lo[MAX_RANK], hi[MAX_RANK];
	const char *fill;
} Walk;

typedef struct ValueInfo {
	Storage storage;
	bool needs_dense;                               /* some use reads all elements row-major */
	int level;                                      /* 0: once a worker, 1: once a launch, 2: each program */
	int web;                                        /* storage shared with other values, or -1 */
	Value *base;                                    /* VIEW: the value whose storage it looks at, or NULL */
	bool escapes;                                   /* used outside the group that computes it */
	struct Node *def;                               /* what computes it; NULL: parameters and region arguments */
	struct Sched *sched;                            /* where it becomes visible */
} ValueInfo;

/* A value that crosses an edge of control flow: a loop's start, a yield. */
typedef enum MoveKind { MOVE_NONE, MOVE_EXCHANGE, MOVE_COPY } MoveKind;
typedef struct Move {
	Value *src, *dst;
	MoveKind kind;                                  /* NONE: it is there already */
	int temp;                                       /* COPY: web to copy through, or -1 */
} Move;

/* One thing to do, in order: an op, or a group of elementwise ops that run strip by strip. */
typedef struct Node {
	Op *op;                                         /* group: the write that ends it, or NULL */
	VEC(Op *) member;                               /* of a group */
	bool is_group, is_scalar;                       /* scalar: one elementwise op on single elements */
	struct Sched *region[2];                        /* of for, while and if; others run theirs by themselves */
	struct Sched *sched;                            /* that contains it */
	VEC(Move) move;                                 /* of a loop: its start; of a yield: what it gives */
	int pos, end;                                   /* positions in the order; end: after its regions */
} Node;

typedef struct Sched {
	VEC(Node *) node;
	VEC(Node *) open;                               /* groups that still take members */
	Node *parent;                                   /* the op with the region */
	Node *yield;
} Sched;

/* Values that have one slot. */
typedef struct Web {
	int64_t size;
	int from, to;                                   /* its live range; see liveness.c */
	int slot;
} Web;

struct Fast {
	ValueInfo *info;                                /* by Value.id */
	Sched *once, *launch, *body;
	VEC(Node *) order;                              /* of all schedules, by position, a region's after its op */
	int npositions;
	VEC(Web) web;
	int nview;
	int64_t strip_bytes;                            /* of the largest group's strips, or other memory of one step */
	bool aliases;                                   /* reads of `in` tensors may be left in place */
	Code code_once, code_launch, code_body;
};

static inline ValueInfo *
value_info(const Plan *p, const Value *v)
{
	return &p->fast->info[v->id];
}

static inline Storage
storage_of(const Plan *p, const Value *v)
{
	return value_info(p, v)->storage;
}

/* The elements of a SLOT, a ONE or a dense VIEW. */
static inline char *
storage_at(const Worker *w, const Storage *s)
{
	return w->at[s->slot];
}

static inline bool
op_is_fold(OpKind k)
{
	return k == OP_REDUCE_FN || k == OP_SCAN_FN;
}

/* A region that only its op's definition runs, and a region of an elementwise fold: neither is scheduled. */
static inline bool
op_runs_regions(OpKind k)
{
	return op_is_fold(k) || k == OP_ROLES || k == OP_MERGE;
}

/* fast.c: the interface to plan.c and worker.c … */
void fast_open(Plan *p);
bool fast_worker_open(Worker *w);
int64_t fast_strip_bytes(const Plan *p);
bool fast_start(Worker *w);                             /* what a launch and a worker compute once */
bool fast_run(Worker *w);                               /* a program */
/* … and to the others */
#define STEP(p, op, T, fn) ((T *)step_make((p), (op), sizeof(T), (fn)))
Step *step_make(Plan *p, const Op *op, size_t size, StepFn *run);
void strip_want(Plan *p, int64_t bytes);                /* the step being made uses so much of Worker.strip */
void code_emit(Plan *p, Code *c, const Sched *s);
bool code_run(Worker *w, const Code *c);

/* schedule.c */
void schedule_make(Plan *p);

/* storage.c */
void storage_choose(Plan *p);
bool op_is_fused(const Plan *p, const Op *op);          /* elementwise, on tiles: computed in a group */

/* liveness.c: webs, live ranges and moves; regalloc.c: slots for webs */
void liveness_find(Plan *p);
void slots_assign(Plan *p);

/* view.c */
void view_dense(View *v, char *at, const Type *t);
void view_finish(View *v, const Type *t);               /* sets dense and whole */
const View *storage_view(const Worker *w, const Storage *s, View *tmp);
void walk_make(Walk *k, const View *v, const Type *t);
const void *walk_load(const Walk *k, int64_t at, int64_t n, void *buf); /* in place where it can */
void walk_copy(const Walk *k, int64_t at, int64_t n, void *buf);        /* always into buf */
void walk_store(const Walk *k, int64_t at, int64_t n, const void *src);
void view_copy(const View *v, const Type *t, void *out);
void storage_copy(const Worker *w, const Storage *s, void *out);        /* all elements, row-major */

/* view_step.c: ops that give or take views; NULL: no step of its own, or (rearrangements) nothing to do */
Step *rearrange_emit(Plan *p, const Op *op, int result);
Step *iota_emit(Plan *p, const Op *op);
Step *const_emit(Plan *p, const Op *op);
Step *read_emit(Plan *p, const Op *op);
Step *write_emit(Plan *p, const Op *op);
Step *dot_emit(Plan *p, const Op *op);
void access_view(const Worker *w, const TensorAccess *a, const char *fill, View *v);

/* pointer_block.c */
Step *load_emit(Plan *p, const Op *op);
Step *store_emit(Plan *p, const Op *op);

/* group.c */
Step *group_emit(Plan *p, const Node *n);
Step *scalar_emit(Plan *p, const Op *op);

/* flat.c: a region of elementwise ops, computed for rows of elements at once */
const void *flat_make(Plan *p, const Block *b);
CombineFn flat_combine;

/* edge.c */
Step *control_emit(Plan *p, const Node *n);

#endif
