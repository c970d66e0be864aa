/* Operands of products that no copy brings as they are multiplied: what they use of their block, before layouts.
 *
 * Those of warpgroups that threads compute and put into shared memory, and what their registers hold meanwhile.  And
 * products by multiplications, which no matrix instruction takes (pass dot), as f32 that is exact.
 *
 * A thread has 2^n elements of the result, rows times columns of them, and reads both from shared memory for four k at a
 * time.  Operands that the loop reads are in its slots, others in scratch. */
#include "compile/choose/choose.h"
#include "compile/choose/estimate_ops.h"
#include "ir/derive.h"
#include "pass/layout/axis.h"
#include "pass/layout/dot.h"

#include <math.h>

/* Multiplications a cycle and multiprocessor: of f32, of others.  CUDA C++ Programming Guide, Arithmetic Instructions. */
static const double RATE = 128, RATE_OTHERS = 64;
/* Beside loads, which take their share: f32 of 4096^3 takes 3084 us on an H200 in tiles of 64 x 128 by four warps, 3188 in
 * 64 x 64; 2397 by the rate alone. */
static const double ISSUED = 1.17, LOADS_SHARE = 0.18;
static const double LOAD_CYCLES = 2;                            /* of a warp's load of 16 bytes, which lanes share */
static const double STEP_WAIT = 8;                              /* of a scheduler's lone warp, for each k */
/* What a trip takes to begin where rows of both lie along K, as of x @ w.T: 4096 cubed by 128 x 64 takes 3433 us by 16 of
 * K a trip, 3108 by 32, 3045 by 64, 1536 cubed by 64 x 64 209, and 201 by 64. */
static const double TRIP_ALONG = 30;
enum { ROW_LANES = 4, COLUMN_LANES = 8, STEP = 4, SCHEDULERS = 4 };

bool
estimate_is_fma(const Op *dot, const Target *t)
{
	return !dot_mma(dot, t);
}

static double
padded(int64_t n)
{
	return (double)(INT64_C(1) << log2_ceil(n));
}

/* Bytes of an operand that is in no slot. */
static double
scratch_bytes(const Op *dot, int i)
{
	bool flipped;
	const Type *t = dot->in[i]->type;
	const Value *root = t->rank == 2 ? dot_operand_root(dot->in[i], &flipped) : dot->in[i];
	double bytes = dtype_tile_size(t->elem);
	for (int d = 0; d < t->rank; d++)
		bytes *= padded(t->extent[d]);
	return root->def && root->def->kind == OP_READ && root->def->home == dot->home ? 0 : bytes;
}

void
estimate_fma(Estimate *e, const Op *dot, Use *u)
{
	const Type *c = dot->out[0].type, *a = dot->in[0]->type;
	double rows = padded(c->extent[c->rank - 2]), columns = padded(c->extent[c->rank - 1]), batches = 1;
	double depth = (double)a->extent[a->rank - 1], threads = e->warps * e->t->lanes;
	for (int d = 0; d < c->rank - 2; d++)
		batches *= padded(c->extent[d]);
	double warps = MAX(1, e->warps / batches);      /* of one batch */
	double along_m = MIN(warps, MAX(1, sqrt(warps * rows / columns))), along_n = warps / along_m;
	double thread_rows = MAX(1, rows / along_m / ROW_LANES), thread_columns = MAX(1, columns / along_n / COLUMN_LANES);
	double loads = (thread_rows + thread_columns) / 4 * depth * MAX(e->warps, batches);
	double rate = c->elem == TY_F32 ? RATE : RATE_OTHERS;
	e->fma_dots++;
	double loading = loads * LOAD_CYCLES * dtype_tile_size(c->elem) / 4;
	u->products += ISSUED * MAX(batches * rows * columns, threads) * depth / rate + LOADS_SHARE * loading;
	u->shared += loading;
	bool flipped = false, is_flat = dot->in[1]->type->rank == 2;
	const Value *right = is_flat ? dot_operand_root(dot->in[1], &flipped) : dot->in[1];
	bool along = flipped && right->def && right->def->kind == OP_READ;
	u->products += along ? TRIP_ALONG : 0;
	double more = along ? STEP * thread_columns : 0;     /* 128 x 64: ptxas gives 204 to 254, elsewhere 167 */
	e->registers += MAX(batches * rows * columns / threads, 1) + STEP * (thread_rows + thread_columns) + more;
	e->trip_wait += STEP_WAIT * depth * MAX(0, 2 - (double)e->warps / SCHEDULERS);
	e->scratch = MAX(e->scratch, scratch_bytes(dot, 0) + scratch_bytes(dot, 1));
}

