/* The kernel as recorded: every call becomes a node in the block that is open.
 *
 * What is pure and has been computed in a block that is still open is not computed again; constants are folded, and what
 * ranges decide (a clamp that never clamps, a test that always holds) goes at once.  That is what LLVM's first pass does
 * for PTX, and here it is half of what makes the text worth reading. */
#include "emit/msl/msl.h"

#include <string.h>

static Msl *
state(const Emitter *e)
{
	return e->state;
}

int
msl_size(RegType t)
{
	static const int bytes[REG_TYPES] = {
		[REG_PRED] = 1, [REG_I8] = 1, [REG_I16] = 2, [REG_I32] = 4, [REG_I64] = 8, [REG_F16] = 2, [REG_BF16] = 2,
		[REG_F32] = 4, [REG_F64] = 8, [REG_GLOBAL] = 8, [REG_SHARED] = 4,
	};
	return bytes[t];
}

bool
msl_is_float(RegType t)
{
	return t == REG_F16 || t == REG_BF16 || t == REG_F32 || t == REG_F64;
}

bool
msl_const(const Msl *m, Reg r, int64_t *out)
{
	const MslNode *n = msl_def(m, r);
	if (n->kind != MSL_CONST || msl_is_float(n->type))
		return false;
	*out = n->i;
	return true;
}

/* Reported once for each place. */
void
msl_cannot(Msl *m, const char *what)
{
	const Diag *last = m->errors->last;
	if (last && last->code == DIAG_LOWER_CANNOT && last->place.line == m->place.line &&
	    last->place.col == m->place.col && strstr(last->text, what))
		return;
	diag_error(m->errors, m->place, DIAG_LOWER_CANNOT, what, m->e.target->name);
}

Reg
msl_add(Msl *m, MslNode *n, RegType type)
{
	MslValue v = {.def = n, .at = n->nout, .type = type};
	vec_push(m->e.mem, &m->reg, v);
	Reg *out = NEW_ARRAY(m->e.mem, Reg, n->nout + 1);
	if (n->nout)
		memcpy(out, n->out, sizeof *out * (size_t)n->nout);
	out[n->nout++] = m->reg.n;
	n->out = out;
	return m->reg.n;
}

/* Results all at once. */
static void
add_all(Msl *m, MslNode *n, RegType type, Reg *out, int nout)
{
	n->out = NEW_ARRAY(m->e.mem, Reg, nout);
	n->nout = nout;
	for (int i = 0; i < nout; i++) {
		MslValue v = {.def = n, .at = i, .type = type};
		vec_push(m->e.mem, &m->reg, v);
		out[i] = n->out[i] = m->reg.n;
	}
}

static Reg *
copy(Msl *m, const Reg *r, int n)
{
	Reg *c = NEW_ARRAY(m->e.mem, Reg, n);
	for (int i = 0; i < n; i++)
		c[i] = r[i];
	return c;
}

/* A node that stands in no block yet. */
static MslNode *
loose(Msl *m, MslKind kind, int op, RegType type, const Reg *in, int nin)
{
	MslNode *n = NEW(m->e.mem, MslNode);
	*n = (MslNode){.kind = kind, .op = op, .type = type, .width = 1, .nin = nin, .in = copy(m, in, nin),
		.home = m->block, .place = m->place, .range = msl_range_any(type)};
	return n;
}

MslNode *
msl_node(Msl *m, MslKind kind, int op, RegType type, const Reg *in, int nin)
{
	MslNode *n = loose(m, kind, op, type, in, nin);
	vec_push(m->e.mem, &m->block->body, n);
	return n;
}

/* ---- what is in sight ---- */

static uint64_t
mix(uint64_t h, uint64_t v)
{
	return (h ^ v) * UINT64_C(0x9e3779b97f4a7c15) ^ h >> 29;
}

