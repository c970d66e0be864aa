/* Loops whose steps are only a way to cut what they go over: how many elements a trip takes changes nothing but rounding.
 *
 *     for %t in (%0, %L, 64) with %m, %l, %a {                        keys of attention
 *         %x = …                                                     scores of columns %t to %t + 63
 *         %n = max %m, (reduce max %x)
 *         %p = exp (%x - %n),  %f = exp (%m - %n)
 *         yield %n, %l * %f + (reduce sum %p), %a * %f + (dot %p, %v)
 *     }
 *
 * Two trips come to what one of both their elements does.  That holds of these variables, where `own` is computed of each
 * of the trip's elements for itself:
 *
 *     greatest        max(it, greatest of own)                        min and the least alike
 *     place           select(greatest of own > it, argmax of own + the trip's start, place)
 *     sum             it + sum of own + …                             a product whose K the step cuts is a sum, too
 *     greatest few    choose_tile_top.c
 *     scaled sum      it * exp(D(m, n)) + sum of own * exp(D(own, n)),  m a greatest before the trip, n behind it
 *
 * with D(u, v) = c * (g(u) - g(v)), so that factors of two trips multiply to one of both.  A guard against n = -inf (no
 * element was seen) may stand in for n.  Elements that a longer trip has behind the loop's end must be ones that leave all
 * as it is (choose_tile_end.c). */
#include "compile/choose/tile/choose_tile_linear.h"
#include "ir/derive.h"

#include <math.h>
#include <string.h>


typedef struct Join {
	const Pair *x;
	const Op *loop;
	const Block *body;
	bool *late;                                     /* by the value's id: it is no trip's element's own */
} Join;

/* exp(factor * (u / 1 - n * inner)): of which variable n is the greatest, and numbers beside; NULL: 1. */
typedef struct Weight {
	OpKind exp;
	int greatest;
	const Value *factor, *inner;
} Weight;

static bool
is_late(const Join *j, const Value *v)
{
	return value_inside(v, j->body) && j->late[v->id];
}

/* Does the op add up, or find the greatest of, what the step cuts? */
static bool
takes_all(const Join *j, const Op *op)
{
	bool along = op->kind == OP_REDUCE || op->kind == OP_TOPK;
	int axis = along ? (int)attr_axis(op) : op->kind == OP_DOT ? op->in[0]->type->rank - 1 : -1;
	return axis >= 0 && tile_part(j->x, op->in[0])->axis[axis] == AXIS_STEP;
}

static void
mark_late(Join *j)
{
	for (int i = 1; i < j->body->narg; i++)
		j->late[j->body->arg[i].id] = true;
	for (const Op *op = j->body->first; op; op = op->next) {
		bool late = takes_all(j, op) || ANY_OF(i, op->nin, is_late(j, op->in[i]));
		op_extend_slice(op, j->late, late);
	}
}

static const Value *
unspread(const Value *v)
{
	while (v->def && (v->def->kind == OP_BROADCAST || v->def->kind == OP_RESHAPE || v->def->kind == OP_CAST))
		v = v->def->in[0];
	return v;
}

static bool
is_minus_infinity(const Value *v)
{
	const Attr *c = value_const(unspread(v));
	return c && c->kind == KIND_FLOAT && c->f == -INFINITY;
}

/* Is v the reduction by that function of what the step cuts? */
static bool
is_reduced(const Join *j, const Value *v, const char *fn)
{
	const Op *op = unspread(v)->def;
	return op && op->kind == OP_REDUCE && strcmp(attr_fn(op), fn) == 0 && takes_all(j, op);
}

/* v without factors that the loop does not carry; the last of them. */
static const Value *
unscaled(const Join *j, const Value *v, const Value **factor)
{
	for (;;) {
		const Op *op = unspread(v)->def;
		v = unspread(v);
		if (!op || op->kind != OP_MUL || is_late(j, op->in[0]) == is_late(j, op->in[1]) || *factor)
			return v;
		int late = is_late(j, op->in[1]);
		*factor = unspread(op->in[1 - late]);
		v = op->in[late];
	}
}

