/* What a module has beside its functions' ops: one object for each distinct layout, so that == compares them; schedules
 * and facts by the words of their text. */
#include "ir/ir.h"

#include <string.h>

const Layout *
layout_intern(Module *m, const Layout *l)
{
	for (int i = 0; i < m->nlayouts; i++)
		if (layout_equal(m->layouts[i], l))
			return m->layouts[i];
	if (m->nlayouts == m->caplayouts) {
		int cap = m->caplayouts ? m->caplayouts * 2 : 16;
		const Layout **grown = arena_alloc(m->cx->mem, sizeof *grown * (size_t)cap);
		for (int i = 0; i < m->nlayouts; i++)
			grown[i] = m->layouts[i];
		m->layouts = grown;
		m->caplayouts = cap;
	}
	Layout *copy = arena_alloc(m->cx->mem, sizeof *copy);
	*copy = *l;
	m->layouts[m->nlayouts++] = copy;
	return copy;
}

const ScheduleInfo schedule_info[SCHEDULE_COUNT] = {
#define SCHEDULE(id, name, kind, most, range, meaning) [SCHEDULE_##id] = {#name, SCHEDULE_##kind, most, range, meaning},
#include "ir/schedule.def"
#undef SCHEDULE
};

int
schedule_named(const char *name)
{
	for (int i = 0; i < SCHEDULE_COUNT; i++)
		if (strcmp(schedule_info[i].text, name) == 0)
			return i;
	return -1;
}

const FactInfo fact_info[FACT_COUNT] = {
#define FACT(name, meaning) [FACT_##name] = {#name, meaning},
#include "ir/facts.def"
#undef FACT
};

void
facts_print(unsigned facts, const char *between, Text *out)
{
	for (int i = 0, n = 0; i < FACT_COUNT; i++)
		if (facts >> i & 1)
			text_printf(out, "%s%s", n++ ? between : "", fact_info[i].text);
}
