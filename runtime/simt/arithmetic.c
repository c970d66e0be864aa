/* Arithmetic that compiled code calls: what this machine may have no instruction for. */
#include "num/num.h"
#include "runtime/simt/arithmetic.h"

#include <float.h>
#include <math.h>

static uint16_t
narrow(DType t, double v)
{
	uint16_t bits;
	dtype_store_f64(t, &bits, 0, v);
	return bits;
}

/* As ex2.approx.ftz.f32: 0 for what would be denormal. */
static double
exp2_flushed(double v)
{
	double e = exp2(v);
	return e < FLT_MIN ? 0 : e;
}

#define FUNCTION(result, name, type, value)                                                        \
	result name(type v)                                                                        \
	{                                                                                          \
		return value;                                                                      \
	}
FUNCTION(float, simt_from_f16, uint16_t, (float)dtype_load_f64(TY_F16, &v, 0))
FUNCTION(uint16_t, simt_to_f16, float, narrow(TY_F16, v))
FUNCTION(uint16_t, simt_to_f16_of_f64, double, narrow(TY_F16, v))
FUNCTION(uint16_t, simt_to_bf16_of_f64, double, narrow(TY_BF16, v))
FUNCTION(double, simt_exp2, double, exp2_flushed(v))
FUNCTION(double, simt_log2, double, log2(v))
FUNCTION(double, simt_sin, double, sin(v))
FUNCTION(double, simt_cos, double, cos(v))
FUNCTION(double, simt_tanh, double, tanh(v))
#undef FUNCTION

/* ---- atomic sums of 16 bits ---- */

static uint16_t
sum(DType t, uint16_t a, uint16_t b)
{
	return narrow(t, dtype_load_f64(t, &a, 0) + dtype_load_f64(t, &b, 0));
}

static uint16_t
add(DType t, uint16_t *p, uint16_t v)
{
	uint16_t old = __atomic_load_n(p, __ATOMIC_RELAXED);
	while (!__atomic_compare_exchange_n(p, &old, sum(t, old, v), true, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED))
		;
	return old;
}

/* Each half by itself: the instruction guarantees no more. */
static uint32_t
add_pair(DType t, uint32_t *p, uint32_t v)
{
	uint16_t *half = (uint16_t *)(void *)p;
	uint32_t low = add(t, half, (uint16_t)v);
	return low | (uint32_t)add(t, half + 1, (uint16_t)(v >> 16)) << 16;
}

#define SUM(name, type, add, dtype)                                                                \
	type name(type *p, type v)                                                                 \
	{                                                                                          \
		return add(dtype, p, v);                                                           \
	}
SUM(simt_add_f16, uint16_t, add, TY_F16)
SUM(simt_add_bf16, uint16_t, add, TY_BF16)
SUM(simt_add_f16x2, uint32_t, add_pair, TY_F16)
SUM(simt_add_bf16x2, uint32_t, add_pair, TY_BF16)
#undef SUM
