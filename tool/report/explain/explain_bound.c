/* Why a kernel is not faster: what takes the time, by its lines, and what else bounds it. */
#include "tool/report/explain/explain.h"

#include "compile/choose/choose.h"

#include <math.h>
#include <string.h>

static const double ALONE = 0.9; /* of the launch: the longest part is all of it */
static const char BEHIND[] = "what follows the products";

/* Blocks take turns on the places that multiprocessors have for them; a last round with few is as
 * long as a full one. */
const char *
explain_rounds(const Explain *s)
{
	enum { ROUNDS = 6 };
	const Inspection *x = s->x;
	int units = x->t->rates ? x->t->rates->multiprocessors : 0, places = x->blocks * units;
	double rounds = places > 0 ? x->grid / places : 0, last = rounds - floor(rounds);
	if (x->f->schedule.persistent > 0 && places > 0 && x->bill.launched > 0)
		return arena_printf(s->mem,
		    "The kernel is persistent: up to %d blocks stay (%d on each of %d "
		    "multiprocessors), and each runs "
		    "about %s of %.0f programs, one after the other, in a loop that the source "
		    "does not show.",
		    places, x->blocks, units, explain_round(s, x->bill.launched / places),
		    x->bill.launched);
	int cluster = func_cluster(x->f), clustered = units ? x->t->rates->clustered / cluster : 0;
	if (cluster > 2 && clustered > 0 && x->blocks == 1 && x->grid > cluster * clustered)
		return arena_printf(s->mem,
		    "%.0f clusters of %d blocks, each of which has a multiprocessor of its own, start whole in a GPC that "
		    "has room: about %d at once, which makes %.0f rounds.",
		    x->grid / cluster, cluster, clustered, ceil(x->grid / cluster / clustered));
	if (rounds <= 1 || rounds >= ROUNDS ||
	    choose_leaves(x->f)) /* how many programs stay is estimated */
		return "";
	return arena_printf(s->mem,
	    "%.0f blocks have %d places at once (%d on each multiprocessor), which makes %.2f "
	    "rounds; the "
	    "last fills %.0f %% of the places.",
	    x->grid, places, x->blocks, rounds, 100 * (last > 0 ? last : 1));
}

/* Of arithmetic behind products, that overlaps with nothing. */
static double
behind_us(const Explain *s)
{
	return s->us > 0 ? bill_us(&s->x->bill, s->x->t, s->x->bill.behind) : 0;
}

/* ---- what takes the time ---- */

/* Does nothing but a loop begin there whose copies have mbarriers? */
static bool
has_ring(const Explain *s, int line)
{
	bool has = false;
	for (int i = 0; i < s->lines.n; i++) {
		const ExplainLine *l = &s->lines.at[i];
		has |= l->line == line && strcmp(l->what, "mbarriers") == 0;
		if (l->line == line && strncmp(l->what, "dot", 3) == 0)
			return false;
	}
	return has;
}

/* Is it a line below the last product, whose results the bill has apart? */
static bool
is_behind(const Explain *s, const LineBill *l)
{
	int last = 0;
	for (int i = 0; i < s->lines.n; i++)
		last = strncmp(s->lines.at[i].what, "dot", 3) == 0 ? MAX(last, s->lines.at[i].line)
								   : last;
	return s->x->bill.behind > 0 && last > 0 && l->file == s->x->f->place.file &&
	       l->line > last;
}

/* "181 instructions of a warp for a program, 40 % shifts and logic …", where SASS was counted. */
static const char *
with_count(const Explain *s, int line, const char *mix)
{
	double n = json_number_value(json_object_get(
	    json_object_get(s->counted, "lines"), arena_printf(s->mem, "%d", line)));
	if (n <= 0)
		return mix;
	return arena_printf(s->mem, "%s instructions of a warp for a program%s%s", explain_round(s, n), *mix ? ", " : "",
	    mix);
}

