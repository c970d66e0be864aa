/* Shared memory's shadow: of every byte, the last write and the accesses since.
 *
 * A cell is two numbers of records, 8 bytes for a byte of shared memory.  The four bytes of a word as a rule have
 * one cell, the first's; where they differ the word is split, and each byte has its own.  Adjacent ones that are
 * equal are dealt with once.  A record is an access: its agent's clock, its place in the source, and for threads the
 * lanes of a warp that did the same under one clock; those of a byte since its last write form a list by `prev`.
 * Lists are shared between bytes: making a record that exists already gives its number (`hint` finds most of them).
 *
 * Records are thrown away together: when a block begins and, when there are many, by keeping those that some cell
 * still needs.  Numbers below `floor` are of such times and mean nothing.
 *
 *     thread 3 writes 0..15       cell {w: 1}              1 = write by warp 0 lane 3 at clock 7
 *     barrier
 *     warp 1 reads 0..15          cell {w: 1, touch: 33}   33 = read by warp 1, lanes 0..31, after 32, 31 … of fewer lanes
 *
 * Threads of one instruction may write the same bytes if they write the same value: whether they did is seen at the next
 * access, in memory (shared_settle). */
#include "runtime/simt/check/record.h"

#include <stdlib.h>
#include <string.h>

enum { WORD = SHARED_WORD, LIST_LONG = 8 };
static const uint32_t LAST_NUMBER = UINT32_C(1) << 31;

/* The list that `by`, a read, made of the list by.prev.  Such steps are pure functions of both, and of what `turn`, which
 * reads have not, says beside; numbers below `floor` mean nothing.  So no entry is ever wrong. */
typedef struct KnownList {
	Record by;
	uint32_t list;
} KnownList;

/* An access as its record will have it. */
typedef struct Touching {
	Record r;
	const SimtThread *t;
	int agent;
	CheckThread *ct;
	uint32_t offset;                                /* of the bytes at hand, among the cells */
	const uint8_t *at;                              /* all bytes of the access: where, how many */
	int bytes;
	bool reported;
} Touching;

void
shared_open(Check *c)
{
	c->record_room = RECORDS_FIRST;
	c->cell = memory_new(shared_cells(c), sizeof *c->cell);
	c->split = memory_new(shared_cells(c) / WORD, 1);
	c->defined = memory_new(shared_cells(c), 1);
	c->record = memory_new(c->record_room, sizeof *c->record);
	c->hint = memory_new(RECORD_HINTS, sizeof *c->hint);
	c->known = memory_new(RECORD_HINTS, sizeof *c->known);
	c->floor = c->next = 1;
}

void
shared_close(Check *c)
{
	free(c->cell);
	free(c->split);
	free(c->defined);
	free(c->record);
	free(c->hint);
	free(c->known);
}

void
shared_begin(Check *c)
{
	memset(c->defined, 0, shared_cells(c));
	memset(c->split, 0, shared_cells(c) / WORD);
	c->floor = c->next;
	c->same_value.at = NULL;
	c->has_bulk = false;
	if (c->next < LAST_NUMBER)
		return;
	memset(c->cell, 0, sizeof *c->cell * shared_cells(c));
	memset(c->hint, 0, sizeof *c->hint * RECORD_HINTS);
	memset(c->known, 0, sizeof *c->known * RECORD_HINTS);
	c->floor = c->next = 1;
}

/* ---- order ---- */

/* Whether the lanes of `b` are among those of `a`, two records of one agent. */
static bool
covers(const Check *c, const Record *a, const Record *b)
{
	return a->agent == c->agents ? a->mask == b->mask : !(b->mask & ~a->mask);
}

/* Does r happen before what is being done? */
static bool
happens_before(const Check *c, const Touching *a, const Record *r, bool *by_proxy)
{
	bool crosses = (a->r.access & SIMT_TENSOR) && !(r->access & SIMT_TENSOR);
	const HappensBefore *before = &a->ct->before;
	if (r->agent == c->agents)
		return false;
	*by_proxy = crosses && !record_covered(before->fenced, r, -1);
	return !*by_proxy && (record_over(c, r) || record_covered(before->vector, r, a->agent));
}

static bool
no_conflict(unsigned a, unsigned b)
{
	return !((a | b) & SIMT_WRITE) || (a & b & SIMT_ATOMIC);
}

