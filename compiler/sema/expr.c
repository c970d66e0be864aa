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
	bool all = v->kind == VAL_LIST;
	for (int i = 0; all && i < v->n; i++)
		all = is_lasting(&v->items[i]);
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
		diag_error(e->cx, it->name_place, DIAG_CONST_CYCLE, it->name);
		return val_poison(at);
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
	return val_poison(x->place);
}

static Val
elab_name(Elab *e, const Expr *x)
{
	if (x->scope) {
		diag_error(e->cx, x->place, DIAG_SCOPED_NAME, x->scope, x->name);
		return val_poison(x->place);
	}
	Binding *b = scope_find(e, x->name);
	if (!b)
		return unknown_name(e, x);
	Val v = b->val.kind == VAL_FN && b->val.fn && b->val.fn->kind == ITEM_CONST
	    ? const_item(e, b, x->place) : b->val;
	v.place = x->place;
	return v;
}

static bool
is_operator_float(BinaryOp op)
{
	return op != BIN_AND && op != BIN_OR && op != BIN_XOR && op != BIN_SHL && op != BIN_SHR;
}

static const char *const binary_text[] = {
#define X(name, text, strength) [BIN_##name] = text,
	BINARY_OPS(X)
#undef X
};

static const OpKind binary_op[BIN_NONE] = {
	[BIN_ADD] = OP_ADD, [BIN_SUB] = OP_SUB, [BIN_MUL] = OP_MUL, [BIN_DIV] = OP_DIV, [BIN_REM] = OP_REM,
	[BIN_AND] = OP_AND, [BIN_OR] = OP_OR, [BIN_XOR] = OP_XOR, [BIN_SHL] = OP_SHL, [BIN_SHR] = OP_SHR,
	[BIN_LAND] = OP_AND, [BIN_LOR] = OP_OR, [BIN_EQ] = OP_EQ, [BIN_NE] = OP_NE, [BIN_LT] = OP_LT,
	[BIN_LE] = OP_LE, [BIN_GT] = OP_GT, [BIN_GE] = OP_GE,
};

static bool
is_compare(BinaryOp op)
{
	return op >= BIN_EQ && op <= BIN_GE;
}

/* Tiles of signed and unsigned integers have no common order. */
static bool
mixed_sign(Elab *e, const Val *a, const Val *b, Place at)
{
	if (a->kind != VAL_TILE || b->kind != VAL_TILE)
		return false;
	DType s = a->v->type->elem, t = b->v->type->elem;
	if (!dtype_is_int(s) || !dtype_is_int(t) || dtype_is_signed(s) == dtype_is_signed(t))
		return false;
	diag_error(e->cx, at, DIAG_MIXED_SIGN, dtype_info[s].text, dtype_info[t].text);
	diag_help(e->cx, "convert one side, for example with 'as i64'");
	return true;
}

static bool
both_bool(Elab *e, BinaryOp op, const Val *a, const Val *b)
{
	const Val *side[] = {a, b};

	for (int i = 0; i < 2; i++) {
		if (val_is_number(side[i]) && val_dtype(e, side[i]) == TY_BOOL)
			continue;
		diag_error(e->cx, side[i]->place, DIAG_LOGIC_OPERAND, binary_text[op], val_describe(e, side[i]));
		if (val_is_number(side[i]))
			diag_help(e->cx, "compare it first, as in 'x != 0'%s", !dtype_is_int(val_dtype(e, side[i])) ? ""
				: op == BIN_LAND ? "; bits are combined by '&'" : "; bits are combined by '|'");
		return false;
	}
	return true;
}

static bool
is_pointer(const Val *v)
{
	return v->kind == VAL_TILE && v->v->type->ptr != PTR_NONE;
}

