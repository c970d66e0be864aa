/* Expressions that are wider than a line.
 *
 * What fits stays on its line.  What does not is broken at its outermost construct, one level deeper:
 *
 *     let score = some_function(first_argument, second_argument,       lists are filled
 *         third_argument);
 *     let total = first_operand                                        operators lead their lines
 *         + second_operand
 *         - third_operand;
 *
 * Where a line breaks depends on the tree alone, so that formatting twice changes nothing. */
#include "ast/print.h"

#include <string.h>

/* Bytes since the last newline. */
int
text_column(const Text *t)
{
	size_t i = t->n;
	while (i > 0 && t->at[i - 1] != '\n' && t->n - i <= WIDTH)
		i--;
	return (int)(t->n - i);
}

/* Beyond this depth, lines start no further to the right. */
int
layout_indent(const Printer *p)
{
	return MIN(p->indent, WIDTH / INDENT / 2) * INDENT;
}

static int
room(const Printer *p, int after)
{
	return WIDTH - text_column(p->out) - after;
}

void
layout_break(Printer *p)
{
	while (p->out->n > 0 && p->out->at[p->out->n - 1] == ' ')
		p->out->at[--p->out->n] = 0;
	text_printf(p->out, "\n%*s", layout_indent(p), "");
}

/* Before an element of a list: a comma, and a new line if it does not fit on this one. */
static void
separate(Printer *p, int i, bool fits)
{
	if (i > 0)
		text_put(p->out, ", ");
	if (!fits && (i > 0 || text_column(p->out) > layout_indent(p)))
		layout_break(p);
}

void
layout_exprs(Printer *p, const ExprList *l, int after)
{
	for (int i = 0; i < l->n; i++) {
		int follows = i + 1 < l->n ? 1 : after;
		separate(p, i, expr_fits(l->at[i], 0, room(p, follows + (i > 0 ? 2 : 0))));
		layout_expr(p, l->at[i], 0, follows);
	}
}

static void
layout_args(Printer *p, const Expr *e, int after)
{
	for (int i = 0; i < e->args.n; i++) {
		const Arg *a = &e->args.at[i];
		int name = a->name ? (int)strlen(a->name) + 3 : 0;
		int follows = i + 1 < e->args.n ? 1 : after;
		separate(p, i, expr_fits(a->e, 0, room(p, follows + name + (i > 0 ? 2 : 0))));
		if (a->name)
			text_printf(p->out, "%s = ", a->name);
		layout_expr(p, a->e, 0, follows);
	}
}

static void
layout_subscript(Printer *p, const Subscript *s, int after)
{
	if (s->kind == SUB_PART) {
		layout_expr(p, s->e, 0, 4);
		text_put(p->out, " +: ");
		layout_expr(p, s->extent, 0, after);
	} else if (s->kind == SUB_INDEX) {
		layout_expr(p, s->e, 0, after);
	} else {
		subscript_put(s, p->out);
	}
}

static void
layout_subscripts(Printer *p, const Expr *e, int after)
{
	for (int i = 0; i < e->subs.n; i++) {
		const Subscript *s = &e->subs.at[i];
		int follows = i + 1 < e->subs.n ? 1 : after, here = room(p, follows + (i > 0 ? 2 : 0));
		bool fits = here >= 4;
		if (s->kind == SUB_INDEX)
			fits = expr_fits(s->e, 0, here);
		else if (s->kind == SUB_PART)
			fits = expr_fits(s->e, 0, here - 5) && expr_fits(s->extent, 0, here - 5);
		separate(p, i, fits);
		layout_subscript(p, s, follows);
	}
}

/* Operands of one strength, however they nest to the left, form one chain. */
static void
layout_chain(Printer *p, const Expr *e, int strength, int after)
{
	bool compares = binary_op_compares(e->bin);
	const Expr *a = e->a;
	if (a->kind == EX_BINARY && !a->parens && !compares && binary_op_strength(a->bin) == strength)
		layout_chain(p, a, strength, 0);
	else
		layout_expr(p, a, compares ? strength + 1 : strength, 0);
	layout_break(p);
	text_printf(p->out, "%s ", binary_op_text(e->bin));
	layout_expr(p, e->b, strength + 1, after);
}

static void
layout_cond(Printer *p, const Expr *e, int after)
{
	layout_expr(p, e->a, STRENGTH_COND + 1, 0);
	layout_break(p);
	text_put(p->out, "? ");
	layout_expr(p, e->b, 0, 0);
	layout_break(p);
	text_put(p->out, ": ");
	layout_expr(p, e->c, STRENGTH_COND, after);
}

static void
layout_index(Printer *p, const Expr *e, int after)
{
	layout_expr(p, e->a, STRENGTH_POSTFIX, 1);
	text_put(p->out, "[");
	layout_subscripts(p, e, 1 + (e->b ? 5 : after));
	text_put(p->out, "]");
	if (e->b) {
		text_put(p->out, " else ");
		layout_expr(p, e->b, STRENGTH_UNARY, after);
	}
}

static void
layout_fn(Printer *p, const Expr *e, int after)
{
	text_put(p->out, "fn(");
	for (int i = 0; i < e->params.n; i++) {
		text_put(p->out, i ? ", " : "");
		param_put(&e->params.at[i], p->out);
	}
	text_put(p->out, ") => ");
	layout_expr(p, e->a, 0, after);
}

static void
layout_open(Printer *p, const Expr *e, int after)
{
	switch (e->kind) {
	case EX_BINARY: layout_chain(p, e, binary_op_strength(e->bin), after); break;
	case EX_COND: layout_cond(p, e, after); break;
	case EX_CALL:
		layout_expr(p, e->a, STRENGTH_POSTFIX, 1);
		text_put(p->out, "(");
		layout_args(p, e, after + 1);
		text_put(p->out, ")");
		break;
	case EX_INDEX: layout_index(p, e, after); break;
	case EX_UNARY:
		text_put(p->out, unary_op_text(e->un));
		layout_expr(p, e->a, STRENGTH_UNARY, after);
		break;
	case EX_AS:
		layout_expr(p, e->a, STRENGTH_AS, after + 4);
		text_put(p->out, " as ");
		expr_put(e->b, 0, p->out);
		break;
	case EX_MEMBER:
		if (e->a->kind == EX_INT || e->a->kind == EX_FLOAT) {
			expr_print(e, p->out);
			break;
		}
		layout_expr(p, e->a, STRENGTH_POSTFIX, after + 1);
		text_printf(p->out, ".%s", e->name);
		break;
	case EX_LIST: case EX_TUPLE:
		text_put(p->out, e->kind == EX_LIST ? "[" : "(");
		layout_exprs(p, &e->items, after + 1);
		text_put(p->out, e->kind == EX_LIST ? "]" : e->items.n == 1 ? ",)" : ")");
		break;
	case EX_FN: layout_fn(p, e, after); break;
	default: expr_print(e, p->out); break;
	}
}

void
layout_expr(Printer *p, const Expr *e, int least, int after)
{
	if (expr_fits(e, least, room(p, after))) {
		expr_put(e, least, p->out);
		return;
	}
	bool parens = expr_needs_parens(e, least);
	bool deeper = e->kind != EX_UNARY && e->kind != EX_AS && e->kind != EX_MEMBER && e->kind != EX_FN;
	p->indent += deeper;
	text_put(p->out, parens ? "(" : "");
	layout_open(p, e, after + parens);
	text_put(p->out, parens ? ")" : "");
	p->indent -= deeper;
}
