/* The tree that the parser builds: what the text says, before anything is known about
 * names, types or shapes.  Nodes are immutable once built and live in Compile.mem; every
 * node has the place of its whole text, so that a caret stands under the exact span.
 * Names are interned: compare them with ==. */
#ifndef TEGULA_AST_H
#define TEGULA_AST_H

#include "base/base.h"

typedef struct Expr Expr;
typedef struct Stmt Stmt;
typedef struct Item Item;
typedef struct Ast Ast;

enum { AST_DEPTH = 1000 };                          /* nesting beyond this is an error */

typedef VEC(Expr *) ExprList;
typedef VEC(Stmt *) StmtList;
typedef VEC(Item *) ItemList;

/* Operators: name, text, binding strength (higher binds tighter), for printer and parser. */
#define UNARY_OPS(X)                                                                               \
	X(NEG, "-") X(PLUS, "+") X(NOT, "!") X(INVERT, "~")
#define BINARY_OPS(X)                                                                              \
	X(LOR, "||", 2) X(LAND, "&&", 3)                                                           \
	X(EQ, "==", 4) X(NE, "!=", 4) X(LT, "<", 4) X(LE, "<=", 4) X(GT, ">", 4) X(GE, ">=", 4)    \
	X(OR, "|", 5) X(XOR, "^", 6) X(AND, "&", 7) X(SHL, "<<", 8) X(SHR, ">>", 8)                \
	X(ADD, "+", 9) X(SUB, "-", 9)                                                              \
	X(MUL, "*", 10) X(DIV, "/", 10) X(REM, "%", 10) X(MATMUL, "@", 10)

typedef enum UnaryOp {
#define X(name, text) UN_##name,
	UNARY_OPS(X)
#undef X
} UnaryOp;

typedef enum BinaryOp {
#define X(name, text, strength) BIN_##name,
	BINARY_OPS(X)
#undef X
	BIN_NONE                                    /* in Stmt.op: plain '=' */
} BinaryOp;

static inline bool
binary_op_compares(BinaryOp op)
{
	return op >= BIN_EQ && op <= BIN_GE;
}

/* One element between [ and ] of an index. */
typedef enum SubscriptKind {
	SUB_INDEX,                                  /* e: integer (drops the dimension) or tile (gathers) */
	SUB_PART,                                   /* e +: extent */
	SUB_ALL,                                    /* : */
	SUB_NEW,                                    /* new, None */
} SubscriptKind;

typedef struct Subscript {
	SubscriptKind kind;
	Expr *e, *extent;
	Place place;
} Subscript;

typedef VEC(Subscript) SubscriptList;

typedef struct Arg {
	const char *name;                           /* NULL: positional */
	Place name_place;
	Expr *e;
} Arg;

typedef VEC(Arg) ArgList;

/* The type of a parameter, as written. */
typedef enum Mode { MODE_VALUE, MODE_IN, MODE_OUT, MODE_INOUT, MODE_SCRATCH } Mode;

typedef struct TypeExpr {
	Place place;
	Mode mode;                                  /* MODE_VALUE: scalar, pointer, or (in fn) tile */
	bool fixed, strided;
	bool pointer, mut;                          /* *T, *mut T */
	Expr *elem;                                 /* EX_NAME: a dtype or a dtype parameter */
	bool has_dims;
	ExprList dims;
} TypeExpr;

typedef struct Param {                              /* of a kernel or fn */
	const char *name;
	Place name_place, place;
	bool is_const;                              /* fn: compile-time */
	TypeExpr *type;                             /* fn: may be NULL */
	Expr *fill;                                 /* y: out f32[N] = 0; NULL if none */
} Param;

typedef VEC(Param) ParamList;

typedef enum ExprKind {
	EX_ERROR,                                   /* stands where parsing failed; reports nothing */
	EX_INT,                                     /* u: value */
	EX_FLOAT,                                   /* f */
	EX_STRING,                                  /* name: the text without quotes, escapes decoded */
	EX_NAME,                                    /* name; scope: "fast" in fast::exp, else NULL */
	EX_UNARY,                                   /* un, a */
	EX_BINARY,                                  /* bin, a, b; op_place */
	EX_COND,                                    /* a ? b : c */
	EX_CALL,                                    /* a: EX_NAME or EX_MEMBER; args */
	EX_INDEX,                                   /* a[subs] else b (b NULL if none) */
	EX_AS,                                      /* a as elem (b: a name, x.dtype or TYPES[i]) */
	EX_MEMBER,                                  /* a.name: x.T, x.shape(d), x.stride(d) */
	EX_LIST,                                    /* [M, N]: items */
	EX_TUPLE,                                   /* (a, b): items */
	EX_FN,                                      /* fn(a, b) => e: params, a */
} ExprKind;

struct Expr {
	ExprKind kind;
	Place place, op_place;
	UnaryOp un;
	BinaryOp bin;
	uint64_t u;
	double f;
	const char *name, *scope;
	const char *spelling;                       /* EX_INT, EX_FLOAT: as written, for fmt */
	bool parens;                                /* was written in parentheses */
	int depth;                                  /* of the tree below, at most AST_DEPTH */
	Expr *a, *b, *c;
	ArgList args;
	SubscriptList subs;
	ExprList items;
	ParamList params;
};

typedef struct Name {
	const char *name;
	Place place;
} Name;

