/* Moves a tile's registers from one layout to another: by renaming where each thread has what it needs, by shuffles
 * within warps (shuffle.c), else through shared memory.
 *
 * Where a thread's choice of register depends on its lane or warp, registers are exchanged under each such bit:
 *
 *     out[r] = in[r ^ (lane bit 0 ? 2 : 0)]     =>     out[0] = bit ? in[2] : in[0];  out[2] = bit ? in[0] : in[2] …
 *
 * Shared memory is laid out so that both sides use wide accesses and have few bank conflicts (layout_best_shared).  The
 * whole tile is there at once; one barrier stands between writing and reading. */
#include "lower/lower.h"

#include <string.h>

void
lower_exchange(Lower *l, Reg *v, int n, const uint64_t *image, int nimage)
{
	for (int i = 0; i < nimage; i++) {
		int by = (int)image[i];
		if (by == 0)
			continue;
		Reg bit = lower_bit(l, l->thread, i);
		for (int r = 0; r < n; r++) {
			Reg a = v[r], b = v[r ^ by];
			if (r > (r ^ by) || a == b)
				continue;
			v[r] = lower_op3(l, THREAD_SELECT, bit, b, a);
			v[r ^ by] = lower_op3(l, THREAD_SELECT, bit, a, b);
		}
	}
}

/* Each thread has what it needs; which register holds an element may depend on the thread. */
static void
permute_registers(Lower *l, const ConvertPlan *c, const Layout *src, const Layout *dst, const Reg *from, Reg *out)
{
	int n = 1 << src->in[IN_REGISTER], nthread = dst->in[IN_LANE] + dst->in[IN_WARP];
	uint64_t image[F2_MAX], mask = (uint64_t)n - 1;
	Reg *v = NEW_COPY(l->mem, from, n);
	for (int i = 0; i < nthread; i++)
		image[i] = c->from.col[dst->in[IN_REGISTER] + i] & mask;
	lower_exchange(l, v, n, image, nthread);
	for (int r = 0; r < 1 << dst->in[IN_REGISTER]; r++)
		out[r] = v[f2_apply(&c->from, (uint64_t)r) & mask];
}

/* Bytes go by words where those of each come from two, chosen by the thread's number:
 *
 *     out[0 .. 3] = bytes of a and b, by the digits of a constant, exclusive-ored with what the thread's bits say */
static bool
permute_bytes(Lower *l, const ConvertPlan *c, const Layout *src, const Layout *dst, const Reg *from, RegType type, Reg *out)
{
	int n = src->in[IN_REGISTER], regs = dst->in[IN_REGISTER], nthread = dst->in[IN_LANE] + dst->in[IN_WARP];
	uint64_t mask = (UINT64_C(1) << n) - 1, moved = 0;
	for (int i = 0; i < nthread; i++)
		moved |= c->from.col[regs + i] & mask;
	uint64_t other = (moved | c->from.col[0] | c->from.col[1]) & mask & ~UINT64_C(3);
	if (type != REG_I8 || n < 2 || regs < 2 || l->t->has & HAS_SIMDGROUP_MATRIX || moved == 0 || other & (other - 1))
		return false;
	Reg which = lower_i32(l, 0);
	for (int i = 0; i < nthread; i++) {
		uint64_t x = c->from.col[regs + i] & mask;
		Reg digits = lower_i32(l, (int64_t)(0x1111 * ((x & 3) | (x & other ? 4 : 0))));
		if (x)
			which = lower_op2(l, THREAD_XOR, which,
			    lower_op3(l, THREAD_SELECT, lower_bit(l, l->thread, i), digits, lower_i32(l, 0)));
	}
	for (int r = 0; r < 1 << regs; r += 4) {
		uint64_t a = f2_apply(&c->from, (uint64_t)r) & mask & ~(other | 3);
		int64_t digits = 0;
		for (int i = 0; i < 4; i++) {
			uint64_t x = f2_apply(&c->from, (uint64_t)(r + i)) & mask;
			digits |= (int64_t)((x & 3) | (x & other ? 4 : 0)) << 4 * i;
		}
		Reg word = lower_byte_permute(l, thread_pack(l->b, from + a, 4), thread_pack(l->b, from + (a | other), 4),
		    lower_op2(l, THREAD_XOR, which, lower_i32(l, digits)));
		thread_unpack(l->b, word, type, out + r, 4);
	}
	return true;
}

