/* What becomes f16 or bf16 is computed in it, two elements at once, where that gives the same bits.
 *
 *     cast (sub (cast %q : i32), 8) : f16                         =>  sub (cast %q : f16), 8.0
 *     cast (mul (cast %q : f32), (cast %s : f32)) : bf16          =>  mul (cast %q : bf16), %s        %q of i8, %s of bf16
 *
 * Integers that are added must not wrap in their type, and the half must count to all of them.  One product, sum or
 * difference of halves in f32 is the half's own: f32 has 24 bits of significand, twice those of f16 and two more, so that
 * rounding it again does not matter (Figueroa, When is double rounding innocuous?, 1995); what bf16 has below its least
 * normal number f32 has exactly.
 *
 * So weights that a kernel takes out of bytes or words are decoded in pairs (lower/memory/packed.c). */
#include "ir/derive.h"
#include "num/num.h"
#include "pass/shape/simplify.h"

#include <math.h>

enum { DEPTH = 6 };                                     /* ops from a cast to what it takes */

/* ---- integers ---- */

/* How many integers on both sides of 0 are halves. */
static int64_t
half_counts_to(DType half)
{
	return half == TY_F16 ? 2048 : 256;
}

static bool
half_holds(const Value *v, DType half)
{
	int64_t least, most, n = half_counts_to(half);

	return value_range(v, &least, &most) && least >= -n && most <= n;
}

/* Neither a type's bits nor a half's lack for what is added or taken off. */
static bool
adds_exactly(const Op *op, DType half)
{
	int64_t a, b, c, d, n = half_counts_to(half);

	if ((op->kind != OP_ADD && op->kind != OP_SUB) || !half_holds(op->in[0], half) || !half_holds(op->in[1], half) ||
	    !value_range(op->in[0], &a, &b) || !value_range(op->in[1], &c, &d))
		return false;
	int bits = dtype_info[op->out->type->elem].bits - 1;
	bool is_signed = dtype_is_signed(op->out->type->elem);
	int64_t least = op->kind == OP_ADD ? a + c : a - d, most = op->kind == OP_ADD ? b + d : b - c;
	int64_t lowest = is_signed ? -(INT64_C(1) << MIN(bits, 32)) : 0;
	return least >= MAX(lowest, -n) && most <= MIN((INT64_C(1) << MIN(bits + !is_signed, 32)) - 1, n);
}

/* Does the cast keep each integer as it is? */
static bool
keeps_all(const Op *cast)
{
	DType t = cast->out->type->elem;
	int bits = dtype_info[t].bits - dtype_is_signed(t);
	int64_t least, most;

	return dtype_is_int(cast->in[0]->type->elem) && value_range(cast->in[0], &least, &most) &&
	    least >= (dtype_is_signed(t) ? -(INT64_C(1) << MIN(bits, 32)) : 0) && most < INT64_C(1) << MIN(bits, 32);
}

/* Is it made of sums and differences that halves take as well, and used just once? */
static bool
adds_up(const Value *v, DType half, int depth)
{
	const Op *op = v->def;

	if (!op || depth == 0 || v->nuses != 1 || !dtype_is_int(v->type->elem))
		return false;
	switch (op->kind) {
	case OP_ADD: case OP_SUB: return adds_exactly(op, half);
	case OP_CAST: return keeps_all(op) && adds_up(op->in[0], half, depth - 1);
	case OP_RESHAPE: case OP_BROADCAST: case OP_PERMUTE: return adds_up(op->in[0], half, depth - 1);
	case OP_JOIN: return adds_up(op->in[0], half, depth - 1) || adds_up(op->in[1], half, depth - 1);
	default: return false;
	}
}

static Value *as_halves(Simplify *s, Op *at, Value *v, DType half, int depth);

/* The same number added to both operands of a join, or taken off, is so behind it, where a byte's two elements are beside
 * each other; NULL: others. */
