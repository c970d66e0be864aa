/* Why a kernel is not faster: the time by the model and how far that may be off, the least that its
 * bytes and products take, what takes the time, and what can be changed. */
#include "tool/report/said.h"

#include "compile/choose/choose.h"

#include <math.h>
#include <string.h>

static const double ALONE = 0.9; /* of the launch: the longest part is all of it */
static const char BEHIND[] = "what follows the products";

/* Blocks take turns on the places that multiprocessors have for them; a last round with few is as
 * long as a full one. */
const char *
said_rounds(const Said *s)
{
	enum { ROUNDS = 6 };
	const Inspection *x = s->x;
	int units = x->t->rates ? x->t->rates->multiprocessors : 0, places = x->blocks * units;
	double rounds = places > 0 ? x->grid / places : 0, last = rounds - floor(rounds);
	if (x->f->schedule.persistent > 0 && places > 0 && x->bill.launched > 0)
		return arena_printf(s->mem,
		    "The kernel is persistent: up to %d blocks stay (%d on each of %d multiprocessors), and each runs "
		    "about %s of %.0f programs, one after the other, in a loop that the source does not show.",
		    places, x->blocks, units, said_round(s, x->bill.launched / places), x->bill.launched);
	if (rounds <= 1 || rounds >= ROUNDS ||
	    choose_leaves(x->f)) /* how many programs stay is estimated */
		return "";
	return arena_printf(s->mem,
	    "%.0f blocks have %d places at once (%d on each multiprocessor), which makes %.2f "
	    "rounds; the "
	    "last fills %.0f %% of the places.",
	    x->grid, places, x->blocks, rounds, 100 * (last > 0 ? last : 1));
}

/* ---- the time, and the least ---- */

double
said_behind_us(const Said *s)
{
	return s->us > 0 ? bill_us(&s->x->bill, s->x->t, s->x->bill.behind) : 0;
}

static const char *
sentence(const Said *s, const char *text)
{
	char *out = arena_strdup(s->mem, text);
	*out = *out >= 'a' && *out <= 'z' ? (char)(*out - 'a' + 'A') : *out;
	return out;
}

static bool
is_many(BillPart p)
{
	const char *name = bill_part_names[p];
	return p == BILL_REQUESTS || (name[strlen(name) - 1] == 's' && p != BILL_START);
}

/* What times were of estimates, of kernels by what the model took to bound them: half lie from
 * `low` to `high`, eight in ten from `least` to `most`.  177 kernels as the compiler chooses
 * them, on an H200: bench/results/h200-estimates.md. */
typedef struct ModelError {
	const char *of;
	int n;
	double low, high, least, most;
} ModelError;

static bool
any_is_narrow(const Said *s)
{
	for (int i = 0; i < s->lines.n; i++)
		if (said_is_narrow(s, &s->lines.at[i]) && !said_is_spread(&s->lines.at[i]))
			return true;
	return false;
}

static const ModelError *
model_error(const Said *s)
{
	static const ModelError memory = {"that device memory bounds by the model", 49, 1.02, 1.15, .96, 1.24},
				narrow =
				    {"with accesses that could be wider, that device memory bounds by the model", 24,
					1.07, 1.22, 1.03, 1.36},
				issue = {"that instructions bound by the model", 57, .95, 1.22, .91, 1.30},
				waiting = {"that waiting bounds by the model", 46, .76, 1.13, .67, 1.37},
				spilled = {"whose code spills", 11, 1.25, 2.32, 1.25, 3},
				plain = {"with little beside their products", 7, .94, 1.17, .88, 1.21},
				products = {"with products and arithmetic", 29, 1.04, 1.53, .90, 1.66},
				other = {"that something else bounds by the model", 28, .91, 1.23, .81, 1.50};
	static const double LITTLE = .3;
	BillPart most = said_longest(s, -1);
	if (said_spills(s))
		return &spilled;
	if (said_part(s, BILL_PRODUCTS) > 0)
		return MAX(said_part(s, BILL_ISSUE), said_part(s, BILL_SPECIAL)) <
			       LITTLE * said_part(s, most)
			   ? &plain
			   : &products;
	return most == BILL_MEMORY    ? any_is_narrow(s) ? &narrow : &memory
	       : most == BILL_ISSUE   ? &issue
	       : most == BILL_WAITING ? &waiting
				      : &other;
}

