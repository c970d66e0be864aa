/* Indices as digits of one index, from the ops that compute them.
 *
 *     %n = div %pixel, %rows * %columns           %pixel / (rows * columns)
 *     %i = rem (div %pixel, %columns), %rows      %pixel / columns % rows
 *     %j = sub %pixel, %q * %columns              %pixel / columns = %q: %pixel % columns
 *
 * Divisors are products of numbers and scalars, in any order; powers of two may be shifts and masks.  Extents that one
 * symbol names are equal, and so are those that the program asks one tensor for. */
#include "model/digits/digits.h"

#include "ir/derive.h"

/* ---- products of scalars ---- */

static bool
is_wider(const Op *op)
{
	DType from = op->kind == OP_CAST ? op->in[0]->type->elem : TY_F32, to = op->out[0].type->elem;
	return dtype_is_int(from) && dtype_is_int(to) && dtype_is_signed(from) &&
	    dtype_info[to].bits >= dtype_info[from].bits;
}

const Value *
digit_root(const Value *v)
{
	while (v->def && (v->def->kind == OP_CONVERT || is_wider(v->def)))
		v = v->def->in[0];
	return v;
}

const Value *
digit_unwrap(const Value *v)
{
	const Value *from = NULL;
	while (v != from) {
		from = v;
		v = digit_root(v);
		v = v->def && v->def->kind == OP_BROADCAST ? v->def->in[0] : v;
	}
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
is_alike(const Value *a, const Value *b, int depth)
{
	a = digit_root(a);
	b = digit_root(b);
	if (a == b)
		return true;
	if (depth == 0 || !values_made_alike(a, b))
		return false;
	return ALL_OF(i, a->def->nin, is_alike(a->def->in[i], b->def->in[i], depth - 1));
}

bool
value_alike(const Value *a, const Value *b)
{
	enum { DEPTH = 16 };
	return is_alike(a, b, DEPTH);
}

static bool
is_same(Factor a, Factor b)
{
	return a.axis == b.axis && (a.axis < 0 ? value_alike(a.v, b.v) : a.v == b.v);
}

static void
multiply(Product *p, const Value *v)
{
	int64_t n;
	v = digit_unwrap(v);
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

void
product_extent(Product *p, const Op *op, int d)
{
	const Value *tensor = op->in[0];
	if (tensor->type->extent[d] > 0 && !__builtin_mul_overflow(p->number, tensor->type->extent[d], &p->number))
		return;
	if (tensor->type->extent[d] <= 0 && p->n < FACTORS)
		p->factor[p->n++] = extent_of(tensor, d);
	else
		p->n = FACTORS + 1;
}

void
product_multiply(Product *p, const Product *by)
{
	if (p->n > FACTORS || p->n + by->n > FACTORS || __builtin_mul_overflow(p->number, by->number, &p->number)) {
		p->n = FACTORS + 1;
		return;
	}
	for (int i = 0; i < by->n; i++)
		p->factor[p->n++] = by->factor[i];
}

/* ---- digits ---- */

/* a - a / k * k */
static const Op *
rest_of(const Op *op)
{
	const Op *mul = op->kind == OP_SUB ? op->in[1]->def : NULL;
	for (int i = 0; mul && mul->kind == OP_MUL && i < 2; i++) {
		const Op *div = mul->in[i]->def;
		bool divides = div && div->kind == OP_DIV && div->in[0] == op->in[0];
		if (divides && digit_unwrap(div->in[1]) == digit_unwrap(mul->in[1 - i]))
			return div;
	}
	return NULL;
}

/* Takes k out of the product; false: it is no factor. */
static bool
divide(Product *p, const Product *k)
{
	Product rest = {.number = p->number / MAX(k->number, 1)};
	bool used[FACTORS] = {0};
	if (p->n > FACTORS || k->n > FACTORS || k->number < 1 || p->number % k->number)
		return false;
	for (int i = 0; i < k->n; i++) {
		int at = VALUE_OF(j, p->n, !used[j] && is_same(p->factor[j], k->factor[i]), j, p->n);
		if (at == p->n)
			return false;
		used[at] = true;
	}
	for (int i = 0; i < p->n; i++)
		if (!used[i])
			rest.factor[rest.n++] = p->factor[i];
	*p = rest;
	return true;
}

bool
product_equal(const Product *a, const Product *b)
{
	Product rest = *a;
	return a->n == b->n && a->number == b->number && divide(&rest, b);
}

/* What an op divides by; false: it is no division. */
static bool
divisor_of(const Op *op, bool *is_rest, Product *k)
{
	const Op *rest = rest_of(op);
	int64_t n;
	bool shifts = op->kind == OP_SHR || op->kind == OP_AND;
	*k = (Product){.number = 1};
	*is_rest = op->kind == OP_REM || op->kind == OP_AND || rest;
	if (shifts && (!value_int(digit_unwrap(op->in[1]), &n) || n < 0 || n >= INT32_MAX))
		return false;
	if (op->kind == OP_AND) {
		k->number = n + 1;
		return (n & (n + 1)) == 0;
	}
	if (op->kind == OP_SHR) {
		k->number = n < 31 ? INT64_C(1) << n : 0;
		return n < 31;
	}
	if (op->kind != OP_DIV && op->kind != OP_FLOORDIV && !*is_rest)
		return false;
	multiply(k, rest ? rest->in[1] : op->in[1]);
	return true;
}

/* Of numbers that are not negative (x % (k * m)) / k is (x / k) % m, and (x % (k * m)) % k is x % k. */
Digit
digit_of(const Value *v)
{
	v = digit_root(v);
	const Op *op = v->def;
	const Digit none = {.linear = v, .by.number = 1, .mod.number = 1};
	Product k;
	bool is_rest;
	if (!op || op->nin != 2 || !divisor_of(op, &is_rest, &k))
		return none;
	Digit d = digit_of(op->in[0]);
	Product mod = d.mod;
	if (d.is_rest && !divide(&mod, &k))
		return none;
	if (is_rest) {
		d.mod = k;
		d.is_rest = true;
		return d;
	}
	product_multiply(&d.by, &k);
	if (d.is_rest)
		d.mod = mod;
	return d;
}
