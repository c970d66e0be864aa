/* Which accesses are coalesced, how wide they are, and what part of the tiles lies outside of the
 * tensors. */
#include "tool/report/said.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double SLIGHT = 1.1;  /* times the fewest sectors: few more */
static const double OUTSIDE = 0.1; /* of a tile's elements: worth a word */

static bool
is_access(const SaidLine *l)
{
	static const char *const word[] = {
	    "read", "write", "load", "store", "copy", "send", "gather", "scatter", "atomic"};
	return said_begins(l->what, word, LEN(word));
}

static const InspectCount *
counted(const SaidLine *l)
{
	return l->x->counted && l->x->counted->n > 0 ? l->x->counted : NULL;
}

double
said_sectors(const SaidLine *l, double *least)
{
	const InspectCount *c = counted(l);
	*least = c ? (double)c->least / (double)c->n : l->x->least;
	return c                                         ? (double)c->total / (double)c->n
	       : l->x->sectors_known || l->x->bytes == 0 ? l->x->touched
							 : -1;
}

/* Times the fewest; at least 1. */
static double
ratio(const SaidLine *l)
{
	double least, n = said_sectors(l, &least);
	if (!counted(l) && l->x->mean > 0)
		return l->x->mean;
	return least > 0 && n > least ? n / least : 1;
}

const BankPlan *
said_banks(const SaidLine *l)
{
	const BankPlan *b[] = {&l->x->in, &l->x->out};
	for (int i = 0; i < LEN(b); i++)
		if (b[i]->bytes && b[i]->passes > b[i]->least)
			return b[i];
	return NULL;
}

double
said_cost(const Said *s, const SaidLine *l)
{
	const LineBill *spent = said_spent(s, l->line);
	double least, over = 0, passes = 0, n = said_sectors(l, &least);
	if (least > 0 && n >= 0)
		over = 1 - 1 / ratio(l);
	for (int i = 0; i < 2; i++) {
		const BankPlan *b = i ? &l->x->out : &l->x->in;
		if (b->bytes && b->passes > b->least)
			passes = MAX(passes, 1 - (double)b->least / b->passes);
	}
	return over * said_spent_us(s, spent, BILL_SECTORS) +
	       passes * said_spent_us(s, spent, BILL_SHARED);
}

/* Do its accesses have sectors in common, so that together they take the fewest? */
static bool
is_shared(const SaidLine *l)
{
	return l->x->cause && strstr(l->x->cause, "the rest of the same sectors");
}

const char *
said_waste(const Said *s, const SaidLine *l, bool *weighs)
{
	double least, n = said_sectors(l, &least), cost = s->us > 0 ? said_cost(s, l) : 0;
	BillPart part = said_banks(l) ? BILL_SHARED : BILL_SECTORS;
	double gain = s->us - said_with(s, part, cost); /* less than the cost where another part is then the longest */
	bool any = (least > 0 && n > least && !is_shared(l)) || said_banks(l), is_much = said_matters(s, cost);
	*weighs = any && (cost <= 0 ||
			     (is_much && said_part(s, part) >= REPORT_NEAR * said_part(s, said_longest(s, -1))));
	if (!any || cost <= 0)
		return "";
	return !is_much ? "costs next to nothing"
	       : *weighs
		   ? arena_printf(s->mem, "costs at most %s of the launch", said_micro(s, gain > 0 ? gain : cost))
		   : arena_printf(s->mem, "costs %s of the %s of %s, which does not bound the kernel",
			 said_micro(s, cost), bill_part_names[part], said_micro(s, said_part(s, part)));
}

const char *
said_mean(const Said *s, const SaidLine *l)
{
	return l->x->mean > 0 ? arena_printf(s->mem, " at worst, %s times the fewest in the mean",
				    said_round(s, l->x->mean))
			      : "";
}

