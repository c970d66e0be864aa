/* Which source line a line of a stage came from, read off the stage's own marks:
 *
 *     tile IR      %v = read %x ... @6:13        at the line's end
 *     thread IR    @6:13                         for all lines up to the next mark
 *     LLVM IR      ..., !dbg !7                  !7 = !DILocation(line: 6, ...) at the text's end
 *     PTX          .loc 1 6 13                   for all lines up to the next mark
 *     Metal        // 6: let v = ...             the same
 *     SASS         //## File "f.tgl", line 6     the same
 *
 * ptxas moves an instruction without its mark, so that it stands under another line's: a product of tensor cores between
 * the addresses of the next one.  Kinds of instructions that PTX has too are of a line that has such: of the marked one,
 * else of the only one; products, which follow one another, of the last one's line.
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

/* ---- machine code ---- */

/* What becomes what.  A load that is no ld of PTX's is not among them, nor what several of PTX's become. */
static const struct {
	const char *sass, *ptx;
} kinds[] = {
    {"HGMMA.", "wgmma.mma"}, {"IGMMA.", "wgmma.mma"}, {"QGMMA.", "wgmma.mma"}, {"HMMA.", "mma.sync"},
    {"IMMA.", "mma.sync"}, {"QMMA.", "mma.sync"}, {"UTMALDG.", "cp.async.bulk.tensor"},
    {"UTMASTG.", "cp.async.bulk.tensor"}, {"LDGSTS.", "cp.async.c"}, {"LDSM.", "ldmatrix"}, {"STSM.", "stmatrix"},
    {"LDG.", "ld."}, {"STG.", "st."}, {"BAR.SYNC", "bar"}, {"SHFL.", "shfl"}, {"MUFU.EX2", "ex2"},
};
enum { KINDS = LEN(kinds) };

typedef struct Homes {
	long *line[KINDS];                              /* of PTX that have that kind, in order, each once */
	int n[KINDS];
	long last[KINDS];                               /* of the last instruction of machine code; 0: none yet */
} Homes;

static void
add_home(Homes *h, int kind, long line)
{
	for (int i = 0; i < h->n[kind]; i++)
		if (h->line[kind][i] == line)
			return;
	h->line[kind] = realloc(h->line[kind], (size_t)(h->n[kind] + 1) * sizeof *h->line[kind]);
	if (!h->line[kind])
		die("out of memory");
	h->line[kind][h->n[kind]++] = line;
}

static bool
has_word(const char *s, const char *end, const char *word)
{
	size_t n = strlen(word);
	for (; s + n <= end; s++)
		if (strncmp(s, word, n) == 0 && (s[-1] == ' ' || s[-1] == '\t'))
			return true;
	return false;
}

static void
find_homes(Homes *h, const char *ptx)
{
	Reader r = {.kind = REPORT_PTX};
	for (const char *s = ptx, *end; *s; s = *end ? end + 1 : end) {
		end = strchr(s, '\n');
		end = end ? end : s + strlen(s);
		long line = line_of(&r, s, end);
		for (int k = 0; k < KINDS && line > 0 && *s == '\t'; k++)
			if (has_word(s + 1, end, kinds[k].ptx))
				add_home(h, k, line);
	}
}

/* Where an instruction of machine code came from, by what its mark says. */
static long
home_of(Homes *h, const char *s, const char *end, long marked)
{
	int k = 0;
	while (k < KINDS && !has_word(s + 1, end, kinds[k].sass))
		k++;
	if (k == KINDS || h->n[k] == 0 || marked == 0)
		return marked;
	for (int i = 0; i < h->n[k]; i++)
		if (h->line[k][i] == marked)
			return h->last[k] = marked;
	bool is_known = h->n[k] == 1 || strstr(kinds[k].sass, "MMA.");
	return !is_known ? marked : h->last[k] ? h->last[k] : h->line[k][0];
}

/* ---- LLVM IR ---- */

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
report_lines(StageKind kind, const char *text, const char *ptx)
{
	Reader r = {.kind = kind};
	Homes homes = {.n = {0}};
	json_t *all = json_array();
	if (kind == REPORT_SASS && ptx)
		find_homes(&homes, ptx);
	if (kind == REPORT_LLVM)
		find_locations(&r, text);
	for (const char *s = text, *end; *s; s = *end ? end + 1 : end) {
		end = strchr(s, '\n');
		end = end ? end : s + strlen(s);
		long line = line_of(&r, s, end);
		json_array_append_new(all, json_integer(end > s ? home_of(&homes, s, end, line) : line));
	}
	for (int k = 0; k < KINDS; k++)
		free(homes.line[k]);
	free(r.location);
	return all;
}
