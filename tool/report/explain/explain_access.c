/* Which accesses are coalesced, and how wide they are. */
#include "tool/report/explain/explain.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double SLIGHT = 1.1; /* times the fewest sectors: few more */

static bool
is_access(const ExplainLine *l)
{
	static const char *const word[] = {
	    "read", "write", "load", "store", "copy", "send", "gather", "scatter", "atomic"};
	return explain_begins(l->what, word, LEN(word));
}

static const InspectCount *
counted(const ExplainLine *l)
{
	return l->x->counted && l->x->counted->n > 0 ? l->x->counted : NULL;
}

double
explain_sectors(const ExplainLine *l, double *least)
{
	const InspectCount *c = counted(l);
	*least = c ? (double)c->least / (double)c->n : l->x->least;
	return c                                         ? (double)c->total / (double)c->n
	       : l->x->sectors_known || l->x->bytes == 0 ? l->x->touched
							 : -1;
}

bool
explain_is_held(const ExplainLine *l)
{
	return l->x->again > 0 && l->x->again >= l->x->accesses;
}

/* Times the fewest; at least 1. */
static double
ratio(const ExplainLine *l)
{
	double least, n = explain_sectors(l, &least);
	if (!counted(l) && l->x->mean > 0)
		return l->x->mean;
	return least > 0 && n > least ? n / least : 1;
}

const BankPlan *
explain_banks(const ExplainLine *l)
{
	const BankPlan *b[] = {&l->x->in, &l->x->out};
	return VALUE_OF(i, LEN(b), b[i]->bytes && b[i]->passes > b[i]->least, b[i], NULL);
}

/* A warp's access takes a turn for four sectors. */
static double
turns(double sectors)
{
	enum { AT_ONCE = 4 };
	return MAX(ceil(sectors / AT_ONCE), 1);
}

/* What its sectors, turns and passes beyond the fewest take of the launch's parts, µs. */
static void
beyond(const Explain *s, const ExplainLine *l, double less[BILL_PARTS])
{
	const LineBill *spent = explain_spent(s, l->line);
	double least, passes = 0, n = explain_sectors(l, &least);
	memset(less, 0, BILL_PARTS * sizeof *less);
	for (int i = 0; i < 2; i++) {
		const BankPlan *b = i ? &l->x->out : &l->x->in;
		if (b->bytes && b->passes > b->least)
			passes = MAX(passes, 1 - (double)b->least / b->passes);
	}
	less[BILL_SHARED] = passes * explain_spent_us(s, spent, BILL_SHARED);
	if (least <= 0 || n < 0)
		return;
	less[BILL_SECTORS] = (1 - 1 / ratio(l)) * explain_spent_us(s, spent, BILL_SECTORS);
	less[BILL_REQUESTS] = (1 - MIN(turns(least) / turns(least * ratio(l)), 1)) *
			      explain_spent_us(s, spent, BILL_REQUESTS);
}

double
explain_cost(const Explain *s, const ExplainLine *l, BillPart *part)
{
	double less[BILL_PARTS];
	beyond(s, l, less);
	bool requests = explain_part(s, BILL_REQUESTS) > explain_part(s, BILL_SECTORS);
	*part = less[BILL_SHARED] > 0                  ? BILL_SHARED
		: requests && less[BILL_REQUESTS] > 0 ? BILL_REQUESTS
						      : BILL_SECTORS;
	return less[*part];
}

double
explain_fewest(const Explain *s, const ExplainLine *l)
{
	double less[BILL_PARTS];
	beyond(s, l, less);
	return explain_shorter(s, less);
}

/* Do its accesses have sectors in common, so that together they take the fewest? */
static bool
is_shared(const ExplainLine *l)
{
	return l->x->cause && strstr(l->x->cause, "the rest of the same sectors");
}

