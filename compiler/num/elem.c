/* Elementwise ops on whole tiles.
 *
 * A loop takes full operands of one wide type.  What stands between it and a tile is done here, a block at a
 * time so that it stays in the first cache: an operand of one element is repeated, narrow floats become f32
 * and the result is rounded back, 4-bit integers are worked on as bytes and wrapped.  A cast that has no loop
 * of its own goes through f32 or, where that would round twice, through f64 (see loops_cast.c). */
#include <string.h>

#include "num/loops.h"

void
tile_fill(int size, void *out, const void *one, int64_t n)
{
	uint64_t word = 0;
	memcpy(&word, one, (size_t)size);
	if (word == 0 || size == 1)
		memset(out, (int)word, (size_t)n * (size_t)size);
	else
		loops_at[CPU_BASE].fill(size, out, word, n);
}

/* The same with this op's loops. */
static void
repeat(const Elem *e, int size, void *out, const void *one, int64_t n)
{
	uint64_t word = 0;
	memcpy(&word, one, (size_t)size);
	loops_at[e->level].fill(size, out, word, n);
}

#define COUNT(T)                                                                                   \
	for (int64_t i = 0; i < n; i++)                                                            \
		((T *)out)[i] = (T)((uint64_t)start + (uint64_t)i)

void
tile_iota(DType t, void *out, int64_t start, int64_t n)
{
	BY_SIZE(dtype_tile_size(t), COUNT)
}

/* Where every operand is one element, so is the result. */
void
elem_run(const Elem *e, void *out, const void *const *in, unsigned scalar, int64_t n)
{
	char one[8];
	if (n <= 1 || e->nin == 0 || scalar != (1u << e->nin) - 1) {
		e->run(e, out, in, scalar, n);
		return;
	}
	e->run(e, one, in, 0, 1);
	repeat(e, e->out_size, out, one, n);
}

/* Operands and result are what the loop takes. */
static void
run_wide(const Elem *e, void *out, const void *const *in, unsigned scalar, int64_t n)
{
	if (scalar == 0 || n <= 1) {
		e->loop(out, in, n);
		return;
	}
	uint64_t repeated[3][BLOCK];
	const void *at[3];
	for (int i = 0; i < e->nin; i++) {
		at[i] = in[i];
		if (scalar >> i & 1) {
			repeat(e, e->in_size[i], repeated[i], in[i], MIN(n, BLOCK));
			at[i] = repeated[i];
		}
	}
	for (int64_t done = 0; done < n; done += BLOCK) {
		for (int i = 0; i < e->nin; i++)
			if (!(scalar >> i & 1))
				at[i] = (const char *)in[i] + done * e->in_size[i];
		e->loop((char *)out + done * e->out_size, at, MIN(BLOCK, n - done));
	}
}

/* By blocks: operands are widened to f32 (or go through `pre`) and repeated where they are one element, the loop runs if
 * there is one, and its result is narrowed if the op's is. */
static void
run_blocks(const Elem *e, void *out, const void *const *in, unsigned scalar, int64_t n)
{
	uint64_t wide[3][BLOCK], result[BLOCK];
	const void *at[3];
	for (int64_t done = 0; done < n; done += BLOCK) {
		int64_t m = MIN(BLOCK, n - done);
		for (int i = 0; i < e->nin; i++) {
			bool one = scalar >> i & 1;
			const void *x = (const char *)in[i] + (one ? 0 : done * e->in_size[i]);
			int size = e->in_size[i];
			at[i] = e->widen[i] || e->pre || one ? wide[i] : x;
			if (one && done)
				continue;
			if (e->widen[i]) {
				e->widen[i](x, (float *)wide[i], one ? 1 : m);
				size = sizeof(float);
				x = wide[i];
			} else if (e->pre) {
				e->pre(wide[i], &x, one ? 1 : m);
				size = sizeof(double);
				x = wide[i];
			}
			if (one)
				repeat(e, size, wide[i], x, m);
		}
		char *o = (char *)out + done * e->out_size;
		if (e->loop)
			e->loop(e->narrow ? (void *)result : o, at, m);
		if (e->narrow)
			e->narrow(e->loop ? (const void *)result : at[0], o, m);
	}
}

static void
run_copy(const Elem *e, void *out, const void *const *in, unsigned scalar, int64_t n)
{
	if (out != in[0])
		memcpy(out, in[0], (size_t)n * (size_t)e->out_size);
}

/* 4-bit integers: the op on bytes, then the low half again. */
static void
run_nibbles(const Elem *e, void *out, const void *const *in, unsigned scalar, int64_t n)
{
	run_wide(e, out, in, scalar, n);
	const void *o = out;
	e->pre(out, &o, n);
}

