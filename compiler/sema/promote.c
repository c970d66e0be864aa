/* Promotion: the common type and shape of operands.
 *
 * Kinds are ordered bool < int < float; the higher kind wins, then the wider; f16 with bf16 gives f16, the two
 * fp8 formats give f16, and integers of one width but mixed sign give the unsigned one.  A compile-time number
 * is weak: it takes the tile's type if the tile's kind is at least its own, and must then fit.  In whole mode
 * every float is f64.  Shapes align at the right as in NumPy; missing dimensions come by `reshape`, repeats by
 * `broadcast`, because the ops of the tile IR are strict. */
#include "sema/elab.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

static int
kind_rank(DType t)
{
	return t == TY_BOOL ? 0 : dtype_is_int(t) ? 1 : 2;
}

static int
weak_rank(const Val *v)
{
	return v->kind == VAL_BOOL ? 0 : val_is_int(v) ? 1 : 2;
}

/* The range of an integer type, as far as an int64 shows it. */
static void
int_range(DType t, int64_t *low, int64_t *high)
{
	int bits = t == TY_BOOL ? 1 : dtype_info[t].bits;

	if (t == TY_BOOL || dtype_is_unsigned(t)) {
		*low = 0;
		*high = bits >= 63 ? INT64_MAX : (INT64_C(1) << bits) - 1;
	} else {
		*high = bits == 64 ? INT64_MAX : (INT64_C(1) << (bits - 1)) - 1;
		*low = -*high - 1;
	}
}

static double
float_largest(DType t)
{
	switch (t) {
	case TY_F16: return 65504 + 15.99;              /* halves of the last step round down */
	case TY_BF16: return 3.3961775e38;
	case TY_F32: return 3.4028235677973362e38;
	case TY_F8E4M3: return 464;
	case TY_F8E5M2: return 61440;
	case TY_F4E2M1: return 7;
	default: return INFINITY;
	}
}

bool
val_literal_fits(Elab *e, const Val *v, DType want)
{
	const char *text = dtype_info[want].text;

	if (dtype_is_float(want)) {
		double f = val_float_of(v);
		if (!isfinite(f) || fabs(f) < float_largest(want))
			return true;
		diag_error(e->cx, v->place, DIAG_LITERAL_FLOAT_RANGE, float_text(e->cx, f), text);
		return diag_help(e->cx, "convert the other operand first, for example with 'as f32'");
	}
	if (v->kind == VAL_FLOAT)
		return diag_error(e->cx, v->place, DIAG_LITERAL_KIND, float_text(e->cx, v->f), text);
	int64_t low, high;
	int_range(want, &low, &high);
	if (v->kind == VAL_BIG ? want == TY_U64 : v->i >= low && v->i <= high)
		return true;
	diag_error(e->cx, v->place, DIAG_LITERAL_RANGE, val_int_text(e->cx, v), text);
	if (want == TY_U64)
		diag_label(e->cx, "%s holds no negative numbers", text);
	else
		diag_label(e->cx, "%s holds %" PRId64 " to %" PRId64, text, low, high);
	return diag_help(e->cx, "convert the other operand to a wider type with 'as'");
}

Value *
val_const_tile(Elab *e, const Val *v, const Type *t)
{
	if (!val_literal_fits(e, v, t->elem))
		return NULL;
	if (dtype_is_float(t->elem))
		return build_float(&e->b, t, val_float_of(v));
	return build_int(&e->b, t, v->i);
}

static bool
no_number(Elab *e, const Val *v)
{
	if (v->kind == VAL_POISON)
		return false;
	diag_error(e->cx, v->place, DIAG_NOT_A_NUMBER, val_describe(e, v));
	if (v->kind == VAL_TENSOR)
		diag_help(e->cx, v->rank ? "read a tile from it, as in %s[i, 0 +: BLOCK]" : "read it, as in %s[]",
		    e->kernel->params.at[v->param].name);
	else if (v->kind == VAL_LIST)
		diag_help(e->cx, "in the body of a kernel or reference it is a tile");
	return false;
}

