/* Control flow: loops, branches and what crosses their edges.
 *
 * An Edge assigns the destinations of a jump (loop arguments, a branch's results) all at once: first every copy is made,
 * then slots exchange their pointers (liveness.c chooses). */
#include "ir/interp/fast/fast.h"

typedef struct Copy {
	Storage from;
	int to;                                         /* slot */
} Copy;

typedef struct Exchange {
	int a, b;                                       /* slots */
} Exchange;

typedef struct Edge {
	Copy *copy;
	Exchange *exchange;
	int ncopies, nexchanges;
} Edge;

static void
run_edge(Worker *w, const Edge *e)
{
	for (int i = 0; i < e->ncopies; i++)
		storage_copy(w, &e->copy[i].from, w->at[e->copy[i].to]);
	for (int i = 0; i < e->nexchanges; i++) {
		char **a = &w->at[e->exchange[i].a], **b = &w->at[e->exchange[i].b], *old = *a;
		*a = *b;
		*b = old;
	}
}

static void
edge_make(Plan *p, Edge *e, const Node *n)
{
	e->copy = NEW_ARRAY(p->mem, Copy, n->move.n);
	e->exchange = NEW_ARRAY(p->mem, Exchange, n->move.n);
	for (int i = 0; i < n->move.n; i++) {
		const Move *m = &n->move.at[i];
		Storage src = storage_of(p, m->src), dst = storage_of(p, m->dst);
		int temp = m->temp >= 0 ? p->fast->web.at[m->temp].slot : -1;
		if (m->kind == MOVE_COPY)
			e->copy[e->ncopies++] = (Copy){src, temp >= 0 ? temp : dst.slot};
		if (m->kind == MOVE_EXCHANGE || temp >= 0)
			e->exchange[e->nexchanges++] = (Exchange){temp >= 0 ? temp : src.slot, dst.slot};
	}
}

typedef struct YieldStep {
	Step step;
	Edge edge;
} YieldStep;

static bool
run_yield(Worker *w, const Step *step)
{
	run_edge(w, &((const YieldStep *)step)->edge);
	return true;
}

typedef struct ForStep {
	Step step;
	int index;
	Edge start;
	Code body;
} ForStep;

static bool
run_for(Worker *w, const Step *step)
{
	const ForStep *s = (const ForStep *)step;
	const Op *op = step->op;
	int64_t i = value_i64(w, op->in[0]), hi = value_i64(w, op->in[1]), by = value_i64(w, op->in[2]);

	if (!went_on(w, op, 0))
		return false;
	run_edge(w, &s->start);
	while (by > 0 ? i < hi : by < 0 && i > hi) {
		*(int64_t *)w->at[s->index] = i;
		if (!went_on(w, op, by) || !code_run(w, &s->body))
			return false;
		if (__builtin_add_overflow(i, by, &i))
			break;
	}
	return true;
}

typedef struct WhileStep {
	Step step;
	Edge start, give;                               /* into the test, and from it */
	Code test, body;
} WhileStep;

static bool
run_while(Worker *w, const Step *step)
{
	const WhileStep *s = (const WhileStep *)step;

	if (!went_on(w, step->op, 0))
		return false;
	run_edge(w, &s->start);
	for (;;) {
		if (!code_run(w, &s->test))
			return false;
		bool go_on = *value_at(w, step->op->region[0]->last->in[0]);
		run_edge(w, &s->give);
		if (!go_on)
			return true;
		if (!went_on(w, step->op, 1) || !code_run(w, &s->body))
			return false;
	}
}

typedef struct IfStep {
	Step step;
	Code branch[2];
} IfStep;

static bool
run_if(Worker *w, const Step *step)
{
	const IfStep *s = (const IfStep *)step;

	bool first = *value_at(w, step->op->in[0]) != 0;

	return went_on(w, step->op, first) && code_run(w, &s->branch[first ? 0 : 1]);
}

static Step *
emit_for(Plan *p, const Node *n)
{
	ForStep *s = STEP(p, n->op, ForStep, run_for);

	s->index = storage_of(p, &n->op->region[0]->arg[0]).slot;
	edge_make(p, &s->start, n);
	code_emit(p, &s->body, n->region[0]);
	return &s->step;
}

static Step *
emit_while(Plan *p, const Node *n)
{
	WhileStep *s = STEP(p, n->op, WhileStep, run_while);

	edge_make(p, &s->start, n);
	edge_make(p, &s->give, n->region[0]->yield);
	code_emit(p, &s->test, n->region[0]);
	code_emit(p, &s->body, n->region[1]);
	return &s->step;
}

static Step *
emit_if(Plan *p, const Node *n)
{
	IfStep *s = STEP(p, n->op, IfStep, run_if);

	code_emit(p, &s->branch[0], n->region[0]);
	code_emit(p, &s->branch[1], n->region[1]);
	return &s->step;
}

Step *
control_emit(Plan *p, const Node *n)
{
	switch (n->op->kind) {
	case OP_FOR:
		return emit_for(p, n);
	case OP_WHILE:
		return emit_while(p, n);
	case OP_IF:
		return emit_if(p, n);
	default:
		break;
	}
	const Node *parent = n->sched->parent;
	if (n->move.n == 0 || (parent->op->kind == OP_WHILE && n->sched == parent->region[0]))
		return NULL;
	YieldStep *s = STEP(p, n->op, YieldStep, run_yield);
	edge_make(p, &s->edge, n);
	return &s->step;
}
