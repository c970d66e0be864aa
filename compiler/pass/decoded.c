/* Weights as a kernel decodes them, which halves hold.
 *
 *     (w as f32) - (z as f32)          u4 and u4: integers from -15 to 15
 *     LEVELS[(c & 15) as i32] as f32   a table of integers
 *     ((c >> 4) & 15) as f32 - 8       bits of words
 *
 * Elements of few bits, integers that bf16 or f16 count to, their sums and differences, and tables of elements that are
 * halves.  What has one value for each row beside them, a zero point or scale that is no such integer, leaves the sum:
 *
 *     sum((w - z) * s * x)     =>     s * sum(w * x) - s * z * sum(x) */
#include "pass/decoded.h"

#include "ir/derive.h"
#include "num/num.h"

#include <math.h>
#include <string.h>

/* Values are followed through at most so many ops: one that two ops use is visited by each of them. */
enum { NARROW_BITS = 8, VISITS_MOST = 64 };

/* ---- what halves hold ---- */

/* How many integers on both sides of 0 are halves. */
static int64_t
counts_to(DType half)
{
	return half == TY_F16 ? 2048 : 256;
}

static bool
is_half(double v, DType half)
{
	uint8_t bytes[8];
	dtype_store_f64(half, bytes, 0, v);
	return v == dtype_load_f64(half, bytes, 0);
}

static bool
table_holds(const IntList *bits, DType half)
{
	for (int i = 0; i < bits->n; i++) {
		float v;
		memcpy(&v, &(uint32_t){(uint32_t)bits->at[i]}, sizeof v);
		if (!is_half((double)v, half))
			return false;
	}
	return true;
}

typedef struct Held {
	int64_t lo, hi;
	bool counts;                                    /* integers, from lo to hi */
	bool decodes;                                   /* of elements of few bits that a tile has */
} Held;

static bool
holds_by(const Value *v, DType half, Held *h, int *left)
{
	const Op *op = v->def;
	const Attr *constant = value_const(v);
	Held other = {0};
	*h = (Held){0};
	if (--*left < 0)
		return false;
	if (constant && constant->kind == KIND_FLOAT) {
		h->counts = fabs(constant->f) <= (double)counts_to(half) && constant->f == (double)(int64_t)constant->f;
		h->lo = h->hi = h->counts ? (int64_t)constant->f : 0;
		return is_half(constant->f, half);
	}
	switch (op ? op->kind : OP_COUNT) {
	case OP_CAST: {
		DType from = op->in[0]->type->elem;
		if (dtype_is_float(from) && dtype_info[from].bits <= NARROW_BITS)
			return h->decodes = true;
		h->counts = h->decodes = dtype_is_int(from) && value_range(op->in[0], &h->lo, &h->hi) &&
		    h->lo >= -counts_to(half) && h->hi <= counts_to(half);
		return h->counts;
	}
	case OP_RESHAPE: case OP_BROADCAST: case OP_PERMUTE: return holds_by(op->in[0], half, h, left);
	case OP_LOOKUP: return h->decodes = table_holds(attr_bits(op), half);
	case OP_JOIN: {
		bool both = holds_by(op->in[0], half, h, left) && holds_by(op->in[1], half, &other, left);
		h->lo = MIN(h->lo, other.lo);
		h->hi = MAX(h->hi, other.hi);
		h->counts &= other.counts;
		h->decodes &= other.decodes;
		return both;
	}
	case OP_ADD: case OP_SUB: {
		bool both = holds_by(op->in[0], half, h, left) && holds_by(op->in[1], half, &other, left) &&
		    h->counts && other.counts;
		h->lo += op->kind == OP_ADD ? other.lo : -other.hi;
		h->hi += op->kind == OP_ADD ? other.hi : -other.lo;
		h->decodes |= other.decodes;
		return both && h->lo >= -counts_to(half) && h->hi <= counts_to(half);
	}
	default: return false;
	}
}

static bool
holds(const Value *v, DType half, Held *h)
{
	int left = VISITS_MOST;
	return holds_by(v, half, h, &left);
}