/* The pitch of rows that would permit accesses of 16 bytes. */
static const char *
said_pitch(const Said *s, const SaidLine *l)
{
	static const char rows[] = "rows are ";
	const char *at = l->x->cause ? strstr(l->x->cause, rows) : NULL;
	char *end = NULL;
	long pitch = at ? strtol(at + sizeof rows - 1, &end, 10) : 0, wide = (pitch + 15) / 16 * 16;
	long size = l->x->tile ? dtype_info[l->x->tile->elem].bits / 8 : 0;
	if (pitch % 16 == 0 || size == 0 || !end || strncmp(end, " bytes apart", 12) != 0)
		return "";
	if (strncmp(end + 12, ", of which", 10) == 0)
		return "; in a tensor of its own, with rows a multiple of 16 bytes apart, 16 bytes would go at once";
	return arena_printf(s->mem,
	    "; with rows %ld bytes apart, %ld elements of which %ld are padding, 16 bytes would go "
	    "at "
	    "once",
	    wide, wide / size, (wide - pitch) / size);
}

const char *
said_not_ahead(const Said *s, const SaidLine *l)
{
	return arena_printf(s->mem, "not copied ahead, so that each trip waits for it: %s%s",
	    l->x->not_ahead, said_pitch(s, l));
}

/* "line 3 read x, 8 sectors of the fewest possible 4 (…), at most 1.2 µs of the launch" */
static const char *
say_sectors(const Said *s, const SaidLine *l)
{
	Text t = {0};
	bool weighs;
	double least, n = said_sectors(l, &least);
	const char *waste = said_waste(s, l, &weighs);
	text_printf(&t, "line %d %s, %s sectors of the fewest possible %s%s", l->line, l->what,
	    said_round(s, n), said_round(s, least), said_mean(s, l));
	if (l->x->cause)
		text_printf(&t, " (%s%s)", l->x->cause, said_pitch(s, l));
	if (l->x->counted)
		text_put(&t, ", as counted");
	if (*waste)
		text_printf(&t, ", which by the model %s", waste);
	return text_take(&t, s->mem);
}

/* What accesses of a kernel are like: sentences of each sort. */
typedef struct Accesses {
	SaidList wasted, slight, unknown, shared, good, mapped, narrow, banks;
	double most; /* times the fewest, of the slight ones */
} Accesses;

/* Bytes that all threads move by it for a program; 0: it is no access. */
static double
bytes_of(const SaidLine *l)
{
	bool moves = (l->x->kind == INSPECT_ACCESS || l->x->kind == INSPECT_COPY) && l->x->tile && is_access(l);
	return moves ? (double)tile_bytes(l->x->tile) * (l->runs >= 0 ? l->runs : 1) : 0;
}

/* The source has one, the code several, as of trips that are unrolled: the worst stands for them. */
static bool
is_one_access(const SaidLine *a, const SaidLine *b)
{
	return a->line == b->line && a->col == b->col && strcmp(a->what, b->what) == 0;
}

/* Of what accesses move, is it a share that may be worth something? */
static bool
moves_much(const Said *s, const SaidLine *l)
{
	static const double MUCH = .1;
	double all = 0, own = 0;
	for (int i = 0; i < s->lines.n; i++) {
		double bytes = bytes_of(&s->lines.at[i]);
		all += bytes;
		own += is_one_access(&s->lines.at[i], l) ? bytes : 0;
	}
	return own >= MUCH * all;
}

static bool
is_narrow(const Said *s, const SaidLine *l)
{
	const InspectLine *x = l->x;
	bool is_copy = strncmp(l->what, "copy", 4) == 0;
	return is_access(l) && x->bytes > 0 && x->bytes <= 4 && x->wider > x->bytes &&
	       (x->accesses > 1 || !is_copy) && (s->us <= 0 || said_weighs(s, l->line)) && moves_much(s, l);
}

bool
said_is_spread(const SaidLine *l)
{
	double least, n = said_sectors(l, &least);
	return l->x->bytes > 0 && l->x->bytes <= 4 && l->x->accesses > 1 && n > 1.5 * least && n < 8 * least &&
	       l->x->cause && strncmp(l->x->cause, "neighbouring lanes are ", 23) == 0;
}

