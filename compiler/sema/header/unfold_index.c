/* What a body makes of a grid's index: quotients and remainders by some of the factors of the count, and an order in groups
 * of rows.  Names of constants stand for what they are; products are equal in any order. */
#include "sema/header/unfold.h"

#include <string.h>

bool
expr_calls(const Expr *e, const char *name, int n)
{
	return e->kind == EX_CALL && e->a->kind == EX_NAME && !e->a->scope && strcmp(e->a->name, name) == 0 &&
	    e->args.n == n && ALL_OF(i, n, !e->args.at[i].name);
}

const Expr *
unfold_resolve(const Unfold *u, const Expr *e)
{
	for (int i = 0; e->kind == EX_NAME && !e->scope && i < u->lets.n; i++)
		if (u->lets.at[i].name == e->name) {
			e = u->lets.at[i].e;
			i = -1;
		}
	return e;
}

static const Expr *
binary(const Unfold *u, const Expr *e, BinaryOp op)
{
	e = unfold_resolve(u, e);
	return e->kind == EX_BINARY && e->bin == op ? e : NULL;
}

bool
unfold_is_axis(const Unfold *u, const Expr *e)
{
	e = unfold_resolve(u, e);
	if (e->kind == EX_NAME)
		return !e->scope && e->name == u->axis;
	return expr_calls(e, "program_id", 1) && e->args.at[0].e->kind == EX_INT && e->args.at[0].e->u == (uint64_t)u->at;
}

static void
add_factors(const Unfold *u, const Expr *e, Factors *out)
{
	const Expr *product = binary(u, e, BIN_MUL);
	if (product && out->n <= FACTORS) {
		add_factors(u, product->a, out);
		add_factors(u, product->b, out);
	} else if (out->n <= FACTORS) {
		out->at[out->n++] = unfold_resolve(u, e);
	}
}

Factors
unfold_factors(const Unfold *u, const Expr *e)
{
	Factors f = {0};
	add_factors(u, e, &f);
	return f;
}

bool
unfold_is_equal(Unfold *u, const Expr *x, const Expr *y)
{
	if (!x || !y || --u->steps < 0)
		return x == y;
	x = unfold_resolve(u, x);
	y = unfold_resolve(u, y);
	if (x->kind != y->kind || x->subs.n + y->subs.n + x->items.n + y->items.n > 0)
		return false;
	switch (x->kind) {
	case EX_INT: return x->u == y->u;
	case EX_NAME: return x->name == y->name && x->scope == y->scope;
	case EX_MEMBER: return x->name == y->name && unfold_is_equal(u, x->a, y->a);
	case EX_UNARY: return x->un == y->un && unfold_is_equal(u, x->a, y->a);
	case EX_BINARY: return x->bin == y->bin && unfold_is_equal(u, x->a, y->a) && unfold_is_equal(u, x->b, y->b);
	case EX_CALL:
		return x->args.n == y->args.n && unfold_is_equal(u, x->a, y->a) &&
		    ALL_OF(i, x->args.n, x->args.at[i].name == y->args.at[i].name &&
			unfold_is_equal(u, x->args.at[i].e, y->args.at[i].e));
	default: return false;
	}
}

/* Takes one factor away. */
static bool
take(Unfold *u, Factors *f, const Expr *e)
{
	int at = FIRST_OF(i, f->n, unfold_is_equal(u, f->at[i], e));
	if (at < 0)
		return false;
	f->at[at] = f->at[--f->n];
	return true;
}

/* The factors of the count that these are, bits; 0: they are not some of them. */
static int
part_of_count(Unfold *u, const Factors *f)
{
	int part = 0;
	for (int i = 0; i < f->n; i++) {
		int at = FIRST_OF(j, u->count.n, !(part >> j & 1) && unfold_is_equal(u, u->count.at[j], f->at[i]));
		if (at < 0)
			return 0;
		part |= 1 << at;
	}
	return part;
}

int
unfold_whole(const Unfold *u)
{
	return (1 << u->count.n) - 1;
}

