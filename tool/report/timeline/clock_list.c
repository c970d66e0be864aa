/* Lists the ops that a role executes.  The loop over programs runs once, a loop that waits for copies as often as is shown,
 * after which the list is cut if it runs more often; a trip of any other loop stands for all of them.  Of a branch the
 * first region counts: prologues and loops copy where there is one more trip.  And what is shown, on the launch's scale. */
#include "tool/report/timeline/timeline.h"

static bool
is_sync(const Op *op)
{
	return op->kind == OP_AWAIT || op->kind == OP_WAIT || op->kind == OP_COPY || op->kind == OP_COMMIT;
}

static bool
syncs(const Op *op)
{
	for (int r = 0; r < op->nregion; r++)
		for (const Op *in = op->region[r]->first; in; in = op_after(in, op->region[r]))
			if (is_sync(in))
				return true;
	return false;
}

static void
bind(StepList *c, const Value *to, const Value *from)
{
	vec_push(c->mem, &c->step, ((Step){.to = to, .from = from}));
}

static const Op *
yield_of(const Block *b)
{
	return b->last && b->last->kind == OP_YIELD ? b->last : NULL;
}

/* A loop with a wait is unrolled, up to where what is shown ends; of another one trip stands for all. */
static bool
list_loop(StepList *c, const Op *op, double times)
{
	const Block *body = op->region[op->nregion - 1];
	const Op *yield = yield_of(body);
	int skip = op->kind == OP_FOR ? 3 : 0, carried = op->nin - skip, first = body->narg - carried;
	bool over_programs = op_is_over_programs(op), is_shown = !over_programs && syncs(op);
	double trips = over_programs ? 1 : c->facts->trips(c->facts->user, op);
	int n = is_shown ? (int)MIN(trips, c->shown) : 1;
	if (is_shown)
		c->trips = MAX(c->trips, trips);
	for (int i = 0; i < carried && first >= 0; i++)
		bind(c, &body->arg[first + i], op->in[skip + i]);
	for (int k = 0; k < n; k++) {
		if (!list_block(c, body, over_programs || is_shown ? times : times * trips))
			return false;
		for (int i = 0; yield && i < yield->nin && i < carried && first >= 0; i++)
			bind(c, &body->arg[first + i], yield->in[i]);
	}
	for (int i = 0; yield && i < op->nout && i < yield->nin; i++)
		bind(c, &op->out[i], yield->in[i]);
	c->is_cut = (is_shown && trips > n) || over_programs;
	if (is_shown && !c->is_cut)
		bind(c, NULL, NULL);
	return !c->is_cut;
}

bool
list_block(StepList *c, const Block *b, double times)
{
	for (const Op *op = b->first; op; op = op->next) {
		bool is_loop = op_is_loop(op), is_if = op->kind == OP_IF;
		if (is_loop && !list_loop(c, op, times))
			return false;
		if (is_if && !list_block(c, op->region[0], times))
			return false;
		const Op *yield = is_if ? yield_of(op->region[0]) : NULL;
		for (int i = 0; yield && i < op->nout && i < yield->nin; i++)
			bind(c, &op->out[i], yield->in[i]);
		if (!op->nregion || !(is_loop || is_if || op->kind == OP_ROLES))
			vec_push(c->mem, &c->step, ((Step){.op = op, .times = times}));
	}
	return true;
}

void
timeline_scale(Timeline *t, double cycles)
{
	double all = t->cycles + MAX(t->of - t->trips, 0) * t->period;
	t->scale = all > 0 && cycles > 0 ? cycles / all : 1;
	t->cycles *= t->scale;
	t->period *= t->scale;
	t->behind *= t->scale;
	for (int i = 0; i < t->spans.n; i++) {
		t->spans.at[i].from *= t->scale;
		t->spans.at[i].to *= t->scale;
	}
}
