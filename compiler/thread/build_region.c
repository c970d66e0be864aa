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
	r->numbers = b->value.all.n;
	b->region = r;
	if (owner)
		owner->region[which] = r;
	return r;
}

/* Appends a node and opens its first region. */
static ThreadNode *
open_node(ThreadBuilder *b, const ThreadNode *like)
{
	ThreadNode *n = thread_node(b, like, 0);
	thread_append(b, n);
	open_region(b, n, 0);
	return n;
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
	table_leave(&b->value, r->numbers);
	return r->owner;
}

/* A region's own registers: a node each, so that each has one defining node. */
static Reg
argument(ThreadBuilder *b, ThreadKind kind, int op, RegType type)
{
	ThreadNode *n = thread_node(b, &(ThreadNode){.kind = kind, .op = op, .type = type, .home = b->region}, 1);
	return b->region->arg[b->region->narg++] = n->out[0];
}

static void
room_for(ThreadBuilder *b, int n)
{
	b->region->arg = NEW_ARRAY(b->m->mem, Reg, n);
}

/* The owner's results, each of its own type. */
static void
after_region(ThreadBuilder *b, ThreadNode *owner, const Reg *like, Reg *after, int n)
{
	RegType *type = MAP_OF(b->m->mem, RegType, i, n, thread_type_of(b, like[i]));
	thread_results(b, owner, n);
	for (int i = 0; i < n; i++) {
		b->m->reg.at[owner->out[i] - 1].type = type[i];
		after[i] = owner->out[i];
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
thread_kernel(ThreadBuilder *b, const ThreadKernel *k, Reg *param, Reg *shared)
{
	b->m->kernel = *k;
	room_for(b, k->nparam);
	for (int i = 0; i < k->nparam; i++) {
		param[i] = argument(b, NODE_PARAM, i, k->param[i].type);
		if (k->param[i].most > k->param[i].least)
			thread_def(b->m, param[i])->range = (ThreadRange){k->param[i].least, k->param[i].most, true};
	}
	ThreadNode *n = thread_node(b, &(ThreadNode){.kind = NODE_SHARED, .type = REG_SHARED, .home = b->region}, 1);
	*shared = b->m->shared = n->out[0];
}

bool
thread_call(ThreadBuilder *b, const char *name, const Reg *in, int nin, const RegType *type, Reg *out, int nout)
{
	const ThreadFunc *f = NULL;
	for (int i = 0; i < b->m->functions.n && !f; i++)
		f = strcmp(b->m->functions.at[i]->name, name) == 0 ? b->m->functions.at[i] : NULL;
	if (!f && !target_has_function(b->m->target, name))
		return false;
	thread_record(b, &(ThreadNode){.kind = NODE_CALL, .type = type[0], .in = (Reg *)in, .nin = nin,
		.text = f ? f->name : name, .function = f}, nout, out);
	for (int i = 0; i < nout; i++)
		b->m->reg.at[out[i] - 1].type = type[i];
	return true;
}

static RegType *
types(ThreadBuilder *b, const RegType *t, int n)
{
	RegType *c = MAP_OF(b->m->mem, RegType, i, n, t[i]);
	return c;
}

void
thread_function(ThreadBuilder *b, const ThreadSignature *of, Reg *inside)
{
	if (b->function)
		die("a function within a function");
	ThreadFunc *f = b->function = NEW(b->m->mem, ThreadFunc);
	*f = (ThreadFunc){.name = of->name, .nresult = of->nresult, .nparam = of->nparam,
		.result = types(b, of->result, of->nresult), .param = types(b, of->param, of->nparam)};
	b->outside = b->region;
	b->region = NULL;
	b->outer_numbers = b->value.all.n;
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
	table_leave(&b->value, b->outer_numbers);
}

/* ---- loops ---- */

void
thread_loop_range(ThreadModule *m, ThreadNode *loop)
{
	ThreadRange from = thread_range(m, loop->in[0]), to = thread_range(m, loop->in[1]);
	int64_t by;
	if (thread_const(m, loop->in[2], &by) && by > 0 && to.hi > INT64_MIN)
		thread_def(m, loop->region[0]->arg[0])->range =
		    (ThreadRange){from.lo, MAX(to.hi - 1, from.lo), from.geometry && to.geometry};
}

Reg
thread_loop(ThreadBuilder *b, Reg lo, Reg hi, Reg step, const Reg *init, Reg *inside, int n)
{
	RegType t = thread_type_of(b, lo);
	Reg *in = NEW_ARRAY(b->m->mem, Reg, n + 3);
	memcpy(in, (Reg[]){lo, hi, step}, 3 * sizeof *in);
	for (int i = 0; i < n; i++)
		in[3 + i] = init[i];
	ThreadNode *loop = open_node(b, &(ThreadNode){.kind = NODE_LOOP, .type = t, .in = in, .nin = n + 3});
	room_for(b, n + 1);
	Reg index = argument(b, NODE_INDEX, 0, t);
	thread_loop_range(b->m, loop);
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
	ThreadNode *loop = open_node(b, &(ThreadNode){.kind = NODE_WHILE, .type = REG_PRED, .in = (Reg *)init, .nin = n});
	room_for(b, n);
	for (int i = 0; i < n; i++)
		inside[i] = argument(b, NODE_CARRIED, i, thread_type_of(b, loop->in[i]));
}

void
thread_while_test(ThreadBuilder *b, Reg pred)
{
	thread_record(b, &(ThreadNode){.kind = NODE_TEST, .type = REG_PRED, .in = &pred, .nin = 1}, 0, NULL);
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
	open_node(b, &(ThreadNode){.kind = NODE_IF, .type = REG_PRED, .in = &pred, .nin = 1});
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
