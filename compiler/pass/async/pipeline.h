/* What the files of pass pipeline share; private to them. */
#ifndef TEGULA_PIPELINE_H
#define TEGULA_PIPELINE_H

#include "pass/pass.h"
#include "target/target.h"

/* A read of the loop that is made ahead of its trip. */
typedef struct Staged {
	Op *read;
	const Layout *want;                             /* in which the dots want it, or NULL */
	Value *ring;                                    /* its buffer */
} Staged;

typedef struct Pipeline {
	Module *m;
	Arena *tmp;
	const Target *t;
	Func *f;
	Op *loop;
	Block *body;
	bool is_async;                                  /* copies go on by themselves */
	VEC(Op *) slice;                                /* of the body: what its dots' operands are computed from */
	VEC(Staged) reads;
} Pipeline;

/* pipeline.c */

/* Follows v, a scalar, from the loop's index and what the loop leaves alone, within `depth` ops? */
bool pipeline_can_shift(const Pipeline *p, const Value *v, int depth);
/* The read again, or a copy into `slot`, for the trip of that index. */
Op *pipeline_access(Pipeline *p, Builder *b, const Staged *s, OpKind kind, Value *slot, Value *index);
void pipeline_rings(Pipeline *p, Builder *b, int slots);
Value *pipeline_slot(Pipeline *p, Builder *b, const Staged *s, Value *number);
/* Every use of the read is a get of the slot; the read goes. */
void pipeline_gets(Pipeline *p, const Staged *s, Value *slot);
/* The loop carries n values more, from `init`: gives their arguments.  pipeline_yield then says what they become. */
Value *pipeline_carry(Pipeline *p, Value *const *init, int n);
void pipeline_yield(Pipeline *p, Value *const *more, int n);
Value *pipeline_next(Pipeline *p, Builder *b, Value *v, int n);

/* staged.c: the same without asynchronous copies */

/* Two slots where they take no more than `room` bytes. */
void pipeline_hold(Pipeline *p, int64_t room);

#endif
