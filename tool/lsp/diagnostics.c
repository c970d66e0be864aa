/* Diagnostics as one types, and the quick fixes that the helps of some contain. */
#include "tool/lsp/lsp.h"

#include <string.h>

enum { REPORTS_MOST = 500 };

/* "text\nlabel\nhelp: ..." */
static json_t *
message_json(const Diag *d)
{
	Text t = {0};
	text_put(&t, d->text);
	if (d->label)
		text_printf(&t, "\n%s", d->label);
	if (d->help)
		text_printf(&t, "\nhelp: %s", d->help);
	json_t *j = json_string(t.at);
	text_close(&t);
	return j;
}

/* What concerns another file stands at the document's start and names it. */
static json_t *
diagnostic_json(Server *s, Document *doc, const Diag *d)
{
	const Analysis *a = doc->analysis;
	static const SourceFile none = {"", "", 0};
	const SourceFile *f = a->file >= 0 ? analysis_source(a) : a->cx->files.n ? &a->cx->files.at[0] : &none;
	json_t *related = json_array();
	bool is_here = d->place.file == 0;
	if (!is_here && d->place.file > 0)
		json_array_append_new(related, json_pack("{s:o, s:s}", "location", location_json(s, doc, d->place),
						   "message", d->text));
	for (const Diag *n = d->notes; n; n = n->next)
		if (n->place.file >= 0)
			json_array_append_new(related, json_pack("{s:o, s:s}", "location",
							   location_json(s, doc, n->place), "message", n->text));
	return json_pack("{s:o, s:i, s:s, s:s, s:o, s:o}", "range",
	    range_json(s, f, is_here ? d->place : (Place){0, 1, 1, 1, 1, NULL}), "severity",
	    d->severity == SEV_ERROR ? 1 : 2,
	    "code", diag_code(d->code), "source", "tegula", "message", message_json(d), "relatedInformation", related);
}

void
lsp_publish(Server *s, Document *d)
{
	json_t *all = json_array();
	int n = 0;
	analysis_of(s, d);
	for (const Diag *x = d->analysis->cx->first; x && n < REPORTS_MOST; x = x->next, n++)
		json_array_append_new(all, diagnostic_json(s, d, x));
	d->stale = false;
	connection_send(json_pack("{s:s, s:s, s:{s:s, s:I, s:o}}", "jsonrpc", "2.0", "method",
	    "textDocument/publishDiagnostics", "params", "uri", d->uri, "version", (json_int_t)d->version,
	    "diagnostics", all));
}

/* ---- quick fixes ---- */

typedef struct Fix {
	Place place;                                    /* of what is replaced */
	const char *text;
	const char *title;
} Fix;

/* The name that a place's text begins with. */
static Place
name_of(const SourceFile *f, Place p)
{
	const char *at;
	size_t size, n = 0;
	if (!source_line(f, p.line, &at, &size) || (size_t)p.col > size)
		return p;
	at += p.col - 1;
	size -= (size_t)p.col - 1;
	while (n < size && (char_is_letter(at[n]) || char_is_digit(at[n]) || at[n] == '_'))
		n++;
	p.end_line = p.line;
	p.end_col = p.col + (int)n;
	return p;
}

/* "did you mean 'exp'?": the name that is offered. */
static const char *
offered(Arena *mem, const char *help)
{
	static const char before[] = "did you mean '";
	const char *at = strstr(help, before), *end = at ? strchr(at + sizeof before - 1, '\'') : NULL;
	return end ? arena_strndup(mem, at + sizeof before - 1, (size_t)(end - at) - sizeof before + 1) : NULL;
}

static const NameDef *
let_at(const Analysis *a, Place at)
{
	const NameUse *u = use_at(a, at);
	const NameDef *def = u && u->def >= 0 ? &a->names.defs.at[u->def] : NULL;
	return def && def->kind == NAME_LET && def->place.file == a->file ? def : NULL;
}

/* The `let` before a definition, on its line. */
static bool
word_before(const SourceFile *f, Place name, const char *word, Place *out)
{
	const char *at;
	size_t size, n = strlen(word);
	if (!source_line(f, name.line, &at, &size))
		return false;
	for (int col = name.col - 1; col > (int)n; col--)
		if (strncmp(at + col - 1 - (int)n, word, n) == 0) {
			*out = (Place){name.file, name.line, col - (int)n, name.line, col, NULL};
			return true;
		}
	return false;
}

