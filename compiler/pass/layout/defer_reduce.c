/* Sums, maxima and minima of tiles that a loop carries are kept apart by lane, and joined across lanes and warps behind the
 * loop.
 *
 *     for … %init do (%a: f32) {                          for … %zeros do (%p: f32[128]) {
 *         %s = reduce %e {fn = "sum", axis = 0}               %s = reduce (reduce (reshape %e : f32[2, 128, 8]))
 *         %n = add %a, %s : f32                               %n = add %p, %s : f32[128]
 *         yield %n                                   =>       yield %n
 *     }                                                   }
 *                                                         %t = reduce %n {fn = "sum", axis = 0}
 *                                                         %total = add %init, %t
 *
 * The elements that a lane holds are reduced in its thread: an iteration exchanges nothing, and waits for no other warp.
 * A sum that fades, as that of an online softmax, begins in the first lane:
 *
 *     for … %total do (%a) {                              %p = select (iota == 0), (broadcast %total), 0 : f32[128, 4]
 *         %s = reduce %e {fn = "sum", axis = 1}           for … %p do (%a) {
 *         %n = add (mul %a, %fade), %s : f32[128]             %s = reduce (reduce (reshape %e : f32[128, 16, 4, 2]))
 *         yield %n                                   =>       %n = add (mul %a, (broadcast %fade)), %s : f32[128, 4]
 *     }                                                       yield %n
 *                                                         }
 *                                                         %total = reduce %n {fn = "sum", axis = 1}
 *
 * Maxima begin in all lanes.  Between a sum and the carried value there may be factors and sums along other axes, as of
 * weights with a scale for each group of K; they apply to what each lane has (finite factors: 0 * inf is no number):
 *
 *     %s = reduce %e {fn = "sum", axis = 2}               %s = reduce (reduce (reshape %e : f32[8, 16, 1, 16, 2]))
 *     %n = add %a, (mul %s, %scale) : f32[8, 16]    =>    %n = add %a, (mul %s, (broadcast %scale)) : f32[8, 16, 16]
 *
 * Sums are in another order, as everywhere where threads share them.  Loops with products that
 * warps make by themselves stay as they are: lanes are few there, and registers too. */
#include "ir/derive.h"
#include "pass/async/pipeline.h"
#include "pass/layout/assign.h"
#include "target/target.h"

#include <string.h>

enum { BETWEEN_MOST = 6 };

typedef struct Sums {
	Pipeline loop;
	int column;                                     /* of the carried values */
	Op *add, *mul, *reduce;                         /* mul may be NULL */
	Op *between[BETWEEN_MOST];                      /* from the add on, what stands between it and the reduce */
	int nbetween, axis;                             /* axis: of the carried value's lanes */
	Value *fade;
	int64_t above, lanes, below;                    /* the axis as above x lanes x below */
} Sums;

static bool find_lanes(Sums *s);

static bool
is_lone_use(const Sums *s, const Value *v)
{
	return v->nuses == 1 && v->def && v->def->home == s->loop.body;
}

static bool
is_reduce(const Op *op, const char *fn)
{
	const Value *v = op->in[0];
	return op->kind == OP_REDUCE && strcmp(attr_fn(op), fn) == 0 && v->layout && v->type->rank + 2 <= LAYOUT_RANK &&
	    v->type->elem == op->out->type->elem && dtype_info[v->type->elem].bits >= 32;
}

/* Does the op join what the reduction joins? */
static bool
joins_alike(const Op *op, const Op *reduce)
{
	if (op->kind == OP_ADD)
		return is_reduce(reduce, "sum");
	return (op->kind == OP_MAX && is_reduce(reduce, "max") && attr_propagate_nan(op) == attr_propagate_nan(reduce)) ||
	    (op->kind == OP_MIN && is_reduce(reduce, "min") && attr_propagate_nan(op) == attr_propagate_nan(reduce));
}

/* A conversion that leaves a thread few of the elements that it has would leave it all of them in the loop. */
static bool
keeps_few(const Op *convert)
{
	enum { MORE = 3 };                              /* log2 */
	const Layout *from = convert->in[0]->layout, *to = convert->out->layout;
	return from && to && from->in[IN_REGISTER] <= to->in[IN_REGISTER] + MORE;
}

