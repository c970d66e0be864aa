/* Operators and casts on values of the elaborator: what is known at compile time folds, the rest becomes ops. */
#include "sema/elab.h"

static bool
is_operator_float(BinaryOp op)
{
	return op != BIN_AND && op != BIN_OR && op != BIN_XOR && op != BIN_SHL && op != BIN_SHR;
}

static const OpKind binary_op[BIN_NONE] = {
	[BIN_ADD] = OP_ADD, [BIN_SUB] = OP_SUB, [BIN_MUL] = OP_MUL, [BIN_DIV] = OP_DIV, [BIN_REM] = OP_REM,
	[BIN_AND] = OP_AND, [BIN_OR] = OP_OR, [BIN_XOR] = OP_XOR, [BIN_SHL] = OP_SHL, [BIN_SHR] = OP_SHR,
	[BIN_LAND] = OP_AND, [BIN_LOR] = OP_OR, [BIN_EQ] = OP_EQ, [BIN_NE] = OP_NE, [BIN_LT] = OP_LT,
	[BIN_LE] = OP_LE, [BIN_GT] = OP_GT, [BIN_GE] = OP_GE,
};

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
		diag_error(e->cx, side[i]->place, DIAG_LOGIC_OPERAND, binary_op_text(op), val_describe(e, side[i]));
		if (val_is_number(side[i]))
			diag_help(e->cx, "compare it first, as in 'x != 0'%s", !dtype_is_int(val_dtype(e, side[i])) ? ""
				: op == BIN_LAND ? "; bits are combined by '&'" : "; bits are combined by '|'");
		return false;
	}
	return true;
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
	if (val_is_pointer(a) || val_is_pointer(b))
		return elab_pointer(e, op, a, b, at);
	if ((op == BIN_LAND || op == BIN_LOR) && !both_bool(e, op, a, b))
		return val_poison(at);
	if (binary_op_compares(op) && mixed_sign(e, a, b, at))
		return val_poison(at);
	if (!match_values(e, in, 2, at, v))
		return val_poison(at);
	DType t = v[0]->type->elem;
	if (dtype_is_float(t) && !is_operator_float(op)) {
		diag_error(e->cx, at, DIAG_BITS_OF_FLOAT, binary_op_text(op));
		diag_help(e->cx, "take the bits with bitcast(x, u32), or convert with 'as i32'");
		return val_poison(at);
	}
	bool arithmetic = op >= BIN_SHL;
	for (int i = 0; i < 2 && t == TY_BOOL && arithmetic; i++)
		v[i] = ir_cast(e, v[i], TY_I32);
	if (op == BIN_DIV && dtype_is_float(t) && elab_fast(e, false)) {
		Attr fast = attr_new_fast(e->m, true);
		return val_tile(at, &op_make(&e->b, OP_DIV, v, 2, &fast, 1, NULL, 0)->out[0]);
	}
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
	return int_fits(to, v->i) && (v->i >= 0 || dtype_is_signed(to));
}

static Value *
cast_value(Elab *e, Value *v, DType to)
{
	if (v->type->elem == to)
		return v;
	if (to == TY_BOOL && dtype_is_packed(v->type->elem))
		v = cast_value(e, v, dtype_is_float(v->type->elem) ? TY_F16 : TY_I8);
	if (to == TY_BOOL)
		return build2(&e->b, OP_NE, v, build_int(&e->b, v->type, 0));
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
		else if (val_is_pointer(v))
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
