/* Chooses the warps of a block where the schedule does not (coalesce_warps.c), and how each access to memory would best lie
 * over its threads: neighbours in memory in neighbouring lanes, as many in one thread as one instruction moves.
 *
 *     %v = read %x … : f32[32, 64]         %v = read %x … : f32[32, 64] #0      four elements a thread along a row,
 *     write %y … %v                   =>   %c = convert %v : f32[32, 64] #0     sixteen lanes a row
 *                                          write %y … %c
 *
 * These are preferred layouts: pass assign decides. */
#include "pass/layout/axis.h"
#include "pass/layout/dot.h"
#include "pass/pass.h"

#include <string.h>

enum { REGISTERS_MOST = 1024 };

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

/* Are such tiles sorted along dimension d? */
static bool
is_sorted(const Func *f, const Type *tile, int d)
{
	return ANY_OP(op, f->body, (op->kind == OP_SORT || op->kind == OP_TOPK) && attr_axis(op) == d &&
	    op->in[0]->type->rank == tile->rank &&
	    memcmp(op->in[0]->type->extent, tile->extent, sizeof *tile->extent * (size_t)tile->rank) == 0);
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

/* The short dimension across memory's rows along which such tiles are sorted, if a thread can hold all of a line, else -1:
 * each exchange of a sort across lanes or warps costs more than accesses of fewer bytes. */
static int
sorted_dim(const Func *f, const Type *tile, int fast, const int shape[LAYOUT_RANK], int held)
{
	for (int d = 0; d < tile->rank; d++)
		if (d != fast && tile->extent[d] <= LINE_SHORT && shape[d] <= held && is_sorted(f, tile, d))
			return d;
	return -1;
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
	int scanned = scanned_dim(f, tile, order[0]), held = total - lanes - warps;
	int sorted = near ? -1 : sorted_dim(f, tile, order[0], shape, held);
	if (sorted >= 0) {
		scanned = sorted;
		k = MIN(k, held - shape[sorted]);
	}
	Layout l = near           ? overlap_rows(tile, order, shape, n->reach, k, lanes, warps)
	           : scanned >= 0 ? layout_scanned(tile->rank, shape, order, k, scanned, lanes, warps)
	                          : layout_coalesced(tile->rank, shape, order, k, lanes, warps);
	int record = near || scanned >= 0 || dim != tile->rank - 1 ? 0 : access_record_bits(op);
	if (record > k)
		keep_in_warps(&l, k, record);
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
		f->schedule.warps = coalesce_warps(f, t);
	if (!tiles_fit(f, t))
		return;
	axis_keep(f);
	Near near = {0};
	for (EACH_OP(op, f->body))
		if (op_is_access(op))
			coalesce_op(op, t, &near);
	func_number(f);
}
