/* Statements that bind and assign.  `let` names any value; `var` declares a variable for tiles (or tuples of them) of
 * one type and shape, so that loops and branches can carry it.  The tile IR has only values: an assignment makes the
 * binding refer to a new one. */
#include "sema/elab.h"

static bool
is_blank(const char *name)
{
	return name[0] == '_' && !name[1];
}

/* Names a tile for the printed IR after the first `let` or `var` that holds it. */
static void
hint_name(const Val *v, const char *name)
{
	if (v->kind == VAL_TILE && v->v->def && !v->v->name && name[0] != ' ' && !is_blank(name))
		v->v->name = name;
}

/* Literals get their type; false: no such variable can be. */
static bool
val_to_var(Elab *e, Val *v, const char *name)
{
	if (v->kind == VAL_TUPLE) {
		Val copy = val_tuple(e, v->place, v->items, v->n);
		if (!ALL_OF(i, copy.n, val_to_var(e, &copy.items[i], name)))
			return false;
		*v = copy;
		return true;
	}
	if (v->kind == VAL_POISON)
		return false;
	if (v->kind != VAL_TILE && !val_is_const(v)) {
		diag_error(e->cx, v->place, DIAG_VAR_KIND, name, val_describe(e, v));
		if (v->kind == VAL_LIST)
			diag_help(e->cx, "several values go into a tuple: (a, b)");
		else
			diag_help(e->cx, "a 'let' can name it; a 'var' holds numbers, tiles and tuples of them");
		return false;
	}
	*v = val_tile(v->place, val_ir(e, v));
	return v->kind == VAL_TILE;
}

static void
bind(Elab *e, const Stmt *s, const Pattern *n, Val v)
{
	if (is_blank(n->name))
		return;
	if (s->kind == ST_VAR && !val_to_var(e, &v, n->name))
		v = val_poison(v.place);
	hint_name(&v, n->name);
	scope_add(e, n->name, n->place, v, s->kind == ST_VAR);
}

/* Takes a value apart into n; poison for all if it has another number of parts. */
static void
take_apart(Elab *e, const Val *v, int n, Place at, Val *out)
{
	for (int i = 0; i < n; i++)
		out[i] = v->kind == VAL_TUPLE && v->n == n ? v->items[i] : val_poison(at);
	if (v->kind == VAL_POISON || (v->kind == VAL_TUPLE && v->n == n))
		return;
	diag_error(e->cx, at, DIAG_TUPLE_COUNT, n, val_describe(e, v));
}

static void
bind_pattern(Elab *e, const Stmt *s, const Pattern *p, const Val *v, Place at)
{
	if (p->name) {
		bind(e, s, p, *v);
		return;
	}
	Val *part = NEW_ARRAY(e->cx->mem, Val, p->items.n);
	take_apart(e, v, p->items.n, at, part);
	for (int i = 0; i < p->items.n; i++)
		bind_pattern(e, s, p->items.at[i], &part[i], p->items.at[i]->place);
}

static void
elab_let(Elab *e, const Stmt *s)
{
	Val v = elab_expr(e, s->e);

	bind_pattern(e, s, s->pattern, &v, s->e->place);
}

/* An extent as the source would write it: by a name that has this value, or as a number. */
static const char *
extent_text(Elab *e, int64_t n)
{
	const NamedConst *named = !e->bound ? NULL : e->whole ? e->bound->symbol : e->bound->ct;
	int count = !e->bound ? 0 : e->whole ? e->bound->nsymbol : e->bound->nct;

	for (int i = 0; i < count && n > 1; i++)
		if (named[i].value.kind == CONST_INT && named[i].value.i == n)
			return named[i].name;
	return arena_printf(e->cx->mem, "%lld", (long long)n);
}

/* What began as an integer, `var s = 0`, becomes a float of few bits. */
static bool
is_narrow_sum(DType old, DType new)
{
	return dtype_is_int(old) && dtype_is_float(new) && dtype_info[new].bits <= 16;
}

/* "zeros([B, 64], f16)" */
static const char *
zeros_text(Elab *e, DType old, const Type *t)
{
	Text s = {0};

	text_put(&s, "zeros([");
	for (int d = 0; d < t->rank; d++)
		text_printf(&s, "%s%s", d ? ", " : "", extent_text(e, t->extent[d]));
	bool plain = t->elem == TY_F32 || e->whole || is_narrow_sum(old, t->elem);
	text_printf(&s, plain ? "])" : "], %s)", dtype_info[t->elem].text);
	return text_take(&s, e->cx->mem);
}

