/* Chooses compile-time parameters where a schedule's words mean little: on the cpu device and on Apple's GPUs.
 *
 *     kernel scale<B = 64>(x: in f32[N], y: out f32[N]) grid(p: cdiv(N, B))          cpu: B = 2048, 4096 or 8192
 *     kernel matmul<BM = 128, BN = 128, BK = 64>(…) tune(BM = {64, …}, …)     apple7: BM = 64, BN = 64, BK = 32
 *
 * Every combination of tune(...) is compared by an estimate; on the cpu device larger tiles, too, where they only cut the
 * grid (choose_sizes.c), which spare the interpreter programs.  There, only launches that take much longer than that are
 * looked at (model/cost_cpu.c); on Apple's GPUs only products, whose tiles threadgroup memory and registers have to hold
 * (model/cost_simdgroups.c).  What is chosen has to be clearly better.  Caches, vectors and cores are those of the row, not
 * of the machine at hand: devices of as many threads choose the same. */
#include "compile/choose/choose.h"
#include "compile/choose/estimate.h"
#include "compile/compile.h"

#include <math.h>
#include <string.h>

enum { NAMES_MOST = 8, COMBINATIONS_CPU = 64, COMBINATIONS_MOST = 256 };
static const double CLEARLY = 0.85, LEAST_NS = 1e7;

typedef struct Choice {
	Kernel *k;
	const Target *t;
	const CpuRow *row;                              /* NULL: a GPU's target */
	const ChooseBinding *how;
	Candidates apart;
	TuneName name[NAMES_MOST];
	int n;
	NamedConst value[NAMES_MOST], *chosen;
	double best;
	int nchosen;
} Choice;

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

double
choose_cpu_cost(const Func *f, const Bound *b, int threads)
{
	CpuRow row = cpu_row;
	Trips t = {f, b};
	const CostFacts facts = {.trips = trips_of, .user = &t};
	if (threads > 0)
		row.cores = threads;
	return cpu_cost(f, &row, &facts, choose_programs(b));
}

static double
cost_of(const Choice *s, Func *f, const Bound *b, Bill *bill)
{
	Trips t = {f, b};
	const CostFacts facts = {.trips = trips_of, .user = &t};
	if (!s->row)
		return simdgroups_cost(f, s->t, &facts, choose_programs(b), estimate_bytes(b), bill);
	bill->cycles = choose_cpu_cost(f, b, s->row->cores);
	return bill->cycles;
}

/* With these values beside what the caller has; below 0: the header refuses them, or they do not fit. */
static double
cost_with(Choice *s, const NamedConst *values, int n, Bill *bill)
{
	Bound b;
	candidates_next(&s->apart);
	*bill = (Bill){.cycles = -1, .refused = "the header refuses it"};
	if (!s->how->bind(s->how->user, values, n, &b))
		return -1;
	const PassOptions opt = {.stop_after = s->row ? NULL : "coalesce"};     /* which chooses simdgroups */
	Func *f = choose_compile(s->k, &b, s->t, &opt);
	return f ? cost_of(s, f, &b, bill) : -1;
}

static void
try(Choice *s, const NamedConst *values, int n)
{
	Bill bill;
	double cost = cost_with(s, values, n, &bill);
	why_tried(s->how->why, values, n, cost, &bill, NULL);
	if (cost < 0 || cost >= s->best)
		return;
	s->best = cost;
	s->nchosen = n;
	memcpy(s->chosen, values, sizeof *values * (size_t)n);
}

static void
try_all(Choice *s, int at)
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
add_names(Choice *s, const TuneName *all, int n)
{
	int64_t combinations = 1;
	for (int i = 0; i < n && s->n < NAMES_MOST; i++) {
		if (ctparam_named(s->k, all[i].name) < 0 || all[i].nvalue == 0 ||
		    schedule_named(all[i].name) == SCHEDULE_STAGES || s->how->is_fixed(s->how->user, all[i].name))
			continue;
		combinations *= all[i].nvalue;
		if (combinations > (s->row ? COMBINATIONS_CPU : COMBINATIONS_MOST))
			break;
		s->name[s->n++] = all[i];
	}
}

/* Is another choice worth its time? */
static bool
is_worth(const Choice *s, const Bill *first)
{
	const char *none = NULL;
	if (s->row && first->cycles < LEAST_NS)
		none = "the launch takes no longer than a choice does";
	if (!s->row && first->cycles < 0 && !first->refused)
		none = "the estimate knows products alone on this target";
	if (none)
		why_none(s->how->why, none);
	return !none;
}

static void
search(Choice *s, const Bound *b, Arena *apart)
{
	TuneName *all;
	ChooseTile tile[TILES_MOST];
	int n;
	Compile *cx = s->k->program->cx;
	Bill bill;
	double first = cost_with(s, NULL, 0, &bill);
	if (!is_worth(s, &bill))
		return;
	why_tried(s->how->why, NULL, 0, first, &bill, NULL);
	s->best = first < 0 ? INFINITY : CLEARLY * first;
	cx->mem = apart;
	if (kernel_tune(s->k, b, &all, &n))
		add_names(s, all, n);
	if (s->n > 0)
		try_all(s, 0);
	cx->mem = apart;
	n = s->row ? choose_tiles(s->k, b, s->t, s->how, apart, tile) : 0;
	for (int i = 0; i < n && !tile[i].is_half; i++)
		try(s, tile[i].value, tile[i].n);
}

/* With reports hidden and the memory of candidates apart. */
static bool
choose(Choice *s, const Bound *b, Arena *mem, NamedConst **values, int *n)
{
	Compile *cx = s->k->program->cx;
	Arena *keep_tmp = cx->tmp, *apart = arena_open();
	s->apart = candidates_open(s->k);
	s->chosen = NEW_ARRAY(mem, NamedConst, (int)NAMES_MOST + (int)TILE_SIZES);
	cx->tmp = arena_open();
	cx->muted++;
	search(s, b, apart);
	cx->muted--;
	arena_close(cx->tmp);
	cx->tmp = keep_tmp;
	cx->mem = s->apart.keep;
	for (int i = 0; i < s->nchosen; i++)
		s->chosen[i].name = intern(cx->names, s->chosen[i].name);
	candidates_close(&s->apart);
	arena_close(apart);
	*values = s->chosen;
	*n = s->nchosen;
	return s->nchosen > 0;
}

bool
choose_cpu(Kernel *k, const Bound *b, int threads, const ChooseBinding *how, Arena *mem, NamedConst **values, int *n)
{
	CpuRow row = cpu_row;
	Choice s = {.k = k, .t = &cpu_row.target, .row = &row, .how = how};
	if (threads > 0)
		row.cores = threads;
	return choose(&s, b, mem, values, n);
}

bool
choose_simdgroups(Kernel *k, const Bound *b, const Target *t, const ChooseBinding *how, Arena *mem, NamedConst **values,
    int *n)
{
	Choice s = {.k = k, .t = t, .how = how};
	return choose(&s, b, mem, values, n);
}
