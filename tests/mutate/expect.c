/* Mutants whose report is known.  Lines of FILE.tgl say what must be found:
 *
 *     // mutant: barrier 2: 11 9 E1401             without its second barrier: an error with this word at line 11, and a
 *                                                  note at line 9
 *     // mutant: parity 1: 8 0 waits at mbar_wait  an error with these words at line 8
 *     // mutant: fragment 1: result                no error, and another result
 *
 * Lines are those of the source, or of the file that the ops of FILE.tir name.  As it is, the kernel must be reported by no
 * check and agree with the cpu device bit by bit. */
#include "tests/mutate/subject.h"

#include <stdlib.h>
#include <string.h>

enum { ORDERS_AS_IT_IS = 4 };

static int
complain(const Subject *s, const char *mutant, const char *what, const char *more)
{
	printf("FAIL %s, %s: %s%s\n", s->path, mutant, what, more);
	return 1;
}

/* Is there a report of a kind at a line, before `end`, with these words? */
static const char *
find(const char *text, const char *end, const char *kind, int line, const char *words)
{
	for (const char *next; text < end; text = next + 1) {
		char at[300], place[16];
		next = text + strcspn(text, "\n");
		snprintf(at, sizeof at, "%.*s", (int)(next - text), text);
		snprintf(place, sizeof place, ":%d:", line);
		if (strstr(at, kind) && strstr(at, words) && strstr(at, place) && strstr(at, place) < strstr(at, kind))
			return next;
	}
	return NULL;
}

static bool
says(const char *text, int line, int other, const char *words)
{
	const char *all = text + strlen(text), *at = text;
	while ((at = find(at, all, ": error: ", line, words))) {
		const char *end = strstr(at, ": error: ");
		if (!other || find(at, end ? end : all, ": note: ", other, ""))
			return true;
	}
	return false;
}

static bool
is_expected(const Subject *s, Catch c, const char *want)
{
	int line = 0, other = 0, n = 0;
	if (strcmp(want, "result") == 0)
		return c == CATCH_WRONG;
	sscanf(want, "%d %d %n", &line, &other, &n);
	return c == CATCH_REPORT && n > 0 && says(s->shared->why, line, other, want + n);
}

/* Of all mutants; -1: there are not so many of the kind. */
static int
number_of(const Subject *s, const char *kind, int n)
{
	for (int i = 0; i < s->whole.count; i++)
		if (strcmp(mutant_info[s->shared->note[i].kind].name, kind) == 0 && --n == 0)
			return i;
	return -1;
}

/* In order first, then by chance: some faults show in no other. */
static int
judge(Subject *s, const char *line)
{
	char kind[16], mutant[32], want[160];
	int number, n = -1;
	if (sscanf(line, "// mutant: %15[a-z] %d: %159[^\n]", kind, &number, want) == 3)
		n = number_of(s, kind, number);
	if (n < 0)
		return complain(s, line, "there is no such mutant", "");
	for (int order = 0; order < ORDERS_MOST; order++)
		if (is_expected(s, subject_mutate_in(s, n, order), want))
			return 0;
	snprintf(mutant, sizeof mutant, "%s %d", kind, number);
	return complain(s, mutant, want, " is not what was found:\n") + !printf("%s", s->shared->why);
}

int
expect(Subject *s, const char *text)
{
	int failed = 0, n = 0;
	if (!subject_open(s, 1) || !subject_prepare(s) || !subject_agrees(s, ORDERS_AS_IT_IS))
		failed = complain(s, "as it is", "reported, or not the cpu device's result\n", s->shared->why);
	for (const char *at = text; !failed && (at = strstr(at, "// mutant: ")); at++, n++)
		failed += judge(s, at);
	subject_close(s);
	printf("%s: %d mutants, %d not as they should be\n", s->path, n, failed);
	return failed;
}