const char *
explain_waste(const Explain *s, const ExplainLine *l, bool *weighs)
{
	BillPart part;
	double least, n = explain_sectors(l, &least), cost = explain_cost(s, l, &part);
	double gain = s->us - explain_fewest(s, l); /* less than the cost where another part is then the longest */
	bool any = (least > 0 && n > least && !is_shared(l)) || explain_banks(l),
	     is_much = explain_matters(s, cost);
	*weighs =
	    any &&
	    (cost <= 0 || (is_much && explain_term(s, part) >=
					  REPORT_NEAR * explain_term(s, explain_bounding(s))));
	if (!any || cost <= 0)
		return "";
	return !is_much  ? "costs next to nothing"
	       : *weighs ? arena_printf(s->mem, "costs at most %s of the launch",
			       explain_micro(s, gain > 0 ? gain : cost))
			 : arena_printf(s->mem,
			       "costs %s of the %s of %s, which does not bound the kernel",
			       explain_micro(s, cost), bill_part_names[part],
			       explain_micro(s, explain_part(s, part)));
}

const char *
explain_mean(const Explain *s, const ExplainLine *l)
{
	return l->x->mean > 0 ? arena_printf(s->mem, " at worst, %s times the fewest in the mean",
				    explain_round(s, l->x->mean))
			      : "";
}

/* The pitch of rows that would permit accesses of 16 bytes. */
static const char *
explain_pitch(const Explain *s, const ExplainLine *l)
{
	static const char rows[] = "rows are ";
	static const double SAVES = .07;
	const char *at = l->x->cause ? strstr(l->x->cause, rows) : NULL;
	char *end = NULL;
	long pitch = at ? strtol(at + sizeof rows - 1, &end, 10) : 0, wide = (pitch + 15) / 16 * 16;
	long size = l->x->tile ? dtype_info[l->x->tile->elem].bits / 8 : 0;
	if (pitch % 16 == 0 || size == 0 || !end || strncmp(end, " bytes apart", 12) != 0)
		return "";
	if (strncmp(end + 12, ", of which", 10) == 0)
		return "; in a tensor of its own, with rows a multiple of 16 bytes apart, 16 bytes would go at once";
	/* kernels with narrow accesses took 1.12 times their estimate in the median, others 1.05 (h200-estimates.md) */
	bool costs = explain_longest(s, -1) == BILL_MEMORY && (double)(wide - pitch) > SAVES * (double)pitch;
	return arena_printf(s->mem,
	    "; with rows %ld bytes apart, %ld elements of which %ld are padding, 16 bytes would go at once%s", wide,
	    wide / size, (wide - pitch) / size, costs ? WITH_PADDING : "");
}

bool
explain_can_be_ahead(const Explain *s, const ExplainLine *l)
{
	return *explain_pitch(s, l);
}

const char *
explain_not_ahead(const Explain *s, const ExplainLine *l)
{
	return arena_printf(s->mem, "not copied ahead, so that each trip waits for it: %s%s",
	    l->x->not_ahead, explain_pitch(s, l));
}

/* "8 sectors, 4 would do (…), at most 1.2 µs of the launch" */
static const char *
say_sectors(const Explain *s, const ExplainLine *l)
{
	Text t = {0};
	bool weighs;
	double least, n = explain_sectors(l, &least);
	const char *waste = explain_waste(s, l, &weighs);
	text_printf(&t, "%s sectors%s, %s would do", explain_round(s, n), explain_mean(s, l),
	    explain_round(s, least));
	if (l->x->cause)
		text_printf(&t, " (%s%s)", l->x->cause, explain_pitch(s, l));
	if (l->x->counted)
		text_put(&t, ", as counted");
	if (*waste)
		text_printf(&t, "; %s", waste);
	return text_take(&t, s->mem);
}

/* What accesses of a kernel are like: sentences of each sort. */
typedef struct Accesses {
	TextList wasted, slight, unknown, random, shared, good, mapped, narrow, banks;
	TextList bad, odd; /* lines: of those that weigh, and of all with more than the fewest */
	double most;       /* times the fewest, of the slight ones */
} Accesses;

/* Accesses of a line that are alike in all but the tensor stand once: "line 3 read x, read y: 8
 * sectors, 4 would do". */