/* ---- operands that threads compute ---- */

/* Cycles of an element that threads compute of such as wide and put, beside its arithmetic; the copies are theirs, too,
 * but in roles.  Centred columns, 256 iterations of 64 x 384 elements, take 454 to 505 us on an H200, 354 to 374 so. */
static const double PUT = 0.05, PUT_PARTED = 0.02;
static const double SHARED_RATE = 128, LANES = 128;

static double
type_padded(const Type *t)
{
	double n = 1;
	for (int d = 0; d < t->rank; d++)
		n *= padded(t->extent[d]);
	return n;
}

/* An operand that is decoded is wider on the way, one at a time: where the sums that become the left operand were, or where
 * the product's own are not yet. */
void
estimate_hold_decoded(Estimate *e, const Op *op, bool register_a)
{
	double sums = estimate_is_accumulated(op) ? 0 : type_padded(op->out[0].type);
	double free = register_a ? type_padded(op->in[0]->type) : sums;
	double wide = (type_padded(op->in[1]->type) - free) / (e->warps * e->t->lanes);
	if (wide > e->wide) {
		e->registers += wide - e->wide;
		e->wide = wide;
	}
}

/* Cycles of the instructions that an operand takes, element by element, those of slow units by their rate. */
static double
made_cost(const Estimate *e, const Op *op)
{
	double special, issue = cost_work(op, &special);
	bool rounds = op->kind == OP_FLOOR || op->kind == OP_CEIL || op->kind == OP_TRUNC || op->kind == OP_ROUND;
	rounds &= !ANY_OP_HERE(use, op->home, use->kind == OP_CAST && use->in[0] == &op->out[0]);       /* those do it */
	if (op->kind == OP_REDUCE)
		issue = cost_joining(op);
	return MAX(issue, (special + rounds) * LANES / e->t->rates->special_rate);
}

/* An operand that a loop's product takes from registers, of what is computed there. */
typedef struct Made {
	double cycles;                                  /* of its instructions */
	int sources;                                    /* reads of elements in order */
	bool moves;                                     /* other threads have its elements than those that computed them */
} Made;

static Made
find_made(const Estimate *e, const Op *dot, Value *operand)
{
	enum { MOST = 32, SHORT = 4 };                  /* instructions of an element that is read by less than a word */
	bool flipped;
	const Value *root = dot->out[0].type->rank == 2 ? dot_operand_root(operand, &flipped) : operand;
	const Value *want[MOST] = {root};
	Made m = {0};
	int n = 1;
	for (const Op *op = dot->prev; op; op = op->prev) {
		const Value *v = op->nout == 1 ? &op->out[0] : NULL, *in = op->nin ? op->in[0] : NULL;
		if (!v || !ANY_OF(i, n, want[i] == v) || type_count(v->type) < type_count(root->type))
			continue;
		bool moves = op->kind == OP_RESHAPE || op->kind == OP_REDUCE;
		bool is_read = op->kind == OP_READ;
		bool is_short = is_read && element_bytes(v->type) < element_bytes(root->type);
		m.sources += is_read;
		m.cycles += is_short ? SHORT * (double)type_count(v->type) / LANES : 0;
		if (!op_has(op, ELEM) && !moves && op->kind != OP_PERMUTE && op->kind != OP_BROADCAST)
			continue;
		m.moves |= op->kind == OP_REDUCE;
		double count = (double)type_count(op->kind == OP_REDUCE ? in->type : v->type);
		m.cycles += made_cost(e, op) * count / LANES;
		for (int i = 0; i < op->nin && n < MOST; i++)
			want[n++] = op->in[i];
	}
	return m;
}

