/* Tiles that are only a way to cut a grid: of which size they are changes nothing that is computed.
 *
 *     kernel add<B = 90>(x: in f32[N], y: in f32[N], z: out f32[N]) grid(p: cdiv(N, B)) {
 *         z[p * B +: B] = x[p * B +: B] + y[p * B +: B];              =>      B = 1024
 *     }
 *
 * A tile of 90 elements leaves lanes and vectors empty, and a block of it starts for 360 bytes.  Where the source says
 * such a size as a number, and the caller nothing, the compiler may take another: a parameter B with axes cdiv(D, B) of the
 * grid, which nothing else of the header mentions.  That each element is computed as before is read off two modules, of B
 * and of 2 B, which have to be alike but for
 *
 *     extents of B times a scale, which are twice as large: a *part* along an axis of the grid;
 *     numbers that programs' indices are multiplied with, so that a part starts where the one before it ends;
 *     indices within a part, to each of which the part's start is added;
 *     what is left of a dimension before a part that begins at its end, D - (p + 1) B: elements in opposite order.
 *
 * No op may see elements of one part together, or ask where in a part an element is; rows and columns of products may be
 * parts, and what loops around products carry; and what a product sums over, if the sum only goes to an atomic that adds it
 * to those of other programs; a loop may end where the part does (choose_tile_end.c).  What is written
 * covers D elements, of a dimension or of several that pass flatten merges, from a start of 0 or more on, so that what the
 * last program has too much falls outside of the tensor; or rows that data numbers, or digits (choose_tile_rows.c); or
 * both halves of a square (choose_tile_mirror.c). */
#include "compile/choose/tile/choose_tile.h"

#include <string.h>

/* ---- both modules ---- */

Part *
tile_part(const Pair *x, const Value *v)
{
	return &x->part[v->id];
}

bool
tile_is_plain(const Pair *x, const Value *v)
{
	const Part *p = tile_part(x, v);
	return !p->differs && !p->is_local && !p->is_bound && !p->sums && p->start == AXIS_NONE;
}

bool
tile_is_part(const Pair *x, const Value *v, int d)
{
	return tile_part(x, v)->axis[d] != AXIS_NONE;
}

bool
tile_has_parts(const Pair *x, const Value *v)
{
	return ANY_OF(d, v->type->rank, tile_is_part(x, v, d));
}

/* Extents of a result that differ are parts, along which axis is not known yet. */
static bool
type_parts(const Pair *x, const Value *v, const Value *w)
{
	Part *p = tile_part(x, v);
	const Type *a = v->type, *b = w->type;
	*p = (Part){.start = AXIS_NONE};
	if (a->kind != b->kind || a->rank != b->rank || a->elem != b->elem || a->ptr != PTR_NONE)
		return a == b;
	for (int d = 0; d < a->rank; d++) {
		p->axis[d] = AXIS_NONE;
		if (a->extent[d] == b->extent[d])
			continue;
		p->axis[d] = AXIS_ANY;
		p->scale[d] = TILE_SCALE * a->extent[d] / x->size;
		if (TILE_SCALE * a->extent[d] % x->size || b->extent[d] != 2 * a->extent[d])
			return false;
	}
	return true;
}

bool
tile_take_axis(const Pair *x, Value *to, int d, const Value *from, int e)
{
	Part *p = tile_part(x, to);
	const Part *q = tile_part(x, from);
	if (p->axis[d] == AXIS_NONE || q->axis[e] == AXIS_NONE)
		return p->axis[d] == q->axis[e];
	if (p->axis[d] == AXIS_ANY) {
		p->axis[d] = q->axis[e];
		p->mirrored[d] = q->mirrored[e];
	}
	bool same = p->axis[d] == q->axis[e] && p->mirrored[d] == q->mirrored[e];
	return p->scale[d] == q->scale[e] && (q->axis[e] == AXIS_ANY || same);
}

/* ---- ops ---- */

static bool
visit_const(const Pair *x, const Op *a, const Op *b)
{
	Part *p = tile_part(x, &a->out[0]);
	const Attr *u = attr_value(a), *v = attr_value(b);
	if (attr_same(u, v))
		return u->kind != KIND_INTS || a->out[0].type == b->out[0].type;
	p->differs = true;
	p->number[0] = u->i;
	p->number[1] = v->i;
	return u->kind == KIND_INT && v->kind == KIND_INT && a->out[0].type->rank == 0;
}

static bool
visit_program(const Pair *x, const Op *a)
{
	int axis = (int)attr_axis(a);
	Part *p = tile_part(x, &a->out[0]);
	if (!x->count[axis])
		return true;
	p->start = (int8_t)axis;
	p->times[0] = p->times[1] = 1;
	return true;
}

