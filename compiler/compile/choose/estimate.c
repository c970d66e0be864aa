/* How long a launch of a kernel with products takes, from its tile IR before layouts.
 *
 * A block uses resources of its multiprocessor: matrix units, shared memory, its share of the L2 cache, arithmetic.  A trip
 * of the loop takes as long as the resource that it uses longest, and what no other work of the block hides: the products
 * of a trip are waited for before the next one's.  Blocks that are resident together hide each other's waiting, not
 * each other's use.
 *
 *     trip  = max(products, shared memory, L2, (latency + L2) / stages ahead) + wait
 *     block = fill + trips + epilogue
 *     total = sets of resident blocks, one after the other; not less than the bytes through device memory
 *
 * Parted into roles (specialize), one block stays on a multiprocessor.  Its producer copies for the next program while the
 * last one's results are written, and waits for no product: no program but the first is filled, and a trip waits less.  The
 * start costs more, so that it does not pay for one set.  Drained tiles have buffers beside the ring.
 *
 * Two chained products of a parted kernel run at once, beside what is computed between them for the next: a trip takes as
 * long as a group of warps needs for its chain, or the block for its most used resource.
 *
 * Divided over blocks (split), a program is as many blocks, each with its part of the trips.  One adds all their sums.
 *
 * Products of warpgroups whose operands come by tensor maps are estimate_product.c's. */
#include "compile/compile.h"
#include "compile/choose/choose.h"
#include "compile/choose/estimate_ops.h"
#include "model/model.h"
#include "pass/layout/axis.h"
#include "pass/layout/dot.h"
#include "pass/share/split_k.h"

#include <math.h>
#include <string.h>

/* Not measured: latency of a lone group's product, which has drained before the next starts; of a fence and a barrier. */
static const double LONE_WAIT = 100, DECODE_WAIT = 150;
static const double PARTED_START = 4500, PARTED_WAIT = 130;      /* measured: 2 to 7 % faster from 4096^3 on */
/* FLAT_CHAIN: of windows of 128 keys, few trips a program, 64 flat rows take 215 us of an H200 (estimated 219), 128 and
 * 256 rows in roles 318 and 388 (326 and 300); no other of 27 kinds of attention is flat by it that was not by 1.5. */
/* Bytes that a block which shares its program leaves to the first cache, by which parts come: 128 x 128 with five slots and
 * six takes 33.3 and 39.1 us of 896 x 1152 x 10240, 52.9 and 62.5 of 1024 x 1024 x 16384, 160 x 128 with four and five 39.8
 * and 42.9 of 768 x 768 x 16384; in pairs they are alike. */
static const double PARTS_CACHED = 24 * 1024;
static const double LONE_PROGRAM = 2500, FLAT_CHAIN = 1.28;
/* Products in roles that begin anew in a loop around theirs, whose producer is ahead across its iterations: eight losses
 * and searches over 8,192 to 200,000 columns took 0.82 to 0.91 of what flat blocks took in the same tile. */
static const double FLAT_NEST = 1.2;
/* Groups of a flat block wait for one another, in trips that compute with their product: the nearest of 1024 centres in
 * 128 x 64 takes an H200 141 us by one group, 160 by two, sums by 4096 distances 209 and 228.  Not where they put operands
 * together: the nearest of 8192 codes of f32 777 and 765.
 * In roles a group, or groups that share their rows, multiplies and computes in turn: 8-bit floats with scales along K
 * in 64 x 128 take 250 us by one group, 233 by two, 178 in flat blocks; groups with rows of their own, 128 x 128, 224 and
 * 267. */
static const double FLAT_WAITS = 1.1;
/* Of a lone warpgroup, which waits for no other one: by 128 programs of 64 rows, heads of 128, 512, 1024 and 2048 keys,
 * 64 and 128 a trip: what is modelled is 1.49 to 1.64 of 8.6 to 24 us.  Flat ones take 1.04 to 1.06 of it; of two kernels
 * that were not used 1.11 (heads of 72) and 1.67 (64 drafts behind 4000 keys). */
