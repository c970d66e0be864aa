/* Tables known when compiling, read by an index.
 *
 * A table of a few elements is a chain of selects; a longer one is constant data, with a 0 at its end for indices
 * outside of it:
 *
 *     r3 = lookup (umin r1, 16) {..16 elements.., 0}
 *
 * An index that cannot be outside (bits masked, a type of few bits) is taken as it is. */
#include "lower/lower.h"

#include "pass/layout/axis.h"

enum { SELECTS_MAX = 4 };

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
	for (int r = 0; r < lower_count(&op->out[0]); r++) {
		if (r > 0 && in[r] == in[r - 1]) {
			out[r] = out[r - 1];
			continue;
		}
		Reg index = index_of(l, v, in[r], n, is_inside);
		if (n <= SELECTS_MAX)
			out[r] = selected(l, t, bits, index);
		else
			out[r] = lower_from_memory(l, t, thread_lookup(l->b, as, padded, n + !is_inside, index));
	}
}
