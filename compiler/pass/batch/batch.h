/* What the files of pass batch share: which values differ from program to program, and how. */
#ifndef TEGULA_BATCH_H
#define TEGULA_BATCH_H

#include "ir/derive.h"
#include "pass/async/pipeline.h"

typedef enum Kind { SAME, START, EACH } Kind;

typedef struct Batch {
	Module *m;
	Func *f;
	int64_t n;                                      /* programs */
	int axis;                                       /* of the grid, along which they are neighbours */
	int64_t shared;                                 /* bytes of tiles of one program that is read for all of them */
	int64_t joined;                                 /* of tiles that have parts of sectors of several programs' */
	Kind *kind;                                     /* of each value, by its id */
	int64_t *step;                                  /* of a START */
	VEC(Op *) old;                                  /* what has been made for all programs, users first */
	Value **made;                                   /* of an EACH: for all programs; of a START, once it is asked for */
} Batch;

typedef struct Indices {
	int starts, each, at;                           /* how many there are; the only start, from 0 */
	int64_t extent;                                 /* of its part; 0: an element */
} Indices;

Indices batch_indices(const Batch *x, const Op *op);
/* One index goes on by its own part, or by one, from program to program. */
bool batch_is_run(const Batch *x, const Op *op, const Indices *n);
/* Does the op, or one in its regions, take or make what differs? */
bool batch_differs(const Batch *x, const Op *op);
/* Is the axis of the program_id of a multiple of n programs for certain? */
bool batch_divides(const Func *f, const Op *id, int64_t n);
/* Chooses the axis, and says of each value what it is; why there is no such axis. */
const char *batch_find_axis(Batch *x);

#endif
