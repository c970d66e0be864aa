/* How many registers a thread holds at once, estimated, where no assembler is there to say it.
 *
 * A value is live from its node to its last use; what comes from before a loop and is used in it, to the loop's end:
 *
 *     r8: i32, r9: f32 = loop 0 .. r2 step 1 (r5) {       r2 and r7 are live to the closing brace
 *         r10: f32 = fadd r9, r7
 *     } r11: f32 = next (r10)
 *
 * Constants are parts of instructions, and parameters stay in constant memory.  This is the order of the nodes: LLVM and
 * an assembler reorder and rematerialise (pressure_spills leaves room for that). */
#include "thread/thread.h"

typedef struct Live {
	const ThreadModule *m;
	int *begin, *end;                               /* of each node: its position, and that behind its regions */
	int *from, *to;                                 /* of each register; from -1: it is not defined */
	int positions;
} Live;

static void
number(Live *l, const ThreadRegion *r)
{
	for (int i = 0; i < r->body.n; i++) {
		const ThreadNode *n = r->body.at[i];
		l->begin[n->id] = l->positions++;
		for (int k = 0; k < 2 && n->region[k]; k++)
			number(l, n->region[k]);
		l->end[n->id] = n->region[0] ? l->positions++ : l->begin[n->id];
	}
}

/* A use in a region, at a position of it. */
static void
use(Live *l, Reg reg, const ThreadRegion *r, int at)
{
	const ThreadNode *def = thread_def(l->m, reg);
	for (; r->owner && r != def->home; r = r->owner->home)
		if (r->owner->kind != NODE_IF)
			at = l->end[r->owner->id];
	l->to[reg] = MAX(l->to[reg], at);
}

static void
define(Live *l, const Reg *r, int n, int at)
{
	for (int i = 0; i < n; i++) {
		l->from[r[i]] = at;
		l->to[r[i]] = MAX(l->to[r[i]], at);
	}
}

/* A region whose nodes begin behind that position. */
static void
find(Live *l, const ThreadRegion *r, int at)
{
	define(l, r->arg, r->narg, at);
	for (int i = 0; i < r->body.n; i++) {
		ThreadNode *n = r->body.at[i];
		Reg *in;
		at = l->begin[n->id];
		for (int k = 0; (in = thread_operand(n, k)); k++)
			use(l, *in, r, at);
		for (int k = 0; k < 2 && n->region[k]; k++)
			find(l, n->region[k], at);
		at = l->end[n->id];
		define(l, n->out, n->nout, at);
	}
	for (int i = 0; i < r->nyield; i++)
		use(l, r->yield[i], r, at);
}

static bool
takes_register(const ThreadNode *n)
{
	return n->kind != NODE_CONST && n->kind != NODE_SHARED && n->kind != NODE_PARAM;
}

/* By position: how many are live, of all or of what matrix instructions give. */
static const int *
profile(const Live *l, bool of_sums)
{
	int *now = NEW_ARRAY(l->m->mem, int, l->positions + 1);
	for (Reg r = 1; r <= l->m->reg.n; r++) {
		const ThreadNode *n = thread_def(l->m, r);
		RegType t = thread_type(l->m, r);
		bool is_sum = n->kind == NODE_MMA || n->kind == NODE_WGMMA;
		if (l->from[r] < 0 || t == REG_PRED || !takes_register(n) || (of_sums && !is_sum))
			continue;
		now[l->from[r]] += (thread_type_bytes(t) + 3) / 4;
		now[l->to[r]] -= (thread_type_bytes(t) + 3) / 4;
	}
	for (int i = 1; i < l->positions; i++)
		now[i] += now[i - 1];
	return now;
}

/* The most that are live at once. */
static int
most(const Live *l, bool of_sums)
{
	const int *now = profile(l, of_sums);
	int most = 0;
	for (int i = 0; i < l->positions; i++)
		most = MAX(most, now[i]);
	return most;
}

static Live
live_of(const ThreadModule *m)
{
	Live l = {.m = m, .positions = 1};
	l.begin = NEW_ARRAY(m->mem, int, m->nnode);
	l.end = NEW_ARRAY(m->mem, int, m->nnode);
	l.from = NEW_ARRAY(m->mem, int, m->reg.n + 1);
	l.to = NEW_ARRAY(m->mem, int, m->reg.n + 1);
	for (Reg r = 1; r <= m->reg.n; r++)
		l.from[r] = -1;
	number(&l, m->body);
	find(&l, m->body, 0);
	return l;
}

int
thread_live(const ThreadModule *m, int *sums)
{
	Live l = live_of(m);
	*sums = most(&l, true);
	return most(&l, false);
}

const int *
thread_live_at(const ThreadModule *m)
{
	Live l = live_of(m);
	const int *now = profile(&l, false);
	int *at = MAP_OF(m->mem, int, i, m->nnode, now[l.begin[i]]);
	return at;
}

