/* An axis of the grid that the body takes apart by quotient and remainder becomes two axes.
 *
 *     grid(pid: cdiv(M, BM) * cdiv(N, BN)) {                grid(pid_0: cdiv(N, BN), pid_1: cdiv(M, BM)) {
 *         let n = cdiv(N, BN);                                  let n = cdiv(N, BN);
 *         let pm = pid / n;                        =>           let pm = pid_1;
 *         let pn = pid % n;                                     let pn = pid_0;
 *
 * The first axis counts fastest: programs keep their order.  The order in groups of rows, as kernels for Triton have it,
 *
 *     let first = pid / (G * n) * G, rows = min(cdiv(M, BM) - first, G);
 *     let pm = first + pid % (G * n) % rows, pn = pid % (G * n) / rows;
 *
 * visits all pairs, each once, and becomes grid(pid_0: cdiv(M, BM), pid_1: cdiv(N, BN)): programs run in any order, and
 * the schedule has its own word for it, `group`.  What chooses tiles finds the sizes that cut the grid in the header then,
 * and numbers along an axis have bounds.
 *
 * Constants (let) of the body's first level whose names are bound once stand for what they are.  Constants without another
 * use vanish with the index.  Kernels stay as they are that use the index in another way, bind a name of the counts, take
 * off anything in them, or show which program runs (print, assert, program_id, num_programs), where fn may do so, too. */
#include "sema/header/unfold.h"

#include <string.h>

static void
find_in_expr(Unfold *u, const Expr *e)
{
	const Expr *group = NULL;
	if (!e)
		return;
	int part = e->kind == EX_BINARY ? unfold_column(u, e, &group) : 0;
	if (part && !u->group) {
		u->group = group;
		u->inner = part;
	}
	if (e->kind == EX_BINARY && !u->group) {
		part = unfold_quotient(u, e);
		part = part ? part : unfold_remainder(u, e);
		if (part && part != unfold_whole(u) &&
		    (!u->inner || __builtin_popcount((unsigned)part) < __builtin_popcount((unsigned)u->inner)))
			u->inner = part;
	}
	for (int i = 0; i < expr_children(e); i++)
		find_in_expr(u, expr_child(e, i));
}

static void
find_in_stmts(Unfold *u, const StmtList *l)
{
	for (int i = 0; i < l->n; i++) {
		const Stmt *s = l->at[i];
		find_in_expr(u, s->e);
		find_in_expr(u, s->target);
		for (int j = 0; j < s->range.n; j++)
			find_in_expr(u, s->range.at[j]);
		find_in_stmts(u, &s->body);
		find_in_stmts(u, &s->orelse);
	}
}

/* ---- the body by two indices ---- */

static Expr *
name_at(const Unfold *u, const Expr *at, const char *name)
{
	Expr e = {.kind = EX_NAME, .place = at->place, .name = name, .depth = 1};
	return NEW_COPY(u->cx->mem, &e, 1);
}

static Expr *
join(const Unfold *u, const Expr *at, BinaryOp op, Expr *a, Expr *b)
{
	Expr both = {.kind = EX_BINARY, .place = at->place, .op_place = at->place, .bin = op, .a = a, .b = b};
	both.depth = 1 + MAX(a->depth, b->depth);
	return NEW_COPY(u->cx->mem, &both, 1);
}

/* The product of some of the count's factors. */
static Expr *
product_of(const Unfold *u, int part)
{
	Expr *all = NULL;
	for (int i = 0; i < u->count.n; i++) {
		Expr *one = part >> i & 1 ? NEW_COPY(u->cx->mem, u->count.at[i], 1) : NULL;
		if (one && all)
			one = join(u, one, BIN_MUL, all, one);
		all = one ? one : all;
	}
	return all;
}

