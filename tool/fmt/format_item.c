/* Items as source again: what `tegula fmt` writes of imports, functions, kernels, references, examples and expectations
 * (format.c writes statements and comments, format_header.c a kernel's header). */
#include "tool/fmt/fmt.h"

#include <string.h>

/* items */

/* { a = 1; b = 2; } on one line if it was on one and fits. */
static bool
put_short_block(Printer *p, const StmtList *l, Place braces)
{
	size_t start = p->out->n;
	if (braces.line != braces.end_line || l->n == 0 || format_comment_before(p, braces.end_line, braces.end_col))
		return false;
	for (int i = 0; i < l->n; i++)
		if (!format_is_simple(l->at[i]))
			return false;
	int left = WIDTH - text_column(p->out) - 2;
	text_put(p->out, "{");
	for (int i = 0; i < l->n && left >= 0; i++) {
		size_t before = p->out->n;
		text_put(p->out, " ");
		format_simple(p, l->at[i]);
		left -= (int)MIN(p->out->n - before, (size_t)WIDTH);
		if (memchr(p->out->at + before, '\n', p->out->n - before))
			left = -1;
	}
	text_put(p->out, " }");
	if (left >= 0)
		return true;
	p->out->n = start;
	p->out->at[start] = 0;
	return false;
}

static void
put_body(Printer *p, const Item *item)
{
	if (!put_short_block(p, &item->body, item->body_place))
		format_block(p, &item->body, item->body_place);
}

/* The lines of an example are short: those that stood on one line stay on one as far as they fit. */
static void
put_example_lines(Printer *p, const StmtList *l)
{
	for (int i = 0; i < l->n; i++) {
		const Stmt *s = l->at[i];
		bool joins = i > 0 && s->place.line == p->line &&
		    !format_comment_before(p, s->place.end_line, s->place.end_col) &&
		             format_is_simple(s);
		Text one = {0};
		Printer alone = {.out = &one, .ast = p->ast, .indent = p->indent};
		text_put(&one, "");
		if (joins)
			format_simple(&alone, s);
		if (joins && text_column(p->out) + 1 + (int)MIN(one.n, (size_t)WIDTH) <= WIDTH && !strchr(one.at, '\n')) {
			text_printf(p->out, " %s", one.at);
			p->line = s->place.end_line;
		} else {
			if (i > 0)
				format_end_line(p, l->at[i - 1]->place.end_line);
			format_comments(p, s->place, s->place.end_line, s->place.end_col);
			format_blank(p, s->place.line);
			format_indent(p);
			format_simple(p, s);
			p->line = s->place.end_line;
		}
		text_close(&one);
	}
	if (l->n)
		format_end_line(p, l->at[l->n - 1]->place.end_line);
}

static void
put_example(Printer *p, const Item *item)
{
	bool simple = true;
	text_printf(p->out, "example %s ", item->name);
	if (item->label) {
		text_quoted(p->out, item->label, "ntr", NULL);
		text_put(p->out, " ");
	}
	text_put(p->out, item->is_bench ? "bench " : "");
	for (int i = 0; i < item->body.n; i++)
		simple = simple && format_is_simple(item->body.at[i]);
	if (!simple || item->body.n == 0) {
		format_block(p, &item->body, item->body_place);
		return;
	}
	if (put_short_block(p, &item->body, item->body_place))
		return;
	format_open(p, item->body_place);
	put_example_lines(p, &item->body);
	format_close(p, item->body_place);
}

static void
put_expect(Printer *p, const Item *item)
{
	text_printf(p->out, "expect %s ", item->name);
	format_open(p, item->body_place);
	for (int i = 0; i < item->facts.n; i++) {
		Place at = item->facts.at[i]->place;
		format_comments(p, at, at.end_line, at.end_col);
		format_blank(p, at.line);
		format_indent(p);
		layout_expr(p, item->facts.at[i], 0, 1);
		text_put(p->out, ";");
		format_end_line(p, at.end_line);
	}
	format_close(p, item->body_place);
}

static void
put_fn(Printer *p, const Item *item)
{
	text_printf(p->out, "fn %s", item->name);
	format_params(p, &item->params);
	for (int i = 0; i < item->results.n; i++) {
		text_put(p->out, i ? ", " : item->gives_tuple ? " -> (" : " -> ");
		type_expr_print(item->results.at[i].type, p->out);
	}
	text_put(p->out, item->gives_tuple ? ")" : "");
	text_put(p->out, item->is_arrow ? " => " : " ");
	if (!item->is_arrow) {
		put_body(p, item);
		return;
	}
	layout_expr(p, item->e, 0, 1);
	text_put(p->out, ";");
}

void
format_item(Printer *p, const Item *item)
{
	switch (item->kind) {
	case ITEM_IMPORT:
		text_put(p->out, "import ");
		text_quoted(p->out, item->label, "ntr", NULL);
		text_put(p->out, ";");
		break;
	case ITEM_CONST:
		text_printf(p->out, "const %s = ", item->name);
		layout_expr(p, item->e, 0, 1);
		text_put(p->out, ";");
		break;
	case ITEM_FN: put_fn(p, item); break;
	case ITEM_KERNEL:
		format_kernel_head(p, item);
		put_body(p, item);
		break;
	case ITEM_REFERENCE:
		text_printf(p->out, "reference %s ", item->name);
		put_body(p, item);
		break;
	case ITEM_EXAMPLE: put_example(p, item); break;
	case ITEM_EXPECT: put_expect(p, item); break;
	case ITEM_ERROR: break;
	}
}

/* Comments of an item's header come before the item, those in its first parameter too, but for those among its
 * parameters if there are any. */
void
format_item_comments(Printer *p, const Item *item)
{
	const ParamList *l = &item->params;
	Place at = item->place, last = l->n ? l->at[l->n - 1].place : at;
	int line = item->body_place.line ? item->body_place.line : at.end_line;
	int col = item->body_place.line ? item->body_place.col : at.end_col;
	if (l->n) {
		format_comments(p, at, l->at[0].place.end_line, l->at[0].place.end_col);
		if (format_comment_before(p, last.line, last.col))
			return;
	}
	format_comments(p, at, line, col);
}
