/* Philox 4x32-10 (Salmon, Moraes, Dror, Shaw: Parallel random numbers: as easy as 1, 2, 3; SC 2011). */
#include "num/loops.h"

void
LEVEL(loop_philox)(uint64_t seed, const uint64_t *offset, int64_t n, uint32_t *const out[4])
{
	uint32_t *o0 = out[0], *o1 = out[1], *o2 = out[2], *o3 = out[3];
	LOOP for (int64_t i = 0; i < n; i++) {
		uint32_t c0 = (uint32_t)offset[i], c1 = (uint32_t)(offset[i] >> 32), c2 = 0, c3 = 0;
		uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
		for (int round = 0; round < 10; round++) {
			uint64_t a = (uint64_t)0xD2511F53u * c0, b = (uint64_t)0xCD9E8D57u * c2;
			c0 = (uint32_t)(b >> 32) ^ c1 ^ k0;
			c2 = (uint32_t)(a >> 32) ^ c3 ^ k1;
			c1 = (uint32_t)b;
			c3 = (uint32_t)a;
			k0 += 0x9E3779B9u;
			k1 += 0xBB67AE85u;
		}
		o0[i] = c0;
		o1[i] = c1;
		o2[i] = c2;
		o3[i] = c3;
	}
}
