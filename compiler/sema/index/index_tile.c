/* Indexing of tile values: v[:, new] adds a dimension, v[i] drops one, v[a +: n] cuts a part out; and the members
 * .T and .dtype of tiles and tensors. */
#include "sema/builtin/builtin.h"

#include <string.h>

/* A part of so many elements from `start` on; extent -1: one, by its index. */
static bool
in_range(Elab *e, Place at, const Val *start, int64_t extent, int64_t of)
{
	bool known = start->kind == VAL_INT;
	int64_t n = extent < 0 ? 1 : extent;
	const char *what = "any index";
	if (n <= of && (!known || (start->i >= 0 && start->i <= of - n)))
		return true;
	if (known && extent < 0)
		what = arena_printf(e->cx->mem, "index %lld", (long long)start->i);
	else if (known)
		what = arena_printf(e->cx->mem, "part %lld +: %lld", (long long)start->i, (long long)extent);
	else if (extent >= 0)
		what = arena_printf(e->cx->mem, "a part of %lld", (long long)extent);
	diag_error(e->cx, at, DIAG_TILE_RANGE, what, (long long)of);
	if (known && extent < 0 && start->i < 0 && start->i >= -of)
		diag_help(e->cx, "indices do not count from the end: this one is %lld", (long long)(of + start->i));
	return false;
}

static bool
cut_index(Elab *e, const Subscript *s, int64_t of, Value **start)
{
	Val v = elab_expr(e, s->e);
	if (val_is_poison(&v))
		return false;
	if (v.kind == VAL_LIST || (v.kind == VAL_TILE && v.v->type->rank > 0)) {
		diag_error(e->cx, s->place, DIAG_GATHER_TILE);
		return diag_help(e->cx, "gather(tile, index, axis) does; tensors gather by x[index]");
	}
	*start = val_index(e, &v, "an index");
	return *start && in_range(e, s->place, &v, -1, of);
}

static bool
cut_part(Elab *e, const Subscript *s, int64_t of, Value **start, int64_t *extent, bool *whole)
{
	Val v = elab_expr(e, s->e), n = elab_expr(e, s->extent);
	n = val_folded(e, &n);
	if (val_is_poison(&v) || val_is_poison(&n))
		return false;
	if (n.kind != VAL_INT)
		return diag_error(e->cx, s->extent->place, DIAG_EXTENT_CONST);
	*start = val_index(e, &v, "the start of a part");
	*extent = n.i;
	*whole = v.kind == VAL_INT && v.i == 0 && n.i == of;
	if (n.i < 0)
		return diag_error(e->cx, s->extent->place, DIAG_EXTENT_RANGE, (long long)n.i);
	return (*start || n.i > of) && in_range(e, s->place, &v, n.i, of);
}

/* Dimension d; NULL stands for `:`. */
static bool
cut_dim(Elab *e, const Subscript *s, int d, int64_t of, TileCut *c)
{
	bool whole = true;
	int64_t extent = of;
	if (s && s->kind == SUB_INDEX) {
		c->index[d] = 'i';
		c->cuts = true;
		return cut_index(e, s, of, &c->start[d]);
	}
	c->index[d] = 'p';
	if (s && s->kind == SUB_PART) {
		if (!cut_part(e, s, of, &c->start[d], &extent, &whole))
			return false;
		c->cuts |= !whole;
	}
	c->extents[c->nextents++] = extent;
	return true;
}

static bool
count_ok(Elab *e, const Expr *x, const Val *base)
{
	int n = 0, rank = base->v->type->rank;
	for (int i = 0; i < x->subs.n; i++)
		n += x->subs.at[i].kind != SUB_NEW;
	if (n <= rank)
		return true;
	return diag_error(e->cx, x->place, DIAG_INDEX_COUNT, val_describe(e, base), rank,
	    rank == 1 ? "" : "s", n, n == 1 ? "ex is" : "ices are");
}

