/* All that stands beside a line of the source, and the sentences shown when it is chosen. */
#include "tool/report/explain/explain.h"

#include <math.h>
#include <string.h>

static const double SHARE = 3; /* %, of the launch, or of the part that bounds it: worth a word */

/* Does a part bound the kernel, or another with which it adds up? */
static bool
is_near(const Explain *s, BillPart p, double longest)
{
	BillPart with[BILL_PARTS];
	for (int of = 0; of < BILL_PARTS; of++) {
		int n = explain_term(s, (BillPart)of) >= REPORT_NEAR * longest ? explain_joined(s, (BillPart)of, with) : 0;
		if (ANY_OF(i, n, with[i] == p))
			return true;
	}
	return false;
}

/* By the parts that may bound the kernel alone. */
static const char *
stalled(const Explain *s, int line)
{
	const LineBill *l = explain_spent(s, line);
	double longest = explain_term(s, explain_bounding(s));
	int most = -1;
	for (int p = 0; l && p < BILL_PARTS; p++)
		if (is_near(s, (BillPart)p, longest) &&
		    (most < 0 || l->part[p] > l->part[most]))
			most = p;
	double us = most < 0 ? 0 : explain_spent_us(s, l, (BillPart)most);
	if (us <= 0 || us < SHARE / 100 * s->us)
		return "";
	const char *doubles = explain_doubles(s, line);
	bool waits = most == BILL_WAITING;
	bool computes = most == BILL_ISSUE || most == BILL_SPECIAL;
	const char *functions = computes ? explain_functions(s, line) : "";
	return arena_printf(s->mem, "by the model %s %s%s%s: %s, %.0f %% of the kernel's %s%s%s",
	    waits ? "waits for" : "takes", waits ? explain_wait(s, l) : bill_part_names[most],
	    *functions ? " of " : "", functions, explain_micro(s, us),
	    100 * us / explain_part(s, (BillPart)most), bill_part_names[most], *doubles ? "; " : "",
	    doubles);
}

static double
number(const json_t *j, const char *name)
{
	return json_number_value(json_object_get(j, name));
}

/* What the hardware counted in a line, where a profile is at hand. */
static const char *
counters(const Explain *s, int line)
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
		    explain_round(s, number(own, "sectors") / number(own, "least_sectors")));
	if (number(own, "least_bank_passes") > 0)
		text_printf(&t, ", %s of the fewest bank passes",
		    explain_round(
			s, number(own, "bank_passes") / number(own, "least_bank_passes")));
	return text_take(&t, s->mem);
}

