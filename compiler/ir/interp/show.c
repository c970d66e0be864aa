/* Tiles as NumPy prints arrays (its defaults: 8 digits after the point, lines of 75, more than 1000 elements in their
 * ends), and the prints that --trace puts into a kernel:
 *
 *     program (0, 1): v@5: f32[2, 3]
 *     [[ 1.    2.5   3.  ]
 *      [-1.    0.    0.25]]
 *
 * Floats have the fewest digits that read back as the same element of the dtype.  Every element takes the same room, which
 * is found by a walk over those that are shown. */
#include "ir/interp/interp.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { EDGE = 3, WHOLE = 1000, LINE = 75, DIGITS = 8, WORD = TILE_WORD };

typedef struct Show {
	const Type *type;
	const void *data;
	int64_t step[MAX_RANK];                         /* elements between neighbours of a dimension */
	bool cut, scientific;
	int left, right, exponent;                      /* room before and after the point; digits of exponents */
	double most, least;                             /* of what is finite and not 0, without signs */
	Text *out;
	Text line;
} Show;

typedef void Visit(Show *s, int64_t at);

static double
round_to(DType t, double x)
{
	uint64_t memory = 0;
	if (t == TY_F64)
		return x;
	dtype_store_f64(t, &memory, 0, x);
	return dtype_load_f64(t, &memory, 0);
}

/* The fewest digits, "d.ddde+xx", that read back as x; returns how many stand after the point. */
static int
shortest(DType t, double x, char word[WORD])
{
	for (int n = 0; n < 17; n++) {
		number_format(word, WORD, "%.*e", n, x);
		if (round_to(t, number_read(word, NULL)) == x)
			return n;
	}
	return 16;
}

/* With a point: "1.", "0.25"; the digits after it are cut at DIGITS and zeros at the end left out. */
static void
positional(DType t, double x, char word[WORD])
{
	char digits[WORD];
	int n = shortest(t, x, digits), exponent = atoi(strchr(digits, 'e') + 1), after = n - exponent;
	if (after > DIGITS)
		number_format(word, WORD, "%.*f", DIGITS, x);
	else
		number_format(word, WORD, "%.*f%s", after > 0 ? after : 0, number_read(digits, NULL), after > 0 ? "" : ".");
	for (size_t end = strlen(word); after > 0 && word[end - 1] == '0'; end--)
		word[end - 1] = 0;
}

/* "1.25" and "e+05" apart. */
static void
parts(DType t, double x, char mantissa[WORD], char power[WORD])
{
	int n = shortest(t, x, mantissa);
	if (n > DIGITS)
		number_format(mantissa, WORD, "%.*e", DIGITS, x);
	char *e = strchr(mantissa, 'e');
	snprintf(power, WORD, "%s", e);
	*e = 0;
	if (!strchr(mantissa, '.'))
		snprintf(e, 2, ".");
	else
		while (e[-1] == '0')
			*--e = 0;
}

double
tile_float(const Type *t, const void *data, int64_t at)
{
	if (!dtype_is_packed(t->elem))
		return dtype_load_f64(t->elem, data, at);
	uint8_t memory = ((const uint8_t *)data)[at] & 15;
	return dtype_load_f64(t->elem, &memory, 0);
}

bool
tile_is_float(const Type *t)
{
	return t->ptr == PTR_NONE && dtype_is_float(t->elem);
}

void
tile_whole(const Type *t, const void *data, int64_t at, char word[WORD])
{
	uint8_t memory = dtype_is_packed(t->elem) ? ((const uint8_t *)data)[at] & 15 : 0;
	if (t->ptr != PTR_NONE)
		snprintf(word, WORD, "0x%" PRIx64, ((const uint64_t *)data)[at]);
	else if (t->elem == TY_BOOL)
		snprintf(word, WORD, "%s", ((const uint8_t *)data)[at] ? "True" : "False");
	else if (t->elem == TY_U64)
		snprintf(word, WORD, "%" PRIu64, ((const uint64_t *)data)[at]);
	else if (dtype_is_packed(t->elem))
		snprintf(word, WORD, "%" PRId64, dtype_load_i64(t->elem, &memory, 0));
	else
		snprintf(word, WORD, "%" PRId64, dtype_load_i64(t->elem, data, at));
}

