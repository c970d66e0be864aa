/* Gives every value that needs storage a register, and lets values that are not needed at the same time
 * share one.
 *
 * Every node has a position p; it uses its operands up to point 2p + 1 and its results begin at 2p + 1, so
 * that they never share.  Where an op may overwrite an operand (a dot its accumulator, a group an operand
 * of the same element size that no later member reads) the operand ends at 2p instead.  What a loop uses
 * from outside lives to the loop's end.
 *
 * Values joined by control flow (a loop's initial value, its argument, what it yields, its result) are
 * merged into one web where their lives do not overlap: then handing over costs nothing.  Where they
 * overlap, the edge is a Move: control.c exchanges the pointers of the two registers if the source is not
 * wanted any more, or copies.  Exchange is why only values of equal size share a register. */
#include "ir/interp/plan.h"

#include <limits.h>
#include <stdlib.h>

int
web_root(const Plan *p, int web)
{
	while (p->web.at[web].link != web)
		web = p->web.at[web].link;
	return web;
}

int
web_reg(const Plan *p, int web)
{
	return p->web.at[web_root(p, web)].reg;
}

bool
web_live_after(const Plan *p, int web, int pos)
{
	const Web *w = &p->web.at[web_root(p, web)];

	for (int i = 0; i < w->span.n; i++)
		if (w->span.at[i].from <= 2 * pos + 1 && w->span.at[i].to > 2 * pos)
			return true;
	return false;
}

static int64_t
storage_size(const Op *op, const Home *h)
{
	const Type *t = h->type;
	int64_t n = type_count(t), size = type_elem_size(t);

	if (h->kind == HOME_NONE || h->kind == HOME_STRIP)
		return -1;
	if (t->kind == TYPE_BUFFER)
		return 8;
	if (h->kind == HOME_ONE)
		return 8;
	if (h->kind == HOME_VIEW && op->kind == OP_IOTA)
		n = t->extent[attr_axis(op)];
	else if (h->kind == HOME_VIEW && (op->kind != OP_READ || !h->dense))
		return -1;
	return n * size <= 8 ? 8 : (n * size + 63) / 64 * 64;
}

static int
web_make(Plan *p, int64_t size)
{
	Web w = {.link = p->web.n, .size = size, .reg = -1};

	vec_push(p->mem, &p->web, w);
	return p->web.n - 1;
}

/* The same bytes as the operand: a reshape, or a scalar that stands for a tile. */
static bool
shares_storage(const Plan *p, const Op *op, const Value *v)
{
	Home to = value_home(p, v), from = value_home(p, op->in[0]);

	if (op_is_reshape(op->kind) && !p->plain)
		return to.kind == from.kind && (to.kind == HOME_REG || to.kind == HOME_ONE);
	return op_is_view(op->kind) && to.kind == HOME_ONE;
}

static void
give_web(Plan *p, Value *v)
{
	ValueInfo *x = value_info(p, v);
	const Op *op = v->def;

	x->web = -1;
	if (op && op_is_view(op->kind)) {
		if (shares_storage(p, op, v)) {
			x->web = value_info(p, op->in[0])->web;
			return;
		}
		if (x->home.kind == HOME_VIEW)
			x->base = op->in[0];
	}
	int64_t size = storage_size(op, &x->home);
	if (size >= 0)
		x->web = web_make(p, size);
	if (x->home.kind != HOME_VIEW)
		return;
	bool same_view = op_is_reshape(op->kind) && x->home.dense;
	x->home.view = same_view ? value_home(p, op->in[0]).view : p->nview++;
}

static void
span_add(Plan *p, int web, int from, int to)
{
	Span s = {from, to};

	vec_push(p->mem, &p->web.at[web].span, s);
}

static bool
is_loop(const Op *op)
{
	return op->nregion > 0 && op->kind != OP_IF;
}

