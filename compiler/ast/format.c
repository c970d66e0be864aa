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
#include "ast/print.h"

#include <string.h>

static void put_block(Printer *p, const StmtList *l, Place braces);

/* comments and blank lines */

static const Comment *
pending(const Printer *p)
{
	return p->comment < p->ast->comments.n ? &p->ast->comments.at[p->comment] : NULL;
}

static bool
is_before(Place a, int line, int col)
{
	return a.line < line || (a.line == line && a.col < col);
}

static bool
comment_before(const Printer *p, int line, int col)
{
	return pending(p) && is_before(pending(p)->place, line, col);
}

static void
put_indent(Printer *p)
{
	text_printf(p->out, "%*s", layout_indent(p), "");
}

static void
keep_blank(Printer *p, int line)
{
	if (p->line && line > p->line + 1)
		text_put(p->out, "\n");
}

/* Comments up to a place, each on a line of its own; those that stand inside of `unit` come right before it. */
static void
put_comments(Printer *p, Place unit, int line, int col)
{
	while (comment_before(p, line, col)) {
		const Comment *c = pending(p);
		bool inside = !is_before(c->place, unit.line, unit.col);
		keep_blank(p, inside ? unit.line : c->place.line);
		put_indent(p);
		text_printf(p->out, "%s\n", c->text);
		p->line = inside ? unit.line : c->place.end_line;
		p->comment++;
	}
}

