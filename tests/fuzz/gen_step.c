/* Statements: names and variables, control flow that carries tiles, loops of products, tuples; and
 * helper functions. */
#include "gen_tgl.h"

#include <math.h>

enum { MOST_NESTING = 3 };

Step *
step_add(Maker *g, Steps *to, Term *const *kid, int nkid, const char *fmt, ...)
{
	Step *s = NEW(g->s->mem, Step);
	va_list ap;
	va_start(ap, fmt);
	s->text = arena_vprintf(g->s->mem, fmt, ap);
	va_end(ap);
	s->nkid = nkid;
	for (int i = 0; i < nkid; i++)
		s->kid[i] = kid[i];
	vec_push(g->s->mem, to, s);
	return s;
}

static void
make_body(Maker *g, Step *s, Steps *body, int n)
{
	int names = g->scope.n;
	s->has_body = true;
	g->nesting++;
	steps_make(g, body, n);
	g->nesting--;
	g->scope.n = names;
}

/* ---- names ---- */

static void
make_let(Maker *g, Steps *to)
{
	DType elem = pick_elem(g);
	Form f = pick_form(g, elem, 0, chance(g, 20) ? 4 : 2);
	Term *t = term_make(g, f, chance(g, 80), 4);
	const char *name = new_name(g, "v");
	step1(g, to, t, "let %s = $0", name);
	name_push(g, name, f, t->worth, false);
}

static void
make_var(Maker *g, Steps *to)
{
	Form f = pick_form(g, pick_elem(g), 0, 2);
	const char *name = new_name(g, "m");
	step1(g, to, term_make(g, f, true, 3), "var %s = $0", name);
	name_push(g, name, f, worth_of_type(f.elem), true);
}

static const Named *
find_var(Maker *g)
{
	const Named *found = NULL;
	int n = 0;
	for (int i = 0; i < g->scope.n; i++)
		if (g->scope.at[i].is_var && pick(g, ++n) == 0)
			found = &g->scope.at[i];
	return found;
}

static bool
make_assign(Maker *g, Steps *to)
{
	const Named *found = find_var(g);
	if (!found)
		return false;
	Named v = *found;
	const char *op = "";
	Form f = v.form;
	if (v.form.elem != TY_BOOL && chance(g, 40)) {
		op = dtype_is_float(f.elem) ? chance(g, 50) ? "+" : "*" : chance(g, 50) ? "+" : "^";
		f = form_narrow(g, f);
	}
	step1(g, to, term_make(g, f, true, 3), "%s %s= $0", v.name, op);
	return true;
}

/* ---- control ---- */

static void
make_if(Maker *g, Steps *to)
{
	Term *c = term_scalar(g, TY_BOOL, 3);
	Step *s = step1(g, to, c, "if $0");
	make_body(g, s, &s->body, 1 + pick(g, 2));
	s->has_else = chance(g, 50);
	if (s->has_else)
		make_body(g, s, &s->orelse, 1 + pick(g, 2));
}

static Term *
make_bound(Maker *g, int most)
{
	Form f = form_scalar(chance(g, 60) ? TY_I32 : TY_I64);
	Worth w = {most, 0, 0};
	return term1(g, f, w, term_make(g, f, true, 2), "clamp($0, 0, %d)", most);
}

static void
make_for(Maker *g, Steps *to)
{
	const char *i = new_name(g, "n");
	Term *from = make_bound(g, 4), *end = make_bound(g, 6);
	int kind = pick(g, 4), n = 1 + pick(g, 3);
	Step *s;
	switch (kind) {
	case 0: s = step0(g, to, "for %s in range(%d)", i, n); break;
	case 1: s = step1(g, to, from, "for %s in range($0)", i); break;
	case 2: s = step2(g, to, from, end, "for %s in range($0, $1, %d)", i, n); break;
	default: s = step1(g, to, end, "for %s in range($0, -1, -%d)", i, n); break;
	}
	name_push(g, i, form_scalar(TY_I64), (Worth){8, 0, 0}, false);
	make_body(g, s, &s->body, 1 + pick(g, 3));
	g->scope.n--;
}

