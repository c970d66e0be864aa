/* The grid of a kernel, its parameters and indexing of tensors. */
#include "gen_tgl.h"

#include <math.h>
#include <string.h>

enum { MOST_PROGRAMS = 12 };
enum { MOST_INPUT = 1 << 24 };                          /* elements: 12.9 GB in five dimensions took 40 s to fill */

/* ---- the grid ---- */

static void
axis_make(Maker *g, Axis *a, const char *name, int room)
{
	*a = (Axis){.name = name, .size = pick(g, MAX_SIZES)};
	a->extent = extent_named(g);
	a->count = arena_printf(g->s->mem, "cdiv(N%d, #%d#)", a->size, a->extent);
	if (chance(g, 20)) {
		a->extent = -1;
		a->count = arena_printf(g->s->mem, "N%d", a->size);
	}
	if (chance(g, 15) || axis_count(g->s, a) > room) {
		a->size = a->extent = -1;
		a->number = 1 + pick(g, MIN(room, 4));
		a->count = arena_printf(g->s->mem, "%d", a->number);
	}
}

void
axes_make(Maker *g)
{
	static const char *const name[] = {"i", "j", "k"};
	int room = g->large ? 4 : MOST_PROGRAMS;
	g->s->naxis = chance(g, 10) ? 0 : 1 + pick(g, chance(g, 50) ? 2 : 3);
	for (int i = 0; i < g->s->naxis; i++) {
		axis_make(g, &g->s->axis[i], name[i], room);
		room = MAX(room / MAX(axis_count(g->s, &g->s->axis[i]), 1), 1);
	}
}

/* ---- first values ---- */

static const char *
init_int(Maker *g, DType t, const char *shape, ValueRange *w)
{
	if (t == TY_BOOL)
		return arena_printf(g->s->mem, "integers(0, 2%s) > 0", shape);
	if (t == TY_I4 || t == TY_U4)
		return arena_printf(
		    g->s->mem, "integers(%s%s)", t == TY_I4 ? "-8, 8" : "0, 16", shape);
	int64_t most = INT64_C(1) << MIN(type_mantissa(t), 60);
	if (chance(g, 60))
		most = MIN(most, dtype_is_unsigned(t) ? 12 : 7);
	w->most = (double)most;
	return arena_printf(g->s->mem, "integers(%lld, %lld%s)",
	    (long long)(dtype_is_unsigned(t) ? 0 : -most), (long long)most, shape);
}

static const char *
init_float(Maker *g, DType t, const char *shape, ValueRange *w)
{
	Arena *mem = g->s->mem;
	*w = (ValueRange){4, 0, 0};
	if (chance(g, 60) || t == TY_F4E2M1)
		return arena_printf(mem, "integers(-4, 5%s)", shape);
	if (chance(g, 40)) {
		*w = (ValueRange){4, 2, 0};
		return arena_printf(mem, "integers(-16, 17%s) * 0.25", shape);
	}
	if (chance(g, 50)) {
		*w = (ValueRange){8, FRAC_ANY, 0};
		return arena_printf(mem, "normal(0, 1%s)", shape);
	}
	*w = (ValueRange){INFINITY, 2, 0};
	return arena_printf(mem, "where(integers(0, 6%s) == 0, %s, integers(-4, 5%s))", shape,
	    t == TY_F8E4M3 || chance(g, 50) ? "nan"
	    : chance(g, 50)                 ? "inf"
					    : "-inf",
	    shape);
}

const char *
make_init(Maker *g, const char *name, DType t, const char *shape, ValueRange *w)
{
	*w = range_of_type(t);
	const char *v = dtype_is_float(t) || t == TY_F4E2M1 ? init_float(g, t, shape, w)
							    : init_int(g, t, shape, w);
	return arena_printf(g->s->mem, "%s = %s;", name, v);
}

Param *
param_add(Maker *g, ParamUse use, DType elem, const char *prefix)
{
	Param *p = NEW(g->s->mem, Param);
	p->name = new_name(g, prefix);
	p->use = use;
	p->elem = elem;
	vec_push(g->s->mem, &g->s->params, p);
	return p;
}

/* ---- inputs ---- */

Param *
input_make(Maker *g, DType elem, int rank, Form form)
{
	Param *p = param_add(g, USE_READ, elem, "x");
	const char *dims = "";
	int64_t elements = 1;
	p->rank = rank;
	for (int d = 0; d < rank; d++) {
		int size = pick(g, MAX_SIZES), n = g->s->size[size];
		const char *dim = arena_printf(g->s->mem, "N%d", size);
		p->extent[d] = -1;
		if (chance(g, 45)) {
			p->extent[d] = form.rank && chance(g, 60)
					   ? form.extent[pick(g, form.rank)]
					   : extent_named(g);
			dim = arena_printf(g->s->mem, "#%d#", p->extent[d]);
			n = extent_value(g->s, p->extent[d]);
		}
		if (elements * n > MOST_INPUT)
			dim = "1", n = 1, p->extent[d] = -1;
		elements *= n;
		dims = arena_printf(g->s->mem, "%s%s%s", dims, d ? ", " : "", dim);
	}
	bool strided = chance(g, 10) && !dtype_is_packed(elem);
	p->decl = arena_printf(g->s->mem, "%s: in %s%s[%s]", p->name, strided ? "strided " : "",
	    dtype_info[elem].text, dims);
	p->init = make_init(g, p->name, elem, "", &p->range);
	return p;
}