static void
changed(Elab *e, Place at, const Binding *b, const char *what, const Type *old, const Val *v)
{
	Val was = {.kind = VAL_TILE, .v = &(Value){.type = old}};
	const char *name = b->name[0] == ' ' ? "the result" : b->name;

	diag_error(e->cx, at, DIAG_VAR_CHANGES, name, val_describe(e, &was), val_describe(e, v));
	if (b->place.file >= 0)
		diag_note(e->cx, b->place, "'%s' got its type here", name);
	if (v->kind != VAL_TILE || v->v->type->ptr != PTR_NONE)
		return;
	if (old->rank == 0 && v->v->type->rank > 0 && b->name[0] != ' ')
		diag_help(e->cx, "a variable keeps its first type and shape: begin with a tile, as in 'var %s = %s'", name,
		    zeros_text(e, old->elem, v->v->type));
	else if (what[0] == 't' && v->v->type->rank == 0 && is_narrow_sum(old->elem, v->v->type->elem) &&
	    b->name[0] != ' ')
		diag_help(e->cx, "sums of %s are f32: declare it as 'var %s = 0.0', or convert the value with 'as %s'",
		    dtype_info[v->v->type->elem].text, name, dtype_info[old->elem].text);
	else if (what[0] == 't' && v->v->type->rank == 0 && b->name[0] != ' ')
		diag_help(e->cx, "give '%s' that type where it is declared, as in 'var %s = %s%s', or convert the "
			"value with 'as %s'", name, name, v->v->type->elem == TY_F32 ? "0.0" : "0 as ",
		    v->v->type->elem == TY_F32 ? "" : dtype_info[v->v->type->elem].text, dtype_info[old->elem].text);
	else if (what[0] == 't')
		diag_help(e->cx, "convert it with 'as %s'", dtype_info[old->elem].text);
	else
		diag_help(e->cx, "a variable keeps its first shape; declare it with this one, as in zeros([...], %s)",
		    dtype_info[old->elem].text);
}

/* A value as one of the type that a variable has; NULL after an error.  Scalars fill a tile. */
static Value *
fit(Elab *e, const Binding *b, const Val *v, const Type *t, Place at)
{
	if (v->kind == VAL_POISON)
		return NULL;
	if (val_is_const(v) && t->ptr == PTR_NONE) {
		bool kind_fits = dtype_is_float(t->elem) || v->kind == VAL_BOOL ||
		    (val_is_int(v) && t->elem != TY_BOOL);
		if (!kind_fits || (v->kind == VAL_BOOL && t->elem != TY_BOOL)) {
			changed(e, at, b, "type", t, v);
			return NULL;
		}
		Value *x = val_ir_as(e, v, t->elem);
		return x ? ir_broadcast(e, x, t->rank, t->extent, at) : NULL;
	}
	if (v->kind != VAL_TILE || v->v->type->elem != t->elem || v->v->type->ptr != t->ptr) {
		changed(e, at, b, "type", t, v);
		return NULL;
	}
	if (v->v->type->rank == 0 && t->rank > 0)
		return ir_broadcast(e, v->v, t->rank, t->extent, at);
	if (v->v->type != t) {
		changed(e, at, b, "shape", t, v);
		return NULL;
	}
	return v->v;
}

static bool
fit_tree(Elab *e, const Binding *b, const Val *v, const Val *like, Place at, Val *out)
{
	if (v->kind == VAL_POISON)
		return false;
	if (like->kind == VAL_TILE) {
		*out = val_tile(v->place, fit(e, b, v, like->v->type, at));
		return out->kind == VAL_TILE;
	}
	if (v->kind != VAL_TUPLE || v->n != like->n)
		return diag_error(e->cx, at, DIAG_VAR_CHANGES, b->name[0] == ' ' ? "the result" : b->name,
		    val_describe(e, like), val_describe(e, v));
	*out = val_tuple(e, v->place, v->items, v->n);
	return ALL_OF(i, v->n,
	    fit_tree(e, b, &v->items[i], &like->items[i],
		v->items[i].place.file >= 0 ? v->items[i].place : at, &out->items[i]));
}

void
binding_assign(Elab *e, Binding *b, const Val *v, Place at)
{
	Val fitted;

	if (val_is_poison(&b->val) || !fit_tree(e, b, v, &b->val, at, &fitted))
		return;
	hint_name(&fitted, b->name);
	b->val = fitted;
}

static const char *
binding_kind(const Binding *b)
{
	if (b->place.file < 0)
		return "a predeclared name";
	if (b->what)
		return b->what;
	if (b->val.kind == VAL_FN && b->val.fn)
		return b->val.fn->kind == ITEM_CONST ? "a constant" : "a function";
	return b->val.kind == VAL_TENSOR ? "a tensor" : "bound by 'let'";
}

