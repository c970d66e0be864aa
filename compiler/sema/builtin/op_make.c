/* The make and shape families: tiles without operands, and the same elements in another arrangement. */
#include "ir/derive.h"
#include "sema/builtin/builtin.h"

#include <string.h>

/* The shape argument i; in an example's line it may be left out and is the parameter's. */
static bool
shape_or_implied(Call *c, int i, int *rank, int64_t *extent)
{
	Elab *e = c->e;
	if (call_has(c, i))
		return call_shape(c, i, rank, extent);
	if (!e->example) {
		diag_error(e->cx, c->place, DIAG_ARG_MISSING, c->def->name, c->arg[i].name);
		return diag_help(e->cx, "the arguments are %s(%s)", c->def->name, c->def->params);
	}
	return example_shape(c, rank, extent);
}

static Val
arange_implied(Call *c)
{
	int rank;
	int64_t extent[MAX_RANK];
	if (!shape_or_implied(c, 0, &rank, extent))
		return val_poison(c->place);
	if (c->e->example->offset)
		return val_tile(c->place, c->e->example->offset);
	Value *v = ir_counted(c->e, TY_I64, extents_count(rank, extent));
	return val_tile(c->place, ir_reshape(c->e, v, rank, extent));
}

Val
make_arange(Call *c)
{
	int64_t start = 0, end;
	if (!call_has(c, 0) && !call_has(c, 1))
		return arange_implied(c);
	if (!call_has(c, 1) ? !call_int(c, 0, &end) : (call_has(c, 0) && !call_int(c, 0, &start)) || !call_int(c, 1, &end))
		return val_poison(c->place);
	int64_t n;
	if (__builtin_sub_overflow(end, start, &n) || n < 0)
		return val_error(c->e, c->place, DIAG_ARANGE_RANGE, (long long)start, (long long)end);
	if (!shape_check(c->e, c->place, 1, &n))
		return val_poison(c->place);
	bool small = start >= INT32_MIN && end <= (int64_t)INT32_MAX + 1;
	Value *v = ir_counted(c->e, small ? TY_I32 : TY_I64, n);
	return val_tile(c->place, start ? build2(&c->e->b, OP_ADD, v, build_int(&c->e->b, v->type, start)) : v);
}

Val
make_zeros(Call *c)
{
	Elab *e = c->e;
	int rank;
	int64_t extent[MAX_RANK];
	DType t;
	if (!call_has(c, 0) && !c->arg[1].e && e->example && e->example->implied)
		return val_int(c->place, c->def->op);           /* takes the parameter's type and shape */
	if (!shape_or_implied(c, 0, &rank, extent) || !call_dtype(c, 1, &t))
		return val_poison(c->place);
	return val_tile(c->place, build_int(&e->b, type_tile(e->m, elab_dtype(e, t), rank, extent), c->def->op));
}

Val
make_full(Call *c)
{
	Elab *e = c->e;
	int rank;
	int64_t extent[MAX_RANK];
	DType t;
	Val v = c->arg[1].val;
	if (!call_shape(c, 0, &rank, extent))
		return val_poison(c->place);
	if (call_has(c, 2)) {
		if (!call_dtype(c, 2, &t))
			return val_poison(c->place);
		v = elab_cast(e, &v, t, c->place);
	}
	if (val_is_poison(&v))
		return v;
	Value *x = val_ir(e, &v);
	return val_tile(c->place, x ? ir_broadcast(e, x, rank, extent, c->place) : NULL);
}

Val
make_iota(Call *c)
{
	Elab *e = c->e;
	int rank, axis;
	int64_t extent[MAX_RANK];
	DType t;
	if (!call_shape(c, 0, &rank, extent) || !call_axis(c, 1, rank, &axis) || !call_dtype(c, 2, &t))
		return val_poison(c->place);
	if (!dtype_is_int(t) || dtype_is_packed(t))
		return call_wrong(c, 2, "an integer dtype of 8 bits or more");
	return val_tile(c->place, build_iota(&e->b, type_tile(e->m, t, rank, extent), axis));
}

/* Argument i as a tile of anything that can be moved about: packed elements and pointers too. */
static Value *
any_tile(Call *c)
{
	return call_tile(c, 0, IS_ANY | IS_PACKED | IS_POINTER);
}

