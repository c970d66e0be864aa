/* What need not be computed: operations on constants, operands that change nothing, and what ranges decide.
 *
 *     umin r1, 7          where r1 is from 0 to 3           =>   r1
 *     slt r2, 64          where r2 is from 0 to 31          =>   true
 *     urem r3, 8                                            =>   and r3, 7
 *     s2f r4                where r4 fits into 32 bits      =>   s2f of its low half
 *
 * Floats are left alone: whether they fold, and how they round, the writer knows. */
#include "thread/builder.h"

#include <string.h>

static uint64_t
unsigned_of(RegType t, int64_t v)
{
	int bits = t == REG_PRED ? 1 : 8 * thread_type_bytes(t);
	return bits == 64 ? (uint64_t)v : (uint64_t)v & ((UINT64_C(1) << bits) - 1);
}

bool
thread_fold(ThreadOp op, RegType t, int64_t a, int64_t b, int64_t *out)
{
	uint64_t x = unsigned_of(t, a), y = unsigned_of(t, b);
	bool shifts = b >= 0 && b < 8 * thread_type_bytes(t);
	switch (op) {
	case THREAD_ADD: *out = (int64_t)(x + y); return true;
	case THREAD_SUB: *out = (int64_t)(x - y); return true;
	case THREAD_MUL: *out = (int64_t)(x * y); return true;
	case THREAD_AND: *out = a & b; return true;
	case THREAD_OR: *out = a | b; return true;
	case THREAD_XOR: *out = a ^ b; return true;
	case THREAD_SHL: *out = shifts ? (int64_t)(x << b) : 0; return shifts;
	case THREAD_LSHR: *out = shifts ? (int64_t)(x >> b) : 0; return shifts;
	case THREAD_ASHR: *out = shifts ? a >> b : 0; return shifts;
	case THREAD_UDIV: *out = y ? (int64_t)(x / y) : 0; return y != 0;
	case THREAD_UREM: *out = y ? (int64_t)(x % y) : 0; return y != 0;
	case THREAD_SDIV: *out = b > 0 ? a / b : 0; return b > 0;
	case THREAD_SREM: *out = b > 0 ? a % b : 0; return b > 0;
	case THREAD_EQ: *out = a == b; return true;
	case THREAD_NE: *out = a != b; return true;
	case THREAD_SLT: *out = a < b; return true;
	case THREAD_SLE: *out = a <= b; return true;
	case THREAD_ULT: *out = x < y; return true;
	case THREAD_ULE: *out = x <= y; return true;
	case THREAD_SMIN: *out = MIN(a, b); return true;
	case THREAD_SMAX: *out = MAX(a, b); return true;
	case THREAD_UMIN: *out = x < y ? a : b; return true;
	case THREAD_UMAX: *out = x > y ? a : b; return true;
	default: return false;
	}
}

/* Of an operation with a constant: the operand that is its result; 0: there is none. */
static Reg
neutral(const ThreadBuilder *b, ThreadOp op, RegType t, Reg x, Reg y)
{
	int64_t v;
	if (!thread_const(b->m, y, &v))
		return 0;
	switch (op) {
	case THREAD_ADD: case THREAD_SUB: case THREAD_SHL: case THREAD_LSHR: case THREAD_ASHR: case THREAD_XOR:
		return v == 0 ? x : 0;
	case THREAD_OR:
		return v == 0 ? x : t == REG_PRED || v == -1 ? y : 0;
	case THREAD_MUL:
		return v == 1 ? x : v == 0 ? y : 0;
	case THREAD_SDIV: case THREAD_UDIV:
		return v == 1 ? x : 0;
	case THREAD_AND:
		return v == 0 ? y : t == REG_PRED || v == -1 ? x : 0;
	default:
		return 0;
	}
}

/* Of an operation on one register twice. */
static Reg
twice(ThreadBuilder *b, ThreadOp op, RegType t, Reg x)
{
	switch (op) {
	case THREAD_AND: case THREAD_OR: case THREAD_SMIN: case THREAD_SMAX: case THREAD_UMIN: case THREAD_UMAX:
		return x;
	case THREAD_SUB: case THREAD_XOR:
		return thread_int_const(b, t, 0);
	case THREAD_EQ: case THREAD_SLE: case THREAD_ULE:
		return thread_int_const(b, REG_PRED, 1);
	case THREAD_NE: case THREAD_SLT: case THREAD_ULT:
		return thread_int_const(b, REG_PRED, 0);
	default:
		return 0;
	}
}

static Reg
compared(ThreadBuilder *b, bool strictly, ThreadRange x, ThreadRange y)
{
	if (strictly ? x.hi < y.lo : x.hi <= y.lo)
		return thread_int_const(b, REG_PRED, 1);
	if (strictly ? x.lo >= y.hi : x.lo > y.hi)
		return thread_int_const(b, REG_PRED, 0);
	return 0;
}

