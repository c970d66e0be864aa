/* dot_scaled in simpler terms: each operand times its scales, spread over their blocks, then a plain dot.
 *
 *     %p = dot_scaled %a, %s, %b, %t, %acc {block = 32}        %a is f8e4m3[M, K], %s is u8[M, K / 32]
 *
 *     %0 = … 2^(%s - 127) : bf16[M, K / 32]                    by its bits; 255 is NaN
 *     %1 = reshape, broadcast, reshape : bf16[M, K]
 *     %2 = mul (cast %a : bf16[M, K]), %1
 *     … the same for %b and %t;  %p = dot %2, %3, %acc
 *
 * In bf16 where that is exact (elements of 8 bits or less with scales of 8 bits, bf16 with powers of two), else in f32.
 * Before sizes are compared (pass contract), so that all that looks for products sees one. */
#include "ir/derive.h"
#include "pass/layout/dot.h"

#include <math.h>
#include <string.h>

/* Ones leave an operand that has no scales as it is. */
static bool
is_exact_in_bf16(const Value *v, const Value *scale)
{
	DType t = v->type->elem, s = scale->type->elem;
	const Attr *known = value_const(scale);
	bool is_one = known && known->kind == KIND_FLOAT && known->f == 1;
	return dtype_info[t].bits <= 8 ? dtype_info[s].bits <= 8 || is_one : t == TY_BF16 && (s == TY_U8 || is_one);
}

/* 2^(x - 127) as f32: x where the exponent stands; 0 is a subnormal. */
static Value *
power(Builder *b, Value *x)
{
	const Type *bits = type_with_elem(b->m, x->type, TY_U32), *f = type_with_elem(b->m, x->type, TY_F32);
	Value *i = build1(b, OP_CAST, x, bits);
	Value *v = build1(b, OP_BITCAST, build2(b, OP_SHL, i, build_int(b, bits, 23)), f);
	Value *least = build_float(b, f, ldexp(1, -127)), *nan = build_float(b, f, NAN);
	v = build3(b, OP_SELECT, build2(b, OP_EQ, i, build_int(b, bits, 0)), least, v);
	return build3(b, OP_SELECT, build2(b, OP_EQ, i, build_int(b, bits, 255)), nan, v);
}

static Value *
cast(Builder *b, Value *v, DType to)
{
	return v->type->elem == to ? v : build1(b, OP_CAST, v, type_with_elem(b->m, v->type, to));
}

/* The float of 8 bits or less that a value was converted from, which lost nothing: `scale[...] as f32` of f8e4m3. */
static Value *
narrowed(Value *v)
{
	const Value *from = v->def && v->def->kind == OP_CAST ? v->def->in[0] : v;
	bool small = dtype_is_float(from->type->elem) && dtype_info[from->type->elem].bits <= 8;
	return small && dtype_info[v->type->elem].bits > 8 ? v->def->in[0] : v;
}

/* Scales [.., outer, blocks] as [.., outer, k]. */
static Value *
spread(Builder *b, Value *s, int64_t block, int64_t k)
{
	int64_t extent[MAX_RANK];
	int rank = s->type->rank;
	Value *v = build_repeat_each(b, s, rank - 1, block), *in[1 + MAX_RANK] = {v};
	if (v->type->extent[rank - 1] == k)
		return v;
	memcpy(extent, v->type->extent, sizeof extent);
	extent[rank - 1] = k;
	for (int d = 0; d < rank; d++)
		in[1 + d] = build_index(b, 0);
	Attr attr[2] = {attr_new_index(b->m, &"ppppp"[KERNEL_RANK - rank]), attr_new_extents(b->m, extent, rank)};
	return &op_make(b, OP_EXTRACT, in, 1 + rank, attr, 2, NULL, 0)->out[0];
}

static Value *
scaled(Builder *b, Value *v, Value *scale, int64_t block, bool right, DType to)
{
	const Type *t = v->type;
	int64_t k = t->extent[right ? t->rank - 2 : t->rank - 1];
	Value *s = scale->type->elem == TY_U8 ? power(b, scale) : scale;
	s = spread(b, cast(b, s, to), block, k);
	return build2(b, OP_MUL, cast(b, v, to), right ? build_exchange(b, s) : s);
}

void
expand_dot_scaled(Op *op)
{
	Builder b = build_before(op);
	Value *x = narrowed(op->in[0]), *xs = narrowed(op->in[1]), *y = narrowed(op->in[2]), *ys = narrowed(op->in[3]);
	int64_t block = attr_block(op);
	if (x->type->rank >= KERNEL_RANK) {
		diag_error(b.m->cx, op->place, DIAG_SCALED_RANK, x->type->rank);
		return;
	}
	bool exact = is_exact_in_bf16(x, xs) && is_exact_in_bf16(y, ys);
	DType to = exact ? TY_BF16 : TY_F32;
	x = scaled(&b, x, xs, block, false, to);
	y = scaled(&b, y, ys, block, true, to);
	op_become(op, build3(&b, OP_DOT, x, y, op->in[4]));
}
