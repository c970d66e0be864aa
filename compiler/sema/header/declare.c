/* A kernel's header as far as it can be checked without values: its parameters with their types, which names are
 * shape symbols, that no name means two things, that `tune` names what exists.
 *
 * A dimension that is a plain name is a symbol unless the name is a compile-time parameter, a scalar parameter or
 * a top-level constant; then it is a requirement (or, for a compile-time parameter, gives it its value).  So is a
 * name with constants, as B in `first: in i32[B + 1]` or N in `x: in bf16[M, 2 * N]`, which gives it a value where no
 * plain dimension does. */
#include "sema/header.h"

#include <stdlib.h>
#include <string.h>

int
ctparam_named(const Kernel *k, const char *name)
{
	return FIRST_OF(i, k->item->ctparams.n, strcmp(k->item->ctparams.at[i].name, name) == 0);
}

int
symbol_named(const Kernel *k, const char *name)
{
	return FIRST_OF(i, k->symbols.n, strcmp(k->symbols.at[i], name) == 0);
}

int
param_of_kernel(const Kernel *k, const char *name)
{
	return FIRST_OF(i, k->params.n, strcmp(k->params.at[i].name, name) == 0);
}

bool
schedule_hidden(const Kernel *k, const char *name)
{
	int i = param_of_kernel(k, name);
	return symbol_named(k, name) >= 0 || (i >= 0 && k->params.at[i].kind == PARAM_SCALAR);
}

static void
header_names(const Kernel *k, NameSet *all)
{
	Arena *mem = k->program->cx->mem;

	for (int i = 0; i < k->item->ctparams.n; i++)
		vec_push(mem, all, k->item->ctparams.at[i].name);
	for (int i = 0; i < k->symbols.n; i++)
		vec_push(mem, all, k->symbols.at[i]);
	for (int i = 0; i < k->params.n; i++)
		vec_push(mem, all, k->params.at[i].name);
	for (int i = 0; i < SCHEDULE_COUNT; i++)
		vec_push(mem, all, schedule_info[i].text);
}

const char *
header_advice(const Kernel *k, const char *name)
{
	Arena *mem = k->program->cx->mem;
	int i = param_of_kernel(k, name);
	NameSet all = {0};

	if (i >= 0)                                     /* a scalar would have been found */
		return arena_printf(mem, "'%s' is a %s, which has no value here", name,
		    k->params.at[i].kind == PARAM_TENSOR ? "tensor" : "pointer");
	header_names(k, &all);
	return name_advice(mem, name, all.at, all.n);
}

const char *
example_advice(const Kernel *k, const char *label)
{
	NameSet all = {0};
	Arena *mem = k->program->cx->mem;

	for (int i = 0; i < k->examples.n; i++)
		if (k->examples.at[i].label[0])
			vec_push(mem, &all, k->examples.at[i].label);
	return all.n == 0 && k->examples.n > 0 ? "its examples have no labels: the first is taken where none is named"
	                                       : name_advice(mem, label, all.at, all.n);
}

static const char *
header_nearest(const Kernel *k, const char *name)
{
	NameSet all = {0};

	header_names(k, &all);
	return nearest_name(name, all.at, all.n);
}

bool
expr_mentions(const Expr *x, const char *name)
{
	if (!x)
		return false;
	if (x->kind == EX_NAME && x->name == name)
		return true;
	return ANY_OF(i, expr_children(x), expr_mentions(expr_child(x, i), name));
}

bool
header_mentions(const Kernel *k, const char *name)
{
	return ANY_OF(i, k->item->grid.n, expr_mentions(k->item->grid.at[i].count, name)) ||
	    header_mentions_beside_grid(k, name);
}