static void
make_while(Maker *g, Steps *to)
{
	const char *n = new_name(g, "n");
	step1(g, to, make_bound(g, 4), "var %s = $0", n)->fixed = true;
	Step *s = step1(g, to, term_scalar(g, TY_BOOL, 2), "while %s > 0 && $0", n);
	step0(g, &s->body, "%s -= 1", n)->fixed = true;
	make_body(g, s, &s->body, 1 + pick(g, 2));
}

static void
make_static(Maker *g, Steps *to)
{
	const char *i = new_name(g, "n");
	if (chance(g, 50)) {
		Step *s = step0(g, to, "static for %s in range(%d)", i, 1 + pick(g, 3));
		make_body(g, s, &s->body, 1 + pick(g, 2));
		return;
	}
	int extent = extent_named(g);
	Step *s = step0(g, to, "static if #%d# > %d", extent, pick(g, 20));
	make_body(g, s, &s->body, 1);
	s->has_else = chance(g, 60);
	if (s->has_else)
		make_body(g, s, &s->orelse, 1);
}

/* ---- loops over the inner dimension of a product, or of a sum ---- */

static Term *
whole_read(Maker *g, Form f, const char *name, const char *index)
{
	return term0(g, f, worth_make(4, 0, 0), "%s[%s]", name, index);
}

static Param *
loop_input(Maker *g, DType elem, const char *dims)
{
	Param *p = NEW(g->s->mem, Param);
	p->name = new_name(g, "x");
	p->use = USE_SCALAR; /* no one else reads it */
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

static void
make_dot_loop(Maker *g, Steps *to)
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
	if (!form_fits(g, fa) || !form_fits(g, fb) || !form_fits(g, fc) || g->s->params.n > 14)
		return;
	bool turned = chance(g, 25);
	Param *a = loop_input(g, fa.elem, arena_printf(mem, "N%d, %s", pick(g, MAX_SIZES), size));
	Param *b = loop_input(g, fb.elem,
	    turned ? arena_printf(mem, "N%d, %s", pick(g, MAX_SIZES), size)
		   : arena_printf(mem, "%s, N%d", size, pick(g, MAX_SIZES)));
	step1(g, to,
	    term0(g, fc, (Worth){0}, "zeros(%s, %s)", form_shape(g, fc), dtype_info[fc.elem].text),
	    "var %s = $0", name);
	name_push(g, name, fc, (Worth){4096, 0, 0}, false);
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
		x = term1(g, fa, worth_make(4, 0, 0), x,
		    dtype_is_float(fa.elem) ? "max($0, 0)" : "($0 & 3)");
	s->has_body = true;
	step2(g, &s->body, x, y, chance(g, 50) ? "%s += $0 @ $1" : "%s = dot($0, $1, %s)", name,
	    name);
	if (chance(g, 25))
		make_body(g, s, &s->body, 1);
}

static void
make_sum_loop(Maker *g, Steps *to)
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
	    term0(g, f, worth_make(4, 0, 0), "full(%s, %d, f32)", form_shape(g, f),
		greatest ? -9 : 0),
	    "var %s = $0", name);
	name_push(g, name, f, (Worth){4096, 0, 0}, false);
	Step *s = step0(g, to, "for %s in range(0, %s, #%d#)", i, size, c);
	Term *x = whole_read(g, tile, a->name,
	    arena_printf(mem, "%s +: #%d#, %s +: #%d#", tile_start(g, r, false), r, i, c));
	s->has_body = true;
	if (greatest)
		step1(g, &s->body, x, "%s = max(%s, max($0, axis = 1))", name, name);
	else
		step1(g, &s->body, x, "%s += sum($0, axis = 1)", name);
	if (chance(g, 30))
		make_body(g, s, &s->body, 1);
}

