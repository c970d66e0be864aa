/* What the files of the Metal writer share: what it keeps beside the thread IR, and how that becomes text.
 *
 * The thread IR's registers are scalars.  Metal's choices rewrite it (msl_select.c); then four neighbouring elements become
 * one vector operation (msl_merge.c), uses are counted (msl_use.c), and each node that has an effect or more than one use
 * is a statement; the others are expressions within statements (msl_text.c, msl_memory.c, msl_expr.c). */
#ifndef TEGULA_MSL_H
#define TEGULA_MSL_H

#include "emit/emit.h"

typedef struct Msl Msl;
typedef struct MslNode MslNode;

/* Beside each node of the thread IR, and beside each result of a loop or branch, which is a variable of its own. */
struct MslNode {
	ThreadNode *t;
	ThreadKind kind;                                /* the node's; NODE_CARRIED beside a result of a loop or branch */
	RegType type;
	int which;                                      /* index of a carried value */
	MslNode *owner;                                 /* of a carried value or index: the loop or branch; of a pair
	                                                 * of elements: the product that reads it */
	int width;                                      /* results computed at once: lanes of a vector */
	int nin, nout;
	Reg *in, *out;                                  /* operand k of lane i: in[k * width + i] */
	const Reg *fill;                                /* of a masked load: the values where the mask is false */

	int uses;
	bool is_number;                                 /* of use beside addresses: what wraps has to do so as everywhere */
	bool live, parts, converges;                    /* some lanes are used alone; depends on other threads' lanes */
	const char *name;                               /* of its variable, once it has one */
	int c;                                          /* and its CType */
	const char *hint;
	bool written;                                   /* its statement is written, or it is part of another */
	MslNode *user;                                  /* the only one, if there is one */
	bool matrix;                                    /* carried as half of a simdgroup matrix; an mma adds in place */
	const char *tile;                               /* the simdgroup matrix that it is, or is an element of */
	MslNode *group;                                 /* the next store under the same mask */
	int points;                                     /* of a pointer: 1 + RegType of what is read there; -1: mixed */
};

/* The definition of a register: a lane of a node's results. */
typedef struct MslValue {
	MslNode *def;
	int at;
} MslValue;

/* A constant array at the top of the file. */
typedef struct MslTable {
	const char *name;
	RegType type;
	const int64_t *bits;
	int n;
} MslTable;

enum { MSL_BUFFERS = 31, MSL_VALUES = 4096 };

typedef struct MslFragment {
	Reg word;
	const ThreadRegion *region;
	const char *name;
} MslFragment;

struct Msl {
	Arena *mem;
	ThreadModule *t;
	Text *out;
	const Compile *cx;                              /* its lines are comments above statements; NULL: none */
	Compile *errors;
	MslNode **node;                                 /* by the id of the thread IR's node */
	MslValue *reg;                                  /* by Reg - 1 */
	int *widths;                                    /* by number of a function: of vectors that it is called with */
	VEC(MslTable) tables;
	bool stores_device, reads_stored;               /* device memory is written, and may be read again */
	bool stores_again;                              /* or written, by a loop's next trip or by another statement */
	const ThreadNode **stored;                      /* by the kernel's parameter: the last store noted */
	EmitMsl *made;

	/* text */
	Text body;
	int indent, line;
	VEC(const char *) names;
	VEC(int) numbered;                              /* by name: the last number */
	unsigned helpers;
	bool barrier_device;                            /* another thread may touch what one writes to device memory */
	const char *values;                             /* what the numbers together are called */
	VEC(MslFragment) fragments;                     /* operands of products that have a variable */
};

static inline MslNode *msl_beside(const Msl *m, const ThreadNode *t) { return m->node[t->id]; }
static inline MslNode *msl_def(const Msl *m, Reg r) { return m->reg[r - 1].def; }
static inline int msl_at(const Msl *m, Reg r) { return m->reg[r - 1].at; }
static inline RegType msl_type(const Msl *m, Reg r) { return thread_type(m->t, r); }
static inline bool msl_const(const Msl *m, Reg r, int64_t *out) { return thread_const(m->t, r, out); }
static inline ThreadRange msl_range(const Msl *m, const MslNode *n) { return thread_range(m->t, n->out[0]); }
static inline bool msl_never_negative(const Msl *m, Reg r) { return thread_range(m->t, r).lo >= 0; }
/* What a pointer is computed from: a parameter, the shared memory, a select, a carried pointer. */
static inline const MslNode *msl_origin(const Msl *m, const MslNode *pointer)
{
	while (pointer->kind == NODE_POINTER)
		pointer = msl_def(m, pointer->in[0]);
	return pointer;
}
static inline bool msl_is_region(const MslNode *n)
{
	return n->kind == NODE_LOOP || n->kind == NODE_WHILE || n->kind == NODE_IF;
}

/* What a loop or branch carries: how many, what it begins with, and what it has inside; its results are t->out. */
static inline int msl_carried(const MslNode *n) { return n->t->nout; }
static inline const Reg *msl_init(const MslNode *n) { return n->kind == NODE_LOOP ? n->t->in + 3 : n->t->in; }
static inline const Reg *msl_inside(const MslNode *n) { return n->t->region[0]->arg + (n->kind == NODE_LOOP); }

/* msl_select.c: rewrites the module by Metal's choices; reports what Metal has not. */
void msl_select(Msl *m);
/* msl_beside.c: the nodes beside the thread IR's, then what a walk over them shows */
void msl_keep_beside(Msl *m);
void msl_note_uses(Msl *m);
/* msl.c */
void msl_cannot(Msl *m, Place at, const char *what);    /* once for each line and column */

