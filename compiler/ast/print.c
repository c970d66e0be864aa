/* The tree as source again: `tegula fmt`.
 *
 * Canonical form: four spaces a level, one statement a line, a kernel's clauses on the header's line if
 * all fits in 100 columns and on lines of their own if not, at most one blank line in a row where the
 * source had any, one between items.  Comments stay: one on a line of its own before what follows it, one
 * behind code at the end of that line.  A comment inside an expression moves before its statement. */
#include "ast/ast.h"

#include <string.h>

enum { WIDTH = 100, INDENT = 4 };

static const char *const unary_text[] = {
#define X(name, text) text,
	UNARY_OPS(X)
#undef X
};
static const char *const binary_text[] = {
#define X(name, text, strength) text,
	BINARY_OPS(X)
#undef X
};
static const int binary_strength[] = {
#define X(name, text, strength) strength,
	BINARY_OPS(X)
#undef X
};

/* expressions */

enum { STRENGTH_COND = 1, STRENGTH_AS = 11, STRENGTH_UNARY = 12, STRENGTH_POSTFIX = 13 };

static int
strength(const Expr *e)
{
	switch (e->kind) {
	case EX_COND: return STRENGTH_COND;
	case EX_BINARY: return binary_strength[e->bin];
	case EX_AS: return STRENGTH_AS;
	case EX_UNARY: return STRENGTH_UNARY;
	case EX_INDEX: return e->b ? STRENGTH_UNARY : STRENGTH_POSTFIX;
	default: return STRENGTH_POSTFIX;
	}
}

/* Parentheses stay where they were written, and appear where the tree needs them. */
static void
put(const Expr *e, int least, Text *out)
{
	if (e->parens || strength(e) < least) {
		text_put(out, "(");
		expr_print(e, out);
		text_put(out, ")");
	} else {
		expr_print(e, out);
	}
}

static void
put_plain(const Expr *e, Text *out)
{
	put(e, 0, out);
}

static void
put_exprs(const ExprList *l, Text *out)
{
	for (int i = 0; i < l->n; i++) {
		text_put(out, i ? ", " : "");
		put_plain(l->at[i], out);
	}
}

static void
put_type(const TypeExpr *t, Text *out)
{
	static const char *const mode[] = {"", "in ", "out ", "inout ", "scratch "};
	text_printf(out, "%s%s%s%s", mode[t->mode], t->strided ? "strided " : "", t->pointer ? "*" : "",
	    t->mut ? "mut " : "");
	put_plain(t->elem, out);
	if (t->has_dims) {
		text_put(out, "[");
		put_exprs(&t->dims, out);
		text_put(out, "]");
	}
}

static void
put_param(const Param *p, Text *out)
{
	text_printf(out, "%s%s", p->is_const ? "const " : "", p->name);
	if (p->type) {
		text_put(out, ": ");
		put_type(p->type, out);
	}
	if (p->fill) {
		text_put(out, " = ");
		put_plain(p->fill, out);
	}
}

static void
put_subscript(const Subscript *s, Text *out)
{
	switch (s->kind) {
	case SUB_ALL: text_put(out, ":"); break;
	case SUB_NEW: text_put(out, "new"); break;
	case SUB_INDEX: put_plain(s->e, out); break;
	case SUB_PART:
		put_plain(s->e, out);
		text_put(out, " +: ");
		put_plain(s->extent, out);
		break;
	}
}

static void
put_args(const Expr *e, Text *out)
{
	text_put(out, "(");
	for (int i = 0; i < e->args.n; i++) {
		const Arg *a = &e->args.at[i];
		text_put(out, i ? ", " : "");
		if (a->name)
			text_printf(out, "%s = ", a->name);
		put_plain(a->e, out);
	}
	text_put(out, ")");
}

static void
put_binary(const Expr *e, Text *out)
{
	int s = binary_strength[e->bin];
	bool compares = e->bin >= BIN_EQ && e->bin <= BIN_GE;
	put(e->a, compares ? s + 1 : s, out);
	text_printf(out, " %s ", binary_text[e->bin]);
	put(e->b, s + 1, out);
}

static void
put_unary(const Expr *e, Text *out)
{
	text_put(out, unary_text[e->un]);
	put(e->a, STRENGTH_UNARY, out);
}

