/* How long a launch of products of warpgroups takes whose operands come by tensor maps.
 *
 * A program takes as long as what its block uses longest: the matrix units, which are slower the more of them are busy;
 * shared memory; its copies, of which the multiprocessor takes so many lines of 128 bytes, and more for a row that lies
 * outside of the tensor; or its share of the L2 cache.  A ring hides the latency of the copies of all its slots but one.
 * Programs at the tensor's edge have rows outside: where each multiprocessor has one program the slowest counts, else their
 * share.
 *
 *     program  = max(products, shared memory, lines, bytes through the L2 cache, trips * (latency / (stages - 1) + issue))
 *     launch   = rounds of as many programs as there are multiprocessors, the last with fewer, and what begins and ends
 *                them; not less than device memory takes
 *
 * The constants were fitted so that the fastest of a shape comes first: to 6,300 launches of bf16 on an H200, 50 shapes
 * from 37 to 8192 rows, tiles from 24 x 64 to 256 x 256, flat and parted, transposed, alone, in clusters and with loops
 * shared.  What comes first took 2.3 % longer than the fastest, and 3.1 % over 23 shapes that were not used.  Cycles of
 * 1.755 GHz. */
#include "compile/choose/estimate.h"

#include <math.h>

/* What flat blocks lose each time that others take their places: the estimate fell short by it for 16 products of 512 x
 * 2048 x 128 (20.0 us flat, 14.8 in roles) and 96 of 384 x 384 x 80 (18.3, 14.6); why was not measured.  Of 8 of 2048 x
 * 2048 x 192, 24 of 640 x 1280 x 320 and 4096 x 4096 x 256, not used for it, what is chosen is 1.17 to 1.40 times as
 * fast. */
static const double TURN = 3500;
static const double LAUNCH = 3257, FILL = 441, EPILOGUE = 1534, PARTED_EPILOGUE = 310, PARTED_START = 328;
static const double LONE_WAIT = 65, PARTED_WAIT = 10;           /* of one warpgroup, whose product drains before the next */
/* Of flat products of several warpgroups, a trip: transposed ones, and any that take less than SHORT cycles. */
static const double TRANSPOSED_WAIT = 99, SHORT_WAIT = 20, SHORT = 400;
static const double LATENCY = 1600, COPY_ISSUE = 50, SLOT_WAIT = 15, TRIP = 6;
static const double DEEPER = 0.5;                               /* of a slot, that each row of 128 bytes more is worth */
static const double L2_RATE = 7163, MEMORY_RATE = 2450;         /* bytes, all multiprocessors together */
static const double BUSY = 0.117, UNEVEN = 1.019;               /* slower: all matrix units at work; several blocks */
static const double SCALE = 0.726;                              /* the median of measured by modelled times */
static const double BESIDE_MEMORY = 0.338;                      /* of what waits for memory, the shorter is chosen */
static const double EPILOGUE_TILE = 16384, EPILOGUE_FIXED = 0.29, EDGE_SHARE = 0.3;
static const double CLUSTER_START = 1627, SPLIT_SLOW = 1.248;
static const double TRANSPOSED_SLOW = 1.034;                    /* in more than one round */
/* Blocks that share a loop: in a cluster each adds a share of all blocks' sums, in memory the last adds all.  Fitted to 790
 * launches of 30 shapes; what comes first takes 4.5 % longer than the fastest, 5.1 % over 10 that were not used. */
static const double STEP_CLUSTER = 3177, RATE_CLUSTER = 8.04, CLUSTER_SHARED = 0.957;
static const double TWO_SLOTS = 753;                            /* a trip of a flat ring of two hides no latency */
static const double JOIN_MEMORY = 7129, PART_MEMORY = 289, RATE_MEMORY = 202;
/* Programs that two share: what the block that joins waits for; at edges parts are uneven.  3000^3 in clusters, 2304 x
 * 4096 x 4096 and 1031 x 4096 x 4096 take 0.86 to 0.93 of what they take alone; 520 x 11008 x 4096 took 1.6. */
static const double STREAM_JOIN = 9000, STREAM_SLOW = 1.1, STREAM_EDGES = 1.2;
/* The same of programs for half of the multiprocessors at most, each shared by several: fitted to eight launches,
 * 256 x 1024 x 8192 to 512 x 512 x 65536, of which the estimates are off by -9 to 13 %, and what is transposed to five. */
static const double FEW_JOIN = 3000, FEW_SLOW = 1.155, FEW_PARTS = 0.02, FEW_TRANSPOSED = 1.08;
/* Tiles that are read behind the loop, as residuals: flat blocks wait for them, in roles they come by the ring.  4000 x
 * 1024 x 640 and 1536 x 2048 x 512 with a residual take 14.5 and 11.2 us flat, 12.4 and 9.3 in roles. */
static const double BEHIND = 1500, BEHIND_RATE = 22, PARTED_BEHIND_RATE = 60;
static const double TOGETHER = 6.8;                             /* the norm that stands for the greatest */

static double
greatest(const double *x, int n)
{
	double most = 0, sum = 0;
	for (int i = 0; i < n; i++)
		most = fmax(most, x[i]);
	for (int i = 0; i < n && most > 0; i++)
		sum += pow(x[i] / most, TOGETHER);
	return most * pow(sum, 1 / TOGETHER);
}

