/* Numbers for programs that do something, one after the other: blocks fetch those, and find the program on the grid.
 *
 *     grid(pm, pn, e), and a program leaves where            count(e) = cdiv(last[e] - first[e], 128), from 0 to pm's
 *     first[e] + pm * 128 >= last[e]                   =>    expert e has the count(e) * pn's numbers behind those of e - 1
 *
 * Of a plane e of the grid, the programs that do something are the first count(e) along one axis, whatever their index on
 * the third, that of columns, is.  A number's plane is found by a walk over the planes' sums, which goes on from where the
 * number before was found, since a block's numbers only rise:
 *
 *     %plane, %sum, %count = while … { more = %number >= %sum + count(%plane) * %columns } do { next plane }
 *
 * In its plane programs are walked in groups of rows as on a grid, or, where later rows have longer loops, as of causal
 * attention over sequences of their own lengths, from the last row to the first.  Then no block fetches a program that does
 * nothing: of 64 experts with 256 rows each, half of the fetches found one, at a round trip to the counter each.  Consumers
 * read the indices and divide nothing. */
#include "pass/share/dynamic.h"

#include "ir/derive.h"
#include "pass/async/pipeline.h"

enum { DEEP = 16 };

/* v = base + times * (the index on the axis), times > 0; base NULL: 0 */
typedef struct Line {
	int axis;
	Value *base;
	int64_t times;
} Line;

/* ---- a guard as a count ---- */

static bool line_of(Value *v, const Block *body, int depth, Line *line);

static bool
line_of_sum(const Op *op, const Block *body, int depth, Line *line)
{
	for (int i = 0; i < 2; i++)
		if (!program_depends(op->in[1 - i], body, line->axis))
			return line_of(op->in[i], body, depth + 1, line) && !line->base && (line->base = op->in[1 - i]);
	return false;
}

static bool
line_of_product(const Op *op, const Block *body, int depth, Line *line)
{
	int64_t by;

	for (int i = 0; i < 2; i++)
		if (value_int(op->in[1 - i], &by) && by > 0 && by < INT32_MAX && line_of(op->in[i], body, depth + 1, line))
			return !line->base && line->times < INT32_MAX && (line->times *= by);
	return false;
}

/* One summand beside a multiple of the index: what programs compute of where a group begins. */
static bool
line_of(Value *v, const Block *body, int depth, Line *line)
{
	const Op *op = v->def;

	if (!op || depth == DEEP || op->home != body || v->type->kind != TYPE_TILE || v->type->elem != TY_I64)
		return false;
	switch (op->kind) {
	case OP_PROGRAM_AT:
		*line = (Line){.axis = line->axis, .times = 1};
		return attr_axis(op) == line->axis;
	case OP_ADD: return line_of_sum(op, body, depth, line);
	case OP_MUL: return line_of_product(op, body, depth, line);
	default: return false;
	}
}

/* The program acts while line < end, or <= end, of a line along that axis. */
static bool
find_bound(const Leave *l, int axis, Compact *c)
{
	const Op *op = l->guard[0]->in[0]->def;
	const Block *body = l->programs->region[0];
	Line line = {.axis = axis};

	for (int i = 1; i < l->n; i++)
		if (l->guard[i]->in[0] != l->guard[0]->in[0] || l->taken[i] != l->taken[0])
			return false;
	if (!op || (op->kind != OP_GE && op->kind != OP_GT && op->kind != OP_LE && op->kind != OP_LT))
		return false;
	bool leaves_up = op->kind == OP_GE || op->kind == OP_GT;        /* once the left side is great */
	int moves = leaves_up == l->taken[0] ? 0 : 1;
	if (program_depends(op->in[1 - moves], body, axis) || !line_of(op->in[moves], body, 0, &line))
		return false;
	bool is_strict = op->kind == OP_GT || op->kind == OP_LT;
	*c = (Compact){.leave = l, .base = line.base, .times = line.times, .end = op->in[1 - moves],
		.with_end = is_strict == l->taken[0], .row = axis};
	return true;
}

