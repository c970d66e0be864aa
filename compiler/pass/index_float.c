/* Floats of gaps between indices, without conversions of 64 bits.
 *
 *     %r = broadcast (%m + iota) : i64[128, 64]
 *     %c = broadcast (%n + iota) : i64[128, 64]
 *     %d = sub %r, %c : i64[128, 64]
 *     %f = cast %d : f32[128, 64]
 *  =>
 *     %b = sub %m, %n : i64                                   %l = and %b, 2^23 - 1,   %h = sub %b, %l
 *     %r = broadcast ((cast %l) + (cast iota)) : f32[128, 64]
 *     %c = broadcast (cast iota) : f32[128, 64]
 *     %f = add (broadcast (cast %h)), (sub %r, %c)
 *
 * A multiprocessor converts 16 integers of 64 bits a cycle, after two additions each: of 128 x 128 scores that a slope by
 * distance is added to, this took half as long as the products (attention with ALiBi on an H200: 604 us, 445 without).
 *
 * Nothing is rounded but the last sum, and that to what the cast gives: the lower part of the scalar and the indices in a
 * tile are below 2^23 each and their sums and differences exact; the upper part is a multiple of 2^23 and has 24 bits where
 * the scalar is below 2^46. */
#include "pass/layout/axis.h"
#include "pass/pass.h"

enum { LEAST_ELEMENTS = 4096, DEEP = 12, LOW_BITS = 23 };
#define SCALAR_MOST (INT64_C(1) << 46)

typedef struct Gap {
	Func *f;
	Builder b;
	Value *scalar;                                  /* the sum of all scalars; NULL: there is none */
	Value *low;                                     /* its lower part as a float, until an index has it */
	int64_t reach, most;                            /* the sum of indices within the tile, and of scalars, is less */
} Gap;

/* Is v a sum of scalars that are not too great and of indices of the tile? */
static bool
is_gap(Gap *x, const Value *v, int depth)
{
	const Op *op = v->def;
	if (v->type->elem != TY_I64 || depth == DEEP)
		return false;
	if (v->type->rank == 0) {
		const AxisInfo *range = axis_of(v);
		bool known = range->lo > -SCALAR_MOST && range->hi < SCALAR_MOST;
		x->most += known ? MAX(-range->lo, range->hi) : 0;
		return known && x->most < SCALAR_MOST;
	}
	switch (op ? op->kind : OP_FOR) {
	case OP_IOTA:
		x->reach += v->type->extent[attr_axis(op)];
		return x->reach < INT64_C(1) << (LOW_BITS - 1);
	case OP_BROADCAST: case OP_RESHAPE: case OP_PERMUTE:
		return is_gap(x, op->in[0], depth + 1);
	case OP_ADD: case OP_SUB:
		return is_gap(x, op->in[0], depth + 1) && is_gap(x, op->in[1], depth + 1);
	default:
		return false;
	}
}

/* Adds the scalars of v. */
static void
add_scalars(Gap *x, Value *v, bool minus)
{
	Op *op = v->def;
	if (v->type->rank == 0 && !x->scalar) {
		x->scalar = minus ? build1(&x->b, OP_NEG, v, NULL) : v;
	} else if (v->type->rank == 0) {
		x->scalar = build2(&x->b, minus ? OP_SUB : OP_ADD, x->scalar, v);
	} else if (op->kind != OP_IOTA) {
		for (int i = 0; i < op->nin; i++)
			add_scalars(x, op->in[i], op->kind == OP_SUB && i == 1 ? !minus : minus);
	}
}

static Value *
spread(Gap *x, Value *scalar, const Type *like)
{
	return build1(&x->b, OP_BROADCAST, scalar, type_with_elem(x->f->module, like, TY_F32));
}

/* The indices of v as floats; the first of them has the scalar's lower part.  NULL: there are none. */
static Value *
floats_of(Gap *x, Value *v, bool minus)
{
	Op *op = v->def;
	const Type *t = type_with_elem(x->f->module, v->type, TY_F32);
	if (v->type->rank == 0)
		return NULL;
	if (op->kind == OP_IOTA) {
		Value *f = build1(&x->b, OP_CAST, v, t), *low = x->low;
		x->low = NULL;
		return low ? build2(&x->b, minus ? OP_SUB : OP_ADD, f, spread(x, low, t)) : f;
	}
	if (op->kind != OP_ADD && op->kind != OP_SUB) {
		Value *from = floats_of(x, op->in[0], minus), *map[1] = {from};
		if (!from)
			return NULL;
		return &op_make(&x->b, op->kind, map, 1, op->attr, op->nattr, &t, 1)->out[0];
	}
	bool second = op->kind == OP_SUB;
	Value *a = floats_of(x, op->in[0], minus), *b = floats_of(x, op->in[1], minus != second);
	if (!a)
		return b && second ? build1(&x->b, OP_NEG, b, NULL) : b;
	return b ? build2(&x->b, op->kind, a, b) : a;
}

/* The low part of the scalar goes to an index, the high part to the sum. */
static void
rewrite(Gap *x, Op *cast)
{
	Value *v = cast->in[0], *high = NULL;
	const Type *f32 = type_scalar(x->f->module, TY_F32);
	x->b = build_before(cast);
	add_scalars(x, v, false);
	if (x->scalar) {
		Value *low = build2(&x->b, OP_AND, x->scalar, build_index(&x->b, (1 << LOW_BITS) - 1));
		high = build1(&x->b, OP_CAST, build2(&x->b, OP_SUB, x->scalar, low), f32);
		x->low = build1(&x->b, OP_CAST, low, f32);
	}
	Value *sum = floats_of(x, v, false);
	if (high)
		sum = build2(&x->b, OP_ADD, sum, spread(x, high, cast->out[0].type));
	value_replace(&cast->out[0], sum);
	op_erase(cast);
}

static bool
has_index(const Value *v)
{
	const Op *op = v->def;
	if (v->type->rank == 0)
		return false;
	return op->kind == OP_IOTA || ANY_OF(i, op->nin, has_index(op->in[i]));
}

/* |d| as a float is the magnitude of d as one. */
static void
look(Func *f, Op *cast)
{
	Gap x = {.f = f};
	Value *out = &cast->out[0], *v = cast->in[0];
	bool is_abs = v->def && v->def->kind == OP_ABS;
	v = is_abs ? v->def->in[0] : v;
	if (out->type->elem != TY_F32 || v->type->elem != TY_I64 || type_count(out->type) < LEAST_ELEMENTS ||
	    !is_gap(&x, v, 0) || !has_index(v))
		return;
	if (is_abs) {
		Builder b = build_before(cast);
		Value *plain = build1(&b, OP_CAST, v, out->type);
		value_replace(out, build1(&b, OP_ABS, plain, NULL));
		op_erase(cast);
		cast = plain->def;
	}
	rewrite(&x, cast);
}

void
pass_index_float(Func *f, const Target *t)
{
	(void)t;
	axis_keep(f);
	for (EACH_OP(op, f->body))
		if (op->kind == OP_CAST)
			look(f, op);
}
