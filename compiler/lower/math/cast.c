/* Conversions between element types, to the bit as the interpreter makes them.
 *
 * Floats narrower than f32 come from it and go to it; widening is exact.  f16 and bf16 are the machine's; fp8 too where
 * it converts them (two at once), else, as f4 always, their fields are moved and rounded as integers: a magnitude's bits
 * rounded at the cut, below the least normal number by adding a power of two.  f8 and f4 saturate, infinity too.
 *
 * What has more bits than f32 (f64, wide integers) must not round twice on its way to a narrow float: it goes to f32
 * rounded to odd, which keeps in the last bit whether anything was lost. */
#include "lower/lower.h"

typedef struct Format {
	int mantissa, bias;
	uint32_t most, nan;
} Format;

static Format
format_of(DType t)
{
	switch (t) {
	case TY_F8E4M3: return (Format){3, 7, 0x7e, 0x7f};
	case TY_F8E5M2: return (Format){2, 15, 0x7b, 0x7f};
	default: return (Format){1, 1, 7, 7};
	}
}

static bool
is_byte_float(DType t)
{
	return t == TY_F8E4M3 || t == TY_F8E5M2 || t == TY_F4E2M1;
}

static bool
is_narrow_float(DType t)
{
	return is_byte_float(t) || t == TY_F16 || t == TY_BF16;
}

/* ---- narrow floats to f32 ---- */

static Reg
widen_fields(Lower *l, DType t, Reg r)
{
	Format f = format_of(t);
	uint32_t sign = t == TY_F4E2M1 ? 8 : 0x80;
	Reg bits = lower_as(l, CAST_ZEXT, REG_I32, r);
	Reg magnitude = lower_op2(l, THREAD_AND, bits, lower_i32(l, sign - 1));
	Reg x = lower_op2(l, THREAD_SHL, magnitude, lower_i32(l, 23 - f.mantissa));
	Reg scale = lower_i32(l, (int64_t)(254 - f.bias) << 23);
	x = lower_as(l, CAST_BITS, REG_F32, x);
	x = lower_op2(l, THREAD_FMUL, x, lower_as(l, CAST_BITS, REG_F32, scale));
	x = lower_as(l, CAST_BITS, REG_I32, x);
	if (t == TY_F8E4M3) {
		Reg is_nan = lower_op2(l, THREAD_EQ, magnitude, lower_i32(l, 0x7f));
		x = lower_op3(l, THREAD_SELECT, is_nan, lower_i32(l, 0x7fc00000), x);
	}
	Reg s = lower_op2(l, THREAD_SHL, lower_op2(l, THREAD_AND, bits, lower_i32(l, sign)),
	    lower_i32(l, t == TY_F4E2M1 ? 28 : 24));
	return lower_as(l, CAST_BITS, REG_F32, lower_op2(l, THREAD_OR, x, s));
}

/* Two e4m3 in the low half of a word. */
static void
unpack_two(Lower *l, Reg word, Reg half[2])
{
	Reg both;
	thread_prim(l->b, PRIM_UNPACK_E4M3, &word, 1, NULL, 0, &both, 1);
	thread_unpack(l->b, both, REG_F16, half, 2);
}

Reg
lower_widen(Lower *l, DType t, Reg r)
{
	Reg half[2];
	int bit;
	if (t == TY_F16 || t == TY_BF16)
		return lower_as(l, CAST_FEXT, REG_F32, r);
	Reg nibbles = t == TY_F4E2M1 ? lower_loaded_nibble(l, r, &bit) : 0;
	if (nibbles)
		return lower_nibble_to_f32(l, t, nibbles, bit);
	if (t == TY_F8E5M2) {                           /* the upper byte of an f16 */
		r = lower_op2(l, THREAD_SHL, lower_as(l, CAST_ZEXT, REG_I16, r), thread_int_const(l->b, REG_I16, 8));
		return lower_as(l, CAST_FEXT, REG_F32, lower_as(l, CAST_BITS, REG_F16, r));
	}
	if (t == TY_F8E4M3 && (l->t->has & HAS_FP8)) {
		unpack_two(l, lower_as(l, CAST_ZEXT, REG_I32, r), half);
		return lower_as(l, CAST_FEXT, REG_F32, half[0]);
	}
	return is_byte_float(t) ? widen_fields(l, t, r) : r;
}

/* ---- f32 to narrow floats ---- */

