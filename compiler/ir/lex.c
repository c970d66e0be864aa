/* Cuts the text of the tile IR into tokens.  Any bytes may come; what is no token is reported once and
 * becomes TOK_BAD.  A negative number is one token, so that `-1` and `-inf` need no grammar. */
#include "ir/parse.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

void
lex_open(Lexer *l, Compile *cx, int file)
{
	const SourceFile *f = &cx->files.at[file];

	*l = (Lexer){.cx = cx, .file = file, .at = f->text, .end = f->text + f->size,
	    .line_start = f->text, .line = 1};
}

static bool
is_letter(char c)
{
	return char_is_letter(c) || c == '_';
}

static char
peek(const Lexer *l, int ahead)
{
	return l->end - l->at > ahead ? l->at[ahead] : '\0';
}

static void
skip_space(Lexer *l)
{
	for (; l->at < l->end; l->at++) {
		if (*l->at == '\n') {
			l->line++;
			l->line_start = l->at + 1;
		} else if (*l->at == '/' && peek(l, 1) == '/') {
			const char *eol = memchr(l->at, '\n', (size_t)(l->end - l->at));
			l->at = (eol ? eol : l->end) - 1;
		} else if (*l->at != ' ' && *l->at != '\t' && *l->at != '\r') {
			return;
		}
	}
}

static void
finish(Lexer *l, const char *start, Token token)
{
	l->token = token;
	l->place = (Place){l->file, l->line, (int)(start - l->line_start) + 1, l->line,
	    (int)(l->at - l->line_start) + 1, NULL};
}

static void
bad(Lexer *l, const char *start, DiagCode code, const char *what)
{
	finish(l, start, TOK_BAD);
	diag_error(l->cx, l->place, code, what);
}

static void
lex_word(Lexer *l, const char *start)
{
	while (is_letter(peek(l, 0)) || char_is_digit(peek(l, 0)))
		l->at++;
	l->text = intern_n(l->cx->names, start, (size_t)(l->at - start));
	finish(l, start, TOK_WORD);
}

static void
lex_value(Lexer *l, const char *start)
{
	l->at++;
	while (is_letter(peek(l, 0)) || char_is_digit(peek(l, 0)) || peek(l, 0) == '.')
		l->at++;
	l->text = intern_n(l->cx->names, start + 1, (size_t)(l->at - start - 1));
	finish(l, start, TOK_VALUE);
	if (l->at == start + 1)
		bad(l, start, DIAG_TIR_BYTE, "'%' without a name");
}

/* nan(0x7ff8000000000001): every NaN but the common one says its bits. */
static void
lex_nan(Lexer *l, const char *start)
{
	uint64_t bits = UINT64_C(0x7ff8000000000000);

	if (peek(l, 0) == '(' && peek(l, 1) == '0' && peek(l, 2) == 'x') {
		char *stop;
		errno = 0;
		bits = strtoull(l->at + 1, &stop, 16);
		l->at = stop < l->end ? stop : l->end;
		if (errno || peek(l, 0) != ')') {
			bad(l, start, DIAG_TIR_NUMBER, "nan(...)");
			return;
		}
		l->at++;
	}
	memcpy(&l->f, &bits, sizeof bits);
	if (!isnan(l->f)) {
		bad(l, start, DIAG_TIR_NUMBER, "nan(...)");
		return;
	}
	finish(l, start, TOK_FLOAT);
}

static bool
is_number_byte(const char *start, const char *at, char c)
{
	bool is_hex = at - start > 1 && (start[1] == 'x' || (start[0] == '-' && start[2] == 'x'));

	if (is_letter(c) || char_is_digit(c) || c == '.')
		return true;
	if ((c != '+' && c != '-') || at == start)
		return false;
	return is_hex ? at[-1] == 'p' || at[-1] == 'P' : at[-1] == 'e' || at[-1] == 'E';
}

static void
lex_number(Lexer *l, const char *start)
{
	bool negative = *start == '-';
	char *stop;

	l->at++;
	while (l->at < l->end && is_number_byte(start, l->at, *l->at))
		l->at++;
	l->text = arena_strndup(l->cx->tmp, start, (size_t)(l->at - start));
	errno = 0;
	if (negative) {
		l->i = strtoll(l->text, &stop, 0);
	} else {
		uint64_t u = strtoull(l->text, &stop, 0);
		memcpy(&l->i, &u, sizeof u);
	}
	if (*stop == '\0') {
		if (errno)
			bad(l, start, DIAG_TIR_NUMBER, l->text);
		else
			finish(l, start, TOK_INT);
		return;
	}
	l->f = number_read(l->text, &stop);
	if (*stop == '\0' && isfinite(l->f))
		finish(l, start, TOK_FLOAT);
	else
		bad(l, start, DIAG_TIR_NUMBER, l->text);
}

static int
hex_digit(char c)
{
	if (char_is_digit(c))
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	return -1;
}

