/* Results leave by tensor maps: where a tile would be converted through shared memory to a layout that stores well, it is
 * put there once, as it is, and the hardware stores it.
 *
 *     %d = convert %c : bf16[128, 256] #4
 *     write %y, %i, %j, %d {index = "pp", extents = [128, 256]}
 *  =>
 *     %s = alloc : buffer<1 x bf16[128, 256]> #9          boxes of 128 bytes
 *     put %s, %c                                          by stmatrix, if %c is of a matrix instruction's layout
 *     proxy_fence
 *     send %y, %i, %j, %s {index = "pp", extents = [128, 256]}
 *     …
 *     sent {read = true}                                  before the kernel ends, or the role
 *
 * Where each warp has rows of its own, as of a product of warpgroups, or some columns of some rows, it sends them itself
 * ({by = "warp"}): no barrier of the block goes before, and warpgroups need not be at the same program.
 *
 * Floats of 32 bits that an atomic adds to a tensor go in the same way ({fn = "add"}), where nothing uses its old values: a
 * thread's atomics are of 8 bytes each, and the hardware adds whole boxes.  Sums need no order.
 *
 * The map drops what is outside of the tensor.  A send goes on by itself: in a loop over programs the next one begins
 * meanwhile, and before a put the sends of its buffer are waited for.  Where another loop may write an element again, one
 * thread sends all, and first waits until what it has sent is in memory (without {read}): nothing else orders two sends.
 * So it is before an atomic that releases: who acquires its value may read what was sent, or add to it in turn.
 * Buffers of a loop stand before it and keep their bytes; of a write outside of loops, smem gives them those of rings that
 * are no longer needed.
 *
 * A tile that there is no room for goes in pieces of 128 bytes of its rows, through two buffers in turn or one, where a
 * piece is some of each thread's registers:
 *
 *     sent {left = 1, read = true}
 *     %p = extract %c, %0, %64 {index = "pp", extents = [128, 64]}
 *     put %b1, %p …
 *
 * So does one of which columns were added, {valid = [128, 160]}: in pieces that end where it ends.  Of one whose columns
 * lie in several threads, as a transposed product's do, pieces are rows, and the last is sent as far as it is valid.
 *
 * Writes of kernels without matrix instructions stay, and others do: tiles of which a map can not serve the tensor
 * (map_reason), small ones, and those whose tensor is accessed elsewhere in the kernel, as nothing orders a send with
 * other accesses. */
#include "pass/async/pipeline.h"

#include "model/model.h"

#include <string.h>

enum {
	ROW_BYTES = 128,                                /* of a box; the widest swizzle */
	LEAST_ROW = 64,                                 /* bytes of a row of the tile */
	LEAST_ELEMENTS = 2048,
	STORE_BYTES = 16,                               /* a thread's access: writes as wide as this need no convert */
	BUFFERS = 2, BUFFERS_MOST = 8,
	PERIOD = 8,                                     /* rows, of the swizzle */
	PIECE_BYTES = 16384,                            /* of rows, at most */
};

typedef struct Drain {
	Module *m;
	Func *f;
	const Target *t;
	Block *sent;                                    /* the kernel's body or the role that sends; NULL: none does */
	bool is_by_warp;                                /* of the write that is drained; at the end: of any */
	int64_t shares[2];                              /* then: how many warps divide its rows and columns */
	bool was_by_warp;
} Drain;

/* ---- which writes ---- */

/* Only kernels with a product by matrix instructions, whose layouts store badly. */
static bool
has_product(const Func *f)
{
	return ANY_OP(op, f->body, op->kind == OP_DOT_START || (op->kind == OP_DOT && *attr_mma(op)));
}

static bool
has_pointers(const Func *f)
{
	return ANY_OP(op, f->body, op->kind == OP_INLINE_PTX || (op_is_access(op) && !access_is_tensor(op)));
}

/* May an iteration write elements that an earlier one of this program has written? */
static bool
writes_again(const Op *write)
{
	for (const Block *b = write->home; b->parent; b = b->parent->home) {
		bool is_loop = b->parent->kind == OP_FOR || b->parent->kind == OP_WHILE;
		if (is_loop && !op_is_over_programs(b->parent) && !iterations_disjoint(write, b))
			return true;
	}
	return false;
}

