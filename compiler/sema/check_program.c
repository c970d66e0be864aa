/* Checks a whole program so that all errors of a file come in one go: each kernel with the values of its first
 * example, its reference, and every line of every example; constants and functions that nothing uses too.
 *
 * A kernel without an example is tried with several sizes and dtypes.  What goes wrong for every one of them is wrong
 * whatever they are, and is reported; what depends on them is not. */
#include "sema/header.h"

#include <stdlib.h>
#include <string.h>

static int
by_place(const void *a, const void *b)
{
	const Diag *x = *(Diag *const *)a, *y = *(Diag *const *)b;
	int order = place_compare(&x->place, &y->place);

	return order ? order : (x->code > y->code) - (x->code < y->code);
}

static void
relink(Compile *cx, Diag **list, int n)
{
	cx->first = cx->last = NULL;
	cx->nerrors = 0;
	for (int i = 0; i < n; i++) {
		if (!list[i])
			continue;
		list[i]->next = NULL;
		if (cx->last)
			cx->last->next = list[i];
		else
			cx->first = list[i];
		cx->last = list[i];
		cx->nerrors += list[i]->severity == SEV_ERROR;
	}
}

static int
list_diags(Compile *cx, Diag ***out)
{
	int n = 0, i = 0;

	for (Diag *d = cx->first; d; d = d->next)
		n++;
	*out = NEW_ARRAY(cx->mem, Diag *, n);
	for (Diag *d = cx->first; d; d = d->next)
		(*out)[i++] = d;
	return n;
}

static void
check_inputs(Kernel *k, const ExampleItem *ex, const Bound *b)
{
	double abs, rel;

	for (int i = 0; i < k->params.n; i++) {
		ExampleInput in = {0};
		example_input(k, ex, b, i, 1, &in);
	}
	example_tolerance(k, ex, &abs, &rel);
}

static bool
check_examples(Kernel *k)
{
	ArgInfo *args;
	Bound b;
	bool checked = false;

	for (int i = 0; i < k->examples.n; i++) {
		const ExampleItem *ex = &k->examples.at[i];
		args = NEW_ARRAY(k->program->cx->mem, ArgInfo, k->params.n);
		if (!example_bind(k, ex, NULL, 0, args, &b))
			continue;
		check_inputs(k, ex, &b);
		if (checked)
			continue;
		checked = true;
		TuneName *names;
		int n;
		kernel_module(k, &b, "cpu");
		kernel_tune(k, &b, &names, &n);
		for (int p = 0; p < k->params.n; p++)
			b.param[p].scalar = args[p].scalar;
		if (k->reference)
			reference_module(k, &b);
	}
	return checked;
}

/* Elaborates with one guess at the sizes and dtypes; the reports are taken off the list. */
static int
try_guess(Kernel *k, int64_t extent, DType dtype, Diag ***out)
{
	Compile *cx = k->program->cx;
	Diag *first = cx->first, *last = cx->last;
	int errors = cx->nerrors;
	Bound b;

	cx->first = cx->last = NULL;
	if (kernel_bind_placeholder(k, extent, dtype, &b)) {
		kernel_module(k, &b, "cpu");
		if (k->reference)
			reference_module(k, &b);
	}
	int n = list_diags(cx, out);
	cx->first = first;
	cx->last = last;
	cx->nerrors = errors;
	return n;
}

static bool
among(Diag *const *list, int n, Diag *const *d)
{
	return ANY_OF(i, n, by_place(&list[i], d) == 0);
}

static void
check_guessing(Kernel *k)
{
	static const struct {
		int64_t extent;
		DType dtype;
	} guess[] = {{16, TY_F32}, {64, TY_F32}, {256, TY_F32}, {1024, TY_F32}, {64, TY_F16}, {64, TY_F64}, {64, TY_I8},
		{64, TY_I32}, {64, TY_I64}, {64, TY_U8}, {64, TY_U32}, {64, TY_F8E4M3}, {64, TY_I4}, {64, TY_BOOL},
		{1, TY_F32}};                           /* a product of extents is one too */
	Compile *cx = k->program->cx;
	Diag **found[LEN(guess)], **old;
	int n[LEN(guess)];

	for (int i = 0; i < LEN(guess); i++) {
		n[i] = try_guess(k, guess[i].extent, guess[i].dtype, &found[i]);
		if (n[i] == 0)
			return;
	}
	int nold = list_diags(cx, &old), kept = nold;
	Diag **all = NEW_ARRAY(cx->mem, Diag *, nold + n[0]);
	if (nold)
		memcpy(all, old, sizeof *all * (size_t)nold);
	for (int i = 0; i < n[0]; i++) {
		bool always = true;
		for (int j = 1; j < LEN(guess); j++)
			always &= among(found[j], n[j], &found[0][i]);
		if (always)
			all[kept++] = found[0][i];
	}
	relink(cx, all, kept);
}

static bool
was_called(const Program *p, const Item *fn)
{
	return ANY_OF(i, p->called.n, p->called.at[i] == fn);
}

/* A constant, or a function with every parameter unknown: names at least are checked. */
static void
check_item(Elab *e, const Item *it)
{
	Val fn = {.kind = VAL_FN, .place = it->place, .fn = it};

	if (it->kind == ITEM_CONST) {
		elab_expr(e, &(Expr){.kind = EX_NAME, .place = it->name_place, .name = it->name});
		return;
	}
	Val *args = MAP_OF(e->cx->mem, Val, i, it->params.n, val_poison(it->place));
	e->func = e->b.block->func;
	elab_call_fn(e, &fn, args, NULL, it->params.n, it->name_place);
}

/* Errors after which a program is given up: the file may be no source at all. */
enum { ENOUGH = 1000 };

void
program_check(Program *p)
{
	for (int i = 0; i < p->kernels.n && p->cx->nerrors < ENOUGH; i++) {
		Kernel *k = p->kernels.at[i];
		if (k->broken)
			continue;
		ptx_check(p->cx, k->item);
		if (!check_examples(k))
			check_guessing(k);
	}
	Elab *e = elab_open(p, NULL, NULL, "cpu", false);
	for (int i = 0; i < p->items.n && p->cx->nerrors < ENOUGH; i++) {
		e->stmt->steps = 0;
		e->stmt->spent = false;
		if (p->items.at[i]->kind == ITEM_CONST ||
		    (p->items.at[i]->kind == ITEM_FN && !was_called(p, p->items.at[i])))
			check_item(e, p->items.at[i]);
	}
}