Value *
val_ir_as(Elab *e, const Val *v, DType want)
{
	if (e->whole && dtype_is_float(want))
		want = TY_F64;
	if (val_is_const(v))
		return val_const_tile(e, v, type_scalar(e->m, want));
	if (v->kind != VAL_TILE) {
		no_number(e, v);
		return NULL;
	}
	return v->v->type->ptr != PTR_NONE ? v->v : ir_cast(e, v->v, want);
}

Value *
val_ir(Elab *e, const Val *v)
{
	return v->kind == VAL_TILE ? v->v : val_ir_as(e, v, val_dtype(e, v));
}

Value *
ir_cast(Elab *e, Value *v, DType to)
{
	if (e->whole && dtype_is_float(to))
		to = TY_F64;
	if (v->type->elem == to)
		return v;
	const Type *want = type_with_elem(e->m, v->type, to);
	return build1(&e->b, OP_CAST, v, want);
}

static DType
promote_tiles(DType a, DType b)
{
	if (a == b)
		return a;
	if (kind_rank(a) != kind_rank(b))
		return kind_rank(a) > kind_rank(b) ? a : b;
	if (dtype_info[a].bits != dtype_info[b].bits)
		return dtype_info[a].bits > dtype_info[b].bits ? a : b;
	if (kind_rank(a) == 1)
		return dtype_is_unsigned(a) ? a : b;
	return TY_F16;                                  /* f16 with bf16, and the two fp8 formats */
}

/* The type that a weak value takes beside a tile of type t. */
static DType
promote_weak(Elab *e, const Val *weak, DType t)
{
	return kind_rank(t) >= weak_rank(weak) ? t : val_dtype(e, weak);
}

static bool
no_packed(Elab *e, const Val *v)
{
	if (v->kind != VAL_TILE || !dtype_is_packed(v->v->type->elem))
		return true;
	diag_error(e->cx, v->place, DIAG_PACKED_ARITHMETIC, dtype_info[v->v->type->elem].text);
	return diag_help(e->cx, "convert it first, for example with 'as %s'",
	    dtype_is_float(v->v->type->elem) ? "f16" : "i8");
}

/* The number that stands for a list in promotion; others as they are.  False after an error. */
static bool
weak_of(Elab *e, const Val *v, Val *out)
{
	List l;

	*out = *v;
	if (v->kind != VAL_LIST || !e->func)
		return true;
	if (!list_open(e, v, v->place, &l))
		return false;
	*out = list_weak(&l, v->place);
	return true;
}

/* The tiles agree among themselves first; the weak values then follow. */
bool
promote_all(Elab *e, const Val *from, int n, DType *out)
{
	bool typed = false;
	DType t = TY_BOOL;
	Val *in = NEW_ARRAY(e->cx->mem, Val, n);

	if (!ALL_OF(i, n, weak_of(e, &from[i], &in[i])))
		return false;

	for (int i = 0; i < n; i++) {
		if (!val_is_number(&in[i]))
			return no_number(e, &in[i]);
		if (!no_packed(e, &in[i]))
			return false;
		if (in[i].kind != VAL_TILE)
			continue;
		t = typed ? promote_tiles(t, in[i].v->type->elem) : in[i].v->type->elem;
		typed = true;
	}
	for (int i = 0; i < n; i++) {
		if (in[i].kind == VAL_TILE)
			continue;
		t = typed ? promote_weak(e, &in[i], t)
			  : i ? promote_tiles(t, val_dtype(e, &in[i])) : val_dtype(e, &in[i]);
	}
	*out = e->whole && dtype_is_float(t) ? TY_F64 : t;
	return true;
}

bool
promote2(Elab *e, const Val *a, const Val *b, DType *out)
{
	return promote_all(e, (Val[]){*a, *b}, 2, out);
}

