/* What the files of simplify share; private to them: simplify.c calls the others, and says in which order. */
#ifndef TEGULA_SIMPLIFY_H
#define TEGULA_SIMPLIFY_H

#include "pass/pass.h"

typedef struct Simplify {
	Module *m;
	Arena *tmp;
	Func *f;
	VEC(Value *) forward;                           /* by value id: what stands for it now, or NULL */
	HashTable seen;                                 /* ops in sight, which later ones may equal: cse.c */
	int epoch;                                      /* counts ops that may write memory, for reads */
	bool changed, is_gpu;
} Simplify;

/* simplify.c */

Value *simplify_resolve(Simplify *s, Value *v);         /* follows forwards */
/* Makes an op before `at`, simplifies it, and gives its first result (or what stands for it). */
Value *simplify_emit(Simplify *s, Op *at, OpKind kind, Value *const *in, int nin, const Attr *attr, int nattr,
    const Type *want);
Value *simplify_emit1(Simplify *s, Op *at, OpKind kind, Value *x, const Type *want);
Value *simplify_emit2(Simplify *s, Op *at, OpKind kind, Value *x, Value *y);
void simplify_forward(Simplify *s, Value *from, Value *to);

/* simplify_fold.c: ops on constants */

/* Splat constants: every element of the tile is one known value. */
Value *def_operand(const Value *v, OpKind kind);         /* the first operand of v's op of this kind; or NULL */
bool const_is_int(const Value *v, int64_t i);           /* of integers and bools; as int_wrap has it */
bool const_is_float(const Value *v, double f);          /* to the bit: -0.0 is not 0.0 */
bool const_is_zero(const Value *v);                     /* all bits zero in memory */
Value *simplify_int(Simplify *s, Op *at, const Type *t, int64_t v);
Value *simplify_const(Simplify *s, Op *at, const Type *t, const Attr *value);
/* The constant that the op gives, or NULL. */
Value *simplify_fold(Simplify *s, Op *op);

/* rules.c, rules_shape.c, rules_memory.c: what the op's first result equals, or NULL */

Value *simplify_elementwise(Simplify *s, Op *op);
Value *simplify_small(Simplify *s, Op *op, Value *x);        /* rules_known.c: a cast of what a byte holds */
Value *simplify_halves(Simplify *s, Op *op, Value *x);       /* rules_half.c: a cast of what halves compute as well */
Value *simplify_dot(Simplify *s, Op *op, Value *x);          /* … and products of what they hold */
Value *simplify_power(Simplify *s, Op *op, Value *x);        /* … and exp2 of it */
Value *simplify_pow(Simplify *s, Op *op, Value *x, Value *y);        /* rules_pow.c */
Value *simplify_uniform(Simplify *s, Op *op);            /* rules_known.c: elementwise, an operand is one number */
Value *simplify_shape(Simplify *s, Op *op);
Value *simplify_access(Simplify *s, Op *op);
/* The scalar that fills the whole tile (a scalar itself, a constant, a broadcast), made at `at` if need be; or NULL. */
Value *simplify_splat(Simplify *s, Op *at, Value *v);
/* Ops without results: true if op was erased, or replaced by another before it. */
bool simplify_effect(Simplify *s, Op *op);

/* cse.c */

/* An earlier op in sight that computes the same, or NULL, and then op is kept for later ones. */
Op *simplify_seen(Simplify *s, Op *op);

/* simplify_control.c */

/* Before an op's regions are walked.  True if its insides (or nothing) replaced it: the walk goes on with *next. */
bool simplify_control(Simplify *s, Op *op, Op **next);

/* dce.c */

bool simplify_sweep(Simplify *s);                       /* true if something went; ids are no longer dense */

#endif
