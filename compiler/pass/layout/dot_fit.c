/* Makes a dot fit its instruction, in terms of the tile IR.
 *
 *     %p = dot %a, %b, %c : f32[8, 64]          %a is f16[8, 64]; the instruction has 16 rows
 *
 *     %0 = reshape %a : f16[1, 8, 64]
 *     %1 = broadcast %0 : f16[2, 8, 64]         rows 8 to 15 are rows 0 to 7 again: registers of the same threads
 *     %2 = reshape %1 : f16[16, 64]             … %c likewise
 *     %3 = dot %2, %b, %5 : f32[16, 64]
 *     %4 = reshape %3 : f32[2, 8, 64]
 *     %5 = reduce %4 {fn = "max", axis = 0, alike} : f32[8, 64]     both halves are the result: no instruction
 *
 * Along K the repeated part is set to zero. */
#include "ir/derive.h"
#include "pass/layout/dot.h"

/* One of the equal parts of v along dimension d, of so many elements: no thread needs what another holds. */
static Value *
one_part(Builder *b, Value *v, int d, int64_t part)
{
	if (v->type->extent[d] == part)
		return v;
	Value *x = build_split_dim(b, v, d, part);
	Attr how[] = {attr_new_fn(b->m, "max"), attr_new_axis(b->m, d), attr_new_alike(b->m, true)};
	return op_make(b, OP_REDUCE, &x, 1, how, LEN(how), NULL, 0)->out;
}

/* Elements from `valid` on along dimension d become zero. */
static Value *
zero_beyond(Builder *b, Value *v, int d, int64_t valid)
{
	const Type *index = type_with_elem(b->m, v->type, TY_I32);
	Value *inside = build2(b, OP_LT, build_iota(b, index, d), build_int(b, index, valid));
	return build3(b, OP_SELECT, inside, v, build_int(b, v->type, 0));
}

static Value *
grow(Builder *b, Value *v, int d, int64_t to, bool zeros)
{
	int64_t had = v->type->extent[d];
	while (v->type->extent[d] < to)
		v = build_repeat(b, v, d, 2);
	return zeros && had < to ? zero_beyond(b, v, d, had) : v;
}

Op *
dot_fit(Op *dot, const MmaInfo *mma)
{
	const Type *t = dot->out[0].type;
	int row = t->rank - 2, col = t->rank - 1;
	int64_t m = t->extent[row], n = t->extent[col], k = dot->in[0]->type->extent[col];
	Builder b = build_before(dot);
	if (m >= mma->m && n >= mma->n && k >= mma->k)
		return dot;
	if (t->rank >= KERNEL_RANK)
		return NULL;
	Value *x = grow(&b, dot->in[0], row, mma->m, false), *y = grow(&b, dot->in[1], col, mma->n, false);
	Value *c = grow(&b, grow(&b, dot->in[2], row, mma->m, false), col, mma->n, false);
	x = grow(&b, x, col, mma->k, true);
	y = grow(&b, y, row, mma->k, true);
	Op *large = op_make(&b, OP_DOT, (Value *[]){x, y, c}, 3, dot->attr, dot->nattr, NULL, 0);
	op_become(dot, one_part(&b, one_part(&b, &large->out[0], col, n), row, m));
	return large;
}

/* The upper part of an f32, which is a tf32 as it stands; NaN and infinity stay what they are. */
static Value *
upper_part(Builder *b, Value *v)
{
	const Type *bits = type_with_elem(b->m, v->type, TY_U32);
	Value *i = build1(b, OP_BITCAST, v, bits);
	i = build2(b, OP_AND, i, build_int(b, bits, 0xffffe000));
	Value *x = build1(b, OP_BITCAST, i, v->type);
	return build3(b, OP_SELECT, build2(b, OP_NE, v, v), v, x);
}

/* What is left; nothing of NaN and infinity. */
static Value *
lower_part(Builder *b, Value *v, Value *upper)
{
	Value *x = build2(b, OP_SUB, v, upper);
	Value *zero = build_float(b, v->type, 0);
	return build3(b, OP_SELECT, build2(b, OP_NE, x, x), zero, x);
}

static Value *
tf32_dot(Builder *b, Value *x, Value *y, Value *acc)
{
	Attr precision = attr_new_precision(b->m, "tf32");
	return &op_make(b, OP_DOT, (Value *[]){x, y, acc}, 3, &precision, 1, NULL, 0)->out[0];
}

/* A matrix unit drops what is below the last bit of its sum, where f32 rounds: a sum of 1024 squares is 143 * 2^-24 of it
 * too small on an H200.  So the products of one dot are added from zero, and their sum to the accumulator as f32. */
void
dot_split_tf32(Op *dot)
{
	Builder b = build_before(dot);
	Value *x = dot->in[0], *y = dot->in[1], *acc = dot->in[2], *xu = upper_part(&b, x), *yu = upper_part(&b, y);
	Value *xl = lower_part(&b, x, xu), *yl = lower_part(&b, y, yu);
	bool is_sum = !value_is_zero(acc);
	Value *p = tf32_dot(&b, xl, yu, is_sum ? build_float(&b, acc->type, 0) : acc);
	p = tf32_dot(&b, xu, yl, p);
	p = tf32_dot(&b, xu, yu, p);
	op_become(dot, is_sum ? build2(&b, OP_ADD, acc, p) : p);
}