/* The innermost reduction of lanes that v is made of by factors, conversions and other reductions. */
static bool
find_reduce(Sums *s, Value *v, int n)
{
	Op *op = v->def;
	if (!is_lone_use(s, v) || n == BETWEEN_MOST)
		return false;
	s->between[n] = op;
	bool scales = op->kind == OP_MUL && s->add->kind == OP_ADD && dtype_is_float(v->type->elem);
	bool reduces = op->kind == OP_REDUCE && joins_alike(s->add, op);
	bool converts = op->kind == OP_CONVERT && keeps_few(op);
	for (int i = 0; i < (scales ? 2 : reduces || converts); i++)
		if (find_reduce(s, op->in[i], n + 1))
			return true;
	s->reduce = op;
	s->nbetween = n;
	return reduces && find_lanes(s);
}

/* What the column is joined with. */
static bool
find_terms(Sums *s, const Value *arg)
{
	for (int i = 0; i < 2; i++) {
		Value *old = s->add->in[i], *sum = s->add->in[1 - i];
		if (!find_reduce(s, sum, 0))
			continue;
		if (old == arg)
			return true;
		s->mul = s->add->kind == OP_ADD && is_lone_use(s, old) && old->def->kind == OP_MUL ? old->def : NULL;
		for (int k = 0; k < 2 && s->mul; k++)
			if (s->mul->in[k] == arg) {
				s->fade = s->mul->in[1 - k];
				return s->fade != arg && s->fade->layout == arg->layout && dtype_is_float(arg->type->elem);
			}
	}
	return false;
}

/* The bits of the axis that lanes and warps hold: one run, one bit each. */
static bool
find_lanes(Sums *s)
{
	const Layout *l = s->reduce->in[0]->layout;
	int axis = (int)attr_axis(s->reduce), at = layout_in_at(l, IN_LANE), low = layout_out_at(l, axis), n = l->out[axis];
	uint64_t whole = ((UINT64_C(1) << n) - 1) << low, held = 0;

	for (int i = at; i < l->map.nin; i++) {
		uint64_t image = l->map.col[i];
		if (!(image & whole))
			continue;
		if (i >= at + l->in[IN_LANE] + l->in[IN_WARP] || (image & (image - 1)) || image & held)
			return false;
		held |= image;
	}
	held >>= low;
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

	s->add = is_lone_use(s, next) ? next->def : NULL;
	s->mul = NULL;
	s->fade = NULL;
	return s->add && arg->nuses == 1 && arg->type->kind == TYPE_TILE && (arg->layout || arg->type->rank == 0) &&
	    (s->add->kind == OP_ADD || s->add->kind == OP_MAX || s->add->kind == OP_MIN) && find_terms(s, arg) &&
	    s->add->out->layout == arg->layout;
}

/* ---- the new column ---- */

static Value *
reshaped(Builder *b, Value *v, const int64_t *extent, int rank)
{
	int shape[LAYOUT_RANK] = {0};
	const Type *t = type_tile(b->m, v->type->elem, rank, extent);
	for (int d = 0; d < rank; d++)
		shape[d] = log2_ceil(extent[d]);
	Layout l = layout_reshape(v->layout, rank, shape);
	return value_with_layout(build1(b, OP_RESHAPE, v, t), layout_intern(b->m, &l));
}

static Value *
reduced(const Sums *s, Builder *b, Value *v, int axis)
{
	if (v->type->extent[axis] == 1) {
		int64_t extent[LAYOUT_RANK];
		for (int d = 0; d < v->type->rank - 1; d++)
			extent[d] = v->type->extent[d + (d >= axis)];
		return reshaped(b, v, extent, v->type->rank - 1);
	}
	Attr attr[8];
	for (int i = 0; i < s->reduce->nattr; i++)
		attr[i] = s->reduce->attr[i].name == ATTR_AXIS ? attr_new_axis(b->m, axis) : s->reduce->attr[i];
	Op *op = op_make(b, OP_REDUCE, &v, 1, attr, s->reduce->nattr, NULL, 0);
	Layout l = layout_slice(v->layout, axis);
	l = layout_drop_broadcast(&l);
	return v->type->rank == 1 ? op->out : value_with_layout(op->out, layout_intern(b->m, &l));
}

