/* Regions: the kernel, functions beside it, loops and branches.
 *
 *     thread_loop          LOOP { arg: index, carried …    body …    yield: next … }    its results: after …
 *     thread_while         WHILE { arg: carried …    test's nodes …    TEST    body …    yield: next … }
 *     thread_if            IF { yield: then … } { yield: otherwise … } */
#include "thread/builder.h"

#include <string.h>

static ThreadRegion *
open_region(ThreadBuilder *b, ThreadNode *owner, int which)
{
	ThreadRegion *r = NEW(b->m->mem, ThreadRegion);
	r->owner = owner;
	r->outer = b->region;
	r->numbers = b->value.number.n;
	b->region = r;
	if (owner)
		owner->region[which] = r;
	return r;
}

/* The innermost region's owner, which must be of that kind. */
static ThreadNode *
close_region(ThreadBuilder *b, ThreadKind kind, const Reg *yield, int n)
{
	ThreadRegion *r = b->region;
	if (!r->owner || r->owner->kind != kind)
		die("a region ends that did not begin");
	r->yield = thread_copy(b, yield, n);
	r->nyield = n;
	r->end = b->place;
	b->region = r->outer;
	thread_leave(b, r->numbers);
	return r->owner;
}

/* A region's own registers: a node each, so that each has one defining node. */
static Reg
argument(ThreadBuilder *b, ThreadKind kind, int op, RegType type)
{
	ThreadNode *n = thread_loose(b, kind, op, type, NULL, 0);
	n->home = b->region;
	Reg r = thread_result(b, n, type);
	b->region->arg[b->region->narg++] = r;
	return r;
}

static void
room_for(ThreadBuilder *b, int n)
{
	b->region->arg = NEW_ARRAY(b->m->mem, Reg, n);
}

/* Each of its own type. */
static void
after_region(ThreadBuilder *b, ThreadNode *owner, const Reg *like, Reg *after, int n)
{
	Reg *out = NEW_ARRAY(b->m->mem, Reg, n);
	RegType *type = NEW_ARRAY(b->m->mem, RegType, n);
	for (int i = 0; i < n; i++)
		type[i] = thread_type_of(b, like[i]);
	thread_results(b, owner, n ? type[0] : REG_I32, out, n);
	for (int i = 0; i < n; i++) {
		b->m->reg.at[out[i] - 1].type = type[i];
		after[i] = out[i];
	}
}

static void
must_agree(int begun, int ended)
{
	if (begun != ended)
		die("a region ends with %d carried values, but began with %d", ended, begun);
}

/* ---- kernels and functions ---- */

void
thread_kernel(ThreadBuilder *b, const EmitKernel *k, Reg *param, Reg *shared)
{
	b->m->kernel = *k;
	room_for(b, k->nparam);
	for (int i = 0; i < k->nparam; i++) {
		param[i] = argument(b, NODE_PARAM, i, k->param[i].type);
		if (k->param[i].most > k->param[i].least)
			thread_def(b->m, param[i])->range = (ThreadRange){k->param[i].least, k->param[i].most, true};
	}
	ThreadNode *n = thread_loose(b, NODE_SHARED, 0, REG_SHARED, NULL, 0);
	n->home = b->region;
	*shared = b->m->shared = thread_result(b, n, REG_SHARED);
}

bool
thread_call(ThreadBuilder *b, const char *name, const Reg *in, int nin, const RegType *type, Reg *out, int nout)
{
	const ThreadFunc *f = NULL;
	for (int i = 0; i < b->m->functions.n && !f; i++)
		f = strcmp(b->m->functions.at[i]->name, name) == 0 ? b->m->functions.at[i] : NULL;
	if (!f && !target_has_function(b->m->target, name))
		return false;
	ThreadNode *n = thread_pure(b, &(ThreadNode){.kind = NODE_CALL, .type = type[0], .in = (Reg *)in, .nin = nin,
		.text = f ? f->name : name, .function = f, .range = thread_range_any(type[0])}, nout);
	for (int i = 0; i < nout; i++) {
		out[i] = n->out[i];
		b->m->reg.at[out[i] - 1].type = type[i];
	}
	return true;
}

static RegType *
types(ThreadBuilder *b, const RegType *t, int n)
{
	RegType *c = NEW_ARRAY(b->m->mem, RegType, n);
	for (int i = 0; i < n; i++)
		c[i] = t[i];
	return c;
}

