/* Polynomials of what becomes narrow: their constants, and that of the function which takes them, are multiplied here.
 *
 * An approximated exponential takes what it is given times log2 e, a sigmoid less that.  Of a polynomial with constants,
 * the factor goes into them:
 *
 *     %a = mul (mul (mul %x, c), %x), %x           %z = mul %x, %x
 *     %b = mul (add %x, %a), k                     %p = mul (fma %z, -c k log2 e, -k log2 e), %x
 *     %s = sigmoid %b {fast = true}          =>    %s = div 1, (add (exp2 %p {fast = true}), 1) {fast = true}
 *
 * Only polynomials of odd or of even powers whose coefficients have one sign: no two terms cancel, so that the order of
 * the roundings costs what the roundings cost; infinities stay infinite, and no term is less another.  The square may
 * overflow where the polynomial does not: from 2^64 on, where it is 2^24 at least (moderate constants), whose power of 2
 * is as that of an infinity. */
#include "pass/relax/relax.h"

#include <math.h>

#define LOG2_E 0x1.71547652b82fep0

enum { POWERS = 8, DEEP = 8 };

/* c[0] + c[1] x + …; x is NULL of a constant; so many ops compute it, a product's sum being one with it. */
typedef struct Polynomial {
	Value *x;
	double c[POWERS];
	int ops;
} Polynomial;

static bool
combine(OpKind kind, const Polynomial *l, const Polynomial *r, Polynomial *out)
{
	if (l->x && r->x && l->x != r->x)
		return false;
	*out = (Polynomial){.x = l->x ? l->x : r->x};
	for (int i = 0; i < POWERS; i++) {
		if (kind != OP_MUL)
			out->c[i] = kind == OP_SUB ? l->c[i] - r->c[i] : l->c[i] + r->c[i];
		for (int j = 0; j < POWERS && kind == OP_MUL; j++) {
			double product = l->c[i] * r->c[j];
			if (product != 0 && i + j >= POWERS)
				return false;
			if (product != 0)
				out->c[i + j] += product;
		}
	}
	return true;
}

static bool
is_product(const Value *v)
{
	return v->def && v->def->kind == OP_MUL && v->nuses == 1;
}

/* What is used more than once, or is made of two values, is what the polynomial is one of. */
static void
polynomial_of(Value *v, int depth, Polynomial *p)
{
	const Op *op = v->def;
	Polynomial l, r;
	double c;

	*p = (Polynomial){.x = NULL};
	if (relax_constant(v, &c)) {
		p->c[0] = c;
		return;
	}
	*p = (Polynomial){.x = v, .c = {0, 1}};
	bool computes = op && v->nuses == 1 && depth < DEEP;
	if (!computes || (op->kind != OP_MUL && op->kind != OP_ADD && op->kind != OP_SUB))
		return;
	polynomial_of(op->in[0], depth + 1, &l);
	polynomial_of(op->in[1], depth + 1, &r);
	if (combine(op->kind, &l, &r, p)) {
		bool joins = op->kind != OP_MUL && (is_product(op->in[0]) || is_product(op->in[1]));
		p->ops = l.ops + r.ops + !joins;
	} else {
		*p = (Polynomial){.x = v, .c = {0, 1}};
	}
}

/* The highest power; 0: none, some are odd and some even, coefficients have both signs or may leave the range of f32. */
static int
top_power(const Polynomial *p)
{
	int top = 0;
	for (int i = 0; i < POWERS; i++) {
		double c = p->c[i];
		if (c == 0)
			continue;
		bool joins = top == 0 || ((top - i) % 2 == 0 && c * p->c[top] > 0);
		if (i == 0 || !joins || !(fabs(c) >= 0x1p-100 && fabs(c) <= 0x1p100))
			return 0;
		top = i;
	}
	return top;
}

/* k times the polynomial. */
static Value *
build_polynomial(Builder *b, const Polynomial *p, int top, double k)
{
	const Type *t = p->x->type;
	Value *z = top >= 2 ? build2(b, OP_MUL, p->x, p->x) : NULL, *v = build_float(b, t, k * p->c[top]);
	for (int i = top - 2; i > 0; i -= 2)
		v = p->c[i] == 0 ? build2(b, OP_MUL, z, v) : build3(b, OP_FMA, z, v, build_float(b, t, k * p->c[i]));
	return build2(b, OP_MUL, v, top % 2 ? p->x : z);
}

/* How many ops that takes. */
static int
count_built(int top)
{
	return (top + 1) / 2 + (top >= 2);
}

