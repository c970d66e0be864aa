/* Binds a header with what an example says.  Lines that name a symbol, scalar, compile-time parameter or schedule
 * name are evaluated here, in order, each seeing those before it; lines that fill tensors are left to whole.c.
 * Values given on the command line override the example's. */
#include "sema/bind.h"

#include <string.h>

typedef VEC(NamedConst) NamedList;

static bool
is_tensor_line(const Kernel *k, const char *name)
{
	int i = param_of_kernel(k, name);

	return i >= 0 && k->params.at[i].kind != PARAM_SCALAR;
}

static bool
is_first(Binder *b, const char *name, Place at, const NamedList *out)
{
	for (int i = 0; i < out->n; i++) {
		if (out->at[i].name != name)
			continue;
		diag_error(b->cx, at, DIAG_EXAMPLE_LINE_TWICE, name);
		return diag_note(b->cx, out->at[i].place, "the first value is here");
	}
	return true;
}

/* One `name = e;` line; false after an error. */
static bool
line(Binder *b, const Stmt *s, const NamedConst *given, int n, ArgInfo *args, NamedList *out)
{
	const char *name;
	Const c;
	int before = b->cx->nerrors;
	if (s->kind == ST_EXPR || s->kind == ST_ERROR)
		return true;
	bool is_strides = strides_line(b->k, s, args, &name);
	if (!is_strides && (s->kind != ST_ASSIGN || s->op != BIN_NONE || s->target->kind != EX_NAME)) {
		diag_error(b->cx, s->place, DIAG_EXAMPLE_LINE);
		return diag_help(b->cx, "write 'name = value;', 'x.strides = [1, 64];' or 'tolerance(abs, rel);'");
	}
	if (!is_strides)
		name = s->target->name;
	if (b->cx->nerrors > before || !is_first(b, name, s->target->place, out))
		return false;
	if (is_strides || is_tensor_line(b->k, name)) {
		vec_push(b->cx->mem, out, ((NamedConst){name, {.kind = CONST_NONE}, s->target->place}));
		return true;
	}
	if (!slot_find(b, name)) {
		diag_error(b->cx, s->target->place, DIAG_GIVEN_UNKNOWN, b->k->name, name);
		return diag_help(b->cx, "%s", header_advice(b->k, name));
	}
	const NamedConst *over = named_const(given, n, name);
	if (over)
		c = over->value;
	else if (!header_eval(b->e, s->e, arena_printf(b->cx->mem, "'%s'", name), &c))
		return false;
	scope_add(b->e, name, s->target->place, val_of_const(s->target->place, &c), false);
	vec_push(b->cx->mem, out, ((NamedConst){name, c, over ? over->place : s->target->place}));
	return true;
}

/* The example's values and those given, the latter first. */
static bool
merge(Kernel *k, const ExampleItem *ex, const NamedConst *given, int n, ArgInfo *args, NamedList *all)
{
	Bound unused;
	Binder b = {.k = k, .cx = k->program->cx, .out = &unused};
	NamedList lines = {0};
	bool ok = true;

	b.e = elab_open(k->program, k, NULL, "cpu", false);
	slots_make(&b);
	for (int i = 0; i < ex->item->body.n; i++)
		ok &= line(&b, ex->item->body.at[i], given, n, args, &lines);
	for (int i = 0; i < n; i++)
		vec_push(b.cx->mem, all, given[i]);
	for (int i = 0; i < lines.n; i++)
		if (lines.at[i].value.kind != CONST_NONE && !named_const(given, n, lines.at[i].name))
			vec_push(b.cx->mem, all, lines.at[i]);
	return ok;
}