static double
real_at(const Show *s, int64_t at)
{
	return tile_float(s->type, s->data, at);
}

/* ---- the room that elements take ---- */

static void
visit(Show *s, int d, int64_t at, Visit *f)
{
	if (d == s->type->rank) {
		f(s, at);
		return;
	}
	int64_t n = s->type->extent[d];
	for (int64_t i = 0; i < n; i++) {
		if (s->cut && n > 2 * EDGE && i == EDGE)
			i = n - EDGE;
		visit(s, d + 1, at + i * s->step[d], f);
	}
}

static void
see_size(Show *s, int64_t at)
{
	double x = fabs(real_at(s, at));
	if (!isfinite(x) || x == 0)
		return;
	s->most = MAX(s->most, x);
	s->least = s->least > 0 ? MIN(s->least, x) : x;
}

static void
see_digits(Show *s, int64_t at)
{
	char word[WORD], power[WORD];
	double x = real_at(s, at);
	if (!isfinite(x))
		return;
	if (s->scientific) {
		parts(s->type->elem, x, word, power);
		s->exponent = MAX(s->exponent, (int)strlen(power) - 2);
	} else {
		positional(s->type->elem, x, word);
	}
	int before = (int)strcspn(word, ".");
	s->left = MAX(s->left, before);
	s->right = MAX(s->right, (int)strlen(word) - before - 1);
}

static void
see_endless(Show *s, int64_t at)
{
	double x = real_at(s, at);
	int after = s->right + 1 + (s->scientific ? s->exponent + 2 : 0);
	if (!isfinite(x))
		s->left = MAX(s->left, (isinf(x) && x < 0 ? 4 : 3) - after);
}

static void
see_whole(Show *s, int64_t at)
{
	char word[WORD];
	tile_whole(s->type, s->data, at, word);
	s->left = MAX(s->left, (int)strlen(word));
}

static void
find_room(Show *s)
{
	if (!tile_is_float(s->type)) {
		visit(s, 0, 0, see_whole);
		return;
	}
	double large = s->type->elem == TY_F64 ? 1e8 : s->type->elem == TY_F32 ? 1e6 : 1e3;
	visit(s, 0, 0, see_size);
	s->scientific = s->least > 0 && (s->most >= large || s->least < round_to(s->type->elem, 1e-4) ||
	    s->most / s->least > 1000);
	visit(s, 0, 0, see_digits);
	visit(s, 0, 0, see_endless);
}

/* ---- text ---- */

static void
element_text(const Show *s, int64_t at, char word[WORD])
{
	char number[WORD], power[WORD];
	int room = s->left + 1 + s->right + (s->scientific ? s->exponent + 2 : 0);
	if (!tile_is_float(s->type)) {
		tile_whole(s->type, s->data, at, number);
		snprintf(word, WORD, "%*s", s->left, number);
		return;
	}
	double x = real_at(s, at);
	if (!isfinite(x)) {
		snprintf(word, WORD, "%*s", room, isnan(x) ? "nan" : x < 0 ? "-inf" : "inf");
		return;
	}
	if (s->scientific) {
		number_format(word, WORD, s->right > 0 ? "%.*e" : "%#.*e", s->right, x);
		snprintf(power, WORD, "%s", strchr(word, 'e'));
		snprintf(number, WORD, "%.*s", (int)strcspn(word, "e"), word);
	} else {
		positional(s->type->elem, x, number);
	}
	int before = (int)strcspn(number, "."), after = (int)strlen(number) - before - 1;
	int n = snprintf(word, WORD, "%*s%s", MAX(s->left - before, 0), "", number);
	for (; after < s->right && n < WORD - 1; after++)
		word[n++] = ' ';
	word[n] = 0;
	if (s->scientific)
		snprintf(word + n, (size_t)(WORD - n), "%.2s%0*d", power, s->exponent, abs(atoi(power + 1)));
}

