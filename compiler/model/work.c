/* What an elementwise op takes for an element: instructions of a warp, and those of the slow unit among them, by the code
 * that lowering makes of it; what products and copies take; and what an op's result waits for. */
#include "model/model.h"
#include "model/turn.h"

#include <math.h>

/* Of an element of 32 bits. */
typedef struct OpWork {
	double issue, special;
} OpWork;

enum { FIELD_OPS = 8 };

/* Is it a few bits of a word, which are taken out together with the cast to halves (lower/memory/fields.c)?  *took: what
 * was counted for that already. */
static bool
is_field(const Value *v, int depth, double *took)
{
	const Op *op = v->def;
	int64_t n;
	if (!op || depth == 0 || dtype_is_float(v->type->elem))
		return false;
	switch (op->kind) {
	case OP_RESHAPE: case OP_PERMUTE: case OP_CONVERT: case OP_CAST: case OP_JOIN:
		return is_field(op->in[0], depth - 1, took);
	case OP_AND:
		*took += 1;
		if (!value_constant(op->in[1], &n) || n <= 0 || n > 15)
			return false;
		*took += op->in[0]->def && op->in[0]->def->kind == OP_SHR;
		return true;
	case OP_SHR:
		*took += 1;
		return value_constant(op->in[1], &n) && dtype_info[v->type->elem].bits - n <= 4;
	default: return false;
	}
}

/* Short integers are added into a float's low bits (lower/math/cast.c).  Packed elements become f16 and bf16 two at once,
 * by 9 or 10 instructions for 8, half of them of the pipe with half the rate; what hangs on them takes about as long as by
 * 0.6 of the slow unit: fitted to int4 x 8192 x 8192 of 16, 24, 40 and 64 rows on an H200. */
static OpWork
cast_work(const Op *op, DType t, DType to)
{
	const OpWork packed = {2, 0.6};
	double took = 0;
	if (dtype_is_packed(t) && dtype_is_float(to))
		return packed;
	if ((to == TY_F16 || to == TY_BF16) && is_field(op->in[0], FIELD_OPS, &took))
		return (OpWork){packed.issue - took, packed.special};
	if (dtype_is_float(t) == dtype_is_float(to))
		return (OpWork){1, 0};
	int bits = dtype_info[dtype_is_float(t) ? to : t].bits;
	bool rounds = op->in[0]->def && op->in[0]->def->kind == OP_ROUND, is_short = bits <= 16;
	if (!dtype_is_float(t) && bits == 8 && to == TY_F16)
		return (OpWork){1, 0};                  /* a PRMT and an addition for two */
	if (!dtype_is_float(t))
		return is_short ? (OpWork){3, 0} : (OpWork){2, 1};
	if (rounds && bits == 8)
		return (OpWork){1, 0};                  /* half of an instruction, and joining words */
	return is_short && bits > 4 && rounds ? (OpWork){6, 0} : (OpWork){2, 1};
}

/* Is it a zero point of elements of 4 bits, which is taken off with what their bits stand for (lower/memory/packed.c)? */
static bool
is_taken_along(const Op *op)
{
	const Op *cast = op->in[0]->def, *zero = op->in[1]->def;
	DType to = op->out[0].type->elem;
	double took = 0;
	if ((to != TY_F16 && to != TY_BF16) || !cast || cast->kind != OP_CAST)
		return false;
	while (zero && (zero->kind == OP_BROADCAST || zero->kind == OP_RESHAPE || zero->kind == OP_PERMUTE ||
	    zero->kind == OP_CONVERT))
		zero = zero->in[0]->def;
	return zero && (zero->kind == OP_CAST || zero->kind == OP_CONST) &&
	    (dtype_is_packed(cast->in[0]->type->elem) || is_field(cast->in[0], FIELD_OPS, &took));
}

/* By a number that the compiler knows: a shift, or the upper half of a product. */
static bool
divides_by_constant(const Op *op)
{
	int64_t n;
	return !dtype_is_float(op->in[0]->type->elem) && value_constant(op->in[1], &n) && n != 0;
}

static bool
is_one_number(const Value *v)
{
	return v->type->rank > 0 && v->def &&
	    (v->def->kind == OP_CONST || (v->def->kind == OP_BROADCAST && v->def->in[0]->type->rank == 0));
}

