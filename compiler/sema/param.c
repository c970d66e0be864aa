/* What the declared type of a fn's parameter demands of an argument.
 *
 * A type may name things that the argument then gives: `fn f(x: T[M, N])` binds T to the element type and M and N
 * to the extents, unless those names already mean something, which is then required. */
#include "sema/elab.h"

#include <inttypes.h>

typedef struct Check {
	Elab *e;
	const Param *param;
	const char *fn;
	Val *v;
	bool is_result;
} Check;

static bool
refuse(Check *c, const char *expected)
{
	if (c->is_result && c->v->kind != VAL_POISON)
		diag_error(c->e->cx, c->param->place, DIAG_RESULT_TYPE, c->fn, expected, val_describe(c->e, c->v));
	else if (c->v->kind != VAL_POISON)
		diag_error(c->e->cx, c->v->place, DIAG_PARAM_TYPE, c->fn, c->param->name, expected,
		    val_describe(c->e, c->v));
	return false;
}

/* The element type that is written, or the argument's own under a name that it now gives. */
static bool
element_type(Check *c, DType given, DType *want)
{
	const Expr *elem = c->param->type->elem;

	*want = given;
	if (!elem || elem->kind != EX_NAME)
		return elem == NULL;
	if (!scope_find(c->e, elem->name)) {
		scope_add(c->e, elem->name, elem->place,
		    (Val){.kind = VAL_DTYPE, .place = elem->place, .dtype = given}, false);
		return true;
	}
	Val t = elab_expr(c->e, elem);
	return val_const_dtype(c->e, &t, "the type of a parameter", want);
}

static bool
same_type(const Elab *e, DType have, DType want)
{
	return have == want || (e->whole && dtype_is_float(have) && dtype_is_float(want));
}

/* One dimension: a new name is bound to the extent, anything else must equal it. */
static bool
dimension(Check *c, const Expr *dim, int d, int64_t extent, Value *run_time)
{
	Elab *e = c->e;
	int64_t want;

	if (dim->kind == EX_NAME && !scope_find(e, dim->name)) {
		Val v = extent >= 0 ? val_int(dim->place, extent) : val_tile(dim->place, run_time);
		scope_add(e, dim->name, dim->place, v, false);
		return true;
	}
	Val v = elab_expr(e, dim);
	if (v.kind == VAL_TILE || extent < 0)
		return true;
	if (!val_const_int(e, &v, "a dimension", &want))
		return false;
	if (want == extent)
		return true;
	if (c->is_result)
		return refuse(c, arena_printf(e->cx->mem, "a dimension %d of %" PRId64, d, want));
	return diag_error(e->cx, c->v->place, DIAG_PARAM_EXTENT, c->fn, d, c->param->name,
	    (long long)want, (long long)extent);
}

static bool
check_tensor(Check *c)
{
	Elab *e = c->e;
	const TypeExpr *t = c->param->type;

	if (c->v->kind != VAL_TENSOR)
		return refuse(c, "a tensor");
	Value *tensor = &e->func->body->arg[c->v->param];
	Access access = e->kernel->params.at[c->v->param].access;
	DType want;
	if (t->mode != MODE_IN && access == ACCESS_IN)
		return refuse(c, "a tensor that may be written");
	if (!element_type(c, tensor->type->elem, &want))
		return false;
	if (!same_type(e, tensor->type->elem, want))
		return refuse(c, arena_printf(e->cx->mem, "a tensor of %s", dtype_info[want].text));
	if (t->dims.n != c->v->rank)
		return refuse(c, arena_printf(e->cx->mem, "a tensor of %d dimension%s", t->dims.n,
			t->dims.n == 1 ? "" : "s"));
	for (int d = 0; d < t->dims.n; d++) {
		int from = c->v->perm[d];
		int64_t extent = tensor->type->extent[from];
		Attr axis = attr_new_axis(e->m, from);
		Value *n = extent < 0 ? &op_make(&e->b, OP_DIM, &tensor, 1, &axis, 1, NULL, 0)->out[0] : NULL;
		if (!dimension(c, t->dims.at[d], d, extent, n))
			return false;
	}
	return true;
}

static bool
check_pointer(Check *c)
{
	const TypeExpr *t = c->param->type;
	DType want;

	if (c->v->kind != VAL_TILE || c->v->v->type->ptr == PTR_NONE)
		return refuse(c, "a pointer");
	const Type *have = c->v->v->type;
	if (!element_type(c, have->elem, &want))
		return false;
	if (have->elem != want)
		return refuse(c, arena_printf(c->e->cx->mem, "a pointer to %s", dtype_info[want].text));
	if (t->mut && have->ptr != PTR_MUT)
		return refuse(c, "a pointer that may be written through (*mut)");
	if (t->has_dims && have->rank != t->dims.n)
		return refuse(c, arena_printf(c->e->cx->mem, "a tile of pointers of %d dimensions", t->dims.n));
	return !t->has_dims || ALL_OF(d, t->dims.n, dimension(c, t->dims.at[d], d, have->extent[d], NULL));
}

