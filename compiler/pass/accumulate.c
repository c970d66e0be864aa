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
 * another order, as all sums of products are.  One product that is added is pass dot's.
 *
 * Two of them whose rows are neighbours in memory are one, as those of weights of which a byte has one of either half:
 *
 *     %x = read %t, %i, %k {index = "pp", extents = [16, 16]}                   %x = read … {extents = [16, 32]}
 *     %y = read %t, %i, (add %k, 16) {index = "pp", extents = [16, 16]}         %b = join %low, %high : f16[64, 16, 2]
 *     %p = dot %x, (permute %low), %0                                      =>   %p = dot %x, (permute (reshape
 *     %q = dot %y, (permute %high), %p                                                  (permute %b : f16[64, 2, 16]))), %0
 *
 * The read of both goes on where the one of the trip before ended, so that warps may divide the loop (pass slice_k). */
#include "ir/derive.h"
#include "pass/layout/dot.h"

#include <string.h>

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

/* ---- neighbours ---- */

/* How far b is behind a. */
static bool
distance(const Value *a, const Value *b, int64_t *by)
{
	int64_t x = 0, y = 0;
	const Value *from[] = {a, b};
	int64_t *to[] = {&x, &y};
	for (int i = 0; i < 2; i++)
		while (from[i]->def && from[i]->def->kind == OP_ADD) {
			int64_t c;
			int k = value_int(from[i]->def->in[1], &c) ? 0 : value_int(from[i]->def->in[0], &c) ? 1 : -1;
			if (k < 0)
				break;
			*to[i] += c;
			from[i] = from[i]->def->in[k];
		}
	*by = y - x;
	return from[0] == from[1] || (value_int(from[0], &x) && value_int(from[1], &y) && (*by += y - x, true));
}

/* Rows of which b's follow a's: reads of one tensor. */
static bool
follows(const Value *a, const Value *b)
{
	const Op *x = a->def, *y = b->def;
	int64_t by;
	if (!x || !y || x->kind != OP_READ || y->kind != OP_READ || x->home != y->home || x->in[0] != y->in[0] ||
	    a->type != b->type || x->nin != y->nin || a->type->rank != 2 || !is_power_of_two(a->type->extent[1]))
		return false;
	int rank = x->in[0]->type->rank;
	const char *index = attr_index(x);
	if (x->nin != 1 + rank || strcmp(index, attr_index(y)) != 0 || index[rank - 1] != 'p' || strchr(index, 'g') ||
	    x->nattr != y->nattr || tensor_may_be_written(x->home->func, x->in[0], x->home))
		return false;
	return !ANY_OF(d, rank - 1, x->in[1 + d] != y->in[1 + d]) && distance(x->in[rank], y->in[rank], &by) &&
	    by == a->type->extent[1];
}

/* [N, K] behind the permute that makes [K, N] of it. */
static Value *
rows_of(const Op *dot)
{
	const Op *op = dot->in[1]->def;
	bool turns = op && op->kind == OP_PERMUTE && op->out[0].type->rank == 2 && attr_dims(op)->at[0] == 1;
	return turns && op->in[0]->def && op->in[0]->def->kind != OP_READ ? op->in[0] : NULL;
}

/* One product of both, whose sum begins with what the first one's did. */
static Value *
joined(Builder *b, const Op *first, const Op *second, Value *sum)
{
	const Op *read = first->in[0]->def;
	const Type *row = first->in[0]->type, *w = rows_of(first)->type;
	int64_t extents[] = {row->extent[0], 2 * row->extent[1]};
	b->place = read->place;
	Value *x = access_like(b, read, read->in, read->nin, attr_index(read), extents, 2)->out;
	b->place = second->place;
	Value *both = build2(b, OP_JOIN, rows_of(first), rows_of(second));
	both = build_permute(b, both, (int64_t[]){0, 2, 1});
	both = build_reshape(b, both, 2, (int64_t[]){w->extent[0], 2 * w->extent[1]});
	both = build_permute(b, both, (int64_t[]){1, 0});
	Value *in[] = {x, both, sum};
	Op *dot = op_make(b, OP_DOT, in, 3, second->attr, second->nattr, NULL, 0);
	dot->out[0].name = second->out[0].name;
	return &dot->out[0];
}

/* The dot and the one that its sum begins with, or the other operand of a sum of both. */
static bool
join(Op *op)
{
	Op *second = op->kind == OP_ADD ? op->in[1]->def : op;
	Op *first = op->kind == OP_ADD ? op->in[0]->def : second->in[2]->def;
	if (!first || !second || first->kind != OP_DOT || second->kind != OP_DOT || first->out[0].nuses != 1 ||
	    first->home != op->home || second->home != op->home || first->out[0].type != second->out[0].type)
		return false;
	bool adds = op->kind == OP_ADD;
	if (adds && (second->out[0].nuses != 1 || !value_is_zero(second->in[2])))
		return false;
	bool turned = follows(second->in[0], first->in[0]);
	Op *left = turned ? second : first, *right = turned ? first : second;
	if (!follows(left->in[0], right->in[0]) || !rows_of(left) || !rows_of(right) ||
	    rows_of(left)->type != rows_of(right)->type || !dot_decodes(left) || !dot_decodes(right) ||
	    strcmp(attr_precision(left), attr_precision(right)) != 0)
		return false;
	Builder b = build_before(op);
	Value *sum = joined(&b, left, right, first->in[2]);
	value_replace(&op->out[0], sum);
	op_erase(op);
	op_erase(first);                                /* so that it uses no sum that another one is joined with */
	if (adds)
		op_erase(second);
	return true;
}

static bool
join_all(Func *f)
{
	bool any = false;
	for (EACH_OP(op, f->body))
		any |= (op->kind == OP_ADD || op->kind == OP_DOT) && op->out[0].nuses > 0 && join(op);
	return any;
}

void
pass_accumulate(Func *f, const Target *t)
{
	bool any = false;
	(void)t;
	for (EACH_OP(op, f->body)) {
		bool is_sum = (op->kind == OP_ADD || op->kind == OP_SUB) && dtype_is_float(op->out[0].type->elem) &&
		    op->out[0].nuses > 0;
		if (is_sum)
			any |= fold(op, 0) || (op->kind == OP_ADD && fold(op, 1));
	}
	while (join_all(f))                             /* two of four, and those */
		any = true;
	if (any)
		sweep(f);
}