Binding *
var_find(Elab *e, const Expr *target)
{
	Binding *b = scope_find(e, target->name);

	if (!b) {
		elab_expr(e, target);                   /* reports the unknown name */
		return NULL;
	}
	if (b->is_var)
		return b;
	if (val_is_poison(&b->val))
		return NULL;
	diag_error(e->cx, target->place, DIAG_ASSIGN_LET, target->name, binding_kind(b));
	if (b->val.kind == VAL_TENSOR)
		diag_help(e->cx,
		    b->val.rank ? "write elements of it, as in %s[i, 0 +: BLOCK] = ..." : "write it as %s[] = ...",
		    target->name);
	else if (!b->what && b->place.file >= 0 && b->val.kind != VAL_FN)
		diag_help(e->cx, "what changes is declared with 'var': var %s = ...", target->name);
	else if (b->what)
		diag_help(e->cx, "copy it into a variable: var n = %s;", target->name);
	if (b->place.file >= 0)
		diag_note(e->cx, b->place, "'%s' is defined here", target->name);
	return NULL;
}

static void
assign_name(Elab *e, const Expr *target, BinaryOp op, Val v, Place at)
{
	if (is_blank(target->name) && op == BIN_NONE)
		return;
	Binding *b = var_find(e, target);
	if (!b || val_is_poison(&v))
		return;
	if (op != BIN_NONE) {
		Val old = b->val;
		old.place = target->place;
		v = elab_binary(e, op, &old, &v, at);
	}
	binding_assign(e, b, &v, v.place);
	trace_value(e, target->name, target->place, &b->val);
}

static void
refuse_strides(Elab *e, const Expr *t)
{
	diag_error(e->cx, t->place, DIAG_ASSIGN_TARGET);
	diag_help(e->cx, "strides are a line of an example: example %s { %s.strides = [...]; }",
	    e->kernel ? e->kernel->name : "k", t->a->name);
}

/* A target that the parser allows: a name, x[...], or a tuple of targets; in examples also x.strides. */
static void
assign_target(Elab *e, const Expr *t, BinaryOp op, const Val *v, Place at)
{
	switch (t->kind) {
	case EX_NAME: assign_name(e, t, op, *v, at); return;
	case EX_INDEX: elab_index_store(e, t, op, v, at); return;
	case EX_TUPLE: break;
	case EX_MEMBER: refuse_strides(e, t); return;
	default: return;
	}
	Val *part = NEW_ARRAY(e->cx->mem, Val, t->items.n);
	take_apart(e, v, t->items.n, v->place, part);
	for (int i = 0; i < t->items.n; i++)
		assign_target(e, t->items.at[i], op, &part[i], t->items.at[i]->place);
}

static void
elab_assign(Elab *e, const Stmt *s)
{
	Val v = elab_expr(e, s->e);

	assign_target(e, s->target, s->op, &v, s->place);
}

/* True if an op of the block from `op` on does more than compute. */
static bool
has_effect(const Op *op, const Block *within)
{
	for (; op; op = op_after(op, within))
		if (op_info[op->kind].traits & (WRITES | EFFECT))
			return true;
	return false;
}

static void
elab_expr_stmt(Elab *e, const Stmt *s)
{
	const Op *before = e->b.block->last;
	int errors = e->cx->nerrors;
	Val v = elab_call_or_expr(e, s->e);

	if (v.kind == VAL_POISON || v.kind == VAL_VOID || e->cx->nerrors != errors)
		return;
	if (has_effect(before ? before->next : e->b.block->first, e->b.block))
		return;
	diag_warning(e->cx, s->place, DIAG_UNUSED_RESULT);
	if (s->e->kind == EX_BINARY && s->e->bin == BIN_EQ)
		diag_help(e->cx, "to assign, write '='");
}

void
elab_stmt(Elab *e, const Stmt *s)
{
	e->b.place = s->place;
	switch (s->kind) {
	case ST_ERROR: return;
	case ST_LET:
	case ST_VAR: elab_let(e, s); return;
	case ST_ASSIGN: elab_assign(e, s); return;
	case ST_FOR: elab_for(e, s); return;
	case ST_WHILE: elab_while(e, s); return;
	case ST_RETURN: elab_return(e, s); return;
	case ST_EXPR: elab_expr_stmt(e, s); return;
	case ST_IF:
	case ST_BLOCK: unreachable();                   /* elab_list takes these */
	}
}

void
elab_stmts(Elab *e, const StmtList *list)
{
	scope_push(e);
	elab_list(e, list, 0);
	scope_pop(e);
}
