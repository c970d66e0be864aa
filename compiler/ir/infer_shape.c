/* Type rules of the ops that move elements about or combine them: shape, dot, reductions, scans,
 * order. */
#include "ir/infer.h"

#include <string.h>

/* The extents of t with n along one axis. */
static void
with_extent(int64_t *extent, const Type *t, int axis, int64_t n)
{
	memcpy(extent, t->extent, sizeof t->extent);
	extent[axis] = n;
}

/* The result type asked for, with the elements of operand 0. */
static bool
want_elements(Infer *x)
{
	const Type *t = infer_in(x, 0);

	if (t->kind != TYPE_TILE)
		return infer_expect(x, 0, "a tile");
	if (!infer_want(x))
		return false;
	if (x->want[0]->elem != t->elem || x->want[0]->ptr != t->ptr)
		return infer_fail(x, "the result type is %s; expected the elements of %s",
		    infer_text(x, x->want[0]), infer_text(x, t));
	return true;
}

RULE(reshape)
{
	if (!want_elements(x))
		return false;
	if (type_count(infer_in(x, 0)) != type_count(x->want[0]))
		return infer_fail(x, "the result type is %s; expected %lld elements as in %s",
		    infer_text(x, x->want[0]), (long long)type_count(infer_in(x, 0)),
		    infer_text(x, infer_in(x, 0)));
	return infer_out(x, x->want[0]);
}

RULE(permute)
{
	const Type *t = infer_in(x, 0);
	const IntList *dims = attr_dims(x->op);
	int64_t extent[MAX_RANK];
	unsigned seen = 0;

	if (t->kind != TYPE_TILE)
		return infer_expect(x, 0, "a tile");
	if (dims->n != t->rank)
		return infer_fail(x, "%d dims; expected %d for %s", dims->n, t->rank, infer_text(x, t));
	for (int i = 0; i < t->rank; i++) {
		int64_t d = dims->at[i];
		if (d < 0 || d >= t->rank || seen >> d & 1)
			return infer_fail(x, "dims must name each of 0 to %d once", t->rank - 1);
		seen |= 1u << d;
		extent[i] = t->extent[d];
	}
	return infer_out(x, type_with_shape(x->m, t, t->rank, extent));
}

RULE(broadcast)
{
	if (!want_elements(x))
		return false;
	const Type *from = infer_in(x, 0), *to = x->want[0];
	if (from->rank == 0)
		return infer_out(x, to);
	bool fits = from->rank == to->rank &&
		    ALL_OF(i, to->rank, from->extent[i] == to->extent[i] || from->extent[i] == 1);
	if (!fits)
		return infer_fail(x, "%s cannot broadcast to %s; the rank must be the same and each extent 1 or the same",
		    infer_text(x, from), infer_text(x, to));
	return infer_out(x, to);
}

RULE(cat)
{
	int axis;
	int64_t extent[MAX_RANK], sum = 0;

	if (!infer_count(x, 1, INT32_MAX))
		return false;
	const Type *t = infer_in(x, 0);
	if (t->kind != TYPE_TILE)
		return infer_expect(x, 0, "a tile");
	if (!infer_axis(x, t, &axis))
		return false;
	for (int i = 0; i < x->op->nin; i++) {
		const Type *other = infer_in(x, i);
		bool fits = other->kind == TYPE_TILE && other->elem == t->elem && other->ptr == t->ptr &&
		    other->rank == t->rank;
		fits = fits && ALL_OF(d, t->rank, d == axis || other->extent[d] == t->extent[d]);
		if (!fits)
			return infer_expect(x, i, "%s but for the extent of axis %d", infer_text(x, t), axis);
		if (__builtin_add_overflow(sum, other->extent[axis], &sum))
			return infer_fail(x, "the result is too large");
	}
	with_extent(extent, t, axis, sum);
	return infer_out(x, type_with_shape(x->m, t, t->rank, extent));
}

RULE(join)
{
	const Type *t = infer_in(x, 0);
	int64_t extent[MAX_RANK];

	if (t->kind != TYPE_TILE || t->rank == MAX_RANK)
		return infer_expect(x, 0, "a tile of rank %d at most", MAX_RANK - 1);
	if (!infer_type(x, 1, t))
		return false;
	memcpy(extent, t->extent, sizeof extent);
	extent[t->rank] = 2;
	return infer_out(x, type_with_shape(x->m, t, t->rank + 1, extent));
}