/* What ranges decide. */
static Reg
decided(ThreadBuilder *b, ThreadOp op, Reg x, Reg y)
{
	ThreadRange r = thread_range(b->m, x), s = thread_range(b->m, y);
	bool plain = r.lo >= 0 && s.lo >= 0;            /* unsigned is signed */
	int64_t v;
	switch (op) {
	case THREAD_SMAX: return r.lo >= s.hi ? x : s.lo >= r.hi ? y : 0;
	case THREAD_SMIN: return r.hi <= s.lo ? x : s.hi <= r.lo ? y : 0;
	case THREAD_UMIN: return !plain ? 0 : r.hi <= s.lo ? x : s.hi <= r.lo ? y : 0;
	case THREAD_UMAX: return !plain ? 0 : r.lo >= s.hi ? x : s.lo >= r.hi ? y : 0;
	case THREAD_ULT: case THREAD_ULE: return plain ? compared(b, op == THREAD_ULT, r, s) : 0;
	case THREAD_SLT: case THREAD_SLE: return compared(b, op == THREAD_SLT, r, s);
	case THREAD_AND:                                /* a mask that keeps all there can be */
		return plain && thread_const(b->m, y, &v) && v > 0 && (v & (int64_t)((uint64_t)v + 1)) == 0 && r.hi <= v
		    ? x : 0;
	default: return 0;
	}
}

/* The remainder by a power of two of what is never negative. */
static Reg
remainder_by_mask(ThreadBuilder *b, ThreadOp op, RegType t, Reg x, Reg y)
{
	int64_t v;
	if (!thread_const(b->m, y, &v) || v <= 0 || (v & (v - 1)) || (op == THREAD_SREM && thread_range(b->m, x).lo < 0))
		return 0;
	return thread_op(b, THREAD_AND, x, thread_int_const(b, t, v - 1), 0);
}

static bool
fits_word(ThreadRange r)
{
	return r.lo >= INT32_MIN && r.hi <= INT32_MAX;
}

/* Signed, of numbers of 32 bits but the least, whose quotient by -1 has more. */
static Reg
divided_in_words(ThreadBuilder *b, ThreadOp op, Reg x, Reg y)
{
	bool is_signed = op == THREAD_SDIV || op == THREAD_SREM;
	ThreadRange r = thread_range(b->m, x), s = thread_range(b->m, y);
	if (!is_signed || !fits_word(r) || !fits_word(s) || (r.lo == INT32_MIN && s.lo < 0))
		return 0;
	Reg q = thread_op(b, op, thread_cast(b, CAST_TRUNC, REG_I32, x), thread_cast(b, CAST_TRUNC, REG_I32, y), 0);
	return thread_cast(b, CAST_SEXT, REG_I64, q);
}

/* Divisions of 64 bits take a GPU tens of instructions, those of 32 a few, and without signs fewer.  A divisor may be
 * greater than what is divided: it is then brought down to the greatest number of 32 bits, which is greater still.
 *
 * Comparisons stay: a loop's own test has the width of its index, and is joined with one before the loop only where these
 * are the same. */
static Reg
divided_plainly(ThreadBuilder *b, ThreadOp op, Reg x, Reg y)
{
	ThreadRange r = thread_range(b->m, x), s = thread_range(b->m, y);
	bool divides = op == THREAD_SDIV || op == THREAD_UDIV, rests = op == THREAD_SREM || op == THREAD_UREM;
	ThreadOp plain = divides ? THREAD_UDIV : THREAD_UREM;
	if (!divides && !rests)
		return 0;
	if (r.lo < 0 || s.lo < 1)
		return divided_in_words(b, op, x, y);
	if (r.hi > INT32_MAX || (r.hi == INT32_MAX && !fits_word(s)))
		return op == plain ? 0 : thread_op(b, plain, x, y, 0);
	if (!fits_word(s))
		y = thread_op(b, THREAD_UMIN, y, thread_int_const(b, REG_I64, INT32_MAX), 0);
	x = thread_cast(b, CAST_TRUNC, REG_I32, x);
	y = thread_cast(b, CAST_TRUNC, REG_I32, y);
	return thread_cast(b, CAST_ZEXT, REG_I64, thread_op(b, plain, x, y, 0));
}

static bool
is_commutative(ThreadOp op)
{
	return op == THREAD_ADD || op == THREAD_MUL || op == THREAD_AND || op == THREAD_OR || op == THREAD_XOR;
}

static Reg
integers(ThreadBuilder *b, ThreadOp op, RegType t, Reg x, Reg y)
{
	int64_t v, w, out;
	bool known = thread_const(b->m, x, &v), both = known && thread_const(b->m, y, &w);
	if (both && thread_fold(op, t, v, w, &out))
		return thread_int_const(b, thread_is_comparison(op) ? REG_PRED : t, out);
	if (known && is_commutative(op)) {
		Reg r = x;
		x = y;
		y = r;
	}
	Reg r = neutral(b, op, t, x, y);
	if (!r && x == y)
		r = twice(b, op, t, x);
	if (!r && (t == REG_I32 || t == REG_I64))
		r = decided(b, op, x, y);
	if (!r && (op == THREAD_SREM || op == THREAD_UREM))
		r = remainder_by_mask(b, op, t, x, y);
	return r || t != REG_I64 ? r : divided_plainly(b, op, x, y);
}

