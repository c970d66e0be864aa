/* From names to tile IR.
 *
 * A Program is a parsed file with its imports, its items found by name and checked for what can be
 * checked without values.  A kernel's header is evaluated for one set of arguments by `kernel_bind`; its
 * body is then elaborated for one set of compile-time values by `kernel_module`: a single walk over the
 * tree that resolves names, checks types and shapes, folds constants, inlines `fn` and emits tile IR.
 * The IR is handed out only if nothing was reported.  A poisoned value (the result of something already
 * reported) silences what follows from it. */
#ifndef TEGULA_SEMA_H
#define TEGULA_SEMA_H

#include "ast/ast.h"
#include "ir/ir.h"

/* A compile-time value. */
typedef enum ConstKind {
	CONST_NONE, CONST_INT, CONST_FLOAT, CONST_BOOL, CONST_DTYPE, CONST_TEXT,
	CONST_BIG,                                      /* an integer from 2^63 on, which u64 holds: i has its bits */
} ConstKind;

typedef struct Const {
	ConstKind kind;
	int64_t i;                                      /* INT, BIG, BOOL */
	double f;                                       /* FLOAT */
	DType dtype;
	const char *text;
} Const;

void const_text(const Const *c, Text *out);              /* as values are written */
const char *const_describe(Compile *cx, const Const *c);
void const_to_float(Const *c);                          /* an integer becomes a float */

typedef struct NamedConst {
	const char *name;                               /* interned in the program's cx->names */
	Const value;
	Place place;                                    /* where it was said, for messages; NOWHERE: command line or API */
} NamedConst;

#define CHOSEN ((Place){.file = -2})                    /* of a value that the compiler or a tuner chose */

const NamedConst *named_const(const NamedConst *c, int n, const char *name);    /* NULL if there is none */
bool const_equal(const Const *a, const Const *b);

typedef struct Program Program;
typedef struct Kernel Kernel;

typedef struct ExampleItem {
	const Item *item;
	const char *label;                              /* "" if it has none */
	bool is_bench;
} ExampleItem;

typedef struct KernelParam {
	const Param *ast;
	const char *name;
	ParamKind kind;                                 /* TENSOR, POINTER or SCALAR */
	Access access;
	bool fixed, strided, has_fill;
	PtrKind ptr;
	bool dtype_known;                               /* else it is compile-time parameter `dtype_param` */
	DType dtype;
	int dtype_param;                                /* index into Kernel.ct, or -1 */
	int rank;
} KernelParam;

struct Kernel {
	Program *program;
	const Item *item;
	const char *name;
	VEC(KernelParam) params;
	VEC(const char *) symbols;                      /* dimension names, in order of first mention */
	VEC(ExampleItem) examples;
	const Item *reference;                          /* or NULL */
	VEC(const Item *) expects;
	bool divides_indices;                           /* the body divides tiles of indices by sizes */
	bool broken;                                    /* its header was reported: nothing more can be said */
};

typedef struct NameTable NameTable;
typedef VEC(const char *) NameSet;                 /* interned, by address */

struct Program {
	Compile *cx;
	Ast *ast;
	VEC(Kernel *) kernels;                          /* of the file itself and of its imports, in order of text */
	VEC(const Item *) items;                        /* every const, fn and kernel visible */
	NameTable *names;                                   /* of the consts and fns among them */
	VEC(const Item *) called;                       /* every fn that was inlined so far, for program_check */
	int near;                                       /* the kernel that an item belonged to last */
	bool partial;                                   /* something did not parse */
	const Place *fast;                              /* kernels' functions and divisions that are fast::, reported */
	int nfast;
	NameSet known, consts, lost;                    /* of items, of constants, in text that did not parse */
};

int ctparam_named(const Kernel *k, const char *name);   /* index, or -1 */
int symbol_named(const Kernel *k, const char *name);
/* Whether a dimension or a scalar hides the schedule value of that name: the compiler alone chooses it then. */
bool schedule_hidden(const Kernel *k, const char *name);
/* A dimension as times * name + more: N, N + 1, 2 * N, (N - 1) * 4; name is NULL for what is no such formula. */
typedef struct DimForm {
	const Expr *name;
	int64_t times, more;
} DimForm;

