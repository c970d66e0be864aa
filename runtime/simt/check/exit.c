/* A block's end, with which its shared memory is gone: bulk copies and matrix instructions that use it must have been
 * waited for, and what other blocks of the cluster do there must happen before the end of some thread of the block. */
#include "runtime/simt/check/record.h"

#include <string.h>

static void
look(const Check *c, SimtThread *t, const HappensBefore *end, const Record *r)
{
	int thread = record_thread(c, r), rank = thread / c->per_block;
	if (r->agent == c->agents ? !(r->access & SIMT_TENSOR) :
				    rank == t->cluster_rank || record_covered(end->vector, r, -1))
		return;
	t->site = r->site;
	if (r->access & SIMT_TENSOR)
		simt_fail(t, "the block may end before %s in its shared memory is over: nothing waits for it",
		    access_noun(r->access));
	simt_fail(t, "block %d of the cluster may end before %s of its shared memory by block %d: the cluster's barrier "
	    "orders them", t->cluster_rank, access_noun(r->access), rank);
}

void
simt_check_exit(SimtThread *t, SimtThread *const *who, int n)
{
	Check *c = *simt_check_slot(t->block);
	uint32_t latest = 0, first = (uint32_t)t->cluster_rank * c->step;
	if (!c->has_bulk && c->blocks == 1)
		return;
	HappensBefore end = clocks_join(c, who, n, &latest);
	const Cell *seen = NULL;
	for (uint32_t i = first; i < first + c->step; i++) {
		const Cell *cell = shared_cell(c, i);
		if (seen && memcmp(cell, seen, sizeof *cell) == 0)
			continue;
		seen = cell;
		if (record_at(c, cell->write))
			look(c, t, &end, record_at(c, cell->write));
		for (const Record *r = record_at(c, cell->touch); r; r = record_at(c, r->prev))
			look(c, t, &end, r);
	}
	hb_drop(c, &end);
}
