/* The address of an element that an access moves, by evaluating its indices.
 *
 *     %i = iota : i64[128]              lane 0: 0, lane 1: 1 …        x[i * 3] of f32[N]: 12 bytes apart
 *     %r = read %ids …                  some number, another for each element
 *     %v = read %x, %r, %j {"gg"}       of f32[N, 64]: an unknown row begins on a sector all the same; of i8[N, 200] at
 *                                       some multiple of 200 bytes, and two have no more than one sector in common
 *
 * Indices are evaluated element by element for one program, in one trip of each loop, with the sizes, strides and scalars
 * of one launch.  A number that data gives is not known; what arithmetic leaves known of it is its `unit`: it differs from
 * the number that stands for it by a multiple of that.  Different elements of data count as different numbers, which no
 * data can make worse.  A scalar of data is the same for all lanes: a guess stands for it, 0 or one that puts a tile's
 * start at a sector's end.  What is compared with a guess is taken as inside, and of two values that a guess chooses the
 * one that is no constant counts. */
#include "compile/address.h"

#include "num/num.h"
#include "pass/layout/axis.h"

#include <stdlib.h>

enum { SECTOR_BITS = 256, STEPS_MOST = 512, BASE_LOG = 44, APART = 65537, UNIT_LOG_MOST = 40,
       ASTRIDE = 31 };                                  /* elements of 1 byte or more: the next sector is one element on */

/* Beyond any tensor: where pass pad_shape puts the elements that pad a dimension of an access by indices. */
static const int64_t OUTSIDE_ALL = INT64_C(1) << 40;

static Num number(Walk *w, const Value *v, const int64_t *at);

const InspectArg *
walk_arg(const Walk *w, const Value *v)
{
	return !v->def && !v->block->parent && w->arg[v->index].known ? &w->arg[v->index] : NULL;
}

/* ---- what is not known ---- */

static int64_t
linear_at(const Type *t, const int64_t *at)
{
	int64_t n = 0;
	for (int d = 0; d < t->rank; d++)
		n = n * t->extent[d] + at[d];
	return n;
}

/* An element of data: a number of its own. */
static Num
data(Walk *w, const Value *v, const int64_t *at)
{
	if (v->type->rank == 0)
		return (Num){.v = w->nth * ASTRIDE, .f = 1, .is_guess = true};
	int salt = v->def ? v->def->place.line * 131 + v->def->place.col : v->index;
	return (Num){.v = (linear_at(v->type, at) + 1) * APART + salt, .unit = 1};
}

static int64_t
unit_scaled(int64_t unit, int64_t by)
{
	int64_t low = by & -by;
	return unit >= INT64_C(1) << UNIT_LOG_MOST || low >= INT64_C(1) << UNIT_LOG_MOST || low < 0
	    ? INT64_C(1) << UNIT_LOG_MOST : MIN(unit * low, INT64_C(1) << UNIT_LOG_MOST);
}

/* Of a sum; an exact part adds nothing. */
static int64_t
unit_of_both(int64_t a, int64_t b)
{
	return a == 0 || b == 0 ? MAX(a, b) : MIN(a, b);
}

static int64_t
wrapping_mul(int64_t a, int64_t b)
{
	return (int64_t)((uint64_t)a * (uint64_t)b);
}

static int64_t
wrapping_add(int64_t a, int64_t b)
{
	return (int64_t)((uint64_t)a + (uint64_t)b);
}

/* Of operands of which one at least is not exact: a number that differs where they do. */
static Num
mixed(const Op *op, const Num *in)
{
	Num r = {.v = (int64_t)op->kind, .unit = 1};
	for (int i = 0; i < op->nin; i++)
		r.v = wrapping_add(wrapping_mul(r.v, APART), in[i].v);
	return r;
}

static Num
inexact(const Op *op, const Num *in)
{
	const Num *a = &in[0], *b = &in[1];
	switch (op->kind) {
	case OP_CAST:
		return *a;
	case OP_ADD:
		return (Num){.v = wrapping_add(a->v, b->v), .unit = unit_of_both(a->unit, b->unit)};
	case OP_SUB:
		return (Num){.v = wrapping_add(a->v, wrapping_mul(b->v, -1)), .unit = unit_of_both(a->unit, b->unit)};
	case OP_MUL:
		if (a->unit && b->unit)
			return mixed(op, in);
		if ((a->unit ? b->v : a->v) == 0)
			return (Num){0};
		return (Num){.v = wrapping_mul(a->v, b->v),
		    .unit = a->unit ? unit_scaled(a->unit, b->v) : unit_scaled(b->unit, a->v)};
	case OP_SHL:
		if (b->unit || b->v < 0 || b->v >= UNIT_LOG_MOST)
			return mixed(op, in);
		return (Num){.v = wrapping_mul(a->v, INT64_C(1) << b->v),
		    .unit = unit_scaled(a->unit, INT64_C(1) << b->v)};
	default:
		return mixed(op, in);
	}
}