Value *
ir_broadcast(Elab *e, Value *v, int rank, const int64_t *extent, Place at)
{
	const Type *t = v->type;
	int64_t padded[MAX_RANK];

	if (!shape_check(e, at, rank, extent))
		return NULL;
	const Type *goal = type_with_shape(e->m, t, rank, extent);
	if (t == goal)
		return v;
	for (int d = 0; d < rank; d++)
		padded[d] = d < rank - t->rank ? 1 : t->extent[d - (rank - t->rank)];
	if (!type_broadcasts(t, rank, extent)) {
		diag_error(e->cx, at, DIAG_BROADCAST, shape_text(e, t->rank, t->extent),
		    shape_text(e, rank, extent));
		return NULL;
	}
	if (t->rank > 0 && t->rank < rank)
		v = build1(&e->b, OP_RESHAPE, v, type_with_shape(e->m, t, rank, padded));
	return v->type == goal ? v : build1(&e->b, OP_BROADCAST, v, goal);
}

bool
join_shape(int *rank, int64_t *extent, const Type *t)
{
	if (t->rank > *rank) {
		int more = t->rank - *rank;
		memmove(extent + more, extent, sizeof *extent * (size_t)*rank);
		for (int d = 0; d < more; d++)
			extent[d] = 1;
		*rank = t->rank;
	}
	for (int d = 0; d < t->rank; d++) {
		int64_t *to = &extent[*rank - t->rank + d];
		if (*to == 1)
			*to = t->extent[d];
		else if (t->extent[d] != 1 && t->extent[d] != *to)
			return false;
	}
	return true;
}

/* A hint when a vector along rows was meant to go along columns: [64] with [64, 32] wants [:, new]. */
static void
help_new_axis(Elab *e, const Type *a, const Type *b)
{
	if (a->rank > b->rank) {
		const Type *t = a;
		a = b;
		b = t;
	}
	if (a->rank != 1 || b->rank != 2 || a->extent[0] != b->extent[0])
		return;
	diag_help(e->cx, "shapes align at the right; write v[:, new] to make %s into %s",
	    shape_text(e, 1, a->extent), shape_text(e, 2, (int64_t[]){a->extent[0], 1}));
}

/* A type of the shape of a tile or list; NULL: a scalar. */
static const Type *
shape_of(Elab *e, const Val *v)
{
	List l;

	if (v->kind == VAL_TILE)
		return v->v->type;
	return v->kind == VAL_LIST && list_open(e, v, v->place, &l) ? type_tile(e->m, TY_I32, l.rank, l.extent) : NULL;
}

bool
match_shapes(Elab *e, const Val *in, int n, Place at, int *rank, int64_t *extent)
{
	*rank = 0;
	for (int i = 0; i < n; i++) {
		const Type *t = shape_of(e, &in[i]), *other = t;
		if (!t || join_shape(rank, extent, t))
			continue;
		for (int j = 0; j < i; j++) {
			const Type *before = shape_of(e, &in[j]);
			if (before && before->rank > 0)
				other = before;
		}
		diag_error(e->cx, at, DIAG_SHAPES, shape_text(e, other->rank, other->extent),
		    shape_text(e, t->rank, t->extent));
		help_new_axis(e, other, t);
		return false;
	}
	return shape_check(e, at, *rank, extent);
}

bool
match_values(Elab *e, const Val *in, int n, Place at, Value **out)
{
	DType dtype;
	int rank;
	int64_t extent[MAX_RANK];

	if (ANY_OF(i, n, val_is_poison(&in[i])))
		return false;
	if (!promote_all(e, in, n, &dtype))
		return false;
	if (!match_shapes(e, in, n, at, &rank, extent))
		return false;
	for (int i = 0; i < n; i++) {
		List l;
		if (val_is_const(&in[i]))
			out[i] = val_const_tile(e, &in[i], type_tile(e->m, dtype, rank, extent));
		else if (in[i].kind == VAL_LIST)
			out[i] = list_open(e, &in[i], in[i].place, &l) ? list_tile(e, &l, dtype) : NULL;
		else
			out[i] = ir_cast(e, in[i].v, dtype);
		out[i] = out[i] ? ir_broadcast(e, out[i], rank, extent, at) : NULL;
		if (!out[i])
			return false;
	}
	return true;
}
