/* What the files of this folder share: how a reduction or scan combines two states, states on their way between warps, and
 * the parts of a sort. */
#ifndef TEGULA_ACROSS_H
#define TEGULA_ACROSS_H

#include "lower/lower.h"

/* How a reduction or scan combines states of several registers. */
typedef struct Combine {
	Lower *l;
	const ReducePlan *p;
	RegType type[STATE_MAX];                        /* of a state's registers */
	DType from, to;                                 /* elements that enter, and results */
	bool is_least, is_signed, propagates_nan;
} Combine;

void combine_open(Combine *f, Lower *l, const ReducePlan *p);
bool combine_has_index(const Combine *f);
/* The state of one element (one register a tile of the tuple); index: its REG_I32 position along the axis, or 0. */
void combine_enter(const Combine *f, const Reg *element, Reg index, Reg *state);
/* a comes before b; out may be either. */
void combine_states(const Combine *f, const Reg *a, const Reg *b, Reg *out);
/* What changes nothing (sums and products); false: there is no such thing. */
bool combine_identity(const Combine *f, Reg *state);
void combine_leave(const Combine *f, const Reg *state, Reg *result);
/* pred ? a : b, each register. */
void combine_select(const Combine *f, Reg pred, const Reg *a, const Reg *b, Reg *out);
/* The state of the lane whose number differs by `mask`. */
void combine_lane_xor(const Combine *f, const Reg *state, int mask, Reg *out);

/* Writes the states of nregs registers; state[i] is the i'th; the caller's barrier comes next. */
void exchange_write(const Combine *f, const WarpExchange *t, Reg base, Reg *const *state, int nregs);
/* The 2^group->n states of register number i that the warps of this one's group wrote, in order. */
void exchange_read(const Combine *f, const WarpExchange *t, Reg base, int i, int nregs, Reg **out);
/* The state of the warp whose position in the group is this lane's number, modulo 2^group->n. */
void exchange_read_by_lane(const Combine *f, const WarpExchange *t, Reg base, Reg *out);

/* combine.c: floats as integers of their width in the same order (-0 as 0); a NaN is the greatest of all, or the least. */
Reg lower_float_key(Lower *l, RegType t, Reg x, bool nan_is_greatest);

/* Masks and loops over the set bits of a mask as subsets: 0, then each next, then 0 again. */
static inline uint64_t subset_next(uint64_t at, uint64_t mask) { return (at - mask) & mask; }

/* ---- sorts ---- */

/* The state of an element: its key (with the index in the low half, or apart), then the element where the key does not give
 * it back. */
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
/* Of each two elements across bit j the lesser is left in both positions. */
void sort_keep_lesser(Sort *s, int j);

/* order_loops.c: where registers would take too much code */
/* The place in scratch of register k of state `number`: a linear map over F2. */
uint64_t sort_offset(const Sort *s, int k, uint64_t number);
/* The access of register k of one, but for its offset; and by it, with an offset, a register to scratch or back. */
ThreadAccess sort_access(const Sort *s, int k, Reg base, int64_t count);
void sort_move(const Sort *s, ThreadAccess *a, Reg offset, int64_t constant, Reg *state, bool back);
/* Runs of 2^first and longer up to 2^last, of `count` states in scratch; the longest fall if `falls`. */
void sort_network(const Sort *s, Reg base, int64_t count, int first, int last, bool falls);

/* order_parts.c: also where they are more than scratch has room for */

/* Sorts the states; registers then hold them in the plan's `result`. */
void sort_by_parts(Sort *s);

void lower_histogram(Lower *l, Op *op);                   /* histogram.c */

#endif
