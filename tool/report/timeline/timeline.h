/* When the roles of a pipelined loop copy, wait and compute (clocks.c); and the ops that one of them executes, one after
 * the other, over which its clock runs (clock_list.c). */
#ifndef TEGULA_TIMELINE_H
#define TEGULA_TIMELINE_H

#include "model/model.h"

typedef enum SpanKind {
	SPAN_COPY, SPAN_WAIT, SPAN_COMPUTE,             /* of a role */
	SPAN_BEHIND,                                    /* of a role, behind the loop */
	SPAN_FILL, SPAN_READ,                           /* of a slot: copies are under way; it is read, or kept for that */
} SpanKind;

typedef struct TimeSpan {
	int row;
	SpanKind kind;
	int trip, slot;                                 /* of the ring that is waited for, or filled; slot -1: none */
	const char *read;                               /* what is waited for, which threads read; NULL: copies */
	double from, to;                                /* cycles */
} TimeSpan;

typedef struct TimeRow {
	const char *name;                               /* "copies"; of slots the tensors that they hold, "a, b" */
	bool is_role;
	int slot;
	double waits, begins;                           /* for copies: share of the last trip shown, and of all shown */
	double reads;                                   /* for what threads read themselves: share of that trip */
	const char *read;                               /* the tensor that most of that is for; NULL: none */
} TimeRow;

typedef struct Timeline {
	VEC(TimeRow) rows;                              /* roles first: the one that copies, if it is apart */
	VEC(TimeSpan) spans;
	int trips;                                      /* that are shown */
	double of;                                      /* that the loop runs */
	double blocks;                                  /* of a multiprocessor, which do the same at once */
	double cycles, period;                          /* of all that is shown; from one trip to the next, at its end */
	double behind;                                  /* of cycles, what follows the loop; 0: not all trips are shown */
	double scale;                                   /* by which all of it is shorter than its ops in turn take */
} Timeline;

/* `blocks` of a multiprocessor run at once; `memory`: cycles of a multiprocessor for a byte.  False: no loop waits for
 * copies, or none that this follows. */
bool timeline_make(Func *f, const Target *t, const CostFacts *facts, double blocks, double memory, Arena *mem,
    Timeline *out);

/* Makes all trips take so many cycles, as the launch's estimate has it; what a role waits for and does stays in
 * proportion. */
void timeline_scale(Timeline *t, double cycles);

/* ---- inside ---- */

/* An op, or (op is NULL) a value that becomes another's, or (to is NULL) the end of a loop that waits for copies. */
typedef struct Step {
	const Op *op;
	const Value *to, *from;
	double times;                                   /* that it stands for */
} Step;

typedef struct StepList {
	VEC(Step) step;
	const CostFacts *facts;
	int shown;                                      /* trips of a loop that waits for copies */
	double trips;                                   /* that it runs; 0: there is no such loop */
	bool is_cut;                                    /* there would be more */
	Arena *mem;
} StepList;

/* clock_list.c: those of a block; false: they are cut. */
bool list_block(StepList *c, const Block *b, double times);

#endif
