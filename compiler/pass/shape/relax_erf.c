/* 1 + erf(u), which only becomes a narrow float, from one polynomial.
 *
 * erf by itself takes two, one near 0 and one for the rest.  The sum does without the first: with a = |u| and the
 * complement w = 1 - erf(a) = 2^(a q(a)) it is 2 - w where u is positive and w where it is negative, so that nothing
 * cancels.
 *
 *     %e = erf %u : f32[64]                        %a = abs %u
 *     %s = add %one, %e : f32[64]             =>   %w = exp2 (%a * q(%a)) {fast = true}
 *     %y = cast (mul %s, …) : bf16[64]             %s = select %u >= 0, 2 - %w, %w
 *
 * w is good to 2^-17.8 of it up to a = 4.4; beyond, a q(a) goes on falling, and w is 0 in the end, as the difference is.
 *
 * Only where warpgroups multiply: elsewhere a thread has an epilogue of 128 elements, which as separate ops go side by side
 * through 500 registers of PTX (matmul_bias_gelu on sm_80), and Metal's text of it grows by half. */
#include "pass/shape/relax.h"

/* log2(1 - erf(a)) / a, 0 to 4.4; the first coefficient for a^0 */
static const double q[] = {-1.6280633001396523, -0.9170811728967312, -0.15243051711116432, 0.03391083507142971,
	-0.005223821454910668, 0.00048612212195311977, -2.0319522119005562e-05};

static Value *
complement(Module *m, Builder *b, Value *a)
{
	Value *p = build_float(b, a->type, q[LEN(q) - 1]);
	for (int i = LEN(q) - 2; i >= 0; i--)
		p = build3(b, OP_FMA, p, a, build_float(b, a->type, q[i]));
	Value *w = build1(b, OP_EXP2, build2(b, OP_MUL, a, p), NULL);
	attr_set_fast(m, w->def, true);
	return w;
}

Value *
relax_erf(Module *m, Builder *b, Value *u, bool negated)
{
	Value *zero = build_float(b, u->type, 0), *w = complement(m, b, build1(b, OP_ABS, u, NULL));
	Value *rest = build2(b, OP_SUB, build_float(b, u->type, 2), w);
	return build3(b, OP_SELECT, build2(b, negated ? OP_LE : OP_GE, u, zero), rest, w);
}
