/* Dead code for simplify: marks what is needed, starting from writes and effects, and sweeps the rest.
 *
 * Needs run from results to operands.  A value that a loop carries is one unit: its initial value, its
 * argument in each region, what is yielded for it, its result.  If nothing outside the unit needs it, it
 * goes, though it feeds itself from trip to trip: marking from the roots sees this, counting uses would
 * not.  A loop or branch in which nothing is needed goes whole.
 *
 *     %s, %t = for %lo, %hi, %step, %a, %b : i64, f32 do (%i: i64, %x: i64, %y: f32) {
 *         %u = add %x, %i : i64                      %t = for %lo, %hi, %step, %b : f32 do (%i: i64, %y: f32) {
 *         %v = mul %y, %c : f32               =>         %v = mul %y, %c : f32
 *         yield %u, %v                                   yield %v
 *     }                                              }                         (when only %t is used)
 *
 * Values live in arrays, so one that stays may move when its neighbour goes; `moved` maps ids to the
 * new places and every operand is rewritten in one walk. */
#include "ir/derive.h"
#include "pass/shape/simplify.h"

typedef struct Marks {
	Simplify *s;
	bool *needed;                                   /* by value id */
	Value **moved;                                  /* by value id */
	VEC(Value *) work;                              /* needed; what they need is still to be followed */
	bool changed;
} Marks;

static void
need(Marks *k, Value *v)
{
	if (k->needed[v->id])
		return;
	k->needed[v->id] = true;
	vec_push(k->s->tmp, &k->work, v);
}

static bool
is_root(const Op *op)
{
	return (op_info[op->kind].traits & (WRITES | EFFECT)) != 0;
}

static void
need_operands(Marks *k, const Op *op)
{
	for (int i = 0; i < op->nin; i++)
		need(k, op->in[i]);
}

/* What decides whether the inside of a region op runs. */
static void
need_control(Marks *k, const Op *op)
{
	if (op->kind == OP_WHILE)
		need(k, op->region[0]->last->in[0]);
	for (int i = 0; i < op->nin && i < (op->kind == OP_FOR ? 3 : op->kind == OP_IF ? 1 : 0); i++)
		need(k, op->in[i]);
	if (op->kind == OP_FOR && attr_dynamic(op))
		need(k, &op->out[0]);
}

static void
need_column(Marks *k, const Op *op, int i)
{
	Value *from, *to;

	if (!op_is_control(op)) {                       /* reduce_fn, scan_fn, merge: one whole */
		need_operands(k, op);
		need_operands(k, op->region[0]->last);
		return;
	}
	need_control(k, op);
	for (int e = 0; e < OP_EDGES; e++) {
		op_edge(op, i, e, &from, &to);
		need(k, from);
		need(k, to);
	}
}

static void
follow(Marks *k, const Value *v)
{
	const Op *op = v->def ? v->def : v->block->parent;

	if (!op)
		return;
	if (!(op_info[op->kind].traits & REGION))
		need_operands(k, op);
	else if (v->def)
		need_column(k, op, v->index);
	else if (op->kind == OP_WHILE)
		need_column(k, op, v->index);
	else if (op->kind == OP_FOR && v->index > 0)
		need_column(k, op, v->index - 1);
}

static void
mark(Marks *k)
{
	Block *body = k->s->f->body;

	for (Op *op = body->first; op; op = op_after(op, body)) {
		if (!is_root(op))
			continue;
		need_operands(k, op);
		for (const Op *up = op->home->parent; up; up = up->home->parent)
			need_control(k, up);
	}
	while (k->work.n)
		follow(k, vec_pop(&k->work));
}

/* ---- columns that go ---- */

/* Drops operand first + i of op for each result i of `of` that is not needed. */
static void
drop_operands(Marks *k, Op *op, int first, const Op *of)
{
	int n = first;

	for (int i = 0; i < of->nout; i++) {
		if (k->needed[of->out[i].id])
			op->in[n++] = op->in[first + i];
		else
			op->in[first + i]->nuses--;
	}
	op->nin = n;
}

