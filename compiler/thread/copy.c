/* A module built anew by a builder that simplifies: what text held is folded and numbered as what lowering records is. */
#include "thread/thread.h"

#include <string.h>

typedef struct Copy {
	const ThreadModule *m;
	ThreadBuilder *b;
	Arena *mem;
	Reg *reg;                                       /* new ones, by the old */
} Copy;

static Reg
use(Copy *c, Reg r)
{
	const ThreadNode *n = r ? thread_def(c->m, r) : NULL;
	if (n && n->kind == NODE_CONST && !c->reg[r])
		c->reg[r] = thread_is_float(n->type) ? thread_float_const(c->b, n->type, n->f)
		                                     : thread_int_const(c->b, n->type, n->i);
	return c->reg[r];
}

static Reg *
uses(Copy *c, const Reg *r, int n)
{
	Reg *v = NEW_ARRAY(c->mem, Reg, n);
	for (int i = 0; i < n; i++)
		v[i] = use(c, r[i]);
	return v;
}

static void
set(Copy *c, const Reg *r, const Reg *v, int n)
{
	for (int i = 0; i < n; i++) {
		const char *hint = c->m->reg.at[r[i] - 1].hint;
		c->reg[r[i]] = v[i];
		if (hint)
			thread_name(c->b, v[i], hint);
	}
}

static EmitAccess
access_of(Copy *c, const EmitAccess *at)
{
	EmitAccess a = *at;
	a.base = use(c, at->base);
	a.offset = use(c, at->offset);
	a.mask = use(c, at->mask);
	a.changes = use(c, at->changes);
	return a;
}

static void region(Copy *c, const ThreadRegion *r);

static void
control(Copy *c, const ThreadNode *n, const Reg *in, Reg *out)
{
	const ThreadRegion *r = n->region[0], *other = n->region[1];
	Reg *inside = NEW_ARRAY(c->mem, Reg, r->narg);
	if (n->kind == NODE_LOOP)
		inside[0] = thread_loop(c->b, in[0], in[1], in[2], in + 3, inside + 1, n->nin - 3);
	else if (n->kind == NODE_WHILE)
		thread_while(c->b, in, inside, n->nin);
	else
		thread_if(c->b, in[0]);
	set(c, r->arg, inside, r->narg);
	region(c, r);
	const Reg *yield = uses(c, r->yield, r->nyield);
	if (n->kind == NODE_LOOP) {
		thread_loop_end(c->b, yield, out, n->nout);
	} else if (n->kind == NODE_WHILE) {
		thread_while_end(c->b, yield, out, n->nout);
	} else {
		thread_else(c->b, yield, n->nout);
		region(c, other);
		thread_if_end(c->b, uses(c, other->yield, n->nout), out, n->nout);
	}
}

static void
node(Copy *c, const ThreadNode *n)
{
	ThreadBuilder *b = c->b;
	const Reg *in = uses(c, n->in, n->nin);
	Reg *out = NEW_ARRAY(c->mem, Reg, n->nout);
	EmitAccess at = n->at ? access_of(c, n->at) : (EmitAccess){0};
	RegType *type = NEW_ARRAY(c->mem, RegType, n->nout);
	for (int i = 0; i < n->nout; i++)
		type[i] = thread_type(c->m, n->out[i]);
	MmaWords w = n->kind == NODE_MMA ? mma_words(n->mma) : (MmaWords){0};
	Wgmma wg = n->kind == NODE_WGMMA ? thread_wgmma_of(n, in) : (Wgmma){0};
	thread_place(b, n->place);
	switch (n->kind) {
	case NODE_OP: out[0] = thread_op(b, (EmitOp)n->op, in[0], n->nin > 1 ? in[1] : 0, n->nin > 2 ? in[2] : 0); break;
	case NODE_CAST: out[0] = thread_cast(b, (EmitCast)n->op, n->type, in[0]); break;
	case NODE_PACK: out[0] = thread_pack(b, in, n->nin); break;
	case NODE_UNPACK: thread_unpack(b, in[0], n->type, out, n->nout); break;
	case NODE_LOOKUP: out[0] = thread_lookup(b, n->type, n->imm, n->nimm, in[0]); break;
	case NODE_POINTER: out[0] = thread_pointer(b, in[0], in[1]); break;
	case NODE_CALL: thread_call(b, n->text, in, n->nin, type, out, n->nout); break;
	case NODE_PRIM: thread_prim(b, (PrimKind)n->op, in, n->nin, n->imm, n->nimm, out, n->nout); break;
	case NODE_LOAD: thread_load(b, &at, out); break;
	case NODE_STORE: thread_store(b, &at, in); break;
	case NODE_ATOMIC: out[0] = thread_atomic(b, (AtomicKind)n->op, &at, in[0], n->nin > 1 ? in[1] : 0); break;
	case NODE_MMA: thread_mma(b, n->mma, in, in + w.a, in + w.a + w.b, out); break;
	case NODE_WGMMA: thread_wgmma(b, &wg, out); break;
	case NODE_SETTLE: thread_settle(b, in, out, n->nin); break;
	case NODE_PTX: thread_ptx(b, n->text, in, n->nin, type, out, n->nout); break;
	case NODE_PRINT: thread_print(b, n->text, in, n->nin); break;
	case NODE_TRACE: thread_trace(b, n->op, in, n->nin); break;
	case NODE_TEST: thread_while_test(b, in[0]); break;
	case NODE_LOOP: case NODE_WHILE: case NODE_IF: control(c, n, in, out); break;
	default: unreachable();
	}
	set(c, n->out, out, n->nout);
}

static void
region(Copy *c, const ThreadRegion *r)
{
	for (int i = 0; i < r->body.n; i++)
		node(c, r->body.at[i]);
	thread_place(c->b, r->end);
}

static void
function(Copy *c, const ThreadFunc *f)
{
	Reg *inside = NEW_ARRAY(c->mem, Reg, f->nparam);
	thread_function(c->b, &(EmitFunction){f->name, f->result, f->param, f->nresult, f->nparam}, inside);
	set(c, f->body->arg, inside, f->nparam);
	region(c, f->body);
	thread_function_end(c->b, uses(c, f->body->yield, f->nresult), f->nresult);
}

ThreadModule *
thread_module_simplify(const ThreadModule *m, Arena *mem)
{
	Copy c = {.m = m, .b = thread_open(mem, m->target, true), .mem = mem, .reg = NEW_ARRAY(mem, Reg, m->reg.n + 1)};
	Reg *param = NEW_ARRAY(mem, Reg, m->kernel.nparam), shared;
	thread_kernel(c.b, &m->kernel, param, &shared);
	set(&c, m->body->arg, param, m->kernel.nparam);
	set(&c, &m->shared, &shared, 1);
	for (int i = 0; i < m->functions.n; i++)
		function(&c, m->functions.at[i]);
	thread_place(c.b, m->place);
	region(&c, m->body);
	ThreadModule *out = thread_module(c.b);
	thread_sweep(out);
	return out;
}