/* ---- through shared memory ---- */

Reg
lower_to_memory(Lower *l, RegType t, Reg r)
{
	if (t == REG_PRED)
		return lower_as(l, CAST_ZEXT, REG_I8, r);
	return t == REG_GLOBAL ? lower_as(l, CAST_BITS, REG_I64, r) : r;
}

Reg
lower_from_memory(Lower *l, RegType t, Reg r)
{
	if (t == REG_PRED)
		return lower_op2(l, THREAD_NE, r, thread_int_const(l->b, REG_I8, 0));
	return t == REG_GLOBAL ? lower_as(l, CAST_BITS, REG_GLOBAL, r) : r;
}

static ThreadAccess
vector_access(Lower *l, Reg base, const LowerShared *at, RegType type, int r, int vector)
{
	ThreadAccess a = lower_shared_access(base, type);
	a.n = 1 << vector;
	a.align <<= vector;
	a.offset = lower_shared_offset(l, at, r, &a.constant);
	return a;
}

/* Registers that are neighbours in shared memory go by one access, wherever they stand in the layout: one in which they are
 * neighbours, too, and of each of its registers which it is in `layout`. */
static int *
by_offset(Lower *l, const Layout *layout, const Layout *shared, Layout *out)
{
	int order[F2_MAX], n = layout->in[IN_REGISTER], *at = NEW_ARRAY(l->mem, int, 1 << n);
	*out = layout_by_offset(layout, shared, order);
	for (int r = 0; r < 1 << n; r++) {
		at[r] = 0;
		for (int i = 0; i < n; i++)
			at[r] |= (r >> i & 1) << order[i];
	}
	return at;
}

void
lower_to_shared(Lower *l, Reg base, const Reg *from, const Layout *layout, const Layout *shared, RegType type)
{
	Layout held;
	const int *at = by_offset(l, layout, shared, &held);
	int bytes = thread_type_bytes(type), vector = layout_shared_vector(&held, shared, bytes, l->t->vector_bytes);
	uint64_t repeats = lower_repeats(&held);
	Reg v[16], first = lower_is_first_holder(l, &held);
	LowerShared to = lower_shared(l, &held, shared, bytes);
	for (int r = 0; r < 1 << held.in[IN_REGISTER]; r += 1 << vector) {
		if ((uint64_t)r & repeats)
			continue;
		ThreadAccess a = vector_access(l, base, &to, type, r, vector);
		a.mask = first;
		for (int i = 0; i < a.n; i++)
			v[i] = lower_to_memory(l, type, from[at[r + i]]);
		thread_store(l->b, &a, v);
	}
}

void
lower_from_shared(Lower *l, Reg base, Reg *out, const Layout *layout, const Layout *shared, RegType type)
{
	Layout held;
	const int *at = by_offset(l, layout, shared, &held);
	int bytes = thread_type_bytes(type), vector = layout_shared_vector(&held, shared, bytes, l->t->vector_bytes);
	uint64_t repeats = lower_repeats(&held);
	LowerShared from = lower_shared(l, &held, shared, bytes);
	Reg v[16];
	for (int r = 0; r < 1 << held.in[IN_REGISTER]; r += 1 << vector) {
		if ((uint64_t)r & repeats)
			continue;
		ThreadAccess a = vector_access(l, base, &from, type, r, vector);
		thread_load(l->b, &a, v);
		for (int i = 0; i < a.n; i++)
			out[at[r + i]] = lower_from_memory(l, type, v[i]);
	}
	for (int r = 0; r < 1 << held.in[IN_REGISTER]; r++)
		out[at[r]] = out[at[(uint64_t)r & ~repeats]];
}

