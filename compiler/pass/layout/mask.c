/* Masks of a loop's index: comparisons of two integer tiles of which one goes with the index, at a constant rate.
 *
 *     %0 = add (broadcast %t), (iota) : i64[64]
 *     %1 = lt %0, (broadcast %L) : bool[64]               t + (0 .. 63) - L < 0, by element
 *
 * A side is a sum or difference of the index, of at most two scalars of outside (of the body too, where the caller takes
 * them: a nest's index that was made a carried counter), of constants and of iota.  What matters of
 * an iota is its first and its last element. */
#include "pass/layout/mask.h"

#include "pass/layout/axis.h"

enum { DEEP = 12 };                                     /* ops of an affine tile, one within the other */
#define FAR (INT64_C(1) << 61)

static bool
is_small(int64_t v)
{
	return v > -(FAR >> 2) && v < FAR >> 2;
}

static bool
add(Affine *x, const Affine *y, int sign)
{
	Value *plus = sign > 0 ? y->plus : y->minus, *minus = sign > 0 ? y->minus : y->plus;
	if ((x->plus && plus) || (x->minus && minus))
		return false;
	x->plus = x->plus ? x->plus : plus;
	x->minus = x->minus ? x->minus : minus;
	x->by += sign * y->by;
	x->lo += sign > 0 ? y->lo : -y->hi;
	x->hi += sign > 0 ? y->hi : -y->lo;
	return is_small(x->lo) && is_small(x->hi) && is_small(x->by);
}

static bool
scale(Affine *x, int64_t c)
{
	int64_t lo, hi, by;
	if (x->plus || x->minus || __builtin_mul_overflow(x->by, c, &by) || __builtin_mul_overflow(x->lo, c, &lo) ||
	    __builtin_mul_overflow(x->hi, c, &hi))
		return false;
	*x = (Affine){.by = by, .lo = MIN(lo, hi), .hi = MAX(lo, hi)};
	return is_small(lo) && is_small(hi) && is_small(by);
}

static bool affine_op(const Block *body, const Op *op, int depth, bool own, Affine *out);

/* `own`: a scalar of the body that has nothing of the index is a term as one of outside is. */
static bool
affine(const Block *body, Value *v, int depth, bool own, Affine *out)
{
	int64_t n;
	*out = (Affine){0};
	if (v->type->kind != TYPE_TILE || v->type->ptr != PTR_NONE || v->type->elem != TY_I64 || depth == DEEP)
		return false;
	if (value_int(v, &n)) {
		out->lo = out->hi = n;
		return is_small(n);
	}
	if (body->parent && v == &body->arg[0]) {
		out->by = 1;
		return true;
	}
	bool is_scalar = v->type->rank == 0, is_term = is_scalar && !value_inside(v, body), may_be = own && is_scalar;
	if (!is_term && affine_op(body, v->def, depth, own, out) && (out->by || !may_be))
		return true;
	if (!is_term && !may_be)
		return false;
	*out = (Affine){.plus = v};
	return true;
}

static bool
affine_op(const Block *body, const Op *op, int depth, bool own, Affine *out)
{
	int64_t n;
	Affine y;
	switch (op ? op->kind : OP_FOR) {
	case OP_IOTA:
		out->hi = op->out[0].type->extent[attr_axis(op)] - 1;
		return true;
	case OP_BROADCAST: case OP_RESHAPE: case OP_PERMUTE:
		return affine(body, op->in[0], depth + 1, own, out);
	case OP_ADD: case OP_SUB:
		return affine(body, op->in[0], depth + 1, own, out) && affine(body, op->in[1], depth + 1, own, &y) &&
		    add(out, &y, op->kind == OP_ADD ? 1 : -1);
	case OP_MUL:
		return (value_int(op->in[1], &n) && affine(body, op->in[0], depth + 1, own, out) && scale(out, n)) ||
		    (value_int(op->in[0], &n) && affine(body, op->in[1], depth + 1, own, out) && scale(out, n));
	default:
		return false;
	}
}

bool
mask_affine(const Block *body, const Value *v, bool own, Affine *out)
{
	const Op *op = v->def;
	Affine y;
	if (!op || op_family(op) != FAMILY_COMPARE || v->type->rank == 0)
		return false;
	bool turned = op->kind == OP_GT || op->kind == OP_GE, or_equal = op->kind == OP_LE || op->kind == OP_GE;
	if ((op->kind != OP_LT && op->kind != OP_LE && !turned) || !affine(body, op->in[turned], 0, own, out) ||
	    !affine(body, op->in[!turned], 0, own, &y) || !add(out, &y, -1))
		return false;
	out->hi -= or_equal;
	return true;
}

