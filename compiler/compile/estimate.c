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
 * Divided over blocks (split), a program is as many blocks, each with its part of the trips.  Each leaves its sums, all
 * meet, and one adds them, one part after the other.
 *
 * Of a persistent kernel `split` divides the last programs alone, evenly over the blocks (pass stream): each computes a
 * part of a program more, and the block that joins waits for what others leave.
 *
 * Figures of an H200 at 1.75 GHz (bench/results/h200-matmul.md): products by warpgroups 2048 multiplications of 16 bits a
 * cycle, by a warp's instructions 1200; shared memory 128 bytes, L2 46 bytes, device memory 2500 bytes for all. */
#include "compile/compile.h"
#include "compile/estimate.h"
#include "model/model.h"
#include "pass/layout/axis.h"
#include "pass/layout/dot.h"

#include <math.h>
#include <string.h>

static const double RATE_WARPGROUP = 2048, RATE_WARP = 1200, SHARED_RATE = 128, L2_RATE = 46, MEMORY_RATE = 2500;
/* Not measured: latency of a lone group's product, which has drained before the next starts; of a fence and a barrier. */
static const double LONE_WAIT = 100, DECODE_WAIT = 150;
static const double PARTED_START = 4500, PARTED_WAIT = 130;      /* measured: 2 to 7 % faster from 4096^3 on */
/* Trips of attention on an H200: heads of 64, 96, 128 and 256, two warpgroups and four, 32 to 128 keys. */
static const double START_SHARE = 0.9, CHAIN_SLOW = 1.4, CHAIN_WAIT = 400, SPECIAL_SLOW = 1.25, GROUP_ISSUE = 140;
static const double RING_WAIT = 240, CHAIN_PROGRAM = 2500, FLAT_CHAIN = 1.5;
static const double LATENCY = 1100, TRIP_WAIT = 190, FILL = 1500, EPILOGUE = 600, LANES = 128, SPECIAL = 16;
/* Measured at 64 x 64 x 65536; of clusters of 4 and 8 blocks with much shared memory 28 and 14 run at once. */
static const double MEET_CLUSTER = 2600, PART_CLUSTER = 900, RATE_CLUSTER = 24, PLACED = 0.85;
static const double PAIRS_LEAST = 0.75;                          /* 80 programs: 27.6 us, 19.5 alone (300 x 2000 x 3000) */
/* To leave sums, until they are seen, and that no block is idle: 3072^3, 3000^3, 2304 x 4096 x 4096 on an H200. */
static const double STREAM_WAIT = 14000;
static const double MEET_MEMORY = 5200, PART_MEMORY = 100, RATE_PARTS = 70;
enum { REGISTERS_OTHER = 44, REGISTERS_MOST = 216, REGISTERS_APART = 240, CHAIN_REGISTERS = 28 };
enum { SYSTEM_BYTES = 1024, STAGES_MOST = 4 };
enum { ACCESS_BYTES = 16, ACCESS_REGISTERS = 3, ACCESS_OPS = 25 };      /* of a thread, counted in SASS */
/* Accesses that no copy serves: instructions of one, with its bounds; cycles of a warp's load and store (measured at
 * 4096 x 4096 x 4095 and 2053 x 4099 x 1031). */
enum { ALONE_BYTES = 4, ALONE_OPS = 6 };
static const double ALONE_CYCLES = 5.5, UNEVEN = 1.1;
enum { GATHER_REGISTERS = 10, GATHER_CYCLES = 800 };      /* of a trip: its copies are slow to come (conv2d) */

typedef struct Use {
	double products, shared, l2, arithmetic;        /* cycles */
	double asked;                                   /* what l2 were if all rows began with a line */
	double special;                                 /* of arithmetic, by the unit of exponentials */
} Use;

typedef struct Estimate {
	const Func *f;
	const Bound *b;
	const Target *t;
	int warps, stages;
	int split;                                      /* blocks that share a program's loop of sums */
	int stream;                                     /* that share one of the last programs of persistent blocks; 0 */
	int ranks, along;                               /* blocks of a cluster that share copies; programs' axis */
	bool parted, chained;                           /* chained: and two products, one of which feeds the other */
	Use block;
	double serial;                                  /* cycles of a block that is alone */
	double registers, slot, drain;                  /* of a thread; bytes of a stage, and of what is written */
	double once;                                    /* bytes of tiles that a program reads before its loop */
	double beside;                                  /* of a stage, what threads read: one slot will do */
	double held;                                    /* registers for functions of many steps in the loop */
	double chain;                                   /* cycles of the trips of two chained products */
	double filled, filled_registers, filled_trips;  /* tiles that threads put: bytes, registers a trip ahead, trips */
	double sums;                                    /* bytes of the loop's results */
	bool decodes, adds_apart;                       /* an operand; sums of one more instruction, which hold none */
	int dots, warpgroup_dots;
} Estimate;