/* What is known of every argument once the header is bound. */
static void
fill_args(Kernel *k, const NamedConst *all, int n, const Bound *b, ArgInfo *args)
{
	for (int i = 0; i < k->params.n; i++) {
		const KernelParam *p = &k->params.at[i];
		ArgInfo *a = &args[i];
		a->given = true;
		a->dtype = b->param[i].dtype;
		a->rank = b->param[i].rank;
		memcpy(a->dim, b->param[i].dim, sizeof a->dim);
		a->is_spread = b->param[i].is_spread;
		memcpy(a->stride, b->param[i].stride, sizeof a->stride);
		const NamedConst *c = p->kind == PARAM_SCALAR ? named_const(all, n, p->name) : NULL;
		if (!c)
			continue;
		a->scalar = c->value;
		if (dtype_is_float(a->dtype))
			const_to_float(&a->scalar);
	}
}

/* A report inside the example needs no note that says which example it was. */
static bool
place_within(const Place *at, const Place *in)
{
	return at->file == in->file && at->line >= in->line && at->line <= in->end_line;
}

/* Is a part of the example missing, which a report of its syntax said?  Values that it does not give are no news then. */
static bool
is_cut(const Kernel *k, const ExampleItem *ex)
{
	if (!k->program->partial)
		return false;
	for (const Diag *d = k->program->cx->first; d; d = d->next)
		if (strncmp(diag_code(d->code), "E01", 3) == 0 && place_within(&d->place, &ex->item->place))
			return true;
	return false;
}

bool
example_bind(Kernel *k, const ExampleItem *ex, const NamedConst *given, int ngiven, ArgInfo *args, Bound *out)
{
	NamedList all = {0};

	*out = (Bound){.kernel = k};
	if (k->broken)
		return false;
	Compile *cx = k->program->cx;
	if (!merge(k, ex, given, ngiven, args, &all) || is_cut(k, ex))
		return false;
	const Diag *last = cx->last;
	if (!kernel_bind(k, args, all.at, all.n, out)) {
		if (cx->last != last && !cx->muted && !place_within(&cx->last->place, &ex->item->place))
			diag_note(cx, ex->item->name_place, "with the values of this example");
		return false;
	}
	int errors = k->program->cx->nerrors;
	example_pointers(k, ex, out);
	fill_args(k, all.at, all.n, out, args);
	return k->program->cx->nerrors == errors;
}

bool
example_sets(const ExampleItem *ex, const char *name)
{
	for (int i = 0; i < ex->item->body.n; i++) {
		const Stmt *s = ex->item->body.at[i];
		if (s->kind == ST_ASSIGN && s->target->kind == EX_NAME && strcmp(s->target->name, name) == 0)
			return true;
	}
	return false;
}

static Elab *
elab_bound(Kernel *k, const Bound *b)
{
	Elab *e = elab_open(k->program, k, b, "cpu", false);

	for (int i = 0; i < b->nsymbol; i++)
		scope_add(e, b->symbol[i].name, b->symbol[i].place, val_of_const(b->symbol[i].place, &b->symbol[i].value),
		    false);
	return e;
}

bool
bound_eval(Kernel *k, const Bound *b, const Expr *e, const char *what, Const *out)
{
	Elab *in = elab_bound(k, b);
	for (int i = 0; i < k->params.n; i++) {
		const KernelParam *p = &k->params.at[i];
		if (p->kind == PARAM_SCALAR && b->param[i].scalar.kind == CONST_INT)
			scope_add(in, p->name, p->ast->place, val_of_const(p->ast->place, &b->param[i].scalar), false);
	}
	return header_eval(in, e, what, out);
}

bool
kernel_tune(Kernel *k, const Bound *b, TuneName **names, int *n)
{
	Elab *e = elab_bound(k, b);
	bool ok = true;

	*n = k->item->tune.n;
	*names = NEW_ARRAY(e->cx->mem, TuneName, *n);
	for (int i = 0; i < *n; i++) {
		const Tune *t = &k->item->tune.at[i];
		TuneName *name = &(*names)[i];
		name->name = t->name;
		name->value = NEW_ARRAY(e->cx->mem, Const, t->values.n);
		for (int j = 0; j < t->values.n; j++)
			if (header_eval(e, t->values.at[j], arena_printf(e->cx->mem, "a value of '%s'", t->name),
				&name->value[name->nvalue]))
				name->nvalue++;
			else
				ok = false;
	}
	return ok;
}