static const double ONE_GROUP = 0.65;
/* Of the same, what they take: heads of 64 in 64 x 64 172 us (178 estimated), with a bias of f32 310 (311). */
static const double FLAT_TAKES = 1.07;
static const double LEAVE_BLOCK = 900, LEAVE_TURN = 1260, LEAVE_DRAWN = 300, LEAVE_PLANE = 100;
static const double LAUNCH = 2365;                               /* estimate_product.c's, scaled */
static const double TRIP_WAIT = 190, FILL = 1500, EPILOGUE = 600;
/* Of clusters of 4 and 8 blocks with much shared memory 28 and 14 run at once on one H200, 30 and 15 on another. */
static const double PLACED = 0.85;
/* Of 66 clusters of two some wait: 257 x 4096 x 4096 in tiles of 64 x 192 takes 44 us, 23 in single blocks. */
static const double PAIRS_PLACED = 0.975;
static const double PAIRS_LEAST = 0.75;                          /* 80 programs: 27.6 us, 19.5 alone (300 x 2000 x 3000) */
enum { REGISTERS_OTHER = 44, REGISTERS_MOST = 216, REGISTERS_APART = 240, CHAIN_REGISTERS = 28,
       DRIFT_REGISTERS = 24 };     /* the last with what rounding up to eights adds */
enum { SYSTEM_BYTES = 1024, STAGES_MOST = 4 };
/* Registers beside one product's sums, as spill.c has it; beside those of several.  Two sums of 40 registers and three of
 * 28 fit in 112, two of 44 spill 912 bytes and three of 32 896; in 232 two of 100 fit, of 104 they do not. */
enum { BESIDE_SUM = 16, BESIDE_SUMS = 28 };
static const double BESIDE = 0.1;               /* of what waits for memory, that which uses less beside it is chosen */
static const double UNEVEN = 1.1;                                /* blocks that fill buffers themselves */
static const double UNEVEN_SET = 1.15;          /* all at once: 497 us, not 402 (f32, 512 x 4096 x 4096, 64 x 128) */

/* The blocks that share a program's loop have each a part of it. */
static double
trips_of_block(const Estimate *e, const Op *loop)
{
	double trips = estimate_trips(e->f, e->b, loop);
	return e->split > 1 && loop->home == e->f->body ? ceil(trips / e->split) : trips;
}

static void
add_times(Use *to, const Use *u, double n)
{
	to->products += n * u->products;
	to->shared += n * u->shared;
	to->l2 += n * u->l2;
	to->asked += n * u->asked;
	to->arithmetic += n * u->arithmetic, to->after += n * u->after, to->issued += n * u->issued;
	to->written += n * u->written, to->stored += n * u->stored;
	to->special += n * u->special, to->slow += n * u->slow, to->apart += n * u->apart;
	to->lines += n * u->lines;
	to->read += n * u->read;
	to->outside += n * u->outside;
	to->moved += n * u->moved;
	to->beside += n * u->beside;
	to->common += n * u->common;
}

static double
longest(const Use *u)
{
	return MAX(MAX(u->products, u->arithmetic) + u->apart, MAX(u->l2, u->shared));
}

/* What is behind an early return counts for the programs that stay. */
static bool
leaves(const Op *branch)
{
	return block_find(branch->region[0], OP_DOT) || block_find(branch->region[1], OP_DOT);
}

