/* Rows that data numbers, as those of groups: which of them there are says data, not the size of tiles.
 *
 *     let start = first[e] + pm * BM;                  grid(pm: cdiv(A, BM), …, e: E), y: out T[A, N]
 *     let end = first[e + 1];
 *     if start >= end { return; }
 *     let i = start + arange(0, BM);
 *     y[where(i < end, i, -1), …] = …
 *
 * Programs of tiles of another size have the same rows but for those at or behind first[e] + A.  These are written nowhere:
 * they lie behind the tensor's A rows, or are numbered below 0.  Nor is what programs write that leave: where their
 * condition holds, all of their rows are numbered below 0, and so they are in a larger tile.
 *
 * Where data says where rows start, that counts as 0 or more.
 *
 * Or rows whose number's digits say where they are written:
 *
 *     let v = pm * BM + arange(0, BM);                 grid(pm: cdiv(N * (H - 2) * (W - 2), BM), …)
 *     y[v / ((H - 2) * (W - 2)), v / (W - 2) % (H - 2), v % (W - 2), …] = …       y: out T[N, H - 2, W - 2, F]
 *
 * Those at or behind N (H - 2) (W - 2) have a first digit of N or more, which lies behind the tensor. */
#include "compile/choose/tile/choose_tile_linear.h"

#include <string.h>

static bool
is_below_zero(const Value *v)
{
	const Attr *c = value_const(v);
	return c && c->kind == KIND_INT && c->i < 0;
}

/* Of where(…, v, -1), the v; NULL: it is something else. */
static const Value *
kept_by(const Op *op)
{
	bool is_select = op->kind == OP_SELECT;
	return is_select && is_below_zero(op->in[2]) ? op->in[1] : is_select && is_below_zero(op->in[1]) ? op->in[2] : NULL;
}

/* The value before a conversion that keeps all numbers, those below 0 too; NULL: it is something else. */
static const Value *
converted(const Op *op)
{
	if (op->kind != OP_CAST)
		return NULL;
	DType from = op->in[0]->type->elem, to = op->out[0].type->elem;
	bool keeps = dtype_is_signed(from) && dtype_is_signed(to) && dtype_info[from].bits <= dtype_info[to].bits;
	return keeps ? op->in[0] : NULL;
}

/* Is a scalar 0 or more, or said by data? */
static bool
counts(const Pair *x, const Value *v, int depth)
{
	const Op *op = v->def;
	int64_t n;
	if (value_int(v, &n))
		return n >= 0;
	if (!op || depth == DEEP)
		return !op && v->block == x->f->body && x->f->param[v->index].kind == PARAM_DIM;
	switch (op->kind) {
	case OP_READ: case OP_PROGRAM_ID:
		return true;
	case OP_CAST:
		return counts(x, op->in[0], depth + 1);
	case OP_ADD: case OP_MUL:
		return counts(x, op->in[0], depth + 1) && counts(x, op->in[1], depth + 1);
	default:
		return false;
	}
}

/* Is each row's number where it lies, from a start that counts on, or below 0? */
static bool
is_own_number(const Pair *x, const Value *v, int depth)
{
	const Op *op = v->def;
	if (!op || depth == DEEP)
		return false;
	const Value *of = op->kind == OP_SELECT ? kept_by(op) : converted(op);
	if (of)
		return is_own_number(x, of, depth + 1);
	for (int i = 0; i < 2 && op->kind == OP_ADD; i++) {
		const Op *spread = op->in[i]->def;
		bool is_start = spread && spread->kind == OP_BROADCAST && spread->in[0]->type->rank == 0;
		const Value *within = op->in[1 - i];
		if (is_start && (tile_part(x, within)->is_local || is_own_number(x, within, depth + 1)))
			return counts(x, spread->in[0], 0);
	}
	return false;
}

/* ---- comparisons ---- */

/* a - b is at least `least` where a comparison holds, or where it does not. */
typedef struct Fact {
	const Value *a, *b;
	int64_t least;
} Fact;

