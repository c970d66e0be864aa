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

/* The dimension that is the row; -1: none is. */
static inline int
strip_dim(const Strip *s, const Type *t)
{
	return t->kind == TYPE_TILE ? FIRST_OF(d, t->rank, t->extent[d] == s->row) : -1;
}

static inline bool
strip_is_row(const Strip *s, const Value *v)
{
	return strip_dim(s, v->type) >= 0;
}

/* strip_reason.c */

/* The longest last dimension of what is read, or dimension that is reduced. */
int64_t strip_longest_row(const Func *f);
/* The operand that is the start of the row in the tensor; 0: there is none. */
int strip_row_index(const Strip *s, const Op *op);
/* Where the greatest, the greatest few or the least element is, which loops carry beside that element. */
bool strip_finds_place(const Op *reduce);
bool strip_is_of(const Op *reduce, const char *fn);
bool strip_touches(const Strip *s, const Op *op);               /* has it elements of the row? */
bool strip_is_renewed(const Strip *s, const Op *access);
const char *strip_reason(const Strip *s);                       /* why the kernel cannot be walked; NULL: it can */

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