/* The shape argument of reshape: one extent may be -1 and is what the count leaves. */
static bool
reshape_extents(Call *c, int64_t count, int *out, int64_t *extent)
{
	const Val *shape = &c->arg[1].val;
	bool nested = shape->kind == VAL_LIST || shape->kind == VAL_TUPLE;
	int rank = nested ? shape->n : 1, hole = -1;
	int64_t known = 1;
	if (!rank_check(c->e, shape->place, rank))
		return false;
	if (!ALL_OF(i, rank, val_const_int(c->e, nested ? &shape->items[i] : shape, "an extent", &extent[i])))
		return false;
	*out = rank;
	for (int i = 0; i < rank; i++) {
		if (extent[i] == -1 && hole < 0)
			hole = i;
		else if (__builtin_mul_overflow(known, MAX(extent[i], 0), &known))
			known = INT64_MAX;
	}
	if (hole >= 0)
		extent[hole] = known ? MAX(count / known, count > 0) : 0;
	return shape_check(c->e, c->arg[1].place, rank, extent);
}

Val
shape_reshape(Call *c)
{
	Elab *e = c->e;
	int rank;
	int64_t extent[MAX_RANK];
	Value *x = any_tile(c);
	if (!x || !reshape_extents(c, type_count(x->type), &rank, extent))
		return val_poison(c->place);
	int64_t count = extents_count(rank, extent);
	if (count != type_count(x->type))
		return val_error(e, c->place, DIAG_RESHAPE_COUNT, c->def->name,
		    val_describe(e, &c->arg[0].val), (long long)type_count(x->type),
		    shape_text(e, rank, extent), (long long)count);
	return val_tile(c->place, ir_reshape(e, x, rank, extent));
}

/* Dimensions as the rest arguments give them: one list or tuple, or integers. */
static bool
read_dims(Call *c, int rank, int *dims)
{
	Elab *e = c->e;
	Val *item[MAX_RANK + 1];
	int n = 0;
	bool ok = true;
	unsigned seen = 0;
	for (int i = 0; i < c->nrest; i++) {
		Val *v = &c->rest[i].val;
		bool nested = v->kind == VAL_LIST || v->kind == VAL_TUPLE;
		for (int k = 0; k < (nested ? v->n : 1) && n <= rank && n <= MAX_RANK; k++)
			item[n++] = nested ? &v->items[k] : v;
	}
	for (int i = 0; i < n && i < rank; i++) {
		int64_t d;
		if (!val_const_int(e, item[i], "a dimension", &d))
			return false;
		d = d < 0 ? d + rank : d;
		ok = ok && d >= 0 && d < rank && !(seen >> d & 1);
		if (ok)
			seen |= 1u << d;
		dims[i] = (int)d;
	}
	if (ok && n == rank)
		return true;
	return diag_error(e->cx, c->place, DIAG_PERMUTE_DIMS, c->def->name, rank - 1);
}

/* permute and trans, of tiles and (as views) of tensors. */
Val
shape_permute(Call *c)
{
	Elab *e = c->e;
	Val *a = &c->arg[0].val;
	int dims[MAX_RANK];
	Value *x = a->kind == VAL_TENSOR ? NULL : any_tile(c);
	if (!x && a->kind != VAL_TENSOR)
		return val_poison(c->place);
	int rank = x ? x->type->rank : a->rank;
	if (c->nrest == 0 && c->def->op && rank >= 2) {
		for (int i = 0; i < rank; i++)
			dims[i] = i;
		dims[rank - 2] = rank - 1;
		dims[rank - 1] = rank - 2;
	} else if (!read_dims(c, rank, dims)) {
		return val_poison(c->place);
	}
	if (x)
		return val_tile(c->place, ir_permute(e, x, dims));
	Val view = *a;
	for (int i = 0; i < rank; i++)
		view.perm[i] = a->perm[dims[i]];
	return view;
}

Val
shape_broadcast_to(Call *c)
{
	int rank;
	int64_t extent[MAX_RANK];
	Value *x = any_tile(c);
	if (!x || !call_shape(c, 1, &rank, extent))
		return val_poison(c->place);
	return val_tile(c->place, ir_broadcast(c->e, x, rank, extent, c->place));
}

Val
shape_expand_dims(Call *c)
{
	Value *x = any_tile(c);
	int axis, n = 0;
	int64_t extent[MAX_RANK + 1];
	if (!x || !call_axis(c, 1, x->type->rank + 1, &axis))
		return val_poison(c->place);
	for (int i = 0; i <= x->type->rank; i++)
		extent[i] = i == axis ? 1 : x->type->extent[n++];
	if (!shape_check(c->e, c->place, x->type->rank + 1, extent))
		return val_poison(c->place);
	return val_tile(c->place, ir_reshape(c->e, x, x->type->rank + 1, extent));
}

/* The tiles to join: the rest arguments, or the items of the one tuple or list among them. */
static bool
cat_operands(Call *c, const Val **items, int *n)
{
	bool nested = c->nrest == 1 && (c->rest[0].val.kind == VAL_TUPLE || c->rest[0].val.kind == VAL_LIST);
	*n = nested ? c->rest[0].val.n : c->nrest;
	Val *v = MAP_OF(c->e->cx->mem, Val, i, *n, nested ? c->rest[0].val.items[i] : c->rest[i].val);
	*items = v;
	return *n > 0 || diag_error(c->e->cx, c->place, DIAG_ARG_MISSING, "cat", "x");
}