static void
use_value(Plan *p, const Value *v, const Node *n, int point)
{
	for (; v; v = value_info(p, v)->base) {
		ValueInfo *x = value_info(p, v);
		int to = point;
		for (const Sched *s = n->sched; s != x->sched && s->parent; s = s->parent->sched)
			if (is_loop(s->parent->op))
				to = MAX(to, 2 * s->parent->end + 1);
		x->to = MAX(x->to, to);
	}
}

static bool
defined_in_group(const Plan *p, const Node *g, const Value *v)
{
	return v->def && value_info(p, v)->def == g;
}

static bool
is_base_of(const Plan *p, const Value *leaf, const Value *x)
{
	for (leaf = value_info(p, leaf)->base; leaf; leaf = value_info(p, leaf)->base)
		if (value_info(p, leaf)->web >= 0 && value_info(p, leaf)->web == value_info(p, x)->web)
			return true;
	return false;
}

/* May a result of the group overwrite x?  Every result that has a register must be of x's element size,
 * and none may be computed before the last member that reads x. */
static bool
group_overwrites(const Plan *p, const Node *g, const Value *x)
{
	bool written = false;

	if (value_home(p, x).kind != HOME_REG)
		return false;
	for (int i = 0; i < g->member.n; i++) {
		const Op *op = g->member.at[i];
		for (int k = 0; k < op->nin; k++)
			if ((op->in[k] == x && written) || is_base_of(p, op->in[k], x))
				return false;
		if (value_home(p, &op->out[0]).kind != HOME_REG)
			continue;
		written = true;
		if (type_elem_size(op->out[0].type) != type_elem_size(x->type))
			return false;
	}
	return true;
}

static void
use_outer(Plan *p, const Node *n, const Block *b, int point)
{
	for (const Op *op = b->first; op; op = op->next) {
		for (int i = 0; i < op->nin; i++)
			if (value_info(p, op->in[i])->sched)
				use_value(p, op->in[i], n, point);
		for (int r = 0; r < op->nregion; r++)
			use_outer(p, n, op->region[r], point);
	}
}

static void
live_group(Plan *p, Node *g)
{
	for (int i = 0; i < g->member.n; i++) {
		Op *op = g->member.at[i];
		value_info(p, &op->out[0])->from = value_info(p, &op->out[0])->to = 2 * g->pos + 1;
		for (int k = 0; k < op->nin; k++)
			if (!defined_in_group(p, g, op->in[k]))
				use_value(p, op->in[k], g,
				    2 * g->pos + !group_overwrites(p, g, op->in[k]));
	}
	for (int i = 0; g->op && i < g->op->nin - 1; i++)
		use_value(p, g->op->in[i], g, 2 * g->pos + 1);
}

static void live_sched(Plan *p, Sched *s);

/* Region arguments begin with the op and its results at its end. */
static void
live_regions(Plan *p, Node *n)
{
	const Op *op = n->op;

	for (int r = 0; r < op->nregion; r++) {
		Block *b = op->region[r];
		int start = op->kind == OP_WHILE && r == 1 ? n->region[0]->yield->pos : n->pos;
		for (int i = 0; i < b->narg; i++)
			value_info(p, &b->arg[i])->from = value_info(p, &b->arg[i])->to = 2 * start + 1;
		if (n->region[r]->node.n > 0)
			live_sched(p, n->region[r]);
		else
			use_outer(p, n, b, 2 * n->pos + 1);
	}
}

/* May the op's results lie where the operand does?  A dot's may not where the operand is a view: it would write over
 * elements that it still has to read. */
static bool
use_is_soft(const Plan *p, const Op *op, int i)
{
	return (op->kind == OP_DOT && i == 2 && !value_info(p, op->in[i])->base) || op->kind == OP_YIELD ||
	    (op->kind == OP_FOR && i >= 3) ||
	    op->kind == OP_WHILE;
}