static Reg
narrow_fields(Lower *l, DType t, Reg x)
{
	Format f = format_of(t);
	int cut = 23 - f.mantissa;
	uint32_t power = (uint32_t)(127 + (1 - f.bias - f.mantissa) + 23) << 23;
	Reg bits = lower_as(l, CAST_BITS, REG_I32, x);
	Reg u = lower_op2(l, THREAD_AND, bits, lower_i32(l, 0x7fffffff));
	Reg odd = lower_op2(l, THREAD_AND, lower_op2(l, THREAD_LSHR, u, lower_i32(l, cut)), lower_i32(l, 1));
	Reg normal = lower_op2(l, THREAD_ADD, u, lower_i32(l, (INT64_C(1) << (cut - 1)) - 1));
	normal = lower_op2(l, THREAD_LSHR, lower_op2(l, THREAD_ADD, normal, odd), lower_i32(l, cut));
	normal = lower_op2(l, THREAD_SUB, normal, lower_i32(l, (int64_t)(127 - f.bias) << f.mantissa));
	/* a unit in the last place of this power of two is the format's least number */
	Reg small = lower_as(l, CAST_BITS, REG_F32, u);
	small = lower_op2(l, THREAD_FADD, small, lower_as(l, CAST_BITS, REG_F32, lower_i32(l, power)));
	small = lower_op2(l, THREAD_SUB, lower_as(l, CAST_BITS, REG_I32, small), lower_i32(l, power));
	Reg is_small = lower_op2(l, THREAD_ULT, u, lower_i32(l, (int64_t)(128 - f.bias) << 23));
	Reg is_nan = lower_op2(l, THREAD_ULT, lower_i32(l, 0x7f800000), u);
	Reg r = lower_op3(l, THREAD_SELECT, is_small, small, normal);
	r = lower_op2(l, THREAD_UMIN, r, lower_i32(l, f.most));
	Reg sign = lower_op2(l, THREAD_LSHR, bits, lower_i32(l, t == TY_F4E2M1 ? 28 : 24));
	sign = lower_op2(l, THREAD_AND, sign, lower_i32(l, t == TY_F4E2M1 ? 8 : 0x80));
	r = lower_op3(l, THREAD_SELECT, is_nan, lower_i32(l, f.nan), lower_op2(l, THREAD_OR, r, sign));
	return lower_as(l, CAST_TRUNC, REG_I8, r);
}

static bool
has_pack(const Lower *l, DType t)
{
	return (t == TY_F8E4M3 || t == TY_F8E5M2) && (l->t->has & HAS_FP8);
}

static Reg
pack_two(Lower *l, DType t, Reg a, Reg b)
{
	Reg in[2] = {a, b}, out;
	thread_prim(l->b, t == TY_F8E4M3 ? PRIM_PACK_E4M3 : PRIM_PACK_E5M2, in, 2, NULL, 0, &out, 1);
	return out;
}

/* f16, bf16, f64; else REG_F32. */
static RegType
float_type(DType t)
{
	return t == TY_F16 ? REG_F16 : t == TY_BF16 ? REG_BF16 : t == TY_F64 ? REG_F64 : REG_F32;
}

Reg
lower_narrow(Lower *l, DType t, Reg x)
{
	if (t == TY_F16 || t == TY_BF16)
		return lower_as(l, CAST_FTRUNC, float_type(t), x);
	if (has_pack(l, t))
		return lower_as(l, CAST_TRUNC, REG_I8, pack_two(l, t, x, thread_float_const(l->b, REG_F32, 0)));
	return is_byte_float(t) ? narrow_fields(l, t, x) : x;
}

/* The upper byte of an f16. */
Reg
lower_narrow_exact(Lower *l, DType t, Reg x)
{
	if (t != TY_F8E5M2)
		return lower_narrow(l, t, x);
	x = lower_as(l, CAST_BITS, REG_I16, lower_as(l, CAST_FTRUNC, REG_F16, x));
	return lower_as(l, CAST_TRUNC, REG_I8, lower_op2(l, THREAD_LSHR, x, thread_int_const(l->b, REG_I16, 8)));
}

/* ---- without rounding twice ---- */

