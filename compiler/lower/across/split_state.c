/* What the blocks that share a program's loop have of its states, by rank: put by each, read by the one that joins them.
 *
 *     %t = split_put %p           store word w of thread t at base + 4 (threads w + t)
 *     %last = split_meet %t       all words are stored
 *     %x = split_get %t, %i       load the words of the block of rank %i
 *     split_sum %t                the words of the first become the sum of all blocks'
 *     split_done %t               and they have been read, or summed: blocks may end
 *
 * All blocks run the same code, so a thread's registers hold the same elements in each of them: no layout changes, and
 * accesses are of neighbouring words, several of a thread side by side.  Elements are words: narrow ones are widened, wide
 * ones are two.
 *
 * Blocks of a cluster have their words in their own shared memory, and split_meet and split_done are barriers of the
 * cluster; the first joins.  Of a sum each block adds its share of the words, whose elements it need not know: one block
 * that reads seven tiles takes longer than eight that read an eighth of each.  Else the words are in memory of the launch,
 * and blocks count their arrivals, an atomic each that releases what the block has stored and acquires what others have.
 * The last to arrive joins, and sets the count back to 0 for the next launch.  Its loads are volatile: ptxas puts others
 * where they are used, each behind the L2 cache's latency. */
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
state_of(const Op *put)
{
	const Value *v = put->in[0];
	State s = {.put = put, .type = lower_type(v->type), .nregs = lower_count(v), .repeats = lower_repeats(v->layout)};

	s.words = thread_type_bytes(s.type) > 4 ? 2 : 1;
	for (int r = 0; r < s.nregs; r++)
		s.total += split_put_has(put, r) ? s.words : 0;
	s.vector = s.total % 4 == 0 ? 4 : s.total % 2 == 0 ? 2 : 1;
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
words_at(const Lower *l, int word)
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
move_words(Lower *l, const State *s, Reg base, Space space, Reg *word, bool loads)
{
	for (int w = 0; w < s->total; w += s->vector) {
		ThreadAccess a = {.space = space, .type = REG_I32, .n = s->vector, .base = base, .align = 4 * s->vector,
			.offset = own_offset(l, s), .constant = words_at(l, w)};
		if (loads && space == SPACE_GLOBAL)
			a.cache = CACHE_VOLATILE;
		if (loads)
			thread_load(l->b, &a, word + w);
		else
			thread_store(l->b, &a, word + w);
	}
}

void
lower_split_put(Lower *l, Op *op)
{
	State s = state_of(op);
	const Reg *v = lower_regs(l, op->in[0]);
	Reg *word = NEW_ARRAY(l->mem, Reg, s.total);
	int n = 0;
	for (int r = 0; r < s.nregs; r++)
		if (split_put_has(op, r)) {
			to_words(l, &s, v[r], word + n);
			n += s.words;
		}
	if (attr_cluster(op))
		move_words(l, &s, lower_scratch(l, op), SPACE_SHARED, word, false);
	else
		move_words(l, &s, memory_of(l, &s, lower_split_rank(l)), SPACE_GLOBAL, word, false);
}

/* The address of shared memory in the block of that rank (REG_I32). */
static Reg
in_peer(Lower *l, Reg own, Reg rank)
{
	Reg in[] = {own, rank}, there;
	thread_prim(l->b, PRIM_CLUSTER_ADDRESS, in, 2, NULL, 0, &there, 1);
	return there;
}

static void
load_peer(Lower *l, const State *s, Reg rank, Reg *word)
{
	Reg own = thread_pointer(l->b, thread_pointer(l->b, l->shared, lower_i32(l, attr_smem(s->put))), own_offset(l, s));
	Reg there = in_peer(l, own, lower_as(l, CAST_TRUNC, REG_I32, rank));
	int n = s->vector == 4 ? 4 : 1;
	for (int w = 0; w < s->total; w += n) {
		int64_t constant = words_at(l, w - w % s->vector) + 4 * (w % s->vector);
		Reg at = lower_op2(l, THREAD_ADD, there, lower_i32(l, constant));
		thread_prim(l->b, n == 4 ? PRIM_CLUSTER_LOAD_4 : PRIM_CLUSTER_LOAD, &at, 1, NULL, 0, word + w, n);
	}
}

void
lower_split_get(Lower *l, Op *op)
{
	State s = state_of(op->in[0]->def);
	Reg *word = NEW_ARRAY(l->mem, Reg, s.total), *out = lower_new(l, &op->out[0]);
	Reg rank = lower_regs(l, op->in[1])[0];
	int n = 0;
	if (split_gets_own(op))
		move_words(l, &s, thread_pointer(l->b, l->shared, lower_i32(l, attr_smem(s.put))), SPACE_SHARED, word,
		    true);
	else if (attr_cluster(s.put))
		load_peer(l, &s, rank, word);
	else
		move_words(l, &s, memory_of(l, &s, rank), SPACE_GLOBAL, word, true);
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

/* ---- sums ---- */

enum { QUAD = 4, SUMMED_AT_ONCE = 64 };             /* words: of an access; in registers at a time */

typedef struct Sum {
	Lower *l;
	bool is_float;
	int blocks, quads;                              /* quads: of a tile */
	Reg there[SPLIT_CLUSTER];                       /* this thread's first quad, in the block of each rank */
} Sum;

static Reg
add_words(const Sum *s, Reg a, Reg b)
{
	Lower *l = s->l;
	if (!s->is_float)
		return lower_op2(l, THREAD_ADD, a, b);
	Reg sum = lower_op2(l, THREAD_FADD, lower_as(l, CAST_BITS, REG_F32, a), lower_as(l, CAST_BITS, REG_F32, b));
	return lower_as(l, CAST_BITS, REG_I32, sum);
}

/* The thread's quads from..to-1; each is as many behind the one before as all threads of the cluster have. */
static void
add_quads(const Sum *s, int from, int to)
{
	Lower *l = s->l;
	int apart = 4 * QUAD * lower_threads(l) * s->blocks, n = to - from;
	Reg word[SUMMED_AT_ONCE];

	for (int q = 0; q < n; q++)
		for (int r = 0; r < s->blocks; r++) {
			Reg at = lower_op2(l, THREAD_ADD, s->there[r], lower_i32(l, (int64_t)apart * (from + q)));
			thread_prim(l->b, PRIM_CLUSTER_LOAD_4, &at, 1, NULL, 0, word + QUAD * (q * s->blocks + r), QUAD);
		}
	for (int q = 0; q < n; q++) {
		Reg in[1 + QUAD] = {lower_op2(l, THREAD_ADD, s->there[0], lower_i32(l, (int64_t)apart * (from + q)))};
		const Reg *part = word + QUAD * q * s->blocks;
		for (int k = 0; k < QUAD; k++) {
			in[1 + k] = part[k];
			for (int r = 1; r < s->blocks; r++)
				in[1 + k] = add_words(s, in[1 + k], part[QUAD * r + k]);
		}
		thread_prim(l->b, PRIM_CLUSTER_STORE_4, in, 1 + QUAD, NULL, 0, NULL, 0);
	}
}

void
lower_split_sum(Lower *l, Op *op)
{
	const Op *put = op->in[0]->def;
	State words = state_of(put);
	int threads = lower_threads(l), each, at_once;
	Sum s = {.l = l, .is_float = words.type == REG_F32, .blocks = l->f->schedule.split,
		.quads = words.total * threads / QUAD};
	Reg rank = lower_as(l, CAST_TRUNC, REG_I32, lower_split_rank(l));
	Reg quad = lower_op2(l, THREAD_ADD, lower_op2(l, THREAD_MUL, rank, lower_i32(l, threads)), l->thread);
	Reg base = thread_pointer(l->b, l->shared, lower_i32(l, attr_smem(put)));
	Reg own = thread_pointer(l->b, base, lower_op2(l, THREAD_MUL, quad, lower_i32(l, 4 * QUAD)));

	for (int r = 0; r < s.blocks; r++)
		s.there[r] = in_peer(l, own, lower_i32(l, r));
	each = s.quads / (threads * s.blocks);
	at_once = SUMMED_AT_ONCE / (QUAD * s.blocks);
	for (int q = 0; q < each; q += at_once)
		add_quads(&s, q, MIN(q + at_once, each));
	if (s.quads % (threads * s.blocks) == 0)
		return;
	lower_when(l, lower_op2(l, THREAD_ULT, quad, lower_i32(l, s.quads - each * threads * s.blocks)));
	add_quads(&s, each, each + 1);
	lower_end_when(l);
}

void
lower_split_done(Lower *l, Op *op)
{
	if (attr_cluster(op))
		wait_for_cluster(l);
}
