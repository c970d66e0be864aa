/* Ops and tiles made like others: what passes build when they take a kernel apart and put it together again. */
#ifndef TEGULA_DERIVE_H
#define TEGULA_DERIVE_H

#include "ir/ir.h"

/* query.c: what an integer of 32 bits or less is between, by the ops that made it; false: nothing is known. */
bool value_range(const Value *v, int64_t *lo, int64_t *hi);

bool value_is_int(const Value *v, int64_t n);                   /* a constant integer or bool, just that one */
bool op_reads_written(const Func *f, const Op *op);              /* memory that programs write */
bool param_has_rows(const FuncParam *p);                        /* a tensor's last dimension is contiguous */
int param_dim(const FuncParam *p, int rank, int d);             /* the argument's dimension that is d of `rank` here */
bool block_inside(const Block *b, const Block *outer);          /* it or in a region below it */

/* query.c: how blocks of a cluster lie on the grid, and to which of them copies go.  Ranks of four, two along axis 0 and
 * two beside along axis 1, and masks:
 *
 *     0  2        to those of a column: mask = 3 of ranks 0 and 1, 12 of ranks 2 and 3
 *     1  3        to those of a row:    mask = 5 of ranks 0 and 2, 10 of ranks 1 and 3 */
enum { CLUSTER_SIZES = 3 };                             /* 2, 4 and 8 blocks */

/* Blocks whose programs are neighbours: ranks / beside of them along one axis, ranks first, in as many rows as `beside`
 * says along the other of the first two. */
typedef struct Cluster {
	int ranks, along, beside;
} Cluster;

Cluster program_cluster(const Op *program);             /* by {ranks}, {along} and {beside} */
int cluster_on(Cluster c, int axis);                    /* its blocks along an axis of the grid; 1 */
int cluster_apart(Cluster c, int axis);                 /* by how much ranks of neighbours along it differ */
int func_cluster_beside(const Func *f);                 /* Cluster.beside; 1 */

/* Of a copy to blocks of {mask}, which is rank 0's: by how much their ranks differ; 0: not by the same. */
int mask_apart(int64_t mask);
int64_t mask_of_rank(int64_t mask, int rank);           /* the same of another rank */

/* type.c: but for dimensions of one element, which may come and go. */
bool type_same_but_ones(const Type *a, const Type *b);

/* build.c: a parameter behind the others, which move. */
Value *func_add_param(Func *f, const FuncParam *param, const Type *type);

/* What stands for v, by its id. */
static inline Value *
value_mapped(Value *const *map, Value *v)
{
	return map[v->id] ? map[v->id] : v;
}

static inline Value *
value_with_layout(Value *v, const Layout *l)
{
	v->layout = l;
	return v;
}

static inline bool value_is_dot(const Value *v) { return v->def && v->def->kind == OP_DOT; }
static inline bool value_is_tile(const Value *v) { return v->type->kind == TYPE_TILE && v->type->rank > 0; }

/* At the end of the op's region. */
static inline Builder
build_inside(Op *op, int region)
{
	return (Builder){.m = op->home->func->module, .block = op->region[region], .place = op->place};
}

/* The type with a dimension of that extent before dimension d; with dimension d of that extent. */
const Type *type_with_dim(Module *m, const Type *t, int d, int64_t extent);
const Type *type_with_extent(Module *m, const Type *t, int d, int64_t extent);

/* A copy with its regions; operands that `map` has (by Value.id; else NULL) are replaced, and what is new is entered. */
Op *op_clone(Builder *b, const Op *op, Value **map);
const Type **value_types(Value *const *v, int n, Arena *mem);
/* The arguments of `to` stand for those of `from`, which have a map or are replaced, and have their names. */
void block_map_args(const Block *from, Block *to, Value **map);
/* The op of other operands, and of attributes, which may be its own; results are of the types `want`.  They have its place
 * and names and are entered in `map`.  It has no regions. */
Op *op_clone_as(Builder *b, const Op *op, Value *const *in, const Attr *attr, const Type *const *want, Value **map);
/* The same of one result, which has no name. */
Value *build_like(Builder *b, const Op *op, Value *const *in, const Type *want);
/* The access with other operands, index and extents of its ranges; other attributes are its own. */
Op *access_like(Builder *b, const Op *op, Value *const *in, int nin, const char *index, const int64_t *extents, int n);
/* The same, but for operands alone, by n elements from in[1 + d] on along dimension d of the tensor; 0: by that index, or
 * a tile of them. */
