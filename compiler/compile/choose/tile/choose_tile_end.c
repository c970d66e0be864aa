/* Loops that end where the program's tile does: a larger tile makes trips that a smaller one does not.
 *
 *     for %0, min(%L, %s + 64), %step, %top, … do (%t: i64, …) {
 *         %score = select (%t + (0 .. 63) <= %s + (0 .. 63)), %product, -inf
 *         …
 *
 * Rows of the tile's first half run the trips of its second half as well.  Results are the same if such a trip leaves
 * what the loop carries as it is (choose_tile_idle.c).  A loop's other bound, min(L, …), cuts both modules' trips alike.
 * So it is with a loop that starts where the tile does, and with a longer step, which may begin before a start and go on
 * behind an end. */
#include "compile/choose/tile/choose_tile_linear.h"

#include <string.h>

/* Has it no term that differs from program to program as tiles do? */
static bool
is_plain(const Pair *p, const Linear *x)
{
	return ALL_OF(i, x->n, tile_is_plain(p, x->of[i]));
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
		int64_t by = one->by[i], other = linear_factor(two, one->of[i]);
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
	bool alike;                                     /* in both modules: trips behind it have to be idle all the same */
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
	return linear_add_value(&x->plus[0], e->value[0]->def->in[i], 1, 0) &&
	    linear_add_value(&x->plus[1], e->value[1]->def->in[i], 1, 0);
}

/* v / n * n of a v that is 0 or more: that v, maybe of 32 bits; else v itself.  n stays 1 there. */
static const Value *
rounded(const Value *v, int64_t *n)
{
	bool widens = v->def && v->def->kind == OP_CAST && v->def->in[0]->type->elem == TY_I32;
	const Op *mul = widens ? v->def->in[0]->def : v->def, *div = mul && mul->kind == OP_MUL ? mul->in[0]->def : NULL;
	int64_t by, down;
	*n = 1;
	bool is_rounded = div && div->kind == OP_DIV && value_int(mul->in[1], &by) && value_int(div->in[1], &down);
	if (!is_rounded || by != down || by <= 0)
		return v;
	*n = by;
	return div->in[0];
}

/* Is it a dimension that all steps divide, which are powers of two?  The loop starts at 0, or at a multiple of its step. */
static bool
is_divided(const Pair *p, const Op *loop, const Value *end)
{
	int64_t from, by, step;
	bool is_nest = ANY_OP_HERE(op, loop->region[0], op_is_loop(op));        /* whose steps may be as long as sides */
	int64_t longest = MAX(p->given, is_nest ? SIDE_MOST : STEP_MOST);
	bool is_dim = !end->def && end->block == p->f->body && p->f->param[end->index].kind == PARAM_DIM;
	bool starts = value_int(loop->in[0], &from)
	    ? from == 0 : rounded(loop->in[0], &by) && value_int(loop->in[2], &step) && by == step;
	return p->multiplies && starts && is_dim && is_power_of_two(p->given) &&
	    p->f->param[end->index].multiple % longest == 0 && p->f->param[end->index].multiple > 0;
}

/* The greatest of two bounds, each of which ends as a part does or is the same for all: a prefix that all rows see. */
static bool
greatest_covers(const Pair *p, const Op *loop, const End *e, int64_t per)
{
	Linear one[2];
	for (int i = 0; i < 2; i++) {
		const Value *a = e->value[0]->def->in[i], *b = e->value[1]->def->in[i];
		Linear two = e->plus[1];
		one[i] = e->plus[0];
		if (!linear_add_value(&one[i], a, 1, 0) || !linear_add_value(&two, b, 1, 0))
			return false;
		bool is_same = tile_is_plain(p, a) && is_plain(p, &one[i]);
		if (!is_same && !follows(p, &one[i], &two, true))
			return false;
	}
	return tile_idles_behind(p, loop, one, LEN(one), per);
}

/* The index times `per` ends there: at the least of some bounds, or of some bounds plus something, or by blocks of a
 * number of indices. */
