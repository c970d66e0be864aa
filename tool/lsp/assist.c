/* What an editor shows while one reads or types: hover, completion, the signature of a call. */
#include "tool/lsp/lsp.h"

#include <string.h>

static const Operation table[] = {
#define BUILTIN(name, family, params, run, op, traits, meaning) {name, family, params, meaning},
#include "sema/builtin/builtins.def"
#undef BUILTIN
};

static const struct {
	const char *name, *text;
} examples[] = {
#define EXAMPLE(name, text) {name, text},
#include "tool/lsp/examples.def"
#undef EXAMPLE
};

/* A line that shows the operation at work. */
static const char *
example_of(const char *name)
{
	return VALUE_OF(i, LEN(examples), strcmp(examples[i].name, name) == 0, examples[i].text, "");
}

const Operation *
operation_named(const char *name)
{
	return VALUE_OF(i, LEN(table), strcmp(table[i].name, name) == 0, &table[i], NULL);
}

static const char *const kind_word[NAME_KINDS] = {
	[NAME_CONST] = "const", [NAME_FN] = "fn", [NAME_KERNEL] = "kernel", [NAME_CTPARAM] = "compile-time parameter",
	[NAME_PARAM] = "parameter", [NAME_SYMBOL] = "dimension", [NAME_AXIS] = "grid index", [NAME_LET] = "let",
	[NAME_VAR] = "var", [NAME_COUNTER] = "loop counter", [NAME_ARGUMENT] = "argument",
};

/* ---- hover ---- */

/* `x: in f32[R, C]` */
static void
put_param(const Param *p, Text *out)
{
	text_put(out, p->name);
	if (p->type) {
		text_put(out, ": ");
		type_expr_print(p->type, out);
	}
}

static void
put_params(const ParamList *list, Text *out)
{
	text_put(out, "(");
	for (int i = 0; i < list->n; i++) {
		text_put(out, i ? ", " : "");
		put_param(&list->at[i], out);
	}
	text_put(out, ")");
}

static void
put_code(const NameDef *def, Text *out)
{
	switch (def->kind) {
	case NAME_PARAM:
		put_param(def->param, out);
		break;
	case NAME_ARGUMENT:
		def->param ? put_param(def->param, out) : text_put(out, def->name);
		break;
	case NAME_FN: case NAME_KERNEL:
		text_printf(out, "%s %s", kind_word[def->kind], def->name);
		put_params(&def->item->params, out);
		break;
	case NAME_CONST:
		text_printf(out, "const %s = ", def->name);
		expr_print(def->item->e, out);
		break;
	case NAME_CTPARAM:
		text_put(out, def->name);
		if (def->ct->type.name)
			text_printf(out, ": %s", def->ct->type.name);
		if (def->ct->value) {
			text_put(out, " = ");
			expr_print(def->ct->value, out);
		}
		break;
	default:
		text_put(out, def->name);
	}
}

/* The comment lines that end right above an item. */
static void
put_comment(const Ast *ast, const Item *it, Text *out)
{
	const Comment *at = ast->comments.at;
	int last = -1, first;
	for (int i = 0; i < ast->comments.n; i++)
		if (at[i].place.end_line == it->place.line - 1)
			last = i;
	for (first = last; first > 0 && at[first - 1].place.end_line == at[first].place.line - 1;)
		first--;
	for (int i = first; last >= 0 && i <= last; i++) {
		const char *text = at[i].text;
		text_printf(out, "%s%s\n", i == first ? "\n" : "", text + strspn(text, "/* "));
	}
}

static void
put_tune(const NameDef *def, Text *out)
{
	const TuneList *tune = &def->item->tune;
	for (int i = 0; def->kind == NAME_CTPARAM && i < tune->n; i++) {
		if (tune->at[i].name != def->name)
			continue;
		text_put(out, "\ntuned over ");
		for (int k = 0; k < tune->at[i].values.n; k++) {
			text_put(out, k ? ", " : "");
			expr_print(tune->at[i].values.at[k], out);
		}
		text_put(out, "\n");
	}
}

static void
put_definition(const Analysis *a, const NameUse *u, Text *out)
{
	const NameDef *def = &a->names.defs.at[u->def];
	const char *value = value_at(a, u->writes ? u->place : def->place);
	bool is_item = def->kind == NAME_FN || def->kind == NAME_KERNEL || def->kind == NAME_CONST;
	text_put(out, "```tegula\n");
	put_code(def, out);
	text_printf(out, "\n```\n%s", kind_word[def->kind]);
	if (value && !is_item && def->kind != NAME_PARAM)
		text_printf(out, ": `%s`", value);
	if (def->kind == NAME_SYMBOL && def->type) {
		text_put(out, " of `");
		type_expr_print(def->type, out);
		text_put(out, "`");
	}
	text_put(out, "\n");
	put_tune(def, out);
	if (is_item && def->place.file == a->file)
		put_comment(a->program->ast, def->item, out);
}

