/* The order family: sort, topk, histogram, gather and scatter of tile values. */
#include "sema/builtin/builtin.h"

#include <string.h>

enum { MOST_WITH = 16 };

/* Argument i: the tiles of x's shape that are to be put in the order of x, one or a tuple of them. */
static bool
payload(Call *c, int i, const Value *x, Value **out, int *n)
{
	Elab *e = c->e;
	Val *given = &c->arg[i].val;
	bool several = given->kind == VAL_TUPLE;
	*n = !call_has(c, i) ? 0 : several ? given->n : 1;
	if (*n > MOST_WITH) {
		call_wrong(c, i, "a tuple of 16 tiles or fewer");
		return false;
	}
	for (int k = 0; k < *n; k++) {
		Val *item = several ? &given->items[k] : given;
		if (val_is_poison(item))
			return false;
		if (item->kind != VAL_TILE || item->v->type->ptr) {
			call_wrong(c, i, "a tile, or a tuple of tiles");
			return false;
		}
		out[k] = item->v;
		if (type_same_shape(out[k]->type, x->type))
			continue;
		return diag_error(e->cx, c->arg[i].place, DIAG_WITH_SHAPE, c->def->name,
		    type_shape_text(e, out[k]->type), type_shape_text(e, x->type));
	}
	return true;
}

/* The first `n` of `out` and what the indices, the op's second result, find in the payload. */
static Val
with_payload(Call *c, Op *op, int axis, int n, Value *const *with, int nwith)
{
	Elab *e = c->e;
	Val out[2 + MOST_WITH];
	Attr attr = attr_new_axis(e->m, axis);
	for (int k = 0; k < n; k++)
		out[k] = val_tile(c->place, &op->out[k]);
	for (int k = 0; k < nwith; k++) {
		Op *found = op_make(&e->b, OP_GATHER, (Value *[]){with[k], &op->out[1]}, 2, &attr, 1, NULL, 0);
		out[n + k] = val_tile(c->place, found->out);
	}
	return val_tuple(e, c->place, out, n + nwith);
}

static Op *
sort(Call *c, Value *x, int axis, bool descending, bool indices)
{
	Elab *e = c->e;
	Attr attr[3] = {attr_new_axis(e->m, axis)};
	int n = 1;
	if (descending)
		attr[n++] = attr_new_descending(e->m, true);
	if (indices)
		attr[n++] = attr_new_indices(e->m, true);
	return op_make(&e->b, OP_SORT, &x, 1, attr, n, NULL, 0);
}

Val
order_sort(Call *c)
{
	int axis, n;
	bool descending;
	Value *x = call_tile(c, 0, IS_ANY), *with[MOST_WITH];
	if (!x || !call_axis(c, 1, x->type->rank, &axis) || !call_bool(c, 2, &descending) ||
	    !payload(c, 3, x, with, &n))
		return val_poison(c->place);
	Op *op = sort(c, x, axis, descending, n > 0);
	return n ? with_payload(c, op, axis, 1, with, n) : val_tile(c->place, op->out);
}

Val
order_argsort(Call *c)
{
	int axis;
	bool descending;
	Value *x = call_tile(c, 0, IS_ANY);
	if (!x || !call_axis(c, 1, x->type->rank, &axis) || !call_bool(c, 2, &descending))
		return val_poison(c->place);
	return val_tile(c->place, &sort(c, x, axis, descending, true)->out[1]);
}

Val
order_topk(Call *c)
{
	Elab *e = c->e;
	int axis, n;
	int64_t k;
	Value *x = call_tile(c, 0, IS_NUMBER), *with[MOST_WITH];
	if (!x || !call_int(c, 1, &k) || !call_axis(c, 2, x->type->rank, &axis) || !payload(c, 3, x, with, &n))
		return val_poison(c->place);
	if (k < 1 || k > x->type->extent[axis])
		return val_error(e, c->arg[1].place, DIAG_TOPK_RANGE,
		    (long long)x->type->extent[axis], (long long)k);
	Attr attr[] = {attr_new_axis(e->m, axis), attr_new_k(e->m, k)};
	Op *op = op_make(&e->b, OP_TOPK, &x, 1, attr, 2, NULL, 0);
	return with_payload(c, op, axis, 2, with, n);
}

Val
order_histogram(Call *c)
{
	Elab *e = c->e;
	int64_t bins;
	Value *x = call_tile(c, 0, IS_INT);
	if (!x || !call_int(c, 1, &bins) || !shape_check(e, c->arg[1].place, 1, &bins))
		return val_poison(c->place);
	if (call_has(c, 2)) {
		/* What the mask leaves out becomes -1, which is no bin. */
		Value *mask = call_tile(c, 2, IS_BOOL);
		mask = mask ? ir_broadcast(e, mask, x->type->rank, x->type->extent, c->arg[2].place) : NULL;
		if (!mask)
			return val_poison(c->place);
		x = ir_convert(e, x, TY_I64);
		x = build3(&e->b, OP_SELECT, mask, x, build_int(&e->b, x->type, -1));
	}
	Attr attr = attr_new_bins(e->m, bins);
	return val_tile(c->place, op_make(&e->b, OP_HISTOGRAM, &x, 1, &attr, 1, NULL, 0)->out);
}

