/* Ranges of integers.
 *
 * Registers hold bits; a range is what a register means as a signed number.  What ranges decide makes no node (a clamp that
 * never clamps, a test that always holds): where a result may leave its type, its range is the type's, for arithmetic
 * wraps, that of a hash of positions too.  Metal's writer, whose integers have signs, writes sums and products with a
 * sign where they stay within the type, and those of positions on the grid, extents and small numbers (`geometry`),
 * which it takes not to overflow 64 bits: offsets into memory that did would be lost anyway. */
#include "thread/builder.h"

__extension__ typedef __int128 Wide;                    /* no product of two ranges overflows it */

enum { GEOMETRY_BITS = 40 };                            /* of a number that may be an extent */

ThreadRange
thread_range_any(RegType t)
{
	switch (t) {
	case REG_PRED: return (ThreadRange){0, 1, false};
	case REG_I8: return (ThreadRange){INT8_MIN, INT8_MAX, false};
	case REG_I16: return (ThreadRange){INT16_MIN, INT16_MAX, false};
	case REG_I32: return (ThreadRange){INT32_MIN, INT32_MAX, false};
	default: return (ThreadRange){INT64_MIN, INT64_MAX, false};
	}
}

/* Results of regions and of the source's PTX may be of any type. */
ThreadRange
thread_range(const ThreadModule *m, Reg r)
{
	const ThreadNode *n = thread_def(m, r);
	return n->type == thread_type(m, r) && !n->region[0] ? n->range : thread_range_any(thread_type(m, r));
}

/* lo .. hi if that is within the type; else anything. */
static ThreadRange
held(RegType t, Wide lo, Wide hi, bool geometry)
{
	ThreadRange any = thread_range_any(t);
	if (lo >= any.lo && hi <= any.hi)
		return (ThreadRange){(int64_t)lo, (int64_t)hi, geometry};
	any.geometry = geometry && t == REG_I64;
	return any;
}

ThreadRange
thread_range_number(int64_t v)
{
	int64_t most = INT64_C(1) << GEOMETRY_BITS;
	return (ThreadRange){v, v, v >= -most && v <= most};
}

static ThreadRange
product(RegType t, ThreadRange a, ThreadRange b)
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
	int64_t m = 0;
	while (m < v)
		m = m << 1 | 1;
	return m;
}

static ThreadRange
shift(ThreadOp op, RegType t, ThreadRange a, ThreadRange b)
{
	int bits = 8 * thread_type_bytes(t);
	if (b.lo != b.hi || b.lo < 0 || b.lo >= bits)
		return thread_range_any(t);
	if (op == THREAD_SHL)
		return b.lo > 61 ? thread_range_any(t)
		                 : product(t, a, thread_range_number(INT64_C(1) << b.lo));
	if (op == THREAD_ASHR || a.lo >= 0)
		return (ThreadRange){a.lo >> b.lo, a.hi >> b.lo, a.geometry};
	return b.lo ? (ThreadRange){0, bits == 64 ? INT64_MAX >> (b.lo - 1) : (INT64_C(1) << (bits - b.lo)) - 1, false}
	            : thread_range_any(t);
}

