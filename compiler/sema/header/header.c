/* Binds a header for one launch: which value every compile-time parameter, symbol, scalar, dimension and grid
 * axis has.
 *
 * The order is that of authority.  What was given by name comes first, then the arguments (a tensor's plain
 * dimensions and its element type), then defaults, which may use what is known by then and one another in any
 * order.  Only after that are dimension expressions, fills, `where` and the grid evaluated: they check and never
 * bind.  Expressions are evaluated by the same walk that elaborates bodies, over compile-time values alone. */
#include "sema/bind.h"

#include <string.h>

enum { COMBINATIONS_MOST = 1024 };                      /* of values in tune(...), of which `where` prunes some */

bool
header_eval(Elab *e, const Expr *x, const char *what, Const *out)
{
	Val v = elab_expr(e, x), number;

	if (v.kind == VAL_POISON)
		return false;
	if (const_of_val(&v, out))
		return true;
	/* `0 as i64` is a typed constant: a header takes its number. */
	if (val_constant(&v, &number))
		return const_of_val(&number, out);
	return diag_error(e->cx, x->place, DIAG_NOT_COMPILE_TIME, what, val_describe(e, &v));
}

bool
program_constant(const Program *p, const char *name, Const *out)
{
	for (int i = 0; i < p->items.n; i++) {
		const Item *it = p->items.at[i];
		if (it->kind == ITEM_CONST && it->name == name) {
			Elab *e = elab_open((Program *)p, NULL, NULL, "cpu", false);
			Expr x = {.kind = EX_NAME, .place = it->name_place, .name = name};
			return header_eval(e, &x, "a constant", out);
		}
	}
	return false;
}

bool
header_eval_int(Binder *b, const Expr *x, const char *what, int64_t *out)
{
	Const c;

	if (!header_eval(b->e, x, what, &c))
		return false;
	if (c.kind != CONST_INT)
		return diag_error(b->cx, x->place, DIAG_HEADER_KIND, what, "an integer", const_describe(b->cx, &c));
	*out = c.i;
	return true;
}

static bool
bind_named(Binder *b, const NamedConst *given, int n)
{
	bool ok = true;
	for (int i = 0; i < n; i++) {
		Slot *s = slot_find(b, given[i].name);
		Place at = given[i].place.file < 0 ? b->k->item->name_place : given[i].place;
		if (s) {
			s->is_chosen |= !s->set && given[i].place.file == CHOSEN.file;
			ok &= slot_set(b, s, &given[i].value, at, given[i].place.file < 0 ? NULL : "the example");
			continue;
		}
		diag_error(b->cx, at, DIAG_GIVEN_UNKNOWN, b->k->name, given[i].name);
		diag_help(b->cx, "%s", header_advice(b->k, given[i].name));
		ok = false;
	}
	return ok;
}

const char *
header_dim_words(Binder *b, const KernelParam *p, int d)
{
	return arena_printf(b->cx->mem, "dimension %d of '%s'", d, p->name);
}

static bool
bind_dtype(Binder *b, const KernelParam *p, DType have)
{
	Place at = p->ast->type->place;

	if (p->dtype_known) {
		if (have == p->dtype)
			return true;
		diag_error(b->cx, at, DIAG_ARG_DTYPE, p->name, dtype_info[p->dtype].text, dtype_info[have].text);
		diag_help(b->cx, "convert it to %s, or let the header take its type: <T: dtype>(%s: in T[...])",
		    dtype_info[p->dtype].text, p->name);
		return false;
	}
	Slot *s = slot_find(b, b->k->item->ctparams.at[p->dtype_param].name);
	Const c = {.kind = CONST_DTYPE, .dtype = have};
	return slot_set(b, s, &c, at, arena_printf(b->cx->mem, "the element type of '%s'", p->name));
}

