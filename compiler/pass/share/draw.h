/* Programs that blocks draw (draw.c), and those that they need not (leave.c). */
#ifndef TEGULA_DRAW_H
#define TEGULA_DRAW_H

#include "ir/ir.h"

enum { GUARDS_MOST = 8 };

/* When a program does nothing: none of its branches with effects is taken. */
typedef struct Leave {
	const Op *roles;
	Op *programs;                                   /* the consumers' loop over programs */
	const Op *guard[GUARDS_MOST];                   /* branches that hold all of a program's effects */
	bool taken[GUARDS_MOST];                        /* the branch has effects where its condition does not hold */
	int n;                                          /* 0: each program does something, or that is not known */
	bool is_tail, is_plane;                         /* so do all that follow along the first axis, along the second */
	int64_t values;                                 /* of the function */
} Leave;

/* A number of the counter, `least` or more; in the first of the producer's threads … */
Value *draw_number(Builder *b, Value *least);
/* … and in all of them. */
Value *draw_known(const Leave *l, Builder *b, Value *drawn);

/* leave.c */

Leave leave_find(Func *f, const Op *roles, Op *programs);
/* `drawn`, or the first number drawn after it that is of a program which does something, or is at the end. */
Value *leave_out(const Leave *l, Builder *b, Value *drawn, Value *total);

#endif