/* v, or what stands in for it where it is -inf. */
static const Value *
unguarded(const Value *v)
{
	const Op *op = unspread(v)->def;
	const Op *test = op && op->kind == OP_SELECT ? unspread(op->in[0])->def : NULL;
	if (!test || (test->kind != OP_EQ && test->kind != OP_NE && test->kind != OP_GT))
		return unspread(v);
	const Value *kept = unspread(op->in[test->kind == OP_EQ ? 2 : 1]), *tested = unspread(test->in[0]);
	bool is_guard = is_minus_infinity(test->in[1]) &&
	    (kept == tested || is_minus_infinity(op->in[test->kind == OP_EQ ? 1 : 2]));
	return is_guard ? kept : unspread(v);
}

static int
carried_index(const Join *j, const Value *v, bool behind)
{
	for (int i = 1; i < j->body->narg; i++)
		if (unspread(behind ? j->body->last->in[i - 1] : &j->body->arg[i]) == v)
			return i;
	return 0;
}

/* y = max(it, greatest of own), or of OP_MIN and the least. */
static bool
is_extreme(const Join *j, int i, OpKind kind)
{
	const Op *op = j->body->last->in[i - 1]->def;
	for (int k = 0; k < 2 && op && op->kind == kind; k++)
		if (op->in[k] == &j->body->arg[i])
			return is_reduced(j, op->in[1 - k], kind == OP_MAX ? "max" : "min") &&
			    !is_late(j, unspread(op->in[1 - k])->def->in[0]);
	return false;
}

/* The exponential of a difference from a greatest; `own`: of what the trip computes alone, else of the greatest before. */
static bool
find_weight(const Join *j, const Value *v, bool own, Weight *out)
{
	const Op *exp = unspread(v)->def;
	*out = (Weight){0};
	if (!exp || (exp->kind != OP_EXP && exp->kind != OP_EXP2))
		return false;
	out->exp = exp->kind;
	const Value *x = unguarded(unscaled(j, exp->in[0], &out->factor));
	const Op *sub = x->def;
	if (!sub || sub->kind != OP_SUB)
		return false;
	const Value *n = unguarded(unscaled(j, unguarded(sub->in[1]), &out->inner)), *inner = NULL;
	out->greatest = carried_index(j, n, true);
	if (!out->greatest || !is_extreme(j, out->greatest, OP_MAX))
		return false;
	if (own)
		return !is_late(j, sub->in[0]);
	const Value *m = unguarded(unscaled(j, unguarded(sub->in[0]), &inner));
	return carried_index(j, m, false) == out->greatest && inner == out->inner;
}

static bool
is_same(const Weight *a, const Weight *b)
{
	return a->exp == b->exp && a->greatest == b->greatest && a->factor == b->factor && a->inner == b->inner;
}

/* A product of what is own and, with a weight, of one exponential of own; or 0 by a mask that is own. */
static bool
is_summand(const Join *j, const Value *v, const Weight *w, int depth)
{
	const Op *op = unspread(v)->def;
	Weight has;
	if (!is_late(j, v))
		return !w;
	if (!w || !op || depth == DEEP)
		return false;
	if (op->kind == OP_EXP || op->kind == OP_EXP2)
		return find_weight(j, &op->out[0], true, &has) && is_same(&has, w);
	if (op->kind == OP_SELECT) {
		const Attr *zero = value_const(unspread(op->in[2]));
		return !is_late(j, op->in[0]) && zero && zero->kind == KIND_FLOAT && zero->f == 0 &&
		    is_summand(j, op->in[1], w, depth + 1);
	}
	for (int k = 0; k < 2 && op->kind == OP_MUL; k++)
		if (!is_late(j, op->in[1 - k]))
			return is_summand(j, op->in[k], w, depth + 1);
	return false;
}

/* A product whose K the step cuts adds to its accumulator the sum of own by weights. */
static bool
is_product(const Join *j, const Op *op, const Weight *w)
{
	return takes_all(j, op) && !is_late(j, op->in[1]) && is_summand(j, op->in[0], w, 0);
}

/* The sum over the trip's elements, of own by weights; or of several such, of either sign. */
static bool
is_sum(const Join *j, const Value *v, const Weight *w, int depth)
{
	const Op *op = unspread(v)->def;
	if (!op || depth == DEEP)
		return false;
	if (op->kind == OP_ADD || op->kind == OP_SUB)
		return is_sum(j, op->in[0], w, depth + 1) && is_sum(j, op->in[1], w, depth + 1);
	if (op->kind == OP_DOT)
		return value_is_zero(unspread(op->in[2])) && is_product(j, op, w);
	return is_reduced(j, v, "sum") && is_summand(j, op->in[0], w, 0);
}

