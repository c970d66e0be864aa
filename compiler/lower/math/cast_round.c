/* f32 rounded to integers of 8 and 16 bits, which saturate; NaN gives 0.
 *
 * Two of 8 bits are one instruction from sm_80 on, which ptxas makes of two conversions and the packing of both (F2IP).
 * Others become the low bits of 1.5 * 2^23 + x: NVIDIA's GPUs convert a quarter as many elements a cycle as they add. */
#include "lower/lower.h"

/* The nearest integer, even of two, within the type's: as the low bits of 1.5 * 2^23 + x.  NaN gives 0. */
static Reg
f32_to_short(Lower *l, DType t, Reg x)
{
	int bits = dtype_info[t].bits;
	bool is_signed = dtype_is_signed(t);
	double least = is_signed ? -(double)(1 << (bits - 1)) : 0;
	double most = (double)(1 << (is_signed ? bits - 1 : bits)) - 1;
	Reg zero = thread_float_const(l->b, REG_F32, 0);
	if (is_signed)                                  /* else the greater of NaN and 0 is 0 */
		x = lower_op3(l, THREAD_SELECT, lower_op2(l, THREAD_FNE, x, x), zero, x);
	x = lower_op2(l, THREAD_FMAX, x, thread_float_const(l->b, REG_F32, least));
	x = lower_op2(l, THREAD_FMIN, x, thread_float_const(l->b, REG_F32, most));
	x = lower_op2(l, THREAD_FADD, x, thread_float_const(l->b, REG_F32, 12582912));
	return lower_as(l, CAST_TRUNC, bits == 8 ? REG_I8 : REG_I16, lower_as(l, CAST_BITS, REG_I32, x));
}

void
lower_round(Lower *l, DType t, const Reg *x, int n, Reg *out)
{
	PrimKind prim = dtype_is_signed(t) ? PRIM_ROUND_S8 : PRIM_ROUND_U8;
	bool in_pairs = dtype_info[t].bits == 8 && n % 4 == 0 && !(prim_info[prim].needs & ~l->t->has);
	for (int r = 0; r < n && !in_pairs; r++)
		out[r] = f32_to_short(l, t, x[r]);
	for (int r = 0; r < n && in_pairs; r += 4) {
		Reg in[] = {x[r + 2], x[r + 3], lower_i32(l, 0)}, word;
		thread_prim(l->b, prim, in, 3, NULL, 0, &word, 1);
		thread_prim(l->b, prim, (Reg[]){x[r], x[r + 1], word}, 3, NULL, 0, &word, 1);
		thread_unpack(l->b, word, REG_I8, &out[r], 4);
	}
}