/* The same elements as halves. */
static Value *
as_half(Builder *b, Value *v, DType half)
{
	const Op *op = v->def;
	const Attr *constant = value_const(v);
	const Type *t = type_with_elem(b->m, v->type, half);
	if (constant)
		return build_float(b, t, constant->f);
	switch (op->kind) {
	case OP_RESHAPE: case OP_BROADCAST: case OP_PERMUTE: {
		Value *in = as_half(b, op->in[0], half);
		return build_like(b, op, &in, t);
	}
	case OP_ADD: case OP_SUB: case OP_JOIN: {
		Value *left = as_half(b, op->in[0], half);
		return build2(b, op->kind, left, as_half(b, op->in[1], half));
	}
	case OP_LOOKUP: return build1(b, OP_CAST, v, t);        /* a table of halves: pass table */
	default: return build1(b, OP_CAST, op->in[0], t);
	}
}

/* ---- what is the same along an axis ---- */

static bool
is_even(const Value *v, int axis, int *left)
{
	const Op *op = v->def;
	if (--*left < 0)
		return false;
	if (value_const(v))
		return true;
	if (!op || v->type->rank <= axis)
		return false;
	if (op->kind == OP_BROADCAST)
		return op->in[0]->type->rank == 0 || op->in[0]->type->extent[axis] == 1 || is_even(op->in[0], axis, left);
	return op_has(op, ELEM) && op->nout == 1 && ALL_OF(i, op->nin, is_even(op->in[i], axis, left));
}

bool
decoded_is_even(const Value *v, int axis)
{
	int left = VISITS_MOST;
	return is_even(v, axis, &left);
}

/* Without the axis. */
static Value *
without(Builder *b, Value *v, int axis)
{
	const Type *t = v->type;
	const Op *op = v->def;
	const Attr *constant = value_const(v);
	int64_t extent[MAX_RANK];
	int n = 0;
	for (int d = 0; d < t->rank; d++)
		if (d != axis)
			extent[n++] = t->extent[d];
	const Type *less = type_with_shape(b->m, t, n, extent);
	if (constant)
		return constant->kind == KIND_FLOAT ? build_float(b, less, constant->f) : build_int(b, less, constant->i);
	if (op->kind != OP_BROADCAST) {
		Value **in = MAP_OF(b->m->cx->tmp, Value *, i, op->nin, without(b, op->in[i], axis));
		return build_like(b, op, in, less);
	}
	Value *from = op->in[0];
	if (from->type->rank == 0)
		return build1(b, OP_BROADCAST, from, less);
	if (from->type->extent[axis] != 1)
		return build1(b, OP_BROADCAST, without(b, from, axis), less);
	n = 0;
	for (int d = 0; d < t->rank; d++)
		if (d != axis)
			extent[n++] = from->type->extent[d];
	Value *line = build_reshape(b, from, n, extent);
	return type_same_shape(line->type, less) ? line : build1(b, OP_BROADCAST, line, less);
}

/* ---- both ---- */

bool
decoded_is(const Value *v, int axis, DType half)
{
	Held h;
	if (holds(v, half, &h))
		return h.decodes;
	const Op *op = v->def;
	if (!op || (op->kind != OP_ADD && op->kind != OP_SUB && op->kind != OP_MUL) || decoded_is_even(v, axis))
		return false;
	if (decoded_is_even(op->in[1], axis))
		return decoded_is(op->in[0], axis, half);
	return op->kind != OP_SUB && decoded_is_even(op->in[0], axis) && decoded_is(op->in[1], axis, half);
}

Decoded
decoded_build(Builder *b, Value *v, int axis, DType half)
{
	Held h;
	Op *op = v->def;
	if (holds(v, half, &h))
		return (Decoded){.halves = as_half(b, v, half)};
	int w = decoded_is_even(op->in[1], axis) ? 0 : 1;
	Decoded d = decoded_build(b, op->in[w], axis, half);
	Value *by = without(b, op->in[1 - w], axis);
	if (op->kind == OP_MUL) {
		d.scale = d.scale ? build2(b, OP_MUL, d.scale, by) : by;
		d.plus = d.plus ? build2(b, OP_MUL, d.plus, by) : NULL;
	} else if (d.plus) {
		d.plus = build2(b, op->kind, d.plus, by);
	} else {
		d.plus = op->kind == OP_SUB ? build1(b, OP_NEG, by, NULL) : by;
	}
	return d;
}