/* A condition that is only added up is that of the addition. */
static bool
is_added_up(const Op *op)
{
	for (const Op *use = op->out[0].nuses == 1 ? op->next : NULL; use; use = use->next)
		if (ANY_OF(i, use->nin, use->in[i] == &op->out[0]))
			return use->kind == OP_ADD || op_family(use) == FAMILY_REDUCE;
	return false;
}

static OpWork
work_of(const Op *op)
{
	DType t = op->nin ? op->in[0]->type->elem : op->out[0].type->elem, to = op->out[0].type->elem;
	bool real = dtype_is_float(t);
	if (t == TY_BOOL && to == TY_BOOL && op_family(op) == FAMILY_ARITH)
		return (OpWork){0.5, 0};                /* most are part of a comparison, as thread/count.c counts them */
	switch (op->kind) {
	case OP_TANH: return (OpWork){attr_fast(op) ? 3 : 14, 2};
	case OP_SIGMOID: return (OpWork){attr_fast(op) ? 4 : 16, 2};
	case OP_DIV: case OP_REM:
		if (divides_by_constant(op))
			return (OpWork){4, 0};
		if (op->kind == OP_REM)
			break;
		if (real && !attr_fast(op) && is_one_number(op->in[1]))
			return (OpWork){5, 0};          /* lower/math/divide.c */
		return !real ? (OpWork){20, 1} : attr_fast(op) ? (OpWork){2, 1} : (OpWork){9, 1};
	case OP_SQRT: return attr_fast(op) ? (OpWork){2, 1} : (OpWork){9, 1};
	case OP_CAST: return t == TY_BOOL && is_added_up(op) ? (OpWork){0, 0} : cast_work(op, t, to);
	case OP_ADD: case OP_SUB:
		if (is_taken_along(op))
			return (OpWork){0, 0};
		break;
	case OP_EXP: return attr_fast(op) ? (OpWork){2, 1} : (OpWork){8, 1};    /* lower/math/math_exp.c */
	case OP_EXP2: return attr_fast(op) ? (OpWork){1, 1} : (OpWork){7, 1};
	default: break;
	}
	switch (op_info[op->kind].cost) {
	case COST_ALU: case COST_OPAQUE: return (OpWork){1, 0};
	case COST_SFU: return (OpWork){3, 1};
	case COST_DIVIDE: return (OpWork){9, 1};
	case COST_LONG: return (OpWork){24, 0};
	case COST_WHOLE: return (OpWork){4, 0};
	case COST_FREE: case COST_ACCESS: case COST_NONE: return (OpWork){0, 0};
	}
	unreachable();
}

/* Instructions of 64 bits go in halves; those of f64 at half the rate; of 16 bits two floats share one. */
static double
width_of(const Op *op)
{
	const Type *t = op->out[0].type;
	if (t->rank > 0 && op_family(op) == FAMILY_ARITH && (t->elem == TY_F16 || t->elem == TY_BF16))
		return 0.5;
	bool wide = op->nin && dtype_info[op->in[0]->type->elem].bits > 32;
	return wide || t->ptr != PTR_NONE || dtype_info[t->elem].bits > 32 ? 2 : 1;
}

double
cost_work(const Op *op, double *special)
{
	OpWork k = work_of(op);
	*special = k.special;
	return k.issue * width_of(op);
}

/* A product that one addition takes is that one's. */
static bool
is_fused(const Op *op)
{
	const Value *v = &op->out[0];
	if (op->kind != OP_MUL || v->nuses != 1 || !dtype_is_float(v->type->elem))
		return false;
	for (const Op *use = op->next; use; use = use->next)
		for (int i = 0; i < use->nin; i++)
			if (use->in[i] == v)
				return use->kind == OP_ADD || use->kind == OP_SUB;
	return false;
}

double
cost_joining(const Op *op)
{
	double all = 0, special;
	if (op->nregion == 0)
		return 1;
	for (const Op *in = op->region[0]->first; in; in = in->next)
		if (in->nout > 0 && !is_fused(in))
			all += cost_work(in, &special);
	return MAX(all, 1);
}

/* ---- products ---- */

bool
cost_converts_fp8(const Op *dot, const Target *t)
{
	const char *mma = attr_mma(dot);
	DType elem = dot->in[0]->type->elem;
	return t->kind == TARGET_PTX && !(t->has & HAS_FP8_SYNC) && *mma && !wgmma_named(mma) && dtype_is_float(elem) &&
	    dtype_info[elem].bits == 8;
}

