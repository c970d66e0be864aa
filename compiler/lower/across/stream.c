/* Sums of a program that several blocks compute, each some iterations of its loop (pass stream).
 *
 *     stream_give %p              store the words of this thread; warp barrier; flag of the warp = 1, a release
 *     %s = stream_join %b, %n, %d, %p     the warp's flags of blocks %b, %b - %d … from 1 to 0, an acquire each, by as
 *                                         many lanes; warp barrier; load and add what these left, one after the other
 *
 * All blocks run the same code, so that a thread's registers hold the same elements in each of them: what warp w of a block
 * leaves is for warp w of another, four words of a thread side by side, and no other warp need be waited for.  A block
 * leaves sums once, in memory of its own (ABI_PARTS, ABI_ARRIVALS), and before it waits for any.  The block that joins
 * them has a greater number: blocks start in the order of their numbers, so that what it waits for is under way, wherever
 * there is room for it. */
#include "lower/lower.h"

/* Words of a vector; vectors that are loaded before they are added: more would take registers from the loop. */
enum { VECTOR = 4, TOGETHER = 16 };

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

/* The flag of part i: its block is the first's number less i steps. */
typedef struct Parts {
	Reg first, count, step;                         /* REG_I64 */
} Parts;

static Reg
block_of(Lower *l, const Parts *p, Reg i)
{
	return lower_op2(l, THREAD_SUB, p->first, lower_op2(l, THREAD_MUL, i, p->step));
}

/* Until all blocks have given: each lane waits for the flags of some, so that one wait is as long as many. */
static void
wait_for(Lower *l, const Parts *p)
{
	Reg lane = lower_as(l, CAST_ZEXT, REG_I64, l->lane);
	Reg i = thread_loop(l->b, lane, p->count, lower_i64(l, l->t->lanes), NULL, NULL, 0);
	Given g = given_by(l, block_of(l, p, i));

	thread_while(l->b, NULL, NULL, 0);
	thread_while_test(l->b, lower_op2(l, THREAD_EQ, exchange(l, &g, 0, ORDER_ACQUIRE), lower_i32(l, 0)));
	thread_while_end(l->b, NULL, NULL, 0);
	thread_loop_end(l->b, NULL, NULL, 0);
	lower_warp_barrier(l);
}

/* Adds what a block gave in the place of n registers of a tile to these. */
static void
add(Lower *l, Given *g, RegType t, Reg *sum, int n)
{
	int step = n % VECTOR ? 1 : VECTOR;

	for (int i = 0; i < n; i += step) {
		Reg word[VECTOR];
		if (i && i % (step * TOGETHER) == 0)
			lower_warp_barrier(l);
		ThreadAccess a = next_words(l, g, step);
		thread_load(l->b, &a, word);
		for (int k = 0; k < step; k++)
			sum[i + k] = t == REG_I32
			    ? lower_op2(l, THREAD_ADD, sum[i + k], word[k])
			    : lower_op2(l, THREAD_FADD, sum[i + k], lower_as(l, CAST_BITS, t, word[k]));
	}
}

/* Registers of all tiles that are no other's copy, from or to an array. */
static int
copy_own(Lower *l, Op *op, Reg *all, bool back)
{
	int n = 0;

	for (int i = 0; i < op->nout; i++) {
		const Value *v = op->in[STREAM_JOIN_TILES + i];
		int count = lower_count(v), *own = NEW_ARRAY(l->mem, int, count), nown = own_registers(v, own);
		Reg *out = back ? lower_new(l, &op->out[i]) : NULL;
		for (int k = 0; k < nown; k++, n++) {
			if (back)
				out[own[k]] = all[n];
			else
				all[n] = lower_regs(l, v)[own[k]];
		}
		for (int r = 0; back && r < count; r++)
			out[r] = out[(uint64_t)r & ~lower_repeats(v->layout)];
	}
	return n;
}

static int
all_registers(Op *op)
{
	return SUM_OF(int, i, op->nout, lower_count(&op->out[i]));
}

void
lower_stream_join(Lower *l, Op *op)
{
	Parts p = {.first = lower_regs(l, op->in[0])[0], .count = lower_regs(l, op->in[1])[0],
	    .step = lower_regs(l, op->in[2])[0]};
	int most = all_registers(op);
	Reg *mine = NEW_ARRAY(l->mem, Reg, most), *sum = NEW_ARRAY(l->mem, Reg, most);
	int n = copy_own(l, op, mine, false), at = 0;

	wait_for(l, &p);
	Reg i = thread_loop(l->b, lower_i64(l, 0), p.count, lower_i64(l, 1), mine, sum, n);
	Given g = given_by(l, block_of(l, &p, i));
	for (int k = 0; k < op->nout; k++) {
		const Value *v = op->in[STREAM_JOIN_TILES + k];
		int own = own_registers(v, NEW_ARRAY(l->mem, int, lower_count(v)));
		add(l, &g, lower_type(v->type), sum + at, own);
		at += own;
	}
	thread_loop_end(l->b, sum, sum, n);
	copy_own(l, op, sum, true);
}
