/* Live ranges of what needs a slot, and what crosses the edges of control flow.
 *
 * Every node has a position p; it uses its operands up to point 2p + 1 and its results begin at 2p + 1, so that they
 * never share a slot.  Where an op may overwrite an operand (a dot its accumulator, a group an operand of the same
 * element size that no later member reads) the operand ends at 2p instead.  So does what crosses an edge of control flow
 * (a loop's initial values, a yield's): if it is dead after the edge, edge.c exchanges the pointers of its slot and the
 * destination's, else it copies.  Exchange is why only values of equal size share a slot.  What a loop uses from outside
 * lives to the loop's end.  A loop's argument and result are one web. */
#include "ir/interp/fast/fast.h"

#include <limits.h>

bool
web_live_after(const Plan *p, int web, int pos)
{
	const Web *w = &p->fast->web.at[web];

	for (int i = 0; i < w->span.n; i++)
		if (w->span.at[i].from <= 2 * pos + 1 && w->span.at[i].to > 2 * pos)
			return true;
	return false;
}

static int64_t
storage_size(const Op *op, const Storage *h)
{
	const Type *t = h->type;
	int64_t n = type_count(t), size = type_elem_size(t);

	if (h->kind == STORE_NONE || h->kind == STORE_STRIP)
		return -1;
	if (t->kind == TYPE_BUFFER)
		return 8;
	if (h->kind == STORE_ONE)
		return 8;
	if (h->kind == STORE_VIEW && op->kind == OP_IOTA)
		n = t->extent[attr_axis(op)];
	else if (h->kind == STORE_VIEW && (op->kind != OP_READ || !h->dense))
		return -1;
	return n * size <= 8 ? 8 : (n * size + 63) / 64 * 64;
}

int
web_make(Plan *p, int64_t size)
{
	Web w = {.size = size, .slot = -1};

	vec_push(p->mem, &p->fast->web, w);
	return p->fast->web.n - 1;
}

/* The same bytes as the operand: a reshape, or a scalar that stands for a tile. */
static bool
shares_storage(const Plan *p, const Op *op, const Value *v)
{
	Storage to = storage_of(p, v), from = storage_of(p, op->in[0]);

	if (op_is_reshape(op->kind))
		return to.kind == from.kind && (to.kind == STORE_SLOT || to.kind == STORE_ONE);
	return op_rearranges(op->kind) && to.kind == STORE_ONE;
}

/* The argument that a loop's result is after the last iteration; NULL: not of a loop. */
static const Value *
loop_argument(const Value *v)
{
	const Op *op = v->def;

	if (op && op->kind == OP_FOR)
		return &op->region[0]->arg[v->index + 1];
	return op && op->kind == OP_WHILE ? &op->region[1]->arg[v->index] : NULL;
}

static void
give_web(Plan *p, Value *v)
{
	ValueInfo *x = value_info(p, v);
	const Op *op = v->def;

	x->web = -1;
	if (loop_argument(v)) {
		x->web = value_info(p, loop_argument(v))->web;
		return;
	}
	if (op && op_rearranges(op->kind)) {
		if (shares_storage(p, op, v)) {
			x->web = value_info(p, op->in[0])->web;
			return;
		}
		if (x->storage.kind == STORE_VIEW)
			x->base = op->in[0];
	}
	int64_t size = storage_size(op, &x->storage);
	if (size >= 0)
		x->web = web_make(p, size);
	if (x->storage.kind != STORE_VIEW)
		return;
	if (!x->storage.dense)
		x->storage.view = p->fast->nview++;
	else
		x->storage.slot = op->kind == OP_READ ? slot_add(p, 0) : storage_of(p, op->in[0]).slot;
}

