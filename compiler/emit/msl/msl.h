/* What the files of the Metal emitter share: the kernel as recorded, and how it becomes text.
 *
 * Lowering speaks of one scalar register after the other.  All its calls are kept as nodes in blocks until the kernel
 * ends; then four elements side by side become one vector operation (msl_merge.c), what is used is counted and named
 * (msl_use.c), and each node that has an effect or more than one use is a statement, into which the others are written
 * where they are used (msl_text.c, msl_memory.c, msl_expr.c). */
#ifndef TEGULA_MSL_H
#define TEGULA_MSL_H

#include "emit/emit.h"

typedef struct Msl Msl;

typedef enum MslKind {
	MSL_PARAM, MSL_SHARED, MSL_CONST, MSL_INSIDE,           /* given: written where they are used */
	MSL_OP, MSL_CAST, MSL_PACK, MSL_UNPACK, MSL_POINTER, MSL_CALL, MSL_LOOKUP,      /* computed */
	MSL_PRIM, MSL_LOAD, MSL_STORE, MSL_ATOMIC, MSL_MMA, MSL_LOOP, MSL_WHILE, MSL_IF, MSL_TRAP, MSL_RETURN,
} MslKind;

typedef struct MslNode MslNode;

typedef struct MslBlock {
	MslNode *owner;                                 /* the loop or branch; NULL: the kernel or a function */
	struct MslBlock *outer;
	VEC(MslNode *) body;
} MslBlock;

/* What is known of an integer: exact without wrapping, between lo and hi.  `geometry`: made of places on the grid and of
 * extents, which nobody lets overflow 64 bits. */
typedef struct MslRange {
	int64_t lo, hi;
	bool geometry;
} MslRange;

typedef struct MslFunction MslFunction;

struct MslNode {
	MslKind kind;
	int op;                                         /* EmitOp, EmitCast, PrimKind, AtomicKind, number of a parameter */
	RegType type;                                   /* of the results */
	int width;                                      /* how many of them are computed at once: lanes of a vector */
	int nin, nout;
	Reg *in, *out;                                  /* operand k of lane i: in[k * width + i] */
	MslBlock *home;
	Place place;
	int64_t i;
	double f;
	const int64_t *imm;
	EmitAccess at;
	const Reg *fill;                                /* of a masked load: what stands where the mask is false */
	const MmaInfo *mma;
	MslFunction *function;                          /* of a call */
	const char *builtin;                            /* or what Metal calls it */
	MslBlock *region[2];
	Reg *init, *inside, *next[2], *after, index;    /* what a loop or branch carries */
	int carried;
	Reg test;                                       /* of a while */
	MslRange range;                                 /* of an integer's result */

	int uses;
	bool live, parts, converges;                    /* some lanes used apart; holds something of all lanes */
	const char *name;                               /* of its variable, once it has one */
	int c;                                          /* and its CType */
	const char *hint;
	bool written;                                   /* its statement stands */
	MslNode *user;                                  /* the only one, if there is one */
	MslNode *owner;                                 /* of what a region gives: the loop or branch */
	bool matrix;                                    /* carried as half of a simdgroup matrix; an mma adds in place */
	const char *tile;                               /* the simdgroup matrix that it is, or is an element of */
	MslNode *group;                                 /* the next store under the same mask */
	int points;                                     /* of a pointer: 1 + RegType of what is read there; -1: mixed */
};

typedef struct MslValue {
	MslNode *def;
	int at;                                         /* which result */
	RegType type;
	const char *hint;
} MslValue;

/* A constant array at the top of the file. */
typedef struct MslTable {
	const char *name;
	RegType type;
	const int64_t *bits;
	int n;
} MslTable;

/* Something of its own at the top of the file. */
struct MslFunction {
	const char *name;
	RegType result, param[2];
	Reg inside[2];
	int nparam;
	MslBlock *body;
	int widths;                                     /* of vectors that it is called with */
};

typedef struct MslScope {
	uint64_t hash;
	MslNode *node;
	int before;                                     /* earlier one of the same bucket */
} MslScope;

enum { MSL_BUCKETS = 1024, MSL_BUFFERS = 31, MSL_VALUES = 4096 };

