/* Loops that end where the program's tile does: a larger tile makes trips that a smaller one does not.
 *
 *     for %0, min(%L, %s + 64), %step, %top, … do (%t: i64, …) {
 *         %score = select (%t + (0 .. 63) <= %s + (0 .. 63)), %product, -inf
 *         …
 *
 * Rows of the tile's first half run the trips of its second half as well.  Results are the same if such a trip leaves what
 * the loop carries as it is.  That is read off the smaller module, for an index at or behind its end: comparisons of linear
 * forms are false there, and what follows from them is computed with the few values that masks make: -inf, 0, 1, and what
 * the loop carried before.
 *
 * Carried values and what masked elements are multiplied with count as finite.  A loop's other bound, min(L, …), cuts both
 * modules' trips alike. */
#include "compile/choose/choose_tile.h"

#include <math.h>
#include <string.h>

enum { TERMS = 8, DEEP = 12 };

/* Scalars times numbers, plus something from lo to hi, element by element. */
typedef struct Linear {
	const Value *of[TERMS];
	int64_t by[TERMS];
	int n;
	int64_t lo, hi;
} Linear;

/* ---- linear forms ---- */

static bool
add_term(Linear *x, const Value *v, int64_t by)
{
	int i = 0;
	while (i < x->n && x->of[i]->id != v->id)
		i++;
	if (i == TERMS)
		return false;
	if (i == x->n) {
		x->of[x->n] = v;
		x->by[x->n++] = 0;
	}
	return !__builtin_add_overflow(x->by[i], by, &x->by[i]);
}

static bool
add_number(Linear *x, int64_t lo, int64_t hi)
{
	return !__builtin_add_overflow(x->lo, lo, &x->lo) && !__builtin_add_overflow(x->hi, hi, &x->hi);
}

/* Adds v times `by`. */
static bool
add_value(Linear *x, const Value *v, int64_t by, int depth)
{
	const Op *op = v->def;
	int64_t n, product;
	if (v->type->kind != TYPE_TILE || v->type->ptr != PTR_NONE || v->type->elem != TY_I64 || depth == DEEP)
		return false;
	if (value_int(v, &n))
		return !__builtin_mul_overflow(n, by, &product) && add_number(x, product, product);
	switch (op ? op->kind : OP_FOR) {
	case OP_IOTA:
		n = by * (v->type->extent[attr_axis(op)] - 1);
		return add_number(x, MIN(n, 0), MAX(n, 0));
	case OP_BROADCAST: case OP_RESHAPE: case OP_PERMUTE:
		return add_value(x, op->in[0], by, depth + 1);
	case OP_ADD: case OP_SUB:
		return add_value(x, op->in[0], by, depth + 1) &&
		    add_value(x, op->in[1], op->kind == OP_ADD ? by : -by, depth + 1);
	case OP_MUL:
		for (int i = 0; i < 2; i++)
			if (value_int(op->in[i], &n) && !__builtin_mul_overflow(n, by, &product))
				return add_value(x, op->in[1 - i], product, depth + 1);
		break;
	default:
		break;
	}
	return v->type->rank == 0 && add_term(x, v, by);
}

/* Adds y times `by`. */
static bool
add_linear(Linear *x, const Linear *y, int64_t by)
{
	int64_t n, lo, hi;
	for (int i = 0; i < y->n; i++)
		if (__builtin_mul_overflow(y->by[i], by, &n) || !add_term(x, y->of[i], n))
			return false;
	return !__builtin_mul_overflow(y->lo, by, &lo) && !__builtin_mul_overflow(y->hi, by, &hi) &&
	    add_number(x, MIN(lo, hi), MAX(lo, hi));
}

static int64_t
factor_of(const Linear *x, const Value *v)
{
	for (int i = 0; i < x->n; i++)
		if (x->of[i]->id == v->id)
			return x->by[i];
	return 0;
}

/* ---- trips behind an end ---- */

/* What a value is in such a trip: not known, all of one number, false or true, or carried value `arg` as it was. */
typedef enum IdleKind { IDLE_ANY, IDLE_NUMBER, IDLE_FALSE, IDLE_TRUE, IDLE_CARRIED } IdleKind;
typedef struct Idle {
	IdleKind kind;
	double number;
	int arg;
} Idle;

typedef struct Trip {
	const Block *body;
	const Linear *end;                              /* the index times `per` is at or behind it … */
	int64_t per;
	bool is_before;                                 /* … or the index is at or before it */
	bool tests;                                     /* something is compared with -inf */
	Idle *is;                                       /* by the value's id */
} Trip;

static Idle
number(double n)
{
	return (Idle){.kind = IDLE_NUMBER, .number = n};
}