void
expr_print(const Expr *e, Text *out)
{
	switch (e->kind) {
	case EX_ERROR: text_put(out, "<error>"); break;
	case EX_INT: case EX_FLOAT: case EX_STRING: text_put(out, e->spelling); break;
	case EX_NAME: text_printf(out, "%s%s%s", e->scope ? e->scope : "", e->scope ? "::" : "", e->name); break;
	case EX_UNARY: put_unary(e, out); break;
	case EX_BINARY: put_binary(e, out); break;
	case EX_COND:
		put(e->a, STRENGTH_COND + 1, out);
		text_put(out, " ? ");
		put_plain(e->b, out);
		text_put(out, " : ");
		put(e->c, STRENGTH_COND, out);
		break;
	case EX_CALL:
		put(e->a, STRENGTH_POSTFIX, out);
		put_args(e, out);
		break;
	case EX_INDEX:
		put(e->a, STRENGTH_POSTFIX, out);
		text_put(out, "[");
		for (int i = 0; i < e->subs.n; i++) {
			text_put(out, i ? ", " : "");
			put_subscript(&e->subs.at[i], out);
		}
		text_put(out, "]");
		if (e->b) {
			text_put(out, " else ");
			put(e->b, STRENGTH_UNARY, out);
		}
		break;
	case EX_AS:
		put(e->a, STRENGTH_AS, out);
		text_put(out, " as ");
		put_plain(e->b, out);
		break;
	case EX_MEMBER:
		put(e->a, STRENGTH_POSTFIX, out);
		text_printf(out, ".%s", e->name);
		break;
	case EX_LIST:
	case EX_TUPLE:
		text_put(out, e->kind == EX_LIST ? "[" : "(");
		put_exprs(&e->items, out);
		text_put(out, e->kind == EX_LIST ? "]" : e->items.n == 1 ? ",)" : ")");
		break;
	case EX_FN:
		text_put(out, "fn(");
		for (int i = 0; i < e->params.n; i++) {
			text_put(out, i ? ", " : "");
			put_param(&e->params.at[i], out);
		}
		text_put(out, ") => ");
		put_plain(e->a, out);
		break;
	}
}

/* statements and items */

typedef struct Printer {
	const Ast *ast;
	Text *out;
	int indent;
	int comment;                                /* the next one to print */
	int line;                                   /* last source line printed, 0 at the start of a block or file */
} Printer;

static void
put_indent(Printer *p)
{
	text_printf(p->out, "%*s", p->indent * INDENT, "");
}

static bool
is_before(Place a, int line, int col)
{
	return a.line < line || (a.line == line && a.col < col);
}

/* Ends a line: with the comment that stands behind it in the source, if there is one. */
static void
end_line(Printer *p, int line)
{
	if (p->comment < p->ast->comments.n) {
		const Comment *c = &p->ast->comments.at[p->comment];
		if (c->place.line == line && c->place.end_line == line) {
			text_printf(p->out, "  %s", c->text);
			p->comment++;
		}
	}
	text_put(p->out, "\n");
	p->line = line;
}

static void
keep_blank(Printer *p, int line)
{
	if (p->line && line > p->line + 1)
		text_put(p->out, "\n");
}

/* Comments that stand before a place, each on its line. */
static void
put_comments(Printer *p, int line, int col)
{
	while (p->comment < p->ast->comments.n) {
		const Comment *c = &p->ast->comments.at[p->comment];
		if (!is_before(c->place, line, col))
			break;
		keep_blank(p, c->place.line);
		put_indent(p);
		text_printf(p->out, "%s\n", c->text);
		p->line = c->place.end_line;
		p->comment++;
	}
}

static void put_block(Printer *p, const StmtList *l, Place whole);

static void
put_names(Printer *p, const Stmt *s)
{
	text_put(p->out, s->is_tuple ? "(" : "");
	for (int i = 0; i < s->names.n; i++)
		text_printf(p->out, "%s%s", i ? ", " : "", s->names.at[i].name);
	text_put(p->out, s->is_tuple ? ")" : "");
}

static void
put_if(Printer *p, const Stmt *s)
{
	const Stmt *last = s->body.n ? s->body.at[s->body.n - 1] : NULL;
	text_put(p->out, "if ");
	put_plain(s->e, p->out);
	text_put(p->out, " ");
	Place then = s->place;
	if (s->has_else) {                          /* the branch ends where the else's first statement begins, or so */
		then.end_line = last ? last->place.end_line : s->e->place.end_line;
		then.end_col = 1 << 30;
	}
	put_block(p, &s->body, then);
	if (!s->has_else)
		return;
	text_put(p->out, " else ");
	if (s->orelse.n == 1 && s->orelse.at[0]->kind == ST_IF && s->orelse.at[0]->is_static == s->is_static)
		put_if(p, s->orelse.at[0]);
	else
		put_block(p, &s->orelse, s->place);
}

