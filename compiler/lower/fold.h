/* What reductions and scans share: the fold itself, on registers, and how an axis lies in a layout. */
#ifndef TEGULA_FOLD_H
#define TEGULA_FOLD_H

#include "lower/lower.h"

/* The combine of a reduction or scan on registers. */
typedef struct Fold {
	Lower *l;
	const ReducePlan *p;
	RegType type[STATE_MAX];                        /* of a state's registers */
	DType from, to;                                 /* elements that enter, and results */
	bool is_least, is_signed, propagates_nan;
} Fold;

void fold_open(Fold *f, Lower *l, const ReducePlan *p);
bool fold_wants_index(const Fold *f);
/* The state of one element (one register a tile of the tuple); index: its REG_I32 place along the axis, or 0. */
void fold_enter(const Fold *f, const Reg *element, Reg index, Reg *state);
/* a comes before b; out may be either. */
void fold_combine(const Fold *f, const Reg *a, const Reg *b, Reg *out);
/* What changes nothing (sums and products); false: there is no such thing. */
bool fold_identity(const Fold *f, Reg *state);
void fold_leave(const Fold *f, const Reg *state, Reg *result);
/* pred ? a : b, each register. */
void fold_select(const Fold *f, Reg pred, const Reg *a, const Reg *b, Reg *out);
/* The state of the lane whose number differs by `mask`. */
void fold_lane_xor(const Fold *f, const Reg *state, int mask, Reg *out);

/* Writes the states of nregs registers; state[i] is the i'th; the caller's barrier comes next. */
void trip_write(const Fold *f, const WarpExchange *t, Reg base, Reg *const *state, int nregs);
/* The 2^group->n states of register number i that the warps of this one's group wrote, in order. */
void trip_read(const Fold *f, const WarpExchange *t, Reg base, int i, int nregs, Reg **out);
/* The state that the warp of the group wrote whose place in it is this lane's number, modulo 2^group->n. */
void trip_read_by_lane(const Fold *f, const WarpExchange *t, Reg base, Reg *out);

/* lanes.c: one element from another lane */
Reg lower_lane_xor(Lower *l, RegType type, Reg v, int mask);
Reg lower_lane_from(Lower *l, RegType type, Reg v, Reg lane);

/* reduce_axis.c: a tile's coordinate along each dimension moves an offset by 1 << shift[d] elements; -1: not at all. */
typedef struct LowerStrides {
	int shift[LAYOUT_RANK];
	int bytes;                                      /* of an element */
} LowerStrides;

/* The offset in bytes of register r's element: a register (REG_I32; 0: a scalar's) and a constant to add. */
Reg lower_element_offset(Lower *l, const LowerStrides *s, const Layout *layout, int r, int64_t *constant);

/* move.c: a tile in scratch row by row: the layout of the elements there, how coordinates move an offset, and one element
 * read, `offset` and `constant` in bytes. */
Layout lower_row_major(const Layout *l);
LowerStrides lower_row_strides(const Type *t);
Reg lower_read_element(Lower *l, Reg base, RegType type, Reg offset, int64_t constant);
/* An integer tile's element as a REG_I32 index, and whether it is one of 0 .. n - 1 (n below 2^31). */
Reg lower_bounded_index(Lower *l, DType t, Reg index, int64_t n, Reg *inside);

/* combine.c: floats as integers of their width in the same order (-0 as 0); a NaN is the greatest of all, or the least. */
Reg lower_float_key(Lower *l, RegType t, Reg x, bool nan_is_greatest);

/* Masks and loops over the set bits of a mask as subsets: 0, then each next, then 0 again. */
static inline uint64_t subset_next(uint64_t at, uint64_t mask) { return (at - mask) & mask; }

#endif
