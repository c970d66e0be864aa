/* Inside sema: the walk that turns a checked body into tile IR.  Only sema's own files include this.
 *
 *     kernel.c, elab.c                one body as one function; what is open while it is walked
 *     stmt.c, control.c, loop.c       statements; assigned.c says beforehand what a loop's or a branch's text assigns,
 *                                     region.c makes the blocks
 *     expr.c, operator.c, fn.c        expressions; param.c binds an argument to a parameter's type
 *     value.c, promote.c, shape.c     values, their common types, and the limits of shapes; const.c: exact arithmetic
 *     scope.c                         names
 *     index/, builtin/                x[...]; operations by name
 *
 * Before it: program.c, header/ and check_program.c (sema.h). */
#ifndef TEGULA_ELAB_H
#define TEGULA_ELAB_H

#include "sema/sema.h"

typedef struct Elab Elab;
typedef struct Scope Scope;
typedef struct Binding Binding;
typedef struct Val Val;

/* What an expression came to. */
typedef enum ValKind {
	VAL_POISON,                                     /* already reported: silences what follows */
	VAL_VOID,                                       /* a call that gives nothing */
	VAL_INT,                                        /* compile-time integer: weak, takes the other side's type */
	VAL_BIG,                                        /* the same from 2^63 on: i has the bits of a u64 */
	VAL_FLOAT,                                      /* compile-time float: weak */
	VAL_BOOL,                                       /* compile-time bool */
	VAL_DTYPE,
	VAL_TEXT,                                       /* "text"; also words such as ieee, tf32 */
	VAL_TUPLE,
	VAL_LIST,                                       /* [M, N] */
	VAL_TILE,                                       /* an IR value: scalar, tile, pointer or tile of pointers */
	VAL_TENSOR,                                     /* a tensor parameter, perhaps seen through .T or permute */
	VAL_PART,                                       /* in a loop's merge: the state of another part, items by name */
	VAL_FN,                                         /* a named fn or fn(a, b) => e with where it was written */
} ValKind;

struct Val {
	ValKind kind;
	Place place;                                    /* of the expression it came from */
	int64_t i;                                      /* INT, BIG, BOOL */
	double f;                                       /* FLOAT */
	DType dtype;
	const char *text;
	Val *items;                                     /* TUPLE, LIST, PART */
	const char **names;                             /* PART: of its items */
	int n;
	Value *v;                                       /* TILE: type is v->type; TENSOR: the tensor itself */
	int param;                                      /* TENSOR: index into Kernel.params (and Func.param) */
	int rank;                                       /* TENSOR: of the view (= of the tensor) */
	int perm[KERNEL_RANK];                          /* TENSOR: dimension d of the view is perm[d] of the tensor */
	const Item *fn;                                 /* FN: named */
	const Expr *lambda;                             /* FN: in place */
	Scope *scope;                                   /* FN in place: what it sees */
};

/* One evaluated argument of a builtin call. */
typedef struct CallArg {
	const char *name;                               /* NULL: positional */
	Place place, name_place;
	const Expr *e;                                  /* as written; atomics look at x[...] themselves */
	Val val;                                        /* evaluated, unless the builtin takes it raw */
} CallArg;

struct Elab {
	Compile *cx;
	Program *program;
	Kernel *kernel;                                 /* whose body, reference or example this is */
	const Bound *bound;
	const Bound *header;                            /* this is a header, whose tensors have these extents; else NULL */
	Module *m;
	Func *func;
	Builder b;                                      /* where ops go; b.place is set per statement and expression */
	Scope *scope;
	const char *target;                             /* what `target` is: "cpu" … */
	bool whole;                                     /* reference or example: whole tensors, every float is f64 */
	uint64_t seed;                                  /* example: of its random distributions */
	struct Signature **signature;                   /* call.c: of each builtin that was called; NULL until the first */
	struct Call *spare_calls;                       /* call.c: kept off the stack, which deep nesting needs */
	struct Example *example;                        /* an example's line is being elaborated (whole.c); else NULL */
	int depth;                                      /* nesting and inlining, limited */
	/* statements keep their own state (returns, fn results …) behind this */
	struct StmtState *stmt;
	struct TableBits *tables;                       /* table.c: lists that were read as tables */
	struct Traced *traced;                          /* trace_option.c: which names got values; NULL until the first */
};

