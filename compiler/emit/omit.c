/* An emitter that hands everything on to another one but for one call: the n-th barrier, wait, bounds check or swizzle of
 * a kernel is left out.  It tests what tests the compiler: without something that matters, a check must speak or a result
 * must be wrong.
 *
 *     store.shared [r5 + r9] r3                    store.shared [r5 + r9] r3
 *     barrier                             =>
 *     r11 = load.shared [r5 + r10]                 r11 = load.shared [r5 + r10]
 *
 * A swizzle is an exclusive or of 32 bits on the way to an address in shared memory.  That it is on such a way is seen only
 * later, so a first run (n = -1) notes which those are, and what there is to leave out, and a second one leaves out.  A
 * first run may also note which bounds checks were ever false: its code stores to memory of this process.  And as there are
 * many of them, code can be made of which each bounds check is left out in turn, by a number in memory. */
#include "emit/emit.h"

#include <string.h>

typedef struct Way {
	uint64_t *set;          /* exclusive ors that a register comes from, by number; NULL: none */
	bool is_constant;
	bool is_thread;         /* the thread's number, or bits of it */
	bool is_holder;         /* these are 0: the first of those that hold the same */
} Way;

typedef struct OmitState {
	Emitter *to;
	Omit *o;
	VEC(Way) way;                                   /* by Reg */
	int at;                                         /* exclusive ors so far */
	Place place;
	Reg selector;                                   /* the number of the bounds check that is left out; 0: none */
} OmitState;

static OmitState *
state(const Emitter *e)
{
	return e->state;
}

static void
note_code(Emitter *e, uint64_t what)
{
	Omit *o = state(e)->o;
	o->code = (o->code ^ what) * UINT64_C(0x9e3779b97f4a7c15);
	o->code ^= o->code >> 29;
}

/* One more that could be left out: is it the one? */
static bool
is_left_out(Emitter *e, OmitKind kind, const char *what)
{
	OmitState *s = state(e);
	if (kind != s->o->kind)
		return false;
	int i = s->o->count++;
	if (s->o->n < 0 && s->o->place_of && i < s->o->most) {
		s->o->place_of[i] = s->place;
		s->o->what_of[i] = what;
	}
	if (i != s->o->n)
		return false;
	s->o->place = s->place;
	s->o->what = what;
	return true;
}

/* ---- swizzles ---- */

static Way *
way_of(OmitState *s, Reg r)
{
	while (s->way.n <= r)
		vec_push(s->to->mem, &s->way, ((Way){.set = NULL}));
	return &s->way.at[r];
}

static void
join_ways(OmitState *s, Reg to, Reg from)
{
	if (from <= 0 || from >= s->way.n || !s->way.at[from].set || to <= 0)
		return;
	Way *w = way_of(s, to);
	const uint64_t *other = s->way.at[from].set;
	if (!w->set)
		w->set = NEW_ARRAY(s->to->mem, uint64_t, OMIT_SWIZZLES / 64);
	for (int i = 0; i < OMIT_SWIZZLES / 64; i++)
		w->set[i] |= other[i];
}

/* An address in shared memory: what it comes from are swizzles. */
static void
note_address(Emitter *e, Reg r)
{
	OmitState *s = state(e);
	if (s->o->n >= 0 || r <= 0 || r >= s->way.n || !s->way.at[r].set)
		return;
	for (int i = 0; i < OMIT_SWIZZLES / 64; i++)
		s->o->swizzle[i] |= s->way.at[r].set[i];
}

static void
note_holder(OmitState *s, EmitOp op, Reg r, Reg a, Reg b)
{
	if (op == EMIT_AND && way_of(s, a)->is_thread && way_of(s, b)->is_constant)
		way_of(s, r)->is_thread = true;
	if (op == EMIT_EQ && way_of(s, a)->is_thread && way_of(s, b)->is_constant)
		way_of(s, r)->is_holder = true;
}