static void
report(Check *c, Touching *a, const Record *r, bool by_proxy)
{
	if (a->reported)
		return;
	a->reported = true;
	uint32_t others = r->mask;
	if (r->agent < c->threads && a->agent / SIMT_LANES == r->agent / SIMT_LANES)
		others &= ~(UINT32_C(1) << a->t->lane);
	Record named = *r;
	named.mask = others ? others : r->mask;
	CheckAccess now = access_by(c, a->agent, a->r.site, a->r.access);
	CheckAccess before = access_by(c, record_thread(c, &named), r->site, r->access);
	before.block = before.thread < 0 ? now.block : before.block;
	report_shared_race(c, &now, &before, a->offset, by_proxy);
}

/* The threads of one instruction write the same bytes. */
static bool
is_twin(const Touching *a, const Record *r)
{
	return a->r.site == r->site && a->r.turn == r->turn && a->r.access == r->access && (r->access & SIMT_WRITE) &&
	    a->bytes <= (int)sizeof ((SameValue *)0)->before;
}

static void
suspect(Check *c, const Touching *a, const Record *r)
{
	c->same_value = (SameValue){.at = a->at, .n = a->bytes, .agent = a->agent, .other = record_thread(c, r),
	    .site = r->site, .offset = a->offset};
	memcpy(c->same_value.before, a->at, (size_t)a->bytes);
}

void
shared_settle(Check *c)
{
	const SameValue d = c->same_value;
	c->same_value.at = NULL;
	if (!d.at || memcmp(d.at, d.before, (size_t)d.n) == 0)
		return;
	CheckAccess now = access_by(c, d.agent, d.site, SIMT_WRITE), before = access_by(c, d.other, d.site, SIMT_WRITE);
	report_shared_race(c, &now, &before, d.offset, false);
}

static void
look(Check *c, Touching *a, const Record *r)
{
	bool by_proxy = false;
	if (no_conflict(a->r.access, r->access) || happens_before(c, a, r, &by_proxy))
		return;
	if (!is_twin(a, r))
		report(c, a, r, by_proxy);
	else if (r->agent < c->threads)
		suspect(c, a, r);
}

/* ---- touching ---- */

/* The list without what happens before this access and what its thread did earlier. */
static uint32_t
shortened(Check *c, const Touching *a, uint32_t number)
{
	Record keep[4 * LIST_LONG];
	uint32_t rest = 0;
	int n = 0;
	for (const Record *r = record_at(c, number); r && n < LEN(keep); r = record_at(c, r->prev)) {
		bool by_proxy, covered = happens_before(c, a, r, &by_proxy);
		covered = covered || ANY_OF(i, n,
					 keep[i].agent == r->agent && keep[i].access == r->access &&
					     covers(c, &keep[i], r));
		if (!covered)
			keep[n++] = *r;
	}
	while (n-- > 0) {
		keep[n].prev = rest;
		rest = record_make(c, &keep[n]);
	}
	return rest;
}

static uint32_t
add_touch(Check *c, Touching *a, uint32_t number)
{
	const Record *first = record_at(c, number);
	bool all_over = true;
	int n = 0;
	for (const Record *r = first; r; r = record_at(c, r->prev), n++) {
		bool same = r->clock == a->r.clock && r->agent == a->r.agent && r->access == a->r.access;
		if (same && covers(c, r, &a->r))
			return number;
		all_over &= record_over(c, r);
	}
	Record r = a->r;
	if (first && first->clock == r.clock && first->agent == r.agent && first->site == r.site &&
	    first->access == r.access && r.agent < c->threads) {
		r.mask |= first->mask;
		r.prev = first->prev;
	} else if (!all_over) {
		r.prev = n > LIST_LONG ? shortened(c, a, number) : number;
	}
	return record_make(c, &r);
}

static uint32_t
write_record(Check *c, Touching *a)
{
	const Record *last = record_at(c, a->ct->record);
	if (!last || !record_equal(last, &a->r))
		a->ct->record = record_make(c, &a->r);
	return a->ct->record;
}

static inline KnownList *
known_list(const Check *c, const Record *by)
{
	return &c->known[record_hash(by)];
}

