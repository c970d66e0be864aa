/* Calls of a `fn`: each is checked and inlined where it stands.
 *
 * A body whose returns all stand on a straight line (static conditions aside) gives its result as it is, so that
 * constants stay constants.  If a return stands under a run-time condition, the body is walked twice: once muted
 * into a block that is thrown away, to learn the types of the results, then in earnest with a hidden variable of
 * those types (control.c removes the returns). */
#include "sema/elab.h"

/* One call being bound: the parameters of a named fn or of one in place. */
typedef struct CallFrame {
	const char *name;
	const ParamList *params;
	Place at;
	bool is_in_place;
} CallFrame;

static const char *
param_list(Elab *e, const CallFrame *c)
{
	Text t = {0};

	text_printf(&t, "%s(", c->is_in_place ? "fn" : c->name);
	for (int i = 0; i < c->params->n; i++)
		text_printf(&t, "%s%s", i ? ", " : "", c->params->at[i].name);
	text_put(&t, ")");
	return text_take(&t, e->cx->mem);
}

static int
param_named(const ParamList *params, const char *name)
{
	return FIRST_OF(i, params->n, params->at[i].name == name);
}

static void
unknown_param(Elab *e, const CallFrame *c, const CallArg *arg)
{
	const char **names = MAP_OF(e->cx->mem, const char *, i, c->params->n, c->params->at[i].name);
	diag_error(e->cx, arg->name_place, DIAG_PARAM_UNKNOWN, c->name, arg->name);
	const char *near = nearest_name(arg->name, names, c->params->n);
	if (near)
		diag_help(e->cx, "did you mean '%s'?", near);
	else
		diag_help(e->cx, "its parameters are %s", param_list(e, c));
}

/* Which argument each parameter gets, -1 for none; false after an error. */
static bool
match_args(Elab *e, const CallFrame *c, const CallArg *named, int n, int *from)
{
	bool ok = true;
	int next = 0;

	for (int p = 0; p < c->params->n; p++)
		from[p] = -1;
	for (int i = 0; i < n; i++) {
		int p = named && named[i].name ? param_named(c->params, named[i].name) : next++;
		if (p < 0) {
			unknown_param(e, c, &named[i]);
			ok = false;
		} else if (p >= c->params->n) {
			diag_error(e->cx, named ? named[i].place : c->at, DIAG_PARAM_COUNT, c->name,
			    c->params->n, c->params->n == 1 ? "" : "s", n);
			return diag_help(e->cx, "its parameters are %s", param_list(e, c));
		} else if (from[p] >= 0) {
			diag_error(e->cx, named ? named[i].place : c->at, DIAG_PARAM_TWICE, c->name,
			    c->params->at[p].name);
			ok = false;
		} else {
			from[p] = i;
		}
	}
	for (int p = 0; p < c->params->n && ok; p++) {
		if (from[p] >= 0 || c->params->at[p].fill)
			continue;
		diag_error(e->cx, c->at, DIAG_PARAM_MISSING, c->name, c->params->at[p].name);
		diag_help(e->cx, "its parameters are %s", param_list(e, c));
		ok = false;
	}
	return ok;
}

static bool
bind_params(Elab *e, const CallFrame *c, const Val *args, const CallArg *named, int n)
{
	int *from = NEW_ARRAY(e->cx->mem, int, c->params->n);
	bool ok = match_args(e, c, named, n, from);

	for (int p = 0; p < c->params->n; p++) {
		const Param *param = &c->params->at[p];
		Val v = val_poison(c->at);
		if (from[p] >= 0)
			v = args[from[p]];
		else if (param->fill)
			v = elab_expr(e, param->fill);
		if (from[p] >= 0 && named)
			v.place = named[from[p]].place;
		if (!param_check(e, param, c->name, &v))
			v = val_poison(v.place);
		if (param->name[0] != '_' || param->name[1])
			scope_add(e, param->name, param->name_place, v, false)->what = "a parameter";
	}
	return ok;
}

/* The type that two returned values have in common, as a value that carries it; the first one's where they differ,
 * and then the assignment of the second reports it. */