/* But for what it replaces, which is read, or copied behind a loop (epilogue_load.c), before it is computed; not in a loop
 * that reads again what an iteration before may still be sending. */
static bool
is_only_access(const Func *f, const Op *write)
{
	for (const Op *op = f->body->first; op; op = op_after(op, f->body)) {
		bool is_behind = op_is_bulk_copy(op) && op->home->parent && op_is_over_programs(op->home->parent);
		bool is_access = op->nin > 0 && op->in[0] == write->in[0] && op->kind != OP_DIM && op->kind != OP_STRIDE;
		if (op != write && is_access && !is_behind && (!pipeline_replaces(write, op) || writes_again(write)))
			return false;
	}
	return true;
}

/* Of an atomic: sums of floats, in no order that programs could observe. */
static bool
adds_floats(const Func *f, const Op *op)
{
	bool is_sum = op->kind == OP_ATOMIC && op->out[0].nuses == 0 && strcmp(attr_fn(op), "add") == 0;
	return is_sum && op->out[0].type->elem == TY_F32 && strcmp(attr_scope(op), "sys") != 0 &&
	    (strcmp(attr_order(op), "relaxed") == 0 || !func_observes_order(f));
}

/* What is to be put: the operand of a convert through shared memory, or a tile that would be stored in small accesses.
 * NULL: the write is well as it is. */
static Value *
source_of(const Op *write)
{
	Value *v = write->in[access_data(write)];
	int bytes = element_bytes(v->type);
	const Op *c = v->def && v->def->kind == OP_CONVERT ? v->def : NULL;
	if (c && v->nuses == 1 && convert_scratch(c->in[0]->layout, v->layout, bytes) > 0)
		return c->in[0];
	return attr_vector(write) * bytes < STORE_BYTES ? v : NULL;
}

static int64_t
written(const Op *write, int d)
{
	const IntList *valid = attr_valid(write);
	return valid ? valid->at[d] : write->in[access_data(write)]->type->extent[d];
}

/* Columns of a write's tile that are there: all, or as many as make whole pieces; 0: others. */
static int64_t
written_columns(const Op *write)
{
	const Type *t = write->in[access_data(write)]->type;
	int64_t columns = written(write, t->rank - 1);
	return columns * element_bytes(t) % LEAST_ROW ? 0 : columns;
}

/* Rows that are there, in whole periods of the swizzle, of a tile that has all columns; 0: others, or of several tiles. */
static int64_t
written_rows(const Op *write)
{
	const Type *t = write->in[access_data(write)]->type;
	int64_t rows = written(write, 0);
	return t->rank != 2 || rows % PERIOD || written(write, 1) != t->extent[1] ? 0 : rows;
}

static bool
has_all_rows(const Op *write)
{
	const Type *t = write->in[access_data(write)]->type;
	return ALL_OF(d, t->rank - 1, written(write, d) == t->extent[d]);
}

bool
drain_serves(const Func *f, const Target *t, const Op *op)
{
	if ((op->kind != OP_WRITE && !adds_floats(f, op)) || access_map_reason(op, t) || !is_only_access(f, op) ||
	    !bulk_begins_within(op))
		return false;
	const Value *v = op->in[access_data(op)];
	int bytes = element_bytes(v->type), rank = v->type->rank;
	int64_t count = has_all_rows(op) ? type_count(v->type) : written_rows(op) * written(op, rank - 1);
	return (bytes == 2 || bytes == 4) && rank >= 2 && written_columns(op) > 0 && count >= LEAST_ELEMENTS;
}

static bool
is_drained(const Drain *d, const Op *op)
{
	bool is_access = op->kind == OP_WRITE || op->kind == OP_ATOMIC;
	return is_access && drain_serves(d->f, d->t, op) &&
	    op->in[access_data(op)]->layout && source_of(op);
}

/* ---- room ---- */

/* The op of the kernel's body that holds it. */
static Op *
outermost(const Func *f, Op *op)
{
	while (op->home != f->body)
		op = op->home->parent;
	return op;
}

static bool
is_in_loop(const Op *op)
{
	return FIND_NEXT(p, op->home->parent, p->home->parent, op_is_loop(p)) != NULL;
}

