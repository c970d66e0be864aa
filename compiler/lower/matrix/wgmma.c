/* Products of warpgroups, as model/plan_wgmma.c plans them: instructions that run by themselves and read both operands
 * from shared memory.
 *
 *     %d = dot_start %a, %b, %c {mma = "wgmma.n128k16.bf16"}        fence; for each step along K, for each tile: wgmma
 *                                                                   commit
 *     %e = dot_wait %d {left = 0}                                   wait; no register of %d is touched before
 *
 * Products that are summed apart are over when dot_start is: what else runs meanwhile is the other warpgroups'. */
#include "lower/lower.h"

#include <string.h>

/* Where a warpgroup's part begins, behind where the whole does.  In a role the warp's number is known to be one for all
 * lanes (lower_roles), and the descriptor, made from it alone, lives in uniform registers. */
static Reg
part_offset(Lower *l, const uint64_t *image, int n)
{
	Reg thread = l->thread;

	if (l->role && !l->is_lone)
		l->thread = lower_op2(l, THREAD_SHL, l->warp, lower_i32(l, log2_ceil(l->t->lanes)));
	Reg offset = lower_thread_map(l, image, n);
	l->thread = thread;
	return offset;
}

/* The descriptor of where the warpgroup's part of an operand begins; addresses are in units of 16 bytes. */
static Reg
descriptor(Lower *l, const WgmmaPlan *p, const Value *slot, const WgmmaSide *side)
{
	uint64_t image[F2_MAX] = {0}, moves = 0;
	int first = log2_ceil(l->t->lanes) + 2;
	Reg at = thread_cast(l->b, CAST_BITS, REG_I32, lower_regs(l, slot)[0]);
	for (int i = 0; i < p->groups; i++)
		moves |= image[first + i] = side->group[i];
	if (moves)
		at = lower_op2(l, THREAD_ADD, at, part_offset(l, image, first + p->groups));
	Reg field = lower_op2(l, THREAD_LSHR, lower_op2(l, THREAD_AND, at, lower_i32(l, 0x3ffff)), lower_i32(l, 4));
	return lower_op2(l, THREAD_OR, lower_as(l, CAST_ZEXT, REG_I64, field), lower_i64(l, (int64_t)side->descriptor));
}

static Reg
moved(Lower *l, Reg descriptor, uint64_t bytes)
{
	return bytes ? lower_op2(l, THREAD_ADD, descriptor, lower_i64(l, (int64_t)(bytes / 16))) : descriptor;
}

/* The words of operand a's fragment; they must not change before the product is waited for. */
static const Reg *
left_words(Lower *l, const WgmmaPlan *p, const Op *op, int step, int tile)
{
	int n = 1 << p->left.fragment, per_word = n / WGMMA_WORDS;
	const Reg *v = lower_regs(l, op->in[0]) + (mma_fragment(&p->left, step, tile) << p->left.fragment);
	Reg *w = NEW_ARRAY(l->mem, Reg, WGMMA_WORDS);
	for (int i = 0; i < WGMMA_WORDS; i++) {
		w[i] = thread_pack(l->b, v + i * per_word, per_word);
		vec_push(l->mem, &l->held, w[i]);
	}
	return w;
}

/* Operands as descriptors, or of a in registers as words for each step and tile. */
typedef struct Multiply {
	const WgmmaPlan *plan;
	Reg a, b;
	const Reg **left;
	unsigned flags;
} Multiply;

static Multiply
begin(Lower *l, const WgmmaPlan *p, const Op *op)
{
	const WgmmaSide *side = p->side;
	int tiles = 1 << p->tiles, count = tiles * p->taken;
	Multiply x = {.plan = p};
	if (!p->in_registers)
		x.a = descriptor(l, p, op->in[0], &side[0]);
	x.b = descriptor(l, p, op->in[1], &side[1]);
	x.flags = (p->in_registers ? WGMMA_REGISTERS : side[0].is_transposed ? TRANSPOSE_A : 0) |
	    (side[1].is_transposed ? TRANSPOSE_B : 0);
	x.left = NEW_ARRAY(l->mem, const Reg *, count);
	for (int i = 0; i < count && p->in_registers; i++)
		x.left[i] = left_words(l, p, op, i / tiles, i % tiles);
	return x;
}

static void
fence(Lower *l)
{
	thread_prim(l->b, PRIM_WGMMA_FENCE, NULL, 0, NULL, 0, NULL, 0);
}

/* One instruction, which adds to c. */
static void
step(Lower *l, const Multiply *x, int s, int t, Reg *c)
{
	const WgmmaPlan *p = x->plan;
	Reg from = p->in_registers ? 0 : moved(l, x->a, wgmma_start(&p->side[0], s, t));
	Wgmma w = {.info = p->info, .flags = x->flags, .a = p->in_registers ? x->left[(s << p->tiles) + t] : &from, .c = c,
		.b = moved(l, x->b, wgmma_start(&p->side[1], s, t))};
	thread_wgmma(l->b, &w, c);
}

static void
commit(Lower *l)
{
	thread_prim(l->b, PRIM_WGMMA_COMMIT, NULL, 0, NULL, 0, NULL, 0);
}

