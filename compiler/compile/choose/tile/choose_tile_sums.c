/* Sums over a part of the grid, which atomics add to those of other programs (choose_tile.c):
 *
 *     %part = dot %ds.T, %key, 0                      of BM x B and B x 64: B keys of the program
 *     atomic %dq, %s, 0, (%part * %scale) {fn = "add"}
 *
 * What a program of 2 B keys adds is what two of B do, but for rounding, where all of its keys are there: the dimension is
 * a multiple of all sizes, as keys behind the end might make NaN of what multiplies them.  So it is with sum(t, axis = 1)
 * of a tile with B columns, of the program's part of each row. */
#include "compile/choose/tile/choose_tile.h"

#include <string.h>

/* Do larger tiles that cut the axis have no elements behind its end? */
static bool
is_divided(const Pair *x, int axis)
{
	const Expr *count = x->count[axis];
	for (int i = 0; i < x->b->nsymbol && count->kind == EX_NAME && !count->scope && x->by[axis] == 1; i++)
		if (strcmp(x->b->symbol[i].name, count->name) == 0)
			return x->b->symbol[i].value.i > 0 && x->b->symbol[i].value.i % SIDE_MOST == 0;
	return false;
}

bool
tile_sums_part(const Pair *x, const Op *a)
{
	const Part *left = tile_part(x, a->in[0]), *right = tile_part(x, a->in[1]);
	int axis = left->axis[1];
	if (a->out[0].type->rank != 2 || axis < 0 || axis == AXIS_STEP || axis != right->axis[0] || left->mirrored[1] ||
	    right->mirrored[0] || left->axis[0] != AXIS_NONE || right->axis[1] != AXIS_NONE || !value_is_zero(a->in[2]) ||
	    left->scale[1] != TILE_SCALE || right->scale[0] != TILE_SCALE || !is_divided(x, axis))
		return false;
	tile_part(x, &a->out[0])->sums = (int8_t)(axis + 1);
	return tile_all_plain(x, a);
}

bool
tile_sums_along(const Pair *x, const Op *a)
{
	const Part *p = tile_part(x, a->in[0]);
	int along = (int)attr_axis(a), axis = p->axis[along], rank = a->in[0]->type->rank;
	if (strcmp(attr_fn(a), "sum") != 0 || axis < 0 || axis == AXIS_STEP || !x->multiplies || x->loops > 0 ||
	    p->scale[along] != TILE_SCALE || !is_divided(x, axis) ||
	    ANY_OF(d, rank, d != along && p->axis[d] != AXIS_NONE))
		return false;
	tile_part(x, &a->out[0])->sums = (int8_t)(axis + 1);
	return tile_all_plain(x, a);
}

bool
tile_scales_sum(const Pair *x, const Op *a)
{
	for (int i = 0; i < 2 && a->nin == 2; i++)
		if (tile_part(x, a->in[i])->sums && tile_is_plain(x, a->in[1 - i]) && !tile_has_parts(x, a->in[1 - i])) {
			tile_part(x, &a->out[0])->sums = tile_part(x, a->in[i])->sums;
			return a->kind == OP_MUL;
		}
	return false;
}
