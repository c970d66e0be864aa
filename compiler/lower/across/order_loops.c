/* The bitonic network as loops over shared memory, for threads that have very many elements: in registers every step of
 * the network is code of its own for every register.
 *
 *     barrier; each 8 neighbours: runs of 2, 4, 8
 *     for s = 4 .. n                 runs of 2^s elements, every other one falling
 *         for t = 0; t < s; t += 3
 *             barrier
 *             for p = thread; p < elements / 8; p += threads
 *                 8 elements that differ in bits lo .. lo + 2, lo = max(s - 3 - t, 0), are put in order by each of these,
 *                 falling if bit s of their position is set
 *
 * The last bits of a run may be taken twice: elements are in order by them already.
 *
 * A state's place in scratch is its number with three bits of lower significance changed by those above a line of 128
 * bytes, so that lanes that are 8 elements apart are in different banks. */
#include "lower/across/across.h"

#include <string.h>

enum { GROUP = 3, LINE = 7 };           /* log2 of the elements of a thread at once, of the bytes of all banks */

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

static int
line_of(const Sort *s, int k)
{
	return LINE - log2_ceil(thread_type_bytes(s->type[k]));
}

uint64_t
sort_offset(const Sort *s, int k, uint64_t number)
{
	return (uint64_t)thread_type_bytes(s->type[k]) * (number ^ (number >> line_of(s, k) & ((1 << GROUP) - 1)));
}

static Reg
offset_of(const Sort *s, int k, Reg number)
{
	Lower *l = s->l;
	Reg line = lower_op2(l, THREAD_LSHR, number, lower_i32(l, line_of(s, k)));
	line = lower_op2(l, THREAD_AND, line, lower_i32(l, (1 << GROUP) - 1));
	Reg at = lower_op2(l, THREAD_XOR, number, line);
	return lower_op2(l, THREAD_MUL, at, lower_i32(l, thread_type_bytes(s->type[k])));
}

typedef struct Network {
	const Sort *s;
	Reg base;
	int64_t count;
	int bits, n;                                    /* of the elements that a thread has at once; and how many */
	int last;                                       /* log2 of the longest run */
	bool falls;                                     /* it does */
	Reg apart[SORT_STATE][1 << GROUP];              /* offsets from the first of these */
} Network;

/* Offsets of elements that are 2^lo apart from the first. */
static void
find_apart(Network *x, Reg lo)
{
	Lower *l = x->s->l;
	for (int k = 0; k < x->s->p.n; k++)
		for (int i = 1; i < x->n; i++)
			x->apart[k][i] = offset_of(x->s, k, lower_op2(l, THREAD_SHL, lower_i32(l, i), lo));
}

static void
move_group(const Network *x, Reg first, Reg (*state)[SORT_STATE], bool back)
{
	Lower *l = x->s->l;
	for (int k = 0; k < x->s->p.n; k++) {
		Reg at = offset_of(x->s, k, first);
		for (int i = 0; i < x->n; i++) {
			ThreadAccess a = sort_access(x->s, k, x->base, x->count);
			Reg offset = i ? lower_op2(l, THREAD_XOR, at, x->apart[k][i]) : at;
			sort_move(x->s, &a, offset, 0, &state[i][k], back);
		}
	}
}

/* Elements whose numbers differ in bit j; falls: a predicate. */
static void
exchange(const Network *x, Reg (*state)[SORT_STATE], int j, Reg falls)
{
	Lower *l = x->s->l;
	for (int i = 0; i < x->n; i++) {
		Reg a[SORT_STATE], b[SORT_STATE];
		if (i >> j & 1)
			continue;
		memcpy(a, state[i], sizeof a);
		memcpy(b, state[i | 1 << j], sizeof b);
		Reg stay = lower_op2(l, THREAD_XOR, sort_less(x->s, a, b), falls);
		sort_select(x->s, stay, a, b, state[i]);
		sort_select(x->s, stay, b, a, state[i | 1 << j]);
	}
}

/* Whether the run of 2^run elements that this one is in falls. */
static Reg
run_falls(const Network *x, Reg element, Reg run)
{
	Lower *l = x->s->l;
	Reg position = lower_op2(l, THREAD_AND, element, lower_i32(l, (INT64_C(1) << x->last) - 1));
	if (x->falls)
		position = lower_op2(l, THREAD_OR, position, lower_i32(l, INT64_C(1) << x->last));
	Reg bit = lower_op2(l, THREAD_AND, lower_op2(l, THREAD_LSHR, position, run), lower_i32(l, 1));
	return lower_op2(l, THREAD_NE, bit, lower_i32(l, 0));
}

static Reg
loop_over_groups(const Network *x)
{
	Lower *l = x->s->l;
	lower_barrier(l);
	return thread_loop(l->b, l->thread, lower_i32(l, x->count >> x->bits), lower_i32(l, l->warps * l->t->lanes), NULL,
	    NULL, 0);
}

/* Runs within the elements that a thread has at once. */
static void
sort_groups(Network *x)
{
	Lower *l = x->s->l;
	Reg state[1 << GROUP][SORT_STATE];
	find_apart(x, lower_i32(l, 0));
	Reg p = loop_over_groups(x), first = lower_op2(l, THREAD_SHL, p, lower_i32(l, x->bits));
	move_group(x, first, state, true);
	for (int run = 1; run <= x->bits; run++)
		for (int i = 0; i < x->n; i += 1 << run)
			for (int j = run - 1; j >= 0; j--) {
				Network part = *x;
				Reg element = lower_op2(l, THREAD_OR, first, lower_i32(l, i));
				part.n = 1 << run;
				exchange(&part, state + i, j, run_falls(x, element, lower_i32(l, run)));
			}
	move_group(x, first, state, false);
	thread_loop_end(l->b, NULL, NULL, 0);
}

void
sort_network(const Sort *s, Reg base, int64_t count, int first, int last, bool falls)
{
	Lower *l = s->l;
	Network x = {.s = s, .base = base, .count = count, .bits = MIN(GROUP, last), .last = last, .falls = falls};
	Reg zero = lower_i32(l, 0), one = lower_i32(l, 1), bits = lower_i32(l, x.bits), state[1 << GROUP][SORT_STATE];
	x.n = 1 << x.bits;
	if (first == 1)
		sort_groups(&x);
	first = first == 1 ? x.bits + 1 : first;
	if (first > last)
		return;
	Reg run = thread_loop(l->b, lower_i32(l, first), lower_i32(l, last + 1), one, NULL, NULL, 0);
	Reg t = thread_loop(l->b, zero, run, bits, NULL, NULL, 0);
	Reg lo = lower_op2(l, THREAD_SMAX, lower_op2(l, THREAD_SUB, lower_op2(l, THREAD_SUB, run, bits), t), zero);
	find_apart(&x, lo);
	Reg p = loop_over_groups(&x), mask = lower_op2(l, THREAD_SUB, lower_op2(l, THREAD_SHL, one, lo), one);
	Reg low = lower_op2(l, THREAD_AND, p, mask), high = lower_op2(l, THREAD_XOR, p, low);
	Reg element = lower_op2(l, THREAD_OR, lower_op2(l, THREAD_SHL, high, bits), low);
	Reg down = run_falls(&x, element, run);
	move_group(&x, element, state, true);
	for (int j = x.bits - 1; j >= 0; j--)
		exchange(&x, state, j, down);
	move_group(&x, element, state, false);
	thread_loop_end(l->b, NULL, NULL, 0);
	thread_loop_end(l->b, NULL, NULL, 0);
	thread_loop_end(l->b, NULL, NULL, 0);
}