/* A word into the line that is being filled, or the next one. */
static void
put_word(Show *s, const char *word, int room, int indent)
{
	if ((int)(s->line.n + strlen(word)) > room && (int)s->line.n > indent) {
		while (s->line.n > 0 && s->line.at[s->line.n - 1] == ' ')
			s->line.at[--s->line.n] = 0;
		text_printf(s->out, "%s\n", s->line.at);
		s->line.n = 0;
		text_printf(&s->line, "%*s", indent, "");
	}
	text_put(&s->line, word);
}

/* The last dimension, words that fill lines; its bracket stands where the indent ends. */
static void
show_row(Show *s, int64_t at, int indent, int room)
{
	char word[WORD];
	int d = s->type->rank - 1;
	int64_t n = s->type->extent[d];
	s->line.n = 0;
	text_printf(&s->line, "%*s", indent, "");
	size_t begun = s->out->n;
	for (int64_t i = 0; i < n; i++) {
		if (i > 0)
			text_put(&s->line, " ");
		if (s->cut && n > 2 * EDGE && i == EDGE) {
			put_word(s, "...", room, indent);
			text_put(&s->line, " ");
			i = n - EDGE;
		}
		element_text(s, at + i, word);
		put_word(s, word, room, indent);
	}
	text_put(s->out, s->line.at);
	s->out->at[begun + (size_t)indent - 1] = '[';
	text_put(s->out, "]");
}

/* The text begins at its bracket, which stands one before `indent`: what is before it in its line is written here too. */
static void
show_dimension(Show *s, int d, int64_t at, int indent, int room)
{
	if (d == s->type->rank - 1) {
		show_row(s, at, indent, room - 1);
		return;
	}
	int64_t n = s->type->extent[d];
	size_t begun = s->out->n;
	for (int64_t i = 0; i < n; i++) {
		for (int k = 0; i > 0 && k < s->type->rank - d - 1; k++)
			text_put(s->out, "\n");
		if (s->cut && n > 2 * EDGE && i == EDGE) {
			text_printf(s->out, "%*s...", indent, "");
			i = n - EDGE - 1;
			continue;
		}
		show_dimension(s, d + 1, at + i * s->step[d], indent + 1, room - 1);
	}
	s->out->at[begun + (size_t)indent - 1] = '[';
	text_put(s->out, "]");
}

/* One number alone, as NumPy's scalars: "1.0", "1e-05". */
static void
show_scalar(Show *s)
{
	char word[WORD], digits[WORD];
	if (!tile_is_float(s->type)) {
		tile_whole(s->type, s->data, 0, word);
		text_put(s->out, word);
		return;
	}
	double x = real_at(s, 0), size = fabs(x);
	if (!isfinite(x)) {
		text_put(s->out, isnan(x) ? "nan" : x < 0 ? "-inf" : "inf");
		return;
	}
	int n = shortest(s->type->elem, x, digits);
	if (x != 0 && (size < round_to(s->type->elem, 1e-4) || size >= 1e16)) {
		text_put(s->out, digits);
		return;
	}
	int after = n - atoi(strchr(digits, 'e') + 1);
	text_printf(s->out, "%.*f", MAX(after, 1), number_read(digits, NULL));
}

/* The tile's text, without its type: in lines, long ones in their first and last elements. */
static void
format_tile(const Type *t, const void *data, Text *out)
{
	Show s = {.type = t, .data = data, .out = out, .cut = type_count(t) > WHOLE};
	if (t->rank == 0) {
		show_scalar(&s);
		return;
	}
	if (type_count(t) == 0) {
		text_put(out, "[]");
		return;
	}
	int64_t step = 1;
	for (int d = t->rank - 1; d >= 0; d--) {
		s.step[d] = step;
		step *= t->extent[d];
	}
	find_room(&s);
	show_dimension(&s, 0, 0, 1, LINE);
	text_close(&s.line);
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
	format_tile(&t, data, out);
	return true;
}
