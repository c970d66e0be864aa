/* Rules of simplify for ops that move elements about, and for sizes that are known.
 *
 *     %1 = reshape %s : f32[1, 1]                    %2 = broadcast %s : f32[8, 64]
 *     %2 = broadcast %1 : f32[8, 64]           =>
 *     %3 = dim %x {axis = 0} : i64                   (%3 is %R, the parameter that names the dimension)
 *
 * A chain of one kind becomes one op, a permutation that only moves extents of 1 becomes a reshape, and
 * a reduction of integers along an extent of 1 is what it reduces.  Reductions of floats stay: a sum
 * starts at 0.0 and a maximum drops NaN. */
#include "ir/derive.h"
#include "pass/shape/simplify.h"

#include <string.h>

Value *
simplify_splat(Simplify *s, Op *at, Value *v)
{
	const Attr *value = value_const(v);

	if (v->type->rank == 0)
		return v;
	if (value)
		return simplify_const(s, at, type_with_shape(s->m, v->type, 0, NULL), value);
	Value *x = def_operand(v, OP_BROADCAST);
	return x && x->type->rank == 0 ? x : NULL;
}

/* Is v a splat?  Makes nothing. */
static bool
is_splat(const Value *v)
{
	const Value *x = def_operand(v, OP_BROADCAST);

	return v->type->rank == 0 || value_const(v) || (x && x->type->rank == 0);
}

static Value *
spread(Simplify *s, Op *op, Value *scalar)
{
	return simplify_emit1(s, op, OP_BROADCAST, scalar, op->out[0].type);
}

static Value *
rule_iota(Simplify *s, Op *op, Value *x)
{
	return op->out[0].type->extent[attr_axis(op)] == 1 ? simplify_int(s, op, op->out[0].type, 0) : NULL;
}

static Value *
rule_cat(Simplify *s, Op *op, Value *x)
{
	return op->nin == 1 ? x : NULL;
}

static Value *
rule_reshape(Simplify *s, Op *op, Value *x)
{
	Value *inner = def_operand(x, OP_RESHAPE);

	if (x->type == op->out[0].type)
		return x;
	if (inner)
		return simplify_emit1(s, op, OP_RESHAPE, inner, op->out[0].type);
	return x->type->rank && is_splat(x) ? spread(s, op, simplify_splat(s, op, x)) : NULL;
}

static Value *
rule_broadcast(Simplify *s, Op *op, Value *x)
{
	Value *inner = def_operand(x, OP_BROADCAST), *from = def_operand(x, OP_RESHAPE);

	if (x->type == op->out[0].type)
		return x;
	if (inner)
		return simplify_emit1(s, op, OP_BROADCAST, inner, op->out[0].type);
	if (type_count(x->type) == 1 && from && from->type->rank == 0)
		return spread(s, op, from);
	return NULL;
}

/* Moves a permutation only dimensions of extent 1, so that the elements stay in order? */
static bool
keeps_order(const Type *t, const int64_t *dims)
{
	int64_t last = -1;

	for (int i = 0; i < t->rank; i++) {
		if (t->extent[dims[i]] == 1)
			continue;
		if (dims[i] < last)
			return false;
		last = dims[i];
	}
	return true;
}

static Value *
rule_permute(Simplify *s, Op *op, Value *x)
{
	const int64_t *dims = attr_dims(op)->at;
	Value *inner = def_operand(x, OP_PERMUTE);
	int64_t both[MAX_RANK];

	if (is_splat(x))
		return x->type->rank ? spread(s, op, simplify_splat(s, op, x)) : x;
	if (inner) {
		const int64_t *first = attr_dims(x->def)->at;
		for (int i = 0; i < x->type->rank; i++)
			both[i] = first[dims[i]];
		Attr a = attr_new_dims(s->m, both, x->type->rank);
		return simplify_emit(s, op, OP_PERMUTE, &inner, 1, &a, 1, NULL);
	}
	if (keeps_order(x->type, dims))
		return x->type == op->out[0].type ? x : simplify_emit1(s, op, OP_RESHAPE, x, op->out[0].type);
	return NULL;
}

static Value *
rule_flip(Simplify *s, Op *op, Value *x)
{
	int64_t axis = attr_axis(op);
	Value *inner = def_operand(x, OP_FLIP);

	if (is_splat(x) || x->type->extent[axis] <= 1)
		return x;
	return inner && attr_axis(x->def) == axis ? inner : NULL;
}

/* The dimension of extent 2 along which op picks one half of a whole tile, and which; false: it does something else. */
static bool
picks_half(const Op *op, int *dim, int64_t *half)
{
	const Type *t = op->in[0]->type;
	const char *index = attr_index(op);
	int n = 0;

	for (int d = 0, e = 0; d < t->rank; d++) {
		bool is_part = index[d] == 'p';
		if (is_part && attr_extents(op)->at[e++] == t->extent[d])
			continue;
		if (is_part || t->extent[d] != 2 || !value_int(op->in[1 + d], half) || *half < 0 || *half > 1)
			return false;
		*dim = d;
		n++;
	}
	return n == 1;
}

/* Does another op pick the other half? */
static bool
has_other_half(const Op *op, int dim, int64_t half)
{
	for (const Op *x = op->home->first; x; x = x->next) {
		int d;
		int64_t h;
		if (x->kind == OP_EXTRACT && x->in[0] == op->in[0] && picks_half(x, &d, &h) && d == dim && h != half)
			return true;
	}
	return false;
}

