/* Decides how each dot is computed: by which matrix instruction, with how many warps along either side, or by
 * multiplications and additions, with the reason.
 *
 *     %p = dot %a, %b, %0 : f32[64, 64]          %p = dot %a, %b, %acc {mma = "m16n8k16.f16"} : f32[64, 64] #0
 *     %s = add %acc, %p                     =>
 *
 * Sums go into the accumulator.  Operands that no instruction takes become ones that it does where that is exact (8-bit
 * floats are f16 on older chips); what is smaller than the instruction is repeated to its size, with zeros along K.  A dot
 * whose product feeds another's left operand has all of its warps along M, as has the other: then the product is that
 * operand without leaving its thread.  Where warpgroups can multiply what lies in shared memory, they do (dot_wgmma.c). */
#include "model/model.h"
#include "pass/layout/dot.h"

#include <string.h>

/* x + dot(a, b, 0), where the dot has no other use: the sum is the accumulator's work. */
static void
fold_sum(Op *add)
{
	for (int i = 0; i < 2; i++) {
		Op *dot = add->in[i]->def;
		Value *acc = add->in[1 - i];
		bool is_dot = dot && dot->kind == OP_DOT && dot->home == add->home;
		if (!is_dot || dot->out[0].nuses != 1 || !value_is_zero(dot->in[2]))
			continue;
		op_set_in(dot, 2, acc);
		op_move(dot, add->home, add);
		op_replace(add, dot);
		return;
	}
}


static void
cast_operand(Op *dot, int i, DType to)
{
	Builder b = build_before(dot);
	op_set_in(dot, i, build1(&b, OP_CAST, dot->in[i], type_with_elem(b.m, dot->in[i]->type, to)));
}

/* The instruction with the largest k that fits, else the one with the least. */
static const MmaInfo *
find_mma(const Target *t, DType a, DType b, DType acc, int64_t k)
{
	const MmaInfo *best = NULL;
	for (int i = 0; i < mma_count; i++) {
		const MmaInfo *m = &mma_info[i];
		if (m->a != a || m->b != b || m->acc != acc || m->warps > 1 || !target_has_mma(t, m))
			continue;
		bool fits = m->k <= k, had = best && best->k <= k;
		if (!best || (fits && !had) || (fits == had && (fits ? m->m * m->k > best->m * best->k : m->k < best->k)))
			best = m;
	}
	return best;
}

bool
dot_is_exact(const Op *dot)
{
	const char *precision = attr_precision(dot);
	return dot->in[0]->type->elem == TY_F32 && (*precision == 0 || strcmp(precision, "ieee") == 0);
}

/* Instructions of f64 do no more than twice what multiplications do, and nothing where they are filled up. */
static bool
is_small_double(const Op *dot)
{
	enum { SIDE = 8, DEPTH = 4 };
	const Type *a = dot->in[0]->type, *c = dot->out[0].type;
	int64_t least = MIN(c->extent[c->rank - 2], c->extent[c->rank - 1]);
	return a->elem == TY_F64 && (least < SIDE || a->extent[a->rank - 1] < DEPTH);
}

const MmaInfo *
dot_mma(const Op *dot, const Target *t)
{
	DType a = dot->in[0]->type->elem, b = dot->in[1]->type->elem, acc = dot->out[0].type->elem;
	int64_t k = dot->in[0]->type->extent[dot->in[0]->type->rank - 1];
	const MmaInfo *m = find_mma(t, a, b, acc, k);
	if (m && ((dot_is_exact(dot) && !mma_is_exact(m)) || is_small_double(dot)))
		return NULL;
	return !m && dtype_is_f8(a) && dtype_is_f8(b) ? find_mma(t, TY_F16, TY_F16, acc, k) : m;
}

/* Integers of 16 bits are bytes less a zero point as a rule: then a product of bytes is written as well. */
static const char *
no_instruction(const Op *dot, const Target *t)
{
	DType a = dot->in[0]->type->elem, b = dot->in[1]->type->elem, acc = dot->out[0].type->elem;
	if (is_small_double(dot) && find_mma(t, a, b, acc, 1))
		return "of fewer than 8 rows or columns, or 4 of K, instructions of f64 save nothing";
	bool is_word = acc == TY_I32 && MAX(dtype_info[a].bits, dtype_info[b].bits) == 16;
	return arena_printf(dot->home->func->module->cx->tmp, "%s has no instruction for %s by %s into %s%s", t->name,
	    dtype_info[a].text, dtype_info[b].text, dtype_info[acc].text,
	    is_word && find_mma(t, TY_I8, TY_I8, TY_I32, 1) ? ", but for 8 bits: zero points come off the sums "
							    "(docs/language.md, Products)" : "");
}

static const MmaInfo *
choose_mma(Op *dot, const Target *t, const char **reason)
{
	const MmaInfo *m = dot_mma(dot, t);
	if (m && m->a != dot->in[0]->type->elem) {
		cast_operand(dot, 0, m->a);
		cast_operand(dot, 1, m->b);
		if (op_attr(dot, ATTR_PRECISION))       /* fast: of bytes alone */
			attr_set_precision(dot->home->func->module, dot, "ieee");
	}
	if (!m)
		*reason = dot_is_exact(dot) ? "the products of f32 are exact; precision = tf32 takes the matrix unit"
		                        : no_instruction(dot, t);
	return m;
}

enum { FMA_BITS = 2, FMA_LANES = 3 };

/* log2 warps along each dimension, of which a warp has 2^held[d]: batches first, then so that as little as possible is read
 * twice: M rows for each warp along N, and N columns for each along M. */