bool
header_mentions_beside_grid(const Kernel *k, const char *name)
{
	const Item *it = k->item;

	if (ANY_OF(i, it->ctparams.n, expr_mentions(it->ctparams.at[i].value, name)))
		return true;
	if (ANY_OF(i, it->where.n, expr_mentions(it->where.at[i], name)))
		return true;
	for (int i = 0; i < it->params.n; i++) {
		const Param *p = &it->params.at[i];
		if (expr_mentions(p->fill, name))
			return true;
		if (ANY_OF(d, p->type->dims.n, expr_mentions(p->type->dims.at[d], name)))
			return true;
	}
	return false;
}

static Compile *
context(const Kernel *k)
{
	return k->program->cx;
}

/* Reports into a kernel that cannot be elaborated any more. */
#define BROKEN(k, ...) ((k)->broken = true, diag_error(context(k), __VA_ARGS__))

static void
check_ctparams(Kernel *k)
{
	static const char *const types[] = {"dtype", "bool", "i32", "i64", "u32", "u64", "i8", "i16", "u8", "u16",
		"f32", "f64"};

	for (int i = 0; i < k->item->ctparams.n; i++) {
		const CtParam *c = &k->item->ctparams.at[i];
		bool known = c->type.name == NULL || ANY_OF(j, LEN(types), strcmp(types[j], c->type.name) == 0);
		if (known)
			continue;
		BROKEN(k, c->type.place, DIAG_CTPARAM_TYPE, c->type.name);
		const char *near = nearest_name(c->type.name, types, LEN(types));
		const char *hint = name_hint(c->type.name);
		if (hint)
			diag_help(context(k), "%s", hint);
		else
			diag_help(context(k), "write an integer type, bool or dtype, as in <%s: %s>", c->name,
			    near ? near : "i32");
	}
}

/* Is this compile-time parameter a dtype, by its type or its default? */
static bool
is_dtype_param(const CtParam *c)
{
	DType t;

	if (c->type.name)
		return strcmp(c->type.name, "dtype") == 0;
	return c->value && c->value->kind == EX_NAME && dtype_named(c->value->name, &t);
}

static void
element_type(Kernel *k, KernelParam *p, const TypeExpr *t)
{
	const Expr *elem = t->elem;

	p->dtype_param = -1;
	if (!elem || elem->kind != EX_NAME) {
		k->broken = true;
		return;
	}
	int c = ctparam_named(k, elem->name);
	if (c >= 0 && is_dtype_param(&k->item->ctparams.at[c])) {
		p->dtype_param = c;
		return;
	}
	if (c < 0 && dtype_named(elem->name, &p->dtype)) {
		p->dtype_known = true;
		return;
	}
	BROKEN(k, elem->place, DIAG_TYPE_UNKNOWN, elem->name);
	const char *names[DTYPE_COUNT];
	for (int i = 0; i < DTYPE_COUNT; i++)
		names[i] = dtype_info[i].text;
	const char *near = nearest_name(elem->name, names, DTYPE_COUNT), *hint = name_hint(elem->name);
	if (hint)
		diag_help(context(k), "%s", hint);
	else if (c >= 0)
		diag_help(context(k), "declare it as a type: <%s: dtype = f32>", elem->name);
	else if (near)
		diag_help(context(k), "did you mean '%s'?", near);
	else if (strcmp(elem->name, "dtype") == 0)
		diag_help(context(k), "compile-time parameters stand in < >: kernel %s<%s: dtype = f32>(...)", k->name,
		    p->name);
	else
		diag_help(context(k), "declare it as a compile-time parameter: kernel %s<%s: dtype = f32>(...)",
		    k->name, elem->name);
}

static void
tensor_param(Kernel *k, KernelParam *p, const TypeExpr *t)
{
	static const Access access[] = {[MODE_IN] = ACCESS_IN, [MODE_OUT] = ACCESS_OUT, [MODE_INOUT] = ACCESS_INOUT,
		[MODE_SCRATCH] = ACCESS_SCRATCH};

	p->kind = PARAM_TENSOR;
	p->access = access[t->mode];
	p->fixed = t->fixed;
	p->strided = t->strided;
	p->rank = t->dims.n;
	if (t->dims.n > KERNEL_RANK) {
		BROKEN(k, t->place, DIAG_PARAM_RANK, p->name, t->dims.n, KERNEL_RANK);
		p->rank = KERNEL_RANK;
	}
}

