/* Diagnostics: collected as values, printed by the driver.
 *
 *     softmax.tgl:12:18: error: dot: inner dimensions differ, 64 and 32 [E0601]
 *     12 |     acc = dot(q, k, acc);
 *        |               ^~~~~~~~~~~~~~ k is f32[32, 128]; expected 64 rows to match q
 *        = help: ...
 */
#include "base/base.h"

#include <stdlib.h>
#include <string.h>

static const struct {
	const char *code, *text;
} rows[] = {
#define DIAG(name, code, text) {code, text},
#include "base/diag.def"
#undef DIAG
};

Compile *
compile_open(void)
{
	Compile *cx = memory_new(1, sizeof *cx);
	cx->mem = arena_open();
	cx->sources = cx->mem;
	cx->tmp = arena_open();
	cx->names = intern_open(cx->mem);
	return cx;
}

void
compile_close(Compile *cx)
{
	if (!cx)
		return;
	arena_close(cx->mem);
	arena_close(cx->tmp);
	free(cx);
}

const char *
diag_code(DiagCode code)
{
	return rows[code].code;
}

const char *
diag_text(DiagCode code)
{
	return rows[code].text;
}

static void
report(Compile *cx, Severity severity, Place at, DiagCode code, va_list ap)
{
	Diag *d = NEW(cx->mem, Diag);
	*d = (Diag){.code = code, .severity = severity, .place = at};
	d->text = arena_vprintf(cx->mem, rows[code].text, ap);
	if (cx->last)
		cx->last->next = d;
	else
		cx->first = d;
	cx->last = d;
	cx->nerrors += severity == SEV_ERROR;
}

bool
diag_error(Compile *cx, Place at, DiagCode code, ...)
{
	va_list ap;
	va_start(ap, code);
	if (cx->muted)
		cx->nmuted++;
	else
		report(cx, SEV_ERROR, at, code, ap);
	va_end(ap);
	return false;
}

void
diag_warning(Compile *cx, Place at, DiagCode code, ...)
{
	va_list ap;
	va_start(ap, code);
	if (!cx->muted)
		report(cx, SEV_WARNING, at, code, ap);
	va_end(ap);
}

bool
diag_label(Compile *cx, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	if (!cx->muted && cx->last)
		cx->last->label = arena_vprintf(cx->mem, fmt, ap);
	va_end(ap);
	return false;
}

bool
diag_help(Compile *cx, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	if (!cx->muted && cx->last)
		cx->last->help = arena_vprintf(cx->mem, fmt, ap);
	va_end(ap);
	return false;
}

bool
diag_note(Compile *cx, Place at, const char *fmt, ...)
{
	if (cx->muted || !cx->last)
		return false;
	va_list ap;
	Diag *note = NEW(cx->mem, Diag), **end = &cx->last->notes;
	va_start(ap, fmt);
	*note = (Diag){.code = cx->last->code, .severity = SEV_NOTE, .place = at};
	note->text = arena_vprintf(cx->mem, fmt, ap);
	va_end(ap);
	while (*end)
		end = &(*end)->next;
	*end = note;
	return false;
}

void
diag_cut(Compile *cx, Diag *last)
{
	Diag **end = last ? &last->next : &cx->first;
	for (const Diag *d = *end; d; d = d->next)
		cx->nerrors -= d->severity == SEV_ERROR;
	*end = NULL;
	cx->last = last;
}

void
diag_drop(Compile *cx, const Diag *d)
{
	Diag *before = NULL;
	for (Diag *at = cx->first; at != d; at = at->next)
		before = at;
	*(before ? &before->next : &cx->first) = d->next;
	cx->last = cx->last == d ? before : cx->last;
	cx->nerrors -= d->severity == SEV_ERROR;
}

void
diag_calls(Compile *cx, Place at)
{
	for (const CallSite *c = at.call; c; c = c->at.call)
		diag_note(cx, c->at, "in this call of '%s'", c->fn);
}

static const char *const severity_name[] = {"error", "warning", "note"};
static const char *const severity_color[] = {"\033[1;31m", "\033[1;35m", "\033[1;36m"};

