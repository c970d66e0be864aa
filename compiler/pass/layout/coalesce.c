/* Chooses the warps of a block where the schedule does not, and how each access to memory would best lie over its threads:
 * neighbours in memory in neighbouring lanes, as many in one thread as one instruction moves.
 *
 *     %v = read %x … : f32[32, 64]         %v = read %x … : f32[32, 64] #0      four elements a thread along a row,
 *     write %y … %v                   =>   %c = convert %v : f32[32, 64] #0     sixteen lanes a row
 *                                          write %y … %c
 *
 * These are preferred layouts: pass assign decides. */
#include "pass/layout/axis.h"
#include "pass/layout/dot.h"

#include <string.h>

/* Elements of the largest tile for each thread, and warps, by what an H200 did.  Rows that are reduced: 16 elements a
 * thread, and 32 from four warps on, with 8 warps at most for up to 8,192 elements (softmax of 8192x8192 in f32: 131.4 us
 * with 8 warps, 132.9 with 16).  Rows that are read, reduced and written: two accesses a thread in up to 16 warps (softmax
 * of 32768x4096: 257.8 us, not 262.6), but 16 elements in rows of up to 1,024 (4096x1024: 5.7 us with 2 warps, 6.1 with 4;
 * gradients of 32768x1000 66 and 77).  Little arithmetic: one access a thread in 8 to 16 warps (silu in bf16: 127.8 us,
 * not 158.8).  Rows that are ordered are one warp's up to 32 elements a thread, tiles of several up to 16 (the 8
 * greatest of 512: 41 us, not 54 with 2 warps; of 1024: 75, not 121 with 4). */
enum { FEW_SUFFICE = 8192, ROW_SHORT = 1024, ELEMENTS_FEW = 8, ELEMENTS_REDUCED = 16, ELEMENTS_MOST = 32 };
enum { WARPS_FEW = 4, WARPS_REDUCED = 8, WARPS_PASS = 16, WARPS_LIGHT = 8, WARPS_LIGHT_MOST = 16, WARPS_MOST = 32 };
enum { LIGHT = 20 };                                    /* instructions of an element, roughly */
/* Products that wait for memory, and elements that a warp of few and of more reads (H200, 4 bits, 64 x 128 a trip: 23.6 us
 * with 4 warps, 27.0 with 8, 31.2 with 2; bf16: 37.4 with 4 and 38.0 with 8). */
enum { FEW_ROWS = 32, STREAM_FEW = 1024, STREAM_MOST = 2048 };
enum { DOT_FEW = 1024, DOT_MOST = 4096, DOT_HELD = 2048, DOT_WARPS = 8, REGISTERS_MOST = 1024 };

/* What the tiles of a function are like, as far as the warps go. */
typedef struct Load {
	int64_t most, dot;                              /* elements of the largest tile, of the largest product */
	int64_t stream;                                 /* of the larger operand of a loop's products of few rows */
	int bytes;                                      /* of the largest element that moves in a tile of that size */
	bool reduces, orders;
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
static int
choose_warps(const Func *f, const Target *t)
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
	while (warps < MIN(most, WARPS_MOST) && x.most > (int64_t)warps * t->lanes * (warps >= some ? more : few))
		warps *= 2;
	return warps;
}

/* The dimension along which memory runs first, then the others from the last one on. */
static void
order_from(int first, int rank, int order[LAYOUT_RANK])
{
	int n = 0;
	order[n++] = first;
	for (int d = rank - 1; d >= 0; d--)
		if (d != first)
			order[n++] = d;
}

