/* Tiles of products with few rows.
 *
 *     grid(pm: cdiv(M, BM), …) tune(BM = {64, 128, 256}, …), M = 5      =>      BM = 16
 *
 * Rows that a tensor has not are multiplied all the same, and bulk copies take their time for rows outside: M = 16,
 * N = K = 8192 in bf16 takes 59.5 us on an H200 with 64 rows, and 37.4 with 16, by instructions of warps.  So where a
 * dimension is 32 or less, the least size from 16 on that holds it takes the place of those listed for tiles along it; not
 * where a tensor's shape depends on the tile's, nor where one product feeds another.  Such loops wait for memory alone:
 * passes coalesce and pipeline have rules for their warps and stages.  Where the other sizes listed make programs for less
 * than three quarters of the multiprocessors, smaller ones join them. */
#include "compile/choose.h"
#include "pass/layout/dot.h"

#include <string.h>

enum { ROWS_LEAST = 16, ROWS_MOST = 32, COLUMNS_LEAST = 32 };

static bool
is_name(const Expr *e, const char *name)
{
	return e->kind == EX_NAME && !e->scope && strcmp(e->name, name) == 0;
}

/* Of grid(…: cdiv(D, name)) the value of dimension D; -1: there is no such axis. */
static int64_t
divided(const Kernel *k, const Bound *b, const char *name)
{
	for (int i = 0; i < k->item->grid.n; i++) {
		const Expr *e = k->item->grid.at[i].count;
		if (e->kind != EX_CALL || !is_name(e->a, "cdiv") || e->args.n != 2 || !is_name(e->args.at[1].e, name))
			continue;
		for (int s = 0; s < b->nsymbol; s++)
			if (is_name(e->args.at[0].e, b->symbol[s].name))
				return b->symbol[s].value.i;
	}
	return -1;
}

static bool
shapes_mention(const Kernel *k, const char *name)
{
	for (int i = 0; i < k->item->params.n; i++) {
		const TypeExpr *t = k->item->params.at[i].type;
		for (int d = 0; d < t->dims.n; d++)
			if (expr_mentions(t->dims.at[d], name))
				return true;
	}
	return false;
}

static int64_t
least_value(const TuneName *t)
{
	int64_t least = INT64_MAX;
	for (int i = 0; i < t->nvalue; i++)
		least = t->value[i].kind == CONST_INT && t->value[i].i > 0 ? MIN(least, t->value[i].i) : 0;
	return t->nvalue ? least : 0;
}

/* Sizes that are halved until enough programs have some of the columns, from the least listed one on. */
static void
add_narrower(TuneName *t, int64_t columns, int multiprocessors, Arena *mem)
{
	int64_t least = least_value(t), most = least;
	int more = 0;
	while (most / 2 >= COLUMNS_LEAST && 4 * ((columns + most - 1) / most) < 3 * multiprocessors) {
		most /= 2;
		more++;
	}
	Const *all = NEW_ARRAY(mem, Const, t->nvalue + more);
	for (int i = 0; i < more; i++)
		all[i] = (Const){.kind = CONST_INT, .i = most << i};
	memcpy(all + more, t->value, sizeof *all * (size_t)t->nvalue);
	t->value = all;
	t->nvalue += more;
}

static bool
is_chained(const Func *f)
{
	for (const Op *op = f->body->first; op; op = op_after(op, f->body))
		if (op->kind == OP_DOT && dot_next(f, &op->out[0]))
			return true;
	return false;
}

bool
choose_few_rows(const Kernel *k, const Func *f, const Bound *b, const ChooseBinding *how, const Target *t, Arena *mem,
    TuneName *all, int n)
{
	bool any = false;
	for (int i = 0; i < n && !is_chained(f); i++) {
		int64_t rows = divided(k, b, all[i].name), size = ROWS_LEAST;
		while (size < rows)
			size *= 2;
		if (rows <= 0 || rows > ROWS_MOST || least_value(&all[i]) <= 0 || how->is_fixed(how->user, all[i].name) ||
		    shapes_mention(k, all[i].name))
			continue;
		all[i].value[0].i = size;
		all[i].nvalue = 1;
		any = true;
	}
	for (int i = 0; i < n && any; i++) {
		int64_t columns = divided(k, b, all[i].name);
		if (columns > 0 && all[i].nvalue > 1 && least_value(&all[i]) > 0 && !shapes_mention(k, all[i].name))
			add_narrower(&all[i], columns, t->rates->multiprocessors, mem);
	}
	return any;
}