RULE(split)
{
	const Type *t = infer_in(x, 0);

	if (t->kind != TYPE_TILE || t->rank == 0 || t->extent[t->rank - 1] != 2)
		return infer_expect(x, 0, "a tile whose last extent is 2");
	const Type *half = type_with_shape(x->m, t, t->rank - 1, t->extent);
	return infer_out(x, half) && infer_out(x, half);
}

/* Operands a and b of a dot: numbers of one class, of one rank from 2, equal batch dimensions. */
static bool
dot_operands(Infer *x, int ia, int ib)
{
	const Type *a = infer_in(x, ia), *b = infer_in(x, ib);

	if (!infer_tile(x, ia) || !infer_tile(x, ib))
		return false;
	if (a->rank < 2)
		return infer_expect(x, ia, "a tile of rank 2 or more");
	if (a->elem == TY_BOOL || (dtype_is_packed(a->elem) && x->op->kind == OP_DOT))
		return infer_expect(x, ia, "numbers of 8 bits or more");
	if (dtype_is_float(a->elem) != dtype_is_float(b->elem) || b->elem == TY_BOOL ||
	    (dtype_is_packed(b->elem) && x->op->kind == OP_DOT))
		return infer_expect(x, ib, "%s as in %s", dtype_is_float(a->elem) ? "floats" : "integers",
		    infer_text(x, a));
	if (b->rank != a->rank)
		return infer_expect(x, ib, "rank %d as %s", a->rank, infer_text(x, a));
	if (ANY_OF(i, a->rank - 2, a->extent[i] != b->extent[i]))
		return infer_expect(x, ib, "the batch dimensions of %s", infer_text(x, a));
	if (a->extent[a->rank - 1] != b->extent[b->rank - 2])
		return infer_expect(x, ib, "%lld rows to match the columns of %s",
		    (long long)a->extent[a->rank - 1], infer_text(x, a));
	return true;
}

static bool
dot_result(Infer *x, const Type *a, const Type *b, int iacc)
{
	const Type *acc = infer_in(x, iacc);
	int64_t extent[MAX_RANK];

	if (!infer_tile(x, iacc))
		return false;
	memcpy(extent, a->extent, sizeof extent);
	extent[a->rank - 1] = b->extent[b->rank - 1];
	const Type *t = type_with_shape(x->m, a, a->rank, extent);
	if (!type_same_shape(acc, t))
		return infer_expect(x, iacc, "the shape of the product, %s", infer_text(x, t));
	if (dtype_is_float(acc->elem) != dtype_is_float(a->elem) || acc->elem == TY_BOOL ||
	    dtype_is_packed(acc->elem))
		return infer_expect(x, iacc, "%s", dtype_is_float(a->elem) ? "floats" : "integers");
	return infer_out(x, acc);
}

/* Each bit of a position along that dimension once; absent: they are as they are. */
static bool
dot_bits(Infer *x, const IntList *bits, const char *name, int operand, int from_end)
{
	const Type *t = infer_in(x, operand);
	uint64_t seen = 0;

	for (int i = 0; bits && i < bits->n && i < 64; i++)
		seen |= bits->at[i] >= 0 && bits->at[i] < bits->n ? UINT64_C(1) << bits->at[i] : 0;
	if (bits && (bits->n >= 63 || seen != (UINT64_C(1) << bits->n) - 1 ||
	    INT64_C(1) << bits->n != t->extent[t->rank - from_end]))
		return infer_fail(x, "{%s} that are not each bit of a position along that dimension of %s once", name,
		    infer_text(x, t));
	return true;
}

static bool
dot_orders(Infer *x)
{
	return dot_bits(x, attr_k_bits(x->op), "k_bits", 0, 1) && dot_bits(x, attr_m_bits(x->op), "m_bits", 0, 2) &&
	    dot_bits(x, attr_n_bits(x->op), "n_bits", 1, 1);
}

