/* Where names are defined and used, what a file consists of, and its canonical form. */
#include "tool/fmt/fmt.h"
#include "tool/lsp/lsp.h"

#include <string.h>

static const NameUse *
use_of(Server *s, Document *d, const json_t *params)
{
	const Analysis *a = analysis_of(s, d);
	const SourceFile *f = analysis_source(a);
	return f ? use_at(a, position_place(s, f, json_object_get(params, "position"))) : NULL;
}

json_t *
lsp_definition(Server *s, Document *d, const json_t *params)
{
	const NameUse *u = use_of(s, d, params);
	return u && u->def >= 0 ? location_json(s, d, d->analysis->names.defs.at[u->def].place) : json_null();
}

/* Calls `each` for the uses of one definition. */
static json_t *
uses_json(Server *s, Document *d, const NameUse *of, bool definitions,
    json_t *(*each)(Server *s, Document *d, const NameUse *u))
{
	json_t *all = json_array();
	const Names *names = &d->analysis->names;
	for (int i = 0; of && of->def >= 0 && i < names->uses.n; i++) {
		const NameUse *u = &names->uses.at[i];
		if (u->def == of->def && (definitions || !u->is_def))
			json_array_append_new(all, each(s, d, u));
	}
	return all;
}

static json_t *
use_location(Server *s, Document *d, const NameUse *u)
{
	return location_json(s, d, u->place);
}

static json_t *
use_highlight(Server *s, Document *d, const NameUse *u)
{
	return json_pack("{s:o, s:i}", "range", range_json(s, analysis_source(d->analysis), u->place), "kind",
	    u->writes ? 3 : 2);
}

json_t *
lsp_references(Server *s, Document *d, const json_t *params)
{
	const json_t *context = json_object_get(params, "context");
	return uses_json(s, d, use_of(s, d, params), json_is_true(json_object_get(context, "includeDeclaration")),
	    use_location);
}

json_t *
lsp_highlight(Server *s, Document *d, const json_t *params)
{
	return uses_json(s, d, use_of(s, d, params), true, use_highlight);
}

/* ---- renaming: of what this file defines ---- */

static bool
may_rename(const Document *d, const NameUse *u)
{
	return u && u->def >= 0 && d->analysis->names.defs.at[u->def].place.file == d->analysis->file;
}

json_t *
lsp_prepare_rename(Server *s, Document *d, const json_t *params)
{
	const NameUse *u = use_of(s, d, params);
	return may_rename(d, u) ? range_json(s, analysis_source(d->analysis), u->place) : json_null();
}

static bool
is_name(const char *s)
{
	if (!s || char_is_digit(*s) || !*s)
		return false;
	while (char_is_letter(*s) || char_is_digit(*s) || *s == '_')
		s++;
	return !*s;
}

json_t *
lsp_rename(Server *s, Document *d, const json_t *params)
{
	const NameUse *u = use_of(s, d, params);
	const char *name = json_string_value(json_object_get(params, "newName"));
	json_t *edits = json_array();
	if (!may_rename(d, u) || !is_name(name)) {
		json_decref(edits);
		return json_null();
	}
	for (int i = 0; i < d->analysis->names.uses.n; i++) {
		const NameUse *x = &d->analysis->names.uses.at[i];
		if (x->def == u->def)
			json_array_append_new(edits, json_pack("{s:o, s:s}", "range",
							 range_json(s, analysis_source(d->analysis), x->place),
							 "newText", name));
	}
	return json_pack("{s:{s:o}}", "changes", d->uri, edits);
}

/* ---- outline and folding ---- */

enum { SYMBOL_FUNCTION = 12, SYMBOL_CONSTANT = 14, SYMBOL_EVENT = 24, SYMBOL_MODULE = 2, SYMBOL_METHOD = 6 };

static json_t *
item_symbol(const Server *s, const SourceFile *f, const Item *it)
{
	static const struct {
		const char *what;
		int kind;
	} shown[] = {
		[ITEM_IMPORT] = {"import", SYMBOL_MODULE}, [ITEM_CONST] = {"const", SYMBOL_CONSTANT},
		[ITEM_FN] = {"fn", SYMBOL_METHOD}, [ITEM_KERNEL] = {"kernel", SYMBOL_FUNCTION},
		[ITEM_REFERENCE] = {"reference", SYMBOL_EVENT}, [ITEM_EXAMPLE] = {"example", SYMBOL_EVENT},
		[ITEM_EXPECT] = {"expect", SYMBOL_EVENT},
	};
	const char *name = it->name ? it->name : it->label ? it->label : "";
	Place selection = it->name_place.line > 0 ? it->name_place : it->place;
	Text detail = {0};
	text_put(&detail, shown[it->kind].what);
	if (it->kind == ITEM_EXAMPLE && it->label)
		text_printf(&detail, " \"%s\"", it->label);
	json_t *j = json_pack("{s:s, s:s, s:i, s:o, s:o}", "name", *name ? name : "?", "detail", detail.at, "kind",
	    shown[it->kind].kind, "range", range_json(s, f, it->place),
	    "selectionRange", range_json(s, f, place_has(it->place, selection) ? selection : it->place));
	text_close(&detail);
	return j;
}

