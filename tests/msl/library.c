/* Functions that kernels call, without those of a simdgroup: atomics, functions of libm, conversions of half. */
#include <math.h>
#include <string.h>

#include "tests/msl/msl.h"

/* as in include/msl_atomic.h and include/msl_math.h */
enum { LOAD, STORE, EXCHANGE, CAS, ADD, SUB, MIN_OF, MAX_OF, AND, OR, XOR };
enum { TYPE_I32, TYPE_U32, TYPE_F32, TYPE_U64 };

uint64_t msl_atomic(int op, int type, volatile void *at, uint64_t value, uint64_t expected, int line);
float msl_math(int which, float x, float y);

static uint32_t
combine_float(int op, uint32_t old, uint32_t value)
{
	float a, b;
	memcpy(&a, &old, 4);
	memcpy(&b, &value, 4);
	a = op == ADD ? a + b : a - b;
	memcpy(&old, &a, 4);
	return old;
}

static uint64_t
combine(int op, int type, uint64_t old, uint64_t value, uint64_t expected)
{
	bool less = type == TYPE_I32 ? (int32_t)value < (int32_t)old : value < old;
	bool more = type == TYPE_I32 ? (int32_t)value > (int32_t)old : value > old;
	if (type == TYPE_F32 && (op == ADD || op == SUB))
		return combine_float(op, (uint32_t)old, (uint32_t)value);
	switch (op) {
	case STORE:
	case EXCHANGE: return value;
	case CAS: return old == expected ? value : old;
	case ADD: return old + value;
	case SUB: return old - value;
	case MIN_OF: return less ? value : old;
	case MAX_OF: return more ? value : old;
	case AND: return old & value;
	case OR: return old | value;
	case XOR: return old ^ value;
	default: return old;
	}
}

uint64_t
msl_atomic(int op, int type, volatile void *at, uint64_t value, uint64_t expected, int line)
{
	int bytes = type == TYPE_U64 ? 8 : 4;
	uint64_t old = 0;
	unsigned how = op == LOAD ? ACCESS_READ : op == STORE ? ACCESS_WRITE : ACCESS_READ | ACCESS_WRITE;
	msl_access((const void *)at, bytes, bytes, how | ACCESS_ATOMIC, site_line(line));
	memcpy(&old, (const void *)at, (size_t)bytes);
	uint64_t new = combine(op, type, old, value, expected);
	if (op != LOAD)
		memcpy((void *)at, &new, (size_t)bytes);
	return old;
}

float
msl_math(int which, float x, float y)
{
	switch (which) {
	case 0: return expf(x);
	case 1: return exp2f(x);
	case 2: return powf(10, x);
	case 3: return logf(x);
	case 4: return log2f(x);
	case 5: return log10f(x);
	case 6: return sinf(x);
	case 7: return cosf(x);
	case 8: return tanf(x);
	case 9: return asinf(x);
	case 10: return acosf(x);
	case 11: return atanf(x);
	case 12: return sinhf(x);
	case 13: return coshf(x);
	case 14: return tanhf(x);
	case 15: return asinhf(x);
	case 16: return acoshf(x);
	case 17: return atanhf(x);
	case 18: return powf(x, y);
	case 19: return atan2f(x, y);
	default: return fmodf(x, y);
	}
}

/* clang before 15 calls these for half where the processor has no instruction; later ones have __extendhfsf2 and
 * __truncsfhf2 in the compiler's own library, of the same meaning. */
float
__gnu_h2f_ieee(uint16_t h)
{
	int exponent = h >> 10 & 31;
	float f = (float)(h & 0x3ff);
	f = exponent == 31 ? (f != 0 ? NAN : INFINITY) : exponent ? ldexpf(f + 1024, exponent - 25) : ldexpf(f, -24);
	return h & 0x8000 ? -f : f;
}

uint16_t
__gnu_f2h_ieee(float f)
{
	uint16_t sign = signbit(f) ? 0x8000 : 0;
	f = fabsf(f);
	if (isnan(f))
		return sign | 0x7e00;
	if (f >= 65520)
		return sign | 0x7c00;
	if (f < 0x1p-14f)
		return sign | (uint16_t)rintf(ldexpf(f, 24));
	int exponent;
	float part = rintf(ldexpf(frexpf(f, &exponent), 11));  /* 1024 … 2048 */
	return sign | (uint16_t)(((exponent + 13) << 10) + (int)part);
}
