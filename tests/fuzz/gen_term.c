/* Terms: the rules by weight, and what a term is when no rule applies. */
#include "gen_tgl.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

Term *
term_node(Maker *g, Form f, ValueRange w, Term *const *kid, int nkid, const char *fmt, ...)
{
	Term *t = NEW(g->s->mem, Term);
	va_list ap;
	va_start(ap, fmt);
	t->text = arena_vprintf(g->s->mem, fmt, ap);
	va_end(ap);
	t->form = f;
	t->range = range_settle(f.elem, w);
	t->nkid = nkid;
	for (int i = 0; i < nkid; i++)
		t->kid[i] = kid[i];
	return t;
}

/* ---- literals ---- */

static const char *
int_text(Maker *g, DType t, ValueRange *w)
{
	int bits = dtype_info[t].bits - !dtype_is_unsigned(t);
	int64_t most = bits >= 63 ? INT64_MAX : (INT64_C(1) << bits) - 1;
	int64_t v = pick(g, dtype_is_packed(t) ? 8 : 10);
	if (!dtype_is_unsigned(t))
		v -= 4;
	if (chance(g, 8))
		v = most - pick(g, 2);
	else if (chance(g, 5))
		v = most / 3;
	if (chance(g, 4) && !dtype_is_unsigned(t))
		v = -most;
	*w = (ValueRange){(double)(v < 0 ? -v : v), 0, 0};
	if (v >= 0 && chance(g, 10))
		return arena_printf(g->s->mem, v > 99999 ? "0x%llx" : chance(g, 50) ? "0o%llo" : "0x%llX", (unsigned long long)v);
	return arena_printf(g->s->mem, "%lld", (long long)v);
}

static const char *
float_text_of(Maker *g, DType t, ValueRange *w)
{
	int v = pick(g, 13) - 6, frac = chance(g, 30) ? 1 + pick(g, 2) : 0;
	if (t == TY_F4E2M1 || t == TY_F8E5M2)
		v /= 2;
	if (dtype_info[t].bits <= 8)
		frac = 0;
	if (chance(g, 3) && dtype_info[t].bits >= 16) {
		static const char *const odd[] = {"inf", "-inf", "nan"};
		*w = (ValueRange){INFINITY, 0, 0};
		return odd[pick(g, LEN(odd))];
	}
	*w = (ValueRange){ldexp(abs(v), -frac), frac, 0};
	return arena_printf(g->s->mem, "%g", ldexp(v, -frac));
}

const char *
number_text(Maker *g, DType t, ValueRange *w)
{
	*w = (ValueRange){1, 0, 0};
	if (t == TY_BOOL)
		return chance(g, 50) ? "true" : "false";
	return dtype_is_float(t) ? float_text_of(g, t, w) : int_text(g, t, w);
}

/* "([1, -2, 0] as i8)" */
static Term *
make_list(Maker *g, Form f)
{
	ValueRange all = {0}, w;
	const char *s = "";
	for (int i = 0; i < extent_value(g->s, f.extent[0]); i++) {
		const char *v = number_text(g, f.elem, &w);
		all = range_both(all, w);
		s = arena_printf(g->s->mem, "%s%s%s", s, i ? ", " : "", v);
	}
	return term0(g, f, all, "([%s] as %s)", s, dtype_info[f.elem].text);
}

Term *
term_literal(Maker *g, Form f)
{
	if (f.rank == 1 && !g->plain && g->s->extent[f.extent[0]].kind == EXTENT_NUMBER &&
	    extent_value(g->s, f.extent[0]) <= 12 && chance(g, 50))
		return make_list(g, f);
	ValueRange w;
	const char *type = dtype_info[f.elem].text, *v = number_text(g, f.elem, &w);
	if (g->plain || (f.rank == 0 && chance(g, 80)))
		return term0(g, f, w, "((%s) as %s)", v, type);
	if (chance(g, 20) && !dtype_is_packed(f.elem))
		return chance(g, 30) && f.elem != TY_BOOL
		    ? term0(g, f, range_make(1, 0, 0), "ones(%s, %s)", form_shape(g, f), type)
		    : term0(g, f, (ValueRange){0}, "zeros(%s, %s)", form_shape(g, f), type);
	return term0(g, f, w, "full(%s, %s, %s)", form_shape(g, f), v, type);
}

static Term *
make_iota(Maker *g, Form f)
{
	const char *type = dtype_info[f.elem].text;
	if (f.rank == 0 || dtype_is_float(f.elem) || dtype_is_packed(f.elem) || f.elem == TY_BOOL)
		return NULL;
	int axis = pick(g, f.rank), n = extent_value(g->s, f.extent[axis]);
	if (n > type_largest(f.elem))
		return NULL;
	if (f.rank == 1 && f.elem == TY_I32 && chance(g, 50))
		return term0(g, f, range_make(n, 0, 0), "arange(0, #%d#)", f.extent[0]);
	return term0(g, f, range_make(n, 0, 0), "iota(%s, %d, %s)", form_shape(g, f), axis, type);
}

