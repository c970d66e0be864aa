/* Regions of control ops.  A branch is elaborated into a block that belongs to no op yet, so that its results
 * and their types are known before the op is made; a branch that turns out to be cheap and pure is spliced into
 * the code around it instead. */
#include "ir/derive.h"
#include "sema/elab.h"

Region
region_begin(Elab *e)
{
	Region r = {.outer = e->b, .block = block_make(e->b.block->func, NULL, NULL, 0)};

	e->b.block = r.block;
	e->b.before = NULL;
	return r;
}

void
region_end(Elab *e, const Region *r)
{
	Place at = e->b.place;

	e->b = r->outer;
	e->b.place = at;
}

static void
attach(Op *op, int i, Block *block)
{
	op->region[i] = block;
	block->parent = op;
}

bool
region_is_cheap(const Block *b)
{
	int n = 0;

	for (const Op *op = b->first; op; op = op->next) {
		unsigned traits = op_info[op->kind].traits;
		if (!(traits & PURE) || (traits & REGION) || op->kind == OP_DOT || ++n > 8)
			return false;
		if (ANY_OF(i, op->nout, op->out[i].type->rank > 0))
			return false;
	}
	return true;
}

void
region_splice(Elab *e, Block *b)
{
	while (b->first)
		op_move(b->first, e->b.block, e->b.before);
}

static void
yield_into(Elab *e, Block *b, Value *const *v, int n)
{
	Builder to = e->b;

	to.block = b;
	to.before = NULL;
	build_yield(&to, v, n);
}

Op *
region_if(Elab *e, Value *cond, Block *then, Value *const *tv, Block *els, Value *const *ev, int n)
{
	yield_into(e, then, tv, n);
	yield_into(e, els, ev, n);
	Op *op = op_make_regions(&e->b, OP_IF, &cond, 1, NULL, 0, value_types(tv, n, e->cx->tmp), n, 2);
	attach(op, 0, then);
	attach(op, 1, els);
	return op;
}

Value *
val_condition(Elab *e, const Val *v)
{
	if (v->kind == VAL_POISON)
		return NULL;
	if (v->kind == VAL_BOOL)
		return val_ir(e, v);
	if (v->kind == VAL_TILE && v->v->type->elem == TY_BOOL && v->v->type->rank == 0 &&
	    v->v->type->ptr == PTR_NONE)
		return v->v;
	diag_error(e->cx, v->place, DIAG_CONDITION, val_describe(e, v));
	if (v->kind == VAL_TILE && v->v->type->elem == TY_BOOL)
		diag_help(e->cx, "choose element by element with where(c, a, b), or reduce it with any(c) or all(c)");
	else if (val_is_number(v))
		diag_help(e->cx, "compare it, as in 'x != 0'");
	return NULL;
}

int
val_flatten(Elab *e, const Val *v, Value **out, int max)
{
	if (v->kind == VAL_TILE && max > 0) {
		out[0] = v->v;
		return 1;
	}
	if (v->kind != VAL_TUPLE)
		return -1;
	int n = 0;
	for (int i = 0; i < v->n; i++) {
		int got = val_flatten(e, &v->items[i], out + n, max - n);
		if (got < 0)
			return -1;
		n += got;
	}
	return n;
}

Val
val_rebuild(Elab *e, const Val *like, Value *from, int *at)
{
	if (like->kind != VAL_TUPLE)
		return val_tile(like->place, &from[(*at)++]);
	Val v = val_tuple(e, like->place, like->items, like->n);
	for (int i = 0; i < like->n; i++)
		v.items[i] = val_rebuild(e, &like->items[i], from, at);
	return v;
}