Val
elab_binary(Elab *e, BinaryOp op, const Val *a, const Val *b, Place at)
{
	Val in[2] = {*a, *b}, folded;
	Value *v[2];

	if (val_is_poison(a) || val_is_poison(b))
		return val_poison(at);
	if (const_binary(e, op, a, b, at, &folded))
		return folded;
	if (op == BIN_MATMUL)
		return elab_matmul(e, a, b, at);
	if (is_pointer(a) || is_pointer(b))
		return elab_pointer(e, op, a, b, at);
	if ((op == BIN_LAND || op == BIN_LOR) && !both_bool(e, op, a, b))
		return val_poison(at);
	if (is_compare(op) && mixed_sign(e, a, b, at))
		return val_poison(at);
	if (!match_values(e, in, 2, at, v))
		return val_poison(at);
	DType t = v[0]->type->elem;
	if (dtype_is_float(t) && !is_operator_float(op)) {
		diag_error(e->cx, at, DIAG_BITS_OF_FLOAT, binary_text[op]);
		diag_help(e->cx, "take the bits with bitcast(x, u32), or convert with 'as i32'");
		return val_poison(at);
	}
	bool arithmetic = op >= BIN_SHL;
	for (int i = 0; i < 2 && t == TY_BOOL && arithmetic; i++)
		v[i] = ir_cast(e, v[i], TY_I32);
	return val_tile(at, build2(&e->b, binary_op[op], v[0], v[1]));
}

/* How a tensor's elements are had: a tile of it, or in a reference all of it. */
static void
help_read(Elab *e, int param, const char *then)
{
	const KernelParam *p = &e->kernel->params.at[param];
	Text all = {0};
	for (int d = 0; d < p->rank; d++)
		text_printf(&all, "%s:", d ? ", " : "");
	if (p->rank == 0 && p->kind == PARAM_TENSOR)
		diag_help(e->cx, "read it first, as in %s[]%s", p->name, then);
	else if (e->whole)
		diag_help(e->cx, "read all of it first, as in %s[%s]%s", p->name, p->rank ? all.at : "", then);
	else
		diag_help(e->cx, "read a tile from it first, as in %s[%s]%s", p->name,
		    p->rank == 1 ? "i * BLOCK +: BLOCK" : "i, 0 +: BLOCK", then);
	text_close(&all);
}

static Val
unary_wanted(Elab *e, const Val *a, const char *op, const char *wanted, Place at)
{
	diag_error(e->cx, at, DIAG_UNARY_OPERAND, op, wanted, val_describe(e, a));
	if (a->kind == VAL_TENSOR)
		help_read(e, a->param, "");
	else if (op[0] == '!' && val_is_number(a))
		diag_help(e->cx, "compare it, as in 'x == 0', or invert bits with '~'");
	return val_poison(at);
}

Val
elab_unary(Elab *e, UnaryOp op, const Val *a, Place at)
{
	Val folded;

	if (val_is_poison(a))
		return val_poison(at);
	if (const_unary(e, op, a, at, &folded))
		return folded;
	const char *text = (const char *[]){"-", "+", "!", "~"}[op];
	if (!val_is_number(a) || dtype_is_packed(val_dtype(e, a)))
		return unary_wanted(e, a, text, "a number", at);
	DType t = val_dtype(e, a);
	if (op == UN_NOT && t != TY_BOOL)
		return unary_wanted(e, a, text, "a bool", at);
	if (op == UN_INVERT && dtype_is_float(t))
		return unary_wanted(e, a, text, "an integer or bool", at);
	Value *v = val_ir(e, a);
	if (!v)
		return val_poison(at);
	if (t == TY_BOOL && op <= UN_PLUS)
		v = ir_cast(e, v, TY_I32);
	if (op == UN_PLUS)
		return val_tile(at, v);
	return val_tile(at, build1(&e->b, op == UN_NEG ? OP_NEG : OP_NOT, v, NULL));
}

