/* What the text of stages says of a line of the source. */
#include "tool/report/explain/explain.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static ExplainStage
stage_of(const Explain *s, const json_t *j)
{
	ExplainStage out = {0};
	const json_t *lines = json_object_get(j, "lines");
	const char *at = json_string_value(json_object_get(j, "text"));
	int most = (int)json_array_size(lines);
	out.line = NEW_ARRAY(s->mem, const char *, most);
	int *source = NEW_ARRAY(s->mem, int, most);
	for (; at && *at && out.n < most; at += strcspn(at, "\n"), at += *at == '\n') {
		source[out.n] = (int)json_integer_value(json_array_get(lines, (size_t)out.n));
		out.line[out.n++] = arena_strndup(s->mem, at, strcspn(at, "\n"));
	}
	out.source = source;
	return out;
}

static bool
has_barrier(const char *line)
{
	static const char *const word[] = {"bar.sync", "barrier.sync", "barrier.cluster.wait",
	    "threadgroup_barrier"};
	return ANY_OF(i, LEN(word), strstr(line, word[i]));
}

static bool
has_warp_barrier(const char *line)
{
	static const char *const word[] = {
	    "bar.warp.sync", "barrier.warp.sync", "simdgroup_barrier"};
	return ANY_OF(i, LEN(word), strstr(line, word[i]));
}

/* Barriers of the code; where a block has one warp, a warp's are the block's.  Not those that are written for the
 * assembler, so that no load moves down past a branch (lower/math/math_angle.c). */
static void
count_barriers(Explain *s)
{
	s->barriers = NEW_ARRAY(s->mem, int, s->nsource + 1);
	s->warp_barriers = NEW_ARRAY(s->mem, int, s->nsource + 1);
	s->holds = NEW_ARRAY(s->mem, int, s->nsource + 1);
	int *of_warps = func_warps(s->x->f) == 1 ? s->barriers : s->warp_barriers;
	for (int i = 0; i < s->code.n; i++) {
		s->barriers[s->code.source[i]] += has_barrier(s->code.line[i]);
		of_warps[s->code.source[i]] += has_warp_barrier(s->code.line[i]);
	}
	for (int i = 0; s->is_ptx && i < s->thread.n; i++) {
		const char *t = s->thread.line[i];
		bool holds = strcmp(t + strspn(t, " \t"), "hold") == 0;
		s->holds[s->thread.source[i]] += holds;
		of_warps[s->thread.source[i]] -= holds;
	}
}

void
explain_read_code(Explain *s, const json_t *stages)
{
	const json_t *j;
	size_t i;
	json_array_foreach(stages, i, j)
	{
		const char *kind = json_string_value(json_object_get(j, "kind"));
		ExplainStage *to = strcmp(kind, "thread") == 0 ? &s->thread
				   : strcmp(kind, "ptx") == 0 || strcmp(kind, "metal") == 0
				       ? &s->code
				   : strcmp(kind, "sass") == 0 ? &s->sass
							       : NULL;
		if (to)
			*to = stage_of(s, j);
		s->is_ptx |= strcmp(kind, "ptx") == 0;
	}
	count_barriers(s);
}

/* ---- the tile IR ---- */

static bool
is_of_line(const Explain *s, const Op *op, int line)
{
	return op->place.line == line && op->place.file == s->x->f->place.file;
}

/* Functions and quotients of floats: what takes several instructions, some of the special function
 * unit. */
bool
explain_is_function(const Op *op)
{
	OpCost cost = op_info[op->kind].cost;
	const Value *v = op->nout == 1 ? op->out : NULL;
	return v && v->type->kind == TYPE_TILE && op_has(op, ELEM) && dtype_is_float(v->type->elem) &&
	       (v->type->rank > 0 || report_is_slow(op)) &&
	       (cost == COST_SFU || cost == COST_DIVIDE || cost == COST_LONG);
}