/* "line 8 34.1 µs, line 10 9.58 µs" of a part, the most first. */
static const char *
lines_of(const Explain *s, BillPart p)
{
	enum { SHOWN = 3 };
	TextList all = {0};
	double part = explain_part(s, p);
	SpentLines lines = explain_lines_by(s, p);
	for (int i = 0; i < lines.n && all.n < SHOWN; i++) {
		const LineBill *l = lines.at[i];
		if (p == BILL_ISSUE && is_behind(s, l))
			continue;
		if (explain_spent_us(s, l, p) < part / 10)
			break;
		const char *mix = p == BILL_ISSUE && all.n == 0 ? explain_mix(s, l->line) : "";
		if (p == BILL_ISSUE && all.n == 0)
			mix = with_count(s, l->line, mix);
		bool ring = p == BILL_ISSUE && has_ring(s, l->line);
		bool arithmetic =
		    p == BILL_ISSUE || p == BILL_SPECIAL ||
		    (p == BILL_WAITING && l->wait && strcmp(l->wait, "results of arithmetic") == 0);
		const char *functions = p == BILL_SPECIAL ? explain_specials(s, l->line)
					: arithmetic    ? explain_functions(s, l->line)
							: "";
		TextList of = {0};
		if (p == BILL_WAITING && l->wait)
			explain_add(s, &of, arena_printf(s->mem, "for %s", l->wait));
		explain_add(s, &of, *functions ? arena_printf(s->mem, "of %s", functions) : "");
		explain_add(s, &of, mix);
		explain_add(s, &of, ring && !*mix ? "for the ring's slots and mbarriers" : "");
		explain_add(s, &all,
		    arena_printf(s->mem, "line %d %s%s%s", l->line,
			explain_micro(s, explain_spent_us(s, l, p)), of.n ? " " : "",
			explain_join(s, &of, ", ")));
	}
	double rest = part;
	for (int i = 0; i < s->x->spent.n; i++)
		rest -= s->x->spent.at[i].file == s->x->f->place.file
			    ? explain_spent_us(s, &s->x->spent.at[i], p)
			    : 0;
	if (rest > part / 10 && p != BILL_START)
		explain_add(s, &all,
		    arena_printf(s->mem, "%s of %s", explain_micro(s, rest),
			s->x->bill.spilled > 0 ? "spills" : "no line"));
	return all.n ? arena_printf(s->mem, " (%s)", explain_join(s, &all, ", ")) : "";
}

static bool
is_copier(const json_t *row)
{
	return strcmp(json_string_value(json_object_get(row, "name")), "copies") == 0;
}

/* The role whose threads wait for what they read themselves, and no copy brings, for a fourth of a trip or more; NULL. */
static const json_t *
own_reads(const Explain *s)
{
	static const double SHARE = .25, LITTLE = .05;
	const json_t *row, *rows = json_object_get(s->timeline, "rows");
	double waits = 1;
	size_t i;
	json_array_foreach(rows, i,
	    row) if (strcmp(json_string_value(json_object_get(row, "name")), "computes") == 0)
	    waits = json_number_value(json_object_get(row, "waits"));
	json_array_foreach(
	    rows, i, row) if (json_number_value(json_object_get(row, "reads")) >= SHARE &&
			      (waits > LITTLE || !is_copier(row))) return row;
	return NULL;
}

/* "waiting, L2 cache and shared memory" */
static const char *
names_of(const Explain *s, const TextList *l)
{
	TextList head = *l;
	head.n--;
	return l->n < 2 ? l->at[0]
			: arena_printf(
			      s->mem, "%s and %s", explain_join(s, &head, ", "), l->at[l->n - 1]);
}

/* "line 9 14.3 µs and line 10 3 µs of instructions": of lines below the last product. */
static const char *
behind_products(const Explain *s)
{
	TextList all = {0};
	for (int i = 0; i < s->x->spent.n; i++) {
		const LineBill *l = &s->x->spent.at[i];
		if (is_behind(s, l) && explain_spent_us(s, l, BILL_ISSUE) > s->us / 100)
			explain_add(s, &all,
			    arena_printf(s->mem, "line %d %s", l->line,
				explain_micro(s, explain_spent_us(s, l, BILL_ISSUE))));
	}
	return all.n ? arena_printf(s->mem, "%s of instructions", names_of(s, &all)) : "";
}

/* What takes long, the longest first: parts that overlap, and what follows the products, which
 * overlaps with none. */
typedef struct Taken {
	double us;
	const char *name, *lines;
	int part; /* of the bill; -1: behind products */
} Taken;

enum { SHOWN = 3 };

