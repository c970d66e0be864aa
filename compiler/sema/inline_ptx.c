/* The guard of inline_ptx, seen from the text alone: in a kernel it stands under a `static if` that has an else, so
 * that every device but the PTX ones has something to run.  Which branch is taken is the elaborator's business; there,
 * an inline_ptx that is reached on another target is the same error.  A fn may hold one without a guard of its own,
 * as its callers have theirs. */
#include "sema/builtin/builtin.h"

#include <string.h>

static void find_in_list(Compile *cx, const StmtList *list, bool guarded);

static void
find_in_expr(Compile *cx, const Expr *x, bool guarded)
{
	if (!x || guarded)
		return;
	if (x->kind == EX_CALL && x->a->kind == EX_NAME && strcmp(x->a->name, "inline_ptx") == 0) {
		diag_error(cx, x->place, DIAG_PTX_GUARD);
		diag_help(cx, "what stands in the else runs on every other device");
		return;
	}
	for (int i = 0; i < expr_children(x); i++)
		find_in_expr(cx, expr_child(x, i), guarded);
}

static void
find_in_stmt(Compile *cx, const Stmt *s, bool guarded)
{
	bool inside = guarded || (s->kind == ST_IF && s->is_static && s->has_else);
	find_in_expr(cx, s->e, guarded);
	find_in_expr(cx, s->target, guarded);
	find_in_list(cx, &s->body, inside);
	find_in_list(cx, &s->orelse, inside);
}

static void
find_in_list(Compile *cx, const StmtList *list, bool guarded)
{
	for (int i = 0; i < list->n; i++)
		find_in_stmt(cx, list->at[i], guarded);
}

void
ptx_check(Compile *cx, const Item *kernel)
{
	find_in_list(cx, &kernel->body, false);
}
