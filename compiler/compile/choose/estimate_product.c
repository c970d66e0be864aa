/* How long a launch of products of warpgroups takes whose operands come by tensor maps.
 *
 * A program takes as long as what its block uses longest: the matrix units, which are slower the more of them are busy;
 * shared memory; its copies, of which the multiprocessor takes so many lines of 128 bytes, and more for a row that lies
 * outside of the tensor; or its share of the L2 cache.  Or as its ring turns: each slot is asked for, comes and is used
 * before it is asked for again.  Programs at the tensor's edge have rows outside: where each multiprocessor has one program
 * the slowest counts, else their share.
 *
 *     use      = max(products, shared memory, lines, bytes through the L2 cache)
 *     program  = max(use, (trips * latency / blocks together + bytes through the L2 cache + use) / stages)
 *     launch   = rounds of as many programs as there are multiprocessors, the last with fewer, and what begins and ends
 *                them; not less than device memory takes
 *
 * The constants were fitted to 2,100 launches of bf16 on an H200, 142 shapes of 37 to 8192 rows, flat and parted,
 * transposed, alone, in clusters and with loops shared: to how the forms of a shape compare, those near its fastest
 * most.  Of 110 shapes whose forms were measured its choice is within 5 % of the fastest in 87, the one of the constants
 * before in 64 (bench/results/h200-matmul.md).  Those of starts and joins (PARTED_START, CLUSTER_START, RATE_CLUSTER and
 * FEW_...) were fitted again to 687 launches of 62 shapes: what is put first takes 1.027 of the fastest for 1.041 of 36 of
 * them, 1.027 for 1.034 of 19 kept aside.  Cycles of 1.755 GHz. */
#include "compile/choose/estimate_ops.h"

#include <math.h>

static const double LAUNCH = 3000, PARTED_START = 1290, EPILOGUE = 4720;
/* More, of one warpgroup, whose product drains first, unless it runs on (skew/run_on.c); in roles, of tiles of more than
 * 64 rows and columns, two warpgroups take 0.8 to 1.0 of one's time, of others 1.0 to 1.2, and joins wait for one. */
static const double TRIP = 10.6, LONE = 63.4;
/* More: the warps that multiply ask for slots and meet, unless a product runs on meanwhile.  Of 26 forms with lone
 * warpgroups in single rounds flat ones take 0.92 of their time in roles in the mean (0.66 to 1.04); but 64 x 208, of which
 * the thread that copies asks for 15 boxes a trip, 1.3. */
static const double FLAT_TRIP = 58.1;
static const double LONE_WIDE = 52.5, WIDE = 8192;              /* of one warpgroup, of tiles of more elements */
static const double TRANSPOSED_WAIT = 43.2;                     /* a trip, flat, of several warpgroups */
static const double LATENCY = 1610;                             /* from a slot's release until the first bytes come */
/* More, in clusters, of which all blocks must have released a slot before any copies into it.  Beside it, lines that others
 * of the cluster asked for cost less than own ones (estimate_ops.c), so that clusters of four in tiles of 64 rows or
 * columns are not too dear: 1511 x 424 x 6816 takes 25.5 us in them, 31.4 in pairs. */
static const double CLUSTER_LATENCY = 600;
static const double L2_RATE = 8490, MEMORY_RATE = 2280;         /* bytes, all multiprocessors together */
/* Where data says which programs leave, the others drift apart: 9.9 TB/s.  Those that walk in step ask for the same lines
 * at the same time, and one answer serves several: single rounds take in up to 14 TB/s, groups of rows by 64 x 128 9.6 to
 * 9.8.  Of 14 products of groups whose tiles differ so the mean takes .948 (.82 to 1.13); cubes would take more. */
static const double L2_DRIFTED = 4840;
/* So do groups of consumers, which are at different steps of K at a time: by tiles of 128 x 128 they take in 9 to 12 TB/s
 * of operands of 16 bits.  64 x 512^3 34.2 us, by 128 x 256 of both warpgroups 31.0, 8192 x 4096 x 1024 97 and 92.5, 4096 x
 * 2560 x 640 23.1 and 25.4; of 8 bits 4096^3 85 and 93. */
