/* What is computed of where a part starts (choose_tile.c): the program's index times numbers, over numbers that divide it,
 * plus others; and of the indices within a part. */
#include "compile/choose/tile/choose_tile.h"

#include <string.h>

static bool
times_number(const Pair *x, const Op *a, const Part *start, const Value *by)
{
	Part *p = tile_part(x, &a->out[0]);
	int64_t n[2];
	if (tile_part(x, by)->differs)
		memcpy(n, tile_part(x, by)->number, sizeof n);
	else if (!value_int(by, &n[0]))
		return false;
	else
		n[1] = n[0];
	if (by->type->rank > 0 || n[0] <= 0 || n[0] > INT32_MAX || start->times[1] > INT32_MAX || start->of ||
	    (start->from != 0 && n[0] != n[1]))
		return false;
	tile_keep_kind(x, a, start);
	for (int i = 0; i < 2; i++)
		p->times[i] *= n[i];
	p->from = start->from == 0 ? 0 : -1;
	return true;
}

/* Groups of as many elements: of 16 of %k, where parts are of 64, four begin at %k / 16. */
static bool
over_number(const Pair *x, const Op *a, const Part *start)
{
	Part *p = tile_part(x, &a->out[0]);
	int64_t n;
	if (!value_int(a->in[1], &n) || n <= 0 || start->from != 0 || start->ends || start->is_local ||
	    start->times[0] % n || start->times[1] % n)
		return false;
	tile_keep_kind(x, a, start);
	for (int i = 0; i < 2; i++)
		p->times[i] /= n;
	return true;
}

/* The next program's index: its part starts where this one's ends. */
static bool
is_next(const Op *a, const Part *start, const Value *other)
{
	int64_t n;
	return a->kind == OP_ADD && value_int(other, &n) && n == 1 && start->times[0] == 1 && start->times[1] == 1 &&
	    start->from == 0 && !start->ends;
}

static bool
plus_other(const Pair *x, const Op *a, const Part *start, const Value *other)
{
	int64_t n;
	if (!tile_is_plain(x, other) || tile_has_parts(x, other) || start->ends)
		return false;
	tile_keep_kind(x, a, start);
	tile_part(x, &a->out[0])->ends = is_next(a, start, other);
	if (tile_part(x, &a->out[0])->ends)
		return true;
	bool known = value_int(other, &n) && n >= 0 && a->kind == OP_ADD && start->from >= 0;
	tile_part(x, &a->out[0])->from = known ? start->from + n : -1;
	return a->kind == OP_ADD || other == a->in[1];
}

/* What the parts up to this one's end leave of something: in opposite order it starts there. */
static bool
minus_end(const Pair *x, const Op *a)
{
	const Part *end = tile_part(x, a->in[1]);
	if (!tile_is_plain(x, a->in[0]) || a->in[0]->type->rank > 0 || !end->ends || end->of)
		return false;
	tile_keep_kind(x, a, end);
	tile_part(x, &a->out[0])->of = a->in[0];
	return true;
}

/* Where a part starts and the indices within it: those of the whole dimension. */
static bool
local_plus_start(const Pair *x, const Op *a, const Value *local, const Part *start)
{
	Part *p = tile_part(x, &a->out[0]);
	int n = 0;
	if (start->start == AXIS_NONE || start->is_local || start->differs || start->ends)
		return false;
	for (int d = 0; d < local->type->rank; d++) {
		const Part *q = tile_part(x, local);
		if (q->axis[d] == AXIS_NONE)
			continue;
		n++;
		if (q->axis[d] != AXIS_ANY || TILE_SCALE * start->times[0] * MAX(q->per, 1) != q->scale[d] * x->size ||
		    start->times[1] != 2 * start->times[0])
			return false;
		p->axis[d] = start->start;
	}
	return n == 1 && a->kind == OP_ADD;
}

static int64_t
common_divisor(int64_t a, int64_t b)
{
	return b == 0 ? a : common_divisor(b, a % b);
}

int64_t
tile_joint_period(int64_t a, int64_t b)
{
	return a / common_divisor(a, b) * b;
}

/* Indices of a part over a number that divides it, as rows that several heads have each, and what that leaves, which is
 * alike in each part. */
static bool
local_over_number(const Pair *x, const Op *a, const Part *local)
{
	Part *p = tile_part(x, &a->out[0]);
	int64_t n;
	if ((a->kind != OP_DIV && a->kind != OP_REM) || !value_int(a->in[1], &n) || n <= 0 || n > INT32_MAX || local->per ||
	    local->differs)
		return false;
	for (int d = 0; d < a->in[0]->type->rank; d++)
		if (local->axis[d] != AXIS_NONE && (local->axis[d] != AXIS_ANY || a->in[0]->type->extent[d] % n))
			return false;
	int64_t scale = VALUE_OF(d, a->in[0]->type->rank, local->axis[d] != AXIS_NONE, local->scale[d], TILE_SCALE);
	p->is_local = a->kind == OP_DIV;
	p->per = a->kind == OP_DIV ? n : 0;
	p->period = n * TILE_SCALE / common_divisor(n * TILE_SCALE, scale);
	return true;
}

/* The place along what the step cuts that v is, counted from the loop's start: the reduction's result that the trip's start
 * is added to.  NULL: it is something else. */
const Value *
tile_place(const Pair *x, const Value *v)
{
	const Op *op = v->def;
	for (int i = 0; i < 2 && op && op->kind == OP_ADD; i++) {
		const Op *reduce = op->in[i]->def;
		const Part *start = tile_part(x, op->in[1 - i]);
		bool is_arg = reduce && reduce->kind == OP_REDUCE && strncmp(attr_fn(reduce), "arg", 3) == 0;
		const Part *of = is_arg ? tile_part(x, reduce->in[0]) : NULL;
		int axis = is_arg ? (int)attr_axis(reduce) : 0;
		if (is_arg && of->axis[axis] == AXIS_STEP && of->scale[axis] == TILE_SCALE && !of->mirrored[axis] &&
		    start->start == AXIS_STEP && start->times[0] == x->size && start->times[1] == 2 * x->size &&
		    !start->ends && !start->of && !start->is_local)
			return op->in[i];
	}
	return NULL;
}