/* Has the text that word, by itself? */
static bool
says(const char *text, const char *word)
{
	size_t n = strlen(word);
	for (const char *at = strstr(text, word); n && at; at = strstr(at + 1, word)) {
		bool begins = at == text || !(char_is_letter(at[-1]) || char_is_digit(at[-1]) || at[-1] == '_');
		if (begins && !char_is_letter(at[n]) && !char_is_digit(at[n]) && at[n] != '_')
			return true;
	}
	return false;
}

/* "tanh (as sigmoid)", which passes have rewritten: by the one function of the line's text that no op of it is. */
static const char *
written(const Explain *s, int line, OpKind kind)
{
	const char *name = op_info[kind].text, *other = NULL;
	const char *text = line > 0 && line <= s->source.n ? s->source.at[line - 1] : name;
	for (int k = 0; k < OP_COUNT && !says(text, name); k++) {
		bool is_long = op_info[k].cost == COST_SFU || op_info[k].cost == COST_LONG;
		bool is_gone = is_long && says(text, op_info[k].text) &&
			       !ANY_OP(op, s->x->f->body, op->kind == (OpKind)k && op->place.line == line);
		if (is_gone && other)
			return name;
		other = is_gone ? op_info[k].text : other;
	}
	return other ? arena_printf(s->mem, "%s (as %s)", other, name) : name;
}

const char *
explain_functions(const Explain *s, int line)
{
	TextList found = {0};
	bool loops = false; /* whose unrolled trips are copies */
	for (const Op *op = s->x->f->body->first; op; op = op_after(op, s->x->f->body))
		loops |= op_is_loop(op);
	for (const Op *op = s->x->f->body->first; op; op = op_after(op, s->x->f->body)) {
		const Op *first = NULL;
		int n = 0;
		if (!is_of_line(s, op, line) || !explain_is_function(op))
			continue;
		for (const Op *o = s->x->f->body->first; o; o = op_after(o, s->x->f->body))
			if (o->kind == op->kind && is_of_line(s, o, line) && explain_is_function(o)) {
				first = first ? first : o;
				n++;
			}
		const char *name = op->kind == OP_DIV ? "division" : written(s, line, op->kind);
		if (first == op)
			explain_add(s, &found,
			    n > 1 && !loops ? arena_printf(s->mem, "%d %s%s", n, name,
						  op->kind == OP_DIV ? "s" : "")
					    : name);
	}
	return explain_join(s, &found, ", ");
}

const char *
explain_slow(const Explain *s)
{
	enum { SHOWN = 3 };
	SpentLines spent = explain_lines_by(s, BILL_ISSUE);
	TextList names = {0}, lines = {0};
	for (int i = 0; i < spent.n && lines.n < SHOWN; i++)
		for (const Op *op = s->x->f->body->first; op; op = op_after(op, s->x->f->body)) {
			if (!is_of_line(s, op, spent.at[i]->line) || !report_is_slow(op))
				continue;
			const char *name = written(s, op->place.line, op->kind);
			explain_add(s, &names, arena_printf(s->mem, "fast::%.*s", (int)strcspn(name, " "), name));
			explain_add(s, &lines, arena_printf(s->mem, "%d", op->place.line));
		}
	return names.n ? arena_printf(s->mem, "%s in %s", explain_join(s, &names, " and "), explain_line_list(s, &lines))
	               : "fast:: functions";
}

bool
explain_is_slow(const Explain *s, int line)
{
	return ANY_OP(op, s->x->f->body, is_of_line(s, op, line) && report_is_slow(op));
}

/* "32 FRND, 32 F2I of a warp for a program", by SASS; "": it was not counted. */
static const char *
specials_of_code(const Explain *s, int line)
{
	static const double LITTLE = .02;
	const json_t *of = json_object_get(json_object_get(s->counted, "specials"), arena_printf(s->mem, "%d", line)), *n;
	const char *name;
	double all = 0;
	TextList found = {0};
	json_object_foreach((json_t *)of, name, n) all += json_number_value(n);
	json_object_foreach((json_t *)of, name, n)
		if (json_number_value(n) >= LITTLE * all)
			explain_add(s, &found, arena_printf(s->mem, "%s %s", explain_round(s, json_number_value(n)), name));
	return found.n ? arena_printf(s->mem, "%s of a warp for a program", explain_join(s, &found, ", ")) : "";
}

