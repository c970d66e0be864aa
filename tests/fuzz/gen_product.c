/* Products of matrices: terms of them, scaled ones, and loops over the inner dimension as kernels have them. */
#include "gen_tgl.h"

#include <math.h>

/* ---- exact sums ---- */

/* Sums of n numbers, at most `most` of frac bits: does no order of adding round in type t? */
bool
is_exact_sum(DType t, double n, double most, int frac)
{
	return frac < 60 && n * ldexp(most, frac) <= ldexp(1, type_mantissa(t));
}

bool
is_sum_type(DType t)
{
	return t == TY_F32 || t == TY_F64 || (!dtype_is_float(t) && dtype_info[t].bits >= 32);
}

/* ---- terms ---- */

static DType
dot_type(Maker *g, DType to)
{
	static const DType f32[] = {TY_F16, TY_F16, TY_BF16, TY_F32, TY_F32, TY_F8E4M3, TY_F8E5M2};
	static const DType i32[] = {TY_I8, TY_I8, TY_U8, TY_I16, TY_I32};
	if (to == TY_F32)
		return f32[pick(g, LEN(f32))];
	return to == TY_I32 ? i32[pick(g, LEN(i32))] : to;
}

/* An operand whose elements are small enough that n products of two such are summed exactly in any
 * order, also by instructions that keep 11 bits of an operand. */
static Term *
dot_operand(Maker *g, Form f, double n, int depth)
{
	Term *t = term_make(g, f, true, depth);
	if (!dtype_is_float(f.elem))
		return t;
	int bits = MIN(f.elem == TY_F64 ? 50 : 22, 22);
	if (t->range.most <= 16 && t->range.frac <= 2 &&
	    n * ldexp(256, 2 * t->range.frac) <= ldexp(1, bits))
		return t;
	return term_fit(g, t, n > 1000 ? 4 : 8, 0);
}

static const char *
dot_text(Maker *g, DType elem, bool has_acc)
{
	static const char *const precision[] = {"ieee", "tf32", "tf32x3", "fast"};
	const char *acc = has_acc ? ", $2" : "";
	if (elem == TY_F32 && chance(g, 60))
		return arena_printf(
		    g->s->mem, "dot($0, $1%s, precision = %s)", acc, precision[pick(g, 4)]);
	return !has_acc && chance(g, 60) ? "($0 @ $1)"
					 : arena_printf(g->s->mem, "dot($0, $1%s)", acc);
}

Term *
rule_dot(Maker *g, Form f, bool exact, int depth)
{
	Form a = f, b = f;
	if (f.rank < 2 || !is_sum_type(f.elem))
		return NULL;
	int k = extent_named(g);
	a.elem = b.elem = dot_type(g, f.elem);
	if (a.elem == TY_F8E4M3 && chance(g, 30))
		b.elem = TY_F8E5M2;
	a.extent[f.rank - 1] = k;
	b.extent[f.rank - 2] = k;
	if (f.rank > 2 && chance(g, 30))
		a = form_remove(a, 0);
	else if (f.rank > 2 && chance(g, 30))
		b.extent[0] = extent_number(g, 1);
	if (!form_fits(g, a) || !form_fits(g, b))
		return NULL;
	double n = extent_value(g->s, k);
	Term *x = dot_operand(g, a, n, depth), *y = dot_operand(g, b, n, depth), *acc = NULL;
	ValueRange w = range_of_type(f.elem);
	if (dtype_is_float(f.elem))
		w = (ValueRange){n * x->range.most * y->range.most, x->range.frac + y->range.frac, 0};
	if (!chance(g, 40))
		return term2(g, f, w, x, y, "%s", dot_text(g, a.elem, false));
	acc = term_make(g, f, exact, depth);
	if (dtype_is_float(f.elem)) {
		acc = term_fit(g, acc, 100, 0);
		w = range_add(w, acc->range);
	}
	return term3(g, f, w, x, y, acc, "%s", dot_text(g, a.elem, true));
}

/* ---- loops over the inner dimension of a product, or of a sum ---- */

static Term *
whole_read(Maker *g, Form f, const char *name, const char *index)
{
	return term0(g, f, range_make(4, 0, 0), "%s[%s]", name, index);
}

static Param *
loop_input(Maker *g, DType elem, const char *dims)
{
	Param *p = NEW(g->s->mem, Param);
	p->name = new_name(g, "x");
	p->use = USE_LOOP;
	p->elem = elem;
	p->decl = arena_printf(g->s->mem, "%s: in %s[%s]", p->name, dtype_info[elem].text, dims);
	p->init = arena_printf(
	    g->s->mem, "%s = integers(%s);", p->name, dtype_is_unsigned(elem) ? "0, 9" : "-4, 5");
	vec_push(g->s->mem, &g->s->params, p);
	return p;
}

/* Where on the grid a tile of `extent` starts: along an axis of such tiles, if there is one. */
static const char *
tile_start(Maker *g, int extent, bool inside)
{
	for (int i = 0; i < g->s->naxis && !inside; i++)
		if (g->s->axis[i].extent == extent)
			return arena_printf(g->s->mem, "%s * #%d#", g->s->axis[i].name, extent);
	return "0";
}

