/* Wide writes through shared memory: where a ring leaves room for it, 128 bytes of each row of the tile at a time.
 *
 *     write %y, %rows, %j, %c {index = "gp", extents = [256]}        8 warps with 16 rows each, as a product has them
 *  =>
 *     %s = alloc : buffer<1 x bf16[128, 64]> #9                      before the roles; boxes of 128 bytes
 *     %p = extract %c, %0, %64 …                                     of each thread's registers
 *     put %s, %p                                                     by stmatrix
 *     %w = get %s : bf16[128, 64] #10                                8 lanes a row, 16 bytes each
 *     write %y, %rows.1, (add %j, %64), %w {index = "gp", extents = [64]}
 *
 * Each warp reads what it has put itself, so that no barrier of the block stands between.  A piece of 64 columns of bf16
 * takes 4 stmatrix and 4 loads, where shuffles take 12 and 64 selects, and a warp's access covers lines of 4 rows in place
 * of halves of 8.  Indices of rows are computed again for the layout of the pieces, or converted. */
#include "pass/place/widen.h"

#include "ir/derive.h"
#include "model/model.h"
#include "pass/async/pipeline.h"
#include "pass/layout/anchor.h"

enum { ROW_BYTES = 128, ACCESS_BYTES = 16, BUFFERS = 2, DEEP = 12 };

/* As the piece's, with so many bytes of a row in a thread, the rest of the row in lanes, and a warp's rows behind those. */
static Layout
rows_of(const Layout *piece, int log_bytes)
{
	Layout l = *piece;
	int row = l.out[1], mine = log2_ceil(ACCESS_BYTES) - log_bytes, lanes = l.in[IN_LANE] - (row - mine), n = 0;
	int warp_rows = l.out[0] - l.in[IN_WARP], at = layout_out_at(&l, 0);

	for (int i = 0; i < mine; i++)
		l.map.col[n++] = UINT64_C(1) << i;
	for (int i = lanes; i < warp_rows; i++)
		l.map.col[n++] = UINT64_C(1) << (at + i);
	for (int i = mine; i < row; i++)
		l.map.col[n++] = UINT64_C(1) << i;
	for (int i = 0; i < lanes; i++)
		l.map.col[n++] = UINT64_C(1) << (at + i);
	return l;
}

static bool
is_cheap(const Op *op)
{
	return op && op->nregion == 0 && op->nout == 1 &&
	    (op->kind == OP_IOTA || op->kind == OP_CONST || op->kind == OP_BROADCAST || op_has(op, ELEM));
}

/* The tile again in that layout; NULL: it would take more than a warp's shuffles. */
static Value *
in_layout(Builder *b, Value *v, const Layout *l, int depth)
{
	ConvertPlan c;

	if (!value_is_placed(v))
		return v;
	if (depth < DEEP && is_cheap(v->def)) {
		Value *in[8];
		for (int i = 0; i < v->def->nin; i++) {
			const Layout *own = value_is_placed(v->def->in[i]) ? anchor_operand(v->def, l, i) : NULL;
			if (value_is_placed(v->def->in[i]) && !own)
				return NULL;
			in[i] = in_layout(b, v->def->in[i], own, depth + 1);
			if (!in[i])
				return NULL;
		}
		return value_with_layout(build_like(b, v->def, in, v->type), l);
	}
	plan_convert(v->layout, l, element_bytes(v->type), &c);
	if (c.scratch)
		return NULL;
	return value_with_layout(build1(b, OP_CONVERT, v, NULL), l);
}

typedef struct Pieces {
	Op *write;
	Value *v, *buffer[BUFFERS], *index[1 + KERNEL_RANK];
	const Type *tile;
	const Layout *rows;
	int n, nbuffer, vector;
} Pieces;

static int
column_operand(const Op *write)
{
	int at[KERNEL_RANK];

	access_dims(write, at);
	return VALUE_OF(i, write->in[0]->type->rank, attr_index(write)[i] == 'p' && at[i] == 1, 1 + i, -1);
}

