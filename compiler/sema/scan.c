/* What statements do, seen from their text alone: which variables of the surroundings they assign (a loop must
 * carry those before its body is elaborated) and where they return.  Both may say too much, never too little. */
#include "sema/elab.h"

static bool
returns_when(const Stmt *s, bool only_dynamic)
{
	bool here = scan_returns(&s->body, 0) || scan_returns(&s->orelse, 0);

	switch (s->kind) {
	case ST_RETURN: return !only_dynamic;
	case ST_IF:
	case ST_FOR:
	case ST_WHILE:
		if (!s->is_static || !only_dynamic)
			return here;
		break;
	case ST_BLOCK: break;
	default: return false;
	}
	for (int i = 0; i < s->body.n; i++)
		if (returns_when(s->body.at[i], only_dynamic))
			return true;
	for (int i = 0; i < s->orelse.n; i++)
		if (returns_when(s->orelse.at[i], only_dynamic))
			return true;
	return false;
}

bool
stmt_returns(const Stmt *s)
{
	return returns_when(s, false);
}

bool
stmt_may_return(const Stmt *s)
{
	return returns_when(s, true);
}

bool
scan_returns(const StmtList *list, int from)
{
	for (int i = from; i < list->n; i++)
		if (stmt_returns(list->at[i]))
			return true;
	return false;
}

static bool
stmt_ends(const Stmt *s)
{
	if (s->kind == ST_RETURN)
		return true;
	if (s->kind == ST_BLOCK)
		return scan_ends(&s->body);
	return s->kind == ST_IF && s->has_else && scan_ends(&s->body) && scan_ends(&s->orelse);
}

bool
scan_ends(const StmtList *list)
{
	for (int i = 0; i < list->n; i++)
		if (stmt_ends(list->at[i]))
			return true;
	return false;
}

static void
add_name(Elab *e, const char *name, BindingList *out)
{
	Binding *b = scope_find(e, name);

	if (!b || !b->is_var || val_is_poison(&b->val))
		return;
	for (int i = 0; i < out->n; i++)
		if (out->at[i] == b)
			return;
	vec_push(e->cx->mem, out, b);
}

static void
add_target(Elab *e, const Expr *t, BindingList *out)
{
	if (t->kind == EX_INDEX && t->a)                /* t[i] = v gives t a new value, if t is a tile */
		t = t->a;
	if (t->kind == EX_NAME)
		add_name(e, t->name, out);
	for (int i = 0; t->kind == EX_TUPLE && i < t->items.n; i++)
		add_target(e, t->items.at[i], out);
}

void
scan_assigned(Elab *e, const StmtList *list, int from, BindingList *out)
{
	for (int i = from; i < list->n; i++) {
		const Stmt *s = list->at[i];
		if (s->kind == ST_ASSIGN && s->target)
			add_target(e, s->target, out);
		scan_assigned(e, &s->body, 0, out);
		scan_assigned(e, &s->orelse, 0, out);
	}
}
