/* What the files that make nodes share. */
#ifndef TEGULA_THREAD_BUILDER_H
#define TEGULA_THREAD_BUILDER_H

#include "thread/thread.h"

/* A node whose value is in sight, in the bucket of its hash. */
typedef struct ThreadNumber {
	uint64_t hash;
	ThreadNode *node;
	int before;                                     /* earlier one of the same bucket, 0: none */
} ThreadNumber;

enum { THREAD_BUCKETS = 4096 };

struct ThreadBuilder {
	ThreadModule *m;
	ThreadRegion *region;                           /* where nodes go */
	Place place;
	ThreadFunc *function;                           /* open; NULL: the kernel is */
	ThreadRegion *outside;                          /* where the kernel goes on after it */
	VEC(ThreadNumber) number;
	int bucket[THREAD_BUCKETS];
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

#endif
