/* How long a launch takes, from what one program uses: the bill.
 *
 * A multiprocessor holds several programs at once.  Each takes the time of its own path: it waits for memory, reductions,
 * and its instructions one after another.  While some wait others work, but what all of them use together has a rate: bytes
 * of device memory, sectors of the L2 cache, instructions and so on.  The longest of these, and of the path divided by the
 * programs that run together, is what bounds the launch; the next ones cost something too, since they do not overlap
 * perfectly:
 *
 *     each  = (sum of part^8)^(1/8)                 cycles of a multiprocessor for a program; where blocks stay, of fourth
 *                                                   powers, in loops of third ones
 *     total = programs of the fullest multiprocessor * each + half a path to fill it, in loops a quarter
 */
#include "model/model.h"

#include <math.h>

/* From so many warps of a block on, some compute in trips of a loop over a row while others wait: those of 16 and 32 warps
 * of 25 kernels that read rows twice were estimated at 1.11 of what an H200 took with the sum of both, at 1.02 so. */
enum { MANY_WARPS = 16 };
enum { SHARP = 8, SHARP_STAYS = 4, SHARP_LOOPS = 3 };
enum { BLOCKS_MOST = 32, SYSTEM_BYTES = 1024, SPILL_BYTES = 64, SPILLED_ISSUE = 8, SAID = 3 };

static const double LOADED = 0.4;                       /* how much longer a path takes while memory is busy */

static const double BY_OP = 1.16;                       /* of instructions that are taken from ops, which are too few */

static const double LITTLE = 0.005;                     /* of the total: what is left out */

const char *const bill_part_names[BILL_PARTS] = {
	[BILL_MEMORY] = "device memory", [BILL_SECTORS] = "L2 cache", [BILL_ATOMICS] = "atomics",
	[BILL_REQUESTS] = "requests of warps", [BILL_ISSUE] = "instructions",
	[BILL_SPECIAL] = "special functions", [BILL_SHUFFLES] = "shuffles", [BILL_SHARED] = "shared memory",
	[BILL_PRODUCTS] = "products", [BILL_START] = "starting blocks", [BILL_WAITING] = "waiting",
};

const char *const bill_wait_names[PATH_PARTS] = {
	[PATH_MEMORY] = "memory's latency", [PATH_BARRIER] = "other warps, at a barrier",
	[PATH_EXCHANGE] = "other threads' values", [PATH_PRODUCT] = "a product",
	[PATH_ARITHMETIC] = "results of arithmetic",
};

/* A sector of which little is used brings its neighbour along: of 262,144 elements 2048 bytes apart an H200 read 64 bytes
 * each, of 4 M elements 16 bytes apart all 64 MB. */
double
cost_bytes(const ProgramCost *c)
{
	static const double SECTOR = 32, NEIGHBOURS = 2;
	return c->bytes + MAX(c->sectors * SECTOR - c->bytes, 0) * NEIGHBOURS;
}

/* Programs.  Registers are given to a warp in eights for each thread. */
static int
resident(const ProgramCost *c, const Target *t, int *given, int *limit)
{
	if (c->blocks) {
		*given = *limit = c->given;
		return c->blocks;
	}
	int warps = c->warps * c->share, threads = warps * t->lanes, fit = t->registers / threads / 8 * 8;
	*limit = MIN(t->max_registers, fit);
	*given = MIN(MAX(c->likely > 0 ? (int)c->likely : c->registers, 16), *limit);
	int n = t->registers / ((*given + 7) / 8 * 8 * threads);
	n = MIN(n, t->max_warps / warps);
	n = MIN(n, (int)(t->shared_bytes_unit / (c->share * c->shared_bytes + SYSTEM_BYTES)));
	return MAX(MIN(n, BLOCKS_MOST), 0) * c->share;
}

/* What rows that are under way together take of the L2 cache decides where the next loop over one finds it.  The cache
 * forgets the oldest lines first, and each of its two parts keeps what its multiprocessors read, so that some is lost from
 * half of its size on.  An H200 of 60 MB: rows of 80 KB, 32 MB at once, took 64 us with 8 warps each (gn_loop in
 * bench/warps), 22 MB 54; of 48 KB, 32 MB 128 (l2_norm), 20 MB 107; of 28 KB, 38 MB 122 (quant_loop), 113 where shared
 * memory kept them. */
