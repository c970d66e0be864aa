/* Which source line a line of a stage came from, read off the stage's own marks:
 *
 *     tile IR      %v = read %x ... @6:13        at the line's end
 *     thread IR    @6:13                         for all lines up to the next mark
 *     LLVM IR      ..., !dbg !7                  !7 = !DILocation(line: 6, ...) at the text's end
 *     PTX          .loc 1 6 13                   for all lines up to the next mark
 *     Metal        // 6: let v = ...             the same
 *     SASS         //## File "f.tgl", line 6     the same
 */
#include "tool/report/report.h"

#include <stdlib.h>
#include <string.h>

typedef struct Reader {
	StageKind kind;
	long now;                                       /* of the last mark */
	long *location;                                 /* LLVM: by number of metadata; 0: no place */
	long nlocation;
} Reader;

/* "@6:13" where s points; 0: no mark. */
static long
mark_at(const char *s, const char *end)
{
	char *rest;
	long line = *s == '@' && char_is_digit(s[1]) ? strtol(s + 1, &rest, 10) : 0;
	return line > 0 && rest < end && *rest == ':' ? line : 0;
}

/* The last mark of a line: names of functions and kernels begin with @ too, but not with a digit behind. */
static long
last_mark(const char *s, const char *end)
{
	long line = 0;
	for (; s < end; s++)
		if (*s == '@' && mark_at(s, end))
			line = mark_at(s, end);
	return line;
}

static long
number_after(const char *s, const char *end, const char *word)
{
	size_t n = strlen(word);
	for (; s + n < end; s++)
		if (strncmp(s, word, n) == 0)
			return strtol(s + n, NULL, 10);
	return -1;
}

static long
line_of(Reader *r, const char *s, const char *end)
{
	const char *at = s + strspn(s, " \t");
	long n;
	switch (r->kind) {
	case REPORT_TIR:
		return last_mark(s, end);
	case REPORT_THREAD:
		if (mark_at(at, end))
			r->now = mark_at(at, end);
		return *at == '@' || strncmp(at, "file", 4) == 0 ? 0 : r->now;
	case REPORT_LLVM:
		n = number_after(s, end, "!dbg !");
		return n >= 0 && n < r->nlocation && *at != 'd' ? r->location[n] : 0;
	case REPORT_PTX:
		if (strncmp(at, ".loc", 4) == 0) {
			strtol(at + 4, (char **)&at, 10);
			r->now = strtol(at, NULL, 10);
			return 0;
		}
		return r->now;
	case REPORT_METAL:
		n = strncmp(at, "// ", 3) == 0 ? strtol(at + 3, (char **)&at, 10) : 0;
		r->now = n > 0 && *at == ':' ? n : r->now;
		return r->now;
	case REPORT_SASS:
		if (strncmp(at, "//##", 4) == 0) {
			r->now = MAX(number_after(at, end, "\", line "), 0);
			return 0;
		}
		return r->now;
	}
	return 0;
}

/* !7 = !DILocation(line: 6, column: 13, scope: !3) */
static void
find_locations(Reader *r, const char *text)
{
	static const char word[] = " = !DILocation(line: ";
	for (const char *at = text; (at = strstr(at, word)); at++) {
		const char *from = at;
		while (from > text && char_is_digit(from[-1]))
			from--;
		long n = strtol(from, NULL, 10);
		if (n >= r->nlocation) {
			r->location = realloc(r->location, (size_t)(n + 1) * sizeof *r->location);
			if (!r->location)
				die("out of memory");
			memset(r->location + r->nlocation, 0, (size_t)(n + 1 - r->nlocation) * sizeof *r->location);
			r->nlocation = n + 1;
		}
		r->location[n] = strtol(at + sizeof word - 1, NULL, 10);
	}
}

json_t *
report_lines(StageKind kind, const char *text)
{
	Reader r = {.kind = kind};
	json_t *all = json_array();
	if (kind == REPORT_LLVM)
		find_locations(&r, text);
	for (const char *s = text, *end; *s; s = *end ? end + 1 : end) {
		end = strchr(s, '\n');
		end = end ? end : s + strlen(s);
		json_array_append_new(all, json_integer(line_of(&r, s, end)));
	}
	free(r.location);
	return all;
}
