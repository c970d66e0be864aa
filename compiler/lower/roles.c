/* Warp specialisation: warps that run different code, and the dots of a warpgroup.
 *
 *     roles {warps = [4, 4], copies = [1, 2], regs = [40, 232]} producer {A} consumer (%i: i64) {B}
 *  =>
 *     if warp < 4 { registers_less 40;  A }
 *     else        { registers_more 232; B with %i = (warp - 4) / 4 }
 *
 * The warp's number comes by a shuffle from its first lane, so that ptxas finds the branch uniform.  Within a role, thread
 * and warp count from the first of the group, so that layouts are the role's own, and a barrier has the role's number and
 * its threads; groups that run one region have numbers one after the other, computed where there are several.  A lone
 * producer's region is run by the first thread of its warps, after all of them have given up their registers.
 *
 * A dot that is started reads both operands from shared memory through descriptors: address, swizzle, and the distance
 * between groups of 8 rows.  Rows lie along K; they are 128, 64 or 32 bytes long, and their
 * 16-byte chunks are exclusive-ored by the row's number, which is the layout that pass pipeline chooses.  The
 * accumulator's blocks of 64 rows are instructions of their own. */
#include "lower/lower.h"

#include <string.h>

/* ---- roles ---- */

static void
lower_region_of(Lower *l, const Op *op, int region, int first)
{
	const IntList *regs = attr_regs(op);
	int64_t n = attr_warps(op)->at[region], copies = attr_copies(op)->at[region];
	Reg copy = lower_i32(l, 0), from = lower_i32(l, first);

	if (regs)
		thread_prim(l->b, region ? PRIM_REGISTERS_MORE : PRIM_REGISTERS_LESS, NULL, 0, &regs->at[region], 1,
		    NULL, 0);
	if (copies > 1) {
		copy = lower_op2(l, EMIT_UDIV, lower_op2(l, EMIT_SUB, l->warp, from), lower_i32(l, n));
		from = lower_op2(l, EMIT_ADD, from, lower_op2(l, EMIT_MUL, copy, lower_i32(l, n)));
		l->role_copy = copy;
	}
	l->thread = lower_op2(l, EMIT_SUB, l->thread, lower_op2(l, EMIT_MUL, from, lower_i32(l, l->t->lanes)));
	l->warp = lower_op2(l, EMIT_SUB, l->warp, from);
	l->warps = (int)n;
	l->role = 1 + region;
	if (region)
		lower_new(l, &op->region[1]->arg[0])[0] = lower_as(l, CAST_ZEXT, REG_I64, copy);
	lower_block(l, op->region[region]);
}

/* By its first thread: the others have nothing to do. */
static void
lower_lone(Lower *l, const Op *op)
{
	const IntList *regs = attr_regs(op);
	Reg zero = lower_i32(l, 0);

	if (regs)
		thread_prim(l->b, PRIM_REGISTERS_LESS, NULL, 0, &regs->at[0], 1, NULL, 0);
	lower_when(l, lower_is_first_holder(l, NULL));
	l->thread = l->warp = l->lane = zero;
	l->warps = 1;
	l->is_lone = true;
	l->role = 1;
	lower_block(l, op->region[0]);
	lower_end_when(l);
}

/* A role ends as the block began: nothing but the registers of its values stays. */
static void
leave_role(Lower *l, const Lower *outer)
{
	l->thread = outer->thread;
	l->warp = outer->warp;
	l->lane = outer->lane;
	l->warps = outer->warps;
	l->role = 0;
	l->role_copy = 0;
	l->is_lone = false;
}

void
lower_roles(Lower *l, Op *op)
{
	const IntList *warps = attr_warps(op), *copies = attr_copies(op);
	int first = (int)(warps->at[0] * copies->at[0]);
	Lower outer = *l;

	if (copies->at[1] > 14) {
		lower_refuse(l, op, "roles of more than 14 consumers");
		return;
	}
	if (attr_regs(op) && (!(l->t->has & HAS_SETMAXNREG) || warps->at[0] % 4 || warps->at[1] % 4)) {
		lower_refuse(l, op, "registers by role where a role is not of 4 warps");
		return;
	}
	Reg warp[] = {l->warp, lower_i32(l, 0)};
	thread_prim(l->b, PRIM_SHUFFLE, warp, 2, NULL, 0, &l->warp, 1);
	outer.warp = l->warp;
	thread_if(l->b, lower_op2(l, EMIT_SLT, l->warp, lower_i32(l, first)));
	if (attr_lone(op))
		lower_lone(l, op);
	else
		lower_region_of(l, op, 0, 0);
	leave_role(l, &outer);
	thread_else(l->b, NULL, 0);
	lower_region_of(l, op, 1, first);
	leave_role(l, &outer);
	thread_if_end(l->b, NULL, NULL, 0);
}

/* ---- dots of a warpgroup ---- */

/* An operand in shared memory, [rows, k]: the constant part of its descriptor, bytes from one block of rows (8 of them)
 * to the next; false if no descriptor says how it lies. */
