/* Operations as C's operators and Metal's functions: the family that each belongs to, bools, and choices. */
#include "emit/msl/msl.h"

#include <string.h>

/* An operand as its bits with or without a sign.  Below 32 bits that matters wherever C promotes it: to compare it, to
 * divide it, to shift it to the right. */
Expr
msl_with_sign(Msl *m, Expr x, RegType t, bool is_signed)
{
	int unused = 64 - 8 * thread_type_bytes(t);
	if (x.is_literal && (t == REG_I8 || t == REG_I16)) {
		int64_t v = (int64_t)((uint64_t)x.v << unused);
		v = is_signed ? v >> unused : (int64_t)((uint64_t)v >> unused);
		return (Expr){arena_printf(m->mem, "%lld", (long long)v), v < 0 ? P_UNARY : P_NAME, 1, C_INT, true, v};
	}
	return msl_as(m, x, is_signed ? (CType)(c_plain(t) - 1) : c_plain(t), x.width);
}

bool
msl_is_full(ThreadRange r, RegType t)
{
	ThreadRange any = thread_range_any(t);
	return r.lo == any.lo && r.hi == any.hi;
}

static Expr
of_preds(Msl *m, const MslNode *n)
{
	const char *sign = n->t->op == THREAD_AND ? "&&" : n->t->op == THREAD_OR ? "||" : "!=";
	int strength = n->t->op == THREAD_AND ? P_ANDAND : n->t->op == THREAD_OR ? P_OROR : P_EQUAL;
	Expr a = msl_lanes(m, n, 0);
	if (n->t->op == THREAD_NOT)
		return msl_made(arena_printf(m->mem, "!%s", msl_wrap(m, a, P_UNARY)), P_UNARY, 1, C_BOOL);
	Expr b = msl_lanes(m, n, 1);
	bool same_a = a.strength == strength && strength <= P_ANDAND, same_b = b.strength == strength &&
	    strength <= P_ANDAND;
	return msl_made(arena_printf(m->mem, "%s %s %s", same_a ? a.text : msl_wrap(m, a, P_EQUAL), sign,
	    same_b ? b.text : msl_wrap(m, b, strength == P_EQUAL ? P_LESS : P_EQUAL)), strength, 1, C_BOOL);
}

static Expr
value_of(Msl *m, Expr x, int width)
{
	const char *type = c_vector(m, C_BFLOAT, width);
	if (strncmp(x.text, "bfloat", 6) != 0)
		x = msl_made(arena_printf(m->mem, "%s(%s)", type, x.text), P_NAME, width, C_BFLOAT);
	return x;
}

static Expr
select(Msl *m, const MslNode *n)
{
	Expr c = msl_expr(m, n->in, 1), a = msl_lanes(m, n, 1), b = msl_lanes(m, n, 2);
	if (n->type == REG_PRED)
		return msl_made(arena_printf(m->mem, "%s ? %s : %s", msl_wrap(m, c, P_OROR), msl_wrap(m, a, P_OROR),
		    msl_wrap(m, b, P_OROR)), P_SELECT, 1, C_BOOL);
	if (n->type == REG_GLOBAL || n->type == REG_SHARED)
		return msl_made(arena_printf(m->mem, "%s ? %s : %s", msl_wrap(m, c, P_OROR),
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
	if (as == C_BFLOAT) {                           /* rvalues: lvalues of two address spaces have no common type */
		a = value_of(m, a, n->width);
		b = value_of(m, b, n->width);
	}
	return msl_made(arena_printf(m->mem, "%s ? %s : %s", msl_wrap(m, c, P_OROR), msl_wrap(m, a, P_OROR),
	    msl_wrap(m, b, P_OROR)), P_SELECT, n->width, as);
}

Expr
msl_op_expr(Msl *m, const MslNode *n)
{
	RegType t = msl_type(m, n->in[0]);
	switch (n->t->op) {
	case THREAD_SELECT: return select(m, n);
	case THREAD_EQ: return msl_compare_ints(m, n, "==", P_EQUAL, -1);
	case THREAD_NE: return msl_compare_ints(m, n, "!=", P_EQUAL, -1);
	case THREAD_SLT: return msl_compare_ints(m, n, "<", P_LESS, 1);
	case THREAD_SLE: return msl_compare_ints(m, n, "<=", P_LESS, 1);
	case THREAD_ULT: return msl_compare_ints(m, n, "<", P_LESS, 0);
	case THREAD_ULE: return msl_compare_ints(m, n, "<=", P_LESS, 0);
	case THREAD_FEQ: case THREAD_FNE: case THREAD_FLT: case THREAD_FLE: case THREAD_FUNO:
		return msl_compare_floats(m, n);
	default: break;
	}
	if (t == REG_PRED)
		return of_preds(m, n);
	return thread_is_float(n->type) ? msl_float_expr(m, n) : msl_int_expr(m, n);
}