static uint64_t
hash_of(const MslNode *n)
{
	uint64_t h = mix(mix((uint64_t)n->kind, (uint64_t)n->op), (uint64_t)n->type), bits;
	memcpy(&bits, &n->f, sizeof bits);
	h = mix(mix(h, bits), (uint64_t)n->i);
	for (int i = 0; i < n->nin; i++)
		h = mix(h, (uint64_t)n->in[i]);
	return h ^ h >> 32;
}

static bool
same(const MslNode *a, const MslNode *b)
{
	return a->kind == b->kind && a->op == b->op && a->type == b->type && a->i == b->i && a->nin == b->nin &&
	    a->function == b->function && a->builtin == b->builtin && memcmp(&a->f, &b->f, sizeof a->f) == 0 &&
	    memcmp(a->in, b->in, sizeof *a->in * (size_t)a->nin) == 0;
}

static void
leave_scope(Msl *m, int to)
{
	while (m->scope.n > to) {
		MslScope s = vec_pop(&m->scope);
		m->bucket[s.hash % MSL_BUCKETS] = s.before;
	}
}

/* The result of a pure node: one in sight that is the same, or its own. */
static Reg
pure(Msl *m, MslNode *n)
{
	uint64_t h = hash_of(n);
	int *bucket = &m->bucket[h % MSL_BUCKETS];
	for (int i = *bucket; i; i = m->scope.at[i - 1].before) {
		const MslScope *s = &m->scope.at[i - 1];
		if (s->hash == h && same(s->node, n))
			return s->node->out[0];
	}
	MslScope s = {h, n, *bucket};
	vec_push(m->e.mem, &m->scope, s);
	*bucket = m->scope.n;
	if (n->kind != MSL_CONST)
		vec_push(m->e.mem, &m->block->body, n);
	return msl_add(m, n, n->type);
}

Reg
msl_pure(Msl *m, MslKind kind, int op, RegType type, const Reg *in, int nin)
{
	return pure(m, loose(m, kind, op, type, in, nin));
}

static MslBlock *
open_block(Msl *m, MslNode *owner)
{
	MslBlock *b = NEW(m->e.mem, MslBlock);
	b->owner = owner;
	b->outer = m->block;
	m->block = b;
	return b;
}

/* ---- values ---- */

static Reg
int_const(Emitter *e, RegType type, int64_t v)
{
	Msl *m = state(e);
	MslNode *n = loose(m, MSL_CONST, 0, type, NULL, 0);
	int bits = 8 * msl_size(type);
	n->i = type == REG_PRED ? v & 1 : bits < 64 ? (int64_t)((uint64_t)v << (64 - bits)) >> (64 - bits) : v;
	n->range = (MslRange){n->i, n->i, true};
	return pure(m, n);
}

static Reg
float_const(Emitter *e, RegType type, double v)
{
	Msl *m = state(e);
	MslNode *n = loose(m, MSL_CONST, 0, type, NULL, 0);
	n->f = v;
	return pure(m, n);
}

Reg
msl_place_prim(Msl *m, int prim, int64_t most)
{
	MslNode *n = loose(m, MSL_PRIM, prim, REG_I32, NULL, 0);
	n->range = (MslRange){0, most, true};
	return pure(m, n);
}

static void
refuse_wide(Msl *m, RegType t)
{
	if (t == REG_F64)
		msl_cannot(m, "f64 (Metal has no double)");
}

static Reg
emit_op(Emitter *e, EmitOp op, Reg a, Reg b, Reg c)
{
	Msl *m = state(e);
	Reg in[3] = {a, b, c}, r = msl_simplified(m, op, a, b, c);
	if (r)
		return r;
	RegType type = msl_is_comparison(op) ? REG_PRED : op == EMIT_SELECT ? msl_type(m, b) : msl_type(m, a);
	int64_t v;
	if ((op == EMIT_ADD || op == EMIT_MUL || op == EMIT_AND || op == EMIT_OR || op == EMIT_XOR) &&
	    !msl_is_float(type) && msl_const(m, a, &v)) {
		in[0] = b;
		in[1] = a;
	}
	refuse_wide(m, msl_type(m, op == EMIT_SELECT ? b : a));
	MslNode *n = loose(m, MSL_OP, op, type, in, emit_op_operands[op]);
	if (type == REG_I32 || type == REG_I64)
		n->range = msl_range_op(m, op, type, n->in);
	return pure(m, n);
}

