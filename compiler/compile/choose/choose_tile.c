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
 *     indices within a part, to each of which the part's start is added.
 *
 * No op may see elements of one part together, or ask where in a part an element is.  What is written covers each dimension
 * of D elements from a start of 0 or more on, so that what the last program has too much falls outside of the tensor. */
#include "compile/choose/choose_tile.h"

#include <string.h>

static bool
exprs_same(const Expr *a, const Expr *b)
{
	if (!a || !b || a->kind != b->kind)
		return a == b;
	switch (a->kind) {
	case EX_INT: return a->u == b->u;
	case EX_NAME: return !a->scope && !b->scope && strcmp(a->name, b->name) == 0;
	case EX_BINARY: return a->bin == b->bin && exprs_same(a->a, b->a) && exprs_same(a->b, b->b);
	case EX_CALL:
		if (!exprs_same(a->a, b->a) || a->args.n != b->args.n)
			return false;
		for (int i = 0; i < a->args.n; i++)
			if (!exprs_same(a->args.at[i].e, b->args.at[i].e))
				return false;
		return true;
	default: return false;
	}
}

/* ---- both modules ---- */

static Part *
part_of(const Pair *x, const Value *v)
{
	return &x->part[v->id];
}

/* A value like any other: no number of the modules' own, no start, no index within a part. */
static bool
is_plain(const Pair *x, const Value *v)
{
	const Part *p = part_of(x, v);
	return !p->differs && !p->is_local && p->start == AXIS_NONE;
}

static bool
is_part(const Pair *x, const Value *v, int d)
{
	return part_of(x, v)->axis[d] != AXIS_NONE;
}

static bool
has_parts(const Pair *x, const Value *v)
{
	for (int d = 0; d < v->type->rank; d++)
		if (is_part(x, v, d))
			return true;
	return false;
}

/* Extents of a result that differ are parts, along which axis is not known yet. */
static bool
type_parts(const Pair *x, const Value *v, const Value *w)
{
	Part *p = part_of(x, v);
	const Type *a = v->type, *b = w->type;
	*p = (Part){.start = AXIS_NONE};
	if (a->kind != b->kind || a->rank != b->rank || a->elem != b->elem || a->ptr != PTR_NONE)
		return a == b;
	for (int d = 0; d < a->rank; d++) {
		p->axis[d] = AXIS_NONE;
		if (a->extent[d] == b->extent[d])
			continue;
		p->axis[d] = AXIS_ANY;
		p->scale[d] = a->extent[d] / x->size;
		if (a->extent[d] % x->size || b->extent[d] != 2 * a->extent[d])
			return false;
	}
	return true;
}

/* Dimension d of `to` is a part as dimension e of `from`. */
static bool
take_axis(const Pair *x, Value *to, int d, const Value *from, int e)
{
	Part *p = part_of(x, to);
	const Part *q = part_of(x, from);
	if (p->axis[d] == AXIS_NONE || q->axis[e] == AXIS_NONE)
		return p->axis[d] == q->axis[e];
	if (p->axis[d] == AXIS_ANY)
		p->axis[d] = q->axis[e];
	return p->scale[d] == q->scale[e] && (q->axis[e] == AXIS_ANY || p->axis[d] == q->axis[e]);
}

/* ---- ops ---- */

static bool
visit_const(const Pair *x, const Op *a, const Op *b)
{
	Part *p = part_of(x, &a->out[0]);
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
	Part *p = part_of(x, &a->out[0]);
	if (!x->count[axis])
		return true;
	p->start = (int8_t)axis;
	p->times[0] = p->times[1] = 1;
	return true;
}

/* An operand's part, as what the result is: a start, or indices within a part. */
static void
keep_kind(const Pair *x, const Op *a, const Part *from)
{
	Part *p = part_of(x, &a->out[0]);
	p->is_local = from->is_local;
	p->start = from->start;
	memcpy(p->times, from->times, sizeof p->times);
	p->from = from->from;
}

