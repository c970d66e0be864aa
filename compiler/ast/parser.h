/* What the lexer, the grammar and parse.c share; only they and the constructors (ast*.c) include this. */
#ifndef TEGULA_PARSER_H
#define TEGULA_PARSER_H

#include "ast/ast.h"

enum { PARSER_EXPECTED = 160 };                     /* more than there are tokens */
enum { PARSER_NO_TOKEN = -2 };                      /* bison's YYEMPTY */

typedef struct Block {
	StmtList stmts;
	Place place;
} Block;

/* The value of a token or a nonterminal. */
typedef union TokenValue {
	const char *name;
	Name id;
	Pattern *pattern;
	Expr *expr;
	ExprList *exprs;
	Arg arg;
	ArgList *args;
	Subscript sub;
	SubscriptList *subs;
	Stmt *stmt;
	StmtList *stmts;
	Block *block;
	Item *item;
	CtParam ctparam;
	Param param;
	ParamList *params;
	TypeExpr *type;
	Axis axis;
	Tune tune;
	int flag;
	BinaryOp op;
} TokenValue;

typedef struct Unread {
	int token;
	TokenValue value;
	Place place;
} Unread;

typedef struct Bracket {
	int token;                                  /* ( [ { */
	Place place;
} Bracket;

typedef struct Parser {
	Compile *cx;
	Ast *ast;
	int file;
	Expr *expr;                                 /* what START_EXPR parsed */
	void *scanner;
	int start;                                  /* token that says what is parsed; 0 once given out */
	Place last;                                 /* of the token before the one being looked at */
	Place now;
	int line, col;                              /* of the lexer */
	bool skipped;                               /* characters that begin nothing, before the token now read */
	Place bad;                                  /* of the last token that was reported itself */
	Place comment;                              /* of an open comment */
	size_t comment_at, at;                      /* byte offsets in the text */
	size_t line_at;                             /* of the start of the lexer's line */
	VEC(Bracket) open;                          /* ( [ { not yet closed */
	VEC(Unread) unread;                         /* tokens to hand out before those of the text, the last first */
	int stuck;                                  /* times that recovery began at one place */
	Place stuck_at;
	int resume;                                 /* the lookahead after recovery, or none */
	bool gave_up;                               /* too deep: the rest is not read */
	struct Described *described[8];             /* lists of tokens that were described lately */
	int nsyntax;                                /* syntax errors so far */
	/* what a header collects until its kernel takes it */
	VEC(CtParam) ctparams;
	VEC(Axis) axes;
	VEC(Tune) tunes;
	ExprList facts;
} Parser;

static inline Place
place_after(Place p)
{
	return (Place){p.file, p.end_line, p.end_col, p.end_line, p.end_col};
}

/* parse.c: for the lexer and the parser */

void parser_advance(Parser *p, Place *place, const char *text, size_t n);
const char *parser_intern(Parser *p, const char *text, size_t n);
void parser_comment(Parser *p, Place *place, const char *text, size_t n);
void parser_comment_open(Parser *p, Place *place);
void parser_comment_close(Parser *p, Place *place);
void parser_unclosed_comment(Parser *p);
int parser_int(Parser *p, TokenValue *value, Place *place, const char *text, size_t n);
int parser_float(Parser *p, TokenValue *value, Place *place, const char *text, size_t n);
int parser_bad_number(Parser *p, TokenValue *value, Place *place, const char *text, size_t n);
int parser_string(Parser *p, TokenValue *value, Place *place, const char *text, size_t n);
int parser_unclosed_string(Parser *p, TokenValue *value, Place *place);
int parser_scan(Parser *p, TokenValue *value, Place *place);
void parser_bad_byte(Parser *p, Place *place, const char *text, size_t n);

/* recover.c: tokens for bison, and what happens after an error */

typedef enum Recover {
	RECOVER_END,                                /* a ';' is missing: nothing is skipped if a line ends here */
	RECOVER_STMT,                               /* past this statement */
	RECOVER_HEAD,                               /* to the body that follows */
	RECOVER_CLAUSE,                             /* to the body of a kernel or the next clause of its header */
	RECOVER_LIST,                               /* past the parenthesis that closes a list of parameters */
	RECOVER_ITEM,                               /* past this item */
} Recover;

int parser_next(Parser *p, TokenValue *value, Place *place);
/* Skips, beginning with the token given (or PARSER_NO_TOKEN), and leaves the token to go on with in p->resume.
 * True if errors from there on are worth a report. */
bool parser_recover(Parser *p, Recover how, int token, TokenValue *value, Place *place);
void parser_too_deep(Parser *p, Place place);

/* message.c */

void parser_syntax_error(Parser *p, Place place, const char *found, const char *const *expected, int n);

/* ast.c: how deep trees are; 0: none, or too deep, which is reported */

int ast_depth_above(Parser *p, int below);
int ast_expr_depth(const Expr *e);
int ast_list_depth(const ExprList *l);

#define LIST_COPY(to, from)                                                                        \
	do {                                                                                       \
		if (from)                                                                          \
			(to) = *(from);                                                            \
	} while (0)

/* ast.c, ast_stmt.c, ast_expr.c: one constructor for each production.  Lists are made by giving NULL as the list. */