void
relax_polynomial(Module *m, Op *op)
{
	double k = op->kind == OP_SIGMOID ? -LOG2_E : op->kind == OP_EXP ? LOG2_E : 1;
	Polynomial p;

	if (op->kind != OP_SIGMOID && op->kind != OP_EXP && op->kind != OP_EXP2)
		return;
	polynomial_of(op->in[0], 0, &p);
	int top = top_power(&p);
	if (top == 0 || count_built(top) >= p.ops + (k != 1))
		return;
	Builder b = build_before(op);
	Value *e = build1(&b, OP_EXP2, build_polynomial(&b, &p, top, k), NULL);
	attr_set_fast(m, e->def, true);
	if (op->kind == OP_SIGMOID) {
		Value *one = build_float(&b, e->type, 1);
		e = build2(&b, OP_DIV, one, build2(&b, OP_ADD, e, one));
		attr_set_fast(m, e->def, true);
	}
	value_replace(op->out, e);
}

/* ---- erf ---- */

/* c + c erf(u), which only becomes a narrow float, from one polynomial.
 *
 * erf by itself takes two, one near 0 and one for the rest.  The sum does without the first: with a = |u| and the
 * complement w = 1 - erf(a) = 2^(a q(a)) it is 2 - w where u is positive and w where it is negative, so that nothing
 * cancels.  Half of that takes a term less in the exponent; a factor of u goes into the coefficients.
 *
 *     %u = mul %x, k : f32[64]                     %a = abs %x
 *     %e = erf %u : f32[64]                        %w = exp2 (%a k q(%a k) - 1) {fast = true}
 *     %s = add %one, %e : f32[64]             =>   %s = select %x >= 0, 1 - %w, %w
 *     %y = cast (mul %s, …) : bf16[64]             %y = cast (mul (mul %s, 2), …) : bf16[64]
 *
 * w is good to 2^-17.8 of it up to a = 4.4; beyond, a q(a) goes on falling, and w is 0 in the end, as the difference is.
 *
 * Only where warpgroups multiply: elsewhere a thread has an epilogue of 128 elements, which as separate ops go side by side
 * through 500 registers of PTX (matmul_bias_gelu on sm_80), and Metal's text of it grows by half. */

/* log2(1 - erf(a)) / a, 0 to 4.4; the first coefficient for a^0 */
static const double q[] = {-1.6280633001396523, -0.9170811728967312, -0.15243051711116432, 0.03391083507142971,
	-0.005223821454910668, 0.00048612212195311977, -2.0319522119005562e-05};

/* Half of the complement of k a. */
static Value *
half_complement(Module *m, Builder *b, Value *a, double k)
{
	double scale = pow(k, LEN(q));
	Value *p = build_float(b, a->type, q[LEN(q) - 1] * scale);
	for (int i = LEN(q) - 2; i >= 0; i--) {
		scale /= k;
		p = build3(b, OP_FMA, p, a, build_float(b, a->type, q[i] * scale));
	}
	Value *w = build1(b, OP_EXP2, build3(b, OP_FMA, p, a, build_float(b, a->type, -1)), NULL);
	attr_set_fast(m, w->def, true);
	return w;
}

/* The factor that goes into the coefficients: its seventh power times them must be in the range of f32. */
static Value *
factor_of(Value *u, double *k)
{
	const Op *op = u->def;
	*k = 1;
	if (!op || u->nuses != 1)
		return u;
	for (int i = 0; op->kind == OP_MUL && i < 2; i++)
		if (relax_constant(op->in[i], k) && fabs(*k) >= 0x1p-8 && fabs(*k) <= 0x1p8)
			return op->in[1 - i];
	if (op->kind == OP_DIV && relax_constant(op->in[1], k) && fabs(*k) >= 0x1p-8 && fabs(*k) <= 0x1p8) {
		*k = 1 / *k;
		return op->in[0];
	}
	*k = 1;
	return u;
}

Value *
relax_erf(Module *m, Builder *b, Value *u, bool negated)
{
	double k;
	Value *x = factor_of(u, &k), *zero = build_float(b, x->type, 0);
	Value *w = half_complement(m, b, build1(b, OP_ABS, x, NULL), fabs(k));
	Value *rest = build2(b, OP_SUB, build_float(b, x->type, 1), w);
	return build3(b, OP_SELECT, build2(b, negated == (k < 0) ? OP_GE : OP_LE, x, zero), rest, w);
}