/* An f64 as the f32 on its side of 0, its last bit set if anything was lost. */
static Reg
odd_f32(Lower *l, Reg x)
{
	Reg f = lower_as(l, CAST_FTRUNC, REG_F32, x), back = lower_as(l, CAST_FEXT, REG_F64, f);
	Reg bits = lower_as(l, CAST_BITS, REG_I32, f);
	Reg size = lower_op1(l, THREAD_FABS, x);
	Reg away = lower_op2(l, THREAD_FLT, size, lower_op1(l, THREAD_FABS, back));
	Reg cut = lower_op2(l, THREAD_SUB, bits, lower_as(l, CAST_ZEXT, REG_I32, away));
	cut = lower_op2(l, THREAD_OR, cut, lower_i32(l, 1));
	bits = lower_op3(l, THREAD_SELECT, lower_op2(l, THREAD_FNE, back, x), cut, bits);
	return lower_as(l, CAST_BITS, REG_F32, bits);
}

/* The low `cut` bits of a magnitude that has more than `keep` become one bit that says whether any was set. */
static Reg
sticky_low(Lower *l, RegType t, Reg a, int keep, int cut)
{
	Reg zero = thread_int_const(l->b, t, 0), low = thread_int_const(l->b, t, (INT64_C(1) << cut) - 1);
	Reg lost = lower_op2(l, THREAD_NE, lower_op2(l, THREAD_AND, a, low), zero);
	Reg sticky = lower_op2(l, THREAD_SHL, lower_as(l, CAST_ZEXT, t, lost), thread_int_const(l->b, t, cut));
	Reg folded = lower_op2(l, THREAD_OR, lower_op2(l, THREAD_AND, a, lower_op1(l, THREAD_NOT, low)), sticky);
	Reg big = lower_op2(l, THREAD_NE, lower_op2(l, THREAD_LSHR, a, thread_int_const(l->b, t, keep)), zero);
	return lower_op3(l, THREAD_SELECT, big, folded, a);
}

/* The upper 24 bits of a magnitude of 64 as an f32, the last one set if anything was lost: where there is no f64. */
static Reg
odd_magnitude(Lower *l, Reg a)
{
	Reg zero = lower_i64(l, 0), one = lower_i64(l, 1);
	Reg cut = lower_op2(l, THREAD_SUB, lower_i64(l, 64 - 24), lower_op1(l, THREAD_CLZ, a));
	cut = lower_op2(l, THREAD_SMAX, cut, zero);
	Reg low = lower_op2(l, THREAD_SUB, lower_op2(l, THREAD_SHL, one, cut), one);
	Reg lost = lower_op2(l, THREAD_NE, lower_op2(l, THREAD_AND, a, low), zero);
	Reg kept = lower_op2(l, THREAD_OR, lower_op2(l, THREAD_LSHR, a, cut), lower_as(l, CAST_ZEXT, REG_I64, lost));
	Reg power = lower_op2(l, THREAD_ADD, lower_as(l, CAST_TRUNC, REG_I32, cut), lower_i32(l, 127));
	power = lower_as(l, CAST_BITS, REG_F32, lower_op2(l, THREAD_SHL, power, lower_i32(l, 23)));
	return lower_op2(l, THREAD_FMUL, lower_as(l, CAST_U2F, REG_F32, lower_as(l, CAST_TRUNC, REG_I32, kept)), power);
}

/* A wide integer as an f32 that rounds to narrow floats as it would itself. */
static Reg
odd_integer(Lower *l, DType t, Reg r)
{
	bool is_signed = dtype_is_signed(t), wide = dtype_info[t].bits == 64, by_double = wide && (l->t->has & HAS_F64);
	RegType type = wide ? REG_I64 : REG_I32, to = by_double ? REG_F64 : REG_F32;
	Reg zero = thread_int_const(l->b, type, 0), negative = 0;
	if (is_signed) {
		negative = lower_op2(l, THREAD_SLT, r, zero);
		r = lower_op3(l, THREAD_SELECT, negative, lower_op2(l, THREAD_SUB, zero, r), r);
	}
	Reg x;
	if (wide && !by_double)
		x = odd_magnitude(l, r);
	else
		x = lower_as(l, CAST_U2F, to, wide ? sticky_low(l, type, r, 53, 11) : sticky_low(l, type, r, 24, 8));
	if (is_signed)
		x = lower_op3(l, THREAD_SELECT, negative, lower_op1(l, THREAD_FNEG, x), x);
	return by_double ? odd_f32(l, x) : x;
}

/* ---- one element ---- */

