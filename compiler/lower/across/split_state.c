/* What the blocks that share a program's loop have of its states, by rank: put by each, read by the one that joins them.
 *
 *     %t = split_put %p           store word w of thread t at base + 4 (threads w + t)
 *     %last = split_meet %t       all words are stored
 *     %x = split_get %t, %i       load the words of the block of rank %i
 *     split_done %t               and they have been read: blocks may end
 *
 * All blocks run the same code, so a thread's registers hold the same elements in each of them: no layout changes, and
 * accesses are of neighbouring words.  Elements are words: narrow ones are widened, wide ones are two.
 *
 * Blocks of a cluster have their words in their own shared memory, and split_meet and split_done are barriers of the
 * cluster; the first joins.  Else the words are in memory of the launch, several of a thread side by side, and blocks count
 * their arrivals, an atomic each that releases what the block has stored and acquires what others have.  The last to arrive
 * joins, and sets the count back to 0 for the next launch. */
#include "lower/lower.h"

typedef struct State {
	const Op *put;
	RegType type;                                   /* of an element's register */
	int nregs, words;                               /* words of an element */
	uint64_t repeats;
	int total;                                      /* words of a thread */
	int vector;                                     /* of which so many stand side by side */
} State;

static State
state_of(Lower *l, const Op *put)
{
	const Value *v = put->in[0];
	State s = {.put = put, .type = lower_type(v->type), .nregs = lower_count(v), .repeats = lower_repeats(v->layout)};

	s.words = thread_type_bytes(s.type) > 4 ? 2 : 1;
	for (int r = 0; r < s.nregs; r++)
		s.total += split_put_has(put, r) ? s.words : 0;
	s.vector = attr_cluster(put) ? 1 : s.total % 4 == 0 ? 4 : s.total % 2 == 0 ? 2 : 1;
	return s;
}

/* The integer of an element's bits. */
static RegType
bits_of(RegType t)
{
	int bytes = thread_type_bytes(t);
	return bytes == 8 ? REG_I64 : bytes == 4 ? REG_I32 : bytes == 2 ? REG_I16 : REG_I8;
}

static void
to_words(Lower *l, const State *s, Reg v, Reg *word)
{
	RegType bits = bits_of(s->type);
	Reg x = s->type == REG_PRED ? lower_op3(l, THREAD_SELECT, v, lower_i32(l, 1), lower_i32(l, 0))
	        : s->type == bits   ? v
	                            : lower_as(l, CAST_BITS, bits, v);
	if (s->words == 2) {
		word[0] = lower_as(l, CAST_TRUNC, REG_I32, x);
		word[1] = lower_as(l, CAST_TRUNC, REG_I32, lower_op2(l, THREAD_LSHR, x, lower_i64(l, 32)));
	} else {
		word[0] = s->type == REG_PRED || bits == REG_I32 ? x : lower_as(l, CAST_ZEXT, REG_I32, x);
	}
}

static Reg
from_words(Lower *l, const State *s, const Reg *word)
{
	RegType bits = bits_of(s->type);
	Reg x = word[0];
	if (s->type == REG_PRED)
		return lower_op2(l, THREAD_NE, x, lower_i32(l, 0));
	if (s->words == 2)
		x = lower_op2(l, THREAD_OR, lower_as(l, CAST_ZEXT, REG_I64, word[0]),
		    lower_op2(l, THREAD_SHL, lower_as(l, CAST_ZEXT, REG_I64, word[1]), lower_i64(l, 32)));
	else if (bits != REG_I32)
		x = lower_as(l, CAST_TRUNC, bits, x);
	return s->type == bits ? x : lower_as(l, CAST_BITS, s->type, x);
}

static int64_t
words_at(const Lower *l, const State *s, int word)
{
	return (int64_t)4 * lower_threads(l) * word;
}

/* This thread's part of an area whose words stand `vector` side by side. */
static Reg
own_offset(Lower *l, const State *s)
{
	return lower_op2(l, THREAD_SHL, l->thread, lower_i32(l, 2 + log2_ceil(s->vector)));
}

/* What the block of that rank (REG_I64) has in memory for the state. */
static Reg
memory_of(Lower *l, const State *s, Reg rank)
{
	Reg program = lower_as(l, CAST_ZEXT, REG_I64, l->block);
	Reg part = lower_op2(l, THREAD_ADD, lower_op2(l, THREAD_MUL, program, lower_i64(l, l->f->schedule.split)), rank);
	Reg offset = lower_op2(l, THREAD_MUL, part, lower_i64(l, split_part_bytes(l->f)));
	offset = lower_op2(l, THREAD_ADD, offset, lower_i64(l, split_put_offset(s->put)));
	return thread_pointer(l->b, lower_param(l, ABI_PARTS, 0, 0), offset);
}

static void
store_words(Lower *l, const State *s, Reg base, Space space, const Reg *word)
{
	for (int w = 0; w < s->total; w += s->vector) {
		ThreadAccess a = {.space = space, .type = REG_I32, .n = s->vector, .base = base, .align = 4 * s->vector,
			.offset = own_offset(l, s), .constant = words_at(l, s, w)};
		thread_store(l->b, &a, word + w);
	}
}

