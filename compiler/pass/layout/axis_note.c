/* Pass axis: what the analysis says of accesses, masks and integers, written down for the passes and the lowering behind.
 *
 *     %c = lt %i, %n : bool[64]                          %v = load %p                      %i is below %n
 *     %v = load %p, %c                             =>    %r = read %x, %k {inside = [1]}   no test of bounds
 *     %r = read %x, %k                                   %m = ge %j, %e {equal = 4}        computed once for four
 *     %m = ge %j, %e                                     %s = cast %q : i8                 %q is -8 to 7
 *     %f = cast %q : bf16                                %f = cast %s : bf16
 *
 * What it writes must follow from the analysis wherever a module claims AXES: the verifier derives it anew. */
#include "pass/layout/axis.h"

static void
note_inside(Op *op)
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

/* A mask that is always true says nothing. */
static void
drop_mask(Op *op)
{
	const Value *mask = access_mask(op);
	if (!mask || axis_of(mask)->lo != 1)
		return;
	Builder b = build_before(op);
	Op *plain = op_make(&b, op->kind, op->in, op->kind == OP_LOAD ? 1 : 2, op->attr, op->nattr, NULL, 0);
	if (op->nout)
		plain->out[0].layout = op->out[0].layout;
	op_replace(op, plain);
}

/* Wide integers that are known to be small, as fields of a word, become floats through narrow ones: exactly, and by
 * additions instead of the slow unit (lower/math/cast.c). */
static void
narrow_cast(Op *op)
{
	static const DType narrow[] = {TY_U8, TY_I8, TY_I16, TY_U16};
	const Type *from = op->in[0]->type, *to = op->out[0].type;
	bool counts = dtype_is_int(from->elem) && from->elem != TY_U64 && dtype_info[from->elem].bits >= 32 &&
	    from->ptr == PTR_NONE && dtype_is_float(to->elem) && to->rank > 0;
	for (int i = 0; counts && i < LEN(narrow); i++) {
		const Type *small = type_with_elem(op->home->func->module, from, narrow[i]);
		AxisInfo all = axis_unknown(small);
		const AxisInfo *x = axis_of(op->in[0]);
		if (x->lo < all.lo || x->hi > all.hi)
			continue;
		Builder b = build_before(op);
		op_set_in(op, 0, build1(&b, OP_CAST, op->in[0], small));
		return;
	}
}

static void
note_op(Op *op)
{
	Module *m = op->home->func->module;
	if (op->nout == 1 && (op_info[op->kind].traits & PURE) && !op->nregion && !op->out[0].layout)
		make_constant(op);
	switch (op->kind) {
	case OP_READ: case OP_WRITE: case OP_ATOMIC:
		note_inside(op);
		break;
	case OP_LOAD: case OP_STORE:
		drop_mask(op);
		break;
	case OP_CAST:
		narrow_cast(op);
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
	axis_keep(f);
	for (Op *op = f->body->first, *next; op; op = next) {
		next = op_after(op, f->body);
		note_op(op);
	}
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