static void
multiply(Lower *l, const Multiply *x, Reg *out)
{
	int n = 1 << x->plan->fragment, tiles = 1 << x->plan->tiles, count = tiles * x->plan->taken;
	fence(l);
	for (int i = 0; i < count; i++)
		step(l, x, i / tiles, i % tiles, out + i % tiles * n);
	commit(l);
}

/* Each tile's steps from `first` on are summed from zero, waited for and added. */
static void
multiply_apart(Lower *l, const Multiply *x, int first, Reg *out)
{
	const int64_t left = 0;
	int n = 1 << x->plan->fragment;
	Reg *sum = NEW_ARRAY(l->mem, Reg, n), *settled = NEW_ARRAY(l->mem, Reg, n);
	for (int t = 0; t < 1 << x->plan->tiles; t++) {
		for (int i = 0; i < n; i++)
			sum[i] = thread_float_const(l->b, REG_F32, 0);
		fence(l);
		for (int s = first; s < MIN(first + (1 << x->plan->apart), x->plan->taken); s++)
			step(l, x, s, t, sum);
		commit(l);
		thread_prim(l->b, PRIM_WGMMA_WAIT, NULL, 0, &left, 1, NULL, 0);
		thread_settle(l->b, sum, settled, n);
		for (int i = 0; i < n; i++)
			out[t * n + i] = lower_op2(l, THREAD_FADD, out[t * n + i], settled[i]);
	}
}

/* Registers of an instruction's accumulator, of which the tile may have more: what was added to make it a power of two. */
static int
accumulators(const WgmmaPlan *p)
{
	enum { ROWS = 64, THREADS = 128 };
	return MIN(1 << p->fragment, p->info->n * ROWS / THREADS);
}

/* No product adds to the others, which hold anything: zero, so that nothing is held for them. */
static void
clear_padding(Lower *l, const WgmmaPlan *p, RegType type, Reg *out)
{
	int n = 1 << p->fragment, used = accumulators(p);
	for (int i = 0; i < n << p->tiles; i++)
		if (i % n >= used)
			out[i] = lower_zero(l, type);
}

void
lower_dot_start(Lower *l, Op *op)
{
	WgmmaPlan p;
	Reg *out = lower_new(l, &op->out[0]);

	memcpy(out, lower_regs(l, op->in[2]), sizeof *out * (size_t)lower_count(&op->out[0]));
	if (!plan_wgmma(op, &p) || !target_has_wgmma(l->t, p.info) || l->warps != 4 << p.groups) {
		lower_refuse(l, op, "internal error: a dot_start of these operands");
		return;
	}
	clear_padding(l, &p, lower_type(op->out[0].type), out);
	Multiply x = begin(l, &p, op);
	if (p.apart < 0)
		multiply(l, &x, out);
	for (int s = 0; s < p.taken && p.apart >= 0; s += 1 << p.apart)
		multiply_apart(l, &x, s, out);
}

/* The product that v is, begun in this block, in a loop's last iteration or in the one before; NULL: there is none. */
static const Op *
product_of(const Value *v)
{
	const Op *op = v->def;
	if (!op && v->index > 0 && v->block->parent && v->block->parent->kind == OP_FOR)
		op = v->block->last->in[v->index - 1]->def;
	if (op && op->kind == OP_FOR)
		op = op->region[0]->last->in[v->index]->def;
	return op && op->kind == OP_DOT_START ? op : NULL;
}

/* Finished accumulators; zeros of padding stay. */
static void
settle(Lower *l, const Value *v, Reg *out)
{
	WgmmaPlan p;
	const Reg *from = lower_regs(l, v);
	int count = lower_count(v), n = 0;
	const Op *product = product_of(v);
	bool padded = product && plan_wgmma(product, &p) && accumulators(&p) < 1 << p.fragment;
	Reg *in = NEW_ARRAY(l->mem, Reg, count), *after = NEW_ARRAY(l->mem, Reg, count);
	memcpy(out, from, sizeof *out * (size_t)count);
	for (int i = 0; i < count; i++)
		if (!padded || i % (1 << p.fragment) < accumulators(&p))
			in[n++] = from[i];
	thread_settle(l->b, in, after, n);
	for (int i = 0, k = 0; i < count; i++)
		if (!padded || i % (1 << p.fragment) < accumulators(&p))
			out[i] = after[k++];
}

void
lower_dot_wait(Lower *l, Op *op)
{
	int64_t left = attr_left(op);

	thread_prim(l->b, PRIM_WGMMA_WAIT, NULL, 0, &left, 1, NULL, 0);
	if (l->held.n && left == 0) {
		Reg *after = NEW_ARRAY(l->mem, Reg, l->held.n);
		thread_settle(l->b, l->held.at, after, l->held.n);
		l->held.n = 0;
	}
	for (int i = 0; i < op->nin; i++) {
		const Reg *v = lower_regs(l, op->in[i]);
		Reg *out = lower_new(l, &op->out[i]);
		if (l->t->has & HAS_WGMMA)
			settle(l, op->in[i], out);
		else
			memcpy(out, v, sizeof *out * (size_t)lower_count(op->in[i]));
	}
}