bool
said_is_narrow(const Said *s, const SaidLine *l)
{
	bool rows = is_access(l) && l->x->bytes > 0 && l->x->bytes <= 4 && l->x->accesses > 1 &&
		    *said_pitch(s, l);
	bool spread = is_access(l) && said_is_spread(l);
	return is_narrow(s, l) || ((rows || spread) && (s->us <= 0 || said_weighs(s, l->line)) && moves_much(s, l));
}

bool
said_has_tile(const Said *s)
{
	for (int i = 0; i < s->b->nct; i++)
		if (report_is_part(s->b->kernel, s->b->ct[i].name))
			return true;
	return false;
}

static const char WITHOUT_TILE[] = "a program for several rows, or a larger tile, permits that";

const char *
said_widen(const Said *s, const SaidLine *l)
{
	const char *cause = l->x->cause ? l->x->cause : "", *pitch = said_pitch(s, l);
	return *pitch ? pitch + 2
	       : said_is_spread(l) ? "one read of these with the elements between them (a range, `i +: n`), which a "
				"reshape parts, or a tensor in which these are adjacent, permits that"
	       : strstr(cause, "strides are known at launch only")
		   ? "a tensor that is contiguous, or declared without `strided`, permits that"
	       : strstr(cause, "an index of its own")
		   ? "a range (`i +: B`) in place of an index for each element permits that"
	       : l->x->accesses > 1 ? ""
	       : said_has_tile(s)        ? "a larger tile permits that"
				    : WITHOUT_TILE;
}

static void
add_narrow(const Said *s, const SaidLine *l, Accesses *a)
{
	if (is_narrow(s, l))
		said_add(s, &a->narrow,
		    arena_printf(s->mem,
			"line %d %s, %d access%s of %d bytes a thread where %d bytes would be possible%s",
			l->line, l->what, l->x->accesses, l->x->accesses > 1 ? "es" : "", l->x->bytes, l->x->wider,
			l->x->accesses > 1 ? ""
			: said_has_tile(s)      ? " in a larger tile"
					   : " if a program had several rows"));
}

/* "copy x in rows of 128 bytes": the innermost extent of the box. */
static const char *
map_rows(const Said *s, const SaidLine *l)
{
	const char *of = strstr(l->details, " of ");
	long row = of && l->x->tile ? strtol(of + 4, NULL, 10) * dtype_info[l->x->tile->elem].bits / 8 : 0;
	return row > 0 ? arena_printf(s->mem, "%s in rows of %ld bytes", l->what, row) : l->what;
}

static void
add_access(const Said *s, const SaidLine *l, Accesses *a)
{
	double least, n = said_sectors(l, &least);
	if (strncmp(l->details, "by tensor map", 13) == 0) {
		said_add(s, &a->mapped, map_rows(s, l));
		return;
	}
	if (l->x->bytes == 0)
		return;
	add_narrow(s, l, a);
	if (n < 0) {
		said_add(s, &a->unknown, arena_printf(s->mem, "line %d %s", l->line, l->what));
	} else if (n > least && is_shared(l)) {
		said_add(s, &a->shared,
		    arena_printf(s->mem, "line %d %s, %s of %s", l->line, l->what, said_round(s, n), said_round(s, least)));
	} else if (n <= least) {
		said_add(s, &a->good, arena_printf(s->mem, "%d:%d %s", l->line, l->col, l->what));
	} else if (ratio(l) >= SLIGHT) {
		said_add(s, &a->wasted, say_sectors(s, l));
	} else {
		said_add(s, &a->slight, say_sectors(s, l));
		a->most = MAX(a->most, ratio(l));
	}
}

static int
by_cost(const Said *s, const SaidLine *x, const SaidLine *y)
{
	double a = said_cost(s, x), b = said_cost(s, y);
	return a > b ? -1 : a < b;
}

