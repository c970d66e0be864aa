/* What the files of omit share: an example of a kernel on one target, the ways in which it is run, and who notices what is
 * left out. */
#ifndef TEGULA_TESTS_OMIT_SUBJECT_H
#define TEGULA_TESTS_OMIT_SUBJECT_H

#include "emit/emit.h"
#include "runtime/case/case.h"
#include "tests/opened.h"

enum { OUTPUTS_MOST = 16, SIZES_MOST = 8, WAYS_MOST = 96, ORDERS_MOST = 8, MASKS_MOST = 4096 };

typedef enum Catch { CATCH_NONE, CATCH_REPORT, CATCH_WRONG, CATCH_CRASH, CATCH_KINDS } Catch;

typedef struct Outputs {
	void *bytes[OUTPUTS_MOST];
	size_t size[OUTPUTS_MOST];
	int n;
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
	unsigned char was_false[MASKS_MOST];            /* bounds checks that were, for some thread */
} Way;

/* What a child tells. */
typedef struct Shared {
	Omit omit;
	int selector;                                   /* the bounds check that code leaves out; -1: none */
	unsigned char was_false[MASKS_MOST];
	Place place[MASKS_MOST];                        /* of each bounds check, and what it is */
	const char *what[MASKS_MOST];
	char why[256];
} Shared;

typedef struct Subject {
	const char *path, *target;
	int kernel, example;                            /* their numbers */
	char name[64];
	Way *way;
	int nway;
	bool watches_masks;                             /* was_false is kept */
	Opened masks;                                   /* a device with code of which any bounds check can be left out */
	Omit whole;                                     /* what there is of the kind at hand */
	Shared *shared;
} Subject;

/* way.c */

/* The ways to run it, the example's own first.  To be closed also after an error. */
bool subject_open(Subject *s, int norders);
void subject_close(Subject *s);

/* subject.c */

/* Notes what there is of a kind and what results are right.  False: it does not run as it is; why is in s->shared. */
bool subject_prepare(Subject *s, OmitKind kind);
int subject_count(const Subject *s);
/* Who notices that the n-th of them is left out.  *never: nobody, of a bounds check that was never false. */
Catch subject_leave_out(Subject *s, int n, bool *never);
/* For way.c: the case of one way on a device that is open. */
bool subject_device(const Subject *s, Omit *omit, int order, bool unchecked, Opened *x);
bool subject_case(const Subject *s, const Way *w, Opened *x);

#endif
