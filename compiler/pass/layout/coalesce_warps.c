/* How many warps a block has where the schedule does not say: by the tiles' sizes, and by what is done with them. */
#include "pass/layout/axis.h"
#include "pass/layout/dot.h"
#include "pass/pass.h"

/* Elements of the largest tile for each thread, and warps, by what an H200 did.  Rows that are reduced: 16 elements a
 * thread, and 32 from four warps on, with 8 warps at most for up to 8,192 elements (softmax of 8192x8192 in f32: 131.4 us
 * with 8 warps, 132.9 with 16).  Rows that are read, reduced and written: two accesses a thread in up to 16 warps (softmax
 * of 32768x4096: 257.8 us, not 262.6), but 16 elements in rows of up to 1,024 (4096x1024: 5.7 us with 2 warps, 6.1 with 4;
 * gradients of 32768x1000 66 and 77).  Little arithmetic: one access a thread in 8 to 16 warps (silu in bf16: 127.8 us,
 * not 158.8).  Rows that are ordered are one warp's up to 32 elements a thread, tiles of several up to 16 (the 8
 * greatest of 512: 41 us, not 54 with 2 warps; of 1024: 75, not 121 with 4). */
/* Short lines that are sorted across rows of memory: an H200 took for medians of five and three rows and a trimmed mean of
 * nine 57.3, 13.1 and 28.4 us with 64 elements a thread, 62.9, 13.4 and 29.1 with 32, 63.6, 14.0 and 29.6 with 16. */
enum { ELEMENTS_LINES = 64 };
enum { FEW_SUFFICE = 8192, ROW_SHORT = 1024, ELEMENTS_FEW = 8, ELEMENTS_REDUCED = 16, ELEMENTS_MOST = 32 };
enum { WARPS_FEW = 4, WARPS_REDUCED = 8, WARPS_PASS = 16, WARPS_LIGHT = 8, WARPS_LIGHT_MOST = 16, WARPS_MOST = 32 };
enum { LIGHT = 20 };                                    /* instructions of an element, roughly */
/* Products that wait for memory, and elements that a warp of few and of more reads (H200, 4 bits, 64 x 128 a trip: 23.6 us
 * with 4 warps, 27.0 with 8, 31.2 with 2; bf16: 37.4 with 4 and 38.0 with 8). */
enum { FEW_ROWS = 32, STREAM_FEW = 1024, STREAM_MOST = 2048 };
enum { DOT_FEW = 1024, DOT_MOST = 4096, DOT_HELD = 2048, DOT_WARPS = 8 };

/* What the tiles of a function are like, as far as the warps go. */
typedef struct Load {
	int64_t most, dot;                              /* elements of the largest tile, of the largest product */
	int64_t stream;                                 /* of the larger operand of a loop's products of few rows */
	int bytes;                                      /* of the largest element that moves in a tile of that size */
	bool reduces, orders, lines;                    /* lines: short ones, across memory's rows, are ordered */
	bool is_row;                                    /* all tiles are rows */
	bool pairs;                                     /* halves of 32 bits are written together (pass records) */
} Load;

static void
count_tile(Load *x, const Type *t, bool moves)
{
	int bytes = t->ptr != PTR_NONE ? 8 : MAX(dtype_info[t->elem].bits / 8, 1);
	int64_t n = type_count(t);
	if (t->kind != TYPE_TILE || t->rank == 0)
		return;
	x->is_row &= t->rank == 1;
	if (x->pairs && t->rank > 1 && t->extent[t->rank - 1] == 2)
		n /= 2;                                 /* a pair is an element: it is computed as two tiles */
	if (n > x->most) {
		x->most = n;
		x->bytes = 0;
	}
	if (n == x->most && moves)
		x->bytes = MAX(x->bytes, bytes);
}

