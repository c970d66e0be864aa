/* Lists of compile-time numbers as tiles: [1, 2, 3], or [[1, 2], [3, 4]] of rows of one length.  The numbers are weak, as
 * single ones are: beside a tile they take its type.
 *
 * Over whole tensors a list may be long, and its elements are put one after the other.  In a kernel what element a thread
 * has decides: a list that counts evenly is computed from the index, any other chosen by halves,
 *
 *     [5, 7, 9, 2]   =>   %a = select (iota < 1), 5, 7
 *                         %b = select (iota < 3), 9, 2
 *                         %r = select (iota < 2), %a, %b
 *
 * where equal neighbours are one. */
#include "ir/derive.h"
#include "sema/builtin/builtin.h"

#include <string.h>

enum { MAX_LIST = 1024 };                               /* elements in a kernel: each is a choice of every thread */

static bool
wrong(Elab *e, Place at, const char *what)
{
	return diag_error(e->cx, at, DIAG_EXAMPLE_LIST, what);
}

/* The numbers of v in order and its shape from dimension `rank` on. */
static bool
flatten(Elab *e, const Val *v, int rank, List *l, Place at)
{
	if (v->kind != VAL_LIST) {
		Val number = *v;
		if (!val_is_const(v) && !val_constant(v, &number))
			return val_is_poison(v) ? false : wrong(e, at, val_describe(e, v));
		if (rank != l->rank)
			return wrong(e, at, "rows of different lengths");
		vec_push(e->cx->mem, &l->item, number);
		return true;
	}
	if (!rank_check(e, at, rank + 1))
		return false;
	if (rank == l->rank && l->item.n == 0)
		l->extent[l->rank++] = v->n;
	if (rank >= l->rank || l->extent[rank] != v->n)
		return wrong(e, at, "rows of different lengths");
	return ALL_OF(i, v->n, flatten(e, &v->items[i], rank + 1, l, at));
}

bool
list_open(Elab *e, const Val *v, Place at, List *l)
{
	*l = (List){0};
	if (!flatten(e, v, 0, l, at))
		return false;
	if (!e->whole && l->item.n > MAX_LIST) {
		diag_error(e->cx, at, DIAG_LIST_LIMIT, MAX_LIST, l->item.n);
		return diag_help(e->cx, "give the kernel a tensor of them");
	}
	return true;
}

/* Floats above integers above bools; of integers the first that i32 cannot hold. */
static bool
decides(const Val *a, const Val *b)
{
	static const int order[] = {[VAL_BOOL] = 0, [VAL_INT] = 1, [VAL_BIG] = 2, [VAL_FLOAT] = 3};
	if (a->kind != b->kind)
		return order[a->kind] > order[b->kind];
	return a->kind == VAL_INT && a->i != (int32_t)a->i && b->i == (int32_t)b->i;
}

Val
list_weak(const List *l, Place at)
{
	Val v = val_int(at, 0);
	for (int i = 0; i < l->item.n; i++)
		if (i == 0 || decides(&l->item.at[i], &v))
			v = l->item.at[i];
	v.place = at;
	return v;
}

static Value *
concatenated(Elab *e, const List *l, DType t)
{
	const Type *one = type_tile(e->m, t, 1, (int64_t[]){1});
	Value **part = NEW_ARRAY(e->cx->mem, Value *, l->item.n);
	for (int i = 0; i < l->item.n; i++) {
		part[i] = val_const_tile(e, &l->item.at[i], one);
		if (!part[i])
			return NULL;
	}
	Attr axis = attr_new_axis(e->m, 0);
	return op_make(&e->b, OP_CAT, part, l->item.n, &axis, 1, NULL, 0)->out;
}

/* start + step i, if the list is that: step 0 is a constant. */
static bool
is_even(const List *l, DType t, int64_t *step)
{
	const Val *v = l->item.at;
	if (l->item.n < 3 || !dtype_is_int(t) || dtype_is_packed(t))
		return false;
	*step = (int64_t)((uint64_t)v[1].i - (uint64_t)v[0].i);
	return ALL_FROM(i, 2, l->item.n, (int64_t)((uint64_t)v[i].i - (uint64_t)v[i - 1].i) == *step);
}

static bool
same_number(const Val *a, const Val *b)
{
	if (a->kind != b->kind)
		return false;
	return a->kind == VAL_FLOAT ? memcmp(&a->f, &b->f, sizeof a->f) == 0 : a->i == b->i;
}

/* Elements from .. end - 1 at their positions; the other elements are arbitrary. */
static Value *
by_halves(Elab *e, const List *l, const Type *t, Value *index, int from, int end)
{
	int middle = from + (end - from) / 2, first = middle, last = middle;
	const Val *v = l->item.at;
	while (first > from && same_number(&v[first - 1], &v[middle]))
		first--;
	while (last < end && same_number(&v[last], &v[middle]))
		last++;
	if (first == from && last == end)
		return val_const_tile(e, &v[from], t);
	middle = first > from ? first : last;
	Value *a = by_halves(e, l, t, index, from, middle), *b = a ? by_halves(e, l, t, index, middle, end) : NULL;
	if (!b)
		return NULL;
	Value *before = build2(&e->b, OP_LT, index, build_int(&e->b, index->type, middle));
	return build3(&e->b, OP_SELECT, before, a, b);
}

static Value *
chosen(Elab *e, const List *l, DType t)
{
	int64_t n = l->item.n, step;
	const Type *type = type_tile(e->m, t, 1, &n), *indices = type_tile(e->m, TY_I32, 1, &n);
	if (!ALL_OF(i, l->item.n, val_literal_fits(e, &l->item.at[i], t)))
		return NULL;
	if (is_even(l, t, &step)) {
		Value *i = build_iota(&e->b, type, 0);
		i = build2(&e->b, OP_MUL, i, build_int(&e->b, type, int_wrap(t, step)));
		return build2(&e->b, OP_ADD, i, val_const_tile(e, &l->item.at[0], type));
	}
	Value *index = build_iota(&e->b, indices, 0);
	return by_halves(e, l, type, index, 0, l->item.n);
}

Value *
list_tile(Elab *e, const List *l, DType t)
{
	if (l->item.n == 0)
		return build_int(&e->b, type_tile(e->m, t, l->rank, l->extent), 0);
	Value *v = e->whole ? concatenated(e, l, t) : chosen(e, l, t);
	return v ? ir_reshape(e, v, l->rank, l->extent) : NULL;
}

bool
list_settle(Elab *e, Val *v)
{
	List l;
	if (v->kind != VAL_LIST)
		return !val_is_poison(v);
	if (!list_open(e, v, v->place, &l))
		return false;
	Val weak = list_weak(&l, v->place);
	if (weak.kind != VAL_FLOAT)
		*v = val_tile(v->place, list_tile(e, &l, val_dtype(e, &weak)));
	return !val_is_poison(v);
}
