/* Terms that bring elements together: reductions, scans, order, products of matrices, random
 * numbers. */
#include "gen_tgl.h"

#include <math.h>
#include <string.h>

/* Makes t such that n of them can be added exactly in type `sum`; where that is not
 * required, the error is its range's. */
static Term *
make_summable(Maker *g, Term *t, DType sum, double n, bool exact, double *err)
{
	*err = 0;
	if (!dtype_is_float(sum) || !dtype_is_float(t->form.elem))
		return t;
	if (is_exact_sum(sum, n, t->range.most, t->range.frac) && t->range.err == 0)
		return t;
	if (exact)
		return term_fit(g, t, fmin(floor(ldexp(1 / n, type_mantissa(sum))), 64), 0);
	t = term_fit(g, t, 1000, FRAC_ANY);
	*err = n * t->range.err + n * n * ldexp(t->range.most, 1 - type_mantissa(sum));
	return t;
}

/* ---- reductions ---- */

/* A type whose sum has type `to`. */
static DType
summed_type(Maker *g, DType to)
{
	static const DType f32[] = {TY_F32, TY_F32, TY_F16, TY_BF16, TY_F8E4M3, TY_F8E5M2};
	static const DType i32[] = {TY_I32, TY_I32, TY_I16, TY_I8, TY_U8, TY_U16, TY_BOOL};
	if (to == TY_F32)
		return f32[pick(g, LEN(f32))];
	return to == TY_I32 ? i32[pick(g, LEN(i32))] : to;
}

static Term *
make_sum(Maker *g, Form f, Form from, int axis, const char *how, bool exact, int depth)
{
	double n = extent_value(g->s, from.extent[axis]), err;
	from.elem = summed_type(g, f.elem);
	if (!is_sum_type(f.elem))
		return NULL;
	Term *t = make_summable(g, term_make(g, from, exact, depth), f.elem, n, exact, &err);
	ValueRange w = {t->range.most * n, t->range.frac, err};
	return term1(g, f, w, t, "sum($0%s)", how);
}

static Term *
make_mean(Maker *g, Form f, Form from, int axis, const char *how, int depth)
{
	double n = extent_value(g->s, from.extent[axis]), err;
	from.elem = f.elem == TY_F32 ? (chance(g, 30) ? TY_I16 : TY_F16) : f.elem;
	if (f.elem != TY_F32 && f.elem != TY_F64)
		return NULL;
	Term *t = make_summable(g, term_make(g, from, true, depth), f.elem, n, true, &err);
	if (from.elem == TY_I16)
		t = term_fit(g, t, 64, 0);
	ValueRange w = {t->range.most, FRAC_ANY, ldexp(t->range.most, 3 - type_mantissa(f.elem))};
	return term1(g, f, w, t, "mean($0%s)", how);
}

static Term *
make_extreme(Maker *g, Form f, Form from, int axis, const char *how, bool exact, int depth)
{
	static const char *const form[] = {"max($0%s)", "min($0%s)", "max($0%s, propagate_nan = true)",
	    "reduce($0%s, fn = fn(a, b) => max(a, b))", "reduce($0%s, fn = fn(a, b) => (a < b ? a : b))",
	    "reduce($0%s, fn = greater)", "min($0%s, propagate_nan = true)"};
	if (f.elem == TY_BOOL)
		return NULL;
	Term *t = term_make(g, from, exact, depth);
	int op = pick(g, LEN(form));
	if (op == 4 && !isfinite(t->range.most) && dtype_is_float(f.elem))
		op = 0; /* with NaNs that function is not associative */
	if (op == 4 && t->range.err > 0)
		op = 1;
	if (chance(g, 10) && t->range.err == 0) { /* a function that sees what is around it */
		Term *value = rule_value(g, form_scalar(f.elem), true, 0), *least = value ? value : term_literal(g, form_scalar(f.elem));
		return term2(g, f, range_both(t->range, least->range), t, least, "reduce($0%s, fn = fn(a, b) => max(max(a, b), $1))", how);
	}
	return term1(g, f, t->range, t, form[op], how);
}

