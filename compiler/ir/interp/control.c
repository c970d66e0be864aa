/* Control flow: loops, branches and what crosses their edges.
 *
 * An Edge hands values to the destinations of a jump (loop arguments, a branch's results) all at once.  A
 * value that nobody wants afterwards goes by exchanging the two registers' pointers; the others are copied,
 * through a temporary where a destination may hold another source. */
#include "ir/interp/plan.h"

#include <string.h>

typedef struct Copy {
	Home from;
	int to;                                         /* register */
} Copy;

typedef struct Edge {
	Copy *copy;
	int *from, *to;                                 /* registers: each `to` takes the pointer that `from` had */
	int ncopies, nmoves;
} Edge;

static void
run_edge(Worker *w, const Edge *e)
{
	char *few[16], **old = e->nmoves <= LEN(few) ? few : (char **)w->temp;

	for (int i = 0; i < e->ncopies; i++)
		home_copy(w, &e->copy[i].from, w->reg[e->copy[i].to]);
	for (int i = 0; i < e->nmoves; i++)
		old[i] = w->reg[e->from[i]];
	for (int i = 0; i < e->nmoves; i++)
		w->reg[e->to[i]] = old[i];
}

static int
index_of(const int *list, int n, int x)
{
	for (int i = 0; i < n; i++)
		if (list[i] == x)
			return i;
	return -1;
}

/* A register that gave its pointer away and got none takes the one that is left over at the other end of its chain,
 * whose registers are all of one size. */
static void
close_cycles(Edge *e)
{
	int n = e->nmoves;

	for (int i = 0; i < n; i++) {
		if (index_of(e->to, n, e->from[i]) >= 0)
			continue;
		int last = i;
		for (int k = i; k >= 0; k = index_of(e->from, n, e->to[k]))
			last = k;
		e->to[e->nmoves] = e->from[i];
		e->from[e->nmoves++] = e->to[last];
	}
}

/* Nothing that is handed over can lie where this copy goes. */
static bool
may_copy_directly(const Plan *p, const Node *n, const Move *m)
{
	if (value_home(p, m->src).kind == HOME_VIEW && value_info(p, m->src)->base)
		return false;
	for (int i = 0; i < n->move.n; i++)
		if (&n->move.at[i] != m && value_info(p, n->move.at[i].src)->level == 2 &&
		    value_home(p, n->move.at[i].src).reg != value_home(p, n->move.at[i].dst).reg)
			return false;
	return true;
}

static void
edge_make(Plan *p, Edge *e, const Node *n)
{
	e->copy = NEW_ARRAY(p->mem, Copy, n->move.n);
	e->from = NEW_ARRAY(p->mem, int, 2 * n->move.n);
	e->to = NEW_ARRAY(p->mem, int, 2 * n->move.n);
	for (int i = 0; i < n->move.n; i++) {
		const Move *m = &n->move.at[i];
		Home src = value_home(p, m->src), dst = value_home(p, m->dst);
		int from = src.reg;
		if (src.kind == HOME_REG && src.reg == dst.reg)
			continue;
		if (m->temp >= 0) {
			bool direct = may_copy_directly(p, n, m);
			from = web_reg(p, m->temp);
			e->copy[e->ncopies++] = (Copy){src, direct ? dst.reg : from};
			if (direct || from == dst.reg)
				continue;
		}
		e->from[e->nmoves] = from;
		e->to[e->nmoves++] = dst.reg;
	}
	close_cycles(e);
	plan_temp(p, (int64_t)sizeof(char *) * e->nmoves);
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

bool
code_run(Worker *w, const Code *c)
{
	for (int i = 0; i < c->n; i++)
		if (!c->at[i]->run(w, c->at[i]))
			return false;
	return true;
}

typedef struct ForStep {
	Step step;
	Home lo, hi, by;
	int index;
	Edge start;
	Code body;
} ForStep;

static bool
run_for(Worker *w, const Step *step)
{
	const ForStep *s = (const ForStep *)step;
	int64_t i = home_i64(w, &s->lo), hi = home_i64(w, &s->hi), by = home_i64(w, &s->by);

	run_edge(w, &s->start);
	while (by > 0 ? i < hi : by < 0 && i > hi) {
		*(int64_t *)w->reg[s->index] = i;
		if (!code_run(w, &s->body))
			return false;
		if (__builtin_add_overflow(i, by, &i))
			break;
	}
	return true;
}

typedef struct WhileStep {
	Step step;
	Home go_on;
	Edge start, give;                               /* into the test, and from it */
	Code test, body;
} WhileStep;

static bool
run_while(Worker *w, const Step *step)
{
	const WhileStep *s = (const WhileStep *)step;

	run_edge(w, &s->start);
	for (;;) {
		if (!code_run(w, &s->test))
			return false;
		bool go_on = *w->reg[s->go_on.reg];
		run_edge(w, &s->give);
		if (!go_on)
			return true;
		if (!code_run(w, &s->body))
			return false;
	}
}

typedef struct IfStep {
	Step step;
	Home test;
	Code branch[2];
} IfStep;

static bool
run_if(Worker *w, const Step *step)
{
	const IfStep *s = (const IfStep *)step;

	return code_run(w, &s->branch[*w->reg[s->test.reg] ? 0 : 1]);
}

static Step *
emit_for(Plan *p, const Node *n)
{
	ForStep *s = STEP(p, n->op, ForStep, run_for);

	s->lo = value_home(p, n->op->in[0]);
	s->hi = value_home(p, n->op->in[1]);
	s->by = value_home(p, n->op->in[2]);
	s->index = value_home(p, &n->op->region[0]->arg[0]).reg;
	edge_make(p, &s->start, n);
	code_emit(p, &s->body, n->region[0]);
	return &s->step;
}

static Step *
emit_while(Plan *p, const Node *n)
{
	WhileStep *s = STEP(p, n->op, WhileStep, run_while);

	s->go_on = value_home(p, n->region[0]->yield->op->in[0]);
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

	s->test = value_home(p, n->op->in[0]);
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
