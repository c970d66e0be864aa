/* What the inference rules share; private to infer*.c. */
#ifndef TEGULA_INFER_H
#define TEGULA_INFER_H

#include "ir/ir.h"

typedef struct Infer {
	Module *m;
	const Op *op;                                   /* kind, operands, attributes; results and regions are not read */
	const Type *const *want;
	int nwant;
	const Type **out;
	int *nout;
	const char **why;
} Infer;

/* infer_memory.c: the tile that an access to tensor operand 0 moves */
bool infer_accessed(Infer *x, const Type **tile);

/* infer.c */

/* Each leaves its reason and returns false. */
bool infer_fail(Infer *x, const char *fmt, ...) PRINTF(2, 3);
bool infer_expect(Infer *x, int i, const char *expected, ...) PRINTF(3, 4);   /* "operand 1 is f32[4]; expected …" */
const char *infer_text(Infer *x, const Type *t);

static inline const Type *
infer_in(const Infer *x, int i)
{
	return x->op->in[i]->type;
}

/* One result, whose size is checked. */
bool infer_out(Infer *x, const Type *t);

bool infer_count(Infer *x, int least, int most);                    /* of operands */
bool infer_tile(Infer *x, int i);                                   /* plain elements, any rank */
bool infer_int_tile(Infer *x, int i);                               /* integers of 8 bits or more */
bool infer_i64(Infer *x, int i);                                    /* an i64 scalar */
bool infer_mask(Infer *x, int i, const Type *shape);                /* bool of that shape */
bool infer_type(Infer *x, int i, const Type *t);
bool infer_axis(Infer *x, const Type *t, int *axis);                /* {axis} within the rank of t */
bool infer_want(Infer *x);                                          /* exactly one type asked for, and it is a tile */

#define RULE(name) bool infer_rule_##name(Infer *x)

/* infer.c */
RULE(want);
RULE(none);
RULE(index);
RULE(iota);
RULE(dim);
RULE(same);
RULE(cmp);
RULE(cast);
RULE(bitcast);
RULE(lookup);
RULE(ptr_add);
RULE(ptr_diff);
RULE(select);
RULE(philox);
RULE(loop);
RULE(branch);
/* infer_shape.c */
RULE(reshape);
RULE(permute);
RULE(broadcast);
RULE(cat);
RULE(join);
RULE(split);
RULE(dot);
RULE(dot_scaled);
RULE(reduce);
RULE(reduce_fn);
RULE(scan);
RULE(scan_fn);
RULE(sort);
RULE(topk);
RULE(histogram);
RULE(gather);
RULE(scatter);
/* infer_memory.c */
RULE(extract);
RULE(read);
RULE(write);
RULE(atomic);
RULE(load);
RULE(store);
RULE(atomic_ptr);
RULE(prefetch);
/* infer_buffer.c */
RULE(alloc);
RULE(slot);
RULE(get);
RULE(put);
RULE(copy);
RULE(token);
RULE(mbarrier);
RULE(arrive);
RULE(await);
RULE(dot_start);
RULE(dot_wait);

#endif