/* The blocks that share a program's loop have each a part of it. */
static double
trips_of_block(const Estimate *e, const Op *loop)
{
	double trips = estimate_trips(e->f, e->b, loop);
	return e->split > 1 && loop->home == e->f->body ? ceil(trips / e->split) : trips;
}

/* ---- ops ---- */

static double
bytes_of(const Type *t)
{
	return (double)type_count(t) * dtype_info[t->elem].bits / 8;
}

/* As pass pad makes it. */
static double
padded_count(const Type *t)
{
	double n = 1;
	for (int d = 0; d < t->rank; d++)
		n *= (double)(INT64_C(1) << log2_ceil(t->extent[d]));
	return n;
}

/* The instruction's rate is for 16 bits; other widths scale it. */
static void
add_dot(Estimate *e, Op *op, Use *u)
{
	const Type *c = op->out[0].type, *a = op->in[0]->type, *b = op->in[1]->type;
	double rows = (double)c->extent[c->rank - 2], columns = (double)c->extent[c->rank - 1];
	double count = (double)type_count(c) * (double)a->extent[a->rank - 1], bits = dtype_info[a->elem].bits;
	int threads = e->warps * e->t->lanes;
	DotWgmma w;
	e->dots++;
	if (dot_wgmma_reason(op, e->t, log2_ceil(e->warps), false, &w) == NULL) {
		e->warpgroup_dots++;
		u->products += count / (RATE_WARPGROUP * 16 / bits);
		u->shared += (w.register_a ? 0 : bytes_of(a) * columns / (double)w.info->n) / SHARED_RATE;
		u->shared += bytes_of(b) * rows / 64 / SHARED_RATE;
		e->registers += (padded_count(c) + (w.register_a ? bytes_of(a) / 4 : 0)) / threads;
		e->decodes |= w.decodes;
		e->filled += w.decodes ? bytes_of(b) : 0;
		e->registers += w.decodes ? padded_count(b) / threads : 0;      /* wider on the way */
		u->shared += w.decodes ? 2 * bytes_of(b) / SHARED_RATE : 0;
		if (wgmma_adds_apart(op)) {             /* while one warpgroup adds, the other multiplies */
			u->arithmetic += (double)type_count(c) / LANES;
			e->registers += (double)w.info->n / 2;
			e->adds_apart = true;
		}
		return;
	}
	double along_m = MAX(1, sqrt(e->warps * rows / columns)), along_n = MAX(1, e->warps / along_m);
	u->products += count / (RATE_WARP * 16 / MAX(bits, 16)) * MAX(1, 4.0 / e->warps) * MAX(1, 16 / rows);
	u->shared += (bytes_of(a) * along_n + bytes_of(b) * along_m) / SHARED_RATE;
	e->registers += ((double)type_count(c) + 2 * 16 * (rows * along_n + columns * along_m) / 2) / threads;
}

static double
cost_of(const Op *op)
{
	switch (op_info[op->kind].cost) {
	case COST_SFU: return LANES / SPECIAL;
	case COST_DIVIDE: return 12;
	case COST_LONG: return 24;
	case COST_ALU: case COST_WHOLE: case COST_OPAQUE: return 1;
	case COST_FREE: case COST_ACCESS: case COST_NONE: return 0;
	}
	unreachable();
}

/* Rows that a tile of indices says: threads copy them, each with an address for every 16 bytes. */
static void
add_gather(Estimate *e, const Op *op, Use *u)
{
	double threads = e->warps * e->t->lanes, each = bytes_of(op->out[0].type) / ACCESS_BYTES / threads;
	for (const char *c = attr_index(op); *c; c++)
		e->registers += *c == 'g' ? GATHER_REGISTERS : 0;
	e->registers += ACCESS_REGISTERS * each;
	u->arithmetic += GATHER_CYCLES + threads * ACCESS_OPS * each / LANES;
}

/* Of a tile on its way out, where there is little room: two pieces of 64 columns (pass drain). */
static double
staged_bytes(const Type *t)
{
	enum { PIECES = 2, COLUMNS = 64 };
	int64_t columns = t->rank ? t->extent[t->rank - 1] : 1;
	return columns > PIECES * COLUMNS ? bytes_of(t) * PIECES * COLUMNS / (double)columns : bytes_of(t);
}

