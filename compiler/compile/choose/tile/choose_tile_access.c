/* What reads, writes and extracts do with parts of tiles (choose_tile.c): a read or write of a part begins where the
 * program's part of the dimension does, and what is written covers each dimension that a part cuts. */
#include "compile/choose/tile/choose_tile.h"
#include "ir/derive.h"

#include <string.h>

bool
expr_same(const Expr *a, const Expr *b)
{
	if (!a || !b || a->kind != b->kind)
		return a == b;
	switch (a->kind) {
	case EX_INT: return a->u == b->u;
	case EX_NAME: return !a->scope && !b->scope && strcmp(a->name, b->name) == 0;
	case EX_BINARY: return a->bin == b->bin && expr_same(a->a, b->a) && expr_same(a->b, b->b);
	case EX_CALL:
		if (!expr_same(a->a, b->a) || a->args.n != b->args.n)
			return false;
		return ALL_OF(i, a->args.n, expr_same(a->args.at[i].e, b->args.at[i].e));
	default: return false;
	}
}

void
expr_factors(Factors *f, const Expr *e)
{
	if (e->kind == EX_BINARY && e->bin == BIN_MUL) {
		expr_factors(f, e->a);
		expr_factors(f, e->b);
	} else if (e->kind == EX_INT) {
		f->number *= e->u;
	} else if (f->n < FACTORS_MOST) {
		f->at[f->n++] = e;
	} else {
		f->n = FACTORS_MOST + 1;
	}
}

const Expr *
tile_dim(const Pair *x, const Value *tensor, int d)
{
	const FuncParam *p = &x->f->param[tensor->index];
	return x->k->item->params.at[tensor->index].type->dims.at[param_dim(p, tensor->type->rank, d)];
}

/* Is the product of a tensor's dimensions, those from `first` to `last`, written as `count` is, in any order? */
static bool
is_extent(const Pair *x, const Value *tensor, int first, int last, const Expr *count)
{
	Factors a = {.number = 1}, b = {.number = 1};
	bool used[FACTORS_MOST] = {false};
	for (int d = first; d <= last; d++)
		expr_factors(&a, tile_dim(x, tensor, d));
	expr_factors(&b, count);
	if (a.n != b.n || a.n > FACTORS_MOST || a.number != b.number)
		return false;
	for (int i = 0; i < a.n; i++) {
		int k = VALUE_OF(j, b.n, !used[j] && expr_same(a.at[i], b.at[j]), j, b.n);
		if (k == b.n)
			return false;
		used[k] = true;
	}
	return true;
}

/* What cdiv(D, c) or D / c is of; NULL: it is neither. */
static const Expr *
divided_by(const Expr *dim, uint64_t *c)
{
	bool calls = dim->kind == EX_CALL && tile_is_name(dim->a, "cdiv") && dim->args.n == 2;
	const Expr *by = calls ? dim->args.at[1].e : dim->kind == EX_BINARY && dim->bin == BIN_DIV ? dim->b : NULL;
	if (!by || by->kind != EX_INT)
		return NULL;
	*c = by->u;
	return calls ? dim->args.at[0].e : dim->a;
}

/* D of cdiv(D, B); of cdiv(D, b B), D in parts of b B and cdiv(D, c) in parts of b B / c. */
bool
tile_is_cut_by(const Pair *x, const Value *tensor, int first, int last, int axis, int64_t scale)
{
	const Expr *count = x->count[axis];
	int64_t whole = TILE_SCALE * (int64_t)x->by[axis];
	uint64_t c;
	if (scale == whole)
		return is_extent(x, tensor, first, last, count);
	const Expr *of = first == last ? divided_by(tile_dim(x, tensor, last), &c) : NULL;
	return of && c <= (uint64_t)whole && scale * (int64_t)c == whole && expr_same(of, count);
}

/* Where dimension i of a tensor's access starts: at a part, whose axis the tile's dimension d has. */
static bool
takes_part(const Pair *x, const Op *a, const Value *tile, int i, int d)
{
	const Part *s = tile_part(x, a->in[1 + i]);
	Part *p = tile_part(x, tile);
	if (p->axis[d] == AXIS_NONE)
		return tile_is_plain(x, a->in[1 + i]);
	if (s->start == AXIS_NONE || TILE_SCALE * s->times[0] != p->scale[d] * x->size || s->times[1] != 2 * s->times[0] ||
	    (s->ends && !s->of))
		return false;
	if (p->axis[d] == AXIS_ANY) {
		p->axis[d] = s->start;
		p->mirrored[d] = s->of != NULL;
	}
	return p->axis[d] == s->start && p->mirrored[d] == (s->of != NULL);
}

