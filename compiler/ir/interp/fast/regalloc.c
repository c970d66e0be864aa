/* Register allocation: a slot for each web of liveness.c, the same for webs of one size whose live ranges are disjoint,
 * first fit in the order of their first points. */
#include "ir/interp/fast/fast.h"

#include <limits.h>
#include <stdlib.h>

static bool
webs_overlap(const Web *a, const Web *b)
{
	for (int i = 0; i < a->span.n; i++)
		for (int k = 0; k < b->span.n; k++)
			if (a->span.at[i].from <= b->span.at[k].to && b->span.at[k].from <= a->span.at[i].to)
				return true;
	return false;
}

static bool
is_moved_before(const Plan *p, const Node *n, int k)
{
	for (int i = 0; i < k; i++)
		if (value_info(p, n->move.at[i].src)->web == value_info(p, n->move.at[k].src)->web)
			return true;
	return false;
}

static void
add_temporaries(Plan *p, const Sched *s)
{
	for (int i = 0; i < s->node.n; i++) {
		Node *n = s->node.at[i];
		for (int r = 0; r < 2 && n->region[r]; r++)
			add_temporaries(p, n->region[r]);
		for (int k = 0; k < n->move.n; k++) {
			Move *m = &n->move.at[k];
			ValueInfo *src = value_info(p, m->src), *dst = value_info(p, m->dst);
			if (src->storage.kind == STORE_SLOT && src->web == dst->web)
				continue;
			if (src->storage.kind == STORE_SLOT && !web_live_after(p, src->web, n->pos) &&
			    !is_moved_before(p, n, k))
				continue;
			m->temp = web_make(p, p->fast->web.at[dst->web].size);
			web_add_span(p, m->temp, 2 * n->pos, 2 * n->pos + 1);
		}
	}
}

static int
first_point(const Web *w)
{
	int first = INT_MAX;

	for (int i = 0; i < w->span.n; i++)
		first = MIN(first, w->span.at[i].from);
	return first;
}

typedef struct Order {
	int first, web;
} Order;

static int
compare_order(const void *a, const void *b)
{
	const Order *x = a, *y = b;

	return x->first != y->first ? (x->first > y->first) - (x->first < y->first) : x->web - y->web;
}

/* Webs come by their first point: a live range that ended before it overlaps none of the rest. */
static void
forget_before(Web *taken, int point)
{
	int n = 0;

	for (int i = 0; i < taken->span.n; i++)
		if (taken->span.at[i].to >= point)
			taken->span.at[n++] = taken->span.at[i];
	taken->span.n = n;
}

/* First fit; `taken` has, for each slot, the live ranges in it. */
static void
assign_slots(Plan *p)
{
	Order *order = NEW_ARRAY(p->mem, Order, p->fast->web.n);
	VEC(Web) taken = {0};
	int n = 0;

	for (int i = 0; i < p->fast->web.n; i++)
		order[n++] = (Order){first_point(&p->fast->web.at[i]), i};
	qsort(order, (size_t)n, sizeof *order, compare_order);
	for (int i = 0; i < n; i++) {
		Web *w = &p->fast->web.at[order[i].web];
		int tried = 0, r = w->size > 8 ? 0 : taken.n;
		for (; r < taken.n; r++) {
			if (taken.at[r].size != w->size)
				continue;
			forget_before(&taken.at[r], order[i].first);
			if (++tried > 64)
				r = taken.n;
			if (r == taken.n || !webs_overlap(&taken.at[r], w))
				break;
		}
		if (r == taken.n) {
			Web fresh = {.size = w->size, .slot = slot_add(p, w->size)};
			vec_push(p->mem, &taken, fresh);
		}
		for (int k = 0; w->size > 8 && k < w->span.n; k++)
			vec_push(p->mem, &taken.at[r].span, w->span.at[k]);
		w->slot = taken.at[r].slot;
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
	Sched *const scheds[] = {p->fast->once, p->fast->launch, p->fast->body};
	ValueList all = func_values(p->func, p->mem);

	for (int i = 0; i < LEN(scheds); i++)
		add_temporaries(p, scheds[i]);
	assign_slots(p);
	for (int i = 0; i < all.n; i++)
		set_slots(p, value_info(p, all.at[i]), all.at[i]);
}