/* Elements that threads load one by one into registers, a trip ahead, and put into two buffers (pass pipeline). */
static bool
is_filled(const Estimate *e, const Op *op, int *dim)
{
	int bytes = dtype_tile_size(op->out[0].type->elem);
	return op->kind == OP_READ && op->out[0].type->rank > 0 && !dtype_is_packed(op->out[0].type->elem) &&
	    bytes << access_contiguity(op, e->t, dim) < ALONE_BYTES;
}

/* A warp's load takes as many rows as their elements are fewer than its threads. */
static void
add_filled(Estimate *e, const Op *op, int dim, Use *u)
{
	const Type *t = op->out[0].type;
	double count = (double)type_count(t), rows = (double)e->t->lanes / (double)t->extent[dim];
	e->filled += 2 * bytes_of(op->out[0].type);
	e->filled_registers += count / (e->warps * e->t->lanes);
	u->shared += ALONE_CYCLES * MAX(1, rows) * count / e->t->lanes;
	u->arithmetic += count * ALONE_OPS / LANES;
}

static void
add_op(Estimate *e, Op *op, bool in_loop, Use *u)
{
	int dim;
	if (op->kind == OP_DOT) {
		add_dot(e, op, u);
		e->sums = MAX(e->sums, bytes_of(op->out[0].type));
	} else if (op->kind == OP_READ || op->kind == OP_LOAD) {
		double bytes = bytes_of(op->out[0].type);
		int ranks = in_loop ? e->ranks : 1;
		u->l2 += bytes * estimate_lines(e->b, op, ranks, e->along) / L2_RATE;
		u->asked += bytes / estimate_sharers(op, ranks, e->along) / L2_RATE;
		u->shared += bytes / SHARED_RATE;
		if (in_loop && is_filled(e, op, &dim))
			add_filled(e, op, dim, u);
		else
			e->slot += in_loop && op->out[0].type->rank > 0 ? bytes : 0;
		e->beside += in_loop && op->out[0].type->rank == 2 && !estimate_multiplies(&op->out[0]) ? bytes : 0;
		e->once += in_loop || op->out[0].type->rank < 2 ? 0 : bytes;
		if (in_loop && op->kind == OP_READ && strchr(attr_index(op), 'g'))
			add_gather(e, op, u);
	} else if (op->kind == OP_WRITE) {
		e->drain += staged_bytes(op->in[access_data(op)]->type);
		u->l2 += 2 * bytes_of(op->in[access_data(op)]->type) / L2_RATE;
	} else if (op->nout > 0 && op->out[0].type->kind == TYPE_TILE && op->out[0].type->rank > 0) {
		double cycles = cost_of(op) * (double)type_count(op->nin ? op->in[0]->type : op->out[0].type) / LANES;
		u->arithmetic += cycles;
		u->special += op_info[op->kind].cost == COST_SFU ? cycles : 0;
		if ((op_info[op->kind].cost == COST_LONG || op->kind == OP_TANH) && in_loop)
			e->held = MAX(e->held, (double)type_count(op->out[0].type) / (e->warps * e->t->lanes));
	}
}

static void
add_times(Use *to, const Use *u, double n)
{
	to->products += n * u->products;
	to->shared += n * u->shared;
	to->l2 += n * u->l2;
	to->asked += n * u->asked;
	to->arithmetic += n * u->arithmetic;
	to->special += n * u->special;
}

/* Of two chained products, run at once (pass skew): a group of warps starts its products, which blocks it for most of
 * their time, and then computes between them, while other groups' products and exponentials go on. */
static double
chain_of(const Estimate *e, const Use *u)
{
	double groups = MAX(1, e->warps / 4), most = MAX(MAX(u->products, u->shared), u->l2);
	double own = (START_SHARE * u->products + CHAIN_SLOW * u->arithmetic) / groups + CHAIN_WAIT;
	most = MAX(most, SPECIAL_SLOW * u->special + groups * GROUP_ISSUE);
	return MAX(most, own) + RING_WAIT / MAX(e->stages, 1);
}

static double
longest(const Use *u)
{
	return MAX(MAX(u->products, u->shared), MAX(u->l2, u->arithmetic));
}