/* Two elements an instruction of the slow unit, and sums of 32 of K are added apart (seen in SASS). */
static void
add_fp8_converted(const Op *dot, double depth, double times, ProgramCost *out)
{
	enum { K = 32 };
	double converted = (cost_elements(dot->in[0]) + cost_elements(dot->in[1])) / 2;
	out->special += times * converted;
	out->issue += times * (converted + cost_elements(&dot->out[0]) * depth / K);
}

/* A multiprocessor gives a word to each lane of a warp a cycle, whether lanes share it or not: of 32 x 32 x 32 in f32, four
 * one behind the other (newton in tests/semantics/together.tgl), 16,384 programs take 155, 165, 224 and 270 us on an H200
 * by 1, 2, 4 and 8 warps, which have 12, 8, 6 and 4 words a step for 32, 16, 8 and 4 products. */
static double
by_multiplications(const Op *op, const Target *t, int warps, double times, ProgramCost *out)
{
	const Type *a = op->in[0]->type;
	double depth = (double)a->extent[a->rank - 1], loads, words;
	double each = MAX((double)type_count(op->out[0].type) * depth / (t->lanes * warps), depth);
	fma_loads(op, t, &loads, &words);
	out->issue += times * (each + loads);
	out->shared += times * words * warps;
	return 4 * depth;
}

double
cost_product(const Op *op, const Target *target, int warps, double times, ProgramCost *out)
{
	const Type *c = op->out[0].type;
	const TargetRates *r = target->rates;
	const Type *a = op->in[0]->type;
	const IntList *flipped = attr_transposed(op);
	double depth = (double)a->extent[flipped && flipped->at[0] ? a->rank - 2 : a->rank - 1];
	double count = (double)type_count(c) * depth, bits = dtype_info[a->elem].bits;
	const char *mma = attr_mma(op);
	if (!*mma)
		return by_multiplications(op, target, warps, times, out);
	if (wgmma_named(mma)) {
		out->products += times * count / (r->products_warpgroup * 16 / bits);
		return count / (r->products_warpgroup * 16 / bits);
	}
	if (cost_converts_fp8(op, target))
		add_fp8_converted(op, depth, times, out);
	/* the instruction of a warp, of which a quarter of a multiprocessor does one at a time */
	double rate = target_products_warp(r, bits), rows = (double)c->extent[c->rank - 2];
	double cycles = count / rate * MAX(16 / rows, 1);
	out->issue += times * count / (warps * 2048.0) * 2;
	out->products += times * cycles * MAX(4.0 / warps, 1);
	return cycles * MAX(4.0 / warps, 1);
}

/* Cycles of shared memory that a product of warpgroups takes for its operands: b is read for every 64 rows. */
double
cost_product_shared(const Op *op)
{
	if (op->kind != OP_DOT_START || !op->out[0].layout)
		return 0;
	const Type *c = op->out[0].type;
	double bytes = op->in[0]->type->kind == TYPE_TILE ? 0 : (double)tile_bytes(op->in[0]->type);
	bytes += (double)tile_bytes(op->in[1]->type) * MAX((double)c->extent[c->rank - 2] / 64, 1);
	return bytes / 128;
}

/* ---- atomics ---- */

/* A line of the L2 cache takes one request after the other, and all lines together so many: 8 M of
 * atomic_add at random take an H200 2152 us (f32) and 1558 (i32) to 16 elements, 1759 to 256, 295
 * to 4096, 133 to 65536 and 116 to 2^20.  Of a warp a request is a sector, of which random elements
 * of few share some; of one element it takes less (156,000 sums to each of two lines, 269 us). */
double
cost_atomics(const TargetRates *r, double sectors, double lines, int lanes)
{
	enum { SECTORS = 4 };                           /* of a line */
	static const double SINGLE = .7;
	double all = lines * SECTORS, n = all > 0 ? all * (1 - pow(1 - 1 / all, lanes)) : lanes;
	if (r->atomic_rate <= 0)
		return 0;
	double turn = 1 / r->atomic_rate +
		      (lines > 0 ? r->atomic_line * (lanes == 1 ? SINGLE : 1) / lines : 0);
	return MIN(sectors, n) * turn * r->multiprocessors;
}

/* ---- slots of shared memory ---- */