static double
read_again(const ProgramCost *c, const TargetRates *r, double programs, int blocks)
{
	static const double HOLDS = 0.5, FULL = 0.9;
	double rows = MIN(programs, (double)blocks * c->joined * r->multiprocessors) * c->kept;
	double missed = r->l2_bytes > 0 ? (rows / r->l2_bytes - HOLDS) / (FULL - HOLDS) : 0;
	return programs * c->again * MIN(MAX(missed, 0), 1);
}

/* Straight code that is longer than a multiprocessor's cache of instructions is fetched anew by each warp, and ptxas, which
 * mixes more elements of it, gives it more registers than live ranges say.  An H200 took by 490, 940, 1,850 and 3,700
 * instructions 162, 146, 139 and 173 us (mish in bench/warps), but with twice the elements of a thread, from 1,024 on, 662
 * for 480 (Adam with stochastic rounding), 388 for 351 (Life in words), 197 for 69 (a filter of 64 taps).  So is a loop's
 * trip: rays against spheres by trips of 320, 640, 1,280 and 2,550 instructions took 213, 220, 234 and 282 us. */
static double
fetched(const ProgramCost *c, double issue)
{
	static const double CACHED = 1024, EACH_DOUBLING = 0.25;
	double length = c->loops ? c->longest : issue;
	return c->products > 0 || length <= CACHED ? 1 : 1 + EACH_DOUBLING * log2(length / CACHED);
}

static double
begun(const ProgramCost *c, double issue, const TargetRates *r)
{
	double all = issue * fetched(c, issue) / r->issue_rate;
	return c->is_counted ? MAX(all, c->integer / r->integer_rate) : BY_OP * all;
}

/* Cycles of what has a rate; not device memory, starts and waiting. */
static void
take_parts(const ProgramCost *c, double issue, double spilled, const TargetRates *r, int lanes, double part[BILL_PARTS])
{
	part[BILL_SECTORS] = (32 * c->sectors + SPILL_BYTES * spilled * c->warps * lanes) / r->l2_rate;
	part[BILL_ATOMICS] = c->atomics;
	part[BILL_REQUESTS] = c->requests;
	part[BILL_ISSUE] = begun(c, issue, r) * c->warps / 4;
	part[BILL_SPECIAL] = c->special * c->warps * lanes / r->special_rate;
	part[BILL_SHUFFLES] = c->shuffles;
	part[BILL_SHARED] = c->shared;
	part[BILL_PRODUCTS] = c->products;
}

/* Cycles of a program for a part of the bill.  Trips of a loop wait and move in turn, so that neither hides the other: they
 * add as the sides of a triangle (fitted to 55 forms of lsm2, quant_loop and two_passes in bench/warps on an H200: half of
 * them within 11 %, 16 % before).  So do programs of blocks that stay: softmax of rows of 64 in sixteens 61 estimated,
 * 67 so, 75 measured; 4 bits in groups of 64 in sixteens 40, 45, 57.  Not where they only add up what goes to memory once,
 * and no write keeps the next program's reads waiting: 47 forms of six such kernels 0.14 off, 0.20 in turn.  So do
 * atomics, which the L2 cache's parts do one after the other while what else goes through them waits: sums of 537 MB to one
 * number by 4,096 elements a program, which are 116 us of atomics and 122 of memory, take an H200 172, by 8,192 135 (168
 * and 135 so).  Of loops half of the waiting counts: see bill_again. */
static double
waits_in_turn(const Bill *b)
{
	static const double LOOPS = 0.5;
	return b->in_turn ? (b->loops ? LOOPS : 1) * b->part[BILL_WAITING] : 0;
}

static double
taken(const Bill *b, int i)
{
	double waits = waits_in_turn(b);
	return i == BILL_MEMORY ? hypot(hypot(b->part[i], waits), b->part[BILL_ATOMICS]) : b->part[i];
}

/* Loads and stores of either memory and shuffles go through one unit: they add. */
static bool
is_moved(const Bill *b, int i)
{
	return (b->is_straight || b->loops) && (i == BILL_REQUESTS || i == BILL_SHUFFLES || i == BILL_SHARED);
}

