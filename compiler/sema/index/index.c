/* x[...] of tensors: reads, writes and read-modify-writes.  An access stays whole (tensor, one index a dimension,
 * extents): nothing here turns it into addresses.
 *
 * A view (.T, permute) numbers the tensor's dimensions in another order.  The op always works in the tensor's own
 * order; a permute after a read, or before a write, brings the tile to the order that the source sees:
 *
 *     x.T[k +: 16, m +: 32]   =>   %0 = read %x, %m, %k {index = "pp", extents = [32, 16]}
 *                                  %1 = permute %0 {dims = [1, 0]}
 *
 * Indexing of tile values is in index_tile.c, assignment to their elements in assign_tile.c. */
#include "sema/builtin/builtin.h"

#include <string.h>

Value *
tensor_value(Elab *e, const Val *t)
{
	return t->v ? t->v : &e->func->body->arg[t->param];
}

static const char *
tensor_name(Elab *e, const Val *t)
{
	return e->kernel->params.at[t->param].name;
}

static bool
count_ok(Elab *e, const Expr *x, const Val *t)
{
	int n = COUNT_OF(i, x->subs.n, x->subs.at[i].kind != SUB_NEW);
	if (n == t->rank)
		return true;
	diag_error(e->cx, x->place, DIAG_INDEX_COUNT, arena_printf(e->cx->mem, "'%s'", tensor_name(e, t)), t->rank,
	    t->rank == 1 ? "" : "s", n, n == 1 ? "ex is" : "ices are");
	if (t->rank == 0)
		diag_help(e->cx, "a tensor without dimensions is read and written as %s[]", tensor_name(e, t));
	else
		diag_help(e->cx,
		    "a tensor takes an index for each dimension: an integer, start +: extent, or a tile of integers");
	return false;
}

/* The extent after +: ; -1 after an error. */
static int64_t
part_extent(Elab *e, const Expr *x)
{
	Val v = elab_expr(e, x);
	if (val_is_poison(&v))
		return -1;
	v = val_folded(e, &v);
	if (v.kind != VAL_INT) {
		diag_error(e->cx, x->place, DIAG_EXTENT_CONST);
		hint_run_time(e);
		return -1;
	}
	if (v.i >= 0)
		return v.i;
	diag_error(e->cx, x->place, DIAG_EXTENT_RANGE, (long long)v.i);
	return -1;
}

/* One plain index: a scalar drops the dimension, a tile of integers gathers. */
static bool
plain_index(Elab *e, const Subscript *s, int dim, TensorAccess *a)
{
	Val v = elab_expr(e, s->e);
	if (!list_settle(e, &v))
		return false;
	if (!val_is_integer(&v)) {
		diag_error(e->cx, s->place, DIAG_INDEX_TYPE, val_describe(e, &v));
		if (v.kind == VAL_TILE && !v.v->type->ptr && dtype_is_float(v.v->type->elem))
			diag_help(e->cx, "convert it: `… as i32`");
		return false;
	}
	bool gathers = v.kind == VAL_TILE && v.v->type->rank > 0;
	a->index[dim] = gathers ? 'g' : 'i';
	a->operand[1 + dim] = gathers ? v.v : val_index(e, &v, "an index");
	return a->operand[1 + dim] != NULL;
}

/* Known starts of packed rows are checked when they are written. */
static void
note_part(TensorAccess *a, int dim, const Val *start, int64_t extent)
{
	if (dim != a->tensor.rank - 1)
		return;
	a->last_start = start->kind == VAL_INT ? start->i : -1;
	a->last_extent = extent;
}

