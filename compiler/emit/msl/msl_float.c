/* Operations on floats.  bfloat has no arithmetic worth the name: it is computed in float, which rounds to the same. */
#include "emit/msl/msl.h"

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
	switch (n->t->op) {
	case EMIT_FNEG: case EMIT_FABS: case EMIT_FADD: case EMIT_FSUB: case EMIT_FMUL: case EMIT_FMA: case EMIT_FMIN:
	case EMIT_FMAX: case EMIT_FFLOOR: case EMIT_FCEIL: case EMIT_FROUND: case EMIT_FTRUNC:
		return false;
	default:
		return !(n->t->op >= EMIT_FEQ && n->t->op <= EMIT_FUNO);
	}
}

static Expr
float_lanes(Msl *m, const MslNode *n, int k, bool widen)
{
	Expr x = msl_lanes(m, n, k);
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
	int right = n->t->op == EMIT_FADD || n->t->op == EMIT_FMUL ? strength : strength + 1;
	if (a.width == 1 && b.width == 1 && n->width > 1)
		a = msl_as(m, a, a.c, n->width);
	if (b.strength == strength && n->t->op != EMIT_FSUB)       /* sums are added in their own order */
		right = strength + 1;
	const char *s = arena_printf(m->mem, "%s %s %s", msl_wrap(m, a, strength), sign, msl_wrap(m, b, right));
	return rounded(m, n, msl_made(s, strength, MAX(a.width, b.width), a.c), widen);
}

/* What Metal has as a function. */
static const char *const float_function[EMIT_OPS_COUNT] = {
	[EMIT_FDIV_FAST] = "fast::divide", [EMIT_FABS] = "fabs",          [EMIT_FMA] = "fma",
	[EMIT_FMIN] = "min",               [EMIT_FMAX] = "max",           [EMIT_FSQRT] = "sqrt",
	[EMIT_FSQRT_FAST] = "fast::sqrt",  [EMIT_FRSQRT_FAST] = "fast::rsqrt", [EMIT_EXP2_FAST] = "fast::exp2",
	[EMIT_LOG2_FAST] = "fast::log2",   [EMIT_SIN_FAST] = "fast::sin", [EMIT_COS_FAST] = "fast::cos",
	[EMIT_TANH_FAST] = "fast::tanh",   [EMIT_FMA_SAT] = "fma",        [EMIT_FFLOOR] = "floor",
	[EMIT_FCEIL] = "ceil",             [EMIT_FROUND] = "rint",        [EMIT_FTRUNC] = "trunc",
};

static Expr
float_call(Msl *m, const MslNode *n)
{
	const char *name = float_function[n->t->op];
	bool widen = in_float(n, n->type);
	CType c = widen || n->type == REG_F32 ? C_FLOAT : C_HALF;
	Text t = {0};
	if (!name)
		die("%s is no operation on floats", thread_op_text[n->t->op]);
	text_printf(&t, "%s(", name);
	for (int k = 0; k < emit_op_operands[n->t->op]; k++)
		text_printf(&t, "%s%s", k ? ", " : "", msl_as(m, float_lanes(m, n, k, widen), c, n->width).text);
	text_put(&t, ")");
	return rounded(m, n, msl_made(msl_kept(m, &t), P_NAME, n->width, c), widen);
}

static Expr
reciprocal(Msl *m, const MslNode *n)
{
	bool widen = is_narrow(n->type);
	Expr a = float_lanes(m, n, 0, widen);
	return rounded(m, n, msl_made(arena_printf(m->mem, "1.0f / %s", msl_wrap(m, a, P_UNARY)), P_PRODUCT, n->width,
	    C_FLOAT),
	    widen);
}

static Expr
saturated(Msl *m, const MslNode *n)
{
	Expr x = float_call(m, n);
	x.text = arena_printf(m->mem, "saturate(%s)", x.text);
	return x;
}

Expr
msl_compare_floats(Msl *m, const MslNode *n)
{
	static const char *const sign[] = {"==", "!=", "<", "<="};
	bool widen = msl_type(m, n->in[0]) == REG_BF16;
	Expr a = float_lanes(m, n, 0, widen), b = float_lanes(m, n, 1, widen);
	if (n->t->op == EMIT_FUNO)
		return msl_made(n->in[0] == n->in[1] ? arena_printf(m->mem, "isnan(%s)", a.text)
		                                 : arena_printf(m->mem, "isunordered(%s, %s)", a.text, b.text),
		    P_NAME, 1, C_BOOL);
	int strength = n->t->op <= EMIT_FNE ? P_EQUAL : P_LESS;
	return msl_made(arena_printf(m->mem, "%s %s %s", msl_wrap(m, a, strength + 1), sign[n->t->op - EMIT_FEQ],
	    msl_wrap(m, b, strength + 1)), strength, 1, C_BOOL);
}

static Expr
negated(Msl *m, const MslNode *n)
{
	bool widen = n->type == REG_BF16;
	Expr a = float_lanes(m, n, 0, widen);
	return rounded(m, n, msl_made(arena_printf(m->mem, "-%s", msl_wrap(m, a, P_UNARY + (a.text[0] == '-'))), P_UNARY,
	    a.width,
	    a.c), widen);
}

Expr
msl_float_expr(Msl *m, const MslNode *n)
{
	switch (n->t->op) {
	case EMIT_FADD: return float_operator(m, n, "+", P_SUM);
	case EMIT_FSUB: return float_operator(m, n, "-", P_SUM);
	case EMIT_FMUL: return float_operator(m, n, "*", P_PRODUCT);
	case EMIT_FDIV: return float_operator(m, n, "/", P_PRODUCT);
	case EMIT_FNEG: return negated(m, n);
	case EMIT_FRCP_FAST: return reciprocal(m, n);
	case EMIT_FMA_SAT: return saturated(m, n);
	default: return float_call(m, n);
	}
}