/* ---- elements of numbers and pointers; a pointer is bits from address 0 ---- */

/* Of programs or trips that are numbered up to `last`. */
static int64_t
nth_of(const Walk *w, int64_t last)
{
	return w->wraps ? w->nth % (last + 1) : MIN(w->nth, last);
}

/* A loop's counter in the trip that is looked at, or in its last one. */
static Num
counter(Walk *w, const Op *loop, const int64_t *at)
{
	Num from = number(w, loop->in[0], at), to = number(w, loop->in[1], at), step = number(w, loop->in[2], at);
	bool known = from.unit == 0 && to.unit == 0 && step.unit == 0 && step.v != 0 && !to.is_guess;
	int64_t most = known ? MAX(wrapping_add(to.v, -from.v - (step.v > 0 ? 1 : -1)) / step.v, 0) : w->nth;
	return (Num){.v = wrapping_add(from.v, wrapping_mul(step.v, nth_of(w, most))),
	    .is_guess = from.is_guess || step.is_guess};
}

/* Has it anything that was read?  Within so many steps. */
static bool
is_of_data(const Value *v, int *steps)
{
	const Op *op = v->def;
	return op && (*steps)-- > 0 &&
	    (op_has(op, READS) || ANY_OF(i, op->nin, is_of_data(op->in[i], steps)));
}

/* What a loop begins with stands for what it carries, but for a tile that data has changed by the second trip, as the
 * bounds of a binary search. */
static Num
carried(Walk *w, const Op *loop, const Value *v, int at_yield, const Value *begin, const int64_t *at)
{
	int steps = STEPS_MOST;
	const Op *yield = loop->region[loop->nregion - 1]->last;
	bool changed = v->type->rank > 0 && (w->nth > 0 || w->later) && is_of_data(yield->in[at_yield], &steps);
	return changed ? data(w, v, at) : number(w, begin, at);
}

static Num
argument(Walk *w, const Value *v, const int64_t *at)
{
	const Op *owner = v->block->parent;
	if (!owner && v->block->func->param[v->index].kind == PARAM_POINTER)
		return (Num){.v = (int64_t)v->index << BASE_LOG};
	if (!owner) {
		const InspectArg *a = walk_arg(w, v);
		return a ? (Num){.v = a->value} : data(w, v, at);
	}
	if (owner->kind == OP_FOR && v->index == 0)
		return counter(w, owner, at);
	if (owner->kind == OP_FOR)
		return carried(w, owner, v, v->index - 1, owner->in[2 + v->index], at);
	return owner->kind == OP_WHILE ? carried(w, owner, v, v->index, owner->in[v->index], at) : data(w, v, at);
}

static Num
elementwise(Walk *w, const Op *op, const int64_t *at)
{
	enum { MOST = 3 };
	Attr in[MOST], value;
	Num x[MOST];
	bool exact = true, guess = false;
	bool real = dtype_is_float(op->out[0].type->elem);
	if (op->nin > MOST)
		return data(w, &op->out[0], at);
	for (int i = 0; i < op->nin; i++) {
		DType elem = op->in[i]->type->elem;
		bool is_real = dtype_is_float(elem);
		if (!dtype_is_int(elem) && elem != TY_BOOL && !is_real)
			return data(w, &op->out[0], at);
		x[i] = number(w, op->in[i], at);
		exact &= x[i].unit == 0;
		guess |= x[i].is_guess;
		real |= is_real;
		in[i] = is_real ? attr_float_value(x[i].f) : attr_int_value(x[i].v);
	}
	if (!exact && !real)
		return inexact(op, x);
	if (!exact || !elem_fold(op, in, &value))
		return data(w, &op->out[0], at);
	return value.kind == KIND_FLOAT ? (Num){.f = value.f, .is_guess = guess} : (Num){.v = value.i, .is_guess = guess};
}

/* The operand's element that a shape op hands on. */
static Num
moved(Walk *w, const Op *op, const int64_t *at)
{
	const Type *from = op->in[0]->type, *to = op->out[0].type;
	int64_t c[MAX_RANK] = {0}, linear = linear_at(to, at);
	for (int d = from->rank - 1; d >= 0; d--) {
		if (op->kind == OP_RESHAPE) {
			c[d] = linear % from->extent[d];
			linear /= from->extent[d];
		} else {
			c[d] = from->extent[d] == 1 ? 0 : at[d];
		}
	}
	const IntList *dims = op->kind == OP_PERMUTE ? attr_dims(op) : NULL;
	for (int d = 0; dims && d < to->rank; d++)
		c[dims->at[d]] = at[d];
	if (op->kind == OP_FLIP) {
		int64_t axis = attr_axis(op);
		c[axis] = from->extent[axis] - 1 - at[axis];
	}
	return number(w, op->in[0], c);
}

