/* Reads and writes of tensors, loads and stores through pointers.
 *
 * An access moves `vector` registers at once; the low register bits are then neighbours in memory and inside or outside
 * together, so the first one's address and mask stand for all.  Every thread reads what it holds; of the threads that
 * hold the same element only the first one writes it.
 *
 * Packed 4-bit types: an access of two elements and more is of whole bytes.  A single one is read with its byte and
 * taken out of it.  A single one is written by two atomics on the word that it stands in, which clear and set its four
 * bits: other threads may be writing the other half of the byte. */
#include "num/num.h"
#include "lower/lower.h"

#include <string.h>

static int
registers_of(const Layout *layout)
{
	return layout ? 1 << layout->in[IN_REGISTER] : 1;
}

/* An access holds no registers that repeat others. */
static int
vector_of(int vector, uint64_t repeats)
{
	while (vector > 1 && (repeats & (uint64_t)(vector - 1)))
		vector /= 2;
	return vector;
}

/* ---- packed elements ---- */

/* Where the element with this number stands: the address of its byte, and its half's first bit (REG_I32). */
static Reg
byte_address(Lower *l, const Value *tensor, Reg element)
{
	return thread_pointer(l->b, lower_regs(l, tensor)[0], lower_op2(l, EMIT_ASHR, element, lower_i64(l, 1)));
}

static Reg
half_shift(Lower *l, Reg element)
{
	Reg odd = lower_op2(l, EMIT_AND, lower_as(l, CAST_TRUNC, REG_I32, element), lower_i32(l, 1));
	return lower_op2(l, EMIT_SHL, odd, lower_i32(l, 2));
}

/* A tile's element from the low or high half of a byte. */
static Reg
take_half(Lower *l, DType t, Reg byte, bool high)
{
	Reg four = thread_int_const(l->b, REG_I8, 4);
	if (high)
		return lower_op2(l, t == TY_I4 ? EMIT_ASHR : EMIT_LSHR, byte, four);
	return lower_wrap(l, t, byte);
}

static void
read_packed(Lower *l, const LowerAccess *a, int r, int n, EmitAccess *at, Reg *out)
{
	Reg element = lower_access_element(l, a, r), byte[16];
	at->base = byte_address(l, a->tensor, element);
	at->n = MAX(n / 2, 1);
	at->type = REG_I8;
	thread_load(l->b, at, byte);
	for (int i = 0; n > 1 && i < n; i++)
		out[i] = take_half(l, a->tile->elem, byte[i / 2], i & 1);
	if (n == 1) {
		Reg word = lower_as(l, CAST_ZEXT, REG_I32, byte[0]);
		word = lower_op2(l, EMIT_LSHR, word, half_shift(l, element));
		out[0] = lower_wrap(l, a->tile->elem, lower_as(l, CAST_TRUNC, REG_I8, word));
	}
}

/* The four bits at `element` through the aligned word around them. */
static void
write_half(Lower *l, const LowerAccess *a, Reg element, Reg mask, Reg v)
{
	Reg base = lower_regs(l, a->tensor)[0], byte = byte_address(l, a->tensor, element);
	Reg address = lower_as(l, CAST_BITS, REG_I64, byte);
	Reg past = lower_op2(l, EMIT_AND, address, lower_i64(l, 3));
	Reg shift = lower_op2(l, EMIT_SHL, lower_as(l, CAST_TRUNC, REG_I32, past), lower_i32(l, 3));
	shift = lower_op2(l, EMIT_ADD, shift, half_shift(l, element));
	Reg aligned = lower_op2(l, EMIT_SUB, address, past);
	Reg delta = lower_op2(l, EMIT_SUB, aligned, lower_as(l, CAST_BITS, REG_I64, base));
	EmitAccess at = {.space = SPACE_GLOBAL, .type = REG_I32, .n = 1, .align = 4, .mask = mask,
		.changes = byte, .base = thread_pointer(l->b, base, delta)};
	Reg hole = lower_op1(l, EMIT_NOT, lower_op2(l, EMIT_SHL, lower_i32(l, 15), shift));
	Reg bits = lower_op2(l, EMIT_AND, lower_as(l, CAST_ZEXT, REG_I32, v), lower_i32(l, 15));
	thread_atomic(l->b, ATOMIC_AND, &at, hole, 0);
	thread_atomic(l->b, ATOMIC_OR, &at, lower_op2(l, EMIT_SHL, bits, shift), 0);
}

static void
write_packed(Lower *l, const LowerAccess *a, int r, int n, EmitAccess *at, const Reg *v)
{
	Reg element = lower_access_element(l, a, r), byte[16];
	if (n == 1) {
		write_half(l, a, element, at->mask, v[0]);
		return;
	}
	at->base = byte_address(l, a->tensor, element);
	at->n = n / 2;
	at->type = REG_I8;
	for (int i = 0; i < n / 2; i++) {
		Reg low = lower_op2(l, EMIT_AND, v[2 * i], thread_int_const(l->b, REG_I8, 15));
		Reg high = lower_op2(l, EMIT_SHL, v[2 * i + 1], thread_int_const(l->b, REG_I8, 4));
		byte[i] = lower_op2(l, EMIT_OR, low, high);
	}
	thread_store(l->b, at, byte);
}