static inline bool
is_known(const Check *c, const KnownList *k, const Record *by)
{
	return k->list >= c->floor && record_equal(&k->by, by);
}

/* The same for a read, which most often was added to that list before, in this epoch. */
static uint32_t
add_read(Check *c, Touching *a, uint32_t number)
{
	a->r.prev = number >= c->floor ? number : 0;
	a->r.turn = c->epoch;
	KnownList *known = known_list(c, &a->r);
	if (is_known(c, known, &a->r))
		return known->list;
	const Record by = a->r;
	bool conflicts = false;
	a->r.prev = a->r.turn = 0;
	for (const Record *r = record_at(c, number); r; r = record_at(c, r->prev)) {
		conflicts |= !no_conflict(by.access, r->access);
		look(c, a, r);
	}
	uint32_t list = add_touch(c, a, number);
	if (!conflicts)
		*known = (KnownList){by, list};
	return list;
}

static Cell
touch(Check *c, Touching *a, Cell cell)
{
	const Record *w = record_at(c, cell.write);
	bool writes = (a->r.access & SIMT_WRITE) && !(a->r.access & SIMT_ATOMIC);
	if (w && (!record_over(c, w) || (a->r.access & SIMT_TENSOR)))
		look(c, a, w);
	if (!(a->r.access & (SIMT_WRITE | SIMT_ATOMIC)))
		return (Cell){cell.write, add_read(c, a, cell.touch)};
	for (const Record *r = record_at(c, cell.touch); r; r = record_at(c, r->prev))
		look(c, a, r);
	if (writes)
		return (Cell){write_record(c, a), 0};
	cell.touch = add_touch(c, a, cell.touch);
	return cell;
}

/* ---- bytes that were never written ---- */

static bool
is_defined(const Check *c, uint32_t offset, int bytes, uint32_t *first)
{
	static const uint8_t yes[WORD] = {1, 1, 1, 1};
	const uint8_t *from = c->defined + offset;
	int words = 0;                                  /* most accesses are a few of them */
	while (words < 4 && (words + 1) * WORD <= bytes && memcmp(from + words * WORD, yes, WORD) == 0)
		words++;
	if (words * WORD == bytes)
		return true;
	const uint8_t *undefined = memchr(from, 0, (size_t)bytes);
	*first = undefined ? offset + (uint32_t)(undefined - from) : 0;
	return !undefined;
}

/* ---- the door ---- */

/* Matrix instructions are a warp's, copies a thread's. */
static uint32_t
in_flight(const Check *c, const SimtThread *t, unsigned access)
{
	return (uint32_t)(agent_of(c, t) - (access & SIMT_TENSOR ? t->lane : 0)) + 1;
}

static inline Record
record_of(const Check *c, const SimtThread *t, unsigned access)
{
	Record r = {.site = t->site, .access = (uint16_t)access, .turn = access & SIMT_WRITE ? (uint32_t)t->steps : 0};
	if (access & SIMT_ASYNC) {
		r.agent = (uint16_t)c->agents;
		r.mask = in_flight(c, t, access);
	} else {
		r.agent = (uint16_t)(agent_of(c, t) - t->lane);
		r.mask = UINT32_C(1) << t->lane;
		r.clock = c->thread[agent_of(c, t)].clock;
	}
	return r;
}

/* What goes over cells one after the other has room for the records that one of them takes. */
static void
make_room(Check *c)
{
	if (c->next - c->floor + 8 * LIST_LONG > c->record_room)
		records_collect(c);
}

static inline bool
cells_equal(Cell a, Cell b)
{
	return memcmp(&a, &b, sizeof a) == 0;
}

/* Cells of bytes of one word, which is split for it, that are equal. */
static uint32_t
run_of_bytes(Check *c, uint32_t i, uint32_t end)
{
	uint32_t n = 1, word = i - i % WORD;
	for (uint32_t k = 1; k < WORD && !c->split[word / WORD]; k++)
		*cell_at(c, word + k) = *cell_at(c, word);
	c->split[word / WORD] = 1;
	while (i + n < MIN(end, word + WORD) && cells_equal(*cell_at(c, i + n), *cell_at(c, i)))
		n++;
	return n;
}

