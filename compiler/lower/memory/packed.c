/* Elements of 4 bits, two in a byte: in tensors, and in shared memory.
 *
 * An access of two elements and more is of whole bytes.  A single one is read with its byte and taken out of it.  A single
 * one is written by two atomics on the word that it stands in, which clear and set its four bits: other threads may be
 * writing the other half of the byte.
 *
 * Copies to shared memory move bytes.  A tile comes out of a slot by aligned words, of which the thread takes its own
 * nibbles (layout/packed.c).  Where registers hold in pairs what is four apart in a word, or in one byte, as operands of
 * matrix instructions do, the words and the places in them are kept: a cast to f16 or bf16 takes both elements at once, by
 * bits that stand for exact numbers,
 *
 *     f16    0x6400 | n  is 1024 + n         bf16    0x4300 | n  is 128 + n         n = element, or element + 8 of i4
 *            0x5400 | 16 n  is 64 + n, in the upper half
 *
 *     r9: i32 = lshr r8, 8                           elements 2 and 6 of the word
 *     r10: i32 = and_xor r9, 0x000f000f, 0x64086408
 *     r11: i32 = add_f16x2 r10, 0xe408e408           less 1032
 *
 *     r9: i32 = byte_permute r8, r8, r7              f16, both of one byte: r7 says which, for either half
 *     r10: i32 = and_xor r9, 0x00f0000f, 0x54806408
 *     r11: i32 = add_f16x2 r10, 0xd480e408           less 72 and 1032
 *
 *     r9: i32 = lshr r8, 4                           bf16, of one byte: the upper nibbles of all four
 *     r10: i32 = byte_permute r8, r9, r7             r7: which byte of r8 for the low half, of r9 for the high one
 *
 * (In bf16 the way of f16 takes a second multiplication: 128 rows of int4 took 36.2 us on an H200, 32.8 by shifts.) */
#include "ir/derive.h"
#include "lower/lower.h"

#include <math.h>

/* Where the element with this number stands: the address of its byte, and its half's first bit (REG_I32). */
static Reg
byte_address(Lower *l, const Value *tensor, Reg element)
{
	return thread_pointer(l->b, lower_regs(l, tensor)[0], lower_op2(l, THREAD_ASHR, element, lower_i64(l, 1)));
}

static Reg
half_shift(Lower *l, Reg element)
{
	Reg odd = lower_op2(l, THREAD_AND, lower_as(l, CAST_TRUNC, REG_I32, element), lower_i32(l, 1));
	return lower_op2(l, THREAD_SHL, odd, lower_i32(l, 2));
}

/* A tile's element from the low or high half of a byte. */
static Reg
take_half(Lower *l, DType t, Reg byte, bool high)
{
	Reg four = thread_int_const(l->b, REG_I8, 4);
	if (high)
		return lower_op2(l, t == TY_I4 ? THREAD_ASHR : THREAD_LSHR, byte, four);
	return lower_wrap(l, t, byte);
}

static Reg
join_halves(Lower *l, Reg low, Reg high)
{
	low = lower_op2(l, THREAD_AND, low, thread_int_const(l->b, REG_I8, 15));
	high = lower_op2(l, THREAD_SHL, high, thread_int_const(l->b, REG_I8, 4));
	return lower_op2(l, THREAD_OR, low, high);
}

void
lower_packed_read(Lower *l, const LowerAccess *a, int r, int n, ThreadAccess *at, Reg *out)
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
		word = lower_op2(l, THREAD_LSHR, word, half_shift(l, element));
		out[0] = lower_wrap(l, a->tile->elem, lower_as(l, CAST_TRUNC, REG_I8, word));
	}
}

