/* What is known of integers: so that text can say `i < n` where lowering says "less, as signed numbers", and needs no
 * casts that a reader would wonder about.
 *
 * Registers hold bits; C's integers have signs, and those with a sign must not overflow.  A range is what the register
 * means as a signed number.  Sums and products of it are written with a sign only if they stay within the type, else
 * without one, where wrapping is C's own.  Places on the grid and extents (`geometry`) are taken not to overflow 64 bits:
 * offsets into memory that did would be lost anyway. */
#include "emit/msl/msl.h"

__extension__ typedef __int128 Wide;                    /* no product of two ranges overflows it */

static const int64_t geometry_most = INT64_C(1) << 62;

MslRange
msl_range_any(RegType t)
{
	switch (t) {
	case REG_PRED: return (MslRange){0, 1, false};
	case REG_I8: return (MslRange){INT8_MIN, INT8_MAX, false};
	case REG_I16: return (MslRange){INT16_MIN, INT16_MAX, false};
	case REG_I32: return (MslRange){INT32_MIN, INT32_MAX, false};
	default: return (MslRange){INT64_MIN, INT64_MAX, false};
	}
}

MslRange
msl_range_of(const Msl *m, Reg r)
{
	return msl_def(m, r)->range;
}

/* lo .. hi if that is within the type; else anything, or as much as geometry may be. */
static MslRange
held(RegType t, Wide lo, Wide hi, bool geometry)
{
	MslRange any = msl_range_any(t);
	if (lo >= any.lo && hi <= any.hi)
		return (MslRange){(int64_t)lo, (int64_t)hi, geometry};
	if (!geometry || t != REG_I64)
		return any;
	Wide most = geometry_most;
	return (MslRange){(int64_t)MAX(lo, -most), (int64_t)MIN(hi, most), true};
}

static MslRange
product(RegType t, MslRange a, MslRange b)
{
	Wide at[4] = {(Wide)a.lo * b.lo, (Wide)a.lo * b.hi, (Wide)a.hi * b.lo, (Wide)a.hi * b.hi};
	Wide lo = at[0], hi = at[0];
	for (int i = 1; i < 4; i++) {
		lo = MIN(lo, at[i]);
		hi = MAX(hi, at[i]);
	}
	return held(t, lo, hi, a.geometry && b.geometry);
}

/* The least number of ones that covers it. */
static int64_t
ones(int64_t v)
{
	int64_t m = 1;
	while (m - 1 < v && m < geometry_most)
		m <<= 1;
	return m - 1;
}

static MslRange
shift(EmitOp op, RegType t, MslRange a, MslRange b)
{
	int bits = 8 * msl_size(t);
	if (b.lo != b.hi || b.lo < 0 || b.lo >= bits)
		return msl_range_any(t);
	if (op == EMIT_SHL)
		return b.lo > 61 ? msl_range_any(t)
		                 : product(t, a, (MslRange){INT64_C(1) << b.lo, INT64_C(1) << b.lo, true});
	if (op == EMIT_ASHR || a.lo >= 0)
		return (MslRange){a.lo >> b.lo, a.hi >> b.lo, a.geometry};
	return b.lo ? (MslRange){0, bits == 64 ? INT64_MAX >> (b.lo - 1) : (INT64_C(1) << (bits - b.lo)) - 1, false}
	            : msl_range_any(t);
}

MslRange
msl_range_op(const Msl *m, EmitOp op, RegType t, const Reg *in)
{
	MslRange a = msl_range_of(m, in[0]), b = emit_op_operands[op] > 1 ? msl_range_of(m, in[1]) : a;
	MslRange any = msl_range_any(t);
	bool geometry = a.geometry && b.geometry, plain = a.lo >= 0 && b.lo >= 0;
	switch (op) {
	case EMIT_ADD: return held(t, (Wide)a.lo + b.lo, (Wide)a.hi + b.hi, geometry);
	case EMIT_SUB: return held(t, (Wide)a.lo - b.hi, (Wide)a.hi - b.lo, geometry);
	case EMIT_MUL: return product(t, a, b);
	case EMIT_SHL: case EMIT_LSHR: case EMIT_ASHR: return shift(op, t, a, b);
	case EMIT_AND:
		if (plain)
			return (MslRange){0, MIN(a.hi, b.hi), geometry};
		return b.lo >= 0 ? (MslRange){0, b.hi, geometry} : a.lo >= 0 ? (MslRange){0, a.hi, geometry} : any;
	case EMIT_OR: case EMIT_XOR:
		return plain ? (MslRange){0, ones(MAX(a.hi, b.hi)), geometry} : any;
	case EMIT_SMIN: return (MslRange){MIN(a.lo, b.lo), MIN(a.hi, b.hi), geometry};
	case EMIT_SMAX: return (MslRange){MAX(a.lo, b.lo), MAX(a.hi, b.hi), geometry};
	case EMIT_UMIN: return plain ? (MslRange){MIN(a.lo, b.lo), MIN(a.hi, b.hi), geometry} : any;
	case EMIT_UMAX: return plain ? (MslRange){MAX(a.lo, b.lo), MAX(a.hi, b.hi), geometry} : any;
	case EMIT_SDIV: case EMIT_UDIV:
		return plain && b.lo > 0 ? (MslRange){a.lo / b.hi, a.hi / b.lo, geometry} : any;
	case EMIT_SREM: case EMIT_UREM:
		return plain && b.lo > 0 ? (MslRange){0, MIN(a.hi, b.hi - 1), geometry} : any;
	case EMIT_POPCOUNT: case EMIT_CLZ: return (MslRange){0, 64, true};
	case EMIT_SELECT: {
		MslRange c = msl_range_of(m, in[2]);
		return (MslRange){MIN(b.lo, c.lo), MAX(b.hi, c.hi), b.geometry && c.geometry};
	}
	default: return any;
	}
}

MslRange
msl_range_cast(const Msl *m, EmitCast c, RegType to, Reg a)
{
	MslRange r = msl_range_of(m, a), any = msl_range_any(to);
	RegType from = msl_type(m, a);
	switch (c) {
	case CAST_SEXT: return r;
	case CAST_ZEXT:
		if (r.lo >= 0)
			return r;
		return (MslRange){0, (INT64_C(1) << 8 * msl_size(from)) - 1, false};
	case CAST_TRUNC: return r.lo >= any.lo && r.hi <= any.hi ? r : any;
	default: return any;
	}
}
