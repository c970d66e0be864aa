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

enum { SHARED_WORD = 4, RECORD_HINTS = 1 << 12, RECORDS_FIRST = 1 << 14 };

/* Of all blocks of the cluster, side by side. */
static inline size_t
shared_cells(const Check *c)
{
	return (size_t)c->step * (size_t)c->blocks;
}

/* Cells of words lie together, as few words are split: those of their second bytes behind them, and so on. */
static inline Cell *
cell_at(const Check *c, uint32_t i)
{
	uint32_t byte = i % SHARED_WORD, word = i / SHARED_WORD;
	return &c->cell[byte ? byte * (shared_cells(c) / SHARED_WORD) + word : word];
}

static inline const Cell *
shared_cell(const Check *c, uint32_t i)
{
	return cell_at(c, c->split[i / SHARED_WORD] ? i : i - i % SHARED_WORD);
}

static inline Record *
record_at(const Check *c, uint32_t number)
{
	return number >= c->floor ? &c->record[number - c->floor] : NULL;
}

static inline bool
record_over(const Check *c, const Record *r)
{
	return r->agent < c->threads && r->clock < c->epoch;
}

static inline bool
record_equal(const Record *a, const Record *b)
{
	return a->clock == b->clock && a->prev == b->prev && a->mask == b->mask && a->site == b->site &&
	    a->agent == b->agent && a->access == b->access && a->turn == b->turn;
}

static inline uint32_t
record_hash(const Record *r)
{
	uint32_t h = r->prev * 0x9e3779b1u ^ r->mask * 0x85ebca6bu ^ (r->clock + r->turn) * 0xc2b2ae35u ^
	    ((uint32_t)r->site << 16 ^ r->agent ^ r->access) * 0x27d4eb2fu;
	return (h ^ h >> 15) % RECORD_HINTS;
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

/* ---- record.c ---- */

uint32_t record_make(Check *c, const Record *r);       /* its number; one that exists already is given again */
/* Keeps the records that cells need and makes room for as many again. */
void records_collect(Check *c);

#endif