static const double L2_GROUPS = 5200;
static const double BUSY = 0.327;                               /* slower: all matrix units at work */
static const double SCALE = 0.726;                              /* the median of measured by modelled times */
static const double BESIDE_MEMORY = 0.18;                       /* of what waits for memory, the shorter is chosen */
static const double EPILOGUE_TILE = 16384, EPILOGUE_FIXED = 0.29;
static const double CLUSTER_START = 2200;
/* Behind the first program of a multiprocessor: in roles the warps that multiply write its results, while copies for the
 * next one land but nothing multiplies; a flat block's place is taken by another. */
static const double NEXT_EPILOGUE = 0.42, NEXT_BLOCK = 1000;
/* Blocks of a cluster go by the slowest copy of each slot, so that device memory brings them less: 96 x 14336 x 5120 in
 * 96 x 128 takes 39.5 us in blocks alone, 41.7 by two and 39.5 by four, 128 x 8192 x 8192 in 128 x 64 40.9 and 42.3.  Of 18
 * products of 47 to 211 rows in 15 forms each what is put first takes 1.034 of the fastest, 1.048 by .2 for each block. */
static const double CLUSTER_MEMORY = 0.03;
/* More, of a row outside, where a block of a cluster has no program and copies nothing but such rows, for which the others
 * wait: 256 x 4096 x 4096 in 128 x 96 by four, 43 columns of programs, takes 41 us for 26. */
static const double IDLE_ROW = 3.75;
/* Blocks of a cluster that share a loop take longer the more slots their rings have: 947 x 280 x 10848 in 128 x 96 by
 * four 20.5 us with four slots, 19.5, 20.2 and 22.9 with five, six and eight; 271 x 312 x 34208 by eight 26.8, 25.4, 28.4
 * and 29.5. */
static const double SPLIT_SLOW = 1.36, SPLIT_SLOT = 0.0334;
/* Blocks that share a loop: in a cluster each adds a share of all blocks' sums, in memory the last adds all. */
static const double RATE_CLUSTER = 3.8;
static const double JOIN_MEMORY = 7129, PART_MEMORY = 289, RATE_MEMORY = 202;
/* Programs that two share: what the block that joins waits for; at edges parts are uneven.  3000^3 in clusters, 2304 x
 * 4096 x 4096 and 1031 x 4096 x 4096 take 0.86 to 0.93 of what they take alone; 520 x 11008 x 4096 took 1.6. */
static const double STREAM_JOIN = 9000, STREAM_SLOW = 1.1, STREAM_EDGES = 1.12;
/* The same of programs for half of the multiprocessors at most, each shared by several: 86 forms of 15 shapes whose
 * programs have as many blocks each took .67 to .82 of an estimate with a join of 13400 cycles (1024 x 1024 x 4096 17.4
 * us in 128 x 128 by two, 256 x 1024 x 8192 14.4 in 64 x 128 by four), where others take .93. */
static const double FEW_JOIN = 7800, FEW_SLOW = 1.17, FEW_PARTS = 0.02;
static const double FEW_ALONE = 1.13;   /* of no cluster: 512 x 512 x 65536 71.3 us, in pairs 61.2 */
/* Tiles that are read behind the loop, as residuals: flat blocks wait for them, in roles they come by the ring.  4000 x
 * 1024 x 640 and 1536 x 2048 x 512 with a residual take 14.5 and 11.2 us flat, 12.4 and 9.3 in roles. */
static const double BEHIND = 1500, BEHIND_RATE = 22, PARTED_BEHIND_RATE = 60;
/* The warps that multiply compute and write the results, meanwhile they multiply nothing, in roles too.  8192 x 4096 x 512
 * on an H200, by tiles of 256 x 128 or 128 x 256 in roles, us beyond a row's maximum (52) and beyond bf16 stored (61), and
 * arithmetic as it is counted: log-sum-exp 22 (14), argmax 16 (12), fp8 with a row's scale 21 (18); SiLU 26 (14), erf 28
 * (34), exp of a square root 41 (31); flat blocks 23 to 73.  Results wider than 16 bits wait for memory: f32 34. */
