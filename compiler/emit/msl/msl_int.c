/* Operations on integers.
 *
 * A result that stays in range is written with a sign, and one that may wrap without (C's signed sums must not overflow);
 * operations that read their operands as signed or unsigned numbers get casts only where it matters.  Shifts and masks of
 * grid indices are products, quotients and remainders, as one writes them by hand.  Operands below 32 bits are promoted to
 * int by C, so their results are cast back. */
#include "emit/msl/msl.h"

#include <string.h>

/* What C makes of an operation on both. */
static CType
usual(CType a, CType b)
{
	a = MAX(a, C_INT);
	b = MAX(b, C_INT);
	return MAX(a, b);
}

static CType
without_sign(CType c)
{
	return c_is_signed(c) ? (CType)(c + 1) : c;
}

static Expr
narrow_result(Msl *m, const char *text, int strength, int width, CType c)
{
	if (width > 1)
		return msl_made(text, strength, width, c);
	return msl_made(arena_printf(m->mem, "%s(%s)", c_text[c], text), P_NAME, 1, c);
}

/* An operand that C itself makes as wide as the other: without the cast. */
static Expr
short_operand(Msl *m, Reg r, Expr other)
{
	const MslNode *n = msl_def(m, r);
	Expr x = msl_expr(m, &r, 1);
	if (n->kind != NODE_CAST || n->name || n->type != REG_I64 || (n->t->op != CAST_ZEXT && n->t->op != CAST_SEXT) ||
	    (other.c != C_LONG && other.c != C_ULONG) || other.is_literal || msl_type(m, n->in[0]) != REG_I32)
		return x;
	Expr plain = msl_expr(m, n->in, 1);
	bool same_sign = c_is_signed(plain.c) == (n->t->op == CAST_SEXT) && !(c_is_signed(plain.c) && other.c == C_ULONG);
	return same_sign || msl_never_negative(m, n->in[0]) ? plain : x;
}

/* The result does not wrap. */
static bool
is_exact(const Msl *m, const MslNode *n)
{
	ThreadRange r = msl_range(m, n);
	return (r.geometry && !n->is_number) || !msl_is_full(r, n->type);
}

/* How strong the right operand of a sum or product that C computes as `c` has to be to have no brackets: one of another
 * width wraps elsewhere, and a quotient or remainder is no factor. */
static int
right_strength(const MslNode *n, Expr b, CType c, int strength)
{
	bool same = n->t->op == THREAD_ADD || (n->t->op == THREAD_MUL && !strpbrk(b.text, "/%"));
	return same && without_sign(b.c) == without_sign(c) ? strength : strength + 1;
}

/* a + b, a - b, a * b */
static Expr
sum(Msl *m, const MslNode *n, const char *sign, int strength)
{
	RegType t = n->type;
	Expr a = msl_lanes(m, n, 0), b = msl_lanes(m, n, 1);
	int w = MAX(a.width, b.width);
	if (t == REG_I8 || t == REG_I16 || w > 1) {
		CType c = c_plain(t);
		if (n->t->op == THREAD_MUL && w == 1)
			a = msl_as(m, a, C_UINT, 1);
		else if (w > 1) {
			a = msl_as(m, a, c, a.width);
			b = msl_as(m, b, c, b.width);
		}
		return narrow_result(m, arena_printf(m->mem, "%s %s %s", msl_wrap(m, a, strength), sign,
		    msl_wrap(m, b, right_strength(n, b, c, strength))), strength, w, c);
	}
	bool safe = is_exact(m, n);
	if (a.is_literal)
		a = msl_as(m, a, t == REG_I64 ? C_LONG : C_INT, 1);
	if (safe) {
		a = short_operand(m, n->in[0], b);
		b = short_operand(m, n->in[1], a);
	}
	if (safe && msl_range(m, n).lo < 0) {                  /* a difference below 0 must have a sign */
		a = msl_signed(m, n->in[0], true);
		b = msl_signed(m, n->in[1], true);
		if (!c_is_signed(a.c) && !a.is_literal)
			a = msl_as(m, a, (CType)(a.c - 1), 1);
		if (!c_is_signed(b.c) && !b.is_literal)
			b = msl_as(m, b, (CType)(b.c - 1), 1);
	}
	if (!safe && c_is_signed(a.c) && c_is_signed(b.c)) {
		if (a.is_literal)
			b = msl_as(m, b, without_sign(b.c), 1);
		else
			a = msl_as(m, a, without_sign(a.c), 1);
	}
	if (!safe && n->t->op == THREAD_MUL && b.is_literal && b.v < 0)
		b = msl_as(m, b, t == REG_I64 ? C_ULONG : C_UINT, 1);
	CType c = a.is_literal ? (b.is_literal ? a.c : MAX(b.c, C_INT)) : b.is_literal ? MAX(a.c, C_INT) : usual(a.c, b.c);
	bool minus = b.is_literal && b.v < 0 && n->t->op == THREAD_ADD && b.v > INT32_MIN;
	if (minus)
		b = (Expr){arena_printf(m->mem, "%lld", -(long long)b.v), P_NAME, 1, b.c, true, -b.v};
	else if (b.is_literal && b.v >= 0 && b.v <= INT32_MAX && !a.is_literal)
		b.text = arena_printf(m->mem, "%lld", (long long)b.v);
	const char *s = arena_printf(m->mem, "%s %s %s", msl_wrap(m, a, strength), minus ? "-" : sign,
	    msl_wrap(m, b, right_strength(n, b, c, strength)));
	return msl_made(s, strength, 1, c);
}