/* Both halves of what was computed, picked one by one, are split from it, so that passes see them together: butterflies of
 * transforms.  On the CPU device a half is a view. */
static Value *
split_half(Simplify *s, Op *op, Value *x)
{
	int dim;
	int64_t half, dims[MAX_RANK];
	int rank = x->type->rank;

	if (!(s->m->facts & PADDED) || !x->def || op_is_access(x->def) || !picks_half(op, &dim, &half) ||
	    !has_other_half(op, dim, half))
		return NULL;
	for (int d = 0; d < rank; d++)
		dims[d] = d + 1 == rank ? dim : d + (d >= dim);
	Attr a = attr_new_dims(s->m, dims, rank);
	Value *last = dim + 1 == rank ? x : simplify_emit(s, op, OP_PERMUTE, &x, 1, &a, 1, NULL);
	if (last->def && last->def->kind == OP_JOIN)
		return last->def->in[half];
	return &simplify_emit1(s, op, OP_SPLIT, last, NULL)->def->out[half];
}

static Value *
rule_extract(Simplify *s, Op *op, Value *x)
{
	if (is_splat(x))
		return x->type->rank ? spread(s, op, simplify_splat(s, op, x)) : x;
	/* The whole of every dimension: starts clamp to 0. */
	return x->type == op->out[0].type ? x : split_half(s, op, x);
}

static Value *
rule_split(Simplify *s, Op *op, Value *x)
{
	if (!x->def || x->def->kind != OP_JOIN)
		return NULL;
	if (op->out[1].nuses)
		simplify_forward(s, &op->out[1], x->def->in[1]);
	return x->def->in[0];
}

static Value *
rule_join(Simplify *s, Op *op, Value *x)
{
	const Value *y = op->in[1];
	bool halves = x->def && x->def == y->def && x->def->kind == OP_SPLIT && x->index == 0 && y->index == 1;

	return halves ? x->def->in[0] : NULL;
}

/* Along an extent of 1 integers are their own reduction; of a splat, max, min, any and all are too. */
static Value *
rule_reduce(Simplify *s, Op *op, Value *x)
{
	const char *fn = attr_fn(op);
	int64_t n = x->type->extent[attr_axis(op)];
	bool is_int = !dtype_is_float(x->type->elem), is_sum = strcmp(fn, "sum") == 0;

	if (!is_int || n == 0)
		return NULL;
	if (strncmp(fn, "arg", 3) == 0)
		return n == 1 || is_splat(x) ? simplify_int(s, op, op->out[0].type, 0) : NULL;
	if (n == 1) {
		Value *cast = simplify_emit1(s, op, OP_CAST, x,
		    type_with_elem(s->m, x->type, op->out[0].type->elem));
		return simplify_emit1(s, op, OP_RESHAPE, cast, op->out[0].type);
	}
	if (!is_splat(x) || strcmp(fn, "prod") == 0 || strcmp(fn, "xor_sum") == 0)
		return NULL;
	Value *one = simplify_splat(s, op, x);
	if (is_sum) {
		const Type *t = type_scalar(s->m, op->out[0].type->elem);
		one = simplify_emit1(s, op, OP_CAST, one, t);
		one = simplify_emit2(s, op, OP_MUL, one, simplify_int(s, op, t, n));
	}
	return op->out[0].type->rank ? spread(s, op, one) : one;
}

static Value *
rule_scan(Simplify *s, Op *op, Value *x)
{
	if (dtype_is_float(x->type->elem) || x->type->extent[attr_axis(op)] != 1)
		return NULL;
	return simplify_emit1(s, op, OP_CAST, x, op->out[0].type);
}

/* The dimension's own parameter, or its extent where that is known. */
static Value *
rule_dim(Simplify *s, Op *op, Value *x)
{
	int64_t axis = attr_axis(op);
	int named = s->f->param[x->index].dim[axis];

	if (x->type->extent[axis] >= 0)
		return simplify_int(s, op, op->out[0].type, x->type->extent[axis]);
	return named >= 0 ? &s->f->body->arg[named] : NULL;
}

static Value *
rule_stride(Simplify *s, Op *op, Value *x)
{
	bool is_last = attr_axis(op) == x->type->rank - 1;

	if (!is_last || !param_has_rows(&s->f->param[x->index]))
		return NULL;
	return simplify_int(s, op, op->out[0].type, 1);
}

typedef Value *Rule(Simplify *s, Op *op, Value *x);

static Rule *const rules[OP_COUNT] = {
	[OP_DOT] = simplify_dot,
	[OP_IOTA] = rule_iota, [OP_DIM] = rule_dim, [OP_STRIDE] = rule_stride, [OP_RESHAPE] = rule_reshape,
	[OP_BROADCAST] = rule_broadcast, [OP_PERMUTE] = rule_permute, [OP_FLIP] = rule_flip,
	[OP_EXTRACT] = rule_extract, [OP_SPLIT] = rule_split, [OP_JOIN] = rule_join, [OP_CAT] = rule_cat,
	[OP_REDUCE] = rule_reduce, [OP_SCAN] = rule_scan,
};

Value *
simplify_shape(Simplify *s, Op *op)
{
	return rules[op->kind] ? rules[op->kind](s, op, op->nin ? op->in[0] : NULL) : NULL;
}
