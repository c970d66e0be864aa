/* Reads and writes of tensors, loads and stores through pointers.
 *
 * An access moves `vector` registers at once; the low register bits are then neighbours in memory and inside or outside
 * together, so the first one's address and mask stand for all.  Every thread reads what it holds; of the threads that
 * hold the same element only the first one writes it. */
#include "lower/lower.h"

#include "pass/layout/axis.h"

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
	Reg *all = MAP_OF(l->mem, Reg, r, registers_of(layout), lower_regs(l, op->in[i])[0]);
	return all;
}

/* Are there so many reads by tiles of indices that their predicates are more than a thread has?  Of fewer, holding indices
 * costs more than it gains (resize2 in bench/warps on an H200: 67 us for 47). */
static bool
has_many_gathers(const Func *f)
{
	enum { MANY = 5 };
	int n = COUNT_OPS(op, f->body, op->kind == OP_READ && strchr(attr_index(op), 'g') != NULL);
	return n >= MANY;
}

static const Reg *
zeros(Lower *l, RegType t, int n)
{
	Reg zero = thread_is_float(t) ? thread_float_const(l->b, t, 0) : thread_int_const(l->b, t, 0);
	Reg *all = MAP_OF(l->mem, Reg, r, n, zero);
	return all;
}

/* After a load of n registers: bool from bytes, the fill where the mask is false. */
static void
finish_load(Lower *l, RegType t, Reg mask, const Reg *fill, int n, Reg *out)
{
	for (int i = 0; i < n; i++) {
		out[i] = lower_from_memory(l, t, out[i]);
		if (mask && fill)
			out[i] = lower_op3(l, THREAD_SELECT, mask, out[i], fill[i]);
	}
}

/* Are a load's registers set to the fill before it, so that no choice follows (emit/llvm/llvm_nvptx_memory.c)?  In loops:
 * of the greatest steps back in rows of 10,000 an H200 took 48.5 us for 75.8, of a cross entropy 0.81 of the time.
 * Straight code took longer so (ce_1000 in bench/warps 36.1 for 33.7, maxpool3s2 68.1 for 63.1). */
