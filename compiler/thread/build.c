/* Recording: each call becomes a node at the end of the region that is open.  Constants are made once. */
#include "thread/builder.h"

#include <string.h>

ThreadBuilder *
thread_open(Arena *mem, const Target *t)
{
	ThreadBuilder *b = NEW(mem, ThreadBuilder);
	b->m = NEW(mem, ThreadModule);
	b->m->mem = mem;
	b->m->target = t;
	b->place = b->m->place = NOWHERE;
	b->region = b->m->body = NEW(mem, ThreadRegion);
	return b;
}

ThreadModule *
thread_module(ThreadBuilder *b)
{
	if (b->region != b->m->body || b->function)
		die("the kernel ends inside a region");
	b->m->body->end = b->place;
	return b->m;
}

void
thread_place(ThreadBuilder *b, Place at)
{
	b->place = at;
	if (b->m->place.file < 0)
		b->m->place = at;
}

void
thread_name(ThreadBuilder *b, Reg r, const char *name)
{
	ThreadValue *v = &b->m->reg.at[r - 1];
	if (!v->hint)
		v->hint = name;
}

RegType
thread_type_of(const ThreadBuilder *b, Reg r)
{
	return thread_type(b->m, r);
}

/* ---- nodes ---- */

Reg *
thread_copy(ThreadBuilder *b, const Reg *r, int n)
{
	if (n == 0)
		return NULL;
	Reg *c = NEW_ARRAY(b->m->mem, Reg, n);
	memcpy(c, r, sizeof *c * (size_t)n);
	return c;
}

ThreadNode *
thread_loose(ThreadBuilder *b, ThreadKind kind, int op, RegType type, const Reg *in, int nin)
{
	ThreadNode *n = NEW(b->m->mem, ThreadNode);
	n->kind = kind;
	n->op = op;
	n->id = b->m->nnode++;
	n->type = type;
	n->nin = nin;
	n->in = thread_copy(b, in, nin);
	n->place = b->place;
	b->m->kinds |= 1u << kind;
	return n;
}

void
thread_append(ThreadBuilder *b, ThreadNode *n)
{
	n->home = b->region;
	vec_push(b->m->mem, &b->region->body, n);
}

ThreadNode *
thread_node(ThreadBuilder *b, ThreadKind kind, int op, RegType type, const Reg *in, int nin)
{
	ThreadNode *n = thread_loose(b, kind, op, type, in, nin);
	thread_append(b, n);
	return n;
}

void
thread_results(ThreadBuilder *b, ThreadNode *n, RegType type, Reg *out, int nout)
{
	n->out = NEW_ARRAY(b->m->mem, Reg, nout);
	n->nout = nout;
	for (int i = 0; i < nout; i++) {
		ThreadValue v = {.def = n, .at = i, .type = type};
		vec_push(b->m->mem, &b->m->reg, v);
		out[i] = n->out[i] = b->m->reg.n;
	}
}

Reg
thread_result(ThreadBuilder *b, ThreadNode *n, RegType type)
{
	Reg r;
	thread_results(b, n, type, &r, 1);
	return r;
}

static Reg
one(ThreadBuilder *b, ThreadKind kind, int op, RegType type, const Reg *in, int nin)
{
	return thread_result(b, thread_node(b, kind, op, type, in, nin), type);
}

/* ---- values in sight ---- */

static uint64_t
mix(uint64_t h, uint64_t v)
{
	return (h ^ v) * UINT64_C(0x9e3779b97f4a7c15) ^ h >> 29;
}

static uint64_t
hash_of(const ThreadNode *n)
{
	uint64_t h = mix(mix((uint64_t)n->kind, (uint64_t)n->op), (uint64_t)n->type), bits;
	memcpy(&bits, &n->f, sizeof bits);
	h = mix(mix(h, bits), (uint64_t)n->i);
	for (int i = 0; i < n->nin; i++)
		h = mix(h, (uint64_t)n->in[i]);
	return h ^ h >> 32;
}