/* A product of few rows reads its larger operand once, and does little with it: elements of that. */
static int64_t
streamed(const Op *dot)
{
	const Type *t = dot->out[0].type;
	int64_t rows = t->extent[t->rank - 2], cols = t->extent[t->rank - 1];
	bool loops = dot->home->parent && dot->home->parent->kind == OP_FOR;
	if (!loops || rows == cols || MIN(rows, cols) > FEW_ROWS)
		return 0;
	return type_count(dot->in[rows < cols]->type);
}

static bool
writes_pairs(const Func *f)
{
	for (const Op *op = f->body->first; op; op = op_after(op, f->body)) {
		const Type *t = op->kind == OP_WRITE ? op->in[0]->type : NULL;
		const Type *tile = t ? op->in[access_data(op)]->type : NULL;
		if (t && access_is_tensor(op) && t->rank > 1 && t->extent[t->rank - 1] == 2 &&
		    attr_index(op)[t->rank - 1] == 'p' && dtype_info[tile->elem].bits == 32)
			return true;
	}
	return false;
}

/* Such that a thread can hold, where it has neighbours of a row, too. */
static bool
orders_lines(const Op *op)
{
	const Type *t = op->kind == OP_SORT || op->kind == OP_TOPK ? op->in[0]->type : NULL;
	return t && attr_axis(op) < t->rank - 1 && t->extent[attr_axis(op)] <= LINE_SHORT;
}

static Load
count_tiles(const Func *f)
{
	Load x = {.most = 1, .is_row = true, .pairs = writes_pairs(f)};
	for (const Op *op = f->body->first; op; op = op_after(op, f->body)) {
		if (op->kind == OP_DOT) {
			x.dot = MAX(x.dot, type_count(op->out[0].type));
			x.stream = MAX(x.stream, streamed(op));
		}
		x.reduces |= op_family(op) == FAMILY_REDUCE || op_family(op) == FAMILY_SCAN;
		x.orders |= op_family(op) == FAMILY_ORDER;
		x.lines |= orders_lines(op);
		for (int i = 0; i < op->nout; i++)
			count_tile(&x, op->out[i].type, op->kind == OP_READ || op->kind == OP_LOAD);
		if (op->kind == OP_WRITE)
			count_tile(&x, op->in[access_data(op)]->type, true);
		if (op->kind == OP_STORE)
			count_tile(&x, op->in[1]->type, true);
	}
	return x;
}

/* As many more as leave each thread no more sums than the target has room for. */
static int
warps_for_sums(int warps, const Load *x, const Target *t)
{
	while (t->most_sums && warps < WARPS_MOST && (int64_t)warps * t->lanes * t->most_sums < x->dot)
		warps *= 2;
	return warps;
}

/* A square of 64 by 64 for each warp of a large product, less for smaller ones; of a product of few rows, up to 2,048
 * elements of what it reads, so that enough is under way and each thread has little to unpack.  Where one product is the
 * next one's operand, sixteen rows, since the threads hold both, or as many warps as hold the largest tile. */
static int
dot_warps(const Func *f, const Load *x)
{
	int64_t rows = 0;
	int warps = 1;
	for (const Op *op = f->body->first; op; op = op_after(op, f->body))
		if (op->kind == OP_DOT && dot_next(f, &op->out[0]))
			rows = MAX(rows, op->out[0].type->extent[op->out[0].type->rank - 2]);
	while (rows > 0 && warps < DOT_WARPS && (warps * 16 < rows || warps * DOT_HELD < x->most))
		warps *= 2;
	if (rows > 0)
		return warps;
	while (warps < DOT_WARPS && (warps * (warps < WARPS_FEW ? DOT_FEW : DOT_MOST) < x->dot ||
	    warps * (warps < WARPS_FEW ? STREAM_FEW : STREAM_MOST) < x->stream))
		warps *= 2;
	return warps;
}

static int
cost_of(OpCost cost)
{
	switch (cost) {
	case COST_FREE: case COST_ACCESS: case COST_NONE: return 0;
	case COST_ALU: case COST_WHOLE: case COST_OPAQUE: return 1;
	case COST_SFU: case COST_DIVIDE: return 4;
	case COST_LONG: return 24;
	}
	unreachable();
}

