/* Trips that leave what a loop carries as it is: those whose elements are all masked.
 *
 *     %score = select (%t + (0 .. 63) <= %row), %product, -inf           %t at or behind the end: -inf
 *     %next = max %top, (reduce max %score)                              %top
 *     %p = exp (%score - %next)                                          0
 *
 * Comparisons of linear forms are false there, reads outside of their tensors give what stands in for them, and what
 * follows is computed with the few values that masks make: -inf, 0, 1, and what the loop carried before.
 *
 * Carried values and what masked elements are multiplied with count as finite. */
#include "compile/choose/tile/choose_tile_linear.h"

#include <math.h>
#include <string.h>

/* What a value is in such a trip: not known, all of one number, false or true, or carried value `arg` as it was; that with
 * something behind it, of a number or not; or the indices of the first elements. */
typedef enum IdleKind {
	IDLE_ANY, IDLE_NUMBER, IDLE_FALSE, IDLE_TRUE, IDLE_CARRIED, IDLE_BEFORE, IDLE_FIRST
} IdleKind;
typedef struct Idle {
	IdleKind kind;
	double number;
	int arg;
} Idle;

typedef struct Trip {
	const Func *f;
	const Pair *pair;                               /* NULL: all rows of the tile count */
	const Block *body;
	const Linear *end;                              /* the index times `per` is at or behind all of these … */
	int ends;
	int64_t per;
	bool is_before;                                 /* … or the index is at or before the one */
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
	if (c && c->kind == KIND_INT && c->i >= INT32_MIN && c->i <= INT32_MAX)
		return number((double)c->i);
	return value_inside(v, x->body) ? x->is[v->id] : (Idle){0};
}

static bool
is_number(Idle x, double n)
{
	return x.kind == IDLE_NUMBER && x.number == n;
}

/* Is sign * a - times * b, and with it each of its elements, at least that much in such trips?  `rows`: of rows that are
 * written; NULL: of an operand that is 0. */
static bool
is_least_of(const Trip *x, const Value *a, int64_t sign, const Value *b, int64_t times, const Pair *rows, int64_t least)
{
	const Value *index = &x->body->arg[0];
	for (int k = 0; k < x->ends; k++) {
		Linear d = {.pair = rows};
		if ((a && !linear_add_value(&d, a, sign, 0)) || (b && !linear_add_value(&d, b, -times, 0)))
			return false;
		int64_t by = linear_factor(&d, index);
		if ((x->is_before ? by >= 0 : by <= 0) || by % x->per || !linear_add_term(&d, index, -by) ||
		    !linear_add(&d, &x->end[k], by / x->per))
			continue;
		bool cancels = ALL_OF(i, d.n, d.by[i] == 0);
		if (cancels && d.lo >= least)
			return true;
	}
	return false;
}

static bool
is_least(const Trip *x, const Value *a, const Value *b, const Pair *rows, int64_t least)
{
	return is_least_of(x, a, 1, b, 1, rows, least);
}

/* Is a comparison false of each index of such trips? */
static bool
is_false(const Trip *x, const Op *op)
{
	if (op->kind == OP_EQ)                          /* of two indices, one of which is behind the other */
		return ANY_OF(i, 2, is_least(x, op->in[i], op->in[1 - i], NULL, 1) ||
		    (x->pair && is_least(x, op->in[i], op->in[1 - i], x->pair, 1)));
	bool turned = op->kind == OP_GT || op->kind == OP_GE, or_equal = op->kind == OP_LE || op->kind == OP_GE;
	if (op->kind != OP_LT && op->kind != OP_LE && !turned)
		return false;
	const Value *a = op->in[turned], *b = op->in[!turned];
	bool both = a->def && a->def->kind == OP_ABS;   /* abs a <= b is false where a or -a is greater */
	a = both ? a->def->in[0] : a;
	for (int64_t sign = 1; sign >= (both ? -1 : 1); sign -= 2)
		if (is_least_of(x, a, sign, b, 1, NULL, or_equal) ||
		    (x->pair && is_least_of(x, a, sign, b, 1, x->pair, or_equal)))
			return true;
	return false;
}

