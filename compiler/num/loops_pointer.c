/* Arithmetic on tiles of pointers, which are 64-bit words: pointer plus distance, whether a tile of them names
 * neighbours, so that a load or store is one block, and the least and the greatest of them. */
#include "num/loops.h"

/* An operand is one for all or one each; a loop for each case, since a stride that varies is not vectorised. */
#define POINT(T)                                                                                   \
	do {                                                                                       \
		const T *x = index;                                                                \
		uint64_t first = *at, distance = (uint64_t)(int64_t)*x * size;                     \
		if (scalar & 2)                                                                    \
			LOOP for (int64_t i = 0; i < n; i++)                                       \
				out[i] = at[scalar & 1 ? 0 : i] + distance;                        \
		else if (scalar & 1)                                                               \
			LOOP for (int64_t i = 0; i < n; i++)                                       \
				out[i] = first + (uint64_t)(int64_t)x[i] * size;                   \
		else                                                                               \
			LOOP for (int64_t i = 0; i < n; i++)                                       \
				out[i] = at[i] + (uint64_t)(int64_t)x[i] * size;                   \
	} while (0)

/* out[i] = at[i] + index[i] * size; bits of scalar: 1, at is one for all; 2, index is. */
void
LEVEL(loop_point)(uint64_t *out, const uint64_t *at, const void *index, DType t, unsigned scalar, uint64_t size,
    int64_t n)
{
	switch (t) {
	case TY_I8: POINT(int8_t); break;
	case TY_I16: POINT(int16_t); break;
	case TY_I32: POINT(int32_t); break;
	case TY_U8: POINT(uint8_t); break;
	case TY_U16: POINT(uint16_t); break;
	case TY_U32: POINT(uint32_t); break;
	default: POINT(uint64_t); break;
	}
}

/* at[i] == at[0] + i * step for all i < n. */
bool
LEVEL(loop_neighbours)(const uint64_t *at, uint64_t step, int64_t n)
{
	uint64_t broken = 0;

	LOOP for (int64_t i = 1; i < n; i++)
		broken |= at[i] - at[i - 1] - step;
	return broken == 0;
}

/* Of those whose mask is not 0 (NULL: of all); with none of them, *least is above *most. */
void
LEVEL(loop_range)(const uint64_t *at, const uint8_t *mask, int64_t n, uint64_t *least, uint64_t *most)
{
	uint64_t low = UINT64_MAX, high = 0;

	if (!mask) {
		LOOP for (int64_t i = 0; i < n; i++) {
			low = at[i] < low ? at[i] : low;
			high = at[i] > high ? at[i] : high;
		}
	} else {
		LOOP for (int64_t i = 0; i < n; i++) {
			uint64_t off = (uint64_t)(mask[i] != 0) - 1, up = at[i] | off, down = at[i] & ~off;
			low = up < low ? up : low;
			high = down > high ? down : high;
		}
	}
	*least = low;
	*most = high;
}
