/* What ops that move elements, or see some together, do with parts of tiles (choose_tile.c). */
#include "compile/choose/tile/choose_tile.h"

/* A part is the slowest of the dimensions that become others: [2 B] to [B, 2]. */
bool
tile_visit_reshape(const Pair *x, const Op *a)
{
	const Value *v = a->in[0];
	Part *p = tile_part(x, &a->out[0]);
	const Part *q = tile_part(x, v);
	const Type *from = v->type, *to = a->out[0].type;
	int n = 0;
	if (q->differs || q->sums)
		return false;
	tile_keep_kind(x, a, q);
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

bool
tile_visit_permute(const Pair *x, const Op *a)
{
	const IntList *dims = attr_dims(a);
	return ALL_OF(d, a->out[0].type->rank, tile_take_axis(x, &a->out[0], d, a->in[0], (int)dims->at[d])) &&
	    tile_is_plain(x, a->in[0]);
}

/* Ops that see elements along an axis together, which is no part; `drops` it. */
bool
tile_visit_along(const Pair *x, const Op *a, bool drops)
{
	int axis = (int)attr_axis(a);
	for (int o = 0; o < a->nout; o++)
		for (int d = 0; d < a->out[o].type->rank; d++)
			if (!(a->kind == OP_TOPK && d == axis) &&
			    !tile_take_axis(x, &a->out[o], d, a->in[0], d + (drops && d >= axis)))
				return false;
	bool joins = tile_part(x, a->in[0])->axis[axis] == AXIS_STEP &&
	    (a->kind == OP_REDUCE || a->kind == OP_TOPK);
	return tile_all_plain(x, a) && (joins || !tile_is_part(x, a->in[0], axis));
}

/* Rows may be parts, and what indices there are in a row; not what they say an element of. */
bool
tile_visit_gather(const Pair *x, const Op *a)
{
	int axis = (int)attr_axis(a);
	Value *out = &a->out[0];
	for (int d = 0; d < out->type->rank; d++)
		if (!tile_take_axis(x, out, d, a->in[1], d) || (d != axis && !tile_take_axis(x, out, d, a->in[0], d)))
			return false;
	return tile_all_plain(x, a) && !tile_is_part(x, a->in[0], axis);
}

/* A part that is reversed is one in opposite order. */
bool
tile_visit_flip(const Pair *x, const Op *a)
{
	int axis = (int)attr_axis(a);
	if (!tile_is_part(x, a->in[0], axis))
		return tile_visit_along(x, a, false);
	if (!tile_all_plain(x, a) || !tile_parts_agree(x, a))
		return false;
	tile_part(x, &a->out[0])->mirrored[axis] = !tile_part(x, a->in[0])->mirrored[axis];
	return true;
}

/* join and split: the last dimension comes or goes. */
bool
tile_visit_pairs(const Pair *x, const Op *a)
{
	return !ANY_OF(o, a->nout,
		   ANY_OF(i, a->nin,
		       !ALL_OF(d, MIN(a->out[o].type->rank, a->in[i]->type->rank),
			   tile_take_axis(x, &a->out[o], d, a->in[i], d)))) &&
	    tile_all_plain(x, a);
}
