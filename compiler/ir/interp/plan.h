/* What the files of the interpreter share: how a plan is laid out and what a worker holds.
 *
 *     Func ─ home.c, schedule.c ─► nodes
 *          ─ slot.c ─► registers ─ plan.c ─► steps ─ worker.c ─► runs
 *
 * A value lives in one of three ways, its home:
 *   REG   all elements, row-major, in a register: memory of the worker, reached through a pointer that
 *         loops and branches exchange instead of copying
 *   ONE   a single element in a register stands for all (constants, broadcast scalars)
 *   VIEW  elements that lie elsewhere, perhaps strided, clipped or repeated (reads, permute, broadcast …)
 * Values that only elementwise neighbours use have none: they exist strip by strip inside a group. */
#ifndef TEGULA_INTERP_PLAN_H
#define TEGULA_INTERP_PLAN_H

#include "ir/interp/interp.h"
#include "num/num.h"
#include "ir/ir.h"

enum {
	STRIP = 2048,                                   /* most elements of a strip */
	STRIP_BYTES = 24 << 10,                         /* that the strips of a group may take together */
	GROUP_MAX = 48,                                 /* most ops in a group */
	BIG_TILE = 1 << 16,                             /* elements beyond which nothing is hoisted */
};

typedef struct Step Step;
typedef bool StepFn(Worker *w, const Step *s);          /* false: w->fault is filled */

struct Step {
	StepFn *run;
	const Op *op;                                   /* whose place is reported; may be NULL */
	int site;                                       /* index into Plan.site */
};

typedef struct Code {
	Step **at;
	int n;
} Code;

typedef enum HomeKind { HOME_NONE, HOME_STRIP, HOME_REG, HOME_ONE, HOME_VIEW } HomeKind;

typedef struct Home {
	HomeKind kind;
	bool dense;                                     /* VIEW: always whole and row-major when it is used */
	int reg;                                        /* REG, ONE: register; dense VIEW: where a copy goes; or -1 */
	int view;                                       /* VIEW: index into Worker.view */
	const Type *type;
} Home;

/* Elements of a tile that lie somewhere: index [i, j …] at at + (first + i * stride[0] + …). */
typedef struct View {
	char *at;
	int64_t first;                                  /* in elements; 0 unless packed */
	int64_t stride[MAX_RANK];                       /* in elements */
	int64_t lo[MAX_RANK], hi[MAX_RANK];             /* indices within the tensor; outside is `fill` */
	bool dense;                                     /* whole, row-major, not packed: `at` holds them all */
	bool whole;                                     /* nothing is outside */
	bool packed;                                    /* two elements a byte */
	bool outside;                                   /* every element is */
	const char *fill;                               /* one element */
} View;

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
	Home home;
	int nuses;                                      /* operands that name it */
	bool needs_dense;                               /* some use wants all elements in a row */
	int level;                                      /* 0: once a worker, 1: once a launch, 2: each program */
	int web;                                        /* storage shared with other values, or -1 */
	uint64_t origin;                                /* pointers: parameters they may come from (provenance.c) */
	Value *base;                                    /* VIEW: the value whose storage it looks at, or NULL */
	int from, to;                                   /* live at these points; see slot.c */
	bool escapes;                                   /* used outside the group that computes it */
	struct Node *def;                               /* what computes it; NULL: parameters and region arguments */
	struct Sched *sched;                            /* where it becomes visible */
} ValueInfo;

/* A value handed over at the edge of a region: a loop's start, a yield. */
typedef struct Move {
	Value *src, *dst;
	int temp;                                       /* web to copy through, or -1 */
} Move;

/* One thing to do, in order: an op, or a group of elementwise ops that run strip by strip. */
typedef struct Node {
	Op *op;                                         /* group: the write that ends it, or NULL */
	VEC(Op *) member;                               /* of a group */
	bool is_group, is_scalar;                       /* scalar: one elementwise op on single elements */
	struct Sched *region[2];
	struct Sched *sched;                            /* that it stands in */
	VEC(Move) move;                                 /* of a loop: its start; of a yield: what it gives */
	int pos, end;                                   /* positions in the order; end: after its regions */
} Node;

typedef struct Sched {
	VEC(Node *) node;
	VEC(Node *) open;                               /* groups that still take members */
	Block *block;
	Node *parent;                                   /* the op with the region */
	Node *yield;
	int depth;
} Sched;

typedef struct Span {
	int from, to;
} Span;

typedef struct Web {
	int link;                                       /* of the same storage; own index: a root */
	int64_t size;
	VEC(Span) span;                                 /* points at which it holds something */
	int reg;
} Web;