/* ---- reads and writes ---- */

/* Whether the fill is what masked loads give anyway. */
static bool
is_zero(const Value *v)
{
	int64_t i;
	while (v->def && (v->def->kind == OP_BROADCAST || v->def->kind == OP_CONVERT))
		v = v->def->in[0];
	if (value_constant(v, &i))
		return i == 0;
	const Attr *a = value_const(v);
	return a && a->kind == KIND_FLOAT && a->f == 0 && !__builtin_signbit(a->f);
}

/* What stands where a read or load is masked, by register; NULL: 0. */
static const Reg *
fill_of(Lower *l, const Op *op, int i, const Layout *layout)
{
	if (i >= op->nin || is_zero(op->in[i]))
		return NULL;
	if (op->in[i]->type->rank > 0)
		return lower_operand(l, op, i, layout);
	Reg *all = NEW_ARRAY(l->mem, Reg, registers_of(layout));
	for (int r = 0; r < registers_of(layout); r++)
		all[r] = lower_regs(l, op->in[i])[0];
	return all;
}

/* After a load of n registers: bool from bytes, the fill where the mask is false. */
static void
finish_load(Lower *l, RegType t, Reg mask, const Reg *fill, int n, Reg *out)
{
	for (int i = 0; i < n; i++) {
		out[i] = lower_from_memory(l, t, out[i]);
		if (mask && fill)
			out[i] = lower_op3(l, EMIT_SELECT, mask, out[i], fill[i]);
	}
}

static void
repeat_registers(Reg *out, int n, uint64_t repeats)
{
	for (int r = 0; r < n; r++)
		out[r] = out[(uint64_t)r & ~repeats];
}

/* A tensor that is `in` is written only through pointers. */
static CacheHint
read_hint(const Lower *l, const Op *op)
{
	if (op->kind == OP_LOAD)
		return lower_cache(op, CACHE_NONE);
	const FuncParam *p = &l->f->param[op->in[0]->index];
	bool constant = p->access == ACCESS_IN && !l->stores_through_pointers;
	return lower_cache(op, constant && !(l->reduces_angles && op->out[0].layout) ? CACHE_READ_ONLY : CACHE_NONE);
}

static void
lower_read(Lower *l, Op *op)
{
	Value *v = &op->out[0];
	LowerAccess a;
	int n = lower_count(v), at_fill = op->kind == OP_LOAD ? 2 : 1 + op->in[0]->type->rank;
	uint64_t repeats = lower_repeats(v->layout);
	lower_access_make(l, &a, op, v->type, v->layout);
	bool packed = dtype_is_packed(v->type->elem) && !a.pointer;
	int vector = vector_of(a.vector, repeats);
	const Reg *fill = fill_of(l, op, at_fill, v->layout);
	Reg *out = lower_new(l, v);
	for (int r = 0; r < n; r += vector) {
		EmitAccess at = {.type = lower_memory_type(lower_type(v->type)), .n = vector, .cache = read_hint(l, op)};
		if ((uint64_t)r & repeats)
			continue;
		at.align = MAX(a.unit * vector >> packed, 1);
		if (packed) {
			at.mask = lower_access_mask(l, &a, r);
			read_packed(l, &a, r, vector, &at, &out[r]);
		} else {
			lower_access_at(l, &a, r, &at);
			thread_load(l->b, &at, &out[r]);
		}
		finish_load(l, lower_type(v->type), at.mask, fill ? fill + r : NULL, vector, &out[r]);
	}
	repeat_registers(out, n, repeats);
}

static void
lower_write(Lower *l, Op *op)
{
	const Value *v = op->in[op->kind == OP_STORE ? 1 : op->nin - 1];
	LowerAccess a;
	uint64_t repeats = lower_repeats(v->layout);
	const Reg *data = lower_regs(l, v);
	Reg first = lower_is_first_holder(l, v->layout), all[16];
	lower_access_make(l, &a, op, v->type, v->layout);
	bool packed = dtype_is_packed(v->type->elem) && !a.pointer;
	int vector = vector_of(a.vector, repeats);
	for (int r = 0; r < lower_count(v); r += vector) {
		EmitAccess at = {.type = lower_memory_type(lower_type(v->type)), .n = vector,
			.cache = lower_cache(op, CACHE_NONE)};
		if ((uint64_t)r & repeats)
			continue;
		at.align = MAX(a.unit * vector >> packed, 1);
		if (packed) {
			at.mask = lower_both(l, first, lower_access_mask(l, &a, r));
			at.space = SPACE_GLOBAL;
			write_packed(l, &a, r, vector, &at, &data[r]);
			continue;
		}
		lower_access_at(l, &a, r, &at);
		at.mask = lower_both(l, first, at.mask);
		for (int i = 0; i < vector; i++)
			all[i] = lower_to_memory(l, lower_type(v->type), data[r + i]);
		thread_store(l->b, &at, all);
	}
}

void
lower_memory(Lower *l, Op *op)
{
	switch (op->kind) {
	case OP_READ:
	case OP_LOAD:
		lower_read(l, op);
		return;
	case OP_WRITE:
	case OP_STORE:
		lower_write(l, op);
		return;
	default:
		return;                                 /* a prefetch is a hint, and the reads ask early enough */
	}
}
