/* How many registers a thread needs, from the tile IR with layouts.
 *
 * Elementwise ops work on one element after another, so that their results are not there as a whole.  Where elements wait
 * for one another they are: at reductions, at what goes through shared memory or between lanes, at loops, and where several
 * reads are under way together.
 *
 *     %v = read … : f32[8192] #0          256 threads: 32 registers, live over both reductions
 *     %m = reduce %v …
 *     %d = sub %v, %m                     not there as a whole: 4 at a time
 *     %s = reduce (mul %d, %d)
 *     write … (mul %d, …)                 but %d is, over the second reduction; %v no longer
 */
#include "model/model.h"

enum { BASE = 14, EACH_ACCESS = 2, UNDER_WAY = 32 };    /* addresses, indices, bounds; reads: fitted to what ptxas gives */

typedef struct Live {
	const Func *f;
	int *first, *last;                              /* numbers of ops, by the value's id */
	int n;                                          /* ops so far */
	int *across, *ends;                             /* by an op's number: words that wait across it, and end with it */
	int *most;                                      /* those of the longest value that begins there */
	VEC(const Op *) at;                             /* the ops across which elements wait, in order … */
	VEC(int) number;                                /* … and their numbers */
	int accesses;
	Arena *mem;
} Live;

/* Is it made again at each use, or a register or none in all? */
static bool
is_cheap(const Value *v)
{
	const Op *op = v->def;
	if (v->type->kind != TYPE_TILE || v->type->rank == 0 || !v->layout)
		return true;
	return op && (op->kind == OP_CONST || op->kind == OP_IOTA || op->kind == OP_BROADCAST);
}

int
live_words(const Value *v)
{
	if (is_cheap(v))
		return 0;
	int held = v->layout->in[IN_REGISTER] - __builtin_popcountll(layout_free_bits(v->layout, IN_REGISTER));
	int bits = v->type->ptr != PTR_NONE ? 64 : v->type->elem == TY_BOOL ? 1 : dtype_info[v->type->elem].bits;
	return (int)((((int64_t)bits << held) + 31) / 32);
}

static bool
is_wait(const Op *op)
{
	switch (op_family(op)) {
	case FAMILY_REDUCE: case FAMILY_SCAN: case FAMILY_ORDER: case FAMILY_GATHER: case FAMILY_SCATTER: case FAMILY_DOT:
	case FAMILY_DOT_ASYNC: case FAMILY_CONVERT: case FAMILY_BUFFER:
		return true;
	default:
		return op->kind == OP_READ || op->kind == OP_LOAD || op_is_control(op);
	}
}

static void
number(Live *l, const Block *b)
{
	for (int i = 0; i < b->narg; i++)
		l->first[b->arg[i].id] = l->n;
	for (const Op *op = b->first; op; op = op->next) {
		int begin = l->n++;
		for (int r = 0; r < op->nregion; r++)
			number(l, op->region[r]);
		for (int i = 0; i < op->nin; i++)
			l->last[op->in[i]->id] = MAX(l->last[op->in[i]->id], begin);
		for (int i = 0; i < op->nout; i++)
			l->first[op->out[i].id] = l->last[op->out[i].id] = l->n - (l->n > begin + 1);
		if (is_wait(op)) {
			vec_push(l->mem, &l->at, op);
			vec_push(l->mem, &l->number, begin);
		}
		l->accesses += op_is_access(op);
	}
}

/* What a loop's body uses from outside is live to the loop's end. */
static void
stretch(Live *l, const Block *b, int *at)
{
	for (const Op *op = b->first; op; op = op->next) {
		int begin = (*at)++;
		for (int r = 0; r < op->nregion; r++)
			stretch(l, op->region[r], at);
		if (!op_is_loop(op))
			continue;
		for (int v = 0; v < l->f->nvalues; v++)
			if (l->first[v] < begin && l->last[v] > begin && l->last[v] < *at)
				l->last[v] = *at;
	}
}

/* Parameters hold nothing.  `across` has differences from one op to the next at first. */
static void
add_words(Live *l, const Value *v)
{
	int first = l->first[v->id], last = l->last[v->id], words = live_words(v);
	if (last <= first)
		return;
	l->across[first + 1] += words;
	l->across[last + 1] -= words;
	l->ends[last] += words;
	l->most[first] = MAX(l->most[first], words);
}