DimForm dim_form(const Expr *dim);
int64_t dim_solve(DimForm f, int64_t extent);   /* the name's value, rounded to an integer: the formula is checked after */
/* The nearest name among everything that a launch may set, and all of them. */
const char *header_advice(const Kernel *k, const char *name);
const char *example_advice(const Kernel *k, const char *label);         /* which labels there are, the nearest first */
int param_of_kernel(const Kernel *k, const char *name);

/* program.c */

/* Parses, loads imports, collects.  Errors are in cx; never NULL. */
Program *program_open(Compile *cx, int file);
/* A constant of the file; false: there is none of that name that is known at compile time. */
bool program_constant(const Program *p, const char *name, Const *out);
Kernel *program_kernel(Program *p, const char *name);   /* NULL if there is none (nearest_name helps the message) */
/* Elaborates every kernel, reference and example with whatever values its first example gives, so that all errors
 * of the file are reported in one go; a kernel without an example is checked as far as its values are known. */
void program_check(Program *p);

/* header.c: what the header says for one launch */

/* What is known of one argument when binding; in order of Kernel.params. */
typedef struct ArgInfo {
	bool given;                                     /* false: an out or scratch tensor still to be made, or not known */
	DType dtype;
	int rank;
	int64_t dim[KERNEL_RANK];                       /* a pointer has rank 1 and its buffer's count of elements */
	const Expr *strides;                            /* what was said of a strided tensor's, or NULL */
	bool is_spread;                                 /* without that: it is not row-major, and these are its strides */
	int64_t stride[KERNEL_RANK];
	Const scalar;                                   /* scalars */
} ArgInfo;

typedef struct BoundParam {
	DType dtype;
	int rank;
	int64_t dim[KERNEL_RANK];                       /* tensors: extents; pointers: rank 1, elements in the buffer */
	bool dim_const[KERNEL_RANK];                    /* an integer literal in the source: known at compile time */
	bool is_spread;                                 /* a strided tensor that is not row-major: in elements, */
	int64_t stride[KERNEL_RANK];
	Const scalar;                                   /* scalars: the value, as far as it is known */
	bool has_fill;
	Const fill;                                     /* y: out f32[N] = 0 */
} BoundParam;

/* What programs of an example did at a place of the text where data decides: of the times that they came to a branch those
 * that they took it; trips of a loop. */
typedef struct FollowedAt {
	Place place;
	bool is_loop;
	double came, went, most;                        /* most: that one program went */
} FollowedAt;

typedef struct Followed {
	VEC(FollowedAt) at;
	int64_t programs, of;                           /* that ran, of the grid's */
} Followed;

typedef struct Bound {
	const Kernel *kernel;
	NamedConst *ct;                                 /* every compile-time parameter, in order */
	int nct;
	NamedConst *symbol;                             /* every dimension name and its value */
	int nsymbol;
	BoundParam *param;                              /* in order of Kernel.params */
	int naxis;
	int64_t grid[MAX_AXES];
	Schedule schedule;
	unsigned chosen;                                /* bit i: schedule value i was not said but chosen */
	const Followed *followed;                       /* of its example; NULL: it was not run */
} Bound;

/* Evaluates the header: symbols from arguments and from `given` (which also sets compile-time parameters, symbols,
 * scalars and schedule names), then defaults, then dimension expressions (checked), fills, `where`, the grid.
 * False after an error (E05xx, E11xx): a symbol with two values or none, a wrong rank or dtype, `where` broken … */
bool kernel_bind(Kernel *k, const ArgInfo *args, const NamedConst *given, int ngiven, Bound *out);
/* Whether the header (dimensions, defaults, fills, `where`, the grid) speaks of a name: if not, its value changes
 * nothing that binding finds out. */
bool header_mentions(const Kernel *k, const char *name);
bool header_mentions_beside_grid(const Kernel *k, const char *name);    /* all of it but the grid */
bool expr_mentions(const Expr *x, const char *name);    /* x may be NULL */
/* The same with what an example says; `given` overrides it.  Fills `args` with what is known afterwards. */
bool example_bind(Kernel *k, const ExampleItem *ex, const NamedConst *given, int ngiven, ArgInfo *args, Bound *out);