/* What stands for an expression of the index; NULL: it is none. */
static Expr *
replaced(Unfold *u, const Expr *e)
{
	const Expr *group;
	if (e->kind != EX_BINARY)
		return NULL;
	if (u->group) {
		if (unfold_row(u, e, &group) == u->inner && unfold_is_equal(u, group, u->group))
			return name_at(u, e, u->name[0]);
		bool is_column = unfold_column(u, e, &group) == u->inner && unfold_is_equal(u, group, u->group);
		return is_column ? name_at(u, e, u->name[1]) : NULL;
	}
	if (unfold_remainder(u, e) == u->inner)
		return name_at(u, e, u->name[0]);
	int by = unfold_quotient(u, e);
	if ((by & u->inner) != u->inner)
		return NULL;
	Expr *q = name_at(u, e, u->name[1]), *rest = product_of(u, by & ~u->inner);
	return rest ? join(u, e, BIN_DIV, q, rest) : q;
}

static Expr *
rewrite(Unfold *u, const Expr *e)
{
	Arena *mem = u->cx->mem;
	Expr *x = e ? replaced(u, e) : NULL;
	if (!e || x)
		return x;
	x = NEW_COPY(mem, e, 1);
	x->a = rewrite(u, e->a);
	x->b = rewrite(u, e->b);
	x->c = rewrite(u, e->c);
	x->args.at = NEW_COPY(mem, e->args.at, e->args.n);
	for (int i = 0; i < e->args.n; i++)
		x->args.at[i].e = rewrite(u, e->args.at[i].e);
	x->subs.at = NEW_COPY(mem, e->subs.at, e->subs.n);
	for (int i = 0; i < e->subs.n; i++) {
		x->subs.at[i].e = rewrite(u, e->subs.at[i].e);
		x->subs.at[i].extent = rewrite(u, e->subs.at[i].extent);
	}
	x->items.at = NEW_COPY(mem, e->items.at, e->items.n);
	for (int i = 0; i < e->items.n; i++)
		x->items.at[i] = rewrite(u, e->items.at[i]);
	return x;
}

static StmtList
rewrite_stmts(Unfold *u, const StmtList *l)
{
	StmtList out = {0};
	for (int i = 0; i < l->n; i++) {
		Stmt *s = NEW_COPY(u->cx->mem, l->at[i], 1);
		s->e = rewrite(u, s->e);
		s->target = rewrite(u, s->target);
		s->range.at = NEW_COPY(u->cx->mem, s->range.at, s->range.n);
		for (int j = 0; j < s->range.n; j++)
			s->range.at[j] = rewrite(u, s->range.at[j]);
		s->body = rewrite_stmts(u, &s->body);
		s->orelse = rewrite_stmts(u, &s->orelse);
		vec_push(u->cx->mem, &out, s);
	}
	return out;
}

/* ---- names ---- */

static bool
stmts_mention(const StmtList *l, int from, int to, const char *name)
{
	for (int i = from; i < to; i++) {
		const Stmt *s = l->at[i];
		if (expr_mentions(s->e, name) || expr_mentions(s->target, name) ||
		    ANY_OF(j, s->range.n, expr_mentions(s->range.at[j], name)) ||
		    stmts_mention(&s->body, 0, s->body.n, name) || stmts_mention(&s->orelse, 0, s->orelse.n, name))
			return true;
	}
	return false;
}

static void
bind_pattern(Unfold *u, const Pattern *p)
{
	if (p && p->name)
		vec_push(u->cx->mem, &u->bound, p->name);
	for (int i = 0; p && i < p->items.n; i++)
		bind_pattern(u, p->items.at[i]);
}

static void
bind_in_expr(Unfold *u, const Expr *e)
{
	for (int i = 0; e && i < e->params.n; i++)
		vec_push(u->cx->mem, &u->bound, e->params.at[i].name);
	for (int i = 0; e && i < expr_children(e); i++)
		bind_in_expr(u, expr_child(e, i));
}

static void
bind_stmts(Unfold *u, const StmtList *l)
{
	for (int i = 0; i < l->n; i++) {
		const Stmt *s = l->at[i];
		bind_pattern(u, s->pattern);
		vec_push(u->cx->mem, &u->bound, s->index.name);
		vec_push(u->cx->mem, &u->bound, s->part.name);
		bind_in_expr(u, s->e);
		bind_in_expr(u, s->target);
		for (int j = 0; j < s->range.n; j++)
			bind_in_expr(u, s->range.at[j]);
		bind_stmts(u, &s->body);
		bind_stmts(u, &s->orelse);
	}
}

