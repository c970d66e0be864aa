/* Source text from the tree, for what prints more than one line of it (tool/fmt/). */
#ifndef TEGULA_AST_PRINT_H
#define TEGULA_AST_PRINT_H

#include "ast/ast.h"

enum { WIDTH = 100, INDENT = 4 };

enum { STRENGTH_COND = 1, STRENGTH_AS = 11, STRENGTH_UNARY = 12, STRENGTH_POSTFIX = 13 };

typedef struct Printer {
	const Ast *ast;
	Text *out;                                  /* NULL: what is written is counted */
	bool flat;                                  /* nothing breaks a line */
	int room;                                   /* columns that are left to what is counted */
	int indent;
	int comment;                                /* the next one to print */
	int line;                                   /* last source line printed, 0 at the start of a block or file */
} Printer;

/* print.c: on one line */

void expr_put(const Expr *e, int least, Text *out);     /* in parentheses if it binds more loosely than `least` */
void param_put(const Param *p, Text *out);

/* print.c: on as many lines as it takes; `after` columns follow on the last one */

int text_column(const Text *t);
int layout_indent(const Printer *p);                    /* columns */
void layout_break(Printer *p);                          /* a new line, indented */
void layout_expr(Printer *p, const Expr *e, int least, int after);
void layout_exprs(Printer *p, const ExprList *l, int after);

#endif
