/* Expressions: names, literals, operators, conversions and the choice between a fn and a builtin.
 *
 * Whatever is known at compile time folds exactly and makes no op.  Scalar `&&`, `||` and `?:` evaluate their
 * right side only when needed (short.c).  The builder's place follows the expression at hand, so that every op
 * knows what it came from. */
#include "sema/elab.h"

#include <string.h>

/* Nested expressions and inlined functions (the parser allows a nesting of 1000); errors with a name offered. */
enum { MAX_DEPTH = 1400, MAX_STEPS = 1000000, HINTED = 20 };

typedef struct ConstFrame {
	const struct ConstFrame *up;
	const Item *item;
} ConstFrame;

/* Does it stand for itself wherever it is used? */
static bool
is_lasting(const Val *v)
{
	Const c;
	bool all = v->kind == VAL_LIST && ALL_OF(i, v->n, is_lasting(&v->items[i]));
	return all || v->kind == VAL_POISON || const_of_val(v, &c);
}

/* A top-level constant is evaluated where it is used; what came out weak is kept. */
static Val
const_item(Elab *e, Binding *b, Place at)
{
	const Item *it = b->val.fn;
	ConstFrame frame = {.up = e->stmt->consts, .item = it};
	Scope *saved = e->scope;

	for (const ConstFrame *f = frame.up; f; f = f->up) {
		if (f->item != it)
			continue;
		return val_error(e, it->name_place, DIAG_CONST_CYCLE, it->name);
	}
	e->stmt->consts = &frame;
	e->scope = e->stmt->file;
	Val v = elab_expr(e, it->e);
	e->scope = saved;
	e->stmt->consts = frame.up;
	if (is_lasting(&v))
		b->val = v;
	v.place = at;
	return v;
}

/* A name that the kernel has but its reference cannot see. */
static bool
hidden_in_whole(Elab *e, const char *name)
{
	if (!e->whole || !e->kernel)
		return false;
	const Item *it = e->kernel->item;
	const char *what = NULL;
	for (int i = 0; i < it->grid.n; i++)
		if (it->grid.at[i].name == name)
			what = "grid index";
	if (what)
		diag_error(e->cx, e->b.place, DIAG_NAME_HIDDEN, name, what, it->name);
	return what != NULL;
}

static bool
within(Place part, Place whole)
{
	return part.file == whole.file && (part.line > whole.line || (part.line == whole.line && part.col >= whole.col)) &&
	    (part.end_line < whole.end_line || (part.end_line == whole.end_line && part.end_col <= whole.end_col));
}

/* Is this in a tensor's extent, as P in `k: in f16[cdiv(P, 2)]`?  There P binds nothing. */
static bool
in_extent(const Elab *e, const Expr *x)
{
	for (int i = 0; e->kernel && !e->func && i < e->kernel->params.n; i++) {
		const KernelParam *p = &e->kernel->params.at[i];
		if (p->kind == PARAM_TENSOR &&
		    ANY_OF(d, p->rank, within(x->place, p->ast->type->dims.at[d]->place)))
			return true;
	}
	return false;
}

static Val
unknown_name(Elab *e, const Expr *x)
{
	if (hidden_in_whole(e, x->name)) {
		diag_help(e->cx, "a reference works on whole tensors; use the dimensions' names");
		return val_poison(x->place);
	}
	if (builtin_exists(x->name, NULL)) {
		diag_error(e->cx, x->place, DIAG_OPERATION_NAME, x->name);
		if (e->whole)
			diag_help(e->cx, "call it, as in %s(0, N)", x->name);
		else
			diag_help(e->cx, "call it, or wrap it: fn(a, b) => %s(a, b)", x->name);
		return val_poison(x->place);
	}
	if (program_kernel(e->program, x->name)) {
		diag_error(e->cx, x->place, DIAG_KERNEL_NAME, x->name);
		diag_help(e->cx, "kernels are launched from outside; what they share is a 'fn'");
		return val_poison(x->place);
	}
	if (program_lost(e->program, x->name))
		return val_poison(x->place);
	if (header_tensor(e, x->name) >= 0) {
		diag_error(e->cx, x->place, DIAG_HEADER_TENSOR, x->name);
		diag_help(e->cx, "its dimensions have names; `where`, the grid and the schedule may also say %s.shape(d)",
		    x->name);
		return val_poison(x->place);
	}
	diag_error(e->cx, x->place, DIAG_NAME_UNKNOWN, x->name);
	if (e->cx->nerrors > HINTED)
		return val_poison(x->place);
	const char *near = scope_nearest(e, x->name), *hint = name_hint(x->name);
	if (hint)
		diag_help(e->cx, "%s", hint);
	else if (near)
		diag_help(e->cx, "did you mean '%s'?", near);
	if (in_extent(e, x))
		diag_note(e->cx, x->place,
		    "an expression names no size: let '%s' stand alone among some tensor's dimensions, or be a scalar, "
		    "'%s: i64'", x->name, x->name);
	return val_poison(x->place);
}