/* The text of a place that ends on its line; NULL: it does not. */
static const char *
text_at(const SourceFile *f, Place p, Arena *mem)
{
	const char *at;
	size_t size;
	if (p.line != p.end_line || p.end_col <= p.col || !source_line(f, p.line, &at, &size) ||
	    (size_t)p.end_col > size + 1)
		return NULL;
	return arena_strndup(mem, at + p.col - 1, (size_t)(p.end_col - p.col));
}

/* Helps that say how an expression is converted or compared: what follows `help`, up to `until`, goes behind it. */
static bool
fix_expression(const Analysis *a, const Diag *d, Fix *fix)
{
	static const struct {
		const char *help, *until;
	} row[] = {
		{"convert it with '", "'"}, {"convert it first, as in `x ", "`"}, {"compare it, as in 'x ", "'"},
	};
	Arena *mem = a->cx->mem;
	const char *text = text_at(analysis_source(a), d->place, mem);
	for (size_t i = 0; text && i < LEN(row); i++) {
		const char *from = d->help + strlen(row[i].help), *end;
		if (strncmp(d->help, row[i].help, strlen(row[i].help)) != 0 || !(end = strstr(from, row[i].until)))
			continue;
		Place name = name_of(analysis_source(a), d->place);
		const char *more = arena_strndup(mem, from, (size_t)(end - from));
		bool is_single = name.end_col == d->place.end_col ||
		    (text[0] == '(' && strchr(text, ')') == text + strlen(text) - 1);
		*fix = (Fix){d->place, arena_printf(mem, is_single ? "%s %s" : "(%s) %s", text, more),
			arena_printf(mem, "Write '%s' behind it", more)};
		return true;
	}
	return false;
}

/* `x == 1;` to `x = 1;` */
static bool
fix_assignment(const Analysis *a, const Diag *d, Fix *fix)
{
	const char *text = text_at(analysis_source(a), d->place, a->cx->mem), *at = text ? strstr(text, "==") : NULL;
	if (!at || strcmp(d->help, "to assign, write '='") != 0)
		return false;
	*fix = (Fix){d->place, "=", "Assign"};
	fix->place.col += (int)(at - text);
	fix->place.end_col = fix->place.col + 2;
	return true;
}

static bool
fix_of(const Analysis *a, const Diag *d, Fix *fix)
{
	const SourceFile *f = analysis_source(a);
	if (!d->help)
		return false;
	const char *name = offered(a->cx->mem, d->help);
	const NameDef *let = strstr(d->help, "declared with 'var'") ? let_at(a, d->place) : NULL;
	if (name) {
		*fix = (Fix){name_of(f, d->place), name, arena_printf(a->cx->mem, "Replace by '%s'", name)};
		return fix->place.end_col > fix->place.col;
	}
	if (let && word_before(f, let->place, "let", &fix->place)) {
		fix->text = "var";
		fix->title = arena_printf(a->cx->mem, "Declare '%s' with 'var'", let->name);
		return true;
	}
	return fix_expression(a, d, fix) || fix_assignment(a, d, fix);
}

static bool
touches(Place a, Place b)
{
	Place a_end = {0, a.end_line, a.end_col, 0, 0, NULL}, b_end = {0, b.end_line, b.end_col, 0, 0, NULL};
	return place_order(a, b_end) <= 0 && place_order(b, a_end) <= 0;
}

json_t *
lsp_actions(Server *s, Document *doc, const json_t *params)
{
	const Analysis *a = analysis_of(s, doc);
	const SourceFile *f = analysis_source(a);
	const json_t *range = json_object_get(params, "range");
	json_t *all = json_array();
	if (!f)
		return all;
	Place from = position_place(s, f, json_object_get(range, "start")),
	      to = position_place(s, f, json_object_get(range, "end"));
	from.end_line = to.line;
	from.end_col = to.col;
	for (const Diag *d = a->cx->first; d; d = d->next) {
		Fix fix;
		if (d->place.file != a->file || !touches(d->place, from) || !fix_of(a, d, &fix))
			continue;
		json_t *edit = json_pack("{s:o, s:s}", "range", range_json(s, f, fix.place), "newText", fix.text);
		json_array_append_new(all, json_pack("{s:s, s:s, s:b, s:[o], s:{s:{s:[o]}}}", "title", fix.title, "kind",
		    "quickfix", "isPreferred", 1, "diagnostics", diagnostic_json(s, doc, d), "edit", "changes", doc->uri,
		    edit));
	}
	return all;
}
