/* Reductions and scans.  A builtin reduction is one `reduce` op; without an axis the tile is first made flat, and a
 * scalar is its only element's reduction.  A
 * reduction by a function calls the function on the scalars of the op's region, once, as any call is elaborated. */
#include "sema/builtin/builtin.h"

#include <string.h>

/* Brings x to what the axis argument says: flat without one.  kept: the shape with 1 where it was reduced. */
typedef struct Along {
	Value *x;
	int axis, rank;
	int64_t kept[MAX_RANK];
	bool keep;
} Along;

static bool
along(Call *c, Value *x, int iaxis, int ikeep, Along *a)
{
	int64_t count = type_count(x->type);
	*a = (Along){.x = x, .rank = x->type->rank};
	memcpy(a->kept, x->type->extent, sizeof a->kept);
	if (!call_bool(c, ikeep, &a->keep))
		return false;
	if (call_has(c, iaxis)) {
		if (!call_axis(c, iaxis, a->rank, &a->axis))
			return false;
		a->kept[a->axis] = 1;
		return true;
	}
	if (a->rank == 0)
		return true;
	for (int i = 0; i < a->rank; i++)
		a->kept[i] = 1;
	a->x = ir_reshape(c->e, x, 1, &count);
	return true;
}

static Val
finish(Call *c, const Along *a, Value *v)
{
	return val_tile(c->place, a->keep && a->rank ? ir_reshape(c->e, v, a->rank, a->kept) : v);
}

/* The reduction of a scalar. */
static Value *
emit_scalar(Elab *e, Value *x, const char *fn)
{
	if (strncmp(fn, "arg", 3) == 0)
		return ir_const_int(e, TY_I32, 0);
	bool sums = strcmp(fn, "sum") == 0 || strcmp(fn, "prod") == 0;
	return sums ? ir_convert(e, x, elab_accumulator(e, x->type->elem)) : x;
}

static Value *
emit(Call *c, const Along *a, const char *fn, bool nan)
{
	Elab *e = c->e;
	if (a->rank == 0)
		return emit_scalar(e, a->x, fn);
	Attr attr[] = {attr_new_fn(e->m, fn), attr_new_axis(e->m, a->axis), attr_new_propagate_nan(e->m, true)};
	return op_make(&e->b, OP_REDUCE, (Value *[]){a->x}, 1, attr, 2 + nan, NULL, 0)->out;
}

/* x reduced by the call's function; x may be NULL. */
static Val
reduced(Call *c, Value *x)
{
	Along a;
	if (!x || !along(c, x, 1, 2, &a))
		return val_poison(c->place);
	return finish(c, &a, emit(c, &a, c->def->name, false));
}

/* The row's number: kinds of elements. */
Val
reduce_plain(Call *c)
{
	return reduced(c, call_tile(c, 0, (unsigned)c->def->op));
}

Val
reduce_mean(Call *c)
{
	Elab *e = c->e;
	Along a;
	Value *x = call_tile(c, 0, IS_ANY);
	if (x && !dtype_is_float(x->type->elem))
		x = ir_convert(e, x, elab_dtype(e, TY_F32));
	if (!x || !along(c, x, 1, 2, &a))
		return val_poison(c->place);
	Value *sum = emit(c, &a, "sum", false);
	if (a.rank == 0)
		return finish(c, &a, sum);
	Value *n = build_float(&e->b, sum->type, (double)a.x->type->extent[a.axis]);
	return finish(c, &a, build2(&e->b, OP_DIV, sum, n));
}

/* Results without elements to choose them from. */
static bool
chooses_from_none(const Along *a)
{
	int64_t results = 1;
	if (a->rank == 0)
		return false;
	for (int d = 0; d < a->x->type->rank; d++)
		results *= d == a->axis ? 1 : a->x->type->extent[d];
	return results > 0 && a->x->type->extent[a->axis] == 0;
}

/* Of bools the greatest is whether any is true, the least whether all are. */
static const char *
extreme_fn(const Call *c, const Value *x)
{
	if (x->type->elem != TY_BOOL)
		return c->def->name;
	return strcmp(c->def->name, "max") == 0 ? "any" : "all";
}

static Val
extreme(Call *c, int iaxis)
{
	Along a;
	bool nan;
	Value *x = call_tile(c, 0, IS_ANY);
	if (x && x->type->elem == TY_BOOL && c->def->run == reduce_arg)
		x = ir_convert(c->e, x, TY_I32);
	if (!x || !along(c, x, iaxis, iaxis + 1, &a) || !call_bool(c, iaxis + 2, &nan))
		return val_poison(c->place);
	if (c->def->run == reduce_arg && chooses_from_none(&a))
		return val_error(c->e, c->arg[0].place, DIAG_ARG_EMPTY, c->def->name,
		    type_shape_text(c->e, x->type));
	bool propagates = nan && x->type->elem != TY_BOOL;
	return finish(c, &a, emit(c, &a, extreme_fn(c, x), propagates));
}

