/* Terms that move elements: reshaped, permuted, repeated, cut out, gathered, put together. */
#include "gen_tgl.h"

#include <string.h>

static Term *
moved(Maker *g, Form f, Form from, bool exact, int depth, const char *text)
{
	Term *t = form_fits(g, from) ? term_make(g, from, exact, depth) : NULL;
	return t ? term1(g, f, t->range, t, "%s", text) : NULL;
}

static Term *
make_permute(Maker *g, Form f, bool exact, int depth)
{
	int order[FORM_RANK];
	Form from = f;
	const char *list = "";
	if (f.rank < 2)
		return NULL;
	for (int d = 0; d < f.rank; d++) {
		int j = pick(g, d + 1);
		order[d] = order[j];
		order[j] = d;
	}
	for (int d = 0; d < f.rank; d++) {
		from.extent[order[d]] = f.extent[d];
		list = arena_printf(g->s->mem, "%s%s%d", list, d ? ", " : "", order[d]);
	}
	if (f.rank == 2 && order[0] == 1)
		return moved(g, f, from, exact, depth, chance(g, 50) ? "$0.T" : "trans($0)");
	return moved(g, f, from, exact, depth, arena_printf(g->s->mem, "permute($0, [%s])", list));
}

/* The extents of f as another list with the same product. */
static Form
regroup(Maker *g, Form f)
{
	for (int steps = 1 + pick(g, 3); steps > 0; steps--) {
		int d = f.rank ? pick(g, f.rank) : 0;
		const Extent *x = f.rank ? &g->s->extent[f.extent[d]] : NULL;
		if (x && x->kind == EXTENT_PRODUCT && f.rank < FORM_RANK) {
			int a = x->a, b = x->b;
			f.extent[d] = b;
			f = form_insert(f, d, a);
		} else if (d + 1 < f.rank && chance(g, 60)) {
			int both = extent_both(g, EXTENT_PRODUCT, f.extent[d], f.extent[d + 1]);
			if (both < 0)
				continue;
			f = form_remove(f, d);
			f.extent[d] = both;
		} else if (f.rank < FORM_RANK && chance(g, 40)) {
			f = form_insert(f, pick(g, f.rank + 1), extent_number(g, 1));
		} else if (f.rank >
			   1) { /* another order, which is another shape of as many elements */
			int other = pick(g, f.rank), keep = f.extent[d];
			f.extent[d] = f.extent[other];
			f.extent[other] = keep;
		}
	}
	return f;
}

static Term *
make_reshape(Maker *g, Form f, bool exact, int depth)
{
	Form from = regroup(g, f);
	if (f.rank == 0)
		return NULL;
	if (f.rank == 1 && chance(g, 30))
		return moved(g, f, from, exact, depth, "reshape($0, [-1])");
	return moved(
	    g, f, from, exact, depth, arena_printf(g->s->mem, "reshape($0, %s)", form_shape(g, f)));
}

static Term *
make_broadcast(Maker *g, Form f, bool exact, int depth)
{
	Form from = form_narrow(g, f);
	return moved(g, f, from, exact, depth,
	    arena_printf(g->s->mem, "broadcast_to($0, %s)", form_shape(g, f)));
}

/* "[:, :, X, :]" with X at `axis` of n. */
const char *
index_at(Maker *g, int n, int axis, const char *what)
{
	const char *s = "[";
	for (int d = 0; d < n && !(d > axis && chance(g, 20)); d++)
		s = arena_printf(g->s->mem, "%s%s%s", s, d ? ", " : "", d == axis ? what : ":");
	return arena_printf(g->s->mem, "%s]", s);
}