struct Plan {
	Arena *mem;
	Func *func;
	PlanOptions opt;
	CpuLevel cpu;
	bool plain;                                     /* trace or sanitize: no laziness, no groups */
	bool aliases;                                   /* reads of `in` tensors may be left in place */
	ValueInfo *info;                                /* by Value.id */
	Sched *once, *launch, *body;
	VEC(Web) web;
	VEC(int64_t) reg;                               /* sizes in bytes */
	VEC(const Op *) site;                           /* the op of each step */
	int64_t *reg_at;                                /* offsets in the worker's block */
	int nview;
	int64_t shared;                                 /* bytes of shared buffers */
	int64_t bytes, temp, strips;                    /* of all registers, the largest temporary, strip buffers */
	Code code_once, code_launch, code_body;
	const char *why;
};

struct Worker {
	const Plan *plan;
	char *block;
	size_t mapped;
	char **reg;
	View *view;
	char *temp, *strip, *shared;                    /* shared: buffers and mbarriers; of a role, its parent's */
	struct Flight *flight;                          /* copies under way, in order */
	int64_t groups;                                 /* committed */
	struct Roles *roles;                            /* that it is one of, or NULL */
	bool ready;                                     /* `once` has run */
	const PlanArg *args;
	Shadow *shadow;
	Fault *fault;
	int64_t grid[MAX_AXES], program[MAX_AXES], linear;
	uint64_t rng;
};

static inline int
type_elem_size(const Type *t)
{
	return t->ptr != PTR_NONE || t->kind == TYPE_BUFFER ? 8 : dtype_tile_size(t->elem);
}

static inline ValueInfo *
value_info(const Plan *p, const Value *v)
{
	return &p->info[v->id];
}

static inline Home
value_home(const Plan *p, const Value *v)
{
	return p->info[v->id].home;
}

/* The elements of a REG, a ONE or a dense VIEW. */
static inline char *
home_at(const Worker *w, const Home *h)
{
	return h->kind == HOME_VIEW ? w->view[h->view].at : w->reg[h->reg];
}

static inline int64_t
home_i64(const Worker *w, const Home *h)
{
	return *(const int64_t *)w->reg[h->reg];
}

/* plan.c */
#define STEP(p, op, T, fn) ((T *)step_make((p), (op), sizeof(T), (fn)))
Step *step_make(Plan *p, const Op *op, size_t size, StepFn *run);
void code_push(Plan *p, Code *c, Step *s);
void plan_temp(Plan *p, int64_t bytes);                 /* the step being made wants so much of Worker.temp */
int param_index(const Value *v);                        /* of a parameter of the function, or -1 */
void code_emit(Plan *p, Code *c, const Sched *s);

/* schedule.c */
void schedule_make(Plan *p);
bool region_is_flat(const Block *b);                    /* only elementwise ops, constants and branches of them */

/* home.c */
void homes_find(Plan *p);
bool operand_takes_view(const Op *op, int i);
bool op_is_fused(const Plan *p, const Op *op);          /* elementwise, on tiles: computed in a group */
static inline bool op_is_reshape(OpKind k) { return k == OP_RESHAPE || k == OP_CONVERT; }  /* the same elements in order */
bool op_is_view(OpKind k);                              /* gives a view of its operand */

/* slot.c */
void slots_assign(Plan *p);
bool web_live_after(const Plan *p, int web, int pos);
int web_root(const Plan *p, int web);
int web_reg(const Plan *p, int web);

/* view.c */
void view_dense(View *v, char *at, const Type *t);
void view_finish(View *v, const Type *t);               /* sets dense and whole */
const View *home_view(const Worker *w, const Home *h, View *tmp);
void walk_make(Walk *k, const View *v, const Type *t);
const void *walk_load(const Walk *k, int64_t at, int64_t n, void *buf); /* in place where it can */
void walk_copy(const Walk *k, int64_t at, int64_t n, void *buf);        /* always into buf */
void walk_store(const Walk *k, int64_t at, int64_t n, const void *src);
void view_copy(const View *v, const Type *t, void *out);
void home_copy(const Worker *w, const Home *h, void *out);              /* all elements, row-major */

/* micro.c: one elementwise op on rows of elements */
typedef struct Micro {
	Elem elem;
	int nin, ptr_size;                              /* ptr_add, ptr_diff: bytes that the pointers step by, else 0 */
	DType index;                                    /* ptr_add: type of the distance */
	bool is_diff, perturbs;
} Micro;
void micro_make(Plan *p, Micro *m, const Op *op);
void micro_run(Worker *w, const Micro *m, void *out, const void *const *in, unsigned scalar, int64_t n);

