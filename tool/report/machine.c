/* Instructions of the machine code.
 *
 * Where it has no loop and calls nothing, a warp executes each of them once at most, so that their
 * number is the estimate's: passes and ptxas join, repeat and drop what the cost model counts op by
 * op (a product and its sum, conversions of rows that several reads share).  A loop's trips are not
 * looked for in SASS; there the model's count stays.
 *
 *     .L_x_1:                                       // a label of SASS, as nvdisasm prints it
 *             4a10              @!P0 EXIT ;
 *     .L_x_0:
 *             4a20                   BRA `(.L_x_0);         the end, behind which there is padding
 */
#include "tool/report/report.h"

#include <string.h>

const char *
report_instruction(const char *line)
{
	const char *at = strstr(line, "*/");
	if (!at || !strstr(line, "/*") || strstr(line, "//"))
		return NULL;
	at += 2 + strspn(at + 2, " \t");
	if (*at == '@')
		at += strcspn(at, " "), at += strspn(at, " ");
	return *at >= 'A' && *at <= 'Z' ? at : NULL;
}

static bool
is_named(const char *at, const char *name)
{
	size_t n = strlen(name);
	return strncmp(at, name, n) == 0 && (at[n] == ' ' || at[n] == '.' || at[n] == ';');
}

/* Is the label that a branch names before it in the text? */
static bool
goes_back(const char *text, const char *line, const char *at)
{
	const char *label = strchr(at, '('), *end = label ? strchr(label, ')') : NULL;
	if (!end)
		return true; /* not known where to */
	size_t n = (size_t)(end - label - 1);
	for (const char *t = text; t < line; t += strcspn(t, "\n") + 1)
		if (strncmp(t, label + 1, n) == 0 && t[n] == ':')
			return true;
	return false;
}

static bool
is_end(const char *line) /* BRA to the label in front of it, behind the last EXIT */
{
	const char *at = line + strcspn(line, "\n");
	for (; *at; at += strcspn(at, "\n"), at += *at == '\n') {
		char text[256];
		size_t n = strcspn(at, "\n");
		const char *op;
		memcpy(text, at, n < sizeof text - 1 ? n : sizeof text - 1);
		text[n < sizeof text - 1 ? n : sizeof text - 1] = '\0';
		op = report_instruction(text);
		if (op && !is_named(op, "NOP"))
			return false;
	}
	return true;
}

/* Fills how many each line of the source has; their number, 0: they loop, or call. */
static int
count(const char *text, const json_t *lines, int *of, int most)
{
	int n = 0, i = 0;
	for (const char *at = text; *at; at += strcspn(at, "\n"), at += *at == '\n', i++) {
		char line[256];
		size_t length = strcspn(at, "\n");
		memcpy(line, at, MIN(length, sizeof line - 1));
		line[MIN(length, sizeof line - 1)] = '\0';
		const char *op = report_instruction(line);
		if (!op)
			continue;
		bool branches = is_named(op, "BRA"), back = branches && goes_back(text, at, op);
		if (back && is_end(at))
			return n;
		if (back || is_named(op, "CALL") || is_named(op, "BRX") || is_named(op, "JMP"))
			return 0;
		int source = (int)json_integer_value(json_array_get(lines, (size_t)i));
		of[source <= most ? source : 0]++;
		n++;
	}
	return n;
}

void
report_count_code(const json_t *stages, int lines, Inspection *x, Arena *mem)
{
	const json_t *j, *sass = NULL;
	size_t i;
	Bill *b = &x->bill;
	json_array_foreach(stages, i,
	    j) if (strcmp(json_string_value(json_object_get(j, "kind")), "sass") == 0) sass = j;
	int *of = NEW_ARRAY(mem, int, lines + 1);
	int n = sass && b->cycles > 0 ? count(json_string_value(json_object_get(sass, "text")),
					    json_object_get(sass, "lines"), of, lines)
				      : 0;
	if (n == 0)
		return;
	double each = func_warps(x->f) / (4 * x->t->rates->issue_rate),
	       before = b->part[bill_most(b)];
	b->part[BILL_ISSUE] = n * each;
	for (int k = 0; k < x->spent.n; k++) {
		LineBill *l = &x->spent.at[k];
		bool own = l->file == x->f->place.file && l->line >= 0 && l->line <= lines;
		l->part[BILL_ISSUE] = own ? of[l->line] * each : 0;
	}
	double more = (b->part[bill_most(b)] - before) * b->programs;
	b->cycles += more;
	b->each += b->each > 0 ? more : 0;
}