static Idle
idle_of(const Trip *x, const Value *v)
{
	const Attr *c = value_const(v);
	if (c && c->kind == KIND_FLOAT)
		return number(c->f);
	return value_inside(v, x->body) ? x->is[v->id] : (Idle){0};
}

static bool
is_number(Idle x, double n)
{
	return x.kind == IDLE_NUMBER && x.number == n;
}

/* Is a comparison false of each index of such trips? */
static bool
is_false(const Trip *x, const Op *op)
{
	bool turned = op->kind == OP_GT || op->kind == OP_GE, or_equal = op->kind == OP_LE || op->kind == OP_GE;
	const Value *index = &x->body->arg[0];
	Linear d = {0};
	if ((op->kind != OP_LT && op->kind != OP_LE && !turned) || !add_value(&d, op->in[turned], 1, 0) ||
	    !add_value(&d, op->in[!turned], -1, 0))
		return false;
	int64_t by = factor_of(&d, index);
	if ((x->is_before ? by >= 0 : by <= 0) || by % x->per || !add_term(&d, index, -by) ||
	    !add_linear(&d, x->end, by / x->per))
		return false;
	for (int i = 0; i < d.n; i++)
		if (d.by[i] != 0)
			return false;
	return d.lo >= or_equal;
}

static Idle
idle_arithmetic(const Op *op, Idle a, Idle b)
{
	bool same = a.kind == IDLE_CARRIED && b.kind == IDLE_CARRIED && a.arg == b.arg;
	switch (op->kind) {
	case OP_MAX:
		return same || is_number(b, -INFINITY) ? a : is_number(a, -INFINITY) ? b : (Idle){0};
	case OP_ADD:
		if (is_number(a, -INFINITY) || is_number(b, -INFINITY))
			return number(-INFINITY);
		return is_number(b, 0) ? a : is_number(a, 0) ? b : (Idle){0};
	case OP_SUB:
		if (is_number(a, -INFINITY) && is_number(b, -INFINITY))
			return (Idle){0};
		return same ? number(0) : is_number(a, -INFINITY) || is_number(b, 0) ? a : (Idle){0};
	case OP_MUL:
		if (is_number(a, 0) || is_number(b, 0))
			return number(0);
		return is_number(b, 1) ? a : is_number(a, 1) ? b : (Idle){0};
	case OP_DIV:
		return is_number(a, 0) || is_number(b, 1) ? a : (Idle){0};
	default:
		return (Idle){0};
	}
}

/* Is a value -inf?  What the loop carries is not, where a trip has changed it. */
static Idle
idle_test(Trip *x, const Op *op, Idle a, Idle b)
{
	bool known = (a.kind == IDLE_NUMBER || a.kind == IDLE_CARRIED) && is_number(b, -INFINITY);
	bool is = a.kind == IDLE_NUMBER && a.number == -INFINITY;
	x->tests |= known;
	return known ? (Idle){.kind = is == (op->kind == OP_EQ) ? IDLE_TRUE : IDLE_FALSE} : (Idle){0};
}

static Idle
idle_compare(Trip *x, const Op *op, Idle a, Idle b)
{
	if (op->kind == OP_EQ || op->kind == OP_NE || op->kind == OP_GT) {
		Idle test = idle_test(x, op, a, b);
		if (test.kind != IDLE_ANY)
			return test;
	}
	return (Idle){.kind = is_false(x, op) ? IDLE_FALSE : IDLE_ANY};
}

static Idle
idle_select(const Trip *x, const Op *op)
{
	Idle is = idle_of(x, op->in[0]);
	return is.kind == IDLE_FALSE || is.kind == IDLE_TRUE ? idle_of(x, op->in[is.kind == IDLE_TRUE ? 1 : 2]) : (Idle){0};
}

/* A sum is 0 of zeros; the greatest and least are what all are. */
static Idle
idle_reduce(const Op *op, Idle v)
{
	const char *fn = attr_fn(op);
	bool keeps = strcmp(fn, "max") == 0 || strcmp(fn, "min") == 0 || (strcmp(fn, "sum") == 0 && is_number(v, 0));
	return v.kind == IDLE_NUMBER && keeps ? v : (Idle){0};
}

