/* Elements of tiles as `print` has them, and the prints that --trace puts into a kernel:
 *
 *     program (0, 1): v@5: f32[2, 3]
 *     [[   1  2.5    3]
 *      [  -1    0 0.25]]
 *
 * Every element takes the same room, which is found by a walk over those that are shown; long rows go on in lines of their
 * own, and of more than 1000 elements each dimension's ends are shown. */
#include "ir/interp/interp.h"

#include <inttypes.h>

enum { EDGE = 3, WHOLE = 1000, LINE = 75 };

typedef struct Show {
	const Type *type;
	const void *data;
	size_t room, line;                              /* of an element; where the last line of `out` begins */
	Text *out, word;
} Show;

void
tile_element(const Type *t, const void *data, int64_t at, Text *out)
{
	const uint8_t nibble = dtype_is_packed(t->elem) ? ((const uint8_t *)data)[at] & 15 : 0;
	const void *from = dtype_is_packed(t->elem) ? &nibble : data;
	int64_t i = dtype_is_packed(t->elem) ? 0 : at;
	if (t->ptr != PTR_NONE)
		text_printf(out, "0x%" PRIx64, ((const uint64_t *)data)[at]);
	else if (dtype_is_float(t->elem))
		float_format(t->elem, dtype_load_f64(t->elem, from, i), out);
	else if (t->elem == TY_BOOL)
		text_put(out, ((const uint8_t *)data)[at] ? "true" : "false");
	else if (t->elem == TY_U64)
		text_printf(out, "%" PRIu64, ((const uint64_t *)data)[at]);
	else
		text_printf(out, "%" PRId64, dtype_load_i64(t->elem, from, i));
}

/* ---- tiles ---- */

/* Between neighbours of dimension d, of which the next takes some room: a space, or lines. */
static void
separate(Show *s, int d, size_t room)
{
	int rank = s->type->rank, lines = rank - 1 - d;
	if (lines == 0 && s->out->n - s->line + 1 + room + (size_t)rank > LINE)
		lines = 1;
	for (int i = 0; i < lines; i++)
		text_put(s->out, "\n");
	s->line = lines ? s->out->n : s->line;
	text_printf(s->out, "%*s", lines ? d + 1 : 1, "");
}

static void
show_dimension(Show *s, int d, int64_t at)
{
	const Type *t = s->type;
	if (d == t->rank) {
		s->word.n = 0;
		tile_element(t, s->data, at, &s->word);
		s->room = MAX(s->room, s->word.n);
		text_printf(s->out, "%*s", (int)s->room, s->word.at);
		return;
	}
	int64_t n = t->extent[d], step = 1;
	for (int k = d + 1; k < t->rank; k++)
		step *= t->extent[k];
	text_put(s->out, "[");
	for (int64_t i = 0; i < n; i++) {
		if (i > 0)
			separate(s, d, s->room);
		if (type_count(t) > WHOLE && n > 2 * EDGE && i == EDGE) {
			text_put(s->out, "...");
			separate(s, d, s->room);
			i = n - EDGE;
		}
		show_dimension(s, d + 1, at + i * step);
	}
	text_put(s->out, "]");
}

/* The tile's text, without its type: of no elements "[]".  The first walk finds how much room they take. */
static void
show_tile(const Type *t, const void *data, Text *out)
{
	Text narrow = {0};
	Show s = {.type = t, .data = data, .out = &narrow};
	if (type_count(t) == 0) {
		text_put(out, "[]");
		return;
	}
	show_dimension(&s, 0, 0);
	s.out = out;
	s.line = out->n;
	show_dimension(&s, 0, 0);
	text_close(&narrow);
	text_close(&s.word);
}

/* ---- prints of a trace ---- */

void
program_format(int naxis, const int64_t program[MAX_AXES], Text *out)
{
	int axes = MAX(naxis, 1);

	text_put(out, axes > 1 ? "program (" : "program ");
	for (int a = 0; a < axes; a++)
		text_printf(out, "%s%" PRId64, a ? ", " : "", program[a]);
	if (axes > 1)
		text_put(out, ")");
}

Type
tile_shown(const Op *print, int i)
{
	Type t = *print->in[i]->type;
	const IntList *valid = attr_valid(print);
	int first = SUM_OF(int, k, i, print->in[k]->type->rank);
	for (int d = 0; valid && d < t.rank; d++)
		t.extent[d] = valid->at[first + d];
	return t;
}

bool
tile_trace(const Op *print, const int64_t program[MAX_AXES], const void *data, Text *out)
{
	const Func *f = print->home->func;
	const Type t = tile_shown(print, 0);
	const IntList *only = attr_program(print);
	if (only && ANY_OF(a, only->n, program[a] != only->at[a]))
		return false;
	program_format(f->naxis, program, out);
	text_printf(out, ": %s: ", attr_text(print));
	type_print(&t, out);
	text_put(out, t.rank > 0 ? "\n" : " ");
	show_tile(&t, data, out);
	return true;
}
