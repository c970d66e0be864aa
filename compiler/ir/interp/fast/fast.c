/* Opens the fast layer of a plan: storage, order and slots, then a step for everything that is left to do at run time. */
#include "ir/interp/fast/fast.h"

#include <stdlib.h>
#include <string.h>

Step *
step_make(Plan *p, const Op *op, size_t size, StepFn *run)
{
	Step *s = arena_alloc(p->mem, size);

	s->run = run;
	s->op = op;
	return s;
}

static void
code_push(Plan *p, Code *c, Step *s)
{
	if ((c->n & (c->n - 1)) == 0) {
		Step **at = NEW_ARRAY(p->mem, Step *, 2 * c->n);
		if (c->n)
			memcpy(at, c->at, sizeof *at * (size_t)c->n);
		c->at = at;
	}
	c->at[c->n++] = s;
}

bool
code_run(Worker *w, const Code *c)
{
	int depth = w->depth;

	for (int i = 0; i < c->n; i++) {
		if (!c->at[i]->run(w, c->at[i]))
			return false;
		w->depth = depth;
	}
	return true;
}

void
strip_want(Plan *p, int64_t bytes)
{
	p->fast->strip_bytes = MAX(p->fast->strip_bytes, bytes);
}

static bool
run_definition(Worker *w, const Step *s)
{
	return op_run(w, s->op);
}

typedef struct ReductionStep {
	Step step;
	Reduction reduction;
} ReductionStep;

static bool
run_reduction(Worker *w, const Step *s)
{
	return reduction_run(w, &((const ReductionStep *)s)->reduction, s->op);
}

static Step *
reduction_emit(Plan *p, const Op *op)
{
	ReductionStep *s = STEP(p, op, ReductionStep, run_reduction);

	reduction_make(p, &s->reduction, op);
	return &s->step;
}

typedef struct FoldStep {
	Step step;
	Fold fold;
} FoldStep;

static bool
run_fold(Worker *w, const Step *s)
{
	return fold_run(w, &((const FoldStep *)s)->fold);
}

static Step *
fold_emit(Plan *p, const Op *op)
{
	FoldStep *s = STEP(p, op, FoldStep, run_fold);

	fold_make(&s->fold, op);
	if (s->fold.is_flat) {
		s->fold.combine = flat_combine;
		s->fold.flat = flat_make(p, op->region[0]);
	}
	return &s->step;
}

/* The op's own step; NULL: there is none. */
static Step *
special_emit(Plan *p, const Op *op)
{
	switch (op->kind) {
	case OP_READ: return read_emit(p, op);
	case OP_WRITE: return write_emit(p, op);
	case OP_LOAD: return load_emit(p, op);
	case OP_STORE: return store_emit(p, op);
	case OP_CONST: return const_emit(p, op);
	case OP_IOTA: return iota_emit(p, op);
	case OP_DOT: return dot_emit(p, op);
	case OP_REDUCE: case OP_SCAN: return reduction_emit(p, op);
	case OP_REDUCE_FN: case OP_SCAN_FN: return fold_emit(p, op);
	default: return NULL;
	}
}

static void
node_emit(Plan *p, Code *c, const Node *n)
{
	const Op *op = n->op;
	Step *s = NULL;

	if (n->is_group) {
		s = group_emit(p, n);
	} else if (n->is_scalar) {
		s = scalar_emit(p, op);
	} else if (op_is_control(op) || op->kind == OP_YIELD) {
		s = control_emit(p, n);
	} else if (op_rearranges(op->kind)) {
		for (int k = 0; k < op->nout; k++) {
			Step *part = rearrange_emit(p, op, k);
			if (part)
				code_push(p, c, part);
		}
	} else if (!(s = special_emit(p, op))) {
		s = step_make(p, op, sizeof *s, run_definition);
	}
	if (s)
		code_push(p, c, s);
}

void
code_emit(Plan *p, Code *c, const Sched *s)
{
	for (int i = 0; i < s->node.n; i++)
		node_emit(p, c, s->node.at[i]);
}

/* A store through a pointer might reach a tensor that a read left in place. */
static bool
stores_through_pointers(const Block *body)
{
	return ANY_OP(op, body, op->kind == OP_STORE || op->kind == OP_ATOMIC_PTR);
}

void
fast_open(Plan *p)
{
	Fast *f = p->fast = NEW(p->mem, Fast);

	f->aliases = !stores_through_pointers(p->func->body);
	f->info = NEW_ARRAY(p->mem, ValueInfo, p->func->nvalues);
	for (int i = 0; i < p->func->nvalues; i++)
		f->info[i].web = -1;
	storage_choose(p);
	schedule_make(p);
	liveness_find(p);
	slots_assign(p);
	code_emit(p, &f->code_once, f->once);
	code_emit(p, &f->code_launch, f->launch);
	code_emit(p, &f->code_body, f->body);
}

int64_t
fast_strip_bytes(const Plan *p)
{
	return p->fast ? p->fast->strip_bytes : 0;
}

bool
fast_worker_open(Worker *w)
{
	if (w->plan->fast)
		w->view = calloc((size_t)w->plan->fast->nview + 1, sizeof *w->view);
	return !w->plan->fast || w->view;
}

bool
fast_start(Worker *w)
{
	const Fast *f = w->plan->fast;

	w->has_constants = w->has_constants || code_run(w, &f->code_once);
	return w->has_constants && code_run(w, &f->code_launch);
}

bool
fast_run(Worker *w)
{
	return code_run(w, &w->plan->fast->code_body);
}