/* How threads hold what the name was given, as far as the code for the target was asked for. */
static void
put_layout(const Server *s, const Analysis *a, const NameUse *u, Text *out)
{
	const HeldNote *at = NULL;
	int line = u->def >= 0 ? (u->writes ? u->place : a->names.defs.at[u->def].place).line : 0;
	for (int i = 0; i < a->held.n && !at; i++)
		if (a->held.at[i].line == line && strcmp(a->held.at[i].name, u->name) == 0)
			at = &a->held.at[i];
	if (at)
		text_printf(out, "\n%s: `%s` lies in %s\n", s->target->name, u->name, at->text);
}

static void
put_operation(const Operation *op, Text *out)
{
	text_printf(out, "```tegula\n%s(%s)\n```\n%s\n\n```tegula\n%s\n```\n*%s*\n", op->name, op->params, op->meaning,
	    example_of(op->name), op->family);
}

json_t *
lsp_hover(Server *s, Document *d, const json_t *params)
{
	const Analysis *a = analysis_of(s, d);
	const SourceFile *f = analysis_source(a);
	Text out = {0};
	if (!f)
		return json_null();
	Place at = position_place(s, f, json_object_get(params, "position"));
	const NameUse *u = use_at(a, at);
	if (!u)
		return json_null();
	if (u->def >= 0)
		put_definition(a, u, &out);
	else
		put_operation(operation_named(u->name), &out);
	put_layout(s, a, u, &out);
	for (int i = 0; i < a->notes.n; i++)
		if (a->notes.at[i].line == at.line)
			text_printf(&out, "\n%s: %s\n", s->target->name, a->notes.at[i].text);
	json_t *j = json_pack("{s:{s:s, s:s}, s:o}", "contents", "kind", "markdown", "value", out.at, "range",
	    range_json(s, f, u->place));
	text_close(&out);
	return j;
}

/* ---- completion ---- */

enum { COMPLETE_FUNCTION = 3, COMPLETE_VARIABLE = 6, COMPLETE_PROPERTY = 10, COMPLETE_KEYWORD = 14, COMPLETE_CONSTANT = 21,
	COMPLETE_TYPE = 25 };

static const char *const keywords[] = {
	"kernel", "fn", "reference", "example", "import", "const", "let", "var", "for", "while", "if", "else",
	"return", "static", "as", "break", "continue", "in", "out", "inout", "scratch", "fixed", "strided", "mut",
	"where", "grid", "tune", "bench", "expect", "merge", "range", "new", "true", "false", "inf", "nan", "pi",
	"target",
};

static void
offer(json_t *all, const char *name, int kind, const char *detail, const char *doc)
{
	json_array_append_new(all, json_pack("{s:s, s:i, s:s*, s:s*}", "label", name, "kind", kind, "detail", detail,
					 "documentation", doc));
}

static bool
in_scope(const Analysis *a, const NameDef *def, Place at)
{
	if (def->kind == NAME_CONST || def->kind == NAME_FN || def->kind == NAME_KERNEL)
		return true;
	if (def->place.file != a->file || (def->until.line > 0 && !place_has(def->until, at)))
		return false;
	bool is_header = def->kind == NAME_CTPARAM || def->kind == NAME_SYMBOL || def->kind == NAME_PARAM ||
	    def->kind == NAME_AXIS;
	return is_header || place_order(def->place, at) < 0;
}

/* The names of a kernel belong to its reference and its examples too. */
static bool
is_of_kernel_here(const Analysis *a, const NameDef *def, Place at)
{
	const ItemList *items = &a->program->ast->items;
	for (int i = 0; i < items->n; i++)
		if (items->at[i]->kind >= ITEM_REFERENCE && place_has(items->at[i]->place, at))
			return def->item && def->item->kind == ITEM_KERNEL && def->item->name == items->at[i]->name &&
			    def->kind >= NAME_CTPARAM && def->kind <= NAME_AXIS;
	return false;
}

static void
offer_names(json_t *all, const Analysis *a, Place at)
{
	static const int kinds[NAME_KINDS] = {
		[NAME_CONST] = COMPLETE_CONSTANT, [NAME_FN] = COMPLETE_FUNCTION, [NAME_KERNEL] = COMPLETE_FUNCTION,
		[NAME_CTPARAM] = COMPLETE_CONSTANT, [NAME_SYMBOL] = COMPLETE_PROPERTY,
	};
	for (int i = 0; i < a->names.defs.n; i++) {
		const NameDef *def = &a->names.defs.at[i];
		const char *value = value_at(a, def->place);
		Text code = {0};
		if (!in_scope(a, def, at) && !is_of_kernel_here(a, def, at))
			continue;
		put_code(def, &code);
		offer(all, def->name, kinds[def->kind] ? kinds[def->kind] : COMPLETE_VARIABLE,
		    value && def->kind >= NAME_AXIS ? value : code.at, NULL);
		text_close(&code);
	}
}