/* As NumPy's x[index]: x of rank 1 takes an index of any shape, which is the result's. */
static Val
gather_row(Call *c, Value *x, Value *index)
{
	Elab *e = c->e;
	const Type *t = index->type;
	int64_t count = type_count(t);
	Attr attr = attr_new_axis(e->m, 0);
	Value *flat = ir_reshape(e, index, 1, &count);
	Value *v = op_make(&e->b, OP_GATHER, (Value *[]){x, flat}, 2, &attr, 1, NULL, 0)->out;
	return val_tile(c->place, ir_reshape(e, v, t->rank, t->extent));
}

Val
order_gather(Call *c)
{
	Elab *e = c->e;
	int axis;
	Value *x = call_tile(c, 0, IS_ANY), *index = x ? call_tile(c, 1, IS_INT) : NULL;
	if (!index || !call_axis(c, 2, x->type->rank, &axis))
		return val_poison(c->place);
	if (x->type->rank == 1 && index->type->rank != 1)
		return gather_row(c, x, index);
	bool fits =
	    index->type->rank == x->type->rank &&
	    ALL_OF(d, x->type->rank, d == axis || index->type->extent[d] == x->type->extent[d]);
	if (!fits) {
		diag_error(e->cx, c->arg[1].place, DIAG_GATHER_SHAPE, type_shape_text(e, index->type),
		    type_shape_text(e, x->type), axis);
		diag_help(e->cx, "the index has the tile's shape but for the axis");
		return val_poison(c->place);
	}
	Attr attr = attr_new_axis(e->m, axis);
	return val_tile(c->place, op_make(&e->b, OP_GATHER, (Value *[]){x, index}, 2, &attr, 1, NULL, 0)->out);
}

/* An index as the op takes it, of x's shape but for the axis: one of rank 1, or a scalar, is of whole rows. */
static Value *
scatter_index(Call *c, const Value *x, Value *index, int axis)
{
	Elab *e = c->e;
	int64_t extent[MAX_RANK], row[MAX_RANK];
	const Type *t = index->type;
	bool rows = t->rank == 0 || (t->rank == 1 && x->type->rank > 1), fits = rows || t->rank == x->type->rank;
	for (int d = 0; d < x->type->rank; d++) {
		row[d] = d == axis && t->rank ? t->extent[0] : 1;
		extent[d] = d == axis ? row[d] : x->type->extent[d];
		fits = fits && (rows || d == axis || t->extent[d] == extent[d]);
	}
	if (!fits) {
		diag_error(e->cx, c->arg[1].place, DIAG_SCATTER_SHAPE, type_shape_text(e, t), type_shape_text(e, x->type),
		    axis);
		diag_help(e->cx,
		    "the index has the tile's shape but for the axis, or is of whole rows: a scalar or of rank 1");
		return NULL;
	}
	if (!rows)
		return index;
	return ir_broadcast(e, ir_reshape(e, index, x->type->rank, row), x->type->rank, extent, c->arg[1].place);
}

/* Values of the index's shape; a scalar index is of one row, without the axis. */
static Value *
scatter_values(Call *c, const Value *x, const Value *index, bool one_row, int axis)
{
	Elab *e = c->e;
	const Type *t = index->type;
	int64_t extent[MAX_RANK];
	int rank = 0;
	for (int d = 0; d < t->rank; d++)
		if (d != axis || !one_row)
			extent[rank++] = t->extent[d];
	Value *v = stored_value(e, c->def->name, &c->arg[2].val, x->type->elem, rank, extent, c->arg[2].place);
	return v && one_row ? ir_reshape(e, v, t->rank, t->extent) : v;
}

Val
order_scatter(Call *c)
{
	Elab *e = c->e;
	int axis;
	const char *fn = call_word(c, 4);
	if (!fn)
		return val_poison(c->place);
	bool sets = strcmp(fn, "set") == 0, adds = strcmp(fn, "add") == 0;
	Value *x = call_tile(c, 0, sets ? IS_ANY | IS_PACKED : adds ? IS_NUMBER : IS_ANY);
	Value *given = x ? call_tile(c, 1, IS_INT) : NULL;
	if (!given || !call_axis(c, 3, x->type->rank, &axis))
		return val_poison(c->place);
	Value *index = scatter_index(c, x, given, axis);
	Value *values = index ? scatter_values(c, x, index, given->type->rank == 0, axis) : NULL;
	if (!values)
		return val_poison(c->place);
	Attr attr[] = {attr_new_axis(e->m, axis), attr_new_fn(e->m, fn)};
	return val_tile(c->place, op_make(&e->b, OP_SCATTER, (Value *[]){x, index, values}, 3, attr, 2, NULL, 0)->out);
}
