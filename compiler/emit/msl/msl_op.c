/* Operations and conversions as C's operators and Metal's functions.
 *
 * Integers: a result that stays in range is written with a sign, and one that may wrap without (C's signed sums must not
 * overflow); operations that read their operands as signed or unsigned numbers get casts only where it matters.  Shifts
 * and masks of places on the grid are products, quotients and remainders, as one writes them by hand.  Operands below 32
 * bits are promoted to int by C, so their results are cast back.  bfloat has no arithmetic worth the name: it is done in
 * float, which rounds to the same. */
#include "emit/msl/msl.h"

#include <string.h>

static Expr
expr(const char *text, int strength, int width, CType c)
{
	return (Expr){text, strength, width, c, false, 0};
}

static Expr
lanes(Msl *m, const MslNode *n, int k)
{
	return msl_expr(m, n->in + k * n->width, n->width);
}

static int
widest(Expr a, Expr b)
{
	return MAX(a.width, b.width);
}

/* ---- integers ---- */

/* An operand as its bits with or without a sign.  Below 32 bits that matters wherever C promotes it: to compare it, to
 * divide it, to shift it to the right. */
static Expr
with_sign(Msl *m, Expr x, RegType t, bool is_signed)
{
	int unused = 64 - 8 * msl_size(t);
	if (x.is_literal && (t == REG_I8 || t == REG_I16)) {
		int64_t v = (int64_t)((uint64_t)x.v << unused);
		v = is_signed ? v >> unused : (int64_t)((uint64_t)v >> unused);
		return (Expr){arena_printf(m->e.mem, "%lld", (long long)v), v < 0 ? P_UNARY : P_NAME, 1, C_INT, true, v};
	}
	return msl_as(m, x, is_signed ? (CType)(c_plain(t) - 1) : c_plain(t), x.width);
}

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

static bool
is_full(MslRange r, RegType t)
{
	MslRange any = msl_range_any(t);
	return r.lo == any.lo && r.hi == any.hi;
}

static Expr
narrow_result(Msl *m, const char *text, int strength, int width, CType c)
{
	if (width > 1)
		return expr(text, strength, width, c);
	return expr(arena_printf(m->e.mem, "%s(%s)", c_text[c], text), P_NAME, 1, c);
}

/* An operand that C makes as wide as the other by itself: what it was before. */
static Expr
short_operand(Msl *m, Reg r, Expr other)
{
	const MslNode *n = msl_def(m, r);
	Expr x = msl_expr(m, &r, 1);
	if (n->kind != MSL_CAST || n->name || n->type != REG_I64 || (n->op != CAST_ZEXT && n->op != CAST_SEXT) ||
	    (other.c != C_LONG && other.c != C_ULONG) || other.is_literal || msl_type(m, n->in[0]) != REG_I32)
		return x;
	Expr plain = msl_expr(m, n->in, 1);
	bool same_sign = c_is_signed(plain.c) == (n->op == CAST_SEXT) && !(c_is_signed(plain.c) && other.c == C_ULONG);
	return same_sign || msl_never_negative(msl_range_of(m, n->in[0])) ? plain : x;
}