static bool
times_number(const Pair *x, const Op *a, const Part *start, const Value *by)
{
	Part *p = part_of(x, &a->out[0]);
	int64_t n[2];
	if (part_of(x, by)->differs)
		memcpy(n, part_of(x, by)->number, sizeof n);
	else if (!value_int(by, &n[0]))
		return false;
	else
		n[1] = n[0];
	if (by->type->rank > 0 || n[0] <= 0 || n[0] > INT32_MAX || start->times[1] > INT32_MAX)
		return false;
	keep_kind(x, a, start);
	for (int i = 0; i < 2; i++)
		p->times[i] *= n[i];
	p->from = start->from == 0 ? 0 : -1;
	return true;
}

static bool
plus_other(const Pair *x, const Op *a, const Part *start, const Value *other)
{
	int64_t n;
	if (!is_plain(x, other) || has_parts(x, other))
		return false;
	keep_kind(x, a, start);
	bool known = value_int(other, &n) && n >= 0 && a->kind == OP_ADD && start->from >= 0;
	part_of(x, &a->out[0])->from = known ? start->from + n : -1;
	return a->kind == OP_ADD || other == a->in[1];
}

/* Where a part starts and the indices within it: those of the whole dimension. */
static bool
local_plus_start(const Pair *x, const Op *a, const Value *local, const Part *start)
{
	Part *p = part_of(x, &a->out[0]);
	int n = 0;
	if (start->start == AXIS_NONE || start->is_local || start->differs)
		return false;
	for (int d = 0; d < local->type->rank; d++) {
		const Part *q = part_of(x, local);
		if (q->axis[d] == AXIS_NONE)
			continue;
		n++;
		if (q->axis[d] != AXIS_ANY || start->times[0] != q->scale[d] * x->size ||
		    start->times[1] != 2 * start->times[0])
			return false;
		p->axis[d] = start->start;
	}
	return n == 1 && a->kind == OP_ADD;
}

static bool
parts_agree(const Pair *x, const Op *a)
{
	for (int o = 0; o < a->nout; o++)
		for (int i = 0; i < a->nin; i++)
			for (int d = 0; d < a->out[o].type->rank && a->in[i]->type->rank == a->out[o].type->rank; d++)
				if (!take_axis(x, &a->out[o], d, a->in[i], d))
					return false;
	return true;
}

static bool
all_plain(const Pair *x, const Op *a)
{
	for (int i = 0; i < a->nin; i++)
		if (!is_plain(x, a->in[i]))
			return false;
	return true;
}

static bool
visit_elementwise(const Pair *x, const Op *a)
{
	if (all_plain(x, a))
		return parts_agree(x, a);
	if (a->kind == OP_CAST && !part_of(x, a->in[0])->differs && dtype_is_int(a->out[0].type->elem)) {
		keep_kind(x, a, part_of(x, a->in[0]));
		return true;
	}
	if (a->nin != 2)
		return false;
	for (int i = 0; i < 2; i++)
		if (part_of(x, a->in[i])->is_local)
			return local_plus_start(x, a, a->in[i], part_of(x, a->in[1 - i]));
	for (int i = 0; i < 2; i++) {
		const Part *p = part_of(x, a->in[i]);
		if (p->start == AXIS_NONE || (i == 1 && a->kind == OP_SUB))
			continue;
		if (a->kind == OP_MUL)
			return times_number(x, a, p, a->in[1 - i]);
		if (a->kind == OP_ADD || a->kind == OP_SUB)
			return plus_other(x, a, p, a->in[1 - i]);
	}
	return false;
}

static bool
visit_broadcast(const Pair *x, const Op *a)
{
	const Value *v = a->in[0];
	Value *out = &a->out[0];
	if (part_of(x, v)->differs)
		return false;
	keep_kind(x, a, part_of(x, v));
	for (int d = 0; d < v->type->rank; d++)
		if (v->type->extent[d] == out->type->extent[d] && !take_axis(x, out, d, v, d))
			return false;
	return true;
}

