/* A kernel's or function's header as source again: parameters, compile-time parameters and clauses. */
#include "tool/fmt/fmt.h"

#include <string.h>

/* headers */

static bool
params_fit(const ParamList *l, int room)
{
	for (int i = 0; i < l->n && room >= 0; i++) {
		Text one = {0};
		param_put(&l->at[i], &one);
		room -= (int)MIN(one.n, (size_t)WIDTH) + 2;
		text_close(&one);
	}
	return room >= 0;
}

/* Parameters: on this line, or on lines of their own that are filled, or one a line if comments stand among them. */
void
format_params(Printer *p, const ParamList *l)
{
	const Param *last = l->n ? &l->at[l->n - 1] : NULL;
	bool apart = last && format_comment_before(p, last->place.line, last->place.col);
	text_put(p->out, "(");
	p->indent += 2;
	p->line = 0;
	if (!apart && !params_fit(l, WIDTH - text_column(p->out)))
		layout_break(p);
	for (int i = 0; i < l->n; i++) {
		Place at = l->at[i].place;
		Text one = {0};
		param_put(&l->at[i], &one);
		if (apart) {
			if (i > 0)
				format_end_line(p, l->at[i - 1].place.end_line);
			else
				text_put(p->out, "\n");
			format_comments(p, at, at.end_line, at.end_col);
			format_indent(p);
		} else if (i > 0 && text_column(p->out) + 1 + (int)one.n + 1 > WIDTH) {
			layout_break(p);
		} else if (i > 0) {
			text_put(p->out, " ");
		}
		text_putn(p->out, one.at, one.n);
		text_put(p->out, i + 1 < l->n ? "," : "");
		text_close(&one);
	}
	p->indent -= 2;
	if (apart && format_pending(p) && format_pending(p)->place.line == last->place.end_line) {
		format_end_line(p, last->place.end_line);
		format_indent(p);
	}
	text_put(p->out, ")");
}

static void
put_ctparams(Printer *p, const Item *k)
{
	p->indent += 2;
	for (int i = 0; i < k->ctparams.n; i++) {
		const CtParam *c = &k->ctparams.at[i];
		Text one = {0};
		text_put(&one, c->name);
		if (c->type.name)
			text_printf(&one, ": %s", c->type.name);
		if (c->value) {
			text_put(&one, " = ");
			expr_put(c->value, binary_op_strength(BIN_OR), &one);
		}
		text_put(p->out, i ? "," : "<");
		if (i > 0 && text_column(p->out) + 1 + (int)one.n + 1 > WIDTH)
			layout_break(p);
		else if (i > 0)
			text_put(p->out, " ");
		text_putn(p->out, one.at, one.n);
		text_close(&one);
	}
	p->indent -= 2;
	text_put(p->out, k->ctparams.n ? ">" : "");
}

static void
put_grid(Printer *p, const Item *k)
{
	text_put(p->out, "grid(");
	for (int i = 0; i < k->grid.n; i++) {
		text_printf(p->out, "%s%s: ", i ? ", " : "", k->grid.at[i].name);
		layout_expr(p, k->grid.at[i].count, 0, 1);
	}
	text_put(p->out, ")");
}

static void
put_tune(Printer *p, const Item *k)
{
	text_put(p->out, "tune(");
	p->indent++;
	for (int i = 0; i < k->tune.n; i++) {
		const Tune *t = &k->tune.at[i];
		int width = (int)strlen(t->name) + 5;
		for (int j = 0; j < t->values.n && width < WIDTH; j++) {
			Text one = {0};
			expr_put(t->values.at[j], 0, &one);
			width += (int)MIN(one.n, (size_t)WIDTH) + 2;
			text_close(&one);
		}
		text_put(p->out, i ? ", " : "");
		if (i > 0 && text_column(p->out) + width > WIDTH)
			layout_break(p);
		text_printf(p->out, "%s = {", t->name);
		layout_exprs(p, &t->values, 2);
		text_put(p->out, "}");
	}
	p->indent--;
	text_put(p->out, ")");
}

static void
clause(Printer *p, bool one_line)
{
	if (one_line)
		text_put(p->out, " ");
	else
		layout_break(p);
}

static void
put_clauses(Printer *p, const Item *k, bool one_line)
{
	p->indent++;
	if (k->has_grid) {
		clause(p, one_line);
		put_grid(p, k);
	}
	if (k->has_tune) {
		clause(p, one_line);
		put_tune(p, k);
	}
	for (int i = 0; i < k->where.n; i++) {
		clause(p, one_line);
		text_put(p->out, "where ");
		layout_expr(p, k->where.at[i], 0, 0);
	}
	p->indent--;
}

/* The header up to the blank before its '{'. */
void
format_kernel_head(Printer *p, const Item *k)
{
	size_t start = p->out->n;
	text_printf(p->out, "kernel %s", k->name);
	put_ctparams(p, k);
	format_params(p, &k->params);
	if (!k->has_grid && !k->has_tune && k->where.n == 0) {
		text_put(p->out, " ");
		return;
	}
	size_t before = p->out->n;
	put_clauses(p, k, true);
	if (p->out->n - start + 2 <= WIDTH && !memchr(p->out->at + start, '\n', p->out->n - start)) {
		text_put(p->out, " ");
		return;
	}
	p->out->n = before;
	p->out->at[before] = 0;
	put_clauses(p, k, false);
	text_put(p->out, "\n");
}
