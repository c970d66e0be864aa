/* The order of programs whose loops are of different lengths: such that blocks of a persistent kernel have about as much to
 * do each, and that programs that share what they read run at about the same time.
 *
 *     grid(ps, h, b)    for %t in 0 .. min(L, 128 ps + 128)         attention's causal mask
 *
 * A loop whose end grows with the position on the first axis, and whose beginning does not depend on it, makes later
 * programs longer; one that begins there, as over the queries that see a block of keys, makes them shorter.  Groups of
 * positions on the other axes are walked one after the other, as many in each as give a block four programs, or all if
 * twice that is more: their keys and values lie in the L2 cache together.  In a group the longest come first, in rounds of
 * a program a block that go from the first block to the last and back:
 *
 *     block        0    1    2   ...
 *     round 0     32   32   31   ...  24       iterations of the loop that each program has
 *     round 1     16   16   16   ...  24
 *
 *     for %0, %n, %blocks do (%p) {             for %0, groups * rounds * blocks, %blocks do (%p) {
 *         %ps = program_at %p {axis = 0}   =>       %q = …
 *         write …                                   %ps = program_at %q {axis = 0}
 *     }                                             if %exists { write … }
 *                                               }
 *
 * Where a group is no multiple of the blocks, its last round has no programs for some of them: they run the shortest
 * program once more, and write nothing.  By a count of iterations this is within 1 % of handing programs out as blocks get
 * free from 512 programs a group on, and a block keeps its rings filled from one program to the next.
 *
 * Blocks that fetch programs (pass dynamic) take those of a group as they get free, the longest first. */
#include "ir/derive.h"
#include "pass/async/pipeline.h"

enum { ROUNDS = 4, DEEP = 16 };

static bool
depends(const Value *v, const Block *body, int axis, int depth)
{
	const Op *op = v->def;
	if (!value_inside(v, body))
		return false;
	if (!op || depth == DEEP || op->nregion)
		return true;
	if (op->kind == OP_PROGRAM_AT)
		return attr_axis(op) == axis;
	return ANY_OF(i, op->nin, depends(op->in[i], body, axis, depth + 1));
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
		return first && !depends(op->in[1], body, 0, 0);
	case OP_ADD: case OP_MIN: case OP_MAX:
		return first ? !depends(op->in[1], body, 0, 0) || grows(op->in[1], body, depth + 1)
		             : !depends(op->in[0], body, 0, 0) && grows(op->in[1], body, depth + 1);
	case OP_SELECT:                                 /* an early return, or a branch around all: no iteration (exit.c) */
		return (!depends(op->in[1], body, 0, 0) && grows(op->in[2], body, depth + 1)) ||
		    (!depends(op->in[2], body, 0, 0) && grows(op->in[1], body, depth + 1));
	default:
		return false;
	}
}

bool
program_depends(const Value *v, const Block *body, int axis)
{
	return depends(v, body, axis, 0);
}

bool
program_grows(const Value *v, const Block *body)
{
	return grows(v, body, 0);
}

/* A loop ends at what grows, or begins there. */
int
order_of_loops(const Block *body)
{
	for (const Op *op = body->first; op; op = op_after(op, body)) {
		if (op->kind != OP_FOR)
			continue;
		if (grows(op->in[1], body, 0) && !depends(op->in[0], body, 0, 0))
			return 1;
		if (grows(op->in[0], body, 0) && !depends(op->in[1], body, 0, 0))
			return -1;
	}
	return 0;
}

/* Does it have effects only, of which nothing else takes a value? */
static bool
can_leave_out(const Block *body)
{
	for (const Op *op = body->first; op; op = op_after(op, body))
		for (int i = 0; i < op->nout && op_has(op, WRITES | EFFECT); i++)
			if (op->out[i].nuses)
				return false;
	return true;
}

/* A walk is computed in i32: a program of warpgroups stores half a KiB at least, and no GPU has 2^30 times as much. */
static Value *
narrow(Builder *b, Value *v)
{
	return build1(b, OP_CAST, v, type_scalar(b->m, TY_I32));
}

static Value *
widen(Builder *b, Value *v)
{
	return build1(b, OP_CAST, v, type_scalar(b->m, TY_I64));
}

static Value *
number(Builder *b, int64_t n)
{
	return build_int(b, type_scalar(b->m, TY_I32), n);
}

static Value *
axis_programs(Module *m, Builder *b, int d)
{
	Attr axis = attr_new_axis(m, d);
	return narrow(b, &op_make(b, OP_NUM_PROGRAMS, NULL, 0, &axis, 1, NULL, 0)->out[0]);
}

/* What a walk is computed from, before the loop. */
typedef struct Walk {
	Value *block, *blocks;
	Value *n, *others;                              /* positions on the first axis, and on the others together */
	Value *width;                                   /* of a group, on the others */
	Value *rounds;                                  /* of a group */
	int longer;                                     /* which programs are: see order_of_loops */
} Walk;