/* msl_merge.c: neighbours become vectors */
void msl_merge(Msl *m, ThreadRegion *b);

/* msl_use.c: what lives, how often it is used, what is a variable */
void msl_count(Msl *m, ThreadRegion *b, MslNode *returns);      /* of a function: what reads its result */
bool msl_is_pure(const MslNode *n);

/* msl_expr.c */

/* Types as C writes them. */
typedef enum CType {
	C_BOOL, C_CHAR, C_UCHAR, C_SHORT, C_USHORT, C_INT, C_UINT, C_LONG, C_ULONG, C_HALF, C_BFLOAT, C_FLOAT, C_DEVICE,
	C_THREADGROUP,
} CType;

/* Precedence of an expression's operator. */
enum { P_SELECT = 1, P_OROR, P_ANDAND, P_OR, P_XOR, P_AND, P_EQUAL, P_LESS, P_SHIFT, P_SUM, P_PRODUCT, P_UNARY, P_NAME };

typedef struct Expr {
	const char *text;
	int strength, width;                            /* width 1 where a vector is expected: the same for all lanes */
	CType c;
	bool is_literal;                                /* an integer, and which */
	int64_t v;
} Expr;

extern const char *const c_text[];
CType c_plain(RegType t);                               /* unsigned, where there is a choice */
bool c_is_signed(CType c);
const char *c_vector(Msl *m, CType c, int width);
Expr msl_expr(Msl *m, const Reg *r, int n);             /* n lanes */
Expr msl_literal(Msl *m, const ThreadNode *n);          /* a constant */
Expr msl_node_expr(Msl *m, MslNode *n);                 /* the node's own, whether it has a variable or not */
Expr msl_as(Msl *m, Expr x, CType c, int width);        /* just that type */
const char *msl_wrap(Msl *m, Expr x, int strength);     /* in brackets, if it is weaker */
bool msl_is_splat(const Reg *r, int n);                 /* one register n times */
bool msl_is_sequence(const Msl *m, const Reg *r, int n); /* neighbouring lanes of one node */
const char *msl_bool(Msl *m, Reg r, int strength);
Expr msl_signed(Msl *m, Reg r, bool want_signed);       /* an integer that is read with or without a sign */

/* msl_table.c */
void msl_table_name(Msl *m, const ThreadNode *lookup);  /* if its table has no name yet */
Expr msl_lookup_expr(Msl *m, const MslNode *n);
void msl_tables_text(Msl *m, Text *out);

/* The text, in the module's memory. */
static inline const char *msl_arena_text(Msl *m, Text *t)
{
	const char *s = arena_strdup(m->mem, t->at);
	text_close(t);
	return s;
}

static inline Expr msl_made(const char *text, int strength, int width, CType c)
{
	return (Expr){text, strength, width, c, false, 0};
}

/* Operand k of an operation, all lanes. */
static inline Expr msl_lanes(Msl *m, const MslNode *n, int k) { return msl_expr(m, n->in + k * n->width, n->width); }

/* msl_op.c, msl_int.c, msl_float.c, msl_cast.c */
Expr msl_op_expr(Msl *m, const MslNode *n);
/* An operand as its bits with or without a sign.  Below 32 bits that matters wherever C promotes it: to compare it, to
 * divide it, to shift it to the right. */
Expr msl_with_sign(Msl *m, Expr x, RegType t, bool is_signed);
bool msl_is_full(ThreadRange r, RegType t);             /* it says nothing */
Expr msl_int_expr(Msl *m, const MslNode *n);
/* is_signed: 0, 1; -1: only equality is asked */
Expr msl_compare_ints(Msl *m, const MslNode *n, const char *sign, int strength, int is_signed);
Expr msl_float_expr(Msl *m, const MslNode *n);
Expr msl_compare_floats(Msl *m, const MslNode *n);
Expr msl_cast_expr(Msl *m, const MslNode *n);

/* msl_address.c */
/* r / size where r is a sum of multiples of it; 0: it is not. */
Reg msl_divided(ThreadBuilder *b, Reg r, int size);
int msl_element_bytes(const ThreadModule *t, Reg pointer);      /* of what the pointer counts in: 1, if nothing is known */
Expr msl_pointer_expr(Msl *m, const MslNode *n);
const char *msl_pointer_type(Msl *m, const MslNode *n); /* "device const float *" */
/* "*(device const float4 *)(x + i)" or "x[i]": the memory `more` bytes behind an access's address, as `width` of c */
const char *msl_memory(Msl *m, const MslNode *n, int64_t more, CType c, int width);
/* A pointer as a pointer to that type. */
const char *msl_pointer_to(Msl *m, Reg pointer, CType c);
const char *msl_pointer_like(Msl *m, Reg pointer, const MslNode *like);
/* "(device atomic_uint *)(x + i)" */
const char *msl_address(Msl *m, const MslNode *n, const char *type);
CType msl_element(const ThreadParam *p);
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
void msl_region_text(Msl *m, ThreadRegion *r);
void msl_comment(Msl *m, Place at);
Expr msl_shortened(Msl *m, MslNode *n, Expr x);

/* msl_prim.c */
Expr msl_prim_expr(Msl *m, MslNode *n);
void msl_prim_text(Msl *m, MslNode *n);

/* msl_matrix.c */
void msl_matrix_plan(Msl *m, ThreadRegion *r);
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
