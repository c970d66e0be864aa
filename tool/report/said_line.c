/* All that stands beside a line of the source, and the sentences shown when it is chosen. */
#include "tool/report/said.h"

#include <math.h>
#include <string.h>

static const double SHARE = 3; /* %, of the launch, or of the part that bounds it: worth a word */

/* By the parts that may bound the kernel alone. */
const char *
said_stall(const Said *s, int line)
{
	const LineBill *l = said_spent(s, line);
	double longest = said_part(s, said_longest(s, -1));
	int most = -1;
	for (int p = 0; l && p < BILL_PARTS; p++)
		if (said_part(s, (BillPart)p) >= REPORT_NEAR * longest &&
		    (most < 0 || l->part[p] > l->part[most]))
			most = p;
	double us = most < 0 ? 0 : said_spent_us(s, l, (BillPart)most);
	if (us <= 0 || us < SHARE / 100 * s->us)
		return "";
	const char *doubles = said_doubles(s, line);
	return arena_printf(s->mem, "by the model %s %s: %s, %.0f %% of the kernel's %s%s%s",
	    most == BILL_WAITING ? "waits for" : "takes",
	    most == BILL_WAITING ? l->wait : bill_part_names[most], said_micro(s, us),
	    100 * us / said_part(s, (BillPart)most), bill_part_names[most], *doubles ? "; " : "",
	    doubles);
}

static double
number(const json_t *j, const char *name)
{
	return json_number_value(json_object_get(j, name));
}

/* What the hardware counted in a line, where a profile is at hand. */
static const char *
counters(const Said *s, int line)
{
	const json_t *l, *own = NULL;
	size_t i;
	json_array_foreach(json_object_get(s->profile, "lines"), i, l) own =
	    !own && json_integer_value(json_object_get(l, "line")) == line ? l : own;
	if (!own || (number(own, "share") == 0 && number(own, "sectors") == 0 &&
			number(own, "bank_passes") == 0))
		return "";
	Text t = {0};
	const char *stall = json_string_value(json_object_get(own, "stall"));
	text_printf(&t, "measured: %.0f %% of the samples", 100 * number(own, "share"));
	if (stall && *stall)
		text_printf(
		    &t, ", most wait for %s (%.0f %%)", stall, 100 * number(own, "stall_share"));
	if (number(own, "least_sectors") > 0)
		text_printf(&t, ", %s of the fewest sectors",
		    said_round(s, number(own, "sectors") / number(own, "least_sectors")));
	if (number(own, "least_bank_passes") > 0)
		text_printf(&t, ", %s of the fewest bank passes",
		    said_round(s, number(own, "bank_passes") / number(own, "least_bank_passes")));
	return text_take(&t, s->mem);
}

/* "read x 16 B, 16/16 sectors" */
static void
put_access(const Said *s, const SaidLine *l, Text *t)
{
	double least, n = said_sectors(l, &least);
	const BankPlan *banks = said_banks(l);
	text_printf(t, " %d B", l->x->bytes);
	if (n > 0)
		text_printf(t, ", %s/%s sectors%s", said_round(s, n), said_round(s, least),
		    said_mean(s, l));
	else if (n < 0)
		text_put(t, ", sectors by data");
	if (l->x->cause)
		text_printf(t, " (%s)", l->x->cause);
	if (l->x->counted && l->x->counted->n)
		text_printf(t, ", counted in %lld of %lld programs",
		    (long long)l->x->counted->programs, (long long)l->x->counted->of);
	if (banks)
		text_printf(t, ", %d/%d bank passes", banks->passes, banks->least);
}

static void
put_what(const Said *s, const SaidLine *l, Text *t)
{
	bool weaker = said_is_weaker(l);
	text_put(t, l->what);
	if (l->x->bytes && strncmp(l->details, "by tensor map", 13) != 0)
		put_access(s, l, t);
	else if (weaker)
		text_printf(t, ", a %s", l->x->way);
	else if (*l->details && strncmp(l->what, "dot", 3) != 0 &&
		 strncmp(l->what, "mbarriers", 9) != 0)
		text_printf(t, "%s%s",
		    l->x->pair || strcmp(l->what, "cluster barrier") == 0 ? " " : ", ", said_inside(s, l));
	if (l->x->reason && !strstr(t->at, l->x->reason))
		text_printf(t, ": %s", l->x->reason);
	if (l->x->not_ahead)
		text_printf(t, "; %s", said_not_ahead(s, l));
}

static void
add_below(json_t *all, const char *text, bool bad)
{
	const json_t *j;
	size_t i;
	json_array_foreach(all, i, j)
		if (strcmp(json_string_value(json_object_get(j, "text")), text) == 0)
			return;
	if (*text)
		json_array_append_new(all, json_pack("{s:s, s:b}", "text", text, "bad", bad));
}