/* "read x 16 B, 16/16 sectors" */
static void
put_access(const Explain *s, const ExplainLine *l, Text *t)
{
	double least, n = explain_sectors(l, &least);
	const BankPlan *banks = explain_banks(l);
	if (explain_is_held(l)) {
		text_put(t, ", no access: reads before it have brought its threads the elements");
		return;
	}
	text_printf(t, " %d B", l->x->bytes);
	if (l->x->again)
		text_put(t, ", but for elements of reads before it");
	if (n > 0)
		text_printf(t, ", %s/%s sectors%s", explain_round(s, n), explain_round(s, least),
		    explain_mean(s, l));
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
put_what(const Explain *s, const ExplainLine *l, Text *t)
{
	bool weaker = explain_is_weaker(l);
	text_put(t, l->what);
	if (l->x->bytes && strncmp(l->details, "by tensor map", 13) != 0)
		put_access(s, l, t);
	else if (weaker)
		text_printf(t, ", a %s", l->x->way);
	else if (*l->details && strncmp(l->what, "dot", 3) != 0 &&
		 strncmp(l->what, "mbarriers", 9) != 0)
		text_printf(t, "%s%s",
		    l->x->pair || strcmp(l->what, "cluster barrier") == 0 ? " " : ", ",
		    explain_inside(s, l));
	if (l->x->reason && !strstr(t->at, l->x->reason))
		text_printf(t, ": %s", l->x->reason);
	if (l->x->not_ahead)
		text_printf(t, "; %s", explain_not_ahead(s, l));
}

static void
add_below(json_t *all, const char *text, bool bad)
{
	const json_t *j;
	size_t i;
	json_array_foreach(
	    all, i, j) if (strcmp(json_string_value(json_object_get(j, "text")), text) == 0) return;
	if (*text)
		json_array_append_new(all, json_pack("{s:s, s:b}", "text", text, "bad", bad));
}

static void
add_line(const Explain *s, const ExplainLine *l, int n, json_t *all)
{
	bool weighs, narrow = l->x->out.bytes == 1;
	bool late =
	    l->x->not_ahead &&
	    explain_matters(s, explain_spent_us(s, explain_spent(s, l->line), BILL_WAITING));
	const char *waste = explain_waste(s, l, &weighs);
	Text t = {0};
	if (strcmp(l->what, "buffer") == 0 || (strcmp(l->what, "put") == 0 && !explain_banks(l)))
		return;
	put_what(s, l, &t);
	if (n > 1)
		text_printf(&t, "; %d times in the code", n);
	if (*waste)
		text_printf(&t, "; by the model that %s", waste);
	if (*explain_barrier(s, l))
		text_put(&t, explain_often(s, l));
	else if (explain_is_rare(l))
		text_printf(&t, "%s, which the model counts as the most", explain_often(s, l));
	add_below(all, t.at, weighs || late || l->x->reason || explain_is_weaker(l) || narrow);
	text_close(&t);
}

/* Accesses of a line that are alike, as of an unrolled loop or of its first trip apart: how many, for the first, with
 * the runs of all as one; 0: it is not. */
static int
alike(const ExplainLines *own, int i, ExplainLine *all)
{
	int n = 1;
	*all = own->at[i];
	for (int k = 0; k < own->n && all->x->kind == INSPECT_ACCESS; k++) {
		const ExplainLine *o = &own->at[k];
		if (k == i || strcmp(o->what, all->what) != 0 || strcmp(o->details, all->details) != 0)
			continue;
		if (k < i)
			return 0;
		n++;
		bool known = all->most >= 0 && o->most >= 0;
		all->runs = known ? all->runs + o->runs : -1;
		all->most = known ? all->most + o->most : -1;
	}
	return n;
}

/* Loads and stores of global memory that a line has in PTX. */
static int
global_accesses(const Explain *s, int line)
{
	int n = 0;
	for (int i = 0; s->is_ptx && i < s->code.n; i++) {
		const char *t = s->code.line[i];
		n +=
		    s->code.source[i] == line && (strstr(t, "ld.global") || strstr(t, "st.global"));
	}
	return n;
}

/* Copies of one access, as of a static loop, which differ in how their rows begin: the worst two
 * stand for all. */
static bool
is_one_of_many(const Explain *s, const ExplainLines *own, int i)
{
	int n = 0, worse = 0;
	const ExplainLine *l = &own->at[i];
	for (int k = 0; k < own->n; k++) {
		const ExplainLine *o = &own->at[k];
		ExplainLine as_one;
		if (o->x->kind != INSPECT_ACCESS || o->col != l->col ||
		    strcmp(o->what, l->what) != 0 || !alike(own, k, &as_one))
			continue;
		n++;
		BillPart part;
		double mine = explain_cost(s, l, &part), other = explain_cost(s, o, &part);
		worse += other > mine || (other == mine && k < i);
	}
	return n > 3 && worse >= 2;
}

static void
add_many(const Explain *s, const ExplainLines *own, int line, json_t *all)
{
	int n = 0, held = 0;
	for (int i = 0; i < own->n; i++)
		if (own->at[i].x->kind == INSPECT_ACCESS) {
			n++;
			held += explain_is_held(&own->at[i]);
		}
	const char *of = held ? arena_printf(s->mem,
				    ", %d of elements that reads before them have brought", held)
			      : "";
	add_below(all,
	    arena_printf(s->mem,
		"%d reads and writes in all%s; %d accesses of global memory in PTX", n, of,
		global_accesses(s, line)),
	    false);
}

/* Has an access of the source several in the code, as copies of its loop's body? */
static const char *
copies_of(const Explain *s, const ExplainLines *own)
{
	const char *why = explain_unrolled(s);
	for (int i = 0; i < own->n && *why; i++)
		for (int k = 0; k < i; k++) {
			const ExplainLine *l = &own->at[i], *o = &own->at[k];
			if (l->x->kind == INSPECT_ACCESS && o->x->kind == INSPECT_ACCESS && l->col == o->col &&
			    strcmp(l->what, o->what) == 0)
				return arena_printf(s->mem, "%s stands several times%s", l->what, why);
		}
	return "";
}

/* "2 blocks divide the loop, each leaves 2048 bytes of at, best in device memory, where the last one joins them": of the
 * line of a loop in parts. */
static const char *
exchanged(const Explain *s, int line)
{
	const Func *f = s->x->f;
	TextList names = {0};
	bool cluster = false, any = false;
	for (const Op *op = f->body->first; op; op = op_after(op, f->body)) {
		if (op->kind != OP_SPLIT_PUT || op->place.line != line || op->place.file != f->place.file)
			continue;
		const char *name = op->in[0]->name;
		any = true;
		cluster |= attr_cluster(op);
		explain_add(s, &names, name ? arena_strndup(s->mem, name, strcspn(name, ".")) : "");
	}
	int64_t bytes = split_part_bytes(f);
	if (!any)
		return "";
	return arena_printf(s->mem, "%d blocks divide the loop: each leaves %s%s in %s, where %s joins them",
	    f->schedule.split,
	    names.n ? explain_join(s, &names, ", ") : "what its trips came to",
	    bytes > 0 ? arena_printf(s->mem, " (%lld bytes)", (long long)bytes) : "",
	    cluster ? "its shared memory" : "device memory", cluster ? "each of the cluster" : "the one that ends last");
}

/* "loop runs as often as data says: 11.9 trips …", of the summary's line of that. */
static const char *
by_data(const Explain *s, int line)
{
	static const char *const what[] = {"'s loop ", " branches "};
	const char *head = arena_printf(s->mem, "line %d", line);
	size_t n = strlen(head);
	for (const char *at = s->summary; at && *at; at += strcspn(at, "\n"), at += *at == '\n') {
		at += strspn(at, " ");
		if (strncmp(at, head, n) != 0 || !explain_begins(at + n, what, LEN(what)))
			continue;
		at += n + (at[n] == '\'' ? 3 : 1);
		return arena_strndup(s->mem, at, strcspn(at, "\n"));
	}
	return "";
}

json_t *
explain_below(const Explain *s, int line)
{
	json_t *all = json_array();
	ExplainLines own = explain_merged(s, line);
	bool many = false;
	for (int i = 0; i < own.n; i++) {
		bool left_out = own.at[i].x->kind == INSPECT_ACCESS && is_one_of_many(s, &own, i);
		many |= left_out;
		ExplainLine l;
		int n = alike(&own, i, &l);
		if (!left_out && n)
			add_line(s, &l, n, all);
	}
	if (many)
		add_many(s, &own, line, all);
	add_below(all, copies_of(s, &own), false);
	const json_t *w;
	size_t i;
	json_array_foreach(s->warnings, i, w)
	{
		const char *help = json_string_value(json_object_get(w, "help"));
		if (json_integer_value(json_object_get(w, "line")) == line)
			add_below(all,
			    arena_printf(s->mem, "%s%s%s",
				json_string_value(json_object_get(w, "message")),
				help ? "; help: " : "", help ? help : ""),
			    true);
	}
	add_below(all, exchanged(s, line), false);
	add_below(all, by_data(s, line), false);
	add_below(all, stalled(s, line), false);
	add_below(all, counters(s, line), false);
	return all;
}

static const char *
told(const Explain *s, const ExplainLine *l)
{
	TextList parts = {0};
	const char *barrier = explain_barrier(s, l);
	explain_add(s, &parts, l->what);
	explain_add(s, &parts, l->tile);
	if (*barrier && l->x->pair)
		explain_add(s, &parts, barrier + strlen(l->what) + 1);
	else if (*barrier)
		explain_add(s, &parts,
		    arena_printf(s->mem, "%s%s%s", explain_inside(s, l), explain_often(s, l),
			explain_barrier_fix(s, l)));
	else
		explain_add(s, &parts, l->details);
	if (l->x->not_ahead)
		explain_add(s, &parts, explain_not_ahead(s, l));
	explain_add(
	    s, &parts, l->x->reason && !strstr(l->details, l->x->reason) ? l->x->reason : "");
	return explain_join(s, &parts, " — ");
}

/* What a line takes of each of the chip's means, the most first: "instructions 34.1 µs,
 * waiting 30.6 µs". */
static const char *
all_parts(const Explain *s, int line)
{
	const LineBill *l = explain_spent(s, line);
	TextList parts = {0};
	BillPart part[BILL_PARTS];
	if (l)
		explain_ranked(l->part, part);
	for (int n = 0; l && n < BILL_PARTS; n++) {
		double us = explain_spent_us(s, l, part[n]);
		if (us > s->us / 1000)
			explain_add(s, &parts,
			    arena_printf(s->mem, part[n] == BILL_MEMORY ? "%s %s (%s)" : "%s %s",
				bill_part_names[part[n]], explain_micro(s, us),
				explain_line_mega(s, us)));
	}
	return explain_join(s, &parts, ", ");
}

json_t *
explain_chosen(const Explain *s, int line)
{
	ExplainLines own = explain_merged(s, line);
	TextList all = {0};
	json_t *out = json_array();
	for (int i = 0; i < own.n; i++) {
		ExplainLine l;
		int n = alike(&own, i, &l);
		explain_add(s, &all,
		    n > 1 ? arena_printf(s->mem, "%s; %d times in the code", told(s, &l), n)
		    : n   ? told(s, &l)
			  : "");
	}
	if (*stalled(s, line))
		explain_add(s, &all,
		    arena_printf(
			s->mem, "%s; in all %s", stalled(s, line), all_parts(s, line)));
	explain_add(s, &all, exchanged(s, line));
	explain_add(s, &all, counters(s, line));
	for (int i = 0; i < all.n; i++)
		json_array_append_new(out, json_string(all.at[i]));
	return out;
}
