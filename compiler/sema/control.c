/* Branches, loops and the removal of `return`.
 *
 * The tile IR is structured: an `if` or loop gives what the variables assigned inside came to.  Branches are
 * elaborated first and the results are those variables that changed; loops must know before, so they carry every
 * variable that their text assigns.
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

#include <string.h>

static Frame *
frame(Elab *e)
{
	return e->stmt->frame;
}

static void
add_binding(Elab *e, BindingList *list, Binding *b)
{
	for (int i = 0; i < list->n; i++)
		if (list->at[i] == b)
			return;
	if (b && !val_is_poison(&b->val))
		vec_push(e->cx->mem, list, b);
}

/* The hidden variables that a return inside may set. */
static void
add_hidden(Elab *e, BindingList *list)
{
	add_binding(e, list, frame(e)->slot);
	if (!frame(e)->tail)
		add_binding(e, list, frame(e)->done);
}

/* From here on `done` is needed: something follows that a return must skip. */
static void
need_done(Elab *e)
{
	Frame *f = frame(e);

	if (f->discover || f->done)
		return;
	Val no = val_tile(e->b.place, build_int(&e->b, type_scalar(e->m, TY_BOOL), 0));
	Binding *b = NEW(e->cx->mem, Binding);
	*b = (Binding){.name = " done", .place = NOWHERE, .val = no, .is_var = true};
	f->done = b;
}

static Val *
save_vals(Elab *e, const BindingList *list)
{
	Val *v = NEW_ARRAY(e->cx->mem, Val, list->n);

	for (int i = 0; i < list->n; i++)
		v[i] = list->at[i]->val;
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
	for (int i = 0; i < a->n; i++)
		if (!same_val(e, &a->items[i], &b->items[i]))
			return false;
	return true;
}

/* Room for the flattened values of carried variables; false (reported) if there are too many. */
static bool
flatten_all(Elab *e, const Val *v, int n, Value **out, int *count, Place at)
{
	*count = 0;
	for (int i = 0; i < n; i++) {
		int got = val_flatten(e, &v[i], out + *count, MAX_CARRIED - *count);
		if (got < 0) {
			diag_error(e->cx, at, DIAG_CARRIED_LIMIT, MAX_CARRIED);
			return false;
		}
		*count += got;
	}
	return true;
}

