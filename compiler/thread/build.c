/* Recording: each call becomes a node at the end of the region that is open.  Constants are made once, and so is, in a
 * builder that simplifies, each value that a node in an open region has (value numbering with scopes). */
#include "thread/builder.h"

#include <string.h>

static ThreadTable
table(Arena *mem, int n)
{
	return (ThreadTable){.bucket = NEW_ARRAY(mem, int, n), .nbucket = n};
}

ThreadBuilder *
thread_open(Arena *mem, const Target *t, bool simplifies)
{
	ThreadBuilder *b = NEW(mem, ThreadBuilder);
	b->simplifies = simplifies;
	b->constant = table(mem, THREAD_CONSTANTS);
	b->value = table(mem, THREAD_BUCKETS);
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

bool
thread_is_available(const ThreadBuilder *b, Reg r)
{
	const ThreadRegion *region = b->region;
	while (region && region != thread_def(b->m, r)->home)
		region = region->outer;
	return region != NULL;
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
	n->range = thread_range_any(type);
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

/* ---- values that are available ---- */

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
	for (int i = 0; i < n->nimm; i++)
		h = mix(h, (uint64_t)n->imm[i]);
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

static ThreadNode *
available(const ThreadTable *t, uint64_t hash, const ThreadNode *like, int first)
{
	for (int i = t->bucket[hash % (uint64_t)t->nbucket]; i > first; i = t->number.at[i - 1].before) {
		const ThreadNumber *s = &t->number.at[i - 1];
		if (s->hash == hash && same(s->node, like))
			return s->node;
	}
	return NULL;
}

static void
note(ThreadBuilder *b, ThreadTable *t, uint64_t hash, ThreadNode *n)
{
	int *bucket = &t->bucket[hash % (uint64_t)t->nbucket];
	ThreadNumber s = {hash, n, *bucket};
	vec_push(b->m->mem, &t->number, s);
	*bucket = t->number.n;
}

void
thread_leave(ThreadBuilder *b, int to)
{
	ThreadTable *t = &b->value;
	while (t->number.n > to) {
		ThreadNumber s = vec_pop(&t->number);
		t->bucket[s.hash % (uint64_t)t->nbucket] = s.before;
	}
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

ThreadNode *
thread_pure(ThreadBuilder *b, const ThreadNode *like, int nout)
{
	bool is_constant = like->kind == NODE_CONST, looks = is_constant || b->simplifies;
	ThreadTable *t = is_constant ? &b->constant : &b->value;
	uint64_t h = looks ? hash_of(like) : 0;
	ThreadNode *n = looks ? available(t, h, like, is_constant || !b->function ? 0 : b->outer_numbers) : NULL;
	if (n)
		return n;
	n = NEW(b->m->mem, ThreadNode);
	*n = *like;
	n->id = b->m->nnode++;
	n->in = thread_copy(b, like->in, like->nin);
	n->imm = numbers(b, like->imm, like->nimm);
	n->place = b->place;
	b->m->kinds |= 1u << n->kind;
	if (looks)
		note(b, t, h, n);
	if (!is_constant)
		thread_append(b, n);
	Reg *out = NEW_ARRAY(b->m->mem, Reg, nout);
	thread_results(b, n, n->type, out, nout);
	return n;
}

ThreadNode *
thread_number(ThreadBuilder *b, ThreadNode *n)
{
	uint64_t h = hash_of(n);
	ThreadNode *same = available(&b->value, h, n, 0);
	if (same)
		return same;
	note(b, &b->value, h, n);
	thread_append(b, n);
	return n;
}

ThreadBuilder *
thread_reopen(ThreadModule *m)
{
	ThreadBuilder *b = NEW(m->mem, ThreadBuilder);
	*b = (ThreadBuilder){.m = m, .simplifies = true, .place = NOWHERE, .constant = table(m->mem, THREAD_CONSTANTS),
		.value = table(m->mem, THREAD_BUCKETS)};
	for (int i = 0; i < m->reg.n; i++)
		if (m->reg.at[i].def->kind == NODE_CONST)
			note(b, &b->constant, hash_of(m->reg.at[i].def), m->reg.at[i].def);
	return b;
}

static Reg
one(ThreadBuilder *b, ThreadKind kind, int op, RegType type, const Reg *in, int nin)
{
	ThreadNode like = {.kind = kind, .op = op, .type = type, .in = (Reg *)in, .nin = nin,
		.range = thread_range_any(type)};
	return thread_pure(b, &like, 1)->out[0];
}

/* ---- values ---- */

Reg
thread_int_const(ThreadBuilder *b, RegType t, int64_t v)
{
	int bits = 8 * thread_type_bytes(t);
	v = t == REG_PRED ? v & 1 : bits < 64 ? (int64_t)((uint64_t)v << (64 - bits)) >> (64 - bits) : v;
	return thread_pure(b, &(ThreadNode){.kind = NODE_CONST, .type = t, .i = v, .range = {v, v, true}}, 1)->out[0];
}

Reg
thread_float_const(ThreadBuilder *b, RegType t, double v)
{
	return thread_pure(b, &(ThreadNode){.kind = NODE_CONST, .type = t, .f = v}, 1)->out[0];
}

static bool
is_commutative(EmitOp op)
{
	return op == EMIT_ADD || op == EMIT_MUL || op == EMIT_AND || op == EMIT_OR || op == EMIT_XOR;
}

Reg
thread_op(ThreadBuilder *b, EmitOp op, Reg x, Reg y, Reg z)
{
	Reg in[3] = {x, y, z}, r = b->simplifies ? thread_simplified(b, op, x, y, z) : 0;
	int64_t v;
	if (r)
		return r;
	if (b->simplifies && is_commutative(op) && thread_const(b->m, x, &v)) {
		in[0] = y;
		in[1] = x;
	}
	RegType type = thread_is_comparison(op) ? REG_PRED : thread_type_of(b, op == EMIT_SELECT ? y : x);
	ThreadNode like = {.kind = NODE_OP, .op = (int)op, .type = type, .in = in, .nin = emit_op_operands[op]};
	like.range = type == REG_I32 || type == REG_I64 ? thread_range_op(b->m, op, type, in) : thread_range_any(type);
	return thread_pure(b, &like, 1)->out[0];
}

Reg
thread_cast(ThreadBuilder *b, EmitCast c, RegType to, Reg a)
{
	Reg r = b->simplifies ? thread_simplified_cast(b, c, to, a) : 0;
	if (r)
		return r;
	ThreadNode like = {.kind = NODE_CAST, .op = (int)c, .type = to, .in = &a, .nin = 1};
	like.range = to == REG_I32 || to == REG_I64 ? thread_range_cast(b->m, c, to, a) : thread_range_any(to);
	return thread_pure(b, &like, 1)->out[0];
}

/* The word that all of v was unpacked from, in order; 0: there is none. */
static Reg
word_of(const ThreadBuilder *b, const Reg *v, int n)
{
	const ThreadNode *first = thread_def(b->m, v[0]);
	if (!b->simplifies || first->kind != NODE_UNPACK || first->nout != n)
		return 0;
	for (int i = 0; i < n; i++)
		if (v[i] != first->out[i])
			return 0;
	return first->in[0];
}

Reg
thread_pack(ThreadBuilder *b, const Reg *v, int n)
{
	Reg word = word_of(b, v, n);
	return word ? word : one(b, NODE_PACK, n, REG_I32, v, n);
}

void
thread_unpack(ThreadBuilder *b, Reg word, RegType t, Reg *out, int n)
{
	const ThreadNode *u = thread_def(b->m, word);
	ThreadNode like = {.kind = NODE_UNPACK, .op = n, .type = t, .in = &word, .nin = 1, .range = thread_range_any(t)};
	if (b->simplifies && u->kind == NODE_PACK && u->nin == n && thread_type_of(b, u->in[0]) == t)
		memcpy(out, u->in, sizeof *out * (size_t)n);
	else
		memcpy(out, thread_pure(b, &like, n)->out, sizeof *out * (size_t)n);
}

Reg
thread_lookup(ThreadBuilder *b, RegType t, const int64_t *bits, int n, Reg index)
{
	ThreadNode like = {.kind = NODE_LOOKUP, .type = t, .in = &index, .nin = 1, .imm = bits, .nimm = n,
		.range = thread_range_any(t)};
	return thread_pure(b, &like, 1)->out[0];
}

/* ---- memory ---- */

static ThreadNode *
access_node(ThreadBuilder *b, ThreadKind kind, int op, RegType t, const EmitAccess *at, const Reg *in, int nin)
{
	ThreadNode *n = thread_node(b, kind, op, t, in, nin);
	int64_t v;
	n->at = NEW(b->m->mem, EmitAccess);
	*n->at = *at;
	if (b->simplifies && at->mask && thread_const(b->m, at->mask, &v) && v)
		n->at->mask = 0;
	return n;
}

/* The mask is known to be false. */
static bool
is_never(const ThreadBuilder *b, const EmitAccess *at)
{
	int64_t v;
	return b->simplifies && at->mask && thread_const(b->m, at->mask, &v) && !v;
}

static Reg
zero_of(ThreadBuilder *b, RegType t)
{
	return thread_is_float(t) ? thread_float_const(b, t, 0) : thread_int_const(b, t, 0);
}

void
thread_load(ThreadBuilder *b, const EmitAccess *at, Reg *out)
{
	bool never = is_never(b, at);
	for (int i = 0; never && i < at->n; i++)
		out[i] = zero_of(b, at->type);
	if (!never)
		thread_results(b, access_node(b, NODE_LOAD, 0, at->type, at, NULL, 0), at->type, out, at->n);
}

void
thread_store(ThreadBuilder *b, const EmitAccess *at, const Reg *v)
{
	if (!is_never(b, at))
		access_node(b, NODE_STORE, 0, at->type, at, v, at->n);
}

Reg
thread_atomic(ThreadBuilder *b, AtomicKind k, const EmitAccess *at, Reg v, Reg compare)
{
	RegType t = at->n == 2 ? REG_I32 : at->type;
	const Reg in[2] = {v, compare};
	if (is_never(b, at))
		return zero_of(b, t);
	return thread_result(b, access_node(b, NODE_ATOMIC, (int)k, t, at, in, compare ? 2 : 1), t);
}

Reg
thread_pointer(ThreadBuilder *b, Reg base, Reg offset)
{
	const Reg in[2] = {base, offset};
	int64_t v;
	if (b->simplifies && thread_const(b->m, offset, &v) && v == 0)
		return base;
	return one(b, NODE_POINTER, 0, thread_type_of(b, base), in, 2);
}

/* ---- warps and blocks ---- */

void
thread_prim(ThreadBuilder *b, PrimKind k, const Reg *in, int nin, const int64_t *imm, int nimm, Reg *out, int nout)
{
	const PrimInfo *info = &prim_info[k];
	if (nin != info->nin || nout != info->nout)
		die("%s takes %d and gives %d, not %d and %d", info->text, info->nin, info->nout, nin, nout);
	ThreadNode like = {.kind = NODE_PRIM, .op = (int)k, .type = prim_result(k), .in = (Reg *)in, .nin = nin, .imm = imm,
		.nimm = nimm, .range = thread_range_prim(b->m, k)};
	if (nout > 0 && !(info->flags & (CONV | MEM))) {
		memcpy(out, thread_pure(b, &like, nout)->out, sizeof *out * (size_t)nout);
		return;
	}
	ThreadNode *n = thread_node(b, NODE_PRIM, (int)k, like.type, in, nin);
	n->imm = numbers(b, imm, nimm);
	n->nimm = nimm;
	n->range = like.range;
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
