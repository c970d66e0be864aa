/* Accesses by the digits of one index become accesses of dimensions that are one.
 *
 *     %n = div %pixel, %rows * %columns           %y: out f16[B, rows, columns, F]
 *     %i = rem (div %pixel, %columns), %rows
 *     %j = rem %pixel, %columns
 *     write %y, %n, %i, %j, %f, %v {index = "gggp", extents = [64]}
 *  =>
 *     write %y, 0, 0, %start, %f, %v {index = "iipp", extents = [128, 64], merged = [0, 0, 2, 0]}
 *
 * where %pixel is %start and what counts up from 0, and a tensor that is not strided.  An element is in the tensor if and
 * only if %pixel is below B * rows * columns: so %pixel is known not to be negative, the first digit has no remainder, and
 * each divisor is the product of the extents behind.  Extents are equal that have one symbol or number, or that the program
 * asks the tensor for (y.shape(1)).  A convolution's result leaves by tensor maps then, and one of filters of one
 * element is a product of matrices.
 *
 * A tile of indices along one dimension that counts up is a part of it, "gp" becomes "pp".
 *
 * Other accesses of the tensor must be reads: what orders accesses compares their dimensions one by one. */
#include "pass/layout/axis.h"
#include "pass/pass.h"

#include <string.h>

enum { FACTORS = 8, DEPTH = 8 };

/* A scalar, or the extent of a tensor that no symbol names. */
typedef struct Factor {
	const Value *v;                                 /* or the tensor … */
	int axis;                                       /* … and the dimension of it; -1: a scalar */
} Factor;

/* A number times scalars. */
typedef struct Product {
	int64_t number;
	Factor factor[FACTORS];
	int n;                                          /* FACTORS + 1: too many */
} Product;

/* linear / by, and the remainder of that by `mod`. */
typedef struct Digit {
	const Value *linear;
	Product by, mod;
	bool is_rest;
} Digit;

/* ---- products of scalars ---- */

static const Value *
unwrap(const Value *v)
{
	while (v->def && (v->def->kind == OP_BROADCAST || (v->def->kind == OP_CAST && dtype_is_int(v->type->elem) &&
	    dtype_is_signed(v->def->in[0]->type->elem) && dtype_is_int(v->def->in[0]->type->elem) &&
	    dtype_info[v->type->elem].bits >= dtype_info[v->def->in[0]->type->elem].bits)))
		v = v->def->in[0];
	return v;
}

static Factor
extent_of(const Value *tensor, int d)
{
	const Func *f = tensor->block->func;
	int symbol = f->param[tensor->index].dim[d];
	return symbol >= 0 ? (Factor){&f->body->arg[symbol], -1} : (Factor){tensor, d};
}

static Factor
factor_of(const Value *v)
{
	const Op *op = v->def;
	return op && op->kind == OP_DIM && !op->in[0]->def ? extent_of(op->in[0], (int)attr_axis(op)) : (Factor){v, -1};
}

static bool
is_same(Factor a, Factor b)
{
	return a.v == b.v && a.axis == b.axis;
}

static void
multiply(Product *p, const Value *v)
{
	int64_t n;
	v = unwrap(v);
	if (value_int(v, &n)) {
		if (n <= 0 || __builtin_mul_overflow(p->number, n, &p->number))
			p->n = FACTORS + 1;
	} else if (v->def && v->def->kind == OP_MUL) {
		multiply(p, v->def->in[0]);
		multiply(p, v->def->in[1]);
	} else if (p->n < FACTORS) {
		p->factor[p->n++] = factor_of(v);
	} else {
		p->n = FACTORS + 1;
	}
}

static void
multiply_extent(Product *p, const Op *op, int d)
{
	const Value *tensor = op->in[0];
	if (tensor->type->extent[d] > 0)
		p->number *= tensor->type->extent[d];
	else if (p->n < FACTORS)
		p->factor[p->n++] = extent_of(tensor, d);
	else
		p->n = FACTORS + 1;
}

static bool
is_equal(const Product *a, const Product *b)
{
	bool used[FACTORS] = {0};
	if (a->n != b->n || a->n > FACTORS || a->number != b->number)
		return false;
	for (int i = 0; i < a->n; i++) {
		int k = 0;
		while (k < b->n && (used[k] || !is_same(a->factor[i], b->factor[k])))
			k++;
		if (k == b->n)
			return false;
		used[k] = true;
	}
	return true;
}