/* Is an index at or behind a dimension's end?  So is one that counts n elements each, v / n, where v is at n times that. */
static bool
is_behind(const Trip *x, const Value *index, const Value *dim)
{
	int64_t n;
	if (is_least(x, index, dim, NULL, 0))
		return true;
	while (index->def && (index->def->kind == OP_RESHAPE || index->def->kind == OP_BROADCAST))
		index = index->def->in[0];
	const Op *op = index->def;
	return op && (op->kind == OP_DIV || op->kind == OP_FLOORDIV) && value_int(op->in[1], &n) && n > 0 &&
	    is_least_of(x, op->in[0], 1, dim, n, NULL, 0);
}

/* Does a read or write lie outside of its tensor along some dimension? */
static bool
is_outside(const Trip *x, const Op *op)
{
	const char *index = attr_index(op);
	for (int i = 0; index[i]; i++) {
		int dim = x->f->param[op->in[0]->index].dim[i];
		Idle at = idle_of(x, op->in[1 + i]);
		DType elem = op->in[1 + i]->type->elem;
		bool is_below = (at.kind == IDLE_NUMBER && at.number < 0 && (elem == TY_I32 || elem == TY_I64)) ||
		    (index[i] == 'g' && is_least(x, NULL, op->in[1 + i], NULL, 1));
		if (is_below || (dim >= 0 && !access_merged(op, i) && is_behind(x, op->in[1 + i], &x->f->body->arg[dim])))
			return true;
	}
	return false;
}

static Idle
idle_read(const Trip *x, const Op *op)
{
	int fill = 1 + op->in[0]->type->rank;
	if (!is_outside(x, op))
		return (Idle){0};
	return op->nin > fill ? idle_of(x, op->in[fill]) : number(0);
}

static bool
is_same(Idle a, Idle b)
{
	return a.kind == b.kind && a.arg == b.arg && a.number == b.number;
}

static bool
is_infinite(Idle x)
{
	return x.kind == IDLE_NUMBER && isinf(x.number);
}

