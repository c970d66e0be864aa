/* What statements do, seen from their text alone: which variables of the surroundings they assign (a loop must
 * carry those before its body is elaborated) and whether lists of them return.  Both are conservative: they may
 * include too much, never too little. */
#include "sema/elab.h"

bool
scan_returns(const StmtList *list, int from)
{
	return ANY_FROM(i, from, list->n, list->at[i]->returns);
}

bool
scan_ends(const StmtList *list)
{
	return ANY_OF(i, list->n, list->at[i]->ends);
}

static void
add_target(Elab *e, const Expr *t, BindingList *out)
{
	if (t->kind == EX_INDEX && t->a)                /* t[i] = v gives t a new value, if t is a tile */
		t = t->a;
	Binding *b = t->kind == EX_NAME ? scope_find(e, t->name) : NULL;
	if (b && b->is_var)
		bindings_add(e, out, b);
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
