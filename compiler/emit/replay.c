/* The recorded thread IR as calls of an emitter. */
#include "emit/emit.h"

#include <string.h>

typedef struct Replay {
	const ThreadModule *m;
	Emitter *e;
	Reg *reg;                                       /* the emitter's, by ours */
	Place at;
	bool inside;                                    /* of a function, whose nodes stand at no line */
} Replay;

static Reg
use(Replay *p, Reg r)
{
	if (!r || p->reg[r])
		return p->reg[r];
	const ThreadNode *n = thread_def(p->m, r);
	if (n->kind != NODE_CONST)
		die("register %d has no value yet", r);
	return thread_is_float(n->type) ? p->e->float_const(p->e, n->type, n->f) : p->e->int_const(p->e, n->type, n->i);
}

static Reg *
uses(Replay *p, const Reg *r, int n)
{
	Reg *v = NEW_ARRAY(p->e->mem, Reg, n);
	for (int i = 0; i < n; i++)
		v[i] = use(p, r[i]);
	return v;
}

static void
set(Replay *p, const Reg *r, const Reg *v, int n)
{
	for (int i = 0; i < n; i++) {
		const char *hint = p->m->reg.at[r[i] - 1].hint;
		p->reg[r[i]] = v[i];
		if (hint)
			p->e->name(p->e, v[i], hint);
	}
}

static void
stand(Replay *p, Place at)
{
	if (p->inside || memcmp(&p->at, &at, sizeof at) == 0)
		return;
	if (p->at.file < 0)
		p->e->place(p->e, p->m->place);
	p->at = at;
	p->e->place(p->e, at);
}

static EmitAccess
access_of(Replay *p, const EmitAccess *at)
{
	EmitAccess a = *at;
	a.base = use(p, at->base);
	a.offset = use(p, at->offset);
	a.mask = use(p, at->mask);
	a.changes = use(p, at->changes);
	return a;
}

/* Of a node's results. */
static RegType *
types(Replay *p, const ThreadNode *n)
{
	RegType *type = NEW_ARRAY(p->e->mem, RegType, n->nout);
	for (int i = 0; i < n->nout; i++)
		type[i] = thread_type(p->m, n->out[i]);
	return type;
}

static void region(Replay *p, const ThreadRegion *r);

static void
loop(Replay *p, const ThreadNode *n, const Reg *in, Reg *out)
{
	Emitter *e = p->e;
	const ThreadRegion *r = n->region[0];
	Reg *inside = NEW_ARRAY(e->mem, Reg, r->narg);
	if (n->kind == NODE_LOOP)
		inside[0] = e->loop_begin(e, in[0], in[1], in[2], in + 3, inside + 1, n->nin - 3);
	else
		e->while_begin(e, in, inside, n->nin);
	set(p, r->arg, inside, r->narg);
	region(p, r);
	const Reg *next = uses(p, r->yield, r->nyield);
	(n->kind == NODE_LOOP ? e->loop_end : e->while_end)(e, next, out, n->nout);
}

static void
branch(Replay *p, const ThreadNode *n, const Reg *in, Reg *out)
{
	Emitter *e = p->e;
	e->if_begin(e, in[0]);
	region(p, n->region[0]);
	e->if_else(e, uses(p, n->region[0]->yield, n->nout), n->nout);
	region(p, n->region[1]);
	e->if_end(e, uses(p, n->region[1]->yield, n->nout), out, n->nout);
}

static void
node(Replay *p, const ThreadNode *n)
{
	Emitter *e = p->e;
	stand(p, n->place);
	const Reg *in = uses(p, n->in, n->nin);
	Reg *out = NEW_ARRAY(e->mem, Reg, n->nout);
	EmitAccess at = n->at ? access_of(p, n->at) : (EmitAccess){0};
	MmaWords w = n->kind == NODE_MMA ? mma_words(n->mma) : (MmaWords){0};
	Wgmma wg = n->kind == NODE_WGMMA ? thread_wgmma_of(n, in) : (Wgmma){0};
	switch (n->kind) {
	case NODE_OP:
		out[0] = e->op(e, (EmitOp)n->op, in[0], n->nin > 1 ? in[1] : 0, n->nin > 2 ? in[2] : 0);
		break;
	case NODE_CAST: out[0] = e->cast(e, (EmitCast)n->op, n->type, in[0]); break;
	case NODE_PACK: out[0] = e->pack(e, in, n->nin); break;
	case NODE_UNPACK: e->unpack(e, in[0], n->type, out, n->nout); break;
	case NODE_LOOKUP: out[0] = e->lookup(e, n->type, n->imm, n->nimm, in[0]); break;
	case NODE_POINTER: out[0] = e->pointer(e, in[0], in[1]); break;
	case NODE_CALL: e->call(e, n->text, in, n->nin, types(p, n), out, n->nout); break;
	case NODE_PRIM: e->prim(e, (PrimKind)n->op, in, n->nin, n->imm, n->nimm, out, n->nout); break;
	case NODE_LOAD: e->load(e, &at, out); break;
	case NODE_STORE: e->store(e, &at, in); break;
	case NODE_ATOMIC: out[0] = e->atomic(e, (AtomicKind)n->op, &at, in[0], n->nin > 1 ? in[1] : 0); break;
	case NODE_MMA: e->mma(e, n->mma, in, in + w.a, in + w.a + w.b, out); break;
	case NODE_WGMMA: e->wgmma(e, &wg, out); break;
	case NODE_SETTLE: e->settle(e, in, out, n->nin); break;
	case NODE_PTX: e->inline_ptx(e, n->text, in, n->nin, types(p, n), out, n->nout); break;
	case NODE_PRINT: e->print(e, n->text, in, n->nin); break;
	case NODE_TRACE: e->trace(e, n->op, in, n->nin); break;
	case NODE_TEST: e->while_test(e, in[0]); break;
	case NODE_LOOP: case NODE_WHILE: loop(p, n, in, out); break;
	case NODE_IF: branch(p, n, in, out); break;
	default: unreachable();
	}
	set(p, n->out, out, n->nout);
}

static void
region(Replay *p, const ThreadRegion *r)
{
	for (int i = 0; i < r->body.n; i++)
		node(p, r->body.at[i]);
	stand(p, r->end);
}

static void
function(Replay *p, const ThreadFunc *f)
{
	const EmitFunction of = {f->name, f->result, f->param, f->nresult, f->nparam};
	Reg *inside = NEW_ARRAY(p->e->mem, Reg, f->nparam);
	p->inside = true;
	p->e->function_begin(p->e, &of, inside);
	set(p, f->body->arg, inside, f->nparam);
	region(p, f->body);
	p->e->function_end(p->e, uses(p, f->body->yield, f->nresult), f->nresult);
	p->inside = false;
}

void
emit_replay(const ThreadModule *m, Emitter *e)
{
	Replay p = {.m = m, .e = e, .at = NOWHERE, .reg = NEW_ARRAY(e->mem, Reg, m->reg.n + 1)};
	Reg *param = NEW_ARRAY(e->mem, Reg, m->kernel.nparam), shared;
	e->kernel_begin(e, &m->kernel, param, &shared);
	set(&p, m->body->arg, param, m->kernel.nparam);
	set(&p, &m->shared, &shared, 1);
	for (int i = 0; i < m->functions.n; i++)
		function(&p, m->functions.at[i]);
	region(&p, m->body);
	e->kernel_end(e);
}