bool
tile_visit_indices(const Pair *x, const Op *a, const Value *tile)
{
	const char *index = attr_index(a);
	int shared = -1;                                /* the first dimension that tiles of indices have in common */
	for (int i = 0, d = 0; index[i]; i++) {
		const Value *v = a->in[1 + i];
		if (index[i] == 'p' && !takes_part(x, a, tile, i, d++))
			return false;
		if (index[i] == 'p')
			continue;
		if (!tile_is_plain(x, v))
			return false;
		if (index[i] != 'g')
			continue;
		if (shared < 0) {
			shared = d;
			d += v->type->rank;
		}
		for (int e = 0; e < v->type->rank; e++)
			if (!tile_take_axis(x, (Value *)tile, shared + e, v, e))
				return false;
	}
	return true;
}

/* The axis of a last dimension that is a part: neighbours in memory.  Is it one? */
static bool
note_last(Pair *x, const Op *a, const Value *tile)
{
	const char *index = attr_index(a);
	int last = a->in[0]->type->rank - 1, d = tile->type->rank - 1;
	bool is_last = last >= 0 && d >= 0 && index[last] == 'p' && tile_part(x, tile)->axis[d] >= 0;
	if (is_last)
		x->last_axis = tile_part(x, tile)->axis[d];
	return is_last;
}

bool
tile_visit_read(Pair *x, const Op *a)
{
	int fill = 1 + a->in[0]->type->rank;
	const Value *v = a->nin > fill ? a->in[fill] : NULL;
	if (!tile_visit_indices(x, a, &a->out[0]) || (v && !tile_is_plain(x, v)))
		return false;
	for (int d = 0; v && d < v->type->rank; d++)
		if (!tile_take_axis(x, &a->out[0], d, v, d))
			return false;
	if (a->out[0].type->rank > 1) {                 /* not of a row of numbers beside the tiles */
		bool is_fast = note_last(x, a, &a->out[0]);
		x->is_fast |= is_fast;
		x->is_row |= !is_fast && ANY_OF(d, a->out[0].type->rank, tile_part(x, &a->out[0])->axis[d] >= 0);
	}
	return true;
}

/* Does a part of dimension i start at 0 or more; or, in opposite order, end with the dimension, so that what the last
 * program has too much lies below 0? */
static bool
starts_inside(const Pair *x, const Op *a, int i)
{
	const Part *s = tile_part(x, a->in[1 + i]);
	int64_t n, extent = a->in[0]->type->extent[i];
	int named = x->f->param[a->in[0]->index].dim[i];
	if (!s->of)
		return s->from >= 0;
	return extent >= 0 ? value_int(s->of, &n) && n == extent : named >= 0 && s->of == &x->f->body->arg[named];
}

/* Dimension i of a write is dimension d of its tile: a part of it covers the dimension.  Tiles of indices stand from
 * `first` on. */
static bool
covers_dimension(Pair *x, const Op *a, int i, const Part *p, int first, int d)
{
	int axis = p->axis[d];
	if (axis == AXIS_STEP)
		return false;
	if (attr_index(a)[i] == 'g' && p->scale[d] == TILE_SCALE && tile_writes_digits(x, a, axis))
		return true;
	if (attr_index(a)[i] == 'g') {
		x->by_number = true;
		return p->scale[d] == TILE_SCALE &&
		    (tile_numbers_rows(x, a, i, axis) || tile_numbers_alone(x, a, d - first, axis));
	}
	return starts_inside(x, a, i) &&
	    tile_is_cut_by(x, a->in[0], i - access_merged(a, i), i, axis, p->scale[d]);
}

/* All elements of the dimension, by all axes. */
bool
tile_visit_write(Pair *x, const Op *a)
{
	const Value *tile = a->in[access_data(a)];
	const char *index = attr_index(a);
	bool covers[MAX_AXES] = {false}, gathered = false;
	if (!tile_is_plain(x, tile) || !tile_visit_indices(x, a, tile) ||
	    (strchr(index, 'g') && !x->multiplies && a->kind != OP_ATOMIC) ||
	    (x->leaves && !tile_leaves_rows(x, a) && !tile_mirrors_write(x, a)))
		return false;
	for (int i = 0, d = 0; index[i]; i++) {
		int n = index[i] == 'p' ? 1 : index[i] == 'g' && !gathered ? a->in[1 + i]->type->rank : 0;
		for (int e = d; e < d + n; e++) {
			const Part *p = tile_part(x, tile);
			if (p->axis[e] < 0 && p->axis[e] != AXIS_ANY)
				continue;
			if (p->axis[e] == AXIS_ANY || !covers_dimension(x, a, i, p, d, e))
				return false;
			covers[p->axis[e]] = true;
		}
		gathered |= index[i] == 'g';
		d += n;
	}
	if (ANY_OF(axis, MAX_AXES, x->count[axis] && !covers[axis]))
		return false;
	x->is_fast |= note_last(x, a, tile) && tile->type->rank > 1;
	x->written++;
	return true;
}