static bool
subscript(Elab *e, const Subscript *s, int d, int64_t *extent, TensorAccess *a)
{
	int dim = a->tensor.perm[d];
	const Type *t = a->operand[0]->type;
	if (s->kind == SUB_INDEX)
		return plain_index(e, s, dim, a);
	a->index[dim] = 'p';
	if (s->kind == SUB_ALL) {
		if (t->extent[dim] < 0) {
			diag_error(e->cx, s->place, DIAG_ALL_UNKNOWN, d, tensor_name(e, &a->tensor));
			return diag_help(e->cx, "write a part with a compile-time extent, `0 +: BLOCK`, "
			    "and let <BLOCK = pow2ceil(N)> cover it");
		}
		Val zero = val_int(s->place, 0);
		extent[dim] = t->extent[dim];
		a->operand[1 + dim] = ir_const_int(e, TY_I64, 0);
		note_part(a, dim, &zero, extent[dim]);
		return true;
	}
	Val start = elab_expr(e, s->e);
	extent[dim] = part_extent(e, s->extent);
	if (val_is_poison(&start) || extent[dim] < 0)
		return false;
	a->operand[1 + dim] = val_index(e, &start, "the start of a part");
	note_part(a, dim, &start, extent[dim]);
	return a->operand[1 + dim] != NULL;
}

/* Brings every gather index to one shape, which *like then has; false after an error. */
static bool
match_gathers(Elab *e, TensorAccess *a, const Type **like)
{
	int64_t extent[MAX_RANK];
	int rank = 0;
	*like = NULL;
	for (int i = 0; i < a->tensor.rank; i++) {
		if (a->index[i] != 'g')
			continue;
		const Type *t = a->operand[1 + i]->type;
		if (!join_shape(&rank, extent, t))
			return diag_error(e->cx, a->place, DIAG_GATHER_SHAPES, shape_text(e, rank, extent),
			    type_shape_text(e, t));
	}
	for (int i = 0; i < a->tensor.rank; i++) {
		if (a->index[i] != 'g')
			continue;
		a->operand[1 + i] = ir_broadcast(e, a->operand[1 + i], rank, extent, a->place);
		if (!a->operand[1 + i])
			return false;
		*like = a->operand[1 + i]->type;
	}
	return true;
}

/* Where each dimension of the op's result begins, by dimension of the tensor; gathers share theirs. */
static int
result_offsets(const TensorAccess *a, int ngather, int *offset)
{
	int n = 0, group = -1;
	for (int dim = 0; dim < a->tensor.rank; dim++) {
		if (a->index[dim] == 'p') {
			offset[dim] = n++;
		} else if (a->index[dim] == 'g') {
			if (group < 0) {
				group = n;
				n += ngather;
			}
			offset[dim] = group;
		}
	}
	return n;
}

/* The shape that the source sees and how its dimensions lie in the op's result. */
static bool
lay_out(Elab *e, const Expr *x, const int64_t *extent, const Type *gather, TensorAccess *a)
{
	int offset[MAX_RANK], ngather = gather ? gather->rank : 0;
	int rank = result_offsets(a, ngather, offset), d = 0, n = 0, all = 0;
	bool grouped = false;
	if (!rank_check(e, a->place, rank))
		return false;
	for (int i = 0; i < x->subs.n; i++) {
		if (x->subs.at[i].kind == SUB_NEW) {
			if (a->nnew < MAX_RANK)
				a->newdim[a->nnew] = all++;
			a->nnew++;
			continue;
		}
		int dim = a->tensor.perm[d++];
		if (a->index[dim] == 'p') {
			a->perm[n] = offset[dim];
			a->shape[n++] = extent[dim];
			all++;
		}
		for (int k = 0; k < ngather && a->index[dim] == 'g' && !grouped; k++) {
			a->perm[n] = offset[dim] + k;
			a->shape[n++] = gather->extent[k];
			all++;
		}
		grouped |= a->index[dim] == 'g';
	}
	a->rank = n;
	for (int dim = 0; dim < a->tensor.rank; dim++)
		if (a->index[dim] == 'p')
			a->extents[a->nextents++] = extent[dim];
	return rank_check(e, a->place, n + a->nnew) && shape_check(e, a->place, n, a->shape);
}

