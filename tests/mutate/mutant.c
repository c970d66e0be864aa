/* The n-th thing of a kind in the thread IR is dropped or changed:
 *
 *     store.shared.f32 r3, [r5 + r9]               store.shared.f32 r3, [r5 + r9]
 *     barrier                             =>
 *     r11: f32 = load.shared [r5 + r10]            r11: f32 = load.shared [r5 + r10]
 *
 * A run with n = -1 changes nothing and notes what there is.  It may also note which bounds checks were ever false: its code
 * then stores to memory of this process, which only an emulator without checks allows. */
#include "tests/mutate/mutant.h"

const MutantInfo mutant_info[MUTANT_KINDS] = {
#define MUTANT(id, name, meaning, in_table) {name, in_table},
#include "tests/mutate/mutants.def"
#undef MUTANT
};

typedef struct Walk {
	ThreadModule *m;
	Mutant *o;
	bool *is_address;                               /* by Reg of the module as it was: an address is made of it */
} Walk;

/* ---- swizzles: exclusive ors that addresses in shared memory are made of ---- */

static void
mark(Walk *w, Reg r)
{
	if (!r || w->is_address[r])
		return;
	w->is_address[r] = true;
	const ThreadNode *n = thread_def(w->m, r);
	if (n->kind == NODE_OP || n->kind == NODE_CAST || n->kind == NODE_POINTER)
		for (int i = 0; i < n->nin; i++)
			mark(w, n->in[i]);
}

static void
mark_addresses(Walk *w, const ThreadRegion *r)
{
	for (int i = 0; i < r->body.n; i++) {
		const ThreadNode *n = r->body.at[i];
		if (n->at && n->at->space == SPACE_SHARED) {
			mark(w, n->at->base);
			mark(w, n->at->offset);
		}
		for (int k = 0; n->kind == NODE_PRIM && k < n->nin; k++)
			if (thread_type(w->m, n->in[k]) == REG_SHARED)
				mark(w, n->in[k]);
		for (int k = 0; k < 2 && n->region[k]; k++)
			mark_addresses(w, n->region[k]);
	}
}

/* ---- bounds checks ---- */

static bool
is_constant(const ThreadModule *m, Reg r)
{
	return thread_def(m, r)->kind == NODE_CONST;
}

/* The thread's number, or bits of it. */
static bool
is_thread(const ThreadModule *m, Reg r)
{
	const ThreadNode *n = thread_def(m, r);
	return (n->kind == NODE_PRIM && n->op == PRIM_THREAD) ||
	    (n->kind == NODE_OP && n->op == THREAD_AND && is_constant(m, n->in[1]) && is_thread(m, n->in[0]));
}

/* Of those threads that hold the same element only the first writes it: nothing is checked by that. */
static bool
is_bounds_check(const ThreadModule *m, Reg mask)
{
	const ThreadNode *n = mask ? thread_def(m, mask) : NULL;
	return n && !(n->kind == NODE_OP && n->op == THREAD_EQ && is_thread(m, n->in[0]) && is_constant(m, n->in[1]));
}

static bool
is_masked_copy(const ThreadModule *m, const ThreadNode *n)
{
	return n->kind == NODE_PRIM && (n->op == PRIM_CP_ASYNC || n->op == PRIM_CP_ASYNC_16) && !is_constant(m, n->in[2]);
}

/* Its code notes that the check of a node was false. */
static void
note_false(ThreadBuilder *b, const ThreadNode *n, unsigned char *byte)
{
	const Reg one = thread_int_const(b, REG_I8, 1), address = thread_int_const(b, REG_I64, (int64_t)(intptr_t)byte);
	ThreadAccess at = {.space = SPACE_GLOBAL, .type = REG_I8, .n = 1, .align = 1};
	at.mask = n->at ? thread_op(b, THREAD_NOT, n->at->mask, 0, 0)
	                : thread_op(b, THREAD_EQ, n->in[2], thread_int_const(b, REG_I32, 0), 0);
	at.base = thread_cast(b, CAST_BITS, REG_GLOBAL, address);
	thread_store(b, &at, &one);
}

/* ---- what can be changed ---- */

static bool
is_mutable_prim(MutantKind kind, PrimKind p)
{
	switch (p) {
	case PRIM_BARRIER: case PRIM_BARRIER_PART: case PRIM_BARRIER_AT: case PRIM_WARP_BARRIER:
	case PRIM_CLUSTER_ARRIVE: case PRIM_CLUSTER_WAIT:
		return kind == MUTANT_BARRIER;
	case PRIM_CP_WAIT: case PRIM_WGMMA_WAIT: case PRIM_BULK_WAIT: case PRIM_BULK_WAIT_READ:
		return kind == MUTANT_WAIT || kind == MUTANT_WEAKER;
	case PRIM_MBAR_WAIT:
		return kind == MUTANT_WAIT || kind == MUTANT_PARITY;
	case PRIM_GRID_WAIT:
		return kind == MUTANT_WAIT;
	case PRIM_MBAR_POLL:
		return kind == MUTANT_PARITY;
	case PRIM_CP_COMMIT: case PRIM_BULK_COMMIT: case PRIM_WGMMA_COMMIT:
		return kind == MUTANT_COMMIT;
	case PRIM_MBAR_ARRIVE: case PRIM_CP_ARRIVE: case PRIM_CLUSTER_SIGNAL:
		return kind == MUTANT_ARRIVE;
	case PRIM_MBAR_EXPECT:
		return kind == MUTANT_EXPECT || kind == MUTANT_SURPLUS || kind == MUTANT_DEFICIT;
	case PRIM_WGMMA_FENCE: case PRIM_FENCE_ASYNC: case PRIM_FENCE_MBAR:
		return kind == MUTANT_FENCE;
	case PRIM_SHUFFLE: case PRIM_SHUFFLE_XOR:
		return kind == MUTANT_SHUFFLE;
	default:
		return false;
	}
}

