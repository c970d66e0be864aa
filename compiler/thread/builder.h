/* What the files that make nodes share. */
#ifndef TEGULA_THREAD_BUILDER_H
#define TEGULA_THREAD_BUILDER_H

#include "thread/thread.h"

struct ThreadBuilder {
	ThreadModule *m;
	ThreadRegion *region;                           /* where nodes go */
	Place place;
	ThreadFunc *function;                           /* open; NULL: the kernel is */
	ThreadRegion *outside;                          /* where the kernel goes on after it */
	HashTable constant, value;                      /* nodes by their values: all there are; in open regions */
	bool simplifies;
	int outer_numbers;                              /* of the kernel, while a function is open */
};

/* A node in no region yet, with results of its own; `like` is copied with its operands. */
ThreadNode *thread_node(ThreadBuilder *b, const ThreadNode *like, int nout);
void thread_append(ThreadBuilder *b, ThreadNode *n);
void thread_results(ThreadBuilder *b, ThreadNode *n, int nout); /* of a node that has none yet */
Reg *thread_copy(ThreadBuilder *b, const Reg *r, int n);
/* A node at the end of the open region, unless what it gives is there already: out are the registers of its results.
 * `like` may change, and so may its operands. */
void thread_record(ThreadBuilder *b, ThreadNode *like, int nout, Reg *out);
/* For a pure node of the module that stands in no region: it is appended if no other is the same. */
ThreadNode *thread_number(ThreadBuilder *b, ThreadNode *n);
/* A builder that goes on with a module, its region not yet set. */
ThreadBuilder *thread_reopen(ThreadModule *m);

/* build_region.c: of a loop's index, once its bounds are known */
void thread_loop_range(ThreadModule *m, ThreadNode *loop);

/* simplify.c: what two known integers give; false: it is not folded */
bool thread_fold(ThreadOp op, RegType t, int64_t a, int64_t b, int64_t *out);
/* registers that hold the node's results already, in out; false: there are none.  Operands are put in order. */
bool thread_simplified(ThreadBuilder *b, ThreadNode *n, Reg *out);

/* range.c */
ThreadRange thread_range_number(int64_t v);             /* of a constant */
ThreadRange thread_range_node(const ThreadModule *m, const ThreadNode *n);

#endif
