/* What the compiler made of each line, at its end, and what can be done with a kernel, above it. */
#include "tool/lsp/lsp.h"

#include <string.h>

json_t *
lsp_hints(Server *s, Document *d, const json_t *params)
{
	Analysis *a = analysis_of(s, d);
	const SourceFile *f = analysis_source(a);
	const json_t *range = json_object_get(params, "range");
	json_t *all = json_array();
	if (!f)
		return all;
	int from = position_place(s, f, json_object_get(range, "start")).line,
	    to = position_place(s, f, json_object_get(range, "end")).line;
	analysis_inspect(s, a);
	for (int i = 0; i < a->notes.n; i++) {
		const LineNote *n = &a->notes.at[i];
		const char *at;
		size_t size;
		if (n->line < from || n->line > to || !source_line(f, n->line, &at, &size))
			continue;
		Place end = {0, n->line, (int)size + 1, n->line, (int)size + 1, NULL};
		json_t *where = range_json(s, f, end);
		json_array_append_new(all, json_pack("{s:O, s:s, s:b, s:s}", "position", json_object_get(where, "end"),
						 "label", n->text, "paddingLeft", 1, "tooltip", s->target->name));
		json_decref(where);
	}
	return all;
}

static void
lens(json_t *all, json_t *range, const char *title, const char *command, const Document *d, const Item *it)
{
	json_t *arguments = json_pack("[s, s]", d->path, it->name);
	if (it->kind == ITEM_EXAMPLE)
		json_array_append_new(arguments, json_string(it->label ? it->label : ""));
	json_array_append_new(all, json_pack("{s:O, s:{s:s, s:s, s:o}}", "range", range, "command", "title", title,
					 "command", command, "arguments", arguments));
}

/* The editor's extension runs the command of that name in a terminal: tegula.check is `tegula check PATH KERNEL`. */
json_t *
lsp_lenses(Server *s, Document *d, const json_t *params)
{
	const Analysis *a = analysis_of(s, d);
	json_t *all = json_array();
	for (int i = 0; a->program && i < a->program->ast->items.n; i++) {
		const Item *it = a->program->ast->items.at[i];
		if ((it->kind != ITEM_KERNEL && it->kind != ITEM_EXAMPLE) || !it->name)
			continue;
		json_t *range = range_json(s, analysis_source(a), it->name_place);
		if (it->kind == ITEM_EXAMPLE) {
			lens(all, range, "run", "tegula.run", d, it);
		} else {
			lens(all, range, "check", "tegula.check", d, it);
			lens(all, range, "inspect", "tegula.inspect", d, it);
			lens(all, range, "bench", "tegula.bench", d, it);
			lens(all, range, "report", "tegula.report", d, it);
		}
		json_decref(range);
	}
	return all;
}
