/* Constructors: one for each production of the grammar, so that the grammar's actions are single calls.
 *
 * Each node knows how deep the tree below it is, and a node that would be deeper than AST_DEPTH is
 * reported once and replaced by EX_ERROR: whatever walks the tree later may recurse. */
#include "ast/parser.h"

#include <string.h>

/* A node's depth from its children's; too deep gives 0 and a report. */
static int
deepen(Parser *p, int below)
{
	if (below < AST_DEPTH)
		return below + 1;
	parser_too_deep(p, p->now);
	return 0;
}

static int
depth_of(const Expr *e)
{
	return e ? e->depth : 0;
}

static int
depth_of_list(const ExprList *l)
{
	int d = 0;
	for (int i = 0; l && i < l->n; i++)
		d = MAX(d, depth_of(l->at[i]));
	return d;
}

static int
depth_of_stmts(const StmtList *l)
{
	int d = 0;
	for (int i = 0; l && i < l->n; i++)
		d = MAX(d, l->at[i]->depth);
	return d;
}

static Expr *
expr_new(Parser *p, ExprKind kind, Place at, int below)
{
	Expr *e = NEW(p->cx->mem, Expr);
	e->place = at;
	e->depth = deepen(p, below);
	e->kind = e->depth ? kind : EX_ERROR;
	return e;
}

static Stmt *
stmt_new(Parser *p, StmtKind kind, Place at, int below)
{
	Stmt *s = NEW(p->cx->mem, Stmt);
	s->place = at;
	s->depth = deepen(p, below);
	s->kind = s->depth ? kind : ST_ERROR;
	s->op = BIN_NONE;
	return s;
}

/* lists */

#define LIST_ADD(type, p, list, x)                                                                 \
	do {                                                                                       \
		if (!(list))                                                                       \
			(list) = NEW((p)->cx->mem, type);                                          \
		vec_push((p)->cx->mem, (list), (x));                                               \
	} while (0)

#define LIST_COPY(to, from)                                                                        \
	do {                                                                                       \
		if (from)                                                                          \
			(to) = *(from);                                                            \
	} while (0)

ExprList *
ast_exprs(Parser *p, ExprList *list, Expr *e)
{
	LIST_ADD(ExprList, p, list, e);
	return list;
}

ExprList *
ast_exprs_first(Parser *p, Expr *first, const ExprList *rest)
{
	ExprList *list = ast_exprs(p, NULL, first);
	for (int i = 0; i < rest->n; i++)
		vec_push(p->cx->mem, list, rest->at[i]);
	return list;
}

StmtList *
ast_stmts(Parser *p, StmtList *list, Stmt *s)
{
	if (!list)
		list = NEW(p->cx->mem, StmtList);
	if (!s)
		return list;
	stmt_note_returns(s);
	vec_push(p->cx->mem, list, s);
	return list;
}

ParamList *
ast_params(Parser *p, ParamList *list, Param param)
{
	LIST_ADD(ParamList, p, list, param);
	return list;
}

SubscriptList *
ast_subscripts(Parser *p, SubscriptList *list, Subscript s)
{
	LIST_ADD(SubscriptList, p, list, s);
	return list;
}

ArgList *
ast_args(Parser *p, ArgList *list, Arg a)
{
	LIST_ADD(ArgList, p, list, a);
	return list;
}

Pattern *
ast_pattern(Parser *p, Name name)
{
	Pattern *pattern = NEW(p->cx->mem, Pattern);
	pattern->name = name.name;
	pattern->place = name.place;
	return pattern;
}

Pattern *
ast_patterns(Parser *p, Pattern *list, Pattern *item)
{
	if (!list)
		list = NEW(p->cx->mem, Pattern);
	vec_push(p->cx->mem, &list->items, item);
	return list;
}

Pattern *
ast_pattern_tuple(Parser *p, Place at, Pattern *list)
{
	list->place = at;
	return list;
}

/* items */

static Item *
item_new(Parser *p, ItemKind kind, Place at, Name name)
{
	Item *item = NEW(p->cx->mem, Item);
	item->kind = kind;
	item->place = at;
	item->name = name.name;
	item->name_place = name.place;
	return item;
}

static void
item_body(Item *item, const Block *body)
{
	item->body = body->stmts;
	item->body_place = body->place;
}

void
ast_item_add(Parser *p, Item *item)
{
	vec_push(p->cx->mem, &p->ast->items, item);
}

Item *
ast_import_item(Parser *p, Place at, const Expr *path)
{
	Item *item = item_new(p, ITEM_IMPORT, at, (Name){"import", at});
	item->label = path->name ? path->name : "";
	item->label_place = path->place;
	return item;
}