static Term *
make_expand(Maker *g, Form f, bool exact, int depth)
{
	int at[FORM_RANK], n = 0;
	for (int d = 0; d < f.rank; d++)
		if (g->s->extent[f.extent[d]].kind == EXTENT_NUMBER &&
		    g->s->extent[f.extent[d]].value == 1)
			at[n++] = d;
	if (n == 0)
		return NULL;
	int axis = at[pick(g, n)];
	const char *text = chance(g, 50)
			       ? arena_printf(g->s->mem, "expand_dims($0, %d)", axis)
			       : arena_printf(g->s->mem, "$0%s", index_at(g, f.rank, axis, "new"));
	Form from = form_remove(f, axis);
	if (from.rank == 0 && text[0] == '$')
		return NULL;
	return moved(g, f, from, exact, depth, text);
}

/* Moved along an axis. */
static Term *
make_turn(Maker *g, Form f, bool exact, int depth)
{
	int axis = pick(g, f.rank), kind = pick(g, 3);
	Term *t = term_make(g, f, exact, depth);
	if (kind == 0 && f.rank == 1 && chance(g, 40))
		return term1(g, f, t->range, t, chance(g, 50) ? "cat([] as %s, $0)" : "cat($0, full([0], 1, %s))",
		    dtype_info[f.elem].text);
	if (kind == 0)
		return term1(g, f, t->range, t, "flip($0, %d)", axis);
	Term *by = term_scalar(g, chance(g, 60) ? TY_I32 : TY_I64, depth > 1);
	if (chance(g, 60))
		by = term1(g, by->form, range_make(4, 0, 0), by, "clamp($0, -4, 4)");
	if (kind == 1)
		return term2(g, f, t->range, t, by, "roll($0, $1, %d)", axis);
	if (chance(g, 40))
		return term2(g, f, t->range, t, by, "shift($0, $1, %d)", axis);
	Term *fill = term_make(g, form_narrow(g, f), exact, depth > 1);
	return term3(g, f, range_both(t->range, fill->range), t, by, fill, "shift($0, $1, %d, fill = $2)", axis);
}

Term *
rule_shape(Maker *g, Form f, bool exact, int depth)
{
	if (f.rank == 0)
		return NULL;
	switch (pick(g, 6)) {
	case 0: return make_permute(g, f, exact, depth);
	case 1:
	case 2: return make_reshape(g, f, exact, depth);
	case 3: return make_broadcast(g, f, exact, depth);
	case 4: return make_expand(g, f, exact, depth);
	default: return make_turn(g, f, exact, depth);
	}
}

/* ---- parts ---- */

/* Where a part begins: within the tile if the compiler can see it, else anywhere, since it is
 * clamped then. */
static Term *
make_start(Maker *g, int last, int depth)
{
	Form i64 = form_scalar(TY_I64);
	if (chance(g, 40))
		return term0(g, i64, range_make(last, 0, 0), "%d", pick(g, last + 1));
	Term *t = term_scalar(g, chance(g, 60) ? TY_I64 : TY_I32, depth);
	return term1(g, i64, range_of_type(TY_I64), t, "(program_id(0) + $0)");
}

Term *
rule_cut(Maker *g, Form f, bool exact, int depth)
{
	if (f.rank < FORM_RANK && chance(g, 50)) { /* one element of a dimension more */
		int axis = pick(g, f.rank + 1);
		Form from =
		    form_insert(f, axis, chance(g, 70) ? extent_named(g) : extent_number(g, 2));
		if (!form_fits(g, from))
			return NULL;
		Term *t = term_make(g, from, exact, depth), *at = make_start(g, 0, depth > 1);
		return term2(g, f, t->range, t, at, "$0%s", index_at(g, from.rank, axis, "$1"));
	}
	if (f.rank == 0)
		return NULL;
	int axis = pick(g, f.rank);
	int more = extent_both(g, EXTENT_SUM, f.extent[axis],
	    chance(g, 50) ? extent_named(g) : extent_number(g, 1 + pick(g, 4)));
	if (more < 0)
		return NULL;
	Form from = f;
	from.extent[axis] = more;
	if (!form_fits(g, from))
		return NULL;
	int last = extent_value(g->s, more) - extent_value(g->s, f.extent[axis]);
	Term *t = term_make(g, from, exact, depth), *at = make_start(g, last, depth > 1);
	const char *part = arena_printf(g->s->mem, "$1 +: #%d#", f.extent[axis]);
	return term2(g, f, t->range, t, at, "$0%s", index_at(g, f.rank, axis, part));
}

