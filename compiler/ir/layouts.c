/* One object for each distinct layout of a module, so that == compares them; and a schedule by the words of
 * its text. */
#include "ir/ir.h"

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

const char *const schedule_text[SCHEDULE_FIGURES] = {
    "warps", "stages", "group", "persistent", "specialize", "ctas",
};

void
schedule_figures(const FuncSchedule *s, int figure[SCHEDULE_FIGURES])
{
	figure[0] = s->warps;
	figure[1] = s->stages;
	figure[2] = s->group;
	figure[3] = s->persistent;
	figure[4] = s->specialize;
	figure[5] = s->ctas;
}

void
schedule_set(FuncSchedule *s, int i, int figure)
{
	int *at[SCHEDULE_FIGURES] = {
	    &s->warps, &s->stages, &s->group, &s->persistent, &s->specialize, &s->ctas,
	};

	*at[i] = figure;
}
