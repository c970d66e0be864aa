/* Loops that several blocks share: split_find.c says which, split_derive.c how the
 * states of some join, which split_derived.c writes down, split_join.c has their parts and joins what those come to,
 * split_k.c, the pass, divides. */
#ifndef TEGULA_SPLIT_K_H
#define TEGULA_SPLIT_K_H

#include "pass/pass.h"
#include "target/target.h"

/* What is known of a loop while it is divided. */
typedef struct Split {
	Op *loop, *merge;                               /* merge: NULL, of a loop of sums, maxima and minima */
	int nvalues;                                    /* numbered before new ones came */
	OpKind *fold;                                   /* how each carried value of such a loop joins */
	Value **init;                                   /* what is to be added to the sum of all parts, or NULL */
	Value **put, **tokens;                          /* each state's token, NULL: the same everywhere; all there are */
	int ntokens;
	Value **all;                                    /* the states of all parts */
	bool in_cluster;                                /* the blocks are a cluster */
} Split;

typedef struct Found {
	Op *loop, *merge;                               /* merge: NULL, of a loop of sums */
	bool derives;                                   /* and of one whose updates say how its states join */
} Found;

/* split_find.c */

/* How two states of column i of a loop join; OP_COUNT: it is none of sum, greatest and least. */
OpKind split_fold(const Op *loop, int i);
/* The loop of its body whose states the op joins; NULL: it has gone, or is not the only one, or has no step above 0. */
Op *split_merged(const Op *merge);
Op *split_merge_of(const Op *loop);                     /* the merge behind the loop, or NULL */
/* Are the loops of that body in branches, as all is that stands behind an early return? */
bool split_in_branch(const Block *body);
#define SPLIT_IN_BRANCH "its loop is in a branch, as all is behind an early return"
/* Why the function stays whole; NULL, and the loop to divide. */
const char *split_find(const Func *f, const Target *t, Found *out);
/* Do its blocks join through memory, whatever clusters there are: by what updates say, or with inner products? */
bool split_joins(const Func *f);
/* Are its blocks to walk over programs, and is its loop one of sums?  They share those otherwise (pass stream). */
bool split_is_stream(const Func *f, const Target *t);
/* Are the blocks that share a program of it a cluster? */
bool split_in_cluster(const Func *f, const Target *t);

/* split_derive.c: does the loop's body say how its states join? */
bool split_derives(const Func *f, const Op *loop);
/* split_derived.c: then an op merge that does, behind it; `rank` is that of the part, NULL where blocks have no parts. */
Op *split_derive(Func *f, Op *loop, Value *rank);
/* What state i of parts but the first begins with, in a merge made so; NULL: with what the first begins with. */
Value *split_lowered(Builder *b, const Op *merge, int i, const Type *t);

/* split_k.c: ops merge go; each result is the operand. */
void split_drop_merges(Func *f);

/* split_join.c */

typedef struct Parts {
	Value *lo, *hi, *each;                          /* what a part has of the range */
	Value *count;                                   /* parts with an iteration; 1 at least */
} Parts;

Parts split_parts(Builder *b, const Op *loop, Value *n);
void split_part(Builder *b, const Parts *p, Value *rank, Value **from, Value **to);
/* What stands for the states behind the loop: results of the op merge, or the loop's own. */
Value *split_state(const Split *s, int i);
int split_nstates(const Split *s);
/* What parts of a sum begin with, to which its own beginning is added later: 0, or of floats -0.0, which changes no sum.
 * NULL: they begin as it does, with a constant zero. */
Value *split_begin(Builder *b, const Value *init, const Type *t);
/* The state of two parts, from those of each. */
void split_join(const Split *s, Builder *b, Value *const *x, Value *const *y, Value **out);
/* The states of the part of that rank. */
void split_get_all(const Split *s, Builder *b, Value *rank, Value **out);
/* The states of all parts, in the order of their ranks. */
void split_join_all(const Split *s, Builder *b, Value *count, Value **out);

#endif
