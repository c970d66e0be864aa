/* What the files of sorting share. */
#ifndef TEGULA_ORDER_H
#define TEGULA_ORDER_H

#include "lower/fold.h"

/* The state of an element: key (with the index in its low half, or apart), then what else goes along. */
enum { MOST_STATE = 3 };

typedef struct Sort {
	Lower *l;
	const Op *op;
	DType t;
	Layout layout;
	AxisBits axis;
	bool falls, is_wide;                            /* is_wide: 64-bit keys, the index apart */
	bool keeps_value;                               /* the element goes along */
	int n;                                          /* registers of a state */
	RegType type[MOST_STATE];
	uint64_t repeats;                               /* register bits */
	Reg (*at)[MOST_STATE];                          /* by register */
} Sort;

/* order.c */
Reg sort_less(const Sort *s, const Reg *a, const Reg *b);
/* Bits of the axis above the lowest `kept`, registers first: the order in which runs are halved.  Returns how many. */
int sort_halvings(const Sort *s, int kept, int *bit);
void sort_select(const Sort *s, Reg pred, const Reg *a, const Reg *b, Reg *out);

/* order_loops.c: where registers would take too much code */
bool sort_is_long(const Sort *s, int kept);             /* the first 2^kept are wanted */
/* Sorts all states in scratch; then each register has the state at its place in `result`, whose inputs are s->layout's. */
void sort_by_loops(Sort *s, const Layout *result);
int64_t sort_loops_bytes(const Sort *s);

#endif
