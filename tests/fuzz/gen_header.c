/* What a kernel's header declares beside tensors: scalars, compile-time parameters, clauses. */
#include "gen_tgl.h"

#include <math.h>
#include <stdlib.h>

/* ---- scalars ---- */

static Param *
value_make(Maker *g, ParamUse use, DType elem)
{
	static const int whole[] = {0, 1, 1, 2, 3, 4, 7, 8, 16, 16, 32, 48, 64, 100, 127};
	static const double real[] = {0, 1, 0.5, 2, 0.25, 3, 16};
	Param *p = param_add(g, use, elem, "c");
	bool is_float = dtype_is_float(elem), negative = !dtype_is_unsigned(elem) && chance(g, 25);
	double v = is_float ? real[pick(g, LEN(real))] : whole[pick(g, LEN(whole))];
	p->range = (ValueRange){v, is_float ? 2 : 0, 0};
	p->decl = arena_printf(g->s->mem, use == USE_ONE ? "%s: in %s[]" : "%s: %s", p->name, dtype_info[elem].text);
	p->init = elem == TY_BOOL ? arena_printf(g->s->mem, "%s = %s;", p->name, v > 1 ? "true" : "false")
				  : arena_printf(g->s->mem, "%s = %g;", p->name, negative ? -v : v);
	return p;
}

static Param *
value_param(Maker *g, ParamUse use, Form f)
{
	if (f.rank || dtype_is_packed(f.elem) || dtype_info[f.elem].bits < 8)
		return NULL;
	Param *p = find_param(g, use, f.elem, 0, 0);
	bool more = g->s->params.n < MOST_PARAMS;
	return more && (!p || chance(g, 20)) ? value_make(g, use, f.elem) : p;
}

/* A scalar parameter: what a launch gives, 1 and multiples of 16 among them, for which code may be made specially. */
Term *
rule_value(Maker *g, Form f, bool exact, int depth)
{
	Param *p = value_param(g, USE_VALUE, f);
	return p ? term0(g, f, p->range, "%s", p->name) : NULL;
}

Term *
rule_one(Maker *g, Form f, bool exact, int depth)
{
	Param *p = value_param(g, USE_ONE, f);
	return p ? term0(g, f, p->range, "%s[]", p->name) : NULL;
}

/* What a tensor says of itself. */
Term *
rule_asked(Maker *g, Form f, bool exact, int depth)
{
	const Param *p = NULL;
	int n = 0;
	if (f.rank || f.elem != TY_I64)
		return NULL;
	for (int i = 0; i < g->s->params.n; i++)
		if (g->s->params.at[i]->use == USE_READ && pick(g, ++n) == 0)
			p = g->s->params.at[i];
	if (!p)
		return NULL;
	int d = pick(g, p->rank);
	bool stride = chance(g, 30) && !dtype_is_packed(p->elem);
	return term0(g, f, range_make(stride ? 1e10 : 200, 0, 0), "(%s.%s(%d) as i64)", p->name, stride ? "stride" : "shape",
	    chance(g, 30) ? d - p->rank : d);
}

/* ---- compile-time parameters ---- */

const Head *
head_make(Maker *g, DType elem)
{
	Source *s = g->s;
	for (int i = 0; i < s->heads.n; i++)
		if (s->heads.at[i].elem == elem)
			return &s->heads.at[i];
	Head h = {.elem = elem, .name = new_name(g, elem == TY_BOOL ? "B" : "T")};
	h.decl = elem == TY_BOOL
	    ? arena_printf(s->mem, "%s%s = %s", h.name, chance(g, 50) ? ": bool" : "", chance(g, 50) ? "true" : "false")
	    : arena_printf(s->mem, "%s: dtype = %s", h.name, dtype_info[elem].text);
	vec_push(s->mem, &s->heads, h);
	return &vec_last(&s->heads);
}

/* ---- clauses ---- */

static int
tunable_extent(Maker *g)
{
	for (int i = 0; i < g->s->nextent; i++) {
		const Extent *x = &g->s->extent[i];
		if (x->kind == EXTENT_NAMED && !x->is_const && x->b < 0)
			return i;
	}
	return -1;
}

void
clauses_make(Maker *g)
{
	static const char *const clause[] = {"tune(warps = {1, 2, 4})", "tune(stages = {1, 2, 3}, warps = {2, 4})",
	    "tune(persistent = {0, 1})", "tune(group = {1, 4})", "tune(warps = {4, 8}, specialize = {0, 1}, ctas = {1, 2})"};
	Arena *mem = g->s->mem;
	int e = tunable_extent(g);
	if (chance(g, 30))
		g->s->tune = clause[pick(g, LEN(clause))];
	else if (e >= 0 && chance(g, 15))
		g->s->tune = arena_printf(mem, "tune(#%d# = {%d, %d})", e, extent_value(g->s, e), 1 + pick(g, 40));
	if (e >= 0 && chance(g, 15))
		g->s->where = arena_printf(mem, "where #%d# >= 1 && #%d# <= 4096", e, e);
}
