/* Programs that do nothing: all that they would write stands in branches that are not taken, as behind an early return
 * that pass persist has turned into branches (async/exit.c).
 *
 *     %start = add %first, (mul %pm, %128)           programs of an expert, of which most are behind its last row
 *     %out = ge %start, %end
 *     if %out { } else { write … }
 *
 * The thread that fetches such a program can tell from scalars alone, and fetches again.  Where one leaves and all that
 * follow along the first axis leave too, as here, the next number is that of the next row of the grid; where programs go in
 * groups of rows, that of the group's next column, or of the next plane if the second axis makes no difference. */
#include "pass/share/dynamic.h"

#include "ir/derive.h"
#include "pass/async/pipeline.h"

enum { DEEP = 24 };

/* ---- what programs do ---- */

static bool
has_effect(const Op *op)
{
	OpFamily family = op_family(op);

	return op_has(op, WRITES) || (op_has(op, EFFECT) && family != FAMILY_BUFFER && family != FAMILY_DOT_ASYNC);
}

static bool
region_acts(const Block *b)
{
	return ANY_OP(op, b, has_effect(op));
}

/* Can the value be computed of another program's number: from scalars, and what no program writes? */
static bool
can_compute(Func *f, const Leave *l, const Value *v, int depth)
{
	const Op *op = v->def;

	if (!value_inside(v, l->roles->region[1]) || v == &l->programs->region[0]->arg[0])
		return true;
	if (op && op->kind == OP_PROGRAM_AT)            /* of the number, by a walk perhaps (async/order.c) */
		return true;
	if (!op || depth == DEEP || op->nregion || op->nout != 1 || v->type->kind != TYPE_TILE || v->type->rank)
		return false;
	if (!op_has(op, PURE) && !(op->kind == OP_READ && !tensor_may_be_written(f, op->in[0], f->body)))
		return false;
	return !ANY_OF(i, op->nin,
	    op->in[i]->type->kind != TYPE_TENSOR && !can_compute(f, l, op->in[i], depth + 1));
}

/* A branch of which one side acts, and whose condition can be computed. */
static bool
add_guard(Func *f, Leave *l, const Op *op)
{
	bool acts[2] = {region_acts(op->region[0]), region_acts(op->region[1])};

	if (!acts[0] && !acts[1])
		return true;
	if (acts[0] == acts[1] || l->n == GUARDS_MOST || !can_compute(f, l, op->in[0], 0))
		return false;
	l->guard[l->n] = op;
	l->taken[l->n++] = acts[1];
	return true;
}

/* ---- the rest of a row ---- */

static bool steady(const Value *v, const Block *body, bool rises, int depth);

static bool
compares_steadily(const Op *op, const Block *body, bool rises)
{
	bool up = (op->kind == OP_GE || op->kind == OP_GT) == rises;
	const Value *moves = op->in[up ? 0 : 1], *stays = op->in[up ? 1 : 0];

	return program_grows(moves, body) && !program_depends(stays, body, 0);
}

/* Once it holds (rises) or does not, is it so for all that follow along the first axis? */
static bool
steady(const Value *v, const Block *body, bool rises, int depth)
{
	const Op *op = v->def;

	if (!program_depends(v, body, 0))
		return true;
	if (!op || depth == DEEP)
		return false;
	switch (op->kind) {
	case OP_GE: case OP_GT: case OP_LE: case OP_LT:
		return compares_steadily(op, body, rises);
	case OP_AND: case OP_OR:
		return steady(op->in[0], body, rises, depth + 1) && steady(op->in[1], body, rises, depth + 1);
	case OP_NOT:
		return steady(op->in[0], body, !rises, depth + 1);
	default:
		return false;
	}
}

/* Are programs numbered as the grid is, or in groups of its rows? */
static bool
counts_along_grid(const Leave *l)
{
	const Block *body = l->programs->region[0];

	return !ANY_OP(op, body,
	    op->kind == OP_PROGRAM_AT && (op->in[0] != &body->arg[0] || attr_ranks(op) > 1));
}

/* … and, with those, all of the plane? */
static bool
ends_planes(const Leave *l)
{
	return l->is_tail && ALL_OF(i, l->n, !program_depends(l->guard[i]->in[0], l->programs->region[0], 1));
}

