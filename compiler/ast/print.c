/* Expressions, types and parameters as source text.
 *
 * What fits stays on its line.  What does not is broken at its outermost construct, one level deeper:
 *
 *     let score = some_function(first_argument, second_argument,       lists are filled
 *         third_argument);
 *     let total = first_operand                                        operators lead their lines
 *         + second_operand
 *         - third_operand;
 *
 * Where a line breaks depends on the tree alone, so that formatting twice changes nothing. Parentheses stay where they
 * were written, and appear where the tree needs them. One walk writes all of it: whether an expression fits is found
 * by the walk that would write it flat, which counts down the room instead and stops where there is none, so that it
 * takes the time that a line takes, however large the expression is. */
#include "ast/print.h"

#include <string.h>

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

int
binary_op_strength(BinaryOp op)
{
	return binary_strength[op];
}

const char *
binary_op_text(BinaryOp op)
{
	return binary_text[op];
}

const char *
unary_op_text(UnaryOp op)
{
	return unary_text[op];
}

/* ---- words and lines ---- */

static void
word(Printer *p, const char *text)
{
	if (p->out)
		text_put(p->out, text);
	else
		p->room -= (int)MIN(strlen(text), (size_t)WIDTH + 1);
}

static bool
is_full(const Printer *p)
{
	return !p->out && p->room < 0;
}

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

static void
break_or_blank(Printer *p)
{
	if (p->flat)
		word(p, " ");
	else
		layout_break(p);
}

static bool
fits(const Expr *e, int least, int room)
{
	Printer counter = {.flat = true, .room = room};
	layout_expr(&counter, e, least, 0);
	return !is_full(&counter);
}

/* Before element i of a list: a comma, and a new line if `columns` do not hold it, or a part of it and its extent. */
static void
separate(Printer *p, int i, const Expr *e, const Expr *extent, int columns)
{
	bool stays = p->flat || (!e ? columns >= 4 : extent ? fits(e, 0, columns - 5) && fits(extent, 0, columns - 5)
							     : fits(e, 0, columns));
	if (i > 0)
		word(p, ", ");
	if (!stays && (i > 0 || text_column(p->out) > layout_indent(p)))
		layout_break(p);
}

/* The columns for element i, of which `follows` come behind it. */
static int
columns(const Printer *p, int i, int follows)
{
	return p->flat ? 0 : room(p, follows + (i > 0 ? 2 : 0));
}

/* ---- types and parameters, always flat ---- */

static void
put_dims(Printer *p, const TypeExpr *t)
{
	if (!t->has_dims)
		return;
	word(p, "[");
	layout_exprs(p, &t->dims, 1);
	word(p, "]");
}

static void
put_type(Printer *p, const TypeExpr *t)
{
	static const char *const mode[] = {"", "in ", "out ", "inout ", "scratch "};
	word(p, mode[t->mode]);
	word(p, t->fixed ? "fixed " : "");
	word(p, t->strided ? "strided " : "");
	word(p, t->pointer ? "*" : "");
	word(p, t->mut ? "mut " : "");
	layout_expr(p, t->elem, 0, 0);
	put_dims(p, t);
}

static void
put_param(Printer *p, const Param *param)
{
	word(p, param->is_const ? "const " : "");
	word(p, param->name);
	if (param->type) {
		word(p, ": ");
		put_type(p, param->type);
	}
	if (param->fill) {
		word(p, " = ");
		layout_expr(p, param->fill, 0, 0);
	}
}

void
type_expr_print(const TypeExpr *t, Text *out)
{
	put_type(&(Printer){.out = out, .flat = true}, t);
}

void
type_dims_print(const TypeExpr *t, Text *out)
{
	put_dims(&(Printer){.out = out, .flat = true}, t);
}

void
param_put(const Param *param, Text *out)
{
	put_param(&(Printer){.out = out, .flat = true}, param);
}

/* ---- expressions ---- */

static int
expr_strength(const Expr *e)
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

void
layout_exprs(Printer *p, const ExprList *l, int after)
{
	for (int i = 0; i < l->n && !is_full(p); i++) {
		int follows = i + 1 < l->n ? 1 : after;
		separate(p, i, l->at[i], NULL, columns(p, i, follows));
		layout_expr(p, l->at[i], 0, follows);
	}
}

static void
layout_args(Printer *p, const Expr *e, int after)
{
	for (int i = 0; i < e->args.n && !is_full(p); i++) {
		const Arg *a = &e->args.at[i];
		int name = a->name ? (int)strlen(a->name) + 3 : 0;
		int follows = i + 1 < e->args.n ? 1 : after;
		separate(p, i, a->e, NULL, columns(p, i, follows + name));
		if (a->name) {
			word(p, a->name);
			word(p, " = ");
		}
		layout_expr(p, a->e, 0, follows);
	}
}

static void
layout_subscripts(Printer *p, const Expr *e, int after)
{
	for (int i = 0; i < e->subs.n && !is_full(p); i++) {
		const Subscript *s = &e->subs.at[i];
		bool part = s->kind == SUB_PART, plain = s->kind == SUB_INDEX;
		int follows = i + 1 < e->subs.n ? 1 : after;
		separate(p, i, part || plain ? s->e : NULL, part ? s->extent : NULL, columns(p, i, follows));
		if (part || plain)
			layout_expr(p, s->e, 0, part ? 4 : follows);
		else
			word(p, s->kind == SUB_ALL ? ":" : "new");
		if (part) {
			word(p, " +: ");
			layout_expr(p, s->extent, 0, follows);
		}
	}
}