/* Of device memory the bytes that are different, in order. */
double
said_least_memory(const Said *s)
{
	const TargetRates *r = s->x->t->rates;
	double part = said_part(s, BILL_MEMORY);
	return s->x->bill.least > 0 ? MIN(s->x->bill.least / (r->memory_rate * r->clock), part) : part;
}

double
said_least(const Said *s, bool *memory, double *outside)
{
	double moves = said_least_memory(s), products = said_part(s, BILL_PRODUCTS), whole;
	if (products <= 0 || !*said_padding(s, outside, &whole))
		*outside = 0;
	products *= 1 - *outside;
	*memory = moves >= products;
	return MAX(moves, products);
}

const char *
said_guessed(const Said *s)
{
	static const char guess[] = "the model guesses ", loop[] = "'s loop runs";
	const char *at = strstr(s->summary, guess), *line = at;
	while (line && line > s->summary && line[-1] != '\n')
		line--;
	const char *end = line ? strstr(line, loop) : NULL;
	if (!end)
		return "";
	line += strspn(line, " ");
	return arena_printf(s->mem, "%.*s%s %.*s", (int)(end - line), line, loop,
	    (int)strcspn(at + sizeof guess - 1, "\n"), at + sizeof guess - 1);
}

static const char *
say_time(const Said *s)
{
	Text t = {0};
	bool memory;
	double seconds = json_number_value(json_object_get(s->profile, "seconds")), outside,
	       least = said_least(s, &memory, &outside);
	const ModelError *e = model_error(s);
	if (seconds > 0)
		text_printf(&t, "Measured, with counters on: %s. ", said_micro(s, seconds * 1e6));
	text_printf(&t, "Estimate of the model: %s", said_micro(s, s->us));
	if (*said_guessed(s))
		text_printf(&t,
		    ", if %s: how often it does is data's or an argument's, and the time with it.",
		    said_guessed(s));
	else
		text_printf(&t,
		    "; expect %s to %s: of %d kernels %s half took %.2f to %.2f times "
		    "the estimate, eight in ten "
		    "%.2f to %.2f (H200).",
		    said_micro(s, e->low * s->us), said_micro(s, e->high * s->us), e->n, e->of,
		    e->low, e->high, e->least, e->most);
	if (least > s->us / 50) {
		const char *padded = !memory && outside > 0 ? ", of elements inside of their tensors" : "";
		const char *of =
		    memory ? arena_printf(s->mem, "%s of device memory", said_least_mega(s))
		    : s->wgmma_us > 0
			? arena_printf(s->mem, "products by this instruction (by wgmma %s)",
			      said_micro(s, s->wgmma_us * (1 - outside)))
			: "products by this instruction";
		text_printf(&t, " The floor, %s alone%s: %s; the estimate is %s times that.", of,
		    padded, said_micro(s, least), said_round(s, s->us / least));
	}
	return text_take(&t, s->mem);
}

/* ---- what takes the time ---- */

/* Does nothing but a loop begin there whose copies have mbarriers? */
static bool
has_ring(const Said *s, int line)
{
	bool has = false;
	for (int i = 0; i < s->lines.n; i++) {
		const SaidLine *l = &s->lines.at[i];
		has |= l->line == line && strcmp(l->what, "mbarriers") == 0;
		if (l->line == line && strncmp(l->what, "dot", 3) == 0)
			return false;
	}
	return has;
}