bool
cut_open(Elab *e, const Expr *x, const Val *base, TileCut *c)
{
	const Type *t = base->v->type;
	int d = 0;
	bool ok = true;
	*c = (TileCut){0};
	if (x->b)
		return diag_error(e->cx, x->b->place, DIAG_ELSE_TILE, "a tile value");
	if (!count_ok(e, x, base))
		return false;
	for (int i = 0; i < x->subs.n; i++) {
		if (x->subs.at[i].kind == SUB_NEW) {
			c->nnew++;
			if (c->rank < LEN(c->shape))
				c->shape[c->rank++] = 1;
			continue;
		}
		ok &= cut_dim(e, &x->subs.at[i], d, t->extent[d], c);
		if (c->index[d] == 'p' && ok && c->rank < LEN(c->shape))
			c->shape[c->rank++] = c->extents[c->nextents - 1];
		d++;
	}
	for (; d < t->rank && ok; d++) {
		cut_dim(e, NULL, d, t->extent[d], c);
		if (c->rank < LEN(c->shape))
			c->shape[c->rank++] = t->extent[d];
	}
	e->b.place = x->place;
	return ok && shape_check(e, x->place, c->rank, c->shape);
}

Value *
cut_read(Elab *e, Value *v, const TileCut *c)
{
	Value *in[1 + MAX_RANK] = {v};
	if (!c->cuts)
		return ir_reshape(e, v, c->rank, c->shape);
	for (int d = 0; d < v->type->rank; d++)
		in[1 + d] = c->start[d] ? c->start[d] : ir_const_int(e, TY_I64, 0);
	Attr attr[] = {attr_new_index(e->m, c->index), attr_new_extents(e->m, c->extents, c->nextents)};
	v = op_make(&e->b, OP_EXTRACT, in, 1 + v->type->rank, attr, 2, NULL, 0)->out;
	return ir_reshape(e, v, c->rank, c->shape);
}

Val
index_tile(Elab *e, const Expr *x, const Val *base)
{
	TileCut c;
	if (!cut_open(e, x, base, &c))
		return val_poison(x->place);
	return val_tile(x->place, cut_read(e, base->v, &c));
}

static Val
transposed(Elab *e, const Expr *x, const Val *base)
{
	int rank = base->kind == VAL_TENSOR ? base->rank : base->v->type->rank;
	if (rank != 2) {
		diag_error(e->cx, x->place, DIAG_VIEW_RANK, val_describe(e, base), rank);
		diag_help(e->cx, "permute(x, [0, 2, 1]) orders any number of dimensions");
		return val_poison(x->place);
	}
	if (base->kind == VAL_TILE)
		return val_tile(x->place, ir_permute(e, base->v, (int[]){1, 0}));
	Val view = *base;
	view.perm[0] = base->perm[1];
	view.perm[1] = base->perm[0];
	view.place = x->place;
	return view;
}

/* A variable of the other part's state. */
static Val
member_of_part(Elab *e, const Expr *x, const Val *part)
{
	for (int i = 0; i < part->n; i++)
		if (part->names[i] == x->name) {
			Val v = part->items[i];
			v.place = x->place;
			return v;
		}
	Val none = val_error(e, x->op_place, DIAG_MERGE_MEMBER, x->name);
	Text all = {0};
	for (int i = 0; i < part->n; i++)
		text_printf(&all, "%s'%s'", i ? ", " : "", part->names[i]);
	diag_help(e->cx, "it changes %s", all.at ? all.at : "nothing");
	text_close(&all);
	return none;
}

Val
elab_member(Elab *e, const Expr *x)
{
	Val base = elab_expr(e, x->a);
	if (val_is_poison(&base))
		return base;
	if (base.kind == VAL_PART)
		return member_of_part(e, x, &base);
	bool has = base.kind == VAL_TENSOR || base.kind == VAL_TILE;
	e->b.place = x->place;
	if (has && strcmp(x->name, "T") == 0)
		return transposed(e, x, &base);
	if (has && strcmp(x->name, "dtype") == 0) {
		DType t = base.kind == VAL_TILE ? base.v->type->elem : tensor_value(e, &base)->type->elem;
		if (base.kind == VAL_TENSOR && e->bound)
			t = e->bound->param[base.param].dtype;
		return (Val){.kind = VAL_DTYPE, .place = x->place, .dtype = t};
	}
	diag_error(e->cx, x->place, DIAG_MEMBER_UNKNOWN, val_describe(e, &base), x->name);
	const char *hint = name_hint(x->name);
	diag_help(e->cx, "%s", hint ? hint : "there are x.T, x.dtype, and the calls x.shape(d) and x.stride(d)");
	return val_poison(x->place);
}
