/* Branches and the removal of `return`.
 *
 * The tile IR is structured: an `if` gives what the variables assigned inside came to.  Branches are elaborated
 * first and the results are those variables that changed.
 *
 * `return` under a run-time condition goes away in one of two forms.  Where one branch of an `if` surely returns
 * and the other does not, the rest of the list moves into the other branch:
 *
 *     if c { return a; }  rest          becomes        if c { r = a } else { rest }
 *
 * Elsewhere (loops, branches that may or may not return) a hidden variable `done` is set by the return, and what
 * follows stands under `if !done`.  A loop's body does too, and a while loop's condition asks for it first.
 * Hidden variables are carried like others; `frame->tail` says that nothing follows, so that `done` need not be. */
#include "sema/elab.h"

Frame *
frame_of(Elab *e)
{
	return e->stmt->frame;
}

void
bindings_add(Elab *e, BindingList *list, Binding *b)
{
	for (int i = 0; i < list->n; i++)
		if (list->at[i] == b)
			return;
	if (b && !val_is_poison(&b->val))
		vec_push(e->cx->mem, list, b);
}

void
scan_hidden(Elab *e, BindingList *list)
{
	bindings_add(e, list, frame_of(e)->slot);
	if (!frame_of(e)->tail)
		bindings_add(e, list, frame_of(e)->done);
}

/* From here on `done` is needed: something follows that a return must skip. */
static void
need_done(Elab *e)
{
	Frame *f = frame_of(e);

	if (f->discover || f->done)
		return;
	Val no = val_tile(e->b.place, build_int(&e->b, type_scalar(e->m, TY_BOOL), 0));
	Binding *b = NEW(e->cx->mem, Binding);
	*b = (Binding){.name = " done", .place = NOWHERE, .val = no, .is_var = true};
	f->done = b;
}

Val *
bindings_save(Elab *e, const BindingList *list)
{
	Val *v = MAP_OF(e->cx->mem, Val, i, list->n, list->at[i]->val);
	return v;
}

static void
restore_vals(const BindingList *list, const Val *v)
{
	for (int i = 0; i < list->n; i++)
		list->at[i]->val = v[i];
}

static bool
same_val(Elab *e, const Val *a, const Val *b)
{
	if (a->kind == VAL_TILE && b->kind == VAL_TILE)
		return a->v == b->v;
	if (a->kind != VAL_TUPLE || b->kind != VAL_TUPLE || a->n != b->n)
		return false;
	return ALL_OF(i, a->n, same_val(e, &a->items[i], &b->items[i]));
}

static int
count_tiles(const Val *v)
{
	int n = v->kind != VAL_TUPLE;

	for (int i = 0; v->kind == VAL_TUPLE && i < v->n; i++)
		n += count_tiles(&v->items[i]);
	return n;
}

bool
vals_flatten(Elab *e, const Val *v, int n, Flat *out, Place at)
{
	int count = 0;

	*out = (Flat){0};
	for (int i = 0; i < n && count <= MAX_CARRIED; i++)
		count += count_tiles(&v[i]);
	if (count > MAX_CARRIED)
		return diag_error(e->cx, at, DIAG_CARRIED_LIMIT, MAX_CARRIED);
	out->v = NEW_ARRAY(e->cx->mem, Value *, count);
	for (int i = 0; i < n; i++) {
		int got = val_flatten(e, &v[i], out->v + out->n, count - out->n);
		if (got < 0)
			unreachable();
		out->n += got;
	}
	return true;
}

/* Makes the `if` op once both branches are known and gives the variables that changed their new values. */
static void
join_branches(Elab *e, Value *cond, Block *then, const Val *tv, Block *els, const Val *ev, const BindingList *vars,
    const Val *old, Place at)
{
	Val *then_v = NEW_ARRAY(e->cx->mem, Val, vars->n), *else_v = NEW_ARRAY(e->cx->mem, Val, vars->n);
	BindingList changed = {0};
	Flat a, b;

	for (int i = 0; i < vars->n; i++) {
		vars->at[i]->val = old[i];
		if (same_val(e, &tv[i], &old[i]) && same_val(e, &ev[i], &old[i]))
			continue;
		then_v[changed.n] = tv[i];
		else_v[changed.n] = ev[i];
		vec_push(e->cx->mem, &changed, vars->at[i]);
	}
	if (!vals_flatten(e, then_v, changed.n, &a, at) || !vals_flatten(e, else_v, changed.n, &b, at))
		return;
	e->b.place = at;
	Op *op = region_if(e, cond, then, a.v, els, b.v, a.n);
	bindings_take(e, &changed, op->out);
}

void
bindings_take(Elab *e, const BindingList *vars, Value *from)
{
	int next = 0;

	for (int i = 0; i < vars->n; i++) {
		Binding *b = vars->at[i];
		int first = next;
		b->val = val_rebuild(e, &b->val, from, &next);
		if (next == first + 1 && b->name[0] != ' ')
			from[first].name = b->name;
	}
}

/* `done` as it was when a region began.  A region may make it or, where nothing follows, set it without its being
 * carried; neither is seen outside. */
typedef struct DoneState {
	Binding *done;
	Val val;
} DoneState;

static DoneState
done_save(Elab *e)
{
	Frame *f = frame_of(e);

	return (DoneState){f->done, f->done ? f->done->val : val_poison(NOWHERE)};
}

static void
done_restore(Elab *e, const DoneState *d)
{
	Frame *f = frame_of(e);

	f->done = d->done;
	if (f->done && f->tail)
		f->done->val = d->val;
}

