/* In which order a matrix instruction goes along K.  A dot's sum may take K in any order, as long as both operands do, so
 * that an operand that memory holds in narrower elements than the instruction takes can lie so that a thread has
 * neighbours: words of one row, which it unpacks for itself alone.
 *
 *     m16n8k16, K = 128, weights of 4 bits            positions that lane t of four holds at step s
 *         in the instruction's order                  16 s + 2 t + {0, 1, 8, 9}
 *         {k_bits = [2, 5, 6, 0, 1, 3, 4]}            32 t + 8 (s / 2) + 2 (s % 2) + {0, 4, 1, 5}
 *
 * Bit i of the instruction's position is bit k_bits[i] of the operand's.  Elements of 4 bits fill halves of a word with
 * what is 16 bits apart in memory.  A lane has 16 bytes of neighbours, as a coalesced read gives them to it. */
#include "pass/layout/dot.h"

enum { DEPTH = 12, RUN_BITS = 128, LANES_BITS = 2, HALF_BITS = 16, PACKED_BITS = 4 };

/* The least bits of an element of a tile in memory that v comes from, element by element; 0: from none. */
static int
memory_bits(const Value *v, int depth)
{
	const Op *op = v->def;
	int least = 0;
	if (!op || depth == 0 || v->type->rank < 2)
		return 0;
	if (op->kind == OP_READ || op->kind == OP_LOAD)
		return dtype_info[v->type->elem].bits;
	if (!(op_info[op->kind].traits & ELEM) && op->kind != OP_PERMUTE && op->kind != OP_RESHAPE)
		return 0;
	for (int i = 0; i < op->nin; i++) {
		int bits = memory_bits(op->in[i], depth - 1);
		least = least && (!bits || least < bits) ? least : bits;
	}
	return least;
}

/* Is bit i of a fragment's position along K one that lanes move?  The fragment is that of operand a. */
static bool
is_of_lanes(const Layout *a, int bit)
{
	for (int i = 0; i < a->in[IN_LANE]; i++)
		if (a->map.col[layout_in_at(a, IN_LANE) + i] == UINT64_C(1) << bit)
			return true;
	return false;
}

void
dot_order_k(Op *dot, const MmaInfo *mma)
{
	Layout a = mma_layout_a(mma);
	const Type *t = dot->in[0]->type;
	int bits[] = {memory_bits(dot->in[0], DEPTH), memory_bits(dot->in[1], DEPTH)};
	int least = bits[0] && (!bits[1] || bits[0] < bits[1]) ? bits[0] : bits[1];
	int n = log2_ceil(t->extent[t->rank - 1]), own = log2_ceil(mma->k), lanes = 0, others = 0;
	int64_t to[F2_MAX];
	bool is_half = dtype_info[mma->a].bits == HALF_BITS;
	bool both = bits[0] == bits[1] && least > PACKED_BITS;  /* too many conversions at once for a thread's registers */
	if (!least || least >= dtype_info[mma->a].bits || least > 8 || both)
		return;
	int from = MIN(log2_ceil(RUN_BITS / least), n - LANES_BITS), apart = log2_ceil(HALF_BITS / least);
	bool by_halves = is_half && least == PACKED_BITS && apart < from;
	for (int i = by_halves; i < n; i++) {
		if (i < own && is_of_lanes(&a, i)) {
			to[i] = from + lanes++;
			continue;
		}
		others += by_halves && others == apart;
		others += others == from ? LANES_BITS : 0;
		to[i] = others++;
	}
	to[0] = by_halves ? apart : to[0];
	if (lanes == LANES_BITS)
		attr_set_k_bits(dot->home->func->module, dot, to, n);
}
