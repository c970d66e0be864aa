/* The time by the model, how far that may be off, and the least that bytes and products take. */
#include "tool/report/explain/explain.h"

#include <stdlib.h>
#include <string.h>

/* What times were of estimates, of kernels by what the model took to bound them: eight in ten from
 * `least` to `most`. Kernels as the compiler chooses them, on an H200:
 * bench/results/h200-estimates.md. */
typedef struct ModelError {
	const char *of;
	int n;
	double least, most;
} ModelError;

/* Of the floor: device memory gives a little more where nearly all of it is read.  Of 569 kernels on an H200 13 took 0.95
 * to 1 of their floor, and six less, of whose tensors the data left a part unread or the L2 cache had one. */
static const double READ_ALONE = .95, MOSTLY = .9;

static bool
writes(const Explain *s, int line)
{
	static const char *const word[] = {"write ", "send ", "store ", "atomic "};
	return ANY_OF(i, s->lines.n, s->lines.at[i].line == line && explain_begins(s->lines.at[i].what, word, LEN(word)));
}

/* What of the floor such kernels may take. */
static double
floor_share(const Explain *s)
{
	double read = 0, all = explain_part(s, BILL_MEMORY);
	for (int i = 0; i < s->x->spent.n; i++) {
		const LineBill *l = &s->x->spent.at[i];
		bool reads = l->file == s->x->f->place.file && !writes(s, l->line);
		read += reads ? explain_spent_us(s, l, BILL_MEMORY) : 0;
	}
	return read >= MOSTLY * all ? READ_ALONE : 1;
}

static const ModelError *
model_error(const Explain *s)
{
	static const ModelError
	    memory = {"that device memory bounds by the model", 102, .94, 1.16},
	    places = {"that device memory bounds by the model, with rows or elements that data names,", 18, .85, 1.26},
	    narrow = {"with accesses of few bytes, that device memory bounds by the model",
		54, .87, 1.26},
	    issue = {"that instructions bound by the model", 100, .88, 1.35},
	    waiting = {"that waiting bounds by the model", 26, .72, 1.38},
	    spilled = {"whose code spills", 11, 1.25, 3},
	    plain = {"with little beside their products", 37, .84, 1.42},
	    products = {"with products and arithmetic", 87, .93, 1.83},
	    atomics = {"that atomics bound by the model", 8, .44, 2.05},
	    other = {"that neither instructions, products nor device memory bound by the model", 28, .72, 1.25};
	static const double LITTLE = .3;
	BillPart most = explain_longest(s, -1);
	bool counted = json_is_object(s->counted) && explain_part(s, BILL_PRODUCTS) <= 0; /* spills, too */
	if (explain_spills(s) && !counted)
		return &spilled;
	if (explain_part(s, BILL_PRODUCTS) > 0)
		return MAX(explain_part(s, BILL_ISSUE), explain_part(s, BILL_SPECIAL)) <
			       LITTLE * explain_part(s, most)
			   ? &plain
			   : &products;
	return most == BILL_MEMORY    ? explain_any_gathered(s) ? &places
				      : explain_any_narrow(s) ? &narrow
							      : &memory
	       : most == BILL_ISSUE   ? &issue
	       : most == BILL_WAITING ? &waiting
	       : most == BILL_ATOMICS ? &atomics
				      : &other;
}

/* Of device memory the bytes that are different, in order. */
double
explain_least_memory(const Explain *s)
{
	const TargetRates *r = s->x->t->rates;
	double part = explain_part(s, BILL_MEMORY);
	return s->x->bill.least > 0 ? MIN(s->x->bill.least / (r->memory_rate * r->clock), part)
				    : part;
}

double
explain_least(const Explain *s, bool *memory, double *outside)
{
	double moves = explain_least_memory(s), products = explain_part(s, BILL_PRODUCTS), whole;
	if (products <= 0 || !*explain_padding(s, outside, &whole))
		*outside = 0;
	products *= 1 - *outside;
	*memory = moves >= products;
	return MAX(moves, products);
}

double
explain_even(const Explain *s)
{
	const TargetRates *r = s->x->t->rates;
	double part = explain_part(s, BILL_MEMORY), even = r ? part * s->bytes_us / (r->memory_rate * r->clock) : part;
	return explain_with(s, BILL_MEMORY, MAX(part - even, 0));
}

bool
explain_at_floor(const Explain *s)
{
	static const double FEW = 1.1; /* times the least: nothing is left */
	bool memory;
	double outside;
	return !explain_idle(s) && s->us - explain_other(s) < FEW * explain_least(s, &memory, &outside);
}

bool
explain_idle(const Explain *s)
{
	static const double MANY = .8;
	const Bill *b = &s->x->bill;
	return s->x->t->rates && b->launched > 0 && b->launched < MANY * s->x->t->rates->multiprocessors;
}

/* "line 9's loop runs 16 trips of a program", of the summary's "line 9's loop runs as often as data says: the model guesses
 * 16 trips of a program". */
static const char *
trips_of(const Explain *s, const char *word)
{
	static const char loop[] = "'s loop runs";
	const char *at = strstr(s->summary, word), *line = at;
	while (line && line > s->summary && line[-1] != '\n')
		line--;
	const char *end = line ? strstr(line, loop) : NULL;
	if (!end || end > at)
		return "";
	line += strspn(line, " ");
	at += strlen(word);
	return arena_printf(s->mem, "%.*s%s %.*s", (int)(end - line), line, loop, (int)strcspn(at, "\n"), at);
}

const char *
explain_guessed(const Explain *s)
{
	return trips_of(s, "the model guesses ");
}