/* Ends a line: with the comments that stand behind it in the source, if there are any. */
static void
end_line(Printer *p, int line)
{
	p->line = line;
	while (pending(p) && pending(p)->place.line == p->line) {
		text_printf(p->out, "  %s", pending(p)->text);
		p->line = pending(p)->place.end_line;
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

static void
put_simple(Printer *p, const Stmt *s)
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

static bool
is_simple(const Stmt *s)
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
		put_block(p, &s->body, s->body_place);
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
	put_block(p, &s->orelse, s->orelse_place);
}

static void
put_stmt(Printer *p, const Stmt *s)
{
	Place head = s->place;
	if (s->body_place.line) {
		head.end_line = s->body_place.line;
		head.end_col = s->body_place.col;
	}
	put_comments(p, head, head.end_line, head.end_col);
	keep_blank(p, s->place.line);
	put_indent(p);
	if (s->is_static)
		text_put(p->out, "static ");
	switch (s->kind) {
	case ST_FOR:
		text_printf(p->out, "for %s in range(", s->index.name);
		p->indent++;
		layout_exprs(p, &s->range, 3);
		p->indent--;
		text_put(p->out, ") ");
		put_block(p, &s->body, s->body_place);
		break;
	case ST_WHILE:
		text_put(p->out, "while ");
		layout_expr(p, s->e, 0, 2);
		text_put(p->out, " ");
		put_block(p, &s->body, s->body_place);
		break;
	case ST_IF: put_if(p, s); break;
	case ST_BLOCK: put_block(p, &s->body, s->body_place); break;
	default: put_simple(p, s); break;
	}
	end_line(p, s->place.end_line);
}

/* After '{': what stands behind it on its line, if nothing else does. */
static void
open_block(Printer *p, Place braces)
{
	text_put(p->out, "{");
	p->indent++;
	if (pending(p) && is_before(braces, pending(p)->place.line, pending(p)->place.col) &&
	    is_before(pending(p)->place, braces.end_line, braces.end_col) && pending(p)->place.line == braces.line)
		end_line(p, braces.line);
	else
		text_put(p->out, "\n");
	p->line = 0;
}

static void
close_block(Printer *p, Place braces)
{
	put_comments(p, (Place){.line = braces.end_line, .col = braces.end_col}, braces.end_line, braces.end_col);
	p->indent--;
	put_indent(p);
	text_put(p->out, "}");
}

static void
put_block(Printer *p, const StmtList *l, Place braces)
{
	if (l->n == 0 && !comment_before(p, braces.end_line, braces.end_col)) {
		text_put(p->out, "{}");
		return;
	}
	open_block(p, braces);
	for (int i = 0; i < l->n; i++)
		put_stmt(p, l->at[i]);
	close_block(p, braces);
}

/* headers */

static bool
params_fit(const ParamList *l, int room)
{
	for (int i = 0; i < l->n && room >= 0; i++) {
		Text one = {0};
		param_put(&l->at[i], &one);
		room -= (int)MIN(one.n, (size_t)WIDTH) + 2;
		text_close(&one);
	}
	return room >= 0;
}

/* Parameters: on this line, or on lines of their own that are filled, or one a line if comments stand among them. */
static void
put_params(Printer *p, const ParamList *l)
{
	const Param *last = l->n ? &l->at[l->n - 1] : NULL;
	bool apart = last && comment_before(p, last->place.line, last->place.col);
	text_put(p->out, "(");
	p->indent += 2;
	p->line = 0;
	if (!apart && !params_fit(l, WIDTH - text_column(p->out)))
		layout_break(p);
	for (int i = 0; i < l->n; i++) {
		Place at = l->at[i].place;
		Text one = {0};
		param_put(&l->at[i], &one);
		if (apart) {
			if (i > 0)
				end_line(p, l->at[i - 1].place.end_line);
			else
				text_put(p->out, "\n");
			put_comments(p, at, at.end_line, at.end_col);
			put_indent(p);
		} else if (i > 0 && text_column(p->out) + 1 + (int)one.n + 1 > WIDTH) {
			layout_break(p);
		} else if (i > 0) {
			text_put(p->out, " ");
		}
		text_putn(p->out, one.at, one.n);
		text_put(p->out, i + 1 < l->n ? "," : "");
		text_close(&one);
	}
	p->indent -= 2;
	if (apart && pending(p) && pending(p)->place.line == last->place.end_line) {
		end_line(p, last->place.end_line);
		put_indent(p);
	}
	text_put(p->out, ")");
}

static void
put_ctparams(Printer *p, const Item *k)
{
	p->indent += 2;
	for (int i = 0; i < k->ctparams.n; i++) {
		const CtParam *c = &k->ctparams.at[i];
		Text one = {0};
		text_put(&one, c->name);
		if (c->type.name)
			text_printf(&one, ": %s", c->type.name);
		if (c->value) {
			text_put(&one, " = ");
			expr_put(c->value, binary_op_strength(BIN_OR), &one);
		}
		text_put(p->out, i ? "," : "<");
		if (i > 0 && text_column(p->out) + 1 + (int)one.n + 1 > WIDTH)
			layout_break(p);
		else if (i > 0)
			text_put(p->out, " ");
		text_putn(p->out, one.at, one.n);
		text_close(&one);
	}
	p->indent -= 2;
	text_put(p->out, k->ctparams.n ? ">" : "");
}

static void
put_grid(Printer *p, const Item *k)
{
	text_put(p->out, "grid(");
	for (int i = 0; i < k->grid.n; i++) {
		text_printf(p->out, "%s%s: ", i ? ", " : "", k->grid.at[i].name);
		layout_expr(p, k->grid.at[i].count, 0, 1);
	}
	text_put(p->out, ")");
}

static void
put_tune(Printer *p, const Item *k)
{
	text_put(p->out, "tune(");
	p->indent++;
	for (int i = 0; i < k->tune.n; i++) {
		const Tune *t = &k->tune.at[i];
		int width = (int)strlen(t->name) + 5;
		for (int j = 0; j < t->values.n && width < WIDTH; j++) {
			Text one = {0};
			expr_put(t->values.at[j], 0, &one);
			width += (int)MIN(one.n, (size_t)WIDTH) + 2;
			text_close(&one);
		}
		text_put(p->out, i ? ", " : "");
		if (i > 0 && text_column(p->out) + width > WIDTH)
			layout_break(p);
		text_printf(p->out, "%s = {", t->name);
		layout_exprs(p, &t->values, 2);
		text_put(p->out, "}");
	}
	p->indent--;
	text_put(p->out, ")");
}

static void
clause(Printer *p, bool one_line)
{
	if (one_line)
		text_put(p->out, " ");
	else
		layout_break(p);
}

static void
put_clauses(Printer *p, const Item *k, bool one_line)
{
	p->indent++;
	if (k->has_grid) {
		clause(p, one_line);
		put_grid(p, k);
	}
	if (k->has_tune) {
		clause(p, one_line);
		put_tune(p, k);
	}
	for (int i = 0; i < k->where.n; i++) {
		clause(p, one_line);
		text_put(p->out, "where ");
		layout_expr(p, k->where.at[i], 0, 0);
	}
	p->indent--;
}

/* The header up to the blank before its '{'. */
static void
put_kernel_head(Printer *p, const Item *k)
{
	size_t start = p->out->n;
	text_printf(p->out, "kernel %s", k->name);
	put_ctparams(p, k);
	put_params(p, &k->params);
	if (!k->has_grid && !k->has_tune && k->where.n == 0) {
		text_put(p->out, " ");
		return;
	}
	size_t before = p->out->n;
	put_clauses(p, k, true);
	if (p->out->n - start + 2 <= WIDTH && !memchr(p->out->at + start, '\n', p->out->n - start)) {
		text_put(p->out, " ");
		return;
	}
	p->out->n = before;
	p->out->at[before] = 0;
	put_clauses(p, k, false);
	text_put(p->out, "\n");
}

/* items */

/* { a = 1; b = 2; } on one line if it was on one and fits. */
static bool
put_short_block(Printer *p, const StmtList *l, Place braces)
{
	size_t start = p->out->n;
	if (braces.line != braces.end_line || l->n == 0 || comment_before(p, braces.end_line, braces.end_col))
		return false;
	for (int i = 0; i < l->n; i++)
		if (!is_simple(l->at[i]))
			return false;
	int left = WIDTH - text_column(p->out) - 2;
	text_put(p->out, "{");
	for (int i = 0; i < l->n && left >= 0; i++) {
		size_t before = p->out->n;
		text_put(p->out, " ");
		put_simple(p, l->at[i]);
		left -= (int)MIN(p->out->n - before, (size_t)WIDTH);
		if (memchr(p->out->at + before, '\n', p->out->n - before))
			left = -1;
	}
	text_put(p->out, " }");
	if (left >= 0)
		return true;
	p->out->n = start;
	p->out->at[start] = 0;
	return false;
}

static void
put_body(Printer *p, const Item *item)
{
	if (!put_short_block(p, &item->body, item->body_place))
		put_block(p, &item->body, item->body_place);
}

/* Text in quotes, as it must be written. */
static void
put_quoted(Printer *p, const char *s)
{
	text_put(p->out, "\"");
	for (; *s; s++) {
		const char *escape = *s == '\n' ? "\\n" : *s == '\t' ? "\\t" : *s == '\r' ? "\\r" : *s == '"' ? "\\\""
		                   : *s == '\\' ? "\\\\" : NULL;
		if (escape)
			text_put(p->out, escape);
		else
			text_putn(p->out, s, 1);
	}
	text_put(p->out, "\"");
}

/* The lines of an example are short: those that stood on one line stay on one as far as they fit. */
static void
put_example_lines(Printer *p, const StmtList *l)
{
	for (int i = 0; i < l->n; i++) {
		const Stmt *s = l->at[i];
		bool joins = i > 0 && s->place.line == p->line && !comment_before(p, s->place.end_line, s->place.end_col) &&
		             is_simple(s);
		Text one = {0};
		Printer alone = {.out = &one, .ast = p->ast, .indent = p->indent};
		text_put(&one, "");
		if (joins)
			put_simple(&alone, s);
		if (joins && text_column(p->out) + 1 + (int)MIN(one.n, (size_t)WIDTH) <= WIDTH && !strchr(one.at, '\n')) {
			text_printf(p->out, " %s", one.at);
			p->line = s->place.end_line;
		} else {
			if (i > 0)
				end_line(p, l->at[i - 1]->place.end_line);
			put_comments(p, s->place, s->place.end_line, s->place.end_col);
			keep_blank(p, s->place.line);
			put_indent(p);
			put_simple(p, s);
			p->line = s->place.end_line;
		}
		text_close(&one);
	}
	if (l->n)
		end_line(p, l->at[l->n - 1]->place.end_line);
}

static void
put_example(Printer *p, const Item *item)
{
	bool simple = true;
	text_printf(p->out, "example %s ", item->name);
	if (item->label) {
		put_quoted(p, item->label);
		text_put(p->out, " ");
	}
	text_put(p->out, item->is_bench ? "bench " : "");
	for (int i = 0; i < item->body.n; i++)
		simple = simple && is_simple(item->body.at[i]);
	if (!simple || item->body.n == 0) {
		put_block(p, &item->body, item->body_place);
		return;
	}
	if (put_short_block(p, &item->body, item->body_place))
		return;
	open_block(p, item->body_place);
	put_example_lines(p, &item->body);
	close_block(p, item->body_place);
}

static void
put_expect(Printer *p, const Item *item)
{
	text_printf(p->out, "expect %s ", item->name);
	open_block(p, item->body_place);
	for (int i = 0; i < item->facts.n; i++) {
		Place at = item->facts.at[i]->place;
		put_comments(p, at, at.end_line, at.end_col);
		keep_blank(p, at.line);
		put_indent(p);
		layout_expr(p, item->facts.at[i], 0, 1);
		text_put(p->out, ";");
		end_line(p, at.end_line);
	}
	close_block(p, item->body_place);
}

static void
put_fn(Printer *p, const Item *item)
{
	text_printf(p->out, "fn %s", item->name);
	put_params(p, &item->params);
	for (int i = 0; i < item->results.n; i++) {
		text_put(p->out, i ? ", " : item->gives_tuple ? " -> (" : " -> ");
		type_put(item->results.at[i].type, p->out);
	}
	text_put(p->out, item->gives_tuple ? ")" : "");
	text_put(p->out, item->is_arrow ? " => " : " ");
	if (!item->is_arrow) {
		put_body(p, item);
		return;
	}
	layout_expr(p, item->e, 0, 1);
	text_put(p->out, ";");
}

static void
put_item(Printer *p, const Item *item)
{
	switch (item->kind) {
	case ITEM_IMPORT:
		text_put(p->out, "import ");
		put_quoted(p, item->label);
		text_put(p->out, ";");
		break;
	case ITEM_CONST:
		text_printf(p->out, "const %s = ", item->name);
		layout_expr(p, item->e, 0, 1);
		text_put(p->out, ";");
		break;
	case ITEM_FN: put_fn(p, item); break;
	case ITEM_KERNEL:
		put_kernel_head(p, item);
		put_body(p, item);
		break;
	case ITEM_REFERENCE:
		text_printf(p->out, "reference %s ", item->name);
		put_body(p, item);
		break;
	case ITEM_EXAMPLE: put_example(p, item); break;
	case ITEM_EXPECT: put_expect(p, item); break;
	case ITEM_ERROR: break;
	}
}

/* Comments of an item's header come before the item, those in its first parameter too, but for those among its
 * parameters if there are any. */
static void
put_item_comments(Printer *p, const Item *item)
{
	const ParamList *l = &item->params;
	Place at = item->place, last = l->n ? l->at[l->n - 1].place : at;
	int line = item->body_place.line ? item->body_place.line : at.end_line;
	int col = item->body_place.line ? item->body_place.col : at.end_col;
	if (l->n) {
		put_comments(p, at, l->at[0].place.end_line, l->at[0].place.end_col);
		if (comment_before(p, last.line, last.col))
			return;
	}
	put_comments(p, at, line, col);
}

void
ast_print(const Compile *cx, const Ast *ast, Text *out)
{
	Printer p = {.ast = ast, .out = out};
	text_put(out, "");
	for (int i = 0; i < ast->items.n; i++) {
		const Item *item = ast->items.at[i];
		put_item_comments(&p, item);
		keep_blank(&p, item->place.line);
		put_item(&p, item);
		end_line(&p, item->place.end_line);
	}
	put_comments(&p, (Place){.line = INT32_MAX}, INT32_MAX, 1);
}
