/* Elementwise arithmetic, register by register, as ops.def says it.
 *
 * Sums, differences and products of f16 and bf16 are made two at once where the machine can: f32 has more than twice
 * their bits and two, so that rounding to it first changes nothing, and both ways give the same.  So are the lesser and the
 * greater of two, which PTX defines as those of f32.
 *
 * A machine's integers are not so: division by zero and the least integer over -1 are undefined, shifts are too from
 * the width on.  Operands are guarded and results chosen, except where a constant operand says that nothing can happen.
 * Floats below f32 are computed in f32 and rounded once; 4-bit integers in bytes and wrapped; bool by logic. */
#include "lower/lower.h"
#include "lower/op_sets.h"

typedef struct Elem {
	OpKind kind;
	DType t;                                        /* of the first operand */
	RegType reg;
	bool is_signed, fast, propagate_nan;
	bool has_divisor;                               /* the second operand is this constant */
	int64_t divisor;
} Elem;

static Reg
number(Lower *l, const Elem *x, int64_t v)
{
	return thread_int_const(l->b, x->reg, v);
}

/* ---- integers ---- */

/* As an extent, say. */
static bool
is_never_negative(Lower *l, Reg r)
{
	return thread_range(thread_module_of(l->b), r).lo >= 0;
}

static bool
is_word(Lower *l, Reg r)
{
	ThreadRange range = thread_range(thread_module_of(l->b), r);
	return range.lo >= INT32_MIN && range.hi <= INT32_MAX;
}

/* a / b, or a % b, by a constant.  Where a has 31 bits, a product of 64 bits and a shift do: of 2^p / b rounded up, with p
 * 31 + log2 b rounded up, the product is off by less than 2^(p - 31) a (Granlund and Montgomery).  LLVM would take the
 * upper half of one of 128 bits; with that ptxas 13.0 took wrong choices in a loop of warpgroups' products (H200). */
static Reg
by_constant(Lower *l, const Elem *x, bool remains, Reg a, Reg b)
{
	ThreadRange r = thread_range(thread_module_of(l->b), a);
	bool shifts = (x->divisor & (x->divisor - 1)) == 0;

	if (l->t->kind != TARGET_PTX || x->reg != REG_I64 || shifts || r.lo < 0 || r.hi > INT32_MAX || x->divisor < 0 ||
	    x->divisor > INT32_MAX) {
		ThreadOp as_signed = remains ? THREAD_SREM : THREAD_SDIV, as_unsigned = remains ? THREAD_UREM : THREAD_UDIV;
		return lower_op2(l, x->is_signed ? as_signed : as_unsigned, a, b);
	}
	int p = 31 + log2_ceil(x->divisor);
	Reg inverse = lower_i64(l, (int64_t)(((UINT64_C(1) << p) + (uint64_t)x->divisor - 1) / (uint64_t)x->divisor));
	Reg q = lower_op2(l, THREAD_LSHR, lower_op2(l, THREAD_MUL, a, inverse), lower_i64(l, p));
	return remains ? lower_op2(l, THREAD_SUB, a, lower_op2(l, THREAD_MUL, q, b)) : q;
}

static Reg
quotient(Lower *l, const Elem *x, Reg a, Reg b)
{
	Reg zero = number(l, x, 0), one = number(l, x, 1);
	if (x->has_divisor && x->divisor == 0)
		return zero;
	if (x->has_divisor && x->divisor != -1)
		return by_constant(l, x, false, a, b);
	if (!x->is_signed || is_never_negative(l, b)) {
		ThreadOp how = x->is_signed ? THREAD_SDIV : THREAD_UDIV;
		Reg q = lower_op2(l, how, a, lower_op2(l, x->is_signed ? THREAD_SMAX : THREAD_UMAX, b, one));
		return lower_op3(l, THREAD_SELECT, lower_op2(l, THREAD_EQ, b, zero), zero, q);
	}
	/* neither 0 nor -1 */
	Reg plain = lower_op2(l, THREAD_ULT, one, lower_op2(l, THREAD_ADD, b, one));
	Reg q = lower_op2(l, THREAD_SDIV, a, lower_op3(l, THREAD_SELECT, plain, b, one));
	Reg is_zero = lower_op2(l, THREAD_EQ, b, zero);
	Reg other = lower_op3(l, THREAD_SELECT, is_zero, zero, lower_op2(l, THREAD_SUB, zero, a));
	return lower_op3(l, THREAD_SELECT, plain, q, other);
}