static Val
elab_name(Elab *e, const Expr *x)
{
	if (x->scope)
		return val_error(e, x->place, DIAG_SCOPED_NAME, x->scope, x->name);
	Binding *b = scope_find(e, x->name);
	if (!b)
		return unknown_name(e, x);
	Val v = b->val.kind == VAL_FN && b->val.fn && b->val.fn->kind == ITEM_CONST
	    ? const_item(e, b, x->place) : b->val;
	v.place = x->place;
	return v;
}

/* A name of one's own that is also a type's. */
static void
note_hidden_type(Elab *e, const Expr *x)
{
	DType t;
	Binding *b = x->kind == EX_NAME ? scope_find(e, x->name) : NULL;
	if (b && dtype_named(x->name, &t))
		diag_note(e->cx, b->place, "this name hides the type '%s'", x->name);
}

static Val
elab_as(Elab *e, const Expr *x)
{
	Val type = elab_expr(e, x->b);
	DType to;

	Val v = elab_expr(e, x->a);
	if (val_is_poison(&type))
		return val_poison(x->place);
	if (!val_const_dtype(e, &type, "what follows 'as'", &to)) {
		note_hidden_type(e, x->b);
		return val_poison(x->place);
	}
	e->b.place = x->place;
	return elab_cast(e, &v, to, x->place);
}

static Val
elab_items(Elab *e, const Expr *x)
{
	Val v = val_tuple(e, x->place, NULL, 0);

	v.n = x->items.n;
	v.items = NEW_ARRAY(e->cx->mem, Val, v.n);
	v.kind = x->kind == EX_LIST ? VAL_LIST : VAL_TUPLE;
	bool poison = false;
	for (int i = 0; i < v.n; i++) {
		v.items[i] = elab_expr(e, x->items.at[i]);
		poison |= val_is_poison(&v.items[i]);
	}
	return poison ? val_poison(x->place) : v;
}

static Val
call_value(Elab *e, const Expr *x, const Val *fn)
{
	int n = x->args.n;
	CallArg *arg = NEW_ARRAY(e->cx->mem, CallArg, n);
	Val *val = NEW_ARRAY(e->cx->mem, Val, n);

	for (int i = 0; i < n; i++) {
		const Arg *a = &x->args.at[i];
		val[i] = elab_expr(e, a->e);
		arg[i] = (CallArg){.name = a->name, .place = a->e->place, .name_place = a->name_place,
		    .e = a->e, .val = val[i]};
	}
	e->b.place = x->place;
	return elab_call_fn(e, fn, val, arg, n, x->place);
}

static Val
elab_call(Elab *e, const Expr *x)
{
	const Expr *f = x->a;

	if (f->kind == EX_MEMBER)
		return elab_builtin(e, x);
	if (f->kind == EX_ERROR)
		return val_poison(x->place);
	if (f->kind == EX_NAME) {
		Binding *b = f->scope ? NULL : scope_find(e, f->name);
		if (!b && builtin_exists(f->name, f->scope))
			return elab_builtin(e, x);
		if (!b && program_kernel(e->program, f->name) && !f->scope)
			return unknown_name(e, f);
		if (!b && program_lost(e->program, f->name))
			return val_poison(x->place);
		if (!b) {
			diag_error(e->cx, f->place, DIAG_FUNCTION_UNKNOWN, f->scope ? f->scope : "",
			    f->scope ? "::" : "", f->name);
			const char *near = scope_nearest(e, f->name), *hint = name_hint(f->name);
			if (hint && !f->scope)
				diag_help(e->cx, "%s", hint);
			else if (f->scope && strcmp(f->scope, "fast") != 0)
				diag_help(e->cx, "only fast:: exists, as in fast::exp(x)");
			else if (near)
				diag_help(e->cx, "did you mean '%s'?", near);
			for (int i = 0; i < x->args.n; i++)
				elab_expr(e, x->args.at[i].e);
			return val_poison(x->place);
		}
	}
	Val fn = elab_expr(e, f);
	return call_value(e, x, &fn);
}

