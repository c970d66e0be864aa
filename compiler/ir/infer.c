/* The type rules named in ops.def: what an op's operands and attributes must be and what types
 * its results have.  The builder, the reader and the verifier all ask here, so a rule is
 * written once.  A rule that does not hold leaves a reason that names the operand, what it is and
 * what was expected, counted from 1:
 *
 *     operand 2 is f32[64, 32]; expected f32[32, 64] as operand 1
 *
 * Here are the entry, what the rules share, and the rules of values from nowhere, elementwise ops
 * and control; infer_shape.c and infer_memory.c have the rest. */
#include "ir/infer.h"

bool
infer_out(Infer *x, const Type *t)
{
	int64_t bound = MAX_ELEMENTS;

	if (type_count(t) > bound)
		return infer_fail(x, "the result would be %s; a tile may have at most 2^40 elements",
		    infer_text(x, t));
	x->out[(*x->nout)++] = t;
	return true;
}

bool
infer_count(Infer *x, int least, int most)
{
	if (x->op->nin >= least && x->op->nin <= most)
		return true;
	if (most == INT32_MAX)
		return infer_fail(x, "%d operands; expected at least %d", x->op->nin, least);
	if (least == most)
		return infer_fail(x, "%d operand%s; expected %d", x->op->nin, x->op->nin == 1 ? "" : "s", least);
	return infer_fail(x, "%d operand%s; expected %d to %d", x->op->nin, x->op->nin == 1 ? "" : "s", least, most);
}

bool
infer_tile(Infer *x, int i)
{
	const Type *t = infer_in(x, i);

	if (t->kind == TYPE_TILE && t->ptr == PTR_NONE)
		return true;
	return infer_expect(x, i, "a tile of numbers or bools");
}

bool
infer_int_tile(Infer *x, int i)
{
	const Type *t = infer_in(x, i);

	if (t->kind == TYPE_TILE && t->ptr == PTR_NONE && dtype_is_int(t->elem) &&
	    !dtype_is_packed(t->elem))
		return true;
	return infer_expect(x, i, "integers of 8 bits or more");
}

bool
infer_i64(Infer *x, int i)
{
	return infer_in(x, i) == type_scalar(x->m, TY_I64) || infer_expect(x, i, "an i64 scalar");
}

bool
infer_type(Infer *x, int i, const Type *t)
{
	return infer_in(x, i) == t || infer_expect(x, i, "%s", infer_text(x, t));
}

bool
infer_mask(Infer *x, int i, const Type *shape)
{
	return infer_type(x, i, type_with_elem(x->m, shape, TY_BOOL));
}

bool
infer_axis(Infer *x, const Type *t, int *axis)
{
	int64_t at = attr_axis(x->op);

	if (at < 0 || at >= t->rank)
		return infer_fail(x, "axis is %lld; %s has %d dimension%s", (long long)at,
		    infer_text(x, t), t->rank, t->rank == 1 ? "" : "s");
	*axis = (int)at;
	return true;
}

bool
infer_want(Infer *x)
{
	if (x->nwant != 1)
		return infer_fail(x, "%d result types given; expected 1", x->nwant);
	if (x->want[0]->kind != TYPE_TILE)
		return infer_fail(x, "the result type is %s; expected a tile",
		    infer_text(x, x->want[0]));
	return true;
}

/* The constant's value must be one that its type has. */
static bool
const_value(Infer *x, const Type *t)
{
	const Attr *v = attr_value(x->op);
	AttrKind kind = dtype_is_float(t->elem) ? KIND_FLOAT : t->elem == TY_BOOL ? KIND_BOOL : KIND_INT;
	const char *name = kind == KIND_FLOAT ? "a float" : kind == KIND_BOOL ? "true or false" : "an integer";

	if (t->ptr != PTR_NONE)
		return infer_fail(x, "the result type is %s; there are no constant pointers", infer_text(x, t));
	if (v->kind != kind)
		return infer_fail(x, "the value of a constant of %s must be %s", infer_text(x, t), name);
	if (kind == KIND_INT && int_wrap(t->elem, v->i) != v->i)
		return infer_fail(x, "%lld is no value of %s", (long long)v->i, dtype_info[t->elem].text);
	if (t->elem == TY_F32 && v->f == v->f && (double)(float)v->f != v->f)
		return infer_fail(x, "%.17g is no value of f32; the nearest is %.17g", v->f,
		    (double)(float)v->f);
	return true;
}

