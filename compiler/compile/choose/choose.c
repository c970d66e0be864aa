/* Chooses a schedule where the caller left it open.
 *
 *     kernel matmul<T: dtype = bf16, BM = 128, BN = 128, BK = 64>(…)
 *         tune(BM = {64, 128, 256}, BN = {…}, BK = {…}, warps = {4, 8}, stages = {2, 3, 4, 5})
 *
 * Each combination of compile-time parameters is elaborated once, to IR that is only simplified; warps and stages change no
 * IR.  The estimate costs microseconds, so that a few hundred combinations take less than LLVM does for one.  A space that
 * is larger keeps the default of the names behind the limit.  Roles, clusters and blocks that share a program's loop
 * (split) are chosen whether they are listed or not.  What is not modelled, as group, keeps its default. */
#include "compile/choose/choose.h"
#include "compile/compile.h"
#include "compile/choose/estimate.h"
#include "compile/choose/search.h"

#include "pass/async/pipeline.h"
#include "pass/layout/dot.h"

#include <string.h>

enum { COMBINATIONS_MOST = 420 };                               /* of compile-time parameters */
static const double BETTER = 0.985, UNLISTED = 1.01;             /* than the default; tiles that no header lists */
static const double GROUPS_SHARE = 1.04;        /* groups of consumers: bench/results/h200-types.md, batched */
enum { PAIRS_EACH = 4, AXES_MOST = 2 };  /* programs of a multiprocessor; with 3 a producer spills (batched_matmul) */
/* Of what blocks alone take, to be better; of a trip's bytes, where estimates see no difference. */
static const double CLUSTER_SHARE = 0.97, COMMON_LEAST = 0.5;

static bool
is_modelled(const Search *s, const char *name)
{
	int which = schedule_named(name);
	return which == SCHEDULE_WARPS || which == SCHEDULE_STAGES || which == SCHEDULE_SPECIALIZE ||
	    (which == SCHEDULE_SPLIT && s->divides);
}

static void
add_names(Search *s, const TuneName *all, int n, bool parameters)
{
	int64_t listed = 1, beside = 0;                 /* combinations; with a value that no header lists, one at most */
	for (int i = 0; i < n && s->n < NAMES_MOST; i++) {
		bool is_parameter = ctparam_named(s->k, all[i].name) >= 0;
		if (is_parameter != parameters || (!is_parameter && !is_modelled(s, all[i].name)) || all[i].nvalue == 0 ||
		    s->how->is_fixed(s->how->user, all[i].name))
			continue;
		beside = beside * (all[i].nvalue - all[i].more) + listed * all[i].more;
		listed *= all[i].nvalue - all[i].more;
		if (parameters && listed + beside > COMBINATIONS_MOST)
			break;
		s->header_of_schedule |= !parameters && header_mentions(s->k, all[i].name);
		s->name[s->n++] = all[i];
	}
}

/* The present values of the schedule join what is bound; a header that speaks of them is bound again. */
static bool
take_schedule(Search *s)
{
	for (int i = s->parameters; i < s->n; i++)
		s->bound.schedule.at[schedule_named(s->name[i].name)] = (int)s->value[i].value.i;
	return !s->header_of_schedule || s->how->bind(s->how->user, s->value, s->n, &s->bound);
}

static double
cycles_of(const Search *s, Bill *bill)
{
	Func *f = s->f;
	Schedule open = s->bound.schedule;
	open.specialize = -1;
	if (s->adds_roles && s->bound.schedule.specialize == 0 && (choose_count_dots(f) == 2 || dots_part(f)) &&
	    choose_roles(f, &open, s->t)) {
		*bill = (Bill){.cycles = -1, .refused = "passes give it a producer warp (roles) all the same"};
		return -1;
	}
	if (search_shares_last(s, &s->bound) && s->adds_split && choose_reads_beside(f)) {
		*bill = (Bill){.cycles = -1, .refused = "each block that shares a program would read what its end reads"};
		return -1;
	}
	return choose_cycles(f, &s->bound, s->t, bill) * (s->more ? UNLISTED : 1) *
	    (s->bound.schedule.pingpong == 1 ? GROUPS_SHARE : 1);
}

/* The present values, if they are better. */
static void
keep(const Search *s, double cycles, double *best, NamedConst *values)
{
	if (cycles < 0 || (*best >= 0 && cycles >= *best))
		return;
	*best = cycles;
	memcpy(values, s->value, sizeof *values * (size_t)s->n);
}