/* a + b, a - b, a * b */
static Expr
sum(Msl *m, const MslNode *n, const char *sign, int strength)
{
	RegType t = n->type;
	Expr a = lanes(m, n, 0), b = lanes(m, n, 1);
	int w = widest(a, b), right = n->op == EMIT_MUL || n->op == EMIT_ADD ? strength : strength + 1;
	if (t == REG_I8 || t == REG_I16 || w > 1) {
		CType c = c_plain(t);
		if (n->op == EMIT_MUL && w == 1)
			a = msl_as(m, a, C_UINT, 1);
		else if (w > 1) {
			a = msl_as(m, a, c, a.width);
			b = msl_as(m, b, c, b.width);
		}
		return narrow_result(m, arena_printf(m->e.mem, "%s %s %s", msl_wrap(m, a, strength), sign,
		    msl_wrap(m, b, right)), strength, w, c);
	}
	bool safe = n->range.geometry || !is_full(n->range, t);
	if (a.is_literal)
		a = msl_as(m, a, t == REG_I64 ? C_LONG : C_INT, 1);
	if (safe) {
		a = short_operand(m, n->in[0], b);
		b = short_operand(m, n->in[1], a);
	}
	if (safe && n->range.lo < 0) {                  /* a difference below 0 must have a sign */
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
	if (!safe && n->op == EMIT_MUL && b.is_literal && b.v < 0)
		b = msl_as(m, b, t == REG_I64 ? C_ULONG : C_UINT, 1);
	CType c = a.is_literal ? (b.is_literal ? a.c : MAX(b.c, C_INT)) : b.is_literal ? MAX(a.c, C_INT) : usual(a.c, b.c);
	bool minus = b.is_literal && b.v < 0 && n->op == EMIT_ADD && b.v > INT32_MIN;
	if (minus)
		b = (Expr){arena_printf(m->e.mem, "%lld", -(long long)b.v), P_NAME, 1, b.c, true, -b.v};
	else if (b.is_literal && b.v >= 0 && b.v <= INT32_MAX && !a.is_literal)
		b.text = arena_printf(m->e.mem, "%lld", (long long)b.v);
	return expr(arena_printf(m->e.mem, "%s %s %s", msl_wrap(m, a, strength), minus ? "-" : sign, msl_wrap(m, b, right)),
	    strength, 1, c);
}

/* `a << 3` of a place is `a * 8`. */
static Expr
shift_left(Msl *m, const MslNode *n)
{
	Expr a = lanes(m, n, 0), b = lanes(m, n, 1);
	CType c = c_plain(n->type);
	bool small = n->type == REG_I8 || n->type == REG_I16, safe = n->range.geometry || !is_full(n->range, n->type);
	if (b.is_literal && safe && !small && n->width == 1 && b.v < 31) {
		Expr x = a.is_literal ? msl_as(m, a, n->type == REG_I64 ? C_LONG : C_INT, 1) : a;
		return expr(arena_printf(m->e.mem, "%s * %lld", msl_wrap(m, x, P_PRODUCT),
		    (long long)(INT64_C(1) << b.v)), P_PRODUCT,
		    1, MAX(x.c, C_INT));
	}
	a = msl_as(m, a, small && n->width == 1 ? C_UINT : c, n->width);
	if (n->width > 1)
		b = msl_as(m, b, c, b.width);
	const char *s = arena_printf(m->e.mem, "%s << %s", msl_wrap(m, a, P_UNARY), msl_wrap(m, b, P_UNARY));
	return small ? narrow_result(m, s, P_SHIFT, n->width, c) : expr(s, P_SHIFT, n->width, c);
}

static Expr
shift_right(Msl *m, const MslNode *n)
{
	bool is_signed = n->op == EMIT_ASHR, small = n->type == REG_I8 || n->type == REG_I16;
	CType c = c_plain(n->type);
	Expr a = lanes(m, n, 0), b = lanes(m, n, 1);
	if (n->width > 1) {
		a = msl_as(m, a, is_signed ? (CType)(c - 1) : c, n->width);
		b = msl_as(m, b, a.c, b.width);
		return expr(arena_printf(m->e.mem, "%s >> %s", msl_wrap(m, a, P_UNARY), msl_wrap(m, b, P_UNARY)), P_SHIFT,
		    n->width, a.c);
	}
	a = small ? with_sign(m, a, n->type, is_signed) : msl_signed(m, n->in[0], is_signed);
	MslRange r = msl_range_of(m, n->in[0]);
	bool product = b.is_literal && !small && r.geometry && r.lo >= 0 && b.v < 31;
	const char *s = product
	    ? arena_printf(m->e.mem, "%s / %lld", msl_wrap(m, a, P_PRODUCT), (long long)(INT64_C(1) << b.v))
	    : arena_printf(m->e.mem, "%s >> %s", msl_wrap(m, a, P_UNARY), msl_wrap(m, b, P_UNARY));
	int strength = product ? P_PRODUCT : P_SHIFT;
	return small ? narrow_result(m, s, strength, 1, c) : expr(s, strength, 1, MAX(a.c, C_INT));
}

static Expr
bits(Msl *m, const MslNode *n, const char *sign, int strength)
{
	Expr a = lanes(m, n, 0), b = lanes(m, n, 1);
	CType c = c_plain(n->type);
	int w = widest(a, b);
	bool small = n->type == REG_I8 || n->type == REG_I16;
	MslRange r = msl_range_of(m, n->in[0]);
	if (n->op == EMIT_AND && n->width == 1 && !small && b.is_literal && b.v > 0 && (b.v & (b.v + 1)) == 0 &&
	    r.geometry &&
	    r.lo >= 0)
		return expr(arena_printf(m->e.mem, "%s %% %lld", msl_wrap(m, a, P_PRODUCT), (long long)b.v + 1),
		    P_PRODUCT, 1,
		    MAX(a.c, C_INT));
	if (n->width > 1) {
		a = msl_as(m, a, c, a.width);
		b = msl_as(m, b, c, b.width);
	} else if (b.is_literal && !small) {
		b = msl_as(m, b, n->type == REG_I64 ? C_ULONG : C_UINT, 1);
		if (c_is_signed(a.c) && n->range.lo >= 0)
			b = msl_as(m, b, a.c, 1);
	}
	bool chain = msl_def(m, n->in[0])->kind == MSL_OP && msl_def(m, n->in[0])->op == n->op;
	const char *s = arena_printf(m->e.mem, "%s %s %s", msl_wrap(m, a, chain ? strength : P_UNARY), sign,
	    msl_wrap(m, b, P_UNARY));
	return small ? narrow_result(m, s, strength, w, c) : expr(s, strength, w, usual(a.c, b.c));
}

/* What is never negative is divided as it is, unless the other operand is below 0. */
static Expr
divide(Msl *m, const MslNode *n, const char *sign, bool is_signed)
{
	Expr a = lanes(m, n, 0), b = lanes(m, n, 1);
	bool small = n->type == REG_I8 || n->type == REG_I16;
	CType c = is_signed ? (CType)(c_plain(n->type) - 1) : c_plain(n->type);
	if (small || n->width > 1) {
		a = with_sign(m, a, n->type, is_signed);
		b = with_sign(m, b, n->type, is_signed);
		a = n->width > 1 ? msl_as(m, a, c, a.width) : a;
		b = n->width > 1 ? msl_as(m, b, c, b.width) : b;
	} else {
		a = msl_signed(m, n->in[0], is_signed);
		b = msl_signed(m, n->in[1], is_signed);
		bool below = is_signed && ((a.is_literal && a.v < 0) || (b.is_literal && b.v < 0));
		bool differ = !a.is_literal && !b.is_literal && c_is_signed(a.c) != c_is_signed(b.c);
		if (!a.is_literal && (below || differ))
			a = with_sign(m, a, n->type, is_signed);
		if (!b.is_literal && (below || differ))
			b = with_sign(m, b, n->type, is_signed);
	}
	const char *s = arena_printf(m->e.mem, "%s %s %s", msl_wrap(m, a, P_PRODUCT), sign, msl_wrap(m, b, P_UNARY));
	if (n->width > 1)
		return expr(s, P_PRODUCT, n->width, c);
	if (small)
		return narrow_result(m, s, P_PRODUCT, 1, c_plain(n->type));
	return expr(s, P_PRODUCT, 1, b.is_literal ? MAX(a.c, C_INT) : usual(a.c, b.c));
}

/* Both of one type, as Metal's functions want them. */
static Expr
int_call(Msl *m, const MslNode *n, const char *name, bool is_signed)
{
	CType c = c_plain(n->type);
	Expr a = lanes(m, n, 0), b = emit_op_operands[n->op] > 1 ? lanes(m, n, 1) : a;
	bool plain = n->width == 1 && msl_never_negative(msl_range_of(m, n->in[0])) &&
	    (emit_op_operands[n->op] == 1 || msl_never_negative(msl_range_of(m, n->in[1])));
	if (plain && (n->type == REG_I32 || n->type == REG_I64) && n->op >= EMIT_SMIN && n->op <= EMIT_UMAX)
		is_signed = a.is_literal ? c_is_signed(b.c) : c_is_signed(a.c);
	if (is_signed)
		c = (CType)(c - 1);
	a = msl_as(m, a, c, n->width);
	const char *s = emit_op_operands[n->op] == 1
	    ? arena_printf(m->e.mem, "%s(%s)", name, a.text)
	    : arena_printf(m->e.mem, "%s(%s, %s)", name, a.text, msl_as(m, b, c, n->width).text);
	return expr(s, P_NAME, n->width, c);
}

/* Both as numbers of one kind.  `is_signed` -1: only whether they are equal is asked. */
static void
compared(Msl *m, const MslNode *n, int is_signed, Expr *a, Expr *b)
{
	RegType t = msl_type(m, n->in[0]);
	bool plain = msl_never_negative(msl_range_of(m, n->in[0])) && msl_never_negative(msl_range_of(m, n->in[1]));
	bool below = (a->is_literal && a->v < 0) || (b->is_literal && b->v < 0);
	if (is_signed >= 0 && !plain) {
		*a = msl_signed(m, n->in[0], is_signed);
		*b = msl_signed(m, n->in[1], is_signed);
	}
	if (is_signed == 0 && below) {                  /* an index below 0 is beyond any extent */
		*a = with_sign(m, *a, t, false);
		*b = with_sign(m, *b, t, false);
	} else if (!a->is_literal && !b->is_literal && c_is_signed(a->c) != c_is_signed(b->c)) {
		*a = with_sign(m, *a, t, is_signed == 1 || plain);
		*b = with_sign(m, *b, t, is_signed == 1 || plain);
	} else if (a->is_literal != b->is_literal) {
		Expr *k = a->is_literal ? a : b, *v = a->is_literal ? b : a;
		if (!c_is_signed(v->c) || k->v != (int32_t)k->v)
			*k = msl_as(m, *k, v->c, 1);
		else
			k->text = arena_printf(m->e.mem, "%lld", (long long)k->v);
	}
}

static Expr
compare_ints(Msl *m, const MslNode *n, const char *sign, int strength, int is_signed)
{
	RegType t = msl_type(m, n->in[0]);
	Expr a = lanes(m, n, 0), b = lanes(m, n, 1);
	if (t == REG_I32 || t == REG_I64)
		compared(m, n, is_signed, &a, &b);
	else if (t == REG_I8 || t == REG_I16) {
		a = with_sign(m, a, t, is_signed == 1);
		b = with_sign(m, b, t, is_signed == 1);
	}
	return expr(arena_printf(m->e.mem, "%s %s %s", msl_wrap(m, a, strength + 1), sign, msl_wrap(m, b, strength + 1)),
	    strength, 1, C_BOOL);
}

static Expr
of_preds(Msl *m, const MslNode *n)
{
	const char *sign = n->op == EMIT_AND ? "&&" : n->op == EMIT_OR ? "||" : "!=";
	int strength = n->op == EMIT_AND ? P_ANDAND : n->op == EMIT_OR ? P_OROR : P_EQUAL;
	Expr a = lanes(m, n, 0);
	if (n->op == EMIT_NOT)
		return expr(arena_printf(m->e.mem, "!%s", msl_wrap(m, a, P_UNARY)), P_UNARY, 1, C_BOOL);
	Expr b = lanes(m, n, 1);
	bool same_a = a.strength == strength && strength <= P_ANDAND, same_b = b.strength == strength &&
	    strength <= P_ANDAND;
	return expr(arena_printf(m->e.mem, "%s %s %s", same_a ? a.text : msl_wrap(m, a, P_EQUAL), sign,
	    same_b ? b.text : msl_wrap(m, b, P_EQUAL)), strength, 1, C_BOOL);
}

/* ---- floats ---- */

static bool
is_narrow(RegType t)
{
	return t == REG_F16 || t == REG_BF16;
}

/* Is it done in float and rounded? */
static bool
in_float(const MslNode *n, RegType t)
{
	if (t == REG_BF16)
		return true;
	if (t != REG_F16)
		return false;
	switch (n->op) {
	case EMIT_FNEG: case EMIT_FABS: case EMIT_FADD: case EMIT_FSUB: case EMIT_FMUL: case EMIT_FMA: case EMIT_FMIN:
	case EMIT_FMAX: case EMIT_FFLOOR: case EMIT_FCEIL: case EMIT_FROUND: case EMIT_FTRUNC:
		return false;
	default:
		return !(n->op >= EMIT_FEQ && n->op <= EMIT_FUNO);
	}
}

static Expr
float_lanes(Msl *m, const MslNode *n, int k, bool widen)
{
	Expr x = lanes(m, n, k);
	return widen ? msl_as(m, x, C_FLOAT, x.width) : x;
}

static Expr
rounded(Msl *m, const MslNode *n, Expr x, bool widened)
{
	return widened ? msl_as(m, x, c_plain(n->type), n->width) : x;
}

static Expr
float_operator(Msl *m, const MslNode *n, const char *sign, int strength)
{
	bool widen = in_float(n, n->type);
	Expr a = float_lanes(m, n, 0, widen), b = float_lanes(m, n, 1, widen);
	int right = n->op == EMIT_FADD || n->op == EMIT_FMUL ? strength : strength + 1;
	if (a.width == 1 && b.width == 1 && n->width > 1)
		a = msl_as(m, a, a.c, n->width);
	if (b.strength == strength && n->op != EMIT_FSUB)       /* sums are added in their own order */
		right = strength + 1;
	return rounded(m, n, expr(arena_printf(m->e.mem, "%s %s %s", msl_wrap(m, a, strength), sign, msl_wrap(m, b, right)),
	    strength, widest(a, b), a.c), widen);
}

static Expr
float_call(Msl *m, const MslNode *n, const char *name)
{
	bool widen = in_float(n, n->type);
	CType c = widen || n->type == REG_F32 ? C_FLOAT : C_HALF;
	Text t = {0};
	text_printf(&t, "%s(", name);
	for (int k = 0; k < emit_op_operands[n->op]; k++)
		text_printf(&t, "%s%s", k ? ", " : "", msl_as(m, float_lanes(m, n, k, widen), c, n->width).text);
	text_put(&t, ")");
	Expr x = expr(arena_strdup(m->e.mem, t.at), P_NAME, n->width, c);
	text_close(&t);
	return rounded(m, n, x, widen);
}

static Expr
reciprocal(Msl *m, const MslNode *n)
{
	bool widen = is_narrow(n->type);
	Expr a = float_lanes(m, n, 0, widen);
	return rounded(m, n, expr(arena_printf(m->e.mem, "1.0f / %s", msl_wrap(m, a, P_UNARY)), P_PRODUCT, n->width,
	    C_FLOAT),
	    widen);
}

static Expr
saturated(Msl *m, const MslNode *n)
{
	Expr x = float_call(m, n, "fma");
	x.text = arena_printf(m->e.mem, "saturate(%s)", x.text);
	return x;
}

static Expr
compare_floats(Msl *m, const MslNode *n)
{
	static const char *const sign[] = {"==", "!=", "<", "<="};
	bool widen = msl_type(m, n->in[0]) == REG_BF16;
	Expr a = float_lanes(m, n, 0, widen), b = float_lanes(m, n, 1, widen);
	if (n->op == EMIT_FUNO)
		return expr(n->in[0] == n->in[1] ? arena_printf(m->e.mem, "isnan(%s)", a.text)
		                                 : arena_printf(m->e.mem, "isunordered(%s, %s)", a.text, b.text),
		    P_NAME, 1, C_BOOL);
	int strength = n->op <= EMIT_FNE ? P_EQUAL : P_LESS;
	return expr(arena_printf(m->e.mem, "%s %s %s", msl_wrap(m, a, strength + 1), sign[n->op - EMIT_FEQ],
	    msl_wrap(m, b, strength + 1)), strength, 1, C_BOOL);
}

static Expr
value_of(Msl *m, Expr x, int width)
{
	const char *type = c_vector(m, C_BFLOAT, width);
	if (strncmp(x.text, "bfloat", 6) != 0)
		x = expr(arena_printf(m->e.mem, "%s(%s)", type, x.text), P_NAME, width, C_BFLOAT);
	return x;
}

static Expr
select(Msl *m, const MslNode *n)
{
	Expr c = msl_expr(m, n->in, 1), a = lanes(m, n, 1), b = lanes(m, n, 2);
	if (n->type == REG_PRED)
		return expr(arena_printf(m->e.mem, "%s ? %s : %s", msl_wrap(m, c, P_OROR), msl_wrap(m, a, P_OROR),
		    msl_wrap(m, b, P_OROR)), P_SELECT, 1, C_BOOL);
	if (n->type == REG_GLOBAL || n->type == REG_SHARED)
		return expr(arena_printf(m->e.mem, "%s ? %s : %s", msl_wrap(m, c, P_OROR),
		    msl_pointer_like(m, n->in[1], n), msl_pointer_like(m, n->in[2], n)), P_SELECT, 1, a.c);
	CType as = a.c;
	if (a.is_literal || a.c != b.c)
		as = b.is_literal && !a.is_literal ? a.c : a.is_literal &&
		    !b.is_literal ? b.c : a.c == b.c ? a.c : c_plain(n->type);
	if (n->type == REG_I8 || n->type == REG_I16)
		as = c_plain(n->type);
	bool plain = a.is_literal && as >= C_INT && as <= C_UINT && n->width == 1 && a.v >= 0;
	if (!plain || !c_is_signed(as))
		a = msl_as(m, a, as, n->width);
	b = msl_as(m, b, as, n->width);
	if (as == C_BFLOAT) {                           /* values, not places that they are in */
		a = value_of(m, a, n->width);
		b = value_of(m, b, n->width);
	}
	return expr(arena_printf(m->e.mem, "%s ? %s : %s", msl_wrap(m, c, P_OROR), msl_wrap(m, a, P_OROR),
	    msl_wrap(m, b, P_OROR)), P_SELECT, n->width, as);
}

static Expr
bit_not(Msl *m, const MslNode *n)
{
	Expr a = lanes(m, n, 0);
	bool small = n->type == REG_I8 || n->type == REG_I16;
	const char *s = arena_printf(m->e.mem, "~%s", msl_wrap(m, a, P_UNARY));
	return small ? narrow_result(m, s, P_UNARY, n->width, c_plain(n->type)) : expr(s, P_UNARY, n->width, MAX(a.c,
	    C_INT));
}

static Expr
negated(Msl *m, const MslNode *n)
{
	bool widen = n->type == REG_BF16;
	Expr a = float_lanes(m, n, 0, widen);
	return rounded(m, n, expr(arena_printf(m->e.mem, "-%s", msl_wrap(m, a, P_UNARY + (a.text[0] == '-'))), P_UNARY,
	    a.width,
	    a.c), widen);
}

static Expr
int_expr(Msl *m, const MslNode *n)
{
	switch (n->op) {
	case EMIT_ADD: return sum(m, n, "+", P_SUM);
	case EMIT_SUB: return sum(m, n, "-", P_SUM);
	case EMIT_MUL: return sum(m, n, "*", P_PRODUCT);
	case EMIT_SDIV: return divide(m, n, "/", true);
	case EMIT_UDIV: return divide(m, n, "/", false);
	case EMIT_SREM: return divide(m, n, "%", true);
	case EMIT_UREM: return divide(m, n, "%", false);
	case EMIT_AND: return bits(m, n, "&", P_AND);
	case EMIT_OR: return bits(m, n, "|", P_OR);
	case EMIT_XOR: return bits(m, n, "^", P_XOR);
	case EMIT_NOT: return bit_not(m, n);
	case EMIT_SHL: return shift_left(m, n);
	case EMIT_LSHR: case EMIT_ASHR: return shift_right(m, n);
	case EMIT_MULHI_U: return int_call(m, n, "mulhi", false);
	case EMIT_MULHI_S: return int_call(m, n, "mulhi", true);
	case EMIT_SMIN: return int_call(m, n, "min", true);
	case EMIT_SMAX: return int_call(m, n, "max", true);
	case EMIT_UMIN: return int_call(m, n, "min", false);
	case EMIT_UMAX: return int_call(m, n, "max", false);
	case EMIT_POPCOUNT: return int_call(m, n, "popcount", false);
	case EMIT_CLZ: return int_call(m, n, "clz", false);
	default: die("%s is no operation on integers", emit_op_text[n->op]);
	}
}

static Expr
float_expr(Msl *m, const MslNode *n)
{
	switch (n->op) {
	case EMIT_FADD: return float_operator(m, n, "+", P_SUM);
	case EMIT_FSUB: return float_operator(m, n, "-", P_SUM);
	case EMIT_FMUL: return float_operator(m, n, "*", P_PRODUCT);
	case EMIT_FDIV: return float_operator(m, n, "/", P_PRODUCT);
	case EMIT_FDIV_FAST: return float_call(m, n, "fast::divide");
	case EMIT_FNEG: return negated(m, n);
	case EMIT_FABS: return float_call(m, n, "fabs");
	case EMIT_FMA: return float_call(m, n, "fma");
	case EMIT_FMIN: return float_call(m, n, "min");
	case EMIT_FMAX: return float_call(m, n, "max");
	case EMIT_FSQRT: return float_call(m, n, "sqrt");
	case EMIT_FSQRT_FAST: return float_call(m, n, "fast::sqrt");
	case EMIT_FRSQRT_FAST: return float_call(m, n, "fast::rsqrt");
	case EMIT_FRCP_FAST: return reciprocal(m, n);
	case EMIT_EXP2_FAST: return float_call(m, n, "fast::exp2");
	case EMIT_LOG2_FAST: return float_call(m, n, "fast::log2");
	case EMIT_SIN_FAST: return float_call(m, n, "fast::sin");
	case EMIT_COS_FAST: return float_call(m, n, "fast::cos");
	case EMIT_TANH_FAST: return float_call(m, n, "fast::tanh");
	case EMIT_FMA_SAT: return saturated(m, n);
	case EMIT_FFLOOR: return float_call(m, n, "floor");
	case EMIT_FCEIL: return float_call(m, n, "ceil");
	case EMIT_FROUND: return float_call(m, n, "rint");
	case EMIT_FTRUNC: return float_call(m, n, "trunc");
	default: die("%s is no operation on floats", emit_op_text[n->op]);
	}
}

Expr
msl_op_expr(Msl *m, const MslNode *n)
{
	RegType t = msl_type(m, n->in[0]);
	switch (n->op) {
	case EMIT_SELECT: return select(m, n);
	case EMIT_EQ: return compare_ints(m, n, "==", P_EQUAL, -1);
	case EMIT_NE: return compare_ints(m, n, "!=", P_EQUAL, -1);
	case EMIT_SLT: return compare_ints(m, n, "<", P_LESS, 1);
	case EMIT_SLE: return compare_ints(m, n, "<=", P_LESS, 1);
	case EMIT_ULT: return compare_ints(m, n, "<", P_LESS, 0);
	case EMIT_ULE: return compare_ints(m, n, "<=", P_LESS, 0);
	case EMIT_FEQ: case EMIT_FNE: case EMIT_FLT: case EMIT_FLE: case EMIT_FUNO: return compare_floats(m, n);
	default: break;
	}
	if (t == REG_PRED)
		return of_preds(m, n);
	return msl_is_float(n->type) ? float_expr(m, n) : int_expr(m, n);
}

/* ---- conversions ---- */

static Expr
extended(Msl *m, const MslNode *n, bool is_signed)
{
	RegType from = msl_type(m, n->in[0]);
	Expr x = lanes(m, n, 0);
	CType to = c_plain(n->type), c = is_signed ? (CType)(to - 1) : to;
	if (from == REG_PRED && is_signed)
		return expr(arena_printf(m->e.mem, "%s ? %s : %s", msl_wrap(m, x, P_OROR),
		    n->type == REG_I64 ? "-1L" : "-1",
		    n->type == REG_I64 ? "0L" : "0"), P_SELECT, 1, (CType)(to - 1));
	if (from == REG_PRED)
		return msl_as(m, x, c, n->width);
	if (from == REG_I8 || from == REG_I16 || n->width > 1)
		return msl_as(m, with_sign(m, x, from, is_signed), c, n->width);
	bool plain = msl_never_negative(msl_range_of(m, n->in[0]));
	if (!plain && is_signed != c_is_signed(x.c))
		x = msl_as(m, x, is_signed ? C_INT : C_UINT, 1);
	return msl_as(m, x, C_LONG, 1);                 /* 32 bits of either kind fit */
}

static Expr
truncated(Msl *m, const MslNode *n)
{
	Expr x = lanes(m, n, 0);
	CType c = c_plain(n->type);
	if (n->type == REG_I32 && n->width == 1 && c_is_signed(x.c) && !is_full(n->range, REG_I32))
		c = C_INT;
	return msl_as(m, x, c, n->width);
}

static Expr
int_to_float(Msl *m, const MslNode *n, bool is_signed)
{
	RegType from = msl_type(m, n->in[0]);
	Expr x = lanes(m, n, 0);
	bool small = from == REG_I8 || from == REG_I16;
	if (from != REG_PRED && (small || c_is_signed(x.c) != is_signed) &&
	    !(n->width == 1 && !small && msl_never_negative(msl_range_of(m, n->in[0]))))
		x = with_sign(m, x, from, is_signed);
	if (n->type != REG_BF16)
		return msl_as(m, x, c_plain(n->type), n->width);
	return msl_as(m, msl_as(m, x, C_FLOAT, n->width), C_BFLOAT, n->width);
}

/* Towards zero, as far as the type goes; NaN is 0: Metal's own conversion leaves that open. */
static Expr
float_to_int(Msl *m, const MslNode *n, bool is_signed)
{
	Expr x = msl_as(m, lanes(m, n, 0), C_FLOAT, n->width);
	bool wide = n->type == REG_I64, small = n->type == REG_I8 || n->type == REG_I16;
	MslHelper h = wide ? (is_signed ? HELPER_TO_LONG : HELPER_TO_ULONG) : is_signed ? HELPER_TO_INT : HELPER_TO_UINT;
	CType c = wide ? (is_signed ? C_LONG : C_ULONG) : is_signed ? C_INT : C_UINT;
	x = expr(arena_printf(m->e.mem, "%s(%s)", msl_helper(m, h), x.text), P_NAME, n->width, c);
	if (!small)
		return x;
	int most = (1 << (8 * msl_size(n->type) - is_signed)) - 1;
	const char *type = c_vector(m, c, n->width);
	if (is_signed)
		x.text = arena_printf(m->e.mem, "clamp(%s, %s(%d), %s(%d))",
		    x.text, type, -most - 1, type, most);
	else
		x.text = arena_printf(m->e.mem, "min(%s, %s(%d))", x.text, type, most);
	return msl_as(m, x, c_plain(n->type), n->width);
}

static Expr
same_bits(Msl *m, const MslNode *n)
{
	RegType from = msl_type(m, n->in[0]);
	Expr x = lanes(m, n, 0);
	CType c = c_plain(n->type);
	if (from == REG_GLOBAL)
		return expr(arena_printf(m->e.mem, "ulong(%s)", x.text), P_NAME, 1, C_ULONG);
	if (n->type == REG_GLOBAL)
		return expr(arena_printf(m->e.mem, "(device uchar *)%s", msl_wrap(m, x, P_UNARY)), P_UNARY, 1, C_DEVICE);
	if (x.is_literal)
		x = msl_as(m, x, c_plain(from), 1);
	else if (x.c < c_plain(from) - 1 || x.width != n->width)        /* narrower or splat */
		x = msl_as(m, x, c_plain(from), n->width);
	return expr(arena_printf(m->e.mem, "as_type<%s>(%s)", c_vector(m, c, n->width), x.text), P_NAME, n->width, c);
}

Expr
msl_cast_expr(Msl *m, const MslNode *n)
{
	switch (n->op) {
	case CAST_SEXT: return extended(m, n, true);
	case CAST_ZEXT: return extended(m, n, false);
	case CAST_TRUNC: return truncated(m, n);
	case CAST_S2F: return int_to_float(m, n, true);
	case CAST_U2F: return int_to_float(m, n, false);
	case CAST_F2S: return float_to_int(m, n, true);
	case CAST_F2U: return float_to_int(m, n, false);
	case CAST_BITS: return same_bits(m, n);
	default: return msl_as(m, lanes(m, n, 0), c_plain(n->type), n->width);
	}
}