/* What a tensor's dimension gives a value, plain or with constants; NULL: it is another formula. */
static Slot *
slot_of_dim(Binder *b, const KernelParam *p, int d, bool *plain, DimForm *f)
{
	const Expr *dim = p->ast->type->dims.at[d];

	*f = dim_form(dim);
	Slot *s = f->name ? slot_find(b, f->name->name) : NULL;
	*plain = f->name == dim;
	return s && (s->kind == SLOT_SYMBOL || (*plain && s->kind == SLOT_CT)) ? s : NULL;
}

static bool
refuse_rank(Binder *b, const KernelParam *p, const ArgInfo *a)
{
	DimForm f;
	bool plain;

	for (int d = 0; d < p->rank; d++) {
		Slot *s = slot_of_dim(b, p, d, &plain, &f);
		if (s)
			s->is_refused = true;
	}
	return diag_error(b->cx, p->ast->type->place, DIAG_ARG_RANK, p->name, p->rank, p->rank == 1 ? "" : "s", a->rank);
}

/* The plain dimensions of a tensor argument, or those with constants and a name that has no value yet. */
static bool
bind_dims(Binder *b, const KernelParam *p, const ArgInfo *a, bool plain)
{
	bool ok = true, is_plain;
	DimForm f;

	for (int d = 0; d < p->rank; d++) {
		Slot *s = slot_of_dim(b, p, d, &is_plain, &f);
		Const c = {.kind = CONST_INT, .i = s ? dim_solve(f, a->dim[d]) : 0};
		if (s && plain == is_plain && (plain || !s->set))
			ok &= slot_set(b, s, &c, p->ast->type->dims.at[d]->place, header_dim_words(b, p, d));
	}
	return ok;
}

/* What one tensor argument says: its element type and its plain dimensions. */
static bool
bind_tensor(Binder *b, const KernelParam *p, const ArgInfo *a)
{
	bool ok = bind_dtype(b, p, a->dtype);

	return (a->rank == p->rank ? bind_dims(b, p, a, true) : refuse_rank(b, p, a)) && ok;
}

static bool
bind_args(Binder *b)
{
	bool ok = true;

	for (int i = 0; b->args && i < b->k->params.n; i++) {
		const KernelParam *p = &b->k->params.at[i];
		const ArgInfo *a = &b->args[i];
		if (!a->given)
			continue;
		if (p->kind == PARAM_TENSOR)
			ok &= bind_tensor(b, p, a);
		else if (p->kind == PARAM_POINTER)
			ok &= bind_dtype(b, p, a->dtype);
		else if (a->scalar.kind != CONST_NONE)
			ok &= slot_set(b, slot_find(b, p->name), &a->scalar, p->ast->name_place,
			    arena_printf(b->cx->mem, "the argument '%s'", p->name));
	}
	for (int i = 0; b->args && i < b->k->params.n; i++) {
		const ArgInfo *a = &b->args[i];
		const KernelParam *p = &b->k->params.at[i];
		if (a->given && p->kind == PARAM_TENSOR && a->rank == p->rank)
			ok &= bind_dims(b, p, a, false);
	}
	return ok;
}

/* Dimensions and scalars that nothing said: reported, or given their placeholder, and not reported again.  A scalar
 * of which the header says nothing is a matter for the launch. */
