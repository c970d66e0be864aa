/* Matrix products by matrix instructions, as model/plan_dot.c plans them.
 *
 *     for each step along k                        words of a and b are packed once
 *         for each tile of the accumulator         so that no instruction waits for the one before it
 *             acc[tile] = mma a[rows, k], b[k, columns], acc[tile]
 *
 * An instruction waits for the one whose accumulator it takes (33 cycles on an H200), and a warp with few tiles for little
 * else: then steps go into up to four accumulators in turn, which are added at the end.
 *
 * A simdgroup loads fragments of operands that stand in slots (model/plan_simdgroup.c) as they are needed.
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
	bool in_slot;                                   /* fragments are loaded as they are needed, by: */
	LowerSimdgroup matrices;
} Side;

static const Reg *
side_words(Side *s, Lower *l, uint64_t fragment)
{
	int per_word = (1 << s->plan->fragment) / s->words;
	if (s->packed[fragment])
		return s->packed[fragment];
	Reg *w = s->packed[fragment] = NEW_ARRAY(l->mem, Reg, s->words);
	if (s->in_slot) {
		lower_simdgroup_matrix(l, &s->matrices, fragment << s->plan->fragment, w);
		return w;
	}
	const Reg *v = s->regs + (fragment << s->plan->fragment);
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

/* The i'th tile: those that share a fragment of the operand which has more of them follow each other, so that the fewest
 * are alive. */
static int
tile_at(const MmaPlan *p, const Side *side, int i)
{
	int bits[2] = {0, 0}, t = 0, taken = 0;
	for (int b = 0; b < p->tiles; b++)
		bits[p->side[0].tile[b] == 0]++;
	if (!(side[0].in_slot && side[1].in_slot))
		return i;
	int first = bits[0] > bits[1];                  /* whose bits count fastest: rows', columns' */
	for (int round = 0; round < 2; round++)
		for (int b = 0; b < p->tiles; b++)
			if ((p->side[0].tile[b] == 0) == (round == 0 ? first : !first))
				t |= (i >> taken++ & 1) << b;
	return t;
}

/* Step s of all tiles. */
static void
multiply_step(Lower *l, const MmaPlan *p, Side *side, int s, Reg *acc)
{
	for (int i = 0; i < 1 << p->tiles; i++) {
		int t = tile_at(p, side, i);
		const Reg *a = side_words(&side[0], l, mma_fragment(&p->side[0], s, t));
		const Reg *b = side_words(&side[1], l, mma_fragment(&p->side[1], s, t));
		thread_mma(l->b, p->mma, a, b, acc + (t << p->fragment), acc + (t << p->fragment));
	}
}

static void
multiply(Lower *l, const MmaPlan *p, const Op *op, Side *side, Reg *out)
{
	int n = lower_count(&op->out[0]), chains = 1 << log2_chains(p);
	bool is_float = dtype_is_float(op->out[0].type->elem), in_slot = side[0].in_slot || side[1].in_slot;
	RegType type = mma_words(p->mma).acc;
	Reg *sum[4] = {out}, zero = is_float ? thread_float_const(l->b, type, 0) : lower_i32(l, 0);
	for (int i = 1; i < chains; i++) {
		sum[i] = NEW_ARRAY(l->mem, Reg, n);
		for (int r = 0; r < n; r++)
			sum[i][r] = zero;
	}
	for (int s = 0; s < 1 << p->steps; s++) {
		if (in_slot && chains == 1 && s > 0)
			thread_prim(l->b, PRIM_WARP_STEP, NULL, 0, NULL, 0, NULL, 0);
		multiply_step(l, p, side, s, sum[s % chains]);
	}
	for (int half = chains / 2; half > 0; half /= 2)
		for (int i = 0; i < half; i++)
			for (int r = 0; r < n; r++)
				sum[i][r] = lower_op2(l, is_float ? THREAD_FADD : THREAD_ADD, sum[i][r], sum[i + half][r]);
}

/* Of operands in slots the steps are a loop, with the fragments of one step alive:
 *
 *     for k in 0 .. steps
 *         warp_step                                no load comes before the products of the step before
 *         a: a fragment for each row of tiles      b: one for each column
 *         acc[tile] = mma a[row], b[column], acc[tile] */
static void
multiply_loop(Lower *l, const MmaPlan *p, const SimdgroupPlan *s, const Op *op, Side *side, Reg *out)
{
	int n = lower_count(&op->out[0]);
	Reg *inside = NEW_ARRAY(l->mem, Reg, n);
	Reg k = thread_loop(l->b, lower_i32(l, 0), lower_i32(l, 1 << p->steps), lower_i32(l, 1), out, inside, n);
	thread_prim(l->b, PRIM_WARP_STEP, NULL, 0, NULL, 0, NULL, 0);
	for (int i = 0; i < 2; i++)
		side[i].matrices.moved = lower_op2(l, THREAD_MUL, k, lower_i32(l, s->side[i].step));
	multiply_step(l, p, side, 0, inside);
	thread_loop_end(l->b, inside, out, n);
}

static void
lower_mma(Lower *l, const MmaPlan *p, const Op *op, Reg *out)
{
	MmaWords words = mma_words(p->mma);
	Side side[2] = {side_make(l, p, op->in[0], &p->side[0], words.a), side_make(l, p, op->in[1], &p->side[1], words.b)};
	SimdgroupPlan s = {0};
	bool in_slots = plan_simdgroup(op, l->t, p, &s);

	memcpy(out, lower_regs(l, op->in[2]), sizeof *out * (size_t)lower_count(&op->out[0]));
	for (int i = 0; i < 2; i++)
		if (s.side[i].slot) {
			side[i].in_slot = true;
			side[i].matrices = lower_simdgroup(l, lower_regs(l, s.side[i].slot)[0], &s.side[i],
			    op->in[i]->layout, lower_type(op->in[i]->type));
		}
	if (in_slots && s.loops)
		multiply_loop(l, p, &s, op, side, out);
	else
		multiply(l, p, op, side, out);
	if (in_slots && s.waits)
		lower_barrier(l);
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
	if (plan_mma(op, &p))
		lower_mma(l, &p, op, lower_new(l, &op->out[0]));
	else
		lower_dot_fma(l, op);
}