static bool
fact_of(const Op *op, bool holds, Fact *out)
{
	bool less = op->kind == OP_LT || op->kind == OP_LE, greater = op->kind == OP_GT || op->kind == OP_GE;
	bool or_equal = op->kind == OP_LE || op->kind == OP_GE, turned = less == holds;
	if (!less && !greater)
		return false;
	*out = (Fact){.a = op->in[turned], .b = op->in[!turned], .least = or_equal != holds};
	return true;
}

/* Is it the number, for all elements, that the axis cuts? */
static bool
is_count(const Pair *x, const Value *v, int axis)
{
	const Value *n = v->def && v->def->kind == OP_BROADCAST ? v->def->in[0] : v;
	const Expr *count = x->count[axis];
	const FuncParam *p = !n->def && n->block == x->f->body ? &x->f->param[n->index] : NULL;
	return p && p->kind == PARAM_DIM && x->by[axis] == 1 && count->kind == EX_NAME && !count->scope &&
	    strcmp(p->name, count->name) == 0;
}

/* Does where(start + arange(0, B) < D, v, -1) keep no v behind the end? */
static bool
ends_before(const Pair *x, const Op *select, int axis)
{
	const Op *compares = select->in[0]->def;
	Fact from;
	return compares && fact_of(compares, kept_by(select) == select->in[1], &from) && from.least > 0 &&
	    is_count(x, from.a, axis) && from.b->type->rank == 1 && tile_part(x, from.b)->axis[0] == axis &&
	    is_own_number(x, from.b, 0);
}

/* Are rows at or behind the dimension's end, which the axis cuts, numbered below 0? */
static bool
is_below_behind(const Pair *x, const Value *v, int axis, int depth)
{
	const Op *op = v->def;
	if (!op || depth == DEEP)
		return false;
	const Value *of = op->kind == OP_SELECT ? kept_by(op) : converted(op);
	if (of && op->kind == OP_SELECT && ends_before(x, op, axis))
		return true;
	if (of)
		return is_below_behind(x, of, axis, depth + 1);
	bool fills = op->kind == OP_READ && op->in[0]->type->rank == 1 && op->nin > 2 && is_below_zero(op->in[2]);
	if (!fills)
		return false;
	bool gathers = attr_index(op)[0] == 'g';
	if (gathers && is_below_behind(x, op->in[1], axis, depth + 1))
		return true;
	return tile_is_cut_by(x, op->in[0], 0, 0, axis, TILE_SCALE) &&
	    (gathers ? is_own_number(x, op->in[1], 0) : counts(x, op->in[1], 0));
}

/* ---- digits ---- */

/* What the body's product is of. */
typedef struct Divisors {
	const Value *at[FACTORS_MOST];
	int n;                                          /* more than FACTORS_MOST: too many */
	uint64_t number;
} Divisors;

static void
add_values(Divisors *f, const Value *v, int depth)
{
	int64_t n;
	if (value_int(v, &n) && n > 0) {
		f->number *= (uint64_t)n;
	} else if (v->def && v->def->kind == OP_MUL && depth < DEEP) {
		add_values(f, v->def->in[0], depth + 1);
		add_values(f, v->def->in[1], depth + 1);
	} else if (f->n < FACTORS_MOST) {
		f->at[f->n++] = v;
	} else {
		f->n = FACTORS_MOST + 1;
	}
}

