/* Lists and tuples by index.
 *
 * An index known when compiling picks an item, whatever that is.  Any other index makes a lookup: the list is then a table
 * of numbers, and x[...] means what it means of a tensor: integers, parts, `:`, `new` and tiles of integers that gather.
 * The indices of all dimensions become one number,
 *
 *     TABLE[i, j +: 4]            lookup (where(i < 2, i * 8 + j + iota(4), -1))
 *
 * and what is outside is 0, or the value after else. */
#include "ir/derive.h"
#include "sema/builtin/builtin.h"
#include "num/num.h"

enum { TABLE_MOST = 1 << 16 };                          /* elements */

/* One dimension's index, an i32 tile: of rank 0, or 1 (a part), or as the gathers are. */
typedef struct TableDim {
	char letter;                                    /* as in a read: i p g */
	int64_t extent, part;                           /* of the dimension; of the part */
	bool is_inside;                                 /* surely */
	Value *at;
	int first;                                      /* dimension of the result where it begins */
} TableDim;

typedef struct TableAccess {
	int nd, rank, ngather;
	TableDim dim[MAX_RANK];
	int64_t shape[2 * MAX_RANK + 1], gather[MAX_RANK];
} TableAccess;

/* ---- the list ---- */

static bool
is_table(const Val *v)
{
	return v->kind == VAL_LIST && v->n > 0;
}

/* Are all rows as long as the first one, down to numbers?  False after an error. */
static bool
measure(Elab *e, const Val *v, int rank, const int64_t *extent, Place at)
{
	bool row = is_table(v);
	if (row == (rank > 0) && (row ? v->n == extent[0] : val_is_const(v))) {
		return !row || ALL_OF(i, v->n, measure(e, &v->items[i], rank - 1, extent + 1, at));
	}
	bool known = val_is_const(v) || v->kind == VAL_LIST;
	return diag_error(e->cx, at, known ? DIAG_TABLE_ROWS : DIAG_TABLE_ELEMENT, val_describe(e, v));
}

/* The first element. */
static const Val *
first_of(const Val *v)
{
	while (is_table(v))
		v = &v->items[0];
	return v;
}

/* Are all elements bools, or none, as `first` says?  False after an error. */
static bool
match_kinds(Elab *e, const Val *v, const Val *first)
{
	if (v->kind == VAL_LIST && !ALL_OF(i, v->n, match_kinds(e, &v->items[i], first)))
		return false;
	if (v->kind == VAL_LIST || (v->kind == VAL_BOOL) == (first->kind == VAL_BOOL))
		return true;
	return diag_error(e->cx, v->place, DIAG_TABLE_MIXED, val_describe(e, first), val_describe(e, v));
}

/* The rank and extents of the rows that come first. */
static int
first_rows(const Val *v, int64_t *extent)
{
	int n = 0;
	for (; is_table(v) && n < MAX_RANK; v = &v->items[0])
		extent[n++] = v->n;
	return n;
}

/* The kinds of elements that it has. */
static unsigned
kinds_of(const Val *v)
{
	unsigned kinds = 0;
	if (v->kind == VAL_BOOL)
		return 1;
	if (v->kind == VAL_INT)
		return v->i < INT32_MIN || v->i > INT32_MAX ? 4 : 2;
	if (v->kind == VAL_FLOAT)
		return 8;
	for (int i = 0; i < v->n; i++)
		kinds |= kinds_of(&v->items[i]);
	return kinds;
}

static DType
table_dtype(Elab *e, const Val *v)
{
	unsigned kinds = kinds_of(v);
	return kinds & 8 ? elab_dtype(e, TY_F32) : kinds & 4 ? TY_I64 : kinds & 2 ? TY_I32 : TY_BOOL;
}

static void
put_bits(const Val *v, DType t, int64_t *bits, int *n)
{
	if (v->kind == VAL_LIST) {
		for (int i = 0; i < v->n; i++)
			put_bits(&v->items[i], t, bits, n);
		return;
	}
	int64_t b = 0;
	if (dtype_is_float(t))
		dtype_store_f64(t, &b, 0, v->kind == VAL_FLOAT ? v->f : (double)v->i);
	else
		b = v->i;
	bits[(*n)++] = b;
}

