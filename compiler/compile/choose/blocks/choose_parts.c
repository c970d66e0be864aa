/* Whether a kernel before adds up parts of a loop of products (pass parts), and how many, where the schedule leaves it
 * open: for launches of few programs, each with a long loop.
 *
 * The kernel before is chosen for by the search of products, as a kernel with another axis of so many programs; then the
 * launches are compared, that of the kernel as it is with those of both kernels, one after the other.  Numbers of parts
 * that are looked at fill the multiprocessors once with the largest tiles, whose operands ask the least of the L2 cache
 * and of shared memory: fewer blocks of larger tiles are what parts are for.  Of few rows tiles stay as small. */
#include "compile/choose/choose.h"
#include "compile/choose/estimate_ops.h"
#include "compile/compile.h"
#include "model/digits/digits.h"

#include <math.h>
#include <string.h>

/* Cycles of a launch below which what joins parts takes as much as they save; what both launches may take of one's, by the
 * estimates: of 16 products that both take less than .96 of, on an H200, 14 take .81 to .97 of the time, two 1.00 and 1.03;
 * of seven between .96 and .99 five take 1.07 to 1.25 (192 x 4096 x 11008, 512 x 1024 x 8192). */
static const double LONG = 18000, GAIN = 0.96;
/* Nor do launches that wait for device memory for so much of their time, which parts do not shorten: 128 x 4096 x 11008, of
 * which memory takes .75, 31.2 us in four parts and 27.9 without, 96 x 8192 x 28672, .9, 145 in three and 113. */
static const double WAITS = 0.7;
/* Where they add up parts, pairs take .87 of what the estimates say, blocks alone 1.05.  Of the eight of 40 launches that
 * this turns 512 x 512 x 65536 takes 55.9 us for 63.5, 512 x 768 x 32768 41.7 for 50.6, 433 x 440 x 65536 51.4 for 59.5,
 * 97 x 3480 x 10864 33.1 for 32.4.  Flat blocks are left: nine of ten are faster than pairs in roles. */
static const double PAIRED = 1.05;
enum { PARTS_MOST = 64, TRIPS_LEAST = 4, FEW = 1024 };    /* elements of a program, as of few rows */

double
choose_parts_paired(void)
{
	return PAIRED;
}

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

/* The share of what programs read for an operand that lies inside of its tensor. */
static double
inside(const Func *f, const Bound *b, Value *operand)
{
	bool flipped;
	int at[KERNEL_RANK];
	double share = 1;
	const Op *read = dot_operand_root(operand, &flipped)->def;
	const Value *tensor = read && read->kind == OP_READ ? read->in[0] : NULL;
	if (!tensor || tensor->def || tensor->block->parent || tensor->index >= b->kernel->params.n)
		return 1;
	access_dims(read, at);
	for (int d = 0; d < tensor->type->rank; d++) {
		int64_t begin = INT64_MIN;
		if (attr_index(read)[d] == 'p')
			begin = estimate_last(f, b, read->in[1 + d], (Cluster){1, 0, 1});
		if (begin != INT64_MIN)
			share *= fmin((double)estimate_dim(b, tensor, d) /
				(double)(begin + read->out[0].type->extent[at[d]]), 1);
	}
	return share;
}

/* Elements of all programs' sums; 0: their loop cannot be divided, or has too few iterations for so many parts. */
static double
elements_of(Kernel *k, const Open *o, const Target *t, double *trips)
{
	Bound b;
	if (!bind((void *)o, NULL, 0, &b))
		return 0;
	const Func *f = choose_simplified(k, &b, t);
	const Op *dot = f && f->nmade ? block_find(f->body, OP_DOT) : NULL;
	if (!dot || !choose_sums(f) || choose_count_dots(f) != 1)
		return 0;
	*trips = o->parts * estimate_trips(f, &b, dot->home->parent);
	return choose_programs(&b) / o->parts * (double)type_count(dot->out->type) * inside(f, &b, dot->in[0]) *
	    inside(f, &b, dot->in[1]);
}

typedef struct Best {
	NamedConst *values;
	int n, parts;
	bool in_pairs;
	double cycles;                                  /* of both launches */
	ChooseWhy why;
} Best;

static void
try_parts(Kernel *k, const Target *t, const ChooseBinding *how, ChooseFor *choose, Arena *mem, int parts, Best *best)
{
	ChooseWhy why = {.mem = how->why ? how->why->mem : NULL};
	Open open = {how, parts};
	const ChooseBinding with = {is_fixed, bind, &open, how->why ? &why : NULL,
	    .any_size = how->any_size, .relies = how->relies};
	Bound first, both;
	NamedConst *of;
	int nof = 0, n = 0;
	double cycles = -1;
	if (bind(&open, NULL, 0, &first) && choose(k, &first, t, &with, mem, &of, &nof)) {
		NamedConst *all = NEW_ARRAY(mem, NamedConst, nof + 1);
		memcpy(all, of, sizeof *all * (size_t)nof);
		n = nof;
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
	*best = (Best){of, n, parts, both.schedule.ctas == 2, cycles, why};
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
	text_printf(&how->why->chosen,
	    "  parts = %d: a kernel before adds up so many of its loop, which this one joins: %.3g us",
	    best->parts, best->cycles / us);
	if (alone >= 0)
		text_printf(&how->why->chosen, "; in one kernel, %.3g us", alone / us);
	text_put(&how->why->chosen, "\n");
}

static bool
choose_best(Kernel *k, const Target *t, const ChooseBinding *how, ChooseFor *choose, Arena *mem, NamedConst **values,
    int *n)
{
	static const double tile[] = {128 * 192, 128 * 160, 128 * 128};         /* elements */
	Bound whole;
	Open open = {how, 2};
	Best best = {.cycles = -1};
	double trips = 0, elements = elements_of(k, &open, t, &trips), most = t->rates->multiprocessors;
	if (elements <= 0 || elements > tile[LEN(tile) - 1] * most / 2 || !how->bind(how->user, *values, *n, &whole))
		return false;
	double alone = cycles_of(k, &whole, t);
	if (alone < LONG || estimate_bytes(&whole) / t->rates->memory_rate > WAITS * alone)
		return false;
	double programs = choose_programs(&whole);
	bool is_few = elements / programs < FEW;
	for (int i = 0, last = 0; i < LEN(tile); i++) {
		double tiles = is_few ? programs : ceil(elements / tile[i]);
		int parts = (int)fmin(fmin(floor(most / tiles), trips / TRIPS_LEAST), PARTS_MOST);
		if (parts > 1 && parts != last)
			try_parts(k, t, how, choose, mem, parts, &best);
		last = parts;
	}
	if (best.cycles < 0 || best.cycles > (best.in_pairs ? PAIRED : 1) * GAIN * alone) {
		text_close(&best.why.chosen);
		return false;
	}
	take(&best, t, how, alone, values, n);
	return true;
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
	} else if (binds && !choose_is_said(k, how, SCHEDULE_PARTS) && !choose_is_said(k, how, SCHEDULE_SPLIT) &&
	    !choose_is_said(k, how, SCHEDULE_MATERIALIZE)) {
		ok = choose_best(k, t, how, choose, mem, values, n);
	}
	candidates_close(&c);
	return ok;
}