/* A shuffle moves any 32 bits: where they were bits of a float, it moves the float. */
static bool
retype_shuffle(Msl *m, RegType to, Reg a)
{
	MslNode *n = msl_def(m, a);
	bool is_shuffle = n->kind == MSL_PRIM && (n->op == PRIM_SHUFFLE || n->op == PRIM_SHUFFLE_XOR ||
	    n->op == PRIM_SHUFFLE_UP || n->op == PRIM_SHUFFLE_DOWN);
	if (!is_shuffle || to != REG_F32 || n->type != REG_I32 || a != m->reg.n)
		return false;
	const MslNode *bits = msl_def(m, n->in[0]);
	if (bits->kind != MSL_CAST || bits->op != CAST_BITS || msl_type(m, bits->in[0]) != to)
		return false;
	n->in[0] = bits->in[0];
	n->type = to;
	m->reg.at[a - 1].type = to;
	return true;
}

static Reg
cast(Emitter *e, EmitCast c, RegType to, Reg a)
{
	Msl *m = state(e);
	const MslNode *from = msl_def(m, a);
	RegType was = msl_type(m, a);
	int64_t v;
	if (c == CAST_BITS && (was == to || retype_shuffle(m, to, a)))
		return a;
	if (c <= CAST_TRUNC && msl_const(m, a, &v)) {
		uint64_t mask = msl_size(was) == 8 ? UINT64_MAX : (UINT64_C(1) << 8 * msl_size(was)) - 1;
		if (was == REG_PRED)
			mask = 1;
		return e->int_const(e, to, c == CAST_ZEXT ? (int64_t)((uint64_t)v & mask) : v);
	}
	if (c == CAST_TRUNC && from->kind == MSL_CAST && (from->op == CAST_ZEXT || from->op == CAST_SEXT) &&
	    msl_type(m, from->in[0]) == to)
		return from->in[0];
	refuse_wide(m, to);
	MslNode *n = loose(m, MSL_CAST, (int)c, to, &a, 1);
	if (to == REG_I32 || to == REG_I64)
		n->range = msl_range_cast(m, c, to, a);
	return pure(m, n);
}

static RegType
type(Emitter *e, Reg r)
{
	return msl_type(state(e), r);
}

static Reg
pack(Emitter *e, const Reg *v, int n)
{
	Msl *m = state(e);
	const MslNode *first = msl_def(m, v[0]);
	bool whole = first->kind == MSL_UNPACK && first->nout == n;     /* of what was unpacked: the word itself */
	for (int i = 0; i < n && whole; i++)
		whole = msl_def(m, v[i]) == first && msl_at(m, v[i]) == i;
	if (whole)
		return first->in[0];
	return pure(m, loose(m, MSL_PACK, n, REG_I32, v, n));
}

static void
unpack(Emitter *e, Reg word, RegType t, Reg *out, int n)
{
	Msl *m = state(e);
	const MslNode *w = msl_def(m, word);
	if (w->kind == MSL_PACK && w->nin == n && msl_type(m, w->in[0]) == t) {
		memcpy(out, w->in, sizeof *out * (size_t)n);
		return;
	}
	MslNode *u = msl_node(m, MSL_UNPACK, n, t, &word, 1);
	u->width = n;
	add_all(m, u, t, out, n);
}

/* ---- memory ---- */

/* Words are touched where the tensor has elements of a byte or two: the last one may reach past its end.  A pointer that a
 * loop carries may be any. */
static void
pad(Msl *m, const MslNode *n)
{
	while (n->kind == MSL_POINTER)
		n = msl_def(m, n->in[0]);
	if (n->kind == MSL_PARAM) {
		m->at[n->op].is_padded = true;
	} else if (n->kind == MSL_OP && n->op == EMIT_SELECT) {
		pad(m, msl_def(m, n->in[1]));
		pad(m, msl_def(m, n->in[2]));
	} else {
		for (int i = 0; i < m->nparam; i++)
			m->at[i].is_padded |= m->e.kernel.param[i].type == REG_GLOBAL &&
			    !m->e.kernel.param[i].is_read_only && msl_element_bytes(m, m->param[i]) < 4;
	}
}