json_t *
lsp_completion(Server *s, Document *d, const json_t *params)
{
	const Analysis *a = analysis_of(s, d);
	const SourceFile *f = analysis_source(a);
	json_t *all = json_array();
	if (!f)
		return all;
	offer_names(all, a, position_place(s, f, json_object_get(params, "position")));
	for (int i = 0; i < LEN(table); i++) {
		Text call = {0}, doc = {0};
		text_printf(&call, "%s(%s)", table[i].name, table[i].params);
		text_printf(&doc, "%s\n\n%s", table[i].meaning, example_of(table[i].name));
		offer(all, table[i].name, COMPLETE_FUNCTION, call.at, doc.at);
		text_close(&call);
		text_close(&doc);
	}
	for (int i = 0; i < DTYPE_COUNT; i++)
		offer(all, dtype_info[i].text, COMPLETE_TYPE, "dtype", NULL);
	for (int i = 0; i < LEN(keywords); i++)
		offer(all, keywords[i], COMPLETE_KEYWORD, NULL, NULL);
	return all;
}

/* ---- the signature of the call that a position is in ---- */

typedef struct OpenCall {
	const char *name;                               /* up to its bracket; NULL: in no call */
	size_t size;
	int argument;
} OpenCall;

/* Looks back from a byte for the bracket that is open there; text and comments are few enough to be read as code. */
static OpenCall
open_call(const SourceFile *f, size_t at)
{
	OpenCall c = {0};
	int depth = 0;
	enum { FAR = 4000 };
	for (size_t n = 0; at > 0 && n < FAR; n++) {
		char ch = f->text[--at];
		if (ch == ')' || ch == ']' || ch == '}')
			depth++;
		else if ((ch == '(' || ch == '[' || ch == '{') && depth > 0)
			depth--;
		else if (ch == ',' && depth == 0)
			c.argument++;
		else if (ch == ';' || ch == '{' || ch == '[')
			return c;
		else if (ch == '(') {
			size_t end = at;
			while (at > 0 && (char_is_letter(f->text[at - 1]) || char_is_digit(f->text[at - 1]) ||
			    f->text[at - 1] == '_'))
				at--;
			if (end > at) {
				c.name = f->text + at;
				c.size = end - at;
			}
			return c;
		}
	}
	return c;
}

/* The parameters of a signature's text, split at its commas. */
static json_t *
parameters_json(const char *params)
{
	json_t *all = json_array();
	int depth = 0;
	const char *from = params;
	for (const char *p = params;; p++) {
		depth += (*p == '(' || *p == '[') - (*p == ')' || *p == ']');
		if (*p && (*p != ',' || depth > 0))
			continue;
		from += strspn(from, " ");
		if (p > from)
			json_array_append_new(all, json_pack("{s:s%}", "label", from, (size_t)(p - from)));
		if (!*p)
			return all;
		from = p + 1;
	}
}

static json_t *
signature_json(const char *name, const char *params, const char *doc, int argument)
{
	Text label = {0};
	text_printf(&label, "%s(%s)", name, params);
	json_t *j = json_pack("{s:[{s:s, s:s, s:o}], s:i, s:i}", "signatures", "label", label.at, "documentation", doc,
	    "parameters", parameters_json(params), "activeSignature", 0, "activeParameter", argument);
	text_close(&label);
	return j;
}

static json_t *
fn_signature(const Item *fn, int argument)
{
	Text params = {0};
	put_params(&fn->params, &params);
	params.at[params.n - 1] = '\0';
	json_t *j = signature_json(fn->name, params.at + 1, "", argument);
	text_close(&params);
	return j;
}

json_t *
lsp_signature(Server *s, Document *d, const json_t *params)
{
	const Analysis *a = analysis_of(s, d);
	const SourceFile *f = analysis_source(a);
	const char *line;
	size_t size;
	if (!f)
		return json_null();
	Place at = position_place(s, f, json_object_get(params, "position"));
	if (!source_line(f, at.line, &line, &size))
		return json_null();
	OpenCall c = open_call(f, (size_t)(line - f->text) + (size_t)at.col - 1);
	const char *name = c.name ? intern_n(a->cx->names, c.name, c.size) : NULL;
	for (int i = 0; name && i < a->names.defs.n; i++)
		if (a->names.defs.at[i].kind == NAME_FN && a->names.defs.at[i].name == name)
			return fn_signature(a->names.defs.at[i].item, c.argument);
	const Operation *op = name ? operation_named(name) : NULL;
	return op ? signature_json(op->name, op->params, op->meaning, c.argument) : json_null();
}