/* A branch in a scope of its own, then perhaps the rest of the list around it, in that list's scope. */
static bool
run_branch(Elab *e, const StmtList *body, const StmtList *rest, int from, Region *r)
{
	DoneState done = done_save(e);

	*r = region_begin(e);
	scope_push(e);
	bool ended = elab_list(e, body, 0);
	scope_pop(e);
	if (rest && !ended)
		ended = elab_list(e, rest, from);
	region_end(e, r);
	done_restore(e, &done);
	return ended;
}

/* `if cond body else orelse`; `in_then`, `in_else`: the list whose rest goes on inside that branch. */
static bool
branch(Elab *e, Value *cond, const Stmt *s, const StmtList *in_then, const StmtList *in_else, int from)
{
	BindingList vars = {0};
	Region then, els;

	if (!elab_enter(e, s->place))
		return false;
	scan_assigned(e, &s->body, 0, &vars);
	scan_assigned(e, &s->orelse, 0, &vars);
	if (in_then || in_else)
		scan_assigned(e, in_then ? in_then : in_else, from, &vars);
	if (s->returns || in_then || in_else)
		scan_hidden(e, &vars);
	Val *old = bindings_save(e, &vars);
	bool ended = run_branch(e, &s->body, in_then, from, &then);
	Val *tv = bindings_save(e, &vars);
	restore_vals(&vars, old);
	ended &= run_branch(e, &s->orelse, in_else, from, &els);
	Val *ev = bindings_save(e, &vars);
	e->depth--;
	if (!cond) {
		restore_vals(&vars, old);
		return ended;
	}
	join_branches(e, cond, then.block, tv, els.block, ev, &vars, old, s->place);
	return ended;
}

static bool
static_if(Elab *e, const Stmt *s)
{
	Val c = elab_expr(e, s->e);
	bool yes;

	if (!val_const_bool(e, &c, "the condition of 'static if'", &yes))
		return false;
	scope_push(e);
	bool ended = elab_list(e, yes ? &s->body : &s->orelse, 0);
	scope_pop(e);
	return ended;
}

/* One `if`; the rest of its list (from `from`) is consumed too if a return made it part of a branch, and is then
 * empty for the caller. */
static bool
elab_if(Elab *e, const Stmt *s, const StmtList *rest, int from)
{
	if (s->is_static)
		return static_if(e, s);
	Val c = elab_expr(e, s->e);
	Value *cond = val_condition(e, &c);
	const StmtList *in_then = NULL, *in_else = NULL;
	if (rest) {
		bool then_ends = scan_ends(&s->body);
		in_then = then_ends ? NULL : rest;
		in_else = then_ends ? rest : NULL;
	}
	return branch(e, cond, s, in_then, in_else, from);
}

bool
elab_unless_done(Elab *e, const StmtList *list, int from)
{
	Frame *f = frame_of(e);

	if (from >= list->n)
		return false;
	if (!f->done)
		return elab_list(e, list, from);
	if (!elab_enter(e, list->at[from]->place))
		return false;
	BindingList vars = {0};
	Region then, els;
	Value *go = build1(&e->b, OP_NOT, f->done->val.v, NULL);
	scan_assigned(e, list, from, &vars);
	if (scan_returns(list, from))
		scan_hidden(e, &vars);
	Val *old = bindings_save(e, &vars);
	DoneState done = done_save(e);
	then = region_begin(e);
	bool ended = elab_list(e, list, from);
	region_end(e, &then);
	done_restore(e, &done);
	Val *tv = bindings_save(e, &vars);
	els = region_begin(e);
	region_end(e, &els);
	e->depth--;
	join_branches(e, go, then.block, tv, els.block, old, &vars, old, list->at[from]->place);
	return ended;
}

/* One statement; true: every path ended in a return. */
static bool
run_stmt(Elab *e, const Stmt *s)
{
	if (s->kind == ST_IF)
		return elab_if(e, s, NULL, 0);
	if (s->kind == ST_FOR && s->is_static)
		return elab_static_for(e, s);
	if (s->kind == ST_BLOCK) {
		scope_push(e);
		bool ended = elab_list(e, &s->body, 0);
		scope_pop(e);
		return ended;
	}
	elab_stmt(e, s);
	return s->kind == ST_RETURN;
}

/* A statement that may return, and the statements after it. */
static bool
list_returning(Elab *e, const StmtList *list, int i)
{
	const Stmt *s = list->at[i];
	Frame *f = frame_of(e);
	bool tail = f->tail, last = i + 1 == list->n;

	if (s->kind == ST_IF && !s->is_static) {
		bool then_ends = scan_ends(&s->body), else_ends = scan_ends(&s->orelse);
		if (last || then_ends != else_ends || then_ends)
			return elab_if(e, s, last || (then_ends && else_ends) ? NULL : list, i + 1);
	}
	bool loop = s->kind == ST_FOR || s->kind == ST_WHILE;
	if (!last || loop) {
		f->tail = false;
		need_done(e);
	}
	bool ended = run_stmt(e, s);
	f->tail = tail;
	return ended ? true : elab_unless_done(e, list, i + 1);
}

bool
elab_list(Elab *e, const StmtList *list, int from)
{
	bool ended = false;

	for (int i = from; i < list->n && !e->stmt->spent; i++) {
		const Stmt *s = list->at[i];
		if (ended) {                            /* a static return may well leave something behind it */
			if (list->at[i - 1]->kind == ST_RETURN)
				diag_warning(e->cx, s->place, DIAG_UNREACHABLE);
			break;
		}
		if (s->may_return)
			return list_returning(e, list, i);
		ended = run_stmt(e, s);
	}
	return ended;
}