/* Accesses, those that cost the most first; else by the text. */
static SaidLines
accesses(const Said *s)
{
	SaidLines all = {0};
	for (int i = 0; i < s->lines.n; i++) {
		const SaidLine *l = &s->lines.at[i];
		int had = 0;
		while (had < all.n && !is_one_access(&all.at[had], l))
			had++;
		if (!is_access(l) || (had < all.n && by_cost(s, l, &all.at[had]) >= 0))
			continue;
		if (had == all.n)
			vec_push(s->mem, &all, *l);
		all.at[had] = *l;
		for (int k = had; s->us > 0 && k > 0 && by_cost(s, &all.at[k], &all.at[k - 1]) < 0; k--) {
			SaidLine less = all.at[k - 1];
			all.at[k - 1] = all.at[k];
			all.at[k] = less;
		}
	}
	return all;
}

static void
add_banks(const Said *s, const SaidLine *l, Accesses *a)
{
	for (int i = 0; i < 2; i++) {
		const BankPlan *b = i ? &l->x->out : &l->x->in;
		if (b->bytes && b->passes > b->least)
			said_add(s, &a->banks,
			    arena_printf(s->mem,
				"line %d %s %s it, %d passes of the fewest possible %d", l->line,
				l->what, i ? "from" : "into", b->passes, b->least));
	}
}

static void
put(const Said *s, const char *format_head, const SaidList *l, const char *tail, Text *out)
{
	if (l->n)
		text_printf(
		    out, "%s%s%s%s", out->n ? " " : "", format_head, said_join(s, l, "; "), tail);
}

const char *
said_coalesced(const Said *s)
{
	Accesses a = {.most = 1};
	Text out = {0};
	SaidLines all = accesses(s);
	for (int i = 0; i < all.n; i++)
		add_access(s, &all.at[i], &a);
	for (int i = 0; i < s->lines.n; i++)
		add_banks(s, &s->lines.at[i], &a);
	put(s, "Not all: ", &a.wasted, ".", &out);
	if (a.slight.n) {
		bool rest = a.wasted.n || a.unknown.n;
		int percent = MAX((int)lround((a.most - 1) * 100), 1);
		text_printf(&out, "%s%s %d %% %s: %s.", out.n ? " " : "",
		    rest ? "With few more" : "Yes, but for", percent,
		    rest ? "at most" : "more sectors at most", said_join(s, &a.slight, "; "));
	}
	put(s, "Not known, since data says where: ", &a.unknown, "; --run counts them.", &out);
	put(s, "Yes, as other accesses take the rest of the same sectors, by then in the first cache: ", &a.shared,
	    " sectors at once.", &out);
	if (a.good.n)
		text_printf(&out, "%s%s (%d) takes the fewest sectors possible.", out.n ? " " : "",
		    out.n ? "The rest" : "Yes: each", a.good.n);
	put(s, out.n ? "" : "Yes: ", &a.mapped,
	    ": whole boxes by tensor maps, the fewest sectors where rows begin on one (32 bytes).", &out);
	put(s, "Rows would permit wider accesses: ", &a.narrow, ".", &out);
	put(s, "Bank conflicts of shared memory: ", &a.banks, ".", &out);
	if (!out.n)
		text_put(&out, "It accesses no memory.");
	return text_take(&out, s->mem);
}

/* ---- elements outside of the tensors ---- */

/* The largest power of two of which several have at most a tenth outside; "": none. */
static const char *
said_fits(const Said *s, const SaidLine *l)
{
	double n = l->x->outside.inside;
	if (n != floor(n))
		return "";
	for (double e = l->x->outside.of / 2; e >= 8; e /= 2) {
		double over = ceil(n / e) * e / n - 1;
		if (over > OUTSIDE)
			continue;
		const char *rest =
		    over > 0 ? arena_printf(s->mem, "%.0f %%", over / (1 + over) * 100) : "none";
		return arena_printf(s->mem, "Tiles of %.0f along a dimension of %.0f have %s%s", e,
		    n, rest, over > 0 ? " outside" : "");
	}
	return "";
}

/* An index of an access in the source, behind its bracket: as long as it goes. */
static size_t
index_length(const char *at)
{
	size_t n = 0;
	for (int depth = 0; at[n] && depth >= 0; n++) {
		depth += (at[n] == '(' || at[n] == '[') - (at[n] == ')' || at[n] == ']');
		if (depth < 0 || (depth == 0 && at[n] == ','))
			break;
	}
	return n;
}