/* it, or it * exp(D(m, n)); true of the latter with the weight. */
static bool
is_kept(const Join *j, const Value *v, int i, Weight *w, bool *scaled)
{
	const Op *op = v->def;
	const Value *it = &j->body->arg[i];
	*scaled = false;
	if (v == it)
		return true;
	for (int k = 0; k < 2 && op && op->kind == OP_MUL; k++)
		if (op->in[k] == it) {
			*scaled = true;
			return find_weight(j, op->in[1 - k], false, w);
		}
	return false;
}

/* What is kept and sums, in any order. */
static bool
is_kept_and_more(const Join *j, const Value *v, int i, Weight *w, bool *scaled, int depth)
{
	const Op *op = v->def;
	if (is_kept(j, v, i, w, scaled))
		return true;
	if (!op || depth == DEEP || op->home != j->body)
		return false;
	if (op->kind == OP_DOT)
		return is_kept_and_more(j, op->in[2], i, w, scaled, depth + 1) && is_product(j, op, *scaled ? w : NULL);
	for (int k = 0; k < 2; k++)
		if ((op->kind == OP_ADD || (op->kind == OP_SUB && k == 0)) &&
		    is_kept_and_more(j, op->in[k], i, w, scaled, depth + 1))
			return is_sum(j, op->in[1 - k], *scaled ? w : NULL, 0);
	return false;
}

static bool
is_added(const Join *j, int i)
{
	const Value *v = j->body->last->in[i - 1];
	bool scaled;
	Weight w;
	return v->def && v->def->kind != OP_MUL && is_kept_and_more(j, v, i, &w, &scaled, 0);
}

/* Of a loop in a loop, whose trips add to what the ones before it have: the outer one's variable. */
static int
outer_index(const Join *j, int i)
{
	const Op *outer = j->loop->home->parent;
	const Value *init = j->loop->in[2 + i], *out = &j->loop->out[i - 1];
	bool is_carried = outer && outer->kind == OP_FOR && !init->def && init->block == outer->region[0] &&
	    init->index > 0;
	return is_carried && init->nuses == 1 && out->nuses == 1 && j->loop->home->last->in[init->index - 1] == out
	    ? init->index : 0;
}

/* Of elements of the step, which only what is behind the loop brings together: y = it + own, 0 before, and only summed up
 * behind; or the greatest, or least, of any one number and own. */
static bool
is_folded(const Join *j, int i)
{
	const Op *op = j->body->last->in[i - 1]->def;
	const Value *out = &j->loop->out[i - 1], *it = &j->body->arg[i], *init = j->loop->in[2 + i];
	int outer = outer_index(j, i);
	if (outer) {
		init = j->loop->home->parent->in[2 + outer];
		out = &j->loop->home->parent->out[outer - 1];
	}
	OpKind kind = op ? op->kind : OP_CONST;
	const char *fn = kind == OP_ADD ? "sum" : kind == OP_MAX ? "max" : kind == OP_MIN ? "min" : NULL;
	if (j->x->multiplies || !fn || out->type->rank != 1 || tile_part(j->x, it)->axis[0] != AXIS_STEP ||
	    !value_const(init) || (kind == OP_ADD && !value_is_zero(init)))
		return false;
	bool own = (op->in[0] == it && !is_late(j, op->in[1])) || (op->in[1] == it && !is_late(j, op->in[0]));
	return own && !ANY_OP(use, j->x->f->body, ANY_OF(k, use->nin, use->in[k] == out) &&
	    (use->kind != OP_REDUCE || strcmp(attr_fn(use), fn) != 0));
}

/* What came with the greatest: select(greatest of own > it, place of that, what came with it), the place counted from where
 * the trip begins (tile_is_place).  Of equals the first one stays, of one trip and of two. */