/* Made once of a list, whatever how often it is read. */
static Attr
bits_of(Elab *e, const Val *v, DType t, int64_t count)
{
	Attr a = attr_new_bits(e->m, NULL, 0);
	TableBits *known = FIND_NEXT(k, e->tables, k->next, k->items == v->items && k->dtype == t);
	if (!known) {
		int64_t *bits = NEW_ARRAY(e->cx->mem, int64_t, count);
		known = NEW(e->cx->mem, TableBits);
		*known = (TableBits){.items = v->items, .dtype = t, .bits = bits, .next = e->tables};
		put_bits(v, t, bits, &known->n);
		e->tables = known;
	}
	a.ints = (IntList){known->bits, known->n};
	return a;
}

/* ---- indices ---- */

/* An integer tile as i32: one of 64 bits is held to -1 - reach .. extent first, which leaves outside what is outside. */
static Value *
narrowed(Elab *e, Value *v, int64_t extent, int64_t reach)
{
	const Type *t = v->type;
	if (dtype_info[t->elem].bits == 64) {
		Value *most = build_int(&e->b, t, extent), *least = build_int(&e->b, t, -1 - reach);
		v = build2(&e->b, OP_MIN, v, most);
		if (dtype_is_signed(t->elem))
			v = build2(&e->b, OP_MAX, v, least);
	}
	return ir_convert(e, v, TY_I32);
}

static bool
index_dim(Elab *e, const Val *given, TableDim *d)
{
	Val v = *given;
	if (!list_settle(e, &v))
		return false;
	if (!val_is_integer(&v))
		return diag_error(e->cx, v.place, DIAG_INDEX_TYPE, val_describe(e, &v));
	d->letter = v.kind == VAL_TILE && v.v->type->rank > 0 ? 'g' : 'i';
	d->is_inside = v.kind == VAL_INT && v.i >= 0 && v.i < d->extent;
	Value *x = val_ir(e, &v);
	d->at = x ? narrowed(e, x, d->extent, 0) : NULL;
	return d->at != NULL;
}

/* `:` if s is NULL or says so. */
static bool
part_dim(Elab *e, const Subscript *s, const Val *given, TableDim *d)
{
	bool all = !s || s->kind == SUB_ALL;
	Val start = all ? val_int(e->b.place, 0) : *given;
	Val extent = all ? val_int(e->b.place, d->extent) : elab_expr(e, s->extent);
	if (val_is_poison(&extent))
		return false;
	extent = val_folded(e, &extent);
	if (extent.kind != VAL_INT)
		return diag_error(e->cx, s->extent->place, DIAG_EXTENT_CONST);
	d->letter = 'p';
	d->part = extent.i;
	if (d->part < (e->whole ? 0 : 1))
		return diag_error(e->cx, s->extent->place, DIAG_EXTENT_RANGE, (long long)d->part);
	if (!shape_check(e, e->b.place, 1, &d->part))
		return false;
	Value *from = val_index(e, &start, "the start of a part");
	if (!from)
		return false;
	const Type *t = type_tile(e->m, TY_I32, 1, &d->part);
	d->is_inside = start.kind == VAL_INT && start.i >= 0 && start.i <= d->extent - d->part;
	d->at = build_iota(&e->b, t, 0);
	if (start.kind == VAL_INT && start.i == 0)
		return true;
	from = ir_broadcast(e, narrowed(e, from, d->extent, d->part), 1, &d->part, e->b.place);
	d->at = from ? build2(&e->b, OP_ADD, from, d->at) : NULL;
	return d->at != NULL;
}

/* Gathers broadcast to one shape. */
static bool
match_gathers(Elab *e, TableAccess *a, Place at)
{
	Val in[MAX_RANK];
	int n = 0;
	for (int d = 0; d < a->nd; d++)
		if (a->dim[d].letter == 'g')
			in[n++] = val_tile(at, a->dim[d].at);
	return n == 0 || match_shapes(e, in, n, at, &a->ngather, a->gather);
}

static void
lay_out(TableAccess *a, const Expr *x)
{
	int d = 0, group = -1;
	for (int i = 0; i < MAX(x->subs.n, a->nd) || d < a->nd; i++) {
		if (i < x->subs.n && x->subs.at[i].kind == SUB_NEW) {
			if (a->rank < LEN(a->shape))
				a->shape[a->rank++] = 1;
			continue;
		}
		TableDim *k = &a->dim[d++];
		if (k->letter == 'g' && group < 0) {
			group = a->rank;
			for (int g = 0; g < a->ngather && a->rank < LEN(a->shape); g++)
				a->shape[a->rank++] = a->gather[g];
		}
		k->first = k->letter == 'g' ? group : a->rank;
		if (k->letter == 'p' && a->rank < LEN(a->shape))
			a->shape[a->rank++] = k->part;
	}
}