static Reg
omit_op(Emitter *e, EmitOp op, Reg a, Reg b, Reg c)
{
	OmitState *s = state(e);
	note_code(e, (uint64_t)op);
	bool is_xor = op == EMIT_XOR && s->to->type(s->to, a) == REG_I32 && s->at < OMIT_SWIZZLES;
	if (is_xor) {
		int i = s->at++;
		if ((s->o->swizzle[i / 64] >> i % 64 & 1) && s->o->n >= 0 && is_left_out(e, OMIT_SWIZZLE, "xor"))
			return a;
	}
	Reg r = s->to->op(s->to, op, a, b, c);
	note_holder(s, op, r, a, b);
	join_ways(s, r, a);
	join_ways(s, r, b);
	join_ways(s, r, c);
	if (is_xor && s->o->n < 0) {
		Way *w = way_of(s, r);
		if (!w->set)
			w->set = NEW_ARRAY(s->to->mem, uint64_t, OMIT_SWIZZLES / 64);
		w->set[(s->at - 1) / 64] |= UINT64_C(1) << (s->at - 1) % 64;
	}
	return r;
}

static Reg
omit_cast(Emitter *e, EmitCast c, RegType to, Reg a)
{
	OmitState *s = state(e);
	Reg r = s->to->cast(s->to, c, to, a);
	join_ways(s, r, a);
	return r;
}

static Reg
omit_pointer(Emitter *e, Reg base, Reg offset)
{
	OmitState *s = state(e);
	Reg r = s->to->pointer(s->to, base, offset);
	join_ways(s, r, base);
	join_ways(s, r, offset);
	return r;
}

/* ---- bounds checks ---- */

/* Of those threads that hold the same element only the first writes it: nothing is checked by that. */
static bool
is_bounds_check(Emitter *e, Reg mask)
{
	return mask && !way_of(state(e), mask)->is_holder;
}

/* Of the check that was counted last: is it the one? */
static Reg
is_selected(Emitter *e)
{
	Emitter *to = state(e)->to;
	return to->op(to, EMIT_EQ, state(e)->selector, to->int_const(to, REG_I32, state(e)->o->count - 1), 0);
}

/* For the check that was counted last. */
static void
note_false(Emitter *e, Reg is_false)
{
	Omit *o = state(e)->o;
	Emitter *to = state(e)->to;
	if (o->kind != OMIT_MASK || o->n >= 0 || !o->was_false || o->count > o->most)
		return;
	Reg address = to->int_const(to, REG_I64, (int64_t)(intptr_t)&o->was_false[o->count - 1]);
	Reg one = to->int_const(to, REG_I8, 1);
	EmitAccess at = {.space = SPACE_GLOBAL, .type = REG_I8, .n = 1, .align = 1, .mask = is_false};
	at.base = to->cast(to, CAST_BITS, REG_GLOBAL, address);
	to->store(to, &at, &one);
}

static EmitAccess
checked(Emitter *e, const EmitAccess *at, const char *what)
{
	EmitAccess x = *at;
	note_code(e, 1000 + (uint64_t)at->space * 100 + (uint64_t)at->type * 10 + (uint64_t)at->n);
	if (at->space == SPACE_SHARED) {
		note_address(e, at->base);
		note_address(e, at->offset);
	}
	if (is_bounds_check(e, at->mask) && is_left_out(e, OMIT_MASK, what))
		x.mask = 0;
	else if (is_bounds_check(e, at->mask))
		note_false(e, state(e)->to->op(state(e)->to, EMIT_NOT, at->mask, 0, 0));
	if (is_bounds_check(e, at->mask) && x.mask && state(e)->selector)
		x.mask = state(e)->to->op(state(e)->to, EMIT_OR, at->mask, is_selected(e), 0);
	return x;
}

static void
omit_load(Emitter *e, const EmitAccess *at, Reg *out)
{
	const EmitAccess x = checked(e, at, "load");
	state(e)->to->load(state(e)->to, &x, out);
}

static void
omit_store(Emitter *e, const EmitAccess *at, const Reg *v)
{
	const EmitAccess x = checked(e, at, "store");
	state(e)->to->store(state(e)->to, &x, v);
}

static Reg
omit_atomic(Emitter *e, AtomicKind k, const EmitAccess *at, Reg v, Reg compare)
{
	const EmitAccess x = checked(e, at, "atomic");
	return state(e)->to->atomic(state(e)->to, k, &x, v, compare);
}

/* ---- barriers and waits ---- */