json_t *
lsp_symbols(Server *s, Document *d, const json_t *params)
{
	const Analysis *a = analysis_of(s, d);
	json_t *all = json_array();
	for (int i = 0; a->program && i < a->program->ast->items.n; i++)
		if (a->program->ast->items.at[i]->kind != ITEM_ERROR)
			json_array_append_new(all, item_symbol(s, analysis_source(a), a->program->ast->items.at[i]));
	return all;
}

static void
fold(json_t *all, Place p, const char *kind)
{
	if (p.line > 0 && p.end_line > p.line)
		json_array_append_new(all, json_pack("{s:i, s:i, s:s*}", "startLine", p.line - 1, "endLine",
						 MAX(p.end_line - 2, p.line - 1), "kind", kind));
}

static void
fold_body(json_t *all, const StmtList *body)
{
	for (int i = 0; i < body->n; i++) {
		fold(all, body->at[i]->body_place, NULL);
		fold(all, body->at[i]->orelse_place, NULL);
		fold_body(all, &body->at[i]->body);
		fold_body(all, &body->at[i]->orelse);
	}
}

json_t *
lsp_folding(Server *s, Document *d, const json_t *params)
{
	const Analysis *a = analysis_of(s, d);
	const Ast *ast = a->program ? a->program->ast : NULL;
	json_t *all = json_array();
	for (int i = 0; ast && i < ast->items.n; i++) {
		const Item *it = ast->items.at[i];
		fold(all, it->body_place, NULL);
		fold_body(all, &it->body);
	}
	for (int i = 0; ast && i < ast->comments.n; i++) {
		Place p = ast->comments.at[i].place;
		while (i + 1 < ast->comments.n && ast->comments.at[i + 1].place.line == p.end_line + 1)
			p = place_join(p, ast->comments.at[++i].place);
		p.end_line++;                           /* a comment folds with its last line */
		if (p.end_line > p.line + 1)
			fold(all, p, "comment");
	}
	return all;
}

/* ---- semantic tokens: names by what they are ---- */

const char *const lsp_token_types[] = {"variable", "parameter", "typeParameter", "function", "property",
	"enumMember", NULL};
const char *const lsp_token_modifiers[] = {"declaration", "readonly", "defaultLibrary", "modification", NULL};

static void
token_kind(const Analysis *a, const NameUse *u, int *type, int *modifiers)
{
	static const int types[NAME_KINDS] = {
		[NAME_CONST] = 0, [NAME_FN] = 3, [NAME_KERNEL] = 3, [NAME_CTPARAM] = 2, [NAME_PARAM] = 1, [NAME_SYMBOL] = 4,
		[NAME_AXIS] = 5, [NAME_LET] = 0, [NAME_VAR] = 0, [NAME_COUNTER] = 0, [NAME_ARGUMENT] = 1,
	};
	NameKind kind = u->def >= 0 ? a->names.defs.at[u->def].kind : NAME_FN;
	*type = types[kind];
	*modifiers = (u->is_def ? 1 : 0) | (kind == NAME_CONST || kind == NAME_LET ? 2 : 0) | (u->def < 0 ? 4 : 0) |
	    (u->writes && !u->is_def ? 8 : 0);
}

json_t *
lsp_tokens(Server *s, Document *d, const json_t *params)
{
	const Analysis *a = analysis_of(s, d);
	json_t *data = json_array();
	int64_t line = 0, at = 0;
	for (int i = 0; i < a->names.uses.n; i++) {
		const NameUse *u = &a->names.uses.at[i];
		int type, modifiers;
		if (i > 0 && place_order(a->names.uses.at[i - 1].place, u->place) == 0)
			continue;
		json_t *range = range_json(s, analysis_source(a), u->place);
		int64_t l, from, to;
		json_unpack(range, "{s:{s:I, s:I}, s:{s:I}}", "start", "line", &l, "character", &from, "end", "character",
		    &to);
		json_decref(range);
		token_kind(a, u, &type, &modifiers);
		const int64_t token[] = {l - line, l == line ? from - at : from, to - from, type, modifiers};
		for (size_t k = 0; k < LEN(token); k++)
			json_array_append_new(data, json_integer(token[k]));
		line = l;
		at = from;
	}
	return json_pack("{s:o}", "data", data);
}

/* ---- formatting ---- */

json_t *
lsp_format(Server *s, Document *d, const json_t *params)
{
	Compile *cx = compile_open();
	Text out = {0};
	json_t *edits = json_array();
	int file = source_text(cx, d->path, d->text.at ? d->text.at : "", d->text.n);
	Ast *ast = file >= 0 ? ast_parse(cx, file) : NULL;
	if (ast && cx->nerrors == 0) {
		const SourceFile *f = &cx->files.at[file];
		ast_print(ast, &out);
		if (out.n != f->size || memcmp(out.at, f->text, out.n) != 0)
			json_array_append_new(edits, json_pack("{s:{s:{s:i, s:i}, s:{s:i, s:i}}, s:s}", "range", "start",
			    "line", 0, "character", 0, "end", "line", INT32_MAX, "character", 0, "newText",
			    out.at ? out.at : ""));
	}
	text_close(&out);
	compile_close(cx);
	return edits;
}