Op *access_along(Builder *b, const Op *op, Value *const *in, int d, int64_t n);
/* v takes the place and the name of the op's only result; the op goes. */
void op_become(Op *op, Value *v);

/* A loop from bounds[0] below bounds[1] by bounds[2] that carries n values, of the types and layouts of `init`, and has the
 * attributes of `like` unless that is NULL; a branch with n results of the types and layouts of `like`.  The caller fills
 * their regions and ends them with a yield. */
Op *build_for(Builder *b, Value *const bounds[3], Value *const *init, int n, const Op *like);
Op *build_if(Builder *b, Value *condition, Value *const *like, int n);
Value *build0(Builder *b, OpKind kind, const Type *want);        /* without operands */
Value *build_iota(Builder *b, const Type *t, int axis);
Value *build_permute(Builder *b, Value *v, const int64_t *dims);
/* Of the last two dimensions; of a constant a constant. */
Value *build_exchange(Builder *b, Value *v);
Value *build_reshape(Builder *b, Value *v, int rank, const int64_t *extent);
/* Does the reshape only add and drop dimensions of one element?  Then from[d] is the operand's dimension that d of the
 * result is, or -1. */
bool reshape_from(const Op *op, int from[MAX_RANK]);
/* Dimension d as two, of which the second has that extent. */
Value *build_split_dim(Builder *b, Value *v, int d, int64_t extent);
/* The tile n times along a new dimension d. */
Value *build_stack(Builder *b, Value *v, int d, int64_t n);
/* Along dimension d, so many times: the whole over and over; each element, one after the other. */
Value *build_repeat(Builder *b, Value *v, int d, int64_t times);
Value *build_repeat_each(Builder *b, Value *v, int d, int64_t times);
/* Element i of the last dimension, without that. */
Value *build_element(Builder *b, Value *v, int64_t i);
/* The slot of that number, which is one of the ring's. */
Value *build_slot(Builder *b, Value *ring, Value *number);
/* What changes nothing where `kind` joins it with others: an add, mul, min, max, and, or, xor.  Of floats' min and max NaN,
 * unless NaN wins. */
Value *build_identity(Builder *b, const Type *t, OpKind kind, bool nan_wins);
Value *build_extreme(Builder *b, const Type *t, bool greatest); /* infinite, of floats */
/* A branch without results: what the builder makes, which the caller ends with a yield, is done where the condition is
 * `is`; elsewhere nothing is. */
Builder build_where(Builder *b, Value *condition, bool is);
/* A `while` whose regions have arguments of the types of `init`; the caller fills them. */
Op *build_while(Builder *b, Value *const *init, int n);
/* a / by; a - a / by * by in *rest. */
Value *build_divide(Builder *b, Value *a, Value *by, Value **rest);

/* The op that joins what a reduction or scan of that fn, or an atomic, joins: "sum", "add" … ; OP_COUNT: none alone. */
OpKind fn_kind(const char *fn);
/* Edge e, below OP_EDGES, of what column i of a `for`, `while` or `if` is in turn: its operand or what a region yields
 * becomes a region's argument or the result.  Those of an `if` come twice. */
enum { OP_EDGES = 4 };
void op_edge(const Op *op, int i, int e, Value **from, Value **to);
/* Are both results of equal ops without effects, if their operands are equal? */
bool values_made_alike(const Value *a, const Value *b);
/* Is a region that joins two states the same with these exchanged?  By its shape alone: max(a, b) + c * exp(a - b) and the
 * like are recognised, less regular ones are not. */
bool region_commutes(const Block *region);

/* What is derived from what, by Value.id: is an operand in a forward slice?  Then the results are put there, or taken out.
 * The backward slice is the op and all in b that it is computed from. */
bool op_uses_slice(const Op *op, const bool *slice);
void op_extend_slice(const Op *op, bool *slice, bool is_in);
void op_backward_slice(const Op *op, const Block *b, bool *slice);

bool op_uses(const Op *op, const Value *v);
/* Operands that are v, in the block and the regions below it. */
int value_uses_in(const Value *v, const Block *b);
/* In `first` and the ops behind it in its block, regions entered. */
void value_replace_from(Op *first, const Value *from, Value *to);
/* The op of the same block that uses an op's result alone; NULL. */
Op *value_lone_user(const Value *v);

/* The loop runs from 0 to a multiple of `by`, whatever the launch: none of its trips of that step is cut. */
bool loop_ends_evenly(const Func *f, const Op *loop, int64_t by);

#endif