static Reg
operation(ThreadBuilder *b, ThreadNode *n)
{
	const ThreadOp op = (ThreadOp)n->op;
	Reg *in = n->in, x = in[0], r = 0;
	RegType t = thread_type_of(b, x);
	int64_t v;
	if (op == THREAD_SELECT)
		return in[1] == in[2] ? in[1] : !thread_const(b->m, x, &v) ? 0 : v ? in[1] : in[2];
	if (op == THREAD_NOT)
		return thread_const(b->m, x, &v) ? thread_int_const(b, t, ~v) : 0;
	if (n->nin == 2 && !thread_is_float(t) && t != REG_GLOBAL && t != REG_SHARED)
		r = integers(b, op, t, x, in[1]);
	if (!r && is_commutative(op) && thread_const(b->m, x, &v)) {
		in[0] = in[1];
		in[1] = x;
	}
	return r;
}

static Reg
cast(ThreadBuilder *b, ThreadCast c, RegType to, Reg a)
{
	const ThreadNode *from = thread_def(b->m, a);
	RegType was = thread_type_of(b, a);
	int64_t v;
	if (c == CAST_BITS && was == to)
		return a;
	if (c <= CAST_TRUNC && thread_const(b->m, a, &v))
		return thread_int_const(b, to, c == CAST_ZEXT ? (int64_t)unsigned_of(was, v) : v);
	if (c == CAST_TRUNC && from->kind == NODE_CAST && (from->op == CAST_ZEXT || from->op == CAST_SEXT) &&
	    thread_type_of(b, from->in[0]) == to)
		return from->in[0];
	if ((c == CAST_S2F || c == CAST_U2F) && was == REG_I64) {
		ThreadRange r = thread_range(b->m, a);
		if (fits_word(r) && (c == CAST_S2F || r.lo >= 0))
			return thread_cast(b, CAST_S2F, to, thread_cast(b, CAST_TRUNC, REG_I32, a));
	}
	return 0;
}

/* The word that all of a pack's operands were unpacked from, in order; 0: there is none. */
static Reg
word_of(const ThreadBuilder *b, const ThreadNode *n)
{
	const ThreadNode *first = thread_def(b->m, n->in[0]);
	if (first->kind != NODE_UNPACK || first->nout != n->nin)
		return 0;
	return memcmp(n->in, first->out, sizeof *n->in * (size_t)n->nin) == 0 ? first->in[0] : 0;
}

static bool
unpacked(const ThreadBuilder *b, const ThreadNode *n, Reg *out)
{
	const ThreadNode *p = thread_def(b->m, n->in[0]);
	bool is_same = p->kind == NODE_PACK && p->nin == n->nout && thread_type_of(b, p->in[0]) == n->type;
	if (is_same)
		memcpy(out, p->in, sizeof *out * (size_t)n->nout);
	return is_same;
}

static Reg
zero_of(ThreadBuilder *b, RegType t)
{
	return thread_is_float(t) ? thread_float_const(b, t, 0) : thread_int_const(b, t, 0);
}

/* A mask that is known to be true is none; where it is false nothing is accessed. */
static bool
is_never(ThreadBuilder *b, ThreadNode *n, Reg *out)
{
	int64_t v;
	if (!n->at->mask || !thread_const(b->m, n->at->mask, &v))
		return false;
	if (v)
		n->at->mask = n->at->fill = 0;
	for (int i = 0; i < n->nout && !v; i++)
		out[i] = n->at->fill ? n->at->fill : zero_of(b, n->type);
	return !v;
}

/* A predicate that is known is none: the accumulator counts, or is zeros. */
static void
drop_scale(ThreadBuilder *b, ThreadNode *n)
{
	const Wgmma w = thread_wgmma_of(n, n->in);
	int64_t counts;
	if (!w.scale || !thread_const(b->m, w.scale, &counts))
		return;
	n->nin--;
	for (int i = n->nin - n->nout; i < n->nin && !counts; i++)
		n->in[i] = zero_of(b, n->type);
}

bool
thread_simplified(ThreadBuilder *b, ThreadNode *n, Reg *out)
{
	int64_t v;
	Reg r = 0;
	switch (n->kind) {
	case NODE_OP: r = operation(b, n); break;
	case NODE_CAST: r = cast(b, (ThreadCast)n->op, n->type, n->in[0]); break;
	case NODE_PACK: r = word_of(b, n); break;
	case NODE_UNPACK: return unpacked(b, n, out);
	case NODE_POINTER: r = thread_const(b->m, n->in[1], &v) && v == 0 ? n->in[0] : 0; break;
	case NODE_LOAD: case NODE_STORE: case NODE_ATOMIC: return is_never(b, n, out);
	case NODE_WGMMA: drop_scale(b, n); break;
	default: break;
	}
	if (r)
		out[0] = r;
	return r != 0;
}