/* `share`: how often the block runs, of the times that the block of its outermost loop does. */
static void
walk(Estimate *e, const Block *b, bool in_loop, double share, Use *u)
{
	for (Op *op = b->first; op; op = op->next) {
		double n = op_is_loop(op) ? trips_of_block(e, op) : op->kind == OP_IF && (in_loop || !leaves(op)) ? 0.5 : 1;
		for (int r = 0; r < op->nregion; r++) {
			Use inside = {0};
			int dots = e->dots;
			const Estimate before = *e;
			walk(e, op->region[r], in_loop || op_is_loop(op), op_is_loop(op) ? share : n * share, &inside);
			if (estimate_restarts(op))
				estimate_repeat(e, &before, n, FILL, &inside);
			if (op_is_loop(op) && !e->parted && e->dots - dots >= 2)
				inside.arithmetic += ESTIMATE_BESIDE * inside.beside;    /* parted: estimate_chain */
			inside.makes = op_is_loop(op) && e->made > 0 && e->made_dots == e->dots - dots;
			inside.apart += estimate_made_apart(e, &inside);
			add_times(u, &inside, n);
			if (!op_is_loop(op) || e->dots == dots)
				continue;
			e->streams += e->dots - dots == 1;
			e->within += n * inside.arithmetic;
			double masked = estimate_masked(op, n);
			e->masked += share * masked;
			e->chain += share * (n * estimate_chain(e, &inside) + masked);
			e->trips += share * n;
			e->filled_trips = e->filled > 0 ? n : 0;
			bool is_late = inside.asked > 0 && estimate_fills(e) == 0;
			double late = is_late ? inside.l2 / inside.asked : 1, busy = longest(&inside);
			double trip = estimate_made_trip(e, &inside, busy);
			trip = inside.makes ? trip : MAX(busy, estimate_in_turn(e, &inside));
			e->computes |= trip > busy || inside.apart > 0;
			double ahead = (MEMORY_LATENCY * MAX(late, 1) + inside.l2) / MAX(e->stages - 1, 1);
			double wait = e->parted ? PARTED_WAIT + (e->warps <= 4 ? LONE_WAIT : 0) : TRIP_WAIT;
			wait += e->gather_wait + e->trip_wait;
			e->trip_wait = e->made = e->made_wait = e->made_steps = e->made_dots = 0;
			wait += e->decodes ? (estimate_decodes_ahead(e) ? 0 : inside.arithmetic) + DECODE_WAIT : 0;
			wait += estimate_put_wait(e, &inside);
			e->serial += share * n * (MAX(trip, ahead) - busy + wait);
			e->in_turn += share * n * estimate_alone_in_turn(e, &inside, trip);
		}
		if (op->nregion == 0)
			estimate_op(e, op, in_loop, u);
	}
}

/* ---- blocks ---- */

static bool
splits_in_cluster(const Estimate *e)
{
	return e->split > 1 && e->split <= SPLIT_CLUSTER && (e->t->has & HAS_CLUSTER) && !e->joins;
}

static double
shared_bytes(const Estimate *e)
{
	double shared = e->stages * e->slot + estimate_fills(e) + e->turned + e->behind + e->scratch + SYSTEM_BYTES;
	shared += (e->chained ? (1 - e->stages) * e->beside : 0) + (e->chained || e->drifts ? e->once : 0);
	shared += estimate_drain(e, shared);
	return splits_in_cluster(e) ? MAX(shared, e->sums + SYSTEM_BYTES) : shared;
}

/* What pass pipeline makes slots for at least, where no header says how many: room for two blocks, if registers have it.
 * 128 x 128 of f32 in steps of 64 with two takes 101 us of 128 x 14336 x 4096 in tf32, 67 with six of 32. */
static double
own_room(const Estimate *e)
{
	enum { OTHERS = 32 };
	bool fits = 2 * e->warps * e->t->lanes * (e->registers + OTHERS) <= e->t->registers;
	return fits && !e->parted ? e->t->shared_bytes_unit / 2 : e->t->shared_bytes;
}

/* Do tensor maps bring all operands of a loop's products? */
static bool
reads_all(const Estimate *e)
{
	return e->warpgroup_dots == e->dots && e->loops == 1 && e->mapped && !e->decodes && estimate_fills(e) == 0;
}

static bool
fits_role(const Estimate *e)
{
	const int *regs = target_role_registers(e->t, e->warps / 4);
	return regs && e->registers + e->held + CHAIN_REGISTERS <= regs[1];
}

/* Blocks that a multiprocessor holds; 0: not even one. */
static int
resident(const Estimate *e)
{
	const Target *t = e->t;
	double shared = shared_bytes(e), threads = e->warps * t->lanes;
	double registers = e->registers + e->loose_registers + REGISTERS_OTHER;
	if (e->chained)
		return shared <= t->shared_bytes && fits_role(e);
	const int *roles = e->parted ? target_role_registers(t, e->warps / 4 * e->groups) : NULL;
	double held = e->registers + e->loose_registers + e->sources + (e->own_sums > 1 ? BESIDE_SUMS : BESIDE_SUM);
	if (roles && (held > roles[1] || e->instruction > target_registers(t, e->warps * e->groups + 4)))
		return 0;
	bool is_apart = e->adds_apart || estimate_fills(e) > 0, is_known = roles && e->own_sums > 1;
	if (shared > t->shared_bytes || (!is_known && registers > (is_apart ? REGISTERS_APART : REGISTERS_MOST)))
		return 0;
	if (e->drifts)                                  /* left operands are made while their sums end */
		registers = e->registers - e->left / 4 + DRIFT_REGISTERS;
	double n = MIN(t->shared_bytes_unit / shared, (double)t->registers / (threads * registers));
	return e->parted ? 1 : (int)MIN(n, (double)t->max_warps / e->warps);
}