/* The least and the greatest that a clamp lets through, in either module. */
static bool
clamps_at(const Pair *x, const Op *clamp, int64_t n[2])
{
	const Part *p = tile_part(x, clamp->in[1]);
	if (p->differs)
		memcpy(n, p->number, sizeof p->number);
	else if (!value_int(clamp->in[1], &n[0]))
		return false;
	else
		n[1] = n[0];
	return true;
}

/* An integer that no cast has wrapped, as one of 8 bits or without a sign would be.  The length of a row fits 32 bits. */
static bool
keeps_order(const Value *v)
{
	DType t = v->type->elem;
	return dtype_is_int(t) && dtype_is_signed(t) && dtype_info[t].bits >= 32;
}

/* How far behind the part's start a number lies that programs have in common, clamped to what indices within the part are
 * not; the part's start, or NULL. */
static const Part *
gap_from_start(const Pair *x, const Value *v, int64_t extent)
{
	int64_t n[2];
	for (const Op *op = v->def; op; op = op->in[0]->def) {
		bool clamps = op->kind == OP_MIN || op->kind == OP_MAX;
		if (op->kind == OP_SUB) {
			const Part *start = tile_part(x, op->in[1]);
			bool is_start = start->start >= 0 && !start->is_local && !start->ends && !start->of &&
			    !start->differs;
			return is_start && tile_is_plain(x, op->in[0]) && op->in[0]->type->rank == 0 ? start : NULL;
		}
		if (op->kind != OP_BROADCAST && op->kind != OP_CAST && !clamps)
			return NULL;
		if (op->kind == OP_CAST && (!keeps_order(op->in[0]) || !keeps_order(&op->out[0])))
			return NULL;
		if (clamps && (!clamps_at(x, op, n) || (op->kind == OP_MAX ? n[0] > -1 || n[1] > -1
		                                                           : n[0] < extent || n[1] < 2 * extent)))
			return NULL;
	}
	return NULL;
}

/* Is it element `id` of the row?  `%iota == %id - %p * B` asks so of the elements of a part. */
static bool
compares_place(const Pair *x, const Op *a)
{
	bool compares = a->kind == OP_EQ || a->kind == OP_NE || a->kind == OP_LT || a->kind == OP_LE || a->kind == OP_GT ||
	    a->kind == OP_GE;
	for (int i = 0; i < 2 && compares; i++) {
		const Part *q = tile_part(x, a->in[i]);
		int d = q->is_local && !q->per ? FIRST_OF(k, a->out[0].type->rank, q->axis[k] != AXIS_NONE) : -1;
		if (d < 0 || a->in[i]->type->rank != a->out[0].type->rank || !keeps_order(a->in[i]))
			continue;
		const Part *start = gap_from_start(x, a->in[1 - i], a->in[i]->type->extent[d]);
		if (!start || start->times[1] != 2 * start->times[0] || q->axis[d] != AXIS_ANY ||
		    TILE_SCALE * start->times[0] != q->scale[d] * x->size)
			return false;
		tile_part(x, &a->out[0])->axis[d] = start->start;
		return true;
	}
	return false;
}

/* Where parts start is cast to 32 bits or more, which wrap at a multiple of every size; indices within a part to such as
 * hold all of a tile's. */
static bool
holds_places(const Part *p, DType t)
{
	return dtype_is_int(t) && dtype_info[t].bits >= (p->start != AXIS_NONE ? 32 : 16);
}

bool
tile_visit_elementwise(const Pair *x, const Op *a)
{
	const Value *place = a->kind == OP_ADD && a->out[0].nuses == 1 ? tile_place(x, &a->out[0]) : NULL;
	if (a->kind == OP_ADD && a->out[0].nuses == 1 && !place)
		place = tile_top_place(x, &a->out[0]);
	if (place)                                      /* choose_tile_join.c takes it */
		return tile_is_plain(x, place) && tile_parts_agree(x, a);
	if (tile_all_plain(x, a))
		return tile_parts_agree(x, a);
	if (tile_scales_sum(x, a))
		return true;
	const Part *from = tile_part(x, a->in[0]);
	if (a->kind == OP_CAST && !from->differs && !from->sums && holds_places(from, a->out[0].type->elem)) {
		tile_keep_kind(x, a, from);
		return true;
	}
	if (a->nin != 2)
		return false;
	if (compares_place(x, a))
		return true;
	if (tile_part(x, a->in[0])->is_local && local_over_number(x, a, tile_part(x, a->in[0])))
		return true;
	for (int i = 0; i < 2; i++)
		if (tile_part(x, a->in[i])->is_local)
			return local_plus_start(x, a, a->in[i], tile_part(x, a->in[1 - i]));
	if (a->kind == OP_SUB && tile_part(x, a->in[1])->start != AXIS_NONE)
		return minus_end(x, a);
	for (int i = 0; i < 2; i++) {
		const Part *p = tile_part(x, a->in[i]);
		if (p->start == AXIS_NONE)
			continue;
		if (a->kind == OP_MUL)
			return times_number(x, a, p, a->in[1 - i]);
		if (a->kind == OP_DIV && i == 0)
			return over_number(x, a, p);
		if (a->kind == OP_ADD || a->kind == OP_SUB)
			return plus_other(x, a, p, a->in[1 - i]);
	}
	return false;
}
