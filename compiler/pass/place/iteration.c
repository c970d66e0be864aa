/* What the end of an iteration and of a loop does to the effects since the last barrier.
 *
 *     for … do (%now: i64) {                     %now counts 0, 1, 2, 0, …: a slot of an earlier iteration is another one,
 *         get (slot %now of %ring)               until as many iterations have passed as the ring has slots
 *         yield (%now + 1, wrapped)
 *     } */
#include "pass/async/ring.h"
#include "pass/layout/axis.h"
#include "pass/place/hazard.h"

void
advance_iteration(Effects *open, const Block *loop)
{
	for (int i = 0; i < open->n; i++) {
		Effect *e = &open->at[i];
		if (!op_inside(e->op, loop)) {
			e->is_past = true;
			continue;
		}
		if (e->slot && e->slot->block == loop)
			e->distance++;
		if (!e->global)
			continue;
		e->is_carried = true;
		e->loop = loop;
	}
	effects_drop_duplicates(open);
}

bool
has_distant_slot(const Effects *open)
{
	return ANY_OF(i, open->n, open->at[i].ring && open->at[i].distance >= 2);
}

/* A power of two that divides the trip count, log2. */
static int
trip_count_div(const Op *loop)
{
	if (loop->kind != OP_FOR)
		return 0;
	const AxisInfo *lo = axis_of(loop->in[0]), *hi = axis_of(loop->in[1]), *step = axis_of(loop->in[2]);
	int by = axis_is_known(step) && step->lo > 0 ? log2_floor(step->lo) : 0;
	if (step->lo != INT64_C(1) << by)
		return 0;
	return MIN(MAX(MIN(lo->div[0], hi->div[0]) - by, 0), 30);
}

static bool
is_only_distance(const Effects *open, const Effect *e)
{
	return !ANY_OF(i, open->n,
	    open->at[i].op == e->op && open->at[i].lo == e->lo &&
		open->at[i].distance != e->distance);
}

/* Which slot is the last iteration's is known as far as the trip count is: as many slots from the first one's as there
 * were iterations. */
void
close_rings(Effects *open, const Op *loop)
{
	const Block *body = loop->region[loop->nregion - 1];
	int64_t trips = INT64_C(1) << trip_count_div(loop), first;

	for (int i = 0; i < open->n; i++) {
		Effect *e = &open->at[i];
		if (!e->slot || e->slot->block != body || !e->ring)
			continue;
		int64_t n = e->ring->type->slots;
		bool counts = n <= 64 && ring_counts(e->slot, n) && value_int(loop->in[2 + e->slot->index], &first);
		while (n % trips)
			trips /= 2;
		for (int64_t s = 0; s < n && counts && trips > 1 && is_only_distance(open, e); s++)
			if ((s - first + e->distance) % trips == 0)
				e->slots |= UINT64_C(1) << s;
		e->ring = NULL;
	}
	effects_drop_duplicates(open);
}