const char *
explain_most_trips(const Explain *s)
{
	return *explain_guessed(s) ? "" : trips_of(s, "the model counts ");
}

static bool
is_off(const Explain *s)
{
	static const double OFF = 1.25;
	return s->measured > 0 && s->us > 0 && (s->measured > OFF * s->us || s->us > OFF * s->measured);
}

/* What the estimate has not, of this kernel. */
static void
add_left_out(const Explain *s, TextList *out)
{
	const json_t *n;
	const char *line;
	json_object_foreach((json_t *)json_object_get(s->counted, "left"), line, n)
	    explain_add(s, out,
		arena_printf(s->mem,
		    "%s instructions of line %s, %s, which a warp executes where data has such values",
		    explain_round(s, json_number_value(n)), line, explain_functions(s, atoi(line))));
	if (explain_any_narrow(s))
		explain_add(s, out, "what accesses of few bytes take beyond their sectors");
	if (explain_any_gathered(s))
		explain_add(s, out, "which rows and elements data names: it counts them as at random");
	if (explain_spills(s))
		explain_add(s, out, "how often registers are spilled");
}

const char *
explain_off(const Explain *s)
{
	TextList left = {0};
	if (!is_off(s))
		return "";
	if (s->measured > s->us)
		add_left_out(s, &left);
	const char *trips = *explain_guessed(s) ? explain_guessed(s) : explain_most_trips(s);
	explain_add(s, &left, *trips ? arena_printf(s->mem, "how many trips data makes it (%s)", trips) : "");
	return arena_printf(s->mem,
	    "The measured time, %s, is %s times the estimate: what follows is by the model, and explains %s. %s%s.",
	    explain_micro(s, s->measured), explain_round(s, s->measured / s->us),
	    s->measured > s->us
		? arena_printf(s->mem, "%s of it at most", explain_micro(s, s->us))
		: "more than there is, so that its parts, or one of them, are counted too high",
	    left.n ? "The model does not know: " : "Nothing is known that the model leaves out of this kernel",
	    explain_join(s, &left, "; "));
}

const char *
explain_estimate(const Explain *s)
{
	const ModelError *e = model_error(s);
	bool memory;
	double outside, least = explain_least(s, &memory, &outside);
	return *explain_most_trips(s) ? arena_printf(s->mem, "%s at most (with the estimate's error %s)",
					    explain_micro(s, s->us), explain_micro(s, MAX(e->most, 1) * s->us))
	       : *explain_guessed(s) || s->x->t->rates->is_public
		   ? explain_micro(s, s->us)
		   : arena_printf(s->mem, "%s (%s to %s)", explain_micro(s, s->us),
			 explain_micro(s, MAX(MIN(e->least, 1) * explain_even(s), floor_share(s) * least)),
			 explain_micro(s, MAX(e->most, 1) * s->us));
}

/* What any schedule takes. */
static const char *
say_floor(const Explain *s)
{
	static const double ROUND = .99; /* of the fullest multiprocessor's programs: what the mean one has */
	bool memory;
	double outside, least = explain_least(s, &memory, &outside);
	if (least <= s->us / 50)
		return "";
	const char *padded = !memory && outside > 0 ? ", of elements inside of their tensors" : "";
	const char *of = memory ? arena_printf(s->mem, "%s of device memory", explain_least_mega(s))
			 : s->wgmma_us > 0
			     ? arena_printf(s->mem, "products by this instruction (by wgmma %s)",
				   explain_micro(s, s->wgmma_us * (1 - outside)))
			     : "products by this instruction";
	const Bill *b = &s->x->bill;
	double full = b->programs > 0 ? b->launched / (s->x->t->rates->multiprocessors * b->programs) : 1;
	const char *rounds = memory || full <= 0 || full > ROUND ? ""
				: arena_printf(s->mem, " (%s, had all multiprocessors as many programs)",
				      explain_micro(s, least * full));
	return arena_printf(s->mem, "The floor, %s alone%s%s: %s%s; the estimate%s is %s times that.", of,
	    padded, memory && floor_share(s) < 1 ? " (reads alone up to 5 % less)" : "", explain_micro(s, least), rounds,
	    explain_other(s) > 0 ? " of the kernel shown" : "",
	    explain_round(s, (s->us - explain_other(s)) / least));
}

const char *
explain_time(const Explain *s)
{
	Text t = {0};
	const ModelError *e = model_error(s);
	if (s->measured > 0)
		text_printf(&t, "Measured: %s. ", explain_micro(s, s->measured));
	if (*explain_guessed(s))
		text_printf(&t,
		    "The estimate, %s, is for a guess: %s. How often it does is data's or an "
		    "argument's, and the time "
		    "with it.",
		    explain_micro(s, s->us), explain_guessed(s));
	else if (*explain_most_trips(s))
		text_printf(&t,
		    "The estimate, %s, is for the most trips: %s. Data says how many there are, and the time goes "
		    "with it; of %d measured kernels %s, whose trips were known, eight in ten took %.2f to %.2f "
		    "times their estimate (H200).",
		    explain_micro(s, s->us), explain_most_trips(s), e->n, e->of, e->least, e->most);
	else if (s->x->t->rates->is_public)
		text_printf(&t,
		    "The estimate, %s, is by published figures of such a chip, on which no kernel "
		    "was measured.",
		    explain_micro(s, s->us));
	else
		text_printf(&t,
		    "Estimate and range, %s: of %d measured kernels %s eight in ten took %.2f to "
		    "%.2f times their estimate "
		    "(H200).",
		    explain_estimate(s), e->n, e->of, e->least, e->most);
	text_printf(&t, " %s", say_floor(s));
	return text_take(&t, s->mem);
}