static void
put_color(Text *out, bool color, const char *code)
{
	if (color)
		text_put(out, code);
}

/* The part of a long line that is shown: `from` bytes in, `n` bytes, cut at UTF-8 boundaries. */
enum { WINDOW = 160, BEFORE = 60 };

static void
window(const char *line, size_t size, size_t col, size_t *from, size_t *n)
{
	*from = size > WINDOW && col > BEFORE ? col - BEFORE : 0;
	while (*from > 0 && *from < size && (line[*from] & 0xc0) == 0x80)
		--*from;
	*n = MIN(size - MIN(*from, size), (size_t)WINDOW);
	while (*n > 0 && *from + *n < size && (line[*from + *n] & 0xc0) == 0x80)
		--*n;
}

/* The blanks under line[from, to): tabs stay, one blank a character. */
static void
put_blanks(Text *out, const char *line, size_t from, size_t to)
{
	for (size_t i = from; i < to; i++)
		if ((line[i] & 0xc0) != 0x80)
			text_put(out, line[i] == '\t' ? "\t" : " ");
}

static void
put_line(Text *out, const char *line, size_t n)
{
	for (size_t i = 0; i < n; i++) {            /* control characters would play with the terminal */
		unsigned char c = (unsigned char)line[i];
		if ((c < 0x20 && c != '\t') || c == 0x7f)
			text_put(out, "?");
		else
			text_putn(out, line + i, 1);
	}
}

static void
print_source(const Compile *cx, const Diag *d, Text *out, bool color)
{
	const char *line;
	size_t size, from, n;
	char number[16];
	const Place *p = &d->place;
	if (p->file < 0 || p->file >= cx->files.n || !source_line(&cx->files.at[p->file], p->line, &line, &size))
		return;
	size_t col = MIN((size_t)MAX(p->col - 1, 0), size);
	size_t end = p->end_line > p->line ? size : MIN((size_t)MAX(p->end_col - 1, 0), size);
	window(line, size, col, &from, &n);
	int width = snprintf(number, sizeof number, "%d", p->line);
	text_printf(out, "%s | %s", number, from ? "..." : "");
	put_line(out, line + from, n);
	text_printf(out, "%s\n%*s | %s", from + n < size ? "..." : "", width, "", from ? "   " : "");
	put_blanks(out, line, from, col);
	put_color(out, color, severity_color[d->severity]);
	text_put(out, "^");
	for (size_t i = col + 1; i < MIN(end, from + n); i++)
		if ((line[i] & 0xc0) != 0x80)
			text_put(out, "~");
	if (d->label)
		text_printf(out, " %s", d->label);
	put_color(out, color, "\033[0m");
	text_put(out, "\n");
	if (d->help)
		text_printf(out, "%*s = help: %s\n", width, "", d->help);
}

static void
print_one(const Compile *cx, const Diag *d, Text *out, bool color)
{
	const Place *p = &d->place;
	bool known = p->file >= 0 && p->file < cx->files.n;
	put_color(out, color, "\033[1m");
	if (known)
		text_printf(out, "%s:%d:%d: ", cx->files.at[p->file].path, p->line, p->col);
	else
		text_put(out, "tegula: ");
	put_color(out, color, severity_color[d->severity]);
	text_printf(out, "%s: ", severity_name[d->severity]);
	put_color(out, color, "\033[0m");
	text_put(out, d->text);
	if (d->severity != SEV_NOTE)
		text_printf(out, " [%s]", diag_code(d->code));
	text_put(out, "\n");
	if (known)
		print_source(cx, d, out, color);
	else if (d->help)
		text_printf(out, "  = help: %s\n", d->help);
	for (const Diag *note = d->notes; note; note = note->next)
		print_one(cx, note, out, color);
}

typedef struct Ranked {
	const Diag *d;
	int order;
} Ranked;

/* By file and place; what has no place comes first; equal places in order of report. */
static int
by_place(const void *x, const void *y)
{
	const Ranked *a = x, *b = y;
	int order = place_compare(&a->d->place, &b->d->place);
	return order ? order : a->order - b->order;
}

