/* What is said of changes: the one that stands first, all that were compiled, what the page had no time for, and what
 * else to change in the text. */
#include "tool/report/explain/explain.h"

#include <math.h>
#include <string.h>

/* What a suggestion begins with, without its reasons. */
static const char *
head_of(const Explain *s, const char *text)
{
	static const char *const ends[] = {": ", "; ", ", ", " ("};
	size_t n = strlen(text);
	for (int i = 0; i < LEN(ends); i++) {
		const char *at = strstr(text, ends[i]);
		while (at && ends[i][0] == ',' && char_is_digit(at[2])) /* "lines 10, 9 and 8" */
			at = strstr(at + 1, ends[i]);
		n = at ? MIN(n, (size_t)(at - text)) : n;
	}
	return arena_strndup(s->mem, text, n);
}

/* How many values it changes. */
static int
count_values(const char *text)
{
	int n = 1;
	for (; *text && *text != '('; text++)
		n += *text == ',' && text[1] == ' ';
	return n;
}

/* Is it faster, or about as fast and simpler? */
static bool
is_better(double us, const char *text, double than, const char *other)
{
	static const double SAME = .02;
	double less = (than - us) / than;
	int values = count_values(text), others = count_values(other);
	return values < others ? less > -SAME : values > others ? less > SAME : less > 0;
}

/* What is to be changed first; NULL: nothing is known.  Of what was compiled the time that such changes took at most
 * counts: a sum over pairs takes an H200 548 us by fast::exp, 549 said, and 559 with two values more, 489 said.  What was
 * not compiled saves its time at most: half of it counts. */
static const Suggestion *
first_change(const Explain *s, const Suggestions *all)
{
	const Suggestion *first = NULL;
	double least = s->us, near = REPORT_NEAR * explain_term(s, explain_bounding(s));
	for (int i = 0; i < all->n; i++) {
		const Suggestion *r = &all->at[i];
		double us = r->built ? r->us * r->error->most : (r->us + s->us) / 2;
		bool better = first && first->built && r->built ? is_better(us, r->text, least, first->text) : us < least;
		if (r->us > 0 && better) {
			least = us;
			first = r;
		}
	}
	for (int i = 0; i < all->n && !first; i++)
		first = all->at[i].part < 0 || explain_term(s, (BillPart)all->at[i].part) >= near ? &all->at[i] : NULL;
	return first;
}

/* The best of what was compiled and half of such changes would gain by, though not clearly; NULL: nothing is to be had. */
static const json_t *
closest(const Explain *s)
{
	const json_t *v, *best = NULL;
	size_t i;
	json_array_foreach(s->variants, i, v)
	{
		double us = explain_built_us(s, v);
		if (*explain_guessed(s) && !explain_is_schedule(s, v)) /* other tiles have other trips */
			continue;
		if (us <= 0 || us * MAX(explain_change_error(s, v)->half, 1) >= SAID_WORTH * s->us)
			continue;
		if (!best || is_better(us, explain_said_of(s, v), explain_built_us(s, best), explain_said_of(s, best)))
			best = v;
	}
	return explain_at_floor(s) ? NULL : best;
}

/* Of changes that were tried; what the page had no time for is not among them. */
static const char *
none_better(const Explain *s)
{
	const json_t *v;
	size_t i;
	bool left = json_array_size(json_object_get(s->time, "left")) > 0, built = false;
	json_array_foreach(s->variants, i, v)
		built |= explain_built_us(s, v) > 0;
	return !left  ? "none of the changes that were tried is clearly better"
	       : built ? "none of the changes that there was time to try is clearly better"
		       : "there was no time to try changes (--seconds gives the page more)";
}

/* What takes least of all that were timed, or that nothing takes clearly less; NULL: none was timed. */
static const char *
first_measured(const Explain *s)
{
	const json_t *v, *best = NULL;
	size_t i;
	int n = 0;
	json_array_foreach(s->variants, i, v)
	{
		double us = explain_measured_us(v), least = best ? explain_measured_us(best) : 0;
		n += us > 0;
		if (us > 0 && (!best || is_better(us, explain_said_of(s, v), least, explain_said_of(s, best))))
			best = v;
	}
	double us = n ? explain_measured_us(best) : 0, by = n ? explain_built_us(s, best) : 0;
	if (n && us >= SAID_WORTH * s->measured)
		return arena_printf(s->mem, "none of %d changes that were timed takes clearly less", n);
	if (!n)
		return NULL;
	return arena_printf(s->mem, "first to change: %s, then %s measured%s", explain_said_of(s, best),
	    explain_micro(s, us), by > 0 ? arena_printf(s->mem, ", %s by the model", explain_micro(s, by)) : "");
}

const char *
explain_first(const Explain *s, const Suggestions *all)
{
	const char *measured = first_measured(s);
	if (measured)
		return measured;
	const Suggestion *first = first_change(s, all);
	const json_t *close = closest(s);
	double us = close ? explain_built_us(s, close) : 0;
	bool is_less = first && !first->built && first->us > 0 && us < (first->us + s->us) / 2;
	if (close && (!first || is_less))
		return arena_printf(s->mem,
		    "to be timed first: %s%s, %s; %s, as the range of each reaches this time",
		    explain_said_of(s, close), explain_unpadded(s, explain_said_of(s, close)),
		    explain_change_time(s, us, explain_change_error(s, close)), none_better(s));
	if (!first)
		return none_better(s);
	if (first->us <= 0)
		return arena_printf(s->mem,
		    "%s; of the text, without a figure: %s", none_better(s),
		    head_of(s, first->text));
	return arena_printf(s->mem, "first to change: %s%s", first->built ? first->text : head_of(s, first->text),
	    first->built ? arena_printf(s->mem, "%s, then %s", explain_unpadded(s, first->text),
				 explain_change_time(s, first->us, first->error))
			 : arena_printf(s->mem, ", then at least %s", explain_micro(s, first->us)));
}

