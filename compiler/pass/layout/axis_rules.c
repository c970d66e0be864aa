/* Transfer functions of axis analysis: what each op's result is, from its operands.
 *
 * Divisibility and contiguity are facts modulo 2^64 (or the type's width): sums may wrap.  Ranges are facts about the
 * numbers; where a result may leave its type, its range is the type's. */
#include "ir/derive.h"
#include "pass/layout/axis.h"
#include "pass/layout/mask.h"

#include <string.h>

__extension__ typedef __int128 Wide;                    /* sums and products of any two i64 */

static AxisInfo
in(const Op *op, int i)
{
	return *axis_of(op->in[i]);
}

static void
set_range(AxisInfo *x, Wide lo, Wide hi)
{
	if (lo >= x->lo && hi <= x->hi) {
		x->lo = (int64_t)lo;
		x->hi = (int64_t)hi;
	}
}

static void
range_of_products(AxisInfo *x, const AxisInfo *l, const AxisInfo *r)
{
	Wide p[4] = {(Wide)l->lo * r->lo, (Wide)l->lo * r->hi, (Wide)l->hi * r->lo, (Wide)l->hi * r->hi};
	Wide lo = p[0], hi = p[0];
	for (int i = 1; i < 4; i++) {
		lo = MIN(lo, p[i]);
		hi = MAX(hi, p[i]);
	}
	set_range(x, lo, hi);
}

/* Sums: neighbours on one side, equal on the other.  `unit` as in axis_div_at, `lu` and `ru` those of the operands, in
 * which the right one counts `shift` bits more. */
static AxisInfo
sum(const Type *t, const AxisInfo *l, const AxisInfo *r, bool minus, int shift)
{
	AxisInfo x = axis_unknown(t);
	int unit = axis_unit(t), ru = 0;
	for (int d = 0; d < MAX(x.rank, 1); d++) {
		int left = MIN(l->contig[d], r->equal[d]), right = minus ? 0 : MIN(r->contig[d], l->equal[d]);
		x.contig[d] = MAX(left, right);
		x.equal[d] = MIN(l->equal[d], r->equal[d]);
		x.div[d] = MIN(axis_div_at(l, d, x.contig[d], unit), axis_div_at(r, d, x.contig[d], ru) + shift);
	}
	return x;
}

static AxisInfo
rule_sum(const Op *op, const Type *t, bool minus)
{
	AxisInfo l = in(op, 0), r = in(op, 1), x = sum(t, &l, &r, minus, 0);
	if (minus)
		set_range(&x, (Wide)l.lo - r.hi, (Wide)l.hi - r.lo);
	else
		set_range(&x, (Wide)l.lo + r.lo, (Wide)l.hi + r.hi);
	return x;
}

static AxisInfo
rule_mul(const Type *t, const AxisInfo *l, const AxisInfo *r)
{
	AxisInfo x = axis_unknown(t);
	if (axis_is_known(r) && r->lo == 1)
		return *l;
	if (axis_is_known(l) && l->lo == 1)
		return *r;
	for (int d = 0; d < MAX(x.rank, 1); d++) {
		x.equal[d] = MIN(l->equal[d], r->equal[d]);
		x.div[d] = MIN(axis_div_at(l, d, 0, 0) + axis_div_at(r, d, 0, 0), DIV_MOST);
	}
	range_of_products(&x, l, r);
	return x;
}

static bool
is_power(const AxisInfo *x)
{
	return axis_is_known(x) && is_power_of_two(x->lo);
}

/* Quotients by a power of two of what counts up are equal in groups; remainders count up in groups. */
static AxisInfo
rule_div(const Type *t, const AxisInfo *l, const AxisInfo *r, bool floors)
{
	AxisInfo x = axis_unknown(t);
	bool fits = l->lo >= 0 || floors;
	for (int d = 0; d < MAX(x.rank, 1); d++)
		x.equal[d] = MIN(l->equal[d], r->equal[d]);
	if (is_power(r) && fits)
		for (int d = 0; d < MAX(x.rank, 1); d++) {
			int k = log2_ceil(r->lo), group = MIN(MIN(l->contig[d], k), l->div[d]);
			x.equal[d] = MAX(x.equal[d], group);
			x.div[d] = l->contig[d] == 0 && l->div[d] >= k ? MIN(l->div[d] - k, DIV_MOST) : 0;
		}
	if (l->lo >= 0 && r->lo > 0)
		set_range(&x, l->lo / r->hi, l->hi / r->lo);
	return x;
}

