/* Exact arithmetic at compile time.  Integers are 64 bits, unsigned only where an operand is 2^63 or more; overflow is an
 * error, as is division by zero: a header that says BM * BN must mean the number that the reader computes.  Floats are
 * f64, and functions of them are those of num/.  Types and texts compare for equality only, so that `T == f32` and
 * `target == "ptx"` can steer `static if`. */
#include "sema/elab.h"
#include "num/num.h"

#include <math.h>
#include <string.h>

static Val
overflow(Elab *e, Place at)
{
	return val_error(e, at, DIAG_CONST_OVERFLOW);
}

static Val
by_zero(Elab *e, Place at)
{
	return val_error(e, at, DIAG_CONST_ZERO);
}

__extension__ typedef __int128 Wide;                    /* holds every i64 and u64 */

static Wide
wide(const Val *v)
{
	return v->kind == VAL_BIG ? (Wide)(uint64_t)v->i : (Wide)v->i;
}

/* The integer w, which i64 must hold, or where an operand was from 2^63 on (big) i64 or u64. */
static Val
narrowed(Elab *e, Wide w, bool big, Place at)
{
	if (w < INT64_MIN || w > (big ? (Wide)UINT64_MAX : (Wide)INT64_MAX))
		return overflow(e, at);
	return w < 0 ? val_int(at, (int64_t)w) : val_uint(at, (uint64_t)w);
}

static Val
shift(Elab *e, BinaryOp op, Wide a, Wide b, bool big, Place at)
{
	Wide r = 0;
	if (b < 0)
		return val_error(e, at, DIAG_CONST_SHIFT, (long long)b);
	if (op == BIN_SHR)
		r = b > 63 ? -(a < 0) : a >> b;
	else if (a != 0 && (b > 62 || __builtin_mul_overflow(a, (Wide)1 << b, &r)))
		return overflow(e, at);
	return narrowed(e, r, big, at);
}

static Val
binary_int(Elab *e, BinaryOp op, const Val *x, const Val *y, Place at)
{
	Wide a = wide(x), b = wide(y), r;
	bool big = x->kind == VAL_BIG || y->kind == VAL_BIG;

	switch (op) {
	case BIN_ADD: r = a + b; break;
	case BIN_SUB: r = a - b; break;
	case BIN_MUL:
		if (__builtin_mul_overflow(a, b, &r))
			return overflow(e, at);
		break;
	case BIN_DIV:
	case BIN_REM:
		if (b == 0)
			return by_zero(e, at);
		r = op == BIN_DIV ? a / b : a % b;
		break;
	case BIN_AND: r = a & b; break;
	case BIN_OR: r = a | b; break;
	case BIN_XOR: r = a ^ b; break;
	case BIN_SHL:
	case BIN_SHR: return shift(e, op, a, b, big, at);
	default: unreachable();
	}
	return narrowed(e, r, big, at);
}

static bool
compare(BinaryOp op, double order)
{
	switch (op) {
	case BIN_EQ: return order == 0;
	case BIN_NE: return !(order == 0);
	case BIN_LT: return order < 0;
	case BIN_LE: return order <= 0;
	case BIN_GT: return order > 0;
	case BIN_GE: return order >= 0;
	default: unreachable();
	}
}

static bool
compare_values(BinaryOp op, const Val *a, const Val *b)
{
	if (a->kind != VAL_FLOAT && b->kind != VAL_FLOAT)
		return compare(op, wide(a) < wide(b) ? -1 : wide(a) > wide(b));
	double x = val_float_of(a), y = val_float_of(b);
	return compare(op, isnan(x) || isnan(y) ? NAN : x < y ? -1 : x > y);
}

static bool
equal_words(BinaryOp op, const Val *a, const Val *b, Place at, Val *out)
{
	bool same;

	if (a->kind == VAL_DTYPE && b->kind == VAL_DTYPE)
		same = a->dtype == b->dtype;
	else if (a->kind == VAL_TEXT && b->kind == VAL_TEXT)
		same = strcmp(a->text, b->text) == 0;
	else
		return false;
	if (op != BIN_EQ && op != BIN_NE)
		return false;
	*out = val_bool(at, same == (op == BIN_EQ));
	return true;
}

static Val
binary_float(Elab *e, BinaryOp op, double a, double b, Place at)
{
	switch (op) {
	case BIN_ADD: return val_float(at, a + b);
	case BIN_SUB: return val_float(at, a - b);
	case BIN_MUL: return val_float(at, a * b);
	case BIN_DIV: return val_float(at, a / b);
	case BIN_REM: return val_float(at, fmod(a, b));
	default:
		return val_error(e, at, DIAG_BITS_OF_FLOAT, binary_op_text(op));
	}
}

bool
const_binary(Elab *e, BinaryOp op, const Val *a, const Val *b, Place at, Val *out)
{
	if (!val_is_const(a) || !val_is_const(b))
		return equal_words(op, a, b, at, out);
	bool bools = a->kind == VAL_BOOL && b->kind == VAL_BOOL;
	if (op == BIN_MATMUL)
		return false;
	if (op == BIN_LAND || op == BIN_LOR) {
		if (!bools)
			return false;
		*out = val_bool(at, op == BIN_LAND ? a->i && b->i : a->i || b->i);
	} else if (binary_op_compares(op)) {
		*out = val_bool(at, compare_values(op, a, b));
	} else if (a->kind == VAL_FLOAT || b->kind == VAL_FLOAT) {
		*out = binary_float(e, op, val_float_of(a), val_float_of(b), at);
	} else {
		*out = binary_int(e, op, a, b, at);
		if (bools && out->kind == VAL_INT && (op == BIN_AND || op == BIN_OR || op == BIN_XOR))
			out->kind = VAL_BOOL;
	}
	return true;
}

