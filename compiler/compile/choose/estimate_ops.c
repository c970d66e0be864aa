/* What ops of a kernel with products use, before layouts: products, shared memory (128 bytes a cycle), the L2 cache,
 * arithmetic, registers, and slots of shared memory. */
#include "compile/choose/choose.h"
#include "compile/compile.h"
#include "compile/choose/estimate_ops.h"
#include "pass/async/pipeline.h"
#include "pass/layout/axis.h"
#include "pass/layout/dot.h"
#include "pass/share/slice_k.h"

#include <math.h>
#include <string.h>

/* Cycles of an element that threads decode, beside its arithmetic: 4-bit and 8-bit weights on an H200, by 870 launches of
 * 16 to 2048 rows in tiles of 16 x 64 to 256 x 128. */
static const double DECODED = 0.075, DECODED_ROWS = 0.018, DECODED_APART = 1.5, PRODUCT_WAIT = 130;
static const double SHARED_RATE = 128, LANES = 128;
enum { WARPGROUP = 2, WARPGROUP_ROWS = 64 };            /* log2 of its warps */
enum { ACCESS_BYTES = 16, ACCESS_REGISTERS = 3, ACCESS_OPS = 25 };      /* of a thread, counted in SASS */
/* Accesses that no copy serves: instructions of one, with its bounds; cycles of a warp's load and store (measured at
 * 4096 x 4096 x 4095 and 2053 x 4099 x 1031). */
enum { ALONE_BYTES = 4, ALONE_OPS = 6 };
/* Of an element that is read by itself, for each index: it and the address in 64 bits, bounds, the load.  An H200 takes
 * 215 us for attention with a table of relative positions, 2 x 16 x 2048^2 by heads of 64; 133 without them, 153 so. */
enum { ELEMENT_OPS = 12 };
static const double ALONE_CYCLES = 5.5;
enum { GATHER_REGISTERS = 10, GATHER_CYCLES = 800 };      /* of a trip, once: its copies are slow to come (conv2d) */
/* By a producer's threads: 8192 rows in 8 groups times 4096 x 14336 take 1380 us, 1300 where a tensor map brings them;
 * 4096 cubed 190, 181 (gather_wait).  They hand a slot on as they fill the one after next, so that rings of three have none
 * to spare: gate and up projection of 64 experts, 16384 x 2816 x 2048, 342 us, 297 with four slots. */
enum { GATHER_PARTED = 70, GATHER_SHORT = 240, GATHER_SLOTS = 4 };

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

enum { BOX = 128 };                                     /* bytes of a box's row */

/* Of a slot that holds such a tile: boxes of 128 bytes side by side, the last as far as it is filled (pass pipeline). */
static double
slot_bytes(const Estimate *e, const Type *t)
{
	enum { PERIOD = 8 };
	double all = padded_count(t) * dtype_info[t->elem].bits / 8;
	if (t->rank != 2 || !e->is_lone || e->is_fma || t->extent[0] % PERIOD)
		return all;
	double rows = (double)t->extent[0], padded = (double)(INT64_C(1) << log2_ceil(t->extent[0]));
	double row = (double)t->extent[1] * dtype_info[t->elem].bits / 8, boxes = ceil(row / BOX);
	return boxes > 1 ? ((boxes - 1) * padded + rows) * BOX : all / padded * rows;
}

bool
estimate_decodes_ahead(const Estimate *e)
{
	return e->stages > 2 && !e->parted;
}

bool
estimate_is_accumulated(const Op *dot)
{
	const Value *v = &dot->out[0];
	if (!value_is_zero(dot->in[2]))
		return true;
	for (const Op *op = dot->next; op; op = op->next)
		for (int i = 0; i < op->nin; i++)
			if (op->in[i] == v)
				return op->kind == OP_ADD && v->nuses == 1;
	return true;
}

/* A product of one iteration that is scaled before it joins what the loop carries: both are held. */
static bool
is_added_later(const Estimate *e, const Op *dot)
{
	const Op *loop = dot->home->parent;
	return loop && op_is_loop(loop) && !estimate_is_accumulated(dot) && !estimate_joins_sum(dot) &&
	    !dot_next(e->f, &dot->out[0]);
}

