/* The sentences of a report as JSON. */
#include "tool/report/said.h"

#include <string.h>

static void
read_lines(Said *s)
{
	for (int i = 0; i < s->x->lines.n; i++) {
		const InspectLine *x = &s->x->lines.at[i];
		SaidLine l = {.x = x,
		    .what = x->what,
		    .line = x->op->place.line,
		    .col = x->op->place.col,
		    .runs = x->runs,
		    .most = x->runs_most};
		Text details = {0}, tile = {0}, conflict = {0};
		text_put(&details, "");
		text_put(&tile, "");
		inspect_details(x, &details);
		if (x->tile)
			type_print(x->tile, &tile);
		for (int nth = 0; inspect_conflict(x, &nth, &conflict); conflict.n = 0)
			vec_push(s->mem, &l.conflicts, arena_strdup(s->mem, conflict.at));
		text_close(&conflict);
		l.details = text_take(&details, s->mem);
		l.tile = text_take(&tile, s->mem);
		vec_push(s->mem, &s->lines, l);
	}
}

static void
read_source(Said *s, const char *at)
{
	for (; *at; at += strcspn(at, "\n"), at += *at == '\n')
		vec_push(s->mem, &s->source, arena_strndup(s->mem, at, strcspn(at, "\n")));
	s->nsource = s->source.n;
}

static json_t *
answer(const char *question, const SaidList *says)
{
	json_t *all = json_array();
	for (int i = 0; i < says->n; i++)
		json_array_append_new(all, json_string(says->at[i]));
	return json_pack("{s:s, s:o}", "question", question, "says", all);
}

static json_t *
answers(const Said *s)
{
	SaidList coalesced = {0}, bound = {0}, barriers = {0}, products = {0};
	said_add(s, &coalesced, said_coalesced(s));
	said_bound(s, &bound);
	said_add(s, &barriers, said_barriers(s));
	said_add(s, &products, said_products(s));
	return json_pack("[o, o, o, o]", answer("Are accesses coalesced?", &coalesced),
	    answer("Why is it not faster?", &bound),
	    answer("Where do barriers come from?", &barriers),
	    answer("Which matrix instruction?", &products));
}

static json_t *
lines(const Said *s)
{
	json_t *all = json_array();
	for (int line = 1; line <= s->nsource; line++) {
		json_t *below = said_below(s, line), *chosen = said_chosen(s, line);
		bool any = json_array_size(below) || json_array_size(chosen);
		json_t *j =
		    json_pack("{s:i, s:o, s:o}", "line", line, "below", below, "chosen", chosen);
		if (any)
			json_array_append(all, j);
		json_decref(j);
	}
	return all;
}

void
report_say(json_t *kernel, const char *source, const Inspection *x, const Bound *b,
    const ChooseWhy *why, Arena *mem)
{
	double clock = x->t->rates ? x->t->rates->clock : 1, share;
	const json_t *bill = json_object_get(kernel, "bill");
	Said s = {.mem = mem,
	    .x = x,
	    .b = b,
	    .why = why,
	    .limits = json_object_get(kernel, "limits"),
	    .variants = json_object_get(kernel, "variants"),
	    .profile = json_object_get(kernel, "profile"),
	    .warnings = json_object_get(kernel, "warnings"),
	    .timeline = json_object_get(kernel, "timeline"),
	    .counted = json_object_get(kernel, "code"),
	    .summary = json_string_value(json_object_get(kernel, "summary")),
	    .us = x->bill.cycles > 0 ? x->bill.cycles / clock : 0,
	    .compared = x->compared / clock,
	    .wgmma_us = json_number_value(json_object_get(bill, "wgmma_products_us")),
	    .bytes_us = json_number_value(json_object_get(bill, "memory_bytes_us"))};
	read_source(&s, source);
	read_lines(&s);
	said_read_code(&s, json_object_get(kernel, "stages"));
	json_object_set_new(kernel, "answers", answers(&s));
	json_object_set_new(kernel, "said", lines(&s));
	json_object_set_new(kernel, "rounds", json_string(said_rounds(&s, &share)));
}