static Val
unify(Elab *e, const Val *a, const Val *b)
{
	if (a->kind == VAL_TUPLE && b->kind == VAL_TUPLE && a->n == b->n) {
		Val v = val_tuple(e, a->place, a->items, a->n);
		for (int i = 0; i < a->n; i++)
			v.items[i] = unify(e, &a->items[i], &b->items[i]);
		return v;
	}
	if (val_is_const(a) && val_is_const(b))
		return b->kind == VAL_FLOAT && val_is_int(a) ? *b : *a;
	if (val_is_const(a) && b->kind == VAL_TILE)
		return *b;
	if (a->kind == VAL_TILE && b->kind == VAL_TILE && a->v->type->rank == 0 && b->v->type->rank > 0 &&
	    a->v->type->elem == b->v->type->elem)
		return *b;
	return *a;
}

/* Results may still have uses in blocks that an error left unfinished, which stand nowhere. */
static void
erase_block(Block *b)
{
	for (Op *op; (op = b->last) != NULL; op_erase(op)) {
		for (int r = 0; r < op->nregion; r++)
			if (op->region[r])
				erase_block(op->region[r]);
		for (int i = 0; i < op->nout; i++)
			op->out[i].nuses = 0;
	}
}

static bool
zero_like(Elab *e, const Item *fn, const Val *v, Val *out)
{
	*out = *v;
	if (v->kind == VAL_TUPLE) {
		*out = val_tuple(e, v->place, v->items, v->n);
		return ALL_OF(i, v->n, zero_like(e, fn, &v->items[i], &out->items[i]));
	}
	if (!val_is_number(v)) {
		if (v->kind != VAL_POISON) {
			diag_error(e->cx, v->place, DIAG_RETURN_KIND, fn->name, val_describe(e, v));
			diag_help(e->cx, "use 'static if', or return it on every path at the end");
		}
		return false;
	}
	const Type *t = val_type(e, v);
	*out = val_tile(fn->name_place, build_int(&e->b, t, 0));
	return true;
}

/* Walks the body once, muted, for the types that it returns; makes the hidden variable for them.  False: there is
 * no such type (then nothing was reported unless the second walk cannot report it). */
static bool
discover(Elab *e, Frame *f)
{
	Region scratch = region_begin(e);
	Scope *scope = e->scope;
	bool spent = e->stmt->spent;

	f->discover = true;
	e->cx->muted++;
	scope_push(e);
	elab_list(e, &f->fn->body, 0);
	e->scope = scope;
	e->cx->muted--;
	f->discover = false;
	e->stmt->spent = spent;
	region_end(e, &scratch);
	Val type = {.kind = VAL_POISON, .place = f->fn->name_place}, zero;
	for (int i = 0; i < f->returns.n; i++) {
		const Val *v = &f->returns.at[i];
		if (v->kind != VAL_POISON)
			type = type.kind == VAL_POISON ? *v : unify(e, &type, v);
	}
	bool ok = type.kind == VAL_VOID || zero_like(e, f->fn, &type, &zero);
	if (ok && type.kind != VAL_VOID) {
		f->slot = NEW(e->cx->mem, Binding);
		*f->slot = (Binding){.name = " result", .place = f->fn->name_place, .val = zero, .is_var = true};
	}
	erase_block(scratch.block);
	return ok;
}

static Val
run_body(Elab *e, const Item *fn, Place at)
{
	Frame f = {.up = e->stmt->frame, .fn = fn, .base = e->scope, .tail = true};
	bool dynamic = false, ok = true;

	f.result = (Val){.kind = VAL_VOID, .place = at};
	dynamic |= ANY_OF(i, fn->body.n, fn->body.at[i]->may_return);
	e->stmt->frame = &f;
	if (dynamic)
		ok = discover(e, &f);
	bool ended = false;
	int errors = e->cx->nerrors;
	scope_push(e);
	ended = elab_list(e, &fn->body, 0);
	scope_pop(e);
	e->stmt->frame = f.up;
	if (!ok || e->cx->nerrors != errors)
		return val_poison(at);
	if (!f.slot)
		return f.result;
	if (!ended && !e->cx->muted) {
		diag_error(e->cx, fn->name_place, DIAG_RETURN_MISSING, fn->name);
		diag_help(e->cx, "end it with a 'return' of the same type");
	}
	return ended ? f.slot->val : val_poison(at);
}