/* Decoded weights stay in registers as the left operand (dot_turn_decoded): decoding, products, the sums of groups and the
 * wait for each product add up, whatever else the multiprocessor has.  H200, int4 8192 x 8192 by 128 rows, us, so and
 * measured: 34.3 and 32.3 (groups of 128, 128 x 64 by two blocks), 34.3 and 35.5 (128 x 128), 49.9 and 45.2 (64 x 64), 41.6
 * and 40.1 (groups of 64, 128 x 64); by 64 rows 25.0 and 26.0, 32.2 and 31.5.  A warpgroup that has more than 64 rows of
 * weights decodes each 64 for themselves: 64 rows took 39.0 and 48.3 us by 128 of them. */
static void
add_decoded_rows(Estimate *e, const Op *op, double count, Use *u)
{
	const Type *c = op->out[0].type;
	double threads = e->warps * e->t->lanes;
	e->warpgroup_dots++;
	estimate_hold_turned(e, op);
	double decoding = padded_count(op->in[1]->type) * DECODED_ROWS;
	double rows = (double)c->extent[1] / (e->warps >> WARPGROUP);
	double sums = estimate_is_accumulated(op) ? 0 : (double)type_count(c) / LANES;
	double work = count / e->t->rates->products_warpgroup + decoding + sums + PRODUCT_WAIT;
	u->products += work * (rows > WARPGROUP_ROWS ? DECODED_APART : 1);
	u->shared += bytes_of(op->in[0]->type) * (double)c->extent[1] / 64 / SHARED_RATE;
	u->arithmetic += decoding;
	e->decodes_rows = true;
	e->registers += (double)type_count(c) / threads * (estimate_is_accumulated(op) ? 1 : 2);
	e->registers += bytes_of(op->in[1]->type) / 4 / threads;
}

/* Three products of what each f32 operand is split into (dot_split_tf32): both parts of its elements along K are held, and
 * beside the accumulator what is added to it. */
static void
add_split(Estimate *e, double elements, double sums, double products, Use *u)
{
	enum { SPLIT = 4 };                             /* operations an element: rounded, the rest, rounded */
	u->products += 2 * products;
	u->arithmetic += (elements * SPLIT + sums) / LANES;
	e->registers += (2 * elements + sums) / (e->warps * e->t->lanes);
}

/* Of an operand that threads turn between a slot, which is as large as padded, and its product (layout_turns). */
static void
add_turned(Estimate *e, Value *v, bool across, Use *u)
{
	enum { WORD = 4 };
	bool flipped;
	const Type *t = dot_operand_root(v, &flipped)->type;
	double bytes = across ? 0 : bytes_of(v->type);
	e->is_turned = true;
	e->slot += e->slot > 0 ? padded_count(t) * dtype_info[t->elem].bits / 8 - slot_bytes(e, t) : 0;
	e->turned += (estimate_decodes_ahead(e) ? 2 : 1) * bytes;
	u->shared += 2 * bytes / SHARED_RATE;
	u->arithmetic += 2 * bytes / WORD / LANES;
}

