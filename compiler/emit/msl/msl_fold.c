/* What need not be computed: constants, operands that change nothing, and what ranges decide (a clamp that never clamps,
 * a test that always holds). */
#include "emit/msl/msl.h"

bool
msl_is_comparison(EmitOp op)
{
	return op >= EMIT_EQ && op <= EMIT_FUNO;
}

/* What two known integers give; false: not folded. */
static bool
fold(EmitOp op, RegType t, int64_t a, int64_t b, int64_t *out)
{
	uint64_t x = (uint64_t)a, y = (uint64_t)b;
	uint64_t mask = msl_size(t) == 8 ? UINT64_MAX : (UINT64_C(1) << 8 * msl_size(t)) - 1;
	switch (op) {
	case EMIT_ADD: *out = (int64_t)(x + y); return true;
	case EMIT_SUB: *out = (int64_t)(x - y); return true;
	case EMIT_MUL: *out = (int64_t)(x * y); return true;
	case EMIT_AND: *out = a & b; return true;
	case EMIT_OR: *out = a | b; return true;
	case EMIT_XOR: *out = a ^ b; return true;
	case EMIT_SHL: *out = (int64_t)(x << (b & 63)); return true;
	case EMIT_LSHR: *out = (int64_t)((x & mask) >> (b & 63)); return true;
	case EMIT_EQ: *out = a == b; return true;
	case EMIT_NE: *out = a != b; return true;
	case EMIT_SLT: *out = a < b; return true;
	case EMIT_SLE: *out = a <= b; return true;
	case EMIT_SMIN: *out = MIN(a, b); return true;
	case EMIT_SMAX: *out = MAX(a, b); return true;
	default: return false;
	}
}

/* An operand that changes nothing; 0: there is none. */
static Reg
neutral(const Msl *m, EmitOp op, RegType t, Reg a, Reg b)
{
	int64_t v;
	if (msl_is_float(t) || !msl_const(m, b, &v))
		return 0;
	switch (op) {
	case EMIT_ADD: case EMIT_SUB: case EMIT_SHL: case EMIT_LSHR: case EMIT_ASHR: case EMIT_XOR:
		return v == 0 && t != REG_PRED ? a : 0;
	case EMIT_OR:
		return v == 0 ? a : t == REG_PRED ? b : 0;
	case EMIT_MUL: case EMIT_SDIV: case EMIT_UDIV:
		return v == 1 ? a : 0;
	case EMIT_AND:
		return t == REG_PRED ? (v ? a : b) : v == -1 ? a : v == 0 ? b : 0;
	default:
		return 0;
	}
}

/* c < n + k is c - k < n where n + k does not wrap, as a reader would write it; what else it is: 0. */
static Reg
less_by(Msl *m, Reg a, Reg b, bool less)
{
	Emitter *e = &m->e;
	const MslNode *n = msl_def(m, b);
	int64_t c, k;
	if (n->kind != MSL_OP || n->op != EMIT_ADD || n->width != 1 || !msl_const(m, a, &c) ||
	    !msl_const(m, n->in[1], &k) || k <= 0 || c < k)
		return 0;
	if (!msl_never_negative(msl_range_of(m, n->in[0])) || !msl_never_negative(msl_range_of(m, b)))
		return 0;
	return e->op(e, less ? EMIT_SLT : EMIT_SLE, e->int_const(e, msl_type(m, b), c - k), n->in[0], 0);
}