/* As wide as the operands are: a remainder is no greater than what is divided. */
static Reg
remainder_of(Lower *l, const Elem *x, Reg a, Reg b, Reg q)
{
	if (x->has_divisor && x->divisor != 0 && x->divisor != -1)
		return by_constant(l, x, true, a, b);
	if (x->reg != REG_I64 || !x->is_signed || !is_word(l, a) || !is_word(l, b))
		return lower_op2(l, THREAD_SUB, a, lower_op2(l, THREAD_MUL, q, b));
	Reg whole = lower_op2(l, THREAD_MUL, lower_as(l, CAST_TRUNC, REG_I32, q), lower_as(l, CAST_TRUNC, REG_I32, b));
	return lower_as(l, CAST_SEXT, REG_I64, lower_op2(l, THREAD_SUB, lower_as(l, CAST_TRUNC, REG_I32, a), whole));
}

/* a / b rounded down, or up. */
static Reg
rounded(Lower *l, const Elem *x, Reg a, Reg b, bool up)
{
	Reg zero = number(l, x, 0), q = quotient(l, x, a, b);
	if (!x->is_signed && !up)
		return q;
	Reg r = remainder_of(l, x, a, b, q), move = lower_op2(l, THREAD_NE, r, zero);
	if (x->is_signed) {
		Reg below = lower_op2(l, THREAD_SLT, r, zero);
		if (!(x->has_divisor && x->divisor > 0))
			below = lower_op2(l, THREAD_XOR, below, lower_op2(l, THREAD_SLT, b, zero));
		else if (!up)
			move = 0;                       /* below zero says so */
		if (up)
			below = lower_op1(l, THREAD_NOT, below);
		move = lower_both(l, move, below);
	}
	if (!x->has_divisor)
		move = lower_op2(l, THREAD_AND, move, lower_op2(l, THREAD_NE, b, zero));
	else if (x->divisor == 0)
		return q;
	return lower_op2(l, up ? THREAD_ADD : THREAD_SUB, q, lower_as(l, CAST_ZEXT, x->reg, move));
}

static Reg
shift(Lower *l, const Elem *x, Reg a, Reg b)
{
	bool left = x->kind == OP_SHL, keeps_sign = !left && x->is_signed;
	int width = 8 * thread_type_bytes(x->reg);
	ThreadOp how = left ? THREAD_SHL : keeps_sign ? THREAD_ASHR : THREAD_LSHR;
	Reg most = number(l, x, width - 1);
	if (x->has_divisor && x->divisor >= 0 && x->divisor < width)
		return lower_op2(l, how, a, b);
	if (keeps_sign)
		return lower_op2(l, how, a, lower_op2(l, THREAD_UMIN, b, most));
	Reg in = lower_op2(l, THREAD_ULE, b, most);
	Reg r = lower_op2(l, how, a, lower_op2(l, THREAD_AND, b, most));
	return lower_op3(l, THREAD_SELECT, in, r, number(l, x, 0));
}

/* Of 32 bits at least, with a's bits above zero: what counts bits and multiplies high. */
static Reg
by_word(Lower *l, const Elem *x, Reg a, Reg b)
{
	int width = 8 * thread_type_bytes(x->reg);
	OpKind k = x->kind;
	ThreadOp how = k == OP_POPCOUNT ? THREAD_POPCOUNT : k == OP_CLZ ? THREAD_CLZ : THREAD_MULHI_U;
	if (width >= 32)
		return lower_op2(l, how, a, k == OP_UMULHI ? b : 0);
	a = lower_as(l, CAST_ZEXT, REG_I32, a);
	Reg r;
	if (k == OP_UMULHI)
		r = lower_op2(l, THREAD_LSHR, lower_op2(l, THREAD_MUL, a, lower_as(l, CAST_ZEXT, REG_I32, b)),
		    lower_i32(l, width));
	else
		r = lower_op1(l, how, a);
	if (k == OP_CLZ)
		r = lower_op2(l, THREAD_SUB, r, lower_i32(l, 32 - width));
	return lower_as(l, CAST_TRUNC, x->reg, r);
}

