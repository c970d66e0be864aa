/* How dots feed each other, and which programs share their operands.
 *
 *     %p = dot %q, %k, %0          feeds  %o = dot (cast (exp %p)), %v, %acc
 *
 *     grid(pm, pn):  a[pm, k] @ b[k, pn]      programs that share rows of a and columns of b should be neighbours */
#include "pass/layout/dot.h"

enum { DEPTH = 16, GROUP = 8 };

static Op *
next_dot(const Func *f, const Value *v, int depth)
{
	int uses = depth > 0 ? v->nuses : 0;
	for (Op *op = v->def ? v->def : f->body->first; op && uses > 0; op = op_after(op, f->body))
		for (int i = 0; i < op->nin; i++) {
			if (op->in[i] != v)
				continue;
			uses--;
			if (op->kind == OP_DOT && i == 0)
				return op;
			bool goes_on = (op_info[op->kind].traits & ELEM) || op->kind == OP_CONVERT;
			Op *found = goes_on ? next_dot(f, &op->out[0], depth - 1) : NULL;
			if (found)
				return found;
		}
	return NULL;
}

Op *
dot_next(const Func *f, const Value *v)
{
	return next_dot(f, v, DEPTH);
}

bool
dots_are_chained(const Func *f, const Block *b)
{
	for (const Op *op = b->first; op; op = op_after(op, b)) {
		const Op *next = op->kind == OP_DOT ? dot_next(f, &op->out[0]) : NULL;
		if (next && next->home == op->home)
			return true;
	}
	return false;
}

bool
dot_is_chained(const Func *f, const Op *dot)
{
	if (dot_next(f, &dot->out[0]))
		return true;
	return ANY_OP(op, f->body, op->kind == OP_DOT && dot_next(f, &op->out[0]) == dot);
}

/* Does another dot of its loop feed it, and it none? */
static bool
ends_chain(const Func *f, const Op *dot)
{
	bool any = ANY_OP_HERE(
	    op, dot->home, op->kind == OP_DOT && op != dot && dot_next(f, &op->out[0]) == dot);
	return any && !dot_next(f, &dot->out[0]);
}

/* Has one of the dots that end no chain an operand that the dot's right one is, too? */
static bool
shares_operand(const Func *f, const Op *dot)
{
	bool flipped;
	const Value *own = dot_operand_root(dot->in[1], &flipped);
	return ANY_OP_HERE(op, dot->home, dot_takes(op, own) && !ends_chain(f, op));
}

int
dots_part(const Func *f)
{
	const Block *home = NULL;
	int ends = 0;
	for (const Op *op = f->body->first; op; op = op_after(op, f->body)) {
		if (op->kind != OP_DOT)
			continue;
		bool is_end = ends_chain(f, op);
		if ((home && op->home != home) || (is_end && shares_operand(f, op)))
			return 0;
		home = op->home;
		ends += is_end;
	}
	return ends;
}

/* The axes of the grid, as bits, that a value depends on. */
static unsigned
axes_of(const Value *v, bool *seen)
{
	unsigned axes = 0;
	if (seen[v->id])
		return 0;
	seen[v->id] = true;
	const Op *op = v->def ? v->def : v->block->parent;
	if (!op)
		return 0;
	if (op->kind == OP_PROGRAM_ID)
		return 1u << attr_axis(op);
	for (int i = 0; i < op->nin; i++)
		axes |= axes_of(op->in[i], seen);
	return axes;
}

/* As many rows of tiles that the tiles of all multiprocessors lie in a square: what is read twice is least.  On an H200
 * tiles of 128 x 256 take 0.5 to 0.8 % less in groups of 16 than of 8, and 0.7 to 1 % more in groups of 32 (4096 x 14336 x
 * 4096, 8192 cubed and others). */
static int
square_group(const Type *tile, bool by_rows, const Target *t)
{
	double along = (double)tile->extent[tile->rank - (by_rows ? 2 : 1)];
	double other = (double)tile->extent[tile->rank - (by_rows ? 1 : 2)];
	int group = GROUP;

	while (t->rates && 4.0 * group * group <= t->rates->multiprocessors * other / along)
		group *= 2;
	return group;
}

/* Behind an early return: in each column of a group rows that leave are fetched (moe_matmul of 64 experts in groups of 16:
 * 207 us, 173 in groups of 8). */
static bool
may_leave(const Op *dot)
{
	return FIND_NEXT(up, dot->home->parent, up->home->parent, up->kind == OP_IF) != NULL;
}

int
dot_group(const Func *f, const Target *t)
{
	for (Op *op = f->naxis >= 2 ? f->body->first : NULL; op; op = op_after(op, f->body)) {
		if (op->kind != OP_DOT || dot_next(f, &op->out[0]))
			continue;
		bool *seen = NEW_ARRAY(f->module->cx->tmp, bool, 2 * f->nvalues);
		unsigned a = axes_of(op->in[0], seen) & 3, b = axes_of(op->in[1], seen + f->nvalues) & 3;
		if ((a == 1 && b == 2) || (a == 2 && b == 1))
			return may_leave(op) ? GROUP : square_group(op->out[0].type, a == 1, t);
	}
	return 0;
}
