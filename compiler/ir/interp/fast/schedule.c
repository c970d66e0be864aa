/* Puts the ops of a function in the order in which they run, and gathers elementwise ops into groups.
 *
 *     %a = mul %x, %y                    group (mul, exp, add):
 *     %m = reduce %z         =>              reduce %z
 *     %b = exp %a                            for each strip of 2048 elements: mul, exp, add
 *     %c = add %b, %m'
 *
 * A group stays open while ops pass that do not need its values, and closes (gets its position in the order)
 * just before the first that does.  That is sound because its members are pure and what they read through
 * views cannot change (storage.c).  A write whose tile a group has just computed ends the group: the strips go
 * straight to the tensor.  What does not depend on the program goes to the schedules `once` and `launch`. */
#include "ir/interp/fast/fast.h"

#include <string.h>

static Sched *
sched_make(Plan *p, Node *parent)
{
	Sched *s = NEW(p->mem, Sched);

	s->parent = parent;
	return s;
}

static Node *
node_make(Plan *p, Sched *s, Op *op)
{
	Node *n = NEW(p->mem, Node);

	n->op = op;
	n->sched = s;
	return n;
}

static void
close_group(Plan *p, Sched *s, Node *g)
{
	int i = 0;

	while (s->open.at[i] != g)
		i++;
	memmove(&s->open.at[i], &s->open.at[i + 1], sizeof *s->open.at * (size_t)(s->open.n - i - 1));
	s->open.n--;
	vec_push(p->mem, &s->node, g);
}

static void
close_all(Plan *p, Sched *s)
{
	while (s->open.n > 0)
		close_group(p, s, s->open.at[0]);
}

static Node *
open_group_of(const Plan *p, const Sched *s, const Value *v)
{
	return VALUE_OF(i, s->open.n, v->def && value_info(p, v)->def == s->open.at[i], s->open.at[i], NULL);
}

static void
close_used(Plan *p, Sched *s, const Op *op, const Node *but)
{
	for (int i = 0; i < op->nin; i++) {
		Node *g = open_group_of(p, s, op->in[i]);
		if (g && g != but)
			close_group(p, s, g);
	}
}

static Node *
group_for(Plan *p, Sched *s, const Op *op)
{
	int64_t count = type_count(op->out[0].type);
	Node *fits = NULL;

	for (int i = 0; i < op->nin; i++) {
		Node *g = open_group_of(p, s, op->in[i]);
		if (g && g->member.n < GROUP_MAX)
			return g;
	}
	for (int i = 0; i < s->open.n; i++) {
		Node *g = s->open.at[i];
		if (g->member.n < GROUP_MAX && type_count(g->member.at[0]->out[0].type) == count)
			fits = g;
	}
	if (fits)
		return fits;
	Node *g = node_make(p, s, NULL);
	g->is_group = true;
	vec_push(p->mem, &s->open, g);
	return g;
}

static void
join_group(Plan *p, Sched *s, Op *op)
{
	Node *g = group_for(p, s, op);

	close_used(p, s, op, g);
	vec_push(p->mem, &g->member, op);
	value_info(p, &op->out[0])->def = g;
	value_info(p, &op->out[0])->sched = s;
}

/* The write ends the group if it is the only use of its tile: the strips go to the tensor. */
static bool
end_group(Plan *p, Sched *s, Op *op)
{
	Value *tile = op->kind == OP_WRITE ? op->in[op->nin - 1] : NULL;
	Node *g = tile ? open_group_of(p, s, tile) : NULL;

	if (!g || tile->nuses != 1 || strchr(attr_index(op), 'g'))
		return false;
	close_used(p, s, op, g);
	g->op = op;
	close_group(p, s, g);
	return true;
}

static void schedule_block(Plan *p, Sched *s, Block *b);

static void
schedule_regions(Plan *p, Node *n)
{
	Op *op = n->op;

	for (int i = 0; i < op->nregion; i++) {
		n->region[i] = sched_make(p, n);
		for (int k = 0; k < op->region[i]->narg; k++)
			value_info(p, &op->region[i]->arg[k])->sched = n->region[i];
		schedule_block(p, n->region[i], op->region[i]);
	}
}

/* Constants inside a flat region are made once, like any others. */
static void
schedule_constants(Plan *p, Block *b)
{
	for (Op *op = b->first; op; op = op->next) {
		for (int i = 0; i < op->nregion; i++)
			schedule_constants(p, op->region[i]);
		if (op->kind != OP_CONST)
			continue;
		Node *n = node_make(p, p->fast->once, op);
		value_info(p, &op->out[0])->def = n;
		value_info(p, &op->out[0])->sched = p->fast->once;
		vec_push(p->mem, &p->fast->once->node, n);
	}
}

static bool
is_unused(const Op *op)
{
	if (!(op_info[op->kind].traits & (PURE | READS)) || (op_info[op->kind].traits & (WRITES | EFFECT)))
		return false;
	return ALL_OF(i, op->nout, op->out[i].nuses <= 0);
}

static void
schedule_op(Plan *p, Sched *s, Op *op)
{
	int level = op->nout > 0 ? value_info(p, &op->out[0])->level : 2;

	if (level < 2)
		s = level == 0 ? p->fast->once : p->fast->launch;
	if (is_unused(op))
		return;
	if (op_is_fused(p, op)) {
		join_group(p, s, op);
		return;
	}
	if (end_group(p, s, op))
		return;
	close_used(p, s, op, NULL);
	if (op->nregion > 0 || (op_info[op->kind].traits & TERM))
		close_all(p, s);
	Node *n = node_make(p, s, op);
	n->is_scalar = (op_info[op->kind].traits & ELEM) != 0;
	for (int i = 0; i < op->nout; i++) {
		value_info(p, &op->out[i])->def = n;
		value_info(p, &op->out[i])->sched = s;
	}
	vec_push(p->mem, &s->node, n);
	if (op_info[op->kind].traits & TERM)
		s->yield = n;
	if (op_is_fold(op->kind) && region_is_flat(op->region[0]))
		schedule_constants(p, op->region[0]);
	if (!op_runs_regions(op->kind))
		schedule_regions(p, n);
}

static void
schedule_block(Plan *p, Sched *s, Block *b)
{
	for (Op *op = b->first; op; op = op->next)
		schedule_op(p, s, op);
	close_all(p, s);
}

void
schedule_make(Plan *p)
{
	p->fast->once = sched_make(p, NULL);
	p->fast->launch = sched_make(p, NULL);
	p->fast->body = sched_make(p, NULL);
	for (int i = 0; i < p->func->body->narg; i++)
		value_info(p, &p->func->body->arg[i])->sched = p->fast->launch;
	schedule_block(p, p->fast->body, p->func->body);
	close_all(p, p->fast->once);
	close_all(p, p->fast->launch);
}