static Reg
compare(Lower *l, const Elem *x, Reg a, Reg b)
{
	ThreadOp less = x->is_signed ? THREAD_SLT : THREAD_ULT, least = x->is_signed ? THREAD_SLE : THREAD_ULE;
	switch ((CompareOp)x->kind) {
	case COMPARE_EQ: return lower_op2(l, THREAD_EQ, a, b);
	case COMPARE_NE: return lower_op2(l, THREAD_NE, a, b);
	case COMPARE_LT: return lower_op2(l, less, a, b);
	case COMPARE_LE: return lower_op2(l, least, a, b);
	case COMPARE_GT: return lower_op2(l, less, b, a);
	case COMPARE_GE: return lower_op2(l, least, b, a);
	case COMPARE_NONE: break;
	}
	unreachable();
}

static bool
is_compare(OpKind k)
{
	return op_info[k].family == FAMILY_COMPARE;
}

static Reg
integer(Lower *l, const Elem *x, Reg a, Reg b)
{
	switch ((IntegerOp)x->kind) {
	case INTEGER_NEG: return lower_op2(l, THREAD_SUB, number(l, x, 0), a);
	case INTEGER_NOT: return lower_op1(l, THREAD_NOT, a);
	case INTEGER_ABS:
		return x->is_signed ? lower_op2(l, THREAD_SMAX, a, lower_op2(l, THREAD_SUB, number(l, x, 0), a)) : a;
	case INTEGER_ADD: return lower_op2(l, THREAD_ADD, a, b);
	case INTEGER_SUB: return lower_op2(l, THREAD_SUB, a, b);
	case INTEGER_MUL: return lower_op2(l, THREAD_MUL, a, b);
	case INTEGER_AND: return lower_op2(l, THREAD_AND, a, b);
	case INTEGER_OR: return lower_op2(l, THREAD_OR, a, b);
	case INTEGER_XOR: return lower_op2(l, THREAD_XOR, a, b);
	case INTEGER_MIN: return lower_op2(l, x->is_signed ? THREAD_SMIN : THREAD_UMIN, a, b);
	case INTEGER_MAX: return lower_op2(l, x->is_signed ? THREAD_SMAX : THREAD_UMAX, a, b);
	case INTEGER_DIV: return quotient(l, x, a, b);
	case INTEGER_REM: return x->has_divisor && x->divisor == 0 ? a : remainder_of(l, x, a, b, quotient(l, x, a, b));
	case INTEGER_FLOORDIV: return rounded(l, x, a, b, false);
	case INTEGER_CDIV: return rounded(l, x, a, b, true);
	case INTEGER_SHL:
	case INTEGER_SHR: return shift(l, x, a, b);
	case INTEGER_POPCOUNT:
	case INTEGER_CLZ:
	case INTEGER_UMULHI: return by_word(l, x, a, b);
	case INTEGER_SELECT:
	case INTEGER_PTR_ADD:
	case INTEGER_PTR_DIFF:
	case INTEGER_NONE: break;
	}
	die("%s of integers", op_info[x->kind].text);
}

/* ---- bool ---- */

