/* Source files and places in them.  A file is read whole and checked once: what later stages see is
 * UTF-8 without NUL and without a byte order mark at its start, of a size that offsets can hold. */
#include "base/base.h"

#include <errno.h>
#include <string.h>

enum { FILE_LIMIT = 64 << 20 };

Place
place_join(Place from, Place to)
{
	if (from.file < 0)
		return to;
	if (to.file != from.file)
		return from;
	from.end_line = to.end_line;
	from.end_col = to.end_col;
	return from;
}

/* Bytes of the UTF-8 sequence at s, 0 if it is not one (RFC 3629: no surrogates, nothing overlong). */
static size_t
sequence(const unsigned char *s, size_t n)
{
	if (s[0] < 0x80)
		return 1;
	size_t len = s[0] >= 0xc2 && s[0] <= 0xdf ? 2 : (s[0] & 0xf0) == 0xe0 ? 3 : s[0] >= 0xf0 && s[0] <= 0xf4 ? 4 : 0;
	if (len == 0 || len > n)
		return 0;
	for (size_t i = 1; i < len; i++)
		if ((s[i] & 0xc0) != 0x80)
			return 0;
	if ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] > 0x9f) || (s[0] == 0xf0 && s[1] < 0x90) ||
	    (s[0] == 0xf4 && s[1] > 0x8f))
		return 0;
	return len;
}

/* Text of ours is UTF-8, but for names of files: bytes of theirs that are not go as control characters do. */
void
text_quoted(Text *t, const char *s, const char *letters, const char *other)
{
	static const char control[] = "\n\t\r";
	text_put(t, "\"");
	for (size_t left = strlen(s), n; left > 0; s += n, left -= n) {
		unsigned char c = (unsigned char)*s;
		size_t whole = sequence((const unsigned char *)s, left);
		n = MAX(whole, 1);
		const char *known = c < 0x20 ? strchr(control, c) : NULL;
		if (c == '"' || c == '\\')
			text_printf(t, "\\%c", c);
		else if (known && (size_t)(known - control) < strlen(letters))
			text_printf(t, "\\%c", letters[known - control]);
		else if (other && (c < 0x20 || c == 0x7f || !whole))
			text_printf(t, other, c);
		else
			text_putn(t, s, n);
	}
	text_put(t, "\"");
}

void
text_json(Text *t, const char *s)
{
	text_quoted(t, s, "n", "\\u%04x");
}

static int
add_file(Compile *cx, const char *path, const char *text, size_t size)
{
	SourceFile f = {arena_strdup(cx->sources, path), text, size};
	vec_push(cx->sources, &cx->files, f);
	return cx->files.n - 1;
}

/* The place of byte `at`, for messages about bytes that are no text. */
static Place
place_at(int file, const char *text, size_t at)
{
	Place p = {file, 1, 1, 1, 2, NULL};
	for (size_t i = 0; i < at; i++) {
		p.col++;
		if (text[i] == '\n') {
			p.line++;
			p.col = 1;
		}
	}
	p.end_line = p.line;
	p.end_col = p.col + 1;
	return p;
}

static int
check_text(Compile *cx, const char *name, const char *text, size_t size)
{
	size_t mark = size >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
	text += mark;
	size -= mark;
	int file = add_file(cx, name, text, size);
	for (size_t i = 0; i < size;) {
		size_t n = text[i] ? sequence((const unsigned char *)text + i, size - i) : 0;
		if (n == 0) {
			diag_error(cx, place_at(file, text, i), text[i] ? DIAG_FILE_UTF8 : DIAG_FILE_NUL, name);
			diag_label(cx, "byte 0x%02x at offset %zu", (unsigned char)text[i], i + mark);
			return -1;
		}
		i += n;
	}
	return file;
}

int
source_text(Compile *cx, const char *name, const char *text, size_t size)
{
	if (size > FILE_LIMIT) {
		diag_error(cx, NOWHERE, DIAG_FILE_TOO_LARGE, name, (long long)size, (long long)FILE_LIMIT);
		return -1;
	}
	return check_text(cx, name, arena_strndup(cx->sources, text, size), size);
}

int
source_open(Compile *cx, const char *path, Place from)
{
	Text t = {0};
	int file = -1;
	if (!file_read(path, FILE_LIMIT, &t))
		diag_error(cx, from, DIAG_FILE_OPEN, path, strerror(errno));
	else if (t.n > FILE_LIMIT)
		diag_error(cx, from, DIAG_FILE_TOO_LARGE, path, (long long)t.n, (long long)FILE_LIMIT);
	else
		file = check_text(cx, path, arena_strndup(cx->sources, t.at, t.n), t.n);
	text_close(&t);
	return file;
}

const char *
source_named(const Compile *cx, int file)
{
	const char *path = cx->files.at[file].path, *slash = cx->ships ? strrchr(path, '/') : NULL;
	return slash ? slash + 1 : path;
}

bool
source_line(const SourceFile *f, int line, const char **start, size_t *size)
{
	const char *p = f->text, *end = f->text + f->size;
	for (int i = 1; i < line; i++) {
		const char *nl = memchr(p, '\n', (size_t)(end - p));
		if (!nl)
			return false;
		p = nl + 1;
	}
	if (line < 1)
		return false;
	const char *nl = memchr(p, '\n', (size_t)(end - p));
	*start = p;
	*size = (size_t)((nl ? nl : end) - p);
	if (*size > 0 && p[*size - 1] == '\r')
		--*size;
	return true;
}

int
place_compare(const Place *p, const Place *q)
{
	bool is_nowhere = p->file < 0;
	int line = is_nowhere ? 0 : (p->line > q->line) - (p->line < q->line);

	if (p->file != q->file)
		return p->file < q->file ? -1 : 1;
	return line || is_nowhere ? line : (p->col > q->col) - (p->col < q->col);
}
