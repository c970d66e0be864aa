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
#define infer_fail(x, ...) (*(x)->why = arena_printf((x)->m->cx->tmp, __VA_ARGS__), false)
/* "operand 1 is f32[4]; expected …" */
#define infer_expect(x, i, ...)                                                                                    \
	infer_fail(x, "operand %d is %s; expected %s", (i) + 1, infer_text(x, infer_in(x, i)),                     \
	    arena_printf((x)->m->cx->tmp, __VA_ARGS__))
#define infer_text(x, t) type_text(t, (x)->m->cx->tmp)

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

/* The rules: infer_shape.c has those of ops that move or combine elements, infer_memory.c and infer_buffer.c those of
 * memory, infer.c the others. */
#define RULE(name) bool infer_rule_##name(Infer *x)
#define OP(name, text, in, out, infer, traits, cost, family, rounding, meaning) RULE(infer);
#include "ir/ops.def"
#undef OP

#endif