typedef struct MslFragment {
	Reg word;
	const MslBlock *block;
	const char *name;
} MslFragment;

struct Msl {
	Emitter e;
	Text *out;
	const Compile *cx;
	Compile *errors;
	VEC(MslValue) reg;                              /* by Reg - 1 */
	MslBlock *block;                                /* where calls go */
	VEC(MslScope) scope;                            /* what has been computed and is in sight */
	int bucket[MSL_BUCKETS];
	Place place;
	VEC(MslFunction *) functions;
	VEC(MslTable) tables;
	MslFunction *open;                              /* a function whose body is being given */
	MslBlock *kernel_block;
	int outer_scope;
	Reg *param, shared;
	int nparam;
	bool stores_device, reads_stored;               /* device memory is written, and may be read again */

	/* text */
	Text body;
	int indent, line;
	VEC(const char *) names;
	VEC(int) numbered;                              /* by name: the last number */
	unsigned helpers;
	bool barrier_device;                            /* what one thread writes to device memory another may read */
	EmitMslParam *at;                               /* where each parameter is passed */
	const char *values;                             /* what the numbers together are called */
	int values_bytes;
	VEC(MslFragment) fragments;                     /* operands of products that have a variable */
};

static inline Msl *msl_state(const Emitter *e) { return e->state; }
static inline MslNode *msl_def(const Msl *m, Reg r) { return m->reg.at[r - 1].def; }
static inline int msl_at(const Msl *m, Reg r) { return m->reg.at[r - 1].at; }
static inline RegType msl_type(const Msl *m, Reg r) { return m->reg.at[r - 1].type; }
bool msl_const(const Msl *m, Reg r, int64_t *out);      /* an integer or bool that is known */
int msl_size(RegType t);
bool msl_is_float(RegType t);

/* msl_record.c */
void msl_record_open(Msl *m);
Reg msl_add(Msl *m, MslNode *n, RegType type);          /* the node's next result */
Reg msl_pure(Msl *m, MslKind kind, int op, RegType type, const Reg *in, int nin);      /* one in sight, or a new one */
MslNode *msl_node(Msl *m, MslKind kind, int op, RegType type, const Reg *in, int nin);
void msl_cannot(Msl *m, const char *what);

/* Where a thread is: PRIM_LANE …, or PRIM_COUNT for its simdgroup's number; 0 .. most. */
Reg msl_place_prim(Msl *m, int prim, int64_t most);

/* msl_fold.c */
bool msl_is_comparison(EmitOp op);
/* A register that holds the operation's result already; 0: there is none. */
Reg msl_simplified(Msl *m, EmitOp op, Reg a, Reg b, Reg c);

/* msl_range.c */
MslRange msl_range_of(const Msl *m, Reg r);
MslRange msl_range_op(const Msl *m, EmitOp op, RegType t, const Reg *in);
MslRange msl_range_cast(const Msl *m, EmitCast c, RegType to, Reg a);
MslRange msl_range_any(RegType t);
static inline bool msl_never_negative(MslRange r) { return r.lo >= 0; }

/* msl_merge.c: neighbours become vectors */
void msl_merge(Msl *m, MslBlock *b);

/* msl_use.c: what lives, how often it is used, what is a variable */
void msl_count(Msl *m, MslBlock *b);
bool msl_is_pure(const MslNode *n);

/* msl_expr.c */

/* Types as C writes them. */
typedef enum CType {
	C_BOOL, C_CHAR, C_UCHAR, C_SHORT, C_USHORT, C_INT, C_UINT, C_LONG, C_ULONG, C_HALF, C_BFLOAT, C_FLOAT, C_DEVICE,
	C_THREADGROUP,
} CType;

/* How strongly an expression holds together. */
enum { P_SELECT = 1, P_OROR, P_ANDAND, P_OR, P_XOR, P_AND, P_EQUAL, P_LESS, P_SHIFT, P_SUM, P_PRODUCT, P_UNARY, P_NAME };

typedef struct Expr {
	const char *text;
	int strength, width;                            /* width 1 in a vector's place: the same for all lanes */
	CType c;
	bool is_literal;                                /* an integer, and which */
	int64_t v;
} Expr;