RULE(dot)
{
	const Attr *precision = op_attr(x->op, ATTR_PRECISION);

	if (!dot_operands(x, 0, 1) || !dot_orders(x))
		return false;
	bool fast = precision && strcmp(precision->text, "fast") == 0;
	if (fast && !dtype_is_f8(infer_in(x, 0)->elem))
		return infer_expect(x, 0, "8-bit floats for precision fast");
	if (precision && !fast && strcmp(precision->text, "ieee") != 0 && infer_in(x, 0)->elem != TY_F32)
		return infer_expect(x, 0, "f32 for precision %s", precision->text);
	return dot_result(x, infer_in(x, 0), infer_in(x, 1), 2);
}

/* The scale of operand `of`: its leading dimensions, then outer (M or N), then K / block. */
static bool
dot_scale(Infer *x, int i, int of, int64_t outer, int64_t k)
{
	const Type *s = infer_in(x, i), *t = infer_in(x, of);
	int64_t block = attr_block(x->op), extent[MAX_RANK];

	if (!infer_tile(x, i))
		return false;
	if (s->elem != TY_U8 && (!dtype_is_float(s->elem) || dtype_is_packed(s->elem)))
		return infer_expect(x, i, "scales of u8 (e8m0) or floats");
	memcpy(extent, t->extent, sizeof extent);
	extent[t->rank - 2] = outer;
	extent[t->rank - 1] = k / block + (k % block != 0);
	const Type *shape = type_tile(x->m, s->elem, t->rank, extent);
	return infer_type(x, i, shape);
}

RULE(dot_scaled)
{
	const Type *a = infer_in(x, 0), *b = infer_in(x, 2);

	if (attr_block(x->op) < 1)
		return infer_fail(x, "block is %lld; expected 1 or more", (long long)attr_block(x->op));
	if (!dot_operands(x, 0, 2))
		return false;
	if (!dtype_is_float(a->elem))
		return infer_expect(x, 0, "floats");
	int64_t k = a->extent[a->rank - 1];
	return dot_scale(x, 1, 0, a->extent[a->rank - 2], k) &&
	    dot_scale(x, 3, 2, b->extent[b->rank - 1], k) && dot_result(x, a, b, 4);
}

static const Type *
without_axis(Infer *x, const Type *t, int axis, DType elem)
{
	int64_t extent[MAX_RANK];
	int n = 0;

	for (int i = 0; i < t->rank; i++)
		if (i != axis)
			extent[n++] = t->extent[i];
	return type_tile(x->m, elem, n, extent);
}

/* Sums and products of narrow elements are of a wider type. */
static DType
widened(DType t)
{
	if (dtype_is_float(t))
		return t == TY_F64 ? TY_F64 : TY_F32;
	return t == TY_BOOL || dtype_info[t].bits < 32 ? TY_I32 : t;
}

static bool
reduce_elem(Infer *x, const char *fn, DType *elem)
{
	DType t = infer_in(x, 0)->elem;

	*elem = t;
	if (dtype_is_packed(t))
		return infer_expect(x, 0, "elements of 8 bits or more (cast first)");
	if (strcmp(fn, "sum") == 0 || strcmp(fn, "prod") == 0)
		*elem = widened(t);
	else if (strcmp(fn, "argmax") == 0 || strcmp(fn, "argmin") == 0)
		*elem = TY_I32;
	else if ((strcmp(fn, "any") == 0 || strcmp(fn, "all") == 0) && t != TY_BOOL)
		return infer_expect(x, 0, "bools for %s", fn);
	else if (strcmp(fn, "xor_sum") == 0 && dtype_is_float(t))
		return infer_expect(x, 0, "integers or bools for xor_sum");
	return true;
}

RULE(reduce)
{
	const char *fn = attr_fn(x->op);
	DType elem;
	int axis;

	if (!infer_tile(x, 0) || !infer_axis(x, infer_in(x, 0), &axis) || !reduce_elem(x, fn, &elem))
		return false;
	const Type *t = infer_in(x, 0);
	if (t->extent[axis] == 0 && type_count(without_axis(x, t, axis, elem)) > 0 &&
	    (strncmp(fn, "arg", 3) == 0))
		return infer_expect(x, 0, "at least one element along axis %d for %s", axis, fn);
	return infer_out(x, without_axis(x, t, axis, elem));
}

RULE(scan)
{
	DType elem;
	int axis;

	if (!infer_tile(x, 0) || !infer_axis(x, infer_in(x, 0), &axis) ||
	    !reduce_elem(x, attr_fn(x->op), &elem))
		return false;
	return infer_out(x, type_with_elem(x->m, infer_in(x, 0), elem));
}

