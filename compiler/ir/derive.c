/* Copies of ops, and ops and tiles made like others.
 *
 *     for %lo, %hi, %1 do (%i: i64) { … }       =>       for %lo, %hi, %1 do (%i': i64) { … }
 *
 * What is defined within a copy's regions is new; all else is the same values.  Names, layouts, attributes and places in
 * the source are the op's. */
#include "ir/derive.h"

#include <math.h>
#include <string.h>

static void
enter(Value *to, const Value *from, Value **map)
{
	to->layout = from->layout;
	to->name = from->name;
	map[from->id] = to;
}

static Block *
clone_block(Module *m, Op *parent, const Block *from, Value **map)
{
	const Type **type = MAP_OF(m->cx->tmp, const Type *, i, from->narg, from->arg[i].type);
	Block *to = block_make(from->func, parent, type, from->narg);
	for (int i = 0; i < from->narg; i++)
		enter(&to->arg[i], &from->arg[i], map);
	Builder b = {.m = m, .block = to};
	for (const Op *op = from->first; op; op = op->next)
		op_clone(&b, op, map);
	return to;
}

Op *
op_clone(Builder *b, const Op *op, Value **map)
{
	Arena *tmp = b->m->cx->tmp;
	Value **in = MAP_OF(tmp, Value *, i, op->nin, value_mapped(map, op->in[i]));
	const Type **want = MAP_OF(tmp, const Type *, i, op->nout, op->out[i].type);
	b->place = op->place;
	Op *made = op_make_regions(b, op->kind, in, op->nin, op->attr, op->nattr, want, op->nout, op->nregion);
	for (int i = 0; i < op->nout; i++)
		enter(&made->out[i], &op->out[i], map);
	for (int r = 0; r < op->nregion; r++)
		made->region[r] = clone_block(b->m, made, op->region[r], map);
	return made;
}

void
block_map_args(const Block *from, Block *to, Value **map)
{
	for (int i = 0; i < from->narg; i++) {
		to->arg[i].name = from->arg[i].name;
		if (map)
			map[from->arg[i].id] = &to->arg[i];
		else
			value_replace(&from->arg[i], &to->arg[i]);
	}
}

Op *
op_clone_as(Builder *b, const Op *op, Value *const *in, const Attr *attr, const Type *const *want, Value **map)
{
	b->place = op->place;
	Op *made = op_make(b, op->kind, in, op->nin, attr, op->nattr, want, op->nout);

	for (int i = 0; i < op->nout; i++) {
		made->out[i].name = op->out[i].name;
		map[op->out[i].id] = &made->out[i];
	}
	return made;
}

Value *
build_like(Builder *b, const Op *op, Value *const *in, const Type *want)
{
	return op_make(b, op->kind, in, op->nin, op->attr, op->nattr, &want, 1)->out;
}

Op *
access_like(Builder *b, const Op *op, Value *const *in, int nin, const char *index, const int64_t *extents, int n)
{
	Attr *attr = NEW_ARRAY(b->m->cx->tmp, Attr, op->nattr + 2);
	int nattr = 0;

	for (int i = 0; i < op->nattr; i++)
		if (op->attr[i].name != ATTR_INDEX && op->attr[i].name != ATTR_EXTENTS)
			attr[nattr++] = op->attr[i];
	attr[nattr++] = attr_new_index(b->m, index);
	if (n > 0)
		attr[nattr++] = attr_new_extents(b->m, extents, n);
	return op_make(b, op->kind, in, nin, attr, nattr, NULL, 0);
}

Op *
access_along(Builder *b, const Op *op, Value *const *in, int d, int64_t n)
{
	const IntList *old = attr_extents(op);
	char *index = arena_printf(b->m->cx->tmp, "%s", attr_index(op));
	int64_t extent[MAX_RANK];
	int kept = 0;

	for (int i = 0, e = 0; index[i]; i++) {
		int64_t had = index[i] == 'p' ? old->at[e++] : 0;
		extent[kept] = i == d ? n : had;
		kept += extent[kept] > 0;
	}
	index[d] = n ? 'p' : in[1 + d]->type->rank ? 'g' : 'i';
	return access_like(b, op, in, op->nin, index, extent, kept);
}

void
op_become(Op *op, Value *v)
{
	v->name = op->out[0].name;
	value_replace(&op->out[0], v);
	op_erase(op);
}

/* ---- tiles ---- */

const Type *
type_with_dim(Module *m, const Type *t, int d, int64_t extent)
{
	int64_t to[MAX_RANK + 1];

	memcpy(to, t->extent, sizeof *to * (size_t)d);
	to[d] = extent;
	memcpy(to + d + 1, t->extent + d, sizeof *to * (size_t)(t->rank - d));
	return type_with_shape(m, t, t->rank + 1, to);
}

const Type *
type_with_extent(Module *m, const Type *t, int d, int64_t extent)
{
	int64_t to[MAX_RANK];

	memcpy(to, t->extent, sizeof to);
	to[d] = extent;
	return type_with_shape(m, t, t->rank, to);
}

