/* Canonical source text, read again. */
#include "tests/reprint/reprint.h"
#include "tool/fmt/fmt.h"

#include <string.h>

/* The dump without its places. */
static void
tree(Compile *cx, const Ast *ast, Text *out)
{
	Text dump = {0};
	ast_dump(cx, ast, &dump);
	for (char *s = dump.at; s && *s;) {
		char *end = strchr(s, '\n'), *at = end;
		while (at > s && *at != '@')
			at--;
		text_putn(out, s, (size_t)(at - s));
		text_put(out, "\n");
		s = end + 1;
	}
	text_put(out, "");
	text_close(&dump);
}

static const char *
compare(Compile *cx, const Ast *ast, const Ast *again, const char *once)
{
	Text twice = {0}, before = {0}, after = {0};
	ast_print(again, &twice);
	tree(cx, ast, &before);
	tree(cx, again, &after);
	const char *wrong = strcmp(once, twice.at) != 0 ? "fmt of fmt differs"
	    : strcmp(before.at, after.at) != 0          ? "fmt changes the tree"
	    : again->comments.n != ast->comments.n      ? "fmt loses comments"
	                                                : NULL;
	text_close(&twice);
	text_close(&before);
	text_close(&after);
	return wrong;
}

const char *
reprint_source(Compile *cx, const Ast *ast)
{
	Text once = {0};
	ast_print(ast, &once);
	const Ast *again = ast_parse(cx, source_text(cx, "<fmt>", once.at, once.n));
	const char *wrong = cx->nerrors ? "what fmt prints does not parse" : compare(cx, ast, again, once.at);
	text_close(&once);
	return wrong;
}