Item *
ast_const(Parser *p, Place at, Name name, Expr *e)
{
	Item *item = item_new(p, ITEM_CONST, at, name);
	item->e = e;
	return item;
}

/* One more of the types that a fn says it gives, as a parameter without a name of its own. */
ParamList *
ast_result(Parser *p, ParamList *list, TypeExpr *type)
{
	Place at = type->place;
	return ast_params(p, list, (Param){.name = "result", .name_place = at, .place = at, .type = type});
}

Item *
ast_fn(Parser *p, Place at, Name name, ParamList *params, ParamList *results, int gives_tuple)
{
	Item *item = item_new(p, ITEM_FN, at, name);
	LIST_COPY(item->params, params);
	LIST_COPY(item->results, results);
	item->gives_tuple = gives_tuple != 0;
	return item;
}

Item *
ast_fn_body(Parser *p, Place at, Item *item, const Block *body, Expr *arrow)
{
	item->place = at;
	if (body)
		item_body(item, body);
	item->e = arrow;
	item->is_arrow = arrow != NULL;
	return item;
}

Item *
ast_kernel(Parser *p, Place at, Name name, int has_ctparams, ParamList *params)
{
	Item *k = item_new(p, ITEM_KERNEL, at, name);
	if (has_ctparams)
		memcpy(&k->ctparams, &p->ctparams, sizeof k->ctparams);
	LIST_COPY(k->params, params);
	return k;
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
ast_kernel_grid(Parser *p, Item *k, Place at, Place clause)
{
	once(p, k->has_grid, clause, k->grid_place, "grid");
	memcpy(&k->grid, &p->axes, sizeof k->grid);
	k->has_grid = true;
	k->grid_place = clause;
	k->place = at;
	return k;
}

Item *
ast_kernel_tune(Parser *p, Item *k, Place at, Place clause)
{
	once(p, k->has_tune, clause, k->tune_place, "tune");
	memcpy(&k->tune, &p->tunes, sizeof k->tune);
	k->has_tune = true;
	k->tune_place = clause;
	k->place = at;
	return k;
}

Item *
ast_kernel_where(Parser *p, Item *k, Place at, Expr *e)
{
	vec_push(p->cx->mem, &k->where, e);
	k->place = at;
	return k;
}

Item *
ast_kernel_body(Parser *p, Place at, Item *k, const Block *body)
{
	(void)p;
	item_body(k, body);
	k->place = at;
	return k;
}

Item *
ast_block_item(Parser *p, ItemKind kind, Place at, Name name, const Expr *label, int is_bench, const Block *body)
{
	Item *item = item_new(p, kind, at, name);
	if (label) {
		item->label = label->name;
		item->label_place = label->place;
	}
	item->is_bench = is_bench;
	item_body(item, body);
	return item;
}

Item *
ast_expect(Parser *p, Place at, Name name, Place braces)
{
	Item *item = item_new(p, ITEM_EXPECT, at, name);
	item->facts = p->facts;
	item->body_place = braces;
	return item;
}

/* An item whose head did not parse; a name keeps its reference and examples from being blamed. */
Item *
ast_lost(Parser *p, Place at, Name name)
{
	return item_new(p, ITEM_ERROR, at, name);
}

/* Lists that a header collects start afresh with their first element. */
#define COLLECT(p, vec, x, first)                                                                  \
	do {                                                                                       \
		if (first)                                                                         \
			memset(&(p)->vec, 0, sizeof(p)->vec);                                      \
		vec_push((p)->cx->mem, &(p)->vec, (x));                                            \
	} while (0)

void
ast_facts_open(Parser *p)
{
	p->facts = (ExprList){0};
}

void
ast_fact(Parser *p, Expr *e)
{
	vec_push(p->cx->mem, &p->facts, e);
}

CtParam
ast_ctparam(Place at, Name name, const Name *type, Expr *value)
{
	CtParam c = {.name = name.name, .name_place = name.place, .place = at, .value = value};
	if (type)
		c.type = *type;
	return c;
}

void
ast_ctparam_add(Parser *p, CtParam c, bool first)
{
	COLLECT(p, ctparams, c, first);
}

Axis
ast_axis(Name name, Expr *count)
{
	return (Axis){name.name, name.place, count};
}

void
ast_axis_add(Parser *p, Axis a, bool first)
{
	COLLECT(p, axes, a, first);
}

Tune
ast_tune(Name name, const ExprList *values)
{
	Tune t = {.name = name.name, .name_place = name.place};
	LIST_COPY(t.values, values);
	return t;
}

void
ast_tune_add(Parser *p, Tune t, bool first)
{
	COLLECT(p, tunes, t, first);
}

Param
ast_param(Parser *p, Place at, Name name, int is_const, TypeExpr *type, Expr *fill)
{
	(void)p;
	return (Param){name.name, name.place, at, is_const, type, fill};
}

TypeExpr *
ast_type(Parser *p, Place at, int mode, int strided, const char *elem, Place elem_place, bool has_dims,
    const ExprList *dims)
{
	TypeExpr *t = NEW(p->cx->mem, TypeExpr);
	t->place = at;
	t->mode = (Mode)mode;
	t->strided = strided;
	t->elem = ast_name(p, (Name){elem, elem_place}, NULL);
	t->has_dims = has_dims;
	LIST_COPY(t->dims, dims);
	return t;
}

TypeExpr *
ast_pointer(Parser *p, Place at, int mut, const char *elem, Place elem_place)
{
	TypeExpr *t = ast_type(p, at, MODE_VALUE, 0, elem, elem_place, false, NULL);
	t->pointer = true;
	t->mut = mut;
	return t;
}

/* statements */

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
	Stmt *s = stmt_new(p, kind, at, depth_of(e));
	s->pattern = pattern;
	s->e = e;
	return s;
}