/* Is a function or division of floats {fast}, which is `said` so? */
bool elab_fast(const Elab *e, bool said);

/* trace_option.c */

typedef struct Traced Traced;
/* A name has a new value: Compile.observer sees it, and it is printed if --trace names it. */
void trace_value(Elab *e, const char *name, Place at, const Val *v);
void trace_end(Elab *e);                                /* at a kernel's end: an error if nothing was found */

/* value.c: making, converting and matching values */

Val val_poison(Place at);
/* Reports, and is the value that silences what follows. */
#define val_error(e, at, ...) (diag_error((e)->cx, (at), __VA_ARGS__), val_poison(at))
Val val_int(Place at, int64_t i);
Val val_float(Place at, double f);
Val val_bool(Place at, bool b);
Val val_tile(Place at, Value *v);
Val val_tuple(Elab *e, Place at, const Val *items, int n);
static inline bool val_is_poison(const Val *v) { return v->kind == VAL_POISON; }
static inline bool val_is_int(const Val *v) { return v->kind == VAL_INT || v->kind == VAL_BIG; }
static inline bool val_is_pointer(const Val *v) { return v->kind == VAL_TILE && v->v->type->ptr != PTR_NONE; }
static inline bool val_is_const(const Val *v) { return val_is_int(v) || v->kind == VAL_FLOAT || v->kind == VAL_BOOL; }
Val val_uint(Place at, uint64_t u);
bool val_constant(const Val *v, Val *out);               /* of a typed constant, `0 as i64`, the number alone */
double val_float_of(const Val *v);                      /* of a compile-time number */
const char *val_int_text(Compile *cx, const Val *v);    /* its digits, of an integer */
/* "f32[32, 64]", "the integer 3", "a tuple of 2", "the tensor x": for messages. */
const char *val_describe(Elab *e, const Val *v);
/* The dtype that a value has (const: i32, i64 or u64 if too big, f32 or f64 in whole mode, bool). */
DType val_dtype(Elab *e, const Val *v);
bool val_is_number(const Val *v);                       /* const or non-pointer tile */
const Type *val_type(Elab *e, const Val *v);            /* tile type; consts are scalars */

/* The help for a value that would have to be known when compiling. */
void hint_run_time(Elab *e);
/* A value as an IR value: a const becomes a `const` op of dtype `want`; errors if a literal does not fit it. NULL after
 * an error.  The second form chooses val_dtype. */
Value *val_ir_as(Elab *e, const Val *v, DType want);
Value *val_ir(Elab *e, const Val *v);
/* Converts (as implied by promotion, never narrowing kinds silently): inserts `cast` if needed. In whole mode a float
 * dtype means f64. */
Value *ir_cast(Elab *e, Value *v, DType to);
/* The common dtype of two operands by the promotion rules; false (reported) if there is none. */
bool promote2(Elab *e, const Val *a, const Val *b, DType *out);
/* The same of n operands; lists count as their numbers. */
bool promote_all(Elab *e, const Val *in, int n, DType *out);
/* Broadcasts to a shape as NumPy does (aligned right); NULL and an error naming both shapes if impossible. */
Value *ir_broadcast(Elab *e, Value *v, int rank, const int64_t *extent, Place at);
/* The shape that n values broadcast to (what is no tile is a scalar); false after an error that names two shapes. */
/* Grows `extent` so that a value of type t broadcasts to it. */
bool join_shape(int *rank, int64_t *extent, const Type *t);
bool match_shapes(Elab *e, const Val *in, int n, Place at, int *rank, int64_t *extent);
/* Promotes and broadcasts n values to one type and shape, in place of out[]; false after an error. */
bool match_values(Elab *e, const Val *in, int n, Place at, Value **out);

/* Compile-time extraction for arguments; each reports what was expected ("axis must be a compile-time integer") */
bool val_const_int(Elab *e, const Val *v, const char *what, int64_t *out);
/* Over whole tensors a scalar that arithmetic makes of the launch's scalars is known: then the
 * integer, else v itself (constant.c). */