/* The axes of planes, which the bound depends on, and of columns, which it does not. */
static bool
find_axes(const Func *f, Compact *c)
{
	const Block *body = c->leave->programs->region[0];

	c->plane = c->column = -1;
	for (int d = 0; d < f->naxis; d++) {
		if (d == c->row)
			continue;
		bool depends = program_depends(c->end, body, d) || (c->base && program_depends(c->base, body, d));
		int *at = depends ? &c->plane : &c->column;
		if (*at >= 0)
			return false;
		*at = d;
	}
	return c->plane >= 0;
}

/* The number is used for nothing but the indices, by a walk perhaps (async/order.c), and the number after it. */
static bool
is_only_for_indices(const Compact *c, const Block *body)
{
	bool *follows = NEW_ARRAY(body->func->module->cx->tmp, bool, c->leave->values);
	follows[body->arg[0].id] = true;
	for (const Op *op = body->first; op; op = op_after(op, body)) {
		bool is_index = op->kind == OP_PROGRAM_AT && attr_ranks(op) <= 1;
		bool uses = op_uses_slice(op, follows), ends = is_index || &op->out[0] == body->last->in[0];
		if (uses && !ends && (!op_has(op, PURE) || op->nregion || op->out[0].type->rank))
			return false;
		op_extend_slice(op, follows, uses && !ends);
	}
	return true;
}

bool
compact_find(const Func *f, const Leave *l, const Op *producer, Compact *c)
{
	int axis = 0, order = order_of_loops(l->programs->region[0]), naxis = order ? 1 : f->naxis;
	while (l->n && axis < naxis && !(find_bound(l, axis, c) && find_axes(f, c)))
		axis++;
	if (l->n == 0 || axis == naxis)
		return false;
	c->longest_last = order > 0;
	return is_only_for_indices(c, l->programs->region[0]) && is_only_for_indices(c, producer->region[0]);
}

/* ---- code ---- */

static Value **
map_of(const Compact *c, Builder *b, Value *plane)
{
	const Block *body = c->leave->programs->region[0];
	Value **map = NEW_ARRAY(b->m->cx->tmp, Value *, c->leave->values);

	for (const Op *op = body->first; op; op = op_after(op, body))
		if (op->kind == OP_PROGRAM_AT && attr_axis(op) == c->plane && op->out[0].id < c->leave->values)
			map[op->out[0].id] = plane;
	return map;
}

/* Programs of the plane that do something, in each of its columns. */
static Value *
count_of(const Compact *c, Builder *b, Value *plane)
{
	Value **map = map_of(c, b, plane), *n = leave_again(c->leave, b, c->end, map);

	if (c->base)
		n = build2(b, OP_SUB, n, leave_again(c->leave, b, c->base, map));
	if (c->with_end)
		n = build2(b, OP_ADD, n, build_index(b, 1));
	n = build2(b, OP_CDIV, build2(b, OP_MAX, n, build_index(b, 0)), build_index(b, c->times));
	return build2(b, OP_MIN, n, programs_along(b, c->row));
}

/* Is the number behind this plane's?  %more, %count */
static Op *
build_test(const Compact *c, Builder *b, Value *number, Value *plane, Value *sum)
{
	Value *is_there = build2(b, OP_LT, plane, programs_along(b, c->plane));
	Op *branch = build_if(b, is_there, (Value *[]){is_there, plane}, 2);
	Builder then = build_inside(branch, 0), otherwise = build_inside(branch, 1);
	Value *count = count_of(c, &then, plane);
	Value *end = build2(&then, OP_ADD, sum, build2(&then, OP_MUL, count, programs_along(&then, c->column)));

	build_yield(&then, (Value *[]){build2(&then, OP_GE, number, end), count}, 2);
	build_yield(&otherwise, (Value *[]){build_int(&otherwise, is_there->type, 0), build_index(&otherwise, 0)}, 2);
	return branch;
}

