/* Why a kernel is not faster: what takes the time, by its lines, and what else bounds it. */
#include "model/digits/digits.h"
#include "model/turn.h"
#include "tool/report/explain/explain.h"

#include "compile/choose/choose.h"

#include <math.h>
#include <string.h>

static const double ALONE = 0.9; /* of the launch: the longest part is all of it */

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
	int share = x->f->schedule.share;
	return arena_printf(s->mem,
	    "%.0f %s have %d places at once (%d on each multiprocessor%s), which makes %.2f rounds; the last fills %.0f %% "
	    "of the places.",
	    x->grid, share > 1 ? "programs" : "blocks", places, x->blocks,
	    share > 1 ? arena_printf(s->mem, ", as %d share a block", share) : "", rounds, 100 * (last > 0 ? last : 1));
}

/* ---- what takes the time ---- */

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

/* Parts that are closer to the longest than estimates are to times. */
static int
count_alike(const Explain *s)
{
	double term[BILL_PARTS], longest = explain_term(s, explain_bounding(s));
	explain_terms(s, term);
	return COUNT_OF(p, BILL_PARTS, term[p] >= REPORT_NEAR * longest);
}

/* What of a line takes such a part: "read a", "topk", "exp"; what of instructions has no name, by their kinds. */
static void
add_doing(const Explain *s, int line, BillPart p, TextList *all)
{
	enum { SHOWN = 3 };
	static const char *const held[] = {"buffer", "mbarriers"};
	bool memory = p == BILL_MEMORY || p == BILL_SECTORS || p == BILL_ATOMICS || p == BILL_REQUESTS;
	bool computes = p == BILL_ISSUE || p == BILL_SPECIAL;
	for (int i = 0; i < s->lines.n && all->n < SHOWN; i++) {
		const ExplainLine *l = &s->lines.at[i];
		InspectKind k = l->x->kind;
		bool accesses = k == INSPECT_ACCESS || k == INSPECT_COPY;
		if (l->line == line && accesses == memory && k != INSPECT_BARRIER && k != INSPECT_ROLES &&
		    !explain_begins(l->what, held, LEN(held)) &&
		    (!computes || k != INSPECT_CONVERT) && !ANY_OF(n, all->n, strcmp(all->at[n], l->what) == 0))
			explain_add(s, all, l->what);
	}
	const char *functions = p == BILL_ISSUE ? explain_doing(s, line) : computes ? explain_functions(s, line) : "";
	if (all->n < SHOWN && !ANY_OF(n, all->n, strstr(all->at[n], functions)))
		explain_add(s, all, functions);
	if (!computes || all->n)
		return;
	const char *mix = explain_mix(s, line);
	size_t n = strcspn(mix, ","), more = mix[n] ? strcspn(mix + n + 1, ",") + 1 : 0;
	explain_add(s, all, arena_strndup(s->mem, mix, n + more));
}

/* Lines with a tenth of the longest part, the most first: "lines 3 and 9: read a, read b", "line 136 for memory's
 * latency". */
static const char *
lines_bound(const Explain *s)
{
	enum { MANY = 3 };
	BillPart p = explain_bounding(s);
	SpentLines lines = explain_lines_by(s, p);
	TextList found = {0}, doing = {0};
	bool waits = p == BILL_WAITING;
	for (int i = 0; i < MIN(lines.n, MANY); i++) {
		int line = lines.at[i]->line;
		if (explain_spent_us(s, lines.at[i], p) < explain_part(s, p) / 10)
			continue;
		explain_add(s, &found,
		    waits && lines.at[i]->wait ? arena_printf(s->mem, "line %d for %s", line, explain_wait(s, lines.at[i]))
					       : arena_printf(s->mem, "%s%d", waits ? "line " : "", line));
		if (!waits)
			add_doing(s, line, p, &doing);
	}
	if (!found.n || p == BILL_START)
		return "";
	if (waits)
		return arena_printf(s->mem, " (%s)", explain_join(s, &found, ", "));
	return arena_printf(s->mem, " (%s%s%s)", explain_line_list(s, &found), doing.n ? ": " : "",
	    explain_join(s, &doing, ", "));
}

/* Beside products the bill has no requests: of 25 loads of 4 bytes a thread an H200's load/store unit takes 76 % of the
 * time, L1 81 %, where the model says L2 cache, 62 %. */
static const char *
uncounted(const Explain *s)
{
	BillPart most = explain_bounding(s);
	bool near = most == BILL_MEMORY || most == BILL_SECTORS;
	return near && explain_part(s, BILL_REQUESTS) <= 0 && explain_any_narrow(s)
		   ? arena_printf(s->mem, " or in its place by the load/store unit and L1, of which the model counts too "
					"little (%s)", explain_narrow(s))
		   : "";
}