static AxisInfo
rule_rem(const Type *t, const AxisInfo *l, const AxisInfo *r)
{
	AxisInfo x = axis_unknown(t);
	for (int d = 0; d < MAX(x.rank, 1); d++) {
		x.equal[d] = MIN(l->equal[d], r->equal[d]);
		x.div[d] = MIN(axis_div(l, 0), axis_div(r, 0));
	}
	if (is_power(r) && l->lo >= 0)
		for (int d = 0; d < MAX(x.rank, 1); d++) {
			int k = log2_ceil(r->lo), group = MIN(MIN(l->contig[d], k), l->div[d]);
			x.contig[d] = group;
			x.div[d] = MIN(axis_div_at(l, d, group, 0), k);
		}
	if (r->lo > 0 && (l->lo >= 0 || dtype_is_unsigned(t->elem)))
		set_range(&x, 0, l->lo >= 0 ? MIN(l->hi, r->hi - 1) : r->hi - 1);
	return x;
}

/* v / by where v is a sum of multiples of `by`: what that is a multiple of, as log2; -1: it is none. */
static int
quotient_div(const Value *v, int64_t by, int depth)
{
	const Op *op = v->def, *loop = v->block && !op ? v->block->parent : NULL;
	int64_t n;
	if (value_int(v, &n))
		return n % by == 0 ? trailing_zeros(n / by) : -1;
	bool is_index = loop && loop->kind == OP_FOR && v == &v->block->arg[0];
	const AxisInfo *range = axis_of(v), all = axis_unknown(v->type);
	bool stays = op && (range->lo > all.lo || range->hi < all.hi);  /* it has not wrapped */
	bool is_sum = stays && op->kind == OP_ADD, is_product = stays && op->kind == OP_MUL;
	if (depth == 0 || !(is_index || is_sum || is_product))
		return -1;
	const Value *a = is_index ? loop->in[0] : op->in[0], *b = is_index ? loop->in[2] : op->in[1];
	int left = quotient_div(a, by, depth - 1), right = quotient_div(b, by, depth - 1);
	return is_product ? MAX(left, right) : MIN(left, right);
}

/* %k / 10, where a loop counts %k by 160, is a multiple of 16. */
static AxisInfo
rule_quotient(const Op *op, const Type *t, const AxisInfo *l, const AxisInfo *r)
{
	enum { DEEP = 4 };
	AxisInfo x = rule_div(t, l, r, false);
	bool fits = t->rank == 0 && (l->lo >= 0 || t->elem != TY_U64);
	if (fits && axis_is_known(r) && r->lo > 0 && !is_power(r))
		x.div[0] = MAX(x.div[0], quotient_div(op->in[0], r->lo, DEEP));
	return x;
}

static AxisInfo
rule_cdiv(const Type *t, const AxisInfo *l, const AxisInfo *r)
{
	AxisInfo x = axis_unknown(t);
	for (int d = 0; d < MAX(x.rank, 1); d++) {
		x.equal[d] = MIN(l->equal[d], r->equal[d]);
		if (is_power(r) && l->contig[d] == 0)
			x.div[d] = MAX(MIN(l->div[d], DIV_MOST) - log2_ceil(r->lo), 0);
	}
	if (l->lo >= 0 && r->lo > 0)
		set_range(&x, l->lo / r->hi, ((Wide)l->hi + r->lo - 1) / r->lo);
	return x;
}

/* x counts up in aligned groups whose first is divisible by the group, y is divisible by it: x < y is equal over the
 * group, and so is x >= y. */
static int
uniform(const AxisInfo *x, const AxisInfo *y, int d)
{
	int k = MIN(x->contig[d], y->equal[d]);
	return MIN(k, MIN(x->div[d], axis_div_at(y, d, 0, 0)));
}

static AxisInfo
rule_compare(const Op *op, const Type *t, const AxisInfo *l, const AxisInfo *r)
{
	bool left = op->kind == OP_LT || op->kind == OP_GE, right = op->kind == OP_GT || op->kind == OP_LE;
	AxisInfo x = axis_unknown(t);
	for (int d = 0; d < MAX(x.rank, 1); d++) {
		x.equal[d] = MIN(l->equal[d], r->equal[d]);
		if (left)
			x.equal[d] = MAX(x.equal[d], uniform(l, r, d));
		if (right)
			x.equal[d] = MAX(x.equal[d], uniform(r, l, d));
	}
	bool less = l->hi < r->lo, more = l->lo > r->hi, not_more = l->hi <= r->lo, not_less = l->lo >= r->hi;
	int known = -1;
	switch (op->kind) {
	case OP_LT: known = less ? 1 : not_less ? 0 : -1; break;
	case OP_GE: known = not_less ? 1 : less ? 0 : -1; break;
	case OP_GT: known = more ? 1 : not_more ? 0 : -1; break;
	case OP_LE: known = not_more ? 1 : more ? 0 : -1; break;
	case OP_EQ: known = less || more ? 0 : -1; break;
	default: known = less || more ? 1 : -1; break;
	}
	known = known < 0 ? mask_by_extent(op) : known;
	return known < 0 ? x : axis_constant(t, known);
}

