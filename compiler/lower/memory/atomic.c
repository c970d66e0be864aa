/* Atomics on elements of tensors and through pointers.
 *
 * Of the threads that hold the same element the first one acts; where the old values are used, the others get them from
 * it through shared memory.  What a machine has no atomic for (narrow types, bf16 before sm_90, the least and greatest of
 * floats) is made of compare-and-swap on the element, or for bytes on the word around it:
 *
 *     old = load                                    until no other thread came between
 *     loop: new = fn(old, v); old = cas(old, new)
 *
 * Where data names the places, lanes of a warp often have one in common, as of sorted segments: the L2 cache does what they
 * add one after the other.  What all lanes add to one element they join first:
 *
 *     if ballot(place == place of lane 0) == -1
 *         v = sum over lanes; lane 0: atomic v
 *     else
 *         atomic v
 *
 * The order asked for costs nothing where no program can observe it: in kernels that read nothing that programs write,
 * and use the result of one atomic at most.  There sums of floats, which are no signals to other kernels either, are
 * relaxed, and an atomic whose old value is not used and which is the program's only access.  Other kernels are refused on
 * a target whose atomics are all relaxed. */
#include "lower/lower.h"
#include "thread/words.h"

#include <string.h>

typedef struct Atomic {
	const Op *op;
	const char *fn;
	DType t;
	RegType reg;
	AtomicKind kind;                                /* where the thread IR has it */
	OpKind combine;                                 /* else; OP_COUNT: none, exchange or cas */
	bool native, is_cas, is_float;
	bool in_word;                                   /* swapped with the word around it */
} Atomic;

static const struct {
	const char *fn;
	AtomicKind s, u;
	OpKind combine;
} kinds[] = {
	{"add", ATOMIC_ADD, ATOMIC_ADD, OP_ADD},
	{"min", ATOMIC_MIN, ATOMIC_UMIN, OP_MIN},
	{"max", ATOMIC_MAX, ATOMIC_UMAX, OP_MAX},
	{"and", ATOMIC_AND, ATOMIC_AND, OP_AND},
	{"or", ATOMIC_OR, ATOMIC_OR, OP_OR},
	{"xor", ATOMIC_XOR, ATOMIC_XOR, OP_XOR},
	{"exchange", ATOMIC_EXCHANGE, ATOMIC_EXCHANGE, OP_COUNT},
	{"cas", ATOMIC_CAS, ATOMIC_CAS, OP_COUNT},
};

static Atomic
make(const Op *op, const Type *tile, const Target *t)
{
	Atomic a = {.op = op, .fn = attr_fn(op), .t = tile->elem, .reg = lower_type(tile)};
	int k = 0;
	while (strcmp(kinds[k].fn, a.fn) != 0)
		k++;
	a.kind = dtype_is_unsigned(a.t) ? kinds[k].u : kinds[k].s;
	a.combine = kinds[k].combine;
	a.is_cas = a.kind == ATOMIC_CAS;
	a.is_float = dtype_is_float(a.t);
	bool word = dtype_info[a.t].bits >= 32;
	if (a.is_float)
		a.native = a.kind == ATOMIC_ADD ? a.reg != REG_I8 && (a.t != TY_BF16 || t->has & HAS_ATOMIC_PAIRS)
		                                : a.combine == OP_COUNT && word;
	else
		a.native = word;
	a.native = a.native || (a.is_cas && dtype_info[a.t].bits == 16);
	if (dtype_info[a.t].bits == 16 && !(t->has & HAS_ATOMIC_NARROW))
		a.native = false;
	a.in_word = dtype_info[a.t].bits == 8 || (dtype_info[a.t].bits == 16 && !(t->has & HAS_ATOMIC_NARROW));
	return a;
}

/* The program's only access to memory, in no loop: there is none that other programs could observe in another order. */
static bool
is_alone(const Lower *l, const Op *op)
{
	for (const Op *up = op->home->parent; up; up = up->home->parent)
		if (up->kind != OP_IF)
			return false;
	for (const Op *other = l->f->body->first; other; other = op_after(other, l->f->body)) {
		bool constant = other->kind == OP_READ && l->f->param[other->in[0]->index].access == ACCESS_IN;
		if (other != op && !constant && (op_info[other->kind].traits & (READS | WRITES | EFFECT)))
			return false;
	}
	return op->out[0].nuses == 0;
}

