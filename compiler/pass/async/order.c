/* The order of programs whose loops are of different lengths: the longest first, so that none is left to run alone at the
 * end, and such that programs that share what they read run at about the same time.
 *
 *     grid(ps, h, b)    for %t in 0 .. min(L, 128 ps + 128)         attention's causal mask
 *
 *     %ps = program_at %p {axis = 0}       =>       %q = (15 - (%p mod 16 heads) / heads) + 16 (%p mod heads)
 *                                                   %ps = program_at %q {axis = 0}
 *
 * A loop whose end grows with the position on the first axis, and whose beginning does not depend on it, makes later
 * programs longer.  They are walked down that axis, for a group of positions on the other axes at a time: 16, whose keys
 * and values lie in the second cache together.  Blocks are then as many as there are programs: the hardware gives the
 * next one to a free multiprocessor, which a loop of fixed stride over programs cannot. */
#include "pass/async/pipeline.h"

enum { TOGETHER = 16, DEEP = 16 };

static bool
depends(const Value *v, const Block *body, int depth)
{
	const Op *op = v->def;
	if (!value_inside(v, body))
		return false;
	if (!op || depth == DEEP || op->nregion)
		return true;
	if (op->kind == OP_PROGRAM_AT)
		return attr_axis(op) == 0;
	for (int i = 0; i < op->nin; i++)
		if (depends(op->in[i], body, depth + 1))
			return true;
	return false;
}

/* Is it never less where the position on the first axis is greater, and at times more? */
static bool
grows(const Value *v, const Block *body, int depth)
{
	const Op *op = v->def;
	int64_t by;
	if (!op || depth == DEEP || op->home != body)
		return false;
	bool first = op->nin > 0 && grows(op->in[0], body, depth + 1);
	switch (op->kind) {
	case OP_PROGRAM_AT:
		return attr_axis(op) == 0;
	case OP_MUL:
		return (first && value_int(op->in[1], &by) && by > 0) ||
		    (value_int(op->in[0], &by) && by > 0 && grows(op->in[1], body, depth + 1));
	case OP_DIV: case OP_CDIV:
		return first && value_int(op->in[1], &by) && by > 0;
	case OP_SUB:
		return first && !depends(op->in[1], body, 0);
	case OP_ADD: case OP_MIN: case OP_MAX:
		return first ? !depends(op->in[1], body, 0) || grows(op->in[1], body, depth + 1)
		             : !depends(op->in[0], body, 0) && grows(op->in[1], body, depth + 1);
	default:
		return false;
	}
}

static bool
has_longer_loops(const Block *body)
{
	for (const Op *op = body->first; op; op = op->next)
		if (op->kind == OP_FOR && grows(op->in[1], body, 0) && !depends(op->in[0], body, 0))
			return true;
	return false;
}

/* a - a / b b, and the quotient. */
static Value *
remainder_of(Builder *b, Value *a, Value *by, Value **quotient)
{
	*quotient = build2(b, OP_DIV, a, by);
	return build2(b, OP_SUB, a, build2(b, OP_MUL, *quotient, by));
}

/* The number, as the grid counts, of the program that is walked as number p.  What costs little is computed again for
 * each program: the producer's few registers hold no more beside its loop. */
static Value *
walked(Module *m, Op *programs)
{
	Builder before = build_before(programs), b = build_before(programs->region[0]->first);
	Attr first = attr_new_axis(m, 0);
	Value *n = &op_make(&before, OP_NUM_PROGRAMS, NULL, 0, &first, 1, NULL, 0)->out[0];
	Value *others = build2(&before, OP_DIV, programs->in[1], n), *together = build_index(&before, TOGETHER);
	Value *size = build2(&b, OP_MUL, n, together), *last = build2(&b, OP_SUB, n, build_index(&b, 1));
	Value *group, *row, *p = &programs->region[0]->arg[0];
	Value *within = remainder_of(&b, p, size, &group);
	Value *from = build2(&b, OP_MUL, group, together);
	Value *width = build2(&b, OP_MIN, together, build2(&b, OP_SUB, others, from));
	Value *other = build2(&b, OP_ADD, from, remainder_of(&b, within, width, &row));
	return build2(&b, OP_ADD, build2(&b, OP_SUB, last, row), build2(&b, OP_MUL, other, n));
}

bool
order_programs(Module *m, Op *programs)
{
	Block *body = programs->region[0];
	Func *f = body->func;
	if (f->schedule.group > 1 || f->schedule.ctas > 1 || !has_longer_loops(body))
		return false;
	VEC(Op *) positions = {0};
	for (Op *op = body->first; op; op = op_after(op, body))
		if (op->kind == OP_PROGRAM_AT)
			vec_push(m->cx->tmp, &positions, op);
	Value *p = walked(m, programs);
	for (int i = 0; i < positions.n; i++)
		op_set_in(positions.at[i], 0, p);
	return true;
}