/* Operands of one strength, however they nest to the left, form one chain. */
static void
layout_chain(Printer *p, const Expr *e, int strength, int after)
{
	bool compares = binary_op_compares(e->bin);
	const Expr *a = e->a;
	if (a->kind == EX_BINARY && !a->parens && !compares && binary_strength[a->bin] == strength)
		layout_chain(p, a, strength, 0);
	else
		layout_expr(p, a, compares ? strength + 1 : strength, 0);
	break_or_blank(p);
	word(p, binary_text[e->bin]);
	word(p, " ");
	layout_expr(p, e->b, strength + 1, after);
}

static void
layout_cond(Printer *p, const Expr *e, int after)
{
	layout_expr(p, e->a, STRENGTH_COND + 1, 0);
	break_or_blank(p);
	word(p, "? ");
	layout_expr(p, e->b, 0, 0);
	break_or_blank(p);
	word(p, ": ");
	layout_expr(p, e->c, STRENGTH_COND, after);
}

static void
layout_index(Printer *p, const Expr *e, int after)
{
	layout_expr(p, e->a, STRENGTH_POSTFIX, 1);
	word(p, "[");
	layout_subscripts(p, e, 1 + (e->b ? 5 : after));
	word(p, "]");
	if (e->b) {
		word(p, " else ");
		layout_expr(p, e->b, STRENGTH_UNARY, after);
	}
}

static void
layout_fn(Printer *p, const Expr *e, int after)
{
	bool flat = p->flat;
	p->flat = true;
	word(p, "fn(");
	for (int i = 0; i < e->params.n && !is_full(p); i++) {
		word(p, i ? ", " : "");
		put_param(p, &e->params.at[i]);
	}
	word(p, ") => ");
	p->flat = flat;
	layout_expr(p, e->a, 0, after);
}

/* A number's dot would eat that of a member. */
static void
layout_member(Printer *p, const Expr *e, int after)
{
	bool number = (e->a->kind == EX_INT || e->a->kind == EX_FLOAT) && !e->a->parens;
	word(p, number ? "(" : "");
	layout_expr(p, e->a, STRENGTH_POSTFIX, after + 1);
	word(p, number ? ")." : ".");
	word(p, e->name);
}

/* The type of `as` stays on one line. */
static void
layout_as(Printer *p, const Expr *e, int after)
{
	bool flat = p->flat;
	layout_expr(p, e->a, STRENGTH_AS, after + 4);
	word(p, " as ");
	p->flat = true;
	layout_expr(p, e->b, 0, 0);
	p->flat = flat;
}

static void
layout_open(Printer *p, const Expr *e, int after)
{
	switch (e->kind) {
	case EX_ERROR: word(p, "<error>"); break;
	case EX_INT: case EX_FLOAT: case EX_STRING: word(p, e->spelling); break;
	case EX_NAME:
		word(p, e->scope ? e->scope : "");
		word(p, e->scope ? "::" : "");
		word(p, e->name);
		break;
	case EX_BINARY: layout_chain(p, e, binary_strength[e->bin], after); break;
	case EX_COND: layout_cond(p, e, after); break;
	case EX_CALL:
		layout_expr(p, e->a, STRENGTH_POSTFIX, 1);
		word(p, "(");
		layout_args(p, e, after + 1);
		word(p, ")");
		break;
	case EX_INDEX: layout_index(p, e, after); break;
	case EX_UNARY:
		word(p, unary_text[e->un]);
		layout_expr(p, e->a, STRENGTH_UNARY, after);
		break;
	case EX_AS: layout_as(p, e, after); break;
	case EX_MEMBER: layout_member(p, e, after); break;
	case EX_LIST: case EX_TUPLE:
		word(p, e->kind == EX_LIST ? "[" : "(");
		layout_exprs(p, &e->items, after + 1);
		word(p, e->kind == EX_LIST ? "]" : e->items.n == 1 ? ",)" : ")");
		break;
	case EX_FN: layout_fn(p, e, after); break;
	}
}

void
layout_expr(Printer *p, const Expr *e, int least, int after)
{
	bool flat = p->flat, parens = e->parens || expr_strength(e) < least;
	if (is_full(p))
		return;
	p->flat = flat || fits(e, least, room(p, after));
	bool deeper = !p->flat && e->kind != EX_UNARY && e->kind != EX_AS && e->kind != EX_MEMBER && e->kind != EX_FN;
	p->indent += deeper;
	word(p, parens ? "(" : "");
	layout_open(p, e, after + parens);
	word(p, parens ? ")" : "");
	p->indent -= deeper;
	p->flat = flat;
}

void
expr_put(const Expr *e, int least, Text *out)
{
	layout_expr(&(Printer){.out = out, .flat = true}, e, least, 0);
}

void
expr_print(const Expr *e, Text *out)
{
	layout_open(&(Printer){.out = out, .flat = true}, e, 0);
}