/* Cells that are equal, from i on: those of whole words, or else of bytes of one. */
static inline uint32_t
run_of_equals(Check *c, uint32_t i, uint32_t end)
{
	uint32_t n = WORD;
	const uint8_t *split = &c->split[i / WORD];
	const Cell *cell = &c->cell[i / WORD], *next = cell;
	if (i % WORD || end - i < WORD || *split)
		return run_of_bytes(c, i, end);
	while (end - i - n >= WORD && !*++split && cells_equal(*++next, *cell))
		n += WORD;
	return n;
}

/* Makes `cell` that of such a run. */
static inline void
set_run(Check *c, uint32_t i, uint32_t n, Cell cell)
{
	uint32_t word = i - i % WORD;
	if (!c->split[i / WORD]) {
		for (Cell *at = &c->cell[i / WORD], *end = at + n / WORD; at < end; at++)
			*at = cell;
		return;
	}
	for (uint32_t k = 0; k < n; k++)
		*cell_at(c, i + k) = cell;
	c->split[i / WORD] = !ALL_OF(k, WORD, cells_equal(*cell_at(c, word + (uint32_t)k), cell));
}

void
shared_touch(Check *c, SimtThread *t, const SimtThread *of, uint32_t offset, int bytes, unsigned access)
{
	Touching a = {.r = record_of(c, t, access), .t = t, .agent = agent_of(c, t), .at = of->shared + offset,
		.bytes = bytes};
	uint32_t first, base = (uint32_t)of->cluster_rank * c->step;
	a.ct = &c->thread[a.agent];
	offset += base;
	if (c->same_value.at)
		shared_settle(c);
	c->has_bulk |= (access & SIMT_TENSOR) != 0;
	if ((access & SIMT_READ) && !is_defined(c, offset, bytes, &first))
		report_shared_undefined(c, t, first - base);
	for (uint32_t i = offset, end = offset + (uint32_t)bytes; i < end;) {
		make_room(c);
		uint32_t n = run_of_equals(c, i, end);
		a.offset = i;
		set_run(c, i, n, touch(c, &a, *cell_at(c, i)));
		i += n;
	}
	if (access & SIMT_WRITE)
		memset(c->defined + offset, 1, (size_t)bytes);
}

/* A list, or a lone write, in which what t had in flight becomes `now`. */
static uint32_t
landed(Check *c, uint32_t number, const Record *now, uint32_t mask)
{
	Record all[4 * LIST_LONG], by = *now;
	bool any = false, reads = !(now->access & SIMT_WRITE);
	int n = 0;
	by.prev = number;
	by.site = 0;
	by.turn = mask;
	KnownList *known = known_list(c, &by);
	if (reads && is_known(c, known, &by))
		return known->list;
	for (const Record *r = record_at(c, number); r && n < LEN(all); r = record_at(c, r->prev)) {
		all[n] = *r;
		if (r->agent == c->agents && r->mask == mask && r->access == now->access) {
			all[n] = *now;
			all[n].site = r->site;
			any = true;
		}
		n++;
	}
	if (!any)
		return number;
	uint32_t rest = 0;
	while (n-- > 0) {
		all[n].prev = rest;
		rest = record_make(c, &all[n]);
	}
	if (reads)
		*known = (KnownList){by, rest};
	return rest;
}

void
shared_land(Check *c, SimtThread *t, const SimtThread *of, uint32_t offset, int bytes, unsigned access, int64_t mbarrier)
{
	Record now = record_of(c, t, access & ~(unsigned)SIMT_ASYNC);
	uint32_t mask = in_flight(c, t, access);
	offset += (uint32_t)of->cluster_rank * c->step;
	now.access = (uint16_t)access;
	if (mbarrier >= 0) {
		uint32_t clock;
		now.agent = (uint16_t)clocks_copy_agent(c, clocks_object(c, (uint64_t)mbarrier), &clock);
		now.clock = clock;
		now.mask = 1;
	}
	for (uint32_t i = offset, end = offset + (uint32_t)bytes; i < end;) {
		make_room(c);
		uint32_t n = run_of_equals(c, i, end);
		Cell cell = *cell_at(c, i);
		if (access & SIMT_WRITE)
			cell.write = landed(c, cell.write, &now, mask);
		else
			cell.touch = landed(c, cell.touch, &now, mask);
		set_run(c, i, n, cell);
		i += n;
	}
}