static bool
make_cast(Elem *e, const Loops *l, DType from, DType to, bool exact)
{
	bool narrow_from = dtype_is_narrow(from), narrow_to = dtype_is_narrow(to);
	e->run = run_blocks;
	if (from == to) {
		e->run = run_copy;
		return true;
	}
	if (narrow_from)
		e->widen[0] = l->widen(from);
	if (narrow_to)
		e->narrow = l->narrow(to, exact);
	if (narrow_to && (from == TY_F64 || dtype_tile_size(from) >= 4) && from != TY_F32) {
		e->pre = from == TY_F64 ? NULL : l->sticky(from);
		e->loop = l->round_to(to);
		return true;
	}
	if (narrow_to && (narrow_from || from == TY_F32))
		return true;
	e->loop = l->cast(narrow_from ? TY_F32 : from, narrow_to ? TY_F32 : to);
	if (!narrow_from && !narrow_to)
		e->run = run_wide;
	return e->loop != NULL;
}

/* In tiles, i4 is sign-extended to a byte and the other types of four bits are not. */
static bool
make_bitcast(Elem *e, const Loops *l, DType from, DType to)
{
	e->run = run_copy;
	if (dtype_is_packed(to) && from != to) {
		e->run = run_wide;
		e->loop = l->cast(TY_U8, to == TY_I4 ? TY_I4 : TY_U4);
	}
	return true;
}

static LoopFn
find_loop(const Loops *l, OpKind kind, DType t, bool nan)
{
	if (!dtype_is_float(t))
		return l->integer(kind, t);
	LoopFn f = l->real(kind, t, nan);
	return f ? f : l->math(kind, t);
}

static bool
is_four_bits(DType t)
{
	return t == TY_I4 || t == TY_U4;
}

static bool
make_select(Elem *e, const Loops *l, DType t)
{
	e->loop = l->select(dtype_tile_size(t));
	e->run = run_wide;
	return true;
}

static bool
make_math(Elem *e, const Loops *l, OpKind kind, DType t, DType out, bool nan)
{
	if (dtype_is_narrow(t)) {
		e->loop = find_loop(l, kind, TY_F32, nan);
		e->run = run_blocks;
		for (int i = 0; i < e->nin; i++)
			e->widen[i] = l->widen(t);
		e->narrow = dtype_is_narrow(out) ? l->narrow(out, op_info[kind].rounding == ROUNDING_EXACT) : NULL;
		return e->loop != NULL;
	}
	e->loop = find_loop(l, kind, is_four_bits(t) ? t == TY_I4 ? TY_I8 : TY_U8 : t, nan);
	e->run = run_wide;
	if (is_four_bits(t) && is_four_bits(out)) {
		e->run = run_nibbles;
		e->pre = l->cast(TY_I8, out);
	}
	return e->loop != NULL;
}

static void
run_lookup(const Elem *e, void *out, const void *const *in, unsigned scalar, int64_t n)
{
	for (int64_t i = 0; i < n; i++) {
		int64_t at = dtype_load_i64(e->index, in[0], i);
		uint64_t bits = at >= 0 && at < e->ntable ? (uint64_t)e->table[at] : 0;
		memcpy((char *)out + i * e->out_size, &bits, (size_t)e->out_size);
	}
}

void
elem_make_lookup(Elem *e, DType index, DType out, const int64_t *bits, int n)
{
	*e = (Elem){.run = run_lookup, .level = CPU_BASE, .nin = 1, .in_size = {dtype_tile_size(index)},
		.out_size = dtype_tile_size(out), .index = index, .table = bits, .ntable = n};
}

bool
elem_make(Elem *e, CpuLevel level, OpKind kind, const DType *in, int nin, DType out, unsigned flags)
{
	const Loops *l = &loops_at[level];
	*e = (Elem){.level = level, .nin = nin, .out_size = dtype_tile_size(out)};
	for (int i = 0; i < nin; i++)
		e->in_size[i] = dtype_tile_size(in[i]);
	if (kind == OP_BITCAST)
		return make_bitcast(e, l, in[0], out);
	if (kind == OP_CAST)
		return make_cast(e, l, in[0], out, flags & ELEM_EXACT);
	if (kind == OP_SELECT)
		return make_select(e, l, out);
	e->streaming = l->streaming(kind, in[0]);
	return make_math(e, l, kind, in[0], out, flags & ELEM_NAN);
}

void
elem_stream(const Elem *e, void *out, const void *const *in, unsigned scalar, int64_t n)
{
	uint64_t block[BLOCK];
	const void *at[3];
	if (e->streaming && scalar == 0) {
		e->streaming(out, in, n);
		return;
	}
	for (int64_t done = 0; done < n; done += BLOCK) {
		int64_t m = MIN(BLOCK, n - done);
		for (int i = 0; i < e->nin; i++)
			at[i] = (const char *)in[i] + (scalar >> i & 1 ? 0 : done * e->in_size[i]);
		elem_run(e, block, at, scalar, m);
		loops_at[e->level].stream((char *)out + done * e->out_size, block, (size_t)(m * e->out_size));
	}
}

void
stream_fence(void)
{
#if defined(NUM_X86)
	__builtin_ia32_sfence();
#endif
}