/* ---- digits ---- */

static const Value *
through_casts(const Value *v)
{
	while (v->def && v->def->kind == OP_CAST && unwrap(v) != v)
		v = v->def->in[0];
	return v;
}

/* a - a / k * k */
static const Op *
rest_of(const Op *op)
{
	const Op *mul = op->kind == OP_SUB ? op->in[1]->def : NULL;
	for (int i = 0; mul && mul->kind == OP_MUL && i < 2; i++) {
		const Op *div = mul->in[i]->def;
		if (div && div->kind == OP_DIV && div->in[0] == op->in[0] && unwrap(div->in[1]) == unwrap(mul->in[1 - i]))
			return div;
	}
	return NULL;
}

static Digit
digit_of(const Value *v)
{
	v = through_casts(v);
	const Op *op = v->def, *rest = op ? rest_of(op) : NULL;
	Digit none = {.linear = v, .by.number = 1, .mod.number = 1};
	int64_t n;
	if (!op || op->nin != 2)
		return none;
	Digit d = digit_of(op->in[0]);
	bool is_shift = op->kind == OP_SHR && value_int(unwrap(op->in[1]), &n) && n >= 0 && n < 31;
	bool is_mask = op->kind == OP_AND && value_int(unwrap(op->in[1]), &n) && n >= 0 && (n & (n + 1)) == 0;
	if (d.is_rest)
		return none;
	if (op->kind == OP_DIV || op->kind == OP_FLOORDIV)
		multiply(&d.by, op->in[1]);
	else if (is_shift)
		d.by.number *= INT64_C(1) << n;
	else if (op->kind == OP_REM || rest)
		multiply(&d.mod, rest ? rest->in[1] : op->in[1]);
	else if (is_mask)
		d.mod.number = n + 1;
	else
		return none;
	d.is_rest = op->kind == OP_REM || rest || is_mask;
	return d;
}

/* Is the index of dimension d the digit of `linear` before what `behind` counts?  Takes dimension d to `behind`. */
static bool
is_digit(const Op *op, int d, bool is_first, const Value *linear, Product *behind)
{
	const Value *v = op->in[1 + d];
	Digit digit = digit_of(v);
	Product extent = {.number = 1};
	multiply_extent(&extent, op, d);
	int64_t n;
	bool is_one = extent.n == 0 && extent.number == 1 && value_int(unwrap(v), &n) && n == 0;
	bool fits = digit.linear == linear && is_equal(&digit.by, behind) &&
	    (is_first ? !digit.is_rest : digit.is_rest && is_equal(&digit.mod, &extent));
	multiply_extent(behind, op, d);
	return fits || (is_one && !is_first);
}

/* ---- what counts up ---- */

/* A scalar and what counts up from 0, `counts` times. */
static bool
is_affine(const Value *v, int *counts, int depth)
{
	const Op *op = v->def;
	int64_t n;
	int right = 0;
	v = through_casts(v);
	op = v->def;
	if (!op || depth == 0 || v->type->rank != 1)
		return false;
	if (op->kind == OP_IOTA)
		return ++*counts == 1;
	if (op->kind == OP_BROADCAST)
		return op->in[0]->type->rank == 0;
	if (op->kind == OP_ADD)
		return is_affine(op->in[0], counts, depth - 1) && is_affine(op->in[1], counts, depth - 1);
	if (op->kind == OP_SUB)
		return is_affine(op->in[0], counts, depth - 1) && is_affine(op->in[1], &right, depth - 1) && right == 0;
	return value_int(v, &n);
}

/* Its scalar, i64. */
static Value *
start_of(Builder *b, const Value *v)
{
	const Type *index = type_scalar(b->m, TY_I64);
	const Op *op = v->def;
	int64_t n;
	if (value_int(v, &n))
		return build_index(b, n);
	if (op->kind == OP_IOTA)
		return build_index(b, 0);
	if (op->kind == OP_CAST)
		return start_of(b, op->in[0]);
	if (op->kind == OP_BROADCAST)
		return op->in[0]->type == index ? op->in[0] : build1(b, OP_CAST, op->in[0], index);
	return build2(b, op->kind, start_of(b, op->in[0]), start_of(b, op->in[1]));
}

