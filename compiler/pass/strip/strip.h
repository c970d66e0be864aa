/* What the files of pass strip share: the row that is walked in parts, and what comes of the greatest few of one. */
#ifndef TEGULA_STRIP_H
#define TEGULA_STRIP_H

#include "ir/derive.h"
#include "pass/pass.h"

typedef struct RowOp {
	Op *op;
	bool on_row;                                    /* it takes or makes elements of the row */
	bool is_sink;                                   /* what a loop is for: a reduction or write of the row */
	bool is_pick;                                   /* finds elements of the row at places that a topk gives */
	int level;                                      /* reductions of the row before it, in turn */
} RowOp;

typedef struct Strip {
	Module *m;
	Func *f;
	int64_t row, part;
	VEC(RowOp) ops;                                 /* of the body, as they were */
	int levels;
	bool *needed;                                   /* by the present loop; by the value's id, as the next one */
	Value **map;                                    /* the copies of that loop */
	Op *loop;
	Value *k;                                       /* its index */
} Strip;

/* The last dimension is the row. */
static inline bool
strip_is_row(const Strip *s, const Value *v)
{
	const Type *t = v->type;
	return t->kind == TYPE_TILE && t->rank > 0 && t->extent[t->rank - 1] == s->row;
}

/* strip_topk.c: the greatest few of a row, or of several rows one after the other */

/* The row's elements that the topk chooses from: its operand, or what a reshape makes that of; NULL: it is of no row. */
Value *strip_topk_source(const Strip *s, const Op *op);
/* Why such a topk, or a reshape for one, cannot be walked; NULL: it can. */
const char *strip_topk_reason(const Strip *s, const Op *topk);
/* found[0]: of each position the greatest element met there, NaN first; found[1]: where the part begins that it was met
 * in.  Gives the topk's results. */
void strip_topk_end(Strip *s, Builder *b, const Op *topk, Value *found, Value **out);
/* What a gather by a topk's indices finds in a row; NULL: the op is no such gather. */
bool strip_is_pick(const Strip *s, const Op *op);
Value *strip_pick(Strip *s, Builder *b, const Op *gather);

#endif
