/* Conversions: between integers by C's own, of floats to integers by functions that saturate, of bits by as_type. */
#include "emit/msl/msl.h"

static Expr
extended(Msl *m, const MslNode *n, bool is_signed)
{
	RegType from = msl_type(m, n->in[0]);
	Expr x = msl_lanes(m, n, 0);
	CType to = c_plain(n->type), c = is_signed ? (CType)(to - 1) : to;
	if (from == REG_PRED && is_signed)
		return msl_made(arena_printf(m->mem, "%s ? %s : %s", msl_wrap(m, x, P_OROR),
		    n->type == REG_I64 ? "-1L" : "-1",
		    n->type == REG_I64 ? "0L" : "0"), P_SELECT, 1, (CType)(to - 1));
	if (from == REG_PRED)
		return msl_as(m, x, c, n->width);
	if (from == REG_I8 || from == REG_I16 || n->width > 1)
		return msl_as(m, msl_with_sign(m, x, from, is_signed), c, n->width);
	bool plain = msl_never_negative(m, n->in[0]);
	if (!plain && is_signed != c_is_signed(x.c))
		x = msl_as(m, x, is_signed ? C_INT : C_UINT, 1);
	return msl_as(m, x, C_LONG, 1);                 /* 32 bits of either kind fit */
}

static Expr
truncated(Msl *m, const MslNode *n)
{
	Expr x = msl_lanes(m, n, 0);
	CType c = c_plain(n->type);
	if (n->type == REG_I32 && n->width == 1 && c_is_signed(x.c) && !msl_is_full(msl_range(m, n), REG_I32))
		c = C_INT;
	return msl_as(m, x, c, n->width);
}

static Expr
int_to_float(Msl *m, const MslNode *n, bool is_signed)
{
	RegType from = msl_type(m, n->in[0]);
	Expr x = msl_lanes(m, n, 0);
	bool small = from == REG_I8 || from == REG_I16;
	if (from != REG_PRED && (small || c_is_signed(x.c) != is_signed) &&
	    !(n->width == 1 && !small && msl_never_negative(m, n->in[0])))
		x = msl_with_sign(m, x, from, is_signed);
	if (n->type != REG_BF16)
		return msl_as(m, x, c_plain(n->type), n->width);
	return msl_as(m, msl_as(m, x, C_FLOAT, n->width), C_BFLOAT, n->width);
}

/* Towards zero, as far as the type goes; NaN is 0: Metal's own conversion leaves that open. */
static Expr
float_to_int(Msl *m, const MslNode *n, bool is_signed)
{
	Expr x = msl_as(m, msl_lanes(m, n, 0), C_FLOAT, n->width);
	bool wide = n->type == REG_I64, small = n->type == REG_I8 || n->type == REG_I16;
	MslHelper h = wide ? (is_signed ? HELPER_TO_LONG : HELPER_TO_ULONG) : is_signed ? HELPER_TO_INT : HELPER_TO_UINT;
	CType c = wide ? (is_signed ? C_LONG : C_ULONG) : is_signed ? C_INT : C_UINT;
	x = msl_made(arena_printf(m->mem, "%s(%s)", msl_helper(m, h), x.text), P_NAME, n->width, c);
	if (!small)
		return x;
	int most = (1 << (8 * thread_type_bytes(n->type) - is_signed)) - 1;
	const char *type = c_vector(m, c, n->width);
	if (is_signed)
		x.text = arena_printf(m->mem, "clamp(%s, %s(%d), %s(%d))",
		    x.text, type, -most - 1, type, most);
	else
		x.text = arena_printf(m->mem, "min(%s, %s(%d))", x.text, type, most);
	return msl_as(m, x, c_plain(n->type), n->width);
}

static Expr
same_bits(Msl *m, const MslNode *n)
{
	RegType from = msl_type(m, n->in[0]);
	Expr x = msl_lanes(m, n, 0);
	CType c = c_plain(n->type);
	if (from == REG_GLOBAL)
		return msl_made(arena_printf(m->mem, "ulong(%s)", x.text), P_NAME, 1, C_ULONG);
	if (n->type == REG_GLOBAL)
		return msl_made(arena_printf(m->mem, "(device uchar *)%s", msl_wrap(m, x, P_UNARY)), P_UNARY, 1, C_DEVICE);
	if (x.is_literal)
		x = msl_as(m, x, c_plain(from), 1);
	else if (x.c < c_plain(from) - 1 || x.width != n->width)        /* narrower or splat */
		x = msl_as(m, x, c_plain(from), n->width);
	return msl_made(arena_printf(m->mem, "as_type<%s>(%s)", c_vector(m, c, n->width), x.text), P_NAME, n->width, c);
}

Expr
msl_cast_expr(Msl *m, const MslNode *n)
{
	switch (n->t->op) {
	case CAST_SEXT: return extended(m, n, true);
	case CAST_ZEXT: return extended(m, n, false);
	case CAST_TRUNC: return truncated(m, n);
	case CAST_S2F: return int_to_float(m, n, true);
	case CAST_U2F: return int_to_float(m, n, false);
	case CAST_F2S: return float_to_int(m, n, true);
	case CAST_F2U: return float_to_int(m, n, false);
	case CAST_BITS: return same_bits(m, n);
	default: return msl_as(m, msl_lanes(m, n, 0), c_plain(n->type), n->width);
	}
}
