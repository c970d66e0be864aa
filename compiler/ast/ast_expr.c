/* Constructors of expressions (see ast.c). */
#include "ast/parser.h"

#include <string.h>

static Expr *
expr_new(Parser *p, ExprKind kind, Place at, int below)
{
	Expr *e = NEW(p->cx->mem, Expr);
	e->place = at;
	e->depth = ast_depth_above(p, below);
	e->kind = e->depth ? kind : EX_ERROR;
	return e;
}

Expr *
ast_error(Parser *p, Place at)
{
	return expr_new(p, EX_ERROR, at, 0);
}

Expr *
ast_literal(Parser *p, ExprKind kind, Place at)
{
	return expr_new(p, kind, at, 0);
}

Expr *
ast_name(Parser *p, Name name, const char *scope)
{
	Expr *e = expr_new(p, EX_NAME, name.place, 0);
	e->name = name.name;
	e->scope = scope;
	return e;
}

Expr *
ast_scoped(Parser *p, Place at, Name scope, Name name)
{
	Expr *e = ast_name(p, (Name){name.name, at}, scope.name);
	e->op_place = name.place;
	return e;
}

Expr *
ast_parens(Parser *p, Place at, Expr *e)
{
	(void)p;
	e->parens = true;
	e->place = at;
	return e;
}

Expr *
ast_tuple(Parser *p, Place at, const ExprList *items)
{
	Expr *e = expr_new(p, EX_TUPLE, at, ast_list_depth(items));
	LIST_COPY(e->items, items);
	return e;
}

Expr *
ast_list(Parser *p, Place at, const ExprList *items)
{
	Expr *e = expr_new(p, EX_LIST, at, ast_list_depth(items));
	LIST_COPY(e->items, items);
	return e;
}

Expr *
ast_unary(Parser *p, Place at, UnaryOp op, Expr *a)
{
	Expr *e = expr_new(p, EX_UNARY, at, ast_expr_depth(a));
	e->un = op;
	e->a = a;
	return e;
}

Expr *
ast_binary(Parser *p, Place at, BinaryOp op, Place op_place, Expr *a, Expr *b)
{
	Expr *e = expr_new(p, EX_BINARY, at, MAX(ast_expr_depth(a), ast_expr_depth(b)));
	e->bin = op;
	e->op_place = op_place;
	e->a = a;
	e->b = b;
	return e;
}

Expr *
ast_compare(Parser *p, Place at, BinaryOp op, Place op_place, Expr *a, Expr *b)
{
	if (a->kind == EX_BINARY && !a->parens && a->bin >= BIN_EQ && a->bin <= BIN_GE) {
		diag_error(p->cx, op_place, DIAG_CHAINED_COMPARISON);
		diag_help(p->cx, "write a < b && b < c, or put one comparison in parentheses");
		return ast_error(p, at);
	}
	return ast_binary(p, at, op, op_place, a, b);
}

Expr *
ast_cond(Parser *p, Place at, Expr *a, Expr *b, Expr *c)
{
	Expr *e = expr_new(p, EX_COND, at, MAX(ast_expr_depth(a), MAX(ast_expr_depth(b), ast_expr_depth(c))));
	e->a = a;
	e->b = b;
	e->c = c;
	return e;
}

Expr *
ast_as(Parser *p, Place at, Expr *a, Expr *type)
{
	Expr *e = expr_new(p, EX_AS, at, MAX(ast_expr_depth(a), ast_expr_depth(type)));
	e->a = a;
	e->b = type;
	return e;
}

Expr *
ast_fill(Parser *p, Place at, Expr *index, Expr *fill)
{
	Expr *e = expr_new(p, EX_INDEX, at, MAX(ast_expr_depth(index), ast_expr_depth(fill)));
	e->a = index->a;
	e->subs = index->subs;
	e->b = fill;
	return e;
}

Expr *
ast_call(Parser *p, Place at, Expr *callee, const ArgList *args)
{
	int below = ast_expr_depth(callee);
	for (int i = 0; args && i < args->n; i++)
		below = MAX(below, ast_expr_depth(args->at[i].e));
	Expr *e = expr_new(p, EX_CALL, at, below);
	e->a = callee;
	LIST_COPY(e->args, args);
	if (callee->kind != EX_NAME && callee->kind != EX_MEMBER && callee->kind != EX_ERROR) {
		diag_error(p->cx, callee->place, DIAG_NOT_CALLABLE);
		diag_label(p->cx, "expected the name of an operation or a fn");
		e->kind = EX_ERROR;
	}
	return e;
}

Expr *
ast_member(Parser *p, Place at, Expr *a, Name name)
{
	Expr *e = expr_new(p, EX_MEMBER, at, ast_expr_depth(a));
	e->a = a;
	e->name = name.name;
	e->op_place = name.place;
	return e;
}

Expr *
ast_index(Parser *p, Place at, Expr *a, const SubscriptList *subs)
{
	int below = ast_expr_depth(a);
	for (int i = 0; subs && i < subs->n; i++)
		below = MAX(below, MAX(ast_expr_depth(subs->at[i].e), ast_expr_depth(subs->at[i].extent)));
	Expr *e = expr_new(p, EX_INDEX, at, below);
	e->a = a;
	e->subs = subs ? *subs : (SubscriptList){0};
	return e;
}

Expr *
ast_lambda(Parser *p, Place at, const ParamList *params, Expr *a)
{
	Expr *e = expr_new(p, EX_FN, at, ast_expr_depth(a));
	LIST_COPY(e->params, params);
	e->a = a;
	return e;
}

Subscript
ast_subscript(Place at, SubscriptKind kind, Expr *e, Expr *extent)
{
	/* `new` and `None` are words in this place only. */
	if (kind == SUB_INDEX && e->kind == EX_NAME && !e->parens && !e->scope &&
	    (strcmp(e->name, "new") == 0 || strcmp(e->name, "None") == 0))
		return (Subscript){SUB_NEW, NULL, NULL, at};
	return (Subscript){kind, e, extent, at};
}
