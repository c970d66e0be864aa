/* Whether operands of products are computed before, by a kernel of their own (pass materialize), where the schedule leaves
 * it open.
 *
 * The kernel is chosen for twice, as it is and with operands that it reads, and the launches compared: that of the whole,
 * and those of both kernels, one after the other.  What is written and read once more must have room: no more than a few
 * times what the kernel's tensors take.  Products that no loop sums, as those of a search for the nearest, have arithmetic
 * behind each that hides operands: two took 1.02 and 1.05 of their time.
 *
 * On an H200, us as it was, by both kernels, and by the estimates: columns that indices say, 4096 x 4096 x 2048, 561, 180
 * (540, 139), with rows of the other operand 692, 172 (715, 152), times a scale 951, 215 (946, 217); exponentials of both
 * operands of two products 465, 230 (457, 239); Toeplitz 164, 134 (272, 122); rows by their norms 410, 406 (417, 455);
 * computed ones of one product 287, 128 (209, 161) of rows quantised, 863, 493 (692, 566) mixed, 321, 192 (279, 209) by
 * SiLU, 252, 198 (248, 212) masked, 488, 274 (404, 290) gated.  Of seventeen none whose estimate is less took longer.
 * Attention with keys and values of 8 bits, whose sums are scaled: 822, 462 (977, 481), causal 410, 242 (550, 281); with
 * keys by their norms 266, 183. */
#include "compile/choose/choose.h"
#include "compile/choose/estimate.h"
#include "compile/compile.h"
#include "model/digits/digits.h"
#include "pass/layout/dot.h"

/* Bytes, by those of the kernel's tensors, and of all. */
static const double ROOM = 4, ROOM_MOST = 2.0 * (1 << 30);
enum { SHARES = 3 };                                    /* programs that would compute an operand each, at least */

static bool
is_fixed(void *user, const char *name)
{
	const ChooseBinding *how = user;
	return how->is_fixed(how->user, name);
}

static bool
bind(void *user, const NamedConst *given, int n, Bound *out)
{
	const ChooseBinding *how = user;
	bool ok = how->bind(how->user, given, n, out);
	out->schedule.materialize = 1;
	return ok;
}

/* Cycles of the kernel before or behind, 0 if there is none; below 0: not known. */
static double
other_cycles(const Bound *b, int which, const Target *t, Arena *mem)
{
	Bound other = *b;
	Bill bill;
	choose_first(&other);
	other.schedule.materialize = which;
	Func *f = choose_compile((Kernel *)b->kernel, &other, t, NULL);
	if (f && f->nmade && !ANY_OF(i, f->nmade, f->made[i].is_result == (which == MATERIALIZE_LAST)))
		return 0;
	return f && f->nmade && choose_bill(&other, f, t, mem, &bill) ? bill.cycles : -1;
}

double
choose_first_cycles(const Bound *b, const Target *t, Arena *mem)
{
	double first = other_cycles(b, MATERIALIZE_FIRST, t, mem);
	double last = b->schedule.parts > 1 ? 0 : other_cycles(b, MATERIALIZE_LAST, t, mem);
	return first < 0 || last < 0 ? -1 : first > 0 && last > 0 ? choose_both_cycles(b, first, last) : first + last;
}

/* Would several programs compute each, or read its sectors?  One that is only copied may be few programs' beside others. */
static bool
is_shared(const Func *f, const Bound *b)
{
	bool any = false;
	for (int i = 0; i < f->nmade; i++) {
		int64_t shares = MAX(f->made[i].neighbours, 1);
		for (int a = 0; a < b->naxis; a++)
			shares *= f->made[i].axes >> a & 1 ? 1 : MAX(b->grid[a], 1);
		any |= shares >= SHARES;
		if (shares < SHARES && !f->made[i].is_copy)
			return false;
	}
	return any;
}