static Idle
idle_arithmetic(const Op *op, Idle a, Idle b)
{
	bool same = a.kind == IDLE_CARRIED && b.kind == IDLE_CARRIED && a.arg == b.arg;
	switch (op->kind) {
	case OP_MAX:
		return same || is_number(b, -INFINITY) ? a : is_number(a, -INFINITY) ? b : (Idle){0};
	case OP_MIN:
		return same || is_number(b, INFINITY) ? a : is_number(a, INFINITY) ? b : (Idle){0};
	case OP_ADD:
		if (is_infinite(a) || is_infinite(b))
			return is_infinite(a) && is_infinite(b) && !is_same(a, b) ? (Idle){0} : is_infinite(a) ? a : b;
		return is_number(b, 0) ? a : is_number(a, 0) ? b : (Idle){0};
	case OP_SUB:
		if (is_infinite(b))
			return (Idle){0};
		return same ? number(0) : is_infinite(a) || is_number(b, 0) ? a : (Idle){0};
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
	bool equal = op->kind == OP_EQ, differs = op->kind == OP_NE;
	if ((equal || differs) && a.kind == IDLE_NUMBER && b.kind == IDLE_NUMBER && isfinite(a.number))
		return (Idle){.kind = (a.number == b.number) == equal ? IDLE_TRUE : IDLE_FALSE};
	if (op->kind == OP_EQ || op->kind == OP_NE || op->kind == OP_GT) {
		Idle test = idle_test(x, op, a, b);
		if (test.kind != IDLE_ANY)
			return test;
	}
	int greater = op->kind == OP_GT ? 0 : 1;        /* nothing is greater than infinity, nor is -inf than anything */
	if ((op->kind == OP_GT || op->kind == OP_LT) &&
	    (is_number(greater ? b : a, -INFINITY) || is_number(greater ? a : b, INFINITY)))
		return (Idle){.kind = IDLE_FALSE};
	return (Idle){.kind = is_false(x, op) ? IDLE_FALSE : IDLE_ANY};
}

/* False, as a mask that is read from outside of its tensor. */
static bool
is_no(Idle x)
{
	return x.kind == IDLE_FALSE || is_number(x, 0);
}

static Idle
idle_select(const Trip *x, const Op *op)
{
	Idle is = idle_of(x, op->in[0]), a = idle_of(x, op->in[1]), b = idle_of(x, op->in[2]);
	if (is_same(a, b))
		return a;
	return is.kind == IDLE_TRUE ? a : is_no(is) ? b : (Idle){0};
}

/* A sum is 0 of zeros; the greatest and least are what all are. */
static Idle
idle_reduce(const Op *op, Idle v)
{
	const char *fn = attr_fn(op);
	bool keeps = strcmp(fn, "max") == 0 || strcmp(fn, "min") == 0 || (strcmp(fn, "sum") == 0 && is_number(v, 0));
	return v.kind == IDLE_NUMBER && keeps ? v : (Idle){0};
}

/* The greatest few so far, which stand as they were sorted by the trip before, and nothing but -inf. */
static void
idle_top(Trip *x, const Op *op)
{
	Idle a = idle_of(x, op->in[0]), *top = &x->is[op->out[0].id], *places = &x->is[op->out[1].id];
	const Value *state = a.kind == IDLE_BEFORE ? &x->body->arg[a.arg] : NULL;
	*top = a.kind == IDLE_NUMBER ? a : (Idle){0};
	*places = (Idle){0};
	if (!state || a.number != -INFINITY || x->body->last->in[a.arg - 1] != &op->out[0] ||
	    !type_same_shape(state->type, op->out[0].type))
		return;
	*top = (Idle){.kind = IDLE_CARRIED, .arg = a.arg};
	places->kind = IDLE_FIRST;
}

static Idle
idle_cat(const Op *op, Idle a, Idle b)
{
	bool is_before = op->nin == 2 && a.kind == IDLE_CARRIED;
	return is_before ? (Idle){.kind = IDLE_BEFORE, .arg = a.arg, .number = b.kind == IDLE_NUMBER ? b.number : NAN}
	                 : (Idle){0};
}

static Idle
idle_gather(const Trip *x, const Op *op, Idle a, Idle b)
{
	bool is_first = a.kind == IDLE_BEFORE && b.kind == IDLE_FIRST &&
	    type_same_shape(x->body->arg[a.arg].type, op->out[0].type);
	return is_first ? (Idle){.kind = IDLE_CARRIED, .arg = a.arg} : (Idle){0};
}

static Idle
idle_op(Trip *x, const Op *op)
{
	Idle a = op->nin > 0 ? idle_of(x, op->in[0]) : (Idle){0}, b = op->nin > 1 ? idle_of(x, op->in[1]) : (Idle){0};
	switch (op->kind) {
	case OP_EQ: case OP_NE: case OP_LT: case OP_LE: case OP_GT: case OP_GE:
		return idle_compare(x, op, a, b);
	case OP_AND:
		return is_no(a) ? a : is_no(b) ? b : (Idle){0};
	case OP_OR:
		return is_no(a) ? b : is_no(b) ? a : (Idle){0};
	case OP_READ:
		return idle_read(x, op);
	case OP_SELECT:
		return idle_select(x, op);
	case OP_EXP: case OP_EXP2:
		return is_number(a, 0) ? number(1) : is_number(a, -INFINITY) ? number(0) : (Idle){0};
	case OP_BROADCAST: case OP_RESHAPE: case OP_PERMUTE: case OP_CAST:
		return a.kind == IDLE_CARRIED ? (Idle){0} : a;
	case OP_REDUCE:
		return idle_reduce(op, a);
	case OP_CAT:
		return idle_cat(op, a, b);
	case OP_GATHER:
		return idle_gather(x, op, a, b);
	case OP_DOT:
		return is_number(a, 0) || is_number(b, 0) ? idle_of(x, op->in[2]) : (Idle){0};
	default:
		return op->nin == 2 && op_has(op, ELEM) ? idle_arithmetic(op, a, b) : (Idle){0};
	}
}

static bool
adds_nothing(const Trip *x, const Op *op)
{
	return op->kind == OP_ATOMIC && op->out[0].nuses == 0 && strcmp(attr_fn(op), "add") == 0 &&
	    is_number(idle_of(x, op->in[access_data(op)]), 0);
}

static void idle_block(Trip *x, const Block *body);

/* It changes no memory: an op that reads or computes, or writes outside of its tensor, or a loop of such. */
static bool
is_quiet(const Trip *x, const Op *op)
{
	if (op->kind == OP_FOR)
		return !ANY_OP(in, op->region[0], in->kind != OP_YIELD && in->kind != OP_READ && in->kind != OP_FOR &&
		    !op_has(in, PURE));
	return op->nregion == 0 && (op_has(op, PURE) || op->kind == OP_READ || adds_nothing(x, op) ||
	    (op->kind == OP_WRITE && is_outside(x, op)));
}

/* A loop within the trip: what it carries is what it was, if each of its trips leaves it so, as sums of zeros. */
static void
idle_loop(Trip *x, const Op *loop)
{
	const Block *body = loop->region[0];
	x->is[body->arg[0].id] = (Idle){0};
	for (int i = 0; i < loop->nout; i++)
		x->is[body->arg[1 + i].id] = idle_of(x, loop->in[3 + i]);
	idle_block(x, body);
	for (int i = 0; i < loop->nout; i++) {
		Idle was = x->is[body->arg[1 + i].id];
		x->is[loop->out[i].id] = is_same(idle_of(x, body->last->in[i]), was) ? was : (Idle){0};
	}
}

static void
idle_block(Trip *x, const Block *body)
{
	for (const Op *op = body->first; op != body->last; op = op->next)
		if (op->kind == OP_FOR)
			idle_loop(x, op);
		else if (op->kind == OP_TOPK)
			idle_top(x, op);
		else if (op->nout == 1)
			x->is[op->out[0].id] = idle_op(x, op);
}

/* Is each carried value after a trip what it was, if it is `as` before? */
static bool
keeps_carried(Trip *x, const Idle *as)
{
	const Block *body = x->body;
	for (int i = 1; i < body->narg; i++)
		x->is[body->arg[i].id] = as[i];
	idle_block(x, body);
	return ALL_OF(i, body->narg - 1, is_same(idle_of(x, body->last->in[i]), as[1 + i])) &&
	    !ANY_OP_HERE(op, body, op != body->last && !is_quiet(x, op));
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

/* Where the body compares something with -inf, also before anything was seen: rows that see nothing have results of their
 * own. */
bool
tile_idles_behind(const Pair *p, const Op *loop, const Linear *end, int n, int64_t per)
{
	const Block *body = loop->region[0];
	Trip x = {.f = p->f, .pair = p->row ? p : NULL, .body = body, .end = end, .ends = n, .per = per};
	x.is = NEW_ARRAY(p->mem, Idle, p->f->nvalues);
	Idle *as = NEW_ARRAY(p->mem, Idle, body->narg);
	for (int i = 1; i < body->narg; i++)
		as[i] = (Idle){.kind = IDLE_CARRIED, .arg = i};
	if (!keeps_carried(&x, as))
		return false;
	begin(as, loop);
	return !x.tests || keeps_carried(&x, as);
}

bool
tile_idles_before(const Pair *p, const Op *loop, const Linear *last)
{
	Trip x = {.f = p->f, .body = loop->region[0], .end = last, .ends = 1, .per = 1, .is_before = true};
	x.is = NEW_ARRAY(p->mem, Idle, p->f->nvalues);
	Idle *as = NEW_ARRAY(p->mem, Idle, x.body->narg);
	begin(as, loop);
	return keeps_carried(&x, as);
}
