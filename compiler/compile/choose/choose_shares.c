/* Blocks that share a program's loop, of a kernel without products or one with a merge; and whether those of a kernel with
 * products do. */
#include "compile/choose/search.h"
#include "compile/choose/estimate.h"
#include "compile/compile.h"
#include "pass/share/split_k.h"

#include <string.h>

static const double SHARES = 1.012;     /* of others, which take 1.1 to 1.4 of their estimates where programs are few */
static const double SHARE_LEAST = 0.95, SHARE_FOUR = 0.75;      /* of a cluster's blocks that have programs */
static const double MEMORY_MOST = 0.125;                         /* of a launch, for pairs of blocks */
static const double SHARE_SPLIT = 0.9, SHARE_LONE = 0.95, SHARE_STREAM = 0.9, STREAMS = 0.75, DECODED = 1.4;

bool
search_divides(Search *s)
{
	Found found;
	bool can = (s->t->has & HAS_CLUSTER) && !split_find(s->f, s->t, &found);
	s->joins = can && split_joins(s->f);
	return can && (!found.merge || s->joins);
}

bool
search_shares_last(const Search *s, const Bound *b)
{
	return choose_shares_last(&b->schedule) && !s->joins;
}

Const
search_greatest(const TuneName *name)
{
	int greatest = 0;
	for (int v = 1; v < name->nvalue; v++)
		greatest = name->value[v].i > name->value[greatest].i ? v : greatest;
	return name->value[greatest];
}

bool
search_stays_few(Search *s, const TuneName *all, int n)
{
	NamedConst value[NAMES_MOST];
	Bound b;
	int found = 0;
	if (choose_merges(s->f))
		return true;
	for (int i = 0; i < n && found < NAMES_MOST; i++)
		if (ctparam_named(s->k, all[i].name) >= 0 && all[i].nvalue > 0 &&
		    !s->how->is_fixed(s->how->user, all[i].name))
			value[found++] = (NamedConst){all[i].name, search_greatest(&all[i]), NOWHERE};
	Candidates apart = candidates_open(s->k);
	candidates_next(&apart);
	const Func *f = choose_with(s->k, s->t, s->how, value, found, true, &b);
	bool few = !f || choose_merges_few(f);
	candidates_close(&apart);
	return few;
}

int
search_split(Search *s, bool merged)
{
	int split = 1;
	Candidates apart = candidates_open(s->k);
	candidates_next(&apart);
	Func *f = choose_simplified(s->k, s->first, s->t);
	s->products = f && choose_count_dots(f) > 0;
	s->is_one = s->products && choose_count_dots(f) == 1;
	s->is_whole = f && choose_is_whole(s->k, f, s->first, s->t);
	s->is_nest = s->products && choose_is_nest(f);
	s->is_merged = s->products && choose_merges_few(f);
	s->in_memory = f && split_joins(f);
	if (f && (choose_merges(f) || (!merged && !s->products)))
		split = choose_split_of(f, s->first, s->t);
	candidates_close(&apart);
	return split;
}

/* Of what is chosen, where its products are by warps, of which the search does not compare blocks that share a loop. */
static int
split_of_chosen(Search *s, const NamedConst *values, int n)
{
	Bound b;
	Candidates apart = candidates_open(s->k);
	candidates_next(&apart);
	Func *f = s->products ? choose_with(s->k, s->t, s->how, values, n, true, &b) : NULL;
	int split = f && choose_joins_by_warps(f) ? choose_split_of(f, &b, s->t) : 1;
	candidates_close(&apart);
	return split;
}

bool
search_add_split(Search *s, Arena *mem, NamedConst **values, int *n)
{
	for (int i = 0; i < *n; i++) {
		int which = schedule_named((*values)[i].name);
		int64_t v = (*values)[i].value.i;
		if ((which == SCHEDULE_SPLIT && v > 1) || (which == SCHEDULE_CTAS && v > 1) ||
		    ((which == SCHEDULE_PERSISTENT || which == SCHEDULE_SPECIALIZE || which == SCHEDULE_COARSEN) && v > 0))
			return false;
	}
	if (s->first->schedule.split > 0 || s->first->schedule.persistent > 0 ||
	    s->first->schedule.specialize > 0 || s->first->schedule.ctas > 1 ||
	    choose_is_said(s->k, s->how, SCHEDULE_SPLIT))
		return false;
	int split = search_split(s, false);
	split = split > 1 ? split : split_of_chosen(s, *values, *n);
	if (split <= 1)
		return false;
	bool takes_turns = s->first->schedule.ctas == 0 && !s->in_memory && choose_takes_turns(s->first, s->t, split);
	NamedConst *all = NEW_ARRAY(mem, NamedConst, *n + 2);
	int kept = 0;
	for (int i = 0; i < *n; i++)
		if (schedule_named((*values)[i].name) != SCHEDULE_SPLIT)
			all[kept++] = (*values)[i];
	all[kept++] = choose_word(SCHEDULE_SPLIT, split);
	if (takes_turns)
		all[kept++] = choose_word(SCHEDULE_CTAS, 1);
	for (int i = 0; i < kept; i++)
		all[i].name = intern(s->k->program->cx->names, all[i].name);
	*values = all;
	*n = kept;
	if (s->how->why)
		text_printf(&s->how->why->chosen,
		    "  chosen: split = %d, as few programs leave multiprocessors idle%s\n", split,
		    takes_turns ? ", and ctas = 1, since not all clusters of so many would run at once" : "");
	return true;
}