static void
walk(Estimate *e, const Block *b, bool in_loop, Use *u)
{
	for (Op *op = b->first; op; op = op->next) {
		double n = op_is_loop(op) ? trips_of_block(e, op) : op->kind == OP_IF ? 0.5 : 1;
		for (int r = 0; r < op->nregion; r++) {
			Use inside = {0};
			int dots = e->dots;
			walk(e, op->region[r], in_loop || op_is_loop(op), &inside);
			add_times(u, &inside, n);
			if (!op_is_loop(op) || e->dots == dots)
				continue;
			e->chain += n * chain_of(e, &inside);
			e->filled_trips = e->filled > 0 ? n : 0;
			bool is_late = inside.asked > 0 && e->filled == 0;
			double late = is_late ? inside.l2 / inside.asked : 1, trip = longest(&inside);
			double ahead = (LATENCY * MAX(late, 1) + inside.l2) / MAX(e->stages - 1, 1);
			double wait = e->parted ? PARTED_WAIT + (e->warps <= 4 ? LONE_WAIT : 0) : TRIP_WAIT;
			wait += e->decodes ? inside.arithmetic + DECODE_WAIT : 0;
			e->serial += n * (MAX(trip, ahead) - trip + wait);
		}
		if (op->nregion == 0)
			add_op(e, op, in_loop, u);
	}
}

/* ---- blocks ---- */

static bool
splits_in_cluster(const Estimate *e)
{
	return e->split > 1 && e->split <= SPLIT_CLUSTER && (e->t->has & HAS_CLUSTER);
}

static double
shared_bytes(const Estimate *e)
{
	double shared = e->stages * e->slot + e->filled + SYSTEM_BYTES;
	shared -= e->chained ? (e->stages - 1) * e->beside : 0;
	shared += (e->parted ? e->drain : 0) + (e->chained ? e->once : 0);
	return splits_in_cluster(e) ? MAX(shared, e->sums + SYSTEM_BYTES) : shared;
}

/* Blocks that a multiprocessor holds; 0: not even one. */
static int
resident(const Estimate *e)
{
	const Target *t = e->t;
	double shared = shared_bytes(e), threads = e->warps * t->lanes;
	double registers = e->registers + REGISTERS_OTHER;
	if (e->chained)
		return shared <= t->shared_bytes &&
		    e->registers + e->held + CHAIN_REGISTERS <= target_role_registers(t, e->warps / 4)[1];
	if (shared > t->shared_bytes || registers > (e->adds_apart || e->filled > 0 ? REGISTERS_APART : REGISTERS_MOST))
		return 0;
	double n = MIN(t->shared_bytes_unit / shared, (double)t->registers / (threads * registers));
	return e->parted ? 1 : (int)MIN(n, (double)t->max_warps / e->warps);
}

/* One block adds what the blocks that share a program's loop have. */
static double
join_cycles(const Estimate *e)
{
	if (e->split <= 1)
		return 0;
	if (splits_in_cluster(e))
		return MEET_CLUSTER + (e->split - 1) * (PART_CLUSTER + e->sums / RATE_CLUSTER);
	return MEET_MEMORY + (e->split - 1) * (PART_MEMORY + e->sums / RATE_PARTS);
}

/* Programs of a multiprocessor whose blocks, `together` of them, share the last ones; whole where all have as many. */
static double
stream_programs(const Estimate *e, double programs, int together)
{
	double blocks = (double)e->t->rates->multiprocessors * together, rounds = floor(programs / blocks);
	if (rounds * blocks == programs)
		return rounds;
	rounds = MAX(rounds - 1, 0);
	double shared = programs - rounds * blocks;
	return rounds + shared / MIN(blocks, shared * e->stream);
}

/* The part of another program, whose sums are left, and what others have left of the last: shared by two, or by as many as
 * there are for programs that are too few. */
static double
stream_cycles(const Estimate *e, double programs, int together)
{
	double blocks = (double)e->t->rates->multiprocessors * together;
	double parts = MAX(1, MIN(e->stream, floor(blocks / programs)) - 1);
	double moved = (1 + parts) * (PART_MEMORY + e->sums / RATE_PARTS);
	return fmod(programs, blocks) == 0 ? 0 : EPILOGUE + STREAM_WAIT + moved;
}

/* Tiles that threads put are held a trip ahead, or read in the trip where registers are too few. */
static void
hold(Estimate *e)
{
	e->registers += e->filled_registers;
	if (e->registers + REGISTERS_OTHER > REGISTERS_MOST)
		e->serial += e->filled_trips * LATENCY;
}

/* Cycles until n blocks that run together are over. */
static double
set_cycles(const Estimate *e, int n)
{
	double alone = FILL + EPILOGUE + longest(&e->block) + e->serial + join_cycles(e);
	return n ? MAX(alone, n * longest(&e->block) + FILL) : 0;
}

