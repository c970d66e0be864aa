/* Ops that move elements about, once there are gaps.
 *
 * A reshape keeps working where gaps stay at the end of what it takes apart or puts together: [3, 4] to [12] is [4, 4] to
 * [16]; so does a part that begins, where the compiler knows, at a multiple of its extent, a power of two.  A part of a cat
 * that begins at a multiple of its extent is repeated over the whole, of which each element takes its own.  Everything else
 * is made of gathers, which take each element from where it is: index tiles are computed from the true coordinates, and
 * what they give for added elements does not matter. */
#include "ir/derive.h"
#include "pass/shape/pad.h"

#include <string.h>

static bool
is_padded(const Pad *p, const Value *v)
{
	return pad_was(p, v) != v->type;
}

/* Groups of dimensions with equal products: in each only the first may be no power of two, on either side. */
static bool
reshape_commutes(const Type *a, const Type *b)
{
	int i = 0, j = 0;
	while (i < a->rank || j < b->rank) {
		int64_t x = 1, y = 1;
		bool first_a = true, first_b = true;
		do {
			bool take_a = i < a->rank && (x <= y || j >= b->rank);
			int64_t n = take_a ? a->extent[i++] : b->extent[j++];
			bool *first = take_a ? &first_a : &first_b;
			if (n != 1 && !*first && !is_power_of_two(n))
				return false;
			if (n != 1)
				*first = false;
			*(take_a ? &x : &y) *= n;
		} while (x != y && (i < a->rank || j < b->rank));
		if (x != y)
			return false;
	}
	return true;
}

static Value *
number(Builder *b, const Value *like, int64_t n)
{
	return build_int(b, like->type, n);
}

static Value *
gather(Builder *b, Value *v, Value *index, int axis)
{
	Attr a = attr_new_axis(b->m, axis);
	return &op_make(b, OP_GATHER, (Value *[]){v, index}, 2, &a, 1, NULL, 0)->out[0];
}

static void
replace(const Pad *p, Op *op, Value *v)
{
	pad_replace(p, &op->out[0], v);
	op_erase(op);
}

/* `at`, a position in a tile of type `from`, as that of the same coordinates in one of type `to`; added to `sum`. */
static Value *
renumber(Builder *b, Value *at, Value *sum, const Type *from, const Type *to)
{
	int64_t weight = 1;
	for (int d = from->rank - 1; d >= 0; d--) {
		Value *n = number(b, at, from->extent[d]);
		Value *c = build2(b, OP_REM, at, n);
		at = build2(b, OP_DIV, at, n);
		sum = build2(b, OP_ADD, sum, build2(b, OP_MUL, c, number(b, at, weight)));
		weight *= to->extent[d];
	}
	return sum;
}

/* Where the elements of `out` stand in the padded `in`: from the position in the padded result to coordinates, to the true
 * position, to the operand's coordinates, to its padded position. */
static Value *
moved(Builder *b, const Type *in, const Type *in_padded, const Type *out, const Type *out_padded)
{
	int64_t count = type_count(out_padded);
	const Type *flat = type_tile(b->m, TY_I32, 1, &count);
	Value *i = pad_iota(b, flat, TY_I32, 0), *linear = number(b, i, 0), *at = number(b, i, 0);
	return renumber(b, renumber(b, i, linear, out_padded, out), at, in, in_padded);
}

void
pad_reshape(const Pad *p, Op *op)
{
	Value *x = op->in[0];
	const Type *in = pad_was(p, x), *out = pad_was(p, &op->out[0]);
	if (reshape_commutes(in, out) || pad_gap(p, &op->out[0]))
		return;
	Builder b = build_before(op);
	int64_t count = type_count(x->type);
	Value *flat = build1(&b, OP_RESHAPE, x, type_with_shape(p->m, x->type, 1, &count));
	Value *index = moved(&b, in, x->type, out, op->out[0].type);
	replace(p, op, build1(&b, OP_RESHAPE, gather(&b, flat, index, 0), op->out[0].type));
}

/* Part i of a cat, from `start` on, as a tile of the cat's shape; elsewhere it holds anything. */
static Value *
part_of_cat(Builder *b, const Op *op, int i, int64_t start, Value *along)
{
	const Type *t = op->out[0].type, *part = op->in[i]->type;
	int axis = (int)attr_axis(op);
	if (start % part->extent[axis] == 0 && t->extent[axis] % part->extent[axis] == 0 && t->rank < LAYOUT_RANK)
		return build_repeat(b, op->in[i], axis, t->extent[axis] / part->extent[axis]);
	return gather(b, op->in[i], build2(b, OP_SUB, along, number(b, along, start)), axis);
}

