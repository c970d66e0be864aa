/* Register allocation: a slot for each web of liveness.c, the same for webs of one size whose live ranges are disjoint,
 * first fit in the order in which they begin. */
#include "ir/interp/fast/fast.h"

#include <stdlib.h>

/* By their first points; of one point in the order of their making. */
static int
compare_webs(const void *a, const void *b)
{
	const Web *x = *(Web *const *)a, *y = *(Web *const *)b;

	return x->from != y->from ? (x->from > y->from) - (x->from < y->from) : (x > y) - (x < y);
}

/* A slot's last web is the one that holds it longest: live ranges come by their first points. */
static void
assign_slots(Plan *p)
{
	int n = p->fast->web.n;
	VEC(Web *) last = {0};

	Web **order = MAP_OF(p->mem, Web *, i, n, &p->fast->web.at[i]);
	qsort(order, (size_t)n, sizeof *order, compare_webs);
	for (int i = 0; i < n; i++) {
		Web *w = order[i];
		int k = w->size > 8 ? 0 : last.n;
		while (k < last.n && (last.at[k]->size != w->size || last.at[k]->to >= w->from))
			k++;
		w->slot = k < last.n ? last.at[k]->slot : slot_add(p, w->size);
		if (k < last.n)
			last.at[k] = w;
		else if (w->size > 8)
			vec_push(p->mem, &last, w);
	}
}

/* The slots of a value's elements: its web's, or one of its own where only definitions use it. */
static void
set_slots(Plan *p, ValueInfo *x, const Value *v)
{
	Storage *s = &x->storage;
	int slot = x->web >= 0 ? p->fast->web.at[x->web].slot : -1;

	if (s->kind == STORE_VIEW)
		s->copy = slot;
	else if (s->kind == STORE_SLOT || s->kind == STORE_ONE)
		s->slot = slot >= 0 ? slot : slot_add(p, value_bytes(v));
	p->slot[v->id] = s->slot;
}

void
slots_assign(Plan *p)
{
	ValueList all = func_values(p->func, p->mem);

	assign_slots(p);
	for (int i = 0; i < all.n; i++)
		set_slots(p, value_info(p, all.at[i]), all.at[i]);
}