static AxisInfo
rule_select(const Type *t, const AxisInfo *c, const AxisInfo *l, const AxisInfo *r)
{
	AxisInfo x = axis_meet(l, r, t);
	int unit = axis_unit(t);
	if (axis_is_known(c))
		return c->lo ? *l : *r;
	for (int d = 0; d < MAX(x.rank, 1); d++) {
		x.contig[d] = MIN(x.contig[d], c->equal[d]);
		x.equal[d] = MIN(x.equal[d], c->equal[d]);
		x.div[d] = MIN(axis_div_at(l, d, x.contig[d], unit), axis_div_at(r, d, x.contig[d], unit));
	}
	x.lo = MIN(l->lo, r->lo);
	x.hi = MAX(l->hi, r->hi);
	return x;
}

/* Only what is equal stays equal: for ops that mix bits. */
static AxisInfo
rule_equal(const Op *op, const Type *t)
{
	AxisInfo x = axis_unknown(t);
	for (int d = 0; d < MAX(x.rank, 1); d++)
		x.equal[d] = DIV_MOST;
	for (int i = 0; i < op->nin; i++)
		for (int d = 0; d < MAX(x.rank, 1); d++)
			x.equal[d] = MIN(x.equal[d], axis_of(op->in[i])->equal[d]);
	return x;
}

static AxisInfo
rule_bits(const Op *op, const Type *t)
{
	AxisInfo x = rule_equal(op, t), l = in(op, 0), r = in(op, 1);
	for (int d = 0; d < MAX(x.rank, 1); d++) {
		int ld = axis_div_at(&l, d, 0, 0), rd = axis_div_at(&r, d, 0, 0);
		x.div[d] = op->kind == OP_AND ? MAX(ld, rd) : MIN(ld, rd);
	}
	if (op->kind == OP_AND && l.lo >= 0)
		set_range(&x, 0, l.hi);
	if (op->kind == OP_AND && r.lo >= 0)
		set_range(&x, 0, r.hi);
	if (t->elem == TY_BOOL && op->kind == OP_AND && axis_is_known(&l) && axis_is_known(&r))
		return axis_constant(t, l.lo & r.lo);
	return x;
}

/* Ranges are of signed numbers: a u64 whose range has some below 0 may be the larger one. */
static AxisInfo
rule_least(const Op *op, const Type *t)
{
	AxisInfo x = rule_equal(op, t), l = in(op, 0), r = in(op, 1);
	for (int d = 0; d < MAX(x.rank, 1); d++)
		x.div[d] = MIN(axis_div_at(&l, d, 0, 0), axis_div_at(&r, d, 0, 0));
	bool wraps = t->elem == TY_U64 && (l.lo < 0 || r.lo < 0);
	if (wraps && op->kind == OP_MIN && (l.lo >= 0 || r.lo >= 0))
		set_range(&x, 0, l.lo >= 0 ? l.hi : r.hi);
	else if (wraps)
		return x;
	else if (op->kind == OP_MIN)
		set_range(&x, MIN(l.lo, r.lo), MIN(l.hi, r.hi));
	else
		set_range(&x, MAX(l.lo, r.lo), MAX(l.hi, r.hi));
	return x;
}

/* Between integers: a group that counts up stays whole where the type ends at one of its edges. */
static AxisInfo
rule_cast(const Op *op, const Type *t)
{
	const Type *from = op->in[0]->type;
	AxisInfo x = in(op, 0), r = axis_unknown(t);
	bool fits = x.lo >= r.lo && x.hi <= r.hi;
	if (!dtype_is_int(from->elem) || !dtype_is_int(t->elem))
		return rule_equal(op, t);
	for (int d = 0; d < MAX(x.rank, 1); d++) {
		int k = x.contig[d];
		if (!fits || (x.lo == axis_unknown(from).lo && x.hi == axis_unknown(from).hi))
			k = MIN(k, x.div[d]);
		x.div[d] = axis_div_at(&x, d, k, 0);
		x.contig[d] = k;
		x.div[d] = MIN(x.div[d], fits ? DIV_MOST : dtype_info[t->elem].bits);
	}
	if (!fits) {
		x.lo = r.lo;
		x.hi = r.hi;
	}
	return x;
}