static Term *
make_bits(Maker *g, Form f, Form from, int axis, const char *how, int depth)
{
	static const char *const form[] = {"xor_sum($0%s)", "reduce($0%s, fn = fn(a, b) => a & b)",
	    "reduce($0%s, fn = fn(a, b) => a | b)", "reduce($0%s, fn = fn(a, b) => a + b)", "reduce($0%s, fn = fn(a, b) => a * b)"};
	if (f.elem == TY_BOOL || dtype_is_float(f.elem))
		return NULL;
	Term *t = term_make(g, from, true, depth);
	return term1(g, f, range_of_type(f.elem), t, form[pick(g, LEN(form))], how);
}

static Term *
make_product(Maker *g, Form f, Form from, int axis, const char *how, int depth)
{
	if (!is_sum_type(f.elem))
		return NULL;
	from.elem = summed_type(g, f.elem);
	Term *t =
	    term_fit(g, term_make(g, from, true, depth), dtype_is_float(f.elem) ? 1 : INFINITY, 0);
	return term1(g, f, dtype_is_float(f.elem) ? range_make(1, 0, 0) : range_of_type(f.elem), t,
	    "prod($0%s)", how);
}

/* The greatest of an inner dimension as an index, whether any is true, how often each number
 * occurs. */
static Term *
make_finding(Maker *g, Form f, Form from, int axis, const char *how, int depth)
{
	if (f.elem == TY_BOOL) {
		from.elem = chance(g, 70) ? TY_BOOL : pick_elem(g);
		const char *text = chance(g, 50) ? "any($0%s)" : "all($0%s)";
		return term1(
		    g, f, range_make(1, 0, 0), term_make(g, from, true, depth), text, how);
	}
	if (f.elem != TY_I32)
		return NULL;
	do
		from.elem = pick_elem(g);
	while (from.elem == TY_BOOL);
	ValueRange w = {extent_value(g->s, from.extent[axis]), 0, 0};
	Term *t = term_make(g, from, true, depth);
	const char *name = chance(g, 50) ? "argmax" : "argmin",
		   *nan = chance(g, 20) ? ", propagate_nan = true" : "";
	return term1(g, f, w, t, "%s($0%s%s)", name, how, nan);
}

static Term *
make_histogram(Maker *g, Form f, int depth)
{
	static const DType elem[] = {TY_I32, TY_I64, TY_U8, TY_I8, TY_U32};
	Form from = pick_form(g, elem[pick(g, LEN(elem))], 1, 2);
	if (f.elem != TY_I32 || f.rank != 1)
		return NULL;
	Term *t = term_make(g, from, true, depth);
	if (chance(g, 80))
		t = term_fit(g, t, extent_value(g->s, f.extent[0]), 0);
	ValueRange w = {(double)form_count(g, from), 0, 0};
	if (chance(g, 60))
		return term1(g, f, w, t, "histogram($0, #%d#)", f.extent[0]);
	return term2(g, f, w, t, term_make(g, form_elem(from, TY_BOOL), true, depth),
	    "histogram($0, #%d#, $1)", f.extent[0]);
}

/* A dimension of extent 1, or -1. */
static int
one_extent(Maker *g, Form f)
{
	for (int d = 0; d < f.rank; d++)
		if (g->s->extent[f.extent[d]].kind == EXTENT_NUMBER && g->s->extent[f.extent[d]].value == 1)
			return d;
	return -1;
}

Term *
rule_reduce(Maker *g, Form f, bool exact, int depth)
{
	if (f.rank == 1 && f.elem == TY_I32 && chance(g, 20))
		return make_histogram(g, f, depth);
	if (f.rank == FORM_RANK)
		return NULL;
	int axis = pick(g, f.rank + 1), kept = one_extent(g, f);
	Form from = form_insert(f, axis, extent_named(g));
	const char *how = arena_printf(g->s->mem, ", axis = %d", chance(g, 20) ? axis - from.rank : axis);
	if (kept >= 0 && chance(g, 50)) {
		from = f;
		from.extent[kept] = extent_named(g);
		how = arena_printf(g->s->mem, ", axis = %d, keep_dims = true", kept);
		axis = kept;
	} else if (f.rank == 0 && chance(g, 60)) {
		how = "";
	}
	if (!form_fits(g, from))
		return NULL;
	switch (pick(g, 6)) {
	case 0: return make_sum(g, f, from, axis, how, exact, depth);
	case 1: return make_extreme(g, f, from, axis, how, exact, depth);
	case 2: return make_bits(g, f, from, axis, how, depth);
	case 3: return make_product(g, f, from, axis, how, depth);
	case 4:
		if (!exact)
			return make_mean(g, f, from, axis, how, depth);
	/* fall through */
	default: return make_finding(g, f, from, axis, how, depth);
	}
}