/* Of a loop, and of what comes behind it, where its slots are free again. */
int64_t
drain_room(const Func *f, const Target *t, Op *write)
{
	const Op *loop = is_in_loop(write) ? outermost(f, write) : NULL;
	if (!loop)
		return smem_room(f, t, write, write, NULL);
	int64_t inside = smem_room(f, t, write, loop, loop->next), behind = smem_room(f, t, write, loop->next, NULL);
	return MIN(inside, behind) / op_groups(write);
}

bool
drain_releases(const Op *op)
{
	const char *order = op_family(op) == FAMILY_ATOMIC ? attr_order(op) : "relaxed";
	return strcmp(order, "relaxed") != 0 && strcmp(order, "acquire") != 0;
}

/* ---- the ops ---- */

/* How a tile goes: in pieces of `each` along dimension `dim` through so many buffers. */
typedef struct Way {
	int dim;
	int64_t each;
	int pieces, buffers;
} Way;

bool
drain_in_registers(const Layout *l, int dim, int low)
{
	uint64_t bits = ((UINT64_C(1) << l->out[dim]) - (UINT64_C(1) << low)) << layout_out_at(l, dim);
	for (int i = l->in[IN_REGISTER]; i < l->map.nin; i++)
		if (l->map.col[i] & bits)
			return false;
	return true;
}

static int
count_buffers(int64_t room, int64_t each, int pieces, bool rotates)
{
	return (int)MIN(room / each, rotates ? BUFFERS : MIN(pieces, BUFFERS_MOST));
}

static bool
in_columns(const Op *write, const Value *v, int64_t room, Way *out)
{
	int bytes = element_bytes(v->type), fast = v->type->rank - 1;
	int64_t cols = written_columns(write), extent = v->type->extent[fast];
	int64_t all = type_count(v->type) / extent * cols * bytes;
	if (!has_all_rows(write))
		return false;
	*out = (Way){fast, cols, 1, 1};
	if (all <= room && cols == extent)
		return true;
	out->each = MIN(cols & -cols, ROW_BYTES / bytes);       /* the most that a box has and that divide a tile's */
	out->pieces = (int)(cols / out->each);
	out->buffers = count_buffers(room, all / out->pieces, out->pieces, cols == extent || is_in_loop(write));
	return out->pieces > 1 && out->buffers > 0 && drain_in_registers(v->layout, fast, log2_ceil(out->each));
}

/* Whole, or in pieces of as many rows as PIECE_BYTES have. */
static bool
in_rows(const Op *write, const Value *v, int64_t room, Way *out)
{
	int64_t rows = written_rows(write), line = v->type->extent[v->type->rank - 1] * element_bytes(v->type);
	if (rows == 0)
		return false;
	*out = (Way){0, v->type->extent[0], 1, 1};
	if (out->each * line <= room)
		return true;
	out->each = MAX(INT64_C(1) << log2_floor(PIECE_BYTES / line), PERIOD);
	out->pieces = (int)((rows + out->each - 1) / out->each);
	out->buffers = count_buffers(room, out->each * line, out->pieces, true);
	return out->buffers > 0 && drain_in_registers(v->layout, 0, log2_ceil(out->each));
}

static bool
choose_way(const Drain *d, Op *write, const Value *v, Way *out)
{
	int64_t room = drain_room(d->f, d->t, write);
	return in_columns(write, v, room, out) || in_rows(write, v, room, out);
}

Value *
drain_buffer(Builder *b, const Op *of, const Type *tile)
{
	int shape[LAYOUT_RANK];
	layout_shape(tile->rank, tile->extent, shape);
	Layout l = layout_boxed(tile->rank, shape, layout_last_first(tile->rank), ROW_BYTES, element_bytes(tile));
	int region, groups = op_groups(of);
	Value *v = build0(b, OP_ALLOC, type_buffer(b->m, tile->elem, groups, tile->rank, tile->extent));
	v->layout = layout_intern(b->m, &l);
	if (groups == 1)
		return v;
	Block *role = op_roles(of, &region)->region[region];
	Builder in = build_before(role->first);
	return build_slot(&in, v, &role->arg[0]);
}

