/* Live ranges of what needs a slot, and what crosses the edges of control flow.
 *
 * Values of one slot share a web: a loop's argument and its result, a reshape and its operand, and what overwrites an
 * operand that nothing else reads (a dot its accumulator, a group an operand of the same element size).  A web is live over
 * one interval of points.  The node at position p uses its operands up to point 2p + 1 and its results begin there, so
 * that they share no slot otherwise.  Arguments of a loop live as long as the loop, and what it uses from outside lives to
 * its end.
 *
 * What crosses an edge and is dead after it exchanges the pointer of its slot with the destination's; else it is copied,
 * through a web of its own where a source of the edge lies in the destination.  Exchange is why only values of equal size
 * share a slot. */
#include "ir/interp/fast/fast.h"

#include <limits.h>

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

static int
web_make(Plan *p, int64_t size)
{
	Web w = {.size = size, .from = INT_MAX, .slot = -1};

	vec_push(p->mem, &p->fast->web, w);
	return p->fast->web.n - 1;
}

/* The web, if it is one, is live at a point. */
static void
web_extend(Plan *p, int web, int point)
{
	if (web < 0)
		return;
	Web *w = &p->fast->web.at[web];
	w->from = MIN(w->from, point);
	w->to = MAX(w->to, point);
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

/* What an argument of a loop's first region is in the first iteration; NULL: of another. */
static Value *
loop_start(const Value *v)
{
	const Op *op = v->def ? NULL : v->block->parent;

	if (op && op->kind == OP_FOR && v->index > 0)
		return op->in[v->index + 2];
	return op && op->kind == OP_WHILE && v->block == op->region[0] ? op->in[v->index] : NULL;
}

static bool
defined_in_group(const Plan *p, const Node *g, const Value *v)
{
	return v->def && value_info(p, v)->def == g;
}

/* Does nothing but node n, `uses` times, read v's bytes, and once for each time that they are computed? */
static bool
is_only_use(const Plan *p, const Node *n, const Value *v, int uses)
{
	const ValueInfo *x = value_info(p, v);

	if (x->storage.kind != STORE_SLOT || v->nuses != uses || x->level < 2 || x->sched != n->sched)
		return false;
	return !v->def || !op_rearranges(v->def->kind) || !shares_storage(p, v->def, v) ||
	    is_only_use(p, n, v->def->in[0], 1);
}

/* Uses of x by the first `count` members; INT_MAX: one of them has overwritten it. */
static int
uses_in_group(const Plan *p, const Node *g, const Value *x, int count)
{
	int n = 0;

	for (int i = 0; i < count; i++) {
		const Op *op = g->member.at[i];
		n += COUNT_OF(k, op->nin, op->in[k] == x);
		if (i < count - 1 && value_info(p, &op->out[0])->web == value_info(p, x)->web)
			return INT_MAX;
	}
	return n;
}

/* The operand that a result of a group overwrites strip by strip: no later member reads it. */
static const Value *
overwritten_by_group(const Plan *p, const Node *g, const Value *v)
{
	int n = 0;

	if (storage_of(p, v).kind != STORE_SLOT)
		return NULL;
	while (g->member.at[n++] != v->def)
		;
	for (int i = n - 1; i >= 0; i--) {
		const Op *op = g->member.at[i];
		for (int k = 0; k < op->nin; k++)
			if (!defined_in_group(p, g, op->in[k]) &&
			    type_elem_size(op->in[k]->type) == type_elem_size(v->type) &&
			    type_count(op->in[k]->type) == type_count(v->type) &&
			    is_only_use(p, g, op->in[k], uses_in_group(p, g, op->in[k], n)))
				return op->in[k];
	}
	return NULL;
}

/* The value whose web v takes; NULL: it has its own. */
static const Value *
shared_with(const Plan *p, const Node *n, const Value *v)
{
	const Op *op = v->def;
	const Value *start = loop_start(v);

	if (!op)
		return start && is_only_use(p, n, start, 1) ? start : NULL;
	if (loop_argument(v))
		return loop_argument(v);
	if (op_rearranges(op->kind))
		return shares_storage(p, op, v) ? op->in[0] : NULL;
	if (n->is_group)
		return overwritten_by_group(p, n, v);
	return op->kind == OP_DOT && is_only_use(p, n, op->in[2], 1) ? op->in[2] : NULL;
}

static void
assign_web(Plan *p, const Node *n, Value *v)
{
	ValueInfo *x = value_info(p, v);
	const Value *shared = shared_with(p, n, v);

	x->web = -1;
	if (shared) {
		x->web = value_info(p, shared)->web;
		return;
	}
	if (v->def && op_rearranges(v->def->kind) && x->storage.kind == STORE_VIEW)
		x->base = v->def->in[0];
	int64_t size = storage_size(v->def, &x->storage);
	if (size >= 0)
		x->web = web_make(p, size);
	if (x->level < 2)
		web_extend(p, x->web, INT_MAX);
	if (x->storage.kind != STORE_VIEW)
		return;
	if (!x->storage.dense)
		x->storage.view = p->fast->nview++;
	else
		x->storage.slot = v->def->kind == OP_READ ? slot_add(p, 0) : storage_of(p, v->def->in[0]).slot;
}

/* Region arguments begin with the op, those of a while loop's body after its test. */
static void
assign_webs(Plan *p, Node *n)
{
	for (int m = 0; m < n->member.n; m++)
		assign_web(p, n, &n->member.at[m]->out[0]);
	for (int r = 0; r < 2 && n->region[r]; r++) {
		const Block *b = n->op->region[r];
		int start = n->op->kind == OP_WHILE && r == 1 ? n->region[0]->yield->pos : n->pos;
		for (int k = 0; k < b->narg; k++) {
			assign_web(p, n, &b->arg[k]);
			web_extend(p, value_info(p, &b->arg[k])->web, 2 * start + 1);
			web_extend(p, value_info(p, &b->arg[k])->web, 2 * n->end);
		}
	}
	for (int k = 0; !n->is_group && k < n->op->nout; k++)
		assign_web(p, n, &n->op->out[k]);
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
		const ValueInfo *x = value_info(p, v);
		int to = point;
		for (const Sched *s = n->sched; s != x->sched && s->parent; s = s->parent->sched)
			if (is_loop(s->parent->op))
				to = MAX(to, 2 * s->parent->end + 1);
		web_extend(p, x->web, to);
	}
}