static void
check_param(Kernel *k, KernelParam *p, const Param *ast)
{
	const TypeExpr *t = ast->type;

	if (!t) {                                       /* the parser asks for one */
		k->broken = true;
		return;
	}
	element_type(k, p, t);
	if (t->mode != MODE_VALUE) {
		tensor_param(k, p, t);
	} else if (t->has_dims) {
		BROKEN(k, t->place, DIAG_PARAM_MODE, ast->name);
		diag_help(context(k), "say how the kernel uses it: in, out, inout or scratch");
	} else {
		p->kind = t->pointer ? PARAM_POINTER : PARAM_SCALAR;
		p->ptr = !t->pointer ? PTR_NONE : t->mut ? PTR_MUT : PTR_CONST;
	}
	bool single = p->kind != PARAM_TENSOR || p->rank == 0;
	if (single && p->dtype_known && dtype_is_packed(p->dtype)) {
		BROKEN(k, t->place, DIAG_PACKED_PARAM, dtype_info[p->dtype].text);
		diag_help(context(k), "pass a tensor: %s: in %s[N]", ast->name, dtype_info[p->dtype].text);
	}
	p->has_fill = ast->fill != NULL;
	if (ast->fill && !(p->kind == PARAM_TENSOR && (p->access == ACCESS_OUT || p->access == ACCESS_SCRATCH))) {
		BROKEN(k, ast->fill->place, DIAG_FILL_PLACE, ast->name);
		diag_help(context(k), "only an 'out' or 'scratch' tensor is filled before the launch");
	}
}

DimForm
dim_form(const Expr *dim)
{
	if (dim->kind == EX_NAME && !dim->scope)
		return (DimForm){dim, 1, 0};
	if (dim->kind != EX_BINARY || (dim->bin != BIN_ADD && dim->bin != BIN_SUB && dim->bin != BIN_MUL))
		return (DimForm){0};
	bool is_first = dim->bin != BIN_SUB && dim->a->kind == EX_INT;
	const Expr *c = is_first ? dim->a : dim->b;
	DimForm f = dim_form(is_first ? dim->b : dim->a);
	if (!f.name || c->kind != EX_INT || c->u > INT32_MAX)
		return (DimForm){0};
	int64_t by = dim->bin == BIN_MUL ? (int64_t)c->u : 1;
	f.times *= by;
	f.more = dim->bin == BIN_MUL ? f.more * by : dim->bin == BIN_ADD ? f.more + (int64_t)c->u : f.more - (int64_t)c->u;
	return f.times >= 1 && f.times <= INT32_MAX && llabs(f.more) <= INT32_MAX ? f : (DimForm){0};
}

int64_t
dim_solve(DimForm f, int64_t extent)
{
	return (extent - f.more) / f.times;
}

static bool
is_declared(const Kernel *k, const char *name)
{
	int scalar = param_of_kernel(k, name);

	return ctparam_named(k, name) >= 0 || program_const(k->program, name) || symbol_named(k, name) >= 0 ||
	    (scalar >= 0 && k->params.at[scalar].kind == PARAM_SCALAR);
}

static void
find_symbols(Kernel *k)
{
	for (int i = 0; i < k->params.n; i++) {
		const KernelParam *p = &k->params.at[i];
		for (int d = 0; p->kind == PARAM_TENSOR && d < p->rank; d++) {
			const Expr *x = dim_form(p->ast->type->dims.at[d]).name;
			if (x && !is_declared(k, x->name))
				vec_push(context(k)->mem, &k->symbols, x->name);
		}
	}
}

