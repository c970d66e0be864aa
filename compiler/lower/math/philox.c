/* Philox 4x32-10 (Salmon, Moraes, Dror, Shaw: Parallel random numbers: as easy as 1, 2, 3; SC 2011), four words for each
 * offset.  The key is the seed; the counter is the offset in 64 bits, sign-extended where its type has a sign. */
#include "lower/lower.h"

static Reg
low_word(Lower *l, Reg r)
{
	return lower_as(l, CAST_TRUNC, REG_I32, r);
}

static Reg
high_word(Lower *l, Reg r)
{
	return low_word(l, lower_op2(l, THREAD_LSHR, r, lower_i64(l, 32)));
}

static void
counter(Lower *l, DType t, Reg offset, Reg c[4])
{
	bool wide = dtype_info[t].bits == 64;
	Reg zero = lower_i32(l, 0);
	c[0] = wide ? low_word(l, offset) : lower_cast_one(l, t, TY_U32, offset);
	c[1] = wide ? high_word(l, offset) : dtype_is_signed(t) ? lower_op2(l, THREAD_ASHR, c[0], lower_i32(l, 31)) : zero;
	c[2] = c[3] = zero;
}

static void
rounds(Lower *l, Reg c[4], const Reg key[2][10])
{
	Reg m0 = lower_i32(l, 0xD2511F53), m1 = lower_i32(l, 0xCD9E8D57);
	for (int i = 0; i < 10; i++) {
		Reg a_low = lower_op2(l, THREAD_MUL, m0, c[0]), a_high = lower_op2(l, THREAD_MULHI_U, m0, c[0]);
		Reg b_low = lower_op2(l, THREAD_MUL, m1, c[2]), b_high = lower_op2(l, THREAD_MULHI_U, m1, c[2]);
		c[0] = lower_op2(l, THREAD_XOR, lower_op2(l, THREAD_XOR, b_high, c[1]), key[0][i]);
		c[2] = lower_op2(l, THREAD_XOR, lower_op2(l, THREAD_XOR, a_high, c[3]), key[1][i]);
		c[1] = b_low;
		c[3] = a_low;
	}
}

void
lower_philox(Lower *l, Op *op)
{
	static const int64_t step[2] = {0x9E3779B9, 0xBB67AE85};
	DType t = op->in[1]->type->elem;
	Reg seed = lower_regs(l, op->in[0])[0], key[2][10], *out[4];
	const Reg *offset = lower_operand(l, op, 1, op->out[0].layout);
	key[0][0] = low_word(l, seed);
	key[1][0] = high_word(l, seed);
	for (int i = 1; i < 10; i++)
		for (int k = 0; k < 2; k++)
			key[k][i] = lower_op2(l, THREAD_ADD, key[k][i - 1], lower_i32(l, step[k]));
	for (int k = 0; k < 4; k++)
		out[k] = lower_new(l, &op->out[k]);
	for (int r = 0; r < lower_count(&op->out[0]); r++) {
		Reg c[4];
		counter(l, t, offset[r], c);
		rounds(l, c, (const Reg(*)[10])key);
		for (int k = 0; k < 4; k++)
			out[k][r] = c[k];
	}
}
