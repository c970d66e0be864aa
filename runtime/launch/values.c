/* Values by name of a bound kernel: compile-time parameters, dimensions, and what its schedule sets. */
#include <string.h>

#include "runtime/launch/launch.h"

/* In the order in which they are shown.  The last two are switches: -1 leaves them to the compiler, as 0 the others. */
static const char *const schedule_names[SCHEDULE_NAMES] = {"warps", "stages", "group", "ctas", "persistent", "specialize"};

enum { FIRST_SWITCH = 4 };

const char *
schedule_name(int i)
{
	return schedule_names[i];
}

static bool
schedule_value(const Schedule *s, int i, Const *out)
{
	const int value[SCHEDULE_NAMES] = {s->warps, s->stages, s->group, s->ctas, s->persistent, s->specialize};
	bool is_switch = i >= FIRST_SWITCH;
	*out = (Const){.kind = is_switch ? CONST_BOOL : CONST_INT, .i = value[i]};
	return is_switch ? value[i] >= 0 : value[i] > 0;
}

bool
bound_value(const Bound *b, const char *name, Const *out)
{
	for (int i = 0; i < b->nct; i++)
		if (strcmp(b->ct[i].name, name) == 0) {
			*out = b->ct[i].value;
			return true;
		}
	for (int i = 0; i < b->nsymbol; i++)
		if (strcmp(b->symbol[i].name, name) == 0) {
			*out = b->symbol[i].value;
			return true;
		}
	for (int i = 0; i < SCHEDULE_NAMES; i++)
		if (strcmp(schedule_names[i], name) == 0)
			return schedule_value(&b->schedule, i, out);
	return false;
}

void
const_text(const Const *c, Text *out)
{
	switch (c->kind) {
	case CONST_FLOAT: text_printf(out, "%.9g", c->f); break;
	case CONST_BOOL: text_put(out, c->i ? "true" : "false"); break;
	case CONST_DTYPE: text_put(out, dtype_info[c->dtype].text); break;
	case CONST_TEXT: text_json(out, c->text); break;
	case CONST_BIG: text_printf(out, "%llu", (unsigned long long)c->i); break;
	default: text_printf(out, "%lld", (long long)c->i);
	}
}

void
bound_text(const Bound *b, Text *out)
{
	Const c;
	text_put(out, "");
	for (int i = 0; i < b->nct; i++) {
		text_printf(out, "%s%s = ", out->n ? ", " : "", b->ct[i].name);
		const_text(&b->ct[i].value, out);
	}
	for (int i = 0; i < SCHEDULE_NAMES; i++)
		if (schedule_value(&b->schedule, i, &c) && c.i > 0)
			text_printf(out, "%s%s = %d", out->n ? ", " : "", schedule_names[i], (int)c.i);
}