static Reg
logic(Lower *l, const Elem *x, Reg a, Reg b)
{
	switch ((BoolOp)x->kind) {
	case BOOL_NOT: return lower_op1(l, THREAD_NOT, a);
	case BOOL_AND: return lower_op2(l, THREAD_AND, a, b);
	case BOOL_OR: return lower_op2(l, THREAD_OR, a, b);
	case BOOL_XOR:
	case BOOL_NE: return lower_op2(l, THREAD_XOR, a, b);
	case BOOL_EQ: return lower_op1(l, THREAD_NOT, lower_op2(l, THREAD_XOR, a, b));
	case BOOL_MIN: return lower_op2(l, THREAD_AND, a, b);
	case BOOL_MAX: return lower_op2(l, THREAD_OR, a, b);
	case BOOL_LT: return lower_op2(l, THREAD_AND, lower_op1(l, THREAD_NOT, a), b);
	case BOOL_LE: return lower_op2(l, THREAD_OR, lower_op1(l, THREAD_NOT, a), b);
	case BOOL_GT: return lower_op2(l, THREAD_AND, a, lower_op1(l, THREAD_NOT, b));
	case BOOL_GE: return lower_op2(l, THREAD_OR, a, lower_op1(l, THREAD_NOT, b));
	case BOOL_NONE: break;
	}
	die("%s of bool", op_info[x->kind].text);
}

/* ---- floats ---- */

static Reg
order(Lower *l, const Elem *x, Reg a, Reg b)
{
	Reg r = lower_op2(l, x->kind == OP_MIN ? THREAD_FMIN : THREAD_FMAX, a, b);
	if (!x->propagate_nan)
		return r;
	Reg nan = lower_op2(l, THREAD_FUNO, a, b);
	return lower_op3(l, THREAD_SELECT, nan, lower_op2(l, THREAD_FADD, a, b), r);
}

static bool
is_one(const Lower *l, Reg r)
{
	const ThreadNode *n = thread_def(thread_module_of(l->b), r);
	return n->kind == NODE_CONST && n->f == 1;
}

/* 1 by a sum of 1 and a power of 2, as a sigmoid is: the sum is no less than 1, so that the machine's inverse needs no
 * scaling.  Beyond 2^126 it is 0, as a sigmoid's own. */
static Reg
divide_fast(Lower *l, Reg a, Reg b)
{
	const ThreadNode *sum = thread_def(thread_module_of(l->b), b);
	bool adds = sum->kind == NODE_OP && sum->op == THREAD_FADD && sum->type == REG_F32 && is_one(l, a);
	for (int i = 0; adds && i < 2; i++) {
		const ThreadNode *e = thread_def(thread_module_of(l->b), sum->in[i]);
		if (is_one(l, sum->in[1 - i]) && e->kind == NODE_OP && e->op == THREAD_EXP2_FAST)
			return lower_op1(l, THREAD_FRCP_FAST, b);
	}
	return lower_op2(l, THREAD_FDIV_FAST, a, b);
}

static Reg
real(Lower *l, const Elem *x, Reg a, Reg b, Reg c)
{
	switch ((RealOp)x->kind) {
	case REAL_NEG: return lower_op1(l, THREAD_FNEG, a);
	case REAL_ABS: return lower_op1(l, THREAD_FABS, a);
	case REAL_FLOOR: return lower_op1(l, THREAD_FFLOOR, a);
	case REAL_CEIL: return lower_op1(l, THREAD_FCEIL, a);
	case REAL_ROUND: return lower_op1(l, THREAD_FROUND, a);
	case REAL_TRUNC: return lower_op1(l, THREAD_FTRUNC, a);
	case REAL_ADD: return lower_op2(l, THREAD_FADD, a, b);
	case REAL_SUB: return lower_op2(l, THREAD_FSUB, a, b);
	case REAL_MUL: return lower_op2(l, THREAD_FMUL, a, b);
	case REAL_DIV: return x->fast && x->t != TY_F64 ? divide_fast(l, a, b) : lower_op2(l, THREAD_FDIV, a, b);
	case REAL_MIN:
	case REAL_MAX: return order(l, x, a, b);
	case REAL_FMA: return lower_op3(l, THREAD_FMA, a, b, c);
	case REAL_EQ: return lower_op2(l, THREAD_FEQ, a, b);
	case REAL_NE: return lower_op2(l, THREAD_FNE, a, b);
	case REAL_LT: return lower_op2(l, THREAD_FLT, a, b);
	case REAL_LE: return lower_op2(l, THREAD_FLE, a, b);
	case REAL_GT: return lower_op2(l, THREAD_FLT, b, a);
	case REAL_GE: return lower_op2(l, THREAD_FLE, b, a);
	case REAL_SELECT:
	case REAL_PTR_ADD:
	case REAL_PTR_DIFF:
	case REAL_NONE: break;
	}
	die("%s of floats", op_info[x->kind].text);
}

