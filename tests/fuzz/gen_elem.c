/* Elementwise terms: arithmetic of all types, casts, mathematics, calls of helpers. */
#include "gen_tgl.h"

#include <math.h>

/* Two operands of which one has the whole shape and the other one that broadcasts to it. */
static void
make_pair(Maker *g, Form f, bool exact, int depth, Term *out[2])
{
	int whole = pick(g, 2);
	out[whole] = term_make(g, f, exact, depth);
	out[1 - whole] = term_make(g, g->plain ? f : form_narrow(g, f), exact, depth);
}

/* A type that converts to `t` in an operation of both. */
static DType
lesser_type(Maker *g, DType t)
{
	static const DType all[] = {TY_BOOL, TY_I8, TY_U8, TY_I16, TY_U16, TY_I32, TY_U32, TY_I64,
	    TY_U64, TY_F8E4M3, TY_F16, TY_F32};
	DType o = all[pick(g, LEN(all))];
	bool narrower = dtype_info[o].bits < dtype_info[t].bits;
	if (dtype_is_float(t) && !dtype_is_float(o))
		return o;
	if (dtype_is_float(t) == dtype_is_float(o) && narrower && o != TY_BOOL)
		return o;
	return t == TY_U32 ? TY_I32 : t;
}

static ValueRange
reach(ValueRange w) /* of both signs, whole */
{
	return (ValueRange){w.most + 1, 0, 0};
}

/* ---- floats ---- */

static Term *
float_binary(Maker *g, Form f, bool exact, int depth)
{
	Term *k[2];
	make_pair(g, f, exact, depth, k);
	ValueRange a = k[0]->range, b = k[1]->range;
	DType o = lesser_type(g, f.elem);
	if (o != f.elem && chance(g, 20) && form_equal(k[0]->form, f)) {
		k[1] = term_make(g, form_elem(k[1]->form, o), true, depth);
		b = range_cast(o, f.elem, k[1]->range);
	}
	if ((a.err > 0 || b.err > 0) && !(isfinite(a.most) && isfinite(b.most)))
		return NULL;
	switch (
	    k[0]->form.elem == TY_BOOL || k[1]->form.elem == TY_BOOL ? pick(g, 6) : pick(g, 9)) {
	case 0:
	case 1: return term2(g, f, range_add(a, b), k[0], k[1], "($0 + $1)");
	case 2:
	case 3: return term2(g, f, range_add(a, b), k[0], k[1], "($0 - $1)");
	case 4:
	case 5: return term2(g, f, range_mul(a, b), k[0], k[1], "($0 * $1)");
	case 6:
		return term2(g, f, range_both(a, b), k[0], k[1],
		    chance(g, 20) ? "max($0, $1, propagate_nan = true)" : "max($0, $1)");
	case 7: return term2(g, f, range_both(a, b), k[0], k[1], "min($0, $1)");
	default: break;
	}
	if (a.err > 0 || b.err > 0)
		return NULL;
	return term2(g, f, range_make(INFINITY, FRAC_ANY, 0), k[0], k[1], "($0 %% $1)");
}

static Term *
float_fma(Maker *g, Form f, int depth)
{
	Term *a = term_make(g, f, true, depth), *b = term_make(g, f, true, depth),
	     *c = term_make(g, f, true, depth);
	return term3(
	    g, f, range_add(range_mul(a->range, b->range), c->range), a, b, c, "fma($0, $1, $2)");
}

static Term *
float_unary(Maker *g, Form f, bool exact, int depth)
{
	static const char *const whole[] = {"floor", "ceil", "round", "trunc"};
	Term *a = term_make(g, f, exact, depth);
	switch (pick(g, 4)) {
	case 0: return term1(g, f, a->range, a, "(-$0)");
	case 1: return term1(g, f, a->range, a, "abs($0)");
	case 2:
		return a->range.err > 0
			   ? NULL
			   : term1(g, f, reach(a->range), a, "%s($0)", whole[pick(g, 4)]);
	default: break;
	}
	ValueRange w = {fmin(a->range.most, 4), MAX(a->range.frac, 0), a->range.err};
	return a->range.err > 0 ? NULL
				: term1(g, f, w, a, "clamp($0, -3, 4%s)",
				      chance(g, 20) ? ", propagate_nan = true" : "");
}