/* Tiles that threads put are held a trip ahead, or read in the trip where registers are too few. */
static void
hold(Estimate *e)
{
	e->registers += e->filled_registers;
	if (e->registers + REGISTERS_OTHER > REGISTERS_MOST)
		e->serial += e->filled_trips * MEMORY_LATENCY;
}

/* Cycles until n blocks that run together are over.  They begin together, and those that share loops join at one time: two
 * products of 96 x 5632 x 2048 in 128 x 64 by two, 176 blocks, take 25.1 us on an H200 (17.5 without the second one's join
 * and half of the sums, 22.4 so).  Blocks that decode drift apart: 96 x 4096 x 4096 of int4 by two 16.9 us (13.6). */
static double
set_cycles(const Estimate *e, int n)
{
	double join = estimate_join(e->t, e->split, e->sums, e->joins), alone = EPILOGUE + longest(&e->block) + e->serial;
	bool drifts = e->decodes || e->decodes_rows || estimate_fills(e) > 0;
	return n ? FILL + MAX(alone + join, n * longest(&e->block) + (drifts ? 0 : join)) : 0;
}

/* Of programs that leave, those of one multiprocessor. */
static double
leaving_cycles(const Estimate *e, double programs, int together)
{
	double each = e->parted ? (e->turns > 0 ? LEAVE_TURN : LEAVE_DRAWN) : LEAVE_BLOCK / MAX(together, 1);
	if (e->fetched > 0 && e->planes > 0)
		return e->planes * LEAVE_PLANE;
	return programs * each / e->t->rates->multiprocessors;
}

/* Of n programs of one multiprocessor, `together` of them at once; those that fill buffers themselves are uneven, and take
 * one another's place as they end. */
static double
programs_cycles(const Estimate *e, double programs, int n, int together)
{
	if (e->chained)
		return (PARTED_START + FILL + n * (e->chain + (e->warps <= 4 ? LONE_PROGRAM : estimate_chain_ends(e)))) *
		    (e->warps <= 4 ? ONE_GROUP : 1) +
		    estimate_join(e->t, e->split, e->sums, e->joins);
	if (e->drifts)
		return estimate_drifting(e, estimate_flat_fill(e) + FILL + EPILOGUE, programs, n, together);
	if (estimate_fills(e) > 0 && together > 1)
		return MAX(UNEVEN * programs / e->t->rates->multiprocessors / together, 1) *
		    set_cycles(e, e->decodes_rows ? MIN(together, n) : together);
	if (!e->parted)
		return (n / together * set_cycles(e, together) + set_cycles(e, n % together)) *
		    (e->is_fma && together > 1 && n <= together ? UNEVEN_SET : 1);
	const Use *u = &e->block;
	double use = e->restarts ? MAX(longest(u), u->products + e->serial) : longest(u) + e->serial;
	return PARTED_START + FILL + n * estimate_uneven_exits(e) * (use + EPILOGUE) +
	    estimate_join(e->t, e->split, e->sums, e->joins);
}

/* The one product is of warpgroups, nothing but tensor maps brings its operands, and it is what takes time. */
static bool
is_plain_product(const Estimate *e)
{
	return (e->dots == 1 || e->dots == e->streams) && e->warpgroup_dots == e->dots && e->mapped && !e->decodes &&
	    estimate_fills(e) == 0 && !e->computes && !e->restarts;
}

static double
memory_cycles(const Estimate *e, double programs)
{
	double bytes = estimate_bytes(e->b) - estimate_unwritten(e->f, e->b, e->acting);
	return bytes / (e->t->rates->memory_rate * estimate_drawn(e, programs));
}

