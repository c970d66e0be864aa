/* Control flow: loops, branches and what crosses their edges.
 *
 * An Edge assigns the destinations of a jump (loop arguments, a branch's results) all at once.  A value that is dead
 * afterwards moves by exchanging the pointers of the two slots; the others are copied, through a temporary where a
 * destination may hold another source. */
#include "ir/interp/fast/fast.h"

#include <string.h>

typedef struct Copy {
	Storage from;
	int to;                                         /* slot */
} Copy;

typedef struct Edge {
	Copy *copy;
	int *from, *to;                                 /* slots: each `to` takes the pointer that `from` had */
	int ncopies, nmoves;
} Edge;

static void
run_edge(Worker *w, const Edge *e)
{
	char *few[16], **old = e->nmoves <= LEN(few) ? few : (char **)w->strip;

	for (int i = 0; i < e->ncopies; i++)
		storage_copy(w, &e->copy[i].from, w->at[e->copy[i].to]);
	for (int i = 0; i < e->nmoves; i++)
		old[i] = w->at[e->from[i]];
	for (int i = 0; i < e->nmoves; i++)
		w->at[e->to[i]] = old[i];
}

static int
index_of(const int *list, int n, int x)
{
	for (int i = 0; i < n; i++)
		if (list[i] == x)
			return i;
	return -1;
}

/* A slot whose pointer moved on and that got none takes the one left over at the other end of its chain, whose slots are
 * all of one size. */
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

/* No other source of the edge has the slot that this copy writes. */
static bool
may_copy_directly(const Plan *p, const Node *n, const Move *m)
{
	if (storage_of(p, m->src).kind == STORE_VIEW && value_info(p, m->src)->base)
		return false;
	for (int i = 0; i < n->move.n; i++)
		if (&n->move.at[i] != m && value_info(p, n->move.at[i].src)->level == 2 &&
		    storage_of(p, n->move.at[i].src).slot != storage_of(p, n->move.at[i].dst).slot)
			return false;
	return true;
}

/* The web that move i is copied through, or -1.  If a later move leaves the same source in its slot, that slot cannot be
 * exchanged: this move takes the other's temporary. */
static int
temporary_of(const Plan *p, const Node *n, int i)
{
	int slot = storage_of(p, n->move.at[i].src).slot, temp = n->move.at[i].temp;

	for (int j = i + 1; j < n->move.n && slot >= 0 && temp < 0; j++)
		if (storage_of(p, n->move.at[j].src).slot == slot && storage_of(p, n->move.at[j].dst).slot == slot)
			temp = n->move.at[j].temp;
	return temp;
}

static void
edge_make(Plan *p, Edge *e, const Node *n)
{
	e->copy = NEW_ARRAY(p->mem, Copy, n->move.n);
	e->from = NEW_ARRAY(p->mem, int, 2 * n->move.n);
	e->to = NEW_ARRAY(p->mem, int, 2 * n->move.n);
	for (int i = 0; i < n->move.n; i++) {
		const Move *m = &n->move.at[i];
		Storage src = storage_of(p, m->src), dst = storage_of(p, m->dst);
		int from = src.slot, temp = temporary_of(p, n, i);
		if (src.kind == STORE_SLOT && src.slot == dst.slot)
			continue;
		if (temp >= 0) {
			bool direct = may_copy_directly(p, n, m);
			from = p->fast->web.at[temp].slot;
			e->copy[e->ncopies++] = (Copy){src, direct ? dst.slot : from};
			if (direct || from == dst.slot)
				continue;
		}
		e->from[e->nmoves] = from;
		e->to[e->nmoves++] = dst.slot;
	}
	close_cycles(e);
	strip_want(p, (int64_t)sizeof(char *) * e->nmoves);
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

	run_edge(w, &s->start);
	while (by > 0 ? i < hi : by < 0 && i > hi) {
		*(int64_t *)w->at[s->index] = i;
		if (!code_run(w, &s->body))
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

	run_edge(w, &s->start);
	for (;;) {
		if (!code_run(w, &s->test))
			return false;
		bool go_on = *value_at(w, step->op->region[0]->last->in[0]);
		run_edge(w, &s->give);
		if (!go_on)
			return true;
		if (!code_run(w, &s->body))
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

	return code_run(w, &s->branch[*value_at(w, step->op->in[0]) ? 0 : 1]);
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