static bool
fill_unknown(Binder *b)
{
	bool ok = true;

	for (int i = 0; i < b->nslot; i++) {
		Slot *s = &b->slot[i];
		if (s->set || s->kind == SLOT_CT || s->kind == SLOT_SCHEDULE)
			continue;
		if (!b->lenient && s->kind == SLOT_SCALAR && !header_mentions(b->k, s->name))
			continue;
		if (b->lenient) {
			bool real = s->kind == SLOT_SCALAR && dtype_is_float(b->k->params.at[s->index].dtype);
			Const c = {.kind = real ? CONST_FLOAT : CONST_INT, .i = b->extent, .f = (double)b->extent};
			if (s->kind == SLOT_SCALAR && b->k->params.at[s->index].dtype == TY_BOOL)
				c = (Const){.kind = CONST_BOOL, .i = 1};
			else if (s->kind == SLOT_SCALAR && !real)
				c.i = MIN(c.i, 64);
			slot_set(b, s, &c, NOWHERE, "a guess");
			continue;
		}
		if (!s->is_refused) {
			diag_error(b->cx, b->k->item->name_place, DIAG_SLOT_UNSET,
			    s->kind == SLOT_SYMBOL ? "dimension" : "scalar", s->name, b->k->name);
			diag_help(b->cx, "give it with -D %s=..., or in an example: %s = 1024;", s->name, s->name);
		}
		scope_add(b->e, s->name, b->k->item->name_place, val_poison(NOWHERE), false);
		ok = false;
	}
	return ok;
}

static bool
default_kind_ok(Binder *b, const Slot *s, const Const *value)
{
	const CtParam *c = &b->k->item->ctparams.at[s->index];

	bool integers = value->kind == CONST_BIG || s->value.kind == CONST_BIG;

	if (c->type.name || value->kind == s->value.kind || s->value.kind == CONST_NONE ||
	    (value->kind == CONST_FLOAT && s->value.kind == CONST_INT))
		return true;
	static const char *const words[] = {"nothing", "an integer", "a number", "true or false", "a type", "a text",
		"an integer"};
	if (integers && strcmp(words[value->kind], words[s->value.kind]) == 0)
		return true;
	return diag_error(b->cx, s->place, DIAG_SLOT_KIND, s->name, words[value->kind], const_describe(b->cx, &s->value));
}

static bool bind_default(Binder *b, Slot *s);

/* Defaults that this expression needs come first. */
static bool
bind_needed(Binder *b, const Expr *x)
{
	bool ok = true;

	for (int i = 0; i < b->nslot; i++)
		if (b->slot[i].kind == SLOT_CT && !b->slot[i].set && expr_mentions(x, b->slot[i].name))
			ok &= bind_default(b, &b->slot[i]);
	return ok;
}

/* Nothing gives a compile-time parameter its value. */
static bool
no_default(Binder *b, Slot *s)
{
	const CtParam *c = &b->k->item->ctparams.at[s->index];
	Const guess = {.kind = CONST_INT, .i = b->extent};

	for (int i = 0; i < b->k->params.n; i++)
		if (b->k->params.at[i].dtype_param == s->index && !b->k->params.at[i].dtype_known)
			guess = (Const){.kind = CONST_DTYPE, .dtype = b->dtype};
	if (c->type.name && strcmp(c->type.name, "dtype") == 0)
		guess = (Const){.kind = CONST_DTYPE, .dtype = b->dtype};
	else if (c->type.name && strcmp(c->type.name, "bool") == 0)
		guess = (Const){.kind = CONST_BOOL, .i = 1};
	if (b->lenient)
		return slot_set(b, s, &guess, NOWHERE, "a guess");
	diag_error(b->cx, c->name_place, DIAG_CT_UNSET, s->name, b->k->name);
	diag_help(b->cx, "give it a default, <%s = ...>, values in tune(...), a value in an example, or -D %s=...", s->name,
	    s->name);
	scope_add(b->e, s->name, c->name_place, val_poison(NOWHERE), false);
	s->set = true;
	return false;
}

/* Its default; without one a value that tune(...) lists, which is the first unless `where` prunes that. */
static const Expr *
default_of(Binder *b, const Slot *s)
{
	const Item *it = b->k->item;
	const CtParam *c = &it->ctparams.at[s->index];
	const Tune *t = VALUE_OF(i, it->tune.n, it->tune.at[i].name == s->name, &it->tune.at[i], NULL);
	if (c->value || s->set || !t || t->values.n == 0)
		return c->value;
	int at = b->combination / b->combinations % t->values.n;
	b->combinations = MIN(b->combinations * t->values.n, COMBINATIONS_MOST);
	return t->values.at[at];
}