void
step_dot_loop(Maker *g, Steps *to)
{
	static const DType elem[] = {TY_F16, TY_F16, TY_BF16, TY_F32, TY_I8, TY_F8E4M3, TY_U8};
	static const DType acc[] = {TY_F32, TY_F32, TY_F32, TY_F32, TY_I32, TY_F32, TY_I32};
	int which = pick(g, LEN(elem)), m = extent_named(g), n = extent_named(g),
	    k = extent_named(g);
	Arena *mem = g->s->mem;
	const char *i = new_name(g, "n"), *name = new_name(g, "m"),
		   *size = arena_printf(mem, "N%d", pick(g, MAX_SIZES));
	Form fa = {elem[which], 2, {m, k}}, fb = {elem[which], 2, {k, n}},
	     fc = {acc[which], 2, {m, n}};
	int most = g->most_elements;
	g->most_elements = g->large ? 8192 : most;
	bool fits = form_fits(g, fa) && form_fits(g, fb) && form_fits(g, fc) && g->s->params.n <= MOST_PARAMS;
	g->most_elements = most;
	if (!fits)
		return;
	bool turned = chance(g, 25);
	Param *a = loop_input(g, fa.elem, arena_printf(mem, "N%d, %s", pick(g, MAX_SIZES), size));
	Param *b = loop_input(g, fb.elem,
	    turned ? arena_printf(mem, "N%d, %s", pick(g, MAX_SIZES), size)
		   : arena_printf(mem, "%s, N%d", size, pick(g, MAX_SIZES)));
	step1(g, to,
	    term0(g, fc, (ValueRange){0}, "zeros(%s, %s)", form_shape(g, fc), dtype_info[fc.elem].text),
	    "var %s = $0", name);
	name_push(g, name, fc, (ValueRange){4096, 0, 0}, false);
	Step *s = step0(g, to, "for %s in range(0, %s, #%d#)", i, size, k);
	const char *row = tile_start(g, m, chance(g, 20)),
		   *column = tile_start(g, n, chance(g, 20));
	Term *x =
	    whole_read(g, fa, a->name, arena_printf(mem, "%s +: #%d#, %s +: #%d#", row, m, i, k));
	Term *y = turned ? whole_read(g, fb, arena_printf(mem, "%s.T", b->name),
			       arena_printf(mem, "%s +: #%d#, %s +: #%d#", i, k, column, n))
			 : whole_read(g, fb, b->name,
			       arena_printf(mem, "%s +: #%d#, %s +: #%d#", i, k, column, n));
	if (chance(g, 20))
		x = term1(g, fa, range_make(4, 0, 0), x,
		    dtype_is_float(fa.elem) ? "max($0, 0)" : "($0 & 3)");
	s->has_body = true;
	step2(g, &s->body, x, y, chance(g, 50) ? "%s += $0 @ $1" : "%s = dot($0, $1, %s)", name,
	    name);
	if (chance(g, 25))
		body_make(g, s, &s->body, 1);
}

void
step_sum_loop(Maker *g, Steps *to)
{
	Arena *mem = g->s->mem;
	const char *i = new_name(g, "n"), *name = new_name(g, "m"),
		   *size = arena_printf(mem, "N%d", pick(g, MAX_SIZES));
	int r = extent_named(g), c = extent_named(g);
	Form tile = {chance(g, 50) ? TY_F16 : TY_F32, 2, {r, c}}, f = {TY_F32, 1, {r}};
	if (!form_fits(g, tile) || g->s->params.n > 14)
		return;
	Param *a = loop_input(g, tile.elem, arena_printf(mem, "N%d, %s", pick(g, MAX_SIZES), size));
	bool greatest = chance(g, 40);
	step1(g, to,
	    term0(g, f, range_make(4, 0, 0), "full(%s, %d, f32)", form_shape(g, f),
		greatest ? -9 : 0),
	    "var %s = $0", name);
	name_push(g, name, f, (ValueRange){4096, 0, 0}, false);
	Step *s = step0(g, to, "for %s in range(0, %s, #%d#)", i, size, c);
	Term *x = whole_read(g, tile, a->name,
	    arena_printf(mem, "%s +: #%d#, %s +: #%d#", tile_start(g, r, false), r, i, c));
	s->has_body = true;
	if (greatest)
		step1(g, &s->body, x, "%s = max(%s, max($0, axis = 1))", name, name);
	else
		step1(g, &s->body, x, "%s += sum($0, axis = 1)", name);
	if (chance(g, 30))
		body_make(g, s, &s->body, 1);
}

