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
	int64_t room;                                   /* bytes of scratch that there may be */
	int threads;                                    /* of the block */
	uint64_t repeats;                               /* register bits */
	Reg (*at)[MOST_STATE];                          /* by register */
} Sort;

/* order.c */
Reg sort_less(const Sort *s, const Reg *a, const Reg *b);
/* Bits of the axis above the lowest `kept`, registers first: the order in which runs are halved.  Returns how many. */
int sort_halvings(const Sort *s, int kept, int *bit);
void sort_select(const Sort *s, Reg pred, const Reg *a, const Reg *b, Reg *out);
/* What the thread whose number differs in bit i of `in` holds where this one holds v[0] .. v[n - 1]. */
void sort_across(const Sort *s, InDim in, int i, Reg (*v)[MOST_STATE], int n, Reg (*out)[MOST_STATE]);
/* Scratch for that between warps, where each thread gives all of its states. */
int64_t sort_trip_bytes(const Sort *s);
/* Elements across bit j of the axis are put in order, falling where bit `by` of their position is set. */
void sort_exchange(Sort *s, int j, int by);
/* Of each two elements across bit j the lesser stays, in both places. */
void sort_keep_lesser(Sort *s, int j);

/* order_loops.c: where registers would take too much code */
bool sort_is_long(const Sort *s, int kept);             /* the first 2^kept are wanted */
/* Sorts all states in scratch; then each register has the state at its place in `result`, whose inputs are s->layout's. */
void sort_by_loops(Sort *s, const Layout *result);
/* Scratch for `count` states; the access of register k of one, its offset to be set. */
int64_t sort_part_bytes(const Sort *s, int64_t count);
EmitAccess sort_access(const Sort *s, int k, Reg base, int64_t count);
/* Runs of 2^first and longer up to 2^last, of `count` states in scratch; the longest fall if `falls`. */
void sort_network(const Sort *s, Reg base, int64_t count, int first, int last, bool falls);

/* order_parts.c: where they are more than scratch has room for */

/* A bit of registers and one of lanes or warps that change places. */
typedef struct SortSwap {
	int reg;
	InDim in;
	int bit;
} SortSwap;

typedef struct LineBit {
	int dim, bit;
} LineBit;

/* Elements whose registers' numbers agree in n bits are a part. */
typedef struct SortParts {
	uint64_t registers;
	int n, low;                                     /* low: bits of the axis that a part has, its lowest */
	LineBit line[F2_MAX];                           /* what else they move: bits of other dimensions */
	int nline, nswap;
	SortSwap swap[F2_MAX];
} SortParts;

/* Finds parts that there is room for; s->layout is then as after the swaps.  False: there are none. */
bool sort_plan_parts(Sort *s, SortParts *p);
int64_t sort_parts_bytes(const Sort *s, const SortParts *p);
/* Sorts the states; the first 2^kept of the axis are wanted.  Gives the layout in which registers hold them. */
Layout sort_by_parts(Sort *s, const SortParts *p, int kept);

#endif
