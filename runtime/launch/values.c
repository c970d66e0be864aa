/* Values by name of a bound kernel: compile-time parameters, dimensions, and what its schedule sets. */

#include "runtime/launch/launch.h"

static bool
schedule_value(const Schedule *s, int i, Const *out)
{
	bool is_switch = schedule_info[i].kind == SCHEDULE_SWITCH;
	*out = (Const){.kind = is_switch ? CONST_BOOL : CONST_INT, .i = s->at[i]};
	return is_switch ? s->at[i] >= 0 : s->at[i] > 0;
}

bool
bound_value(const Bound *b, const char *name, Const *out)
{
	const NamedConst *c = named_const(b->ct, b->nct, name);
	if (!c)
		c = named_const(b->symbol, b->nsymbol, name);
	if (c)
		*out = c->value;
	int i = c ? -1 : schedule_named(name);
	return c || (i >= 0 && schedule_value(&b->schedule, i, out));
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
	for (int i = 0; i < SCHEDULE_COUNT; i++)
		if (schedule_value(&b->schedule, i, &c) && c.i > 0)
			text_printf(out, "%s%s = %d", out->n ? ", " : "", schedule_info[i].text, (int)c.i);
}