static int
list_taken(const Explain *s, Taken out[SHOWN + 1])
{
	BillPart part[BILL_PARTS];
	int n = 0, at = 0;
	double behind = behind_us(s);
	explain_ranked(s->x->bill.part, part);
	for (; n < SHOWN && (n == 0 || s->x->bill.part[part[n]] >= .1 * s->x->bill.part[part[0]]);
	     n++)
		out[n] = (Taken){
		    explain_part(s, part[n]), bill_part_names[part[n]], lines_of(s, part[n]),
		    (int)part[n]};
	if (behind < .1 * explain_part(s, part[0]))
		return n;
	while (at < n && out[at].us >= behind)
		at++;
	for (int i = n; i > at; i--)
		out[i] = out[i - 1];
	const char *lines = behind_products(s);
	out[at] = (Taken){behind, BEHIND, *lines ? arena_printf(s->mem, " (%s)", lines) : "", -1};
	return n + 1;
}

/* Parts that are closer to the longest than estimates are to times. */
static int
count_alike(const Explain *s)
{
	int n = 0;
	for (int p = 0; p < BILL_PARTS; p++)
		n += explain_part(s, (BillPart)p) >= REPORT_NEAR * explain_part(s, explain_longest(s, -1));
	return n;
}

/* Lines with a tenth of the longest part, the most first: "lines 3 and 9", "line 136 for memory's latency". */
static const char *
lines_bound(const Explain *s)
{
	enum { MANY = 3 };
	BillPart p = explain_longest(s, -1);
	SpentLines lines = explain_lines_by(s, p);
	TextList found = {0};
	bool waits = p == BILL_WAITING;
	for (int i = 0; i < MIN(lines.n, MANY); i++)
		if (explain_spent_us(s, lines.at[i], p) >= explain_part(s, p) / 10)
			explain_add(s, &found,
			    waits && lines.at[i]->wait
				? arena_printf(s->mem, "line %d for %s", lines.at[i]->line, lines.at[i]->wait)
				: arena_printf(s->mem, "%s%d", waits ? "line " : "", lines.at[i]->line));
	if (!found.n || p == BILL_START)
		return "";
	return arena_printf(s->mem, " (%s)", waits ? explain_join(s, &found, ", ") : explain_line_list(s, &found));
}

/* "device memory, 90 % of it (line 3), then waiting 60 %, instructions 45 %" */
static const char *
shares_of(const Explain *s)
{
	enum { NEXT = 2 };
	static const double LITTLE = .3, MUCH = .65;
	BillPart part[BILL_PARTS];
	int alike = count_alike(s);
	Text t = {0};
	explain_ranked(s->x->bill.part, part);
	for (int i = 0; i < BILL_PARTS; i++) {
		double us = explain_part(s, part[i]);
		if (i >= alike && (us < LITTLE * s->us || i > NEXT))
			break;
		text_printf(&t, "%s%s%s %.0f %%%s%s",
		    i == 0       ? ""
		    : i < alike  ? i + 1 == alike ? " and " : ", "
		    : i == alike ? ", then "
				 : ", ",
		    bill_part_names[part[i]], part[i] == BILL_ISSUE ? explain_pipe(s) : "",
		    100 * us / s->us, i == 0 ? lines_bound(s) : "",
		    alike > 1 && i + 1 == alike ? " alike" : "");
	}
	double most = explain_part(s, part[0]);
	if (most < MUCH * s->us)
		text_printf(&t, ", and %.0f %% is no part's, as they overlap little", 100 * (1 - most / s->us));
	return text_take(&t, s->mem);
}

/* "84.7 µs (84.7 to 115) by the model, bound by device memory 91 % (lines 11 and 22), then waiting 40 %; 1.23 times
 * the
 * floor of device memory, 69.0 µs; first to change: fast::exp in line 11, then at least 80 µs." */
static const char *
brief_of(const Explain *s, const Suggestions *all)
{
	bool memory;
	double outside, least = explain_least(s, &memory, &outside);
	const char *of = memory ? "device memory" : "products",
		   *trips = *explain_most_trips(s) ? " in so many trips" : "";
	Text t = {0};
	if (s->measured > 0)
		text_printf(&t, "%s measured, ", explain_micro(s, s->measured));
	text_printf(&t, "%s by the model%s, bound by %s", explain_estimate(s),
	    *explain_guessed(s) ? ", of guessed trips" : "", shares_of(s));
	if (explain_at_floor(s))
		text_printf(&t, "; at the floor of %s%s, %s", of, trips, explain_micro(s, least));
	else if (least > s->us / 50)
		text_printf(&t, "; %s times the floor of %s%s, %s", explain_round(s, s->us / least), of, trips,
		    explain_micro(s, least));
	if (!explain_at_floor(s) || explain_is_measured(s))
		text_printf(&t, "; %s", explain_first(s, all));
	if (s->sizes_of)
		text_printf(&t, "; with the sizes of %s", s->sizes_of);
	text_put(&t, ".");
	return text_take(&t, s->mem);
}