static const double AFTER = 1.35, WRITTEN_ELEMENT = 2, WRITTEN_RATE = 10;
static const double STORED_WAIT = 0.55;                         /* of what threads write, what nothing else hides */
/* Of a lone warpgroup's instruction beside the other group's products, which take the registers' ports: 8192 x 4096 x 512
 * on an H200, from the time of a program, GELU by erf 5.3, exact sigmoids and tanh 6.2, three operands each 4.8. */
static const double GROUP_ISSUE = 6;
/* Where nothing multiplies beside it: a tile that is read when it is used keeps slots that the other group's products
 * need.  4096 x 4096 x 1536 and 8192 x 4096 x 512, tanh times a residual 93 and 97 us, a soft cap and f32 124 and 165. */
static const double LATE_ISSUE = 2.5;
static const double TOGETHER = 6.86;                            /* the norm that stands for the greatest */

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

/* Of a lone warpgroup.  In flat blocks a warp that multiplies asks long for the boxes of tiles of many rows: 640 x 896 x
 * 7168 in 80 x 64 takes 19.0 us in roles and 21.6 flat, 359 x 2304 x 8192 in 120 x 64 24.2 and 25.3.  Where blocks share a
 * loop, products that run on gain little (256 x 1024 x 8192 in 64 x 64 x 128 by two takes 16.6 us without, 16.4 so). */
static bool
runs_on(const ProductLaunch *p)
{
	bool is_small = p->elements <= (p->transposes ? WIDE / 2 : WIDE);
	return p->runs_on && !p->stream && (p->parted || (p->split <= 1 && is_small));
}

static double
outside(const ProductLaunch *p)
{
	return p->outside * (p->idles ? 1 + IDLE_ROW : 1);
}

/* What a program uses longest beside `active` others; edge: it has rows outside of the tensor. */
static double
used(const ProductLaunch *p, double active, bool edge)
{
	double l2 = p->leaves && p->programs > p->multiprocessors ? L2_DRIFTED : L2_RATE;
	l2 = p->groups > 1 && !p->is_8bit && p->behind <= 0 ? L2_GROUPS : l2;   /* behind: not measured */
	double products = p->products * (1 + BUSY * active / p->multiprocessors);
	bool drains = p->warpgroups == 1 && !runs_on(p);
	const double by[] = {products + (drains ? fmax(p->trips, 1) * LONE : 0), p->shared,
		p->lines + (edge ? outside(p) : 0), p->moved * active / l2, p->arithmetic, p->stored};
	return greatest(by, sizeof by / sizeof *by);
}

/* Its ring waits, too, and for `together` blocks that use the multiprocessor. */
static double
ringed(const ProductLaunch *p, double active, bool edge, double together)
{
	double trips = fmax(p->trips, 1), use = used(p, active, edge) + (p->in_turn ? p->arithmetic : 0);
	double latency = LATENCY + (p->ranks > 1 ? CLUSTER_LATENCY : 0);
	const double by[] = {use,
		(trips * latency + together * (p->moved * active / L2_RATE + use)) / p->stages / together};
	double most = greatest(by, sizeof by / sizeof *by);
	bool meets = !p->parted && (p->warpgroups > 1 || !runs_on(p));
	double wait = TRIP + (meets ? FLAT_TRIP : 0) + (p->warpgroups == 1 && p->elements > WIDE ? LONE_WIDE : 0);
	wait += p->transposes && !p->parted && p->warpgroups > 1 ? TRANSPOSED_WAIT : 0;
	return most + (trips * wait + most / trips / 4) / together;     /* the first trip's copies hide behind nothing */
}

/* One of `rounds` programs of a multiprocessor. */
static double
mean(const ProductLaunch *p, double active, double rounds, double together)
{
	double inside = ringed(p, active, false, together), edge = ringed(p, active, true, together);
	return inside + (rounds <= 1 ? 1 : p->edges) * (edge - inside);
}