bool
reshape_from(const Op *op, int from[MAX_RANK])
{
	const Type *in = op->in[0]->type, *out = op->out[0].type;
	int k = 0;
	for (int d = 0; d < out->rank; d++) {
		from[d] = -1;
		if (out->extent[d] == 1)
			continue;
		while (k < in->rank && in->extent[k] == 1)
			k++;
		if (k == in->rank || in->extent[k] != out->extent[d])
			return false;
		from[d] = k++;
	}
	return true;
}

Value *
build_iota(Builder *b, const Type *t, int axis)
{
	const Attr a = attr_new_axis(b->m, axis);

	return op_make(b, OP_IOTA, NULL, 0, &a, 1, &t, 1)->out;
}

Value *
build_permute(Builder *b, Value *v, const int64_t *dims)
{
	const Attr order = attr_new_dims(b->m, dims, v->type->rank);

	return op_make(b, OP_PERMUTE, &v, 1, &order, 1, NULL, 0)->out;
}

Value *
build_exchange(Builder *b, Value *v)
{
	int64_t dims[MAX_RANK], extent[MAX_RANK];
	int rank = v->type->rank;

	for (int d = 0; d < rank; d++) {
		dims[d] = d < rank - 2 ? d : rank - 1 - (d == rank - 1);
		extent[d] = v->type->extent[dims[d]];
	}
	if (v->def && v->def->kind == OP_CONST)
		return build_like(b, v->def, NULL, type_with_shape(b->m, v->type, rank, extent));
	return build_permute(b, v, dims);
}

Value *
build_reshape(Builder *b, Value *v, int rank, const int64_t *extent)
{
	return build1(b, OP_RESHAPE, v, type_with_shape(b->m, v->type, rank, extent));
}

Value *
build_split_dim(Builder *b, Value *v, int d, int64_t extent)
{
	const Type *first = type_with_extent(b->m, v->type, d, v->type->extent[d] / extent);

	return build1(b, OP_RESHAPE, v, type_with_dim(b->m, first, d + 1, extent));
}

Value *
build_stack(Builder *b, Value *v, int d, int64_t n)
{
	const Type *t = v->type;

	v = build1(b, OP_RESHAPE, v, type_with_dim(b->m, t, d, 1));
	return build1(b, OP_BROADCAST, v, type_with_dim(b->m, t, d, n));
}

static Value *
repeat(Builder *b, Value *v, int d, int64_t times, bool each)
{
	if (times == 1)
		return v;
	Value *all = build_stack(b, v, d + each, times);

	return build1(b, OP_RESHAPE, all, type_with_extent(b->m, v->type, d, v->type->extent[d] * times));
}

Value *
build_repeat(Builder *b, Value *v, int d, int64_t times)
{
	return repeat(b, v, d, times, false);
}

Value *
build_repeat_each(Builder *b, Value *v, int d, int64_t times)
{
	return repeat(b, v, d, times, true);
}

Value *
build_element(Builder *b, Value *v, int64_t i)
{
	Value *in[1 + MAX_RANK] = {v};
	char index[MAX_RANK + 1] = {0};
	int last = v->type->rank - 1;

	for (int d = 0; d <= last; d++) {
		in[1 + d] = build_index(b, d == last ? i : 0);
		index[d] = d == last ? 'i' : 'p';
	}
	Attr attr[] = {attr_new_index(b->m, index), attr_new_extents(b->m, v->type->extent, last)};
	return op_make(b, OP_EXTRACT, in, 2 + last, attr, 2, NULL, 0)->out;
}

Value *
build_slot(Builder *b, Value *ring, Value *number)
{
	const Attr wrapped = attr_new_wrapped(b->m, true);
	Value *slot = op_make(b, OP_SLOT, (Value *[]){ring, number}, 2, &wrapped, 1, NULL, 0)->out;

	slot->layout = ring->layout;
	return slot;
}

Value *
build_extreme(Builder *b, const Type *t, bool greatest)
{
	int bits = dtype_info[t->elem].bits;
	int64_t most = (int64_t)((UINT64_C(1) << (bits - 1)) - 1);

	if (dtype_is_float(t->elem))
		return build_float(b, t, greatest ? INFINITY : -INFINITY);
	if (t->elem == TY_BOOL || dtype_is_unsigned(t->elem))
		return build_int(b, t, greatest ? -1 : 0);
	return build_int(b, t, greatest ? most : -most - 1);
}

Value *
build_identity(Builder *b, const Type *t, OpKind kind, bool nan_wins)
{
	bool is_float = dtype_is_float(t->elem);

	switch (kind) {
	case OP_MAX: case OP_MIN:
		return is_float && !nan_wins ? build_float(b, t, NAN) : build_extreme(b, t, kind == OP_MIN);
	case OP_MUL: return build_int(b, t, 1);
	case OP_AND: return build_int(b, t, -1);
	default: return is_float ? build_float(b, t, -0.0) : build_int(b, t, 0);
	}
}

Builder
build_where(Builder *b, Value *condition, bool is)
{
	Op *branch = build_if(b, condition, NULL, 0);
	Builder other = build_inside(branch, is);
	build_yield(&other, NULL, 0);
	return build_inside(branch, !is);
}

