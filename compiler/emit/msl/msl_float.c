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
	case THREAD_FNEG: case THREAD_FABS: case THREAD_FADD: case THREAD_FSUB: case THREAD_FMUL: case THREAD_FMA:
	case THREAD_FMIN:
	case THREAD_FMAX: case THREAD_FFLOOR: case THREAD_FCEIL: case THREAD_FROUND: case THREAD_FTRUNC:
		return false;
	default:
		return !(n->t->op >= THREAD_FEQ && n->t->op <= THREAD_FUNO);
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
	int right = n->t->op == THREAD_FADD || n->t->op == THREAD_FMUL ? strength : strength + 1;
	if (a.width == 1 && b.width == 1 && n->width > 1)
		a = msl_as(m, a, a.c, n->width);
	if (b.strength == strength && n->t->op != THREAD_FSUB)     /* sums are added in their own order */
		right = strength + 1;
	const char *s = arena_printf(m->mem, "%s %s %s", msl_wrap(m, a, strength), sign, msl_wrap(m, b, right));
	return rounded(m, n, msl_made(s, strength, MAX(a.width, b.width), a.c), widen);
}

/* What Metal has as a function. */
static const char *const float_function[THREAD_OPS_COUNT] = {
	[THREAD_FDIV_FAST] = "fast::divide", [THREAD_FABS] = "fabs",          [THREAD_FMA] = "fma",
	[THREAD_FMIN] = "min",               [THREAD_FMAX] = "max",           [THREAD_FSQRT] = "sqrt",
	[THREAD_FSQRT_FAST] = "fast::sqrt",  [THREAD_FRSQRT_FAST] = "fast::rsqrt", [THREAD_EXP2_FAST] = "fast::exp2",
	[THREAD_LOG2_FAST] = "fast::log2",   [THREAD_SIN_FAST] = "fast::sin", [THREAD_COS_FAST] = "fast::cos",
	[THREAD_TANH_FAST] = "fast::tanh",   [THREAD_FMA_SAT] = "fma",        [THREAD_FFLOOR] = "floor",
	[THREAD_FCEIL] = "ceil",             [THREAD_FROUND] = "rint",        [THREAD_FTRUNC] = "trunc",
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
	for (int k = 0; k < thread_op_operands[n->t->op]; k++)
		text_printf(&t, "%s%s", k ? ", " : "", msl_as(m, float_lanes(m, n, k, widen), c, n->width).text);
	text_put(&t, ")");
	return rounded(m, n, msl_made(msl_arena_text(m, &t), P_NAME, n->width, c), widen);
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
	if (n->t->op == THREAD_FUNO)
		return msl_made(n->in[0] == n->in[1] ? arena_printf(m->mem, "isnan(%s)", a.text)
		                                 : arena_printf(m->mem, "isunordered(%s, %s)", a.text, b.text),
		    P_NAME, 1, C_BOOL);
	int strength = n->t->op <= THREAD_FNE ? P_EQUAL : P_LESS;
	return msl_made(arena_printf(m->mem, "%s %s %s", msl_wrap(m, a, strength + 1), sign[n->t->op - THREAD_FEQ],
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
	case THREAD_FADD: return float_operator(m, n, "+", P_SUM);
	case THREAD_FSUB: return float_operator(m, n, "-", P_SUM);
	case THREAD_FMUL: return float_operator(m, n, "*", P_PRODUCT);
	case THREAD_FDIV: return float_operator(m, n, "/", P_PRODUCT);
	case THREAD_FNEG: return negated(m, n);
	case THREAD_FRCP_FAST: return reciprocal(m, n);
	case THREAD_FMA_SAT: return saturated(m, n);
	default: return float_call(m, n);
	}
}
