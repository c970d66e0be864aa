/* Loops of products that the warps of a block divide: slice_find.c says which and by how much, slice_zero.c where what lies
 * outside of tensors adds nothing, slice_merge.c joins states that are no sums, slice_k.c, the pass, divides. */
#ifndef TEGULA_SLICE_K_H
#define TEGULA_SLICE_K_H

#include "pass/pass.h"
#include "target/target.h"

/* What is known of a loop while it is sliced; by Value.id as func_number gave them. */
typedef struct Slice {
	Module *m;
	Func *f;
	Op *loop;
	Block *body;
	Op *merge;                                      /* which says how its states join; NULL: of a loop of sums */
	int n;                                          /* iterations at once: each warp has `each` of them, neighbours */
	int each;
	bool *varies;                                   /* is it another value in each iteration? */
	int64_t *step;                                  /* of such an integer: how much it grows in `period` iterations */
	bool *own;                                      /* is it an integer that each slice has for itself, as a page's? */
	int64_t *period;                                /* a power of two; 1: with each, 0: it is none that grows */
	bool masks_reads;                               /* small reads are made zero behind the loop's end */
} Slice;

/* A loop while it is written anew. */
typedef struct Sliced {
	Slice *s;
	Builder b;                                      /* in the new body */
	Value **map;                                    /* what was there before: the same, of the first slice */
	Value **all;                                    /* of all slices; NULL: the same in all */
	Value *exists;                                  /* bool[n]: has the slice an iteration?  NULL: not asked */
	Value *index;                                   /* the new loop's own */
} Sliced;

/* slice_k.c */

/* The shape with the slices before it. */
const Type *slice_type(const Slice *s, const Type *t);
/* What stands for v in the first slice. */
Value *slice_plain(const Sliced *x, Value *v);
/* i64[n]: the number in each slice, which grows by `step` from one to the next. */
Value *slice_numbers(Sliced *x, Value *first, int64_t step);
/* A tile [n] in as many dimensions as the sliced tile of that type, the same everywhere else. */
Value *slice_spread(Sliced *x, Value *v, const Type *to);
/* v, which was one tile, in all slices. */
Value *slice_all(Sliced *x, Value *v);
/* The op for all slices, or as it is where they have it in common. */
void slice_any(Sliced *x, const Op *op);
/* bool[n]: is the slice's iteration, of x->index in the first, before the loop's end? */
Value *slice_exists(Sliced *x);
/* v where the slice's iteration is before the loop's end, else `otherwise`. */
Value *slice_masked(Sliced *x, Value *v, Value *otherwise);

/* slice_read.c: the tiles of all slices of a read. */
Value *slice_read(Sliced *x, const Op *op);

/* slice_find.c */

/* Has a product whose sum is of that type few rows or columns, and a warp's threads room for it? */
bool slice_takes(const Type *sum, const Target *t);
/* Has a warp room for the products of a loop whose states are no sums, of few rows? */
bool slice_takes_all(const Block *body, const Target *t);

/* bundle.c: beside a product, does a read give a part of records that come together, in whole rows of 16 bytes each? */
bool bundle_copies(const Op *read, const Target *t, int warps);
/* Why the loop cannot be sliced; NULL, and `varies` and `step` are filled. */
const char *slice_reason(Slice *s, const Target *t);
/* Iterations at once that the loop is better for, if it may be sliced; 1. */
int slice_count(const Slice *s, const Target *t);
/* The dimension of the tensor along which the read moves from iteration to iteration; -1: none. */
int slice_dim(const Slice *s, const Op *read);
/* Iterations in a row that read the same. */
int64_t slice_period(const Slice *s, const Op *read);
/* The dimension of the tensor at which each iteration reads by an index of its own; -1: none. */
int slice_own_dim(const Slice *s, const Op *read);
/* Of a read along rows: is a part of each left out, as of halves of a block that are two operands? */
bool slice_has_gaps(const Slice *s, const Op *read);
/* Are n iterations whole periods of all reads, or such a part of one? */
bool slice_fits(const Slice *s, int n);
/* Iterations that each of n warps is better to have at once: more than one of few bytes. */
int slice_each(const Slice *s, const Target *t, int n);

/* slice_merge.c */

/* Why the states of warps may not join as those of blocks do; or NULL. */
const char *slice_merge_reason(const Slice *s);
/* Joins what the slices of the new loop have; the old one goes, and its merge. */
void slice_merge(Slice *s, Builder *b, Op *made);

/* slice_zero.c */

/* Is what the loop adds zero in iterations from its end on? */
bool slice_adds_zero(const Slice *s);
/* Is the read zero there only if a mask makes it so, and is that cheap? */
bool slice_masks(const Slice *s, const Op *read);

#endif
