/* Tables known when compiling, read by an index.
 *
 * A table of a few elements is a chain of selects; a longer one is constant data, with a 0 at its end for indices
 * outside of it:
 *
 *     r3 = lookup (umin r1, 16) {..16 elements.., 0}
 *
 * An index that cannot be outside (bits masked, a type of few bits) is taken as it is.  Of a table that a warp's lanes
 * hold, an element each, a tile takes elements by shuffles, one a cycle and multiprocessor; loads, whose addresses are
 * computed besides, take four: a product of 1 x 8192 x 8192 whose weights are looked up took 33.4 us on an H200 so.
 *
 *     r1 = lookup lane {..16 elements, again and again..}
 *     r3 = shuffle r1, r2                                    r2: the index */
#include "lower/lower.h"

#include "pass/layout/axis.h"

enum { SELECTS_MAX = 4, SHUFFLED_LEAST = 8 };           /* elements of a table; that a thread looks up */

/* An index as REG_I32 from 0 to n, n being outside. */
static Reg
index_of(Lower *l, const Value *v, Reg r, int64_t n, bool is_inside)
{
	DType t = v->type->elem;
	bool wide = dtype_info[t].bits == 64;
	if (dtype_info[t].bits < 32)
		r = lower_as(l, dtype_is_signed(t) ? CAST_SEXT : CAST_ZEXT, REG_I32, r);
	if (!is_inside)
		r = lower_op2(l, THREAD_UMIN, r, wide ? lower_i64(l, n) : lower_i32(l, n));
	return wide ? lower_as(l, CAST_TRUNC, REG_I32, r) : r;
}

/* A constant of any type by its bits. */
static Reg
constant(Lower *l, RegType t, int64_t bits)
{
	static const RegType as[] = {[1] = REG_I8, [2] = REG_I16, [4] = REG_I32, [8] = REG_I64};
	RegType whole = t == REG_PRED ? t : as[thread_type_bytes(t)];
	Reg r = thread_int_const(l->b, whole, bits);
	return whole == t ? r : lower_as(l, CAST_BITS, t, r);
}

static Reg
selected(Lower *l, RegType t, const IntList *bits, Reg index)
{
	Reg r = constant(l, t, 0);
	for (int i = bits->n - 1; i >= 0; i--)
		r = lower_op3(l, THREAD_SELECT, lower_op2(l, THREAD_EQ, index, lower_i32(l, i)),
		    constant(l, t, bits->at[i]), r);
	return r;
}

/* A register (REG_I32) whose low bits are r's; the others may be any. */
static Reg
low_bits(Lower *l, Reg r, int bits)
{
	int64_t low = (INT64_C(1) << bits) - 1;
	for (int at, bit;;) {
		Reg word = bits <= 4 ? lower_loaded_nibble(l, r, &bit) : 0;
		if (word)
			return lower_op2(l, THREAD_LSHR, word, lower_i32(l, bit));
		const ThreadNode *n = thread_node_of(l->b, r, &at);
		bool masks = n->kind == NODE_OP && n->op == THREAD_AND;
		const ThreadNode *by = masks ? thread_node_of(l->b, n->in[1], &at) : NULL;
		bool casts = n->kind == NODE_CAST && (n->op == CAST_ZEXT || n->op == CAST_SEXT || n->op == CAST_TRUNC);
		if (!(by && by->kind == NODE_CONST && (by->i & low) == low) &&
		    !(casts && thread_type_of(l->b, n->in[0]) != REG_PRED))
			break;
		r = n->in[0];
	}
	RegType t = thread_type_of(l->b, r);
	return t == REG_I32 ? r : lower_as(l, t == REG_I64 ? CAST_TRUNC : CAST_ZEXT, REG_I32, r);
}

/* The lane's element; 0: lanes do not hold them, or the load would take longer. */
static Reg
held_by_lanes(Lower *l, const Op *op, RegType t, const int64_t *bits, int n, bool repeats)
{
	int lanes = l->t->lanes;
	bool shuffles = l->t->has & HAS_LANE_LOOKUPS && lower_count(&op->out[0]) >= SHUFFLED_LEAST;
	if (!shuffles || n > lanes || n <= SELECTS_MAX || t == REG_PRED || thread_type_bytes(t) > 4)
		return 0;
	int64_t *all = MAP_OF(l->mem, int64_t, i, lanes, bits[repeats ? i % n : MIN(i, n - 1)]);
	return lower_from_memory(l, t, thread_lookup(l->b, t, all, lanes, l->lane));
}

void
lower_lookup(Lower *l, Op *op)
{
	const Value *v = op->in[0];
	RegType t = lower_type(op->out[0].type), as = t == REG_PRED ? REG_I8 : t;
	const IntList *bits = attr_bits(op);
	int n = bits->n;
	bool is_inside = axis_of(v)->lo >= 0 && axis_of(v)->hi < n;
	int64_t *padded = NEW_ARRAY(l->mem, int64_t, n + 1);
	const Reg *in = lower_operand(l, op, 0, op->out[0].layout);
	Reg *out = lower_new(l, &op->out[0]);
	for (int i = 0; i < n; i++)
		padded[i] = bits->at[i];
	bool repeats = is_inside && is_power_of_two(n);  /* an index modulo n will do */
	if (repeats && n > SELECTS_MAX && lower_lookup_bytes(l, t, padded, n, in, lower_count(&op->out[0]), out))
		return;
	Reg held = held_by_lanes(l, op, t, padded, n + !is_inside, repeats);
	for (int r = 0; r < lower_count(&op->out[0]); r++) {
		if (r > 0 && in[r] == in[r - 1]) {
			out[r] = out[r - 1];
			continue;
		}
		Reg index = index_of(l, v, in[r], n, is_inside);
		if (held)
			out[r] = lower_lane_from(l, t, held, repeats ? low_bits(l, index, log2_ceil(n)) : index);
		else if (n <= SELECTS_MAX)
			out[r] = selected(l, t, bits, index);
		else
			out[r] = lower_from_memory(l, t, thread_lookup(l->b, as, padded, n + !is_inside, index));
	}
}