/* What ranges decide. */
static Reg
decided(Msl *m, EmitOp op, Reg a, Reg b)
{
	Emitter *e = &m->e;
	MslRange x = msl_range_of(m, a), y = msl_range_of(m, b);
	bool plain = msl_never_negative(x) && msl_never_negative(y);
	switch (op) {
	case EMIT_SMAX: return x.lo >= y.hi ? a : y.lo >= x.hi ? b : 0;
	case EMIT_SMIN: return x.hi <= y.lo ? a : y.hi <= x.lo ? b : 0;
	case EMIT_UMIN: return !plain ? 0 : x.hi <= y.lo ? a : y.hi <= x.lo ? b : 0;
	case EMIT_UMAX: return !plain ? 0 : x.lo >= y.hi ? a : y.lo >= x.hi ? b : 0;
	case EMIT_ULT: case EMIT_ULE:
		if (!plain)
			return 0;
		/* fall through */
	case EMIT_SLT: case EMIT_SLE: {
		bool less = op == EMIT_SLT || op == EMIT_ULT;
		if (less ? x.hi < y.lo : x.hi <= y.lo)
			return e->int_const(e, REG_PRED, 1);
		if (less ? x.lo >= y.hi : x.lo > y.hi)
			return e->int_const(e, REG_PRED, 0);
		return less_by(m, a, b, less);
	}
	case EMIT_AND: {                                /* a mask that keeps all there can be */
		int64_t v;
		return plain && msl_const(m, b, &v) && v > 0 && (v & (v + 1)) == 0 && x.hi <= v ? a : 0;
	}
	default: return 0;
	}
}

/* Division by a power of two of what is never negative. */
static Reg
divide_by_shift(Msl *m, EmitOp op, Reg a, Reg b)
{
	Emitter *e = &m->e;
	int64_t v;
	bool is_signed = op == EMIT_SDIV || op == EMIT_SREM;
	if (!msl_const(m, b, &v) || v <= 0 || (v & (v - 1)) || (is_signed && !msl_never_negative(msl_range_of(m, a))))
		return 0;
	RegType t = msl_type(m, a);
	if (op == EMIT_SREM || op == EMIT_UREM)
		return e->op(e, EMIT_AND, a, e->int_const(e, t, v - 1), 0);
	return 0;
}

/* The thread's lane and simdgroup, where they are computed from its number. */
static Reg
place_of_thread(Msl *m, EmitOp op, Reg a, Reg b)
{
	const MslNode *n = msl_def(m, a);
	int64_t v;
	int lanes = m->e.target->lanes, log2 = __builtin_ctz((unsigned)lanes);
	if (n->kind != MSL_PRIM || n->op != PRIM_THREAD || !msl_const(m, b, &v))
		return 0;
	bool is_lane = op == EMIT_AND && v == lanes - 1, is_group = op == EMIT_LSHR && v == log2;
	if (!is_lane && !is_group)
		return 0;
	int groups = (m->e.kernel.threads + lanes - 1) / lanes;
	return msl_place_prim(m, is_lane ? (int)PRIM_LANE : (int)PRIM_COUNT, (is_lane ? lanes : groups) - 1);
}

Reg
msl_simplified(Msl *m, EmitOp op, Reg a, Reg b, Reg c)
{
	Emitter *e = &m->e;
	RegType t = msl_type(m, a);
	int64_t x, y, v;
	if (op == EMIT_SELECT) {
		if (b == c)
			return b;
		return msl_const(m, a, &v) ? v ? b : c : 0;
	}
	if (op == EMIT_NOT && t == REG_PRED && msl_const(m, a, &x))
		return e->int_const(e, t, !x);
	if (emit_op_operands[op] != 2 || msl_is_float(t))
		return 0;
	if (t != REG_GLOBAL && t != REG_SHARED && msl_const(m, a, &x) && msl_const(m, b, &y) && fold(op, t, x, y, &v))
		return e->int_const(e, msl_is_comparison(op) ? REG_PRED : t, v);
	if ((op == EMIT_ADD || op == EMIT_MUL || op == EMIT_AND || op == EMIT_OR || op == EMIT_XOR) && msl_const(m, a,
	    &x)) {
		Reg r = a;
		a = b;
		b = r;
	}
	Reg r = neutral(m, op, t, a, b);
	if (!r && a == b && (op == EMIT_AND || op == EMIT_OR))
		r = a;
	if (!r && (t == REG_I32 || t == REG_I64))
		r = decided(m, op, a, b);
	if (!r)
		r = place_of_thread(m, op, a, b);
	if (!r && (op == EMIT_SREM || op == EMIT_UREM))
		r = divide_by_shift(m, op, a, b);
	return r;
}