static Idle
idle_op(Trip *x, const Op *op)
{
	Idle a = op->nin > 0 ? idle_of(x, op->in[0]) : (Idle){0}, b = op->nin > 1 ? idle_of(x, op->in[1]) : (Idle){0};
	switch (op->kind) {
	case OP_EQ: case OP_NE: case OP_LT: case OP_LE: case OP_GT: case OP_GE:
		return idle_compare(x, op, a, b);
	case OP_AND:
		return a.kind == IDLE_FALSE ? a : b.kind == IDLE_FALSE ? b : (Idle){0};
	case OP_SELECT:
		return idle_select(x, op);
	case OP_EXP: case OP_EXP2:
		return is_number(a, 0) ? number(1) : is_number(a, -INFINITY) ? number(0) : (Idle){0};
	case OP_BROADCAST: case OP_RESHAPE: case OP_PERMUTE: case OP_CAST:
		return a.kind == IDLE_CARRIED ? (Idle){0} : a;
	case OP_REDUCE:
		return idle_reduce(op, a);
	case OP_DOT:
		return is_number(a, 0) || is_number(b, 0) ? idle_of(x, op->in[2]) : (Idle){0};
	default:
		return op->nin == 2 && op_has(op, ELEM) ? idle_arithmetic(op, a, b) : (Idle){0};
	}
}

/* Is each carried value after a trip what it was, if it is `as` before? */
static bool
keeps_carried(Trip *x, const Idle *as)
{
	const Block *body = x->body;
	for (int i = 1; i < body->narg; i++)
		x->is[body->arg[i].id] = as[i];
	for (const Op *op = body->first; op != body->last; op = op->next) {
		if (op->nregion > 0 || (!op_has(op, PURE) && op->kind != OP_READ))
			return false;
		if (op->nout == 1)
			x->is[op->out[0].id] = idle_op(x, op);
	}
	for (int i = 1; i < body->narg; i++) {
		Idle v = idle_of(x, body->last->in[i - 1]);
		if (v.kind != as[i].kind || v.arg != as[i].arg || v.number != as[i].number)
			return false;
	}
	return true;
}

/* What the loop carries into its first trip, where those are numbers. */
static void
begin(Idle *as, const Op *loop)
{
	for (int i = 1; i < loop->region[0]->narg; i++) {
		const Attr *c = value_const(loop->in[2 + i]);
		as[i] = c && c->kind == KIND_FLOAT ? number(c->f) : (Idle){.kind = IDLE_CARRIED, .arg = i};
	}
}

/* Is each carried value what it was after a trip whose index, times `per`, is at or behind the end?  Where the body
 * compares something with -inf, also before anything was seen: rows that see nothing have results of their own. */
static bool
idles_behind(const Pair *p, const Op *loop, const Linear *end, int64_t per)
{
	const Block *body = loop->region[0];
	Trip x = {.body = body, .end = end, .per = per, .is = NEW_ARRAY(p->mem, Idle, p->f->nvalues)};
	Idle *as = NEW_ARRAY(p->mem, Idle, body->narg);
	for (int i = 1; i < body->narg; i++)
		as[i] = (Idle){.kind = IDLE_CARRIED, .arg = i};
	if (!keeps_carried(&x, as))
		return false;
	begin(as, loop);
	return !x.tests || keeps_carried(&x, as);
}

/* Is what the loop begins with as it was after a trip whose index is at or before `last`? */
static bool
idles_before(const Pair *p, const Op *loop, const Linear *last)
{
	Trip x = {.body = loop->region[0], .end = last, .per = 1, .is_before = true};
	x.is = NEW_ARRAY(p->mem, Idle, p->f->nvalues);
	Idle *as = NEW_ARRAY(p->mem, Idle, x.body->narg);
	begin(as, loop);
	return keeps_carried(&x, as);
}

/* ---- ends ---- */

/* Has it no term that differs from program to program as tiles do? */
static bool
is_plain(const Pair *p, const Linear *x)
{
	for (int i = 0; i < x->n; i++)
		if (!tile_is_plain(p, x->of[i]))
			return false;
	return true;
}

/* Is a bound of a program of the second module that of the first of the programs whose tiles it has, or the last's? */
static bool
follows(const Pair *p, const Linear *one, const Linear *two, bool is_last)
{
	int64_t step = 0;
	if (one->n != two->n)
		return false;
	for (int i = 0; i < one->n; i++) {
		const Part *part = tile_part(p, one->of[i]);
		int64_t by = one->by[i], other = factor_of(two, one->of[i]);
		bool is_start = part->start != AXIS_NONE && !part->differs && part->times[0] == 1 && part->times[1] == 1;
		if (is_start ? by < 0 || other != 2 * by : other != by || !tile_is_plain(p, one->of[i]))
			return false;
		step += is_start ? by : 0;
	}
	return is_last ? two->lo >= one->lo + step : two->lo == one->lo && two->hi == one->hi;
}

/* A loop's end in both modules: values, and what is added to them. */
typedef struct End {
	const Value *value[2];
	Linear plus[2];
} End;