extern const char *const c_text[];
CType c_plain(RegType t);                               /* unsigned, where there is a choice */
bool c_is_signed(CType c);
const char *c_vector(Msl *m, CType c, int width);
Expr msl_expr(Msl *m, const Reg *r, int n);             /* n lanes */
Expr msl_node_expr(Msl *m, MslNode *n);                 /* the node's own, whether it has a variable or not */
Expr msl_as(Msl *m, Expr x, CType c, int width);        /* just that type */
const char *msl_wrap(Msl *m, Expr x, int strength);     /* in brackets, if it is weaker */
const char *msl_bool(Msl *m, Reg r, int strength);
Expr msl_signed(Msl *m, Reg r, bool want_signed);       /* an integer that is read with or without a sign */

/* msl_table.c */
Reg msl_lookup(Emitter *e, RegType t, const int64_t *bits, int n, Reg index);
Expr msl_lookup_expr(Msl *m, const MslNode *n);
void msl_tables_text(Msl *m, Text *out);

/* msl_op.c */
Expr msl_op_expr(Msl *m, const MslNode *n);
Expr msl_cast_expr(Msl *m, const MslNode *n);

/* msl_address.c */
/* A pointer through which something of that type is read. */
void msl_points(Msl *m, Reg pointer, RegType t);
/* r / size where r is a sum of multiples of it; 0: it is not. */
Reg msl_divided(Msl *m, Reg r, int size);
int msl_element_bytes(const Msl *m, Reg pointer);       /* of what the pointer counts in: 1, if nothing is known */
Expr msl_pointer_expr(Msl *m, const MslNode *n);
const char *msl_pointer_type(Msl *m, const MslNode *n); /* "device const float *" */
/* "*(device const float4 *)(x + i)" or "x[i]": what stands at an address, as `width` of c */
const char *msl_place(Msl *m, const MslNode *n, CType c, int width);
/* A pointer as a pointer to that type. */
const char *msl_pointer_to(Msl *m, Reg pointer, CType c);
const char *msl_pointer_like(Msl *m, Reg pointer, const MslNode *like);
/* "(device atomic_uint *)(x + i)" */
const char *msl_address(Msl *m, const MslNode *n, const char *type);
CType msl_element(const EmitParam *p);
const char *msl_shared_type(const Msl *m);

/* msl_memory.c */
void msl_load_text(Msl *m, MslNode *n);
Expr msl_wide_lanes(Msl *m, MslNode *n, int at, int w); /* of a load wider than any vector of its type */
void msl_store_text(Msl *m, MslNode *n);
void msl_atomic_text(Msl *m, MslNode *n);

/* msl_text.c */
void msl_say(Msl *m, const char *fmt, ...) PRINTF(2, 3);
const char *msl_fresh(Msl *m, const char *hint);
void msl_declare(Msl *m, MslNode *n, Expr x);
void msl_block_text(Msl *m, MslBlock *b);
void msl_comment(Msl *m, Place at);
Expr msl_shortened(Msl *m, MslNode *n, Expr x);

/* msl_prim.c */
Expr msl_prim_expr(Msl *m, MslNode *n);
void msl_prim_text(Msl *m, MslNode *n);

/* msl_matrix.c */
void msl_matrix_plan(Msl *m, MslBlock *b);
void msl_matrix_begin(Msl *m, MslNode *loop);           /* accumulators that it carries */
void msl_matrix_next(Msl *m, const MslNode *loop);
void msl_fragment_text(Msl *m, MslNode *pack);
void msl_fragment_load_text(Msl *m, MslNode *n);
void msl_mma_text(Msl *m, MslNode *n);

/* msl_helper.c: what the file's head must hold */
typedef enum MslHelper {
	HELPER_TO_INT, HELPER_TO_UINT, HELPER_TO_LONG, HELPER_TO_ULONG, HELPER_FRAGMENT_HALF, HELPER_FRAGMENT_BFLOAT,
	HELPER_FRAGMENT_FLOAT, HELPER_SWAP, HELPER_SWAP_SHARED, HELPER_ADD_SHARED, HELPER_BALLOT, HELPERS
} MslHelper;
const char *msl_helper(Msl *m, MslHelper h);
void msl_helpers_text(const Msl *m, Text *out);

#endif