/* Of a multiprocessor's programs, of `all`, `together` of which wait at the same time. */
static void
fill_bill(const Estimate *e, double all, double programs, int together, double cycles, Bill *out)
{
	double sectors = estimate_sectors(e->block.lines, e->block.moved, e->t->rates->multiprocessors);
	sectors = MAX(sectors, e->block.stored);
	*out = (Bill){.programs = programs, .launched = all * MAX(e->stream, 1), .cycles = cycles,
	    .after = is_plain_product(e) ? e->block.after : 0};
	out->behind = estimate_behind(out->after);
	out->part[BILL_PRODUCTS] = e->block.products;
	out->part[BILL_SHARED] = e->block.shared;
	out->part[BILL_SECTORS] = is_plain_product(e) ? sectors : e->block.l2;
	double issue = e->chained || e->drifts ? estimate_chain_issue(&e->block) : e->block.arithmetic;
	out->part[BILL_ISSUE] = issue - out->after;
	out->part[BILL_SPECIAL] = e->block.slow;
	out->part[BILL_MEMORY] = memory_cycles(e, all) / programs;
	for (int i = 0; i < BILL_PARTS; i++)            /* that of chains counts some of them less */
		out->cycles = MAX(out->cycles, out->part[i] * programs);
	out->part[BILL_WAITING] = (e->serial + EPILOGUE + (e->parted ? 0 : FILL)) / MAX(MIN(together, programs), 1);
}

/* Parted kernels are modelled with products that are independent, or such as are chained and run at once: those of one
 * warpgroup in single rounds, where no other block would compute meanwhile (64 drafts behind 4000 keys, 128 programs: 70 us
 * on an H200, 42 in roles).  NULL: it is modelled. */
static const char *
model_reason(Estimate *e, bool chain, bool is_one_round)
{
	enum { WARPGROUP = 4 };
	Schedule open = e->b->schedule;
	open.specialize = -1;
	bool is_pair = chain && e->warpgroup_dots == e->dots && (e->dots == 2 || (dots_part(e->f) && fits_role(e)));
	e->chained = e->parted && is_pair && target_role_registers(e->t, e->warps / 4) &&
	    choose_roles_of(e->f, &open, e->t, is_one_round ? WARPGROUP : 2 * WARPGROUP);
	if (e->dots == 0)
		return "nothing in it multiplies";
	if (e->groups > 1)
		return estimate_groups_reason(e, !chain && is_plain_product(e));
	if (e->decodes_less)
		return "with fewer warps, warpgroups decode in registers";
	if (e->split > 1 && e->streams > 1 && e->streams == e->dots)
		return "split divides one loop, and several multiply";
	if (e->split > 1 && e->warpgroup_dots + e->fma_dots < e->dots)
		return "split is not modelled for products of few rows, which wait for memory";
	if (e->parted && !e->chained && (chain || e->warpgroup_dots < e->dots))
		return e->fma_dots > 0 ? "a producer warp (specialize) serves no products by multiplications"
		    : e->warpgroup_dots < e->dots
		    ? "a producer warp (specialize) is modelled for products by wgmma alone, and these are by mma.sync"
		    : "a producer warp (specialize) for products that need one another's results is modelled where two "
		      "warpgroups compute at once, each with 64 rows";
	return NULL;
}

/* Why no block runs; NULL: some do. */
static const char *
room_reason(const Estimate *e, bool is_few, bool is_plain, int together)
{
	if (together == 0)
		return shared_bytes(e) > e->t->shared_bytes ? CHOOSE_NO_SHARED : CHOOSE_NO_REGISTERS;
	if (e->stream && (!is_plain || ANY_OP(op, e->f->body, op->kind == OP_WRITE && strchr(attr_index(op), 'g'))))
		return "only products by tensor maps alone share their last programs";
	/* conv2d gathered, 32x56x56x256 3x3: 208 us, 205 alone; by windows 64x7x7x512 31.9, 29.1, 1x1 12.1, 10.6; 8-bit
	 * weights, 512 x 4096 x 4096, 41.7, 39.8 */
	if (e->parted && e->cluster.ranks > 1 && (choose_gathers(e->f) || e->decodes_rows))
		return "blocks of a cluster share neither rows that indices say nor what they decode, and wait";
	if (e->parted && e->cluster.ranks > 2 && !is_plain)
		return "clusters of more than two blocks are modelled for products by tensor maps alone";
	if (e->parted && !e->chained && (e->filled > 0 || (e->puts > 0 && e->slot <= 0)))
		return "a producer warp (specialize) copies by tensor maps, and an operand has none";
	bool are_sums = e->dots > 1 && reads_all(e);
	if (e->parted && !e->chained && is_few && !is_plain && e->puts <= 0 && !are_sums)
		return "a producer warp (specialize) pays from two programs a multiprocessor on";
	return NULL;
}

