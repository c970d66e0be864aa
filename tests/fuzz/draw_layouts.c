/* Functions of the layout passes, wrapped by the linker (--wrap): what coalesce prefers for an access, and some of what
 * assign has chosen, gives way to a layout that is drawn.  Where the linker cannot do that, on macOS, layouts stay those that
 * are chosen. */
#include "tests/fuzz/draw_layouts.h"

#include "pass/layout/assign.h"
#include "pass/pass.h"

static struct {
	uint64_t seed, state;
	bool coalesces;                                 /* the pass runs */
} drawing;

void
draw_layouts(uint64_t seed)
{
	drawing.seed = drawing.state = seed;
}

#ifndef __APPLE__
static int
random_below(uint64_t *seed, int n)
{
	*seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (int)((*seed >> 33) % (uint64_t)n);
}

/* The bits of the shape in any order, with bits that repeat among those of lanes and warps where there are too many; now
 * and then one bit's image is added to another's. */
static Layout
layout_drawn(int rank, const int shape[LAYOUT_RANK], int lanes, int warps, uint64_t *seed)
{
	Layout l = {.rank = rank};
	for (int d = 0; d < rank; d++)
		l.out[d] = shape[d];
	int total = layout_out_bits(&l), registers = MAX(total - lanes - warps, 0), n = registers + lanes + warps;
	l.in[IN_REGISTER] = registers;
	l.in[IN_LANE] = lanes;
	l.in[IN_WARP] = warps;
	l.map = f2_zero(n, total);
	for (int i = 0; i < n; i++) {
		int j = random_below(seed, i + 1);
		l.map.col[i] = l.map.col[j];
		l.map.col[j] = i < total ? UINT64_C(1) << i : 0;
	}
	if (n > 1 && random_below(seed, 4) == 0) {
		int i = random_below(seed, n), j = random_below(seed, n);
		if (i != j && l.map.col[i] && l.map.col[j])
			l.map.col[i] ^= l.map.col[j];
	}
	return l;
}

void __real_pass_coalesce(Func *f, const Target *t);
void __wrap_pass_coalesce(Func *f, const Target *t);
Layout __real_layout_coalesced(int rank, const int shape[LAYOUT_RANK], const int order[LAYOUT_RANK], int vector, int lanes,
    int warps);
Layout __wrap_layout_coalesced(int rank, const int shape[LAYOUT_RANK], const int order[LAYOUT_RANK], int vector, int lanes,
    int warps);
void __real_assign_write(Assign *a);
void __wrap_assign_write(Assign *a);

void
__wrap_pass_coalesce(Func *f, const Target *t)
{
	drawing.state = drawing.seed;
	drawing.coalesces = true;
	__real_pass_coalesce(f, t);
	drawing.coalesces = false;
}

Layout
__wrap_layout_coalesced(int rank, const int shape[LAYOUT_RANK], const int order[LAYOUT_RANK], int vector, int lanes,
    int warps)
{
	return drawing.seed && drawing.coalesces ? layout_drawn(rank, shape, lanes, warps, &drawing.state)
	                                         : __real_layout_coalesced(rank, shape, order, vector, lanes, warps);
}

void
__wrap_assign_write(Assign *a)
{
	enum { ONE_IN = 3 };
	for (int i = 0; drawing.seed && i < a->vars.n; i++) {
		const Var *x = &a->vars.at[i];
		if (!x->op || !x->layout || x->hard || (drawing.state >> 7) % ONE_IN != 0) {
			drawing.state = drawing.state * 0x5851f42d4c957f2d + 1;
			continue;
		}
		Layout l = layout_drawn(x->layout->rank, x->layout->out, a->lanes, a->warps, &drawing.state);
		assign_flood(a, i, layout_intern(a->m, &l), (int)(drawing.state >> 40) & (FLOOD_BACK | FLOOD_FORWARD));
	}
	__real_assign_write(a);
}
#endif