static bool
is_read(const Func *f, const Value *tensor)
{
	return ANY_OP(op, f->body, op->kind != OP_WRITE && op_is_access(op) && op->in[0] == tensor);
}

/* The loop goes from 0 to the end of the dimension: in which trip an element is written is all the same, if nothing that it
 * carries is (tile_trips_join). */
static bool
visit_step_write(Pair *x, const Op *a)
{
	const Op *loop = a->home->parent;
	const Value *tile = a->in[access_data(a)];
	const char *index = attr_index(a);
	int steps = 0;
	if (loop->kind != OP_FOR || strchr(index, 'g') || !tile_is_plain(x, tile) ||
	    !tile_visit_indices(x, a, tile))
		return false;
	for (int i = 0, d = 0; index[i]; d += index[i++] == 'p') {
		const Part *p = tile_part(x, tile);
		int dim = x->f->param[a->in[0]->index].dim[i];
		if (index[i] != 'p' || p->axis[d] == AXIS_NONE)
			continue;
		if (p->axis[d] != AXIS_STEP || p->scale[d] != TILE_SCALE || p->mirrored[d] || access_merged(a, i) ||
		    tile_part(x, a->in[1 + i])->from != 0 || dim < 0 || loop->in[1] != &x->f->body->arg[dim])
			return false;
		steps++;
	}
	x->written += steps;
	return steps == 1;
}

/* Is what a loop writes read at most where its own program writes it, as the results of a pass before? */
static bool
is_read_apart(const Pair *x, const Op *write)
{
	const Value *tile = write->in[access_data(write)], *tensor = write->in[0];
	const char *index = attr_index(write);
	for (const Op *op = x->f->body->first; op; op = op_after(op, x->f->body)) {
		if (!op_is_access(op) || op->in[0] != tensor || op == write)
			continue;
		const char *other = attr_index(op);
		for (int i = 0, d = 0, e = 0; index[i]; e += other[i++] == 'p') {
			bool is_part = index[i] == 'p' && tile_is_part(x, tile, d);
			d += index[i] == 'p';
			if (is_part && (other[i] != 'p' || op->in[1 + i] != write->in[1 + i] ||
			    access_tile(op)->type->extent[e] != tile->type->extent[d - 1]))
				return false;
		}
	}
	return true;
}

/* Do loops around the op run as often by any tile?  With products a larger one may make idle trips. */
static bool
trips_stay(const Pair *x, const Op *op)
{
	for (const Op *loop = op->home->parent; loop; loop = loop->home->parent)
		if (loop->kind == OP_FOR && !ALL_OF(i, 3, tile_is_plain(x, loop->in[i])))
			return false;
	return true;
}

/* Each trip writes the program's part of an axis that is cut, or of a loop that steps by the size a part; or what such a
 * loop within it came to. */
bool
tile_visit_loop_write(Pair *x, const Op *a)
{
	if (x->is_step && !x->is_stepping)
		return tile_visit_write(x, a);
	if (x->is_step)
		return !is_read(x->f, a->in[0]) && visit_step_write(x, a);
	return !strchr(attr_index(a), 'g') && is_read_apart(x, a) && trips_stay(x, a) && tile_visit_write(x, a);
}

/* Parts stay whole. */
bool
tile_visit_extract(const Pair *x, const Op *a)
{
	const char *index = attr_index(a);
	const Value *v = a->in[0];
	for (int i = 0, d = 0; index[i]; i++) {
		if (!tile_is_plain(x, a->in[1 + i]) || (tile_is_part(x, v, i) && (index[i] != 'p' ||
		    a->out[0].type->extent[d] != v->type->extent[i])))
			return false;
		if (index[i] == 'p' && !tile_take_axis(x, &a->out[0], d++, v, i))
			return false;
	}
	return tile_is_plain(x, v);
}

bool
tile_attrs_alike(const Op *a, const Op *b)
{
	if (a->nattr != b->nattr)
		return false;
	for (int i = 0; i < a->nattr; i++) {
		AttrName name = a->attr[i].name;
		const Attr *other = op_attr(b, name);
		bool follows = name == ATTR_EXTENTS || name == ATTR_VALUE || name == ATTR_PER || name == ATTR_COUNT;
		if (!other || (!follows && !attr_same(&a->attr[i], other)))
			return false;
	}
	return true;
}
