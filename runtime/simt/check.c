/* Accesses of a thread: bounds and alignment. */
#include "runtime/simt/simt.h"

uint8_t *
simt_shared_at(SimtThread *t, uint32_t offset, int bytes, unsigned access)
{
	const SimtLaunch *l = simt_launch(t);
	if ((uint64_t)offset + (uint64_t)bytes > (uint64_t)l->shared_bytes)
		simt_fail(t, "thread %d touches shared memory at %u, of %d bytes", t->thread, offset, l->shared_bytes);
	if (bytes <= 16 && offset % (uint32_t)bytes)
		simt_fail(t, "thread %d: the address %u in shared memory is not a multiple of %d", t->thread, offset, bytes);
	return t->shared + offset;
}

uint8_t *
simt_global_at(SimtThread *t, uint64_t address, int bytes, int align, unsigned access)
{
	const SimtLaunch *l = simt_launch(t);
	if (align > 1 && address % (uint64_t)align)
		simt_fail(t, "thread %d: an address is not a multiple of %d", t->thread, align);
	for (int i = 0; i < l->nrange; i++)
		if (address >= l->range[i].low && address + (uint64_t)bytes <= l->range[i].high)
			return (uint8_t *)(uintptr_t)address;
	if (l->nrange)
		simt_fail(t, "thread %d touches memory that is no argument's", t->thread);
	return (uint8_t *)(uintptr_t)address;
}

void *
simt_check_open(const SimtLaunch *launch)
{
	return NULL;
}

void
simt_check_close(void *state)
{
}

void
simt_check_begin(SimtBlock *b)
{
}

void
simt_check_end(SimtBlock *b)
{
}

void
simt_check_met(SimtThread *const *who, int n)
{
}

void
simt_check_arrive(SimtThread *t, uint64_t object)
{
}

void
simt_check_see(SimtThread *t, uint64_t object)
{
}

void
simt_landed(SimtThread *t, uint32_t offset, int bytes, unsigned access, int64_t mbarrier)
{
}

void
simt_fenced(SimtThread *t, SimtFence kind)
{
}