static bool
end_covers(const Pair *p, const Op *loop, const End *e, int64_t per, int depth)
{
	int64_t n, m;
	End x;
	Linear one = e->plus[0], two = e->plus[1];
	if (!e->alike && tile_is_plain(p, e->value[0]) && is_plain(p, &one))
		return true;
	if (e->alike && ((linear_add_value(&one, e->value[0], 1, 0) && tile_idles_behind(p, loop, &one, 1, per)) ||
	    (e->plus[0].n == 0 && is_divided(p, loop, e->value[0]))))
		return true;
	one = e->plus[0];
	const Op *a = e->value[0]->def, *b = e->value[1]->def;
	OpKind kind = a && b && a->kind == b->kind && depth < DEEP ? a->kind : OP_CONST;
	if (kind == OP_MIN) {
		End first = with_operand(e, 0), second = with_operand(e, 1);
		return end_covers(p, loop, &first, per, depth + 1) && end_covers(p, loop, &second, per, depth + 1);
	}
	if (kind == OP_MAX && e->alike) {
		Linear end[2] = {e->plus[0], e->plus[0]};
		return linear_add_value(&end[0], a->in[0], 1, 0) && linear_add_value(&end[1], a->in[1], 1, 0) &&
		    tile_idles_behind(p, loop, end, LEN(end), per);
	}
	if (kind == OP_MAX)
		return greatest_covers(p, loop, e, per);
	if (kind == OP_CDIV && one.n == 0 && one.lo == 0 && one.hi == 0 && value_int(a->in[1], &n) &&
	    value_int(b->in[1], &m) && n == m && n > 0) {
		x = with_operand(e, 0);
		return !__builtin_mul_overflow(per, n, &m) && end_covers(p, loop, &x, m, depth + 1);
	}
	for (int i = 0; i < 2 && kind == OP_ADD; i++)
		if (a->in[1 - i]->def && a->in[1 - i]->def->kind == OP_MIN)
			return adds_operand(&x, e, i) && end_covers(p, loop, &x, per, depth + 1);
	return !e->alike && linear_add_value(&one, e->value[0], 1, 0) && linear_add_value(&two, e->value[1], 1, 0) &&
	    follows(p, &one, &two, true) && tile_idles_behind(p, loop, &one, 1, per);
}

bool
tile_end_covers(const Pair *p, const Op *one, const Op *two)
{
	int64_t step;
	End e = {.value = {one->in[1], two->in[1]}};
	return value_int(one->in[2], &step) && step > 0 && end_covers(p, one, &e, 1, 0);
}

/* Without products: the longest step that the header's divides, and that divides the dimension, by the launch, that the
 * loop goes over from 0 on; 0: there is none. */
int64_t
tile_end_divides(const Pair *p, const Op *loop)
{
	const Value *end = loop->in[1];
	bool is_dim = !end->def && end->block == p->f->body && p->f->param[end->index].kind == PARAM_DIM;
	for (int i = 0; i < p->b->nsymbol && is_dim && value_is_zero(loop->in[0]) && is_power_of_two(p->given); i++) {
		int64_t n = p->b->symbol[i].value.i;
		if (strcmp(p->b->symbol[i].name, p->f->param[end->index].name) == 0 && n > 0 && n % p->given == 0)
			return n & -n;
	}
	return 0;
}

bool
tile_end_idles(const Pair *p, const Op *loop)
{
	End e = {.value = {loop->in[1], loop->in[1]}, .alike = true};
	return end_covers(p, loop, &e, 1, 0);
}

/* ---- starts ---- */

/* The greatest of a number, 0 or more, and something else: that, and the number.  Where a part starts is 0 or more. */
static const Value *
at_least(const Pair *p, const Value *v, int64_t *number)
{
	const Part *part = tile_part(p, v);
	const Op *op = v->def;
	*number = 0;
	if (part->start >= 0 && part->start != AXIS_STEP && part->from >= 0 && !part->ends && !part->of)
		return v;
	for (int i = 0; i < 2 && op && op->kind == OP_MAX; i++)
		if (value_int(op->in[i], number) && *number >= 0)
			return op->in[1 - i];
	return NULL;
}

static bool
are_multiples(const Linear *x, int64_t of)
{
	return x->lo == x->hi && x->lo % of == 0 && ALL_OF(i, x->n, x->by[i] % of == 0);
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
		const Value *v = at_least(p, rounded(of[i]->in[0], &by[i]), &number[i]);
		bool starts = v && linear_add_value(&x[i], v, 1, 0);
		if (!starts || (by[i] % step && (number[i] % step || !are_multiples(&x[i], step))))
			return false;
	}
	return by[0] == by[1] && number[0] == number[1] && follows(p, &x[0], &x[1], false) &&
	    linear_add_number(&x[0], -step, -step) && tile_idles_before(p, loop, &x[0]);
}

/* A loop that starts at a multiple of its step: a longer step may begin before. */
bool
tile_step_starts(const Pair *p, const Op *loop, const Op *other)
{
	int64_t by[2], number;
	Linear x = {.n = 0};
	const Value *a = rounded(loop->in[0], &by[0]), *b = rounded(other->in[0], &by[1]);
	const Value *v = at_least(p, a, &number);
	if (tile_is_plain(p, loop->in[0]))
		return true;
	if (v && a->type->elem == TY_I32)
		v = linear_cast(a);
	return v && a->id == b->id && tile_is_plain(p, a) && by[0] == p->size && by[1] == 2 * p->size &&
	    linear_add_value(&x, v, 1, 0) && linear_add_number(&x, -p->size, -p->size) && tile_idles_before(p, loop, &x);
}