/* Whole as long as every part is as it was and they add up to a power of two. */
void
pad_cat(const Pad *p, Op *op)
{
	int axis = (int)attr_axis(op);
	int64_t sum = pad_was(p, &op->out[0])->extent[axis];
	bool plain =
	    is_power_of_two(sum) &&
	    ALL_OF(i, op->nin, pad_was(p, op->in[i])->extent[axis] == op->in[i]->type->extent[axis]);
	if (plain)
		return;
	Builder b = build_before(op);
	Value *along = pad_iota(&b, op->out[0].type, TY_I32, axis), *all = NULL;
	for (int i = op->nin - 1; i >= 0; i--) {
		sum -= pad_was(p, op->in[i])->extent[axis];
		Value *part = part_of_cat(&b, op, i, sum, along);
		int64_t end = sum + pad_was(p, op->in[i])->extent[axis];
		all = all ? build3(&b, OP_SELECT, build2(&b, OP_LT, along, number(&b, along, end)), part, all) : part;
	}
	replace(p, op, all);
}

/* All of the tile, but along d the `extent` elements from `at` on. */
static Value *
part(Builder *b, Value *v, int d, int64_t at, int64_t extent)
{
	const Type *t = v->type;
	Value *in[1 + MAX_RANK] = {v}, *zero = build_int(b, type_scalar(b->m, TY_I64), 0);
	int64_t extents[MAX_RANK];
	char index[MAX_RANK + 1] = {0};
	for (int i = 0; i < t->rank; i++) {
		in[1 + i] = i == d ? build_int(b, zero->type, at) : zero;
		extents[i] = i == d ? extent : t->extent[i];
		index[i] = 'p';
	}
	Attr a[] = {attr_new_index(b->m, index), attr_new_extents(b->m, extents, t->rank)};
	return &op_make(b, OP_EXTRACT, in, 1 + t->rank, a, 2, NULL, 0)->out[0];
}

/* Few elements one by one, so that none leaves the thread that holds them all: the channels of records. */
static Value *
flip_few(Builder *b, Value *v, int axis, int64_t n, Value *along)
{
	Value *all = NULL;
	for (int64_t i = n - 1; i >= 0; i--) {
		Value *one = build1(b, OP_BROADCAST, part(b, v, axis, n - 1 - i, 1), v->type);
		all = all ? build3(b, OP_SELECT, build2(b, OP_EQ, along, number(b, along, i)), one, all) : one;
	}
	return all;
}

void
pad_flip(const Pad *p, Op *op)
{
	enum { FEW = 8 };
	int axis = (int)attr_axis(op);
	Value *v = op->in[0];
	int64_t n = pad_was(p, v)->extent[axis];
	if (n == v->type->extent[axis])
		return;
	Builder b = build_before(op);
	Value *along = pad_iota(&b, v->type, TY_I32, axis);
	if (n < FEW)
		replace(p, op, flip_few(&b, v, axis, n, along));
	else
		replace(p, op, gather(&b, v, build2(&b, OP_SUB, number(&b, along, n - 1), along), axis));
}

/* The `extent` elements along d from `start` on, which is clamped so that they are all within the `n` true ones. */
static Value *
take(Builder *b, Value *v, int d, Value *start, int64_t n, int64_t extent)
{
	const Type *t = v->type;
	const Attr *known = value_const(start);
	int64_t at = known && known->kind == KIND_INT ? MAX(MIN(known->i, n - extent), 0) : -1;
	if (at >= 0 && is_power_of_two(extent) && at % extent == 0)
		return part(b, v, d, at, extent);
	const Type *shape = type_with_extent(b->m, t, d, INT64_C(1) << log2_ceil(extent));
	start = build2(b, OP_MAX, build2(b, OP_MIN, start, number(b, start, n - extent)), number(b, start, 0));
	Value *along = pad_iota(b, shape, TY_I64, d);
	return gather(b, v, build2(b, OP_ADD, along, build1(b, OP_BROADCAST, start, along->type)), d);
}