static Num
pointer_add(Walk *w, const Op *op, const int64_t *at)
{
	Num from = number(w, op->in[0], at), by = number(w, op->in[1], at);
	int64_t bits = dtype_info[op->out[0].type->elem].bits;
	return (Num){.v = wrapping_add(from.v, wrapping_mul(by.v, bits)), .is_guess = from.is_guess || by.is_guess,
	    .unit = unit_of_both(from.unit, by.unit ? unit_scaled(by.unit, bits) : 0)};
}

/* The same at every element. */
static bool
is_constant(const Value *v)
{
	while (v->def && (v->def->kind == OP_BROADCAST || v->def->kind == OP_CONVERT || v->def->kind == OP_CAST))
		v = v->def->in[0];
	return v->def && v->def->kind == OP_CONST;
}

static Num
selected(Walk *w, const Op *op, const int64_t *at)
{
	Num c = number(w, op->in[0], at);
	if (c.is_guess)
		c = (Num){.v = !is_constant(op->in[1])};
	if (c.unit == 0)
		return number(w, op->in[c.v ? 1 : 2], at);
	const Num x[] = {c, number(w, op->in[1], at), number(w, op->in[2], at)};
	return mixed(op, x);
}

/* Of the axis along which a block computes for neighbours as for one (pass batch), so many, by which blocks begin. */
static int64_t
neighbours(const Op *op)
{
	const Op *first = op->kind == OP_PROGRAM_AT && attr_axis(op) == attr_along(op) ? op->in[0]->def : NULL;
	const Attr *n = first && first->kind == OP_MUL ? value_const(first->in[1]) : NULL;
	return n && n->i == attr_ranks(op) ? n->i : 1;
}

/* The program of an axis that is looked at, or its last one.  Every axis is gone over evenly, and
 * each beside other programs of the rest: of a triangle not the diagonal alone. */
enum { TURN = 32, SHIFT = 421 };

static Num
program(const Walk *w, const Op *op)
{
	int64_t dim = attr_dim(op), per = attr_per(op), by = neighbours(op);
	const InspectArg *count = dim >= 0 && per > 0 ? &w->arg[dim] : NULL;
	if (w->wraps && !(count && count->known))
		return (Num){.is_guess = true};
	Walk turn = {.nth = w->nth + (w->wraps ? attr_axis(op) * SHIFT * (w->nth / TURN) : 0),
	    .wraps = w->wraps};
	return (Num){
	    .v = count && count->known ? nth_of(&turn, MAX(count->value - 1, 0) / per / by) * by : w->nth};
}

static Num
extent(Walk *w, const Op *op, const int64_t *at)
{
	const InspectArg *a = walk_arg(w, op->in[0]);
	int64_t axis = attr_axis(op);
	return a ? (Num){.v = op->kind == OP_DIM ? a->dim[axis] : a->stride[axis]} : data(w, &op->out[0], at);
}

static Num
evaluated(Walk *w, const Value *v, const int64_t *at)
{
	const Op *op = v->def;
	if (++w->steps > STEPS_MOST)
		return data(w, v, at);
	if (!op)
		return argument(w, v, at);
	switch (op->kind) {
	case OP_CONST:
		return attr_value(op)->kind != KIND_FLOAT ? (Num){.v = attr_value(op)->i} : (Num){.f = attr_value(op)->f};
	case OP_IOTA:
		return (Num){.v = at[attr_axis(op)]};
	case OP_PROGRAM_ID:
		return program(w, op);
	case OP_PROGRAM_AT: case OP_BLOCK_ID:
		return w->wraps && op->kind == OP_PROGRAM_AT ? program(w, op)
			   : (Num){.v = w->nth * (op->kind == OP_PROGRAM_AT ? neighbours(op) : 1), .is_guess = w->wraps};
	case OP_SPLIT_RANK:
		return (Num){0};
	case OP_DIM: case OP_STRIDE:
		return extent(w, op, at);
	case OP_RESHAPE: case OP_BROADCAST: case OP_CONVERT: case OP_PERMUTE: case OP_FLIP:
		return moved(w, op, at);
	case OP_PTR_ADD:
		return pointer_add(w, op, at);
	case OP_SELECT:
		return selected(w, op, at);
	default:
		return op_info[op->kind].traits & ELEM ? elementwise(w, op, at) : data(w, v, at);
	}
}

