/* Where the lanes of a warp hold the operands of a matrix instruction, by the formulas that the PTX ISA prints for each
 * shape: lane l is groupID = l / 4 and threadID_in_group = l % 4, i counts the elements of a thread. */
#ifndef TEGULA_TEST_FRAGMENT_HELP_H
#define TEGULA_TEST_FRAGMENT_HELP_H

#include "target/target.h"

typedef struct At {
	uint32_t row, col;
} At;

/* Of a simdgroup of Apple's, all three operands, as the matrices of MLX have it. */
static inline At
simdgroup_of(uint32_t lane, uint32_t i)
{
	uint32_t quad = lane / 4;
	return (At){(quad & 4) + lane / 2 % 4, (quad & 2) * 2 + lane % 2 * 2 + i};
}

static inline bool
is_simdgroup(const MmaInfo *m)
{
	return (m->needs & HAS_SIMDGROUP_MATRIX) != 0;
}

static inline At
a_of(const MmaInfo *m, uint32_t g, uint32_t t, uint32_t i)
{
	bool wide = m->k == 32, bytes = wide || m->m == 8;
	if (is_simdgroup(m))
		return simdgroup_of(4 * g + t, i);
	if (m->a == TY_F64 && m->m == 8)
		return (At){g, t};
	if (m->a == TY_F32 || m->a == TY_F64)
		return (At){g + (i & 1 ? 8 : 0), t + i / 2 * 4};
	if (m->m == 8)
		return (At){g, t * 4 + (i & 3)};
	if (bytes)
		return (At){i < 4 || (i >= 8 && i < 12) ? g : g + 8, t * 4 + (i & 3) + (i < 8 ? 0 : 16)};
	if (m->k == 8)
		return (At){i < 2 ? g : g + 8, t * 2 + (i & 1)};
	return (At){i < 2 || (i >= 4 && i < 6) ? g : g + 8, t * 2 + (i & 1) + (i < 4 ? 0 : 8)};
}

static inline At
b_of(const MmaInfo *m, uint32_t g, uint32_t t, uint32_t i)
{
	if (is_simdgroup(m))
		return simdgroup_of(4 * g + t, i);
	if (m->a == TY_F32 || m->a == TY_F64)
		return (At){t + i * 4, g};
	if (m->m == 8)
		return (At){t * 4 + (i & 3), g};
	if (m->k == 32)
		return (At){t * 4 + (i & 3) + (i < 4 ? 0 : 16), g};
	if (m->k == 8)
		return (At){t * 2 + (i & 1), g};
	return (At){t * 2 + (i & 1) + (i < 2 ? 0 : 8), g};
}

static inline At
c_of(const MmaInfo *m, uint32_t g, uint32_t t, uint32_t i)
{
	if (is_simdgroup(m))
		return simdgroup_of(4 * g + t, i);
	return (At){i < 2 ? g : g + 8, t * 2 + (i & 1)};
}

#endif
