/* The bitonic network over more elements than the block's shared memory holds: parts of them take turns in it.
 *
 * A part is what the registers hold whose numbers agree in some bits, which are those of the axis's highest bits (and,
 * where there are several lines, of lines).  Within a part the network runs as loops over scratch (order_loops.c), across
 * parts elements of the same thread are put in order in registers:
 *
 *     each part: runs of 2^c sorted in scratch, every other one falling             c: bits of the axis in a part
 *     for s = c + 1 .. n
 *         for j = s - 1 .. c         elements whose positions differ in bit j, in registers
 *         each part: j = c - 1 .. 0  in scratch, falling if bit s of the part's position is set
 *
 * Of the greatest k = 2^m up to a part's length, the lesser of each two parts stays, until one is left.
 *
 * The highest bits of the axis may be lanes or warps: they are exchanged with bits of registers before, and back after. */
#include "lower/across/across.h"

static void
swap_bits(Sort *s, const SortSwap *w)
{
	Lower *l = s->l;
	int count = 1 << s->layout.in[IN_REGISTER], bit = 1 << w->reg, n = 0;
	Reg (*give)[SORT_STATE] = arena_alloc(l->mem, sizeof *give * (size_t)count);
	Reg (*got)[SORT_STATE] = arena_alloc(l->mem, sizeof *got * (size_t)count);
	Reg is_set = lower_bit(l, w->in == IN_LANE ? l->lane : l->warp, w->bit);
	for (int r = 0; r < count; r++)
		if (!((uint64_t)r & s->repeats) && !(r & bit))
			sort_select(s, is_set, s->at[r], s->at[r | bit], give[n++]);
	sort_across(s, w->in, w->bit, give, n, got);
	n = 0;
	for (int r = 0; r < count; r++)
		if (!((uint64_t)r & s->repeats) && !(r & bit)) {
			sort_select(s, is_set, got[n], s->at[r], s->at[r]);
			sort_select(s, is_set, s->at[r | bit], got[n], s->at[r | bit]);
			n++;
		}
}

/* ---- parts ---- */

/* The offset in its part of an element of a layout: the axis's low bits, then the others that are of no part's number. */
static uint64_t
offset_in_part(const Sort *s, const SortParts *p, const Layout *l, uint64_t image)
{
	int axis = s->p.dim, at = p->low;
	uint64_t offset = image >> layout_out_at(l, axis) & ((UINT64_C(1) << MIN(p->low, l->out[axis])) - 1);
	for (int d = 0; d < l->rank; d++)
		for (int b = 0; b < l->out[d] && d != axis; b++) {
			bool is_number = ANY_OF(i, p->nline, p->line[i].dim == d && p->line[i].bit == b);
			if (!is_number)
				offset |= (image >> (layout_out_at(l, d) + b) & 1) << at++;
		}
	return offset;
}

static void
move_part(Sort *s, const SortParts *p, const Layout *layout, Reg base, int64_t count, uint64_t number, bool back)
{
	Lower *l = s->l;
	int from = layout->in[IN_REGISTER], n = layout->in[IN_LANE] + layout->in[IN_WARP];
	Reg mask = back ? 0 : lower_is_first_holder(l, layout);
	for (int r = 0; r < 1 << from; r++)
		for (int k = 0; k < s->p.n && ((uint64_t)r & (p->registers | s->repeats)) == number; k++) {
			uint64_t image[F2_MAX];
			ThreadAccess a = sort_access(s, k, base, count);
			int64_t constant;
			for (int i = 0; i < n; i++)
				image[i] = sort_offset(s, k, offset_in_part(s, p, layout, layout->map.col[from + i]));
			uint64_t own = sort_offset(s, k, offset_in_part(s, p, layout, f2_apply(&layout->map, (uint64_t)r)));
			LowerMap map = lower_map(l, image, n);
			a.mask = mask;
			Reg offset = lower_map_at(l, &map, own, &constant);
			sort_move(s, &a, offset, constant, &s->at[r][k], back);
		}
}

/* Each part in scratch: its runs sorted (`whole`) or merged; it falls where bit `by` of its position is set.  Then
 * registers hold the states of their coordinates in `result`. */
static void
run_parts(Sort *s, const SortParts *p, int by, bool whole, const Layout *result)
{
	Lower *l = s->l;
	int64_t count = INT64_C(1) << (layout_out_bits(&s->layout) - p->n);
	uint64_t numbers = p->registers & ~s->repeats, number = 0;
	do {
		Reg base = lower_scratch(l, s->p.op);
		bool falls = by < s->axis.n && (number >> s->axis.bit[by] & 1);
		move_part(s, p, &s->layout, base, count, number, false);
		sort_network(s, base, count, whole ? 1 : p->low, p->low, falls);
		lower_barrier(l);
		move_part(s, p, result, base, count, number, true);
		number = subset_next(number, numbers);
	} while (number);
}

static void
sort_all(Sort *s, const SortParts *p)
{
	run_parts(s, p, p->low, true, &s->layout);
	for (int run = p->low + 1; run <= s->axis.n; run++) {
		for (int j = run - 1; j >= p->low; j--)
			sort_exchange(s, j, run);
		run_parts(s, p, run, false, &s->layout);
	}
}

/* The least 2^kept, which are no more than a part's. */
static void
keep_best_part(Sort *s, const SortParts *p, const Layout *result)
{
	run_parts(s, p, p->low, true, p->low == s->axis.n ? result : &s->layout);
	for (int b = p->low; b < s->axis.n; b++) {
		sort_keep_lesser(s, b);
		run_parts(s, p, b + 1, false, b + 1 == s->axis.n ? result : &s->layout);
	}
}

void
sort_by_parts(Sort *s)
{
	const SortParts *p = &s->p.parts;
	int kept = s->p.kept;
	for (int i = 0; i < p->nswap; i++)
		swap_bits(s, &p->swap[i]);
	s->layout = s->p.layout;
	s->axis = s->p.axis;
	if (kept < s->axis.n && kept <= p->low) {
		keep_best_part(s, p, &s->p.result);
		return;
	}
	sort_all(s, p);
	for (int b = kept; b < s->axis.n; b++)
		s->repeats |= UINT64_C(1) << s->axis.bit[b];
	for (int i = p->nswap - 1; i >= 0 && kept == s->axis.n; i--)
		swap_bits(s, &p->swap[i]);
}
