/* Random numbers for tiles of offsets: widens the offsets a block at a time and leaves the rounds to the loops.
 * Offsets of 32 bits and fewer fill the counter's low word only, a negative one too. */
#include "ir/interp/loops.h"

static void
load_offsets(const Loops *l, DType t, const void *offset, uint64_t *at, int64_t n)
{
	l->cast(t, TY_U64)(at, &offset, n);
	if (dtype_tile_size(t) < 8)
		for (int64_t i = 0; i < n; i++)
			at[i] &= 0xffffffff;
}

void
philox_run(CpuLevel level, uint64_t seed, DType offset_type, const void *offset, bool scalar, int64_t n,
    uint32_t *const out[4])
{
	const Loops *l = &loops_at[level];
	uint64_t at[BLOCK];
	int64_t size = dtype_tile_size(offset_type);
	if (scalar) {
		load_offsets(l, offset_type, offset, at, 1);
		l->philox(seed, at, 1, out);
		for (int i = 0; i < 4 && n > 1; i++)
			tile_fill(4, out[i], out[i], n);
		return;
	}
	for (int64_t done = 0; done < n; done += BLOCK) {
		int64_t m = MIN(BLOCK, n - done);
		uint32_t *const o[4] = {out[0] + done, out[1] + done, out[2] + done, out[3] + done};
		load_offsets(l, offset_type, (const char *)offset + done * size, at, m);
		l->philox(seed, at, m, o);
	}
}
