/* What a launch runs beside the kernel that the page is of: one before, which makes operands or adds up parts, one behind,
 * which joins them or copies what lies across rows.  Each is compiled, counted and asked the same questions.  Its answers
 * stand behind those of the kernel shown, its lines' figures below theirs, both under its role:
 *
 *     Are accesses coalesced? Yes. Kernel before: no: line 30.
 *     30  let a = x[rows[:, new], k + arange(0, BK)];         kernel before: read x 16 B, 16/16 sectors */
#include "model/digits/digits.h"
#include "tool/report/report.h"

#include <string.h>

static json_t *
gathered(const ReportLaunch *l, Module *m, const Bound *b, const char *role)
{
	Inspection x;
	Arena *mem = m->cx->mem;
	const ChooseWhy why = {.mem = mem};
	CliCode code = {.registers = 0};
	json_t *out = NULL, *stages = json_array();
	if (report_make_code(m, l->t, REPORT_ASSEMBLE, &code) && cli_inspect_code(m, l->t, b, &code, &x)) {
		x.bill.cycles -= x.other;               /* of this kernel alone */
		x.other = 0;
		report_add_code(stages, m, l->t, &code);
		json_t *counted = report_count_code(stages, report_text_lines(l->source), &x, b, mem);
		out = json_pack("{s:s, s:s, s:o, s:o, s:o}", "kernel", m->funcs.at[0]->name, "role", role, "stages", stages,
		    "code", counted, "inspect", cli_inspection_json(&x));
		report_add_figures(out, &x, &why);
		report_say(out, l->source, &x, b, &why, mem);
		json_object_set(out, "us", json_object_get(json_object_get(out, "bill"), "us"));
		static const char *const inner[] = {"stages", "code", "limits", "summary", "words", "rounds"};
		for (int i = 0; i < LEN(inner); i++)
			json_object_del(out, inner[i]);
	} else {
		json_decref(stages);
	}
	cli_code_close(&code);
	return out;
}

static void
put_lower(const char *text, Text *out)
{
	bool is_word = *text >= 'A' && *text <= 'Z' && (text[1] == ' ' || (text[1] >= 'a' && text[1] <= 'z'));
	text_printf(out, "%c%s", is_word ? *text - 'A' + 'a' : *text, text + 1);
}

/* "Kernel before: no: line 30." */
static json_t *
with_role(const char *role, const char *text)
{
	Text t = {0};
	text_printf(&t, "%c%s: ", *role - 'a' + 'A', role + 1);
	put_lower(text, &t);
	json_t *j = json_string(t.at);
	text_close(&t);
	return j;
}

static void
add_answers(json_t *kernel, const json_t *other, const char *role)
{
	json_t *own, *says;
	size_t i, k;
	json_array_foreach(json_object_get(kernel, "answers"), i, own) {
		const json_t *a = json_array_get(json_object_get(other, "answers"), i);
		const char *brief = json_string_value(json_object_get(a, "brief"));
		if (!*brief)
			continue;
		json_t *all = json_object_get(own, "says"), *head = with_role(role, brief);
		json_object_set_new(own, "brief",
		    json_sprintf("%s %s", json_string_value(json_object_get(own, "brief")), json_string_value(head)));
		json_decref(head);
		json_array_foreach(json_object_get(a, "says"), k, says)
			json_array_append_new(all, with_role(role, json_string_value(says)));
	}
}

/* Of the kernel shown; made where it has none. */
static json_t *
note_of(json_t *notes, json_int_t line)
{
	json_t *n;
	size_t i, at = json_array_size(notes);
	json_array_foreach(notes, i, n) {
		json_int_t l = json_integer_value(json_object_get(n, "line"));
		if (l == line)
			return n;
		if (l > line && i < at)
			at = i;
	}
	n = json_pack("{s:I, s:[], s:[]}", "line", line, "below", "chosen");
	json_array_insert_new(notes, at, n);
	return json_array_get(notes, at);
}

static void
add_notes(json_t *kernel, const json_t *other, const char *role)
{
	json_t *notes = json_object_get(kernel, "notes"), *n, *one;
	size_t i, k;
	json_array_foreach(json_object_get(other, "notes"), i, n) {
		json_t *own = note_of(notes, json_integer_value(json_object_get(n, "line")));
		json_array_foreach(json_object_get(n, "below"), k, one)
			json_array_append_new(json_object_get(own, "below"),
			    json_pack("{s:o, s:O}", "text",
				json_sprintf("%s: %s", role, json_string_value(json_object_get(one, "text"))), "bad",
				json_object_get(one, "bad")));
		json_array_foreach(json_object_get(n, "chosen"), k, one)
			json_array_append_new(json_object_get(own, "chosen"),
			    json_sprintf("%s: %s", role, json_string_value(one)));
	}
}

void
report_add_others(json_t *kernel, const ReportLaunch *l, const Module *shown)
{
	static const int which[] = {MATERIALIZE_FIRST, 0, MATERIALIZE_LAST};
	json_t *all = json_array(), *one;
	bool is_behind = false;
	size_t i;
	for (int n = 0; n < LEN(which); n++) {
		Bound b = l->b;
		const PassOptions passes = {.own_file = true};
		bool is_shown = n == 1 ? shown == l->main : n == 0 && shown != l->main;
		Module *m = is_shown ? NULL
			    : n == 1 ? l->main
				     : cli_other_module(l->k, l->main, &l->b, l->t, &passes, which[n], &b);
		bool is_third = n == 2 && shown != l->main;
		const char *role = !is_behind ? "kernel before" : is_third ? "last kernel" : "kernel behind";
		json_t *j = m ? gathered(l, m, &b, role) : NULL;
		is_behind |= is_shown;
		if (j)
			json_array_append_new(all, j);
	}
	json_array_foreach(all, i, one) {
		add_answers(kernel, one, json_string_value(json_object_get(one, "role")));
		add_notes(kernel, one, json_string_value(json_object_get(one, "role")));
	}
	json_object_set_new(kernel, "others", all);
}