static Value *
behind_join(Simplify *s, Op *at, const Op *join, DType half, int depth)
{
	const Op *a = join->in[0]->def, *b = join->in[1]->def;
	int64_t n, m;

	if (a->kind != b->kind || a->nin != 2 || !value_int(a->in[1], &n) || !value_int(b->in[1], &m) || n != m ||
	    a->in[0]->type != b->in[0]->type)
		return NULL;
	Value *both = simplify_emit2(s, at, OP_JOIN, a->in[0], b->in[0]);
	Value *number = simplify_int(s, at, both->type, n);
	Value *halves = as_halves(s, at, both, half, depth);
	return simplify_emit2(s, at, a->kind, halves, as_halves(s, at, number, half, depth));
}

static Value *
as_halves(Simplify *s, Op *at, Value *v, DType half, int depth)
{
	const Op *op = v->def;
	const Type *t = type_with_elem(s->m, v->type, half);

	if (!adds_up(v, half, depth))
		return simplify_emit1(s, at, OP_CAST, v, t);
	bool both = op->kind == OP_JOIN && adds_up(op->in[0], half, depth - 1) && adds_up(op->in[1], half, depth - 1);
	Value *sum = both ? behind_join(s, at, op, half, depth - 1) : NULL;
	if (sum)
		return sum;
	Value **in = MAP_OF(s->tmp, Value *, i, op->nin, as_halves(s, at, op->in[i], half, depth - 1));
	return simplify_emit(s, at, op->kind, in, op->nin, op->attr, op->nattr, op->nin == 1 ? t : NULL);
}

/* ---- floats ---- */

/* Is it a whole number that the half counts to, and all that it is made of? */
static bool
is_whole(const Value *v, DType half, int depth, int64_t *least, int64_t *most)
{
	const Op *op = v->def;
	const Attr *c = value_const(v);
	int64_t n = half_counts_to(half), a, b;

	if (c && c->kind == KIND_FLOAT)
		return fabs(c->f) <= (double)n && c->f == (double)(*least = *most = (int64_t)c->f) &&
		    (c->f != 0 || !signbit(c->f));
	switch (op && depth > 0 ? op->kind : OP_COUNT) {
	case OP_CAST:
		if (!dtype_is_int(op->in[0]->type->elem) || !value_range(op->in[0], least, most))
			return false;
		break;
	case OP_RESHAPE: case OP_BROADCAST: case OP_PERMUTE: return is_whole(op->in[0], half, depth - 1, least, most);
	case OP_ADD: case OP_SUB:
		if (v->nuses != 1 || !is_whole(op->in[0], half, depth - 1, least, most) ||
		    !is_whole(op->in[1], half, depth - 1, &a, &b))
			return false;
		*least += op->kind == OP_ADD ? a : -b;
		*most += op->kind == OP_ADD ? b : -a;
		break;
	default: return false;
	}
	return *least >= -n && *most <= n;
}

/* Does the half hold an f32, by what it is made of? */
static bool
is_half(const Value *v, DType half, int depth)
{
	const Op *op = v->def;
	const Attr *c = value_const(v);
	uint8_t bytes[8];
	int64_t least, most;

	if (c && c->kind == KIND_FLOAT) {
		dtype_store_f64(half, bytes, 0, c->f);
		return c->f == dtype_load_f64(half, bytes, 0);
	}
	if (!op || depth == 0)
		return false;
	if (op->kind == OP_RESHAPE || op->kind == OP_BROADCAST || op->kind == OP_PERMUTE || op->kind == OP_JOIN)
		return ALL_OF(i, op->nin, is_half(op->in[i], half, depth - 1));
	DType from = op->kind == OP_CAST ? op->in[0]->type->elem : TY_BOOL;
	return (dtype_is_float(from) && (from == half || dtype_info[from].bits <= 8)) ||
	    is_whole(v, half, depth, &least, &most);
}

