/* How the layouts of an op's operands and results belong together.
 *
 * Each op has one layout, its anchor, from which all others follow:
 *
 *     elementwise, load, atomic, scan, sort …    the one that operands and results share
 *     read, dot, broadcast, gather, split        the result's
 *     write, store, reduce, reshape, permute …   the operand's
 *
 *     %s = reduce %v {axis = 1} : f32[32] #1     anchor #0 of %v; #1 is #0 with dimension 1 summed away
 *
 * Where a result's layout follows from more, broadcasts over registers are dropped: no thread holds an element
 * twice. */
#ifndef TEGULA_ANCHOR_H
#define TEGULA_ANCHOR_H

#include "pass/pass.h"
#include "target/target.h"

/* A tile: what has a layout. */
static inline bool
value_is_placed(const Value *v)
{
	return v->type->kind == TYPE_TILE && v->type->rank > 0;
}

/* The layout that operand i must have with that anchor; NULL: any will do. */
const Layout *anchor_operand(const Op *op, const Layout *anchor, int i);
/* The layout of result i. */
const Layout *anchor_result(const Op *op, const Layout *anchor, int i);
/* The anchor that gives operand i or result i the layout `l`; NULL if none does, or many. */
const Layout *anchor_of_operand(const Op *op, int i, const Layout *l);
const Layout *anchor_of_result(const Op *op, int i, const Layout *l);
/* Does the op have an anchor?  Control, yields, conversions and ops whose operands and results may have any layout have
 * none. */
bool anchor_exists(const Op *op);
/* The type of the tile whose layout the anchor is. */
const Type *anchor_type(const Op *op);

/* An access of whole records of words that are no power of two, of its tensor's last dimensions: log2 of the elements
 * that a tile has for each; 0: it is none. */
int access_record_bits(const Op *op);

/* dot_operand.c: the layouts that a matrix instruction requires of operands a and b (0, 1), from its accumulator's; NULL
 * where the dot is made of multiplications, which takes any. */
const Layout *dot_operand(const Op *op, const Layout *acc, int which);

#endif
