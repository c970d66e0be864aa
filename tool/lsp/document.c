/* Open documents: their text as the editor has it, edits to it, and positions in it. */
#include "tool/lsp/lsp.h"

#include <stdlib.h>
#include <string.h>

/* ---- URIs ---- */

static int
hex(char c)
{
	return char_is_digit(c) ? c - '0' : char_lower(c) >= 'a' && char_lower(c) <= 'f' ? char_lower(c) - 'a' + 10 : -1;
}

/* The path of a file: URI; another URI stands for itself. */
static char *
path_of_uri(const char *uri)
{
	static const char scheme[] = "file://";
	Text path = {0};
	if (strncmp(uri, scheme, sizeof scheme - 1) == 0)
		uri += sizeof scheme - 1;
	for (; *uri; uri++) {
		bool coded = *uri == '%' && hex(uri[1]) >= 0 && hex(uri[2]) >= 0;
		char c = coded ? (char)(hex(uri[1]) * 16 + hex(uri[2])) : *uri;
		text_putn(&path, &c, 1);
		uri += coded ? 2 : 0;
	}
	return path.at ? path.at : strdup("");
}

static char *
uri_of_path(const char *path)
{
	Text uri = {0};
	char *real = path[0] == '/' ? NULL : realpath(path, NULL);
	text_put(&uri, "file://");
	for (const char *p = real ? real : path; *p; p++) {
		if (char_is_letter(*p) || char_is_digit(*p) || strchr("/-._~", *p))
			text_putn(&uri, p, 1);
		else
			text_printf(&uri, "%%%02X", (unsigned char)*p);
	}
	free(real);
	return uri.at;
}

/* ---- positions ---- */

/* UTF-16 units of the UTF-8 sequence that begins with this byte, and its bytes. */
static int
units(unsigned char c, size_t *bytes)
{
	*bytes = c < 0x80 ? 1 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;
	return *bytes == 4 ? 2 : 1;
}

static int64_t
character(const Server *s, const SourceFile *f, int line, int col)
{
	const char *at;
	size_t size, bytes;
	int64_t n = 0;
	if (!source_line(f, line, &at, &size))
		return 0;
	size_t end = MIN((size_t)MAX(col - 1, 0), size);
	if (s->utf8)
		return (int64_t)end;
	for (size_t i = 0; i < end; i += bytes)
		n += units((unsigned char)at[i], &bytes);
	return n;
}

json_t *
range_json(const Server *s, const SourceFile *f, Place p)
{
	if (p.line < 1)
		p = (Place){p.file, 1, 1, 1, 1, NULL};
	return json_pack("{s:{s:i, s:I}, s:{s:i, s:I}}", "start", "line", p.line - 1, "character",
	    (json_int_t)character(s, f, p.line, p.col), "end", "line", p.end_line - 1, "character",
	    (json_int_t)character(s, f, p.end_line, p.end_col));
}

Place
position_place(const Server *s, const SourceFile *f, const json_t *position)
{
	json_int_t line = json_integer_value(json_object_get(position, "line")),
		   want = json_integer_value(json_object_get(position, "character"));
	const char *at = "";
	size_t size = 0, i = 0, bytes;
	line = MAX(MIN(line, INT32_MAX - 2), 0) + 1;
	if (!source_line(f, (int)line, &at, &size))
		size = 0;
	for (json_int_t n = 0; i < size && n < want; i += bytes)
		n += s->utf8 ? (bytes = 1, 1) : units((unsigned char)at[i], &bytes);
	i = MIN(i, size);
	return (Place){0, (int)line, (int)i + 1, (int)line, (int)i + 1, NULL};
}

json_t *
location_json(const Server *s, const Document *d, Place p)
{
	const SourceFile *f = &d->analysis->cx->files.at[p.file];
	char *uri = p.file == d->analysis->file ? NULL : uri_of_path(f->path);
	json_t *j = json_pack("{s:s, s:o}", "uri", uri ? uri : d->uri, "range", range_json(s, f, p));
	free(uri);
	return j;
}

int
place_order(Place a, Place b)
{
	return a.line != b.line ? (a.line < b.line ? -1 : 1) : a.col != b.col ? (a.col < b.col ? -1 : 1) : 0;
}

bool
place_has(Place p, Place at)
{
	Place end = {p.file, p.end_line, p.end_col, p.end_line, p.end_col, NULL};
	return place_order(p, at) <= 0 && place_order(at, end) <= 0;
}

/* ---- documents ---- */

static void
set_text(Document *d, const char *text, size_t n)
{
	Text fresh = {0};
	text_putn(&fresh, text, n);
	text_close(&d->text);
	d->text = fresh;
}

static void
changed(Document *d)
{
	background_stop(d, NULL);
	analysis_close(d->analysis);
	d->analysis = NULL;
	d->stale = true;
}

Document *
document_named(const Server *s, const char *uri)
{
	Document *d = s->docs;
	while (d && strcmp(d->uri, uri) != 0)
		d = d->next;
	return d;
}

Document *
document_open(Server *s, const char *uri, const json_t *text, int64_t version)
{
	Document *d = document_named(s, uri);
	if (!d) {
		d = memory_new(1, sizeof *d);
		*d = (Document){.uri = strdup(uri), .path = path_of_uri(uri), .next = s->docs};
		s->docs = d;
	}
	set_text(d, json_string_value(text), json_string_length(text));
	d->version = version;
	changed(d);
	return d;
}

void
document_close(Server *s, Document *d)
{
	Document **at = &s->docs;
	while (*at != d)
		at = &(*at)->next;
	*at = d->next;
	background_stop(d, NULL);
	json_decref(d->asked);
	analysis_close(d->analysis);
	text_close(&d->text);
	free(d->uri);
	free(d->path);
	free(d);
}

/* The byte that a place is at; the end for one behind the text. */
static size_t
offset_of(const SourceFile *f, Place p)
{
	const char *at;
	size_t size;
	return source_line(f, p.line, &at, &size) ? (size_t)(at - f->text) + (size_t)p.col - 1 : f->size;
}

bool
document_edit(Server *s, Document *d, const json_t *change)
{
	const json_t *range = json_object_get(change, "range"), *text = json_object_get(change, "text");
	const char *now = d->text.at ? d->text.at : "";
	SourceFile f = {d->path, now, d->text.n};
	Text fresh = {0};
	if (!json_is_string(text))
		return false;
	size_t from = 0, to = f.size;
	if (json_is_object(range)) {
		from = offset_of(&f, position_place(s, &f, json_object_get(range, "start")));
		to = offset_of(&f, position_place(s, &f, json_object_get(range, "end")));
	}
	if (from > to)
		return false;
	text_putn(&fresh, now, from);
	text_putn(&fresh, json_string_value(text), json_string_length(text));
	text_putn(&fresh, now + to, f.size - to);
	text_close(&d->text);
	d->text = fresh;
	changed(d);
	return true;
}
