/* Operands that a kernel before computes a row at a time (pass materialize). */
#ifndef TEGULA_MATERIALIZE_H
#define TEGULA_MATERIALIZE_H

#include "ir/ir.h"

/* An operand v of the loop's product, computed from what `slice` has by Value.id. */
typedef struct MadeRows {
	Func *f;
	Op *loop;
	Value *v;
	const bool *slice;
	signed char (*label)[MAX_RANK];                 /* by Value.id: what each dimension goes along */
	bool *is_known, gathers;
} MadeRows;

/* Is an element the same wherever tiles begin, and does a gather along rows of a tensor bring it? */
bool made_rows_find(MadeRows *r);
/* Its row of that number, n elements from k on: a tile whose other dimension is 1. */
Value *made_rows_part(MadeRows *r, Builder *b, Value *row, Value *k, int64_t n);

#endif
