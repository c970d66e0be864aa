/* Chooses a schedule where the caller left it open.
 *
 *     kernel matmul<T: dtype = bf16, BM = 128, BN = 128, BK = 64>(…)
 *         tune(BM = {64, 128, 256}, BN = {…}, BK = {…}, warps = {4, 8}, stages = {2, 3, 4, 5})
 *
 * Each combination of compile-time parameters is elaborated once, to IR that is only simplified; warps and stages change no
 * IR.  The estimate costs microseconds, so that a few hundred combinations take less than LLVM does for one.  A space that
 * is larger keeps the default of the names behind the limit.  What the estimate does not model, as group and persistent,
 * keeps its default too. */
#include "compile/choose.h"
#include "compile/compile.h"
#include "compile/estimate.h"

#include <string.h>

enum { NAMES_MOST = 16, COMBINATIONS_MOST = 128, MULTIPROCESSORS = 132 };        /* of an H100 or H200 */
static const double BETTER = 0.97;                              /* than the default, else that stays */

typedef struct Search {
	Kernel *k;
	const Target *t;
	const ChooseBinding *how;
	const Bound *first;
	const Program *before;
	TuneName name[NAMES_MOST];
	int n, parameters;                                      /* the first ones are compile-time parameters */
	bool header_of_schedule;                                /* the header speaks of the others, as in `where` */
	NamedConst value[NAMES_MOST];
	Bound bound;                                            /* for the present parameters */
	Module *module;                                         /* of that; NULL: not made, or not to be had */
	Arena *mem;                                             /* of what belongs to them */
	double best;
	NamedConst *chosen;
} Search;

static bool
is_modelled(const char *name)
{
	return strcmp(name, "warps") == 0 || strcmp(name, "stages") == 0;
}

static void
add_names(Search *s, const TuneName *all, int n, bool parameters)
{
	int64_t combinations = 1;
	for (int i = 0; i < n && s->n < NAMES_MOST; i++) {
		bool is_parameter = ctparam_named(s->k, all[i].name) >= 0;
		if (is_parameter != parameters || (!is_parameter && !is_modelled(all[i].name)) || all[i].nvalue == 0 ||
		    s->how->is_fixed(s->how->user, all[i].name))
			continue;
		combinations *= all[i].nvalue;
		if (parameters && combinations > COMBINATIONS_MOST)
			break;
		s->header_of_schedule |= !parameters && header_mentions(s->k, all[i].name);
		s->name[s->n++] = all[i];
	}
}

/* Elaborates, and simplifies; NULL where that fails. */
static Module *
elaborate(Search *s, const Bound *b)
{
	const PassOptions opt = {.only = "simplify,licm,simplify,axis"};
	ArgAssumptions a = assumptions_of_sizes(s->k->program->cx->mem, b);
	return compile_kernel(s->k, b, s->t->name, &a, &opt);
}

/* The present values of the schedule join what is bound; a header that speaks of them is bound again. */
static bool
take_schedule(Search *s)
{
	for (int i = s->parameters; i < s->n; i++)
		s->bound.schedule.at[schedule_named(s->name[i].name)] = (int)s->value[i].value.i;
	return !s->header_of_schedule || s->how->bind(s->how->user, s->value, s->n, &s->bound);
}

static void
try(Search *s)
{
	if (!take_schedule(s))
		return;
	double cycles = estimate_cycles(s->module->funcs.at[0], &s->bound, s->t, MULTIPROCESSORS);
	if (cycles < 0 || (s->best >= 0 && cycles >= s->best))
		return;
	s->best = cycles;
	memcpy(s->chosen, s->value, sizeof *s->chosen * (size_t)s->n);
}

/* Binds and elaborates once for the present compile-time parameters. */
static bool
take_parameters(Search *s)
{
	Compile *cx = s->k->program->cx;
	arena_reset(s->mem);
	arena_reset(cx->tmp);
	s->k->program->called = s->before->called;
	cx->mem = s->mem;
	s->module = NULL;
	if (s->how->bind(s->how->user, s->value, s->parameters, &s->bound))
		s->module = elaborate(s, &s->bound);
	return s->module != NULL;
}

static void
try_all(Search *s, int at)
{
	if (at == s->parameters && !take_parameters(s))
		return;
	if (at == s->n) {
		try(s);
		return;
	}
	for (int i = 0; i < s->name[at].nvalue; i++) {
		s->value[at] = (NamedConst){s->name[at].name, s->name[at].value[i], NOWHERE};
		try_all(s, at + 1);
	}
}

static bool
has_dot(const Func *f)
{
	for (const Op *op = f->body->first; op; op = op_after(op, f->body))
		if (op->kind == OP_DOT)
			return true;
	return false;
}

/* With reports hidden and the memory of candidates apart. */
static bool
search(Search *s, Arena *mem)
{
	TuneName *all;
	int n;
	s->module = elaborate(s, s->first);
	if (!s->module || !has_dot(s->module->funcs.at[0]) || !kernel_tune(s->k, s->first, &all, &n))
		return false;
	add_names(s, all, n, true);
	s->parameters = s->n;
	add_names(s, all, n, false);
	s->best = -1;
	double first = estimate_cycles(s->module->funcs.at[0], s->first, s->t, MULTIPROCESSORS);
	if (first >= 0)
		s->best = first * BETTER;
	double limit = s->best;
	s->chosen = NEW_ARRAY(mem, NamedConst, s->n);
	try_all(s, 0);
	return s->n > 0 && s->best >= 0 && s->best != limit;
}

bool
choose_values(Kernel *k, const Bound *b, const Target *t, const ChooseBinding *how, Arena *mem, NamedConst **values, int *n)
{
	Compile *cx = k->program->cx;
	Program before = *k->program;                   /* `called` grows in the memory of candidates */
	Search s = {.k = k, .t = t, .how = how, .first = b, .before = &before};
	if (!t || !(t->has & HAS_WGMMA) || k->item->tune.n == 0)
		return false;
	Arena *apart = arena_open(), *tmp = arena_open(), *keep = cx->mem, *keep_tmp = cx->tmp;
	cx->mem = apart;
	cx->tmp = tmp;
	cx->muted++;
	s.mem = arena_open();
	bool ok = search(&s, apart);
	cx->muted--;
	cx->mem = keep;
	cx->tmp = keep_tmp;
	k->program->called = before.called;
	*n = ok ? s.n : 0;
	*values = NEW_ARRAY(mem, NamedConst, *n);
	for (int i = 0; i < *n; i++) {
		(*values)[i] = s.chosen[i];
		(*values)[i].name = intern(cx->names, s.chosen[i].name);
	}
	arena_close(tmp);
	arena_close(s.mem);
	arena_close(apart);
	return ok;
}