static MslNode *
access_node(Msl *m, MslKind kind, int op, RegType t, const EmitAccess *at, const Reg *in, int nin)
{
	int64_t v;
	MslNode *n = loose(m, kind, op, t, in, nin);
	n->at = *at;
	if (at->mask && msl_const(m, at->mask, &v) && v)
		n->at.mask = 0;
	msl_points(m, at->base, at->type);
	int size = at->space == SPACE_SHARED ? msl_size(at->type) : msl_element_bytes(m, at->base);
	Reg whole = at->offset ? msl_divided(m, at->offset, size) : 0;
	n->i = whole ? size : 1;
	n->at.offset = whole ? whole : at->offset;
	bool in_word = at->type == REG_I32 && (kind == MSL_ATOMIC || at->cache == CACHE_VOLATILE);
	if (at->space == SPACE_GLOBAL && in_word && size < 4)
		pad(m, msl_def(m, at->base));
	vec_push(m->e.mem, &m->block->body, n);
	refuse_wide(m, at->type);
	return n;
}

/* The mask is known to be false. */
static bool
is_never(const Msl *m, const EmitAccess *at)
{
	int64_t v;
	return at->mask && msl_const(m, at->mask, &v) && !v;
}

static Reg
zero_of(Emitter *e, RegType t)
{
	return msl_is_float(t) ? e->float_const(e, t, 0) : e->int_const(e, t, 0);
}

static void
load(Emitter *e, const EmitAccess *at, Reg *out)
{
	Msl *m = state(e);
	if (is_never(m, at)) {
		for (int i = 0; i < at->n; i++)
			out[i] = zero_of(e, at->type);
		return;
	}
	MslNode *n = access_node(m, MSL_LOAD, 0, at->type, at, NULL, 0);
	m->reads_stored |= at->space == SPACE_GLOBAL && at->cache != CACHE_READ_ONLY;
	n->width = at->n;
	add_all(m, n, at->type, out, at->n);
}

static void
store(Emitter *e, const EmitAccess *at, const Reg *v)
{
	Msl *m = state(e);
	if (is_never(m, at))
		return;
	MslNode *n = access_node(m, MSL_STORE, 0, at->type, at, v, at->n);
	n->width = at->n;
	m->stores_device |= at->space == SPACE_GLOBAL;
}

static Reg
atomic(Emitter *e, AtomicKind k, const EmitAccess *at, Reg v, Reg compare)
{
	Msl *m = state(e);
	RegType t = at->n == 2 ? REG_I32 : at->type;
	if (is_never(m, at))
		return zero_of(e, t);
	Reg in[2] = {v, compare};
	m->stores_device |= at->space == SPACE_GLOBAL;
	return msl_add(m, access_node(m, MSL_ATOMIC, (int)k, t, at, in, compare ? 2 : 1), t);
}

static Reg
pointer(Emitter *e, Reg base, Reg offset)
{
	Msl *m = state(e);
	int64_t v;
	if (msl_const(m, offset, &v) && v == 0)
		return base;
	int size = msl_element_bytes(m, base);
	Reg whole = msl_divided(m, offset, size);
	Reg in[2] = {base, whole ? whole : offset};
	return pure(m, loose(m, MSL_POINTER, whole ? size : 1, msl_type(m, base), in, 2));
}

/* ---- control ---- */

static void
carry(Msl *m, MslNode *n, const Reg *init, int count)
{
	n->carried = count;
	n->init = copy(m, init, count);
	n->inside = NEW_ARRAY(m->e.mem, Reg, count);
	n->after = NEW_ARRAY(m->e.mem, Reg, count);
}