/* The present values in clusters of two, and of four where all of those run at once. */
static void
try_clusters(Search *s, bool shares)
{
	Bill bill;
	int ctas = s->bound.schedule.ctas;
	for (int ranks = CLUSTER; ranks <= (shares ? CLUSTER : CLUSTER_MOST); ranks *= 2) {
		if (estimate_pairs(s->f, &s->bound, ranks) < search_share_least(ranks))
			continue;
		s->bound.schedule.ctas = ranks;
		s->value[s->n++] = choose_word(SCHEDULE_CTAS, ranks);
		double cycles = cycles_of(s, &bill);
		if (ranks > CLUSTER && bill.launched > estimate_placed(s->t, ranks))
			cycles = -1;
		else
			why_tried(s->how->why, s->value, s->n, cycles, &bill, NULL);
		if (shares)
			search_keep_shared(s, cycles, s->n);
		else
			keep(s, cycles, &s->paired, s->in_pairs);
		s->n--;
	}
	s->bound.schedule.ctas = ctas;
}

static void
try(Search *s)
{
	const char *reason = NULL;
	if (!take_schedule(s))
		reason = "the header refuses it";
	else if (!choose_may_split(&s->bound, s->t, s->adds_split || s->adds_roles, s->joins))
		reason = "split does not pay where all multiprocessors have programs";
	else if (s->is_whole && !choose_places_all(&s->bound, s->t))
		reason = "so many clusters do not fit at once and would take turns";
	if (reason) {
		why_tried(s->how->why, s->value, s->n, -1, NULL, reason);
		return;
	}
	if (s->bound.schedule.pingpong == 1 && (s->bound.schedule.specialize != 1 || s->bound.schedule.split > 1))
		return;
	Bill bill;
	double cycles = cycles_of(s, &bill);
	why_tried(s->how->why, s->value, s->n, cycles, &bill, NULL);
	bool shares = s->adds_split && search_shares_last(s, &s->bound);
	if (shares)
		search_keep_shared(s, cycles, s->n);
	else if (s->bound.schedule.split <= 1 || search_shares_last(s, &s->bound))
		keep(s, cycles, &s->best, s->chosen);
	else
		keep(s, cycles, &s->least[0], s->divided[0]);
	if (s->bound.schedule.split == 2 && !search_shares_last(s, &s->bound))
		keep(s, cycles, &s->least[1], s->divided[1]);
	if (s->tries_clusters && s->bound.schedule.specialize == 1 && s->bound.schedule.pingpong != 1)
		try_clusters(s, shares);
}

/* Binds and elaborates once for the present compile-time parameters. */
static bool
take_parameters(Search *s)
{
	candidates_next(&s->apart);
	s->f = choose_with(s->k, s->t, s->how, s->value, s->parameters, true, &s->bound);
	return s->f != NULL;
}

static void
try_all(Search *s, int at)
{
	if (at == s->parameters && !take_parameters(s)) {
		why_tried(s->how->why, s->value, at, -1, NULL, "the header refuses it, or it does not compile");
		return;
	}
	if (at == s->n) {
		try(s);
		return;
	}
	for (int i = 0; i < s->name[at].nvalue; i++) {
		const TuneName *name = &s->name[at];
		bool is_more = i >= name->nvalue - name->more;
		if (is_more && s->more)                 /* one side of a tile is a power of two */
			continue;
		s->more += is_more;
		s->value[at] = (NamedConst){s->name[at].name, s->name[at].value[i], NOWHERE};
		try_all(s, at + 1);
		s->more -= is_more;
	}
}

/* Does the caller or the header say what becomes of a word? */
static bool
stands(const Search *s, ScheduleName which)
{
	return ANY_OF(i, s->n, s->name[i].name && strcmp(s->name[i].name, schedule_info[which].text) == 0) ||
	    choose_is_said(s->k, s->how, which);
}

static void
add_word(Search *s, Arena *mem, ScheduleName which, ConstKind kind, const int *values, int n)
{
	if (n == 0 || stands(s, which) || s->n == NAMES_MOST)
		return;
	Const *value = NEW_ARRAY(mem, Const, n);
	for (int i = 0; i < n; i++) {
		value[i].kind = kind;
		value[i].i = values[i];
	}
	s->name[s->n++] = (TuneName){.name = schedule_info[which].text, .value = value, .nvalue = n};
}