/* "BM = 64: 66.2 µs, 0.91 of the time", by the code and, where it was timed, as measured. */
static const char *
said_time(const Explain *s, const json_t *v)
{
	double us = explain_built_us(s, v), measured = explain_measured_us(v);
	if (measured <= 0)
		return arena_printf(s->mem, "%s: %s, %s", explain_said_of(s, v), explain_micro(s, us),
		    explain_times(s, us / s->us));
	const char *model = us <= 0 ? "" : arena_printf(s->mem, " (%s and %s by the model)", explain_micro(s, us),
					       explain_round(s, us / s->us));
	return arena_printf(s->mem, "%s: %s measured, %s of the time%s", explain_said_of(s, v), explain_micro(s, measured),
	    explain_round(s, measured / s->measured), model);
}

/* All that was compiled, the fastest first, with the time of its code; where all are timed, by that. */
static void
say_built(const Explain *s, TextList *out)
{
	enum { SHOWN = 6 };
	Suggestions found = {0};
	TextList all = {0};
	const json_t *v;
	size_t i;
	bool timed = explain_is_measured(s);
	json_array_foreach(s->variants, i, v)
	{
		double us = timed ? explain_measured_us(v) : explain_built_us(s, v);
		const Suggestion one = {us, said_time(s, v), explain_change_error(s, v), true, -1, false};
		for (int k = found.n; us > 0 && k >= 0; k--) {
			if (k == found.n)
				vec_push(s->mem, &found, one);
			else if (found.at[k].us > us)
				found.at[k + 1] = found.at[k],
				found.at[k] = one;
		}
	}
	for (int k = 0; k < MIN(found.n, SHOWN); k++)
		explain_add(s, &all, found.at[k].text);
	if (all.n)
		explain_add(s, out,
		    arena_printf(s->mem, "Changes that were tried, %s: %s.%s",
			timed ? "timed in turn with this" : "compiled and estimated as this is",
		        explain_join(s, &all, "; "),
			!timed && found.at[0].us < SAID_WORTH * s->us
			    ? explain_change_error_said(s, found.at[0].error) : ""));
}

/* Those that were tried, where none has a time of its code: "; of these there is only the estimate …: BM = 64"; "". */
static const char *
without_time(const Explain *s)
{
	TextList all = {0};
	const json_t *v;
	size_t i;
	json_array_foreach(s->variants, i, v)
	{
		if (explain_built_us(s, v) > 0)
			return "";
		explain_add(s, &all, explain_said_of(s, v));
	}
	const char *tried = explain_join(s, &all, "; ");
	return all.n ? arena_printf(s->mem, "; of these there is only the estimate before there is code: %s", tried) : "";
}

/* What the page had no time for. */
static void
say_left(const Explain *s, TextList *out)
{
	enum { SHOWN = 8 };
	const json_t *left = json_object_get(s->time, "left"), *one;
	TextList all = {0};
	size_t i, n = json_array_size(left);
	json_array_foreach(left, i, one)
		if (i < SHOWN)
			explain_add(s, &all, json_string_value(one));
	if (n > SHOWN)
		explain_add(s, &all, arena_printf(s->mem, "%d more", (int)n - SHOWN));
	if (n)
		explain_add(s, out,
		    arena_printf(s->mem,
			"Not tried, as the %s s of a processor that the page takes were over: %s (--seconds gives it "
			"more).",
			explain_round(s, json_number_value(json_object_get(s->time, "most"))),
			explain_join(s, &all, "; ")));
	if (json_is_true(json_object_get(s->time, "stopped")))
		explain_add(s, out,
		    "There is no machine code, so that instructions, registers and spills are the model's, and no "
		    "change was compiled: ptxas or nvdisasm took too long and was stopped (--seconds gives them more).");
}

void
explain_suggestions(const Explain *s, const Suggestions *all, TextList *out)
{
	enum { SHOWN = 6 };
	bool memory;
	double outside, least = explain_least(s, &memory, &outside);
	Text t = {0};
	int n = 0;
	say_built(s, out);
	say_left(s, out);
	explain_add(s, out, explain_powers(s));
	for (int i = 0; i < all->n && n < SHOWN; i++) {
		const Suggestion *r = &all->at[i];
		if (r->built || r->said)
			continue;
		text_printf(&t, "%s%d. %s%s", n ? "; " : "", n + 1, r->text,
		    r->us > 0 ? arena_printf(s->mem, " (saves %s at most, by the model)",
				    explain_micro(s, s->us - r->us))
			      : "");
		n++;
	}
	if (n)
		explain_add(s, out, arena_printf(s->mem, "What else to change in the text: %s.", t.at));
	if (explain_at_floor(s))
		explain_add(s, out,
		    arena_printf(s->mem,
			"The estimate is within %.0f %% of the floor: no schedule takes clearly less.",
			MAX(100 * ((s->us - explain_other(s)) / least - 1), 1)));
	else if (!all->n && !json_array_size(json_object_get(s->time, "left")))
		explain_add(s, out,
		    arena_printf(s->mem,
			"Of other warps, tiles, the schedule that came next and fast:: functions none is "
			"clearly better by the model%s.",
			without_time(s)));
	text_close(&t);
}