static bool
same(const ThreadNode *a, const ThreadNode *b)
{
	return a->kind == b->kind && a->op == b->op && a->type == b->type && a->i == b->i && a->nin == b->nin &&
	    memcmp(&a->f, &b->f, sizeof a->f) == 0 &&
	    (a->nin == 0 || memcmp(a->in, b->in, sizeof *a->in * (size_t)a->nin) == 0);
}

/* A constant: the one that is there, or a new one. */
static Reg
constant(ThreadBuilder *b, const ThreadNode *like)
{
	uint64_t h = hash_of(like);
	int *bucket = &b->bucket[h % THREAD_BUCKETS];
	for (int i = *bucket; i; i = b->number.at[i - 1].before) {
		const ThreadNumber *s = &b->number.at[i - 1];
		if (s->hash == h && same(s->node, like))
			return s->node->out[0];
	}
	ThreadNode *n = thread_loose(b, NODE_CONST, 0, like->type, NULL, 0);
	n->i = like->i;
	n->f = like->f;
	ThreadNumber s = {h, n, *bucket};
	vec_push(b->m->mem, &b->number, s);
	*bucket = b->number.n;
	return thread_result(b, n, n->type);
}

/* ---- values ---- */

Reg
thread_int_const(ThreadBuilder *b, RegType t, int64_t v)
{
	int bits = 8 * thread_type_bytes(t);
	v = t == REG_PRED ? v & 1 : bits < 64 ? (int64_t)((uint64_t)v << (64 - bits)) >> (64 - bits) : v;
	return constant(b, &(ThreadNode){.kind = NODE_CONST, .type = t, .i = v});
}

Reg
thread_float_const(ThreadBuilder *b, RegType t, double v)
{
	return constant(b, &(ThreadNode){.kind = NODE_CONST, .type = t, .f = v});
}

Reg
thread_op(ThreadBuilder *b, EmitOp op, Reg x, Reg y, Reg z)
{
	const Reg in[3] = {x, y, z};
	RegType type = thread_is_comparison(op) ? REG_PRED : thread_type_of(b, op == EMIT_SELECT ? y : x);
	return one(b, NODE_OP, (int)op, type, in, emit_op_operands[op]);
}

Reg
thread_cast(ThreadBuilder *b, EmitCast c, RegType to, Reg a)
{
	return one(b, NODE_CAST, (int)c, to, &a, 1);
}

Reg
thread_pack(ThreadBuilder *b, const Reg *v, int n)
{
	return one(b, NODE_PACK, n, REG_I32, v, n);
}

void
thread_unpack(ThreadBuilder *b, Reg word, RegType t, Reg *out, int n)
{
	thread_results(b, thread_node(b, NODE_UNPACK, n, t, &word, 1), t, out, n);
}

static int64_t *
numbers(ThreadBuilder *b, const int64_t *v, int n)
{
	if (n == 0)
		return NULL;
	int64_t *c = NEW_ARRAY(b->m->mem, int64_t, n);
	memcpy(c, v, sizeof *c * (size_t)n);
	return c;
}

Reg
thread_lookup(ThreadBuilder *b, RegType t, const int64_t *bits, int n, Reg index)
{
	ThreadNode *l = thread_node(b, NODE_LOOKUP, 0, t, &index, 1);
	l->imm = numbers(b, bits, n);
	l->nimm = n;
	return thread_result(b, l, t);
}

/* ---- memory ---- */

static ThreadNode *
access_node(ThreadBuilder *b, ThreadKind kind, int op, RegType t, const EmitAccess *at, const Reg *in, int nin)
{
	ThreadNode *n = thread_node(b, kind, op, t, in, nin);
	n->at = NEW(b->m->mem, EmitAccess);
	*n->at = *at;
	return n;
}

void
thread_load(ThreadBuilder *b, const EmitAccess *at, Reg *out)
{
	thread_results(b, access_node(b, NODE_LOAD, 0, at->type, at, NULL, 0), at->type, out, at->n);
}

