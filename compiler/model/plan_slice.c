/* Parts of tiles that begin where the compiler knows, at a multiple of their own extents: rows, elements, halves.
 *
 * The elements of such a part share some bits of their coordinates.  In `c[1023, :]` of i32[1024, 16] the ten bits of the
 * row are 1.  A layout is a linear map, so each shared bit is an equation over the bits of register, lane and warp.  Gauss
 * solves each for one of its bits, a warp's if it has one, else a lane's, else a register's:
 *
 *     solved for registers only      each thread has its elements: registers are renamed
 *     and for lanes                  the lane that has it sends each element: one shuffle for each register
 *     and for warps                  the threads that have the part write it to scratch, and no other element
 *
 * In the first two cases what was picked out stands in a layout of its own, in which the lane bits that were solved for
 * repeat; from there it is converted like any tile.  Other parts go through scratch with the whole tile. */
#include "model/model.h"

enum { SHUFFLES_MAX = 16 };

/* Where the part begins, and which bits of coordinates that leaves; false: it is not known, or no multiple. */
static bool
find_fixed(const Op *op, SlicePlan *s)
{
	const IntList *extents = attr_extents(op);
	const char *index = attr_index(op);
	const Type *t = op->in[0]->type;
	for (int d = 0, e = 0; d < t->rank; d++) {
		int64_t n = index[d] == 'p' ? extents->at[e++] : 1, start = 0;
		int at = layout_out_at(s->from, d);
		if ((n & (n - 1)) || (n < t->extent[d] && !value_constant(op->in[1 + d], &start)))
			return false;
		start = n < t->extent[d] ? MAX(MIN(start, t->extent[d] - n), 0) : 0;
		if (start % n)
			return false;
		s->at |= (uint64_t)start << at;
		s->fixed |= (uint64_t)(t->extent[d] - n) << at;
	}
	return true;
}

uint64_t
slice_coordinates(const SlicePlan *s, uint64_t at)
{
	uint64_t r = 0;
	for (int b = 0, to = 0; b < s->from->map.nout; b++)
		if (!(s->fixed >> b & 1))
			r |= (at >> b & 1) << to++;
	return r;
}

/* Solves the equations that are left, rows [s->n, n), for inputs [lo, hi). */
static void
solve(SlicePlan *s, Solved *row, int n, int lo, int hi)
{
	for (int bit = lo; bit < hi; bit++) {
		int r = s->n;
		while (r < n && !(row[r].of >> bit & 1))
			r++;
		if (r == n)
			continue;
		Solved pivot = row[r];
		row[r] = row[s->n];
		pivot.bit = bit;
		row[s->n++] = pivot;
		for (int i = 0; i < n; i++)
			if (i != s->n - 1 && row[i].of >> bit & 1) {
				row[i].of ^= pivot.of;
				row[i].value ^= pivot.value;
			}
	}
}

static void
solve_all(SlicePlan *s)
{
	const F2 *map = &s->from->map;
	int n = 0, lanes = layout_in_at(s->from, IN_LANE), warps = layout_in_at(s->from, IN_WARP);
	for (int b = 0; b < map->nout; b++) {
		if (!(s->fixed >> b & 1))
			continue;
		s->solved[n] = (Solved){.value = s->at >> b & 1};
		for (int i = 0; i < map->nin; i++)
			s->solved[n].of |= (map->col[i] >> b & 1) << i;
		n++;
	}
	solve(s, s->solved, n, warps, map->nin);
	s->way = s->n > 0 ? SLICE_SHARED : SLICE_REGISTERS;
	int by_warps = s->n;
	solve(s, s->solved, n, lanes, warps);
	if (s->way == SLICE_REGISTERS && s->n > by_warps)
		s->way = SLICE_SHUFFLES;
	solve(s, s->solved, n, 0, lanes);
	for (int i = 0; i < s->n; i++)
		s->solved[i].of &= ~(UINT64_C(1) << s->solved[i].bit);
}

bool
slice_is_solved(const SlicePlan *s, int bit)
{
	return ANY_OF(i, s->n, s->solved[i].bit == bit);
}

/* What input bit `bit` moves, together with those that are solved for, in the operand's coordinates. */
static uint64_t
moves(const SlicePlan *s, int bit)
{
	uint64_t at = s->from->map.col[bit];
	for (int i = 0; i < s->n; i++)
		if (s->solved[i].of >> bit & 1)
			at ^= s->from->map.col[s->solved[i].bit];
	return at;
}

/* The layout of what is picked out; false: it would begin elsewhere than at its first element. */
static bool
find_made(SlicePlan *s, const Type *to)
{
	Layout *m = &s->made;
	uint64_t begin = 0;
	int regs = s->from->in[IN_REGISTER];
	*m = *s->from;
	m->rank = to->rank;
	m->in[IN_REGISTER] = m->map.nin = 0;
	m->map.nout = layout_shape(to->rank, to->extent, m->out);
	for (int bit = 0; bit < s->from->map.nin; bit++) {
		if (bit < regs && slice_is_solved(s, bit))
			continue;
		if (bit < regs)
			s->reg[m->in[IN_REGISTER]++] = bit;
		m->map.col[m->map.nin++] = slice_is_solved(s, bit) ? 0 : slice_coordinates(s, moves(s, bit));
	}
	for (int i = 0; i < s->n; i++)
		begin ^= s->solved[i].value ? s->from->map.col[s->solved[i].bit] : 0;
	return slice_coordinates(s, begin) == 0;
}

void
plan_slice(const Op *op, SlicePlan *s)
{
	const Value *v = &op->out[0];
	*s = (SlicePlan){.from = op->in[0]->layout};
	if (!s->from || s->from->in[IN_BLOCK] || layout_out_bits(s->from) > 30 || !find_fixed(op, s)) {
		s->way = SLICE_WHOLE;
		s->scratch = tile_bytes(op->in[0]->type);
		return;
	}
	solve_all(s);
	if (s->way != SLICE_SHARED && !find_made(s, v->type))
		s->way = SLICE_SHARED;
	if (s->way == SLICE_SHUFFLES && 1 << s->made.in[IN_REGISTER] > SHUFFLES_MAX)
		s->way = SLICE_SHARED;
	s->shuffles = s->way == SLICE_SHUFFLES ? 1 << s->made.in[IN_REGISTER] : 0;
	if (s->way == SLICE_SHARED)
		s->scratch = tile_bytes(v->type);
	else if (v->layout)
		s->scratch = convert_scratch(&s->made, v->layout, element_bytes(v->type));
}