/* A part is the slowest of the dimensions that become others: [2 B] to [B, 2]. */
static bool
visit_reshape(const Pair *x, const Op *a)
{
	const Value *v = a->in[0];
	Part *p = part_of(x, &a->out[0]);
	const Part *q = part_of(x, v);
	const Type *from = v->type, *to = a->out[0].type;
	int n = 0;
	if (q->differs)
		return false;
	keep_kind(x, a, q);
	for (int d = to->rank - 1, e = from->rank - 1; d >= 0; d--) {
		int64_t below = 1, under = 1;
		if (p->axis[d] == AXIS_NONE)
			continue;
		while (e >= 0 && q->axis[e] == AXIS_NONE)
			e--;
		if (e < 0)
			return false;
		for (int i = d + 1; i < to->rank; i++)
			below *= to->extent[i];
		for (int i = e + 1; i < from->rank; i++)
			under *= from->extent[i];
		if (to->extent[d] * below != from->extent[e] * under || (q->is_local && to->extent[d] != from->extent[e]))
			return false;
		p->axis[d] = q->axis[e];
		e--;
		n++;
	}
	for (int e = 0; e < from->rank; e++)
		n -= q->axis[e] != AXIS_NONE;
	return n == 0;
}

static bool
visit_permute(const Pair *x, const Op *a)
{
	const IntList *dims = attr_dims(a);
	for (int d = 0; d < a->out[0].type->rank; d++)
		if (!take_axis(x, &a->out[0], d, a->in[0], (int)dims->at[d]))
			return false;
	return is_plain(x, a->in[0]);
}

/* Ops that see elements along an axis together, which is no part; `drops` it. */
static bool
visit_along(const Pair *x, const Op *a, bool drops)
{
	int axis = (int)attr_axis(a);
	for (int o = 0; o < a->nout; o++)
		for (int d = 0; d < a->out[o].type->rank; d++)
			if (!take_axis(x, &a->out[o], d, a->in[0], d + (drops && d >= axis)))
				return false;
	return all_plain(x, a) && !is_part(x, a->in[0], axis);
}

/* join and split: the last dimension comes or goes. */
static bool
visit_pairs(const Pair *x, const Op *a)
{
	for (int o = 0; o < a->nout; o++)
		for (int i = 0; i < a->nin; i++)
			for (int d = 0; d < MIN(a->out[o].type->rank, a->in[i]->type->rank); d++)
				if (!take_axis(x, &a->out[o], d, a->in[i], d))
					return false;
	return all_plain(x, a);
}

/* Where dimension i of a tensor's access starts: at a part, whose axis the tile's dimension d has. */
static bool
takes_part(const Pair *x, const Op *a, const Value *tile, int i, int d)
{
	const Part *s = part_of(x, a->in[1 + i]);
	Part *p = part_of(x, tile);
	if (p->axis[d] == AXIS_NONE)
		return is_plain(x, a->in[1 + i]);
	if (s->start == AXIS_NONE || s->times[0] != p->scale[d] * x->size || s->times[1] != 2 * s->times[0])
		return false;
	if (p->axis[d] == AXIS_ANY)
		p->axis[d] = s->start;
	return p->axis[d] == s->start;
}

static bool
visit_indices(const Pair *x, const Op *a, const Value *tile, bool gathers)
{
	const char *index = attr_index(a);
	bool gathered = false;
	for (int i = 0, d = 0; index[i]; i++) {
		const Value *v = a->in[1 + i];
		if (index[i] == 'p' && !takes_part(x, a, tile, i, d++))
			return false;
		if (index[i] == 'p')
			continue;
		if (!is_plain(x, v) || (index[i] == 'g' && !gathers))
			return false;
		for (int e = 0; index[i] == 'g' && !gathered && e < v->type->rank; e++)
			if (!take_axis(x, (Value *)tile, d + e, v, e))
				return false;
		d += index[i] == 'g' && !gathered ? v->type->rank : 0;
		gathered |= index[i] == 'g';
	}
	return true;
}

static bool
visit_read(const Pair *x, const Op *a)
{
	int fill = 1 + a->in[0]->type->rank;
	const Value *v = a->nin > fill ? a->in[fill] : NULL;
	if (!visit_indices(x, a, &a->out[0], true) || (v && !is_plain(x, v)))
		return false;
	for (int d = 0; v && d < v->type->rank; d++)
		if (!take_axis(x, &a->out[0], d, v, d))
			return false;
	return true;
}