bool
const_unary(Elab *e, UnaryOp op, const Val *a, Place at, Val *out)
{
	if (!val_is_const(a))
		return false;
	switch (op) {
	case UN_PLUS:
		*out = *a;
		out->place = at;
		if (a->kind == VAL_BOOL)
			out->kind = VAL_INT;
		return true;
	case UN_NEG:
		*out = a->kind == VAL_FLOAT ? val_float(at, -a->f) : narrowed(e, -wide(a), a->kind == VAL_BIG, at);
		return true;
	case UN_NOT:
		if (a->kind != VAL_BOOL)
			return false;
		*out = val_bool(at, !a->i);
		return true;
	case UN_INVERT:
		if (a->kind == VAL_FLOAT)
			return false;
		*out = a->kind == VAL_BOOL ? val_bool(at, !a->i)
		    : a->kind == VAL_BIG ? val_uint(at, ~(uint64_t)a->i) : val_int(at, ~a->i);
		return true;
	}
	unreachable();
}

/* Builtins over compile-time numbers. */

typedef Val (*FoldFn)(Elab *e, const Val *a, bool up, Place at);

/* The quotient rounded up or down. */
static Val
fold_divide(Elab *e, const Val *a, bool up, Place at)
{
	Wide x = wide(&a[0]), y = wide(&a[1]);

	if (y == 0)
		return by_zero(e, at);
	bool exact = x % y == 0, positive = (x < 0) == (y < 0);
	return narrowed(e, x / y + (!exact && up && positive) - (!exact && !up && !positive), false, at);
}

static Val
fold_pow2ceil(Elab *e, const Val *a, bool up, Place at)
{
	int64_t p = 1;

	while (p < a->i) {
		if (p > INT64_MAX / 2)
			return overflow(e, at);
		p *= 2;
	}
	return val_int(at, p);
}

/* min and max ignore a NaN; a float among the operands makes the result one. */
static Val
fold_extreme(Elab *e, const Val *a, bool greatest, Place at)
{
	const Val *pick = compare_values(greatest ? BIN_LT : BIN_GT, &a[0], &a[1]) ? &a[1] : &a[0];

	if (a[0].kind == VAL_FLOAT && isnan(a[0].f))
		pick = &a[1];
	if (a[1].kind == VAL_FLOAT && isnan(a[1].f))
		pick = &a[0];
	if (a[0].kind == VAL_FLOAT || a[1].kind == VAL_FLOAT)
		return val_float(at, val_float_of(pick));
	Val v = *pick;
	v.place = at;
	return v;
}

static Val
fold_clamp(Elab *e, const Val *a, bool up, Place at)
{
	Val low = fold_extreme(e, (Val[]){a[0], a[1]}, true, at);

	return fold_extreme(e, (Val[]){low, a[2]}, false, at);
}

static Val
fold_abs(Elab *e, const Val *a, bool up, Place at)
{
	if (a->kind == VAL_FLOAT)
		return val_float(at, fabs(a->f));
	return narrowed(e, wide(a) < 0 ? -wide(a) : wide(a), a->kind == VAL_BIG, at);
}

/* Of an integer that is a power of two it is that integer power, else a float. */
static Val
fold_log2(Elab *e, const Val *a, bool up, Place at)
{
	if (a->kind == VAL_INT && is_power_of_two(a->i))
		return val_int(at, log2_floor(a->i));
	return val_float(at, log2(val_float_of(a)));
}

typedef struct Fold {
	const char *name;
	int n;
	char takes;                                     /* I: integers; N: numbers, but no bools */
	FoldFn fn;
	bool up;                                        /* of two that differ in direction: the greater one */
} Fold;

static const Fold folds[] = {
	{"cdiv", 2, 'I', fold_divide, true},
	{"floordiv", 2, 'I', fold_divide, false},
	{"pow2ceil", 1, 'I', fold_pow2ceil, false},
	{"min", 2, 'N', fold_extreme, false},
	{"max", 2, 'N', fold_extreme, true},
	{"clamp", 3, 'N', fold_clamp, false},
	{"abs", 1, 'N', fold_abs, false},
	{"log2", 1, 'N', fold_log2, false},
};

static bool
takes_args(const Fold *f, const Val *args, int n)
{
	for (int i = 0; i < n; i++) {
		if (!val_is_const(&args[i]) || args[i].kind == VAL_BOOL)
			return false;
		if (f->takes == 'I' && args[i].kind != VAL_INT)
			return false;
	}
	return true;
}

/* A function of floats, by the oracle's loop of its op. */
static bool
fold_floats(OpKind op, const Val *args, int n, Place at, Val *out)
{
	const DType types[] = {TY_F64, TY_F64, TY_F64};
	double x[3], result;
	const void *in[] = {&x[0], &x[1], &x[2]};
	Elem f;

	if (!(op_info[op].traits & ANYF) || op_info[op].nin != n)
		return false;
	for (int i = 0; i < n; i++) {
		if (!val_is_const(&args[i]) || args[i].kind == VAL_BOOL)
			return false;
		x[i] = val_float_of(&args[i]);
	}
	elem_make(&f, CPU_BASE, op, types, n, TY_F64, 0);
	elem_run(&f, &result, in, 0, 1);
	*out = val_float(at, result);
	return true;
}

bool
const_call(Elab *e, const char *name, OpKind op, const Val *args, int n, Place at, Val *out)
{
	for (int i = 0; i < LEN(folds); i++) {
		const Fold *f = &folds[i];
		if (f->n != n || strcmp(f->name, name) != 0 || !takes_args(f, args, n))
			continue;
		*out = f->fn(e, args, f->up, at);
		return true;
	}
	return fold_floats(op, args, n, at, out);
}