/* Whether the target has the order, or the kernel does not need it. */
static bool
check_order(Lower *l, const Op *op)
{
	bool is_local = strcmp(attr_scope(op), "cta") == 0, is_relaxed = strcmp(attr_order(op), "relaxed") == 0;
	if ((l->t->has & HAS_ATOMIC_ORDER) || is_local || is_relaxed || !func_observes_order(l->f))
		return true;
	lower_refuse(l, op, arena_printf(l->mem, "order = %s where programs read what others write", attr_order(op)));
	diag_help(l->cx, "its atomics are relaxed: use two kernels, or order = relaxed if the order does not matter");
	return false;
}

static AtomicOrder
order_of(const Lower *l, const Op *op)
{
	bool is_sum = op->out[0].nuses == 0 && strcmp(attr_fn(op), "add") == 0 && dtype_is_float(op->out[0].type->elem);
	if (!(l->t->has & HAS_ATOMIC_ORDER) || is_alone(l, op) ||
	    (is_sum && strcmp(attr_scope(op), "sys") != 0 && !func_observes_order(l->f)))
		return ORDER_RELAXED;
	return VALUE_OF(i, THREAD_ORDERS, strcmp(attr_order(op), thread_order_text[i]) == 0, (AtomicOrder)i,
	    ORDER_ACQ_REL);
}

static AtomicScope
scope_of(const Op *op)
{
	return VALUE_OF(i, THREAD_SCOPES, strcmp(attr_scope(op), thread_scope_text[i]) == 0, (AtomicScope)i, SCOPE_GPU);
}

/* The integer register of a type's width. */
static RegType
bits_type(DType t)
{
	int bits = dtype_info[t].bits;
	return bits == 64 ? REG_I64 : bits == 32 ? REG_I32 : bits == 16 ? REG_I16 : REG_I8;
}

static Reg
to_bits(Lower *l, const Atomic *a, Reg r)
{
	return a->is_float && a->reg != REG_I8 ? lower_as(l, CAST_BITS, bits_type(a->t), r) : r;
}

static Reg
from_bits(Lower *l, const Atomic *a, Reg r)
{
	return a->is_float && a->reg != REG_I8 ? lower_as(l, CAST_BITS, a->reg, r) : r;
}

static Reg
run_native(Lower *l, const Atomic *a, ThreadAccess *at, Reg v, Reg compare)
{
	if (a->kind == ATOMIC_ADD) {
		at->type = a->reg;
		return thread_atomic(l->b, a->kind, at, v, 0);
	}
	at->type = bits_type(a->t);
	Reg old = thread_atomic(l->b, a->kind, at, to_bits(l, a, v), a->is_cas ? to_bits(l, a, compare) : 0);
	return from_bits(l, a, old);
}

/* ---- by compare-and-swap ---- */

/* What the access of a byte or two becomes: the word around it, and the first bit there. */
static Reg
widen_access(Lower *l, ThreadAccess *at)
{
	Reg address = lower_as(l, CAST_BITS, REG_I64, at->base);
	if (at->constant)
		address = lower_op2(l, THREAD_ADD, address, lower_i64(l, at->constant));
	Reg past = lower_op2(l, THREAD_AND, address, lower_i64(l, 3));
	at->base = thread_pointer(l->b, at->base,
	    lower_op2(l, THREAD_SUB, lower_i64(l, at->constant), past));
	at->constant = 0;
	at->align = 4;
	return lower_op2(l, THREAD_SHL, lower_as(l, CAST_TRUNC, REG_I32, past), lower_i32(l, 3));
}

static Reg
element_of(Lower *l, const Atomic *a, Reg held, Reg shift)
{
	if (!shift)
		return from_bits(l, a, held);
	return from_bits(l, a, lower_as(l, CAST_TRUNC, bits_type(a->t), lower_op2(l, THREAD_LSHR, held, shift)));
}

