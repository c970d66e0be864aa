/* Sums of products in parts, which a kernel before computes: parts.c is the pass, parts_rows.c takes some rows of what
 * follows the sums. */
#ifndef TEGULA_PARTS_H
#define TEGULA_PARTS_H

#include "ir/ir.h"

/* What is known of the values of a function whose loop goes, by Value.id: of those that a block computes for some rows of
 * the sums, the dimension that goes along these. */
typedef struct PartRows {
	Func *f;
	Op *loop;
	int64_t whole, some;                            /* rows of the sums; of a block */
	signed char *along;                             /* ROWS_WHOLE: it is needed as it is */
	Value **map, *first;                            /* with its rows alone; the number of the first of them */
} PartRows;
enum { ROWS_OPEN = 0, ROWS_WHOLE = -1 };                /* else 1 + the dimension */

/* Labels what follows the loop, and what that needs; NULL, or why a block cannot do it for some rows alone. */
const char *part_rows_find(PartRows *r);
/* Makes them, of the n ops that the body had, for the rows from `first` on; `sums` are those rows of what the loop adds
 * up.  What was there goes. */
void part_rows_build(PartRows *r, Op *const *was, int n, Value *first, Value *const *sums);

#endif
