/* The schedules and tiles that were compared: which was taken, the next one, and whether smaller
 * tiles are slower. */
#include "tool/report/explain/explain.h"

#include "compile/choose/choose.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double SAME = 0.005; /* of a time: two schedules take as long */

static int
fit_of(const Explain *s)
{
	int fit = 0;
	for (int i = 0; i < s->why->tried.n; i++)
		fit += s->why->tried.at[i].cycles >= 0;
	return fit;
}

bool
explain_fitted(const Explain *s)
{
	bool none = s->why->none && strcmp(s->why->none, CHOOSE_NO_BLOCK) == 0;
	return none && s->b->schedule.warps <= 0;
}

/* Of its rings; fewer than stages where roles have no room for as many (rings.c), or a loop holds the next trip's tiles in
 * registers and has two (double_buffer.c). */
static int
most_slots(const Func *f)
{
	int n = 0;
	for (const Op *op = f->body->first; op; op = op_after(op, f->body))
		n = op->kind == OP_ALLOC ? MAX(n, op->out[0].type->slots) : n;
	return n;
}

const char *
explain_compared(const Explain *s)
{
	const ChooseWhy *why = s->why;
	const Tried *taken = NULL, *next = NULL;
	for (int i = 0; i < why->tried.n; i++)
		taken = why->tried.at[i].is_chosen ? &why->tried.at[i] : taken;
	int fit = fit_of(s);
	if (explain_fitted(s))
		return arena_printf(s->mem,
		    "No other schedule was compared: with the warps and stages that the tiles ask for a block does not fit "
		    "on a multiprocessor, and the first that fit were taken, warps = %d.", func_warps(s->x->f));
	if (fit < 2 || !taken)
		return arena_printf(s->mem, "No other schedule was compared%s%s.",
		    why->none ? ": " : "", why->none ? why->none : "");
	for (int i = 0; i < why->tried.n; i++) {
		const Tried *c = &why->tried.at[i];
		bool is_other =
		    c->cycles >= 0 && !c->is_chosen && c->bill.cycles != taken->bill.cycles;
		next = is_other && (!next || c->bill.cycles < next->bill.cycles) ? c : next;
	}
	Text t = {0};
	text_printf(&t, "Of %d schedules that the model compared ", fit);
	why_values(taken, &t);
	text_put(&t, " was taken");
	const NamedConst *stages = named_const(taken->value, taken->n, schedule_info[SCHEDULE_STAGES].text);
	int slots = most_slots(s->x->f);
	if (stages && slots > 1 && slots < stages->value.i)
		text_printf(&t, " (but its rings have %d slots%s)", slots,
		    func_find(s->x->f, OP_ROLES) ? arena_printf(s->mem, ", as shared memory has no room for %lld",
						       (long long)stages->value.i) : "");
	double times = next ? next->bill.cycles / taken->bill.cycles : 1;
	if (next) {
		text_put(&t, times < 1 - SAME ? "; less by the estimate is " : "; the next, ");
		why_values(next, &t);
		if (fabs(times - 1) < SAME)
			text_put(&t, ", would take as long");
		else
			text_printf(&t,
			    times < 1 ? ", %s times" : ", would take %s times as long by it",
			    explain_round(s, times));
	}
	const json_t *v;
	size_t k;
	json_array_foreach(s->variants, k, v)
		if (next && json_is_true(json_object_get(v, "next")) && explain_built_us(s, v) > 0)
			text_printf(&t, ", compiled %s", explain_times(s, explain_built_us(s, v) / s->us));
	if (times < 1 - SAME && next->cycles > taken->cycles)
		text_printf(&t,
		    ", but it was not taken: the model knows such forms less, which have to be "
		    "%.0f %% better",
		    100 * (1 - next->bill.cycles / next->cycles * taken->cycles /
				   taken->bill.cycles));
	else if (times < 1 - SAME)
		text_printf(&t, ", but it was not taken: %s", why_not_least(why, taken));
	text_put(&t, " (all of them stand under what bounds it, below, in the order of what they are ranked as).");
	return text_take(&t, s->mem);
}

/* Has a schedule that was compared a smaller tile than this, and none that is larger? */
static bool
is_smaller(const Explain *s, const Tried *c)
{
	bool smaller = false;
	for (int i = 0; i < c->n; i++) {
		const NamedConst *now = named_const(s->b->ct, s->b->nct, c->value[i].name);
		if (!now || schedule_named(c->value[i].name) >= 0)
			continue;
		if (c->value[i].value.i > now->value.i)
			return false;
		smaller |= c->value[i].value.i < now->value.i;
	}
	return smaller && c->cycles >= 0;
}

static bool
variant_is_smaller(const Explain *s, const json_t *variant)
{
	const char *at = json_string_value(json_object_get(variant, "values"));
	bool smaller = true;
	for (; *at && smaller; at += strcspn(at, ","), at += strspn(at, ", ")) {
		const char *name = arena_strndup(s->mem, at, strcspn(at, " "));
		const NamedConst *c = schedule_named(name) < 0 ? named_const(s->b->ct, s->b->nct, name) : NULL;
		const char *is = strstr(at, " = ");
		smaller = c && is && strtol(is + 3, NULL, 10) < c->value.i;
	}
	return smaller;
}

double
explain_measured_us(const json_t *variant)
{
	return json_number_value(json_object_get(variant, "measured_us"));
}

bool
explain_is_measured(const Explain *s)
{
	return ANY_OF(i, (int)json_array_size(s->variants),
	    explain_measured_us(json_array_get(s->variants, (size_t)i)) > 0);
}

double
explain_built_us(const Explain *s, const json_t *variant)
{
	bool spills = json_integer_value(json_object_get(variant, "spills")) > MAX(s->x->spills, 0);
	return spills ? 0 : json_number_value(json_object_get(variant, "built_us"));
}

bool
explain_smaller_are_slower(const Explain *s, bool *compared)
{
	const json_t *v;
	size_t i;
	int n = 0, slower = 0;
	for (int k = 0; k < s->why->tried.n; k++) {
		const Tried *c = &s->why->tried.at[k];
		bool smaller = is_smaller(s, c);
		n += smaller;
		slower += smaller && explain_tried(s, c->bill.cycles) >= s->compared;
	}
	json_array_foreach(s->variants, i, v)
	{
		bool smaller = variant_is_smaller(s, v);
		n += smaller;
		slower += smaller && json_number_value(json_object_get(v, "us")) >= s->compared;
	}
	*compared = n > 0;
	return n > 0 && slower == n;
}
