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
 * The map drops what is outside of the tensor.  A send goes on by itself: in a loop over programs the next one begins
 * meanwhile, and before a put the sends of its buffer are waited for.  Buffers of such a loop stand before it and keep
 * their bytes; of a write outside of loops, smem gives them those of rings that are no longer needed.
 *
 * A tile that there is no room for goes in pieces of 128 bytes of its rows, through two buffers in turn or one, where a
 * piece is some of each thread's registers:
 *
 *     sent {left = 1, read = true}
 *     %p = extract %c, %0, %64 {index = "pp", extents = [128, 64]}
 *     put %b1, %p …
 *
 * So does one of which columns were added, {valid = [128, 160]}: in pieces that end where it ends.
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
	SLOT_ALIGN = 1024,
	BUFFERS = 2, BUFFERS_MOST = 8,
};

typedef struct Drain {
	Module *m;
	Func *f;
	const Target *t;
	Block *sent;                                    /* the kernel's body or the role that sends; NULL: none does */
} Drain;

/* ---- which writes ---- */

/* Only kernels with a product by matrix instructions, whose layouts store badly. */
static bool
has_product(const Func *f)
{
	for (const Op *op = f->body->first; op; op = op_after(op, f->body))
		if (op->kind == OP_DOT_START || (op->kind == OP_DOT && *attr_mma(op)))
			return true;
	return false;
}

static bool
has_pointers(const Func *f)
{
	for (const Op *op = f->body->first; op; op = op_after(op, f->body))
		if (op->kind == OP_INLINE_PTX || (op_is_access(op) && !access_is_tensor(op)))
			return true;
	return false;
}