Term *
rule_gather(Maker *g, Form f, bool exact, int depth)
{
	static const DType index[] = {TY_I32, TY_I32, TY_I64, TY_U8, TY_I8, TY_U32};
	if (f.rank == 0)
		return NULL;
	int axis = pick(g, f.rank);
	Form from = f;
	from.extent[axis] = extent_named(g);
	if (!form_fits(g, from))
		return NULL;
	Term *t = term_make(g, from, exact, depth);
	Term *at = term_make(g, form_elem(f, index[pick(g, LEN(index))]), true, depth);
	if (chance(g, 70))
		at = term_fit(g, at, extent_value(g->s, from.extent[axis]), 0);
	return term2(g, f, t->range, t, at, "gather($0, $1, %d)", axis);
}

/* Of floats the greatest of two zeros may have either sign. */
Term *
rule_scatter(Maker *g, Form f, bool exact, int depth)
{
	static const char *const op[] = {"set", "max", "min"};
	static const DType index[] = {TY_I32, TY_I32, TY_I64, TY_U8, TY_I8, TY_U32};
	if (f.rank == 0)
		return NULL;
	int axis = pick(g, f.rank), all = extent_value(g->s, f.extent[axis]);
	const char *fn = op[dtype_is_float(f.elem) ? 0 : pick(g, LEN(op))];
	Form from = f;
	from.extent[axis] = extent_named(g);
	if (!form_fits(g, from))
		return NULL;
	Term *s = term_make(g, f, exact, depth), *t = term_make(g, from, exact, depth);
	Term *at = term_make(g, form_elem(from, index[pick(g, LEN(index))]), true, depth);
	if (chance(g, 70))
		at = term_fit(g, at, all, 0);
	return term3(g, f, range_both(s->range, t->range), s, at, t, "scatter($0, $1, $2, %d, op = %s)", axis, fn);
}

Term *
rule_join(Maker *g, Form f, bool exact, int depth)
{
	for (int d = 0; d < f.rank; d++) {
		const Extent x = g->s->extent[f.extent[d]];
		Form a = f, b = f;
		const char *text;
		if (x.kind == EXTENT_SUM) {
			a.extent[d] = x.a;
			b.extent[d] = x.b;
			text = arena_printf(g->s->mem, "cat($0, $1, axis = %d)", d);
		} else if (d == f.rank - 1 && x.kind == EXTENT_NUMBER && x.value == 2) {
			a = b = form_remove(f, d);
			text = "join($0, $1)";
		} else {
			continue;
		}
		Term *s = term_make(g, a, exact, depth), *t = term_make(g, b, exact, depth);
		return term2(g, f, range_both(s->range, t->range), s, t, "%s", text);
	}
	/* None of f's extents is a sum: the front of two put together. */
	if (f.rank == 0 || chance(g, 50))
		return NULL;
	int axis = pick(g, f.rank);
	Form more = f;
	more.extent[axis] = extent_both(g, EXTENT_SUM, f.extent[axis], extent_named(g));
	if (more.extent[axis] < 0 || !form_fits(g, more))
		return NULL;
	int last = extent_value(g->s, more.extent[axis]) - extent_value(g->s, f.extent[axis]);
	const char *part = arena_printf(g->s->mem, "%d +: #%d#", pick(g, last + 1), f.extent[axis]);
	Term *t = rule_join(g, more, exact, depth);
	return t ? term1(g, f, t->range, t, "$0%s", index_at(g, f.rank, axis, part)) : NULL;
}
