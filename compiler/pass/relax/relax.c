/* Makes f32 arithmetic approximate where rounding hides it: a division, exponential or root whose result only ever
 * becomes a float of 16 bits or fewer takes the hardware's approximation ({fast}).
 *
 *     %e = exp %x : f32[64]                        %e = exp %x {fast = true} : f32[64]
 *     %d = add %one, %e : f32[64]             =>   %d = add %one, %e : f32[64]
 *     %s = div %x, %d : f32[64]                    %s = div %x, %d {fast = true} : f32[64]
 *     %y = cast %s : bf16[64]                      %y = cast %s : bf16[64]
 *
 * The approximations are good to a few units in the last place of f32 (exp: to 2^-17 of its value), the rounding that
 * follows loses 2^-12 of it and more.  What stands between must carry a small relative error on as a small relative
 * error: products, quotients, roots, choices and moves do; a sum does if its terms have one sign, for else they may
 * cancel and leave the error alone, or if one of them is a dot's product: that is a sum of many terms already, whose own
 * roundings cancel no better, also of products that parts of a loop's range add up (exponent.c).  A value that a loop
 * carries is such a one if all that the loop and what follows make of it is.  A quotient by a sum of many terms is a
 * product with the sum's inverse, even where it is a term that may cancel: the sum's roundings are as great as the
 * product's.  So is a quotient by few numbers that is a term of the difference
 * which an approximated exponential takes (scores over a temperature or below a soft cap, the greatest of them): the
 * difference of rounded terms may be off by as much (exponent.c).  The share that a value has of a sum of many, itself
 * among them, may lose a term (the gradient of a cross entropy): an exponential's error is 2^-24 of its exponent, as small
 * as the sum's own roundings unless the share is far below 2^-24.  Stores of f32 end the search, but for the logarithm of
 * a positive sum, which has as absolute error what the sum has as relative one: of a sum of many terms, whose own
 * roundings are as great (and where exponents are far from 0, so is the logarithm), or of one that is used elsewhere as
 * what becomes narrow, as attention's sums are, and but for a look whether a sum is 0 (underflow.c).  A tile that is
 * divided by few numbers is multiplied by their inverses, and the exponential of a difference takes the factor log2 e into
 * it (exponent.c).  A quotient of sums of products whose
 * operands were rounded to 16 bits, as attention's of f32, has lost more than its parts' approximations lose.
 *
 * A tanh that is such a term is 2 sigmoid(2u) - 1 by the hardware's functions.
 *
 * Under the same condition c + c tanh u becomes 2c sigmoid(2u), which is the same number without the cancellation, and
 * the constants of a product are multiplied here: 0.5 x (1 + tanh u) ends up as x sigmoid(2u).  So is c + c erf u one
 * function without the cancellation, and so are the constants of what an exponential takes (polynomial.c). */
#include "pass/relax/relax.h"
#include "target/target.h"

#include <math.h>
#include <string.h>

enum { LONG_SUM = 32, DEEP = 16 };                      /* DEEP: a join of 32 parts by pairs */

/* Is the second choice x, where the first is a sum of which one term is x times something?  As joins of pairs are: what was
 * shown of the sum was shown of x. */
static bool
is_term_of_first(const Op *select)
{
	const Op *sum = select->in[1]->def;
	for (int i = 0; i < 2 && sum && sum->kind == OP_ADD; i++) {
		const Op *term = sum->in[i]->def;
		if (term && term->kind == OP_MUL && term->in[0] != term->in[1] &&
		    ANY_OF(k, 2, term->in[k] == select->in[2]))
			return true;
	}
	return false;
}

