/* Matrix products by matrix instructions.
 *
 * The accumulator's layout is the instruction's fragment repeated over registers (and warps); each repetition is a tile
 * of the instruction's size, at rows and columns that the registers' high bits move by.  Its operands' registers are
 * found by their place: the fragment of a [M, K] at the tile's rows and the step along K, that of b [K, N] likewise.
 *
 *     for each step along k                        words of a and b are packed once
 *         for each tile of the accumulator         so that no instruction waits for the one before it
 *             acc[tile] = mma a[rows, k], b[k, columns], acc[tile]
 *
 * Where operands lie otherwise, or there is no instruction, dot_fma.c multiplies and adds. */
#include "lower/matrix/dot.h"

#include <string.h>

static const MmaInfo *
mma_of(const Op *op)
{
	const char *name = op_text(op, "mma");
	for (int i = 0; *name && i < mma_count; i++)
		if (strcmp(mma_info[i].name, name) == 0)
			return &mma_info[i];
	return NULL;
}

/* The image of a fragment's bit in the last two dimensions of a tile. */
static uint64_t
placed(const Layout *fragment, int i, const Layout *to)
{
	uint64_t image = fragment->map.col[i];
	return (image & ((UINT64_C(1) << fragment->out[1]) - 1)) |
	    image >> fragment->out[1] << layout_out_at(to, to->rank - 2);
}

/* Are the low registers and the lanes of l the fragment's? */
static bool
begins_with(const Layout *l, const Layout *fragment)
{
	int regs = fragment->in[IN_REGISTER], lanes = fragment->in[IN_LANE];
	if (l->in[IN_REGISTER] < regs || l->in[IN_LANE] != lanes)
		return false;
	for (int i = 0; i < regs + lanes; i++) {
		int at = i < regs ? i : layout_in_at(l, IN_LANE) + i - regs;
		if (l->map.col[at] != placed(fragment, i, l))
			return false;
	}
	return true;
}

uint64_t
dot_share(const Layout *from, uint64_t image, int lost, const Layout *to)
{
	uint64_t out = 0;
	for (int d = 0; d < from->rank; d++)
		if (d != lost) {
			uint64_t part = image >> layout_out_at(from, d) & ((UINT64_C(1) << from->out[d]) - 1);
			out |= part << layout_out_at(to, d);
		}
	return out;
}

/* Do warps do in the operand what they do in the accumulator, but for the dimension that it has not? */
static bool
warps_agree(const Layout *acc, const Layout *l, int lost)
{
	if (acc->in[IN_WARP] != l->in[IN_WARP])
		return false;
	for (int i = 0; i < acc->in[IN_WARP]; i++) {
		uint64_t want = dot_share(acc, acc->map.col[layout_in_at(acc, IN_WARP) + i], lost, l);
		if (l->map.col[layout_in_at(l, IN_WARP) + i] != want)
			return false;
	}
	return true;
}

/* An operand on its way into instructions. */
typedef struct Side {
	const Layout *layout;
	int fragment;                                   /* log2 of a fragment's registers */
	F2 high;                                        /* from the registers' higher bits to places */
	const Reg *regs;
	int words;                                      /* of a fragment */
	int per_word;                                   /* elements */
	Reg **packed;                                   /* by fragment; NULL: not yet */
	bool to_tf32;
} Side;

static bool
side_make(Side *s, const Layout *acc, const Value *v, const Layout *fragment, int lost, int words)
{
	*s = (Side){.layout = v->layout, .fragment = fragment->in[IN_REGISTER], .words = words};
	if (!v->layout || !begins_with(v->layout, fragment) || !warps_agree(acc, v->layout, lost))
		return false;
	s->high = f2_columns(&v->layout->map, s->fragment, v->layout->in[IN_REGISTER] - s->fragment);
	s->per_word = (1 << s->fragment) / words;
	return true;
}

/* Which fragment of the operand stands at a place. */
static bool
side_find(const Side *s, uint64_t place, uint64_t *fragment)
{
	return f2_solve(&s->high, place, fragment);
}

static const Reg *
side_words(Side *s, Lower *l, uint64_t fragment)
{
	if (s->packed[fragment])
		return s->packed[fragment];
	const Reg *v = s->regs + (fragment << s->fragment);
	Reg *w = s->packed[fragment] = NEW_ARRAY(l->mem, Reg, s->words);
	for (int i = 0; i < s->words; i++) {
		if (s->per_word > 1)
			w[i] = thread_pack(l->b, v + i * s->per_word, s->per_word);
		else if (s->to_tf32)
			thread_prim(l->b, PRIM_TO_TF32, &v[i], 1, NULL, 0, &w[i], 1);
		else
			w[i] = v[i];
	}
	return w;
}