static double
refuse(Bill *bill, const char *reason)
{
	if (bill)
		*bill = (Bill){.cycles = -1, .refused = reason};
	return -1;
}

double
estimate_placed(const Target *t, int ranks)
{
	return floor(t->rates->multiprocessors * (ranks > 2 ? PLACED : ranks > 1 ? PAIRS_PLACED : 1));
}

static double
plain_product(const Estimate *e, double programs, int together)
{
	const Use *u = &e->block;
	const ProductLaunch p = {
		.products = u->products, .shared = u->shared - (e->is_turned ? 0 : u->read), .lines = u->lines,
		.outside = u->outside, .arithmetic = u->arithmetic - u->after, .after = u->after,
		.issued = u->issued, .written = u->written,
		.moved = u->moved, .bytes = estimate_bytes(e->b), .trips = e->trips, .programs = programs,
		.edges = e->edges, .elements = e->elements, .sums = e->sums, .behind = e->once, .loose = e->loose,
		.stored = u->stored, .together = together,
		.multiprocessors = estimate_placed(e->t,
		    splits_in_cluster(e) && e->split > 2 ? e->split : e->cluster.ranks),
		.warpgroups = e->warps / 4 * e->groups, .groups = e->groups, .stages = e->stages, .split = e->split,
		.stream = e->stream, .ranks = e->cluster.ranks, .parted = e->parted, .in_cluster = splits_in_cluster(e),
		.transposes = e->transposes, .idles = e->idles, .leaves = e->planes > 0,
		.late = estimate_late(e), .is_8bit = estimate_is_8bit(e->f),
		.in_turn = e->uses && e->parted && (e->warps <= 4 || e->rows < 16 * e->warps),
		.runs_on = (e->parted ? e->is_narrow : programs <= e->t->rates->multiprocessors) && !e->adds_apart,
	};
	return estimate_product(&p);
}

/* What the block uses, with as many slots as there is room for, where the schedule leaves them open: the fewer they are,
 * the longer an iteration waits for its copies, so that what was added up for more is added up anew.  Two products of 128
 * x 128 in steps of 128 have two slots on an H200 and take 258 us, 214 with four of 64. */
static const char *
use_all(Estimate *e, bool chain, int each)
{
	const Estimate before = *e;
	walk(e, e->f->body, false, 1, &e->block);
	e->serial += estimate_written_out(e);
	e->streams = chain ? 0 : e->streams;
	const char *reason = model_reason(e, chain, each <= 1);
	e->drifts = chain && (e->dots == 2 || dots_part(e->f)) && !e->parted && each > 1 && e->warpgroup_dots == e->dots &&
	    estimate_fills(e) <= 0 && !e->restarts;
	int stages = e->stages;
	double room = !chain && reads_all(e) ? own_room(e) : e->t->shared_bytes;
	while (!reason && (e->b->schedule.stages <= 0 || e->groups > 1) && e->stages > 2 && shared_bytes(e) > room)
		e->stages--;
	if (e->stages == stages || chain)               /* what chains wait for is estimate_chain.c's */
		return reason;
	stages = e->stages;
	*e = before;
	e->stages = stages;
	return use_all(e, chain, each);
}

