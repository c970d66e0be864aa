/* `expect` blocks: facts about the compiled code that `check` verifies, on this machine and with no GPU.
 *
 * A kernel is compiled for sm_90a with the sizes of its `bench` example, else of its first one, and each fact is asked of
 * the inspection.  Registers and spills take a ptxas; where there is none such facts are reported as not known.
 *
 * A fact is a comparison, and && || ! of such, between numbers and what was found:
 *
 *     vector(a)        fewest bytes of a thread's access to a        sectors(a)     most sectors touched over the fewest
 *     bank_conflicts   passes over banks beyond the fewest           conversions    tiles that go through shared memory
 *     shared_bytes     of a block                                    warps          of a block
 *     mma, wgmma       every dot is one, a warpgroup's         registers, spills, stack  of a thread, by ptxas */
#include "tool/cli_build.h"

#include <math.h>
#include <string.h>

#define EXPECT_TARGET "sm_90a"

/* ---- a fact ---- */

typedef struct Asking {
	const Inspection *x;
	Arena *mem;
	const char *why;                                /* what cannot be asked; NULL */
	bool unknown;                                   /* something asked for takes an assembler */
	const char *open;                               /* something asked for depends on data: what; NULL */
	double left;                                    /* of the last comparison */
} Asking;

static double
refuse(Asking *a, const char *why)
{
	if (!a->why)
		a->why = why;
	return NAN;
}

static double
of_param(Asking *a, const char *fact, const char *param)
{
	double least = INFINITY, most = 0;
	bool known = true;
	for (int i = 0; i < a->x->lines.n; i++) {
		const InspectLine *l = &a->x->lines.at[i];
		const char *space = strchr(l->what, ' ');
		if ((l->kind != INSPECT_ACCESS && l->kind != INSPECT_COPY) || !space || strcmp(space + 1, param) != 0)
			continue;
		least = MIN(least, (double)l->bytes);
		most = MAX(most, (double)l->touched / l->least);
		known &= l->sectors_known;
	}
	if (most == 0)
		return refuse(a, arena_printf(a->mem, "the kernel does not access '%s'", param));
	if (strcmp(fact, "vector") == 0)
		return least;
	if (strcmp(fact, "sectors") == 0 && !known)
		a->open = arena_printf(a->mem, "an access to '%s' has indices that are data", param);
	if (strcmp(fact, "sectors") == 0)
		return most;
	return refuse(a, arena_printf(a->mem, "there is no fact '%s' of a parameter; expected vector or sectors", fact));
}

/* A fact of every dot says nothing of a kernel that has none: a sum, say, that the compiler is to make a product of. */
static double
of_kernel(Asking *a, const char *name)
{
	const Inspection *x = a->x;
	bool any = ANY_OF(i, x->lines.n, x->lines.at[i].kind == INSPECT_DOT);
	const struct { const char *name; double value; bool known; } facts[] = {
		{"bank_conflicts", x->bank_conflicts, true}, {"conversions", x->conversions, true},
		{"shared_bytes", (double)x->f->shared_bytes, true}, {"warps", x->f->schedule.warps, true},
		{"mma", any && x->all_mma, true}, {"wgmma", any && x->all_wgmma, true},
		{"split", MAX(MAX(x->f->schedule.split, x->f->stream), 1), true},
		{"parted", func_warps(x->f) != x->f->schedule.warps, true},
		{"cluster", func_cluster(x->f), true},
		{"registers", x->registers, x->registers >= 0},
		{"spills", x->spills, x->spills >= 0}, {"stack", x->stack, x->stack >= 0},
	};
	for (int i = 0; i < LEN(facts); i++)
		if (strcmp(facts[i].name, name) == 0)
			return a->unknown |= !facts[i].known, facts[i].value;
	return refuse(a, arena_printf(a->mem,
			     "there is no fact '%s'; expected vector(x), sectors(x), "
			     "bank_conflicts, conversions, "
			     "shared_bytes, warps, mma, wgmma, split, parted, cluster, registers, spills or stack",
			     name));
}

static double value(Asking *a, const Expr *e);

static double
compare(Asking *a, const Expr *e)
{
	double l = value(a, e->a), r = value(a, e->b);
	if (e->bin >= BIN_EQ && e->bin <= BIN_GE)
		a->left = l;
	switch (e->bin) {
	case BIN_EQ: return l == r;
	case BIN_NE: return l != r;
	case BIN_LT: return l < r;
	case BIN_LE: return l <= r;
	case BIN_GT: return l > r;
	case BIN_GE: return l >= r;
	case BIN_LAND: return l != 0 && r != 0;
	case BIN_LOR: return l != 0 || r != 0;
	case BIN_ADD: return l + r;
	case BIN_SUB: return l - r;
	case BIN_MUL: return l * r;
	case BIN_DIV: return l / r;
	default: return refuse(a, "a fact takes comparisons, && || ! and + - * /");
	}
}

