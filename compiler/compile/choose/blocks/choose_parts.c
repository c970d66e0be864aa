/* The schedule of products whose loop a kernel before adds up in parts, as the header says (pass parts).
 *
 * The kernel before is chosen for by the search of products, as a kernel with another axis of so many programs. */
#include "compile/choose/choose.h"
#include "compile/choose/estimate.h"
#include "compile/compile.h"
#include "model/digits/digits.h"

#include <math.h>
#include <string.h>

typedef struct Open {
	const ChooseBinding *how;
	int parts;
} Open;

static bool
is_fixed(void *user, const char *name)
{
	const Open *o = user;
	int which = schedule_named(name);
	return which == SCHEDULE_SPLIT || which == SCHEDULE_PARTS || which == SCHEDULE_MATERIALIZE ||
	    which == SCHEDULE_PINGPONG || o->how->is_fixed(o->how->user, name);
}

void
choose_first(Bound *b)
{
	b->schedule.materialize = MATERIALIZE_FIRST;
	if (b->schedule.parts > 1 && b->naxis < MAX_AXES)
		b->grid[b->naxis++] = b->schedule.parts;
}

static bool
bind(void *user, const NamedConst *given, int n, Bound *out)
{
	const Open *o = user;
	bool ok = o->how->bind(o->how->user, given, n, out);
	out->schedule.parts = o->parts;
	out->schedule.split = 1;
	choose_first(out);
	return ok;
}

/* Does the kernel before come first, as the schedule says? */
static bool
is_said(const Bound *b)
{
	return b->schedule.parts > 1 && b->schedule.materialize != MATERIALIZE_FIRST;
}

/* Of the kernel with these values: cycles of its launch, or of both; below 0: not known. */
static double
cycles_of(Kernel *k, const Bound *b, const Target *t)
{
	Bill bill;
	Func *f = choose_compile(k, b, t, NULL);
	bool is_known = f && (b->schedule.parts <= 1 || f->nmade) && choose_bill(b, f, t, k->program->cx->mem, &bill);
	return is_known ? bill.cycles : -1;
}

typedef struct Best {
	NamedConst *values;
	int n, parts;
	double cycles;
	ChooseWhy why;
} Best;

static void
try_parts(Kernel *k, const Target *t, const ChooseBinding *how, ChooseFor *choose, Arena *mem, int parts, Best *best)
{
	ChooseWhy why = {.mem = how->why ? how->why->mem : NULL};
	Open open = {how, parts};
	const ChooseBinding with = {is_fixed, bind, &open, how->why ? &why : NULL, false};
	Bound first, both;
	NamedConst *of;
	int n = 0;
	double cycles = -1;
	if (bind(&open, NULL, 0, &first) && choose(k, &first, t, &with, mem, &of, &n)) {
		NamedConst *all = NEW_ARRAY(mem, NamedConst, n + 1);
		memcpy(all, of, sizeof *all * (size_t)n);
		all[n] = choose_word(SCHEDULE_PARTS, parts);
		all[n].name = intern(k->program->cx->names, all[n].name);
		n += !choose_is_said(k, how, SCHEDULE_PARTS);
		cycles = how->bind(how->user, all, n, &both) ? cycles_of(k, &both, t) : -1;
		of = all;
	}
	if (cycles < 0 || (best->cycles >= 0 && cycles >= best->cycles)) {
		text_close(&why.chosen);
		return;
	}
	text_close(&best->why.chosen);
	*best = (Best){of, n, parts, cycles, why};
}

/* alone: cycles of the kernel without parts; below 0: not known. */
static void
take(const Best *best, const Target *t, const ChooseBinding *how, double alone, NamedConst **values, int *n)
{
	double us = t->rates->clock;
	*values = best->values;
	*n = best->n;
	if (!how->why)
		return;
	text_close(&how->why->chosen);
	*how->why = best->why;
	text_printf(&how->why->chosen, "  a kernel before adds up its loop in %d parts, which this one joins: %.3g us",
	    best->parts, best->cycles / us);
	if (alone >= 0)
		text_printf(&how->why->chosen, "; in one kernel, %.3g us", alone / us);
	text_put(&how->why->chosen, "\n");
}

bool
choose_parts(Kernel *k, const Target *t, const ChooseBinding *how, ChooseFor *choose, Arena *mem, NamedConst **values,
    int *n)
{
	Bound b;
	Candidates c = candidates_open(k);
	candidates_next(&c);
	bool binds = how->bind(how->user, NULL, 0, &b), ok = false;
	if (binds && is_said(&b)) {
		Best best = {.cycles = -1};
		try_parts(k, t, how, choose, mem, b.schedule.parts, &best);
		ok = best.cycles >= 0;
		if (ok)
			take(&best, t, how, -1, values, n);
	}
	candidates_close(&c);
	return ok;
}
