/* The bitonic network as loops over shared memory, for threads that have very many elements: in registers every step of
 * the network is code of its own for every register.
 *
 *     all states to scratch, lines one after the other
 *     for s = 1 .. n
 *         for j = s - 1 .. 0
 *             barrier
 *             for p = thread; p < elements / 2; p += threads
 *                 e = p with a 0 put in at bit j;  put e and e + 2^j in order, falling if bit s of e's position is set
 *     barrier, and back */
#include "lower/across/across.h"

/* The axis fastest, then the others. */
static LowerStrides
strides(const Sort *s, int bytes)
{
	int axis = s->p.dim, at = s->layout.out[axis];
	LowerStrides r = {.bytes = bytes};
	for (int d = s->layout.rank - 1; d >= 0; d--) {
		if (d == axis)
			continue;
		r.shift[d] = at;
		at += s->layout.out[d];
	}
	r.shift[axis] = 0;
	return r;
}

ThreadAccess
sort_access(const Sort *s, int k, Reg base, int64_t count)
{
	ThreadAccess a = lower_shared_access(base, s->type[k]);
	a.constant = sort_state_at(&s->p, k, count);
	return a;
}

void
sort_move(const Sort *s, ThreadAccess *a, Reg offset, int64_t constant, Reg *state, bool back)
{
	a->offset = offset;
	a->constant += constant;
	if (back)
		thread_load(s->l->b, a, state);
	else
		thread_store(s->l->b, a, state);
}

/* Registers' states to scratch or back, `layout` saying where they stand. */
static void
move_states(Sort *s, const Layout *layout, Reg base, int64_t count, bool back)
{
	Lower *l = s->l;
	Reg mask = back ? 0 : lower_is_first_holder(l, layout);
	for (int r = 0; r < 1 << layout->in[IN_REGISTER]; r++)
		for (int k = 0; k < s->p.n && !((uint64_t)r & s->repeats); k++) {
			LowerStrides by = strides(s, thread_type_bytes(s->type[k]));
			ThreadAccess a = sort_access(s, k, base, count);
			int64_t constant;
			a.mask = mask;
			Reg offset = lower_element_offset(l, &by, layout, r, &constant);
			sort_move(s, &a, offset, constant, &s->at[r][k], back);
		}
}

static void
move_state(const Sort *s, Reg base, int64_t count, Reg element, Reg *state, bool store)
{
	Lower *l = s->l;
	for (int k = 0; k < s->p.n; k++) {
		ThreadAccess a = sort_access(s, k, base, count);
		Reg offset = lower_op2(l, THREAD_MUL, element, lower_i32(l, thread_type_bytes(s->type[k])));
		sort_move(s, &a, offset, 0, &state[k], !store);
	}
}

/* Pair p of those 2^j apart in runs of 2^run, in lines of 2^line. */
static void
exchange_pair(const Sort *s, Reg base, int64_t count, Reg p, Reg run, Reg j, int line, bool line_falls)
{
	Lower *l = s->l;
	Reg one = lower_i32(l, 1), apart = lower_op2(l, THREAD_SHL, one, j), a[SORT_STATE], b[SORT_STATE], x[SORT_STATE];
	Reg low = lower_op2(l, THREAD_AND, p, lower_op2(l, THREAD_SUB, apart, one));
	Reg first = lower_op2(l, THREAD_SHL, lower_op2(l, THREAD_XOR, p, low), one);
	first = lower_op2(l, THREAD_OR, first, low);
	Reg second = lower_op2(l, THREAD_OR, first, apart);
	Reg position = lower_op2(l, THREAD_AND, first, lower_i32(l, (INT64_C(1) << line) - 1));
	if (line_falls)
		position = lower_op2(l, THREAD_OR, position, lower_i32(l, INT64_C(1) << line));
	Reg falls = lower_op2(l, THREAD_AND, lower_op2(l, THREAD_LSHR, position, run), one);
	move_state(s, base, count, first, a, false);
	move_state(s, base, count, second, b, false);
	Reg swap = lower_op2(l, THREAD_XOR, sort_less(s, b, a), lower_op2(l, THREAD_NE, falls, lower_i32(l, 0)));
	sort_select(s, swap, b, a, x);
	move_state(s, base, count, first, x, true);
	sort_select(s, swap, a, b, x);
	move_state(s, base, count, second, x, true);
}

void
sort_network(const Sort *s, Reg base, int64_t count, int first, int last, bool falls)
{
	Lower *l = s->l;
	Reg zero = lower_i32(l, 0), one = lower_i32(l, 1), from = first == 1 ? one : lower_i32(l, first);
	Reg run = thread_loop(l->b, from, lower_i32(l, last + 1), one, NULL, NULL, 0);
	Reg step = thread_loop(l->b, zero, run, one, NULL, NULL, 0);
	Reg j = lower_op2(l, THREAD_SUB, lower_op2(l, THREAD_SUB, run, step), one);
	lower_barrier(l);
	Reg p = thread_loop(l->b, l->thread, lower_i32(l, count / 2), lower_i32(l, l->warps * l->t->lanes), NULL, NULL, 0);
	exchange_pair(s, base, count, p, run, j, last, falls);
	thread_loop_end(l->b, NULL, NULL, 0);
	thread_loop_end(l->b, NULL, NULL, 0);
	thread_loop_end(l->b, NULL, NULL, 0);
}

void
sort_by_loops(Sort *s, const Layout *result)
{
	int64_t count = INT64_C(1) << layout_out_bits(&s->layout);
	Reg base = lower_scratch(s->l, s->p.op);
	move_states(s, &s->layout, base, count, false);
	sort_network(s, base, count, 1, s->axis.n, false);
	lower_barrier(s->l);
	move_states(s, result, base, count, true);
}
