/* assert and print, and how values look in their lines:
 *
 *     row 3: max 4.5, first [1, 2.25, -inf]            print("row 3: max", m, "first", v) and its program
 *
 * Long tiles show their first and last elements. */
#include "ir/interp/run.h"

#include <inttypes.h>
#include <string.h>

enum { EDGE = 3, SHORT = 16 };                          /* of a dimension longer than SHORT, EDGE elements at each end */

static void
format_dimension(const Type *t, const void *data, int d, int64_t at, Text *out)
{
	if (d == t->rank) {
		tile_element(t, data, at, out);
		return;
	}
	int64_t n = t->extent[d], step = 1;
	for (int k = d + 1; k < t->rank; k++)
		step *= t->extent[k];
	text_put(out, "[");
	for (int64_t i = 0; i < n; i++) {
		if (i > 0)
			text_put(out, ", ");
		if (n > SHORT && i == EDGE) {
			text_put(out, "..., ");
			i = n - EDGE;
		}
		format_dimension(t, data, d + 1, at + i * step, out);
	}
	text_put(out, "]");
}

static void
format_values(const Worker *w, const Op *op, int first, Text *out)
{
	for (int i = first; i < op->nin; i++) {
		text_put(out, " ");
		format_dimension(op->in[i]->type, value_at(w, op->in[i]), 0, 0, out);
	}
}

/* A print with {watch} is a fault where it finds a NaN. */
static bool
watch(Worker *w, const Op *op)
{
	const void **data = (const void **)temp_take(w, op, (int64_t)sizeof *data * op->nin);
	double x;
	Text line = {0};

	for (int i = 0; data && i < op->nin; i++)
		data[i] = value_at(w, op->in[i]);
	int64_t at = data ? nan_look(op, data, &x) : -1;
	if (at < 0)
		return data != NULL;
	nan_format(op, w->program, at, x, &line);
	fault_at(w, op, FAULT_NAN, "%s", line.at);
	text_close(&line);
	return false;
}

DEFINE(PRINT)
{
	const PlanOptions *opt = &w->plan->opt;
	bool shows = true;
	Text line = {0};

	if (op_attr(op, ATTR_WATCH))
		return watch(w, op);
	if (!opt->print)
		return true;
	if (attr_trace(op)) {
		shows = tile_trace(op, w->program, value_at(w, op->in[0]), &line);
	} else {
		program_format(w->plan->func->naxis, w->program, &line);
		text_put(&line, ": ");
		text_put(&line, attr_text(op));
		format_values(w, op, 0, &line);
	}
	if (shows)
		opt->print(opt->user, line.at);
	text_close(&line);
	return true;
}

DEFINE(ASSERT)
{
	const Type *t = op->in[0]->type;
	const char *tile = value_at(w, op->in[0]), *bad = memchr(tile, 0, (size_t)type_count(t));
	Text line = {0};

	if (!bad)
		return true;
	text_put(&line, "assertion failed in ");
	program_format(w->plan->func->naxis, w->program, &line);
	if (t->rank > 0)
		text_printf(&line, " at element %" PRId64, (int64_t)(bad - tile));
	if (attr_text(op)[0] || op->nin > 1)
		text_printf(&line, ": %s", attr_text(op));
	format_values(w, op, 1, &line);
	fault_at(w, op, FAULT_ASSERT, "%s", line.at);
	if (w->fault)
		w->fault->element = bad - tile;
	text_close(&line);
	return false;
}
