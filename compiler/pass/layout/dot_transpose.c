/* Products whose rows are no multiple of an instruction's 64 are computed transposed, if the columns are one: the
 * instruction's columns are any multiple of 8, so that tiles of 72 or 136 rows, which divide M well, cost no more.
 *
 *     for … (%acc = %0 : f32[256, 128]) {
 *         %s = dot %a, %b, %acc {rows = 136} : f32[256, 128]
 *         yield %s
 *     }
 *  =>
 *     %r = for … (%acc = %0 : f32[128, 256]) {
 *         %s = dot (permute %b), (permute %a), %acc {columns = 136, mma = "wgmma.n136k16.bf16"} : f32[128, 256]
 *         yield %s
 *     }
 *     %t = permute %r : f32[256, 128]
 *
 * Both operands come from memory as they are, and nothing but loops carries the sum.
 *
 * Weights that warpgroups decode are the rows, which the instruction takes from registers: as columns threads would put
 * them into shared memory, behind a fence and a barrier.  The rows of x are its columns then: 40 of them, not 64, of which
 * boxes of tensor maps bring no more.
 *
 * A warp's instruction has 16 rows and 8 columns: products of 8 rows and fewer are turned too, which halves the
 * instructions and what threads hold of the smaller operand.  So are products of few rows by weights that threads unpack:
 * these may go to any registers, and the fragments of x, two words of one row, are what a wide load brings.
 * As the left operand's four words of two rows they had to be moved (i8, 16 rows: 470 instructions an iteration, 382
 * turned). */
#include "ir/derive.h"
#include "pass/layout/dot.h"

enum { FEW_ROWS = 32 };

static bool
exchanges(const Op *op)
{
	return op && op->kind == OP_PERMUTE && op->out[0].type->rank == 2 && attr_dims(op)->at[0] == 1;
}

static Value *
transpose(Builder *b, Value *v)
{
	return exchanges(v->def) ? v->def->in[0] : build_exchange(b, v);
}

/* Of what is only read exchanged, the read has no other use than the product's then: boxes need not bring what that does
 * not take (dot_wgmma.c). */
static void
erase_exchange(Op *op)
{
	if (exchanges(op) && op->out[0].nuses == 0)
		op_erase(op);
}

/* The loop that carries the value into `op`, which makes its next: its number there, or -1. */
static int
carried(const Op *op, const Value *in, const Value *out)
{
	const Op *loop = op->home->parent, *yield = op->home->last;
	if (!loop || loop->kind != OP_FOR || in->nuses != 1 || out->nuses != 1)
		return -1;
	return FIRST_OF(i, yield->nin, yield->in[i] == out && in == &op->home->arg[1 + i]);
}

/* Values of loops that carry the sum become the transposed ones, from the innermost on; returns the last loop's result. */
static Value *
retype_loops(const Op *dot, Value *sum, const Type *type)
{
	const Op *op = dot;
	Value *in = dot->in[2], *out = sum;
	for (int i = carried(op, in, out); i >= 0; i = carried(op, in, out)) {
		Op *loop = op->home->parent;
		in->type = type;
		out = &loop->out[i];
		out->type = type;
		in = loop->in[3 + i];
		op = loop;
		if (carried(op, in, out) < 0) {
			Builder b = build_before(loop);
			op_set_in(loop, 3 + i, transpose(&b, in));
		}
	}
	return out;
}

/* What follows takes the value as it was. */
static void
transpose_uses(Module *m, Value *v)
{
	Builder b = {.m = m, .block = v->block, .before = v->def->next, .place = v->def->place};
	Value *back = build_permute(&b, v, (int64_t[]){1, 0});
	value_replace(v, back);
	op_set_in(back->def, 0, v);
}

Op *
dot_transpose(Op *dot, const Target *t, int warps)
{
	Module *m = dot->home->func->module;
	Value *acc = dot->in[2], *sum = &dot->out[0];
	bool is_carried = carried(dot, acc, sum) >= 0;
	if (!attr_rows(dot) || !(is_carried || (acc->def && acc->def->kind == OP_CONST)) ||
	    !dot_transposes(dot, attr_rows(dot), t, warps))
		return dot;
	Builder b = build_before(dot);
	const Type *type = type_with_shape(m, sum->type, 2, (int64_t[]){sum->type->extent[1], sum->type->extent[0]});
	Value *last = retype_loops(dot, sum, type), *in[] = {transpose(&b, dot->in[1]), transpose(&b, dot->in[0]), acc};
	if (!is_carried)
		in[2] = transpose(&b, acc);
	Op *made = op_make(&b, OP_DOT, in, 3, NULL, 0, &type, 1);
	if (*attr_precision(dot))
		attr_set_precision(m, made, attr_precision(dot));
	attr_set_columns(m, made, attr_rows(dot));
	made->out[0].name = sum->name;
	value_replace(sum, &made->out[0]);
	transpose_uses(m, is_carried ? last : &made->out[0]);
	Op *left = dot->in[0]->def, *right = dot->in[1]->def;
	op_erase(dot);
	erase_exchange(left);
	erase_exchange(right);
	return made;
}

/* The product of the operands exchanged, and turned back. */
static Op *
turn_dot(Op *dot)
{
	Module *m = dot->home->func->module;
	Builder b = build_before(dot);
	Value *x = build_exchange(&b, dot->in[0]), *acc = build_exchange(&b, dot->in[2]);
	/* last: what is unpacked need not be there as a whole (live.c) */
	Value *in[] = {build_exchange(&b, dot->in[1]), x, acc};
	Op *made = op_make(&b, OP_DOT, in, 3, NULL, 0, &acc->type, 1);
	if (*attr_precision(dot))
		attr_set_precision(m, made, attr_precision(dot));
	if (*attr_wgmma_reason(dot))
		attr_set_wgmma_reason(m, made, attr_wgmma_reason(dot));
	if (attr_rows(dot))
		attr_set_columns(m, made, attr_rows(dot));
	op_become(dot, build_exchange(&b, &made->out[0]));
	return made;
}

Op *
dot_turn_flat(Op *dot, const MmaInfo *mma)
{
	const Type *t = dot->out[0].type;
	int64_t rows = t->extent[t->rank - 2], columns = t->extent[t->rank - 1];
	bool sliced = dot->home->func->schedule.slices > 1;     /* others lost 5 of 24 us (sums by atomics, int4) */
	int64_t most = sliced && dot_unpacks(dot, mma) ? FEW_ROWS : mma->n;

	if (mma->a != mma->b || rows > most || mma->m <= mma->n || columns < mma->m || columns <= rows)
		return dot;
	return turn_dot(dot);
}

Op *
dot_turn_decoded(Op *dot, const Target *t, int warps, bool chained)
{
	DotWgmma w = {.info = NULL};
	const char *why = chained ? "" : dot_wgmma_reason(dot, t, warps, chained, &w);

	/* what scales each trip's product by rows would have to come to columns */
	bool across = w.turns[1] && !value_is_zero(dot->in[2]);
	return !why && (w.decodes || across) && dot_decodes_rows(dot, t, warps) ? turn_dot(dot) : dot;
}
