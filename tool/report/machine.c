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

#include <stdlib.h>
#include <string.h>

enum { REGISTERS = 256 };

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

/* What a walk through straight code has counted. */
typedef struct Walk {
	int lines;       /* of the source; line 0: of none */
	int *of, *steps; /* instructions of each; waits for loads that it began */
	int n, loads, waits;
	int begun[REGISTERS]; /* one more than the line whose load fills a register; 0: none does */
} Walk;

/* Does a text name a register that a load fills (R12, not UR12)?  The line of that load. */
static bool
awaits(const Walk *w, const char *at, const char *end, int *line)
{
	for (; at < end; at++) {
		bool names =
		    *at == 'R' && char_is_digit(at[1]) && !char_is_letter(at[-1]) && at[-1] != '_';
		int r = names ? atoi(at + 1) : REGISTERS;
		if (r < REGISTERS && w->begun[r]) {
			*line = w->begun[r] - 1;
			return true;
		}
	}
	return false;
}

/* Loads are under way until something reads what one of them brings, which waits for all of them.
 */
static void
take_loads(Walk *w, const char *op, int source)
{
	const char *at = op + strcspn(op, " ;"), *end = op + strlen(op), *to = strchr(at, 'R');
	bool loads = is_named(op, "LDG");
	const char *from = loads && strchr(at, ',') ? strchr(at, ',') : at;
	int line = 0;
	if (awaits(w, from, end, &line)) {
		memset(w->begun, 0, sizeof w->begun);
		w->steps[line]++;
		w->waits++;
	}
	if (!loads || !to || !char_is_digit(to[1]))
		return;
	int n = strstr(op, ".128") ? 4 : strstr(op, ".64 ") ? 2 : 1;
	for (int r = atoi(to + 1); n > 0 && r < REGISTERS; n--, r++)
		w->begun[r] = source + 1;
	w->loads++;
}

/* False: the code loops, or calls. */
static bool
walk(Walk *w, const char *text, const json_t *lines)
{
	int i = 0;
	for (const char *at = text; *at; at += strcspn(at, "\n"), at += *at == '\n', i++) {
		char line[256];
		size_t length = strcspn(at, "\n");
		memcpy(line, at, MIN(length, sizeof line - 1));
		line[MIN(length, sizeof line - 1)] = '\0';
		const char *op = report_instruction(line);
		if (!op)
			continue;
		bool back = is_named(op, "BRA") && goes_back(text, at, op);
		if (back && is_end(at))
			return true;
		if (back || is_named(op, "CALL") || is_named(op, "BRX") || is_named(op, "JMP"))
			return false;
		int source = (int)json_integer_value(json_array_get(lines, (size_t)i));
		source = source <= w->lines ? source : 0;
		take_loads(w, op, source);
		w->of[source]++;
		w->n++;
	}
	return true;
}

/* More waiting than the model counts, where the code's loads wait for one another: ptxas has not
 * the registers for all at once.  A softmax of 5001 f16 a row has 64 loads in 27 steps: 536 us on
 * an H200, of which the model has 162. */
static void
wait_by_code(const Walk *w, Inspection *x)
{
	static const char memory[] = "memory's latency";
	double each = x->t->rates->latency / MAX(x->blocks, 1), modelled = 0;
	for (int i = 0; i < x->spent.n; i++)
		modelled += strcmp(x->spent.at[i].wait, memory) == 0
				? x->spent.at[i].part[BILL_WAITING]
				: 0;
	if (x->blocks <= 0 || w->waits * each <= modelled)
		return;
	x->bill.part[BILL_WAITING] += w->waits * each - modelled;
	for (int i = 0; i < x->spent.n; i++) {
		LineBill *l = &x->spent.at[i];
		bool own = l->file == x->f->place.file && l->line >= 0 && l->line <= w->lines;
		double now = own ? w->steps[l->line] * each : 0;
		bool was = strcmp(l->wait, memory) == 0;
		l->part[BILL_WAITING] = now + (was ? 0 : l->part[BILL_WAITING]);
		l->wait = now > l->part[BILL_WAITING] / 2 ? memory : l->wait;
	}
}

json_t *
report_count_code(const json_t *stages, int lines, Inspection *x, Arena *mem)
{
	const json_t *sass = json_array_get(stages, json_array_size(stages) - 1);
	Bill *b = &x->bill;
	Walk w = {.lines = lines,
	    .of = NEW_ARRAY(mem, int, lines + 1),
	    .steps = NEW_ARRAY(mem, int, lines + 1)};
	if (b->cycles <= 0 ||
	    strcmp(json_string_value(json_object_get(sass, "kind")), "sass") != 0 ||
	    !walk(&w, json_string_value(json_object_get(sass, "text")),
		json_object_get(sass, "lines")) ||
	    w.n == 0)
		return json_null();
	double each = func_warps(x->f) / (4 * x->t->rates->issue_rate),
	       before = b->part[bill_most(b)];
	b->part[BILL_ISSUE] = w.n * each;
	for (int k = 0; k < x->spent.n; k++) {
		LineBill *l = &x->spent.at[k];
		bool own = l->file == x->f->place.file && l->line >= 0 && l->line <= lines;
		l->part[BILL_ISSUE] = own ? w.of[l->line] * each : 0;
	}
	wait_by_code(&w, x);
	double more = b->part[bill_most(b)] - before;
	b->cycles += more * b->programs;
	b->each += b->each > 0 ? more : 0;
	return json_pack(
	    "{s:i, s:i, s:i}", "instructions", w.n, "loads", w.loads, "waits", w.waits);
}
