/* The order family: sort, topk, histogram, gather of tile values. */
#include "sema/builtin.h"

#include <string.h>

Val
order_sort(Call *c)
{
	Elab *e = c->e;
	int axis;
	bool descending;
	Value *x = call_tile(c, 0, IS_ANY);
	if (!x || !call_axis(c, 1, x->type->rank, &axis) || !call_bool(c, 2, &descending))
		return val_poison(c->place);
	Attr attr[] = {attr_int(e->m, "axis", axis), attr_bool(e->m, "descending", true)};
	return val_tile(c->place, op_make(&e->b, OP_SORT, &x, 1, attr, 1 + descending, NULL, 0)->out);
}

Val
order_topk(Call *c)
{
	Elab *e = c->e;
	int axis;
	int64_t k;
	Value *x = call_tile(c, 0, IS_NUMBER);
	if (!x || !call_int(c, 1, &k) || !call_axis(c, 2, x->type->rank, &axis))
		return val_poison(c->place);
	if (k < 1 || k > x->type->extent[axis]) {
		diag_error(e->cx, c->arg[1].place, DIAG_TOPK_RANGE, (long long)x->type->extent[axis], (long long)k);
		return val_poison(c->place);
	}
	Attr attr[] = {attr_int(e->m, "axis", axis), attr_int(e->m, "k", k)};
	Op *op = op_make(&e->b, OP_TOPK, &x, 1, attr, 2, NULL, 0);
	Val out[2] = {val_tile(c->place, &op->out[0]), val_tile(c->place, &op->out[1])};
	return val_tuple(e, c->place, out, 2);
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
	Attr attr = attr_int(e->m, "bins", bins);
	return val_tile(c->place, op_make(&e->b, OP_HISTOGRAM, &x, 1, &attr, 1, NULL, 0)->out);
}

Val
order_gather(Call *c)
{
	Elab *e = c->e;
	int axis;
	Value *x = call_tile(c, 0, IS_ANY), *index = x ? call_tile(c, 1, IS_INT) : NULL;
	if (!index || !call_axis(c, 2, x->type->rank, &axis))
		return val_poison(c->place);
	bool fits = index->type->rank == x->type->rank;
	for (int d = 0; fits && d < x->type->rank; d++)
		fits = d == axis || index->type->extent[d] == x->type->extent[d];
	if (!fits) {
		diag_error(e->cx, c->arg[1].place, DIAG_GATHER_SHAPE, type_shape_text(e, index->type),
		    type_shape_text(e, x->type), axis);
		diag_help(e->cx, "the index has the tile's shape but for the axis");
		return val_poison(c->place);
	}
	Attr attr = attr_int(e->m, "axis", axis);
	return val_tile(c->place, op_make(&e->b, OP_GATHER, (Value *[]){x, index}, 2, &attr, 1, NULL, 0)->out);
}
