/* Questions about layouts that only tests ask. */
#ifndef TEGULA_TESTS_LAYOUT_HELP_H
#define TEGULA_TESTS_LAYOUT_HELP_H

#include "layout/layout.h"

static inline bool
f2_is_injective(const F2 *m)
{
	return f2_rank(m) == m->nin;
}

/* The coordinates of the element that a register of a thread holds. */
static inline void
layout_element(const Layout *l, const uint32_t in[IN_DIMS], uint32_t out[LAYOUT_RANK])
{
	uint64_t x = 0;
	for (int d = 0; d < IN_DIMS; d++)
		x |= (uint64_t)in[d] << layout_in_at(l, (InDim)d);
	uint64_t y = f2_apply(&l->map, x);
	for (int d = 0; d < l->rank; d++)
		out[d] = (uint32_t)(y >> layout_out_at(l, d) & ((UINT64_C(1) << l->out[d]) - 1));
}

#endif
