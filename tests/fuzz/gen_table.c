/* Lists known when compiling, read by tiles of indices: `([3, 1, 4][$0] else $1)`. */
#include "gen_tgl.h"

#include <string.h>

enum { ROWS = 4, MOST = 24 };

static const char *
make_row(Maker *g, DType t, int n, ValueRange *all)
{
	const char *s = "[";
	ValueRange w;
	for (int i = 0; i < n; i++) {
		const char *v = number_text(g, t, &w);
		bool whole = dtype_is_float(t) && !strpbrk(v, ".nf");   /* with a point it is a float by itself */
		s = arena_printf(g->s->mem, "%s%s%s%s", s, i ? ", " : "", v, whole ? ".0" : "");
		*all = range_both(*all, w);
	}
	return arena_printf(g->s->mem, "%s]", s);
}

static const char *
make_rows(Maker *g, DType t, int rows, int n, ValueRange *all)
{
	const char *s = "[";
	for (int i = 0; i < rows; i++)
		s = arena_printf(g->s->mem, "%s%s%s", s, i ? ", " : "", make_row(g, t, n, all));
	return arena_printf(g->s->mem, "%s]", s);
}

/* Outside too, at times. */
static Term *
make_index(Maker *g, Form f, int n, int depth)
{
	static const DType some[] = {TY_I32, TY_I32, TY_I64, TY_U8, TY_I8, TY_I16, TY_U32, TY_U64};
	Term *at = term_make(g, form_elem(f, some[pick(g, LEN(some))]), true, depth);
	return chance(g, 70) ? term_fit(g, at, n, 0) : at;
}

/* What a list's numbers are by themselves decides the type.  An index that is a number known when compiling, as a scalar may be,
 * picks an item, which must be there. */
Term *
rule_table(Maker *g, Form f, bool exact, int depth)
{
	if (f.rank == 0 || (f.elem != TY_F32 && f.elem != TY_I32 && f.elem != TY_BOOL))
		return NULL;
	ValueRange w = {0};
	int n = 1 + pick(g, chance(g, 80) ? 8 : MOST), rows = chance(g, 25) ? 1 + pick(g, ROWS) : 0;
	const char *table = rows ? make_rows(g, f.elem, rows, n, &w) : make_row(g, f.elem, n, &w);
	Term *at = make_index(g, f, n, depth), *row = rows ? make_index(g, f, rows, depth) : NULL;
	if (chance(g, 60))
		return rows ? term2(g, f, w, row, at, "(%s[$0, $1])", table) : term1(g, f, w, at, "(%s[$0])", table);
	Term *other = term_make(g, f, exact, depth);
	w = range_both(w, other->range);
	return rows ? term3(g, f, w, row, at, other, "(%s[$0, $1] else $2)", table)
		    : term2(g, f, w, at, other, "(%s[$0] else $1)", table);
}
