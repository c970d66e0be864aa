/* Which elements a thread holds, as registers.
 *
 * The part of a coordinate (or of an offset in shared memory) that depends on the thread is a linear map of the bits of
 * its number, lane bits below warp bits.  Neighbouring bits whose images are one bit apart move together, so that the
 * common layouts cost a shift or two:
 *
 *     lanes 1 2 4 8 16, warps 32 64  times 4        thread << 2
 *     lanes 1 2 4 of dim 1, 1 2 of dim 0            dim 1: thread & 7      dim 0: thread >> 3 & 3
 *
 * What has been made is kept and found again by its images until the region ends. */
#include "lower/lower.h"

#include <string.h>

Reg
lower_kept(const Lower *l, const uint64_t *key, int n, Reg of)
{
	for (int i = 0; i < l->kept.n; i++) {
		const LowerKept *k = &l->kept.at[i];
		if (k->n == n && k->of == of && memcmp(k->key, key, sizeof *key * (size_t)n) == 0)
			return k->r;
	}
	return 0;
}

Reg
lower_keep(Lower *l, const uint64_t *key, int n, Reg of, Reg r)
{
	LowerKept k = {.n = n, .of = of, .r = r};
	memcpy(k.key, key, sizeof *key * (size_t)n);
	vec_push(l->mem, &l->kept, k);
	return r;
}

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
		Reg part = b ? lower_op2(l, EMIT_SHL, x, lower_i32(l, b)) : x;
		sum = sum ? lower_op2(l, overlaps ? EMIT_XOR : EMIT_OR, sum, part) : part;
	}
	return sum;
}

Reg
lower_thread_map(Lower *l, const uint64_t *image, int n)
{
	Reg found = lower_kept(l, image, n, l->thread), sum = 0;
	uint64_t seen = 0;
	if (found)
		return found;
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
		Reg x = i ? lower_op2(l, EMIT_LSHR, l->thread, lower_i32(l, i)) : l->thread;
		if (i + k < n)
			x = lower_op2(l, EMIT_AND, x, lower_i32(l, (1 << k) - 1));
		sum = spread(l, x, image[i], sum, overlaps);
		seen |= covers;
		i += k;
	}
	return lower_keep(l, image, n, l->thread, sum ? sum : lower_i32(l, 0));
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

/* A coordinate with a hint for text. */
static Reg
named(Lower *l, const Layout *layout, int dim, Reg r)
{
	int from_last = layout->rank - 1 - dim;
	thread_name(l->b, r, layout->rank == 1 ? "i" : from_last == 0 ? "col" : from_last == 1 ? "row" : "plane");
	return r;
}

Reg
lower_thread_coordinate(Lower *l, const Layout *layout, int dim)
{
	uint64_t image[F2_MAX];
	int n = thread_images(layout, dim, image);
	return named(l, layout, dim, lower_thread_map(l, image, n));
}

/* The map's image `at` of a register, the bits that threads do not move apart from those they do. */
Reg
lower_thread_offset(Lower *l, const uint64_t *image, int n, uint64_t at, int64_t *constant)
{
	uint64_t moves = 0;
	for (int i = 0; i < n; i++)
		moves |= image[i];
	uint64_t key[2] = {UINT64_MAX - 1, at & moves};
	Reg thread = lower_thread_map(l, image, n);
	*constant = (int64_t)(at & ~moves);
	if (!(at & moves))
		return thread;
	Reg found = lower_kept(l, key, 2, thread);
	return found ? found
		     : lower_keep(l, key, 2, thread, lower_op2(l, EMIT_XOR, thread, lower_i32(l, (int64_t)key[1])));
}

Reg
lower_coordinate(Lower *l, const Layout *layout, int r, int dim, int64_t *constant)
{
	uint64_t image[F2_MAX];
	int n = thread_images(layout, dim, image);
	named(l, layout, dim, lower_thread_map(l, image, n));
	return lower_thread_offset(l, image, n, lower_register_coordinate(layout, r, dim), constant);
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
		return lower_op2(l, EMIT_EQ, l->thread, lower_i32(l, 0));
	uint64_t free = layout_free_bits(layout, IN_LANE) |
	    layout_free_bits(layout, IN_WARP) << layout->in[IN_LANE];
	uint64_t key[2] = {UINT64_MAX, free};
	if (!free)
		return 0;
	Reg found = lower_kept(l, key, 2, l->thread);
	if (found)
		return found;
	Reg bits = lower_op2(l, EMIT_AND, l->thread, lower_i32(l, (int64_t)free));
	return lower_keep(l, key, 2, l->thread, lower_op2(l, EMIT_EQ, bits, lower_i32(l, 0)));
}

Reg
lower_shared_offset(Lower *l, const Layout *layout, const Layout *shared, int bytes, int r, int64_t *constant)
{
	F2 inverse, to;
	uint64_t image[F2_MAX];
	int from = layout->in[IN_REGISTER], n = layout->in[IN_LANE] + layout->in[IN_WARP];
	if (!f2_invert(&shared->map, &inverse))
		die("a placement in shared memory that is not one to one");
	to = f2_compose(&inverse, &layout->map);
	for (int i = 0; i < n; i++)
		image[i] = to.col[from + i] * (uint64_t)bytes;
	return lower_thread_offset(l, image, n, f2_apply(&to, (uint64_t)r) * (uint64_t)bytes, constant);
}
