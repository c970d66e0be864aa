/* Prints that show tiles: those of --trace, whose elements are printed, and those of --break-nan, which are tested
 * (pass/shape/nan_check.c).  Only the emulator has them: it takes elements with their numbers in the tile before padding,
 * without the padding. */
#include "lower/lower.h"

/* The bits of an element, as they stand in memory, in the low part of a word. */
static Reg
element_bits(Lower *l, const Type *t, Reg r)
{
	RegType bits = t->elem == TY_F64 ? REG_I64 : REG_I32;
	if (t->ptr != PTR_NONE)
		return lower_as(l, CAST_BITS, REG_I64, r);
	if (!dtype_is_float(t->elem))
		return lower_cast_one(l, t->elem, dtype_is_signed(t->elem) ? TY_I64 : TY_U64, r);
	if (bits == REG_I32)
		r = lower_widen(l, t->elem, r);
	r = lower_as(l, CAST_BITS, bits, r);
	return bits == REG_I32 ? lower_as(l, CAST_ZEXT, REG_I64, r) : r;
}

/* The element's number in a tile of the extents before padding; *inside: whether it is in there, as it comes: it is. */
static Reg
shown_number(Lower *l, const Value *v, const IntList *valid, int r, Reg *inside)
{
	Reg sum = lower_i32(l, 0);
	int64_t stride = 1, add;
	for (int d = v->type->rank - 1; d >= 0; d--) {
		int64_t extent = valid ? valid->at[d] : v->type->extent[d];
		Reg c = lower_coordinate(l, v->layout, r, d, &add);
		c = lower_op2(l, THREAD_ADD, c, lower_i32(l, add));
		if (extent != v->type->extent[d])
			*inside = lower_both(l, *inside, lower_op2(l, THREAD_SLT, c, lower_i32(l, extent)));
		c = lower_op2(l, THREAD_MUL, c, lower_i32(l, stride));
		sum = lower_op2(l, THREAD_ADD, sum, c);
		stride *= extent;
	}
	return sum;
}

/* Each thread hands over the elements that it is the first to hold; the emulator prints a tile once it is whole. */
static void
lower_trace(Lower *l, Op *op)
{
	const Value *x = op->in[0];
	const IntList *valid = attr_valid(op);
	Reg v[2 + MAX_AXES], inside, first;
	int number = lower_number(op, l->f);
	for (int r = 0; r < lower_count(x); r++) {
		if (lower_repeats(x->layout) & (uint64_t)r)
			continue;
		first = lower_is_first_holder(l, x->layout);
		inside = 0;
		v[0] = x->layout ? shown_number(l, x, valid, r, &inside) : lower_i32(l, 0);
		v[1] = element_bits(l, x->type, lower_regs(l, x)[r]);
		for (int d = 0; d < MAX_AXES; d++)
			v[2 + d] = d < l->f->naxis ? l->program[d] : lower_i64(l, 0);
		Reg both = lower_both(l, first, inside);
		if (both)
			lower_when(l, both);
		thread_trace(l->b, number, v, 2 + MAX_AXES);
		if (both)
			lower_end_when(l);
	}
}

/* Words of tile `x`, from v[0] on: how many elements of its own the thread holds, then each one's number and bits.
 * Padding has number -1.  `first`: of its extents in {valid}. */
static int
watched_tile(Lower *l, const Value *x, const IntList *valid, int first, Reg *v)
{
	IntList own = valid ? (IntList){valid->at + first, valid->n - first} : (IntList){0};
	int n = 1;
	for (int r = 0; r < lower_count(x); r++) {
		Reg inside = 0, number = lower_i32(l, 0);
		if (lower_repeats(x->layout) & (uint64_t)r)
			continue;
		if (x->layout)
			number = shown_number(l, x, valid ? &own : NULL, r, &inside);
		v[n++] = inside ? lower_op3(l, THREAD_SELECT, inside, number, lower_i32(l, -1)) : number;
		v[n++] = element_bits(l, x->type, lower_regs(l, x)[r]);
	}
	v[0] = lower_i32(l, n / 2);
	return n;
}

/* Each thread hands over what it holds: how many threads do so, the program, and the tiles. */
static void
lower_watch(Lower *l, Op *op)
{
	const IntList *valid = attr_valid(op);
	int room = 1 + MAX_AXES, n = 0, first = 0;
	for (int i = 0; i < op->nin; i++)
		room += 1 + 2 * lower_count(op->in[i]);
	Reg *v = NEW_ARRAY(l->mem, Reg, room);
	v[n++] = lower_i32(l, l->warps * l->t->lanes);
	for (int d = 0; d < MAX_AXES; d++)
		v[n++] = d < l->f->naxis ? l->program[d] : lower_i64(l, 0);
	for (int i = 0; i < op->nin; i++) {
		n += watched_tile(l, op->in[i], valid, first, v + n);
		first += op->in[i]->type->rank;
	}
	thread_trace(l->b, lower_number(op, l->f), v, n);
}

void
lower_show(Lower *l, Op *op)
{
	if (l->t->kind != TARGET_PTX)
		lower_refuse(l, op, "printing what --trace asks for (--device=cpu and --device=simt do)");
	else if (attr_trace(op))
		lower_trace(l, op);
	else
		lower_watch(l, op);
}
