/* Nodes of the tree, as the grammar's actions make them, and the mistakes that show as soon as a node is complete.
 *
 * Each node knows how deep the tree below it is, and a node that would be deeper than AST_DEPTH is
 * reported once and replaced by EX_ERROR: whatever walks the tree later may recurse. */
#include "ast/parser.h"

#include <string.h>

/* A node's depth from its children's; too deep gives 0 and a report. */
static int
depth_above(Parser *p, int below)
{
	if (below < AST_DEPTH)
		return below + 1;
	parser_too_deep(p, p->now);
	return 0;
}

static void
deepen(int *depth, const Expr *e)
{
	if (e)
		*depth = MAX(*depth, e->depth);
}

static int
stmts_depth(const StmtList *l)
{
	int d = 0;
	for (int i = 0; i < l->n; i++)
		d = MAX(d, l->at[i]->depth);
	return d;
}

/* expressions */

int
expr_children(const Expr *e)
{
	return 3 + e->args.n + e->items.n + 2 * e->subs.n;
}

const Expr *
expr_child(const Expr *e, int i)
{
	if (i < 3)
		return i == 0 ? e->a : i == 1 ? e->b : e->c;
	if ((i -= 3) < e->args.n)
		return e->args.at[i].e;
	if ((i -= e->args.n) < e->items.n)
		return e->items.at[i];
	i -= e->items.n;
	return i % 2 ? e->subs.at[i / 2].extent : e->subs.at[i / 2].e;
}

Expr *
ast_expr(Parser *p, Expr e)
{
	int below = 0;
	for (int i = 0; i < expr_children(&e); i++)
		deepen(&below, expr_child(&e, i));
	e.depth = depth_above(p, below);
	if (!e.depth)
		e.kind = EX_ERROR;
	return NEW_COPY(p->cx->mem, &e, 1);
}

Expr *
ast_error(Parser *p, Place at)
{
	return ast_expr(p, (Expr){EX_ERROR, .place = at});
}

Expr *
ast_name(Parser *p, Name name)
{
	return ast_expr(p, (Expr){EX_NAME, .place = name.place, .name = name.name});
}

Expr *
ast_compare(Parser *p, Expr e)
{
	const Expr *a = e.a;
	if (a->kind == EX_BINARY && !a->parens && binary_op_compares(a->bin)) {
		diag_error(p->cx, e.op_place, DIAG_CHAINED_COMPARISON);
		diag_help(p->cx, "write a < b && b < c, or put one comparison in parentheses");
		return ast_error(p, e.place);
	}
	return ast_expr(p, e);
}

Expr *
ast_call(Parser *p, Expr e)
{
	const Expr *callee = e.a;
	if (callee->kind != EX_NAME && callee->kind != EX_MEMBER && callee->kind != EX_ERROR) {
		diag_error(p->cx, callee->place, DIAG_NOT_CALLABLE);
		diag_label(p->cx, "expected the name of an operation or a fn");
		e.kind = EX_ERROR;
	}
	return ast_expr(p, e);
}

Subscript
ast_subscript(SubscriptKind kind, Place at, Expr *e, Expr *extent)
{
	/* `new` and `None` are words in this position only. */
	if (kind == SUB_INDEX && e->kind == EX_NAME && !e->parens && !e->scope &&
	    (strcmp(e->name, "new") == 0 || strcmp(e->name, "None") == 0))
		return (Subscript){SUB_NEW, NULL, NULL, at};
	return (Subscript){kind, e, extent, at};
}

/* statements */

Stmt *
ast_stmt(Parser *p, Stmt s)
{
	int below = MAX(stmts_depth(&s.body), stmts_depth(&s.orelse));
	deepen(&below, s.target);
	deepen(&below, s.e);
	for (int i = 0; i < s.range.n; i++)
		deepen(&below, s.range.at[i]);
	s.depth = depth_above(p, below);
	if (!s.depth)
		s.kind = ST_ERROR;
	if (!s.target)
		s.op = BIN_NONE;
	return NEW_COPY(p->cx->mem, &s, 1);
}

