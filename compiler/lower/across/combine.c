/* Folds on registers: what a reduction or a scan does with two values, whatever the elements are.
 *
 * Narrow elements are widened once, where they enter: sums and products to the type that infer.c gives them, floats to
 * f32, integers and bools to 32 bits.  The index of the greatest is found by keys, integers in the order of the elements:
 *
 *     f32 x      bits of x, all but the sign inverted if x < 0        (-0 as 0; NaN below or above all)
 *     u32 x      x with its top bit inverted
 *
 * so that for elements of up to 32 bits one comparison of (key, inverted index) in 64 bits does it all, the first of
 * equals winning.  Wider elements are a pair of key and index.  For the least, keys are inverted. */
#include "lower/fold.h"

#include <string.h>

static DType
key_type(DType t)
{
	return dtype_is_float(t) ? (t == TY_F64 ? TY_F64 : TY_F32) : t;
}

static FoldKind
kind_of(const Op *op)
{
	const char *fn = op_text(op, "fn");
	if (op->kind == OP_REDUCE_FN || op->kind == OP_SCAN_FN)
		return FOLD_REGION;
	if (strcmp(fn, "sum") == 0)
		return FOLD_SUM;
	if (strcmp(fn, "prod") == 0)
		return FOLD_PROD;
	if (strcmp(fn, "max") == 0)
		return FOLD_MOST;
	if (strcmp(fn, "min") == 0)
		return FOLD_LEAST;
	if (strcmp(fn, "any") == 0)
		return FOLD_OR;
	if (strcmp(fn, "all") == 0)
		return FOLD_AND;
	if (strcmp(fn, "xor_sum") == 0)
		return FOLD_XOR;
	return dtype_info[key_type(op->in[0]->type->elem)].bits > 32 ? FOLD_PAIR : FOLD_KEY;
}

/* In which elements of type t are computed with. */
static RegType
work_type(DType t)
{
	if (t == TY_F64)
		return REG_F64;
	if (dtype_is_float(t))
		return REG_F32;
	return dtype_info[t].bits == 64 ? REG_I64 : REG_I32;
}

/* ---- does a region commute? ---- */

enum { MOST_COMPARED = 4096 };

static bool
same_attrs(const Op *a, const Op *b)
{
	if (a->nattr != b->nattr)
		return false;
	for (int i = 0; i < a->nattr; i++) {
		const Attr *x = &a->attr[i], *y = op_attr(b, x->name);
		if (!y || x->kind != y->kind || x->i != y->i || x->text != y->text || x->nints || y->nints ||
		    memcmp(&x->f, &y->f, sizeof x->f) != 0)
			return false;
	}
	return true;
}

/* Is x what y is with the region's operands exchanged?  budget: comparisons left. */
static bool
is_mirrored(const Block *region, const Value *x, const Value *y, int *budget)
{
	int n = region->narg / 2;
	if (--*budget < 0 || x->type != y->type || x->index != (x->def ? y->index : x->index))
		return false;
	if (!x->def && !y->def && x->block == region && y->block == region)
		return y->index == (x->index + n) % (2 * n);
	if (!x->def || !y->def)
		return x == y;
	const Op *a = x->def, *b = y->def;
	if (a->home != region || b->home != region)
		return x == y;
	if (a->kind != b->kind || a->nin != b->nin || a->nregion || !(op_info[a->kind].traits & PURE) || !same_attrs(a, b))
		return false;
	bool straight = true, crossed = op_info[a->kind].traits & COMM && a->nin >= 2;
	for (int i = 0; i < a->nin && straight; i++)
		straight = is_mirrored(region, a->in[i], b->in[i], budget);
	for (int i = 0; i < a->nin && crossed && !straight; i++)
		crossed = is_mirrored(region, a->in[i], b->in[i < 2 ? 1 - i : i], budget);
	return straight || crossed;
}

/* By its shape alone: max(a, b) + c * exp(a - b) and the like are seen through, cleverer ones are not. */
static bool
region_commutes(const Block *region)
{
	int budget = MOST_COMPARED;
	for (int i = 0; i < region->last->nin; i++)
		if (!is_mirrored(region, region->last->in[i], region->last->in[i], &budget))
			return false;
	return true;
}

