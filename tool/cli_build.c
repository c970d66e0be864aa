/* What the commands that compile share: a kernel of a file, bound to an example's sizes, as a module. */
#include "compile/choose/choose.h"
#include "compile/choose/estimate.h"
#include "tool/report/report.h"
#include "model/digits/digits.h"
#include "model/model.h"

#include <stdlib.h>
#include <string.h>

int
cli_report(const Cli *cli, Compile *cx, int status)
{
	Text t = {0};
	if (cx->first && cli->json)
		diag_json(cx, &t, cli->max_errors);
	else if (cx->first)
		diag_print(cx, &t, cli->max_errors, cli->color);
	fflush(stdout);
	if (t.n)
		fputs(t.at, stderr);
	text_close(&t);
	return cx->nerrors > 0 ? EXIT_WRONG : status;
}

int
cli_no_kernel(const Cli *cli, const Program *p, const char *name)
{
	const char **names = NEW_ARRAY(cli->mem, const char *, p->kernels.n);
	for (int i = 0; i < p->kernels.n; i++)
		names[i] = p->kernels.at[i]->name;
	return cli_wrong("there is no kernel '%s'; %s", name, name_advice(cli->mem, name, names, p->kernels.n));
}

bool
cli_is_chosen(const Program *p, const Kernel *k, const char *name, int file)
{
	if (name)
		return strcmp(k->name, name) == 0;
	return k->item->place.file == file || !ANY_OF(i, p->kernels.n, p->kernels.at[i]->item->place.file == file);
}

/* A -D value as sema takes it. */
static bool
define(Compile *cx, const Pair *pair, NamedConst *out)
{
	TglArg arg;
	if (!cli_value(pair, &arg))
		return false;
	*out = (NamedConst){.name = intern(cx->names, pair->name), .place = NOWHERE};
	switch (arg.kind) {
	case TGL_ARG_INT: out->value = (Const){.kind = CONST_INT, .i = arg.i}; break;
	case TGL_ARG_UINT: out->value = (Const){.kind = CONST_BIG, .i = arg.i}; break;
	case TGL_ARG_BOOL: out->value = (Const){.kind = CONST_BOOL, .i = arg.i}; break;
	case TGL_ARG_FLOAT: out->value = (Const){.kind = CONST_FLOAT, .f = arg.f}; break;
	default:
		out->value.kind = CONST_DTYPE;
		dtype_named(tgl_dtype_name((TglDType)arg.i), &out->value.dtype);
	}
	return true;
}

/* The example asked for, or the first; NULL if there is none, *ok false if a named one is missing. */
static const ExampleItem *
choose_example(const Cli *cli, const Kernel *k, bool *ok)
{
	const char *want = cli->value[OPT_EXAMPLE];
	*ok = true;
	for (int i = 0; i < k->examples.n; i++)
		if (!want || strcmp(k->examples.at[i].label, want) == 0)
			return &k->examples.at[i];
	if (want) {
		cli_wrong("kernel '%s' has no example \"%s\"; %s", k->name, want, example_advice(k, want));
		*ok = false;
	}
	return NULL;
}

/* What is bound, for the compiler's choice of what is left open. */
typedef struct Open {
	Kernel *k;
	const ExampleItem *ex;
	const NamedConst *given;
	int n;
	ArgInfo *args;
} Open;

static bool
is_given(void *user, const char *name)
{
	const Open *o = user;
	for (int i = 0; i < o->n; i++)
		if (strcmp(o->given[i].name, name) == 0)
			return true;
	return (o->ex && example_sets(o->ex, name)) || schedule_hidden(o->k, name);
}

/* What is chosen and specialised on depends on the scalars too, as in a launch. */
static void
bind_scalars(const Open *o, Bound *b)
{
	for (int i = 0; i < o->k->params.n; i++) {
		const KernelParam *p = &o->k->params.at[i];
		const NamedConst *given = named_const(o->given, o->n, p->name);
		if (p->kind == PARAM_SCALAR && dtype_is_int(b->param[i].dtype))
			b->param[i].scalar = given ? given->value : o->args[i].scalar;
	}
}