static void
spread_warps(const Type *t, const int held[LAYOUT_RANK], int warps, bool chained, int out[LAYOUT_RANK])
{
	int rows = MAX(log2_ceil(t->extent[t->rank - 2]) - held[t->rank - 2], 0);
	int cols = MAX(log2_ceil(t->extent[t->rank - 1]) - held[t->rank - 1], 0);
	memset(out, 0, sizeof *out * LAYOUT_RANK);
	for (int d = 0; d < t->rank - 2; d++) {
		out[d] = MIN(log2_ceil(t->extent[d]) - held[d], warps);
		warps -= out[d];
	}
	int *wm = &out[t->rank - 2], *wn = &out[t->rank - 1];
	for (; warps > 0; warps--) {
		int64_t rows_each = t->extent[t->rank - 2] >> *wm, cols_each = t->extent[t->rank - 1] >> *wn;
		bool more_rows = *wm < rows, more_cols = *wn < cols;
		if (more_rows && (chained || !more_cols || rows_each >= cols_each))
			++*wm;
		else if (more_cols && !(chained && more_rows))
			++*wn;
		else
			++*wm;
	}
}

static Layout
fragment_in(const Layout *fragment, int rank)
{
	Layout l = *fragment;
	for (int i = 2; i < rank; i++)
		l = layout_expand(&l, 0);
	return l;
}

static void
lay_out_mma(Op *dot, const MmaInfo *mma, int warps, bool chained, bool orders)
{
	const Type *t = dot->out[0].type;
	int shape[LAYOUT_RANK] = {0}, along[LAYOUT_RANK], held[LAYOUT_RANK] = {0};
	Layout c = mma_layout_c(mma);
	c = fragment_in(&c, t->rank);
	layout_shape(t->rank, t->extent, shape);
	held[t->rank - 2] = log2_ceil(mma->m);
	held[t->rank - 1] = log2_ceil(mma->n);
	spread_warps(t, held, warps, chained, along);
	c = layout_tile(&c, shape, along);
	Module *m = dot->home->func->module;
	attr_set_mma(m, dot, mma->name);
	if (orders)
		dot_order(dot, mma, along, chained);
	c = dot_in_order(dot, &c, 2, false);
	dot->out[0].layout = layout_intern(m, &c);
}

/* Each thread has a little square; eight lanes along N, the others along M, and batches for those that are left. */
static void
lay_out_fma(Op *dot, int lanes, int warps, const char *reason)
{
	const Type *t = dot->out[0].type;
	Module *m = dot->home->func->module;
	int shape[LAYOUT_RANK] = {0}, held[LAYOUT_RANK] = {0}, row = t->rank - 2, col = t->rank - 1;
	Blocked b = {.rank = t->rank};
	memcpy(b.order, layout_last_first(t->rank), sizeof b.order);
	int spare = MAX(layout_shape(t->rank, t->extent, shape) - lanes - warps, 0);
	b.per_thread[col] = MIN(MIN(FMA_BITS, shape[col]), (spare + 1) / 2);
	b.per_thread[row] = MIN(MIN(FMA_BITS, shape[row]), spare - b.per_thread[col]);
	b.lanes[col] = MIN(MIN(FMA_LANES, lanes), shape[col] - b.per_thread[col]);
	b.lanes[row] = MIN(lanes - b.lanes[col], shape[row] - b.per_thread[row]);
	int left = lanes - b.lanes[col] - b.lanes[row];
	for (int d = row - 1; d >= 0; left -= b.lanes[d--])
		b.lanes[d] = MIN(left, shape[d]);
	for (int d = 0; d < t->rank; d++)
		held[d] = b.per_thread[d] + b.lanes[d];
	b.lanes[row] += left;                           /* of which each repeats others */
	spread_warps(t, held, warps, false, b.warps);
	Layout l = layout_blocked(&b, shape);
	dot->out[0].layout = layout_intern(m, &l);
	attr_set_fma_reason(m, dot, reason);
}

static void
lay_out_dot(Op *dot, const Target *t)
{
	Func *f = dot->home->func;
	const char *reason = "";
	int warps = log2_ceil(MAX(f->schedule.warps, 1));
	bool chained = dot_is_chained(f, dot);
	if (!chained)
		dot = dot_transpose(dot, t, warps);
	dot = dot_turn_decoded(dot, t, warps, chained);
	if (dot_wgmma(dot, t, warps, chained))
		return;
	const MmaInfo *mma = choose_mma(dot, t, &reason);
	if (mma && !chained)
		dot = dot_turn_flat(dot, mma);
	Op *fits = mma ? dot_fit(dot, mma) : NULL;
	if (mma && !fits)
		reason = "a dot of five dimensions is smaller than an instruction";
	if (fits)
		lay_out_mma(fits, mma, warps, chained, t->lanes == 32 && !(t->has & HAS_SIMDGROUP_MATRIX));
	else
		lay_out_fma(dot, log2_ceil(t->lanes), warps, reason);
}

void
pass_dot(Func *f, const Target *t)
{
	func_number(f);
	if (f->schedule.group == 0)
		f->schedule.group = dot_group(f, t);
	for (EACH_OP(op, f->body))
		if (op->kind == OP_ADD && dtype_is_float(op->out[0].type->elem))
			fold_sum(op);
	for (EACH_OP(op, f->body))
		if (op->kind == OP_DOT && strcmp(attr_precision(op), "tf32x3") == 0 &&
		    !(t->has & HAS_SIMDGROUP_MATRIX))
			dot_split_tf32(op);
	for (EACH_OP(op, f->body))
		if (op->kind == OP_DOT)
			lay_out_dot(op, t);
	func_number(f);
}
