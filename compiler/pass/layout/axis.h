/* What is known of integers and pointers when compiling: contiguity, divisibility, constancy and ranges.  It is computed
 * once and kept on values (Value.axis) until a pass that drops AXES has run; passes, lowering and the verifier ask for it
 * by axis_of. */
#ifndef TEGULA_AXIS_H
#define TEGULA_AXIS_H

#include "pass/layout/anchor.h"

enum { DIV_MOST = 62 };                                 /* the divisibility of 0 */

/* Of a tile's elements, for each dimension, all as log2:
 *   contig   aligned groups of so many elements count up by one
 *   div      by what the first element of each such group is divisible (pointers: in bytes)
 *   equal    aligned groups of so many elements are equal
 * A scalar has one dimension here, of extent 1. */
struct AxisInfo {
	int8_t rank;
	int8_t contig[MAX_RANK], div[MAX_RANK], equal[MAX_RANK];
	int64_t lo, hi;                                 /* all elements lie between; else the type's limits */
};

static inline int
trailing_zeros(int64_t v)
{
	return v ? MIN(__builtin_ctzll((unsigned long long)v), DIV_MOST) : DIV_MOST;
}

/* Analyses a function whose values carry no results, and numbers it then.  Passes call it before they ask. */
void axis_keep(Func *f);
/* The results are out of date: of values that a pass changed. */
void axis_drop(Module *m);
/* Values made since the analysis are derived from their operands. */
const AxisInfo *axis_of(const Value *v);
/* Is every element one number? */
bool axis_is_known(const AxisInfo *x);
/* Divisibility of the first elements of groups of 2^k along d: `unit` is log2 of what one step is (bytes of a pointer). */
int axis_div_at(const AxisInfo *x, int d, int k, int unit);
/* Of every element. */
int axis_div(const AxisInfo *x, int unit);
int axis_unit(const Type *t);                           /* 0; pointers: log2 of an element's bytes */

AxisInfo axis_unknown(const Type *t);
AxisInfo axis_constant(const Type *t, int64_t v);
/* What two values have in common. */
AxisInfo axis_meet(const AxisInfo *a, const AxisInfo *b, const Type *t);
/* axis_rules.c: what is known of the result of an op without regions. */
AxisInfo axis_rule(const Op *op, const Value *out);

/* axis_access.c */

/* log2 of how many elements along dimension *dim of the tile that an op moves are neighbours in memory, aligned and inside
 * or outside together; where rows are taken whole, in row-major order up to that dimension. */
int access_contiguity(const Op *op, const Target *t, int *dim);
/* Elements that a thread may move in one access of an op whose tile lies so. */
int access_vector(const Op *op, const Layout *l, const Target *t);
/* An atomic sum of floats whose old values nothing uses, on a target that adds two neighbours at once. */
bool access_adds_pairs(const Op *op, const Target *t);
/* Of a read of one channel of interleaved records of 8 or 16 bits, %x[i +: n, 1] of u8[N, 3]: the 32-bit words that WINDOW
 * neighbours along *dim of the tile share, aligned and inside or outside together; 0: it is no such read. */
enum { WINDOW = 4 };
int access_window(const Op *op, int *dim);
/* v as a root and a few elements more. */
const Value *access_root(const Value *v, int64_t *shift);
/* May a read take what lies behind its tile's {valid} elements along dimension d?  Nothing sees those (pass pad). */
bool access_goes_on(const Op *op, int d);
/* Of a read that starts a few elements from where vectors may: log2 of the elements of those that hold a thread's, of which
 * other reads a few elements apart take some; 0: it is no such read.  `l`: where the tile lies, or NULL. */
int access_halo(const Op *op, const Layout *l, const Target *t);
/* Of a read or write of whole records, %x[i +: n, :] of f32[N, 3], *dim the last dimension of the tile: log2 of the records
 * that stand side by side, aligned to as many elements and inside or outside together, so that as many vectors move as a
 * record has elements; at most 16 bytes each.  0: there are none. */
int access_records(const Op *op, const Target *t, int *dim);
/* Of those in one thread's lowest registers. */
int access_records_held(const Op *op, const Layout *l, const Target *t);
/* pass/share/overlap.c */

/* How far reads of one tensor, of tiles like the op's, begin from one another along each dimension; false: none do. */
bool overlap_reach(const Op *op, int64_t reach[MAX_RANK]);
/* For these: 2^k elements along memory, and of what else a thread holds, neighbours along which the reads differ, first
 * where that spares most.  Rows of less than a sector stay with neighbouring lanes. */
Layout overlap_rows(const Type *tile, const int order[LAYOUT_RANK], const int shape[LAYOUT_RANK],
    const int64_t reach[MAX_RANK], int k, int lanes, int warps);
/* log2 of the elements of a record that a read is taken apart into (pass strides). */
int overlap_records(const Op *op);
/* What a tensor's dimension is known to be divisible by, log2, and its least and greatest extent. */
int dim_div(const Value *tensor, int d);
void dim_range(const Value *tensor, int d, int64_t *lo, int64_t *hi);
/* NULL: a tensor map serves the access (map_reason), and it begins at a multiple of 16 bytes along the tensor's contiguous
 * dimension: of another coordinate an H200 says that the instruction is illegal. */
const char *access_map_reason(const Op *op, const Target *t);
/* Is every index along dimension d of an access within the tensor? */
bool access_is_inside(const Op *op, int d);
/* The same, did it start at v. */
bool access_is_inside_from(const Op *op, int d, const Value *v);
void access_note_inside(Op *op);                        /* axis_note.c: writes down what the first says, if anything */

#endif