static void
add_alike(const Explain *s, TextList *all, const ExplainLine *l, const char *what)
{
	const char *head = arena_printf(s->mem, "line %d ", l->line),
		   *tail = arena_printf(s->mem, ": %s", what);
	size_t n = strlen(head), m = strlen(tail);
	for (int i = 0; i < all->n; i++) {
		const char *had = all->at[i];
		size_t length = strlen(had);
		if (length < n + m || strncmp(had, head, n) != 0 ||
		    strcmp(had + length - m, tail) != 0)
			continue;
		const char *names = arena_strndup(s->mem, had + n, length - n - m);
		if (!strstr(names, l->what))
			all->at[i] = arena_printf(s->mem, "%s%s, %s%s", head, names, l->what, tail);
		return;
	}
	explain_add(s, all, arena_printf(s->mem, "%s%s%s", head, l->what, tail));
}

/* Bytes that all threads move by it for a program; 0: it is no access. */
static double
bytes_of(const ExplainLine *l)
{
	bool moves = (l->x->kind == INSPECT_ACCESS || l->x->kind == INSPECT_COPY) && l->x->tile &&
		     is_access(l);
	return moves ? (double)tile_bytes(l->x->tile) * (l->runs >= 0 ? l->runs : 1) : 0;
}

/* The source has one, the code several, as of trips that are unrolled: the worst stands for them.
 */
static bool
is_one_access(const ExplainLine *a, const ExplainLine *b)
{
	return a->line == b->line && a->col == b->col && strcmp(a->what, b->what) == 0;
}

/* Of what accesses move, is it a share that may be worth something? */
static bool
moves_much(const Explain *s, const ExplainLine *l)
{
	static const double MUCH = .2; /* narrow kernels take up to 1.26 of their estimate: then 5 % */
	double all = 0, own = 0;
	for (int i = 0; i < s->lines.n; i++) {
		double bytes = bytes_of(&s->lines.at[i]);
		all += bytes;
		own += is_one_access(&s->lines.at[i], l) ? bytes : 0;
	}
	return own >= MUCH * all;
}

static bool
is_narrow(const Explain *s, const ExplainLine *l)
{
	const InspectLine *x = l->x;
	bool is_copy = strncmp(l->what, "copy", 4) == 0;
	return is_access(l) && x->bytes > 0 && x->bytes <= 4 && x->wider > x->bytes &&
	       (x->accesses > 1 || !is_copy) && (s->us <= 0 || explain_weighs(s, l->line)) &&
	       moves_much(s, l);
}

bool
explain_is_spread(const ExplainLine *l)
{
	double least, n = explain_sectors(l, &least);
	return l->x->bytes > 0 && l->x->bytes <= 4 && l->x->accesses > 1 && n > 1.5 * least &&
	       n < 8 * least && l->x->cause &&
	       strncmp(l->x->cause, "neighbouring lanes are ", 23) == 0;
}

bool
explain_is_narrow(const Explain *s, const ExplainLine *l)
{
	bool rows = is_access(l) && l->x->bytes > 0 && l->x->bytes <= 4 && l->x->accesses > 1 &&
		    *explain_pitch(s, l);
	bool spread = is_access(l) && explain_is_spread(l);
	return is_narrow(s, l) ||
	       ((rows || spread) && (s->us <= 0 || explain_weighs(s, l->line)) && moves_much(s, l));
}

bool
explain_any_narrow(const Explain *s)
{
	return ANY_OF(i, s->lines.n, explain_is_narrow(s, &s->lines.at[i]) && !explain_is_spread(&s->lines.at[i]));
}

const char *
explain_narrow(const Explain *s)
{
	for (int i = 0; i < s->lines.n; i++) {
		const ExplainLine *l = &s->lines.at[i];
		if (explain_is_narrow(s, l) && !explain_is_spread(l))
			return arena_printf(s->mem, "line %d %s, %d byte%s at once", l->line, l->what, l->x->bytes,
			    l->x->bytes == 1 ? "" : "s");
	}
	return "";
}

static bool
has_tile(const Explain *s)
{
	return ANY_OF(i, s->b->nct, report_is_part(s->b->kernel, s->b->ct[i].name));
}

static const char WITHOUT_TILE[] = "a program for several rows, or a larger tile, permits that";