void
cost_pieces(const Op *op, const Target *t, double bytes, double *issue, double *shared)
{
	enum { WIDE = 8, WORD = 4, PASS = 128 };
	const Value *slot = op->in[0], *tile = op->kind == OP_PUT ? op->in[1] : &op->out[0];
	const char *matrix = NULL;
	BankPlan b = slot->layout && tile->layout ? plan_slot(op, t, &matrix) : (BankPlan){0};
	*issue = *shared = 0;
	if (b.bytes == 0 || matrix || b.bytes >= WIDE)
		return;
	*issue = (bytes / b.bytes - bytes / WIDE) * (b.bytes < WORD ? 2 : 1);
	*shared = bytes / b.bytes * MAX(b.passes, 1) - bytes * t->lanes / PASS;
}

double
cost_narrow(const Op *convert, const Target *t, double *shared)
{
	enum { WIDE = 8, WORD = 4, PASS = 128 };
	const Value *side[] = {convert->in[0], &convert->out[0]};
	Layout between = layout_best_shared(side[0]->layout, side[1]->layout, element_bytes(side[1]->type));
	double issue = *shared = 0;
	for (int i = 0; i < LEN(side); i++) {
		DType elem = dtype_is_packed(side[i]->type->elem) ? TY_I8 : side[i]->type->elem;
		BankPlan b = plan_banks(side[i]->layout, &between, elem, i == 0 ? BANKS_WRITE : BANKS_READ, t);
		double bytes = cost_elements(side[i]) * element_bytes(side[i]->type);
		double n = b.bytes > 0 ? bytes / b.bytes : 0;
		if (b.bytes > 0 && b.bytes < WIDE)
			issue += (n - bytes / WIDE) * (b.bytes < WORD ? 1.5 : 1);       /* joined two by two */
		*shared += MAX(n * MAX(b.passes, 1) - bytes * t->lanes / PASS, 0);
	}
	return issue;
}

/* ---- copies ---- */

/* Slots of the ring that a copy fills. */
static int64_t
ring_slots(const Op *copy)
{
	const Op *slot = copy->in[access_data(copy)]->def;
	return slot && slot->kind == OP_SLOT ? slot->in[0]->type->slots : 1;
}

bool
cost_copies_ahead(const Op *loop)
{
	enum { SLOTS = 3 };
	return ANY_OP(op, loop->region[0], op->kind == OP_COPY && ring_slots(op) >= SLOTS);
}

/* Elements of one copy of a thread: as wide as both sides are. */
static double
copied_at_once(const Op *op, const Target *t)
{
	const Value *slot = op->in[access_data(op)];
	double vector = (double)attr_vector(op);
	if (!slot->layout)
		return vector;
	BankPlan b = plan_banks(op->out[0].layout, slot->layout, slot->type->elem, false, t);
	return b.bytes > 0 ? MIN(vector, MAX(b.bytes * 8.0 / dtype_info[slot->type->elem].bits, 1)) : vector;
}

double
cost_copy(const Op *op, const Op *loop, const Target *t, int warps, double times, struct ProgramCost *out)
{
	enum { EACH = 6, SECTOR = 32, PASS = 128 };     /* instructions: two addresses and bounds; bytes */
	const Layout *l = op->out[0].layout;
	double held = (double)tile_bytes(op->in[access_data(op)]->type), accesses = 1;
	if (l && !op_is_bulk_copy(op)) {
		accesses = MAX((double)(UINT64_C(1) << l->in[IN_REGISTER]) / copied_at_once(op, t), 1);
		out->requests += times * MAX(held / PASS, accesses * warps);
	}
	out->issue += times * accesses * EACH;
	out->sectors += times * held / SECTOR;
	out->bytes += times * held;
	return loop ? (double)MAX(ring_slots(op) - 1, 1) : 1;
}

/* ---- order ---- */

