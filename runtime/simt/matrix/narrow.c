/* Sums of products of 8-bit floats as a warpgroup's unit adds them: products and the sum so far are aligned to the
 * greatest of them and cut off 13 bits behind its point, as is what they add up to.  That is what is known of the
 * hardware by measurement: its accumulator has 14 bits. */
#include <string.h>

#include "runtime/simt/prims.h"

enum { MOST = 32, KEPT_BITS = 13, FRACTION_BITS = 23, SPECIAL = 255 };

static int
exponent_of(float x)
{
	uint32_t v;
	memcpy(&v, &x, sizeof v);
	return (int)(v >> FRACTION_BITS & SPECIAL);
}

/* x without its bits below 2^-13 of `greatest`, the exponent of a number that is not less. */
static float
cut(float x, int greatest)
{
	int lost = FRACTION_BITS - KEPT_BITS + greatest - exponent_of(x);
	uint32_t v;
	memcpy(&v, &x, sizeof v);
	v &= lost > FRACTION_BITS ? 0 : ~0u << lost;
	memcpy(&x, &v, sizeof x);
	return x;
}

float
simt_narrow_sum(int k, const float *row, const float *col, float sum)
{
	float term[MOST + 1] = {sum};
	int greatest = exponent_of(sum);
	for (int i = 0; i < k; i++) {
		term[1 + i] = row[i] * col[8 * i];
		greatest = MAX(greatest, exponent_of(term[1 + i]));
	}
	float out = 0;
	for (int i = 0; i < k + 1; i++)
		out += greatest == SPECIAL ? term[i] : cut(term[i], greatest);
	return exponent_of(out) == SPECIAL ? out : cut(out, exponent_of(out));
}