/* The four bits at `element` through the aligned word around them. */
static void
write_half(Lower *l, const LowerAccess *a, Reg element, Reg mask, Reg v)
{
	Reg base = lower_regs(l, a->tensor)[0], byte = byte_address(l, a->tensor, element);
	Reg address = lower_as(l, CAST_BITS, REG_I64, byte);
	Reg past = lower_op2(l, THREAD_AND, address, lower_i64(l, 3));
	Reg shift = lower_op2(l, THREAD_SHL, lower_as(l, CAST_TRUNC, REG_I32, past), lower_i32(l, 3));
	shift = lower_op2(l, THREAD_ADD, shift, half_shift(l, element));
	Reg aligned = lower_op2(l, THREAD_SUB, address, past);
	Reg delta = lower_op2(l, THREAD_SUB, aligned, lower_as(l, CAST_BITS, REG_I64, base));
	ThreadAccess at = {.space = SPACE_GLOBAL, .type = REG_I32, .n = 1, .align = 4, .mask = mask,
		.changes = byte, .base = thread_pointer(l->b, base, delta)};
	Reg hole = lower_op1(l, THREAD_NOT, lower_op2(l, THREAD_SHL, lower_i32(l, 15), shift));
	Reg bits = lower_op2(l, THREAD_AND, lower_as(l, CAST_ZEXT, REG_I32, v), lower_i32(l, 15));
	thread_atomic(l->b, ATOMIC_AND, &at, hole, 0);
	thread_atomic(l->b, ATOMIC_OR, &at, lower_op2(l, THREAD_SHL, bits, shift), 0);
}

void
lower_packed_write(Lower *l, const LowerAccess *a, int r, int n, ThreadAccess *at, const Reg *v)
{
	Reg element = lower_access_element(l, a, r), byte[16];
	if (n == 1) {
		write_half(l, a, element, at->mask, v[0]);
		return;
	}
	at->base = byte_address(l, a->tensor, element);
	at->n = n / 2;
	at->type = REG_I8;
	for (int i = 0; i < n / 2; i++)
		byte[i] = join_halves(l, v[2 * i], v[2 * i + 1]);
	thread_store(l->b, at, byte);
}

/* ---- shared memory ---- */

bool
lower_packed_bytes(Lower *l, const LowerAccess *a, Layout *layout, Layout *shared, int *vector)
{
	int last = a->nd - 1;
	bool same = layout->map.col[0] == shared->map.col[0] && a->dim[last].letter == 'p' &&
	    layout->map.col[0] == UINT64_C(1) << layout_out_at(layout, a->dim[last].at);
	const Layout from = *layout, to = *shared;
	if (a->vector < 2 || !same || !layout_bytes(&from, layout) || !layout_bytes(&to, shared))
		return false;
	*vector = MIN(a->vector / 2, 1 << layout_shared_vector(layout, shared, 1, l->t->vector_bytes));
	return true;
}

void
lower_packed_at(Lower *l, const LowerAccess *a, int r, ThreadAccess *out)
{
	out->space = SPACE_GLOBAL;
	out->base = byte_address(l, a->tensor, lower_access_element(l, a, r));
	out->mask = lower_access_mask(l, a, r);
}

bool
lower_packed_put(Lower *l, Reg base, const Reg *from, const Layout *layout, const Layout *shared)
{
	Layout to, slot;
	if (!layout_bytes(layout, &to) || !layout_bytes(shared, &slot))
		return false;
	Reg *byte = MAP_OF(
	    l->mem, Reg, i, 1 << to.in[IN_REGISTER], join_halves(l, from[2 * i], from[2 * i + 1]));
	lower_to_shared(l, base, byte, &to, &slot, REG_I8);
	return true;
}

typedef struct Chunks {
	LayoutChunks c;
	LowerShared at;                                 /* of chunks */
	LowerMap nibble;                                /* of an element in its word */
	uint64_t *offset;                               /* of chunks that were loaded, and their words */
	Reg (*word)[4];
	int n;
} Chunks;

/* The word that register r's element is in. */
static Reg
word_of(Lower *l, Chunks *s, Reg base, int r)
{
	uint64_t to = f2_apply(&s->c.to, (uint64_t)r), chunk = to >> s->c.log;
	int word = (int)(to >> 3 & ((UINT64_C(1) << (s->c.log - 3)) - 1));
	for (int i = 0; i < s->n; i++)
		if (s->offset[i] == chunk)
			return s->word[i][word];
	ThreadAccess at = lower_shared_access(base, REG_I32);
	at.n = 1 << (s->c.log - 3);
	at.align = 4 * at.n;
	at.offset = lower_shared_offset(l, &s->at, r, &at.constant);
	thread_load(l->b, &at, s->word[s->n]);
	s->offset[s->n] = chunk;
	return s->word[s->n++][word];
}