static bool
bind_default(Binder *b, Slot *s)
{
	const CtParam *c = &b->k->item->ctparams.at[s->index];
	const Expr *first = default_of(b, s);
	Const value;

	if (s->busy)
		return diag_error(b->cx, c->name_place, DIAG_CT_CYCLE, s->name);
	if (!first || (!c->value && s->set))
		return s->set || no_default(b, s);
	if (s->set) {
		/* The default is not used, but its kind is what the value must have. */
		b->cx->muted++;
		bool known = header_eval(b->e, c->value, "a default", &value);
		b->cx->muted--;
		return !known || default_kind_ok(b, s, &value);
	}
	s->busy = true;
	bool ok = bind_needed(b, first) &&
	    header_eval(b->e, first, arena_printf(b->cx->mem, "the default of '%s'", s->name), &value);
	s->busy = false;
	if (ok)
		return slot_set(b, s, &value, first->place, "its default");
	if (!s->set)
		scope_add(b->e, s->name, c->name_place, val_poison(NOWHERE), false);
	s->set = true;
	return false;
}

static bool
bind_defaults(Binder *b)
{
	bool ok = true;
	for (int i = 0; i < b->nslot; i++)
		if (b->slot[i].kind == SLOT_CT)
			ok &= bind_default(b, &b->slot[i]);
	return ok;
}

/* "BM = 256, BN = 256": the names of a constraint with their values. */
static const char *
named_values(Binder *b, const Expr *x)
{
	Text t = {0};

	for (int i = 0; i < b->nslot; i++)
		if (b->slot[i].set && expr_mentions(x, b->slot[i].name))
			text_printf(&t, "%s%s = %s", t.n ? ", " : "", b->slot[i].name,
			    const_describe(b->cx, &b->slot[i].value));
	return text_take(&t, b->cx->mem);
}

/* A constraint on a schedule value that is left to the compiler says nothing yet. */
static bool
speaks_of_unset(Binder *b, const Expr *x)
{
	return ANY_OF(i, b->nslot, !b->slot[i].set && expr_mentions(x, b->slot[i].name));
}

static bool
check_where(Binder *b)
{
	bool ok = true;
	for (int i = 0; i < b->k->item->where.n; i++) {
		const Expr *x = b->k->item->where.at[i];
		Const c;
		if (speaks_of_unset(b, x))
			continue;
		if (!header_eval(b->e, x, "a 'where' clause", &c)) {
			ok = false;
		} else if (c.kind != CONST_BOOL) {
			diag_error(b->cx, x->place, DIAG_HEADER_KIND, "a 'where' clause", "true or false",
			    const_describe(b->cx, &c));
			ok = false;
		} else if (!c.i) {
			ok = false;
			if (b->lenient)
				continue;
			diag_error(b->cx, x->place, DIAG_WHERE, b->k->name);
			const char *values = named_values(b, x);
			if (values[0])
				diag_label(b->cx, "%s", values);
		}
	}
	return ok;
}

static bool
bind_grid(Binder *b)
{
	const Item *it = b->k->item;
	int64_t total = 1;
	bool ok = true;

	b->out->naxis = it->grid.n;
	for (int i = 0; i < MAX_AXES; i++)
		b->out->grid[i] = 1;
	for (int i = 0; i < it->grid.n && i < MAX_AXES; i++) {
		const Axis *a = &it->grid.at[i];
		int64_t n = 0;
		if (!header_eval_int(b, a->count, arena_printf(b->cx->mem, "the grid's axis '%s'", a->name), &n)) {
			ok = false;
			continue;
		}
		b->out->grid[i] = n;
		if (n < 0) {
			ok = false;
			if (!b->lenient)
				diag_error(b->cx, a->count->place, DIAG_GRID_NEGATIVE, a->name, (long long)n);
		} else if (__builtin_mul_overflow(total, MAX(n, 1), &total)) {
			ok = false;
			diag_error(b->cx, it->grid_place, DIAG_GRID_SIZE);
		}
	}
	return ok;
}