Stmt *
ast_expr_stmt(Parser *p, Place at, Expr *e)
{
	Stmt *s = stmt_new(p, ST_EXPR, at, depth_of(e));
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
	Stmt *s = stmt_new(p, ST_ASSIGN, at, MAX(depth_of(target), depth_of(e)));
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
	Stmt *s = stmt_new(p, ST_FOR, at, MAX(depth_of_list(args), depth_of_stmts(&body->stmts)));
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
	Stmt *s = stmt_new(p, ST_WHILE, at, MAX(depth_of(e), depth_of_stmts(&body->stmts)));
	s->e = e;
	stmt_body(s, body);
	return s;
}

Stmt *
ast_if(Parser *p, Place at, Expr *e, const Block *body)
{
	Stmt *s = stmt_new(p, ST_IF, at, MAX(depth_of(e), depth_of_stmts(&body->stmts)));
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
	s->depth = MAX(s->depth, deepen(p, depth_of_stmts(&orelse->stmts)));
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
	Stmt *s = stmt_new(p, ST_RETURN, at, depth_of(e));
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

/* expressions */

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
	Expr *e = expr_new(p, EX_TUPLE, at, depth_of_list(items));
	LIST_COPY(e->items, items);
	return e;
}

Expr *
ast_list(Parser *p, Place at, const ExprList *items)
{
	Expr *e = expr_new(p, EX_LIST, at, depth_of_list(items));
	LIST_COPY(e->items, items);
	return e;
}

Expr *
ast_unary(Parser *p, Place at, UnaryOp op, Expr *a)
{
	Expr *e = expr_new(p, EX_UNARY, at, depth_of(a));
	e->un = op;
	e->a = a;
	return e;
}

Expr *
ast_binary(Parser *p, Place at, BinaryOp op, Place op_place, Expr *a, Expr *b)
{
	Expr *e = expr_new(p, EX_BINARY, at, MAX(depth_of(a), depth_of(b)));
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
	Expr *e = expr_new(p, EX_COND, at, MAX(depth_of(a), MAX(depth_of(b), depth_of(c))));
	e->a = a;
	e->b = b;
	e->c = c;
	return e;
}

Expr *
ast_as(Parser *p, Place at, Expr *a, Expr *type)
{
	Expr *e = expr_new(p, EX_AS, at, MAX(depth_of(a), depth_of(type)));
	e->a = a;
	e->b = type;
	return e;
}

Expr *
ast_fill(Parser *p, Place at, Expr *index, Expr *fill)
{
	Expr *e = expr_new(p, EX_INDEX, at, MAX(depth_of(index), depth_of(fill)));
	e->a = index->a;
	e->subs = index->subs;
	e->b = fill;
	return e;
}

Expr *
ast_call(Parser *p, Place at, Expr *callee, const ArgList *args)
{
	int below = depth_of(callee);
	for (int i = 0; args && i < args->n; i++)
		below = MAX(below, depth_of(args->at[i].e));
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
	Expr *e = expr_new(p, EX_MEMBER, at, depth_of(a));
	e->a = a;
	e->name = name.name;
	e->op_place = name.place;
	return e;
}

Expr *
ast_index(Parser *p, Place at, Expr *a, const SubscriptList *subs)
{
	int below = depth_of(a);
	for (int i = 0; subs && i < subs->n; i++)
		below = MAX(below, MAX(depth_of(subs->at[i].e), depth_of(subs->at[i].extent)));
	Expr *e = expr_new(p, EX_INDEX, at, below);
	e->a = a;
	e->subs = subs ? *subs : (SubscriptList){0};
	return e;
}

Expr *
ast_lambda(Parser *p, Place at, const ParamList *params, Expr *a)
{
	Expr *e = expr_new(p, EX_FN, at, depth_of(a));
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
