/* Integers of 8 bits, four in a word, as the operands of matrix instructions are: weights of 4 bits beside rows of i8.
 *
 *     r9: i32 = byte_permute r8, (lshr r8, 4), 0x5140    elements 0 to 3 of a word of i4, each with its neighbour above
 *     r10: i32 = and_xor r9, 0x0f0f0f0f, 0x88888888      their signs turned, and a bit above that takes what is borrowed
 *     r11: i32 = xor (sub r10, 0x08080808), 0x80808080
 *
 * Sums and differences keep carries within the bytes: the highest bits are left out and added without one.  Products are
 * those of a word's even and odd bytes by a number of 8 bits that all four have, as a group's scale: each has 16 bits. */
#include "ir/derive.h"
#include "lower/lower.h"

enum { QUAD = 4 };

static const int64_t LOW = 0x7f7f7f7f, TOP = (int32_t)0x80808080, EVEN = 0x00ff00ff;

static bool
is_byte(const Value *v)
{
	return v->type->kind == TYPE_TILE && (v->type->elem == TY_I8 || v->type->elem == TY_U8);
}

/* Is the result an operand of a product behind it, moved and computed with as bytes alone?  What goes on one by one
 * would be taken out of words again. */
static bool
is_for_product(const Lower *l, const Op *op)
{
	bool *slice = NEW_ARRAY(l->mem, bool, l->f->nvalues);
	slice[op->out[0].id] = true;
	for (const Op *next = op->next; next; next = next->next) {
		if (!op_uses_slice(next, slice))
			continue;
		if (next->kind == OP_DOT || next->kind == OP_DOT_START)
			return true;
		if (next->nregion == 0 && next->nout == 1 && is_byte(&next->out[0]))
			op_extend_slice(next, slice, true);
	}
	return false;
}

static bool
has_quads(const Lower *l, const Op *op, int n)
{
	unsigned needs = prim_info[PRIM_BYTE_PERMUTE].needs | prim_info[PRIM_AND_XOR].needs;
	return l->t->kind == TARGET_PTX && !(needs & ~l->t->has) && n % QUAD == 0 && is_byte(&op->out[0]) &&
	    is_for_product(l, op);
}

static Reg
and_xor(Lower *l, Reg x, int64_t mask, int64_t flip)
{
	Reg in[] = {x, lower_i32(l, (int32_t)mask), lower_i32(l, (int32_t)flip)}, out;
	thread_prim(l->b, PRIM_AND_XOR, in, 3, NULL, 0, &out, 1);
	return out;
}

/* Fields of so many bits, in each of a word's bytes. */
static Reg
clean(Lower *l, Reg word, int bits, bool is_signed)
{
	int64_t each = 0x01010101, mask = each * ((1 << bits) - 1), sign = each << (bits - 1);
	if (!is_signed)
		return bits == 8 ? word : lower_op2(l, THREAD_AND, word, lower_i32(l, (int32_t)mask));
	word = and_xor(l, word, mask, sign | (uint32_t)TOP);
	return lower_op2(l, THREAD_XOR, lower_op2(l, THREAD_SUB, word, lower_i32(l, sign)), lower_i32(l, TOP));
}

bool
lower_bytes_cast(Lower *l, const Op *op, const Reg *in, Reg *out, int n)
{
	DType from = op->in[0]->type->elem;
	int bits;
	bool is_signed;
	if ((from != TY_I4 && from != TY_U4) || !has_quads(l, op, n))
		return false;
	for (int r = 0; r < n; r += QUAD) {
		Reg word = lower_field_quad(l, &in[r], &bits, &is_signed);
		if (!word || bits > 4 || is_signed != (from == TY_I4))
			return false;
		thread_unpack(l->b, clean(l, word, bits, is_signed), REG_I8, &out[r], QUAD);
	}
	return true;
}

/* Four registers in a word that is there, or takes a permute of one; 0: none is. */
static Reg
quad(Lower *l, const Reg *in)
{
	int at, bits;
	bool is_signed;
	const ThreadNode *n = thread_node_of(l->b, in[0], &at);
	if (ALL_OF(i, QUAD, in[i] == in[0])) {
		Reg byte = lower_as(l, CAST_ZEXT, REG_I32, in[0]);
		return lower_byte_permute(l, byte, byte, lower_i32(l, 0));
	}
	bool unpacks = n && n->kind == NODE_UNPACK && n->nout == QUAD && at == 0;
	if (unpacks && ALL_OF(i, QUAD, in[i] == n->out[i]))
		return n->in[0];
	Reg word = lower_field_quad(l, in, &bits, &is_signed);
	return word ? clean(l, word, bits, is_signed) : 0;
}

static Reg
product(Lower *l, Reg a, Reg byte)
{
	Reg by = lower_as(l, CAST_ZEXT, REG_I32, byte), even = lower_i32(l, EVEN);
	Reg odd = lower_op2(l, THREAD_AND, lower_op2(l, THREAD_LSHR, a, lower_i32(l, 8)), even);
	odd = lower_op2(l, THREAD_MUL, odd, by);
	return lower_byte_permute(
	    l, lower_op2(l, THREAD_MUL, lower_op2(l, THREAD_AND, a, even), by), odd, lower_i32(l, 0x6240));
}

static Reg
sum(Lower *l, bool adds, Reg a, Reg b)
{
	Reg low = lower_i32(l, LOW), top = lower_i32(l, TOP), rest = lower_op2(l, THREAD_AND, b, low);
	Reg tops = lower_op2(l, THREAD_AND, lower_op2(l, THREAD_XOR, a, b), top);
	if (adds)
		return lower_op2(l, THREAD_XOR, lower_op2(l, THREAD_ADD, lower_op2(l, THREAD_AND, a, low), rest), tops);
	Reg less = lower_op2(l, THREAD_SUB, lower_op2(l, THREAD_OR, a, top), rest);
	return lower_op2(l, THREAD_XOR, less, lower_op2(l, THREAD_XOR, tops, top));
}

bool
lower_bytes(Lower *l, const Op *op, const Reg *const in[3], Reg *out, int n)
{
	OpKind kind = op->kind;
	if ((kind != OP_ADD && kind != OP_SUB && kind != OP_MUL) || !has_quads(l, op, n))
		return false;
	Reg *word = NEW_ARRAY(l->mem, Reg, n / QUAD);
	for (int r = 0; r < n; r += QUAD) {
		bool same = ALL_OF(i, QUAD, in[1][r + i] == in[1][r]);
		Reg a = ALL_OF(i, QUAD, in[0][r + i] == in[0][r]) ? 0 : quad(l, &in[0][r]);
		Reg b = kind == OP_MUL ? (same ? in[1][r] : 0) : quad(l, &in[1][r]);
		if (!a || !b)
			return false;
		word[r / QUAD] = kind == OP_MUL ? product(l, a, b) : sum(l, kind == OP_ADD, a, b);
	}
	for (int r = 0; r < n; r += QUAD)
		thread_unpack(l->b, word[r / QUAD], REG_I8, &out[r], QUAD);
	return true;
}
