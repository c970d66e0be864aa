/* What else comes with a change to a kernel: the rest of the schedule, and tiles, are chosen anew for it. */
#include "tool/report/variants.h"

#include "runtime/launch/launch.h"

#include <string.h>

/* Has one of the first n lines of inspect what this one has, as "histogram", of the same line of the source? */
static bool
has_same(const Inspection *x, int n, const InspectLine *l)
{
	for (int i = 0; i < n; i++) {
		const InspectLine *o = &x->lines.at[i];
		if (o->op && o->op->place.line == l->op->place.line && strcmp(o->what, l->what) == 0)
			return true;
	}
	return false;
}

bool
variant_says(const Variants *v, int nth, const char *name)
{
	const char *all = json_string_value(json_object_get(json_array_get(v->all, (size_t)nth), "values"));
	size_t n = strlen(name);
	for (const char *at = all; (at = strstr(at, name)); at += n)
		if ((at == all || at[-1] == ' ') && strncmp(at + n, " = ", 3) == 0)
			return true;
	return false;
}

/* A word of the schedule as it was bound, or as passes have it; 1 and none of what is counted are the same. */
static int64_t
word_of(const Bound *b, const Func *f, int word)
{
	Const is;
	const char *name = schedule_info[word].text;
	int64_t at = !schedule_hidden(b->kernel, name) && bound_value(b, name, &is) ? is.i
		     : word == SCHEDULE_WARPS                                        ? func_warps(f)
										     : f->schedule.at[word];
	return schedule_info[word].kind == SCHEDULE_SWITCH ? at > 0 : MAX(at, 1);
}

/* "with BM = 64, warps = 4": what was chosen anew with a change, beside what it is named by. */
static void
put_anew(const Variants *v, const Inspection *x, int nth, Text *out)
{
	const Bound *b = &v->with.at[nth].b;
	size_t n = out->n;
	const char *sep = n ? ", with" : "with";
	for (int i = 0; i < b->nct; i++) {
		const NamedConst *c = &b->ct[i];
		if (c->value.kind != CONST_INT || schedule_named(c->name) >= 0 || variant_says(v, nth, c->name) ||
		    choose_has(v->now->ct, v->now->nct, c))
			continue;
		text_printf(out, "%s %s = %lld", out->n > n ? "," : sep, c->name, (long long)c->value.i);
	}
	for (int word = 0; word < SCHEDULE_COUNT; word++) {
		int64_t then = word_of(b, x->f, word);
		const char *name = schedule_info[word].text;
		if (then == word_of(v->now, v->own->f, word) || variant_says(v, nth, name))
			continue;
		text_printf(out, "%s %s = ", out->n > n ? "," : sep, name);
		if (schedule_info[word].kind == SCHEDULE_SWITCH)
			text_put(out, then ? "true" : "false");
		else
			text_printf(out, "%lld", (long long)then);
	}
}

const char *
variant_gains(const Variants *v, const Inspection *x, int nth)
{
	Text t = {0};
	text_put(&t, "");
	for (int i = 0; i < x->lines.n; i++) {
		const InspectLine *l = &x->lines.at[i];
		if (l->kind == INSPECT_REDUCE && l->op && l->op->place.file == x->f->place.file &&
		    !has_same(v->own, v->own->lines.n, l) && !has_same(x, i, l))
			text_printf(&t, "%sline %d has a %s", t.n ? ", " : "", l->op->place.line, l->what);
	}
	put_anew(v, x, nth, &t);
	return text_take(&t, v->k->program->cx->mem);
}
