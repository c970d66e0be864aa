/* Chooses values of tune(...) by what all passes make of each, for kernels of many products, for few rows of products with
 * decoded weights, and for a product of up to 32 rows.
 *
 *     gated_delta … tune(CHUNK = {16, 32, 64}, BV = {32, 64, 128}, warps = {4, 8})
 *
 * Three products and more, each from what the one before it leaves, are no loop that streams operands: the time goes into
 * their latencies and into tiles that change hands between them, and few are alive at once.  The estimate of products
 * (estimate.c) adds up what all of them hold and refuses nearly everything; the model of what is built (model/cost.c) sees
 * both.  That takes all passes, a hundredth of a second for so many products: so one name is changed at a time, from
 * the header's own on, and the best of its values stays.
 *
 * Of 17 to 64 rows and weights of 4 or 8 bits, warps decode in registers or for warpgroups, and divide the loop or not:
 * what is built differs by more than the estimate can tell, which took 1.0 to 3.9 of the best on an H200 (int4 in groups of
 * 64 and 128, three shapes).  There all sizes are tried by four and eight warps, then with `split` 2; the estimate's choice
 * of warpgroups, with `split` up to 4, is kept where its bill is less: of loops shared by more blocks the bill expects too
 * little, up to 2.6 times.  330 forms of 10 such kernels by 24 to 128 rows took 0.5 to 2.1 of their bills, in the median
 * 0.94 where warpgroups multiply, 1.15 where warps divide the loop.
 *
 * So are more rows where K is padded, ten 3-bit weights of each word, which the estimate does not know: 128 x 8192 x 7680
 * takes 323 us in the header's tiles of 16 x 64, 172 in the bill's least of 64 x 128 by eight warps.
 *
 * Up to 32 rows wait for memory, and loops that the block's warps divide (slice_k) take a third of those with barriers.
 * All sizes by four and eight warps are a few dozen at most, of a millisecond each.  The best by the bill took 1.00 to 1.08
 * of the best of 5 to 17 forms on an H200 (bf16, 8 and 4 bits, 1 and 16 rows), the estimate's choice up to 3.9. */
#include "compile/choose/choose.h"
#include "compile/choose/estimate.h"
#include "compile/compile.h"
#include "compile/inspect.h"
#include "pass/async/pipeline.h"
#include "pass/layout/dot.h"
#include "pass/share/split_k.h"

#include <math.h>
#include <string.h>

enum { SPLIT_BILLED = 4, NAMES_MOST = 8, TRIED_MOST = 24, FORMS_MOST = 48, PRODUCTS = 3 };
enum { ROWS_LEAST = 17, ROWS_MOST = 64 };
/* Loops with a merge whose warps divide them: 276 us by the bill where the header's form has 304, and on an H200 207, 192
 * (attention_decode, 64 lengths of 1000 to 4096). */
static const double MERGED = 0.9;
static const double SAME = 0.99, CLEARLY = 0.95, FEW_CLEARLY = 0.98, IDLE = 1.01, NEAR = 1.5;
/* Registers that a thread holds by its IR for one that ptxas takes: of those that need more than there are so, ptxas spills
 * (450 forms of 13 kernels with decoded weights: in 30 of 43, and in 2 of the others).  What that costs. */
static const double HELD = 1.5, SPILLED = 1.25;
/* Eight warps on a multiprocessor take 1.27 of what four do beside their bills, which expect too much of waits that few
 * overlap (44 pairs of forms of 8 kernels with decoded weights, 1 to 16 rows, H200).  By more than 1.1 others lose: 8-bit
 * floats, 24 x 5120 x 3840, would take 14.3 us, 12.5 so. */
static const double EIGHT = 1.1;