static bool
is_set_before(const Lower *l, const Op *op, RegType t, const Reg *fill, int n)
{
	const Op *loop = op->home->parent;
	while (loop && (!op_is_loop(loop) || op_is_over_programs(loop)))
		loop = loop->home->parent;
	bool same = ALL_OF(i, n, fill[i] == fill[0]);
	return loop && same && l->t->kind == TARGET_PTX && lower_memory_type(t) == t;
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

/* One channel of WINDOW interleaved records: their words are read, which reads of other channels share.
 *
 *     r0 g0 b0 r1 | g1 b1 r2 g2 | b2 r3 g3 b3          three words of u8[4, 3] */
static Reg
window_element(Lower *l, const LowerAccess *a, RegType t, const Reg *word, int64_t byte)
{
	Reg w = word[byte / 4];
	if (byte % 4)
		w = lower_op2(l, THREAD_LSHR, w, lower_i32(l, byte % 4 * 8));
	w = lower_as(l, CAST_TRUNC, a->unit == 1 ? REG_I8 : REG_I16, w);
	return t == REG_I8 || t == REG_I16 ? w : lower_as(l, CAST_BITS, t, w);
}

static Reg
read_window(Lower *l, const LowerAccess *a, RegType t, int r, Reg out[WINDOW])
{
	Reg word[WINDOW];
	int64_t channel = 0, channels = a->tensor->type->extent[a->nd - 1];
	ThreadAccess at = {0};
	value_constant(a->dim[a->nd - 1].index, &channel);
	lower_access_at(l, a, r, &at);
	at.type = REG_I32;
	at.n = 1;
	at.align = 4;
	at.cache = read_hint(l, a->op);
	for (int i = 0; i < a->window; i++) {
		thread_load(l->b, &at, &word[i]);
		at.constant += 4;
	}
	for (int i = 0; i < WINDOW; i++)
		out[i] = window_element(l, a, t, word, (i * channels + channel) * a->unit);
	return at.mask;
}

/* Whole records of a thread, from register r on: as many vectors as a record has elements, each of as many elements as
 * there are records; registers are by record, with the record's extent made a power of two.
 *
 *     x0 y0 z0 x1 | y1 z1 x2 y2 | z2 x3 y3 z3          four records of f32[4, 3], three vectors of four */
static int
record_extent(const LowerAccess *a)
{
	return 1 << a->layout->out[a->layout->rank - 1];
}

static ThreadAccess
record_vector(Lower *l, const LowerAccess *a, RegType t, int r, int i)
{
	ThreadAccess at = {.type = t, .n = a->records, .align = a->unit * a->records};
	lower_access_at(l, a, r, &at);
	at.constant += (int64_t)i * a->records * a->unit;
	return at;
}

static Reg
read_records(Lower *l, const LowerAccess *a, RegType t, int r, Reg *out)
{
	int n = (int)a->tensor->type->extent[a->nd - 1], extent = record_extent(a);
	Reg all[16], mask = 0;
	for (int i = 0; i < a->records * extent; i++)
		out[i] = lower_zero(l, t);              /* and what is behind a record */
	for (int i = 0; i < n; i++) {
		ThreadAccess at = record_vector(l, a, t, r, i);
		at.cache = read_hint(l, a->op);
		thread_load(l->b, &at, all);
		mask = at.mask;
		for (int e = i * a->records; e < (i + 1) * a->records; e++)
			out[e / n * extent + e % n] = all[e % a->records];
	}
	return mask;
}

/* What is behind a record is outside of the tensor. */
static void
fill_records(const LowerAccess *a, const Reg *fill, Reg *out)
{
	int extent = record_extent(a);
	for (int i = 0; i < a->records * extent; i++)
		if (i % extent >= a->tensor->type->extent[a->nd - 1])
			out[i] = fill[i];
}

static void
write_records(Lower *l, const LowerAccess *a, RegType t, int r, Reg first, const Reg *data)
{
	int n = (int)a->tensor->type->extent[a->nd - 1], extent = record_extent(a);
	Reg all[16];
	for (int i = 0; i < n; i++) {
		ThreadAccess at = record_vector(l, a, lower_memory_type(t), r, i);
		at.cache = lower_cache(a->op, CACHE_NONE);
		at.mask = lower_both(l, first, at.mask);
		for (int e = i * a->records; e < (i + 1) * a->records; e++)
			all[e % a->records] = lower_to_memory(l, t, data[e / n * extent + e % n]);
		thread_store(l->b, &at, all);
	}
}

/* No index that memory gives: of neighbours, most are inside where one is. */
static bool
is_computed(const Value *v, int *looks)
{
	bool is = --*looks > 0 && !(v->def && (op_is_access(v->def) || v->def->nregion > 0));
	for (int i = 0; is && v->def && i < v->def->nin; i++)
		is = is_computed(v->def->in[i], looks);
	return is;
}

/* Reads by computed tiles of indices alone, as a window's with a stride: each index is held within its dimension, so that
 * all are read and a choice of the fill follows.  A predicate for each read is more than a thread has, and the reads
 * wait for one another (3 x 3 of two apart, 36 reads a thread: 208 us on an H200).  Only of what the kernel does not write:
 * an element at the edge may be another thread's.  Gives the predicate of all reads, whether the tensor has elements; 0: no
 * such read. */
static Reg
hold_inside(Lower *l, LowerAccess *a, int n)
{
	Reg some = 0;
	int looks = 100;                                /* short expressions */
	for (int d = 0; d < a->nd; d++) {
		bool tested = a->dim[d].letter != 'i' && a->dim[d].hi;
		if (tested && (a->dim[d].letter != 'g' || a->dim[d].still || !is_computed(a->dim[d].index, &looks)))
			return 0;
	}
	for (int d = 0; d < a->nd; d++) {
		if (a->dim[d].letter != 'g' || !a->dim[d].hi)
			continue;
		bool is_signed = dtype_is_signed(a->dim[d].index->type->elem);
		Reg *held = NEW_ARRAY(l->mem, Reg, n), size = lower_dim(l, a->tensor, d);
		Reg last = lower_op2(l, THREAD_SUB, size, lower_i64(l, 1));
		for (int r = 0; r < n; r++) {
			Reg at = a->dim[d].gather[r];
			if (thread_type_of(l->b, at) != REG_I64)
				at = lower_as(l, is_signed ? CAST_SEXT : CAST_ZEXT, REG_I64, at);
			held[r] = lower_op2(l, THREAD_UMIN, at, last);
		}
		a->dim[d].held = held;
		some = lower_both(l, some, lower_op2(l, THREAD_NE, size, lower_i64(l, 0)));
	}
	return some && a->uniform ? lower_both(l, some, a->uniform) : some;
}

static void
read_held(Lower *l, const LowerAccess *a, int r, Reg some, ThreadAccess *at, Reg *out)
{
	lower_access_at(l, a, r, at);
	Reg mask = at->mask;
	at->mask = some;
	thread_load(l->b, at, out);
	at->mask = mask;
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
	int vector = a.window ? WINDOW : a.records ? a.records * record_extent(&a) : vector_of(a.vector, repeats);
	const Reg *fill = fill_of(l, op, at_fill, v->layout);
	Reg *out = lower_new(l, v);
	bool is_plain = op->kind == OP_READ && !a.window && !a.records && !packed && vector == 1 && !a.is_kept &&
	    l->f->param[op->in[0]->index].access == ACCESS_IN;
	Reg some = is_plain && has_many_gathers(l->f) ? hold_inside(l, &a, n) : 0;
	if (some && !fill)
		fill = zeros(l, lower_type(v->type), n);
	if (a.halo)
		lower_read_halo(l, &a, lower_type(v->type), read_hint(l, op), fill, out);
	for (int r = 0; r < n && !a.halo; r += vector) {
		ThreadAccess at = {.type = lower_memory_type(lower_type(v->type)), .n = vector, .cache = read_hint(l, op)};
		if ((uint64_t)r & repeats)
			continue;
		at.align = MAX(a.unit * vector >> packed, 1);
		if (a.window) {
			at.mask = read_window(l, &a, at.type, r, &out[r]);
		} else if (a.records) {
			at.mask = read_records(l, &a, at.type, r, &out[r]);
		} else if (packed) {
			at.mask = lower_access_mask(l, &a, r);
			lower_packed_read(l, &a, r, vector, &at, &out[r]);
		} else if (some) {
			read_held(l, &a, r, some, &at, &out[r]);
		} else {
			lower_access_at(l, &a, r, &at);
			if (fill && at.mask && is_set_before(l, op, lower_type(v->type), fill + r, vector))
				at.fill = fill[r];
			thread_load(l->b, &at, &out[r]);
		}
		finish_load(l, lower_type(v->type), at.mask, fill && !at.fill ? fill + r : NULL, vector, &out[r]);
		if (a.records && fill)
			fill_records(&a, fill + r, &out[r]);
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
	int vector = a.records ? a.records * record_extent(&a) : vector_of(a.vector, repeats);
	for (int r = 0; r < lower_count(v); r += vector) {
		ThreadAccess at = {.type = lower_memory_type(lower_type(v->type)), .n = vector,
			.cache = lower_cache(op, CACHE_NONE)};
		if ((uint64_t)r & repeats)
			continue;
		if (a.records) {
			write_records(l, &a, lower_type(v->type), r, first, &data[r]);
			continue;
		}
		at.align = MAX(a.unit * vector >> packed, 1);
		if (packed) {
			at.mask = lower_both(l, first, lower_access_mask(l, &a, r));
			at.space = SPACE_GLOBAL;
			lower_packed_write(l, &a, r, vector, &at, &data[r]);
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
