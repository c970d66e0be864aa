/* Sums and differences of several products are added up by the products themselves, one behind the other in one
 * accumulator.
 *
 *     %p = dot %a, %b, %0                               %p = dot %a, %b, %acc
 *     %q = dot %c, %d, %0                               %n = neg %c
 *     %r = sub %p, %q                      =>           %s = dot %n, %d, %p
 *     %s = add %acc, %r
 *
 * The parts of a complex product take two accumulators, not six.  A product that is subtracted negates an operand that
 * threads compute in any case; where both lie in memory, warpgroups read them there, and the difference stays.  Rounded in
 * another order, as all sums of products are.  One product that is added is pass dot's. */
#include "pass/layout/dot.h"

/* Operand i of the dot can be negated beside what computes it. */
static bool
is_computed(const Op *dot, int i)
{
	bool flipped;
	const Op *root = dot_operand_root(dot->in[i], &flipped)->def;
	return root && root->kind != OP_READ && root->home == dot->home && dtype_is_float(dot->in[i]->type->elem) &&
	    !dtype_is_packed(dot->in[i]->type->elem);
}

/* Which operand a product that is subtracted negates: the left one stays in registers; -1: none. */
static int
negated(const Op *dot)
{
	return is_computed(dot, 0) ? 0 : is_computed(dot, 1) && dot->in[1]->nuses == 1 ? 1 : -1;
}

/* Products, and sums and differences of such, of which nothing else uses any.  *n: how many. */
static bool
adds_up(const Value *v, const Block *home, bool minus, int *n)
{
	const Op *op = v->def;
	if (!op || op->home != home || v->nuses != 1)
		return false;
	if (op->kind == OP_DOT) {
		++*n;
		return (!minus || negated(op) >= 0) &&
		    (value_is_zero(op->in[2]) || adds_up(op->in[2], home, minus, n));
	}
	return (op->kind == OP_ADD || op->kind == OP_SUB) && adds_up(op->in[0], home, minus, n) &&
	    adds_up(op->in[1], home, minus != (op->kind == OP_SUB), n);
}

/* `sum` and v, or less v. */
static Value *
add_up(Builder *b, Value *sum, const Value *v, bool minus)
{
	Op *op = v->def;
	if (op->kind != OP_DOT) {
		sum = add_up(b, sum, op->in[0], minus);
		return add_up(b, sum, op->in[1], minus != (op->kind == OP_SUB));
	}
	Value *in[] = {op->in[0], op->in[1], value_is_zero(op->in[2]) ? sum : add_up(b, sum, op->in[2], minus)};
	b->place = op->place;
	if (minus)
		in[negated(op)] = build1(b, OP_NEG, in[negated(op)], NULL);
	Op *dot = op_make(b, OP_DOT, in, 3, op->attr, op->nattr, NULL, 0);
	dot->out[0].name = op->out[0].name;
	return &dot->out[0];
}

/* What an accumulator holds when the products begin: other tiles would be waited for there. */
static bool
is_accumulated(const Value *v)
{
	return v->def ? v->def->kind == OP_DOT : v->type->kind == TYPE_TILE && v->block->parent;
}

/* The sum of operand `to` and what the other one is a sum of. */
static bool
fold(Op *op, int to)
{
	int n = 0;
	bool minus = op->kind == OP_SUB, is_sum = adds_up(op->in[1 - to], op->home, minus, &n);
	if (!is_sum || (n == 1 && !minus) || !is_accumulated(op->in[to]))
		return false;
	Builder b = build_before(op);
	Value *sum = add_up(&b, op->in[to], op->in[1 - to], minus);
	if (!sum->name)
		sum->name = op->out[0].name;
	value_replace(&op->out[0], sum);
	op_erase(op);
	return true;
}

void
pass_accumulate(Func *f, const Target *t)
{
	bool any = false;
	(void)t;
	for (Op *op = f->body->first, *next; op; op = next) {
		next = op_after(op, f->body);
		bool is_sum = (op->kind == OP_ADD || op->kind == OP_SUB) && dtype_is_float(op->out[0].type->elem) &&
		    op->out[0].nuses > 0;
		if (is_sum)
			any |= fold(op, 0) || (op->kind == OP_ADD && fold(op, 1));
	}
	if (any)
		sweep(f);
}