/* Does the body compute what the expression of the header says: a dimension, with numbers? */
static bool
says(const Pair *x, const Expr *e, const Value *v, int depth)
{
	static const struct { BinaryOp bin; OpKind kind; } ops[] = {{BIN_ADD, OP_ADD}, {BIN_SUB, OP_SUB}, {BIN_MUL, OP_MUL},
	    {BIN_DIV, OP_DIV}};
	const Op *op = v->def;
	int64_t n;
	if (depth == DEEP)
		return false;
	if (e->kind == EX_INT)
		return value_int(v, &n) && n >= 0 && (uint64_t)n == e->u;
	if (e->kind == EX_NAME)
		return !e->scope && !op && v->block == x->f->body && x->f->param[v->index].kind == PARAM_DIM &&
		    strcmp(x->f->param[v->index].name, e->name) == 0;
	if (e->kind != EX_BINARY || !op)
		return false;
	bool is_less = e->bin == BIN_SUB && e->b->kind == EX_INT && op->kind == OP_ADD && value_int(op->in[1], &n);
	if (is_less)                                    /* H - 2, which became H + -2 */
		return n <= 0 && (uint64_t)-n == e->b->u && says(x, e->a, op->in[0], depth + 1);
	return ANY_OF(i, LEN(ops), ops[i].bin == e->bin && ops[i].kind == op->kind &&
	    says(x, e->a, op->in[0], depth + 1) && says(x, e->b, op->in[1], depth + 1));
}

/* Is the extent of a tensor's dimension, times a divisor, what the axis cuts? */
static bool
is_divisor(const Pair *x, const Expr *dim, const Value *divisor, const Expr *count)
{
	Factors a = {.number = 1}, b = {.number = 1};
	Divisors by = {.number = 1};
	bool used[FACTORS_MOST] = {false};
	expr_factors(&a, count);
	expr_factors(&b, dim);
	add_values(&by, divisor, 0);
	if (a.n > FACTORS_MOST || by.n > FACTORS_MOST || a.number != b.number * by.number || a.n != b.n + by.n)
		return false;
	for (int i = 0, k; i < a.n; i++) {
		for (k = 0; k < a.n; k++)
			if (!used[k] && (k < b.n ? expr_same(b.at[k], a.at[i]) : says(x, a.at[i], by.at[k - b.n], 0)))
				break;
		if (k == a.n)
			return false;
		used[k] = true;
	}
	return true;
}

/* v / (H * W) of rows that are numbered as they lie, of N * H * W that the axis cuts, in the dimension of extent N: what is
 * at or behind the end lies behind the dimension. */
static bool
is_first_digit(const Pair *x, const Op *write, int i, int axis)
{
	const Value *v = write->in[1 + i];
	for (const Value *of; v->def && (of = converted(v->def)) != NULL;)
		v = of;
	const Op *op = v->def;
	bool divides = op && (op->kind == OP_DIV || op->kind == OP_FLOORDIV) && access_merged(write, i) == 0;
	const Op *spread = divides ? op->in[1]->def : NULL;
	return spread && spread->kind == OP_BROADCAST && spread->in[0]->type->rank == 0 && x->by[axis] == 1 &&
	    is_own_number(x, op->in[0], 0) && is_divisor(x, tile_dim(x, write->in[0], i), spread->in[0], x->count[axis]);
}

/* One of the dimensions that the tile of rows names has the first of their digits. */
bool
tile_writes_digits(const Pair *x, const Op *write, int axis)
{
	const char *index = attr_index(write);
	for (int i = 0; index[i]; i++)
		if (index[i] == 'g' && write->in[1 + i]->type->rank == 1 && is_first_digit(x, write, i, axis))
			return true;
	return false;
}

/* ---- programs that leave ---- */

/* Does one fact follow from another, for all elements? */
static bool
follows(const Fact *what, const Fact *from)
{
	Linear d = {.n = 0};
	if (!linear_add_value(&d, what->a, 1, 0) || !linear_add_value(&d, what->b, -1, 0) ||
	    !linear_add_value(&d, from->a, -1, 0) || !linear_add_value(&d, from->b, 1, 0))
		return false;
	if (d.lo + from->least < what->least)
		return false;
	return !ANY_OF(i, d.n, d.by[i] != 0);
}

/* Does the fact make a condition false of all elements, or true? */
static bool
decides(const Fact *from, const Value *condition, bool as, int depth)
{
	const Op *op = condition->def;
	Fact what;
	if (!op || depth == DEEP)
		return false;
	if (op->kind == (as ? OP_OR : OP_AND))
		return decides(from, op->in[0], as, depth + 1) || decides(from, op->in[1], as, depth + 1);
	if (op->kind == OP_NOT || op->kind == OP_BROADCAST)
		return decides(from, op->in[0], op->kind == OP_NOT ? !as : as, depth + 1);
	return fact_of(op, as, &what) && follows(&what, from);
}

