/* What the parts of pass pad share: pad.c walks the ops; pad_class.c says which dimensions grow together, pad_shape.c
 * moves elements where there are gaps, pad_reduce.c says what added elements hold. */
#ifndef TEGULA_PAD_H
#define TEGULA_PAD_H

#include "pass/layout/anchor.h"

/* Of a tile's dimension d: of each power of two elements the first `group` count; 0: all but those at its end. */
typedef struct PadGap {
	int64_t group;
	int d;
} PadGap;

typedef struct Pad {
	Module *m;
	Func *f;
	const Type **was;                               /* by Value.id: its type before … */
	const Value **of;                               /* … of this value; others were made here */
	int n;
	const Target *t;
	PadGap *gap;                                    /* by Value.id: pad_shape.c */
	const int64_t *least;                           /* what each dimension must have at least: pad_class.c */
	int *first;
} Pad;

/* The type that a value had, or has if it was made here. */
const Type *pad_was(const Pad *p, const Value *v);
/* `to` stands for `from`, whose type before it takes on. */
void pad_replace(const Pad *p, Value *from, Value *to);
/* The index along dimension d in a tile of t's shape. */
Value *pad_iota(Builder *b, const Type *t, DType elem, int d);
/* Which elements of a tile of type `t` lie below `valid` along dimension d. */
Value *pad_below(Builder *b, const Type *t, int d, int64_t valid);
/* What was added to a tile of indices is -1, which is no index. */
void pad_outside(const Pad *p, Op *op, int i, DType wide);
/* Operand i with `other` along dimension d from its old extent on. */
void pad_fill(const Pad *p, Op *op, int i, int d, Value *other);

/* pad_class.c: the least extent that each dimension should have, from *first of its value on, so that dots fit their
 * instructions; f is numbered. */
int64_t *pad_needs(Func *f, const Target *t, int **first);

/* pad_shape.c: ops that move elements about */
void pad_reshape(const Pad *p, Op *op);
void pad_cat(const Pad *p, Op *op);
void pad_flip(const Pad *p, Op *op);
void pad_extract(const Pad *p, Op *op);
void pad_gather(const Pad *p, Op *op);
void pad_scatter(const Pad *p, Op *op);

/* pad_reduce.c: ops that see elements together */
void pad_reduce(const Pad *p, Op *op);
void pad_reduce_fn(const Pad *p, Op *op);
void pad_scan(const Pad *p, Op *op);
void pad_order(const Pad *p, Op *op);
void pad_histogram(const Pad *p, Op *op);
void pad_dot(const Pad *p, Op *op);
int pad_dot_k(const Op *dot, int i);                /* K's dimension in operand i */

/* pad_shape.c: K that is put together from groups of no power of two */
void pad_find_gaps(const Pad *p, const Op *dot);
int64_t pad_gap(const Pad *p, const Value *v);
Value *pad_within_group(Builder *b, const Type *t, int d, int64_t group);
void pad_read_gaps(const Pad *p, Op *op);

#endif