Val
reduce_max(Call *c)
{
	if (!call_has(c, 1))
		return extreme(c, 2);
	if (call_has(c, 2)) {
		diag_error(c->e->cx, c->arg[2].place, DIAG_ARG_UNKNOWN, c->def->name, "axis");
		diag_help(c->e->cx, "%s(x, y) is elementwise; %s(x, axis = …) reduces one tile", c->def->name,
		    c->def->name);
		return val_poison(c->place);
	}
	return math_extreme(c);
}

Val
reduce_arg(Call *c)
{
	return extreme(c, 1);
}

Val
reduce_any(Call *c)
{
	Value *x = call_tile(c, 0, IS_ANY);
	if (x && x->type->elem != TY_BOOL)
		x = build2(&c->e->b, OP_NE, x, build_int(&c->e->b, x->type, 0));
	return reduced(c, x);
}

Val
scan_cum(Call *c)
{
	Elab *e = c->e;
	int axis;
	bool reverse;
	Value *x = call_tile(c, 0, IS_ANY);
	if (!x || !call_axis(c, 1, x->type->rank, &axis) || !call_bool(c, 2, &reverse))
		return val_poison(c->place);
	Attr attr[] = {attr_new_fn(e->m, c->def->name + 3), attr_new_axis(e->m, axis),
	    attr_new_reverse(e->m, true)};
	return val_tile(c->place, op_make(&e->b, OP_SCAN, &x, 1, attr, 2 + reverse, NULL, 0)->out);
}

/* The tiles of x (one, or a tuple of them) broadcast to one shape, each with its own dtype. */
static bool
operands(Call *c, Value ***out, int *n)
{
	Elab *e = c->e;
	Val *x = &c->arg[0].val;
	bool several = x->kind == VAL_TUPLE;
	int64_t extent[MAX_RANK];
	int rank = 0;
	*n = several ? x->n : 1;
	Value **v = NEW_ARRAY(e->cx->mem, Value *, *n);
	for (int i = 0; i < *n; i++) {
		Val *item = several ? &x->items[i] : x;
		bool is_tile = item->kind == VAL_TILE || val_is_const(item);
		if (!is_tile || !call_kind_ok(val_dtype(e, item), item->kind == VAL_TILE && item->v->type->ptr, IS_ANY)) {
			call_wrong(c, 0, "a tile, or a tuple of tiles");
			return false;
		}
		v[i] = val_ir(e, item);
		if (!v[i])
			return false;
		if (v[i]->type->rank > rank) {
			rank = v[i]->type->rank;
			memcpy(extent, v[i]->type->extent, sizeof extent);
		}
	}
	for (int i = 0; i < *n; i++) {
		v[i] = ir_broadcast(e, v[i], rank, extent, c->arg[0].place);
		if (!v[i])
			return false;
	}
	*out = v;
	return *n > 0;
}

/* Whether a region only computes: it may be run in any order and any number of times. */
static const Op *
effect_in(const Block *b)
{
	return FIND_OP(op, b, op_info[op->kind].traits & (READS | WRITES | EFFECT));
}

/* What is made of nothing within the region is the same for all elements, and is computed once, before `to`. */
static void
lift(Block *b, const Block *region, Op *to)
{
	for (Op *op = b->first, *next; op; op = next) {
		bool depends = op->kind == OP_CONST || op->nregion > 0 || !(op_info[op->kind].traits & PURE);
		next = op->next;
		depends |= ANY_OF(i, op->nin, value_inside(op->in[i], region));
		for (int i = 0; i < op->nregion; i++)
			lift(op->region[i], region, to);
		if (!depends)
			op_move(op, to->home, to);
	}
}

/* The first value within a region that is no scalar; NULL: there is none. */
static Value *
tile_in(const Block *b)
{
	for (const Op *op = b->first; op; op = op_after(op, b)) {
		for (int i = 0; i < op->nin; i++)
			if (op->in[i]->type->rank)
				return op->in[i];
		for (int i = 0; i < op->nout; i++)
			if (op->out[i].type->rank)
				return (Value *)&op->out[i];
	}
	return NULL;
}

static const char *
describe(Elab *e, Value *v)
{
	Val val = val_tile(NOWHERE, v);
	return val_describe(e, &val);
}

