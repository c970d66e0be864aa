/* The tree as source again: `tegula fmt`.
 *
 * Canonical form: four spaces a level, one statement a line, lines of 100 columns, a kernel's clauses on the
 * header's line if all fits and on lines of their own if not, in the order grid, tune, where; at most one
 * blank line in a row, where the source had any.  An item's body that was on one line stays there if it fits.
 *
 * Comments stay in their order.  One behind code at the end of a line stays there, one between parameters
 * puts each parameter on a line of its own, and one inside of a statement moves before it.  Formatting what
 * was formatted changes nothing: all that is decided here depends on the tree, and for comments and blank
 * lines on which line of the source holds the end of one thing and the start of the next. */
#include "tool/fmt/fmt.h"

#include <string.h>

/* comments and blank lines */

const Comment *
format_pending(const Printer *p)
{
	return p->comment < p->ast->comments.n ? &p->ast->comments.at[p->comment] : NULL;
}

static bool
is_before(Place a, int line, int col)
{
	return a.line < line || (a.line == line && a.col < col);
}

bool
format_comment_before(const Printer *p, int line, int col)
{
	return format_pending(p) && is_before(format_pending(p)->place, line, col);
}

void
format_indent(Printer *p)
{
	text_printf(p->out, "%*s", layout_indent(p), "");
}

void
format_blank(Printer *p, int line)
{
	if (p->line && line > p->line + 1)
		text_put(p->out, "\n");
}

/* Comments up to a place, each on a line of its own; those that stand inside of `unit` come right before it. */
void
format_comments(Printer *p, Place unit, int line, int col)
{
	while (format_comment_before(p, line, col)) {
		const Comment *c = format_pending(p);
		bool inside = !is_before(c->place, unit.line, unit.col);
		format_blank(p, inside ? unit.line : c->place.line);
		format_indent(p);
		text_printf(p->out, "%s\n", c->text);
		p->line = inside ? unit.line : c->place.end_line;
		p->comment++;
	}
}

/* Ends a line: with the comments that stand behind it in the source, if there are any. */
void
format_end_line(Printer *p, int line)
{
	p->line = line;
	while (format_pending(p) && format_pending(p)->place.line == p->line) {
		text_printf(p->out, "  %s", format_pending(p)->text);
		p->line = format_pending(p)->place.end_line;
		p->comment++;
	}
	text_put(p->out, "\n");
}

/* statements */

static void
put_pattern(Printer *p, const Pattern *pattern)
{
	if (pattern->name) {
		text_put(p->out, pattern->name);
		return;
	}
	text_put(p->out, "(");
	for (int i = 0; i < pattern->items.n; i++) {
		text_put(p->out, i ? ", " : "");
		put_pattern(p, pattern->items.at[i]);
	}
	text_put(p->out, ")");
}

void
format_simple(Printer *p, const Stmt *s)
{
	switch (s->kind) {
	case ST_LET: case ST_VAR:
		text_put(p->out, s->kind == ST_LET ? "let " : "var ");
		put_pattern(p, s->pattern);
		text_put(p->out, " = ");
		layout_expr(p, s->e, 0, 1);
		break;
	case ST_ASSIGN:
		layout_expr(p, s->target, 0, 5);
		text_printf(p->out, " %s= ", s->op == BIN_NONE ? "" : binary_op_text(s->op));
		layout_expr(p, s->e, 0, 1);
		break;
	case ST_RETURN:
		text_put(p->out, s->e ? "return " : "return");
		if (s->e)
			layout_expr(p, s->e, 0, 1);
		break;
	case ST_EXPR: layout_expr(p, s->e, 0, 1); break;
	default: break;
	}
	text_put(p->out, ";");
}

bool
format_is_simple(const Stmt *s)
{
	return s->kind == ST_LET || s->kind == ST_VAR || s->kind == ST_ASSIGN || s->kind == ST_RETURN || s->kind == ST_EXPR;
}

/* An else-if chain is a loop here: it may be as long as trees may be deep. */
static void
put_if(Printer *p, const Stmt *s)
{
	for (;;) {
		text_put(p->out, "if ");
		layout_expr(p, s->e, 0, 2);
		text_put(p->out, " ");
		format_block(p, &s->body, s->body_place);
		if (!s->has_else)
			return;
		text_put(p->out, " else ");
		const Stmt *next = s->orelse.n == 1 && s->orelse_place.line == 0 ? s->orelse.at[0] : NULL;
		if (!next)
			break;
		if (next->is_static && !s->is_static)
			text_put(p->out, "static ");
		s = next;
	}
	format_block(p, &s->orelse, s->orelse_place);
}

static void
put_stmt(Printer *p, const Stmt *s)
{
	Place head = s->place;
	if (s->body_place.line) {
		head.end_line = s->body_place.line;
		head.end_col = s->body_place.col;
	}
	format_comments(p, head, head.end_line, head.end_col);
	format_blank(p, s->place.line);
	format_indent(p);
	if (s->is_static)
		text_put(p->out, "static ");
	switch (s->kind) {
	case ST_FOR:
		text_printf(p->out, "for %s in range(", s->index.name);
		p->indent++;
		layout_exprs(p, &s->range, 3);
		p->indent--;
		text_put(p->out, ") ");
		format_block(p, &s->body, s->body_place);
		if (s->part.name) {
			text_printf(p->out, " merge (%s) ", s->part.name);
			format_block(p, &s->orelse, s->orelse_place);
		}
		break;
	case ST_WHILE:
		text_put(p->out, "while ");
		layout_expr(p, s->e, 0, 2);
		text_put(p->out, " ");
		format_block(p, &s->body, s->body_place);
		break;
	case ST_IF: put_if(p, s); break;
	case ST_BLOCK: format_block(p, &s->body, s->body_place); break;
	default: format_simple(p, s); break;
	}
	format_end_line(p, s->place.end_line);
}

/* After '{': what stands behind it on its line, if nothing else does. */
void
format_open(Printer *p, Place braces)
{
	text_put(p->out, "{");
	p->indent++;
	if (format_pending(p) && is_before(braces, format_pending(p)->place.line, format_pending(p)->place.col) &&
	    is_before(format_pending(p)->place, braces.end_line, braces.end_col) &&
	    format_pending(p)->place.line == braces.line)
		format_end_line(p, braces.line);
	else
		text_put(p->out, "\n");
	p->line = 0;
}

void
format_close(Printer *p, Place braces)
{
	format_comments(p, (Place){.line = braces.end_line, .col = braces.end_col}, braces.end_line, braces.end_col);
	p->indent--;
	format_indent(p);
	text_put(p->out, "}");
}

void
format_block(Printer *p, const StmtList *l, Place braces)
{
	if (l->n == 0 && !format_comment_before(p, braces.end_line, braces.end_col)) {
		text_put(p->out, "{}");
		return;
	}
	format_open(p, braces);
	for (int i = 0; i < l->n; i++)
		put_stmt(p, l->at[i]);
	format_close(p, braces);
}

void
ast_print(const Ast *ast, Text *out)
{
	Printer p = {.ast = ast, .out = out};
	text_put(out, "");
	for (int i = 0; i < ast->items.n; i++) {
		const Item *item = ast->items.at[i];
		format_item_comments(&p, item);
		format_blank(&p, item->place.line);
		format_item(&p, item);
		format_end_line(&p, item->place.end_line);
	}
	format_comments(&p, (Place){.line = INT32_MAX}, INT32_MAX, 1);
}