void
fold_shape(Fold *f, const Op *op)
{
	*f = (Fold){.op = op, .kind = kind_of(op), .n = 1};
	f->from = op->in[0]->type->elem;
	f->to = op->out[0].type->elem;
	f->is_signed = dtype_is_signed(f->from);
	f->is_least = strcmp(op_text(op, "fn"), "argmin") == 0;
	f->propagates_nan = op_bool(op, "propagate_nan") && dtype_is_float(f->from);
	switch (f->kind) {
	case FOLD_REGION:
		f->n = op->nin;
		f->commutes = region_commutes(op->region[0]);
		for (int i = 0; i < op->nin; i++)
			f->type[i] = lower_type(op->in[i]->type);
		break;
	case FOLD_PAIR:
		f->n = 2;
		f->type[1] = REG_I32;
		/* fall through */
	case FOLD_KEY:
		f->type[0] = REG_I64;
		break;
	case FOLD_SUM:
	case FOLD_PROD:
		f->type[0] = work_type(f->to);
		break;
	default:
		f->type[0] = work_type(f->from);
	}
}

void
fold_open(Fold *f, Lower *l, const Op *op)
{
	fold_shape(f, op);
	f->l = l;
}

bool
fold_is_commutative(const Fold *f)
{
	return f->kind != FOLD_REGION || f->commutes;
}

bool
fold_wants_index(const Fold *f)
{
	return f->kind == FOLD_KEY || f->kind == FOLD_PAIR;
}

static Reg
int_of(const Fold *f, RegType t, int64_t v)
{
	return thread_int_const(f->l->b, t, v);
}

Reg
lower_float_key(Lower *l, RegType t, Reg x, bool nan_is_greatest)
{
	RegType as = t == REG_F64 ? REG_I64 : REG_I32;
	int64_t most = t == REG_F64 ? INT64_MAX : INT32_MAX;
	Reg zero = thread_int_const(l->b, as, 0), bits = lower_as(l, CAST_BITS, as, x);
	Reg magnitude = lower_op2(l, EMIT_AND, bits, thread_int_const(l->b, as, most));
	Reg negative = lower_op2(l, EMIT_SUB, zero, magnitude);
	Reg below = lower_op2(l, EMIT_FLT, x, thread_float_const(l->b, t, 0));
	Reg key = lower_op3(l, EMIT_SELECT, below, negative, magnitude);
	Reg nan = thread_int_const(l->b, as, nan_is_greatest ? most : -most - 1);
	return lower_op3(l, EMIT_SELECT, lower_op2(l, EMIT_FUNO, x, x), nan, key);
}

/* The element in 32 bits, or 64 if it has them. */
static Reg
as_word(const Fold *f, Reg x)
{
	Lower *l = f->l;
	if (dtype_info[f->from].bits >= 32)
		return x;
	return lower_as(l, f->is_signed ? CAST_SEXT : CAST_ZEXT, REG_I32, x);
}

static Reg
key_of(const Fold *f, Reg x)
{
	Lower *l = f->l;
	Reg key;
	RegType as = f->kind == FOLD_PAIR ? REG_I64 : REG_I32;
	if (dtype_is_float(f->from)) {
		key = lower_float_key(l, f->from == TY_F64 ? REG_F64 : REG_F32, lower_widen(l, f->from, x),
		    f->propagates_nan != f->is_least);
	} else {
		key = as_word(f, x);
		int bits = as == REG_I64 ? 64 : 32;
		if (!f->is_signed && dtype_info[f->from].bits == bits)
			key = lower_op2(l, EMIT_XOR, key, int_of(f, as, bits == 64 ? INT64_MIN : INT32_MIN));
	}
	return f->is_least ? lower_op1(l, EMIT_NOT, key) : key;
}

void
fold_enter(const Fold *f, const Reg *element, Reg index, Reg *state)
{
	Lower *l = f->l;
	switch (f->kind) {
	case FOLD_REGION:
		memcpy(state, element, sizeof *state * (size_t)f->n);
		return;
	case FOLD_SUM:
	case FOLD_PROD:
		state[0] = lower_cast_one(l, f->from, f->to, element[0]);
		return;
	case FOLD_PAIR:
		state[0] = key_of(f, element[0]);
		state[1] = index;
		return;
	case FOLD_KEY: {
		Reg key = lower_as(l, CAST_SEXT, REG_I64, key_of(f, element[0]));
		Reg low = lower_as(l, CAST_ZEXT, REG_I64, lower_op1(l, EMIT_NOT, index));
		state[0] = lower_op2(l, EMIT_OR, lower_op2(l, EMIT_SHL, key, lower_i64(l, 32)), low);
		return;
	}
	default:
		state[0] = dtype_is_float(f->from) ? lower_widen(l, f->from, element[0]) : as_word(f, element[0]);
	}
}

