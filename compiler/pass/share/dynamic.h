/* Programs that blocks fetch (dynamic.c), and those that they need not (early_return.c). */
#ifndef TEGULA_DYNAMIC_H
#define TEGULA_DYNAMIC_H

#include "ir/ir.h"

enum { GUARDS_MOST = 8 };

/* When a program does nothing: none of its branches with effects is taken. */
typedef struct Leave {
	const Op *roles;
	Op *programs;                                   /* the consumers' loop over programs */
	const Op *guard[GUARDS_MOST];                   /* branches that hold all of a program's effects */
	bool taken[GUARDS_MOST];                        /* the branch has effects where its condition does not hold */
	int n;                                          /* 0: each program does something, or that is not known */
	bool is_steady;                                 /* so do all that follow along the first axis, … */
	bool is_tail, is_plane;                         /* … which have the next numbers; along the second */
	int64_t values;                                 /* of the function */
} Leave;

/* Programs that do something are the first of each plane of the grid along the axis of rows: base + times * index < end,
 * or <= it. */
typedef struct Compact {
	const Leave *leave;
	Value *base, *end;                              /* base NULL: 0 */
	int64_t times;
	bool with_end;
	int row, plane, column;                         /* axes of the grid; column -1: there is none */
	bool longest_last;                              /* along the axis of rows, the first */
} Compact;

/* A program, and from where the walk to the next one goes on. */
typedef struct Numbered {
	Value *program;                                 /* the grid's total where there is none */
	Value *index[MAX_AXES];
	Value *plane, *sum;                             /* the sum of the planes before it */
} Numbered;

/* A number of the counter, of the program `least` (NULL: any) or more; in the first of the producer's threads … */
Value *fetch_number(Builder *b, Value *least);
/* … and the program's, in all of them. */
Value *fetch_known(const Leave *l, Builder *b, Value *fetched);

/* early_return.c */

/* The value again, with what `map` has for values by their ids. */
Value *leave_again(const Leave *l, Builder *b, Value *v, Value **map);
Leave leave_find(Func *f, const Op *roles, Op *programs);
/* Of the grid, along that axis; -1: 1. */
Value *programs_along(Builder *b, int axis);
/* `fetched`, or the first number fetched after it that is of a program which does something, or is at the end. */
Value *leave_out(const Leave *l, Builder *b, Value *fetched, Value *total);

/* compact.c */

bool compact_find(const Func *f, const Leave *l, const Op *producer, Compact *c);
/* The program of that number among those that do something. */
Numbered compact_place(const Compact *c, Builder *b, Value *number, Value *total, const Numbered *from);
/* Indices on the grid in the body of a loop over programs become these. */
void compact_replace(Block *body, Value *const *index);

#endif
