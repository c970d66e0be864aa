/* Which text each name of a file stands for, by the scopes of the language.
 *
 * The tree is enough: a name that cannot be found is an operation of the language, a dtype, or wrong, and stays without
 * an entry.  Headers come first, as a reference or an example may stand before its kernel and uses its names. */
#include "tool/lsp/lsp.h"

#include <stdlib.h>
#include <string.h>

typedef struct Header {                             /* names->defs from first to before last */
	const Item *kernel;
	int first, last;
} Header;

typedef struct Walk {
	Names *names;
	Arena *mem;
	int file;                                       /* the document's: uses elsewhere are not kept */
	VEC(int) seen;                                  /* definitions in scope, innermost last */
	VEC(Header) headers;
} Walk;

/* Files that were walked: each counts once, however often it is imported. */
typedef VEC(int) FileList;

static void walk_expr(Walk *w, const Expr *x, bool writes);
static void walk_body(Walk *w, const StmtList *body, const Item *of);

static void
use(Walk *w, const char *name, Place at, int def, bool is_def, bool writes)
{
	NameUse u = {at, def, name, is_def, writes};
	if (at.file == w->file && at.line > 0)
		vec_push(w->mem, &w->names->uses, u);
}

static void
define(Walk *w, NameDef def)
{
	if (!def.name)
		return;
	vec_push(w->mem, &w->names->defs, def);
	vec_push(w->mem, &w->seen, w->names->defs.n - 1);
	use(w, def.name, def.place, w->names->defs.n - 1, true, true);
}

/* What is in scope since `mark` ends with the text of `at`. */
static void
leave(Walk *w, int mark, Place at)
{
	for (int i = mark; i < w->seen.n; i++)
		w->names->defs.at[w->seen.at[i]].until = at;
	w->seen.n = mark;
}

static int
find(const Walk *w, const char *name)
{
	for (int i = w->seen.n - 1; i >= 0; i--)
		if (w->names->defs.at[w->seen.at[i]].name == name)
			return w->seen.at[i];
	return -1;
}

static void
name_used(Walk *w, const char *name, Place at, bool writes)
{
	int def = name ? find(w, name) : -1;
	if (def >= 0 || (name && operation_named(name)))
		use(w, name, at, def, false, writes);
}

static void
walk_list(Walk *w, const ExprList *list)
{
	for (int i = 0; i < list->n; i++)
		walk_expr(w, list->at[i], false);
}

static void
walk_expr(Walk *w, const Expr *x, bool writes)
{
	int mark = w->seen.n;
	if (!x)
		return;
	if (x->kind == EX_NAME && !x->scope)
		name_used(w, x->name, x->place, writes);
	else if (x->kind == EX_NAME && x->name && operation_named(x->name))
		use(w, x->name, x->place, -1, false, false);    /* fast::exp */
	for (int i = 0; x->kind == EX_FN && i < x->params.n; i++)
		define(w, (NameDef){NAME_ARGUMENT, x->params.at[i].name, x->params.at[i].name_place,
			.param = &x->params.at[i]});
	for (int i = 0; i < expr_children(x); i++)
		walk_expr(w, expr_child(x, i), writes && (x->kind == EX_TUPLE || (x->kind == EX_INDEX && i == 0)));
	leave(w, mark, x->place);
}

/* ---- statements ---- */

static void
define_pattern(Walk *w, const Pattern *p, NameKind kind, const Item *of)
{
	if (p->name)
		define(w, (NameDef){kind, p->name, p->place, .item = of});
	for (int i = 0; i < p->items.n; i++)
		define_pattern(w, p->items.at[i], kind, of);
}

static void
walk_stmt(Walk *w, const Stmt *s, const Item *of)
{
	int mark = w->seen.n;
	walk_list(w, &s->range);
	walk_expr(w, s->target, s->kind == ST_ASSIGN);
	walk_expr(w, s->e, false);
	if (s->kind == ST_FOR)
		define(w, (NameDef){NAME_COUNTER, s->index.name, s->index.place, .item = of});
	walk_body(w, &s->body, of);
	leave(w, mark, s->body_place);
	if (s->part.name)
		define(w, (NameDef){NAME_LET, s->part.name, s->part.place, .item = of});
	walk_body(w, &s->orelse, of);
	leave(w, mark, s->orelse_place);
	if (s->pattern)
		define_pattern(w, s->pattern, s->kind == ST_VAR ? NAME_VAR : NAME_LET, of);
}

static void
walk_body(Walk *w, const StmtList *body, const Item *of)
{
	for (int i = 0; i < body->n; i++)
		walk_stmt(w, body->at[i], of);
}

/* ---- items ---- */

/* A name that a dimension gives a value, or the element type of a fn's parameter, that nothing else means is bound. */
static void
walk_type(Walk *w, const TypeExpr *t, const Item *of)
{
	if (!t)
		return;
	if (t->elem && t->elem->kind == EX_NAME && of->kind == ITEM_FN && find(w, t->elem->name) < 0 &&
	    !dtype_named(t->elem->name, &(DType){0}))
		define(w, (NameDef){NAME_SYMBOL, t->elem->name, t->elem->place, .item = of, .type = t});
	else
		walk_expr(w, t->elem, false);
	for (int i = 0; i < t->dims.n; i++) {
		const Expr *dim = t->dims.at[i], *x = dim ? dim_form(dim).name : NULL;
		if (x && (x == dim || of->kind == ITEM_KERNEL) && find(w, x->name) < 0)
			define(w, (NameDef){NAME_SYMBOL, x->name, x->place, .item = of, .type = t});
		else
			walk_expr(w, dim, false);
	}
}

