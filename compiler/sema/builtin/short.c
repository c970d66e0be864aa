/* `&&`, `||` and `?:`.  On scalars the right side runs only when it is needed: it becomes a region of an `if`,
 * or stands inline when it is cheap and has no effect.  On tiles both sides are evaluated, element by element.
 * A condition known at compile time takes its side at once and the other is not even looked at. */
#include "sema/elab.h"

static bool
is_scalar_bool(const Val *v)
{
	return v->kind == VAL_TILE && v->v->type->rank == 0 && v->v->type->elem == TY_BOOL &&
	    v->v->type->ptr == PTR_NONE;
}

/* a && b is: if a then b else false; a || b is: if a then true else b. */
static Val
logic_if(Elab *e, BinaryOp op, Value *a, Block *rest, Value *b, Place at)
{
	Region other = region_begin(e);
	Value *known = build_int(&e->b, type_scalar(e->m, TY_BOOL), op == BIN_LOR);

	region_end(e, &other);
	Op *branch = op == BIN_LAND ? region_if(e, a, rest, &b, other.block, &known, 1)
				    : region_if(e, a, other.block, &known, rest, &b, 1);
	return val_tile(at, &branch->out[0]);
}

static Val
elab_logic(Elab *e, const Expr *x)
{
	Val a = elab_expr(e, x->a);

	if (a.kind == VAL_BOOL && a.i == (x->bin == BIN_LOR))
		return a;
	if (!is_scalar_bool(&a)) {
		Val b = elab_expr(e, x->b);
		return elab_binary(e, x->bin, &a, &b, x->place);
	}
	Region r = region_begin(e);
	Val b = elab_expr(e, x->b);
	region_end(e, &r);
	if (!is_scalar_bool(&b) || region_is_cheap(r.block)) {
		region_splice(e, r.block);
		return elab_binary(e, x->bin, &a, &b, x->place);
	}
	return logic_if(e, x->bin, a.v, r.block, b.v, x->place);
}

Val
elab_binary_expr(Elab *e, const Expr *x)
{
	if (x->bin == BIN_LAND || x->bin == BIN_LOR)
		return elab_logic(e, x);
	Val a = elab_expr(e, x->a);
	Val b = elab_expr(e, x->b);
	e->b.place = x->place;
	return elab_binary(e, x->bin, &a, &b, x->place);
}

/* The type that both sides of a choice take; false after an error. */
static bool
common_type(Elab *e, const Val *a, const Val *b, Place at, const Type **out)
{
	if (val_is_poison(a) || val_is_poison(b))
		return false;
	if (val_is_pointer(a) && val_is_pointer(b) && a->v->type == b->v->type) {
		*out = a->v->type;
		return true;
	}
	if (!val_is_number(a) || !val_is_number(b)) {
		const Val *bad = val_is_number(a) ? b : a;
		diag_error(e->cx, at, DIAG_CHOICE, val_describe(e, a), val_describe(e, b));
		if (bad->kind == VAL_TENSOR)
			diag_help(e->cx, "a tensor is not a value; choose between tiles that are read from it");
		return false;
	}
	DType t;
	int rank;
	int64_t extent[MAX_RANK];
	if (!promote2(e, a, b, &t) || !match_shapes(e, (Val[]){*a, *b}, 2, at, &rank, extent))
		return false;
	*out = type_tile(e->m, t, rank, extent);
	return true;
}

/* Appends v converted to type t to block b. */
static Value *
convert_in(Elab *e, Block *b, const Val *v, const Type *t, Place at)
{
	Builder saved = e->b;

	e->b.block = b;
	e->b.before = NULL;
	Value *x = val_ir_as(e, v, t->elem);
	if (x)
		x = ir_broadcast(e, x, t->rank, t->extent, at);
	e->b = saved;
	return x;
}

typedef struct Choice {
	Block *then, *els;
	VEC(Value *) tv, ev;
} Choice;