static AxisInfo
rule_broadcast(const Op *op, const Type *t)
{
	const Type *from = op->in[0]->type;
	AxisInfo s = in(op, 0), x = axis_unknown(t);
	for (int d = 0; d < t->rank; d++) {
		int k = from->rank == 0 ? 0 : d;
		bool spread = from->rank == 0 || from->extent[d] != t->extent[d];
		x.contig[d] = spread ? 0 : s.contig[k];
		x.div[d] = spread ? axis_div_at(&s, k, 0, axis_unit(t)) : s.div[k];
		x.equal[d] = spread ? log2_floor(t->extent[d] & -t->extent[d]) : s.equal[k];
	}
	x.lo = s.lo;
	x.hi = s.hi;
	return x;
}

/* Dimensions of extent 1 come and go; other reshapes keep only what holds for all elements. */
static AxisInfo
rule_reshape(const Op *op, const Type *t)
{
	AxisInfo s = in(op, 0), x = axis_unknown(t);
	int all = axis_div(&s, axis_unit(t)), from[MAX_RANK];
	bool plain = reshape_from(op, from);
	for (int d = 0; d < t->rank; d++) {
		int k = plain ? from[d] : -1;
		x.contig[d] = k < 0 ? 0 : s.contig[k];
		x.equal[d] = k < 0 ? 0 : s.equal[k];
		x.div[d] = k < 0 ? all : s.div[k];
	}
	x.lo = s.lo;
	x.hi = s.hi;
	return x;
}

static AxisInfo
rule_permute(const Op *op)
{
	AxisInfo s = in(op, 0), x = s;
	const IntList *dims = attr_dims(op);
	for (int d = 0; d < dims->n; d++) {
		x.contig[d] = s.contig[dims->at[d]];
		x.div[d] = s.div[dims->at[d]];
		x.equal[d] = s.equal[dims->at[d]];
	}
	return x;
}

static AxisInfo
rule_iota(const Op *op, const Type *t)
{
	AxisInfo x = axis_unknown(t);
	int axis = (int)attr_axis(op);
	for (int d = 0; d < t->rank; d++)
		x.equal[d] = log2_floor(t->extent[d] & -t->extent[d]);
	x.contig[axis] = x.equal[axis];
	x.equal[axis] = 0;
	x.div[axis] = x.contig[axis];
	if (t->extent[axis] == INT64_C(1) << x.contig[axis])
		x.div[axis] = DIV_MOST;
	set_range(&x, 0, t->extent[axis] - 1);
	return x;
}

static AxisInfo
rule_const(const Op *op, const Type *t)
{
	const Attr *v = attr_value(op);
	if (v->kind == KIND_INT || v->kind == KIND_BOOL)
		return axis_constant(t, v->i);
	AxisInfo x = axis_constant(t, 0);
	for (int d = 0; d < MAX(x.rank, 1); d++)
		x.div[d] = 0;
	x.lo = INT64_MIN;
	x.hi = INT64_MAX;
	return x;
}

static AxisInfo
rule_shift(const Op *op, const Type *t)
{
	AxisInfo l = in(op, 0), r = in(op, 1), x = rule_equal(op, t);
	int bits = dtype_info[t->elem].bits;
	if (!axis_is_known(&r) || r.lo < 0 || r.lo >= bits || r.lo > 40)
		return x;
	AxisInfo power = axis_constant(t, INT64_C(1) << r.lo);
	memcpy(power.equal, r.equal, sizeof r.equal);
	return op->kind == OP_SHL ? rule_mul(t, &l, &power) : rule_div(t, &l, &power, true);
}

/* Of elements side by side what holds for either. */
static AxisInfo
rule_join(const Op *op, const Type *t)
{
	AxisInfo x = axis_unknown(t), l = in(op, 0), r = in(op, 1);
	set_range(&x, MIN(l.lo, r.lo), MAX(l.hi, r.hi));
	return x;
}

static AxisInfo
rule_index(const Type *t, int64_t lo, int64_t hi)
{
	AxisInfo x = axis_unknown(t);
	set_range(&x, lo, hi);
	return x;
}

