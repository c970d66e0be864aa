/* Filling and copying of blocks. */
#include <string.h>

#include "ir/interp/loops.h"

#if defined(__SSE2__)
#include <immintrin.h>
#endif

#define FILL(T)                                                                                    \
	for (int64_t i = 0; i < n; i++)                                                            \
		((T *)out)[i] = (T)word

void LEVEL(loop_fill)(int size, void *out, uint64_t word, int64_t n);

void
LEVEL(loop_fill)(int size, void *out, uint64_t word, int64_t n)
{
	switch (size) {
	case 1: FILL(uint8_t); break;
	case 2: FILL(uint16_t); break;
	case 4: FILL(uint32_t); break;
	default: FILL(uint64_t);
	}
}

void LEVEL(loop_stream)(void *to, const void *from, size_t bytes);

/* Whole cache lines are written without being read first, which saves a third of the traffic of a copy whose
 * result nobody looks at soon. */
void
LEVEL(loop_stream)(void *to, const void *from, size_t bytes)
{
	char *o = to;
	const char *x = from;
	size_t head = MIN(-(uintptr_t)o & 63, bytes);
	memcpy(o, x, head);
	o += head;
	x += head;
	bytes -= head;
#if defined(__AVX512F__)
	for (; bytes >= 64; bytes -= 64, o += 64, x += 64)
		_mm512_stream_si512((__m512i *)o, _mm512_loadu_si512(x));
#elif defined(__AVX2__)
	for (; bytes >= 64; bytes -= 64, o += 64, x += 64)
		for (int i = 0; i < 64; i += 32)
			_mm256_stream_si256((__m256i *)(o + i), _mm256_loadu_si256((const __m256i *)(x + i)));
#elif defined(__SSE2__)
	for (; bytes >= 64; bytes -= 64, o += 64, x += 64)
		for (int i = 0; i < 64; i += 16)
			_mm_stream_si128((__m128i *)(o + i), _mm_loadu_si128((const __m128i *)(x + i)));
#endif
	memcpy(o, x, bytes);
}
