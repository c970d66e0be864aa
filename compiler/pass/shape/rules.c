/* Algebraic rules for elementwise ops in simplify.  Each keeps every bit of every result, so floats have few:
 *
 *     x * 1, x / 1, x - 0.0, x + -0.0      are x         (but not in the 8-bit floats, which saturate)
 *     x + 0.0                              is not x      (-0.0 + 0.0 is 0.0)
 *     x * 0.0, x - x                       are not 0.0   (NaN, infinity)
 *     x == x                               is not true   (NaN)
 *     x / 2^k                              is x * 2^-k   (both exact where 2^-k is a normal number) */
#include "pass/shape/simplify.h"

#include <math.h>
#include <stdlib.h>

/* Arithmetic in the type gives back what it was given, NaN and infinities too. */
static bool
is_wide_float(DType t)
{
	return t == TY_F16 || t == TY_BF16 || t == TY_F32 || t == TY_F64;
}

static bool
is_one(const Value *v)
{
	return v->type->elem != TY_BOOL && (const_is_int(v, 1) || const_is_float(v, 1.0));
}

Value *
def_operand(const Value *v, OpKind kind)
{
	return v->def && v->def->kind == kind ? v->def->in[0] : NULL;
}

/* ---- arithmetic ---- */

/* (x + 3) + 4 is x + 7, and so with *; y is the constant. */
static Value *
chain(Simplify *s, Op *op, Value *x, Value *y)
{
	Op *inner = x->def;

	if (!inner || inner->kind != op->kind || !value_const(y) || !value_const(inner->in[1]))
		return NULL;
	Value *both = simplify_emit2(s, op, op->kind, inner->in[1], y);
	return simplify_emit2(s, op, op->kind, inner->in[0], both);
}

/* x + (a @ b + 0) is a @ b + x; of floats too, but rounded in another order. */
static Value *
into_dot(Simplify *s, Op *op, Value *x, Value *product)
{
	Op *dot = product->def;

	if (!dot || dot->kind != OP_DOT || product->nuses != 1 || !const_is_int(dot->in[2], 0))
		return NULL;
	return simplify_emit(s, op, OP_DOT, (Value *[]){dot->in[0], dot->in[1], x}, 3, dot->attr, dot->nattr, NULL);
}

static Value *
rule_add(Simplify *s, Op *op, Value *x, Value *y)
{
	Value *v = NULL;

	if (!dtype_is_float(x->type->elem)) {
		if (const_is_int(y, 0))
			return x;
		v = into_dot(s, op, x, y);
		if (!v)
			v = into_dot(s, op, y, x);
		return v ? v : chain(s, op, x, y);
	}
	return is_wide_float(x->type->elem) && const_is_float(y, -0.0) ? x : NULL;
}

static Value *
rule_sub(Simplify *s, Op *op, Value *x, Value *y)
{
	const Attr *c = value_const(y);

	if (dtype_is_float(x->type->elem))
		return is_wide_float(x->type->elem) && const_is_float(y, 0.0) ? x : NULL;
	if (x == y)
		return simplify_int(s, op, x->type, 0);
	if (const_is_int(x, 0))
		return simplify_emit1(s, op, OP_NEG, y, NULL);
	if (c)
		return simplify_emit2(s, op, OP_ADD, x,
		    simplify_int(s, op, x->type, (int64_t)(0 - (uint64_t)c->i)));
	return NULL;
}

static Value *
rule_mul(Simplify *s, Op *op, Value *x, Value *y)
{
	bool is_int = !dtype_is_float(x->type->elem);

	if (is_one(y) && (is_int || is_wide_float(x->type->elem)))
		return x;
	if (!is_int)
		return NULL;
	return const_is_int(y, 0) ? y : chain(s, op, x, y);
}

static Value *
rule_div(Simplify *s, Op *op, Value *x, Value *y)
{
	const Attr *c = value_const(y);
	DType t = x->type->elem;
	int exponent;

	if (is_one(y) && (!dtype_is_float(t) || is_wide_float(t)))
		return x;
	if (!dtype_is_float(t))
		return const_is_int(x, 0) ? x : NULL;
	if (!c || (t != TY_F32 && t != TY_F64) || attr_fast(op))
		return NULL;
	if (fabs(frexp(c->f, &exponent)) != 0.5 || abs(exponent) > (t == TY_F32 ? 120 : 1000))
		return NULL;
	Attr inverse = attr_float_value(1.0 / c->f);
	return simplify_emit2(s, op, OP_MUL, x, simplify_const(s, op, y->type, &inverse));
}

