/* Linear forms of indices: scalars times numbers, plus a range that indices within a tile make. */
#include "compile/choose/tile/choose_tile_linear.h"

bool
linear_add_term(Linear *x, const Value *v, int64_t by)
{
	int i = VALUE_OF(k, x->n, x->of[k]->id == v->id, k, x->n);
	if (i == TERMS)
		return false;
	if (i == x->n) {
		x->of[x->n] = v;
		x->by[x->n++] = 0;
	}
	return !__builtin_add_overflow(x->by[i], by, &x->by[i]);
}

bool
linear_add_number(Linear *x, int64_t lo, int64_t hi)
{
	return !__builtin_add_overflow(x->lo, lo, &x->lo) && !__builtin_add_overflow(x->hi, hi, &x->hi);
}

bool
linear_add(Linear *x, const Linear *y, int64_t by)
{
	int64_t n, lo, hi;
	return !ANY_OF(i, y->n,
		   __builtin_mul_overflow(y->by[i], by, &n) || !linear_add_term(x, y->of[i], n)) &&
	    !__builtin_mul_overflow(y->lo, by, &lo) && !__builtin_mul_overflow(y->hi, by, &hi) &&
	    linear_add_number(x, MIN(lo, hi), MAX(lo, hi));
}

int64_t
linear_factor(const Linear *x, const Value *v)
{
	return VALUE_OF(i, x->n, x->of[i]->id == v->id, x->by[i], 0);
}

/* Indices of rows, from a start that goes with the tile's: of rows that are written they are less than that start and all
 * rows behind the tile's first.  False: it is something else. */
static bool
add_rows(Linear *x, const Op *add, int64_t by, int depth)
{
	const Pair *pair = x->pair;
	for (int i = 0; i < 2 && pair && by < 0; i++) {
		const Op *of = add->in[i]->def, *other = add->in[1 - i]->def;
		Linear start = {.n = 0}, row = {.n = 0};
		if (!of || of->kind != OP_BROADCAST || !other || other->kind != OP_IOTA || of->in[0]->type->rank > 0 ||
		    !linear_add_value(&start, of->in[0], 1, depth + 1) || !linear_add_value(&row, pair->row, 1, depth + 1))
			continue;
		bool has = row.n > 0 && ALL_OF(k, row.n, linear_factor(&start, row.of[k]) == row.by[k]);
		if (has)
			return linear_add(x, &start, by) && linear_add(x, &row, -by) &&
			    linear_add_term(x, pair->rows, by) && linear_add_number(x, -by, -by);
	}
	return false;
}

/* The range of indices within a tile, over a number or what that leaves, in whatever type: none is below 0. */
static bool
index_range(const Value *v, int64_t *hi, int depth)
{
	const Op *op = v->def;
	int64_t n;
	switch (op && depth < DEEP ? op->kind : OP_FOR) {
	case OP_IOTA:
		*hi = v->type->extent[attr_axis(op)] - 1;
		return true;
	case OP_BROADCAST: case OP_RESHAPE: case OP_PERMUTE:
		return index_range(op->in[0], hi, depth + 1);
	case OP_DIV: case OP_REM:
		if (!value_int(op->in[1], &n) || n <= 0 || !index_range(op->in[0], hi, depth + 1))
			return false;
		*hi = op->kind == OP_DIV ? *hi / n : MIN(*hi, n - 1);
		return true;
	default:
		return false;
	}
}

const Value *
linear_cast(const Value *v)
{
	const Func *f = v->def ? v->def->home->func : NULL;
	for (const Op *op = f ? f->body->first : NULL; op; op = op_after(op, f->body))
		if (op->kind == OP_CAST && op->in[0] == v && op->out[0].type->elem == TY_I64)
			return &op->out[0];
	return NULL;
}

bool
linear_add_value(Linear *x, const Value *v, int64_t by, int depth)
{
	const Op *op = v->def;
	int64_t n, product;
	if (v->type->kind != TYPE_TILE || v->type->ptr != PTR_NONE || v->type->elem != TY_I64 || depth == DEEP)
		return false;
	if (value_int(v, &n))
		return !__builtin_mul_overflow(n, by, &product) && linear_add_number(x, product, product);
	switch (op ? op->kind : OP_FOR) {
	case OP_IOTA:
		n = by * (v->type->extent[attr_axis(op)] - 1);
		return linear_add_number(x, MIN(n, 0), MAX(n, 0));
	case OP_BROADCAST: case OP_RESHAPE: case OP_PERMUTE:
		return linear_add_value(x, op->in[0], by, depth + 1);
	case OP_ADD: case OP_SUB:
		if (op->kind == OP_ADD && add_rows(x, op, by, depth))
			return true;
		return linear_add_value(x, op->in[0], by, depth + 1) &&
		    linear_add_value(x, op->in[1], op->kind == OP_ADD ? by : -by, depth + 1);
	case OP_MUL:
		for (int i = 0; i < 2; i++)
			if (value_int(op->in[i], &n) && !__builtin_mul_overflow(n, by, &product))
				return linear_add_value(x, op->in[1 - i], product, depth + 1);
		break;
	case OP_CAST:
		if (v->type->rank == 0 && linear_cast(op->in[0]))
			v = linear_cast(op->in[0]);
		if (!index_range(op->in[0], &n, 0) || n > INT32_MAX || dtype_info[op->in[0]->type->elem].bits < 32)
			break;
		return !__builtin_mul_overflow(n, by, &product) && linear_add_number(x, MIN(product, 0), MAX(product, 0));
	case OP_DIV: {
		Linear of = {.n = 0};
		if (!value_int(op->in[1], &n) || n <= 0 || !linear_add_value(&of, op->in[0], 1, depth + 1) || of.n > 0 ||
		    of.lo < 0 || __builtin_mul_overflow(by, of.hi / n, &product))
			break;
		return linear_add_number(x, MIN(by * (of.lo / n), product), MAX(by * (of.lo / n), product));
	}
	default:
		break;
	}
	return v->type->rank == 0 && linear_add_term(x, v, by);
}
