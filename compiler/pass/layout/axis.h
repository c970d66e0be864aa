/* What is known of integers and pointers when compiling: contiguity, divisibility, constancy and ranges.  Pass axis
 * writes down what follows for accesses; coalesce and assign ask the analysis itself. */
#ifndef TEGULA_AXIS_H
#define TEGULA_AXIS_H

#include "pass/layout/place.h"

enum { DIV_MOST = 62 };                                 /* the divisibility of 0 */

/* Of a tile's elements, for each dimension, all as log2:
 *   contig   aligned groups of so many elements count up by one
 *   div      by what the first element of each such group is divisible (pointers: in bytes)
 *   equal    aligned groups of so many elements are equal
 * A scalar has one dimension here, of extent 1. */
typedef struct AxisInfo {
	int rank;
	int contig[MAX_RANK], div[MAX_RANK], equal[MAX_RANK];
	int64_t lo, hi;                                 /* all elements lie between; else the type's limits */
} AxisInfo;

typedef struct Axes {
	Func *f;
	Arena *mem;
	AxisInfo *of;                                   /* by Value.id */
	int *starts;                                    /* of a loop, by the id of its region's first argument */
	int n;
} Axes;

/* Numbers the function and finds what is known of each value. */
Axes *axis_analyse(Func *f, Arena *mem);
const AxisInfo *axis_of(const Axes *a, const Value *v);
/* Divisibility of the first elements of groups of 2^k along d: `unit` is log2 of what one step is (bytes of a pointer). */
int axis_div_at(const AxisInfo *x, int d, int k, int unit);
/* Of every element. */
int axis_div(const AxisInfo *x, int unit);
int axis_unit(const Type *t);                           /* 0; pointers: log2 of an element's bytes */

AxisInfo axis_unknown(const Type *t);
AxisInfo axis_constant(const Type *t, int64_t v);
AxisInfo axis_meet(const AxisInfo *a, const AxisInfo *b, const Type *t);
/* axis_rules.c: what is known of an op's result. */
AxisInfo axis_rule(const Axes *a, const Op *op, const Value *out);

/* axis_access.c */

/* log2 of how many elements along dimension *dim of the tile that an op moves are neighbours in memory, aligned and inside
 * or outside together. */
int access_contiguity(const Axes *a, const Op *op, const Target *t, int *dim);
/* Elements that a thread may move in one access of an op whose tile lies so. */
int access_vector(const Axes *a, const Op *op, const Layout *l, const Target *t);
/* What a tensor's dimension is known to be divisible by, log2, and its least and greatest extent. */
int dim_div(const Axes *a, const Value *tensor, int d);
void dim_range(const Axes *a, const Value *tensor, int d, int64_t *lo, int64_t *hi);
/* Is every index along dimension d of an access within the tensor? */
bool access_is_inside(const Axes *a, const Op *op, int d);

#endif