/* Blocks that stay all do alike at a time, so that what they use overlaps less: of 280 pairs of forms of 43 kernels an H200
 * orders 0.78 as the sum of fourth powers does, 0.71 as that of eighth.  Warps of loops are at other places of a trip, and
 * those of the next program begin while others end: third powers, half of the waiting beside memory, one unit for what
 * moves, were fitted to one half of 3,700 forms of 186 kernels of bench/warps and tried on the other, and the other way
 * round: the own choice took 1.07 of the best form's time in the mean of both halves, 1.06 since. */
void
bill_again(Bill *b)
{
	double each = 0, moved = 0, sharp = b->loops ? SHARP_LOOPS : b->stays ? SHARP_STAYS : SHARP;
	for (int i = 0; i < BILL_PARTS; i++)
		if (is_moved(b, i))
			moved += b->part[i];
		else
			each += i == BILL_START ? 0 : pow(taken(b, i), sharp);
	each = (each + pow(moved, sharp)) * pow(b->fewer, sharp);
	b->each = pow(each + pow(b->part[BILL_START], sharp), 1.0 / sharp);
	b->cycles = b->programs * b->each + b->fill;
}

/* The rate of device memory is all multiprocessors' together: one that has more programs, of products or of loops, than
 * others draws more of it, up to a rate of its own.  8 x 5120 x 13824 in bf16, 160 blocks, takes 36.0 us on an H200, 1.1 of
 * all bytes by the rate; by a multiprocessor's share for two programs, 1.65, other tiles were chosen, which take 41.7.  Of
 * 24 to 48 programs of 5 to 16 rows, 9 to 34 MB of weights in bf16, each draws 2.5 to 2.8 of its share.  Sums along the
 * middle of three axes by 16 programs a multiprocessor and by 31 half as long take 62.6 and 65.6 us (sum_mid in
 * bench/warps). */
static double
drawn(const ProgramCost *c, double share, double fullest)
{
	static const double DRAWS = 2.7;
	return c->products > 0 || c->loops ? MAX(share, fullest / DRAWS) / fullest : 1;
}

/* The same of the L2 cache, of which all together ask for more than it gives: of 32 programs, 16 x 1024 x 16384, each has
 * 65 bytes a cycle. */
static double
drawn_sectors(const ProgramCost *c, double share, double fullest)
{
	static const double ALONE = 0.72, HALF = 0.4;
	return c->products > 0 && share < HALF ? MAX(share / fullest, ALONE) : 1;
}

/* Cycles between a warp's instructions.  Where no barrier joins a block's warps in a loop's trips they drift apart, and
 * some compute while others wait; else all compute at a time.  Products decode many elements that do not wait for each
 * other, while other warps wait for memory: AWQ's words of 1 x 8192 x 8192, 64 columns a block, take 15.9 us on an H200,
 * 24 were estimated by the time of all warps; GPTQ's 11.3 and 22. */
static double
between(const ProgramCost *c, const TargetRates *r)
{
	static const double ABREAST = 0.6;
	double rate = r->issue_rate / (c->is_counted ? 1 : BY_OP);
	if (c->products > 0)
		return ABREAST * r->issue_alone;
	return c->loops && !c->in_step ? r->issue_alone : MAX(r->issue_alone, c->warps / 4.0 / rate);
}

/* With as many warps again to hide what others wait for, straight code takes 0.96 of its bill. */
static double
fewer_warps(const ProgramCost *c, const Target *t, double held)
{
	static const double FEWER = 0.045;
	return c->is_straight ? 1 + FEWER * log2(MAX(t->max_warps / MAX(held, 1), 1)) : 1;
}

/* Rows that a loop goes down come slower by short pieces of them: sums down columns (sum_mid, norm_first and std_cols of
 * bench/warps) took an H200 1.06 of a copy by 256 bytes, 1.33 by 128, 1.44 by 64, 1.9 by 32; so do several short rows that
 * a warp asks for together (instance_norm by 8 columns of f32 154 us, by 32 117). */
static double
in_pieces(const ProgramCost *c)
{
	static const double PIECES = 0.25;
	return 1 + (c->products == 0 && c->bytes > 0 ? PIECES * c->narrow / c->bytes : 0);
}

