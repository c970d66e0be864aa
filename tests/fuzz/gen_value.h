/* What gen.c takes from gen_value.c; private to them. */
#ifndef TEGULA_FUZZ_GEN_VALUE_H
#define TEGULA_FUZZ_GEN_VALUE_H

#include "gen.h"

enum { MAX_VALUES = 400, MAX_OPS = 120, MAX_DEPTH = 3, MAX_TILE = 256 };

typedef struct Gen {
	Bytes bytes;
	Module *m;
	Func *f;
	Builder b;
	Value *value[MAX_VALUES];
	int n;
	int nops;
	int depth;
} Gen;

int gen_pick(Gen *g, int n);                             /* 0 .. n-1 */
Value *gen_keep(Gen *g, Value *v);                      /* puts it in sight, if it is small */
DType gen_pick_dtype(Gen *g);
Value *gen_constant(Gen *g, const Type *t);
Value *gen_scalar_int(Gen *g, int64_t v);
Value *gen_any(Gen *g);
Value *gen_of_type(Gen *g, const Type *t);              /* one in sight, or a constant */
Value *gen_as(Gen *g, Value *v, DType t);
Value *gen_op1(Gen *g, OpKind kind, Value *const *in, int nin, const Attr *attr, int nattr, const Type *want);

void gen_elementwise(Gen *g);
void gen_again(Gen *g);
void gen_casts(Gen *g);
void gen_select_or_cast(Gen *g);
void gen_fresh(Gen *g);
void gen_reshape(Gen *g);
void gen_broadcast(Gen *g);
void gen_permute(Gen *g);
void gen_extract(Gen *g);
void gen_combine(Gen *g);
void gen_reduce(Gen *g);
void gen_reduce_fn(Gen *g);
void gen_order(Gen *g);
Value *gen_acc(Gen *g, const Type *t);
void gen_product(Gen *g, OpKind kind, Value *const *in, int nin, const Attr *attr, int nattr);
void gen_dot(Gen *g);
void gen_packed(Gen *g);                                /* gen_packed.c */
void gen_dot_scaled(Gen *g);

#endif