/* Registers that a region begins or ends with: each a node of its own, so that each is a variable. */
static void
given(Msl *m, MslNode *owner, const Reg *like, Reg *out, int n)
{
	for (int i = 0; i < n; i++) {
		MslNode *g = loose(m, MSL_INSIDE, i, msl_type(m, like[i]), NULL, 0);
		g->region[0] = owner->region[0];
		out[i] = msl_add(m, g, g->type);
		g->owner = owner;
	}
}

static Reg
loop_begin(Emitter *e, Reg lo, Reg hi, Reg step, const Reg *init, Reg *inside, int n)
{
	Msl *m = state(e);
	MslNode *loop = msl_node(m, MSL_LOOP, 0, msl_type(m, lo), (Reg[]){lo, hi, step}, 3);
	carry(m, loop, init, n);
	loop->i = m->scope.n;
	loop->region[0] = open_block(m, loop);
	MslNode *index = loose(m, MSL_INSIDE, -1, loop->type, NULL, 0);
	MslRange from = msl_range_of(m, lo), to = msl_range_of(m, hi);
	int64_t by;
	if (msl_const(m, step, &by) && by > 0 && to.hi > INT64_MIN)
		index->range = (MslRange){from.lo, MAX(to.hi - 1, from.lo), from.geometry && to.geometry};
	index->owner = loop;
	loop->index = msl_add(m, index, loop->type);
	given(m, loop, init, loop->inside, n);
	for (int i = 0; i < n; i++)
		inside[i] = loop->inside[i];
	return loop->index;
}

/* The innermost region's owner, which must be of that kind. */
static MslNode *
close_block(Msl *m, MslKind kind)
{
	MslNode *owner = m->block->owner;
	if (!owner || owner->kind != kind)
		die("a region ends that did not begin");
	m->block = m->block->outer;
	return owner;
}

static void
finish(Msl *m, MslNode *n, Reg *after, int count)
{
	if (n->carried != count)
		die("a region ends with %d carried values, but began with %d", count, n->carried);
	leave_scope(m, (int)n->i);
	given(m, n, n->next[0], n->after, count);
	for (int i = 0; i < count; i++)
		after[i] = n->after[i];
}

static void
loop_end(Emitter *e, const Reg *next, Reg *after, int n)
{
	Msl *m = state(e);
	MslNode *loop = close_block(m, MSL_LOOP);
	loop->next[0] = copy(m, next, n);
	finish(m, loop, after, n);
}

static void
while_begin(Emitter *e, const Reg *init, Reg *inside, int n)
{
	Msl *m = state(e);
	MslNode *loop = msl_node(m, MSL_WHILE, 0, REG_PRED, NULL, 0);
	carry(m, loop, init, n);
	loop->i = m->scope.n;
	loop->region[0] = open_block(m, loop);
	given(m, loop, init, loop->inside, n);
	for (int i = 0; i < n; i++)
		inside[i] = loop->inside[i];
}

static void
while_test(Emitter *e, Reg pred)
{
	Msl *m = state(e);
	MslNode *loop = m->block->owner;
	loop->test = pred;
	MslNode *leave = msl_node(m, MSL_RETURN, 0, REG_PRED, &pred, 1);        /* the break stands here */
	leave->owner = loop;
}

static void
while_end(Emitter *e, const Reg *next, Reg *after, int n)
{
	Msl *m = state(e);
	MslNode *loop = close_block(m, MSL_WHILE);
	loop->next[0] = copy(m, next, n);
	finish(m, loop, after, n);
}

static void
if_begin(Emitter *e, Reg pred)
{
	Msl *m = state(e);
	MslNode *n = msl_node(m, MSL_IF, 0, REG_PRED, &pred, 1);
	n->i = m->scope.n;
	n->region[0] = open_block(m, n);
}

static void
if_else(Emitter *e, const Reg *then, int n)
{
	Msl *m = state(e);
	MslNode *branch = close_block(m, MSL_IF);
	carry(m, branch, then, n);
	branch->next[0] = copy(m, then, n);
	leave_scope(m, (int)branch->i);
	branch->region[1] = open_block(m, branch);
}