/* Which byte of its word: number `at`, which the thread's part moves. */
static Reg
byte_number(Lower *l, const LowerMap *thread, uint64_t at)
{
	int64_t constant;
	Reg moved = lower_map_at(l, thread, at, &constant);
	return lower_op2(l, THREAD_ADD, moved, lower_i32(l, constant));
}

/* The element's bits at the bottom of the word, by shifts that several elements share. */
static Reg
nibble(Lower *l, DType t, const LowerMap *thread, Reg word, uint64_t at)
{
	int64_t constant;
	Reg moved = lower_map_at(l, thread, at, &constant);
	Reg v = lower_op2(l, THREAD_LSHR, word, lower_op2(l, THREAD_SHL, moved, lower_i32(l, 2)));
	v = lower_op2(l, THREAD_LSHR, v, lower_i32(l, 4 * constant));
	return lower_wrap(l, t, lower_as(l, CAST_TRUNC, REG_I8, v));
}

static LowerMap
thread_map(Lower *l, const Layout *layout, const F2 *to, int from, int bits)
{
	uint64_t image[F2_MAX] = {0};
	int registers = layout->in[IN_REGISTER], n = layout->in[IN_LANE] + layout->in[IN_WARP];
	for (int i = 0; i < n; i++)
		image[i] = to->col[registers + i] >> from & ((UINT64_C(1) << bits) - 1);
	return lower_map(l, image, n);
}

static void
keep_twin(Lower *l, Reg first, Reg second, LowerPair pair)
{
	while (l->twin_of.n <= (int)first)
		vec_push(l->mem, &l->twin_of, 0);
	vec_push(l->mem, &l->twins, ((LowerTwin){second, pair}));
	l->twin_of.at[first] = l->twins.n;
}

/* The bit of the register's number along which elements are in one byte, or four apart in a word; -1: there is none. */
static int
pair_bit(const Chunks *s, int registers, bool *in_bytes)
{
	for (int i = 0; i < registers; i++) {
		*in_bytes = s->c.to.col[i] == 1 && !(s->nibble.moves & 1);
		if (*in_bytes || (s->c.to.col[i] == 4 && !s->nibble.moves))
			return i;
	}
	return -1;
}

bool
lower_packed_get(Lower *l, const Value *v, Reg base, const Layout *shared, Reg *out)
{
	Chunks s = {0};
	int n = lower_count(v);
	if (!layout_chunks(v->layout, shared, &s.c))
		return false;
	s.at = lower_shared(l, &s.c.chunks, &s.c.shared, 1);
	s.nibble = thread_map(l, v->layout, &s.c.to, 0, 3);
	s.offset = NEW_ARRAY(l->mem, uint64_t, n);
	s.word = arena_alloc(l->mem, sizeof *s.word * (size_t)n);
	LowerMap byte = thread_map(l, v->layout, &s.c.to, 1, 2);
	bool in_bytes = false;
	int bit = pair_bit(&s, v->layout->in[IN_REGISTER], &in_bytes);
	for (int r = 0; r < n; r++)
		out[r] = nibble(l, v->type->elem, &s.nibble, word_of(l, &s, base, r), f2_apply(&s.c.to, (uint64_t)r) & 7);
	for (int r = 0; r < n && bit >= 0; r++) {
		uint64_t at = f2_apply(&s.c.to, (uint64_t)r) & 7;
		Reg number = in_bytes ? byte_number(l, &byte, at >> 1) : 0;
		LowerPair pair = {word_of(l, &s, base, r), number, (int)at & 3, v->type->elem == TY_I4};
		if (!(r >> bit & 1))
			keep_twin(l, out[r], out[r | 1 << bit], pair);
	}
	return true;
}

/* ---- casts of pairs ---- */

/* The pair's byte in either half of a word, with others above. */
static Reg
byte_in_halves(Lower *l, const LowerPair *p)
{
	return lower_byte_permute(l, p->word, p->word, lower_op2(l, THREAD_MUL, p->byte, lower_i32(l, 0x1111)));
}