static void
add_line(const Said *s, const SaidLine *l, int n, json_t *all)
{
	bool weighs, narrow = l->x->out.bytes == 1;
	bool late = l->x->not_ahead && said_matters(s, said_spent_us(s, said_spent(s, l->line), BILL_WAITING));
	const char *waste = said_waste(s, l, &weighs);
	Text t = {0};
	if (strcmp(l->what, "buffer") == 0 || (strcmp(l->what, "put") == 0 && !said_banks(l)))
		return;
	put_what(s, l, &t);
	if (n > 1)
		text_printf(&t, "; %d such", n);
	if (*waste)
		text_printf(&t, "; by the model that %s", waste);
	if (*said_barrier(s, l))
		text_put(&t, said_often(s, l));
	else if (said_is_rare(l))
		text_printf(&t, "%s, which the model counts as the most", said_often(s, l));
	add_below(all, t.at, weighs || late || l->x->reason || said_is_weaker(l) || narrow);
	text_close(&t);
}

/* Accesses of a line that are alike, as of an unrolled loop: how many, for the first; 0: it is not.
 */
static int
alike(const SaidLines *own, int i)
{
	int n = 1;
	for (int k = 0; k < own->n && own->at[i].x->kind == INSPECT_ACCESS; k++) {
		bool same = k != i && strcmp(own->at[k].what, own->at[i].what) == 0 &&
			    strcmp(own->at[k].details, own->at[i].details) == 0;
		if (same && k < i)
			return 0;
		n += same;
	}
	return n;
}

json_t *
said_below(const Said *s, int line)
{
	json_t *all = json_array();
	SaidLines own = said_merged(s, line);
	for (int i = 0; i < own.n; i++)
		if (alike(&own, i))
			add_line(s, &own.at[i], alike(&own, i), all);
	const json_t *w;
	size_t i;
	json_array_foreach(s->warnings, i, w) {
		const char *help = json_string_value(json_object_get(w, "help"));
		if (json_integer_value(json_object_get(w, "line")) == line)
			add_below(all,
			    arena_printf(s->mem, "%s%s%s",
				json_string_value(json_object_get(w, "message")),
				help ? "; help: " : "", help ? help : ""),
			    true);
	}
	add_below(all, said_stall(s, line), false);
	add_below(all, counters(s, line), false);
	return all;
}

static const char *
told(const Said *s, const SaidLine *l)
{
	SaidList parts = {0};
	const char *barrier = said_barrier(s, l);
	said_add(s, &parts, l->what);
	said_add(s, &parts, l->tile);
	if (*barrier && l->x->pair)
		said_add(s, &parts, barrier + strlen(l->what) + 1);
	else if (*barrier)
		said_add(s, &parts,
		    arena_printf(
			s->mem, "%s%s%s", said_inside(s, l), said_often(s, l), said_barrier_mend(s, l)));
	else
		said_add(s, &parts, l->details);
	if (l->x->not_ahead)
		said_add(s, &parts, said_not_ahead(s, l));
	said_add(s, &parts, l->x->reason && !strstr(l->details, l->x->reason) ? l->x->reason : "");
	return said_join(s, &parts, " — ");
}

/* What a line takes of each of the chip's means, the most first: "instructions 34.1 µs,
 * waiting 30.6 µs". */
static const char *
all_parts(const Said *s, int line)
{
	const LineBill *l = said_spent(s, line);
	SaidList said = {0};
	BillPart part[BILL_PARTS];
	if (l)
		said_ranked(l->part, part);
	for (int n = 0; l && n < BILL_PARTS; n++) {
		double us = said_spent_us(s, l, part[n]);
		if (us > s->us / 1000)
			said_add(s, &said,
			    arena_printf(s->mem, part[n] == BILL_MEMORY ? "%s %s (%s)" : "%s %s", bill_part_names[part[n]],
				said_micro(s, us), said_mega(s, us)));
	}
	return said_join(s, &said, ", ");
}

json_t *
said_chosen(const Said *s, int line)
{
	SaidLines own = said_merged(s, line);
	SaidList all = {0};
	json_t *out = json_array();
	for (int i = 0; i < own.n; i++) {
		int n = alike(&own, i);
		said_add(s, &all,
		    n > 1 ? arena_printf(s->mem, "%s; %d such", told(s, &own.at[i]), n)
		    : n   ? told(s, &own.at[i])
			  : "");
	}
	if (*said_stall(s, line))
		said_add(s, &all,
		    arena_printf(s->mem, "%s; in all %s", said_stall(s, line), all_parts(s, line)));
	said_add(s, &all, counters(s, line));
	for (int i = 0; i < all.n; i++)
		json_array_append_new(out, json_string(all.at[i]));
	return out;
}