bool
relax_is_positive(const Value *v, int depth, const Assumed *all)
{
	const Op *op = v->def;
	if (depth > DEEP)
		return false;
	if (!op)
		return carried_has(relax_is_positive, v, depth, all);
	switch (op->kind) {
	case OP_SPLIT:
		return relax_is_positive(op->in[0], 0, all);
	case OP_SPLIT_GET:
		return relax_is_positive(op->in[0]->def->in[0], 0, all);
	case OP_EXP: case OP_EXP2: case OP_ABS: case OP_SIGMOID: case OP_SQRT: case OP_RSQRT:
		return true;
	case OP_CONST: {
		const Attr *a = attr_value(op);
		return a->kind == KIND_FLOAT && a->f >= 0;
	}
	case OP_MUL:
		return op->in[0] == op->in[1] || operands_have(relax_is_positive, v, depth, all);
	case OP_ADD: case OP_DIV: case OP_MIN: case OP_MAX: case OP_CAST: case OP_RESHAPE: case OP_PERMUTE:
	case OP_BROADCAST: case OP_CONVERT: case OP_FOR:
		return operands_have(relax_is_positive, v, depth, all);
	case OP_SELECT:
		return relax_is_positive(op->in[1], depth + 1, all) &&
		    (is_term_of_first(op) || relax_is_positive(op->in[2], depth + 1, all));
	case OP_REDUCE: {
		bool keeps = strcmp(attr_fn(op), "sum") == 0 || strcmp(attr_fn(op), "max") == 0;
		return keeps && operands_have(relax_is_positive, v, depth, all);
	}
	default:
		return false;
	}
}

/* What uses need of a value while the pass runs, in Value.id: any small relative error will do; it is the difference
 * that an approximated exponential takes; it is a term of such a difference; it is a term that may cancel, in what becomes
 * narrow; all of its bits. */
enum { TOLERANT, EXPONENT, EXPONENT_TERM, CANCELS, EXACT };

static bool
is_exact(const Value *v)
{
	return v->id != TOLERANT;
}

static bool
is_f32(const Value *v)
{
	return v->type->kind == TYPE_TILE && v->type->ptr == PTR_NONE && v->type->elem == TY_F32;
}

/* What all uses of column i in and behind a loop or branch need of it. */
static int
carried_need(const Op *op, int i)
{
	if (i < 0 || i >= op->nout || (op->kind != OP_IF && op->kind != OP_FOR))
		return EXACT;
	int needs = op->out[i].id;
	if (op->kind == OP_FOR)
		needs = MAX(needs, op->region[0]->arg[1 + i].id);
	return needs <= EXPONENT_TERM ? needs : EXACT;
}

/* The terms of a sum cannot cancel, or cancel in any case. */
static bool
is_tolerant_sum(const Op *op)
{
	return ANY_OF(i, 2, op->in[i]->def && op->in[i]->def->kind == OP_DOT) || ANY_OF(i, 2, relax_is_part(op->in[i])) ||
	    (relax_is_positive(op->in[0], 0, NULL) && relax_is_positive(op->in[1], 0, NULL));
}

/* Something else of the op's block is made of v, and puts up with a small relative error. */
static bool
is_tolerated_elsewhere(const Op *log, const Value *v)
{
	return ANY_OP_HERE(op, log->home,
	    ANY_OF(i, op->nin, op->in[i] == v && op != log && op->nout == 1 && !is_exact(op->out)));
}

/* Of so many terms that its own roundings are greater than one of a product.  A loop may add them up. */
static bool
is_long_sum(const Value *v, int depth)
{
	const Op *op = v->def;
	if (!op || depth > 4)
		return false;
	switch (op->kind) {
	case OP_REDUCE:
		return strcmp(attr_fn(op), "sum") == 0 &&
		    type_count(op->in[0]->type) >= LONG_SUM * type_count(op->out->type);
	case OP_ADD:
		return is_long_sum(op->in[0], depth + 1) || is_long_sum(op->in[1], depth + 1);
	case OP_FOR:
		return is_long_sum(op->region[0]->last->in[v->index], depth + 1);
	default:
		return (op->kind == OP_BROADCAST || op->kind == OP_RESHAPE) && is_long_sum(op->in[0], depth + 1);
	}
}

const Value *
relax_repeated(const Value *v)
{
	while (v->def && (v->def->kind == OP_BROADCAST || v->def->kind == OP_RESHAPE))
		v = v->def->in[0];
	return v;
}

/* %e / sum %e, or its product with the inverse. */
static bool
is_share(const Op *op)
{
	const Value *by = relax_repeated(op->in[1]);
	const Op *inverse = op->kind == OP_MUL ? by->def : NULL;
	if (inverse && inverse->kind == OP_DIV)
		by = relax_repeated(inverse->in[1]);
	if (inverse && by->def && by->def->kind == OP_MUL)      /* scaled: divide.c */
		by = by->def->in[0];
	return by->def && by->def->kind == OP_REDUCE && by->def->in[0] == op->in[0] && is_long_sum(by, 0) &&
	    relax_is_positive(by, 0, NULL);
}