static void
define_header(Walk *w, const Item *it)
{
	Header h = {it, w->names->defs.n, 0};
	int mark = w->seen.n;
	for (int i = 0; i < it->ctparams.n; i++)
		define(w, (NameDef){NAME_CTPARAM, it->ctparams.at[i].name, it->ctparams.at[i].name_place, .item = it,
			.ct = &it->ctparams.at[i]});
	for (int i = 0; i < it->params.n; i++)
		define(w, (NameDef){NAME_PARAM, it->params.at[i].name, it->params.at[i].name_place, .item = it,
			.param = &it->params.at[i]});
	for (int i = 0; i < it->params.n; i++)
		walk_type(w, it->params.at[i].type, it);
	for (int i = 0; i < it->grid.n; i++)
		define(w, (NameDef){NAME_AXIS, it->grid.at[i].name, it->grid.at[i].name_place, .item = it});
	for (int i = 0; i < it->ctparams.n; i++)
		walk_expr(w, it->ctparams.at[i].value, false);
	for (int i = 0; i < it->params.n; i++)
		walk_expr(w, it->params.at[i].fill, false);
	for (int i = 0; i < it->grid.n; i++)
		walk_expr(w, it->grid.at[i].count, false);
	for (int i = 0; i < it->tune.n; i++) {
		name_used(w, it->tune.at[i].name, it->tune.at[i].name_place, false);
		walk_list(w, &it->tune.at[i].values);
	}
	walk_list(w, &it->where);
	leave(w, mark, it->place);
	h.last = w->names->defs.n;
	vec_push(w->mem, &w->headers, h);
}

/* Brings a kernel's header back into scope; false: there is no such kernel. */
static bool
enter_header(Walk *w, const char *kernel)
{
	for (int i = 0; i < w->headers.n; i++) {
		const Header *h = &w->headers.at[i];
		for (int k = h->first; h->kernel->name == kernel && k < h->last; k++)
			if (w->names->defs.at[k].kind != NAME_ARGUMENT)
				vec_push(w->mem, &w->seen, k);
		if (h->kernel->name == kernel)
			return true;
	}
	return false;
}

static void
walk_fn(Walk *w, const Item *it)
{
	for (int i = 0; i < it->params.n; i++) {
		walk_type(w, it->params.at[i].type, it);
		define(w, (NameDef){NAME_ARGUMENT, it->params.at[i].name, it->params.at[i].name_place, .item = it,
			.param = &it->params.at[i]});
	}
	for (int i = 0; i < it->results.n; i++)
		walk_type(w, it->results.at[i].type, it);
}

static void
walk_item(Walk *w, const Item *it)
{
	int mark = w->seen.n, defined;
	bool is_of_kernel = it->kind >= ITEM_REFERENCE;
	if (is_of_kernel)
		name_used(w, it->name, it->name_place, false);
	if (it->kind == ITEM_KERNEL || is_of_kernel)
		enter_header(w, it->name);
	defined = w->seen.n;
	if (it->kind == ITEM_FN)
		walk_fn(w, it);
	walk_expr(w, it->e, false);
	walk_body(w, &it->body, it);
	walk_list(w, &it->facts);
	leave(w, it->kind == ITEM_FN ? mark : defined, it->place);
	w->seen.n = mark;
}

static bool
is_new(Walk *w, FileList *files, int file)
{
	for (int i = 0; i < files->n; i++)
		if (files->at[i] == file)
			return false;
	vec_push(w->mem, files, file);
	return true;
}

static void
define_items(Walk *w, const Ast *ast, FileList *files)
{
	static const NameKind kind[] = {[ITEM_CONST] = NAME_CONST, [ITEM_FN] = NAME_FN, [ITEM_KERNEL] = NAME_KERNEL};
	for (int i = 0; i < ast->items.n; i++) {
		const Item *it = ast->items.at[i];
		if (it->kind == ITEM_IMPORT && it->imported && is_new(w, files, it->imported->file))
			define_items(w, it->imported, files);
		if (it->kind == ITEM_CONST || it->kind == ITEM_FN || it->kind == ITEM_KERNEL)
			define(w, (NameDef){kind[it->kind], it->name, it->name_place, .item = it});
	}
}

static void
define_headers(Walk *w, const Ast *ast, FileList *files)
{
	for (int i = 0; i < ast->items.n; i++) {
		const Item *it = ast->items.at[i];
		if (it->kind == ITEM_IMPORT && it->imported && is_new(w, files, it->imported->file))
			define_headers(w, it->imported, files);
		else if (it->kind == ITEM_KERNEL)
			define_header(w, it);
	}
}

static int
by_place(const void *a, const void *b)
{
	return place_order(((const NameUse *)a)->place, ((const NameUse *)b)->place);
}

void
names_find(const Ast *ast, Arena *mem, Names *out)
{
	Walk w = {.names = out, .mem = mem, .file = ast->file};
	FileList items = {0}, headers = {0};
	define_items(&w, ast, &items);
	define_headers(&w, ast, &headers);
	for (int i = 0; i < ast->items.n; i++)
		walk_item(&w, ast->items.at[i]);
	if (out->uses.n)
		qsort(out->uses.at, (size_t)out->uses.n, sizeof *out->uses.at, by_place);
}
