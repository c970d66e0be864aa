/* Gathers that turn a line: each element takes the one that is a known number of places further along the axis, or the one
 * whose index differs by known bits.
 *
 *     roll(x, 1)          index = iota - 1 below 0 ? iota + (n - 1) : iota - 1      the places are counted round
 *     shift(x, 1)         index = iota - 1                                          outside are zeros
 *     (iota + 1) % n, iota ^ 8
 *
 * Where registers and lanes hold the axis and no warps, no shared memory is needed.  Its coordinate is
 *
 *     high bits: registers | a run of lane bits | low bits: registers
 *
 * A register's low bits are known, and so is the carry out of them; where the lane part moves by 0 or by all lanes, the
 * element is in another register of the same thread, else a shuffle brings it.  What carries out of the lanes' bits, the
 * sender knows from its own number: it sends a register of the next high bits. */
#include "model/turn.h"

/* index = iota + by, or iota ^ by: false, if it is no such sum. */
static bool
counts_from(const Value *v, int axis, int64_t *by)
{
	const Op *op = v->def;
	int64_t n;
	if (op && op->kind == OP_IOTA && attr_axis(op) == axis) {
		*by = 0;
		return true;
	}
	if (!op || (op->kind != OP_ADD && op->kind != OP_SUB) || !value_int(op->in[1], &n) ||
	    !counts_from(op->in[0], axis, by))
		return false;
	*by += op->kind == OP_ADD ? n : -n;
	return true;
}

/* select(iota + a < 0, iota + a + n, iota + a), where a turns back by less than n. */
static bool
wraps_below(const Op *op, int axis, int64_t n, int64_t *by)
{
	const Op *below = op->in[0]->def;
	int64_t a, up;
	return below && below->kind == OP_LT && value_is_zero(below->in[1]) && counts_from(below->in[0], axis, &a) &&
	    counts_from(op->in[2], axis, by) && *by == a && counts_from(op->in[1], axis, &up) && up == a + n && a <= 0 &&
	    a > -n;
}

bool
gather_turns(const Op *op, Turn *t)
{
	enum { BY_MOST = 1 << 24 };
	const Value *index = op->in[1];
	const Type *x = op->in[0]->type, *i = index->type;
	const Op *d = index->def;
	int axis = (int)attr_axis(op);
	int64_t n = x->extent[axis], m;
	*t = (Turn){.axis = axis};
	if (!d || x->rank != i->rank || ANY_OF(k, x->rank, x->extent[k] != i->extent[k]))
		return false;
	if (counts_from(index, axis, &t->by))
		return t->by > -n && t->by < n;
	t->wraps = true;
	if (d->kind == OP_SELECT)
		return wraps_below(d, axis, n, &t->by);
	if ((d->kind != OP_REM && d->kind != OP_AND && d->kind != OP_XOR) || !value_int(d->in[1], &m) ||
	    !counts_from(d->in[0], axis, &t->by) || t->by > BY_MOST || t->by < -BY_MOST)
		return false;
	t->flips = d->kind == OP_XOR ? m : 0;
	return d->kind == OP_REM ? m == n && t->by >= 0 : d->kind == OP_AND ? m == n - 1 : t->by == 0 && m >= 0 && m < n;
}

/* The input bit that alone moves along the axis by bit `at` of the result; -1: there is none, or others move so, too. */
static int
owner_of(const Layout *l, int at, uint64_t along)
{
	int owner = -1;
	for (int i = 0; i < l->map.nin; i++) {
		if (!(l->map.col[i] >> at & 1))
			continue;
		if (owner >= 0 || l->map.col[i] != UINT64_C(1) << at || !(along >> at & 1))
			return -1;
		owner = i;
	}
	return owner;
}

bool
plan_turn(const Op *op, Turn *t)
{
	const Layout *l = op->out[0].layout;
	if (!gather_turns(op, t) || !l || INT64_C(1) << l->out[t->axis] != op->in[0]->type->extent[t->axis])
		return false;
	int at = layout_out_at(l, t->axis), n = l->out[t->axis], regs = l->in[IN_REGISTER];
	uint64_t along = ((UINT64_C(1) << n) - 1) << at;
	for (int b = 0; b < n; b++) {
		int owner = t->owner[b] = owner_of(l, at + b, along);
		if (owner < 0 || owner >= regs + l->in[IN_LANE])
			return false;
		if (owner < regs)
			continue;
		if (t->lanes == 0) {
			t->low = b;
			t->first = owner - regs;
		} else if (owner - regs != t->first + t->lanes || b != t->low + t->lanes) {
			return false;
		}
		t->lanes++;
	}
	t->low = t->lanes ? t->low : n;
	for (int r = 0; r < 1 << regs; r++) {
		TurnFrom from = turn_from(l, t, r);
		t->shuffles += from.lanes > 0;
	}
	return true;
}

/* Register r with the bits of the axis that registers hold as in `at`. */
static int
register_at(const Layout *l, const Turn *t, int r, uint64_t at)
{
	for (int b = 0; b < l->out[t->axis]; b++)
		if (t->owner[b] < l->in[IN_REGISTER])
			r = (r & ~(1 << t->owner[b])) | (int)(at >> b & 1) << t->owner[b];
	return r;
}

TurnFrom
turn_from(const Layout *l, const Turn *t, int r)
{
	uint64_t all = (UINT64_C(1) << l->out[t->axis]) - 1, own = 0, lanes = (UINT64_C(1) << t->lanes) - 1;
	for (int b = 0; b < l->out[t->axis]; b++)
		if (t->owner[b] < l->in[IN_REGISTER])
			own |= (uint64_t)(r >> t->owner[b] & 1) << b;
	if (t->flips) {
		int other = register_at(l, t, r, own ^ (uint64_t)t->flips);
		return (TurnFrom){.near = other, .far = other, .lanes = (int)((uint64_t)t->flips >> t->low & lanes)};
	}
	uint64_t at = own + ((uint64_t)t->by & all);            /* of lane 0 */
	uint64_t moved = at >> t->low & lanes, next = at + (UINT64_C(1) << (t->low + t->lanes));
	int near = register_at(l, t, r, at & all);
	return (TurnFrom){.near = near, .far = register_at(l, t, r, next & all), .lanes = (int)moved};
}
