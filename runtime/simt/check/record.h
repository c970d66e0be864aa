/* What the shadow of shared memory is made of: accesses, and of each byte which ones (shared.c). */
#ifndef TEGULA_SIMT_RECORD_H
#define TEGULA_SIMT_RECORD_H

#include "runtime/simt/check/check.h"

struct Record {
	uint32_t clock, prev, mask;                     /* mask: lanes; of what is in flight its thread plus 1; else 1 */
	uint32_t turn;                                  /* of a write: which turn of loops, to tell instructions apart */
	int32_t site;
	uint16_t agent;                                 /* threads: the warp's first; Check.agents: in flight */
	uint16_t access;
};

struct Cell {
	uint32_t write, touch;
};

enum { SHARED_WORD = 4 };

static inline const Cell *
shared_cell(const Check *c, uint32_t i)
{
	return &c->cell[c->split[i / SHARED_WORD] ? i : i - i % SHARED_WORD];
}

static inline Record *
record_at(const Check *c, uint32_t number)
{
	return number >= c->floor ? &c->record[number - c->floor] : NULL;
}

/* The thread that a report names for an access; -1: a copy. */
static inline int
record_thread(const Check *c, const Record *r)
{
	if (r->agent < c->threads)
		return r->agent + (r->mask ? __builtin_ctz(r->mask) : 0);
	return r->agent == c->agents ? (int)r->mask - 1 : -1;
}

/* Does the vector have the clock of all of its threads but one? */
static inline bool
record_covered(const VectorClock *v, const Record *r, int but)
{
	for (uint32_t left = r->mask; left; left &= left - 1) {
		int agent = r->agent + __builtin_ctz(left);
		if (agent != but && (!v || v->at[agent] < r->clock))
			return false;
	}
	return true;
}

#endif