Term *
rule_mean(Maker *g, Form f, bool exact, int depth)
{
	int axis = pick(g, f.rank + 1);
	Form from = form_insert(f, axis, extent_named(g));
	if (f.rank == FORM_RANK || !form_fits(g, from))
		return NULL;
	return make_mean(g, f, from, axis, arena_printf(g->s->mem, ", axis = %d", axis), depth);
}

/* ---- scans ---- */

Term *
rule_scan(Maker *g, Form f, bool exact, int depth)
{
	static const char *const fn[] = {
	    "fn(a, b) => max(a, b)", "fn(a, b) => a ^ b", "fn(a, b) => a + b", "fn(a, b) => b"};
	Form from = f;
	double err;
	if (f.rank == 0 || f.elem == TY_BOOL)
		return NULL;
	int axis = pick(g, f.rank), n = extent_value(g->s, f.extent[axis]);
	const char *reverse = chance(g, 30) ? ", reverse = true" : "";
	if (chance(g, 40)) {
		int which = dtype_is_float(f.elem) ? 3 * pick(g, 2) : pick(g, LEN(fn));
		Term *t = term_make(g, f, true, depth);
		return term1(g, f, which == 2 ? range_of_type(f.elem) : t->range, t,
		    "scan($0, %d, %s%s)", axis, fn[which], reverse);
	}
	if (!is_sum_type(f.elem))
		return NULL;
	from.elem = summed_type(g, f.elem);
	if (chance(g, 30)) {
		Term *t = term_fit(
		    g, term_make(g, from, true, depth), dtype_is_float(f.elem) ? 1 : INFINITY, 0);
		ValueRange w = dtype_is_float(f.elem) ? range_make(1, 0, 0) : range_of_type(f.elem);
		return term1(g, f, w, t, "cumprod($0, %d%s)", axis, reverse);
	}
	Term *t = make_summable(g, term_make(g, from, exact, depth), f.elem, n, exact, &err);
	return term1(g, f, range_make(t->range.most * n, t->range.frac, err), t, "cumsum($0, %d%s)",
	    axis, reverse);
}

/* ---- order ---- */

Term *
rule_order(Maker *g, Form f, bool exact, int depth)
{
	if (f.rank == 0)
		return NULL;
	int axis = pick(g, f.rank);
	if (f.elem == TY_I32 && chance(g, 40)) {
		DType elem = pick_elem(g);
		Term *t = term_make(g, form_elem(f, dtype_is_packed(elem) ? TY_I8 : elem), true, depth);
		return term1(g, f, range_make((double)form_count(g, f), 0, 0), t, "argsort($0, %d%s)", axis,
		    chance(g, 40) ? ", descending = true" : "");
	}
	if (chance(g, 70)) {
		Term *t = term_make(g, f, true, depth);
		return term1(g, f, t->range, t, "sort($0, %d%s)", axis,
		    chance(g, 40) ? ", descending = true" : "");
	}
	Form from = f;
	from.extent[axis] = extent_both(g, EXTENT_SUM, f.extent[axis], extent_named(g));
	if (from.extent[axis] < 0 || !form_fits(g, from) || f.elem == TY_BOOL)
		return NULL;
	Term *t = term_make(g, from, true, depth);
	/* a part of the sorted whole, which is what topk gives */
	const char *all = "";
	for (int d = 0; d < axis; d++)
		all = arena_printf(g->s->mem, "%s:, ", all);
	return term1(g, f, t->range, t, "sort($0, %d, descending = true)[%s0 +: #%d#]", axis, all,
	    f.extent[axis]);
}

/* ---- random numbers ---- */

Term *
rule_random(Maker *g, Form f, bool exact, int depth)
{
	Term *seed = term_scalar(g, TY_I32, 1),
	     *at = term_make(g, form_elem(f, chance(g, 80) ? TY_I32 : TY_I64), true, MIN(depth, 1));
	if (f.elem == TY_I32)
		return term2(g, f, range_of_type(TY_I32), seed, at, "randint($0, $1)");
	if (f.elem != TY_F32)
		return NULL;
	if (exact || chance(g, 50))
		return term2(g, f, range_make(1, 40, 0), seed, at, "rand($0, $1)");
	return term2(g, f, range_make(8, FRAC_ANY, 1e-5), seed, at, "randn($0, $1)");
}