typedef struct Whole {
	Kernel *k;
	const Target *t;
	const ChooseBinding *how;
	Candidates apart;
	NamedConst value[NAMES_MOST], best_value[NAMES_MOST];
	int n, best_n, tried;
	int slots;                                      /* that the present values should have; 0: as they have */
	bool is_few;                                    /* rows: up to 32 */
	bool is_merged;                                 /* of a loop with merge, which choose_split divides */
	bool is_plain;                                  /* few rows, and operands that are read as they are */
	bool is_parts;                                  /* of which more blocks than programs are compared */
	bool decodes;                                   /* threads decode weights */
	bool gathers;                                   /* rows by indices, which the estimate of products does not know */
	bool is_built;                                  /* by the model of what is built; the estimate knows no such loop */
	bool is_by_warps;                               /* candidates by warpgroups are left to the estimate of products */
	double best;
	Bill first;
} Whole;

static bool
are_few(int64_t rows)
{
	return rows >= ROWS_LEAST && rows <= ROWS_MOST;
}

/* Of a parameter that the header lists, or only gives as a number. */
static bool
has_few_rows(const Kernel *k, const Bound *b)
{
	if (ANY_OF(i, k->item->tune.n, are_few(choose_divided(k, b, k->item->tune.at[i].name))))
		return true;
	for (int i = 0; i < k->item->ctparams.n; i++) {
		const CtParam *p = &k->item->ctparams.at[i];
		if (p->value && p->value->kind == EX_INT && are_few(choose_divided(k, b, p->name)))
			return true;
	}
	return false;
}

/* Would products run in roles with rows for more warps? */
static bool
may_part(Func *f, const Target *t)
{
	static const int warpgroup[] = {4};
	return t && (t->has & HAS_SETMAXNREG) && dots_part(f) && choose_warps(f, t, warpgroup, LEN(warpgroup)) > 0;
}

/* The estimate knows chained products in roles, and those of a loop with what one behind it adds, as an adapter's. */
bool
choose_is_whole(const Kernel *k, Func *f, const Bound *b, const Target *t)
{
	Schedule open = b->schedule;
	open.specialize = -1;
	if (choose_count_dots(f) >= PRODUCTS && (choose_count_in_loops(f) >= PRODUCTS || dots_are_chained(f, f->body)) &&
	    !(t && t->has & HAS_WGMMA && choose_are_streams(f)))
		return !choose_roles(f, &open, t) && !may_part(f, t) &&
		    !(choose_has_few(k, b) && !dots_are_chained(f, f->body));
	return choose_decodes(f) && (has_few_rows(k, b) || (choose_pads_depth(f) && !choose_has_few(k, b)));
}

/* Warps do the products, and the choice is made by bills with the registers of the thread IR: the bill's own guess is made
 * for what reduces. */
static bool
decodes_in_warps(const Whole *s, const Func *f)
{
	return s->decodes && !block_find(f->body, OP_DOT_START);
}

/* *beyond: times what the bill does not know of that. */
static bool
bill_lowered(const Whole *s, const Bound *b, Func *f, Bill *bill, double *beyond)
{
	Pressure p;
	Inspection x = {.f = f, .t = s->t};
	if (!decodes_in_warps(s, f) || !pressure_estimate(f, s->t, &p) || p.held == 0)
		return choose_bill(b, f, s->t, s->apart.mem, bill) ||
		    (s->decodes && estimate_bill(f, b, s->t, s->apart.mem, NULL, bill));    /* trimmed rows */
	inspect_resources(&x, MIN((int)(p.held / HELD), p.limit), 0, 0);
	if (!estimate_built(f, b, &x, s->apart.mem, NULL, bill))
		return false;
	double blocks = MIN(bill->blocks, ceil(bill->launched / s->t->rates->multiprocessors));
	*beyond *= (p.held > HELD * p.limit ? SPILLED : 1) * (blocks * f->schedule.warps >= 8 ? EIGHT : 1);
	return true;
}

/* Of a launch whose grid leaves no room for the next one's blocks, what those hide of its start where they stand beside it,
 * on multiprocessors that have none: 8 x 2048 x 8192 takes 10.1 us by 64 programs, 12.1 by two blocks each, of half the
 * loop; 1 x 1536 x 8960 9.2 by 48 and 11.5. */
