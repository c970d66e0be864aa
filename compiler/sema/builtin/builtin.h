/* Inside sema: what call.c hands to the function behind a row of builtins.def, and what those functions share.
 *
 * A row's parameter text is read at each call, so that the signature that a message shows, the defaults and the
 * matching are one text:
 *     x                      needed
 *     axis = none            may be absent: call_has() is false
 *     keep_dims = false      absent: the value that is written (bool, integer, dtype or word)
 *     order = acq_rel | relaxed   one of these words, written plainly or as text; the first is the default
 *     &place                 not evaluated: the function looks at the expression itself
 *     ...                    any number of values; what follows can only be named */
#ifndef TEGULA_BUILTIN_H
#define TEGULA_BUILTIN_H

#include "sema/elab.h"

typedef struct Call Call;

/* Traits of a row. */
enum {
	FOLDS = 1 << 0,                                 /* constants give a constant: may stand in headers */
	FAST = 1 << 1,                                  /* exists as fast::name too */
	KERNEL = 1 << 2,                                /* only in kernels: means nothing over whole tensors */
	EXAMPLE = 1 << 3,                               /* only in an example's line */
};

typedef struct Builtin {
	const char *name, *family, *params;
	Val (*run)(Call *c);
	int op;                                         /* an OpKind for functions shared by rows, or what they like */
	unsigned traits;
	const char *meaning;
} Builtin;

enum { MAX_CALL_PARAMS = 8 };

struct Call {
	Elab *e;
	const Builtin *def;
	Place place;                                    /* of the whole call */
	bool fast;                                      /* fast::name */
	int nparam;
	CallArg arg[MAX_CALL_PARAMS];                   /* in order of the row's parameters, named as there */
	CallArg *rest;
	int nrest;
	Call *next;                                     /* of the spare ones */
};

/* call.c */

const Builtin *builtin_table(int *n);
bool call_has(const Call *c, int i);
/* Every argument is a compile-time number. */
bool call_is_const(const Call *c);
/* Reports "NAME: ARG must be WHAT, not FOUND"; gives poison. */
Val call_wrong(Call *c, int i, const char *what);

enum { IS_FLOAT = 1, IS_INT = 2, IS_BOOL = 4, IS_NUMBER = 3, IS_ANY = 7, IS_PACKED = 8, IS_POINTER = 16 };
/* Argument i as an IR value of one of these kinds; NULL after an error. */
Value *call_tile(Call *c, int i, unsigned kinds);
bool call_kind_ok(DType t, bool pointer, unsigned kinds);
bool call_int(Call *c, int i, int64_t *out);
bool call_bool(Call *c, int i, bool *out);
bool call_dtype(Call *c, int i, DType *out);
const char *call_word(Call *c, int i);
bool call_shape(Call *c, int i, int *rank, int64_t *extent);
/* A compile-time axis of a tile of this rank, negative from the end. */
bool call_axis(Call *c, int i, int rank, int *axis);
/* Floats are f64 over whole tensors. */
DType elab_dtype(Elab *e, DType t);
/* What a sum or dot of this type gives: floats of 16 bits or fewer f32, integers of 16 bits or fewer i32. */
DType elab_accumulator(Elab *e, DType t);
/* cast whatever it takes; keeps v if it has that type. */
Value *ir_convert(Elab *e, Value *v, DType to);
Value *ir_reshape(Elab *e, Value *v, int rank, const int64_t *extent);
Value *ir_permute(Elab *e, Value *v, const int *dims);
Value *ir_const_int(Elab *e, DType t, int64_t i);
Value *ir_counted(Elab *e, DType t, int64_t n);                 /* 0, 1, 2 … n - 1 */
int64_t extents_count(int rank, const int64_t *extent);
/* A compile-time integer, an integer scalar or a tile of integers. */
bool val_is_integer(const Val *v);

/* The functions behind the rows, one file a family */
#define BUILTIN(name, family, params, run, op, traits, meaning) Val run(Call *c);
#include "sema/builtin/builtins.def"
#undef BUILTIN

/* op_math.c */

Val math_extreme(Call *c);                                      /* elementwise max(x, y), min(x, y) */

/* op_memory.c */