/* Do whole tiles come and go in between which little is computed, in straight code that moves no element to another
 * thread?  Then the threads wait for memory and nothing else. */
static bool
is_light(const Func *f, const Load *x)
{
	int cost = 0;
	if (x->reduces || x->bytes == 0)
		return false;
	for (const Op *op = f->body->first; op; op = op_after(op, f->body)) {
		if (op->nregion > 0 || op->kind == OP_PERMUTE || op->kind == OP_GATHER || op->kind == OP_JOIN ||
		    op->kind == OP_SPLIT || op->kind == OP_SCATTER)
			return false;
		if (op_is_access(op) && anchor_type(op)->rank > 0 && type_count(anchor_type(op)) != x->most)
			return false;
		if (op->nout > 0 && op->out[0].type->rank > 0)
			cost += cost_of(op_info[op->kind].cost);
	}
	return cost <= LIGHT;
}

/* Is one tile read, reduced and written, in elements no narrower, and is nothing else of note read?  Such blocks take few
 * registers, so that a multiprocessor is full of them however many warps they have. */
static bool
is_row_pass(const Func *f, const Load *x)
{
	int reads = 0, writes = 0;
	for (const Op *op = f->body->first; op; op = op_after(op, f->body)) {
		if (op->nregion > 0 || op_family(op) == FAMILY_SCAN || op->kind == OP_REDUCE_FN)
			return false;
		if (!op_is_access(op) || anchor_type(op)->rank == 0)
			continue;
		const Type *t = anchor_type(op);
		if (type_count(t) != x->most || (op->kind != OP_READ && op->kind != OP_WRITE))
			return false;
		reads += op->kind == OP_READ;
		writes += op->kind == OP_WRITE;
		if (op->kind == OP_WRITE && dtype_info[t->elem].bits < 8 * x->bytes)
			return false;
	}
	return reads == 1 && writes > 0;
}

/* A thread has at least two accesses of 16 bytes under way, and twice as many where there are some warps already; where
 * tiles are reduced, so many elements that few warps take part, or two accesses if that is all there is to do; and a
 * single access where next to nothing is computed: the more threads, the closer together in time does a multiprocessor
 * touch what is close together in memory. */
int
coalesce_warps(const Func *f, const Target *t)
{
	Load x = count_tiles(f);
	int warps = 1, most = t->max_threads / t->lanes, some = WARPS_FEW;
	if (x.dot > 0)
		return warps_for_sums(dot_warps(f, &x), &x, t);
	if (x.orders && x.most <= (x.is_row ? ELEMENTS_MOST : ELEMENTS_REDUCED) * t->lanes)
		return 1;                               /* lanes exchange; warps would through shared memory */
	int few = x.bytes > 0 ? MIN(2 * t->vector_bytes / x.bytes, ELEMENTS_MOST) : ELEMENTS_FEW;
	int more = MIN(2 * few, ELEMENTS_MOST);
	if (x.reduces && x.most <= (int64_t)few * t->lanes * WARPS_PASS && is_row_pass(f, &x)) {
		few = x.most <= ROW_SHORT ? MAX(few, ELEMENTS_REDUCED) : few;
		more = few;
	} else if (x.reduces) {
		few = ELEMENTS_REDUCED;
		more = ELEMENTS_MOST;
		most = x.most <= FEW_SUFFICE ? WARPS_REDUCED : most;    /* small blocks fill a multiprocessor better */
	} else if (x.most <= (int64_t)few * t->lanes * WARPS_LIGHT_MOST && is_light(f, &x)) {
		more = few;
		few = MAX(t->vector_bytes / x.bytes, 1);
		some = WARPS_LIGHT;
	}
	if (x.lines)
		few = more = ELEMENTS_LINES;
	while (warps < MIN(most, WARPS_MOST) && x.most > (int64_t)warps * t->lanes * (warps >= some ? more : few))
		warps *= 2;
	return warps;
}
