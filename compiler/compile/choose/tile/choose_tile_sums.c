/* Sums over a part of the grid, which atomics add to those of other programs (choose_tile.c):
 *
 *     %part = dot %ds.T, %key, 0                      of BM x B and B x 64: B keys of the program
 *     atomic %dq, %s, 0, (%part * %scale) {fn = "add"}
 *
 * What a program of 2 B keys adds is what two of B do, but for rounding, where all of its keys are there: the dimension is
 * a multiple of all sizes, as keys behind the end might make NaN of what multiplies them.  So it is with sum(t, axis = 1)
 * of a tile with B columns, of the program's part of each row; without products with sums of integers, the greatest and
 * the least of a part, and exclusive ors, which do not round. */
#include "compile/choose/tile/choose_tile.h"

#include <string.h>

/* Of the dimension that a name alone says and the size alone cuts; NULL: of another. */
static const Const *
axis_extent(const Pair *x, int axis)
{
	const Expr *count = x->count[axis];
	for (int i = 0; i < x->b->nsymbol && count->kind == EX_NAME && !count->scope && x->by[axis] == 1; i++)
		if (strcmp(x->b->symbol[i].name, count->name) == 0)
			return &x->b->symbol[i].value;
	return NULL;
}

/* Do larger tiles that cut the axis have no elements behind its end? */
static bool
is_divided(Pair *x, int axis)
{
	const Const *n = axis_extent(x, axis);
	if (!n || n->i <= 0 || n->i % SIDE_MOST != 0)
		return false;
	x->divides = SIDE_MOST;
	return true;
}

bool
tile_sums_part(Pair *x, const Op *a)
{
	const Part *left = tile_part(x, a->in[0]), *right = tile_part(x, a->in[1]);
	int axis = left->axis[1];
	if (a->out[0].type->rank != 2 || axis < 0 || axis == AXIS_STEP || axis != right->axis[0] || left->mirrored[1] ||
	    right->mirrored[0] || left->axis[0] != AXIS_NONE || right->axis[1] != AXIS_NONE || !value_is_zero(a->in[2]) ||
	    left->scale[1] != TILE_SCALE || right->scale[0] != TILE_SCALE || !is_divided(x, axis))
		return false;
	tile_part(x, &a->out[0])->sums = (int8_t)(axis + 1);
	tile_part(x, &a->out[0])->joins = "add";
	return tile_all_plain(x, a);
}

/* What a reduction over a part takes to come to that of two parts: an atomic's fn; or NULL. */
static const char *
joined_by(const Op *reduce)
{
	static const char *const pair[][2] = {{"sum", "add"}, {"max", "max"}, {"min", "min"}, {"xor_sum", "xor"}};
	return VALUE_OF(i, LEN(pair), strcmp(attr_fn(reduce), pair[i][0]) == 0 && !attr_propagate_nan(reduce), pair[i][1],
	    NULL);
}

/* Without products: the size by the header divides the dimension, and so do those that are tried. */
static bool
divides(Pair *x, int axis)
{
	const Const *n = axis_extent(x, axis);
	if (!n || n->i <= 0 || !is_power_of_two(x->given) || n->i % x->given != 0)
		return false;
	x->divides = MIN(x->divides ? x->divides : DIVIDES_MOST, n->i & -n->i);
	return true;
}

bool
tile_sums_along(Pair *x, const Op *a)
{
	const Part *p = tile_part(x, a->in[0]);
	int along = (int)attr_axis(a), axis = p->axis[along], rank = a->in[0]->type->rank;
	const char *joins = joined_by(a);
	bool is_sum = joins && strcmp(joins, "add") == 0, is_exact = !dtype_is_float(a->out[0].type->elem);
	if (!joins || axis < 0 || axis == AXIS_STEP || x->loops > 0 || (x->multiplies ? !is_sum : is_sum && !is_exact) ||
	    ANY_OF(d, rank, d != along && p->axis[d] != AXIS_NONE) ||
	    !(x->multiplies ? p->scale[along] == TILE_SCALE && is_divided(x, axis) : divides(x, axis)))
		return false;
	tile_part(x, &a->out[0])->sums = (int8_t)(axis + 1);
	tile_part(x, &a->out[0])->joins = joins;
	return tile_all_plain(x, a);
}

bool
tile_scales_sum(const Pair *x, const Op *a)
{
	for (int i = 0; i < 2 && a->nin == 2; i++) {
		const Part *p = tile_part(x, a->in[i]);
		if (p->sums && tile_is_plain(x, a->in[1 - i]) && !tile_has_parts(x, a->in[1 - i])) {
			tile_part(x, &a->out[0])->sums = p->sums;
			tile_part(x, &a->out[0])->joins = p->joins;
			return a->kind == OP_MUL && strcmp(p->joins, "add") == 0;
		}
	}
	return false;
}