/* Numbers that a program has of itself: where it is, and how large things are. */
static Term *
make_index(Maker *g, Form f)
{
	Form i64 = form_scalar(TY_I64);
	ValueRange w = {100, 0, 0};
	Term *t = NULL;
	if (f.rank || dtype_is_packed(f.elem))
		return NULL;
	if (g->s->naxis && chance(g, 60)) {
		const Axis *a = &g->s->axis[pick(g, g->s->naxis)];
		t = a->extent >= 0 && chance(g, 50)
			? term0(g, i64, range_make(200, 0, 0), "(%s * #%d#)", a->name, a->extent)
			: term0(g, i64, w, "%s", a->name);
	} else if (chance(g, 50)) {
		const char *what = chance(g, 50) ? "num_programs" : "program_id";
		t = term0(g, i64, w, "%s(%d)", what, pick(g, 3));
	} else { /* a size is one only if a tensor has it */
		const Axis *a = g->s->naxis ? &g->s->axis[pick(g, g->s->naxis)] : NULL;
		if (!a || a->size < 0)
			return NULL;
		t = term0(g, i64, w, "N%d", a->size);
	}
	if (f.elem == TY_I64)
		return t;
	return term1(
	    g, f, range_cast(TY_I64, f.elem, t->range), t, "($0 as %s)", dtype_info[f.elem].text);
}

static Term *
make_named(Maker *g, Form f, bool exact)
{
	int n = 0;
	const Named *found = NULL;
	for (int i = 0; i < g->scope.n; i++) {
		const Named *x = &g->scope.at[i];
		if (form_equal(x->form, f) && (!exact || x->range.err == 0) && pick(g, ++n) == 0)
			found = x;
	}
	return found ? term0(g, f, found->range, "%s", found->name) : NULL;
}

static Term *
make_leaf(Maker *g, Form f, bool exact)
{
	Term *t = NULL;
	if (chance(g, 75))
		t = make_named(g, f, exact);
	if (!t && !g->plain && f.rank == 0 && chance(g, 30))
		t = (chance(g, 25) ? rule_asked : chance(g, 20) ? rule_one : rule_value)(g, f, exact, 0);
	if (!t && !g->plain && chance(g, 50))
		t = rule_read(g, f, exact, 0);
	if (!t && !g->plain && chance(g, 60))
		t = make_index(g, f);
	if (!t && !g->plain && chance(g, 40))
		t = make_iota(g, f);
	if (!t && chance(g, 60))
		t = make_named(g, f, exact);
	return t ? t : term_literal(g, f);
}

/* ---- the rules ---- */

typedef struct RuleRow {
	TermRule *rule;
	int weight;
	bool plain; /* elementwise */
} RuleRow;

static const RuleRow rules[] = {
    {rule_elementwise, 34, true},
    {rule_cast, 10, true},
    {rule_math, 6, true},
    {rule_helper, 5, true},
    {rule_shape, 12, false},
    {rule_cut, 6, false},
    {rule_gather, 3, false},
    {rule_scatter, 3, false},
    {rule_table, 3, false},
    {rule_join, 4, false},
    {rule_reduce, 9, false},
    {rule_scan, 4, false},
    {rule_order, 5, false},
    {rule_dot, 8, false},
    {rule_dot_scaled, 3, false},
    {rule_random, 2, false},
    {rule_read, 10, false},
    {rule_load, 3, false},
    {rule_read_own, 3, false},
};

static TermRule *
pick_rule(Maker *g)
{
	int all = 0;
	for (int i = 0; i < LEN(rules); i++)
		all += !g->plain || rules[i].plain ? rules[i].weight : 0;
	int at = pick(g, all);
	for (int i = 0; i < LEN(rules); i++) {
		at -= !g->plain || rules[i].plain ? rules[i].weight : 0;
		if (at < 0)
			return rules[i].rule;
	}
	unreachable();
}

Term *
term_make(Maker *g, Form f, bool exact, int depth)
{
	if (dtype_is_packed(f.elem)) {
		Term *t = rule_read(g, f, exact, depth);
		return t ? t : term_literal(g, f);
	}
	for (int tries = 0; depth > 0 && tries < 6 && !chance(g, 12); tries++) {
		bool calls = !exact && dtype_is_float(f.elem) && chance(g, 50);
		Term *t = (calls ? rule_math : pick_rule(g))(g, f, exact, depth - 1);
		if (t && form_equal(t->form, f) && (!exact || t->range.err == 0) &&
		    isfinite(t->range.err))
			return t;
	}
	return make_leaf(g, f, exact);
}

Term *
term_scalar(Maker *g, DType elem, int depth)
{
	return term_make(g, form_scalar(elem), true, depth);
}

/* ---- keeping within ---- */

Term *
term_fit(Maker *g, Term *t, double most, int frac)
{
	static const char *const whole[] = {"floor", "ceil", "round", "trunc"};
	Form f = t->form;
	if (f.elem == TY_BOOL)
		return t;
	if (dtype_is_float(f.elem) && t->range.frac > frac)
		t = term1(g, f, range_make(t->range.most + 1, 0, 0), t, "%s($0)",
		    whole[pick(g, LEN(whole))]);
	if (t->range.most <= most)
		return t;
	ValueRange w = {most, MIN(t->range.frac, frac), t->range.err};
	if (dtype_is_unsigned(f.elem))
		return term1(g, f, w, t, "clamp($0, 0, %g)", most);
	if (!dtype_is_float(f.elem) && most >= 4 && chance(g, 30))
		return term1(g, f, w, t, "($0 %% %d)", (int)most);
	return term1(g, f, w, t, "clamp($0, -%g, %g)", most, most);
}