static void
text_take_sentence(const Explain *s, Text *t, TextList *out)
{
	const char *text = text_take(t, s->mem);
	explain_add(s, out, text + strspn(text, " "));
}

static double
other_us(const Explain *s)
{
	return s->x->other / s->x->t->rates->clock;
}

/* The launch's other kernel, which the page is not of. */
static const char *
say_other(const Explain *s)
{
	if (s->x->other <= 0)
		return "";
	return arena_printf(s->mem,
	    "The launch is of two kernels, one after the other: %s of the estimate is of the one %s; lines, code and what "
	    "follows are of the longer one (tegula inspect shows both).",
	    explain_micro(s, other_us(s)),
	    inspect_is_first(s->x->f) ? "behind, which reads what this one makes"
				      : "before, which makes what this one reads");
}

/* What the total has beyond the longest part. */
static const char *
say_total(const Explain *s)
{
	Text t = {0}, total = {0};
	text_put(&t, "");
	Bill own = s->x->bill;
	own.cycles -= s->x->other;
	bill_total(&own, s->x->t, &total);
	text_printf(&t, "%s.", explain_sentence(s, total.at));
	text_close(&total);
	if (explain_alone(s) > 0 && s->x->blocks > 0)
		text_printf(&t,
		    " That only other blocks of a multiprocessor hide, which %s %d at once.",
		    explain_resident(s) < s->x->blocks ? "has room for more, but of this launch"
						       : "holds",
		    explain_resident(s));
	return text_take(&t, s->mem);
}

/* " To change: …" of what bounds the launch, or is not far from it. */
static const char *
change_of(const Explain *s, const Taken *taken, bool is_first, Suggestions *all)
{
	static const double NEAR = .6;
	if (!is_first && taken->us < NEAR * explain_part(s, explain_longest(s, -1)) && taken->part >= 0)
		return " Hidden behind 1.";
	return arena_printf(s->mem, " To change: %s.",
	    taken->part < 0 ? "fewer instructions behind the products"
			    : explain_change(s, (BillPart)taken->part, all));
}

static void
say_parts(const Explain *s, Suggestions *all, TextList *out)
{
	Taken taken[SHOWN + 1];
	int n = list_taken(s, taken), behind = 0;
	Text t = {0};
	double longest = explain_part(s, explain_longest(s, -1));
	for (int i = 0; i < n; i++)
		behind = strcmp(taken[i].name, BEHIND) == 0 ? i + 1 : behind;
	explain_add(s, out,
	    arena_printf(s->mem, "What takes the time, the longest first (they overlap%s):%s",
		behind ? arena_printf(s->mem,
			     ", but for %d., meanwhile the block multiplies nothing", behind)
		       : "",
		behind ? " What follows the products adds to that: less of it gains as much."
		       : ""));
	for (int i = 0; i < n; i++)
		explain_add(s, out,
		    arena_printf(s->mem, "%d. %s%s %s, %.0f %% of the launch%s.%s", i + 1, taken[i].name,
		        explain_gloss(s, taken[i].part),
			explain_micro(s, taken[i].us), 100 * taken[i].us / s->us, taken[i].lines,
			change_of(s, &taken[i], i == 0, all)));
	if (longest < ALONE * (s->us - other_us(s)))
		explain_add(s, out, say_total(s));
	text_put(&t, "");
	const json_t *w, *own = own_reads(s);
	size_t i;
	double alone = own ? s->us / json_number_value(json_object_get(s->timeline, "scale")) : 0;
	if (own)
		text_printf(&t,
		    " In the loop the threads that %s read %s themselves, which no copy "
		    "brings ahead: by the timeline they wait for it %.0f %% of a trip.",
		    is_copier(own) ? "copy" : "compute",
		    json_string_value(json_object_get(own, "read")),
		    100 * json_number_value(json_object_get(own, "reads")));
	if (own && !is_copier(own) && func_find(s->x->f, OP_ROLES))
		text_put(&t, " Of seven such kernels an H200 took 0.72 to 0.81 of the time without roles (specialize = "
			     "false) for four, and 1.06 to 1.51 for three: to be timed.");
	if (alone > s->us)
		text_printf(&t,
		    " The estimate overlaps that with their other work; without any overlap "
		    "the launch takes %s.",
		    explain_micro(s, alone));
	BillPart most = explain_longest(s, -1);
	if ((most == BILL_MEMORY || most == BILL_SECTORS) && explain_any_narrow(s))
		text_put(&t, " Accesses of few bytes (below) have more requests and more waiting "
			     "than the model counts, which may bound "
			     "the kernel in place of that.");
	TextList gathers = {0}; /* patchify: 3.1 times its estimate, 481 passes more a program */
	for (int k = 0; k < s->lines.n; k++) {
		const ExplainLine *l = &s->lines.at[k];
		bool is_gather =
		    strcmp(l->what, "gather") == 0 && strstr(l->details, "through shared memory");
		explain_add(s, &gathers,
		    is_gather && explain_weighs(s, l->line)
			? arena_printf(s->mem, "line %d", l->line)
			: "");
	}
	if (gathers.n)
		text_printf(&t,
		    " The gather of %s reads shared memory where its indices say: the model counts "
		    "no bank conflicts of "
		    "it, which may bound the kernel.",
		    names_of(s, &gathers));
	json_array_foreach(s->warnings, i, w)
	    text_printf(&t, " Warning: %s.", json_string_value(json_object_get(w, "message")));
	text_take_sentence(s, &t, out);
}

