/* Where a program is on the grid, by its number: the first axis counts fastest, or groups of rows do (schedule `group`).
 * In a loop over programs blocks of a cluster have neighbours, of which clusters are counted as programs are:
 *
 *     program_at %p {axis = 0, ranks = 4, along = 0, beside = 2}   =>   (%p / 4 on half of both axes) * 2 + %p % 4 % 2
 *     program_at %p {axis = 1, …}                                       (the same) * 2 + %p % 4 / 2 */
#include "lower/lower.h"

#include "ir/derive.h"

#include <string.h>

/* Quotient and remainder of a program's number by the programs along axis d, which the host knows the inverse of. */
static Reg
divide_program(Lower *l, Reg at, const Reg grid[MAX_AXES], int d, bool is_known, Reg *rest)
{
	Reg inverse = is_known ? lower_param(l, ABI_INVERSE, 0, d) : 0, q;
	if (!inverse || !(l->t->has & HAS_LONG_DIVIDE) || thread_type_of(l->b, at) != REG_I32) {
		*rest = lower_op2(l, THREAD_UREM, at, grid[d]);
		return lower_op2(l, THREAD_UDIV, at, grid[d]);
	}
	Reg shift = lower_as(l, CAST_TRUNC, REG_I32, lower_op2(l, THREAD_LSHR, inverse, lower_i64(l, 32)));
	q = lower_op2(l, THREAD_MULHI_U, at, lower_as(l, CAST_TRUNC, REG_I32, inverse));
	q = lower_op2(l, THREAD_LSHR, lower_op2(l, THREAD_ADD, q, at), shift);
	*rest = lower_op2(l, THREAD_SUB, at, lower_op2(l, THREAD_MUL, q, grid[d]));
	return q;
}

void
lower_find_program(Lower *l, Reg at, const Reg grid[MAX_AXES], int group, int others)
{
	int n = l->f->naxis;
	RegType t = thread_type_of(l->b, at);
	Reg position[MAX_AXES];
	if (group > 1 && n >= 2) {
		Reg rows = lower_op2(l, THREAD_UMIN, thread_int_const(l->b, t, group), grid[0]);
		Reg plane = lower_op2(l, THREAD_MUL, grid[0], grid[1]);
		Reg inside = n > 2 ? lower_op2(l, THREAD_UREM, at, plane) : at;
		Reg whole = lower_op2(l, THREAD_MUL, rows, grid[1]);
		Reg first = lower_op2(l, THREAD_MUL, lower_op2(l, THREAD_UDIV, inside, whole), rows);
		Reg height = lower_op2(l, THREAD_UMIN, lower_op2(l, THREAD_SUB, grid[0], first), rows);
		Reg rest = lower_op2(l, THREAD_UREM, inside, whole);
		position[0] = lower_op2(l, THREAD_ADD, first, lower_op2(l, THREAD_UREM, rest, height));
		position[1] = lower_op2(l, THREAD_UDIV, rest, height);
		if (n > 2)
			position[2] = lower_op2(l, THREAD_UDIV, at, plane);
	} else {
		for (int d = 0; d + 1 < n; d++)
			at = divide_program(l, at, grid, d, !(others >> d & 1), &position[d]);
		if (n > 0)
			position[n - 1] = at;
	}
	for (int d = 0; d < n; d++) {
		l->program[d] = t == REG_I64 ? position[d] : lower_as(l, CAST_ZEXT, REG_I64, position[d]);
		thread_name(l->b, l->program[d], l->f->axis[d]);
	}
}

/* A program's number, or how many there are along an axis, as wide as numbers of programs are. */
static Reg
numbered(Lower *l, Reg r)
{
	return l->f->few_programs ? lower_as(l, CAST_TRUNC, REG_I32, r) : r;
}

/* The program of number `at` where blocks of a cluster take neighbours: clusters are walked as programs are, and
 * l->program is the block's own, which may be past the end of an axis. */