Value *
mask_within(Builder *b, Value *v, Value *ok)
{
	const AxisInfo *x = axis_of(v);
	if (x->lo >= -FAR && x->hi <= FAR)
		return ok;
	Value *is = build2(b, OP_AND, build2(b, OP_LE, build_index(b, -FAR), v), build2(b, OP_LE, v, build_index(b, FAR)));
	return ok ? build2(b, OP_AND, ok, is) : is;
}

Value *
mask_end(Builder *b, const Op *loop, OpKind kind, int64_t n, Value *step)
{
	Value *lo = loop->in[0], *hi = loop->in[1], *ok = mask_within(b, hi, mask_within(b, lo, NULL));
	Value *span = build2(b, OP_MAX, build2(b, OP_SUB, hi, lo), build_index(b, 0));
	Value *trips = build2(b, OP_CDIV, span, loop->in[2]), *count = build2(b, kind, trips, build_index(b, n));
	Value *end = build2(b, OP_ADD, lo, build2(b, OP_MUL, count, step));
	return ok ? build3(b, OP_SELECT, ok, end, lo) : end;
}

/* ---- what a dimension bounds ---- */

/* Is it the symbol, or the least of it and something else? */
static bool
is_below(const Value *v, const Value *symbol)
{
	const Op *op = v->def;
	return v == symbol || (op && op->kind == OP_MIN && (op->in[0] == symbol || op->in[1] == symbol));
}

static bool
is_number(const Value *v, int64_t *n)
{
	const AxisInfo *x = axis_of(v);
	*n = x->lo == x->hi ? x->lo : *n;
	return x->lo == x->hi;
}

/* v as program_id * times + more. */
static const Op *
program_of(const Value *v, int64_t *times, int64_t *more)
{
	const Op *op = v->def;
	*times = 1;
	*more = 0;
	if (op && op->kind == OP_ADD && (is_number(op->in[0], more) || is_number(op->in[1], more)))
		op = op->in[is_number(op->in[0], more)]->def;
	if (op && op->kind == OP_MUL && (is_number(op->in[0], times) || is_number(op->in[1], times)))
		op = op->in[is_number(op->in[0], times)]->def;
	return op && (op->kind == OP_PROGRAM_ID || op->kind == OP_PROGRAM_AT) ? op : NULL;
}

/* The grid has as many parts as the dimension has.  The last one is whole if the dimension is divisible, and so are the
 * last ones that are computed as one tile (pass batch). */
bool
below_by_program(const Value *start, int dim, int div, int64_t record, int64_t extent)
{
	int64_t times, more, per;
	const Op *program = program_of(start, &times, &more);
	if (!program || attr_dim(program) != dim)
		return false;
	bool is_first = axis_div(axis_of(&program->out[0]), 0) >= log2_floor(attr_ranks(program));
	per = attr_per(program) * record;
	if (times != per)
		return false;
	per *= is_first ? attr_ranks(program) : 1;
	if (more < 0 || extent > per - more)
		return false;
	per /= record;
	return (more == 0 && extent <= 1) || per == 1 || (div < 62 && (INT64_C(1) << div) % per == 0);
}

/* Products by copies whose sizes are known take 3 to 4 % longer than by such with a test (H200: int4 of 16 rows 15.8 to
 * 16.2 us, int4_split 10.6 to 11.0, fp8_dx 1350 to 1407). */
static bool
multiplies(const Op *loop)
{
	return ANY_OP_HERE(op, loop->region[0], op_family(op) == FAMILY_DOT);
}

/* symbol / n * n, of a loop's steps of n, as pass unroll leaves it. */
static bool
is_floor(const Value *end, const Value *symbol, int64_t n)
{
	int64_t times = 0, by = 0;
	const Op *op = end->def, *parts = op && op->kind == OP_MUL && is_number(op->in[1], &times) ? op->in[0]->def : NULL;
	return parts && parts->kind == OP_DIV && is_number(parts->in[1], &by) && parts->in[0] == symbol && times == by &&
	    by == n;
}

/* The index times a number or divided by one, where the loop runs to the dimension in whole steps, or to the number of its
 * parts (cdiv(K, 64), K / 64); or for a dimension of parts itself, as groups of K have scales.  Or the index and a number,
 * where whole steps alone are taken of the dimension. */