static bool
is_barrier(PrimKind k)
{
	switch (k) {
	case PRIM_BARRIER: case PRIM_BARRIER_PART: case PRIM_BARRIER_AT: case PRIM_BARRIER_LEAVE: case PRIM_WARP_BARRIER:
	case PRIM_CLUSTER_ARRIVE: case PRIM_CLUSTER_WAIT:
		return true;
	default:
		return false;
	}
}

static bool
is_wait(PrimKind k)
{
	switch (k) {
	case PRIM_CP_WAIT: case PRIM_CP_COMMIT: case PRIM_CP_ARRIVE: case PRIM_MBAR_WAIT: case PRIM_MBAR_ARRIVE:
	case PRIM_BULK_WAIT: case PRIM_BULK_WAIT_READ: case PRIM_BULK_COMMIT: case PRIM_WGMMA_FENCE:
	case PRIM_WGMMA_COMMIT: case PRIM_WGMMA_WAIT: case PRIM_FENCE_ASYNC: case PRIM_FENCE_MBAR: case PRIM_FENCE_GPU:
	case PRIM_GRID_WAIT:
		return true;
	default:
		return false;
	}
}

static void
omit_prim(Emitter *e, PrimKind k, const Reg *in, int nin, const int64_t *imm, int nimm, Reg *out, int nout)
{
	OmitState *s = state(e);
	Reg whole[3];
	const char *what = prim_info[k].text;
	note_code(e, 2000 + (uint64_t)k * 100 + (nimm ? (uint64_t)imm[0] : 0));
	if ((is_barrier(k) && is_left_out(e, OMIT_BARRIER, what)) || (is_wait(k) && is_left_out(e, OMIT_WAIT, what)))
		return;
	for (int i = 0; i < nin; i++)
		if (s->to->type(s->to, in[i]) == REG_SHARED)
			note_address(e, in[i]);
	bool copies = (k == PRIM_CP_ASYNC || k == PRIM_CP_ASYNC_16) && !way_of(s, in[2])->is_constant;
	if (copies && is_left_out(e, OMIT_MASK, what)) {      /* as many bytes are read as there is room for */
		memcpy(whole, in, sizeof whole);
		whole[2] = s->to->int_const(s->to, REG_I32, k == PRIM_CP_ASYNC_16 ? 16 : imm[0]);
		in = whole;
	} else if (copies) {
		Reg none = s->to->int_const(s->to, REG_I32, 0), all;
		note_false(e, s->to->op(s->to, EMIT_EQ, in[2], none, 0));
		if (s->selector) {
			memcpy(whole, in, sizeof whole);
			all = s->to->int_const(s->to, REG_I32, k == PRIM_CP_ASYNC_16 ? 16 : imm[0]);
			whole[2] = s->to->op(s->to, EMIT_SELECT, is_selected(e), all, in[2]);
			in = whole;
		}
	}
	s->to->prim(s->to, k, in, nin, imm, nimm, out, nout);
	if (k == PRIM_THREAD)
		way_of(s, out[0])->is_thread = true;
}

static Reg
omit_int_const(Emitter *e, RegType t, int64_t v)
{
	OmitState *s = state(e);
	Reg r = s->to->int_const(s->to, t, v);
	way_of(s, r)->is_constant = true;
	return r;
}

/* ---- handed on ---- */

static void
omit_kernel_begin(Emitter *e, const EmitKernel *k, Reg *param, Reg *shared)
{
	OmitState *s = state(e);
	s->to->kernel_begin(s->to, k, param, shared);
	e->kernel = s->to->kernel;
	s->selector = 0;
	if (s->o->kind == OMIT_MASK && s->o->n < 0 && s->o->selector) {
		Reg address = s->to->int_const(s->to, REG_I64, (int64_t)(intptr_t)s->o->selector);
		EmitAccess at = {.space = SPACE_PARAM, .type = REG_I32, .n = 1, .align = 4};
		at.base = s->to->cast(s->to, CAST_BITS, REG_GLOBAL, address);
		s->to->load(s->to, &at, &s->selector);
	}
}

static void omit_kernel_end(Emitter *e) { state(e)->to->kernel_end(state(e)->to); }

static void
omit_place(Emitter *e, Place at)
{
	state(e)->place = at;
	state(e)->to->place(state(e)->to, at);
}

#define HAND_ON(result, name, params, ...)                                                                              \
	static result omit_##name params                                                                                \
	{                                                                                                               \
		Emitter *to = state(e)->to;                                                                             \
		__VA_ARGS__;                                                                                            \
	}