/* Indices of rows, as the pieces need them. */
static bool
find_indices(Pieces *x, Builder *b)
{
	for (int i = 1; i < access_data(x->write); i++) {
		Value *v = x->write->in[i];
		const Layout *own = value_is_placed(v) ? anchor_operand(x->write, x->rows, i) : NULL;
		x->index[i] = own ? in_layout(b, v, own, 0) : v;
		if (!x->index[i] || (value_is_placed(v) && !own))
			return false;
	}
	return true;
}

static bool
find_pieces(Pieces *x, const Func *f, const Target *t)
{
	Op *write = x->write;
	Value *v = write->in[access_data(write)];
	int bytes = element_bytes(v->type);
	int64_t extent[2], each = ROW_BYTES / bytes;

	if (v->type->rank != 2 || !v->layout || attr_valid(write) || write->nin != access_data(write) + 1 ||
	    column_operand(write) < 0)
		return false;
	extent[0] = v->type->extent[0];
	extent[1] = each;
	if (v->type->extent[1] < each || !drain_has_warps(v->layout, op_warps(write)) ||
	    !drain_in_registers(v->layout, 1, log2_ceil(each)) || v->layout->in[IN_LANE] != log2_ceil(t->lanes))
		return false;
	x->v = v;
	x->n = (int)(v->type->extent[1] / each);
	x->tile = type_with_shape(f->module, v->type, 2, extent);
	int64_t slot = extent[0] * ROW_BYTES;
	x->nbuffer = (int)MIN(drain_room(f, t, write) / slot, MIN(BUFFERS, x->n));
	return x->nbuffer > 0;
}

static void
write_piece(const Pieces *x, Builder *b, int p)
{
	Module *m = b->m;
	Op *write = x->write;
	int data = access_data(write), column = column_operand(write);
	Value *slot = x->buffer[p % x->nbuffer], *in[2 + KERNEL_RANK];
	Value *piece = p ? drain_piece(b, x->v, x->tile, 1, p * x->tile->extent[1]) : x->index[0];

	op_make(b, OP_PUT, (Value *[]){slot, piece}, 2, NULL, 0, NULL, 0);
	Value *wide = build1(b, OP_GET, slot, x->tile);
	wide->layout = x->rows;
	in[0] = write->in[0];
	for (int i = 1; i < data; i++)
		in[i] = x->index[i];
	if (p)
		in[column] = build2(b, OP_ADD, in[column], build_index(b, p * x->tile->extent[1]));
	in[data] = wide;
	int64_t extents[KERNEL_RANK];
	const IntList *was = attr_extents(write);
	for (int i = 0; i < was->n; i++)
		extents[i] = i == was->n - 1 ? x->tile->extent[1] : was->at[i];
	Attr *attr = MAP_OF(m->cx->tmp, Attr, i, write->nattr,
	    write->attr[i].name == ATTR_EXTENTS ? attr_new_extents(m, extents, was->n) : write->attr[i]);
	Op *op = op_make(b, OP_WRITE, in, data + 1, attr, write->nattr, NULL, 0);
	attr_set_vector(m, op, x->vector);
}

bool
widen_pieces(Func *f, Op *write, const Target *t, int vector)
{
	Pieces x = {.write = write, .vector = vector};
	Builder b = build_before(write);
	Op *outer = write;

	if (!find_pieces(&x, f, t))
		return false;
	x.index[0] = drain_piece(&b, x.v, x.tile, 1, 0);
	Layout rows = rows_of(x.index[0]->layout, log2_ceil(element_bytes(x.v->type)));
	x.rows = layout_intern(f->module, &rows);
	if (!find_indices(&x, &b))
		return false;
	while (outer->home != f->body)
		outer = outer->home->parent;
	Builder before = build_before(outer);
	for (int i = 0; i < x.nbuffer; i++)
		x.buffer[i] = drain_buffer(&before, write, x.tile);
	for (int p = 0; p < x.n; p++)
		write_piece(&x, &b, p);
	op_erase(write);
	return true;
}