/* An operand of a product that was rounded to 16 bits or fewer on its way. */
static bool
is_rounded(const Value *v)
{
	while (v->def && (v->def->kind == OP_BROADCAST || v->def->kind == OP_RESHAPE || v->def->kind == OP_PERMUTE))
		v = v->def->in[0];
	const Op *op = v->def;
	return op && op->kind == OP_CAST && is_f32(op->in[0]) && dtype_is_float(op->out->type->elem) &&
	    dtype_info[op->out->type->elem].bits <= 16;
}

/* Sums of products of which an operand was rounded so, by factors, also as a loop adds them to what it carries.  What is
 * carried is none by itself: a loop may multiply what it began with. */
enum Sum { NO_PRODUCTS, CARRIED, PRODUCTS };

static enum Sum
sum_of_products(const Value *v, int depth)
{
	const Op *op = v->def;
	enum Sum a, b;
	if (!op && v->block->parent && v->block->parent->kind == OP_FOR && v->index > 0 && depth > 0)
		return CARRIED;
	if (!op || depth > 8)
		return NO_PRODUCTS;
	switch (op->kind) {
	case OP_DOT:
		return is_rounded(op->in[0]) || is_rounded(op->in[1]) ? PRODUCTS : NO_PRODUCTS;
	case OP_FOR:
		return sum_of_products(op->region[0]->last->in[v->index], depth + 1) == PRODUCTS ? PRODUCTS : NO_PRODUCTS;
	case OP_ADD: case OP_MUL:
		a = sum_of_products(op->in[0], depth + 1);
		b = sum_of_products(op->in[1], depth + 1);
		return op->kind == OP_ADD && MIN(a, b) == NO_PRODUCTS ? NO_PRODUCTS : MAX(a, b);
	default:
		return NO_PRODUCTS;
	}
}

/* What op's use of operand i needs of it. */
static int
need(const Op *op, int i)
{
	bool is_narrow;
	switch (op->kind) {
	case OP_CAST:
		is_narrow = dtype_is_float(op->out->type->elem) && dtype_info[op->out->type->elem].bits <= 16;
		return is_narrow ? TOLERANT : EXACT;
	case OP_SELECT:
		return i > 0 ? op->out->id : EXACT;
	case OP_REDUCE:
		if (op->out->id == EXPONENT_TERM && strcmp(attr_fn(op), "max") == 0)
			return EXPONENT_TERM;
		return !is_exact(op->out) && relax_is_positive(op->out, 0, NULL) && !relax_may_vanish(op)
		    ? TOLERANT : EXACT;
	case OP_EXP: case OP_EXP2:
		return !is_exact(op->out) && op->in[0]->def && op->in[0]->def->kind == OP_SUB ? EXPONENT : EXACT;
	case OP_TANH:                           /* has no greater relative error than what it takes */
		return op->out->id == EXPONENT_TERM ? EXPONENT_TERM : EXACT;
	case OP_ADD: case OP_SUB:
		if (op->kind == OP_SUB && op->out->id == EXPONENT)
			return EXPONENT_TERM;
		if (is_exact(op->out))
			return EXACT;
		return op->kind == OP_ADD && is_tolerant_sum(op) ? TOLERANT : CANCELS;
	case OP_SPLIT:
		return MAX(op->out[0].id, op->out[1].id);
	case OP_SPLIT_PUT:                      /* what uses of the token need */
		return op->out->id;
	case OP_SPLIT_GET:
		return i == 0 ? op->out->id : EXACT;
	case OP_SPLIT_MEET: case OP_SPLIT_DONE:
		return TOLERANT;
	case OP_EQ: case OP_NE: case OP_LE: case OP_GT: case OP_GE: case OP_LT:         /* fast: divide.c's */
		return attr_fast(op) || relax_asks_for_zero(op, i) ? TOLERANT : EXACT;
	case OP_LOG: case OP_LOG2:
		return relax_is_positive(op->in[0], 0, NULL) &&
		        (is_long_sum(op->in[0], 0) || is_tolerated_elsewhere(op, op->in[0]))
		    ? TOLERANT : EXACT;
	case OP_DOT:
		return i == 2 && !is_exact(op->out) ? TOLERANT : EXACT;
	case OP_YIELD:
		return op->home->parent ? carried_need(op->home->parent, i) : EXACT;
	case OP_FOR:
		return carried_need(op, i - 3);
	case OP_DIV:
		if (relax_by_vanishing(op, i))
			return EXACT;
		return !is_exact(op->out) || (op->out->id == CANCELS && is_share(op)) ||
		    sum_of_products(op->in[0], 0) == PRODUCTS ? TOLERANT : EXACT;
	case OP_MUL:
		if (relax_by_vanishing(op, i))
			return EXACT;
		return op->out->id == CANCELS && is_share(op) ? TOLERANT : op->out->id;
	case OP_NEG: case OP_ABS: case OP_MIN: case OP_MAX: case OP_SQRT: case OP_RSQRT:
	case OP_RESHAPE: case OP_PERMUTE: case OP_BROADCAST: case OP_CONVERT: case OP_FLIP:
		return op->out->id;
	default:
		return EXACT;
	}
}