int64_t
drain_bytes(Func *f, const Target *t, const Op *write)
{
	Drain d = {.m = f->module, .f = f, .t = t};
	if (!has_product(f) || has_pointers(f) || !is_drained(&d, write))
		return 0;
	const Value *v = source_of(write);
	int bytes = element_bytes(v->type), fast = v->type->rank - 1;
	int64_t column = type_count(v->type) / v->type->extent[fast] * bytes, all = column * written_columns(write);
	Way way;
	bool in_pieces = in_columns(write, v, all - 1, &way) || in_rows(write, v, all - 1, &way);
	int64_t each = way.dim == fast ? column * way.each : all / v->type->extent[0] * way.each;
	return in_pieces ? MIN(all, BUFFERS * each) : all;
}

Value *
drain_piece(Builder *b, Value *v, const Type *tile, int dim, int64_t from)
{
	static const char letters[] = "ppppp";
	Value *in[1 + KERNEL_RANK] = {v};
	SlicePlan slice;
	if (tile == v->type)
		return v;
	for (int i = 0; i < tile->rank; i++)
		in[1 + i] = build_index(b, i == dim ? from : 0);
	Attr attr[] = {attr_new_index(b->m, &letters[KERNEL_RANK - tile->rank]),
		attr_new_extents(b->m, tile->extent, tile->rank)};
	Op *op = op_make(b, OP_EXTRACT, in, 1 + tile->rank, attr, 2, NULL, 0);
	plan_slice(op, &slice);
	if (slice.way != SLICE_REGISTERS)
		die("a piece of a tile that is not of each thread's registers");
	op->out[0].layout = layout_intern(b->m, &slice.made);
	return &op->out[0];
}

bool
drain_has_warps(const Layout *l, int warps)
{
	int64_t shares[2];
	return layout_warp_shares(l, warps, PERIOD, shares) && shares[0] == warps;
}

/* Has each warp boxes of its own? */
static bool
has_shares(const Layout *l, const Op *write, int64_t shares[2])
{
	int bytes = element_bytes(access_tile(write)->type);
	return layout_warp_shares(l, op_warps(write), PERIOD, shares) &&
	    (shares[1] == 1 || ((INT64_C(1) << l->out[1]) / shares[1] * bytes) % ROW_BYTES == 0);
}

static void
make_sent(Drain *d, Builder *b, int left)
{
	Attr attr[] = {attr_new_left(d->m, left), attr_new_read(d->m, true), attr_new_by(d->m, "warp")};
	op_make(b, OP_SENT, NULL, 0, attr, d->is_by_warp ? 3 : 2, NULL, 0);
}

static void
make_written(Drain *d, Builder *b)
{
	Attr attr[] = {attr_new_left(d->m, 0), attr_new_by(d->m, "warp")};
	op_make(b, OP_SENT, NULL, 0, attr, d->is_by_warp ? 2 : 1, NULL, 0);
}

/* As the write has it, from `from` on along dimension `dim` of the tile. */
static Op *
make_send(Drain *d, Builder *b, const Op *write, Value *slot, int dim, int64_t from)
{
	Value *in[2 + KERNEL_RANK];
	int rank = write->in[0]->type->rank, nattr = 1, at[KERNEL_RANK];
	const Type *t = slot->type;
	int64_t left = written(write, dim) - from;
	Attr attr[6] = {attr_new_index(d->m, attr_index(write))};
	memcpy(in, write->in, sizeof(Value *) * (size_t)(1 + rank));
	access_dims(write, at);
	for (int i = 0; i < rank && from; i++)
		if (attr_index(write)[i] == 'p' && at[i] == dim)
			in[1 + i] = build2(b, OP_ADD, in[1 + i], build_index(b, from));
	in[1 + rank] = slot;
	if (attr_extents(write))
		attr[nattr++] = attr_new_extents(d->m, t->extent, t->rank);
	if (attr_merged(write))
		attr[nattr++] = *op_attr(write, ATTR_MERGED);
	if (d->is_by_warp)
		attr[nattr++] = attr_new_by(d->m, "warp");
	if (d->is_by_warp && d->shares[1] > 1)
		attr[nattr++] = attr_new_shares(d->m, d->shares, 2);
	if (write->kind == OP_ATOMIC)
		attr[nattr++] = attr_new_fn(d->m, "add");
	Op *send = op_make(b, OP_SEND, in, 2 + rank, attr, nattr, NULL, 0);
	if (dim == 0 && left < t->extent[0])
		attr_set_valid(d->m, send, (int64_t[]){left, t->extent[1]}, 2);
	return send;
}