static double
value(Asking *a, const Expr *e)
{
	switch (e->kind) {
	case EX_INT: return (double)e->u;
	case EX_FLOAT: return e->f;
	case EX_NAME: return strcmp(e->name, "true") == 0 ? 1 : strcmp(e->name, "false") == 0 ? 0 : of_kernel(a, e->name);
	case EX_UNARY: return e->un == UN_NOT ? value(a, e->a) == 0 : e->un == UN_NEG ? -value(a, e->a) : value(a, e->a);
	case EX_BINARY: return compare(a, e);
	case EX_CALL:
		if (e->a->kind == EX_NAME && e->args.n == 1 && e->args.at[0].e->kind == EX_NAME)
			return of_param(a, e->a->name, e->args.at[0].e->name);
		return refuse(a, "a fact of a parameter is written vector(x)");
	default:
		return refuse(a, "a fact takes numbers, names of facts and comparisons");
	}
}

/* *found is what its left side came to, as text. */
static FactResult
ask(const Inspection *x, const Expr *fact, Arena *mem, const char **found, const char **why)
{
	Asking a = {.x = x, .mem = mem, .left = NAN};
	double v = value(&a, fact);
	*why = a.why;
	*found = isnan(a.left) ? "" : arena_printf(mem, "%g", a.left);
	if (a.why)
		return FACT_MEANINGLESS;
	if (a.open) {
		*why = a.open;
		return FACT_OPEN;
	}
	return isnan(v) || a.unknown ? FACT_UNKNOWN : v != 0 ? FACT_TRUE : FACT_FALSE;
}

/* ---- the blocks of a file ---- */

/* A fact as it stands in the source. */
static const char *
text_of(Compile *cx, Place at)
{
	const char *line;
	size_t n;
	if (at.line != at.end_line || !source_line(&cx->files.at[at.file], at.line, &line, &n))
		return "";
	return arena_strndup(cx->mem, line + at.col - 1, (size_t)(at.end_col - at.col));
}

/* Does an expression ask for what takes an assembler?  Most facts do not, and ptxas takes longer than all the rest. */
static bool
asks_assembler(const Expr *e)
{
	static const char *const names[] = {"registers", "spills", "stack"};
	if (e->kind == EX_NAME)
		return ANY_OF(i, LEN(names), strcmp(e->name, names[i]) == 0);
	return (e->kind == EX_UNARY || e->kind == EX_BINARY) &&
	    (asks_assembler(e->a) || (e->kind == EX_BINARY && asks_assembler(e->b)));
}

/* What the facts of its expect blocks are asked of. */
static bool
inspect_expected(const Kernel *k, Module *m, const Target *t, const Bound *bound, Inspection *x)
{
	Func *f = m->funcs.at[0];
	for (int i = 0; i < k->expects.n; i++)
		if (ANY_OF(j, k->expects.at[i]->facts.n, asks_assembler(k->expects.at[i]->facts.at[j])))
			return cli_inspect(m, t, bound, x);
	inspect_func(f, t, inspect_args(bound, f, m->cx->mem), m->cx->mem, x);
	return true;
}

static bool
expect_kernel(const Cli *cli, Compile *cx, Kernel *k, ExpectRow row, void *user)
{
	const Target *t = target_named(EXPECT_TARGET);
	PassOptions passes = {.own_file = true};
	Inspection x;
	bool misuse = false;
	Bound bound;
	Module *m = cli_bound_module(cli, k, kernel_first_example(k, true), EXPECT_TARGET, &passes, &misuse, &bound, NULL);
	if (!m || !inspect_expected(k, m, t, &bound, &x))
		return false;
	for (int i = 0; i < k->expects.n; i++)
		for (int f = 0; f < k->expects.at[i]->facts.n; f++) {
			const Expr *fact = k->expects.at[i]->facts.at[f];
			const char *found, *why;
			FactResult r = ask(&x, fact, cx->mem, &found, &why);
			if (r == FACT_MEANINGLESS)
				diag_error(cx, fact->place, DIAG_EXPECT_FACT, why);
			else
				row(user, k->name, EXPECT_TARGET, text_of(cx, fact->place),
				    r == FACT_OPEN ? why : found, r);
		}
	return cx->nerrors == 0;
}

bool
cli_expect(const Cli *cli, const char *path, const char *only, ExpectRow row, void *user)
{
	Compile *cx = compile_open();
	int file = source_open(cx, path, NOWHERE);
	Program *p = file >= 0 ? program_open(cx, file) : NULL;
	if (!p || cx->nerrors > 0) {                    /* check itself says what is wrong with the file */
		compile_close(cx);
		return true;
	}
	bool ok = true;
	for (int i = 0; ok && i < p->kernels.n; i++)
		if (p->kernels.at[i]->expects.n && p->kernels.at[i]->item->place.file == file &&
		    (!only || strcmp(only, p->kernels.at[i]->name) == 0))
			ok = expect_kernel(cli, cx, p->kernels.at[i], row, user);
	cli_report(cli, cx, EXIT_GOOD);
	compile_close(cx);
	return ok;
}