/* A program, with `more` to begin and end it: of groups that take turns, one does that while the other multiplies, but
 * takes longer, with one warp for each scheduler.  8192 x 4096 x 512 by 128 x 128: plain 60 us on an H200, GELU by tanh 64
 * and by erf 82, which take 79 and 93 in 128 x 256 by both warpgroups at once. */
static double
with_ends(const ProductLaunch *p, double cycles, double more)
{
	return p->groups > 1 ? fmax(cycles + LATE_ISSUE * p->late, (cycles + more) / p->groups) : cycles + more;
}

/* All of a multiprocessor's. */
static double
all_rounds(const ProductLaunch *p, double more, double together)
{
	double full = floor(p->programs / p->multiprocessors), rest = p->programs - full * p->multiprocessors;
	double rounds = full + (rest > 0);
	double cycles = full > 0 ? full * with_ends(p, mean(p, p->multiprocessors, rounds, together), more) : 0;
	return cycles + (rest > 0 ? with_ends(p, mean(p, rest, rounds, together), more) : 0);
}

/* Cycles of a program in which its block, or group, multiplies nothing. */
static double
results(const ProductLaunch *p)
{
	double waits = fmax(p->written - WRITTEN_ELEMENT * p->elements, 0) / WRITTEN_RATE;
	waits += p->groups > 1 || (!p->parted && p->together > 1) ? 0 : STORED_WAIT * p->stored;
	double group = GROUP_ISSUE * (p->issued - p->late) + LATE_ISSUE * p->late;
	double computes = p->groups > 1 ? group : AFTER * p->after;
	return (computes + waits) / fmax(p->split, 1);          /* one of those that share a loop */
}

/* Tiles that are read behind the loop, of a block in roles: what its ring brings, and what threads read themselves. */
static double
read_behind(const ProductLaunch *p)
{
	return (p->behind - p->loose) / PARTED_BEHIND_RATE + (p->loose > 0 ? BEHIND + p->loose / BEHIND_RATE : 0);
}

double
estimate_row_lines(const Op *read, double bytes)
{
	enum { LINE = 128, SECTOR = 32 };
	const Value *last = read->kind == OP_READ ? read->in[read->in[0]->type->rank] : NULL;
	bool goes_along = !last || (!last->def && last->block == read->home);
	return goes_along ? ceil(bytes / LINE) : ceil(bytes / SECTOR) * SECTOR / LINE;
}

double
estimate_sectors(double lines, double moved, double multiprocessors)
{
	return fmax(lines, moved * multiprocessors / L2_RATE) * SCALE;
}

double
estimate_behind(double after)
{
	return AFTER * after * (1 + BESIDE_MEMORY) * SCALE;
}

static double
epilogue(const ProductLaunch *p)
{
	return EPILOGUE * (EPILOGUE_FIXED + (1 - EPILOGUE_FIXED) * p->elements / EPILOGUE_TILE);
}

/* Programs of a multiprocessor behind its first. */
static double
further(const ProductLaunch *p)
{
	return fmax(ceil(p->programs / p->multiprocessors) - 1, 0);
}

/* Blocks that are resident together hide each other's waiting, not each other's use. */
static double
flat_cycles(const ProductLaunch *p)
{
	double together = fmax(fmin(p->together, ceil(p->programs / p->multiprocessors)), 1);
	double end = epilogue(p) + (p->behind > 0 ? BEHIND + p->behind / BEHIND_RATE : 0);
	double next = NEXT_BLOCK * further(p) / together;
	return all_rounds(p, end / together + results(p), together) + next + (together > 1 ? end : 0);
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
	double shared = programs - rounds * multiprocessors, each = fmin(parts, floor(multiprocessors / shared));
	return rounds + (each >= 1 ? 1 / each : shared / multiprocessors);
}