typedef struct Product {
	const MmaInfo *mma;
	const Layout *acc;
	int fragment;                                   /* log2 of the accumulator's registers a tile */
	MmaWords words;
	Side a, b;
	int tiles, steps;
	uint64_t *a_at, *b_at;                          /* fragments, by step and tile */
} Product;

/* Where step k of the operand's K begins. */
static uint64_t
step_place(const Layout *l, int dim, int k)
{
	return (uint64_t)k << layout_out_at(l, dim);
}

/* False: the layouts are not those of the instruction. */
static bool
product_make(Product *p, const Op *op)
{
	const Layout *acc = op->out[0].layout, *given = op->in[2]->layout;
	*p = (Product){.mma = mma_of(op), .acc = acc};
	if (!p->mma || !acc || !given || !layout_equal(acc, given))
		return false;
	int rank = acc->rank;
	Layout a = mma_layout_a(p->mma), b = mma_layout_b(p->mma), c = mma_layout_c(p->mma);
	p->words = mma_words(p->mma);
	p->fragment = c.in[IN_REGISTER];
	if (p->mma->a != op->in[0]->type->elem || p->mma->b != op->in[1]->type->elem ||
	    p->mma->acc != op->out[0].type->elem || !begins_with(acc, &c) ||
	    !side_make(&p->a, acc, op->in[0], &a, rank - 1, p->words.a) ||
	    !side_make(&p->b, acc, op->in[1], &b, rank - 2, p->words.b))
		return false;
	p->a.to_tf32 = p->b.to_tf32 = p->mma->a == TY_F32 && !mma_is_exact(p->mma);
	p->tiles = 1 << (acc->in[IN_REGISTER] - p->fragment);
	p->steps = (1 << p->a.layout->out[rank - 1]) / p->mma->k;
	return p->steps > 0;
}

/* Finds the fragments of each step and tile. */
static bool
product_plan(Product *p, Arena *mem)
{
	int rank = p->acc->rank, n = p->tiles * p->steps;
	p->a_at = NEW_ARRAY(mem, uint64_t, n);
	p->b_at = NEW_ARRAY(mem, uint64_t, n);
	for (int s = 0; s < p->steps; s++)
		for (int t = 0; t < p->tiles; t++) {
			uint64_t at = f2_apply(&p->acc->map, (uint64_t)t << p->fragment);
			uint64_t a = dot_share(p->acc, at, rank - 1, p->a.layout);
			uint64_t b = dot_share(p->acc, at, rank - 2, p->b.layout);
			a |= step_place(p->a.layout, rank - 1, s * p->mma->k);
			b |= step_place(p->b.layout, rank - 2, s * p->mma->k);
			if (!side_find(&p->a, a, &p->a_at[s * p->tiles + t]) ||
			    !side_find(&p->b, b, &p->b_at[s * p->tiles + t]))
				return false;
		}
	return true;
}

static void
multiply(Lower *l, Product *p, const Op *op, Reg *out)
{
	int c = 1 << p->fragment;
	p->a.regs = lower_regs(l, op->in[0]);
	p->b.regs = lower_regs(l, op->in[1]);
	p->a.packed = NEW_ARRAY(l->mem, Reg *, lower_count(op->in[0]) >> p->a.fragment);
	p->b.packed = NEW_ARRAY(l->mem, Reg *, lower_count(op->in[1]) >> p->b.fragment);
	memcpy(out, lower_regs(l, op->in[2]), sizeof *out * (size_t)lower_count(&op->out[0]));
	for (int s = 0; s < p->steps; s++)
		for (int t = 0; t < p->tiles; t++) {
			const Reg *a = side_words(&p->a, l, p->a_at[s * p->tiles + t]);
			const Reg *b = side_words(&p->b, l, p->b_at[s * p->tiles + t]);
			thread_mma(l->b, p->mma, a, b, out + t * c, out + t * c);
		}
}

void
lower_dot(Lower *l, Op *op)
{
	Product p;
	if (op->kind == OP_DOT_SCALED) {
		lower_refuse(l, op, "a block-scaled dot that no pass made into multiplications");
		lower_new(l, &op->out[0]);
		return;
	}
	const char *name = op_text(op, "mma");
	if (*name && !target_has_product(l->t, name)) {
		lower_refuse(l, op, arena_printf(l->mem, "the matrix instruction '%s'", name));
		return;
	}
	Reg *out = lower_new(l, &op->out[0]);
	if (product_make(&p, op) && product_plan(&p, l->mem))
		multiply(l, &p, op, out);
	else
		dot_fma(l, op, out);
}

int64_t
lower_dot_scratch(const Op *op, const Target *t)
{
	Product p;
	Arena *tmp = op->home->func->module->cx->tmp;
	if (op->kind == OP_DOT_SCALED || (product_make(&p, op) && product_plan(&p, tmp)))
		return 0;
	return dot_fma_scratch(op, t);
}
