/* The range of a term's elements: magnitude, fraction bits, and how far the devices' results may be apart.
 *
 * A float operation that is computed element by element is rounded alike everywhere; a sum, a scan or a product of matrices is added up in another order on each device, and
 * agrees only if no partial sum is rounded: count * most * 2^frac must fit the significand.
 * Divisions and mathematical functions may be apart by some units in the last place (ulp); terms of
 * them carry the bound along. */
#include "gen_tgl.h"

#include <math.h>

int
type_mantissa(DType t)
{
	switch (t) {
	case TY_F16: return 11;
	case TY_BF16: return 8;
	case TY_F32: return 24;
	case TY_F64: return 53;
	case TY_F8E4M3: return 4;
	case TY_F8E5M2: return 3;
	case TY_F4E2M1: return 2;
	case TY_BOOL: return 1;
	default: return dtype_info[t].bits - !dtype_is_unsigned(t);
	}
}

double
type_largest(DType t)
{
	switch (t) {
	case TY_F16: return 65504;
	case TY_BF16:
	case TY_F32: return 3e38;
	case TY_F64: return 1e308;
	case TY_F8E4M3: return 448;
	case TY_F8E5M2: return 57344;
	case TY_F4E2M1: return 6;
	default: return ldexp(1, type_mantissa(t));
	}
}

ValueRange
range_of_type(DType t)
{
	if (dtype_is_float(t))
		return (ValueRange){INFINITY, FRAC_ANY, 0};
	return (ValueRange){type_largest(t), 0, 0};
}

ValueRange
range_settle(DType t, ValueRange w)
{
	if (!dtype_is_float(t))
		return (ValueRange){fmin(w.most, type_largest(t)), 0, 0};
	if (!(w.most <= type_largest(t)))
		w.most = INFINITY;
	if (w.frac > FRAC_ANY)
		w.frac = FRAC_ANY;
	if (w.err > 0)
		w.err += ldexp(w.most, 1 - type_mantissa(t));
	return w;
}

ValueRange
range_both(ValueRange a, ValueRange b)
{
	return (ValueRange){fmax(a.most, b.most), MAX(a.frac, b.frac), fmax(a.err, b.err)};
}

ValueRange
range_add(ValueRange a, ValueRange b)
{
	return (ValueRange){a.most + b.most, MAX(a.frac, b.frac), a.err + b.err};
}

ValueRange
range_mul(ValueRange a, ValueRange b)
{
	double most = isfinite(a.most) && isfinite(b.most) ? a.most * b.most : INFINITY;
	double err = a.err > 0 || b.err > 0 ? a.err * b.most + b.err * a.most + a.err * b.err : 0;
	return (ValueRange){most, MIN(a.frac + b.frac, FRAC_ANY), err};
}

ValueRange
range_cast(DType from, DType to, ValueRange w)
{
	if (dtype_is_float(to) && dtype_info[to].bits <= 8 && isfinite(w.most))
		w.most = fmin(w.most, type_largest(to)); /* it saturates */
	return range_settle(to, w);
}

bool
range_within(ValueRange a, ValueRange b)
{
	return a.most <= b.most && a.frac <= b.frac && a.err <= b.err;
}