static Val elab_unary_expr(Elab *e, const Expr *x);

static Val
elab_kind(Elab *e, const Expr *x)
{
	switch (x->kind) {
	case EX_ERROR: return val_poison(x->place);
	case EX_INT: return val_uint(x->place, x->u);
	case EX_FLOAT: return val_float(x->place, x->f);
	case EX_STRING: return (Val){.kind = VAL_TEXT, .place = x->place, .text = x->name};
	case EX_NAME: return elab_name(e, x);
	case EX_UNARY: return elab_unary_expr(e, x);
	case EX_BINARY: return elab_binary_expr(e, x);
	case EX_COND: return elab_cond(e, x);
	case EX_CALL: return elab_call(e, x);
	case EX_INDEX: return elab_index(e, x);
	case EX_AS: return elab_as(e, x);
	case EX_MEMBER: return elab_member(e, x);
	case EX_LIST:
	case EX_TUPLE: return elab_items(e, x);
	case EX_FN: return (Val){.kind = VAL_FN, .place = x->place, .lambda = x, .scope = e->scope};
	}
	unreachable();
}

static Val
elab_unary_expr(Elab *e, const Expr *x)
{
	Val a = elab_expr(e, x->a);
	e->b.place = x->place;
	return elab_unary(e, x->un, &a, x->place);
}

bool
elab_step(Elab *e, Place at)
{
	if (++e->stmt->steps <= MAX_STEPS)
		return true;
	if (!e->stmt->spent)
		diag_error(e->cx, at, DIAG_TOO_LARGE, MAX_STEPS);
	e->stmt->spent = true;
	return false;
}

bool
elab_steps(Elab *e, int64_t n, Place at)
{
	if (n <= MAX_STEPS - e->stmt->steps)
		return true;
	e->stmt->steps = MAX_STEPS;
	return elab_step(e, at);
}

bool
elab_enter(Elab *e, Place at)
{
	if (e->depth >= MAX_DEPTH)
		return diag_error(e->cx, at, DIAG_ELAB_DEPTH, MAX_DEPTH);
	e->depth++;
	return true;
}

/* Where a value is wanted and a call gives none. */
static void
no_value(Elab *e, const Expr *x)
{
	const Expr *f = x->kind == EX_CALL ? x->a : NULL;
	const char *name = f && (f->kind == EX_NAME || f->kind == EX_MEMBER) ? f->name : "the function";
	Binding *b = f && f->kind == EX_NAME && !f->scope ? scope_find(e, f->name) : NULL;

	diag_error(e->cx, x->place, DIAG_NO_VALUE, name);
	if (!b || b->val.kind != VAL_FN || !b->val.fn)
		return;
	diag_help(e->cx, "a function gives what its 'return' names");
	diag_note(e->cx, b->val.fn->name_place, "'%s' returns nothing", name);
}

Val
elab_expr(Elab *e, const Expr *x)
{
	Val v = elab_call_or_expr(e, x);

	if (v.kind != VAL_VOID)
		return v;
	no_value(e, x);
	return val_poison(x->place);
}

Val
elab_call_or_expr(Elab *e, const Expr *x)
{
	if (!x || !elab_step(e, x->place) || !elab_enter(e, x->place))
		return val_poison(x ? x->place : e->b.place);
	Place saved = e->b.place;
	e->b.place = x->place;
	Val v = elab_kind(e, x);
	e->depth--;
	e->b.place = saved;
	v.place = x->place;
	return v;
}