static double
exposed(const Whole *s, const Bill *bill)
{
	static const double START = 6000;
	double room = (double)bill->blocks * s->t->rates->multiprocessors - bill->launched;
	return s->is_parts && (s->t->has & HAS_GRID_WAIT) ? START * (1 - fmin(fmax(room / bill->launched, 0), 1)) : 0;
}

/* Cycles with the present values; below 0: there is no bill. */
static double
bill_of(Whole *s, Bill *bill)
{
	Bound b;
	candidates_next(&s->apart);
	*bill = (Bill){.cycles = -1, .refused = "the header refuses it, or it does not compile"};
	if (!s->how->bind(s->how->user, s->value, s->n, &b))
		return -1;
	Func *f = choose_compile(s->k, &b, s->t, NULL);
	double beyond = f ? choose_beyond(f, s->t, s->is_few || decodes_in_warps(s, f), s->is_merged, s->is_plain) : 1;
	bool is_open = b.schedule.stages <= 0 && !s->how->is_fixed(s->how->user, schedule_info[SCHEDULE_STAGES].text);
	s->slots = f && s->is_plain && is_open ? choose_deeper(f, &b, s->t) : 0;
	if (f && !(s->is_built ? estimate_bill(f, &b, s->t, s->apart.mem, NULL, bill)
				 : bill_lowered(s, &b, f, bill, &beyond)))
		*bill = (Bill){.cycles = -1, .refused = "its products are not modelled"};
	if (f && s->is_by_warps && block_find(f->body, OP_DOT_START))
		*bill = (Bill){.cycles = -1, .refused = "warpgroups multiply: the estimate chooses among those"};
	return bill->cycles < 0 ? -1 : bill->cycles * beyond + exposed(s, bill);
}

/* The present values are the best if their bill, times `share`, is less than `margin` of that of any before. */
static void
compare(Whole *s, double share, double margin)
{
	Bill bill;
	double cycles = share * bill_of(s, &bill);
	int n = s->n;
	if (s->slots && cycles < NEAR * s->best && n < NAMES_MOST) {
		s->value[s->n++] = choose_word(SCHEDULE_STAGES, s->slots);
		cycles = share * bill_of(s, &bill);
	}
	why_tried(s->how->why, s->value, s->n, cycles, &bill, NULL);
	if (cycles >= 0 && cycles < margin * s->best) {
		s->best = cycles;
		s->best_n = s->n;
		memcpy(s->best_value, s->value, sizeof s->value);
	}
	s->n = n;
}

/* The present values with two warpgroups and a thread that copies for them, where tiles have rows for that and nothing says
 * how many warps.  Of chains that the estimate does not know the bill expects too little of roles: on an H200 960 us where
 * the same tile takes 1050 flat, 422 for 478 (gradients of attention with a window, and causal); more than flat by it. */
static void
compare_roles(Whole *s)
{
	enum { WARPS = 8 };
	static const double ROLES = 0.8;
	Bound b;
	candidates_next(&s->apart);
	if (choose_is_said(s->k, s->how, SCHEDULE_WARPS) || s->n == NAMES_MOST ||
	    !s->how->bind(s->how->user, s->value, s->n, &b) || b.schedule.warps > 0)
		return;
	Func *f = choose_simplified(s->k, &b, s->t);
	b.schedule.warps = WARPS;
	if (!f || !choose_roles(f, &b.schedule, s->t))
		return;
	s->value[s->n++] = choose_word(SCHEDULE_WARPS, WARPS);
	compare(s, ROLES, 1);
}

static void
try(Whole *s, const char *name, const Const *value)
{
	int at = 0;
	memcpy(s->value, s->best_value, sizeof s->value);
	s->n = s->best_n;
	while (at < s->n && strcmp(s->value[at].name, name) != 0)
		at++;
	s->value[at] = (NamedConst){name, *value, NOWHERE};
	s->n = MAX(s->n, at + 1);
	s->tried++;
	compare(s, 1, 1);
	if (s->is_built)
		compare_roles(s);
}