static void
if_end(Emitter *e, const Reg *otherwise, Reg *after, int n)
{
	Msl *m = state(e);
	MslNode *branch = close_block(m, MSL_IF);
	branch->next[1] = copy(m, otherwise, n);
	finish(m, branch, after, n);
}

static void
trap(Emitter *e)
{
	Msl *m = state(e);
	msl_cannot(m, "a trap");
}

/* ---- warps and blocks ---- */

static RegType
result_of(PrimKind k, const Msl *m, const Reg *in, int nin)
{
	if (k == PRIM_FRAGMENT_LOAD || k == PRIM_FRAGMENT_LOAD_F32)
		return prim_result(k);
	if (k == PRIM_VOTE_ANY || k == PRIM_VOTE_ALL)
		return REG_PRED;
	return nin && msl_type(m, in[0]) == REG_F32 ? REG_F32 : REG_I32;
}

/* A pointer into the block's memory whose last step is counted in elements of `size` bytes. */
static Reg
element_pointer(Msl *m, Reg pointer, int size)
{
	const MslNode *n = msl_def(m, pointer);
	Reg whole = n->kind == MSL_POINTER && n->op == 1 ? msl_divided(m, n->in[1], size) : 0;
	Reg in[2] = {n->kind == MSL_POINTER ? n->in[0] : 0, whole};
	return whole ? pure(m, loose(m, MSL_POINTER, size, n->type, in, 2)) : pointer;
}

static MslRange
place_range(const Msl *m, PrimKind k)
{
	switch (k) {
	case PRIM_THREAD: return (MslRange){0, m->e.kernel.threads - 1, true};
	case PRIM_LANE: return (MslRange){0, m->e.target->lanes - 1, true};
	case PRIM_BLOCK: case PRIM_NBLOCKS: return (MslRange){0, INT32_MAX, true};
	default: return msl_range_any(REG_I32);
	}
}

static void
prim(Emitter *e, PrimKind k, const Reg *in, int nin, const int64_t *imm, int nimm, Reg *out, int nout)
{
	Msl *m = state(e);
	const PrimInfo *info = &prim_info[k];
	if (!info->msl)
		msl_cannot(m, arena_printf(e->mem, "'%s'", info->text));
	RegType t = result_of(k, m, in, nin);
	Reg at = k == PRIM_FRAGMENT_LOAD || k == PRIM_FRAGMENT_LOAD_F32 ? element_pointer(m, in[0],
	    k == PRIM_FRAGMENT_LOAD ? 2 : 4) : 0;
	in = at ? &at : in;
	MslNode *n = loose(m, MSL_PRIM, (int)k, t, in, nin);
	n->range = place_range(m, k);
	int64_t *kept = NEW_ARRAY(e->mem, int64_t, nimm);
	if (nimm)
		memcpy(kept, imm, sizeof *kept * (size_t)nimm);
	n->imm = kept;
	n->converges = info->flags & CONV;
	if (nout == 1 && !(info->flags & (CONV | MEM))) {
		n->i = nimm ? imm[0] : 0;
		out[0] = pure(m, n);
		return;
	}
	vec_push(e->mem, &m->block->body, n);
	if (k == PRIM_FRAGMENT_LOAD || k == PRIM_FRAGMENT_LOAD_F32)
		msl_points(m, n->in[0], imm[2] == TY_F16 ? REG_F16 : imm[2] == TY_BF16 ? REG_BF16 : REG_F32);
	add_all(m, n, t, out, nout);
}

static void
mma(Emitter *e, const MmaInfo *i, const Reg *a, const Reg *b, const Reg *c, Reg *out)
{
	Msl *m = state(e);
	MmaWords w = mma_words(i);
	int n = w.a + w.b + w.c;
	Reg *in = NEW_ARRAY(e->mem, Reg, n);
	memcpy(in, a, sizeof *in * (size_t)w.a);
	memcpy(in + w.a, b, sizeof *in * (size_t)w.b);
	memcpy(in + w.a + w.b, c, sizeof *in * (size_t)w.c);
	MslNode *node = msl_node(m, MSL_MMA, 0, REG_F32, in, n);
	node->mma = i;
	node->converges = true;
	add_all(m, node, REG_F32, out, w.c);
}