bool
access_open(Elab *e, const Expr *x, const Val *base, TensorAccess *a)
{
	int64_t extent[MAX_RANK] = {0};
	const Type *gather;
	int d = 0;
	bool ok = true;
	*a = (TensorAccess){.tensor = *base, .place = x->place, .n = 1 + base->rank, .last_start = -1};
	a->operand[0] = tensor_value(e, base);
	if (!count_ok(e, x, base))
		return false;
	if (base->rank == 0 && dtype_is_packed(a->operand[0]->type->elem))
		return diag_error(e->cx, x->place, DIAG_PACKED_PARAM, dtype_info[a->operand[0]->type->elem].text);
	for (int i = 0; i < x->subs.n; i++)
		if (x->subs.at[i].kind != SUB_NEW)
			ok &= subscript(e, &x->subs.at[i], d++, extent, a);
	e->b.place = x->place;
	return ok && match_gathers(e, a, &gather) && lay_out(e, x, extent, gather, a);
}

int
access_attrs(Elab *e, const TensorAccess *a, Attr *attr)
{
	attr[0] = attr_new_index(e->m, a->index);
	if (a->nextents == 0)
		return 1;
	attr[1] = attr_new_extents(e->m, a->extents, a->nextents);
	return 2;
}

/* From the order that the source sees to the tensor's. */
static Value *
to_tensor_order(Elab *e, const TensorAccess *a, Value *v)
{
	int back[MAX_RANK];
	for (int i = 0; i < a->rank; i++)
		back[a->perm[i]] = i;
	return ir_permute(e, v, back);
}

Value *
access_value(Elab *e, const TensorAccess *a, const Val *v, const char *what)
{
	Place at = v->place.file >= 0 ? v->place : a->place;
	if (a->nnew > 0) {
		diag_error(e->cx, a->place, DIAG_NEW_STORE);
		return NULL;
	}
	Value *x = stored_value(e, what, v, a->operand[0]->type->elem, a->rank, a->shape, at);
	return x ? to_tensor_order(e, a, x) : NULL;
}

Val
access_result(Elab *e, const TensorAccess *a, Value *v)
{
	int64_t extent[MAX_RANK];
	int n = 0, at = 0;
	v = ir_permute(e, v, a->perm);
	if (a->nnew > 0) {
		for (int i = 0; i < a->rank + a->nnew; i++) {
			bool added = n < a->nnew && a->newdim[n] == i;
			extent[i] = added ? 1 : a->shape[at++];
			n += added;
		}
		v = ir_reshape(e, v, a->rank + a->nnew, extent);
	}
	return val_tile(a->place, ir_convert(e, v, elab_dtype(e, v->type->elem)));
}

bool
access_may_write(Elab *e, const TensorAccess *a)
{
	const KernelParam *p = &e->kernel->params.at[a->tensor.param];
	bool ok = p->kind == PARAM_POINTER ? p->ptr == PTR_MUT : p->access != ACCESS_IN;
	if (ok)
		return true;
	diag_error(e->cx, a->place, DIAG_WRITE_IN, p->name);
	return diag_help(e->cx, "declare it `out` if it is only written, `inout` if it is read too");
}

/* The value after else: a scalar, or a tile of the access's shape, in the tensor's type. */
static Value *
fill_value(Elab *e, const TensorAccess *a, const Expr *x)
{
	Val v = elab_expr(e, x);
	bool scalar = val_is_const(&v) || (v.kind == VAL_TILE && v.v->type->rank == 0);
	if (val_is_poison(&v))
		return NULL;
	Value *fill = stored_value(e, "else", &v, a->operand[0]->type->elem, scalar ? 0 : a->rank, a->shape, x->place);
	return fill && !scalar ? to_tensor_order(e, a, fill) : fill;
}

static Val
read_access(Elab *e, const TensorAccess *a, const Expr *otherwise)
{
	Attr attr[2];
	Value *in[2 + MAX_RANK];
	int n = a->n;
	memcpy(in, a->operand, sizeof *in * (size_t)n);
	if (otherwise) {
		in[n] = fill_value(e, a, otherwise);
		if (!in[n++])
			return val_poison(a->place);
	}
	e->b.place = a->place;
	return access_result(e, a, op_make(&e->b, OP_READ, in, n, attr, access_attrs(e, a, attr), NULL, 0)->out);
}

