/* Opens a plan: decides homes, order and registers (home.c, schedule.c, slot.c), then prepares a step for
 * everything that is left to do at run time.  A step holds all that can be known beforehand: the C
 * function, registers, sizes, offsets.  Everything is in the plan's arena. */
#include "ir/interp/plan.h"

#include <string.h>

Step *
step_make(Plan *p, const Op *op, size_t size, StepFn *run)
{
	Step *s = arena_alloc(p->mem, size);

	s->run = run;
	s->op = op;
	s->site = p->site.n;
	vec_push(p->mem, &p->site, op);
	return s;
}

void
code_push(Plan *p, Code *c, Step *s)
{
	VEC(Step *) v = {c->at, c->n, c->n};

	if (!s)
		return;
	if (c->n == 0 || (c->n & (c->n - 1)) == 0) {
		v.at = NEW_ARRAY(p->mem, Step *, c->n ? 2 * c->n : 1);
		if (c->n)
			memcpy(v.at, c->at, sizeof *v.at * (size_t)c->n);
	}
	v.at[c->n++] = s;
	c->at = v.at;
}

void
plan_temp(Plan *p, int64_t bytes)
{
	p->temp = MAX(p->temp, bytes);
}

int
param_index(const Value *v)
{
	return !v->def && !v->block->parent ? v->index : -1;
}

static Step *
node_emit(Plan *p, const Node *n)
{
	const Op *op = n->op;

	if (n->is_group)
		return group_emit(p, n);
	if (n->is_scalar)
		return scalar_emit(p, op);
	switch (op->kind) {
	case OP_FOR:
	case OP_WHILE:
	case OP_IF:
	case OP_YIELD:
		return control_emit(p, n);
	case OP_READ:
	case OP_WRITE:
	case OP_ATOMIC:
		return memory_emit(p, n);
	case OP_LOAD:
	case OP_STORE:
	case OP_ATOMIC_PTR:
		return pointer_emit(p, op);
	case OP_DOT:
	case OP_DOT_SCALED:
	case OP_PHILOX:
		return product_emit(p, op);
	case OP_REDUCE:
	case OP_SCAN:
	case OP_REDUCE_FN:
	case OP_SCAN_FN:
		return fold_emit(p, n);
	case OP_SORT:
	case OP_TOPK:
	case OP_HISTOGRAM:
	case OP_GATHER:
		return order_emit(p, op);
	case OP_SCATTER:
		return scatter_emit(p, op);
	case OP_ASSERT:
	case OP_PRINT:
		return report_emit(p, op);
	case OP_PREFETCH:
		return NULL;
	case OP_ALLOC:
	case OP_SLOT:
	case OP_GET:
	case OP_PUT:
	case OP_COPY:
	case OP_COMMIT:
	case OP_WAIT:
	case OP_MBARRIER:
	case OP_EXPECT:
	case OP_ARRIVE:
	case OP_AWAIT:
	case OP_PROXY_FENCE:
		return buffer_emit(p, op);
	case OP_ROLES:
		return roles_emit(p, n);
	case OP_DOT_START:
	case OP_DOT_WAIT:
		return product_emit(p, op);
	case OP_INLINE_PTX:
		p->why = "inline_ptx runs on PTX devices only; this device takes the `else` of a static if";
		return NULL;
	default:
		return shape_emit(p, n);
	}
}

typedef struct TraceStep {
	Step step;
	Home out;
	int index;
} TraceStep;

static bool
run_trace(Worker *w, const Step *step)
{
	const TraceStep *s = (const TraceStep *)step;
	const PlanOptions *opt = &w->plan->opt;

	opt->trace(opt->user, s->step.op, w->program, s->index, w->reg[s->out.reg]);
	return true;
}

static void
emit_trace(Plan *p, Code *c, const Op *op)
{
	for (int i = 0; i < op->nout && op->out[i].type->kind == TYPE_TILE; i++) {
		TraceStep *s = STEP(p, op, TraceStep, run_trace);
		s->out = value_home(p, &op->out[i]);
		s->index = i;
		code_push(p, c, &s->step);
	}
}

void
code_emit(Plan *p, Code *c, const Sched *s)
{
	for (int i = 0; i < s->node.n && !p->why; i++) {
		const Node *n = s->node.at[i];
		const Op *op = n->is_group ? n->member.at[0] : n->op;      /* the one member, in a plain plan */
		code_push(p, c, node_emit(p, n));
		if (p->opt.trace)
			emit_trace(p, c, op);
	}
}

/* A store through a pointer might reach a tensor that a read left in place. */
static bool
stores_through_pointers(const Block *b)
{
	for (const Op *op = b->first; op; op = op->next) {
		if (op->kind == OP_STORE || op->kind == OP_ATOMIC_PTR)
			return true;
		for (int r = 0; r < op->nregion; r++)
			if (stores_through_pointers(op->region[r]))
				return true;
	}
	return false;
}

Plan *
plan_open(Func *f, const PlanOptions *opt, const char **why)
{
	Arena *mem = arena_open();
	Plan *p = NEW(mem, Plan);

	func_number(f);
	p->mem = mem;
	p->func = f;
	if (opt)
		p->opt = *opt;
	p->cpu = cpu_level();
	p->plain = p->opt.sanitize || p->opt.trace;
	p->aliases = !stores_through_pointers(f->body);
	p->info = NEW_ARRAY(mem, ValueInfo, f->nvalues);
	for (int i = 0; i < f->nvalues; i++)
		p->info[i].web = -1;
	provenance_find(p);
	homes_find(p);
	schedule_make(p);
	slots_assign(p);
	code_emit(p, &p->code_once, p->once);
	code_emit(p, &p->code_launch, p->launch);
	code_emit(p, &p->code_body, p->body);
	if (!p->why)
		return p;
	*why = p->why;
	plan_close(p);
	return NULL;
}

void
plan_close(Plan *p)
{
	if (p)
		arena_close(p->mem);
}