/* "device memory, 90 % of it (line 3), then waiting 60 %, instructions 45 %" */
static const char *
shares_of(const Explain *s)
{
	enum { NEXT = 2 };
	static const double LITTLE = .3, MUCH = .65;
	BillPart part[BILL_PARTS];
	double term[BILL_PARTS], own = s->us - explain_other(s);
	int alike = count_alike(s);
	Text t = {0};
	explain_terms(s, term);
	explain_ranked(term, part);
	for (int i = 0; i < BILL_PARTS; i++) {
		double us = term[part[i]];
		if (i >= alike && (us < LITTLE * own || i > NEXT))
			break;
		text_printf(&t, "%s%s%s %.0f %%%s%s",
		    i == 0       ? ""
		    : i < alike  ? i + 1 == alike ? " and " : ", "
		    : i == alike ? ", then "
				 : ", ",
		    explain_term_name(s, part[i]), part[i] == BILL_ISSUE ? explain_pipe(s) : "",
		    100 * us / own, i == 0 ? arena_printf(s->mem, "%s%s", lines_bound(s), uncounted(s)) : "",
		    alike > 1 && i + 1 == alike ? " alike" : "");
	}
	double most = term[part[0]];
	if (most < MUCH * own)
		text_printf(&t, ", and for %.0f %% of the time not even the longest is at work, as they overlap little",
		    100 * (1 - most / own));
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
	double other = explain_other(s), own = s->us - other;
	const char *by_code = json_is_object(s->counted) ? " by its code" : "",
		   *guessed = *explain_guessed(s) ? ", of guessed trips" : "";
	if (s->is_beside)
		text_printf(&t, "%s alone%s, ", explain_micro(s, s->us), by_code);
	else
		text_printf(&t, "%s by the model%s, ", explain_estimate(s), guessed);
	if (other > 0)
		text_printf(&t, "%s of them of what the launch has beside the kernel shown, whose %s are ",
		    explain_micro(s, other), explain_micro(s, own));
	text_printf(&t, "bound by %s", shares_of(s));
	if (explain_at_floor(s))
		text_printf(&t, "; at the floor of %s%s, %s", of, trips, explain_micro(s, least));
	else if (least > s->us / 50)
		text_printf(&t, "; %s%s times the floor of %s%s, %s", other > 0 ? "the kernel shown takes " : "",
		    explain_round(s, own / least), of, trips, explain_micro(s, least));
	if (!s->is_beside && (!explain_at_floor(s) || explain_is_measured(s)))
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

/* " operand0 and operand1 are operands of line 9's product, …": what a kernel before makes. */
static const char *
say_operands(const Explain *s)
{
	const Func *f = s->x->f;
	TextList names = {0}, lines = {0};
	for (int i = f->nparam - f->nmade; i < f->nparam; i++)
		explain_add(s, &names,
		    arena_printf(s->mem, "%s (%s)", f->param[i].name, dtype_info[f->body->arg[i].type->elem].text));
	for (int i = 0; i < s->lines.n; i++)
		explain_add(s, &lines, strncmp(s->lines.at[i].what, "dot", 3) == 0
					   ? arena_printf(s->mem, "%d", s->lines.at[i].line) : "");
	if (names.n && f->schedule.parts > 1)
		return arena_printf(s->mem,
		    " %s: what each of %d parts of the loop comes to, which the kernel behind adds up.",
		    explain_names(s, &names), f->schedule.parts);
	return !names.n || !lines.n ? ""
		   : arena_printf(s->mem,
			 " %s: what the source computes as operands of the product of %s, computed once for all "
			 "programs that need it, in the dtype in which it is multiplied.",
			 explain_names(s, &names), explain_line_list(s, &lines));
}

/* The launch's other kernel, which the page is not of. */
static const char *
say_other(const Explain *s)
{
	if (s->x->other <= 0)
		return "";
	if (ANY_OF(i, s->x->f->nmade, s->x->f->made[i].is_result))
		return arena_printf(s->mem,
		    "The launch is of several kernels, as those before and behind the products copy what lies "
		    "across rows: %s of the estimate is of the others than this one; code, pictures and changes "
		    "are of this one, and what is of the others says so.",
		    explain_micro(s, explain_other(s)));
	return arena_printf(s->mem,
	    "The launch is of two kernels, one after the other: %s of the estimate is of the one %s; code, pictures and "
	    "changes are of the longer one, and what is of the other says so.%s",
	    explain_micro(s, explain_other(s)),
	    inspect_is_first(s->x->f) ? "behind, which reads what this one makes"
				      : "before, which makes what this one reads",
	    say_operands(s));
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
	text_printf(&t, "%s.", explain_sentence(s, explain_units(s, total.at)));
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
	if (!is_first && taken->us < NEAR * explain_term(s, explain_bounding(s)) && taken->part >= 0)
		return " Hidden behind 1.";
	if (taken->part < 0)
		return " To change: fewer instructions behind the products.";
	BillPart with[BILL_PARTS];
	TextList ways = {0};
	int n = explain_joined(s, (BillPart)taken->part, with);
	for (int i = 0; i < n; i++)
		explain_add(s, &ways,
		    n == 1 ? explain_change(s, with[i], all)
				   : arena_printf(s->mem, "of %s, %s", bill_part_names[with[i]],
					 explain_change(s, with[i], all)));
	return arena_printf(s->mem, " To change: %s.", explain_join(s, &ways, "; "));
}

/* Gathers through shared memory whose places data names: patchify takes 3.1 times its estimate, with 481 passes more a
 * program. */
static const char *
say_gathers(const Explain *s)
{
	TextList gathers = {0};
	for (int k = 0; k < s->lines.n; k++) {
		const ExplainLine *l = &s->lines.at[k];
		Turn turn;
		bool is_gather = strcmp(l->what, "gather") == 0 && strstr(l->details, "through shared memory") &&
		                 !gather_turns(l->x->op, &turn);
		explain_add(s, &gathers,
		    is_gather && explain_weighs(s, l->line) ? arena_printf(s->mem, "line %d", l->line) : "");
	}
	if (!gathers.n)
		return "";
	return arena_printf(s->mem, " The gather of %s reads shared memory where its indices say: %s.",
	    explain_names(s, &gathers),
	    json_is_object(s->counted) ? "its bank conflicts are counted as of places at random"
				       : "the model counts no bank conflicts of it, which may bound the kernel");
}

static void
say_parts(const Explain *s, Suggestions *all, TextList *out)
{
	Taken taken[TAKEN_MOST];
	BillPart with[BILL_PARTS];
	int n = explain_taken(s, taken), behind = 0;
	Text t = {0};
	double longest = explain_term(s, explain_bounding(s)), own_us = s->us - explain_other(s);
	for (int i = 0; i < n; i++)
		behind = taken[i].part < 0 ? i + 1 : behind;
	explain_add(s, out,
	    arena_printf(s->mem, "What takes the time, the longest first (%% is the part of the time that something "
		"is at work, or that warps wait and nothing hides it: as these overlap they add up to more than 100%s):%s",
		behind ? arena_printf(s->mem,
			     ", but for %d., meanwhile the block multiplies nothing", behind)
		       : "",
		behind ? " What follows the products adds to that: less of it gains as much."
		       : ""));
	for (int i = 0; i < n; i++)
		explain_add(s, out,
		    arena_printf(s->mem, "%d. %s%s %s, %.0f %% of the %s%s.%s", i + 1, taken[i].name,
		        explain_joined(s, (BillPart)MAX(taken[i].part, 0), with) > 1 ? "" : explain_gloss(s, taken[i].part),
			explain_micro(s, taken[i].us), 100 * taken[i].us / own_us,
			explain_other(s) > 0 ? "kernel shown" : s->is_beside ? "kernel" : "launch", taken[i].lines,
			change_of(s, &taken[i], i == 0, all)));
	if (longest < ALONE * own_us)
		explain_add(s, out, say_total(s));
	text_put(&t, "");
	const json_t *w, *own = own_reads(s);
	size_t i;
	double alone = own ? own_us / json_number_value(json_object_get(s->timeline, "scale")) : 0;
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
	if (alone > own_us)
		text_printf(&t,
		    " The estimate overlaps that with their other work; without any overlap "
		    "the launch takes %s.",
		    explain_micro(s, alone + explain_other(s)));
	BillPart most = explain_longest(s, -1);
	if ((most == BILL_MEMORY || most == BILL_SECTORS) && explain_any_narrow(s))
		text_printf(&t, " Accesses of few bytes (%s) have more requests to the load/store unit and L1, and more "
		    "waiting, than the model counts, which may bound the kernel in place of that.", explain_narrow(s));
	text_put(&t, say_gathers(s));
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
	static const char *const of_line[] = {"'s loop", "'s places", " branches"};
	return n && explain_begins(t + n, of_line, LEN(of_line));
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
		all.at[k] = explain_sentence(s, explain_units(s, all.at[k]));
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
	explain_add(s, &out->says, s->is_beside ? "" : explain_time(s));
	explain_add(s, &out->says, s->is_beside ? "" : explain_off(s));
	explain_add(s, &out->says, say_other(s));
	if (count_alike(s) > 1)
		explain_add(s, &out->says,
		    "These parts are closer to each other than the model's estimates are to times: "
		    "each may bound the kernel, "
		    "and less of one alone gains little.");
	say_parts(s, &all, &out->says);
	if (!s->is_beside)
		explain_suggestions(s, &all, &out->says);
	explain_add(s, &out->says, explain_moved(s));
	explain_add(s, &out->says, explain_rounds(s));
	explain_add(s, &out->says, say_remarks(s));
	explain_add(s, &out->says, s->is_beside ? "" : explain_compared(s));
}
