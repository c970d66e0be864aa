/* Memory whose neighbours nothing may touch, for what the host gives to kernels. */
#define _GNU_SOURCE
#include <sys/mman.h>

#include "tests/msl/msl.h"

enum { GUARD = 1 << 16 };

/* Between pages that nothing may touch, its end at their edge. */
void *
msl_guarded(size_t size)
{
	size_t room = (size + 4095) & ~(size_t)4095;
	char *at = mmap(NULL, room + 2 * GUARD, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (at == MAP_FAILED || mprotect(at + GUARD, room, PROT_READ | PROT_WRITE) != 0)
		return NULL;
	return at + GUARD + ((room - size) & ~(size_t)63);
}

void
msl_unguard(void *at, size_t size)
{
	size_t room = (size + 4095) & ~(size_t)4095;
	munmap((char *)((uintptr_t)at & ~(uintptr_t)4095) - GUARD, room + 2 * GUARD);
}