void
thread_store(ThreadBuilder *b, const EmitAccess *at, const Reg *v)
{
	access_node(b, NODE_STORE, 0, at->type, at, v, at->n);
}

Reg
thread_atomic(ThreadBuilder *b, AtomicKind k, const EmitAccess *at, Reg v, Reg compare)
{
	RegType t = at->n == 2 ? REG_I32 : at->type;
	const Reg in[2] = {v, compare};
	return thread_result(b, access_node(b, NODE_ATOMIC, (int)k, t, at, in, compare ? 2 : 1), t);
}

Reg
thread_pointer(ThreadBuilder *b, Reg base, Reg offset)
{
	const Reg in[2] = {base, offset};
	return one(b, NODE_POINTER, 0, thread_type_of(b, base), in, 2);
}

/* ---- warps and blocks ---- */

void
thread_prim(ThreadBuilder *b, PrimKind k, const Reg *in, int nin, const int64_t *imm, int nimm, Reg *out, int nout)
{
	const PrimInfo *info = &prim_info[k];
	if (nin != info->nin || nout != info->nout)
		die("%s takes %d and gives %d, not %d and %d", info->text, info->nin, info->nout, nin, nout);
	ThreadNode *n = thread_node(b, NODE_PRIM, (int)k, prim_result(k), in, nin);
	n->imm = numbers(b, imm, nimm);
	n->nimm = nimm;
	thread_results(b, n, n->type, out, nout);
}

void
thread_ptx(ThreadBuilder *b, const char *text, const Reg *in, int nin, const RegType *type, Reg *out, int nout)
{
	ThreadNode *n = thread_node(b, NODE_PTX, 0, nout ? type[0] : REG_I32, in, nin);
	n->text = text;
	thread_results(b, n, n->type, out, nout);
	for (int i = 0; i < nout; i++)
		b->m->reg.at[out[i] - 1].type = type[i];
}

void
thread_print(ThreadBuilder *b, const char *format, const Reg *v, int n)
{
	thread_node(b, NODE_PRINT, 0, REG_I32, v, n)->text = format;
}

void
thread_trace(ThreadBuilder *b, int number, const Reg *v, int n)
{
	thread_node(b, NODE_TRACE, number, REG_I32, v, n);
}

void
thread_mma(ThreadBuilder *b, const MmaInfo *i, const Reg *x, const Reg *y, const Reg *c, Reg *out)
{
	MmaWords w = mma_words(i);
	RegType t = i->acc == TY_F32 ? REG_F32 : REG_I32;
	Reg *in = NEW_ARRAY(b->m->mem, Reg, w.a + w.b + w.c);
	memcpy(in, x, sizeof *in * (size_t)w.a);
	memcpy(in + w.a, y, sizeof *in * (size_t)w.b);
	memcpy(in + w.a + w.b, c, sizeof *in * (size_t)w.c);
	ThreadNode *n = thread_node(b, NODE_MMA, 0, t, NULL, 0);
	n->in = in;
	n->nin = w.a + w.b + w.c;
	n->mma = i;
	thread_results(b, n, t, out, w.c);
}

void
thread_wgmma(ThreadBuilder *b, const WgmmaInfo *i, Reg x, Reg y, unsigned turned, const Reg *c, Reg *out)
{
	int count = i->n / 2;
	RegType t = i->acc == TY_F32 ? REG_F32 : REG_I32;
	Reg *in = NEW_ARRAY(b->m->mem, Reg, count + 2);
	in[0] = x;
	in[1] = y;
	memcpy(in + 2, c, sizeof *in * (size_t)count);
	ThreadNode *n = thread_node(b, NODE_WGMMA, (int)turned, t, NULL, 0);
	n->in = in;
	n->nin = count + 2;
	n->wgmma = i;
	thread_results(b, n, t, out, count);
}

void
thread_settle(ThreadBuilder *b, const Reg *v, Reg *out, int n)
{
	RegType t = thread_type_of(b, v[0]);
	thread_results(b, thread_node(b, NODE_SETTLE, 0, t, v, n), t, out, n);
}
