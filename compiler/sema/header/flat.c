/* Does a body divide a tile of indices by sizes, as kernels do that are ported from one thread for each element?
 *
 *     let i = p * B + arange(0, B);
 *     let c = i / (H * W) % C;
 *
 * Sizes may have 40 bits; of a launch where all have 30 such divisions take 32 bits (compile/assumption.c).  The text is
 * looked at once: names of constants and variables stand for what they are first.  Products have other ways to read by
 * digits of an index, and are left alone. */
#include "sema/header.h"

#include <string.h>

enum { DEPTH = 16, STEPS = 20000 };               /* of names that stand for names; of all that is looked at */

typedef struct Indices {
	const Item *item;
	const char *arange;
	bool divides, multiplies;
	int steps;
} Indices;

static const Expr *
first_value(const StmtList *l, const char *name)
{
	const Expr *e = NULL;
	for (int i = 0; i < l->n && !e; i++) {
		const Stmt *s = l->at[i];
		bool binds = (s->kind == ST_LET || s->kind == ST_VAR) && s->pattern && s->pattern->name == name;
		e = binds ? s->e : first_value(&s->body, name);
		e = e ? e : first_value(&s->orelse, name);
	}
	return e;
}

/* Is it an integer that is made of arange(…)?  Neither an element read at one nor a sum over them is. */
static bool
counts_up(Indices *x, const Expr *e, int depth)
{
	if (!e || depth == 0 || ++x->steps > STEPS)
		return false;
	switch (e->kind) {
	case EX_NAME: return counts_up(x, first_value(&x->item->body, e->name), depth - 1);
	case EX_UNARY: return counts_up(x, e->a, depth);
	case EX_BINARY:
		return e->bin >= BIN_ADD && e->bin <= BIN_REM && (counts_up(x, e->a, depth) || counts_up(x, e->b, depth));
	case EX_COND: return counts_up(x, e->b, depth) || counts_up(x, e->c, depth);
	case EX_AS:
		return e->b->kind == EX_NAME && (e->b->name[0] == 'i' || e->b->name[0] == 'u') && counts_up(x, e->a, depth);
	case EX_INDEX:                                  /* i[:, new] */
		return ALL_OF(i, e->subs.n, e->subs.at[i].kind == SUB_ALL || e->subs.at[i].kind == SUB_NEW) &&
		    counts_up(x, e->a, depth);
	case EX_CALL:
		if (e->a->kind != EX_NAME)
			return false;
		if (e->a->name == x->arange)
			return true;
		return (strcmp(e->a->name, "where") == 0 && e->args.n == 3 &&
			(counts_up(x, e->args.at[1].e, depth) || counts_up(x, e->args.at[2].e, depth))) ||
		    ((strcmp(e->a->name, "min") == 0 || strcmp(e->a->name, "max") == 0) && e->args.n == 2 &&
			(counts_up(x, e->args.at[0].e, depth) || counts_up(x, e->args.at[1].e, depth)));
	default: return false;
	}
}

static void
look_at(Indices *x, const Expr *e)
{
	if (!e)
		return;
	bool divides = e->kind == EX_BINARY && (e->bin == BIN_DIV || e->bin == BIN_REM);
	x->multiplies |= e->kind == EX_BINARY && e->bin == BIN_MATMUL;
	x->divides |= divides && !x->divides && e->b->kind != EX_INT && counts_up(x, e->a, DEPTH);
	for (int i = 0; i < expr_children(e); i++)
		look_at(x, expr_child(e, i));
}

static void
look_at_all(Indices *x, const StmtList *l)
{
	for (int i = 0; i < l->n; i++) {
		const Stmt *s = l->at[i];
		look_at(x, s->e);
		look_at(x, s->target);
		for (int j = 0; j < s->range.n; j++)
			look_at(x, s->range.at[j]);
		look_at_all(x, &s->body);
		look_at_all(x, &s->orelse);
	}
}

bool
body_divides_indices(const Kernel *k)
{
	Indices x = {.item = k->item, .arange = intern(k->program->cx->names, "arange")};
	look_at_all(&x, &k->item->body);
	return x.divides && !x.multiplies;
}
