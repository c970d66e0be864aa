/* One element from another lane of the warp.  Shuffles move words of 32 bits: narrower elements are widened, 64-bit ones
 * go in two halves. */
#include "lower/across/across.h"

typedef struct Words {
	Reg at[2];
	int n;
} Words;

static Words
to_words(Lower *l, RegType type, Reg v)
{
	switch (type) {
	case REG_PRED:
	case REG_I8:
	case REG_I16:
		return (Words){{lower_as(l, CAST_ZEXT, REG_I32, v)}, 1};
	case REG_F16:
	case REG_BF16:
		return to_words(l, REG_I16, lower_as(l, CAST_BITS, REG_I16, v));
	case REG_F32:
		return (Words){{lower_as(l, CAST_BITS, REG_I32, v)}, 1};
	case REG_I64:
	case REG_F64:
	case REG_GLOBAL:
		break;
	default:
		return (Words){{v}, 1};
	}
	if (type != REG_I64)
		v = lower_as(l, CAST_BITS, REG_I64, v);
	Reg high = lower_op2(l, THREAD_LSHR, v, lower_i64(l, 32));
	return (Words){{lower_as(l, CAST_TRUNC, REG_I32, v), lower_as(l, CAST_TRUNC, REG_I32, high)}, 2};
}

static Reg
of_words(Lower *l, RegType type, const Words *w)
{
	switch (type) {
	case REG_PRED:
		return lower_op2(l, THREAD_NE, w->at[0], lower_i32(l, 0));
	case REG_I8:
	case REG_I16:
		return lower_as(l, CAST_TRUNC, type, w->at[0]);
	case REG_F16:
	case REG_BF16:
		return lower_as(l, CAST_BITS, type, lower_as(l, CAST_TRUNC, REG_I16, w->at[0]));
	case REG_F32:
		return lower_as(l, CAST_BITS, REG_F32, w->at[0]);
	case REG_I64:
	case REG_F64:
	case REG_GLOBAL:
		break;
	default:
		return w->at[0];
	}
	Reg high = lower_op2(l, THREAD_SHL, lower_as(l, CAST_ZEXT, REG_I64, w->at[1]), lower_i64(l, 32));
	Reg v = lower_op2(l, THREAD_OR, high, lower_as(l, CAST_ZEXT, REG_I64, w->at[0]));
	return type == REG_I64 ? v : lower_as(l, CAST_BITS, type, v);
}

Reg
lower_lane_xor(Lower *l, RegType type, Reg v, int mask)
{
	Words w = to_words(l, type, v);
	int64_t imm = mask;
	for (int i = 0; i < w.n; i++)
		thread_prim(l->b, PRIM_SHUFFLE_XOR, &w.at[i], 1, &imm, 1, &w.at[i], 1);
	return of_words(l, type, &w);
}

Reg
lower_lane_from(Lower *l, RegType type, Reg v, Reg lane)
{
	Words w = to_words(l, type, v);
	for (int i = 0; i < w.n; i++) {
		Reg in[2] = {w.at[i], lane};
		thread_prim(l->b, PRIM_SHUFFLE, in, 2, NULL, 0, &w.at[i], 1);
	}
	return of_words(l, type, &w);
}