/* An operand's part, as what the result is: a start, or indices within a part. */
void
tile_keep_kind(const Pair *x, const Op *a, const Part *from)
{
	Part *p = tile_part(x, &a->out[0]);
	p->is_local = from->is_local;
	p->is_bound = from->is_bound;
	p->per = from->per;
	p->is_bound = from->is_bound;
	p->start = from->start;
	memcpy(p->times, from->times, sizeof p->times);
	p->from = from->from;
	p->ends = from->ends;
	p->of = from->of;
}

bool
tile_parts_agree(const Pair *x, const Op *a)
{
	for (int o = 0; o < a->nout; o++)
		for (int i = 0; i < a->nin; i++)
			for (int d = 0; d < a->out[o].type->rank && a->in[i]->type->rank == a->out[o].type->rank; d++)
				if (!tile_take_axis(x, &a->out[o], d, a->in[i], d))
					return false;
	return true;
}

bool
tile_all_plain(const Pair *x, const Op *a)
{
	return ALL_OF(i, a->nin, tile_is_plain(x, a->in[i]));
}

/* A scalar that follows from where a part starts in some other way: the end of a loop may, or whether a program leaves. */
static bool
is_bound(const Pair *x, const Op *a)
{
	Part *p = tile_part(x, &a->out[0]);
	*p = (Part){.start = AXIS_NONE, .is_bound = true};
	DType t = a->out[0].type->elem;
	return a->out[0].type->rank == 0 && (t == TY_I64 || t == TY_I32 || t == TY_BOOL);
}

static bool
visit_broadcast(const Pair *x, const Op *a)
{
	const Value *v = a->in[0];
	Value *out = &a->out[0];
	if (tile_part(x, v)->differs || tile_part(x, v)->sums)
		return false;
	tile_keep_kind(x, a, tile_part(x, v));
	return !ANY_OF(d, v->type->rank,
	    v->type->extent[d] == out->type->extent[d] && !tile_take_axis(x, out, d, v, d));
}

/* Is what is summed over no part, or what a trip takes, of both operands? */
static bool
sums_over(const Pair *x, const Value *left, int last, const Value *right, int first)
{
	int a = tile_part(x, left)->axis[last], b = tile_part(x, right)->axis[first];
	return a == b && (a == AXIS_NONE || a == AXIS_STEP);
}

/* Rows and columns may be parts. */
static bool
visit_dot(Pair *x, const Op *a)
{
	if (tile_sums_part(x, a))
		return true;

	const Value *left = a->in[0], *right = a->in[1];
	Value *out = &a->out[0];
	int rank = out->type->rank, r = rank - 2;
	if (!tile_all_plain(x, a) || left->type->rank != rank || right->type->rank != rank ||
	    !sums_over(x, left, r + 1, right, r) || !tile_take_axis(x, out, r, left, r) ||
	    !tile_take_axis(x, out, r + 1, right, r + 1))
		return false;
	return ALL_OF(d, r, !(tile_is_part(x, out, d) || tile_is_part(x, left, d) || tile_is_part(x, right, d))) &&
	    ALL_OF(d, rank, tile_take_axis(x, out, d, a->in[2], d));
}

static bool visit_block(Pair *x, const Block *first, const Block *second);

static bool
take_axes(const Pair *x, Value *to, const Value *from)
{
	return ALL_OF(d, to->type->rank, tile_take_axis(x, to, d, from, d)) && tile_is_plain(x, from);
}

static bool
carried_agree(const Pair *x, const Op *loop, Value *const *from)
{
	return ALL_OF(i, loop->nout, take_axes(x, &loop->region[0]->arg[1 + i], from[i]));
}

/* A loop that steps by the size: its index is where a part starts.  Parts of a loop around it that does, too, would count
 * as its own. */
static bool
takes_steps(Pair *x, const Op *a, const Op *b)
{
	const Part *step = tile_part(x, a->in[2]);
	int64_t from = value_is_zero(a->in[0]) ? 0 : -1;
	if (!x->is_step || !step->differs)
		return false;
	*tile_part(x, &a->region[0]->arg[0]) = (Part){.start = AXIS_STEP, .times = {x->size, 2 * x->size}, .from = from};
	x->stepped++;
	return !x->is_stepping && step->number[0] == x->size && step->number[1] == 2 * x->size &&
	    tile_step_starts(x, a, b) && tile_is_plain(x, a->in[1]);
}

/* Does a larger tile make the same trips?  With products it may make idle ones beside them. */
static bool
trips_cover(const Pair *x, const Op *a, const Op *b)
{
	if (!tile_is_plain(x, a->in[2]))
		return false;
	if (x->multiplies || x->is_step)
		return tile_start_covers(x, a, b) && tile_end_covers(x, a, b);
	return tile_is_plain(x, a->in[0]) && tile_is_plain(x, a->in[1]);
}