static double
parted_cycles(const ProductLaunch *p)
{
	double once = PARTED_START + epilogue(p);
	double end = read_behind(p) + results(p);
	if (p->groups > 1)                              /* behind the last program nothing hides its end */
		return once + end + all_rounds(p, end + NEXT_EPILOGUE * epilogue(p), 1);
	if (!p->stream)
		return once + NEXT_EPILOGUE * epilogue(p) * further(p) + all_rounds(p, end, 1);
	double each = fmin(p->stream, floor(p->multiprocessors / p->programs)), more = fmax(each - 2, 0);
	double active = each >= 1 ? p->programs * each : p->multiprocessors;
	double join = shares_few(p) ? FEW_JOIN + more * FEW_PARTS * p->sums : STREAM_JOIN;
	double own = estimate_stream_programs(p->programs, p->multiprocessors, p->stream);
	return once + own * (ringed(p, active, true, 1) + end) + join;
}

static double
join_cycles(const ProductLaunch *p)
{
	if (p->split <= 1)
		return 0;
	if (p->in_cluster)
		return p->sums / RATE_CLUSTER;
	return JOIN_MEMORY + (p->split - 1) * (PART_MEMORY + p->sums / RATE_MEMORY);
}

double
estimate_product(const ProductLaunch *p)
{
	double cycles = p->parted ? parted_cycles(p) : flat_cycles(p);
	double slow = p->split > 1 && !p->in_cluster ? SPLIT_SLOW : 1;
	if (p->stream)
		slow = shares_few(p) ? FEW_SLOW * (p->ranks > 1 ? 1 : FEW_ALONE)
		    : STREAM_SLOW * (p->outside > 0 ? STREAM_EDGES : 1);
	if (p->split > 1 && !p->parted)
		slow *= 1 + SPLIT_SLOT * fmax(p->stages - 4, 0);
	double memory = p->bytes / MEMORY_RATE * (1 + (p->ranks > 1 ? CLUSTER_MEMORY : 0));
	double most = fmax(cycles, memory) + BESIDE_MEMORY * cycles;
	return (LAUNCH + (p->ranks > 1 ? CLUSTER_START : 0) + most + join_cycles(p)) * slow * SCALE;
}

/* ---- which products ---- */

/* Do both operands have whole rows of their tensors along K?  Then tensor maps bring zeros behind them (pass pad). */
static bool
is_whole_depth(const Op *dot)
{
	for (int i = 0; i < 2; i++) {
		bool flipped, whole = false;
		int at[KERNEL_RANK];
		const Op *read = dot_operand_root(dot->in[i], &flipped)->def;
		if (!read || read->kind != OP_READ)
			return false;
		access_dims(read, at);
		for (int d = 0; d < read->in[0]->type->rank; d++)
			if (attr_index(read)[d] == 'p' && at[d] == ((i == 0) != flipped))
				whole = read->in[0]->type->extent[d] == read->out[0].type->extent[at[d]];
		if (!whole)
			return false;
	}
	return true;
}

bool
estimate_pads_depth(const Op *dot)
{
	const Type *right = dot->in[1]->type;
	return right->rank == 2 && !is_power_of_two(right->extent[0]) && !is_whole_depth(dot);
}

/* False: tiles of rows, columns or depth that are padded, which no tensor map brings. */
bool
estimate_find_form(Estimate *e)
{
	const Op *dot = NULL;
	int n = 0;
	for (const Op *op = e->f->body->first; op; op = op_after(op, e->f->body))
		if (op->kind == OP_DOT && ++n)
			dot = op;
	e->is_lone = n == 1 && dot->out[0].type->rank == 2;
	e->is_fma = e->is_lone && estimate_is_fma(dot, e->t);
	if (e->is_fma)
		return true;
	if (e->is_lone && estimate_pads_depth(dot))
		return false;
	int64_t rows = e->is_lone ? dot->out[0].type->extent[0] : 1;
	e->transposes = e->is_lone && dot_transposes(dot, rows, e->t, log2_ceil(e->warps));
	if (!e->is_lone || e->transposes)
		return true;
	DotWgmma w;
	int64_t columns = dot->out[0].type->extent[1];
	bool is_padded = !is_power_of_two(columns) && !dot_wgmma_reason(dot, e->t, log2_ceil(e->warps), false, &w) &&
	    (w.info->n % columns || w.turns[1]);
	return is_power_of_two(rows) && !is_padded;
}
