/* Sums of rows that a loop of warpgroups carries are kept apart by lane, and added across lanes behind the loop.
 *
 *     for … %total do (%a) {                              %p = select (iota == 0), (broadcast %total), 0 : f32[128, 4]
 *         %s = reduce %e {fn = "sum", axis = 1}           for … %p do (%a) {
 *         %n = add (mul %a, %fade), %s : f32[128]             %s = reduce (reduce (reshape %e : f32[128, 16, 4, 2]))
 *         yield %n                                   =>       %n = add (mul %a, (broadcast %fade)), %s : f32[128, 4]
 *     }                                                       yield %n
 *                                                         }
 *                                                         %total = reduce %n {fn = "sum", axis = 1}
 *
 * The four lanes of a row of an accumulator's layout hold its columns in turns, so that the sums by lane are sums within
 * threads: an iteration exchanges nothing for them.  What the loop begins with is the first lane's.  Sums are in another
 * order, as everywhere where threads share them. */
#include "pass/async/pipeline.h"
#include "pass/layout/anchor.h"
#include "target/target.h"

#include <string.h>

typedef struct Sums {
	Pipeline loop;
	int column;                                     /* of the carried values */
	Op *add, *mul, *reduce;                         /* mul may be NULL */
	Value *fade;
	int64_t above, lanes, below;                    /* columns as above x lanes x below */
} Sums;

static bool
is_lone_use(const Sums *s, const Value *v)
{
	return v->nuses == 1 && v->def && v->def->home == s->loop.body;
}

static bool
is_sum(const Op *op)
{
	return op->kind == OP_REDUCE && strcmp(attr_fn(op), "sum") == 0 && attr_axis(op) == 1 &&
	    op->in[0]->type->rank == 2 && op->in[0]->layout && op->out->type->elem == TY_F32;
}

/* The terms of the sum that the column becomes. */
static bool
find_terms(Sums *s, const Value *arg)
{
	for (int i = 0; i < 2; i++) {
		Value *old = s->add->in[i], *sum = s->add->in[1 - i];
		if (!is_lone_use(s, sum) || !is_sum(sum->def))
			continue;
		s->reduce = sum->def;
		if (old == arg)
			return true;
		s->mul = is_lone_use(s, old) && old->def->kind == OP_MUL ? old->def : NULL;
		for (int k = 0; k < 2 && s->mul; k++)
			if (s->mul->in[k] == arg) {
				s->fade = s->mul->in[1 - k];
				return s->fade != arg && s->fade->layout == arg->layout;
			}
	}
	return false;
}

/* The bits of a row's columns that lanes hold: one run, one lane's bit each. */
static bool
find_lanes(Sums *s)
{
	const Layout *l = s->reduce->in[0]->layout;
	int at = layout_in_at(l, IN_LANE), n = l->out[1];
	uint64_t columns = (UINT64_C(1) << n) - 1, held = 0;

	for (int i = at; i < l->map.nin; i++) {
		uint64_t image = l->map.col[i];
		if (!(image & columns))
			continue;
		if (i >= at + l->in[IN_LANE] || (image & (image - 1)) || image & held)
			return false;
		held |= image;
	}
	if (!held)
		return false;
	s->below = (int64_t)(held & -held);
	s->lanes = (int64_t)(held / (uint64_t)s->below) + 1;
	s->above = (INT64_C(1) << n) / (s->lanes * s->below);
	return (s->lanes & (s->lanes - 1)) == 0;
}

static bool
find_column(Sums *s)
{
	const Block *body = s->loop.body;
	const Value *arg = &body->arg[1 + s->column];
	Value *next = body->last->in[s->column];

	s->add = is_lone_use(s, next) && next->def->kind == OP_ADD ? next->def : NULL;
	s->mul = NULL;
	s->fade = NULL;
	return s->add && arg->nuses == 1 && arg->type->kind == TYPE_TILE && arg->type->rank == 1 && arg->layout &&
	    find_terms(s, arg) && s->reduce->out->layout == arg->layout && find_lanes(s);
}

/* ---- the new column ---- */

static Value *
placed(Value *v, const Layout *l)
{
	v->layout = l;
	return v;
}

static Value *
reshaped(Builder *b, Value *v, const int64_t *extent, int rank)
{
	int shape[LAYOUT_RANK] = {0};
	const Type *t = type_tile(b->m, v->type->elem, rank, extent);
	for (int d = 0; d < rank; d++)
		shape[d] = log2_ceil(extent[d]);
	Layout l = layout_reshape(v->layout, rank, shape);
	return placed(build1(b, OP_RESHAPE, v, t), layout_intern(b->m, &l));
}