/* Integers: rem, floordiv, cdiv. */
static Value *
rule_quotient(Simplify *s, Op *op, Value *x, Value *y)
{
	if (dtype_is_float(x->type->elem))
		return NULL;
	if (op->kind == OP_REM && is_one(y))
		return simplify_int(s, op, x->type, 0);
	return is_one(y) || const_is_int(x, 0) ? x : NULL;
}

static Value *
rule_bits(Simplify *s, Op *op, Value *x, Value *y)
{
	if (op->kind == OP_XOR)
		return x == y ? simplify_int(s, op, x->type, 0) : const_is_int(y, 0) ? x : chain(s, op, x, y);
	if (x == y)
		return x;
	if (const_is_int(y, 0))
		return op->kind == OP_AND ? y : x;
	if (const_is_int(y, -1))
		return op->kind == OP_AND ? x : y;
	return chain(s, op, x, y);
}

static Value *
rule_minmax(Simplify *s, Op *op, Value *x, Value *y)
{
	if (x == y && (!dtype_is_float(x->type->elem) || is_wide_float(x->type->elem)))
		return x;
	return dtype_is_float(x->type->elem) ? NULL : chain(s, op, x, y);
}

/* Integers as floats compare with a small whole number as integers do: rounding keeps their order, and moves none of
 * those near it.  Packed ones have no comparison. */
static Value *
compare_whole(Simplify *s, Op *op, Value *x, Value *y)
{
	const Attr *c = value_const(y);
	Value *i = def_operand(x, OP_CAST);
	enum { SMALL = 128 };

	if (!is_wide_float(x->type->elem) || !i || dtype_is_packed(i->type->elem) || !c || c->kind != KIND_FLOAT ||
	    !(fabs(c->f) < SMALL) || c->f != trunc(c->f) ||
	    !(dtype_is_signed(i->type->elem) || (dtype_is_unsigned(i->type->elem) && c->f >= 0)))
		return NULL;
	return simplify_emit2(s, op, op->kind, i, simplify_int(s, op, i->type, (int64_t)c->f));
}

static Value *
rule_compare(Simplify *s, Op *op, Value *x, Value *y)
{
	bool reflexive = op->kind == OP_EQ || op->kind == OP_LE || op->kind == OP_GE;
	DType t = x->type->elem;

	if (dtype_is_float(t))
		return compare_whole(s, op, x, y);
	if (x == y)
		return simplify_int(s, op, op->out[0].type, reflexive);
	if ((dtype_is_unsigned(t) || t == TY_BOOL) && const_is_int(y, 0)) {
		if (op->kind == OP_GE || op->kind == OP_LT)
			return simplify_int(s, op, op->out[0].type, op->kind == OP_GE);
	}
	if (t == TY_BOOL && value_const(y) && (op->kind == OP_EQ || op->kind == OP_NE))
		return value_const(y)->i == (op->kind == OP_EQ) ? x : simplify_emit1(s, op, OP_NOT, x, NULL);
	return NULL;
}

/* The comparison that is true where `kind` is not; only == and != have one among floats. */
static bool
opposite(OpKind kind, bool is_float, OpKind *out)
{
	static const OpKind pair[][2] = {{OP_EQ, OP_NE}, {OP_LT, OP_GE}, {OP_LE, OP_GT}};

	for (int i = 0; i < (is_float ? 1 : LEN(pair)); i++)
		for (int k = 0; k < 2; k++)
			if (pair[i][k] == kind) {
				*out = pair[i][1 - k];
				return true;
			}
	return false;
}

/* Shifts, and pointers moved on. */
static Value *
rule_shift(Simplify *s, Op *op, Value *x, Value *y)
{
	return const_is_int(y, 0) ? x : NULL;
}

static Value *
rule_neg(Simplify *s, Op *op, Value *x, Value *y)
{
	return !dtype_is_float(x->type->elem) || is_wide_float(x->type->elem) ? def_operand(x, OP_NEG) : NULL;
}

static Value *
rule_not(Simplify *s, Op *op, Value *x, Value *y)
{
	OpKind kind;

	if (def_operand(x, OP_NOT))
		return def_operand(x, OP_NOT);
	if (x->type->elem == TY_BOOL && x->def && x->nuses == 1 &&
	    opposite(x->def->kind, dtype_is_float(x->def->in[0]->type->elem), &kind))
		return simplify_emit2(s, op, kind, x->def->in[0], x->def->in[1]);
	return NULL;
}

