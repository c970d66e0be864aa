/* Elements between formats, one at a time or in blocks, and floats as text: for arguments, examples, .npy files and
 * printing. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "num/loops.h"

/* The tile format of one element in the memory of a dtype. */
static uint64_t
load_raw(DType t, const void *base, int64_t index)
{
	uint64_t v = 0;
	if (dtype_is_packed(t)) {
		tile_unpack(t, base, index, &v, 1);
	} else {
		int size = dtype_tile_size(t);
		memcpy(&v, (const char *)base + index * size, (size_t)size);
	}
	return v;
}

static void
store_raw(DType t, void *base, int64_t index, const void *v)
{
	if (dtype_is_packed(t)) {
		tile_pack(v, base, index, 1);
	} else {
		int size = dtype_tile_size(t);
		memcpy((char *)base + index * size, v, (size_t)size);
	}
}

static void
cast_one(DType from, const void *x, DType to, void *out, bool exact)
{
	Elem e;
	elem_make(&e, CPU_BASE, OP_CAST, &from, 1, to, exact ? ELEM_EXACT : 0);
	elem_run(&e, out, &x, 0, 1);
}

/* Types of memory take short ways: whole arrays go through here one by one. */
double
dtype_load_f64(DType t, const void *base, int64_t index)
{
	uint64_t raw = load_raw(t, base, index);
	double v;
	float f;
	switch (t) {
	case TY_F64:
		memcpy(&v, &raw, sizeof v);
		return v;
	case TY_F32:
		memcpy(&f, &raw, sizeof f);
		return f;
	default:
		if (!dtype_is_float(t))
			break;
		loops_at[CPU_BASE].widen(t)(&raw, &f, 1);
		return f;
	}
	cast_one(t, &raw, TY_F64, &v, false);
	return v;
}

void
dtype_store_f64(DType t, void *base, int64_t index, double v)
{
	uint64_t raw = 0;
	float f = (float)v;
	if (t == TY_F64)
		memcpy(&raw, &v, sizeof v);
	else if (t == TY_F32)
		memcpy(&raw, &f, sizeof f);
	else if (dtype_is_narrow(t) && f == v)          /* rounds once all the same */
		loops_at[CPU_BASE].narrow(t, isinf(v))(&f, &raw, 1);
	else
		cast_one(TY_F64, &v, t, &raw, isinf(v));
	store_raw(t, base, index, &raw);
}

void
dtype_convert_f64(DType t, void *base, int64_t index, double v)
{
	dtype_store_f64(t, base, index, isinf(v) && dtype_info[t].bits <= 8 ? copysign(DBL_MAX, v) : v);
}

int64_t
dtype_load_i64(DType t, const void *base, int64_t index)
{
	int64_t v;

	switch (t) {
	case TY_I8: return ((const int8_t *)base)[index];
	case TY_I16: return ((const int16_t *)base)[index];
	case TY_I32: return ((const int32_t *)base)[index];
	case TY_I64: case TY_U64: return ((const int64_t *)base)[index];
	case TY_U8: return ((const uint8_t *)base)[index];
	case TY_U16: return ((const uint16_t *)base)[index];
	case TY_U32: return ((const uint32_t *)base)[index];
	case TY_BOOL: return ((const uint8_t *)base)[index];
	default: break;
	}
	uint64_t raw = load_raw(t, base, index);
	cast_one(t, &raw, TY_I64, &v, false);
	return v;
}

void
dtype_store_i64(DType t, void *base, int64_t index, int64_t v)
{
	uint64_t raw = t == TY_BOOL ? v != 0 : (uint64_t)v;
	if (dtype_is_float(t) || dtype_is_packed(t))
		cast_one(TY_I64, &v, t, &raw, false);
	store_raw(t, base, index, &raw);
}

/* Digits before the point, from which on "%.*g" needs no exponent: 10 is no "1e+01"; 1 beyond what `most` show. */
static int
whole_digits(double x, int most)
{
	int n = 1;
	for (double least = 10; fabs(x) >= least && n <= most; least *= 10)
		n++;
	return n > most ? 1 : n;
}

void
float_format(DType t, double x, Text *out)
{
	char buf[40];
	int digits = t == TY_F64 ? 17 : t == TY_F32 ? 9 : 5;

	if (isnan(x)) {
		text_put(out, "nan");
		return;
	}
	for (int n = whole_digits(x, digits); n <= digits; n++) {
		double back;
		number_format(buf, sizeof buf, "%.*g", n, x);
		back = number_read(buf, NULL);
		if (t == TY_F32 ? (float)back == (float)x : back == x)
			break;
	}
	text_put(out, buf);
}

void
tile_unpack(DType t, const void *base, int64_t at, void *out, int64_t n)
{
	const uint8_t *x = base;
	uint8_t *o = out;
	int flip = t == TY_I4 ? 8 : 0;
	for (int64_t i = 0; i < n; i++) {
		int nibble = x[(at + i) >> 1] >> ((at + i) & 1) * 4 & 15;
		o[i] = (uint8_t)((nibble ^ flip) - flip);
	}
}

void
tile_pack(const void *in, void *base, int64_t at, int64_t n)
{
	const uint8_t *x = in;
	uint8_t *o = base;
	for (int64_t i = 0; i < n; i++) {
		uint8_t *byte = &o[(at + i) >> 1];
		int shift = (int)((at + i) & 1) * 4;
		*byte = (uint8_t)((*byte & ~(15 << shift)) | (x[i] & 15) << shift);
	}
}

void
perturb_f64(CpuLevel level, double *x, int64_t n, double u, uint64_t *rng)
{
	loops_at[level].perturb(x, n, u, *rng);
	*rng += (uint64_t)n;
}