/* Blocks share the loop where that is clearly better: on an H200 it was not at 1024 x 1024 x 8192, of which the estimate
 * expects a quarter less.  Of one product of warpgroups less is enough: of 68 shapes whose forms were measured .95 chose
 * best.  What waits for device memory two share sooner (128 x 8192 x 8192; 37 x 4096 x 11008: 28.7 us, 45
 * alone, 37 to 50 with 4 and 8).  So do two that decode, in larger tiles by eight 27.1 us and in smaller ones by two 19.0
 * (u4 with zero points, 96 x 4096 x 4096), where the estimate has 25.1 and 27.5. */
void
search_take_divided(Search *s)
{
	double memory = s->bill.part[BILL_MEMORY] * s->bill.programs;
	bool streams = s->least[1] > 0 && memory > STREAMS * s->least[1];
	streams |= s->decodes && s->least[1] > 0 && s->least[1] < DECODED * s->least[0];
	double share = streams ? SHARE_STREAM : s->is_lone ? SHARE_LONE : SHARE_SPLIT, least = s->least[streams];
	if (least < 0 || (s->best >= 0 && least > share * s->best))
		return;
	s->best = least;
	memcpy(s->chosen, s->divided[streams], sizeof *s->chosen * (size_t)s->n);
	if (streams)
		why_because(s->how->why, "two blocks that share a loop wait for memory sooner than more of them do");
}

double
search_share_least(int ranks)
{
	return ranks > CLUSTER ? SHARE_FOUR : SHARE_LEAST;
}

/* Of what blocks alone take, what clusters may take to be chosen: `share`, or of pairs in roles that add up parts more. */
double
search_pairs_share(const Search *s, double share)
{
	bool pairs = s->first->schedule.parts > 1 && s->in_pairs[s->n].value.i == CLUSTER &&
	    ANY_OF(i, s->n, schedule_named(s->chosen[i].name) == SCHEDULE_SPECIALIZE && s->chosen[i].value.i == 1);
	return pairs ? choose_parts_paired() : share;
}

bool
search_may_pair(Search *s, const Bound *b)
{
	enum { AXES_MOST = 2, CHAINED_WARPS = 8 };      /* 3 spill in a producer's 40 registers (batched_matmul) */
	Schedule open = b->schedule;
	const Func *f = choose_simplified(s->k, b, s->t);
	open.specialize = -1;
	bool chained = f && choose_roles(f, &open, s->t) > 0;
	bool fits = chained ? open.warps <= CHAINED_WARPS : b->naxis <= AXES_MOST;
	return f && fits && !choose_gathers(f) && !choose_dynamic(f);
}

bool
search_waits_for_memory(Search *s, const Bound *b)
{
	Bill bill;
	Func *f = choose_simplified(s->k, b, s->t);
	double cycles = f ? estimate_cycles(f, b, s->t, &bill) : -1;
	return cycles > 0 && bill.part[BILL_MEMORY] * bill.programs > MEMORY_MOST * cycles;
}

void
search_keep_shared(Search *s, double cycles, int n)
{
	if (cycles < 0 || (s->shared >= 0 && cycles >= s->shared))
		return;
	s->shared = cycles;
	s->nshares = n;
	memcpy(s->in_shares, s->value, sizeof *s->value * (size_t)n);
}

bool
search_take_shared(Search *s, double least)
{
	Bound b;
	NamedConst were[NAMES_MOST];
	int n = s->n;
	if (s->shared < 0 || (least >= 0 && s->shared > SHARES * least))
		return false;
	memcpy(were, s->chosen, sizeof *were * (size_t)n);
	memcpy(s->chosen, s->in_shares, sizeof *were * (size_t)s->nshares);
	s->n = s->nshares;
	const Func *f = search_parted(s, &b);
	bool in_pairs = s->n > 0 && schedule_named(s->chosen[s->n - 1].name) == SCHEDULE_CTAS;
	if (f && (!in_pairs || func_cluster(f) == CLUSTER)) {
		s->best = s->shared;
		return true;
	}
	s->n = n;
	memcpy(s->chosen, were, sizeof *were * (size_t)n);
	return false;
}

/* Slots that are chosen are taken as if they were given, but the estimate does not know all that a block holds (operands
 * that threads put, tiles that stay): as many as fit. */
void
search_fit_stages(Search *s)
{
	NamedConst *stages = NULL;
	Bound b;
	for (int i = 0; i < s->n; i++)
		stages = schedule_named(s->chosen[i].name) == SCHEDULE_STAGES ? &s->chosen[i] : stages;
	while (stages && stages->value.i > 1) {
		s->k->program->cx->mem = s->apart.mem;
		const Func *f = choose_with(s->k, s->t, s->how, s->chosen, s->n, false, &b);
		if (f && f->shared_bytes <= s->t->shared_bytes)
			return;
		stages->value.i--;
	}
}