/* The types asked for, if all are tiles. */
static bool
wanted_tiles(Infer *x)
{
	for (int i = 0; i < x->nwant; i++) {
		if (x->want[i]->kind != TYPE_TILE)
			return infer_fail(x, "a result type is %s; expected a tile", infer_text(x, x->want[i]));
		if (!infer_out(x, x->want[i]))
			return false;
	}
	return true;
}

RULE(want)
{
	if (x->op->kind == OP_CONST)
		return infer_want(x) && const_value(x, x->want[0]) && infer_out(x, x->want[0]);
	for (int i = 0; i < x->op->nin; i++)
		if (infer_in(x, i)->kind != TYPE_TILE)
			return infer_expect(x, i, "a tile");
	return wanted_tiles(x);
}

/* What {bounds} of a print with {watch} says of its operands: a start and an extent, or a mask. */
static bool
infer_bounds(Infer *x, int64_t given)
{
	const IntList *bounds = attr_bounds(x->op);
	int at = (int)given + 1;

	for (int k = 0; bounds && k < bounds->n; k += 2) {
		int64_t tile = bounds->at[k], dim = k + 1 < bounds->n ? bounds->at[k + 1] : INT64_MAX;
		if (tile < 0 || tile > given || dim < -1 || dim >= infer_in(x, (int)tile)->rank)
			return infer_fail(x, "bounds are pairs of one of %lld tiles and one of its dimensions or -1",
			    (long long)given + 1);
		if (!infer_count(x, at + (dim < 0 ? 1 : 2), INT32_MAX))
			return false;
		if (dim < 0 ? !infer_mask(x, at, infer_in(x, (int)tile)) : !infer_i64(x, at) || !infer_i64(x, at + 1))
			return false;
		at += dim < 0 ? 1 : 2;
	}
	return infer_count(x, at, at);
}

/* A print with {trace} is of one tile, one with {watch} as attrs.def says. */
static bool
infer_print(Infer *x)
{
	const IntList *valid = attr_valid(x->op);
	int64_t given = attr_given(x->op), n = 0;

	for (int i = 0; i < x->op->nin; i++)
		for (int d = 0; d < infer_in(x, i)->rank; d++, n++)
			if (valid && n < valid->n && (valid->at[n] < 0 || valid->at[n] > infer_in(x, i)->extent[d]))
				return infer_fail(x, "valid extent %lld; expected 0 to %lld", (long long)valid->at[n],
				    (long long)infer_in(x, i)->extent[d]);
	if (valid && valid->n != n)
		return infer_fail(x, "%d valid extents; expected one for each dimension of the tiles", valid->n);
	if (attr_trace(x->op))
		return infer_count(x, 1, 1);
	if (!op_attr(x->op, ATTR_WATCH))
		return true;
	if (given < 0 || given >= x->op->nin)
		return infer_fail(x, "%lld tiles given, of %d operands", (long long)given, x->op->nin);
	for (int i = 0; i <= given; i++)
		if (!dtype_is_float(infer_in(x, i)->elem) || infer_in(x, i)->ptr != PTR_NONE)
			return infer_expect(x, i, "a tile of floats");
	return infer_bounds(x, given);
}

RULE(none)
{
	for (int i = 0; i < x->op->nin; i++)
		if (infer_in(x, i)->kind != TYPE_TILE && (x->op->kind != OP_YIELD || infer_in(x, i)->kind != TYPE_TOKEN))
			return infer_expect(x, i, "a tile");
	if (x->op->kind == OP_PRINT)
		return infer_print(x);
	if (x->op->kind != OP_ASSERT)
		return true;
	if (x->op->nin == 0)
		return infer_fail(x, "no operand; expected the bool tile that must hold");
	if (infer_in(x, 0)->elem != TY_BOOL || infer_in(x, 0)->ptr != PTR_NONE)
		return infer_expect(x, 0, "a bool tile");
	return true;
}

RULE(index)
{
	int64_t axis = attr_axis(x->op);

	if (axis < 0 || axis >= MAX_AXES)
		return infer_fail(x, "axis is %lld; a grid has at most %d axes", (long long)axis, MAX_AXES);
	return infer_out(x, type_scalar(x->m, TY_I64));
}