Reg
lower_wrap(Lower *l, DType t, Reg r)
{
	if (t == TY_U4 || t == TY_F4E2M1)
		return lower_op2(l, THREAD_AND, r, thread_int_const(l->b, REG_I8, 15));
	if (t != TY_I4)
		return r;
	Reg four = thread_int_const(l->b, REG_I8, 4);
	return lower_op2(l, THREAD_ASHR, lower_op2(l, THREAD_SHL, r, four), four);
}

static Reg
resize(Lower *l, RegType from, RegType to, bool is_signed, Reg r)
{
	int a = thread_type_bytes(from), b = thread_type_bytes(to);
	if (a == b)
		return r;
	return lower_as(l, a > b ? CAST_TRUNC : is_signed ? CAST_SEXT : CAST_ZEXT, to, r);
}

static RegType
int_type(DType t)
{
	switch (dtype_info[t].bits) {
	case 64: return REG_I64;
	case 32: return REG_I32;
	case 16: return REG_I16;
	default: return REG_I8;
	}
}

static Reg
float_to_int(Lower *l, DType to, Reg x)
{
	if (!dtype_is_packed(to))
		return lower_as(l, dtype_is_signed(to) ? CAST_F2S : CAST_F2U, int_type(to), x);
	Reg r = lower_as(l, CAST_F2S, REG_I32, x);
	r = lower_op2(l, THREAD_SMIN, r, lower_i32(l, to == TY_I4 ? 7 : 15));
	r = lower_op2(l, THREAD_SMAX, r, lower_i32(l, to == TY_I4 ? -8 : 0));
	return lower_as(l, CAST_TRUNC, REG_I8, r);
}

/* Integers of 4 bits, which stand in bytes, 8 and 16 become the low bits of 2^23, which is then subtracted: exact.
 * NVIDIA's GPUs convert a quarter as many elements a cycle as they add, or an eighth (CUDA C++ Programming Guide,
 * Arithmetic Instructions). */
static bool
has_slow_conversions(const Lower *l, DType t)
{
	int bits = dtype_info[t].bits;
	return l->t->kind == TARGET_PTX && l->t->has & HAS_MMA_SYNC && bits >= 4 && bits <= 16 && !dtype_is_float(t);
}

static Reg
permute(Lower *l, Reg a, int64_t b, int64_t which)
{
	Reg second = lower_i32(l, b);
	return lower_byte_permute(l, a, second, lower_i32(l, which));
}

static bool
has_byte_permutes(const Lower *l)
{
	unsigned needs = prim_info[PRIM_BYTE_PERMUTE].needs | prim_info[PRIM_ADD_F16X2].needs;
	return l->t->kind == TARGET_PTX && !(needs & ~l->t->has);
}

static Reg
short_to_f32(Lower *l, DType t, Reg r)
{
	int64_t half = dtype_is_signed(t) ? INT64_C(1) << (MAX(dtype_info[t].bits, 8) - 1) : 0;
	int byte, bit;
	Reg nibbles = dtype_info[t].bits == 4 ? lower_loaded_nibble(l, r, &bit) : 0;
	if (nibbles)
		return lower_nibble_to_f32(l, t, nibbles, bit);
	Reg loaded = dtype_info[t].bits == 8 ? lower_loaded_word(l, r, &byte) : 0;
	Reg flip = lower_i32(l, loaded ? (int32_t)0x80808080 : 0x4b000000 | half);
	Reg word = loaded ? loaded : lower_as(l, CAST_ZEXT, REG_I32, r);
	word = half || !loaded ? lower_op2(l, THREAD_XOR, word, flip) : word;
	word = loaded ? permute(l, word, 0x4b000000, 0x7440 + byte) : word;
	word = lower_as(l, CAST_BITS, REG_F32, word);
	return lower_op2(l, THREAD_FADD, word, thread_float_const(l->b, REG_F32, (double)(-8388608 - half)));
}

static Reg
int_to_float(Lower *l, DType from, DType to, Reg r)
{
	bool narrow = is_narrow_float(to);
	if (to != TY_F64 && has_slow_conversions(l, from))
		return lower_narrow(l, to, short_to_f32(l, from, r));
	if (narrow && dtype_info[from].bits >= 32)
		return lower_narrow(l, to, odd_integer(l, from, r));
	r = lower_as(l, dtype_is_signed(from) ? CAST_S2F : CAST_U2F, to == TY_F64 ? REG_F64 : REG_F32, r);
	return lower_narrow(l, to, r);
}

