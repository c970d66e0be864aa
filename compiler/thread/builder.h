/* What the files that make nodes share. */
#ifndef TEGULA_THREAD_BUILDER_H
#define TEGULA_THREAD_BUILDER_H

#include "thread/thread.h"

/* A node whose value is available, in the bucket of its hash. */
typedef struct ThreadNumber {
	uint64_t hash;
	ThreadNode *node;
	int before;                                     /* earlier one of the same bucket, 0: none */
} ThreadNumber;

enum { THREAD_BUCKETS = 8192, THREAD_CONSTANTS = 512 };

typedef struct ThreadTable {
	VEC(ThreadNumber) number;
	int *bucket, nbucket;
} ThreadTable;

struct ThreadBuilder {
	ThreadModule *m;
	ThreadRegion *region;                           /* where nodes go */
	Place place;
	ThreadFunc *function;                           /* open; NULL: the kernel is */
	ThreadRegion *outside;                          /* where the kernel goes on after it */
	ThreadTable constant, value;                    /* all there are; those of nodes in open regions */
	bool simplifies;
	int outer_numbers;                              /* of the kernel, while a function is open */
};

/* A node that is in no region yet; operands are copied. */
ThreadNode *thread_loose(ThreadBuilder *b, ThreadKind kind, int op, RegType type, const Reg *in, int nin);
/* The same, at the end of the open region. */
ThreadNode *thread_node(ThreadBuilder *b, ThreadKind kind, int op, RegType type, const Reg *in, int nin);
void thread_append(ThreadBuilder *b, ThreadNode *n);
/* Results, one and several of a type. */
Reg thread_result(ThreadBuilder *b, ThreadNode *n, RegType type);
void thread_results(ThreadBuilder *b, ThreadNode *n, RegType type, Reg *out, int nout);
Reg *thread_copy(ThreadBuilder *b, const Reg *r, int n);
/* A node without effects: one that is available and the same, or a new one.  `like` stands nowhere and is copied. */
ThreadNode *thread_pure(ThreadBuilder *b, const ThreadNode *like, int nout);
/* The same for a node of the module that stands in no region: it is appended if no other is the same. */
ThreadNode *thread_number(ThreadBuilder *b, ThreadNode *n);
/* A builder that goes on with a module, its region not yet set. */
ThreadBuilder *thread_reopen(ThreadModule *m);
void thread_leave(ThreadBuilder *b, int to);            /* forgets values, down to so many */

/* simplify.c: what two known integers give; false: it is not folded */
bool thread_fold(EmitOp op, RegType t, int64_t a, int64_t b, int64_t *out);
/* a register that holds the operation's result already; 0: there is none. */
Reg thread_simplified(ThreadBuilder *b, EmitOp op, Reg x, Reg y, Reg z);
Reg thread_simplified_cast(ThreadBuilder *b, EmitCast c, RegType to, Reg a);

/* range.c */
ThreadRange thread_range_op(const ThreadModule *m, EmitOp op, RegType t, const Reg *in);
ThreadRange thread_range_cast(const ThreadModule *m, EmitCast c, RegType to, Reg a);
ThreadRange thread_range_prim(const ThreadModule *m, PrimKind k);

#endif