/* Of a read whose dimension d is in `parts` (log2) that a warp each reads: the warps lie along the parts, lanes within. */
static Layout
sliced(const Type *tile, const int order[LAYOUT_RANK], const int shape[LAYOUT_RANK], int d, int parts, int k, int lanes)
{
	Blocked b = {.rank = tile->rank + 1};
	int apart[LAYOUT_RANK] = {0}, room = lanes;
	for (int i = 0; i < tile->rank; i++)
		apart[i + (i >= d)] = shape[i];
	apart[d] = parts;
	apart[d + 1] = shape[d] - parts;
	b.warps[d] = parts;
	b.order[tile->rank] = d;
	for (int i = 0; i < tile->rank; i++)
		b.order[i] = order[i] + (order[i] >= d);
	b.per_thread[b.order[0]] = k = MIN(k, apart[b.order[0]]);
	for (int i = 0; i < tile->rank; i++) {
		int at = b.order[i], take = MIN(room, apart[at] - b.per_thread[at]);
		b.lanes[at] = i == tile->rank - 1 ? room : take;
		room -= b.lanes[at];
	}
	Layout l = layout_blocked(&b, apart);
	return layout_reshape(&l, tile->rank, shape);
}

/* The dimension that the block's warps divide between them; -1: none. */
static int
sliced_dim(const Op *op, int warps)
{
	const IntList *slices = attr_slices(op);
	for (int d = 0; slices && d < slices->n; d++)
		if (slices->at[d] > 1 && slices->at[d] == warps)
			return d;
	return -1;
}

/* Is a warp's part of each row less than asynchronous copies move, but not the block's, as of a group's scales, where 2^k
 * neighbours are one access?  Then some of the block's threads read whole rows. */
static bool
reads_together(const Op *op, int d, int k)
{
	enum { COPY_BITS = 32 };
	const Type *tile = anchor_type(op);
	int64_t bits = dtype_info[tile->elem].bits, each = tile->extent[d] / attr_slices(op)->at[d];
	return d == tile->rank - 1 && each * bits < COPY_BITS && bits << MIN(k, log2_ceil(tile->extent[d])) >= COPY_BITS;
}

/* How far reads of one shape lie apart, which takes all pairs of them: kept for the accesses of that shape. */
typedef struct Near {
	const Type *of;
	int64_t reach[MAX_RANK];
	bool any;
} Near;

static bool
is_near(const Op *op, Near *n)
{
	const Type *tile = anchor_type(op);
	if (!n->of || n->of->rank != tile->rank ||
	    memcmp(n->of->extent, tile->extent, sizeof *tile->extent * (size_t)tile->rank) != 0) {
		n->any = overlap_reach(op, n->reach);
		n->of = tile;
	}
	return n->any;
}

/* Whole records of few elements, which are no power of two and begin anywhere, as of rows of odd width: a thread reads
 * one.  Of more than four words each element touches as many lines as all: they are read across lanes. */
static bool
reads_records(const Op *op, int *dim)
{
	enum { RECORD_MOST = 8, WIDE_MOST = 4, WIDE_BITS = 32 };
	const Type *t = op->in[0]->type, *tile = anchor_type(op);
	const IntList *valid = attr_valid(op);
	int last = t->rank - 1;
	int64_t n = op->kind == OP_READ && t->kind == TYPE_TENSOR && last > 0 ? t->extent[last] : 0;
	*dim = tile->rank - 1;
	if (n > 0 && dtype_info[tile->elem].bits >= WIDE_BITS && (n > WIDE_MOST || t->extent[last - 1] > 0))
		return false;
	return n >= 3 && n <= RECORD_MOST && attr_index(op)[last] == 'p' && attr_index(op)[last - 1] == 'p' &&
	    value_is_zero(op->in[1 + last]) &&
	    tile->extent[*dim] == INT64_C(1) << log2_ceil(n) && (!valid || valid->at[*dim] == n);
}

/* The dimension across memory's rows along which such tiles are scanned, or -1: there a thread has neighbours, so that
 * lanes and warps exchange one state of each line, not one of each element.  In loops, whose trips ptxas reads ahead,
 * only of states of several values: an H200 took 72 us for 93 (linear_recurrence), but by sums 116 for 93 (cumsum_cols
 * in bench/warps), 260 for 247, 175 for 181 (cumsum_mid). */