static void
note_made(Estimate *e, const Op *dot, const Made *m, int copies)
{
	enum { STEP_DEPTH = 64 };
	const Type *a = dot->in[0]->type;
	static const double SOURCE_WAIT = 400;          /* cycles: what is read with another is turned to its layout */
	e->made += dot->in[0] != e->made_of ? copies * m->cycles : 0;   /* once for products that share it */
	e->made_of = dot->in[0];
	e->made_dots += m->cycles > 0;
	e->made_wait += m->cycles > 0 && m->sources > 1 ? (m->sources - 1) * SOURCE_WAIT : 0;
	e->made_steps = MAX(e->made_steps, (double)a->extent[a->rank - 1] / STEP_DEPTH);
	e->made_moves |= m->moves;
}

/* A left operand in registers that is computed of several tiles: all but one of them are held beside it, widened.  Groups
 * along N have the same rows, and each computes them. */
void
estimate_hold_sources(Estimate *e, const Op *dot, int copies, Use *u)
{
	Made m = find_made(e, dot, dot->in[0]);
	double count = (double)type_count(dot->in[0]->type);
	e->sources += m.sources > 1 ? (m.sources - 1) * copies * count / (e->warps * e->t->lanes) : 0;
	u->arithmetic += (copies - 1) * m.cycles;
	note_made(e, dot, &m, copies);
}

/* The right operand of a product that is transposed; what is but decoded add_decoded_rows has. */
void
estimate_hold_turned(Estimate *e, const Op *dot)
{
	Made m = find_made(e, dot, dot->in[1]);
	if (m.cycles > 0 && m.moves)
		note_made(e, dot, &m, 1);
}

/* Flat, of what makes operands, the part in which nothing multiplies. */
double
estimate_made_apart(const Estimate *e, const Use *u)
{
	static const double FLAT = 0.7, FLAT_WAIT = 60;
	return e->parted || e->made_moves || !u->makes ? 0 : FLAT * MIN(e->made, u->products) + FLAT_WAIT;
}

/* A group of warps makes its operand, multiplies and waits for the product, one after the other.  In roles groups drift
 * apart, and one makes while others multiply; flat, all of them have a barrier a trip, and instructions of both take
 * registers' ports.  Where elements move between threads all wait for each other.
 *
 * 128 x 256 x 64 of bf16 by 8 warps, 4096 cubed on an H200, us in roles and flat, by instructions of an element: 4 (200
 * and 209), 10 (221 and 248), 18 (268 and 283), 34 (332 and 424); an exponential 217 and 227, SiLU by a row's scale 324
 * and 322, two tiles by a mask 252 and 249, a mix of two rows 8192 x 8960 x 2560 862 and 806.  128 of K by two slots take
 * 254, 310 and 321 of 10 and 18 instructions and two exponentials in roles, 64 by three 240, 299 and 327. */
double
estimate_made_trip(const Estimate *e, const Use *u, double busy)
{
	/* the first for 64 of K; of rings of so few; of blocks that share copies, 0.98 to 1.04 of one's time */
	static const double ROLES_WAIT = 550, STEPS_LEAST = 0.65, MOVES_WAIT = 800;
	static const double TWO_SLOTS = 350, THREE_SLOTS = 60, CLUSTER_WAIT = 100;
	double groups = e->warps >= 8 ? 2 : 1;          /* of more none was measured */
	if (e->made_moves)
		return MAX(busy, u->products + e->made + MOVES_WAIT);
	if (!e->parted)
		return busy;
	double slots = e->stages <= 2 ? TWO_SLOTS : e->stages == 3 ? THREE_SLOTS : 0;
	double wait = ROLES_WAIT * MAX(e->made_steps, STEPS_LEAST) + e->made_wait + slots +
	    (e->cluster.ranks > 1 ? CLUSTER_WAIT : 0);
	return MAX(busy, (u->products + e->made) / groups + wait);
}

/* Weights that are masked, of what a product gave: both branches around the mask hold them beside it (pass guard).  A
 * decay by distance in 128 x 128 spills 1120 bytes, 423 us on an H200, and takes 235 in 128 x 64. */
bool
estimate_is_masked_weight(const Op *op)
{
	enum { LEAST_ELEMENTS = 4096, DEEP = 3 };
	for (int i = 0; i < 2 && op->kind == OP_MUL && type_count(op->out[0].type) >= LEAST_ELEMENTS; i++) {
		const Value *w = op->in[i], *x = op->in[1 - i];
		for (int k = 0; k < DEEP && x->def && op_has(x->def, ELEM) && x->def->nin > 0; k++)
			x = x->def->in[0];
		if (w->def && w->def->kind == OP_SELECT && w->def->home == op->home && x->def && x->def->kind == OP_DOT)
			return true;
	}
	return false;
}

