/* Indices as digits of one index: n / (P * Q), n / Q % P, n % Q. */
#ifndef TEGULA_DIGITS_H
#define TEGULA_DIGITS_H

#include "model/model.h"

enum { FACTORS = 8 };

/* A scalar, or the extent of a tensor that no symbol names. */
typedef struct Factor {
	const Value *v;                                 /* or the tensor … */
	int axis;                                       /* … and the dimension of it; -1: a scalar */
} Factor;

/* A number times scalars. */
typedef struct Product {
	int64_t number;
	Factor factor[FACTORS];
	int n;                                          /* FACTORS + 1: too many */
} Product;

/* linear / by, and the remainder of that by `mod`. */
typedef struct Digit {
	const Value *linear;
	Product by, mod;
	bool is_rest;
} Digit;

/* v without conversions of layout, broadcasts and casts to types that hold all of its values. */
const Value *digit_unwrap(const Value *v);
/* The same, of tiles as they are. */
const Value *digit_root(const Value *v);
/* What has no quotient or remainder is a digit of itself. */
Digit digit_of(const Value *v);
void product_multiply(Product *p, const Product *by);
void product_extent(Product *p, const Op *access, int d);       /* times the extent of the accessed tensor */
bool product_equal(const Product *a, const Product *b);

/* Are they computed by equal ops from the same values, whatever their layouts? */
bool value_alike(const Value *a, const Value *b);

/* window.c: convolutions' gathers, x[n, i * 2 + r - pad, j * 2 + s - pad, c +: 64] of n, i, j: digits of one index */

/* One dimension of the images, behind their number and before their channels: digit * step + lower + offset. */
enum { WINDOW_TERMS = 6 };
typedef struct WindowSum {
	const Value *v[WINDOW_TERMS];                   /* scalars … */
	int64_t factor[WINDOW_TERMS], number;           /* … so often, and a number */
	int n;
} WindowSum;

typedef struct WindowDim {
	Digit digit;
	const Value *v;                                 /* the digit */
	int64_t step;                                   /* 0: there is no digit */
	WindowSum lower, offset;                        /* what a launch knows; what loops add */
} WindowDim;

typedef struct Window {
	WindowDim dim[WINDOW_RANK];                     /* in the tensor's order */
	int n;
} Window;

/* NULL: it is such a read, of a tensor that nothing writes; else why not.  Not looked at: how great an offset may be. */
const char *window_find(const Op *read, Window *out);
bool window_take(const Value *index, WindowDim *out);           /* one index of it, as it may be in a later iteration */
bool launch_sum_of(const Value *v, LaunchSum *out);
/* The same of what is greatest in the last programs: terms of param -1 - axis are programs along an axis. */
bool launch_sum_most(const Value *v, LaunchSum *out);

/* A matrix that a kernel launched before this one computes (pass materialize): for each program along the axes and each
 * trip of its loop a tile, programs along dimension `along`, trips along the other.  Of trips that are the program's own
 * number `end` counts the programs along axis -1 - param.  A result is what this one computes, a tile for each program, and
 * a kernel launched behind it writes into a tensor. */
enum { MADE_MOST = 4, MATERIALIZE_FIRST = 2, MATERIALIZE_LAST };        /* `materialize` of the kernels before and behind */
typedef struct MadeTensor {
	DType elem;
	unsigned axes;                                  /* bits of the grid's, of which it has a tile for each program */
	int along;
	int64_t tile[2];
	LaunchSum end;                                  /* … / divisor is where the loop ends */
	int64_t divisor, begin, step;
	bool is_copy, is_result;                        /* of a tensor's elements as they are */
	int neighbours;                                 /* programs whose elements share sectors; 0: none do */
} MadeTensor;
/* plan_map.c: do rows of a tensor begin at multiples of 16 bytes, as maps and copies of 16 bytes ask?  Of others true. */
bool map_rows_fit(const Value *tensor);
int64_t made_extent(const MadeTensor *made, int d, int64_t end, const int64_t grid[MAX_AXES]);  /* with the sum's value */
/* {reach}: the greatest offset along that dimension, and how much of it is for what falls. */
const char *window_reach(const Op *op, int dim, LaunchSum *most, LaunchSum *falls);
#endif