/* A compile-time argument stays weak; its declared type says which kind it must be. */
static bool
check_const(Check *c)
{
	const TypeExpr *t = c->param->type;
	const char *name = t && t->elem && t->elem->kind == EX_NAME ? t->elem->name : NULL;
	DType want;
	Const value;

	if (!const_of_val(c->v, &value))
		return refuse(c, "a compile-time value");
	if (!name)
		return true;
	if (dtype_named(name, &want)) {
		if (want == TY_BOOL && c->v->kind != VAL_BOOL)
			return refuse(c, "a compile-time true or false");
		if (dtype_is_int(want) && !val_is_int(c->v))
			return refuse(c, "a compile-time integer");
		if (dtype_is_float(want) && c->v->kind != VAL_FLOAT && !val_is_int(c->v))
			return refuse(c, "a compile-time number");
	}
	return true;
}

/* "f32[M, 4]" as the parameter is declared, or "a scalar f32". */
static const char *
tile_text(Check *c, const char *elem)
{
	const TypeExpr *t = c->param->type;
	Text text = {0};

	if (!t->has_dims)
		return arena_printf(c->e->cx->mem, "a scalar %s", elem);
	text_put(&text, elem);
	type_dims_print(t, &text);
	return text_take(&text, c->e->cx->mem);
}

static bool
check_value(Check *c)
{
	Elab *e = c->e;
	const TypeExpr *t = c->param->type;
	DType want;

	if (!val_is_number(c->v))
		return refuse(c, t->has_dims ? "a tile" : "a number");
	if (!element_type(c, val_dtype(e, c->v), &want))
		return false;
	if (val_is_const(c->v)) {
		*c->v = val_tile(c->v->place, val_ir_as(e, c->v, want));
		if (val_is_poison(c->v))
			return false;
	}
	const Type *have = c->v->v->type;
	int rank = t->has_dims ? t->dims.n : 0;
	if (!same_type(e, have->elem, want) || have->rank != rank) {
		const char *text = dtype_info[want].text;
		refuse(c, tile_text(c, text));
		if (c->is_result && have->rank != rank && !rank)
			diag_help(e->cx, "a tile is declared as -> %s[N]; or leave the type out", text);
		else if (have->rank != rank && !rank)
			diag_help(e->cx, "a tile is declared as %s: %s[N]; or leave the type out", c->param->name, text);
		else if (have->rank == rank)
			diag_help(e->cx, "convert it with 'as %s'", text);
		return false;
	}
	return ALL_OF(d, rank, dimension(c, t->dims.at[d], d, have->extent[d], NULL));
}

static bool
check(Elab *e, const Param *param, const char *fn, Val *v, bool is_result)
{
	Check c = {e, param, fn, v, is_result};
	const TypeExpr *t = param->type;

	if (val_is_poison(v))
		return false;
	if (param->is_const)
		return check_const(&c);
	if (!t)
		return true;
	if (t->elem && t->elem->kind == EX_NAME && !t->pointer && !t->has_dims &&
	    t->elem->name == intern(e->cx->names, "dtype"))
		return v->kind == VAL_DTYPE ? true : refuse(&c, "a type such as f32");
	if (t->mode != MODE_VALUE)
		return check_tensor(&c);
	return t->pointer ? check_pointer(&c) : check_value(&c);
}

bool
param_check(Elab *e, const Param *param, const char *fn, Val *v)
{
	return check(e, param, fn, v, false);
}

/* Several results are a tuple, each item of its own type. */
bool
result_check(Elab *e, const Item *fn, Val *v)
{
	const ParamList *l = &fn->results;
	if (l->n == 0 || val_is_poison(v))
		return l->n == 0;
	if (!fn->gives_tuple)
		return check(e, &l->at[0], fn->name, v, true);
	if (v->kind != VAL_TUPLE || v->n != l->n) {
		Check c = {e, &l->at[0], fn->name, v, true};
		return refuse(&c, arena_printf(e->cx->mem, "a tuple of %d", l->n));
	}
	*v = val_tuple(e, v->place, v->items, v->n);
	bool ok = true;
	for (int i = 0; i < l->n; i++)                  /* each that does not fit has its message */
		ok &= check(e, &l->at[i], fn->name, &v->items[i], true);
	return ok;
}