bool
bill_make(const ProgramCost *c, const Target *t, double programs, double bytes, Bill *out)
{
	const TargetRates *r = target_rates(t);
	int given, limit;
	*out = (Bill){.blocks = resident(c, t, &given, &limit), .registers = given, .launched = programs};
	if (!out->blocks || c->shared_bytes > t->shared_bytes)
		return false;
	double spilled = MAX(c->registers - limit, 0), issue = c->issue + SPILLED_ISSUE * spilled;
	double turns = issue * between(c, r), waits = (c->stays ? 0 : r->start_latency) + c->path;
	bool overlaps = c->again > 0 && c->warps >= MANY_WARPS;
	double path = overlaps ? hypot(waits, turns) : waits + turns;
	double share = programs / r->multiprocessors, each = MAX(c->share, c->joined);
	double fullest = ceil(share / each) * each, held = MIN(out->blocks, fullest / c->joined);
	bool at_once = fullest <= out->blocks * c->joined;
	double most = bytes * c->again / MAX(c->bytes - c->again, 1);
	double more = MIN(read_again(c, r, programs, out->blocks), most);
	out->reread = bytes > 0 ? more / (bytes + more) : 0;
	bytes += more;
	out->part[BILL_MEMORY] = in_pieces(c) * bytes / programs / (r->memory_rate / r->multiprocessors);
	if (at_once)
		out->part[BILL_MEMORY] *= drawn(c, share, fullest);
	take_parts(c, issue, spilled, r, t->lanes, out->part);
	if (at_once)
		out->part[BILL_SECTORS] *= drawn_sectors(c, share, fullest);
	out->part[BILL_ATOMICS] += c->atomics_once * MIN(out->blocks * r->multiprocessors / programs, 1);
	out->part[BILL_START] = c->stays ? 0 : r->start_block / c->share;
	out->stays = c->stays && c->products == 0;
	out->in_turn = c->loops || (out->stays && c->atomics_once <= 0);
	double waiting = path / held;
	out->part[BILL_WAITING] = waiting * (1 + (out->in_turn ? 0 : LOADED) * MIN(out->part[BILL_MEMORY] / waiting, 1));
	out->path = path;
	out->spilled = spilled;
	out->issued = issue;
	out->programs = at_once ? fullest : share;
	out->loops = c->loops && c->longest > 0 && c->products == 0;
	out->fill = out->loops ? path / 4 : at_once ? 0 : path / 2;
	out->is_straight = c->is_straight;
	out->live = c->registers;
	out->held = (int)c->held;
	out->likely = c->likely > 0 ? (int)c->likely : c->registers;
	out->fewer = fewer_warps(c, t, held * c->warps);
	bill_again(out);
	return true;
}

/* ---- by line ---- */

/* Unscaled: bytes and the path's cycles stand for device memory and waiting, until all lines are known. */
static LineBill
line_bill(const LineCost *l, const Target *t)
{
	LineBill b = {.file = l->file, .line = l->line, .marks = l->marks, .products = l->products};
	PathPart most = PATH_ARITHMETIC;
	double all = SUM_OF(double, i, PATH_PARTS, l->path[i]);
	take_parts(&l->used, l->used.issue, 0, t->rates, t->lanes, b.part);
	b.part[BILL_MEMORY] = l->memory;
	b.part[BILL_WAITING] = l->used.path + l->used.issue * t->rates->issue_alone;
	for (int i = 0; i < PATH_PARTS; i++)
		if (l->path[i] > l->path[most])
			most = (PathPart)i;
	b.wait = bill_wait_names[most];
	for (int i = 0; i < PATH_PARTS && all > 0; i++)
		b.waits[i] = l->path[i] / all;
	return b;
}

void
bill_lines(const LineCosts *lines, const Target *t, const Bill *launch, Arena *mem, LineBills *out)
{
	double sum[BILL_PARTS] = {0};
	*out = (LineBills){0};
	for (int i = 0; i < lines->n; i++) {
		LineBill b = line_bill(&lines->at[i], t);
		for (int p = 0; p < BILL_PARTS; p++)
			sum[p] += b.part[p];
		vec_push(mem, out, b);
	}
	for (int i = 0; i < out->n; i++)
		for (int p = 0; p < BILL_PARTS; p++) {
			/* what spills is of no line */
			bool spills = launch->spilled > 0 && (p == BILL_SECTORS || p == BILL_ISSUE);
			double of = launch->part[p] + (p == BILL_ISSUE ? launch->after : 0);
			double share = sum[p] > 0 ? of / sum[p] : 0;
			out->at[i].part[p] *= spills ? MIN(share, 1) : share;
		}
}

/* ---- in words ---- */

void
bill_put_time(double us, Text *out)
{
	text_printf(out, us < 100 ? "%.3g" : "%.0f", us);
}

