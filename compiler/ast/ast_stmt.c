/* Constructors of statements (see ast.c). */
#include "ast/parser.h"

#include <string.h>

static int
depth_of_stmts(const StmtList *l)
{
	int d = 0;
	for (int i = 0; l && i < l->n; i++)
		d = MAX(d, l->at[i]->depth);
	return d;
}

static Stmt *
stmt_new(Parser *p, StmtKind kind, Place at, int below)
{
	Stmt *s = NEW(p->cx->mem, Stmt);
	s->place = at;
	s->depth = ast_depth_above(p, below);
	s->kind = s->depth ? kind : ST_ERROR;
	s->op = BIN_NONE;
	return s;
}

static void
stmt_body(Stmt *s, const Block *body)
{
	s->body = body->stmts;
	s->body_place = body->place;
}

Block *
ast_braces(Parser *p, Place at, const StmtList *stmts)
{
	Block *b = NEW(p->cx->mem, Block);
	LIST_COPY(b->stmts, stmts);
	b->place = at;
	return b;
}

Stmt *
ast_bind(Parser *p, StmtKind kind, Place at, Pattern *pattern, Expr *e)
{
	Stmt *s = stmt_new(p, kind, at, ast_expr_depth(e));
	s->pattern = pattern;
	s->e = e;
	return s;
}

Stmt *
ast_expr_stmt(Parser *p, Place at, Expr *e)
{
	Stmt *s = stmt_new(p, ST_EXPR, at, ast_expr_depth(e));
	s->e = e;
	return s;
}

static bool
is_target(const Expr *e)
{
	if (e->kind == EX_TUPLE) {
		for (int i = 0; i < e->items.n; i++)
			if (!is_target(e->items.at[i]))
				return false;
		return true;
	}
	return e->kind == EX_ERROR || (e->kind == EX_NAME && !e->scope) || (e->kind == EX_INDEX && !e->b);
}

Stmt *
ast_assign(Parser *p, Place at, Expr *target, BinaryOp op, Expr *e)
{
	Stmt *s = stmt_new(p, ST_ASSIGN, at, MAX(ast_expr_depth(target), ast_expr_depth(e)));
	s->target = target;
	s->op = op;
	s->e = e;
	if (!is_target(target) || (op != BIN_NONE && target->kind == EX_TUPLE)) {
		diag_error(p->cx, target->place, DIAG_ASSIGN_TARGET);
		diag_label(p->cx, "expected a variable, x[...] or a tuple of them");
		s->kind = ST_ERROR;
	}
	return s;
}

Stmt *
ast_for(Parser *p, Place at, int is_static, Name index, Name range, const ExprList *args, const Block *body)
{
	Stmt *s = stmt_new(p, ST_FOR, at, MAX(ast_list_depth(args), depth_of_stmts(&body->stmts)));
	s->is_static = is_static;
	s->index = index;
	LIST_COPY(s->range, args);
	stmt_body(s, body);
	if (strcmp(range.name, "range") != 0) {
		diag_error(p->cx, range.place, DIAG_FOR_RANGE, range.name);
		diag_help(p->cx, "write: for %s in range(from, to, step)", index.name);
	} else if (s->range.n < 1 || s->range.n > 3) {
		diag_error(p->cx, range.place, DIAG_RANGE_ARGS, s->range.n);
		diag_help(p->cx, "range(to), range(from, to) or range(from, to, step)");
	} else {
		return s;
	}
	s->kind = ST_ERROR;
	return s;
}

/* A loop whose range did not parse: the body is checked, its index being what it may. */
Stmt *
ast_for_lost(Parser *p, Place at, Name index, Place range, const Block *body)
{
	Stmt *s = stmt_new(p, ST_FOR, at, depth_of_stmts(&body->stmts));
	s->index = index;
	vec_push(p->cx->mem, &s->range, ast_error(p, range));
	stmt_body(s, body);
	return s;
}

Stmt *
ast_while(Parser *p, Place at, Expr *e, const Block *body)
{
	Stmt *s = stmt_new(p, ST_WHILE, at, MAX(ast_expr_depth(e), depth_of_stmts(&body->stmts)));
	s->e = e;
	stmt_body(s, body);
	return s;
}

Stmt *
ast_if(Parser *p, Place at, Expr *e, const Block *body)
{
	Stmt *s = stmt_new(p, ST_IF, at, MAX(ast_expr_depth(e), depth_of_stmts(&body->stmts)));
	s->e = e;
	stmt_body(s, body);
	return s;
}

Stmt *
ast_else(Parser *p, Place at, Stmt *s, const Block *orelse)
{
	s->place = at;
	s->has_else = true;
	s->orelse = orelse->stmts;
	s->orelse_place = orelse->place;
	s->depth = MAX(s->depth, ast_depth_above(p, depth_of_stmts(&orelse->stmts)));
	return s;
}

Stmt *
ast_else_if(Parser *p, Place at, Stmt *s, Stmt *orelse)
{
	Block b = {0};                              /* without braces */
	ast_stmts(p, &b.stmts, orelse);
	return ast_else(p, at, s, &b);
}

Stmt *
ast_static_if(Parser *p, Place at, Stmt *s)
{
	(void)p;
	s->place = at;
	for (Stmt *t = s; t; t = t->has_else && t->orelse_place.line == 0 ? t->orelse.at[0] : NULL)
		t->is_static = true;                /* an else-if chain is static as a whole */
	return s;
}

Stmt *
ast_return(Parser *p, Place at, Expr *e)
{
	Stmt *s = stmt_new(p, ST_RETURN, at, ast_expr_depth(e));
	s->e = e;
	return s;
}

Stmt *
ast_block(Parser *p, Place at, const Block *body)
{
	Stmt *s = stmt_new(p, ST_BLOCK, at, depth_of_stmts(&body->stmts));
	stmt_body(s, body);
	return s;
}

Stmt *
ast_no_jump(Parser *p, Place at, const char *word)
{
	diag_error(p->cx, at, DIAG_NO_JUMP, word);
	diag_help(p->cx, "use 'while' with a condition, or put the rest of the body under 'if'");
	return NULL;
}