static int
scanned_dim(const Func *f, const Type *tile, int fast)
{
	bool loops = false;
	for (const Op *op = f->body->first; op; op = op_after(op, f->body)) {
		bool is_one = op_family(op) == FAMILY_SCAN && (op->nin > 1 || !loops);
		const Type *t = is_one ? op->in[0]->type : NULL;
		loops |= op_is_loop(op) && !op_is_over_programs(op);
		if (t && t->rank == tile->rank && attr_axis(op) != fast &&
		    memcmp(t->extent, tile->extent, sizeof *t->extent * (size_t)t->rank) == 0)
			return (int)attr_axis(op);
	}
	return -1;
}

/* Are such tiles sorted along dimension d? */
static bool
is_sorted(const Func *f, const Type *tile, int d)
{
	return ANY_OP(op, f->body, (op->kind == OP_SORT || op->kind == OP_TOPK) && attr_axis(op) == d &&
	    op->in[0]->type->rank == tile->rank &&
	    memcmp(op->in[0]->type->extent, tile->extent, sizeof *tile->extent * (size_t)tile->rank) == 0);
}

/* Weights of 8 bits that are multiplied by a row of wider elements and reduced: a thread takes as many (log2) as it
 * reads of the row at once, of several rows of weights, for which it widens them once.  With 16 weights each thread
 * widens an element of the row for one or two weights, and the row comes through shared memory.  8192 x 8192 on an
 * H200, us: i8 22.0 to 20.3, f8e4m3 17.9 to 16.0; of 4 bits, which then come in 4 bytes, 19.1 to 19.6. */
static int
beside_row(const Op *op, const Target *t, int dim)
{
	enum { NARROW_BITS = 8, ANY = 31 };
	const Type *tile = anchor_type(op);
	int least = ANY, bits = dtype_info[tile->elem].bits;
	bool reduces = false;
	if (op->kind != OP_READ || bits != NARROW_BITS || dim == 0)
		return least;
	for (const Op *o = op->home->first; o; o = o->next) {
		const Type *row = o->kind == OP_READ ? anchor_type(o) : NULL;
		if (o->kind == OP_DOT)
			return ANY;
		reduces |= o->kind == OP_REDUCE;
		if (row && row->rank == 1 && row->extent[0] == tile->extent[dim] && dtype_info[row->elem].bits > bits)
			least = MIN(least, log2_floor(8 * t->vector_bytes / dtype_info[row->elem].bits));
	}
	return reduces ? least : ANY;
}

/* Of records that lanes share: a warp has as many, neighbours all, as its lanes hold whole ones, so that what a thread gets
 * of each comes from its own warp.  2^held elements a thread change places with the warps, 2^k of them neighbours. */
static void
keep_in_warps(Layout *l, int k, int held)
{
	uint64_t seq[F2_MAX];
	int warps = l->in[IN_WARP], at = layout_in_at(l, IN_WARP), more = MIN(held, l->in[IN_REGISTER]) - k, n = 0;
	if (more <= 0)
		return;
	for (int i = 0; i < warps; i++)
		seq[n++] = l->map.col[at + i];
	for (int i = 0; i < more; i++)
		seq[n++] = l->map.col[k + i];
	memcpy(&l->map.col[k], seq, sizeof *seq * (size_t)more);
	memcpy(&l->map.col[at], seq + more, sizeof *seq * (size_t)warps);
}