static bool
open_dims(Elab *e, const Expr *x, const Val *given, TableAccess *a)
{
	int d = 0;
	bool ok = true;
	for (int i = 0; i < x->subs.n; i++) {
		const Subscript *s = &x->subs.at[i];
		if (s->kind == SUB_NEW)
			continue;
		ok &= s->kind == SUB_INDEX ? index_dim(e, &given[i], &a->dim[d]) : part_dim(e, s, &given[i], &a->dim[d]);
		d++;
	}
	for (; d < a->nd; d++)
		ok &= part_dim(e, NULL, NULL, &a->dim[d]);
	return ok;
}

/* A dimension's index in the shape of the result. */
static Value *
spread(Elab *e, const TableAccess *a, const TableDim *d)
{
	int64_t extent[2 * MAX_RANK + 1];
	const Type *t = d->at->type;
	int from = d->first + (d->letter == 'g' ? a->ngather - t->rank : 0);
	for (int i = 0; i < a->rank; i++)
		extent[i] = i >= from && i < from + t->rank ? t->extent[i - from] : 1;
	Value *v = t->rank ? ir_reshape(e, d->at, a->rank, extent) : d->at;
	return ir_broadcast(e, v, a->rank, a->shape, e->b.place);
}

static Value *
inside(Elab *e, Value *at, int64_t extent)
{
	at = ir_convert(e, at, TY_U32);
	return build2(&e->b, OP_LT, at, build_int(&e->b, at->type, extent));
}

/* The element's number in the table, and whether there is one (NULL: the number says so). */
static Value *
number_of(Elab *e, const TableAccess *a, bool wants_mask, Value **mask)
{
	Value *sum = NULL;
	bool is_many = a->nd > 1 || wants_mask;
	*mask = NULL;
	for (int d = 0; d < a->nd; d++) {
		Value *at = spread(e, a, &a->dim[d]);
		if (!at)
			return NULL;
		if (is_many && !a->dim[d].is_inside) {
			Value *in = inside(e, at, a->dim[d].extent);
			*mask = *mask ? build2(&e->b, OP_AND, *mask, in) : in;
		}
		if (sum)
			sum = build2(&e->b, OP_MUL, sum, build_int(&e->b, sum->type, a->dim[d].extent));
		sum = sum ? build2(&e->b, OP_ADD, sum, at) : at;
	}
	if (*mask && a->nd > 1)
		sum = op_make(&e->b, OP_SELECT, (Value *[]){*mask, sum, build_int(&e->b, sum->type, -1)}, 3, NULL, 0, NULL,
		    0)->out;
	return sum;
}

static bool
count_ok(Elab *e, const Expr *x, const Val *list, const TableAccess *a)
{
	int n = 0;
	int64_t count = 1;
	for (int i = 0; i < x->subs.n; i++)
		n += x->subs.at[i].kind != SUB_NEW;
	for (int d = 0; d < a->nd; d++)
		count *= a->dim[d].extent;
	if (n > a->nd)
		diag_error(e->cx, x->place, DIAG_INDEX_COUNT, val_describe(e, list), a->nd, a->nd == 1 ? "" : "s", n,
		    n == 1 ? "ex is" : "ices are");
	else if (count > TABLE_MOST)
		diag_error(e->cx, x->place, DIAG_TABLE_SIZE, TABLE_MOST, (long long)count);
	return n <= a->nd && count <= TABLE_MOST;
}

static Value *
make_lookup(Elab *e, const TableAccess *a, const Val *list, DType t, Value *fill)
{
	Value *mask, *number = number_of(e, a, fill != NULL, &mask);
	int64_t count = 1;
	if (!number)
		return NULL;
	for (int d = 0; d < a->nd; d++)
		count *= a->dim[d].extent;
	Attr bits = bits_of(e, list, t, count);
	const Type *type = type_with_elem(e->m, number->type, t);
	Value *v = op_make(&e->b, OP_LOOKUP, &number, 1, &bits, 1, &type, 1)->out;
	return fill && mask ? op_make(&e->b, OP_SELECT, (Value *[]){mask, v, fill}, 3, NULL, 0, NULL, 0)->out : v;
}

