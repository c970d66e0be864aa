/* Recording: each call becomes a node at the end of the region that is open.  Constants are made once, and so is, in a
 * builder that simplifies, each value that a node in an open region has (value numbering with scopes). */
#include "thread/builder.h"

#include <string.h>

ThreadBuilder *
thread_open(Arena *mem, const Target *t, bool simplifies)
{
	ThreadBuilder *b = NEW(mem, ThreadBuilder);
	b->simplifies = simplifies;
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

const ThreadNode *
thread_node_of(const ThreadBuilder *b, Reg r, int *at)
{
	const ThreadValue *v = &b->m->reg.at[r - 1];
	*at = v->at;
	return v->def;
}

bool
thread_is_available(const ThreadBuilder *b, Reg r)
{
	return FIND_NEXT(at, b->region, at->outer, at == thread_def(b->m, r)->home) != NULL;
}

/* ---- nodes ---- */

Reg *
thread_copy(ThreadBuilder *b, const Reg *r, int n)
{
	return n ? NEW_COPY(b->m->mem, r, n) : NULL;
}

void
thread_append(ThreadBuilder *b, ThreadNode *n)
{
	n->home = b->region;
	vec_push(b->m->mem, &b->region->body, n);
}

void
thread_results(ThreadBuilder *b, ThreadNode *n, int nout)
{
	n->out = NEW_ARRAY(b->m->mem, Reg, nout);
	n->nout = nout;
	for (int i = 0; i < nout; i++) {
		ThreadValue v = {.def = n, .at = i, .type = n->type};
		vec_push(b->m->mem, &b->m->reg, v);
		n->out[i] = b->m->reg.n;
	}
}

/* ---- values that are available ---- */

static uint64_t
hash_of(const ThreadNode *n)
{
	uint64_t h = hash_mix(hash_mix((uint64_t)n->kind, (uint64_t)n->op), (uint64_t)n->type), bits;
	memcpy(&bits, &n->f, sizeof bits);
	h = hash_mix(hash_mix(h, bits), (uint64_t)n->i);
	for (int i = 0; i < n->nin; i++)
		h = hash_mix(h, (uint64_t)n->in[i]);
	for (int i = 0; i < n->nimm; i++)
		h = hash_mix(h, (uint64_t)n->imm[i]);
	return h ^ h >> 32;
}

static bool
same_text(const char *a, const char *b)
{
	return a == b || (a && b && strcmp(a, b) == 0);
}

static bool
same(const ThreadNode *a, const ThreadNode *b)
{
	return a->kind == b->kind && a->op == b->op && a->type == b->type && a->i == b->i && a->nin == b->nin &&
	    a->nimm == b->nimm && memcmp(&a->f, &b->f, sizeof a->f) == 0 && same_text(a->text, b->text) &&
	    (a->nin == 0 || memcmp(a->in, b->in, sizeof *a->in * (size_t)a->nin) == 0) &&
	    (a->nimm == 0 || memcmp(a->imm, b->imm, sizeof *a->imm * (size_t)a->nimm) == 0);
}

/* Behind the first `least` that were entered. */
static ThreadNode *
available(const HashTable *t, uint64_t hash, const ThreadNode *like, int least)
{
	const HashEntry *is = TABLE_FIND(e, t, hash, same(e->of, like));
	return is && is - t->all.at >= least ? is->of : NULL;
}

ThreadNode *
thread_node(ThreadBuilder *b, const ThreadNode *like, int nout)
{
	ThreadNode *n = NEW(b->m->mem, ThreadNode);
	*n = *like;
	n->id = b->m->nnode++;
	n->in = thread_copy(b, like->in, like->nin);
	n->imm = like->nimm ? NEW_COPY(b->m->mem, like->imm, like->nimm) : NULL;
	if (like->at)
		n->at = NEW_COPY(b->m->mem, like->at, 1);
	n->place = b->place;
	b->m->kinds |= 1u << n->kind;
	if (n->kind != NODE_CONST)
		n->range = thread_range_node(b->m, n);
	thread_results(b, n, nout);
	return n;
}

void
thread_record(ThreadBuilder *b, ThreadNode *like, int nout, Reg *out)
{
	like->nout = nout;
	if (b->simplifies && thread_simplified(b, like, out))
		return;
	bool looks = b->simplifies && thread_is_pure(like);
	uint64_t h = looks ? hash_of(like) : 0;
	ThreadNode *n = looks ? available(&b->value, h, like, b->function ? b->outer_numbers : 0) : NULL;
	if (!n) {
		n = thread_node(b, like, nout);
		if (looks)
			table_add(b->m->mem, &b->value, h, n, 0);
		thread_append(b, n);
	}
	for (int i = 0; i < nout; i++)
		out[i] = n->out[i];
}

ThreadNode *
thread_number(ThreadBuilder *b, ThreadNode *n)
{
	uint64_t h = hash_of(n);
	ThreadNode *same = available(&b->value, h, n, 0);
	if (same)
		return same;
	table_add(b->m->mem, &b->value, h, n, 0);
	thread_append(b, n);
	return n;
}

ThreadBuilder *
thread_reopen(ThreadModule *m)
{
	ThreadBuilder *b = NEW(m->mem, ThreadBuilder);
	*b = (ThreadBuilder){.m = m, .simplifies = true, .place = NOWHERE};
	for (int i = 0; i < m->reg.n; i++)
		if (m->reg.at[i].def->kind == NODE_CONST)
			table_add(m->mem, &b->constant, hash_of(m->reg.at[i].def), m->reg.at[i].def, 0);
	return b;
}

/* ---- values ---- */

static Reg
constant(ThreadBuilder *b, const ThreadNode *like)
{
	uint64_t h = hash_of(like);
	ThreadNode *n = available(&b->constant, h, like, 0);
	if (!n) {
		n = thread_node(b, like, 1);
		table_add(b->m->mem, &b->constant, h, n, 0);
	}
	return n->out[0];
}

Reg
thread_int_const(ThreadBuilder *b, RegType t, int64_t v)
{
	int bits = 8 * thread_type_bytes(t);
	v = t == REG_PRED ? v & 1 : bits < 64 ? (int64_t)((uint64_t)v << (64 - bits)) >> (64 - bits) : v;
	return constant(b, &(ThreadNode){.kind = NODE_CONST, .type = t, .i = v, .range = thread_range_number(v)});
}

Reg
thread_float_const(ThreadBuilder *b, RegType t, double v)
{
	return constant(b, &(ThreadNode){.kind = NODE_CONST, .type = t, .f = v});
}

static Reg
one(ThreadBuilder *b, ThreadNode like)
{
	Reg r;
	thread_record(b, &like, 1, &r);
	return r;
}

Reg
thread_op(ThreadBuilder *b, ThreadOp op, Reg x, Reg y, Reg z)
{
	RegType type = thread_is_comparison(op) ? REG_PRED : thread_type_of(b, op == THREAD_SELECT ? y : x);
	return one(b, (ThreadNode){.kind = NODE_OP, .op = (int)op, .type = type, .in = (Reg[]){x, y, z},
		.nin = thread_op_operands[op]});
}

Reg
thread_cast(ThreadBuilder *b, ThreadCast c, RegType to, Reg a)
{
	return one(b, (ThreadNode){.kind = NODE_CAST, .op = (int)c, .type = to, .in = &a, .nin = 1});
}

Reg
thread_pack(ThreadBuilder *b, const Reg *v, int n)
{
	return one(b, (ThreadNode){.kind = NODE_PACK, .op = n, .type = REG_I32, .in = (Reg *)v, .nin = n});
}

void
thread_unpack(ThreadBuilder *b, Reg word, RegType t, Reg *out, int n)
{
	thread_record(b, &(ThreadNode){.kind = NODE_UNPACK, .op = n, .type = t, .in = &word, .nin = 1}, n, out);
}

Reg
thread_lookup(ThreadBuilder *b, RegType t, const int64_t *bits, int n, Reg index)
{
	return one(b, (ThreadNode){.kind = NODE_LOOKUP, .type = t, .in = &index, .nin = 1, .imm = bits, .nimm = n});
}

/* ---- memory ---- */

void
thread_load(ThreadBuilder *b, const ThreadAccess *at, Reg *out)
{
	ThreadAccess own = *at;
	thread_record(b, &(ThreadNode){.kind = NODE_LOAD, .type = at->type, .at = &own}, at->n, out);
}

void
thread_store(ThreadBuilder *b, const ThreadAccess *at, const Reg *v)
{
	ThreadAccess own = *at;
	thread_record(b, &(ThreadNode){.kind = NODE_STORE, .type = at->type, .at = &own, .in = (Reg *)v, .nin = at->n}, 0,
	    NULL);
}

Reg
thread_atomic(ThreadBuilder *b, AtomicKind k, const ThreadAccess *at, Reg v, Reg compare)
{
	ThreadAccess own = *at;
	return one(b, (ThreadNode){.kind = NODE_ATOMIC, .op = (int)k, .type = thread_atomic_type(at), .at = &own,
		.in = (Reg[]){v, compare}, .nin = compare ? 2 : 1});
}

Reg
thread_pointer_by(ThreadBuilder *b, Reg base, Reg offset, int unit)
{
	return one(b, (ThreadNode){.kind = NODE_POINTER, .type = thread_type_of(b, base), .in = (Reg[]){base, offset},
		.nin = 2, .i = unit});
}

Reg
thread_pointer(ThreadBuilder *b, Reg base, Reg offset)
{
	return thread_pointer_by(b, base, offset, 0);
}

/* ---- warps and blocks ---- */

void
thread_prim(ThreadBuilder *b, PrimKind k, const Reg *in, int nin, const int64_t *imm, int nimm, Reg *out, int nout)
{
	const PrimInfo *info = &prim_info[k];
	if (nin != info->nin || nout != info->nout)
		die("%s takes %d and gives %d, not %d and %d", info->text, info->nin, info->nout, nin, nout);
	thread_record(b, &(ThreadNode){.kind = NODE_PRIM, .op = (int)k, .type = prim_result(k), .in = (Reg *)in, .nin = nin,
		.imm = imm, .nimm = nimm}, nout, out);
}

void
thread_ptx(ThreadBuilder *b, const char *text, const Reg *in, int nin, const RegType *type, Reg *out, int nout)
{
	thread_record(b, &(ThreadNode){.kind = NODE_PTX, .type = nout ? type[0] : REG_I32, .in = (Reg *)in, .nin = nin,
		.text = text}, nout, out);
	for (int i = 0; i < nout; i++)
		b->m->reg.at[out[i] - 1].type = type[i];
}

void
thread_print(ThreadBuilder *b, const char *format, const Reg *v, int n)
{
	thread_record(b, &(ThreadNode){.kind = NODE_PRINT, .type = REG_I32, .in = (Reg *)v, .nin = n, .text = format}, 0,
	    NULL);
}

void
thread_trace(ThreadBuilder *b, int number, const Reg *v, int n)
{
	thread_record(b, &(ThreadNode){.kind = NODE_TRACE, .op = number, .type = REG_I32, .in = (Reg *)v, .nin = n}, 0,
	    NULL);
}
