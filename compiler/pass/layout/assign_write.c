/* Writes the chosen layouts into the module: results and block arguments get theirs, cheap operands are
 * rematerialised where they are used, and all others in another layout are converted just before their first use.
 *
 *     %m = lt %i, %n : bool[32]                 cheap; one each of
 *                                               %m = lt … : bool[32] #0      %m.1 = lt … : bool[32] #1
 *     %c = convert %v : f32[64, 32] #1          shared by all uses of %v in #1 in this block or inside it */
#include "pass/layout/assign.h"

#include <stdlib.h>

typedef struct Copy {
	Value *of, *copy;
	const Layout *layout;
} Copy;

/* An operand that has an edge: a value may have as many uses as the function has ops, and lists of edges are by value. */
typedef struct Operand {
	const Op *op;
	int index, edge;
} Operand;

typedef struct Writer {
	Assign *a;
	VEC(Copy) copies;
	Operand *operand;                               /* of all edges, in order of by_op */
} Writer;

static Value *
find_copy(const Writer *w, const Value *v, const Layout *l)
{
	return VALUE_OF(i, w->copies.n, w->copies.at[i].of == v && w->copies.at[i].layout == l,
	    w->copies.at[i].copy, NULL);
}

static Value *
add_copy(Writer *w, Value *v, const Layout *l, Value *copy)
{
	vec_push(w->a->tmp, &w->copies, ((Copy){v, copy, l}));
	return copy;
}

/* An operand may have become a copy already: what it is one of. */
static Value *
original(const Writer *w, Value *v)
{
	for (int i = 0; v->id >= w->a->f->nvalues && i < w->copies.n; i++)
		if (w->copies.at[i].copy == v)
			return w->copies.at[i].of;
	return v;
}

static Value *in_layout(Writer *w, Value *v, const Layout *l, Op *user);

/* A cheap value in layout l, computed once more behind its definition.  The first layout keeps the op. */
static Value *
rematerialise(Writer *w, Value *v, const Layout *l)
{
	Value *found = find_copy(w, v, l);
	Op *op = v->def;
	Value *in[8];
	if (found)
		return found;
	if (!v->layout) {
		v->layout = l;
		add_copy(w, v, l, v);
		const Layout *anchor = anchor_of_result(op, 0, l);
		for (int i = 0; i < op->nin; i++)
			if (value_is_placed(op->in[i]))
				op_set_in(op, i, in_layout(w, op->in[i], anchor_operand(op, anchor, i), op));
		return v;
	}
	Builder b = {.m = w->a->m, .block = op->home, .before = op->next, .place = op->place};
	const Layout *anchor = anchor_of_result(op, 0, l);
	for (int i = 0; i < op->nin; i++)
		in[i] = value_is_placed(op->in[i]) ? in_layout(w, op->in[i], anchor_operand(op, anchor, i), op) : op->in[i];
	Op *clone = op_make(&b, op->kind, in, op->nin, op->attr, op->nattr, &v->type, 1);
	clone->out[0].name = v->name;
	clone->out[0].layout = l;
	clone->out[0].id = w->a->f->nvalues;        /* beyond the notes */
	return add_copy(w, v, l, &clone->out[0]);
}

/* The op in v's own block that holds `user` or is it. */
static Op *
ancestor_in(const Value *v, Op *user)
{
	while (user->home != v->block)
		user = user->home->parent;
	return user;
}

static Value *
in_layout(Writer *w, Value *v, const Layout *l, Op *user)
{
	v = original(w, v);
	if (!l)
		l = default_layout(w->a, v->type);
	if (v->id < w->a->f->nvalues && w->a->note[v->id].cheap > 0)
		return rematerialise(w, v, l);
	if (v->layout == l)
		return v;
	Value *found = find_copy(w, v, l);
	if (found)
		return found;
	Op *before = ancestor_in(v, user);
	Builder b = {.m = w->a->m, .block = v->block, .before = before, .place = user->place};
	Value *c = build1(&b, OP_CONVERT, v, NULL);
	c->layout = l;
	c->id = w->a->f->nvalues;
	c->name = v->name;
	return add_copy(w, v, l, c);
}

