/* Random numbers for tiles of offsets: widens the offsets a block at a time and leaves the rounds to the loops.
 * An offset counts by its value, whatever its type: a negative one is sign-extended. */
#include "num/loops.h"

void
philox_run(CpuLevel level, uint64_t seed, DType offset_type, const void *offset, int64_t n,
    uint32_t *const out[4])
{
	const Loops *l = &loops_at[level];
	LoopFn widen = l->cast(offset_type, TY_U64);
	uint64_t at[BLOCK];
	int64_t size = dtype_tile_size(offset_type);
	for (int64_t done = 0; done < n; done += BLOCK) {
		int64_t m = MIN(BLOCK, n - done);
		const void *x = (const char *)offset + done * size;
		uint32_t *const o[4] = {out[0] + done, out[1] + done, out[2] + done, out[3] + done};
		widen(at, &x, m);
		l->philox(seed, at, m, o);
	}
}