static bool
has_approximation(OpKind k)
{
	return k == OP_DIV || k == OP_EXP || k == OP_EXP2 || k == OP_SQRT || k == OP_RSQRT || k == OP_SIGMOID;
}

bool
relax_constant(const Value *v, double *c)
{
	const Attr *a = value_const(v);
	if (!a || a->kind != KIND_FLOAT || !(fabs(a->f) >= 0x1p-40 && fabs(a->f) <= 0x1p40))
		return false;
	*c = a->f;
	return true;
}

/* v as c times something; c is 1 if v is no such product. */
static Value *
split_constant(Value *v, double *c)
{
	Op *op = v->def;
	*c = 1;
	if (!op || op->kind != OP_MUL || v->nuses != 1)
		return v;
	return VALUE_OF(i, 2, relax_constant(op->in[i], c), op->in[1 - i], v);
}

/* Of c + c f(u) or c - c f(u): f(u), which nothing else uses; else NULL. */
static Value *
joined_with_constant(const Op *op, OpKind f, double *c)
{
	double by;
	for (int i = 0; i < (op->kind == OP_SUB ? 1 : 2); i++) {
		Value *v = relax_constant(op->in[i], c) ? split_constant(op->in[1 - i], &by) : NULL;
		if (v && v->def && v->def->kind == f && v->nuses == 1 && by == *c)
			return v;
	}
	return NULL;
}

static void
join_tanh(Op *op)
{
	double c, inner;
	Value *tanh = joined_with_constant(op, OP_TANH, &c);
	if (!tanh || attr_fast(tanh->def))
		return;
	Builder b = build_before(op);
	Value *u = split_constant(tanh->def->in[0], &inner);
	Value *twice = build_float(&b, tanh->type, op->kind == OP_ADD ? 2 * inner : -2 * inner);
	Value *s = build1(&b, OP_SIGMOID, build2(&b, OP_MUL, u, twice), NULL);
	value_replace(op->out, build2(&b, OP_MUL, s, build_float(&b, tanh->type, 2 * c)));
}

static void
join_erf(Module *m, Op *op)
{
	double c;
	Value *erf = joined_with_constant(op, OP_ERF, &c);
	if (!erf)
		return;
	Builder b = build_before(op);
	Value *sum = relax_erf(m, &b, erf->def->in[0], op->kind == OP_SUB);
	value_replace(op->out, build2(&b, OP_MUL, sum, build_float(&b, sum->type, 2 * c)));
}

/* A factor that has no other use and is a product itself. */
static bool
is_inner_product(const Value *v)
{
	return v->def && v->def->kind == OP_MUL && v->nuses == 1 && !is_exact(v);
}

static void
count_constants(const Value *v, int depth, int *n, double *product)
{
	double c;
	if (depth < 8 && (depth == 0 || is_inner_product(v))) {
		count_constants(v->def->in[0], depth + 1, n, product);
		count_constants(v->def->in[1], depth + 1, n, product);
	} else if (relax_constant(v, &c)) {
		*product *= c;
		++*n;
	}
}

/* The product again, the first constant replaced by that of all, the others left out; NULL: nothing is left. */
static Value *
rebuild_product(Builder *b, Value *v, int depth, double *product)
{
	double c;
	if (depth < 8 && (depth == 0 || is_inner_product(v))) {
		Value *x = rebuild_product(b, v->def->in[0], depth + 1, product);
		Value *y = rebuild_product(b, v->def->in[1], depth + 1, product);
		return x && y ? build2(b, OP_MUL, x, y) : x ? x : y;
	}
	if (!relax_constant(v, &c))
		return v;
	c = *product;
	*product = 1;
	return c == 1 ? NULL : build_float(b, v->type, c);
}