/* Does the source take all of the dimension that has the most outside, by ":", or a range of a
 * number of elements that neither programs nor trips part it by? */
static bool
is_whole(const Said *s, const SaidLine *l)
{
	const char *text = l->line > 0 && l->line <= s->source.n ? s->source.at[l->line - 1] : "";
	const char *at = (size_t)l->col <= strlen(text) ? strchr(text + l->col - 1, '[') : NULL;
	for (int d = 0; at && d < l->x->outside.dim; d++) {
		at += 1 + index_length(at + 1);
		at = *at == ',' ? at : NULL;
	}
	if (!at)
		return false;
	char *part = text_trim(arena_strndup(s->mem, at + 1, index_length(at + 1))),
	     *range = strstr(part, "+:");
	if (!range)
		return strcmp(part, ":") == 0;
	range = text_trim(range + 2);
	const NamedConst *c = named_const(s->b->ct, s->b->nct, range);
	return c ? !report_is_part(s->b->kernel, c->name)
		 : *range && range[strspn(range, "0123456789")] == '\0';
}

/* Of each access the tile with the most. */
static SaidLines
padded(const Said *s)
{
	SaidLines most = {0};
	for (int i = 0; i < s->lines.n; i++) {
		const SaidLine *l = &s->lines.at[i];
		int k = 0;
		if (l->x->outside.share < OUTSIDE || strncmp(l->what, "buffer", 6) == 0 ||
		    strncmp(l->what, "mbarr", 5) == 0)
			continue;
		while (k < most.n && strcmp(most.at[k].what, l->what) != 0)
			k++;
		if (k == most.n)
			vec_push(s->mem, &most, *l);
		else if (l->x->outside.share > most.at[k].x->outside.share)
			most.at[k] = *l;
	}
	return most;
}

/* "f16[4096]", also of a buffer of such tiles. */
static const char *
tile_of(const Said *s, const SaidLine *l)
{
	const char *at = strncmp(l->tile, "buffer<", 7) == 0 ? strstr(l->tile, " x ") : NULL;
	return at ? arena_strndup(s->mem, at + 3, strlen(at + 3) - 1) : l->tile;
}

const char *
said_padding(const Said *s, double *share, double *whole_share)
{
	enum { SHOWN = 2 };
	SaidLines most = padded(s);
	SaidList said = {0}, smaller = {0}, whole = {0};
	Text out = {0};
	bool any = false;
	*share = *whole_share = 0;
	for (int i = 0; i < most.n; i++) {
		const SaidLine *l = &most.at[i];
		const InspectOutside *o = &l->x->outside;
		if (said.n < SHOWN)
			said_add(s, &said,
			    arena_printf(s->mem,
				"line %d %s, %.0f %% of %s (%.12g of %.12g along dimension %d)",
				l->line, l->what, o->share * 100, tile_of(s, l),
				round(o->inside * 10) / 10, o->of, o->dim));
		bool fixed = is_whole(s, l);
		any |= !fixed;
		double *of = fixed ? whole_share : share;
		*of = MAX(*of, o->share);
		said_add(s, &smaller, said_fits(s, l));
		said_add(s, &whole, fixed ? arena_printf(s->mem, "%d", l->line) : "");
	}
	if (!most.n)
		return "";
	text_printf(&out,
	    "fewer elements of tiles outside of their tensors, which take time as others do: %s%s",
	    said_join(s, &said, "; "), most.n > said.n ? "; and others" : "");
	if (whole.n)
		text_printf(&out,
		    ". Line%s %s take%s the whole dimension (:) or a range of a fixed length, which "
		    "no other tile changes: only a loop or programs that part it, where the kernel permits that",
		    whole.n > 1 ? "s" : "", said_join(s, &whole, ", "), whole.n > 1 ? "" : "s");
	if (any || smaller.n)
		text_printf(&out, ". %s",
		    smaller.n ? said_join(s, &smaller, "; ") : "Smaller tiles have fewer of them");
	return text_take(&out, s->mem);
}