/* ---- tuples ---- */

static void
make_topk(Maker *g, Steps *to)
{
	DType elem;
	do
		elem = pick_elem(g);
	while (elem == TY_BOOL);
	Form f = pick_form(g, elem, 1, 3), part = f;
	int axis = pick(g, f.rank), n = extent_value(g->s, f.extent[axis]),
	    k = 1 + pick(g, MIN(n, 8));
	const char *v = new_name(g, "v"), *i = new_name(g, "v");
	Term *t = term_make(g, f, true, 3);
	part.extent[axis] = extent_number(g, k);
	step1(g, to, t, "let (%s, %s) = topk($0, %d, axis = %d)", v, i, k, axis);
	name_push(g, v, part, t->worth, false);
	name_push(g, i, form_elem(part, TY_I32), (Worth){n, 0, 0}, false);
}

static void
make_split(Maker *g, Steps *to)
{
	Form f = pick_form(g, pick_elem(g), 0, 2),
	     both = form_insert(f, f.rank, extent_number(g, 2));
	const char *v = new_name(g, "v"), *w = new_name(g, "v");
	if (!form_fits(g, both))
		return;
	Term *t = term_make(g, both, true, 3);
	step1(g, to, t, "let (%s, %s) = split($0)", v, w);
	name_push(g, v, f, t->worth, false);
	name_push(g, w, f, t->worth, false);
}

static void
make_philox(Maker *g, Steps *to)
{
	Form f = pick_form(g, TY_I32, 0, 2);
	const char *name[4];
	Term *seed = term_scalar(g, TY_I32, 1), *at = term_make(g, f, true, 2);
	for (int i = 0; i < 4; i++)
		name[i] = new_name(g, "v");
	step2(g, to, seed, at, "let (%s, %s, %s, %s) = philox($0, $1)", name[0], name[1], name[2],
	    name[3]);
	for (int i = 0; i < 4; i++)
		name_push(g, name[i], form_elem(f, TY_U32), worth_of_type(TY_U32), false);
}

/* Pairs of integers as affine maps, which compose: associative, and the order matters. */
static void
make_pairs(Maker *g, Steps *to)
{
	static const DType elem[] = {TY_I32, TY_I64, TY_U32, TY_I8, TY_U16};
	static const char *const fn[] = {"fn(a, b, c, d) => (a * c, b * c + d)",
	    "fn(a, b, c, d) => (a >= c ? a : c, a >= c ? b : d)",
	    "fn(a, b, c, d) => (a + c, b ^ d)"};
	Form f = pick_form(g, elem[pick(g, LEN(elem))], 1, 3);
	int axis = pick(g, f.rank);
	const char *v = new_name(g, "v"), *w = new_name(g, "v");
	Term *x = term_make(g, f, true, 2), *y = term_make(g, f, true, 2);
	bool scans = chance(g, 50);
	Form out = scans ? f : form_remove(f, axis);
	const char *how = fn[pick(g, LEN(fn))],
		   *reverse = scans && chance(g, 30) ? ", reverse = true" : "";
	step2(g, to, x, y, "let (%s, %s) = %s(($0, $1), %d, %s%s)", v, w, scans ? "scan" : "reduce",
	    axis, how, reverse);
	name_push(g, v, out, worth_of_type(f.elem), false);
	name_push(g, w, out, worth_of_type(f.elem), false);
}

static void
make_helper_pair(Maker *g, Steps *to)
{
	const Helper *h = NULL;
	for (int i = 0; i < g->s->helpers.n; i++)
		if (g->s->helpers.at[i]->nresult == 2)
			h = g->s->helpers.at[i];
	if (!h)
		return;
	Form f = pick_form(g, h->elem, 0, 2);
	const char *v = new_name(g, "v"), *w = new_name(g, "v");
	Term *x = term_make(g, f, true, 2), *y = term_make(g, f, true, 2);
	if (dtype_is_float(h->elem)) {
		x = term_fit(g, x, 16, 4);
		y = term_fit(g, y, 16, 4);
	}
	step2(g, to, x, y, "let (%s, %s) = %s($0, $1)", v, w, h->name);
	name_push(g, v, f, h->result[0]->worth, false);
	name_push(g, w, f, h->result[1]->worth, false);
}