static Reg
put_element(Lower *l, const Atomic *a, Reg held, Reg shift, Reg v)
{
	if (!shift)
		return to_bits(l, a, v);
	int64_t all = (INT64_C(1) << dtype_info[a->t].bits) - 1;
	Reg hole = lower_op1(l, THREAD_NOT, lower_op2(l, THREAD_SHL, lower_i32(l, all), shift));
	Reg put = lower_op2(l, THREAD_SHL, lower_as(l, CAST_ZEXT, REG_I32, to_bits(l, a, v)), shift);
	return lower_op2(l, THREAD_OR, lower_op2(l, THREAD_AND, held, hole), put);
}

/* The loop; the mask is known to hold. */
static Reg
swap_loop(Lower *l, const Atomic *a, ThreadAccess *at, Reg v, Reg compare)
{
	Reg shift = a->in_word ? widen_access(l, at) : 0, init[2], inside[2], next[2], after[2];
	at->type = shift ? REG_I32 : bits_type(a->t);
	at->n = 1;
	at->mask = 0;
	ThreadAccess first = *at;
	first.cache = CACHE_VOLATILE;
	thread_load(l->b, &first, &init[0]);
	init[1] = thread_int_const(l->b, REG_PRED, 1);
	thread_while(l->b, init, inside, 2);
	thread_while_test(l->b, inside[1]);
	Reg old = element_of(l, a, inside[0], shift), stop = 0, new = v;
	if (a->is_cas)
		stop = lower_op2(l, THREAD_NE, to_bits(l, a, old), to_bits(l, a, compare));
	else if (a->combine != OP_COUNT)
		new = lower_arithmetic(l, a->combine, a->t, old, v);
	Reg put = put_element(l, a, inside[0], shift, new);
	if (stop)                                       /* what is there is put back */
		put = lower_op3(l, THREAD_SELECT, stop, inside[0], put);
	next[0] = thread_atomic(l->b, ATOMIC_CAS, at, put, inside[0]);
	next[1] = lower_op2(l, THREAD_NE, next[0], inside[0]);
	thread_while_end(l->b, next, after, 2);
	return element_of(l, a, after[0], shift);
}

static Reg
run_swap(Lower *l, const Atomic *a, ThreadAccess *at, Reg v, Reg compare)
{
	Reg mask = at->mask, old, zero, after;
	if (!mask)
		return swap_loop(l, a, at, v, compare);
	thread_if(l->b, mask);
	old = to_bits(l, a, swap_loop(l, a, at, v, compare));
	thread_else(l->b, &old, 1);
	zero = thread_int_const(l->b, bits_type(a->t), 0);
	thread_if_end(l->b, &zero, &after, 1);
	return from_bits(l, a, after);
}

/* ---- of a warp ---- */

/* Do places follow from data, so that lanes may have one in common, and is none of the lanes' values used? */
static bool
joins_lanes(const Lower *l, const Atomic *a, const Layout *layout, Reg acts)
{
	enum { WORD_BITS = 32 };
	const Op *op = a->op;
	bool is_gather = op->kind == OP_ATOMIC && strchr(attr_index(op), 'g');
	return is_gather && layout && !acts && op->out[0].nuses == 0 && l->t->kind == TARGET_PTX && a->native &&
	    a->combine != OP_COUNT && dtype_info[a->t].bits == WORD_BITS && order_of(l, op) == ORDER_RELAXED;
}

static Reg
is_one_place(Lower *l, const ThreadAccess *at)
{
	Reg is = at->mask, all;
	Reg half[2] = {at->offset};
	int n = 1;
	if (at->space != SPACE_SHARED) {
		Reg place = at->offset ? thread_pointer(l->b, at->base, at->offset) : at->base;
		Reg address = lower_as(l, CAST_BITS, REG_I64, place);
		half[0] = lower_as(l, CAST_TRUNC, REG_I32, address);
		half[n++] = lower_as(l, CAST_TRUNC, REG_I32, lower_op2(l, THREAD_LSHR, address, lower_i64(l, 32)));
	}
	for (int i = 0; i < n; i++)
		is = lower_both(l, is,
		    lower_op2(l, THREAD_EQ, half[i], lower_lane_from(l, REG_I32, half[i], lower_i32(l, 0))));
	thread_prim(l->b, PRIM_VOTE_BALLOT, &is, 1, NULL, 0, &all, 1);
	return lower_op2(l, THREAD_EQ, all, lower_i32(l, -1));
}