/* Of sums c that instructions of n columns add in steps: in roles, while one warpgroup adds, the other multiplies. */
static void
add_apart(Estimate *e, const Type *c, double n, Use *u)
{
	bool in_turn = !e->parted || e->warps == 1 << WARPGROUP;
	u->arithmetic += (double)type_count(c) / LANES;
	u->products += in_turn ? (double)type_count(c) / LANES : 0;
	e->registers += MAX(n / 2 - e->apart, 0);       /* one product after the other */
	e->apart = MAX(e->apart, n / 2), e->adds_apart = true;
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
	if (e->transposes) {
		bool flipped, turns = bits != 16 && dot_operand_root(op->in[1], &flipped)->def && !flipped;
		e->warpgroup_dots++;
		e->registers += (double)type_count(c) / threads;
		e->instruction = MAX(e->instruction, wgmma_registers((int)rows, turns));
		u->products += count / (e->t->rates->products_warpgroup * 16 / bits);
		double taken = turns ? estimate_take_turned(e, op, u) : bytes_of(b) / SHARED_RATE;
		u->shared += taken + bytes_of(a) * columns / 64 / SHARED_RATE;
		if (turns)
			add_turned(e, op->in[1], true, u);
		if (wgmma_adds_apart(op))
			add_apart(e, c, rows, u);
		estimate_hold_turned(e, op);
		return;
	}
	if (dot_wgmma_reason(op, e->t, log2_ceil(e->warps), false, &w) == NULL) {
		if (w.decodes && !dot_is_chained(e->f, op) && dot_decodes_rows(op, e->t, log2_ceil(e->warps))) {
			add_decoded_rows(e, op, count, u);
			return;
		}
		if (w.info->n % (int64_t)columns) {             /* of a tile that is padded, groups along N have all */
			count *= padded_count(c) / (double)type_count(c);
			columns = (double)c->extent[c->rank - 1] * padded_count(c) / (double)type_count(c);
		}
		e->decodes_less |= w.decodes && e->warps > 1 << WARPGROUP && !dot_is_chained(e->f, op) &&
		    dot_decodes_rows(op, e->t, WARPGROUP);
		e->warpgroup_dots++;
		e->instruction = MAX(e->instruction, wgmma_registers(w.info->n, w.register_a));
		bool is_behind = op->home == e->f->body && e->trips > 0;        /* what loops have left */
		e->loops += !is_behind && e->home != op->home, e->home = is_behind ? e->home : op->home;
		e->rows = MAX(e->rows, rows);
		u->products += count / (e->t->rates->products_warpgroup * 16 / bits);
		/* turned, of what was the right operand threads take fragments */
		bool across = w.turns[1] && estimate_is_accumulated(op) && !dot_is_chained(e->f, op) &&
		    dot_decodes_rows(op, e->t, log2_ceil(e->warps));
		double left = w.register_a ? 0 : bytes_of(a) * columns / (double)w.info->n, right = bytes_of(b) * rows / 64;
		if (across) {
			left = bytes_of(a) * columns / WARPGROUP_ROWS;
			right = estimate_take_turned(e, op, u) * SHARED_RATE;
			e->registers += bytes_of(b) / 4 / threads;
		}
		u->shared += (left + right) / SHARED_RATE;
		bool is_put = estimate_is_accumulated(op) && !dots_are_chained(e->f, op->home) &&
		    !dot_unpacks(op, dot_mma(op, e->t)), unpacks = w.decodes && !is_put;
		/* others have all columns that were added (pass pad); what threads compute is negated for the same sums */
		bool goes_on = (w.register_a || is_put) && op->in[2]->def && op->in[2]->def->kind == OP_DOT;
		bool is_own = !goes_on && !estimate_continues_sum(op);
		double sums = (e->is_lone ? (double)type_count(c) : padded_count(c)) / threads;
		e->own_sums += is_own, e->registers += is_own ? sums : 0;
		if (w.register_a && !is_behind && !dot_is_chained(e->f, op))
			estimate_hold_sources(e, op, 1 << w.along[1], u);
		double copies = 1 << w.along[1];        /* groups along N have the same rows */
		e->uses |= op->home->parent && !estimate_is_accumulated(op);
		double made = (w.register_a && !is_behind ? copies * bytes_of(a) / 4 : 0) / threads;
		e->registers += made + (is_added_later(e, op) ? padded_count(c) / threads : 0), e->left += made;
		e->decodes |= unpacks;
		e->filled += unpacks ? (estimate_decodes_ahead(e) ? 2 : 1) * bytes_of(b) : 0;
		if (w.decodes)
			estimate_hold_decoded(e, op, w.register_a);
		if (is_put)
			estimate_put(e, op, &w, u);
		for (int i = 0; i < 2; i++)
			if (w.turns[i])
				add_turned(e, op->in[i], across, u);
		u->shared += unpacks ? 2 * bytes_of(b) / SHARED_RATE : 0;
		u->arithmetic += unpacks ? padded_count(b) * DECODED : 0;
		if (wgmma_adds_apart(op))
			add_apart(e, c, (double)w.info->n, u);
		return;
	}
	if (estimate_is_fma(op, e->t)) {
		estimate_fma(e, op, u);
		return;
	}
	double along_m = MAX(1, sqrt(e->warps * rows / columns)), along_n = MAX(1, e->warps / along_m);
	double held = rows <= 8 && columns >= 16 ? 8 : 16;      /* of the instruction's sides (dot_turn_flat) */
	double products = count / target_products_warp(e->t->rates, bits) * MAX(1, 4.0 / e->warps) * MAX(1, held / rows);
	u->products += products;
	if (strcmp(attr_precision(op), "tf32x3") == 0)
		add_split(e, (double)type_count(a) * along_n + (double)type_count(b) * along_m,
		    estimate_is_accumulated(op) ? (double)type_count(c) : 0, products, u);
	u->shared += (bytes_of(a) * along_n + bytes_of(b) * along_m) / SHARED_RATE;
	u->arithmetic += dot_decodes(op) ? padded_count(b) * along_m * DECODED : 0;     /* each warp for its rows */
	double words = bits > 32 ? 2 : 1;               /* of an element of the accumulator, and by 16 bytes of K */
	e->registers += words * ((double)type_count(c) + 2 * 16 * (rows * along_n + columns * along_m) / 2) / threads;
}