static Live
open_live(const Func *f, Arena *mem)
{
	Live l = {.f = f, .mem = mem, .n = 1};
	int n = MAX(f->nvalues, 1), at = 1;
	l.first = NEW_ARRAY(mem, int, n);
	l.last = NEW_ARRAY(mem, int, n);
	number(&l, f->body);
	stretch(&l, f->body, &at);
	l.across = NEW_ARRAY(mem, int, l.n + 2);
	l.ends = NEW_ARRAY(mem, int, l.n + 2);
	l.most = NEW_ARRAY(mem, int, l.n + 2);
	ValueList all = func_values(f, mem);
	for (int i = f->body->narg; i < all.n; i++)
		add_words(&l, all.at[i]);
	for (int i = 1; i < l.n + 2; i++)
		l.across[i] += l.across[i - 1];
	return l;
}

/* Of what was there before the op of that number and is used by it or later; behind: later. */
static int
words_across(const Live *l, int here, bool behind)
{
	return l->across[here] - (behind ? l->ends[here] : 0);
}

/* Is it unknown when compiling how far the next trip's elements lie from this one's? */
static bool
is_far(const Op *access, const Value *trip)
{
	const char *index = access_is_tensor(access) ? attr_index(access) : "";
	const Type *t = access->in[0]->type;
	for (int d = 0; index[d]; d++)
		if (access->in[1 + d] == trip || value_inside(access->in[1 + d], trip->block))
			return ANY_OF(e, t->rank - 1 - d, t->extent[d + 1 + e] < 0);
	return false;
}

/* Addresses of trips that are read and written ahead (pass unroll) and have no order among them: the assembler makes all
 * of them at once, unless trips are a known number of bytes apart.  bn_first of bench/warps takes 128 registers by 16
 * trips, 252 by 32; with registers limited so that ten blocks fit, 32 spilled and took an H200 142 us, 16 take 34. */
static int
addresses_ahead(const Func *f)
{
	int most = 0;
	for (const Op *loop = f->body->first; loop; loop = op_after(loop, f->body)) {
		int n = 0, writes = 0;
		bool is = loop->kind == OP_FOR && attr_unrolled(loop) > 0 && loop->nout == 0;
		for (const Op *op = is ? loop->region[0]->first : NULL; op; op = op->next) {
			bool far = (op->kind == OP_READ || op->kind == OP_WRITE) && is_far(op, &loop->region[0]->arg[0]);
			n += far;
			writes += far && op->kind == OP_WRITE;
		}
		most = MAX(most, writes > 0 ? 2 * n : 0);
	}
	return most;
}

int
live_registers(const Func *f, Arena *mem)
{
	Live l = open_live(f, mem);
	int most = addresses_ahead(f);
	for (int i = 0; i < l.at.n; i++) {
		const Op *op = l.at.at[i];
		int here = l.number.at[i];
		bool streams = op_family(op) == FAMILY_REDUCE;  /* one element after another */
		bool is_read = op->kind == OP_READ || op->kind == OP_LOAD;
		int n = words_across(&l, here, streams), alone = streams ? l.most[here] : 0;
		for (int k = 0; k < op->nout && !op_is_control(op); k++)
			n += streams ? 0 : is_read ? MIN(live_words(&op->out[k]), UNDER_WAY) : live_words(&op->out[k]);
		most = MAX(most, MAX(n, alone));        /* alone: what the op before it made; was not fitted */
	}
	return BASE + EACH_ACCESS * MIN(l.accesses, 8) + most;
}

/* A tile that is made only to be reduced at once is never live as a whole. */
static bool
ends_whole(const Live *l, const Value *v, int here)
{
	return l->last[v->id] == here && !(v->def && op_has(v->def, ELEM));
}

int
live_over_reductions(const Func *f, Arena *mem, int *late)
{
	Live l = open_live(f, mem);
	int most = *late = 0;
	for (int i = 0; i < l.at.n; i++) {
		const Op *op = l.at.at[i];
		int here = l.number.at[i];
		if (most > 0 && (op->kind == OP_READ || op->kind == OP_LOAD))
			*late = MAX(*late, live_words(&op->out[0]));
		if (op->kind == OP_REDUCE)
			most = MAX(most, words_across(&l, here, true) + SUM_OF(int, k, op->nin,
			    ends_whole(&l, op->in[k], here) ? live_words(op->in[k]) : 0));
	}
	return most;
}