/* The values of v[first ..] whose column is needed, in an array of their own. */
static Value *
keep_values(Marks *k, Value *v, int first, const bool *keep, int *count)
{
	Value *kept = NEW_ARRAY(k->s->m->cx->mem, Value, *count);
	int n = 0;

	for (int i = 0; i < *count; i++) {
		if (i >= first && !keep[i - first])
			continue;
		kept[n] = v[i];
		kept[n].index = n;
		k->moved[v[i].id] = &kept[n++];
	}
	*count = n;
	return kept;
}

static void
drop_uses(Marks *k, Op *op)
{
	if (op->kind != OP_IF)
		drop_operands(k, op, op->kind == OP_FOR ? 3 : 0, op);
	for (int r = 0; r < op->nregion; r++)
		drop_operands(k, op->region[r]->last, op->kind == OP_WHILE && r == 0 ? 1 : 0, op);
	k->changed = true;
}

static void
drop_values(Marks *k, Op *op)
{
	bool *keep = MAP_OF(k->s->tmp, bool, i, op->nout, k->needed[op->out[i].id]);
	for (int r = 0; r < op->nregion && op->kind != OP_IF; r++) {
		Block *b = op->region[r];
		b->arg = keep_values(k, b->arg, op->kind == OP_FOR ? 1 : 0, keep, &b->narg);
	}
	op->out = keep_values(k, op->out, 0, keep, &op->nout);
}

static void
rewrite(Marks *k)
{
	Block *body = k->s->f->body;

	for (Op *op = body->first; op; op = op_after(op, body))
		for (int i = 0; i < op->nin; i++)
			if (k->moved[op->in[i]->id])
				op->in[i] = k->moved[op->in[i]->id];
}

/* ---- ops that go ---- */

static bool
is_needed(const Marks *k, const Op *op)
{
	if (is_root(op) || (op_info[op->kind].traits & TERM))
		return true;
	return ANY_OF(i, op->nout, k->needed[op->out[i].id]) ||
	    ANY_OF(r, op->nregion, ANY_OP(in, op->region[r], is_root(in)));
}

/* For every op that stays and loses columns. */
static void
each_loser(Marks *k, Block *b, void (*act)(Marks *k, Op *op))
{
	for (Op *op = b->first; op; op = op->next) {
		if (!op->nregion || !is_needed(k, op))
			continue;
		for (int r = 0; r < op->nregion; r++)
			each_loser(k, op->region[r], act);
		if (op_is_control(op) && !ALL_OF(i, op->nout, k->needed[op->out[i].id]))
			act(k, op);
	}
}

static void
erase_dead(Marks *k, Block *b)
{
	for (Op *op = b->last, *prev; op; op = prev) {
		prev = op->prev;
		if (!is_needed(k, op)) {
			op_erase(op);
			k->changed = true;
			continue;
		}
		for (int r = 0; r < op->nregion; r++)
			erase_dead(k, op->region[r]);
	}
}

bool
simplify_sweep(Simplify *s)
{
	Marks k = {.s = s};

	func_number(s->f);
	k.needed = NEW_ARRAY(s->tmp, bool, s->f->nvalues);
	k.moved = NEW_ARRAY(s->tmp, Value *, s->f->nvalues);
	mark(&k);
	/* Uses are given up before any value moves, or a count would be left on the old copy. */
	each_loser(&k, s->f->body, drop_uses);
	each_loser(&k, s->f->body, drop_values);
	if (k.changed)
		rewrite(&k);
	erase_dead(&k, s->f->body);
	return k.changed;
}

void
sweep(Func *f)
{
	Simplify s = {.m = f->module, .tmp = f->module->cx->tmp, .f = f};

	simplify_sweep(&s);
}