/* What a loop carries has the parts that its body gives it: the second look knows them. */
static bool
visit_loop(Pair *x, const Op *a, const Op *b)
{
	const Block *body = a->region[0], *other = b->region[0];
	bool ok = ALL_OF(i, body->narg, type_parts(x, &body->arg[i], &other->arg[i]));
	bool steps = ok && takes_steps(x, a, b);
	ok = ok && (steps || trips_cover(x, a, b));
	x->is_stepping |= steps;
	x->loops++;
	for (int look = 0; look < 2; look++)
		ok = ok && carried_agree(x, a, a->in + 3) && visit_block(x, body, other) &&
		    carried_agree(x, a, body->last->in);
	x->loops--;
	x->is_stepping &= !steps;
	ok = ok && (!steps || tile_trips_join(x, a));
	for (int i = 0; i < a->nout && ok; i++)
		ok = take_axes(x, &a->out[i], &body->arg[1 + i]);
	return ok;
}

/* How two parts of a loop join: what is carried has the same parts in both, and in what they come to. */
static bool
visit_merge(Pair *x, const Op *a, const Op *b)
{
	const Block *body = a->region[0], *other = b->region[0];
	bool ok = x->multiplies;
	for (int i = 0; i < body->narg && ok; i++)
		ok = type_parts(x, &body->arg[i], &other->arg[i]) && take_axes(x, &body->arg[i], a->in[i % a->nin]);
	ok = ok && visit_block(x, body, other);
	for (int i = 0; i < a->nout && ok; i++)
		ok = take_axes(x, &a->out[i], a->in[i]) && take_axes(x, &a->out[i], body->last->in[i]);
	return ok;
}

static bool
is_empty(const Block *b)
{
	return !b->first || b->first->kind == OP_YIELD;
}

/* `if %i == 0` of an axis that is cut, where nothing else is done: the first program does it, however many there are. */
static bool
is_first_alone(const Pair *x, const Op *branch)
{
	const Op *test = branch->in[0]->def;
	const Part *p = test && test->kind == OP_EQ ? tile_part(x, test->in[0]) : NULL;
	bool is_first = p && value_is_zero(test->in[1]) && p->start >= 0 && p->start < MAX_AXES && p->from == 0 &&
	    !p->ends && !p->of && p->times[0] > 0 && p->times[1] > 0;
	return is_first && branch->nout == 0 && !is_empty(branch->region[0]) &&
	    (branch->nregion < 2 || is_empty(branch->region[1]));
}

/* What it does has to be of what all programs of the axis have in common: `if i == 0 { bias[j * BN +: BN] = sum; }`. */
static bool
is_common(const Pair *x, const Op *a)
{
	return !ANY_OF(i, a->nin, !tile_is_plain(x, a->in[i]) || tile_has_parts(x, a->in[i])) &&
	    !ANY_OF(i, a->nout, tile_has_parts(x, &a->out[i]));
}

static bool
visit_first_alone(Pair *x, const Op *a, const Op *b)
{
	x->is_alone = true;
	bool ok = ALL_OF(i, a->nregion, visit_block(x, a->region[i], b->region[i]));
	x->is_alone = false;
	return ok;
}

/* Either of two results; or an early return: by a condition that programs of the axis have in common, or of programs that
 * would write nothing. */
static bool
visit_branch(Pair *x, const Op *a, const Op *b)
{
	bool ok = x->loops == 0 && !x->leaves, empty = is_empty(a->region[0]);
	if (x->loops == 0 && x->leaves && a->nout == 0 && (a->nregion < 2 || is_empty(a->region[1]) != empty) &&
	    tile_mirrors_branch(x, a, !empty))
		return ALL_OF(i, a->nregion, visit_block(x, a->region[i], b->region[i]));
	if (ok && is_first_alone(x, a))
		return visit_first_alone(x, a, b);
	if (ok && !tile_is_plain(x, a->in[0])) {
		if (a->nout > 0)
			return false;
		x->leaves = a->in[0];
		x->leaves_if = empty;
		ok = is_empty(a->region[!x->leaves_if]) != (a->nregion > 1 && is_empty(a->region[x->leaves_if]));
	}
	for (int i = 0; i < a->nregion; i++)
		ok = ok && visit_block(x, a->region[i], b->region[i]);
	x->leaves = NULL;
	for (int i = 0; i < a->nregion * a->nout; i++)
		ok = ok && take_axes(x, &a->out[i % a->nout], a->region[i / a->nout]->last->in[i % a->nout]);
	return ok;
}

/* What is only added up, element by element, as of loops: integers, with products others, too.  A sum over a part
 * goes to the same place in all programs of the axis. */