/* The walk: gives the number's plane, the sum before it and its count. */
static Op *
build_walk(const Compact *c, Builder *b, Value *number, const Numbered *from)
{
	Value *init[] = {from->plane, from->sum, build_index(b, 0)};
	Op *loop = build_while(b, init, 3);
	Builder test = build_inside(loop, 0), next = build_inside(loop, 1);
	Value *plane = &test.block->arg[0], *sum = &test.block->arg[1];
	Op *found = build_test(c, &test, number, plane, sum);

	build_yield(&test, (Value *[]){&found->out[0], plane, sum, &found->out[1]}, 4);
	Value *at = next.block->arg;
	Value *size = build2(&next, OP_MUL, &at[2], programs_along(&next, c->column));
	Value *plane_after = build2(&next, OP_ADD, &at[0], build_index(&next, 1));
	build_yield(&next, (Value *[]){plane_after, build2(&next, OP_ADD, &at[1], size), &at[2]}, 3);
	return loop;
}

static Value *
narrow(Builder *b, Value *v)
{
	return build1(b, OP_CAST, v, type_scalar(b->m, TY_U32));
}

static Value *
widen(Builder *b, Value *v)
{
	return build1(b, OP_CAST, v, type_scalar(b->m, TY_I64));
}

static Value *
columns_of(const Compact *c, Builder *b)
{
	return narrow(b, programs_along(b, c->column));
}

/* Number `at` of a plane of `count` rows: as on a grid, by the earlier of the two axes in groups of so many, each by the
 * later one.  Grids have fewer than 2^31 programs. */
static void
find_in_plane(const Compact *c, Builder *b, Value *at, Value *count, Numbered *to)
{
	int group = b->block->func->schedule.group;
	Value *one = build_int(b, type_scalar(b->m, TY_U32), 1), *rows = build2(b, OP_MAX, narrow(b, count), one);
	Value *n = narrow(b, at), *first = NULL, *rest;

	if (c->longest_last) {                          /* those come first, of all columns */
		Value *passed = build_divide(b, n, columns_of(c, b), &rest), *last = build2(b, OP_SUB, rows, one);
		to->index[c->row] = widen(b, build2(b, OP_SUB, last, build2(b, OP_MIN, passed, last)));
		if (c->column >= 0)
			to->index[c->column] = widen(b, rest);
		return;
	}
	if (c->column < 0) {
		to->index[c->row] = at;
		return;
	}
	bool by_rows = c->row < c->column;
	Value *inner = by_rows ? rows : columns_of(c, b);
	if (group > 1) {
		Value *height = build2(b, OP_MIN, inner, build_int(b, one->type, group));
		Value *whole = build2(b, OP_MUL, height, by_rows ? columns_of(c, b) : rows);
		first = build2(b, OP_MUL, build_divide(b, n, whole, &n), height);
		inner = build2(b, OP_MAX, build2(b, OP_MIN, build2(b, OP_SUB, inner, first), height), one);
	}
	Value *passed = build_divide(b, n, inner, &rest);
	to->index[by_rows ? c->row : c->column] = widen(b, first ? build2(b, OP_ADD, first, rest) : rest);
	to->index[by_rows ? c->column : c->row] = widen(b, passed);
}

Numbered
compact_place(const Compact *c, Builder *b, Value *number, Value *total, const Numbered *from)
{
	Op *walk = build_walk(c, b, number, from);
	Numbered to = {.plane = &walk->out[0], .sum = &walk->out[1]};
	Value *is_there = build2(b, OP_LT, to.plane, programs_along(b, c->plane));

	find_in_plane(c, b, build2(b, OP_SUB, number, to.sum), &walk->out[2], &to);
	to.index[c->plane] = to.plane;
	to.program = build3(b, OP_SELECT, is_there, build_index(b, 0), total);
	return to;
}

void
compact_replace(Block *body, Value *const *index)
{
	for (Op *op = body->first; op; op = op_after(op, body))
		if (op->kind == OP_PROGRAM_AT) {
			op_set_in(op, 0, index[attr_axis(op)]);
			attr_set_known(body->func->module, op, true);
		}
}
