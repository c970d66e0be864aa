/* roll and shift: elements move along an axis by a number that may be known only when the kernel runs.  Both are a gather
 * whose index tile counts along the axis from the source of the first element on:
 *
 *     shift(x, by, fill = v)    =>    %0 = sub iota, broadcast by             (by held within -n .. n)
 *                                     %1 = gather %x, %0
 *                                     %r = select %0 < n (unsigned), %1, broadcast v
 *
 * roll's by is first brought to 0 .. n - 1; indices below 0 then go up by n. */
#include "ir/derive.h"
#include "sema/builtin/builtin.h"

/* The operand, the axis and the distance as i64: what both take. */
typedef struct Moved {
	Value *x, *by;
	int axis;
	int64_t n;                                      /* extent of the axis */
	DType index;                                    /* only whole tensors have extents beyond i32 */
} Moved;

static bool
operands(Call *c, Moved *m)
{
	m->x = call_tile(c, 0, IS_ANY);
	if (!m->x || !call_axis(c, 2, m->x->type->rank, &m->axis))
		return false;
	m->by = val_index(c->e, &c->arg[1].val, "by");
	m->n = m->x->type->extent[m->axis];
	m->index = m->n > INT32_MAX / 2 ? TY_I64 : TY_I32;
	return m->by != NULL;
}

/* Where each element comes from: its own index less `by`, which is within -n .. n. */
static Value *
sources(Elab *e, const Moved *m, Value *by)
{
	const Type *t = type_with_elem(e->m, m->x->type, m->index);
	Value *along = build_iota(&e->b, t, m->axis);
	return build2(&e->b, OP_SUB, along, build1(&e->b, OP_BROADCAST, ir_convert(e, by, m->index), t));
}

static Value *
gather(Elab *e, const Moved *m, Value *from)
{
	Attr axis = attr_new_axis(e->m, m->axis);
	return op_make(&e->b, OP_GATHER, (Value *[]){m->x, from}, 2, &axis, 1, NULL, 0)->out;
}

Val
move_roll(Call *c)
{
	Elab *e = c->e;
	Moved m;
	if (!operands(c, &m))
		return val_poison(c->place);
	Value *n = ir_const_int(e, TY_I64, m.n);
	Value *turns = build2(&e->b, OP_FLOORDIV, m.by, n);
	Value *from = sources(e, &m, build2(&e->b, OP_SUB, m.by, build2(&e->b, OP_MUL, turns, n)));
	Value *below = build2(&e->b, OP_LT, from, build_int(&e->b, from->type, 0));
	Value *up = build2(&e->b, OP_ADD, from, build_int(&e->b, from->type, m.n));
	return val_tile(c->place, gather(e, &m, build3(&e->b, OP_SELECT, below, up, from)));
}

Val
move_shift(Call *c)
{
	Elab *e = c->e;
	Moved m;
	if (!operands(c, &m))
		return val_poison(c->place);
	const Type *t = m.x->type;
	const Val *fill = &c->arg[3].val;
	bool is_zero = fill->kind == VAL_INT && fill->i == 0 && t->elem != TY_BOOL;
	Val none = val_bool(c->place, false);
	Value *other = stored_value(e, "shift", is_zero || c->arg[3].e ? fill : &none, t->elem, t->rank, t->extent,
	    c->arg[3].place);
	if (!other)
		return val_poison(c->place);
	Value *by = build2(&e->b, OP_MAX, m.by, ir_const_int(e, TY_I64, -m.n));
	Value *from = sources(e, &m, build2(&e->b, OP_MIN, by, ir_const_int(e, TY_I64, m.n)));
	Value *v = gather(e, &m, from);
	if (is_zero)
		return val_tile(c->place, v);
	Value *place = ir_convert(e, from, m.index == TY_I64 ? TY_U64 : TY_U32);
	Value *inside = build2(&e->b, OP_LT, place, build_int(&e->b, place->type, m.n));
	return val_tile(c->place, build3(&e->b, OP_SELECT, inside, v, other));
}