static bool
schedule_ok(const ScheduleInfo *s, int64_t v)
{
	return v >= (s->kind != SCHEDULE_SWITCH) && v <= s->most && (s->kind != SCHEDULE_POWER || is_power_of_two(v));
}

static bool
bind_schedule(Binder *b)
{
	Schedule *out = &b->out->schedule;
	bool ok = true;

	for (int i = 0; i < SCHEDULE_COUNT; i++) {
		const ScheduleInfo *info = &schedule_info[i];
		const Slot *s = schedule_hidden(b->k, info->text) ? NULL : slot_find(b, info->text);
		out->at[i] = info->kind == SCHEDULE_SWITCH ? -1 : 0;
		if (!s || !s->set)
			continue;
		bool number = s->value.kind == CONST_INT || s->value.kind == CONST_BOOL;
		if (!number || !schedule_ok(info, s->value.i)) {
			ok = diag_error(b->cx, s->place, DIAG_SCHEDULE_VALUE, s->name, info->range,
			    const_describe(b->cx, &s->value));
			continue;
		}
		b->out->chosen |= (unsigned)s->is_chosen << i;
		out->at[i] = (int)s->value.i;
	}
	return ok;
}

static NamedConst *
collect(Binder *b, SlotKind kind, int *n)
{
	NamedConst *c = NEW_ARRAY(b->cx->mem, NamedConst, b->nslot);

	*n = 0;
	for (int i = 0; i < b->nslot; i++)
		if (b->slot[i].kind == kind)
			c[(*n)++] = (NamedConst){b->slot[i].name, b->slot[i].value, b->slot[i].place};
	return c;
}

static Binder
binder(Kernel *k, const ArgInfo *args, Bound *out)
{
	Binder b = {.k = k, .cx = k->program->cx, .args = args, .out = out};

	*out = (Bound){.kernel = k};
	b.e = elab_open(k->program, k, NULL, "cpu", false);
	slots_make(&b);
	return b;
}

static bool
bind(Binder *b, const NamedConst *given, int n)
{
	if (b->k->broken)
		return false;
	b->combinations = 1;
	bool ok = bind_named(b, given, n);
	ok &= bind_args(b);
	ok &= fill_unknown(b);
	ok &= bind_defaults(b);
	if (ok) {
		ok = header_bind_params(b);
		b->e->header = ok ? b->out : NULL;
		bool allowed = check_where(b);
		b->is_pruned = ok && !allowed;
		ok &= allowed;
		ok &= bind_grid(b);
		ok &= bind_schedule(b);
	}
	b->out->ct = collect(b, SLOT_CT, &b->out->nct);
	b->out->symbol = collect(b, SLOT_SYMBOL, &b->out->nsymbol);
	return ok;
}

bool
kernel_bind(Kernel *k, const ArgInfo *args, const NamedConst *given, int ngiven, Bound *out)
{
	Binder b = binder(k, args, out);
	for (int i = 0; k->item->where.n && (i == 0 || (b.is_pruned && i < b.combinations)); i++) {
		b = binder(k, args, out);
		b.combination = i;
		b.cx->muted++;
		bool ok = bind(&b, given, ngiven);
		b.cx->muted--;
		if (ok)
			return true;
	}
	b = binder(k, args, out);
	return bind(&b, given, ngiven);
}

bool
kernel_bind_placeholder(Kernel *k, int64_t extent, DType dtype, Bound *out)
{
	Binder b = binder(k, NULL, out);
	b.lenient = true;
	b.extent = extent;
	b.dtype = dtype;
	return bind(&b, NULL, 0);
}