HAND_ON(void, name, (Emitter *e, Reg r, const char *name), to->name(to, r, name))
HAND_ON(Reg, float_const, (Emitter *e, RegType t, double v), return to->float_const(to, t, v))
HAND_ON(RegType, type, (Emitter *e, Reg r), return to->type(to, r))
HAND_ON(Reg, pack, (Emitter *e, const Reg *v, int n), return to->pack(to, v, n))
HAND_ON(void, unpack, (Emitter *e, Reg word, RegType t, Reg *out, int n), to->unpack(to, word, t, out, n))
HAND_ON(Reg, lookup, (Emitter *e, RegType t, const int64_t *bits, int n, Reg index),
    return to->lookup(to, t, bits, n, index))
HAND_ON(Reg, loop_begin, (Emitter *e, Reg lo, Reg hi, Reg step, const Reg *init, Reg *inside, int n),
    return to->loop_begin(to, lo, hi, step, init, inside, n))
HAND_ON(void, loop_end, (Emitter *e, const Reg *next, Reg *after, int n), to->loop_end(to, next, after, n))
HAND_ON(void, while_begin, (Emitter *e, const Reg *init, Reg *inside, int n), to->while_begin(to, init, inside, n))
HAND_ON(void, while_test, (Emitter *e, Reg pred), to->while_test(to, pred))
HAND_ON(void, while_end, (Emitter *e, const Reg *next, Reg *after, int n), to->while_end(to, next, after, n))
HAND_ON(void, if_begin, (Emitter *e, Reg pred), to->if_begin(to, pred))
HAND_ON(void, if_else, (Emitter *e, const Reg *then, int n), to->if_else(to, then, n))
HAND_ON(void, if_end, (Emitter *e, const Reg *otherwise, Reg *after, int n), to->if_end(to, otherwise, after, n))
HAND_ON(void, trap, (Emitter *e), to->trap(to))
HAND_ON(void, inline_ptx, (Emitter *e, const char *text, const Reg *in, int nin, const RegType *type, Reg *out, int nout),
    to->inline_ptx(to, text, in, nin, type, out, nout))
HAND_ON(void, print, (Emitter *e, const char *format, const Reg *v, int n), to->print(to, format, v, n))
HAND_ON(void, mma, (Emitter *e, const MmaInfo *i, const Reg *a, const Reg *b, const Reg *c, Reg *out),
    to->mma(to, i, a, b, c, out))
HAND_ON(void, wgmma, (Emitter *e, const Wgmma *w, Reg *out), to->wgmma(to, w, out))
HAND_ON(void, settle, (Emitter *e, const Reg *v, Reg *out, int n), to->settle(to, v, out, n))
#undef HAND_ON

Emitter *
emit_omit_open(Emitter *to, Omit *o)
{
	Emitter *e = NEW(to->mem, Emitter);
	OmitState *s = NEW(to->mem, OmitState);
	*s = (OmitState){.to = to, .o = o, .place = NOWHERE};
	o->count = 0;
	o->code = 0;
	*e = (Emitter){.target = to->target, .mem = to->mem, .state = s, .kernel_begin = omit_kernel_begin,
	    .kernel_end = omit_kernel_end, .place = omit_place, .name = omit_name, .int_const = omit_int_const,
	    .float_const = omit_float_const, .op = omit_op, .cast = omit_cast, .type = omit_type, .pack = omit_pack,
	    .unpack = omit_unpack, .lookup = omit_lookup,
	    .load = omit_load, .store = omit_store, .atomic = omit_atomic, .pointer = omit_pointer,
	    .loop_begin = omit_loop_begin, .loop_end = omit_loop_end, .while_begin = omit_while_begin,
	    .while_test = omit_while_test, .while_end = omit_while_end, .if_begin = omit_if_begin, .if_else = omit_if_else,
	    .if_end = omit_if_end, .trap = omit_trap, .prim = omit_prim,
	    .inline_ptx = to->inline_ptx ? omit_inline_ptx : NULL, .print = to->print ? omit_print : NULL, .mma = omit_mma,
	    .wgmma = to->wgmma ? omit_wgmma : NULL, .settle = to->settle ? omit_settle : NULL};
	return e;
}