/* Makes the `if` op once both branches are known and gives the variables that changed their new values. */
static void
join_branches(Elab *e, Value *cond, Block *then, const Val *tv, Block *els, const Val *ev, const BindingList *vars,
    const Val *old, Place at)
{
	Value **a = NEW_ARRAY(e->cx->tmp, Value *, MAX_CARRIED), **b = NEW_ARRAY(e->cx->tmp, Value *, MAX_CARRIED);
	Val *then_v = NEW_ARRAY(e->cx->tmp, Val, vars->n), *else_v = NEW_ARRAY(e->cx->tmp, Val, vars->n);
	Binding **which = NEW_ARRAY(e->cx->tmp, Binding *, vars->n);
	int n = 0, count, count2, from = 0;

	for (int i = 0; i < vars->n; i++) {
		vars->at[i]->val = old[i];
		if (same_val(e, &tv[i], &old[i]) && same_val(e, &ev[i], &old[i]))
			continue;
		which[n] = vars->at[i];
		then_v[n] = tv[i];
		else_v[n++] = ev[i];
	}
	if (!flatten_all(e, then_v, n, a, &count, at) || !flatten_all(e, else_v, n, b, &count2, at))
		return;
	e->b.place = at;
	Op *op = region_if(e, cond, then, a, els, b, count);
	Value **out = NEW_ARRAY(e->cx->tmp, Value *, count);
	for (int i = 0; i < count; i++)
		out[i] = &op->out[i];
	for (int i = 0; i < n; i++) {
		int first = from;
		which[i]->val = val_rebuild(e, &which[i]->val, out, &from);
		if (from == first + 1 && which[i]->name[0] != ' ')
			out[first]->name = which[i]->name;
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
	Frame *f = frame(e);

	return (DoneState){f->done, f->done ? f->done->val : val_poison(NOWHERE)};
}

static void
done_restore(Elab *e, const DoneState *d)
{
	Frame *f = frame(e);

	f->done = d->done;
	if (f->done && f->tail)
		f->done->val = d->val;
}

/* A branch in a scope of its own, then perhaps the rest of the list around it, in that list's scope. */
static bool
run_branch(Elab *e, const StmtList *body, const StmtList *rest, int from, Region *r)
{
	DoneState done = done_save(e);

	*r = region_begin(e, NULL, 0);
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

	scan_assigned(e, &s->body, 0, &vars);
	scan_assigned(e, &s->orelse, 0, &vars);
	if (in_then || in_else)
		scan_assigned(e, in_then ? in_then : in_else, from, &vars);
	if (stmt_returns(s) || in_then || in_else)
		add_hidden(e, &vars);
	Val *old = save_vals(e, &vars);
	bool ended = run_branch(e, &s->body, in_then, from, &then);
	Val *tv = save_vals(e, &vars);
	restore_vals(&vars, old);
	ended &= run_branch(e, &s->orelse, in_else, from, &els);
	Val *ev = save_vals(e, &vars);
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
bool
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
	Frame *f = frame(e);

	if (from >= list->n)
		return false;
	if (!f->done)
		return elab_list(e, list, from);
	BindingList vars = {0};
	Region then, els;
	Value *go = build1(&e->b, OP_NOT, f->done->val.v, NULL);
	scan_assigned(e, list, from, &vars);
	if (scan_returns(list, from))
		add_hidden(e, &vars);
	Val *old = save_vals(e, &vars);
	DoneState done = done_save(e);
	then = region_begin(e, NULL, 0);
	bool ended = elab_list(e, list, from);
	region_end(e, &then);
	done_restore(e, &done);
	Val *tv = save_vals(e, &vars);
	els = region_begin(e, NULL, 0);
	region_end(e, &els);
	join_branches(e, go, then.block, tv, els.block, old, &vars, old, list->at[from]->place);
	return ended;
}

/* A statement that may return, and the statements after it. */
static bool
list_returning(Elab *e, const StmtList *list, int i)
{
	const Stmt *s = list->at[i];
	Frame *f = frame(e);
	bool tail = f->tail, last = i + 1 == list->n, ended = false;

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
	if (s->kind == ST_IF)
		ended = elab_if(e, s, NULL, 0);
	else if (s->kind == ST_BLOCK) {
		scope_push(e);
		ended = elab_list(e, &s->body, 0);
		scope_pop(e);
	} else if (s->kind == ST_FOR && s->is_static)
		ended = elab_static_for(e, s);
	else
		elab_stmt(e, s);
	f->tail = tail;
	return ended ? true : elab_unless_done(e, list, i + 1);
}

bool
elab_list(Elab *e, const StmtList *list, int from)
{
	bool ended = false;

	for (int i = from; i < list->n && !e->stmt->spent; i++) {
		const Stmt *s = list->at[i];
		if (ended) {
			diag_warning(e->cx, s->place, DIAG_UNREACHABLE);
			break;
		}
		if (stmt_may_return(s))
			return list_returning(e, list, i);
		if (s->kind == ST_IF)
			ended = elab_if(e, s, NULL, 0);
		else if (s->kind == ST_FOR && s->is_static)
			ended = elab_static_for(e, s);
		else if (s->kind == ST_BLOCK) {
			scope_push(e);
			ended = elab_list(e, &s->body, 0);
			scope_pop(e);
		} else {
			elab_stmt(e, s);
			ended = s->kind == ST_RETURN;
		}
	}
	return ended;
}

/* The loop's bounds as lo, hi, step; false after an error. */
static bool
range_vals(Elab *e, const Stmt *s, Val out[3])
{
	bool ok = s->range.n >= 1 && s->range.n <= 3;
	Val v[3];

	for (int i = 0; i < s->range.n && i < 3; i++) {         /* the parser saw to 1 to 3 */
		v[i] = elab_expr(e, s->range.at[i]);
		ok &= !val_is_poison(&v[i]);
	}
	if (!ok)
		return false;
	out[0] = s->range.n == 1 ? val_int(v[0].place, 0) : v[0];
	out[1] = s->range.n == 1 ? v[0] : v[1];
	out[2] = s->range.n == 3 ? v[2] : val_int(s->place, 1);
	if (out[2].kind == VAL_INT && out[2].i == 0) {
		diag_error(e->cx, out[2].place, DIAG_RANGE_STEP);
		return false;
	}
	return true;
}

/* A loop's body with the carried variables bound to the region's arguments from `first` on; yields them. */
static void
run_loop_body(Elab *e, const Stmt *s, Block *body, int first, const BindingList *vars, const Val *shape)
{
	Region r = {.outer = e->b, .block = body};
	Value **v = NEW_ARRAY(e->cx->mem, Value *, MAX_CARRIED);
	Frame *f = frame(e);
	int at = 0, n;

	for (int i = 0; i < body->narg - first; i++)
		v[i] = &body->arg[first + i];
	for (int i = 0; i < vars->n; i++) {
		int was = at;
		vars->at[i]->val = val_rebuild(e, &shape[i], v, &at);
		if (at == was + 1 && vars->at[i]->name[0] != ' ')
			v[was]->name = vars->at[i]->name;
	}
	e->b.block = body;
	e->b.before = NULL;
	scope_push(e);
	if (s->kind == ST_FOR && s->names.n > 0) {
		body->arg[0].name = s->names.at[0].name;
		scope_add(e, s->names.at[0].name, s->names.at[0].place,
		    val_tile(s->names.at[0].place, &body->arg[0]), false)->what = "a loop's counter";
	}
	if (s->kind == ST_FOR && f->done && stmt_returns(s))
		elab_unless_done(e, &s->body, 0);
	else
		elab_list(e, &s->body, 0);
	scope_pop(e);
	Val *now = save_vals(e, vars);
	if (flatten_all(e, now, vars->n, v, &n, s->place))
		build_yield(&e->b, v, n);
	region_end(e, &r);
}

/* What a loop carries: variables, their values at entry, and those flattened. */
typedef struct Carried {
	BindingList vars;
	Val *old;
	Value *v[MAX_CARRIED];
	const Type *type[MAX_CARRIED + 1];              /* the index first */
	int n;
} Carried;

static Carried *
carried(Elab *e, const Stmt *s)
{
	Carried *c = NEW(e->cx->mem, Carried);

	scan_assigned(e, &s->body, 0, &c->vars);
	if (stmt_returns(s))
		add_hidden(e, &c->vars);
	c->old = save_vals(e, &c->vars);
	if (!flatten_all(e, c->old, c->vars.n, c->v, &c->n, s->place)) {
		c->vars.n = c->n = 0;
	}
	c->type[0] = type_scalar(e->m, TY_I64);
	for (int i = 0; i < c->n; i++)
		c->type[i + 1] = c->v[i]->type;
	return c;
}

static void
take_results(Elab *e, Carried *c, const Op *op)
{
	Value **out = NEW_ARRAY(e->cx->mem, Value *, c->n);
	int at = 0;

	for (int i = 0; i < c->n; i++)
		out[i] = &op->out[i];
	for (int i = 0; i < c->vars.n; i++) {
		int was = at;
		c->vars.at[i]->val = val_rebuild(e, &c->old[i], out, &at);
		if (at == was + 1 && c->vars.at[i]->name[0] != ' ')
			out[was]->name = c->vars.at[i]->name;
	}
}

void
elab_for(Elab *e, const Stmt *s)
{
	Val range[3];
	static const char *const what[] = {"the start of a range", "the end of a range", "the step of a range"};
	Value **in = NEW_ARRAY(e->cx->mem, Value *, MAX_CARRIED + 3);
	bool ok = range_vals(e, s, range);

	for (int i = 0; i < 3; i++) {
		in[i] = ok ? val_index(e, &range[i], what[i]) : NULL;
		ok &= in[i] != NULL;
	}
	for (int i = 0; i < 3 && !ok; i++)              /* still checks the body */
		in[i] = build_int(&e->b, type_scalar(e->m, TY_I64), 1);
	Carried *c = carried(e, s);
	memcpy(in + 3, c->v, sizeof *in * (size_t)c->n);
	e->b.place = s->place;
	Op *op = op_make_regions(&e->b, OP_FOR, in, 3 + c->n, NULL, 0, NULL, 0, 1);
	Block *body = block_make(e->b.block->func, op, c->type, c->n + 1);
	op->region[0] = body;
	run_loop_body(e, s, body, 1, &c->vars, c->old);
	take_results(e, c, op);
}

/* The condition region of a while loop: the condition, and not yet done. */
static Value *
while_condition(Elab *e, const Stmt *s)
{
	Frame *f = frame(e);

	if (!f->done || !stmt_returns(s)) {
		Val c = elab_expr(e, s->e);
		return val_condition(e, &c);
	}
	Value *done = f->done->val.v;
	Region then = region_begin(e, NULL, 0);
	Value *no = build_int(&e->b, type_scalar(e->m, TY_BOOL), 0);
	region_end(e, &then);
	Region els = region_begin(e, NULL, 0);
	Val c = elab_expr(e, s->e);
	Value *cond = val_condition(e, &c);
	region_end(e, &els);
	return cond ? &region_if(e, done, then.block, &no, els.block, &cond, 1)->out[0] : NULL;
}

void
elab_while(Elab *e, const Stmt *s)
{
	Carried *c = carried(e, s);
	Value **v = NEW_ARRAY(e->cx->mem, Value *, MAX_CARRIED + 1);
	int at = 0;
	Op *op = op_make_regions(&e->b, OP_WHILE, c->v, c->n, NULL, 0, NULL, 0, 2);
	Block *head = block_make(e->b.block->func, op, c->type + 1, c->n);
	Block *body = block_make(e->b.block->func, op, c->type + 1, c->n);
	Region r = {.outer = e->b, .block = head};

	op->region[0] = head;
	op->region[1] = body;
	e->b.block = head;
	e->b.before = NULL;
	for (int i = 0; i < c->n; i++)
		v[i + 1] = &head->arg[i];
	for (int i = 0; i < c->vars.n; i++)
		c->vars.at[i]->val = val_rebuild(e, &c->old[i], v + 1, &at);
	v[0] = while_condition(e, s);
	if (!v[0])
		v[0] = build_int(&e->b, type_scalar(e->m, TY_BOOL), 0);
	build_yield(&e->b, v, c->n + 1);
	region_end(e, &r);
	run_loop_body(e, s, body, 0, &c->vars, c->old);
	take_results(e, c, op);
}

/* The trips of an unrolled loop from `i` on.  After a trip that may have returned the rest stands under a guard. */
static bool
unroll(Elab *e, const Stmt *s, int64_t i, int64_t end, int64_t step)
{
	for (; step > 0 ? i < end : i > end; i += step) {
		if (e->stmt->spent)
			return false;
		scope_push(e);
		if (s->names.n > 0)
			scope_add(e, s->names.at[0].name, s->names.at[0].place,
			    val_int(s->names.at[0].place, i), false)->what = "a loop's counter";
		e->stmt->steps++;
		bool ended = frame(e)->done && stmt_may_return(s) ? elab_unless_done(e, &s->body, 0)
								  : elab_list(e, &s->body, 0);
		scope_pop(e);
		if (ended)
			return true;
		if (__builtin_add_overflow(i, step, &(int64_t){0}))
			break;
	}
	return false;
}

bool
elab_static_for(Elab *e, const Stmt *s)
{
	Val range[3];
	int64_t at[3];
	static const char *const what[] = {"the start of a 'static for'", "the end of a 'static for'",
		"the step of a 'static for'"};

	if (!range_vals(e, s, range))
		return false;
	for (int i = 0; i < 3; i++)
		if (!val_const_int(e, &range[i], what[i], &at[i]))
			return false;
	return unroll(e, s, at[0], at[1], at[2]);
}
