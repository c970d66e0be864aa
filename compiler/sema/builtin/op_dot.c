/* Matrix products: `a @ b`, dot and dot_scaled.  Leading dimensions are batches and broadcast as in NumPy; the
 * product of narrow types is accumulated in a wider one, which is also the result's. */
#include "sema/builtin/builtin.h"

#include <string.h>

static bool
is_matrix(Elab *e, const char *name, const Val *v, const char *which, Place at)
{
	Place place = v->place.file >= 0 ? v->place : at;
	if (v->kind == VAL_TENSOR) {
		diag_error(e->cx, place, DIAG_ARG_KIND, name, which, "a tile", val_describe(e, v));
		return diag_help(e->cx, "read a tile of it first, as in `x[i +: M, k +: K]`");
	}
	if (v->kind != VAL_TILE || v->v->type->ptr)
		return diag_error(e->cx, place, DIAG_ARG_KIND, name, which, "a tile of numbers", val_describe(e, v));
	if (v->v->type->rank >= 2)
		return true;
	diag_error(e->cx, place, DIAG_DOT_RANK, name, which, v->v->type->rank);
	return diag_help(e->cx, "`%s[new, :]` makes a row of a vector, `%s[:, new]` a column", which, which);
}

static bool
types_fit(Elab *e, const char *name, Value **a, Value **b, bool packed_ok, Place at)
{
	DType s = (*a)->type->elem, t = (*b)->type->elem;
	bool packed = dtype_is_packed(s) || dtype_is_packed(t);
	if (s == TY_BOOL || t == TY_BOOL || dtype_is_float(s) != dtype_is_float(t) || (packed && !packed_ok)) {
		diag_error(e->cx, at, DIAG_DOT_TYPE, name, dtype_info[s].text, dtype_info[t].text);
		return diag_help(e->cx, "convert with `as`, for instance `x as %s`",
		    packed || s == TY_BOOL ? "f16" : dtype_info[dtype_is_float(s) ? s : t].text);
	}
	if (s == t || packed || (dtype_info[s].bits <= 8 && dtype_info[t].bits <= 8))
		return true;
	DType to;
	Val va = val_tile(at, *a), vb = val_tile(at, *b);
	if (!promote2(e, &va, &vb, &to))
		return false;
	*a = ir_convert(e, *a, to);
	*b = ir_convert(e, *b, to);
	return true;
}

/* Gives both the same batch dimensions; NULL-free on success. */
static bool
batches_fit(Elab *e, Value **a, Value **b, Place at)
{
	const Type *s = (*a)->type, *t = (*b)->type;
	int batch = MAX(s->rank, t->rank) - 2;
	int64_t lead[MAX_RANK];
	for (int i = 0; i < batch; i++) {
		int ia = i - (batch - (s->rank - 2)), ib = i - (batch - (t->rank - 2));
		int64_t na = ia < 0 ? 1 : s->extent[ia], nb = ib < 0 ? 1 : t->extent[ib];
		lead[i] = na == 1 ? nb : na;
	}
	for (int side = 0; side < 2; side++) {
		Value **v = side ? b : a;
		int64_t want[MAX_RANK];
		memcpy(want, lead, sizeof want);
		want[batch] = (*v)->type->extent[(*v)->type->rank - 2];
		want[batch + 1] = (*v)->type->extent[(*v)->type->rank - 1];
		*v = ir_broadcast(e, *v, batch + 2, want, at);
		if (!*v)
			return false;
	}
	return true;
}

static bool
inner_fits(Elab *e, const char *name, Value *a, Value *b, Place at)
{
	int64_t k = a->type->extent[a->type->rank - 1], l = b->type->extent[b->type->rank - 2];
	if (k == l)
		return true;
	diag_error(e->cx, at, DIAG_DOT_INNER, name, (long long)k, (long long)l);
	return diag_label(e->cx, "%s by %s; expected %lld rows on the right",
	    type_shape_text(e, a->type), type_shape_text(e, b->type), (long long)k);
}

static const Type *
product_type(Elab *e, Value *a, Value *b)
{
	int64_t extent[MAX_RANK];
	int rank = a->type->rank;
	memcpy(extent, a->type->extent, sizeof extent);
	extent[rank - 1] = b->type->extent[rank - 1];
	return type_tile(e->m, elab_accumulator(e, a->type->elem), rank, extent);
}

/* The accumulator as written, or zeros. */
static Value *
accumulator(Elab *e, const char *name, const Val *acc, const Type *want)
{
	if (!acc || acc->kind == VAL_VOID)
		return build_int(&e->b, want, 0);
	if (acc->kind == VAL_TILE && !acc->v->type->ptr && acc->v->type->elem == want->elem) {
		Value *v = acc->v;
		return type_same_shape(v->type, want) ? v : ir_broadcast(e, v, want->rank, want->extent, acc->place);
	}
	diag_error(e->cx, acc->place, DIAG_DOT_ACC, name, type_text(want, e->cx->mem), val_describe(e, acc));
	return NULL;
}