/* Are all rows numbered below 0 where the fact holds? */
static bool
numbers_none(const Fact *from, const Value *v, int depth)
{
	const Op *op = v->def;
	if (!op || depth == DEEP)
		return false;
	bool is_read = op->kind == OP_READ && op->in[0]->type->rank == 1 && attr_index(op)[0] == 'g' && op->nin > 2 &&
	    is_below_zero(op->in[2]);
	const Value *of = op->kind == OP_SELECT ? kept_by(op) : is_read ? op->in[1] : converted(op);
	if (op->kind == OP_SELECT && of && decides(from, op->in[0], of == op->in[2], depth + 1))
		return true;
	return of && numbers_none(from, of, depth + 1);
}

/* Where the condition holds, or where it does not, is it by what all of the axis's programs have in common, or are all
 * rows numbered below 0? */
static bool
leaves_none(const Pair *x, const Value *condition, bool holds, const Value *v, int depth)
{
	const Op *op = condition->def;
	Fact from;
	if (!op || depth == DEEP)
		return false;
	bool both = op->kind == (holds ? OP_OR : OP_AND), either = op->kind == (holds ? OP_AND : OP_OR);
	if (op->kind == OP_NOT)
		return leaves_none(x, op->in[0], !holds, v, depth + 1);
	if (!both && !either)
		return fact_of(op, holds, &from) && numbers_none(&from, v, 0);
	bool first = leaves_none(x, op->in[0], holds, v, depth + 1);
	bool second = leaves_none(x, op->in[1], holds, v, depth + 1);
	if (either)
		return first || second;
	return (first || tile_is_plain(x, op->in[0])) && (second || tile_is_plain(x, op->in[1]));
}

bool
tile_leaves_rows(const Pair *x, const Op *write)
{
	const char *index = attr_index(write);
	for (int i = 0; index[i]; i++)
		if (index[i] == 'g' && leaves_none(x, x->leaves, x->leaves_if, write->in[1 + i], 0))
			return true;
	return false;
}

bool
tile_numbers_rows(const Pair *x, const Op *write, int i, int axis)
{
	const Value *v = write->in[1 + i];
	if (v->type->rank != 1 || !dtype_is_signed(v->type->elem))
		return false;
	return is_below_behind(x, v, axis, 0) ||
	    (access_merged(write, i) == 0 && tile_is_cut_by(x, write->in[0], i, i, axis, TILE_SCALE) &&
		is_own_number(x, v, 0));
}

bool
tile_numbers_alone(const Pair *x, const Op *write, int d, int axis)
{
	const char *index = attr_index(write);
	for (int i = 0; index[i]; i++) {
		const Value *v = write->in[1 + i];
		if (index[i] != 'g' || v->type->rank < 2 || access_merged(write, i) != 0 || !dtype_is_signed(v->type->elem))
			continue;
		while (v->def && v->def->kind == OP_BROADCAST && v->def->in[0]->type->rank == v->type->rank)
			v = v->def->in[0];
		if (ALL_OF(e, v->type->rank, e == d || v->type->extent[e] == 1) && is_own_number(x, v, 0) &&
		    tile_is_cut_by(x, write->in[0], i, i, axis, TILE_SCALE))
			return true;
	}
	return false;
}

bool
tile_counts(const Pair *x, const Op *histogram)
{
	const Value *v = histogram->in[0];
	int axis = v->type->rank == 1 ? tile_part(x, v)->axis[0] : AXIS_ANY;
	if (!tile_is_plain(x, v) || axis < 0 || axis == AXIS_STEP || !is_below_behind(x, v, axis, 0))
		return tile_is_plain(x, v) && axis == AXIS_NONE;
	tile_part(x, &histogram->out[0])->sums = (int8_t)(axis + 1);
	tile_part(x, &histogram->out[0])->joins = "add";
	return true;
}
