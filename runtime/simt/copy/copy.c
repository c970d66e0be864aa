/* Asynchronous copies of a thread (cp.async): 4, 8 or 16 bytes from global to shared memory, zeros where the source ends.
 *
 * Copies belong to the group that their thread commits next; a wait lands whole groups, the oldest first.  Those of no
 * group yet are waited for by none. */
#include <string.h>

#include "runtime/simt/prims.h"

struct RowCopy {
	RowCopy *next;
	uint8_t *to;
	const uint8_t *from;
	uint32_t at;                                    /* to, in shared memory */
	uint32_t number, group;                         /* of its thread's */
	uint8_t bytes, given;
};

static void
land(SimtThread *t, const Async *a, const RowCopy *c, int64_t mbarrier)
{
	memcpy(c->to, c->from, c->given);
	memset(c->to + c->given, 0, (size_t)(c->bytes - c->given));
	if (mbarrier < 0)                               /* waited for, but who waits there may have come first */
		mbarrier = simt_mbarrier_counting(t, c->number);
	if (a->checks)
		simt_landed(t, t, c->at, c->bytes, SIMT_WRITE | SIMT_ASYNC, mbarrier);
}

/* Drops the copy that `link` leads to. */
static void
drop(Async *a, ThreadAsync *mine, RowCopy **link)
{
	RowCopy *c = *link;
	*link = c->next;
	if (mine->last == &c->next)
		mine->last = link;
	c->next = a->spare;
	a->spare = c;
}

/* Has some happen now, by chance.  They were not waited for: to the checks they are still in flight. */
static void
land_some(Async *a, ThreadAsync *mine)
{
	for (RowCopy *c = mine->first; a->random && c; c = c->next)
		if (simt_chance(a)) {
			memcpy(c->to, c->from, c->given);
			memset(c->to + c->given, 0, (size_t)(c->bytes - c->given));
			c->from = c->to;                /* and again when it is waited for: no change */
			c->given = c->bytes;
		}
}

static void
begin(SimtThread *t, const uint64_t *in, int64_t bytes, const void *from)
{
	Async *a = simt_async(t);
	ThreadAsync *mine = simt_async_of(a, t);
	uint32_t at = (uint32_t)in[0], given = (uint32_t)in[2];
	if (bytes != 4 && bytes != 8 && bytes != 16)
		simt_fail(t, "cp_async of %lld bytes; it copies 4, 8 or 16", (long long)bytes);
	if (given > (uint64_t)bytes)
		simt_fail(t, "cp_async is to read %u bytes of %lld", given, (long long)bytes);
	if (at % (uint32_t)bytes || in[1] % (uint64_t)bytes)
		simt_fail(t, "cp_async: an address is not a multiple of %lld", (long long)bytes);
	RowCopy *c = a->spare ? a->spare : NEW(a->mem, RowCopy);
	a->spare = a->spare ? a->spare->next : NULL;
	*c = (RowCopy){.at = at, .number = ++mine->begun, .group = mine->commits, .bytes = (uint8_t)bytes,
		.given = (uint8_t)given};
	c->to = simt_shared_from(t, at, (int)bytes, SIMT_WRITE | SIMT_ASYNC, from);
	c->from = given ? simt_global_from(t, in[1], (int)given, (int)bytes, SIMT_READ | SIMT_ASYNC, from) : c->to;
	memset(c->to, SIMT_RUBBISH, (size_t)bytes);
	*mine->last = c;
	mine->last = &c->next;
	land_some(a, mine);
}

PRIMITIVE(simt_cp_async)
{
	begin(t, in, imm[0], __builtin_return_address(0));
}

PRIMITIVE(simt_cp_async_16)
{
	begin(t, in, 16, __builtin_return_address(0));
}

PRIMITIVE(simt_cp_commit)
{
	Async *a = simt_async(t);
	ThreadAsync *mine = simt_async_of(a, t);
	mine->commits++;
	land_some(a, mine);
}

PRIMITIVE(simt_cp_wait)
{
	Async *a = simt_async(t);
	ThreadAsync *mine = simt_async_of(a, t);
	while (mine->first && (int64_t)mine->first->group < (int64_t)mine->commits - imm[0]) {
		land(t, a, mine->first, -1);
		drop(a, mine, &mine->first);
	}
}

void
simt_copies_land(SimtThread *t, uint32_t begun, int64_t mbarrier)
{
	Async *a = simt_async(t);
	ThreadAsync *mine = simt_async_of(a, t);
	while (mine->first && mine->first->number <= begun) {
		land(t, a, mine->first, mbarrier);
		drop(a, mine, &mine->first);
	}
}