static void
live_node(Plan *p, Node *n)
{
	Op *op = n->op;

	if (n->is_group) {
		live_group(p, n);
		return;
	}
	for (int i = 0; i < op->nout; i++) {
		ValueInfo *x = value_info(p, &op->out[i]);
		x->from = x->to = 2 * n->end + 1;
	}
	/* A fold reads its operands while it writes its results. */
	bool folds = op->kind == OP_REDUCE_FN || op->kind == OP_SCAN_FN;
	for (int i = 0; i < op->nin; i++)
		if (op->in[i]->type->kind != TYPE_TENSOR)
			use_value(p, op->in[i], n, folds ? 2 * n->end + 1 : 2 * n->pos + !use_is_soft(p, op, i));
	live_regions(p, n);
}

static void
live_sched(Plan *p, Sched *s)
{
	for (int i = 0; i < s->node.n; i++)
		live_node(p, s->node.at[i]);
}

static int
number_sched(Sched *s, int pos)
{
	for (int i = 0; i < s->node.n; i++) {
		Node *n = s->node.at[i];
		n->pos = pos++;
		for (int r = 0; r < 2 && n->region[r]; r++)
			pos = number_sched(n->region[r], pos);
		n->end = n->region[0] ? pos++ : n->pos;
	}
	return pos;
}

/* Members whose values leave the group need a register; the others live in strips. */
static void
find_escapes(Plan *p, const Sched *s)
{
	for (int i = 0; i < s->node.n; i++) {
		Node *n = s->node.at[i];
		for (int m = 0; m < n->member.n; m++)
			for (int k = 0; k < n->member.at[m]->nin; k++)
				if (!defined_in_group(p, n, n->member.at[m]->in[k]))
					value_info(p, n->member.at[m]->in[k])->escapes = true;
		for (int k = 0; n->op && k < n->op->nin; k++)
			if (!n->is_group || !defined_in_group(p, n, n->op->in[k]))
				value_info(p, n->op->in[k])->escapes = true;
		for (int r = 0; r < 2 && n->region[r]; r++)
			find_escapes(p, n->region[r]);
	}
}

static void
find_strips(Plan *p, const Sched *s)
{
	for (int i = 0; i < s->node.n; i++) {
		Node *n = s->node.at[i];
		for (int m = 0; m < n->member.n; m++) {
			ValueInfo *x = value_info(p, &n->member.at[m]->out[0]);
			if (!x->escapes && !p->plain)
				x->home.kind = HOME_STRIP;
		}
		for (int r = 0; r < 2 && n->region[r]; r++)
			find_strips(p, n->region[r]);
	}
}

static void
give_webs(Plan *p, const Sched *s)
{
	for (int i = 0; i < s->node.n; i++) {
		Node *n = s->node.at[i];
		for (int m = 0; m < n->member.n; m++)
			give_web(p, &n->member.at[m]->out[0]);
		for (int r = 0; r < 2 && n->region[r]; r++) {
			Block *b = n->op->region[r];
			for (int k = 0; k < b->narg; k++)
				give_web(p, &b->arg[k]);
			give_webs(p, n->region[r]);
		}
		for (int k = 0; !n->is_group && k < n->op->nout; k++)
			give_web(p, &n->op->out[k]);
	}
}

static void
add_move(Plan *p, Node *n, Value *src, Value *dst)
{
	Move m = {src, dst, -1};

	vec_push(p->mem, &n->move, m);
}

static void
join_webs(Plan *p, int a, int b)
{
	a = web_root(p, a);
	b = web_root(p, b);
	if (a == b)
		return;
	p->web.at[b].link = a;
	for (int i = 0; i < p->web.at[b].span.n; i++)
		span_add(p, a, p->web.at[b].span.at[i].from, p->web.at[b].span.at[i].to);
}

static void
moves_of_for(Plan *p, Node *n)
{
	Node *back = n->region[0]->yield;
	Block *b = n->op->region[0];

	for (int i = 0; i < n->op->nout; i++) {
		Value *arg = &b->arg[i + 1];
		add_move(p, n, n->op->in[i + 3], arg);
		add_move(p, back, back->op->in[i], arg);
		span_add(p, value_info(p, arg)->web, 2 * back->pos + 1, 2 * n->end);
		join_webs(p, value_info(p, arg)->web, value_info(p, &n->op->out[i])->web);
	}
}