Leave
leave_find(Func *f, const Op *roles, Op *programs)
{
	Leave l = {.roles = roles, .programs = programs};
	const Block *body = programs->region[0];
	bool known = true;

	for (const Op *op = body->first; op && known; op = op->next)
		if (op->kind == OP_IF)
			known = add_guard(f, &l, op);
		else
			known = !has_effect(op) && !(op->nregion && region_acts(op->region[0]));
	l.n = known ? l.n : 0;
	/* do all programs behind one that leaves, along the first axis, leave too? */
	l.is_steady = ALL_OF(i, l.n, steady(l.guard[i]->in[0], l.programs->region[0], l.taken[i], 0));
	l.is_tail = l.is_steady && counts_along_grid(&l);
	l.is_plane = ends_planes(&l);
	func_number(f);
	l.values = f->nvalues;
	return l;
}

/* ---- another program's number ---- */

Value *
leave_again(const Leave *l, Builder *b, Value *v, Value **map)
{
	if (!value_inside(v, l->roles->region[1]))
		return v;
	if (map[v->id])
		return map[v->id];
	for (int i = 0; i < v->def->nin; i++)
		leave_again(l, b, v->def->in[i], map);
	op_clone(b, v->def, map);
	return map[v->id];
}

/* Is no branch of program n's taken that does something? */
static Value *
does_nothing(const Leave *l, Builder *b, Value *n)
{
	Value **map = NEW_ARRAY(b->m->cx->tmp, Value *, l->values), *all = NULL;

	map[l->programs->region[0]->arg[0].id] = n;
	for (int i = 0; i < l->n; i++) {
		Value *v = leave_again(l, b, l->guard[i]->in[0], map);
		v = l->taken[i] ? v : build1(b, OP_NOT, v, NULL);
		all = all ? build2(b, OP_AND, all, v) : v;
	}
	return all;
}

/* The loop's test: is there such a program, and does it nothing? */
static void
build_test(const Leave *l, Builder *b, Value *total)
{
	Value *n = &b->block->arg[0], *is_there = build2(b, OP_LT, n, total);
	Op *branch = build_if(b, is_there, &is_there, 1);
	Builder then = build_inside(branch, 0), otherwise = build_inside(branch, 1);
	Value *idle = does_nothing(l, &then, n), *no = build_int(&otherwise, is_there->type, 0);

	build_yield(&then, &idle, 1);
	build_yield(&otherwise, &no, 1);
	build_yield(b, (Value *[]){&branch->out[0], n}, 2);
}

Value *
programs_along(Builder *b, int axis)
{
	const Attr a = attr_new_axis(b->m, axis);

	return axis < 0 ? build_index(b, 1) : &op_make(b, OP_NUM_PROGRAMS, NULL, 0, &a, 1, NULL, 0)->out[0];
}

/* The first number behind n's row of the grid: in groups of rows behind n's column of the group, or behind n's plane if
 * n is of the group's first row, since the others of the group, and the groups behind it, do nothing either. */
static Value *
after_row(const Leave *l, Builder *b, Value *n)
{
	const Func *f = l->programs->home->func;
	Value *rows = programs_along(b, 0), *one = build_index(b, 1);

	if (f->schedule.group <= 1 || f->naxis < 2)
		return build2(b, OP_MUL, build2(b, OP_ADD, build2(b, OP_DIV, n, rows), one), rows);
	const Attr first_axis = attr_new_axis(b->m, 0);
	Value *at = &op_make(b, OP_PROGRAM_AT, &n, 1, &first_axis, 1, NULL, 0)->out[0];
	Value *group = build_index(b, f->schedule.group), *row = build2(b, OP_REM, at, group);
	Value *height = build2(b, OP_MIN, build2(b, OP_SUB, rows, build2(b, OP_SUB, at, row)), group);
	Value *column = build2(b, OP_ADD, n, build2(b, OP_SUB, height, row));
	if (!l->is_plane)
		return column;
	Value *plane = build2(b, OP_MUL, rows, programs_along(b, 1));
	Value *next = build2(b, OP_MUL, build2(b, OP_ADD, build2(b, OP_DIV, n, plane), one), plane);
	return build3(b, OP_SELECT, build2(b, OP_EQ, row, build_index(b, 0)), next, column);
}

Value *
leave_out(const Leave *l, Builder *b, Value *fetched, Value *total)
{
	if (l->n == 0)
		return fetched;
	Op *loop = build_while(b, &fetched, 1);
	Builder test = build_inside(loop, 0), body = build_inside(loop, 1);

	build_test(l, &test, total);
	Value *least = l->is_tail ? after_row(l, &body, &body.block->arg[0]) : NULL;
	Value *next = fetch_known(l, &body, fetch_number(&body, least));
	build_yield(&body, &next, 1);
	return &loop->out[0];
}