RULE(number)
{
	return infer_out(x, type_scalar(x->m, TY_I64));
}

RULE(program_at)
{
	return infer_i64(x, 0) && infer_rule_index(x);
}

RULE(program_exists)
{
	return infer_i64(x, 0) && infer_out(x, type_scalar(x->m, TY_BOOL));
}

RULE(iota)
{
	int axis;

	if (!infer_want(x))
		return false;
	const Type *t = x->want[0];
	if (t->ptr != PTR_NONE || !dtype_is_int(t->elem) || dtype_is_packed(t->elem))
		return infer_fail(x, "the result type is %s; expected integers of 8 bits or more",
		    infer_text(x, t));
	return infer_axis(x, t, &axis) && infer_out(x, t);
}

RULE(dim)
{
	int axis;

	if (infer_in(x, 0)->kind != TYPE_TENSOR)
		return infer_expect(x, 0, "a tensor parameter");
	return infer_axis(x, infer_in(x, 0), &axis) && infer_out(x, type_scalar(x->m, TY_I64));
}

/* Which elements an elementwise op computes with. */
static bool
elements(Infer *x, int i)
{
	const Type *t = infer_in(x, i);
	unsigned traits = op_info[x->op->kind].traits;

	if (!infer_tile(x, i))
		return false;
	if (dtype_is_packed(t->elem))
		return infer_expect(x, i, "elements of 8 bits or more (cast first)");
	bool bools = traits & BOOLS;
	if ((traits & ANYF) && !dtype_is_float(t->elem))
		return infer_expect(x, i, "floats");
	if ((traits & ANYI) && dtype_is_float(t->elem))
		return infer_expect(x, i, bools ? "integers or bools" : "integers");
	if (t->elem == TY_BOOL && !bools)
		return infer_expect(x, i, traits & ANYI ? "integers" : "integers or floats");
	return true;
}

static bool
all_equal(Infer *x, int from)
{
	for (int i = from + 1; i < x->op->nin; i++)
		if (infer_in(x, i) != infer_in(x, from))
			return infer_expect(x, i, "%s as operand %d",
			    infer_text(x, infer_in(x, from)), from + 1);
	return true;
}

RULE(same)
{
	int axis;

	if (op_info[x->op->kind].traits & ELEM)
		return elements(x, 0) && all_equal(x, 0) && infer_out(x, infer_in(x, 0));
	if (x->op->kind == OP_CONVERT && infer_in(x, 0)->kind == TYPE_TILE)
		return infer_out(x, infer_in(x, 0));    /* of pointers too */
	if (!infer_tile(x, 0) || !infer_axis(x, infer_in(x, 0), &axis))
		return false;
	return infer_out(x, infer_in(x, 0));
}

RULE(cmp)
{
	return elements(x, 0) && all_equal(x, 0) &&
	    infer_out(x, type_with_elem(x->m, infer_in(x, 0), TY_BOOL));
}

/* The type asked for, which must have operand 0's shape. */
static bool
want_shape(Infer *x)
{
	if (!infer_want(x))
		return false;
	if (!type_same_shape(x->want[0], infer_in(x, 0)))
		return infer_fail(x, "the result type is %s; expected the shape of operand 1, %s",
		    infer_text(x, x->want[0]), infer_text(x, infer_in(x, 0)));
	return true;
}

RULE(cast)
{
	if (!infer_tile(x, 0) || !want_shape(x))
		return false;
	if (x->want[0]->ptr != PTR_NONE)
		return infer_fail(x, "the result type is %s; a cast gives no pointers",
		    infer_text(x, x->want[0]));
	return infer_out(x, x->want[0]);
}

RULE(lookup)
{
	if (!infer_int_tile(x, 0) || !want_shape(x))
		return false;
	if (x->want[0]->ptr != PTR_NONE || dtype_is_packed(x->want[0]->elem))
		return infer_fail(x, "the result type is %s; a table holds numbers of 8 bits or more, or bools",
		    infer_text(x, x->want[0]));
	return infer_out(x, x->want[0]);
}

static int
bits(const Type *t)
{
	return t->ptr == PTR_NONE ? dtype_info[t->elem].bits : 64;
}

static bool
is_bool(const Type *t)
{
	return t->ptr == PTR_NONE && t->elem == TY_BOOL;
}

