/* The timeline of a pipelined loop (clocks.c) as JSON, with what it comes to in a sentence. */
#include "compile/choose/estimate.h"
#include "tool/report/report.h"
#include "tool/report/timeline/timeline.h"

static const double OWN = 0.9;                          /* a scale that needs no words */

/* "; all warps wait 0 % of it for copies (7 % of all shown, until the first have come)" */
static void
put_waits(const Timeline *t, Text *out)
{
	for (int i = 0; i < t->rows.n && t->rows.at[i].is_role; i++) {
		bool parted = t->rows.at[1].is_role;
		const char *who = !parted ? "all warps wait" : i ? "those that compute wait" : "those that copy wait";
		const TimeRow *r = &t->rows.at[i];
		text_printf(out, "%s %s %.0f %% of it for %s", i ? "," : ";", who, 100 * r->waits,
		    parted && i == 0 ? "a free slot" : "copies");
		if (100 * (r->begins - r->waits) >= 1 && (!parted || i))
			text_printf(out, " (%.0f %% of all shown, until the first have come)", 100 * r->begins);
		if (r->read)
			text_printf(out, " and %.0f %% for what they read themselves (%s), which no copy brings ahead",
			    100 * r->reads, r->read);
	}
}

/* "By the model the first 8 of 64 trips take 9859 cycles, and the last of these 1054; those that copy wait 95 % …" */
static void
put_text(const Timeline *t, const TargetRates *r, Text *out)
{
	int n = (int)MIN(t->trips, t->of);
	text_put(out, "By the model");
	if (t->blocks > 1)
		text_printf(out, ", %.3g blocks of a multiprocessor sharing its means,", t->blocks);
	text_printf(out, " %s %d of %.0f trips take %.0f cycles", n < t->of ? "the first" : "all", n, t->of,
	    t->cycles - t->behind);
	if (t->behind > 0)
		text_printf(out, " (and what follows the loop %.0f)", t->behind);
	if (t->period > 0) {
		text_printf(out, ", and the last of these %.0f", t->period);
		put_waits(t, out);
	}
	text_put(out, ".");
	text_printf(out, " At the %.3g GHz of the %s that is %.3g us.", r->clock / 1000, r->card, t->cycles / r->clock);
	text_put(out, " All trips take what the estimate of the launch has for a program; of that each op has the share "
		      "that it takes in turn, waiting for its operands in full");
	if (t->scale < OWN || t->scale > 1 / OWN) {
		text_printf(out, ": by themselves they would take %.2f times as long, ", 1 / t->scale);
		text_put(out, "and the estimate overlaps those that do not depend on each other");
	}
	text_put(out, ". The waiting that the estimate has (what bounds it) is more: each instruction that needs the one "
		      "before counts there.");
}

/* False: no loop is pipelined, or the target has no rates. */
static bool
find(Func *f, const Bound *b, const Target *t, const Bill *launch, int blocks, Arena *mem, Timeline *out)
{
	LineCosts lines = {0};
	Bill own;
	if (launch->cycles <= 0)
		return false;
	estimate_bill(f, b, t, mem, &lines, &own);
	LaunchPace p = estimate_pace(f, b, t, mem, &lines, blocks > 0 ? blocks : own.blocks, launch);
	if (!timeline_make(f, t, &p.facts, p.blocks, p.memory, mem, out))
		return false;
	timeline_scale(out, p.cycles);
	return out->rows.n > 0;
}

static json_t *
timeline_json(const Timeline *t, const TargetRates *rates)
{
	static const char *const word[] = {[SPAN_COPY] = "copies", [SPAN_WAIT] = "waits", [SPAN_COMPUTE] = "computes",
	    [SPAN_BEHIND] = "behind the loop", [SPAN_FILL] = "filled", [SPAN_READ] = "read"};
	json_t *rows = json_array(), *spans = json_array();
	Text text = {0};
	for (int i = 0; i < t->rows.n; i++) {
		const TimeRow *r = &t->rows.at[i];
		json_t *row = json_pack("{s:s, s:b}", "name", r->name, "role", r->is_role);
		json_t *more = r->is_role ? json_real(r->waits) : json_integer(r->slot);
		json_object_set_new(row, r->is_role ? "waits" : "slot", more);
		if (r->is_role && r->read)
			json_object_update_new(row, json_pack("{s:s, s:f}", "read", r->read, "reads", r->reads));
		json_array_append_new(rows, row);
	}
	for (int i = 0; i < t->spans.n; i++) {
		const TimeSpan *x = &t->spans.at[i];
		json_array_append_new(
		    spans, json_pack("{s:i, s:s, s:i, s:i, s:s?, s:f, s:f}", "row", x->row, "does",
			       word[x->kind], "trip", x->trip, "slot", x->slot, "reads", x->read,
			       "from", x->from, "to", x->to));
	}
	put_text(t, rates, &text);
	json_t *j = json_pack("{s:i, s:f, s:f, s:f, s:f, s:f, s:o, s:o, s:s, s:s, s:f}", "trips",
	    (int)MIN(t->trips, t->of), "of", t->of, "blocks", t->blocks, "cycles", t->cycles,
	    "period", t->period, "scale", t->scale, "rows", rows, "spans", spans, "text", text.at,
	    "card", rates->card, "clock_ghz", rates->clock / 1000);
	text_close(&text);
	return j;
}

json_t *
report_timeline(Func *f, const Bound *b, const Target *t, const Bill *launch, int blocks)
{
	Timeline line;
	return find(f, b, t, launch, blocks, f->module->cx->mem, &line) ? timeline_json(&line, t->rates) : json_null();
}