/* Of an exponential, whose instructions run beside; what has more than one of these adds its own. */
static double
special_cost(const Estimate *e, const Op *op)
{
	enum { EXPONENTIAL = 8 };
	double special, issue = cost_work(op, &special);
	return LANES / e->t->rates->special_rate + (issue > EXPONENTIAL ? issue : 0);
}

/* Of an element: keys of 64 bits, of a value and its index, are made and compared (model/cost.c). */
static double
reduction_cost(const Op *op)
{
	enum { KEY = 10 };
	bool is_key = op->kind == OP_REDUCE && (strcmp(attr_fn(op), "argmax") == 0 || strcmp(attr_fn(op), "argmin") == 0);
	return is_key ? KEY : cost_joining(op);
}

/* Cycles of a lane for an element of the op. */
static double
cost_of(const Estimate *e, const Op *op)
{
	if (op->kind == OP_REDUCE || op->kind == OP_REDUCE_FN)
		return reduction_cost(op);
	switch (op_info[op->kind].cost) {
	case COST_SFU: return special_cost(e, op);
	case COST_DIVIDE: return 12;
	case COST_LONG: return 24;
	case COST_ALU: case COST_WHOLE: case COST_OPAQUE: return 1;
	case COST_FREE: case COST_ACCESS: case COST_NONE: return 0;
	}
	unreachable();
}

/* Dimensions of which a tile of indices says where. */
static int
count_said(const Op *access)
{
	return COUNT_OF(d, access->in[0]->type->rank, attr_index(access)[d] == 'g');
}

/* Rows that a tile of indices says: threads copy them, each with an address for every 16 bytes. */
static void
add_gather(Estimate *e, const Op *op, Use *u)
{
	double threads = e->warps * e->t->lanes, each = bytes_of(op->out[0].type) / ACCESS_BYTES / threads;
	int n = count_said(op);
	if (e->parted) {
		e->gather_wait = GATHER_PARTED + (e->stages < GATHER_SLOTS ? GATHER_SHORT : 0);
		return;
	}
	e->registers += n * GATHER_REGISTERS;
	e->registers += ACCESS_REGISTERS * each;
	u->arithmetic += (u->gathers ? 0 : GATHER_CYCLES) + threads * ACCESS_OPS * each / LANES;
	u->gathers = true;
}

enum { COMMON_BYTES = 1000000 };

/* Is it so small that all multiprocessors read the same lines at nearly the same time? */
static bool
is_common(const Estimate *e, const Op *read)
{
	const Value *tensor = read->in[0];
	bool is_known = read->kind == OP_READ && !tensor->def && tensor->index < e->b->kernel->params.n;
	double bytes = is_known ? dtype_info[tensor->type->elem].bits / 8.0 : COMMON_BYTES;
	for (int d = 0; is_known && d < e->b->param[tensor->index].rank; d++)
		bytes *= (double)e->b->param[tensor->index].dim[d];
	return bytes < COMMON_BYTES;
}

/* Elements that lie where data or arithmetic says, each by itself, as of bias[clamp(j - i, -R, R) + R]. */
static double
alone_elements(const Op *op)
{
	const char *said = op->kind == OP_READ ? strrchr(attr_index(op), 'g') : NULL;
	return said && !strchr(said, 'p') ? (double)type_count(op->out[0].type) : 0;
}

/* Of a tile on its way out, where there is little room: two pieces of 128 bytes of its rows, or of rows (pass drain);
 * threads write rows that are no whole pieces of 64 bytes. */