/* Warps that several products have rows for, in the tile with the most of them; of one, its instruction's, or there. */
static int
count_warps(Search *s, const int *warps, int n)
{
	Func *f = s->f;
	Arena *keep = s->k->program->cx->mem;
	int fits = choose_warps(f, s->t, warps, n);
	for (int i = 0; i < s->parameters; i++)
		s->value[i] = (NamedConst){s->name[i].name, search_greatest(&s->name[i]), NOWHERE};
	if (s->parameters > 0 && (fits == 0 || choose_count_dots(f) > 1) && take_parameters(s))
		fits = MAX(fits, choose_warps(s->f, s->t, warps, n));
	s->f = f;
	s->k->program->cx->mem = keep;
	return fits;
}

/* The compiler may divide a kernel's loop, part it into roles and give it more warps, whatever its header lists. */
static void
add_forms(Search *s, Arena *mem)
{
	static const int split[] = {1, 2, 4, 8, 16, 32}, specialize[] = {0, 1};
	static const int warps[] = {4, 8, 16}, stages[] = {2, 3, 4, 6, 8};
	static const int chain[] = {4, 3, 2};           /* of flat blocks, fewer slots let more be resident */
	int fit = count_warps(s, warps, LEN(warps));
	add_word(s, mem, SCHEDULE_WARPS, CONST_INT, warps, fit);
	const Func *f = s->f;
	bool is_one = choose_count_dots(f) == 1;
	if (s->is_lone || (is_one && (s->leaves || (fit > 0 && choose_sums(f)))))
		add_word(s, mem, SCHEDULE_STAGES, CONST_INT, stages, LEN(stages));
	else if (choose_count_dots(f) == 2 && dots_are_chained(f, f->body))
		add_word(s, mem, SCHEDULE_STAGES, CONST_INT, chain, LEN(chain));
	s->adds_split = s->divides && !stands(s, SCHEDULE_SPLIT);
	if (s->divides)
		add_word(s, mem, SCHEDULE_SPLIT, CONST_INT, split, LEN(split));
	s->adds_groups = is_one && (s->t->has & HAS_SETMAXNREG) && s->n < NAMES_MOST && !stands(s, SCHEDULE_PINGPONG);
	if (s->adds_groups)
		add_word(s, mem, SCHEDULE_PINGPONG, CONST_BOOL, specialize, LEN(specialize));
	s->adds_roles = (s->t->has & HAS_TMA) && s->n < NAMES_MOST && !stands(s, SCHEDULE_SPECIALIZE);
	if (s->adds_roles)
		add_word(s, mem, SCHEDULE_SPECIALIZE, CONST_BOOL, specialize, LEN(specialize));
}

static bool
chose_roles(const Search *s)
{
	const NamedConst *v = &s->chosen[s->n - 1];
	return schedule_named(v->name) == SCHEDULE_SPECIALIZE && v->value.i;
}

Func *
search_parted(Search *s, Bound *b)
{
	s->k->program->cx->mem = s->apart.mem;
	Func *f = choose_with(s->k, s->t, s->how, s->chosen, s->n, false, b);
	bool shares = f && (f->stream || !search_shares_last(s, b)) && (!s->joins || !f->split_reason);
	bool fits = f && f->shared_bytes <= s->t->shared_bytes;
	return shares && fits && !f->whole_reason && !f->cluster_reason && !f->pingpong_reason ? f : NULL;
}

/* What is chosen, in clusters: the share of its programs that are there; 0 if blocks stay alone, or share less. */
static double
share_of_clusters(Search *s, int ranks, double common)
{
	Bound with;
	s->chosen[s->n++] = choose_word(SCHEDULE_CTAS, ranks);
	const Func *f = search_parted(s, &with);
	return f && func_cluster(f) == ranks && f->cluster_common >= common ? cluster_share(f, with.grid) : 0;
}

/* Clusters of two where the estimate sees no difference, but each multiprocessor has several programs of several products,
 * as attention.  A lone product takes an H200 longer so: 8192^3 1.009 of the time, in e4m3 1.018.  Not for a small part of
 * what they copy: attention whose heads share 64 of 320 channels, causal, took 496 us in pairs, which take programs in a
 * fixed order, and 340.  Nor where copies wait for device memory: at .16 to .21 of a launch pairs cost 2 to 5 %. */
static void
add_cluster(Search *s, const Bound *b)
{
	if (s->is_one || stands(s, SCHEDULE_CTAS) || s->n == NAMES_MOST || b->schedule.pingpong == 1 ||
	    choose_programs(b) <= PAIRS_EACH * s->t->rates->multiprocessors || !search_may_pair(s, b) ||
	    search_waits_for_memory(s, b))
		return;
	if (share_of_clusters(s, CLUSTER, COMMON_LEAST) < search_share_least(CLUSTER))
		s->n--;
	else
		why_because(s->how->why, "of several programs a multiprocessor, clusters of two are no slower by "
					 "measurement, and the estimate sees no difference");
}

