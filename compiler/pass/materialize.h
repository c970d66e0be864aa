/* Operands that a kernel before computes a row at a time, and results that a kernel behind writes (pass materialize). */
#ifndef TEGULA_MATERIALIZE_H
#define TEGULA_MATERIALIZE_H

#include "ir/ir.h"
#include "model/digits/digits.h"

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

/* Of x[k +: 64, j +: 64, i], whose tile has one element of each row: how many programs, neighbours along an axis of the
 * grid that they divide, together have a sector of each; 0: fewer than two, or another access. */
int made_neighbours(const Func *f, const Op *access, const Type *tile, int *axis);
/* This program's number among those along the axes, the first one slowest and the one of neighbours (or -1) fastest;
 * *programs, unless NULL: how many. */
Value *made_number(Builder *b, const Func *f, unsigned axes, int fast, Value **programs);
/* Of the tile of neighbours together, as much of its depth as registers hold; a loop over such parts; the index of an
 * access that dimension d of its tile has. */
int64_t made_part(const MadeTensor *m, int depth);
Op *made_parts(Builder *b, int64_t all, int64_t n, Builder *inside);
int made_dim(const Op *access, int d);

typedef struct MadeResult {
	Op *write;
	MadeTensor made;
	bool *slice;                                    /* by Value.id: what its indices are computed from */
	int fast;
} MadeResult;

int made_results_find(const Func *f, MadeResult *out, int most);
/* The write goes to `tensor`, by this kernel; from n tensors to where they went, by the kernel behind. */
void made_result_keep(const MadeResult *r, const Func *f, Value *tensor);
void made_results_last(Func *f, const MadeResult *r, int n, Value *tensor);

#endif
