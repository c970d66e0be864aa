/* The greatest few of a row, which a loop carries from part to part (choose_tile_join.c):
 *
 *     %t, %i = topk %part {k = 8}                         of what the trip reads
 *     %s, %j = topk (cat %top, %t) {k = 8}                the greatest before come first, as the first of equals wins
 *     yield %s, gather (cat %at, %i + %c), %j             and where they are, counted from the row's start
 *
 * Of two parts, one after the other or as one, the same elements are left, in the same order. */
#include "compile/choose/tile/choose_tile.h"

static const Op *
topk_of(const Value *v, int result)
{
	const Op *op = v->def;
	return op && op->kind == OP_TOPK && &op->out[result] == v && op->out[0].type->rank == 1 ? op : NULL;
}

/* What stands behind a carried value in a cat of two; NULL: v is something else. */
static const Value *
behind_carried(const Value *v, const Value *carried)
{
	const Op *op = v->def;
	return op && op->kind == OP_CAT && op->nin == 2 && op->in[0] == carried ? op->in[1] : NULL;
}

/* Of a trip's own elements along what the step cuts: at least so many as the state has. */
static const Op *
own_top(const Pair *x, const Value *v, const Value *state, const bool *late)
{
	const Op *op = topk_of(v, 0);
	bool is_own = op && tile_part(x, op->in[0])->axis[0] == AXIS_STEP && !late[op->in[0]->id];
	return is_own && v->type->extent[0] >= state->type->extent[0] ? op : NULL;
}

/* The op that joins the greatest so far, carried as argument i, with the trip's own, *own; NULL: i is none such. */
static const Op *
joins_top(const Pair *x, const Op *loop, int i, const bool *late, const Op **own)
{
	const Block *body = loop->region[0];
	const Op *op = topk_of(body->last->in[i - 1], 0);
	const Value *behind = op ? behind_carried(op->in[0], &body->arg[i]) : NULL;
	*own = behind ? own_top(x, behind, &body->arg[i], late) : NULL;
	return *own ? op : NULL;
}

const Value *
tile_top_place(const Pair *x, const Value *v)
{
	const Op *op = v->def;
	for (int i = 0; i < 2 && op && op->kind == OP_ADD; i++) {
		const Part *start = tile_part(x, op->in[1 - i]);
		const Op *top = topk_of(op->in[i], 1), *cast = op->in[i]->def;
		if (!top && cast && cast->kind == OP_CAST)
			top = topk_of(cast->in[0], 1);
		const Part *of = top ? tile_part(x, top->in[0]) : NULL;
		if (of && of->axis[0] == AXIS_STEP && of->scale[0] == TILE_SCALE && !of->mirrored[0] &&
		    start->start == AXIS_STEP && start->times[0] == x->size && start->times[1] == 2 * x->size &&
		    !start->ends && !start->of && !start->is_local)
			return op->in[i];
	}
	return NULL;
}

bool
tile_keeps_top(const Pair *x, const Op *loop, int i, const bool *late)
{
	const Block *body = loop->region[0];
	const Op *own, *op = body->last->in[i - 1]->def;
	if (joins_top(x, loop, i, late, &own))
		return true;
	const Value *behind = op && op->kind == OP_GATHER ? behind_carried(op->in[0], &body->arg[i]) : NULL;
	const Value *place = behind ? tile_top_place(x, behind) : NULL;
	for (int k = 1; k < body->narg && place; k++) {
		const Op *join = joins_top(x, loop, k, late, &own);
		const Op *of = place->def->kind == OP_CAST ? place->def->in[0]->def : place->def;
		if (join && of == own && op->in[1] == &join->out[1])
			return true;
	}
	return false;
}
