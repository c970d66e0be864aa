/* Barriers of a block in machine code, and the lines of the source that have them. */
#include "tool/report/report.h"

#include <string.h>

/* All text follows a line: a search ends where the line does. */
static bool
has(const char *line, int n, const char *word)
{
	int of = (int)strlen(word);
	return ANY_OF(i, n - of + 1, strncmp(line + i, word, (size_t)of) == 0);
}

bool
report_is_barrier(const char *line)
{
	int n = (int)strcspn(line, "\n");
	return has(line, n, "BAR.SYNC") || has(line, n, "UCGABAR_WAIT");
}

/* What a barrier of a line is for: "scan"; "barrier" is one between accesses. */
static const char *
barrier_of(const Inspection *x, int line)
{
	const char *of = "barrier";
	for (int i = 0; i < x->lines.n; i++) {
		const InspectLine *l = &x->lines.at[i];
		if (l->op && l->op->place.line == line && l->smem_bytes > 0)
			return l->what;
	}
	return of;
}

int
report_barriers(const json_t *stages, const Inspection *x, json_t *lines)
{
	const json_t *s = json_array_get(stages, json_array_size(stages) - 1), *of = json_object_get(s, "lines");
	const char *at = json_string_value(json_object_get(s, "text"));
	char name[16];
	int n = 0;
	if (!at || strcmp(json_string_value(json_object_get(s, "kind")), "sass") != 0)
		return -1;
	for (size_t i = 0; *at; at += strcspn(at, "\n"), at += *at == '\n', i++) {
		int line = (int)json_integer_value(json_array_get(of, i));
		if (!report_is_barrier(at))
			continue;
		n++;
		snprintf(name, sizeof name, "%d", line);
		json_int_t had = json_integer_value(json_array_get(json_object_get(lines, name), 0));
		json_object_set_new(lines, name, json_pack("[I, s]", had + 1, barrier_of(x, line)));
	}
	return n;
}