static void
moves_of_while(Plan *p, Node *n)
{
	Node *test = n->region[0]->yield, *back = n->region[1]->yield;

	for (int i = 0; i < n->op->nout; i++) {
		Value *arg = &n->op->region[0]->arg[i], *kept = &n->op->region[1]->arg[i];
		add_move(p, n, n->op->in[i], arg);
		add_move(p, test, test->op->in[i + 1], kept);
		add_move(p, back, back->op->in[i], arg);
		span_add(p, value_info(p, arg)->web, 2 * back->pos + 1, 2 * n->end);
		span_add(p, value_info(p, kept)->web, 2 * test->pos + 1, 2 * test->pos + 1);
		join_webs(p, value_info(p, kept)->web, value_info(p, &n->op->out[i])->web);
	}
}

static void
moves_of_if(Plan *p, Node *n)
{
	for (int r = 0; r < 2; r++) {
		Node *end = n->region[r]->yield;
		for (int i = 0; i < n->op->nout; i++) {
			add_move(p, end, end->op->in[i], &n->op->out[i]);
			span_add(p, value_info(p, &n->op->out[i])->web, 2 * end->pos + 1, 2 * end->pos + 1);
		}
	}
	int last = n->region[1]->yield->pos;
	for (int i = 0; i < n->op->nout; i++)
		span_add(p, value_info(p, &n->op->out[i])->web, 2 * last + 1, 2 * n->end + 1);
}

static void
find_moves(Plan *p, const Sched *s)
{
	for (int i = 0; i < s->node.n; i++) {
		Node *n = s->node.at[i];
		for (int r = 0; r < 2 && n->region[r]; r++)
			find_moves(p, n->region[r]);
		if (n->is_group)
			continue;
		if (n->op->kind == OP_FOR)
			moves_of_for(p, n);
		else if (n->op->kind == OP_WHILE)
			moves_of_while(p, n);
		else if (n->op->kind == OP_IF)
			moves_of_if(p, n);
	}
}

static bool
spans_overlap(const Web *a, const Web *b)
{
	for (int i = 0; i < a->span.n; i++)
		for (int k = 0; k < b->span.n; k++)
			if (a->span.at[i].from <= b->span.at[k].to && b->span.at[k].from <= a->span.at[i].to)
				return true;
	return false;
}

static void
merge_moves(Plan *p, const Sched *s)
{
	for (int i = 0; i < s->node.n; i++) {
		Node *n = s->node.at[i];
		for (int r = 0; r < 2 && n->region[r]; r++)
			merge_moves(p, n->region[r]);
		for (int k = 0; k < n->move.n; k++) {
			Move *m = &n->move.at[k];
			if (value_home(p, m->src).kind != HOME_REG)
				continue;
			int a = web_root(p, value_info(p, m->dst)->web), b = web_root(p, value_info(p, m->src)->web);
			if (p->web.at[a].size == p->web.at[b].size &&
			    !spans_overlap(&p->web.at[a], &p->web.at[b]))
				join_webs(p, a, b);
		}
	}
}

static bool
is_handed_over_before(const Plan *p, const Node *n, int k)
{
	for (int i = 0; i < k; i++)
		if (value_info(p, n->move.at[i].src)->web == value_info(p, n->move.at[k].src)->web)
			return true;
	return false;
}