/* What a let or var binds: a name, or a tuple of patterns. */
typedef struct Pattern Pattern;

typedef VEC(Pattern *) PatternList;

struct Pattern {
	const char *name;                           /* NULL: a tuple */
	Place place;
	PatternList items;
};

typedef enum StmtKind {
	ST_ERROR,
	ST_LET,                                     /* let pattern = e */
	ST_VAR,                                     /* var pattern = e */
	ST_ASSIGN,                                  /* target op= e; target EX_NAME, EX_INDEX or EX_TUPLE of names */
	ST_FOR,                                     /* [static] for index in range(args) body [merge (part) orelse] */
	ST_WHILE,                                   /* while e body */
	ST_IF,                                      /* [static] if e body else orelse (an else-if is one ST_IF in orelse) */
	ST_RETURN,                                  /* return [e] */
	ST_EXPR,                                    /* e; a call: store, atomics, assert, print, static_assert … */
	ST_BLOCK,                                   /* { body } */
} StmtKind;

struct Stmt {
	StmtKind kind;
	Place place;
	int depth;
	bool is_static;
	bool has_else;
	Pattern *pattern;                           /* ST_LET, ST_VAR */
	Name index;                                 /* ST_FOR: its counter; name NULL where it was lost */
	Name part;                                  /* ST_FOR with `merge (part) orelse`: the state of another part of it */
	BinaryOp op;                                /* ST_ASSIGN: BIN_NONE for '=' */
	Expr *target, *e;
	ExprList range;                             /* ST_FOR: the 1 to 3 arguments of range */
	StmtList body, orelse;
	Place body_place, orelse_place;             /* with their braces; of an else-if: nowhere (line 0) */
	bool returns;                               /* a return is here or inside */
	bool may_return;                            /* one is inside, under a run-time condition or loop */
	bool ends;                                  /* every path surely ends in a return */
};

typedef enum ItemKind {
	ITEM_ERROR, ITEM_IMPORT, ITEM_CONST, ITEM_FN, ITEM_KERNEL, ITEM_REFERENCE, ITEM_EXAMPLE, ITEM_EXPECT,
} ItemKind;

typedef struct CtParam {                            /* one of <...> */
	const char *name;
	Place name_place, place;
	Name type;                                  /* "dtype", "bool", an integer dtype; name NULL: from the default */
	Expr *value;                                /* default, or NULL */
} CtParam;

typedef VEC(CtParam) CtParamList;

typedef struct Axis {                               /* one of grid(...) */
	const char *name;
	Place name_place;
	Expr *count;
} Axis;

typedef VEC(Axis) AxisList;

typedef struct Tune {                               /* one of tune(...) */
	const char *name;
	Place name_place;
	ExprList values;
} Tune;

typedef VEC(Tune) TuneList;

struct Item {
	ItemKind kind;
	Place place, name_place;
	const char *name;                           /* of the thing; reference, example, expect: of its kernel */
	const char *label;                          /* example: its "name", or NULL; import: the path as written */
	Place label_place;
	Expr *e;                                    /* const: value; fn with =>: the result */
	CtParamList ctparams;
	ParamList params;
	bool has_grid, has_tune;
	Place grid_place, tune_place;
	AxisList grid;
	TuneList tune;
	ExprList where;
	StmtList body;                              /* kernel, fn, reference; example: ST_ASSIGN and ST_EXPR (tolerance) */
	Place body_place;                           /* with its braces; expect: of the facts; line 0: no block */
	ParamList results;                          /* fn f(…) -> type, -> (type, type) */
	bool gives_tuple;                           /* those in brackets */
	bool is_arrow;                              /* fn f(a) => e; */
	bool is_bench;                              /* example … bench */
	ExprList facts;                             /* expect */
	Ast *imported;                              /* import: the file's tree, once loaded */
};

typedef struct Comment {
	Place place;
	const char *text;                           /* with its // or its slashes and stars */
} Comment;

struct Ast {                                        /* one file */
	int file;                                   /* index into Compile.files */
	ItemList items;                             /* in order of the text */
	VEC(Comment) comments;                      /* in order of the text; for fmt */
};

/* parse.c */

/* Parses a source file.  Syntax errors are reported and recovered from: the tree holds every item
 * and statement that parsed.  Never NULL. */
Ast *ast_parse(Compile *cx, int file);
/* Parses one expression, e.g. of --arg 'x=normal(0, 1)'; NULL after an error. */
Expr *ast_parse_expr(Compile *cx, int file);
/* Loads the files that `ast` imports, each file once, depth first; cycles are errors. */
void ast_import(Compile *cx, Ast *ast);

/* print.c */

void ast_dump(const Compile *cx, const Ast *ast, Text *out);    /* the tree, one node a line: --emit=ast */
void expr_print(const Expr *e, Text *out);                      /* one expression as source text */
void type_expr_print(const TypeExpr *t, Text *out);             /* `in strided f16[N, cdiv(K, 128)]` */
void type_dims_print(const TypeExpr *t, Text *out);             /* `[N, cdiv(K, 128)]`, or nothing */
int binary_op_strength(BinaryOp op);
const char *binary_op_text(BinaryOp op);
const char *unary_op_text(UnaryOp op);

/* ast.c: the expressions directly below one, from 0 to expr_children; NULL where an operand is absent */

int expr_children(const Expr *e);
const Expr *expr_child(const Expr *e, int i);

#endif