Val val_folded(Elab *e, const Val *v);
bool val_const_bool(Elab *e, const Val *v, const char *what, bool *out);
bool val_const_dtype(Elab *e, const Val *v, const char *what, DType *out);
/* A run-time scalar as i64 (index, loop bound, extent); NULL after an error. */
Value *val_index(Elab *e, const Val *v, const char *what);

/* A compile-time number as a constant of this type; NULL after an error, false: it does not fit. */
Value *val_const_tile(Elab *e, const Val *v, const Type *t);
bool val_literal_fits(Elab *e, const Val *v, DType want);

/* list.c: [1, 2, 3] where an op needs a tile */

typedef struct List {
	VEC(Val) item;                                  /* in row-major order */
	int rank;
	int64_t extent[MAX_RANK];
} List;

bool list_open(Elab *e, const Val *v, Place at, List *l);               /* of a VAL_LIST; false after an error */
Val list_weak(const List *l, Place at);                                 /* the element that decides the type */
Value *list_tile(Elab *e, const List *l, DType t);                      /* NULL after an error */
/* A list of integers or bools becomes a tile of them; false: v is poison. */
bool list_settle(Elab *e, Val *v);
/* Reports that `what` needs something else than it was given; false. */
bool val_wanted(Elab *e, const Val *v, const char *what, const char *expected);

/* shape.c */

/* The most dimensions of a tile. */
static inline int rank_limit(const Elab *e) { return e->whole ? MAX_RANK : KERNEL_RANK; }
bool rank_check(Elab *e, Place at, int rank);                            /* false after an error */
bool val_shape(Elab *e, const Val *v, int *rank, int64_t *extent);      /* [M, N] or one integer, within the limits */
/* Whether a tile may have this shape; reports.  For ops whose result is larger than their operands. */
bool shape_check(Elab *e, Place at, int rank, const int64_t *extent);
const char *shape_text(Elab *e, int rank, const int64_t *extent);       /* "[32, 64]" */
const char *type_shape_text(Elab *e, const Type *t);                    /* of a tile type */
bool type_broadcasts(const Type *t, int rank, const int64_t *extent);   /* aligned right, as NumPy does */

/* expr.c */

Val elab_expr(Elab *e, const Expr *x);                   /* a value, poison after an error */
Val elab_call_or_expr(Elab *e, const Expr *x);           /* the same; VAL_VOID of a call that gives none */
Val elab_binary(Elab *e, BinaryOp op, const Val *a, const Val *b, Place at);    /* also folds consts exactly */
Val elab_unary(Elab *e, UnaryOp op, const Val *a, Place at);
Val elab_cast(Elab *e, const Val *v, DType to, Place at);               /* x as T */
/* Calls a fn value with these arguments; results: a tuple if several.  Used for fn calls, reduce and scan. */
Val elab_call_fn(Elab *e, const Val *fn, const Val *args, const CallArg *named, int n, Place at);

/* const.c: exact compile-time arithmetic */

/* Folds a call of a builtin over compile-time arguments: cdiv floordiv pow2ceil min max abs log2 sqrt exp … True if
 * `name` with n arguments folds (*out may then be poison, reported); builtins try this before they build an op. */
bool const_call(Elab *e, const char *name, OpKind op, const Val *args, int n, Place at, Val *out);
/* Both operands compile-time; *out may be poison, reported. False: this operator doesn't fold on these. */
bool const_binary(Elab *e, BinaryOp op, const Val *a, const Val *b, Place at, Val *out);
bool const_unary(Elab *e, UnaryOp op, const Val *a, Place at, Val *out);
const char *float_text(Compile *cx, double f);           /* "1.0": never without a point */
Val val_of_const(Place at, const Const *c);
bool const_of_val(const Val *v, Const *out);             /* false: not a compile-time number, bool, dtype or text */

/* short.c: operators that may leave out a side */

Val elab_binary_expr(Elab *e, const Expr *x);
Val elab_cond(Elab *e, const Expr *x);

/* stmt.c */

/* A block of statements in a scope of its own: the body of a kernel, reference or example. */
void elab_stmts(Elab *e, const StmtList *list);