static double
staged_bytes(const Estimate *e, const Type *t)
{
	enum { PIECES = 2, PIECE_BYTES = 16384, LEAST = 64 };
	if (e->transposes)
		return MIN(bytes_of(t), PIECES * PIECE_BYTES);
	double row = (t->rank ? (double)t->extent[t->rank - 1] : 1) * dtype_info[t->elem].bits / 8;
	return fmod(row, LEAST) > 0 ? 0 : bytes_of(t) * MIN(PIECES * BOX / row, 1);
}

/* Is a tile, or what it is converted to, what a loop begins with?  Threads have it in registers. */
static bool
begins_loop(const Estimate *e, const Value *v)
{
	for (const Op *op = e->f->body->first; op; op = op_after(op, e->f->body))
		for (int i = 3; i < op->nin && op->kind == OP_FOR; i++) {
			const Op *cast = op->in[i]->def && op->in[i]->def->kind == OP_CAST ? op->in[i]->def : NULL;
			if (op->in[i] == v || (cast && cast->in[0] == v))
				return true;
		}
	return false;
}

/* Elements that threads load one by one into registers, a trip ahead, and put into two buffers (pass pipeline). */
static bool
is_filled(const Estimate *e, const Op *op, int *dim)
{
	int bytes = dtype_tile_size(op->out[0].type->elem);
	return op->kind == OP_READ && op->out[0].type->rank > 0 && !dtype_is_packed(op->out[0].type->elem) &&
	    !bundle_copies(op, e->t, e->warps) && bytes << access_contiguity(op, e->t, dim) < ALONE_BYTES;
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

/* Fitted with estimate_product.c: cycles of a line and of a row outside, and bytes of rows that begin within lines, which
 * count where they are asked for.  Lines that others of its cluster ask for a block takes in all the same. */
static void
add_boxes(Estimate *e, Op *op, Cluster c, bool in_loop, Use *u)
{
	static const double LINE_CYCLES = 1.58, OUTSIDE_CYCLES = 1.2, ASTRIDE_BYTES = 1.79, SECTOR_BYTES = 0.9;
	static const double BROUGHT_LINES = 0.85;
	const Type *t = op->out[0].type;
	double line = 128, row = t->rank ? (double)t->extent[t->rank - 1] * dtype_info[t->elem].bits / 8 : 0;
	if (t->rank < 2)
		return;
	double each = e->edges > 0 ? ceil(row / line) : estimate_row_lines(op, row), lines = bytes_of(t) / row * each;
	double asked = 1.0 / estimate_sharers(op, c), astride = estimate_astride(e->b, op);
	double more = (ASTRIDE_BYTES - 1) * (astride - 1) + (estimate_splits_sectors(e->b, op) ? SECTOR_BYTES : 0);
	e->mapped &= !in_loop || !map_reason(op, e->t);
	bool is_padded = !is_power_of_two(t->extent[t->rank - 1]);      /* each row of a box ends outside */
	u->lines += LINE_CYCLES * lines * (asked * astride + BROUGHT_LINES * (1 - asked));
	u->lines += is_padded ? OUTSIDE_CYCLES * bytes_of(t) / row : 0;
	u->moved += line * lines * asked * (1 + more);
	if (in_loop)
		u->outside += OUTSIDE_CYCLES * ceil(row / line) *
		    estimate_outside((Func *)e->f, e->b, op, c, &e->edges);
}

/* A conversion to what is written, which each product has: the time of those without more has it. */
static bool
is_stored(const Op *op)
{
	const Op *use = op->kind == OP_CAST ? op->next : NULL;
	while (use && !ANY_OF(i, use->nin, use->in[i] == &op->out[0] && use->kind != OP_WRITE))
		use = use->next;
	return op->kind == OP_CAST && !use;
}

/* Do products stand in loops within the block alone?  Threads read what it reads itself (pass pipeline): a teacher's scores
 * beside products of 128 x 256 are not in their slots. */
static bool
is_around(const Block *b)
{
	return ANY_OP_HERE(op, b, op_is_loop(op) && block_find(op->region[0], OP_DOT)) &&
	    !ANY_OP_HERE(op, b, op->kind == OP_DOT);
}

void
estimate_op(Estimate *e, Op *op, bool in_loop, Use *u)
{
	enum { NARROW = 64 };
	int dim;
	const Type *t = op->nout ? op->out[0].type : NULL;
	if (op->kind == OP_DOT) {
		add_dot(e, op, u);
		e->sums = e->joins ? e->sums : MAX(e->sums, bytes_of(op->out[0].type));
		e->elements = MAX(e->elements, (double)type_count(op->out[0].type));
		e->is_narrow = MIN(t->extent[t->rank - 2], t->extent[t->rank - 1]) <= NARROW;
	} else if (op->kind == OP_READ || op->kind == OP_LOAD) {
		double bytes = bytes_of(op->out[0].type);
		const Cluster c = in_loop ? e->cluster : (Cluster){1, 0, 1};
		u->l2 += (bytes * estimate_lines(e->b, op, c) + estimate_beside_pieces(e->b, e->t, op)) /
		    e->t->rates->l2_rate;
		u->asked += bytes / estimate_sharers(op, c) / e->t->rates->l2_rate;
		u->shared += bytes / SHARED_RATE;
		u->read += bytes / SHARED_RATE;
		u->common += in_loop && is_common(e, op) ? bytes : 0;
		add_boxes(e, op, c, in_loop, u);
		double alone = alone_elements(op);
		double looks = alone > 0 ? alone * count_said(op) * ELEMENT_OPS / LANES : 0;
		u->arithmetic += looks;
		if (in_loop && alone > 0)
			e->look_wait = MAX(e->look_wait, MEMORY_LATENCY - looks);
		if (in_loop && is_filled(e, op, &dim))
			add_filled(e, op, dim, u), u->l2 += estimate_across(e, op);
		else if (in_loop && op->out[0].type->rank > 0 && !is_around(op->home))
			e->slot += slot_bytes(e, op->out[0].type);
		if (in_loop && op->out[0].type->rank == 2 && !estimate_multiplies(&op->out[0])) {
			e->beside += bytes;
			u->beside += (double)type_count(op->out[0].type);
		}
		bool is_row = in_loop && op->kind == OP_READ && t->rank == 1;
		e->meets |= is_row && (map_reason(op, e->t) || !pipeline_has_row_slots(t));
		bool is_own = in_loop && op->kind == OP_READ && t->rank == 2 && !access_fill_is_zero(op);
		e->trip_wait += is_own ? MEMORY_LATENCY : 0;    /* copies bring zeros from outside alone */
		bool behind = e->written_out || (!e->parted && e->trips > 0);   /* its room is no part of a ring */
		if (!in_loop && behind && estimate_multiplies(&op->out[0]))
			e->behind += bytes;
		e->once += in_loop || op->out[0].type->rank < 2 || begins_loop(e, &op->out[0]) ? 0 : bytes;
		estimate_reads_behind(e, op, in_loop);
		bool copies = alone == 0 || estimate_multiplies(&op->out[0]);
		if (in_loop && op->kind == OP_READ && strchr(attr_index(op), 'g') && copies && map_reason(op, e->t))
			add_gather(e, op, u);
	} else if (op->kind == OP_WRITE) {
		e->drain += staged_bytes(e, op->in[access_data(op)]->type);
		u->l2 += 2 * bytes_of(op->in[access_data(op)]->type) / e->t->rates->l2_rate;
		u->written += in_loop ? 0 : bytes_of(op->in[access_data(op)]->type) + estimate_across(e, op);
		estimate_stores(e, op, in_loop, u);
	} else if (op->nout > 0 && value_is_tile(&op->out[0])) {
		double count = (double)type_count(op->nin ? op->in[0]->type : op->out[0].type), slow;
		double each = cost_of(e, op) + estimate_order(e, op), cycles = each * count / LANES;
		bool is_after = !in_loop && e->dots > 0 && !is_stored(op), is_special = op_info[op->kind].cost == COST_SFU;
		u->arithmetic += cycles;
		u->after += is_after ? cycles : 0;
		u->issued += is_after ? estimate_epilogue_issue(op, each) * count / LANES : 0;
		u->shared += op->kind == OP_GATHER ? bytes_of(t) / SHARED_RATE : 0;
		u->special += is_special ? cycles : 0;
		cost_work(op, &slow);
		u->slow += is_special ? slow * (double)type_count(t) / e->t->rates->special_rate : 0;
		if (in_loop && (op_info[op->kind].cost == COST_LONG || estimate_is_masked_weight(op)))
			e->held = MAX(e->held, (double)type_count(op->out[0].type) / (e->warps * e->t->lanes));
	}
}
