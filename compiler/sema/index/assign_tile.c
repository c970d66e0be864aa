/* Assignment to elements of a variable that holds a tile.  A tile is a value: what is assigned is a new one, chosen
 * element by element between the old one and the value, which a broadcast brings to the tile's shape.  Where it
 * repeats along what is indexed, no element moves:
 *
 *     t[i, :] = r        =>   %0 = iota {axis = 0} : i32[8, 64]
 *                             %1 = eq %0, %i                               (%i held within -1 .. 8: outside is nowhere)
 *                             %t = select %1, broadcast %r, %t
 *
 * A part of several elements whose value has as many is first moved to its position.  Where the parts are powers of two
 * and count in parts, a reshape of a broadcast does that (the value stands in every part, the mask chooses one), and
 * again nothing moves; else a gather along the dimension does.
 *
 * t[i] += v adds on the whole tile and then chooses, for the same reason. */
#include "ir/derive.h"
#include "sema/builtin/builtin.h"

/* Indices along a dimension; only whole tensors have extents beyond i32. */
static DType
index_dtype(const Type *t)
{
	if (ANY_OF(d, t->rank, t->extent[d] > INT32_MAX))
		return TY_I64;
	return TY_I32;
}

static Value *
iota(Elab *e, const Type *t, DType elem, int d)
{
	return build_iota(&e->b, type_tile(e->m, elem, t->rank, t->extent), d);
}

static bool
constant_int(const Value *v, int64_t *out)
{
	if (!v->def || v->def->kind != OP_CONST)
		return false;
	*out = attr_value(v->def)->i;
	return true;
}

/* The start of a part of n elements in the type of the indices; what is outside of the `of` elements stays outside. */
static Value *
start_of(Elab *e, const Type *along, int64_t of, Value *start, int64_t n)
{
	int64_t first;
	if (constant_int(start, &first))
		return build_int(&e->b, along, first);
	start = build2(&e->b, OP_MAX, start, ir_const_int(e, TY_I64, -n));
	start = build2(&e->b, OP_MIN, start, ir_const_int(e, TY_I64, of));
	return build1(&e->b, OP_BROADCAST, ir_convert(e, start, along->elem), along);
}

/* How far each element of shape t is behind the start of a part of n elements along d: 0 .. n - 1 is inside. */
static Value *
behind(Elab *e, const Type *t, int d, Value *start, int64_t n)
{
	Value *along = iota(e, t, index_dtype(t), d);
	return build2(&e->b, OP_SUB, along, start_of(e, along->type, t->extent[d], start, n));
}

/* Which elements of t lie inside along d. */
static Value *
inside(Elab *e, const Type *t, int d, Value *start, int64_t n)
{
	if (n == 1) {
		Value *along = iota(e, t, index_dtype(t), d);
		return build2(&e->b, OP_EQ, along, start_of(e, along->type, t->extent[d], start, 1));
	}
	Value *at = behind(e, t, d, start, n);
	at = ir_convert(e, at, at->type->elem == TY_I64 ? TY_U64 : TY_U32);
	return build2(&e->b, OP_LT, at, build_int(&e->b, at->type, n));
}

static bool
is_whole(const TileCut *c, int d, int64_t n, int64_t of)
{
	int64_t first;
	return !c->start[d] || (n == of && constant_int(c->start[d], &first) && first == 0);
}

/* The mask of all dimensions; NULL: every element. */
static Value *
chosen(Elab *e, const TileCut *c, const Type *t)
{
	Value *all = NULL;
	for (int d = 0, p = 0; d < t->rank; d++) {
		int64_t n = c->index[d] == 'p' ? c->extents[p++] : 1;
		if (is_whole(c, d, n, t->extent[d]))
			continue;
		Value *in = inside(e, t, d, c->start[d], n);
		all = all ? build2(&e->b, OP_AND, all, in) : in;
	}
	return all;
}

/* v, of n elements along d, at their positions among `of`; the other elements are arbitrary. */
static Value *
placed(Elab *e, Value *v, int d, Value *start, int64_t of)
{
	int64_t n = v->type->extent[d], first;
	bool counts = constant_int(start, &first) && first % n == 0 && of % n == 0 && is_power_of_two(n);
	if (counts && v->type->rank < rank_limit(e))
		return build_repeat(&e->b, v, d, of / n);
	Value *in[2] = {v, behind(e, type_with_extent(e->m, v->type, d, of), d, start, n)};
	Attr axis = attr_new_axis(e->m, d);
	return op_make(&e->b, OP_GATHER, in, 2, &axis, 1, NULL, 0)->out;
}

