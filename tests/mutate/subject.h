/* An example of a kernel on one target, the ways in which it is run, and what detects a mutation of its code. */
#ifndef TEGULA_TESTS_MUTATE_SUBJECT_H
#define TEGULA_TESTS_MUTATE_SUBJECT_H

#include "tests/mutate/mutant.h"
#include "runtime/case/case.h"
#include "tests/opened.h"

enum { OUTPUTS_MOST = 16, SIZES_MOST = 8, WAYS_MOST = 96, ORDERS_MOST = 8 };

typedef enum Catch { CATCH_NONE, CATCH_REPORT, CATCH_WRONG, CATCH_CRASH, CATCH_KINDS } Catch;

typedef struct Outputs {
	void *bytes[OUTPUTS_MOST];
	size_t size[OUTPUTS_MOST];
	int n;
	bool is_costly;                                 /* it was warned that accesses cost more than `inspect` counts */
} Outputs;

/* One way to run it: other sizes, an order of the warps, inputs of which some rows are NaN, pointers that overlap. */
typedef struct Way {
	int order, poison;                              /* poison: 1 + which; 0: none */
	bool overlaps, is_large;
	int nsize;
	struct {
		char name[32];
		int64_t value;
	} size[SIZES_MOST];
	bool is_known, is_good;                         /* tried as it is; it ran, and the code is the example's */
	Outputs good;
	unsigned char was_false[MUTANTS_MOST];         /* bounds checks that were, for some thread */
} Way;

/* What a run in a process of its own leaves behind. */
typedef struct Shared {
	Mutant mutant;                                  /* of the code that is compiled next */
	MutantNote note[MUTANTS_MOST];
	unsigned char was_false[MUTANTS_MOST];
	char why[4000];                                 /* the reports */
} Shared;

typedef struct Subject {
	const char *path, *target;
	const char *ir;                                 /* a file of tile IR or thread IR that is its code; NULL: none */
	int kernel, example;                            /* their numbers */
	char name[64];
	Way *way;
	int nway;
	int nknown;                                     /* of the first ways it is known what whole code does */
	bool knows_masks;                               /* and in which ways bounds checks are false */
	Mutant whole;
	Shared *shared;
} Subject;

/* way.c */

/* The ways to run it, the example's own first.  To be closed also after an error. */
bool subject_open(Subject *s, int norders);
void subject_close(Subject *s);

/* subject.c */

/* Notes what mutants there are and what results are right.  False: it does not run as it is; why is in s->shared. */
bool subject_prepare(Subject *s);
/* What detects the n-th of them.  *never: nothing, of a bounds check that was never false. */
Catch subject_mutate(Subject *s, int n, bool *never);
/* The same in one order of the warps alone; s->shared->why has the reports. */
Catch subject_mutate_in(Subject *s, int n, int order);
/* As it is, is it reported by no check, and are its results those of the cpu device, bit by bit? */
bool subject_agrees(const Subject *s, int norders);
/* For way.c: the case of one way on a device that is open.  One at a time. */
bool subject_device(const Subject *s, Mutant *mutant, int order, bool unchecked, Opened *x);
bool subject_case(const Subject *s, const Way *w, Opened *x);

/* expect.c: how many of the mutants that the text of its file names are not found as that says */
int expect(Subject *s, const char *text);

#endif
