/* Canonical source text: `tegula fmt` and the language server.  All but the first function is private to the folder. */
#ifndef TEGULA_FMT_H
#define TEGULA_FMT_H

#include "ast/print.h"

/* format.c */

void ast_print(const Ast *ast, Text *out);

/* Statements, comments and blank lines. */

const Comment *format_pending(const Printer *p);
bool format_comment_before(const Printer *p, int line, int col);
void format_indent(Printer *p);
void format_blank(Printer *p, int line);
void format_comments(Printer *p, Place unit, int line, int col);
void format_end_line(Printer *p, int line);
void format_simple(Printer *p, const Stmt *s);
bool format_is_simple(const Stmt *s);
void format_open(Printer *p, Place braces);
void format_close(Printer *p, Place braces);
void format_block(Printer *p, const StmtList *l, Place braces);

/* format_header.c */

void format_params(Printer *p, const ParamList *l);
void format_kernel_head(Printer *p, const Item *k);

/* format_item.c */

void format_item(Printer *p, const Item *item);
void format_item_comments(Printer *p, const Item *item);

#endif
