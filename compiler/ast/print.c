/* Expressions as source text on one line.
 *
 * Parentheses stay where they were written, and appear where the tree needs them.  Everything is written
 * through a Sink, which can be told to stop after so many bytes: whether an expression fits into a line is
 * found in the time that a line takes, however large the expression is. */
#include "ast/print.h"

#include <stdint.h>
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

typedef struct Sink {
	Text *out;                                  /* NULL: only counted */
	size_t n, limit;                            /* bytes so far; nothing is written beyond the limit */
} Sink;

static void put(Sink *s, const Expr *e, int least);
static void put_flat(Sink *s, const Expr *e);

static void
word(Sink *s, const char *text)
{
	s->n += strlen(text);
	if (s->out && s->n <= s->limit)
		text_put(s->out, text);
}

static bool
is_full(const Sink *s)
{
	return s->n > s->limit;
}

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

bool
expr_needs_parens(const Expr *e, int least)
{
	return e->parens || expr_strength(e) < least;
}

static void
put_exprs(Sink *s, const ExprList *l)
{
	for (int i = 0; i < l->n && !is_full(s); i++) {
		word(s, i ? ", " : "");
		put(s, l->at[i], 0);
	}
}

static void
put_type(Sink *s, const TypeExpr *t)
{
	static const char *const mode[] = {"", "in ", "out ", "inout ", "scratch "};
	word(s, mode[t->mode]);
	word(s, t->strided ? "strided " : "");
	word(s, t->pointer ? "*" : "");
	word(s, t->mut ? "mut " : "");
	put(s, t->elem, 0);
	if (t->has_dims) {
		word(s, "[");
		put_exprs(s, &t->dims);
		word(s, "]");
	}
}

static void
put_param(Sink *s, const Param *p)
{
	word(s, p->is_const ? "const " : "");
	word(s, p->name);
	if (p->type) {
		word(s, ": ");
		put_type(s, p->type);
	}
	if (p->fill) {
		word(s, " = ");
		put(s, p->fill, 0);
	}
}

static void
put_subscript(Sink *s, const Subscript *sub)
{
	if (sub->kind == SUB_ALL || sub->kind == SUB_NEW) {
		word(s, sub->kind == SUB_ALL ? ":" : "new");
		return;
	}
	put(s, sub->e, 0);
	if (sub->kind == SUB_PART) {
		word(s, " +: ");
		put(s, sub->extent, 0);
	}
}

static void
put_arg(Sink *s, const Arg *a)
{
	if (a->name) {
		word(s, a->name);
		word(s, " = ");
	}
	put(s, a->e, 0);
}

static void
put_binary(Sink *s, const Expr *e)
{
	int strength = binary_strength[e->bin];
	bool compares = e->bin >= BIN_EQ && e->bin <= BIN_GE;
	put(s, e->a, compares ? strength + 1 : strength);
	word(s, " ");
	word(s, binary_text[e->bin]);
	word(s, " ");
	put(s, e->b, strength + 1);
}

static void
put_index(Sink *s, const Expr *e)
{
	put(s, e->a, STRENGTH_POSTFIX);
	word(s, "[");
	for (int i = 0; i < e->subs.n && !is_full(s); i++) {
		word(s, i ? ", " : "");
		put_subscript(s, &e->subs.at[i]);
	}
	word(s, "]");
	if (e->b) {
		word(s, " else ");
		put(s, e->b, STRENGTH_UNARY);
	}
}

static void
put_call(Sink *s, const Expr *e)
{
	put(s, e->a, STRENGTH_POSTFIX);
	word(s, "(");
	for (int i = 0; i < e->args.n && !is_full(s); i++) {
		word(s, i ? ", " : "");
		put_arg(s, &e->args.at[i]);
	}
	word(s, ")");
}

static void
put_fn(Sink *s, const Expr *e)
{
	word(s, "fn(");
	for (int i = 0; i < e->params.n && !is_full(s); i++) {
		word(s, i ? ", " : "");
		put_param(s, &e->params.at[i]);
	}
	word(s, ") => ");
	put(s, e->a, 0);
}

static void
put_items(Sink *s, const Expr *e)
{
	bool list = e->kind == EX_LIST;
	word(s, list ? "[" : "(");
	put_exprs(s, &e->items);
	word(s, list ? "]" : e->items.n == 1 ? ",)" : ")");
}

/* A number's dot would eat that of a member. */
static void
put_member(Sink *s, const Expr *e)
{
	bool number = (e->a->kind == EX_INT || e->a->kind == EX_FLOAT) && !e->a->parens;
	word(s, number ? "(" : "");
	put(s, e->a, STRENGTH_POSTFIX);
	word(s, number ? ")" : "");
	word(s, ".");
	word(s, e->name);
}

static void
put_flat(Sink *s, const Expr *e)
{
	switch (e->kind) {
	case EX_ERROR: word(s, "<error>"); break;
	case EX_INT: case EX_FLOAT: case EX_STRING: word(s, e->spelling); break;
	case EX_NAME:
		word(s, e->scope ? e->scope : "");
		word(s, e->scope ? "::" : "");
		word(s, e->name);
		break;
	case EX_UNARY:
		word(s, unary_text[e->un]);
		put(s, e->a, STRENGTH_UNARY);
		break;
	case EX_BINARY: put_binary(s, e); break;
	case EX_COND:
		put(s, e->a, STRENGTH_COND + 1);
		word(s, " ? ");
		put(s, e->b, 0);
		word(s, " : ");
		put(s, e->c, STRENGTH_COND);
		break;
	case EX_CALL: put_call(s, e); break;
	case EX_INDEX: put_index(s, e); break;
	case EX_AS:
		put(s, e->a, STRENGTH_AS);
		word(s, " as ");
		put(s, e->b, 0);
		break;
	case EX_MEMBER: put_member(s, e); break;
	case EX_LIST: case EX_TUPLE: put_items(s, e); break;
	case EX_FN: put_fn(s, e); break;
	}
}

static void
put(Sink *s, const Expr *e, int least)
{
	bool parens = expr_needs_parens(e, least);
	if (is_full(s))
		return;
	word(s, parens ? "(" : "");
	put_flat(s, e);
	word(s, parens ? ")" : "");
}

void
expr_put(const Expr *e, int least, Text *out)
{
	Sink s = {.out = out, .limit = SIZE_MAX};
	put(&s, e, least);
}

void
expr_print(const Expr *e, Text *out)
{
	Sink s = {.out = out, .limit = SIZE_MAX};
	put_flat(&s, e);
}

bool
expr_fits(const Expr *e, int least, int room)
{
	Sink s = {.limit = (size_t)MAX(room, 0)};
	put(&s, e, least);
	return room >= 0 && !is_full(&s);
}

void
type_put(const TypeExpr *t, Text *out)
{
	Sink s = {.out = out, .limit = SIZE_MAX};
	put_type(&s, t);
}

void
param_put(const Param *p, Text *out)
{
	Sink s = {.out = out, .limit = SIZE_MAX};
	put_param(&s, p);
}

void
subscript_put(const Subscript *sub, Text *out)
{
	Sink s = {.out = out, .limit = SIZE_MAX};
	put_subscript(&s, sub);
}