const char *
explain_specials(const Explain *s, int line)
{
	TextList found = {0};
	const char *code = specials_of_code(s, line);
	if (*code)
		return code;
	for (const Op *op = s->x->f->body->first; op; op = op_after(op, s->x->f->body)) {
		if (op->kind != OP_CAST || op->out->type->rank == 0 || !is_of_line(s, op, line))
			continue;
		DType from = op->in[0]->type->elem, to = op->out->type->elem;
		if (dtype_is_int(from) != dtype_is_int(to) && from != TY_BOOL)
			explain_add(s, &found,
			    arena_printf(s->mem, "conversions of %s to %s", dtype_info[from].text, dtype_info[to].text));
	}
	explain_add(s, &found, explain_functions(s, line));
	for (int i = 0; i < s->lines.n; i++) {
		const ExplainLine *l = &s->lines.at[i];
		if (l->line == line && strncmp(l->what, "dot", 3) == 0 &&
		    strstr(l->details, "converts both operands"))
			explain_add(s, &found, "conversions of the product's operands to f16");
	}
	return explain_join(s, &found, ", ");
}

const char *
explain_keys(const Explain *s, int line)
{
	TextList found = {0};
	for (const Op *op = s->x->f->body->first; op; op = op_after(op, s->x->f->body))
		if (op->kind == OP_REDUCE && is_of_line(s, op, line) && strncmp(attr_fn(op), "arg", 3) == 0)
			explain_add(s, &found, attr_fn(op));
	return explain_join(s, &found, " and ");
}

/* *written: the line that wrote last in a trip of the loop that the block is in; 0: none did. */
static void
late_reads(const Explain *s, const Block *b, int *written, TextList *found)
{
	enum { SHOWN = 3 };
	for (const Op *op = b->first; op && found->n < SHOWN; op = op->next) {
		int line = op->place.file == s->x->f->place.file ? op->place.line : 0, inside = 0;
		if (op->kind == OP_WRITE || op->kind == OP_STORE)
			*written = line;
		else if (op->kind == OP_READ && op->out->type->rank > 0 && *written && *written != line)
			explain_add(s, found, arena_printf(s->mem, "line %d reads %s behind the write of line %d",
						  line, op->in[0]->name, *written));
		for (int i = 0; i < op->nregion; i++)
			late_reads(s, op->region[i], op_is_loop(op) ? &inside : written, found);
	}
}

const char *
explain_late_reads(const Explain *s)
{
	TextList found = {0};
	int written = 0;
	late_reads(s, s->x->f->body, &written, &found);
	return explain_join(s, &found, "; ");
}

const char *
explain_unrolled(const Explain *s)
{
	int64_t most = 1;
	for (const Op *op = s->x->f->body->first; op; op = op_after(op, s->x->f->body))
		most = op->kind == OP_FOR ? MAX(most, attr_unrolled(op)) : most;
	return most > 1 ? arena_printf(s->mem,
			      ", since the loop is unrolled by %d, and the trips that are left have "
			      "code of their own",
			      (int)most)
			: "";
}

/* ---- PTX ---- */

/* An instruction, behind its predicate; NULL: the line is none. */
static const char *
instruction(const char *t)
{
	const char *at = t + strspn(t, " \t");
	if (at == t)
		return NULL;
	if (*at == '@')
		at += strcspn(at, " ") + 1;
	size_t n = strspn(at, "abcdefghijklmnopqrstuvwxyz");
	return n && at[n] == '.' ? at : NULL;
}

/* Has an instruction one of these names, and one of these types at its end or in its middle? */
static bool
is_one(const char *at, const char *const *name, int n, const char *type)
{
	size_t length = strcspn(at, "."), all = strcspn(at, " ");
	const char *found = strstr(at, type);
	if (!found || found >= at + all || char_is_digit(found[strlen(type)]))
		return false;
	return ANY_OF(i, n, strlen(name[i]) == length && strncmp(at, name[i], length) == 0);
}