static Reg
float_to_float(Lower *l, DType from, DType to, Reg r)
{
	if (from == TY_F64)
		return to == TY_F32 ? lower_as(l, CAST_FTRUNC, REG_F32, r) : lower_narrow(l, to, odd_f32(l, r));
	r = lower_widen(l, from, r);
	return to == TY_F64 ? lower_as(l, CAST_FEXT, REG_F64, r) : lower_narrow(l, to, r);
}

Reg
lower_cast_one(Lower *l, DType from, DType to, Reg r)
{
	if (from == to)
		return r;
	if (to == TY_BOOL && dtype_is_float(from))
		return lower_op2(l, THREAD_FNE, lower_widen(l, from, r),
		    thread_float_const(l->b, from == TY_F64 ? REG_F64 : REG_F32, 0));
	if (to == TY_BOOL)
		return lower_op2(l, THREAD_NE, r, thread_int_const(l->b, int_type(from), 0));
	if (from == TY_BOOL) {
		r = lower_as(l, CAST_ZEXT, REG_I8, r);
		from = TY_U8;
	}
	if (dtype_is_float(from))
		return dtype_is_float(to) ? float_to_float(l, from, to, r)
					  : float_to_int(l, to, lower_widen(l, from, r));
	if (dtype_is_float(to))
		return int_to_float(l, from, to, r);
	return lower_wrap(l, to, resize(l, int_type(from), int_type(to), dtype_is_signed(from), r));
}

/* ---- ops ---- */

static Reg
bitcast_one(Lower *l, DType from, DType to, Reg r)
{
	RegType a = dtype_is_float(from) ? float_type(from) : int_type(from);
	RegType b = dtype_is_float(to) ? float_type(to) : int_type(to);
	if (is_byte_float(from))
		a = REG_I8;
	if (is_byte_float(to))
		b = REG_I8;
	if (from == to)
		return r;
	if (from == TY_BOOL)
		r = lower_as(l, CAST_ZEXT, REG_I8, r);
	if (to == TY_BOOL)
		return lower_op2(l, THREAD_NE, r, thread_int_const(l->b, REG_I8, 0));
	if (dtype_is_packed(to))
		return lower_wrap(l, to, r);
	return a == b ? r : lower_as(l, CAST_BITS, b, r);
}

/* Four at a time where the machine converts two. */
static void
narrow_fours(Lower *l, DType t, const Reg *x, Reg *out, int n)
{
	for (int r = 0; r < n; r += 4) {
		Reg low = pack_two(l, t, x[r], x[r + 1]), high = pack_two(l, t, x[r + 2], x[r + 3]);
		high = lower_op2(l, THREAD_SHL, high, lower_i32(l, 16));
		thread_unpack(l->b, lower_op2(l, THREAD_OR, low, high), REG_I8, &out[r], 4);
	}
}

static Reg
three(Lower *l, PrimKind kind, Reg a, int64_t b, int64_t c)
{
	Reg in[] = {a, lower_i32(l, (int32_t)b), lower_i32(l, (int32_t)c)}, out;
	thread_prim(l->b, kind, in, 3, NULL, 0, &out, 1);
	return out;
}

/* Four bytes of a word, two at a time.  Signed ones are 128 more at first.  In f16 they are the low bytes of 0x6400, which
 * is 1024; in bf16, which has 8 bits of significand, those of 0: bits below 0x100 stand for that many 2^-133, so that times
 * 2^127, less 128 of them and times 64 they are exact. */
static void
bytes_to_halves(Lower *l, bool is_signed, DType to, const Reg *in, Reg *out)
{
	Reg word = thread_pack(l->b, in, 4), x[2];
	if (is_signed)
		word = lower_op2(l, THREAD_XOR, word, lower_i32(l, (int32_t)0x80808080));
	for (int i = 0; i < 2; i++) {
		x[0] = permute(l, word, to == TY_F16 ? 0x64646464 : 0, i ? 0x4342 : 0x4140);
		x[1] = lower_i32(l, (int32_t)(is_signed ? 0xe480e480 : 0xe400e400));
		if (to == TY_F16)
			thread_prim(l->b, PRIM_ADD_F16X2, x, 2, NULL, 0, &x[0], 1);
		else
			x[0] = three(l, PRIM_FMA_BF16X2, three(l, PRIM_FMA_BF16X2, x[0], 0x7f007f00,
				   is_signed ? 0xc000c000 : 0x80008000), 0x42804280, 0x80008000);
		thread_unpack(l->b, x[0], to == TY_F16 ? REG_F16 : REG_BF16, &out[2 * i], 2);
	}
}

