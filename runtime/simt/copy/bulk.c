/* Bulk copies: one thread has a box of a tensor moved between shared and global memory (bulk_tensor.c).
 *
 * A load counts for an mbarrier of the block that it writes to, and lands when a thread waits there (mbarrier.c).  Stores
 * belong to the group that their thread commits next: they read shared memory when a wait asks for that, write when it
 * asks for the whole, and those that are not waited for read what a block's memory holds after its end: rubbish. */
#include <stdlib.h>
#include <string.h>

#include "runtime/simt/prims.h"

static BulkCopy *
new_copy(Async *a, const BulkCopy *like)
{
	BulkCopy *c = a->spare_bulk ? a->spare_bulk : NEW(a->mem, BulkCopy);
	a->spare_bulk = a->spare_bulk ? a->spare_bulk->next : NULL;
	*c = *like;
	c->next = NULL;
	return c;
}

/* ---- loads ---- */

/* A swizzle may move chunks about within each row of its pattern. */
static int
touched(const BulkCopy *c)
{
	return simt_box_rows(c->map) * simt_box_pitch(c->map);
}

void
simt_bulk_load(const BulkCopy *c, uint32_t mbarrier, const char *what)
{
	Mbarrier *m = simt_mbarrier_of(c->begun_by, c->by, mbarrier, what);
	unsigned access = SIMT_WRITE | SIMT_ASYNC | SIMT_TENSOR;
	uint8_t *to = simt_shared_of(c->begun_by, c->by, c->shared, touched(c), access);
	memset(to, SIMT_RUBBISH, (size_t)touched(c));
	simt_mbarrier_copy(m, new_copy(simt_async(c->by), c));
}

void
simt_bulk_land(BulkCopy *c, int64_t mbarrier)
{
	uint8_t *to = c->by->shared + c->shared;
	bool checks = simt_launch(c->by)->checks;
	simt_box_load(c, to);
	if (!checks)
		return;
	simt_box_landed(c, mbarrier);
	simt_landed(c->begun_by, c->by, c->shared, touched(c), SIMT_WRITE | SIMT_ASYNC | SIMT_TENSOR, mbarrier);
}

void
simt_bulk_load_multi(const BulkCopy *like, uint32_t mbarrier, uint64_t ranks, const char *what)
{
	BulkCopy c = *like;
	if (!(ranks & 0xffff))
		simt_fail(c.begun_by, "%s to no block", what);
	for (uint32_t rank = 0; rank < 16; rank++)
		if (ranks >> rank & 1) {
			c.by = simt_rank_alive(c.begun_by, rank, what);
			simt_bulk_load(&c, mbarrier, what);
		}
}

/* ---- stores ---- */

static void
read_bytes(BulkCopy *c)
{
	if (c->read)
		return;
	c->read = malloc((size_t)touched(c));
	if (!c->read)
		die("no memory");
	memcpy(c->read, c->by->shared + c->shared, (size_t)touched(c));
}

/* By chance. */
static void
read_some(Async *a, ThreadAsync *mine)
{
	for (BulkCopy *c = mine->stores; a->random && c; c = c->next)
		if (simt_chance(a))
			read_bytes(c);
}

void
simt_bulk_store_begin(const BulkCopy *like)
{
	SimtThread *t = like->by;
	Async *a = simt_async(t);
	ThreadAsync *mine = simt_async_of(a, t);
	simt_shared_at(t, like->shared, touched(like), SIMT_READ | SIMT_ASYNC | SIMT_TENSOR);
	BulkCopy *c = new_copy(a, like);
	c->group = mine->store_commits;
	*mine->last_store = c;
	mine->last_store = &c->next;
	read_some(a, mine);
}

PRIMITIVE(simt_bulk_commit)
{
	Async *a = simt_async(t);
	ThreadAsync *mine = simt_async_of(a, t);
	mine->store_commits++;
	read_some(a, mine);
}

/* The copies of all groups but the latest `left` have read what they copy. */
static void
wait_read(SimtThread *t, int64_t left)
{
	Async *a = simt_async(t);
	ThreadAsync *mine = simt_async_of(a, t);
	for (BulkCopy *c = mine->stores; c && (int64_t)c->group < (int64_t)mine->store_commits - left; c = c->next) {
		if (c->is_read)
			continue;
		read_bytes(c);
		c->is_read = true;
		if (a->checks)
			simt_landed(t, t, c->shared, touched(c), SIMT_READ | SIMT_ASYNC | SIMT_TENSOR, -1);
	}
}

PRIMITIVE(simt_bulk_wait_read)
{
	wait_read(t, imm[0]);
}

PRIMITIVE(simt_bulk_wait)
{
	Async *a = simt_async(t);
	ThreadAsync *mine = simt_async_of(a, t);
	wait_read(t, imm[0]);
	while (mine->stores && (int64_t)mine->stores->group < (int64_t)mine->store_commits - imm[0]) {
		BulkCopy *c = mine->stores;
		simt_box_store(c, c->read);
		if (a->checks)
			simt_box_landed(c, -1);
		free(c->read);
		mine->stores = c->next;
		c->next = a->spare_bulk;
		a->spare_bulk = c;
	}
	if (!mine->stores)
		mine->last_store = &mine->stores;
}

void
simt_stores_end(Async *a)
{
	for (int i = 0; i < a->nthread; i++)
		for (BulkCopy *c = a->thread[i].stores; c; c = c->next) {
			bool is_late = !c->is_read;
			read_bytes(c);
			if (is_late)
				memset(c->read, SIMT_RUBBISH, (size_t)touched(c));
			simt_box_store(c, c->read);
			free(c->read);
		}
}
