/* What the files of sorting share. */
#ifndef TEGULA_ORDER_H
#define TEGULA_ORDER_H

#include "lower/fold.h"

/* The state of an element: key (with the index in its low half, or apart), then what else goes along. */
typedef struct Sort {
	Lower *l;
	SortPlan p;
	bool falls;
	RegType type[SORT_STATE];
	Layout layout;                                  /* in which registers hold states now … */
	AxisBits axis;                                  /* … and its axis's bits */
	uint64_t repeats;                               /* register bits that hold no other state */
	Reg (*at)[SORT_STATE];                          /* by register */
} Sort;

/* order.c */
Reg sort_less(const Sort *s, const Reg *a, const Reg *b);
void sort_select(const Sort *s, Reg pred, const Reg *a, const Reg *b, Reg *out);
/* What the thread whose number differs in bit i of `in` holds where this one holds v[0] .. v[n - 1]. */
void sort_across(const Sort *s, InDim in, int i, Reg (*v)[SORT_STATE], int n, Reg (*out)[SORT_STATE]);
/* Elements across bit j of the axis are put in order, falling where bit `by` of their position is set. */
void sort_exchange(Sort *s, int j, int by);
/* Of each two elements across bit j the lesser stays, in both places. */
void sort_keep_lesser(Sort *s, int j);

/* order_loops.c: where registers would take too much code */
/* Sorts all states in scratch; then each register has the state at its place in `result`, whose inputs are s->layout's. */
void sort_by_loops(Sort *s, const Layout *result);
/* The access of register k of one, its offset to be set. */
EmitAccess sort_access(const Sort *s, int k, Reg base, int64_t count);
/* Runs of 2^first and longer up to 2^last, of `count` states in scratch; the longest fall if `falls`. */
void sort_network(const Sort *s, Reg base, int64_t count, int first, int last, bool falls);

/* order_parts.c: where they are more than scratch has room for */

/* Sorts the states; registers then hold them in the plan's `result`. */
void sort_by_parts(Sort *s);

#endif