static int
times_bound(const Unfold *u, const char *name)
{
	return COUNT_OF(i, u->bound.n, u->bound.at[i] == name);
}

static bool
is_header_name(const Unfold *u, const char *name)
{
	return ctparam_named(u->k, name) >= 0 || symbol_named(u->k, name) >= 0 || param_of_kernel(u->k, name) >= 0 ||
	    ANY_OF(i, u->item->grid.n, u->item->grid.at[i].name == name);
}

static bool
is_signed(const char *type)
{
	return !type || strcmp(type, "i32") == 0 || strcmp(type, "i64") == 0;
}

/* Is it a signed integer of the header, as far as that says? */
static bool
is_size(const Unfold *u, const char *name)
{
	int c = ctparam_named(u->k, name), p = param_of_kernel(u->k, name);
	const TypeExpr *t = p >= 0 ? u->item->params.at[p].type : NULL;
	if (c >= 0)
		return is_signed(u->item->ctparams.at[c].type.name);
	if (t)
		return u->k->params.at[p].kind == PARAM_SCALAR && t->elem->kind == EX_NAME && is_signed(t->elem->name);
	return symbol_named(u->k, name) >= 0;
}

/* Integer arithmetic of names that are known here: nothing in it can be wrong. */
static bool
is_plain(const Unfold *u, const Expr *e)
{
	bool divides = e->kind == EX_BINARY && (e->bin == BIN_DIV || e->bin == BIN_REM);
	switch (e->kind) {
	case EX_INT: return e->u < UINT64_C(1) << 31;
	case EX_NAME:
		return !e->scope && (e->name == u->axis || is_size(u, e->name) ||
		    ANY_OF(i, u->lets.n, u->lets.at[i].name == e->name));
	case EX_BINARY:
		return e->bin >= BIN_ADD && e->bin <= BIN_REM && is_plain(u, e->a) && is_plain(u, e->b) &&
		    !(divides && unfold_resolve(u, e->b)->kind == EX_INT && unfold_resolve(u, e->b)->u == 0);
	case EX_CALL:
		return unfold_is_axis(u, e) || ((expr_calls(e, "min", 2) || expr_calls(e, "cdiv", 2)) &&
		    ALL_OF(i, 2, is_plain(u, e->args.at[i].e)));
	default: return false;
	}
}

static void
find_lets(Unfold *u)
{
	const StmtList *l = &u->item->body;
	enum { MOST = 64 };
	for (int i = 0; i < l->n && u->lets.n < MOST; i++) {
		const Stmt *s = l->at[i];
		const char *name = s->kind == ST_LET && s->e ? s->pattern->name : NULL;
		if (name && times_bound(u, name) == 1 && !is_header_name(u, name) && is_plain(u, s->e) &&
		    !stmts_mention(l, 0, i + 1, name))
			vec_push(u->cx->mem, &u->lets, ((Let){name, s->e}));
	}
}

/* May the body say which program it is in another way? */
static bool
shows_program(const Unfold *u, const StmtList *body)
{
	static const char *const shows[] = {"print", "assert", "program_id", "num_programs"};
	const Program *p = u->k->program;
	for (int i = 0; i < (int)(sizeof shows / sizeof *shows); i++) {
		const char *name = intern(u->cx->names, shows[i]);
		if (stmts_mention(body, 0, body->n, name))
			return true;
		for (int j = 0; j < p->items.n; j++) {
			const Item *it = p->items.at[j];
			bool says = expr_mentions(it->e, name) || stmts_mention(&it->body, 0, it->body.n, name);
			if (it->kind == ITEM_FN && says)
				return true;
		}
	}
	return false;
}

/* Is no factor of a count below 0?  Of two that are, the product is not, and of one and 0 there is no program. */
static bool
is_count(const Expr *e)
{
	return !e || (!(e->kind == EX_UNARY && e->un == UN_NEG) && !(e->kind == EX_BINARY && e->bin == BIN_SUB) &&
	    ALL_OF(i, expr_children(e), is_count(expr_child(e, i))));
}