static bool
visit_atomic(Pair *x, const Op *a)
{
	const char *fn = attr_fn(a);
	const Value *v = a->in[access_data(a)];
	bool joins = strcmp(fn, "exchange") != 0 && strcmp(fn, "cas") != 0 &&
	    (x->multiplies || dtype_is_int(v->type->elem));
	int sums = tile_part(x, v)->sums;
	bool alone = !x->multiplies || sums;
	for (int axis = 0; axis < MAX_AXES; axis++)
		alone = alone && (!x->count[axis] || axis == sums - 1);
	x->written += alone;
	if (sums)
		return strcmp(fn, tile_part(x, v)->joins) == 0 && a->out[0].nuses == 0 && !x->leaves &&
		    tile_visit_indices(x, a, v);
	return joins && a->out[0].nuses == 0 && x->loops == 0 && tile_visit_write(x, a);
}

static bool
visit_op(Pair *x, const Op *a, const Op *b)
{
	if (x->is_alone && a->kind != OP_CONST)
		return (op_has(a, PURE) || a->kind == OP_READ || a->kind == OP_WRITE) && a->nregion == 0 && is_common(x, a);
	if (op_has(a, ELEM))
		return tile_visit_elementwise(x, a) || is_bound(x, a);
	switch (a->kind) {
	case OP_CONST: return visit_const(x, a, b);
	case OP_PROGRAM_ID: return visit_program(x, a);
	case OP_DIM: case OP_STRIDE: return true;
	case OP_IOTA:
		tile_part(x, &a->out[0])->is_local = tile_is_part(x, &a->out[0], (int)attr_axis(a));
		return true;
	case OP_PHILOX: return tile_all_plain(x, a) && tile_parts_agree(x, a);
	case OP_BROADCAST: return visit_broadcast(x, a);
	case OP_RESHAPE: return tile_visit_reshape(x, a);
	case OP_PERMUTE: return tile_visit_permute(x, a);
	case OP_REDUCE: return tile_sums_along(x, a) || tile_visit_along(x, a, true);
	case OP_TOPK: case OP_SCAN: case OP_SORT: return tile_visit_along(x, a, false);
	case OP_GATHER: return tile_visit_gather(x, a);
	case OP_FLIP: return tile_visit_flip(x, a);
	case OP_CAT:                                    /* what stands one behind the other each program has whole */
		return tile_all_plain(x, a) && tile_parts_agree(x, a) && !tile_is_part(x, &a->out[0], (int)attr_axis(a));
	case OP_JOIN: case OP_SPLIT: return tile_visit_pairs(x, a);
	case OP_EXTRACT: return tile_visit_extract(x, a);
	case OP_DOT: return visit_dot(x, a);
	case OP_FOR: return visit_loop(x, a, b);
	case OP_IF: return visit_branch(x, a, b);
	case OP_MERGE: return visit_merge(x, a, b);
	case OP_READ: return tile_visit_read(x, a);
	case OP_WRITE: return x->loops == 0 ? tile_visit_write(x, a) : tile_visit_loop_write(x, a);
	case OP_HISTOGRAM: return tile_counts(x, a);
	case OP_ATOMIC: return visit_atomic(x, a);
	default: return false;
	}
}

/* Each op of both, up to a yield, which the loop looks at. */
static bool
visit_block(Pair *x, const Block *first, const Block *second)
{
	const Op *q = second->first;
	for (const Op *p = first->first; p; p = p->next, q = q->next) {
		if (!q || p->kind != q->kind || p->nin != q->nin || p->nout != q->nout || p->nregion != q->nregion ||
		    (p->nregion > 0 && p->kind != OP_FOR && p->kind != OP_IF && p->kind != OP_MERGE) ||
		    !tile_attrs_alike(p, q))
			return false;
		for (int i = 0; i < p->nin; i++)
			if (p->in[i]->id != q->in[i]->id)
				return false;
		for (int i = 0; i < p->nout; i++)
			if (!type_parts(x, &p->out[i], &q->out[i]))
				return false;
		if (p->kind != OP_YIELD && !visit_op(x, p, q))
			return false;
	}
	return !q;
}

bool
tile_cuts_freely(Pair *x, Func *a, Func *b, Arena *mem)
{
	func_number(a);
	func_number(b);
	if (a->nvalues != b->nvalues || a->nparam != b->nparam)
		return false;
	x->f = a;
	x->mem = mem;
	x->multiplies = choose_count_dots(a) > 0;
	x->part = NEW_ARRAY(mem, Part, MAX(a->nvalues, 1));
	for (int i = 0; i < a->body->narg; i++)
		if (!type_parts(x, &a->body->arg[i], &b->body->arg[i]))
			return false;
	bool alike = visit_block(x, a->body, b->body) && x->written > 0;
	x->period = 1;
	for (int i = 0; i < a->nvalues && x->period <= x->size; i++)
		x->period = tile_joint_period(x->period, MAX(x->part[i].period, 1));
	return alike && (!x->is_step || x->stepped > 0);
}
