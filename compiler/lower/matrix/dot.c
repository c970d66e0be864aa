/* Matrix products by matrix instructions, as model/plan_dot.c plans them.
 *
 *     for each step along k                        words of a and b are packed once
 *         for each tile of the accumulator         so that no instruction waits for the one before it
 *             acc[tile] = mma a[rows, k], b[k, columns], acc[tile]
 *
 * An instruction waits for the one whose accumulator it takes (33 cycles on an H200), and a warp with few tiles for little
 * else: then steps go into up to four accumulators in turn, which are added at the end.
 *
 * Where operands are laid out otherwise, or there is no instruction, dot_fma.c multiplies and adds. */
#include "lower/lower.h"

#include <string.h>

/* An operand on its way into instructions. */
typedef struct Side {
	const MmaSide *plan;
	const Reg *regs;
	int words;                                      /* of a fragment */
	Reg **packed;                                   /* by fragment; NULL: not yet */
	bool to_tf32;
} Side;

static const Reg *
side_words(Side *s, Lower *l, uint64_t fragment)
{
	int per_word = (1 << s->plan->fragment) / s->words;
	if (s->packed[fragment])
		return s->packed[fragment];
	const Reg *v = s->regs + (fragment << s->plan->fragment);
	Reg *w = s->packed[fragment] = NEW_ARRAY(l->mem, Reg, s->words);
	for (int i = 0; i < s->words; i++) {
		if (per_word > 1)
			w[i] = thread_pack(l->b, v + i * per_word, per_word);
		else if (s->to_tf32)
			thread_prim(l->b, PRIM_TO_TF32, &v[i], 1, NULL, 0, &w[i], 1);
		else
			w[i] = v[i];
	}
	return w;
}

static Side
side_make(Lower *l, const MmaPlan *p, const Value *v, const MmaSide *plan, int words)
{
	return (Side){.plan = plan, .regs = lower_regs(l, v), .words = words,
		.packed = NEW_ARRAY(l->mem, Reg *, lower_count(v) >> plan->fragment),
		.to_tf32 = p->mma->a == TY_F32 && !mma_is_exact(p->mma)};
}

/* log2 of the accumulators of a tile: as many as make four chains, of two instructions at least. */
static int
log2_chains(const MmaPlan *p)
{
	enum { CHAINS = 2 };
	return MAX(MIN(CHAINS - p->tiles, p->steps - 1), 0);
}

static void
multiply(Lower *l, const MmaPlan *p, const Op *op, Reg *out)
{
	int c = 1 << p->fragment, n = lower_count(&op->out[0]), chains = 1 << log2_chains(p);
	bool is_float = dtype_is_float(op->out[0].type->elem);
	Reg *sum[4] = {out}, zero = is_float ? thread_float_const(l->b, REG_F32, 0) : lower_i32(l, 0);
	MmaWords words = mma_words(p->mma);
	Side side[2] = {side_make(l, p, op->in[0], &p->side[0], words.a), side_make(l, p, op->in[1], &p->side[1], words.b)};
	memcpy(out, lower_regs(l, op->in[2]), sizeof *out * (size_t)n);
	for (int i = 1; i < chains; i++) {
		sum[i] = NEW_ARRAY(l->mem, Reg, n);
		for (int r = 0; r < n; r++)
			sum[i][r] = zero;
	}
	for (int s = 0; s < 1 << p->steps; s++)
		for (int t = 0; t < 1 << p->tiles; t++) {
			const Reg *a = side_words(&side[0], l, mma_fragment(&p->side[0], s, t));
			const Reg *b = side_words(&side[1], l, mma_fragment(&p->side[1], s, t));
			Reg *acc = sum[s % chains] + t * c;
			thread_mma(l->b, p->mma, a, b, acc, acc);
		}
	for (int half = chains / 2; half > 0; half /= 2)
		for (int i = 0; i < half; i++)
			for (int r = 0; r < n; r++)
				sum[i][r] = lower_op2(l, is_float ? THREAD_FADD : THREAD_ADD, sum[i][r], sum[i + half][r]);
}

void
lower_dot(Lower *l, Op *op)
{
	MmaPlan p;
	if (op->kind == OP_DOT_SCALED) {
		lower_refuse(l, op, "a block-scaled dot that no pass made into multiplications");
		lower_new(l, &op->out[0]);
		return;
	}
	const char *name = attr_mma(op);
	if (*name && !target_has_product(l->t, name)) {
		lower_refuse(l, op, arena_printf(l->mem, "the matrix instruction '%s'", name));
		return;
	}
	Reg *out = lower_new(l, &op->out[0]);
	if (plan_mma(op, &p))
		multiply(l, &p, op, out);
	else
		lower_dot_fma(l, op, out);
}
