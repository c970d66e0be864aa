/* Inside sema: a grid's index that the body takes apart. */
#ifndef TEGULA_UNFOLD_H
#define TEGULA_UNFOLD_H

#include "sema/header.h"

enum { FACTORS = 8, STEPS = 20000 };                /* of a count; comparisons of expressions, which lets may make large */

typedef struct Factors {
	const Expr *at[FACTORS + 1];
	int n;
} Factors;

typedef struct Let {
	const char *name;
	const Expr *e;
} Let;

typedef struct Unfold {
	Compile *cx;
	const Kernel *k;
	const Item *item;
	const char *axis;                               /* its name and number */
	int at;
	VEC(Let) lets;
	VEC(const char *) bound;                        /* names that the body binds, each time that it does */
	Factors count;
	int inner;                                      /* which of them the index is divided by, bits; 0: not found */
	const Expr *group;                              /* G; NULL: in rows */
	const char *name[2];
	int steps;
} Unfold;

/* unfold_index.c */

bool expr_calls(const Expr *e, const char *name, int n);        /* NAME(…) of n arguments without names */
const Expr *unfold_resolve(const Unfold *u, const Expr *e);     /* what a constant stands for */
bool unfold_is_axis(const Unfold *u, const Expr *e);            /* pid, or program_id(0) */
Factors unfold_factors(const Unfold *u, const Expr *e);
bool unfold_is_equal(Unfold *u, const Expr *x, const Expr *y);
int unfold_whole(const Unfold *u);                              /* all factors of the count, bits; below some of them */
int unfold_quotient(Unfold *u, const Expr *e);                  /* pid / some; 0: it is none */
int unfold_remainder(Unfold *u, const Expr *e);                 /* pid % some, or pid - pid / some * some */
/* The column and the row of an order in groups, and how many rows a group has. */
int unfold_column(Unfold *u, const Expr *e, const Expr **group);
int unfold_row(Unfold *u, const Expr *e, const Expr **group);

#endif