/* ---- functions ---- */

/* What Metal has, by the name that lowering knows it by. */
static const char *
builtin(const char *name)
{
	static const char *const known[] = {"exp", "exp2", "log", "log2", "sqrt", "rsqrt", "sin", "cos", "tan", "sinh",
	    "cosh",
		"tanh", "asin", "acos", "atan", "atan2", "pow"};
	for (int i = 0; i < LEN(known); i++)
		if (strcmp(known[i], name) == 0)
			return known[i];
	return NULL;
}

static bool
call(Emitter *e, const char *name, const Reg *in, int nin, const RegType *result, Reg *out, int nout)
{
	Msl *m = state(e);
	MslFunction *f = NULL;
	const char *own = builtin(name);
	for (int i = 0; i < m->functions.n && !f; i++)
		f = strcmp(m->functions.at[i]->name, name) == 0 ? m->functions.at[i] : NULL;
	if (!own && !f)
		return false;
	MslNode *n = loose(m, MSL_CALL, 0, *result, in, nin);
	n->function = f;
	n->builtin = own;
	*out = pure(m, n);
	return true;
}

/* Scopes of the kernel are of no use in a function. */
static void
function_begin(Emitter *e, const EmitFunction *of, Reg *inside)
{
	Msl *m = state(e);
	MslFunction *f = NEW(e->mem, MslFunction);
	*f = (MslFunction){.name = of->name, .result = of->result[0], .nparam = of->nparam};
	if (m->open || of->nparam > LEN(f->param) || of->nresult != 1)
		die("a function within a function, or of %d parameters and %d results", of->nparam, of->nresult);
	m->open = f;
	m->kernel_block = m->block;
	m->outer_scope = m->scope.n;
	m->block = NULL;
	f->body = open_block(m, NULL);
	for (int i = 0; i < of->nparam; i++) {
		MslNode *p = loose(m, MSL_PARAM, i, of->param[i], NULL, 0);
		p->name = i ? "y" : "x";
		f->param[i] = of->param[i];
		f->inside[i] = inside[i] = msl_add(m, p, of->param[i]);
	}
}

static void
function_end(Emitter *e, const Reg *result, int n)
{
	Msl *m = state(e);
	msl_node(m, MSL_RETURN, 0, msl_type(m, *result), result, n);
	vec_push(e->mem, &m->functions, m->open);
	m->open = NULL;
	leave_scope(m, m->outer_scope);
	m->block = m->kernel_block;
}

static void
place(Emitter *e, Place at)
{
	state(e)->place = at;
}

static void
name(Emitter *e, Reg r, const char *hint)
{
	Msl *m = state(e);
	MslNode *n = msl_def(m, r);
	if (!m->reg.at[r - 1].hint)
		m->reg.at[r - 1].hint = hint;
	if (!n->hint && n->kind != MSL_CONST && n->kind != MSL_PARAM)
		n->hint = hint;
}

void
msl_record_open(Msl *m)
{
	Emitter *e = &m->e;
	e->place = place;
	e->name = name;
	e->int_const = int_const;
	e->float_const = float_const;
	e->op = emit_op;
	e->cast = cast;
	e->type = type;
	e->pack = pack;
	e->unpack = unpack;
	e->lookup = msl_lookup;
	e->load = load;
	e->store = store;
	e->atomic = atomic;
	e->pointer = pointer;
	e->loop_begin = loop_begin;
	e->loop_end = loop_end;
	e->while_begin = while_begin;
	e->while_test = while_test;
	e->while_end = while_end;
	e->if_begin = if_begin;
	e->if_else = if_else;
	e->if_end = if_end;
	e->trap = trap;
	e->prim = prim;
	e->mma = mma;
	e->call = call;
	e->function_begin = function_begin;
	e->function_end = function_end;
	e->calls_math = true;
	m->block = NULL;
	m->block = open_block(m, NULL);
}
