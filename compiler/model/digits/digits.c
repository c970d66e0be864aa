/* Indices as digits of one index, from the ops that compute them.
 *
 *     %n = div %pixel, %rows * %columns           %pixel / (rows * columns)
 *     %i = rem (div %pixel, %columns), %rows      %pixel / columns % rows
 *     %j = sub %pixel, %q * %columns              %pixel / columns = %q: %pixel % columns
 *
 * Divisors are products of numbers and scalars, in any order; powers of two may be shifts and masks.  Extents that one
 * symbol names are equal, and so are those that the program asks one tensor for. */
#include "model/digits/digits.h"

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
	const Op *x = a->def, *y = b->def;
	if (a == b)
		return true;
	if (!x || !y || depth == 0 || x->kind != y->kind || !op_has(x, PURE) || x->nregion || x->nin != y->nin ||
	    a->index != b->index || a->type != b->type || !attrs_same(x, y))
		return false;
	for (int i = 0; i < x->nin; i++)
		if (!is_alike(x->in[i], y->in[i], depth - 1))
			return false;
	return true;
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
	if (tensor->type->extent[d] > 0)
		p->number *= tensor->type->extent[d];
	else if (p->n < FACTORS)
		p->factor[p->n++] = extent_of(tensor, d);
	else
		p->n = FACTORS + 1;
}

bool
product_equal(const Product *a, const Product *b)
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

Digit
digit_of(const Value *v)
{
	v = digit_root(v);
	const Op *op = v->def, *rest = op ? rest_of(op) : NULL;
	Digit none = {.linear = v, .by.number = 1, .mod.number = 1};
	int64_t n;
	if (!op || op->nin != 2)
		return none;
	Digit d = digit_of(op->in[0]);
	bool is_shift = op->kind == OP_SHR && value_int(digit_unwrap(op->in[1]), &n) && n >= 0 && n < 31;
	bool is_mask = op->kind == OP_AND && value_int(digit_unwrap(op->in[1]), &n) && n >= 0 && (n & (n + 1)) == 0;
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