static const Layout *
preferred(const Op *op, const Target *t, Near *n)
{
	const Func *f = op->home->func;
	const Type *tile = anchor_type(op);
	int shape[LAYOUT_RANK] = {0}, order[LAYOUT_RANK] = {0}, dim;
	int lanes = log2_ceil(t->lanes), warps = log2_ceil(f->schedule.warps);
	int k = access_contiguity(op, t, &dim), along;
	k = MIN(k, beside_row(op, t, dim));
	int records = access_records(op, t, &along);
	if (records > 0) {                              /* a thread has all of their vectors */
		k = records + log2_ceil(tile->extent[along]);
		dim = along;
	} else if (k == 0 && access_window(op, &along)) {       /* a thread has all of its words */
		k = log2_floor(WINDOW);
		dim = along;
	} else if (k == 0 && reads_records(op, &along)) {
		k = log2_ceil(tile->extent[along]);
		dim = along;
	}
	if (k == 0 && tile->rank > 1 && is_sorted(f, tile, dim))        /* of single elements a thread reads whole lines */
		dim = dim == tile->rank - 1 ? dim - 1 : tile->rank - 1;
	int total = layout_shape(tile->rank, tile->extent, shape);
	order_from(dim, tile->rank, order);
	if (op_family(op) == FAMILY_ATOMIC)
		k = access_adds_pairs(op, t) ? MIN(k, 1) : 0;
	int taken = overlap_records(op);
	if (taken > 0)                                  /* as many records as its planes' writes take at once */
		k = MAX(k, access_halo(op, NULL, t)) + taken;
	int divided = sliced_dim(op, f->schedule.warps);
	bool together = divided >= 0 && reads_together(op, divided, k);
	k = MIN(k, together ? total : MAX(total - lanes - warps, 0));
	if (divided >= 0 && !together && tile->rank + 1 <= LAYOUT_RANK) {
		Layout apart = sliced(tile, order, shape, divided, warps, k, lanes);
		return layout_intern(f->module, &apart);
	}
	bool near = op_family(op) != FAMILY_ATOMIC && k <= shape[order[0]] && is_near(op, n);
	int scanned = scanned_dim(f, tile, order[0]);
	Layout l = near           ? overlap_rows(tile, order, shape, n->reach, k, lanes, warps)
	           : scanned >= 0 ? layout_scanned(tile->rank, shape, order, k, scanned, lanes, warps)
	                          : layout_coalesced(tile->rank, shape, order, k, lanes, warps);
	int held = near || scanned >= 0 || dim != tile->rank - 1 ? 0 : access_record_bits(op);
	if (held > k)
		keep_in_warps(&l, k, held);
	return layout_intern(f->module, &l);
}

static void
prefer_operand(Op *op, int i, const Layout *l)
{
	Builder b = build_before(op);
	Value *c = build1(&b, OP_CONVERT, op->in[i], NULL);
	c->layout = l;
	c->name = op->in[i]->name;
	op_set_in(op, i, c);
}

static void
coalesce_op(Op *op, const Target *t, Near *n)
{
	const Type *tile = anchor_type(op);
	if (tile->rank == 0)
		return;
	const Layout *l = preferred(op, t, n);
	if (op->nout)
		op->out[0].layout = l;
	if (op->kind == OP_WRITE)
		prefer_operand(op, access_data(op), l);
	else if (op->kind == OP_STORE)
		prefer_operand(op, 1, l);
}

/* A tile lives in the threads' registers: some that spill are slow, very many would never be compiled. */
const Value *
coalesce_too_large(const Func *f, const Target *t)
{
	int64_t most = (int64_t)f->schedule.warps * t->lanes * REGISTERS_MOST;
	for (const Op *op = f->body->first; op; op = op_after(op, f->body))
		for (int i = 0; i < op->nout; i++)
			if (value_is_placed(&op->out[i]) && type_count(op->out[i].type) > most)
				return &op->out[i];
	return NULL;
}

static bool
tiles_fit(const Func *f, const Target *t)
{
	const Value *v = coalesce_too_large(f, t);
	int threads = f->schedule.warps * t->lanes;
	if (!v)
		return true;
	int64_t n = type_count(v->type);
	diag_error(f->module->cx, v->def->place, DIAG_TILE_REGISTERS, (long long)n,
	    pad_text(f->module, v->def->place, v->type), (long long)(n / threads), threads, REGISTERS_MOST);
	return diag_help(f->module->cx, "take smaller tiles in a loop");
}

void
pass_coalesce(Func *f, const Target *t)
{
	if (f->schedule.warps == 0)
		f->schedule.warps = choose_warps(f, t);
	if (!tiles_fit(f, t))
		return;
	axis_keep(f);
	Near near = {0};
	for (EACH_OP(op, f->body))
		if (op_is_access(op))
			coalesce_op(op, t, &near);
	func_number(f);
}