/* Is it a line below the last product, whose results the bill has apart? */
static bool
is_behind(const Said *s, const LineBill *l)
{
	int last = 0;
	for (int i = 0; i < s->lines.n; i++)
		last = strncmp(s->lines.at[i].what, "dot", 3) == 0 ? MAX(last, s->lines.at[i].line) : last;
	return s->x->bill.behind > 0 && last > 0 && l->file == s->x->f->place.file && l->line > last;
}

/* "line 8 34.1 µs, line 10 9.58 µs" of a part, the most first. */
static const char *
lines_of(const Said *s, BillPart p)
{
	enum { SHOWN = 3 };
	SaidList all = {0};
	double part = said_part(s, p);
	SpentLines lines = said_lines_by(s, p);
	for (int i = 0; i < lines.n && all.n < SHOWN; i++) {
		const LineBill *l = lines.at[i];
		if (p == BILL_ISSUE && is_behind(s, l))
			continue;
		if (said_spent_us(s, l, p) < part / 10)
			break;
		const char *mix = p == BILL_ISSUE && all.n == 0 ? said_mix(s, l->line) : "";
		if (json_is_object(s->counted) && p == BILL_ISSUE && all.n == 0)
			mix = arena_printf(s->mem, "%s instructions of a warp for a program%s%s",
			    said_round(s, l->part[BILL_ISSUE] * 4 * s->x->t->rates->issue_rate /
					      func_warps(s->x->f)),
			    *mix ? ", " : "", mix);
		bool ring = p == BILL_ISSUE && has_ring(s, l->line);
		const char *wait = p == BILL_WAITING && l->wait ? arena_printf(s->mem, " for %s", l->wait)
				   : *mix                       ? arena_printf(s->mem, ": %s", mix)
				   : ring                       ? " for the ring's slots and mbarriers"
								: "";
		said_add(s, &all,
		    arena_printf(s->mem, "line %d %s%s", l->line,
			said_micro(s, said_spent_us(s, l, p)), wait));
	}
	double rest = part;
	for (int i = 0; i < s->x->spent.n; i++)
		rest -= s->x->spent.at[i].file == s->x->f->place.file
			    ? said_spent_us(s, &s->x->spent.at[i], p)
			    : 0;
	if (rest > part / 10 && p != BILL_START)
		said_add(s, &all, arena_printf(s->mem, "%s of %s", said_micro(s, rest),
				      s->x->bill.spilled > 0 ? "spills" : "no line"));
	return all.n ? arena_printf(s->mem, " (%s)", said_join(s, &all, ", ")) : "";
}

static bool
is_copier(const json_t *row)
{
	return strcmp(json_string_value(json_object_get(row, "name")), "copies") == 0;
}

const json_t *
said_own_reads(const Said *s)
{
	static const double SHARE = .25, LITTLE = .05;
	const json_t *row, *rows = json_object_get(s->timeline, "rows");
	double waits = 1;
	size_t i;
	json_array_foreach(rows, i, row)
		if (strcmp(json_string_value(json_object_get(row, "name")), "computes") == 0)
			waits = json_number_value(json_object_get(row, "waits"));
	json_array_foreach(rows, i, row)
		if (json_number_value(json_object_get(row, "reads")) >= SHARE && (waits > LITTLE || !is_copier(row)))
			return row;
	return NULL;
}

/* "waiting, L2 cache and shared memory" */
static const char *
names_of(const Said *s, const SaidList *l)
{
	SaidList head = *l;
	head.n--;
	return l->n < 2
		   ? l->at[0]
		   : arena_printf(s->mem, "%s and %s", said_join(s, &head, ", "), l->at[l->n - 1]);
}

/* "line 9 14.3 µs and line 10 3 µs of instructions": of lines below the last product. */
static const char *
behind_products(const Said *s)
{
	SaidList all = {0};
	for (int i = 0; i < s->x->spent.n; i++) {
		const LineBill *l = &s->x->spent.at[i];
		if (is_behind(s, l) && said_spent_us(s, l, BILL_ISSUE) > s->us / 100)
			said_add(s, &all,
			    arena_printf(s->mem, "line %d %s", l->line, said_micro(s, said_spent_us(s, l, BILL_ISSUE))));
	}
	return all.n ? arena_printf(s->mem, "%s of instructions", names_of(s, &all)) : "";
}