/* Are the functions that are looked for the language's, not the program's own? */
static bool
has_builtins(const Unfold *u)
{
	static const char *const names[] = {"min", "cdiv", "program_id"};
	const Program *p = u->k->program;
	return ALL_OF(i, LEN(names), ALL_OF(j, p->items.n, p->items.at[j]->name != intern(u->cx->names, names[i])));
}

/* Are the count's names what the body has by them, and signed? */
static bool
means_the_same(const Unfold *u, const Expr *count)
{
	const Item *it = u->item;
	return ALL_OF(i, u->bound.n, !u->bound.at[i] || !expr_mentions(count, u->bound.at[i])) &&
	    ALL_OF(i, it->params.n, u->k->params.at[i].kind != PARAM_SCALAR || is_size(u, it->params.at[i].name) ||
		!expr_mentions(count, it->params.at[i].name)) &&
	    ALL_OF(i, it->ctparams.n, is_size(u, it->ctparams.at[i].name) ||
		!expr_mentions(count, it->ctparams.at[i].name));
}

static bool
is_free(const Unfold *u, const char *name)
{
	return !is_header_name(u, name) && times_bound(u, name) == 0 &&
	    !stmts_mention(&u->item->body, 0, u->item->body.n, name) &&
	    ALL_OF(i, u->k->program->items.n, u->k->program->items.at[i]->name != name);
}

/* ---- the kernel ---- */

/* Takes constants away that are made of the index and that nothing else reads, the last first. */
static void
drop_unused(const Unfold *u, StmtList *l)
{
	for (int i = l->n - 1; i >= 0; i--) {
		const Stmt *s = l->at[i];
		const char *name = s->kind == ST_LET ? s->pattern->name : NULL;
		bool is_let = name && ANY_OF(j, u->lets.n, u->lets.at[j].name == name);
		if (!is_let || stmts_mention(l, i + 1, l->n, name))
			continue;
		memmove(&l->at[i], &l->at[i + 1], sizeof *l->at * (size_t)(l->n - i - 1));
		l->n--;
	}
}

static const Item *
unfold_axis(Unfold *u, int a)
{
	const Axis *axis = &u->item->grid.at[a];
	Arena *mem = u->cx->mem;
	u->axis = axis->name;
	u->at = a;
	u->steps = STEPS;
	u->count = unfold_factors(u, axis->count);
	if (u->count.n < 2 || u->count.n > FACTORS)
		return NULL;
	bind_stmts(u, &u->item->body);
	if (times_bound(u, u->axis) > 0 || !means_the_same(u, axis->count) || !is_count(axis->count) || !has_builtins(u))
		return NULL;
	find_lets(u);
	find_in_stmts(u, &u->item->body);
	if (!u->inner)
		return NULL;
	for (int i = 0; i < 2; i++) {
		u->name[i] = intern(u->cx->names, arena_printf(mem, "%s_%d", u->axis, i));
		if (!is_free(u, u->name[i]))
			return NULL;
	}
	StmtList body = rewrite_stmts(u, &u->item->body);
	drop_unused(u, &body);
	if (u->steps < 0 || stmts_mention(&body, 0, body.n, u->axis) || shows_program(u, &body))
		return NULL;
	int first = u->group ? unfold_whole(u) & ~u->inner : u->inner;
	Item *item = NEW_COPY(mem, u->item, 1);
	item->body = body;
	item->grid = (AxisList){0};
	for (int i = 0; i < u->item->grid.n; i++) {
		Axis one = u->item->grid.at[i];
		for (int part = 0; i == a && part < 2; part++) {
			one.name = u->name[part];
			one.count = product_of(u, part == 0 ? first : unfold_whole(u) & ~first);
			if (part == 0)
				vec_push(mem, &item->grid, one);
		}
		vec_push(mem, &item->grid, one);
	}
	return item;
}

const Item *
grid_unfold(const Kernel *k)
{
	const Item *item = k->item;
	for (int a = 0; a < item->grid.n && item->grid.n < MAX_AXES; a++) {
		Unfold u = {.cx = k->program->cx, .k = k, .item = item};
		const Item *next = unfold_axis(&u, a);
		item = next ? next : item;
		a = next ? -1 : a;
	}
	return item;
}