/* ---- two elements of 16 bits in a word ---- */

static Layout
without_pairs(const Layout *l)
{
	Layout out = *l;

	out.in[IN_REGISTER]--;
	out.map = f2_columns(&l->map, 1, l->map.nin - 1);
	return out;
}

/* Where the register's lowest bit is the same on both sides, words of two elements move as one.  False: it is not. */
static bool
shuffle_pairs(Lower *l, const ConvertPlan *c, const Layout *src, const Layout *dst, const Reg *from, RegType type, Reg *out)
{
	Layout s, d;
	Convert pairs = {.kind = CONVERT_SHUFFLE};
	ShufflePlan plan;
	uint64_t odd = 0;

	for (int i = 1; i < c->from.nin; i++)
		odd |= c->from.col[i] & 1;
	if (thread_type_bytes(type) != 2 || !src->in[IN_REGISTER] || !dst->in[IN_REGISTER] || c->from.col[0] != 1 || odd)
		return false;
	s = without_pairs(src);
	d = without_pairs(dst);
	pairs.from = f2_columns(&c->from, 1, c->from.nin - 1);
	pairs.from.nout--;
	for (int i = 0; i < pairs.from.nin; i++)
		pairs.from.col[i] >>= 1;
	if (!plan_shuffle(&pairs, &s, &d, &plan))
		return false;
	Reg *word = MAP_OF(l->mem, Reg, i, 1 << s.in[IN_REGISTER], thread_pack(l->b, from + 2 * i, 2));
	Reg *moved = NEW_ARRAY(l->mem, Reg, 1 << d.in[IN_REGISTER]);
	lower_shuffle(l, &plan, &s, &d, word, REG_I32, moved);
	for (int i = 0; i < 1 << d.in[IN_REGISTER]; i++)
		thread_unpack(l->b, moved[i], type, out + 2 * i, 2);
	return true;
}

/* ---- any way ---- */

void
lower_to_layout(Lower *l, const Op *op, const Reg *from, const Layout *src, const Layout *dst, RegType type, Reg *out)
{
	ConvertPlan c;
	plan_convert(src, dst, thread_type_bytes(type), &c);
	if (c.kind == CONVERT_SHARED) {
		Layout shared = convert_shared_layout(l->t, src, dst, thread_type_bytes(type));
		Reg base = lower_scratch(l, op);
		lower_to_shared(l, base, from, src, &shared, type);
		if (op->kind == OP_CONVERT && convert_stays_in_warps(src, dst))
			lower_warp_barrier(l);
		else
			lower_barrier(l);
		if (l->t->has & HAS_SIMDGROUP_MATRIX && lower_matrix_load(l, base, out, dst, &shared, type))
			return;
		lower_from_shared(l, base, out, dst, &shared, type);
	} else if (c.kind == CONVERT_SHUFFLE) {
		if (!shuffle_pairs(l, &c, src, dst, from, type, out))
			lower_shuffle(l, &c.shuffle, src, dst, from, type, out);
	} else if (!permute_bytes(l, &c, src, dst, from, type, out)) {
		permute_registers(l, &c, src, dst, from, out);
	}
}

const Reg *
lower_operand(Lower *l, const Op *op, int i, const Layout *want)
{
	const Value *v = op->in[i];
	const Reg *given = lower_regs(l, v);
	if (!want || !v->layout || layout_equal(v->layout, want))
		return given;
	Reg *out = NEW_ARRAY(l->mem, Reg, 1 << want->in[IN_REGISTER]);
	lower_to_layout(l, op, given, v->layout, want, lower_type(v->type), out);
	return out;
}

void
lower_convert(Lower *l, Op *op)
{
	const Reg *in = lower_operand(l, op, 0, op->out[0].layout);
	memcpy(lower_new(l, &op->out[0]), in, sizeof *in * (size_t)lower_count(&op->out[0]));
}