/* The next 'name' of a message after *at, quotes included; its length, or 0. */
static size_t
next_name(const char **at)
{
	const char *from = *at, *end;
	while (*from && (*from != '\'' || (from > *at && char_is_letter(from[-1]))))       /* not a kernel's */
		from++;
	end = *from ? strchr(from + 1, '\'') : NULL;
	*at = from;
	return end ? (size_t)(end - from) + 1 : 0;
}

/* Do two messages quote the same names? */
static bool
same_names(const char *a, const char *b)
{
	for (;;) {
		size_t n = next_name(&a);
		if (n != next_name(&b) || memcmp(a, b, n) != 0)
			return false;
		if (n == 0)
			return true;
		a += n;
		b += n;
	}
}

/* Of reports of one code, place and names the first stays: they are what another example or call makes of one mistake, with
 * other values.  Without a place they must say the same. */
static int
drop_repeated(Ranked *r, int n)
{
	int kept = 0, from = 0;
	for (int i = 0; i < n; i++) {
		const Diag *d = r[i].d;
		if (kept == 0 || d->place.file != r[from].d->place.file || d->place.line != r[from].d->place.line ||
		    d->place.col != r[from].d->place.col)
			from = kept;
		int k = MAX(from, kept - DIAG_COUNT);
		while (k < kept && (r[k].d->code != d->code || (d->place.file < 0 ? strcmp(r[k].d->text, d->text) != 0
		    : !same_names(r[k].d->text, d->text))))
			k++;
		if (k == kept)
			r[kept++] = r[i];
	}
	return kept;
}

static Ranked *
sorted(const Compile *cx, int *n)
{
	*n = 0;
	for (const Diag *d = cx->first; d; d = d->next)
		++*n;
	Ranked *r = memory_new((size_t)*n, sizeof *r);
	int i = 0;
	for (const Diag *d = cx->first; d; d = d->next, i++)
		r[i] = (Ranked){d, i};
	qsort(r, (size_t)*n, sizeof *r, by_place);
	*n = drop_repeated(r, *n);
	return r;
}

void
diag_print(Compile *cx, Text *out, int max, bool color)
{
	int n, shown = 0, nerrors = 0;
	Ranked *r = sorted(cx, &n);
	for (int i = 0; i < n; i++) {
		bool is_error = r[i].d->severity == SEV_ERROR;
		nerrors += is_error;
		if (is_error && max > 0 && shown == max)
			continue;
		shown += is_error;
		print_one(cx, r[i].d, out, color);
	}
	if (shown < nerrors)
		text_printf(out, "tegula: %d errors, of which %d are shown; --max-errors=0 shows all\n", nerrors, shown);
	free(r);
}

static void
json_one(const Compile *cx, const Diag *d, Text *out)
{
	const Place *p = &d->place;
	text_printf(out, "{\"severity\": \"%s\", \"code\": \"%s\", \"message\": ", severity_name[d->severity],
	    diag_code(d->code));
	text_json(out, d->text);
	if (p->file >= 0 && p->file < cx->files.n) {
		text_put(out, ", \"file\": ");
		text_json(out, cx->files.at[p->file].path);
		text_printf(out, ", \"line\": %d, \"column\": %d, \"end_line\": %d, \"end_column\": %d", p->line, p->col,
		    p->end_line, p->end_col);
	}
	if (d->label) {
		text_put(out, ", \"label\": ");
		text_json(out, d->label);
	}
	if (d->help) {
		text_put(out, ", \"help\": ");
		text_json(out, d->help);
	}
	if (d->notes) {
		text_put(out, ", \"notes\": [");
		for (const Diag *note = d->notes; note; note = note->next) {
			json_one(cx, note, out);
			text_put(out, note->next ? ", " : "");
		}
		text_put(out, "]");
	}
	text_put(out, "}");
}

void
diag_json(Compile *cx, Text *out, int max)
{
	int n, shown = 0;
	Ranked *r = sorted(cx, &n);
	text_put(out, "[");
	for (int i = 0; i < n && (max == 0 || shown < max); i++, shown++) {
		text_put(out, shown ? ",\n " : "");
		json_one(cx, r[i].d, out);
	}
	text_put(out, "]\n");
	free(r);
}
