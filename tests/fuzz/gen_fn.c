/* Functions, and what gives several results at once. */
#include "gen_tgl.h"

#include <math.h>

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
	name_push(g, v, part, t->range, false);
	name_push(g, i, form_elem(part, TY_I32), (ValueRange){n, 0, 0}, false);
}

/* A tile and what goes along with it. */
static void
make_sorted(Maker *g, Steps *to)
{
	DType elem;
	do
		elem = pick_elem(g);
	while (dtype_is_packed(elem));
	Form f = pick_form(g, elem, 1, 3), other = form_elem(f, pick_elem(g));
	const char *v = new_name(g, "v"), *w = new_name(g, "v");
	Term *s = term_make(g, f, true, 3), *t = term_make(g, other, true, 3);
	step2(g, to, s, t, "let (%s, %s) = sort($0, %d%s, with = $1)", v, w, pick(g, f.rank),
	    chance(g, 50) ? ", descending = true" : "");
	name_push(g, v, f, s->range, false);
	name_push(g, w, other, t->range, false);
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
	name_push(g, v, f, t->range, false);
	name_push(g, w, f, t->range, false);
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
		name_push(g, name[i], form_elem(f, TY_U32), range_of_type(TY_U32), false);
}

/* Pairs of integers as affine maps, which compose: associative, and the order matters. */
static void
make_pairs(Maker *g, Steps *to)
{
	static const DType elem[] = {TY_I32, TY_I64, TY_U32, TY_I8, TY_U16};
	static const char *const fn[] = {"fn(a, b, c, d) => (a * c, b * c + d)",
	    "fn(a, b, c, d) => (a >= c ? a : c, a >= c ? b : d)",
	    "fn(a, b, c, d) => (a + c, b ^ d)", "later"};
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
	name_push(g, v, out, range_of_type(f.elem), false);
	name_push(g, w, out, range_of_type(f.elem), false);
}

static void
make_helper_pair(Maker *g, Steps *to)
{
	const Helper *h = NULL;
	for (int i = 0; i < g->s->helpers.n; i++)
		if (g->s->helpers.at[i]->nresult > 1)
			h = g->s->helpers.at[i];
	if (!h)
		return;
	Form f = pick_form(g, h->elem, 0, 2);
	const char *v = new_name(g, "v"), *w = new_name(g, "v"), *u = new_name(g, "v");
	Term *x = term_make(g, f, true, 2), *y = term_make(g, f, true, 2);
	if (dtype_is_float(h->elem)) {
		x = term_fit(g, x, 16, 4);
		y = term_fit(g, y, 16, 4);
	}
	if (h->nresult == 3)
		step2(g, to, x, y, "let ((%s, %s), %s) = %s($0, $1)", v, w, u, h->name);
	else
		step2(g, to, x, y, "let (%s, %s) = %s($0, $1)", v, w, h->name);
	name_push(g, v, f, h->result[0]->range, false);
	name_push(g, w, f, h->result[1]->range, false);
	if (h->nresult == 3)
		name_push(g, u, f, h->result[0]->range, false);
}

static void
make_tuple(Maker *g, Steps *to)
{
	Form f = pick_form(g, pick_elem(g), 0, 2), e = pick_form(g, pick_elem(g), 0, 2);
	const char *t = new_name(g, "v"), *v = new_name(g, "v"), *w = new_name(g, "v");
	Term *x = term_make(g, f, true, 2), *y = term_make(g, e, true, 2);
	step2(g, to, x, y, "let %s = ($0, ($1, 1))", t);
	if (chance(g, 50)) {
		step0(g, to, "let (%s, (%s, one%s)) = %s", v, w, t, t);
	} else {
		step0(g, to, "let %s = %s[0]", v, t);
		step0(g, to, "let %s = %s[1][0]", w, t);
	}
	name_push(g, v, f, x->range, false);
	name_push(g, w, e, y->range, false);
}

void
step_tuple(Maker *g, Steps *to)
{
	switch (pick(g, 9)) {
	case 0:
	case 1: chance(g, 50) ? make_topk(g, to) : make_sorted(g, to); break;
	case 2: make_split(g, to); break;
	case 3: make_philox(g, to); break;
	case 4:
	case 5: make_pairs(g, to); break;
	case 6: make_tuple(g, to); break;
	default: make_helper_pair(g, to); break;
	}
}

/* ---- functions ---- */

/* What stands after `let r0 = ...; let r1 = ...;` in a function fn(a, b, const c = 2, d = 1): r0 stays within what it
 * and b reach. */
static const char *
make_fn_body(Maker *g, int nresult)
{
	static const char *const one[] = {
	    "    var r = r0;\n    static for q in range(c) { r = where(r < b, r, min(r, b)); }\n    return r;\n",
	    "    static if c > 2 { return max(r0, b); } else { return min(b, r0); }\n",
	    "    var r = r0;\n    for q in range(d) { r = max(r, b); }\n    return r;\n",
	    ("    var r = r0;\n    var q = 2;\n    while q > d { r = min(r, b); q -= 1; }\n    if d > 1 { r = max(r, b); }\n"
	     "    return r;\n")};
	if (nresult == 1)
		return one[pick(g, LEN(one))];
	return nresult == 2 ? "    return (r0, r1);\n" : "    return ((r0, r1), r0);\n";
}

static Helper *
helper_make(Maker *g)
{
	Helper *h = NEW(g->s->mem, Helper);
	Form f;
	do
		f = form_scalar(pick_elem(g));
	while (f.elem == TY_BOOL);
	ValueRange w = dtype_is_float(f.elem) ? (ValueRange){16, 4, 0} : range_of_type(f.elem);
	h->name = new_name(g, "f");
	h->elem = f.elem;
	h->nresult = chance(g, 40) ? 2 + pick(g, 2) : 1;
	name_push(g, "a", f, w, false);
	name_push(g, "b", f, w, false);
	for (int r = 0; r < MIN(h->nresult, 2); r++) {
		Term *t = term_make(g, f, true, 3), *a = term0(g, f, w, "(a ^ b)");
		if (dtype_is_float(f.elem)) /* so that it has the shape of the arguments */
			h->result[r] = term2(g, f, range_add(range_add(w, w), t->range),
			    term0(g, f, w, "max(a, b)"), t, "($0 + $1)");
		else
			h->result[r] = term2(g, f, range_of_type(f.elem), a, t, "($0 + $1)");
	}
	if (h->nresult == 3 || chance(g, 40)) {
		h->body = make_fn_body(g, h->nresult);
		h->result[0]->range = range_both(h->result[0]->range, w);
	}
	return h;
}

void
helpers_make(Maker *g)
{
	for (int n = pick(g, 4); n > 0; n--) {
		g->plain = true;
		Helper *h = helper_make(g);
		g->plain = false;
		g->scope.n = 0;
		vec_push(g->s->mem, &g->s->helpers, h);
	}
}