static Walk
make_groups(Module *m, Op *programs)
{
	Builder b = build_before(programs);
	Walk w = {.block = narrow(&b, programs->in[0]), .blocks = narrow(&b, programs->in[2])};
	Value *one = number(&b, 1);
	w.n = axis_programs(m, &b, 0);
	w.others = one;
	for (int d = 1; d < programs->home->func->naxis; d++)
		w.others = build2(&b, OP_MUL, w.others, axis_programs(m, &b, d));
	Value *least = build2(&b, OP_DIV, build2(&b, OP_MUL, w.blocks, number(&b, ROUNDS)), w.n);
	least = build2(&b, OP_MAX, least, one);
	Value *is_one = build2(&b, OP_LT, w.others, build2(&b, OP_MUL, least, number(&b, 2)));
	w.width = build3(&b, OP_SELECT, is_one, w.others, least);
	return w;
}

/* The loop is over rounds: with the programs that its last ones have not. */
static void
make_rounds(Op *programs, Walk *w)
{
	Builder b = build_before(programs);
	w->rounds = build2(&b, OP_CDIV, build2(&b, OP_MUL, w->n, w->width), w->blocks);
	Value *all = build2(&b, OP_MUL, build2(&b, OP_CDIV, w->others, w->width), w->rounds);
	op_set_in(programs, 1, build2(&b, OP_MUL, widen(&b, all), programs->in[2]));
}

/* The number, as the grid counts, of the program that comes as number `at` of a group. */
static Value *
in_group(const Walk *w, Builder *b, Value *group, Value *at, Value **size)
{
	Value *one = number(b, 1), *column, *from = build2(b, OP_MUL, group, w->width);
	Value *width = build2(b, OP_MIN, w->width, build2(b, OP_SUB, w->others, from));
	*size = build2(b, OP_MUL, w->n, width);
	Value *within = build2(b, OP_MIN, at, build2(b, OP_SUB, *size, one));
	Value *row = build_divide(b, within, width, &column), *other = build2(b, OP_ADD, from, column);
	Value *on_first = w->longer < 0 ? row : build2(b, OP_SUB, build2(b, OP_SUB, w->n, one), row);
	return widen(b, build2(b, OP_ADD, on_first, build2(b, OP_MUL, other, w->n)));
}

/* Where blocks fetch programs, one group after the other and the longest first. */
static Value *
fetched(const Walk *w, Op *programs)
{
	Builder b = build_before(programs->region[0]->first);
	Value *at, *size, *p = narrow(&b, &programs->region[0]->arg[0]);
	Value *group = build_divide(&b, p, build2(&b, OP_MUL, w->n, w->width), &at);
	return in_group(w, &b, group, at, &size);
}

/* The number, as the grid counts, of the program that is walked as number p, and whether there is one.  What costs little
 * is computed again for each program: the producer's few registers hold no more beside its loop. */
static Value *
walked(const Walk *w, Op *programs, Value **exists)
{
	Builder b = build_before(programs->region[0]->first);
	Value *one = number(&b, 1), *odd, *rest, *size;
	Value *round = build2(&b, OP_DIV, narrow(&b, &programs->region[0]->arg[0]), w->blocks);
	build_divide(&b, round, number(&b, 2), &odd);
	Value *is_back = build2(&b, OP_EQ, odd, one);
	Value *back = build2(&b, OP_SUB, build2(&b, OP_SUB, w->blocks, one), w->block);
	Value *group = build_divide(&b, round, w->rounds, &rest), *start = build2(&b, OP_MUL, rest, w->blocks);
	Value *at = build2(&b, OP_ADD, start, build3(&b, OP_SELECT, is_back, back, w->block));
	Value *p = in_group(w, &b, group, at, &size);
	*exists = build2(&b, OP_LT, at, size);
	return p;
}

/* Scalars of one instruction are computed again for each program: registers that are left for what lives as long as the
 * loop are few. */
static void
sink_scalars(Op *programs)
{
	Block *body = programs->region[0];
	for (Op *op = programs->prev, *prev; op; op = prev) {
		bool is_cheap = op->kind == OP_ADD || op->kind == OP_SUB || op->kind == OP_MUL || op->kind == OP_SELECT;
		prev = op->prev;
		if (is_cheap && op->out[0].type->rank == 0 && value_uses_in(op->out, body) == op->out->nuses)
			op_move(op, body, body->first);
	}
}

Value *
order_programs(Module *m, Op *programs)
{
	Block *body = programs->region[0];
	Func *f = body->func;
	int longer = order_of_loops(body);
	if (f->schedule.group > 1 || f->schedule.ctas > 1 || !longer || !can_leave_out(body))
		return NULL;
	VEC(Op *) positions = {0};
	for (Op *op = body->first; op; op = op_after(op, body))
		if (op->kind == OP_PROGRAM_AT)
			vec_push(m->cx->tmp, &positions, op);
	Walk w = make_groups(m, programs);
	w.longer = longer;
	Value *exists = NULL, *p;
	if (attr_dynamic(programs)) {
		p = fetched(&w, programs);
	} else {
		make_rounds(programs, &w);
		p = walked(&w, programs, &exists);
	}
	for (int i = 0; i < positions.n; i++)
		op_set_in(positions.at[i], 0, p);
	sink_scalars(programs);
	return exists;
}