/* e5m2 is the upper byte of an f16. */
static void
upper_bytes(Lower *l, const Reg *in, Reg *out)
{
	Reg word = thread_pack(l->b, in, 4);
	for (int i = 0; i < 2; i++)
		thread_unpack(l->b, permute(l, word, 0, i ? 0x3424 : 0x1404), REG_F16, &out[2 * i], 2);
}

/* Bytes that become halves by permutes; false: others. */
static bool
cast_bytes(Lower *l, DType from, DType to, const Reg *in, Reg *out, int n)
{
	bool is_int = from == TY_I8 || from == TY_U8, upper = from == TY_F8E5M2 && to == TY_F16;
	bool has_fma = l->t->has & HAS_BF16 || to != TY_BF16;
	if (!has_byte_permutes(l) || !(upper || (is_int && has_fma && (to == TY_F16 || to == TY_BF16))))
		return false;
	for (int r = 0; r < n; r += 4)
		if (upper)
			upper_bytes(l, &in[r], &out[r]);
		else
			bytes_to_halves(l, from == TY_I8, to, &in[r], &out[r]);
	return true;
}

static void
widen_fours(Lower *l, const Reg *in, Reg *out, int n)
{
	for (int r = 0; r < n; r += 4) {
		Reg word[2] = {thread_pack(l->b, &in[r], 4)}, half[4];
		word[1] = lower_op2(l, THREAD_LSHR, word[0], lower_i32(l, 16));
		for (int i = 0; i < 2; i++)
			unpack_two(l, word[i], &half[2 * i]);
		for (int i = 0; i < 4; i++)
			out[r + i] = lower_as(l, CAST_FEXT, REG_F32, half[i]);
	}
}

void
lower_cast(Lower *l, Op *op)
{
	DType from = op->in[0]->type->elem, to = op->out[0].type->elem;
	const Reg *in = lower_operand(l, op, 0, op->out[0].layout);
	int n = lower_count(&op->out[0]);
	Reg *out = lower_new(l, &op->out[0]), *wide = NEW_ARRAY(l->mem, Reg, n);
	const Op *round = op->in[0]->def;
	bool is_rounded = op->kind == OP_CAST && from == TY_F32 && round && round->kind == OP_ROUND;
	if (is_rounded && has_slow_conversions(l, to) && !dtype_is_packed(to) &&
	    round->in[0]->layout == op->out[0].layout && op->in[0]->layout == op->out[0].layout) {
		lower_round(l, to, lower_regs(l, round->in[0]), n, out);
		return;
	}
	bool fours = op->kind == OP_CAST && from != to && n % 4 == 0;
	if (op->kind == OP_CAST && in == lower_regs(l, op->in[0]) && lower_packed_cast(l, op->in[0], to, out))
		return;
	if (fours && (cast_bytes(l, from, to, in, out, n) || lower_bytes_cast(l, op, in, out, n)))
		return;
	if (fours && from == TY_F8E4M3 && (l->t->has & HAS_FP8)) {
		widen_fours(l, in, wide, n);
		for (int r = 0; r < n; r++)
			out[r] = lower_cast_one(l, TY_F32, to, wide[r]);
		return;
	}
	if (fours && has_pack(l, to) && (from == TY_F32 || from == TY_F16 || from == TY_BF16)) {
		for (int r = 0; r < n; r++)
			wide[r] = lower_widen(l, from, in[r]);
		narrow_fours(l, to, wide, out, n);
		return;
	}
	bool pairs = op->kind == OP_BITCAST && (from == TY_U16 || from == TY_I16) && (to == TY_F16 || to == TY_BF16);
	for (int r = 0; r < n; r++) {
		if (pairs && r + 1 < n && lower_halves_of_bits(l, &in[r], float_type(to), &out[r])) {
			r++;
			continue;
		}
		out[r] = op->kind == OP_CAST ? lower_cast_one(l, from, to, in[r]) : bitcast_one(l, from, to, in[r]);
	}
}