/* What a region that is not scheduled uses from outside. */
static void
use_outer(Plan *p, const Node *n, const Block *b)
{
	for (const Op *op = b->first; op; op = op_after(op, b))
		for (int i = 0; i < op->nin; i++)
			if (value_info(p, op->in[i])->sched)
				use_value(p, op->in[i], n, 2 * n->pos + 1);
}

static void
live_group(Plan *p, Node *g)
{
	for (int i = 0; i < g->member.n; i++) {
		const Op *op = g->member.at[i];
		web_extend(p, value_info(p, &op->out[0])->web, 2 * g->pos + 1);
		for (int k = 0; k < op->nin; k++)
			if (!defined_in_group(p, g, op->in[k]))
				use_value(p, op->in[k], g, 2 * g->pos + 1);
	}
	for (int i = 0; g->op && i < g->op->nin - 1; i++)
		use_value(p, g->op->in[i], g, 2 * g->pos + 1);
}

/* A branch's results begin with it: both sides assign them at their ends, those that nothing uses too. */
static void
live_node(Plan *p, Node *n)
{
	const Op *op = n->op;

	if (n->is_group) {
		live_group(p, n);
		return;
	}
	for (int i = 0; i < op->nout; i++) {
		int web = value_info(p, &op->out[i])->web;
		if (op->kind == OP_IF)
			web_extend(p, web, 2 * n->pos + 1);
		web_extend(p, web, 2 * n->end + 1);
	}
	for (int i = 0; i < op->nin; i++)
		if (op->in[i]->type->kind != TYPE_TENSOR)
			use_value(p, op->in[i], n, 2 * n->pos + 1);
	for (int r = 0; r < op->nregion; r++)
		if (!n->region[r])
			use_outer(p, n, op->region[r]);
}

static void
number_sched(Plan *p, Sched *s)
{
	for (int i = 0; i < s->node.n; i++) {
		Node *n = s->node.at[i];
		vec_push(p->mem, &p->fast->order, n);
		n->pos = n->end = p->fast->npositions++;
		for (int r = 0; r < 2 && n->region[r]; r++)
			number_sched(p, n->region[r]);
		if (n->region[0])
			n->end = p->fast->npositions++;
	}
}

/* Members whose values leave the group need a slot; the others live in strips. */
static void
find_escapes(Plan *p, Node *n)
{
	for (int m = 0; m < n->member.n; m++)
		for (int k = 0; k < n->member.at[m]->nin; k++)
			if (!defined_in_group(p, n, n->member.at[m]->in[k]))
				value_info(p, n->member.at[m]->in[k])->escapes = true;
	for (int k = 0; n->op && k < n->op->nin; k++)
		if (!n->is_group || !defined_in_group(p, n, n->op->in[k]))
			value_info(p, n->op->in[k])->escapes = true;
	for (int r = 0; n->op && r < n->op->nregion && !n->region[r]; r++)
		for (const Op *op = n->op->region[r]->first; op; op = op_after(op, n->op->region[r]))
			for (int i = 0; i < op->nin; i++)
				value_info(p, op->in[i])->escapes = true;
}

