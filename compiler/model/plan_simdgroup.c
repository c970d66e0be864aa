/* Products of simdgroups whose operands stand in slots as matrices of 8 x 8: which sides are read there, and whether the
 * steps along K can be a loop.
 *
 * A get that feeds one product, with nothing between the two but other gets, loads nothing: the product loads a fragment
 * where it needs it.  Steps are a loop where each moves all that a side reads by the same bytes, which nothing else
 * moves. */
#include "model/model.h"

enum { LEAST_TILES = 2 };                               /* log2: with fewer an instruction waits for the one before it */

const Op *
simdgroup_reader(const Op *get, const Target *t)
{
	F2 to;
	int stride;
	bool transposed;
	MmaPlan p;
	const Op *dot = FIND_NEXT(o, get->next, o->next, o->kind != OP_GET);
	if (!(t->has & HAS_SIMDGROUP_MATRIX) || !dot || dot->kind != OP_DOT || get->out[0].nuses != 1 ||
	    (dot->in[0] != &get->out[0] && dot->in[1] != &get->out[0]) || !plan_mma(dot, &p))
		return NULL;
	Layout shared = slot_layout(get->in[0]);
	return layout_fits_8x8(get->out[0].layout, &shared, &to, &stride, &transposed) ? dot : NULL;
}

/* Bytes from one step's fragments to the next one's; 0: it is no such number. */
static int64_t
step_bytes(const MmaPlan *p, const MmaSide *s, const F2 *to, int registers, int bytes)
{
	uint64_t each = 0, steps = 0, others = 0;
	for (int i = 0; i < p->steps; i++) {
		uint64_t at = f2_apply(to, s->step[i] << s->fragment);
		each = i == 0 ? at : each;
		if (at != each << i)
			return 0;
		steps |= at;
	}
	for (int i = 0; i < p->tiles; i++)
		others |= f2_apply(to, s->tile[i] << s->fragment);
	for (int i = registers; i < to->nin; i++)
		others |= to->col[i];
	return each & (each - 1) || steps & others ? 0 : (int64_t)each * bytes;
}

/* Is there a barrier between the first get and the product?  Then other threads may fill the slots while this one reads. */
static bool
waits_since(const Op *dot)
{
	const Op *op = dot;
	for (; op->prev && op->prev->kind == OP_GET; op = op->prev)
		if (attr_sync(op))
			return true;
	return false;
}

bool
plan_simdgroup(const Op *dot, const Target *t, const MmaPlan *p, SimdgroupPlan *out)
{
	*out = (SimdgroupPlan){.loops = p->steps > 0 && p->tiles >= LEAST_TILES, .waits = waits_since(dot)};
	bool any = false;
	for (int i = 0; i < 2; i++) {
		const Op *get = dot->in[i]->def;
		SimdgroupSide *s = &out->side[i];
		bool reads = get && get->kind == OP_GET && simdgroup_reader(get, t) == dot;
		any = any || reads;
		out->loops = out->loops && reads;
		if (!reads)
			continue;
		s->slot = get->in[0];
		s->shared = slot_layout(s->slot);
		layout_fits_8x8(dot->in[i]->layout, &s->shared, &s->to, &s->stride, &s->transposed);
		s->step = step_bytes(p, &p->side[i], &s->to, dot->in[i]->layout->in[IN_REGISTER],
		    element_bytes(dot->in[i]->type));
		out->loops = out->loops && s->step > 0;
	}
	return any;
}
