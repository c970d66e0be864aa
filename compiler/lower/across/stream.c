/* Sums of a program that several blocks compute, each some iterations of its loop (pass stream).
 *
 *     stream_give %p              store the words of this thread; warp barrier; flag of the warp = 1, a release
 *     %s = stream_join %b, %p     the flag of that warp of block %b from 1 to 0, an acquire; warp barrier; load, add
 *
 * All blocks run the same code, so that a thread's registers hold the same elements in each of them: what warp w of a block
 * leaves is for warp w of another, four words of a thread side by side, and no other warp need be waited for.  A block
 * leaves sums once, in memory of its own (ABI_PARTS, ABI_ARRIVALS), and before it waits for any.  The block that joins
 * them has a greater number: blocks start in the order of their numbers, so that what it waits for is under way, wherever
 * there is room for it. */
#include "lower/lower.h"

/* Words of a vector; vectors that are loaded before they are added: more would take registers from the loop. */
enum { VECTOR = 4, TOGETHER = 8 };

typedef struct Given {
	Reg base, flag;                                 /* of the block's words; of this warp's flag */
	int64_t at;                                     /* bytes, of words before */
} Given;

static Given
given_by(Lower *l, Reg block)
{
	Reg words = lower_op2(l, THREAD_MUL, block, lower_i64(l, split_part_bytes(l->f)));
	Reg flags = lower_op2(l, THREAD_MUL, block, lower_i64(l, 4 * STREAM_FLAGS));
	Reg flag = lower_as(l, CAST_ZEXT, REG_I64, lower_op2(l, THREAD_SHL, l->warp, lower_i32(l, 2)));

	return (Given){.base = thread_pointer(l->b, lower_param(l, ABI_PARTS, 0, 0), words),
	    .flag = thread_pointer(l->b, lower_param(l, ABI_ARRIVALS, 0, 0), lower_op2(l, THREAD_ADD, flags, flag))};
}

/* The next n words of a thread. */
static ThreadAccess
next_words(Lower *l, Given *g, int n)
{
	ThreadAccess a = {.space = SPACE_GLOBAL, .type = REG_I32, .n = n, .base = g->base, .align = 4 * n,
		.offset = lower_op2(l, THREAD_SHL, l->thread, lower_i32(l, 2 + log2_ceil(n))), .constant = g->at};

	g->at += INT64_C(4) * n * lower_threads(l);
	return a;
}

/* Registers of a value that are no other's copy, in `out`. */
static int
own_registers(const Value *v, int *out)
{
	int n = 0;

	for (int r = 0; r < lower_count(v); r++)
		if (!((uint64_t)r & lower_repeats(v->layout)))
			out[n++] = r;
	return n;
}

static void
give(Lower *l, Given *g, const Value *v)
{
	int *own = NEW_ARRAY(l->mem, int, lower_count(v)), n = own_registers(v, own), step = n % VECTOR ? 1 : VECTOR;
	const Reg *from = lower_regs(l, v);
	bool is_word = lower_type(v->type) == REG_I32;

	for (int i = 0; i < n; i += step) {
		Reg word[VECTOR];
		for (int k = 0; k < step; k++)
			word[k] = is_word ? from[own[i + k]] : lower_as(l, CAST_BITS, REG_I32, from[own[i + k]]);
		ThreadAccess a = next_words(l, g, step);
		thread_store(l->b, &a, word);
	}
}

/* The warp's flag becomes v; what it was. */
static Reg
exchange(Lower *l, const Given *g, int v, AtomicOrder order)
{
	ThreadAccess a = {.space = SPACE_GLOBAL, .type = REG_I32, .n = 1, .base = g->flag, .align = 4, .order = order,
		.scope = SCOPE_GPU};

	return thread_atomic(l->b, ATOMIC_EXCHANGE, &a, lower_i32(l, v), 0);
}

static Reg
is_first_lane(Lower *l)
{
	return lower_op2(l, THREAD_EQ, l->lane, lower_i32(l, 0));
}

void
lower_stream_give(Lower *l, Op *op)
{
	Given g = given_by(l, lower_as(l, CAST_ZEXT, REG_I64, l->block));

	for (int i = 0; i < op->nin; i++)
		give(l, &g, op->in[i]);
	lower_warp_barrier(l);
	lower_when(l, is_first_lane(l));
	exchange(l, &g, 1, ORDER_RELEASE);
	lower_end_when(l);
}

/* Until the other block has given, by one lane. */
static void
wait_for(Lower *l, const Given *g)
{
	lower_when(l, is_first_lane(l));
	thread_while(l->b, NULL, NULL, 0);
	thread_while_test(l->b, lower_op2(l, THREAD_EQ, exchange(l, g, 0, ORDER_ACQUIRE), lower_i32(l, 0)));
	thread_while_end(l->b, NULL, NULL, 0);
	lower_end_when(l);
	lower_warp_barrier(l);
}

static void
join(Lower *l, Given *g, const Value *mine, Value *out)
{
	int count = lower_count(mine), *own = NEW_ARRAY(l->mem, int, count), n = own_registers(mine, own);
	int step = n % VECTOR ? 1 : VECTOR;
	const Reg *from = lower_regs(l, mine);
	Reg *sum = lower_new(l, out);
	RegType t = lower_type(mine->type);

	for (int i = 0; i < n; i += step) {
		Reg word[VECTOR];
		if (i && i % (step * TOGETHER) == 0)
			lower_warp_barrier(l);
		ThreadAccess a = next_words(l, g, step);
		thread_load(l->b, &a, word);
		for (int k = 0; k < step; k++) {
			Reg theirs = t == REG_I32 ? word[k] : lower_as(l, CAST_BITS, t, word[k]);
			sum[own[i + k]] = lower_op2(l, t == REG_I32 ? THREAD_ADD : THREAD_FADD, from[own[i + k]], theirs);
		}
	}
	for (int r = 0; r < count; r++)
		sum[r] = sum[(uint64_t)r & ~lower_repeats(mine->layout)];
}

void
lower_stream_join(Lower *l, Op *op)
{
	Given g = given_by(l, lower_regs(l, op->in[0])[0]);

	wait_for(l, &g);
	for (int i = 0; i < op->nout; i++)
		join(l, &g, op->in[1 + i], &op->out[i]);
}