static void
give_temporaries(Plan *p, const Sched *s)
{
	for (int i = 0; i < s->node.n; i++) {
		Node *n = s->node.at[i];
		for (int r = 0; r < 2 && n->region[r]; r++)
			give_temporaries(p, n->region[r]);
		for (int k = 0; k < n->move.n; k++) {
			Move *m = &n->move.at[k];
			ValueInfo *src = value_info(p, m->src), *dst = value_info(p, m->dst);
			if (src->home.kind == HOME_REG && web_root(p, src->web) == web_root(p, dst->web))
				continue;
			if (src->home.kind == HOME_REG && !web_live_after(p, src->web, n->pos) &&
			    !is_handed_over_before(p, n, k))
				continue;
			m->temp = web_make(p, p->web.at[web_root(p, dst->web)].size);
			span_add(p, m->temp, 2 * n->pos, 2 * n->pos + 1);
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

/* Webs come by their first point, so what ended before it is of no more interest. */
static void
forget_before(Web *taken, int point)
{
	int n = 0;

	for (int i = 0; i < taken->span.n; i++)
		if (taken->span.at[i].to >= point)
			taken->span.at[n++] = taken->span.at[i];
	taken->span.n = n;
}

/* First fit; `taken` has, for each register, all that lives in it. */
static void
assign_registers(Plan *p)
{
	Order *order = NEW_ARRAY(p->mem, Order, p->web.n);
	VEC(Web) taken = {0};
	int n = 0;

	for (int i = 0; i < p->web.n; i++)
		if (p->web.at[i].link == i)
			order[n++] = (Order){first_point(&p->web.at[i]), i};
	qsort(order, (size_t)n, sizeof *order, compare_order);
	for (int i = 0; i < n; i++) {
		Web *w = &p->web.at[order[i].web];
		int tried = 0, r = w->size > 8 ? 0 : taken.n;
		for (; r < taken.n; r++) {
			if (taken.at[r].size != w->size)
				continue;
			forget_before(&taken.at[r], order[i].first);
			if (++tried > 64)
				r = taken.n;
			if (r == taken.n || !spans_overlap(&taken.at[r], w))
				break;
		}
		if (r == taken.n) {
			Web fresh = {.size = w->size};
			vec_push(p->mem, &taken, fresh);
			vec_push(p->mem, &p->reg, w->size);
		}
		for (int k = 0; w->size > 8 && k < w->span.n; k++)
			vec_push(p->mem, &taken.at[r].span, w->span.at[k]);
		w->reg = r;
	}
}

static void
place_registers(Plan *p)
{
	p->reg_at = NEW_ARRAY(p->mem, int64_t, p->reg.n);
	for (int pass = 0; pass < 2; pass++) {
		if (pass == 1)
			p->bytes = (p->bytes + 63) / 64 * 64;
		for (int r = 0; r < p->reg.n; r++) {
			if ((p->reg.at[r] > 8) != (pass == 1))
				continue;
			p->reg_at[r] = p->bytes;
			if (__builtin_add_overflow(p->bytes, p->reg.at[r], &p->bytes))
				p->bytes = INT64_MAX / 4;
		}
	}
}

void
slots_assign(Plan *p)
{
	Sched *const scheds[] = {p->once, p->launch, p->body};
	int pos = 0;

	for (int i = 0; i < LEN(scheds); i++)
		pos = number_sched(scheds[i], pos);
	for (int i = 0; i < LEN(scheds); i++)
		find_escapes(p, scheds[i]);
	for (int i = 0; i < LEN(scheds); i++)
		find_strips(p, scheds[i]);
	for (int i = 0; i < p->func->body->narg; i++)
		if (value_home(p, &p->func->body->arg[i]).kind == HOME_REG)
			give_web(p, &p->func->body->arg[i]);
	for (int i = 0; i < LEN(scheds); i++)
		give_webs(p, scheds[i]);
	for (int i = 0; i < LEN(scheds); i++)
		live_sched(p, scheds[i]);
	for (int i = 0; i < p->func->nvalues; i++) {
		ValueInfo *x = &p->info[i];
		if (x->level < 2)
			x->to = INT_MAX;
		if (x->home.kind != HOME_NONE && x->home.kind != HOME_STRIP && x->web >= 0)
			span_add(p, x->web, x->from, x->to);
	}
	for (int i = 0; i < LEN(scheds); i++)
		find_moves(p, scheds[i]);
	for (int i = 0; i < LEN(scheds); i++)
		merge_moves(p, scheds[i]);
	for (int i = 0; i < LEN(scheds); i++)
		give_temporaries(p, scheds[i]);
	assign_registers(p);
	place_registers(p);
	for (int i = 0; i < p->func->nvalues; i++)
		if (p->info[i].web >= 0)
			p->info[i].home.reg = web_reg(p, p->info[i].web);
}