static bool
is_tile(const Val *v)
{
	return v->kind == VAL_TILE && !v->v->type->ptr;
}

/* All operands in the common dtype of all, whatever their shapes. */
static bool
cat_promote(Call *c, const Val *items, int n, Value **x)
{
	Elab *e = c->e;
	DType t = val_dtype(e, &items[0]);
	bool same = true;
	for (int i = 0; i < n; i++) {
		if (!is_tile(&items[i]) && !val_is_const(&items[i]) && items[i].kind != VAL_LIST)
			return diag_error(e->cx, items[i].place, DIAG_ARG_KIND, "cat", "x",
			    "a tile", val_describe(e, &items[i]));
		same &= is_tile(&items[i]) && items[i].v->type->elem == t;
	}
	if (!same && !promote_all(e, items, n, &t))
		return false;
	for (int i = 0; i < n; i++) {
		List l;
		if (items[i].kind == VAL_LIST)
			x[i] = list_open(e, &items[i], items[i].place, &l) ? list_tile(e, &l, t) : NULL;
		else
			x[i] = is_tile(&items[i]) ? ir_convert(e, items[i].v, t) : val_ir_as(e, &items[i], t);
		if (!x[i])
			return false;
	}
	return true;
}

Val
shape_cat(Call *c)
{
	Elab *e = c->e;
	const Val *items;
	int n, axis;
	if (!cat_operands(c, &items, &n))
		return val_poison(c->place);
	Value **x = NEW_ARRAY(e->cx->mem, Value *, n);
	if (!cat_promote(c, items, n, x) || !call_axis(c, 0, x[0]->type->rank, &axis))
		return val_poison(c->place);
	int64_t extent[MAX_RANK];
	memcpy(extent, x[0]->type->extent, sizeof extent);
	for (int i = 1; i < n; i++) {
		bool fits = x[i]->type->rank == x[0]->type->rank &&
			    ALL_OF(d, x[0]->type->rank,
				d == axis || x[i]->type->extent[d] == x[0]->type->extent[d]);
		if (!fits)
			return val_error(e, items[i].place, DIAG_CAT_SHAPES, "cat",
			    type_shape_text(e, x[0]->type), type_shape_text(e, x[i]->type), axis);
		extent[axis] += x[i]->type->extent[axis];
	}
	if (!shape_check(e, c->place, x[0]->type->rank, extent))
		return val_poison(c->place);
	Attr a = attr_new_axis(e->m, axis);
	return val_tile(c->place, op_make(&e->b, OP_CAT, x, n, &a, 1, NULL, 0)->out);
}

Val
shape_join(Call *c)
{
	Elab *e = c->e;
	Value *x[2];
	Val in[2] = {c->arg[0].val, c->arg[1].val};
	if (!call_tile(c, 0, IS_ANY) || !call_tile(c, 1, IS_ANY) || !match_values(e, in, 2, c->place, x))
		return val_poison(c->place);
	int rank = x[0]->type->rank;
	int64_t extent[MAX_RANK + 1];
	memcpy(extent, x[0]->type->extent, sizeof *extent * (size_t)rank);
	extent[rank] = 2;
	if (!shape_check(e, c->place, rank + 1, extent))
		return val_poison(c->place);
	return val_tile(c->place, build2(&e->b, OP_JOIN, x[0], x[1]));
}

Val
shape_split(Call *c)
{
	Elab *e = c->e;
	Value *x = any_tile(c);
	if (!x)
		return val_poison(c->place);
	if (x->type->rank == 0 || x->type->extent[x->type->rank - 1] != 2) {
		diag_error(e->cx, c->place, DIAG_SPLIT_LAST, type_shape_text(e, x->type));
		diag_help(e->cx, "reshape brings the dimension about: split(reshape(x, [N, 2]))");
		return val_poison(c->place);
	}
	Op *op = op_make(&e->b, OP_SPLIT, &x, 1, NULL, 0, NULL, 0);
	Val half[2] = {val_tile(c->place, &op->out[0]), val_tile(c->place, &op->out[1])};
	return val_tuple(e, c->place, half, 2);
}

Val
shape_flip(Call *c)
{
	Elab *e = c->e;
	int axis;
	Value *x = call_tile(c, 0, IS_ANY | IS_PACKED);
	if (!x || !call_axis(c, 1, x->type->rank, &axis))
		return val_poison(c->place);
	Attr a = attr_new_axis(e->m, axis);
	return val_tile(c->place, op_make(&e->b, OP_FLIP, &x, 1, &a, 1, NULL, 0)->out);
}
