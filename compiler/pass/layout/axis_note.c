/* Pass axis: what the analysis says of accesses, masks and integers, written down for the passes and the lowering behind.
 *
 *     %c = lt %i, %n : bool[64]                          %v = load %p                      %i is below %n
 *     %v = load %p, %c                             =>    %r = read %x, %k {inside = [1]}   no test of bounds
 *     %r = read %x, %k                                   %m = ge %j, %e {equal = 4}        computed once for four
 *     %m = ge %j, %e                                     %s = cast %q : i8                 %q is -8 to 7
 *     %f = cast %q : bf16                                %f = cast %s : bf16
 *     %b = and %m, %true                                 %m in place of %b
 *
 * What it writes must follow from the analysis wherever a module claims AXES: the verifier derives it anew. */
#include "ir/derive.h"
#include "pass/layout/axis.h"
#include "pass/pass.h"

void
access_note_inside(Op *op)
{
	Module *m = op->home->func->module;
	int64_t inside[MAX_RANK];
	int rank = op->in[0]->type->rank;
	bool any = false;
	for (int d = 0; d < rank; d++) {
		inside[d] = access_is_inside(op, d);
		any |= inside[d];
	}
	if (any)
		attr_set_inside(m, op, inside, rank);
}

/* A bool or an integer that turned out to be one number. */
static void
make_constant(Op *op)
{
	Value *v = &op->out[0];
	const AxisInfo *x = axis_of(v);
	bool is_bool = v->type->elem == TY_BOOL;
	if (op->kind == OP_CONST || v->type->ptr != PTR_NONE || !axis_is_known(x) || v->nuses == 0 ||
	    !(is_bool || dtype_is_int(v->type->elem)) || v->type->elem == TY_U64)
		return;
	Builder b = build_before(op);
	Value *c = build_int(&b, v->type, x->lo);
	c->name = v->name;
	value_replace(v, c);
}

/* One of an op's operands, where what is known of another makes the result equal to it: a mask beside one that is always
 * true, a choice by a mask that is. */
static Value *
chosen(const Op *op)
{
	const AxisInfo *l, *r;
	bool joins = (op->kind == OP_AND || op->kind == OP_OR) && op->out[0].type->elem == TY_BOOL;
	if (!joins && op->kind != OP_SELECT)
		return NULL;
	l = axis_of(op->in[0]);
	if (!joins)
		return axis_is_known(l) ? op->in[l->lo ? 1 : 2] : NULL;
	r = axis_of(op->in[1]);
	int64_t same = op->kind == OP_AND;
	bool left = axis_is_known(l) && l->lo == same, right = axis_is_known(r) && r->lo == same;
	return left ? op->in[1] : right ? op->in[0] : NULL;
}

/* Of how many neighbours along the last dimension an integer or a mask is known to be equal; 1: not known. */
static int64_t
equal_group(const Op *op)
{
	const Value *v = &op->out[0];
	int rank = v->type->rank, equal = rank > 0 ? axis_of(v)->equal[rank - 1] : 0;
	bool counts = v->type->elem == TY_BOOL || dtype_is_int(v->type->elem);
	bool fits = counts && v->type->ptr == PTR_NONE && (op_info[op->kind].traits & ELEM);
	return fits ? INT64_C(1) << MIN(equal, 30) : 1;
}

/* ---- integers that become floats ---- */

enum { F16_EXACT = 1 << 11, BF16_EXACT = 1 << 8, DEPTH = 4 };   /* integers up to here are theirs */

static bool
is_between(const Value *v, int64_t lo, int64_t hi)
{
	const AxisInfo *x = axis_of(v);
	return x->lo >= lo && x->hi <= hi;
}

/* What was widened, before that: the same numbers. */
static Value *
unwidened(Value *v)
{
	for (const Op *op = v->def; op && op->kind == OP_CAST && dtype_is_int(op->in[0]->type->elem) &&
	    op->in[0]->type->elem != TY_U64; op = v->def) {
		const AxisInfo *x = axis_of(op->in[0]);
		AxisInfo all = axis_unknown(op->out[0].type);
		if (x->lo < all.lo || x->hi > all.hi)
			break;
		v = op->in[0];
	}
	return v;
}

/* The integers as floats, by way of narrow ones where they are known to be small: exactly, and by additions instead of the
 * slow unit (lower/math/cast.c). */
static Value *
cast_narrow(Builder *b, Value *v, DType to)
{
	static const DType narrow[] = {TY_U8, TY_I8, TY_I16, TY_U16};
	int64_t n;
	if (value_int(v, &n))
		return build_int(b, type_with_elem(b->m, v->type, to), n);
	v = unwidened(v);
	for (int i = 0; i < LEN(narrow) && dtype_info[v->type->elem].bits >= 32; i++) {
		const Type *small = type_with_elem(b->m, v->type, narrow[i]);
		AxisInfo all = axis_unknown(small);
		if (!is_between(v, all.lo, all.hi))
			continue;
		v = build1(b, OP_CAST, v, small);
		break;
	}
	return build1(b, OP_CAST, v, type_with_elem(b->m, v->type, to));
}