const char *
explain_widen(const Explain *s, const ExplainLine *l)
{
	const char *cause = l->x->cause ? l->x->cause : "", *pitch = explain_pitch(s, l);
	return *pitch ? pitch + 2
	       : explain_is_spread(l)
		   ? "one read of these with the elements between them (a range, `i +: n`), which "
		     "a "
		     "reshape parts, or a tensor in which these are adjacent, permits that"
	       : strstr(cause, "strides are known at launch only")
		   ? "a tensor of which one dimension is contiguous permits that"
	       : strstr(cause, "an index of its own")
		   ? "a range (`i +: B`) in place of an index for each element permits that"
	       : l->x->accesses > 1  ? ""
	       : has_tile(s) ? WITH_LARGER
				     : WITHOUT_TILE;
}

static void
add_narrow(const Explain *s, const ExplainLine *l, Accesses *a)
{
	int held = l->x->accesses * l->x->bytes, wider = l->x->accesses > 1 ? MIN(l->x->wider, held) : l->x->wider;
	if (is_narrow(s, l) && !explain_is_beside_whole(s, l))
		explain_add(s, &a->narrow,
		    arena_printf(s->mem,
			"line %d %s, %d access%s of %d bytes a thread where %d bytes would be "
			"possible%s",
			l->line, l->what, l->x->accesses, l->x->accesses > 1 ? "es" : "",
			l->x->bytes, wider,
			wider < l->x->wider   ? arena_printf(s->mem, ", and %d if it had more", l->x->wider)
			: l->x->accesses > 1  ? ""
			: has_tile(s) ? " in a larger tile"
					      : " if a program had several rows"));
}

static void
add_access(const Explain *s, const ExplainLine *l, Accesses *a)
{
	double least, n = explain_sectors(l, &least);
	if (strncmp(l->details, "by tensor map", 13) == 0) {
		explain_add(s, &a->mapped, explain_map_rows(s, l));
		return;
	}
	if (l->x->bytes == 0 || explain_is_held(l))
		return;
	add_narrow(s, l, a);
	if (n < 0) {
		bool bounds;
		explain_add(s, &a->unknown, explain_placed(s, l, &bounds));
		explain_add(s, &a->random, bounds ? arena_printf(s->mem, "%d", l->line) : "");
	} else if (n > least && is_shared(l)) {
		explain_add(s, &a->shared,
		    arena_printf(s->mem, "line %d %s, %s sectors at once where its bytes fill %s", l->line, l->what,
			explain_round(s, n), explain_round(s, least)));
	} else if (n <= least) {
		explain_add(
		    s, &a->good, arena_printf(s->mem, "%d:%d %s", l->line, l->col, l->what));
	} else if (ratio(l) >= SLIGHT) {
		bool weighs;
		explain_waste(s, l, &weighs);
		add_alike(s, &a->wasted, l, say_sectors(s, l));
		explain_add(s, weighs ? &a->bad : &a->odd, arena_printf(s->mem, "%d", l->line));
	} else {
		add_alike(s, &a->slight, l, say_sectors(s, l));
		a->most = MAX(a->most, ratio(l));
	}
}

static int
by_cost(const Explain *s, const ExplainLine *x, const ExplainLine *y)
{
	BillPart part;
	double a = explain_cost(s, x, &part), b = explain_cost(s, y, &part), least;
	if (a <= 0 && b <= 0) /* where data says, before what is known to be good */
		return (explain_sectors(y, &least) < 0) - (explain_sectors(x, &least) < 0);
	return a > b ? -1 : a < b;
}

/* Accesses, those that cost the most first; else by the text. */
static ExplainLines
accesses(const Explain *s)
{
	ExplainLines all = {0};
	for (int i = 0; i < s->lines.n; i++) {
		const ExplainLine *l = &s->lines.at[i];
		int had = 0;
		while (had < all.n && !is_one_access(&all.at[had], l))
			had++;
		if (!is_access(l) || (had < all.n && by_cost(s, l, &all.at[had]) >= 0))
			continue;
		if (had == all.n)
			vec_push(s->mem, &all, *l);
		all.at[had] = *l;
		for (int k = had; s->us > 0 && k > 0 && by_cost(s, &all.at[k], &all.at[k - 1]) < 0;
		     k--) {
			ExplainLine less = all.at[k - 1];
			all.at[k - 1] = all.at[k];
			all.at[k] = less;
		}
	}
	return all;
}