/* ---- accesses ---- */

/* The tensor's dimensions that tiles of one dimension index: from *first to *last, with nothing between. */
static bool
find_gathered(const Op *op, int *first, int *last)
{
	const char *index = attr_index(op), *g = strchr(index, 'g'), *end = strrchr(index, 'g');
	if (!g || attr_merged(op))
		return false;
	*first = (int)(g - index);
	*last = (int)(end - index);
	for (int d = *first; d <= *last; d++)
		if (index[d] != 'g' || op->in[1 + d]->type->rank != 1)
			return false;
	return true;
}

static bool
has_other_writes(const Op *access)
{
	const Func *f = access->home->func;
	for (const Op *op = f->body->first; op; op = op_after(op, f->body)) {
		bool is_same_tensor = op->nin > 0 && op->in[0] == access->in[0];
		if (op->kind == OP_INLINE_PTX || (op != access && is_same_tensor && op_has(op, WRITES)) ||
		    (op != access && is_same_tensor && access->kind == OP_WRITE && op_has(op, READS)))
			return true;
	}
	return false;
}

/* The linear index of which the gathered dimensions are the digits; NULL. */
static const Value *
linear_of(const Op *op, int first, int last)
{
	const Value *linear = first == last ? op->in[1 + last] : digit_of(op->in[1 + last]).linear;
	Product behind = {.number = 1};
	for (int d = last; d >= first && first < last; d--)
		if (!is_digit(op, d, d == first, linear, &behind))
			return NULL;
	return first == last || axis_of(linear)->lo >= 0 ? linear : NULL;
}

static bool
fits_64_bits(const Value *v)
{
	return dtype_info[through_casts(v)->type->elem].bits == 64 || axis_of(v)->lo >= 0;
}

/* In place: the op has the indices, letters and extents of the other form. */
static void
change(Op *op, int first, int last, const Value *linear)
{
	Module *m = op->home->func->module;
	Builder b = build_before(op);
	if (linear->def) {
		b.block = linear->def->home;
		b.before = linear->def->next;
	}
	Value *start = start_of(&b, linear), *zero = build_index(&b, 0);
	const IntList *extents = attr_extents(op);
	const Type *tile = linear->type;
	int64_t extent[KERNEL_RANK], merged[KERNEL_RANK] = {0};
	char index[KERNEL_RANK + 1];
	int n = 0, e = 0;
	strcpy(index, attr_index(op));
	for (int d = 0; index[d]; d++) {
		if (d >= first && d <= last) {
			index[d] = d < last ? 'i' : 'p';
			op_set_in(op, 1 + d, d < last ? zero : start);
		}
		if (index[d] == 'p')
			extent[n++] = d == last ? tile->extent[0] : extents->at[e++];
	}
	merged[last] = last - first;
	attr_set_index(m, op, intern(m->cx->names, index));
	attr_set_extents(m, op, extent, n);
	if (first < last)
		attr_set_merged(m, op, merged, op->in[0]->type->rank);
}

static bool
is_candidate(const Op *op)
{
	const Value *tensor = op->nin ? op->in[0] : NULL;
	return (op->kind == OP_READ || op->kind == OP_WRITE) && tensor->type->kind == TYPE_TENSOR && !tensor->def &&
	    !tensor->block->parent && tensor->type->rank <= KERNEL_RANK && !op->home->func->param[tensor->index].strided &&
	    !dtype_is_packed(tensor->type->elem);
}

void
pass_flatten(Func *f, const Target *t)
{
	(void)t;
	int first, last, counts;
	for (Op *op = f->body->first; op; op = op_after(op, f->body)) {
		if (!is_candidate(op) || !find_gathered(op, &first, &last))
			continue;
		axis_keep(f);
		const Value *linear = linear_of(op, first, last);
		counts = 0;
		if (linear && is_affine(linear, &counts, DEPTH) && counts == 1 && fits_64_bits(linear) &&
		    (first == last || !has_other_writes(op)))
			change(op, first, last, linear);
	}
	sweep(f);
}