/* Where a symbol is first mentioned. */
static Place
symbol_place(const Kernel *k, const char *name)
{
	for (int i = 0; i < k->params.n; i++) {
		const KernelParam *p = &k->params.at[i];
		for (int d = 0; p->kind == PARAM_TENSOR && d < p->rank; d++) {
			const Expr *x = dim_form(p->ast->type->dims.at[d]).name;
			if (x && x->name == name)
				return x->place;
		}
	}
	return k->item->name_place;
}

typedef struct Named {
	const char *name, *what;
	Place place;
} Named;

/* In a header each name means one thing. */
static void
check_names(Kernel *k)
{
	VEC(Named) all = {0};
	Arena *mem = context(k)->mem;
	const Item *it = k->item;

	for (int i = 0; i < it->ctparams.n; i++)
		vec_push(mem, &all, ((Named){it->ctparams.at[i].name, "a compile-time parameter",
			it->ctparams.at[i].name_place}));
	for (int i = 0; i < it->params.n; i++)
		vec_push(mem, &all, ((Named){it->params.at[i].name, "a parameter", it->params.at[i].name_place}));
	for (int i = 0; i < k->symbols.n; i++)
		vec_push(mem, &all, ((Named){k->symbols.at[i], "a dimension", symbol_place(k, k->symbols.at[i])}));
	for (int i = 0; i < it->grid.n; i++)
		vec_push(mem, &all, ((Named){it->grid.at[i].name, "a grid index", it->grid.at[i].name_place}));
	for (int i = 0; i < all.n; i++) {
		for (int j = 0; j < i; j++) {
			if (all.at[i].name != all.at[j].name || !all.at[i].name)
				continue;
			const Named *a = &all.at[j], *b = &all.at[i];
			BROKEN(k, b->place, DIAG_HEADER_TWICE, b->name, a->what,
			    strcmp(a->what, b->what) == 0 ? "another" : b->what);
			diag_note(context(k), a->place, "the first is here");
			break;
		}
	}
}

static void
check_tune(Kernel *k)
{
	const Item *it = k->item;

	for (int i = 0; i < it->tune.n; i++) {
		const Tune *t = &it->tune.at[i];
		for (int j = 0; j < i; j++)
			if (it->tune.at[j].name == t->name)
				BROKEN(k, t->name_place, DIAG_TUNE_TWICE, t->name);
		if (ctparam_named(k, t->name) >= 0 || (schedule_named(t->name) >= 0 && !schedule_hidden(k, t->name)))
			continue;
		BROKEN(k, t->name_place, DIAG_TUNE_UNKNOWN, t->name);
		const char *near = header_nearest(k, t->name);
		if (schedule_named(t->name) >= 0)
			diag_help(context(k), "the header's dimension or scalar of that name hides the schedule's: "
				"call it something else");
		else if (near)
			diag_help(context(k), "did you mean '%s'?", near);
		else
			diag_help(context(k), "declare it in < >, or use one of warps, stages, group, ctas, split, "
				"persistent, specialize, pingpong, dynamic, coarsen, batch, strip, unroll, keep, "
				"share, slices");
	}
	if (it->grid.n > MAX_AXES) {
		BROKEN(k, it->grid_place, DIAG_GRID_AXES, it->grid.n, MAX_AXES);
		diag_help(context(k), "fold two axes into one: grid(i: A * B), and take it apart with / and %%");
	}
}

Kernel *
kernel_declare(Program *p, const Item *item)
{
	Kernel *k = NEW(p->cx->mem, Kernel);

	k->program = p;
	k->item = item;
	k->name = item->name;
	check_ctparams(k);
	for (int i = 0; i < item->params.n; i++) {
		KernelParam param = {.ast = &item->params.at[i], .name = item->params.at[i].name};
		check_param(k, &param, param.ast);
		vec_push(p->cx->mem, &k->params, param);
	}
	find_symbols(k);
	check_names(k);
	check_tune(k);
	if (!k->broken)
		k->item = grid_unfold(k);
	k->divides_indices = body_divides_indices(k);
	return k;
}