/* What takes long, the longest first: parts that overlap, and what follows the products, which overlaps with none. */
typedef struct Taken {
	double us;
	const char *name, *lines;
} Taken;

enum { SHOWN = 3 };

static int
list_taken(const Said *s, Taken out[SHOWN + 1])
{
	BillPart part[BILL_PARTS];
	int n = 0, at = 0;
	double behind = said_behind_us(s);
	said_ranked(s->x->bill.part, part);
	for (; n < SHOWN && (n == 0 || s->x->bill.part[part[n]] >= .1 * s->x->bill.part[part[0]]); n++)
		out[n] = (Taken){said_part(s, part[n]), bill_part_names[part[n]], lines_of(s, part[n])};
	if (behind < .1 * said_part(s, part[0]))
		return n;
	while (at < n && out[at].us >= behind)
		at++;
	for (int i = n; i > at; i--)
		out[i] = out[i - 1];
	const char *lines = behind_products(s);
	out[at] = (Taken){behind, BEHIND, *lines ? arena_printf(s->mem, " (%s)", lines) : ""};
	return n + 1;
}

/* What bounds it. */
static const char *
say_longest(const Said *s)
{
	Taken taken[SHOWN + 1];
	int n = list_taken(s, taken), near = 0;
	SaidList names = {0};
	for (int i = 0; i < n; i++)
		if (strcmp(taken[i].name, BEHIND) != 0 &&
		    taken[i].us >= REPORT_NEAR * said_part(s, said_longest(s, -1)) && ++near)
			said_add(s, &names, taken[i].name);
	const char *first = near ? sentence(s, names_of(s, &names)) : "";
	if (near > 1)
		return arena_printf(s->mem,
		    "%s are closer to each other than the model's estimates are to times: each may "
		    "bound the kernel, and less of one alone gains little.",
		    first);
	return arena_printf(
	    s->mem, "%s bound%s the kernel.", first, is_many(said_longest(s, -1)) ? "" : "s");
}