/* What is computed for a scalar is the same at every element; it counts its steps each time. */
static Num
number(Walk *w, const Value *v, const int64_t *at)
{
	int before = w->steps;
	Scalar *kept = w->scalar ? &w->scalar[((uintptr_t)v >> 6) % SCALARS] : NULL;
	if (!kept || v->type->rank > 0 || (v->def ? v->def->nin == 0 : !v->block->parent))
		return evaluated(w, v, at);
	if (kept->v == v && before + kept->steps <= STEPS_MOST) {
		w->steps += kept->steps;
		return kept->n;
	}
	Num n = evaluated(w, v, at);
	if (w->steps <= STEPS_MOST)
		*kept = (Scalar){v, w->steps - before, n};
	return n;
}

static Num
first_step(Walk *w, const Value *v, const int64_t *at)
{
	w->steps = 0;
	return number(w, v, at);
}

/* ---- where an element of an access lies ---- */

bool
address_scalar(Walk *w, const Value *v, int64_t *n)
{
	const int64_t at[MAX_RANK] = {0};
	Num x = first_step(w, v, at);
	*n = x.v;
	return x.unit == 0 && !x.is_guess && v->type->rank == 0;
}

int64_t
address_extent(const InspectArg *x, const Op *access, int d)
{
	int64_t n = x->dim[d];
	for (int i = 1; i <= access_merged(access, d); i++)
		n = wrapping_mul(n, x->dim[d - i]);
	return n;
}

/* Bits from the tensor's start to the element at[] of the tile that `op` moves; an index tile has some of its
 * coordinates. */
static Where
tensor_at(Walk *w, const Op *op, const int64_t *at, int64_t *bits)
{
	const InspectArg *x = walk_arg(w, op->in[0]);
	const char *index = attr_index(op);
	int size = dtype_info[op->in[0]->type->elem].bits, tile = 0, gathered = -1;
	if (!x)
		return AT_UNKNOWN;
	*bits = 0;
	for (int d = 0; index[d]; d++) {
		const Value *v = op->in[1 + d];
		int64_t step = x->stride[d] * size;
		bool is_gather = index[d] == 'g';
		if (is_gather && gathered < 0) {
			gathered = tile;
			tile += v->type->rank;
		}
		Num i = first_step(w, v, is_gather ? at + gathered : at);
		w->takes_data |= i.unit != 0;
		w->takes_guess |= i.is_guess;
		if (i.unit && step && unit_scaled(i.unit, step) % SECTOR_BITS) {
			if ((double)i.unit * (double)llabs(step) < SECTOR_BITS)
				return AT_UNKNOWN;
			w->takes_guess = true;
		}
		i.v += index[d] == 'p' ? at[tile++] : 0;
		if (i.unit == 0 && i.v >= OUTSIDE_ALL)
			return AT_OUTSIDE;
		if (i.unit == 0 && !i.is_guess && !w->all_inside && (i.v < 0 || i.v >= address_extent(x, op, d)))
			return AT_OUTSIDE;
		*bits = wrapping_add(*bits, wrapping_mul(i.v, step));
	}
	return AT_KNOWN;
}

static Where
pointer_at(Walk *w, const Op *op, const int64_t *at, int64_t *bits)
{
	const Value *mask = access_mask(op);
	Num on = mask ? first_step(w, mask, at) : (Num){.v = 1}, p;
	if (on.unit == 0 && !on.is_guess && !w->all_inside && !on.v)
		return AT_OUTSIDE;
	p = first_step(w, op->in[0], at);
	w->takes_data |= p.unit != 0;
	w->takes_guess |= p.is_guess;
	*bits = p.v;
	return p.unit % SECTOR_BITS ? AT_UNKNOWN : AT_KNOWN;
}

Where
address_at(Walk *w, const Op *op, const Type *tile, const Layout *l, int lane, int reg, int64_t *bits)
{
	const IntList *valid = attr_valid(op);
	int64_t at[MAX_RANK] = {0};
	uint64_t packed = f2_apply(&l->map, (uint64_t)lane << l->in[IN_REGISTER] | (uint64_t)reg);
	for (int d = 0; d < tile->rank; d++) {
		at[d] = (int64_t)(packed >> layout_out_at(l, d) & ((UINT64_C(1) << l->out[d]) - 1));
		if (valid && at[d] >= valid->at[d])
			return AT_OUTSIDE;
	}
	return op->in[0]->type->kind == TYPE_TENSOR ? tensor_at(w, op, at, bits) : pointer_at(w, op, at, bits);
}