/* Registers that each thread has where a multiprocessor holds so many blocks: a quarter of all is one scheduler's. */
static int
registers_each(const ThreadKernel *k, const Target *t)
{
	int warps = (k->min_blocks * k->threads / t->lanes + 3) / 4;
	return t->registers / 4 / (MAX(warps, 1) * t->lanes) / 8 * 8;
}

/* Blocks of which each thread has what is live in this order, and some; 0: one, or as many as it likes.  The driver's
 * compiler, which compiles for linking, takes up to four times what ptxas takes of a whole program (1.3 of it in the median
 * of 400 forms), to begin more loads, and few warps are there to wait.  Of 100 kernels of straight code, 50 of which take
 * other registers so, an H200 took .985 of the time in the mean: life 349 us for 430, lbm 457 for 531, compact 89 for 110,
 * four 1.02 or more, 1.08 at most.  0.8 of what is live and 20 gave .976, but spills, and 2.05 at most; with loops 1.7.
 * With 64 registers half of all threads fit, and fewer are left alone.  Not with branches, whose arms come to run beside
 * each other: weights of Lanczos, twelve sines with the way for great angles behind a branch, had 72 registers so, take
 * 134, and spilled 436 bytes. */
static int
blocks_for_live(const ThreadKernel *k, const Target *t, int live)
{
	enum { BESIDE = 28, HALF = 64, SYSTEM_BYTES = 1024, WARPS_MANY = 64 };
	int each = (live + BESIDE + 7) / 8 * 8, most = t->max_warps < WARPS_MANY ? 16 : 32;
	int n = MIN(MIN(t->registers / (each * k->threads), t->max_warps * t->lanes / k->threads), most);
	n = MIN(n, (int)(t->shared_bytes_unit / (k->shared_bytes + SYSTEM_BYTES)));
	return n > 1 && each > HALF ? n : 0;
}

/* Blocks that a multiprocessor is asked to hold leave each thread so many registers.  Where three tenths more are live
 * than that, ptxas would spill, and fewer are asked for: counts of points within a radius by tiles of 64 x 64, 64 threads,
 * have 213 live; of 16 blocks, which leave 64, it spills 1832 bytes, of 5, which leave 168, none. */
void
thread_fit_blocks(ThreadModule *m)
{
	enum { LIVE_PERCENT = 130 };
	static const unsigned OTHERS = 1u << NODE_LOOP | 1u << NODE_IF | 1u << NODE_MMA | 1u << NODE_WGMMA;
	ThreadKernel *k = &m->kernel;
	bool is_open = k->min_blocks == 0 && !(m->kinds & OTHERS) && m->target->kind == TARGET_PTX;
	int sums, live = k->min_blocks > 1 || is_open ? thread_live(m, &sums) : 0;
	if (is_open)
		k->min_blocks = blocks_for_live(k, m->target, live);
	while (k->min_blocks > 1 && live * 100 > registers_each(k, m->target) * LIVE_PERCENT)
		k->min_blocks--;
}

/* ---- in how many loops a value varies ---- */

/*     r50: i64 = loop 0 .. r7 step 1 () {
 *         r51: i64 = mul r7, r8           0: LLVM moves it before the loop, as it does what the body makes of it alone
 *         r66: i64 = mul r50, r51         1
 *
 * Lowering writes what each element needs where it needs it, as the row and the column of a lane in each trip.  LLVM's
 * loop-invariant code motion moves arithmetic whose operands are there before the loop, also out of branches, since it has
 * no effects.  Loads and what crosses lanes stay. */
static bool
moves(const ThreadNode *n)
{
	return n->kind == NODE_OP || n->kind == NODE_CAST || n->kind == NODE_POINTER || n->kind == NODE_PACK ||
	    n->kind == NODE_UNPACK || n->kind == NODE_CONST;
}

static void walk_inside(const ThreadRegion *r, int depth, int *levels);

static void
walk(const ThreadRegion *r, int depth, int *levels)
{
	for (int i = 0; i < r->body.n; i++) {
		ThreadNode *n = r->body.at[i];
		bool loops = n->kind == NODE_LOOP || n->kind == NODE_WHILE;
		int level = moves(n) ? 0 : depth;
		Reg *in;
		for (int k = 0; moves(n) && (in = thread_operand(n, k)); k++)
			level = MAX(level, levels[*in]);
		for (int k = 0; k < n->nout; k++)
			levels[n->out[k]] = level;
		for (int k = 0; k < 2 && n->region[k]; k++)
			walk_inside(n->region[k], depth + loops, levels);
		if (n->kind == NODE_CALL && n->function)
			walk_inside(n->function->body, depth, levels);
	}
}

static void
walk_inside(const ThreadRegion *r, int depth, int *levels)
{
	for (int i = 0; i < r->narg; i++)
		levels[r->arg[i]] = depth;
	walk(r, depth, levels);
}

int *
thread_levels(const ThreadModule *m)
{
	int *levels = NEW_ARRAY(m->mem, int, m->reg.n + 1);
	walk(m->body, 0, levels);
	return levels;
}