void
web_add_span(Plan *p, int web, int from, int to)
{
	Span s = {from, to};

	vec_push(p->mem, &p->fast->web.at[web].span, s);
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

/* May a result of the group overwrite x?  Every result that has a slot must be of x's element size,
 * and none may be computed before the last member that reads x. */
static bool
group_overwrites(const Plan *p, const Node *g, const Value *x)
{
	bool written = false;

	if (storage_of(p, x).kind != STORE_SLOT)
		return false;
	for (int i = 0; i < g->member.n; i++) {
		const Op *op = g->member.at[i];
		for (int k = 0; k < op->nin; k++)
			if ((op->in[k] == x && written) || is_base_of(p, op->in[k], x))
				return false;
		if (storage_of(p, &op->out[0]).kind != STORE_SLOT)
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
	for (const Op *op = b->first; op; op = op_after(op, b))
		for (int i = 0; i < op->nin; i++)
			if (value_info(p, op->in[i])->sched)
				use_value(p, op->in[i], n, point);
}

static void
live_group(Plan *p, Node *g)
{
	for (int i = 0; i < g->member.n; i++) {
		Op *op = g->member.at[i];
		value_info(p, &op->out[0])->from = value_info(p, &op->out[0])->to = 2 * g->pos + 1;
		for (int k = 0; k < op->nin; k++)
			if (!defined_in_group(p, g, op->in[k]))
				use_value(p, op->in[k], g, 2 * g->pos + !group_overwrites(p, g, op->in[k]));
	}
	for (int i = 0; g->op && i < g->op->nin - 1; i++)
		use_value(p, g->op->in[i], g, 2 * g->pos + 1);
}

static void live_sched(Plan *p, const Sched *s);

/* Region arguments begin with the op and its results at its end. */
static void
live_regions(Plan *p, Node *n)
{
	const Op *op = n->op;

	for (int r = 0; r < op->nregion; r++) {
		Block *b = op->region[r];
		if (!n->region[r]) {
			use_outer(p, n, b, 2 * n->pos + 1);
			continue;
		}
		int start = op->kind == OP_WHILE && r == 1 ? n->region[0]->yield->pos : n->pos;
		for (int i = 0; i < b->narg; i++)
			value_info(p, &b->arg[i])->from = value_info(p, &b->arg[i])->to = 2 * start + 1;
		live_sched(p, n->region[r]);
	}
}

/* May the results have the operand's slot?  A dot's may not where the operand is a view: it would write over elements
 * that it still has to read.  What crosses an edge of control flow may exchange its slot with the destination's. */
static bool
may_share(const Plan *p, const Op *op, int i)
{
	return (op->kind == OP_DOT && i == 2 && !value_info(p, op->in[i])->base) || op->kind == OP_YIELD ||
	    (op->kind == OP_FOR && i >= 3) || op->kind == OP_WHILE;
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
	for (int i = 0; i < op->nin; i++)
		if (op->in[i]->type->kind != TYPE_TENSOR)
			use_value(p, op->in[i], n, 2 * n->pos + !may_share(p, op, i));
	live_regions(p, n);
}

static void
live_sched(Plan *p, const Sched *s)
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

static void
escape_into(Plan *p, const Block *b)
{
	for (const Op *op = b->first; op; op = op_after(op, b))
		for (int i = 0; i < op->nin; i++)
			value_info(p, op->in[i])->escapes = true;
}

/* Members whose values leave the group need a slot; the others live in strips. */
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
		for (int r = 0; n->op && r < n->op->nregion && !n->region[r]; r++)
			escape_into(p, n->op->region[r]);
	}
}

static void
find_strips(Plan *p, const Sched *s)
{
	for (int i = 0; i < s->node.n; i++) {
		Node *n = s->node.at[i];
		for (int m = 0; m < n->member.n; m++) {
			ValueInfo *x = value_info(p, &n->member.at[m]->out[0]);
			if (!x->escapes)
				x->storage.kind = STORE_STRIP;
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
moves_of_for(Plan *p, Node *n)
{
	Node *back = n->region[0]->yield;
	Block *b = n->op->region[0];

	for (int i = 0; i < n->op->nout; i++) {
		Value *arg = &b->arg[i + 1];
		add_move(p, n, n->op->in[i + 3], arg);
		add_move(p, back, back->op->in[i], arg);
		web_add_span(p, value_info(p, arg)->web, 2 * back->pos + 1, 2 * n->end);
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
		web_add_span(p, value_info(p, arg)->web, 2 * back->pos + 1, 2 * n->end);
		web_add_span(p, value_info(p, kept)->web, 2 * test->pos + 1, 2 * test->pos + 1);
	}
}

static void
moves_of_if(Plan *p, Node *n)
{
	for (int r = 0; r < 2; r++) {
		Node *end = n->region[r]->yield;
		for (int i = 0; i < n->op->nout; i++) {
			add_move(p, end, end->op->in[i], &n->op->out[i]);
			web_add_span(p, value_info(p, &n->op->out[i])->web, 2 * end->pos + 1, 2 * end->pos + 1);
		}
	}
	int last = n->region[1]->yield->pos;
	for (int i = 0; i < n->op->nout; i++)
		web_add_span(p, value_info(p, &n->op->out[i])->web, 2 * last + 1, 2 * n->end + 1);
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

static void
each_sched(Plan *p, void (*act)(Plan *p, const Sched *s))
{
	act(p, p->fast->once);
	act(p, p->fast->launch);
	act(p, p->fast->body);
}

void
liveness_find(Plan *p)
{
	int pos = number_sched(p->fast->once, 0);

	pos = number_sched(p->fast->launch, pos);
	number_sched(p->fast->body, pos);
	each_sched(p, find_escapes);
	each_sched(p, find_strips);
	for (int i = 0; i < p->func->body->narg; i++)
		if (storage_of(p, &p->func->body->arg[i]).kind == STORE_SLOT)
			give_web(p, &p->func->body->arg[i]);
	each_sched(p, give_webs);
	each_sched(p, live_sched);
	for (int i = 0; i < p->func->nvalues; i++) {
		ValueInfo *x = &p->fast->info[i];
		if (x->level < 2)
			x->to = INT_MAX;
		if (x->storage.kind != STORE_NONE && x->storage.kind != STORE_STRIP && x->web >= 0)
			web_add_span(p, x->web, x->from, x->to);
	}
	each_sched(p, find_moves);
}