/* One function body that is being elaborated: the kernel's, or a fn's that is being inlined.  `return` under a
 * run-time condition is turned into structure with the help of hidden variables: `slot` holds the results, `done`
 * says that the function has returned; `done` is kept only where something follows that must then be skipped. */
typedef struct Frame {
	struct Frame *up;
	const Item *fn;                                 /* NULL: a kernel, reference or example */
	Scope *base;                                    /* the scope of its parameters */
	bool discover;                                  /* a first walk, muted, for the types of the results alone */
	bool tail;                                      /* nothing of the function follows what is being elaborated */
	VEC(Val) returns;                               /* discover: every returned value */
	Val result;                                     /* returned on a straight line */
	Binding *slot, *done;                           /* NULL until needed */
} Frame;

typedef struct StmtState {
	Frame *frame;
	Scope *file;                                    /* what a fn's body sees besides its parameters */
	int steps;                                      /* expressions elaborated so far, limited */
	bool spent;                                     /* that limit was reported */
	const struct ConstFrame *consts;                /* top-level constants being evaluated */
} StmtState;

/* One level deeper (e->depth-- leaves it); false, reported: too deep. */
bool elab_enter(Elab *e, Place at);
bool elab_step(Elab *e, Place at);                       /* false, reported once, when inlining and unrolling go too far */
bool elab_steps(Elab *e, int64_t n, Place at);           /* the same where n are to come; takes none of them */
void elab_stmt(Elab *e, const Stmt *s);
/* Statements from..n of a list in the scope at hand; true if every path through them returned. */
bool elab_list(Elab *e, const StmtList *list, int from);
void elab_for(Elab *e, const Stmt *s);
void elab_while(Elab *e, const Stmt *s);
bool elab_static_for(Elab *e, const Stmt *s);
void elab_return(Elab *e, const Stmt *s);
/* Runs `from`.. of a list unless the function has returned meanwhile. */
bool elab_unless_done(Elab *e, const StmtList *list, int from);
/* Gives a variable a new value of its own type and shape; reports and leaves it alone otherwise. */
void binding_assign(Elab *e, Binding *b, const Val *v, Place at);
Binding *var_find(Elab *e, const Expr *target);          /* the variable that a name means; NULL after an error */

/* param.c: an argument of a fn against its parameter's declared type; may bind names that the type gives and turn a
 * literal into a typed value.  False after an error. */
bool param_check(Elab *e, const Param *param, const char *fn, Val *v);
/* What a fn gave against the types that it says it gives. */
bool result_check(Elab *e, const Item *fn, Val *v);

/* assigned.c: what statements do, seen from their text alone */

typedef VEC(Binding *) BindingList;

/* Adds the variables visible here that these statements assign, each once. */
void scan_assigned(Elab *e, const StmtList *list, int from, BindingList *out);
bool scan_returns(const StmtList *list, int from);       /* a return somewhere inside */
bool scan_ends(const StmtList *list);                    /* every path surely ends in a return */

/* region.c: regions are elaborated into detached blocks and joined to their op afterwards */

typedef struct Region {
	Builder outer;
	Block *block;
} Region;

Region region_begin(Elab *e);
void region_end(Elab *e, const Region *r);
bool region_is_cheap(const Block *b);                    /* pure, without regions, a few ops: may run always */
void region_splice(Elab *e, Block *b);                   /* moves its ops to where e->b is */
/* An `if` op of two detached blocks that yield n values each. */
Op *region_if(Elab *e, Value *cond, Block *then, Value *const *tv, Block *els, Value *const *ev, int n);
/* A run-time condition as a scalar bool; NULL after an error. */
Value *val_condition(Elab *e, const Val *v);
int val_flatten(Elab *e, const Val *v, Value **out, int max);   /* tiles of a tuple tree in order; -1: others inside */
void bindings_add(Elab *e, BindingList *list, Binding *b);      /* once, unless it is poison */
Val val_rebuild(Elab *e, const Val *like, Value *from, int *at);
enum { MAX_CARRIED = 512 };

/* control.c: what loops and branches share */

typedef struct Flat {
	Value **v;
	int n;
} Flat;