/* ---- integers ---- */

static Term *
int_binary(Maker *g, Form f, int depth)
{
	static const char *const form[] = {"($0 + $1)", "($0 - $1)", "($0 * $1)", "($0 / $1)",
	    "($0 % $1)", "($0 & $1)", "($0 | $1)", "($0 ^ $1)", "($0 << $1)", "($0 >> $1)",
	    "cdiv($0, $1)", "floordiv($0, $1)", "umulhi($0, $1)", "max($0, $1)", "min($0, $1)"};
	Term *k[2];
	int op = pick(g, LEN(form));
	make_pair(g, f, true, depth, k);
	ValueRange a = k[0]->range, b = k[1]->range, w = range_of_type(f.elem);
	if (op <= 1)
		w = range_add(a, b);
	else if (op == 2)
		w = range_mul(a, b);
	else if (op >= LEN(form) - 2)
		w = range_both(a, b);
	if (dtype_is_unsigned(f.elem) && op == 1)
		w = range_of_type(f.elem);
	if (w.most > type_largest(f.elem) * 0.99)
		w = range_of_type(f.elem);
	DType o = lesser_type(g, f.elem);
	if (op <= 4 && o != f.elem && !dtype_is_float(o) && chance(g, 20) &&
	    form_equal(k[0]->form, f)) {
		k[1] = term_make(g, form_elem(k[1]->form, o), true, depth);
		w = range_of_type(f.elem);
	}
	return term2(g, f, w, k[0], k[1], "%s", form[op]);
}

static Term *
int_unary(Maker *g, Form f, int depth)
{
	static const char *const form[] = {
	    "(-$0)", "(~$0)", "abs($0)", "popcount($0)", "clz($0)", "clamp($0, 1, 5)"};
	Term *a = term_make(g, f, true, depth);
	int op = pick(g, LEN(form));
	ValueRange w = range_of_type(f.elem);
	if (op >= 3)
		w.most = op == 5 ? 5 : 64;
	return term1(g, f, w, a, "%s", form[op]);
}

/* ---- truth ---- */

static Term *
make_comparison(Maker *g, Form f, int depth)
{
	static const char *const form[] = {
	    "($0 == $1)", "($0 != $1)", "($0 < $1)", "($0 <= $1)", "($0 > $1)", "($0 >= $1)"};
	DType elem = pick_elem(g);
	Term *k[2];
	int op = pick(g, LEN(form));
	if (g->plain)
		return NULL;
	if (elem == TY_BOOL)
		op %= 2;
	make_pair(g, form_elem(f, elem), true, depth, k);
	return term2(g, f, range_make(1, 0, 0), k[0], k[1], "%s", form[op]);
}

static Term *
make_logic(Maker *g, Form f, int depth)
{
	static const char *const form[] = {
	    "($0 && $1)", "($0 || $1)", "($0 & $1)", "($0 | $1)", "($0 ^ $1)", "(!$0)", "(!$0)"};
	Term *k[2];
	int op = pick(g, LEN(form));
	if (op >= LEN(form) - 2)
		return term1(
		    g, f, range_make(1, 0, 0), term_make(g, f, true, depth), "%s", form[op]);
	make_pair(g, f, true, depth, k);
	return term2(g, f, range_make(1, 0, 0), k[0], k[1], "%s", form[op]);
}

/* ---- choices ---- */