/* The pair's bits at the bottom of either half of a word, with others above. */
static Reg
pair_at_bottom(Lower *l, const LowerPair *p)
{
	if (!p->byte)
		return lower_op2(l, THREAD_LSHR, p->word, lower_i32(l, 4 * p->nibble));
	Reg which = lower_op2(l, THREAD_ADD, lower_op2(l, THREAD_MUL, p->byte, lower_i32(l, 0x1111)), lower_i32(l, 0x4400));
	return lower_byte_permute(l, p->word, lower_op2(l, THREAD_LSHR, p->word, lower_i32(l, 4)), which);
}

static Reg
three(Lower *l, PrimKind kind, Reg a, int64_t b, Reg c)
{
	Reg in[] = {a, lower_i32(l, b), c}, out;
	thread_prim(l->b, kind, in, 3, NULL, 0, &out, 1);
	return out;
}

/* What is taken off with the 1024 or so that an integer's bits stand for, on their way: the zero points of two elements, 0
 * for none, and for bits 0 to 3 and 4 to 7 of a half what both are together; `byte`: of f16, the first's low and the
 * second's high. */
typedef struct Less {
	Reg zero, low, high, byte;
} Less;

/* Those of bits 4 to 7 of a half, without a shift of their own, in bf16: bits below 0x100 stand for that many 2^-133, so
 * that they are 16 n times as much.  Times 2^123 and less 8 of them, they are exact, and 64th of what is asked for.  Shifts
 * and the pipe that they share with logic are scarcer than multiplications. */
static Reg
upper_pair_bf16(Lower *l, const LowerPair *even, bool is_signed, Reg zero)
{
	int64_t flip = is_signed ? 0x00800080 : 0;
	Reg x = three(l, PRIM_AND_XOR, pair_at_bottom(l, even), 0x00f000f0, lower_i32(l, flip));
	Reg less = lower_i32(l, (int32_t)(is_signed ? 0xbe00be00 : 0x80008000)), none = lower_i32(l, (int32_t)0x80008000);

	none = zero ? lower_op2(l, THREAD_XOR, zero, none) : none;
	return three(l, PRIM_FMA_BF16X2, three(l, PRIM_FMA_BF16X2, x, 0x7d007d00, less), 0x42804280, none);
}

/* Both are integers, the zero points below 256 in f16, 64 in bf16, so that they are exact together. */
static Reg
less_zero(Lower *l, int32_t number, Reg zero, bool is_half)
{
	Reg c = lower_i32(l, number), in[] = {c, zero}, y;
	if (!zero)
		return c;
	if (!is_half)
		return three(l, PRIM_FMA_BF16X2, zero, (int32_t)0xbf80bf80, c);
	thread_prim(l->b, PRIM_SUB_F16X2, in, 2, NULL, 0, &y, 1);
	return y;
}

static Less
find_less(Lower *l, Reg zero, bool is_signed, bool is_half)
{
	int32_t low = (int32_t)((is_half ? 0xe400e400 : 0xc300c300) + (uint32_t)(is_signed ? 0x00080008 : 0));
	Less less = {.zero = zero, .low = less_zero(l, low, zero, is_half)};
	if (is_half) {                                  /* of 64 + n, or of 64 + n + 8, a 16th of 1024 + 16 n */
		less.high = less_zero(l, (int32_t)(is_signed ? 0xd480d480 : 0xd400d400), zero, true);
		less.byte = zero ? lower_byte_permute(l, less.low, less.high, lower_i32(l, 0x7610))
		                 : lower_i32(l, (int32_t)(is_signed ? 0xd480e408 : 0xd400e400));
	}
	return less;
}

/* Integers; in f16 those of bits 4 to 7 of a half need no shift of their own, in one byte no multiplication either, whose
 * constant ptxas loads anew for each: 128 rows of int4 took an H200 0.98 of the time.  Two of bits 4 to 7, whose multiplier
 * is one register's, keep it: by additions GPTQ, AWQ and 16 rows took 1.01 to 1.02. */