/* What a program uses longest beside `active` others; edge: it has rows outside of the tensor. */
static double
used(const ProductLaunch *p, double active, bool edge)
{
	const double by[] = {p->products * (1 + BUSY * active / p->multiprocessors), p->shared,
		p->lines + (edge ? p->outside : 0), p->moved * active / L2_RATE, p->arithmetic};
	return greatest(by, sizeof by / sizeof *by);
}

/* Alone, its ring and its one warpgroup wait, too. */
static double
alone(const ProductLaunch *p, double active, bool edge)
{
	double ahead = fmax(p->stages - 1, 1), lone = p->parted ? PARTED_WAIT : LONE_WAIT;
	double trips = fmax(p->trips, 1), several = (p->transposes ? TRANSPOSED_WAIT : 0) +
	    SHORT_WAIT * fmax(1 - p->products / trips / SHORT, 0);
	double slots = SLOT_WAIT / ahead + (p->parted || p->stages > 2 ? 0 : TWO_SLOTS);
	double wait = TRIP + slots + (p->warpgroups == 1 ? lone : p->parted ? 0 : several);
	double latency = LATENCY / (ahead + DEEPER * (p->depth - 1)) + COPY_ISSUE;
	double most = fmax(used(p, active, edge), trips * latency);
	return most + trips * wait + most / trips / 4;  /* the first trip's copies hide behind nothing */
}

typedef double Cost(const ProductLaunch *p, double active, bool edge);

/* One of `rounds` programs of a multiprocessor. */
static double
mean(const ProductLaunch *p, Cost *of, double active, double rounds)
{
	double inside = of(p, active, false), edge = of(p, active, true);
	return rounds <= 1 ? edge : inside + (p->edges + EDGE_SHARE / rounds) * (edge - inside);
}

/* All of a multiprocessor's, each with `more` to begin and end it. */
static double
all_rounds(const ProductLaunch *p, Cost *of, double more)
{
	double full = floor(p->programs / p->multiprocessors), rest = p->programs - full * p->multiprocessors;
	double rounds = full + (rest > 0);
	double cycles = full > 0 ? full * (mean(p, of, p->multiprocessors, rounds) + more) : 0;
	return cycles + (rest > 0 ? mean(p, of, rest, rounds) + more : 0);
}

static double
tile_part(const ProductLaunch *p)
{
	return EPILOGUE_FIXED + (1 - EPILOGUE_FIXED) * p->elements / EPILOGUE_TILE;
}

/* Blocks that are resident together hide each other's waiting, not each other's use. */
static double
flat_cycles(const ProductLaunch *p)
{
	double behind = p->behind > 0 ? BEHIND + p->behind / BEHIND_RATE : 0;
	double start = FILL + EPILOGUE * tile_part(p) + behind;
	double together = fmin(p->together, ceil(p->programs / p->multiprocessors));
	double apart = all_rounds(p, alone, start), turns = p->programs / p->multiprocessors / fmax(together, 1) - 1;
	double cycles = together > 1 ? fmax(apart / together, start + UNEVEN * all_rounds(p, used, 0)) : apart;
	return cycles + fmax(turns, 0) * TURN;
}

static bool
shares_few(const ProductLaunch *p)
{
	return p->stream && 2 * p->programs <= p->multiprocessors;
}

double
estimate_stream_programs(double programs, double multiprocessors, int parts)
{
	double rounds = floor(programs / multiprocessors);
	if (rounds * multiprocessors == programs)
		return rounds;
	rounds = fmax(rounds - 1, 0);
	double shared = programs - rounds * multiprocessors;
	return rounds + shared / fmin(multiprocessors, shared * parts);
}

static double
parted_cycles(const ProductLaunch *p)
{
	double start = PARTED_START + FILL + EPILOGUE * tile_part(p);
	double end = PARTED_EPILOGUE * tile_part(p) + p->behind / PARTED_BEHIND_RATE;
	if (!p->stream)
		return start + all_rounds(p, alone, end);
	double active = fmin(p->multiprocessors, p->programs * p->stream);
	double more = fmax(fmin(p->stream, floor(p->multiprocessors / p->programs)) - 2, 0);
	double join = shares_few(p) ? FEW_JOIN + more * FEW_PARTS * p->sums : STREAM_JOIN;
	double own = estimate_stream_programs(p->programs, p->multiprocessors, p->stream);
	return start + own * (alone(p, active, true) + end) + join;
}

static double
join_cycles(const ProductLaunch *p)
{
	if (p->split <= 1)
		return 0;
	if (p->in_cluster)
		return STEP_CLUSTER * log2(p->split) + p->sums / RATE_CLUSTER;
	return JOIN_MEMORY + (p->split - 1) * (PART_MEMORY + p->sums / RATE_MEMORY);
}

double
estimate_product(const ProductLaunch *p)
{
	double cycles = p->parted ? parted_cycles(p) : flat_cycles(p);
	double slow = p->split <= 1 ? 1 : p->in_cluster ? CLUSTER_SHARED : SPLIT_SLOW;
	if (p->transposes && p->programs > p->multiprocessors)
		slow *= TRANSPOSED_SLOW;
	if (p->stream)
		slow *= shares_few(p) ? FEW_SLOW * (p->transposes ? FEW_TRANSPOSED : 1)
		                      : STREAM_SLOW * (p->outside > 0 ? STREAM_EDGES : 1);
	double most = fmax(cycles, p->bytes / MEMORY_RATE) + BESIDE_MEMORY * cycles;
	return (LAUNCH + (p->ranks > 1 ? CLUSTER_START : 0) + most + join_cycles(p)) * slow * SCALE;
}