int
explain_count_code(const Explain *s, int line, const char *const *name, int n, const char *type)
{
	int all = 0;
	for (int i = 0; s->is_ptx && i < s->code.n; i++) {
		const char *at = s->code.source[i] == line ? instruction(s->code.line[i]) : NULL;
		all += at && (!name || is_one(at, name, n, type));
	}
	return all;
}

int
explain_count_at(const Explain *s, int line, int col)
{
	int n = 0, at = 0;
	for (int i = 0; s->is_ptx && i < s->code.n; i++) {
		const char *t = s->code.line[i] + strspn(s->code.line[i], " \t");
		if (strncmp(t, ".loc\t", 5) == 0) /* file, line, column */
			at = atoi(t + 5 + strcspn(t + 5, " ") + 1) == line ? atoi(strrchr(t, ' ') + 1) : 0;
		n += at == col && s->code.source[i] == line && instruction(s->code.line[i]);
	}
	return n;
}

double
explain_wide(const Explain *s, int line)
{
	static const char *const name[] = {
	    "add", "sub", "mul", "mad", "shl", "shr", "div", "rem", "min", "max", "setp", "selp"};
	static const char *const type[] = {".s64", ".u64", ".b64"};
	int all = explain_count_code(s, line, NULL, 0, NULL);
	int wide = SUM_OF(int, i, LEN(type), explain_count_code(s, line, name, LEN(name), type[i]));
	return all ? (double)wide / all : 0;
}

/* Has an op of the line a tile of integers of 64 bits, as a result or an operand? */
bool
explain_casts(const Explain *s, int line)
{
	for (const Op *op = s->x->f->body->first; op; op = op_after(op, s->x->f->body)) {
		if (!is_of_line(s, op, line))
			continue;
		for (int i = 0; i < op->nin + op->nout; i++) {
			const Type *t = i < op->nin ? op->in[i]->type : op->out[i - op->nin].type;
			if (t->kind == TYPE_TILE && t->rank > 0 &&
			    (t->elem == TY_I64 || t->elem == TY_U64))
				return true;
		}
	}
	return false;
}

/* Does an op of the line put elements in order, or find where the first of them is? */
static bool
is_ordered(const Explain *s, int line)
{
	return ANY_OP(op, s->x->f->body, is_of_line(s, op, line) && op_family(op) == FAMILY_ORDER) ||
	       *explain_keys(s, line);
}

bool
explain_divides(const Explain *s, int line)
{
	for (int i = 0; s->is_ptx && i < s->code.n; i++)
		if (s->code.source[i] == line && strstr(s->code.line[i], "div.rn.f32"))
			return true;
	return false;
}

/* ---- what a line's instructions are for ---- */

/* Kinds of PTX's instructions, and how many of the machine each is about.  A division is a routine;
 * of 64 bits LLVM writes two, of which the one of 32 serves all but large numbers. */
typedef struct Work {
	const char *of;
	double each;
	int n;
} Work;

static const double MUCH_OF_LINE = .15;

enum { WORK_DIVIDE, WORK_WIDE, WORK_SELECT, WORK_CONVERT, WORK_FLOAT, WORK_OTHER, WORKS };

static int
work_of(const char *at)
{
	static const char *const divide[] = {"div", "rem"}, *const select[] = {"setp", "selp",
								"min", "max", "and", "or"};
	const char *end = at + strcspn(at, " ;");
	const char *type = end - 4; /* ".s64" */
	if (end - at < 5)
		return WORK_OTHER;
	bool wide = strncmp(type + 2, "64", 2) == 0 && type[1] != 'f';
	bool real = strstr(at, ".f") && strstr(at, ".f") < end;
	for (int i = 0; i < LEN(divide); i++)
		if (strncmp(at, divide[i], 3) == 0 && at[3] == '.' && !real)
			return WORK_DIVIDE;
	if (strncmp(at, "ld.", 3) == 0 || strncmp(at, "st.", 3) == 0 || strncmp(at, "mov.", 4) == 0)
		return WORK_OTHER;
	if (wide)
		return WORK_WIDE;
	for (int i = 0; i < LEN(select); i++)
		if (strncmp(at, select[i], strlen(select[i])) == 0 && at[strlen(select[i])] == '.')
			return WORK_SELECT;
	return strncmp(at, "cvt.", 4) == 0  ? WORK_CONVERT
	       : real || strstr(at, "bf16") ? WORK_FLOAT
					    : WORK_OTHER;
}

