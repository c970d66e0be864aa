/* An approximated exponential of a difference becomes one of base 2, whose factor log2 e is part of the difference.
 *
 *     %b = broadcast %m : f32[64, 128]                 %n = mul %m, log2 e : f32[64, 1]
 *     %d = sub %x, %b : f32[64, 128]                   %b = broadcast (neg %n) : f32[64, 128]
 *     %e = exp %d {fast = true} : f32[64, 128]    =>   %d = fma %x, log2 e, %b : f32[64, 128]
 *                                                      %e = exp2 %d {fast = true} : f32[64, 128]
 *
 * One operation an element takes the place of two.  The product %n is rounded, by 2^-24 of itself, which is an error of
 * the result as great as one of %x's own rounding where both are about as great.  Where they are not, their difference is
 * as great as the greater, and a result that is neither 0 nor infinite has one of 104 at most: 2^-17.  So %x must be a
 * rounded one, a sum or product or the greatest of such, where the difference of what memory holds may be exact; %m may
 * come from memory, as a row's log-sum-exp does.
 *
 * Numbers that stand for minus infinity, as -1e30 or the least f32 added as a mask, are far greater than any such
 * difference, and equal ones must give 1.  From 2^27 on the next number is 16 away, whose power of 2 is 0 as its power
 * of e is, so a row's %m from there on is taken off as it is: %n = select (abs %m >= 2^27), %m, (mul %m, log2 e), and
 * so for the factor.  What a matrix product and a number give, masked by infinities, needs no such look.  But of a
 * row's %m that begins elsewhere, with the least f32 or a sink, log2 e may make an infinity, and that taken off a
 * masked element's is NaN: from 2^127 on such an %m is taken off as it is.
 *
 * The factor of what an exponential takes, and at most its greatest beside, goes into the exponential's own factor.
 *
 *     for … {                                              %ok = 2^-100 <= %c <= 2^100
 *                                                          %g, %f = select %ok, (1, %c), (%c, 1)
 *         %s = mul %x, (broadcast %c)                      for … {
 *         %t = select %mask, %s, -inf               =>         %s = mul %x, (broadcast %g)
 *         %m = reduce %t {fn = "max"}                          %t = select %mask, %s, -inf
 *         %d = fma %t, log2 e, …                               %m = mul (reduce %t {fn = "max"}), %f
 *         %e = exp2 %d {fast = true}                           %d = fma %t, (broadcast %f log2 e), …
 *     }                                                        %e = exp2 %d {fast = true}
 *
 * A factor above 0 keeps the order of what it scales, rounding included, so the greatest is the same number to the bit, and
 * infinities stay what they are.  Factors for which this is not so, or with which log2 e might leave the range of f32, stay
 * where they were, by a number that is 1 otherwise; pass guard has a product by 1 pass by.  The exponential's operand takes
 * the rounding of %f log2 e where it had that of %s. */
#include "ir/derive.h"
#include "pass/relax/relax.h"

#include <math.h>
#include <string.h>

#define LOG2_E 0x1.71547652b82fep0
#define FAR 0x1p27
#define HUGE_ROW 0x1p127                               /* times log2 e it may be infinite */
#define MODERATE 0x1p126

enum { LEAST_ELEMENTS = 4096 };

bool
carried_has(Property *holds, const Value *v, int depth, const Assumed *all)
{
	const Assumed now = {v, all};
	const Op *loop = v->def ? NULL : v->block->parent;
	for (const Assumed *a = all; a; a = a->next)
		if (a->v == v)
			return true;
	return loop && loop->kind == OP_FOR && v->index > 0 && holds(loop->in[2 + v->index], depth + 1, &now) &&
	    holds(v->block->last->in[v->index - 1], depth + 1, &now);
}

bool
operands_have(Property *holds, const Value *v, int depth, const Assumed *all)
{
	const Op *op = v->def;
	if (op->kind == OP_FOR)
		return holds(op->in[3 + v->index], depth + 1, all) &&
		    carried_has(holds, &op->region[0]->arg[1 + v->index], depth + 1, all);
	for (int i = op->kind == OP_SELECT; i < op->nin; i++)
		if (!holds(op->in[i], depth + 1, all))
			return false;
	return true;
}

/* ---- sums of products by parts of a loop's range ----
 *
 *     %a = for … { … yield (add (mul %a.1, %f), (dot %p, %v, %z)) }             of this block's iterations
 *     %t = split_put %a
 *     if (split_meet %t) {
 *         %x, %y = split_get %t, 0; split_get %t, 1
 *         %s = add (mul %x, (exp %u)), (mul %y, (exp %w))                       {fast} where %s becomes narrow
 *     }
 *
 * A loop may add approximated terms to a dot's product, which is a sum of many terms; parts of its range, by warps (split,
 * pass slice_k) or blocks (split_put and split_get, pass split_k), are sums of as many.  Decode attention of 4096 keys
 * joins 16 parts with 30 exponentials a thread, of nine instructions each otherwise. */

