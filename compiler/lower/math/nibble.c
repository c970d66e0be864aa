/* Elements of 4 bits and bytes that a thread loaded, taken from the words that they are in.
 *
 *     r8: i32 = lshr r7, 16                          u4: elements 5, 6 and 7 of the word; others need no shift
 *     r9: i32 = and_xor r8, 0x000000f0, 0x4b000000   2^23 + 16 n
 *     r10: f32 = fma r9, 0x1p-4, -0x1p19             n: all of it is exact
 *
 *     r8: i32 = ashr (shl r7, 12), 6                 f4e2m1: its sign at bit 31 and its other bits at 22, with copies of
 *     r9: i32 = and r8, 0x81c00000                   the sign between: that is 2^-126 times as much
 *     r10: f32 = fmul r9, 0x1p126
 *
 * By the bytes that elements are loaded as it takes five instructions, of 16 bits and 32, for two and a half here. */
#include "lower/lower.h"

static bool
is_by(const Lower *l, const ThreadNode *n, ThreadOp op, int64_t by)
{
	int at;
	const ThreadNode *second = n->kind == NODE_OP && n->op == (int)op ? thread_node_of(l->b, n->in[1], &at) : NULL;
	return second && second->kind == NODE_CONST && second->i == by;
}

Reg
lower_loaded_word(Lower *l, Reg r, int *byte)
{
	unsigned needs = prim_info[PRIM_BYTE_PERMUTE].needs | prim_info[PRIM_AND_XOR].needs;
	int at;
	const ThreadNode *n = thread_node_of(l->b, r, &at);
	bool loads = n && n->kind == NODE_LOAD && n->type == REG_I8 && n->nout % 4 == 0;
	if (!loads || l->t->kind != TARGET_PTX || needs & ~l->t->has)
		return 0;
	*byte = at % 4;
	return thread_pack(l->b, &n->out[at - *byte], 4);
}

/* The word that a byte's bits are of, and the first of them; 0: none. */
static Reg
word_around(Lower *l, Reg r, int *bit)
{
	int at, byte;
	const ThreadNode *cut = thread_node_of(l->b, r, &at);
	if (!cut || cut->kind != NODE_CAST || cut->op != CAST_TRUNC || thread_type_of(l->b, cut->in[0]) != REG_I32) {
		Reg word = lower_loaded_word(l, r, &byte);
		*bit = 8 * byte;
		return word;
	}
	const ThreadNode *n = thread_node_of(l->b, cut->in[0], &at);
	const ThreadNode *by = n->kind == NODE_OP && n->op == THREAD_LSHR ? thread_node_of(l->b, n->in[1], &at) : NULL;
	bool shifts = by && by->kind == NODE_CONST && by->i <= 28;
	*bit = shifts ? (int)by->i : 0;
	return shifts ? n->in[0] : cut->in[0];
}

Reg
lower_loaded_nibble(Lower *l, Reg r, int *bit)
{
	int at;
	const ThreadNode *n = l->t->kind == TARGET_PTX ? thread_node_of(l->b, r, &at) : NULL;
	bool high = n && (is_by(l, n, THREAD_LSHR, 4) || is_by(l, n, THREAD_ASHR, 4));
	bool masked = n && is_by(l, n, THREAD_AND, 15);
	if (!high && !masked)
		return 0;
	const ThreadNode *shifted = thread_node_of(l->b, n->in[0], &at);
	bool low = masked || (shifted && is_by(l, shifted, THREAD_SHL, 4));
	Reg word = word_around(l, low && !masked ? shifted->in[0] : n->in[0], bit);
	*bit += low ? 0 : 4;
	return *bit <= 28 ? word : 0;
}

Reg
lower_nibble_to_f32(Lower *l, DType t, Reg word, int bit)
{
	if (t == TY_F4E2M1) {
		word = lower_op2(l, THREAD_ASHR, lower_op2(l, THREAD_SHL, word, lower_i32(l, 28 - bit)), lower_i32(l, 6));
		word = lower_op2(l, THREAD_AND, word, lower_i32(l, (int32_t)0x81c00000));
		Reg power = thread_float_const(l->b, REG_F32, 0x1p126);
		return lower_op2(l, THREAD_FMUL, lower_as(l, CAST_BITS, REG_F32, word), power);
	}
	if (bit > 16) {
		word = lower_op2(l, THREAD_LSHR, word, lower_i32(l, 16));
		bit -= 16;
	}
	int half = t == TY_I4 ? 8 : 0;
	Reg in[] = {word, lower_i32(l, INT64_C(15) << bit), lower_i32(l, 0x4b000000 | half << bit)};
	thread_prim(l->b, PRIM_AND_XOR, in, 3, NULL, 0, &word, 1);
	Reg scale = thread_float_const(l->b, REG_F32, 1.0 / (1 << bit));
	Reg less = thread_float_const(l->b, REG_F32, -0x1p23 / (1 << bit) - half);
	return lower_op3(l, THREAD_FMA, lower_as(l, CAST_BITS, REG_F32, word), scale, less);
}
