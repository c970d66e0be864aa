/* Makes a random kernel of the language that computes something defined: all devices, schedules and
 * layouts must agree.
 *
 * What keeps it defined: a program writes no element that another one uses, but for atomics
 * whose order does not matter; sums are of numbers that no order rounds, or their bound is known;
 * loops end by themselves; pointers stay in their buffers; the sign of a zero and the bits of a NaN
 * are never looked at. */
#include "gen_tgl.h"

#include <string.h>

int
pick(Maker *g, int n)
{
	g->state += UINT64_C(0x9e3779b97f4a7c15);
	uint64_t z = g->state;
	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return (int)((z ^ z >> 31) % (uint64_t)n);
}

bool
chance(Maker *g, int percent)
{
	return pick(g, 100) < percent;
}

const char *
new_name(Maker *g, const char *prefix)
{
	return arena_printf(g->s->mem, "%s%d", prefix, g->names++);
}

/* ---- extents ---- */

int
extent_value(const Source *s, int id)
{
	const Extent *x = &s->extent[id];
	switch (x->kind) {
	case EXTENT_SUM: return extent_value(s, x->a) + extent_value(s, x->b);
	case EXTENT_PRODUCT: return extent_value(s, x->a) * extent_value(s, x->b);
	default: break;
	}
	if (x->kind == EXTENT_NUMBER || x->b < 0)
		return x->value;
	int n = 1; /* pow2ceil of a size */
	while (n < s->size[x->b])
		n *= 2;
	return n;
}

static int
find_extent(Maker *g, Extent x)
{
	for (int i = 0; i < g->s->nextent; i++) {
		const Extent *y = &g->s->extent[i];
		if (y->kind == x.kind && y->a == x.a && y->b == x.b &&
		    (x.kind != EXTENT_NUMBER || y->value == x.value))
			return i;
	}
	if (g->s->nextent == MAX_EXTENTS)
		return -1;
	g->s->extent[g->s->nextent] = x;
	return g->s->nextent++;
}

int
extent_number(Maker *g, int value)
{
	int id = find_extent(g, (Extent){.kind = EXTENT_NUMBER, .value = value});
	return id < 0 ? 0 : id;
}

int
extent_named(Maker *g)
{
	int n = 0, at[MAX_EXTENTS];
	for (int i = 0; i < g->s->nextent; i++)
		if (g->s->extent[i].kind == EXTENT_NAMED)
			at[n++] = i;
	return at[pick(g, n)];
}

int
extent_both(Maker *g, ExtentKind kind, int a, int b)
{
	return find_extent(g, (Extent){.kind = kind, .a = a, .b = b});
}

static Extent *
vec_last_extent(Source *s)
{
	return &s->extent[s->nextent - 1];
}

static void
make_extents(Maker *g)
{
	static const int large[] = {16, 32, 64, 64, 64, 128, 128};
	static const int value[] = {1, 2, 3, 4, 5, 6, 7, 8, 8, 9, 11, 12, 13, 16, 16, 16, 17, 20,
	    24, 31, 32, 32, 33, 40, 48, 50, 64};
	Source *s = g->s;
	int n = 2 + pick(g, 3);
	extent_number(g, 1);
	for (int i = 0; i < n; i++) {
		int v = value[pick(g, LEN(value))];
		if (g->large)
			v = large[pick(g, LEN(large))];
		s->extent[s->nextent++] = (Extent){
		    .kind = EXTENT_NAMED, .a = i, .b = -1, .value = v, .is_const = chance(g, 30)};
		if (chance(g, 6) && !g->large) {
			vec_last_extent(s)->b = pick(g, MAX_SIZES);
			vec_last_extent(s)->is_const = false;
		}
	}
	for (int i = 0; i < MAX_SIZES; i++) {
		s->size[i] = 1 + pick(g, chance(g, 30) ? 100 : 40);
		if (g->large)
			s->size[i] = 64 + 16 * pick(g, 8);
		else if (chance(g, 25)) /* what rows that begin at whole words have */
			s->size[i] = 16 * (1 + pick(g, 4));
	}
}

