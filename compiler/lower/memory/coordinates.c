/* Which elements a thread holds, as registers.
 *
 * The part of a coordinate (or of an offset in shared memory) that depends on the thread is a linear map of the bits of
 * its number, lane bits below warp bits.  Neighbouring bits whose images are one bit apart move together, so that the
 * common layouts cost a shift or two:
 *
 *     lanes 1 2 4 8 16, warps 32 64  times 4        thread << 2
 *     lanes 1 2 4 of dim 1, 1 2 of dim 0            dim 1: thread & 7      dim 0: thread >> 3 & 3 */
#include "lower/lower.h"

/* The images' longest run from bit i on of v, v << 1, v << 2 …; a bit with image 0 ends it. */
static int
run_length(const uint64_t *image, int i, int n)
{
	int k = 1;
	while (i + k < n && image[i + k] == image[i] << k)
		k++;
	return k;
}

/* `x`, bits below `log2` of it set at most, times the single bits of v, added without carry. */
static Reg
spread(Lower *l, Reg x, uint64_t v, Reg sum, bool overlaps)
{
	for (int b = 0; b < 32; b++) {
		if (!(v >> b & 1))
			continue;
		Reg part = b ? lower_op2(l, THREAD_SHL, x, lower_i32(l, b)) : x;
		sum = sum ? lower_op2(l, overlaps ? THREAD_XOR : THREAD_OR, sum, part) : part;
	}
	return sum;
}

Reg
lower_thread_map(Lower *l, const uint64_t *image, int n)
{
	Reg sum = 0;
	uint64_t seen = 0;
	for (int i = 0; i < n;) {
		if (image[i] == 0) {
			i++;
			continue;
		}
		int k = run_length(image, i, n);
		uint64_t covers = 0;
		for (int j = i; j < i + k; j++)
			covers |= image[j];
		bool overlaps = (covers & seen) || (image[i] & (image[i] - 1));
		Reg x = i ? lower_op2(l, THREAD_LSHR, l->thread, lower_i32(l, i)) : l->thread;
		if (i + k < n)
			x = lower_op2(l, THREAD_AND, x, lower_i32(l, (1 << k) - 1));
		sum = spread(l, x, image[i], sum, overlaps);
		seen |= covers;
		i += k;
	}
	return sum ? sum : lower_i32(l, 0);
}

/* Images of lane and warp bits in one dimension. */
static int
thread_images(const Layout *layout, int dim, uint64_t *image)
{
	int from = layout->in[IN_REGISTER], n = layout->in[IN_LANE] + layout->in[IN_WARP];
	int at = layout_out_at(layout, dim);
	uint64_t mask = (UINT64_C(1) << layout->out[dim]) - 1;
	for (int i = 0; i < n; i++)
		image[i] = layout->map.col[from + i] >> at & mask;
	return n;
}

/* A hint for text. */
static void
named(Lower *l, const Layout *layout, int dim, Reg r)
{
	int from_last = layout->rank - 1 - dim;
	thread_name(l->b, r, layout->rank == 1 ? "i" : from_last == 0 ? "col" : from_last == 1 ? "row" : "plane");
}

Reg
lower_thread_coordinate(Lower *l, const Layout *layout, int dim)
{
	return lower_coordinate_map(l, layout, dim).thread;
}

LowerMap
lower_map(Lower *l, const uint64_t *image, int n)
{
	LowerMap m = {.thread = lower_thread_map(l, image, n)};
	for (int i = 0; i < n; i++)
		m.moves |= image[i];
	return m;
}

Reg
lower_map_at(Lower *l, const LowerMap *m, uint64_t at, int64_t *constant)
{
	*constant = (int64_t)(at & ~m->moves);
	return at & m->moves ? lower_op2(l, THREAD_XOR, m->thread, lower_i32(l, (int64_t)(at & m->moves))) : m->thread;
}

LowerMap
lower_coordinate_map(Lower *l, const Layout *layout, int dim)
{
	uint64_t image[F2_MAX] = {0};
	LowerMap m = lower_map(l, image, thread_images(layout, dim, image));
	named(l, layout, dim, m.thread);
	return m;
}

Reg
lower_coordinate(Lower *l, const Layout *layout, int r, int dim, int64_t *constant)
{
	LowerMap m = lower_coordinate_map(l, layout, dim);
	return lower_map_at(l, &m, lower_register_coordinate(layout, r, dim), constant);
}

uint32_t
lower_register_coordinate(const Layout *layout, int r, int dim)
{
	uint64_t at = f2_apply(&layout->map, (uint64_t)r);
	return (uint32_t)(at >> layout_out_at(layout, dim) & ((UINT64_C(1) << layout->out[dim]) - 1));
}

Reg
lower_is_first_holder(Lower *l, const Layout *layout)
{
	if (!layout)
		return lower_op2(l, THREAD_EQ, l->thread, lower_i32(l, 0));
	uint64_t free = layout_free_bits(layout, IN_LANE) |
	    layout_free_bits(layout, IN_WARP) << layout->in[IN_LANE];
	if (!free)
		return 0;
	Reg bits = lower_op2(l, THREAD_AND, l->thread, lower_i32(l, (int64_t)free));
	return lower_op2(l, THREAD_EQ, bits, lower_i32(l, 0));
}

LowerShared
lower_shared(Lower *l, const Layout *layout, const Layout *shared, int bytes)
{
	F2 inverse;
	uint64_t image[F2_MAX] = {0};
	int from = layout->in[IN_REGISTER], n = layout->in[IN_LANE] + layout->in[IN_WARP];
	if (!f2_invert(&shared->map, &inverse))
		die("a layout of shared memory that is not one to one");
	LowerShared s = {.to = f2_compose(&inverse, &layout->map), .bytes = bytes};
	for (int i = 0; i < n; i++)
		image[i] = s.to.col[from + i] * (uint64_t)bytes;
	s.map = lower_map(l, image, n);
	return s;
}

Reg
lower_shared_offset(Lower *l, const LowerShared *s, int r, int64_t *constant)
{
	return lower_map_at(l, &s->map, f2_apply(&s->to, (uint64_t)r) * (uint64_t)s->bytes, constant);
}