/* A value that fits the part, as a tile of the whole shape. */
static Value *
spread(Elab *e, Value *v, const TileCut *c, const Type *t, Place at)
{
	int64_t shape[MAX_RANK];
	int rank = v->type->rank, k = rank - c->rank;
	if (rank > 0) {
		for (int d = 0; d < t->rank; d++) {
			bool part = c->index[d] == 'p';
			shape[d] = part && k >= 0 ? v->type->extent[k] : 1;
			k += part;
		}
		v = ir_reshape(e, v, t->rank, shape);
		for (int d = 0; d < t->rank; d++)
			if (shape[d] > 1 && (shape[d] < t->extent[d] || !is_whole(c, d, shape[d], t->extent[d])))
				v = placed(e, v, d, c->start[d], t->extent[d]);
	}
	return ir_broadcast(e, v, t->rank, t->extent, at);
}

/* What `t op value` is, where t is a whole tile and the value fits the part; literals stay weak. */
static bool
combined(Elab *e, const char *name, const Val *old, BinaryOp op, const Val *value, const TileCut *c, Place at, Val *out)
{
	const Type *t = old->v->type;
	Val v = *value;
	if (v.kind == VAL_LIST) {
		List l;
		DType elem;
		if (!promote_all(e, (Val[]){*old, v}, 2, &elem) || !list_open(e, &v, v.place, &l))
			return false;
		v = val_tile(v.place, list_tile(e, &l, elem));
		if (val_is_poison(&v))
			return false;
	}
	if (v.kind == VAL_TILE && !v.v->type->ptr) {
		Place where = v.place;
		if (!stored_fits(e, name, v.v, c->rank, c->shape, where.file >= 0 ? where : at))
			return false;
		v = val_tile(where, spread(e, v.v, c, t, at));
	}
	*out = elab_binary(e, op, old, &v, at);
	return !val_is_poison(out);
}

/* The new tile; NULL after an error. */
static Value *
changed(Elab *e, const char *name, const Val *old, BinaryOp op, const Val *value, const TileCut *c, Place at)
{
	const Type *t = old->v->type;
	Place where = value->place.file >= 0 ? value->place : at;
	Val v = *value;
	Value *to;
	bool none = ANY_OF(d, c->rank, c->shape[d] == 0);
	if (op == BIN_MATMUL || (none && op != BIN_NONE)) {     /* of the part alone */
		Val part = val_tile(at, cut_read(e, old->v, c));
		v = elab_binary(e, op, &part, value, at);
		op = BIN_NONE;
	}
	if (op == BIN_NONE) {
		to = stored_elements(e, name, &v, t->elem, c->rank, c->shape, where);
		if (none)
			return to ? old->v : NULL;
		to = to ? spread(e, to, c, t, at) : NULL;
	} else {
		to = combined(e, name, old, op, value, c, at, &v)
		    ? stored_value(e, name, &v, t->elem, t->rank, t->extent, where) : NULL;
	}
	Value *mask = to ? chosen(e, c, t) : NULL;
	return mask ? build3(&e->b, OP_SELECT, mask, to, old->v) : to;
}

void
tile_store(Elab *e, const Expr *target, BinaryOp op, const Val *value, Place at)
{
	TileCut c;
	if (target->a->kind != EX_NAME) {
		diag_error(e->cx, target->place, DIAG_TILE_ASSIGN, "a value without a name");
		diag_help(e->cx, "name it first: var t = ...; t[i] = v;");
		return;
	}
	Binding *b = var_find(e, target->a);
	if (!b)
		return;
	Val old = b->val;
	old.place = target->place;
	if (!cut_open(e, target, &old, &c) || val_is_poison(value))
		return;
	if (c.nnew > 0) {
		diag_error(e->cx, target->place, DIAG_NEW_STORE);
		return;
	}
	e->b.place = at;
	Value *to = changed(e, target->a->name, &old, op, value, &c, at);
	if (!to)
		return;
	Val v = val_tile(at, to);
	binding_assign(e, b, &v, at);
	trace_value(e, b->name, target->place, &b->val);
}