/* Does no element of the sum or difference wrap, and are all exact of a float that has integers up to `most`? */
static bool
is_exact_sum(const Op *op, int64_t most)
{
	const Value *x = op->in[0], *y = op->in[1];
	AxisInfo all = axis_unknown(op->out[0].type);
	if (!is_between(x, -most, most) || !is_between(y, -most, most))
		return false;
	bool adds = op->kind == OP_ADD;
	int64_t lo = axis_of(x)->lo + (adds ? axis_of(y)->lo : -axis_of(y)->hi);
	int64_t hi = axis_of(x)->hi + (adds ? axis_of(y)->hi : -axis_of(y)->lo);
	return lo >= MAX(all.lo, -most) && hi <= MIN(all.hi, most);
}

/* Sums and differences of small integers are as exact of halves, which the machine adds two at once: what a zero point is
 * taken from is then a byte or a field of a word. */
static Value *
cast_halves(Builder *b, Value *v, DType to, int depth)
{
	int64_t most = to == TY_F16 ? F16_EXACT : BF16_EXACT;
	const Op *op = unwidened(v)->def;
	if (op && op->kind == OP_BROADCAST && depth > 0) {
		Value *in = cast_narrow(b, op->in[0], to);
		return build1(b, OP_BROADCAST, in, type_with_elem(b->m, v->type, to));
	}
	if (!op || (op->kind != OP_ADD && op->kind != OP_SUB) || depth == 0 || !is_exact_sum(op, most))
		return cast_narrow(b, v, to);
	Value *in[2];
	for (int i = 0; i < 2; i++)
		in[i] = cast_halves(b, op->in[i], to, depth - 1);
	return build2(b, op->kind, in[0], in[1]);
}

/* False: it stays as it is. */
static bool
narrow_cast(Op *op)
{
	const Type *from = op->in[0]->type, *to = op->out[0].type;
	bool counts = dtype_is_int(from->elem) && from->elem != TY_U64 && from->ptr == PTR_NONE && to->rank > 0 &&
	    (to->elem == TY_F16 || to->elem == TY_BF16 || (to->elem == TY_F32 && dtype_info[from->elem].bits >= 32));
	if (!counts || op->out[0].layout)
		return false;
	Builder b = build_before(op);
	Value *v = to->elem == TY_F32 ? cast_narrow(&b, op->in[0], to->elem) : cast_halves(&b, op->in[0], to->elem, DEPTH);
	if (v->def->kind == OP_CAST && v->def->in[0] == op->in[0]) {
		op_erase(v->def);
		return false;
	}
	op_become(op, v);
	return true;
}

/* True if the op's uses have become another's. */
static bool
leave_out(Op *op)
{
	Value *v = op->nout == 1 && op->out[0].nuses && !op->out[0].layout ? chosen(op) : NULL;
	if (v)
		value_replace(&op->out[0], v);
	return v != NULL;
}

static void
note_op(Op *op)
{
	Module *m = op->home->func->module;
	if (op->nout == 1 && (op_info[op->kind].traits & PURE) && !op->nregion && !op->out[0].layout)
		make_constant(op);
	switch (op->kind) {
	case OP_READ: case OP_WRITE: case OP_ATOMIC:
		access_note_inside(op);
		break;
	case OP_CAST:
		if (narrow_cast(op))
			break;
		/* fallthrough */
	default:
		if (op->nout == 1 && equal_group(op) > 1)
			attr_set_equal(m, op, equal_group(op));
		break;
	}
}

void
pass_axis(Func *f, const Target *t)
{
	bool changed = false;
	axis_keep(f);
	for (EACH_OP(op, f->body)) {
		if (leave_out(op))
			changed = true;
		else
			note_op(op);
	}
	if (changed)
		sweep(f);
	func_number(f);
}

const char *
check_axes(Func *f, const Target *t, const Op **at)
{
	(void)t;
	f->has_axes = false;
	axis_keep(f);
	for (const Op *op = f->body->first; op; op = op_after(op, f->body)) {
		const IntList *inside = op->kind == OP_COPY ? NULL : attr_inside(op);
		*at = op;
		for (int d = 0; inside && d < MIN(inside->n, op->in[0]->type->rank); d++)
			if (inside->at[d] && !access_is_inside(op, d))
				return "{inside} of a dimension along which the access may leave the tensor";
		if (op->nout == 1 && attr_equal(op) > equal_group(op))
			return "{equal} of more neighbours than are known to be equal";
	}
	return NULL;
}