/* ---- all ---- */

static void
make_other(Maker *g, Steps *to)
{
	switch (pick(g, 9)) {
	case 0:
	case 1: make_topk(g, to); break;
	case 2: make_split(g, to); break;
	case 3: make_philox(g, to); break;
	case 4:
	case 5: make_pairs(g, to); break;
	case 6:
	case 7: make_helper_pair(g, to); break;
	default: {
		Form f = pick_form(g, TY_I32, 1, 2);
		step1(g, to, term_fit(g, term_make(g, f, true, 2), 9, 0),
		    "assert(all($0 < 100), \"too much\")");
		break;
	}
	}
}

static void
make_control(Maker *g, Steps *to)
{
	if (g->nesting >= MOST_NESTING)
		return;
	switch (pick(g, 10)) {
	case 0:
	case 1:
	case 2: make_if(g, to); break;
	case 3:
	case 4:
	case 5: make_for(g, to); break;
	case 6: make_while(g, to); break;
	case 7: make_static(g, to); break;
	case 8:
		if (g->nesting == 0 && chance(g, 30)) {
			Step *s = step1(g, to, term_scalar(g, TY_BOOL, 2), "if $0");
			s->has_body = true;
			step0(g, &s->body, "return");
			break;
		}
	/* fall through */
	default: {
		Step *s = step0(g, to, "static if true");
		make_body(g, s, &s->body, 2);
		break;
	}
	}
}

void
steps_make(Maker *g, Steps *to, int n)
{
	int names = g->scope.n;
	for (int i = 0; i < n; i++) {
		int what = pick(g, 100);
		if (what < 28)
			make_let(g, to);
		else if (what < 36)
			make_var(g, to);
		else if (what < 50 && make_assign(g, to))
			continue;
		else if (what < 66)
			make_control(g, to);
		else if (what < 72)
			make_dot_loop(g, to);
		else if (what < 76)
			make_sum_loop(g, to);
		else if (what < 88)
			make_other(g, to);
		else
			step_memory(g, to);
	}
	for (int i = names; i < g->scope.n; i++)
		if (chance(g, 60))
			step_keep(g, to, &g->scope.at[i]);
}

/* ---- helpers ---- */

void
helpers_make(Maker *g)
{
	for (int n = pick(g, 4); n > 0; n--) {
		Helper *h = NEW(g->s->mem, Helper);
		Form f;
		do
			f = form_scalar(pick_elem(g));
		while (f.elem == TY_BOOL);
		Worth w = dtype_is_float(f.elem) ? (Worth){16, 4, 0} : worth_of_type(f.elem);
		h->name = new_name(g, "f");
		h->elem = f.elem;
		h->nresult = chance(g, 30) ? 2 : 1;
		g->plain = true;
		name_push(g, "a", f, w, false);
		name_push(g, "b", f, w, false);
		for (int r = 0; r < h->nresult; r++) {
			Term *t = term_make(g, f, true, 3), *a = term0(g, f, w, "(a ^ b)");
			if (dtype_is_float(f.elem)) /* so that it has the shape of the arguments */
				h->result[r] = term2(g, f, worth_add(worth_add(w, w), t->worth),
				    term0(g, f, w, "max(a, b)"), t, "($0 + $1)");
			else
				h->result[r] =
				    term2(g, f, worth_of_type(f.elem), a, t, "($0 + $1)");
		}
		g->plain = false;
		g->scope.n = 0;
		vec_push(g->s->mem, &g->s->helpers, h);
	}
}