/* Does a loop add products to column i, in each iteration or where a mask holds? */
static bool
adds_products(const Op *loop, int i)
{
	const Value *v = loop->region[0]->last->in[i];
	while (v->def && v->def->kind == OP_SELECT)
		v = v->def->in[1];
	return value_is_dot(v) || (v->def && v->def->kind == OP_ADD && ANY_OF(k, 2, value_is_dot(v->def->in[k])));
}

static bool
is_part(const Value *v, int depth, bool is_parted)
{
	enum { DEEP = 32 };
	const Op *op = v->def;
	if (!op || depth > DEEP)
		return false;
	switch (op->kind) {
	case OP_FOR:
		return is_parted && adds_products(op, v->index);
	case OP_SPLIT:
		return is_part(op->in[0], depth + 1, true);
	case OP_SPLIT_GET:
		return is_part(op->in[0]->def->in[0], depth + 1, true);
	case OP_SELECT:
		return is_part(op->in[1], depth + 1, is_parted);
	case OP_MUL:
		return ANY_OF(i, 2, is_part(op->in[i], depth + 1, is_parted));
	case OP_ADD: case OP_RESHAPE: case OP_PERMUTE: case OP_BROADCAST: case OP_CONVERT:
		return is_part(op->in[0], depth + 1, is_parted);
	default:
		return false;
	}
}

bool
relax_is_part(const Value *v)
{
	return is_part(v, 0, false);
}

/* ---- exponentials ---- */

/* A constant that is infinite or that log2 e leaves finite. */
static bool
is_moderate_constant(const Op *op)
{
	const Attr *a = attr_value(op);
	return a->kind == KIND_FLOAT && (isinf(a->f) || fabs(a->f) < MODERATE);
}

/* Is each element a constant or rounded by arithmetic? */
static bool
is_rounded(const Value *v, int depth, const Assumed *all)
{
	const Op *op = v->def;
	if (depth > 8)
		return false;
	if (!op)
		return carried_has(is_rounded, v, depth, all);
	switch (op->kind) {
	case OP_MUL: case OP_DIV: case OP_FMA: case OP_DOT: case OP_ADD: case OP_SUB:
		return true;
	case OP_CONST:
		return is_moderate_constant(op);
	case OP_REDUCE:
		if (strcmp(attr_fn(op), "max") != 0 && strcmp(attr_fn(op), "min") != 0)
			return true;
		return operands_have(is_rounded, v, depth, all);
	case OP_SELECT: case OP_MAX: case OP_MIN: case OP_RESHAPE: case OP_BROADCAST: case OP_PERMUTE: case OP_FOR:
		return operands_have(is_rounded, v, depth, all);
	default:
		return false;
	}
}

/* What a tile is made of by repeating, a quarter of it or less; NULL: no such tile. */
static Value *
repeated(const Value *v)
{
	const Op *op = v->def;
	bool few = op && op->kind == OP_BROADCAST && type_count(op->in[0]->type) * 4 <= type_count(v->type);
	return few ? op->in[0] : NULL;
}

/* Is each element one finite number? */
static bool
is_number(const Value *v)
{
	const Op *op = v->def;
	const Attr *c = value_const(v);
	if (c)
		return c->kind == KIND_FLOAT && isfinite(c->f);
	return op && op->kind == OP_BROADCAST && op->in[0]->type->rank == 0;
}

/* Is v a matrix product, times a number perhaps, or an infinity? */
static bool
is_product(const Value *v, int depth)
{
	const Op *op = v->def;
	const Attr *c = value_const(v);
	if (c)
		return c->kind == KIND_FLOAT && isinf(c->f);
	if (!op || depth > 8)
		return false;
	switch (op->kind) {
	case OP_DOT:
		return true;
	case OP_SELECT:
		return is_product(op->in[1], depth + 1) && is_product(op->in[2], depth + 1);
	case OP_MUL:
		return ANY_OF(i, 2, is_number(op->in[1 - i]) && is_product(op->in[i], depth + 1));
	case OP_RESHAPE: case OP_BROADCAST: case OP_PERMUTE:
		return is_product(op->in[0], depth + 1);
	default:
		return false;
	}
}

/* Is a loop's greatest that of such products from a moderate constant on?  Rows that no loop carries, as the log-sum-exp
 * that memory holds, count as moderate. */