static ThreadRange
of_op(const ThreadModule *m, ThreadOp op, RegType t, const Reg *in)
{
	ThreadRange a = thread_range(m, in[0]), b = thread_op_operands[op] > 1 ? thread_range(m, in[1]) : a;
	ThreadRange any = thread_range_any(t);
	bool geometry = a.geometry && b.geometry, plain = a.lo >= 0 && b.lo >= 0;
	switch (op) {
	case THREAD_ADD: return held(t, (Wide)a.lo + b.lo, (Wide)a.hi + b.hi, geometry);
	case THREAD_SUB: return held(t, (Wide)a.lo - b.hi, (Wide)a.hi - b.lo, geometry);
	case THREAD_MUL: return product(t, a, b);
	case THREAD_SHL: case THREAD_LSHR: case THREAD_ASHR: return shift(op, t, a, b);
	case THREAD_AND:
		if (plain)
			return (ThreadRange){0, MIN(a.hi, b.hi), geometry};
		return b.lo >= 0 ? (ThreadRange){0, b.hi, geometry} : a.lo >= 0 ? (ThreadRange){0, a.hi, geometry} : any;
	case THREAD_OR: case THREAD_XOR:
		return plain ? (ThreadRange){0, ones(MAX(a.hi, b.hi)), geometry} : any;
	case THREAD_SMIN: return (ThreadRange){MIN(a.lo, b.lo), MIN(a.hi, b.hi), geometry};
	case THREAD_SMAX: return (ThreadRange){MAX(a.lo, b.lo), MAX(a.hi, b.hi), geometry};
	case THREAD_UMIN:
		if (plain)
			return (ThreadRange){MIN(a.lo, b.lo), MIN(a.hi, b.hi), geometry};
		return b.lo >= 0 ? (ThreadRange){0, b.hi, geometry} : a.lo >= 0 ? (ThreadRange){0, a.hi, geometry} : any;
	case THREAD_UMAX: return plain ? (ThreadRange){MAX(a.lo, b.lo), MAX(a.hi, b.hi), geometry} : any;
	case THREAD_SDIV:
		if (!plain || b.lo == 0)
			return a.lo > any.lo ? (ThreadRange){-MAX(a.hi, -a.lo), MAX(a.hi, -a.lo), false} : any;
		return (ThreadRange){a.lo / b.hi, a.hi / b.lo, geometry};
	case THREAD_UDIV:
		return plain && b.lo > 0 ? (ThreadRange){a.lo / b.hi, a.hi / b.lo, geometry} : any;
	case THREAD_SREM: case THREAD_UREM:
		return plain && b.lo > 0 ? (ThreadRange){0, MIN(a.hi, b.hi - 1), geometry} : any;
	case THREAD_POPCOUNT: case THREAD_CLZ: return (ThreadRange){0, 64, true};
	case THREAD_SELECT: {
		ThreadRange c = thread_range(m, in[2]);
		return (ThreadRange){MIN(b.lo, c.lo), MAX(b.hi, c.hi), b.geometry && c.geometry};
	}
	default: return any;
	}
}

static ThreadRange
of_cast(const ThreadModule *m, ThreadCast c, RegType to, Reg a)
{
	ThreadRange r = thread_range(m, a), any = thread_range_any(to);
	RegType from = thread_type(m, a);
	switch (c) {
	case CAST_SEXT: return r;
	case CAST_ZEXT:
		if (r.lo >= 0)
			return r;
		return (ThreadRange){0, (INT64_C(1) << 8 * thread_type_bytes(from)) - 1, false};
	case CAST_TRUNC: return r.lo >= any.lo && r.hi <= any.hi ? r : any;
	default: return any;
	}
}

static ThreadRange
of_prim(const ThreadModule *m, PrimKind k)
{
	switch (k) {
	case PRIM_THREAD: return (ThreadRange){0, m->kernel.threads - 1, true};
	case PRIM_LANE: return (ThreadRange){0, m->target->lanes - 1, true};
	case PRIM_SIMDGROUP: return (ThreadRange){0, (m->kernel.threads - 1) / m->target->lanes, true};
	case PRIM_BLOCK: case PRIM_NBLOCKS: return (ThreadRange){0, INT32_MAX, true};
	default: return thread_range_any(prim_result(k));
	}
}

ThreadRange
thread_range_node(const ThreadModule *m, const ThreadNode *n)
{
	bool wide = n->type == REG_I32 || n->type == REG_I64;
	switch (n->kind) {
	case NODE_OP: return wide ? of_op(m, (ThreadOp)n->op, n->type, n->in) : thread_range_any(n->type);
	case NODE_CAST: return wide ? of_cast(m, (ThreadCast)n->op, n->type, n->in[0]) : thread_range_any(n->type);
	case NODE_PRIM: return of_prim(m, (PrimKind)n->op);
	default: return thread_range_any(n->type);
	}
}
