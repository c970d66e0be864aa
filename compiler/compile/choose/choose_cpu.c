/* Chooses tiles for the cpu device: values of tune(...) for compile-time parameters, and larger tiles where they only cut
 * the grid (choose_sizes.c), which spare the interpreter programs.
 *
 *     kernel scale<B = 64>(x: in f32[N], y: out f32[N]) grid(p: cdiv(N, B))          B = 2048, 4096 or 8192
 *
 * The schedule (warps, stages …) means nothing there.  Only launches that take much longer than choosing are looked at, and
 * what is chosen has to be clearly better by the estimate (model/cost_cpu.c).  Caches and vectors are those of the row, not
 * of the machine at hand: devices of as many threads choose the same. */
#include "compile/choose/choose.h"
#include "compile/choose/estimate.h"
#include "compile/compile.h"

#include <string.h>

enum { NAMES_MOST = 8, COMBINATIONS_MOST = 64 };
static const double CLEARLY = 0.85, LEAST_NS = 1e7;

typedef struct Cpu {
	Kernel *k;
	CpuRow row;                                     /* with the device's threads as cores */
	const ChooseBinding *how;
	Arena *mem;                                     /* of one candidate */
	Program before;                                 /* `called` grows in that memory */
	TuneName name[NAMES_MOST];
	int n;
	NamedConst value[NAMES_MOST], *chosen;
	double best;
	int nchosen;
} Cpu;

typedef struct Trips {
	const Func *f;
	const Bound *b;
} Trips;

static double
trips_of(void *user, const Op *loop)
{
	const Trips *t = user;
	return estimate_trips(t->f, t->b, loop);
}

static double
programs_of(const Bound *b)
{
	double n = 1;
	for (int i = 0; i < b->naxis; i++)
		n *= (double)MAX(b->grid[i], 1);
	return n;
}

/* Nanoseconds with these values beside what the caller has; below 0: the header refuses them. */
static double
cost_with(Cpu *s, const NamedConst *values, int n)
{
	Bound b;
	Compile *cx = s->k->program->cx;
	arena_reset(s->mem);
	arena_reset(cx->tmp);
	s->k->program->called = s->before.called;
	cx->mem = s->mem;
	if (!s->how->bind(s->how->user, values, n, &b))
		return -1;
	const PassOptions opt = {0};
	ArgAssumptions a = assumptions_of_sizes(s->mem, &b);
	Module *m = compile_kernel(s->k, &b, cpu_row.target.name, &a, &opt);
	if (!m)
		return -1;
	Trips t = {m->funcs.at[0], &b};
	const CostFacts facts = {.trips = trips_of, .user = &t};
	return cpu_cost(t.f, &s->row, &facts, programs_of(&b));
}

static void
try(Cpu *s, const NamedConst *values, int n)
{
	double cost = cost_with(s, values, n);
	Bill bill = {.cycles = cost};
	why_tried(s->how->why, values, n, cost, &bill, "the header refuses it");
	if (cost < 0 || cost >= s->best)
		return;
	s->best = cost;
	s->nchosen = n;
	memcpy(s->chosen, values, sizeof *values * (size_t)n);
}

static void
try_all(Cpu *s, int at)
{
	if (at == s->n) {
		try(s, s->value, s->n);
		return;
	}
	for (int i = 0; i < s->name[at].nvalue; i++) {
		s->value[at] = (NamedConst){s->name[at].name, s->name[at].value[i], NOWHERE};
		try_all(s, at + 1);
	}
}

/* The names of tune(...) that are compile-time parameters and open, as long as their combinations are few. */
static void
add_names(Cpu *s, const TuneName *all, int n)
{
	int64_t combinations = 1;
	for (int i = 0; i < n && s->n < NAMES_MOST; i++) {
		if (ctparam_named(s->k, all[i].name) < 0 || all[i].nvalue == 0 ||
		    s->how->is_fixed(s->how->user, all[i].name))
			continue;
		combinations *= all[i].nvalue;
		if (combinations > COMBINATIONS_MOST)
			break;
		s->name[s->n++] = all[i];
	}
}

static void
search(Cpu *s, const Bound *b, Arena *apart)
{
	TuneName *all;
	ChooseTile tile[TILES_MOST];
	int n;
	Compile *cx = s->k->program->cx;
	double first = cost_with(s, NULL, 0);
	Bill bill = {.cycles = first};
	if (first < LEAST_NS) {
		why_none(s->how->why, "the launch takes no longer than a choice does");
		return;
	}
	why_tried(s->how->why, NULL, 0, first, &bill, NULL);
	s->best = CLEARLY * first;
	cx->mem = apart;
	if (kernel_tune(s->k, b, &all, &n))
		add_names(s, all, n);
	if (s->n > 0)
		try_all(s, 0);
	cx->mem = apart;
	n = choose_tiles(s->k, b, &cpu_row.target, s->how, apart, tile);
	for (int i = 0; i < n; i++)
		try(s, tile[i].value, tile[i].n);
}

bool
choose_cpu(Kernel *k, const Bound *b, int threads, const ChooseBinding *how, Arena *mem, NamedConst **values, int *n)
{
	Compile *cx = k->program->cx;
	Arena *keep = cx->mem, *keep_tmp = cx->tmp, *apart = arena_open();
	Cpu s = {.k = k, .row = cpu_row, .how = how, .mem = arena_open(), .before = *k->program};
	if (threads > 0)
		s.row.cores = threads;
	s.chosen = NEW_ARRAY(mem, NamedConst, (int)NAMES_MOST + (int)TILE_SIZES);
	cx->tmp = arena_open();
	cx->muted++;
	search(&s, b, apart);
	cx->muted--;
	arena_close(cx->tmp);
	cx->mem = keep;
	cx->tmp = keep_tmp;
	k->program->called = s.before.called;
	for (int i = 0; i < s.nchosen; i++)
		s.chosen[i].name = intern(cx->names, s.chosen[i].name);
	arena_close(s.mem);
	arena_close(apart);
	*values = s.chosen;
	*n = s.nchosen;
	return s.nchosen > 0;
}