RULE(bitcast)
{
	const Type *t = infer_in(x, 0);

	if (t->kind != TYPE_TILE || is_bool(t))
		return infer_expect(x, 0, "a tile of numbers or pointers");
	if (!want_shape(x))
		return false;
	if (is_bool(x->want[0]) || bits(x->want[0]) != bits(t))
		return infer_fail(x, "the result type is %s; expected elements of %d bits as in %s",
		    infer_text(x, x->want[0]), bits(t), infer_text(x, t));
	return infer_out(x, x->want[0]);
}

RULE(ptr_add)
{
	const Type *p = infer_in(x, 0);

	if (p->kind != TYPE_TILE || p->ptr == PTR_NONE)
		return infer_expect(x, 0, "pointers");
	if (!infer_int_tile(x, 1))
		return false;
	if (!type_same_shape(p, infer_in(x, 1)))
		return infer_expect(x, 1, "the shape of operand 1, %s", infer_text(x, p));
	return infer_out(x, p);
}

RULE(ptr_diff)
{
	const Type *a = infer_in(x, 0), *b = infer_in(x, 1);

	if (a->kind != TYPE_TILE || a->ptr == PTR_NONE)
		return infer_expect(x, 0, "pointers");
	if (b->kind != TYPE_TILE || b->ptr == PTR_NONE || b->elem != a->elem || !type_same_shape(a, b))
		return infer_expect(x, 1, "pointers as operand 1, %s", infer_text(x, a));
	return infer_out(x, type_with_elem(x->m, a, TY_I64));
}

RULE(select)
{
	const Type *t = infer_in(x, 1);

	if (t->kind != TYPE_TILE)
		return infer_expect(x, 1, "a tile");
	return infer_type(x, 0, type_with_elem(x->m, t, TY_BOOL)) && all_equal(x, 1) && infer_out(x, t);
}

RULE(philox)
{
	if (!infer_i64(x, 0) || !infer_int_tile(x, 1))
		return false;
	return ALL_OF(i, 4, infer_out(x, type_with_elem(x->m, infer_in(x, 1), TY_U32)));
}

RULE(loop)
{
	int first = x->op->kind == OP_FOR ? 3 : 0;

	if (!infer_count(x, first, INT32_MAX))
		return false;
	if (!ALL_OF(i, first, infer_i64(x, i)))
		return false;
	if (attr_dynamic(x->op) && (!infer_count(x, 4, INT32_MAX) || !infer_i64(x, 3)))
		return false;
	for (int i = first; i < x->op->nin; i++) {
		if (infer_in(x, i)->kind != TYPE_TILE && infer_in(x, i)->kind != TYPE_TOKEN)
			return infer_expect(x, i, "a tile or a token");
		if (!infer_out(x, infer_in(x, i)))
			return false;
	}
	return true;
}

RULE(branch)
{
	return infer_type(x, 0, type_scalar(x->m, TY_BOOL)) && wanted_tiles(x);
}

typedef bool Rule(Infer *x);

static Rule *const rule[OP_COUNT] = {
#define OP(name, text, in, out, infer, traits, cost, family, rounding, meaning) [OP_##name] = infer_rule_##infer,
#include "ir/ops.def"
#undef OP
};

/* The types asked for, where there are any, must be the ones inferred. */
static bool
check_want(Infer *x)
{
	if (x->nwant == 0 && !(op_info[x->op->kind].traits & REGION))
		return true;
	if (x->nwant == 0 && x->op->kind != OP_IF)
		return true;
	if (x->nwant != *x->nout)
		return infer_fail(x, "%d result type%s given; expected %d", x->nwant,
		    x->nwant == 1 ? "" : "s", *x->nout);
	for (int i = 0; i < x->nwant; i++)
		if (x->want[i] != x->out[i])
			return infer_fail(x, "the result type is %s; expected %s",
			    infer_text(x, x->want[i]), infer_text(x, x->out[i]));
	return true;
}

bool
infer_types(Module *m, const Op *op, const Type *const *want, int nwant, const Type **out, int *nout, const char **why)
{
	Infer x = {m, op, want, nwant, out, nout, why};
	int nin = op_info[op->kind].nin;

	*nout = 0;
	if (nin != VAR && !infer_count(&x, nin, nin))
		return false;
	return attrs_check(m, op, why) && rule[op->kind](&x) && check_want(&x);
}