static bool
may_be_made(Kernel *k, const Bound *b, const Target *t)
{
	const Func *f = choose_simplified(k, b, t);
	bool attends = f && choose_count_dots(f) == 2 && dots_are_chained(f, f->body);
	if (!f || !is_shared(f, b) || !(attends || choose_sums(f)))
		return false;
	double bytes = estimate_used(f, inspect_args(b, f, k->program->cx->mem), f->nparam - f->nmade);
	return bytes <= ROOM * estimate_bytes(b) && bytes <= ROOM_MOST;
}

/* Cycles of a launch, or of both; below 0: not known.  Clusters that were added where the estimate sees no difference count
 * as blocks alone. */
static double
cycles_of(Kernel *k, const Bound *b, const Target *t)
{
	Bill bill;
	Bound alone = *b;
	Func *f = choose_compile(k, b, t, NULL);
	if (f && choose_bill(b, f, t, k->program->cx->mem, &bill))
		return bill.cycles;
	alone.schedule.ctas = 1;
	return f && b->schedule.ctas > 1 ? cycles_of(k, &alone, t) : -1;
}

static void
note(const ChooseBinding *how, const Func *f, double whole, double others, double all, const Target *t)
{
	double us = t->rates->clock;
	bool results = f && ANY_OF(i, f->nmade, f->made[i].is_result);
	const char *what = results ? "what lies across rows is copied once, by kernels before and behind"
	                           : "operands of products are computed once, by a kernel before";
	text_printf(&how->why->chosen, "  %s: %.3g us, then %.3g; if each program computed them, %.3g us\n", what,
	    others / us, (all - others) / us, whole / us);
}

/* The schedule's values with the word, in `mem`; false: as they are is better. */
static bool
choose_both(Kernel *k, const Target *t, const ChooseBinding *how, ChooseFor *choose, Arena *mem, NamedConst **values,
    int *n)
{
	ChooseWhy why = {.mem = how->why ? how->why->mem : NULL};
	const ChooseBinding with = {is_fixed, bind, (void *)how, how->why ? &why : NULL,
	    .any_size = how->any_size, .relies = how->relies};
	Bound whole, made;
	NamedConst *of;
	int nof = 0;
	if (!bind(with.user, NULL, 0, &made) || !may_be_made(k, &made, t))
		return false;
	if (!choose(k, &made, t, &with, mem, &of, &nof))
		nof = 0;
	double alone = -1, both = -1;
	if (how->bind(how->user, *values, *n, &whole) && bind(with.user, of, nof, &made) && may_be_made(k, &made, t)) {
		alone = cycles_of(k, &whole, t);
		both = cycles_of(k, &made, t);
	}
	bool is_better = alone >= 0 && both >= 0 && both <= alone;
	if (is_better && how->why) {
		text_close(&how->why->chosen);
		*how->why = why;
		const Func *f = choose_compile(k, &made, t, NULL);
		note(how, f, alone, choose_first_cycles(&made, t, k->program->cx->mem), both, t);
	} else {
		text_close(&why.chosen);
	}
	if (!is_better)
		return false;
	NamedConst *all = NEW_ARRAY(mem, NamedConst, nof + 1);
	for (int i = 0; i < nof; i++)
		all[i] = of[i];
	all[nof] = choose_word(SCHEDULE_MATERIALIZE, 1);
	all[nof].name = intern(k->program->cx->names, all[nof].name);
	all[nof].value.kind = CONST_BOOL;
	*values = all;
	*n = nof + 1;
	return true;
}

bool
choose_before(Kernel *k, const Target *t, const ChooseBinding *how, ChooseFor *choose, Arena *mem, NamedConst **values,
    int *n)
{
	bool ok = false;
	if (!choose_is_said(k, how, SCHEDULE_MATERIALIZE)) {
		Candidates c = candidates_open(k);
		candidates_next(&c);
		ok = choose_both(k, t, how, choose, mem, values, n);
		candidates_close(&c);
	}
	return ok || choose_parts(k, t, how, choose, mem, values, n);
}