/* The best that is known, which the header has where nothing was better. */
static bool
is_best(const Whole *s, const Bound *first, const char *name, const Const *value)
{
	int at = ctparam_named(s->k, name), word = schedule_named(name);
	for (int i = 0; i < s->best_n; i++)
		if (strcmp(s->best_value[i].name, name) == 0)
			return s->best_value[i].value.kind == value->kind && s->best_value[i].value.i == value->i;
	return at >= 0 ? first->ct[at].value.kind == value->kind && first->ct[at].value.i == value->i
	               : word >= 0 && first->schedule.at[word] == value->i;
}

/* Does the header or the caller say how many blocks share a loop? */
static bool
split_stands(const Whole *s, const Bound *b)
{
	return b->schedule.split > 0 || choose_is_said(s->k, s->how, SCHEDULE_SPLIT);
}

/* As many blocks as share the loop with the present values, where the header does not say; and how they join. */
static void
add_parts(Whole *s)
{
	Bound b;
	candidates_next(&s->apart);
	if (s->n == NAMES_MOST || !s->how->bind(s->how->user, s->value, s->n, &b))
		return;
	bool stands = split_stands(s, &b);
	const Func *f = stands ? NULL : choose_simplified(s->k, &b, s->t);
	int64_t split = f ? choose_split_of(f, &b, s->t) : b.schedule.split;
	if (split > 1 && !stands)
		s->value[s->n++] = choose_word(SCHEDULE_SPLIT, split);
	bool in_memory = f && split_joins(f);
	if (split > 1 && s->n < NAMES_MOST && b.schedule.ctas == 0 && !in_memory && choose_takes_turns(&b, s->t, split))
		s->value[s->n++] = choose_word(SCHEDULE_CTAS, 1);
}

/* The names from `at` on in all their values, the last ones first: of those that take the same by the bill larger steps
 * stay. */
static void
try_each(Whole *s, const TuneName *name, int n, int at)
{
	if (at < n) {
		for (int v = name[at].nvalue - 1; v >= 0; v--) {
			s->value[at] = (NamedConst){name[at].name, name[at].value[v], NOWHERE};
			try_each(s, name, n, at + 1);
		}
		return;
	}
	s->n = n;
	if (s->is_merged)
		add_parts(s);
	compare(s, 1, SAME);
}

static void
try_all(Whole *s, const Bound *first, const TuneName *name)
{
	if (s->how->is_fixed(s->how->user, name->name))
		return;
	for (int v = 0; v < name->nvalue && s->tried < TRIED_MOST; v++)
		if (!is_best(s, first, name->name, &name->value[v]))
			try(s, name->name, &name->value[v]);
}

/* Blocks that share the loop, where the header does not say how many. */
static void
try_split(Whole *s, const Bound *first)
{
	Const two = {.kind = CONST_INT, .i = 2};
	const TuneName name = {.name = schedule_info[SCHEDULE_SPLIT].text, .value = &two, .nvalue = 1};
	if (!split_stands(s, first))
		try_all(s, first, &name);
}

/* Values that hardly count stay as the header or the passes have them. */
static void
drop_idle(Whole *s)
{
	Bill bill;
	for (int i = s->best_n - 1; i >= 0 && s->best_n > 1; i--) {
		int which = schedule_named(s->best_value[i].name);              /* the bill knows of no turns */
		if (which == SCHEDULE_CTAS || (which == SCHEDULE_STAGES && s->is_plain))
			continue;
		s->n = 0;
		for (int k = 0; k < s->best_n; k++)
			if (k != i)
				s->value[s->n++] = s->best_value[k];
		double cycles = bill_of(s, &bill);
		if (cycles < 0 || cycles > IDLE * s->best)
			continue;
		s->best_n = s->n;
		memcpy(s->best_value, s->value, sizeof *s->value * (size_t)s->n);
	}
}

static bool
is_open(const Whole *s, const TuneName *name)
{
	return name->nvalue > 0 && !s->how->is_fixed(s->how->user, name->name);
}