/* `a << 3` of an index is `a * 8`. */
static Expr
shift_left(Msl *m, const MslNode *n)
{
	Expr a = msl_lanes(m, n, 0), b = msl_lanes(m, n, 1);
	CType c = c_plain(n->type);
	bool small = n->type == REG_I8 || n->type == REG_I16, safe = is_exact(m, n);
	if (b.is_literal && safe && !small && n->width == 1 && b.v < 31) {
		Expr x = a.is_literal ? msl_as(m, a, n->type == REG_I64 ? C_LONG : C_INT, 1) : a;
		return msl_made(arena_printf(m->mem, "%s * %lld", msl_wrap(m, x, P_PRODUCT),
		    (long long)(INT64_C(1) << b.v)), P_PRODUCT,
		    1, MAX(x.c, C_INT));
	}
	a = msl_as(m, a, small && n->width == 1 ? C_UINT : c, n->width);
	if (n->width > 1)
		b = msl_as(m, b, c, b.width);
	const char *s = arena_printf(m->mem, "%s << %s", msl_wrap(m, a, P_UNARY), msl_wrap(m, b, P_UNARY));
	return small ? narrow_result(m, s, P_SHIFT, n->width, c) : msl_made(s, P_SHIFT, n->width, c);
}

static Expr
shift_right(Msl *m, const MslNode *n)
{
	bool is_signed = n->t->op == THREAD_ASHR, small = n->type == REG_I8 || n->type == REG_I16;
	CType c = c_plain(n->type);
	Expr a = msl_lanes(m, n, 0), b = msl_lanes(m, n, 1);
	if (n->width > 1) {
		a = msl_as(m, a, is_signed ? (CType)(c - 1) : c, n->width);
		b = msl_as(m, b, a.c, b.width);
		return msl_made(arena_printf(m->mem, "%s >> %s", msl_wrap(m, a, P_UNARY), msl_wrap(m, b, P_UNARY)), P_SHIFT,
		    n->width, a.c);
	}
	a = small ? msl_with_sign(m, a, n->type, is_signed) : msl_signed(m, n->in[0], is_signed);
	ThreadRange r = thread_range(m->t, n->in[0]);
	bool product = b.is_literal && !small && r.geometry && r.lo >= 0 && b.v < 31;
	const char *s = product
	    ? arena_printf(m->mem, "%s / %lld", msl_wrap(m, a, P_PRODUCT), (long long)(INT64_C(1) << b.v))
	    : arena_printf(m->mem, "%s >> %s", msl_wrap(m, a, P_UNARY), msl_wrap(m, b, P_UNARY));
	int strength = product ? P_PRODUCT : P_SHIFT;
	return small ? narrow_result(m, s, strength, 1, c) : msl_made(s, strength, 1, MAX(a.c, C_INT));
}

