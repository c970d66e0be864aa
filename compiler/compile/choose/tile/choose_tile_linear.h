/* Linear forms of indices (choose_tile_linear.c) and trips that are idle (choose_tile_idle.c), for what loops do behind
 * their ends and before their starts (choose_tile_end.c). */
#ifndef TEGULA_CHOOSE_TILE_LINEAR_H
#define TEGULA_CHOOSE_TILE_LINEAR_H

#include "compile/choose/tile/choose_tile.h"

enum { TERMS = 8, DEEP = 12 };

/* Scalars times numbers, plus something from lo to hi, element by element. */
typedef struct Linear {
	const Value *of[TERMS];
	int64_t by[TERMS];
	int n;
	int64_t lo, hi;
	const Pair *pair;                               /* of lower bounds: rows that are written count alone; or NULL */
} Linear;

/* All are false where a form has too many terms, or numbers overflow. */
bool linear_add_term(Linear *x, const Value *v, int64_t by);
bool linear_add_number(Linear *x, int64_t lo, int64_t hi);
/* Adds y, or a value, times `by`. */
bool linear_add(Linear *x, const Linear *y, int64_t by);
/* The first of the casts of an integer to i64, which stands for all; NULL: there is none. */
const Value *linear_cast(const Value *v);
bool linear_add_value(Linear *x, const Value *v, int64_t by, int depth);
int64_t linear_factor(const Linear *x, const Value *v);

/* Is each carried value what it was after a trip whose index, times `per`, is at or behind all of some ends? */
bool tile_idles_behind(const Pair *p, const Op *loop, const Linear *end, int n, int64_t per);
/* Is what the loop begins with as it was after a trip whose index is at or before `last`? */
bool tile_idles_before(const Pair *p, const Op *loop, const Linear *last);

#endif