void
lower_split_put(Lower *l, Op *op)
{
	State s = state_of(l, op);
	const Reg *v = lower_regs(l, op->in[0]);
	Reg *word = NEW_ARRAY(l->mem, Reg, s.total);
	int n = 0;
	for (int r = 0; r < s.nregs; r++)
		if (split_put_has(op, r)) {
			to_words(l, &s, v[r], word + n);
			n += s.words;
		}
	if (attr_cluster(op))
		store_words(l, &s, lower_scratch(l, op), SPACE_SHARED, word);
	else
		store_words(l, &s, memory_of(l, &s, lower_split_rank(l)), SPACE_GLOBAL, word);
}

static void
load_peer(Lower *l, const State *s, Reg rank, Reg *word)
{
	Reg base = thread_pointer(l->b, l->shared, lower_i32(l, attr_smem(s->put)));
	Reg in[] = {thread_pointer(l->b, base, own_offset(l, s)), lower_as(l, CAST_TRUNC, REG_I32, rank)}, there;
	thread_prim(l->b, PRIM_CLUSTER_ADDRESS, in, 2, NULL, 0, &there, 1);
	for (int w = 0; w < s->total; w++) {
		Reg at = lower_op2(l, THREAD_ADD, there, lower_i32(l, words_at(l, s, w)));
		thread_prim(l->b, PRIM_CLUSTER_LOAD, &at, 1, NULL, 0, &word[w], 1);
	}
}

static void
load_memory(Lower *l, const State *s, Reg rank, Reg *word)
{
	Reg base = memory_of(l, s, rank);
	for (int w = 0; w < s->total; w += s->vector) {
		ThreadAccess a = {.space = SPACE_GLOBAL, .type = REG_I32, .n = s->vector, .base = base,
			.align = 4 * s->vector, .offset = own_offset(l, s), .constant = words_at(l, s, w)};
		thread_load(l->b, &a, word + w);
	}
}

void
lower_split_get(Lower *l, Op *op)
{
	State s = state_of(l, op->in[0]->def);
	Reg *word = NEW_ARRAY(l->mem, Reg, s.total), *out = lower_new(l, &op->out[0]);
	int n = 0;
	(attr_cluster(s.put) ? load_peer : load_memory)(l, &s, lower_regs(l, op->in[1])[0], word);
	for (int r = 0; r < s.nregs; r++) {
		bool has = split_put_has(s.put, r);
		if (has)
			out[r] = from_words(l, &s, word + n);
		else if (!((uint64_t)r & s.repeats))
			out[r] = lower_zero(l, s.type);
		n += has ? s.words : 0;
	}
	for (int r = 0; r < s.nregs; r++)
		out[r] = out[(uint64_t)r & ~s.repeats];
}

static void
wait_for_cluster(Lower *l)
{
	thread_prim(l->b, PRIM_CLUSTER_ARRIVE, NULL, 0, NULL, 0, NULL, 0);
	thread_prim(l->b, PRIM_CLUSTER_WAIT, NULL, 0, NULL, 0, NULL, 0);
}

/* True in all threads of the last block of the program to arrive. */
static Reg
count_arrival(Lower *l, const Op *op)
{
	Reg scratch = lower_scratch(l, op), count = lower_param(l, ABI_ARRIVALS, 0, 0), is_last;
	ThreadAccess word = lower_shared_access(scratch, REG_I32);
	ThreadAccess arrivals = {.space = SPACE_GLOBAL, .type = REG_I32, .n = 1, .base = count, .align = 4,
		.offset = lower_op2(l, THREAD_SHL, l->block, lower_i32(l, 2)), .order = ORDER_ACQ_REL, .scope = SCOPE_GPU};
	lower_barrier(l);
	lower_when(l, lower_op2(l, THREAD_EQ, l->thread, lower_i32(l, 0)));
	Reg before = thread_atomic(l->b, ATOMIC_ADD, &arrivals, lower_i32(l, 1), 0);
	Reg last = lower_op2(l, THREAD_EQ, before, lower_i32(l, l->f->schedule.split - 1));
	Reg zero = lower_i32(l, 0), flag = lower_op3(l, THREAD_SELECT, last, lower_i32(l, 1), zero);
	arrivals.mask = last;
	thread_store(l->b, &arrivals, &zero);
	thread_store(l->b, &word, &flag);
	lower_end_when(l);
	lower_barrier(l);
	thread_load(l->b, &word, &is_last);
	return lower_op2(l, THREAD_NE, is_last, lower_i32(l, 0));
}

void
lower_split_meet(Lower *l, Op *op)
{
	Reg *out = lower_new(l, &op->out[0]);
	if (attr_cluster(op)) {
		wait_for_cluster(l);
		out[0] = lower_op2(l, THREAD_EQ, lower_split_rank(l), lower_i64(l, 0));
	} else {
		out[0] = count_arrival(l, op);
	}
}

void
lower_split_done(Lower *l, Op *op)
{
	if (attr_cluster(op))
		wait_for_cluster(l);
}