void
thread_function(ThreadBuilder *b, const EmitFunction *of, Reg *inside)
{
	if (b->function)
		die("a function within a function");
	ThreadFunc *f = b->function = NEW(b->m->mem, ThreadFunc);
	*f = (ThreadFunc){.name = of->name, .nresult = of->nresult, .nparam = of->nparam,
		.result = types(b, of->result, of->nresult), .param = types(b, of->param, of->nparam)};
	b->outside = b->region;
	b->region = NULL;
	b->outer_numbers = b->value.number.n;
	f->body = open_region(b, NULL, 0);
	room_for(b, of->nparam);
	for (int i = 0; i < of->nparam; i++)
		inside[i] = argument(b, NODE_PARAM, i, of->param[i]);
}

void
thread_function_end(ThreadBuilder *b, const Reg *result, int n)
{
	ThreadFunc *f = b->function;
	must_agree(f->nresult, n);
	f->body->yield = thread_copy(b, result, n);
	f->body->nyield = n;
	f->body->end = b->place;
	vec_push(b->m->mem, &b->m->functions, f);
	b->function = NULL;
	b->region = b->outside;
	thread_leave(b, b->outer_numbers);
}

/* ---- loops ---- */

Reg
thread_loop(ThreadBuilder *b, Reg lo, Reg hi, Reg step, const Reg *init, Reg *inside, int n)
{
	RegType t = thread_type_of(b, lo);
	ThreadNode *loop = thread_node(b, NODE_LOOP, 0, t, NULL, 0);
	loop->in = NEW_ARRAY(b->m->mem, Reg, n + 3);
	loop->nin = n + 3;
	memcpy(loop->in, (Reg[]){lo, hi, step}, 3 * sizeof *loop->in);
	for (int i = 0; i < n; i++)
		loop->in[3 + i] = init[i];
	open_region(b, loop, 0);
	room_for(b, n + 1);
	Reg index = argument(b, NODE_INDEX, 0, t);
	ThreadRange from = thread_range(b->m, lo), to = thread_range(b->m, hi);
	int64_t by;
	if (thread_const(b->m, step, &by) && by > 0 && to.hi > INT64_MIN)
		thread_def(b->m, index)->range =
		    (ThreadRange){from.lo, MAX(to.hi - 1, from.lo), from.geometry && to.geometry};
	for (int i = 0; i < n; i++)
		inside[i] = argument(b, NODE_CARRIED, i, thread_type_of(b, loop->in[3 + i]));
	return index;
}

void
thread_loop_end(ThreadBuilder *b, const Reg *next, Reg *after, int n)
{
	ThreadNode *loop = close_region(b, NODE_LOOP, next, n);
	must_agree(loop->nin - 3, n);
	after_region(b, loop, loop->in + 3, after, n);
}

void
thread_while(ThreadBuilder *b, const Reg *init, Reg *inside, int n)
{
	ThreadNode *loop = thread_node(b, NODE_WHILE, 0, REG_PRED, init, n);
	open_region(b, loop, 0);
	room_for(b, n);
	for (int i = 0; i < n; i++)
		inside[i] = argument(b, NODE_CARRIED, i, thread_type_of(b, loop->in[i]));
}

void
thread_while_test(ThreadBuilder *b, Reg pred)
{
	thread_node(b, NODE_TEST, 0, REG_PRED, &pred, 1);
}

void
thread_while_end(ThreadBuilder *b, const Reg *next, Reg *after, int n)
{
	ThreadNode *loop = close_region(b, NODE_WHILE, next, n);
	must_agree(loop->nin, n);
	after_region(b, loop, loop->in, after, n);
}

/* ---- branches ---- */

void
thread_if(ThreadBuilder *b, Reg pred)
{
	open_region(b, thread_node(b, NODE_IF, 0, REG_PRED, &pred, 1), 0);
}

void
thread_else(ThreadBuilder *b, const Reg *then, int n)
{
	open_region(b, close_region(b, NODE_IF, then, n), 1);
}

void
thread_if_end(ThreadBuilder *b, const Reg *otherwise, Reg *after, int n)
{
	ThreadNode *branch = b->region->owner;
	if (!branch || branch->kind != NODE_IF)
		die("a branch ends that did not begin");
	if (!branch->region[1])
		thread_else(b, NULL, 0);
	must_agree(branch->region[0]->nyield, n);
	close_region(b, NODE_IF, otherwise, n);
	after_region(b, branch, branch->region[0]->yield, after, n);
}