/* The end goes on to an operand of its ops; the other one is added, if it is. */
static End
with_operand(const End *e, int i)
{
	End x = *e;
	for (int m = 0; m < 2; m++)
		x.value[m] = e->value[m]->def->in[i];
	return x;
}

static bool
adds_operand(End *x, const End *e, int i)
{
	*x = with_operand(e, 1 - i);
	return add_value(&x->plus[0], e->value[0]->def->in[i], 1, 0) &&
	    add_value(&x->plus[1], e->value[1]->def->in[i], 1, 0);
}

/* The index times `per` ends there: at the least of some bounds, or of some bounds plus something, or by blocks of a
 * number of indices. */
static bool
end_covers(const Pair *p, const Op *loop, const End *e, int64_t per, int depth)
{
	int64_t n, m;
	End x;
	Linear one = e->plus[0], two = e->plus[1];
	if (tile_is_plain(p, e->value[0]) && is_plain(p, &one))
		return true;
	const Op *a = e->value[0]->def, *b = e->value[1]->def;
	if (!a || !b || a->kind != b->kind || depth == DEEP)
		return false;
	if (a->kind == OP_MIN) {
		End first = with_operand(e, 0), second = with_operand(e, 1);
		return end_covers(p, loop, &first, per, depth + 1) && end_covers(p, loop, &second, per, depth + 1);
	}
	if (a->kind == OP_CDIV && one.n == 0 && one.lo == 0 && one.hi == 0 && value_int(a->in[1], &n) &&
	    value_int(b->in[1], &m) && n == m && n > 0) {
		x = with_operand(e, 0);
		return !__builtin_mul_overflow(per, n, &m) && end_covers(p, loop, &x, m, depth + 1);
	}
	for (int i = 0; i < 2 && a->kind == OP_ADD; i++)
		if (a->in[1 - i]->def && a->in[1 - i]->def->kind == OP_MIN)
			return adds_operand(&x, e, i) && end_covers(p, loop, &x, per, depth + 1);
	return add_value(&one, e->value[0], 1, 0) && add_value(&two, e->value[1], 1, 0) && follows(p, &one, &two, true) &&
	    idles_behind(p, loop, &one, per);
}

bool
tile_end_covers(const Pair *p, const Op *one, const Op *two)
{
	int64_t step;
	End e = {.value = {one->in[1], two->in[1]}};
	return value_int(one->in[2], &step) && step > 0 && end_covers(p, one, &e, 1, 0);
}

/* ---- starts ---- */

/* The greatest of a number, 0 or more, and something else: that, and the number. */
static const Value *
at_least(const Value *v, int64_t *number)
{
	const Op *op = v->def;
	for (int i = 0; i < 2 && op && op->kind == OP_MAX; i++)
		if (value_int(op->in[i], number) && *number >= 0)
			return op->in[1 - i];
	return NULL;
}

/* v / n * n of a v that is 0 or more: that v; else v itself.  n stays 1 there. */
static const Value *
rounded(const Value *v, int64_t *n)
{
	const Op *mul = v->def, *div = mul && mul->kind == OP_MUL ? mul->in[0]->def : NULL;
	int64_t by, down;
	*n = 1;
	bool is_rounded = div && div->kind == OP_DIV && value_int(mul->in[1], &by) && value_int(div->in[1], &down);
	if (!is_rounded || by != down || by <= 0)
		return v;
	*n = by;
	return div->in[0];
}

static bool
are_multiples(const Linear *x, int64_t of)
{
	bool all = x->lo == x->hi && x->lo % of == 0;
	for (int i = 0; i < x->n; i++)
		all &= x->by[i] % of == 0;
	return all;
}

/* A loop that starts where the tile's first row does, less something: rows of the tile's second half run trips before
 * those that they ran.  Starts are multiples of the step, so that the trips are the same; where the number is greater
 * than what it stands beside, nothing lies before it. */
bool
tile_start_covers(const Pair *p, const Op *loop, const Op *other)
{
	int64_t step, by[2], number[2];
	Linear x[2] = {{.n = 0}};
	const Op *of[] = {loop, other};
	if (tile_is_plain(p, loop->in[0]))
		return true;
	if (!value_int(loop->in[2], &step) || step <= 0)
		return false;
	for (int i = 0; i < 2; i++) {
		const Value *v = at_least(rounded(of[i]->in[0], &by[i]), &number[i]);
		bool starts = v && add_value(&x[i], v, 1, 0);
		if (!starts || (by[i] % step && (number[i] % step || !are_multiples(&x[i], step))))
			return false;
	}
	return by[0] == by[1] && number[0] == number[1] && follows(p, &x[0], &x[1], false) &&
	    add_number(&x[0], -step, -step) && idles_before(p, loop, &x[0]);
}
