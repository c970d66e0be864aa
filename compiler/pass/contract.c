/* Sums of products of decoded weights become products of matrices with one row.
 *
 *     %a = cast %w : f32[32, 256]                        %w is i8, as read
 *     %b = broadcast (reshape (cast %x : f32[256]))      %x is bf16        %y = reshape %x : bf16[1, 256]
 *     %m = mul %a, %b                                                  =>  %t = permute (cast %w : bf16[32, 256])
 *     %s = reduce %m {fn = "sum", axis = 1} : f32[32]                      %s = reshape (dot %y, %t, zeros) : f32[32]
 *
 * Each factor is a half exactly, so that products and sums are the same in f32 but for their order.  A thread that decodes
 * and multiplies by itself takes about ten instructions for a weight of 4 bits, of which matrix instructions leave three:
 * 8192 x 8192 takes 42 us on an H200 so.  Weights of 16 bits and more wait for memory either way. */
#include "ir/derive.h"
#include "pass/pass.h"
#include "target/target.h"

#include <string.h>

enum { NARROW_BITS = 8, LEAST = 16 };

/* The tile of few bits whose elements as f32 v is; NULL. */
static Value *
decoded(const Value *v)
{
	const Op *op = v->def;
	DType t = op && op->kind == OP_CAST ? op->in[0]->type->elem : TY_BOOL;
	return t != TY_BOOL && dtype_info[t].bits <= NARROW_BITS ? op->in[0] : NULL;
}

/* The halves whose elements as f32 v repeats along every dimension but d; NULL. */
static Value *
row_of(const Value *v, int d)
{
	const Op *op = v->def;
	int64_t n = v->type->extent[d];
	while (op && (op->kind == OP_BROADCAST || op->kind == OP_RESHAPE) && op->in[0]->type->kind == TYPE_TILE) {
		const Type *t = op->in[0]->type;
		bool is_line = type_count(t) == n && (t->rank == 1 || (t->rank == 2 && t->extent[d] == n));
		if (!is_line)
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

/* As one row times a matrix; false: it stays as it is. */
static bool
contract(Op *sum, const Target *t)
{
	const Op *mul = sum->in[0]->def;
	int axis = (int)attr_axis(sum);
	bool counts = mul && mul->kind == OP_MUL && mul->out[0].nuses == 1 && mul->home == sum->home &&
	    strcmp(attr_fn(sum), "sum") == 0 && mul->out[0].type->rank == 2 && mul->out[0].type->elem == TY_F32 &&
	    sum->out[0].type->rank == 1;
	for (int i = 0; i < 2 && counts; i++) {
		Value *w = decoded(mul->in[i]), *x = w ? row_of(mul->in[1 - i], axis) : NULL;
		const Type *tile = mul->out[0].type;
		int64_t n = tile->extent[1 - axis], k = tile->extent[axis];
		if (!x || !has_products(t, x->type->elem) || n < LEAST || k < LEAST)
			continue;
		Builder b = build_before(sum);
		Module *m = b.m;
		const int64_t row[] = {1, k}, out[] = {1, n};
		Value *left = build_reshape(&b, x, 2, row);
		Value *right = build1(&b, OP_CAST, w, type_with_elem(m, w->type, x->type->elem));
		if (axis == 1)
			right = build_permute(&b, right, (int64_t[]){1, 0});
		const Type *acc = type_with_shape(m, sum->out[0].type, 2, out);
		Value *v = build3(&b, OP_DOT, left, right, build_int(&b, acc, 0));
		op_become(sum, build1(&b, OP_RESHAPE, v, sum->out[0].type));
		return true;
	}
	return false;
}

void
pass_contract(Func *f, const Target *t)
{
	bool any = false;
	for (Op *op = f->body->first, *next; op; op = next) {
		next = op_after(op, f->body);
		if (op->kind == OP_REDUCE && op->home->parent && op->home->parent->kind == OP_FOR)
			any |= contract(op, t);
	}
	if (any)
		pass_simplify(f, t);
}