double
estimate_cycles(Func *f, const Bound *b, const Target *t, Bill *bill)
{
	Estimate e = {.f = f, .b = b, .t = t, .warps = b->schedule.warps, .stages = b->schedule.stages,
	    .split = MAX(b->schedule.split, 1), .parted = b->schedule.specialize == 1,
	    .groups = b->schedule.pingpong == 1 ? 2 : 1, .mapped = true, .written_out = choose_written_out(f)};
	Found found;
	bool divides = e.split > 1 && !split_find(f, t, &found);
	e.joins = divides && split_joins(f);
	for (int i = 0; divides && i < found.loop->nout; i++)
		e.sums += (double)type_count(found.loop->out[i].type) * 4;
	if (e.split > 1 && !e.joins && (e.parted || b->schedule.persistent == 1)) {
		e.stream = e.split;
		e.split = 1;
	}
	double programs = e.split;
	e.cluster = estimate_cluster(f, b, b->schedule.ctas);
	for (int i = 0; i < b->naxis; i++) {
		int ranks = cluster_on(e.cluster, i);
		programs *= (double)((MAX(b->grid[i], 1) + ranks - 1) / ranks * ranks);
		e.idles |= b->grid[i] % ranks != 0;
	}
	bool is_wide = e.split > 2 && splits_in_cluster(&e);
	double units = floor(t->rates->multiprocessors * (is_wide ? PLACED : 1));
	double all = programs;
	e.acting = estimate_acting(f, b, &e.planes);
	programs = ceil(all * e.acting);
	int each = (int)ceil(programs / units);
	e.fetched = e.acting < 1 && e.parted && e.cluster.ranks <= 1 ? programs / units : 0;
	e.turns = e.acting < 1 && e.parted && e.cluster.ranks > 1 ? all / units : 0;
	e.warps = e.warps > 0 ? e.warps : 4;
	e.stages = e.stages > 0 ? e.stages : STAGES_MOST;
	if (!estimate_find_form(&e))
		return refuse(bill, "rows or K of the product's tile are no power of two, or columns not those of "
		    "whole instructions, and the model of products does not know padded tiles");
	bool chain = dots_are_chained(f, f->body), joins_few = e.stream && e.cluster.ranks <= 1 && 2 * programs <= units;
	e.scratch = joins_few ? PARTS_CACHED : 0;
	const char *reason = use_all(&e, chain, each);
	if (reason)
		return refuse(bill, reason);
	bool is_chain = chain && (e.dots == 2 || dots_part(f)), is_plain = is_plain_product(&e);
	hold(&e);
	if (!is_plain && !is_chain && e.loose > 0) {    /* asked for when the products are over */
		e.serial += MEMORY_LATENCY;
		e.block.arithmetic += e.loose_issued;
	}
	int together = resident(&e);
	bool is_few = each < 2 && !e.restarts && !e.stream &&
	    (e.cluster.ranks <= 1 || programs < PAIRS_LEAST * t->rates->multiprocessors);
	if ((reason = room_reason(&e, is_few, is_plain, together)))
		return refuse(bill, reason);
	double groups = FLAT_CHAIN * estimate_flat_groups(&e), nest = e.restarts && e.dots == 1 ? FLAT_NEST : 1;
	double flat = e.parted || e.drifts ? 1 : is_chain ? groups : nest;
	bool meets = e.uses && e.dots == 1 && !e.parted && e.warps > 4 && e.puts <= 0 && estimate_fills(&e) <= 0;
	double waits = meets ? FLAT_WAITS : 1;
	double cycles = programs_cycles(&e, programs, each, together) * flat * waits;
	cycles = is_plain ? plain_product(&e, programs, together) * estimate_uneven_exits(&e) * waits : cycles + LAUNCH;
	cycles += each <= 1 && e.dots == 1 ? e.in_turn : 0;
	double leaving = leaving_cycles(&e, all - programs, together);
	cycles = is_plain || e.parted ? cycles + leaving : fmax(cycles, leaving + set_cycles(&e, 1));
	bool is_even = (e.acting >= 1 && e.planes <= 0) || e.slot <= 0;
	double common = 0;
	double memory = is_even ? memory_cycles(&e, programs) : estimate_rounds(&e, programs, together, is_plain, &common);
	cycles = fmax(cycles, memory) + BESIDE * fmin(cycles, memory) + common + 1e-4 * e.block.l2 * programs;
	if (bill) {
		bool is_flat = is_chain && !e.parted && !e.drifts;   /* chosen only where clearly better */
		double own = e.stream ? estimate_stream_programs(programs, units, e.stream) : each;
		double taken = fmax(is_flat ? cycles / FLAT_CHAIN * FLAT_TAKES : cycles, memory);
		fill_bill(&e, programs, own, together, taken, bill);
	}
	return cycles;
}