static bool
is_computed(Value *v)
{
	bool flipped;
	const Op *op = dot_operand_root(v, &flipped)->def;
	return op && (op_has(op, ELEM) || op->kind == OP_SPLIT);
}

/* Of an operand that threads compute of elements as wide as its own and put into shared memory for the product. */
static void
add_put(Estimate *e, const Type *t, Use *u)
{
	double bytes = (double)tile_bytes(t);
	e->puts += bytes;
	u->shared += 2 * bytes / SHARED_RATE;
	u->arithmetic += type_padded(t) * (e->parted ? PUT_PARTED : PUT);
}

/* What threads take of a ring as the left operand: cycles of shared memory, of words twice.  A lone warpgroup takes words
 * and multiplies in turn: of f32 256 x 4096 x 14336 in 128 x 64 x 32 with 8 slots takes 142 us, 107 in 128 x 128 x 64 by
 * two that share the loop, and in 64 x 128 x 64 by two. */
double
estimate_take_turned(const Estimate *e, const Op *dot, Use *u)
{
	enum { LONE = 4 };
	static const double LONE_TURN = 160, WORDS = 2;
	const Type *t = dot->in[1]->type;
	double cycles = (double)tile_bytes(t) / SHARED_RATE;
	if (dtype_bytes(t->elem, 1) == 1)
		return cycles;
	u->products += e->warps == LONE ? cycles + LONE_TURN : 0;
	return WORDS * cycles;
}

void
estimate_put(Estimate *e, const Op *dot, const DotWgmma *w, Use *u)
{
	if (w->decodes)
		add_put(e, dot->in[1]->type, u);
	if (!w->register_a && !w->turns[0] && is_computed(dot->in[0]))
		add_put(e, dot->in[0]->type, u);
}

/* ---- accesses beside products ---- */

/* Sectors of a tile that threads access, lane by lane, as no tensor map serves its rows: the parts of rows that a warp has
 * at a time begin at multiples of what a thread accesses. */
typedef struct Sectors {
	double each, whole, parts;                      /* bytes of a thread's access; sectors by all bytes and by some */
} Sectors;

static Sectors
sectors_of(const Estimate *e, const Op *op, const Type *t)
{
	enum { SECTOR = 32, KNOWN = 16 };               /* bytes: of more, access_contiguity says no more */
	int dim;
	double size = dtype_tile_size(t->elem), each = size * (1 << access_contiguity(op, e->t, &dim));
	double row = (double)t->extent[t->rank - 1] * size, piece = MIN(row, e->t->lanes * each);
	double align = each < KNOWN ? each : SECTOR, touched = (piece + SECTOR - align) / SECTOR;
	double parts = MIN(touched, 2 * (1 - align / SECTOR)), n = (double)tile_bytes(t) / piece;
	return (Sectors){each, n * (touched - parts), n * parts};
}

/* What the L2 cache takes for a part of a sector by what it takes for a whole one; instructions of a thread's access, with
 * what its bounds and the way through shared memory take.  128 x 128 in f16 of rows of 4097 take 1,800 to 2,400 cycles
 * behind the products on an H200, by two warpgroups at once, and none by groups in turn: 42.2, 42.4 and 34.1 us of
 * 4096 x 4097 x 512, 34.0, 33.5 and 34.8 of 4104 columns. */
static const double PART = 2, OPS = 8;

/* A result that no tensor map takes. */
void
estimate_stores(Estimate *e, const Op *op, bool in_loop, Use *u)
{
	static const double TWICE = 2, SECTOR_BYTES = 32;       /* writes of the L2 cache, by reads */
	const Type *t = op->in[access_data(op)]->type;
	if (in_loop || t->rank < 2 || !map_reason(op, e->t))
		return;
	Sectors s = sectors_of(e, op, t);
	double cycles = TWICE * SECTOR_BYTES / e->t->rates->l2_rate * (s.whole + PART * s.parts);
	double issued = OPS * (double)tile_bytes(t) / s.each / LANES;
	u->stored += cycles;
	u->l2 += MAX(cycles - TWICE * (double)tile_bytes(t) / e->t->rates->l2_rate, 0);
	u->arithmetic += issued;
}