static const char *
say_parts(const Said *s)
{
	Taken taken[SHOWN + 1];
	int n = list_taken(s, taken), behind = 0;
	Text t = {0};
	SaidList said = {0};
	double longest = said_part(s, said_longest(s, -1));
	for (int i = 0; i < n; i++) {
		behind = strcmp(taken[i].name, BEHIND) == 0 ? i + 1 : behind;
		said_add(s, &said,
		    arena_printf(s->mem, "%d. %s %s%s", i + 1, taken[i].name,
			said_micro(s, taken[i].us), taken[i].lines));
	}
	text_printf(&t, "What takes the time, the longest first (they overlap%s): %s.",
	    behind ? arena_printf(
			 s->mem, ", but for %d., meanwhile the block multiplies nothing", behind)
		   : "",
	    said_join(s, &said, "; "));
	if (behind)
		text_printf(&t, " What follows the products adds to that: less of it gains as much.");
	if (longest < ALONE * s->us) {
		Text total = {0};
		bill_total(&s->x->bill, s->x->t, &total);
		text_printf(&t, " %s.", sentence(s, total.at));
		text_close(&total);
		if (said_alone(s) > 0 && s->x->blocks > 0)
			text_printf(&t, " That only other blocks of a multiprocessor hide, which %s %d at once.",
			    said_resident(s) < s->x->blocks ? "has room for more, but of this launch" : "holds",
			    said_resident(s));
	}
	const json_t *w, *own = said_own_reads(s);
	size_t i;
	double alone = own ? s->us / json_number_value(json_object_get(s->timeline, "scale")) : 0;
	if (own)
		text_printf(&t,
		    " In the loop the threads that %s read %s themselves, which no copy "
		    "brings ahead: by the timeline they wait for it %.0f %% of a trip.",
		    is_copier(own) ? "copy" : "compute", json_string_value(json_object_get(own, "read")),
		    100 * json_number_value(json_object_get(own, "reads")));
	if (alone > s->us)
		text_printf(&t,
		    " The estimate overlaps that with their other work; without any overlap "
		    "the launch takes %s.",
		    said_micro(s, alone));
	BillPart most = said_longest(s, -1);
	if ((most == BILL_MEMORY || most == BILL_SECTORS) && any_is_narrow(s))
		text_put(&t, " Accesses of few bytes (below) have more requests and more waiting "
			     "than the model counts, which may bound "
			     "the kernel in place of that.");
	SaidList gathers = {0};                         /* patchify: 3.1 times its estimate, 481 passes more a program */
	for (int k = 0; k < s->lines.n; k++) {
		const SaidLine *l = &s->lines.at[k];
		bool is_gather = strcmp(l->what, "gather") == 0 && strstr(l->details, "through shared memory");
		said_add(s, &gathers, is_gather && said_weighs(s, l->line) ? arena_printf(s->mem, "line %d", l->line) : "");
	}
	if (gathers.n)
		text_printf(&t,
		    " The gather of %s reads shared memory where its indices say: the model counts no bank conflicts of "
		    "it, which may bound the kernel.", names_of(s, &gathers));
	json_array_foreach(s->warnings, i, w)
	    text_printf(&t, " Warning: %s.", json_string_value(json_object_get(w, "message")));
	return text_take(&t, s->mem);
}

/* ---- what holds it ---- */

/* Lines of the summary that say what was guessed: trips, places, idle multiprocessors. */
static bool
is_remark(const char *t)
{
	static const char *const head[] = {"registers", "by published"};
	if (said_begins(t, head, LEN(head)))
		return true;
	size_t n = strspn(t, "0123456789");
	if (n && (strncmp(t + n, " program", 8) == 0))
		return true;
	n = strncmp(t, "line ", 5) == 0 ? 5 + strspn(t + 5, "0123456789") : 0;
	return n && (strncmp(t + n, "'s loop", 7) == 0 || strncmp(t + n, "'s places", 9) == 0);
}

static const char *
say_remarks(const Said *s)
{
	SaidList all = {0};
	for (const char *at = s->summary; at && *at; at += strcspn(at, "\n"), at += *at == '\n') {
		at += strspn(at, " \t");
		if (is_remark(at))
			said_add(s, &all, arena_strndup(s->mem, at, strcspn(at, "\n")));
	}
	for (int i = 0; i < s->lines.n; i++)
		if (strcmp(s->lines.at[i].what, "roles") == 0 && strstr(s->lines.at[i].details, "registers)"))
			said_add(s, &all, arena_printf(s->mem, "those are of the launch, then %s", s->lines.at[i].details));
	for (int k = 0; k < all.n; k++)
		all.at[k] = sentence(s, all.at[k]);
	return all.n ? arena_printf(s->mem, "%s.", said_join(s, &all, ". ")) : "";
}

void
said_bound(const Said *s, SaidList *out)
{
	if (s->us <= 0) {
		said_add(s, out,
		    arena_printf(s->mem,
			"The model has no rates of %s, or does not know this kernel.",
			s->x->t->name));
		said_add(s, out, say_remarks(s));
		return;
	}
	said_add(s, out, say_time(s));
	said_add(s, out, say_longest(s));
	said_remedies(s, out);
	said_add(s, out, say_parts(s));
	said_add(s, out, said_moved(s));
	const char *rounds = said_rounds(s);
	said_add(
	    s, out, arena_printf(s->mem, "%s%s%s", rounds, *rounds ? " " : "", say_remarks(s)));
	said_add(s, out, said_compared(s));
}