static bool
bind_with(void *user, const NamedConst *more, int n, Bound *out)
{
	const Open *o = user;
	NamedConst *given = NEW_ARRAY(o->k->program->cx->mem, NamedConst, o->n + n);
	for (int i = 0; i < o->n + n; i++)
		given[i] = i < o->n ? o->given[i] : (NamedConst){more[i - o->n].name, more[i - o->n].value, CHOSEN};
	if (!(o->ex ? example_bind(o->k, o->ex, given, o->n + n, o->args, out)
	            : kernel_bind(o->k, o->args, given, o->n + n, out)))
		return false;
	bind_scalars(o, out);
	return true;
}

Module *
cli_bound_module(const Cli *cli, Kernel *k, const ExampleItem *ex, const char *target, const PassOptions *passes,
    bool *misuse, Bound *bound, ChooseWhy *why)
{
	Compile *cx = k->program->cx;
	NamedConst *given = NEW_ARRAY(cx->mem, NamedConst, cli->define.n);
	ArgInfo *args = NEW_ARRAY(cx->mem, ArgInfo, k->params.n);
	bool ok = true;
	*bound = (Bound){0};
	for (int i = 0; i < cli->define.n; i++)
		if (!define(cx, &cli->define.at[i], &given[i])) {
			*misuse = true;
			return NULL;
		}
	for (int i = 0; i < cli->strides.n; i++)
		ok &= strides_given(k, cli->strides.at[i].name, cli->strides.at[i].value, args);
	const bool *said = MAP_OF(cx->mem, bool, i, k->params.n, args[i].strides != NULL);
	if (ok && !ex)
		ex = choose_example(cli, k, &ok);
	if (!ok)
		return NULL;
	Open open = {k, ex, given, cli->define.n, args};
	const ChooseBinding how = {is_given, bind_with, &open, why, .launches_both = why != NULL};
	NamedConst *chosen;
	int n;
	if (!bind_with(&open, NULL, 0, bound))
		return NULL;
	bool is_cpu = strcmp(target, "cpu") == 0;       /* whose choice only inspect asks for */
	bool chooses = !is_cpu ? choose_values(k, bound, target_named(target), &how, cx->mem, &chosen, &n)
	                       : why && choose_cpu(k, bound, 0, &how, cx->mem, &chosen, &n);
	if (why)
		why_chosen(why, bound, chosen, chooses ? n : 0);
	if (chooses && !bind_with(&open, chosen, n, bound))
		return NULL;
	ArgAssumptions assumptions = assumptions_of_dims(cx->mem, bound);
	if (cli->command == CMD_build)
		assumptions.strides = MAP_OF(cx->mem, ArgStrides, i, k->params.n,
		    said[i] ? assumptions.strides[i] : (ArgStrides){0});
	assumptions.alone = cli->command == CMD_build && cli_has(cli, OPT_EMIT) && strcmp(cli->value[OPT_EMIT], "tir") != 0;
	return compile_kernel(k, bound, target, &assumptions, passes);
}

/* The row named by --target, NULL for the cpu device; false after an error. */
bool
cli_target(const Cli *cli, Compile *cx, const Target **out)
{
	const char *name = cli->value[OPT_TARGET];
	if (!cli_has(cli, OPT_TARGET) || strcmp(name, "cpu") == 0)
		return true;
	*out = target_named(name);
	if (!*out)
		compile_unknown_target(cx, name);
	return *out != NULL;
}

Module *
cli_other_module(Kernel *k, const Module *m, const Bound *b, const Target *t, const PassOptions *passes, int which,
    Bound *other)
{
	const Func *f = m->funcs.at[0];
	if (inspect_is_first(f) || !ANY_OF(i, f->nmade, f->made[i].is_result == (which == MATERIALIZE_LAST)))
		return NULL;
	*other = *b;
	choose_first(other);
	other->schedule.materialize = which;
	ArgAssumptions assumptions = assumptions_of_dims(k->program->cx->mem, other);
	return compile_kernel(k, other, t->name, &assumptions, passes);
}

Module *
cli_longer_module(Kernel *k, Module *m, Bound *b, const Target *t, const PassOptions *passes, double *other)
{
	Arena *mem = k->program->cx->mem;
	Func *f = m->funcs.at[0];
	Bill both, alone;
	Bound bound;
	*other = 0;
	if (!t->rates || !f->nmade || !choose_bill(b, f, t, mem, &both))
		return m;
	double cycles = choose_first_cycles(b, t, mem);
	Module *first = cycles > both.cycles / 2 ? cli_other_module(k, m, b, t, passes, MATERIALIZE_FIRST, &bound) : NULL;
	if (!first || !choose_bill(&bound, first->funcs.at[0], t, mem, &alone))
		return m;
	*b = bound;
	*other = both.cycles - alone.cycles;
	return first;
}