static Value *
rule_abs(Simplify *s, Op *op, Value *x, Value *y)
{
	if (dtype_is_unsigned(x->type->elem) || def_operand(x, OP_ABS))
		return x;
	if (def_operand(x, OP_NEG)) {
		op_set_in(op, 0, def_operand(x, OP_NEG));
		s->changed = true;
	}
	return NULL;
}

static Value *
rule_round(Simplify *s, Op *op, Value *x, Value *y)
{
	if (!x->def || !is_wide_float(x->type->elem))
		return NULL;
	OpKind k = x->def->kind;
	return k == OP_FLOOR || k == OP_CEIL || k == OP_ROUND || k == OP_TRUNC ? x : NULL;
}

static Value *
rule_select(Simplify *s, Op *op, Value *c, Value *x)
{
	Value *y = op->in[2];
	const Attr *known = value_const(c);

	if (known)
		return known->i ? x : y;
	if (x == y)
		return x;
	if (def_operand(c, OP_NOT))
		return simplify_emit(s, op, OP_SELECT, (Value *[]){def_operand(c, OP_NOT), y, x}, 3, NULL, 0, NULL);
	if (x->type->elem != TY_BOOL || x->type->ptr != PTR_NONE || !value_const(x) || !value_const(y))
		return NULL;
	if (value_const(x)->i == value_const(y)->i)
		return x;
	return value_const(x)->i ? c : simplify_emit1(s, op, OP_NOT, c, NULL);
}

/* ---- conversions ---- */

/* Does every value of `from` exist in `to`?  8-bit floats take no part as `to`: they saturate. */
static bool
holds(DType from, DType to)
{
	const DTypeInfo *a = &dtype_info[from], *b = &dtype_info[to];

	if (from == to)
		return true;
	if (from == TY_BOOL)
		return to != TY_F8E4M3 && to != TY_F8E5M2 && !dtype_is_packed(to);
	if (to == TY_BOOL)
		return false;
	if (dtype_is_int(from) && dtype_is_int(to)) {
		int more = dtype_is_unsigned(from) && dtype_is_signed(to);
		return (dtype_is_unsigned(from) || dtype_is_signed(to)) && b->bits >= a->bits + more;
	}
	if (dtype_is_int(from)) {
		int bits = a->bits - dtype_is_signed(from);
		int mantissa = to == TY_F64 ? 53 : to == TY_F32 ? 24 : to == TY_F16 ? 11 : to == TY_BF16 ? 8 : 0;
		return bits <= mantissa && (to != TY_F16 || bits < 16);
	}
	if (dtype_is_int(to))
		return false;
	if (to == TY_F16 || to == TY_BF16)
		return a->bits <= 8;
	return is_wide_float(to) && b->bits > a->bits;
}

/* Indices that the narrower type did not wrap are the indices of the other type. */
static Value *
cast_iota(Simplify *s, Op *op, Value *x)
{
	const Attr *axis = op_attr(x->def, ATTR_AXIS);
	int bits = dtype_info[x->type->elem].bits - dtype_is_signed(x->type->elem);

	if (!dtype_is_int(op->out[0].type->elem) || dtype_is_packed(op->out[0].type->elem) ||
	    (bits < 62 && x->type->extent[axis->i] > INT64_C(1) << bits))
		return NULL;
	return simplify_emit(s, op, OP_IOTA, NULL, 0, axis, 1, op->out[0].type);
}

/* A cast of a cast is one if the type between holds every value.  Not so: an integer that is to wrap in
 * a narrower integer and would saturate on its way through a float; and e5m2, whose infinities a
 * conversion to e5m2 saturates. */
static Value *
rule_cast(Simplify *s, Op *op, Value *x, Value *y)
{
	Value *inner = def_operand(x, OP_CAST);
	const Type *to = op->out[0].type;

	if (x->type == to && to->elem != TY_F8E5M2)
		return x;
	if (x->def && x->def->kind == OP_IOTA)
		return cast_iota(s, op, x);
	Value *halves = simplify_halves(s, op, x);
	if (halves || !inner)
		return halves ? halves : simplify_small(s, op, x);
	DType from = inner->type->elem, between = x->type->elem;
	bool packed = dtype_is_packed(from) && !(dtype_is_int(between) && dtype_is_float(to->elem));
	if (!holds(from, between) || packed || (from == to->elem && from == TY_F8E5M2))
		return NULL;
	if (dtype_is_int(from) && dtype_is_float(between) && dtype_is_int(to->elem) && !holds(from, to->elem))
		return NULL;
	return simplify_emit1(s, op, OP_CAST, inner, to);
}