static AxisInfo
rule_dim(const Op *op, const Type *t)
{
	AxisInfo x = axis_unknown(t);
	int d = (int)attr_axis(op);
	int64_t lo, hi;
	dim_range(op->in[0], d, &lo, &hi);
	if (lo == hi)
		return axis_constant(t, lo);
	x.div[0] = dim_div(op->in[0], d);
	set_range(&x, lo, hi);
	return x;
}

static AxisInfo
rule_integer(const Op *op, const Type *t)
{
	AxisInfo l, r, x;
	l = op->nin > 0 ? in(op, 0) : axis_unknown(t);
	r = op->nin > 1 ? in(op, 1) : l;
	switch (op->kind) {
	case OP_ADD: return rule_sum(op, t, false);
	case OP_SUB: return rule_sum(op, t, true);
	case OP_MUL: return rule_mul(t, &l, &r);
	case OP_DIV: return rule_quotient(op, t, &l, &r);
	case OP_FLOORDIV: return rule_div(t, &l, &r, true);
	case OP_CDIV: return rule_cdiv(t, &l, &r);
	case OP_REM: return rule_rem(t, &l, &r);
	case OP_SHL: case OP_SHR: return rule_shift(op, t);
	case OP_AND: case OP_OR: case OP_XOR: return rule_bits(op, t);
	case OP_MIN: case OP_MAX: return rule_least(op, t);
	case OP_CAST: return rule_cast(op, t);
	case OP_NOT:
		x = rule_equal(op, t);
		return t->elem == TY_BOOL && axis_is_known(&l) ? axis_constant(t, !l.lo) : x;
	default: return op_info[op->kind].traits & ELEM ? rule_equal(op, t) : axis_unknown(t);
	}
}

/* The first of programs that a block computes as one tile (pass batch) or runs together has a multiple of as many for its
 * index, and is on the grid; others of them, and blocks of a cluster, may have any. */
static AxisInfo
rule_program(const Op *op, const Type *t)
{
	AxisInfo x = rule_index(t, 0, MAX(attr_count(op), 1) - 1);
	int together = log2_floor(attr_ranks(op));
	if (op->kind == OP_PROGRAM_ID || (attr_axis(op) == attr_along(op) && axis_div(axis_of(op->in[0]), 0) >= together))
		x.div[0] = MAX(x.div[0], together);
	return x;
}

AxisInfo
axis_rule(const Op *op, const Value *out)
{
	const Type *t = out->type;
	AxisInfo l, r, c;
	switch (op->kind) {
	case OP_CONST: return rule_const(op, t);
	case OP_IOTA: return rule_iota(op, t);
	case OP_PROGRAM_ID: case OP_PROGRAM_AT: return rule_program(op, t);
	case OP_NUM_PROGRAMS: case OP_NUM_BLOCKS: return rule_index(t, 1, INT32_MAX);
	case OP_BLOCK_ID: return rule_index(t, 0, INT32_MAX - 1);
	case OP_SPLIT_RANK: return rule_index(t, 0, SPLIT_MOST - 1);
	case OP_SPLIT_COUNT: return rule_index(t, 1, SPLIT_MOST);
	case OP_DIM: return rule_dim(op, t);
	case OP_BROADCAST: return rule_broadcast(op, t);
	case OP_RESHAPE: return rule_reshape(op, t);
	case OP_PERMUTE: return rule_permute(op);
	case OP_CONVERT: return in(op, 0);
	case OP_JOIN: return dtype_is_int(t->elem) && t->ptr == PTR_NONE ? rule_join(op, t) : axis_unknown(t);
	case OP_SELECT:
		c = in(op, 0);
		l = in(op, 1);
		r = in(op, 2);
		return rule_select(t, &c, &l, &r);
	case OP_PTR_ADD:
		l = in(op, 0);
		r = in(op, 1);
		return sum(t, &l, &r, false, axis_unit(t));
	case OP_EQ: case OP_NE: case OP_LT: case OP_LE: case OP_GT: case OP_GE:
		l = in(op, 0);
		r = in(op, 1);
		if (dtype_is_float(op->in[0]->type->elem) || op->in[0]->type->elem == TY_U64)
			return rule_equal(op, t);
		return rule_compare(op, t, &l, &r);
	default:
		if (dtype_is_float(t->elem) || t->ptr != PTR_NONE)
			return op_info[op->kind].traits & ELEM ? rule_equal(op, t) : axis_unknown(t);
		return rule_integer(op, t);
	}
}