static void
put_simple(Printer *p, const Stmt *s)
{
	switch (s->kind) {
	case ST_LET: case ST_VAR:
		text_put(p->out, s->kind == ST_LET ? "let " : "var ");
		put_names(p, s);
		text_put(p->out, " = ");
		put_plain(s->e, p->out);
		break;
	case ST_ASSIGN:
		put_plain(s->target, p->out);
		text_printf(p->out, " %s= ", s->op == BIN_NONE ? "" : binary_text[s->op]);
		put_plain(s->e, p->out);
		break;
	case ST_RETURN:
		text_put(p->out, s->e ? "return " : "return");
		if (s->e)
			put_plain(s->e, p->out);
		break;
	case ST_EXPR: put_plain(s->e, p->out); break;
	default: break;
	}
	text_put(p->out, ";");
}

static void
put_stmt(Printer *p, const Stmt *s)
{
	put_comments(p, s->place.line, s->place.col);
	keep_blank(p, s->place.line);
	put_indent(p);
	if (s->is_static)
		text_put(p->out, "static ");
	switch (s->kind) {
	case ST_FOR:
		text_printf(p->out, "for %s in range(", s->names.at[0].name);
		put_exprs(&s->range, p->out);
		text_put(p->out, ") ");
		put_block(p, &s->body, s->place);
		break;
	case ST_WHILE:
		text_put(p->out, "while ");
		put_plain(s->e, p->out);
		text_put(p->out, " ");
		put_block(p, &s->body, s->place);
		break;
	case ST_IF: put_if(p, s); break;
	case ST_BLOCK: put_block(p, &s->body, s->place); break;
	default: put_simple(p, s); break;
	}
	end_line(p, s->place.end_line);
}

/* A block in braces; `whole` is the place that ends with its closing brace. */
static void
put_block(Printer *p, const StmtList *l, Place whole)
{
	int first = l->n ? l->at[0]->place.line : whole.end_line;
	bool has_comment = p->comment < p->ast->comments.n &&
	                   is_before(p->ast->comments.at[p->comment].place, whole.end_line, whole.end_col);
	if (l->n == 0 && !has_comment) {
		text_put(p->out, "{}");
		return;
	}
	text_put(p->out, "{");
	p->line = 0;
	bool behind = has_comment && l->n && p->ast->comments.at[p->comment].place.line < first &&
	              p->ast->comments.at[p->comment].place.line == whole.line;
	if (behind)
		end_line(p, whole.line);
	else
		text_put(p->out, "\n");
	p->line = 0;
	p->indent++;
	for (int i = 0; i < l->n; i++)
		put_stmt(p, l->at[i]);
	if (whole.end_col < 1 << 30)
		put_comments(p, whole.end_line, whole.end_col);
	p->indent--;
	put_indent(p);
	text_put(p->out, "}");
}

/* Parameters, broken into lines where they would pass the width. */
static void
put_params(Printer *p, const ParamList *l, size_t line_start)
{
	text_put(p->out, "(");
	size_t column = p->out->n - line_start;
	for (int i = 0; i < l->n; i++) {
		Text one = {0};
		text_put(&one, "");
		put_param(&l->at[i], &one);
		if (i > 0 && p->out->n - line_start + 2 + one.n + 1 > WIDTH) {
			text_put(p->out, ",\n");
			line_start = p->out->n;
			text_printf(p->out, "%*s", (int)column, "");
		} else if (i > 0) {
			text_put(p->out, ", ");
		}
		text_put(p->out, one.at);
		text_close(&one);
	}
	text_put(p->out, ")");
}

static void
put_ctparams(const Item *k, Text *out)
{
	for (int i = 0; i < k->ctparams.n; i++) {
		const CtParam *c = &k->ctparams.at[i];
		text_printf(out, "%s%s", i ? ", " : "<", c->name);
		if (c->type.name)
			text_printf(out, ": %s", c->type.name);
		if (c->value) {
			text_put(out, " = ");
			put(c->value, binary_strength[BIN_OR], out);
		}
	}
	text_put(out, k->ctparams.n ? ">" : "");
}

static void
put_clauses(const Item *k, const char *before, Text *out)
{
	if (k->has_grid) {
		text_printf(out, "%sgrid(", before);
		for (int i = 0; i < k->grid.n; i++) {
			text_printf(out, "%s%s: ", i ? ", " : "", k->grid.at[i].name);
			put_plain(k->grid.at[i].count, out);
		}
		text_put(out, ")");
	}
	if (k->has_tune) {
		text_printf(out, "%stune(", before);
		for (int i = 0; i < k->tune.n; i++) {
			text_printf(out, "%s%s = {", i ? ", " : "", k->tune.at[i].name);
			put_exprs(&k->tune.at[i].values, out);
			text_put(out, "}");
		}
		text_put(out, ")");
	}
	for (int i = 0; i < k->where.n; i++) {
		text_printf(out, "%swhere ", before);
		put_plain(k->where.at[i], out);
	}
}