static Reg
integer_pair(Lower *l, const LowerPair *p, bool is_signed, bool is_half, const Less *less)
{
	LowerPair even = {.word = p->word, .nibble = p->nibble - 1};
	bool upper = !p->byte && p->nibble & 1, in_byte = is_half && p->byte;
	if (!is_half && upper)
		return upper_pair_bf16(l, &even, is_signed, less->zero);
	int32_t mask = in_byte ? 0x00f0000f : upper ? 0x00f000f0 : 0x000f000f, flip = is_signed ? 0x00888888 & mask : 0;
	int32_t one = !is_half ? 0x43004300 : in_byte ? 0x54006400 : 0x64006400;
	Reg word = in_byte ? byte_in_halves(l, p) : pair_at_bottom(l, upper ? &even : p);
	Reg x = three(l, PRIM_AND_XOR, word, mask, lower_i32(l, one | flip)), y;
	if (!is_half)
		return three(l, PRIM_FMA_BF16X2, x, 0x3f803f80, less->low);
	if (upper)
		return three(l, PRIM_FMA_F16X2, x, 0x2c002c00, less->high);
	Reg in[] = {x, in_byte ? less->byte : less->low};
	thread_prim(l->b, PRIM_ADD_F16X2, in, 2, NULL, 0, &y, 1);
	return y;
}

/* f4e2m1 has the sign, two bits of exponent and one of fraction, which a half with its upper bits of exponent zero has too:
 * times 2^14 in f16, 2^126 in bf16. */
static Reg
float_pair(Lower *l, const LowerPair *p, bool is_half)
{
	Reg x = pair_at_bottom(l, p);
	Reg sign = lower_op2(l, THREAD_SHL, x, lower_i32(l, 12));
	Reg rest = lower_op2(l, THREAD_SHL, x, lower_i32(l, is_half ? 9 : 6));
	rest = lower_op2(l, THREAD_AND, rest, lower_i32(l, is_half ? 0x0e000e00 : 0x01c001c0));
	x = three(l, PRIM_AND_XOR, sign, (int32_t)0x80008000, rest);
	return three(l, is_half ? PRIM_FMA_F16X2 : PRIM_FMA_BF16X2, x, is_half ? 0x74007400 : 0x7e807e80,
	    lower_i32(l, (int32_t)0x80008000));
}

static bool
makes_pairs(const Lower *l, DType to)
{
	bool is_half = to == TY_F16;
	unsigned needs = prim_info[is_half ? PRIM_ADD_F16X2 : PRIM_FMA_BF16X2].needs;
	return (is_half || to == TY_BF16) && !(needs & ~l->t->has);
}

/* An element of 4 bits as it was before it became a longer integer of the same value. */
static Reg
before_extension(const Lower *l, Reg r)
{
	int at;
	const ThreadNode *n = thread_node_of(l->b, r, &at);
	return n && n->kind == NODE_CAST && n->op == CAST_ZEXT ? n->in[0] : r;
}

bool
lower_pair(const Lower *l, Reg first, Reg second, LowerPair *pair)
{
	first = before_extension(l, first);
	int twin = (int)first < l->twin_of.n ? l->twin_of.at[first] : 0;
	if (!twin || l->twins.at[twin - 1].second != before_extension(l, second))
		return false;
	*pair = l->twins.at[twin - 1].pair;
	return true;
}

/* What lower_packed_get kept of the registers, two and two; NULL: not of all. */
static LowerPair *
kept_pairs(Lower *l, const Reg *in, int n)
{
	LowerPair *pair = NEW_ARRAY(l->mem, LowerPair, n / 2);
	for (int i = 0; i < n / 2; i++)
		if (!lower_pair(l, in[2 * i], in[2 * i + 1], &pair[i]))
			return NULL;
	return pair;
}

/* Of a packed type, or integers that are fields of words; NULL. */
static const LowerPair *
pairs_of(Lower *l, const Value *v)
{
	DType t = v->type->elem;
	int n = lower_count(v);
	if (!l->pairs[v->id] && dtype_is_packed(t) && n > 1)
		l->pairs[v->id] = kept_pairs(l, lower_regs(l, v), n);
	if (!l->pairs[v->id] && n > 1 && (t == TY_U8 || t == TY_I8 || dtype_is_packed(t)))
		l->pairs[v->id] = lower_field_pairs(l, t, lower_regs(l, v), n);
	return l->pairs[v->id];
}