static void
find_strips(Plan *p, Node *n)
{
	for (int m = 0; m < n->member.n; m++) {
		ValueInfo *x = value_info(p, &n->member.at[m]->out[0]);
		if (!x->escapes)
			x->storage.kind = STORE_STRIP;
	}
}

/* ---- edges ---- */

static void
add_moves(Plan *p, Node *n, Value *const *src, Value *dst, int count)
{
	for (int i = 0; i < count; i++) {
		Move m = {src[i], &dst[i], MOVE_NONE, -1};
		vec_push(p->mem, &n->move, m);
	}
}

static void
find_moves(Plan *p, Node *n)
{
	Op *op = n->op;
	Node *end[2] = {NULL, NULL};

	if (n->is_group || !n->region[0])
		return;
	for (int r = 0; r < 2 && n->region[r]; r++)
		end[r] = n->region[r]->yield;
	if (op->kind == OP_FOR) {
		add_moves(p, n, op->in + 3, op->region[0]->arg + 1, op->nout);
		add_moves(p, end[0], end[0]->op->in, op->region[0]->arg + 1, op->nout);
	} else if (op->kind == OP_WHILE) {
		add_moves(p, n, op->in, op->region[0]->arg, op->nout);
		add_moves(p, end[0], end[0]->op->in + 1, op->region[1]->arg, op->nout);
		add_moves(p, end[1], end[1]->op->in, op->region[0]->arg, op->nout);
	} else if (op->kind == OP_IF) {
		add_moves(p, end[0], end[0]->op->in, op->out, op->nout);
		add_moves(p, end[1], end[1]->op->in, op->out, op->nout);
	}
}

/* Is the web dead after the edge at n?  A loop's own arguments are at the end of their region, but for those that the edge
 * assigns. */
static bool
is_dead_after(const Plan *p, const Node *n, int web)
{
	const Node *parent = n->sched->parent;

	if (p->fast->web.at[web].to <= 2 * n->pos + 1)
		return true;
	for (int r = 0; n->op->kind == OP_YIELD && r < 2 && parent->region[r]; r++)
		for (int k = 0; n->sched == parent->region[r] && k < parent->op->region[r]->narg; k++)
			if (value_info(p, &parent->op->region[r]->arg[k])->web == web)
				return true;
	return false;
}

/* May move i exchange slots?  Copies come first, so that earlier moves may have copied from its source. */
static bool
may_exchange(const Plan *p, const Node *n, int i)
{
	const ValueInfo *src = value_info(p, n->move.at[i].src);

	if (src->storage.kind != STORE_SLOT || !is_dead_after(p, n, src->web))
		return false;
	return !ANY_OF(k, n->move.n,
	    value_info(p, n->move.at[k].dst)->web == src->web ||
		(k > i && value_info(p, n->move.at[k].src)->web == src->web));
}

static bool
is_source(const Plan *p, const Node *n, int web)
{
	for (int i = 0; i < n->move.n; i++)
		for (const Value *v = n->move.at[i].src; v; v = value_info(p, v)->base)
			if (value_info(p, v)->web == web)
				return true;
	return false;
}

static void
choose_moves(Plan *p, Node *n)
{
	for (int i = 0; i < n->move.n; i++) {
		Move *m = &n->move.at[i];
		int src = value_info(p, m->src)->web, dst = value_info(p, m->dst)->web;
		if (storage_of(p, m->src).kind == STORE_SLOT && src == dst)
			continue;
		m->kind = may_exchange(p, n, i) ? MOVE_EXCHANGE : MOVE_COPY;
		if (m->kind == MOVE_EXCHANGE || !is_source(p, n, dst))
			continue;
		m->temp = web_make(p, p->fast->web.at[dst].size);
		web_extend(p, m->temp, 2 * n->pos);
		web_extend(p, m->temp, 2 * n->pos + 1);
	}
}

void
liveness_find(Plan *p)
{
	static void (*const walk[])(Plan *p, Node *n) = {
		find_escapes, find_strips, assign_webs, live_node, find_moves, choose_moves,
	};
	const Block *body = p->func->body;

	number_sched(p, p->fast->once);
	number_sched(p, p->fast->launch);
	number_sched(p, p->fast->body);
	for (int i = 0; i < body->narg; i++)
		if (storage_of(p, &body->arg[i]).kind == STORE_SLOT) {
			assign_web(p, NULL, &body->arg[i]);
			web_extend(p, value_info(p, &body->arg[i])->web, 0);
		}
	for (int k = 0; k < LEN(walk); k++)
		for (int i = 0; i < p->fast->order.n; i++)
			walk[k](p, p->fast->order.at[i]);
}