Op *
build_while(Builder *b, Value *const *init, int n)
{
	const Type **type = value_types(init, n, b->m->cx->tmp);
	Op *loop = op_make_regions(b, OP_WHILE, init, n, NULL, 0, NULL, 0, 2);

	for (int r = 0; r < 2; r++)
		loop->region[r] = block_make(b->block->func, loop, type, n);
	return loop;
}

Value *
build_divide(Builder *b, Value *a, Value *by, Value **rest)
{
	Value *q = build2(b, OP_DIV, a, by);

	*rest = build2(b, OP_SUB, a, build2(b, OP_MUL, q, by));
	return q;
}

OpKind
fn_kind(const char *fn)
{
	static const struct {
		const char *fn;
		OpKind kind;
	} joins[] = {
	    {"sum", OP_ADD}, {"add", OP_ADD}, {"prod", OP_MUL}, {"max", OP_MAX}, {"argmax", OP_MAX}, {"min", OP_MIN},
	    {"argmin", OP_MIN}, {"all", OP_AND}, {"and", OP_AND}, {"any", OP_OR}, {"or", OP_OR}, {"xor_sum", OP_XOR},
	    {"xor", OP_XOR},
	};

	return VALUE_OF(i, LEN(joins), strcmp(fn, joins[i].fn) == 0, joins[i].kind, OP_COUNT);
}

bool
values_made_alike(const Value *a, const Value *b)
{
	const Op *x = a->def, *y = b->def;

	return x && y && x->kind == y->kind && op_has(x, PURE) && !x->nregion && x->nin == y->nin &&
	    a->index == b->index && a->type == b->type && attrs_same(x, y);
}

enum { COMPARED_MAX = 4096 };

/* Is x what y is with the region's operands exchanged?  budget: comparisons left. */
static bool
is_mirrored(const Block *region, const Value *x, const Value *y, int *budget)
{
	const Op *a = x->def, *b = y->def;
	int n = region->narg / 2;

	if (--*budget < 0)
		return false;
	if (!a && !b && x->block == region && y->block == region)
		return x->type == y->type && y->index == (x->index + n) % (2 * n);
	if (!a || !b || a->home != region || b->home != region)
		return x == y;
	if (!values_made_alike(x, y))
		return false;
	bool straight = true, crossed = op_has(a, COMM) && a->nin >= 2;
	straight = straight && ALL_OF(i, a->nin, is_mirrored(region, a->in[i], b->in[i], budget));
	for (int i = 0; i < a->nin && crossed && !straight; i++)
		crossed = is_mirrored(region, a->in[i], b->in[i < 2 ? 1 - i : i], budget);
	return straight || crossed;
}

bool
region_commutes(const Block *region)
{
	int budget = COMPARED_MAX;

	return ALL_OF(i, region->last->nin,
	    is_mirrored(region, region->last->in[i], region->last->in[i], &budget));
}

/* ---- slices ---- */

bool
op_uses_slice(const Op *op, const bool *slice)
{
	return ANY_OF(i, op->nin, slice[op->in[i]->id]);
}

void
op_extend_slice(const Op *op, bool *slice, bool is_in)
{
	for (int i = 0; i < op->nout; i++)
		slice[op->out[i].id] = is_in;
}

void
op_backward_slice(const Op *op, const Block *b, bool *slice)
{
	op_extend_slice(op, slice, true);
	for (int i = 0; i < op->nin; i++)
		if (op->in[i]->def && value_inside(op->in[i], b) && !slice[op->in[i]->id])
			op_backward_slice(op->in[i]->def, b, slice);
}

bool
op_uses(const Op *op, const Value *v)
{
	return ANY_OF(i, op->nin, op->in[i] == v);
}

int
value_uses_in(const Value *v, const Block *b)
{
	int n = 0;
	for (const Op *op = b->first; op; op = op_after(op, b))
		n += COUNT_OF(i, op->nin, op->in[i] == v);
	return n;
}

void
value_replace_from(Op *first, const Value *from, Value *to)
{
	for (Op *op = first; op; op = op_after(op, first->home))
		for (int i = 0; i < op->nin; i++)
			if (op->in[i] == from)
				op_set_in(op, i, to);
}

Op *
value_lone_user(const Value *v)
{
	return FIND_NEXT(op, v->nuses == 1 ? v->def->next : NULL, op->next, op_uses(op, v));
}

bool
loop_ends_evenly(const Func *f, const Op *loop, int64_t by)
{
	const Value *end = loop->in[1];
	int64_t from, of = 1, to;
	if (!value_int(loop->in[0], &from) || from != 0)
		return false;
	if (value_int(end, &to))
		return to % by == 0;
	if (end->def && (end->def->kind == OP_DIV || end->def->kind == OP_CDIV)) {
		if (!value_int(end->def->in[1], &of) || of <= 0)
			return false;
		end = end->def->in[0];
	}
	bool is_param = !end->def && end->block == f->body;
	int64_t multiple = is_param ? f->param[end->index].multiple : 0;
	return multiple > 0 && multiple % (of * by) == 0;
}