/* strides.c: `x.strides = [1, M];` of an example */

/* Whether a name ends in ".strides": the length of what stands before that, or 0. */
int strides_named(const char *name);
/* Strides given as text beside the example, "[1, M]", for the name "x.strides"; false: reported. */
bool strides_given(Kernel *k, const char *name, const char *text, ArgInfo *args);

/* A tuning space: the names of `tune(...)` with their values. */
typedef struct TuneName {
	const char *name;
	Const *value;
	int nvalue;
	int more;                                       /* the last ones, which the header does not list (compile/choose) */
	bool is_value;                                  /* a size that is a value, too: only those listed */
} TuneName;

/* The first that is marked `bench`, or is not; else the first of all; NULL: there is none. */
const ExampleItem *kernel_first_example(const Kernel *k, bool is_bench);
/* Whether an example has a line that sets `name`. */
bool example_sets(const ExampleItem *ex, const char *name);
bool kernel_tune(Kernel *k, const Bound *b, TuneName **names, int *n);
/* The value of an expression over a bound header's symbols and compile-time values; false: reported. */
bool bound_eval(Kernel *k, const Bound *b, const Expr *e, const char *what, Const *out);

/* trace_option.c: --trace */

/* Compile.trace: kernels print the values that a name gets at a line. */
typedef struct TraceRequest {
	const char *name;                               /* interned */
	int line;
	int naxis;                                      /* of `program`; 0: of every program */
	int64_t program[MAX_AXES];
	int64_t writer;                                 /* a byte of shared memory, who wrote it last; -1: none */
} TraceRequest;

/* Compile.observer: `value` is called each time that elaboration gives a name of the source a value, at the name, with
 * the value's type or what it is in words ("f32[64, 32]", "the integer 3"). */
typedef struct NameObserver {
	void (*value)(void *user, const char *name, Place at, const char *what);
	void *user;
} NameObserver;

/* "v@12", "v@12,program=3", "v@12,program=(1,2)"; false: something else. */
bool trace_parse(Intern *names, const char *text, TraceRequest *out);

/* elaborate: kernel.c, expr.c, stmt.c, call.c, index.c, op_*.c … */

/* What `target` is in the source: "cpu", "simt", "ptx", "metal". */
Module *kernel_module(Kernel *k, const Bound *b, const char *target);   /* one Func; NULL after errors */

/* The reference for these sizes: one Func, one program, whole tensors.  Its parameters are the kernel's, in order,
 * tensors that the kernel writes being f64 where they are floats (an inout comes in with its first value).
 * NULL if the kernel has none or after errors. */
Module *reference_module(Kernel *k, const Bound *b);

/* An example's right side for parameter `param` as a Func with parameters (every earlier tensor that it names as `in`,
 * then the result as `out`), one program; a pointer is a tensor of rank 1 whose extent in the result's type is the
 * count of elements to allocate; `file("x.npy")` gives no module but the path in *npy.  Random
 * distributions are Philox keyed by `seed` and the parameter's index.  NULL after errors, or if the example does not
 * mention the parameter (*absent). */
typedef struct ExampleInput {
	Module *module;                                 /* params: earlier tensors in order of `uses`, then the result */
	int *uses;                                      /* indices into Kernel.params */
	int nuses;
	const char *npy;                                /* file("…"): the path, relative to the .tgl file's folder */
	Place npy_place;
	bool absent;
	Const scalar;                                   /* scalar parameters: the value */
} ExampleInput;

bool example_input(Kernel *k, const ExampleItem *ex, const Bound *b, int param, uint64_t seed, ExampleInput *out);
/* The same for text given on the command line, `--arg x=normal(0,1)`. */
bool expr_input(Kernel *k, const Expr *e, const Bound *b, int param, uint64_t seed, ExampleInput *out);
/* tolerance(abs, rel) of an example; false if it says none. */
bool example_tolerance(Kernel *k, const ExampleItem *ex, double *abs, double *rel);

#endif
