/* Statements: names and variables, and control flow that carries tiles. */
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

void
body_make(Maker *g, Step *s, Steps *body, int n)
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
	Term *t = term_make(g, f, chance(g, 65), 4);
	const char *name = new_name(g, "v");
	step1(g, to, t, "let %s = $0", name);
	name_push(g, name, f, t->range, false);
}

static void
make_var(Maker *g, Steps *to)
{
	Form f = pick_form(g, pick_elem(g), 0, 2);
	const char *name = new_name(g, "m");
	step1(g, to, term_make(g, f, true, 3), "var %s = $0", name);
	name_push(g, name, f, range_of_type(f.elem), true);
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

static const char *
pick_op(Maker *g, Form f)
{
	static const char *const ops[] = {"+", "*", "-", "^", "&", "|", "<<", ">>", "/", "%"};
	return ops[pick(g, dtype_is_float(f.elem) ? 3 : LEN(ops))];
}

/* Elements of a tile: at an index, the last, or one of the two parts of a sum. */
static void
make_part_assign(Maker *g, Steps *to, const Named *v)
{
	Form f = v->form;
	int axis = pick(g, f.rank), whole = f.extent[axis];
	Extent x = g->s->extent[whole];
	Term *at = NULL;
	const char *what = arena_printf(g->s->mem, "#%d# - 1", whole);
	if (x.kind == EXTENT_SUM && chance(g, 70)) {
		bool first = chance(g, 50);
		f.extent[axis] = first ? x.a : x.b;
		what = first ? arena_printf(g->s->mem, "0 +: #%d#", x.a) : arena_printf(g->s->mem, "#%d# +: #%d#", x.a, x.b);
	} else if (chance(g, 80)) {
		at = term_scalar(g, chance(g, 50) ? TY_I32 : TY_I64, 2);
		if (chance(g, 70))
			at = term1(g, at->form, range_make(9, 0, 0), at, "clamp($0, -1, 9)");
		what = "$1";
		if (chance(g, 40))
			what = arena_printf(g->s->mem, "$1 +: #%d#", whole);
		else
			f = form_remove(f, axis);
	} else {
		f = form_remove(f, axis);
	}
	const char *op = f.elem != TY_BOOL && chance(g, 40) ? pick_op(g, f) : "";
	const char *index = index_at(g, v->form.rank, axis, what);
	Term *t = term_make(g, chance(g, 60) ? f : form_narrow(g, f), true, 3);
	step_add(g, to, (Term *[]){t, at}, at ? 2 : 1, "%s%s %s= $0", v->name, index, op);
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
	if (f.rank > 0 && chance(g, 40)) {
		make_part_assign(g, to, &v);
		return true;
	}
	if (v.form.elem != TY_BOOL && chance(g, 40)) {
		op = pick_op(g, f);
		if (dtype_is_float(f.elem) && dtype_info[f.elem].bits < 32)
			op = "*"; /* a loop's sums would round, in another order where blocks share it (split) */
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
	body_make(g, s, &s->body, 1 + pick(g, 2));
	s->has_else = chance(g, 50);
	if (s->has_else)
		body_make(g, s, &s->orelse, 1 + pick(g, 2));
}

static Term *
make_bound(Maker *g, int most)
{
	Form f = form_scalar(chance(g, 60) ? TY_I32 : TY_I64);
	ValueRange w = {most, 0, 0};
	return term1(g, f, w, term_make(g, f, true, 2), "clamp($0, 0, %d)", most);
}

static void
make_for(Maker *g, Steps *to)
{
	const char *i = new_name(g, "n");
	Term *from = make_bound(g, 4), *end = make_bound(g, 6);
	int kind = pick(g, 5), n = 1 + pick(g, 3);
	Step *s;
	switch (kind) {
	case 0: s = step0(g, to, "for %s in range(%d)", i, n); break;
	case 1: s = step1(g, to, from, "for %s in range($0)", i); break;
	case 2: s = step2(g, to, from, end, "for %s in range($0, $1, %d)", i, n); break;
	case 3: { /* a step that may be negative, or 0 */
		Term *by = term1(g, form_scalar(TY_I64), range_make(2, 0, 0), term_scalar(g, TY_I64, 1), "clamp($0, -2, 2)");
		s = step_add(g, to, (Term *[]){from, end, by}, 3, "for %s in range($0, $1, $2)", i);
		break;
	}
	default: s = step1(g, to, end, "for %s in range($0, -1, -%d)", i, n); break;
	}
	name_push(g, i, form_scalar(TY_I64), (ValueRange){8, 0, 0}, false);
	body_make(g, s, &s->body, 1 + pick(g, 3));
	g->scope.n--;
}

static void
make_while(Maker *g, Steps *to)
{
	const char *n = new_name(g, "n");
	step1(g, to, make_bound(g, 4), "var %s = $0", n)->fixed = true;
	Step *s = step1(g, to, term_scalar(g, TY_BOOL, 2), "while %s > 0 && $0", n);
	step0(g, &s->body, "%s -= 1", n)->fixed = true;
	body_make(g, s, &s->body, 1 + pick(g, 2));
}

static void
make_static(Maker *g, Steps *to)
{
	const char *i = new_name(g, "n");
	if (chance(g, 50)) {
		static const char *const range[] = {"%d", "1, %d", "%d, 0, -1", "0, %d, 2"};
		const char *text = range[pick(g, LEN(range))];
		Step *s = step0(g, to, "static for %s in range(%s)", i, arena_printf(g->s->mem, text, 1 + pick(g, 3)));
		name_push(g, arena_printf(g->s->mem, "(%s as i64)", i), form_scalar(TY_I64), (ValueRange){4, 0, 0}, false);
		body_make(g, s, &s->body, 1 + pick(g, 2));
		g->scope.n--;
		return;
	}
	int extent = extent_named(g);
	Step *s = chance(g, 30)   ? step0(g, to, "static if %s", head_make(g, TY_BOOL)->name)
		  : chance(g, 20) ? step0(g, to, "static if %s != f32 && target != \"metal\"", head_make(g, TY_F16)->name)
				  : step0(g, to, "static if #%d# > %d", extent, pick(g, 20));
	body_make(g, s, &s->body, 1);
	s->has_else = chance(g, 60);
	if (s->has_else)
		body_make(g, s, &s->orelse, 1);
}

/* ---- all ---- */

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
		if (chance(g, g->nesting ? 60 : 30)) {
			Step *s = step1(g, to, term_scalar(g, TY_BOOL, 2), "if $0");
			s->has_body = true;
			step0(g, &s->body, "return");
			break;
		}
	/* fall through */
	default: {
		Step *s = step0(g, to, "%s", chance(g, 50) ? "static if true" : "");
		body_make(g, s, &s->body, 2);
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
			step_dot_loop(g, to);
		else if (what < 76)
			(chance(g, 50) ? step_sum_loop : step_merge_loop)(g, to);
		else if (what < 83)
			step_tuple(g, to);
		else if (what < 90)
			step_tensor(g, to);
		else
			step_memory(g, to);
	}
	for (int i = names; i < g->scope.n; i++)
		if (chance(g, 60))
			step_keep(g, to, &g->scope.at[i]);
}