static void
run_joined(Lower *l, const Atomic *a, ThreadAccess *at, Reg v)
{
	ThreadAccess one = *at;
	Reg sum = v;
	thread_if(l->b, is_one_place(l, at));
	for (int lanes = 1; lanes < l->t->lanes; lanes *= 2)
		sum = lower_arithmetic(l, a->combine, a->t, sum, lower_lane_xor(l, a->reg, sum, lanes));
	one.mask = lower_op2(l, THREAD_EQ, l->lane, lower_i32(l, 0));
	run_native(l, a, &one, sum, 0);
	thread_else(l->b, NULL, 0);
	run_native(l, a, at, v, 0);
	thread_if_end(l->b, NULL, NULL, 0);
}

/* ---- in shared memory ---- */

/* The place in a buffer of one element of each index, and is it in there? */
static Reg
tally_place(Lower *l, const Op *op, int r, Reg *inside)
{
	const Type *slot = op->in[0]->type;
	Reg at = 0;
	for (int d = 0; d < slot->rank; d++) {
		const Value *index = op->in[1 + d];
		int64_t n = slot->extent[d];
		Reg within, i = lower_bounded_index(l, index->type->elem, lower_regs(l, index)[r], n, &within);
		at = at ? lower_op2(l, THREAD_ADD, lower_op2(l, THREAD_MUL, at, lower_i32(l, n)), i) : i;
		*inside = lower_both(l, *inside, within);
	}
	return at;
}

/* The greatest or least of floats, of which none is NaN there: bits of those at and above 0 rise with them, as signed
 * numbers, which all others are below; of others they fall, and are above as unsigned ones.  A NaN loses. */
static void
run_by_bits(Lower *l, Atomic a, ThreadAccess *at, Reg v)
{
	bool most = a.kind == ATOMIC_MAX;
	Reg inside = lower_both(l, at->mask, lower_arithmetic(l, OP_EQ, a.t, v, v));
	Reg below = lower_op2(l, THREAD_SLT, to_bits(l, &a, v), thread_int_const(l->b, bits_type(a.t), 0));
	at->mask = lower_both(l, inside, lower_op1(l, THREAD_NOT, below));
	run_native(l, &a, at, v, 0);
	a.kind = most ? ATOMIC_UMIN : ATOMIC_UMAX;
	at->mask = lower_both(l, inside, below);
	run_native(l, &a, at, v, 0);
}

/* Ones that many lanes add to one element an instruction counts; sums of floats are swapped, a lane at a time. */
void
lower_tally(Lower *l, Op *op)
{
	enum { WORD_BITS = 32 };
	const Value *v = op->in[op->nin - 1];
	Atomic a = make(op, v->type, l->t);
	a.native &= !a.is_float || l->t->kind == TARGET_PTX;
	uint64_t repeats = lower_repeats(v->layout);
	Reg acts = lower_is_first_holder(l, v->layout), base = lower_regs(l, op->in[0])[0];
	const Reg *in = lower_regs(l, v);
	bool joined = !acts && a.native && l->t->kind == TARGET_PTX && dtype_info[a.t].bits == WORD_BITS &&
	    !(a.kind == ATOMIC_ADD && v->def && v->def->kind == OP_CONST && !a.is_float);
	for (int r = 0; r < lower_count(v); r++) {
		if ((uint64_t)r & repeats)
			continue;
		Reg inside = acts, i = tally_place(l, op, r, &inside);
		ThreadAccess at = lower_shared_access(base, a.reg);
		at.scope = SCOPE_CTA;
		at.offset = lower_op2(l, THREAD_MUL, i, lower_i32(l, dtype_info[a.t].bits / 8));
		at.mask = inside;
		if (joined)
			run_joined(l, &a, &at, in[r]);
		else if (a.native)
			run_native(l, &a, &at, in[r], 0);
		else if (l->t->kind == TARGET_PTX)
			run_by_bits(l, a, &at, in[r]);
		else
			run_swap(l, &a, &at, in[r], 0);
	}
}