static Value *
rule_bitcast(Simplify *s, Op *op, Value *x, Value *y)
{
	Value *inner = def_operand(x, OP_BITCAST);

	if (x->type == op->out[0].type)
		return x;
	return inner ? simplify_emit1(s, op, OP_BITCAST, inner, op->out[0].type) : NULL;
}

static Value *
rule_exp2(Simplify *s, Op *op, Value *x, Value *y)
{
	return simplify_power(s, op, x);
}

/* ---- elementwise ops in general ---- */

/* An op on scalars that were all spread over one shape is done once and spread then. */
static Value *
narrow(Simplify *s, Op *op)
{
	const Type *t = op->out[0].type;
	Value *in[3];
	bool spread = false;

	if (t->rank == 0 || op->nin > 3)
		return NULL;
	for (int i = 0; i < op->nin; i++) {
		bool is_spread = op->in[i]->def && op->in[i]->def->kind == OP_BROADCAST &&
		    op->in[i]->def->in[0]->type->rank == 0;
		if (!is_spread && !value_const(op->in[i]))
			return NULL;
		spread = spread || is_spread;
	}
	if (!spread)
		return NULL;
	for (int i = 0; i < op->nin; i++)
		in[i] = simplify_splat(s, op, op->in[i]);
	Value *scalar = simplify_emit(s, op, op->kind, in, op->nin, op->attr, op->nattr,
	    type_with_shape(s->m, t, 0, NULL));
	return simplify_emit1(s, op, OP_BROADCAST, scalar, t);
}

/* Constants stand on the right, where that changes no bit. */
static void
order(Simplify *s, Op *op)
{
	bool is_float = dtype_is_float(op->in[0]->type->elem);

	if (!(op_info[op->kind].traits & COMM) || !value_const(op->in[0]) || value_const(op->in[1]))
		return;
	if (is_float && (op->kind == OP_MIN || op->kind == OP_MAX))
		return;
	Value *left = op->in[0];
	op->in[0] = op->in[1];
	op->in[1] = left;
	s->changed = true;
}

typedef Value *Rule(Simplify *s, Op *op, Value *x, Value *y);

static Rule *const rules[OP_COUNT] = {
	[OP_ADD] = rule_add, [OP_SUB] = rule_sub, [OP_MUL] = rule_mul, [OP_DIV] = rule_div,
	[OP_REM] = rule_quotient, [OP_FLOORDIV] = rule_quotient, [OP_CDIV] = rule_quotient,
	[OP_AND] = rule_bits, [OP_OR] = rule_bits, [OP_XOR] = rule_bits,
	[OP_SHL] = rule_shift, [OP_SHR] = rule_shift, [OP_PTR_ADD] = rule_shift,
	[OP_MIN] = rule_minmax, [OP_MAX] = rule_minmax,
	[OP_EQ] = rule_compare, [OP_NE] = rule_compare, [OP_LT] = rule_compare, [OP_LE] = rule_compare,
	[OP_GT] = rule_compare, [OP_GE] = rule_compare,
	[OP_NEG] = rule_neg, [OP_NOT] = rule_not, [OP_ABS] = rule_abs,
	[OP_FLOOR] = rule_round, [OP_CEIL] = rule_round, [OP_ROUND] = rule_round, [OP_TRUNC] = rule_round,
	[OP_SELECT] = rule_select, [OP_CAST] = rule_cast, [OP_BITCAST] = rule_bitcast,
	[OP_EXP2] = rule_exp2, [OP_POW] = simplify_pow,
};

Value *
simplify_elementwise(Simplify *s, Op *op)
{
	Value *v = narrow(s, op);

	if (v)
		return v;
	if (op->nin >= 2)
		order(s, op);
	v = simplify_uniform(s, op);
	if (v)
		return v;
	return rules[op->kind] ? rules[op->kind](s, op, op->in[0], op->nin > 1 ? op->in[1] : NULL) : NULL;
}
