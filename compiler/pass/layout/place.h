/* How the layouts of an op's operands and results belong together.
 *
 * Each op has one layout, its place, from which all others follow:
 *
 *     elementwise, load, atomic, scan, sort …    the one that operands and results share
 *     read, dot, broadcast, gather, split        the result's
 *     write, store, reduce, reshape, permute …   the operand's
 *
 *     %s = reduce %v {axis = 1} : f32[32] #1     place #0 of %v; #1 is #0 with dimension 1 summed away
 *
 * Where a result's layout follows from more, broadcasts over registers are dropped: no thread holds an element
 * twice. */
#ifndef TEGULA_PLACE_H
#define TEGULA_PLACE_H

#include "pass/pass.h"
#include "target/target.h"

/* A tile: what has a layout. */
static inline bool
value_is_placed(const Value *v)
{
	return v->type->kind == TYPE_TILE && v->type->rank > 0;
}

/* The op's place decides about operand i: place_operand gives the layout it must have.  NULL: any will do. */
const Layout *place_operand(const Op *op, const Layout *place, int i);
/* The layout of result i. */
const Layout *place_result(const Op *op, const Layout *place, int i);
/* The place that gives operand i or result i the layout `l`; NULL if none does, or many. */
const Layout *place_of_operand(const Op *op, int i, const Layout *l);
const Layout *place_of_result(const Op *op, int i, const Layout *l);
/* Does the op have a place at all?  Control, yields, conversions and ops whose operands may be anywhere and whose results
 * are anywhere have none. */
bool place_exists(const Op *op);
/* Operands may be in any layout, and so may the results, which share one: topk, histogram, extract … */
bool place_is_free(const Op *op);
/* The type of the tile that the place lays out. */
const Type *place_type(const Op *op);

/* dot_place.c: the layouts that a matrix instruction asks of operands a and b (0, 1), from that of the accumulator; NULL
 * where the dot is made of multiplications, which takes any. */
const Layout *dot_operand(const Op *op, const Layout *acc, int which);
/* `fragment` in the last two dimensions of a tile of that type, with the warps of `acc`, which does not have dimension
 * `lost`; the rest over registers. */
Layout fragment_spread(const Layout *fragment, const Type *type, const Layout *acc, int lost);

#endif