static bool
is_running(Elab *e, const Item *fn, Place at)
{
	for (const Frame *f = e->stmt->frame; f; f = f->up) {
		if (f->fn != fn)
			continue;
		diag_error(e->cx, at, DIAG_RECURSION, fn->name);
		diag_help(e->cx, "functions are inlined; write a loop instead");
		diag_note(e->cx, fn->name_place, "'%s' is defined here", fn->name);
		return true;
	}
	return false;
}

/* An arrow function still stands in the chain of frames, for recursion's sake. */
static Val
run_arrow(Elab *e, const Item *fn, const Expr *result)
{
	Frame f = {.up = e->stmt->frame, .fn = fn, .tail = true};

	e->stmt->frame = &f;
	Val v = elab_call_or_expr(e, result);
	e->stmt->frame = f.up;
	return v;
}

/* An error in the call itself needs no note that says which call it was. */
static bool
place_inside(const Place *p, const Place *in)
{
	if (p->file != in->file || p->line < in->line || p->end_line > in->end_line)
		return false;
	return (p->line > in->line || p->col >= in->col) && (p->end_line < in->end_line || p->end_col <= in->end_col);
}

static void
note_called(Program *p, const Item *fn)
{
	for (int i = 0; i < p->called.n; i++)
		if (p->called.at[i] == fn)
			return;
	vec_push(p->cx->mem, &p->called, fn);
}

/* What the ops of a body that is inlined say of where they come from. */
static const CallSite *
call_site(Elab *e, const Item *fn, Place at)
{
	CallSite *c = NEW(e->cx->mem, CallSite);
	*c = (CallSite){at, fn->name};
	c->at.call = e->b.call;
	return c;
}

Val
elab_call_fn(Elab *e, const Val *fn, const Val *args, const CallArg *named, int n, Place at)
{
	if (val_is_poison(fn))
		return val_poison(at);
	if (fn->kind != VAL_FN) {
		diag_error(e->cx, fn->place, DIAG_NOT_A_FUNCTION, val_describe(e, fn));
		if (fn->kind == VAL_TENSOR || fn->kind == VAL_TILE)
			diag_help(e->cx, "elements are taken with [ ]");
		else if (fn->kind == VAL_DTYPE)
			diag_help(e->cx, "to convert a value, write 'x as %s'", dtype_info[fn->dtype].text);
		return val_poison(at);
	}
	const Item *item = fn->fn;
	if (item && is_running(e, item, at))
		return val_poison(at);
	CallFrame c = {item ? item->name : "the function", item ? &item->params : &fn->lambda->params, at, !item};
	Scope *caller = e->scope;
	const Diag *last = e->cx->last;
	e->scope = item ? e->stmt->file : fn->scope;
	scope_push(e);
	bool ok = bind_params(e, &c, args, named, n);
	Val v = val_poison(at);
	const CallSite *outer = e->b.call;
	if (item)
		note_called(e->program, item);
	if (item)
		e->b.call = call_site(e, item, at);
	if (ok && item && !item->is_arrow)
		v = run_body(e, item, at);
	else if (ok)
		v = run_arrow(e, item, item ? item->e : fn->lambda->a);
	if (ok && item && !result_check(e, item, &v))
		v = val_poison(at);
	e->b.call = outer;
	e->scope = caller;
	if (item && e->cx->last != last && !e->cx->muted && ok && !place_inside(&e->cx->last->place, &at))
		diag_note(e->cx, at, "in this call of '%s'", item->name);
	v.place = at;
	return v;
}

void
elab_return(Elab *e, const Stmt *s)
{
	Frame *f = e->stmt->frame;
	Val v = s->e ? elab_call_or_expr(e, s->e) : (Val){.kind = VAL_VOID, .place = s->place};

	if (!f->fn && s->e) {
		diag_error(e->cx, s->e->place, DIAG_RETURN_VALUE);
		diag_help(e->cx, "write results to an 'out' tensor, as in y[i, 0 +: BLOCK] = ...");
	}
	if (f->discover) {
		vec_push(e->cx->mem, &f->returns, v);
		return;
	}
	if (f->slot && v.kind == VAL_VOID)
		diag_error(e->cx, s->place, DIAG_RETURN_NOTHING, f->fn->name);
	else if (f->slot)
		binding_assign(e, f->slot, &v, s->place);
	else
		f->result = v;
	if (!f->tail && f->done)
		f->done->val = val_tile(s->place, build_int(&e->b, type_scalar(e->m, TY_BOOL), 1));
}