/* A literal that has the type at once: small enough to be exact in it. */
static bool
cast_exact(const Val *v, DType to)
{
	if (v->kind == VAL_FLOAT)
		return to == TY_F32 || to == TY_F64;
	int bits = dtype_info[to].bits;
	if (v->kind == VAL_BIG)
		return to == TY_U64;
	if (dtype_is_float(to))
		return bits >= 32 && v->i > -(1 << 24) && v->i < 1 << 24;
	if (to == TY_BOOL)
		return v->i == 0 || v->i == 1;
	int64_t most = bits == 64 ? INT64_MAX : (INT64_C(1) << (bits - dtype_is_signed(to))) - 1;
	return v->i <= most && v->i >= (dtype_is_signed(to) ? -most - 1 : 0);
}

static Value *
cast_value(Elab *e, Value *v, DType to)
{
	if (v->type->elem == to)
		return v;
	if (to == TY_BOOL && dtype_is_packed(v->type->elem))
		v = cast_value(e, v, dtype_is_float(v->type->elem) ? TY_F16 : TY_I8);
	if (to == TY_BOOL)
		return build2(&e->b, OP_NE, v, dtype_is_float(v->type->elem) ? build_float(&e->b, v->type, 0)
									     : build_int(&e->b, v->type, 0));
	return build1(&e->b, OP_CAST, v, type_with_elem(e->m, v->type, to));
}

/* A list in a kernel is made in the type at once where that is the same. */
static Val
cast_list(Elab *e, const Val *v, DType to, Place at)
{
	List l;

	if (!list_open(e, v, at, &l))
		return val_poison(at);
	Val weak = list_weak(&l, at);
	bool wraps = weak.kind == VAL_INT && dtype_is_int(to);
	for (int i = 0; wraps && i < l.item.n; i++)
		l.item.at[i].i = int_wrap(to, l.item.at[i].i);
	bool direct = wraps || (!e->whole && dtype_is_float(to));
	Val made = val_tile(at, list_tile(e, &l, direct ? to : val_dtype(e, &weak)));
	return elab_cast(e, &made, to, at);
}

/* In whole mode a conversion to a float type really rounds, and the result is f64 again. */
Val
elab_cast(Elab *e, const Val *v, DType to, Place at)
{
	if (val_is_poison(v))
		return val_poison(at);
	if (v->kind == VAL_LIST && e->func)
		return cast_list(e, v, to, at);
	if (!val_is_number(v)) {
		diag_error(e->cx, at, DIAG_CAST_OPERAND, val_describe(e, v), dtype_info[to].text);
		if (v->kind == VAL_TENSOR)
			help_read(e, v->param, arena_printf(e->cx->mem, " as %s", dtype_info[to].text));
		else if (is_pointer(v))
			diag_help(e->cx, "convert what is loaded: load(p) as %s", dtype_info[to].text);
		return val_poison(at);
	}
	Value *x;
	if (val_is_const(v) && cast_exact(v, to)) {
		const Type *t = type_scalar(e->m, to);
		x = dtype_is_float(to) ? build_float(&e->b, t, v->kind == VAL_FLOAT ? v->f : (double)v->i)
				       : build_int(&e->b, t, v->i);
	} else if (v->kind == VAL_FLOAT) {
		x = cast_value(e, build_float(&e->b, type_scalar(e->m, TY_F64), v->f), to);
	} else {
		x = val_ir(e, v);
		x = x ? cast_value(e, x, to) : NULL;
	}
	if (x && e->whole && dtype_is_float(to))
		x = cast_value(e, x, TY_F64);
	return val_tile(at, x);
}

static Val
elab_as(Elab *e, const Expr *x)
{
	Val type = elab_expr(e, x->b);
	DType to;

	Val v = elab_expr(e, x->a);
	if (val_is_poison(&type) || !val_const_dtype(e, &type, "what follows 'as'", &to))
		return val_poison(x->place);
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
	if (e->depth >= MAX_DEPTH) {
		diag_error(e->cx, at, DIAG_ELAB_DEPTH, MAX_DEPTH);
		return false;
	}
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