double
bill_us(const Bill *b, const Target *t, double cycles)
{
	return cycles * b->programs / target_rates(t)->clock;
}

/* How a part counts in the total: what moves through one unit together, of device memory what is beside it in turn. */
double
bill_term(const Bill *b, BillPart p)
{
	return b->each <= 0 ? b->part[p]
	       : is_moved(b, p) ? b->part[BILL_REQUESTS] + b->part[BILL_SHUFFLES] + b->part[BILL_SHARED]
				: taken(b, p);
}

/* Of a term's parts the longest. */
BillPart
bill_bound(const Bill *b)
{
	int most = 0;
	for (int i = 0; i < BILL_PARTS; i++) {
		double more = bill_term(b, (BillPart)i) - bill_term(b, (BillPart)most);
		if (more > 0 || (more == 0 && b->part[i] > b->part[most]))
			most = i;
	}
	/* beside device memory */
	if (most == BILL_MEMORY && b->each > 0 && b->part[BILL_ATOMICS] > b->part[most])
		most = BILL_ATOMICS;
	if ((most == BILL_MEMORY || most == BILL_ATOMICS) && b->in_turn && b->part[BILL_WAITING] > b->part[most])
		most = BILL_WAITING;
	return (BillPart)most;
}

BillPart
bill_most(const Bill *b)
{
	int most = 0;
	for (int i = 0; i < BILL_PARTS; i++)
		if (b->part[i] > b->part[most])
			most = i;
	return (BillPart)most;
}

void
bill_print(const Bill *b, const Target *t, Text *out)
{
	bool said[BILL_PARTS] = {false};
	bill_put_time(b->cycles / target_rates(t)->clock, out);
	text_put(out, " us: ");
	for (int n = 0; n < SAID; n++) {
		int most = 0;
		for (int i = 0; i < BILL_PARTS; i++)
			if (said[most] || (!said[i] && b->part[i] > b->part[most]))
				most = i;
		said[most] = true;
		double us = bill_us(b, t, b->part[most]);
		if (n > 0 && us < 0.1)
			break;
		text_printf(out, "%s%s ", n == 0 ? "" : n == 1 ? ", then " : ", ", bill_part_names[most]);
		bill_put_time(us, out);
	}
}

/* What is added to `sum`, where it counts. */
static void
put_added(const char *what, double us, double total, Text *out)
{
	if (us < LITTLE * total)
		return;
	text_printf(out, "; %s ", what);
	bill_put_time(us, out);
}

void
bill_total(const Bill *b, const Target *t, Text *out)
{
	double clock = target_rates(t)->clock, total = b->cycles / clock;
	BillPart most = bill_bound(b);
	bool moved = is_moved(b, most) && b->each > 0;
	double longest = bill_us(b, t, moved ? bill_term(b, most) : b->part[most]), base = longest;
	double waits = waits_in_turn(b);
	double in_turn = bill_us(b, t, hypot(b->part[BILL_MEMORY], waits)), all = bill_us(b, t, taken(b, BILL_MEMORY));
	text_put(out, "the total of ");
	bill_put_time(total, out);
	text_printf(out, " us is %.2f times the longest part, %s ", total / longest,
	    moved ? "requests, shuffles and shared memory, which go through one unit and add," : bill_part_names[most]);
	bill_put_time(longest, out);
	if (b->each <= 0) {
		put_added("what does not overlap, waits in a trip or for the first operands and the results behind "
			  "products, adds", total - base, total, out);
		return;
	}
	if (!moved && b->in_turn && in_turn > (1 + LITTLE) * longest) {
		text_printf(out, "; device memory and %swaiting follow one another in a block's trips and add as the sides "
		    "of a right triangle, to ", b->loops ? "half of the " : "");
		bill_put_time(in_turn, out);
		base = in_turn;
	}
	if (!moved && all > (1 + LITTLE) * MAX(base, in_turn)) {
		text_printf(out, "; atomics hold up what else goes to the L2 cache, and add to device memory%s as the "
		    "sides of a right triangle, to ", waits > 0 ? " and waiting" : "");
		bill_put_time(all, out);
		base = all;
	}
	put_added("the other parts, which overlap imperfectly, add", bill_us(b, t, b->each) - base, total, out);
	put_added("filling and draining the multiprocessors add", b->fill / clock, total, out);
}