/* The tiles of n values; false, reported, if there are too many. */
bool vals_flatten(Elab *e, const Val *v, int n, Flat *out, Place at);
Val *bindings_save(Elab *e, const BindingList *list);
/* Gives each variable its tiles from consecutive results or block arguments, and those its name. */
void bindings_take(Elab *e, const BindingList *vars, Value *from);
void scan_hidden(Elab *e, BindingList *list);            /* adds the hidden variables that a return may set */
Frame *frame_of(Elab *e);

/* call.c: builtins; one table (builtins.def) of name, family, parameters, function */

bool builtin_exists(const char *name, const char *scope);               /* scope "fast" or NULL */
/* A call of a builtin; evaluates its arguments itself (so that atomics see x[...] of a tensor as an access). */
Val elab_builtin(Elab *e, const Expr *call);
/* The kernel's tensor of that name, if this is a header or what comes with it: no value is bound to it there.  -1: none. */
int header_tensor(const Elab *e, const char *name);
/* Names of all builtins, for nearest_name. */
const char *const *builtin_names(int *n);

/* index.c: x[...] of tensors and tiles */

Val elab_index(Elab *e, const Expr *x);                                 /* EX_INDEX as a value */
/* x[...] op= value; BIN_NONE: = */
void elab_index_store(Elab *e, const Expr *target, BinaryOp op, const Val *value, Place at);
Val elab_member(Elab *e, const Expr *x);                                /* x.T */

/* index.c, op_*.c: parts of expr.c's work that belong to a family */

Val elab_matmul(Elab *e, const Val *a, const Val *b, Place at);         /* a @ b */
/* a op b where at least one is a pointer (or a tile of them): + - and comparisons. */
Val elab_pointer(Elab *e, BinaryOp op, const Val *a, const Val *b, Place at);

/* inline_ptx.c: every inline_ptx of a kernel stands under a static if with an else */
void ptx_check(Compile *cx, const Item *kernel);

/* whole.c: in references and examples a pointer parameter is a tensor of rank 1 over its buffer.  Fills the element
 * counts of pointer parameters in b->param (rank 1, dim[0]; -1 for file(...)) from what the example's lines come to;
 * example_bind calls it last. */
void example_pointers(Kernel *k, const ExampleItem *ex, Bound *b);

/* elab.c: predeclared names but `target`, one after the other; NULL behind the last. */
const char *elab_word(Compile *cx, int i, Val *out);
/* A fresh walk over a function whose parameters are made by the caller: predeclared names and the file's
 * const and fn are in scope, and either the compile-time parameters (kernels) or the symbols as integers (whole).
 * k and b may be NULL, for what stands at the top of a file.  e->b starts in a detached block, so that constants can be
 * evaluated before the function exists; set e->func and e->b.block once it does. */
Elab *elab_open(Program *p, Kernel *k, const Bound *b, const char *target, bool whole);

/* hint.c: what a name that people bring from elsewhere is called here, or NULL */
const char *name_hint(const char *name);

/* program.c: a name whose definition stands in the text but did not parse: not unknown, and not reported again */
bool program_lost(const Program *p, const char *name);
bool program_const(const Program *p, const char *name); /* is there a constant of that name? */

/* scope.c */

/* What a name stands for.  Compile-time parameters, symbols (i64 scalars), grid axes, tensors, let, var, const, fn. */
struct Binding {
	const char *name;
	Place place;
	Val val;
	bool is_var;                                    /* may be assigned */
	const char *what;                               /* "the grid index"; NULL: a let */
};

Scope *scope_push(Elab *e);                             /* a new innermost scope */
Scope *scope_push_items(Elab *e, const NameTable *items);       /* one that takes its names from there */
Scope *scope_push_words(Elab *e, const NameTable *items);       /* the predeclared names */
NameTable *names_of_items(Program *p);                  /* of the file's constants and functions */
void scope_pop(Elab *e);
/* Reports a second definition in one scope. */
Binding *scope_add(Elab *e, const char *name, Place at, Val val, bool is_var);
Binding *scope_find(Elab *e, const char *name);         /* innermost first; NULL if unknown */
const char *scope_nearest(Elab *e, const char *name);   /* the nearest visible name or builtin, or NULL */

#endif
