/* Which compile-time parameters the header opens as sizes: those that it says as numbers, and that cut the grid or that it
 * does not mention again (choose_tile.c says whether nothing else depends on them). */
#include "compile/choose/tile/choose_tile.h"

#include <string.h>

bool
tile_is_name(const Expr *e, const char *name)
{
	return e && e->kind == EX_NAME && !e->scope && strcmp(e->name, name) == 0;
}

/* c of the name, or of c times it; 0: it is something else. */
static uint64_t
times_name(const Expr *e, const char *name)
{
	if (tile_is_name(e, name))
		return 1;
	if (!e || e->kind != EX_BINARY || e->bin != BIN_MUL)
		return 0;
	const Expr *c = e->a->kind == EX_INT ? e->a : e->b, *of = c == e->a ? e->b : e->a;
	return c->kind == EX_INT && tile_is_name(of, name) ? c->u : 0;
}

static bool
is_mentioned(const Kernel *k, const char *name)
{
	return ANY_OF(i, k->item->tune.n, strcmp(k->item->tune.at[i].name, name) == 0) ||
	    header_mentions_beside_grid(k, name);
}

bool
tile_opens(Pair *x, const Kernel *k, const Bound *b, const ChooseBinding *how, int i, unsigned which)
{
	const CtParam *p = &k->item->ctparams.at[i];
	bool any = false;
	*x = (Pair){.k = k, .b = b, .name = p->name, .size = b->ct[i].value.i, .last_axis = AXIS_NONE};
	x->given = x->size;
	if (!p->value || p->value->kind != EX_INT || b->ct[i].value.kind != CONST_INT || x->size < 2 ||
	    how->is_fixed(how->user, p->name) || is_mentioned(k, p->name))
		return false;
	for (int a = 0; a < k->item->grid.n; a++) {
		const Expr *e = k->item->grid.at[a].count;
		bool cuts = e->kind == EX_CALL && tile_is_name(e->a, "cdiv") && e->args.n == 2 &&
		    !expr_mentions(e->args.at[0].e, p->name);
		x->by[a] = cuts ? times_name(e->args.at[1].e, p->name) : 0;
		cuts = x->by[a] > 0;
		if (!cuts && expr_mentions(e, p->name))
			return false;
		x->count[a] = cuts ? e->args.at[0].e : NULL;
		any |= cuts;
	}
	x->is_step = !any;
	return which & (any ? SIZE_CUTS : SIZE_STEPS);
}