static Expr
bits(Msl *m, const MslNode *n, const char *sign, int strength)
{
	Expr a = msl_lanes(m, n, 0), b = msl_lanes(m, n, 1);
	CType c = c_plain(n->type);
	int w = MAX(a.width, b.width);
	bool small = n->type == REG_I8 || n->type == REG_I16;
	ThreadRange r = thread_range(m->t, n->in[0]);
	bool is_mask = b.is_literal && b.v > 0 && b.v < INT64_MAX && (b.v & (b.v + 1)) == 0;
	if (n->t->op == THREAD_AND && n->width == 1 && !small && is_mask && r.geometry && r.lo >= 0)
		return msl_made(arena_printf(m->mem, "%s %% %lld", msl_wrap(m, a, P_PRODUCT), (long long)b.v + 1),
		    P_PRODUCT, 1,
		    MAX(a.c, C_INT));
	if (n->width > 1) {
		a = msl_as(m, a, c, a.width);
		b = msl_as(m, b, c, b.width);
	} else if (b.is_literal && !small) {
		b = msl_as(m, b, n->type == REG_I64 ? C_ULONG : C_UINT, 1);
		if (c_is_signed(a.c) && msl_range(m, n).lo >= 0)
			b = msl_as(m, b, a.c, 1);
	}
	bool chain = msl_def(m, n->in[0])->kind == NODE_OP && msl_def(m, n->in[0])->t->op == n->t->op;
	const char *s = arena_printf(m->mem, "%s %s %s", msl_wrap(m, a, chain ? strength : P_UNARY), sign,
	    msl_wrap(m, b, P_UNARY));
	return small ? narrow_result(m, s, strength, w, c) : msl_made(s, strength, w, usual(a.c, b.c));
}

/* What is never negative is divided as it is, unless the other operand is below 0. */
static Expr
divide(Msl *m, const MslNode *n, const char *sign, bool is_signed)
{
	Expr a = msl_lanes(m, n, 0), b = msl_lanes(m, n, 1);
	bool small = n->type == REG_I8 || n->type == REG_I16;
	CType c = is_signed ? (CType)(c_plain(n->type) - 1) : c_plain(n->type);
	if (small || n->width > 1) {
		a = msl_with_sign(m, a, n->type, is_signed);
		b = msl_with_sign(m, b, n->type, is_signed);
		a = n->width > 1 ? msl_as(m, a, c, a.width) : a;
		b = n->width > 1 ? msl_as(m, b, c, b.width) : b;
	} else {
		a = msl_signed(m, n->in[0], is_signed);
		b = msl_signed(m, n->in[1], is_signed);
		bool below = is_signed && ((a.is_literal && a.v < 0) || (b.is_literal && b.v < 0));
		bool differ = !a.is_literal && !b.is_literal && c_is_signed(a.c) != c_is_signed(b.c);
		if (!a.is_literal && (below || differ))
			a = msl_with_sign(m, a, n->type, is_signed);
		if (!b.is_literal && (below || differ))
			b = msl_with_sign(m, b, n->type, is_signed);
	}
	const char *s = arena_printf(m->mem, "%s %s %s", msl_wrap(m, a, P_PRODUCT), sign, msl_wrap(m, b, P_UNARY));
	if (n->width > 1)
		return msl_made(s, P_PRODUCT, n->width, c);
	if (small)
		return narrow_result(m, s, P_PRODUCT, 1, c_plain(n->type));
	return msl_made(s, P_PRODUCT, 1, b.is_literal ? MAX(a.c, C_INT) : usual(a.c, b.c));
}

static Expr
bit_not(Msl *m, const MslNode *n)
{
	Expr a = msl_lanes(m, n, 0);
	bool small = n->type == REG_I8 || n->type == REG_I16;
	const char *s = arena_printf(m->mem, "~%s", msl_wrap(m, a, P_UNARY));
	return small ? narrow_result(m, s, P_UNARY, n->width, c_plain(n->type)) : msl_made(s, P_UNARY, n->width, MAX(a.c,
	    C_INT));
}

/* What Metal has as a function, and whether it reads its operands with a sign. */
static const struct {
	const char *name;
	bool is_signed;
} int_function[THREAD_OPS_COUNT] = {
	[THREAD_MULHI_U] = {"mulhi", false}, [THREAD_MULHI_S] = {"mulhi", true},   [THREAD_SMIN] = {"min", true},
	[THREAD_SMAX] = {"max", true},       [THREAD_UMIN] = {"min", false},       [THREAD_UMAX] = {"max", false},
	[THREAD_CLZ] = {"clz", false},       [THREAD_POPCOUNT] = {"popcount", false},
};