/* A tile that is read behind the products, as a residual, by threads.  It goes through shared memory, or what it is added
 * to does, so that all of it is held at once, a register for each access: 128 x 128 in f16, of rows of 4097, beside the
 * sums of four warps spills 4160 bytes and takes 241 us of 4096 x 4097 x 512, 54 by eight. */
void
estimate_reads_behind(Estimate *e, const Op *op, bool in_loop)
{
	enum { WORD = 4, QUAD = 4 };                    /* lanes that share a row of sums */
	const Type *t = op->out[0].type;
	bool reads = op->kind == OP_READ && !in_loop && e->dots > 0 && !estimate_multiplies(&op->out[0]);
	e->tiles += reads && t->rank > 1;
	e->before = reads && t->rank > 1 ? e->block.issued : e->before;
	e->vectors += reads && t->rank == 1 ? (double)tile_bytes(t) / WORD / QUAD : 0;
	if (!reads || t->rank < 2 || !map_reason(op, e->t))
		return;
	Sectors s = sectors_of(e, op, t);
	double bytes = (double)tile_bytes(t), words = bytes / MIN(s.each, WORD);
	e->loose += bytes;
	e->loose_registers = MAX(e->loose_registers, words / (e->warps * e->t->lanes));
	e->loose_issued += OPS * bytes / s.each / LANES;
}

double
estimate_late(const Estimate *e)
{
	enum { WORD = 4, OTHERS = 24 };
	const int *regs = target_role_registers(e->t, e->warps / 4 * e->groups);
	double tiles = (e->elements + e->once / WORD) / (e->warps * e->t->lanes);
	return e->tiles <= 1 && regs && tiles + e->vectors + OTHERS <= regs[1] ? 0 : e->before;
}

double
estimate_order(Estimate *e, const Op *op)
{
	static const double EXCHANGE = 3;               /* of an element: one from another lane, the lesser, which it is */
	if (op_family(op) != FAMILY_ORDER || op->kind == OP_HISTOGRAM)
		return 0;
	const Type *t = op->in[0]->type;
	double steps = log2_ceil(t->extent[attr_axis(op)]), all = op->kind == OP_TOPK ? steps : steps * (steps + 1) / 2;
	if (e->dots > 0 && op->kind == OP_SORT)
		e->loose_registers = MAX(e->loose_registers, (double)type_count(t) / (e->warps * e->t->lanes));
	return EXCHANGE * all;
}

double
estimate_fills(const Estimate *e)
{
	return e->filled + e->puts;
}

double
estimate_put_wait(const Estimate *e, const Use *u)
{
	enum { SLOTS_LEAST = 3, PRODUCTS_LEAST = 500, OTHERS = 40 };    /* as run_past.c has them */
	static const double MEET = 150, BEHIND = 0.6;   /* of the product's time, what is left beside it */
	static const double FILLED = 0.4;               /* where elements are read a trip ahead, and only put beside it */
	double threads = e->warps * e->t->lanes, shared = e->stages * e->slot + estimate_fills(e);
	bool is_alone = e->parted || 2 * threads * (e->registers + OTHERS) > e->t->registers ||
	    2 * shared > e->t->shared_bytes_unit;
	bool runs_past = e->stages >= SLOTS_LEAST && u->products >= (e->filled > 0 ? 2 : 1) * PRODUCTS_LEAST &&
	    shared + e->puts + (e->parted ? e->drain : 0) <= e->t->shared_bytes;
	if ((e->puts <= 0 && e->filled <= 0) || e->decodes)
		return 0;
	double left = e->puts <= 0 ? FILLED : runs_past ? BEHIND : 1;
	return (e->puts > 0 ? MEET : 0) + (is_alone ? MIN(u->arithmetic, u->products) * left : 0);
}

/* ---- what follows products ---- */

static bool
is_constant(const Value *v)
{
	return value_const(v) || (v->def && v->def->kind == OP_BROADCAST && value_const(v->def->in[0]));
}

/* Does what is made of v only become a float of 16 bits or fewer, without a sum that may cancel?  Then it is approximated
 * (pass relax).  *joins: a constant is added, as to a tanh. */