bool
lower_packed_cast(Lower *l, const Value *v, DType to, Reg *out)
{
	const LowerPair *pair = makes_pairs(l, to) ? pairs_of(l, v) : NULL;
	bool is_half = to == TY_F16, is_signed = pair && pair->is_signed;
	if (!pair)
		return false;
	Less none = find_less(l, 0, is_signed, is_half);
	for (int i = 0; i < lower_count(v) / 2; i++) {
		Reg y = v->type->elem == TY_F4E2M1 ? float_pair(l, &pair[i], is_half)
		                                   : integer_pair(l, &pair[i], is_signed, is_half, &none);
		thread_unpack(l->b, y, is_half ? REG_F16 : REG_BF16, &out[2 * i], 2);
	}
	return true;
}

/* Is the tile made of whole numbers below `most`, on both sides of 0? */
static bool
is_whole(const Value *v, int64_t most, int64_t *lo, int64_t *hi, int depth)
{
	const Op *op = v->def;
	const Attr *c = value_const(v);
	int64_t low, high;
	if (c && c->kind == KIND_FLOAT)
		return fabs(c->f) < (double)most && c->f == (double)(*lo = *hi = (int64_t)c->f);
	switch (op && depth > 0 ? op->kind : OP_COUNT) {
	case OP_BROADCAST: case OP_RESHAPE: case OP_PERMUTE: case OP_CONVERT:
		return is_whole(op->in[0], most, lo, hi, depth - 1);
	case OP_CAST:
		return value_range(op->in[0], lo, hi) && *lo > -most && *hi < most;
	case OP_ADD: case OP_SUB:
		if (!is_whole(op->in[0], most, lo, hi, depth - 1) || !is_whole(op->in[1], most, &low, &high, depth - 1))
			return false;
		*lo += op->kind == OP_ADD ? low : -high;
		*hi += op->kind == OP_ADD ? high : -low;
		break;
	default: return false;
	}
	return *lo > -most && *hi < most;
}

/* What is taken off: a tile of such integers, or one such number, which has become an addition; NULL: neither. */
static const Reg *
zeros_of(Lower *l, const Op *op, const Reg *right)
{
	DType to = op->out[0].type->elem;
	enum { OPS_MOST = 8 };
	int bits = to == TY_F16 ? 8 : 6, n = lower_count(&op->out[0]);
	int64_t lo, hi;
	const Attr *c = value_const(op->in[1]);
	if (op->kind == OP_SUB)
		return is_whole(op->in[1], INT64_C(1) << bits, &lo, &hi, OPS_MOST) ? right : NULL;
	if (op->kind != OP_ADD || !c || c->kind != KIND_FLOAT || c->f > 0 || c->f <= -(1 << bits) || c->f != floor(c->f))
		return NULL;
	Reg *all = MAP_OF(
	    l->mem, Reg, i, n, thread_float_const(l->b, to == TY_F16 ? REG_F16 : REG_BF16, -c->f));
	return all;
}

bool
lower_packed_sub(Lower *l, const Op *op, const Reg *right, Reg *out)
{
	const Op *cast = op->in[0]->def;
	DType to = op->in[0]->type->elem;
	bool is_half = to == TY_F16;
	if (!cast || cast->kind != OP_CAST || op->in[0]->layout != op->out[0].layout ||
	    cast->in[0]->type->elem == TY_F4E2M1 || cast->in[0]->layout != op->out[0].layout || !makes_pairs(l, to))
		return false;
	const LowerPair *pair = pairs_of(l, cast->in[0]);
	const Reg *zero = pair ? zeros_of(l, op, right) : NULL;
	if (!zero)
		return false;
	Less *less = NEW_ARRAY(l->mem, Less, lower_count(&op->out[0]) / 2);
	for (int i = 0, k; i < lower_count(&op->out[0]) / 2; i++) {
		for (k = 0; k < i && (zero[2 * k] != zero[2 * i] || zero[2 * k + 1] != zero[2 * i + 1]); k++)
			;
		bool is_signed = pair->is_signed;
		less[i] = k < i ? less[k] : find_less(l, thread_pack(l->b, &zero[2 * i], 2), is_signed, is_half);
		Reg y = integer_pair(l, &pair[i], is_signed, is_half, &less[i]);
		thread_unpack(l->b, y, is_half ? REG_F16 : REG_BF16, &out[2 * i], 2);
	}
	return true;
}