/* A float of a byte or less is kept in an integer. */
static Reg
sign_of_byte(Lower *l, const Elem *x, Reg a)
{
	int64_t sign = INT64_C(1) << (dtype_info[x->t].bits - 1);
	return x->kind == OP_NEG ? lower_op2(l, THREAD_XOR, a, number(l, x, sign))
	                         : lower_op2(l, THREAD_AND, a, number(l, x, sign - 1));
}

static Reg
rounded_real(Lower *l, const Elem *x, Reg a, Reg b, Reg c)
{
	OpKind k = x->kind;
	bool same_bits = (k == OP_NEG || k == OP_ABS) && (x->reg == REG_F16 || x->reg == REG_BF16);
	if (x->t == TY_F32 || x->t == TY_F64 || same_bits)
		return real(l, x, a, b, c);
	if (k == OP_NEG || k == OP_ABS)
		return sign_of_byte(l, x, a);
	a = lower_widen(l, x->t, a);                    /* in this order, not the compiler's own for arguments */
	b = b ? lower_widen(l, x->t, b) : 0;
	c = c ? lower_widen(l, x->t, c) : 0;
	Reg r = real(l, x, a, b, c);
	if (is_compare(k))
		return r;
	return op_info[k].rounding == ROUNDING_EXACT ? lower_narrow_exact(l, x->t, r) : lower_narrow(l, x->t, r);
}

/* ---- pointers ---- */

static Reg
address(Lower *l, Reg p)
{
	return lower_as(l, CAST_BITS, REG_I64, p);
}

static Reg
pointer_op(Lower *l, const Elem *x, DType index, Reg a, Reg b)
{
	int size = (dtype_info[x->t].bits + 7) / 8, log2 = size == 8 ? 3 : size == 4 ? 2 : size == 2 ? 1 : 0;
	if (x->kind == OP_PTR_DIFF)
		return lower_op2(l, THREAD_ASHR, lower_op2(l, THREAD_SUB, address(l, a), address(l, b)),
		    lower_i64(l, log2));
	if (x->kind != OP_PTR_ADD)
		return compare(l, x, address(l, a), address(l, b));
	if (dtype_info[index].bits < 64)
		b = lower_as(l, dtype_is_signed(index) ? CAST_SEXT : CAST_ZEXT, REG_I64, b);
	if (log2)
		b = lower_op2(l, THREAD_SHL, b, lower_i64(l, log2));
	return thread_pointer(l->b, a, b);
}

/* ---- the op ---- */

static Reg
one(Lower *l, const Elem *x, Reg a, Reg b, Reg c)
{
	if (x->t == TY_BOOL)
		return logic(l, x, a, b);
	if (dtype_is_float(x->t))
		return rounded_real(l, x, a, b, c);
	if (is_compare(x->kind))
		return compare(l, x, a, b);
	return lower_wrap(l, x->t, integer(l, x, a, b));
}

Reg
lower_arithmetic(Lower *l, OpKind kind, DType t, Reg a, Reg b)
{
	Elem x = {.kind = kind, .t = t, .reg = thread_type_of(l->b, a), .is_signed = dtype_is_signed(t)};
	return one(l, &x, a, b, 0);
}

/* How many registers in a row hold equal values, as pass axis found ({equal} neighbours along the last dimension). */
static int
equal_registers(const Op *op)
{
	const Layout *layout = op->out[0].layout;
	int64_t equal = attr_equal(op);
	int64_t neighbours = layout ? INT64_C(1) << layout_contiguous(layout, layout->rank - 1) : 1;
	return (int)MIN(equal, neighbours);
}