/* Packed elements share bytes: what is written starts even and ends even, or at the edge. */
static bool
packed_ok(Elab *e, const TensorAccess *a)
{
	const Type *t = a->operand[0]->type;
	const char *name = dtype_info[t->elem].text;
	if (!dtype_is_packed(t->elem))
		return true;
	int last = t->rank - 1;
	int64_t edge = t->extent[last];
	bool ends = a->last_extent % 2 == 0 || (edge >= 0 && a->last_start >= 0 && a->last_start + a->last_extent >= edge);
	if (a->index[last] != 'p')
		diag_error(e->cx, a->place, DIAG_PACKED_INDEX, name);
	else if (a->last_start > 0 && a->last_start % 2 != 0)
		diag_error(e->cx, a->place, DIAG_PACKED_START, name, (long long)a->last_start);
	else if (!ends)
		diag_error(e->cx, a->place, DIAG_PACKED_EXTENT, name, (long long)a->last_extent);
	else
		return true;
	return false;
}

static void
store_tensor(Elab *e, const Expr *target, const Val *base, BinaryOp op, const Val *value, Place at)
{
	TensorAccess a;
	Attr attr[2];
	Value *in[2 + MAX_RANK];
	if (!access_open(e, target, base, &a) || !access_may_write(e, &a) || !packed_ok(e, &a) || val_is_poison(value))
		return;
	Val v = *value;
	if (op != BIN_NONE) {
		Val old = read_access(e, &a, NULL);
		v = elab_binary(e, op, &old, value, at);
	}
	e->b.place = at;
	memcpy(in, a.operand, sizeof *in * (size_t)a.n);
	in[a.n] = access_value(e, &a, &v, tensor_name(e, base));
	if (in[a.n])
		op_make(&e->b, OP_WRITE, in, a.n + 1, attr, access_attrs(e, &a, attr), NULL, 0);
}

void
elab_index_store(Elab *e, const Expr *target, BinaryOp op, const Val *value, Place at)
{
	Val base = elab_expr(e, target->a);
	if (val_is_poison(&base))
		return;
	if (base.kind == VAL_TILE && !base.v->type->ptr) {
		tile_store(e, target, op, value, at);
	} else if (base.kind != VAL_TENSOR) {
		diag_error(e->cx, target->place, DIAG_NOT_INDEXABLE, val_describe(e, &base));
		if (base.kind == VAL_TILE)
			diag_help(e->cx, "a pointer is written with store(p + i, value, mask)");
	} else if (target->b) {
		diag_error(e->cx, target->b->place, DIAG_ELSE_TILE, "what is written");
	} else {
		store_tensor(e, target, &base, op, value, at);
	}
}

Val
elab_index_of(Elab *e, const Expr *x, const Val *base)
{
	TensorAccess a;
	if (val_is_poison(base))
		return *base;
	if (base->kind == VAL_TENSOR)
		return access_open(e, x, base, &a) ? read_access(e, &a, x->b) : val_poison(x->place);
	if (base->kind == VAL_LIST)
		return index_list(e, x, base);
	if (base->kind == VAL_TUPLE)
		return index_tuple(e, x, base);
	if (base->kind == VAL_TILE && (!base->v->type->ptr || base->v->type->rank > 0))
		return index_tile(e, x, base);
	diag_error(e->cx, x->place, DIAG_NOT_INDEXABLE, val_describe(e, base));
	if (base->kind == VAL_TILE)
		diag_help(e->cx, "a pointer is read with load(p + i, mask)");
	return val_poison(x->place);
}

Val
elab_index(Elab *e, const Expr *x)
{
	Val base = elab_expr(e, x->a);
	return elab_index_of(e, x, &base);
}