/* group.c */
Step *group_emit(Plan *p, const Node *n);
Step *scalar_emit(Plan *p, const Op *op);

/* control.c */
bool code_run(Worker *w, const Code *c);
Step *control_emit(Plan *p, const Node *n);

/* memory.c, rows.c, pointer.c */
typedef struct TensorAccess {                                 /* a read, write or atomic on a tensor, prepared */
	int param, nd, rank;
	char letter[MAX_RANK];
	Home index[MAX_RANK];
	const Type *tile;                               /* that it moves */
	int64_t extent[MAX_RANK];                       /* p: its extent, by tensor dimension */
	const int64_t *valid;                           /* by dimension of the tile: its extent before padding; or NULL */
	bool gathers;
	int gather_at, gather_rank;                     /* result dimensions that the gather shape takes */
	const Type *gather_type;
} TensorAccess;
void access_make(Plan *p, TensorAccess *a, const Op *op, const Type *tile);
void access_view(const Worker *w, const TensorAccess *a, const char *fill, View *v);
void access_clip(int64_t start, int64_t extent, int64_t size, int64_t *lo, int64_t *hi);
int64_t access_inner(const TensorAccess *a);
int64_t access_rows(const Worker *w, const TensorAccess *a, int64_t *row, int64_t *lo, int64_t *hi, int64_t *stride);
Step *memory_emit(Plan *p, const Node *n);
/* What a copy reads, as a tile of a type, into the register of `out`. */
Step *memory_read_into(Plan *p, const Op *op, const Type *tile, Home out);
Step *pointer_emit(Plan *p, const Op *op);

/* atomic.c */
typedef struct Atomic Atomic;
Atomic *atomic_make(Plan *p, const Op *op, DType t);
void atomic_run(const Atomic *a, void *at, const void *x, const void *y, void *old);

/* flat.c: a region of scalar ops, computed for rows of elements at once */
typedef struct Flat Flat;
Flat *flat_make(Plan *p, const Block *b);
void flat_run(Worker *w, const Flat *f, const char *const *arg, char *const *out, int64_t n);

/* shape.c, fold.c, order.c, product.c, report.c */
Step *shape_emit(Plan *p, const Node *n);
Step *fold_emit(Plan *p, const Node *n);
Step *order_emit(Plan *p, const Op *op);
Step *scatter_emit(Plan *p, const Op *op);
Step *product_emit(Plan *p, const Op *op);
Step *report_emit(Plan *p, const Op *op);
void value_format(const Type *t, const void *data, Text *out);

/* buffer.c: shared memory; roles.c: who runs in a block */
typedef struct Flight Flight;
typedef struct Roles Roles;
Step *buffer_emit(Plan *p, const Op *op);
void flights_drop(Worker *w);                           /* those that nobody waited for */
Step *roles_emit(Plan *p, const Node *n);
void roles_progress(Worker *w);                         /* a phase ended */
bool roles_give_way(Worker *w, const Op *op);           /* let others run; false after a fault */
Worker *worker_clone(const Worker *w);                  /* its registers as they are now; shares memory; NULL: none left */

/* fault.c */
bool fault_at(Worker *w, const Op *op, FaultKind kind, const char *fmt, ...) PRINTF(4, 5);

/* disturb.c */
double accumulation_unit(const Plan *p);
void disturb_sums(Worker *w, double *y, const double *squares, int64_t count, int64_t n);
void disturb_dot(Worker *w, const Dot *d, const double *a, const double *b, double *out, double *temp);

/* provenance.c: which pointer parameters a tile of pointers may come from; a bit each, all: unknown */
void provenance_find(Plan *p);

/* sanitize.c */
typedef enum ShadowUse { SHADOW_READ, SHADOW_WRITE, SHADOW_ATOMIC } ShadowUse;
/* The step is about to use the element of tensor parameter `param` that lies `at` elements from its first. */
bool shadow_tensor(Worker *w, const Step *s, int param, int64_t at, ShadowUse use);
/* … or `size` bytes through a pointer that comes from the parameters `from`: held to their buffers, without shadow memory
 * too.  False: it leaves them. */
bool shadow_pointer(Worker *w, const Step *s, uint64_t from, const void *at, int size, ShadowUse use);
/* May parameter i hold what such pointers point at?  An address made from integers may be of a tensor too. */
bool pointer_may_be_of(const Func *f, uint64_t from, int i);

#endif
