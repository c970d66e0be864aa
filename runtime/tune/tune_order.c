/* In which order candidates are compiled and tried: those first of which the cost model expects the least time, so that a
 * short budget finds what a long one finds.
 *
 *     estimates:   BM = 128, BN = 256, warps = 8   310 us      tried first, behind the default
 *                  BM = 128, BN = 128, warps = 8   340
 *                  BM = 16, BN = 16, warps = 1    9100
 *     no estimate  BM = 256, BN = 256, warps = 1               last: it does not fit, or is not modelled
 *
 * Products have an estimate of their IR before layouts (compile/choose/estimate.h), which warps and stages do not change:
 * candidates with the same compile-time parameters share it.  Others go through all passes of their target, which takes
 * longer; a tenth of the budget is there for that, and what is not reached goes behind what is.
 *
 * The rest, and all candidates for a target without figures, go in steps of about the golden ratio, so that a small budget
 * sees some of the whole space. */
#include <stdlib.h>

#include "compile/choose/choose.h"
#include "compile/compile.h"
#include "compile/choose/estimate.h"
#include "runtime/tune/tune.h"

static const double BUDGET_SHARE = 0.1;

typedef struct Estimated {
	int candidate, spread;
	double cycles;                  /* below 0: not known */
} Estimated;

static int
common_divisor(int a, int b)
{
	return b ? common_divisor(b, a % b) : a;
}

static void
spread(Tuner *t)
{
	int n = t->at.n - 1, step = MAX((int)(0.618 * n), 1);
	while (n && common_divisor(step, n) != 1)
		step++;
	t->order = NEW_ARRAY(t->mem, int, t->at.n);
	for (int i = 0; i < n; i++)
		t->order[i + 1] = 1 + (int)((int64_t)i * step % n);
}

static bool
same_parameters(const Bound *a, const Bound *b)
{
	return ALL_OF(i, a->nct, const_equal(&a->ct[i].value, &b->ct[i].value));
}

static Func *
compile(const Tuner *t, const Bound *b, const char *only)
{
	const PassOptions opt = {.only = only};
	ArgAssumptions a = assumptions_of_dims(t->k->program->compile->mem, b);
	Module *m = compile_kernel(t->k->k, b, t->target->name, &a, &opt);
	return m ? m->funcs.at[0] : NULL;
}

static double
cycles_after_passes(const Tuner *t, const Bound *b)
{
	Bill bill;
	Func *f = compile(t, b, NULL);
	return f && estimate_bill(f, b, t->target, t->k->program->compile->mem, NULL, &bill) ? bill.cycles : -1;
}

/* Of a candidate and those that share its parameters. */
static void
estimate_alike(const Tuner *t, Estimated *estimated, bool *done, int i)
{
	const Bound *first = &t->at.at[i].bound;
	Func *f = compile(t, first, CHOOSE_PASSES);
	bool products = f && choose_count_dots(f) > 0 && !choose_is_whole(t->k->k, f, first, t->target);
	for (int j = i; j < t->at.n; j++) {
		const Candidate *c = &t->at.at[j];
		if (done[j] || c->dropped || (j > i && (!products || !same_parameters(first, &c->bound))))
			continue;
		done[j] = true;
		if (products)
			estimated[j].cycles = choose_cycles(f, &c->bound, t->target, NULL);
		else if (f)
			estimated[j].cycles = cycles_after_passes(t, &c->bound);
	}
}

static int
compare_estimates(const void *a, const void *b)
{
	const Estimated *x = a, *y = b;
	if ((x->cycles < 0) != (y->cycles < 0))
		return x->cycles < 0 ? 1 : -1;
	if (x->cycles >= 0 && x->cycles != y->cycles)
		return x->cycles < y->cycles ? -1 : 1;
	return x->spread - y->spread;
}

static void
estimate_all(Tuner *t, Estimated *estimated)
{
	Compile *cx = t->k->program->compile;
	bool *done = NEW_ARRAY(t->mem, bool, t->at.n);
	Arena *apart = arena_open();
	Program before = *t->k->k->program;             /* `called` grows in the memory of modules */
	for (int k = 0; k < t->at.n && device_clock() < t->start + BUDGET_SHARE * t->budget; k++) {
		Reports r = reports_hide(cx, apart);
		int i = t->order[k];
		if (!done[i] && !t->at.at[i].dropped)
			estimate_alike(t, estimated, done, i);
		t->k->k->program->called = before.called;
		reports_restore(cx, &r);                /* they are gone with `apart` */
		arena_reset(cx->tmp);
		arena_reset(apart);
	}
	arena_close(apart);
}

void
tune_order(Tuner *t)
{
	spread(t);
	if (!t->target || !t->target->rates)
		return;
	Estimated *estimated = NEW_ARRAY(t->mem, Estimated, t->at.n);
	for (int k = 0; k < t->at.n; k++)
		estimated[t->order[k]] = (Estimated){t->order[k], k, -1};
	estimate_all(t, estimated);
	qsort(estimated + 1, (size_t)t->at.n - 1, sizeof *estimated, compare_estimates);
	for (int k = 0; k < t->at.n; k++) {
		t->order[k] = estimated[k].candidate;
		t->at.at[estimated[k].candidate].cycles = estimated[k].cycles;
	}
}