static void
count_work(const Explain *s, int line, Work out[WORKS], double *all)
{
	static const Work kinds[WORKS] = {{"divisions and remainders of integers", 20, 0},
	    {"64-bit indices and addresses", 2, 0}, {"comparisons, masks and selections", 1, 0},
	    {"conversions", 1, 0}, {"floating-point arithmetic", 1, 0}, {"", 1, 0}};
	int twice = 0;
	memcpy(out, kinds, sizeof kinds);
	if (is_ordered(s, line))
		out[WORK_WIDE].of = "keys of 64 bits, an element and its index in one";
	else if (explain_casts(s, line))
		out[WORK_WIDE].of = "64-bit tiles, indices and addresses";
	*all = 0;
	for (int i = 0; s->is_ptx && i < s->code.n; i = explain_past_seldom(s, i, line) + 1) {
		const char *at = s->code.source[i] == line ? instruction(s->code.line[i]) : NULL;
		if (!at)
			continue;
		Work *w = &out[work_of(at)];
		twice +=
		    w == &out[WORK_DIVIDE] && strncmp(at + strcspn(at, " ;") - 2, "64", 2) == 0;
		w->n++;
	}
	out[WORK_DIVIDE].n -= MIN(twice, out[WORK_DIVIDE].n / 2);
	for (int k = 0; k < WORKS; k++)
		*all += out[k].n * out[k].each;
}

double
explain_quotients(const Explain *s, int line, int *n)
{
	Work work[WORKS];
	double all;
	count_work(s, line, work, &all);
	*n = work[WORK_DIVIDE].n;
	return all > 0 ? *n * work[WORK_DIVIDE].each / all : 0;
}

/* "40 % shifts and logic, 30 % conversions" of the machine code; "": it was not counted. */
static const char *
mix_of_code(const Explain *s, int line)
{
	enum { SHOWN = 3 };
	const json_t *of = json_object_get(json_object_get(s->counted, "mix"), arena_printf(s->mem, "%d", line)), *n;
	const char *kind;
	json_t *left = json_copy((json_t *)of);
	double all = 0, most = HUGE_VAL;
	TextList parts = {0};
	json_object_foreach(left, kind, n) all += json_number_value(n);
	while (parts.n < SHOWN && most > MUCH_OF_LINE * all) {
		const char *name = "";
		most = 0;
		json_object_foreach(left, kind, n)
			if (json_number_value(n) > most) {
				most = json_number_value(n);
				name = arena_strdup(s->mem, kind);
			}
		if (most > MUCH_OF_LINE * all)
			explain_add(s, &parts, arena_printf(s->mem, "%.0f %% %s", 100 * most / all, name));
		json_object_del(left, name);
	}
	json_decref(left);
	return explain_join(s, &parts, ", ");
}

const char *
explain_mix(const Explain *s, int line)
{
	const char *code = mix_of_code(s, line);
	Work work[WORKS];
	double all;
	TextList parts = {0};
	count_work(s, line, work, &all);
	for (int most = 0; most >= 0 && parts.n < 3;) {
		most = -1;
		for (int k = 0; k < (*code ? WORK_SELECT : WORK_OTHER); k++) /* what SASS does not say */
			if (work[k].n * work[k].each > MUCH_OF_LINE * all &&
			    (most < 0 || work[k].n * work[k].each > work[most].n * work[most].each))
				most = k;
		if (most < 0)
			break;
		explain_add(s, &parts,
		    arena_printf(s->mem, "%.0f %% %s", 100 * work[most].n * work[most].each / all,
			work[most].of));
		work[most].n = 0;
	}
	return !parts.n ? code
			: arena_printf(s->mem, "%s%sby PTX about %s", code, *code ? ", and counted another way " : "",
			      explain_join(s, &parts, ", "));
}
