/* Sums of products of decoded weights become products of matrices with one row.
 *
 *     %a = cast %w : f32[32, 256]                        %w is i8, as read
 *     %b = broadcast (reshape (cast %x : f32[256]))      %x is bf16        %y = reshape %x : bf16[1, 256]
 *     %m = mul %a, %b                                                  =>  %t = permute (cast %w : bf16[32, 256])
 *     %s = reduce %m {fn = "sum", axis = 1} : f32[32]                      %s = reshape (dot %y, %t, zeros) : f32[32]
 *
 * Each factor is a half exactly, so that products and sums are the same in f32 but for their order.  A thread that decodes
 * and multiplies by itself takes about ten instructions for a weight of 4 bits, of which matrix instructions leave three:
 * 8192 x 8192 takes 42 us on an H200 so.  Weights of 16 bits and more wait for memory either way.
 *
 * What a row of weights has beside (decoded.h), a scale or a zero point of 16 bits, leaves the sum; the sum of %x is a
 * product with ones.  Trips of several groups come one by one first (ungroup.c). */
#include "ir/derive.h"
#include "pass/decoded.h"
#include "pass/layout/dot.h"
#include "pass/pass.h"
#include "target/target.h"

#include <string.h>

enum { LEAST_ROWS = 8, LEAST = 16 };

/* The halves whose elements as f32 v repeats along every dimension but d; NULL. */
static Value *
row_of(const Value *v, int d)
{
	const Op *op = v->def;
	int64_t n = v->type->extent[d];
	while (op && (op->kind == OP_BROADCAST || op->kind == OP_RESHAPE) && op->in[0]->type->kind == TYPE_TILE) {
		const Type *t = op->in[0]->type;
		bool is_across = op->kind == OP_BROADCAST && type_count(op->out->type) != n &&
		    (t->rank != v->type->rank || t->extent[d] != n);
		if (type_count(t) != n || is_across)
			return NULL;
		op = op->in[0]->def;
	}
	DType t = op && op->kind == OP_CAST ? op->in[0]->type->elem : TY_BOOL;
	return (t == TY_F16 || t == TY_BF16) && type_count(op->in[0]->type) == n ? op->in[0] : NULL;
}

static bool
has_products(const Target *t, DType elem)
{
	return (t->has & HAS_CP_ASYNC) && (t->has & HAS_MMA_SYNC) && (elem == TY_F16 || (t->has & HAS_BF16));
}

static Value *
product(Builder *b, Value *left, Value *right, int64_t n)
{
	const int64_t out[] = {1, n};
	const Type *t = type_tile(b->m, TY_F32, 2, out);
	return build_reshape(b, build3(b, OP_DOT, left, right, build_int(b, t, 0)), 1, &n);
}

/* One row times a matrix. */
static Value *
as_product(Builder *b, Value *w, Value *x, int axis)
{
	Decoded d = decoded_build(b, w, axis, x->type->elem);
	int64_t k = w->type->extent[axis], n = type_count(w->type) / k;
	const int64_t row[] = {1, k}, matrix[] = {k, n}, rows[] = {n, k};
	bool is_turned = ANY_OF(i, axis, w->type->extent[i] > 1);
	Value *left = build_reshape(b, x, 2, row), *right = build_reshape(b, d.halves, 2, is_turned ? rows : matrix);
	Value *v = product(b, left, is_turned ? build_permute(b, right, (int64_t[]){1, 0}) : right, n);
	if (d.scale)
		v = build2(b, OP_MUL, v, build_reshape(b, d.scale, 1, &n));
	if (d.plus) {
		Value *ones = build_float(b, type_tile(b->m, x->type->elem, 2, matrix), 1);
		Value *sum = product(b, left, ones, n), *plus = build_reshape(b, d.plus, 1, &n);
		v = build2(b, OP_ADD, v, build2(b, OP_MUL, sum, plus));
	}
	return v;
}

/* Has the tile one dimension beside the axis, but for ones? */
static bool
is_matrix(const Type *t, int axis)
{
	int n = COUNT_OF(d, t->rank, d != axis && t->extent[d] > 1);
	return n <= 1;
}

static bool
contract(Op *sum, const Target *t)
{
	const Op *mul = sum->in[0]->def;
	int axis = (int)attr_axis(sum);
	bool counts = mul && mul->kind == OP_MUL && mul->out[0].nuses == 1 && mul->home == sum->home &&
	    strcmp(attr_fn(sum), "sum") == 0 && mul->out[0].type->elem == TY_F32 && is_matrix(mul->out[0].type, axis);
	for (int i = 0; i < 2 && counts; i++) {
		Value *w = mul->in[i], *x = row_of(mul->in[1 - i], axis);
		const Type *tile = mul->out[0].type;
		int64_t k = tile->extent[axis];
		if (!x || !has_products(t, x->type->elem) || type_count(tile) / MAX(k, 1) < LEAST_ROWS || k < LEAST ||
		    !decoded_is(w, axis, x->type->elem))
			continue;
		Builder b = build_before(sum);
		const Type *as = sum->out[0].type;
		op_become(sum, build_reshape(&b, as_product(&b, w, x, axis), as->rank, as->extent));
		return true;
	}
	return false;
}

void
pass_contract(Func *f, const Target *t)
{
	bool any = false;
	for (Op *op = f->body->first; op;)
		op = op->kind == OP_FOR && ungroup(f, op) ? f->body->first : op_after(op, f->body);
	for (EACH_OP(op, f->body)) {
		if (op->kind == OP_REDUCE && op->home->parent && op->home->parent->kind == OP_FOR)
			any |= contract(op, t);
		if (op->kind == OP_DOT_SCALED && op->in[0]->type->rank < KERNEL_RANK) {
			expand_dot_scaled(op);
			any = true;
		}
	}
	if (any)
		pass_simplify(f, t);
}