static bool
is_only_access(const Func *f, const Op *write)
{
	for (const Op *op = f->body->first; op; op = op_after(op, f->body))
		if (op != write && op->nin > 0 && op->in[0] == write->in[0] && op->kind != OP_DIM && op->kind != OP_STRIDE)
			return false;
	return true;
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

/* Groups of warps that run one region would share its buffers. */
static bool
is_of_one_group(const Op *op)
{
	int region;
	const Op *roles = op_roles(op, &region);
	return !roles || attr_copies(roles)->at[region] == 1;
}

/* Columns of a write's tile that are there: all, or as many as make whole pieces; 0: rows were added, or others. */
static int64_t
written_columns(const Op *write)
{
	const Type *t = write->in[access_data(write)]->type;
	const IntList *valid = attr_valid(write);
	int64_t columns = valid ? valid->at[t->rank - 1] : t->extent[t->rank - 1];
	for (int d = 0; valid && d < t->rank - 1; d++)
		if (valid->at[d] != t->extent[d])
			return 0;
	return columns * element_bytes(t) % LEAST_ROW ? 0 : columns;
}

bool
drain_serves(const Func *f, const Target *t, const Op *op)
{
	if (op->kind != OP_WRITE || access_map_reason(op, t) || !is_only_access(f, op))
		return false;
	const Value *v = op->in[access_data(op)];
	int bytes = element_bytes(v->type), rank = v->type->rank;
	return (bytes == 2 || bytes == 4) && rank >= 2 && written_columns(op) > 0 &&
	    type_count(v->type) >= LEAST_ELEMENTS;
}

static bool
is_drained(const Drain *d, const Op *op)
{
	return op->kind == OP_WRITE && is_of_one_group(op) && drain_serves(d->f, d->t, op) &&
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
	for (const Op *p = op->home->parent; p; p = p->home->parent)
		if (p->kind == OP_FOR || p->kind == OP_WHILE)
			return true;
	return false;
}

static bool
is_used_from(const Func *f, const Op *alloc, const Op *from)
{
	for (const Op *op = from; op; op = op_after(op, f->body))
		for (int i = 0; i < op->nin; i++)
			if (buffer_owner(op->in[i]) == alloc)
				return true;
	return false;
}

/* Bytes for buffers that live with those of a write: all, or outside of loops those that are not over by then. */
static int64_t
room_for(const Drain *d, Op *write)
{
	int64_t room = d->t->shared_bytes, scratch = 0;
	const Op *from = is_in_loop(write) ? d->f->body->first : write;
	for (const Op *op = d->f->body->first; op; op = op_after(op, d->f->body)) {
		const Type *t = op->nout ? op->out[0].type : NULL;
		if (op->kind == OP_ALLOC && is_used_from(d->f, op, from))
			room -= (dtype_bytes(t->elem, type_count(t)) * t->slots + SLOT_ALIGN - 1) / SLOT_ALIGN * SLOT_ALIGN;
		else if (op->kind == OP_MBARRIER)
			room -= SLOT_ALIGN;
		else if (op != write->in[access_data(write)]->def)
			scratch = MAX(scratch, plan_op(op, d->t).scratch);
	}
	return room - scratch;
}

/* ---- the ops ---- */

/* The most columns that a box has and that divide a tile's. */
static int64_t
piece_columns(int64_t columns, int bytes)
{
	return MIN(columns & -columns, ROW_BYTES / bytes);
}

/* How a tile goes: pieces of `cols` columns through so many buffers. */
typedef struct Way {
	int64_t cols;
	int pieces, buffers;
} Way;

/* Are the bits of coordinate `dim` from `low` on bits of registers alone? */
static bool
are_register_bits(const Layout *l, int dim, int low)
{
	uint64_t bits = ((UINT64_C(1) << l->out[dim]) - (UINT64_C(1) << low)) << layout_out_at(l, dim);
	for (int i = l->in[IN_REGISTER]; i < l->map.nin; i++)
		if (l->map.col[i] & bits)
			return false;
	return true;
}

static bool
choose_way(const Drain *d, Op *write, const Value *v, Way *out)
{
	int bytes = element_bytes(v->type), fast = v->type->rank - 1;
	int64_t room = room_for(d, write), cols = written_columns(write), extent = v->type->extent[fast];
	int64_t all = type_count(v->type) / extent * cols * bytes;
	*out = (Way){cols, 1, 1};
	if (all <= room && cols == extent)
		return true;
	out->cols = piece_columns(cols, bytes);
	out->pieces = (int)(cols / out->cols);
	int64_t each = all / out->pieces, fit = room / each;
	bool rotates = cols == extent || is_in_loop(write);
	out->buffers = (int)MIN(fit, rotates ? BUFFERS : MIN(out->pieces, BUFFERS_MOST));
	if (out->pieces < 2 || out->buffers < 1)
		return false;
	return are_register_bits(v->layout, fast, log2_ceil(out->cols));
}

static Value *
make_buffer(Drain *d, Builder *b, const Type *tile)
{
	int order[LAYOUT_RANK], shape[LAYOUT_RANK];
	for (int i = 0; i < tile->rank; i++) {
		order[i] = tile->rank - 1 - i;
		shape[i] = log2_ceil(tile->extent[i]);
	}
	Layout l = layout_boxed(tile->rank, shape, order, ROW_BYTES, element_bytes(tile));
	Value *v = build0(b, OP_ALLOC, type_buffer(d->m, tile->elem, 1, tile->rank, tile->extent));
	v->layout = layout_intern(d->m, &l);
	return v;
}

int64_t
drain_bytes(Func *f, const Target *t, const Op *write)
{
	Drain d = {.m = f->module, .f = f, .t = t};
	if (!has_product(f) || has_pointers(f) || !is_drained(&d, write))
		return 0;
	const Value *v = source_of(write);
	int bytes = element_bytes(v->type), fast = v->type->rank - 1;
	int64_t column = type_count(v->type) / v->type->extent[fast] * bytes, written = written_columns(write);
	int64_t cols = piece_columns(written, bytes);
	bool in_pieces = are_register_bits(v->layout, fast, log2_ceil(cols));
	return column * (in_pieces ? MIN(written, BUFFERS * cols) : written);
}

/* Some columns of a tile, which are some of each thread's registers. */
static Value *
make_piece(Drain *d, Builder *b, Value *v, const Type *tile, int64_t from)
{
	static const char letters[] = "ppppp";
	Value *in[1 + KERNEL_RANK] = {v};
	SlicePlan slice;
	if (tile == v->type)
		return v;
	for (int i = 0; i < tile->rank; i++)
		in[1 + i] = build_index(b, i == tile->rank - 1 ? from : 0);
	Attr attr[] = {attr_new_index(d->m, &letters[KERNEL_RANK - tile->rank]),
		attr_new_extents(d->m, tile->extent, tile->rank)};
	Op *op = op_make(b, OP_EXTRACT, in, 1 + tile->rank, attr, 2, NULL, 0);
	plan_slice(op, &slice);
	if (slice.way != SLICE_REGISTERS)
		die("a piece of a tile that is not of each thread's registers");
	op->out[0].layout = layout_intern(d->m, &slice.made);
	return &op->out[0];
}

static void
make_sent(Drain *d, Builder *b, int left)
{
	Attr attr[] = {attr_new_left(d->m, left), attr_new_read(d->m, true)};
	op_make(b, OP_SENT, NULL, 0, attr, 2, NULL, 0);
}

/* As the write has it, from column `from` on. */
static Op *
make_send(Drain *d, Builder *b, const Op *write, Value *slot, int64_t from)
{
	Value *in[2 + KERNEL_RANK];
	int rank = write->in[0]->type->rank, nattr = 1;
	Attr attr[2] = {attr_new_index(d->m, attr_index(write))};
	memcpy(in, write->in, sizeof(Value *) * (size_t)(1 + rank));
	if (from)
		in[rank] = build2(b, OP_ADD, in[rank], build_index(b, from));
	in[1 + rank] = slot;
	if (attr_extents(write))
		attr[nattr++] = attr_new_extents(d->m, slot->type->extent, slot->type->rank);
	return op_make(b, OP_SEND, in, 2 + rank, attr, nattr, NULL, 0);
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
	extent[v->type->rank - 1] = way.cols;
	const Type *tile = way.pieces > 1 ? type_with_shape(d->m, v->type, v->type->rank, extent) : v->type;
	bool loops = is_in_loop(write);
	Builder b = build_before(write), at = build_before(loops ? outermost(d->f, write) : write);
	for (int i = 0; i < way.buffers; i++)
		buffer[i] = make_buffer(d, &at, tile);
	for (int p = 0; p < way.pieces; p++) {
		Value *slot = buffer[p % way.buffers], *piece = make_piece(d, &b, v, tile, p * way.cols);
		bool is_turn = way.pieces % way.buffers == 0;   /* the next program begins with the buffer that is next */
		if (loops && p == 0 && !is_turn)
			make_sent(d, &b, 0);
		else if ((loops && is_turn) || p >= way.buffers)
			make_sent(d, &b, way.buffers - 1);
		op_make(&b, OP_PUT, (Value *[]){slot, piece}, 2, NULL, 0, NULL, 0);
		op_make(&b, OP_PROXY_FENCE, NULL, 0, NULL, 0, NULL, 0);
		last = make_send(d, &b, write, slot, p * way.cols);
	}
	op_erase(write);
	if (convert && convert->kind == OP_CONVERT && convert->out[0].nuses == 0)
		op_erase(convert);
	int region;
	const Op *roles = op_roles(last, &region);
	d->sent = roles ? roles->region[region] : d->f->body;
}

void
pass_drain(Module *m, const Target *t)
{
	for (int i = 0; i < m->funcs.n && (t->has & HAS_TMA); i++) {
		Drain d = {.m = m, .f = m->funcs.at[i], .t = t};
		if (!has_product(d.f) || has_pointers(d.f))
			continue;
		axis_drop(m);
		for (Op *op = d.f->body->first, *next; op; op = next) {
			next = op_after(op, d.f->body);
			if (is_drained(&d, op))
				drain(&d, op);
		}
		bool is_region = d.sent && d.sent != d.f->body;
		Builder end = {.m = m, .block = d.sent, .before = is_region ? d.sent->last : NULL, .place = d.f->place};
		if (d.sent)
			make_sent(&d, &end, 0);
	}
}