void
fold_leave(const Fold *f, const Reg *state, Reg *result)
{
	Lower *l = f->l;
	switch (f->kind) {
	case FOLD_REGION:
		memcpy(result, state, sizeof *state * (size_t)f->n);
		return;
	case FOLD_SUM:
	case FOLD_PROD:
		result[0] = state[0];
		return;
	case FOLD_PAIR:
		result[0] = state[1];
		return;
	case FOLD_KEY:
		result[0] = lower_op1(l, EMIT_NOT, lower_as(l, CAST_TRUNC, REG_I32, state[0]));
		return;
	default:
		break;
	}
	if (dtype_is_float(f->to))
		result[0] = lower_narrow_exact(l, f->to, state[0]);
	else if (f->to == TY_BOOL)
		result[0] = lower_op2(l, EMIT_NE, state[0], lower_i32(l, 0));
	else if (dtype_info[f->to].bits < 32)
		result[0] = lower_as(l, CAST_TRUNC, dtype_info[f->to].bits == 16 ? REG_I16 : REG_I8, state[0]);
	else
		result[0] = state[0];
}

static Reg
extreme(const Fold *f, Reg a, Reg b)
{
	Lower *l = f->l;
	bool most = f->kind == FOLD_MOST;
	if (!dtype_is_float(f->from)) {
		EmitOp with_sign = most ? EMIT_SMAX : EMIT_SMIN, without = most ? EMIT_UMAX : EMIT_UMIN;
		return lower_op2(l, f->is_signed ? with_sign : without, a, b);
	}
	Reg r = lower_op2(l, most ? EMIT_FMAX : EMIT_FMIN, a, b);
	if (!f->propagates_nan)
		return r;
	return lower_op3(l, EMIT_SELECT, lower_op2(l, EMIT_FUNO, a, b), lower_op2(l, EMIT_FADD, a, b), r);
}

static void
combine_pair(const Fold *f, const Reg *a, const Reg *b, Reg *out)
{
	Lower *l = f->l;
	Reg greater = lower_op2(l, EMIT_SLT, a[0], b[0]), equal = lower_op2(l, EMIT_EQ, a[0], b[0]);
	Reg before = lower_op2(l, EMIT_ULT, b[1], a[1]);
	Reg take = lower_op2(l, EMIT_OR, greater, lower_op2(l, EMIT_AND, equal, before));
	fold_select(f, take, b, a, out);
}

void
fold_combine(const Fold *f, const Reg *a, const Reg *b, Reg *out)
{
	static const EmitOp plain[] = {[FOLD_AND] = EMIT_AND, [FOLD_OR] = EMIT_OR, [FOLD_XOR] = EMIT_XOR,
		[FOLD_KEY] = EMIT_SMAX};
	Lower *l = f->l;
	bool is_float = dtype_is_float(f->to);
	Reg in[2 * FOLD_MAX];
	switch (f->kind) {
	case FOLD_SUM:
		out[0] = lower_op2(l, is_float ? EMIT_FADD : EMIT_ADD, a[0], b[0]);
		return;
	case FOLD_PROD:
		out[0] = lower_op2(l, is_float ? EMIT_FMUL : EMIT_MUL, a[0], b[0]);
		return;
	case FOLD_MOST:
	case FOLD_LEAST:
		out[0] = extreme(f, a[0], b[0]);
		return;
	case FOLD_PAIR:
		combine_pair(f, a, b, out);
		return;
	case FOLD_REGION:
		memcpy(in, a, sizeof *a * (size_t)f->n);
		memcpy(in + f->n, b, sizeof *b * (size_t)f->n);
		lower_combine(l, f->op->region[0], in, out);
		return;
	default:
		out[0] = lower_op2(l, plain[f->kind], a[0], b[0]);
	}
}

bool
fold_identity(const Fold *f, Reg *state)
{
	bool is_float = dtype_is_float(f->to);
	int64_t v = f->kind == FOLD_PROD;
	if (f->kind != FOLD_SUM && f->kind != FOLD_PROD)
		return false;
	state[0] = is_float ? thread_float_const(f->l->b, f->type[0], (double)v) : thread_int_const(f->l->b, f->type[0], v);
	return true;
}

void
fold_select(const Fold *f, Reg pred, const Reg *a, const Reg *b, Reg *out)
{
	for (int i = 0; i < f->n; i++)
		out[i] = a[i] == b[i] ? a[i] : lower_op3(f->l, EMIT_SELECT, pred, a[i], b[i]);
}

void
fold_lane_xor(const Fold *f, const Reg *state, int mask, Reg *out)
{
	for (int i = 0; i < f->n; i++)
		out[i] = lower_lane_xor(f->l, f->type[i], state[i], mask);
}
