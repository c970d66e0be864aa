/* Wide writes: rows that no tensor map serves leave a parted kernel 16 bytes at a time.
 *
 *     lanes of a row        0: columns 0 1 8 9 16 17 24 25 ..    1: 2 3 10 11 ..    2: 4 5 ..    3: 6 7 ..
 *                       =>  0: columns 0 .. 7                    1: 8 .. 15         2: 16 .. 23  3: 24 .. 31
 *
 * The accumulator of a product of warpgroups has two neighbours in a thread, so that a row by a number from memory goes
 * out 4 bytes at a time.  The bits of the column that choose the lane change places with bits that choose the register,
 * which takes shuffles in each quad and no shared memory: a parted kernel's ring leaves none for a conversion. */
#include "pass/place/widen.h"

#include "model/model.h"
#include "pass/layout/anchor.h"
#include "pass/layout/axis.h"

enum { WIDEST = 4 };                                    /* log2 of an access's bytes */

/* The input whose bit alone moves along `bit` of the last dimension; -1: there is none. */
static int
column_of(const Layout *l, int from, int n, int bit)
{
	return FIRST_FROM(i, from, from + n, l->map.col[i] == UINT64_C(1) << bit);
}

static void
swap_columns(Layout *l, int i, int k)
{
	uint64_t was = l->map.col[i];

	l->map.col[i] = l->map.col[k];
	l->map.col[k] = was;
}

/* Bits of the last dimension below `want` become the first of the register; false where others hold them. */
static bool
take_row(Layout *l, int want)
{
	int lanes = layout_in_at(l, IN_LANE), high = want;

	for (int bit = 0; bit < want; bit++) {
		int lane = column_of(l, lanes, l->in[IN_LANE], bit);
		for (int r; lane >= 0; high++) {
			if (high == l->out[l->rank - 1])
				return false;
			r = column_of(l, 0, lanes, high);
			if (r < 0)
				continue;
			swap_columns(l, lane, r);
			lane = -1;
		}
		int at = column_of(l, 0, lanes, bit);
		if (at < 0)
			return false;
		for (; at > bit; at--)
			swap_columns(l, at, at - 1);
	}
	return true;
}

/* Are the other operands' layouts what they were? */
static bool
suits(const Op *write, int data, const Layout *l)
{
	for (int i = 0; i < write->nin; i++) {
		const Layout *own = value_is_placed(write->in[i]) && i != data ? anchor_operand(write, l, i) : NULL;
		if (own && (!write->in[i]->layout || !layout_equal(own, write->in[i]->layout)))
			return false;
	}
	return true;
}

static void
widen(Op *write, const Target *t)
{
	int data = access_data(write), bytes = dtype_info[write->in[data]->type->elem].bits / 8;
	Module *m = write->home->func->module;
	Value *v = write->in[data];
	Layout l;
	ConvertPlan c;

	if (!v->layout || (bytes != 2 && bytes != 4) || attr_vector(write) * bytes >= 1 << WIDEST)
		return;
	l = *v->layout;
	if (!take_row(&l, WIDEST - log2_ceil(bytes)))
		return;
	int vector = access_vector(write, &l, t);
	if (vector <= attr_vector(write))
		return;
	if (vector * bytes == 1 << WIDEST && widen_pieces(write->home->func, write, t, vector))
		return;
	if (!suits(write, data, &l))
		return;
	plan_convert(v->layout, &l, bytes, &c);
	if (c.scratch)
		return;
	Builder b = build_before(write);
	Value *wide = build1(&b, OP_CONVERT, v, NULL);
	wide->layout = layout_intern(m, &l);
	op_set_in(write, data, wide);
	attr_set_vector(m, write, vector);
}

void
pass_widen(Func *f, const Target *t)
{
	const Op *roles = func_find(f, OP_ROLES);
	const Block *body = roles ? roles->region[1] : NULL;

	if (!body)
		return;
	axis_keep(f);
	for (EACH_OP(op, body))
		if (op->kind == OP_WRITE)
			widen(op, t);
	sweep(f);
}
