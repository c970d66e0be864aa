/* What need not be computed: operations on constants, operands that change nothing, and what ranges decide.
 *
 *     umin r1, 7          where r1 is from 0 to 3           =>   r1
 *     slt r2, 64          where r2 is from 0 to 31          =>   true
 *     urem r3, 8                                            =>   and r3, 7
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
thread_fold(EmitOp op, RegType t, int64_t a, int64_t b, int64_t *out)
{
	uint64_t x = unsigned_of(t, a), y = unsigned_of(t, b);
	bool shifts = b >= 0 && b < 8 * thread_type_bytes(t);
	switch (op) {
	case EMIT_ADD: *out = (int64_t)(x + y); return true;
	case EMIT_SUB: *out = (int64_t)(x - y); return true;
	case EMIT_MUL: *out = (int64_t)(x * y); return true;
	case EMIT_AND: *out = a & b; return true;
	case EMIT_OR: *out = a | b; return true;
	case EMIT_XOR: *out = a ^ b; return true;
	case EMIT_SHL: *out = shifts ? (int64_t)(x << b) : 0; return shifts;
	case EMIT_LSHR: *out = shifts ? (int64_t)(x >> b) : 0; return shifts;
	case EMIT_ASHR: *out = shifts ? a >> b : 0; return shifts;
	case EMIT_UDIV: *out = y ? (int64_t)(x / y) : 0; return y != 0;
	case EMIT_UREM: *out = y ? (int64_t)(x % y) : 0; return y != 0;
	case EMIT_SDIV: *out = b > 0 ? a / b : 0; return b > 0;
	case EMIT_SREM: *out = b > 0 ? a % b : 0; return b > 0;
	case EMIT_EQ: *out = a == b; return true;
	case EMIT_NE: *out = a != b; return true;
	case EMIT_SLT: *out = a < b; return true;
	case EMIT_SLE: *out = a <= b; return true;
	case EMIT_ULT: *out = x < y; return true;
	case EMIT_ULE: *out = x <= y; return true;
	case EMIT_SMIN: *out = MIN(a, b); return true;
	case EMIT_SMAX: *out = MAX(a, b); return true;
	case EMIT_UMIN: *out = x < y ? a : b; return true;
	case EMIT_UMAX: *out = x > y ? a : b; return true;
	default: return false;
	}
}

/* Of an operation with a constant: the operand that is its result; 0: there is none. */
static Reg
neutral(const ThreadBuilder *b, EmitOp op, RegType t, Reg x, Reg y)
{
	int64_t v;
	if (!thread_const(b->m, y, &v))
		return 0;
	switch (op) {
	case EMIT_ADD: case EMIT_SUB: case EMIT_SHL: case EMIT_LSHR: case EMIT_ASHR: case EMIT_XOR:
		return v == 0 ? x : 0;
	case EMIT_OR:
		return v == 0 ? x : t == REG_PRED || v == -1 ? y : 0;
	case EMIT_MUL:
		return v == 1 ? x : v == 0 ? y : 0;
	case EMIT_SDIV: case EMIT_UDIV:
		return v == 1 ? x : 0;
	case EMIT_AND:
		return v == 0 ? y : t == REG_PRED || v == -1 ? x : 0;
	default:
		return 0;
	}
}

/* Of an operation on one register twice. */
static Reg
twice(ThreadBuilder *b, EmitOp op, RegType t, Reg x)
{
	switch (op) {
	case EMIT_AND: case EMIT_OR: case EMIT_SMIN: case EMIT_SMAX: case EMIT_UMIN: case EMIT_UMAX:
		return x;
	case EMIT_SUB: case EMIT_XOR:
		return thread_int_const(b, t, 0);
	case EMIT_EQ: case EMIT_SLE: case EMIT_ULE:
		return thread_int_const(b, REG_PRED, 1);
	case EMIT_NE: case EMIT_SLT: case EMIT_ULT:
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
decided(ThreadBuilder *b, EmitOp op, Reg x, Reg y)
{
	ThreadRange r = thread_range(b->m, x), s = thread_range(b->m, y);
	bool plain = r.lo >= 0 && s.lo >= 0;            /* unsigned is signed */
	int64_t v;
	switch (op) {
	case EMIT_SMAX: return r.lo >= s.hi ? x : s.lo >= r.hi ? y : 0;
	case EMIT_SMIN: return r.hi <= s.lo ? x : s.hi <= r.lo ? y : 0;
	case EMIT_UMIN: return !plain ? 0 : r.hi <= s.lo ? x : s.hi <= r.lo ? y : 0;
	case EMIT_UMAX: return !plain ? 0 : r.lo >= s.hi ? x : s.lo >= r.hi ? y : 0;
	case EMIT_ULT: case EMIT_ULE: return plain ? compared(b, op == EMIT_ULT, r, s) : 0;
	case EMIT_SLT: case EMIT_SLE: return compared(b, op == EMIT_SLT, r, s);
	case EMIT_AND:                                  /* a mask that keeps all there can be */
		return plain && thread_const(b->m, y, &v) && v > 0 && (v & (v + 1)) == 0 && r.hi <= v ? x : 0;
	default: return 0;
	}
}

/* The remainder by a power of two of what is never negative. */
static Reg
remainder_by_mask(ThreadBuilder *b, EmitOp op, RegType t, Reg x, Reg y)
{
	int64_t v;
	if (!thread_const(b->m, y, &v) || v <= 0 || (v & (v - 1)) || (op == EMIT_SREM && thread_range(b->m, x).lo < 0))
		return 0;
	return thread_op(b, EMIT_AND, x, thread_int_const(b, t, v - 1), 0);
}

static bool
is_commutative(EmitOp op)
{
	return op == EMIT_ADD || op == EMIT_MUL || op == EMIT_AND || op == EMIT_OR || op == EMIT_XOR;
}

static Reg
integers(ThreadBuilder *b, EmitOp op, RegType t, Reg x, Reg y)
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
	return r || (op != EMIT_SREM && op != EMIT_UREM) ? r : remainder_by_mask(b, op, t, x, y);
}

static Reg
operation(ThreadBuilder *b, ThreadNode *n)
{
	const EmitOp op = (EmitOp)n->op;
	Reg *in = n->in, x = in[0], r = 0;
	RegType t = thread_type_of(b, x);
	int64_t v;
	if (op == EMIT_SELECT)
		return in[1] == in[2] ? in[1] : !thread_const(b->m, x, &v) ? 0 : v ? in[1] : in[2];
	if (op == EMIT_NOT)
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
cast(ThreadBuilder *b, EmitCast c, RegType to, Reg a)
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
		n->at->mask = 0;
	for (int i = 0; i < n->nout && !v; i++)
		out[i] = zero_of(b, n->type);
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
	case NODE_CAST: r = cast(b, (EmitCast)n->op, n->type, n->in[0]); break;
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
