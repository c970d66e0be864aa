/* Constructors: one for each production of the grammar, so that the grammar's actions are single calls.
 *
 * Each node knows how deep the tree below it is, and a node that would be deeper than AST_DEPTH is
 * reported once and replaced by EX_ERROR: whatever walks the tree later may recurse. */
#include "ast/parser.h"

#include <string.h>

/* A node's depth from its children's; too deep gives 0 and a report. */
int
ast_depth_above(Parser *p, int below)
{
	if (below < AST_DEPTH)
		return below + 1;
	parser_too_deep(p, p->now);
	return 0;
}

int
ast_expr_depth(const Expr *e)
{
	return e ? e->depth : 0;
}

int
ast_list_depth(const ExprList *l)
{
	int d = 0;
	for (int i = 0; l && i < l->n; i++)
		d = MAX(d, ast_expr_depth(l->at[i]));
	return d;
}

/* lists */

#define LIST_ADD(type, p, list, x)                                                                 \
	do {                                                                                       \
		if (!(list))                                                                       \
			(list) = NEW((p)->cx->mem, type);                                          \
		vec_push((p)->cx->mem, (list), (x));                                               \
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