Val
elab_matmul(Elab *e, const Val *va, const Val *vb, Place at)
{
	if (val_is_poison(va) || val_is_poison(vb))
		return val_poison(at);
	if (!is_matrix(e, "@", va, "a", at) || !is_matrix(e, "@", vb, "b", at))
		return val_poison(at);
	Value *a = va->v, *b = vb->v;
	if (!types_fit(e, "@", &a, &b, false, at) || !inner_fits(e, "@", a, b, at) || !batches_fit(e, &a, &b, at))
		return val_poison(at);
	const Type *t = product_type(e, a, b);
	if (!shape_check(e, at, t->rank, t->extent))
		return val_poison(at);
	return val_tile(at, build3(&e->b, OP_DOT, a, b, build_int(&e->b, t, 0)));
}

Val
dot_dot(Call *c)
{
	Elab *e = c->e;
	if (!is_matrix(e, "dot", &c->arg[0].val, "a", c->place) || !is_matrix(e, "dot", &c->arg[1].val, "b", c->place))
		return val_poison(c->place);
	Value *a = c->arg[0].val.v, *b = c->arg[1].val.v;
	if (!types_fit(e, "dot", &a, &b, false, c->place) || !inner_fits(e, "dot", a, b, c->place) ||
	    !batches_fit(e, &a, &b, c->place))
		return val_poison(c->place);
	const Type *t = product_type(e, a, b);
	Value *acc = shape_check(e, c->place, t->rank, t->extent) ? accumulator(e, "dot", &c->arg[2].val, t) : NULL;
	if (!acc)
		return val_poison(c->place);
	Attr precision = attr_new_precision(e->m, call_word(c, 3));
	bool fast = strcmp(precision.text, "fast") == 0, f32 = a->type->elem == TY_F32 && b->type->elem == TY_F32;
	bool matters = fast ? dtype_is_f8(a->type->elem) && dtype_is_f8(b->type->elem)
	                    : f32 && strcmp(precision.text, "ieee") != 0;
	return val_tile(c->place, op_make(&e->b, OP_DOT, (Value *[]){a, b, acc}, 3, &precision, matters, NULL, 0)->out);
}

/* A scale stands for `block` elements along K: [outer, cdiv(K, block)] after the batch dimensions of its operand. */
static Value *
scale(Call *c, int i, Value *of, int64_t outer, int64_t k, int64_t block)
{
	Elab *e = c->e;
	Value *v = call_tile(c, i, IS_FLOAT | IS_INT);
	if (!v)
		return NULL;
	if (!dtype_is_float(v->type->elem) && v->type->elem != TY_U8) {
		call_wrong(c, i, "a tile of u8 exponents (e8m0) or of floats");
		return NULL;
	}
	int64_t want[MAX_RANK];
	memcpy(want, of->type->extent, sizeof want);
	want[of->type->rank - 2] = outer;
	want[of->type->rank - 1] = k / block + (k % block != 0);
	if (v->type->rank == of->type->rank && memcmp(v->type->extent, want, sizeof *want * (size_t)v->type->rank) == 0)
		return v;
	diag_error(e->cx, c->arg[i].place, DIAG_DOT_SCALE, c->def->name, c->arg[i].name,
	    shape_text(e, of->type->rank, want), type_shape_text(e, v->type));
	return NULL;
}

Val
dot_scaled(Call *c)
{
	Elab *e = c->e;
	int64_t block;
	if (!is_matrix(e, "dot_scaled", &c->arg[0].val, "a", c->place) ||
	    !is_matrix(e, "dot_scaled", &c->arg[2].val, "b", c->place) || !call_int(c, 5, &block))
		return val_poison(c->place);
	if (block < 1)
		return call_wrong(c, 5, "at least 1");
	Value *a = c->arg[0].val.v, *b = c->arg[2].val.v;
	if (!types_fit(e, "dot_scaled", &a, &b, true, c->place) || !inner_fits(e, "dot_scaled", a, b, c->place) ||
	    !batches_fit(e, &a, &b, c->place))
		return val_poison(c->place);
	if (!dtype_is_float(a->type->elem))
		return call_wrong(c, 0, "a tile of floats");
	int rank = a->type->rank;
	int64_t k = a->type->extent[rank - 1];
	const Type *t = product_type(e, a, b);
	Value *as = scale(c, 1, a, a->type->extent[rank - 2], k, block);
	Value *bs = as ? scale(c, 3, b, b->type->extent[rank - 1], k, block) : NULL;
	bool fits = bs && shape_check(e, c->place, t->rank, t->extent);
	Value *acc = fits ? accumulator(e, "dot_scaled", &c->arg[4].val, t) : NULL;
	if (!acc)
		return val_poison(c->place);
	Attr attr = attr_new_block(e->m, block);
	return val_tile(c->place, op_make(&e->b, OP_DOT_SCALED, (Value *[]){a, as, b, bs, acc}, 5, &attr, 1, NULL, 0)->out);
}
