/* The definition of each op by its kind, and control flow: a block is run op by op, a region as often as its op says.
 *
 * An elementwise op has one definition for all; every other op has define_<NAME>, so that a new one without does not
 * link.  What only the passes of GPUs make has none here. */
#include "ir/interp/run.h"

#include <string.h>

DefineFn *const definition[OP_COUNT] = {
#define OP(NAME, text, in, out, infer, traits, cost, family, ...)                                    \
	[OP_##NAME] = IS_OF_GPUS(FAMILY_##family) ? NULL : (traits) & ELEM ? define_elementwise : define_##NAME,
#include "ir/ops.def"
#undef OP
};

static void
trace(Worker *w, const Op *op)
{
	const PlanOptions *opt = &w->plan->opt;

	for (int i = 0; i < op->nout && op->out[i].type->kind == TYPE_TILE; i++)
		opt->trace(opt->user, op, w->program, i, value_at(w, &op->out[i]));
}

bool
block_run(Worker *w, const Block *b)
{
	int depth = w->depth;

	for (const Op *op = b->first; op; op = op->next) {
		if (!op_run(w, op))
			return false;
		w->depth = depth;
		if (w->plan->opt.trace && !w->untraced)
			trace(w, op);
	}
	return true;
}

/* What crosses an edge of control flow: to[i] becomes from[i], all at once, since a loop may exchange values. */
static bool
assign(Worker *w, const Op *op, Value *const *from, Value *to, int n)
{
	int64_t bytes = SUM_OF(int64_t, i, n, value_bytes(from[i]));
	int depth = w->depth;
	char *temp = temp_take(w, op, bytes), *at = temp;
	w->depth = depth;
	if (!temp)
		return false;
	for (int i = 0; i < n; at += value_bytes(from[i]), i++)
		memcpy(at, value_at(w, from[i]), (size_t)value_bytes(from[i]));
	at = temp;
	for (int i = 0; i < n; at += value_bytes(from[i]), i++)
		memcpy(value_at(w, &to[i]), at, (size_t)value_bytes(from[i]));
	return true;
}

/* Values of one block's results that become those of the op around it. */
static Value **
yielded(const Block *b)
{
	return b->last->in;
}

DEFINE(FOR)
{
	const Block *body = op->region[0];
	int64_t i = value_i64(w, op->in[0]), hi = value_i64(w, op->in[1]), by = value_i64(w, op->in[2]);
	int n = op->nout;

	if (!went_on(w, op, 0) || !assign(w, op, op->in + 3, body->arg + 1, n))
		return false;
	while (by > 0 ? i < hi : by < 0 && i > hi) {
		memcpy(value_at(w, &body->arg[0]), &i, sizeof i);
		if (!went_on(w, op, by) || !block_run(w, body) || !assign(w, op, yielded(body), body->arg + 1, n))
			return false;
		if (attr_dynamic(op))
			i = value_i64(w, &body->arg[1]);
		else if (__builtin_add_overflow(i, by, &i))
			break;
	}
	for (int k = 0; k < n; k++)
		memcpy(value_at(w, &op->out[k]), value_at(w, &body->arg[k + 1]), (size_t)value_bytes(&op->out[k]));
	return true;
}

DEFINE(WHILE)
{
	const Block *test = op->region[0], *body = op->region[1];

	if (!went_on(w, op, 0) || !assign(w, op, op->in, test->arg, op->nout))
		return false;
	for (;;) {
		if (!block_run(w, test))
			return false;
		bool goes_on = *value_at(w, yielded(test)[0]);
		if (!assign(w, op, yielded(test) + 1, goes_on ? body->arg : op->out, op->nout))
			return false;
		if (!goes_on)
			return true;
		if (!went_on(w, op, 1) || !block_run(w, body) || !assign(w, op, yielded(body), test->arg, op->nout))
			return false;
	}
}

DEFINE(IF)
{
	bool first = *value_at(w, op->in[0]) != 0;
	const Block *b = op->region[first ? 0 : 1];

	return went_on(w, op, first) && block_run(w, b) && assign(w, op, yielded(b), op->out, op->nout);
}

DEFINE(YIELD)
{
	return true;                                    /* the op around it takes the values */
}

DEFINE(PREFETCH)
{
	return true;
}

DEFINE(INLINE_PTX)
{
	unreachable();                                  /* refused by plan_open */
}