/* A value on its way into memory: converted to the element type, broadcast to the access's shape; NULL after an error. */
Value *stored_value(Elab *e, const char *name, const Val *v, DType elem, int rank, const int64_t *extent, Place at);
/* The same in the value's own shape, which has been found to fit. */
Value *stored_elements(Elab *e, const char *name, const Val *v, DType elem, int rank, const int64_t *extent, Place at);
bool stored_fits(Elab *e, const char *name, const Value *v, int rank, const int64_t *extent, Place at);

/* whole.c, op_example.c */

const Type *whole_type(Elab *e, int p, bool written);           /* of a parameter, all extents known */
/* [1, 2, 3] or [[1, 2], [3, 4]] written out: a tile of i64, or of f64 if there is
 * a number in it that is no integer; NULL after an error. */
Value *whole_list(Elab *e, const Val *v, Place at);

bool example_shape(Call *c, int *rank, int64_t *extent);        /* the shape that an example's line fills */

/* index.c: one x[...] of a tensor, its indices evaluated */

typedef struct TensorAccess {
	Val tensor;
	Place place;
	Value *operand[1 + MAX_RANK];                   /* tensor, then an index a dimension of the tensor */
	int n;
	char index[MAX_RANK + 1];                       /* letters i p g, a dimension of the tensor each */
	int64_t extents[MAX_RANK];                      /* of the p's, in the tensor's order */
	int nextents;
	int rank;                                       /* of the result as the source sees it */
	int64_t shape[MAX_RANK];
	int perm[MAX_RANK];                             /* source dimension d is dimension perm[d] of the op's result */
	int64_t last_start, last_extent;                /* of the part along the tensor's last dimension; -1: unknown */
	int nnew, newdim[MAX_RANK];                     /* dimensions that `new` adds, positions in the result */
} TensorAccess;

/* Evaluates base and subscripts of an EX_INDEX whose base is a tensor; false after an error. */
bool access_open(Elab *e, const Expr *x, const Val *base, TensorAccess *a);
int access_attrs(Elab *e, const TensorAccess *a, Attr *attr);
/* A value as the op wants it: converted to the tensor's type, broadcast, permuted back; NULL after an error. */
Value *access_value(Elab *e, const TensorAccess *a, const Val *v, const char *what);
Val access_result(Elab *e, const TensorAccess *a, Value *v);    /* the op's result as the source sees it */
Val elab_index_of(Elab *e, const Expr *x, const Val *base);     /* EX_INDEX whose base is evaluated */
Val elab_method(Elab *e, const Expr *call);                     /* x.shape(d), x.stride(d) */
Val index_tile(Elab *e, const Expr *x, const Val *base);        /* of a tile value (index_tile.c) */
/* table.c: of a list, and a tuple's item */
typedef struct TableBits {
	const Val *items;
	DType dtype;
	int64_t *bits;
	int n;
	struct TableBits *next;
} TableBits;

Val index_list(Elab *e, const Expr *x, const Val *list);
Val index_tuple(Elab *e, const Expr *x, const Val *tuple);
Value *tensor_value(Elab *e, const Val *t);                     /* the tensor itself */
bool access_may_write(Elab *e, const TensorAccess *a);

/* index_tile.c: the subscripts of a tile value, one for each of its dimensions */

typedef struct TileCut {
	Value *start[MAX_RANK];                         /* i64; NULL: the whole dimension */
	char index[MAX_RANK + 1];                       /* i: one index, dropped; p: a part or all */
	int64_t extents[MAX_RANK];                      /* of the p's */
	int nextents;
	bool cuts;                                      /* something is left out */
	int nnew;                                       /* dimensions that `new` adds */
	int rank;                                       /* of what the source sees */
	int64_t shape[MAX_RANK * 2 + 1];
} TileCut;

bool cut_open(Elab *e, const Expr *x, const Val *base, TileCut *c);     /* false after an error */
Value *cut_read(Elab *e, Value *v, const TileCut *c);

/* assign_tile.c: x[...] op= value where x names a tile */
void tile_store(Elab *e, const Expr *target, BinaryOp op, const Val *value, Place at);

/* whole.c: the state of an example's line beside Elab */

typedef struct Example {
	const Type *implied;                            /* the shape filled at a time; NULL: a pointer, the value says */
	Value *offset;                                  /* the elements' indices in the parameter; NULL: from 0 on */
	int nrandom;                                    /* distributions so far: each has a stream of its own */
	int param;
} Example;

#endif