void ast_item_add(Parser *p, Item *item);
Item *ast_import_item(Parser *p, Place at, const Expr *path);
Item *ast_const(Parser *p, Place at, Name name, Expr *e);
ParamList *ast_result(Parser *p, ParamList *list, TypeExpr *type);
Item *ast_fn(Parser *p, Place at, Name name, ParamList *params, ParamList *results, int gives_tuple);
Item *ast_fn_body(Parser *p, Place at, Item *item, const Block *body, Expr *arrow);
Item *ast_kernel(Parser *p, Place at, Name name, int has_ctparams, ParamList *params);
Item *ast_kernel_grid(Parser *p, Item *k, Place at, Place clause);
Item *ast_kernel_tune(Parser *p, Item *k, Place at, Place clause);
Item *ast_kernel_where(Parser *p, Item *k, Place at, Expr *e);
Item *ast_kernel_body(Parser *p, Place at, Item *k, const Block *body);
Item *ast_block_item(Parser *p, ItemKind kind, Place at, Name name, const Expr *label, int is_bench, const Block *body);
Item *ast_expect(Parser *p, Place at, Name name, Place braces);
Item *ast_lost(Parser *p, Place at, Name name);
void ast_facts_open(Parser *p);
void ast_fact(Parser *p, Expr *e);
CtParam ast_ctparam(Place at, Name name, const Name *type, Expr *value);
void ast_ctparam_add(Parser *p, CtParam c, bool first);
Axis ast_axis(Name name, Expr *count);
void ast_axis_add(Parser *p, Axis a, bool first);
Tune ast_tune(Name name, const ExprList *values);
void ast_tune_add(Parser *p, Tune t, bool first);
ParamList *ast_params(Parser *p, ParamList *list, Param param);
Param ast_param(Parser *p, Place at, Name name, int is_const, TypeExpr *type, Expr *fill);
TypeExpr *ast_type(Parser *p, Place at, int mode, int strided, const char *elem, Place elem_place, bool has_dims,
    const ExprList *dims);
TypeExpr *ast_pointer(Parser *p, Place at, int mut, const char *elem, Place elem_place);

Block *ast_braces(Parser *p, Place at, const StmtList *stmts);
StmtList *ast_stmts(Parser *p, StmtList *list, Stmt *s);
void stmt_note_returns(Stmt *s);                        /* returns.c: of a statement that is complete */
Stmt *ast_bind(Parser *p, StmtKind kind, Place at, Pattern *pattern, Expr *e);
Stmt *ast_expr_stmt(Parser *p, Place at, Expr *e);
Stmt *ast_assign(Parser *p, Place at, Expr *target, BinaryOp op, Expr *e);
Stmt *ast_for(Parser *p, Place at, int is_static, Name index, Name range, const ExprList *args, const Block *body);
Stmt *ast_for_lost(Parser *p, Place at, Name index, Place range, const Block *body);
Stmt *ast_while(Parser *p, Place at, Expr *e, const Block *body);
Stmt *ast_if(Parser *p, Place at, Expr *e, const Block *body);
Stmt *ast_else(Parser *p, Place at, Stmt *s, const Block *orelse);
Stmt *ast_else_if(Parser *p, Place at, Stmt *s, Stmt *orelse);
Stmt *ast_static_if(Parser *p, Place at, Stmt *s);
Stmt *ast_return(Parser *p, Place at, Expr *e);
Stmt *ast_block(Parser *p, Place at, const Block *body);
Stmt *ast_no_jump(Parser *p, Place at, const char *word);
Pattern *ast_pattern(Parser *p, Name name);
Pattern *ast_patterns(Parser *p, Pattern *list, Pattern *item);
Pattern *ast_pattern_tuple(Parser *p, Place at, Pattern *list);

ExprList *ast_exprs(Parser *p, ExprList *list, Expr *e);
ExprList *ast_exprs_first(Parser *p, Expr *first, const ExprList *rest);
Expr *ast_error(Parser *p, Place at);
Expr *ast_literal(Parser *p, ExprKind kind, Place at);
Expr *ast_name(Parser *p, Name name, const char *scope);
Expr *ast_scoped(Parser *p, Place at, Name scope, Name name);
Expr *ast_parens(Parser *p, Place at, Expr *e);
Expr *ast_tuple(Parser *p, Place at, const ExprList *items);
Expr *ast_list(Parser *p, Place at, const ExprList *items);
Expr *ast_unary(Parser *p, Place at, UnaryOp op, Expr *a);
Expr *ast_binary(Parser *p, Place at, BinaryOp op, Place op_place, Expr *a, Expr *b);
Expr *ast_compare(Parser *p, Place at, BinaryOp op, Place op_place, Expr *a, Expr *b);
Expr *ast_cond(Parser *p, Place at, Expr *a, Expr *b, Expr *c);
Expr *ast_as(Parser *p, Place at, Expr *a, Expr *type);
Expr *ast_fill(Parser *p, Place at, Expr *index, Expr *fill);
Expr *ast_call(Parser *p, Place at, Expr *callee, const ArgList *args);
Expr *ast_member(Parser *p, Place at, Expr *a, Name name);
Expr *ast_index(Parser *p, Place at, Expr *a, const SubscriptList *subs);
Expr *ast_lambda(Parser *p, Place at, const ParamList *params, Expr *e);
Subscript ast_subscript(Place at, SubscriptKind kind, Expr *e, Expr *extent);
SubscriptList *ast_subscripts(Parser *p, SubscriptList *list, Subscript s);
ArgList *ast_args(Parser *p, ArgList *list, Arg a);

#endif