static Value *
converted(Builder *b, Value *v, const Layout *l)
{
	return v->type->rank == 0 || v->layout == l ? v : value_with_layout(build1(b, OP_CONVERT, v, NULL), l);
}

/* A row's number for each of its lanes. */
static Value *
spread(Builder *b, Value *v, const Value *like, int axis)
{
	if (v->type->rank > 0) {
		int64_t extent[LAYOUT_RANK];
		for (int d = 0; d < like->type->rank; d++)
			extent[d] = d == axis ? 1 : like->type->extent[d];
		Layout l = layout_slice(like->layout, axis);
		l = layout_drop_broadcast(&l);
		v = layout_equal(&l, v->layout) ? v : converted(b, v, layout_intern(b->m, &l));
		v = reshaped(b, v, extent, like->type->rank);
	}
	return value_with_layout(build1(b, OP_BROADCAST, v, like->type), like->layout);
}

/* The number in the first lane, in the others -0.0, which changes no sum. */
static Value *
first_lane(const Sums *s, Builder *b, Value *init, const Value *like)
{
	const Type *number = type_tile(b->m, TY_I64, like->type->rank, like->type->extent);
	Value *lane = value_with_layout(build_iota(b, number, s->axis), like->layout);
	Value *zero = value_with_layout(build_int(b, number, 0), like->layout);
	Value *first = value_with_layout(build2(b, OP_EQ, lane, zero), like->layout);
	Value *none = value_with_layout(build_identity(b, like->type, OP_ADD, false), like->layout);
	return value_with_layout(build3(b, OP_SELECT, first, spread(b, init, like, s->axis), none), like->layout);
}

static Value *
begin(const Sums *s, Builder *b, Value *init, const Value *like)
{
	if (s->fade)
		return first_lane(s, b, init, like);
	if (s->add->kind != OP_ADD)
		return spread(b, init, like, s->axis);
	return value_with_layout(build_identity(b, like->type, OP_ADD, false), like->layout);
}

/* The tile with its axis in three. */
static Value *
parted(const Sums *s, Builder *b)
{
	Value *v = s->reduce->in[0];
	int axis = (int)attr_axis(s->reduce), rank = 0;
	int64_t extent[LAYOUT_RANK];
	for (int d = 0; d < v->type->rank; d++) {
		if (d != axis) {
			extent[rank++] = v->type->extent[d];
			continue;
		}
		extent[rank++] = s->above;
		extent[rank++] = s->lanes;
		extent[rank++] = s->below;
	}
	return reshaped(b, v, extent, rank);
}

static Value *
joined(const Sums *s, Builder *b, Value *x, Value *y)
{
	Op *op = op_make(b, s->add->kind, (Value *[]){x, y}, 2, s->add->attr, s->add->nattr, NULL, 0);
	return value_with_layout(op->out, x->layout);
}

/* What each lane has of the reduction; sets the axis of lanes. */
static Value *
reduced_in_lanes(Sums *s, Builder *b)
{
	s->axis = (int)attr_axis(s->reduce);
	return reduced(s, b, reduced(s, b, parted(s, b), s->axis + 2), s->axis);
}

Value *
defer_part(Builder *b, Op *reduce)
{
	Sums s = {.reduce = reduce};
	if (!is_reduce(reduce, attr_fn(reduce)) || !find_lanes(&s))
		return NULL;
	return s.above * s.below == 1 ? reduce->in[0] : reduced_in_lanes(&s, b);
}

/* What the loop adds, of each lane. */
static Value *
lane_part(Sums *s)
{
	Builder b = build_before(s->reduce);
	Value *part = reduced_in_lanes(s, &b);
	for (int i = s->nbetween; i-- > 0;) {
		Op *op = s->between[i];
		b = build_before(op);
		const Value *inner = (i + 1 < s->nbetween ? s->between[i + 1] : s->reduce)->out;
		if (op->kind == OP_MUL) {
			Value *factor = spread(&b, op->in[op->in[0] == inner], part, s->axis);
			part = value_with_layout(build2(&b, OP_MUL, part, factor), part->layout);
		} else if (op->kind == OP_REDUCE) {
			int axis = (int)attr_axis(op);
			part = reduced(s, &b, part, axis + (axis >= s->axis));
			s->axis -= axis < s->axis;
		}
	}
	return part;
}