/* What the function gave, as the n values that the region yields. */
static bool
results(Call *c, const Val *got, Block *region, int n, Value **out)
{
	Elab *e = c->e;
	int have = got->kind == VAL_TUPLE ? got->n : 1;
	if (val_is_poison(got))
		return false;
	if (have != n || got->kind == VAL_VOID)
		return diag_error(e->cx, c->arg[2].place, DIAG_FN_RESULTS, c->def->name,
		    n == 1 ? "one scalar" : arena_printf(e->cx->mem, "a tuple of %d scalars", n), val_describe(e, got));
	for (int i = 0; i < n; i++) {
		const Val *item = got->kind == VAL_TUPLE ? &got->items[i] : got;
		DType t = region->arg[i].type->elem;
		out[i] = val_is_const(item) ? val_ir_as(e, item, t) : item->kind == VAL_TILE ? item->v : NULL;
		bool fits = out[i] && out[i]->type->rank == 0 && !out[i]->type->ptr &&
		    (dtype_is_float(t) || !dtype_is_float(out[i]->type->elem));
		if (!fits) {
			if (!val_is_poison(item))
				diag_error(e->cx, c->arg[2].place, DIAG_FN_RESULTS, c->def->name,
				    arena_printf(e->cx->mem, "%s for element %d", dtype_info[t].text, i),
				    val_describe(e, item));
			return false;
		}
		out[i] = ir_convert(e, out[i], t);
	}
	return true;
}

/* Fills the region of a reduce_fn or scan_fn: the function applied to 2n scalars, accumulated ones first. */
static bool
fill_region(Call *c, Op *op, Value *const *x, int n)
{
	Elab *e = c->e;
	const Type **type = MAP_OF(e->cx->mem, const Type *, i, 2 * n, type_scalar(e->m, x[i % n]->type->elem));
	Val *args = NEW_ARRAY(e->cx->mem, Val, 2 * n);
	Value **out = NEW_ARRAY(e->cx->mem, Value *, n);
	Block *region = block_make(e->func, op, type, 2 * n);
	op->region[0] = region;
	for (int i = 0; i < 2 * n; i++)
		args[i] = val_tile(c->arg[2].place, &region->arg[i]);
	Builder outer = e->b;
	e->b.block = region;
	e->b.before = NULL;
	Val got = elab_call_fn(e, &c->arg[2].val, args, NULL, 2 * n, c->arg[2].place);
	bool ok = results(c, &got, region, n, out);
	if (ok)
		build_yield(&e->b, out, n);
	e->b = outer;
	const Op *effect = ok ? effect_in(region) : NULL;
	if (effect) {
		diag_error(e->cx, c->arg[2].place, DIAG_FN_EFFECT, c->def->name);
		diag_note(e->cx, effect->place, "this is the effect");
	}
	if (!ok || effect)
		return false;
	lift(region, region, op);
	Value *tile = tile_in(region);
	if (tile) {
		diag_error(e->cx, c->arg[2].place, DIAG_FN_TILE, c->def->name, describe(e, tile));
		diag_help(e->cx, "what does not depend on the elements may be computed of tiles, before");
	}
	return !tile;
}

static Val
by_function(Call *c, OpKind kind, Value *const *x, int n, const Attr *attr, int nattr, const Along *a)
{
	Elab *e = c->e;
	Op *op = op_make_regions(&e->b, kind, x, n, attr, nattr, NULL, 0, 1);
	if (!fill_region(c, op, x, n))
		return val_poison(c->place);
	Val *out = MAP_OF(e->cx->mem, Val, i, n, a ? finish(c, a, &op->out[i]) : val_tile(c->place, &op->out[i]));
	return c->arg[0].val.kind == VAL_TUPLE ? val_tuple(e, c->place, out, n) : out[0];
}

static bool
is_function(Call *c)
{
	if (c->arg[2].val.kind == VAL_FN)
		return true;
	call_wrong(c, 2, "a function: the name of a fn, or fn(a, b) => a + b in place");
	return false;
}

Val
reduce_fn(Call *c)
{
	Elab *e = c->e;
	Value **x;
	int n;
	Along a;
	if (!is_function(c) || !operands(c, &x, &n))
		return val_poison(c->place);
	for (int i = 0; i < n; i++) {
		if (!along(c, x[i], 1, 3, &a))
			return val_poison(c->place);
		x[i] = a.x;
	}
	if (a.rank == 0) {
		Val *out = MAP_OF(e->cx->mem, Val, i, n, val_tile(c->place, x[i]));
		return c->arg[0].val.kind == VAL_TUPLE ? val_tuple(e, c->place, out, n) : out[0];
	}
	if (chooses_from_none(&a))
		return val_error(e, c->arg[0].place, DIAG_ARG_EMPTY, c->def->name,
		    type_shape_text(e, x[0]->type));
	Attr attr = attr_new_axis(e->m, a.axis);
	return by_function(c, OP_REDUCE_FN, x, n, &attr, 1, &a);
}

Val
scan_fn(Call *c)
{
	Elab *e = c->e;
	Value **x;
	int n, axis;
	bool reverse;
	if (!is_function(c) || !operands(c, &x, &n) || !call_axis(c, 1, x[0]->type->rank, &axis) ||
	    !call_bool(c, 3, &reverse))
		return val_poison(c->place);
	Attr attr[] = {attr_new_axis(e->m, axis), attr_new_reverse(e->m, true)};
	return by_function(c, OP_SCAN_FN, x, n, attr, 1 + reverse, NULL);
}