/* The byte that an escape stands for, or -1; l->at is on the letter after the backslash and is left on its last. */
static int
escape(Lexer *l)
{
	int high, low;

	switch (peek(l, 0)) {
	case '"':
	case '\\':
		return *l->at;
	case 'n':
		return '\n';
	case 't':
		return '\t';
	case 'x':
		high = hex_digit(peek(l, 1));
		low = hex_digit(peek(l, 2));
		if (high < 0 || low < 0 || high + low == 0)
			return -1;
		l->at += 2;
		return high << 4 | low;
	default:
		return -1;
	}
}

static void
lex_string(Lexer *l, const char *start)
{
	const char *eol = memchr(start, '\n', (size_t)(l->end - start));
	const char *stop = eol ? eol : l->end;
	char *text = NEW_ARRAY(l->cx->tmp, char, stop - start);
	size_t n = 0;

	for (l->at++; l->at < stop && *l->at != '"'; l->at++) {
		int c = (unsigned char)*l->at;
		if (c == '\\') {
			const char *from = l->at++;
			c = escape(l);
			if (c < 0) {
				bad(l, from, DIAG_TIR_TEXT, "unknown escape in a text");
				l->at = stop;
				return;
			}
		}
		text[n++] = (char)c;
	}
	if (l->at >= stop) {
		l->at = stop;
		bad(l, start, DIAG_TIR_TEXT, "the text does not end on its line");
		return;
	}
	l->at++;
	l->text = intern_n(l->cx->names, text, n);
	finish(l, start, TOK_STRING);
}

void
lex_next(Lexer *l)
{
	skip_space(l);
	const char *start = l->at;
	char c = peek(l, 0);
	if (l->at >= l->end) {
		finish(l, start, TOK_END);
	} else if (is_letter(c)) {
		lex_word(l, start);
		bool is_inf = strcmp(l->text, "inf") == 0;
		if (is_inf || strcmp(l->text, "nan") == 0) {
			l->f = INFINITY;
			if (is_inf)
				finish(l, start, TOK_FLOAT);
			else
				lex_nan(l, start);
		}
	} else if (c == '%') {
		lex_value(l, start);
	} else if (char_is_digit(c) || (c == '-' && char_is_digit(peek(l, 1)))) {
		lex_number(l, start);
	} else if (c == '-' && l->end - l->at >= 4 && memcmp(l->at, "-inf", 4) == 0) {
		l->at += 4;
		l->text = "-inf";
		l->f = -INFINITY;
		finish(l, start, TOK_FLOAT);
	} else if (c == '"') {
		lex_string(l, start);
	} else {
		l->at++;
		l->punct = c;
		if (strchr("{}()[]<>,:=@*?#.+-", c))
			finish(l, start, TOK_PUNCT);
		else
			bad(l, start, DIAG_TIR_BYTE,
			    (unsigned char)c < 0x20 || (unsigned char)c >= 0x7f
				? arena_printf(l->cx->tmp, "byte 0x%02x", (unsigned char)c)
				: arena_printf(l->cx->tmp, "'%c'", c));
	}
}

const char *
lex_line(Lexer *l)
{
	const char *eol = memchr(l->at, '\n', (size_t)(l->end - l->at)), *start = l->at;
	size_t n = (size_t)((eol ? eol : l->end) - start);

	for (size_t i = 0; i + 1 < n; i++)
		if (start[i] == '/' && start[i + 1] == '/')
			n = i;
	l->at = start + n;
	return arena_strndup(l->cx->tmp, start, n);
}

const char *
lex_describe(const Lexer *l)
{
	Arena *tmp = l->cx->tmp;

	switch (l->token) {
	case TOK_END:
		return "the end of the file";
	case TOK_WORD:
		return arena_printf(tmp, "'%s'", l->text);
	case TOK_VALUE:
		return arena_printf(tmp, "value '%%%s'", l->text);
	case TOK_INT:
	case TOK_FLOAT:
		return arena_printf(tmp, "number %s", l->text);
	case TOK_STRING:
		return "a text";
	case TOK_PUNCT:
		return arena_printf(tmp, "'%c'", l->punct);
	case TOK_BAD:
		break;
	}
	return "something else";
}

static bool
starts_func(const char *at, const char *end)
{
	size_t n = (size_t)(end - at);

	return (n > 6 && memcmp(at, "kernel", 6) == 0 && at[6] == ' ') ||
	    (n > 9 && memcmp(at, "reference", 9) == 0 && at[9] == ' ');
}

void
lex_resync(Lexer *l)
{
	while (l->at < l->end) {
		const char *eol = memchr(l->at, '\n', (size_t)(l->end - l->at));
		if (!eol) {
			l->at = l->end;
			break;
		}
		l->at = l->line_start = eol + 1;
		l->line++;
		if (starts_func(l->at, l->end))
			break;
	}
	lex_next(l);
}