/* The constants of a product as one.  What stands between is no greater than it was but by that. */
static void
join_constants(Op *op)
{
	int n = 0;
	double product = 1;
	count_constants(op->out, 0, &n, &product);
	if (n < 2 || !(fabs(product) >= 0x1p-40 && fabs(product) <= 0x1p40))
		return;
	Builder b = build_before(op);
	Value *v = rebuild_product(&b, op->out, 0, &product);
	if (v)
		value_replace(op->out, v);
}

static void
relax_op(Module *m, const Target *t, Op *op)
{
	if (has_approximation(op->kind)) {
		attr_set_fast(m, op, true);
		relax_divisor(op, false);
		relax_exponent(op);
		if (op->kind == OP_EXP2 && t && (t->has & HAS_WGMMA))
			relax_scale(op);
		if (t && op->out->nuses > 0)
			relax_polynomial(m, op);
	} else if (op->kind == OP_ADD || op->kind == OP_SUB) {
		join_tanh(op);
		if (t && (t->has & HAS_WGMMA))          /* see exponent.c */
			join_erf(m, op);
	} else if (op->kind == OP_MUL) {
		join_constants(op);
	}
}

static bool
is_dead(const Op *op)
{
	return ALL_OF(i, op->nout, op->out[i].nuses <= 0) && op_info[op->kind].traits & PURE;
}

/* Marks what needs all of its bits; is anything new? */
static bool
mark(Block *b)
{
	bool changed = false;
	for (Op *op = b->last; op; op = op->prev) {
		for (int r = op->nregion - 1; r >= 0; r--)
			changed |= mark(op->region[r]);
		for (int i = 0; i < op->nin; i++) {
			int needs = need(op, i);
			changed |= needs > op->in[i]->id;
			op->in[i]->id = MAX(op->in[i]->id, needs);
		}
	}
	return changed;
}

/* Functions that are terms of exponents: before these get a look at far terms (exponent.c), which needs all bits. */
static void
relax_terms(Module *m, Block *b)
{
	for (EACH_OP_HERE(op, b)) {
		for (int r = 0; r < op->nregion; r++)
			relax_terms(m, op->region[r]);
		bool relaxes = (op->kind == OP_DIV || op->kind == OP_TANH) && is_f32(op->out);
		bool is_term = relaxes && op->out->id == EXPONENT_TERM;
		if (is_term && op->kind == OP_DIV)
			relax_divisor(op, true);
		else if (is_term && !attr_fast(op))
			relax_tanh_term(m, op);
		if (is_term && is_dead(op))
			op_erase(op);
	}
}

/* Users stand behind what they use, so the walk goes backwards: what is made before an op is walked next. */
static void
walk(Module *m, const Target *t, Block *b)
{
	for (Op *op = b->last, *next; op; op = next) {
		for (int r = op->nregion - 1; r >= 0; r--)
			walk(m, t, op->region[r]);
		if (op->nout == 1 && op->out->nuses > 0 && is_f32(op->out) && !is_exact(op->out))
			relax_op(m, t, op);
		else if (op->kind == OP_DIV && is_f32(op->out) && op->out->id == CANCELS && is_long_sum(op->in[1], 0))
			relax_divisor(op, false);
		else if (op->kind == OP_DIV && op->out->nuses > 0 && is_f32(op->out))
			relax_zeros(op);
		next = op->prev;
		if (is_dead(op)) {
			op_erase(op);
			continue;
		}
		for (int i = 0; i < op->nin; i++)
			op->in[i]->id = MAX(op->in[i]->id, need(op, i));
	}
}

void
pass_relax(Func *f, const Target *t)
{
	for (int round = 0; round < 2; round++) {       /* sums become products first, which join others then */
		ValueList all = func_values(f, f->module->cx->tmp);
		for (int i = f->body->narg; i < all.n; i++)
			all.at[i]->id = 0;
		while (mark(f->body))
			;
		relax_terms(f->module, f->body);
		walk(f->module, t, f->body);
	}
}