/* ---- forms ---- */

int64_t
form_count(const Maker *g, Form f)
{
	int64_t n = 1;
	for (int d = 0; d < f.rank; d++)
		n *= extent_value(g->s, f.extent[d]);
	return n;
}

bool
form_fits(const Maker *g, Form f)
{
	return f.rank <= FORM_RANK && form_count(g, f) <= g->most_elements;
}

bool
form_equal(Form a, Form b)
{
	return a.elem == b.elem && a.rank == b.rank &&
	       memcmp(a.extent, b.extent, sizeof(int) * (size_t)a.rank) == 0;
}

Form
form_elem(Form f, DType elem)
{
	f.elem = elem;
	return f;
}

Form
form_scalar(DType elem)
{
	return (Form){.elem = elem};
}

Form
form_insert(Form f, int axis, int extent)
{
	for (int d = MIN(f.rank, FORM_RANK - 1); d > axis; d--)
		f.extent[d] = f.extent[d - 1];
	f.extent[axis] = extent;
	f.rank++;
	return f;
}

Form
form_remove(Form f, int axis)
{
	f.rank--;
	for (int d = axis; d < f.rank; d++)
		f.extent[d] = f.extent[d + 1];
	f.extent[f.rank] = 0;
	return f;
}

Form
form_narrow(Maker *g, Form f)
{
	if (chance(g, 50))
		return f;
	while (f.rank && chance(g, 40))
		f = form_remove(f, 0);
	for (int d = 0; d < f.rank; d++)
		if (chance(g, 40))
			f.extent[d] = extent_number(g, 1);
	return f;
}

const char *
form_shape(Maker *g, Form f)
{
	const char *s = "[";
	for (int d = 0; d < f.rank; d++)
		s = arena_printf(g->s->mem, "%s%s#%d#", s, d ? ", " : "", f.extent[d]);
	return arena_printf(g->s->mem, "%s]", s);
}

DType
pick_elem(Maker *g)
{
	static const DType elem[] = {TY_F32, TY_F32, TY_F32, TY_F16, TY_F16, TY_BF16, TY_F64,
	    TY_I32, TY_I32, TY_I64, TY_I8, TY_I16, TY_U8, TY_U16, TY_U32, TY_U64, TY_BOOL,
	    TY_F8E4M3, TY_F8E5M2};
	return elem[pick(g, LEN(elem))];
}

Form
pick_form(Maker *g, DType elem, int least, int most)
{
	Form f = {.elem = elem};
	int rank = least + pick(g, most - least + 1);
	for (int tries = 0; tries < 20 && f.rank < rank; tries++) {
		Form more = form_insert(
		    f, f.rank, chance(g, 8) ? extent_number(g, 1 + pick(g, 4)) : extent_named(g));
		if (form_fits(g, more))
			f = more;
	}
	while (f.rank < least)
		f = form_insert(f, f.rank, extent_number(g, 1));
	return f;
}

void
name_push(Maker *g, const char *name, Form f, ValueRange w, bool is_var)
{
	vec_push(g->s->mem, &g->scope, ((Named){name, f, w, is_var}));
}

/* ---- the whole ---- */

Source *
source_make(Arena *mem, uint64_t seed)
{
	Source *s = NEW(mem, Source);
	Maker g = {.s = s, .state = seed * UINT64_C(0xd1342543de82ef95) + 1};
	s->mem = mem;
	g.large = chance(&g, 8);
	g.most_elements = chance(&g, 5) ? 4096 : chance(&g, 25) ? 1024 : 256;
	make_extents(&g);
	axes_make(&g);
	clauses_make(&g);
	helpers_make(&g);
	for (int tries = 0; g.large && s->body.n == 0 && tries < 20; tries++)
		step_dot_loop(&g, &s->body);
	int products = g.scope.n;
	steps_make(&g, &s->body, g.large ? 1 + pick(&g, 2) : 2 + pick(&g, 7));
	for (int i = 0; i < products; i++)
		step_keep(&g, &s->body, &g.scope.at[i]);
	step_outputs(&g, &s->body);
	return s;
}