static Val
lookup(Elab *e, const Expr *x, const Val *list, const Val *given)
{
	TableAccess a = {0};
	int64_t extent[MAX_RANK];
	Value *fill = NULL;
	a.nd = first_rows(list, extent);
	for (int d = 0; d < a.nd; d++)
		a.dim[d].extent = extent[d];
	if (!measure(e, list, a.nd, extent, x->place) || !match_kinds(e, list, first_of(list)) ||
	    !count_ok(e, x, list, &a) || !open_dims(e, x, given, &a) || !match_gathers(e, &a, x->place))
		return val_poison(x->place);
	lay_out(&a, x);
	if (!shape_check(e, x->place, a.rank, a.shape))
		return val_poison(x->place);
	DType t = table_dtype(e, list);
	if (x->b) {
		Val other = elab_expr(e, x->b);
		fill = val_is_poison(&other) ? NULL : stored_value(e, "else", &other, t, a.rank, a.shape, x->b->place);
		if (!fill)
			return val_poison(x->place);
	}
	e->b.place = x->place;
	return val_tile(x->place, make_lookup(e, &a, list, t, fill));
}

/* ---- items ---- */

/* Each index is known when compiling, and has a list to pick from. */
static bool
is_static(const Expr *x, const Val *list, const Val *given)
{
	for (int i = 0; i < x->subs.n; i++) {
		if (x->subs.at[i].kind != SUB_INDEX || given[i].kind != VAL_INT || list->kind != VAL_LIST)
			return false;
		if (list->n > 0)
			list = &list->items[given[i].i >= 0 && given[i].i < list->n ? given[i].i : 0];
	}
	return true;
}

/* Outside of a list of numbers there is what stands after else; without it an index that is known is a mistake. */
static Val
outside(Elab *e, const Expr *x, const Val *like, int64_t index, int n)
{
	bool is_number = val_is_const(like);
	if (is_number && x->b)
		return elab_expr(e, x->b);
	diag_error(e->cx, x->place, DIAG_ITEM_RANGE, (long long)index, n, n == 1 ? "" : "s");
	if (is_number)
		diag_help(e->cx, "if it may be outside, say what it is then: `[%lld] else 0`", (long long)index);
	return val_poison(x->place);
}

Val
index_list(Elab *e, const Expr *x, const Val *list)
{
	Val *given = NEW_ARRAY(e->cx->mem, Val, x->subs.n), v = *list;
	bool poison = false;
	for (int i = 0; i < x->subs.n; i++) {
		const Subscript *s = &x->subs.at[i];
		if (s->kind == SUB_INDEX || s->kind == SUB_PART)
			given[i] = elab_expr(e, s->e);
		poison |= val_is_poison(&given[i]) && s->kind != SUB_NEW && s->kind != SUB_ALL;
	}
	if (poison)
		return val_poison(x->place);
	if (!is_static(x, list, given))
		return list->n ? lookup(e, x, list, given) : outside(e, x, list, 0, 0);
	for (int i = 0; i < x->subs.n; i++) {
		if (given[i].i < 0 || given[i].i >= v.n)
			return outside(e, x, v.n ? &v.items[0] : &v, given[i].i, v.n);
		v = v.items[given[i].i];
	}
	v.place = x->place;
	return v;
}

Val
index_tuple(Elab *e, const Expr *x, const Val *tuple)
{
	bool one = x->subs.n == 1 && x->subs.at[0].kind == SUB_INDEX;
	Val i = one ? elab_expr(e, x->subs.at[0].e) : val_poison(x->place);
	if (one && val_is_poison(&i))
		return i;
	if (x->b)
		diag_error(e->cx, x->b->place, DIAG_ELSE_TILE, "a tuple");
	else if (i.kind != VAL_INT)
		diag_error(e->cx, x->place, DIAG_TUPLE_INDEX, one ? val_describe(e, &i) : "a part or several");
	else if (i.i < 0 || i.i >= tuple->n)
		diag_error(e->cx, x->place, DIAG_ITEM_RANGE, (long long)i.i, tuple->n, tuple->n == 1 ? "" : "s");
	else
		return tuple->items[i.i];
	return val_poison(x->place);
}
