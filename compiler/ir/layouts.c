/* One object for each distinct layout of a module, so that == compares them. */
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