void
pad_extract(const Pad *p, Op *op)
{
	Value *v = op->in[0];
	const Type *was = pad_was(p, v);
	const IntList *extents = attr_extents(op);
	const char *index = attr_index(op);
	bool padded = is_padded(p, v) || is_padded(p, &op->out[0]);
	if (!padded)
		return;
	Builder b = build_before(op);
	for (int d = 0, e = 0; d < was->rank; d++) {
		int64_t n = index[d] == 'p' ? extents->at[e++] : 1;
		if (n != was->extent[d])
			v = take(&b, v, d, op->in[1 + d], was->extent[d], n);
	}
	replace(p, op, build1(&b, OP_RESHAPE, v, op->out[0].type));
}

/* Out of range begins at the true extent. */
void
pad_gather(const Pad *p, Op *op)
{
	int axis = (int)attr_axis(op);
	Value *index = op->in[1];
	int64_t n = pad_was(p, op->in[0])->extent[axis];
	DType i = index->type->elem;
	if (n == op->in[0]->type->extent[axis])
		return;
	Builder b = build_before(op);
	b.before = op->next;
	if (dtype_info[i].bits < 32)
		index = build1(&b, OP_CAST, index, type_with_elem(p->m, index->type, TY_I32));
	Value *below = build2(&b, OP_LT, index, number(&b, index, n));
	const Type *t = op->out[0].type;
	Value *zero = t->ptr != PTR_NONE ? NULL : build_int(&b, t, 0);
	if (!zero)
		return;
	Op *select = op_make(&b, OP_SELECT, (Value *[]){below, &op->out[0], zero}, 3, NULL, 0, NULL, 0);
	pad_replace(p, &op->out[0], &select->out[0]);
	op_set_in(select, 1, &op->out[0]);
}

/* Whatever was added goes nowhere: its index is -1.  What was added to the tile holds anything. */
void
pad_scatter(const Pad *p, Op *op)
{
	pad_outside(p, op, 1, TY_I64);
}

/* ---- products whose K is put together from groups of no power of two keep the groups' gaps ----
 *
 *     %q = … : u32[64, 16, 10]                              %q = … : u32[64, 16, 16]
 *     %r = reshape %q : u32[64, 160]                        %r = reshape %q : u32[64, 256]
 *     %w = permute (cast %r) : f16[160, 64]              => %w = permute (select (i % 16 < 10), (cast %r), 0)
 *     %x = read …, %m, %k {index = "pp"} : f16[16, 160]     %x = read …, %m, (%k + i / 16 * 10 + i % 16) {index = "pg"}
 *     %d = dot %x, %w, %0                                   %d = dot %x, %w, %0
 *
 * A sum over K may be taken in any order that both operands have, so that no element moves: without gaps %r is a gather of
 * the whole tile through shared memory in each iteration.  Both operands are followed to where they come from: to such
 * reshapes, reads of tensors, and what is the same along K. */

#define OUTSIDE (INT64_C(1) << 41)                     /* of any tensor */

typedef struct Gaps {
	const Pad *p;
	int64_t group;                                  /* neighbours along K; 0: not known yet */
	bool marks;                                     /* the second time: note it in Pad.gap */
} Gaps;

/* Of each `padded(group)` elements along K the first `group` count. */
static int64_t
wide(int64_t group)
{
	return INT64_C(1) << log2_ceil(group);
}

/* [.., j, i, ..] to [.., j * i, ..] at d, where j is a power of two: else what was added would lie between the groups. */
static int64_t
joined_group(const Type *in, const Type *out, int d)
{
	bool same = in->rank == out->rank + 1 && in->extent[d] * in->extent[d + 1] == out->extent[d] &&
	    is_power_of_two(in->extent[d]) && !is_power_of_two(in->extent[d + 1]);
	for (int i = 0; i < out->rank && same; i++)
		same = i == d || in->extent[i + (i > d)] == out->extent[i];
	return same ? in->extent[d + 1] : 0;
}

static bool follow(Gaps *g, const Value *v, int d);

static bool
follow_reshape(Gaps *g, const Op *op, int d)
{
	const Pad *p = g->p;
	const Type *in = pad_was(p, op->in[0]), *out = pad_was(p, &op->out[0]);
	const Type *is = op->in[0]->type;
	int64_t group = joined_group(in, out, d);
	if (!group || (g->group && g->group != group))
		return false;
	g->group = group;
	return is->extent[d] == in->extent[d] && is->extent[d + 1] == wide(group) &&
	    op->out[0].type->extent[d] == is->extent[d] * is->extent[d + 1];
}

static bool
follow_read(const Op *op)
{
	return op->nin == access_data(op) && !strchr(attr_index(op), 'g') && !attr_slices(op);
}