static Term *
make_choice(Maker *g, Form f, bool exact, int depth)
{
	Term *k[2];
	if (g->plain) {
		Term *a = term_make(g, f, exact, 0), *b = term_make(g, f, exact, 0),
		     *c = term_make(g, f, exact, depth);
		return a->range.err > 0 || b->range.err > 0 || f.elem == TY_BOOL
			   ? NULL
			   : term3(g, f, range_both(a->range, c->range), a, b, c,
				 "where($0 < $1, $0, $2)");
	}
	bool scalar = chance(g, 30);
	Term *c = term_make(
	    g, scalar ? form_scalar(TY_BOOL) : form_elem(form_narrow(g, f), TY_BOOL), true, depth);
	make_pair(g, f, exact, depth, k);
	if (scalar)
		k[0] = term_make(g, f, exact, depth), k[1] = term_make(g, f, exact, depth);
	ValueRange w = range_both(k[0]->range, k[1]->range);
	return term3(g, f, w, c, k[0], k[1], scalar ? "($0 ? $1 : $2)" : "where($0, $1, $2)");
}

Term *
rule_elementwise(Maker *g, Form f, bool exact, int depth)
{
	if (chance(g, 15))
		return make_choice(g, f, exact, depth);
	if (f.elem == TY_BOOL)
		return chance(g, 65) ? make_comparison(g, f, depth) : make_logic(g, f, depth);
	if (!dtype_is_float(f.elem))
		return chance(g, 70) ? int_binary(g, f, depth) : int_unary(g, f, depth);
	if (chance(g, 8))
		return float_fma(g, f, depth);
	return chance(g, 70) ? float_binary(g, f, exact, depth) : float_unary(g, f, exact, depth);
}

/* ---- casts ---- */

/* Bits of an integer as a float between 1 and 2. */
static Term *
cast_bits(Maker *g, Form f, int depth)
{
	static const DType of[][2] = {{TY_I8, TY_U8}, {TY_I16, TY_U16}, {TY_I32, TY_U32}, {TY_I64, TY_U64}};
	int bits = dtype_info[f.elem].bits, frac = type_mantissa(f.elem) - 1, exponent = bits - 1 - frac;
	int64_t one = ((INT64_C(1) << (exponent - 1)) - 1) << frac;
	Form from = form_elem(f, of[bits == 8 ? 0 : bits == 16 ? 1 : bits == 32 ? 2 : 3][pick(g, 2)]);
	Term *t = term_make(g, from, true, depth);
	return term1(g, f, range_make(2, frac, 0), t, "bitcast(($0 & 0x%llx) | 0x%llx, %s)",
	    (unsigned long long)((INT64_C(1) << frac) - 1), (unsigned long long)one, dtype_info[f.elem].text);
}

Term *
rule_cast(Maker *g, Form f, bool exact, int depth)
{
	static const DType packed[] = {TY_I4, TY_U4, TY_F4E2M1};
	DType from = chance(g, 10) ? packed[pick(g, LEN(packed))] : pick_elem(g);
	const char *to = dtype_info[f.elem].text;
	if (g->plain || from == f.elem)
		return NULL;
	if (!dtype_is_float(f.elem) && dtype_is_float(from))
		exact = true;
	int bits = dtype_info[f.elem].bits;
	if (chance(g, 10) && !dtype_is_float(f.elem) && f.elem != TY_BOOL && bits >= 16) {
		DType flt = bits == 16 ? TY_F16 : bits == 32 ? TY_F32 : TY_F64;
		Term *t = term_fit(g, term_make(g, form_elem(f, flt), true, depth), 100, FRAC_ANY);
		return term1(g, f, range_of_type(f.elem), t, "bitcast(abs($0), %s)", to);
	}
	if (chance(g, 8) && dtype_is_float(f.elem) && f.elem != TY_F4E2M1)
		return cast_bits(g, f, depth);
	Term *t = term_make(g, form_elem(f, from), exact, depth);
	ValueRange w = range_cast(from, f.elem, t->range);
	if (f.elem == TY_BOOL)
		w = (ValueRange){1, 0, 0};
	else if (!dtype_is_float(f.elem) && !(t->range.most <= type_largest(f.elem)))
		w = range_of_type(f.elem);
	else if (dtype_is_unsigned(f.elem) && !dtype_is_unsigned(from) && from != TY_BOOL)
		w = range_of_type(f.elem);
	if (f.elem != TY_BOOL && chance(g, 12))
		to = head_make(g, f.elem)->name;
	return term1(g, f, w, t, "($0 as %s)", to);
}