static bool
describe(const Value *slot, int k_dim, int *row_bytes, uint64_t *constant)
{
	const Type *t = slot->type;
	int bytes = dtype_tile_size(t->elem), order[LAYOUT_RANK] = {k_dim, 1 - k_dim};

	if (t->kind != TYPE_BUFFER || t->rank != 2 || !slot->layout)
		return false;
	*row_bytes = (int)MIN(t->extent[k_dim] * bytes, 1 << 20);
	if (*row_bytes != 32 && *row_bytes != 64 && *row_bytes != 128)
		return false;
	int vector = log2_ceil(16 / bytes), phases = log2_ceil(*row_bytes / 16);
	Layout want = layout_swizzled(2, slot->layout->out, order, vector, 3 - phases, phases);
	if (!layout_equal(&want, slot->layout))
		return false;
	uint64_t apart = (uint64_t)(8 * *row_bytes) >> 4, mode = phases == 3 ? 1 : phases == 2 ? 2 : 3;
	*constant = UINT64_C(1) << 16 | apart << 32 | mode << 62;
	return true;
}

static Reg
descriptor(Lower *l, Reg base, int64_t offset, uint64_t constant)
{
	Reg at = thread_cast(l->b, CAST_BITS, REG_I32, offset ? thread_pointer(l->b, base, lower_i32(l, offset)) : base);
	Reg field = lower_op2(l, EMIT_LSHR, lower_op2(l, EMIT_AND, at, lower_i32(l, 0x3ffff)), lower_i32(l, 4));

	return lower_op2(l, EMIT_OR, lower_as(l, CAST_ZEXT, REG_I64, field), lower_i64(l, (int64_t)constant));
}

static const WgmmaInfo *
info_of(const Lower *l, const Op *op)
{
	for (int i = 0; i < wgmma_count; i++) {
		const WgmmaInfo *w = &wgmma_info[i];
		if (strcmp(w->name, attr_mma(op)) == 0 && w->a == op->in[0]->type->elem &&
		    w->b == op->in[1]->type->elem && w->acc == op->out[0].type->elem &&
		    w->n == op->out[0].type->extent[1] &&
		    !(w->needs & ~l->t->has))
			return w;
	}
	return NULL;
}

/* log2 of the accumulator's blocks of 64 rows, -1: it lies otherwise. */
static int
blocks_of(const WgmmaInfo *w, const Value *acc)
{
	int blocks = log2_ceil((acc->type->extent[0] + 63) / 64);

	if (64 << blocks != acc->type->extent[0] || blocks > 2 || !acc->layout)
		return -1;
	Layout want = wgmma_layout_c(w, blocks);
	return layout_equal(&want, acc->layout) ? blocks : -1;
}

void
lower_dot_start(Lower *l, Op *op)
{
	const WgmmaInfo *w = info_of(l, op);
	uint64_t fixed_a = 0, fixed_b = 0;
	int row_a = 0, row_b = 0, blocks = w && l->warps == 4 ? blocks_of(w, &op->out[0]) : -1;
	Reg *out = lower_new(l, &op->out[0]);
	const Reg *in = lower_regs(l, op->in[2]);

	memcpy(out, in, sizeof *out * (size_t)lower_count(&op->out[0]));
	if (blocks < 0 || !(l->t->has & HAS_WGMMA) || !layout_equal(op->in[2]->layout, op->out[0].layout) ||
	    !describe(op->in[0], 1, &row_a, &fixed_a) || !describe(op->in[1], 0, &row_b, &fixed_b)) {
		lower_refuse(l, op, "a dot of these operands that runs by itself");
		return;
	}
	Reg a = lower_regs(l, op->in[0])[0], b = lower_regs(l, op->in[1])[0];
	int n = w->n / 2, size = dtype_tile_size(w->a);
	thread_prim(l->b, PRIM_WGMMA_FENCE, NULL, 0, NULL, 0, NULL, 0);
	for (int k = 0; k * w->k < op->in[0]->type->extent[1]; k++)
		for (int r = 0; r < 1 << blocks; r++) {
			int64_t along = (int64_t)k * w->k * size;
			Reg da = descriptor(l, a, along + (int64_t)r * 64 * row_a, fixed_a);
			Reg db = descriptor(l, b, along, fixed_b);
			thread_wgmma(l->b, &(Wgmma){.info = w, .a = &da, .b = db, .c = out + r * n}, out + r * n);
		}
	thread_prim(l->b, PRIM_WGMMA_COMMIT, NULL, 0, NULL, 0, NULL, 0);
}

void
lower_dot_wait(Lower *l, Op *op)
{
	int64_t left = attr_left(op);

	thread_prim(l->b, PRIM_WGMMA_WAIT, NULL, 0, &left, 1, NULL, 0);
	for (int i = 0; i < op->nin; i++) {
		const Reg *v = lower_regs(l, op->in[i]);
		Reg *out = lower_new(l, &op->out[i]);
		int n = lower_count(op->in[i]);
		if (l->t->has & HAS_WGMMA)
			thread_settle(l->b, v, out, n);
		else
			memcpy(out, v, sizeof *out * (size_t)n);
	}
}