/* Converts the two sides to common types, pairwise through tuples. */
static bool
choose(Elab *e, Choice *c, const Val *a, const Val *b, Place at)
{
	if (a->kind == VAL_TUPLE && b->kind == VAL_TUPLE && a->n == b->n) {
		return ALL_OF(i, a->n, choose(e, c, &a->items[i], &b->items[i], at));
	}
	const Type *t;
	if (!common_type(e, a, b, at, &t))
		return false;
	Value *x = convert_in(e, c->then, a, t, at), *y = convert_in(e, c->els, b, t, at);
	if (!x || !y)
		return false;
	vec_push(e->cx->mem, &c->tv, x);
	vec_push(e->cx->mem, &c->ev, y);
	return true;
}

static Val
like_tiles(Elab *e, const Val *v, Value *const *from, int *at)
{
	if (v->kind != VAL_TUPLE)
		return val_tile(v->place, from[(*at)++]);
	Val r = val_tuple(e, v->place, v->items, v->n);
	for (int i = 0; i < v->n; i++)
		r.items[i] = like_tiles(e, &v->items[i], from, at);
	return r;
}

static Val
cond_scalar(Elab *e, const Expr *x, Value *cond)
{
	Choice c = {0};
	int at = 0;

	Region then = region_begin(e);
	Val a = elab_expr(e, x->b);
	region_end(e, &then);
	Region els = region_begin(e);
	Val b = elab_expr(e, x->c);
	region_end(e, &els);
	c.then = then.block;
	c.els = els.block;
	if (!choose(e, &c, &a, &b, x->place))
		return val_poison(x->place);
	if (!region_is_cheap(c.then) || !region_is_cheap(c.els)) {
		Op *op = region_if(e, cond, c.then, c.tv.at, c.els, c.ev.at, c.tv.n);
		for (int i = 0; i < c.tv.n; i++)
			c.tv.at[i] = &op->out[i];
		return like_tiles(e, &a, c.tv.at, &at);
	}
	region_splice(e, c.then);
	region_splice(e, c.els);
	for (int i = 0; i < c.tv.n; i++) {
		const Type *t = c.tv.at[i]->type;
		Value *mask = ir_broadcast(e, cond, t->rank, t->extent, x->place);
		c.tv.at[i] = build3(&e->b, OP_SELECT, mask, c.tv.at[i], c.ev.at[i]);
	}
	return like_tiles(e, &a, c.tv.at, &at);
}

/* A tile of conditions: three shapes broadcast together. */
static Val
cond_tile(Elab *e, const Expr *x, const Val *cond)
{
	Val a = elab_expr(e, x->b), b = elab_expr(e, x->c);
	Value *v[3];
	int rank;
	int64_t extent[MAX_RANK];

	if (!match_values(e, (Val[]){a, b}, 2, x->place, v))
		return val_poison(x->place);
	v[2] = cond->v;
	Val all[3] = {val_tile(x->place, v[0]), val_tile(x->place, v[1]), *cond};
	if (!match_shapes(e, all, 3, x->place, &rank, extent))
		return val_poison(x->place);
	for (int i = 0; i < 3; i++)
		v[i] = ir_broadcast(e, v[i], rank, extent, x->place);
	return val_tile(x->place, build3(&e->b, OP_SELECT, v[2], v[0], v[1]));
}

Val
elab_cond(Elab *e, const Expr *x)
{
	Val c = elab_expr(e, x->a);

	if (c.kind == VAL_BOOL)
		return elab_expr(e, c.i ? x->b : x->c);
	if (c.kind == VAL_TILE && c.v->type->rank > 0 && c.v->type->elem == TY_BOOL && !val_is_pointer(&c))
		return cond_tile(e, x, &c);
	Value *cond = val_condition(e, &c);
	if (cond)
		return cond_scalar(e, x, cond);
	elab_expr(e, x->b);
	elab_expr(e, x->c);
	return val_poison(x->place);
}