/* Both of one type, as Metal's functions want them. */
static Expr
int_call(Msl *m, const MslNode *n)
{
	const char *name = int_function[n->t->op].name;
	bool is_signed = int_function[n->t->op].is_signed;
	CType c = c_plain(n->type);
	if (!name)
		die("%s is no operation on integers", thread_op_text[n->t->op]);
	Expr a = msl_lanes(m, n, 0), b = thread_op_operands[n->t->op] > 1 ? msl_lanes(m, n, 1) : a;
	bool plain = n->width == 1 && msl_never_negative(m, n->in[0]) &&
	    (thread_op_operands[n->t->op] == 1 || msl_never_negative(m, n->in[1]));
	if (plain && (n->type == REG_I32 || n->type == REG_I64) && n->t->op >= THREAD_SMIN && n->t->op <= THREAD_UMAX)
		is_signed = a.is_literal ? c_is_signed(b.c) : c_is_signed(a.c);
	if (is_signed)
		c = (CType)(c - 1);
	a = msl_as(m, a, c, n->width);
	const char *s = thread_op_operands[n->t->op] == 1
	    ? arena_printf(m->mem, "%s(%s)", name, a.text)
	    : arena_printf(m->mem, "%s(%s, %s)", name, a.text, msl_as(m, b, c, n->width).text);
	return msl_made(s, P_NAME, n->width, c);
}

Expr
msl_int_expr(Msl *m, const MslNode *n)
{
	switch (n->t->op) {
	case THREAD_ADD: return sum(m, n, "+", P_SUM);
	case THREAD_SUB: return sum(m, n, "-", P_SUM);
	case THREAD_MUL: return sum(m, n, "*", P_PRODUCT);
	case THREAD_SDIV: return divide(m, n, "/", true);
	case THREAD_UDIV: return divide(m, n, "/", false);
	case THREAD_SREM: return divide(m, n, "%", true);
	case THREAD_UREM: return divide(m, n, "%", false);
	case THREAD_AND: return bits(m, n, "&", P_AND);
	case THREAD_OR: return bits(m, n, "|", P_OR);
	case THREAD_XOR: return bits(m, n, "^", P_XOR);
	case THREAD_NOT: return bit_not(m, n);
	case THREAD_SHL: return shift_left(m, n);
	case THREAD_LSHR: case THREAD_ASHR: return shift_right(m, n);
	default: return int_call(m, n);
	}
}

/* Both as numbers of one kind.  `is_signed` -1: only whether they are equal is asked. */
static void
compared(Msl *m, const MslNode *n, int is_signed, Expr *a, Expr *b)
{
	RegType t = msl_type(m, n->in[0]);
	bool plain = msl_never_negative(m, n->in[0]) && msl_never_negative(m, n->in[1]);
	bool below = (a->is_literal && a->v < 0) || (b->is_literal && b->v < 0);
	if (is_signed >= 0 && !plain) {
		*a = msl_signed(m, n->in[0], is_signed);
		*b = msl_signed(m, n->in[1], is_signed);
	}
	if (is_signed == 0 && below) {                  /* an index below 0 is beyond any extent */
		*a = msl_with_sign(m, *a, t, false);
		*b = msl_with_sign(m, *b, t, false);
	} else if (!a->is_literal && !b->is_literal && c_is_signed(a->c) != c_is_signed(b->c)) {
		*a = msl_with_sign(m, *a, t, is_signed == 1 || plain);
		*b = msl_with_sign(m, *b, t, is_signed == 1 || plain);
	} else if (a->is_literal != b->is_literal) {
		Expr *k = a->is_literal ? a : b, *v = a->is_literal ? b : a;
		if (!c_is_signed(v->c) || k->v != (int32_t)k->v)
			*k = msl_as(m, *k, v->c, 1);
		else
			k->text = arena_printf(m->mem, "%lld", (long long)k->v);
	}
}

Expr
msl_compare_ints(Msl *m, const MslNode *n, const char *sign, int strength, int is_signed)
{
	RegType t = msl_type(m, n->in[0]);
	Expr a = msl_lanes(m, n, 0), b = msl_lanes(m, n, 1);
	if (t == REG_I32 || t == REG_I64)
		compared(m, n, is_signed, &a, &b);
	else if (t == REG_I8 || t == REG_I16) {
		a = msl_with_sign(m, a, t, is_signed == 1);
		b = msl_with_sign(m, b, t, is_signed == 1);
	}
	return msl_made(arena_printf(m->mem, "%s %s %s", msl_wrap(m, a, strength + 1), sign, msl_wrap(m, b, strength + 1)),
	    strength, 1, C_BOOL);
}
