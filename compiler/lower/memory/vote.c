/* Bounds of gathered rows, of which the lanes of a warp test one each.
 *
 * Where threads of a role copy rows (copy {kind = "counted"}), neighbouring lanes copy parts of a row, and each copies of
 * several rows: all would test the same indices.  So a lane tests one of its rows, a vote tells the others:
 *
 *     before the loop    own = lane & 1 ? (lane & 2 ? row 3 : row 1) : (lane & 2 ? row 2 : row 0)
 *     each trip          rows = ballot(own + moved < extent) >> (lane & ~3)
 *     row 2              inside = rows & 1 << 2
 *
 * An index that each trip moves alike takes an addition and a comparison (LowerAccess.still, moved); one that no trip
 * changes is tested before the loop: of a row that it leaves out the own index is far outside. */
#include "lower/lower.h"

static bool
moves(const LowerAccess *a, int d)
{
	return a->is_kept && a->dim[d].letter == 'g' && a->dim[d].still && a->dim[d].hi;
}

/* Of register r, by the indices that no trip moves; 0: it is inside. */
static Reg
mask_others(Lower *l, const LowerAccess *a, int r)
{
	Reg mask = 0;
	for (int d = 0; d < a->nd; d++)
		if (a->dim[d].letter == 'g' && !moves(a, d))
			mask = lower_both(l, mask, lower_index_mask(l, a, d, r));
	return mask;
}

static Reg
still_of(Lower *l, const LowerAccess *a, int d, int r, bool is_first)
{
	Reg others = is_first ? mask_others(l, a, r) : 0, at = a->dim[d].still[r];
	return others ? lower_op3(l, THREAD_SELECT, others, at, lower_i64(l, INT64_MIN)) : at;
}

static Reg
is_inside(Lower *l, const LowerAccess *a, int d, Reg still)
{
	thread_prim(l->b, PRIM_KEEP, &still, 1, NULL, 0, &still, 1);
	return lower_op2(l, THREAD_ULT, lower_op2(l, THREAD_ADD, still, a->dim[d].moved), a->dim[d].hi);
}

/* The vote's bit of register r's row, counted from the lane's first. */
static int
bit_of(const LowerAccess *a, int r)
{
	int bit = 0;
	for (int i = 0; i < a->nvote; i++)
		bit |= (r >> a->vote_register[i] & 1) << a->vote_lane[i];
	return bit;
}

Reg
lower_gathered_mask(Lower *l, const LowerAccess *a, int r)
{
	Reg mask = 0;
	bool is_first = true;
	if (a->voted) {
		Reg bit = lower_op2(l, THREAD_AND, a->voted, lower_i32(l, (int32_t)(UINT32_C(1) << bit_of(a, r))));
		return lower_op2(l, THREAD_NE, bit, lower_i32(l, 0));
	}
	for (int d = 0; d < a->nd; d++) {
		if (!moves(a, d))
			continue;
		mask = lower_both(l, mask, is_inside(l, a, d, still_of(l, a, d, r, is_first)));
		is_first = false;
	}
	return is_first ? mask_others(l, a, r) : mask;
}

/* Do tiles of indices differ along input bit `column` of the layout? */
static bool
changes_row(const LowerAccess *a, int column)
{
	for (int d = 0; d < a->nd; d++) {
		int rank = a->dim[d].letter == 'g' ? a->dim[d].index->type->rank : 0;
		for (int k = a->dim[d].at; k < a->dim[d].at + rank; k++) {
			uint64_t along = (UINT64_C(1) << a->layout->out[k]) - 1;
			if (a->layout->map.col[column] >> layout_out_at(a->layout, k) & along)
				return true;
		}
	}
	return false;
}

/* Registers' bits that change the row, and as many of the lane's that do not; false: there are fewer. */
static bool
find_bits(LowerAccess *a)
{
	int lanes = layout_in_at(a->layout, IN_LANE), n = 0;
	for (int i = 0; i < a->layout->in[IN_REGISTER]; i++) {
		if (!changes_row(a, i))
			continue;
		if (a->nvote == VOTES_MOST || 1 << i < a->vector)
			return false;
		a->vote_register[a->nvote++] = i;
	}
	for (int i = 0; i < a->layout->in[IN_LANE] && n < a->nvote; i++)
		if (!changes_row(a, lanes + i))
			a->vote_lane[n++] = i;
	return n > 0 && n == a->nvote;
}

/* Of the rows the one that the lane tests. */
static Reg
own_still(Lower *l, const LowerAccess *a, int d, bool is_first)
{
	Reg v[1 << VOTES_MOST];
	for (int s = 0; s < 1 << a->nvote; s++) {
		int r = 0;
		for (int i = 0; i < a->nvote; i++)
			r |= (s >> i & 1) << a->vote_register[i];
		v[s] = still_of(l, a, d, r, is_first);
	}
	for (int i = 0; i < a->nvote; i++) {
		Reg bit = lower_op2(l, THREAD_AND, l->lane, lower_i32(l, 1 << a->vote_lane[i]));
		Reg upper = lower_op2(l, THREAD_NE, bit, lower_i32(l, 0));
		for (int s = 0; s < 1 << (a->nvote - i - 1); s++)
			v[s] = lower_op3(l, THREAD_SELECT, upper, v[2 * s + 1], v[2 * s]);
	}
	return v[0];
}

void
lower_vote(Lower *l, LowerAccess *a)
{
	Reg mask = 0;
	int lanes = SUM_OF(int, d, a->nd, moves(a, d));
	if (!lanes || !find_bits(a))
		return;
	for (int d = 0; d < a->nd; d++)
		if (moves(a, d))
			mask = lower_both(l, mask, is_inside(l, a, d, own_still(l, a, d, !mask)));
	lanes = l->t->lanes - 1;
	for (int i = 0; i < a->nvote; i++)
		lanes &= ~(1 << a->vote_lane[i]);
	Reg all;
	thread_prim(l->b, PRIM_VOTE_BALLOT, &mask, 1, NULL, 0, &all, 1);
	a->voted = lower_op2(l, THREAD_LSHR, all, lower_op2(l, THREAD_AND, l->lane, lower_i32(l, lanes)));
}