bool
below_by_loop(const Value *start, const Value *symbol, int64_t part, int64_t extent, bool access)
{
	int64_t times = 1, by = 1, of = 1, step = 0, more = 0;
	const Op *moves = start->def;
	if (moves && moves->kind == OP_ADD && is_number(moves->in[1], &more))
		start = moves->in[0];
	const Op *floored = start->def ? NULL : start->block->parent;
	if (floored && floored->kind == OP_FOR && start->index == 0 && is_number(floored->in[2], &step) &&
	    is_floor(floored->in[1], symbol, step) && axis_of(floored->in[0])->lo == 0 && axis_of(floored->in[0])->hi == 0)
		return more >= 0 && (more + extent) * part <= step;
	start = moves && moves->kind == OP_ADD ? &moves->out[0] : start;
	if (moves && moves->kind == OP_MUL)
		start = moves->in[is_number(moves->in[1], &times) || !is_number(moves->in[0], &times) ? 0 : 1];
	if (moves && moves->kind == OP_DIV && is_number(moves->in[1], &by))
		start = moves->in[0];
	const Op *loop = start->def ? NULL : start->block->parent;
	if (!loop || loop->kind != OP_FOR || start->index != 0)
		return false;
	const Value *end = loop->in[1];
	bool floors = end->def && end->def->kind == OP_DIV;
	if ((floors || (end->def && end->def->kind == OP_CDIV)) && is_number(end->def->in[1], &of))
		end = end->def->in[0];
	const AxisInfo *lo = axis_of(loop->in[0]);
	if (!is_below(end, symbol) || lo->lo < 0 || !is_number(loop->in[2], &step) || times * part != of * by ||
	    MIN(MIN(step, of), MIN(times, by)) <= 0)
		return false;
	int64_t all = step * of;                        /* of the symbol, which an iteration has */
	int div = axis_of(symbol)->div[0];
	bool exact = floors || (is_power_of_two(of) && div >= log2_floor(of));
	bool whole = is_power_of_two(all) && div >= log2_floor(all) && lo->div[0] >= log2_floor(step);
	if (access && (part > 1 || by > 1 || floors || (of > 1 && extent > of)) && multiplies(loop))
		return false;
	return extent <= 1 || (exact && extent * part <= of) || (whole && extent * part <= all);
}

/* A tile as a scalar (NULL: 0) and at most `most`. */
static bool
find_start(const Value *v, const Value **start, int64_t *most, int depth)
{
	const Op *op = v->def;
	int64_t n = 0;
	if (v->type->kind != TYPE_TILE || v->type->ptr != PTR_NONE || v->type->elem != TY_I64 || depth == DEEP)
		return false;
	bool is_known = is_number(v, &n);
	if (is_known || (op && op->kind == OP_IOTA)) {
		*most += is_known ? n : axis_of(v)->hi;
		return is_small(*most);
	}
	bool sums = op && op->kind == OP_ADD && (is_number(op->in[0], &n) || is_number(op->in[1], &n));
	if (v->type->rank == 0 && !sums) {
		bool is_first = !*start;
		*start = v;
		return is_first;
	}
	switch (op ? op->kind : OP_FOR) {
	case OP_BROADCAST: case OP_RESHAPE: case OP_PERMUTE:
		return find_start(op->in[0], start, most, depth + 1);
	case OP_ADD:
		return find_start(op->in[0], start, most, depth + 1) && find_start(op->in[1], start, most, depth + 1);
	default:
		return false;
	}
}

/* The dimension's extent that a tile or a scalar is, or, *last, is one more than; NULL: it is something else. */
static const Value *
extent_of(const Value *v, bool *last)
{
	int64_t by;
	*last = false;
	for (; v->def; v = v->def->in[0]) {
		bool moves = v->def->kind == OP_BROADCAST || v->def->kind == OP_RESHAPE || v->def->kind == OP_PERMUTE;
		bool less = (v->def->kind == OP_SUB || v->def->kind == OP_ADD) && value_int(v->def->in[1], &by) &&
		            by == (v->def->kind == OP_SUB ? 1 : -1) && !*last;
		if (!moves && !less)
			return NULL;
		*last |= less;
	}
	bool is_dim = !v->block->parent && v->block->func->param[v->index].kind == PARAM_DIM;
	return is_dim ? v : NULL;
}

int
mask_by_extent(const Op *op)
{
	static const OpKind below[2][2] = {{OP_GT, OP_GE}, {OP_LT, OP_LE}};
	static const OpKind above[2][2] = {{OP_LE, OP_LT}, {OP_GE, OP_GT}};

	for (int side = 0; side < 2; side++) {
		bool last;
		const Value *start = NULL, *symbol = extent_of(op->in[side], &last);
		int64_t most = 0;
		bool less = op->kind == below[side][last], is = less || op->kind == above[side][last];
		if (!symbol || !is || !find_start(op->in[!side], &start, &most, 0) || !start)
			continue;
		if (below_by_loop(start, symbol, 1, most + 1, false) ||
		    below_by_program(start, symbol->index, axis_of(symbol)->div[0], 1, most + 1))
			return less;
	}
	return -1;
}