/* Sizes and warps that are open, as many as make few enough forms; the others stay as the header has them. */
static int
few_names(const Whole *s, const TuneName *all, int n, TuneName *out)
{
	static const Const warps[] = {
	    {.kind = CONST_INT, .i = 2}, {.kind = CONST_INT, .i = 4}, {.kind = CONST_INT, .i = 8}};
	const char *word = schedule_info[SCHEDULE_WARPS].text;
	const TuneName more = {.name = word, .value = (Const *)warps + !s->is_merged,
	    .nvalue = LEN(warps) - !s->is_merged};
	bool stands = ctparam_named(s->k, word) >= 0 || header_mentions(s->k, word) ||
	    ANY_OF(i, n, schedule_named(all[i].name) == SCHEDULE_WARPS);
	int found = 0;
	int64_t forms = 1;
	for (int i = 0; i <= n; i++) {
		const TuneName *name = i < n ? &all[i] : &more;
		int which = schedule_named(name->name);
		bool is_word = which == SCHEDULE_WARPS || (which == SCHEDULE_STAGES && s->is_merged);
		bool counts = i < n ? which < 0 || is_word : !stands;
		if (!counts || !is_open(s, name) || found == NAMES_MOST || forms * name->nvalue > FORMS_MOST)
			continue;
		forms *= name->nvalue;
		out[found++] = *name;
	}
	return found;
}

static void
search(Whole *s, const Bound *first, Arena *apart)
{
	TuneName *all;
	int n;
	s->best = bill_of(s, &s->first);
	s->is_built = s->best < 0 && !s->is_by_warps;
	if (s->is_built)
		s->best = bill_of(s, &s->first);
	why_tried(s->how->why, NULL, 0, s->best, &s->first, NULL);
	double header = s->best < 0 ? INFINITY : s->best;
	s->best = header;
	s->k->program->cx->mem = apart;
	if (!kernel_tune(s->k, first, &all, &n))
		return;
	const Func *f = choose_simplified(s->k, first, s->t);
	s->gathers = f && choose_gathers(f);
	if (f)
		choose_add_sides(s->k, first, s->t, s->how, f, apart, &all, &n);
	choose_join_rows(s->k, first, s->how, apart, all, n);
	s->n = 0;
	if (s->is_built)
		compare_roles(s);
	if (s->is_by_warps) {
		TuneName name[NAMES_MOST];
		try_each(s, name, few_names(s, all, n, name), 0);
		try_split(s, first);
	}
	for (int i = 0; i < MIN(n, NAMES_MOST - 1) && !s->is_by_warps; i++)
		try_all(s, first, &all[i]);
	if (s->best > (s->is_by_warps ? FEW_CLEARLY : CLEARLY) * header)       /* a step may be small, all of them not */
		s->best_n = 0;
	s->best = s->best_n ? s->best : header;
	drop_idle(s);
}

/* Cycles of what the estimate of products chose; infinite: there is no bill, or none to go by. */
static double
other_bill(Whole *s, const NamedConst *values, int n)
{
	Bill bill;
	if (ANY_OF(i, n, n > NAMES_MOST || (schedule_named(values[i].name) == SCHEDULE_SPLIT &&
	    values[i].value.i > SPLIT_BILLED)))
		return INFINITY;
	memcpy(s->value, values, sizeof *values * (size_t)n);
	s->n = n;
	s->is_by_warps = false;
	double cycles = bill_of(s, &bill);
	why_tried(s->how->why, s->value, n, cycles, &bill, NULL);
	return cycles < 0 ? INFINITY : cycles;
}

bool
choose_whole(Kernel *k, const Bound *b, const Target *t, const ChooseBinding *how, bool is_by_warps, Arena *mem,
    NamedConst **values, int *n)
{
	Compile *cx = k->program->cx;
	Arena *apart = arena_open();
	Whole s = {.k = k, .t = t, .how = how, .apart = candidates_open(k), .is_by_warps = is_by_warps,
	    .decodes = is_by_warps};
	search(&s, b, apart);
	bool is_other = *n > 0 && !s.gathers;
	cx->mem = s.apart.keep;
	if (is_other)
		choose_trim(k, b, t, how, *values, n);
	is_other = is_other && other_bill(&s, *values, *n) < s.best;
	candidates_close(&s.apart);
	if (!is_other) {
		*n = s.best_n;
		*values = NEW_ARRAY(mem, NamedConst, s.best_n + 3);
		for (int i = 0; i < s.best_n; i++)
			(*values)[i] = (NamedConst){
			    intern(cx->names, s.best_value[i].name), s.best_value[i].value, NOWHERE};
	}
	arena_close(apart);
	choose_trim(k, b, t, how, *values, n);
	if (*n > 0 && how->why)
		choose_explain(*values, *n, b, &s.first, t, &how->why->chosen);
	return *n > 0;
}