/* ---- what holds it ---- */

/* Lines of the summary that say what was guessed: trips, places, idle multiprocessors. */
static bool
is_remark(const char *t)
{
	static const char *const head[] = {"registers", "by published"};
	if (explain_begins(t, head, LEN(head)))
		return true;
	size_t n = strspn(t, "0123456789");
	if (n && (strncmp(t + n, " program", 8) == 0))
		return true;
	n = strncmp(t, "line ", 5) == 0 ? 5 + strspn(t + 5, "0123456789") : 0;
	return n && (strncmp(t + n, "'s loop", 7) == 0 || strncmp(t + n, "'s places", 9) == 0);
}

static const char *
say_remarks(const Explain *s)
{
	TextList all = {0};
	for (const char *at = s->summary; at && *at; at += strcspn(at, "\n"), at += *at == '\n') {
		at += strspn(at, " \t");
		if (is_remark(at))
			explain_add(s, &all, arena_strndup(s->mem, at, strcspn(at, "\n")));
	}
	for (int i = 0; i < s->lines.n; i++)
		if (strcmp(s->lines.at[i].what, "roles") == 0 &&
		    strstr(s->lines.at[i].details, "registers)"))
			explain_add(s, &all,
			    arena_printf(s->mem, "those are of the launch, then %s",
				s->lines.at[i].details));
	for (int k = 0; k < all.n; k++)
		all.at[k] = explain_sentence(s, all.at[k]);
	return all.n ? arena_printf(s->mem, "%s.", explain_join(s, &all, ". ")) : "";
}

void
explain_bound(const Explain *s, Answer *out)
{
	if (s->us <= 0) {
		out->brief = arena_printf(s->mem,
		    "The model has no rates of %s, or does not know this kernel.", s->x->t->name);
		explain_add(s, &out->says, say_remarks(s));
		return;
	}
	Suggestions all = explain_collect(s);
	out->brief = brief_of(s, &all);
	explain_add(s, &out->says, explain_time(s));
	explain_add(s, &out->says, explain_off(s));
	explain_add(s, &out->says, say_other(s));
	if (count_alike(s) > 1)
		explain_add(s, &out->says,
		    "These parts are closer to each other than the model's estimates are to times: "
		    "each may bound the kernel, "
		    "and less of one alone gains little.");
	say_parts(s, &all, &out->says);
	explain_suggestions(s, &all, &out->says);
	explain_add(s, &out->says, explain_moved(s));
	explain_add(s, &out->says, explain_rounds(s));
	explain_add(s, &out->says, say_remarks(s));
	explain_add(s, &out->says, explain_compared(s));
}