double
cost_order(const Op *op, const Target *t, int warps, double elements, double times, ProgramCost *out)
{
	enum { TURNS = 2, WORD_BITS = 32 };             /* elements there, and back */
	enum { LOOKUP = 3 };                            /* by permutes of bytes (lower/lookup_bytes.c) */
	const TargetRates *r = target_rates(t);
	Turn turn;
	Layout rows;
	if (op->kind == OP_GATHER && gather_row_layout(op, op->out[0].layout, &rows)) {
		out->issue += times * LOOKUP * elements;
		return LOOKUP;
	}
	if (op->kind == OP_GATHER && plan_turn(op, &turn)) {
		double words = (double)MAX(dtype_info[op->out[0].type->elem].bits / WORD_BITS, 1) * turn.shuffles * times;
		out->issue += 2 * words;
		out->shuffles += words * warps;
		return turn.shuffles ? r->shuffle_latency : 0;
	}
	if ((op->kind == OP_SORT || op->kind == OP_TOPK) && op->in[0]->layout)
		return cost_sort(op, t, warps, times, out);
	out->issue += times * TURNS * elements * 6;
	out->shared += times * TURNS * elements * 0.25 * warps;
	return TURNS * (r->shuffle_latency + 8) + r->barrier;
}

/* ---- loops ---- */

/* Has each instruction of a read a mask of its own?  One that is the same in all trips is made once. */
static bool
tests(const Op *op)
{
	const IntList *inside = attr_inside(op);
	const char *index = op->kind == OP_READ && op->in[0]->type->kind == TYPE_TENSOR ? attr_index(op) : "";
	bool any = false;
	for (int d = 0; index[d]; d++)
		any |= index[d] != 'i' && !(inside && inside->at[d]) && value_inside(op->in[1 + d], op->home);
	return any;
}

double
cost_elements(const Value *v)
{
	if (!v->layout)
		return 1;
	int held = v->layout->in[IN_REGISTER] - __builtin_popcountll(layout_free_bits(v->layout, IN_REGISTER));
	return (double)(UINT64_C(1) << held);
}

/* Does v follow from what the block's accesses read, by so many ops at most? */
static bool
is_from_data(const Value *v, const Block *b, int depth)
{
	const Op *op = v->def;
	if (!op || !value_inside(v, b) || depth == 0)
		return false;
	return op_is_access(op) || ANY_OF(i, op->nin, is_from_data(op->in[i], b, depth - 1));
}

/* Copies of trips that gather rows wait twice, for the indices and the rows: sums of 16 rows that data names took an H200
 * 271 us in eights and 320 in twos. */
bool
cost_overlaps(const Op *loop)
{
	/* PTX's instructions of a trip with its bounds and its end: 40 to 43 of sums of squares and exponentials were made
	 * four, 44 to 56 of plain sums not (ptxas 13); copies of trips have addresses, too */
	enum { MOST = 43, END = 4, BOUNDS = 4, DEPTH = 6 };
	double n = END, special;
	bool copies = attr_unrolled(loop) > 0;
	if (loop->kind != OP_FOR || op_is_over_programs(loop))
		return false;
	for (const Op *op = loop->region[0]->first; op; op = op->next) {
		if (op_has(op, WRITES | EFFECT) || op_is_control(op) || attr_sync(op) || op_attr(op, ATTR_SMEM))
			return false;
		if (copies && op_is_access(op) &&
		    ANY_OF(i, op->nin - 1, is_from_data(op->in[1 + i], loop->region[0], DEPTH)))
			return false;
		bool reduces = op_family(op) == FAMILY_REDUCE, is_added = op->kind == OP_MUL && op->out[0].nuses == 1;
		if (op_is_access(op) && op->nout > 0)
			n += MAX(cost_elements(&op->out[0]) / MAX((double)attr_vector(op), 1), 1) *
			    (1 + copies + (tests(op) ? BOUNDS : 0));
		else if (op->nout > 0 && !(is_added && dtype_is_float(op->out[0].type->elem)))
			n += cost_elements(reduces ? op->in[0] : &op->out[0]) * cost_work(op, &special);
	}
	return n <= MOST;
}

/* ---- lines of the source ---- */

PathPart
cost_path_part(const Op *op)
{
	if (op_is_access(op) || op->kind == OP_COPY)
		return PATH_MEMORY;
	switch (op_family(op)) {
	case FAMILY_CONVERT: case FAMILY_REDUCE: case FAMILY_SCAN: case FAMILY_ORDER: case FAMILY_SCATTER:
	case FAMILY_GATHER: return PATH_EXCHANGE;
	case FAMILY_DOT: case FAMILY_DOT_ASYNC: return PATH_PRODUCT;
	default: break;
	}
	bool moves = op->kind == OP_EXTRACT || op->kind == OP_FLIP || op->kind == OP_GET || op->kind == OP_PUT;
	return moves ? PATH_EXCHANGE : PATH_ARITHMETIC;
}