/* Clusters, where they are better than what blocks do alone. */
static bool
take_clusters(Search *s)
{
	NamedConst alone[NAMES_MOST];
	if (s->paired < 0 || s->best < 0 || s->paired > search_pairs_share(s, CLUSTER_SHARE) * s->best)
		return false;
	memcpy(alone, s->chosen, sizeof *alone * (size_t)s->n);
	memcpy(s->chosen, s->in_pairs, sizeof *alone * (size_t)s->n);
	int ranks = (int)s->in_pairs[s->n].value.i;
	if (share_of_clusters(s, ranks, 0) >= search_share_least(ranks)) {
		s->best = s->paired;
		return true;
	}
	memcpy(s->chosen, alone, sizeof *alone * (size_t)--s->n);
	return false;
}

/* Without clusters. */
static void
find_alone(Search *s, double limit)
{
	s->best = limit;
	s->paired = s->shared = s->least[0] = s->least[1] = -1;
	try_all(s, 0);
	search_take_divided(s);
}

static void
find_best(Search *s, double limit)
{
	Bound b;
	find_alone(s, limit);
	bool pairs = take_clusters(s);
	if (search_take_shared(s, s->best))
		return;
	bool groups = !pairs && s->best != limit && s->adds_groups && s->chosen[s->n - 1 - s->adds_roles].value.i;
	if (!pairs && !groups && (s->best == limit || !chose_roles(s)))
		return;
	if (pairs || search_parted(s, &b)) {
		if (!pairs)
			add_cluster(s, &b);
		choose_stream(s->k, s->t, s->how, s->chosen, s->n);
		return;
	}
	if (groups)                                     /* roles may do without */
		s->name[s->n - 1 - s->adds_roles] = s->name[s->n - 1];
	s->n--;
	s->adds_roles = s->adds_roles && groups;
	s->adds_groups = false;
	(groups ? find_best : find_alone)(s, limit);
}

static const Func *
product_with(void *user, const NamedConst *value)
{
	Search *s = user;
	s->value[0] = *value;
	s->parameters = 1;
	take_parameters(s);
	s->parameters = 0;
	return s->f;
}

/* The function and the memory of what is bound are as before. */
static void
find_between(Search *s, TuneName *all, int n, Arena *mem)
{
	Func *f = s->f;
	Arena *keep = s->k->program->cx->mem;
	s->is_lone = choose_between(s->k, s->first, s->how, s->t, product_with, s, mem, all, n);
	s->f = f;
	s->k->program->cx->mem = keep;
}

/* What is chosen was estimated with all warps in each iteration: they do not divide a short loop, as few rows have. */
static bool
stay_undivided(Search *s)
{
	Bound b;
	s->k->program->cx->mem = s->apart.mem;
	const Func *f = choose_with(s->k, s->t, s->how, s->chosen, s->n, true, &b);
	if (f && choose_slices_badly(f, &b, s->t) && !stands(s, SCHEDULE_SLICES))
		s->chosen[s->n++] = choose_word(SCHEDULE_SLICES, 1);
	return true;
}

static bool
take_few(Search *s, const TuneName *all, int n, Arena *mem)
{
	s->chosen = NEW_ARRAY(mem, NamedConst, NAMES_MOST);
	return choose_few(s->k, s->first, s->t, s->how, all, n, s->is_merged, s->chosen, &s->n, &s->bill);
}

