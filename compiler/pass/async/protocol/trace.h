/* What a role does with slots and mbarriers, as a list: its code run with chosen trip counts. */
#ifndef TEGULA_TRACE_H
#define TEGULA_TRACE_H

#include "ir/ir.h"

/* Field n of an event is what its row says. */
typedef enum EventKind {
	EVENT_AWAIT,                                    /* the parity */
	EVENT_EXPECT,                                   /* bytes */
	EVENT_COPY,                                     /* bytes, into `slot` of `buffer` */
	EVENT_READ,                                     /* 1: by the next product that starts; 0: at once */
	EVENT_START,                                    /* a product, after its reads */
	EVENT_FINISH,                                   /* products that may run on */
	EVENT_ARRIVE,                                   /* arrivals at each block's mbarrier */
} EventKind;

typedef struct Event {
	EventKind kind;
	const Op *op;
	const Op *ring;                                 /* of mbarriers, or NULL */
	int number;                                     /* which of them */
	const Op *buffer;                               /* the alloc, or NULL */
	int slot;
	int64_t n;
} Event;

typedef VEC(Event) Trace;

typedef struct Known {
	int64_t v;
	int stamp;                                      /* of the trip in which v was computed; 0: not */
	bool is_set;                                    /* as an argument or a result, until it is set again */
} Known;

/* A value that nothing is known of but that equal operands give an equal one. */
typedef struct Leaf {
	const Op *op;
	int index, nin;                                 /* nin: operands, and what its regions take */
	const int64_t *in;
} Leaf;

/* Loops that end at one value by one step, from beginnings a few steps apart: `trips` from `lo` on. */
typedef struct Course {
	int64_t lo, hi, step;
	int trips;
} Course;

enum { TRIP_COUNTS = 7 };

typedef struct Tracer {
	Func *f;
	Arena *tmp;
	int trips[TRIP_COUNTS], first;                  /* what courses are given in turn; -1: 0 a step before */
	VEC(Course) courses;
	VEC(Leaf) leaves;
	Known *known;                                   /* by Value.id */
	int stamp, programs;                            /* programs: that the loop over them takes */
	const Op *at;                                   /* the op to blame, and why; NULL */
	const char *why;
} Tracer;

/* trace_value.c: an integer's value; a loop's trips.  Below half of 2^TRACE_FAR_BITS: it is known, and no leaf. */
enum { TRACE_FAR_BITS = 40 };
int64_t tracer_value(Tracer *t, const Value *v);
int tracer_trips(Tracer *t, const Op *loop);
void tracer_set(Tracer *t, const Value *v, int64_t to);
bool tracer_is_near(int64_t v);

/* The function's values are numbered. */
void trace_open(Tracer *t, Func *f, Arena *tmp);
/* Forgets all values, and gives out trip counts from number `first` on. */
void trace_restart(Tracer *t, int first);
/* False: t->why and t->at say what cannot be run. */
/* The region of a role's groups, as group number `group` runs it. */
bool trace_group(Tracer *t, const Block *b, int group, Trace *out);
bool trace_block(Tracer *t, const Block *b, Trace *out);

#endif