static bool
is_place(const Join *j, int i)
{
	const Op *op = j->body->last->in[i - 1]->def, *test = op && op->kind == OP_SELECT ? op->in[0]->def : NULL;
	if (!test || (test->kind != OP_GT && test->kind != OP_LT) || op->in[2] != &j->body->arg[i])
		return false;
	for (int side = 0; side < 2; side++) {
		int key = carried_index(j, test->in[1 - side], false);
		bool is_max = (test->kind == OP_GT) == (side == 0);
		const Op *of = test->in[side]->def, *next = key ? j->body->last->in[key - 1]->def : NULL;
		const Value *place = tile_place(j->x, op->in[1]);
		if (place && next && is_extreme(j, key, is_max ? OP_MAX : OP_MIN) && of &&
		    (next->in[0] == test->in[side] || next->in[1] == test->in[side]) && place->def->in[0] == of->in[0] &&
		    attr_axis(place->def) == attr_axis(of) &&
		    strcmp(attr_fn(place->def), is_max ? "argmax" : "argmin") == 0)
			return true;
	}
	return false;
}

/* ---- rows ---- */

/* Does v follow from a product of the loop? */
static bool
is_multiplied(const Value *v, const Block *body, int depth)
{
	const Op *op = v->def;
	if (!op || op->home != body)
		return false;
	return op->kind == OP_DOT || depth == DEEP ||
	    ANY_OF(i, op->nin, is_multiplied(op->in[i], body, depth + 1));
}

/* Does the op leave rows, a tile's first dimension, apart?  In the loop products do, and of what follows from them what the
 * step cuts alone is reduced. */
static bool
keeps_rows(const Pair *x, const Op *op, const Block *body)
{
	bool inside = op->home == body;
	if (op_has(op, ELEM) || op->nregion > 0 || op->kind == OP_YIELD || op->kind == OP_WRITE || op->nin == 0)
		return true;
	switch (op->kind) {
	case OP_READ: case OP_BROADCAST: case OP_PERMUTE:
		return true;
	case OP_RESHAPE:
		return op->in[0]->type->rank <= 1 || op->out[0].type->extent[0] == op->in[0]->type->extent[0];
	case OP_DOT:
		return inside;
	case OP_REDUCE:
		if (!inside)
			return attr_axis(op) > 0;
		return tile_part(x, op->in[0])->axis[attr_axis(op)] == AXIS_STEP || !is_multiplied(op->in[0], body, 0);
	default:
		return false;
	}
}

/* The rows of what is written, where all writes have the same: from `row` on, of a dimension that has `rows`. */
static void
find_rows(Pair *x, const Op *loop)
{
	const Value *row = NULL, *rows = NULL;
	for (const Op *op = x->f->body->first; op; op = op_after(op, x->f->body)) {
		if (!keeps_rows(x, op, loop->region[0]))
			return;
		if (op->kind != OP_WRITE)
			continue;
		const char *index = attr_index(op), *first = strchr(index, 'p');
		int i = (int)(first - index), dim = first ? x->f->param[op->in[0]->index].dim[i] : -1;
		if (dim < 0 || access_merged(op, i) || (row && (row != op->in[1 + i] || rows != &x->f->body->arg[dim])))
			return;
		row = op->in[1 + i];
		rows = &x->f->body->arg[dim];
	}
	x->row = row;
	x->rows = rows;
}

bool
tile_trips_join(Pair *x, const Op *loop)
{
	Join j = {.x = x, .loop = loop, .body = loop->region[0]};
	j.late = NEW_ARRAY(x->mem, bool, MAX(x->f->nvalues, 1));
	mark_late(&j);
	for (int i = 1; i < j.body->narg; i++)
		if (j.body->last->in[i - 1] != &j.body->arg[i] && !is_extreme(&j, i, OP_MAX) &&
		    !is_extreme(&j, i, OP_MIN) && !is_added(&j, i) && !is_folded(&j, i) && !is_place(&j, i) &&
		    !tile_keeps_top(x, loop, i, j.late))
			return false;
	if (j.body->narg <= 1)                          /* it writes its elements (tile_visit_loop_write) */
		return !ANY_OP(op, j.body, op->nout > 0 && j.late[op->out[0].id]);
	if (ANY_OP(op, j.body, op->kind == OP_WRITE && ANY_OF(i, op->nin, is_late(&j, op->in[i]))))
		return false;
	find_rows(x, loop);
	bool idles = tile_end_idles(x, loop);
	x->row = x->rows = NULL;
	int64_t divides = idles || x->multiplies ? 0 : tile_end_divides(x, loop);
	if (divides)
		x->divides = MIN(x->divides ? x->divides : DIVIDES_MOST, divides);
	return idles || divides;
}
