/* Counting, by atomic additions in shared memory. */
#include "lower/across/across.h"

static void
zero_bins(Lower *l, Reg base, int64_t bins)
{
	int threads = l->warps * l->t->lanes;
	ThreadAccess a = lower_shared_access(base, REG_I32);
	Reg zero = lower_i32(l, 0);
	a.offset = lower_op2(l, THREAD_MUL, l->thread, lower_i32(l, 4));
	for (int64_t at = 0; at < bins; at += threads, a.constant += 4 * threads) {
		if (bins - at < threads)
			a.mask = lower_op2(l, THREAD_ULT, l->thread, lower_i32(l, bins - at));
		thread_store(l->b, &a, &zero);
	}
}

void
lower_histogram(Lower *l, Op *op)
{
	const Value *v = op->in[0];
	Value *to = &op->out[0];
	const Reg *in = lower_regs(l, v);
	int64_t bins = to->type->extent[0];
	uint64_t repeats = lower_repeats(v->layout);
	Reg base = lower_scratch(l, op), one = lower_i32(l, 1), *out = lower_new(l, to);
	Reg first = lower_is_first_holder(l, v->layout);
	zero_bins(l, base, bins);
	lower_barrier(l);
	for (int r = 0; r < lower_count(v); r++) {
		if ((uint64_t)r & repeats)
			continue;
		Reg inside, i = lower_bounded_index(l, v->type->elem, in[r], bins, &inside);
		ThreadAccess a = lower_shared_access(base, REG_I32);
		a.scope = SCOPE_CTA;
		a.offset = lower_op2(l, THREAD_MUL, i, lower_i32(l, 4));
		a.mask = lower_both(l, inside, first);
		thread_atomic(l->b, ATOMIC_ADD, &a, one, 0);
	}
	lower_barrier(l);
	for (int r = 0; r < lower_count(to); r++) {
		uint32_t own = lower_register_coordinate(to->layout, r, 0);
		ThreadAccess a = lower_shared_access(base, REG_I32);
		Reg c = lower_thread_coordinate(l, to->layout, 0);
		if (own)
			c = lower_op2(l, THREAD_XOR, c, lower_i32(l, own));
		a.offset = lower_op2(l, THREAD_MUL, c, lower_i32(l, 4));
		thread_load(l->b, &a, &out[r]);
	}
}