/* ---- what the body makes of the index ---- */

/* pid / (some of the count): which. */
int
unfold_quotient(Unfold *u, const Expr *e)
{
	const Expr *x = binary(u, e, BIN_DIV);
	if (!x || !unfold_is_axis(u, x->a))
		return 0;
	Factors by = unfold_factors(u, x->b);
	return part_of_count(u, &by);
}

/* pid % (some of the count), or pid - pid / c * c. */
int
unfold_remainder(Unfold *u, const Expr *e)
{
	const Expr *x = binary(u, e, BIN_REM), *less = binary(u, e, BIN_SUB);
	if (x && unfold_is_axis(u, x->a)) {
		Factors by = unfold_factors(u, x->b);
		return part_of_count(u, &by);
	}
	if (!less || !unfold_is_axis(u, less->a))
		return 0;
	Factors by = unfold_factors(u, less->b);
	int at = FIRST_OF(i, by.n, unfold_quotient(u, by.at[i]) > 0);
	int part = at >= 0 ? unfold_quotient(u, by.at[at]) : 0;
	if (part)
		by.at[at] = by.at[--by.n];
	return part && part_of_count(u, &by) == part ? part : 0;
}

/* pid / w or pid % w, w being G and these factors of the count. */
static bool
is_by_group(Unfold *u, const Expr *e, BinaryOp op, const Expr *group, int *part)
{
	const Expr *x = binary(u, e, op);
	if (!x || !unfold_is_axis(u, x->a))
		return false;
	Factors by = unfold_factors(u, x->b);
	*part = take(u, &by, group) ? part_of_count(u, &by) : 0;
	return *part && *part != unfold_whole(u);
}

/* pid / w * G. */
static bool
is_first(Unfold *u, const Expr *e, const Expr *group, int *part)
{
	Factors f = unfold_factors(u, e);
	if (f.n != 2)
		return false;
	int at = unfold_is_equal(u, f.at[0], group) ? 1 : 0;
	return unfold_is_equal(u, f.at[1 - at], group) && is_by_group(u, f.at[at], BIN_DIV, group, part);
}

/* min(rows - first, G): the factors of the count that columns are, and G. */
static int
is_height(Unfold *u, const Expr *e, const Expr **group)
{
	e = unfold_resolve(u, e);
	for (int i = 0; expr_calls(e, "min", 2) && i < 2; i++) {
		const Expr *left = binary(u, e->args.at[i].e, BIN_SUB);
		int part;
		*group = unfold_resolve(u, e->args.at[1 - i].e);
		bool is_size = (*group)->kind == EX_NAME && ctparam_named(u->k, (*group)->name) >= 0;
		is_size |= (*group)->kind == EX_INT && (*group)->u > 0 && (*group)->u < 1 << 20;
		if (!left || !is_size || !is_first(u, left->b, *group, &part))
			continue;
		Factors rows = unfold_factors(u, left->a);
		if (part_of_count(u, &rows) == (unfold_whole(u) & ~part))
			return part;
	}
	return 0;
}

/* pid % w / height. */
int
unfold_column(Unfold *u, const Expr *e, const Expr **group)
{
	const Expr *x = binary(u, e, BIN_DIV);
	int part = x ? is_height(u, x->b, group) : 0, same;
	return part && is_by_group(u, x->a, BIN_REM, *group, &same) && same == part ? part : 0;
}

/* first + pid % w % height; without the first remainder a group's rows go around. */
int
unfold_row(Unfold *u, const Expr *e, const Expr **group)
{
	const Expr *sum = binary(u, e, BIN_ADD);
	for (int i = 0; sum && i < 2; i++) {
		const Expr *first = i ? sum->b : sum->a, *x = binary(u, i ? sum->a : sum->b, BIN_REM);
		int part = x ? is_height(u, x->b, group) : 0, same;
		if (part && is_first(u, first, *group, &same) && same == part &&
		    (unfold_is_axis(u, x->a) || (is_by_group(u, x->a, BIN_REM, *group, &same) && same == part)))
			return part;
	}
	return 0;
}