static bool
is_moderate_row(const Value *v, int depth, const Assumed *all)
{
	const Op *op = v->def;
	if (depth > 8)
		return !all;
	if (!op)
		return carried_has(is_moderate_row, v, depth, all);
	switch (op->kind) {
	case OP_CONST:
		return is_moderate_constant(op);
	case OP_DOT:
		return true;
	case OP_MUL:
		return ANY_OF(i, 2, is_number(op->in[1 - i]) && is_moderate_row(op->in[i], depth + 1, all));
	case OP_REDUCE:
		if (strcmp(attr_fn(op), "max") != 0 && strcmp(attr_fn(op), "min") != 0)
			return !all;
		return operands_have(is_moderate_row, v, depth, all);
	case OP_SELECT: case OP_MAX: case OP_MIN: case OP_RESHAPE: case OP_BROADCAST: case OP_PERMUTE: case OP_FOR:
		return operands_have(is_moderate_row, v, depth, all);
	default:
		return !all;
	}
}

/* Row m in base 2: what is taken off, and the factor of what it is taken off from. */
typedef struct Base2 {
	Value *less, *factor;
} Base2;

static Base2
in_base_2(Builder *b, Value *m, bool far, bool moderate)
{
	Value *factor = build_float(b, m->type, LOG2_E);
	Base2 r = {build2(b, OP_MUL, m, factor), factor};
	if (!far && moderate)
		return r;
	Value *bound = build_float(b, m->type, far ? FAR : HUGE_ROW);
	Value *is_far = build2(b, OP_GE, build1(b, OP_ABS, m, NULL), bound);
	r.less = build3(b, OP_SELECT, is_far, m, r.less);
	if (far)
		r.factor = build3(b, OP_SELECT, is_far, build_float(b, m->type, 1), factor);
	return r;
}

void
relax_exponent(Op *op)
{
	Op *sub = op->kind == OP_EXP && op->out->type->elem == TY_F32 ? op->in[0]->def : NULL;
	Value *row = sub && sub->kind == OP_SUB && sub->out->nuses == 1 ? repeated(sub->in[1]) : NULL;
	const Type *tile = op->out->type;
	if (!row || !is_rounded(sub->in[0], 0, NULL))
		return;
	Builder b = build_before(op);
	bool far = !is_product(sub->in[0], 0);
	Base2 r = in_base_2(&b, row, far, is_moderate_row(row, 0, NULL));
	Value *less = build1(&b, OP_BROADCAST, build1(&b, OP_NEG, r.less, NULL), tile);
	Value *factor = far ? build1(&b, OP_BROADCAST, r.factor, tile) : build_float(&b, tile, LOG2_E);
	Value *e = build1(&b, OP_EXP2, build3(&b, OP_FMA, sub->in[0], factor, less), NULL);
	attr_set_fast(b.m, e->def, true);
	value_replace(op->out, e);
}

/* ---- the factor of what it takes ---- */

typedef struct Scale {
	Block *body;
	Op *fma, *mul, *max;
	Value *factor;                                  /* a scalar from outside the loop, or NULL: */
	double number;
} Scale;

/* What uses v, all of it in the block, beside `but` and ops that nothing uses; NULL: nothing, or more than one. */
static Op *
only_use(const Block *body, const Value *v, const Op *but)
{
	Op *user = NULL;
	int uses = 0, users = 0;

	for (Op *op = body->first; op; op = op->next)
		for (int i = 0; i < op->nin; i++) {
			if (op->in[i] != v)
				continue;
			uses++;
			if (op == but || (op_has(op, PURE) && op->nout == 1 && op->out->nuses == 0))
				continue;
			users++;
			user = op;
		}
	return uses == v->nuses && users == 1 ? user : NULL;
}

static bool
is_infinity(const Value *v)
{
	const Attr *a = value_const(v);
	return a && a->kind == KIND_FLOAT && isinf(a->f);
}

/* A scalar that is spread over the tile and made outside the loop. */
static Value *
spread_factor(const Value *v, const Block *body)
{
	const Op *op = v->def;
	Value *from = op && op->kind == OP_BROADCAST ? op->in[0] : NULL;
	return from && from->type->rank == 0 && !value_inside(from, body) && !value_const(from) ? from : NULL;
}

static bool
find_scale(Scale *s)
{
	Value *score = s->fma->in[0];
	Op *op = score->def;

	s->max = score->nuses > 1 ? only_use(s->body, score, s->fma) : NULL;
	if (score->nuses > 1 && (!s->max || s->max->kind != OP_REDUCE || strcmp(attr_fn(s->max), "max") != 0))
		return false;
	for (; op && op->kind == OP_SELECT && is_infinity(op->in[2]); op = op->in[1]->def)
		if (op->home != s->body || op->in[1]->nuses != 1)
			return false;
	if (!op || op->kind != OP_MUL || op->home != s->body)
		return false;
	s->mul = op;
	for (int i = 0; i < 2 && !s->factor; i++)
		s->factor = spread_factor(op->in[1 - i], s->body);
	const Attr *c = value_const(op->in[1]);
	s->number = c && c->kind == KIND_FLOAT && c->f >= 0x1p-100 && c->f <= 0x1p100 ? c->f : 0;
	return s->factor || s->number > 0;
}