static void
keep_apart(Sums *s)
{
	Pipeline *p = &s->loop;
	Builder b = build_before(s->reduce), before = build_before(p->loop);
	const Builder at = b;
	Value *part = lane_part(s), *init = p->loop->in[3 + s->column];
	Value *mine = begin(s, &before, init, part);
	Value *arg = pipeline_carry(p, &mine, 1);

	arg->name = p->body->arg[1 + s->column].name;
	b = build_before(s->add);
	Value *old = !s->fade ? arg
	    : value_with_layout(build2(&b, OP_MUL, arg, spread(&b, s->fade, arg, s->axis)), arg->layout);
	Value *next = joined(s, &b, old, part);
	pipeline_yield(p, &next, 1);
	b = build_before(p->loop->next);
	b.place = at.place;
	b.call = at.call;
	Value *total = converted(&b, reduced(s, &b, &p->loop->out[p->loop->nout - 1], s->axis), init->layout);
	if (!s->fade && s->add->kind == OP_ADD)
		total = joined(s, &b, init, total);
	value_replace(&p->loop->out[s->column], total);
	op_set_in(p->body->last, s->column, &p->body->arg[1 + s->column]);
}

/* Has the loop products that warps make by themselves? */
static bool
multiplies(const Op *loop)
{
	bool starts = false, waits = false;
	for (const Op *op = loop->region[0]->first; op; op = op_after(op, loop->region[0])) {
		starts |= op_family(op) == FAMILY_DOT;
		waits |= op->kind == OP_DOT_START && op->home == loop->region[0];
	}
	return starts && !waits;
}

static bool
leaves_loop(const Op *reduce)
{
	const Block *body = reduce->home;
	const Op *op = value_lone_user(reduce->out), *from = reduce;
	if (!body->parent || body->parent->kind != OP_FOR || multiplies(body->parent))
		return false;
	while (op && (op->kind == OP_MUL || (op->kind == OP_REDUCE && strcmp(attr_fn(op), attr_fn(reduce)) == 0))) {
		from = op;
		op = value_lone_user(op->out);
	}
	if (!op || (op->kind != OP_ADD && op->kind != OP_MAX && op->kind != OP_MIN))
		return false;
	const Value *old = op->in[op->in[0] == from->out];
	const Op *next = value_lone_user(op->out);
	return next && next == body->last && (ANY_OF(i, body->narg, &body->arg[i] == old) ||
	    (old->def && old->def->kind == OP_MUL && ANY_OF(i, body->narg, &body->arg[i] == old->def->in[0])));
}

bool
defer_serves(const Op *op)
{
	if (op->kind == OP_REDUCE)
		return leaves_loop(op);
	if (op->kind != OP_MUL && op->kind != OP_ADD && op->kind != OP_MAX && op->kind != OP_MIN)
		return false;
	for (int i = 0; i < op->nin; i++) {
		const Value *v = op->in[i];
		bool made = v->nuses == 1 && v->def && v->def->home == op->home;
		if (made && (v->def->kind == OP_REDUCE || v->def->kind == OP_MUL) && defer_serves(v->def))
			return true;
	}
	return false;
}

/* The loop, or what took its place. */
static Op *
visit(Module *m, Func *f, Op *loop, bool *changed)
{
	Sums s = {.loop = {.m = m, .tmp = m->cx->tmp, .f = f, .loop = loop, .body = loop->region[0]}};
	for (s.column = 0; s.column < s.loop.loop->nout; s.column++)
		if (find_column(&s)) {
			keep_apart(&s);
			*changed = true;
		}
	return s.loop.loop;
}

/* Loops within come first: what they leave is a sum that the loop around carries. */
static void
walk(Module *m, Func *f, Block *b, bool *changed)
{
	for (Op *op = b->first; op; op = op->next) {
		for (int r = 0; r < op->nregion; r++)
			walk(m, f, op->region[r], changed);
		if (op->kind == OP_FOR && !multiplies(op))
			op = visit(m, f, op, changed);
	}
}

void
pass_defer_reduce(Func *f, const Target *t)
{
	bool changed = false;
	walk(f->module, f, f->body, &changed);
	if (changed)
		sweep(f);
}