static Value *
summed(Builder *b, Value *v, int axis)
{
	const Attr attr[] = {attr_new_fn(b->m, "sum"), attr_new_axis(b->m, axis)};
	Op *op = op_make(b, OP_REDUCE, &v, 1, attr, LEN(attr), NULL, 0);
	Layout l = layout_slice(v->layout, axis);
	l = layout_drop_broadcast(&l);
	return placed(op->out, layout_intern(b->m, &l));
}

/* A row's number for each of its lanes. */
static Value *
spread(Builder *b, Value *v, const Value *like)
{
	Value *column = reshaped(b, v, (int64_t[]){v->type->extent[0], 1}, 2);
	return placed(build1(b, OP_BROADCAST, column, like->type), like->layout);
}

static Value *
first_lane(Sums *s, Builder *b, Value *init, const Value *like)
{
	const Type *t = type_tile(b->m, TY_I64, 1, &s->lanes);
	const Attr axis = attr_new_axis(b->m, 0);
	Layout row = layout_slice(like->layout, 0), one;
	row = layout_drop_broadcast(&row);
	one = layout_expand(&row, 0);
	Value *lane = placed(op_make(b, OP_IOTA, NULL, 0, &axis, 1, &t, 1)->out, layout_intern(b->m, &row));
	Value *zero = placed(build_int(b, t, 0), lane->layout);
	Value *first = placed(build2(b, OP_EQ, lane, zero), lane->layout);
	const Type *wide = type_tile(b->m, TY_BOOL, 2, (int64_t[]){1, s->lanes});
	first = placed(build1(b, OP_RESHAPE, first, wide), layout_intern(b->m, &one));
	wide = type_tile(b->m, TY_BOOL, 2, like->type->extent);
	first = placed(build1(b, OP_BROADCAST, first, wide), like->layout);
	Value *none = placed(build_float(b, like->type, 0), like->layout);
	return placed(build3(b, OP_SELECT, first, spread(b, init, like), none), like->layout);
}

static void
keep_apart(Sums *s)
{
	Pipeline *p = &s->loop;
	Builder b = build_before(s->reduce), before = build_before(p->loop);
	const int64_t extent[] = {s->reduce->in[0]->type->extent[0], s->above, s->lanes, s->below};
	Value *part = summed(&b, summed(&b, reshaped(&b, s->reduce->in[0], extent, 4), 3), 1);
	Value *init = first_lane(s, &before, p->loop->in[3 + s->column], part);
	Value *arg = pipeline_carry(p, &init, 1);

	arg->name = p->body->arg[1 + s->column].name;
	b = build_before(s->add);
	Value *old = s->fade ? placed(build2(&b, OP_MUL, arg, spread(&b, s->fade, arg)), arg->layout) : arg;
	Value *next = placed(build2(&b, OP_ADD, old, part), arg->layout);
	pipeline_yield(p, &next, 1);
	b = build_before(p->loop->next);
	value_replace(&p->loop->out[s->column], summed(&b, &p->loop->out[p->loop->nout - 1], 1));
	op_set_in(p->body->last, s->column, &p->body->arg[1 + s->column]);
}

static bool
has_product(const Block *b)
{
	for (const Op *op = b->first; op; op = op->next)
		if (op->kind == OP_DOT_START)
			return true;
	return false;
}

/* The loop, or what took its place. */
static Op *
visit(Module *m, Func *f, Op *loop, bool *changed)
{
	Sums s = {.loop = {.m = m, .tmp = m->cx->tmp, .f = f, .loop = loop, .body = loop->region[0]}};
	int n = loop->nout;

	for (s.column = 0; s.column < n; s.column++)
		if (find_column(&s)) {
			keep_apart(&s);
			*changed = true;
		}
	return s.loop.loop;
}

void
pass_sums(Module *m, const Target *t)
{
	for (int i = 0; i < m->funcs.n && t && t->has & HAS_WGMMA; i++) {
		Func *f = m->funcs.at[i];
		bool changed = false;
		if (f->is_reference)
			continue;
		for (Op *op = f->body->first; op; op = op_after(op, f->body))
			if (op->kind == OP_FOR && has_product(op->region[0]))
				op = visit(m, f, op, &changed);
		if (changed)
			sweep(f);
	}
}