/* Of n programs of one multiprocessor, `together` of them at once; those that fill buffers themselves are uneven, and take
 * one another's place as they end. */
static double
programs_cycles(const Estimate *e, double programs, int n, int together)
{
	if (e->chained)
		return PARTED_START + FILL + n * (e->chain + CHAIN_PROGRAM);
	if (e->filled > 0 && together > 1)
		return MAX(UNEVEN * programs / e->t->rates->multiprocessors / together, 1) * set_cycles(e, together);
	if (e->stream) {
		double each = stream_programs(e, programs, together), start = e->parted ? PARTED_START : 0;
		double one = together * longest(&e->block) + e->serial + EPILOGUE;
		return start + FILL + each * one + stream_cycles(e, programs, together);
	}
	if (!e->parted)
		return n / together * set_cycles(e, together) + set_cycles(e, n % together);
	return PARTED_START + FILL + n * (longest(&e->block) + e->serial + EPILOGUE);
}

static double
memory_cycles(const Estimate *e)
{
	return estimate_bytes(e->b) / MEMORY_RATE;
}

static void
fill_bill(const Estimate *e, double programs, double cycles, Bill *out)
{
	*out = (Bill){.programs = programs, .cycles = cycles};
	out->part[BILL_PRODUCTS] = e->block.products;
	out->part[BILL_SHARED] = e->block.shared;
	out->part[BILL_SECTORS] = e->block.l2;
	out->part[BILL_ISSUE] = e->block.arithmetic;
	out->part[BILL_MEMORY] = memory_cycles(e) / programs;
	out->part[BILL_WAITING] = e->serial + EPILOGUE + (e->parted ? 0 : FILL);
}

static bool
has_chain(const Estimate *e)
{
	for (const Op *op = e->f->body->first; op; op = op_after(op, e->f->body)) {
		const Op *next = op->kind == OP_DOT ? dot_next(e->f, &op->out[0]) : NULL;
		if (next && next->home == op->home)
			return e->dots == 2 && e->warpgroup_dots == 2;
	}
	return false;
}

/* Parted kernels are modelled with one product in the loop, or two that are chained and run at once. */
static bool
is_modelled(Estimate *e, bool chain)
{
	Schedule open = e->b->schedule;
	open.specialize = -1;
	e->chained = e->parted && chain && target_role_registers(e->t, e->warps / 4) && choose_roles(e->f, &open, e->t);
	if (e->split > 1 && e->warpgroup_dots < e->dots)
		return false;                           /* products of few rows wait for memory: not measured */
	return e->dots > 0 && (!e->parted || e->chained || (e->dots == 1 && e->warpgroup_dots == 1));
}

double
estimate_cycles(Func *f, const Bound *b, const Target *t, Bill *bill)
{
	Estimate e = {.f = f, .b = b, .t = t, .warps = b->schedule.warps, .stages = b->schedule.stages,
	    .split = MAX(b->schedule.split, 1), .parted = b->schedule.specialize == 1, .ranks = b->schedule.ctas};
	if (e.split > 1 && (e.parted || b->schedule.persistent == 1)) {
		e.stream = e.split;
		e.split = 1;
	}
	double programs = e.split;
	for (int i = 0; i < b->naxis; i++)
		programs *= (double)MAX(b->grid[i], 1);
	bool is_wide = e.split > 2 && splits_in_cluster(&e);
	int each = (int)ceil(programs / floor(t->rates->multiprocessors * (is_wide ? PLACED : 1)));
	if (e.warps <= 0)
		e.warps = 4;
	if (e.stages <= 0)
		e.stages = STAGES_MOST;
	if (e.ranks > 1)
		e.along = estimate_along(f, b->naxis);
	walk(&e, f->body, false, &e.block);
	bool chain = has_chain(&e);
	if (!is_modelled(&e, chain))
		return -1;
	if (b->schedule.stages <= 0)
		while (e.stages > 2 && shared_bytes(&e) > t->shared_bytes)
			e.stages--;
	hold(&e);
	int together = resident(&e);
	bool is_few = each < 2 && !e.stream && (e.ranks <= 1 || programs < PAIRS_LEAST * t->rates->multiprocessors);
	if (together == 0 || (e.parted && !e.chained && (e.filled > 0 || is_few)))
		return -1;
	double cycles = programs_cycles(&e, programs, each, together) * (chain && !e.parted ? FLAT_CHAIN : 1);
	cycles = MAX(cycles, memory_cycles(&e)) + 1e-4 * e.block.l2 * programs;
	if (bill)
		fill_bill(&e, each, cycles, bill);
	return cycles;
}
