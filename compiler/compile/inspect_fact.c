/* The facts that an `expect` block may state: comparisons, and && || ! of them, between numbers and what was found.
 *
 *     vector(a)        fewest bytes of a thread's access to a        sectors(a)     most sectors touched over the fewest
 *     bank_conflicts   passes over banks beyond the fewest           conversions    tiles that go through shared memory
 *     shared_bytes     of a block                                    warps          of a block
 *     mma, wgmma       every dot is one, a warpgroup's         registers, spills, stack  of a thread, by ptxas */
#include "compile/inspect.h"

#include <math.h>
#include <string.h>

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

static double
of_kernel(Asking *a, const char *name)
{
	const Inspection *x = a->x;
	const struct { const char *name; double value; bool known; } facts[] = {
		{"bank_conflicts", x->bank_conflicts, true}, {"conversions", x->conversions, true},
		{"shared_bytes", (double)x->f->shared_bytes, true}, {"warps", x->f->schedule.warps, true},
		{"mma", x->all_mma, true}, {"wgmma", x->all_wgmma, true},
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

FactResult
inspect_fact(const Inspection *x, const Expr *fact, Arena *mem, const char **found, const char **why)
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