static bool
fn_operands(Infer *x, int *axis)
{
	if (!infer_count(x, 1, INT32_MAX))
		return false;
	for (int i = 0; i < x->op->nin; i++) {
		if (!infer_tile(x, i))
			return false;
		if (!type_same_shape(infer_in(x, i), infer_in(x, 0)))
			return infer_expect(x, i, "the shape of operand 1, %s",
			    infer_text(x, infer_in(x, 0)));
	}
	return infer_axis(x, infer_in(x, 0), axis);
}

RULE(reduce_fn)
{
	int axis;

	if (!fn_operands(x, &axis))
		return false;
	return ALL_OF(i, x->op->nin, infer_out(x, without_axis(x, infer_in(x, i), axis, infer_in(x, i)->elem)));
}

RULE(scan_fn)
{
	int axis;

	return fn_operands(x, &axis) && ALL_OF(i, x->op->nin, infer_out(x, infer_in(x, i)));
}

RULE(sort)
{
	const Attr *indices = op_attr(x->op, ATTR_INDICES);
	const Type *t = infer_in(x, 0);
	int axis;

	if (!infer_tile(x, 0) || !infer_axis(x, t, &axis))
		return false;
	if (dtype_is_packed(t->elem))
		return infer_expect(x, 0, "elements of 8 bits or more (cast first)");
	return infer_out(x, t) && (!indices || !indices->i || infer_out(x, type_with_elem(x->m, t, TY_I32)));
}

RULE(topk)
{
	int64_t k = attr_k(x->op), extent[MAX_RANK];
	int axis;

	if (!infer_tile(x, 0) || !infer_axis(x, infer_in(x, 0), &axis))
		return false;
	const Type *t = infer_in(x, 0);
	if (dtype_is_packed(t->elem))
		return infer_expect(x, 0, "elements of 8 bits or more (cast first)");
	if (k < 0 || k > t->extent[axis])
		return infer_fail(x, "k is %lld; expected 0 to %lld, the extent of axis %d", (long long)k,
		    (long long)t->extent[axis], axis);
	with_extent(extent, t, axis, k);
	return infer_out(x, type_tile(x->m, t->elem, t->rank, extent)) &&
	    infer_out(x, type_tile(x->m, TY_I32, t->rank, extent));
}

RULE(histogram)
{
	int64_t bins = attr_bins(x->op);

	if (!infer_int_tile(x, 0))
		return false;
	if (bins < 0)
		return infer_fail(x, "bins is %lld; expected 0 or more", (long long)bins);
	return infer_out(x, type_tile(x->m, TY_I32, 1, &bins));
}

/* Operand 1 holds indices along an axis of operand 0. */
static bool
indices_along(Infer *x)
{
	const Type *t = infer_in(x, 0), *ids = infer_in(x, 1);
	int axis;

	if (!infer_tile(x, 0) || !infer_axis(x, t, &axis) || !infer_int_tile(x, 1))
		return false;
	if (ids->rank != t->rank)
		return infer_expect(x, 1, "rank %d as %s", t->rank, infer_text(x, t));
	if (ANY_OF(i, t->rank, i != axis && ids->extent[i] != t->extent[i]))
		return infer_expect(x, 1, "the extents of %s but for axis %d", infer_text(x, t), axis);
	return true;
}

RULE(gather)
{
	return indices_along(x) && infer_out(x, type_with_elem(x->m, infer_in(x, 1), infer_in(x, 0)->elem));
}

/* The index says for each element of the third operand where along the axis it goes. */
RULE(scatter)
{
	const Type *t = infer_in(x, 0), *ids = infer_in(x, 1);
	const char *fn = attr_fn(x->op);

	if (!indices_along(x))
		return false;
	if (infer_in(x, 2) != type_with_elem(x->m, ids, t->elem))
		return infer_expect(x, 2, "%s", infer_text(x, type_with_elem(x->m, ids, t->elem)));
	if (strcmp(fn, "set") != 0 && dtype_is_packed(t->elem))
		return infer_expect(x, 0, "elements of 8 bits or more (cast first)");
	if (strcmp(fn, "add") == 0 && t->elem == TY_BOOL)
		return infer_expect(x, 0, "a tile of numbers");
	return infer_out(x, t);
}