void
cli_add_other(Inspection *x, double cycles)
{
	x->other += cycles;
	x->compared += cycles;
	x->bill.cycles += x->bill.cycles > 0 ? cycles : 0;
}

static const char MIN_BLOCKS[] = ".minnctapersm ";

/* The launch's bill by the registers of the code, where they are known; that of products of warpgroups counts no blocks.
 * False: it does not fit, and the bill stays. */
static bool
bill_built(Func *f, const Bound *b, Arena *mem, Inspection *out)
{
	LineCosts lines = {0};
	Bill built;
	bool fits = estimate_built(f, b, out, mem, &lines, &built);     /* fills the lines also where it does not fit */
	if (fits && out->bill.blocks > 0)
		out->bill = built;
	out->bill.once = built.once;                                    /* as the lines' marks are counted */
	bill_lines(&lines, out->t, &out->bill, mem, &out->spent);
	return fits && out->bill.blocks > 0;
}

/* The bill of both kernels, where it is this one's alone, and what the other one adds. */
static void
add_first(const Bound *b, double first, bool is_own, Inspection *out)
{
	double own = out->bill.cycles;
	out->bill.cycles = is_own ? choose_both_cycles(b, first, own) : own;
	out->other = is_own ? out->bill.cycles - own : first;
}

/* Blocks that the code asks a multiprocessor to hold; 0: it says nothing. */
static int
blocks_asked(const Text *ptx)
{
	const char *at = ptx->n ? strstr(ptx->at, MIN_BLOCKS) : NULL;
	return at ? atoi(at + strlen(MIN_BLOCKS)) : 0;
}

bool
cli_inspect_code(Module *m, const Target *t, const Bound *b, const CliCode *code, Inspection *out)
{
	Text guessed = {0};
	bool ok = true;
	Func *f = m->funcs.at[0];
	inspect_func(f, t, inspect_args(b, f, m->cx->mem), m->cx->mem, out);
	bool is_second = t->rates && f->nmade && !inspect_is_first(f);
	bool is_billed = choose_bill(b, f, t, m->cx->mem, &out->bill);
	double first = is_second && is_billed ? choose_first_cycles(b, t, m->cx->mem) : 0;
	if (!is_billed && t->rates)                     /* the choice refuses its tiles: the bill of any other kernel */
		is_billed = estimate_bill(f, b, t, m->cx->mem, NULL, &out->bill);
	if (!is_billed)
		out->bill.cycles = 0;
	out->compared = out->bill.cycles;
	out->grid = out->bill.launched / MAX(MAX(f->schedule.coarsen, f->schedule.batch), 1);
	out->asked = blocks_asked(&code->ptx);
	if (code->has_resources) {
		inspect_resources(out, code->registers, code->spills, code->stack);
		spill_warn(m, t, b, code->spills);
	} else {
		ok = pressure_estimate(f, t, &out->pressure);
		if (t->kind == TARGET_PTX) {            /* no assembler of Apple's is known, nor what a thread may have */
			spill_warn_likely(m, t, b, out->pressure);
			out->asked = out->pressure.blocks;
		}
	}
	if (is_billed) {
		bool is_built = bill_built(f, b, m->cx->mem, out);
		if (first > 0)
			add_first(b, first, is_built, out);
		estimate_guessed(f, b, t, m->cx->mem, &guessed);
		out->guessed = text_take(&guessed, m->cx->mem);
	}
	return ok;
}

bool
cli_inspect(Module *m, const Target *t, const Bound *b, Inspection *out)
{
	CliCode code = {.registers = 0};
	bool assembles = t->kind == TARGET_PTX && cli_has_assembler();
	bool ok = !assembles || compile_text(m, t, STAGE_PTX, &code.ptx, NULL);
	code.has_resources =
	    ok && assembles &&
	    cli_resources(t, &code.ptx, 0, &code.registers, &code.spills, &code.stack);
	ok &= cli_inspect_code(m, t, b, &code, out);
	cli_code_close(&code);
	return ok;
}