static void
find_neighbour(Lower *l, const Op *op, Reg at, Reg grid[MAX_AXES])
{
	const Cluster c = program_cluster(op);
	RegType t = thread_type_of(l->b, at);
	Reg n = thread_int_const(l->b, t, c.ranks), rank;
	int others = 0;
	for (int d = 0; d < l->f->naxis; d++)
		if (cluster_on(c, d) > 1) {
			Reg each = thread_int_const(l->b, t, cluster_on(c, d));
			Reg up = thread_int_const(l->b, t, cluster_on(c, d) - 1);
			grid[d] = lower_op2(l, THREAD_UDIV, lower_op2(l, THREAD_ADD, grid[d], up), each);
			others |= 1 << d;
		}
	int group = MAX(l->f->schedule.group / cluster_on(c, 0), 1);
	lower_find_program(l, lower_op2(l, THREAD_UDIV, at, n), grid, group, others);
	rank = lower_op2(l, THREAD_UREM, at, n);
	for (int d = 0; d < l->f->naxis; d++)
		if (cluster_on(c, d) > 1) {
			Reg by = thread_int_const(l->b, t, c.ranks / c.beside);
			Reg own = c.beside == 1 ? rank
			                        : lower_op2(l, d == c.along ? THREAD_UREM : THREAD_UDIV, rank, by);
			Reg first = lower_op2(l, THREAD_MUL, l->program[d], lower_i64(l, cluster_on(c, d)));
			own = t == REG_I64 ? own : lower_as(l, CAST_ZEXT, REG_I64, own);
			l->program[d] = lower_op2(l, THREAD_ADD, first, own);
		}
}

/* Of the number that the op takes. */
static void
find_program_at(Lower *l, const Op *op)
{
	Reg at = numbered(l, lower_regs(l, op->in[0])[0]), grid[MAX_AXES] = {0};
	for (int d = 0; d < l->f->naxis; d++)
		grid[d] = numbered(l, l->programs[d]);
	if (attr_ranks(op) == 1 || attr_along(op) >= l->f->naxis)
		lower_find_program(l, at, grid, l->f->schedule.group, 0);
	else
		find_neighbour(l, op, at, grid);
}

Reg
lower_program_at(Lower *l, const Op *op, int axis)
{
	if (axis >= l->f->naxis)
		return lower_i64(l, 0);
	if (attr_known(op))
		return lower_regs(l, op->in[0])[0];
	find_program_at(l, op);
	for (int d = 0; d < l->f->naxis; d++)
		if (cluster_on(program_cluster(op), d) > 1)
			l->program[d] = lower_op2(l, THREAD_UMIN, l->program[d],
			    lower_op2(l, THREAD_SUB, l->programs[d], lower_i64(l, 1)));
	return l->program[axis];
}

void
lower_program_of(Lower *l, const Op *op)
{
	const Op *loop = NULL;
	Reg grid[MAX_AXES] = {0};
	for (; op; op = op->home->parent)
		loop = op->kind == OP_FOR ? op : loop;
	if (l->f->naxis == 0 || l->program[0] || !loop)
		return;
	for (int d = 0; d < l->f->naxis; d++)
		grid[d] = numbered(l, l->programs[d]);
	lower_find_program(l, numbered(l, lower_regs(l, &loop->region[0]->arg[0])[0]), grid, l->f->schedule.group, 0);
}

Reg
lower_program_exists(Lower *l, const Op *op)
{
	Reg was[MAX_AXES], exists = 0;
	memcpy(was, l->program, sizeof was);
	find_program_at(l, op);
	for (int d = 0; d < l->f->naxis; d++)
		if (cluster_on(program_cluster(op), d) > 1) {
			Reg is_inside = lower_op2(l, THREAD_ULT, l->program[d], l->programs[d]);
			exists = exists ? lower_op2(l, THREAD_AND, exists, is_inside) : is_inside;
		}
	memcpy(l->program, was, sizeof was);
	return exists;
}