static bool
follow_op(Gaps *g, const Op *op, int d)
{
	if (op->kind == OP_PERMUTE) {
		const IntList *dims = attr_dims(op);
		return follow(g, op->in[0], (int)dims->at[d]);
	}
	if (op->kind == OP_RESHAPE)
		return follow_reshape(g, op, d);
	if (op->kind == OP_READ)
		return follow_read(op);
	return op_has(op, ELEM) && ALL_OF(i, op->nin, follow(g, op->in[i], d));
}

/* May v have gaps along d?  What is the same along d may; else nothing but what is followed uses it. */
static bool
follow(Gaps *g, const Value *v, int d)
{
	const Op *op = v->def;
	if (!op || v->type->kind != TYPE_TILE)
		return false;
	if (op->kind == OP_CONST || (op->kind == OP_BROADCAST && op->in[0]->type->rank == v->type->rank &&
	    op->in[0]->type->extent[d] == 1))
		return true;
	if (v->nuses != 1 || v->id >= g->p->n || g->p->of[v->id] != v || !follow_op(g, op, d))
		return false;
	if (g->marks)
		g->p->gap[v->id] = (PadGap){g->group, d};
	return true;
}

void
pad_find_gaps(const Pad *p, const Op *dot)
{
	Gaps g = {.p = p};
	for (int pass = 0; pass < 2; pass++) {
		for (int i = 0; i < 2; i++)
			if (!follow(&g, dot->in[i], pad_dot_k(dot, i)))
				return;
		if (!g.group)
			return;
		g.marks = true;
	}
}

int64_t
pad_gap(const Pad *p, const Value *v)
{
	return v->id < p->n && p->of[v->id] == v ? p->gap[v->id].group : 0;
}

Value *
pad_within_group(Builder *b, const Type *t, int d, int64_t group)
{
	Value *i = pad_iota(b, t, TY_I32, d);
	Value *rest = build2(b, OP_REM, i, build_int(b, i->type, wide(group)));
	return build2(b, OP_LT, rest, build_int(b, i->type, group));
}

/* The tensor's dimension that the tile's dimension d runs along. */
static int
tensor_dim(const char *index, int d)
{
	int i = 0;
	for (int at = -1; index[i]; i++) {
		at += index[i] == 'p';
		if (at == d)
			break;
	}
	return i;
}

/* `n` indices from `start` on, of which those in gaps lie outside, as neighbours still, so that vectors are found. */
static Value *
indices(Builder *b, Value *start, int64_t n, int64_t group)
{
	const Type *line = type_tile(b->m, TY_I64, 1, &n);
	Value *i = build_iota(b, line, 0), *by = build_int(b, line, wide(group));
	Value *row = build2(b, OP_MUL, build2(b, OP_DIV, i, by), build_int(b, line, group));
	Value *at = build2(b, OP_ADD, row, build2(b, OP_REM, i, by)), *none = build_int(b, line, 0);
	at = build2(b, OP_ADD, build1(b, OP_BROADCAST, build_reshape(b, start, 1, (int64_t[]){1}), line), at);
	return build2(b, OP_ADD, at,
	    build3(b, OP_SELECT, pad_within_group(b, line, 0, group), none, build_int(b, line, OUTSIDE)));
}

void
pad_read_gaps(const Pad *p, Op *op)
{
	PadGap gap = p->gap[op->out[0].id];
	Builder b = build_before(op);
	const Type *t = op->out[0].type, *was = pad_was(p, &op->out[0]);
	char *index = arena_printf(p->m->cx->tmp, "%s", attr_index(op));
	int dim = tensor_dim(index, gap.d), n = 0;
	int64_t extents[MAX_RANK], valid[MAX_RANK];
	Value *in[1 + MAX_RANK];
	memcpy(in, op->in, sizeof *in * (size_t)op->nin);
	in[1 + dim] = indices(&b, op->in[1 + dim], t->extent[gap.d], gap.group);
	index[dim] = 'g';
	for (int d = 0; d < t->rank; d++) {
		valid[d] = d == gap.d ? t->extent[d] : was->extent[d];
		if (d != gap.d)
			extents[n++] = t->extent[d];
	}
	Op *read = access_like(&b, op, in, op->nin, index, extents, n);
	if (memcmp(valid, t->extent, sizeof *valid * (size_t)t->rank) != 0)
		attr_set_valid(p->m, read, valid, t->rank);
	pad_replace(p, &op->out[0], &read->out[0]);
	op_erase(op);
}