/* The greatest element of each row so far, and in how many trips it was one: no sum, so that a merge joins it. */
void
step_merge_loop(Maker *g, Steps *to)
{
	Arena *mem = g->s->mem;
	const char *i = new_name(g, "n"), *top = new_name(g, "m"), *times = new_name(g, "m"), *next = new_name(g, "m"),
		   *here = new_name(g, "m"), *part = new_name(g, "p"), *size = arena_printf(mem, "N%d", pick(g, MAX_SIZES));
	int r = extent_named(g), c = extent_named(g);
	static const DType elem[] = {TY_F16, TY_F32, TY_I32, TY_I8};
	DType t = elem[pick(g, LEN(elem))];
	Form tile = {t, 2, {r, c}}, f = {t, 1, {r}}, n = {TY_I32, 1, {r}};
	if (!form_fits(g, tile) || g->s->params.n > 14)
		return;
	Param *a = loop_input(g, tile.elem, arena_printf(mem, "N%d, %s", pick(g, MAX_SIZES), size));
	step1(g, to, term0(g, f, range_make(9, 0, 0), "full(%s, -9, %s)", form_shape(g, f), dtype_info[t].text),
	    "var %s = $0", top);
	step1(g, to, term0(g, n, (ValueRange){0}, "zeros(%s, i32)", form_shape(g, n)), "var %s = $0", times);
	name_push(g, top, f, range_make(9, 0, 0), false);
	name_push(g, times, n, (ValueRange){4096, 0, 0}, false);
	Step *s = step0(g, to, "for %s in range(0, %s, #%d#)", i, size, c);
	Term *x = whole_read(g, tile, a->name,
	    arena_printf(mem, "%s +: #%d#, %s +: #%d#", tile_start(g, r, false), r, i, c));
	s->has_body = s->has_else = true;
	s->part = part;
	step1(g, &s->body, x, "let %s = max($0, axis = 1)", here);
	step0(g, &s->body, "let %s = max(%s, %s)", next, top, here);
	step0(g, &s->body, "%s = where(%s == %s, %s, 0) + where(%s == %s, 1, 0)", times, top, next, times, here, next);
	step0(g, &s->body, "%s = %s", top, next);
	step0(g, &s->orelse, "let %s = max(%s, %s.%s)", next, top, part, top);
	step0(g, &s->orelse, "%s = where(%s == %s, %s, 0) + where(%s.%s == %s, %s.%s, 0)", times, top, next, times, part, top,
	    next, part, times);
	step0(g, &s->orelse, "%s = %s", top, next);
}

/* ---- scaled products ---- */

/* Scales between 1/4 and 4. */
static Term *
make_scale(Maker *g, Form f, int depth)
{
	static const DType elem[] = {TY_U8, TY_U8, TY_F32, TY_F16, TY_BF16};
	f.elem = elem[pick(g, LEN(elem))];
	Term *t = term_make(g, f, true, depth);
	if (f.elem == TY_U8)
		return term1(g, f, range_make(129, 0, 0), t, chance(g, 50) ? "clamp($0, 125, 129)" : "(125 + ($0 & 3))");
	t = term_fit(g, t, 4, 0);
	return term1(g, f, range_make(4, 2, 0), t, "($0 * 0.25)");
}

Term *
rule_dot_scaled(Maker *g, Form f, bool exact, int depth)
{
	static const DType elem[] = {TY_F8E4M3, TY_F8E5M2, TY_F4E2M1, TY_F4E2M1, TY_F16, TY_BF16, TY_F32};
	Form a = f, b = f, as = f, bs = f;
	int k = extent_named(g), n = extent_value(g->s, k), block = chance(g, 40) ? 32 : 1 + pick(g, 16);
	if (f.rank < 2 || f.elem != TY_F32 || n > 64)
		return NULL;
	a.elem = b.elem = elem[pick(g, LEN(elem))];
	a.extent[f.rank - 1] = b.extent[f.rank - 2] = k;
	bs.extent[f.rank - 2] = f.extent[f.rank - 1];
	as.extent[f.rank - 1] = bs.extent[f.rank - 1] = extent_number(g, (n + block - 1) / block);
	if (!form_fits(g, a) || !form_fits(g, b))
		return NULL;
	Term *kid[5] = {dot_operand(g, a, n, depth), make_scale(g, as, MIN(depth, 2)), dot_operand(g, b, n, depth),
	    make_scale(g, bs, MIN(depth, 2)), NULL};
	ValueRange w = {n * kid[0]->range.most * kid[2]->range.most * 16, kid[0]->range.frac + kid[2]->range.frac + 4, 0};
	if (!(w.most <= 1e6) || w.frac > 8 || !is_exact_sum(TY_F32, 1, w.most, w.frac))
		return NULL;
	bool has_acc = chance(g, 30);
	if (has_acc) {
		kid[4] = term_fit(g, term_make(g, f, true, depth), 100, 0);
		w = range_add(w, kid[4]->range);
	}
	const char *text = arena_printf(g->s->mem, "dot_scaled($0, $1, $2, $3%s, block = %d)", has_acc ? ", $4" : "", block);
	return term_node(g, f, w, kid, has_acc ? 5 : 4, "%s", block == 32 && !has_acc ? "dot_scaled($0, $1, $2, $3)" : text);
}