/* What it is; NULL: it is not of the kind. */
static const char *
candidate(const Walk *w, const ThreadNode *n, MutantKind kind)
{
	switch (n->kind) {
	case NODE_PRIM:
		return is_mutable_prim(kind, (PrimKind)n->op) || (kind == MUTANT_MASK && is_masked_copy(w->m, n))
		    ? prim_info[n->op].text : NULL;
	case NODE_LOAD: case NODE_STORE: case NODE_ATOMIC:
		if (kind == MUTANT_ORDER)
			return n->kind == NODE_ATOMIC && n->at->order != ORDER_RELAXED ? "atomic" : NULL;
		return kind != MUTANT_MASK || !is_bounds_check(w->m, n->at->mask) ? NULL
		    : n->kind == NODE_LOAD ? "load" : n->kind == NODE_STORE ? "store" : "atomic";
	case NODE_OP:
		if (kind == MUTANT_SWIZZLE && n->op == THREAD_XOR && n->type == REG_I32 && w->is_address[n->out[0]])
			return "xor";
		return kind == MUTANT_BOUND && n->op == THREAD_SLT ? "slt" : NULL;
	case NODE_MMA:
		return kind == MUTANT_FRAGMENT ? "mma" : NULL;
	default:
		return NULL;
	}
}

/* ---- and how ---- */

static Reg
half_reach(ThreadBuilder *b, const ThreadNode *n)
{
	Reg lane, some;
	thread_prim(b, PRIM_LANE, NULL, 0, NULL, 0, &lane, 1);
	thread_if(b, thread_op(b, THREAD_ULT, lane, thread_int_const(b, REG_I32, 16), 0));
	thread_prim(b, (PrimKind)n->op, n->in, n->nin, n->imm, n->nimm, &some, 1);
	thread_else(b, &some, 1);
	thread_if_end(b, n->in, &some, 1);
	return some;
}

static Reg
with_const(ThreadBuilder *b, ThreadOp op, Reg r, int64_t c)
{
	return thread_op(b, op, r, thread_int_const(b, REG_I32, c), 0);
}

/* A register that holds the node's result, or 0. */
static Reg
change(ThreadBuilder *b, ThreadNode *n, MutantKind kind)
{
	switch (kind) {
	case MUTANT_WEAKER: {
		int64_t *imm = NEW(thread_module_of(b)->mem, int64_t);
		*imm = n->imm[0] + 1;
		n->imm = imm;
		return 0;
	}
	case MUTANT_SURPLUS: n->in[1] = with_const(b, THREAD_ADD, n->in[1], 16); return 0;
	case MUTANT_DEFICIT: n->in[1] = with_const(b, THREAD_SUB, n->in[1], 16); return 0;
	case MUTANT_PARITY: n->in[1] = with_const(b, THREAD_XOR, n->in[1], 1); return 0;
	case MUTANT_ORDER: n->at->order = ORDER_RELAXED; return 0;
	case MUTANT_MASK:
		if (n->at)
			n->at->mask = 0;
		else
			n->in[2] = thread_int_const(b, REG_I32, n->op == PRIM_CP_ASYNC_16 ? 16 : n->imm[0]);
		return 0;
	case MUTANT_SWIZZLE: return n->in[0];
	case MUTANT_BOUND: n->op = THREAD_SLE; return 0;
	case MUTANT_SHUFFLE: return half_reach(b, n);
	case MUTANT_FRAGMENT: {
		Reg first = n->in[0];
		n->in[0] = n->in[1];
		n->in[1] = first;
		return 0;
	}
	default:
		*n = (ThreadNode){.kind = NODE_PRIM, .op = PRIM_LANE, .id = n->id, .home = n->home, .place = n->place};
		return 0;                               /* without effect and result: it is swept out */
	}
}

static void
note_code(Mutant *o, const ThreadNode *n)
{
	uint64_t what = (uint64_t)n->kind * 1000 + (uint64_t)n->op * 10;
	if (n->at)
		what += (uint64_t)n->at->space * 100000 + (uint64_t)n->at->type * 10000 + (uint64_t)n->at->n;
	if (n->kind == NODE_PRIM && n->nimm)
		what += (uint64_t)n->imm[0] * 100000;
	o->code = (o->code ^ what) * UINT64_C(0x9e3779b97f4a7c15);
	o->code ^= o->code >> 29;
}

static Reg
choose(ThreadBuilder *b, ThreadNode *n, void *state)
{
	const Walk *w = state;
	Mutant *o = w->o;
	Reg r = 0;
	bool is_changed = false;
	note_code(o, n);
	for (int k = 0; k < MUTANT_KINDS && !is_changed && o->count < MUTANTS_MOST; k++) {
		const char *what = candidate(w, n, (MutantKind)k);
		if (!what)
			continue;
		int i = o->count++;
		if (o->note)
			o->note[i] = (MutantNote){(MutantKind)k, what, n->place};
		if (o->was_false && k == MUTANT_MASK)
			note_false(b, n, &o->was_false[i]);
		if ((is_changed = i == o->n))
			r = change(b, n, (MutantKind)k);
	}
	return r;
}

void
mutant_apply(ThreadModule *m, Mutant *o, bool goes_on)
{
	Walk w = {.m = m, .o = o, .is_address = NEW_ARRAY(m->mem, bool, m->reg.n + 1)};
	mark_addresses(&w, m->body);
	o->count = goes_on ? o->count : 0;
	o->code = goes_on ? o->code : 0;
	thread_rewrite(m, choose, &w);
}