/* One instruction for two neighbours; false: not of this op.  bf16 has only x * y + z. */
static bool
halves(Lower *l, const Elem *x, const Reg *const in[3], Reg *out, int n)
{
	bool is_half = x->t == TY_F16, adds = x->kind == OP_ADD, multiplies = x->kind == OP_MUL;
	PrimKind how = !is_half ? PRIM_FMA_BF16X2 : adds ? PRIM_ADD_F16X2 : multiplies ? PRIM_MUL_F16X2 : PRIM_SUB_F16X2;
	bool orders = (x->kind == OP_MIN || x->kind == OP_MAX) && !x->propagate_nan;
	if (orders && x->kind == OP_MIN)
		how = is_half ? PRIM_MIN_F16X2 : PRIM_MIN_BF16X2;
	else if (orders)
		how = is_half ? PRIM_MAX_F16X2 : PRIM_MAX_BF16X2;
	if ((!is_half && x->t != TY_BF16) || (!adds && !multiplies && !orders && x->kind != OP_SUB) || n % 2 ||
	    (prim_info[how].needs & ~l->t->has))
		return false;
	for (int r = 0; r < n; r += 2) {
		bool same = r > 0 && ALL_OF(i, 2, in[i][r] == in[i][0] && in[i][r + 1] == in[i][1]);
		if (same) {
			out[r] = out[0];
			out[r + 1] = out[1];
			continue;
		}
		Reg a = thread_pack(l->b, &in[0][r], 2), b = thread_pack(l->b, &in[1][r], 2), both;
		Reg product[] = {a, b, lower_i32(l, (int32_t)0x80008000)};
		Reg sum[] = {adds ? a : b, lower_i32(l, (int32_t)(adds ? 0x3f803f80 : 0xbf80bf80)), adds ? b : a};
		bool takes_two = is_half || orders;
		thread_prim(l->b, how, takes_two || multiplies ? product : sum, takes_two ? 2 : 3, NULL, 0, &both, 1);
		thread_unpack(l->b, both, x->reg, &out[r], 2);
	}
	return true;
}

void
lower_elementwise(Lower *l, Op *op)
{
	const Type *t = op->in[0]->type;
	const Reg *in[3] = {0};
	Elem x = {.kind = op->kind, .t = t->elem, .reg = lower_type(t), .fast = attr_fast(op),
		.propagate_nan = attr_propagate_nan(op)};
	x.is_signed = dtype_is_signed(x.t) && t->ptr == PTR_NONE;
	x.has_divisor = op->nin > 1 && value_constant(op->in[1], &x.divisor);
	for (int i = 0; i < op->nin; i++)
		in[i] = lower_operand(l, op, i, op->out[0].layout);
	Reg *out = lower_new(l, &op->out[0]);
	int group = equal_registers(op);
	if (op->kind == OP_DIV && !x.fast && lower_divide(l, in[0], in[1], lower_count(&op->out[0]), out))
		return;
	if ((op->kind == OP_SUB || op->kind == OP_ADD) && lower_packed_sub(l, op, in[1], out))
		return;
	if (group == 1 && halves(l, &x, in, out, lower_count(&op->out[0])))
		return;
	if (group == 1 && t->ptr == PTR_NONE && lower_bytes(l, op, in, out, lower_count(&op->out[0])))
		return;
	if (group == 1 && op->nin == 2 && lower_compare_gaps(l, op, in[0], in[1], out, lower_count(&op->out[0])))
		return;
	for (int r = 0; r < lower_count(&op->out[0]); r++) {
		Reg v[3] = {0};
		if (r % group) {
			out[r] = out[r - r % group];
			continue;
		}
		bool same = r > 0;                      /* as register 0: a broadcast */
		for (int i = 0; i < op->nin; i++) {
			v[i] = in[i][r];
			same = same && v[i] == in[i][0];
		}
		if (same)
			out[r] = out[0];
		else if (op->kind == OP_SELECT)
			out[r] = lower_op3(l, THREAD_SELECT, v[0], v[1], v[2]);
		else if (t->ptr != PTR_NONE)
			out[r] = pointer_op(l, &x, op->in[op->nin - 1]->type->elem, v[0], v[1]);
		else
			out[r] = one(l, &x, v[0], v[1], v[2]);
	}
}
