/* --emit=metal: the text, and beside it the description of its launch. */
#include "tool/cli_build.h"

#include <string.h>

/* softmax.metal and kernel softmax: softmax.json; another kernel of the same text: softmax.NAME.json. */
static char *
description_path(Arena *mem, const char *path, const char *kernel, bool first)
{
	size_t n = strlen(path), end = strlen(".metal");
	if (n > end && strcmp(path + n - end, ".metal") == 0)
		n -= end;
	if (first)
		return arena_printf(mem, "%.*s.json", (int)n, path);
	return arena_printf(mem, "%.*s.%s.json", (int)n, path, kernel);
}

bool
cli_metal(const Cli *cli, Module *m, const Target *t, const Bound *b, Text *out, Text *times)
{
	Text json = {0};
	bool first = out->n == 0, ok = compile_metal(m, t, b, out, &json, times);
	if (ok && b && cli_to_file(cli)) {
		char *path = description_path(m->cx->mem, cli->value[OPT_OUTPUT], m->funcs.at[0]->name, first);
		ok = cli_write_file(path, json.at, json.n);
	}
	text_close(&json);
	return ok;
}
