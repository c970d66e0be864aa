/* Makes a failing kernel smaller: statements go, blocks replace them, terms give way to their
 * operands or to a literal, extents, sizes and the grid get smaller, until nothing of it can be
 * done any more.
 *
 * A term is only replaced by one of its form whose range is no wider, so that a kernel whose
 * results are defined stays one.  What no longer compiles does not fail, so names need not be
 * followed. */
#include "gen_tgl.h"

#include <math.h>
#include <string.h>

typedef struct Shrink {
	Source *s;
	bool (*fails)(void *user, const Source *s);
	void *user;
	bool better;
} Shrink;

static bool
still_fails(Shrink *x)
{
	bool fails = x->fails(x->user, x->s);
	x->better |= fails;
	return fails;
}

/* ---- statements ---- */

static void shrink_steps(Shrink *x, Steps *list);

static void
drop_steps(Shrink *x, Steps *list)
{
	for (int size = list->n; size > 0; size = size > 1 ? size / 2 : 0)
		for (int at = list->n - size; at >= 0; at -= size) {
			Steps keep = *list;
			bool fixed = false;
			for (int i = at; i < at + size; i++)
				fixed |= keep.at[i]->fixed && size == 1;
			Step **less = NEW_ARRAY(x->s->mem, Step *, keep.n);
			memcpy(less, keep.at, sizeof *less * (size_t)at);
			memcpy(less + at, keep.at + at + size,
			    sizeof *less * (size_t)(keep.n - at - size));
			*list = (Steps){less, keep.n - size, keep.n};
			if (fixed || !still_fails(x))
				*list = keep;
			else
				at = MIN(at, list->n);
		}
}

/* The body, or what is under else, instead of the whole statement. */
static bool
unwrap(Shrink *x, Steps *list, int at, const Steps *inner)
{
	Steps keep = *list;
	Step **all = NEW_ARRAY(x->s->mem, Step *, keep.n + inner->n);
	memcpy(all, keep.at, sizeof *all * (size_t)at);
	if (inner->n)
		memcpy(all + at, inner->at, sizeof *all * (size_t)inner->n);
	memcpy(all + at + inner->n, keep.at + at + 1, sizeof *all * (size_t)(keep.n - at - 1));
	*list = (Steps){all, keep.n - 1 + inner->n, keep.n + inner->n};
	if (still_fails(x))
		return true;
	*list = keep;
	return false;
}

/* ---- terms ---- */

static Term *
plain_literal(Shrink *x, Form f)
{
	Maker g = {.s = x->s, .state = 1};
	const char *v = f.elem == TY_BOOL ? "true" : "1";
	ValueRange w = {1, 0, 0};
	if (f.rank == 0)
		return term0(&g, f, w, "(%s as %s)", v, dtype_info[f.elem].text);
	return term0(&g, f, w, "full(%s, %s, %s)", form_shape(&g, f), v, dtype_info[f.elem].text);
}

static bool
try_term(Shrink *x, Term **at, Term *t)
{
	Term *keep = *at;
	if (t == keep || !form_equal(t->form, keep->form) ||
	    (t->nkid && !range_within(t->range, keep->range)))
		return false;
	*at = t;
	if (still_fails(x))
		return true;
	*at = keep;
	return false;
}

static bool
try_below(Shrink *x, Term **at, Term *t, int depth)
{
	for (int i = 0; i < t->nkid; i++)
		if (range_within(t->kid[i]->range, (*at)->range) && try_term(x, at, t->kid[i]))
			return true;
	for (int i = 0; i < t->nkid && depth > 0; i++)
		if (try_below(x, at, t->kid[i], depth - 1))
			return true;
	return false;
}

static void
shrink_term(Shrink *x, Term **at)
{
	if ((*at)->nkid)
		try_term(x, at, plain_literal(x, (*at)->form));
	while ((*at)->nkid && try_below(x, at, *at, 2))
		;
	/* a copy, since a term may have several parents */
	Term *own = NEW(x->s->mem, Term);
	*own = **at;
	*at = own;
	for (int i = 0; i < own->nkid; i++)
		shrink_term(x, &own->kid[i]);
}

static void
shrink_step(Shrink *x, Step *s)
{
	for (int i = 0; i < s->nkid; i++)
		shrink_term(x, &s->kid[i]);
	if (s->has_else) {
		s->has_else = false;
		s->has_else = !still_fails(x);
	}
	if (s->has_body)
		shrink_steps(x, &s->body);
	if (s->has_else)
		shrink_steps(x, &s->orelse);
}

static void
shrink_steps(Shrink *x, Steps *list)
{
	drop_steps(x, list);
	for (int i = list->n - 1; i >= 0; i--) {
		Step *s = list->at[i];
		if (s->has_body && unwrap(x, list, i, &s->body)) {
			i = MIN(i + s->body.n, list->n);
			continue;
		}
		if (s->has_else && unwrap(x, list, i, &s->orelse)) {
			i = MIN(i + s->orelse.n, list->n);
			continue;
		}
		shrink_step(x, s);
	}
}

/* ---- numbers ---- */

static void
shrink_number(Shrink *x, int *n)
{
	const int least[] = {1, 2, 3, 4, 8, 16};
	for (int i = 0; i < LEN(least) && least[i] < *n; i++) {
		int keep = *n;
		*n = least[i];
		if (still_fails(x))
			return;
		*n = keep;
	}
	for (int less = 1; less < *n; less *= 2) {
		*n -= less;
		if (!still_fails(x)) {
			*n += less;
			return;
		}
	}
}

/* A number instead of pow2ceil(N). */
static void
fix_extent(Shrink *x, Extent *e, int value)
{
	const Extent keep = *e;
	if (e->b < 0)
		return;
	e->b = -1;
	e->value = value;
	if (!still_fails(x))
		*e = keep;
}

static void
drop_clause(Shrink *x, const char **clause)
{
	const char *keep = *clause;
	*clause = NULL;
	if (keep && !still_fails(x))
		*clause = keep;
}

static void
shrink_numbers(Shrink *x)
{
	Source *s = x->s;
	for (int i = 0; i < s->nextent; i++)
		if (s->extent[i].kind == EXTENT_NAMED) {
			fix_extent(x, &s->extent[i], extent_value(s, i));
			shrink_number(x, &s->extent[i].value);
		}
	for (int i = 0; i < MAX_SIZES; i++)
		shrink_number(x, &s->size[i]);
	drop_clause(x, &s->tune);
	drop_clause(x, &s->where);
}

void
source_shrink(Source *s, bool (*fails)(void *user, const Source *s), void *user)
{
	Shrink x = {.s = s, .fails = fails, .user = user, .better = true};
	for (int round = 0; round < 8 && x.better; round++) {
		x.better = false;
		shrink_steps(&x, &s->body);
		for (int i = 0; i < s->helpers.n; i++)
			for (int r = 0; r < MIN(s->helpers.at[i]->nresult, 2); r++)
				shrink_term(&x, &s->helpers.at[i]->result[r]);
		shrink_numbers(&x);
	}
}