static Value *
half_of(Simplify *s, Op *at, Value *v, DType half)
{
	const Op *op = v->def;
	const Type *t = type_with_elem(s->m, v->type, half);

	if (value_const(v))
		return simplify_emit1(s, at, OP_CAST, v, t);
	if (op->kind == OP_CAST)
		return op->in[0]->type == t ? op->in[0] : simplify_emit1(s, at, OP_CAST, op->in[0], t);
	Value **in = MAP_OF(s->tmp, Value *, i, op->nin, half_of(s, at, op->in[i], half));
	return simplify_emit(s, at, op->kind, in, op->nin, op->attr, op->nattr, op->nin == 1 ? t : NULL);
}

static bool
is_rounded_once(const Value *v, DType half)
{
	const Op *op = v->def;

	return v->type->elem == TY_F32 && v->nuses == 1 && op &&
	    (op->kind == OP_MUL || op->kind == OP_ADD || op->kind == OP_SUB) &&
	    ALL_OF(i, 2, is_half(op->in[i], half, DEPTH));
}

Value *
simplify_halves(Simplify *s, Op *op, Value *x)
{
	DType to = op->out[0].type->elem;

	if (!s->is_gpu || (to != TY_F16 && to != TY_BF16) || x->type->rank == 0)
		return NULL;
	if (is_rounded_once(x, to))
		return half_of(s, op, x, to);
	return adds_up(x, to, DEPTH) ? as_halves(s, op, x, to, DEPTH) : NULL;
}

/* ---- products of few rows ---- */

static bool
is_unpacking(const Op *op)
{
	return op && op->kind == OP_CAST && (dtype_is_int(op->in[0]->type->elem) || op->in[0]->type->elem == TY_F4E2M1);
}

/* Is it made of f4e2m1, or integers that the 8-bit float holds, as all of i4 and u4 are in e4m3? */
static bool
is_decoded(const Value *v, DType t)
{
	const Op *op = v->def;
	int64_t least, most, n = t == TY_F8E4M3 ? 16 : 8;       /* 4 and 3 bits of significand */

	if (op && (op->kind == OP_RESHAPE || op->kind == OP_PERMUTE))
		return is_decoded(op->in[0], t);
	return is_unpacking(op) && (op->in[0]->type->elem == TY_F4E2M1 ||
	    (value_range(op->in[0], &least, &most) && least >= -n && most <= n));
}

static Value *
widened(Simplify *s, Op *at, Value *v)
{
	const Op *op = v->def;
	const Type *t = type_with_elem(s->m, v->type, TY_F16);

	if (is_unpacking(op))
		return simplify_emit1(s, at, OP_CAST, op->in[0], t);
	if (!op || (op->kind != OP_RESHAPE && op->kind != OP_PERMUTE))
		return simplify_emit1(s, at, OP_CAST, v, t);
	Value *in = widened(s, at, op->in[0]);
	return simplify_emit(s, at, op->kind, &in, 1, op->attr, op->nattr, t);
}

/* Weights of few bits beside few rows of 8-bit floats are multiplied as f16, which holds both: threads decode two at once,
 * and the instruction of 8-bit floats for warps is one of f16 behind conversions (sm_90a).  Tiles of more rows have 64,
 * which warpgroups multiply as 8-bit floats. */
Value *
simplify_dot(Simplify *s, Op *op, Value *x)
{
	enum { FEW_ROWS = 32 };
	Value *w = op->in[1];
	DType t = w->type->elem;

	if (!s->is_gpu || (t != TY_F8E4M3 && t != TY_F8E5M2) ||
	    (x->type->elem != TY_F8E4M3 && x->type->elem != TY_F8E5M2) ||
	    x->type->rank != 2 || x->type->extent[0] > FEW_ROWS || *attr_precision(op) || !is_decoded(w, t))
		return NULL;
	Value *in[] = {widened(s, op, x), widened(s, op, w), op->in[2]};
	return simplify_emit(s, op, OP_DOT, in, 3, op->attr, op->nattr, NULL);
}