/* With reports hidden and the memory of candidates apart. */
static bool
search(Search *s, Arena *mem)
{
	TuneName *all;
	int n;
	s->f = choose_simplified(s->k, s->first, s->t);
	s->products = !s->f || choose_count_dots(s->f) > 0;
	if (!s->f || !s->products || !kernel_tune(s->k, s->first, &all, &n))
		return false;
	s->leaves = choose_leaves(s->f);
	s->decodes = choose_decodes(s->f);
	choose_add_sides(s->k, s->first, s->t, s->how, s->f, mem, &all, &n);
	s->is_merged = s->is_merged && search_stays_few(s, all, n);
	if (s->is_merged)
		return take_few(s, all, n, mem);
	bool few = choose_few_rows(s->k, s->f, s->first, s->how, s->t, mem, all, n, !s->is_whole);
	if (few && !s->is_whole)
		return take_few(s, all, n, mem);
	s->divides = search_divides(s);
	if (!few)
		find_between(s, all, n, mem);
	add_names(s, all, n, true);
	s->parameters = s->n;
	if (!few) {
		add_names(s, all, n, false);
		add_forms(s, mem);
	}
	if (s->n == 0)
		return false;
	double first = estimate_cycles(s->f, s->first, s->t, &s->bill);
	why_tried(s->how->why, NULL, 0, first, &s->bill, NULL);
	double limit = first >= 0 && !few ? first * BETTER : -1;
	NamedConst **const of[] = {&s->chosen, &s->divided[0], &s->divided[1], &s->in_pairs, &s->in_shares};
	for (int i = 0; i < LEN(of); i++)
		*of[i] = NEW_ARRAY(mem, NamedConst, s->n + 2);
	s->tries_clusters = s->adds_roles && s->n < NAMES_MOST && !stands(s, SCHEDULE_CTAS) &&
	    s->first->naxis - (s->first->schedule.parts > 1) <= AXES_MOST;
	find_best(s, limit);
	return s->best >= 0 && s->best != limit && (few || stay_undivided(s));
}

static bool
choose_products(Search *s, Arena *mem, NamedConst **values, int *n)
{
	Compile *cx = s->k->program->cx;
	Arena *apart = arena_open(), *keep = cx->mem;
	s->apart = candidates_open(s->k);
	cx->mem = apart;
	bool ok = search(s, apart);
	if (ok)
		search_fit_stages(s);
	cx->mem = keep;
	s->k->program->called = s->apart.before.called;
	*values = NEW_ARRAY(mem, NamedConst, s->n + 3);
	for (int i = 0; i < s->n && ok; i++)
		if (!choose_says_nothing(s->k, &s->chosen[i]))
			(*values)[(*n)++] = (NamedConst){intern(cx->names, s->chosen[i].name), s->chosen[i].value, NOWHERE};
	if (ok && s->decodes && !s->is_whole)           /* there this is compared first */
		choose_trim(s->k, s->first, s->t, s->how, *values, n);
	if (ok && s->how->why)
		choose_explain(*values, *n, s->first, &s->bill, s->t, &s->how->why->chosen);
	candidates_close(&s->apart);
	arena_close(apart);
	return ok;
}

/* Where the target's rates are known. */
static bool
choose_for(Kernel *k, const Bound *b, const Target *t, const ChooseBinding *how, Arena *mem, NamedConst **values, int *n)
{
	Search s = {.k = k, .t = t, .how = how, .first = b};
	bool ok = false;
	*n = 0;
	bool is_shared = search_split(&s, true) > 1;        /* that of products knows no part of a loop with merge */
	bool is_by_warps = s.is_whole && s.is_one;
	ChooseBinding quiet = *how;
	quiet.why = NULL;
	s.how = is_by_warps ? &quiet : how;             /* what it compares is not the last word */
	is_shared &= !s.is_merged && !s.is_nest;
	if ((k->item->tune.n > 0 || s.products) && !is_shared && (!s.is_whole || is_by_warps))
		ok = choose_products(&s, mem, values, n);
	s.how = how;
	if (s.is_whole && !is_shared)
		ok = choose_whole(k, b, t, how, is_by_warps, mem, values, n);
	if (!ok && (!is_shared || !s.products))
		ok = choose_blocks(k, b, t, how, mem, values, n);
	if (!ok || !s.is_merged)
		ok |= search_add_split(&s, mem, values, n);
	if ((s.products || b->schedule.parts > 1) && how->launches_both && (t->has & HAS_TMA))
		ok |= choose_before(k, t, how, choose_for, mem, values, n);
	return ok;
}

bool
choose_values(Kernel *k, const Bound *b, const Target *t, const ChooseBinding *how, Arena *mem, NamedConst **values, int *n)
{
	Compile *cx = k->program->cx;
	Arena *keep = cx->tmp;
	*n = 0;
	if (t && t->figures)
		return choose_simdgroups(k, b, t, how, mem, values, n);
	if (!t || !t->rates) {
		why_none(how->why, "the target's rates are not known: the header's values and the rules of tiles' sizes "
				   "stand");
		return false;
	}
	cx->tmp = arena_open();
	cx->muted++;
	bool ok = choose_for(k, b, t, how, mem, values, n);
	cx->muted--;
	arena_close(cx->tmp);
	cx->tmp = keep;
	return ok;
}
