/* Warp specialisation: warps that run different code.
 *
 *     roles {warps = [4, 4], copies = [1, 2], regs = [40, 232]} producer {A} consumer (%i: i64) {B}
 *  =>
 *     if warp < 4 { registers_less 40;  A }
 *     else        { registers_more 232; B with %i = (warp - 4) / 4 }
 *
 * The warp's number comes by a shuffle from its first lane, so that ptxas finds the branch uniform.  Within a role, thread
 * and warp count from the first of the group, so that layouts are the role's own, and a barrier has the role's number and
 * its threads; groups that run one region have numbers one after the other, computed where there are several.  A lone
 * producer's region is run by the first thread of its warps, after all of them have given up their registers.  Consumers
 * that are done let the next grid start. */
#include "lower/lower.h"

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
		copy = lower_op2(l, THREAD_UDIV, lower_op2(l, THREAD_SUB, l->warp, from), lower_i32(l, n));
		from = lower_op2(l, THREAD_ADD, from, lower_op2(l, THREAD_MUL, copy, lower_i32(l, n)));
		l->role_copy = copy;
	}
	l->thread = lower_op2(l, THREAD_SUB, l->thread, lower_op2(l, THREAD_MUL, from, lower_i32(l, l->t->lanes)));
	l->warp = lower_op2(l, THREAD_SUB, l->warp, from);
	l->warps = (int)n;
	l->role = 1 + region;
	if (region)
		lower_new(l, &op->region[1]->arg[0])[0] = lower_as(l, CAST_ZEXT, REG_I64, copy);
	lower_block(l, op->region[region]);
	if (region && lower_signals_late(l->f))
		lower_start_next_grid(l);
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
	thread_if(l->b, lower_op2(l, THREAD_SLT, l->warp, lower_i32(l, first)));
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