/* Puts a tile in as many banks at once as it can.  Of an accumulator's rows of floats of 32 bits, pairs of lanes lie in
 * swizzled boxes two by two in the same banks: selects bring every second row's registers to others. */
static void
make_put(Drain *d, Builder *b, Value *slot, Value *v)
{
	Layout l = *v->layout;
	if (element_bytes(v->type) == 4)
		l = plan_spread(v->layout, slot->layout, v->type->elem, d->t);
	if (!layout_equal(&l, v->layout)) {
		v = build1(b, OP_CONVERT, v, v->type);
		v->layout = layout_intern(d->m, &l);
	}
	op_make(b, OP_PUT, (Value *[]){slot, v}, 2, NULL, 0, NULL, 0);
}

static void
drain(Drain *d, Op *write)
{
	Value *v = source_of(write), *buffer[BUFFERS_MOST];
	int64_t extent[MAX_RANK];
	Op *convert = write->in[access_data(write)]->def;
	const Op *last = NULL;
	Way way;
	if (!choose_way(d, write, v, &way))
		return;
	memcpy(extent, v->type->extent, sizeof extent);
	extent[way.dim] = way.each;
	const Type *tile = way.pieces > 1 ? type_with_shape(d->m, v->type, v->type->rank, extent) : v->type;
	bool loops = is_in_loop(write), again = write->kind == OP_WRITE && writes_again(write);
	d->is_by_warp = !again && way.dim != 0 && !attr_valid(write) && has_shares(v->layout, write, d->shares) &&
	    (way.pieces == 1 || d->shares[1] == 1);
	Builder b = build_before(write), at = build_before(loops ? outermost(d->f, write) : write);
	for (int i = 0; i < way.buffers; i++)
		buffer[i] = drain_buffer(&at, write, tile);
	for (int p = 0; p < way.pieces; p++) {
		Value *slot = buffer[p % way.buffers], *piece = drain_piece(&b, v, tile, way.dim, p * way.each);
		bool is_turn = way.pieces % way.buffers == 0;   /* the next program begins with the buffer that is next */
		if (again && p == 0)
			make_written(d, &b);
		else if (loops && p == 0 && !is_turn)
			make_sent(d, &b, 0);
		else if ((loops && is_turn) || p >= way.buffers)
			make_sent(d, &b, way.buffers - 1);
		make_put(d, &b, slot, piece);
		op_make(&b, OP_PROXY_FENCE, NULL, 0, NULL, 0, NULL, 0);
		last = make_send(d, &b, write, slot, way.dim, p * way.each);
	}
	op_erase(write);
	d->was_by_warp |= d->is_by_warp;
	if (convert && convert->kind == OP_CONVERT && convert->out[0].nuses == 0)
		op_erase(convert);
	int region;
	const Op *roles = op_roles(last, &region);
	d->sent = roles ? roles->region[region] : d->f->body;
}

void
pass_drain(Func *f, const Target *t)
{
	Drain d = {.m = f->module, .f = f, .t = t};
	if (!(t->has & HAS_TMA) || !has_product(f) || has_pointers(f))
		return;
	axis_drop(d.m);
	bool observed = func_observes_order(f);
	for (EACH_OP(op, f->body))
		if (is_drained(&d, op))
			drain(&d, op);
	d.is_by_warp = d.was_by_warp;
	for (Op *op = f->body->first; d.sent && observed && op; op = op_after(op, f->body))
		if (drain_releases(op)) {
			Builder b = build_before(op);
			make_written(&d, &b);
		}
	bool is_region = d.sent && d.sent != f->body;
	Builder end = {.m = d.m, .block = d.sent, .before = is_region ? d.sent->last : NULL, .place = f->place};
	if (d.sent)
		make_sent(&d, &end, 0);
}
