/* What the files of mathematical functions share: short names for arithmetic on one float of a thread. */
#ifndef TEGULA_MATH_H
#define TEGULA_MATH_H

#include "lower/lower.h"

/* In f32 or f64; bits: an integer of the same width. */
typedef struct Math {
	Lower *l;
	RegType t, bits;
	bool wide;                                      /* f64 */
} Math;

static inline Reg math_const(Math m, double v) { return thread_float_const(m.l->b, m.t, v); }
static inline Reg math_int(Math m, int64_t v) { return thread_int_const(m.l->b, m.bits, v); }
static inline Reg math_op1(Math m, ThreadOp op, Reg a) { return lower_op1(m.l, op, a); }
static inline Reg math_op2(Math m, ThreadOp op, Reg a, Reg b) { return lower_op2(m.l, op, a, b); }
static inline Reg math_add(Math m, Reg a, Reg b) { return lower_op2(m.l, THREAD_FADD, a, b); }
static inline Reg math_sub(Math m, Reg a, Reg b) { return lower_op2(m.l, THREAD_FSUB, a, b); }
static inline Reg math_mul(Math m, Reg a, Reg b) { return lower_op2(m.l, THREAD_FMUL, a, b); }
static inline Reg math_fma(Math m, Reg a, Reg b, Reg c) { return lower_op3(m.l, THREAD_FMA, a, b, c); }
static inline Reg math_neg(Math m, Reg a) { return lower_op1(m.l, THREAD_FNEG, a); }
static inline Reg math_abs(Math m, Reg a) { return lower_op1(m.l, THREAD_FABS, a); }
static inline Reg math_less(Math m, Reg a, Reg b) { return lower_op2(m.l, THREAD_FLT, a, b); }
static inline Reg math_select(Math m, Reg p, Reg a, Reg b) { return lower_op3(m.l, THREAD_SELECT, p, a, b); }
static inline Reg math_to_bits(Math m, Reg a) { return lower_as(m.l, CAST_BITS, m.bits, a); }
static inline Reg math_of_bits(Math m, Reg a) { return lower_as(m.l, CAST_BITS, m.t, a); }
static inline Reg math_scale(Math m, Reg a, double by) { return math_mul(m, a, math_const(m, by)); }
static inline Reg math_is_nan(Math m, Reg a) { return lower_op2(m.l, THREAD_FUNO, a, a); }
static inline int math_mantissa(Math m) { return m.wide ? 52 : 23; }
static inline int math_bias(Math m) { return m.wide ? 1023 : 127; }

/* A polynomial, the lowest power first. */
Reg math_poly(Math m, const double *c, int n, Reg x);
#define POLY(m, name, x)                                                                           \
	((m).wide ? math_poly(m, name##_64, LEN(name##_64), x) : math_poly(m, name##_32, LEN(name##_32), x))

Reg math_copysign(Math m, Reg magnitude, Reg sign);    /* the magnitude is not negative */
/* 1 / a: rounded correctly in f64, within one unit in f32. */
Reg math_reciprocal(Math m, Reg a);
/* 2^k for an integer register k of m.bits within the normal range. */
Reg math_power_of_two(Math m, Reg k);
/* The nearest integer to x (|x| < 2^21): as a float, and *k as m.bits. */
Reg math_round(Math m, Reg x, Reg *k);
/* 2^x; x is a + b, |b| small. */
Reg math_exp2_sum(Math m, Reg a, Reg b);
/* x = m 2^e for x > 0, e as a float: m from 2/3 to 4/3, or, if `even`, from 1/sqrt(2) to sqrt(2). */
Reg math_split(Math m, Reg x, bool even, Reg *e);

/* math_exp.c */
Reg math_exp(Math m, Reg x, double by);                 /* e^x times a power of two */
Reg math_exp2(Math m, Reg x);
Reg math_expm1(Math m, Reg x);
Reg math_sigmoid(Math m, Reg x);
Reg math_tanh(Math m, Reg x);
Reg math_sinh(Math m, Reg x);
Reg math_cosh(Math m, Reg x);
Reg math_erf(Math m, Reg x);

/* math_log.c */
Reg math_log(Math m, Reg x);
Reg math_log2(Math m, Reg x);
Reg math_log1p(Math m, Reg x);
Reg math_pow(Math m, Reg a, Reg b);
Reg math_rsqrt(Math m, Reg x);

/* math_angle.c */
/* Sines, cosines or tangents of n angles; what they share is made once.  once: no other op takes these angles. */
void math_angles(Math m, OpKind op, const Reg *x, int n, bool once, Reg *out);
Reg math_asin(Math m, Reg x);
Reg math_acos(Math m, Reg x);
Reg math_atan(Math m, Reg x);
Reg math_atan2(Math m, Reg y, Reg x);

/* math_rem.c */
Reg math_rem(Math m, Reg a, Reg b);

/* By its name, if the target has it or it has been given; else 0. */
Reg math_call(Math m, OpKind op, Reg a, Reg b);

/* One function in f32 or f64; 0 if op is none. */
Reg math_one(Math m, OpKind op, bool fast, Reg a, Reg b);

#endif
