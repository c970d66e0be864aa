/* Extents and strides of tensors, and the other scalars that a launch gives: indices of programs and how many there are. */
#include "lower/lower.h"

static int
tensor_param(const Value *tensor)
{
	return tensor->index;                           /* tensors are nothing but parameters */
}

/* The extent as a number, or -1. */
static int64_t
constant_dim(const Value *tensor, int dim)
{
	return tensor->type->extent[dim];
}

Reg
lower_dim(Lower *l, const Value *tensor, int dim)
{
	int64_t n = constant_dim(tensor, dim);
	if (n >= 0)
		return lower_i64(l, n);
	int p = tensor_param(tensor), symbol = l->f->param[p].dim[dim];
	return symbol >= 0 ? lower_param(l, ABI_DIM, symbol, 0) : lower_param(l, ABI_EXTENT, p, dim);
}

Reg
lower_extent(Lower *l, const Op *access, int dim)
{
	Reg r = lower_dim(l, access->in[0], dim);
	for (int i = 1; i <= access_merged(access, dim); i++)
		r = lower_op2(l, THREAD_MUL, r, lower_dim(l, access->in[0], dim - i));
	return r;
}

/* Rows of packed elements start on a byte. */
static bool
rows_are_even(const Value *tensor, int dim)
{
	return dtype_is_packed(tensor->type->elem) && dim == tensor->type->rank - 1;
}

int64_t
lower_constant_stride(Lower *l, const Value *tensor, int dim)
{
	int64_t stride = 1;
	const FuncParam *p = &l->f->param[tensor_param(tensor)];
	if (p->strided)
		return p->unit && dim == tensor->type->rank - 1 ? 1 : -1;
	for (int d = dim + 1; d < tensor->type->rank; d++) {
		int64_t n = constant_dim(tensor, d);
		if (n < 0)
			return -1;
		stride *= rows_are_even(tensor, d) ? n + (n & 1) : n;
	}
	return stride;
}

Reg
lower_stride(Lower *l, const Value *tensor, int dim)
{
	int p = tensor_param(tensor);
	int64_t known = lower_constant_stride(l, tensor, dim);
	if (known >= 0)
		return lower_i64(l, known);
	if (l->f->param[p].strided)
		return lower_param(l, ABI_STRIDE, p, dim);
	Reg r = 0;
	for (int d = dim + 1; d < tensor->type->rank; d++) {
		Reg n = lower_dim(l, tensor, d);
		if (rows_are_even(tensor, d))
			n = lower_op2(l, THREAD_AND, lower_op2(l, THREAD_ADD, n, lower_i64(l, 1)), lower_i64(l, -2));
		if (constant_dim(tensor, d) != 1 || rows_are_even(tensor, d))
			r = r ? lower_op2(l, THREAD_MUL, r, n) : n;
	}
	return r;
}

Reg
lower_split_rank(Lower *l)
{
	int split = l->f->schedule.split;
	Reg r;
	if (split <= 1)
		return lower_i64(l, 0);
	thread_prim(l->b, PRIM_BLOCK, NULL, 0, NULL, 0, &r, 1);
	return lower_as(l, CAST_ZEXT, REG_I64, lower_op2(l, THREAD_AND, r, lower_i32(l, split - 1)));
}

/* A program's number, of which the range is known then, where the axis has cdiv(M, per) and what M is at most is assumed or
 * follows from its type: indices that are made of it have 32 bits.  Blocks of a cluster may be past the end. */
static Reg
bounded_program(Lower *l, const Op *op, Reg r)
{
	enum { RANKS_MOST = 16 };                       /* blocks of a cluster, CUDA's limit */
	int64_t dim = attr_dim(op), per = attr_per(op), past = l->f->schedule.ctas > 1 ? RANKS_MOST : 0;
	bool is_word = dim >= 0 && l->f->body->arg[dim].type->elem == TY_I32;
	int64_t most = dim < 0 ? 0 : l->f->param[dim].most > 0 ? l->f->param[dim].most : is_word ? INT32_MAX : 0;
	if (most <= 0 || per <= 0 || most > INT32_MAX)
		return r;
	return lower_op2(l, THREAD_UMIN, r, lower_i64(l, (most + per - 1) / per + past - 1));
}

void
lower_index(Lower *l, Op *op)
{
	int axis = (int)attr_axis(op);
	Reg r;
	switch (op->kind) {
	case OP_BLOCK_ID: r = lower_as(l, CAST_ZEXT, REG_I64, l->block); break;
	case OP_NUM_BLOCKS:
		thread_prim(l->b, PRIM_NBLOCKS, NULL, 0, NULL, 0, &r, 1);
		if (l->f->schedule.share > 1)
			r = lower_op2(l, THREAD_MUL, r, lower_i32(l, l->f->schedule.share));
		r = lower_as(l, CAST_ZEXT, REG_I64, r);
		break;
	case OP_SPLIT_RANK: r = lower_split_rank(l); break;
	case OP_SPLIT_COUNT: r = lower_i64(l, MAX(l->f->schedule.split, 1)); break;
	case OP_PROGRAM_AT:
		r = lower_program_at(l, op, axis);
		break;
	case OP_PROGRAM_EXISTS: r = lower_program_exists(l, op); break;
	case OP_PROGRAM_ID: r = axis < l->f->naxis ? bounded_program(l, op, l->program[axis]) : lower_i64(l, 0); break;
	case OP_NUM_PROGRAMS: r = axis < l->f->naxis ? l->programs[axis] : lower_i64(l, 1); break;
	case OP_DIM: r = lower_dim(l, op->in[0], axis); break;
	default: r = lower_stride(l, op->in[0], axis); break;
	}
	lower_new(l, &op->out[0])[0] = r;
}
