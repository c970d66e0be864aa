/* Where statements return, seen from their text alone: computed once, from the bottom up, as each statement joins its
 * list.  It is conservative: it may include too much, never too little. */
#include "ast/parser.h"

typedef struct Returns {
	bool any, dynamic, ends;
} Returns;

static Returns
list_returns(const StmtList *list)
{
	Returns r = {0};
	for (int i = 0; i < list->n; i++) {
		const Stmt *s = list->at[i];
		r.any |= s->returns;
		r.dynamic |= s->may_return;
		r.ends |= s->ends;
	}
	return r;
}

void
stmt_note_returns(Stmt *s)
{
	Returns body = list_returns(&s->body), orelse = list_returns(&s->orelse);
	bool any = body.any || orelse.any, dynamic = body.dynamic || orelse.dynamic;
	switch (s->kind) {
	case ST_RETURN:
		s->returns = s->ends = true;
		return;
	case ST_IF:
		s->ends = s->has_else && body.ends && orelse.ends;
		break;
	case ST_BLOCK:
		s->ends = body.ends;
		break;
	case ST_FOR:
	case ST_WHILE: break;
	default: return;
	}
	s->returns = any;
	s->may_return = s->kind == ST_BLOCK || s->is_static ? dynamic : any;
}