static Value *
is_moderate(Builder *b, Value *v)
{
	Value *low = build2(b, OP_LE, build_float(b, v->type, 0x1p-100), v);
	return build2(b, OP_AND, low, build2(b, OP_LE, v, build_float(b, v->type, 0x1p100)));
}

/* The factor goes into the exponential's, `log`, and before the rows' maxima, where it is moderate. */
static void
move_factor(const Scale *s, Op *loop, double log, Value **rows)
{
	Builder b = build_before(loop);
	const Type *scalar = s->factor->type, *tile = s->fma->out->type;
	Value *one = build_float(&b, scalar, 1), *ok = is_moderate(&b, s->factor);
	Value *stays = build3(&b, OP_SELECT, ok, one, s->factor), *goes = build3(&b, OP_SELECT, ok, s->factor, one);
	Value *all = build2(&b, OP_MUL, goes, build_float(&b, scalar, log));
	all = build1(&b, OP_BROADCAST, all, tile);
	*rows = s->max ? build1(&b, OP_BROADCAST, goes, s->max->out->type) : NULL;
	stays = build1(&b, OP_BROADCAST, stays, tile);
	for (int i = 0; i < 2; i++)
		if (spread_factor(s->mul->in[i], s->body) == s->factor) {
			op_set_in(s->mul, i, stays);
			break;
		}
	op_set_in(s->fma, 1, all);
}

/* So does a constant, which is known to be moderate. */
static void
move_number(const Scale *s, double log, Value **rows)
{
	Builder b = build_before(s->fma);
	op_set_in(s->fma, 1, build_float(&b, s->fma->out->type, (float)(s->number * log)));
	if (s->max) {
		b = build_before(s->max);
		*rows = build_float(&b, s->max->out->type, s->number);
	}
	value_replace(s->mul->out, s->mul->in[0]);
	op_erase(s->mul);
}

void
relax_scale(Op *exp2)
{
	const Type *tile = exp2->out->type;
	Op *loop = exp2->home->parent, *fma = exp2->in[0]->def;
	Scale s = {.body = exp2->home, .fma = fma};

	if (!loop || loop->kind != OP_FOR || type_count(tile) < LEAST_ELEMENTS || !fma || fma->kind != OP_FMA ||
	    fma->out->nuses != 1)
		return;
	const Attr *c = value_const(fma->in[1]);
	if (!c || !find_scale(&s))
		return;
	Value *rows = NULL;
	if (s.factor)
		move_factor(&s, loop, c->f, &rows);
	else
		move_number(&s, c->f, &rows);
	if (!s.max)
		return;
	Builder b = build_before(s.max->next);
	Value *max = build2(&b, OP_MUL, rows, rows);
	value_replace(s.max->out, max);
	op_set_in(max->def, 0, s.max->out);
}

/* ---- tanh ---- */

/* Which factor of a product is one number, spread; -1: neither. */
static int
number_factor(const Op *op)
{
	for (int i = 0; op && op->kind == OP_MUL && i < 2; i++)
		if (op->in[i]->def && op->in[i]->def->kind == OP_BROADCAST && op->in[i]->def->in[0]->type->rank == 0)
			return i;
	return -1;
}

void
relax_tanh_term(Module *m, Op *op)
{
	Builder b = build_before(op);
	Value *u = op->in[0], *out = op->out;
	const Type *t = out->type, *number = type_tile(m, t->elem, 0, NULL);
	Value *twice = build_float(&b, number, 2);
	for (int i; u->nuses == 1 && (i = number_factor(u->def)) >= 0; u = u->def->in[1 - i])
		twice = build2(&b, OP_MUL, u->def->in[i]->def->in[0], twice);
	Value *s = build1(&b, OP_SIGMOID, build2(&b, OP_MUL, u, build1(&b, OP_BROADCAST, twice, t)), NULL);
	attr_set_fast(m, s->def, true);
	Op *scaled = value_lone_user(out);
	int outer = number_factor(scaled);
	if (outer >= 0) {
		b = build_before(scaled);
		out = scaled->out;
	}
	Value *c = outer < 0 ? build_float(&b, number, 1) : scaled->in[outer]->def->in[0];
	Value *double_c = build1(&b, OP_BROADCAST, build2(&b, OP_ADD, c, c), t);
	value_replace(out, build3(&b, OP_FMA, s, double_c, build1(&b, OP_BROADCAST, build1(&b, OP_NEG, c, NULL), t)));
}