/* All elements of the dimension, by all axes. */
static bool
visit_write(Pair *x, const Op *a)
{
	const Value *tile = a->in[access_data(a)];
	const char *index = attr_index(a);
	const TypeExpr *type = x->k->item->params.at[a->in[0]->index].type;
	bool covers[MAX_AXES] = {false};
	if (!is_plain(x, tile) || !visit_indices(x, a, tile, false))
		return false;
	for (int i = 0, d = 0; index[i]; i++) {
		if (index[i] != 'p')
			continue;
		const Part *p = part_of(x, tile);
		int axis = p->axis[d];
		if (index[i + 1] == '\0')
			x->last_axis = axis;
		if (axis >= 0) {
			if (p->scale[d] != 1 || part_of(x, a->in[1 + i])->from < 0 ||
			    !exprs_same(type->dims.at[i], x->count[axis]))
				return false;
			covers[axis] = true;
		}
		d++;
	}
	for (int axis = 0; axis < MAX_AXES; axis++)
		if (x->count[axis] && !covers[axis])
			return false;
	x->written++;
	return true;
}

/* Parts stay whole. */
static bool
visit_extract(const Pair *x, const Op *a)
{
	const char *index = attr_index(a);
	const Value *v = a->in[0];
	for (int i = 0, d = 0; index[i]; i++) {
		if (!is_plain(x, a->in[1 + i]) || (is_part(x, v, i) && (index[i] != 'p' ||
		    a->out[0].type->extent[d] != v->type->extent[i])))
			return false;
		if (index[i] == 'p' && !take_axis(x, &a->out[0], d++, v, i))
			return false;
	}
	return is_plain(x, v);
}

static bool
visit_op(Pair *x, const Op *a, const Op *b)
{
	if (op_has(a, ELEM))
		return visit_elementwise(x, a);
	switch (a->kind) {
	case OP_CONST: return visit_const(x, a, b);
	case OP_PROGRAM_ID: return visit_program(x, a);
	case OP_DIM: case OP_STRIDE: return true;
	case OP_IOTA:
		part_of(x, &a->out[0])->is_local = is_part(x, &a->out[0], (int)attr_axis(a));
		return true;
	case OP_PHILOX: return all_plain(x, a) && parts_agree(x, a);
	case OP_BROADCAST: return visit_broadcast(x, a);
	case OP_RESHAPE: return visit_reshape(x, a);
	case OP_PERMUTE: return visit_permute(x, a);
	case OP_REDUCE: return visit_along(x, a, true);
	case OP_SCAN: case OP_SORT: case OP_FLIP: return visit_along(x, a, false);
	case OP_JOIN: case OP_SPLIT: return visit_pairs(x, a);
	case OP_EXTRACT: return visit_extract(x, a);
	case OP_READ: return visit_read(x, a);
	case OP_WRITE: return visit_write(x, a);
	default: return false;
	}
}

/* Extents and numbers of programs follow from the size; constants are looked at by value. */
static bool
attrs_alike(const Op *a, const Op *b)
{
	if (a->nattr != b->nattr)
		return false;
	for (int i = 0; i < a->nattr; i++) {
		AttrName name = a->attr[i].name;
		const Attr *other = op_attr(b, name);
		bool follows = name == ATTR_EXTENTS || name == ATTR_VALUE || name == ATTR_PER || name == ATTR_COUNT;
		if (!other || (!follows && !attr_same(&a->attr[i], other)))
			return false;
	}
	return true;
}

bool
tile_cuts_freely(Pair *x, Func *a, Func *b, Arena *mem)
{
	func_number(a);
	func_number(b);
	if (a->nvalues != b->nvalues || a->nparam != b->nparam)
		return false;
	x->f = a;
	x->part = NEW_ARRAY(mem, Part, MAX(a->nvalues, 1));
	for (int i = 0; i < a->body->narg; i++)
		if (!type_parts(x, &a->body->arg[i], &b->body->arg[i]))
			return false;
	const Op *q = b->body->first;
	for (const Op *p = a->body->first; p; p = p->next, q = q->next) {
		if (!q || p->kind != q->kind || p->nin != q->nin || p->nout != q->nout || p->nregion > 0 ||
		    !attrs_alike(p, q))
			return false;
		for (int i = 0; i < p->nin; i++)
			if (p->in[i]->id != q->in[i]->id)
				return false;
		for (int i = 0; i < p->nout; i++)
			if (!type_parts(x, &p->out[i], &q->out[i]))
				return false;
		if (!visit_op(x, p, q))
			return false;
	}
	return !q && x->written > 0;
}
