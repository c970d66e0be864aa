/* How often a loop runs in a launch of which the sizes are known: its bounds are scalars of dimensions, constants and the
 * program's numbers. */
#include "compile/estimate.h"
#include "pass/layout/dot.h"

#include <string.h>

enum { TRIPS_GUESS = 16, DEPTH = 8 };

static int64_t
dimension(const Func *f, const Bound *b, const Value *v, int64_t otherwise)
{
	const FuncParam *p = &f->param[v->index];
	for (int i = 0; i < b->nsymbol && p->kind == PARAM_DIM; i++)
		if (strcmp(b->symbol[i].name, p->name) == 0)
			return b->symbol[i].value.i;
	return otherwise;
}

/* What a scalar is, a program's number being half of the programs along its axis; `otherwise` if it is not known. */
static int64_t
scalar(const Func *f, const Bound *b, const Value *v, int64_t otherwise, int depth)
{
	const Op *op = v->def;
	int64_t c, x[3] = {0};
	if (value_int(v, &c))
		return c;
	if (!op)
		return v->block == f->body ? dimension(f, b, v, otherwise) : otherwise;
	if (op->kind == OP_PROGRAM_ID)
		return b->grid[attr_axis(op)] / 2;
	if (depth == 0 || op->nin > 3)
		return otherwise;
	bool knows = true;
	for (int i = 0; i < op->nin; i++) {
		x[i] = scalar(f, b, op->in[i], INT64_MIN, depth - 1);
		knows &= x[i] != INT64_MIN;
	}
	if (op->kind == OP_MIN && !knows && MAX(x[0], x[1]) != INT64_MIN)
		return MAX(x[0], x[1]);                 /* data, such as a length, up to that */
	if (!knows)
		return otherwise;
	switch (op->kind) {
	case OP_ADD: return x[0] + x[1];
	case OP_SUB: return x[0] - x[1];
	case OP_MUL: return x[0] * x[1];
	case OP_MIN: return MIN(x[0], x[1]);
	case OP_MAX: return MAX(x[0], x[1]);
	case OP_CAST: return x[0];
	case OP_CDIV: return x[1] ? (x[0] + x[1] - 1) / x[1] : 0;
	case OP_DIV: case OP_FLOORDIV: return x[1] ? x[0] / x[1] : 0;
	case OP_SELECT: return x[0] ? x[1] : x[2];
	default: return otherwise;
	}
}

double
estimate_trips(const Func *f, const Bound *b, const Op *loop)
{
	if (loop->kind != OP_FOR)
		return TRIPS_GUESS;
	int64_t lo = scalar(f, b, loop->in[0], 0, DEPTH), hi = scalar(f, b, loop->in[1], INT64_MIN, DEPTH);
	int64_t step = MAX(scalar(f, b, loop->in[2], 1, DEPTH), 1);
	return hi == INT64_MIN ? TRIPS_GUESS : (double)MAX((hi - lo + step - 1) / step, 0);
}

bool
estimate_multiplies(const Value *read)
{
	bool flipped;
	for (const Op *op = read->def->home->first; op; op = op->next)
		for (int i = 0; i < 2 && op->kind == OP_DOT; i++)
			if (dot_operand_root(op->in[i], &flipped) == read)
				return true;
	return false;
}