static bool
becomes_narrow(const Value *v, int depth, bool *joins)
{
	const Op *op = v->def;
	int uses = 0;
	for (const Op *use = op->next; use; use = use->next)
		for (int i = 0; i < use->nin; i++) {
			DType to = use->nout ? use->out[0].type->elem : TY_F64;
			if (use->in[i] != v)
				continue;
			uses++;
			if (use->kind == OP_CAST && dtype_is_float(to) && dtype_info[to].bits <= 16)
				continue;
			bool adds = (use->kind == OP_ADD || use->kind == OP_SUB) && is_constant(use->in[1 - i]);
			bool carries = adds || use->kind == OP_MUL || use->kind == OP_DIV || use->kind == OP_NEG ||
			    use->kind == OP_RESHAPE || use->kind == OP_BROADCAST || use->kind == OP_SELECT;
			*joins |= adds;
			if (depth == 0 || !carries || !becomes_narrow(&use->out[0], depth - 1, joins))
				return false;
		}
	return uses > 0;
}

static bool
is_added(const Op *op)
{
	const Op *use = value_lone_user(&op->out[0]);
	return use && (use->kind == OP_ADD || use->kind == OP_SUB);
}

/* By SASS behind 128 x 128 products: exact sigmoids and tanh 18; a GELU by tanh 8, by erf 12, SiLU 5, factors that are
 * constants go into others (polynomial.c) and products into sums. */
double
estimate_epilogue_issue(const Op *op, double each)
{
	enum { DEPTH = 6, ERF = 9, SIGMOID = 4, EXP = 2, EXACT_TANH = 18, EXACT_SIGMOID = 18 };
	bool joins = false, narrow = op->nout == 1 && becomes_narrow(&op->out[0], DEPTH, &joins);
	double slow;
	switch (op->kind) {
	case OP_MUL: return ANY_OF(i, 2, is_constant(op->in[i])) || is_added(op) ? 0 : each;
	case OP_ADD: case OP_SUB: return narrow && ANY_OF(i, 2, is_constant(op->in[i])) ? 0 : each;
	case OP_ERF: return narrow && joins ? ERF : each;
	case OP_TANH: return attr_fast(op) || (narrow && joins) ? SIGMOID : EXACT_TANH;
	case OP_SIGMOID: return attr_fast(op) || narrow ? SIGMOID : EXACT_SIGMOID;
	case OP_EXP: case OP_EXP2: return attr_fast(op) || narrow ? EXP : cost_work(op, &slow);
	default: return op_info[op->kind].cost == COST_SFU ? MAX(cost_work(op, &slow), each) : each;
	}
}

/* ---- sums that products share ---- */

static bool
leaves_sum(const Op *op)
{
	return op && op->kind == OP_FOR && block_find(op->region[0], OP_DOT);
}

static bool
is_before(const Op *a, const Op *b)
{
	for (; b && b != a; b = b->prev)
		;
	return b != NULL;
}

/* What a product's result is added to, or taken off from (`minus`); NULL: nothing of the block. */
static const Op *
added_to(const Op *dot, const Op *user, bool minus)
{
	const Value *v = &dot->out[0];
	if (user->kind == OP_ADD)
		return VALUE_OF(i, 2, user->in[i] == v, user->in[1 - i]->def, (const Op *)NULL);
	return minus && user->kind == OP_SUB && user->in[1] == v ? user->in[0]->def : NULL;
}

/* Is it added to the sum of a product before it, as of a @ b + c @ d, or of a loop?  Both are in the same registers. */
bool
estimate_continues_sum(const Op *dot)
{
	bool is = leaves_sum(dot->in[2]->def);
	for (const Op *op = dot->next; op && !is; op = op->next) {
		const Op *other = added_to(dot, op, false);
		is |= leaves_sum(other) || (other && other->kind == OP_DOT && is_before(other, dot));
		is |= other && other->kind == OP_ADD && ANY_OF(k, other->nin, value_is_dot(other->in[k]));
	}
	return is;
}

/* Does it join a sum that is another product's, as a @ b - c @ d?  That one's registers hold the sum. */
bool
estimate_joins_sum(const Op *dot)
{
	const Op *other = NULL;
	for (const Op *op = dot->next; op && !other; op = op->next)
		other = added_to(dot, op, true);
	return other && (other->kind == OP_DOT || ((other->kind == OP_ADD || other->kind == OP_SUB) &&
	    ANY_OF(k, other->nin, value_is_dot(other->in[k]))));
}