static void
add_banks(const Explain *s, const ExplainLine *l, Accesses *a)
{
	for (int i = 0; i < 2; i++) {
		const BankPlan *b = i ? &l->x->out : &l->x->in;
		if (b->bytes && b->passes > b->least)
			explain_add(s, &a->banks,
			    arena_printf(s->mem,
				"line %d %s %s it, %d passes of the fewest possible %d", l->line,
				l->what, i ? "from" : "into", b->passes, b->least));
	}
}

/* "line 3", "lines 3, 4 and 9" */
const char *
explain_line_list(const Explain *s, const TextList *l)
{
	TextList head = *l;
	head.n--;
	return l->n < 2 ? arena_printf(s->mem, "line %s", l->n ? l->at[0] : "")
			: arena_printf(s->mem, "lines %s and %s", explain_join(s, &head, ", "),
			      l->at[l->n - 1]);
}

static const char *
brief_of(const Explain *s, const Accesses *a)
{
	bool any = a->good.n + a->mapped.n + a->shared.n + a->slight.n > 0;
	const char *narrow = a->narrow.n ? "; some could be wider" : "",
		   *banks = a->banks.n ? "; bank conflicts of shared memory" : "";
	if (a->bad.n)
		return arena_printf(s->mem, "No: %s.", explain_line_list(s, &a->bad));
	if (a->odd.n)
		return arena_printf(s->mem, "All but %s, which do%s not bound the kernel%s%s.",
		    explain_line_list(s, &a->odd), a->odd.n > 1 ? "" : "es", narrow, banks);
	if (a->random.n)
		return arena_printf(s->mem,
		    "%s%s, where data says, at random a sector for each lane: that bounds the kernel%s%s.",
		    any ? "Yes, but for " : "Not ", explain_line_list(s, &a->random), narrow, banks);
	if (a->unknown.n)
		return arena_printf(s->mem, "%s data says%s%s.",
		    any ? "Yes, but for where" : "Where,", narrow, banks);
	if (!any)
		return "It accesses no memory.";
	if (a->slight.n)
		return arena_printf(s->mem, "Yes, within %d %% of the fewest sectors%s%s.",
		    MAX((int)lround((a->most - 1) * 100), 1), narrow, banks);
	return arena_printf(s->mem, "Yes%s%s.", narrow, banks);
}

static void
put(const Explain *s, const char *head, const TextList *l, const char *tail, Answer *out)
{
	if (l->n)
		explain_add(s, &out->says,
		    arena_printf(s->mem, "%s%s%s", head, explain_join(s, l, "; "), tail));
}

void
explain_coalesced(const Explain *s, Answer *out)
{
	Accesses a = {.most = 1};
	ExplainLines all = accesses(s);
	for (int i = 0; i < all.n; i++)
		add_access(s, &all.at[i], &a);
	for (int i = 0; i < s->lines.n; i++)
		add_banks(s, &s->lines.at[i], &a);
	out->brief = brief_of(s, &a);
	put(s, "More sectors (32 bytes each) than would do: ", &a.wasted, ".", out);
	put(s, "A few more: ", &a.slight, ".", out);
	put(s, "Data says where: ", &a.unknown, "; --run counts their sectors.", out);
	put(s,
	    "Together the fewest, as other accesses take the rest of the same sectors, by then in "
	    "the first cache (the model counts them at the L2 cache each time): ",
	    &a.shared, ".", out);
	if (a.good.n)
		explain_add(s, &out->says,
		    arena_printf(s->mem, "%s (%d) take%s the fewest sectors possible.",
			out->says.n    ? "The rest"
			: a.good.n > 1 ? "All"
				       : "The only one",
			a.good.n, a.good.n > 1 && !out->says.n ? "" : "s"));
	put(s, "By tensor maps, whole boxes (a sector is 32 bytes): ", &a.mapped, ".", out);
	put(s, "Rows would permit wider accesses: ", &a.narrow, ".", out);
	put(s, "Bank conflicts of shared memory: ", &a.banks, ".", out);
}