static void
set_layouts(Assign *a, Block *b)
{
	for (int i = 0; i < b->narg; i++)
		if (value_is_placed(&b->arg[i]))
			b->arg[i].layout = assign_value_layout(a, &b->arg[i]);
	for (Op *op = b->first; op; op = op->next) {
		for (int i = 0; i < op->nout; i++)
			op->out[i].layout = assign_value_layout(a, &op->out[i]);
		for (int r = 0; r < op->nregion; r++)
			set_layouts(a, op->region[r]);
	}
}

/* Operands without a variable of the problem: cheap ones get a default layout, others stay. */
static void
convert_rest(Writer *w, Op *op)
{
	for (int i = 0; i < op->nin; i++) {
		Value *v = op->in[i];
		if (value_is_placed(v) && !v->layout)
			op_set_in(op, i, in_layout(w, v, NULL, op));
	}
}

/* Cheap values that nothing uses in their first layout any more. */
static void
drop_unused(Block *b)
{
	for (Op *op = b->last, *prev; op; op = prev) {
		prev = op->prev;
		for (int r = 0; r < op->nregion; r++)
			drop_unused(op->region[r]);
		if ((op_info[op->kind].traits & PURE) && !op->nregion && op->nout == 1 && op->out[0].nuses == 0)
			op_erase(op);
	}
}

/* Equal ones by the edge that was made last. */
static int
by_op(const void *x, const void *y)
{
	const Operand *a = x, *b = y;
	if (a->op != b->op)
		return (uintptr_t)a->op < (uintptr_t)b->op ? -1 : 1;
	return a->index != b->index ? a->index - b->index : b->edge - a->edge;
}

static Operand *
sorted_operands(const Assign *a)
{
	Operand *all = MAP_OF(a->tmp, Operand, k, a->edges.n, ((Operand){a->edges.at[k].op, a->edges.at[k].index, k}));
	if (a->edges.n)
		qsort(all, (size_t)a->edges.n, sizeof *all, by_op);
	return all;
}

/* What edges ask for of the operand; NULL: nothing. */
static const Layout *
required_of(const Writer *w, const Op *op, int i)
{
	const Operand key = {op, i, INT32_MAX};
	int low = 0, high = w->a->edges.n;
	while (low < high) {
		int mid = low + (high - low) / 2;
		if (by_op(&w->operand[mid], &key) < 0)
			low = mid + 1;
		else
			high = mid;
	}
	const Layout *l = NULL;
	for (; !l && low < w->a->edges.n && w->operand[low].op == op && w->operand[low].index == i; low++)
		l = assign_required(w->a, &w->a->edges.at[w->operand[low].edge]);
	return l;
}

/* In text order: a conversion for one use serves all that come later. */
static void
convert_operand(Writer *w, Op *op, int i)
{
	Value *v = op->in[i];
	if (!value_is_placed(v) || v->id >= w->a->f->nvalues)
		return;
	const Layout *l = required_of(w, op, i);
	if (l)
		op_set_in(op, i, in_layout(w, v, l, op));
}

void
assign_write(Assign *a)
{
	Writer w = {.a = a, .operand = sorted_operands(a)};
	Block *body = a->f->body;
	set_layouts(a, body);
	for (Op *op = body->first; op; op = op_after(op, body))
		for (int i = 0; i < op->nin; i++)
			convert_operand(&w, op, i);
	for (Op *op = body->first; op; op = op_after(op, body))
		if (op->nout != 1 || op->out[0].layout || a->note[op->out[0].id].cheap == 0)
			convert_rest(&w, op);
	drop_unused(body);
	func_number(a->f);
}
