/* Masks of a loop's index: comparisons of two integer tiles of which one goes with the index, at a constant rate.
 *
 *     %0 = add (broadcast %t), (iota) : i64[64]
 *     %1 = lt %0, (broadcast %L) : bool[64]               t + (0 .. 63) - L < 0, by element
 *
 * A side is a sum or difference of the index, of at most two scalars of outside (of the body too, where the caller takes
 * them: a nest's index that was made a carried counter), of constants and of iota.  What matters of
 * an iota is its first and its last element. */
#include "pass/layout/mask.h"

#include "pass/layout/axis.h"

enum { DEEP = 12 };                                     /* ops of an affine tile, one within the other */
#define FAR (INT64_C(1) << 61)

static bool
is_small(int64_t v)
{
	return v > -(FAR >> 2) && v < FAR >> 2;
}

static bool
add(Affine *x, const Affine *y, int sign)
{
	Value *plus = sign > 0 ? y->plus : y->minus, *minus = sign > 0 ? y->minus : y->plus;
	if ((x->plus && plus) || (x->minus && minus))
		return false;
	x->plus = x->plus ? x->plus : plus;
	x->minus = x->minus ? x->minus : minus;
	x->by += sign * y->by;
	x->lo += sign > 0 ? y->lo : -y->hi;
	x->hi += sign > 0 ? y->hi : -y->lo;
	return is_small(x->lo) && is_small(x->hi) && is_small(x->by);
}

static bool
scale(Affine *x, int64_t c)
{
	int64_t lo, hi, by;
	if (x->plus || x->minus || __builtin_mul_overflow(x->by, c, &by) || __builtin_mul_overflow(x->lo, c, &lo) ||
	    __builtin_mul_overflow(x->hi, c, &hi))
		return false;
	*x = (Affine){.by = by, .lo = MIN(lo, hi), .hi = MAX(lo, hi)};
	return is_small(lo) && is_small(hi) && is_small(by);
}

static bool affine_op(const Block *body, const Op *op, int depth, bool own, Affine *out);

/* `own`: a scalar of the body that has nothing of the index is a term as one of outside is. */
static bool
affine(const Block *body, Value *v, int depth, bool own, Affine *out)
{
	int64_t n;
	*out = (Affine){0};
	if (v->type->kind != TYPE_TILE || v->type->ptr != PTR_NONE || v->type->elem != TY_I64 || depth == DEEP)
		return false;
	if (value_int(v, &n)) {
		out->lo = out->hi = n;
		return is_small(n);
	}
	if (v == &body->arg[0]) {
		out->by = 1;
		return true;
	}
	bool is_scalar = v->type->rank == 0, is_term = is_scalar && !value_inside(v, body), may_be = own && is_scalar;
	if (!is_term && affine_op(body, v->def, depth, own, out) && (out->by || !may_be))
		return true;
	if (!is_term && !may_be)
		return false;
	*out = (Affine){.plus = v};
	return true;
}

static bool
affine_op(const Block *body, const Op *op, int depth, bool own, Affine *out)
{
	int64_t n;
	Affine y;
	switch (op ? op->kind : OP_FOR) {
	case OP_IOTA:
		out->hi = op->out[0].type->extent[attr_axis(op)] - 1;
		return true;
	case OP_BROADCAST: case OP_RESHAPE: case OP_PERMUTE:
		return affine(body, op->in[0], depth + 1, own, out);
	case OP_ADD: case OP_SUB:
		return affine(body, op->in[0], depth + 1, own, out) && affine(body, op->in[1], depth + 1, own, &y) &&
		    add(out, &y, op->kind == OP_ADD ? 1 : -1);
	case OP_MUL:
		return (value_int(op->in[1], &n) && affine(body, op->in[0], depth + 1, own, out) && scale(out, n)) ||
		    (value_int(op->in[0], &n) && affine(body, op->in[1], depth + 1, own, out) && scale(out, n));
	default:
		return false;
	}
}

bool
mask_affine(const Block *body, const Value *v, bool own, Affine *out)
{
	const Op *op = v->def;
	Affine y;
	if (!op || op_family(op) != FAMILY_COMPARE || v->type->rank == 0)
		return false;
	bool turned = op->kind == OP_GT || op->kind == OP_GE, or_equal = op->kind == OP_LE || op->kind == OP_GE;
	if ((op->kind != OP_LT && op->kind != OP_LE && !turned) || !affine(body, op->in[turned], 0, own, out) ||
	    !affine(body, op->in[!turned], 0, own, &y) || !add(out, &y, -1))
		return false;
	out->hi -= or_equal;
	return true;
}

Value *
mask_within(Builder *b, Value *v, Value *ok)
{
	const AxisInfo *x = axis_of(v);
	if (x->lo >= -FAR && x->hi <= FAR)
		return ok;
	Value *is = build2(b, OP_AND, build2(b, OP_LE, build_index(b, -FAR), v), build2(b, OP_LE, v, build_index(b, FAR)));
	return ok ? build2(b, OP_AND, ok, is) : is;
}

Value *
mask_end(Builder *b, const Op *loop, OpKind kind, int64_t n, Value *step)
{
	Value *lo = loop->in[0], *hi = loop->in[1], *ok = mask_within(b, hi, mask_within(b, lo, NULL));
	Value *span = build2(b, OP_MAX, build2(b, OP_SUB, hi, lo), build_index(b, 0));
	Value *trips = build2(b, OP_CDIV, span, loop->in[2]), *count = build2(b, kind, trips, build_index(b, n));
	Value *end = build2(b, OP_ADD, lo, build2(b, OP_MUL, count, step));
	return ok ? build3(b, OP_SELECT, ok, end, lo) : end;
}

void
mask_erase_unused(Block *b)
{
	for (Op *op = b->last, *prev; op; op = prev) {
		bool unused = op_has(op, PURE) && op->nregion == 0;
		prev = op->prev;
		unused = unused && ALL_OF(i, op->nout, op->out[i].nuses == 0);
		if (unused)
			op_erase(op);
	}
}