/* ---- ops ---- */

/* Old values from the first holders to the others. */
static void
share(Lower *l, const Op *op, Reg *old, const Layout *layout, RegType type)
{
	Reg base = lower_scratch(l, op);
	if (layout) {
		Layout shared = layout_best_shared(layout, layout, thread_type_bytes(type));
		lower_to_shared(l, base, old, layout, &shared, type);
		lower_barrier(l);
		lower_from_shared(l, base, old, layout, &shared, type);
		return;
	}
	ThreadAccess at = lower_shared_access(base, type);
	at.mask = lower_is_first_holder(l, NULL);
	thread_store(l->b, &at, old);
	lower_barrier(l);
	at.mask = 0;
	thread_load(l->b, &at, old);
}

/* Neighbours in one register. */
static Reg
pair_of(Lower *l, const Atomic *a, const Reg *v)
{
	RegType t = thread_atomic_type(&(ThreadAccess){.type = a->reg, .n = 2});
	Reg low = lower_as(l, CAST_ZEXT, t, to_bits(l, a, v[0])), high = lower_as(l, CAST_ZEXT, t, to_bits(l, a, v[1]));
	Reg by = thread_int_const(l->b, t, dtype_info[a->t].bits);
	return lower_op2(l, THREAD_OR, low, lower_op2(l, THREAD_SHL, high, by));
}

void
lower_atomic(Lower *l, Op *op)
{
	Value *v = &op->out[0];
	const Layout *layout = v->layout;
	Atomic a = make(op, v->type, l->t);
	bool through = op->kind == OP_ATOMIC_PTR;
	if (dtype_info[a.t].bits == 64 && !(l->t->has & HAS_ATOMIC_64)) {
		lower_refuse(l, op, arena_printf(l->mem, "an atomic operation on %s", dtype_info[a.t].text));
		return;
	}
	if (!check_order(l, op))
		return;
	int at_data = through ? 1 : 1 + op->in[0]->type->rank;
	uint64_t repeats = lower_repeats(layout);
	LowerAccess access;
	lower_access_make(l, &access, op, v->type, layout);
	const Reg *first = lower_operand(l, op, at_data, layout);
	const Reg *second = a.is_cas ? lower_operand(l, op, at_data + 1, layout) : NULL;
	Reg *out = lower_new(l, v);
	Reg acts = lower_is_first_holder(l, layout);
	bool joined = joins_lanes(l, &a, layout, acts);
	for (int r = 0; r < lower_count(v); r += access.vector) {
		ThreadAccess at = {.n = access.vector, .align = access.vector * dtype_info[a.t].bits / 8,
			.order = order_of(l, op), .scope = scope_of(op)};
		if ((uint64_t)r & repeats)
			continue;
		lower_access_at(l, &access, r, &at);
		at.mask = lower_both(l, acts, at.mask);
		if (access.vector == 2) {
			at.type = a.reg;
			out[r] = out[r + 1] = lower_zero(l, a.reg);
			thread_atomic(l->b, a.kind, &at, pair_of(l, &a, first + r), 0);
			continue;
		}
		if (joined) {
			out[r] = lower_zero(l, a.reg);
			run_joined(l, &a, &at, first[r]);
			continue;
		}
		Reg put = second ? second[r] : first[r], compare = second ? first[r] : 0;
		out[r] = a.native ? run_native(l, &a, &at, put, compare) : run_swap(l, &a, &at, put, compare);
	}
	for (int r = 0; r < lower_count(v); r++)
		out[r] = out[(uint64_t)r & ~repeats];
	if (atomic_is_shared(op))
		share(l, op, out, layout, a.reg);
}