Param *
find_param(Maker *g, ParamUse use, DType elem, int least, int most)
{
	Param *found = NULL;
	int n = 0;
	for (int i = 0; i < g->s->params.n; i++) {
		Param *p = g->s->params.at[i];
		int rank = use == USE_OWN ? p->form.rank : p->rank;
		if (p->use == use && p->elem == elem && rank >= least && rank <= most &&
		    pick(g, ++n) == 0)
			found = p;
	}
	return found;
}

/* ---- indexing ---- */

void
index_term(Index *x, Term *t)
{
	x->kid[x->nkid++] = t;
}

Term *
index_start(Maker *g, int extent, int depth)
{
	Form i64 = form_scalar(TY_I64);
	if (chance(g, 45))
		return term0(g, i64, range_make(0, 0, 0), "0");
	for (int i = 0; i < g->s->naxis; i++)
		if (extent >= 0 && g->s->axis[i].extent == extent && chance(g, 70))
			return term0(g, i64, range_make(300, 0, 0), "(%s * #%d#)",
			    g->s->axis[i].name, extent);
	return term_scalar(g, chance(g, 60) ? TY_I64 : TY_I32, depth > 1);
}

/* Distinct positions along an extent, in another order, some of them outside. */
Term *
make_distinct(Maker *g, int extent)
{
	static const char *const form[] = {
	    "(#%d# - 1 - arange(0, #%d#))", "(arange(0, #%d#) * 2)", "(arange(0, #%d#) - 1)"};
	Form f = {.elem = TY_I32, .rank = 1, .extent = {extent}};
	ValueRange w = {200, 0, 0};
	int which = pick(g, 4);
	if (which < 3)
		return term0(g, f, w, form[which], extent, extent);
	return term1(g, f, w, term_make(g, form_elem(f, TY_BOOL), true, 1),
	    "where($0, arange(0, #%d#), -1)", extent);
}

/* One dimension of a tile that is read (anywhere) or written (each element once). */
static const char *
index_part(
    Maker *g, Index *x, const Param *p, int dim, int extent, bool writes, bool *gathers, int depth)
{
	if (p->extent[dim] == extent && chance(g, 60))
		return ":";
	if (!*gathers && chance(g, 12) && !dtype_is_packed(p->elem)) {
		Form ids = {.elem = chance(g, 70) ? TY_I32 : TY_I64, .rank = 1, .extent = {extent}};
		*gathers = true;
		index_term(
		    x, writes ? make_distinct(g, extent) : term_make(g, ids, true, MIN(depth, 2)));
		return arena_printf(g->s->mem, "$%d", x->nkid - 1);
	}
	index_term(x, index_start(g, extent, depth));
	return arena_printf(g->s->mem, "$%d +: #%d#", x->nkid - 1, extent);
}

Index
index_make(Maker *g, const Param *p, Form f, bool writes, int depth)
{
	Index x = {0};
	int order[FORM_RANK], nfree = 0, part = 0;
	bool permutes = p->rank > 1 && chance(g, 15) && !dtype_is_packed(p->elem), gathers = false;
	const char *list = "", *text = "";
	for (int d = 0; d < p->rank; d++) {
		int j = permutes ? pick(g, d + 1) : d;
		order[d] = order[j];
		order[j] = d;
		nfree += !p->fixed[d];
	}
	for (int v = 0; v < p->rank; v++) {
		int d = order[v];
		const char *at = p->fixed[d];
		if (!at && nfree > f.rank - part && (part == f.rank || chance(g, 50))) {
			index_term(&x, index_start(g, -1, depth));
			at = arena_printf(g->s->mem, "$%d", x.nkid - 1);
			nfree--;
		} else if (!at) {
			at = index_part(g, &x, p, d, f.extent[part++], writes, &gathers, depth);
			nfree--;
		}
		list = arena_printf(g->s->mem, "%s%s%d", list, v ? ", " : "", d);
		text = arena_printf(g->s->mem, "%s%s%s", text, v ? ", " : "", at);
	}
	const char *base = p->name;
	if (permutes)
		base = p->rank == 2 && order[0] == 1
			   ? arena_printf(g->s->mem, "%s.T", p->name)
			   : arena_printf(g->s->mem, "permute(%s, [%s])", p->name, list);
	x.text = arena_printf(g->s->mem, "%s[%s]", base, text);
	return x;
}