/* Blocks share the loop of each program, where the best tiles make programs for less than half of the multiprocessors; or
 * two on each do, of what waits for memory.  What joining takes the bill knows little of.  Plain products join through
 * memory, as blocks of a cluster start and end together: by two 16 x 1024 x 8192 takes an H200 7.6 us so and 8.3 in
 * clusters, 8 x 1024 x 12288 9.3 and 10.6, 5 x 1280 x 13440 12.9 and 14.9, 4 x 1024 x 28672 18.7 and 21.7, by four 13 x 512
 * x 16384 7.9 and 9.9; of 27 pairs of forms of eleven products none is faster in clusters. */
static void
try_parts(Whole *s, const Bound *first)
{
	static const double JOINED = 1.06, BESIDE = 1.15;       /* more for each doubling; for two of a multiprocessor */
	int at = s->best_n, all = s->t->rates->multiprocessors;
	Bound b;
	Bill bill;
	if (at == NAMES_MOST || !(s->t->has & HAS_CLUSTER) || split_stands(s, first))
		return;
	memcpy(s->value, s->best_value, sizeof s->value);
	s->n = at;
	double programs = s->how->bind(s->how->user, s->value, at, &b) ? choose_programs(&b) : 0, more = JOINED;
	s->is_parts = s->is_plain;
	if (s->is_parts)
		s->best = bill_of(s, &bill);
	for (int64_t n = 2; programs > 0 && n <= SPLIT_CLUSTER && programs <= all && n / 2 * programs <= all; n *= 2) {
		s->value[at] = choose_word(SCHEDULE_SPLIT, n);
		s->n = at + 1;
		bool in_memory = s->is_plain ? (s->t->has & HAS_ATOMIC_ORDER) != 0 : choose_takes_turns(&b, s->t, n);
		if (in_memory && s->n < NAMES_MOST && b.schedule.ctas == 0)
			s->value[s->n++] = choose_word(SCHEDULE_CTAS, 1);
		compare(s, (double)n * programs > all ? more * BESIDE : more, 1);
		more += JOINED - 1;
	}
}

bool
choose_few(Kernel *k, const Bound *b, const Target *t, const ChooseBinding *how, const TuneName *all, int n,
    bool is_merged, NamedConst *values, int *nvalues, Bill *header)
{
	Whole s = {.k = k, .t = t, .how = how, .apart = candidates_open(k), .best = INFINITY, .is_few = true,
	    .is_merged = is_merged};
	TuneName name[NAMES_MOST];
	candidates_next(&s.apart);
	const Func *f = is_merged ? NULL : choose_simplified(k, b, t);
	s.decodes = f && choose_decodes(f);
	s.is_plain = !is_merged && !s.decodes;
	double own = is_merged || how->why ? bill_of(&s, header) : -1;
	if (how->why)                                   /* the choice is explained beside it */
		why_tried(how->why, NULL, 0, own, header, NULL);
	try_each(&s, name, few_names(&s, all, n, name), 0);
	if (is_merged && s.best > MERGED * own)
		s.best_n = 0;
	if (s.best_n) {
		drop_idle(&s);
		if (!is_merged)
			try_parts(&s, b);
	}
	candidates_close(&s.apart);
	memcpy(values, s.best_value, sizeof *values * (size_t)s.best_n);
	*nvalues = s.best_n;
	if (s.best_n && !is_merged && s.best_n < NAMES_MOST)
		*nvalues += choose_slots(k, b, t, how, values, s.best_n);
	return s.best_n > 0;
}