static void
put_kernel(Printer *p, const Item *k)
{
	Text clauses = {0};
	size_t start = p->out->n;
	text_put(&clauses, "");
	text_printf(p->out, "kernel %s", k->name);
	put_ctparams(k, p->out);
	put_params(p, &k->params, start);
	put_clauses(k, " ", &clauses);
	bool one_line = p->out->n - start + clauses.n + 2 <= WIDTH && !strchr(p->out->at + start, '\n');
	if (one_line) {
		text_printf(p->out, "%s ", clauses.at);
	} else {
		clauses.n = 0;
		put_clauses(k, "\n    ", &clauses);
		text_printf(p->out, "%.*s\n", (int)clauses.n, clauses.at);
	}
	text_close(&clauses);
	Place body = k->place;
	body.line = k->has_grid ? k->grid_place.end_line : k->place.line;
	put_block(p, &k->body, body);
}

static void
put_expect(Printer *p, const Item *item)
{
	text_printf(p->out, "expect %s {\n", item->name);
	p->indent++;
	p->line = 0;
	for (int i = 0; i < item->facts.n; i++) {
		put_comments(p, item->facts.at[i]->place.line, item->facts.at[i]->place.col);
		put_indent(p);
		put_plain(item->facts.at[i], p->out);
		text_put(p->out, ";");
		end_line(p, item->facts.at[i]->place.end_line);
	}
	p->indent--;
	text_put(p->out, "}");
}

/* { a = 1; b = 2; } on one line if it was on one and fits. */
static bool
put_short_block(Printer *p, const Item *item)
{
	size_t start = p->out->n, line = start;
	bool has_comment = p->comment < p->ast->comments.n &&
	                   is_before(p->ast->comments.at[p->comment].place, item->place.end_line, item->place.end_col);
	if (item->place.line != item->place.end_line || has_comment || item->body.n == 0)
		return false;
	while (line > 0 && p->out->at[line - 1] != '\n')
		line--;
	text_put(p->out, "{");
	for (int i = 0; i < item->body.n; i++) {
		const Stmt *s = item->body.at[i];
		text_put(p->out, " ");
		if (s->kind == ST_FOR || s->kind == ST_IF || s->kind == ST_WHILE || s->kind == ST_BLOCK)
			break;
		put_simple(p, s);
	}
	text_put(p->out, " }");
	if (p->out->n - line <= WIDTH && item->body.at[item->body.n - 1]->kind <= ST_ASSIGN)
		return true;
	if (p->out->n - line <= WIDTH && item->body.at[item->body.n - 1]->kind >= ST_RETURN &&
	    item->body.at[item->body.n - 1]->kind <= ST_EXPR)
		return true;
	p->out->n = start;
	p->out->at[start] = 0;
	return false;
}

static void
put_item_block(Printer *p, const Item *item)
{
	if (!put_short_block(p, item))
		put_block(p, &item->body, item->place);
}

static void
put_item(Printer *p, const Item *item)
{
	switch (item->kind) {
	case ITEM_IMPORT: text_printf(p->out, "import \"%s\";", item->label); break;
	case ITEM_CONST:
		text_printf(p->out, "const %s = ", item->name);
		put_plain(item->e, p->out);
		text_put(p->out, ";");
		break;
	case ITEM_FN: {
		size_t start = p->out->n;
		text_printf(p->out, "fn %s", item->name);
		put_params(p, &item->params, start);
		text_put(p->out, item->is_arrow ? " => " : " ");
		if (item->is_arrow) {
			put_plain(item->e, p->out);
			text_put(p->out, ";");
		} else {
			put_item_block(p, item);
		}
		break;
	}
	case ITEM_KERNEL: put_kernel(p, item); break;
	case ITEM_REFERENCE:
		text_printf(p->out, "reference %s ", item->name);
		put_item_block(p, item);
		break;
	case ITEM_EXAMPLE:
		text_printf(p->out, "example %s ", item->name);
		if (item->label)
			text_printf(p->out, "\"%s\" ", item->label);
		text_put(p->out, item->is_bench ? "bench " : "");
		put_item_block(p, item);
		break;
	case ITEM_EXPECT: put_expect(p, item); break;
	case ITEM_ERROR: break;
	}
}

void
ast_print(const Compile *cx, const Ast *ast, Text *out)
{
	Printer p = {.ast = ast, .out = out};
	(void)cx;
	text_put(out, "");
	for (int i = 0; i < ast->items.n; i++) {
		const Item *item = ast->items.at[i];
		put_comments(&p, item->place.line, item->place.col);
		keep_blank(&p, item->place.line);
		put_item(&p, item);
		end_line(&p, item->place.end_line);
	}
	put_comments(&p, INT32_MAX, 1);
}
