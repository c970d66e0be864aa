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
	PatternList patterns;
	Expr *expr;
	ExprList exprs;
	Arg arg;
	ArgList args;
	Subscript sub;
	SubscriptList subs;
	Stmt *stmt;
	StmtList stmts;
	Block block;
	Item *item;
	CtParam ctparam;
	CtParamList ctparams;
	Param param;
	ParamList params;
	TypeExpr *type;
	Axis axis;
	AxisList axes;
	Tune tune;
	TuneList tunes;
	Mode mode;
	bool flag;
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
	Bracket closed;                             /* the one closed last */
	VEC(Unread) unread;                         /* tokens to hand out before those of the text, the last first */
	int stuck;                                  /* times that recovery began at one place */
	Place stuck_at;
	int resume;                                 /* the lookahead after recovery, or none */
	bool gave_up;                               /* too deep: the rest is not read */
	struct Described *described[8];             /* lists of tokens that were described lately */
	int nsyntax;                                /* syntax errors so far */
} Parser;

static inline Place
place_after(Place p)
{
	return (Place){p.file, p.end_line, p.end_col, p.end_line, p.end_col, NULL};
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

/* ast.c: nodes.  Each is given as it is to be but for its depth, which follows from the nodes below it; a tree that is too
 * deep is reported and becomes an EX_ERROR or ST_ERROR without depth. */

Expr *ast_expr(Parser *p, Expr e);
Expr *ast_error(Parser *p, Place at);
Expr *ast_name(Parser *p, Name name);
Expr *ast_compare(Parser *p, Expr e);                   /* EX_BINARY: a < b < c is an error */
Expr *ast_call(Parser *p, Expr e);                      /* EX_CALL: of a name or member */
Subscript ast_subscript(SubscriptKind kind, Place at, Expr *e, Expr *extent);
Stmt *ast_stmt(Parser *p, Stmt s);
Stmt *ast_assign(Parser *p, Place at, Expr *target, BinaryOp op, Expr *e);
Stmt *ast_for(Parser *p, Stmt s, Name range);           /* ST_FOR: over what is called so */
Stmt *ast_else(Parser *p, Place at, Stmt *s, Block orelse);
Stmt *ast_merge(Parser *p, Stmt *s, Name part, Block merge);
Stmt *ast_static_if(Place at, Stmt *s);
Stmt *ast_no_jump(Parser *p, Place at, const char *word);
Pattern *ast_pattern(Parser *p, Pattern pattern);
TypeExpr *ast_type(Parser *p, TypeExpr t);
Item *ast_item(Parser *p, Item item);
Item *ast_body(Item *item, Place at, Block body);
Item *ast_kernel_grid(Parser *p, Item *k, Place at, Place clause, AxisList axes);
Item *ast_kernel_tune(Parser *p, Item *k, Place at, Place clause, TuneList tunes);

void stmt_note_returns(Stmt *s);                        /* returns.c: of a statement that is complete */

#endif
