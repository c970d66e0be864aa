/* Sums of products of 8-bit floats as a warpgroup's unit adds them: products and the sum so far are aligned to the
 * greatest of them and cut off 13 bits behind its point, as is what they add up to.  That is what is known of the
 * hardware by measurement: its accumulator has 14 bits.  Eight sums are made side by side. */
#include <string.h>

#include "runtime/simt/prims.h"

enum { MOST = 32, WIDE = 8, KEPT_BITS = 13, FRACTION_BITS = 23, SPECIAL = 255 };

#define INLINE static inline __attribute__((always_inline))

typedef float Floats __attribute__((vector_size(4 * WIDE)));
typedef uint32_t Words __attribute__((vector_size(4 * WIDE)));
typedef int32_t Ints __attribute__((vector_size(4 * WIDE)));

INLINE void
exponents(const Floats *x, Ints *out)
{
	*out = (Ints)((Words)*x >> FRACTION_BITS & SPECIAL);
}

/* Adds x without its bits below 2^-13 of `greatest`, the exponents of numbers that are not less. */
INLINE void
add_cut(const Floats *x, const Ints *greatest, Floats *out)
{
	Ints exponent;
	exponents(x, &exponent);
	Ints lost = FRACTION_BITS - KEPT_BITS + *greatest - exponent;
	Words kept = ~(Words){0} << (Words)(lost & 31) & ~(Words)(lost > FRACTION_BITS);
	*out += (Floats)((Words)*x & (kept | (Words)(*greatest == SPECIAL)));
}

INLINE void
narrow_sums(int k, const float *row, const float *cols, float *sums)
{
	Floats term[MOST + 1], out = {0}, all = {0};
	Ints greatest, exponent;
	memcpy(&term[0], sums, sizeof term[0]);
	exponents(&term[0], &greatest);
	for (int i = 0; i < k; i++) {
		Floats by;
		memcpy(&by, cols + WIDE * i, sizeof by);
		term[1 + i] = row[i] * by;
		exponents(&term[1 + i], &exponent);
		Ints more = exponent > greatest;
		greatest = (exponent & more) | (greatest & ~more);
	}
	for (int i = 0; i < k + 1; i++)
		add_cut(&term[i], &greatest, &out);
	exponents(&out, &exponent);
	add_cut(&out, &exponent, &all);
	memcpy(sums, &all, sizeof all);
}

static void
narrow_sums_plain(int k, const float *row, const float *cols, float *sums)
{
	narrow_sums(k, row, cols, sums);
}

#ifdef __x86_64__
__attribute__((target("avx2"))) static void
narrow_sums_avx2(int k, const float *row, const float *cols, float *sums)
{
	narrow_sums(k, row, cols, sums);
}
#endif

void
simt_narrow_sums(int k, const float *row, const float *cols, float *sums)
{
#ifdef __x86_64__
	if (__builtin_cpu_supports("avx2")) {
		narrow_sums_avx2(k, row, cols, sums);
		return;
	}
#endif
	narrow_sums_plain(k, row, cols, sums);
}
