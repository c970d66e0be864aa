/* The tree, one node a line, children indented: `tegula build --emit=ast`.
 *
 *     kernel add @2:1
 *       param x: in f32[N] @2:30
 *       let i @5:5
 *         binary * @5:13
 */
#include "ast/ast.h"

static void
line(Text *out, int depth, Place at, const char *what, const char *more)
{
	text_printf(out, "%*s%s%s%s @%d:%d\n", depth * 2, "", what, more && *more ? " " : "", more ? more : "",
	    at.line, at.col);
}

static void
dump_expr(const Expr *e, int depth, Text *out)
{
	static const char *const kind[] = {
		"error", "int", "float", "string", "name", "unary", "binary", "cond", "call", "index", "as", "member",
		"list", "tuple", "fn",
	};
	const char *more = e->kind == EX_UNARY ? unary_op_text(e->un) : e->kind == EX_BINARY ? binary_op_text(e->bin)
	                 : e->spelling ? e->spelling : e->name;
	line(out, depth, e->place, kind[e->kind], more);
	const Expr *child[] = {e->a, e->b, e->c};
	for (int i = 0; i < LEN(child); i++)
		if (child[i])
			dump_expr(child[i], depth + 1, out);
	for (int i = 0; i < e->args.n; i++) {
		if (e->args.at[i].name)
			line(out, depth + 1, e->args.at[i].name_place, "named", e->args.at[i].name);
		dump_expr(e->args.at[i].e, depth + 1 + (e->args.at[i].name != NULL), out);
	}
	for (int i = 0; i < e->subs.n; i++) {
		static const char *const sub[] = {"at", "part", "all", "new"};
		const Subscript *s = &e->subs.at[i];
		line(out, depth + 1, s->place, sub[s->kind], NULL);
		if (s->e)
			dump_expr(s->e, depth + 2, out);
		if (s->extent)
			dump_expr(s->extent, depth + 2, out);
	}
	for (int i = 0; i < e->items.n; i++)
		dump_expr(e->items.at[i], depth + 1, out);
	for (int i = 0; i < e->params.n; i++)
		line(out, depth + 1, e->params.at[i].place, "param", e->params.at[i].name);
}

static void dump_stmts(const StmtList *l, int depth, Text *out);

/* `a`, `a b`, `a (b c)` */
static void
dump_pattern(const Pattern *p, Text *out)
{
	if (p->name) {
		text_put(out, p->name);
		return;
	}
	for (int i = 0; i < p->items.n; i++) {
		const Pattern *item = p->items.at[i];
		text_put(out, i ? " " : "");
		text_put(out, item->name ? "" : "(");
		dump_pattern(item, out);
		text_put(out, item->name ? "" : ")");
	}
}

static void
dump_stmt(const Stmt *s, int depth, Text *out)
{
	static const char *const kind[] = {
		"error", "let", "var", "assign", "for", "while", "if", "return", "expr", "block",
	};
	Text more = {0};
	text_put(&more, s->is_static ? "static" : "");
	if (s->index.name)
		text_printf(&more, "%s%s", more.n ? " " : "", s->index.name);
	if (s->pattern)
		dump_pattern(s->pattern, &more);
	line(out, depth, s->place, kind[s->kind], more.at);
	text_close(&more);
	if (s->target)
		dump_expr(s->target, depth + 1, out);
	for (int i = 0; i < s->range.n; i++)
		dump_expr(s->range.at[i], depth + 1, out);
	if (s->e)
		dump_expr(s->e, depth + 1, out);
	dump_stmts(&s->body, depth + 1, out);
	if (s->has_else) {
		line(out, depth, s->place, s->part.name ? "merge" : "else", s->part.name);
		dump_stmts(&s->orelse, depth + 1, out);
	}
}

static void
dump_stmts(const StmtList *l, int depth, Text *out)
{
	for (int i = 0; i < l->n; i++)
		dump_stmt(l->at[i], depth, out);
}

static void
dump_param(const Param *p, Text *out)
{
	line(out, 1, p->place, "param", p->name);
	if (p->type) {
		static const char *const mode[] = {"value", "in", "out", "inout", "scratch"};
		line(out, 2, p->type->place,
		    p->type->pointer ? p->type->mut ? "pointer mut" : "pointer" : mode[p->type->mode],
		    p->type->elem->name);
		for (int i = 0; i < p->type->dims.n; i++)
			dump_expr(p->type->dims.at[i], 3, out);
	}
	if (p->fill)
		dump_expr(p->fill, 2, out);
}

static void
dump_header(const Item *item, Text *out)
{
	for (int i = 0; i < item->ctparams.n; i++) {
		const CtParam *c = &item->ctparams.at[i];
		line(out, 1, c->place, "ctparam", c->name);
		if (c->type.name)
			line(out, 2, c->type.place, "type", c->type.name);
		if (item->ctparams.at[i].value)
			dump_expr(item->ctparams.at[i].value, 2, out);
	}
	for (int i = 0; i < item->params.n; i++)
		dump_param(&item->params.at[i], out);
	for (int i = 0; i < item->results.n; i++)
		dump_param(&item->results.at[i], out);
	for (int i = 0; i < item->grid.n; i++) {
		line(out, 1, item->grid.at[i].name_place, "axis", item->grid.at[i].name);
		dump_expr(item->grid.at[i].count, 2, out);
	}
	for (int i = 0; i < item->tune.n; i++) {
		line(out, 1, item->tune.at[i].name_place, "tune", item->tune.at[i].name);
		for (int k = 0; k < item->tune.at[i].values.n; k++)
			dump_expr(item->tune.at[i].values.at[k], 2, out);
	}
	for (int i = 0; i < item->where.n; i++) {
		line(out, 1, item->where.at[i]->place, "where", NULL);
		dump_expr(item->where.at[i], 2, out);
	}
}

void
ast_dump(const Compile *cx, const Ast *ast, Text *out)
{
	static const char *const kind[] = {
		"error", "import", "const", "fn", "kernel", "reference", "example", "expect",
	};
	(void)cx;
	text_put(out, "");
	for (int i = 0; i < ast->items.n; i++) {
		const Item *item = ast->items.at[i];
		line(out, 0, item->place, kind[item->kind], item->kind == ITEM_IMPORT ? item->label : item->name);
		dump_header(item, out);
		if (item->e)
			dump_expr(item->e, 1, out);
		for (int k = 0; k < item->facts.n; k++)
			dump_expr(item->facts.at[k], 1, out);
		dump_stmts(&item->body, 1, out);
	}
}