static bool
is_target(const Expr *e)
{
	if (e->kind == EX_TUPLE) {
		return ALL_OF(i, e->items.n, is_target(e->items.at[i]));
	}
	bool is_strides = e->kind == EX_MEMBER && e->a->kind == EX_NAME && strcmp(e->name, "strides") == 0;
	return e->kind == EX_ERROR || (e->kind == EX_NAME && !e->scope) || (e->kind == EX_INDEX && !e->b) || is_strides;
}

Stmt *
ast_assign(Parser *p, Place at, Expr *target, BinaryOp op, Expr *e)
{
	Stmt *s = ast_stmt(p, (Stmt){ST_ASSIGN, .place = at, .target = target, .op = op, .e = e});
	if (!is_target(target) || (op != BIN_NONE && target->kind == EX_TUPLE)) {
		diag_error(p->cx, target->place, DIAG_ASSIGN_TARGET);
		diag_label(p->cx, "expected a variable, x[...] or a tuple of them");
		s->kind = ST_ERROR;
	}
	return s;
}

Stmt *
ast_for(Parser *p, Stmt loop, Name range)
{
	Stmt *s = ast_stmt(p, loop);
	if (strcmp(range.name, "range") != 0) {
		diag_error(p->cx, range.place, DIAG_FOR_RANGE, range.name);
		diag_help(p->cx, "write: for %s in range(from, to, step)", s->index.name);
	} else if (s->range.n < 1 || s->range.n > 3) {
		diag_error(p->cx, range.place, DIAG_RANGE_ARGS, s->range.n);
		diag_help(p->cx, "range(to), range(from, to) or range(from, to, step)");
	} else {
		return s;
	}
	s->kind = ST_ERROR;
	return s;
}

Stmt *
ast_else(Parser *p, Place at, Stmt *s, Block orelse)
{
	s->place = at;
	s->has_else = true;
	s->orelse = orelse.stmts;
	s->orelse_place = orelse.place;
	s->depth = MAX(s->depth, depth_above(p, stmts_depth(&s->orelse)));
	return s;
}

Stmt *
ast_merge(Parser *p, Stmt *s, Name part, Block merge)
{
	s->part = part;
	return ast_else(p, s->place, s, merge);
}

Stmt *
ast_static_if(Place at, Stmt *s)
{
	s->place = at;
	for (Stmt *t = s; t; t = t->has_else && t->orelse_place.line == 0 ? t->orelse.at[0] : NULL)
		t->is_static = true;                /* an else-if chain is static as a whole */
	return s;
}

Stmt *
ast_no_jump(Parser *p, Place at, const char *word)
{
	diag_error(p->cx, at, DIAG_NO_JUMP, word);
	diag_help(p->cx, "use 'while' with a condition, or put the rest of the body under 'if'");
	return NULL;
}

/* items, and what stands in headers */

Pattern *
ast_pattern(Parser *p, Pattern pattern)
{
	return NEW_COPY(p->cx->mem, &pattern, 1);
}

TypeExpr *
ast_type(Parser *p, TypeExpr t)
{
	return NEW_COPY(p->cx->mem, &t, 1);
}

Item *
ast_item(Parser *p, Item item)
{
	return NEW_COPY(p->cx->mem, &item, 1);
}

Item *
ast_body(Item *item, Place at, Block body)
{
	item->place = at;
	item->body = body.stmts;
	item->body_place = body.place;
	return item;
}

/* A clause stands once in a header, in any order. */
static void
once(Parser *p, bool has, Place at, Place first, const char *word)
{
	if (!has)
		return;
	diag_error(p->cx, at, DIAG_CLAUSE_TWICE, word);
	diag_note(p->cx, first, "the first is here");
}

Item *
ast_kernel_grid(Parser *p, Item *k, Place at, Place clause, AxisList axes)
{
	once(p, k->has_grid, clause, k->grid_place, "grid");
	k->grid = axes;
	k->has_grid = true;
	k->grid_place = clause;
	k->place = at;
	return k;
}

Item *
ast_kernel_tune(Parser *p, Item *k, Place at, Place clause, TuneList tunes)
{
	once(p, k->has_tune, clause, k->tune_place, "tune");
	k->tune = tunes;
	k->has_tune = true;
	k->tune_place = clause;
	k->place = at;
	return k;
}