/* ---- mathematics ---- */

typedef struct MathRow {
	const char *text;
	double in, out; /* greatest operand, greatest result */
	bool fast;
} MathRow;

static const MathRow math[] = {
    {"exp($0)", 4, 55, true},
    {"exp2($0)", 4, 17, true},
    {"expm1($0)", 4, 55, false},
    {"log(abs($0) + 1)", 60, 5, true},
    {"log2(abs($0) + 1)", 60, 7, true},
    {"log1p(abs($0))", 60, 5, false},
    {"sqrt(abs($0))", 60, 8, true},
    {"rsqrt(abs($0) + 1)", 60, 1, true},
    {"sin($0)", 60, 1, false},
    {"cos($0)", 60, 1, false},
    {"sin($0)", 3, 1, true},
    {"cos($0)", 3, 1, true},
    {"tan($0)", 1, 2, true},
    {"tanh($0)", 60, 1, true},
    {"sinh($0)", 4, 28, false},
    {"cosh($0)", 4, 28, false},
    {"asin(clamp($0, -1, 1))", 60, 2, false},
    {"acos(clamp($0, -1, 1))", 60, 4, false},
    {"atan($0)", 60, 2, false},
    {"atan2($0, abs($0) + 1)", 60, 1, false},
    {"erf($0)", 60, 1, false},
    {"sigmoid($0)", 60, 1, true},
    {"pow(abs($0) + 1, 1.5)", 8, 27, true},
    {"div($0, abs($0) + 1)", 60, 1, true},
    {"div(1, abs($0) + 1)", 60, 1, true},
};

static Term *
make_quotient(Maker *g, Form f, int depth)
{
	Term *k[2];
	make_pair(g, f, true, depth, k);
	k[0] = term_fit(g, k[0], 100, FRAC_ANY);
	k[1] = term_fit(g, k[1], 100, FRAC_ANY);
	ValueRange w = {100, FRAC_ANY, ldexp(100, 3 - type_mantissa(f.elem))};
	return term2(g, f, w, k[0], k[1], "($0 / (abs($1) + 1))");
}

Term *
rule_math(Maker *g, Form f, bool exact, int depth)
{
	if (exact || !dtype_is_float(f.elem) || dtype_info[f.elem].bits < 16)
		return NULL;
	if (!g->plain && chance(g, 10))
		return chance(g, 30) ? rule_random(g, f, exact, depth) : rule_mean(g, f, exact, depth);
	if (chance(g, 25))
		return make_quotient(g, f, depth);
	const MathRow *m = &math[pick(g, LEN(math))];
	bool fast = m->fast && chance(g, 45);
	Term *t = term_fit(g, term_make(g, f, true, depth), m->in, FRAC_ANY);
	ValueRange w = {m->out, FRAC_ANY,
	    ldexp(m->out, 3 - type_mantissa(f.elem)) + (fast ? ldexp(m->out, -9) : 0)};
	return term1(g, f, w, t, "%s%s", fast ? "fast::" : "", m->text);
}

Term *
rule_helper(Maker *g, Form f, bool exact, int depth)
{
	const Helper *h = g->s->helpers.n ? g->s->helpers.at[pick(g, g->s->helpers.n)] : NULL;
	Term *k[2];
	if (!h || h->elem != f.elem || h->nresult != 1)
		return NULL;
	make_pair(g, f, true, depth, k);
	for (int i = 0; i < 2 && dtype_is_float(f.elem); i++)
		k[i] = term_fit(g, k[i], 16, 4);
	static const char *const call[] = {"%s($0, $1)", "%s(b = $1, a = $0)", "%s($0, b = $1, c = 3)", "%s($0, $1, d = 2)"};
	return term2(g, f, h->result[0]->range, k[0], k[1], call[pick(g, h->body ? LEN(call) : 2)], h->name);
}
